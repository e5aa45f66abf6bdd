//===- CudaLibraryTests.cpp - training steps with library GEMMs -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Training steps for a GPU whose GEMMs call cuBLASLt, checked against the
// oracle. The device cuda-host has a reference routine for these GEMMs.
//
//===----------------------------------------------------------------------===//

#include "../TemporaryModel.h"
#include "StepJudge.h"

#include "JIT/Compiler.h"
#include "mpc/Dialect/Exe/IR/ExeOps.h"
#include "mpc/JIT/Engine.h"
#include "mpc/Target/CUDA/Host/HostDevice.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

using namespace mpc;

namespace {

/// Two layers with an activation between them. Weights are random.
std::string twoLayers(const std::string &activation) {
  return R"(
func.func @main(%x: tensor<32x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<32x64xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w1 = mpc.constant dense<0.05> : tensor<64x128xf32> loc("w1")
  %b1 = mpc.constant dense<0.1> : tensor<128xf32> loc("b1")
  %w2 = mpc.constant dense<0.06> : tensor<128x64xf32> loc("w2")
  %b2 = mpc.constant dense<0.2> : tensor<64xf32> loc("b2")
  %0 = mpc.matmul %x, %w1 : (tensor<32x64xf32>, tensor<64x128xf32>) -> tensor<32x128xf32> loc("fc1")
  %1 = mpc.add %0, %b1 : (tensor<32x128xf32>, tensor<128xf32>) -> tensor<32x128xf32> loc("bias1")
  %2 = )" +
         activation +
         R"( : tensor<32x128xf32> loc("act")
  %3 = mpc.matmul %2, %w2 : (tensor<32x128xf32>, tensor<128x64xf32>) -> tensor<32x64xf32> loc("fc2")
  %4 = mpc.add %3, %b2 : (tensor<32x64xf32>, tensor<64xf32>) -> tensor<32x64xf32> loc("bias2")
  return %4 : tensor<32x64xf32>
}
)";
}

CompileOptions libraryOptions(const std::string &policy) {
  CompileOptions options;
  options.policy = policy;
  options.gemm = "library";
  TrainingOptions &training = options.training.emplace();
  training.loss.kind = "mean_squared_error";
  training.optimizer.kind = "sgd";
  training.optimizer.numbers["momentum"] = 0.5;
  training.schedule.base = 0.01;
  training.initialSeed = 7;
  return options;
}

class CudaLibrary : public TemporaryFolder {};

/// GEMMs of `program` for which `holds` is true.
template <typename Predicate>
int64_t countProducts(const Program &program, Predicate holds) {
  return std::count_if(
      program.launches.begin(), program.launches.end(),
      [&](const Launch &launch) { return launch.gemm && holds(*launch.gemm); });
}

} // namespace

// The forward GEMM saves a mask or GELU's input, the backward GEMM reads it,
// and bias gradients are fused into weight gradients.
TEST_F(CudaLibrary, TrainsThroughActivations) {
  for (const char *policy : {"float32", "tf32"})
    for (auto [text, forward, backward] :
         {std::tuple("mpc.relu %1", GemmProblem::Activation::Relu,
                     GemmProblem::Activation::ReluGradient),
          {"mpc.gelu %1 form(tanh)", GemmProblem::Activation::GeluTanh,
           GemmProblem::Activation::GeluTanhGradient}}) {
      SCOPED_TRACE(std::string(policy) + ", " + text);
      StepJudge judge(writeModel(twoLayers(text)), libraryOptions(policy));
      ASSERT_TRUE(judge.usable());
      const Program &program = judge.program();
      EXPECT_EQ(countProducts(program,
                              [&](const GemmProblem &problem) {
                                return problem.activation == forward &&
                                       problem.auxiliary && problem.bias;
                              }),
                1);
      EXPECT_EQ(countProducts(program,
                              [&](const GemmProblem &problem) {
                                return problem.activation == backward;
                              }),
                1);
      EXPECT_EQ(countProducts(program,
                              [](const GemmProblem &problem) {
                                return problem.biasGradient !=
                                       GemmProblem::BiasGradient::None;
                              }),
                2);
      judge.judge(3);
    }
}

