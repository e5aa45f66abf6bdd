//===- Float32Subgraphs.h - subgraphs that stay in f32 ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds ops that stay in f32: losses, statistics, softmaxes written as several
// ops, angles and coordinates.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_FLOAT32SUBGRAPHS_H
#define MPC_ANALYSIS_FLOAT32SUBGRAPHS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/SetVector.h"

namespace mpc {

/// Ops in the order of the function.
using OpSet = llvm::SmallSetVector<mlir::Operation *, 16>;

/// Returns the ops that compute results of role `loss`: from the result back
/// through elementwise ops, reductions, softmax and data movement. Stops at the
/// model: contractions, recurrences, norms, inputs of later contractions,
/// values that are also outputs, arguments and constants. Ops that only
/// gradients depend on are excluded.
OpSet findLossOps(mlir::func::FuncOp func);

/// Returns the ops that compute the new value of an argument of role
/// `statistics` (a running mean, a count): from the new value back through
/// elementwise ops and data movement to reductions, included, and to
/// contractions, recurrences and norms, excluded. In 16 bits a sum over steps
/// would stop growing.
OpSet findStatisticsOps(mlir::func::FuncOp func);

/// Returns the ops of softmax and logsumexp written as several ops: from the
/// exponentials of a sum, with the preceding subtraction of a maximum, to the
/// quotient or logarithm that reads it.
OpSet findExponentialSumOps(mlir::func::FuncOp func);

/// Returns true if `op` is a matmul or convolution of at most four products per
/// element: an outer product, an affine map of coordinates, a color projection.
/// Matrix units would mostly multiply padding, so 16 bits gain nothing.
bool hasShortDotProducts(mlir::Operation *op);

/// Returns sines, cosines and tangents of positions, coordinates or times, and
/// the ops that compute their angles: elementwise ops, short dot products and
/// data movement, back to arguments, constants and integers, or to a short dot
/// product. The error of a rounded angle is proportional to its size: position
/// 1,000 in bf16 is off by up to two radians. Excludes angles that layers of
/// the model compute otherwise.
OpSet findAngleOps(mlir::func::FuncOp func);

/// Returns true if an index, a length or a count depends on the result of `op`
/// and `op` is no layer of the model: all of its operands feed them as well.
/// `feedsIntegers` is that of IntegerValuedFloats.
bool isIndexArithmetic(mlir::Operation *op,
                       llvm::function_ref<bool(mlir::Value)> feedsIntegers);

/// Attribute of ops that compute the scale of a quantized value, and of ops
/// that divide by it before rounding. Scales are stored in f32 and may be as
/// small as its smallest normal number.
inline constexpr llvm::StringLiteral kScaleAttr = "mpc.scale";

/// Attribute of contractions whose operands are quantized: a description of
/// their format. Their results are divided by scales before they are rounded.
inline constexpr llvm::StringLiteral kOperandsAttr = "mpc.operands";
/// Attribute of those of the backward pass.
inline constexpr llvm::StringLiteral kBackwardAttr = "mpc.backward";
/// Attribute of contractions that a recipe selects and does not quantize,
/// because the model itself computes them in another type than f32.
inline constexpr llvm::StringLiteral kUnquantizedAttr = "mpc.unquantized";

} // namespace mpc

#endif // MPC_ANALYSIS_FLOAT32SUBGRAPHS_H
