//===- HostKernelTest.cpp - whole kernels on the host ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels in the style of the emitter, in three thread orders, against plain
// loops.
//
//===----------------------------------------------------------------------===//

#include "HostKernelTesting.h"
#include "TestKernels.h"

#include <cmath>
#include <filesystem>
#include <fstream>

using namespace mpc;

TEST(HostKernel, VectorAddOnEdgeShapes) {
  HostModule module = compileKernels(kVectorAdd, {"vector_add"});
  for (int n : {0, 1, 3, 4, 511, 512, 513, 1021})
    for (ThreadOrder order : kOrders) {
      std::vector<float> x = randomFloats(n, 1), y = randomFloats(n, 2), sum(n);
      Status status = module.launch(
          "vector_add", grid(n / 512 + 1, 128, order),
          {HostArgument::input("x", x), HostArgument::input("y", y),
           HostArgument::output("sum", sum), HostArgument::scalar(n)});
      ASSERT_TRUE(status.ok()) << status.toString();
      for (int i = 0; i < n; ++i)
        ASSERT_EQ(sum[i], x[i] + y[i]);
    }
}

TEST(HostKernel, InPlaceArgumentsShareTheirArray) {
  HostModule module = compileKernels(kVectorAdd, {"vector_add"});
  int n = 100;
  std::vector<float> x = randomFloats(n, 1), y = randomFloats(n, 2), old = x;
  Status status =
      module.launch("vector_add", grid(1, 128),
                    {HostArgument::input("x", x), HostArgument::input("y", y),
                     HostArgument::output("sum", x), HostArgument::scalar(n)});
  ASSERT_TRUE(status.ok()) << status.toString();
  for (int i = 0; i < n; ++i)
    ASSERT_EQ(x[i], old[i] + y[i]);
}

TEST(HostKernel, Reduction) {
  HostModule module = compileKernels(kReduction, {"sum_all"});
  for (int n : {1, 255, 257, 5000})
    for (ThreadOrder order : kOrders) {
      std::vector<float> x = randomFloats(n), partial(3), result(1);
      std::vector<unsigned> ticket(1);
      Status status = module.launch("sum_all", grid(3, 256, order),
                                    {HostArgument::input("x", x),
                                     HostArgument::output("partial", partial),
                                     HostArgument::inOut("ticket", ticket),
                                     HostArgument::output("result", result),
                                     HostArgument::scalar(n)});
      ASSERT_TRUE(status.ok()) << status.toString();
      double sum = 0, magnitude = 0;
      for (float value : x) {
        sum += value;
        magnitude += std::fabs(value);
      }
      EXPECT_NEAR(result[0], sum, magnitude * 40 * 0x1p-24);
    }
}

TEST(HostKernel, TiledTranspose) {
  HostModule module = compileKernels(kTranspose, {"transpose"});
  for (auto [rows, columns] : {std::pair(1, 1), {32, 32}, {37, 70}, {5, 129}})
    for (ThreadOrder order : kOrders) {
      auto x = random16(rows * columns, kBfloat16);
      std::vector<uint16_t> y(x.size());
      HostLaunch launch = grid((columns + 31) / 32, 32, order);
      launch.grid[1] = (rows + 31) / 32;
      launch.block[1] = 8;
      Status status = module.launch(
          "transpose", launch,
          {HostArgument::input("x", x), HostArgument::output("y", y),
           HostArgument::scalar(rows), HostArgument::scalar(columns)});
      ASSERT_TRUE(status.ok()) << status.toString();
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j)
          ASSERT_EQ(y[j * rows + i], x[i * columns + j]);
    }
}

TEST(HostKernel, SoftmaxRow) {
  HostModule module = compileKernels(kSoftmax, {"softmax"});
  for (int n : {1, 31, 128, 301}) {
    std::vector<uint16_t> first;
    for (ThreadOrder order : kOrders) {
      auto x = random16(3 * n, kBfloat16);
      std::vector<uint16_t> y(x.size());
      HostLaunch launch = grid(3, 128, order);
      launch.dynamicSharedBytes = n * sizeof(float);
      Status status = module.launch("softmax", launch,
                                    {HostArgument::input("x", x),
                                     HostArgument::output("y", y),
                                     HostArgument::scalar(n)});
      ASSERT_TRUE(status.ok()) << status.toString();
      for (int r = 0; r < 3; ++r) {
        double sum = 0;
        for (int i = 0; i < n; ++i)
          sum += std::exp(valueOf16(x[r * n + i], kBfloat16));
        for (int i = 0; i < n; ++i) {
          double expected = std::exp(valueOf16(x[r * n + i], kBfloat16)) / sum;
          // Half a unit of bfloat16, and some of float.
          ASSERT_NEAR(valueOf16(y[r * n + i], kBfloat16), expected,
                      expected * (0x1p-8 + 40 * 0x1p-24));
        }
      }
      if (first.empty())
        first = y;
      EXPECT_EQ(y, first);
    }
  }
}

