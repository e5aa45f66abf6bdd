//===- FusionPredicates.h - properties of ops for fusion --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Predicates on single ops that the fusion rules use.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_FUSION_FUSIONPREDICATES_H
#define MPC_ANALYSIS_FUSION_FUSIONPREDICATES_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mpc {
class CastOp;

/// Larger kernels take long to compile and run out of registers.
inline constexpr size_t kMostKernelOps = 64;

/// Returns the op's fusion class; an op unknown to the fuser has a kernel.
inline FusionClass familyOf(mlir::Operation *op) { return fusionClassOf(op); }

inline bool isElementwise(mlir::Operation *op) {
  return mlir::isa<ElementwiseOpInterface>(op);
}

/// Conversions are cheap compared with the memory traffic they save.
bool isFreeToRepeat(mlir::Operation *op);

/// Returns true for a conversion to a wider float of a narrow stored value.
bool isWidening(CastOp cast);
/// Returns true for a conversion to a narrower float.
bool isNarrowing(CastOp cast);

/// Returns true if every reader of the cast can convert while it loads.
bool isWidenedByReaders(CastOp cast);

/// Returns true for data movement that is duplicated into each reader's kernel.
bool isCopiedForReaders(mlir::Operation *op);

/// Returns true if neighbors along the result's last dimension are neighbors
/// (or the same element) in the operand too, so that vector loads work.
bool keepsLastDimension(mlir::Operation *op);

/// The same for 16-byte vectors of a concat or pad: each comes from one operand
/// or is the pad's value.
bool keepsVectors(mlir::Operation *op);

/// Returns true if the last dimension is not a multiple of 16-byte vectors, so
/// that loads are scalar anyway.
bool hasOddRows(mlir::Value value);

/// The same, or so few elements that one vector holds them all.
bool hasShortRows(mlir::Value value);

/// Returns true if the ops are elementwise or preserve vectors.
bool isPlainLoop(llvm::ArrayRef<mlir::Operation *> ops);

/// Returns true if one of the ops transposes the last dimension.
bool isLastDimensionMoved(llvm::ArrayRef<mlir::Operation *> ops);

/// Returns the value before reshapes.
mlir::Value sourceOfReshapes(mlir::Value value);

/// Returns true if the attention-gradient kernel stores the result of `op`, a
/// transpose or concat of its results, directly
/// (InitialGroups.cpp).
bool isStoredByAttention(mlir::Operation *op);

/// Returns true if `use` returns the new value of a state of `function`.
bool returnsState(mlir::OpOperand &use, mlir::FunctionOpInterface function);

} // namespace mpc

#endif // MPC_ANALYSIS_FUSION_FUSIONPREDICATES_H
