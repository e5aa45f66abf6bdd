//===- GemmSumsTests.cpp - GEMMs that also sum an operand -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaKernelRunner.h"
#include "GemmTesting.h"
#include "HostKernelTesting.h"

#include "gtest/gtest.h"

using namespace mpc;
using namespace mpc::cuda;

namespace {
/// The gradients of a weight and a bias: the summed operand is the right
/// or the left operand of the GEMM.
struct Gradients {
  int64_t m, k, n;
  std::string type;
  bool sumsLeft = false;
  std::string compute = {}, result = "f32";

  std::string text() const;
};
} // namespace

static std::string tensor(std::initializer_list<int64_t> extents,
                          const std::string &type) {
  std::string text = "tensor<";
  for (int64_t extent : extents)
    text += std::to_string(extent) + "x";
  return text + type + ">";
}

static std::string cast(const std::string &result, const std::string &value,
                        const std::string &from, const std::string &to) {
  return "  %" + result + " = mpc.cast %" + value + " : " + from + " to " + to +
         "\n";
}

static std::string kernel(const std::string &signature,
                          const std::string &body) {
  return "func.func private @k(" + signature +
         " attributes {mpc.kernel_kind = \"contraction\"} {\n" + body + "\n}\n";
}

std::string Gradients::text() const {
  std::string x = tensor({k, m}, type), g = tensor({k, n}, type),
              w = tensor({m, n}, result),
              bias = tensor({sumsLeft ? m : n}, result),
              summed = sumsLeft ? x : g,
              wide = tensor({k, sumsLeft ? m : n}, "f32"),
              product = tensor({m, n}, "f32"),
              sum = tensor({sumsLeft ? m : n}, "f32");
  std::string source = sumsLeft ? "x" : "g", body;
  if (type != "f32") {
    body += cast("wide", source, summed, wide);
    source = "wide";
  }
  body += "  %b = mpc.reduce_sum %" + source + " axes([0]) : " + wide + " -> " +
          sum + "\n  %w = mpc.matmul %x, %g transpose_lhs " + compute + " : (" +
          x + ", " + g + ") -> " + product + "\n";
  bool narrows = result != "f32";
  if (narrows)
    body += cast("nb", "b", sum, bias) + cast("nw", "w", product, w);
  body += "  return " + std::string(narrows ? "%nb, %nw" : "%b, %w") + " : " +
          bias + ", " + w;
  return kernel("%x: " + x + ", %g: " + g + ") -> (" + bias + ", " + w + ")",
                body);
}

static CudaKernelCheck gemm(const char *target = "sm_80") {
  CudaKernelCheck check;
  check.target = cudaTarget(target);
  check.family = "gemm";
  return check;
}

TEST(GemmOperandSums, EdgeShapesOfEveryType) {
  struct {
    int64_t m, k, n;
  } shapes[] = {{1, 1, 1},    {1, 64, 10},  {3, 7, 33},
                {13, 17, 31}, {32, 96, 64}, {129, 20, 16},
                {5, 250, 48}, {2, 3, 300},  {300, 40, 72}};
  CudaKernelBatch batch;
  for (auto [m, k, n] : shapes)
    for (auto [type, compute] :
         {std::pair("f16", ""), std::pair("bf16", ""), std::pair("f32", ""),
          std::pair("f32", "compute(tf32)")})
      for (bool sumsLeft : {false, true})
        batch.add(Gradients{m, k, n, type, sumsLeft, compute}.text(), gemm());
  batch.expect();
}

/// Every tile that may be chosen, with edges in both directions and blocks that
/// have nothing to sum.
TEST(GemmOperandSums, EveryTile) {
  CudaKernelBatch batch;
  unsigned count = 0;
  for (auto [type, compute] : {std::pair("bf16", ""), std::pair("f32", ""),
                               std::pair("f32", "compute(tf32)")}) {
    CudaKernelCheck check = gemm();
    check.orders = {ThreadOrder::Shuffled};
    std::vector<GemmTiles> all = tilesOf(
        Gradients{16, 72, 16, type, false, compute}.text(), check.target);
    for (size_t i = 0; i < all.size(); ++i, ++count)
      batch.add(withTiles(Gradients{all[i].m + 8, 72, all[i].n + 8, type,
                                    count % 2 == 0, compute}
                              .text(),
                          i, check.target)
                    .text,
                check);
  }
  EXPECT_GT(count, 20u);
  batch.expect();
}

