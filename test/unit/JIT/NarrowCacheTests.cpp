//===- NarrowCacheTests.cpp - tests of 16-bit and 8-bit KV caches ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One step of attention with a KV cache, compiled and checked by the oracle.
//
//===----------------------------------------------------------------------===//

#include "JIT/Compiler.h"

#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/JIT/Engine.h"
#include "mpc/Reference/Compare.h"
#include "mpc/Reference/Interpreter.h"
#include "mpc/Support/NarrowFloat.h"
#include "mpc/Target/CUDA/Host/HostDevice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace mpc;
using mpc::reference::Rounding;
using mpc::reference::Tensor;

namespace {

constexpr int64_t kPast = 24, kGroups = 2, kHeads = 4, kSize = 32;

/// `count` tokens: queries, keys and values of x, the latter appended to those
/// of a cache.
ModelSource modelFor(int64_t count) {
  auto tensor = [](std::initializer_list<int64_t> shape) {
    std::string text = "tensor<";
    for (int64_t extent : shape)
      text += std::to_string(extent) + "x";
    return text + "f32>";
  };
  auto input = [&](const std::string &name, const std::string &type) {
    return "%" + name + ": " + type +
           " {mpc.role = #mpc.role<input>, mpc.name = \"" + name + "\"}";
  };
  auto output = [](const std::string &name, const std::string &type) {
    return type + " {mpc.role = #mpc.role<output>, mpc.name = \"" + name +
           "\"}";
  };
  std::string x = tensor({count, 48}),
              past = tensor({1, kGroups, kPast, kSize}),
              all = tensor({1, kGroups, kPast + count, kSize}),
              y = tensor({1, kHeads, count, kSize});
  std::string text = "func.func @main(" + input("x", x);
  for (auto [name, heads] : {std::pair("wq", kHeads), std::pair("wk", kGroups),
                             std::pair("wv", kGroups)})
    text += ", " + input(name, tensor({48, heads * kSize}));
  text += ", " + input("past_k", past) + ", " + input("past_v", past) +
          ") -> (" + output("y", y) + ", " + output("present_k", all) + ", " +
          output("present_v", all) + ") {\n";
  for (auto [name, heads] : {std::pair("q", kHeads), std::pair("k", kGroups),
                             std::pair("v", kGroups)}) {
    std::string n(name), wide = tensor({count, heads * kSize}),
                         split = tensor({1, count, heads, kSize}),
                         turned = tensor({1, heads, count, kSize});
    text += "%m" + n + " = mpc.matmul %x, %w" + n + " : (" + x + ", " +
            tensor({48, heads * kSize}) + ") -> " + wide + "\n%s" + n +
            " = mpc.reshape %m" + n + " : " + wide + " to " + split + "\n%" +
            n + " = mpc.transpose %s" + n + " [0, 2, 1, 3] : " + split +
            " to " + turned + "\n";
    if (heads == kGroups)
      text += "%all" + n + " = mpc.concat %past_" + n + ", %" + n +
              " axis(2) : (" + past + ", " + turned + ") -> " + all + "\n";
  }
  text += "%y = mpc.attention %q, %allk, %allv scale(0.2) causal : (" + y +
          ", " + all + ", " + all + ") -> " + y +
          "\nreturn %y, %allk, %allv : " + y + ", " + all + ", " + all +
          "\n}\n";
  return ModelSource::fromBytes(
      "step.mlir", SourceBytes::copyOf(std::as_bytes(std::span(text))));
}

CompileOptions optionsFor(const std::string &policy, ElementType element) {
  CompileOptions options;
  options.useCache = false;
  options.policy = policy;
  for (const char *name : {"k", "v"})
    options.caches.push_back({"past_" + std::string(name),
                              "present_" + std::string(name), 2, element});
  return options;
}

class NarrowCacheTest : public testing::TestWithParam<ElementType> {
protected:
  std::string nameOf(mlir::func::FuncOp function, unsigned argument) {
    return function
        .getArgAttrOfType<mlir::StringAttr>(argument, MpcDialect::kNameAttr)
        .str();
  }

