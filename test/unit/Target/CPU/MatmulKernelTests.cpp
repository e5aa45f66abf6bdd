//===- MatmulKernelTests.cpp - compiled matmuls ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <random>

using namespace mpc;
using namespace mpc::cpu;

static std::string kernel(const std::string &arguments,
                          const std::string &result, const std::string &body) {
  return "func.func private @k(" + arguments + ") -> " + result +
         " attributes {mpc.kernel_kind = \"contraction\"} {\n" + body + "\n}\n";
}

/// A matmul with unpacked operands.
static std::string plain(const std::string &lhs, const std::string &rhs,
                         const std::string &result,
                         const std::string &flags = "") {
  return kernel("%x: tensor<" + lhs + ">, %w: tensor<" + rhs + ">",
                "tensor<" + result + ">",
                "%0 = mpc.matmul %x, %w " + flags + " : (tensor<" + lhs +
                    ">, tensor<" + rhs + ">) -> tensor<" + result +
                    ">\nreturn %0 : tensor<" + result + ">");
}

/// A matmul with a right-hand side that is packed with this interleave; 3:
/// with the depth of the bf16 unit.
static std::string packed(int64_t m, int64_t k, int64_t n,
                          const std::string &type, const CpuTarget &target,
                          int interleave, const std::string &body) {
  int64_t columns = target.blockColumns(), panels = (n + columns - 1) / columns;
  int64_t depth = interleave == 3 ? 2 : 1;
  std::string lhs = llvm::formatv("tensor<{0}x{1}x{2}>", m, k, type);
  std::string rhs =
      llvm::formatv("tensor<{0}x{1}x{2}x{3}>", panels, (k + depth - 1) / depth,
                    depth * columns, type);
  std::string result = llvm::formatv("tensor<{0}x{1}xf32>", m, n);
  return kernel(
      "%x: " + lhs + ", %w: " + rhs +
          ", %b: " + llvm::formatv("tensor<{0}xf32>", n).str(),
      result,
      llvm::formatv(
          "%0 = mpc.matmul %x, %w packed <columns = {0}, interleave = {1}, "
          "depth = {2}> : ({3}, {4}) -> {5}\n",
          columns, depth == 2 ? 1 : interleave, depth, lhs, rhs, result)
              .str() +
          body);
}

class PackedMatmul : public testing::TestWithParam<std::tuple<int, int, int>> {
};

TEST_P(PackedMatmul, MatchesTheInterpreter) {
  auto [m, k, n] = GetParam();
  for (CpuIsa isa : floatLevels())
    for (const char *type : {"f32", "bf16", "f16"})
      for (int interleave : {1, 2, 3}) {
        CpuTarget target{isa};
        if ((interleave == 2 && std::string(type) == "f32") ||
            (interleave == 3 &&
             (std::string(type) != "bf16" || !target.hasDotBf16())))
          continue;
        std::string text =
            packed(m, k, n, type, target, interleave,
                   llvm::formatv("return %0 : tensor<{0}x{1}xf32>", m, n));
        EXPECT_EQ(checkKernel(text, target), "") << target.name().str() << "\n"
                                                 << text;
      }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, PackedMatmul,
    testing::Values(std::tuple(1, 1, 1), std::tuple(1, 64, 10),
                    std::tuple(3, 7, 33), std::tuple(13, 17, 31),
                    std::tuple(32, 96, 64), std::tuple(40, 33, 100),
                    std::tuple(129, 20, 16), std::tuple(5, 1024, 48),
                    std::tuple(2, 3, 128)));

