//===- CudaKernelRunner.h - emitted kernels against the interpreter -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels go through the CUDA backend, and the printed text runs on the host
// with checks for bounds, races and values that nobody wrote.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_CUDA_CUDAKERNELRUNNER_H
#define MPC_TEST_UNIT_TARGET_CUDA_CUDAKERNELRUNNER_H

#include "mpc/Reference/Tensor.h"
#include "mpc/Target/CUDA/CudaTarget.h"
#include "mpc/Target/CUDA/Host/HostKernel.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mpc {

/// The architecture of this name: "sm_80". Exits the test program if the
/// backend does not support it.
cuda::CudaTarget cudaTarget(llvm::StringRef architecture);

/// How a check runs.
struct CudaKernelCheck {
  cuda::CudaTarget target;
  /// Scale factor of the random float inputs.
  double scale = 1.0;
  uint64_t seed = 1;
  /// Changes a generated input; gets the index of the argument.
  std::function<void(unsigned, reference::Tensor &)> adjust;
  /// The family that has to generate the kernel; empty: any.
  std::string family;
  /// Each order runs all kernels once, on the same scratch memory, and has to
  /// give the same bits.
  std::vector<ThreadOrder> orders = {ThreadOrder::Ascending,
                                     ThreadOrder::Shuffled};
  /// Whether all orders give the same bits: not where atomics add floats.
  bool sameBits = true;
};

/// The text of all kernels of the module, which hold mpc.kernel_kind, or what
/// is wrong.
struct CudaText {
  std::string text, error;
};
CudaText cudaText(llvm::StringRef module, const cuda::CudaTarget &target = {});

/// The text of a module's kernels holds each of `present` and none of `absent`.
void expectCudaText(llvm::StringRef module, const cuda::CudaTarget &target,
                    llvm::ArrayRef<const char *> present,
                    llvm::ArrayRef<const char *> absent = {});
/// It contains `parts` in this order; the last part does not occur earlier.
void expectCudaTextInOrder(llvm::StringRef module,
                           const cuda::CudaTarget &target,
                           llvm::ArrayRef<const char *> parts);

/// Checks many kernels by one compilation: `add` all, then `run`.
class CudaKernelBatch {
public:
  CudaKernelBatch();
  ~CudaKernelBatch();

  /// `text` holds a function `@k`: a kernel (with mpc.kernel_kind). Errors of
  /// the compiler show up in `run`.
  void add(llvm::StringRef text, CudaKernelCheck check = {});

  /// Compiles and runs; one entry per kernel, empty or what is wrong.
  std::vector<std::string> run();
  /// The same as failures of the running test.
  void expect();

private:
  struct Kernel;
  std::vector<std::unique_ptr<Kernel>> kernels;
};

/// A single kernel, for tests of failures.
std::string checkCudaKernel(llvm::StringRef text,
                            const CudaKernelCheck &check = {});
void expectCudaKernel(llvm::StringRef text, const CudaKernelCheck &check = {});

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_CUDA_CUDAKERNELRUNNER_H
