//===- BlasTunerTests.cpp - tuning of cuBLASLt GEMMs ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CUDA/CublasAutotuner.h"
#include "CUDA/CudaContext.h"
#include "FakeBlas.h"
#include "RecordingDriver.h"

#include "gtest/gtest.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <unistd.h>

using namespace mpc;
using namespace mpc::detail;
using namespace mpc::testing;

namespace {

/// GEMM times by candidate: launched one by one, and in a graph.
std::vector<float> alone, inGraph;
/// The library that records candidates, the candidate of each graph, and the
/// graph that was launched last, if any was since the last timing.
FakeBlas *library = nullptr;
std::map<CuHandle, size_t> candidateOf;
CuHandle launched = nullptr;

/// A driver with given timings, a context, and a folder for the cache.
class BlasTunerTest : public ::testing::Test {
protected:
  BlasTunerTest() {
    recording::restart();
    driver = recording::driver();
    driver.eventElapsedTime = [](float *milliseconds, CuHandle,
                                 CuHandle) -> CuResult {
      *milliseconds = launched ? inGraph.at(candidateOf.at(launched))
                               : alone.at(library->algorithms.back());
      launched = nullptr;
      return 0;
    };
    driver.graphInstantiate = [](CuHandle *exec, CuHandle graph,
                                 unsigned long long flags) -> CuResult {
      CuResult error = recording::driver().graphInstantiate(exec, graph, flags);
      candidateOf[*exec] = library->algorithms.back();
      return error;
    };
    driver.graphLaunch = [](CuHandle exec, CuHandle stream) -> CuResult {
      launched = exec;
      return recording::driver().graphLaunch(exec, stream);
    };
    alone = {0.005f, 0.006f, 0.007f};
    inGraph = {3, 2, 1};
    candidateOf.clear();
    launched = nullptr;
    folder = std::filesystem::temp_directory_path() /
             ("mpc-tuner-" + std::to_string(getpid()));
    std::filesystem::remove_all(folder);
    context = *CudaContext::create(driver, 0);
    scope = std::make_unique<CudaScope>(*context);
    problem.m = problem.n = problem.k = 8;
  }
  ~BlasTunerTest() override {
    library = nullptr;
    std::filesystem::remove_all(folder);
  }

