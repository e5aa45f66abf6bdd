//===- KernelCompiler.cpp - CUDA C++ to machine code ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels are compiled in batches of a few: one per batch would pay NVRTC's
// start and the prelude's parse each time, all in one would use a single core.
//
// By default ptxas prefers spilling a register or two over lower occupancy. A
// kernel that spills is compiled again with __launch_bounds__ for one block per
// multiprocessor.
//
//===----------------------------------------------------------------------===//

#include "KernelCompiler.h"

#include "../DiskCache.h"
#include "../Environment.h"
#include "Nvrtc.h"

#include "mpc/Runtime/Device.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>

using namespace mpc;
using namespace mpc::detail;

/// Limits of a batch, in kernels and in source characters.
static constexpr size_t kMostKernels = 4;
static constexpr size_t kMostCharacters = 24 * 1024;

namespace {

/// A batch of kernels.
struct Portion {
  std::vector<const CudaCode::Kernel *> kernels;
  size_t characters = 0;
};

/// State of one call of compileKernels.
class KernelCompiler {
public:
  KernelCompiler(const CudaCode &code, const std::string &architecture,
                 const KernelCompileOptions &options)
      : code(code), architecture(architecture), options(options),
        cache(!options.cached               ? ""
              : options.cacheFolder.empty() ? defaultFolder()
                                            : options.cacheFolder) {
    flags = {"--gpu-architecture=" + architecture,
             "--std=c++17",
             "--fmad=false",
             "--ftz=false",
             "--prec-div=true",
             "--prec-sqrt=true",
             "--ptxas-options=-v"};
  }

  Result<std::vector<CudaCode::Binary>> run(KernelCompileReport *report);

private:
  static std::string defaultFolder() {
    std::string folder = cacheFolder();
    return folder.empty() ? folder : folder + "/kernels";
  }
  /// `alone`: kernels to compile for one block per multiprocessor.
  std::string textOf(const std::vector<const CudaCode::Kernel *> &list,
                     const std::set<std::string> &alone = {}) const;
  Status compile(const Portion &portion, CudaCode::Binary &binary);
  Status blame(const Portion &portion, const NvrtcOutput &output) const;

  const CudaCode &code;
  const std::string &architecture;
  const KernelCompileOptions &options;
  DiskCache cache;
  const Nvrtc *nvrtc = nullptr;
  std::vector<std::string> flags;
  std::mutex mutex;
  KernelCompileReport done;
};

} // namespace

/// Returns the names of the kernels that `code` has machine code for.
static std::map<std::string, const CudaCode::Binary *>
readyKernels(const CudaCode &code, const std::string &architecture) {
  std::map<std::string, const CudaCode::Binary *> ready;
  for (const CudaCode::Binary &binary : code.binaries)
    if (binary.architecture == architecture)
      for (const std::string &kernel : binary.kernels)
        ready[kernel] = &binary;
  return ready;
}

std::string
KernelCompiler::textOf(const std::vector<const CudaCode::Kernel *> &list,
                       const std::set<std::string> &alone) const {
  std::string text = code.prelude;
  for (const CudaCode::Kernel *kernel : list) {
    if (!alone.empty())
      text += std::string("\n#undef MPC_RESIDENT\n#define MPC_RESIDENT") +
              (alone.count(kernel->name) ? " , 1" : "");
    // Makes diagnostics name the kernel and its own lines.
    text += "\n#line 1 \"" + kernel->name + ".cu\"\n" + kernel->source;
  }
  return text + "\n";
}

/// Returns the kernels that spill registers, from ptxas's log.
static std::set<std::string> spillingKernels(const std::string &log) {
  std::set<std::string> names;
  std::istringstream lines(log);
  std::string line, name;
  const std::string properties = "Function properties for ",
                    spills = " bytes spill stores";
  while (std::getline(lines, line)) {
    if (size_t at = line.find(properties); at != std::string::npos)
      name = line.substr(at + properties.size());
    else if (size_t at = line.find(spills); at != std::string::npos) {
      size_t begin = line.find_last_not_of("0123456789", at - 1) + 1;
      if (line.substr(begin, at - begin) != "0")
        names.insert(name);
    }
  }
  return names;
}

