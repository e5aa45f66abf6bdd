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

/// Returns bit `index` of little-endian bytes.
static uint8_t bitAt(const uint8_t *bytes, int index) {
  return bytes[index / 8] >> index % 8 & 1;
}

//===----------------------------------------------------------------------===//
// Blocks of 32 elements
//===----------------------------------------------------------------------===//

/// Elements of a block; the low nibbles of 16 bytes are the first half.
static constexpr int kBlock = 32;

/// Returns the nibble of element `i` of a block of 32.
static uint8_t nibbleAt(const uint8_t *bytes, int i) {
  return i < kBlock / 2 ? bytes[i] & 15 : bytes[i - kBlock / 2] >> 4;
}

/// f16 scale, 32 x int8.
static void decodeQ8_0(const uint8_t *block, float *numbers) {
  float scale = halfAt(block);
  for (int i = 0; i < kBlock; ++i)
    numbers[i] = scale * float(int8_t(block[2 + i]));
}

/// f16 scale, 32 nibbles minus 8.
static void decodeQ4_0(const uint8_t *block, float *numbers) {
  float scale = halfAt(block);
  for (int i = 0; i < kBlock; ++i)
    numbers[i] = scale * float(nibbleAt(block + 2, i) - 8);
}

/// f16 scale, f16 minimum, 32 nibbles.
static void decodeQ4_1(const uint8_t *block, float *numbers) {
  float scale = halfAt(block), least = halfAt(block + 2);
  for (int i = 0; i < kBlock; ++i)
    numbers[i] = scale * float(nibbleAt(block + 4, i)) + least;
}

/// f16 scale, 32 fifth bits, 32 nibbles; minus 16.
static void decodeQ5_0(const uint8_t *block, float *numbers) {
  float scale = halfAt(block);
  for (int i = 0; i < kBlock; ++i)
    numbers[i] =
        scale * float((nibbleAt(block + 6, i) | bitAt(block + 2, i) << 4) - 16);
}

/// f16 scale, f16 minimum, 32 fifth bits, 32 nibbles.
static void decodeQ5_1(const uint8_t *block, float *numbers) {
  float scale = halfAt(block), least = halfAt(block + 2);
  for (int i = 0; i < kBlock; ++i)
    numbers[i] =
        scale * float(nibbleAt(block + 8, i) | bitAt(block + 4, i) << 4) +
        least;
}

//===----------------------------------------------------------------------===//
// Blocks of 256 elements ("K")
//===----------------------------------------------------------------------===//

static constexpr int kLargeBlock = 256;

/// 16 groups of 16 two-bit numbers, a byte with a scale (low nibble) and a
/// minimum (high nibble) per group, f16 factors of scales and minima at the
/// end.
static void decodeQ2_K(const uint8_t *block, float *numbers) {
  const uint8_t *codes = block + 16;
  float scale = halfAt(block + 80), least = halfAt(block + 82);
  for (int i = 0; i < kLargeBlock; ++i) {
    uint8_t group = block[i / 16];
    // 128 elements per 32 bytes, in four planes of two bits.
    int code = codes[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
    numbers[i] =
        scale * float(group & 15) * float(code) - least * float(group >> 4);
  }
}

/// 256 third bits, 256 two-bit numbers, 16 six-bit scales minus 32, f16 factor.
/// A third bit of 0 subtracts 4.
static void decodeQ3_K(const uint8_t *block, float *numbers) {
  const uint8_t *codes = block + 32, *scales = block + 96;
  float factor = halfAt(block + 108);
  for (int i = 0; i < kLargeBlock; ++i) {
    int group = i / 16;
    // Four low bits in the nibbles of eight bytes, two high ones in the
    // two-bit planes of four.
    int scale = (scales[group % 8] >> group / 8 * 4 & 15) |
                (scales[8 + group % 4] >> group / 4 * 2 & 3) << 4;
    int code = codes[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
    if (!(block[i % 32] >> i / 32 & 1))
      code -= 4;
    numbers[i] = factor * float(scale - 32) * float(code);
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
    for (int i = 0; i < kBlock; ++i) {
      int code = codes[group / 2 * kBlock + i] >> group % 2 * 4 & 15;
      if (bits == 5)
        code |= (high[i] >> group & 1) << 4;
      numbers[group * kBlock + i] = step * float(code) - offset;
    }
  }
}

/// 256 nibbles, 256 two-bit high parts, 16 int8 scales, f16 factor; minus 32.
static void decodeQ6_K(const uint8_t *block, float *numbers) {
  const uint8_t *high = block + 128, *scales = block + 192;
  float factor = halfAt(block + 208);
  for (int i = 0; i < kLargeBlock; ++i) {
    // 128 elements per 64 bytes of nibbles and 32 bytes of high parts.
    int half = i / 128, place = i % 128;
    int code = (block[half * 64 + place % 64] >> place / 64 * 4 & 15) |
               (high[half * 32 + place % 32] >> place / 32 * 2 & 3) << 4;
    numbers[i] = factor * float(int8_t(scales[i / 16])) * float(code - 32);
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
