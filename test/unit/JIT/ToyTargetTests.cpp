//===- ToyTargetTests.cpp - an out-of-tree target -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The target of docs/HowTo/AddingATarget.md: loops over scalars, added as a
// vendor would add a target, with a kernel family and a back end and without a
// change in lib/.
//
//===----------------------------------------------------------------------===//

#include "../TemporaryModel.h"
#include "JIT/Compiler.h"
#include "JIT/CpuBackend.h"

#include "mpc/Reference/Compare.h"
#include "mpc/Reference/Interpreter.h"
#include "mpc/Runtime/Executable.h"
#include "mpc/Target/TargetFamily.h"

#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// The target
//===----------------------------------------------------------------------===//

namespace {

std::vector<MachineDescription> describeToy() {
  MachineDescription scalar;
  scalar.name = "toy:scalar";
  scalar.isGenerated = true;
  // Nothing is known of its rates; kernels are as plain as can be.
  scalar.lanes = 1;
  scalar.registers = 16;
  return {scalar};
}

std::unique_ptr<Backend> createToy(const TargetInfo &target,
                                   BackendOptions options) {
  return std::make_unique<CpuBackend>(
      target, std::move(options), *cpu::CpuTarget::of(*TargetInfo::native()));
}

class ToyTarget : public TemporaryFolder {
protected:
  static void SetUpTestSuite() {
    addTargetFamily({"toy", describeToy,
                     [](StringRef member) { return "toy:" + member.str(); },
                     [](const MachineDescription &) { return true; }});
    Backend::add("toy", createToy);
  }

  /// Compiles `text` for the toy target, runs it on random inputs and returns
  /// the largest error as a fraction of its tolerance.
  double worst(const std::string &text, const std::string &policy) {
    CompileOptions options;
    options.target = "toy:scalar";
    options.policy = policy;
    Result<std::unique_ptr<Compiler>> compiler = Compiler::create(options);
    EXPECT_TRUE(compiler.ok()) << compiler.status().toString();
    Result<Compiler::Module> module = (*compiler)->import(writeModel(text));
    EXPECT_TRUE(module.ok()) << module.status().toString();
    EXPECT_TRUE((*compiler)->runStages(**module, "import", "precision").ok());
    Compiler::Module typed = (*module)->clone();
    EXPECT_TRUE((*compiler)->runStages(**module, "precision", "plan").ok());
    Result<std::shared_ptr<Program>> program =
        (*compiler)->generate(**module, /*withCode=*/true);
    EXPECT_TRUE(program.ok()) << program.status().toString();
    EXPECT_EQ((*program)->target, "toy:scalar");
    Result<Executable> executable =
        Executable::create(*Device::cpu({}), *program);
    EXPECT_TRUE(executable.ok()) << executable.status().toString();

    func::FuncOp entry = Compiler::entry(*typed);
    std::vector<Buffer> buffers;
    std::vector<reference::Tensor> inputs;
    std::mt19937 engine(7);
    std::normal_distribution<float> normal;
    for (const ProgramValue &value : (*program)->arguments) {
      Buffer buffer = *Buffer::allocate(value.type);
      for (float &element : buffer.as<float>())
        element = normal(engine);
      inputs.push_back(reference::Tensor::fromBytes(
          cast<RankedTensorType>(entry.getArgument(inputs.size()).getType()),
          buffer.data()));
      buffers.push_back(buffer);
    }
    Result<std::vector<Buffer>> results = executable->run(buffers);
    EXPECT_TRUE(results.ok()) << results.status().toString();
    reference::InterpretOptions rounding;
    auto exact = reference::interpret(entry, inputs, rounding);
    rounding.rounding = reference::Rounding::Declared;
    auto declared = reference::interpret(entry, inputs, rounding);
    double worst = 0;
    for (size_t i = 0; i < results->size(); ++i) {
      reference::Tensor actual = reference::Tensor::fromBytes(
          cast<RankedTensorType>(entry.getResultTypes()[i]),
          (*results)[i].data());
      reference::OutputError error = reference::compareOutput(
          actual, (*exact)[i], (*declared)[i],
          reference::longestReduction(entry), /*fatalIntegers=*/true);
      worst = std::max(worst, error.rmsRelativeError / error.tolerance);
    }
    return worst;
  }
};

} // namespace

TEST_F(ToyTarget, IsATargetLikeAnyOther) {
  std::optional<TargetInfo> toy = TargetInfo::parse("toy:scalar");
  ASSERT_TRUE(toy);
  EXPECT_FALSE(toy->isGpu());
  EXPECT_FALSE(toy->hasCeilings());
  EXPECT_TRUE(toy->runsHere());
  EXPECT_TRUE(llvm::is_contained(TargetInfo::names(), "toy:scalar"));
  // It is nobody's choice where nothing is asked for.
  EXPECT_EQ(TargetInfo::native()->family(), "cpu");
  EXPECT_FALSE(TargetInfo::parse("toy:vector"));
  EXPECT_EQ(TargetInfo::describeUnknown("toy:vector"),
            "is not one of toy:scalar");
}

TEST_F(ToyTarget, RunsAClassifierWithinTolerance) {
  const char *text = R"(
func.func @main(%x: tensor<5x12xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %w: tensor<12x7xf32> {mpc.role = #mpc.role<input>, mpc.name = "w"},
                %b: tensor<7xf32> {mpc.role = #mpc.role<input>, mpc.name = "b"})
    -> (tensor<5x7xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"},
        tensor<5xf32> {mpc.role = #mpc.role<output>, mpc.name = "sum"}) {
  %0 = mpc.matmul %x, %w : (tensor<5x12xf32>, tensor<12x7xf32>) -> tensor<5x7xf32>
  %1 = mpc.add %0, %b : (tensor<5x7xf32>, tensor<7xf32>) -> tensor<5x7xf32>
  %2 = mpc.gelu %1 : tensor<5x7xf32>
  %3 = mpc.softmax %2 axis(1) : tensor<5x7xf32>
  %4 = mpc.reduce_sum %2 axes([1]) : tensor<5x7xf32> -> tensor<5xf32>
  return %3, %4 : tensor<5x7xf32>, tensor<5xf32>
})";
  for (const char *policy : {"float32", "mixed_bfloat16", "mixed_float16"})
    EXPECT_LE(worst(text, policy), 1) << policy;
}
