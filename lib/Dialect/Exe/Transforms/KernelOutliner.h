//===- KernelOutliner.h - fusions to functions ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_EXE_TRANSFORMS_KERNELOUTLINER_H
#define MPC_LIB_DIALECT_EXE_TRANSFORMS_KERNELOUTLINER_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Dialect/Mpc/Transforms/UniqueNames.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace mpc {
class FusionOp;

/// Outlines kernels at the end of a module: private functions `k_<name>` on
/// tensors with `mpc.kernel_kind`. Fusions with equal bodies share a kernel.
class KernelOutliner {
public:
  explicit KernelOutliner(mlir::ModuleOp module);

  /// Returns the kernel for the body of `fusion`.
  mlir::func::FuncOp outline(FusionOp fusion);
  /// Returns the kernel that copies its argument of type `type`.
  mlir::func::FuncOp copyOf(mlir::RankedTensorType type, mlir::Location loc);

  int64_t numKernels() const { return numMade; }
  int64_t numShared() const { return numReused; }

private:
  mlir::func::FuncOp create(llvm::StringRef name, mlir::Location loc,
                            mlir::FunctionType type, FusionKind kind);
  /// Returns an existing kernel with the same text, else `kernel` under a
  /// unique name.
  mlir::func::FuncOp unify(mlir::func::FuncOp kernel, llvm::StringRef name);

  mlir::ModuleOp module;
  UniqueNames names;
  llvm::StringMap<mlir::func::FuncOp> byText;
  int64_t numMade = 0, numReused = 0;
};

/// Names of the model's ops in `fusion`, unique and in order.
llvm::SmallVector<llvm::StringRef> opNamesOf(FusionOp fusion);

/// Bytes that the kernel of `fusion` reads and writes; of an operand that is
/// only sliced or gathered, the part that is read.
int64_t bytesMovedBy(FusionOp fusion);

} // namespace mpc

#endif // MPC_LIB_DIALECT_EXE_TRANSFORMS_KERNELOUTLINER_H
