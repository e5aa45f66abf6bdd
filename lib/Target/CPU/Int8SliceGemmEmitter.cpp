//===- Int8SliceGemmEmitter.cpp - quantized GEMM on int8 units ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Int8SliceGemmEmitter.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;

/// Number of int8 slices of the second integer. The first has 3, which
/// represent all 16-bit operands down to 2^-14 (bf16) or 2^-11 (f16) of the
/// largest in a segment. Other f32 operands need 3 more (exact down to 2^-21),
/// with int4 weights 2 more (2^-14), because the unit is slower than memory
/// there.
static int64_t fineDigits(DequantizeOp narrow) {
  if (!getElementTypeOrSelf(narrow.getResult()).isF32())
    return 0;
  return narrow.getNibbles() ? 2 : 3;
}

/// Prefetch distance in a panel of int4 weights, in bytes. Unpacking them takes
/// so long that the hardware prefetcher falls short; it keeps up with int8
/// weights, whose stream software prefetches would only disturb.
static constexpr int64_t kAhead = 12288;

/// Maximum density of nonzero words in the last slice, one in this many: a
/// listed (sparse) word costs several times as much as a dense one.
static constexpr int64_t kWordsPerListed = 8;

/// Returns the largest divisor of `extent` that is a multiple of `unit`, up to
/// a limit at which the slices' integer sums are exact in f32.
static int64_t longestPart(int64_t extent, int64_t unit) {
  constexpr int64_t kMost = 256;
  int64_t length = std::max(std::min(extent, kMost) / unit * unit, unit);
  while (extent % length)
    length -= unit;
  return length;
}

int64_t Int8SliceGemmEmitter::sumsOfRow(DequantizeOp narrow) {
  return 3 + fineDigits(narrow);
}

Int8SliceGemmEmitter::Int8SliceGemmEmitter(const ContractionKernel &kernel)
    : ContractionEmitter(kernel), shape(contraction.product),
      narrow(contraction.narrow), length(longestPart(narrow.getGroup(), 16)),
      span(longestPart(shape.depth, length)), segments(shape.depth / length),
      loaded(narrow.getDepth() * (narrow.getNibbles() ? 2 : 1)),
      digits{3, fineDigits(narrow)}, finer(digits[1] == 3 ? 0x1p22f : 0x1p15f),
      mostListed(length / kWords / kWordsPerListed),
      words(VectorType::get({lanes}, b.getI32Type())),
      numbers(VectorType::get({lanes}, b.getF32Type())),
      split(shape.m, blocks.getRows()),
      blocksPerItem(perItem(blocks.getBlocksPerItem(), split.blocks)),
      rowGroups(llvm::divideCeil(split.blocks, blocksPerItem)) {}

void Int8SliceGemmEmitter::prepare() {
  items = rowGroups * panelGroups;
  cyclesPerItem = cyclesOf(2.0 * shape.m * panels * columns * shape.depth);
  int64_t rows = split.largest();
  rowNumbers = area(rows * shape.depth, sumType);
  for (int i : integers()) {
    rowDigits[i] = area(rows * shape.depth, b.getI32Type());
    offsets[i] = area(rows * segments * kWords, b.getI32Type());
  }
  steps = area(rows * segments, sumType);
  states = area(rows * segments, b.getI32Type());
  listPlaces = area(rows * shape.depth / kWords, b.getI32Type());
  listWords = area(rows * shape.depth / kWords, b.getI32Type());
  panel.memory = inPlace(contraction.stored(), contraction.panelType());
  prepareSums(rows * columns, 1);
  if (split.blocks == 1)
    splitRows(BlockRows(math, split, math.constant(0)));
}

void Int8SliceGemmEmitter::emitItem(Value item) {
  SmallVector<Value> position =
      math.delinearize(item, {panelGroups, rowGroups});
  Range itemPanels = groupOf(position[0], panelsPerItem, panels);
  Range itemBlocks = groupOf(position[1], blocksPerItem, split.blocks);
  math.loop(itemBlocks.begin, itemBlocks.end, 1, [&](Value block) {
    if (split.blocks > 1)
      splitRows(BlockRows(math, split, block));
    math.loop(itemPanels.begin, itemPanels.end, 1, [&](Value number) {
      withColumns(number,
                  [&](int64_t used) { storePanel(block, number, used); });
    });
  });
}