  /// Normal numbers; of caches of 8 bits any codes but NaN's, and scales.
  void draw(const std::string &name, Buffer &buffer) {
    std::normal_distribution<float> normal;
    bool isWeight = name[0] == 'w';
    switch (buffer.type().element) {
    case ElementType::F32:
      for (float &value : buffer.as<float>()) {
        value = normal(random) * (isWeight ? 0.15f : 1);
        if (name.ends_with("@scale"))
          value = std::abs(value) * 0x1p-6f;
      }
      break;
    case ElementType::I8:
      for (int8_t &code : buffer.as<int8_t>())
        code = int8_t(random() % 255 - 127);
      break;
    case ElementType::UI8:
      for (uint8_t &code : buffer.as<uint8_t>()) {
        code = random() % 256;
        if ((code & kFloat8E4M3FN.nanCode()) == kFloat8E4M3FN.nanCode())
          code = 0;
      }
      break;
    default: {
      mlir::MLIRContext context;
      Tensor tensor(compilerType(buffer.type(), context));
      for (double &value : tensor.floats())
        value = normal(random);
      tensor.toBytes(buffer.data());
    }
    }
  }

  bool isFloat8() const { return GetParam() == ElementType::F8E4M3FN; }
  int64_t largestCode() const {
    return isFloat8() ? int64_t(kFloat8E4M3FN.largestCode()) : 127;
  }
  double numberOf(int64_t code) const {
    return isFloat8() ? kFloat8E4M3FN.decode(uint8_t(code)) : double(code);
  }

  void check(const std::string &policy, int64_t count, const Device &device) {
    SCOPED_TRACE(policy + " " + std::to_string(count) + " " + device.name());
    ModelSource model = modelFor(count);
    CompileOptions options = optionsFor(policy, GetParam());
    Result<Executable> made = Engine::create(device)->compile(model, options);
    ASSERT_TRUE(made.ok()) << made.status().toString();
    std::vector<Buffer> arguments;
    for (const ProgramValue &value : made->program().arguments) {
      arguments.push_back(*Buffer::allocate(value.type));
      draw(value.name, arguments.back());
    }
    Result<std::unique_ptr<Compiler>> compiler = Compiler::create(options);
    ASSERT_TRUE(compiler.ok());
    Compiler::Module module = *(*compiler)->import(model);
    mlir::func::FuncOp function = Compiler::entry(*module);
    std::vector<Tensor> inputs;
    inputs.reserve(function.getNumArguments());
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      inputs.push_back(Tensor::fromBytes(
          mlir::cast<mlir::RankedTensorType>(function.getArgument(i).getType()),
          arguments[made->argumentIndex(nameOf(function, i))].data()));

    Result<std::vector<Buffer>> results = made->run(arguments);
    ASSERT_TRUE(results.ok()) << results.status().toString();
    std::vector<Tensor> actual;
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      std::string name =
          function
              .getResultAttrOfType<mlir::StringAttr>(i, MpcDialect::kNameAttr)
              .str();
      int index = made->resultIndex(name);
      int alias = made->program().results[index].alias;
      const Buffer &buffer = alias < 0 ? (*results)[index] : arguments[alias];
      actual.push_back(Tensor::fromBytes(
          mlir::cast<mlir::RankedTensorType>(function.getResultTypes()[i]),
          buffer.data()));
    }

    int64_t longest = reference::longestReduction(function);
    std::vector<Tensor> wanted =
        interpret(function, inputs, actual, policy, Rounding::Float64);
    ASSERT_TRUE((*compiler)->runStages(*module, "import", "precision").ok());
    std::vector<Tensor> declared = interpret(
        Compiler::entry(*module), inputs, actual, policy, Rounding::Declared);
    ASSERT_EQ(wanted.size(), actual.size());
    ASSERT_EQ(declared.size(), actual.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      reference::OutputError error = reference::compareOutput(
          actual[i], wanted[i], declared[i], longest, /*fatalIntegers=*/true);
      EXPECT_TRUE(error.ok)
          << i << ": " << error.rmsRelativeError << " above " << error.tolerance
          << ", mismatches " << error.mismatches;
    }
  }

