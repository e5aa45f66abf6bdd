//===- GgufBlocks.cpp - block formats of GGUF tensors ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The layouts are those of ggml's quantization formats (ggml-common.h) and of
// the PyPI package gguf, whose results the tests compare bit by bit.
//
//===----------------------------------------------------------------------===//

#include "GgufBlocks.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <bit>
#include <cassert>

using namespace mpc;
using namespace mpc::checkpoint;

/// Returns the f16 stored at `bytes`, little endian. Keeps the bits of NaNs.
static float halfAt(const uint8_t *bytes) {
  uint32_t bits = bytes[0] | bytes[1] << 8;
  uint32_t sign = (bits & 0x8000) << 16, exponent = bits >> 10 & 31,
           fraction = bits & 0x3ff;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent == 0) {
    float magnitude = float(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

//===----------------------------------------------------------------------===//
// Blocks of 32 elements
//===----------------------------------------------------------------------===//

// Inner loops have constant shifts and no branches, so that they are
// vectorized.

/// Elements of a block; the low nibbles of 16 bytes are the first half.
static constexpr int kBlock = 32;

/// Sets numbers to `scale * (nibble + bias) + least`, where bit i of `high` is
/// the fifth bit of element i. Without a minimum `least` is -0.0, which changes
/// no number.
static void decodeNibbles(const uint8_t *nibbles, uint32_t high, int bias,
                          float scale, float least, float *numbers) {
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < kBlock / 2; ++i) {
      int code = (nibbles[i] >> 4 * half & 15) |
                 int(high >> (i + half * kBlock / 2) & 1) << 4;
      numbers[half * kBlock / 2 + i] = scale * float(code + bias) + least;
    }
}

static uint32_t wordAt(const uint8_t *bytes) {
  return uint32_t(bytes[0]) | uint32_t(bytes[1]) << 8 |
         uint32_t(bytes[2]) << 16 | uint32_t(bytes[3]) << 24;
}

/// f16 scale, 32 x int8.
static void decodeQ8_0(const uint8_t *block, float *numbers) {
  float scale = halfAt(block);
  for (int i = 0; i < kBlock; ++i)
    numbers[i] = scale * float(int8_t(block[2 + i]));
}

/// f16 scale, 32 nibbles minus 8.
static void decodeQ4_0(const uint8_t *block, float *numbers) {
  decodeNibbles(block + 2, 0, -8, halfAt(block), -0.0f, numbers);
}

/// f16 scale, f16 minimum, 32 nibbles.
static void decodeQ4_1(const uint8_t *block, float *numbers) {
  decodeNibbles(block + 4, 0, 0, halfAt(block), halfAt(block + 2), numbers);
}

/// f16 scale, 32 fifth bits, 32 nibbles; minus 16.
static void decodeQ5_0(const uint8_t *block, float *numbers) {
  decodeNibbles(block + 6, wordAt(block + 2), -16, halfAt(block), -0.0f,
                numbers);
}

/// f16 scale, f16 minimum, 32 fifth bits, 32 nibbles.
static void decodeQ5_1(const uint8_t *block, float *numbers) {
  decodeNibbles(block + 8, wordAt(block + 4), 0, halfAt(block),
                halfAt(block + 2), numbers);
}

//===----------------------------------------------------------------------===//
// Blocks of 256 elements ("K")
//===----------------------------------------------------------------------===//

static constexpr int kLargeBlock = 256;
/// Elements that share a scale in Q2_K, Q3_K and Q6_K.
static constexpr int kGroup = 16;

/// 16 groups of 16 two-bit numbers, a byte with a scale (low nibble) and a
/// minimum (high nibble) per group, f16 factors of scales and minima at the
/// end.
static void decodeQ2_K(const uint8_t *block, float *numbers) {
  const uint8_t *codes = block + 16;
  float scale = halfAt(block + 80), least = halfAt(block + 82);
  for (int group = 0; group < kLargeBlock / kGroup; ++group) {
    // 128 elements per 32 bytes, in four planes of two bits.
    const uint8_t *from = codes + group / 8 * 32 + group % 2 * kGroup;
    int shift = group % 8 / 2 * 2;
    float step = scale * float(block[group] & 15),
          offset = least * float(block[group] >> 4);
    for (int i = 0; i < kGroup; ++i)
      numbers[group * kGroup + i] = step * float(from[i] >> shift & 3) - offset;
  }
}

/// 256 third bits, 256 two-bit numbers, 16 six-bit scales minus 32, f16 factor.
/// A third bit of 0 subtracts 4.
static void decodeQ3_K(const uint8_t *block, float *numbers) {
  const uint8_t *codes = block + 32, *scales = block + 96;
  float factor = halfAt(block + 108);
  for (int group = 0; group < kLargeBlock / kGroup; ++group) {
    // Four low bits in the nibbles of eight bytes, two high ones in the
    // two-bit planes of four.
    int scale = (scales[group % 8] >> group / 8 * 4 & 15) |
                (scales[8 + group % 4] >> group / 4 * 2 & 3) << 4;
    float step = factor * float(scale - 32);
    const uint8_t *high = block + group % 2 * kGroup,
                  *from = codes + group / 8 * 32 + group % 2 * kGroup;
    int shift = group % 8 / 2 * 2, plane = group / 2;
    for (int i = 0; i < kGroup; ++i) {
      int code = (from[i] >> shift & 3) | (high[i] >> plane & 1) << 2;
      numbers[group * kGroup + i] = step * float(code - 4);
    }
  }
}

/// The six-bit scale and minimum of group `group` (of 8) of Q4_K and Q5_K, in
/// 12 bytes.
static std::pair<int, int> scaleAndLeast(const uint8_t *bytes, int group) {
  if (group < 4)
    return {bytes[group] & 63, bytes[group + 4] & 63};
  return {(bytes[group + 4] & 15) | (bytes[group - 4] >> 6) << 4,
          bytes[group + 4] >> 4 | (bytes[group] >> 6) << 4};
}

/// f16 factors of scales and minima, 8 scales and minima, 256 fifth bits for
/// `bits` = 5, 256 nibbles.
template <int bits> static void decodeK(const uint8_t *block, float *numbers) {
  float scale = halfAt(block), least = halfAt(block + 2);
  const uint8_t *high = block + 16, *codes = high + (bits == 5 ? 32 : 0);
  for (int group = 0; group < 8; ++group) {
    auto [groupScale, groupLeast] = scaleAndLeast(block + 4, group);
    float step = scale * float(groupScale), offset = least * float(groupLeast);
    const uint8_t *from = codes + group / 2 * kBlock;
    int shift = group % 2 * 4;
    for (int i = 0; i < kBlock; ++i) {
      int code = from[i] >> shift & 15;
      if (bits == 5)
        code |= (high[i] >> group & 1) << 4;
      numbers[group * kBlock + i] = step * float(code) - offset;
    }
  }
}

/// 256 nibbles, 256 two-bit high parts, 16 int8 scales, f16 factor; minus 32.
static void decodeQ6_K(const uint8_t *block, float *numbers) {
  const uint8_t *scales = block + 192;
  float factor = halfAt(block + 208);
  for (int group = 0; group < kLargeBlock / kGroup; ++group) {
    // 128 elements per 64 bytes of nibbles and 32 bytes of high parts.
    const uint8_t *low = block + group / 8 * 64 + group % 4 * kGroup,
                  *high = block + 128 + group / 8 * 32 + group % 2 * kGroup;
    int lowShift = group % 8 / 4 * 4, highShift = group % 8 / 2 * 2;
    float step = factor * float(int8_t(scales[group]));
    for (int i = 0; i < kGroup; ++i) {
      int code = (low[i] >> lowShift & 15) | (high[i] >> highShift & 3) << 4;
      numbers[group * kGroup + i] = step * float(code - 32);
    }
  }
}

//===----------------------------------------------------------------------===//
// Table
//===----------------------------------------------------------------------===//

static constexpr BlockFormat kFormats[] = {
    {"F32", 0, 1, 4, nullptr},
    {"F16", 1, 1, 2, nullptr},
    {"Q4_0", 2, kBlock, 18, decodeQ4_0},
    {"Q4_1", 3, kBlock, 20, decodeQ4_1},
    {"Q5_0", 6, kBlock, 22, decodeQ5_0},
    {"Q5_1", 7, kBlock, 24, decodeQ5_1},
    {"Q8_0", 8, kBlock, 34, decodeQ8_0},
    {"Q2_K", 10, kLargeBlock, 84, decodeQ2_K},
    {"Q3_K", 11, kLargeBlock, 110, decodeQ3_K},
    {"Q4_K", 12, kLargeBlock, 144, decodeK<4>},
    {"Q5_K", 13, kLargeBlock, 176, decodeK<5>},
    {"Q6_K", 14, kLargeBlock, 210, decodeQ6_K},
    {"BF16", 30, 1, 2, nullptr},
};

const BlockFormat *checkpoint::findBlockFormat(uint32_t type) {
  const BlockFormat *found = llvm::find_if(
      kFormats, [&](const BlockFormat &format) { return format.type == type; });
  return found == std::end(kFormats) ? nullptr : found;
}

std::string checkpoint::blockFormatNames() {
  return llvm::join(
      llvm::map_range(kFormats,
                      [](const BlockFormat &format) { return format.name; }),
      ", ");
}

void checkpoint::dequantize(const BlockFormat &format,
                            llvm::ArrayRef<uint8_t> blocks,
                            llvm::MutableArrayRef<float> numbers) {
  assert(format.isQuantized() && blocks.size() % format.bytes == 0 &&
         blocks.size() / format.bytes * format.elements == numbers.size());
  for (size_t i = 0, count = blocks.size() / format.bytes; i < count; ++i)
    format.decode(blocks.data() + i * format.bytes,
                  numbers.data() + i * format.elements);
}
