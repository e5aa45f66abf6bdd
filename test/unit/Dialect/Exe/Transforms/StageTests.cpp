//===- StageTests.cpp - layout, fuse and plan keep a model's meaning ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each case is run by the reference interpreter as written, and again as a
// device program: kernel by kernel on the bytes of the planned buffers, with an
// arena that starts out as NaNs.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Exe/Transforms/Passes.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace mlir;
using namespace mpc;
using reference::Tensor;

namespace {

class StageTest : public ::testing::Test {
protected:
  StageTest() {
    context.loadDialect<MpcDialect, exe::ExeDialect, func::FuncDialect>();
  }

  Tensor randomTensor(RankedTensorType type, double scale = 1.0) {
    Tensor tensor(type);
    std::uniform_real_distribution<double> real(-scale, scale);
    for (double &value : tensor.floats())
      value = real(random);
    for (int64_t &value : tensor.ints())
      value = random() % 5;
    tensor.roundToType();
    return tensor;
  }

  /// Parses a module whose `@main` has inputs and, as arguments named w...,
  /// weights, and replaces the weights by constants.
  void parse(StringRef body) {
    module = parseSourceString<ModuleOp>(body, &context);
    ASSERT_TRUE(module);
    func::FuncOp main = module->lookupSymbol<func::FuncOp>("main");
    ASSERT_TRUE(main);
    llvm::BitVector weights(main.getNumArguments());
    OpBuilder builder = OpBuilder::atBlockBegin(&main.getBody().front());
    for (BlockArgument argument : main.getArguments()) {
      auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                    MpcDialect::kNameAttr);
      if (!name || !name.getValue().starts_with("w"))
        continue;
      weights.set(argument.getArgNumber());
      Tensor value =
          randomTensor(cast<RankedTensorType>(argument.getType()), 0.5);
      argument.replaceAllUsesWith(mpc::ConstantOp::create(
          builder, argument.getLoc(), value.toAttr(name.getValue())));
    }
    ASSERT_TRUE(succeeded(main.eraseArguments(weights)));
    inputs.clear();
    for (Type type : main.getArgumentTypes())
      inputs.push_back(randomTensor(cast<RankedTensorType>(type)));
    FailureOr<SmallVector<Tensor>> results = reference::interpret(main, inputs);
    ASSERT_TRUE(succeeded(results));
    expected = *results;
  }

  void runStages() {
    PassManager pm(&context);
    pm.enableVerifier();
    OpPassManager &function = pm.nest<func::FuncOp>();
    function.addPass(createDecomposePass());
    function.addPass(createMergeContractionsPass());
    function.addPass(createAssignLayoutPass());
    function.addPass(createPackConstantsPass());
    addFusionPasses(function);
    pm.addPass(createPlanPass());
    ASSERT_TRUE(succeeded(pm.run(*module)));
    auto programs = module->getOps<exe::ProgramOp>();
    ASSERT_FALSE(programs.empty());
    program = *programs.begin();
  }

  /// Runs the program on bytes.
  void execute(SmallVectorImpl<Tensor> &results) {
    llvm::StringMap<std::vector<char>> buffers;
    std::vector<char> arena(program.getArenaBytes(), char(0xff));
    for (auto [argument, input] :
         llvm::zip_equal(program.getProgramArguments(), inputs)) {
      std::vector<char> &bytes = buffers[argument.getSymName()];
      bytes.resize(byteCount(input.getType()));
      input.toBytes(bytes.data());
    }
    for (exe::ResultOp result : program.getProgramResults())
      buffers[result.getSymName()].resize(byteCount(result.getTensorType()),
                                          char(0xff));
    for (exe::ConstantOp constant : program.getProgramConstants()) {
      FailureOr<ConstantBytes> bytes = ConstantBytes::get(constant.getValue());
      ASSERT_TRUE(succeeded(bytes));
      buffers[constant.getSymName()].assign(bytes->bytes().begin(),
                                            bytes->bytes().end());
    }
    auto memory = [&](Attribute buffer) -> char * {
      if (auto range = dyn_cast<exe::ArenaAttr>(buffer))
        return arena.data() + range.getOffset();
      return buffers[cast<FlatSymbolRefAttr>(buffer).getValue()].data();
    };
    for (exe::LaunchOp launch : program.getLaunches()) {
      auto kernel = module->lookupSymbol<func::FuncOp>(launch.getKernel());
      ASSERT_TRUE(kernel);
      SmallVector<Tensor> arguments;
      for (auto [buffer, type] :
           llvm::zip_equal(launch.getInputs(), kernel.getArgumentTypes()))
        arguments.push_back(
            Tensor::fromBytes(cast<RankedTensorType>(type), memory(buffer)));
      reference::InterpretOptions options;
      options.rounding = reference::Rounding::Declared;
      FailureOr<SmallVector<Tensor>> values =
          reference::interpret(kernel, arguments, options);
      ASSERT_TRUE(succeeded(values));
      for (auto [buffer, value] : llvm::zip_equal(launch.getOutputs(), *values))
        value.toBytes(memory(buffer));
    }
    for (exe::ResultOp result : program.getProgramResults())
      results.push_back(Tensor::fromBytes(result.getTensorType(),
                                          buffers[result.getSymName()].data()));
  }