/// The blocks of a tile leave their sums for the last one, in one run after the
/// other on the same scratch memory.
TEST(GemmOperandSums, LongContractionsUseSplitK) {
  CudaKernelBatch batch;
  for (bool sumsLeft : {false, true})
    for (const Gradients &gradients :
         {Gradients{20, 2304, 40, "bf16", sumsLeft},
          Gradients{150, 2304, 100, "f16", sumsLeft, "", "f16"},
          Gradients{37, 1024, 20, "f32", sumsLeft},
          Gradients{20, 1601, 37, "f32", sumsLeft, "compute(tf32)"}}) {
      CudaTarget target;
      ParsedGemm parsed(gradients.text(), target);
      ASSERT_TRUE(parsed.problem);
      GemmTiles tiles = GemmTiles::choose(*parsed.problem, target);
      EXPECT_GT(tiles.splits, 1);
      // In addition to the scratch memory of split-K without the sums.
      FusedGemm &problem = *parsed.problem;
      int64_t bytes = tiles.scratchBytes(problem);
      problem.sums.clear();
      EXPECT_GT(bytes, tiles.scratchBytes(problem));
      batch.add(gradients.text(), gemm());
    }
  batch.expect();
}

/// An operand that runs along k has a thread for each row of a tile, which
/// tiles of few warps with many rows would not.
TEST(GemmOperandSums, RowsAlongKHaveAThreadEach) {
  CudaKernelBatch batch;
  for (const char *target : {"sm_80", "sm_90a"})
    for (bool sumsLeft : {false, true}) {
      int64_t m = sumsLeft ? 264 : 56, n = sumsLeft ? 56 : 264;
      std::string text = Gradients{m, 136, n, "bf16", sumsLeft}.text();
      std::string name = sumsLeft ? "x" : "g";
      std::string rows = tensor({264, 136}, "bf16"),
                  turned = tensor({136, 264}, "bf16");
      // The argument the other way round.
      text.replace(text.find("%" + name + ": "), turned.size() + 4,
                   "%t: " + rows);
      text.insert(text.find("  %wide"), "  %" + name + " = mpc.transpose %t " +
                                            "[1, 0] : " + rows + " to " +
                                            turned + "\n");
      CudaKernelCheck check = gemm(target);
      std::vector<GemmTiles> all = tilesOf(text, check.target);
      EXPECT_FALSE(all.empty());
      for (const GemmTiles &tiles : all)
        EXPECT_LE(sumsLeft ? tiles.m : tiles.n, tiles.threads());
      batch.add(text, check);
    }
  batch.expect();
}

TEST(GemmOperandSums, StoredNarrow) {
  CudaKernelBatch batch;
  for (const char *type : {"f16", "bf16"})
    for (bool sumsLeft : {false, true})
      batch.add(Gradients{40, 33, 50, type, sumsLeft, "", type}.text(), gemm());
  batch.expect();
}

/// Turing has matrix units for f16 alone and no asynchronous copies.
TEST(GemmOperandSums, OlderArchitectures) {
  CudaKernelBatch batch;
  for (const char *type : {"f16", "bf16", "f32"})
    for (bool sumsLeft : {false, true})
      batch.add(Gradients{40, 96, 72, type, sumsLeft}.text(), gemm("sm_75"));
  batch.expect();
}

