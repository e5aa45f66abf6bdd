//===- AttentionKernelTests.cpp - compiled attention ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../KernelValues.h"
#include "KernelRunner.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

using namespace mpc;
using namespace mpc::cpu;

/// Query [batch, heads, s, d], key [batch, groups, t, d], value [batch, groups,
/// t, e].
static std::string attention(int64_t batch, int64_t heads, int64_t groups,
                             int64_t s, int64_t t, int64_t d, int64_t e,
                             const std::string &type,
                             const std::string &mask = "",
                             const std::string &flags = "",
                             const std::string &resultType = "f32") {
  std::string q =
      llvm::formatv("tensor<{0}x{1}x{2}x{3}x{4}>", batch, heads, s, d, type);
  std::string k =
      llvm::formatv("tensor<{0}x{1}x{2}x{3}x{4}>", batch, groups, t, d, type);
  std::string v =
      llvm::formatv("tensor<{0}x{1}x{2}x{3}x{4}>", batch, groups, t, e, type);
  std::string r = llvm::formatv("tensor<{0}x{1}x{2}x{3}x{4}>", batch, heads, s,
                                e, resultType);
  std::string maskArgument = mask.empty() ? "" : ", %m: tensor<" + mask + ">";
  std::string maskUse = mask.empty() ? "" : " mask(%m)";
  std::string maskType = mask.empty() ? "" : ", tensor<" + mask + ">";
  return llvm::formatv("func.func private @k(%q: {0}, %k: {1}, %v: {2}{3}) -> "
                       "{4} attributes {{mpc.kernel_kind = "
                       "\"attention\"} {{\n%0 = mpc.attention %q, %k, %v{5} "
                       "scale(2.500000e-01) {6} : ({0}, {1}, "
                       "{2}{7}) -> {4}\nreturn %0 : {4}\n}\n",
                       q, k, v, maskArgument, r, maskUse, flags, maskType);
}

TEST(AttentionKernel, Types) {
  for (const char *type : {"f32", "bf16", "f16"})
    expectKernel(attention(2, 3, 3, 20, 20, 16, 16, type));
  expectKernel(attention(1, 2, 2, 9, 11, 7, 5, "f64", "", "", "f64"));
  expectKernel(attention(1, 2, 2, 9, 11, 7, 5, "bf16", "", "", "bf16"));
}

TEST(AttentionKernel, Shapes) {
  expectKernel(attention(1, 1, 1, 1, 1, 1, 1, "f32"));
  expectKernel(attention(1, 1, 1, 70, 37, 24, 40, "f32"));
  expectKernel(attention(1, 2, 2, 3, 100, 64, 64, "bf16"));
  expectKernel(attention(1, 2, 2, 129, 64, 33, 20, "f32"));
}

TEST(AttentionKernel, HeadsShareKeys) {
  expectKernel(attention(2, 6, 2, 10, 12, 8, 8, "f32"));
  expectKernel(attention(2, 6, 1, 10, 12, 8, 8, "f16"));
}

/// One to few queries with keys and values in the layout of a KV cache, heads
/// adjacent in the rows of positions: `stored` as tensors, transposed by
/// `permutation` to [batch, groups, t, d].
static std::string cachedAttention(int64_t batch, int64_t heads, int64_t groups,
                                   int64_t s, int64_t t, int64_t d,
                                   const std::string &type,
                                   bool isPositionFirst) {
  std::string stored =
      isPositionFirst
          ? llvm::formatv("{0}x{1}x{2}x{3}", t, batch, groups, d).str()
          : llvm::formatv("{0}x{1}x{2}x{3}", batch, t, groups, d).str();
  std::string turned = llvm::formatv("{0}x{1}x{2}x{3}", batch, groups, t, d);
  std::string rows =
      llvm::formatv("tensor<{0}x{1}x{2}x{3}xf32>", batch, heads, s, d);
  std::string text = llvm::formatv(
      "func.func private @k(%q: {0}, %k: tensor<{1}x{2}>, %v: tensor<{1}x{2}>) "
      "-> {0} attributes {{mpc.kernel_kind = \"attention\"} {{\n",
      rows, stored, type);
  for (const char *name : {"k", "v"}) {
    std::string from = std::string("%") + name;
    if (type != "f32") {
      text += llvm::formatv("{0}w = mpc.cast {0} : tensor<{1}x{2}> to "
                            "tensor<{1}xf32>\n",
                            from, stored, type);
      from += "w";
    }
    text +=
        llvm::formatv("%{0}t = mpc.transpose {1} [{2}] : tensor<{3}xf32> to "
                      "tensor<{4}xf32>\n",
                      name, from, isPositionFirst ? "1, 2, 0, 3" : "0, 2, 1, 3",
                      stored, turned);
  }
  return text +
         llvm::formatv("%0 = mpc.attention %q, %kt, %vt scale(2.500000e-01) "
                       "causal : ({0}, tensor<{1}xf32>, tensor<{1}xf32>) -> "
                       "{0}\nreturn %0 : {0}\n}\n",
                       rows, turned)
             .str();
}

