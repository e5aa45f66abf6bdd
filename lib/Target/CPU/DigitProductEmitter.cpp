//===- DigitProductEmitter.cpp - narrow weights by units for bytes --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// f32 rows times weights of 8 or 4 bits, whose unpacking would take longer than
// memory does. A row's numbers become integers, relative to the largest of
// those that share a scale of the weights, whose three bytes, the digits, a
// unit for bytes multiplies as they are. Sums over a group are exact; each goes
// into the f32 sum by one multiply-add.
//
// A number is off by up to 2^-23 of the largest of its group, where f32 is off
// by 2^-24 of itself; f32 sums lose more.
//
//===----------------------------------------------------------------------===//

#include "ContractionEmitter.h"
#include "UnitArithmetic.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;

/// Bytes that an integer is made of.
static constexpr int64_t kDigits = 3;
/// Words per four positions of a row: the digits, and one that is not read.
static constexpr int64_t kWords = 4;
/// The integer that stands for the largest number. Added to `kNoFraction`,
/// where f32 numbers are integers, it and its opposite keep that number's
/// exponent.
static constexpr float kLargest = 4190000, kNoFraction = 0x1.8p23f;
/// Numbers are no finer than those next to this magnitude.
static constexpr float kLeast = 0x1p-100f;

namespace {
class DigitProductEmitter : public ContractionEmitter {
public:
  using ContractionEmitter::ContractionEmitter;

  void prepare() override;
  void emitItem(Value item) override;

private:
  void splitRow(Value row, Value local);
  void splitGroup(Value row, Value local, Value group);
  /// The f32 factor of a group's integers, so that `kLargest` is the largest
  /// magnitude of its numbers, and what they are multiplied with before.
  std::pair<Value, Value> stepOf(Value row, Value first);
  /// The words of digits of so many numbers as lanes.
  Value digitsOf(Value numbers, Value perStep);
  SmallVector<Value> multiplyGroup(Value number, Value group, int64_t rows,
                                   int64_t vectors, ValueRange totals);
  /// Adds the products of a group to sums of `[row][vector][digit]`.
  SmallVector<Value> addProducts(Value number, Value group, int64_t rows,
                                 int64_t vectors, ValueRange sums);
  void addStep(Value number, Value step, int64_t rows, int64_t vectors,
               SmallVectorImpl<Value> &sums);
  void storePanel(Value block, Value number, int64_t used);

  Value addDotBytes(Value sum, Value bytes, Value digits);
  Value splat(Value scalar) {
    return vector::BroadcastOp::create(
        b, loc, VectorType::get({lanes}, scalar.getType()), scalar);
  }
  Value word(int64_t value) {
    return arith::ConstantOp::create(
        b, loc,
        DenseElementsAttr::get(words, b.getI32IntegerAttr(int32_t(value))));
  }
  Value number(float value) {
    return arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(numbers, b.getF32FloatAttr(value)));
  }
  /// Runs `body` on values that a loop over [0, extent) in steps carries.
  SmallVector<Value>
  carry(int64_t extent, int64_t step, ValueRange values,
        llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body);
  SmallVector<Value> rowIndices(Value row) {
    return math.delinearize(row, shape.rowShape);
  }

  const ProductShape &shape = contraction.product;
  DequantizeOp narrow = contraction.narrow;
  int64_t group = narrow.getGroup(), groups = shape.depth / group;
  /// Positions that a load of a panel's bytes has of each column.
  int64_t loaded = narrow.getDepth() * (narrow.getNibbles() ? 2 : 1);
  VectorType words = VectorType::get({lanes}, b.getI32Type()),
             numbers = VectorType::get({lanes}, b.getF32Type());
  RowSplit split{shape.m, blocks.getRows()};
  int64_t blocksPerItem = perItem(blocks.getBlocksPerItem(), split.blocks);
  int64_t rowGroups = llvm::divideCeil(split.blocks, blocksPerItem);
  /// Of the rows of a block: words of digits `[row][depth / 4][kWords]`, what
  /// sums of each group begin with so that its zero point is taken off exactly,
  /// `[row][group][kWords]`, and the factors of groups `[row][group]`.
  Value digits, offsets, factors;
};
} // namespace

