//===- TermKernelTests.cpp - bf16 splits in AMX tiles ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// f16 operands, and f32 operands where a mode permits it, as sums of bf16
// values: against the interpreter, bit for bit, and as machine code.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"
#include "MachineCode.h"
#include "TileProducts.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <limits>
#include <random>

using namespace mpc;
using namespace mpc::cpu;

namespace {
/// Operand type and compute mode.
struct Factors {
  const char *type, *mode;
  /// Positions in a step of packed constants in tiles, and bf16 products.
  int64_t depth, products;
};
} // namespace

static const Factors kFactors[] = {{"f16", "", 2, 4},
                                   {"f32", "compute(bf16x2)", 1, 3},
                                   {"f32", "compute(bf16x3)", 1, 6}};

static std::string kernelOf(const std::string &x, const std::string &w,
                            const std::string &y, const std::string &op) {
  return llvm::formatv("func.func private @k(%x: tensor<{0}>, %w: tensor<{1}>) "
                       "-> tensor<{2}> attributes {{mpc.kernel_kind = "
                       "\"library\"} {{\n%0 = {3} : (tensor<{0}>, tensor<{1}>) "
                       "-> tensor<{2}>\nreturn %0 : tensor<{2}>\n}\n",
                       x, w, y, op);
}

static std::string product(const Factors &factors, const std::string &x,
                           const std::string &w, const std::string &y,
                           const std::string &flags = "",
                           const std::string &packing = "") {
  std::string type = std::string("x") + factors.type;
  return kernelOf(x + type, w + type, y + "xf32",
                  "mpc.matmul %x, %w " + flags + " " + factors.mode + " " +
                      packing);
}

/// m x k times k x n, of which a constant was packed for tiles.
static std::string packed(const Factors &factors, int64_t m, int64_t k,
                          int64_t n) {
  int64_t depth = factors.depth;
  return product(factors, llvm::formatv("{0}x{1}", m, k),
                 llvm::formatv("{0}x{1}x{2}", (n + 31) / 32,
                               (k + depth - 1) / depth, 32 * depth),
                 llvm::formatv("{0}x{1}", m, n), "",
                 llvm::formatv("packed <columns = 32, depth = {0}>", depth));
}