  /// Checks that the program returns the results of the interpreter, with
  /// `launches` kernel calls if given.
  void check(StringRef body, int64_t launches = -1, double tolerance = 2e-5) {
    ASSERT_NO_FATAL_FAILURE(parse(body));
    ASSERT_NO_FATAL_FAILURE(runStages());
    SmallVector<Tensor> actual;
    ASSERT_NO_FATAL_FAILURE(execute(actual));
    ASSERT_EQ(actual.size(), expected.size());
    for (auto [value, answer] : llvm::zip_equal(actual, expected)) {
      ASSERT_EQ(value.getType(), answer.getType());
      double largest = 1e-6;
      for (double element : answer.floats())
        largest = std::max(largest, std::abs(element));
      for (auto [a, b] : llvm::zip_equal(value.floats(), answer.floats()))
        ASSERT_NEAR(a, b, tolerance * largest);
      for (auto [a, b] : llvm::zip_equal(value.ints(), answer.ints()))
        ASSERT_EQ(a, b);
    }
    if (launches >= 0)
      EXPECT_EQ(static_cast<int64_t>(program.getLaunches().size()), launches);
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  std::mt19937 random{11};
  OwningOpRef<ModuleOp> module;
  exe::ProgramOp program;
  std::vector<Tensor> inputs;
  SmallVector<Tensor> expected;
};

//===----------------------------------------------------------------------===//
// Whole models
//===----------------------------------------------------------------------===//

TEST_F(StageTest, dense_layers_take_bias_activation_and_residual) {
  check(R"(
    func.func @main(%x: tensor<5x24xf32>, %w0: tensor<24x24xf32> {mpc.name = "w0"},
                    %b0: tensor<24xf32> {mpc.name = "wb"}, %w1: tensor<10x24xf32> {mpc.name = "w1"})
        -> tensor<5x10xf32> {
      %0 = mpc.matmul %x, %w0 : (tensor<5x24xf32>, tensor<24x24xf32>) -> tensor<5x24xf32>
      %1 = mpc.add %0, %b0 : (tensor<5x24xf32>, tensor<24xf32>) -> tensor<5x24xf32>
      %2 = mpc.gelu %1 : tensor<5x24xf32>
      %3 = mpc.add %2, %x : (tensor<5x24xf32>, tensor<5x24xf32>) -> tensor<5x24xf32>
      %4 = mpc.matmul %3, %w1 transpose_rhs : (tensor<5x24xf32>, tensor<10x24xf32>) -> tensor<5x10xf32>
      %5 = mpc.softmax %4 axis(1) : tensor<5x10xf32>
      return %5 : tensor<5x10xf32>
    })",
        /*launches=*/3);
}

