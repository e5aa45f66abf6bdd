//===- GemmTilesTests.cpp - choice of GEMM tiles --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmTesting.h"

#include "Target/CUDA/Gemm/GemmCost.h"

#include "../CudaKernelRunner.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <set>

using namespace mpc;
using namespace mpc::cuda;

static std::string product(int64_t m, int64_t k, int64_t n, const char *type,
                           const char *flags = "") {
  return llvm::formatv(
      "func.func private @k(%x: tensor<{0}x{1}x{3}>, %w: tensor<{1}x{2}x{3}>) "
      "-> tensor<{0}x{2}xf32> attributes {{mpc.kernel_kind = "
      "\"contraction\"} {{\n%0 = mpc.matmul %x, %w {4} : "
      "(tensor<{0}x{1}x{3}>, tensor<{1}x{2}x{3}>) -> "
      "tensor<{0}x{2}xf32>\nreturn %0 : tensor<{0}x{2}xf32>\n}\n",
      m, k, n, type, flags);
}

TEST(GemmTiles, FitTheSharedMemoryOfEveryArchitecture) {
  for (const char *name : {"sm_75", "sm_80", "sm_86", "sm_90a", "sm_120"}) {
    CudaTarget target = cudaTarget(name);
    for (const char *type : {"f16", "bf16", "f32"}) {
      ParsedGemm gemm(product(4096, 4096, 4096, type), target);
      ASSERT_TRUE(gemm.problem);
      std::vector<GemmTiles> all = GemmTiles::candidates(*gemm.problem, target);
      EXPECT_FALSE(all.empty());
      for (const GemmTiles &tiles : all) {
        EXPECT_LE(tiles.sharedBytes(*gemm.problem),
                  target.sharedBytesPerBlock())
            << name << " " << type << " " << tiles.m << "x" << tiles.n;
        EXPECT_EQ(tiles.warpM() % tiles.handedRows(*gemm.problem), 0);
        EXPECT_LE(tiles.threads(), tiles.warpgroups ? 512 : 256);
      }
    }
  }
}

/// ldmatrix reads 16 bytes of eight lines at once: in eight different groups of
/// four banks.
TEST(GemmTiles, RowsOfATileAreInDifferentBanks) {
  CudaTarget target;
  ParsedGemm gemm(product(4096, 4096, 4096, "bf16"), target);
  for (const GemmTiles &tiles : GemmTiles::candidates(*gemm.problem, target))
    for (const GemmOperand *operand :
         {gemm.problem->lhs.get(), gemm.problem->rhs.get()}) {
      int64_t rows = operand == gemm.problem->lhs.get() ? tiles.m : tiles.n;
      int64_t bytes = 2 * tiles.shapeOf(*gemm.problem, *operand, rows).back();
      EXPECT_EQ(bytes % 16, 0);
      std::set<int64_t> banks;
      for (int64_t line = 0; line < 8; ++line)
        banks.insert(line * bytes / 16 % 8);
      EXPECT_EQ(banks.size(), 8u) << tiles.m << "x" << tiles.n;
    }
}

TEST(GemmTiles, LargeProductsTakeLargeTilesAndSmallOnesFillTheDevice) {
  CudaTarget target = cudaTarget("sm_90a");
  auto chosen = [&](int64_t m, int64_t k, int64_t n) {
    ParsedGemm gemm(product(m, k, n, "bf16"), target);
    return GemmTiles::choose(*gemm.problem, target);
  };
  GemmTiles large = chosen(8192, 4096, 4096);
  EXPECT_GE(large.m * large.n, 128 * 128);
  EXPECT_GE(large.stages, 3);
  GemmTiles small = chosen(64, 512, 256);
  EXPECT_LE(small.m * small.n, 64 * 32);
  // No stage is ahead of the last step.
  EXPECT_EQ(chosen(64, 16, 64).stages, 1);
}

TEST(GemmTiles, FourWarpsTogetherWhereTheyAreFaster) {
  auto chosen = [&](int64_t m, int64_t k, int64_t n, const char *type,
                    const char *name) {
    CudaTarget target = cudaTarget(name);
    ParsedGemm gemm(product(m, k, n, type), target);
    return GemmTiles::choose(*gemm.problem, target);
  };
  GemmTiles large = chosen(8192, 4096, 4096, "bf16", "sm_90a");
  EXPECT_TRUE(large.warpgroups);
  EXPECT_GE(large.m * large.n, 128 * 256);
  EXPECT_EQ(large.warpM(), 16);
  EXPECT_EQ(large.behind(), 1);
  EXPECT_EQ(large.ahead(), large.stages - 2);
  // Other types and architectures have no such instruction, and a GEMM with
  // few rows would leave most of it unused.
  EXPECT_FALSE(chosen(8192, 4096, 4096, "f32", "sm_90a").warpgroups);
  EXPECT_FALSE(chosen(8192, 4096, 4096, "bf16", "sm_80").warpgroups);
  EXPECT_FALSE(chosen(8192, 4096, 4096, "bf16", "sm_120").warpgroups);
  EXPECT_FALSE(chosen(16, 4096, 4096, "bf16", "sm_90a").warpgroups);
  EXPECT_FALSE(chosen(8192, 32, 4096, "bf16", "sm_90a").warpgroups);
}