// Roundings are the model's also where the library's results have 16 bits.
TEST_F(CudaLibrary, TrainsInSixteenBits) {
  for (const char *policy : {"bfloat16", "torch_autocast_cuda_bfloat16"}) {
    SCOPED_TRACE(policy);
    StepJudge judge(writeModel(twoLayers("mpc.gelu %1 form(tanh)")),
                    libraryOptions(policy));
    ASSERT_TRUE(judge.usable());
    EXPECT_GE(countProducts(judge.program(),
                            [](const GemmProblem &problem) {
                              return problem.operandA == ElementType::BF16 &&
                                     problem.result == ElementType::BF16;
                            }),
              1);
    judge.judge(2);
  }
}

// Biases and their gradients are read and written in the 16-bit type of their
// GEMMs; the library writes the mask between the layers.
TEST_F(CudaLibrary, AddsBiasesInSixteenBits) {
  std::string model = writeModel(R"(
func.func @main(%x: tensor<32x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<32x64xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w1 = mpc.constant dense<0.05> : tensor<64x128xf32> loc("w1")
  %b1 = mpc.constant dense<0.1> : tensor<128xf32> loc("b1")
  %w2 = mpc.constant dense<0.06> : tensor<128x96xf32> loc("w2")
  %b2 = mpc.constant dense<0.2> : tensor<96xf32> loc("b2")
  %w3 = mpc.constant dense<0.07> : tensor<96x64xf32> loc("w3")
  %b3 = mpc.constant dense<0.3> : tensor<64xf32> loc("b3")
  %0 = mpc.matmul %x, %w1 : (tensor<32x64xf32>, tensor<64x128xf32>) -> tensor<32x128xf32> loc("fc1")
  %1 = mpc.add %0, %b1 : (tensor<32x128xf32>, tensor<128xf32>) -> tensor<32x128xf32> loc("bias1")
  %2 = mpc.relu %1 : tensor<32x128xf32> loc("act1")
  %3 = mpc.matmul %2, %w2 : (tensor<32x128xf32>, tensor<128x96xf32>) -> tensor<32x96xf32> loc("fc2")
  %4 = mpc.add %3, %b2 : (tensor<32x96xf32>, tensor<96xf32>) -> tensor<32x96xf32> loc("bias2")
  %5 = mpc.relu %4 : tensor<32x96xf32> loc("act2")
  %6 = mpc.matmul %5, %w3 : (tensor<32x96xf32>, tensor<96x64xf32>) -> tensor<32x64xf32> loc("fc3")
  %7 = mpc.add %6, %b3 : (tensor<32x64xf32>, tensor<64xf32>) -> tensor<32x64xf32> loc("bias3")
  return %7 : tensor<32x64xf32>
}
)");
  for (auto [policy, type] : {std::pair("mixed_bfloat16", ElementType::BF16),
                              {"mixed_float16", ElementType::F16}}) {
    SCOPED_TRACE(policy);
    StepJudge judge(model, libraryOptions(policy));
    ASSERT_TRUE(judge.usable());
    const Program &program = judge.program();
    auto count = [&, type = type](auto holds) {
      return countProducts(program, [&](const GemmProblem &problem) {
        return problem.result == type && holds(problem);
      });
    };
    EXPECT_EQ(count([](const GemmProblem &problem) {
                return problem.activation == GemmProblem::Activation::Relu &&
                       problem.auxiliary && problem.bias;
              }),
              1);
    EXPECT_EQ(count([](const GemmProblem &problem) {
                return problem.activation ==
                       GemmProblem::Activation::ReluGradient;
              }),
              1);
    EXPECT_EQ(count([](const GemmProblem &problem) {
                return problem.biasGradient != GemmProblem::BiasGradient::None;
              }),
              2);
    judge.judge(3);
  }
}

