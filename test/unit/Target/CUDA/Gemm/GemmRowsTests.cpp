//===- GemmRowsTests.cpp - GEMMs with a norm prologue ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A norm fused as the prologue of a GEMM: the rows of each block's tile, in
// every type, with whole and odd extents, and with all tile shapes.
//
//===----------------------------------------------------------------------===//

#include "CudaKernelRunner.h"
#include "GemmTesting.h"
#include "HostKernelTesting.h"

#include "gtest/gtest.h"

using namespace mpc;
using namespace mpc::cuda;

namespace {
/// `norm(x) * w + b`, the norm in f32 and the GEMM in `type`.
struct NormedProduct {
  int64_t m, k, n;
  std::string type;
  bool isLayerNorm = false;
  /// Whether rows are those of a batch, and arithmetic precedes the norm.
  bool isBatched = false, isScaled = false;
  std::string compute = "";

  std::string text() const;
};
} // namespace

static std::string tensor(std::vector<int64_t> shape, const std::string &type) {
  std::string text = "tensor<";
  for (int64_t extent : shape)
    text += std::to_string(extent) + "x";
  return text + type + ">";
}

std::string NormedProduct::text() const {
  auto rows = [&](int64_t last, const std::string &of) {
    return isBatched ? tensor({2, m / 2, last}, of) : tensor({m, last}, of);
  };
  std::string x = rows(k, "f32"), narrow = rows(k, type), y = rows(n, "f32"),
              w = tensor({k, n}, type), s = tensor({k}, "f32"),
              b = tensor({n}, "f32"), axis = isBatched ? "2" : "1", left = "%x";
  std::string body;
  if (isScaled) {
    body += "  %t = mpc.add %x, %s : (" + x + ", " + s + ") -> " + x + "\n";
    left = "%t";
  }
  body += "  %0 = mpc." +
          (isLayerNorm ? "layer_norm " + left + ", %s, %s"
                       : "rms_norm " + left + ", %s") +
          " axis(" + axis + ") epsilon(1.0e-5) : (" + x + ", " + s +
          (isLayerNorm ? ", " + s : "") + ") -> " + x + "\n";
  std::string operand = "%0";
  if (type != "f32") {
    body += "  %1 = mpc.cast %0 : " + x + " to " + narrow + "\n";
    operand = "%1";
  }
  body += "  %2 = mpc.matmul " + operand + ", %w " + compute + " : (" + narrow +
          ", " + w + ") -> " + y + "\n  %3 = mpc.add %2, %b : (" + y + ", " +
          b + ") -> " + y + "\n  return %3 : " + y + "\n}\n";
  return "func.func private @k(%x: " + x + ", %s: " + s + ", %w: " + w +
         ", %b: " + b + ") -> " + y +
         " attributes {mpc.kernel_kind = \"contraction\"} {\n" + body;
}

static CudaKernelCheck gemm(const char *target = "sm_80") {
  CudaKernelCheck check;
  check.target = cudaTarget(target);
  check.family = "gemm";
  return check;
}

TEST(GemmRowPrologue, NormsOfEveryType) {
  CudaKernelBatch batch;
  for (const char *type : {"f16", "bf16", "f32"})
    for (bool isLayerNorm : {false, true})
      for (auto &[m, k, n] : {std::tuple<int64_t, int64_t, int64_t>{1, 512, 64},
                              {128, 256, 96},
                              {64, 64, 8}})
        batch.add(NormedProduct{m, k, n, type, isLayerNorm}.text(), gemm());
  batch.add(
      NormedProduct{32, 64, 64, "f32", true, false, false, "compute(tf32)"}
          .text(),
      gemm());
  batch.expect();
}

/// Padding after the last row and after the end of k contributes nothing.
TEST(GemmRowPrologue, OddExtents) {
  CudaKernelBatch batch;
  for (const char *type : {"f16", "bf16", "f32"})
    for (auto &[m, k, n] : {std::tuple<int64_t, int64_t, int64_t>{3, 24, 24},
                            {17, 13, 20},
                            {70, 100, 33},
                            {130, 72, 40}})
      batch.add(NormedProduct{m, k, n, type, m % 2 == 0}.text(), gemm());
  batch.add(NormedProduct{17, 40, 24, "f16"}.text(), gemm("sm_75"));
  batch.add(NormedProduct{17, 40, 24, "bf16"}.text(), gemm("sm_75"));
  batch.expect();
}

