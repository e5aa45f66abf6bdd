//===- KernelFunction.h - functions on memory for kernels -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The form in which loops are emitted: a function
//   func.func private @k_impl(inputs: memref..., outputs: memref...,
//                             words of watched outputs: memref<1xi64>...,
//                             %begin: index, %end: index, %scratch:
//                             memref<?xi8>)
// whose items [begin, end) may be run in any split and order.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_KERNELFUNCTION_H
#define MPC_LIB_TARGET_KERNEL_KERNELFUNCTION_H

#include "ElementMemory.h"
#include "ElementTarget.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace mpc {

/// Parallelism of a kernel's phase: independent items and their cost.
struct PhaseCost {
  int64_t items = 1;
  double cyclesPerItem = 1;
};

/// Memory of a kernel's arguments and results (memoryType), and scratch bytes
/// for values passed between phases.
struct KernelMemory {
  /// The arguments of `impl`, a function of the above form for `kernel`.
  static KernelMemory of(mlir::func::FuncOp kernel, mlir::func::FuncOp impl);

  llvm::SmallVector<mlir::Value> inputs, outputs;
  mlir::Value scratch;
};

/// Emits kernels without contraction, convolution and attention: elementwise,
/// data movement, reductions, row-wise ops, pools, scans. Emits tile ops
/// without a thread mapping at the insertion point; does not change `kernel`.
/// Returns the bytes of scratch memory.
mlir::FailureOr<int64_t> emitLoops(mlir::func::FuncOp kernel,
                                   mlir::OpBuilder &builder,
                                   const KernelMemory &memory,
                                   const ElementTarget &target);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_KERNELFUNCTION_H
