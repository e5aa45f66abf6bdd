//===- GemmWarpgroupTests.cpp - GEMMs by warpgroup MMA --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels for sm_90a on the host, where an asynchronous MMA runs as late as its
// wait allows: a tile that is overwritten too early gives wrong results.
//
//===----------------------------------------------------------------------===//

#include "../CudaKernelRunner.h"
#include "GemmTesting.h"
#include "HostKernelTesting.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

using namespace mpc;
using namespace mpc::cuda;

namespace {
struct Product {
  int64_t m, k, n;
  bool turnsLeft = false, turnsRight = false;
  const char *type = "bf16", *rightType = nullptr, *flags = "";

  std::string text() const;
};
} // namespace

std::string Product::text() const {
  auto tensor = [&](int64_t rows, int64_t columns, const char *type) {
    return llvm::formatv("tensor<{0}x{1}x{2}>", rows, columns, type).str();
  };
  const char *right = rightType ? rightType : type;
  return llvm::formatv(
      "func.func private @k(%x: {0}, %w: {1}) -> tensor<{2}x{3}xf32> "
      "attributes "
      "{{mpc.kernel_kind = \"contraction\"} {{\n  %0 = mpc.matmul %x, %w "
      "{4}{5} {6} : ({0}, {1}) -> tensor<{2}x{3}xf32>\n  return %0 : "
      "tensor<{2}x{3}xf32>\n}\n",
      turnsLeft ? tensor(k, m, type) : tensor(m, k, type),
      turnsRight ? tensor(n, k, right) : tensor(k, n, right), m, n,
      turnsLeft ? "transpose_lhs " : "", turnsRight ? "transpose_rhs" : "",
      flags);
}

static CudaKernelCheck onHopper() {
  CudaKernelCheck check;
  check.target = cudaTarget("sm_90a");
  check.orders = {ThreadOrder::Shuffled};
  return check;
}

/// The numbers of the tiles of four warps.
static std::vector<size_t> warpgroupTiles(const std::string &text) {
  std::vector<size_t> numbers;
  std::vector<GemmTiles> all = tilesOf(text, cudaTarget("sm_90a"));
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].warpgroups)
      numbers.push_back(i);
  return numbers;
}

/// Every tile, whole and with rows, columns and positions that exceed the
/// matrices, each operand transposed or not.
TEST(GemmWarpgroups, EveryTile) {
  CudaKernelBatch batch;
  CudaKernelCheck check = onHopper();
  std::vector<GemmTiles> all =
      tilesOf(Product{512, 448, 512}.text(), check.target);
  size_t count = 0;
  for (const GemmTiles &tiles : all) {
    if (!tiles.warpgroups)
      continue;
    for (bool isWhole : {true, false}) {
      Product product{tiles.m + (isWhole ? 0 : 8), isWhole ? 448 : 200,
                      tiles.n + (isWhole ? 0 : 16)};
      product.turnsLeft = count % 4 >= 2;
      product.turnsRight = count % 2;
      product.type = count % 3 ? "bf16" : "f16";
      ++count;
      for (size_t number : warpgroupTiles(product.text())) {
        GemmTiles other = tilesOf(product.text(), check.target)[number];
        if (other.m == tiles.m && other.n == tiles.n)
          batch.add(withTiles(product.text(), number, check.target).text,
                    check);
      }
    }
  }
  EXPECT_GE(count, 16u);
  batch.expect();
}

/// Odd extents leave chunks of fewer than eight elements, stored contiguously;
/// short GEMMs have no pipeline stage ahead, or only one.
TEST(GemmWarpgroups, OddExtents) {
  CudaKernelBatch batch;
  CudaKernelCheck check = onHopper();
  for (Product product :
       {Product{65, 66, 70}, Product{70, 130, 66, true, false},
        Product{67, 127, 129, false, true}, Product{130, 201, 68, true, true},
        Product{64, 64, 64, true, false}, Product{64, 128, 64, false, true}})
    for (size_t number : warpgroupTiles(product.text())) {
      GemmTiles tiles = tilesOf(product.text(), check.target)[number];
      if (tiles.m * tiles.n <= 128 * 64)
        batch.add(withTiles(product.text(), number, check.target).text, check);
    }
  batch.expect();
}

