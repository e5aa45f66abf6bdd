//===- CudaLaunches.cpp - kernels and constants on a GPU ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaLaunches.h"

#include "CubinSelection.h"

#include <algorithm>
#include <map>

using namespace mpc;
using namespace mpc::detail;

Result<std::unique_ptr<CudaLaunches>>
CudaLaunches::create(std::shared_ptr<CudaContext> context,
                     std::shared_ptr<const Program> program,
                     const CudaServices &services, GemmLibrary *library,
                     CollectiveBackend *messages) {
  std::unique_ptr<CudaLaunches> made(
      new CudaLaunches(std::move(context), std::move(program)));
  if (Status status = made->checkLimits(); !status.ok())
    return status;
  made->messages = messages;
  for (const Launch &launch : made->program->launches)
    if (launch.collective)
      made->messageWorkspace =
          std::max(made->messageWorkspace,
                   alignOnDevice(messages->workspaceBytes(launch)));
  made->steps.resize(made->program->launches.size());
  for (size_t i = 0; i < made->steps.size(); ++i) {
    made->steps[i].scratchOffset = made->scratch;
    made->scratch += alignOnDevice(made->program->launches[i].scratchBytes);
  }
  if (Status status = made->loadModules(services); !status.ok())
    return status;
  made->planOverlaps();
  if (Status status = made->prepareProducts(library); !status.ok())
    return status;
  if (Status status = made->uploadConstants(); !status.ok())
    return status;
  return made;
}

std::string CudaLaunches::describe(size_t index) const {
  const Launch &launch = program->launches[index];
  std::string text = program->name + ": kernel '" + launch.kernel + "'";
  for (size_t i = 0; i < launch.ops.size(); ++i)
    text += (i == 0 ? " (" : ", ") + launch.ops[i];
  return launch.ops.empty() ? text : text + ")";
}

/// Returns true if a launch has no blocks, because of an empty tensor.
static bool isEmpty(const Launch &launch) {
  return std::count(launch.grid.blocks.begin(), launch.grid.blocks.end(), 0) !=
         0;
}

Status CudaLaunches::checkLimits() const {
  for (size_t i = 0; i < program->launches.size(); ++i) {
    const Launch &launch = program->launches[i];
    if (launch.gemm || launch.collective)
      continue;
    auto refuse = [&](const char *what, int64_t value, int64_t least,
                      int64_t most) {
      return Status(StatusCode::InvalidArgument, describe(i),
                    std::string(what) + " is " + std::to_string(value) +
                        ", but must lie between " + std::to_string(least) +
                        " and " + std::to_string(most) + " on " +
                        context->gpu().name);
    };
    for (int d = 0; d < 3; ++d)
      if (launch.grid.blocks[d] < 0 ||
          launch.grid.blocks[d] > context->mostBlocks(d))
        return refuse("the number of blocks", launch.grid.blocks[d], 0,
                      context->mostBlocks(d));
    if (launch.grid.threads < 1 || launch.grid.threads > context->mostThreads())
      return refuse("the number of threads", launch.grid.threads, 1,
                    context->mostThreads());
    if (launch.grid.sharedBytes < 0 ||
        launch.grid.sharedBytes > context->mostSharedBytes())
      return refuse("shared memory of a block, in bytes,",
                    launch.grid.sharedBytes, 0, context->mostSharedBytes());
  }
  return {};
}

/// Returns the error that `code` has neither machine code for `gpu` nor source.
static Status noCode(const Program &program, const CudaCode &code,
                     const GpuInfo &gpu) {
  std::vector<std::string> architectures;
  architectures.reserve(code.binaries.size());
  for (const CudaCode::Binary &binary : code.binaries)
    architectures.push_back(binary.architecture);
  std::sort(architectures.begin(), architectures.end());
  architectures.erase(std::unique(architectures.begin(), architectures.end()),
                      architectures.end());
  std::string held;
  for (const std::string &name : architectures)
    held += (held.empty() ? "" : ", ") + name;
  return Status(StatusCode::Unavailable, program.name,
                "has machine code for " + (held.empty() ? "no GPU" : held) +
                    ", which does not run on " + gpu.name + " (" +
                    gpu.architecture() + "); compile it for that architecture");
}

