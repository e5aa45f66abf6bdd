//===- AttentionFma.cpp - flash attention without tensor cores ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For f32, f64 and types without tensor cores. Eight adjacent lanes share a
// group of query rows: each computes the scores of every eighth key of a tile
// and accumulates every eighth vector of value columns. Wide heads pass through
// shared memory in pieces, wide values are split over blocks.
//
//===----------------------------------------------------------------------===//

#include "AttentionSplitKv.h"

#include "Mma.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

namespace {
/// Threads per row.
constexpr int64_t kRowThreads = 8;

class FmaAttention {
public:
  explicit FmaAttention(AttentionKernel &attention)
      : k(attention.kernel), a(attention), b(a.b), math(a.math), v(a.values) {
    const AttentionSchedule &schedule = a.parameters;
    rows = schedule.rows;
    keys = schedule.keys;
    depth = schedule.depth;
    columns = schedule.columns;
    lanes = schedule.lanes;
    groups = k.schedule.threads / kRowThreads;
    rowsPerThread = rows / groups;
    keysPerThread = keys / kRowThreads;
    vectors = columns / (lanes * kRowThreads);
    pieces = std::max<int64_t>(1, llvm::divideCeil(a.sizes.depth, depth));
  }

  LogicalResult emit();

private:
  void makeTiles();
  LogicalResult emitScores(Value firstKey);
  void addProducts();
  LogicalResult softmax(Value firstKey);
  void addValues();
  LogicalResult emitResults(SplitKvPart &part);

  Value constant(double value) { return v.constant(a.sumType, value); }
  Value infinity() {
    return constant(-std::numeric_limits<double>::infinity());
  }
  /// Returns row `i` of the thread in the block's tile.
  Value rowOf(Value i) { return math.add(group, math.mul(i, groups)); }
  Value vectorAt(Value memory, Value row, Value column) {
    return vector::LoadOp::create(b, k.loc, VectorType::get({lanes}, a.sumType),
                                  memory, ValueRange{row, column});
  }
  Value lane(Value vector, int64_t position) {
    return vector::ExtractOp::create(b, k.loc, vector, position);
  }
  /// Reduces a row's value over its threads.
  Value joined(Value value, llvm::function_ref<Value(Value, Value)> join) {
    for (int64_t flip = 1; flip < kRowThreads; flip *= 2)
      value = join(value, a.shuffleXor(value, flip));
    return value;
  }
  LogicalResult fill(Value tensor, ValueRange leading, Value row, Value column,
                     Value memory, int64_t tileRows, int64_t tileColumns) {
    AttentionKernel::Tile tile{tensor, leading, row,      column,
                               memory, {},      tileRows, tileColumns};
    tile.ofGroup =
        a.sizes.grouped > 1 && tensor == a.op.getQuery() && memory == query;
    return a.fill(tile);
  }

  GpuKernel &k;
  AttentionKernel &a;
  OpBuilder &b;
  IndexMath &math;
  MathExpansion &v;
  int64_t rows, keys, depth, columns, lanes, groups, rowsPerThread,
      keysPerThread, vectors, pieces;
  /// Shared-memory tiles.
  Value query, key, value, weights;
  /// Per thread: scores [row][key], accumulators [row][column], running maximum
  /// and total of each row.
  Value scores, sums, largest, total;
  Value group, member;
};
} // namespace

void FmaAttention::makeTiles() {
  Value bytes = dynamicShared(k);
  int64_t size = a.sumType.getIntOrFloatBitWidth() / 8, offset = 0;
  auto tile = [&](int64_t tileRows, int64_t pitch, StringRef name) {
    Value view =
        sharedView(k, bytes, offset, {tileRows, pitch}, a.sumType, name);
    offset += tileRows * pitch * size;
    return view;
  };
  // Pitch without bank conflicts between adjacent rows.
  query = tile(rows, depth + lanes, "query_tile");
  key = tile(keys, depth + lanes, "key_tile");
  value = tile(keys, columns, "value_tile");
  weights = tile(rows, keys + lanes, "weights");
}

