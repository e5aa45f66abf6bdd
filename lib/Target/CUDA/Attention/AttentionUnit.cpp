//===- AttentionUnit.cpp - arithmetic units of attention ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionUnit.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

static int64_t extentOf(Value array, int64_t fromLast) {
  return cast<MemRefType>(array.getType()).getShape().end()[-fromLast];
}

//===----------------------------------------------------------------------===//
// Lane layout
//===----------------------------------------------------------------------===//

void AttentionUnit::place() {
  shared = dynamicShared(k);
  group = k.named(math.div(lane(), rowLanes), "group");
  Value member = math.rem(lane(), rowLanes);
  scorePair = k.named(math.mul(member, scoreWidth), "pair");
  sumPair = scoreWidth == sumWidth
                ? scorePair
                : k.named(math.mul(member, sumWidth), "first");
  warpRow =
      k.named(math.mul(math.div(a.thread, kWarp), warpRows()), "warp_row");
}

Value AttentionUnit::makeTile(ArrayRef<int64_t> shape, int64_t columns,
                              const Twine &name) {
  int64_t bytes = bytesPerElement(tileType);
  SmallVector<int64_t> padded(shape);
  padded.push_back(columns + kVectorBytes / bytes);
  Value tile =
      sharedView(k, shared, sharedOffset, padded, tileType, name.str());
  sharedOffset += productOf(padded) * bytes;
  return tile;
}

Value AttentionUnit::rowOf(Value row) {
  return math.add(warpRow, math.add(group, math.mul(row, kWarp / rowLanes)));
}

Value AttentionUnit::columnOf(Value j, Value e, int64_t width) {
  return math.add(
      math.mul(j, rowLanes * width),
      math.add(width == scoreWidth ? scorePair : sumPair, math.rem(e, width)));
}

void AttentionUnit::eachRow(llvm::function_ref<void(Value)> body) {
  unrolled(k, rows, "half", body);
}

int64_t AttentionUnit::scoreBlocks(Value scores) const {
  return extentOf(scores, 2);
}

void AttentionUnit::mask(
    Value scores, Value cuts, Score bounded,
    llvm::function_ref<std::pair<Value, Value>(Value, Value)> placeOf) {
  auto change = [&](Score body) {
    eachElement(k, scores, [&](ArrayRef<Value> at) {
      auto [row, position] = placeOf(rowOf(math.div(at[2], scoreWidth)),
                                     columnOf(at[1], at[2], scoreWidth));
      k.named(row, "row");
      k.named(position, "position");
      a.store(body(a.load(scores, at), row, position), scores, at);
    });
  };
  if (a.problem.mask || !a.formula.foldsScale())
    change([&](Value score, Value row, Value position) {
      return a.masked(score, row, position);
    });
  if (cuts)
    k.within(cuts, [&] { change(bounded); });
}

Value AttentionUnit::reduced(Value value, bool isMaximum) {
  for (int64_t flip = 1; flip < rowLanes; flip *= 2) {
    Value other = gpu::ShuffleOp::create(b, k.loc, value, flip, kWarp,
                                         gpu::ShuffleMode::XOR)
                      .getShuffleResult();
    value = isMaximum ? a.formula.larger(value, other) : v.add(value, other);
  }
  return value;
}

//===----------------------------------------------------------------------===//
// Accumulators
//===----------------------------------------------------------------------===//

Value AttentionUnit::makeScores(int64_t columns, StringRef name) {
  return k.local({1, columns / (rowLanes * scoreWidth), rows * scoreWidth},
                 a.sumType, name);
}

Value AttentionUnit::makeSums(int64_t columns, int64_t piece) {
  Value sums = k.local(
      {columns / piece, 1, piece / (rowLanes * sumWidth), rows * sumWidth},
      a.sumType, "sums");
  fill(k, sums, 0);
  return sums;
}

Value AttentionUnit::makeStatistics(double value, StringRef name) {
  Value array = k.local({rows}, a.sumType, name);
  fill(k, array, value);
  return array;
}

