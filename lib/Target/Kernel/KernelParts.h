//===- KernelParts.h - parts that share nothing but scalars -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_KERNELPARTS_H
#define MPC_LIB_TARGET_KERNEL_KERNELPARTS_H

#include "LoopKernels.h"

#include "llvm/ADT/SetVector.h"

namespace mpc {

/// Values that are computed apart from all others of their kernel, such as
/// those of one parameter in a kernel that updates all of them.
struct KernelPart {
  /// The numbers of the kernel's results among them.
  llvm::SmallVector<unsigned> results;
  /// Scalars left out.
  llvm::SetVector<mlir::Value> values;
};

/// The parts of a kernel: first those with results, in the order of these.
/// Linear in the number of ops.
llvm::SmallVector<KernelPart> partsOf(mlir::func::FuncOp kernel);

/// Whether the shapes of an op's operands have nothing to do with each other or
/// with its results' (random_bits, all_finite, global_norm).
bool isShapeless(mlir::Operation *op);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_KERNELPARTS_H
