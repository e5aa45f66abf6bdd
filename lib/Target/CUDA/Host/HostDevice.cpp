//===- HostDevice.cpp - the CUDA emulator as a device ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Target/CUDA/Host/HostDevice.h"

#include "GemmReference.h"

#include "Runtime/CPU/ThreadPool.h"
#include "Runtime/Communication/CollectiveThread.h"
#include "Runtime/DeviceImpl.h"
#include "Runtime/DiskCache.h"
#include "Runtime/Environment.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

using namespace mpc;
using namespace mpc::detail;

/// Kernels per compiler run: a trade-off between parallel compilation and
/// repeated parsing of the prelude.
static constexpr size_t kKernelsPerModule = 4;

namespace {

/// State shared by devices and their programs.
struct Common {
  std::string name = "cuda-host";
  HostDeviceOptions options;
  /// Keeps the threads of library GEMMs.
  std::shared_ptr<detail::ThreadPool> threads = detail::ThreadPool::shared();
};

/// A device, in host memory, for a single prepared program. Library GEMMs use
/// GemmReference.h.
class HostRunner : public DeviceImpl {
public:
  explicit HostRunner(std::shared_ptr<const Common> common)
      : common(std::move(common)) {}
  Status prepare(const Program &program);

  const std::string &name() const override { return common->name; }
  int threads() const override { return 1; }
  bool needsCode() const override { return true; }
  Status execute(const Program &program, const Addresses &addresses,
                 CollectiveThread *messages,
                 std::span<double> milliseconds) override;

private:
  struct Kernel {
    const HostModule *module = nullptr;
    /// Element size of each pointer parameter, in bytes.
    std::vector<size_t> elementBytes;
  };
  Status runLaunch(const Launch &launch, const Addresses &addresses,
                   std::vector<uint8_t> &scratch);

  std::shared_ptr<const Common> common;
  std::vector<HostModule> modules;
  std::map<std::string, Kernel> kernels;
  /// Scratch buffer of each launch, persistent across runs.
  std::vector<std::vector<uint8_t>> scratch;
  std::mutex oneAtATime;
};

class HostDevice : public DeviceImpl {
public:
  explicit HostDevice(const HostDeviceOptions &options)
      : common(std::make_shared<Common>(Common{.options = options})) {}
  const std::string &name() const override { return common->name; }
  int threads() const override { return 1; }
  bool needsCode() const override { return true; }
  bool needsFunctions() const override { return false; }
  const std::string &architecture() const override {
    return common->options.architecture;
  }
  Result<std::shared_ptr<LoadedProgram>>
  load(std::shared_ptr<DeviceImpl>,
       std::shared_ptr<const Program> program) override {
    auto runner = std::make_shared<HostRunner>(common);
    if (Status status = runner->prepare(*program); !status.ok())
      return status;
    return loadOnHost(std::move(runner), std::move(program));
  }

private:
  std::shared_ptr<const Common> common;
};

} // namespace

/// Returns the size, in bytes, of a type in CUDA text; 1 if unknown.
static size_t bytesOfType(const std::string &type) {
  static const std::map<std::string, size_t> known = {
      {"short", 2},     {"unsigned short", 2},    {"mpc::half", 2},
      {"int", 4},       {"mpc::bfloat16", 2},     {"unsigned", 4},
      {"float", 4},     {"unsigned int", 4},      {"double", 8},
      {"long long", 8}, {"unsigned long long", 8}};
  auto found = known.find(type);
  return found == known.end() ? 1 : found->second;
}

/// Parses the element sizes, in bytes, of a kernel's pointer parameters from
/// its text: the granularity of memory checks.
static std::vector<size_t> parameterBytes(const std::string &source,
                                          const std::string &kernel) {
  std::vector<size_t> sizes;
  size_t at = source.find(" " + kernel + "(");
  if (at == std::string::npos)
    return sizes;
  at += kernel.size() + 2;
  std::string list = source.substr(at, source.find(')', at) - at);
  for (size_t begin = 0; begin < list.size();) {
    size_t comma = std::min(list.find(',', begin), list.size());
    // "const float *__restrict__ x": the type precedes the star.
    std::istringstream words(list.substr(begin, list.find('*', begin) - begin));
    begin = comma + 1;
    std::string type;
    for (std::string word; words >> word;)
      if (word != "const")
        type += (type.empty() ? "" : " ") + word;
    sizes.push_back(bytesOfType(type));
  }
  return sizes;
}