TEST_F(StageTest, images_stay_channels_last) {
  check(R"(
    func.func @main(%x: tensor<2x3x9x9xf32>, %w0: tensor<6x3x3x3xf32> {mpc.name = "w0"},
                    %b0: tensor<6x1x1xf32> {mpc.name = "wb"}, %w1: tensor<6x6x3x3xf32> {mpc.name = "w1"},
                    %w2: tensor<96x7xf32> {mpc.name = "w2"}) -> tensor<2x7xf32> {
      %0 = mpc.conv %x, %w0 strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1])
          : (tensor<2x3x9x9xf32>, tensor<6x3x3x3xf32>) -> tensor<2x6x9x9xf32>
      %1 = mpc.add %0, %b0 : (tensor<2x6x9x9xf32>, tensor<6x1x1xf32>) -> tensor<2x6x9x9xf32>
      %2 = mpc.relu %1 : tensor<2x6x9x9xf32>
      %3 = mpc.conv %2, %w1 strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1])
          : (tensor<2x6x9x9xf32>, tensor<6x6x3x3xf32>) -> tensor<2x6x9x9xf32>
      %4 = mpc.add %3, %2 : (tensor<2x6x9x9xf32>, tensor<2x6x9x9xf32>) -> tensor<2x6x9x9xf32>
      %5 = mpc.max_pool %4 window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1])
          : tensor<2x6x9x9xf32> -> tensor<2x6x4x4xf32>
      %6 = mpc.reshape %5 : tensor<2x6x4x4xf32> to tensor<2x96xf32>
      %7 = mpc.matmul %6, %w2 : (tensor<2x96xf32>, tensor<96x7xf32>) -> tensor<2x7xf32>
      return %7 : tensor<2x7xf32>
    })",
        /*launches=*/5);
}

TEST_F(StageTest, squeeze_and_excitation_keeps_the_order) {
  check(R"(
    func.func @main(%x: tensor<2x4x5x5xf32>, %w0: tensor<8x4x1x1xf32> {mpc.name = "w0"},
                    %w1: tensor<8x8x1x1xf32> {mpc.name = "w1"}) -> (tensor<2x8x5x5xf32>, tensor<2x8xf32>) {
      %0 = mpc.conv %x, %w0 strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1])
          : (tensor<2x4x5x5xf32>, tensor<8x4x1x1xf32>) -> tensor<2x8x5x5xf32>
      %1 = mpc.avg_pool %0 window([5, 5]) strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1])
          : tensor<2x8x5x5xf32> -> tensor<2x8x1x1xf32>
      %2 = mpc.conv %1, %w1 strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1])
          : (tensor<2x8x1x1xf32>, tensor<8x8x1x1xf32>) -> tensor<2x8x1x1xf32>
      %3 = mpc.sigmoid %2 : tensor<2x8x1x1xf32>
      %4 = mpc.mul %0, %3 : (tensor<2x8x5x5xf32>, tensor<2x8x1x1xf32>) -> tensor<2x8x5x5xf32>
      %5 = mpc.reduce_mean %4 axes([2, 3]) : tensor<2x8x5x5xf32> -> tensor<2x8xf32>
      return %4, %5 : tensor<2x8x5x5xf32>, tensor<2x8xf32>
    })");
}

TEST_F(StageTest, patches_of_a_vision_transformer) {
  check(R"(
    func.func @main(%x: tensor<2x3x8x8xf32>, %w0: tensor<12x3x4x4xf32> {mpc.name = "w0"},
                    %c: tensor<1x1x12xf32> {mpc.name = "wc"}) -> tensor<2x5x12xf32> {
      %0 = mpc.conv %x, %w0 strides([4, 4]) pad([0, 0], [0, 0]) dilations([1, 1])
          : (tensor<2x3x8x8xf32>, tensor<12x3x4x4xf32>) -> tensor<2x12x2x2xf32>
      %1 = mpc.reshape %0 : tensor<2x12x2x2xf32> to tensor<2x12x4xf32>
      %2 = mpc.transpose %1 [0, 2, 1] : tensor<2x12x4xf32> to tensor<2x4x12xf32>
      %3 = mpc.broadcast %c : tensor<1x1x12xf32> to tensor<2x1x12xf32>
      %4 = mpc.concat %3, %2 axis(1) : (tensor<2x1x12xf32>, tensor<2x4x12xf32>) -> tensor<2x5x12xf32>
      return %4 : tensor<2x5x12xf32>
    })");
}

