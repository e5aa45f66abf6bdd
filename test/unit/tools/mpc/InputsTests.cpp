//===- InputsTests.cpp - tests of binding and generating inputs -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Inputs.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>

using namespace mpc;
using namespace mpc::tool;

namespace {

NamedArray zeros(const std::string &name, const TensorType &type) {
  return {name, *Buffer::allocate(type), "file.npz"};
}

std::vector<ProgramValue> wantedValues() {
  return {{"x", {ElementType::F32, {2, 3}}}, {"ids", {ElementType::I64, {2}}}};
}

} // namespace

TEST(BindArrays, FindsByNameAndPosition) {
  std::vector<Buffer> bound;
  EXPECT_TRUE(bindArrays({zeros("ids", {ElementType::I64, {2}}),
                          zeros("x", {ElementType::F32, {2, 3}})},
                         wantedValues(), "arg", bound)
                  .empty());
  EXPECT_EQ(bound[0].type().toString(), "f32[2,3]");
  EXPECT_TRUE(bindArrays({zeros("arg0", {ElementType::F32, {2, 3}}),
                          zeros("arg1", {ElementType::I64, {2}})},
                         wantedValues(), "arg", bound)
                  .empty());
}

// Parameter copies and optimizer states may be omitted: copies are rounded from
// the given parameter, states have the value in the file or are zero.
TEST(BindArrays, InitializesTheStateOfAStep) {
  auto initial = std::make_shared<std::array<float, 2>>(
      std::array<float, 2>{0.5f, 1.0f / 3});
  ProgramValue weight = {"w", {ElementType::F32, {2}}, "parameter"};
  weight.initial = initial;
  ProgramValue other = weight;
  other.name = "v";
  const std::vector<ProgramValue> values = {
      {"x", {ElementType::F32, {2, 3}}, "input"},
      {"w.copy", {ElementType::F16, {2}}, "parameter_copy"},
      {"v.copy", {ElementType::BF16, {2}}, "parameter_copy"},
      weight,
      {"w.momentum", {ElementType::F32, {2}}, "optimizer_state"},
      {"step", {ElementType::I64, {}}, "optimizer_step"},
      other};
  std::vector<Buffer> bound;
  ASSERT_TRUE(
      bindArrays({zeros("x", {ElementType::F32, {2, 3}})}, values, "arg", bound)
          .empty());
  EXPECT_EQ(bound[1].as<uint16_t>()[0], 0x3800);
  EXPECT_EQ(bound[1].as<uint16_t>()[1], 0x3555);
  EXPECT_EQ(bound[2].as<uint16_t>()[0], 0x3f00);
  EXPECT_EQ(bound[2].as<uint16_t>()[1], 0x3eab);
  EXPECT_EQ(bound[3].as<float>()[1], 1.0f / 3);
  EXPECT_EQ(bound[4].as<float>()[0], 0);
  EXPECT_EQ(bound[5].as<int64_t>()[0], 0);

  // Copies are rounded from the given parameters.
  Result<Buffer> two = Buffer::fromValues<float>({ElementType::F32, {2}},
                                                 std::vector<float>{2, 2});
  ASSERT_TRUE(bindArrays({zeros("x", {ElementType::F32, {2, 3}}),
                          {"w", *two, "file.npz"}},
                         values, "arg", bound)
                  .empty());
  EXPECT_EQ(bound[1].as<uint16_t>()[0], 0x4000);

  // A parameter without a value is required, and so is its copy.
  std::vector<ProgramValue> unknown = values;
  unknown[3].initial = nullptr;
  std::vector<Status> problems = bindArrays(
      {zeros("x", {ElementType::F32, {2, 3}})}, unknown, "arg", bound);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].toString(), "input 'w': has no array; add "
                                    "f32[2] with that name or as 'arg3'");
}