void DigitProductEmitter::prepare() {
  items = rowGroups * panelGroups;
  cyclesPerItem = cyclesOf(2.0 * shape.m * panels * columns * shape.depth);
  int64_t rows = split.largest();
  digits = area(rows * shape.depth, b.getI32Type());
  offsets = area(rows * groups * kWords, b.getI32Type());
  factors = area(rows * groups, sumType);
  panel.memory = inPlace(contraction.stored(), contraction.panelType());
  prepareSums(rows * columns, 1);
}

void DigitProductEmitter::emitItem(Value item) {
  SmallVector<Value> position =
      math.delinearize(item, {panelGroups, rowGroups});
  Range itemPanels = groupOf(position[0], panelsPerItem, panels);
  Range itemBlocks = groupOf(position[1], blocksPerItem, split.blocks);
  math.loop(itemBlocks.begin, itemBlocks.end, 1, [&](Value block) {
    BlockRows rows(math, split, block);
    math.loop(math.constant(0), rows.count(), 1, [&](Value local) {
      splitRow(math.add(rows.first(), local), local);
    });
    math.loop(itemPanels.begin, itemPanels.end, 1, [&](Value number) {
      withColumns(number,
                  [&](int64_t used) { storePanel(block, number, used); });
    });
  });
}

SmallVector<Value> DigitProductEmitter::carry(
    int64_t extent, int64_t step, ValueRange values,
    llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  if (extent == step)
    return body(math.constant(0), values);
  auto loop =
      scf::ForOp::create(b, loc, math.constant(0), math.constant(extent),
                         math.constant(step), values);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  scf::YieldOp::create(b, loc,
                       body(loop.getInductionVar(), loop.getRegionIterArgs()));
  return SmallVector<Value>(loop.getResults());
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void DigitProductEmitter::splitRow(Value row, Value local) {
  math.loop(math.constant(0), math.constant(groups), 1,
            [&](Value number) { splitGroup(row, local, number); });
}

std::pair<Value, Value> DigitProductEmitter::stepOf(Value row, Value first) {
  // Magnitudes are ordered as their bits are, and what is no number is the
  // largest.
  Value least = word(llvm::bit_cast<int32_t>(kLeast));
  Value largest = carry(group, lanes, least, [&](Value k, ValueRange before) {
                    SmallVector<Value> at = rowIndices(row);
                    at.push_back(math.add(first, k));
                    Value bits = arith::BitcastOp::create(
                        b, loc, words, load(contraction.lhs(), at, lanes));
                    bits =
                        arith::AndIOp::create(b, loc, bits, word(0x7fffffff));
                    return SmallVector<Value>{
                        arith::MaxUIOp::create(b, loc, before.front(), bits)};
                  }).front();
  Value bits = vector::ReductionOp::create(b, loc, vector::CombiningKind::MAXUI,
                                           largest);
  Value magnitude = arith::BitcastOp::create(b, loc, sumType, bits);
  Value most = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(kLargest));
  return {arith::DivFOp::create(b, loc, magnitude, most),
          arith::DivFOp::create(b, loc, most, magnitude)};
}

Value DigitProductEmitter::digitsOf(Value values, Value perStep) {
  Value rounded =
      math::FmaOp::create(b, loc, values, perStep, number(kNoFraction));
  Value integers = arith::SubIOp::create(
      b, loc, arith::BitcastOp::create(b, loc, words, rounded),
      word(llvm::bit_cast<int32_t>(kNoFraction)));
  // Half of a byte's range added to each and taken off again gives them signs.
  Value bias = word(0x808080);
  Value biased = arith::AddIOp::create(b, loc, integers, bias);
  biased = arith::XOrIOp::create(b, loc, biased, bias);
  // Bytes of equal weight of four positions go into a word.
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < 4 * lanes; ++i)
    order.push_back(i / 16 * 16 + i % 4 * 4 + i / 4 % 4);
  auto bytes = VectorType::get({4 * lanes}, b.getI8Type());
  Value joined = vector::BitCastOp::create(b, loc, bytes, biased);
  joined = vector::ShuffleOp::create(b, loc, joined, joined, order);
  return vector::BitCastOp::create(b, loc, words, joined);
}

