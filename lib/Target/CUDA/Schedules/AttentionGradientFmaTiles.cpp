//===- AttentionGradientFmaTiles.cpp - attention gradient GEMMs (fma) -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionGradientFma.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Tile GEMMs
//===----------------------------------------------------------------------===//

/// Loads the block's own rows into shared memory, for the whole kernel.
LogicalResult FmaGradient::loadOwn() {
  if (!isResident())
    return success();
  Value zero = math.constant(0);
  return success(
      succeeded(fill(own.first, own.ofQuery, ownRow(), zero, ownFirst, rows)) &&
      succeeded(
          fill(own.second, own.ofQuery, ownRow(), zero, ownSecond, rows)));
}

/// Computes scores and dP of own rows and others from `firstOther` on.
LogicalResult FmaGradient::emitScores(Value firstOther) {
  fillZero(scores);
  fillZero(slopes);
  Value zero = math.constant(0);
  if (isResident()) {
    if (failed(fill(other.first, other.ofQuery, firstOther, zero, otherFirst,
                    kOthers)) ||
        failed(fill(other.second, other.ofQuery, firstOther, zero, otherSecond,
                    kOthers)))
      return failure();
    k.barrier();
    addScores(scores, ownFirst, otherFirst);
    addScores(slopes, ownSecond, otherSecond);
    return success();
  }
  LogicalResult status = success();
  auto addPieces = [&](int64_t pieces, Value sums, Value ownTensor,
                       Value ownTile, Value otherTensor, Value otherTile) {
    math.loop(pieces, [&](Value number) {
      Value column = k.named(math.mul(number, piece), "piece_column");
      if (failed(
              fill(ownTensor, own.ofQuery, ownRow(), column, ownTile, rows)) ||
          failed(fill(otherTensor, other.ofQuery, firstOther, column, otherTile,
                      kOthers)))
        status = failure();
      k.barrier();
      addScores(sums, ownTile, otherTile);
      k.barrier();
    });
  };
  addPieces(depthPieces, scores, own.first, ownFirst, other.first, otherFirst);
  addPieces(widthPieces, slopes, own.second, ownSecond, other.second,
            otherSecond);
  return status;
}

/// Loads the right operand of the result GEMMs, columns from `firstColumn` on,
/// unless its tile is resident; needs a barrier afterwards.
LogicalResult FmaGradient::loadFactor(bool second, Value firstOther,
                                      Value firstColumn) {
  if (isResident())
    return success();
  return fill(second ? other.second : other.first, other.ofQuery, firstOther,
              firstColumn, second ? otherSecond : otherFirst, kOthers);
}

/// sums += own tile * other tile.
void FmaGradient::addScores(Value sums, Value ownTile, Value otherTile) {
  auto loop = scf::ForOp::create(b, k.loc, math.constant(0),
                                 math.constant(piece), math.constant(lanes));
  Value d = k.named(loop.getInductionVar(), "d");
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  SmallVector<Value> parts;
  for (int64_t i = 0; i < rowsPerThread; ++i)
    parts.push_back(
        k.named(vectorAt(ownTile, rowOf(math.constant(i)), d), "own_part"));
  unrolled(k, kOthersPerThread, "j", [&](Value j) {
    Value part = k.named(vectorAt(otherTile, otherOf(j), d), "other_part");
    for (int64_t i = 0; i < rowsPerThread; ++i) {
      SmallVector<Value> at = {math.constant(i), j};
      Value sum = g.load(sums, at);
      for (int64_t e = 0; e < lanes; ++e)
        sum = v.fma(lane(parts[i], e), lane(part, e), sum);
      g.store(sum, sums, at);
    }
  });
}