/// The summed operand reaches the GEMM through reshapes and concats, and the
/// other operand through a cast.
TEST(GemmOperandSums, OperandsAreReadInPlace) {
  CudaKernelBatch batch;
  batch.add(kernel("%x: tensor<40x24xf32>, %g: tensor<2x20x36xbf16>) -> "
                   "(tensor<24x36xf32>, tensor<36xf32>)",
                   R"(
  %0 = mpc.cast %x : tensor<40x24xf32> to tensor<40x24xbf16>
  %1 = mpc.reshape %g : tensor<2x20x36xbf16> to tensor<40x36xbf16>
  %2 = mpc.matmul %0, %1 transpose_lhs : (tensor<40x24xbf16>, tensor<40x36xbf16>) -> tensor<24x36xf32>
  %3 = mpc.cast %g : tensor<2x20x36xbf16> to tensor<2x20x36xf32>
  %4 = mpc.reduce_sum %3 axes([0, 1]) : tensor<2x20x36xf32> -> tensor<36xf32>
  return %2, %4 : tensor<24x36xf32>, tensor<36xf32>)"),
            gemm());
  // The parts of a packed gradient, one of which is not summed.
  batch.add(kernel("%x: tensor<40x24xf32>, %q: tensor<2x20x36xf32>, %k: "
                   "tensor<2x20x12xf32>, %v: tensor<2x20x100xf32>) -> "
                   "(tensor<100xf32>, tensor<24x148xf32>, tensor<36xf32>)",
                   R"(
  %0 = mpc.concat %q, %k, %v axis(2) : (tensor<2x20x36xf32>, tensor<2x20x12xf32>, tensor<2x20x100xf32>) -> tensor<2x20x148xf32>
  %1 = mpc.reshape %0 : tensor<2x20x148xf32> to tensor<40x148xf32>
  %2 = mpc.matmul %x, %1 transpose_lhs : (tensor<40x24xf32>, tensor<40x148xf32>) -> tensor<24x148xf32>
  %3 = mpc.reduce_sum %q axes([0, 1]) : tensor<2x20x36xf32> -> tensor<36xf32>
  %4 = mpc.reduce_sum %v axes([0, 1]) : tensor<2x20x100xf32> -> tensor<100xf32>
  return %4, %2, %3 : tensor<100xf32>, tensor<24x148xf32>, tensor<36xf32>)"),
            gemm());
  // A part of a packed gradient.
  batch.add(kernel("%x: tensor<40x24xbf16>, %p: tensor<2x20x84xbf16>) -> "
                   "(tensor<36x24xf32>, tensor<36xf32>)",
                   R"(
  %0 = mpc.slice %p [0, 0, 44] [2, 20, 36] : tensor<2x20x84xbf16> to tensor<2x20x36xbf16>
  %1 = mpc.reshape %0 : tensor<2x20x36xbf16> to tensor<40x36xbf16>
  %2 = mpc.matmul %1, %x transpose_lhs : (tensor<40x36xbf16>, tensor<40x24xbf16>) -> tensor<36x24xf32>
  %3 = mpc.cast %1 : tensor<40x36xbf16> to tensor<40x36xf32>
  %4 = mpc.reduce_sum %3 axes([0]) : tensor<40x36xf32> -> tensor<36xf32>
  return %2, %4 : tensor<36x24xf32>, tensor<36xf32>)"),
            gemm());
  // Neighbours in memory run along k.
  batch.add(kernel("%x: tensor<40x24xbf16>, %g: tensor<36x40xbf16>) -> "
                   "(tensor<24x36xf32>, tensor<36xf32>)",
                   R"(
  %0 = mpc.transpose %g [1, 0] : tensor<36x40xbf16> to tensor<40x36xbf16>
  %1 = mpc.matmul %x, %0 transpose_lhs : (tensor<40x24xbf16>, tensor<40x36xbf16>) -> tensor<24x36xf32>
  %2 = mpc.cast %0 : tensor<40x36xbf16> to tensor<40x36xf32>
  %3 = mpc.reduce_sum %2 axes([0]) : tensor<40x36xf32> -> tensor<36xf32>
  return %1, %3 : tensor<24x36xf32>, tensor<36xf32>)"),
            gemm());
  batch.expect();
}