/// Tiles of 128 elements along k, operands of different types, with and without
/// promotion; transposed operands have no instruction.
TEST(GemmWarpgroups, EightBitFloats) {
  CudaKernelBatch batch;
  CudaKernelCheck check = onHopper();
  size_t promoting = 0;
  for (const char *flags : {"", "accumulate(f32)"})
    for (auto [left, right] :
         {std::pair("f8E4M3FN", "f8E4M3FN"), std::pair("f8E4M3FN", "f8E5M2"),
          std::pair("f8E5M2", "f8E4M3FN")})
      for (auto [m, k, n] :
           {std::tuple(64, 256, 64), std::tuple(72, 400, 144)}) {
        Product product{m, k, n, false, true, left, right, flags};
        for (size_t number : warpgroupTiles(product.text())) {
          GemmTiles tiles = tilesOf(product.text(), check.target)[number];
          EXPECT_EQ(tiles.k, 128);
          EXPECT_EQ(tiles.promotes, *flags != 0);
          promoting += tiles.promotes;
          if (tiles.m * tiles.n <= 128 * 64)
            batch.add(withTiles(product.text(), number, check.target).text,
                      check);
        }
      }
  EXPECT_GT(promoting, 0u);
  batch.expect();
  Product turned{64, 256, 64, false, false, "f8E4M3FN"};
  EXPECT_TRUE(warpgroupTiles(turned.text()).empty());
}

/// Operand sums fused into the GEMM, and row prologues that a block computes
/// before its first step.
TEST(GemmWarpgroups, SumsAndRowsOfAnOperand) {
  const char *sums = R"(
func.func private @k(%x: tensor<200x72xbf16>, %g: tensor<200x136xbf16>) -> (tensor<{0}xf32>, tensor<72x136xf32>) attributes {{mpc.kernel_kind = "contraction"} {{
  %s = mpc.cast %{1} : tensor<200x{0}xbf16> to tensor<200x{0}xf32>
  %b = mpc.reduce_sum %s axes([0]) : tensor<200x{0}xf32> -> tensor<{0}xf32>
  %w = mpc.matmul %x, %g transpose_lhs : (tensor<200x72xbf16>, tensor<200x136xbf16>) -> tensor<72x136xf32>
  return %b, %w : tensor<{0}xf32>, tensor<72x136xf32>
})";
  const char *rows = R"(
func.func private @k(%x: tensor<{0}x{1}xf32>, %s: tensor<{1}xf32>, %w: tensor<{1}x72x{2}>) -> tensor<{0}x72xf32> attributes {{mpc.kernel_kind = "contraction"} {{
  %0 = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-5) : (tensor<{0}x{1}xf32>, tensor<{1}xf32>) -> tensor<{0}x{1}xf32>
  %1 = mpc.cast %0 : tensor<{0}x{1}xf32> to tensor<{0}x{1}x{2}>
  %2 = mpc.matmul %1, %w : (tensor<{0}x{1}x{2}>, tensor<{1}x72x{2}>) -> tensor<{0}x72xf32>
  return %2 : tensor<{0}x72xf32>
})";
  CudaKernelBatch batch;
  CudaKernelCheck check = onHopper();
  for (const std::string &text :
       {llvm::formatv(sums, 136, "g").str(), llvm::formatv(sums, 72, "x").str(),
        llvm::formatv(rows, 70, 128, "bf16").str(),
        llvm::formatv(rows, 64, 200, "f16").str()}) {
    std::vector<size_t> numbers = warpgroupTiles(text);
    EXPECT_FALSE(numbers.empty()) << text;
    for (size_t number : numbers)
      batch.add(withTiles(text, number, check.target).text, check);
  }
  batch.expect();
}

/// A tile that is reloaded while an MMA still reads it is detected.
TEST(GemmWarpgroups, AMissingWaitIsFound) {
  CudaTarget target = cudaTarget("sm_90a");
  Product product{128, 1024, 128};
  ForcedGemm gemm =
      withTiles(product.text(), warpgroupTiles(product.text()).front(), target);
  std::string text = cudaText(gemm.text, target).text;
  std::string wait = "mpc::warpgroupWait<1>();";
  size_t first = text.find(wait);
  ASSERT_NE(first, std::string::npos) << text;
  std::string broken = text;
  broken.erase(first, wait.size());
  std::vector<uint16_t> x = random16(128 * 1024, kBfloat16),
                        w = random16(1024 * 128, kBfloat16);
  auto run = [&](const std::string &kernels) {
    std::vector<float> y(128 * 128);
    HostLaunch launch = grid(gemm.schedule.blocks[0], gemm.schedule.threads);
    launch.dynamicSharedBytes = gemm.schedule.sharedBytes;
    Status status =
        compileKernels(kernels, {"k"})
            .launch("k", launch,
                    {HostArgument::input("x", x), HostArgument::input("w", w),
                     HostArgument::output("y", y)});
    EXPECT_TRUE(status.ok()) << status.toString();
    return y;
  };
  EXPECT_NE(run(broken), run(text));
}
