//===- AttentionProducts.cpp - GEMMs and softmax of attention -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One key and value tile of a warp: scores, mask, online softmax, and
// accumulation of values.
//
//===----------------------------------------------------------------------===//

#include "AttentionMma.h"

using namespace mlir;
using namespace mpc;

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