/// Checks the kernel with bf16 splits in tiles.
static void expectOnTiles(const std::string &text,
                          const KernelCheck &check = {}) {
  CpuTarget target{CpuIsa::EmulatedAmx};
  EXPECT_EQ(checkKernel(text, target, check), "") << text;
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

// Every ISA level supports the modes; small matmuls do not use splits.
TEST(TermKernel, ProductsOnAllLevels) {
  for (const Factors &factors : kFactors) {
    expectKernel(product(factors, "64x48", "48x64", "64x64"));
    expectKernel(product(factors, "9x40", "40x70", "9x70"));
  }
}

// Blocks of two sizes, rests of the depth, one column of tiles and two.
TEST(TermKernel, Products) {
  expectOnTiles(product(kFactors[2], "70x47", "47x75", "70x75"));
  for (const Factors &factors : kFactors) {
    expectOnTiles(product(factors, "64x50", "80x50", "64x80", "transpose_rhs"));
    expectOnTiles(product(factors, "48x66", "48x64", "66x64", "transpose_lhs"));
    expectOnTiles(product(factors, "2x64x20", "2x20x70", "2x64x70"));
  }
}

// Sums that wait in memory from one part of the depth to the next.
TEST(TermKernel, ProductsInChunks) {
  for (const Factors &factors : kFactors)
    expectOnTiles(product(factors, "64x1280", "1280x75", "64x75"));
  expectOnTiles(
      product(kFactors[1], "1280x64", "1280x64", "64x64", "transpose_lhs"));
}

TEST(TermKernel, PackedConstants) {
  for (const Factors &factors : kFactors)
    for (auto [m, k, n] : {std::tuple(70, 64, 64), std::tuple(64, 48, 75),
                           std::tuple(9, 48, 75), std::tuple(130, 1100, 100)})
      expectOnTiles(packed(factors, m, k, n));
}

static std::string convolution(const Factors &factors, const std::string &x,
                               const std::string &w, const std::string &y,
                               const std::string &op, const std::string &form) {
  std::string type = std::string("x") + factors.type,
              mode = std::string(factors.mode) + " ",
              layout = "layout(channels_last) ";
  return kernelOf(x + type, w + type, y + "xf32",
                  op + " %x, %w " + form + " " + layout + mode);
}

TEST(TermKernel, Convolutions) {
  std::string padded = "strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1])",
              plain = "strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1])";
  expectOnTiles(convolution(kFactors[0], "1x5x40x7", "70x7x3x3", "1x3x38x70",
                            "mpc.conv", plain));
  for (const Factors &factors : kFactors) {
    expectOnTiles(convolution(factors, "1x8x9x24", "64x24x3x3", "1x8x9x64",
                              "mpc.conv", padded));
    expectOnTiles(convolution(factors, "2x9x9x24", "128x12x3x3", "2x7x7x128",
                              "mpc.conv", plain + " groups(2)"));
    expectOnTiles(convolution(factors, "2x6x14x20", "2x6x14x70", "70x20x3x3",
                              "mpc.conv_filter_gradient", padded));
    expectOnTiles(convolution(factors, "3x5x33x66", "3x5x33x65", "65x66x1x1",
                              "mpc.conv_filter_gradient", plain));
  }
}

// A constant filter's runs of 3 pixels: of 7 channels, which end in a word of
// their own, and of 24.
TEST(TermKernel, PackedFilters) {
  for (const Factors &factors : {kFactors[0], kFactors[1]})
    for (auto [channels, padding, runs, run] :
         {std::tuple(7, 0, 3, 21), std::tuple(24, 1, 3, 72)}) {
      int64_t depth = factors.depth, steps = (run + depth - 1) / depth * runs;
      std::string op = llvm::formatv(
          "mpc.conv %x, %w strides([1, 1]) pad([{0}, {0}], [{0}, {0}]) "
          "dilations([1, 1]) layout(channels_last) window([3, 3]) {1} packed "
          "<columns = 32, depth = {2}>",
          padding, factors.mode, depth);
      int64_t out = 8 - 2 + 2 * padding;
      std::string type = std::string("x") + factors.type;
      expectOnTiles(
          kernelOf(llvm::formatv("1x8x10x{0}", channels).str() + type,
                   llvm::formatv("3x{0}x{1}", steps, 32 * depth).str() + type,
                   llvm::formatv("1x{0}x{1}x70xf32", out, out + 2), op));
    }
}

// Numbers of f16 below its normal ones are numbers like any other.
TEST(TermKernel, SubnormalFactors) {
  KernelCheck check;
  check.scale = 1e-6;
  expectOnTiles(product(kFactors[0], "64x48", "48x64", "64x64"), check);
}

// An infinity or NaN in a product is one in the product of the bf16 splits: the
// remainder of an infinity is NaN, that of a power of two is zero.
TEST(TermKernel, InfinitiesAndNaNs) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const Factors &factors : kFactors) {
    KernelCheck check;
    auto put = [&](unsigned index, reference::Tensor &tensor) {
      auto values = tensor.floats();
      size_t columns = tensor.getShape()[1];
      if (index == 1) {
        for (size_t j = 0; j < columns; ++j)
          values[3 * columns + j] = j % 3 == 0 ? 0 : j % 3 == 1 ? 1 : -2.5;
        return;
      }
      values[1 * columns + 3] = kInfinity;
      values[2 * columns + 3] = -kInfinity;
      values[2 * columns + 4] = kInfinity;
      values[5 * columns + 20] = std::numeric_limits<double>::quiet_NaN();
    };
    check.adjust = put;
    std::string text = product(factors, "64x48", "48x64", "64x64");
    expectOnTiles(text, check);
    EXPECT_EQ(checkKernel(text, CpuTarget{CpuIsa::Avx2}, check), "");
  }
}

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

/// bf16 split of `value`: truncated if it is exact (f16), else rounded.
static std::vector<float> termsOf(float value, const Factors &factors) {
  std::vector<float> terms;
  for (int64_t term = 0; term < 3; ++term) {
    llvm::APFloat next(value);
    bool lost;
    next.convert(llvm::APFloat::BFloat(),
                 factors.products == 4 ? llvm::APFloat::rmTowardZero
                                       : llvm::APFloat::rmNearestTiesToEven,
                 &lost);
    terms.push_back(flushed(next.convertToFloat()));
    value -= next.convertToFloat();
  }
  return terms;
}