TEST(AttentionKernel, RowsOfAllHeads) {
  for (const char *type : {"f32", "bf16", "f16", "i8"})
    for (bool isPositionFirst : {true, false}) {
      expectKernel(
          cachedAttention(1, 12, 12, 1, 70, 64, type, isPositionFirst));
      // Read as a whole.
      expectKernel(
          cachedAttention(1, 12, 12, 1, 700, 64, type, isPositionFirst));
      expectKernel(cachedAttention(2, 8, 2, 3, 37, 32, type, isPositionFirst));
    }
  // Rows of few parts, and of a few lines, whose heads read them alone.
  for (const char *type : {"f32", "i8"}) {
    expectKernel(cachedAttention(1, 2, 2, 1, 37, 64, type, true));
    expectKernel(cachedAttention(2, 8, 2, 4, 33, 16, type, false));
    expectKernel(cachedAttention(1, 4, 4, 1, 16, 16, type, true));
  }
  // Parts of rows: more heads than are read at once.
  expectKernel(cachedAttention(1, 20, 20, 1, 37, 32, "bf16", true));
}

// Split-KV over several work items: whole parts, a last one that is shorter,
// and one that ends within a vector.
TEST(AttentionKernel, SplitKv) {
  for (int64_t t : {4096, 4136, 4129})
    expectKernel(attention(1, 1, 1, 1, t, 64, 32, "f32"));
  expectKernel(attention(2, 6, 2, 3, 5000, 32, 48, "bf16", "", "causal"));
  expectKernel(attention(1, 2, 1, 2, 2070, 64, 64, "f16", "2x2070xf32"));
  expectKernel(attention(1, 2, 1, 4, 1031, 144, 160, "f32", "4x1031xi1"));
  expectKernel(attention(1, 4, 4, 2, 2051, 16, 16, "f64", "", "", "f64"));
  for (int64_t t : {1024, 1075})
    for (const char *type : {"f32", "bf16", "i8"})
      expectKernel(cachedAttention(1, 12, 4, 1, t, 64, type, t == 1024));
}

// Queries that see the first keys alone, or the last, or none: parts without
// unmasked keys have no weight.
TEST(AttentionKernel, FullyMaskedSplits) {
  constexpr int64_t kPositions = 2100;
  KernelCheck check;
  auto masking = [](unsigned argument, reference::Tensor &tensor) {
    if (argument != 3)
      return;
    for (int64_t i = 0; i < tensor.size(); ++i) {
      int64_t row = i / kPositions, at = i % kPositions;
      bool isKept = row == 0   ? at < 70
                    : row == 1 ? at >= kPositions - 3
                    : row == 2 ? at > 700 && at < 720
                               : false;
      if (tensor.isFloat())
        tensor.floats()[i] = isKept ? 0 : -INFINITY;
      else
        tensor.ints()[i] = isKept;
    }
  };
  check.adjust = masking;
  for (const char *type : {"f32", "i1"})
    expectKernel(attention(1, 4, 2, 4, kPositions, 32, 32, "f32",
                           std::string("4x2100x") + type),
                 check);
}

// Maxima of parts far apart neither overflow nor vanish.
TEST(AttentionKernel, LargeScoresWithSplitKv) {
  KernelCheck check;
  check.scale = 20.0;
  expectKernel(attention(1, 4, 4, 2, 2100, 32, 32, "f32"), check);
}

