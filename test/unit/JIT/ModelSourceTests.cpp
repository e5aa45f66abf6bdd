//===- ModelSourceTests.cpp - tests of models in memory -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../TemporaryModel.h"

#include "mpc/JIT/Engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <unistd.h>

using namespace mpc;

namespace {

class ModelSourceTest : public testing::Test {
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

  static std::vector<std::byte> bytesOf(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  /// The one result for one argument.
  Result<Buffer> run(const ModelSource &model, const Buffer &x) {
    Result<Executable> executable = engine.compile(model, options);
    if (!executable.ok())
      return executable.status();
    Result<std::vector<Buffer>> results = executable->run(std::array{x});
    if (!results.ok())
      return results.status();
    return results->front();
  }

  std::string folder;
  int imports = 0;
  CompileOptions options;
  Engine engine = *Engine::create(*Device::cpu({.threads = 2}));
};

class ModelFileTest : public TemporaryFolder {};

} // namespace

TEST_F(ModelSourceTest, CompilesBytesWithDataByCallback) {
  ModelSource file = folder + "external-data.onnx";
  std::vector<std::byte> model = bytesOf(file.name());
  int calls = 0;
  ExternalDataReader reader =
      [&](const std::string &name) -> Result<SourceBytes> {
    ++calls;
    if (name != "external.bin")
      return Status(StatusCode::NotFound, name, "is not here");
    return SourceBytes::copyOf(bytesOf(folder + name));
  };
  ModelSource memory = ModelSource::fromBytes("held.onnx", {model}, reader);
  Buffer x = *Buffer::allocate({ElementType::F32, {4}});
  Result<Buffer> expected = run(file, x);
  ASSERT_TRUE(expected.ok()) << expected.status().toString();
  Result<Buffer> results = run(memory, x);
  ASSERT_TRUE(results.ok()) << results.status().toString();
  std::span<float> y = results->as<float>(), z = expected->as<float>();
  EXPECT_TRUE(std::equal(y.begin(), y.end(), z.begin()));
  EXPECT_NE(y[0], 0);
  ASSERT_TRUE(engine.compile(memory, options).ok());
  EXPECT_EQ(calls, 1);

  // Without a reader, and with one that has nothing.
  Status none =
      engine.compile(ModelSource::fromBytes("m.onnx", {model}), options)
          .status();
  EXPECT_NE(none.toString().find("was read without a folder"),
            std::string::npos)
      << none.toString();
  Status absent =
      engine
          .compile(ModelSource::fromBytes(
                       "m.onnx", {model},
                       [](const std::string &name) -> Result<SourceBytes> {
                         return Status(StatusCode::NotFound, name,
                                       "is nowhere");
                       }),
                   options)
          .status();
  EXPECT_NE(absent.toString().find("external.bin: is nowhere"),
            std::string::npos)
      << absent.toString();
  // Too short.
  Status brief =
      engine
          .compile(ModelSource::fromBytes(
                       "m.onnx", {model},
                       [](const std::string &) -> Result<SourceBytes> {
                         return SourceBytes::copyOf(
                             std::array<std::byte, 20>());
                       }),
                   options)
          .status();
  EXPECT_NE(brief.toString().find("which has 20"), std::string::npos)
      << brief.toString();
}

// One source whose text is written for the shapes of each compile.
TEST_F(ModelSourceTest, WritesTextForEachShape) {
  auto text = [](const InputShapes &shapes) -> Result<SourceBytes> {
    std::string type =
        "tensor<" + std::to_string(shapes.at("x")[0]) + "x2xf32>";
    std::string all =
        "func.func @main(%x: " + type +
        " {mpc.role = #mpc.role<input>, mpc.name = \"x\"}) -> (" + type +
        " {mpc.role = #mpc.role<output>, mpc.name = \"y\"}) {\n"
        "  %w = mpc.constant dense<0.0> : tensor<2xf32> {mpc.external = "
        "\"w\"}\n  %0 = mpc.add %x, %w : (" +
        type + ", tensor<2xf32>) -> " + type + "\n  return %0 : " + type +
        "\n}\n";
    return SourceBytes::copyOf(std::as_bytes(std::span(all)));
  };
  std::array weights = {1.0f, 2.0f};
  auto source = [&](size_t count) {
    return ModelSource::fromShapes(
        "m.mlir", {{"x", ElementType::F32, {-1, 2}, {"rows", ""}}}, text,
        [&, count](const std::string &) -> Result<SourceBytes> {
          return SourceBytes::copyOf(
              std::as_bytes(std::span(weights)).first(count));
        });
  };
  Model model = engine.open(source(8), options);
  for (int64_t rows : {1, 3}) {
    Buffer x = *Buffer::allocate({ElementType::F32, {rows, 2}});
    std::ranges::fill(x.as<float>(), 5.0f);
    Result<NamedBuffers> results = model.run({{"x", x}});
    ASSERT_TRUE(results.ok()) << results.status().toString();
    EXPECT_EQ(results->at("y").as<float>().size(), size_t(2 * rows));
    EXPECT_EQ(results->at("y").as<float>().back(), 7.0f);
  }
  auto failure = [&](const ModelSource &model) {
    return engine.compile(model, options).status().toString();
  };
  EXPECT_NE(failure(source(8)).find("has the unbound symbolic dimension"),
            std::string::npos);
  options.dims["lines"] = 2;
  EXPECT_NE(failure(source(8)).find("symbolic dimension named 'lines'"),
            std::string::npos);
  options.dims = {{"rows", 2}};
  EXPECT_TRUE(engine.compile(source(8), options).ok());
  EXPECT_NE(failure(source(4)).find("has 4 bytes, 'tensor<2xf32>' needs 8"),
            std::string::npos);
}

// Reading a mapped page that another process cut off would raise SIGBUS.
TEST_F(ModelFileTest, BytesOutliveATruncationOfTheFile) {
  const std::string text(1 << 20, 'x');
  write("model.onnx", text);
  Result<SourceBytes> read = ModelSource(path("model.onnx")).read();
  ASSERT_TRUE(read.ok()) << read.status().toString();
  std::filesystem::resize_file(path("model.onnx"), 0);
  EXPECT_TRUE(std::ranges::equal(read->bytes, std::as_bytes(std::span(text))));
}

// A name that leads elsewhere is rejected before the callback is called.
TEST_F(ModelSourceTest, CallbackIsNotAskedForWhatLeadsElsewhere) {
  std::vector<std::byte> model = bytesOf(folder + "external-escape.onnx");
  bool asked = false;
  ModelSource memory = ModelSource::fromBytes(
      "m.onnx", {model}, [&](const std::string &name) -> Result<SourceBytes> {
        asked = true;
        return Status(StatusCode::NotFound, name, "is not here");
      });
  EXPECT_FALSE(engine.compile(memory, options).ok());
  EXPECT_FALSE(asked);
}

// Models in memory hit the user's cache by their content.
TEST_F(ModelSourceTest, BytesAreCachedByContent) {
  std::string cache = (std::filesystem::temp_directory_path() /
                       ("mpc-model-" + std::to_string(::getpid())))
                          .string();
  const char *before = std::getenv("MPC_CACHE_DIR");
  std::string old = before ? before : "";
  setenv("MPC_CACHE_DIR", cache.c_str(), 1);
  options.useCache = true;
  for (int round = 0; round < 2; ++round)
    for (float scale : {2.0f, 3.0f}) {
      std::string text =
          "func.func @main(%x: tensor<2xf32> {mpc.role = #mpc.role<input>, "
          "mpc.name = \"x\"}) -> (tensor<2xf32> {mpc.role = "
          "#mpc.role<output>, mpc.name = \"y\"}) {\n"
          "  %c = mpc.constant dense<" +
          std::to_string(scale) +
          "> : tensor<f32>\n"
          "  %0 = mpc.mul %x, %c : (tensor<2xf32>, tensor<f32>) -> "
          "tensor<2xf32>\n  return %0 : tensor<2xf32>\n}\n";
      Buffer x = *Buffer::fromValues<float>({ElementType::F32, {2}},
                                            std::array{1.0f, 5.0f});
      Result<Buffer> results = run(
          ModelSource::fromBytes("m.mlir", {std::as_bytes(std::span(text))}),
          x);
      EXPECT_TRUE(results.ok()) << results.status().toString();
      if (results.ok())
        EXPECT_EQ(results->as<float>()[1], 5 * scale);
    }
  EXPECT_EQ(imports, 2);
  if (before)
    setenv("MPC_CACHE_DIR", old.c_str(), 1);
  else
    unsetenv("MPC_CACHE_DIR");
  std::filesystem::remove_all(cache);
}