  /// The candidate that a fresh tuner chooses for `problem`.
  Result<BlasCandidate> choose(FakeBlas &fake,
                               std::vector<size_t> alignments = {}) {
    library = &fake;
    Result<std::shared_ptr<BlasContext>> blas = BlasContext::create(fake.table);
    if (!blas.ok())
      return blas.status();
    Result<std::shared_ptr<CublasGemm>> product =
        CublasGemm::create(*blas, problem, alignments);
    if (!product.ok())
      return product.status();
    CuHandle stream = nullptr;
    if (CuResult error = driver.streamCreate(&stream, kCuStreamNonBlocking))
      return toStatus(driver, error, "cuStreamCreate", "test");
    CublasAutotuner tuner(context, DiskCache(folder.string()));
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

// The host overhead of a launch is unrelated to the kernel time: GEMMs that are
// launched one by one rank by their launch overhead.
TEST_F(BlasTunerTest, TakesTheFastestInGraphs) {
  FakeBlas fake;
  Result<BlasCandidate> best = choose(fake);
  ASSERT_TRUE(best.ok()) << best.status().toString();
  EXPECT_EQ(best->algorithm.data[0], 2u);
  EXPECT_EQ(best->workspaceBytes, 2048u);
  EXPECT_EQ(recording::count("cuGraphInstantiateWithFlags"), 3);
  // A small GEMM is repeated until launch and event overheads are negligible.
  EXPECT_GE(fake.algorithms.size(), 3u * 40);
  // All warm up and are timed once; only the fastest is timed further.
  EXPECT_EQ(recording::count("cuGraphLaunch"),
            2 * 3 + CublasAutotuner::kPasses - 1);
  inGraph = {1.2f, 1.1f, 1};
  std::filesystem::remove_all(folder);
  recording::forgetCalls();
  ASSERT_TRUE(choose(fake).ok());
  EXPECT_EQ(recording::count("cuGraphLaunch"),
            3 * (1 + CublasAutotuner::kPasses));
}

// A candidate that takes milliseconds is not repeated for long.
TEST_F(BlasTunerTest, SkipsSlowCandidates) {
  alone = {9, 1, 1.5f};
  FakeBlas fake;
  fake.computes = false;
  problem.m = problem.n = problem.k = 4096;
  recording::machine().memoryBytes = size_t(2) << 30;
  Result<BlasCandidate> best = choose(fake);
  ASSERT_TRUE(best.ok()) << best.status().toString();
  EXPECT_EQ(recording::count("cuGraphInstantiateWithFlags"), 2);
  EXPECT_LE(fake.algorithms.size(), 3u * 4 + 2 * 4);
}

// Operands are random and rotate through more than the cache; the host fills a
// part that the device replicates. Write-only buffers are not filled.
TEST_F(BlasTunerTest, FillsWhatIsReadOnTheDevice) {
  problem.m = 2048, problem.n = 64, problem.k = 2048;
  size_t bytes = size_t(problem.m * problem.k) * 4;
  std::set<const void *> operands;
  FakeBlas fake;
  fake.computes = false;
  // The library's b is our a.
  fake.onProduct = [&](const void *, const void *b, const void *d) {
    operands.insert(b);
    std::vector<float> values(bytes / 4);
    std::memcpy(values.data(), b, bytes);
    double sum = 0, squares = 0;
    for (float value : values) {
      sum += value;
      squares += double(value) * value;
    }
    EXPECT_NEAR(sum / double(values.size()), 0, 0.01);
    EXPECT_NEAR(squares / double(values.size()), 1, 0.02);
    EXPECT_NE(std::memcmp(b, &values[values.size() / 2], bytes / 2), 0);
    uint32_t result = 0;
    std::memcpy(&result, d, 4);
    EXPECT_EQ(result, 0xCDCDCDCDu);
    fake.onProduct = [&](const void *, const void *other, const void *) {
      operands.insert(other);
    };
  };
  size_t uploaded = 0;
  recording::onCall([&](const recording::Call &call) {
    if (call.name == "cuMemcpyHtoDAsync")
      uploaded += std::stoul(call.detail);
  });
  ASSERT_TRUE(choose(fake).ok());
  recording::onCall(nullptr);
  EXPECT_LT(uploaded, bytes / 8);
  EXPECT_GT(operands.size() * bytes, size_t(60) << 20);
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

// Cache entries are specific to the compute type and to the buffers.
TEST_F(BlasTunerTest, DistinguishesProblems) {
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

// An algorithm that needs aligned buffers is not reused for other buffers.
TEST_F(BlasTunerTest, DistinguishesAlignments) {
  auto isTimed = [&](std::vector<size_t> alignments) {
    FakeBlas fake;
    EXPECT_TRUE(choose(fake, alignments).ok());
    return !fake.algorithms.empty();
  };
  EXPECT_TRUE(isTimed({64, 64, 64}));
  EXPECT_FALSE(isTimed({64, 64, 64}));
  EXPECT_TRUE(isTimed({64, 16, 64}));
}

TEST_F(BlasTunerTest, PassesOverWhatCannotRun) {
  FakeBlas fake;
  fake.refused = 2;
  Result<BlasCandidate> best = choose(fake);
  ASSERT_TRUE(best.ok()) << best.status().toString();
  EXPECT_EQ(best->algorithm.data[0], 1u);
  fake.candidates = 1;
  fake.refused = 0;
  problem.m = 16;
  EXPECT_FALSE(choose(fake).ok());
}

// Without free device memory, the library's heuristic choice is used.
TEST_F(BlasTunerTest, DoesWithoutMemoryForTiming) {
  recording::machine().failingCalls["cuMemAlloc"] = kCuOutOfMemory;
  FakeBlas fake;
  Result<BlasCandidate> best = choose(fake);
  ASSERT_TRUE(best.ok()) << best.status().toString();
  EXPECT_EQ(best->algorithm.data[0], 0u);
  EXPECT_TRUE(fake.algorithms.empty());
}

// Memory and events of the timing are released, whichever call fails.
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
        "cuEventRecord", "cuEventSynchronize", "cuStreamBeginCapture",
        "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch"}) {
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
