//===- TileKernelTests.cpp - bf16 matmuls in AMX tiles --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels are checked with those of all ISA levels; these tests check the
// arithmetic of the unit bit for bit, and the machine code, which can be
// inspected on any machine.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"
#include "MachineCode.h"
#include "TileProducts.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <bit>
#include <random>

using namespace mpc;
using namespace mpc::cpu;

static std::string product(int64_t m, int64_t k, int64_t n,
                           const std::string &attributes = "") {
  return llvm::formatv(
      "func.func private @k(%x: tensor<{0}x{1}xbf16>, %w: "
      "tensor<{3}x{4}x64xbf16>, %b: tensor<{2}xf32>) -> tensor<{0}x{2}xf32> "
      "attributes {{mpc.kernel_kind = \"contraction\"{5}} {{\n%0 = mpc.matmul "
      "%x, %w packed <columns = 32, interleave = 1, depth = 2> : "
      "(tensor<{0}x{1}xbf16>, tensor<{3}x{4}x64xbf16>) -> tensor<{0}x{2}xf32>\n"
      "%1 = mpc.add %0, %b : (tensor<{0}x{2}xf32>, tensor<{2}xf32>) -> "
      "tensor<{0}x{2}xf32>\n%2 = mpc.relu %1 : tensor<{0}x{2}xf32>\nreturn %2 "
      ": tensor<{0}x{2}xf32>\n}\n",
      m, k, n, (n + 31) / 32, (k + 1) / 2, attributes);
}

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

/// Computes m x k times k x n on `isa`, of any bf16 numbers except NaNs; even
/// rounds have similar exponents, so that no summand or product is
/// absorbed.
static DrawnProduct compute(CpuIsa isa, int64_t m, int64_t k, int64_t n,
                            int round) {
  std::mt19937 engine(round);
  int least = round % 2 ? 0 : int(engine() % 110),
      most = round % 2 ? 255 : least + 40;
  std::string text = llvm::formatv(
      "func.func private @k(%x: tensor<{0}x{1}xbf16>, %w: tensor<{1}x{2}xbf16>)"
      " -> tensor<{0}x{2}xf32> attributes {{mpc.kernel_kind = \"contraction\"} "
      "{{\n%0 = mpc.matmul %x, %w : (tensor<{0}x{1}xbf16>, "
      "tensor<{1}x{2}xbf16>) -> tensor<{0}x{2}xf32>\nreturn %0 : "
      "tensor<{0}x{2}xf32>\n}\n",
      m, k, n);
  return computeDrawn(text, isa, m, k, n, [&] {
    uint32_t exponent = least + engine() % (most - least + 1);
    uint32_t fraction = exponent == 255 ? 0 : engine() % 128;
    return std::bit_cast<float>(uint32_t(engine() % 2) << 31 | exponent << 23 |
                                fraction << 16);
  });
}

// 56 positions are two steps of 28: tiles are as deep as the run allows.
TEST(AmxTiles, EmulationComputesTheDocumentedBits) {
  for (auto [k, step] : {std::pair(64, 32), std::pair(56, 28)})
    for (int round = 0; round < 6; ++round)
      expectDocumented(compute(CpuIsa::EmulatedAmx, 19, k, 37, round), step,
                       round);
}

TEST(AmxTiles, EmulationComputesTheInstructionsBits) {
  if (!llvm::is_contained(CpuTarget::available(), CpuIsa::Amx))
    GTEST_SKIP() << "this machine has no AMX";
  for (int round = 0; round < 8; ++round)
    expectSame(compute(CpuIsa::Amx, 45, 115, 70, round),
               compute(CpuIsa::EmulatedAmx, 45, 115, 70, round), round);
}

//===----------------------------------------------------------------------===//
// Shapes that tiles cut in a way of their own
//===----------------------------------------------------------------------===//

static void expectInTiles(const std::string &text) {
  for (CpuIsa isa : floatLevels()) {
    CpuTarget target{isa};
    if (target.hasTiles())
      EXPECT_EQ(checkKernel(text, target), "") << target.name().str() << "\n"
                                               << text;
  }
}

