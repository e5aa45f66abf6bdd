//===- ModelTests.cpp - tests of models with dynamic shapes ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/Engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

using namespace mpc;

namespace {

class ModelTest : public testing::Test {
protected:
  void SetUp() override {
    const char *root = std::getenv("MPC_SOURCE_DIR");
    if (!root)
      GTEST_SKIP() << "MPC_SOURCE_DIR names no source tree";
    folder = std::string(root) + "/test/Inputs/onnx/";
    options.useCache = false;
    options.onStage = [&](const std::string &stage) {
      imports += stage == "import";
    };
  }

  /// y of shape-chain.onnx has the elements of x, halved.
  static NamedBuffers batchOf(int64_t batch) {
    Buffer x = *Buffer::allocate({ElementType::F32, {batch, 3, 4}});
    std::span<float> values = x.as<float>();
    std::iota(values.begin(), values.end(), 1.0f);
    return {{"x", x}};
  }
  static bool isRight(const Result<NamedBuffers> &results, int64_t batch) {
    if (!results.ok())
      return false;
    const Buffer &y = results->at("y");
    std::span<const float> values = y.as<float>();
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] != float(i + 1) / 2)
        return false;
    return int64_t(values.size()) == batch * 12;
  }
  static Buffer number(int64_t value) {
    return *Buffer::fromValues<int64_t>({ElementType::I64, {1}},
                                        std::array{value});
  }
  std::string folder;
  std::atomic<int> imports = 0;
  CompileOptions options;
  Engine engine = *Engine::create(*Device::cpu({.threads = 2}));
};

} // namespace