void Int8SliceGemmEmitter::storePanel(Value block, Value number, int64_t used) {
  BlockRows blockRows(math, split, block);
  int64_t vectors = llvm::divideCeil(used, lanes);
  panel.number = number;
  blockRows.with([&](int64_t rows) {
    Values totals(rows * vectors, this->number(0));
    totals = carry(segments, 1, totals, [&](Value segment, ValueRange before) {
      return multiplySegment(segment, rows, vectors, before);
    });
    mpc::storeSums(b, loc, blockOf(SmallVector<int64_t>(rows, 0), vectors),
                   totals, sumsOfTile(), columns, math.constant(0));
  });
  auto indices = [&](Value r) {
    return math.delinearize(math.add(blockRows.first(), r), shape.rowShape);
  };
  auto result = cast<RankedTensorType>(contraction.op->getResult(0).getType());
  storeSums(math.constant(0), blockRows.count(), indices, result.getRank() - 1,
            math.mul(number, columns), used);
}

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

Int8SliceGemmEmitter::Values
Int8SliceGemmEmitter::multiplySegment(Value segment, int64_t rows,
                                      int64_t vectors, ValueRange totals) {
  Value group = narrowGroupOf(math.mul(segment, length));
  Values zeros;
  if (narrow.getZero())
    zeros = loadOfGroup(narrow.getZero(), group, vectors, b.getI32Type());
  Value worst;
  Values ofRows;
  for (int64_t r = 0; r < rows; ++r) {
    Value state =
        memref::LoadOp::create(b, loc, states, math.add(segment, r * segments));
    worst = worst ? Value(arith::MaxUIOp::create(b, loc, worst, state)) : state;
    ofRows.push_back(state);
  }
  auto isAtMost = [&](Value state, State most) -> Value {
    return arith::CmpIOp::create(
        b, loc, arith::CmpIPredicate::ule, state,
        arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(most)));
  };
  auto branch = [&](Value condition, llvm::function_ref<Values()> then,
                    llvm::function_ref<Values()> otherwise) {
    auto made =
        scf::IfOp::create(b, loc, SmallVector<Type>(rows * vectors, numbers),
                          condition, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(made.thenBlock());
    scf::YieldOp::create(b, loc, then());
    b.setInsertionPointToStart(made.elseBlock());
    scf::YieldOp::create(b, loc, otherwise());
    return Values(made.getResults());
  };
  Values scales = loadOfGroup(narrow.getScale(), group, vectors, sumType);
  auto ofDigits = [&](bool listed) {
    return multiplyDigits(segment, rows, vectors, zeros, scales, totals,
                          listed);
  };
  auto ofNumbers = [&] {
    Values sums =
        multiplyNumbers(segment, rows, vectors, zeros, scales, totals);
    // A row's result must not depend on the rows in the same block.
    if (rows > 1)
      for (auto [i, sum] : llvm::enumerate(ofDigits(/*listed=*/false)))
        sums[i] = arith::SelectOp::create(
            b, loc, isAtMost(ofRows[i / vectors], Whole), sum, sums[i]);
    return sums;
  };
  return branch(
      isAtMost(worst, Listed), [&] { return ofDigits(/*listed=*/true); },
      [&] {
        return branch(
            isAtMost(worst, Whole), [&] { return ofDigits(/*listed=*/false); },
            ofNumbers);
      });
}

