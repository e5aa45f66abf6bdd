//===- GemmKernelTests.cpp - GEMMs as CUDA kernels ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaKernelRunner.h"
#include "GemmTesting.h"
#include "HostKernelTesting.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

using namespace mpc;
using namespace mpc::cuda;

static std::string kernel(const std::string &arguments,
                          const std::string &results, const std::string &body) {
  return "func.func private @k(" + arguments + ") -> " + results +
         " attributes {mpc.kernel_kind = \"contraction\"} {\n" + body + "\n}\n";
}

/// A single GEMM, of shapes such as "2x3".
static std::string product(const std::string &lhs, const std::string &rhs,
                           const std::string &result, const std::string &type,
                           const std::string &flags = "",
                           const std::string &resultType = "f32") {
  std::string x = "tensor<" + lhs + "x" + type + ">",
              w = "tensor<" + rhs + "x" + type + ">",
              y = "tensor<" + result + "x" + resultType + ">";
  return kernel("%x: " + x + ", %w: " + w, y,
                "%0 = mpc.matmul %x, %w " + flags + " : (" + x + ", " + w +
                    ") -> " + y + "\nreturn %0 : " + y);
}

static CudaKernelCheck gemm(const char *target = "sm_80") {
  CudaKernelCheck check;
  check.target = cudaTarget(target);
  check.family = "gemm";
  return check;
}

