//===- AttentionEmitter.cpp - attention kernels ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A work item is a group of row blocks of one head. Packs key and value once
// per item. The scores of a row block are stored in scratch, exponentiated
// there and multiplied with the value by a second pass of the micro-kernel, in
// the accumulator type; rows are divided by their sums at the end. With few
// rows, as in decoding one token, nothing is packed.
//
//===----------------------------------------------------------------------===//

#include "../Kernel/AttentionMath.h"
#include "ContractionEmitter.h"
#include "KvCacheLayout.h"

#include "mpc/Analysis/QuantizedCacheRows.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

namespace {
class AttentionEmitter : public ContractionEmitter {
public:
  using ContractionEmitter::ContractionEmitter;

  void prepare() override;
  void emitItem(Value item) override;
  /// Reduces the split-KV partial results of one head.
  void emitLaterItem(Value item) override;

private:
  /// A packed operand: panels of `columns`, each `[steps][columns]` of words
  /// for `unit`.
  struct Packed {
    ArithmeticUnit unit;
    int64_t depth, width, columns, panels, panelElements;
    Panel panel;
  };
  Packed makePacked(ArithmeticUnit unit, int64_t depth, int64_t width);
  /// Separates the scales of quantized keys and values with one scale per row.
  void takeScales();
  void packKey();
  void packValue();
  void emitRowBlock(Value block);
  /// Several heads of few rows, with keys and values read in place.
  void prepareInPlace();
  void emitInPlace(Value item);
  /// Computes `count` heads from `first` on, all of one batch entry, over the
  /// positions `range`, which starts at a multiple of stepOfParts.
  void emitHeads(Value first, Value count, Range range);
  Value keyHeadOf(Value head) const {
    return math.div(head, batchShape.back() / keyShape.end()[-3]);
  }
  /// Computes the scores of head `number` of the item for as many positions
  /// from `first` on as a vector has lanes; those after the last position
  /// repeat its score if `clamps`.
  void emitDecodeScores(Value number, Value first, bool clamps);
  /// The same for the row `row` of the head, summed over lanes; and for all of
  /// its rows, each sum a chain over the depth as of the micro-kernel.
  Value sumOverLanes(int64_t row, ArrayRef<Value> places);
  Carried sumOverDepth(ArrayRef<Value> places);
  /// Accumulates the weighted values of positions [first, last) in row `local`.
  void accumulateDecodeValues(Value local, Value first, Value last);
  /// Rows of keys or values to prefetch, and those of their scales.
  struct FetchedRows {
    std::optional<InPlaceRow> numbers, scales;
  };
  /// Number of rows, in whole blocks of positions, of about `bytes` bytes.
  int64_t rowsAhead(const FetchedRows &rows, int64_t bytes,
                    int64_t block) const;
  /// Prefetches the rows of positions [begin, end), and of one position.
  void fetchRows(const FetchedRows &rows, Value begin, Value end);
  void fetchRow(const InPlaceRow &row, Value position);
  /// Split-KV for heads whose keys several items share:
  /// each item stores its partial sums with maximum and total, and a later item
  /// reduces those of one head, in split order.
  void preparePartials();
  void storePartialSums(Value local);
  void storePartialRow(Value local, Value largest, Value total);
  /// Offset in `partials` of split `part` of row `row` of all heads, and of the
  /// item's split of its row `local`.
  Value partialAt(Value row, Value part) const;
  Value ownPartialAt(Value local) const;
  /// Reduces the splits of row `row` of all heads, row `local` of the item.
  void reduceSplitRow(Value row, Value local);
  /// Accumulators of `rows` rows at `base` times a panel.
  llvm::SmallVector<Value> sumsOf(RegisterBlock &block, int64_t rows,
                                  int64_t pitch, Value memory, Value base,
                                  const Packed &packed);
  /// All positions.
  Range wholeRange() { return {math.constant(0), math.constant(positions)}; }
  /// Index in scratch of the score of a position in row `local`.
  Value scoreAt(Value local, Value position) const {
    return math.add(math.mul(local, scorePitch),
                    math.sub(position, firstPosition));
  }
  void emitSoftmax(Value row, Value local, Range range);
  /// Adds `weights`, at most 1, to the sums `sofar`, and reduces these.
  Carried addWeights(ValueRange sofar, Value weights);
  Value totalOf(ValueRange sums);
  /// Scaled and masked scores of `lanes` positions from `column` on.
  Value maskScores(Value scores, Value row, Value column, int64_t lanes,
                   Value mask);
  Value splatted(Value scalar, int64_t lanes);
  /// Emits `body` for each vector of columns of the values.
  void forColumns(llvm::function_ref<void(Value column)> body) {
    math.loop(math.constant(0), math.constant(width), lanes, body);
  }
  /// Loads elements of a row of `tensor` from `column` on.
  Value loadOf(Value tensor, ArrayRef<Value> head, Value row, Value column,
               int64_t lanes) {
    SmallVector<Value> at(head);
    at.append({row, column});
    return loadWhole(tensor, at, lanes);
  }
  /// Returns the scale of position `at` of the head, a scalar.
  Value scaleAt(Value scales, Value at);