Int8SliceGemmEmitter::Values Int8SliceGemmEmitter::multiplyDigits(
    Value segment, int64_t rows, int64_t vectors, ValueRange zeros,
    ValueRange scales, ValueRange totals, bool listed) {
  Values sums;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < vectors; ++v)
      for (int i : integers())
        for (int64_t d = 0; d < digits[i]; ++d) {
          Value place = math.add(segment, r * segments);
          Value sum = splat(memref::LoadOp::create(
              b, loc, offsets[i], math.add(math.mul(place, kWords), d)));
          if (!zeros.empty())
            sum = arith::MulIOp::create(b, loc, sum, zeros[v]);
          sums.push_back(sum);
        }

  // More unrolling only increases compile time.
  constexpr int64_t kMostUnrolled = 16;
  int64_t all = digits[0] + digits[1], lastOfAll = last() ? digits[0] : 0;
  sums = carryLoads(
      segment, kMostUnrolled / (rows * vectors), sums,
      [&](Value load, ValueRange before) {
        Values next(before);
        for (auto [half, ofVectors] : llvm::enumerate(loadWords(load, vectors)))
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t d = 0; d < all; ++d) {
              if (listed && d == lastOfAll)
                continue;
              bool isFine = d >= digits[0];
              Value at = math.add(math.mul(load, loaded),
                                  r * shape.depth + int64_t(half) * kWords +
                                      (isFine ? d - digits[0] : d));
              Value digit =
                  splat(memref::LoadOp::create(b, loc, rowDigits[isFine], at));
              for (int64_t v = 0; v < vectors; ++v) {
                Value &sum = next[(r * vectors + v) * all + d];
                sum = addDotBytes(sum, ofVectors[v], digit);
              }
            }
        return next;
      });

  if (listed) {
    Values ofLast;
    for (int64_t i = 0; i < rows * vectors; ++i)
      ofLast.push_back(sums[i * all + lastOfAll]);
    addListed(segment, rows, vectors, ofLast);
    for (auto [i, sum] : llvm::enumerate(ofLast))
      sums[i * all + lastOfAll] = sum;
  }

  // Multiply integers by the weights' scale first, then by their own step: in
  // the other order large numbers would overflow before they are scaled down.
  Values results, smallScales;
  for (Value scale : scales)
    smallScales.push_back(
        arith::MulFOp::create(b, loc, scale, number(1 / kLargerSteps)));
  for (int64_t i = 0; i < rows * vectors; ++i) {
    ValueRange own = ValueRange(sums).slice(i * all, all);
    Value whole = numberOf(own.take_front(digits[0]));
    if (digits[1])
      whole = math::FmaOp::create(b, loc, numberOf(own.drop_front(digits[0])),
                                  number(1 / finer), whole);
    Value step = splat(memref::LoadOp::create(
        b, loc, steps, math.add(segment, i / vectors * segments)));
    whole = arith::MulFOp::create(b, loc, whole, smallScales[i % vectors]);
    results.push_back(math::FmaOp::create(b, loc, whole, step, totals[i]));
  }
  return results;
}

void Int8SliceGemmEmitter::addListed(Value segment, int64_t rows,
                                     int64_t vectors,
                                     MutableArrayRef<Value> sums) {
  int64_t ofLoad = loaded / kWords;
  Value first = math.mul(segment, length / loaded);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < mostListed; ++i) {
      Value at = math.add(math.mul(segment, length / kWords),
                          r * shape.depth / kWords + i);
      Value place = arith::IndexCastOp::create(
          b, loc, b.getIndexType(),
          memref::LoadOp::create(b, loc, listPlaces, at));
      Value digits = splat(memref::LoadOp::create(b, loc, listWords, at));
      Value load = math.add(first, math.div(place, ofLoad));
      for (int64_t v = 0; v < vectors; ++v) {
        Value bytes = loadPacked(placeOf(load, v));
        if (narrow.getNibbles()) {
          Value down = arith::IndexCastOp::create(
              b, loc, b.getI32Type(), math.mul(math.rem(place, ofLoad), 4));
          bytes = arith::ShRUIOp::create(b, loc, bytes, splat(down));
          bytes = arith::AndIOp::create(b, loc, bytes, word(0x0f0f0f0f));
        }
        Value &sum = sums[r * vectors + v];
        sum = addDotBytes(sum, bytes, digits);
      }
    }
}

Int8SliceGemmEmitter::Values
Int8SliceGemmEmitter::multiplyNumbers(Value segment, int64_t rows,
                                      int64_t vectors, ValueRange zeros,
                                      ValueRange scales, ValueRange totals) {
  Values sums(rows * vectors, number(0));
  sums = carryLoads(segment, 1, sums, [&](Value load, ValueRange before) {
    Values next(before);
    for (auto [half, ofVectors] : llvm::enumerate(loadWords(load, vectors)))
      for (int64_t k = 0; k < kWords; ++k) {
        Values weights;
        for (int64_t v = 0; v < vectors; ++v) {
          Value byte =
              arith::ShRUIOp::create(b, loc, ofVectors[v], word(8 * k));
          byte = arith::AndIOp::create(b, loc, byte, word(0xff));
          Value zero = zeros.empty() ? word(narrow.getCommonZero()) : zeros[v];
          byte = arith::SubIOp::create(b, loc, byte, zero);
          Value weight = arith::SIToFPOp::create(b, loc, numbers, byte);
          weights.push_back(arith::MulFOp::create(b, loc, weight, scales[v]));
        }
        for (int64_t r = 0; r < rows; ++r) {
          Value at = math.add(math.mul(load, loaded),
                              r * shape.depth + int64_t(half) * kWords + k);
          Value factor = splat(memref::LoadOp::create(b, loc, rowNumbers, at));
          for (int64_t v = 0; v < vectors; ++v) {
            Value &sum = next[r * vectors + v];
            sum = math::FmaOp::create(b, loc, factor, weights[v], sum);
          }
        }
      }
    return next;
  });
  for (auto [sum, total] : llvm::zip_equal(sums, totals))
    sum = arith::AddFOp::create(b, loc, sum, total);
  return sums;
}