  /// Runs the oracle. Numbers between two codes may become either, by the last
  /// bit of a sum; dependent values are compared for the codes of `actual`.
  std::vector<Tensor> interpret(mlir::func::FuncOp function,
                                const std::vector<Tensor> &inputs,
                                const std::vector<Tensor> &actual,
                                const std::string &policy, Rounding rounding) {
    mlir::Operation *terminator = function.getBody().front().getTerminator();
    reference::InterpretOptions options;
    options.rounding = rounding;
    options.observer = [&](mlir::Operation *op,
                           llvm::MutableArrayRef<Tensor> results) {
      auto concat = mlir::dyn_cast<ConcatOp>(op);
      if (!concat || results[0].isFloat())
        return;
      for (mlir::OpOperand &use : concat->getUses()) {
        if (use.getOwner() != terminator)
          continue;
        const Tensor &codes = actual[use.getOperandNumber()];
        int64_t others = 0;
        for (auto [mine, theirs] :
             llvm::zip_equal(results[0].ints(), codes.ints())) {
          others += mine != theirs;
          // Codes of floats of one sign rise with them. Sums of 16-bit factors
          // are off by a part of what the largest in a row is.
          double off = std::abs(numberOf(mine) - numberOf(theirs));
          EXPECT_TRUE(
              std::abs(mine - theirs) <= 1 ||
              (policy != "float32" && off <= numberOf(largestCode()) / 32))
              << mine << " instead of " << theirs;
        }
        // Few f32 sums are between two codes.
        if (policy == "float32") {
          EXPECT_LE(others, codes.size() / 200);
        }
        llvm::copy(codes.ints(), results[0].ints().begin());
      }
    };
    mlir::FailureOr<llvm::SmallVector<Tensor>> results =
        reference::interpret(function, inputs, options);
    EXPECT_TRUE(mlir::succeeded(results));
    if (mlir::failed(results))
      return {};
    return {results->begin(), results->end()};
  }

  std::mt19937 random{11};
};

TEST_P(NarrowCacheTest, StepsAreThoseOfTheOracle) {
  Device cpu = *Device::cpu({.threads = 2});
  for (const char *policy :
       {"float32", "mixed_bfloat16", "mixed_float16", "float16"})
    for (int64_t count : {1, 7})
      check(policy, count, cpu);
}

TEST_P(NarrowCacheTest, StepsOfGpuKernelsAreThoseOfTheOracle) {
  check("float32", 1, cudaHostDevice());
  check("mixed_bfloat16", 5, cudaHostDevice());
}

INSTANTIATE_TEST_SUITE_P(Elements, NarrowCacheTest,
                         testing::Values(ElementType::F32, ElementType::BF16,
                                         ElementType::F16, ElementType::I8,
                                         ElementType::F8E4M3FN),
                         [](const auto &info) {
                           return std::string(elementTypeName(info.param));
                         });

/// A row of a cache and its scale, and no copy of what was there.
TEST(NarrowCacheFormTest, NumbersShareScalesByRow) {
  Engine engine = *Engine::create(*Device::cpu());
  for (auto [element, type] :
       {std::pair(ElementType::I8, "i8[25,1,2,32]"),
        std::pair(ElementType::F8E4M3FN, "ui8[25,1,2,32]"),
        std::pair(ElementType::BF16, "bf16[25,1,2,32]")}) {
    Executable made =
        *engine.compile(modelFor(1), optionsFor("float32", element));
    const Program &program = made.program();
    int numbers = made.argumentIndex("past_k");
    EXPECT_EQ(program.arguments[numbers].type.toString(), type);
    EXPECT_EQ(program.results[made.resultIndex("present_k")].alias, numbers);
    int scales = made.argumentIndex("past_k@scale");
    EXPECT_EQ(scales >= 0, elementBytes(element) == 1);
    if (scales < 0)
      continue;
    EXPECT_EQ(program.arguments[scales].type.toString(), "f32[25,1,2,1]");
    EXPECT_EQ(program.results[made.resultIndex("present_k@scale")].alias,
              scales);
  }
}

/// Values that have no finite code are NaN wherever the row is read, and zeros
/// are zeros, for every compute type of the policy.
class NarrowCacheRowsTest : public testing::TestWithParam<const char *> {};

