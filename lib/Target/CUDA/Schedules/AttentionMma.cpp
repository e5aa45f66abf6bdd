//===- AttentionMma.cpp - flash attention on tensor cores -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For f16, bf16 and tf32. A warp has 16 query rows: their fragments, scores,
// accumulators, maxima and totals stay in registers while tiles of key and
// value are double-buffered in shared memory. Weights are used from the scores'
// registers as the left operand of the second GEMM: as one value in tf32 or for
// 16-bit results, else split into several 16-bit values.
//
//===----------------------------------------------------------------------===//

#include "AttentionSplitKv.h"
#include "Mma.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

namespace {
/// Generates the body of one kernel.
class MmaAttention {
public:
  explicit MmaAttention(AttentionKernel &attention);

  LogicalResult emit();

private:
  /// Loads the block's query rows into shared memory and, if they fit, into
  /// registers; key tiles then reuse the memory.
  LogicalResult loadQuery();
  /// Loads the fragment at `step` along the depth.
  void loadQueryWords(Value slot, Value step);
  /// Starts copying the key and value tiles at `firstKey`, or loads them
  /// synchronously if there is no double buffering.
  LogicalResult loadTiles(Value firstKey, Value stage);
  /// Normalizes the accumulators and stages them through shared memory as whole
  /// rows for the epilogue.
  LogicalResult emitResults(SplitKvPart &part);

  /// scores = query * key tile.
  void multiplyKeys(Value stage);
  /// Scales and masks the scores of the tile at `firstKey`, including the end
  /// and the diagonal.
  LogicalResult maskScores(Value firstKey);
  /// Online softmax step: converts scores to weights, rescales accumulators and
  /// totals to the new maximum.
  void softmax();
  /// sums += weights * value tile.
  void multiplyValues(Value stage);

  Value constant(double value) { return v.constant(a.sumType, value); }
  void each(int64_t count, llvm::StringRef name,
            llvm::function_ref<void(Value)> body) {
    unrolled(k, count, name, body);
  }
  /// Reduces a row's value over the four lanes that share it.
  Value joined(Value value, llvm::function_ref<Value(Value, Value)> join);
  /// Row, and column in an 8-column block, of element `e` (0 to 3) of an
  /// accumulator fragment.
  Value rowOf(Value e) {
    return math.add(warpRow,
                    math.add(fragments.group, math.mul(math.div(e, 2), 8)));
  }
  Value columnOf(Value e) { return math.add(fragments.pair, math.rem(e, 2)); }

  GpuKernel &k;
  AttentionKernel &a;
  OpBuilder &b;
  IndexMath &math;
  MathExpansion &v;
  WarpMma mma;
  AccumulatorFragments fragments;
  Type element;
  int64_t rows, keys, depth, columns, stages, weightPieces, pieceColumns;
  /// Bytes per element, and padding of a tile's rows against bank conflicts, in
  /// elements.
  int64_t bytes, skew;
  bool keepsQuery;
  /// Shared-memory tiles, [stage][position][column].
  Value sharedBytes, queryTile, keyTile, valueTile;
  /// Per lane: query fragments (all steps along the depth if they stay in
  /// registers), scores, accumulators by pieces of columns, and running maximum
  /// and total of the rows `group` and `group + 8`.
  Value queryWords, keyWords, scores, sums, largest, total, shrink;
  Value warpRow;
};
} // namespace

/// Rows per warp, and padding of the result tile's rows against bank conflicts,
/// in f32 elements.
static constexpr int64_t kWarpRows = 16, kResultSkew = 8;

MmaAttention::MmaAttention(AttentionKernel &attention)
    : k(attention.kernel), a(attention), b(a.b), math(a.math), v(a.values),
      mma(k, *mmaUnit(getElementTypeOrSelf(a.op.getQuery()), ComputeMode::tf32,
                      k.target)),
      fragments(k, v, mma.unit),
      element(getElementTypeOrSelf(a.op.getQuery().getType())) {
  const AttentionSchedule &schedule = a.parameters;
  rows = schedule.rows;
  keys = schedule.keys;
  depth = schedule.depth;
  columns = schedule.columns;
  stages = schedule.stages;
  bytes = element.getIntOrFloatBitWidth() / 8;
  skew = 16 / bytes;
  weightPieces = schedule.weightPieces;
  pieceColumns = schedule.pieceColumns;
  keepsQuery = schedule.queryInRegisters;
  // Without an additive mask the scale is folded into the exponent.
  Value mask = a.op.getMask();
  bool addsMask = mask && isa<FloatType>(getElementTypeOrSelf(mask.getType()));
  a.formula.useFastPowers(/*scaled=*/a.problem.scale <= 0 || addsMask);
}

