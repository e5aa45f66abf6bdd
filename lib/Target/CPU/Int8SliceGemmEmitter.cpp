//===- Int8SliceGemmEmitter.cpp - quantized GEMM on int8 units ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Int8SliceGemmEmitter.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

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
      mostListed(length / kWords / kWordsPerListed), i32(b.getI32Type()),
      words(VectorType::get({lanes}, i32)),
      numbers(VectorType::get({lanes}, b.getF32Type())),
      split(shape.m, blocks.getRows()),
      blocksPerItem(perItem(blocks.getBlocksPerItem(), split.blocks)),
      rowGroups(llvm::divideCeil(split.blocks, blocksPerItem)) {}

void Int8SliceGemmEmitter::prepare() {
  items = rowGroups * panelGroups;
  cyclesPerItem = cyclesOf(2.0 * shape.m * panels * columns * shape.depth);
  int64_t rows = split.largest();
  auto wordArea = [&](int64_t count) { return area(rows * count, i32); };
  rowNumbers = area(rows * shape.depth, sumType);
  for (int i : integers()) {
    rowDigits[i] = wordArea(shape.depth);
    offsets[i] = wordArea(segments * kWords);
  }
  steps = area(rows * segments, sumType);
  states = wordArea(segments);
  listPlaces = wordArea(shape.depth / kWords);
  listWords = wordArea(shape.depth / kWords);
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
    Carried totals(rows * vectors, values.constant(numbers, 0));
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

Carried Int8SliceGemmEmitter::multiplySegment(Value segment, int64_t rows,
                                              int64_t vectors,
                                              ValueRange totals) {
  Value group = narrowGroupOf(math.mul(segment, length));
  SmallVector<Value> zeros;
  if (narrow.getZero())
    zeros = loadOfGroup(narrow.getZero(), group, vectors, i32);
  Carried ofRows;
  for (int64_t r = 0; r < rows; ++r)
    ofRows.push_back(math.load(states, math.add(segment, r * segments)));
  Value worst = ofRows.front();
  for (Value state : llvm::drop_begin(ofRows))
    worst =
        values.extremum(worst, state, /*isMaximum=*/true, /*isUnsigned=*/true);
  auto isAtMost = [&](Value state, State most) {
    return values.compare(CmpIPredicate::ule, state, most);
  };
  SmallVector<Value> scales =
      loadOfGroup(narrow.getScale(), group, vectors, sumType);
  SmallVector<Type> types(rows * vectors, numbers);
  auto ofDigits = [&](bool listed) {
    return multiplyDigits(segment, rows, vectors, zeros, scales, totals,
                          listed);
  };
  auto ofNumbers = [&] {
    Carried sums =
        multiplyNumbers(segment, rows, vectors, zeros, scales, totals);
    // A row's result must not depend on the rows in the same block.
    if (rows > 1)
      for (auto [i, sum] : llvm::enumerate(ofDigits(/*listed=*/false)))
        sums[i] =
            values.select(isAtMost(ofRows[i / vectors], Whole), sum, sums[i]);
    return sums;
  };
  return math.choose(
      isAtMost(worst, Listed), types, [&] { return ofDigits(/*listed=*/true); },
      [&] {
        return math.choose(
            isAtMost(worst, Whole), types,
            [&] { return ofDigits(/*listed=*/false); }, ofNumbers);
      });
}

Carried Int8SliceGemmEmitter::multiplyDigits(Value segment, int64_t rows,
                                             int64_t vectors, ValueRange zeros,
                                             ValueRange scales,
                                             ValueRange totals, bool listed) {
  Carried sums;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < vectors; ++v)
      for (int i : integers())
        for (int64_t d = 0; d < digits[i]; ++d) {
          Value place = math.add(segment, r * segments);
          Value sum = splatOf(offsets[i], math.add(math.mul(place, kWords), d));
          sums.push_back(zeros.empty() ? sum : values.mul(sum, zeros[v]));
        }

  // More unrolling only increases compile time.
  constexpr int64_t kMostUnrolled = 16;
  int64_t all = digits[0] + digits[1], lastOfAll = last() ? digits[0] : 0;
  sums = carryLoads(
      segment, kMostUnrolled / (rows * vectors), sums,
      [&](Value load, ValueRange before) {
        Carried next(before);
        for (auto [half, ofVectors] : llvm::enumerate(loadWords(load, vectors)))
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t d = 0; d < all; ++d) {
              if (listed && d == lastOfAll)
                continue;
              bool isFine = d >= digits[0];
              Value at = math.add(math.mul(load, loaded),
                                  r * shape.depth + int64_t(half) * kWords +
                                      (isFine ? d - digits[0] : d));
              Value digit = splatOf(rowDigits[isFine], at);
              for (int64_t v = 0; v < vectors; ++v) {
                Value &sum = next[(r * vectors + v) * all + d];
                sum = addDotBytes(sum, ofVectors[v], digit);
              }
            }
        return next;
      });

  if (listed) {
    Carried ofLast;
    for (int64_t i = 0; i < rows * vectors; ++i)
      ofLast.push_back(sums[i * all + lastOfAll]);
    addListed(segment, rows, vectors, ofLast);
    for (auto [i, sum] : llvm::enumerate(ofLast))
      sums[i * all + lastOfAll] = sum;
  }

  // Multiply integers by the weights' scale first, then by their own step: in
  // the other order large numbers would overflow before they are scaled down.
  Carried results, smallScales;
  for (Value scale : scales)
    smallScales.push_back(values.mul(scale, 1 / kLargerSteps));
  for (int64_t i = 0; i < rows * vectors; ++i) {
    ValueRange own = ValueRange(sums).slice(i * all, all);
    Value whole = numberOf(own.take_front(digits[0]));
    if (digits[1])
      whole = values.fma(numberOf(own.drop_front(digits[0])), 1 / finer, whole);
    Value step = splatOf(steps, math.add(segment, i / vectors * segments));
    whole = values.mul(whole, smallScales[i % vectors]);
    results.push_back(values.fma(whole, step, totals[i]));
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
      Value place =
          values.castIndex(math.load(listPlaces, at), b.getIndexType());
      Value digits = splatOf(listWords, at);
      Value load = math.add(first, math.div(place, ofLoad));
      for (int64_t v = 0; v < vectors; ++v) {
        Value bytes = loadPacked(placeOf(load, v));
        if (narrow.getNibbles()) {
          Value down =
              values.castIndex(math.mul(math.rem(place, ofLoad), 4), i32);
          bytes = values.shiftRight(bytes, values.splat(down, lanes));
          bytes = values.bitAnd(bytes, 0x0f0f0f0f);
        }
        Value &sum = sums[r * vectors + v];
        sum = addDotBytes(sum, bytes, digits);
      }
    }
}