void AttentionUnit::softmax(
    Value scores, Value largest, ArrayRef<Value> totals, Value sums,
    llvm::function_ref<void(ArrayRef<Value>, Value, Value)> use) {
  Value zero = math.constant(0);
  Value shrink = k.local({rows}, a.sumType, "shrink");
  eachRow([&](Value row) {
    auto each = [&](llvm::function_ref<void(ArrayRef<Value>)> body) {
      unrolled(k, scoreBlocks(scores), "j", [&](Value j) {
        unrolled(k, scoreWidth, "e", [&](Value e) {
          body({zero, j, math.add(math.mul(row, scoreWidth), e)});
        });
      });
    };
    Value before = k.named(a.load(largest, row), "before");
    each([&](ArrayRef<Value> at) {
      a.store(a.formula.larger(a.load(largest, row), a.load(scores, at)),
              largest, row);
    });
    Value now =
        k.named(reduced(a.load(largest, row), /*isMaximum=*/true), "now");
    a.store(now, largest, row);
    Value shift = k.named(a.formula.shift(now), "shift");
    Value shrunk = k.named(a.formula.power(before, shift), "shrunk");
    for (Value total : totals)
      a.store(v.mul(a.load(total, row), shrunk), total, row);
    each([&](ArrayRef<Value> at) {
      Value weight =
          k.named(a.formula.power(a.load(scores, at), shift), "weight");
      Value total = totals.front();
      a.store(v.add(a.load(total, row), weight), total, row);
      if (use)
        use(at, row, weight);
      else
        a.store(weight, scores, at);
    });
    if (sums)
      a.store(shrunk, shrink, row);
  });
  if (sums)
    eachElement(k, sums, [&](ArrayRef<Value> at) {
      Value factor = a.load(shrink, math.div(at.back(), sumWidth));
      a.store(v.mul(a.load(sums, at), factor), sums, at);
    });
}

void AttentionUnit::storeRows(
    Value sums, Value tile, Value firstRow, int64_t length, int64_t width,
    int64_t lanes, llvm::function_ref<Value(Value)> factor,
    llvm::function_ref<void(Value, Value, Value)> store) {
  Value zero = math.constant(0);
  int64_t blocks = extentOf(sums, 2), block = rowLanes * sumWidth;
  eachRow([&](Value row) {
    Value scale = factor(row), to = rowOf(row);
    unrolled(k, extentOf(sums, 4), "piece", [&](Value piece) {
      unrolled(k, blocks, "j", [&](Value j) {
        SmallVector<Value> own;
        for (int64_t e = 0; e < sumWidth; ++e) {
          Value at = math.add(math.mul(row, sumWidth), e);
          Value sum = a.load(sums, {piece, zero, j, at});
          own.push_back(scale ? v.mul(sum, scale) : sum);
        }
        Value column = math.add(
            math.add(math.mul(piece, blocks * block), math.mul(j, block)),
            sumPair);
        a.store(a.vectorOf(own), tile, {to, column});
      });
    });
  });
  cuda::SyncWarpOp::create(b, k.loc);
  int64_t perRow = width / lanes, chunks = warpRows() * perRow;
  unrolled(k, llvm::divideCeil(chunks, kWarp), "i", [&](Value i) {
    Value chunk = math.add(math.mul(i, kWarp), lane());
    Value row = k.named(math.add(warpRow, math.div(chunk, perRow)), "row");
    Value column = k.named(math.mul(math.rem(chunk, perRow), lanes), "column");
    Value inside = math.less(math.add(firstRow, row), length);
    if (chunks % kWarp)
      inside = v.bitAnd(inside, math.less(chunk, chunks));
    k.within(inside,
             [&] { store(a.load(tile, {row, column}, lanes), row, column); });
  });
}

//===----------------------------------------------------------------------===//
// FMA
//===----------------------------------------------------------------------===//

namespace {
class FmaUnit : public AttentionUnit {
public:
  static constexpr int64_t kRowLanes = 8;

  FmaUnit(AttentionCodegen &codegen, int64_t rows)
      : AttentionUnit(codegen, kRowLanes, rows, 1,
                      kVectorBytes / bytesPerElement(codegen.sumType)) {}

  void placeWeights(int64_t rows, int64_t keys) override {
    weights = makeTile(rows, keys, "weights");
  }

  void multiply(Value scores, const Rows &own, Value tile,
                Value stage) override {
    Value zero = math.constant(0);
    math.loop(zero, math.constant(own.columns), sumWidth, [&](Value d) {
      k.named(d, "d");
      SmallVector<Value> left = ofRows([&](Value row) {
        return k.named(a.load(own.tile, {rowOf(row), d}, sumWidth), "left");
      });
      unrolled(k, extentOf(scores, 2), "j", [&](Value j) {
        Value right = k.named(
            a.load(tile, {stage, columnOf(j, zero, 1), d}, sumWidth), "right");
        for (int64_t row = 0; row < rows; ++row) {
          SmallVector<Value> at = {zero, j, math.constant(row)};
          Value sum = a.load(scores, at);
          for (int64_t e = 0; e < sumWidth; ++e)
            sum = v.fma(laneOf(left[row], e), laneOf(right, e), sum);
          a.store(sum, scores, at);
        }
      });
    });
  }