  AttentionOp op = cast<AttentionOp>(contraction.op);
  MathExpansion functions{b, loc, elementTarget(contraction.target)};
  AttentionMath formula{functions, op.getScale().convertToDouble()};
  llvm::ArrayRef<int64_t> queryShape = shapeOf(op.getQuery()),
                          keyShape = shapeOf(op.getKey());
  llvm::ArrayRef<int64_t> batchShape = queryShape.drop_back(2);
  int64_t length = queryShape.end()[-2], depth = queryShape.back();
  int64_t positions = keyShape.end()[-2];
  int64_t width = shapeOf(op.getValue()).back();
  Packed key, value;
  /// Keys and values as multiplied, and the scales of their rows, which are
  /// applied to scores and weights; null if there are none.
  Value keyNumbers, keyScales, valueNumbers, valueScales;
  bool readsInPlace = readsKeysInPlace(contraction);
  /// In-place mode: heads per item, positions per item and number of items per
  /// head.
  int64_t headsPerItem = blocks.getBlocksPerItem();
  int64_t partPositions = blocks.getChunk() ? blocks.getChunk() : positions;
  int64_t parts = llvm::divideCeil(positions, partPositions);
  RowSplit split{length, blocks.getRows()};
  int64_t blocksPerItem = perItem(blocks.getBlocksPerItem(), split.blocks);
  int64_t rowGroups = llvm::divideCeil(split.blocks, blocksPerItem);
  int64_t queryPitch = 0, scorePitch = 0;
  Value queryMemory, scores, inverses, tile;
  /// Scales of the item's keys and values, contiguous, if these are packed.
  Value keyFactors, valueFactors;
  FetchedRows keyRows, valueRows;
  /// The item's split of the keys, its first head, and the partial results.
  Value part, leadingHead, partials;
  int64_t partialPitch = 0;
  /// Weights of the splits in the final reduction.
  Value weights;
  /// Number of accumulator vectors in registers.
  static constexpr int64_t kSumVectors = 8;
  llvm::SmallVector<Value> head, keyHead;
  Value queryBase;
  /// First position whose score is stored.
  Value firstPosition;
};
} // namespace

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
  scorePitch = llvm::alignTo(key.panels * key.columns, 2 * lanes);
  if (scorePitch * bytesPerElement(sumType) % 4096 == 0)
    scorePitch += lanes;
  scores = area(split.largest() * scorePitch, sumType);
  if (keyScales)
    keyFactors = area(scorePitch, sumType);
  if (valueScales)
    valueFactors = area(scorePitch, sumType);
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
  return loadOf(scales, keyHead, position, math.constant(0), 1);
}