/// int8 keys and values with a scale for each row of a head, the numbers
/// `[t, batch, groups, d]`; queries are upcast from `queryType`.
static std::string scaledAttention(int64_t heads, int64_t groups, int64_t s,
                                   int64_t t, int64_t d, bool isFloat8,
                                   const std::string &queryType,
                                   const std::string &mask = "") {
  std::string numbers = llvm::formatv("{0}x1x{1}x{2}", t, groups, d),
              scales = llvm::formatv("tensor<{0}x1x{1}x1xf32>", t, groups),
              turned = llvm::formatv("tensor<1x{0}x{1}x{2}xf32>", groups, t, d),
              rows = llvm::formatv("tensor<1x{0}x{1}x{2}x", heads, s, d);
  std::string codes = "tensor<" + numbers + (isFloat8 ? "xui8>" : "xi8>"),
              wide = "tensor<" + numbers + "xf32>";
  std::string maskArgument = mask.empty() ? "" : ", %m: tensor<" + mask + ">",
              maskUse = mask.empty() ? " causal" : "";
  std::string text = "func.func private @k(%q: " + rows + queryType +
                     ">, %k: " + codes + ", %v: " + codes + ", %ks: " + scales +
                     ", %vs: " + scales + maskArgument + ") -> " + rows +
                     "f32> attributes {mpc.kernel_kind = \"attention\"} {\n";
  std::string query = "%q";
  if (queryType != "f32") {
    query = "%wide";
    text +=
        "%wide = mpc.cast %q : " + rows + queryType + "> to " + rows + "f32>\n";
  }
  for (const char *name : {"k", "v"})
    text += llvm::formatv(
        "%{0}n = {1} : {2} to {3}\n%{0}p = mpc.mul %{0}n, %{0}s : ({3}, "
        "{4}) -> {3}\n%{0}t = mpc.transpose %{0}p [1, 2, 0, 3] : {3} to {5}\n",
        name,
        llvm::formatv(isFloat8 ? "mpc.decode_float %{0} format(f8E4M3FN)"
                               : "mpc.cast %{0}",
                      name)
            .str(),
        codes, wide, scales, turned);
  return text + "%0 = mpc.attention " + query + ", %kt, %vt" +
         (mask.empty() ? "" : " mask(%m)") + " scale(6.250000e-02)" + maskUse +
         " : (" + rows + "f32>, " + turned + ", " + turned +
         (mask.empty() ? "" : ", tensor<" + mask + ">") + ") -> " + rows +
         "f32>\nreturn %0 : " + rows + "f32>\n}\n";
}

/// Codes without NaN, and scales that keep scores small.
static void makeScaled(unsigned argument, reference::Tensor &tensor) {
  if (argument == 1 || argument == 2)
    for (int64_t &code : tensor.ints())
      if ((code & 0x7f) == 0x7f)
        code = 0;
  if (argument == 3 || argument == 4)
    for (double &scale : tensor.floats())
      scale = std::abs(scale) * 0x1p-5;
}

static void expectScaled(const std::string &text,
                         llvm::function_ref<void(unsigned, reference::Tensor &)>
                             adjust = makeScaled) {
  KernelCheck check;
  check.adjust = adjust;
  expectKernel(text, check);
}

TEST(AttentionKernel, NumbersTimesScalesOfTheirRows) {
  // In place and packed.
  for (int64_t s : {1, 3, 20})
    expectScaled(scaledAttention(4, 2, s, 37, 32, s == 3, "bf16"));
  expectScaled(scaledAttention(4, 2, 3, 37, 32, false, "f32"));
  expectScaled(scaledAttention(4, 2, 20, 37, 32, true, "f32"));
  expectScaled(scaledAttention(4, 2, 3, 37, 32, true, "f16"));
  expectScaled(scaledAttention(2, 2, 20, 16, 24, false, "f16"));
  // Rows of all heads read one after the other.
  expectScaled(scaledAttention(12, 12, 1, 700, 64, false, "bf16"));
  expectScaled(scaledAttention(12, 4, 1, 1100, 128, true, "f32"));
  expectScaled(scaledAttention(4, 2, 2, 2081, 64, false, "bf16"));
  for (const char *mask : {"1x4x3x37xf32", "3x37xi1"})
    expectScaled(scaledAttention(4, 2, 3, 37, 32, false, "bf16", mask));
}

/// A row without a number is NaN to whoever sees it.
TEST(AttentionKernel, RowsWithoutScales) {
  for (int64_t s : {1, 20})
    expectScaled(scaledAttention(4, 2, s, 37, 32, false, "bf16"),
                 [](unsigned argument, reference::Tensor &tensor) {
                   makeScaled(argument, tensor);
                   if (argument == 3)
                     tensor.floats()[2] = NAN;
                   if (argument == 4)
                     tensor.floats()[5] = INFINITY;
                 });
}

/// Some rows of a mask hide what others see, the first one all.
TEST(AttentionKernel, ScaledRowsThatAreHidden) {
  for (int64_t s : {1, 20})
    expectScaled(scaledAttention(4, 2, s, 37, 32, false, "bf16",
                                 "1x1x" + std::to_string(s) + "x37xf32"),
                 [](unsigned argument, reference::Tensor &tensor) {
                   makeScaled(argument, tensor);
                   if (argument == 5)
                     for (auto [i, value] : llvm::enumerate(tensor.floats()))
                       value = i % 37 < 30 || i < 37 ? -INFINITY : 0;
                 });
}