/// Sums with an epilogue that transposes the product.
TEST(GemmOperandSums, BesideAnEpilogue) {
  CudaKernelBatch batch;
  batch.add(kernel("%x: tensor<70x24xbf16>, %g: tensor<70x36xbf16>) -> "
                   "(tensor<36x24xbf16>, tensor<36xf32>)",
                   R"(
  %0 = mpc.matmul %x, %g transpose_lhs : (tensor<70x24xbf16>, tensor<70x36xbf16>) -> tensor<24x36xf32>
  %1 = mpc.cast %g : tensor<70x36xbf16> to tensor<70x36xf32>
  %2 = mpc.reduce_sum %1 axes([0]) : tensor<70x36xf32> -> tensor<36xf32>
  %3 = mpc.cast %0 : tensor<24x36xf32> to tensor<24x36xbf16>
  %4 = mpc.transpose %3 [1, 0] : tensor<24x36xbf16> to tensor<36x24xbf16>
  return %4, %2 : tensor<36x24xbf16>, tensor<36xf32>)"),
            gemm());
  batch.expect();
}

/// Sums of both operands, of the rows that a GEMM does not reduce, and in f64
/// stay separate kernels.
TEST(GemmOperandSums, OtherSumsAreRefused) {
  auto isTaken = [](const std::string &sums, const std::string &results,
                    const std::string &types) {
    std::string text =
        kernel("%x: tensor<40x24xf32>, %g: tensor<40x36xf32>) -> "
               "(tensor<24x36xf32>, " +
                   types + ")",
               "  %0 = mpc.matmul %x, %g transpose_lhs : (tensor<40x24xf32>, "
               "tensor<40x36xf32>) -> tensor<24x36xf32>\n" +
                   sums + "  return %0, " + results + " : tensor<24x36xf32>, " +
                   types);
    return ParsedGemm(text, CudaTarget()).problem.has_value();
  };
  std::string right = "  %1 = mpc.reduce_sum %g axes([0]) : tensor<40x36xf32> "
                      "-> tensor<36xf32>\n",
              left = "  %2 = mpc.reduce_sum %x axes([0]) : tensor<40x24xf32> "
                     "-> tensor<24xf32>\n";
  EXPECT_TRUE(isTaken(right, "%1", "tensor<36xf32>"));
  EXPECT_TRUE(isTaken(left, "%2", "tensor<24xf32>"));
  EXPECT_FALSE(
      isTaken(right + left, "%1, %2", "tensor<36xf32>, tensor<24xf32>"));
  EXPECT_FALSE(isTaken("  %1 = mpc.reduce_sum %g axes([1]) : "
                       "tensor<40x36xf32> -> tensor<40xf32>\n",
                       "%1", "tensor<40xf32>"));
  EXPECT_FALSE(isTaken("  %1 = mpc.reduce_sum %g axes([0]) accumulate(f64) : "
                       "tensor<40x36xf32> -> tensor<36xf32>\n",
                       "%1", "tensor<36xf32>"));
}

/// Threads read each other's sums after a barrier, which the race check covers:
/// the last barrier before the sums are stored.
TEST(GemmOperandSums, MissingBarrierIsFound) {
  CudaTarget target;
  Gradients gradients{16, 128, 32, "bf16"};
  ForcedGemm gemm = withTiles(gradients.text(), 0, target);
  std::string text = cudaText(gemm.text, target).text;
  std::string barrier = "mpc::barrier();";
  size_t sums = text.find("sumsOfThreads["),
         last = text.rfind("sumsOfThreads[");
  ASSERT_NE(sums, std::string::npos);
  size_t between = text.find(barrier, sums);
  ASSERT_LT(between, last);
  std::string broken = text;
  broken.erase(between, barrier.size());
  std::vector<uint16_t> x = random16(128 * 16, kBfloat16),
                        g = random16(128 * 32, kBfloat16);
  std::vector<float> bias(32), w(16 * 32);
  auto run = [&](const std::string &kernels) {
    HostLaunch launch = grid(gemm.schedule.blocks[0], gemm.schedule.threads);
    launch.dynamicSharedBytes = gemm.schedule.sharedBytes;
    return compileKernels(kernels, {"k"})
        .launch("k", launch,
                {HostArgument::input("x", x), HostArgument::input("g", g),
                 HostArgument::output("bias", bias),
                 HostArgument::output("w", w)});
  };
  Status good = run(text);
  EXPECT_TRUE(good.ok()) << good.toString();
  EXPECT_FALSE(run(broken).ok());
}
