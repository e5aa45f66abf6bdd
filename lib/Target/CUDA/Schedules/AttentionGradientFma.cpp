//===- AttentionGradientFma.cpp - attention gradient without tensor cores -===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionGradientKernel.h"
#include "Mma.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

namespace {
/// Generates the body of one kernel. Both roles loop over tiles in the same
/// way: a block has fixed ("own") rows of two operands (query and output
/// gradient, or key and value) and multiplies them with rows of the other two,
/// which gives scores and dP (`slopes`). Eight adjacent lanes share a group of
/// own rows, and accumulate every eighth vector of columns. Wide heads pass
/// through shared memory in pieces, and scores are recomputed for each piece of
/// result columns.
class FmaGradient {
public:
  /// Threads per row, rows of the other operands' tiles, and those per thread.
  static constexpr int64_t kRowThreads = 8, kOthers = 32,
                           kOthersPerThread = kOthers / kRowThreads;

  explicit FmaGradient(AttentionGradientKernel &gradient)
      : k(gradient.kernel), g(gradient), b(g.b), math(g.math), v(g.values) {
    rows = g.parameters.queryRows;
    piece = g.parameters.columns;
    lanes = g.parameters.lanes;
    groups = k.schedule.threads / kRowThreads;
    rowsPerThread = rows / groups;
    vectors = piece / (lanes * kRowThreads);
    auto pieces = [&](int64_t extent) {
      return std::max<int64_t>(llvm::divideCeil(extent, piece), 1);
    };
    depthPieces = pieces(g.sizes.depth);
    widthPieces = pieces(g.sizes.width);
  }

  /// Generates both roles.
  LogicalResult emit();

private:
  /// Rows of two operands, multiplied with rows of two others: the first pair
  /// gives scores, the second dP.
  struct Operands {
    Value first, second;
    /// Whether the operands are query and output gradient.
    bool ofQuery;
  };

  void makeTiles();
  LogicalResult emitRows();
  LogicalResult emitKeys();
  LogicalResult findStatistics();
  LogicalResult sumQuery(Value firstColumn);
  LogicalResult sumKeys(bool ofKey, bool ofValue, Value firstColumn);
  LogicalResult loadOwn();
  LogicalResult emitScores(Value firstOther);
  LogicalResult loadFactor(bool second, Value firstOther, Value firstColumn);
  Value score(Value i, Value j, Value firstOther);
  LogicalResult emitFactors(Value firstOther, bool ofWeights);
  void addScores(Value sums, Value own, Value other);
  void addProducts(Value sums, Value factors, Value other);
  LogicalResult emitResult(AttentionResult result, Value sums,
                           Value firstColumn);

  Value constant(double value) { return v.constant(g.sumType, value); }
  double infinity() { return std::numeric_limits<double>::infinity(); }
  /// Row `i` of the thread in the block's tile, row `j` of the others.
  Value rowOf(Value i) { return math.add(group, math.mul(i, groups)); }
  Value otherOf(Value j) { return math.add(member, math.mul(j, kRowThreads)); }
  Value vectorAt(Value memory, Value row, Value column) {
    return vector::LoadOp::create(b, k.loc, VectorType::get({lanes}, g.sumType),
                                  memory, ValueRange{row, column});
  }
  Value lane(Value vector, int64_t position) {
    return vector::ExtractOp::create(b, k.loc, vector, position);
  }
  /// Reduces a row's value over its threads.
  Value joined(Value value, llvm::function_ref<Value(Value, Value)> join) {
    for (int64_t flip = 1; flip < kRowThreads; flip *= 2)
      value = join(value, g.shuffleXor(value, flip));
    return value;
  }
  void fillZero(Value array) {
    auto shape = cast<MemRefType>(array.getType()).getShape();
    unrolled(k, shape[0], "i", [&](Value i) {
      unrolled(k, shape[1], "j",
               [&](Value j) { g.store(constant(0), array, {i, j}); });
    });
  }
  LogicalResult fill(Value tensor, bool ofQuery, Value row, Value column,
                     Value memory, int64_t tileRows) {
    bool isGradient = tensor == g.op.getGradient();
    g.load({tensor,
            ofQuery ? g.head : g.keyHead,
            row,
            column,
            memory,
            {},
            tileRows,
            piece,
            isGradient ? g.factorType() : Type()},
           /*isAsync=*/false);
    return g.status;
  }
  bool isResident() const { return depthPieces == 1 && widthPieces == 1; }
  Value ownRow() { return own.ofQuery ? g.firstRow : g.firstKey; }

  GpuKernel &k;
  AttentionGradientKernel &g;
  OpBuilder &b;
  IndexMath &math;
  MathExpansion &v;
  int64_t rows, piece, lanes, groups, rowsPerThread, vectors, depthPieces,
      widthPieces;
  /// The block's own operands, and those it loops over.
  Operands own, other;
  /// Shared-memory tiles: two of own rows, two of others, P (`weights`), dS or
  /// P * dP (`factors`), and the others' statistics.
  Value ownFirst, ownSecond, otherFirst, otherSecond, weights, factors,
      statistics;
  /// Per thread: [row][other].
  Value scores, slopes;
  /// Rows role, per row: maximum, 1 / total, delta.
  Value largest, inverse, delta;
  Value group, member;
};
} // namespace

Schedule cuda::scheduleGradientFma(func::FuncOp kernel,
                                   AttentionGradientOp op) {
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
  AttentionGradientSchedule parameters;
  parameters.columns = piece;
  parameters.lanes = lanes;
  placeGradientBlocks(schedule, parameters, kernel, op, rows);
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
  LogicalResult status =
      g.emitRoles([&] { return emitRows(); }, [&] { return emitKeys(); });
  return failed(status) ? status : g.status;
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
cuda::emitAttentionGradientByFma(AttentionGradientKernel &gradient) {
  return FmaGradient(gradient).emit();
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

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
  int64_t stored = std::min(g.storeLanes(result), lanes),
          parts = lanes / stored;
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
          g.store(result, values, row, column);
        });
      });
    });
  });
  return status;
}
