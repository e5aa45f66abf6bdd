//===- LineUnpack.cpp - numbers of a word of narrow weights ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An integer without a sign becomes the low bits of a float whose last place is
// one, so that one instruction takes it out of the word and one takes the
// float's beginning (and the zero point) off. A position in the word is a
// power of two, which another exponent takes off: no shift is needed within 16
// bits.
//
//===----------------------------------------------------------------------===//

#include "LineProduct.h"

#include "Target/Kernel/MathExpansion.h"

using namespace mlir;
using namespace mpc;

/// Places of the fraction of f32, and what stands for the exponent of one.
static constexpr int64_t kPlaces = 23, kOne = 127;

namespace {
class WordReader {
public:
  WordReader(GpuKernel &kernel, const WeightLines &lines, Value zero)
      : math(kernel.builder, kernel.loc), lines(lines), zero(zero) {}

  SmallVector<Value> read(Value word) {
    OpBuilder &b = math.getBuilder();
    DequantizeOp narrow = lines.narrow;
    Type stored = getElementTypeOrSelf(narrow.getValues().getType());
    SmallVector<Value> numbers;
    if (stored.isF16() || stored.isBF16()) {
      for (int64_t i = 0; i < lines.perWord(); ++i)
        numbers.push_back(stored.isBF16() ? bfloat16(word, i) : half(word, i));
    } else if (narrow.getFloat8()) {
      for (int64_t i = 0; i < lines.perWord(); ++i)
        numbers.push_back(float8(word, i));
    } else {
      double common = double(narrow.getCommonZero());
      if (!stored.isUnsignedInteger()) {
        // The sign's weight is added by turning it round.
        common += std::ldexp(1, int(lines.bits) - 1);
        word = math.bitXor(word, lines.bits == 8 ? int32_t(0x80808080u)
                                                 : int32_t(0x80008000u));
      }
      int64_t perHalf = lines.perWord() / 2;
      Value upper = math.shiftRight(word, 16);
      for (int64_t i = 0; i < lines.perWord(); ++i)
        numbers.push_back(integer(i < perHalf ? word : upper, i % perHalf,
                                  common, b.getF32Type()));
    }
    return numbers;
  }

private:
  /// Number `i` of the lower 16 bits of `word`.
  Value integer(Value word, int64_t i, double common, Type f32) {
    int64_t shift = i * lines.bits, last = kPlaces - shift;
    Value bits = math.bitAnd(word, ((int64_t(1) << lines.bits) - 1) << shift);
    bits = math.bitOr(bits, (kOne + last) << kPlaces);
    Value number = math.fromBits(bits, f32);
    double begin = std::ldexp(1, int(last)) + common;
    if (zero)
      return math.sub(number, math.add(zero, begin));
    return math.sub(number, begin);
  }

  Value bfloat16(Value word, int64_t i) {
    Value bits = i == 0 ? math.shiftLeft(word, 16)
                        : math.bitAnd(word, int32_t(0xffff0000u));
    return math.fromBits(bits, math.getBuilder().getF32Type());
  }

  Value half(Value word, int64_t i) {
    OpBuilder &b = math.getBuilder();
    Value bits = math.truncateInt(i == 0 ? word : math.shiftRight(word, 16),
                                  b.getI16Type());
    return math.extendFloat(math.fromBits(bits, b.getF16Type()),
                            b.getF32Type());
  }

  /// The code's bits in the places of f32's, without infinities and NaN, which
  /// no weight is (Float8Math.cpp).
  Value float8(Value word, int64_t i) {
    Value top = i == 3 ? word : math.shiftLeft(word, 24 - 8 * i);
    Value bits =
        math.bitAnd(math.shiftRightSigned(top, 4), int32_t(0x87f00000u));
    return math.mul(math.fromBits(bits, math.getBuilder().getF32Type()),
                    0x1p120);
  }

  ValueMath math;
  const WeightLines &lines;
  Value zero;
};
} // namespace

SmallVector<Value> mpc::numbersOfWord(GpuKernel &kernel,
                                      const WeightLines &lines, Value word,
                                      Value zero) {
  return WordReader(kernel, lines, zero).read(word);
}
