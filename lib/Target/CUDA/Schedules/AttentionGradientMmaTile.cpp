//===- AttentionGradientMmaTile.cpp - attention gradient GEMMs (mma.sync) ===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scores and dP of a tile, softmax statistics, P and dS, and the result GEMMs.
//
//===----------------------------------------------------------------------===//

#include "AttentionGradientMma.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

LogicalResult MmaGradient::emitScores(Value first, Value stage,
                                      bool withSlopes) {
  multiply(scores, 0, stage);
  if (withSlopes)
    multiply(slopes, 1, stage);
  return maskScores(first);
}

void MmaGradient::multiply(Value sums, size_t which, Value stage) {
  mma.fill(sums, 0);
  Value zero = math.constant(0);
  int64_t piece = pieceOf(others), blocks = piece / kGradientSumBlock;
  auto multiplyStep = [&](Value slot, Value step) {
    Value left = slotOf(k, own[which].words, {slot, zero});
    Value depthBegin = math.mul(step, mma.depth());
    each(others / piece, "piece", [&](Value number) {
      WarpOperand right{other[which].tile,
                        /*alongDepth=*/true,
                        {stage},
                        math.mul(number, piece)};
      mma.loadRight(otherWords, right, depthBegin);
      each(blocks, "j", [&](Value j) {
        Value block = math.add(math.mul(number, blocks), j);
        cuda::MmaOp::create(b, k.loc, slotOf(k, sums, {zero, block}), left,
                            slotOf(k, otherWords, j), type);
      });
    });
  };
  int64_t steps = stepsOf(own[which]);
  if (keepsOwn)
    return each(steps, "step", [&](Value step) { multiplyStep(step, step); });
  // Not unrolled: fragments of several steps would not fit into registers.
  math.loop(steps, [&](Value step) {
    k.named(step, "step");
    loadOwnWords(own[which], zero, step);
    multiplyStep(zero, step);
  });
}

LogicalResult MmaGradient::maskScores(Value first) {
  Value zero = math.constant(0);
  LogicalResult status = success();
  auto eachScore = [&](llvm::function_ref<Value(Value, Value, Value)> change) {
    each(others / 8, "j", [&](Value j) {
      each(4, "e", [&](Value e) {
        Value ownPlace = math.add(ownFirst(), rowOf(math.div(e, 2)));
        Value otherPlace =
            math.add(first, math.add(math.mul(j, 8),
                                     math.add(fragments.pair, math.rem(e, 2))));
        Value row = k.named(isQuery ? ownPlace : otherPlace, "row");
        Value position = k.named(isQuery ? otherPlace : ownPlace, "position");
        Value score = change(g.load(scores, {zero, j, e}), row, position);
        if (score)
          g.store(score, scores, {zero, j, e});
        else
          status = failure();
      });
    });
  };
  if (g.problem.mask || !g.formula.foldsScale())
    eachScore([&](Value score, Value row, Value position) {
      return g.masked(score, row, position);
    });
  if (Value cuts = cutsOff(first))
    k.within(cuts, [&] {
      eachScore([&](Value score, Value row, Value position) {
        return isQuery ? g.bounded(score, row, position)
                       : g.boundedInside(score, row, position);
      });
    });
  return status;
}