/// sums += factors * other tile.
void FmaGradient::addProducts(Value sums, Value factorTile, Value otherTile) {
  auto loop = scf::ForOp::create(b, k.loc, math.constant(0),
                                 math.constant(kOthers), math.constant(1));
  Value t = k.named(loop.getInductionVar(), "t");
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  SmallVector<Value> factor;
  for (int64_t i = 0; i < rowsPerThread; ++i)
    factor.push_back(
        k.named(g.load(factorTile, {rowOf(math.constant(i)), t}), "factor"));
  unrolled(k, vectors, "j", [&](Value j) {
    Value part = k.named(vectorAt(otherTile, t, math.mul(otherOf(j), lanes)),
                         "other_part");
    for (int64_t i = 0; i < rowsPerThread; ++i)
      for (int64_t e = 0; e < lanes; ++e) {
        SmallVector<Value> at = {math.constant(i),
                                 math.add(math.mul(j, lanes), e)};
        g.store(v.fma(factor[i], lane(part, e), g.load(sums, at)), sums, at);
      }
  });
}

/// Returns the masked score of the thread's row `i` and other `j`.
Value FmaGradient::score(Value i, Value j, Value firstOther) {
  Value ownPlace = math.add(ownRow(), rowOf(i)),
        otherPlace = math.add(firstOther, otherOf(j));
  Value row = k.named(own.ofQuery ? ownPlace : otherPlace, "row"),
        position = k.named(own.ofQuery ? otherPlace : ownPlace, "position");
  Value score = g.masked(g.load(scores, {i, j}), row, position);
  return score ? k.named(g.boundedInside(score, row, position), "score")
               : score;
}

/// Stores dS = P * (dP - delta) and, if `ofWeights`, P of the thread's rows and
/// others in shared memory, rounded to the factors' type.
LogicalResult FmaGradient::emitFactors(Value firstOther, bool ofWeights) {
  LogicalResult status = success();
  Type type = g.factorType();
  auto statistic = [&](int64_t which, Value ofRow, Value i, Value j) {
    return own.ofQuery ? g.load(ofRow, i)
                       : g.load(statistics, {math.constant(which), otherOf(j)});
  };
  unrolled(k, rowsPerThread, "i", [&](Value i) {
    unrolled(k, kOthersPerThread, "j", [&](Value j) {
      Value scored = score(i, j, firstOther);
      if (!scored) {
        status = failure();
        return;
      }
      Value power = g.formula.power(scored, statistic(0, largest, i, j));
      Value weight =
          k.named(v.mul(power, statistic(1, inverse, i, j)), "weight");
      Value slope = v.sub(g.load(slopes, {i, j}), statistic(2, delta, i, j));
      ElementEmitter emitter = g.makeEmitter();
      SmallVector<Value> at = {rowOf(i), otherOf(j)};
      g.store(emitter.round(v.mul(weight, slope), type), factors, at);
      if (ofWeights)
        g.store(emitter.round(weight, type), weights, at);
    });
  });
  return status;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

LogicalResult FmaGradient::emitResult(AttentionResult result, Value sums,
                                      Value firstColumn) {
  LogicalResult status = success();
  int64_t stored = g.storeLanes(result, lanes), parts = lanes / stored;
  int64_t extent = own.ofQuery ? g.sizes.length : g.sizes.positions;
  bool ofValue = result == AttentionResult::value;
  int64_t width = ofValue ? g.sizes.width : g.sizes.depth;
  unrolled(k, rowsPerThread, "i", [&](Value i) {
    Value row = k.named(math.add(ownRow(), rowOf(i)), "row");
    k.within(math.less(row, extent), [&] {
      unrolled(k, vectors * parts, "j", [&](Value j) {
        // The thread's vector number j / parts, or a part of it.
        Value first = math.mul(j, stored);
        Value column = math.add(math.mul(otherOf(math.div(j, parts)), lanes),
                                math.mul(math.rem(j, parts), stored));
        column = k.named(math.add(firstColumn, column), "column");
        k.within(math.less(column, width), [&] {
          SmallVector<Value> elements;
          for (int64_t e = 0; e < stored; ++e) {
            Value sum = g.load(sums, {i, math.add(first, e)});
            elements.push_back(ofValue ? sum : v.mul(sum, g.problem.scale));
          }
          Value values = elements.front();
          if (stored > 1)
            values = vector::FromElementsOp::create(
                b, k.loc, VectorType::get({stored}, g.sumType), elements);
          if (failed(g.store(result, values, row, column, stored)))
            status = failure();
        });
      });
    });
  });
  return status;
}
