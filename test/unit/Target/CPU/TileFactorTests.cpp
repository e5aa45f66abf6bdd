//===- TileFactorTests.cpp - int8 and f16 in AMX tiles --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counterpart of IntegerKernelTests (vectors) and TileKernelTests (bf16): the
// arithmetic of the unit bit for bit, and the machine code, which can be
// inspected on any machine.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"
#include "MachineCode.h"
#include "TileProducts.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <random>

using namespace mpc;
using namespace mpc::cpu;

/// m x k times k x n; the right-hand side is packed with `depth`
/// positions in a step (0: unpacked).
static std::string product(int64_t m, int64_t k, int64_t n, const char *lhs,
                           const char *rhs, const char *sums, int64_t depth) {
  std::string y = llvm::formatv("tensor<{0}x{1}x{2}>", k, n, rhs), packed;
  if (depth) {
    y = llvm::formatv("tensor<{0}x{1}x{2}x{3}>", (n + 31) / 32,
                      (k + depth - 1) / depth, 32 * depth, rhs);
    packed = llvm::formatv("packed <columns = 32, depth = {0}>", depth);
  }
  return llvm::formatv(
      "func.func private @k(%x: tensor<{0}x{1}x{2}>, %w: {3}) -> "
      "tensor<{0}x{4}x{5}> attributes {{mpc.kernel_kind = \"contraction\"} {{\n"
      "%0 = mpc.matmul %x, %w {6} : (tensor<{0}x{1}x{2}>, {3}) -> "
      "tensor<{0}x{4}x{5}>\nreturn %0 : tensor<{0}x{4}x{5}>\n}\n",
      m, k, lhs, y, n, sums, packed);
}

/// A convolution of a 14 x 28 image of 64 channels with 64 filters of 3 x 3.
static std::string convolution(const char *lhs, const char *rhs,
                               const char *sums) {
  return llvm::formatv(
      "func.func private @k(%x: tensor<1x14x28x64x{0}>, %y: "
      "tensor<64x64x3x3x{1}>) -> tensor<1x14x28x64x{2}> attributes "
      "{{mpc.kernel_kind = \"convolution\"} {{\n%0 = mpc.conv %x, %y "
      "strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) groups(1) "
      "layout(channels_last) : (tensor<1x14x28x64x{0}>, tensor<64x64x3x3x{1}>)"
      " -> tensor<1x14x28x64x{2}>\nreturn %0 : tensor<1x14x28x64x{2}>\n}\n",
      lhs, rhs, sums);
}

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

/// Computes a matmul of f16 on `isa`, of any f16 numbers except NaNs; those of
/// even rounds are subnormal or close to it.
static DrawnProduct compute(CpuIsa isa, int64_t m, int64_t k, int64_t n,
                            int round) {
  std::mt19937 engine(round);
  return computeDrawn(
      product(m, k, n, "f16", "f16", "f32", 0), isa, m, k, n, [&] {
        uint16_t bits = engine();
        if (round % 2 == 0)
          bits &= 0x87ff;
        else if ((bits & 0x7c00) == 0x7c00)
          bits &= 0xfc00;
        return llvm::APFloat(llvm::APFloat::IEEEhalf(), llvm::APInt(16, bits))
            .convertToFloat();
      });
}

TEST(TileF16, EmulationComputesTheDocumentedBits) {
  for (auto [k, step] : {std::pair(64, 32), std::pair(56, 28)})
    for (int round = 0; round < 6; ++round)
      expectDocumented(compute(CpuIsa::EmulatedAmxFp16, 19, k, 37, round), step,
                       round);
}

TEST(TileF16, EmulationComputesTheInstructionsBits) {
  if (!llvm::is_contained(CpuTarget::available(), CpuIsa::AmxFp16))
    GTEST_SKIP() << "this machine has no AMX-FP16";
  for (int round = 0; round < 8; ++round)
    expectSame(compute(CpuIsa::AmxFp16, 45, 115, 70, round),
               compute(CpuIsa::EmulatedAmxFp16, 45, 115, 70, round), round);
}

//===----------------------------------------------------------------------===//
// Machine code
//===----------------------------------------------------------------------===//

namespace {
/// Operands and the one instruction that multiplies them in tiles.
struct Factors {
  const char *lhs, *rhs, *sums, *instruction;
  CpuIsa isa;
  /// Positions in a step, and the instruction for the remainder.
  int64_t depth;
  const char *rest;
  /// How often for a row and a vector of columns.
  int64_t restCount;
};
} // namespace

