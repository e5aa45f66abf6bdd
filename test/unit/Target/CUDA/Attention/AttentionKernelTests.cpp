//===- AttentionKernelTests.cpp - emitted attention kernels ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionTesting.h"

#include "gtest/gtest.h"

#include <limits>

using namespace mpc;

static void expectCases(llvm::ArrayRef<AttentionCase> cases,
                        const CudaKernelCheck &check = attentionCheck()) {
  expectAttention(cases, check);
}

// Extents of 1, odd, prime, at and next to tile edges.
TEST(CudaAttention, ShapesOnMatrixUnits) {
  expectCases({
      {1, 1, 1, 1, 1, 1, 1, "bf16"},
      {2, 1, 1, 17, 3, 3, 5, "f16"},
      {1, 2, 2, 16, 16, 16, 16, "bf16", "", "", "bf16"},
      {1, 2, 2, 33, 64, 64, 64, "f16", "", "", "f16"},
      {1, 1, 1, 65, 130, 24, 40, "bf16", "", "", "bf16"},
      {1, 1, 1, 7, 67, 96, 72, "bf16", "", "", "f16"},
      {1, 1, 1, 64, 65, 128, 128, "f16", "", "", "bf16"},
      {1, 1, 1, 18, 34, 256, 256, "bf16", "", "", "bf16"},
      {1, 1, 1, 5, 40, 8, 208, "bf16", "", "", "bf16"},
      // Rows of 4 and 8 bytes are copied in such pieces.
      {1, 1, 1, 20, 20, 6, 12, "bf16"},
  });
}

// The same in f32, whose operands and weights are rounded to tf32.
TEST(CudaAttention, ShapesInTf32) {
  expectCases({
      {1, 1, 1, 1, 1, 1, 1, "f32", "", kTf32},
      {2, 1, 1, 17, 3, 3, 5, "f32", "", kTf32},
      {1, 2, 2, 16, 16, 16, 16, "f32", "", kTf32},
      {1, 2, 2, 33, 64, 64, 64, "f32", "", kTf32},
      {1, 1, 1, 65, 130, 24, 40, "f32", "", kTf32},
      {1, 1, 1, 7, 67, 96, 72, "f32", "", kTf32, "bf16"},
      {1, 1, 1, 64, 65, 128, 128, "f32", "", kTf32},
      // The query stays in shared memory.
      {1, 1, 1, 33, 31, 136, 120, "f32", "", kTf32},
      {1, 1, 1, 18, 34, 256, 256, "f32", "", kTf32},
      {1, 1, 1, 5, 40, 8, 208, "f32", "", kTf32},
      // Rows of 4, 8 and 12 bytes are copied in such pieces.
      {1, 1, 1, 20, 20, 1, 2, "f32", "", kTf32},
      {1, 1, 1, 20, 20, 6, 3, "f32", "", kTf32},
  });
}

// Grouped heads, masks of either kind, the diagonal, alone and together.
TEST(CudaAttention, MasksInTf32) {
  expectCases({
      {2, 6, 2, 10, 12, 8, 8, "f32", "", kTf32},
      {2, 6, 1, 10, 45, 8, 8, "f32", "2x1x10x45xf32", kTf32},
      {2, 3, 3, 10, 45, 8, 8, "f32", "45xf16", kTf32},
      {2, 3, 3, 10, 46, 8, 8, "f32", "2x1x10x46xi1", kTf32},
      {1, 2, 2, 70, 70, 8, 8, "f32", "70x70xi1", "causal " + kTf32},
      {1, 2, 2, 100, 100, 8, 8, "f32", "", "causal " + kTf32},
      {1, 2, 1, 10, 145, 8, 8, "f32", "", "causal " + kTf32},
      {1, 2, 2, 90, 6, 8, 8, "f32", "", "causal " + kTf32},
  });
}

// Cases that tensor cores do not support are computed in f32: wide heads, no
// depth, no position, and architectures without tf32.
TEST(CudaAttention, Tf32ByFma) {
  expectCases({
      {1, 1, 1, 3, 4, 300, 8, "f32", "", kTf32},
      {1, 2, 2, 5, 6, 0, 8, "f32", "", kTf32},
      {1, 2, 2, 5, 0, 8, 8, "f32", "", kTf32},
  });
  expectCases({{1, 2, 2, 20, 30, 16, 16, "f32", "", kTf32}},
              attentionCheck("sm_75"));
}