Status CudaLaunches::loadModules(const CudaServices &services) {
  bool wanted = std::any_of(program->launches.begin(), program->launches.end(),
                            [](const Launch &launch) {
                              return !launch.gemm && !launch.collective &&
                                     !isEmpty(launch);
                            });
  if (!wanted)
    return {};
  const CudaDriver &cu = context->driver();
  const GpuInfo &gpu = context->gpu();
  if (!program->cuda)
    return Status(StatusCode::InvalidArgument, program->name,
                  "was compiled for " + program->target +
                      ", not for an NVIDIA GPU");
  const CudaCode &code = *program->cuda;
  std::vector<const CudaCode::Binary *> binaries = selectCubins(code, gpu);
  std::vector<CudaCode::Binary> compiled;
  if (binaries.empty()) {
    bool hasText = std::none_of(
        code.kernels.begin(), code.kernels.end(),
        [](const CudaCode::Kernel &kernel) { return kernel.source.empty(); });
    if (!hasText || !services.compile)
      return noCode(*program, code, gpu);
    Result<std::vector<CudaCode::Binary>> made =
        services.compile(code, nativeArchitecture(gpu));
    if (!made.ok())
      return made.status();
    compiled = std::move(*made);
    for (const CudaCode::Binary &binary : compiled)
      binaries.push_back(&binary);
  }

  std::map<std::string, CuHandle> functions;
  for (const CudaCode::Binary *binary : binaries) {
    CuHandle module = nullptr;
    if (Status status =
            context->check(cu.moduleLoadData(&module, binary->cubin.data()),
                           "cuModuleLoadData", program->name);
        !status.ok())
      return status.withNote("machine code for " + binary->architecture +
                             " on " + gpu.name + " (" + gpu.architecture() +
                             ")");
    modules.emplace_back(context, module);
    for (const std::string &name : binary->kernels) {
      CuHandle function = nullptr;
      if (Status status = context->check(
              cu.moduleGetFunction(&function, module, name.c_str()),
              "cuModuleGetFunction", program->name + ": kernel '" + name + "'");
          !status.ok())
        return status;
      functions[name] = function;
    }
  }

  if (Status status = findFunctions(functions); !status.ok())
    return status;
  return checkResidency();
}

Status
CudaLaunches::findFunctions(const std::map<std::string, CuHandle> &functions) {
  const CudaDriver &cu = context->driver();
  std::map<std::string, int64_t> shared;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Launch &launch = program->launches[i];
    if (launch.gemm || launch.collective || isEmpty(launch))
      continue;
    auto found = functions.find(launch.kernel);
    if (found == functions.end())
      return Status(StatusCode::InvalidArgument, describe(i),
                    "has no code for this device");
    steps[i].function = found->second;
    // More than 48 KB of dynamic shared memory needs an opt-in per function.
    int64_t &most = shared[launch.kernel];
    if (launch.grid.sharedBytes <= most)
      continue;
    most = launch.grid.sharedBytes;
    if (Status status = context->check(
            cu.funcSetAttribute(found->second, kCuFunctionMaxDynamicShared,
                                int(most)),
            "cuFuncSetAttribute", describe(i));
        !status.ok())
      return status;
  }
  return {};
}

/// Blocks at a grid barrier hang unless all are co-resident; the driver refuses
/// such a launch without an explanation.
Status CudaLaunches::checkResidency() const {
  const CudaDriver &cu = context->driver();
  for (size_t i = 0; i < steps.size(); ++i) {
    const LaunchGrid &grid = program->launches[i].grid;
    if (!steps[i].function || !grid.cooperative)
      continue;
    int each = 0;
    if (Status status = context->check(
            cu.occupancyMaxActiveBlocks(&each, steps[i].function,
                                        int(grid.threads),
                                        size_t(grid.sharedBytes)),
            "cuOccupancyMaxActiveBlocksPerMultiprocessor", describe(i));
        !status.ok())
      return status;
    int64_t blocks = grid.blocks[0] * grid.blocks[1] * grid.blocks[2],
            most = int64_t(each) * context->multiprocessors();
    if (blocks > most)
      return Status(StatusCode::Unavailable, describe(i),
                    "has " + std::to_string(blocks) +
                        " co-resident blocks (grid barrier), but " +
                        context->gpu().name + " runs " + std::to_string(most) +
                        " at once; use a whole GPU, or the CPU");
  }
  return {};
}

/// Returns the guaranteed alignment of each buffer of `launch`, in bytes.
static std::vector<size_t> alignmentsOf(const Launch &launch) {
  std::vector<size_t> alignments;
  for (const BufferRef &ref : launch.buffers) {
    bool callers = ref.kind == BufferRef::Kind::Argument ||
                   ref.kind == BufferRef::Kind::Result;
    size_t base = callers ? kDeviceLoadBytes
                          : static_cast<size_t>(alignOnDevice(1)),
           offset = static_cast<size_t>(ref.offset);
    alignments.push_back(offset ? std::min(base, offset & -offset) : base);
  }
  return alignments;
}

Status CudaLaunches::prepareProducts(GemmLibrary *library) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const Launch &launch = program->launches[i];
    if (!launch.gemm)
      continue;
    if (!library)
      return Status(StatusCode::Unavailable, describe(i),
                    "is a library GEMM, but no library is available; compile "
                    "with --gemm=own");
    Result<std::shared_ptr<PreparedGemm>> prepared =
        library->prepare(*launch.gemm, alignmentsOf(launch), describe(i));
    if (!prepared.ok())
      return prepared.status();
    steps[i].product = std::move(*prepared);
    workspace =
        std::max(workspace, alignOnDevice(steps[i].product->workspaceBytes()));
  }
  return {};
}

