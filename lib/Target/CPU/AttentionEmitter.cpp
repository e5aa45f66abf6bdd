//===- AttentionEmitter.cpp - attention kernels ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A work item is a group of row blocks of one head. Packs key and value once
// per item. The scores of a row block are stored in scratch, exponentiated
// there and multiplied with the value by a second pass of the micro-kernel, in
// the accumulator type; rows are divided by their sums at the end. With few
// rows, as in decoding one token, nothing is packed (AttentionDecode.cpp).
//
//===----------------------------------------------------------------------===//

#include "AttentionEmitter.h"

#include "../Kernel/AttentionMath.h"

#include "mpc/Analysis/QuantizedCacheRows.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;

AttentionEmitter::Packed AttentionEmitter::makePacked(ArithmeticUnit unit,
                                                      int64_t depth,
                                                      int64_t width) {
  Packed packed;
  packed.unit = unit;
  packed.depth = depth;
  packed.width = width;
  packed.columns =
      std::min<int64_t>(columns, llvm::PowerOf2Ceil(std::max(width, lanes)));
  packed.panels = llvm::divideCeil(width, packed.columns);
  int64_t step = stepDepth(unit);
  packed.panelElements = llvm::divideCeil(depth, step) * packed.columns;
  packed.panel.columns = packed.columns;
  packed.panel.memory = area(packed.panels * packed.panelElements,
                             step > 1 ? contraction.wordType() : sumType);
  return packed;
}

void AttentionEmitter::prepare() {
  items = productOf(batchShape) * rowGroups;
  cyclesPerItem = (2.0 * (depth + width) + 40) * length * positions /
                  (4.0 * lanes) / rowGroups;

  takeScales();
  if (readsInPlace) {
    prepareInPlace();
    return;
  }
  key = makePacked(contraction.unit, depth, positions);
  value = makePacked(ArithmeticUnit::MultiplyAdd, positions, width);
  Type rowType = contraction.rowType();
  int64_t rowBytes = bytesPerElement(rowType);
  bool collides = blocks.packsLeft() && depth * rowBytes % 4096 == 0;
  queryPitch = collides ? depth + 64 / rowBytes : depth;
  queryMemory = blocks.packsLeft() ? area(split.largest() * queryPitch, rowType)
                                   : inPlace(op.getQuery(), rowType);
  scorePitch = key.panels * key.columns;
  if (scorePitch * bytesPerElement(sumType) % 4096 == 0)
    scorePitch += lanes;
  scores = area(split.largest() * scorePitch, sumType);
  if (keyScales)
    keyFactors = area(scorePitch, sumType);
  inverses = stack(split.largest());
  tile = stack(split.largest() * value.columns);
}

void AttentionEmitter::takeScales() {
  keyNumbers = op.getKey();
  valueNumbers = op.getValue();
  for (auto [numbers, scales] : {std::pair(&keyNumbers, &keyScales),
                                 std::pair(&valueNumbers, &valueScales)}) {
    std::optional<QuantizedCacheRows> rows = QuantizedCacheRows::of(*numbers);
    if (!rows || rows->isRounded())
      continue;
    // The kernel is not analyzed again: the new ops only have to move rows.
    OpBuilder builder(op);
    *numbers = rows->numbers;
    *scales = rows->scales;
    for (Operation *part : llvm::reverse(rows->chain))
      if (auto transpose = dyn_cast<TransposeOp>(part))
        for (Value *moved : {numbers, scales}) {
          auto type = cast<RankedTensorType>(moved->getType());
          SmallVector<int64_t> shape;
          for (int64_t dim : transpose.getPermutation())
            shape.push_back(type.getDimSize(dim));
          *moved = TransposeOp::create(builder, loc, type.clone(shape), *moved,
                                       transpose.getPermutation());
        }
  }
}

Value AttentionEmitter::scaleAt(Value scales, Value position) {
  SmallVector<Value> at(keyHead);
  at.append({position, math.constant(0)});
  return loadWhole(scales, at, 1);
}

void AttentionEmitter::packKey() {
  if (keyFactors)
    math.loop(positions,
              [&](Value at) { store(scaleAt(keyScales, at), keyFactors, at); });
  math.loop(key.panels, [&](Value number) {
    packPanel(keyNumbers, keyHead, /*transposed=*/true, number, key.columns,
              math.constant(0), key.depth, key.panel.memory,
              math.mul(number, key.panelElements));
  });
}

/// Packs rows of the value, with zeros for missing columns of a panel.
void AttentionEmitter::packValue() {
  math.loop(value.panels, [&](Value number) {
    Value first = math.mul(number, value.columns);
    withColumns(number, width, value.columns, [&](int64_t used) {
      math.loop(positions, [&](Value at) {
        Value target = math.add(math.mul(number, value.panelElements),
                                math.mul(at, value.columns));
        SmallVector<Value> place(keyHead);
        place.append({at, Value()});
        forPowers(used, 2 * lanes, [&](int64_t column, int64_t run) {
          place.back() = math.add(first, column);
          copyRun(op.getValue(), place, run, value.panel.memory,
                  math.add(target, column));
        });
        forPowers(value.columns - used, 2 * lanes,
                  [&](int64_t column, int64_t run) {
                    storeZeros(value.panel.memory,
                               math.add(target, used + column), run);
                  });
      });
    });
  });
}