Carried Int8SliceGemmEmitter::multiplyNumbers(Value segment, int64_t rows,
                                              int64_t vectors, ValueRange zeros,
                                              ValueRange scales,
                                              ValueRange totals) {
  Carried sums(rows * vectors, values.constant(numbers, 0));
  sums = carryLoads(segment, 1, sums, [&](Value load, ValueRange before) {
    Carried next(before);
    for (auto [half, ofVectors] : llvm::enumerate(loadWords(load, vectors)))
      for (int64_t k = 0; k < kWords; ++k) {
        Carried weights;
        for (int64_t v = 0; v < vectors; ++v)
          weights.push_back(numbersOfByte(
              ofVectors[v], k, zeros.empty() ? Value() : zeros[v], scales[v]));
        for (int64_t r = 0; r < rows; ++r) {
          Value at = math.add(math.mul(load, loaded),
                              r * shape.depth + int64_t(half) * kWords + k);
          Value factor = splatOf(rowNumbers, at);
          for (int64_t v = 0; v < vectors; ++v) {
            Value &sum = next[r * vectors + v];
            sum = values.fma(factor, weights[v], sum);
          }
        }
      }
    return next;
  });
  for (auto [sum, total] : llvm::zip_equal(sums, totals))
    sum = values.add(sum, total);
  return sums;
}

Carried Int8SliceGemmEmitter::carryLoads(Value segment, int64_t together,
                                         ValueRange sums, CarriedBody body) {
  int64_t loads = length / loaded;
  int64_t unroll = std::clamp<int64_t>(together, 1, loads);
  while (loads % unroll)
    --unroll;
  Value first = math.mul(segment, loads);
  return carry(loads, unroll, sums, [&](Value load, ValueRange before) {
    Carried next(before);
    for (int64_t i = 0; i < unroll; ++i)
      next = body(math.add(math.add(first, load), i), next);
    return next;
  });
}

