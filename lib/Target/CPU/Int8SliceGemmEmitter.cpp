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
using namespace mpc::cpu;

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
    cpu::storeSums(b, loc, blockOf(SmallVector<int64_t>(rows, 0), vectors),
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
  return cpu::addDotBytes(b, loc, sum, bytes, split,
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

FailureOr<int64_t> cpu::emitInt8SliceGemm(const ContractionKernel &kernel) {
  return Int8SliceGemmEmitter(kernel).run();
}

//===----------------------------------------------------------------------===//
// Slices of f32 rows
//
// A number x of a span whose largest has the exponent e is, as a multiple of
// the step 2^(e - 21), q + r: the nearest integer and a remainder of at most
// one half. r is in turn rounded to the next multiple of 2^-15 or 2^-22. All
// three are exact in f32; if no number leaves a remainder, the integers
// represent them exactly. Numbers that were 16 bits may have no remainder after
// q.
//===----------------------------------------------------------------------===//

/// The largest integer is so small that, added to `kNoFraction`, where f32
/// numbers are integers, it and its negative stay in one binade.
static constexpr float kNoFraction = 0x1.8p23f;
/// Biased exponents of f32: of 1, of the largest finite numbers, and of those
/// whose step is the smallest normal number.
static constexpr int kBias = 127, kMostExponent = 254,
                     kLeastExponent = Int8SliceGemmEmitter::kLargestBits;

void Int8SliceGemmEmitter::splitRows(const BlockRows &rows) {
  math.loop(math.constant(0), rows.count(), 1, [&](Value local) {
    splitRow(math.add(rows.first(), local), local);
  });
}

void Int8SliceGemmEmitter::splitRow(Value row, Value local) {
  SmallVector<Value> at = math.delinearize(row, shape.rowShape);
  at.push_back(Value());
  Value begin = math.mul(local, shape.depth);
  math.loop(
      math.constant(0), math.constant(shape.depth / span), 1,
      [&](Value number) {
        Value first = math.mul(number, span);
        // Magnitudes are ordered like their bits.
        Value largest =
            carry(span, lanes, word(0), [&](Value k, ValueRange before) {
              at.back() = math.add(first, k);
              Value values = load(contraction.lhs(), at, lanes);
              vector::StoreOp::create(b, loc, values, rowNumbers,
                                      math.add(begin, at.back()));
              Value bits = arith::BitcastOp::create(b, loc, words, values);
              bits = arith::AndIOp::create(b, loc, bits, word(0x7fffffff));
              return Values{
                  arith::MaxUIOp::create(b, loc, before.front(), bits)};
            }).front();
        auto [step, perStep] = stepOf(largest);
        Value segment = math.mul(number, span / length);
        math.loop(
            segment, math.add(segment, span / length), 1,
            [&](Value each) { splitSegment(local, each, step, perStep); });
      });
}

std::pair<Value, Value> Int8SliceGemmEmitter::stepOf(Value largest) {
  Value bits = vector::ReductionOp::create(b, loc, vector::CombiningKind::MAXUI,
                                           largest);
  auto integer = [&](int value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
  };
  constexpr int kMantissaBits = 23;
  Value exponent = arith::ShRUIOp::create(b, loc, bits, integer(kMantissaBits));
  // Infinities and NaN are later found not to be integers, like numbers far
  // below the smallest step.
  exponent = arith::MaxUIOp::create(b, loc, exponent, integer(kLeastExponent));
  exponent = arith::MinUIOp::create(b, loc, exponent, integer(kMostExponent));
  auto powerOf = [&](Value biased) -> Value {
    biased = arith::ShLIOp::create(b, loc, biased, integer(kMantissaBits));
    return arith::BitcastOp::create(b, loc, sumType, biased);
  };
  constexpr int kDown = kLargestBits - 1;
  Value step = arith::SubIOp::create(b, loc, exponent, integer(kDown));
  Value perStep =
      arith::SubIOp::create(b, loc, integer(2 * kBias + kDown), exponent);
  return {powerOf(step), powerOf(perStep)};
}

std::pair<Value, Value> Int8SliceGemmEmitter::rounded(Value values) {
  Value noFraction = number(kNoFraction);
  Value shifted = arith::AddFOp::create(b, loc, values, noFraction);
  Value bits = arith::SubIOp::create(
      b, loc, arith::BitcastOp::create(b, loc, words, shifted),
      word(llvm::bit_cast<int32_t>(kNoFraction)));
  return {bits, arith::SubFOp::create(b, loc, shifted, noFraction)};
}

Value Int8SliceGemmEmitter::digitsOf(Value integers) {
  // Adding half of a byte's range to each and subtracting it again makes the
  // bytes signed.
  Value bias = word(0x808080);
  Value biased = arith::AddIOp::create(b, loc, integers, bias);
  biased = arith::XOrIOp::create(b, loc, biased, bias);
  // Combine bytes of equal significance of four positions into a word.
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < 4 * lanes; ++i)
    order.push_back(i / 16 * 16 + i % 4 * 4 + i / 4 % 4);
  auto bytes = VectorType::get({4 * lanes}, b.getI8Type());
  Value joined = vector::BitCastOp::create(b, loc, bytes, biased);
  joined = vector::ShuffleOp::create(b, loc, joined, joined, order);
  return vector::BitCastOp::create(b, loc, words, joined);
}

void Int8SliceGemmEmitter::splitSegment(Value local, Value segment, Value step,
                                        Value perStep) {
  Value place = math.add(math.mul(local, segments), segment);
  Value first =
      math.add(math.mul(local, shape.depth), math.mul(segment, length));
  Value larger = arith::ConstantOp::create(
      b, loc, b.getF32FloatAttr(Int8SliceGemmEmitter::kLargerSteps));
  memref::StoreOp::create(b, loc, arith::MulFOp::create(b, loc, step, larger),
                          steps, place);
  Value down = splat(step), up = splat(perStep);

  // The sums of each integer's slices, then whether some number is inexact.
  size_t count = integers().size();
  Values begins(count, word(0));
  auto flags = VectorType::get({lanes}, b.getI1Type());
  begins.push_back(
      arith::ConstantOp::create(b, loc, flags, b.getZeroAttr(flags)));
  Values sums = carry(length, lanes, begins, [&](Value k, ValueRange before) {
    Value at = math.add(first, k);
    Value values = vector::LoadOp::create(b, loc, numbers, rowNumbers, at);
    Value scaled = arith::MulFOp::create(b, loc, values, up);
    auto [coarse, whole] = rounded(scaled);
    Values parts = {coarse};
    Value left = scaled, taken = whole;
    if (count == 2) {
      left = arith::SubFOp::create(b, loc, scaled, whole);
      left = arith::MulFOp::create(b, loc, left, number(finer));
      auto [fine, wholeRest] = rounded(left);
      parts.push_back(fine);
      taken = wholeRest;
    }
    // A product may have underflowed; NaN differs from everything.
    Value isLost = arith::CmpFOp::create(
        b, loc, arith::CmpFPredicate::UNE,
        arith::MulFOp::create(b, loc, scaled, down), values);
    Value isLeft =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, left, taken);
    // An infinity is a multiple of every step.
    Value isInfinite = arith::CmpFOp::create(
        b, loc, arith::CmpFPredicate::UGT, math::AbsFOp::create(b, loc, scaled),
        number(1 << kLargestBits));
    Value isOff = arith::OrIOp::create(b, loc, isLost, isLeft);
    isOff = arith::OrIOp::create(b, loc, isOff, isInfinite);
    Values next;
    for (auto [i, part] : llvm::enumerate(parts)) {
      Value split = digitsOf(part);
      vector::StoreOp::create(b, loc, split, rowDigits[i], at);
      next.push_back(addDotBytes(before[i], word(0x01010101), split));
    }
    next.push_back(arith::OrIOp::create(b, loc, before.back(), isOff));
    return next;
  });
  Value isOff = vector::ReductionOp::create(b, loc, vector::CombiningKind::OR,
                                            sums.back());
  auto integer = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
  };
  Value isMuch =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt,
                            listLast(place, first), integer(mostListed));
  Value state = arith::ExtUIOp::create(b, loc, b.getI32Type(), isMuch);
  state = arith::SelectOp::create(b, loc, isOff, integer(Inexact), state);
  memref::StoreOp::create(b, loc, state, states, place);
  for (int i : integers())
    storeOffsets(sums[i], offsets[i], math.mul(place, kWords));
}