TEST(GemmRowPrologue, RowsOfBatchesWithArithmeticBefore) {
  CudaKernelBatch batch;
  for (const char *type : {"bf16", "f32"})
    for (bool isScaled : {false, true})
      batch.add(NormedProduct{36, 64, 40, type, true, true, isScaled}.text(),
                gemm());
  batch.expect();
}

/// Rows and their inputs that other ops read, too, are stored once, for any
/// shape and for any reshape between the rows and the GEMM.
TEST(GemmRowPrologue, RowsThatAreStored) {
  CudaKernelBatch batch;
  for (auto &[m, n] : {std::pair<int64_t, int64_t>{9, 24}, {32, 200}}) {
    std::string x = tensor({2, m, 72}, "f32"),
                rows = tensor({2 * m, 72}, "f16"),
                narrow = tensor({2, m, 72}, "f16"), s = tensor({72}, "f32"),
                w = tensor({72, n}, "f16"), y = tensor({2 * m, n}, "f32");
    batch.add("func.func private @k(%a: " + x + ", %b: " + x + ", %s: " + s +
                  ", %w: " + w + ") -> (" + x + ", " + y + ", " + narrow +
                  ") attributes {mpc.kernel_kind = \"contraction\"} {\n"
                  "  %0 = mpc.add %a, %b : (" +
                  x + ", " + x + ") -> " + x +
                  "\n  %1 = mpc.rms_norm %0, %s axis(2) epsilon(1.0e-5) : (" +
                  x + ", " + s + ") -> " + x + "\n  %2 = mpc.cast %1 : " + x +
                  " to " + narrow + "\n  %3 = mpc.reshape %2 : " + narrow +
                  " to " + rows + "\n  %4 = mpc.matmul %3, %w : (" + rows +
                  ", " + w + ") -> " + y + "\n  return %0, %4, %2 : " + x +
                  ", " + y + ", " + narrow + "\n}\n",
              gemm());
  }
  batch.expect();
}

/// Rows that no thread has registers for are read again.
TEST(GemmRowPrologue, LongRows) {
  CudaKernelBatch batch;
  batch.add(NormedProduct{5, 4096, 32, "bf16", true}.text(), gemm("sm_90"));
  batch.add(NormedProduct{2, 1536, 32, "f32", true}.text(), gemm("sm_90"));
  batch.expect();
}

TEST(GemmRowPrologue, AllTiles) {
  CudaKernelBatch batch;
  CudaKernelCheck check = gemm();
  std::string text = NormedProduct{70, 96, 72, "bf16", true}.text();
  size_t count = tilesOf(text, check.target).size();
  ASSERT_GT(count, 4u);
  for (size_t number = 0; number < count; number += 3)
    batch.add(withTiles(text, number, check.target).text, check);
  batch.expect();
}

/// Blocks buffer whole rows if shared memory has the capacity, and do not use
/// split-K, since each split would need the whole rows.
TEST(GemmRowPrologue, BlocksHaveWholeRows) {
  CudaTarget target = cudaTarget("sm_90");
  ParsedGemm gemm(NormedProduct{16, 2048, 64, "bf16"}.text(), target);
  ASSERT_TRUE(gemm.problem && gemm.problem->rows);
  GemmTiles tiles = GemmTiles::choose(*gemm.problem, target);
  EXPECT_EQ(tiles.splits, 1);
  EXPECT_EQ(tiles.lhsStages(*gemm.problem), 2048 / tiles.k);
  EXPECT_GE(tiles.sharedBytes(*gemm.problem), 2 * tiles.m * 2048);
}

/// Rows that are too long for any block have no kernel.
TEST(GemmRowPrologue, TooLongRowsAreRefused) {
  CudaTarget target = cudaTarget("sm_80");
  ParsedGemm gemm(NormedProduct{16, 16384, 64, "f32"}.text(), target);
  ASSERT_TRUE(gemm.problem);
  std::unique_ptr<GemmPlan> plan =
      GemmPlan::of(gemm.kernel, target, std::move(gemm.problem));
  EXPECT_FALSE(plan && plan->schedule());
}