  void accumulate(Value sums, Value scores, Value tile, Value stage,
                  Value firstColumn) override {
    Value zero = math.constant(0);
    cuda::SyncWarpOp::create(b, k.loc);
    eachElement(k, scores, [&](ArrayRef<Value> at) {
      a.store(a.load(scores, at), weights,
              {rowOf(at[2]), columnOf(at[1], zero, 1)});
    });
    cuda::SyncWarpOp::create(b, k.loc);
    math.loop(zero, math.constant(extentOf(tile, 2)), 1, [&](Value t) {
      k.named(t, "t");
      SmallVector<Value> left = ofRows([&](Value row) {
        return k.named(a.load(weights, {rowOf(row), t}), "weight");
      });
      unrolled(k, extentOf(sums, 2), "j", [&](Value j) {
        Value column = math.add(columnOf(j, zero, sumWidth), firstColumn);
        Value right =
            k.named(a.load(tile, {stage, t, column}, sumWidth), "right");
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t e = 0; e < sumWidth; ++e) {
            SmallVector<Value> at = {zero, zero, j,
                                     math.constant(row * sumWidth + e)};
            a.store(v.fma(left[row], laneOf(right, e), a.load(sums, at)), sums,
                    at);
          }
      });
    });
  }

private:
  Value laneOf(Value vector, int64_t e) {
    return vector::ExtractOp::create(b, k.loc, vector, e);
  }
  SmallVector<Value> ofRows(llvm::function_ref<Value(Value)> body) {
    return llvm::map_to_vector(
        llvm::seq(rows), [&](int64_t row) { return body(math.constant(row)); });
  }

  /// Probabilities in shared memory, [row][key].
  Value weights;
};

//===----------------------------------------------------------------------===//
// Tensor cores
//===----------------------------------------------------------------------===//

class MmaUnit : public AttentionUnit {
public:
  MmaUnit(AttentionCodegen &codegen, const MatrixUnit &unit, int64_t pieces)
      : AttentionUnit(codegen, 4, 2, 2, 2), mma(k, unit), weightPieces(pieces) {
  }

  void loadWords(Rows &own) override {
    int64_t steps = own.columns / mma.depth();
    own.words = k.local({own.inRegisters ? steps : 1, 1, 4}, b.getI32Type(),
                        "own_words");
    if (own.inRegisters)
      unrolled(k, steps, "step", [&](Value step) { load(own, step, step); });
  }

  void multiply(Value scores, const Rows &own, Value tile,
                Value stage) override {
    int64_t steps = own.columns / mma.depth(), count = 8 * scoreBlocks(scores),
            piece = count <= fragmentRows  ? count
                    : count % fragmentRows ? 16
                                           : fragmentRows;
    Value zero = math.constant(0);
    Value words = mma.rightFragments(piece / 8, "right_words");
    auto add = [&](Value slot, Value step) {
      Value left = slotOf(k, own.words, {slot, zero});
      unrolled(k, count / piece, "piece", [&](Value number) {
        mma.loadRight(words, {tile, true, {stage}, math.mul(number, piece)},
                      math.mul(step, mma.depth()));
        unrolled(k, piece / 8, "j", [&](Value j) {
          Value block = math.add(math.mul(number, piece / 8), j);
          mma.multiplyBlock(slotOf(k, scores, {zero, block}), left,
                            slotOf(k, words, j));
        });
      });
    };
    if (own.inRegisters)
      return unrolled(k, steps, "step", [&](Value step) { add(step, step); });
    // Not unrolled: fragments of several steps would not fit into registers.
    math.loop(math.constant(0), math.constant(steps), 1, [&](Value step) {
      k.named(step, "step");
      load(own, math.constant(0), step);
      add(math.constant(0), step);
    });
  }

