//===- AttentionGradientFma.cpp - attention gradient without tensor cores -===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionGradientFma.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

Schedule mpc::scheduleGradientFma(func::FuncOp kernel, AttentionGradientOp op) {
  AttentionSizes sizes{AttentionProblem(op)};
  constexpr int64_t kRowThreads = FmaGradient::kRowThreads,
                    kOthers = FmaGradient::kOthers;
  bool isDouble = attentionSumType(op.getQuery()).isF64();
  Schedule schedule;
  schedule.threads = 128;
  // Vectors of 16 bytes; eight threads share 1 or 2 rows.
  int64_t lanes = isDouble ? 2 : 4, groups = schedule.threads / kRowThreads;
  int64_t longest = std::max(sizes.length, sizes.positions);
  int64_t rows = groups * (longest > groups ? 2 : 1);
  int64_t piece = std::clamp<int64_t>(
      llvm::alignTo(std::max(sizes.depth, sizes.width), kRowThreads * lanes),
      kRowThreads * lanes, isDouble ? 32 : 64);
  int64_t pitch = piece + lanes;
  schedule.sharedBytes = (2 * (rows + kOthers) * pitch +
                          2 * rows * (kOthers + lanes) + 3 * kOthers) *
                         (isDouble ? 8 : 4);
  schedule.parameters = {{"columns", piece}, {"lanes", lanes}};
  placeGradientBlocks(schedule, kernel, op, rows, rows);
  return schedule;
}

void FmaGradient::makeTiles() {
  Value bytes = dynamicShared(k);
  int64_t size = g.sumType.getIntOrFloatBitWidth() / 8, offset = 0;
  auto tile = [&](int64_t tileRows, int64_t pitch, StringRef name) {
    Value view =
        sharedView(k, bytes, offset, {tileRows, pitch}, g.sumType, name);
    offset += tileRows * pitch * size;
    return view;
  };
  // Pitch without bank conflicts between adjacent rows.
  ownFirst = tile(rows, piece + lanes, "own_first");
  ownSecond = tile(rows, piece + lanes, "own_second");
  otherFirst = tile(kOthers, piece + lanes, "other_first");
  otherSecond = tile(kOthers, piece + lanes, "other_second");
  weights = tile(rows, kOthers + lanes, "weights");
  factors = tile(rows, kOthers + lanes, "factors");
  statistics = tile(3, kOthers, "row_statistics");
}

LogicalResult FmaGradient::emit() {
  group = k.named(math.div(g.thread, kRowThreads), "group");
  member = k.named(math.rem(g.thread, kRowThreads), "member");
  makeTiles();
  scores = k.local({rowsPerThread, kOthersPerThread}, g.sumType, "scores");
  slopes = k.local({rowsPerThread, kOthersPerThread}, g.sumType, "slopes");
  return g.emitRoles([&] { return emitRows(); }, [&] { return emitKeys(); });
}

//===----------------------------------------------------------------------===//
// Rows role
//===----------------------------------------------------------------------===//

LogicalResult FmaGradient::emitRows() {
  own = {g.problem.query, g.op.getGradient(), /*ofQuery=*/true};
  other = {g.problem.key, g.problem.value, /*ofQuery=*/false};
  largest = k.local({rowsPerThread}, g.sumType, "largest");
  inverse = k.local({rowsPerThread}, g.sumType, "inverse");
  delta = k.local({rowsPerThread}, g.sumType, "delta");
  if (failed(loadOwn()) || failed(findStatistics()))
    return failure();
  g.publishStatistics();
  if (!g.stores(AttentionResult::query))
    return success();
  LogicalResult status = success();
  math.loop(depthPieces, [&](Value number) {
    if (failed(sumQuery(k.named(math.mul(number, piece), "first_column"))))
      status = failure();
  });
  return status;
}