Value Int8SliceGemmEmitter::placeOf(Value load, int64_t vector) {
  Value line = math.add(math.mul(panel.number, shape.depth / loaded), load);
  int64_t depth = narrow.getDepth();
  return math.add(math.mul(line, depth * columns), depth * vector * lanes);
}

Value Int8SliceGemmEmitter::loadPacked(Value at) {
  return values.reinterpret(math.load(panel.memory, at, 4 * lanes), i32);
}

SmallVector<Carried> Int8SliceGemmEmitter::loadWords(Value load,
                                                     int64_t vectors) {
  SmallVector<Carried> halves(loaded / narrow.getDepth());
  for (int64_t v = 0; v < vectors; ++v) {
    Value at = placeOf(load, v);
    if (narrow.getNibbles())
      fetch(panel.memory, math.add(at, kAhead), 4 * lanes, Cache::Second);
    Value packed = loadPacked(at);
    if (!narrow.getNibbles()) {
      halves.front().push_back(packed);
      continue;
    }
    halves[0].push_back(values.bitAnd(packed, 0x0f0f0f0f));
    halves[1].push_back(
        values.bitAnd(values.shiftRight(packed, 4), 0x0f0f0f0f));
  }
  return halves;
}

//===----------------------------------------------------------------------===//
// Carried
//===----------------------------------------------------------------------===//

bool Int8SliceGemmEmitter::isWord() {
  int64_t levels = narrow.getNibbles() ? 15 : 255;
  return length * levels << kLargestBits <= INT32_MAX;
}

Value Int8SliceGemmEmitter::numberOf(ValueRange sums) {
  auto digitOf = [&](Value sum) {
    return isWord() ? sum : values.toFloat(sum, sumType);
  };
  Value whole = digitOf(sums.back());
  for (Value sum : llvm::reverse(sums.drop_back())) {
    Value digit = digitOf(sum);
    whole = isWord() ? values.add(values.shiftLeft(whole, 8), digit)
                     : values.fma(whole, 256, digit);
  }
  return isWord() ? values.toFloat(whole, sumType) : whole;
}

Value Int8SliceGemmEmitter::addDotBytes(Value sum, Value bytes, Value split) {
  return cpu::addDotBytes(b, loc, sum, bytes, split,
                          contraction.target.emulatesUnits());
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
            carry(span, lanes, values.integer(words, 0),
                  [&](Value k, ValueRange before) {
                    at.back() = math.add(first, k);
                    Value row = load(contraction.lhs(), at, lanes);
                    math.store(row, rowNumbers, math.add(begin, at.back()));
                    Value bits = values.bitAnd(values.bits(row), 0x7fffffff);
                    return Carried{values.extremum(before.front(), bits,
                                                   /*isMaximum=*/true,
                                                   /*isUnsigned=*/true)};
                  })
                .front();
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
  constexpr int kMantissaBits = 23;
  Value exponent = values.shiftRight(bits, kMantissaBits);
  // Infinities and NaN are later found not to be integers, like numbers far
  // below the smallest step.
  for (auto [isMaximum, limit] :
       {std::pair(true, kLeastExponent), std::pair(false, kMostExponent)})
    exponent = values.extremum(exponent, values.integer(i32, limit), isMaximum,
                               /*isUnsigned=*/true);
  auto powerOf = [&](Value biased) {
    return values.fromBits(values.shiftLeft(biased, kMantissaBits), sumType);
  };
  constexpr int kDown = kLargestBits - 1;
  Value step = values.sub(exponent, kDown);
  Value perStep = values.sub(values.integer(i32, 2 * kBias + kDown), exponent);
  return {powerOf(step), powerOf(perStep)};
}

std::pair<Value, Value> Int8SliceGemmEmitter::rounded(Value x) {
  Value shifted = values.add(x, kNoFraction);
  Value bits =
      values.sub(values.bits(shifted), llvm::bit_cast<int32_t>(kNoFraction));
  return {bits, values.sub(shifted, kNoFraction)};
}