  void accumulate(Value sums, Value scores, Value tile, Value stage,
                  Value firstColumn) override {
    int64_t blocks = extentOf(sums, 2);
    SmallVector<Value> left;
    for (int64_t i = 0; i < weightPieces; ++i)
      left.push_back(
          mma.leftFragments(1, i == 0 ? "weight_words" : "weight_rest"));
    Value right = mma.rightFragments(blocks, "value_words");
    unrolled(k, extentOf(tile, 2) / mma.depth(), "step", [&](Value step) {
      for (auto [i, words] : llvm::enumerate(left))
        pack(words, scores, step, i);
      unrolled(k, extentOf(sums, 4), "piece", [&](Value piece) {
        loadRows(right, tile, stage, step,
                 math.add(math.mul(piece, 8 * blocks), firstColumn));
        for (Value words : left)
          mma.multiply(slotOf(k, sums, piece), words, right);
      });
    });
  }

private:
  /// Loads the fragment of own rows at `step` along the columns.
  void load(const Rows &own, Value slot, Value step) {
    mma.loadLeft(slotOf(k, own.words, slot), {own.tile, true, {}, warpRow},
                 math.mul(step, mma.depth()));
  }

  /// Packs columns [step * depth, (step + 1) * depth) of `scores` into a left
  /// fragment; depth is an instruction's k. In 16 bits, piece n is the rounding
  /// residual of the n previous pieces.
  void pack(Value words, Value scores, Value step, int64_t piece) {
    Type element = mma.unit.elementType(b.getContext());
    int64_t each = mma.unit.perWord();
    // Words 0 and 2 (1 and 3) take a row's accumulators in order.
    Layout block = {{2, 0}, {each, 1}}, column = {{2, 1}, {each, 0}},
           pairs = {{2, each}};
    unrolled(k, 4, "word", [&](Value word) {
      Value pair = math.div(word, 2);
      Value first =
          math.add(math.mul(step, each), block.compose(pairs)(math, pair));
      Value own = math.add(math.mul(math.rem(word, 2), 2),
                           column.compose(pairs)(math, pair));
      SmallVector<Value> parts;
      for (int64_t e = 0; e < each; ++e) {
        Value sum = a.load(scores, {math.constant(0), math.add(first, block(e)),
                                    math.add(own, column(e))});
        for (int64_t before = 0; before < piece; ++before)
          sum = v.sub(
              sum, v.extendFloat(v.truncateFloat(sum, element), sum.getType()));
        parts.push_back(sum);
      }
      a.store(cuda::CallOp::create(b, k.loc, b.getI32Type(),
                                   b.getStringAttr(mma.unit.pack), parts),
              words, {math.constant(0), word});
    });
  }

  /// Loads the rows of `tile` that match a packed fragment as right fragments,
  /// for columns from `firstColumn` on.
  void loadRows(Value words, Value tile, Value stage, Value step,
                Value firstColumn) {
    WarpOperand from = {tile, /*alongDepth=*/false, {stage}, firstColumn};
    Value first = math.mul(step, mma.depth());
    if (mma.unit.perWord() == 2)
      return mma.loadRight(words, from, first);
    unrolled(k, extentOf(words, 2), "j", [&](Value j) {
      Value column = math.add(math.add(firstColumn, math.mul(j, 8)), group);
      unrolled(k, 2, "word", [&](Value word) {
        Value row = math.add(math.add(first, scorePair), word);
        a.store(mma.loadWord(from, column, row), words, {j, word});
      });
    });
  }

  WarpMma mma;
  int64_t weightPieces;
};
} // namespace

std::unique_ptr<AttentionUnit> AttentionUnit::create(AttentionCodegen &codegen,
                                                     bool isMatrixUnit,
                                                     int64_t rows,
                                                     int64_t weightPieces) {
  const AttentionProblem &problem = codegen.problem;
  Type element = getElementTypeOrSelf(problem.query);
  int64_t warps = codegen.kernel.schedule.threads / kWarp;
  std::unique_ptr<AttentionUnit> unit;
  if (isMatrixUnit) {
    // Without an additive mask the scale is folded into the exponent.
    codegen.formula.useFastPowers(
        /*scaled=*/problem.scale <= 0 || problem.addsMask());
    unit = std::make_unique<MmaUnit>(
        codegen, *mmaUnit(element, problem.compute, codegen.kernel.target),
        weightPieces);
  } else {
    unit = std::make_unique<FmaUnit>(codegen,
                                     rows / warps * FmaUnit::kRowLanes / kWarp);
  }
  unit->tileType = isMatrixUnit ? element : codegen.sumType;
  return unit;
}
