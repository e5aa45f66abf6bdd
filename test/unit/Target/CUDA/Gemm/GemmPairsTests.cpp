//===- GemmPairsTests.cpp - gated matmuls (SwiGLU) ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels whose epilogue combines both halves of a matmul's columns.
//
//===----------------------------------------------------------------------===//

#include "CudaKernelRunner.h"
#include "GemmTesting.h"
#include "HostKernelTesting.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

using namespace mpc;
using namespace mpc::cuda;

namespace {
/// `silu(x @ gate + bias) * (x @ up)` with both weights in one operand.
struct Pair {
  int64_t batch, m, k, n;
  std::string type = "f32";
  std::string flags = "";
  bool isTurned = false;
  int64_t block = 8;
  /// The halves in the order in which the epilogue has them.
  int first = 0;

  std::string text() const;
};
} // namespace

std::string Pair::text() const {
  std::string head = batch > 1 ? std::to_string(batch) + "x" : "";
  auto tensor = [&](const std::string &shape, const std::string &element) {
    return "tensor<" + head + shape + "x" + element + ">";
  };
  auto by = [](int64_t a, int64_t b) {
    return std::to_string(a) + "x" + std::to_string(b);
  };
  std::string x = tensor(by(m, k), type),
              w = tensor(isTurned ? by(2 * n, k) : by(k, 2 * n), type),
              y = tensor(by(m, n), "f32"), narrow = tensor(by(m, n), "bf16");
  std::string split = llvm::formatv("{0}x{1}x2x{2}", m, n / block, block),
              part = llvm::formatv("{0}x{1}x1x{2}", m, n / block, block);
  std::string sizes = llvm::formatv(
      "[{0}{1}, {2}, 1, {3}]", batch > 1 ? std::to_string(batch) + ", " : "", m,
      n / block, block);
  std::string halves;
  for (int number : {0, 1}) {
    std::string own = std::to_string(number);
    halves += "  %s" + own + " = mpc.slice %b [" +
              (batch > 1 ? "0, 0, 0, " : "0, 0, ") + own + ", 0] " + sizes +
              " : " + tensor(split, "f32") + " to " + tensor(part, "f32") +
              "\n  %h" + own + " = mpc.reshape %s" + own + " : " +
              tensor(part, "f32") + " to " + y + "\n";
  }
  return llvm::formatv(
      "func.func private @k(%x: {0}, %w: {1}, %c: tensor<{2}xf32>) -> ({3}, "
      "{10}) attributes {{mpc.kernel_kind = \"contraction\"} {{\n"
      "  %p = mpc.matmul %x, %w {4} : ({0}, {1}) -> {5}\n"
      "  %b = mpc.reshape %p : {5} to {6}\n{7}"
      "  %0 = mpc.add %h{8}, %c : ({3}, tensor<{2}xf32>) -> {3}\n"
      "  %1 = mpc.sigmoid %0 : {3}\n"
      "  %2 = mpc.mul %0, %1 : ({3}, {3}) -> {3}\n"
      "  %3 = mpc.mul %2, %h{9} : ({3}, {3}) -> {3}\n"
      "  %4 = mpc.cast %3 : {3} to {10}\n"
      "  return %3, %4 : {3}, {10}\n}\n",
      x, w, n, y, (isTurned ? "transpose_rhs " : "") + flags,
      tensor(by(m, 2 * n), "f32"), tensor(split, "f32"), halves, first,
      1 - first, narrow);
}

static CudaKernelCheck gemm(const char *target = "sm_80") {
  CudaKernelCheck check;
  check.target = cudaTarget(target);
  check.family = "gemm";
  return check;
}

TEST(GemmPairs, EdgeShapesOfEveryType) {
  CudaKernelBatch batch;
  for (auto [m, k, n] : {std::tuple(1, 64, 8), std::tuple(13, 17, 24),
                         std::tuple(40, 96, 64), std::tuple(70, 40, 136)})
    for (auto [type, flags] :
         {std::pair("f16", ""), std::pair("bf16", ""), std::pair("f32", ""),
          std::pair("f32", "compute(tf32)")})
      batch.add(Pair{1, m, k, n, type, flags}.text(), gemm());
  batch.expect();
}

TEST(GemmPairs, BatchesTurnedWeightsAndOlderArchitectures) {
  CudaKernelBatch batch;
  for (const char *type : {"bf16", "f16", "f32"}) {
    batch.add(Pair{3, 17, 32, 40, type}.text(), gemm());
    batch.add(Pair{1, 17, 32, 40, type, "", /*isTurned=*/true}.text(), gemm());
    batch.add(Pair{1, 17, 32, 40, type}.text(), gemm("sm_75"));
    batch.add(Pair{1, 17, 32, 40, type}.text(), gemm("sm_90a"));
  }
  batch.expect();
}

/// Every tile has both halves of its pairs, whatever the warps.
TEST(GemmPairs, EveryTile) {
  CudaKernelBatch batch;
  unsigned count = 0;
  for (auto [type, compute] : {std::pair("bf16", ""), std::pair("f32", ""),
                               std::pair("f32", "compute(tf32)")}) {
    CudaKernelCheck check = gemm();
    check.orders = {ThreadOrder::Shuffled};
    auto text = [&](int64_t m, int64_t n) {
      return Pair{1, m, 72, n, type, compute}.text();
    };
    std::vector<GemmTiles> all = tilesOf(text(16, 16), check.target);
    for (size_t i = 0; i < all.size(); ++i, ++count) {
      EXPECT_EQ(all[i].warpN() % 16, 0);
      batch.add(
          withTiles(text(all[i].m + 8, all[i].n / 2 + 8), i, check.target).text,
          check);
    }
  }
  EXPECT_GT(count, 20u);
  batch.expect();
}

TEST(GemmPairs, LongContractionsUseSplitK) {
  CudaKernelBatch batch;
  std::string text = Pair{1, 20, 2304, 24, "bf16"}.text();
  CudaTarget target;
  ParsedGemm parsed(text, target);
  ASSERT_TRUE(parsed.problem);
  EXPECT_GT(GemmTiles::choose(*parsed.problem, target).splits, 1);
  batch.add(text, gemm());
  batch.expect();
}

/// Blocks that tiles might cut are no pair to this family.
TEST(GemmPairs, OtherBlocksAreRefused) {
  Pair pair{1, 16, 16, 24, "bf16"};
  pair.block = 12;
  ParsedGemm parsed(pair.text(), CudaTarget());
  EXPECT_FALSE(parsed.problem);
}