TEST(CudaAttention, ShapesByFma) {
  expectCases({
      {1, 1, 1, 1, 1, 1, 1, "f32"},
      {2, 3, 3, 20, 20, 16, 16, "f32"},
      {1, 1, 1, 67, 33, 64, 64, "f32"},
      {1, 1, 1, 17, 31, 65, 7, "f32"},
      {1, 1, 1, 3, 5, 200, 300, "f32"},
      {1, 2, 2, 9, 11, 7, 5, "f64", "", "", "f64"},
      {1, 1, 1, 40, 40, 40, 66, "f64", "", "causal", "f64"},
      // Heads that are too wide for the tensor-core variant.
      {1, 1, 1, 3, 4, 300, 8, "bf16"},
  });
}

// No depth and no position: the mean of the values, and zeros.
TEST(CudaAttention, ZeroSized) {
  expectCases({
      {1, 2, 2, 5, 6, 0, 8, "bf16"},
      {1, 2, 2, 5, 0, 8, 8, "bf16"},
      {1, 2, 2, 5, 0, 8, 8, "f32"},
  });
}

TEST(CudaAttention, HeadsShareKeys) {
  expectCases({
      {2, 6, 2, 10, 12, 8, 8, "f32"},
      {2, 6, 2, 10, 12, 8, 8, "bf16"},
      {2, 6, 1, 10, 12, 8, 8, "f16"},
  });
}

TEST(CudaAttention, Masks) {
  expectCases({
      {2, 3, 3, 10, 45, 8, 8, "f32", "2x1x10x45xf32"},
      {2, 3, 3, 10, 45, 8, 8, "bf16", "2x1x1x45xf32"},
      {2, 3, 3, 10, 45, 8, 8, "bf16", "45xbf16"},
      {2, 3, 3, 10, 45, 8, 8, "f16", "10x1xf16"},
      {2, 3, 3, 10, 46, 8, 8, "bf16", "2x1x10x46xi1"},
      {2, 3, 3, 10, 45, 8, 8, "f32", "2x3x10x45xi1"},
      {1, 2, 2, 70, 70, 8, 8, "bf16", "70x70xi1", "causal", "bf16"},
  });
}

// More queries than keys: the first rows are masked and give zeros. Fewer:
// the last query sees all keys.
TEST(CudaAttention, Causal) {
  expectCases({
      {1, 2, 2, 100, 100, 8, 8, "bf16", "", "causal", "bf16"},
      {1, 2, 2, 10, 145, 8, 8, "bf16", "", "causal"},
      {1, 2, 2, 90, 6, 8, 8, "f16", "", "causal"},
      {1, 2, 2, 40, 40, 8, 8, "f32", "", "causal"},
      {1, 2, 2, 80, 6, 8, 8, "f32", "", "causal"},
  });
}

// A row whose positions are all masked gives zeros, not NaN.
TEST(CudaAttention, RowsThatKeepNothing) {
  CudaKernelCheck check = attentionCheck();
  check.adjust = maskingRows(3, 3);
  expectCases(
      {
          {1, 2, 2, 10, 85, 8, 8, "f32", "1x1x10x85xf32"},
          {1, 2, 2, 10, 85, 8, 8, "f32", "1x1x10x85xf32", kTf32},
          {1, 2, 2, 10, 85, 8, 8, "f32", "1x1x10x85xi1", kTf32},
          {1, 2, 2, 10, 85, 8, 8, "bf16", "1x1x10x85xf32"},
          {1, 2, 2, 10, 85, 8, 8, "bf16", "1x1x10x85xi1"},
      },
      check);
}

