//===- AttentionGradientFma.h - it by fused multiply-adds -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For f32, f64 and whatever else the matrix units do not multiply. Both roles
// walk over tiles in the same way: a block owns rows of two operands (query and
// gradient, or key and value) and multiplies them with rows of the other two,
// which gives scores and slopes. Eight neighbouring lanes share a group of own
// rows, and hold the sums of every eighth vector of columns. Wide heads go
// through shared memory in pieces, and scores are made anew for each piece of
// the sums' columns.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTFMA_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTFMA_H

#include "AttentionGradientKernel.h"
#include "Mma.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

namespace mpc {

/// One kernel while its body is written.
class FmaGradient {
public:
  /// Threads that share a row, rows of the others' tiles, and those of a
  /// thread.
  static constexpr int64_t kRowThreads = 8, kOthers = 32,
                           kOthersPerThread = kOthers / kRowThreads;

  explicit FmaGradient(AttentionGradientKernel &gradient)
      : k(gradient.kernel), g(gradient), b(g.b), math(g.math), v(g.values) {
    const Schedule &schedule = k.schedule;
    rows = schedule["query_rows"];
    piece = schedule["columns"];
    lanes = schedule["lanes"];
    groups = schedule.threads / kRowThreads;
    rowsPerThread = rows / groups;
    vectors = piece / (lanes * kRowThreads);
    auto pieces = [&](int64_t extent) {
      return std::max<int64_t>(llvm::divideCeil(extent, piece), 1);
    };
    depthPieces = pieces(g.sizes.depth);
    widthPieces = pieces(g.sizes.width);
  }

  /// Writes both roles.
  mlir::LogicalResult emit();

private:
  /// Rows of two operands, multiplied with rows of two others: the first of
  /// each gives scores, the second slopes.
  struct Operands {
    mlir::Value first, second;
    /// Whether they are of the query's side.
    bool ofQuery;
  };

  // The roles (AttentionGradientFma.cpp).
  void makeTiles();
  mlir::LogicalResult emitRows();
  mlir::LogicalResult emitKeys();
  mlir::LogicalResult findStatistics();
  mlir::LogicalResult sumQuery(mlir::Value firstColumn);
  mlir::LogicalResult sumKeys(bool ofKey, bool ofValue,
                              mlir::Value firstColumn);

  // Tiles (AttentionGradientFmaTiles.cpp).
  mlir::LogicalResult loadOwn();
  mlir::LogicalResult emitScores(mlir::Value firstOther);
  mlir::LogicalResult loadFactor(bool second, mlir::Value firstOther,
                                 mlir::Value firstColumn);
  mlir::Value score(mlir::Value i, mlir::Value j, mlir::Value firstOther);
  mlir::LogicalResult emitFactors(mlir::Value firstOther, bool ofWeights);
  void addScores(mlir::Value sums, mlir::Value own, mlir::Value other);
  void addProducts(mlir::Value sums, mlir::Value factors, mlir::Value other);
  mlir::LogicalResult emitResult(AttentionResult result, mlir::Value sums,
                                 mlir::Value firstColumn);

  mlir::Value constant(double value) { return v.constant(g.sumType, value); }
  double infinity() { return std::numeric_limits<double>::infinity(); }
  /// Row `i` of the thread in the block's tile, row `j` of the others.
  mlir::Value rowOf(mlir::Value i) {
    return math.add(group, math.mul(i, groups));
  }
  mlir::Value otherOf(mlir::Value j) {
    return math.add(member, math.mul(j, kRowThreads));
  }
  mlir::Value vectorAt(mlir::Value memory, mlir::Value row,
                       mlir::Value column) {
    return mlir::vector::LoadOp::create(
        b, k.loc, mlir::VectorType::get({lanes}, g.sumType), memory,
        mlir::ValueRange{row, column});
  }
  mlir::Value lane(mlir::Value vector, int64_t position) {
    return mlir::vector::ExtractOp::create(b, k.loc, vector, position);
  }
  /// Joins a row's values over the threads that share it.
  mlir::Value
  joined(mlir::Value value,
         llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> join) {
    for (int64_t flip = 1; flip < kRowThreads; flip *= 2)
      value = join(value, g.shuffleXor(value, flip));
    return value;
  }
  void fillZero(mlir::Value array) {
    auto shape = mlir::cast<mlir::MemRefType>(array.getType()).getShape();
    unrolled(k, shape[0], "i", [&](mlir::Value i) {
      unrolled(k, shape[1], "j",
               [&](mlir::Value j) { g.store(constant(0), array, {i, j}); });
    });
  }
  mlir::LogicalResult fill(mlir::Value tensor, bool ofQuery, mlir::Value row,
                           mlir::Value column, mlir::Value memory,
                           int64_t tileRows) {
    bool isGradient = tensor == g.op.getGradient();
    return g.fill({tensor,
                   ofQuery ? g.head : g.keyHead,
                   row,
                   column,
                   memory,
                   {},
                   tileRows,
                   piece,
                   isGradient ? g.factorType() : mlir::Type()});
  }
  bool isResident() const { return depthPieces == 1 && widthPieces == 1; }
  mlir::Value ownRow() { return own.ofQuery ? g.firstRow : g.firstKey; }

  GpuKernel &k;
  AttentionGradientKernel &g;
  mlir::OpBuilder &b;
  IndexMath &math;
  MathExpansion &v;
  int64_t rows, piece, lanes, groups, rowsPerThread, vectors, depthPieces,
      widthPieces;
  /// The block's operands in its role, and those it walks over.
  Operands own, other;
  /// Tiles in shared memory: two of own rows, two of others, the factors made
  /// of probabilities and of scores, and the others' statistics.
  mlir::Value ownFirst, ownSecond, otherFirst, otherSecond, weights, factors,
      statistics;
  /// Of the thread: [row][other].
  mlir::Value scores, slopes;
  /// Rows role, of each row: the maximum, its probabilities' factor, delta.
  mlir::Value largest, inverse, delta;
  mlir::Value group, member;
};
} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTFMA_H
