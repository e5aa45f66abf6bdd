//===- BlasTunerTests.cpp - the fastest way to a product ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CUDA/BlasTuner.h"
#include "CUDA/CudaContext.h"
#include "FakeBlas.h"
#include "RecordingDriver.h"

#include "gtest/gtest.h"

#include <filesystem>
#include <unistd.h>

using namespace mpc;
using namespace mpc::detail;
using namespace mpc::testing;

namespace {

/// What the driver says each timing took, in order.
std::vector<float> timings;
size_t timed = 0;

/// A driver on which timings are given, a context, and a folder for the cache.
class BlasTunerTest : public ::testing::Test {
protected:
  BlasTunerTest() {
    recording::restart();
    driver = recording::driver();
    driver.eventElapsedTime = [](float *milliseconds, CuHandle,
                                 CuHandle) -> CuResult {
      *milliseconds = timings[timed++ % timings.size()];
      return 0;
    };
    timings = {3, 2, 1};
    timed = 0;
    folder = std::filesystem::temp_directory_path() /
             ("mpc-tuner-" + std::to_string(getpid()));
    std::filesystem::remove_all(folder);
    context = *CudaContext::create(driver, 0);
    scope = std::make_unique<CudaScope>(*context);
    problem.m = problem.n = problem.k = 8;
  }
  ~BlasTunerTest() override { std::filesystem::remove_all(folder); }

  /// The candidate that a fresh tuner chooses for `problem`.
  Result<BlasCandidate> choose(FakeBlas &fake) {
    Result<std::shared_ptr<BlasContext>> blas = BlasContext::create(fake.table);
    if (!blas.ok())
      return blas.status();
    Result<std::shared_ptr<BlasProduct>> product =
        BlasProduct::create(*blas, problem);
    if (!product.ok())
      return product.status();
    CuHandle stream = nullptr;
    if (CuResult error = driver.streamCreate(&stream, kCuStreamNonBlocking))
      return toStatus(driver, error, "cuStreamCreate", "test");
    BlasTuner tuner(driver, "GPU", 1 << 16, DiskCache(folder.string()));
    Result<BlasCandidate> best = tuner.choose(**product, stream);
    driver.streamDestroy(stream);
    return best;
  }

  CudaDriver driver;
  std::shared_ptr<CudaContext> context;
  std::unique_ptr<CudaScope> scope;
  std::filesystem::path folder;
  GemmProblem problem;
};

TEST_F(BlasTunerTest, TakesTheFastest) {
  FakeBlas fake;
  Result<BlasCandidate> best = choose(fake);
  ASSERT_TRUE(best.ok()) << best.status().toString();
  EXPECT_EQ(best->algorithm.data[0], 2u);
  EXPECT_EQ(best->workspaceBytes, 2048u);
  // Each candidate was warmed up and timed.
  EXPECT_EQ(fake.algorithms.size(), size_t(3 * (2 + BlasTuner::kRuns)));
}

TEST_F(BlasTunerTest, RemembersTheChoice) {
  FakeBlas first;
  ASSERT_TRUE(choose(first).ok());
  FakeBlas second;
  Result<BlasCandidate> best = choose(second);
  ASSERT_TRUE(best.ok());
  EXPECT_EQ(best->algorithm.data[0], 2u);
  EXPECT_EQ(best->workspaceBytes, 2048u);
  EXPECT_TRUE(second.algorithms.empty());
  // Another version of the library may number its algorithms otherwise.
  FakeBlas third;
  third.version = 130200;
  ASSERT_TRUE(choose(third).ok());
  EXPECT_FALSE(third.algorithms.empty());
}

// A choice is of one way to multiply, and of the buffers that there are.
TEST_F(BlasTunerTest, TellsProblemsApart) {
  problem.m = problem.n = problem.k = 16;
  problem.transposeB = true;
  auto isTimed = [&] {
    FakeBlas fake;
    EXPECT_TRUE(choose(fake).ok());
    return !fake.algorithms.empty();
  };
  EXPECT_TRUE(isTimed());
  EXPECT_FALSE(isTimed());
  for (auto change :
       {+[](GemmProblem &p) { p.compute = GemmProblem::Compute::Tf32; },
        +[](GemmProblem &p) { p.compute = GemmProblem::Compute::Bf16x9; },
        +[](GemmProblem &p) {
          p.activation = GemmProblem::Activation::Relu;
          p.auxiliary = true;
        },
        +[](GemmProblem &p) { p.biasGradient = GemmProblem::BiasGradient::A; },
        +[](GemmProblem &p) {
          p.operandA = p.operandB = p.result = ElementType::F8E4M3FN;
          p.scales = p.resultScale = p.amax = true;
        }}) {
    GemmProblem plain = problem;
    change(problem);
    EXPECT_TRUE(isTimed()) << problem.toString();
    EXPECT_FALSE(isTimed()) << problem.toString();
    problem = plain;
  }
}

TEST_F(BlasTunerTest, PassesOverWhatCannotRun) {
  FakeBlas fake;
  fake.refused = 2;
  timings = {3, 2};
  Result<BlasCandidate> best = choose(fake);
  ASSERT_TRUE(best.ok()) << best.status().toString();
  EXPECT_EQ(best->algorithm.data[0], 1u);
  fake.candidates = 1;
  fake.refused = 0;
  problem.m = 16;
  EXPECT_FALSE(choose(fake).ok());
}

// Where the device is full, the library's own first choice serves.
TEST_F(BlasTunerTest, DoesWithoutMemoryForTiming) {
  recording::machine().failingCalls["cuMemAlloc"] = kCuOutOfMemory;
  FakeBlas fake;
  Result<BlasCandidate> best = choose(fake);
  ASSERT_TRUE(best.ok()) << best.status().toString();
  EXPECT_EQ(best->algorithm.data[0], 0u);
  EXPECT_TRUE(fake.algorithms.empty());
}

// Memory and events of the timing are given back, whatever call fails.
TEST_F(BlasTunerTest, LeavesNothing) {
  size_t before = recording::alive().size();
  recording::forgetCalls();
  {
    FakeBlas fake;
    ASSERT_TRUE(choose(fake).ok());
  }
  EXPECT_EQ(recording::alive().size(), before);
  for (const char *name :
       {"cuMemcpyHtoDAsync", "cuStreamSynchronize", "cuEventCreate",
        "cuEventRecord", "cuEventSynchronize"}) {
    ASSERT_GT(recording::count(name), 0) << name;
    std::filesystem::remove_all(folder);
    recording::machine().failingCalls = {{name, kCuUnknown}};
    FakeBlas fake;
    (void)choose(fake);
    recording::machine().failingCalls.clear();
    EXPECT_EQ(recording::alive().size(), before) << name;
    EXPECT_EQ(fake.alive, 0) << name;
  }
}

} // namespace
