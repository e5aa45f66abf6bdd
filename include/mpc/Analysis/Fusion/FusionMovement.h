//===- FusionMovement.h - ops that kernels move by ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Questions about single ops that the fusion rules ask.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_FUSION_FUSIONMOVEMENT_H
#define MPC_ANALYSIS_FUSION_FUSIONMOVEMENT_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mpc {

/// Kernels of more ops take long to compile and run out of registers.
inline constexpr size_t kMostKernelOps = 64;

/// The op's family; one that the fuser does not know has a kernel of its own.
inline FusionClass familyOf(mlir::Operation *op) { return fusionClassOf(op); }

inline bool isElementwise(mlir::Operation *op) {
  return mlir::isa<ElementwiseOpInterface>(op);
}

/// Conversions cost nothing beside the memory they save.
inline bool isFreeToRepeat(mlir::Operation *op) {
  return mlir::isa<CastOp, IotaOp, BroadcastOp, SliceOp>(op);
}

/// A conversion to a wider float of a value that lies in memory in fewer bits.
bool isWidening(CastOp cast);
/// A conversion to a narrower float.
bool isNarrowing(CastOp cast);

/// Whether every reader of the cast can widen what it loads by itself.
bool isWidenedByReaders(CastOp cast);

/// Movement whose readers may each get a copy of their own, to load through.
inline bool isCopiedForReaders(mlir::Operation *op) {
  return mlir::isa<SliceOp, ConcatOp, PadOp, TransposeOp>(op);
}

/// Whether neighbours along the result's last dimension are neighbours (or the
/// same element) in the operand too, so that loads stay vectors.
bool keepsLastDimension(mlir::Operation *op);

/// The same for a vector of 16 bytes of a concat or pad: it comes from one
/// operand, or is the pad's value.
bool keepsVectors(mlir::Operation *op);

/// Whether the last dimension is no number of whole vectors of 16 bytes, so
/// that elements are loaded one by one anyway.
bool hasOddRows(mlir::Value value);

/// The same, or so few elements that a vector holds them all.
bool hasShortRows(mlir::Value value);

/// Only elementwise ops, and what keeps vectors.
bool isPlainLoop(llvm::ArrayRef<mlir::Operation *> ops);

/// Whether one of the ops is a transpose that takes rows apart.
bool isLastDimensionMoved(llvm::ArrayRef<mlir::Operation *> ops);

/// The value behind reshapes.
mlir::Value behindReshapes(mlir::Value value);

/// Whether the kernel of an attention's gradient stores what `op`, a transpose
/// or concat, makes of its results (GroupAttention.cpp).
bool isStoredByAttention(mlir::Operation *op);

/// Whether `use` returns the new value of a state argument of `function`.
bool returnsState(mlir::OpOperand &use, mlir::FunctionOpInterface function);

/// Whether `op` is a slice of what a product makes, narrowed or not, and all
/// others that read it are slices as well: a GPU's kernel stores each of them
/// by itself.
bool isPartOfProduct(mlir::Operation *op);

} // namespace mpc

#endif // MPC_ANALYSIS_FUSION_FUSIONMOVEMENT_H