// All threads request every size at the same time.
TEST_F(ModelTest, EightThreadsCompileEachSizeOnce) {
  Model model = engine.open(folder + "shape-chain.onnx", options);
  constexpr std::array<int64_t, 4> sizes = {1, 7, 32, 100};
  std::array<bool, 8> good = {};
  std::barrier start(std::ptrdiff_t(good.size()));
  std::vector<std::thread> threads;
  threads.reserve(good.size());
  for (size_t t = 0; t < good.size(); ++t)
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      good[t] = true;
      for (size_t i = 0; i < 2 * sizes.size(); ++i) {
        int64_t size = sizes[(i + t / 2) % sizes.size()];
        good[t] = good[t] && isRight(model.run(batchOf(size)), size);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (bool right : good)
    EXPECT_TRUE(right);
  SpecialisationCounts counts = model.counts();
  EXPECT_EQ(counts.compiles, 4);
  EXPECT_EQ(imports, 4);
  EXPECT_EQ(counts.hits, 60);
  EXPECT_EQ(counts.kept, 4);
  EXPECT_EQ(counts.evictions, 0);
}

// Programs for several shapes have the packed weights in memory once.
TEST_F(ModelTest, ShapesShareWeights) {
  // Large enough that packed weights are deferred.
  constexpr int64_t kWidth = 1024;
  const std::string width = std::to_string(kWidth);
  std::vector<float> weights(size_t(kWidth) * kWidth);
  std::iota(weights.begin(), weights.end(), 1.0f);
  auto text = [&](const InputShapes &shapes) -> Result<SourceBytes> {
    std::string type = "tensor<" + std::to_string(shapes.at("x").front()) +
                       "x" + width + "xf32>";
    std::string matrix = "tensor<" + width + "x" + width + "xf32>";
    std::string made =
        "func.func @main(%x: " + type +
        " {mpc.role = #mpc.role<input>, mpc.name = \"x\"}) -> (" + type +
        " {mpc.role = #mpc.role<output>, mpc.name = \"y\"}) {\n"
        "%w = mpc.constant dense<0.0> : " +
        matrix +
        " {mpc.external = \"w\"}\n"
        "%y = mpc.matmul %x, %w : (" +
        type + ", " + matrix + ") -> " + type + "\nreturn %y : " + type +
        "\n}\n";
    return SourceBytes::copyOf(std::as_bytes(std::span(made)));
  };
  auto external = [&](const std::string &) -> Result<SourceBytes> {
    return SourceBytes{std::as_bytes(std::span(weights)), nullptr};
  };
  options.policy = "mixed_bfloat16";
  auto constantFor = [&](int64_t rows) {
    options.inputShapes["x"] = {rows, kWidth};
    Result<Executable> executable = engine.compile(
        ModelSource::fromShapes(
            "w.mlir", {{"x", ElementType::F32, {-1, kWidth}, {"batch", ""}}},
            text, external),
        options);
    EXPECT_TRUE(executable.ok()) << executable.status().toString();
    for (const ProgramConstant &constant : executable->program().constants)
      if (constant.bytes >= int64_t(weights.size()))
        return constant.data;
    return std::shared_ptr<const void>();
  };
  std::shared_ptr<const void> first = constantFor(3), second = constantFor(64);
  ASSERT_TRUE(first);
  EXPECT_EQ(first, second);
  weights.front() = 5;
  EXPECT_NE(constantFor(3), first);
}

// Sizes share the programs of their buckets, with the rows that they have
// without; what is larger than all of them is compiled as it is.
TEST_F(ModelTest, BucketsShareProgramsAndKeepRows) {
  options.buckets = {{"batch", {4, 32}}};
  Model model = engine.open(folder + "shape-chain.onnx", options);
  constexpr std::array<int64_t, 8> sizes = {3, 5, 4, 2, 32, 31, 33, 7};
  std::array<bool, 8> good = {};
  std::barrier start(std::ptrdiff_t(good.size()));
  std::vector<std::thread> threads;
  threads.reserve(good.size());
  for (size_t t = 0; t < good.size(); ++t)
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      good[t] = true;
      for (size_t i = 0; i < sizes.size(); ++i) {
        int64_t size = sizes[(i + t) % sizes.size()];
        good[t] = good[t] && isRight(model.run(batchOf(size)), size);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (bool right : good)
    EXPECT_TRUE(right);
  EXPECT_EQ(model.counts().compiles, 3); // 4, 32 and 33 rows
}

TEST_F(ModelTest, BucketsOfMixedRowsAreRefused) {
  options.buckets = {{"batch", {8}}};
  Model model = engine.open(folder + "batch-mean.onnx", options);
  Buffer x = *Buffer::allocate({ElementType::F32, {3, 4}});
  Status mixed = model.run({{"x", x}}).status();
  EXPECT_NE(mixed.toString().find("batch-mean.onnx: centre: 'mpc.reduce_mean' "
                                  "reduces over the rows: dimension 'batch' "
                                  "cannot be padded from 3 to 8"),
            std::string::npos)
      << mixed.toString();
  // Inputs that have as many rows as a bucket need no padding.
  Buffer whole = *Buffer::allocate({ElementType::F32, {8, 4}});
  EXPECT_TRUE(model.run({{"x", whole}}).ok());
  options.buckets = {{"bach", {8}}};
  Status unknown =
      engine.open(folder + "batch-mean.onnx", options).run({{"x", x}}).status();
  EXPECT_NE(unknown.toString().find("symbolic dimension named 'bach'"),
            std::string::npos)
      << unknown.toString();
  options.buckets = {{"batch", {8, 4}}};
  Status falling =
      engine.open(folder + "batch-mean.onnx", options).run({{"x", x}}).status();
  EXPECT_NE(falling.toString().find("must be positive and increasing"),
            std::string::npos)
      << falling.toString();
}

TEST_F(ModelTest, ForgetsWhatWasUsedLongestAgo) {
  engine = *Engine::create(*Device::cpu(), {.specialisations = 2});
  Model model = engine.open(folder + "shape-chain.onnx", options);
  auto run = [&](int64_t size) {
    EXPECT_TRUE(isRight(model.run(batchOf(size)), size));
    return model.counts().compiles;
  };
  EXPECT_EQ(run(1), 1);
  EXPECT_EQ(run(2), 2);
  EXPECT_EQ(run(1), 2);
  // Evicts 2.
  EXPECT_EQ(run(3), 3);
  EXPECT_EQ(run(1), 3);
  EXPECT_EQ(run(2), 4);
  EXPECT_EQ(model.counts().kept, 2);
  EXPECT_EQ(model.counts().evictions, 2);
}

// Limits apply to all models of an engine, and the latest model stays even if
// it exceeds them.
TEST_F(ModelTest, BytesAreBounded) {
  engine = *Engine::create(*Device::cpu(), {.bytes = 1});
  Model sums = engine.open(folder + "small-cnn.onnx", options);
  Result<Executable> once = engine.compile(folder + "small-cnn.onnx", options);
  ASSERT_TRUE(once.ok()) << once.status().toString();
  NamedBuffers arguments;
  for (const ProgramValue &value : once->program().arguments)
    arguments[value.name] = *Buffer::allocate(value.type);
  ASSERT_TRUE(sums.run(arguments).ok());
  EXPECT_EQ(sums.counts().kept, 1);
  EXPECT_EQ(sums.counts().bytes,
            once->program().constantBytes() + once->program().arenaBytes);
  EXPECT_GT(sums.counts().bytes, 1);
  Model chain = engine.open(folder + "shape-chain.onnx", options);
  EXPECT_TRUE(isRight(chain.run(batchOf(5)), 5));
  EXPECT_EQ(chain.counts().kept, 1);
  EXPECT_EQ(chain.counts().evictions, 1);
}

// A value that shapes follow from belongs to the specialisation; data does not.
TEST_F(ModelTest, ValuesAreKeys) {
  Model model = engine.open(folder + "top-k-input.onnx", options);
  Buffer x = *Buffer::allocate({ElementType::F32, {4, 8}});
  for (int64_t k : {3, 5, 3, 5}) {
    x.as<float>()[7] += 2.5f;
    Result<NamedBuffers> results = model.run({{"x", x}, {"k", number(k)}});
    ASSERT_TRUE(results.ok()) << results.status().toString();
    EXPECT_EQ(results->at("y").type().shape, (std::vector<int64_t>{4, k}));
    EXPECT_EQ(results->at("y").as<float>()[0], x.as<float>()[7] * float(k));
  }
  EXPECT_EQ(model.counts().compiles, 2);
  EXPECT_EQ(model.counts().hits, 2);
}

// Threads with different values wait for the first compile, which detects that
// the values matter, then compile for theirs; only the invalid value fails.
TEST_F(ModelTest, ThreadsWithOtherValues) {
  Model model = engine.open(folder + "top-k-input.onnx", options);
  constexpr std::array<int64_t, 8> values = {3, 5, 99, 3, 5, 2, 99, 3};
  std::array<bool, 8> good = {};
  std::barrier start(std::ptrdiff_t(good.size()));
  std::vector<std::thread> threads;
  threads.reserve(good.size());
  for (size_t t = 0; t < good.size(); ++t)
    threads.emplace_back([&, t] {
      Buffer x = *Buffer::allocate({ElementType::F32, {4, 8}});
      start.arrive_and_wait();
      Result<NamedBuffers> results =
          model.run({{"x", x}, {"k", number(values[t])}});
      good[t] =
          values[t] == 99
              ? results.status().toString().find("99") != std::string::npos
              : results.ok() &&
                    results->at("y").type().shape.back() == values[t];
    });
  for (std::thread &thread : threads)
    thread.join();
  for (bool right : good)
    EXPECT_TRUE(right);
  EXPECT_EQ(model.counts().kept, 3);
}

TEST_F(ModelTest, SaysWhatIsWrongWithNames) {
  Model model = engine.open(folder + "shape-chain.onnx", options);
  Buffer x = batchOf(2).at("x");
  Status extra = model.run({{"x", x}, {"z", x}}).status();
  EXPECT_NE(extra.toString().find("has no input 'z'"), std::string::npos)
      << extra.toString();
  Status null = model.run({{"x", Buffer()}}).status();
  EXPECT_NE(null.toString().find("'x' is null"), std::string::npos)
      << null.toString();
  Model top = engine.open(folder + "top-k-input.onnx", options);
  Status missing = top.run({{"k", number(2)}}).status();
  EXPECT_NE(missing.toString().find("input 'x' (f32[4,8]) was not given"),
            std::string::npos)
      << missing.toString();
  // A failure is not cached.
  EXPECT_TRUE(isRight(model.run({{"x", x}}), 2));
}

//===----------------------------------------------------------------------===//
// Steps that a loss scale joins
//===----------------------------------------------------------------------===//

/// w - 0.1 x' 2 (x w) and the sum of the squares of x w, as JAX traces such a
/// step, with the state donated (docs/HowTo/LossScaling.md).
static constexpr char kStep[] = R"(module @jit_step {
  func.func public @main(%arg0: tensor<4x2xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<8x4xf32>) -> (tensor<4x2xf32>, tensor<f32>) {
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<8x2xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x2xf32>, tensor<f32>) -> tensor<f32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x2xf32>
    %4 = stablehlo.multiply %3, %0 : tensor<8x2xf32>
    %5 = stablehlo.dot_general %4, %arg1, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x2xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
    %6 = stablehlo.transpose %5, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
    %cst_1 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
    %8 = stablehlo.multiply %7, %6 : tensor<4x2xf32>
    %9 = stablehlo.subtract %arg0, %8 : tensor<4x2xf32>
    return %9, %2 : tensor<4x2xf32>, tensor<f32>
  }
})";