TEST_F(StageTest, attention_reads_heads_out_of_a_packed_projection) {
  check(R"(
    func.func @main(%x: tensor<2x6x16xf32>, %w0: tensor<16x48xf32> {mpc.name = "w0"}) -> tensor<2x6x16xf32> {
      %0 = mpc.matmul %x, %w0 : (tensor<2x6x16xf32>, tensor<16x48xf32>) -> tensor<2x6x48xf32>
      %q0 = mpc.slice %0 [0, 0, 0] [2, 6, 16] : tensor<2x6x48xf32> to tensor<2x6x16xf32>
      %k0 = mpc.slice %0 [0, 0, 16] [2, 6, 16] : tensor<2x6x48xf32> to tensor<2x6x16xf32>
      %v0 = mpc.slice %0 [0, 0, 32] [2, 6, 16] : tensor<2x6x48xf32> to tensor<2x6x16xf32>
      %q1 = mpc.reshape %q0 : tensor<2x6x16xf32> to tensor<2x6x4x4xf32>
      %k1 = mpc.reshape %k0 : tensor<2x6x16xf32> to tensor<2x6x4x4xf32>
      %v1 = mpc.reshape %v0 : tensor<2x6x16xf32> to tensor<2x6x4x4xf32>
      %q = mpc.transpose %q1 [0, 2, 1, 3] : tensor<2x6x4x4xf32> to tensor<2x4x6x4xf32>
      %k = mpc.transpose %k1 [0, 2, 1, 3] : tensor<2x6x4x4xf32> to tensor<2x4x6x4xf32>
      %v = mpc.transpose %v1 [0, 2, 1, 3] : tensor<2x6x4x4xf32> to tensor<2x4x6x4xf32>
      %a = mpc.attention %q, %k, %v scale(0.5) causal
          : (tensor<2x4x6x4xf32>, tensor<2x4x6x4xf32>, tensor<2x4x6x4xf32>) -> tensor<2x4x6x4xf32>
      %t = mpc.transpose %a [0, 2, 1, 3] : tensor<2x4x6x4xf32> to tensor<2x6x4x4xf32>
      %r = mpc.reshape %t : tensor<2x6x4x4xf32> to tensor<2x6x16xf32>
      %s = mpc.add %r, %x : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
      return %s : tensor<2x6x16xf32>
    })",
        /*launches=*/3);
}

TEST_F(StageTest, query_key_and_value_are_one_product) {
  check(R"(
    func.func @main(%x: tensor<2x6x16xf32>, %w0: tensor<16x16xf32> {mpc.name = "w0"}, %w1: tensor<16x8xf32> {mpc.name = "w1"},
                    %w2: tensor<16x8xf32> {mpc.name = "w2"}, %b0: tensor<16xf32> {mpc.name = "w3"},
                    %b1: tensor<8xf32> {mpc.name = "w4"}, %b2: tensor<8xf32> {mpc.name = "w5"}) -> tensor<2x4x6x4xf32> {
      %q0 = mpc.matmul %x, %w0 : (tensor<2x6x16xf32>, tensor<16x16xf32>) -> tensor<2x6x16xf32>
      %k0 = mpc.matmul %x, %w1 : (tensor<2x6x16xf32>, tensor<16x8xf32>) -> tensor<2x6x8xf32>
      %v0 = mpc.matmul %x, %w2 : (tensor<2x6x16xf32>, tensor<16x8xf32>) -> tensor<2x6x8xf32>
      %q1 = mpc.add %q0, %b0 : (tensor<2x6x16xf32>, tensor<16xf32>) -> tensor<2x6x16xf32>
      %k1 = mpc.add %k0, %b1 : (tensor<2x6x8xf32>, tensor<8xf32>) -> tensor<2x6x8xf32>
      %v1 = mpc.add %v0, %b2 : (tensor<2x6x8xf32>, tensor<8xf32>) -> tensor<2x6x8xf32>
      %q2 = mpc.reshape %q1 : tensor<2x6x16xf32> to tensor<2x6x4x4xf32>
      %k2 = mpc.reshape %k1 : tensor<2x6x8xf32> to tensor<2x6x2x4xf32>
      %v2 = mpc.reshape %v1 : tensor<2x6x8xf32> to tensor<2x6x2x4xf32>
      %q = mpc.transpose %q2 [0, 2, 1, 3] : tensor<2x6x4x4xf32> to tensor<2x4x6x4xf32>
      %k = mpc.transpose %k2 [0, 2, 1, 3] : tensor<2x6x2x4xf32> to tensor<2x2x6x4xf32>
      %v = mpc.transpose %v2 [0, 2, 1, 3] : tensor<2x6x2x4xf32> to tensor<2x2x6x4xf32>
      %a = mpc.attention %q, %k, %v scale(0.5)
          : (tensor<2x4x6x4xf32>, tensor<2x2x6x4xf32>, tensor<2x2x6x4xf32>) -> tensor<2x4x6x4xf32>
      return %a : tensor<2x4x6x4xf32>
    })",
        /*launches=*/2);
}