void DigitProductEmitter::splitGroup(Value row, Value local, Value number) {
  Value first = math.mul(number, group);
  auto [factor, perStep] = stepOf(row, first);
  Value place = math.add(math.mul(local, groups), number);
  memref::StoreOp::create(b, loc, factor, factors, place);
  Value spread = splat(perStep);
  Value sums =
      carry(group, lanes, word(0), [&](Value k, ValueRange before) {
        SmallVector<Value> at = rowIndices(row);
        at.push_back(math.add(first, k));
        Value split = digitsOf(load(contraction.lhs(), at, lanes), spread);
        vector::StoreOp::create(
            b, loc, split, digits,
            math.add(math.add(math.mul(local, shape.depth), first), k));
        return SmallVector<Value>{
            addDotBytes(before.front(), word(0x01010101), split)};
      }).front();
  for (int64_t width = lanes; width > kWords; width /= 2) {
    auto half = [&](int64_t from) -> Value {
      return vector::ShuffleOp::create(
          b, loc, sums, sums,
          llvm::to_vector(llvm::seq<int64_t>(from, from + width / 2)));
    };
    Value low = half(0), high = half(width / 2);
    sums = arith::AddIOp::create(b, loc, low, high);
  }
  // What a zero point takes off, once for all panels where it is one for all.
  int64_t zero = narrow.getZero() ? 1 : narrow.getCommonZero();
  auto type = cast<VectorType>(sums.getType());
  sums = arith::MulIOp::create(
      b, loc, sums,
      arith::ConstantOp::create(
          b, loc,
          DenseElementsAttr::get(type, b.getI32IntegerAttr(int32_t(-zero)))));
  vector::StoreOp::create(b, loc, sums, offsets, math.mul(place, kWords));
}

//===----------------------------------------------------------------------===//
// Panels
//===----------------------------------------------------------------------===//

Value DigitProductEmitter::addDotBytes(Value sum, Value bytes, Value split) {
  if (contraction.target.emulatesUnits())
    return addDots(b, loc, bytes, split, sum, 8,
                   {/*rows=*/false, /*columns=*/true});
  auto type = VectorType::get({4 * lanes}, b.getI8Type());
  return LLVM::CallIntrinsicOp::create(
             b, loc, words,
             b.getStringAttr(lanes == 16 ? "llvm.x86.avx512.vpdpbusd.512"
                                         : "llvm.x86.avx512.vpdpbusd.256"),
             ValueRange{sum, vector::BitCastOp::create(b, loc, type, bytes),
                        vector::BitCastOp::create(b, loc, type, split)})
      .getResult(0);
}

void DigitProductEmitter::addStep(Value number, Value step, int64_t rows,
                                  int64_t vectors,
                                  SmallVectorImpl<Value> &sums) {
  // `step` counts loads of a panel; `loaded` positions of a row stand for it.
  Value line = math.add(math.mul(number, shape.depth / loaded), step);
  int64_t depth = narrow.getDepth();
  auto bytes = VectorType::get({4 * lanes}, b.getI8Type());
  SmallVector<SmallVector<Value>> halves(loaded / depth);
  for (int64_t v = 0; v < vectors; ++v) {
    Value packed = vector::LoadOp::create(
        b, loc, bytes, panel.memory,
        math.add(math.mul(line, depth * columns), depth * v * lanes));
    packed = vector::BitCastOp::create(b, loc, words, packed);
    if (!narrow.getNibbles()) {
      halves.front().push_back(packed);
      continue;
    }
    Value low = word(0x0f0f0f0f);
    halves[0].push_back(arith::AndIOp::create(b, loc, packed, low));
    Value upper = arith::ShRUIOp::create(b, loc, packed, word(4));
    halves[1].push_back(arith::AndIOp::create(b, loc, upper, low));
  }
  for (auto [half, columnsOfHalf] : llvm::enumerate(halves))
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t d = 0; d < kDigits; ++d) {
        Value at = math.add(math.mul(step, loaded),
                            r * shape.depth + int64_t(half) * kWords + d);
        Value digit = splat(memref::LoadOp::create(b, loc, digits, at));
        for (int64_t v = 0; v < vectors; ++v) {
          Value &sum = sums[(r * vectors + v) * kDigits + d];
          sum = addDotBytes(sum, columnsOfHalf[v], digit);
        }
      }
}