LogicalResult FmaAttention::emit() {
  a.placeBlock(rows, columns);
  group = k.named(math.div(a.thread, kRowThreads), "group");
  member = k.named(math.rem(a.thread, kRowThreads), "member");
  makeTiles();
  scores = k.local({rowsPerThread, keysPerThread}, a.sumType, "scores");
  sums = k.local({rowsPerThread, vectors * lanes}, a.sumType, "sums");
  largest = k.local({rowsPerThread}, a.sumType, "largest");
  total = k.local({rowsPerThread}, a.sumType, "total");
  unrolled(k, rowsPerThread, "i", [&](Value i) {
    a.store(infinity(), largest, i);
    a.store(constant(0), total, i);
    unrolled(k, vectors * lanes, "j",
             [&](Value j) { a.store(constant(0), sums, {i, j}); });
  });
  if (pieces == 1 && failed(fill(a.op.getQuery(), a.head, a.firstRow,
                                 math.constant(0), query, rows, depth)))
    return failure();

  LogicalResult status = success();
  SplitKvPart part(a);
  Value end = part.endBefore(a.keyEnd(math.add(a.firstRow, rows)));
  math.loop(part.begin(), end, keys, [&](Value first) {
    k.named(first, "first_key");
    if (failed(emitScores(first)) ||
        failed(fill(a.op.getValue(), a.keyHead, first, a.firstColumn, value,
                    keys, columns)) ||
        failed(softmax(first)))
      status = failure();
    k.barrier();
    addValues();
    // All threads must have read the tiles before they are overwritten.
    k.barrier();
  });
  return succeeded(status) ? emitResults(part) : failure();
}

LogicalResult FmaAttention::emitScores(Value firstKey) {
  unrolled(k, rowsPerThread, "i", [&](Value i) {
    unrolled(k, keysPerThread, "j",
             [&](Value j) { a.store(constant(0), scores, {i, j}); });
  });
  if (pieces == 1) {
    if (failed(fill(a.op.getKey(), a.keyHead, firstKey, math.constant(0), key,
                    keys, depth)))
      return failure();
    k.barrier();
    addProducts();
    return success();
  }
  LogicalResult status = success();
  math.loop(math.constant(0), math.constant(a.sizes.depth), depth,
            [&](Value first) {
              k.named(first, "first_depth");
              if (failed(fill(a.op.getQuery(), a.head, a.firstRow, first, query,
                              rows, depth)) ||
                  failed(fill(a.op.getKey(), a.keyHead, firstKey, first, key,
                              keys, depth)))
                status = failure();
              k.barrier();
              addProducts();
              k.barrier();
            });
  return status;
}

/// scores += query tile * key tile.
void FmaAttention::addProducts() {
  auto loop = scf::ForOp::create(b, k.loc, math.constant(0),
                                 math.constant(depth), math.constant(lanes));
  k.named(loop.getInductionVar(), "d");
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  Value d = loop.getInductionVar();
  SmallVector<Value> queries;
  for (int64_t i = 0; i < rowsPerThread; ++i)
    queries.push_back(
        k.named(vectorAt(query, rowOf(math.constant(i)), d), "query_part"));
  unrolled(k, keysPerThread, "j", [&](Value j) {
    Value part =
        k.named(vectorAt(key, math.add(member, math.mul(j, kRowThreads)), d),
                "key_part");
    for (int64_t i = 0; i < rowsPerThread; ++i) {
      SmallVector<Value> at = {math.constant(i), j};
      Value sum = a.load(scores, at);
      for (int64_t e = 0; e < lanes; ++e)
        sum = v.fma(lane(queries[i], e), lane(part, e), sum);
      a.store(sum, scores, at);
    }
  });
}