void AttentionEmitter::packKey() {
  for (auto [scales, factors] :
       {std::pair(keyScales, keyFactors), std::pair(valueScales, valueFactors)})
    if (factors)
      math.loop(positions,
                [&](Value at) { store(scaleAt(scales, at), factors, at); });
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
          copyRun(valueNumbers, place, run, value.panel.memory,
                  math.add(target, column));
        });
        clear(value.panel.memory, target, used, value.columns, 2 * lanes);
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
      SmallVector<Value> found =
          sumsOf(sums, rows, queryPitch, queryMemory, base, key);
      cpu::storeSums(b, loc, sums, found, scores, scorePitch,
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
      SmallVector<Value> found =
          sumsOf(sums, rows, scorePitch, scores, math.constant(0), value);
      for (int64_t r = 0; r < rows; ++r) {
        Value inverse = math.load(inverses, math.constant(r));
        for (int64_t v = 0; v < sums.vectors; ++v) {
          Value &sum = found[r * sums.vectors + v];
          sum = values.mul(sum, splatted(inverse, lanes));
        }
      }
      cpu::storeSums(b, loc, sums, found, tile, value.columns,
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
  scores = formula.scaled(scores);
  if (Value mask = op.getMask()) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(mask.getType()).getShape();
    SmallVector<Value> full(head), at;
    full.append({row, column});
    for (size_t i = 0; i < shape.size(); ++i)
      at.push_back(shape[i] == 1 ? math.constant(0)
                                 : full[full.size() - shape.size() + i]);
    bool oneForAll = shape.empty() || shape.back() == 1;
    Value value = elementsOf(mask, at, oneForAll ? 1 : count,
                             oneForAll ? Value() : lanesUsed);
    if (!isa<VectorType>(value.getType()))
      value = splatted(value, count);
    scores = formula.masked(scores, value);
  }
  if (op.getCausal()) {
    // Causal mask: kept if t <= s + T - S, that is t + S < s + T + 1.
    auto indexType = VectorType::get({count}, b.getIndexType());
    Value steps = vector::StepOp::create(b, loc, indexType);
    Value at = values.add(splatted(math.add(column, length), count), steps);
    Value limit = splatted(math.add(row, positions + 1), count);
    Value kept = values.compare(arith::CmpIPredicate::ult, at, limit);
    scores = formula.kept(kept, scores);
  }
  if (lanesUsed)
    scores = formula.kept(lanesUsed, scores);
  return scores;
}

/// Sum of a vector's lanes, by halves: LLVM's own order would depend on the
/// target.
static Value sumOfHalves(ValueMath &values, Value vector) {
  for (int64_t lanes = cast<VectorType>(vector.getType()).getNumElements();
       lanes > 1; lanes /= 2) {
    SmallVector<Value> halves = values.partsOf(vector, lanes / 2);
    vector = values.add(halves[0], halves[1]);
  }
  return vector::ExtractOp::create(values.getBuilder(), vector.getLoc(), vector,
                                   0);
}

/// Reproducible sums of weights are of integers, whose order is free: leading
/// or trailing masked positions, lanes and vectors do not change their bits. A
/// weight is at most 1 and has this many bits per integer.
static constexpr int64_t kWeightBits = 30;

Carried AttentionEmitter::addWeights(ValueRange sofar, Value weights) {
  if (!contraction.target.isReproducible)
    return {values.add(sofar[0], weights)};
  // A NaN among the weights makes the weighted values NaN.
  Value isNumber = values.compare(arith::CmpFPredicate::OLE, weights, 1.0);
  Value rest =
      values.select(isNumber, weights, values.constant(weights.getType(), 1.0));
  Carried next;
  for (Value sum : sofar) {
    Value one = values.constant(rest.getType(), double(1 << kWeightBits)),
          half = values.constant(rest.getType(), 0.5);
    bool isLast = next.size() + 1 == sofar.size();
    rest = isLast ? values.fma(rest, one, half) : values.mul(rest, one);
    Value integer = values.toInt(rest, b.getI32Type());
    next.push_back(
        values.add(sum, values.extendSigned(integer, b.getI64Type())));
    if (!isLast)
      rest = values.sub(rest, values.toFloat(integer, sumType));
  }
  return next;
}

