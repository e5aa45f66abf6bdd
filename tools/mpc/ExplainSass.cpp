//===- ExplainSass.cpp - analysis of GPU machine code ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NVRTC compiles, NVIDIA's disassembler lists the code; neither needs a GPU.
//
//===----------------------------------------------------------------------===//

#include "Explanation.h"

#include "Runtime/CUDA/KernelCompiler.h"
#include "Runtime/Environment.h"
#include "Target/CUDA/Sass/SassTimeEstimate.h"
#include "mpc/Support/ScopedTempFolder.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdio>

using namespace mpc;
using namespace mpc::cuda;
using namespace mpc::tool;

//===----------------------------------------------------------------------===//
// The disassembler
//===----------------------------------------------------------------------===//

static Result<std::string> findDisassembler() {
  std::vector<std::string> folders;
  for (const std::string &root : mpc::detail::cudaFolders())
    folders.push_back(root + "/bin");
  llvm::append_range(folders, mpc::detail::programFolders());
  llvm::SmallVector<llvm::StringRef> places(folders.begin(), folders.end());
  llvm::ErrorOr<std::string> found =
      llvm::sys::findProgramByName("nvdisasm", places);
  if (!found)
    return Status(StatusCode::Unavailable, "--sass",
                  "needs NVIDIA's disassembler nvdisasm, which is neither in "
                  "$MPC_CUDA_DIR/bin nor on the PATH; install the CUDA toolkit "
                  "or the PyPI package nvidia-cuda-nvdisasm");
  return *found;
}

/// Disassembles a cubin.
static Result<std::string> disassemble(const std::string &program,
                                       llvm::ArrayRef<std::byte> cubin) {
  ScopedTempFolder folder("mpc-sass");
  if (!folder.ok())
    return Status(StatusCode::Unavailable, "--sass",
                  "cannot create a temporary folder");
  std::string input = folder.path("kernels.cubin"),
              output = folder.path("listing"), log = folder.path("log");
  std::error_code error;
  {
    llvm::raw_fd_ostream file(input, error);
    file.write(reinterpret_cast<const char *>(cubin.data()), cubin.size());
  }
  llvm::StringRef words[] = {program, "-c", input};
  std::optional<llvm::StringRef> redirects[] = {
      llvm::StringRef(""), llvm::StringRef(output), llvm::StringRef(log)};
  std::string message;
  int code =
      error ? -1
            : llvm::sys::ExecuteAndWait(program, words, std::nullopt, redirects,
                                        /*SecondsToWait=*/120,
                                        /*MemoryLimit=*/0, &message);
  auto text = llvm::MemoryBuffer::getFile(output);
  if (code != 0 || !text) {
    if (auto said = llvm::MemoryBuffer::getFile(log))
      message += (*said)->getBuffer().split('\n').first;
    return Status(StatusCode::Unavailable, "--sass",
                  program + " fails: " + message);
  }
  return (*text)->getBuffer().str();
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// Returns the number of elements of the largest result of kernel `name`.
static int64_t elementsOf(mlir::ModuleOp planned, const std::string &name) {
  int64_t elements = 0;
  if (auto kernel = planned.lookupSymbol<mlir::func::FuncOp>(name))
    for (mlir::Type type : kernel.getResultTypes())
      if (auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type))
        elements = std::max(elements, tensor.getNumElements());
  return elements;
}

static SassLaunch launchOf(const Launch &launch, int64_t elements) {
  SassLaunch result;
  result.blocks =
      launch.grid.blocks[0] * launch.grid.blocks[1] * launch.grid.blocks[2];
  result.threads = launch.grid.threads;
  result.dynamicShared = launch.grid.sharedBytes;
  result.flops = launch.flops;
  result.bytes = launch.bytes;
  for (const BufferRef &buffer : launch.buffers)
    if (buffer.written)
      result.writtenBytes += buffer.bytes;
  result.scratchBytes = launch.scratchBytes;
  result.elements = elements;
  return result;
}

static ExplainedSass explainLaunch(const SassKernel &kernel,
                                   const AssembledKernel &assembled,
                                   const SassLaunch &launch,
                                   const TargetInfo &target) {
  SassEstimate estimate = estimateTime(kernel, assembled, launch, target);
  ExplainedSass sass;
  sass.blocks = launch.blocks;
  sass.threads = launch.threads;
  sass.registers = assembled.registers;
  sass.spillBytes = assembled.spillBytes;
  sass.sharedMemory = assembled.sharedBytes + launch.dynamicShared;
  sass.residentBlocks = estimate.residentBlocks;
  if (int64_t loop = kernel.mainLoop(); loop >= 0) {
    SassMix mix = kernel.mixOf(loop);
    for (size_t unit = 0; unit < kSassUnits; ++unit)
      sass.mainLoop.emplace_back(nameOf(SassUnit(unit)).str(),
                                 mix[SassUnit(unit)]);
    sass.runs = estimate.runs[size_t(loop) + 1];
  }
  sass.outsidePerElement = estimate.outsidePerElement;
  sass.l2Bytes = estimate.l2Bytes;
  sass.sharedBytes = estimate.sharedBytes;
  sass.boundBy = estimate.boundBy;
  sass.seconds = estimate.seconds;
  sass.floorSeconds = estimate.floorSeconds;
  return sass;
}