Int8SliceGemmEmitter::Values Int8SliceGemmEmitter::carryLoads(Value segment,
                                                              int64_t together,
                                                              ValueRange sums,
                                                              Body body) {
  int64_t loads = length / loaded;
  int64_t unroll = std::clamp<int64_t>(together, 1, loads);
  while (loads % unroll)
    --unroll;
  Value first = math.mul(segment, loads);
  return carry(loads, unroll, sums, [&](Value load, ValueRange before) {
    Values values(before);
    for (int64_t i = 0; i < unroll; ++i)
      values = body(math.add(math.add(first, load), i), values);
    return values;
  });
}

Value Int8SliceGemmEmitter::placeOf(Value load, int64_t vector) {
  Value line = math.add(math.mul(panel.number, shape.depth / loaded), load);
  int64_t depth = narrow.getDepth();
  return math.add(math.mul(line, depth * columns), depth * vector * lanes);
}

Value Int8SliceGemmEmitter::loadPacked(Value at) {
  auto bytes = VectorType::get({4 * lanes}, b.getI8Type());
  Value packed = vector::LoadOp::create(b, loc, bytes, panel.memory, at);
  return vector::BitCastOp::create(b, loc, words, packed);
}

SmallVector<Int8SliceGemmEmitter::Values>
Int8SliceGemmEmitter::loadWords(Value load, int64_t vectors) {
  SmallVector<Values> halves(loaded / narrow.getDepth());
  for (int64_t v = 0; v < vectors; ++v) {
    Value at = placeOf(load, v);
    if (narrow.getNibbles())
      fetch(panel.memory, math.add(at, kAhead), 4 * lanes, Cache::Second);
    Value packed = loadPacked(at);
    if (!narrow.getNibbles()) {
      halves.front().push_back(packed);
      continue;
    }
    Value low = word(0x0f0f0f0f);
    halves[0].push_back(arith::AndIOp::create(b, loc, packed, low));
    Value upper = arith::ShRUIOp::create(b, loc, packed, word(4));
    halves[1].push_back(arith::AndIOp::create(b, loc, upper, low));
  }
  return halves;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

bool Int8SliceGemmEmitter::isWord() {
  int64_t levels = narrow.getNibbles() ? 15 : 255;
  return length * levels << kLargestBits <= INT32_MAX;
}

Value Int8SliceGemmEmitter::numberOf(ValueRange sums) {
  Value whole;
  for (Value sum : llvm::reverse(sums)) {
    if (isWord()) {
      if (whole)
        sum = arith::AddIOp::create(
            b, loc, arith::ShLIOp::create(b, loc, whole, word(8)), sum);
      whole = sum;
      continue;
    }
    Value digit = arith::SIToFPOp::create(b, loc, numbers, sum);
    whole = whole
                ? Value(math::FmaOp::create(b, loc, whole, number(256), digit))
                : digit;
  }
  return isWord() ? arith::SIToFPOp::create(b, loc, numbers, whole) : whole;
}

Value Int8SliceGemmEmitter::addDotBytes(Value sum, Value bytes, Value split) {
  return mpc::addDotBytes(b, loc, sum, bytes, split,
                          contraction.target.emulatesUnits());
}

Value Int8SliceGemmEmitter::splat(Value scalar) {
  return vector::BroadcastOp::create(
      b, loc, VectorType::get({lanes}, scalar.getType()), scalar);
}

Value Int8SliceGemmEmitter::word(int64_t value) {
  return arith::ConstantOp::create(
      b, loc,
      DenseElementsAttr::get(words, b.getI32IntegerAttr(int32_t(value))));
}

Value Int8SliceGemmEmitter::number(float value) {
  return arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(numbers, b.getF32FloatAttr(value)));
}

Int8SliceGemmEmitter::Values Int8SliceGemmEmitter::carry(int64_t extent,
                                                         int64_t step,
                                                         ValueRange values,
                                                         Body body) {
  if (extent == step)
    return body(math.constant(0), values);
  auto loop =
      scf::ForOp::create(b, loc, math.constant(0), math.constant(extent),
                         math.constant(step), values);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  scf::YieldOp::create(b, loc,
                       body(loop.getInductionVar(), loop.getRegionIterArgs()));
  return Values(loop.getResults());
}

FailureOr<int64_t> mpc::emitInt8SliceGemm(const ContractionKernel &kernel) {
  return Int8SliceGemmEmitter(kernel).run();
}