TEST(AttentionKernel, FloatMasks) {
  expectKernel(attention(2, 3, 3, 10, 45, 8, 8, "f32", "2x1x10x45xf32"));
  expectKernel(attention(2, 3, 3, 10, 45, 8, 8, "f32", "2x1x1x45xf32"));
  expectKernel(attention(2, 3, 3, 10, 45, 8, 8, "bf16", "45xbf16"));
  expectKernel(attention(2, 3, 3, 10, 45, 8, 8, "f32", "10x1xf32"));
}

TEST(AttentionKernel, BooleanMasks) {
  expectKernel(attention(2, 3, 3, 10, 45, 8, 8, "f32", "2x1x10x45xi1"));
  expectKernel(attention(2, 3, 3, 10, 45, 8, 8, "bf16", "2x3x10x45xi1"));
  expectKernel(attention(1, 2, 2, 10, 5, 8, 8, "f32", "10x5xi1"));
}

TEST(AttentionKernel, Causal) {
  expectKernel(attention(1, 2, 2, 40, 40, 8, 8, "f32", "", "causal"));
  expectKernel(attention(1, 2, 2, 10, 45, 8, 8, "f32", "", "causal"));
  // More queries than keys: the first rows are fully masked and give zeros.
  expectKernel(attention(1, 2, 2, 20, 6, 8, 8, "f32", "", "causal"));
}

// A row whose positions are all masked gives zeros, not NaN.
TEST(AttentionKernel, RowsThatKeepNothing) {
  KernelCheck check;
  auto masking = maskingRows(3, 3);
  check.adjust = masking;
  expectKernel(attention(1, 2, 2, 10, 45, 8, 8, "f32", "1x1x10x45xf32"), check);
  expectKernel(attention(1, 2, 2, 10, 45, 8, 8, "f32", "1x1x10x45xi1"), check);
}

// Scores far from zero neither overflow nor vanish.
TEST(AttentionKernel, LargeScores) {
  KernelCheck check;
  check.scale = 20.0;
  expectKernel(attention(1, 2, 2, 10, 45, 16, 8, "f32"), check);
}

TEST(AttentionKernel, Epilogue) {
  expectKernel(R"(
func.func private @k(%q: tensor<2x10x16xbf16>, %k: tensor<2x12x16xbf16>, %v: tensor<2x12x16xbf16>)
    -> tensor<2x10x16xbf16> attributes {mpc.kernel_kind = "attention"} {
  %0 = mpc.attention %q, %k, %v scale(2.500000e-01)
    : (tensor<2x10x16xbf16>, tensor<2x12x16xbf16>, tensor<2x12x16xbf16>) -> tensor<2x10x16xf32>
  %1 = mpc.cast %0 : tensor<2x10x16xf32> to tensor<2x10x16xbf16>
  return %1 : tensor<2x10x16xbf16>
})");
}