Value Int8SliceGemmEmitter::listLast(Value place, Value first) {
  Value list = math.mul(place, length / kWords);
  Value zero = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
  // Unused list entries are multiplied too, so zero them.
  for (int64_t i = 0; i < mostListed; ++i) {
    memref::StoreOp::create(b, loc, zero, listPlaces, math.add(list, i));
    memref::StoreOp::create(b, loc, zero, listWords, math.add(list, i));
  }
  Value count = math.constant(0);
  count =
      carry(length / kWords, 1, count, [&](Value at, ValueRange before) {
        Value found = memref::LoadOp::create(
            b, loc, rowDigits[last()], math.add(first, math.mul(at, kWords)));
        Value next = math.add(list, before.front());
        Value number = arith::IndexCastOp::create(b, loc, b.getI32Type(), at);
        memref::StoreOp::create(b, loc, number, listPlaces, next);
        memref::StoreOp::create(b, loc, found, listWords, next);
        Value isOther = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne,
                                              found, zero);
        return Values{math.add(
            before.front(),
            arith::IndexCastUIOp::create(b, loc, b.getIndexType(), isOther))};
      }).front();
  return arith::IndexCastOp::create(b, loc, b.getI32Type(), count);
}

void Int8SliceGemmEmitter::storeOffsets(Value sums, Value memory, Value at) {
  for (int64_t width = lanes; width > kWords; width /= 2) {
    auto half = [&](int64_t from) -> Value {
      return vector::ShuffleOp::create(
          b, loc, sums, sums,
          llvm::to_vector(llvm::seq<int64_t>(from, from + width / 2)));
    };
    Value low = half(0), high = half(width / 2);
    sums = arith::AddIOp::create(b, loc, low, high);
  }
  // Once for all panels if they share the zero point.
  int64_t zero = narrow.getZero() ? 1 : narrow.getCommonZero();
  auto type = cast<VectorType>(sums.getType());
  sums = arith::MulIOp::create(
      b, loc, sums,
      arith::ConstantOp::create(
          b, loc,
          DenseElementsAttr::get(type, b.getI32IntegerAttr(int32_t(-zero)))));
  vector::StoreOp::create(b, loc, sums, memory, at);
}