TEST_P(NarrowCacheRowsTest, OfNoNumbersAndOfZeros) {
  Engine engine = *Engine::create(*Device::cpu());
  for (ElementType element : {ElementType::I8, ElementType::F8E4M3FN})
    for (float given : {0.0f, INFINITY, NAN}) {
      Executable made =
          *engine.compile(modelFor(1), optionsFor(GetParam(), element));
      std::vector<Buffer> arguments;
      for (const ProgramValue &value : made.program().arguments) {
        arguments.push_back(*Buffer::allocate(value.type));
        if (value.name[0] == 'w')
          for (float &weight : arguments.back().as<float>())
            weight = 1;
        if (value.name == "x")
          arguments.back().as<float>()[3] = given;
      }
      std::vector<Buffer> results = *made.run(arguments);
      std::span<const float> y =
          std::as_const(results[made.resultIndex("y")]).as<float>();
      for (float value : y)
        EXPECT_EQ(std::isnan(value), given != 0);
      if (given == 0) {
        for (float value : y)
          EXPECT_EQ(value, 0);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Policies, NarrowCacheRowsTest,
                         testing::Values("float32", "mixed_float16", "float16",
                                         "bfloat16"),
                         [](const auto &info) {
                           return std::string(info.param);
                         });

/// Heads of a long cache go to as many workers as there are; each reads its
/// part of the rows.
TEST(NarrowCacheFormTest, ThreadsGiveEqualBits) {
  for (auto [rows, bytes, type] :
       {std::tuple(700, 4, "f32"), std::tuple(1400, 1, "i8")}) {
    std::string stored = "tensor<" + std::to_string(rows) + "x2x6x64x",
                turned = "tensor<2x6x" + std::to_string(rows) + "x64xf32>",
                query = "tensor<2x12x1x64xf32>", text = "func.func @main(";
    for (const char *name : {"q", "k", "v"})
      text += std::string(name[0] == 'q' ? "" : ", ") + "%" + name + ": " +
              (name[0] == 'q' ? query : stored + type + ">") +
              " {mpc.role = #mpc.role<input>, mpc.name = \"" + name + "\"}";
    text += ") -> (" + query +
            " {mpc.role = #mpc.role<output>, mpc.name = \"y\"}) {\n";
    for (std::string name : {"k", "v"}) {
      std::string from = "%" + name;
      if (bytes == 1) {
        text += from + "w = mpc.cast " + from + " : " + stored + "i8> to " +
                stored + "f32>\n";
        from += "w";
      }
      text += "%" + name + "t = mpc.transpose " + from +
              " [1, 2, 0, 3] : " + stored + "f32> to " + turned + "\n";
    }
    text += "%y = mpc.attention %q, %kt, %vt scale(0.01) causal : (" + query +
            ", " + turned + ", " + turned + ") -> " + query +
            "\nreturn %y : " + query + "\n}\n";
    ModelSource model = ModelSource::fromBytes(
        "heads.mlir", SourceBytes::copyOf(std::as_bytes(std::span(text))));
    std::vector<float> first;
    for (int threads : {1, 2, 3, 5, 24}) {
      Engine engine = *Engine::create(*Device::cpu({.threads = threads}));
      CompileOptions options;
      options.useCache = false;
      Result<Executable> made = engine.compile(model, options);
      ASSERT_TRUE(made.ok()) << made.status().toString();
      std::mt19937 random(7);
      std::normal_distribution<float> normal;
      std::vector<Buffer> arguments;
      for (const ProgramValue &value : made->program().arguments) {
        arguments.push_back(*Buffer::allocate(value.type));
        if (value.type.element == ElementType::F32)
          for (float &number : arguments.back().as<float>())
            number = normal(random);
        else
          for (int8_t &number : arguments.back().as<int8_t>())
            number = int8_t(random() % 255 - 127);
      }
      std::vector<Buffer> results = *made->run(arguments);
      std::span<const float> y = std::as_const(results[0]).as<float>();
      if (first.empty())
        first.assign(y.begin(), y.end());
      EXPECT_TRUE(std::ranges::equal(first, y)) << type << " " << threads;
    }
  }
}

} // namespace
