//===- StoredModelTests.cpp - tests of compiled models in the tool --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompiledModel.h"

#include "llvm/ADT/APFloat.h"

#include <gtest/gtest.h>

using namespace mpc;
using namespace mpc::tool;

static Buffer draw(ElementType element, int64_t bound = 0) {
  std::vector<ProgramValue> values = {{"x", {element, {20000}}, "", bound}};
  return std::move(drawValues(values, 1)->front());
}

/// The bits of `value` in `semantics`, rounded once.
static uint64_t rounded(double value, const llvm::fltSemantics &semantics) {
  llvm::APFloat exact(value);
  bool losesInfo;
  exact.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return exact.bitcastToAPInt().getZExtValue();
}

TEST(StoredModelTest, SamplesTheSameNumbersInEveryFloatType) {
  Buffer wide = draw(ElementType::F64), single = draw(ElementType::F32),
         half = draw(ElementType::F16), brain = draw(ElementType::BF16);
  for (size_t i = 0; i < 20000; ++i) {
    double value = wide.as<double>()[i];
    EXPECT_EQ(single.as<float>()[i], static_cast<float>(value));
    EXPECT_EQ(half.as<uint16_t>()[i],
              rounded(value, llvm::APFloat::IEEEhalf()));
    EXPECT_EQ(brain.as<uint16_t>()[i], rounded(value, llvm::APFloat::BFloat()));
  }
}

TEST(StoredModelTest, SamplesIntegersBelowTheirBound) {
  for (ElementType element :
       {ElementType::I8, ElementType::UI8, ElementType::I1}) {
    Buffer drawn = draw(element, 7);
    uint8_t most = element == ElementType::I1 ? 1 : 6, largest = 0;
    for (uint8_t value : drawn.as<uint8_t>())
      largest = std::max(largest, value);
    EXPECT_EQ(largest, most);
  }
  int64_t largest = 0;
  Buffer unbounded = draw(ElementType::I64);
  for (int64_t value : unbounded.as<int64_t>())
    largest = std::max(largest, value);
  EXPECT_EQ(largest, 1);
}

// Random second moments would be negative half the time.
TEST(StoredModelTest, StatesAreAsAtTheStart) {
  std::vector<ProgramValue> values = {
      {"x", {ElementType::F32, {64}}, "input"},
      {"w", {ElementType::F32, {64}}, "parameter"},
      {"w.exp_avg_sq", {ElementType::F32, {64}}, "optimizer_state"},
      {"w.copy", {ElementType::F16, {64}}, "parameter_copy"}};
  std::vector<Buffer> drawn = *drawValues(values, 1);
  EXPECT_NE(drawn[0].as<float>()[0], drawn[1].as<float>()[0]);
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(drawn[2].as<float>()[i], 0);
    EXPECT_EQ(drawn[3].as<uint16_t>()[i],
              rounded(drawn[1].as<float>()[i], llvm::APFloat::IEEEhalf()));
  }
}

TEST(StoredModelTest, RefusesFlagsOfACompile) {
  CommonOptions options;
  options.model = "none.mpcx";
  EXPECT_EQ(openStoredModel(options, {}).status().code(), StatusCode::NotFound);
  auto refused = [&](auto change) {
    CommonOptions changed = options;
    change(changed);
    return openStoredModel(changed, {}).status().text().find("has no effect") !=
           std::string::npos;
  };
  EXPECT_TRUE(refused([](CommonOptions &o) { o.policy = "tf32"; }));
  EXPECT_TRUE(refused([](CommonOptions &o) { o.sets = {"op:add=float32"}; }));
  EXPECT_TRUE(refused([](CommonOptions &o) { o.batch = 2; }));
  EXPECT_TRUE(refused([](CommonOptions &o) { o.target = "cpu:avx2"; }));
  EXPECT_TRUE(refused([](CommonOptions &o) { o.rounding = "relaxed"; }));
  EXPECT_TRUE(refused([](CommonOptions &o) { o.castPlacement = "propagate"; }));
  EXPECT_TRUE(refused([](CommonOptions &o) { o.dumpDir = "d"; }));
}
