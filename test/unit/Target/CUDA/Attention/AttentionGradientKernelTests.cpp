//===- AttentionGradientKernelTests.cpp - attention backward kernels ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionTesting.h"

#include "gtest/gtest.h"

using namespace mpc;

static void
expectCases(llvm::ArrayRef<AttentionGradientCase> cases,
            const CudaKernelCheck &check = attentionGradientCheck()) {
  expectAttention(cases, check);
}

/// An architecture whose tensor cores support neither bf16 nor tf32.
static CudaKernelCheck fmaCheck() { return attentionGradientCheck("sm_75"); }

// Extents of 1, odd, prime, at and next to tile edges; heads wider than a tile,
// in one or both of their extents.
TEST(CudaAttentionGradient, ShapesByFma) {
  expectCases({
      {1, 1, 1, 1, 1, 1, 1, "f32"},
      {2, 3, 3, 20, 20, 16, 16, "f32"},
      {1, 2, 2, 67, 33, 64, 64, "f32"},
      {1, 1, 1, 17, 31, 65, 7, "f32"},
      {1, 1, 1, 31, 17, 7, 65, "f32"},
      {1, 1, 1, 3, 5, 130, 200, "f32"},
      {2, 2, 2, 9, 40, 128, 128, "f32"},
      {1, 2, 2, 9, 11, 7, 5, "f64"},
      {1, 1, 1, 40, 40, 40, 66, "f64", "", "causal"},
      {2, 2, 2, 33, 35, 20, 20, "f64"},
  });
}

// 16-bit operands that tensor cores do not support: operands are rounded.
TEST(CudaAttentionGradient, NarrowOperandsByFma) {
  expectCases(
      {
          {1, 2, 2, 33, 20, 16, 16, "bf16"},
          {1, 2, 1, 20, 33, 16, 24, "bf16", "", "causal", "f32"},
          {1, 1, 1, 5, 70, 300, 8, "f16"},
          {1, 1, 1, 5, 70, 8, 300, "f16", "", "", "f32"},
      },
      fmaCheck());
}

// Gradients of what is not there are empty or zeros.
TEST(CudaAttentionGradient, ZeroSized) {
  expectCases({
      {1, 2, 2, 5, 6, 0, 8, "f32"},
      {1, 2, 2, 5, 6, 8, 0, "f32"},
      {1, 2, 2, 5, 0, 8, 8, "f32"},
      {1, 2, 2, 0, 5, 8, 8, "f32"},
      {0, 2, 2, 5, 5, 8, 8, "f32"},
      {1, 2, 2, 5, 0, 8, 8, "bf16"},
      {1, 2, 2, 0, 5, 8, 8, "f16"},
  });
}

// Only what a kernel stores is computed: without the gradients of key and value
// no block waits.
TEST(CudaAttentionGradient, StoresSomeResults) {
  expectCases({
      {1, 2, 2, 20, 40, 8, 12, "f32", "", "", "", "0"},
      {1, 2, 2, 20, 40, 8, 12, "f32", "", "", "", "1"},
      {1, 2, 2, 20, 40, 8, 12, "f32", "", "", "", "2"},
      {1, 2, 1, 20, 40, 8, 12, "f32", "", "", "", "02"},
      {1, 2, 2, 20, 40, 8, 12, "f32", "", "", "", "21"},
  });
  AttentionGradientCase ofQuery{1, 2, 2, 20, 40, 8, 12, "f32", "", "", "", "0"};
  expectCudaText(ofQuery.text(), cudaTarget("sm_80"), {},
                 {"scratch", "atomic"});
}

// The gradients of a key sum over the heads that share it, in one order.
TEST(CudaAttentionGradient, HeadsShareKeys) {
  expectCases({
      {2, 6, 2, 10, 12, 8, 8, "f32"},
      {2, 6, 1, 40, 45, 8, 8, "f32", "2x1x40x45xf32"},
      {1, 4, 2, 40, 45, 8, 8, "f32", "4x40x45xf32", "causal"},
      {1, 4, 2, 10, 12, 8, 8, "f64"},
  });
}