static Status runGemm(const HostModule &module, int m, int n, int k,
                      ThreadOrder order, std::vector<float> &c) {
  auto a = random16(m * k, kHalf, 1), b = random16(k * n, kHalf, 2);
  c.assign(m * n, 0);
  HostLaunch launch = grid((n + 63) / 64, 128, order);
  launch.grid[1] = (m + 63) / 64;
  return module.launch("gemm", launch,
                       {HostArgument::input("a", a),
                        HostArgument::input("b", b),
                        HostArgument::output("c", c), HostArgument::scalar(m),
                        HostArgument::scalar(n), HostArgument::scalar(k)});
}

TEST(HostKernel, MatrixProductWithTwoStages) {
  HostModule module = compileKernels(gemmText(true), {"gemm"});
  for (auto [m, n, k] :
       {std::array{64, 64, 16}, {70, 72, 48}, {1, 8, 96}, {129, 136, 32}})
    for (ThreadOrder order : kOrders) {
      std::vector<float> c;
      Status status = runGemm(module, m, n, k, order, c);
      ASSERT_TRUE(status.ok()) << status.toString();
      auto a = random16(m * k, kHalf, 1), b = random16(k * n, kHalf, 2);
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
          // Eighths: all sums are exact.
          double sum = 0;
          for (int l = 0; l < k; ++l)
            sum +=
                valueOf16(a[i * k + l], kHalf) * valueOf16(b[l * n + j], kHalf);
          ASSERT_EQ(c[i * n + j], sum) << i << " " << j;
        }
    }
}

TEST(HostKernel, RefillingAStageThatOthersReadIsReported) {
  HostModule module = compileKernels(gemmText(false), {"gemm"});
  std::vector<float> c;
  Status status = runGemm(module, 64, 64, 64, ThreadOrder::Ascending, c);
  EXPECT_NE(status.text().find("writes shared 'aTile'"), std::string::npos)
      << status.toString();
  EXPECT_NE(status.text().find("without a barrier in between"),
            std::string::npos)
      << status.toString();
}

/// Barriers wait only for warps that have not exited, even after a full one.
TEST(HostKernel, WarpsMayEndBetweenBarriers) {
  const char *text = R"(
MPC_KERNEL(96) void ends_early(const float *x, float *y) {
  MPC_SHARED(float, row, [96]);
  int t = mpc::threadX();
  row[t] = x[t];
  mpc::barrier();
  if (t >= 32)
    return;
  float sum = row[t] + row[t + 32] + row[t + 64];
  mpc::barrier();
  row[t] = sum;
  mpc::barrier();
  y[t] = row[31 - t];
}
)";
  HostModule module = compileKernels(text, {"ends_early"});
  std::vector<float> x = randomFloats(96), y(32);
  for (ThreadOrder order : kOrders) {
    Status status = module.launch(
        "ends_early", grid(1, 96, order),
        {HostArgument::input("x", x), HostArgument::output("y", y)});
    ASSERT_TRUE(status.ok()) << status.toString();
    for (int i = 0; i < 32; ++i)
      ASSERT_EQ(y[31 - i], x[i] + x[i + 32] + x[i + 64]);
  }
}

TEST(HostKernel, RunsWithoutChecks) {
  HostModule module = compileKernels(gemmText(true), {"gemm"}, false);
  HostModule checked = compileKernels(gemmText(true), {"gemm"});
  std::vector<float> c, expected;
  ASSERT_TRUE(runGemm(module, 70, 72, 48, ThreadOrder::Shuffled, c).ok());
  ASSERT_TRUE(
      runGemm(checked, 70, 72, 48, ThreadOrder::Shuffled, expected).ok());
  EXPECT_EQ(c, expected);
}