void AttentionEmitter::emitItem(Value item) {
  if (readsInPlace) {
    emitInPlace(item);
    return;
  }
  SmallVector<Value> position =
      math.delinearize(item, {productOf(batchShape), rowGroups});
  head = math.delinearize(position[0], batchShape);
  keyHead = head;
  keyHead.back() = keyHeadOf(head.back());
  queryBase = math.mul(position[0], length * depth);
  packKey();
  packValue();
  auto [begin, end] = groupOf(position[1], blocksPerItem, split.blocks);
  math.loop(begin, end, 1, [&](Value block) { emitRowBlock(block); });
}

SmallVector<Value> AttentionEmitter::sumsOf(RegisterBlock &block, int64_t rows,
                                            int64_t pitch, Value memory,
                                            Value base, const Packed &packed) {
  SmallVector<int64_t> offsets;
  for (int64_t r = 0; r < rows; ++r)
    offsets.push_back(r * pitch);
  block = blockOf(offsets, packed.columns / lanes);
  block.unit = packed.unit;
  int64_t step = stepDepth(packed.unit);
  int64_t steps = llvm::divideCeil(packed.depth, step);
  return emitMicroKernel(b, loc, block, memory, base, packed.panel,
                         KLoop{steps, step, steps * step - packed.depth});
}

void AttentionEmitter::emitRowBlock(Value block) {
  BlockRows blockRows(math, split, block);
  Value row = blockRows.first(), rowCount = blockRows.count();
  Value base = math.constant(0);
  auto indices = [&](Value r) {
    SmallVector<Value> at(head);
    at.push_back(math.add(row, r));
    return at;
  };
  if (blocks.packsLeft())
    packRows(op.getQuery(), indices, rowCount, base, depth, queryMemory, base,
             queryPitch);
  else
    base = math.add(queryBase, math.mul(row, depth));
  math.loop(key.panels, [&](Value number) {
    key.panel.offset = math.mul(number, key.panelElements);
    blockRows.with([&](int64_t rows) {
      RegisterBlock sums;
      SmallVector<Value> values =
          sumsOf(sums, rows, queryPitch, queryMemory, base, key);
      mpc::storeSums(b, loc, sums, values, scores, scorePitch,
                     math.mul(number, key.columns));
    });
  });
  math.loop(math.constant(0), rowCount, 1, [&](Value local) {
    emitSoftmax(math.add(row, local), local, wholeRange());
  });

  math.loop(value.panels, [&](Value number) {
    value.panel.offset = math.mul(number, value.panelElements);
    blockRows.with([&](int64_t rows) {
      RegisterBlock sums;
      SmallVector<Value> values =
          sumsOf(sums, rows, scorePitch, scores, math.constant(0), value);
      for (int64_t r = 0; r < rows; ++r) {
        Value inverse =
            memref::LoadOp::create(b, loc, inverses, math.constant(r));
        for (int64_t v = 0; v < sums.vectors; ++v) {
          Value &sum = values[r * sums.vectors + v];
          sum = arith::MulFOp::create(b, loc, sum, splatted(inverse, lanes));
        }
      }
      mpc::storeSums(b, loc, sums, values, tile, value.columns,
                     math.constant(0));
    });
    withColumns(number, width, value.columns, [&](int64_t used) {
      storeTile(tile, value.columns, rowCount, indices, head.size() + 1,
                math.mul(number, value.columns), used);
    });
  });
}

Value AttentionEmitter::splatted(Value scalar, int64_t count) {
  return vector::BroadcastOp::create(
      b, loc, VectorType::get({count}, scalar.getType()), scalar);
}

Value AttentionEmitter::maskScores(Value scores, Value row, Value column,
                                   int64_t count, Value lanesUsed) {
  MathExpansion values(b, loc, elementTarget(contraction.target));
  AttentionMath formula(values, op.getScale().convertToDouble());
  scores = formula.scaled(scores);
  if (Value mask = op.getMask()) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(mask.getType()).getShape();
    SmallVector<Value> full(head), at;
    full.append({row, column});
    for (size_t i = 0; i < shape.size(); ++i)
      at.push_back(shape[i] == 1 ? math.constant(0)
                                 : full[full.size() - shape.size() + i]);
    bool oneForAll = shape.empty() || shape.back() == 1;
    ElementEmitter emitter = makeEmitter();
    FailureOr<Value> emitted = emitter.emit(mask, at, oneForAll ? 1 : count,
                                            oneForAll ? Value() : lanesUsed);
    if (failed(emitted)) {
      status = failure();
      return scores;
    }
    Value value = *emitted;
    if (!isa<VectorType>(value.getType()))
      value = splatted(value, count);
    scores = formula.masked(scores, value);
  }
  if (op.getCausal()) {
    // Causal mask: kept if t <= s + T - S, that is t + S < s + T + 1.
    auto indexType = VectorType::get({count}, b.getIndexType());
    Value steps = vector::StepOp::create(b, loc, indexType);
    Value at = arith::AddIOp::create(
        b, loc, splatted(math.add(column, length), count), steps);
    Value limit = splatted(math.add(row, positions + 1), count);
    Value kept =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, at, limit);
    scores = formula.kept(kept, scores);
  }
  if (lanesUsed)
    scores = formula.kept(lanesUsed, scores);
  return scores;
}