Value AttentionEmitter::totalOf(ValueRange sums) {
  if (!contraction.target.isReproducible)
    return sumOfHalves(values, sums[0]);
  Value total;
  for (Value sum : llvm::reverse(sums)) {
    Value number = values.toFloat(sumOfHalves(values, sum), b.getF64Type());
    total =
        total ? values.fma(total, 1.0 / (1 << kWeightBits), number) : number;
  }
  total = values.mul(total, 1.0 / (1 << kWeightBits));
  return sumType.isF64() ? total : values.truncateFloat(total, sumType);
}

/// Softmax of one row: turns the scores of `range` into exponentials, times the
/// scales of packed values, and stores the inverse of their sum; both are 0 for
/// a fully masked row. For split-KV it stores the partial maximum and sum
/// instead.
void AttentionEmitter::emitSoftmax(Value row, Value local, Range range) {
  firstPosition = range.begin;
  // A row's pitch in scratch has room for the vectors that cover the row.
  int64_t wide = 2 * lanes, rest = positions % wide;
  Value behind = math.constant(positions - rest),
        whole = math.min(range.end, behind);
  auto type = VectorType::get({wide}, sumType);
  Value tailMask;
  if (rest)
    tailMask = vector::ConstantMaskOp::create(
        b, loc, VectorType::get({wide}, b.getI1Type()),
        ArrayRef<int64_t>{rest});
  auto reduce = [&](ValueRange init,
                    llvm::function_ref<Carried(Value column, Value mask,
                                               ValueRange sofar)>
                        step) {
    Carried sofar(init);
    if (positions >= wide)
      sofar = math.loop(range.begin, whole, wide, init,
                        [&](Value column, ValueRange sofar) {
                          return step(column, Value(), sofar);
                        });
    if (!rest)
      return sofar;
    if (parts == 1)
      return step(behind, tailMask, sofar);
    // With split-KV, only the last split has a remainder.
    return math.choose(
        math.less(behind, range.end), init.getTypes(),
        [&] { return step(behind, tailMask, sofar); }, [&] { return sofar; });
  };

  Value largest =
      reduce(values.constant(type, -kInfinity), [&](Value column, Value mask,
                                                    ValueRange sofar) {
        Value at = scoreAt(local, column);
        Value loaded = math.load(scores, at, type);
        if (keyFactors)
          loaded = values.mul(loaded, math.load(keyFactors, column, type));
        loaded = maskScores(loaded, row, column, wide, mask);
        math.store(loaded, scores, at);
        return Carried{formula.larger(sofar[0], loaded)};
      })[0];
  largest = vector::ReductionOp::create(b, loc, vector::CombiningKind::MAXIMUMF,
                                        largest);
  Value shift = formula.shift(largest), shifts = splatted(shift, wide);

  SmallVector<Value> zeros;
  if (!contraction.target.isReproducible)
    zeros = {values.constant(type, 0.0)};
  else
    zeros.assign(sumType.isF64() ? 2 : 1,
                 values.integer(type.clone(b.getI64Type()), 0));
  Carried sums = reduce(zeros, [&](Value column, Value, ValueRange sofar) {
    Value at = scoreAt(local, column);
    Value power = formula.power(math.load(scores, at, type), shifts);
    Carried next = addWeights(sofar, power);
    if (valueFactors)
      power = values.mul(power, math.load(valueFactors, column, type));
    math.store(power, scores, at);
    return next;
  });
  Value sum = totalOf(sums);
  if (parts > 1) {
    storePartialRow(local, largest, sum);
    return;
  }
  math.store(formula.inverse(sum, largest), inverses, local);
}

FailureOr<int64_t> cpu::emitAttention(const ContractionKernel &kernel) {
  return AttentionEmitter(kernel).run();
}

//===----------------------------------------------------------------------===//
// Decode attention on an unpacked KV cache
//
// Decoding one token reads each key and value once: packing would only add
// traffic. Scores are dot products along a key's row, for as many keys at once
// as a vector has lanes; values are accumulated row by row.
//===----------------------------------------------------------------------===//

