//===- AttentionGradientMma.cpp - attention gradient on tensor cores ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionGradientMma.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

Value cuda::gradientFactor(AttentionGradientOp op) {
  auto cast = op.getGradient().getDefiningOp<CastOp>();
  if (cast && getElementTypeOrSelf(cast.getInput()) ==
                  getElementTypeOrSelf(op.getQuery()))
    return cast.getInput();
  return op.getGradient();
}

MmaGradient::MmaGradient(AttentionGradientKernel &gradient)
    : k(gradient.kernel), g(gradient), b(g.b), math(g.math), v(g.values),
      mma(k, *mmaUnit(g.factorType(), ComputeMode::tf32, k.target)),
      fragments(k, v, mma.unit) {
  rows = g.parameters.queryRows;
  depth = g.parameters.depth;
  columns = g.parameters.columns;
  isAsync = g.parameters.stages == 2;
  skew = 128 / g.factorType().getIntOrFloatBitWidth();
  // Without an additive mask the scale is folded into the exponent.
  g.formula.useFastPowers(/*scaled=*/g.problem.scale <= 0 || addsMask());
}

bool MmaGradient::addsMask() const {
  return g.problem.mask &&
         isa<FloatType>(getElementTypeOrSelf(g.problem.mask.getType()));
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

LogicalResult MmaGradient::emit() {
  fragments.place();
  warpRow =
      k.named(math.mul(math.div(g.thread, 32), kGradientWarpRows), "warp_row");
  sharedBytes = dynamicShared(k);
  LogicalResult status =
      g.emitRoles([&] { return emitRows(); }, [&] { return emitKeys(); });
  return failed(status) ? status : g.status;
}

MmaGradient::Side MmaGradient::querySide() const {
  return {Operand{g.problem.query, depth, "query", {}, {}},
          Operand{gradientFactor(g.op), columns, "gradient", {}, {}}};
}

MmaGradient::Side MmaGradient::keySide() const {
  return {Operand{g.problem.key, depth, "key", {}, {}},
          Operand{g.problem.value, columns, "value", {}, {}}};
}

void MmaGradient::takeRole(bool ofQuery) {
  const AttentionGradientSchedule &schedule = g.parameters;
  isQuery = ofQuery;
  others = ofQuery ? schedule.keys : schedule.queries;
  keepsOwn = ofQuery ? schedule.rowsInRegisters : schedule.keysInRegisters;
  inOneTile = ofQuery && schedule.keysInOneTile;
  int64_t stages = isAsync && !inOneTile ? 2 : 1;
  own = ofQuery ? querySide() : keySide();
  other = ofQuery ? keySide() : querySide();
  Type element = g.factorType();
  int64_t offset = 0;
  auto place = [&](ArrayRef<int64_t> shape, Type stored, const Twine &name) {
    int64_t size = stored.getIntOrFloatBitWidth() / 8;
    Value view = sharedView(k, sharedBytes, offset, shape, stored, name.str());
    offset += llvm::alignTo(productOf(shape) * size, 16);
    return view;
  };
  for (Operand &operand : other)
    operand.tile = place({stages, others, operand.columns + skew}, element,
                         operand.name + "_tile");
  if (!ofQuery)
    rowStatistics = place({stages, 3, others}, g.sumType, "row_statistics");
  // Own rows on their way to registers may share memory with the others' tiles,
  // unless these are loaded once; else they stay in shared memory.
  offset = keepsOwn && !inOneTile ? 0 : schedule.ownOffset;
  for (Operand &operand : own)
    operand.tile =
        place({rows, operand.columns + skew}, element, operand.name + "_tile");
  for (Operand &operand : own)
    operand.words = k.local({keepsOwn ? stepsOf(operand) : 1, 1, 4},
                            b.getI32Type(), (operand.name + "_words").str());
  scores = mma.sums(1, others / kGradientSumBlock, "scores");
  slopes = mma.sums(1, others / kGradientSumBlock, "slopes");
  otherWords =
      mma.rightFragments(pieceOf(others) / kGradientSumBlock, "other_words");
}

LogicalResult MmaGradient::emitRows() {
  takeRole(/*ofQuery=*/true);
  Value zero = math.constant(0);
  if (inOneTile && failed(loadOthers(zero, zero)))
    return failure();
  if (failed(loadOwn()))
    return failure();
  largest = k.local({2}, g.sumType, "largest");
  total = k.local({2}, g.sumType, "total");
  mean = k.local({2}, g.sumType, "mean");
  mma.fill(largest, -std::numeric_limits<float>::infinity());
  mma.fill(total, 0);
  mma.fill(mean, 0);
  auto addToStatistics = [&](Value first, Value stage) -> LogicalResult {
    if (failed(emitScores(first, stage, /*withSlopes=*/true)))
      return failure();
    updateStatistics();
    return success();
  };
  if (failed(inOneTile ? addToStatistics(zero, zero)
                       : walkOthers(addToStatistics)))
    return failure();
  finishStatistics();
  g.publishStatistics();
  SmallVector<Sum> sums = sumsOf(AttentionResult::query);
  if (sums.empty() || !inOneTile)
    return sumEach(sums);
  // Scores and dP of all keys are in registers.
  makeFactors(zero, /*withSlopes=*/true);
  for (Sum &sum : sums) {
    sum.fragments = makeSums(sum.count);
    accumulate(sum, zero);
  }
  return emitResults(sums);
}

LogicalResult MmaGradient::emitKeys() {
  takeRole(/*ofQuery=*/false);
  if (failed(loadOwn()))
    return failure();
  g.waitForStatistics();
  SmallVector<Sum> sums =
      sumsOf({AttentionResult::value, AttentionResult::key});
  return g.parameters.keysInOneWalk ? sum(sums) : sumEach(sums);
}

LogicalResult
MmaGradient::walkOthers(llvm::function_ref<LogicalResult(Value, Value)> body) {
  if (isQuery)
    return walk(math.constant(0), g.keyEnd(math.add(g.firstRow, rows)), body);
  LogicalResult status = success();
  g.eachQueryHead([&] {
    if (failed(walk(g.firstRowOf(g.firstKey, others),
                    math.constant(g.sizes.length), body)))
      status = failure();
  });
  return status;
}

SmallVector<MmaGradient::Sum>
MmaGradient::sumsOf(ArrayRef<AttentionResult> results) {
  int64_t most = g.parameters.sumColumns;
  SmallVector<Sum> sums;
  for (AttentionResult result : results) {
    if (!g.stores(result))
      continue;
    int64_t extent = result == AttentionResult::value ? columns : depth;
    int64_t count =
        llvm::alignTo(llvm::divideCeil(extent, llvm::divideCeil(extent, most)),
                      2 * kGradientSumBlock);
    for (int64_t first = 0; first < extent; first += count)
      sums.push_back({result, first, std::min(count, extent - first), {}});
  }
  return sums;
}

LogicalResult MmaGradient::sumEach(MutableArrayRef<Sum> sums) {
  for (Sum &each : sums)
    if (failed(sum(each)))
      return failure();
  return success();
}

LogicalResult MmaGradient::sum(MutableArrayRef<Sum> sums) {
  bool withSlopes = llvm::any_of(sums, [](const Sum &sum) {
    return sum.result != AttentionResult::value;
  });
  for (Sum &sum : sums)
    sum.fragments = makeSums(sum.count);
  auto add = [&](Value first, Value stage) -> LogicalResult {
    if (failed(emitScores(first, stage, withSlopes)))
      return failure();
    makeFactors(stage, withSlopes);
    for (const Sum &sum : sums)
      accumulate(sum, stage);
    return success();
  };
  if (failed(walkOthers(add)))
    return failure();
  return emitResults(sums);
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

LogicalResult MmaGradient::loadOwn() {
  for (const Operand &operand : own) {
    AttentionCodegen::Tile tile{operand.tensor, isQuery ? g.head : g.keyHead,
                                ownFirst(),     math.constant(0),
                                operand.tile,   {},
                                rows,           operand.columns};
    g.load(tile, isAsync);
  }
  if (isAsync) {
    cuda::CommitCopiesOp::create(b, k.loc);
    cuda::WaitCopiesOp::create(b, k.loc, 0);
  }
  k.barrier();
  if (keepsOwn)
    for (const Operand &operand : own)
      each(stepsOf(operand), "step",
           [&](Value step) { loadOwnWords(operand, step, step); });
  return success();
}

void MmaGradient::loadOwnWords(const Operand &operand, Value slot, Value step) {
  mma.loadLeft(slotOf(k, operand.words, slot),
               {operand.tile, /*alongDepth=*/true, {}, warpRow},
               math.mul(step, mma.depth()));
}

LogicalResult MmaGradient::loadOthers(Value first, Value stage) {
  if (!isQuery)
    g.loadStatistics(first, others, slotOf(k, rowStatistics, stage), isAsync);
  for (const Operand &operand : other) {
    AttentionCodegen::Tile tile{operand.tensor, isQuery ? g.keyHead : g.head,
                                first,          math.constant(0),
                                operand.tile,   {stage},
                                others,         operand.columns};
    g.load(tile, isAsync);
  }
  return success();
}

LogicalResult
MmaGradient::walk(Value begin, Value end,
                  llvm::function_ref<LogicalResult(Value, Value)> body) {
  LogicalResult status = success();
  Value zero = math.constant(0);
  bool pipelined = isAsync;
  auto stageOf = [&](Value first) {
    return math.rem(math.div(first, others), 2);
  };
  auto fetch = [&](Value first, Value stage) {
    if (failed(loadOthers(first, stage)))
      status = failure();
  };
  // All threads must have read the memory that tiles overwrite.
  k.barrier();
  if (pipelined) {
    fetch(begin, stageOf(begin));
    cuda::CommitCopiesOp::create(b, k.loc);
  }
  math.loop(begin, end, others, [&](Value first) {
    k.named(first, isQuery ? "first_key" : "first_row");
    Value stage = zero;
    if (pipelined) {
      stage = k.named(stageOf(first), "stage");
      cuda::WaitCopiesOp::create(b, k.loc, 0);
      k.barrier();
      Value next = k.named(math.add(first, others), "next");
      k.within(math.less(next, end),
               [&] { fetch(next, math.sub(math.constant(1), stage)); });
      cuda::CommitCopiesOp::create(b, k.loc);
    } else {
      fetch(first, stage);
      k.barrier();
    }
    if (failed(body(first, stage)))
      status = failure();
    if (!pipelined)
      k.barrier();
  });
  // Without a single row the first copies are still in flight.
  if (pipelined)
    cuda::WaitCopiesOp::create(b, k.loc, 0);
  return status;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

LogicalResult MmaGradient::emitResults(ArrayRef<Sum> sums) {
  for (const Sum &sum : sums)
    if (failed(emitResult(sum)))
      return failure();
  return success();
}

LogicalResult MmaGradient::emitResult(const Sum &sum) {
  bool ofValue = sum.result == AttentionResult::value;
  int64_t width = ofValue ? g.sizes.width : g.sizes.depth,
          length = isQuery ? g.sizes.length : g.sizes.positions,
          piece = pieceOf(sum.count);
  Value zero = math.constant(0);
  Value tile =
      sharedView(k, sharedBytes, 0, {rows, sum.count + kGradientResultSkew},
                 g.sumType, "result_tile");
  // All threads must have read the tiles and the previous result.
  k.barrier();
  each(2, "half", [&](Value half) {
    Value row = rowOf(half);
    each(sum.count / piece, "piece", [&](Value number) {
      each(piece / kGradientSumBlock, "j", [&](Value j) {
        SmallVector<Value> two;
        for (int64_t e = 0; e < 2; ++e) {
          Value value = g.load(
              sum.fragments, {number, zero, j, math.add(math.mul(half, 2), e)});
          two.push_back(ofValue ? value : v.mul(value, g.problem.scale));
        }
        Value column = math.add(
            math.add(math.mul(number, piece), math.mul(j, kGradientSumBlock)),
            fragments.pair);
        vector::StoreOp::create(
            b, k.loc,
            vector::FromElementsOp::create(
                b, k.loc, VectorType::get({2}, g.sumType), two),
            tile, ValueRange{row, column});
      });
    });
  });
  cuda::SyncWarpOp::create(b, k.loc);

  LogicalResult status = success();
  int64_t lanes = g.storeLanes(sum.result);
  int64_t perRow = std::min(sum.count, width - sum.first) / lanes,
          chunks = kGradientWarpRows * perRow;
  each(llvm::divideCeil(chunks, 32), "i", [&](Value i) {
    Value chunk = math.add(math.mul(i, 32), mma.lane());
    Value row = math.add(warpRow, math.div(chunk, perRow));
    row = k.named(row, "row");
    Value column = k.named(math.mul(math.rem(chunk, perRow), lanes), "column");
    Value inside = math.less(math.add(ownFirst(), row), length);
    if (chunks % 32)
      inside = v.bitAnd(inside, math.less(chunk, chunks));
    k.within(inside, [&] {
      Value values;
      if (lanes == 1)
        values = g.load(tile, {row, column});
      else
        values = vector::LoadOp::create(b, k.loc,
                                        VectorType::get({lanes}, g.sumType),
                                        tile, ValueRange{row, column});
      g.store(sum.result, values, math.add(ownFirst(), row),
              math.add(column, sum.first));
    });
  });
  return status;
}

LogicalResult
cuda::emitAttentionGradientByMma(AttentionGradientKernel &gradient) {
  return MmaGradient(gradient).emit();
}

//===----------------------------------------------------------------------===//
// One tile
//
// Scores and dP of a tile, softmax statistics, P and dS, and the result GEMMs.
//===----------------------------------------------------------------------===//

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
        mma.multiplyBlock(slotOf(k, sums, {zero, block}), left,
                          slotOf(k, otherWords, j));
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