Value MmaAttention::joined(Value value,
                           llvm::function_ref<Value(Value, Value)> join) {
  for (int64_t flip = 1; flip < 4; flip *= 2)
    value = join(value, a.shuffleXor(value, flip));
  return value;
}

LogicalResult MmaAttention::emit() {
  a.placeBlock(rows, columns);
  Value warp = math.div(a.thread, 32);
  fragments.place();
  warpRow = k.named(math.mul(warp, kWarpRows), "warp_row");
  sharedBytes = dynamicShared(k);
  int64_t keyBytes = stages * keys * (depth + skew) * bytes;
  keyTile = sharedView(k, sharedBytes, 0, {stages, keys, depth + skew}, element,
                       "key_tile");
  valueTile = sharedView(k, sharedBytes, keyBytes,
                         {stages, keys, columns + skew}, element, "value_tile");
  if (failed(loadQuery()))
    return failure();

  scores = mma.sums(1, keys / 8, "scores");
  keyWords = mma.rightFragments(keys / 8, "key_words");
  sums = k.local({columns / pieceColumns, 1, pieceColumns / 8, 4}, a.sumType,
                 "sums");
  largest = k.local({2}, a.sumType, "largest");
  total = k.local({2}, a.sumType, "total");
  shrink = k.local({2}, a.sumType, "shrink");
  mma.fill(sums, 0);
  mma.fill(largest, -std::numeric_limits<float>::infinity());
  mma.fill(total, 0);

  LogicalResult status = success();
  SplitKvPart part(a);
  Value end = part.endBefore(a.keyEnd(math.add(a.firstRow, rows)));
  Value zero = math.constant(0);
  bool pipelined = stages == 2;
  if (pipelined) {
    if (failed(loadTiles(part.begin(), zero)))
      return failure();
    cuda::CommitCopiesOp::create(b, k.loc);
  }
  math.loop(part.begin(), end, keys, [&](Value first) {
    k.named(first, "first_key");
    Value stage = zero;
    if (pipelined) {
      stage = k.named(math.rem(math.div(first, keys), 2), "stage");
      cuda::WaitCopiesOp::create(b, k.loc, 0);
      k.barrier();
      Value next = k.named(math.add(first, keys), "next_key");
      k.within(math.less(next, end), [&] {
        if (failed(loadTiles(next, math.sub(math.constant(1), stage))))
          status = failure();
      });
      cuda::CommitCopiesOp::create(b, k.loc);
    } else {
      if (failed(loadTiles(first, stage)))
        status = failure();
      k.barrier();
    }
    multiplyKeys(stage);
    if (failed(maskScores(first)))
      status = failure();
    softmax();
    multiplyValues(stage);
    if (!pipelined)
      k.barrier();
  });
  return succeeded(status) ? emitResults(part) : failure();
}

LogicalResult MmaAttention::loadQuery() {
  int64_t pitch = depth + skew, steps = depth / mma.depth();
  int64_t tileBytes = stages * keys * (pitch + columns + skew) * bytes;
  queryTile = sharedView(k, sharedBytes, keepsQuery ? 0 : tileBytes,
                         {rows, pitch}, element, "query_tile");
  AttentionKernel::Tile query{
      a.op.getQuery(), a.head, a.firstRow, math.constant(0),
      queryTile,       {},     rows,       depth};
  query.ofGroup = a.sizes.grouped > 1;
  if (a.parameters.asyncQuery) {
    a.copyAsync(query);
    cuda::CommitCopiesOp::create(b, k.loc);
    cuda::WaitCopiesOp::create(b, k.loc, 0);
  } else if (failed(a.fill(query))) {
    return failure();
  }
  k.barrier();
  queryWords =
      k.local({keepsQuery ? steps : 1, 1, 4}, b.getI32Type(), "query_words");
  if (!keepsQuery)
    return success();
  each(steps, "step", [&](Value step) { loadQueryWords(step, step); });
  k.barrier();
  return success();
}