/// A kernel that writes the panels of a `[k, n]` of `type`, in memory `stored`.
static std::string packing(int64_t k, int64_t n, bool isTransposed,
                           llvm::StringRef type, llvm::StringRef stored,
                           const CpuTarget &target) {
  int64_t columns = target.blockColumns(), depth = type == "f32" ? 1 : 2;
  std::string shape = isTransposed ? llvm::formatv("{0}x{1}x", n, k)
                                   : llvm::formatv("{0}x{1}x", k, n);
  std::string panels =
      llvm::formatv("tensor<{0}x{1}x{2}x{3}>", (n + columns - 1) / columns,
                    (k + depth - 1) / depth, depth * columns, type);
  std::string body = "%v = mpc.cast %w : tensor<" + shape + stored.str() +
                     "> to tensor<" + shape + type.str() + ">\n";
  return kernel(
      "%w: tensor<" + shape + stored.str() + ">", panels,
      (type == stored ? "" : body) +
          llvm::formatv("%0 = mpc.pack {0} {1} packed<columns = {2}, depth = "
                        "{3}> : tensor<{4}{5}> to {6}\nreturn %0 : {6}",
                        type == stored ? "%w" : "%v",
                        isTransposed ? "transpose" : "", columns, depth, shape,
                        type, panels)
              .str());
}

TEST(PackingKernel, MatchesTheInterpreter) {
  struct {
    const char *type, *stored;
  } types[] = {{"f32", "f32"},
               {"bf16", "bf16"},
               {"f16", "f16"},
               {"bf16", "f32"},
               {"f32", "bf16"}};
  for (CpuIsa isa : floatLevels())
    for (auto [type, stored] : types)
      for (bool isTransposed : {false, true})
        // Whole panels and steps, and neither; more than one chunk of the depth
        // and more panels than a work item has.
        for (auto [k, n] :
             {std::pair(64, 64), std::pair(33, 300), std::pair(1025, 47)}) {
          CpuTarget target{isa};
          // Units have no part in it.
          if (target.emulatesUnits())
            continue;
          std::string text = packing(k, n, isTransposed, type, stored, target);
          EXPECT_EQ(checkKernel(text, target), "")
              << target.name().str() << "\n"
              << text;
        }
}

TEST(MatmulKernel, EpilogueOfBiasActivationAndCast) {
  for (CpuIsa isa : floatLevels()) {
    CpuTarget target{isa};
    for (int64_t n : {10, 64, 77}) {
      std::string f32 = llvm::formatv("tensor<20x{0}xf32>", n);
      std::string bf16 = llvm::formatv("tensor<20x{0}xbf16>", n);
      std::string body =
          llvm::formatv("%1 = mpc.add %0, %b : ({0}, tensor<{2}xf32>) -> "
                        "{0}\n%2 = mpc.gelu %1 : {0}\n"
                        "%3 = mpc.cast %2 : {0} to {1}\n%4 = mpc.cast %3 : {1} "
                        "to {0}\nreturn %4 : {0}",
                        f32, bf16, n);
      std::string text = packed(20, 50, n, "bf16", target, 2, body);
      EXPECT_EQ(checkKernel(text, target), "") << target.name().str() << "\n"
                                               << text;
    }
  }
}