// An input that two large GEMMs read is downcast once, by a separate kernel,
// and the library computes both GEMMs.
TEST_F(CudaLibrary, NarrowsTheInputOfLargeProducts) {
  CompileOptions options = libraryOptions("mixed_bfloat16");
  // The loss is a row kernel, so that the forward matmul has no epilogue.
  options.training->loss.kind = "softmax_cross_entropy";
  StepJudge judge(writeModel(R"(
func.func @main(%x: tensor<16x2048xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<16x1600xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w = mpc.constant dense<0.05> : tensor<2048x1600xf32> loc("w")
  %b = mpc.constant dense<0.1> : tensor<1600xf32> loc("b")
  %0 = mpc.matmul %x, %w : (tensor<16x2048xf32>, tensor<2048x1600xf32>) -> tensor<16x1600xf32> loc("fc")
  %1 = mpc.add %0, %b : (tensor<16x1600xf32>, tensor<1600xf32>) -> tensor<16x1600xf32> loc("bias")
  return %1 : tensor<16x1600xf32>
}
)"),
                  options);
  ASSERT_TRUE(judge.usable());
  const Program &program = judge.program();
  EXPECT_EQ(countProducts(program, [](const GemmProblem &) { return true; }),
            2);
  EXPECT_EQ(std::count_if(program.launches.begin(), program.launches.end(),
                          [](const Launch &launch) {
                            return launch.kind == "contraction";
                          }),
            0);
  judge.judge(1);
}

// bf16x3 splits of each operand: the library's emulation from sm_100 on, f32
// elsewhere. Both have the precision of f32, unlike tf32.
TEST_F(CudaLibrary, EmulatesFloat32) {
  constexpr int64_t kRows = 32, kDepth = 256, kColumns = 16;
  std::string model = writeModel(R"(
func.func @main(%x: tensor<32x256xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %w: tensor<256x16xf32> {mpc.role = #mpc.role<input>, mpc.name = "w"})
    -> (tensor<32x16xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.matmul %x, %w : (tensor<32x256xf32>, tensor<256x16xf32>) -> tensor<32x16xf32> loc("fc")
  return %0 : tensor<32x16xf32>
}
)");
  std::vector<Buffer> inputs = {
      *Buffer::allocate({ElementType::F32, {kRows, kDepth}}),
      *Buffer::allocate({ElementType::F32, {kDepth, kColumns}})};
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (Buffer &buffer : inputs)
    for (float &element : buffer.as<float>())
      element = normal(random);
  auto x = inputs[0].as<float>(), w = inputs[1].as<float>();
  // Root mean square error of every variant, and the GEMM of the launches.
  auto errorOf = [&](const char *architecture, const char *gemm,
                     const char *type, std::optional<GemmProblem> &problem) {
    HostDeviceOptions host;
    host.architecture = architecture;
    CompileOptions options;
    options.gemm = gemm;
    options.sets = {{"op:matmul", type}};
    Result<Executable> compiled =
        Engine::create(cudaHostDevice(host))->compile(model, options);
    EXPECT_TRUE(compiled.ok()) << compiled.status().toString();
    if (!compiled.ok())
      return INFINITY;
    problem = compiled->program().launches.front().gemm;
    Result<std::vector<Buffer>> results = compiled->run(inputs);
    EXPECT_TRUE(results.ok()) << results.status().toString();
    double squares = 0;
    for (size_t i = 0; results.ok() && i < kRows * kColumns; ++i) {
      double sum = 0;
      for (size_t k = 0; k < kDepth; ++k)
        sum += double(x[i / kColumns * kDepth + k]) *
               w[k * kColumns + i % kColumns];
      squares += std::pow(results->front().as<float>()[i] - sum, 2);
    }
    return float(std::sqrt(squares / (kRows * kColumns)));
  };
  // Magnitude of the sums is the root of their length.
  float magnitude = std::sqrt(float(kDepth));
  float bound = 4 * std::sqrt(float(kDepth)) * 0x1p-24f * magnitude;
  std::optional<GemmProblem> problem;
  EXPECT_LE(errorOf("sm_100", "library", "bf16x3", problem), bound);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->compute, GemmProblem::Compute::Bf16x9);
  EXPECT_LE(errorOf("sm_90", "library", "bf16x3", problem), bound);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->compute, GemmProblem::Compute::Native);
  EXPECT_LE(errorOf("sm_100", "own", "bf16x3", problem), bound);
  EXPECT_FALSE(problem);
  EXPECT_GT(errorOf("sm_100", "library", "tf32", problem), bound);
}