void MmaAttention::loadQueryWords(Value slot, Value step) {
  mma.loadLeft(slotOf(k, queryWords, slot), {queryTile, true, {}, warpRow},
               math.mul(step, mma.depth()));
}

LogicalResult MmaAttention::loadTiles(Value firstKey, Value stage) {
  Value zero = math.constant(0);
  AttentionKernel::Tile key{a.op.getKey(), a.keyHead, firstKey, zero,
                            keyTile,       {stage},   keys,     depth};
  AttentionKernel::Tile value{a.op.getValue(), a.keyHead, firstKey, zero,
                              valueTile,       {stage},   keys,     columns};
  if (stages == 1)
    return success(succeeded(a.fill(key)) && succeeded(a.fill(value)));
  a.copyAsync(key);
  a.copyAsync(value);
  return success();
}

LogicalResult MmaAttention::emitResults(SplitKvPart &part) {
  Value zero = math.constant(0);
  Value tile = sharedView(k, sharedBytes, 0, {rows, columns + kResultSkew},
                          a.sumType, "result_tile");
  // A block without keys has copies in flight that were not waited for.
  if (stages == 2)
    cuda::WaitCopiesOp::create(b, k.loc, 0);
  k.barrier();
  each(2, "half", [&](Value half) {
    Value sum = joined(a.load(total, half),
                       [&](Value x, Value y) -> Value { return v.add(x, y); });
    Value row = math.add(warpRow, math.add(fragments.group, math.mul(half, 8)));
    Value inverse;
    if (part.isShared())
      k.within(math.less(fragments.pair, 2),
               [&] { part.storePartialRow(row, a.load(largest, half), sum); });
    else
      inverse =
          k.named(a.formula.inverse(sum, a.load(largest, half)), "inverse");
    each(columns / pieceColumns, "piece", [&](Value piece) {
      each(pieceColumns / 8, "j", [&](Value j) {
        SmallVector<Value> two;
        for (int64_t e = 0; e < 2; ++e) {
          Value own =
              a.load(sums, {piece, zero, j, math.add(math.mul(half, 2), e)});
          two.push_back(inverse ? v.mul(own, inverse) : own);
        }
        Value column =
            math.add(math.add(math.mul(piece, pieceColumns), math.mul(j, 8)),
                     fragments.pair);
        vector::StoreOp::create(
            b, k.loc,
            vector::FromElementsOp::create(
                b, k.loc, VectorType::get({2}, a.sumType), two),
            tile, ValueRange{row, column});
      });
    });
  });
  cuda::SyncWarpOp::create(b, k.loc);

  LogicalResult status = success();
  int64_t lanes = a.storeLanes(4);
  int64_t perRow = a.sizes.width / lanes, chunks = kWarpRows * perRow;
  each(llvm::divideCeil(chunks, 32), "i", [&](Value i) {
    Value chunk = math.add(math.mul(i, 32), mma.lane());
    Value row = k.named(math.add(warpRow, math.div(chunk, perRow)), "row");
    Value column = k.named(math.mul(math.rem(chunk, perRow), lanes), "column");
    Value inside = math.less(math.add(a.firstRow, row), a.sizes.groupRows());
    if (chunks % 32)
      inside = v.bitAnd(inside, math.less(chunk, chunks));
    k.within(inside, [&] {
      Value result;
      if (lanes == 1)
        result = a.load(tile, {row, column});
      else
        result = vector::LoadOp::create(b, k.loc,
                                        VectorType::get({lanes}, a.sumType),
                                        tile, ValueRange{row, column});
      if (part.isShared())
        part.leave(result, row, column);
      else if (failed(
                   a.store(result, math.add(a.firstRow, row), column, lanes)))
        status = failure();
    });
  });
  if (part.isShared() && succeeded(status))
    return part.join();
  return status;
}

LogicalResult cuda::emitAttentionByMma(AttentionKernel &attention) {
  return MmaAttention(attention).emit();
}

//===----------------------------------------------------------------------===//
// One key and value tile
//
// One key and value tile of a warp: scores, mask, online softmax, and
// accumulation of values.
//===----------------------------------------------------------------------===//

