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

/// Scales of groups, and their zero points if the format has them.
struct GroupScales {
  llvm::ArrayRef<float> scales;
  llvm::ArrayRef<uint8_t> zeros;

  WeightScale at(int64_t group) const {
    return {scales[group], zeros.empty() ? 0 : zeros[group]};
  }
};
struct MutableScales {
  llvm::MutableArrayRef<float> scales;
  llvm::MutableArrayRef<uint8_t> zeros;
};

/// Layout of the columns of a GEMM's weights, or of the output channels of a
/// conv's, in the constant.
struct WeightColumns {
  int64_t count = 0, length = 0;
  /// Stride between columns, and between elements of a column, in elements.
  int64_t stride = 0, step = 0;
  /// Number of elements of a column that read one input channel, and of columns
  /// that read the same channels.
  int64_t run = 1, alike = 1;

  /// Columns of operand 1 of `op`, a matmul or a conv; nullopt if batched.
  static std::optional<WeightColumns> of(mlir::Operation *op);

  /// Returns the format that these columns of `op` support: int4 falls back to
  /// int8 if groups do not divide a column, or a filter's channels, and for
  /// grouped convs.
  WeightFormat formatFor(WeightFormat format, mlir::Operation *op) const;

  /// Number of elements that share a scale.
  int64_t groupSize(const WeightFormat &format) const {
    return format.type == WeightType::Int4 ? format.group : length;
  }
  /// Number of groups in all columns; 0 for a format without scales.
  int64_t groupCount(const WeightFormat &format) const {
    return format.isScaled() ? count * (length / groupSize(format)) : 0;
  }
  /// Chooses the scale of each group of `values`, the constant that `op` reads:
  /// the groups of the first column, of the second, ...
  void chooseScales(mlir::MLIRContext *context, llvm::ArrayRef<float> values,
                    const StoredWeights &stored,
                    const MutableScales &scales) const;
  /// Rounds `values` to numbers of `scales`.
  void round(mlir::MLIRContext *context, llvm::MutableArrayRef<float> values,
             const StoredWeights &stored, const GroupScales &scales) const;
  /// Chooses scales and rounds to them.
  void round(mlir::MLIRContext *context, llvm::MutableArrayRef<float> values,
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
