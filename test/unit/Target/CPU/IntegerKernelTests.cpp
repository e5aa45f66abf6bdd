//===- IntegerKernelTests.cpp - compiled matmuls of 8-bit integers --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compared element by element: sums of integers are exact. Operands have the
// ends of their ranges, which saturating instructions get wrong.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"
#include "MachineCode.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <random>

using namespace mpc;
using namespace mpc::cpu;

namespace {
/// An operand's type and, of the right one, how it is packed.
struct Operands {
  std::string lhs, rhs;
  bool isPacked;
};
} // namespace

static std::vector<Operands> allOperands() {
  std::vector<Operands> all;
  for (const char *lhs : {"ui8", "i8"})
    for (const char *rhs : {"i8", "ui8"})
      for (bool isPacked : {true, false})
        all.push_back({lhs, rhs, isPacked});
  return all;
}

/// Positions that the unit for these operands multiplies at once.
static int64_t depthOf(const Operands &types, const CpuTarget &target) {
  bool isMixed = types.lhs == "ui8" && types.rhs == "i8";
  return target.hasTiles() || (isMixed && target.hasDotInt8()) ? 4 : 2;
}

/// Available ISA levels with different integer instructions.
static std::vector<CpuIsa> levels() {
  std::vector<CpuIsa> all;
  for (CpuIsa isa : CpuTarget::available())
    if (CpuTarget{isa}.planned() != CpuIsa::AmxFp16)
      all.push_back(isa);
  return all;
}

static std::string packing(int64_t columns, int64_t depth) {
  return llvm::formatv("packed <columns = {0}, depth = {1}>", columns, depth);
}

/// Half of all numbers are ends of the range.
static void setExtremes(unsigned, reference::Tensor &tensor) {
  static std::mt19937 engine(7);
  if (tensor.isFloat() || tensor.getElementType().getIntOrFloatBitWidth() != 8)
    return;
  int64_t low = tensor.getElementType().isUnsignedInteger() ? 0 : -128;
  std::uniform_int_distribution<int64_t> any(low, low + 255), kind(0, 3);
  for (int64_t &number : tensor.ints())
    switch (kind(engine)) {
    case 0:
      number = low;
      break;
    case 1:
      number = low + 255;
      break;
    default:
      number = any(engine);
    }
}