TEST(BindArrays, NamesEveryProblem) {
  std::vector<Buffer> bound;
  std::vector<Status> problems = bindArrays(
      {zeros("x", {ElementType::F32, {3, 2}})}, wantedValues(), "arg", bound);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].toString(),
            "file.npz: array 'x' has shape [3,2], but the model expects [2,3]");
  EXPECT_EQ(
      problems[1].toString(),
      "input 'ids': has no array; add i64[2] with that name or as 'arg1'");
  problems = bindArrays({zeros("x", {ElementType::F64, {2, 3}}),
                         zeros("ids", {ElementType::I32, {2}})},
                        wantedValues(), "arg", bound);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[1].toString(),
            "file.npz: array 'ids' is i32, but the model expects i64");
}

TEST(BindArrays, BrainFloatsComeInThreeForms) {
  std::vector<ProgramValue> values = {{"x", {ElementType::BF16, {2}}}};
  std::vector<Buffer> bound;
  std::array<uint16_t, 2> bits = {0x3f80, 0xc000};
  std::array<float, 2> exact = {1, -2}, inexact = {1, 0.1f};
  auto bind = [&](Buffer buffer) {
    return bindArrays({{"x", std::move(buffer), "f"}}, values, "arg", bound);
  };
  for (ElementType type : {ElementType::BF16, ElementType::UI16}) {
    ASSERT_TRUE(bind(*Buffer::fromValues<uint16_t>({type, {2}}, bits)).empty());
    EXPECT_EQ(std::memcmp(bound[0].data(), bits.data(), 4), 0);
  }
  ASSERT_TRUE(
      bind(*Buffer::fromValues<float>({ElementType::F32, {2}}, exact)).empty());
  EXPECT_EQ(std::memcmp(bound[0].data(), bits.data(), 4), 0);
  EXPECT_EQ(
      bind(*Buffer::fromValues<float>({ElementType::F32, {2}}, inexact)).size(),
      1u);
}

TEST(LoadArrays, RefusesWhatIsNoDataFile) {
  for (const char *argument :
       {"model.onnx", "x=data.txt", "=x.npy", "missing.npz", "x=missing.npy"})
    EXPECT_FALSE(loadArrays({argument}, 0).ok()) << argument;
}

TEST(DrawInputs, RespectsConsumersAndSeed) {
  mlir::MLIRContext context;
  context.loadDialect<MpcDialect, mlir::func::FuncDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"(
func.func @main(%ids: tensor<64xi64>, %x: tensor<64x64xf32>, %table: tensor<7x2xf32>,
                %mask: tensor<64xi64>, %flag: tensor<64xi1>)
    -> (tensor<64x1x2xf32>, tensor<64xf32>) {
  %0 = mpc.reshape %ids : tensor<64xi64> to tensor<64x1xi64>
  %1 = mpc.gather %table, %0 axis(0) : (tensor<7x2xf32>, tensor<64x1xi64>) -> tensor<64x1x2xf32>
  %2 = mpc.cast %mask : tensor<64xi64> to tensor<64xf32>
  return %1, %2 : tensor<64x1x2xf32>, tensor<64xf32>
})",
                                                        &context);
  ASSERT_TRUE(module);
  auto function = module->lookupSymbol<mlir::func::FuncOp>("main");
  std::vector<Buffer> drawn = *drawInputs(function, 1);
  ASSERT_EQ(drawn.size(), 5u);
  int64_t largest = 0;
  for (int64_t id : drawn[0].as<int64_t>()) {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, 7);
    largest = std::max(largest, id);
  }
  EXPECT_EQ(largest, 6);
  double sum = 0, squares = 0;
  for (float value : drawn[1].as<float>()) {
    sum += value;
    squares += double(value) * value;
  }
  EXPECT_LT(std::fabs(sum / 4096), 0.06);
  EXPECT_NEAR(squares / 4096, 1, 0.1);
  for (int64_t value : drawn[3].as<int64_t>())
    EXPECT_TRUE(value == 0 || value == 1);
  for (uint8_t value : drawn[4].as<uint8_t>())
    EXPECT_LE(value, 1);
  std::vector<Buffer> again = *drawInputs(function, 1),
                      other = *drawInputs(function, 2);
  EXPECT_EQ(std::memcmp(drawn[1].data(), again[1].data(), drawn[1].size()), 0);
  EXPECT_NE(std::memcmp(drawn[1].data(), other[1].data(), drawn[1].size()), 0);
}
