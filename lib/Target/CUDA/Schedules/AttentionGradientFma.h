//===- AttentionGradientFma.h - attention gradient without mma --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For f32, f64 and types without tensor cores. Both roles loop over tiles in
// the same way: a block has fixed ("own") rows of two operands (query and
// output gradient, or key and value) and multiplies them with rows of the other
// two, which gives scores and dP (`slopes`). Eight adjacent lanes share a group
// of own rows, and accumulate every eighth vector of columns. Wide heads pass
// through shared memory in pieces, and scores are recomputed for each piece of
// result columns.
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

/// Generates the body of one kernel.
class FmaGradient {
public:
  /// Threads per row, rows of the other operands' tiles, and those per thread.
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

  /// Generates both roles.
  mlir::LogicalResult emit();

private:
  /// Rows of two operands, multiplied with rows of two others: the first pair
  /// gives scores, the second dP.
  struct Operands {
    mlir::Value first, second;
    /// Whether the operands are query and output gradient.
    bool ofQuery;
  };

  // Roles (AttentionGradientFma.cpp).
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
  /// Reduces a row's value over its threads.
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
  /// The block's own operands, and those it loops over.
  Operands own, other;
  /// Shared-memory tiles: two of own rows, two of others, P (`weights`), dS or
  /// P * dP (`factors`), and the others' statistics.
  mlir::Value ownFirst, ownSecond, otherFirst, otherSecond, weights, factors,
      statistics;
  /// Per thread: [row][other].
  mlir::Value scores, slopes;
  /// Rows role, per row: maximum, 1 / total, delta.
  mlir::Value largest, inverse, delta;
  mlir::Value group, member;
};
} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTFMA_H
