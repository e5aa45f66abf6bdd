//===- Int8SliceRows.cpp - exact int8 slices of f32 rows ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A number x of a span whose largest has the exponent e is, as a multiple of
// the step 2^(e - 21), q + r: the nearest integer and a remainder of at most
// one half. r is in turn rounded to the next multiple of 2^-15 or 2^-22. All
// three are exact in f32; if no number leaves a remainder, the integers
// represent them exactly. Numbers that were 16 bits may have no remainder after
// q.
//
//===----------------------------------------------------------------------===//

#include "Int8SliceGemmEmitter.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;

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