// Few queries: blocks share the keys of a head, also where a part of these is
// hidden from all of its rows, or is beyond the diagonal, or is short.
TEST(CudaAttention, BlocksShareKeys) {
  CudaKernelCheck check = attentionCheck();
  // The last block is the one that runs last.
  check.orders = {ThreadOrder::Ascending, ThreadOrder::Shuffled,
                  ThreadOrder::Descending};
  expectCases(
      {
          {1, 2, 2, 1, 1000, 64, 64, "bf16"},
          {2, 4, 1, 1, 515, 16, 24, "f16", "", "", "f16"},
          {1, 1, 1, 16, 769, 40, 33, "bf16", "769xi1"},
          {1, 2, 2, 7, 600, 8, 8, "f32", "1x1x7x600xf32"},
          {1, 2, 2, 3, 600, 8, 140, "f32", "", "causal"},
          {1, 2, 1, 2, 2050, 8, 8, "f32", "", kTf32},
          {1, 1, 1, 9, 640, 8, 8, "f32", "9x640xi1", "causal " + kTf32},
          {1, 1, 1, 3, 400, 8, 6, "f64", "", "causal", "f64"},
          {1, 1, 1, 5, 700, 300, 8, "bf16"},
      },
      check);
  check.adjust = [](unsigned index, reference::Tensor &tensor) {
    // The first 400 keys, which the first parts have.
    if (index == 3 && tensor.isFloat())
      for (auto [i, number] : llvm::enumerate(tensor.floats()))
        number =
            i % 1000 < 400 ? -std::numeric_limits<double>::infinity() : number;
    else if (index == 3)
      for (auto [i, number] : llvm::enumerate(tensor.ints()))
        number = i % 1000 >= 400;
  };
  expectCases({{1, 2, 2, 4, 1000, 16, 16, "bf16", "4x1000xf32"},
               {1, 2, 2, 4, 1000, 16, 16, "bf16", "4x1000xi1"},
               {1, 2, 2, 4, 1000, 16, 16, "f32", "4x1000xf32"},
               {1, 2, 2, 4, 1000, 16, 16, "f32", "4x1000xi1", kTf32}},
              check);
}

// A mask of the lowest finite number gives the mean of a row if it covers the
// whole row.
TEST(CudaAttention, LowestFiniteMask) {
  CudaKernelCheck check = attentionCheck();
  check.adjust = maskingRows(3, 2, -std::numeric_limits<float>::max());
  expectCases(
      {
          {1, 1, 1, 10, 85, 8, 8, "f32", "1x1x10x85xf32"},
          {1, 1, 1, 10, 85, 8, 8, "f32", "1x1x10x85xf32", kTf32},
          {1, 1, 1, 10, 85, 8, 8, "bf16", "1x1x10x85xf32"},
      },
      check);
}

// Scores far from zero neither overflow nor vanish.
TEST(CudaAttention, LargeScores) {
  CudaKernelCheck check = attentionCheck();
  check.scale = 20.0;
  expectCases({{1, 2, 2, 10, 85, 16, 8, "f32"},
               {1, 2, 2, 10, 85, 16, 8, "f32", "", kTf32},
               {1, 2, 2, 10, 85, 16, 8, "bf16", "", "", "bf16"}},
              check);
}

// Without asynchronous copies, and without bf16 on the matrix units.
TEST(CudaAttention, OlderArchitecture) {
  expectCases({{1, 2, 2, 40, 70, 24, 16, "f16", "", "", "f16"},
               {1, 2, 2, 20, 30, 16, 16, "bf16", "", "", "bf16"}},
              attentionCheck("sm_75"));
}

/// A kernel that reads query, key and value from one packed tensor
/// [batch, length, 3 * heads * width] and stores positions before heads.
static std::string packed(int64_t batch, int64_t length, int64_t heads,
                          int64_t width, const std::string &type,
                          const std::string &flags = "") {
  int64_t all = heads * width;
  std::string x = tensorType({batch, length, 3 * all}, type),
              part = tensorType({batch, length, heads, width}, type),
              head = tensorType({batch, heads, length, width}, type),
              wide = tensorType({batch, heads, length, width}, "f32"),
              back = tensorType({batch, length, heads, width}, "f32"),
              joined = tensorType({batch, length, all}, "f32"),
              out = tensorType({batch, length, all}, type);
  std::string text = "func.func private @k(%x: " + x + ", %r: " + joined +
                     ") -> " + out +
                     " attributes {mpc.kernel_kind = \"attention\"} {\n" +
                     splitIntoHeads(batch, length, heads, width, type);
  text += llvm::formatv(
      "%a = mpc.attention %h0, %h1, %h2 scale(3.000000e-01) {6} : ({0}, {0}, "
      "{0}) -> {1}\n%t = mpc.transpose %a [0, 2, 1, 3] : {1} to {2}\n"
      "%q = mpc.reshape %r : {3} to {2}\n"
      "%u = mpc.add %t, %q : ({2}, {2}) -> {2}\n"
      "%c = mpc.cast %u : {2} to {4}\n%o = mpc.reshape %c : {4} to {5}\n"
      "return %o : {5}\n}\n",
      head, wide, back, joined, part, out, flags);
  return text;
}