// Each pair of split values is an instruction: the accumulators of the leading
// values and of all others are added at the end.
TEST(TermKernel, EmulationComputesTheDocumentedBits) {
  constexpr int64_t kRows = 66, kDepth = 64, kColumns = 70, kStep = 32;
  constexpr std::pair<int, int> kPairs[] = {{0, 0}, {0, 2}, {0, 1},
                                            {1, 1}, {1, 0}, {2, 0}};
  for (const Factors &factors : kFactors) {
    std::mt19937 engine(3);
    std::normal_distribution<float> normal;
    DrawnProduct drawn = computeDrawn(
        product(factors, "66x64", "64x70", "66x70"), CpuIsa::EmulatedAmx, kRows,
        kDepth, kColumns, [&]() -> double {
          llvm::APFloat value(normal(engine));
          bool lost;
          if (factors.products == 4)
            value.convert(llvm::APFloat::IEEEhalf(),
                          llvm::APFloat::rmNearestTiesToEven, &lost);
          return value.convertToFloat();
        });
    ASSERT_EQ(drawn.results.size(), 1u);
    auto isSummed = [&](int row, int column) {
      return factors.products == 4   ? row < 2 && column < 2
             : factors.products == 3 ? row + column < 2
                                     : row + column < 3;
    };
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t j = 0; j < kColumns; ++j) {
        std::vector<std::vector<float>> x, y;
        for (int64_t k = 0; k < kDepth; ++k) {
          x.push_back(termsOf(drawn.x[i * kDepth + k], factors));
          y.push_back(termsOf(drawn.y[k * kColumns + j], factors));
        }
        float sums[2] = {};
        for (int64_t first = 0; first < kDepth; first += kStep)
          for (auto [row, column] : kPairs) {
            if (!isSummed(row, column))
              continue;
            float halves[2] = {};
            for (int64_t k = first; k < first + kStep; ++k)
              halves[k % 2] =
                  flushed(std::fma(x[k][row], y[k][column], halves[k % 2]));
            float &sum = sums[row + column > 0];
            sum = flushed(sum + flushed(halves[0] + halves[1]));
          }
        float actual = drawn.result(i * kColumns + j);
        ASSERT_TRUE(same(actual, sums[0] + sums[1]))
            << factors.type << factors.mode << " [" << i << ", " << j
            << "]: " << actual << " and " << sums[0] + sums[1];
      }
  }
}

TEST(TermKernel, EmulationComputesTheInstructionsBits) {
  if (!llvm::is_contained(CpuTarget::available(), CpuIsa::Amx))
    GTEST_SKIP() << "this machine has no AMX";
  for (const Factors &factors : kFactors) {
    auto compute = [&](CpuIsa isa) {
      std::mt19937 engine(4);
      return computeDrawn(
          product(factors, "75x115", "115x70", "75x70"), isa, 75, 115, 70,
          [&] { return double(int64_t(engine() % 4096) - 2048) / 1024; });
    };
    expectSame(compute(CpuIsa::Amx), compute(CpuIsa::EmulatedAmx), 0);
  }
}

//===----------------------------------------------------------------------===//
// Machine code
//===----------------------------------------------------------------------===//

// The accumulators of two by two tiles stay in tiles for all of K, once for
// the leading bf16 values and once for the others, whose loop reloads a tile
// only if its bf16 value changes.
TEST(TermCode, SumsStayInTiles) {
  for (const Factors &factors : kFactors) {
    SCOPED_TRACE(factors.products);
    std::vector<std::string> code =
        machineCode(packed(factors, 128, 768, 64), CpuTarget{CpuIsa::Amx});
    EXPECT_EQ(count(code, "tdpbf16ps"), 4 * factors.products);
    // Neighbours of the others share a term but in bf16x2.
    int64_t loads = 4 + (factors.products == 3 ? 8 : 2 * factors.products);
    EXPECT_EQ(count(code, "tileloadd") + count(code, "tileloaddt1"), loads);
    EXPECT_EQ(count(code, "tilezero"), 8);
    EXPECT_EQ(count(code, "tilestored"), 8);
    EXPECT_EQ(count(code, "ldtilecfg"), 1);
    EXPECT_EQ(count(code, "tilerelease"), 1);
    EXPECT_EQ(count(code, "vdpbf16ps"), 0);
    EXPECT_LE(count(code, "callq"), 1); // the body, where it is not inlined
  }
}

// ISAs on which a bf16 split is not faster, and matmuls with too few rows to
// amortize splitting the panels, multiply in f32.
TEST(TermCode, OtherUnitsMultiplyWholeFactors) {
  for (const Factors &factors : kFactors) {
    SCOPED_TRACE(factors.products);
    for (auto [isa, rows] :
         {std::pair(CpuIsa::Avx512Bf16, "128"),
          std::pair(CpuIsa::Avx512, "128"), std::pair(CpuIsa::Avx2, "128"),
          std::pair(CpuIsa::Amx, "32")}) {
      std::string x = rows, y = rows;
      std::vector<std::string> code = machineCode(
          product(factors, x + "x768", "768x64", y + "x64"), CpuTarget{isa});
      EXPECT_EQ(count(code, "tdpbf16ps") + count(code, "vdpbf16ps"), 0);
      EXPECT_GT(count(code, "vfmadd231ps"), 0);
    }
  }
}

// AMX-FP16 multiplies f16 as it is.
TEST(TermCode, F16IsNotSplitWhereAUnitMultipliesIt) {
  std::vector<std::string> code = machineCode(packed(kFactors[0], 128, 768, 64),
                                              CpuTarget{CpuIsa::AmxFp16});
  EXPECT_EQ(count(code, "tdpbf16ps"), 0);
  EXPECT_EQ(count(code, "tdpfp16ps"), 4);
}