Status KernelCompiler::blame(const Portion &portion,
                             const NvrtcOutput &output) const {
  auto failure = [&](const CudaCode::Kernel &kernel, const NvrtcOutput &why) {
    std::string text = "does not compile for " + architecture + ": " +
                       why.failure + (why.log.empty() ? "" : "\n" + why.log);
    return Status(StatusCode::Internal, "kernel '" + kernel.name + "'", text);
  };
  // ptxas errors name no kernel: recompile each kernel separately.
  if (portion.kernels.size() > 1)
    for (const CudaCode::Kernel *kernel : portion.kernels) {
      NvrtcOutput alone = compileProgram(*nvrtc, textOf({kernel}), flags);
      if (!alone.failure.empty())
        return failure(*kernel, alone);
    }
  return failure(*portion.kernels.front(), output);
}

Status KernelCompiler::compile(const Portion &portion,
                               CudaCode::Binary &binary) {
  binary.architecture = architecture;
  for (const CudaCode::Kernel *kernel : portion.kernels)
    binary.kernels.push_back(kernel->name);
  std::string text = textOf(portion.kernels);
  std::vector<std::string_view> parts = {"kernels 2", nvrtc->versionText, text};
  parts.insert(parts.end(), flags.begin(), flags.end());
  std::string key = contentKey(parts);
  if (auto kept = cache.find(key); kept && !options.verbose) {
    binary.cubin = std::move(*kept);
    std::lock_guard<std::mutex> lock(mutex);
    ++done.fromCache;
    return {};
  }
  NvrtcOutput output = compileProgram(*nvrtc, text, flags);
  if (!output.failure.empty())
    return blame(portion, output);
  if (std::set<std::string> spilling = spillingKernels(output.log);
      !spilling.empty()) {
    NvrtcOutput alone =
        compileProgram(*nvrtc, textOf(portion.kernels, spilling), flags);
    if (alone.failure.empty() &&
        spillingKernels(alone.log).size() < spilling.size())
      output = std::move(alone);
  }
  cache.store(key, output.cubin);
  binary.cubin = std::move(output.cubin);
  std::lock_guard<std::mutex> lock(mutex);
  ++done.compiled;
  if (options.verbose && !output.log.empty())
    done.log += output.log + "\n";
  return {};
}

Result<std::vector<CudaCode::Binary>>
KernelCompiler::run(KernelCompileReport *report) {
  auto ready = readyKernels(code, architecture);
  std::vector<CudaCode::Binary> binaries;
  for (const CudaCode::Binary &binary : code.binaries)
    if (binary.architecture == architecture)
      binaries.push_back(binary);

  std::vector<Portion> portions;
  for (const CudaCode::Kernel &kernel : code.kernels) {
    if (ready.count(kernel.name))
      continue;
    if (portions.empty() || portions.back().kernels.size() == kMostKernels ||
        portions.back().characters + kernel.source.size() > kMostCharacters)
      portions.emplace_back();
    portions.back().kernels.push_back(&kernel);
    portions.back().characters += kernel.source.size();
  }
  if (portions.empty())
    return binaries;

  nvrtc = options.nvrtc;
  if (!nvrtc) {
    Result<const Nvrtc *> installed = installedNvrtc();
    if (!installed.ok())
      return installed.status();
    nvrtc = *installed;
  }
  if (Status status = checkArchitecture(*nvrtc, architecture); !status.ok())
    return status;

  size_t first = binaries.size();
  binaries.resize(first + portions.size());
  std::vector<Status> outcomes(portions.size());
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  auto work = [&] {
    for (size_t i; (i = next++) < portions.size();) {
      if (failed)
        return;
      outcomes[i] = compile(portions[i], binaries[first + i]);
      if (!outcomes[i].ok())
        failed = true;
    }
  };
  auto threads =
      size_t(options.threads > 0 ? options.threads : availableCores());
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min(threads, portions.size()); ++i)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
  if (report)
    *report = std::move(done);
  for (const Status &status : outcomes)
    if (!status.ok())
      return status;
  return binaries;
}

Result<std::vector<CudaCode::Binary>>
detail::compileKernels(const CudaCode &code, const std::string &architecture,
                       const KernelCompileOptions &options,
                       KernelCompileReport *report) {
  return KernelCompiler(code, architecture, options).run(report);
}