static std::string by(std::initializer_list<int64_t> extents) {
  std::string text;
  for (int64_t extent : extents)
    text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

TEST(GemmKernel, EdgeShapesOfEveryType) {
  struct {
    int64_t m, k, n;
  } shapes[] = {{1, 1, 1},    {1, 64, 10},   {3, 7, 33},    {13, 17, 31},
                {32, 96, 64}, {40, 33, 100}, {129, 20, 16}, {5, 250, 48},
                {2, 3, 128},  {70, 40, 72}};
  CudaKernelBatch batch;
  for (auto [m, k, n] : shapes)
    for (auto [type, flags] :
         {std::pair("f16", ""), std::pair("bf16", ""), std::pair("f32", ""),
          std::pair("f32", "compute(tf32)")})
      batch.add(product(by({m, k}), by({k, n}), by({m, n}), type, flags),
                gemm());
  batch.expect();
}

TEST(GemmKernel, EightBitFloatsOnTensorCores) {
  CudaKernelBatch batch;
  for (auto [m, k, n] :
       {std::tuple(13, 17, 31), std::tuple(32, 96, 64), std::tuple(5, 250, 48),
        std::tuple(64, 256, 160), std::tuple(16, 512, 64)}) {
    std::string text = product(by({m, k}), by({k, n}), by({m, n}), "f8E4M3FN");
    batch.add(text, gemm("sm_89"));
    batch.add(product(by({m, k}), by({n, k}), by({m, n}), "f8E4M3FN",
                      "transpose_rhs", "bf16"),
              gemm("sm_90a"));
    EXPECT_PRED_FORMAT2(testing::IsSubstring,
                        "mpc::mmaFloat8<mpc::e4m3, mpc::e4m3>(",
                        cudaText(text, cudaTarget("sm_89")).text);
  }
  batch.expect();
  // No architecture before sm_89 has the instruction.
  EXPECT_FALSE(ParsedGemm(product("16x32", "32x8", "16x8", "f8E4M3FN"),
                          cudaTarget("sm_86"))
                   .problem);
}

TEST(GemmKernel, TransposedOperands) {
  CudaKernelBatch batch;
  for (auto [m, k, n] : {std::tuple(17, 33, 50), std::tuple(64, 64, 64),
                         std::tuple(24, 40, 56), std::tuple(100, 8, 4)})
    for (auto [lhs, rhs] : {std::pair(true, false), std::pair(false, true),
                            std::pair(true, true)})
      for (auto [type, compute] : {std::pair("bf16", ""), std::pair("f32", ""),
                                   std::pair("f32", " compute(tf32)")}) {
        std::string flags = std::string(lhs ? "transpose_lhs " : "") +
                            (rhs ? "transpose_rhs" : "") + compute;
        batch.add(product(lhs ? by({k, m}) : by({m, k}),
                          rhs ? by({n, k}) : by({k, n}), by({m, n}), type,
                          flags),
                  gemm());
      }
  batch.expect();
}

TEST(GemmKernel, BatchesBroadcast) {
  CudaKernelBatch batch;
  for (const char *type : {"bf16", "f32"}) {
    batch.add(product("3x17x20", "3x20x40", "3x17x40", type), gemm());
    batch.add(product("2x3x7x20", "20x40", "2x3x7x40", type), gemm());
    batch.add(product("2x1x7x20", "3x20x11", "2x3x7x11", type), gemm());
    batch.add(product("7x20", "4x20x11", "4x7x11", type), gemm());
    batch.add(product("4x20x7", "4x11x20", "4x7x11", type,
                      "transpose_lhs transpose_rhs"),
              gemm());
    batch.add(product("2x3x7x16", "1x1x16x8", "2x3x7x8", type), gemm());
    batch.add(product("1x5x8", "1x8x8", "1x5x8", type), gemm());
  }
  batch.add(product("17x33", "33x50", "17x50", "bf16", "", "bf16"), gemm());
  batch.add(product("17x32", "32x48", "17x48", "f16", "", "f16"), gemm());
  batch.expect();
}

/// Turing has matrix units for f16 alone and no asynchronous copies.
TEST(GemmKernel, OlderArchitectures) {
  CudaKernelBatch batch;
  for (auto [m, k, n] : {std::tuple(13, 17, 31), std::tuple(40, 96, 64)}) {
    for (const char *type : {"f16", "bf16", "f32"})
      batch.add(product(by({m, k}), by({k, n}), by({m, n}), type),
                gemm("sm_75"));
    batch.add(
        product(by({m, k}), by({k, n}), by({m, n}), "f32", "compute(tf32)"),
        gemm("sm_75"));
    batch.add(product(by({k, m}), by({n, k}), by({m, n}), "f16",
                      "transpose_lhs transpose_rhs"),
              gemm("sm_75"));
  }
  batch.expect();
}

/// Every tile that may be chosen, larger ones than the shapes above need, with
/// edges in both directions.
TEST(GemmKernel, EveryTile) {
  CudaKernelBatch batch;
  unsigned count = 0;
  for (auto [type, compute] : {std::pair("bf16", ""), std::pair("f32", ""),
                               std::pair("f32", " compute(tf32)")}) {
    auto text = [&](int64_t m, int64_t n, unsigned layout) {
      const char *flags[] = {"", "transpose_lhs", "transpose_rhs"};
      return product(layout == 1 ? by({72, m}) : by({m, 72}),
                     layout == 2 ? by({n, 72}) : by({72, n}), by({m, n}), type,
                     std::string(flags[layout]) + compute);
    };
    CudaKernelCheck check = gemm();
    check.orders = {ThreadOrder::Shuffled};
    std::vector<GemmTiles> all = tilesOf(text(16, 16, 0), check.target);
    for (size_t i = 0; i < all.size(); ++i, ++count)
      batch.add(withTiles(text(all[i].m + 8, all[i].n + 8, count % 3), i,
                          check.target)
                    .text,
                check);
  }
  EXPECT_GT(count, 20u);
  batch.expect();
}

/// Few tiles over a long k: several blocks share each, in one run after the
/// other on the same scratch memory.
TEST(GemmKernel, LongContractionsUseSplitK) {
  CudaKernelBatch batch;
  for (const std::string &text :
       {kernel("%x: tensor<20x2304xbf16>, %w: tensor<2304x40xbf16>, %b: "
               "tensor<40xf32>",
               "tensor<20x40xbf16>", R"(
  %0 = mpc.matmul %x, %w : (tensor<20x2304xbf16>, tensor<2304x40xbf16>) -> tensor<20x40xf32>
  %1 = mpc.add %0, %b : (tensor<20x40xf32>, tensor<40xf32>) -> tensor<20x40xf32>
  %2 = mpc.relu %1 : tensor<20x40xf32>
  %3 = mpc.cast %2 : tensor<20x40xf32> to tensor<20x40xbf16>
  return %3 : tensor<20x40xbf16>)"),
        product("20x1024", "37x1024", "20x37", "f32", "transpose_rhs"),
        kernel("%x: tensor<2x20x1601xf32>, %w: tensor<2x37x1601xf32>",
               "tensor<2x37x20xf32>", R"(
  %0 = mpc.matmul %x, %w transpose_rhs compute(tf32) : (tensor<2x20x1601xf32>, tensor<2x37x1601xf32>) -> tensor<2x20x37xf32>
  %1 = mpc.transpose %0 [0, 2, 1] : tensor<2x20x37xf32> to tensor<2x37x20xf32>
  return %1 : tensor<2x37x20xf32>)")}) {
    CudaTarget target;
    ParsedGemm gemm(text, target);
    ASSERT_TRUE(gemm.problem);
    GemmTiles tiles = GemmTiles::choose(*gemm.problem, target);
    EXPECT_GT(tiles.splits, 1);
    EXPECT_GT(tiles.scratchBytes(*gemm.problem), 0);
    batch.add(text, ::gemm());
  }
  batch.expect();
}

//===----------------------------------------------------------------------===//
// Epilogues
//===----------------------------------------------------------------------===//

TEST(GemmKernel, BiasActivationResidualAndSeveralOutputs) {
  CudaKernelBatch batch;
  for (auto [m, k, n, type] :
       {std::tuple(20, 50, 10, "bf16"), std::tuple(20, 48, 64, "bf16"),
        std::tuple(33, 48, 77, "bf16"), std::tuple(64, 64, 64, "f16"),
        std::tuple(30, 24, 12, "bf16")}) {
    std::string f32 = llvm::formatv("tensor<{0}x{1}xf32>", m, n);
    std::string low = llvm::formatv("tensor<{0}x{1}x{2}>", m, n, type);
    std::string i1 = llvm::formatv("tensor<{0}x{1}xi1>", m, n);
    std::string x = llvm::formatv("tensor<{0}x{1}x{2}>", m, k, type);
    std::string w = llvm::formatv("tensor<{0}x{1}x{2}>", k, n, type);
    std::string bias = llvm::formatv("tensor<{0}xf32>", n);
    batch.add(
        kernel("%x: " + x + ", %w: " + w + ", %b: " + bias + ", %r: " + low,
               "(" + low + ", " + f32 + ", " + i1 + ")",
               llvm::formatv(R"(
  %0 = mpc.matmul %x, %w : ({0}, {1}) -> {2}
  %1 = mpc.add %0, %b : ({2}, {3}) -> {2}
  %2 = mpc.gelu %1 : {2}
  %3 = mpc.cast %r : {4} to {2}
  %4 = mpc.add %2, %3 : ({2}, {2}) -> {2}
  %5 = mpc.cast %4 : {2} to {4}
  %6 = mpc.compare gt %4, %3 : ({2}, {2}) -> {5}
  return %5, %4, %6 : {4}, {2}, {5})",
                             x, w, f32, bias, low, i1)
                   .str()),
        gemm());
  }
  batch.expect();
}

TEST(GemmKernel, ResultsMoveOnTheWayOut) {
  CudaKernelBatch batch;
  // Heads are split and moved in front.
  batch.add(kernel("%x: tensor<2x10x32xbf16>, %w: tensor<32x96xbf16>, %b: "
                   "tensor<96xf32>",
                   "tensor<2x12x10x8xbf16>", R"(
  %0 = mpc.matmul %x, %w : (tensor<2x10x32xbf16>, tensor<32x96xbf16>) -> tensor<2x10x96xf32>
  %1 = mpc.add %0, %b : (tensor<2x10x96xf32>, tensor<96xf32>) -> tensor<2x10x96xf32>
  %2 = mpc.cast %1 : tensor<2x10x96xf32> to tensor<2x10x96xbf16>
  %3 = mpc.reshape %2 : tensor<2x10x96xbf16> to tensor<2x10x12x8xbf16>
  %4 = mpc.transpose %3 [0, 2, 1, 3] : tensor<2x10x12x8xbf16> to tensor<2x12x10x8xbf16>
  return %4 : tensor<2x12x10x8xbf16>)"),
            gemm());
  // Columns become rows.
  batch.add(kernel("%x: tensor<2x10x32xbf16>, %w: tensor<32x96xbf16>",
                   "tensor<2x96x10xf32>", R"(
  %0 = mpc.matmul %x, %w : (tensor<2x10x32xbf16>, tensor<32x96xbf16>) -> tensor<2x10x96xf32>
  %1 = mpc.transpose %0 [0, 2, 1] : tensor<2x10x96xf32> to tensor<2x96x10xf32>
  %2 = mpc.relu %1 : tensor<2x96x10xf32>
  return %2 : tensor<2x96x10xf32>)"),
            gemm());
  // Padding is cut off.
  batch.add(kernel("%x: tensor<20x40xbf16>, %w: tensor<40x24xbf16>, %b: "
                   "tensor<24xf32>, %s: tensor<10xf32>",
                   "(tensor<17x10xf32>, tensor<20x24xf32>, tensor<20x16xf32>)",
                   R"(
  %0 = mpc.matmul %x, %w : (tensor<20x40xbf16>, tensor<40x24xbf16>) -> tensor<20x24xf32>
  %1 = mpc.add %0, %b : (tensor<20x24xf32>, tensor<24xf32>) -> tensor<20x24xf32>
  %2 = mpc.slice %1 [2, 4] [17, 10] : tensor<20x24xf32> to tensor<17x10xf32>
  %3 = mpc.mul %2, %s : (tensor<17x10xf32>, tensor<10xf32>) -> tensor<17x10xf32>
  %4 = mpc.slice %1 [0, 8] [20, 16] : tensor<20x24xf32> to tensor<20x16xf32>
  return %3, %1, %4 : tensor<17x10xf32>, tensor<20x24xf32>, tensor<20x16xf32>)"),
            gemm());
  batch.add(kernel("%x: tensor<20x40xbf16>, %w: tensor<40x24xbf16>",
                   "(tensor<16x10xf32>, tensor<10x16xf32>)", R"(
  %0 = mpc.matmul %x, %w : (tensor<20x40xbf16>, tensor<40x24xbf16>) -> tensor<20x24xf32>
  %1 = mpc.slice %0 [0, 8] [10, 16] : tensor<20x24xf32> to tensor<10x16xf32>
  %2 = mpc.transpose %1 [1, 0] : tensor<10x16xf32> to tensor<16x10xf32>
  %3 = mpc.relu %2 : tensor<16x10xf32>
  return %3, %1 : tensor<16x10xf32>, tensor<10x16xf32>)"),
            gemm());
  batch.expect();
}

//===----------------------------------------------------------------------===//
// Prologues
//===----------------------------------------------------------------------===//

TEST(GemmKernel, OperandsAreCastOnTheWayIn) {
  CudaKernelBatch batch;
  batch.add(kernel("%x: tensor<20x40xf32>, %w: tensor<40x24xf32>",
                   "tensor<20x24xf32>", R"(
  %0 = mpc.cast %x : tensor<20x40xf32> to tensor<20x40xbf16>
  %1 = mpc.cast %w : tensor<40x24xf32> to tensor<40x24xbf16>
  %2 = mpc.matmul %0, %1 : (tensor<20x40xbf16>, tensor<40x24xbf16>) -> tensor<20x24xf32>
  return %2 : tensor<20x24xf32>)"),
            gemm());
  batch.add(kernel("%x: tensor<3x7x41xf32>, %w: tensor<41x23xbf16>",
                   "tensor<3x7x23xf32>", R"(
  %0 = mpc.cast %x : tensor<3x7x41xf32> to tensor<3x7x41xbf16>
  %1 = mpc.matmul %0, %w : (tensor<3x7x41xbf16>, tensor<41x23xbf16>) -> tensor<3x7x23xf32>
  return %1 : tensor<3x7x23xf32>)"),
            gemm());
  batch.add(kernel("%x: tensor<20x40xbf16>, %w: tensor<40x24xbf16>, %s: "
                   "tensor<40xbf16>",
                   "tensor<20x24xf32>", R"(
  %0 = mpc.mul %x, %s : (tensor<20x40xbf16>, tensor<40xbf16>) -> tensor<20x40xbf16>
  %1 = mpc.relu %0 : tensor<20x40xbf16>
  %2 = mpc.matmul %1, %w : (tensor<20x40xbf16>, tensor<40x24xbf16>) -> tensor<20x24xf32>
  return %2 : tensor<20x24xf32>)"),
            gemm());
  batch.expect();
}

TEST(GemmKernel, OperandsAreReadInPlace) {
  CudaKernelBatch batch;
  // Heads are concatenated, from either order.
  batch.add(kernel("%x: tensor<2x10x12x8xbf16>, %w: tensor<96x24xbf16>",
                   "tensor<2x10x24xf32>", R"(
  %0 = mpc.reshape %x : tensor<2x10x12x8xbf16> to tensor<2x10x96xbf16>
  %1 = mpc.matmul %0, %w : (tensor<2x10x96xbf16>, tensor<96x24xbf16>) -> tensor<2x10x24xf32>
  return %1 : tensor<2x10x24xf32>)"),
            gemm());
  batch.add(kernel("%x: tensor<2x12x10x8xbf16>, %w: tensor<96x24xbf16>",
                   "tensor<2x10x24xf32>", R"(
  %0 = mpc.transpose %x [0, 2, 1, 3] : tensor<2x12x10x8xbf16> to tensor<2x10x12x8xbf16>
  %1 = mpc.reshape %0 : tensor<2x10x12x8xbf16> to tensor<2x10x96xbf16>
  %2 = mpc.matmul %1, %w : (tensor<2x10x96xbf16>, tensor<96x24xbf16>) -> tensor<2x10x24xf32>
  return %2 : tensor<2x10x24xf32>)"),
            gemm());
  // Both operands are pieces of one packed projection.
  batch.add(kernel("%x: tensor<2x10x12x8xbf16>", "tensor<2x4x10x10xf32>", R"(
  %0 = mpc.slice %x [0, 0, 0, 0] [2, 10, 4, 8] : tensor<2x10x12x8xbf16> to tensor<2x10x4x8xbf16>
  %1 = mpc.slice %x [0, 0, 4, 0] [2, 10, 4, 8] : tensor<2x10x12x8xbf16> to tensor<2x10x4x8xbf16>
  %2 = mpc.transpose %0 [0, 2, 1, 3] : tensor<2x10x4x8xbf16> to tensor<2x4x10x8xbf16>
  %3 = mpc.transpose %1 [0, 2, 3, 1] : tensor<2x10x4x8xbf16> to tensor<2x4x8x10xbf16>
  %4 = mpc.matmul %2, %3 : (tensor<2x4x10x8xbf16>, tensor<2x4x8x10xbf16>) -> tensor<2x4x10x10xf32>
  return %4 : tensor<2x4x10x10xf32>)"),
            gemm());
  batch.add(kernel("%x: tensor<4x60xbf16>, %w: tensor<16x24xbf16>",
                   "tensor<4x16xf32>", R"(
  %0 = mpc.slice %x [0, 0] [4, 48] : tensor<4x60xbf16> to tensor<4x48xbf16>
  %1 = mpc.slice %0 [0, 16] [4, 24] : tensor<4x48xbf16> to tensor<4x24xbf16>
  %2 = mpc.matmul %1, %w transpose_rhs : (tensor<4x24xbf16>, tensor<16x24xbf16>) -> tensor<4x16xf32>
  return %2 : tensor<4x16xf32>)"),
            gemm());
  batch.expect();
}

//===----------------------------------------------------------------------===//
// What goes wrong
//===----------------------------------------------------------------------===//

/// The barrier between a tile's arrival and its use is what the race check
/// watches.
TEST(GemmKernel, MissingBarrierIsFound) {
  CudaTarget target;
  ForcedGemm gemm =
      withTiles(product("16x128", "128x32", "16x32", "bf16"), 0, target);
  std::string text = cudaText(gemm.text, target).text;
  std::string barrier = "mpc::barrier();";
  size_t first = text.find(barrier);
  ASSERT_NE(first, std::string::npos);
  std::string broken = text;
  broken.erase(first, barrier.size());
  std::vector<uint16_t> x = random16(16 * 128, kBfloat16),
                        w = random16(128 * 32, kBfloat16);
  std::vector<float> y(16 * 32);
  auto run = [&](const std::string &kernels) {
    HostLaunch launch = grid(gemm.schedule.blocks[0], gemm.schedule.threads);
    launch.dynamicSharedBytes = gemm.schedule.sharedBytes;
    return compileKernels(kernels, {"k"})
        .launch("k", launch,
                {HostArgument::input("x", x), HostArgument::input("w", w),
                 HostArgument::output("y", y)});
  };
  Status good = run(text);
  EXPECT_TRUE(good.ok()) << good.toString();
  EXPECT_FALSE(run(broken).ok());
}
