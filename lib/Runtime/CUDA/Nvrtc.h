//===- Nvrtc.h - entry points of NVRTC --------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The library is loaded at run time; none of its headers is used.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_NVRTC_H
#define MPC_LIB_RUNTIME_CUDA_NVRTC_H

#include "mpc/Runtime/Status.h"

#include <cstddef>
#include <string>
#include <vector>

namespace mpc::detail {

/// Function table of NVRTC's API; an nvrtcResult is an int and an nvrtcProgram
/// a pointer. A table, so that tests can substitute a fake compiler.
/// Thread-safe.
struct Nvrtc {
  int (*version)(int *major, int *minor) = nullptr;
  int (*supportedCount)(int *count) = nullptr;
  int (*supported)(int *architectures) = nullptr;
  int (*create)(void **program, const char *text, const char *name,
                int headerCount, const char *const *headers,
                const char *const *headerNames) = nullptr;
  int (*compile)(void *program, int optionCount,
                 const char *const *options) = nullptr;
  int (*logSize)(void *program, size_t *bytes) = nullptr;
  int (*log)(void *program, char *text) = nullptr;
  int (*cubinSize)(void *program, size_t *bytes) = nullptr;
  int (*cubin)(void *program, char *bytes) = nullptr;
  int (*destroy)(void **program) = nullptr;
  const char *(*errorText)(int error) = nullptr;

  /// "13.0": part of cache keys of compiled code.
  std::string versionText;
  /// Supported compute capabilities, times ten.
  std::vector<int> architectures;
};

/// Queries a filled table for its version and architectures; fails if the
/// compiler is older than 12.0. `library` names it in messages.
Status identify(Nvrtc &nvrtc, const std::string &library);

/// Loads the library `path`, which stays loaded.
Result<Nvrtc> loadNvrtc(const std::string &path);

/// Loads the first loadable library of `paths`. Unavailable if there is none.
Result<Nvrtc> loadNvrtc(const std::vector<std::string> &paths);

/// Returns this machine's compiler, searched once per process in
/// Environment.h's paths for libnvrtc.so.13 and libnvrtc.so.12. Takes up to
/// half a second if the file is not in the page cache.
Result<const Nvrtc *> installedNvrtc();

/// Fails, listing supported architectures, if the compiler does not support
/// `architecture` ("sm_90a").
Status checkArchitecture(const Nvrtc &nvrtc, const std::string &architecture);

/// Result of compiling one program.
struct NvrtcOutput {
  /// Machine code; empty after a failure.
  std::vector<std::byte> cubin;
  /// The compiler's messages, also after success.
  std::string log;
  /// Error message; empty on success.
  std::string failure;
};

/// Compiles `text` for `architecture` with `options`.
NvrtcOutput compileProgram(const Nvrtc &nvrtc, const std::string &text,
                           const std::vector<std::string> &options);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_NVRTC_H
