//===- WideParts.h - parts of a graph that stay in f32 ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What makes a loss, and what normalises by a sum of exponentials, is f32 where
// the graph spells it out as it is where one op stands for it. So are angles
// and coordinates.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_WIDEPARTS_H
#define MPC_ANALYSIS_WIDEPARTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/SetVector.h"

namespace mpc {

/// Ops in the order of the function.
using OpSet = llvm::SmallSetVector<mlir::Operation *, 16>;

/// The ops that make results of role `loss`: from the result back through
/// elementwise ops, reductions, softmax and what moves elements. It ends where
/// the model begins: at contractions, recurrences and norms, at what a later
/// contraction of the model reads, at values that are outputs as well, and at
/// arguments and constants. What gradients alone compute is no part.
OpSet opsOfLosses(mlir::func::FuncOp func);

/// The ops that make what replaces an argument of role `statistics` (a running
/// mean, a count): from the new value back through elementwise ops and what
/// moves elements, to reductions, which are part of it, and to contractions,
/// recurrences and norms, which are not. In 16 bits a sum over steps would stop
/// growing.
OpSet opsOfStatistics(mlir::func::FuncOp func);

/// The ops of softmax and logsumexp in steps: from the exponentials of a sum,
/// with the subtraction of a maximum before them, to the quotient or logarithm
/// that reads it.
OpSet opsOfExponentialSums(mlir::func::FuncOp func);

/// Whether `op` is a matmul or convolution that sums at most four products for
/// each element: an outer product, an affine map of coordinates, a projection
/// of colours. Matrix units would multiply padding for the most part, so that
/// 16 bits gain nothing.
bool sumsFewTerms(mlir::Operation *op);

/// Sines, cosines and tangents of positions, coordinates or times, and the ops
/// that make their angles: elementwise ops, products of few terms and what
/// moves elements, all the way back to arguments, constants and integers, or to
/// a product of few terms. A rounded angle is off by a share of its size:
/// position 1,000 in bf16 by up to two radians. Angles that layers of the model
/// compute otherwise are none of these.
OpSet opsOfAngles(mlir::func::FuncOp func);

/// Whether an index, a length or a count follows from what `op` computes, and
/// it is no layer of the model: all that it reads feeds them as well.
/// `feedsIntegers` is that of IntegerValues.
bool isIndexArithmetic(mlir::Operation *op,
                       llvm::function_ref<bool(mlir::Value)> feedsIntegers);

/// What gives rows of a cache 8 bits: from the largest magnitude of a row over
/// its scale to the number that is kept. A scale is stored in f32 and may be as
/// small as the least normal number, which f16 has not.
OpSet opsOfRowScales(mlir::func::FuncOp func);

} // namespace mpc

#endif // MPC_ANALYSIS_WIDEPARTS_H
