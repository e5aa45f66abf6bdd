//===- TensorCoreModel.h - arithmetic of tensor cores -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bit-exact model of the fused dot-add of NVIDIA tensor cores with f32
// accumulators: products and accumulator are aligned to the largest exponent,
// truncated to a number of fraction bits, summed exactly, and the sum is
// truncated. Sources of formulas and parameters: Khattak and Mikaitis,
// "Accurate Models of NVIDIA Tensor Cores" (arXiv 2512.07004), and Xie et al.,
// "MMA-Sim" (arXiv 2511.10909). Part of the host prelude: no includes.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_TENSORCOREMODEL_H
#define MPC_SUPPORT_TENSORCOREMODEL_H

// The prelude (Host.h) exempts functions from checks of memory accesses.
#ifndef MPC_UNCHECKED
#define MPC_UNCHECKED
#endif

namespace mpc {

/// Operand types of matrix instructions with f32 accumulators.
enum class TensorCoreType { Float16, BFloat16, TensorFloat32, E4M3, E5M2 };

/// mma.sync of a warp, or wgmma of a warpgroup from shared memory.
enum class TensorCoreInstruction { Mma, Wgmma };

/// One operand element, significand * 2^(exponent - kFractionBits). Subnormals
/// have the smallest exponent of their type, as in hardware.
struct TensorCoreFactor {
  static constexpr int kFractionBits = 10;
  /// Exponents of zeros, infinities and NaNs, and the largest exponent of a
  /// finite product.
  static constexpr short kZero = -1000, kInfinity = 2000, kNan = 8000;
  static constexpr int kLargestProduct = 254;

  short significand = 0, exponent = kZero;

  /// Converts `value`, which is representable in `type`; of tf32 the low 13
  /// bits are ignored.
  static TensorCoreFactor of(float value, TensorCoreType type);
};

/// The arithmetic of one instruction with one operand type.
struct TensorCoreArithmetic {
  /// Products summed in one fused step; an instruction with more runs
  /// consecutive steps.
  int products = 8;
  /// Fraction bits of aligned terms, relative to the largest exponent.
  int fractionBits = 24;
  /// Fraction bits of the result.
  int resultBits = 23;
  /// Lower bound of the exponent that terms are aligned to.
  int minExponent = -132;
  /// Whether ptxas replaces the instruction: bytes 0 and 1 of all words in a
  /// first step from zero, bytes 2 and 3 in a second, and the accumulator added
  /// with rounding to nearest (fp8 mma.sync of sm_90 to sm_110).
  bool isConverted = false;

  /// Returns the arithmetic on GPUs of compute capability 75 or more, such as
  /// 89. Instructions exist from 80 (bf16, tf32), 89 (fp8) and on 90 (wgmma).
  static constexpr TensorCoreArithmetic of(TensorCoreInstruction instruction,
                                           TensorCoreType type, int capability);

  /// Returns the unit roundoff of one fused step, relative to the largest term
  /// or the result: 2^-fractionBits per truncated term, 2^-resultBits.
  constexpr int precisionBits() const {
    return fractionBits < resultBits ? fractionBits : resultBits;
  }