TEST(CudaAttention, ReadsPackedOperands) {
  CudaKernelBatch batch;
  batch.add(packed(2, 33, 3, 16, "bf16"), attentionCheck());
  batch.add(packed(1, 70, 2, 24, "f16"), attentionCheck());
  batch.add(packed(2, 21, 2, 5, "bf16"), attentionCheck());
  batch.add(packed(2, 33, 3, 12, "f32"), attentionCheck());
  batch.add(packed(2, 33, 3, 12, "f32", kTf32), attentionCheck());
  batch.add(packed(1, 21, 2, 5, "f32", kTf32), attentionCheck());
  batch.expect();
}

// Rows that padding added are computed and not stored.
TEST(CudaAttention, StoresASlice) {
  expectCudaKernel(R"(
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
})",
                   attentionCheck());
}

// Operands with a fused prologue: f32 in memory, 16 bits in the matmul.
TEST(CudaAttention, ConvertsOperands) {
  expectCudaKernel(R"(
func.func private @k(%q: tensor<2x20x16xf32>, %k: tensor<2x37x16xbf16>, %v: tensor<2x37x16xf32>)
    -> tensor<2x20x16xbf16> attributes {mpc.kernel_kind = "attention"} {
  %0 = mpc.cast %q : tensor<2x20x16xf32> to tensor<2x20x16xbf16>
  %1 = mpc.cast %v : tensor<2x37x16xf32> to tensor<2x37x16xbf16>
  %2 = mpc.attention %0, %k, %1 scale(2.500000e-01)
    : (tensor<2x20x16xbf16>, tensor<2x37x16xbf16>, tensor<2x37x16xbf16>) -> tensor<2x20x16xf32>
  %3 = mpc.cast %2 : tensor<2x20x16xf32> to tensor<2x20x16xbf16>
  return %3 : tensor<2x20x16xbf16>
})",
                   attentionCheck());
}

// The fast path is used, and whole tiles are not masked.
TEST(CudaAttention, PrintsMatrixUnitsAndPipelines) {
  AttentionCase narrow{1, 2, 2, 128, 128, 64, 64, "bf16", "", "", "bf16"};
  expectCudaText(narrow.text(), cudaTarget("sm_80"),
                 {"mpc::mma<mpc::bfloat16>", "mpc::copyAsync<16>",
                  "mpc::loadMatrixTransposed"},
                 {"position"});
}

// Many heads, or few keys, have no parts.
TEST(CudaAttention, PrintsParts) {
  AttentionCase decode{1, 8, 8, 1, 4096, 64, 64, "bf16", "", "", "bf16"};
  expectCudaText(decode.text(), cudaTarget("sm_90a"),
                 {"part_begin", "partials", "counters"}, {});
  decode.heads = decode.groups = 128;
  expectCudaText(decode.text(), cudaTarget("sm_90a"), {}, {"partials"});
  decode.heads = decode.groups = 8;
  decode.t = 200;
  expectCudaText(decode.text(), cudaTarget("sm_90a"), {}, {"partials"});
}

TEST(CudaAttention, PrintsTf32) {
  AttentionCase wide{1, 2, 2, 128, 128, 64, 64, "f32", "", kTf32};
  expectCudaText(wide.text(), cudaTarget("sm_80"),
                 {"mpc::mmaTf32(", "mpc::copyAsync<16>"}, {"position"});
  // f32 stays f32 without the permission, and where there is no tf32.
  expectCudaText(wide.text(), cudaTarget("sm_75"), {"mpc::fma("}, {"mmaTf32"});
  wide.flags = "";
  expectCudaText(wide.text(), cudaTarget("sm_80"), {}, {"mmaTf32"});
}
