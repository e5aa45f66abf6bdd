//===- StrictRoundingTests.cpp - the rounding contract --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random graphs through the real pipeline on every instruction set of this
// machine: the results, and every value that is stored in memory between two
// kernels, equal the interpreter's storage-rounding mode bit for bit.
//
//===----------------------------------------------------------------------===//

#include "ExactCheck.h"
#include "ExactGraph.h"

#include "mpc/Reference/Interpreter.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <bit>

using namespace mlir;
using namespace mpc;
using namespace mpc::smith;
using reference::Tensor;

namespace {

SmallVector<Tensor> declared(func::FuncOp function,
                             ArrayRef<Tensor> arguments) {
  reference::InterpretOptions options;
  options.rounding = reference::Rounding::Declared;
  auto results = reference::interpret(function, arguments, options);
  return succeeded(results) ? std::move(*results) : SmallVector<Tensor>();
}

struct Case {
  std::string policy;
  std::vector<std::pair<std::string, std::string>> sets;
  RoundingMode rounding = RoundingMode::Strict;
};

void checkGraphs(uint64_t first, int count, int ops) {
  static const Case kCases[] = {
      {"float32", {}},
      {"mixed_bfloat16", {}},
      {"mixed_float16", {}},
      {"bfloat16", {}},
      {"float16", {}},
      {"float32", {{"op:add", "bfloat16"}, {"op:div", "float16"}}},
      {"float32", {{"op:mul", "float16"}, {"op:max", "bfloat16"}}},
      {"mixed_bfloat16", {{"op:sqrt", "bfloat16"}, {"op:sub", "float16"}}},
      {"torch_autocast_cpu_bfloat16", {}},
      {"tf_amp_gpu_float16", {}},
      {"keras_mixed_float16", {}},
      {"mixed_bfloat16", {}, RoundingMode::Relaxed},
  };
  for (int i = 0; i < count; ++i) {
    uint64_t seed = first + i;
    Random random(seed);
    ExactGraph graph(random, ops);
    const Case &test = kCases[seed % std::size(kCases)];
    for (const TargetInfo &target : TargetInfo::runnable()) {
      // There are no integers here that a unit multiplies.
      if (target.facts().emulatesUnits && !target.unit(MathType::BFloat16))
        continue;
      CompileOptions options;
      options.policy = test.policy;
      options.sets = test.sets;
      options.rounding = test.rounding;
      options.target = target.name();
      std::string wrong = exactCheck(graph.text(), options, seed);
      EXPECT_EQ(wrong, "") << target.name() << ", policy " << test.policy
                           << (test.sets.empty() ? "" : " with overrides")
                           << ", seed " << seed << "\n"
                           << graph.text();
    }
  }
}

/// --gtest_random_seed gives other graphs.
uint64_t firstSeed(uint64_t number) {
  return number * 1000000 + 1000 * GTEST_FLAG_GET(random_seed);
}

} // namespace

TEST(StrictRounding, SmallGraphsGiveTheInterpretersBits) {
  checkGraphs(firstSeed(1), 48, 6);
}

TEST(StrictRounding, LargeGraphsGiveTheInterpretersBits) {
  checkGraphs(firstSeed(2), 24, 40);
}

// The check would find a rounding that fusion loses: relaxed mode loses one
// here, and only for the reader inside the kernel.
TEST(StrictRounding, RelaxedModeDropsThePairInsideAKernel) {
  const std::string text = R"(
func.func @main(%x: tensor<300xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<300xbf16> {mpc.role = #mpc.role<output>, mpc.name = "stored"},
        tensor<300xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.add %x, %x : (tensor<300xf32>, tensor<300xf32>) -> tensor<300xf32>
  %1 = mpc.cast %0 : tensor<300xf32> to tensor<300xbf16>
  %2 = mpc.cast %1 : tensor<300xbf16> to tensor<300xf32>
  %3 = mpc.mul %2, %x : (tensor<300xf32>, tensor<300xf32>) -> tensor<300xf32>
  return %1, %3 : tensor<300xbf16>, tensor<300xf32>
})";
  auto run = [&](RoundingMode rounding) {
    CompileOptions options;
    options.rounding = rounding;
    auto compiler = *Compiler::create(options);
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(text, &compiler->context());
    func::FuncOp function = Compiler::entry(*module);
    Random random(3);
    SmallVector<Tensor> arguments = {drawExtremes(
        cast<RankedTensorType>(function.getArgumentTypes()[0]), random)};
    EXPECT_TRUE(compiler->runStages(*module, "import", "fuse").ok());
    std::vector<std::vector<uint64_t>> bits;
    for (const Tensor &result : declared(function, arguments)) {
      bits.emplace_back();
      for (int64_t i = 0; i < result.size(); ++i)
        bits.back().push_back(std::bit_cast<uint64_t>(result.floats()[i]));
    }
    return bits;
  };
  auto strict = run(RoundingMode::Strict), relaxed = run(RoundingMode::Relaxed);
  ASSERT_EQ(strict.size(), 2u);
  ASSERT_EQ(relaxed.size(), 2u);
  EXPECT_EQ(strict[0], relaxed[0]);
  int64_t changed = 0;
  for (size_t i = 0; i < 300; ++i)
    changed += strict[1][i] != relaxed[1][i];
  EXPECT_GT(changed, 100);
}