Status tool::explainSass(mlir::ModuleOp planned, const Program &program,
                         const TargetInfo &target, unsigned threads,
                         Explanation &explanation) {
  if (!target.isGpu() || !program.cuda)
    return Status(StatusCode::InvalidArgument, "--sass",
                  "analyzes code for NVIDIA GPUs, not for " + target.name() +
                      "; add --target cuda:sm_90a");
  Result<std::string> disassembler = findDisassembler();
  if (!disassembler.ok())
    return disassembler.status();
  mpc::detail::KernelCompileOptions options;
  options.threads = int(threads);
  // ptxas reports only kernels that it compiles, not cached ones.
  options.cached = false;
  options.verbose = true;
  mpc::detail::KernelCompileReport report;
  Result<std::vector<CudaCode::Binary>> binaries = mpc::detail::compileKernels(
      *program.cuda, target.member().str(), options, &report);
  if (!binaries.ok())
    return binaries.status();
  std::map<std::string, AssembledKernel> assembled =
      AssembledKernel::parse(report.log);
  llvm::StringMap<SassKernel> kernels;
  for (const CudaCode::Binary &binary : *binaries) {
    Result<std::string> listing = disassemble(*disassembler, binary.cubin);
    if (!listing.ok())
      return listing.status();
    for (SassKernel &kernel : SassKernel::parse(*listing))
      kernels[kernel.name] = std::move(kernel);
  }
  for (auto [launch, explained] :
       llvm::zip(program.launches, explanation.kernels)) {
    auto found = kernels.find(launch.kernel);
    if (found != kernels.end())
      explained.sass = explainLaunch(
          found->second, assembled[launch.kernel],
          launchOf(launch, elementsOf(planned, launch.kernel)), target);
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

static std::string percent(double share) {
  return fixed(100 * share, 0) + " %";
}

/// Shortens a name to 22 columns.
static std::string shortName(const std::string &name) {
  constexpr size_t kMost = 22;
  return name.size() <= kMost
             ? name
             : name.substr(0, 10) + ".." + name.substr(name.size() - 10);
}

std::string tool::sassToText(const Explanation &explanation) {
  std::vector<std::vector<std::string>> blocks = {
      {"kernel", "blocks", "threads", "registers", "spills", "shared",
       "resident", "L2", "shared bytes"}};
  std::vector<std::vector<std::string>> loops = {
      {"main loop", "runs", "all", "tensor", "float", "integer", "special",
       "shared", "global", "control", "outside"}};
  std::vector<std::vector<std::string>> times = {
      {"kernel", "bound by", "predicted", "floor", "share"}};
  double seconds = 0, floor = 0;
  for (const ExplainedKernel &kernel : explanation.kernels) {
    std::string name = shortName(kernel.name);
    if (!kernel.sass) {
      times.push_back({name, "a library", "", "", ""});
      continue;
    }
    const ExplainedSass &sass = *kernel.sass;
    seconds += sass.seconds;
    floor += sass.floorSeconds;
    blocks.push_back(
        {name, std::to_string(sass.blocks), std::to_string(sass.threads),
         std::to_string(sass.registers), std::to_string(sass.spillBytes),
         std::to_string(sass.sharedMemory), std::to_string(sass.residentBlocks),
         shortBytes(sass.l2Bytes), shortBytes(sass.sharedBytes)});
    times.push_back({name, sass.boundBy, fixed(sass.seconds * 1e6, 1) + " us",
                     fixed(sass.floorSeconds * 1e6, 1) + " us",
                     percent(sass.share())});
    if (sass.mainLoop.empty())
      continue;
    auto count = [&](const char *unit) {
      for (const auto &[name, number] : sass.mainLoop)
        if (name == unit)
          return number;
      return int64_t(0);
    };
    int64_t all = 0;
    for (const auto &[unit, number] : sass.mainLoop)
      all += number;
    loops.push_back(
        {name, fixed(sass.runs, 0), std::to_string(all),
         std::to_string(count("tensor")), std::to_string(count("float")),
         std::to_string(count("integer")), std::to_string(count("special")),
         std::to_string(count("shared")), std::to_string(count("global")),
         std::to_string(count("control")), fixed(sass.outsidePerElement, 1)});
  }
  times.push_back({"all", "", fixed(seconds * 1e6, 1) + " us",
                   fixed(floor * 1e6, 1) + " us",
                   percent(seconds > 0 ? floor / seconds : 0)});
  std::vector<bool> right(11, true);
  right.front() = false;
  std::string text = explanation.model + ": policy " + explanation.policy +
                     ", target " + explanation.target + "\n\n";
  right.resize(9);
  text += formatTable(blocks, right) + "\n\n";
  if (loops.size() > 1) {
    right.resize(11, true);
    text += formatTable(loops, right) + "\n\n";
  }
  return text + formatTable(times, {false, false, true, true, true});
}