// One position more than pairs, incomplete steps, rows of one
// tile and of several, blocks of two sizes, one column of tiles and two.
TEST(TileKernel, RemaindersOfMatmuls) {
  for (auto [m, k, n] :
       {std::tuple(1, 64, 10), std::tuple(49, 785, 70), std::tuple(33, 31, 33),
        std::tuple(100, 14, 64), std::tuple(16, 2048, 160)})
    expectInTiles(product(m, k, n));
}

TEST(TileKernel, ProductsInChunks) {
  auto text = [](const char *x, const char *w, const char *y,
                 const char *flags) -> std::string {
    return llvm::formatv(
        "func.func private @k(%x: tensor<{0}xbf16>, %w: tensor<{1}xbf16>) -> "
        "tensor<{2}xf32> attributes {{mpc.kernel_kind = \"contraction\"} {{\n"
        "%0 = mpc.matmul %x, %w {3} : (tensor<{0}xbf16>, tensor<{1}xbf16>) -> "
        "tensor<{2}xf32>\nreturn %0 : tensor<{2}xf32>\n}\n",
        x, w, y, flags);
  };
  expectInTiles(text("60x1300", "1300x75", "60x75", ""));
  expectInTiles(text("1300x60", "1300x75", "60x75", "transpose_lhs"));
  expectInTiles(
      text("1300x45", "75x1300", "45x75", "transpose_lhs transpose_rhs"));
  // Too few positions or rows for squares.
  expectInTiles(text("13x45", "13x40", "45x40", "transpose_lhs"));
  expectInTiles(text("2x40x9", "2x40x33", "2x9x33", "transpose_lhs"));
}

/// A convolution of `image` (and its padding all around), or its filter's
/// gradient.
static std::string convolution(std::vector<int64_t> image, int64_t outputs,
                               int64_t window, int64_t pad, int64_t stride,
                               int64_t dilation, int64_t groups,
                               bool isGradient) {
  auto extent = [&](int64_t in) {
    return (in + 2 * pad - dilation * (window - 1) - 1) / stride + 1;
  };
  std::string x = llvm::formatv("tensor<{0}x{1}x{2}x{3}xbf16>", image[0],
                                image[1], image[2], image[3]);
  std::string y = llvm::formatv("tensor<{0}x{1}x{2}x{3}x", image[0],
                                extent(image[1]), extent(image[2]), outputs);
  std::string w = llvm::formatv("tensor<{0}x{1}x{2}x{2}x", outputs,
                                image[3] / groups, window);
  std::string other = (isGradient ? y : w) + "bf16>",
              result = (isGradient ? w : y) + "f32>";
  return llvm::formatv(
      "func.func private @k(%x: {0}, %y: {1}) -> {2} attributes "
      "{{mpc.kernel_kind = \"convolution\"} {{\n%0 = mpc.{3} %x, %y "
      "strides([{4}, {4}]) pad([{5}, {5}], [{5}, {5}]) dilations([{6}, {6}]) "
      "groups({7}) layout(channels_last) : ({0}, {1}) -> {2}\nreturn %0 : "
      "{2}\n}\n",
      x, other, result, isGradient ? "conv_filter_gradient" : "conv", stride,
      pad, dilation, groups);
}

// Lines of 7 pixels: four of them in two pairs of tiles. Of 40: blocks of one
// line. Runs of 24 and of 3 * 7 neighbours.
TEST(TileKernel, Convolutions) {
  expectInTiles(convolution({1, 7, 7, 24}, 40, 3, 1, 1, 1, 1, false));
  expectInTiles(convolution({2, 6, 40, 7}, 20, 3, 0, 1, 1, 1, false));
  expectInTiles(convolution({1, 11, 13, 32}, 32, 3, 2, 2, 2, 2, false));
  expectInTiles(convolution({2, 5, 6, 33}, 35, 1, 0, 1, 1, 1, false));
}

TEST(TileKernel, FilterGradients) {
  expectInTiles(convolution({2, 6, 14, 20}, 40, 3, 1, 1, 1, 1, true));
  expectInTiles(convolution({1, 5, 33, 48}, 10, 3, 0, 1, 1, 1, true));
  expectInTiles(convolution({2, 9, 17, 64}, 64, 3, 1, 1, 2, 2, true));
  expectInTiles(convolution({3, 4, 13, 13}, 33, 1, 0, 1, 1, 1, true));
}