TEST(MatmulKernel, SeveralResultsOfOneProduct) {
  expectKernel(kernel(
      "%x: tensor<9x20xf32>, %w: tensor<20x40xf32>, %r: tensor<9x40xf32>",
      "(tensor<9x40xf32>, tensor<9x40xbf16>, tensor<9x40xi1>)", R"(
  %0 = mpc.matmul %x, %w : (tensor<9x20xf32>, tensor<20x40xf32>) -> tensor<9x40xf32>
  %1 = mpc.add %0, %r : (tensor<9x40xf32>, tensor<9x40xf32>) -> tensor<9x40xf32>
  %2 = mpc.cast %1 : tensor<9x40xf32> to tensor<9x40xbf16>
  %3 = mpc.compare gt %1, %r : (tensor<9x40xf32>, tensor<9x40xf32>) -> tensor<9x40xi1>
  return %1, %2, %3 : tensor<9x40xf32>, tensor<9x40xbf16>, tensor<9x40xi1>)"));
}

TEST(MatmulKernel, PlainOperands) {
  expectKernel(plain("17x33xf32", "33x50xf32", "17x50xf32"));
  expectKernel(plain("17x33xbf16", "33x50xbf16", "17x50xf32"));
  expectKernel(plain("17x33xf16", "33x5xf16", "17x5xf32"));
  expectKernel(plain("1x1xf32", "1x1xf32", "1x1xf32"));
  expectKernel(plain("64x1024xf32", "1024x64xf32", "64x64xf32"));
}

TEST(MatmulKernel, NarrowResults) {
  expectKernel(plain("17x33xbf16", "33x50xbf16", "17x50xbf16"));
  expectKernel(plain("17x33xf16", "33x50xf16", "17x50xf16"));
}

TEST(MatmulKernel, TransposedOperands) {
  expectKernel(plain("17x33xf32", "50x33xf32", "17x50xf32", "transpose_rhs"));
  expectKernel(plain("33x17xf32", "33x50xf32", "17x50xf32", "transpose_lhs"));
  expectKernel(plain("33x29xbf16", "50x33xbf16", "29x50xf32",
                     "transpose_lhs transpose_rhs"));
  expectKernel(plain("8x5xf16", "3x5xf16", "8x3xf32", "transpose_rhs"));
}

TEST(MatmulKernel, BatchesBroadcast) {
  expectKernel(plain("3x17x20xf32", "3x20x40xf32", "3x17x40xf32"));
  expectKernel(plain("2x3x7x20xf32", "20x40xf32", "2x3x7x40xf32"));
  expectKernel(plain("2x3x7x20xbf16", "20x40xbf16", "2x3x7x40xf32"));
  expectKernel(plain("2x1x7x20xf32", "3x20x11xf32", "2x3x7x11xf32"));
  expectKernel(plain("7x20xf32", "4x20x11xf32", "4x7x11xf32"));
  expectKernel(plain("4x20x7xbf16", "4x11x20xbf16", "4x7x11xf32",
                     "transpose_lhs transpose_rhs"));
}

// Matmuls with K blocking: whole chunks and a remainder, operands in
// either order, groups of rows and panels that do not divide evenly.
TEST(MatmulKernel, LargeDepths) {
  expectKernel(plain("70x1030xf32", "1030x75xf32", "70x75xf32"));
  expectKernel(
      plain("1030x70xf32", "1030x75xf32", "70x75xf32", "transpose_lhs"));
  expectKernel(
      plain("70x1024xf32", "75x1024xf32", "70x75xf32", "transpose_rhs"));
  expectKernel(
      plain("1000x130xbf16", "1000x42xbf16", "130x42xbf16", "transpose_lhs"));
  expectKernel(
      plain("30x1024xf16", "300x1024xf16", "30x300xf32", "transpose_rhs"));
  expectKernel(plain("2x600x40xbf16", "2x180x600xbf16", "2x40x180xf32",
                     "transpose_lhs transpose_rhs"));
  expectKernel(plain("2x30x600xf32", "600x120xf32", "2x30x120xf32"));
  expectKernel(
      plain("40x90xf32", "40x1300xf32", "90x1300xf32", "transpose_lhs"));
  expectKernel(
      plain("600x60xf64", "600x130xf64", "60x130xf64", "transpose_lhs"));
  expectKernel(plain("60x600xi32", "600x130xi32", "60x130xi32"));
  // Parts of one length, and of two lengths.
  expectKernel(plain("3x4096xf32", "4096x17xf32", "3x17xf32"));
  expectKernel(plain("3x1031xf32", "1031x40xf32", "3x40xf32"));
}

TEST(MatmulKernel, WideAndIntegerTypes) {
  expectKernel(plain("17x33xf64", "33x50xf64", "17x50xf64"));
  expectKernel(plain("17x33xf64", "50x33xf64", "17x50xf64", "transpose_rhs"));
  expectKernel(plain("9x20xf32", "20x40xf32", "9x40xf32", "accumulate(f64)"));
  expectKernel(plain("9x20xi32", "20x40xi32", "9x40xi32"));
  expectKernel(plain("9x20xi64", "20x40xi64", "9x40xi64"));
  expectKernel(plain("9x20xi8", "40x20xi8", "9x40xi8", "transpose_rhs"));
  expectKernel(plain("9x20xui8", "20x40xui8", "9x40xui8"));
}

TEST(MatmulKernel, EmptyExtents) {
  expectKernel(plain("3x0xf32", "0x4xf32", "3x4xf32"));
  expectKernel(plain("0x5xf32", "5x4xf32", "0x4xf32"));
  expectKernel(plain("2x3x5xbf16", "2x5x0xbf16", "2x3x0xf32"));
}

TEST(MatmulKernel, PackedWideType) {
  for (CpuIsa isa : floatLevels()) {
    CpuTarget target{isa};
    int64_t columns = target.blockColumns();
    std::string rhs = llvm::formatv("tensor<2x30x{0}xf64>", columns);
    std::string result = llvm::formatv("tensor<9x{0}xf64>", columns + 5);
    std::string text =
        kernel("%x: tensor<9x30xf64>, %w: " + rhs, result,
               llvm::formatv("%0 = mpc.matmul %x, %w packed <columns = {0}> : "
                             "(tensor<9x30xf64>, {1}) "
                             "-> {2}\nreturn %0 : {2}",
                             columns, rhs, result));
    EXPECT_EQ(checkKernel(text, target), "") << target.name().str() << "\n"
                                             << text;
  }
}

// Shapes that nobody thought of.
TEST(MatmulKernel, RandomShapes) {
  std::mt19937 engine(7);
  auto draw = [&](int64_t most) {
    return std::uniform_int_distribution<int64_t>(1, most)(engine);
  };
  for (int i = 0; i < 24; ++i) {
    int64_t m = draw(80), k = draw(70), n = draw(90), batch = draw(3);
    bool left = draw(2) == 1, right = draw(2) == 1, batched = draw(2) == 1;
    const char *types[] = {"f32", "bf16", "f16"};
    std::string type = types[draw(3) - 1];
    std::string prefix = batched ? std::to_string(batch) + "x" : "";
    auto operand = [&](int64_t rows, int64_t columns, bool swapped) {
      return llvm::formatv("{0}x{1}x{2}", swapped ? columns : rows,
                           swapped ? rows : columns, type)
          .str();
    };
    std::string flags = std::string(left ? "transpose_lhs " : "") +
                        (right ? "transpose_rhs" : "");
    expectKernel(
        plain(prefix + operand(m, k, left),
              (batched && draw(2) == 1 ? prefix : "") + operand(k, n, right),
              prefix + llvm::formatv("{0}x{1}xf32", m, n).str(), flags));
  }
}

TEST(MatmulKernel, OperandsComputedInTheKernel) {
  expectKernel(kernel("%x: tensor<9x20xf32>, %w: tensor<20x40xbf16>",
                      "tensor<9x40xf32>", R"(
  %0 = mpc.cast %x : tensor<9x20xf32> to tensor<9x20xbf16>
  %1 = mpc.neg %w : tensor<20x40xbf16>
  %2 = mpc.matmul %0, %1 : (tensor<9x20xbf16>, tensor<20x40xbf16>) -> tensor<9x40xf32>
  return %2 : tensor<9x40xf32>)"));
}

TEST(MatmulKernel, ReshapedArgumentAndResult) {
  expectKernel(kernel("%x: tensor<3x3x20xf32>, %w: tensor<20x40xf32>",
                      "tensor<3x3x40xf32>", R"(
  %0 = mpc.reshape %x : tensor<3x3x20xf32> to tensor<9x20xf32>
  %1 = mpc.matmul %0, %w : (tensor<9x20xf32>, tensor<20x40xf32>) -> tensor<9x40xf32>
  %2 = mpc.reshape %1 : tensor<9x40xf32> to tensor<3x3x40xf32>
  return %2 : tensor<3x3x40xf32>)"));
}

// Subnormal 16-bit operands are values like any other, except to the unit for
// bf16, to which they are zeros.
TEST(MatmulKernel, SubnormalOperands) {
  KernelCheck check;
  check.scale = 1e-6;
  expectKernel(plain("9x20xf16", "20x40xf16", "9x40xf32"), check);
  check.scale = 1e-39;
  auto ones = [](unsigned index, reference::Tensor &tensor) {
    if (index == 1)
      for (double &value : tensor.floats())
        value = 1.0;
  };
  check.adjust = ones;
  std::string text = plain("9x20xbf16", "20x40xbf16", "9x40xf32");
  for (CpuIsa isa : floatLevels()) {
    CpuTarget target{isa};
    std::string message = checkKernel(text, target, check);
    if (target.hasDotBf16())
      EXPECT_NE(message.find("rms error 1.000000e+00"), std::string::npos)
          << message;
    else
      EXPECT_EQ(message, "") << target.name().str();
  }
}

// The emulation of vdpbf16ps on other machines is bit-exact: operands are all
// pairs of bf16 numbers except NaNs, with subnormals and infinities.
TEST(MatmulKernel, EmulatedUnitComputesTheInstructionsBits) {
  if (!llvm::is_contained(CpuTarget::available(), CpuIsa::Avx512Bf16))
    GTEST_SKIP() << "this machine has no AVX-512 BF16";
  std::mt19937 engine(5);
  for (int round = 0; round < 9; ++round) {
    unsigned seed = engine();
    // Similar exponents, so that no summand is absorbed; arbitrary exponents in
    // every third round.
    int least = round % 3 ? int(engine() % 110) : 0,
        most = round % 3 ? least + 40 : 255;
    auto drawBits = [&](unsigned index, reference::Tensor &tensor) {
      std::mt19937 draw(seed + index);
      for (double &value : tensor.floats()) {
        uint32_t exponent = least + draw() % (most - least + 1);
        uint32_t fraction = exponent == 255 ? 0 : draw() % 128;
        uint32_t bits = (draw() % 2 << 31) | exponent << 23 | fraction << 16;
        value = llvm::bit_cast<float>(bits);
      }
    };
    KernelCheck check;
    check.adjust = drawBits;
    std::vector<std::vector<char>> real, emulated;
    for (auto &[isa, results] : {std::pair(CpuIsa::Avx512Bf16, &real),
                                 std::pair(CpuIsa::EmulatedBf16, &emulated)}) {
      check.results = results;
      checkKernel(plain("13x7xbf16", "7x40xbf16", "13x40xf32"), CpuTarget{isa},
                  check);
    }
    ASSERT_EQ(real.size(), 1u);
    ASSERT_EQ(emulated.size(), 1u);
    for (size_t at = 0; at < real[0].size(); at += 4) {
      float x, y;
      std::memcpy(&x, real[0].data() + at, 4);
      std::memcpy(&y, emulated[0].data() + at, 4);
      EXPECT_TRUE((std::isnan(x) && std::isnan(y)) ||
                  llvm::bit_cast<uint32_t>(x) == llvm::bit_cast<uint32_t>(y))
          << "round " << round << ": " << x << " and " << y;
    }
  }
}

TEST(MatmulKernel, PackedForAnotherTargetIsAnError) {
  std::string odd =
      kernel("%x: tensor<4x8xf32>, %w: tensor<1x8x20xf32>", "tensor<4x16xf32>",
             "%0 = mpc.matmul %x, %w packed <columns = 20> : (tensor<4x8xf32>, "
             "tensor<1x8x20xf32>) -> tensor<4x16xf32>\nreturn %0 : "
             "tensor<4x16xf32>");
  std::string message = checkKernel(odd, CpuTarget{CpuIsa::Avx2});
  EXPECT_NE(message.find("packed in panels of 20 columns"), std::string::npos)
      << message;
}

// The check itself finds small faults: a 16-bit operand, a dropped bias,
// swapped axes.
TEST(MatmulKernel, FaultsAreFound) {
  auto text = [](const std::string &body) {
    return kernel(
        "%x: tensor<16x16xf32>, %w: tensor<16x16xf32>, %b: tensor<16xf32>",
        "tensor<16x16xf32>", body + "\nreturn %r : tensor<16x16xf32>");
  };
  std::string type = "tensor<16x16xf32>",
              types = " : (" + type + ", " + type + ") -> " + type;
  std::string add =
      "\n%r = mpc.add %0, %b : (" + type + ", tensor<16xf32>) -> " + type;
  std::string right = text("%0 = mpc.matmul %x, %w" + types + add);
  std::string narrow = "tensor<16x16xbf16>";
  std::string faults[] = {
      text("%r = mpc.matmul %x, %w" + types),
      text("%0 = mpc.matmul %x, %w transpose_rhs" + types + add),
      text("%n = mpc.cast %x : " + type + " to " + narrow +
           "\n%f = mpc.cast %n : " + narrow + " to " + type +
           "\n%0 = mpc.matmul %f, %w" + types + add)};
  CpuTarget target{CpuIsa::Avx2};
  EXPECT_EQ(checkKernel(right, target), "");
  for (const std::string &fault : faults) {
    KernelCheck check;
    check.compiled = fault;
    EXPECT_NE(checkKernel(right, target, check), "") << fault;
  }
}

/// A matmul with the compute mode `mode`.
static std::string productIn(const std::string &mode) {
  return R"(
func.func private @k(%x: tensor<17x40xf32>, %y: tensor<40x33xf32>) -> tensor<17x33xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %y compute()" +
         mode +
         R"() : (tensor<17x40xf32>, tensor<40x33xf32>) -> tensor<17x33xf32>
  return %0 : tensor<17x33xf32>
})";
}

// The CPU may be more exact than tf32 and is: its result is that of f32.
TEST(MatmulKernel, Tf32IsComputedInF32) {
  for (CpuIsa isa : floatLevels()) {
    CpuTarget target{isa};
    EXPECT_EQ(checkKernel(productIn("tf32"), target), "");
    KernelCheck check;
    std::string tf32 = productIn("tf32");
    check.compiled = tf32;
    EXPECT_EQ(checkKernel(productIn("native"), target, check), "");
  }
}

TEST(MatmulSchedule, IsHonoured) {
  // Rows and panels in place or packed, in chunks that divide the depth or not,
  // few and many to an item.
  for (const char *lhs : {"f32", "bf16"})
    for (const char *flags : {"", "transpose_lhs", "transpose_rhs"})
      for (const char *schedule :
           {"rows = 3, columns = 16, chunk = 7, blocks_per_item = 2, "
            "panels_per_item = 1",
            "rows = 2, columns = 8, chunk = 20, blocks_per_item = 100",
            "rows = 5, columns = 16, panels_per_item = 2"})
        for (const char *pack : {"right", "both"}) {
          std::string flag = flags, type = lhs;
          if (type == "bf16" && std::string(pack) == "right")
            continue;
          std::string x = flag == "transpose_lhs" ? "3x20x19x" : "3x19x20x";
          std::string w = flag == "transpose_rhs" ? "3x40x20x" : "3x20x40x";
          std::string text = plain(x + type, w + type, "3x19x40xf32", flag);
          std::string kind = "mpc.kernel_kind = \"contraction\"";
          text.insert(text.find(kind) + kind.size(),
                      llvm::formatv(", mpc.schedule = #tile.blocks<{0}, "
                                    "pack = {1}>",
                                    schedule, pack));
          EXPECT_EQ(checkKernel(text, CpuTarget{CpuIsa::Avx2}), "") << text;
        }
}

// Rows gathered from a table and packed panels that are only read: in one piece
// and in chunks, blocks of two sizes, runs that end past the last row.
TEST(MatmulSchedule, OfGatheredRowsAndPackedPanels) {
  struct {
    CpuIsa isa;
    const char *type, *panels, *layout;
  } cases[] = {
      {CpuIsa::Avx2, "f32", "3x21x16", "columns = 16"},
      {CpuIsa::EmulatedBf16, "bf16", "2x11x64", "columns = 32, depth = 2"}};
  for (const auto &[isa, type, panels, layout] : cases)
    for (const char *schedule :
         {"rows = 3, chunk = 8, blocks_per_item = 4, panels_per_item = 1",
          "rows = 5, blocks_per_item = 2, panels_per_item = 2",
          "rows = 6, chunk = 20, blocks_per_item = 100"}) {
      CpuTarget target{isa};
      std::string text = llvm::formatv(
          "func.func private @k(%x: tensor<21x29x{0}>, %w: tensor<{1}x{0}>) -> "
          "tensor<29x43xf32> attributes {{mpc.kernel_kind = \"contraction\", "
          "mpc.schedule = #tile.blocks<{2}, columns = {3}, pack = left>} {{\n"
          "%0 = mpc.matmul %x, %w transpose_lhs packed<{4}> : "
          "(tensor<21x29x{0}>, tensor<{1}x{0}>) -> tensor<29x43xf32>\n"
          "return %0 : tensor<29x43xf32>\n}\n",
          type, panels, schedule, target.blockColumns(), layout);
      EXPECT_EQ(checkKernel(text, target), "") << text;
    }
}
