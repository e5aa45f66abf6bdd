//===- AttentionMma.cpp - attention on the matrix units -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For f16, bf16 and tf32. A warp owns 16 query rows: their fragments, scores,
// sums, maxima and totals stay in registers while tiles of key and value pass
// through shared memory, the next one copied while the present one is used.
// Weights go from the scores' registers straight into the second product: as
// one value in tf32 and where the results are stored in 16 bits, else as a sum
// of several.
//
//===----------------------------------------------------------------------===//

#include "AttentionKernel.h"

#include "AttentionFragments.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;

namespace {
/// Rows that a warp owns, and sums behind each row of the result's tile, which
/// move neighbouring rows to different banks.
constexpr int64_t kWarpRows = 16, kResultSkew = 8;
class MmaAttention {
public:
  explicit MmaAttention(AttentionKernel &attention)
      : k(attention.kernel), a(attention), b(a.b), math(a.math), v(a.values),
        type(fragmentType(a.op)), mma(k, type), fragments(k, v, type),
        element(getElementTypeOrSelf(a.op.getQuery().getType())) {
    const Schedule &schedule = k.schedule;
    rows = schedule["rows"];
    keys = schedule["keys"];
    depth = schedule["depth"];
    columns = schedule["columns"];
    stages = schedule["stages"];
    bytes = element.getIntOrFloatBitWidth() / 8;
    skew = 16 / bytes;
    weightPieces = schedule["weight_pieces"];
    pieceColumns = schedule["piece_columns"];
    keepsQuery = schedule["query_in_registers"];
    scale = a.op.getScale().convertToDouble();
    // Without an added mask the scale rides on the exponent's factor.
    foldsScale =
        scale > 0 &&
        (!a.op.getMask() ||
         !isa<FloatType>(getElementTypeOrSelf(a.op.getMask().getType())));
  }

  LogicalResult emit();

private:
  static cuda::FragmentType fragmentType(AttentionOp op) {
    Type element = getElementTypeOrSelf(op.getQuery().getType());
    if (element.isF32())
      return cuda::FragmentType::tf32;
    return element.isF16() ? cuda::FragmentType::f16 : cuda::FragmentType::bf16;
  }

  LogicalResult loadQuery();
  void loadQueryWords(Value slot, Value step);
  LogicalResult loadTiles(Value firstKey, Value stage);
  void multiplyKeys(Value stage);
  LogicalResult maskScores(Value firstKey);
  void softmax();
  void multiplyValues(Value stage);
  LogicalResult emitResults();

