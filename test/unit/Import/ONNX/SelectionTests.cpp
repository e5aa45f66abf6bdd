//===- SelectionTests.cpp - data-dependent extents ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelBuilder.h"

#include "mpc/Reference/Interpreter.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mpc;
using namespace mpc::testing;

static std::vector<reference::Tensor> results(Import &import,
                                              const ModelBuilder &b) {
  if (!import.run(b)) {
    ADD_FAILURE() << import.firstError();
    return {};
  }
  auto values = reference::interpret(import.main(), {});
  if (mlir::failed(values))
    return {};
  return {values->begin(), values->end()};
}

// All NaN are one value, the last.
TEST(Selection, UniqueHasOneNan) {
  ModelBuilder b;
  b.floats("x", {6}, {2, NAN, -1, NAN, 2, INFINITY});
  for (const char *name : {"y", "first", "inverse", "counts"})
    b.output(name);
  b.node("Unique", {"x"}, {"y", "first", "inverse", "counts"});
  Import import;
  std::vector<reference::Tensor> found = results(import, b);
  ASSERT_EQ(found.size(), 4u);
  ASSERT_EQ(found[0].size(), 4);
  EXPECT_EQ(found[0].floats()[0], -1);
  EXPECT_TRUE(std::isnan(found[0].floats()[3]));
  EXPECT_EQ(found[1].ints().vec(), (std::vector<int64_t>{2, 0, 5, 1}));
  EXPECT_EQ(found[2].ints().vec(), (std::vector<int64_t>{1, 3, 0, 3, 1, 2}));
  EXPECT_EQ(found[3].ints().vec(), (std::vector<int64_t>{1, 2, 1, 2}));
}

// Adjacent integers that are equal as doubles.
TEST(Selection, UniqueComparesWideIntegers) {
  ModelBuilder b;
  int64_t large = (int64_t(1) << 53) + 1;
  b.ints("x", {large, large - 1, large});
  b.output("y");
  b.node("Unique", {"x"}, {"y"});
  Import import;
  std::vector<reference::Tensor> found = results(import, b);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].ints().vec(), (std::vector<int64_t>{large - 1, large}));
}

// Equal scores keep the order of the boxes; no score is no candidate.
TEST(Selection, SuppressionIsStable) {
  ModelBuilder b;
  b.floats("boxes", {1, 3, 4}, {0, 0, 1, 1, 0, 0, 1, 0.9f, 5, 5, 6, 6});
  b.floats("scores", {1, 1, 3}, {0.5f, 0.5f, NAN});
  b.ints("most", {3});
  b.floats("iou", {1}, {0.5f});
  b.output("y");
  b.node("NonMaxSuppression", {"boxes", "scores", "most", "iou"}, {"y"});
  Import import;
  std::vector<reference::Tensor> found = results(import, b);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].ints().vec(), (std::vector<int64_t>{0, 0, 0}));
}

TEST(Selection, NeedsKnownValues) {
  ModelBuilder b;
  b.input("x", {4});
  b.output("y");
  b.node("Unique", {"x"}, {"y"});
  Import import;
  EXPECT_FALSE(import.run(b));
  EXPECT_EQ(import.firstError(),
            "Unique: input ('x') must be known while importing, but depends on "
            "graph input 'x'; give its value, or make it an initializer (node "
            "'Unique_node')");
}

TEST(Signal, LongTransformsAreRefused) {
  ModelBuilder b(20);
  b.input("x", {1, 5000, 1});
  b.output("y");
  b.node("DFT", {"x"}, {"y"});
  Import import;
  EXPECT_FALSE(import.run(b));
  EXPECT_EQ(import.firstError(), "DFT: the length of the transform is 5000, "
                                 "expected 1 to 4096 (node 'DFT_node')");
}