Value Int8SliceGemmEmitter::digitsOf(Value integers) {
  // Adding half of a byte's range to each and subtracting it again makes the
  // bytes signed.
  constexpr int64_t kBias = 0x808080;
  Value biased = values.bitXor(values.add(integers, kBias), kBias);
  // Combine bytes of equal significance of four positions into a word.
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < 4 * lanes; ++i)
    order.push_back(i / 16 * 16 + i % 4 * 4 + i / 4 % 4);
  Value joined = values.reinterpret(biased, b.getI8Type());
  return values.reinterpret(values.shuffle(joined, joined, order), i32);
}

void Int8SliceGemmEmitter::splitSegment(Value local, Value segment, Value step,
                                        Value perStep) {
  Value place = math.add(math.mul(local, segments), segment);
  Value first =
      math.add(math.mul(local, shape.depth), math.mul(segment, length));
  math.store(values.mul(step, kLargerSteps), steps, place);
  Value down = values.splat(step, lanes), up = values.splat(perStep, lanes);

  // The sums of each integer's slices, then whether some number is inexact.
  size_t count = integers().size();
  Carried begins(count, values.integer(words, 0));
  begins.push_back(values.integer(VectorType::get({lanes}, b.getI1Type()), 0));
  Carried sums = carry(length, lanes, begins, [&](Value k, ValueRange before) {
    Value at = math.add(first, k);
    Value row = math.load(rowNumbers, at, lanes);
    Value scaled = values.mul(row, up);
    auto [coarse, whole] = rounded(scaled);
    Carried parts = {coarse};
    Value left = scaled, taken = whole;
    if (count == 2) {
      left = values.mul(values.sub(scaled, whole), finer);
      auto [fine, wholeRest] = rounded(left);
      parts.push_back(fine);
      taken = wholeRest;
    }
    // A product may have underflowed; NaN differs from everything.
    Value isLost =
        values.compare(CmpFPredicate::UNE, values.mul(scaled, down), row);
    Value isLeft = values.compare(CmpFPredicate::UNE, left, taken);
    // An infinity is a multiple of every step.
    Value isInfinite = values.compare(CmpFPredicate::UGT, values.abs(scaled),
                                      double(1 << kLargestBits));
    Value isOff = values.bitOr(values.bitOr(isLost, isLeft), isInfinite);
    Carried next;
    for (auto [i, part] : llvm::enumerate(parts)) {
      Value split = digitsOf(part);
      math.store(split, rowDigits[i], at);
      next.push_back(
          addDotBytes(before[i], values.integer(words, 0x01010101), split));
    }
    next.push_back(values.bitOr(before.back(), isOff));
    return next;
  });
  Value isOff = values.any(sums.back());
  Value isMuch =
      values.compare(CmpIPredicate::ugt, listLast(place, first), mostListed);
  math.store(values.select(isOff, values.integer(i32, Inexact),
                           values.extendUnsigned(isMuch, i32)),
             states, place);
  for (int i : integers())
    storeOffsets(sums[i], offsets[i], math.mul(place, kWords));
}

Value Int8SliceGemmEmitter::listLast(Value place, Value first) {
  Value list = math.mul(place, length / kWords);
  Value zero = values.integer(i32, 0);
  // Unused list entries are multiplied too, so zero them.
  for (int64_t i = 0; i < mostListed; ++i) {
    math.store(zero, listPlaces, math.add(list, i));
    math.store(zero, listWords, math.add(list, i));
  }
  Value count =
      carry(length / kWords, 1, math.constant(0),
            [&](Value at, ValueRange before) {
              Value found = math.load(rowDigits[last()],
                                      math.add(first, math.mul(at, kWords)));
              Value next = math.add(list, before.front());
              math.store(values.castIndex(at, i32), listPlaces, next);
              math.store(found, listWords, next);
              Value isOther = values.compare(CmpIPredicate::ne, found, zero);
              return Carried{math.add(before.front(),
                                      arith::IndexCastUIOp::create(
                                          b, loc, b.getIndexType(), isOther))};
            })
          .front();
  return values.castIndex(count, i32);
}

void Int8SliceGemmEmitter::storeOffsets(Value sums, Value memory, Value at) {
  for (int64_t width = lanes; width > kWords; width /= 2) {
    SmallVector<Value> halves = values.partsOf(sums, width / 2);
    sums = values.add(halves[0], halves[1]);
  }
  // Once for all panels if they share the zero point.
  int64_t zero = narrow.getZero() ? 1 : narrow.getCommonZero();
  math.store(values.mul(sums, -zero), memory, at);
}