/// Removes each barrier of a correct kernel in turn: the race check reports
/// each, so that the checks of the runs above are known to work.
TEST(HostKernel, EveryBarrierIsMissed) {
  auto launchOf = [](const std::string &kernel, const HostModule &module) {
    int n = 200;
    std::vector<float> x = randomFloats(n), partial(3), result(1);
    std::vector<unsigned> ticket(1);
    auto rows = random16(3 * n, kBfloat16);
    std::vector<uint16_t> y(rows.size());
    if (kernel == "sum_all")
      return module.launch(kernel, grid(3, 256),
                           {HostArgument::input("x", x),
                            HostArgument::output("partial", partial),
                            HostArgument::inOut("ticket", ticket),
                            HostArgument::output("result", result),
                            HostArgument::scalar(n)});
    HostLaunch launch = grid(3, 128);
    launch.dynamicSharedBytes = n * sizeof(float);
    return module.launch(kernel, launch,
                         {HostArgument::input("x", rows),
                          HostArgument::output("y", y),
                          HostArgument::scalar(n)});
  };
  const std::pair<const char *, std::string> kernels[] = {
      {"sum_all", kReduction}, {"softmax", kSoftmax}};
  const std::string barrier = "mpc::barrier();";
  int removed = 0;
  for (const auto &[name, text] : kernels)
    for (size_t at = text.find(barrier); at != std::string::npos;
         at = text.find(barrier, at + 1), ++removed) {
      std::string wrong = text;
      wrong.erase(at, barrier.size());
      Status status = launchOf(name, compileKernels(wrong, {name}));
      EXPECT_FALSE(status.ok()) << name << " without the barrier at " << at;
    }
  EXPECT_EQ(removed, 5);
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

TEST(HostKernel, CompilerMessagesReachTheCaller) {
  HostKernelOptions options;
  options.compiler = MPC_HOST_KERNEL_COMPILER;
  auto module = HostModule::compile(
      "MPC_KERNEL(1) void k(float *x) { x[0] = nothing; }", {"k"}, options);
  ASSERT_FALSE(module.ok());
  EXPECT_NE(module.status().text().find("kernel.cu:1"), std::string::npos);
  EXPECT_NE(module.status().text().find("nothing"), std::string::npos);
}

TEST(HostKernel, MissingCompilerIsSaid) {
  HostKernelOptions options;
  options.compiler = "no-such-compiler";
  auto module = HostModule::compile("", {}, options);
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().code(), StatusCode::Unavailable);
  EXPECT_EQ(module.status().where(), "no-such-compiler");
}

TEST(HostKernel, CacheServesEqualTextsAndRebuildsWhatWasChanged) {
  namespace fs = std::filesystem;
  fs::path folder = fs::path(testing::TempDir()) /
                    ("mpc-host-kernels-" + std::to_string(getpid()));
  HostKernelOptions options;
  options.compiler = MPC_HOST_KERNEL_COMPILER;
  options.cacheFolder = folder.string();
  auto compile = [&](const char *text) {
    return HostModule::compile(text, {"vector_add"}, options).ok();
  };
  auto entries = [&] {
    std::vector<fs::path> list;
    for (const auto &entry : fs::directory_iterator(folder))
      list.push_back(entry.path());
    return list;
  };
  ASSERT_TRUE(compile(kVectorAdd));
  ASSERT_EQ(entries().size(), 1u);
  fs::path kept = entries().front();
  auto read = [&] {
    std::ifstream in(kept, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string whole = read();
  auto isFound = [&] {
    auto time = fs::last_write_time(kept);
    EXPECT_TRUE(compile(kVectorAdd));
    return fs::last_write_time(kept) == time;
  };
  EXPECT_TRUE(isFound());
  // A byte of the code that the digest does not fit, other code under the
  // name, and code that another user may write are built again, not loaded.
  std::string changed = whole;
  changed[changed.size() / 2] ^= 1;
  std::ofstream(kept, std::ios::binary) << changed;
  EXPECT_FALSE(isFound());
  EXPECT_TRUE(read() != changed);
  EXPECT_TRUE(isFound());
  ASSERT_TRUE(compile((std::string(kVectorAdd) + "// another").c_str()));
  ASSERT_EQ(entries().size(), 2u);
  std::ofstream(kept, std::ios::binary) << "\x7f"
                                           "ELF";
  EXPECT_FALSE(isFound());
  fs::permissions(kept, fs::perms::others_write, fs::perm_options::add);
  EXPECT_FALSE(isFound());
  EXPECT_TRUE(isFound());
  fs::permissions(folder, fs::perms::others_write, fs::perm_options::add);
  auto time = fs::last_write_time(kept);
  EXPECT_TRUE(compile(kVectorAdd));
  EXPECT_EQ(fs::last_write_time(kept), time) << "nothing is kept there";
  fs::remove_all(folder);
}
