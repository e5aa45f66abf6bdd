//===- AttentionGradientMmaTests.cpp - attention backward by MMA ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionTesting.h"

#include "gtest/gtest.h"

using namespace mpc;

/// Each case's kernel multiplies on the matrix units, and its numbers hold.
static void
expectOnMatrixUnits(llvm::ArrayRef<AttentionGradientCase> cases,
                    const CudaKernelCheck &check = attentionGradientCheck()) {
  for (const AttentionGradientCase &each : cases)
    expectCudaText(each.text(), check.target, {"mpc::mma"});
  expectAttention(cases, check);
}

// Extents of 1, odd, prime, at and next to tile edges.
TEST(CudaAttentionGradientMma, Shapes) {
  expectOnMatrixUnits({
      {1, 1, 1, 1, 1, 1, 1, "bf16"},
      {2, 1, 1, 17, 3, 3, 5, "f16"},
      {1, 2, 2, 16, 16, 16, 16, "bf16"},
      {1, 2, 2, 33, 64, 64, 64, "f16"},
      {1, 1, 1, 65, 130, 24, 40, "bf16"},
      {1, 1, 1, 130, 65, 40, 24, "f16"},
      {1, 1, 1, 7, 67, 96, 72, "bf16"},
      {1, 1, 1, 67, 7, 72, 96, "bf16"},
      // Rows of 4 and 8 bytes are copied in such pieces.
      {1, 1, 1, 20, 20, 6, 12, "bf16"},
  });
}

// Tile rows that stay in shared memory, and accumulators that need two passes.
TEST(CudaAttentionGradientMma, WideHeads) {
  expectOnMatrixUnits({
      {1, 1, 1, 64, 65, 128, 128, "f16"},
      {1, 1, 1, 33, 34, 136, 120, "bf16"},
      {1, 1, 1, 34, 33, 136, 128, "bf16"},
      {1, 1, 1, 34, 18, 256, 256, "bf16"},
      {1, 1, 1, 18, 34, 8, 256, "f16"},
      {1, 1, 1, 18, 34, 256, 8, "f16"},
  });
}

// Blocks of several warps need many heads or long rows.
TEST(CudaAttentionGradientMma, ManyHeads) {
  expectOnMatrixUnits({
      {8, 12, 12, 70, 66, 16, 16, "bf16"},
      {8, 12, 4, 66, 70, 16, 16, "f16", "", "causal"},
      {8, 12, 12, 70, 66, 16, 16, "f32", "", kTf32},
  });
}

// The same in f32, whose operands and factors are rounded to tf32.
TEST(CudaAttentionGradientMma, Tf32) {
  expectOnMatrixUnits({
      {1, 1, 1, 1, 1, 1, 1, "f32", "", kTf32},
      {2, 1, 1, 17, 3, 3, 5, "f32", "", kTf32},
      {1, 2, 2, 16, 16, 16, 16, "f32", "", kTf32},
      {1, 2, 2, 33, 64, 64, 64, "f32", "", kTf32},
      {1, 1, 1, 65, 130, 24, 40, "f32", "", kTf32},
      {1, 1, 1, 64, 65, 128, 128, "f32", "", kTf32},
      {1, 1, 1, 33, 31, 136, 128, "f32", "", kTf32},
      {1, 1, 1, 18, 34, 256, 256, "f32", "", kTf32},
      // Rows of 4, 8 and 12 bytes are copied in such pieces.
      {1, 1, 1, 20, 20, 1, 2, "f32", "", kTf32},
      {1, 1, 1, 20, 20, 6, 3, "f32", "", kTf32},
  });
}

// The gradients of a key sum over the heads that share it, in one order.
TEST(CudaAttentionGradientMma, HeadsShareKeys) {
  expectOnMatrixUnits({
      {2, 6, 2, 10, 12, 8, 8, "bf16"},
      {2, 6, 1, 40, 45, 8, 8, "f16", "2x6x40x45xf32"},
      {1, 4, 2, 40, 45, 8, 8, "bf16", "4x40x45xi1", "causal"},
      {1, 2, 1, 20, 20, 136, 136, "bf16"},
      {2, 6, 2, 10, 12, 8, 8, "f32", "", kTf32},
  });
}

