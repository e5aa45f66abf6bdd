//===- Nvrtc.cpp - entry points of NVRTC ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Nvrtc.h"

#include "../Environment.h"
#include "../LibraryFunctions.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

using namespace mpc;
using namespace mpc::detail;

/// Older versions do not support sm_90a.
static constexpr int kLeastMajor = 12;

static Status nvrtcUnavailable(const std::string &text) {
  return Status(StatusCode::Unavailable, "nvrtc", text);
}

Status detail::identify(Nvrtc &nvrtc, const std::string &library) {
  int major = 0, minor = 0, count = 0;
  if (nvrtc.version(&major, &minor) != 0)
    return nvrtcUnavailable(library + " does not report its version");
  nvrtc.versionText = std::to_string(major) + "." + std::to_string(minor);
  if (major < kLeastMajor)
    return nvrtcUnavailable(library + " is version " + nvrtc.versionText +
                            ", but kernels need " +
                            std::to_string(kLeastMajor) +
                            ".0 or later; install a newer CUDA toolkit");
  if (nvrtc.supportedCount(&count) != 0 || count <= 0)
    return nvrtcUnavailable(library + " does not report its architectures");
  nvrtc.architectures.resize(size_t(count));
  if (nvrtc.supported(nvrtc.architectures.data()) != 0)
    return nvrtcUnavailable(library + " does not report its architectures");
  return {};
}

Result<Nvrtc> detail::loadNvrtc(const std::string &path) {
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return nvrtcUnavailable(dlerror());
  Nvrtc nvrtc;
  LibraryFunctions functions(handle);
  auto find = [&](auto &function, const char *name) {
    functions.find(function, name);
  };
  find(nvrtc.version, "nvrtcVersion");
  find(nvrtc.supportedCount, "nvrtcGetNumSupportedArchs");
  find(nvrtc.supported, "nvrtcGetSupportedArchs");
  find(nvrtc.create, "nvrtcCreateProgram");
  find(nvrtc.compile, "nvrtcCompileProgram");
  find(nvrtc.logSize, "nvrtcGetProgramLogSize");
  find(nvrtc.log, "nvrtcGetProgramLog");
  find(nvrtc.cubinSize, "nvrtcGetCUBINSize");
  find(nvrtc.cubin, "nvrtcGetCUBIN");
  find(nvrtc.destroy, "nvrtcDestroyProgram");
  find(nvrtc.errorText, "nvrtcGetErrorString");
  Status status;
  if (!functions.missing().empty())
    status = nvrtcUnavailable(path + " lacks " + functions.missing() +
                              "; it is not NVRTC or is too old");
  else
    status = identify(nvrtc, path);
  if (status.ok())
    return nvrtc;
  dlclose(handle);
  return status;
}

Result<Nvrtc> detail::loadNvrtc(const std::vector<std::string> &paths) {
  Status tooOld;
  for (const std::string &path : paths) {
    Result<Nvrtc> nvrtc = loadNvrtc(path);
    if (nvrtc.ok())
      return nvrtc;
    // An unsuitable library is a better explanation than a missing one.
    if (tooOld.ok() && nvrtc.status().text().rfind(path, 0) == 0 &&
        nvrtc.status().text().find("cannot open") == std::string::npos)
      tooOld = nvrtc.status();
  }
  if (!tooOld.ok())
    return tooOld;
  return nvrtcUnavailable(
      "libnvrtc.so, which compiles kernels for NVIDIA GPUs, was not found; "
      "install the CUDA toolkit's NVRTC or mpc-compiler[cuda] from PyPI, or "
      "set MPC_CUDA_DIR to its folder");
}

Result<const Nvrtc *> detail::installedNvrtc() {
  static const Result<Nvrtc> installed =
      loadNvrtc(cudaLibraryPaths({"libnvrtc.so.13", "libnvrtc.so.12"}));
  if (!installed.ok())
    return installed.status();
  return &*installed;
}

Status detail::checkArchitecture(const Nvrtc &nvrtc,
                                 const std::string &architecture) {
  // Letters may follow the number (sm_90a).
  int number = 0;
  if (architecture.rfind("sm_", 0) == 0)
    std::from_chars(architecture.data() + 3,
                    architecture.data() + architecture.size(), number);
  if (std::find(nvrtc.architectures.begin(), nvrtc.architectures.end(),
                number) != nvrtc.architectures.end())
    return {};
  std::string list;
  for (int known : nvrtc.architectures)
    list += (list.empty() ? "sm_" : ", sm_") + std::to_string(known);
  return Status(StatusCode::Unavailable, architecture,
                "is not an architecture that NVRTC " + nvrtc.versionText +
                    " supports (" + list + "); install a newer CUDA toolkit");
}

NvrtcOutput detail::compileProgram(const Nvrtc &nvrtc, const std::string &text,
                                   const std::vector<std::string> &options) {
  NvrtcOutput output;
  auto describe = [&](const char *call, int error) {
    const char *name = nvrtc.errorText ? nvrtc.errorText(error) : nullptr;
    return std::string(call) + " failed with " +
           (name ? name : "error " + std::to_string(error));
  };
  void *program = nullptr;
  if (int error =
          nvrtc.create(&program, text.c_str(), "mpc.cu", 0, nullptr, nullptr)) {
    output.failure = describe("nvrtcCreateProgram", error);
    return output;
  }
  std::vector<const char *> words;
  words.reserve(options.size());
  for (const std::string &option : options)
    words.push_back(option.c_str());
  int error = nvrtc.compile(program, int(words.size()), words.data());
  if (error)
    output.failure = describe("nvrtcCompileProgram", error);
  size_t size = 0;
  if (nvrtc.logSize(program, &size) == 0 && size > 1) {
    output.log.resize(size);
    if (nvrtc.log(program, output.log.data()) != 0)
      output.log.clear();
    // The size includes the terminating zero.
    while (!output.log.empty() &&
           (output.log.back() == '\0' || output.log.back() == '\n'))
      output.log.pop_back();
  }
  if (!error) {
    size = 0;
    error = nvrtc.cubinSize(program, &size);
    if (!error && size) {
      output.cubin.resize(size);
      error =
          nvrtc.cubin(program, reinterpret_cast<char *>(output.cubin.data()));
    }
    if (error)
      output.failure = describe("nvrtcGetCUBIN", error);
    else if (size == 0)
      output.failure = "the compiler returned no machine code";
    if (!output.failure.empty())
      output.cubin.clear();
  }
  nvrtc.destroy(&program);
  return output;
}