void MmaAttention::multiplyKeys(Value stage) {
  mma.fill(scores, 0);
  int64_t steps = depth / mma.depth();
  auto multiply = [&](Value slot, Value step) {
    mma.loadRight(keyWords, {keyTile, true, {stage}, math.constant(0)},
                  math.mul(step, mma.depth()));
    mma.multiply(scores, slotOf(k, queryWords, slot), keyWords);
  };
  if (keepsQuery)
    return each(steps, "step", [&](Value step) { multiply(step, step); });
  // Not unrolled: fragments of several steps would not fit into registers.
  math.loop(math.constant(0), math.constant(steps), 1, [&](Value step) {
    k.named(step, "step");
    Value slot = math.constant(0);
    loadQueryWords(slot, step);
    multiply(slot, step);
  });
}

LogicalResult MmaAttention::maskScores(Value firstKey) {
  Value zero = math.constant(0);
  LogicalResult status = success();
  auto eachScore = [&](llvm::function_ref<Value(Value, Value, Value)> change) {
    each(keys / 8, "j", [&](Value j) {
      each(4, "e", [&](Value e) {
        Value row = k.named(math.add(a.firstRow, rowOf(e)), "row");
        Value position =
            k.named(math.add(firstKey, math.add(math.mul(j, 8), columnOf(e))),
                    "position");
        Value score = change(a.load(scores, {zero, j, e}), row, position);
        if (score)
          a.store(score, scores, {zero, j, e});
        else
          status = failure();
      });
    });
  };
  if (a.op.getMask() || !a.formula.foldsScale())
    eachScore([&](Value score, Value row, Value position) {
      return a.masked(score, row, position);
    });
  // Only tiles at the end or on the diagonal are cut.
  Value cuts;
  if (a.sizes.positions % keys)
    cuts =
        math.less(math.constant(a.sizes.positions), math.add(firstKey, keys));
  if (a.op.getCausal()) {
    // With grouped heads any row may be the first of a head.
    Value row = a.sizes.grouped > 1 ? zero : math.add(a.firstRow, warpRow);
    Value onDiagonal = math.less(math.add(row, a.sizes.positions),
                                 math.add(firstKey, keys - 1 + a.sizes.length));
    cuts = cuts ? Value(arith::OrIOp::create(b, k.loc, cuts, onDiagonal))
                : onDiagonal;
  }
  if (cuts)
    k.within(cuts, [&] {
      eachScore([&](Value score, Value row, Value position) {
        return a.bounded(score, row, position);
      });
    });
  return status;
}

void MmaAttention::softmax() {
  Value zero = math.constant(0);
  each(2, "half", [&](Value half) {
    auto eachScore = [&](llvm::function_ref<void(ArrayRef<Value>)> body) {
      each(keys / 8, "j", [&](Value j) {
        each(2, "e",
             [&](Value e) { body({zero, j, math.add(math.mul(half, 2), e)}); });
      });
    };
    Value shrunk = a.updateOnlineSoftmax(
        {half, largest, {total}}, scores, eachScore,
        [&](Value own) {
          return joined(
              own, [&](Value x, Value y) { return a.formula.larger(x, y); });
        },
        [&](ArrayRef<Value> at, Value weight) { a.store(weight, scores, at); });
    a.store(shrunk, shrink, half);
  });
  each(columns / pieceColumns, "piece", [&](Value piece) {
    each(pieceColumns / 8, "j", [&](Value j) {
      each(4, "e", [&](Value e) {
        SmallVector<Value> at = {piece, zero, j, e};
        a.store(v.mul(a.load(sums, at), a.load(shrink, math.div(e, 2))), sums,
                at);
      });
    });
  });
}

void MmaAttention::multiplyValues(Value stage) {
  SmallVector<Value> weightWords;
  for (int64_t piece = 0; piece < weightPieces; ++piece)
    weightWords.push_back(
        mma.leftFragments(1, piece == 0 ? "weight_words" : "weight_rest"));
  Value valueWords = mma.rightFragments(pieceColumns / 8, "value_words");
  each(keys / mma.depth(), "step", [&](Value step) {
    for (int64_t piece = 0; piece < weightPieces; ++piece)
      fragments.pack(weightWords[piece], scores, step, piece);
    each(columns / pieceColumns, "piece", [&](Value piece) {
      fragments.loadRows(valueWords, valueTile, stage, step,
                         math.mul(piece, pieceColumns));
      for (Value words : weightWords)
        mma.multiply(slotOf(k, sums, piece), words, valueWords);
    });
  });
}