TEST(CudaAttentionGradient, Masks) {
  expectCases({
      {2, 3, 3, 10, 45, 8, 8, "f32", "2x1x10x45xf32"},
      {2, 3, 3, 40, 45, 8, 8, "f32", "2x1x1x45xf32"},
      {2, 3, 3, 10, 45, 8, 8, "f32", "45xf16"},
      {2, 3, 3, 40, 45, 8, 8, "f32", "40x1xf32"},
      {2, 3, 3, 10, 46, 8, 8, "f32", "2x1x10x46xi1"},
      {2, 3, 3, 10, 45, 8, 8, "f32", "2x3x10x45xi1"},
      {1, 2, 2, 70, 70, 8, 8, "f32", "70x70xi1", "causal"},
      {1, 2, 2, 10, 45, 8, 8, "f64", "10x45xf32"},
  });
}

// More queries than keys: the first rows are masked and have no gradient.
// Fewer: the last query sees all keys.
TEST(CudaAttentionGradient, Causal) {
  expectCases({
      {1, 2, 2, 100, 100, 8, 8, "f32", "", "causal"},
      {1, 2, 2, 10, 145, 8, 8, "f32", "", "causal"},
      {1, 2, 2, 90, 6, 8, 8, "f32", "", "causal"},
      {1, 2, 1, 40, 43, 8, 8, "f32", "", "causal"},
      {1, 1, 1, 90, 50, 8, 8, "f64", "", "causal"},
  });
}

// A row whose positions are all masked has gradients of zero, not NaN.
TEST(CudaAttentionGradient, RowsThatKeepNothing) {
  CudaKernelCheck check = attentionGradientCheck();
  check.adjust = maskingRows(4, 3);
  expectCases(
      {
          {1, 2, 2, 10, 85, 8, 8, "f32", "1x1x10x85xf32"},
          {1, 2, 2, 40, 85, 8, 8, "f32", "1x1x40x85xi1"},
          {1, 2, 1, 10, 85, 8, 8, "f64", "1x1x10x85xf64"},
      },
      check);
}

TEST(CudaAttentionGradient, ExtremeMasks) {
  CudaKernelCheck check = attentionGradientCheck();
  check.adjust = adjustToExtremeMask;
  expectCases({{1, 1, 1, 10, 85, 8, 8, "f32", "1x1x10x85xf32"}}, check);
}

// Scores whose exponentials exceed f32 neither overflow nor vanish. If a row
// has a single weight, D - delta is the rounding error of numbers as large as
// the square of the scale: f32 allows smaller scales than f64.
TEST(CudaAttentionGradient, LargeScores) {
  CudaKernelCheck check = attentionGradientCheck();
  check.scale = 8.0;
  expectCases({{1, 2, 2, 10, 85, 16, 8, "f32"}}, check);
  check.scale = 20.0;
  expectCases({{1, 2, 2, 10, 85, 16, 8, "f64"}}, check);
}

/// Layout in which a kernel stores the gradients of query, key and value:
/// [positions, heads] in one tensor each, concatenated in one tensor, or in one
/// tensor of all heads that is transposed as a whole.
enum class Stored { Apart, SideBySide, Turned };