  /// Returns sum + the dot product of `depth` factors, as consecutive
  /// instructions in ascending order compute it. NaNs are 0x7fffffff, zeros
  /// positive.
  float multiplyAdd(const TensorCoreFactor *a, const TensorCoreFactor *b,
                    int depth, float sum) const;

private:
  /// One fused step of `count` products.
  float step(const TensorCoreFactor *a, const TensorCoreFactor *b, int count,
             float sum) const;
};

constexpr TensorCoreArithmetic
TensorCoreArithmetic::of(TensorCoreInstruction instruction, TensorCoreType type,
                         int capability) {
  bool isFloat8 = type == TensorCoreType::E4M3 || type == TensorCoreType::E5M2;
  TensorCoreArithmetic result;
  if (capability >= 90) {
    result.fractionBits = 25;
    result.minExponent = -133;
  }
  // One step is 32 bytes of an operand's row from sm_90 on, 16 bytes before.
  int bytes = isFloat8 ? 1 : type == TensorCoreType::TensorFloat32 ? 4 : 2;
  result.products = (capability >= 90 ? 32 : 16) / bytes;
  if (!isFloat8)
    return result;
  if (capability < 90 || instruction == TensorCoreInstruction::Wgmma) {
    result.fractionBits = result.resultBits = 13;
  } else if (capability <= 110) {
    result.products = 16;
    result.isConverted = true;
  }
  return result;
}

MPC_UNCHECKED inline TensorCoreFactor
TensorCoreFactor::of(float value, TensorCoreType type) {
  unsigned bits = __builtin_bit_cast(unsigned, value);
  int field = static_cast<int>(bits >> 23 & 0xff);
  int significand = static_cast<int>(bits >> (23 - kFractionBits) & 0x3ff);
  TensorCoreFactor factor;
  if (field == 0xff) {
    bool isNan = type == TensorCoreType::TensorFloat32 ? significand != 0
                                                       : value != value;
    factor.exponent = isNan ? kNan : kInfinity;
    factor.significand = bits >> 31 ? -1 : 1;
    return factor;
  }
  int least = type == TensorCoreType::E4M3 ? -6
              : type == TensorCoreType::Float16 || type == TensorCoreType::E5M2
                  ? -14
                  : -126;
  int exponent = field == 0 ? -126 : field - 127;
  if (field != 0)
    significand |= 1 << kFractionBits;
  if (exponent < least) {
    int shift = least - exponent;
    significand = shift > kFractionBits ? 0 : significand >> shift;
    exponent = least;
  }
  if (significand == 0)
    return factor;
  factor.exponent = static_cast<short>(exponent);
  factor.significand =
      static_cast<short>(bits >> 31 ? -significand : significand);
  return factor;
}

namespace detail {
constexpr unsigned kTensorCoreNan = 0x7fffffffu;

/// Result of a step with infinities or NaNs.
MPC_UNCHECKED inline float specialDotAdd(const TensorCoreFactor *a,
                                         const TensorCoreFactor *b, int count,
                                         float sum) {
  auto valueOf = [](const TensorCoreFactor &factor) MPC_UNCHECKED -> double {
    if (factor.exponent == TensorCoreFactor::kNan)
      return __builtin_nan("");
    return factor.exponent == TensorCoreFactor::kInfinity
               ? factor.significand * __builtin_inf()
               : factor.significand;
  };
  // Finite products are smaller than any infinity.
  double total = __builtin_isfinite(sum) ? 0 : sum;
  for (int k = 0; k < count; ++k)
    total += valueOf(a[k]) * valueOf(b[k]);
  return total != total ? __builtin_bit_cast(float, kTensorCoreNan)
                        : static_cast<float>(total);
}

/// Returns magnitude / 2^shift, truncated; shifts left if negative.
MPC_UNCHECKED inline long long shiftRight(unsigned long long magnitude,
                                          int shift) {
  if (shift >= 64)
    return 0;
  return static_cast<long long>(shift >= 0 ? magnitude >> shift
                                           : magnitude << -shift);
}

/// Truncates magnitude * 2^exponent to f32 with `fractionBits`
/// fraction bits; overflow gives infinity.
MPC_UNCHECKED inline float truncateToFloat(unsigned long long magnitude,
                                           int exponent, bool isNegative,
                                           int fractionBits) {
  if (magnitude == 0)
    return 0;
  int top = 63 - __builtin_clzll(magnitude), largest = top + exponent;
  if (largest < -126)
    largest = -126;
  int drop = largest - fractionBits - exponent;
  auto significand = static_cast<unsigned>(shiftRight(magnitude, drop))
                     << (23 - fractionBits);
  if (significand == 0)
    return 0;
  unsigned bits = largest > 127 ? 0x7f800000u
                  : significand >> 23
                      ? static_cast<unsigned>(largest + 127) << 23 |
                            (significand & 0x7fffffu)
                      : significand;
  return __builtin_bit_cast(float, bits | (isNegative ? 0x80000000u : 0u));
}
} // namespace detail

MPC_UNCHECKED inline float TensorCoreArithmetic::step(const TensorCoreFactor *a,
                                                      const TensorCoreFactor *b,
                                                      int count,
                                                      float sum) const {
  unsigned bits = __builtin_bit_cast(unsigned, sum);
  int field = static_cast<int>(bits >> 23 & 0xff);
  bool isSpecial = field == 0xff;
  int largest = (bits & 0x7fffffffu) == 0 ? minExponent
                : field == 0              ? -126
                                          : field - 127;
  if (largest < minExponent)
    largest = minExponent;
  for (int k = 0; k < count; ++k) {
    int exponent = a[k].exponent + b[k].exponent;
    isSpecial |= exponent > TensorCoreFactor::kLargestProduct;
    largest = exponent > largest ? exponent : largest;
  }
  if (isSpecial)
    return detail::specialDotAdd(a, b, count, sum);

  // Terms in units of 2^(largest - fractionBits).
  int grid = largest - fractionBits;
  long long total = 0;
  for (int k = 0; k < count; ++k) {
    int product = a[k].significand * b[k].significand;
    long long term = detail::shiftRight(
        static_cast<unsigned>(product < 0 ? -product : product),
        grid - a[k].exponent - b[k].exponent +
            2 * TensorCoreFactor::kFractionBits);
    total += product < 0 ? -term : term;
  }
  long long kept =
      detail::shiftRight((bits & 0x7fffffu) | (field != 0 ? 0x800000u : 0u),
                         grid - (field == 0 ? -126 : field - 127) + 23);
  total += bits >> 31 ? -kept : kept;
  return detail::truncateToFloat(
      static_cast<unsigned long long>(total < 0 ? -total : total), grid,
      total < 0, resultBits);
}

MPC_UNCHECKED inline float
TensorCoreArithmetic::multiplyAdd(const TensorCoreFactor *a,
                                  const TensorCoreFactor *b, int depth,
                                  float sum) const {
  if (!isConverted) {
    for (int k = 0; k < depth; k += products)
      sum =
          step(a + k, b + k, depth - k < products ? depth - k : products, sum);
    return sum;
  }
  for (int first = 0; first < depth; first += 2 * products) {
    float product = 0;
    for (int half = 0; half < 2; ++half) {
      TensorCoreFactor left[16], right[16];
      for (int i = 0; i < products; ++i)
        if (int k = first + i / 2 * 4 + 2 * half + i % 2; k < depth) {
          left[i] = a[k];
          right[i] = b[k];
        }
      product = step(left, right, products, product);
    }
    sum += product;
    if (sum != sum)
      sum = __builtin_bit_cast(float, detail::kTensorCoreNan);
  }
  return sum;
}

} // namespace mpc

#endif // MPC_SUPPORT_TENSORCOREMODEL_H
