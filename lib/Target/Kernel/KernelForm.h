//===- KernelForm.h - kernels as functions on memory ------------*- C++ -*-===//
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

#ifndef MPC_LIB_TARGET_KERNEL_KERNELFORM_H
#define MPC_LIB_TARGET_KERNEL_KERNELFORM_H

#include "ElementMemory.h"
#include "ElementTarget.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace mpc {

/// The arguments of `impl`, by what they are.
struct ImplArguments {
  explicit ImplArguments(mlir::func::FuncOp kernel, mlir::func::FuncOp impl);
  llvm::ArrayRef<mlir::Value> inputs() const { return inputMemrefs; }
  llvm::ArrayRef<mlir::Value> outputs() const { return outputMemrefs; }
  mlir::Value begin, end, scratch;

private:
  llvm::SmallVector<mlir::Value> inputMemrefs, outputMemrefs;
};

/// What a phase of a kernel offers: independent items.
struct PhaseCost {
  int64_t items = 1;
  double cyclesPerItem = 1;
};

/// Memory of a kernel's arguments and results (memoryType), and bytes that
/// phases pass values through.
struct KernelMemory {
  llvm::SmallVector<mlir::Value> inputs, outputs;
  mlir::Value scratch;
};

/// Smallest number of items whose work is worth a task, given the cost of one
/// in cycles.
int64_t grainOf(double cyclesPerItem);

/// Everything but contractions, convolutions and attention: elementwise, data
/// movement, reductions, rows, pools, scans. Written at the builder's place as
/// a program over tiles without teams; `kernel` is left alone. Returns the
/// bytes of scratch memory that the code uses.
mlir::FailureOr<int64_t> emitLoops(mlir::func::FuncOp kernel,
                                   mlir::OpBuilder &builder,
                                   const KernelMemory &memory,
                                   const ElementTarget &target);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_KERNELFORM_H
