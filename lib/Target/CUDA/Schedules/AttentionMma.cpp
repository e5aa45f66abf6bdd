//===- AttentionMma.cpp - flash attention on tensor cores -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tile loads, the loop over keys, and results.
//
//===----------------------------------------------------------------------===//

#include "AttentionMma.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;

/// Rows per warp, and padding of the result tile's rows against bank conflicts,
/// in f32 elements.
static constexpr int64_t kWarpRows = 16, kResultSkew = 8;

static cuda::FragmentType fragmentType(AttentionOp op) {
  Type element = getElementTypeOrSelf(op.getQuery().getType());
  if (element.isF32())
    return cuda::FragmentType::tf32;
  return element.isF16() ? cuda::FragmentType::f16 : cuda::FragmentType::bf16;
}

MmaAttention::MmaAttention(AttentionKernel &attention)
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

LogicalResult mpc::emitAttentionByMma(AttentionKernel &attention) {
  return MmaAttention(attention).emit();
}