/// First pass over the keys: online maximum, total and sum of P * dP, per
/// thread and row.
LogicalResult FmaGradient::findStatistics() {
  Value total = inverse, mean = delta;
  unrolled(k, rowsPerThread, "i", [&](Value i) {
    g.store(constant(-infinity()), largest, i);
    g.store(constant(0), total, i);
    g.store(constant(0), mean, i);
  });
  LogicalResult status = success();
  Value end = g.keyEnd(math.add(g.firstRow, rows));
  math.loop(math.constant(0), end, kOthers, [&](Value first) {
    k.named(first, "first_key");
    if (failed(emitScores(first)))
      status = failure();
    unrolled(k, rowsPerThread, "i", [&](Value i) {
      auto eachScore = [&](llvm::function_ref<void(ArrayRef<Value>)> body) {
        unrolled(k, kOthersPerThread, "j", [&](Value j) { body({i, j}); });
      };
      eachScore([&](ArrayRef<Value> at) {
        Value scored = score(i, at[1], first);
        if (!scored)
          status = failure();
        else
          g.store(scored, scores, at);
      });
      g.updateOnlineSoftmax(
          {i, largest, {total, mean}}, scores, eachScore, nullptr,
          [&](ArrayRef<Value> at, Value weight) {
            g.store(v.fma(weight, g.load(slopes, at), g.load(mean, i)), mean,
                    i);
          });
    });
    // All threads must have read the tiles before they are overwritten.
    k.barrier();
  });
  if (failed(status))
    return failure();
  unrolled(k, rowsPerThread, "i", [&](Value i) {
    Value seen = k.named(g.load(largest, i), "seen");
    Value all = k.named(
        joined(seen, [&](Value x, Value y) { return g.formula.larger(x, y); }),
        "all");
    Value shift = k.named(g.formula.shift(all), "shift");
    Value shrink = k.named(g.formula.power(seen, shift), "shrink");
    auto sum = [&](Value of) {
      return joined(v.mul(g.load(of, i), shrink),
                    [&](Value x, Value y) -> Value { return v.add(x, y); });
    };
    Value whole = k.named(sum(total), "whole");
    Value part = k.named(g.formula.inverse(whole, all), "part");
    Value mass = k.named(v.mul(sum(mean), part), "mass");
    g.store(shift, largest, i);
    g.store(part, inverse, i);
    g.store(mass, delta, i);
    Value row = k.named(math.add(g.firstRow, rowOf(i)), "row");
    k.within(v.bitAnd(math.less(member, 1), math.less(row, g.sizes.length)),
             [&] { g.storeStatistics(row, {shift, part, mass}); });
  });
  return success();
}

/// Accumulates columns of the query gradient, from `firstColumn` on.
LogicalResult FmaGradient::sumQuery(Value firstColumn) {
  Value sums = k.local({rowsPerThread, vectors * lanes}, g.sumType, "sums");
  fillZero(sums);
  LogicalResult status = success();
  Value end = g.keyEnd(math.add(g.firstRow, rows));
  math.loop(math.constant(0), end, kOthers, [&](Value first) {
    k.named(first, "first_key");
    if (failed(emitScores(first)) ||
        failed(emitFactors(first, /*ofWeights=*/false)) ||
        failed(loadFactor(/*second=*/false, first, firstColumn)))
      status = failure();
    k.barrier();
    addProducts(sums, factors, otherFirst);
    k.barrier();
  });
  if (failed(status))
    return failure();
  return emitResult(AttentionResult::query, sums, firstColumn);
}

//===----------------------------------------------------------------------===//
// Keys role
//===----------------------------------------------------------------------===//

LogicalResult FmaGradient::emitKeys() {
  own = {g.problem.key, g.problem.value, /*ofQuery=*/false};
  other = {g.problem.query, g.op.getGradient(), /*ofQuery=*/true};
  if (failed(loadOwn()))
    return failure();
  g.waitForStatistics();
  LogicalResult status = success();
  auto sum = [&](bool ofKey, bool ofValue, int64_t pieces) {
    math.loop(pieces, [&](Value number) {
      Value column = k.named(math.mul(number, piece), "first_column");
      if (failed(sumKeys(ofKey, ofValue, column)))
        status = failure();
    });
  };
  bool ofKey = g.stores(AttentionResult::key),
       ofValue = g.stores(AttentionResult::value);
  if (ofKey && ofValue && depthPieces == widthPieces) {
    sum(true, true, depthPieces);
    return status;
  }
  if (ofKey)
    sum(true, false, depthPieces);
  if (ofValue)
    sum(false, true, widthPieces);
  return status;
}

/// Accumulates columns of the key and value gradients, from `firstColumn` on.
LogicalResult FmaGradient::sumKeys(bool ofKey, bool ofValue,
                                   Value firstColumn) {
  Value keySums, valueSums;
  for (auto [wanted, sums, name] :
       {std::tuple(ofKey, &keySums, "key_sums"),
        std::tuple(ofValue, &valueSums, "value_sums")})
    if (wanted) {
      *sums = k.local({rowsPerThread, vectors * lanes}, g.sumType, name);
      fillZero(*sums);
    }
  LogicalResult status = success();
  g.eachQueryHead([&] {
    Value begin = g.firstRowOf(g.firstKey, kOthers);
    math.loop(begin, math.constant(g.sizes.length), kOthers, [&](Value first) {
      k.named(first, "first_row");
      g.loadStatistics(first, kOthers, statistics);
      if (failed(emitScores(first)))
        status = failure();
      if (failed(emitFactors(first, ofValue)) ||
          (ofKey && failed(loadFactor(false, first, firstColumn))) ||
          (ofValue && failed(loadFactor(true, first, firstColumn))))
        status = failure();
      k.barrier();
      if (ofValue)
        addProducts(valueSums, weights, otherSecond);
      if (ofKey)
        addProducts(keySums, factors, otherFirst);
      k.barrier();
    });
  });
  if (failed(status))
    return failure();
  if (ofKey && failed(emitResult(AttentionResult::key, keySums, firstColumn)))
    return failure();
  return ofValue ? emitResult(AttentionResult::value, valueSums, firstColumn)
                 : success();
}

LogicalResult
mpc::emitAttentionGradientByFma(AttentionGradientKernel &gradient) {
  return FmaGradient(gradient).emit();
}