static const Factors kFactors[] = {
    {"ui8", "i8", "i32", "tdpbusd", CpuIsa::Amx, 4, "vpdpbusd", 1},
    {"i8", "i8", "i32", "tdpbssd", CpuIsa::Amx, 4, "vpmaddwd", 2},
    {"i8", "ui8", "i32", "tdpbsud", CpuIsa::Amx, 4, "vpmaddwd", 2},
    {"ui8", "ui8", "i32", "tdpbuud", CpuIsa::Amx, 4, "vpmaddwd", 2},
    // The first operation of a pair adds to zero, in another form.
    {"f16", "f16", "f32", "tdpfp16ps", CpuIsa::AmxFp16, 2, "vfmadd231ps", 1},
};

// Two by two tiles: four loads for four products, and accumulators that are
// stored once, after the loop over K: 1,536 bytes are 24 whole steps.
TEST(TileFactorCode, SumsStayInTiles) {
  for (const Factors &factors : kFactors) {
    SCOPED_TRACE(factors.instruction);
    std::vector<std::string> code =
        machineCode(product(128, 384 * factors.depth, 64, factors.lhs,
                            factors.rhs, factors.sums, factors.depth),
                    CpuTarget{factors.isa});
    EXPECT_EQ(count(code, factors.instruction), 4);
    EXPECT_EQ(count(code, "tileloadd"), 2);
    EXPECT_EQ(count(code, "tileloaddt1"), 2);
    EXPECT_EQ(count(code, "tilezero"), 4);
    EXPECT_EQ(count(code, "tilestored"), 4);
    EXPECT_EQ(count(code, "ldtilecfg"), 1);
    EXPECT_EQ(count(code, "tilerelease"), 1);
    EXPECT_EQ(count(code, factors.rest), 0);
    EXPECT_LE(count(code, "callq"), 1); // the body, where it is not inlined
    // Between two tile products there are only tile loads.
    auto isProduct = [&](llvm::StringRef line) {
      return line.contains(factors.instruction);
    };
    auto first = llvm::find_if(code, isProduct), last = code.end();
    while (!isProduct(*--last))
      ;
    EXPECT_LE(last - first, 8);
  }
}

// Two positions more than whole steps are a remainder for vector code.
TEST(TileFactorCode, RestsOfTheDepthTakeVectors) {
  for (const Factors &factors : kFactors) {
    SCOPED_TRACE(factors.instruction);
    std::vector<std::string> code =
        machineCode(product(50, 64 * factors.depth + 2, 64, factors.lhs,
                            factors.rhs, factors.sums, factors.depth),
                    CpuTarget{factors.isa});
    EXPECT_EQ(count(code, factors.instruction), 4);
    EXPECT_EQ(count(code, "ldtilecfg"), 1);
    EXPECT_EQ(count(code, factors.rest), factors.restCount * 2 * 25);
  }
}

// A convolution loops over its window with accumulators in tiles.
TEST(TileFactorCode, ConvolutionsTakeTiles) {
  for (const Factors &factors : kFactors) {
    SCOPED_TRACE(factors.instruction);
    std::vector<std::string> code =
        machineCode(convolution(factors.lhs, factors.rhs, factors.sums),
                    CpuTarget{factors.isa});
    EXPECT_EQ(count(code, factors.instruction), 4);
    EXPECT_EQ(count(code, "tilezero"), 4);
    EXPECT_EQ(count(code, "tilestored"), 4);
    EXPECT_EQ(count(code, factors.rest), 0);
  }
}

// Runs that fill no tile: three channels, three pixels.
TEST(TileFactorCode, ShortRunsTakeVectors) {
  std::string text =
      "func.func private @k(%x: tensor<1x14x28x3xui8>, %y: tensor<64x3x3x3xi8>)"
      " -> tensor<1x12x26x64xi32> attributes {mpc.kernel_kind = "
      "\"convolution\"} {\n%0 = mpc.conv %x, %y strides([1, 1]) pad([0, 0], "
      "[0, 0]) dilations([1, 1]) groups(1) layout(channels_last) : "
      "(tensor<1x14x28x3xui8>, tensor<64x3x3x3xi8>) -> "
      "tensor<1x12x26x64xi32>\nreturn %0 : tensor<1x12x26x64xi32>\n}\n";
  std::vector<std::string> code = machineCode(text, CpuTarget{CpuIsa::Amx});
  EXPECT_EQ(count(code, "tdpbusd") + count(code, "ldtilecfg"), 0);
  EXPECT_GT(count(code, "vpdpbusd"), 0);
}
