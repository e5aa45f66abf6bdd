//===- WeightColumns.h - quantization columns of weights --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Constants of a graph that are weights, and the elements that share a
// quantization scale.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_WEIGHTCOLUMNS_H
#define MPC_ANALYSIS_WEIGHTCOLUMNS_H

#include "mpc/Analysis/FakeQuantization.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include <optional>
#include <vector>

namespace mpc {
class ConstantOp;

/// Storage of weights, for operands of `bits` significant bits, and the mean
/// squares of the operand per input channel, if known.
struct StoredWeights {
  WeightFormat format;
  int bits = kFloat32Bits;
  llvm::ArrayRef<float> squares = {};
};

/// Layout of the columns of a GEMM's weights, or of the output channels of a
/// conv's, in the constant.
struct WeightColumns {
  int64_t count = 0, length = 0;
  /// Stride between columns, and between elements of a column, in elements.
  int64_t stride = 0, step = 0;

  /// Columns of operand 1 of `op`, a matmul or a conv; nullopt if batched.
  static std::optional<WeightColumns> of(mlir::Operation *op);

  /// Returns the format that these columns of `op` support: int4 falls back to
  /// int8 if groups do not divide a column, or a filter's channels, and for
  /// grouped convs.
  WeightFormat formatFor(WeightFormat format, mlir::Operation *op) const;

  /// Rounds `values`, the constant that `op` reads.
  void round(mlir::Operation *op, llvm::MutableArrayRef<float> values,
             const StoredWeights &stored) const;
};

/// Returns the f32 constant weights of `op`, a matmul or a conv; null if they
/// are no constant, or of another type.
ConstantOp weightsOf(mlir::Operation *op);

/// Returns the values of weightsOf(op); nullopt if they cannot be read or are
/// not all finite.
std::optional<std::vector<float>> finiteWeights(ConstantOp constant);

/// Number of significant bits of a compute type.
int significantBits(PolicyType type);

} // namespace mpc

#endif // MPC_ANALYSIS_WEIGHTCOLUMNS_H