/// Horizontal sums of as many vectors as they have lanes, in order: pairwise
/// sums of neighbors, of two vectors into one, until one is left.
static Value sumEach(ValueMath &values, SmallVector<Value> vectors) {
  int64_t lanes = vectors.size();
  SmallVector<int64_t> even, odd;
  for (int64_t i = 0; i < lanes; ++i) {
    even.push_back(2 * i);
    odd.push_back(2 * i + 1);
  }
  while (vectors.size() > 1) {
    SmallVector<Value> pairs;
    for (size_t i = 0; i < vectors.size(); i += 2) {
      Value low = values.shuffle(vectors[i], vectors[i + 1], even),
            high = values.shuffle(vectors[i], vectors[i + 1], odd);
      pairs.push_back(values.add(low, high));
    }
    vectors = std::move(pairs);
  }
  return vectors.front();
}

/// Prefetch distances in bytes. The first values are prefetched while
/// exponentials are computed, which load nothing.
static constexpr int64_t kKeyBytesAhead = 24 << 10, kValueBytesAhead = 64 << 10;

void AttentionEmitter::prepareInPlace() {
  // If rows of several heads are adjacent, as in a decoder's cache, read that
  // many one after another.
  if (blocks.fetchesRows())
    for (auto [rows, numbers, scales] :
         {std::tuple(&keyRows, keyNumbers, keyScales),
          std::tuple(&valueRows, valueNumbers, valueScales)}) {
      std::optional<InPlaceRow> stored = InPlaceRow::of(numbers);
      if (!stored || !stored->paysWhole())
        continue;
      rows->numbers = stored;
      if (scales)
        rows->scales = InPlaceRow::of(scales);
    }
  items = productOf(batchShape) / headsPerItem * parts;
  cyclesPerItem =
      cyclesInPlace(contraction) * double(partPositions * headsPerItem);
  int64_t rows = length * headsPerItem;
  // Padding keeps the scores of all heads at one position, written between
  // reads of a long stream, out of the same few cache sets.
  scorePitch = llvm::alignTo(partPositions, 2 * lanes) + lanes;
  scores = area(rows * scorePitch, sumType);
  inverses = stack(rows);
  tile = stack(rows * width);
  if (parts > 1)
    preparePartials();
}

void AttentionEmitter::emitInPlace(Value item) {
  SmallVector<Value> place =
      math.delinearize(item, {productOf(batchShape) / headsPerItem, parts});
  Range range = wholeRange();
  if (parts > 1) {
    part = place[1];
    range.begin = math.mul(part, partPositions);
    range.end = math.min(math.add(range.begin, partPositions), positions);
  }
  emitHeads(math.mul(place[0], headsPerItem), math.constant(headsPerItem),
            range);
}

