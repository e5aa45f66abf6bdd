//===- OperandSums.h - reductions fused into kernels ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradient of a weight is a GEMM over all rows, and the gradient of its
// bias sums one operand of the GEMM over the same rows: a kernel that reads the
// operand once can compute both. Likewise, the kernel of a depthwise
// convolution can average its result for a squeeze, and any kernel can compute
// the largest magnitude of its result (amax), from which the scale of a
// quantized operand follows. The fuser and the kernels share these predicates.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_OPERANDSUMS_H
#define MPC_ANALYSIS_OPERANDSUMS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include <optional>

namespace mpc {
class ConvOp;
class MatmulOp;
class ReduceMaxOp;
class ReduceSumOp;

/// Returns true if `sum` reads, accumulates and stores f32, and removes the
/// summed dimensions.
bool sumsInFloat32(ReduceSumOp sum);

/// Returns the input of `sum`, before a cast that widens it to f32.
mlir::Value summedValue(ReduceSumOp sum);

/// Columns of a GEMM operand that are summed.
struct OperandSum {
  /// Whether they belong to the left operand.
  bool isLeft = false;
  int64_t begin = 0, extent = 0;
};

/// Returns the columns if `sum` reduces columns of an operand of `product` over
/// the GEMM's contracted dimension: `x^T dy` and the sum of dy, or `dy^T x`.
/// The operand may be a reshape of the summed value, or a concat with others.
/// nullopt if it sums something else, or not in f32.
std::optional<OperandSum> operandSumOf(ReduceSumOp sum, MatmulOp product);

/// Returns true if `value` is computed from `from` by elementwise ops of the
/// same shape only.
bool isMadeElementwise(mlir::Value value, mlir::Value from);

/// Returns true if `op` sums or averages, in f32 and over all pixels of each
/// image, an elementwise function of the result of `conv`, a channels-last
/// depthwise convolution.
bool poolsImages(mlir::Operation *op, ConvOp conv);

/// Returns true if the result of `op` has the magnitudes of its operand: a
/// reshape, a permutation, or a cast to a wider float type.
bool keepsMagnitudes(mlir::Operation *op);

/// Returns true if `reduce` computes the largest magnitude of a tensor of
/// float32, bfloat16 or float16: the maximum over all elements of an absolute
/// value, directly or through ops that keep magnitudes.
bool isLargestMagnitude(ReduceMaxOp reduce);

} // namespace mpc

#endif // MPC_ANALYSIS_OPERANDSUMS_H
