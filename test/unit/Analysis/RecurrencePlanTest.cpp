//===- RecurrencePlanTest.cpp - blocks of a persistent recurrent kernel ---===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/PersistentRnnPlan.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {

class RecurrencePlanTest : public ::testing::Test {
protected:
  RecurrencePlanTest() { context.loadDialect<MpcDialect>(); }

  Type bf16() { return BFloat16Type::get(&context); }
  Type f32() { return Float32Type::get(&context); }
  RecurrenceShape shape(RecurrentCell cell, int64_t batch, int64_t hidden,
                        Type narrow, int64_t directions = 1,
                        int64_t steps = 20) {
    return {cell, steps, batch, hidden, directions, narrow, f32()};
  }
  static TargetInfo target(const char *name) {
    return *TargetInfo::parse(name);
  }

  MLIRContext context;
};

/// Invariants of every plan.
void expectSound(const PersistentRnnPlan &plan, const TargetInfo &target) {
  const RecurrenceShape &shape = plan.shape;
  EXPECT_GE(plan.rowSlices() * plan.rows, shape.batch);
  EXPECT_LT((plan.rowSlices() - 1) * plan.rows, shape.batch);
  EXPECT_GE(plan.unitSlices() * plan.units, shape.hidden);
  EXPECT_LT((plan.unitSlices() - 1) * plan.units, shape.hidden);
  EXPECT_LE(plan.sharedBytes(), target.facts().sharedBytesPerBlock);
  for (const RecurrenceShape::Product &product : shape.products()) {
    EXPECT_GE(plan.depthOf(product), product.depth * shape.hidden);
    EXPECT_EQ(plan.depthOf(product) % plan.splits, 0);
  }
  EXPECT_LE(plan.threads, 1024);
  EXPECT_EQ(plan.threads % 32, 0);
  EXPECT_EQ(plan.meets(), plan.scratchBytes() > 0);
  if (plan.meets()) {
    EXPECT_LE(plan.blocks(), target.facts().minMultiprocessors);
  }
  if (plan.usesMatrixUnits) {
    int64_t warps = plan.threads / 32;
    EXPECT_EQ(warps % plan.splits, 0);
    for (const RecurrenceShape::Product &product : shape.products()) {
      EXPECT_EQ(plan.columnsOf(product) / 16 % (warps / plan.splits), 0);
      EXPECT_EQ(plan.depthOf(product) / plan.splits % 16, 0);
    }
  } else {
    for (const RecurrenceShape::Product &product : shape.products())
      EXPECT_EQ(plan.depthOf(product) / plan.splits % 4, 0);
  }
}

TEST_F(RecurrencePlanTest, PlansAreSound) {
  for (const char *name : {"cuda:sm_75", "cuda:sm_80", "cuda:sm_90a"})
    for (RecurrentCell cell : {RecurrentCell::lstm, RecurrentCell::gru,
                               RecurrentCell::linear_gru, RecurrentCell::rnn})
      for (Type narrow : {bf16(), f32(), Type(Float16Type::get(&context))})
        for (int64_t batch : {1, 3, 8, 20, 65})
          for (int64_t hidden : {1, 13, 33, 100, 128, 256, 650})
            for (int64_t directions : {1, 2}) {
              TargetInfo info = target(name);
              RecurrenceShape layer =
                  shape(cell, batch, hidden, narrow, directions);
              for (bool isGradient : {false, true}) {
                layer.isGradient = isGradient;
                if (std::optional<PersistentRnnPlan> plan =
                        PersistentRnnPlan::of(layer, info))
                  expectSound(*plan, info);
                // A block for every row and some units, whatever the model
                // says.
                for (int64_t units : {int64_t(1), std::min<int64_t>(5, hidden)})
                  if (auto plan =
                          PersistentRnnPlan::with(layer, info, 1, units))
                    expectSound(*plan, info);
              }
            }
}

// A small layer has all of its weights in one block, which nobody waits for.
TEST_F(RecurrencePlanTest, SmallLayersDoNotMeet) {
  TargetInfo info = target("cuda:sm_90a");
  auto plan =
      PersistentRnnPlan::of(shape(RecurrentCell::lstm, 4, 32, bf16()), info);
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->meets());
  EXPECT_EQ(plan->unitSlices(), 1);
  EXPECT_TRUE(plan->pays(info));
}

// 512 KB of weights are distributed over many blocks.
TEST_F(RecurrencePlanTest, LargerLayersAreSpreadOverTheMachine) {
  TargetInfo info = target("cuda:sm_90a");
  auto plan =
      PersistentRnnPlan::of(shape(RecurrentCell::lstm, 4, 256, bf16()), info);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->meets());
  EXPECT_TRUE(plan->usesMatrixUnits);
  EXPECT_TRUE(plan->keepsFragments);
  EXPECT_TRUE(plan->pays(info));
}

// The backward pass reads the gates of all units for each unit: four times the
// depth of an LSTM, a quarter of the columns.
TEST_F(RecurrencePlanTest, GradientsHaveTheWeightsTransposed) {
  TargetInfo info = target("cuda:sm_90a");
  RecurrenceShape layer = shape(RecurrentCell::lstm, 4, 256, bf16());
  layer.isGradient = true;
  auto plan = PersistentRnnPlan::of(layer, info);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->meets());
  EXPECT_EQ(plan->rowElements(), 1024);
  EXPECT_GE(plan->columns(), plan->units);
  EXPECT_TRUE(plan->pays(info));
  layer.cell = RecurrentCell::gru;
  EXPECT_EQ(layer.products().size(), 2u);
}

TEST_F(RecurrencePlanTest, WhatHasNoKernelHasNoPlan) {
  RecurrenceShape layer = shape(RecurrentCell::lstm, 4, 32, bf16());
  EXPECT_FALSE(PersistentRnnPlan::of(layer, target("cpu:avx512")));
  EXPECT_FALSE(PersistentRnnPlan::of(layer, target("cuda:sm_70")));
  // 256 MB of weights.
  EXPECT_FALSE(PersistentRnnPlan::of(shape(RecurrentCell::lstm, 4, 4096, f32()),
                                     target("cuda:sm_90a")));
  layer.wide = bf16();
  EXPECT_FALSE(PersistentRnnPlan::of(layer, target("cuda:sm_90a")));
  layer.wide = layer.narrow = Float64Type::get(&context);
  EXPECT_FALSE(PersistentRnnPlan::of(layer, target("cuda:sm_90a")));
  EXPECT_FALSE(PersistentRnnPlan::of(shape(RecurrentCell::gru, 0, 32, bf16()),
                                     target("cuda:sm_90a")));
}

TEST_F(RecurrencePlanTest, UnitsMultiplyTheirTypesAlone) {
  RecurrenceShape layer = shape(RecurrentCell::lstm, 4, 32, bf16());
  EXPECT_FALSE(
      PersistentRnnPlan::of(layer, target("cuda:sm_75"))->usesMatrixUnits);
  layer.narrow = Float16Type::get(&context);
  EXPECT_TRUE(
      PersistentRnnPlan::of(layer, target("cuda:sm_75"))->usesMatrixUnits);
  layer.narrow = f32();
  EXPECT_FALSE(
      PersistentRnnPlan::of(layer, target("cuda:sm_90a"))->usesMatrixUnits);
}

} // namespace