void AttentionEmitter::emitHeads(Value firstHead, Value count, Range range) {
  firstPosition = range.begin;
  SmallVector<Value> first = math.delinearize(firstHead, batchShape);
  leadingHead = firstHead;
  head = first;
  auto forHeads = [&](llvm::function_ref<void(Value number)> body) {
    math.loop(math.constant(0), count, 1, [&](Value number) {
      head = first;
      head.back() = math.add(first.back(), number);
      keyHead = head;
      keyHead.back() = keyHeadOf(head.back());
      body(number);
    });
  };
  auto forRows = [&](llvm::function_ref<void(int64_t row, Value local)> body) {
    forHeads([&](Value number) {
      for (int64_t row = 0; row < length; ++row)
        body(row, math.add(math.mul(number, length), row));
    });
  };
  // Ranges start at whole vectors; only the last one ends inside of one.
  auto wholeOf = [&](int64_t step) {
    return math.min(range.end, positions - positions % step);
  };
  Value whole = wholeOf(lanes);
  // Prefetch in memory order while heads compute: each head prefetches its
  // share of some rows.
  auto fetchShare = [&](const FetchedRows &rows, Value from, int64_t extent,
                        Value number) {
    auto shareOf = [&](Value heads) {
      return math.add(from, math.div(math.mul(heads, extent), headsPerItem));
    };
    fetchRows(rows, shareOf(number), shareOf(math.add(number, 1)));
  };
  int64_t keysAhead = rowsAhead(keyRows, kKeyBytesAhead, lanes);
  fetchRows(keyRows, range.begin, math.add(range.begin, keysAhead));
  math.loop(range.begin, whole, lanes, [&](Value at) {
    forHeads([&](Value number) {
      fetchShare(keyRows, math.add(at, keysAhead), lanes, number);
      emitDecodeScores(number, at, /*clamps=*/false);
    });
  });
  if (positions % lanes)
    math.loop(whole, range.end, lanes, [&](Value at) {
      forHeads(
          [&](Value number) { emitDecodeScores(number, at, /*clamps=*/true); });
    });
  int64_t valuesAhead = rowsAhead(valueRows, kValueBytesAhead, kValueBlock);
  forHeads([&](Value number) {
    fetchShare(valueRows, range.begin, valuesAhead, number);
    for (int64_t row = 0; row < length; ++row) {
      Value local = math.add(math.mul(number, length), row);
      emitSoftmax(math.constant(row), local, range);
      forColumns([&](Value column) {
        storeZeros(tile, math.add(math.mul(local, width), column), lanes);
      });
    }
  });
  Value blocked = wholeOf(kValueBlock);
  math.loop(range.begin, blocked, kValueBlock, [&](Value at) {
    forHeads([&](Value number) {
      fetchShare(valueRows, math.add(at, valuesAhead), kValueBlock, number);
      for (int64_t row = 0; row < length; ++row)
        accumulateDecodeValues(math.add(math.mul(number, length), row), at,
                               math.add(at, kValueBlock));
    });
  });
  forRows([&](int64_t, Value local) {
    accumulateDecodeValues(local, blocked, range.end);
    if (parts > 1) {
      storePartialSums(local);
      return;
    }
    Value inverse = splatted(math.load(inverses, local), lanes);
    forColumns([&](Value column) {
      Value at = math.add(math.mul(local, width), column);
      math.store(values.mul(math.load(tile, at, lanes), inverse), tile, at);
    });
  });
  if (parts > 1)
    return;
  auto indices = [&](Value local) {
    SmallVector<Value> at(first);
    at.back() = math.add(first.back(), math.div(local, length));
    at.push_back(math.rem(local, length));
    return at;
  };
  storeTile(tile, width, math.mul(count, length), indices, first.size() + 1,
            math.constant(0), width);
}

int64_t AttentionEmitter::rowsAhead(const FetchedRows &rows, int64_t bytes,
                                    int64_t block) const {
  if (!rows.numbers)
    return 0;
  auto extent = int64_t(llvm::alignTo(bytes / rows.numbers->bytes(), block));
  return std::min(extent, partPositions);
}

void AttentionEmitter::fetchRows(const FetchedRows &rows, Value begin,
                                 Value end) {
  if (!rows.numbers)
    return;
  math.loop(begin, end, 1, [&](Value position) {
    fetchRow(*rows.numbers, position);
    if (rows.scales)
      fetchRow(*rows.scales, position);
  });
}

void AttentionEmitter::fetchRow(const InPlaceRow &row, Value position) {
  Value memory = memoryOf(row.argument);
  auto type = cast<MemRefType>(memory.getType());
  int64_t size = type.getShape().back();
  int64_t line = kLineBytes / bytesPerElement(type.getElementType());
  SmallVector<Value> at(type.getRank(), math.constant(0));
  for (auto [dim, place] : row.batch)
    at[place] = head[dim];
  at[row.dimension] = position;
  math.loop(math.constant(0), math.constant(row.elements), line,
            [&](Value element) {
              at.end()[-2] = math.div(element, size);
              at.back() = math.rem(element, size);
              math.prefetch(memory, at, unsigned(Cache::Second));
            });
}

