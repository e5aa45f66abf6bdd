//===- WeightColumns.h - weights of one op, as they are rounded -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which constants of a graph are weights, and how the numbers of one share
// scales.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_WEIGHTCOLUMNS_H
#define MPC_ANALYSIS_WEIGHTCOLUMNS_H

#include "mpc/Analysis/WeightRounding.h"
#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include <optional>
#include <vector>

namespace mpc {

/// How weights are stored, for factors of so many significant bits, and mean
/// squares of these, where they are known: one for each channel that a column
/// is multiplied with.
struct StoredWeights {
  WeightFormat format;
  int bits = kFloat32Bits;
  llvm::ArrayRef<float> squares = {};
};

/// Where the columns of a product, or the output channels of a conv, lie in its
/// constant.
struct WeightColumns {
  int64_t count = 0, length = 0;
  /// Elements between columns, and between the elements of one.
  int64_t stride = 0, step = 0;

  /// Those of operand 1 of `op`, a matmul or a conv; nullopt where that is a
  /// batch of matrices.
  static std::optional<WeightColumns> of(mlir::Operation *op);

  /// `format` as these columns of `op` take it: int4 is int8 where groups do
  /// not divide a column, or the channels of a filter, and for convs of groups.
  WeightFormat formatFor(WeightFormat format, mlir::Operation *op) const;

  /// Rounds `values`, the constant that `op` reads.
  void round(mlir::Operation *op, llvm::MutableArrayRef<float> values,
             const StoredWeights &stored) const;
};

/// The f32 constant that `op`, a matmul or a conv, multiplies with; null where
/// it reads no constant, or one of another type.
ConstantOp weightsOf(mlir::Operation *op);

/// The numbers of weightsOf(op); nullopt where they cannot be read or are not
/// all finite.
std::optional<std::vector<float>> finiteWeights(ConstantOp constant);

/// Significant bits of a type that ops compute in.
int significantBits(PolicyType type);

} // namespace mpc

#endif // MPC_ANALYSIS_WEIGHTCOLUMNS_H