TEST(StepModel, LossScaleMayBeLeftOut) {
  CompileOptions options;
  options.policy = "mixed_float16";
  options.useCache = false;
  Engine engine = *Engine::create(*Device::cpu({.threads = 1}));
  Model model = engine.open(
      ModelSource::fromBytes(
          "step.mlir",
          {std::as_bytes(std::span(kStep)).first(sizeof kStep - 1), nullptr}),
      options);
  Buffer x = *Buffer::allocate({ElementType::F32, {8, 4}});
  std::ranges::fill(x.as<float>(), 0.25f);
  // Scaled by 65536 twice the matmul overflows: the step is skipped and the
  // scale halved, in each run that starts from the initial state.
  auto scaleAfter = [&](NamedBuffers given) {
    Buffer w = *Buffer::allocate({ElementType::F32, {4, 2}});
    std::ranges::fill(w.as<float>(), 1.0f);
    given["arg0"] = w;
    given["arg1"] = x;
    Result<NamedBuffers> results = model.run(given);
    EXPECT_TRUE(results.ok());
    EXPECT_EQ(w.as<float>()[0], 1);
    return *results;
  };
  NamedBuffers first = scaleAfter({});
  ASSERT_TRUE(first.contains("loss_scale.scale"));
  EXPECT_EQ(first["loss_scale.scale"].as<float>()[0], 32768);
  EXPECT_EQ(scaleAfter({})["loss_scale.scale"].as<float>()[0], 32768);
  NamedBuffers state;
  for (const auto &[name, buffer] : first)
    if (name.starts_with("loss_scale."))
      state.emplace(name, buffer);
  EXPECT_EQ(scaleAfter(state)["loss_scale.scale"].as<float>()[0], 16384);
}
