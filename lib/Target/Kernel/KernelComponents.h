//===- KernelComponents.h - independent parts of a kernel -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_KERNELCOMPONENTS_H
#define MPC_LIB_TARGET_KERNEL_KERNELCOMPONENTS_H

#include "LoopKernels.h"

#include "llvm/ADT/SetVector.h"

namespace mpc {

/// Values that share only scalars with the rest of their kernel, such as those
/// of one parameter in a multi-tensor update.
struct KernelComponent {
  /// Indices of the kernel's results among them.
  llvm::SmallVector<unsigned> results;
  /// Without scalars.
  llvm::SetVector<mlir::Value> values;
};

/// Returns the connected components of a kernel: first those with results, in
/// the order of these. Linear in the number of ops.
llvm::SmallVector<KernelComponent> partsOf(mlir::func::FuncOp kernel);

/// Returns true if the shapes of an op's operands are unrelated to each other
/// and to its results' (random_bits, all_finite, global_norm).
bool isShapeless(mlir::Operation *op);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_KERNELCOMPONENTS_H
