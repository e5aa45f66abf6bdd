//===- OperandSums.h - sums beside a product --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradient of a weight is a product over all rows, that of the bias beside
// it a sum over the same rows of one operand: a kernel that reads the operand
// once can make both. So can the kernel of a depthwise convolution that has
// what a squeeze averages. What the fuser joins and what the kernel takes is
// decided here.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_OPERANDSUMS_H
#define MPC_ANALYSIS_OPERANDSUMS_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include <optional>

namespace mpc {

/// Whether `sum` reads, adds and stores f32, and leaves out what it sums over.
bool sumsInFloat32(ReduceSumOp sum);

/// What `sum` reads, before a cast that widens it to f32.
mlir::Value summedValue(ReduceSumOp sum);

/// The columns of an operand that are summed.
struct OperandSum {
  /// Whether they are of the left operand.
  bool isLeft = false;
  int64_t begin = 0, extent = 0;
};

/// How `sum` adds up columns of an operand of `product` over the dimension that
/// the product runs along: `x^T dy` and the sum of dy, or `dy^T x`. The operand
/// may be a reshape of what is summed, or a concat of it with others. nullopt
/// where it sums something else, or other than in f32.
std::optional<OperandSum> operandSumOf(ReduceSumOp sum, MatmulOp product);

/// Whether elementwise ops alone make `value` of `from`, in its shape.
bool isMadeElementwise(mlir::Value value, mlir::Value from);

/// Whether `op` adds up or averages, in f32 and over all pixels of each image,
/// what elementwise ops make of the result of `conv`, a convolution of a filter
/// for each channel, channels last.
bool poolsImages(mlir::Operation *op, ConvOp conv);

} // namespace mpc

#endif // MPC_ANALYSIS_OPERANDSUMS_H