TEST_F(StageTest, gathers_at_known_places_are_slices) {
  check(R"(
    func.func @main(%x: tensor<5x2x48xf32>) -> (tensor<5x2x48xf32>, tensor<2x48xf32>, tensor<2x2x48xf32>) {
      %i = mpc.constant dense<-1> : tensor<i64>
      %j = mpc.constant dense<[1, 3]> : tensor<2xi64>
      %0 = mpc.tanh %x : tensor<5x2x48xf32>
      %1 = mpc.gather %0, %i axis(0) : (tensor<5x2x48xf32>, tensor<i64>) -> tensor<2x48xf32>
      %2 = mpc.gather %0, %j axis(0) : (tensor<5x2x48xf32>, tensor<2xi64>) -> tensor<2x2x48xf32>
      %3 = mpc.neg %1 : tensor<2x48xf32>
      return %0, %3, %2 : tensor<5x2x48xf32>, tensor<2x48xf32>, tensor<2x2x48xf32>
    })");
}

TEST_F(StageTest,
       cuts_of_the_middle_and_the_last_dimension_move_behind_reshapes) {
  check(R"(
    func.func @main(%x: tensor<5x2x3x24xf32>) -> (tensor<5x2x2x12xf32>, tensor<10x3x12xf32>) {
      %0 = mpc.tanh %x : tensor<5x2x3x24xf32>
      %1 = mpc.slice %0 [0, 0, 1, 0] [5, 2, 1, 24] : tensor<5x2x3x24xf32> to tensor<5x2x1x24xf32>
      %2 = mpc.reshape %1 : tensor<5x2x1x24xf32> to tensor<5x2x2x12xf32>
      %3 = mpc.slice %0 [0, 0, 0, 12] [5, 2, 3, 12] : tensor<5x2x3x24xf32> to tensor<5x2x3x12xf32>
      %4 = mpc.reshape %3 : tensor<5x2x3x12xf32> to tensor<10x3x12xf32>
      return %2, %4 : tensor<5x2x2x12xf32>, tensor<10x3x12xf32>
    })");
}

//===----------------------------------------------------------------------===//
// Composites
//===----------------------------------------------------------------------===//