TEST(GemmTiles, LongProductsOfFewTilesAreSplitEvenly) {
  CudaTarget target;
  auto splits = [&](int64_t m, int64_t k, int64_t n) {
    ParsedGemm gemm(product(m, k, n, "bf16"), target);
    GemmTiles tiles = GemmTiles::choose(*gemm.problem, target);
    EXPECT_LE(
        tiles.tileCount(*gemm.problem) * tiles.splits,
        std::max(target.multiprocessors(), tiles.tileCount(*gemm.problem)));
    EXPECT_EQ((k + tiles.k - 1) / tiles.k % tiles.splits, 0);
    EXPECT_EQ(tiles.scratchBytes(*gemm.problem) > 0, tiles.splits > 1);
    return tiles.splits;
  };
  EXPECT_GT(splits(32, 9216, 128), 4);
  // Short GEMMs and those that fill the device are not split.
  EXPECT_EQ(splits(64, 512, 128), 1);
  EXPECT_EQ(splits(4096, 4096, 4096), 1);
}

TEST(GemmTiles, ArchitecturesWithoutListedRatesHaveTiles) {
  for (const char *name : {"sm_87", "sm_88", "sm_110", "sm_121"})
    for (const char *type : {"f16", "bf16", "f32"}) {
      CudaTarget target = cudaTarget(name);
      ParsedGemm gemm(product(512, 512, 512, type), target);
      EXPECT_GT(GemmTiles::choose(*gemm.problem, target).m, 0)
          << name << " " << type;
    }
}

/// Machine code of mma.sync e4m3 is QMMA on sm_89 and sm_120, HMMA on sm_90.
TEST(GemmTiles, EightBitFloatsHaveTheRateOfTheirMachineCode) {
  auto ratio = [](const char *name) {
    auto machine = MultiprocessorModel::of(cudaTarget(name).target());
    return machine.mmaFlops(MathType::Float8) /
           machine.mmaFlops(MathType::Float16);
  };
  EXPECT_GT(ratio("sm_89"), 1.9);
  EXPECT_EQ(ratio("sm_90a"), 1);
  EXPECT_GT(ratio("sm_120"), 1.9);
}

/// wgmma of sm_90a, with both operands along k, as fp8 needs them.
TEST(GemmTiles, EightBitFloatsNearlyDoubleTheRateOfBfloat16) {
  CudaTarget target = cudaTarget("sm_90a");
  auto cycles = [&](const char *type, const char *flags = "") {
    std::string text = llvm::formatv(
        "func.func private @k(%x: tensor<8192x8192x{0}>, %w: "
        "tensor<8192x8192x{0}>) -> tensor<8192x8192xf32> "
        "attributes {{mpc.kernel_kind = \"contraction\"} {{\n%0 = "
        "mpc.matmul %x, %w transpose_rhs {1} : "
        "(tensor<8192x8192x{0}>, tensor<8192x8192x{0}>) -> "
        "tensor<8192x8192xf32>\nreturn %0 : "
        "tensor<8192x8192xf32>\n}\n",
        type, flags);
    ParsedGemm gemm(text, target);
    GemmTiles best = GemmTiles::choose(*gemm.problem, target);
    EXPECT_TRUE(best.warpgroups);
    return GemmCost(*gemm.problem, target).cycles(best);
  };
  double bfloat16 = cycles("bf16"), float8 = cycles("f8E4M3FN"),
         promoted = cycles("f8E4M3FN", "accumulate(f32)");
  RecordProperty("ratio", std::to_string(bfloat16 / float8));
  RecordProperty("promoted", std::to_string(bfloat16 / promoted));
  EXPECT_GT(bfloat16 / float8, 1.7);
  EXPECT_GT(bfloat16 / promoted, 1.2);
}

TEST(GemmTiles, TypesChooseTheUnit) {
  auto unit = [](const char *type, const char *flags, const char *target) {
    CudaTarget architecture = cudaTarget(target);
    ParsedGemm gemm(product(64, 64, 64, type, flags), architecture);
    return gemm.problem->unit->name;
  };
  auto chooses = [](const char *type) {
    std::string text = product(64, 64, 64, type);
    size_t result = text.find("xf32>");
    while (result != std::string::npos) {
      text.replace(result, 5, "xf64>");
      result = text.find("xf32>");
    }
    return ParsedGemm(text, CudaTarget()).problem.has_value();
  };
  EXPECT_EQ(unit("f16", "", "sm_75"), "mma_f16");
  EXPECT_EQ(unit("bf16", "", "sm_75"), "fma");
  EXPECT_EQ(unit("bf16", "", "sm_80"), "mma_bf16");
  EXPECT_EQ(unit("f32", "", "sm_80"), "fma");
  EXPECT_EQ(unit("f32", "compute(tf32)", "sm_80"), "mma_tf32");
  EXPECT_EQ(unit("f32", "compute(tf32)", "sm_75"), "fma");
  // f64 and integers have no unit.
  EXPECT_FALSE(chooses("f64"));
}
