//===- Gpu.h - Kernel execution on the first GPU ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The driver and NVRTC calls that the check needs, loaded at run time.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_GPU_PRELUDE_CHECK_GPU_H
#define MPC_TOOLS_GPU_PRELUDE_CHECK_GPU_H

#include "mpc/Target/CUDA/Host/HostKernel.h"

namespace mpc {

class Gpu {
public:
  /// Opens the libraries and the first device; Unavailable if one is missing.
  static Result<Gpu> open();

  /// "sm_90" and the like.
  const std::string &architecture() const { return name; }
  /// Compiles kernels with the device prelude prepended.
  Status load(const std::string &text);
  /// Runs a kernel of the loaded text on device copies of its arrays, and
  /// copies them back.
  Status launch(const std::string &kernel, const HostLaunch &launch,
                const std::vector<HostArgument> &arguments);

private:
  using Handle = void *;
  using Address = unsigned long long;
  template <typename Function>
  bool find(Handle library, Function &function, const char *symbol);
  Status check(int code, const char *call) const;

  std::string name;
  Handle module = nullptr;

  int (*init)(unsigned) = nullptr;
  int (*deviceGet)(int *, int) = nullptr;
  int (*deviceAttribute)(int *, int, int) = nullptr;
  int (*contextRetain)(Handle *, int) = nullptr;
  int (*contextSet)(Handle) = nullptr;
  int (*moduleLoad)(Handle *, const void *) = nullptr;
  int (*moduleFunction)(Handle *, Handle, const char *) = nullptr;
  int (*allocate)(Address *, size_t) = nullptr;
  int (*release)(Address) = nullptr;
  int (*toDevice)(Address, const void *, size_t) = nullptr;
  int (*toHost)(void *, Address, size_t) = nullptr;
  int (*launchKernel)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned,
                      unsigned, unsigned, Handle, void **, void **) = nullptr;
  int (*synchronize)() = nullptr;

  int (*createProgram)(Handle *, const char *, const char *, int,
                       const char *const *, const char *const *) = nullptr;
  int (*compileProgram)(Handle, int, const char *const *) = nullptr;
  int (*logSize)(Handle, size_t *) = nullptr;
  int (*log)(Handle, char *) = nullptr;
  int (*cubinSize)(Handle, size_t *) = nullptr;
  int (*cubin)(Handle, char *) = nullptr;
  int (*destroyProgram)(Handle *) = nullptr;
};

} // namespace mpc

#endif // MPC_TOOLS_GPU_PRELUDE_CHECK_GPU_H
