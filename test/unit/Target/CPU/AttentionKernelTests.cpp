//===- AttentionKernelTests.cpp - compiled attention ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <limits>

using namespace mpc;

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
  // More queries than keys: the first rows keep nothing and give zeros.
  expectKernel(attention(1, 2, 2, 20, 6, 8, 8, "f32", "", "causal"));
}

// A row whose positions are all masked gives zeros, not NaN.
TEST(AttentionKernel, RowsThatKeepNothing) {
  KernelCheck check;
  check.adjust = [](unsigned index, reference::Tensor &tensor) {
    if (index != 3)
      return;
    int64_t row = tensor.getShape().back();
    for (int64_t i = 0; i < 3 * row; ++i)
      if (tensor.isFloat())
        tensor.floats()[i] = -std::numeric_limits<double>::infinity();
      else
        tensor.ints()[i] = 0;
  };
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