Status HostRunner::prepare(const Program &program) {
  if (!program.cuda)
    return Status(StatusCode::InvalidArgument, program.name,
                  "contains no GPU kernels, but its target is " +
                      program.target);
  const std::vector<CudaCode::Kernel> &list = program.cuda->kernels;
  HostKernelOptions options = common->options.kernels;
  if (options.cacheFolder.empty())
    if (std::string folder = cacheFolder(); !folder.empty())
      options.cacheFolder = folder + "/host-kernels";
  if (common->options.onWarning)
    if (auto refusal = DiskCache(options.cacheFolder).newRefusal())
      common->options.onWarning(
          Status(StatusCode::Unavailable, refusal->folder, refusal->text));

  size_t count = (list.size() + kKernelsPerModule - 1) / kKernelsPerModule;
  std::vector<Result<HostModule>> made;
  for (size_t i = 0; i < count; ++i)
    made.emplace_back(Status(StatusCode::Internal, "module", "is not made"));
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i; (i = next++) < count;) {
      std::string text;
      std::vector<std::string> names;
      for (size_t k = i * kKernelsPerModule;
           k < std::min(list.size(), (i + 1) * kKernelsPerModule); ++k) {
        text += list[k].source + "\n";
        names.push_back(list[k].name);
      }
      made[i] = HostModule::compile(text, names, options);
    }
  };
  auto threads = size_t(common->options.threads > 0 ? common->options.threads
                                                    : availableCores());
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min(threads, count); ++i)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();

  for (Result<HostModule> &module : made) {
    if (!module.ok())
      return module.status();
    modules.push_back(std::move(*module));
  }
  for (size_t k = 0; k < list.size(); ++k)
    kernels[list[k].name] = {&modules[k / kKernelsPerModule],
                             parameterBytes(list[k].source, list[k].name)};
  for (const Launch &launch : program.launches) {
    if (!launch.gemm && !launch.collective && !kernels.count(launch.kernel))
      return Status(StatusCode::InvalidArgument, program.name,
                    "lacks kernel '" + launch.kernel + "'");
    scratch.emplace_back(size_t(launch.scratchBytes));
  }
  return {};
}

Status HostRunner::runLaunch(const Launch &launch, const Addresses &addresses,
                             std::vector<uint8_t> &scratch) {
  HostLaunch how;
  for (int i = 0; i < 3; ++i) {
    how.grid[i] = int(launch.grid.blocks[size_t(i)]);
    // An empty grid is not launched.
    if (how.grid[i] == 0)
      return {};
  }
  how.block[0] = int(launch.grid.threads);
  how.dynamicSharedBytes = size_t(launch.grid.sharedBytes);
  how.cooperative = launch.grid.cooperative;
  how.order = common->options.order;
  how.capability = std::atoi(common->options.architecture.c_str() + 3);

  const Kernel &kernel = kernels[launch.kernel];
  std::vector<HostArgument> arguments;
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    const BufferRef &ref = launch.buffers[i];
    HostArgument argument;
    // Few kernels write to the counters of index checks.
    argument.kind = ref.kind == BufferRef::Kind::Checks
                        ? HostArgument::Kind::InOut
                    : ref.written ? HostArgument::Kind::Output
                                  : HostArgument::Kind::Input;
    argument.name = (ref.written ? "output " : "input ") + std::to_string(i);
    argument.data = addresses.resolve(ref);
    argument.bytes = size_t(ref.bytes);
    argument.elementBytes =
        i < kernel.elementBytes.size() ? kernel.elementBytes[i] : 1;
    arguments.push_back(argument);
  }
  if (!scratch.empty())
    arguments.push_back(HostArgument::inOut("scratch", scratch));
  return kernel.module->launch(launch.kernel, how, arguments);
}

Status HostRunner::execute(const Program &program, const Addresses &addresses,
                           CollectiveThread *messages,
                           std::span<double> milliseconds) {
  std::lock_guard<std::mutex> lock(oneAtATime);
  for (size_t i = 0; i < program.launches.size(); ++i) {
    const Launch &launch = program.launches[i];
    if (messages)
      if (Status status = messages->reach(i); !status.ok())
        return status;
    if (launch.collective)
      continue;
    auto start = std::chrono::steady_clock::now();
    Status status;
    if (launch.gemm) {
      std::vector<void *> buffers;
      for (const BufferRef &ref : launch.buffers)
        buffers.push_back(addresses.resolve(ref));
      status = computeGemm(*launch.gemm, buffers);
    } else {
      status = runLaunch(launch, addresses, scratch[i]);
    }
    if (!status.ok()) {
      std::string ops;
      for (const std::string &op : launch.ops)
        ops += (ops.empty() ? "" : ", ") + op;
      return status.withNote("kernel '" + launch.kernel + "' computes " + ops);
    }
    std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - start;
    if (!milliseconds.empty())
      milliseconds[i] = took.count();
  }
  return {};
}

Device mpc::cudaHostDevice(const HostDeviceOptions &options) {
  return DeviceAccess::make(std::make_shared<HostDevice>(options));
}
