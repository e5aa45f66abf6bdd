//===- HostReduction.cpp - reductions over ranks --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Branch-free loops over blocks that fit in L1, for auto-vectorization.
//
//===----------------------------------------------------------------------===//

#include "HostReduction.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

using namespace mpc;

namespace {

constexpr size_t kBlock = 512;

//===----------------------------------------------------------------------===//
// Element types: storage type and compute type
//===----------------------------------------------------------------------===//

template <typename T> struct Plain {
  using Stored = T;
  using Value = T;
  static Value load(Stored stored) { return stored; }
  template <typename Sum> static Stored round(Sum sum) {
    if constexpr (std::is_floating_point_v<T>)
      return std::isnan(sum) ? std::numeric_limits<T>::quiet_NaN()
                             : static_cast<T>(sum);
    else
      return static_cast<T>(sum); // modulo 2^32 if it narrows
  }
};

/// Rounds `value` to f32 with round-to-odd, so that rounding again to 16 bits
/// equals rounding `value` directly.
float toOdd(double value) {
  float nearest = static_cast<float>(value);
  auto back = static_cast<double>(nearest);
  auto bits = std::bit_cast<uint32_t>(nearest);
  double size = value < 0 ? -value : value, backSize = back < 0 ? -back : back;
  bits -= backSize > size ? 1 : 0;
  bits |= back != value ? 1 : 0;
  return std::bit_cast<float>(bits);
}
float toOdd(float value) { return value; }

struct BFloat16 {
  using Stored = uint16_t;
  using Value = float;
  static float load(uint16_t stored) {
    return std::bit_cast<float>(uint32_t(stored) << 16);
  }
  template <typename Sum> static uint16_t round(Sum sum) {
    auto bits = std::bit_cast<uint32_t>(toOdd(sum));
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return uint16_t((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
  }
};

struct Float16 {
  using Stored = uint16_t;
  using Value = float;
  static constexpr uint32_t kSmallestNormal = 113u << 23; // 2^-14 in f32

  static float load(uint16_t stored) {
    uint32_t sign = uint32_t(stored & 0x8000) << 16;
    uint32_t exponent = stored & 0x7c00;
    uint32_t bits = uint32_t(stored & 0x7fff) << 13;
    // Subnormals are the fraction of a number with exponent 2^-14.
    float small = std::bit_cast<float>(bits + kSmallestNormal) -
                  std::bit_cast<float>(kSmallestNormal);
    uint32_t normal = bits + (112u << 23), special = bits + (224u << 23);
    uint32_t value = exponent == 0x7c00 ? special : normal;
    value = exponent == 0 ? std::bit_cast<uint32_t>(small) : value;
    return std::bit_cast<float>(value | sign);
  }
  template <typename Sum> static uint16_t round(Sum sum) {
    auto bits = std::bit_cast<uint32_t>(toOdd(sum));
    uint32_t sign = (bits >> 16) & 0x8000, size = bits & 0x7fffffff;
    uint32_t normal = (size - (112u << 23) + 0xfff + ((size >> 13) & 1)) >> 13;
    // Adding 0.5 gives f32's last bit the weight 2^-24, as in a subnormal f16.
    constexpr uint32_t kHalf = 126u << 23;
    uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(size) +
                                             std::bit_cast<float>(kHalf)) -
                     kHalf;
    uint32_t value = size < kSmallestNormal ? small : normal;
    value = size >= (143u << 23) ? 0x7c00 : value; // 65,536 and more
    value |= sign;
    return uint16_t(size > 0x7f800000 ? 0x7e00 : value);
  }
};

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// Adds with wraparound: signed overflow would be undefined.
template <typename T> T plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

template <typename T> bool isNan(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(value);
  else
    return false;
}

/// Rounds `sum` to the storage of `Sum`: 16-bit partial sums are rounded each
/// time.
template <typename Sum> typename Sum::Value kept(typename Sum::Value sum) {
  if constexpr (std::is_same_v<typename Sum::Stored, typename Sum::Value>)
    return sum;
  else
    return Sum::load(Sum::round(sum));
}

template <Collective::Reduction reduction, typename Sum>
typename Sum::Value join(typename Sum::Value sum, typename Sum::Value term) {
  // NaN propagates: it compares false and is selected explicitly.
  if constexpr (reduction == Collective::Reduction::Min)
    return ((term < sum) | isNan(term)) ? term : sum;
  else if constexpr (reduction == Collective::Reduction::Max)
    return ((term > sum) | isNan(term)) ? term : sum;
  else
    return kept<Sum>(plus(sum, term));
}

template <Collective::Reduction reduction, typename Element, typename Sum>
void reduce(const void *rows, size_t ranks, size_t count, void *result) {
  using Stored = typename Element::Stored;
  using Value = typename Sum::Value;
  const auto *from = static_cast<const Stored *>(rows);
  auto *to = static_cast<Stored *>(result);
  // Partial results of 1, 2, 4, ... ranks that wait for their neighbors.
  std::vector<std::array<Value, kBlock>> levels(std::bit_width(ranks) + 1);
  for (size_t begin = 0; begin < count; begin += kBlock) {
    size_t length = std::min(kBlock, count - begin);
    size_t depth = 0;
    auto combine = [&] {
      --depth;
      for (size_t i = 0; i < length; ++i)
        levels[depth - 1][i] =
            join<reduction, Sum>(levels[depth - 1][i], levels[depth][i]);
    };
    for (size_t rank = 0; rank < ranks; ++rank) {
      const Stored *row = from + rank * count + begin;
      for (size_t i = 0; i < length; ++i)
        levels[depth][i] = static_cast<Value>(Element::load(row[i]));
      ++depth;
      for (size_t pairs = rank + 1; pairs % 2 == 0; pairs /= 2)
        combine();
    }
    for (size_t left = depth; left > 1; --left)
      combine();
    std::array<Value, kBlock> &sums = levels.front();
    if constexpr (reduction == Collective::Reduction::Mean) {
      auto divisor = static_cast<Value>(ranks);
      for (size_t i = 0; i < length; ++i)
        sums[i] = kept<Sum>(sums[i] / divisor);
    }
    for (size_t i = 0; i < length; ++i)
      to[begin + i] = Element::round(sums[i]);
  }
}

using Function = void (*)(const void *, size_t, size_t, void *);

template <typename Element, typename Sum>
Function choose(Collective::Reduction reduction) {
  switch (reduction) {
  case Collective::Reduction::Sum:
    return reduce<Collective::Reduction::Sum, Element, Sum>;
  case Collective::Reduction::Mean:
    if constexpr (std::is_floating_point_v<typename Sum::Value>)
      return reduce<Collective::Reduction::Mean, Element, Sum>;
    break;
  // Min and max select the same term in every type that represents the terms.
  case Collective::Reduction::Min:
    return reduce<Collective::Reduction::Min, Element,
                  Plain<typename Element::Value>>;
  case Collective::Reduction::Max:
    return reduce<Collective::Reduction::Max, Element,
                  Plain<typename Element::Value>>;
  }
  return nullptr;
}

template <typename Element> Function chooseSum(const Collective &how) {
  switch (how.accumulate) {
  case ElementType::F64:
    return choose<Element, Plain<double>>(how.reduction);
  case ElementType::F32:
    return choose<Element, Plain<float>>(how.reduction);
  default:
    return choose<Element, Element>(how.reduction);
  }
}

Function chooseReduction(const Collective &how) {
  switch (how.element) {
  case ElementType::F16:
    return chooseSum<Float16>(how);
  case ElementType::BF16:
    return chooseSum<BFloat16>(how);
  case ElementType::F32:
    return chooseSum<Plain<float>>(how);
  case ElementType::F64:
    return choose<Plain<double>, Plain<double>>(how.reduction);
  case ElementType::I32:
    return how.accumulate == ElementType::I64
               ? choose<Plain<int32_t>, Plain<int64_t>>(how.reduction)
               : choose<Plain<int32_t>, Plain<int32_t>>(how.reduction);
  case ElementType::I64:
    return choose<Plain<int64_t>, Plain<int64_t>>(how.reduction);
  default:
    return nullptr;
  }
}

} // namespace

void detail::reduceRows(const Collective &how, const void *rows, size_t count,
                        void *result) {
  if (Function reduction = chooseReduction(how))
    reduction(rows, size_t(how.ranks), count, result);
}
