//===- TransposeKernelTests.cpp - transposes through shared memory --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plan/KernelBatches.h"

#include "gtest/gtest.h"

using namespace mpc;

namespace {
struct Case {
  const char *from, *to, *permutation;
};
} // namespace

static std::string transposeOf(const Case &c) {
  std::string from = std::string("tensor<") + c.from + "x$T>",
              to = std::string("tensor<") + c.to + "x$T>";
  return loopKernel("%x: " + from, to,
                    "%0 = mpc.transpose %x " + std::string(c.permutation) +
                        " : " + from + " to " + to + "\nreturn %0 : " + to);
}

// Whole tiles, odd and prime extents, one more and one less than a tile.
TEST(CudaTranspose, Shapes) {
  FamilyBatch batch("transpose");
  for (Case c :
       {Case{"32x64", "64x32", "[1, 0]"}, Case{"8x9", "9x8", "[1, 0]"},
        Case{"65x63", "63x65", "[1, 0]"}, Case{"17x131", "131x17", "[1, 0]"},
        Case{"2x33x31", "2x31x33", "[0, 2, 1]"},
        Case{"2x3x9x10", "2x9x10x3", "[0, 2, 3, 1]"},
        Case{"2x9x10x20", "2x20x9x10", "[0, 3, 1, 2]"},
        Case{"6x20x18", "18x20x6", "[2, 1, 0]"},
        Case{"11x1x40", "40x1x11", "[2, 1, 0]"}}) {
    bool isShort =
        std::string(c.to).ends_with("x3") || std::string(c.to).ends_with("x6");
    // Short lines are left to maps.
    if (isShort)
      continue;
    batch.addForTypes({"f32", "bf16", "i8", "f64", "i1", "i64"},
                      transposeOf(c));
  }
}

TEST(CudaTranspose, ShortRowsAreMaps) {
  FamilyBatch batch("map");
  for (Case c : {Case{"2x3x9x10", "2x9x10x3", "[0, 2, 3, 1]"},
                 Case{"7x40", "40x7", "[1, 0]"}, Case{"1x40", "40x1", "[1, 0]"},
                 Case{"0x40", "40x0", "[1, 0]"},
                 Case{"6x20x18", "18x20x6", "[2, 1, 0]"}})
    batch.addForTypes({"f32", "bf16"}, transposeOf(c));
}

TEST(CudaTranspose, InsideAChain) {
  FamilyBatch batch("transpose");
  batch.addForTypes(
      {"f32", "bf16"},
      loopKernel("%x: tensor<3x20x24x$T>, %y: tensor<3x20x24x$T>, %b: "
                 "tensor<20x$T>",
                 "tensor<3x24x20xf32>, tensor<3x24x20x$T>", R"(
  %n = mpc.neg %y : tensor<3x20x24x$T>
  %0 = mpc.transpose %x [0, 2, 1] : tensor<3x20x24x$T> to tensor<3x24x20x$T>
  %1 = mpc.transpose %n [0, 2, 1] : tensor<3x20x24x$T> to tensor<3x24x20x$T>
  %2 = mpc.mul %0, %1 : (tensor<3x24x20x$T>, tensor<3x24x20x$T>) -> tensor<3x24x20x$T>
  %3 = mpc.add %2, %b : (tensor<3x24x20x$T>, tensor<20x$T>) -> tensor<3x24x20x$T>
  %4 = mpc.cast %3 : tensor<3x24x20x$T> to tensor<3x24x20xf32>
  %5 = mpc.exp %4 : tensor<3x24x20xf32>
  return %5, %3 : tensor<3x24x20xf32>, tensor<3x24x20x$T>)"));
}

TEST(CudaTranspose, ResultsOfAnotherShape) {
  FamilyBatch batch("transpose");
  batch.addForTypes({"f32", "f16"}, loopKernel("%x: tensor<2x33x40x$T>",
                                               "tensor<2x1320x$T>", R"(
  %0 = mpc.transpose %x [0, 2, 1] : tensor<2x33x40x$T> to tensor<2x40x33x$T>
  %1 = mpc.reshape %0 : tensor<2x40x33x$T> to tensor<2x1320x$T>
  return %1 : tensor<2x1320x$T>)"));
}

// Read and converted once, stored in both orders.
TEST(CudaTranspose, StoresInputsToo) {
  FamilyBatch batch("transpose");
  batch.addForTypes(
      {"bf16", "i8"},
      loopKernel("%x: tensor<3x33x40x$T>",
                 "tensor<3x33x40xf32>, tensor<40x99xf32>, tensor<40x99xf32>",
                 R"(
  %0 = mpc.cast %x : tensor<3x33x40x$T> to tensor<3x33x40xf32>
  %1 = mpc.reshape %0 : tensor<3x33x40xf32> to tensor<99x40xf32>
  %2 = mpc.transpose %1 [1, 0] : tensor<99x40xf32> to tensor<40x99xf32>
  %3 = mpc.exp %2 : tensor<40x99xf32>
  return %0, %2, %3 : tensor<3x33x40xf32>, tensor<40x99xf32>, tensor<40x99xf32>)"));
}