TEST(CudaAttentionGradientMma, Masks) {
  expectOnMatrixUnits({
      {2, 3, 3, 10, 45, 8, 8, "bf16", "2x1x1x45xf32"},
      {2, 3, 3, 40, 45, 8, 8, "bf16", "45xbf16"},
      {2, 3, 3, 40, 45, 8, 8, "f16", "40x1xf16"},
      {2, 3, 3, 40, 46, 8, 8, "bf16", "2x1x40x46xi1"},
      {2, 3, 3, 10, 45, 8, 8, "f32", "2x3x10x45xi1", kTf32},
      {2, 3, 3, 40, 45, 8, 8, "f32", "2x1x40x45xf32", kTf32},
      {1, 2, 2, 70, 70, 8, 8, "bf16", "70x70xi1", "causal"},
      {1, 2, 2, 70, 70, 8, 8, "f32", "70x70xf32", "causal " + kTf32},
  });
}

// More queries than keys: the first rows are masked and have no gradient.
// Fewer: the last query sees all keys.
TEST(CudaAttentionGradientMma, Causal) {
  expectOnMatrixUnits({
      {1, 2, 2, 100, 100, 8, 8, "bf16", "", "causal"},
      {1, 2, 2, 10, 145, 8, 8, "bf16", "", "causal"},
      {1, 2, 2, 90, 6, 8, 8, "f16", "", "causal"},
      {1, 2, 2, 150, 70, 8, 8, "f16", "", "causal"},
      {1, 1, 1, 40, 43, 256, 256, "bf16", "", "causal"},
      {1, 2, 1, 100, 100, 8, 8, "f32", "", "causal " + kTf32},
      {1, 2, 2, 90, 6, 8, 8, "f32", "", "causal " + kTf32},
  });
}

// Only stored results are computed; a wide head then needs one pass.
TEST(CudaAttentionGradientMma, StoresSomeResults) {
  expectOnMatrixUnits({
      {1, 2, 2, 20, 40, 8, 12, "bf16", "", "", "", "0"},
      {1, 2, 2, 20, 40, 8, 12, "bf16", "", "", "", "1"},
      {1, 2, 2, 20, 40, 8, 12, "f16", "", "", "", "2"},
      {1, 2, 1, 20, 40, 8, 12, "f16", "", "", "", "02"},
      {1, 1, 1, 20, 40, 144, 144, "bf16", "", "", "", "2"},
      {1, 1, 1, 20, 40, 144, 144, "bf16", "", "", "", "01"},
  });
}

// The gradient is rounded to the operands' type, in which it is multiplied.
TEST(CudaAttentionGradientMma, WideGradient) {
  expectOnMatrixUnits({
      {1, 2, 2, 20, 40, 16, 24, "bf16", "", "", "f32"},
      {1, 2, 2, 40, 20, 24, 16, "f16", "", "causal", "f32"},
      {1, 1, 1, 20, 40, 144, 144, "bf16", "", "", "f32"},
  });
}

// An upcast that the rounding undoes does not prevent the asynchronous copy of
// the gradient.
TEST(CudaAttentionGradientMma, LooksThroughConversions) {
  const char *text = R"(
func.func private @k(%q: tensor<1x2x20x16xbf16>, %g: tensor<1x2x20x16xbf16>) -> tensor<1x2x20x16xbf16>
    attributes {mpc.kernel_kind = "attention"} {
  %0 = mpc.cast %g : tensor<1x2x20x16xbf16> to tensor<1x2x20x16xf32>
  %1:3 = mpc.attention_gradient %q, %q, %q, %0 scale(2.500000e-01)
    : (tensor<1x2x20x16xbf16>, tensor<1x2x20x16xbf16>, tensor<1x2x20x16xbf16>, tensor<1x2x20x16xf32>)
      -> (tensor<1x2x20x16xbf16>, tensor<1x2x20x16xbf16>, tensor<1x2x20x16xbf16>)
  return %1#1 : tensor<1x2x20x16xbf16>
})";
  expectCudaKernel(text, attentionGradientCheck());
  expectCudaText(text, cudaTarget("sm_80"), {"mpc::copyAsync<16>"});
}