//===----------------------------------------------------------------------===//
// Machine code
//===----------------------------------------------------------------------===//

static std::vector<std::string> codeForAmx(const std::string &text) {
  return machineCode(text, CpuTarget{CpuIsa::Amx});
}

// Two by two tiles: four loads for four products, and accumulators that are
// stored once, after the loop over K. One configuration for the function.
TEST(TileCode, SumsStayInTiles) {
  std::vector<std::string> code = codeForAmx(product(128, 768, 64));
  EXPECT_EQ(count(code, "tdpbf16ps"), 4);
  EXPECT_EQ(count(code, "tileloadd"), 2);
  EXPECT_EQ(count(code, "tileloaddt1"), 2);
  EXPECT_EQ(count(code, "tilezero"), 4);
  EXPECT_EQ(count(code, "tilestored"), 4);
  EXPECT_EQ(count(code, "ldtilecfg"), 1);
  EXPECT_EQ(count(code, "tilerelease"), 1);
  EXPECT_EQ(count(code, "vdpbf16ps"), 0);
  EXPECT_LE(count(code, "callq"), 1); // the body, where it is not inlined
  // Between two tile products there are only tile loads: their addresses are
  // computed in between.
  auto isProduct = [](llvm::StringRef line) {
    return line.contains("tdpbf16ps");
  };
  auto first = llvm::find_if(code, isProduct), last = code.end();
  while (!isProduct(*--last))
    ;
  EXPECT_LE(last - first, 8);
}

// 785 positions are 28 steps of 28 and one left; 50 rows are blocks of 25 in
// tiles of 13 and 12.
TEST(TileCode, RestsOfTheDepthTakeVectors) {
  std::vector<std::string> code = codeForAmx(product(50, 785, 64));
  EXPECT_EQ(count(code, "tdpbf16ps"), 4);
  EXPECT_EQ(count(code, "ldtilecfg"), 1);
  EXPECT_EQ(count(code, "vdpbf16ps"), 2 * 25);
}

// Blocks of two sizes have two configurations.
TEST(TileCode, ShapesThatDifferAreConfiguredWhereTheyAreUsed) {
  std::vector<std::string> code = codeForAmx(product(49, 64, 64));
  EXPECT_EQ(count(code, "tdpbf16ps"), 8);
  EXPECT_EQ(count(code, "ldtilecfg"), 2);
  EXPECT_EQ(count(code, "tilerelease"), 1);
}

// If N is one tile wide, no second tile is computed.
TEST(TileCode, NarrowResultsHaveOneColumnOfTiles) {
  std::vector<std::string> code = codeForAmx(product(128, 256, 10));
  EXPECT_EQ(count(code, "tdpbf16ps"), 2);
  EXPECT_EQ(count(code, "tileloadd") + count(code, "tileloaddt1"), 3);
}

// A convolution loops over its window with accumulators in tiles. A filter
// gradient spills accumulators to memory from one part of an image to the next,
// and its rows are in channel planes.
TEST(TileCode, ConvolutionsAndFilterGradientsTakeTiles) {
  std::vector<std::string> code =
      codeForAmx(convolution({1, 14, 28, 64}, 64, 3, 1, 1, 1, 1, false));
  EXPECT_EQ(count(code, "tdpbf16ps"), 4);
  EXPECT_EQ(count(code, "tilezero"), 4);
  EXPECT_EQ(count(code, "tilestored"), 4);
  EXPECT_EQ(count(code, "vdpbf16ps"), 0);
  code = codeForAmx(convolution({2, 28, 28, 64}, 64, 3, 1, 1, 1, 1, true));
  EXPECT_EQ(count(code, "tdpbf16ps"), 4);
  EXPECT_EQ(count(code, "tileloadd") + count(code, "tileloaddt1"), 4 + 4);
  EXPECT_EQ(count(code, "tilestored"), 4);
  EXPECT_EQ(count(code, "vdpbf16ps"), 0);
}
