//===- LoopKernelTests.cpp - fallback kernels -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plan/KernelBatches.h"

#include "gtest/gtest.h"

using namespace mpc;

static const std::vector<std::string> kSome = {"f32", "bf16", "i8", "i64"};

TEST(CudaLoop, TopK) {
  FamilyBatch batch("loop");
  for (auto [extent, k] : {std::pair("1", "1"), std::pair("7", "7"),
                           std::pair("131", "5"), std::pair("64", "0")})
    for (const char *flag : {"", " largest(false)"})
      batch.addForTypes(kSome,
                        loopKernel("%x: tensor<3x$Nx2x$T>",
                                   "tensor<3x$Kx2x$T>, tensor<3x$Kx2xi64>", R"(
  %v, %p = mpc.top_k %x k($K) axis(1)$F : tensor<3x$Nx2x$T> -> tensor<3x$Kx2x$T>, tensor<3x$Kx2xi64>
  return %v, %p : tensor<3x$Kx2x$T>, tensor<3x$Kx2xi64>)"),
                        {{"$N", extent}, {"$K", k}, {"$F", flag}});
}

TEST(CudaLoop, Scans) {
  FamilyBatch batch("loop");
  for (const char *shape : {"3x17", "1x1", "2x0", "4x64"})
    for (const char *axis : {"0", "1"})
      for (const char *flags : {"", " exclusive", " exclusive reverse"})
        batch.addForTypes({"f32", "bf16", "i32"},
                          loopKernel("%x: tensor<$Sx$T>", "tensor<$Sx$T>", R"(
  %0 = mpc.cumsum %x axis($A)$F : tensor<$Sx$T>
  return %0 : tensor<$Sx$T>)"),
                          {{"$S", shape}, {"$A", axis}, {"$F", flags}});
}

// Colliding updates are applied in order.
TEST(CudaLoop, Scatters) {
  FamilyBatch batch("loop");
  batch.check.adjust = [](unsigned argument, reference::Tensor &tensor) {
    if (argument == 1)
      for (int64_t &value : tensor.ints())
        value %= 5;
  };
  for (const char *reduction :
       {"", " reduction(add)", " reduction(mul)", " reduction(max)"}) {
    for (const char *shape : {"5x7", "5x1", "33x4"})
      batch.addForTypes({"f32", "f16", "i32"},
                        loopKernel("%x: tensor<$Sx$T>, %i: tensor<$Sxi64>, %u: "
                                   "tensor<$Sx$T>",
                                   "tensor<$Sx$T>", R"(
  %0 = mpc.scatter_elements %x, %i, %u axis(0)$R : (tensor<$Sx$T>, tensor<$Sxi64>, tensor<$Sx$T>) -> tensor<$Sx$T>
  return %0 : tensor<$Sx$T>)"),
                        {{"$S", shape}, {"$R", reduction}});
    for (const char *extent : {"9", "1", "64"})
      batch.addForTypes({"f32", "i64"},
                        loopKernel("%x: tensor<6x$Nx$T>, %i: tensor<4x1xi64>, "
                                   "%u: tensor<4x$Nx$T>",
                                   "tensor<6x$Nx$T>", R"(
  %0 = mpc.scatter_nd %x, %i, %u$R : (tensor<6x$Nx$T>, tensor<4x1xi64>, tensor<4x$Nx$T>) -> tensor<6x$Nx$T>
  return %0 : tensor<6x$Nx$T>)"),
                        {{"$N", extent}, {"$R", reduction}});
  }
}