// A row whose positions are all masked has gradients of zero, not NaN.
TEST(CudaAttentionGradientMma, RowsThatKeepNothing) {
  CudaKernelCheck check = attentionGradientCheck();
  check.adjust = maskingRows(4, 3);
  expectOnMatrixUnits(
      {
          {1, 2, 2, 10, 85, 8, 8, "bf16", "1x1x10x85xf32"},
          {1, 2, 2, 40, 85, 8, 8, "f16", "1x1x40x85xi1"},
          {1, 2, 1, 10, 85, 8, 8, "f32", "1x1x10x85xf32", kTf32},
          {1, 2, 2, 10, 85, 8, 8, "f32", "1x1x10x85xi1", kTf32},
      },
      check);
}

TEST(CudaAttentionGradientMma, ExtremeMasks) {
  CudaKernelCheck check = attentionGradientCheck();
  check.adjust = adjustToExtremeMask;
  expectOnMatrixUnits(
      {
          {1, 1, 1, 10, 85, 8, 8, "bf16", "1x1x10x85xf32"},
          {1, 1, 1, 10, 85, 8, 8, "f32", "1x1x10x85xf32", kTf32},
      },
      check);
}

// Scores far from zero neither overflow nor vanish.
TEST(CudaAttentionGradientMma, LargeScores) {
  CudaKernelCheck check = attentionGradientCheck();
  check.scale = 20.0;
  expectOnMatrixUnits({{1, 2, 2, 10, 85, 16, 8, "bf16"},
                       {1, 2, 2, 10, 85, 16, 8, "f32", "", kTf32}},
                      check);
}

// Without asynchronous copies.
TEST(CudaAttentionGradientMma, OlderArchitecture) {
  expectOnMatrixUnits({{1, 2, 2, 40, 70, 24, 16, "f16"},
                       {1, 2, 1, 70, 40, 64, 64, "f16", "", "causal"},
                       {1, 1, 1, 20, 20, 144, 144, "f16"}},
                      attentionGradientCheck("sm_75"));
}

// As by FMA, the text is checked for the order of producer and consumer; here
// asynchronous copies load the statistics.
TEST(CudaAttentionGradientMma, WaitsForStatistics) {
  AttentionGradientCase plain{1, 4, 2, 40, 40, 8, 8, "bf16"};
  // Nothing copies what is not published.
  // Three tiles of rows in each of two heads that share a key are six counts.
  expectCudaTextInOrder(plain.text(), cudaTarget("sm_80"),
                        {"mpc::atomicAdd(counters, 1)", "statistics[",
                         "mpc::fence();", "mpc::barrier();",
                         "mpc::atomicAdd(counters + ", "while (true)",
                         "mpc::atomicAdd(counters + ", "published < 6",
                         "mpc::pause();", "mpc::fence();", "mpc::barrier();",
                         "mpc::fence();", "mpc::copyAsync<4>(row_statistics"});
}

// The fast path is pipelined, and whole tiles are not masked.
TEST(CudaAttentionGradientMma, PrintsPipelines) {
  // There is no loop over a tile that holds all keys.
  AttentionGradientCase narrow{1, 2, 2, 128, 128, 64, 64, "bf16"};
  expectCudaText(narrow.text(), cudaTarget("sm_80"),
                 {"mpc::mma<mpc::bfloat16>", "mpc::copyAsync<16>",
                  "mpc::loadMatrixTransposed"},
                 {"position", "for (int first_key"});
  AttentionGradientCase longer{1, 2, 2, 128, 256, 64, 64, "bf16"};
  expectCudaText(longer.text(), cudaTarget("sm_80"), {"for (int first_key"});
  // f32 stays f32 without the permission, and where there is no tf32.
  AttentionGradientCase wide{1, 2, 2, 128, 128, 64, 64, "f32", "", kTf32};
  expectCudaText(wide.text(), cudaTarget("sm_80"), {"mpc::mmaTf32("});
  expectCudaText(wide.text(), cudaTarget("sm_75"), {}, {"mmaTf32"});
  wide.flags = "";
  expectCudaText(wide.text(), cudaTarget("sm_80"), {}, {"mmaTf32"});
}
