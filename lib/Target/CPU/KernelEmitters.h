//===- KernelEmitters.h - one emitter per kernel family ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An emitter reads a kernel on tensors (`kernel`, left alone) and fills the
// body of `impl`:
//   func.func private @k_impl(inputs: memref..., outputs: memref...,
//                             %begin: index, %end: index, %scratch:
//                             memref<?xi8>)
// in func, scf, memref, vector, arith and math. Its entry block and terminator
// exist; emitters insert before the terminator. Memrefs are contiguous and
// row-major with the tensor's shape and memoryElementType.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_KERNELEMITTERS_H
#define MPC_LIB_TARGET_CPU_KERNELEMITTERS_H

#include "mpc/Target/CPU/CpuTarget.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace mpc {

/// See KernelInfo.
struct EmittedKernel {
  int64_t items = 1, grain = 1, scratchBytes = 0;
};

/// Element type in memory: i8 for i1, signless for unsigned integers, else
/// `type`.
mlir::Type memoryElementType(mlir::Type type);

/// The memref that holds a tensor of type `type`.
mlir::MemRefType memoryType(mlir::Type type);

/// The arguments of `impl`, by what they are.
struct ImplArguments {
  explicit ImplArguments(mlir::func::FuncOp kernel, mlir::func::FuncOp impl);
  llvm::ArrayRef<mlir::Value> inputs() const { return inputMemrefs; }
  llvm::ArrayRef<mlir::Value> outputs() const { return outputMemrefs; }
  mlir::Value begin, end, scratch;

private:
  llvm::SmallVector<mlir::Value> inputMemrefs, outputMemrefs;
};

/// Smallest number of items whose work is worth a task, given the cost of one
/// in cycles.
int64_t grainOf(double cyclesPerItem);

/// matmul with an elementwise epilogue.
mlir::FailureOr<EmittedKernel> emitContraction(mlir::func::FuncOp kernel,
                                               mlir::func::FuncOp impl,
                                               const CpuTarget &target);
/// conv with an elementwise epilogue.
mlir::FailureOr<EmittedKernel> emitConvolution(mlir::func::FuncOp kernel,
                                               mlir::func::FuncOp impl,
                                               const CpuTarget &target);
/// attention with an elementwise epilogue.
mlir::FailureOr<EmittedKernel> emitAttention(mlir::func::FuncOp kernel,
                                             mlir::func::FuncOp impl,
                                             const CpuTarget &target);
/// Everything else: elementwise, data movement, reductions, rows, pools.
mlir::FailureOr<EmittedKernel> emitLoops(mlir::func::FuncOp kernel,
                                         mlir::func::FuncOp impl,
                                         const CpuTarget &target);

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_KERNELEMITTERS_H