Status CudaLaunches::uploadConstants() {
  const CudaDriver &cu = context->driver();
  int64_t bytes = 0;
  for (const ProgramConstant &constant : program->constants)
    bytes += alignOnDevice(constant.bytes);
  if (bytes == 0) {
    constants.assign(program->constants.size(), 0);
    return {};
  }
  std::string where = program->name + ": constants";
  CuHandle queue = context->memoryQueue();
  Result<std::shared_ptr<void>> memory =
      context->allocate(size_t(bytes), queue, /*keep=*/nullptr, where);
  if (!memory.ok())
    return memory.status();
  constantMemory = std::move(*memory);
  CuAddress address = toCuAddress(constantMemory.get());
  Status failed;
  for (const ProgramConstant &constant : program->constants) {
    constants.push_back(address);
    if (constant.bytes && failed.ok())
      failed = context->check(cu.memcpyHtoDAsync(address, constant.data.get(),
                                                 size_t(constant.bytes), queue),
                              "cuMemcpyHtoDAsync", where);
    address += CuAddress(alignOnDevice(constant.bytes));
  }
  // The copies read host memory until the stream is done.
  Status done =
      context->check(cu.streamSynchronize(queue), "cuStreamSynchronize", where);
  return failed.ok() ? done : failed;
}

/// Minimum compute capability (major) for programmatic dependent launch
/// (kernelBegin in the prelude).
static constexpr int kLeastOverlapping = 9;

/// Marks programmatic dependent launches. Early blocks are placed on whatever
/// multiprocessors the previous kernels leave free: unless each block of all
/// overlapping kernels gets its own, some share one while others are idle,
/// which costs more than a launch (docs/Reference/GpuPerformance.md,
/// "Launches").
void CudaLaunches::planOverlaps() {
  if (context->gpu().major < kLeastOverlapping)
    return;
  int64_t together = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const LaunchGrid &grid = program->launches[i].grid;
    int64_t blocks = grid.blocks[0] * grid.blocks[1] * grid.blocks[2];
    steps[i].overlaps = i > 0 && steps[i - 1].function && steps[i].function &&
                        !grid.cooperative &&
                        together + blocks <= context->multiprocessors();
    together = blocks + (steps[i].overlaps ? together : 0);
  }
}

Status CudaLaunches::launch(size_t index, const RunMemory &memory,
                            CuHandle stream, bool early) const {
  const Launch &launch = program->launches[index];
  const Step &step = steps[index];
  std::vector<CuAddress> addresses;
  addresses.reserve(launch.buffers.size() + 1);
  for (const BufferRef &ref : launch.buffers) {
    CuAddress base = memory.arena;
    if (ref.kind == BufferRef::Kind::Argument)
      base = memory.arguments[ref.index];
    else if (ref.kind == BufferRef::Kind::Result)
      base = memory.results[ref.index];
    else if (ref.kind == BufferRef::Kind::Constant)
      base = constants[ref.index];
    else if (ref.kind == BufferRef::Kind::Checks)
      base = memory.checks;
    addresses.push_back(base + CuAddress(ref.offset));
  }
  if (launch.collective)
    return messages->enqueue(launch, addresses,
                             memory.workspace + CuAddress(workspace), stream);
  if (step.product) {
    Status status = step.product->enqueue(addresses, memory.workspace, stream);
    return status.ok() ? status : status.withNote("in " + describe(index));
  }
  if (!step.function)
    return {};
  if (launch.scratchBytes)
    addresses.push_back(memory.scratch + CuAddress(step.scratchOffset));
  std::vector<void *> parameters;
  parameters.reserve(addresses.size());
  for (CuAddress &address : addresses)
    parameters.push_back(&address);
  const LaunchGrid &grid = launch.grid;
  if (grid.cooperative)
    return context->check(
        context->driver().launchCooperativeKernel(
            step.function, unsigned(grid.blocks[0]), unsigned(grid.blocks[1]),
            unsigned(grid.blocks[2]), unsigned(grid.threads), 1, 1,
            unsigned(grid.sharedBytes), stream, parameters.data()),
        "cuLaunchCooperativeKernel", describe(index));
  if (early && step.overlaps) {
    CuLaunchAttribute overlap;
    overlap.id = kCuProgrammaticStreamSerialization;
    overlap.value = 1;
    CuLaunchConfig config;
    config.gridX = unsigned(grid.blocks[0]);
    config.gridY = unsigned(grid.blocks[1]);
    config.gridZ = unsigned(grid.blocks[2]);
    config.blockX = unsigned(grid.threads);
    config.sharedBytes = unsigned(grid.sharedBytes);
    config.stream = stream;
    config.attributes = &overlap;
    config.attributeCount = 1;
    return context->check(
        context->driver().launchKernelEx(&config, step.function,
                                         parameters.data(), nullptr),
        "cuLaunchKernelEx", describe(index));
  }
  return context->check(
      context->driver().launchKernel(
          step.function, unsigned(grid.blocks[0]), unsigned(grid.blocks[1]),
          unsigned(grid.blocks[2]), unsigned(grid.threads), 1, 1,
          unsigned(grid.sharedBytes), stream, parameters.data(), nullptr),
      "cuLaunchKernel", describe(index));
}