/// A kernel that reads query, key, value and gradient through slices and
/// transposes.
static std::string packed(int64_t batch, int64_t length, int64_t heads,
                          int64_t width, const std::string &type, Stored stored,
                          const std::string &flags = "") {
  int64_t all = heads * width, rows = batch * length;
  auto tensor = [&](llvm::ArrayRef<int64_t> shape) {
    return tensorType(shape, type);
  };
  std::string x = tensor({batch, length, 3 * all}),
              split = tensor({batch, length, 3 * heads, width}),
              part = tensor({batch, length, heads, width}),
              head = tensor({batch, heads, length, width}),
              joint = tensor({batch, 3 * heads, length, width}),
              flat = tensor({rows, all}), joined = tensor({rows, 3 * all});
  std::string out =
      stored == Stored::Apart ? flat + ", " + flat + ", " + flat : joined;
  std::string text = "func.func private @k(%x: " + x + ", %g: " + part +
                     ") -> (" + out +
                     ") attributes {mpc.kernel_kind = \"attention\"} {\n" +
                     splitIntoHeads(batch, length, heads, width, type);
  text += llvm::formatv("%o = mpc.transpose %g [0, 2, 1, 3] : {1} to {0}\n"
                        "%a:3 = mpc.attention_gradient %h0, %h1, %h2, %o "
                        "scale(3.000000e-01) {2} : ({0}, {0}, {0}, {0}) -> "
                        "({0}, {0}, {0})\n",
                        head, part, flags);
  if (stored == Stored::Turned)
    return text + llvm::formatv(
                      "%c = mpc.concat %a#0, %a#1, %a#2 axis(1) : ({0}, {0}, "
                      "{0}) -> {1}\n%t = mpc.transpose %c [0, 2, 1, 3] : {1} "
                      "to {2}\n%f = mpc.reshape %t : {2} to {3}\n"
                      "return %f : {3}\n}\n",
                      head, joint, split, joined)
                      .str();
  for (int64_t i = 0; i < 3; ++i)
    text += llvm::formatv("%t{0} = mpc.transpose %a#{0} [0, 2, 1, 3] : {1} to "
                          "{2}\n%f{0} = mpc.reshape %t{0} : {2} to {3}\n",
                          i, head, part, flat);
  if (stored == Stored::Apart)
    return text + "return %f0, %f1, %f2 : " + out + "\n}\n";
  return text + "%c = mpc.concat %f0, %f1, %f2 axis(1) : (" + flat + ", " +
         flat + ", " + flat + ") -> " + joined + "\nreturn %c : " + joined +
         "\n}\n";
}

TEST(CudaAttentionGradient, StoresPackedResults) {
  CudaKernelBatch batch;
  for (Stored stored : {Stored::Apart, Stored::SideBySide, Stored::Turned}) {
    batch.add(packed(2, 33, 3, 12, "f32", stored), attentionGradientCheck());
    batch.add(packed(1, 21, 2, 5, "f32", stored, "causal"),
              attentionGradientCheck());
    batch.add(packed(2, 21, 1, 1, "f64", stored), attentionGradientCheck());
    batch.add(packed(2, 20, 2, 16, "bf16", stored), fmaCheck());
    batch.add(packed(2, 20, 2, 16, "bf16", stored), attentionGradientCheck());
    batch.add(packed(1, 140, 2, 24, "f16", stored, "causal"),
              attentionGradientCheck());
    batch.add(packed(2, 21, 2, 5, "bf16", stored), attentionGradientCheck());
    batch.add(packed(1, 21, 2, 12, "f32", stored, "compute(tf32)"),
              attentionGradientCheck());
  }
  batch.expect();
}

// The checks of the host see one block after another, which never has to wait.
// So the order of a hand-over is read in the text: statistics, a fence of every
// thread and a barrier before rows are counted; the count, a barrier and a
// fence before statistics are read.
TEST(CudaAttentionGradient, WaitsForStatistics) {
  AttentionGradientCase plain{1, 4, 2, 40, 40, 8, 8, "f32"};
  // Nothing reads what is not published.
  // Two tiles of rows in each of two heads that share a key are four counts.
  expectCudaTextInOrder(
      plain.text(), cudaTarget("sm_80"),
      {"mpc::atomicAdd(counters, 1)", "statistics[", "mpc::fence();",
       "mpc::barrier();", "mpc::atomicAdd(counters + ", "} else {",
       "while (true)", "mpc::atomicAdd(counters + ", "published < 4",
       "mpc::pause();", "mpc::fence();", "mpc::atomicAdd(counters + 1, 1)",
       "mpc::barrier();", "mpc::fence();", "counters[i] = 0;",
       "mpc::copyAsync<4>(row_statistics"});
}

// This kernel does not support two results in one element.
TEST(CudaAttentionGradient, RefusesMixedResults) {
  std::string text = R"(
func.func private @k(%q: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> attributes {mpc.kernel_kind = "attention"} {
  %0:3 = mpc.attention_gradient %q, %q, %q, %q scale(0.5)
    : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>)
      -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>)
  %1 = mpc.add %0#0, %0#1 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %1 : tensor<2x3x4xf32>
})";
  EXPECT_NE(cudaText(text, cudaTarget("sm_80")).error, "");
}