/// Softmax of one row: turns the scores of `range` into exponentials and stores
/// the inverse of their sum; both are 0 for a fully masked row. For split-KV it
/// stores the partial maximum and sum instead.
void AttentionEmitter::emitSoftmax(Value row, Value local, Range range) {
  firstPosition = range.begin;
  MathExpansion values(b, loc, elementTarget(contraction.target));
  AttentionMath formula(values, op.getScale().convertToDouble());
  int64_t wide = 2 * lanes, rest = positions % wide;
  Value behind = math.constant(positions - rest),
        whole = math.min(range.end, behind);
  auto type = VectorType::get({wide}, sumType);
  Value none = values.constant(type, -std::numeric_limits<double>::infinity());

  // A row's pitch in scratch is a whole number of panels, at least as long as
  // the vectors that cover the row.
  bool vectorTail =
      rest && scorePitch >= (positions - rest) % partPositions + wide;
  int64_t tailLanes =
      vectorTail ? wide : llvm::PowerOf2Ceil(std::max<int64_t>(rest, 1));
  auto tailType = VectorType::get({tailLanes}, sumType);
  Value tailMask;
  if (rest && rest < tailLanes)
    tailMask = vector::ConstantMaskOp::create(
        b, loc, VectorType::get({tailLanes}, b.getI1Type()),
        ArrayRef<int64_t>{rest});

  auto first = [&](Value column, VectorType of, Value mask) {
    Value at = scoreAt(local, column);
    Value loaded = vector::LoadOp::create(b, loc, of, scores, at);
    if (keyFactors)
      loaded = arith::MulFOp::create(
          b, loc, loaded,
          vector::LoadOp::create(b, loc, of, keyFactors, column));
    loaded = maskScores(loaded, row, column, of.getDimSize(0), mask);
    vector::StoreOp::create(b, loc, loaded, scores, at);
    return loaded;
  };
  auto reduceLoop = [&](Value init,
                        llvm::function_ref<Value(Value, Value)> step) -> Value {
    if (positions < wide)
      return init;
    auto loop = scf::ForOp::create(b, loc, range.begin, whole,
                                   math.constant(wide), init);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    scf::YieldOp::create(
        b, loc, step(loop.getInductionVar(), loop.getRegionIterArg(0)));
    return loop.getResult(0);
  };
  auto reduce = [&](vector::CombiningKind kind, Value vector) -> Value {
    return vector::ReductionOp::create(b, loc, kind, vector);
  };

  // With split-KV, only the last split has a remainder.
  auto withRest = [&](Value before, llvm::function_ref<Value()> after) {
    if (!rest)
      return before;
    if (parts == 1)
      return after();
    auto op = scf::IfOp::create(b, loc, before.getType(),
                                math.less(behind, range.end),
                                /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(op.thenBlock());
    scf::YieldOp::create(b, loc, after());
    b.setInsertionPointToStart(op.elseBlock());
    scf::YieldOp::create(b, loc, before);
    return op.getResult(0);
  };

  Value largest = reduceLoop(none, [&](Value column, Value sofar) {
    return formula.larger(sofar, first(column, type, Value()));
  });
  largest = reduce(vector::CombiningKind::MAXIMUMF, largest);
  largest = withRest(largest, [&] {
    Value tail = first(behind, tailType, tailMask);
    return formula.larger(largest,
                          reduce(vector::CombiningKind::MAXIMUMF, tail));
  });
  Value shift = formula.shift(largest);

  auto second = [&](Value column, VectorType of) -> Value {
    Value at = scoreAt(local, column);
    Value loaded = vector::LoadOp::create(b, loc, of, scores, at);
    Value power = formula.power(loaded, splatted(shift, of.getDimSize(0)));
    vector::StoreOp::create(b, loc, power, scores, at);
    return power;
  };
  Value sum =
      reduceLoop(values.constant(type, 0.0), [&](Value column, Value sofar) {
        return values.add(sofar, second(column, type));
      });
  sum = reduce(vector::CombiningKind::ADD, sum);
  sum = withRest(sum, [&] {
    return values.add(
        sum, reduce(vector::CombiningKind::ADD, second(behind, tailType)));
  });
  if (parts > 1) {
    storePartialRow(local, largest, sum);
    return;
  }
  Value inverse = formula.inverse(sum, largest);
  memref::StoreOp::create(b, loc, inverse, inverses, local);
}

FailureOr<int64_t> mpc::emitAttention(const ContractionKernel &kernel) {
  return AttentionEmitter(kernel).run();
}