TEST_F(StageTest, norms_of_images) {
  check(R"(
    func.func @main(%x: tensor<2x6x4x5xf32>, %s: tensor<6xf32> {mpc.name = "w0"}, %b: tensor<6xf32> {mpc.name = "w1"},
                    %m: tensor<6xf32> {mpc.name = "w2"}, %v: tensor<6xf32>)
        -> (tensor<2x6x4x5xf32>, tensor<2x6x4x5xf32>, tensor<2x6x4x5xf32>) {
      %p = mpc.mul %v, %v : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
      %0 = mpc.batch_norm %x, %s, %b, %m, %p epsilon(0.1)
          : (tensor<2x6x4x5xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x4x5xf32>
      %1 = mpc.group_norm %x, %s, %b groups(3) epsilon(1.0e-5)
          : (tensor<2x6x4x5xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x4x5xf32>
      %2 = mpc.instance_norm %x, %s, %b epsilon(1.0e-5)
          : (tensor<2x6x4x5xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x4x5xf32>
      return %0, %1, %2 : tensor<2x6x4x5xf32>, tensor<2x6x4x5xf32>, tensor<2x6x4x5xf32>
    })");
}

TEST_F(StageTest, transposed_convolutions_with_and_without_overlap) {
  check(R"(
    func.func @main(%x: tensor<2x4x5x6xf32>, %w0: tensor<4x3x2x2xf32> {mpc.name = "w0"},
                    %w1: tensor<4x3x3x2xf32> {mpc.name = "w1"})
        -> (tensor<2x3x10x12xf32>, tensor<2x6x9x14xf32>) {
      %0 = mpc.conv_transpose %x, %w0 strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) output_padding([0, 0])
          : (tensor<2x4x5x6xf32>, tensor<4x3x2x2xf32>) -> tensor<2x3x10x12xf32>
      %1 = mpc.conv_transpose %x, %w1 strides([2, 3]) pad([1, 2], [2, 3]) dilations([1, 2]) output_padding([1, 1]) groups(2)
          : (tensor<2x4x5x6xf32>, tensor<4x3x3x2xf32>) -> tensor<2x6x9x14xf32>
      return %0, %1 : tensor<2x3x10x12xf32>, tensor<2x6x9x14xf32>
    })");
}

TEST_F(StageTest, recurrent_ops_are_unrolled) {
  check(R"(
    func.func @main(%x: tensor<4x4x8xf32>, %w: tensor<2x64x8xf32> {mpc.name = "w0"}, %r: tensor<2x64x16xf32> {mpc.name = "w1"},
                    %b: tensor<2x128xf32> {mpc.name = "w2"}, %h: tensor<2x4x16xf32>, %c: tensor<2x4x16xf32>,
                    %p: tensor<2x48xf32> {mpc.name = "w3"})
        -> (tensor<4x2x4x16xf32>, tensor<2x4x16xf32>, tensor<2x4x16xf32>) {
      %0:3 = mpc.lstm %x, %w, %r bias(%b) initial_h(%h) initial_c(%c) peephole(%p) direction(bidirectional)
          : (tensor<4x4x8xf32>, tensor<2x64x8xf32>, tensor<2x64x16xf32>, tensor<2x128xf32>, tensor<2x4x16xf32>, tensor<2x4x16xf32>, tensor<2x48xf32>)
          -> (tensor<4x2x4x16xf32>, tensor<2x4x16xf32>, tensor<2x4x16xf32>)
      return %0#0, %0#1, %0#2 : tensor<4x2x4x16xf32>, tensor<2x4x16xf32>, tensor<2x4x16xf32>
    })");
  check(R"(
    func.func @main(%x: tensor<3x4x8xf32>, %w: tensor<1x48x8xf32> {mpc.name = "w0"}, %r: tensor<1x48x16xf32> {mpc.name = "w1"},
                    %b: tensor<1x96xf32> {mpc.name = "w2"}) -> (tensor<3x1x4x16xf32>, tensor<3x1x4x16xf32>) {
      %0:2 = mpc.gru %x, %w, %r bias(%b) linear_before_reset
          : (tensor<3x4x8xf32>, tensor<1x48x8xf32>, tensor<1x48x16xf32>, tensor<1x96xf32>) -> (tensor<3x1x4x16xf32>, tensor<1x4x16xf32>)
      %1:2 = mpc.gru %x, %w, %r bias(%b) direction(reverse)
          : (tensor<3x4x8xf32>, tensor<1x48x8xf32>, tensor<1x48x16xf32>, tensor<1x96xf32>) -> (tensor<3x1x4x16xf32>, tensor<1x4x16xf32>)
      return %0#0, %1#0 : tensor<3x1x4x16xf32>, tensor<3x1x4x16xf32>
    })");
  check(R"(
    func.func @main(%x: tensor<3x2x8xf32>, %w: tensor<1x5x8xf32> {mpc.name = "w0"}, %r: tensor<1x5x5xf32> {mpc.name = "w1"})
        -> (tensor<3x1x2x5xf32>, tensor<1x2x5xf32>) {
      %0:2 = mpc.rnn %x, %w, %r : (tensor<3x2x8xf32>, tensor<1x5x8xf32>, tensor<1x5x5xf32>) -> (tensor<3x1x2x5xf32>, tensor<1x2x5xf32>)
      return %0#0, %0#1 : tensor<3x1x2x5xf32>, tensor<1x2x5xf32>
    })");
}

TEST_F(StageTest, grouped_and_depthwise_convolutions) {
  check(R"(
    func.func @main(%x: tensor<1x8x6x6xf32>, %w0: tensor<8x1x3x3xf32> {mpc.name = "w0"},
                    %w1: tensor<64x4x1x1xf32> {mpc.name = "w1"}) -> tensor<1x64x3x3xf32> {
      %0 = mpc.conv %x, %w0 strides([2, 2]) pad([1, 1], [1, 1]) dilations([1, 1]) groups(8)
          : (tensor<1x8x6x6xf32>, tensor<8x1x3x3xf32>) -> tensor<1x8x3x3xf32>
      %1 = mpc.conv %0, %w1 strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) groups(2)
          : (tensor<1x8x3x3xf32>, tensor<64x4x1x1xf32>) -> tensor<1x64x3x3xf32>
      return %1 : tensor<1x64x3x3xf32>
    })");
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

TEST_F(StageTest, arguments_constants_and_views_are_copied_to_results) {
  check(R"(
    func.func @main(%x: tensor<2x8xf32>, %w: tensor<3x3xf32> {mpc.name = "w"})
        -> (tensor<2x8xf32>, tensor<4x4xf32>, tensor<3x3xf32>, tensor<2x8xf32>, tensor<16xf32>) {
      %0 = mpc.relu %x : tensor<2x8xf32>
      %1 = mpc.reshape %x : tensor<2x8xf32> to tensor<4x4xf32>
      %2 = mpc.reshape %0 : tensor<2x8xf32> to tensor<16xf32>
      return %x, %1, %w, %0, %2 : tensor<2x8xf32>, tensor<4x4xf32>, tensor<3x3xf32>, tensor<2x8xf32>, tensor<16xf32>
    })",
        /*launches=*/5);
}

TEST_F(StageTest, pieces_of_a_buffer_need_no_kernel) {
  check(R"(
    func.func @main(%x: tensor<4x16xf32>, %y: tensor<2x16xf32>) -> (tensor<2x16xf32>, tensor<6x16xf32>) {
      %0 = mpc.exp %x : tensor<4x16xf32>
      %1 = mpc.neg %y : tensor<2x16xf32>
      %2 = mpc.concat %0, %1 axis(0) : (tensor<4x16xf32>, tensor<2x16xf32>) -> tensor<6x16xf32>
      %3 = mpc.slice %2 [3, 0] [2, 16] : tensor<6x16xf32> to tensor<2x16xf32>
      %4 = mpc.abs %3 : tensor<2x16xf32>
      return %4, %2 : tensor<2x16xf32>, tensor<6x16xf32>
    })",
        /*launches=*/4);
}