  Value constant(double value) { return v.constant(a.sumType, value); }
  void each(int64_t count, StringRef name,
            llvm::function_ref<void(Value)> body) {
    unrolled(k, count, name, body);
  }
  void branch(Value condition, llvm::function_ref<void()> body) {
    auto op = scf::IfOp::create(b, k.loc, condition, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(op.thenBlock()->getTerminator());
    body();
  }
  Value call(StringRef name, Type type, ValueRange arguments) {
    return cuda::CallOp::create(b, k.loc, type, b.getStringAttr(name),
                                arguments);
  }
  /// A row's value joined over the four lanes that hold its elements.
  Value joined(Value value, llvm::function_ref<Value(Value, Value)> join) {
    for (int64_t flip = 1; flip < 4; flip *= 2)
      value = join(value, a.shuffleXor(value, flip));
    return value;
  }
  /// Element `e` (0 to 3) of a fragment of sums: its row, and its column in a
  /// block of eight.
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
  cuda::FragmentType type;
  WarpMma mma;
  AttentionFragments fragments;
  Type element;
  int64_t rows, keys, depth, columns, stages, weightPieces, pieceColumns;
  /// Of an element, and elements behind each row of a tile, which move
  /// neighbouring rows to different banks.
  int64_t bytes, skew;
  double scale;
  bool foldsScale, keepsQuery;
  /// Tiles in shared memory, [stage][position][column].
  Value sharedBytes, queryTile, keyTile, valueTile;
  /// Of the lane: fragments of the query (all steps along the depth where they
  /// stay in registers), scores, sums by pieces of columns, and the running
  /// maximum and total of the rows `group` and `group + 8`.
  Value queryWords, keyWords, scores, sums, largest, total, shrink;
  Value warpRow;
};
} // namespace

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
  Value end = a.keyEnd(math.add(a.firstRow, rows));
  Value zero = math.constant(0);
  bool pipelined = stages == 2;
  if (pipelined) {
    if (failed(loadTiles(zero, zero)))
      return failure();
    cuda::CommitCopiesOp::create(b, k.loc);
  }
  math.loop(zero, end, keys, [&](Value first) {
    k.named(first, "first_key");
    Value stage = zero;
    if (pipelined) {
      stage = k.named(math.rem(math.div(first, keys), 2), "stage");
      cuda::WaitCopiesOp::create(b, k.loc, 0);
      k.barrier();
      Value next = k.named(math.add(first, keys), "next_key");
      branch(math.less(next, end), [&] {
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
  return succeeded(status) ? emitResults() : failure();
}

/// Brings the block's query rows into shared memory and on into registers where
/// they fit; the tiles of the keys then take their place.
LogicalResult MmaAttention::loadQuery() {
  int64_t pitch = depth + skew, steps = depth / mma.depth();
  int64_t tileBytes = stages * keys * (pitch + columns + skew) * bytes;
  queryTile = sharedView(k, sharedBytes, keepsQuery ? 0 : tileBytes,
                         {rows, pitch}, element, "query_tile");
  AttentionKernel::Tile query{
      a.op.getQuery(), a.head, a.firstRow, math.constant(0),
      queryTile,       {},     rows,       depth};
  if (k.schedule["async_query"]) {
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

/// The fragment at `step` along the depth.
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

/// scores = query * key tile.
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
  // Not unrolled: fragments of many steps at once would not fit.
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
  if (a.op.getMask() || !foldsScale)
    eachScore([&](Value score, Value row, Value position) {
      return a.masked(score, row, position, /*scaled=*/!foldsScale);
    });
  // Only tiles at the end or on the diagonal have something to cut off.
  Value cuts;
  if (a.sizes.positions % keys)
    cuts =
        math.less(math.constant(a.sizes.positions), math.add(firstKey, keys));
  if (a.op.getCausal()) {
    Value onDiagonal =
        math.less(math.add(math.add(a.firstRow, warpRow), a.sizes.positions),
                  math.add(firstKey, keys - 1 + a.sizes.length));
    cuts = cuts ? Value(arith::OrIOp::create(b, k.loc, cuts, onDiagonal))
                : onDiagonal;
  }
  if (cuts)
    branch(cuts, [&] {
      eachScore([&](Value score, Value row, Value position) {
        return a.bounded(score, row, position);
      });
    });
  return status;
}

/// Turns scores into weights, and sums and totals into what they are under the
/// new maximum.
void MmaAttention::softmax() {
  Value zero = math.constant(0);
  double factor = foldsScale ? scale * M_LOG2E : M_LOG2E;
  auto maximum = [&](Value x, Value y) -> Value {
    return arith::MaximumFOp::create(b, k.loc, x, y);
  };
  each(2, "half", [&](Value half) {
    Value before = k.named(a.load(largest, half), "before");
    auto eachScore = [&](llvm::function_ref<void(SmallVector<Value>)> body) {
      each(keys / 8, "j", [&](Value j) {
        each(2, "e",
             [&](Value e) { body({zero, j, math.add(math.mul(half, 2), e)}); });
      });
    };
    eachScore([&](SmallVector<Value> at) {
      a.store(maximum(a.load(largest, half), a.load(scores, at)), largest,
              half);
    });
    Value now = k.named(joined(a.load(largest, half), maximum), "now");
    a.store(now, largest, half);
    // Subtracting -inf from -inf would give NaN instead of nothing.
    Value empty = v.compare(arith::CmpFPredicate::OEQ, now,
                            -std::numeric_limits<double>::infinity());
    Value shift = v.select(empty, 0.0, now);
    // Under an added mask scores may be so large that only differences count.
    Value scaled;
    if (foldsScale)
      scaled = k.named(v.mul(shift, factor), "shift");
    else
      shift = k.named(shift, "shift");
    auto power = [&](Value score) {
      Value exponent = foldsScale ? v.fma(score, factor, v.neg(scaled))
                                  : v.mul(v.sub(score, shift), factor);
      return call("exp2Fast", a.sumType, exponent);
    };
    Value shrunk = k.named(power(before), "shrunk");
    a.store(shrunk, shrink, half);
    a.store(v.mul(a.load(total, half), shrunk), total, half);
    eachScore([&](SmallVector<Value> at) {
      Value weight = k.named(power(a.load(scores, at)), "weight");
      a.store(weight, scores, at);
      a.store(v.add(a.load(total, half), weight), total, half);
    });
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

/// sums += weights * value tile.
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

/// Divides the sums by the totals and brings them, through shared memory, into
/// whole rows for the epilogue.
LogicalResult MmaAttention::emitResults() {
  Value zero = math.constant(0);
  Value tile = sharedView(k, sharedBytes, 0, {rows, columns + kResultSkew},
                          a.sumType, "result_tile");
  // A block without keys has copies under way that nobody waited for.
  if (stages == 2)
    cuda::WaitCopiesOp::create(b, k.loc, 0);
  k.barrier();
  each(2, "half", [&](Value half) {
    Value sum = joined(a.load(total, half),
                       [&](Value x, Value y) -> Value { return v.add(x, y); });
    Value empty = v.compare(arith::CmpFPredicate::OEQ, a.load(largest, half),
                            -std::numeric_limits<double>::infinity());
    // A row that keeps no position is zero.
    Value inverse =
        k.named(v.select(empty, 0.0, v.div(constant(1.0), sum)), "inverse");
    Value row = math.add(warpRow, math.add(fragments.group, math.mul(half, 8)));
    each(columns / pieceColumns, "piece", [&](Value piece) {
      each(pieceColumns / 8, "j", [&](Value j) {
        SmallVector<Value> two;
        for (int64_t e = 0; e < 2; ++e)
          two.push_back(v.mul(
              a.load(sums, {piece, zero, j, math.add(math.mul(half, 2), e)}),
              inverse));
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
    Value inside = math.less(math.add(a.firstRow, row), a.sizes.length);
    if (chunks % 32)
      inside = v.bitAnd(inside, math.less(chunk, chunks));
    branch(inside, [&] {
      Value result;
      if (lanes == 1)
        result = a.load(tile, {row, column});
      else
        result = vector::LoadOp::create(b, k.loc,
                                        VectorType::get({lanes}, a.sumType),
                                        tile, ValueRange{row, column});
      if (failed(a.store(result, math.add(a.firstRow, row), column, lanes)))
        status = failure();
    });
  });
  return status;
}

LogicalResult mpc::emitAttentionByMma(AttentionKernel &attention) {
  return MmaAttention(attention).emit();
}