static void expectExact(const std::string &text, const CpuTarget &target) {
  KernelCheck check;
  check.adjust = setExtremes;
  EXPECT_EQ(checkKernel(text, target, check), "") << target.name().str() << "\n"
                                                  << text;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

static std::string product(int64_t m, int64_t k, int64_t n,
                           const Operands &types, const CpuTarget &target,
                           const std::string &flags = "") {
  int64_t columns = target.blockColumns(), depth = depthOf(types, target);
  bool turnsLhs = flags.find("transpose_lhs") != std::string::npos,
       turnsRhs = flags.find("transpose_rhs") != std::string::npos;
  std::string lhs = llvm::formatv("tensor<{0}x{1}x{2}>", turnsLhs ? k : m,
                                  turnsLhs ? m : k, types.lhs);
  std::string rhs =
      types.isPacked
          ? llvm::formatv("tensor<{0}x{1}x{2}x{3}>",
                          (n + columns - 1) / columns, (k + depth - 1) / depth,
                          depth * columns, types.rhs)
                .str()
          : llvm::formatv("tensor<{0}x{1}x{2}>", turnsRhs ? n : k,
                          turnsRhs ? k : n, types.rhs)
                .str();
  return llvm::formatv(
      "func.func private @k(%x: {0}, %w: {1}) -> tensor<{2}x{3}xi32> "
      "attributes {{mpc.kernel_kind = \"contraction\"} {{\n"
      "%0 = mpc.matmul %x, %w {4} {5} : ({0}, {1}) -> tensor<{2}x{3}xi32>\n"
      "return %0 : tensor<{2}x{3}xi32>\n}\n",
      lhs, rhs, m, n, flags,
      types.isPacked ? packing(columns, depth) : std::string());
}

class IntegerProduct
    : public testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(IntegerProduct, IsExact) {
  auto [m, k, n] = GetParam();
  for (CpuIsa isa : levels())
    for (const Operands &types : allOperands())
      expectExact(product(m, k, n, types, CpuTarget{isa}), CpuTarget{isa});
}

INSTANTIATE_TEST_SUITE_P(Shapes, IntegerProduct,
                         testing::Values(std::tuple(1, 1, 1),
                                         std::tuple(13, 7, 33),
                                         std::tuple(29, 262, 70),
                                         std::tuple(49, 65, 40)));

TEST(IntegerProductForms, TransposedOperands) {
  for (CpuIsa isa : levels())
    for (const Operands &types : allOperands())
      for (const char *flags :
           {"transpose_lhs", "transpose_rhs", "transpose_lhs transpose_rhs"})
        if (!types.isPacked || std::string(flags) == "transpose_lhs")
          expectExact(product(21, 71, 45, types, CpuTarget{isa}, flags),
                      CpuTarget{isa});
}

// Chunks along the depth, sums that wait.
TEST(IntegerProductForms, LargeProductsOfUnpackedOperands) {
  Operands types{"ui8", "i8", false};
  for (CpuIsa isa : levels())
    for (const char *flags : {"", "transpose_lhs"})
      expectExact(product(70, 2051, 40, types, CpuTarget{isa}, flags),
                  CpuTarget{isa});
}

TEST(IntegerProductForms, BatchesOfBothSides) {
  for (const char *lhs : {"ui8", "i8"}) {
    std::string text = llvm::formatv(
        "func.func private @k(%x: tensor<2x3x5x19x{0}>, %w: "
        "tensor<3x19x37xi8>) -> tensor<2x3x5x37xi32> attributes "
        "{{mpc.kernel_kind = \"contraction\"} {{\n%0 = mpc.matmul %x, %w : "
        "(tensor<2x3x5x19x{0}>, tensor<3x19x37xi8>) -> "
        "tensor<2x3x5x37xi32>\nreturn %0 : tensor<2x3x5x37xi32>\n}\n",
        lhs);
    for (CpuIsa isa : levels())
      expectExact(text, CpuTarget{isa});
  }
}

// A quantized matmul with the ops that surround it in models, in one kernel.
TEST(IntegerProductForms, ScalesAndQuantisesInTheEpilogue) {
  for (CpuIsa isa : levels()) {
    CpuTarget target{isa};
    Operands types{"ui8", "i8", true};
    int64_t columns = target.blockColumns(), depth = depthOf(types, target);
    std::string rhs = llvm::formatv(
        "tensor<{0}x17x{1}xi8>", (75 + columns - 1) / columns, depth * columns);
    if (depth == 2)
      rhs = llvm::formatv("tensor<{0}x34x{1}xi8>", (75 + columns - 1) / columns,
                          depth * columns);
    expectExact(
        llvm::formatv(
            "func.func private @k(%x: tensor<30x67xui8>, %w: {0}, %z: "
            "tensor<1x75xi32>, %s: tensor<75xf32>) -> tensor<30x75xui8> "
            "attributes {{mpc.kernel_kind = \"contraction\"} {{\n"
            "%0 = mpc.matmul %x, %w {1} : (tensor<30x67xui8>, {0}) -> "
            "tensor<30x75xi32>\n"
            "%1 = mpc.sub %0, %z : (tensor<30x75xi32>, tensor<1x75xi32>) -> "
            "tensor<30x75xi32>\n"
            "%2 = mpc.cast %1 : tensor<30x75xi32> to tensor<30x75xf32>\n"
            "%3 = mpc.mul %2, %s : (tensor<30x75xf32>, tensor<75xf32>) -> "
            "tensor<30x75xf32>\n"
            "%4 = mpc.relu %3 : tensor<30x75xf32>\n"
            "%5 = mpc.round %4 : tensor<30x75xf32>\n"
            "%6 = mpc.cast %5 : tensor<30x75xf32> to tensor<30x75xui8>\n"
            "return %6 : tensor<30x75xui8>\n}\n",
            rhs, packing(columns, depth)),
        target);
  }
}

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

/// Result of a matmul on `isa` that overflows i32: of 66,400 positions at the
/// ends of their ranges, with the largest partial sums.
static std::vector<std::vector<char>> wrapped(CpuIsa isa, const char *lhs,
                                              const char *rhs) {
  std::string x = llvm::formatv("tensor<3x66400x{0}>", lhs),
              y = llvm::formatv("tensor<66400x17x{0}>", rhs);
  auto ends = [](unsigned, reference::Tensor &tensor) {
    bool isUnsigned = tensor.getElementType().isUnsignedInteger();
    for (auto [at, number] : llvm::enumerate(tensor.ints()))
      number = at % 97 == 0 ? 3 : isUnsigned ? 255 : -128;
  };
  std::vector<std::vector<char>> results;
  KernelCheck check;
  check.adjust = ends;
  check.results = &results;
  std::string text = llvm::formatv(
      "func.func private @k(%x: {0}, %y: {1}) -> tensor<3x17xi32> attributes "
      "{{mpc.kernel_kind = \"contraction\"} {{\n%0 = mpc.matmul %x, %y : "
      "({0}, {1}) -> tensor<3x17xi32>\nreturn %0 : tensor<3x17xi32>\n}\n",
      x, y);
  EXPECT_EQ(checkKernel(text, CpuTarget{isa}, check), "");
  return results;
}

// Accumulators wrap and do not saturate, in the instruction and its emulation.
TEST(IntegerUnit, EmulationComputesTheInstructionsBits) {
  for (auto [isa, emulated] :
       {std::pair(CpuIsa::AvxVnni, CpuIsa::EmulatedAvxVnni),
        std::pair(CpuIsa::Avx512Vnni, CpuIsa::EmulatedAvx512Vnni),
        std::pair(CpuIsa::Avx512Bf16, CpuIsa::EmulatedBf16),
        std::pair(CpuIsa::Amx, CpuIsa::EmulatedAmx)})
    for (const char *lhs : {"ui8", "i8"}) {
      std::vector<std::vector<char>> expected = wrapped(emulated, lhs, "i8");
      if (llvm::is_contained(CpuTarget::available(), isa))
        EXPECT_EQ(wrapped(isa, lhs, "i8"), expected);
    }
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

namespace {
struct Conv {
  int64_t channels, outputs, window, stride, pad, dilation, groups = 1;
};
} // namespace

static std::string conv(const Conv &c, const Operands &types,
                        const CpuTarget &target, bool channelsLast) {
  int64_t columns = target.blockColumns(), depth = depthOf(types, target);
  int64_t height = 9, width = 11, each = c.channels / c.groups;
  auto out = [&](int64_t in) {
    return (in + 2 * c.pad - c.dilation * (c.window - 1) - 1) / c.stride + 1;
  };
  auto image = [&](int64_t channels, int64_t h, int64_t w,
                   const std::string &type) {
    return channelsLast ? llvm::formatv("tensor<2x{0}x{1}x{2}x{3}>", h, w,
                                        channels, type)
                              .str()
                        : llvm::formatv("tensor<2x{2}x{0}x{1}x{3}>", h, w,
                                        channels, type)
                              .str();
  };
  std::string x = image(c.channels, height, width, types.lhs),
              result = image(c.outputs, out(height), out(width), "i32");
  std::string filter = llvm::formatv("tensor<{0}x{1}x{2}x{2}x{3}>", c.outputs,
                                     each, c.window, types.rhs),
              packed;
  if (types.isPacked) {
    int64_t run = c.groups == 1 && c.dilation == 1 ? c.window * each : each;
    int64_t steps =
        c.window * c.window * each / run * ((run + depth - 1) / depth);
    filter = llvm::formatv("tensor<{0}x{1}x{2}x{3}>",
                           c.groups *
                               ((c.outputs / c.groups + columns - 1) / columns),
                           steps, depth * columns, types.rhs);
    packed = llvm::formatv("window([{0}, {0}]) {1}", c.window,
                           packing(columns, depth));
  }
  return llvm::formatv(
      "func.func private @k(%x: {0}, %w: {1}) -> {2} attributes "
      "{{mpc.kernel_kind = \"convolution\"} {{\n"
      "%0 = mpc.conv %x, %w strides([{3}, {3}]) pad([{4}, {4}], [{4}, {4}]) "
      "pad_value({5}) dilations([{6}, {6}]) groups({7}) layout({8}) {9} : "
      "({0}, {1}) -> {2}\nreturn %0 : {2}\n}\n",
      x, filter, result, c.stride, c.pad, types.lhs == "ui8" ? 201 : -97,
      c.dilation, c.groups, channelsLast ? "channels_last" : "channels_first",
      packed);
}

class IntegerConvolution : public testing::TestWithParam<Conv> {};

TEST_P(IntegerConvolution, IsExact) {
  for (CpuIsa isa : levels())
    for (const Operands &types : allOperands())
      for (bool channelsLast : {true, false})
        if (channelsLast || (!types.isPacked && types.lhs == types.rhs))
          expectExact(conv(GetParam(), types, CpuTarget{isa}, channelsLast),
                      CpuTarget{isa});
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, IntegerConvolution,
    testing::Values(Conv{3, 32, 3, 1, 1, 1}, Conv{16, 40, 3, 2, 1, 1},
                    Conv{7, 5, 1, 1, 0, 1}, Conv{5, 33, 3, 1, 2, 2},
                    Conv{8, 64, 1, 2, 0, 1}, Conv{6, 34, 3, 1, 1, 1, 2},
                    Conv{4, 4, 3, 1, 1, 1, 4}));

//===----------------------------------------------------------------------===//
// Machine code
//===----------------------------------------------------------------------===//

/// Lines from the first to the last one that contains `name`.
static std::vector<std::string> between(const std::vector<std::string> &lines,
                                        const std::string &name) {
  auto isNamed = [&](llvm::StringRef line) { return line.contains(name); };
  auto first = llvm::find_if(lines, isNamed), last = lines.end();
  if (first == last)
    return {};
  while (!isNamed(*--last))
    ;
  return {first, last};
}

// Twelve rows and two vectors of columns, six of half the length: one broadcast
// per row, accumulators in registers over the whole depth.
TEST(IntegerCode, FourPositionsAtOnce) {
  for (CpuIsa isa : {CpuIsa::AvxVnni, CpuIsa::Avx512Vnni, CpuIsa::Avx512Bf16}) {
    CpuTarget target{isa};
    std::vector<std::string> code = machineCode(
        product(24, 256, target.blockColumns(), {"ui8", "i8", true}, target),
        target);
    bool isWide = target.hasAvx512();
    EXPECT_EQ(count(code, "vpdpbusd"), isWide ? 2 * 12 : 2 * 6);
    EXPECT_EQ(count(code, "callq"), 0);
    for (const std::string &line : between(code, "vpdpbusd")) {
      EXPECT_EQ(line.find(isWide ? "ymm" : "zmm"), std::string::npos) << line;
      EXPECT_EQ(line.find("(%rsp"), std::string::npos) << line;
    }
  }
}

TEST(IntegerCode, PairsWhereNoUnitIs) {
  for (CpuIsa isa : {CpuIsa::Avx2, CpuIsa::Avx512}) {
    CpuTarget target{isa};
    std::vector<std::string> code = machineCode(
        product(24, 256, target.blockColumns(), {"ui8", "i8", true}, target),
        target);
    int64_t rows = isa == CpuIsa::Avx2 ? 6 : 12;
    EXPECT_EQ(count(code, "vpmaddwd"), 2 * rows);
    EXPECT_EQ(count(code, "vpmaddubsw"), 0);
    EXPECT_EQ(count(code, "vpdpbusd") + count(code, "callq"), 0);
    for (const std::string &line : between(code, "vpmaddwd"))
      EXPECT_EQ(line.find("(%rsp"), std::string::npos) << line;
  }
}