Value AttentionEmitter::sumOverLanes(int64_t row, ArrayRef<Value> places) {
  auto partOf = [&](Value tensor, ArrayRef<Value> head, Value at, int64_t d) {
    return loadOf(tensor, head, at, math.constant(d), lanes);
  };
  SmallVector<Value> query, sums;
  for (int64_t d = 0; d < depth; d += lanes)
    query.push_back(partOf(op.getQuery(), head, math.constant(row), d));
  for (Value place : places) {
    Value sum;
    for (auto [part, factor] : llvm::enumerate(query)) {
      Value key = partOf(keyNumbers, keyHead, place, int64_t(part) * lanes);
      sum = sum ? values.fma(key, factor, sum) : values.mul(key, factor);
    }
    sums.push_back(sum);
  }
  return sumEach(values, std::move(sums));
}

Carried AttentionEmitter::sumOverDepth(ArrayRef<Value> places) {
  auto type = VectorType::get({lanes}, sumType);
  SmallVector<Value> zeros(length, values.constant(type, 0.0));
  return math.loop(
      math.constant(0), math.constant(depth), lanes, zeros,
      [&](Value first, ValueRange sofar) {
        SmallVector<Value> keys;
        for (Value place : places)
          keys.push_back(loadOf(keyNumbers, keyHead, place, first, lanes));
        keys = transposed(keys);
        Carried sums(sofar);
        for (int64_t row = 0; row < length; ++row) {
          Value query =
              loadOf(op.getQuery(), head, math.constant(row), first, lanes);
          for (int64_t d = 0; d < lanes; ++d) {
            SmallVector<int64_t> same(lanes, d);
            sums[row] = values.fma(keys[d], values.shuffle(query, query, same),
                                   sums[row]);
          }
        }
        return sums;
      });
}

void AttentionEmitter::emitDecodeScores(Value number, Value first,
                                        bool clamps) {
  SmallVector<Value> places;
  for (int64_t i = 0; i < lanes; ++i) {
    Value place = math.add(first, i);
    places.push_back(clamps ? math.min(place, positions - 1) : place);
  }
  Carried chains;
  if (contraction.target.isReproducible)
    chains = sumOverDepth(places);
  Value scales;
  if (keyScales) {
    SmallVector<Value> each;
    for (Value place : places)
      each.push_back(scaleAt(keyScales, place));
    scales = vector::FromElementsOp::create(
        b, loc, VectorType::get({lanes}, sumType), each);
  }
  for (int64_t row = 0; row < length; ++row) {
    Value each = chains.empty() ? sumOverLanes(row, places) : chains[row];
    if (scales)
      each = values.mul(each, scales);
    math.store(each, scores,
               scoreAt(math.add(math.mul(number, length), row), first));
  }
}

void AttentionEmitter::accumulateDecodeValues(Value local, Value first,
                                              Value last) {
  for (int64_t column = 0; column < width; column += kSumVectors * lanes) {
    int64_t vectors = std::min(kSumVectors, (width - column) / lanes);
    SmallVector<Value> places, before;
    for (int64_t v = 0; v < vectors; ++v) {
      places.push_back(math.add(math.mul(local, width), column + v * lanes));
      before.push_back(math.load(tile, places.back(), lanes));
    }
    Carried sums = math.loop(
        first, last, 1, before, [&](Value position, ValueRange sofar) {
          Value weight = math.load(scores, scoreAt(local, position));
          if (valueScales)
            weight = values.mul(weight, scaleAt(valueScales, position));
          weight = splatted(weight, lanes);
          Carried next;
          for (int64_t v = 0; v < vectors; ++v) {
            Value value = loadOf(valueNumbers, keyHead, position,
                                 math.constant(column + v * lanes), lanes);
            next.push_back(values.fma(value, weight, sofar[v]));
          }
          return next;
        });
    for (int64_t v = 0; v < vectors; ++v)
      math.store(sums[v], tile, places[v]);
  }
}

