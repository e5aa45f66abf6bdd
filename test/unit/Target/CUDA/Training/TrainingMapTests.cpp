//===- TrainingMapTests.cpp - elementwise backward kernels ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plan/KernelBatches.h"

#include "gtest/gtest.h"

using namespace mpc;

// Windows that tile the image, that overlap, and that reach over its sides;
// both layouts.
TEST(CudaTrainingMap, PoolGradients) {
  FamilyBatch batch("map");
  for (auto [image, pooled, attributes] :
       {std::tuple("2x3x8x10", "2x3x4x5",
                   "window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) "
                   "dilations([1, 1])"),
        std::tuple("1x2x7x7", "1x2x4x4",
                   "window([3, 3]) strides([2, 2]) pad([1, 1], [1, 1]) "
                   "dilations([1, 1])"),
        std::tuple("2x8x8x4", "2x4x4x4",
                   "window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) "
                   "dilations([1, 1]) layout(channels_last)")}) {
    std::map<std::string, std::string> by = {
        {"$I", image}, {"$P", pooled}, {"$W", attributes}};
    batch.addForTypes(
        {"f32", "f16"},
        loopKernel("%x: tensor<$Ix$T>, %g: tensor<$Px$T>", "tensor<$Ix$T>", R"(
  %0 = mpc.max_pool_gradient %x, %g $W : (tensor<$Ix$T>, tensor<$Px$T>) -> tensor<$Ix$T>
  return %0 : tensor<$Ix$T>)"),
        by);
    batch.addForTypes({"f32", "bf16"},
                      loopKernel("%g: tensor<$Px$T>", "tensor<$Ix$T>", R"(
  %0 = mpc.avg_pool_gradient %g $W : tensor<$Px$T> -> tensor<$Ix$T>
  return %0 : tensor<$Ix$T>)"),
                      by);
  }
}

// The same bits as the interpreter's, whatever the shape of the grid.
TEST(CudaTrainingMap, RandomBits) {
  FamilyBatch batch("map");
  for (const char *shape : {"7", "64x33", "1"})
    batch.add(loopKernel("%s: tensor<2xi64>", "tensor<$Sxi32>", R"(
  %0 = mpc.random_bits %s stream(3) : tensor<2xi64> -> tensor<$Sxi32>
  return %0 : tensor<$Sxi32>)"),
              {{"$S", shape}});
}