SmallVector<Value> DigitProductEmitter::addProducts(Value number, Value group,
                                                    int64_t rows,
                                                    int64_t vectors,
                                                    ValueRange sums) {
  // Small blocks take turns often; more code only takes long to compile.
  constexpr int64_t kMostUnrolled = 32;
  int64_t steps = this->group / loaded, unroll = steps;
  while (unroll > 1 &&
         (unroll * rows * vectors > kMostUnrolled || steps % unroll))
    --unroll;
  Value first = math.mul(group, steps);
  return carry(steps, unroll, sums, [&](Value step, ValueRange before) {
    SmallVector<Value> values(before);
    for (int64_t i = 0; i < unroll; ++i)
      addStep(number, math.add(math.add(first, step), i), rows, vectors,
              values);
    return values;
  });
}

SmallVector<Value> DigitProductEmitter::multiplyGroup(Value number, Value group,
                                                      int64_t rows,
                                                      int64_t vectors,
                                                      ValueRange totals) {
  SmallVector<Value> zeros, sums;
  if (narrow.getZero())
    zeros = loadOfGroup(narrow.getZero(), group, vectors, b.getI32Type());
  auto placeOf = [&](int64_t r) { return math.add(group, r * groups); };
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < vectors; ++v)
      for (int64_t d = 0; d < kDigits; ++d) {
        Value sum = splat(memref::LoadOp::create(
            b, loc, offsets, math.add(math.mul(placeOf(r), kWords), d)));
        if (narrow.getZero())
          sum = arith::MulIOp::create(b, loc, sum, zeros[v]);
        sums.push_back(sum);
      }
  sums = addProducts(number, group, rows, vectors, sums);
  SmallVector<Value> scales =
      loadOfGroup(narrow.getScale(), group, vectors, sumType);
  SmallVector<Value> results;
  for (int64_t r = 0; r < rows; ++r) {
    Value factor = splat(memref::LoadOp::create(b, loc, factors, placeOf(r)));
    for (int64_t v = 0; v < vectors; ++v) {
      Value product;
      for (int64_t d = kDigits; d-- > 0;) {
        Value digit = arith::SIToFPOp::create(
            b, loc, numbers, sums[(r * vectors + v) * kDigits + d]);
        product = product ? Value(math::FmaOp::create(b, loc, product,
                                                      this->number(256), digit))
                          : digit;
      }
      Value scale = arith::MulFOp::create(b, loc, factor, scales[v]);
      results.push_back(
          math::FmaOp::create(b, loc, product, scale, totals[r * vectors + v]));
    }
  }
  return results;
}

void DigitProductEmitter::storePanel(Value block, Value number, int64_t used) {
  BlockRows blockRows(math, split, block);
  int64_t vectors = llvm::divideCeil(used, lanes);
  panel.number = number;
  blockRows.with([&](int64_t rows) {
    SmallVector<Value> totals(rows * vectors, this->number(0));
    totals = carry(groups, 1, totals, [&](Value group, ValueRange before) {
      return multiplyGroup(number, group, rows, vectors, before);
    });
    mpc::storeSums(b, loc, blockOf(SmallVector<int64_t>(rows, 0), vectors),
                   totals, sumsOfTile(), columns, math.constant(0));
  });
  auto indices = [&](Value r) {
    return rowIndices(math.add(blockRows.first(), r));
  };
  auto result = cast<RankedTensorType>(contraction.op->getResult(0).getType());
  storeSums(math.constant(0), blockRows.count(), indices, result.getRank() - 1,
            math.mul(number, columns), used);
}

FailureOr<int64_t> mpc::emitDigitProduct(const ContractionKernel &kernel) {
  return DigitProductEmitter(kernel).run();
}