//===----------------------------------------------------------------------===//
// Split-KV (flash-decoding: T. Dao, D. Haziza, F. Massa, G. Sizov,
// "Flash-Decoding for long-context inference", 2023): with few rows of few
// heads, an item processes a split of the keys, so that all threads have work.
// It stores its partial sums with their maximum and total weight; after all
// items, the splits of a head are reduced in order. Splits depend on shapes
// only: results do not depend on the number of threads.
//===----------------------------------------------------------------------===//

void AttentionEmitter::preparePartials() {
  // Maximum and total follow the sums; rows are padded to cache lines to avoid
  // false sharing.
  partialPitch =
      llvm::alignTo(width + 2, kLineBytes / bytesPerElement(sumType));
  laterItems = productOf(batchShape);
  partials = sharedArea(laterItems * length * parts * partialPitch);
  weights = area(parts, sumType);
}

Value AttentionEmitter::partialAt(Value row, Value part) const {
  return math.mul(math.add(math.mul(row, parts), part), partialPitch);
}

Value AttentionEmitter::ownPartialAt(Value local) const {
  return partialAt(math.add(math.mul(leadingHead, length), local), part);
}

void AttentionEmitter::storePartialSums(Value local) {
  Value base = ownPartialAt(local);
  forColumns([&](Value column) {
    Value sum =
        math.load(tile, math.add(math.mul(local, width), column), lanes);
    math.store(sum, partials, math.add(base, column));
  });
}

void AttentionEmitter::storePartialRow(Value local, Value largest,
                                       Value total) {
  Value at = math.add(ownPartialAt(local), width);
  math.store(largest, partials, at);
  math.store(total, partials, math.add(at, 1));
}

void AttentionEmitter::reduceSplitRow(Value row, Value local) {
  auto overParts = [&](ValueRange from,
                       llvm::function_ref<Carried(Value, ValueRange)> body) {
    return math.loop(math.constant(0), math.constant(parts), 1, from, body);
  };
  auto numberOf = [&](Value part, int64_t which) {
    return math.load(partials, math.add(partialAt(row, part), width + which));
  };
  Value none = values.constant(sumType, -kInfinity);
  Value largest = overParts(none, [&](Value part, ValueRange sofar) {
    return Carried{formula.larger(sofar[0], numberOf(part, 0))};
  })[0];
  Value shift = formula.shift(largest);
  Value zero = values.constant(sumType, 0.0);
  Value total = overParts(zero, [&](Value part, ValueRange sofar) {
    Value weight = formula.power(numberOf(part, 0), shift);
    math.store(weight, weights, part);
    return Carried{values.add(sofar[0], values.mul(numberOf(part, 1), weight))};
  })[0];
  Value inverse = splatted(formula.inverse(total, largest), lanes);
  auto type = VectorType::get({lanes}, sumType);
  for (int64_t column = 0; column < width; column += kSumVectors * lanes) {
    SmallVector<Value> zeros(std::min(kSumVectors, (width - column) / lanes),
                             values.constant(type, 0.0));
    Carried sums = overParts(zeros, [&](Value part, ValueRange sofar) {
      Value base = math.add(partialAt(row, part), column);
      Value weight = splatted(math.load(weights, part), lanes);
      Carried next;
      for (auto [v, sum] : llvm::enumerate(sofar)) {
        Value own =
            math.load(partials, math.add(base, int64_t(v) * lanes), lanes);
        next.push_back(values.fma(own, weight, sum));
      }
      return next;
    });
    for (auto [v, sum] : llvm::enumerate(sums))
      math.store(values.mul(sum, inverse), tile,
                 math.add(math.mul(local, width), column + int64_t(v) * lanes));
  }
}

void AttentionEmitter::emitLaterItem(Value number) {
  math.loop(length, [&](Value local) {
    reduceSplitRow(math.add(math.mul(number, length), local), local);
  });
  SmallVector<Value> place = math.delinearize(number, batchShape);
  auto indices = [&](Value local) {
    SmallVector<Value> at(place);
    at.push_back(local);
    return at;
  };
  storeTile(tile, width, math.constant(length), indices, place.size() + 1,
            math.constant(0), width);
}