TEST(CudaLoop, ScatterOfSingleElements) {
  FamilyBatch batch("loop");
  batch.addForTypes({"f32", "i32"},
                    loopKernel("%x: tensor<10x9x$T>, %i: tensor<7x2xi64>, %u: "
                               "tensor<7x$T>",
                               "tensor<10x9x$T>", R"(
  %0 = mpc.scatter_nd %x, %i, %u : (tensor<10x9x$T>, tensor<7x2xi64>, tensor<7x$T>) -> tensor<10x9x$T>
  return %0 : tensor<10x9x$T>)"));
}

// Phases that wait for each other, through scratch memory.
TEST(CudaLoop, PhasesInOrder) {
  FamilyBatch batch("loop");
  for (auto [rows, columns] :
       {std::pair("6", "10"), std::pair("1", "1"), std::pair("37", "19")})
    batch.addForTypes({"f32", "bf16"},
                      loopKernel("%x: tensor<$Rx$Cx$T>", "tensor<$Rx$Cx$T>", R"(
  %0 = mpc.cumsum %x axis(1) : tensor<$Rx$Cx$T>
  %1 = mpc.cumsum %0 axis(0) : tensor<$Rx$Cx$T>
  %2 = mpc.add %1, %x : (tensor<$Rx$Cx$T>, tensor<$Rx$Cx$T>) -> tensor<$Rx$Cx$T>
  return %2 : tensor<$Rx$Cx$T>)"),
                      {{"$R", rows}, {"$C", columns}});
}

TEST(CudaLoop, Products) {
  FamilyBatch batch("loop");
  struct Case {
    const char *m, *n, *k;
  };
  for (Case c : {Case{"5", "7", "3"}, Case{"1", "1", "1"}, Case{"17", "3", "0"},
                 Case{"33", "20", "19"}})
    batch.addForTypes({"f64", "i32", "i64"},
                      loopKernel("%x: tensor<2x$Mx$Kx$T>, %y: tensor<$Nx$Kx$T>"
                                 ", %b: tensor<$Nx$T>",
                                 "tensor<2x$Mx$Nx$T>", R"(
  %0 = mpc.matmul %x, %y transpose_rhs : (tensor<2x$Mx$Kx$T>, tensor<$Nx$Kx$T>) -> tensor<2x$Mx$Nx$T>
  %1 = mpc.add %0, %b : (tensor<2x$Mx$Nx$T>, tensor<$Nx$T>) -> tensor<2x$Mx$Nx$T>
  %2 = mpc.relu %1 : tensor<2x$Mx$Nx$T>
  return %2 : tensor<2x$Mx$Nx$T>)"),
                      {{"$M", c.m}, {"$N", c.n}, {"$K", c.k}});
}

TEST(CudaLoop, Convolutions) {
  FamilyBatch batch("loop");
  for (const char *groups : {"1", "2"})
    batch.add(loopKernel("%x: tensor<2x4x7x6xf64>, %w: tensor<6x$Cx3x2xf64>",
                         "tensor<2x6x4x6xf64>", R"(
  %0 = mpc.conv %x, %w strides([2, 1]) pad([1, 0], [1, 1]) dilations([1, 1]) groups($G) : (tensor<2x4x7x6xf64>, tensor<6x$Cx3x2xf64>) -> tensor<2x6x4x6xf64>
  return %0 : tensor<2x6x4x6xf64>)"),
              {{"$G", groups}, {"$C", groups[0] == '1' ? "4" : "2"}});
}

// As one phase of several, where no other family supports the op.
TEST(CudaLoop, AttentionAsAPhase) {
  FamilyBatch batch("loop");
  for (const char *flags : {"", " causal"})
    for (auto [queries, keys] :
         {std::pair("5", "5"), std::pair("1", "1"), std::pair("7", "3")})
      batch.addForTypes(
          {"f32", "f64"},
          loopKernel("%q: tensor<2x4x$Sx3x$T>, %k: tensor<2x2x$Kx3x$T>, %v: "
                     "tensor<2x2x$Kx5x$T>, %m: tensor<$Sx$Kxi1>",
                     "tensor<2x4x$Sx5x$T>", R"(
  %0 = mpc.attention %q, %k, %v mask(%m) scale(5.0e-1)$F : (tensor<2x4x$Sx3x$T>, tensor<2x2x$Kx3x$T>, tensor<2x2x$Kx5x$T>, tensor<$Sx$Kxi1>) -> tensor<2x4x$Sx5x$T>
  %1 = mpc.cumsum %0 axis(2) : tensor<2x4x$Sx5x$T>
  return %1 : tensor<2x4x$Sx5x$T>)"),
          {{"$S", queries}, {"$K", keys}, {"$F", flags}});
}