/// Attention whose result is stored as [batch, positions, heads, ...].
static std::string transposedAttention(const std::string &permutation,
                                       const std::string &shape,
                                       const std::string &operand,
                                       const std::string &stored,
                                       const std::string &epilogue = "") {
  std::string from = "2x3x10x16x" + operand, keys = "2x3x12x16x" + operand,
              values = "2x3x12x21x" + operand;
  return llvm::formatv(R"(
func.func private @k(%q: tensor<{0}>, %k: tensor<{1}>, %v: tensor<{2}>, %r: tensor<{4}xf32>)
    -> tensor<{4}x{5}> attributes {{mpc.kernel_kind = "attention"} {{
  %0 = mpc.attention %q, %k, %v scale(2.500000e-01)
    : (tensor<{0}>, tensor<{1}>, tensor<{2}>) -> tensor<2x3x10x21xf32>
  %1 = mpc.transpose %0 [{3}] : tensor<2x3x10x21xf32> to tensor<{4}xf32>
  {6}
  %3 = mpc.cast %2 : tensor<{4}xf32> to tensor<{4}x{5}>
  return %3 : tensor<{4}x{5}>
})",
                       from, keys, values, permutation, shape, stored,
                       epilogue.empty()
                           ? "%2 = mpc.cast %1 : tensor<" + shape +
                                 "xf32> to tensor<" + shape + "xf32>"
                           : epilogue);
}

TEST(AttentionKernel, StoresHeadsAfterPositions) {
  for (const char *type : {"f32", "bf16", "f16"}) {
    std::string stored = type;
    expectKernel(transposedAttention("0, 2, 1, 3", "2x10x3x21", type, stored));
    expectKernel(transposedAttention("2, 0, 1, 3", "10x2x3x21", type, stored));
    expectKernel(transposedAttention("1, 2, 0, 3", "3x10x2x21", type, stored));
  }
}

// Elementwise ops on either side of the transpose see the elements of their own
// shape.
TEST(AttentionKernel, EpilogueAfterTheTranspose) {
  expectKernel(transposedAttention(
      "0, 2, 1, 3", "2x10x3x21", "bf16", "bf16",
      "%2 = mpc.add %1, %r : (tensor<2x10x3x21xf32>, tensor<2x10x3x21xf32>) "
      "-> tensor<2x10x3x21xf32>"));
  expectKernel(R"(
func.func private @k(%q: tensor<2x3x5x8xbf16>, %r: tensor<2x3x5x8xf32>)
    -> tensor<2x15x8xf32> attributes {mpc.kernel_kind = "attention"} {
  %0 = mpc.attention %q, %q, %q scale(2.500000e-01)
    : (tensor<2x3x5x8xbf16>, tensor<2x3x5x8xbf16>, tensor<2x3x5x8xbf16>) -> tensor<2x3x5x8xf32>
  %1 = mpc.mul %0, %r : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  %2 = mpc.transpose %1 [0, 2, 1, 3] : tensor<2x3x5x8xf32> to tensor<2x5x3x8xf32>
  %3 = mpc.reshape %2 : tensor<2x5x3x8xf32> to tensor<2x15x8xf32>
  return %3 : tensor<2x15x8xf32>
})");
}

// Rows that padding added are computed and not stored.
TEST(AttentionKernel, StoresASlice) {
  expectKernel(R"(
func.func private @k(%q: tensor<2x3x12x8xbf16>, %k: tensor<2x3x12x8xbf16>, %m: tensor<12xi1>, %r: tensor<7x2x3x8xf32>)
    -> (tensor<7x2x3x8xbf16>, tensor<2x2x12x8xf32>) attributes {mpc.kernel_kind = "attention"} {
  %0 = mpc.attention %q, %k, %k mask(%m) scale(2.500000e-01)
    : (tensor<2x3x12x8xbf16>, tensor<2x3x12x8xbf16>, tensor<2x3x12x8xbf16>, tensor<12xi1>) -> tensor<2x3x12x8xf32>
  %1 = mpc.slice %0 [0, 0, 2, 0] [2, 3, 7, 8] : tensor<2x3x12x8xf32> to tensor<2x3x7x8xf32>
  %2 = mpc.transpose %1 [2, 0, 1, 3] : tensor<2x3x7x8xf32> to tensor<7x2x3x8xf32>
  %3 = mpc.add %2, %r : (tensor<7x2x3x8xf32>, tensor<7x2x3x8xf32>) -> tensor<7x2x3x8xf32>
  %4 = mpc.cast %3 : tensor<7x2x3x8xf32> to tensor<7x2x3x8xbf16>
  %5 = mpc.slice %0 [0, 1, 0, 0] [2, 2, 12, 8] : tensor<2x3x12x8xf32> to tensor<2x2x12x8xf32>
  return %4, %5 : tensor<7x2x3x8xbf16>, tensor<2x2x12x8xf32>
})");
}

// A sum of the result with its own transpose needs elements that other work
// items compute: rejected, for all shapes.
TEST(AttentionKernel, RefusesTwoOrdersAtOnce) {
  std::string message = checkKernel(R"(
func.func private @k(%q: tensor<3x3x3x8xf32>) -> tensor<3x3x3x8xf32>
    attributes {mpc.kernel_kind = "attention"} {
  %0 = mpc.attention %q, %q, %q scale(2.500000e-01)
    : (tensor<3x3x3x8xf32>, tensor<3x3x3x8xf32>, tensor<3x3x3x8xf32>) -> tensor<3x3x3x8xf32>
  %1 = mpc.transpose %0 [0, 2, 1, 3] : tensor<3x3x3x8xf32> to tensor<3x3x3x8xf32>
  %2 = mpc.add %0, %1 : (tensor<3x3x3x8xf32>, tensor<3x3x3x8xf32>) -> tensor<3x3x3x8xf32>
  return %2 : tensor<3x3x3x8xf32>
})",
                                    CpuTarget{CpuIsa::Avx2});
  EXPECT_NE(message.find("must be elementwise in the contraction's result"),
            std::string::npos)
      << message;
}