/// Converts the thread's scores to weights, shared with the row's threads.
LogicalResult FmaAttention::softmax(Value firstKey) {
  LogicalResult status = success();
  unrolled(k, rowsPerThread, "i", [&](Value i) {
    Value row = k.named(math.add(a.firstRow, rowOf(i)), "row");
    auto eachScore = [&](llvm::function_ref<void(ArrayRef<Value>)> body) {
      unrolled(k, keysPerThread, "j", [&](Value j) { body({i, j}); });
    };
    eachScore([&](ArrayRef<Value> at) {
      Value column = k.named(
          math.add(firstKey, math.add(member, math.mul(at[1], kRowThreads))),
          "position");
      Value score = a.masked(a.load(scores, at), row, column);
      if (!score)
        status = failure();
      else
        a.store(k.named(a.bounded(score, row, column), "score"), scores, at);
    });
    Value shrink = a.updateOnlineSoftmax(
        {i, largest, {total}}, scores, eachScore,
        [&](Value own) {
          return joined(
              own, [&](Value x, Value y) { return a.formula.larger(x, y); });
        },
        [&](ArrayRef<Value> at, Value weight) {
          a.store(weight, weights,
                  {rowOf(i), math.add(member, math.mul(at[1], kRowThreads))});
        });
    unrolled(k, vectors * lanes, "j", [&](Value j) {
      a.store(v.mul(a.load(sums, {i, j}), shrink), sums, {i, j});
    });
  });
  return status;
}

/// sums += weights * value tile.
void FmaAttention::addValues() {
  auto loop = scf::ForOp::create(b, k.loc, math.constant(0),
                                 math.constant(keys), math.constant(1));
  Value t = k.named(loop.getInductionVar(), "t");
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  SmallVector<Value> weight;
  for (int64_t i = 0; i < rowsPerThread; ++i)
    weight.push_back(
        k.named(a.load(weights, {rowOf(math.constant(i)), t}), "weight"));
  unrolled(k, vectors, "j", [&](Value j) {
    Value column = math.mul(math.add(member, math.mul(j, kRowThreads)), lanes);
    Value part = k.named(vectorAt(value, t, column), "value_part");
    for (int64_t i = 0; i < rowsPerThread; ++i)
      for (int64_t e = 0; e < lanes; ++e) {
        SmallVector<Value> at = {math.constant(i),
                                 math.add(math.mul(j, lanes), e)};
        a.store(v.fma(weight[i], lane(part, e), a.load(sums, at)), sums, at);
      }
  });
}

LogicalResult FmaAttention::emitResults(SplitKvPart &part) {
  LogicalResult status = success();
  int64_t stored = a.storeLanes(lanes);
  unrolled(k, rowsPerThread, "i", [&](Value i) {
    Value row = k.named(math.add(a.firstRow, rowOf(i)), "row");
    Value sum = joined(a.load(total, i),
                       [&](Value x, Value y) -> Value { return v.add(x, y); });
    Value inverse;
    if (!part.isShared())
      inverse = k.named(a.formula.inverse(sum, a.load(largest, i)), "inverse");
    auto ifInside = [&](Value condition, llvm::function_ref<void()> body) {
      auto branch = scf::IfOp::create(b, k.loc, condition,
                                      /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(branch.thenBlock()->getTerminator());
      body();
    };
    ifInside(math.less(row, a.sizes.groupRows()), [&] {
      if (part.isShared())
        k.within(math.less(member, 1), [&] {
          part.storePartialRow(rowOf(i), a.load(largest, i), sum);
        });
      unrolled(k, vectors * lanes / stored, "j", [&](Value j) {
        // The thread's vector number j / (lanes / stored), or a part of it.
        int64_t parts = lanes / stored;
        Value first = math.mul(j, stored);
        Value column =
            math.add(math.mul(math.add(member, math.mul(math.div(j, parts),
                                                        kRowThreads)),
                              lanes),
                     math.mul(math.rem(j, parts), stored));
        Value inTile = column;
        column = k.named(math.add(a.firstColumn, column), "column");
        ifInside(math.less(column, a.sizes.width), [&] {
          SmallVector<Value> results;
          for (int64_t e = 0; e < stored; ++e) {
            Value own = a.load(sums, {i, math.add(first, e)});
            results.push_back(inverse ? v.mul(own, inverse) : own);
          }
          Value result = results.front();
          if (stored > 1)
            result = vector::FromElementsOp::create(
                b, k.loc, VectorType::get({stored}, a.sumType), results);
          if (part.isShared())
            part.leave(result, rowOf(i), inTile);
          else if (failed(a.store(result, row, column, stored)))
            status = failure();
        });
      });
    });
  });
  if (part.isShared() && succeeded(status))
    return part.join();
  return status;
}

LogicalResult cuda::emitAttentionByFma(AttentionKernel &attention) {
  return FmaAttention(attention).emit();
}
