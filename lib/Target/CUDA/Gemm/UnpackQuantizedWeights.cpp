//===- UnpackQuantizedWeights.cpp - unpacking of quantized weights --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Magic-number conversion: an unsigned integer becomes the low mantissa bits of
// the float 2^23 by a byte permute; one subtraction removes 2^23 and the zero
// point. Four-bit weights are first split into bytes.
//
//===----------------------------------------------------------------------===//

#include "QuantizedGemv.h"

#include "Target/Kernel/MathExpansion.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// The float with a unit in the last place of one (2^23), and its bits.
static constexpr double kBegin = 0x1p23;
static constexpr int64_t kBeginBits = 0x4b000000;

namespace {
class WordReader {
public:
  WordReader(GpuKernel &kernel, const QuantizedWeightRows &lines, Value zero)
      : math(kernel.builder, kernel.loc), lines(lines), zero(zero) {}

  SmallVector<Value> read(Value word) {
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
        // Two's complement to offset binary: flip the sign bit.
        common += std::ldexp(1, int(lines.bits) - 1);
        word = math.bitXor(word, lines.bits == 8 ? int32_t(0x80808080u)
                                                 : int32_t(0x80008000u));
      }
      readIntegers(word, kBegin + common, numbers);
    }
    return numbers;
  }

private:
  void readIntegers(Value word, double begin, SmallVector<Value> &numbers) {
    OpBuilder &b = math.getBuilder();
    Value offset = zero ? math.add(zero, begin) : Value();
    Value beginBits = math.integer(b.getI32Type(), kBeginBits);
    SmallVector<Value, 2> words = {word};
    int64_t bytes = std::max<int64_t>(lines.bits / 8, 1);
    if (lines.bits == 4)
      words = {math.bitAnd(word, 0x0f0f0f0f),
               math.bitAnd(math.shiftRight(word, 4), 0x0f0f0f0f)};
    for (int64_t i = 0; i < lines.perWord(); ++i) {
      auto count = int64_t(words.size());
      // From the top: first byte of 2^23, zeros, the integer's bytes.
      int64_t byte = i / count * bytes;
      int64_t selector =
          bytes == 1 ? 0x7440 | byte : 0x7400 | (byte + 1) << 4 | byte;
      Value bits = cuda::CallOp::create(
          b, math.getLoc(), b.getI32Type(), "permuteBytes",
          ValueRange{words[i % count], beginBits,
                     math.integer(b.getI32Type(), selector)});
      Value number = math.fromBits(bits, b.getF32Type());
      numbers.push_back(zero ? math.sub(number, offset)
                             : math.sub(number, begin));
    }
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

  /// Places the bits of an 8-bit float at those of f32; weights have no
  /// infinities or NaNs (Float8Math.cpp).
  Value float8(Value word, int64_t i) {
    Value top = i == 3 ? word : math.shiftLeft(word, 24 - 8 * i);
    Value bits =
        math.bitAnd(math.shiftRightSigned(top, 4), int32_t(0x87f00000u));
    return math.mul(math.fromBits(bits, math.getBuilder().getF32Type()),
                    0x1p120);
  }

  ValueMath math;
  const QuantizedWeightRows &lines;
  Value zero;
};
} // namespace

SmallVector<Value> cuda::numbersOfWord(GpuKernel &kernel,
                                       const QuantizedWeightRows &lines,
                                       Value word, Value zero) {
  return WordReader(kernel, lines, zero).read(word);
}