TEST_F(StageTest, a_diamond_of_kernels_has_no_cycle) {
  check(R"(
    func.func @main(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
      %0 = mpc.exp %x : tensor<4x16xf32>
      %1 = mpc.reduce_sum %0 axes([1]) keep_dims : tensor<4x16xf32> -> tensor<4x1xf32>
      %2 = mpc.div %0, %1 : (tensor<4x16xf32>, tensor<4x1xf32>) -> tensor<4x16xf32>
      %3 = mpc.reduce_max %2 axes([0]) keep_dims : tensor<4x16xf32> -> tensor<1x16xf32>
      %4 = mpc.sub %2, %3 : (tensor<4x16xf32>, tensor<1x16xf32>) -> tensor<4x16xf32>
      %5 = mpc.mul %4, %0 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
      return %5 : tensor<4x16xf32>
    })");
}

TEST_F(StageTest, sixteen_bit_weights_are_interleaved) {
  check(R"(
    func.func @main(%x: tensor<3x20xf32>, %w0: tensor<20x40xbf16> {mpc.name = "w0"},
                    %w1: tensor<40x40xbf16> {mpc.name = "w1"}) -> tensor<3x40xf32> {
      %0 = mpc.cast %x : tensor<3x20xf32> to tensor<3x20xbf16>
      %1 = mpc.matmul %0, %w0 : (tensor<3x20xbf16>, tensor<20x40xbf16>) -> tensor<3x40xf32>
      %2 = mpc.relu %1 : tensor<3x40xf32>
      %3 = mpc.cast %2 : tensor<3x40xf32> to tensor<3x40xbf16>
      %4 = mpc.matmul %3, %w1 : (tensor<3x40xbf16>, tensor<40x40xbf16>) -> tensor<3x40xf32>
      %5 = mpc.cast %3 : tensor<3x40xbf16> to tensor<3x40xf32>
      %6 = mpc.add %4, %5 : (tensor<3x40xf32>, tensor<3x40xf32>) -> tensor<3x40xf32>
      return %6 : tensor<3x40xf32>
    })",
        /*launches=*/3, /*tolerance=*/2e-2);
}

} // namespace