// A program that is written down: 8 bits with scales, which the graph does not
// have, from the text to the numbers.
TEST_F(CudaLibrary, RunsProgramsOfEightBits) {
  mlir::MLIRContext context;
  context.loadDialect<MpcDialect, exe::ExeDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"(
exe.program @main target("cuda:sm_90") arena(0) {
  exe.argument @x : tensor<16x32xf8E4M3FN> input(0) name("x")
  exe.argument @w : tensor<16x32xf8E5M2> input(1) name("w")
  exe.argument @sx : tensor<f32> input(2) name("sx")
  exe.argument @sw : tensor<f32> input(3) name("sw")
  exe.argument @sy : tensor<f32> input(4) name("sy")
  exe.result @y : tensor<16x16xf8E4M3FN> output(0) name("y")
  exe.result @most : tensor<f32> output(1) name("most")
  exe.gemm "fc" <m = 16, n = 16, k = 32, operand_type = f8E4M3FN, operand_b_type = f8E5M2, result_type = f8E4M3FN,
                 transpose_b = true, scales = true, result_scale = true, amax = true>
    ops(["fc"]) flops(16384) bytes(1296)
    (read @x, read @w, read @sx, read @sw, read @sy, write @y, write @most)
})",
                                                        &context);
  ASSERT_TRUE(module);
  auto program = translateProgram(*module);
  ASSERT_TRUE(succeeded(program));
  (*program)->cuda = std::make_shared<CudaCode>();
  EXPECT_EQ((*program)->arguments[0].type.toString(), "f8E4M3FN[16,32]");
  EXPECT_EQ((*program)->arguments[1].type.toString(), "f8E5M2[16,32]");
  EXPECT_EQ((*program)->launches[0].gemm->toString(),
            "f8E4M3FN by f8E5M2 16x16x32, transposed b, scales, result scale, "
            "amax, f8E4M3FN");
  HostDeviceOptions host;
  host.architecture = "sm_90";
  Result<Executable> executable =
      Executable::create(cudaHostDevice(host), *program);
  ASSERT_TRUE(executable.ok()) << executable.status().toString();
  std::vector<Buffer> inputs;
  for (const ProgramValue &value : (*program)->arguments)
    inputs.push_back(*Buffer::allocate(value.type));
  // 1.5 is 0x3c and 0x3e: 32 products of 2.25 give 72, scaled 4.5 and then 9.
  std::ranges::fill(inputs[0].as<uint8_t>(), uint8_t(0x3c));
  std::ranges::fill(inputs[1].as<uint8_t>(), uint8_t(0x3e));
  inputs[2].as<float>()[0] = 0.5f;
  inputs[3].as<float>()[0] = 0.125f;
  inputs[4].as<float>()[0] = 2;
  Result<std::vector<Buffer>> results = executable->run(inputs);
  ASSERT_TRUE(results.ok()) << results.status().toString();
  for (uint8_t bits : results->front().as<uint8_t>())
    ASSERT_EQ(bits, 0x51); // 2^3 * (1 + 1/8)
  EXPECT_EQ(results->back().as<float>()[0], 4.5f);
}