Value MmaGradient::cutsOff(Value first) {
  Value cuts;
  // Out-of-bounds query rows have the factor 0 anyway, but an additive mask
  // could make their exponentials infinite.
  int64_t extent = isQuery ? g.sizes.positions : g.sizes.length;
  if (extent % others && (isQuery || addsMask()))
    cuts = math.less(math.constant(extent), math.add(first, others));
  if (!g.problem.causal)
    return cuts;
  // First query row and last position of the tile.
  Value ownRow = math.add(ownFirst(), warpRow);
  Value row = isQuery ? ownRow : first;
  Value position = isQuery ? math.add(first, others - 1)
                           : math.add(ownRow, kGradientWarpRows - 1);
  Value onDiagonal = math.less(math.add(row, g.sizes.positions),
                               math.add(position, g.sizes.length));
  return cuts ? Value(arith::OrIOp::create(b, k.loc, cuts, onDiagonal))
              : onDiagonal;
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

Value MmaGradient::joined(Value value,
                          llvm::function_ref<Value(Value, Value)> join) {
  for (int64_t flip = 1; flip < 4; flip *= 2)
    value = join(value, g.shuffleXor(value, flip));
  return value;
}

Value MmaGradient::summed(Value value) {
  return joined(value, [&](Value x, Value y) -> Value { return v.add(x, y); });
}

void MmaGradient::updateStatistics() {
  Value zero = math.constant(0);
  each(2, "half", [&](Value half) {
    auto eachScore = [&](llvm::function_ref<void(ArrayRef<Value>)> body) {
      each(others / 8, "j", [&](Value j) {
        each(2, "e",
             [&](Value e) { body({zero, j, math.add(math.mul(half, 2), e)}); });
      });
    };
    g.updateOnlineSoftmax(
        {half, largest, {total, mean}}, scores, eachScore,
        [&](Value own) {
          return joined(
              own, [&](Value x, Value y) { return g.formula.larger(x, y); });
        },
        [&](ArrayRef<Value> at, Value weight) {
          g.store(v.fma(weight, g.load(slopes, at), g.load(mean, half)), mean,
                  half);
        });
  });
}

void MmaGradient::finishStatistics() {
  each(2, "half", [&](Value half) {
    Value maximum = k.named(g.load(largest, half), "maximum");
    Value shift = k.named(g.formula.shift(maximum), "shift");
    Value sum = summed(g.load(total, half));
    Value inverse = k.named(g.formula.inverse(sum, maximum), "inverse");
    Value delta = k.named(v.mul(summed(g.load(mean, half)), inverse), "delta");
    g.store(shift, largest, half);
    g.store(inverse, total, half);
    g.store(delta, mean, half);
    Value row = k.named(math.add(g.firstRow, rowOf(half)), "row");
    k.within(
        v.bitAnd(math.less(fragments.pair, 1), math.less(row, g.sizes.length)),
        [&] { g.storeStatistics(row, {shift, inverse, delta}); });
  });
}

void MmaGradient::makeFactors(Value stage, bool withSlopes) {
  Value zero = math.constant(0);
  each(others / 8, "j", [&](Value j) {
    // Keys role: statistics of two adjacent query rows.
    SmallVector<Value> pairs;
    if (!isQuery) {
      Value column = math.add(math.mul(j, 8), fragments.pair);
      for (int64_t which = 0; which < 3; ++which)
        pairs.push_back(k.named(
            vector::LoadOp::create(
                b, k.loc, VectorType::get({2}, g.sumType), rowStatistics,
                ValueRange{stage, math.constant(which), column}),
            which == 0   ? "shifts"
            : which == 1 ? "inverses"
                         : "deltas"));
    }
    each(2, "half", [&](Value half) {
      auto statistic = [&](int64_t which, int64_t e) -> Value {
        if (!isQuery)
          return vector::ExtractOp::create(b, k.loc, pairs[which], e);
        return g.load(which == 0 ? largest : which == 1 ? total : mean, half);
      };
      for (int64_t e = 0; e < 2; ++e) {
        SmallVector<Value> at = {zero, j, math.add(math.mul(half, 2), e)};
        Value weight =
            k.named(v.mul(g.formula.power(g.load(scores, at), statistic(0, e)),
                          statistic(1, e)),
                    "weight");
        g.store(weight, scores, at);
        if (withSlopes)
          g.store(v.mul(weight, v.sub(g.load(slopes, at), statistic(2, e))),
                  slopes, at);
      }
    });
  });
}

//===----------------------------------------------------------------------===//
// Accumulation
//===----------------------------------------------------------------------===//

Value MmaGradient::makeSums(int64_t count) {
  int64_t piece = pieceOf(count);
  Value sums = k.local({count / piece, 1, piece / kGradientSumBlock, 4},
                       g.sumType, "sums");
  mma.fill(sums, 0);
  return sums;
}

void MmaGradient::accumulate(const Sum &sum, Value stage) {
  bool ofValue = sum.result == AttentionResult::value;
  const Operand &operand = other[ofValue ? 1 : 0];
  int64_t piece = pieceOf(sum.count);
  Value factorWords = mma.leftFragments(1, "factor_words");
  Value words = mma.rightFragments(piece / kGradientSumBlock,
                                   operand.name.str() + "_words");
  each(others / mma.depth(), "step", [&](Value step) {
    fragments.pack(factorWords, ofValue ? scores : slopes, step);
    each(sum.count / piece, "piece", [&](Value number) {
      fragments.loadRows(words, operand.tile, stage, step,
                         math.add(math.mul(number, piece), sum.first));
      mma.multiply(slotOf(k, sum.fragments, number), factorWords, words);
    });
  });
}
