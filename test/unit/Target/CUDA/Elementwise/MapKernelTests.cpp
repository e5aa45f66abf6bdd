//===- MapKernelTests.cpp - elementwise kernels ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plan/KernelBatches.h"

#include "gtest/gtest.h"

using namespace mpc;

static const std::vector<std::string> kAll = {"f32", "f64", "bf16", "f16", "i1",
                                              "i8",  "i32", "i64",  "ui8"};
static const std::vector<std::string> kSome = {"f32", "bf16", "i8", "i64"};

// Extents of 0, 1, odd, prime, and at and next to multiples of vectors and
// blocks.
TEST(CudaMap, ElementwiseOfAnyExtent) {
  FamilyBatch batch("map");
  for (const char *shape : {"0x", "1x", "3x", "4x", "7x", "64x", "257x",
                            "1031x", "5x0x", "3x5x", "2x3x7x", ""})
    batch.addForTypes({"f32", "bf16"},
                      loopKernel("%x: tensor<$S$T>, %y: tensor<$S$T>",
                                 "tensor<$S$T>, tensor<$Sf32>", R"(
  %0 = mpc.add %x, %y : (tensor<$S$T>, tensor<$S$T>) -> tensor<$S$T>
  %1 = mpc.relu %0 : tensor<$S$T>
  %2 = mpc.cast %1 : tensor<$S$T> to tensor<$Sf32>
  %3 = mpc.exp %2 : tensor<$Sf32>
  return %1, %3 : tensor<$S$T>, tensor<$Sf32>)"),
                      {{"$S", shape}});
}

TEST(CudaMap, FunctionsOfTwoVectors) {
  FamilyBatch batch("map");
  for (const char *shape : {"64x", "6x17x", "3x"})
    batch.addForTypes({"f32", "f64", "bf16"},
                      loopKernel("%x: tensor<$S$T>, %y: tensor<$S$T>",
                                 "tensor<$S$T>, tensor<$S$T>", R"(
  %0 = mpc.atan2 %x, %y : (tensor<$S$T>, tensor<$S$T>) -> tensor<$S$T>
  %1 = mpc.abs %x : tensor<$S$T>
  %2 = mpc.pow %1, %y : (tensor<$S$T>, tensor<$S$T>) -> tensor<$S$T>
  return %0, %2 : tensor<$S$T>, tensor<$S$T>)"),
                      {{"$S", shape}});
}

TEST(CudaMap, BroadcastAlongEveryDimension) {
  FamilyBatch batch("map");
  for (auto [rows, columns] : {std::pair("3", "8"), std::pair("5", "7"),
                               std::pair("1", "16"), std::pair("16", "1")})
    batch.addForTypes(
        kFloats,
        loopKernel("%x: tensor<2x$Rx$Cx$T>, %b: tensor<$Cx$T>, %r: "
                   "tensor<$Rx1x$T>, %s: tensor<$T>",
                   "tensor<2x$Rx$Cx$T>", R"(
  %0 = mpc.mul %x, %b : (tensor<2x$Rx$Cx$T>, tensor<$Cx$T>) -> tensor<2x$Rx$Cx$T>
  %1 = mpc.add %0, %r : (tensor<2x$Rx$Cx$T>, tensor<$Rx1x$T>) -> tensor<2x$Rx$Cx$T>
  %2 = mpc.sub %1, %s : (tensor<2x$Rx$Cx$T>, tensor<$T>) -> tensor<2x$Rx$Cx$T>
  return %2 : tensor<2x$Rx$Cx$T>)"),
        {{"$R", rows}, {"$C", columns}});
}

TEST(CudaMap, MixedWidthsAndMasks) {
  FamilyBatch batch("map");
  for (const char *shape : {"64", "21", "6x10", "1"})
    batch.add(
        loopKernel("%m: tensor<$Sxi1>, %x: tensor<$Sxbf16>, %y: tensor<$Sxf64>"
                   ", %n: tensor<$Sxi64>",
                   "tensor<$Sxf32>, tensor<$Sxi1>, tensor<$Sxi8>", R"(
  %0 = mpc.cast %x : tensor<$Sxbf16> to tensor<$Sxf32>
  %1 = mpc.cast %y : tensor<$Sxf64> to tensor<$Sxf32>
  %2 = mpc.select %m, %0, %1 : (tensor<$Sxi1>, tensor<$Sxf32>, tensor<$Sxf32>) -> tensor<$Sxf32>
  %3 = mpc.compare lt %0, %1 : (tensor<$Sxf32>, tensor<$Sxf32>) -> tensor<$Sxi1>
  %4 = mpc.cast %n : tensor<$Sxi64> to tensor<$Sxi8>
  return %2, %3, %4 : tensor<$Sxf32>, tensor<$Sxi1>, tensor<$Sxi8>)"),
        {{"$S", shape}});
}

// Offsets that are multiples of vectors, and others.
TEST(CudaMap, SlicesKeepVectorsWhereAligned) {
  FamilyBatch batch("map");
  for (auto [offset, size] : {std::pair("8", "16"), std::pair("3", "17"),
                              std::pair("4", "4"), std::pair("39", "1")})
    batch.addForTypes(
        kAll, loopKernel("%x: tensor<5x6x40x$T>", "tensor<2x6x$Nx$T>", R"(
  %0 = mpc.slice %x [1, 0, $O] [2, 6, $N] : tensor<5x6x40x$T> to tensor<2x6x$Nx$T>
  return %0 : tensor<2x6x$Nx$T>)"),
        {{"$O", offset}, {"$N", size}});
  batch.addForTypes(kSome,
                    loopKernel("%x: tensor<5x6x40x$T>", "tensor<5x6x8x$T>", R"(
  %0 = mpc.slice %x [0, 0, 2] [5, 6, 8] strides [1, 1, 4] : tensor<5x6x40x$T> to tensor<5x6x8x$T>
  return %0 : tensor<5x6x8x$T>)"));
}

TEST(CudaMap, JoinsAndPaddings) {
  FamilyBatch batch("map");
  struct Case {
    const char *first, *second, *both, *low, *high, *padded;
  };
  for (Case c :
       {Case{"16", "8", "24", "8", "16", "48"},
        Case{"3", "5", "8", "1", "2", "11"}, Case{"1", "1", "2", "0", "3", "5"},
        Case{"7", "0", "7", "4", "0", "11"}})
    batch.addForTypes(kSome,
                      loopKernel("%x: tensor<3x$Ax$T>, %y: "
                                 "tensor<3x$Bx$T>, %v: tensor<$T>",
                                 "tensor<3x$Cx$T>, tensor<4x$Px$T>", R"(
  %0 = mpc.concat %x, %y axis(1) : (tensor<3x$Ax$T>, tensor<3x$Bx$T>) -> tensor<3x$Cx$T>
  %1 = mpc.pad %0, %v low([1, $L]) high([0, $H]) : (tensor<3x$Cx$T>, tensor<$T>) -> tensor<4x$Px$T>
  return %0, %1 : tensor<3x$Cx$T>, tensor<4x$Px$T>)"),
                      {{"$A", c.first},
                       {"$B", c.second},
                       {"$C", c.both},
                       {"$L", c.low},
                       {"$H", c.high},
                       {"$P", c.padded}});
}

TEST(CudaMap, MovementThatKeepsTheLastDimension) {
  FamilyBatch batch("map");
  for (const char *extent : {"16", "6", "1"})
    batch.addForTypes(kSome,
                      loopKernel("%x: tensor<2x3x5x$Dx$T>, %i: tensor<4xi64>",
                                 "tensor<2x5x3x$Dx$T>, tensor<4x3x5x$Dx$T>, "
                                 "tensor<2x3x5x$Dx$T>",
                                 R"(
  %0 = mpc.transpose %x [0, 2, 1, 3] : tensor<2x3x5x$Dx$T> to tensor<2x5x3x$Dx$T>
  %1 = mpc.gather %x, %i axis(0) : (tensor<2x3x5x$Dx$T>, tensor<4xi64>) -> tensor<4x3x5x$Dx$T>
  %2 = mpc.reverse %x axes([1, 3]) : tensor<2x3x5x$Dx$T>
  return %0, %1, %2 : tensor<2x5x3x$Dx$T>, tensor<4x3x5x$Dx$T>, tensor<2x3x5x$Dx$T>)"),
                      {{"$D", extent}});
}

TEST(CudaMap, HeadsSplitInsideAChain) {
  FamilyBatch batch("map");
  for (auto [heads, extent] :
       {std::pair(2, 16), std::pair(3, 5), std::pair(1, 7)})
    batch.addForTypes({"f32", "bf16"},
                      loopKernel("%x: tensor<2x9x$Wx$T>, %b: tensor<$Wx$T>",
                                 "tensor<2x$Hx9x$Dx$T>", R"(
  %0 = mpc.add %x, %b : (tensor<2x9x$Wx$T>, tensor<$Wx$T>) -> tensor<2x9x$Wx$T>
  %1 = mpc.reshape %0 : tensor<2x9x$Wx$T> to tensor<2x9x$Hx$Dx$T>
  %2 = mpc.transpose %1 [0, 2, 1, 3] : tensor<2x9x$Hx$Dx$T> to tensor<2x$Hx9x$Dx$T>
  return %2 : tensor<2x$Hx9x$Dx$T>)"),
                      {{"$H", std::to_string(heads)},
                       {"$D", std::to_string(extent)},
                       {"$W", std::to_string(heads * extent)}});
}

TEST(CudaMap, Pools) {
  FamilyBatch batch("map");
  for (const char *channels : {"8", "5", "1"})
    batch.addForTypes({"f32", "f16"},
                      loopKernel("%x: tensor<2x7x9x$Cx$T>",
                                 "tensor<2x4x5x$Cx$T>, tensor<2x4x5x$Cx$T>", R"(
  %0 = mpc.max_pool %x window([3, 3]) strides([2, 2]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) : tensor<2x7x9x$Cx$T> -> tensor<2x4x5x$Cx$T>
  %1 = mpc.avg_pool %x window([3, 3]) strides([2, 2]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) : tensor<2x7x9x$Cx$T> -> tensor<2x4x5x$Cx$T>
  return %0, %1 : tensor<2x4x5x$Cx$T>, tensor<2x4x5x$Cx$T>)"),
                      {{"$C", channels}});
}

TEST(CudaMap, PositionsAndClasses) {
  FamilyBatch batch("map");
  for (const char *depth : {"8", "5", "1"})
    batch.addForTypes({"f32", "bf16", "i64"},
                      loopKernel("%i: tensor<3xi64>, %on: tensor<$T>, %off: "
                                 "tensor<$T>",
                                 "tensor<3x$Dx$T>, tensor<3x$Dx$T>", R"(
  %0 = mpc.one_hot %i, %on, %off depth($D) axis(1) : (tensor<3xi64>, tensor<$T>, tensor<$T>) -> tensor<3x$Dx$T>
  %1 = mpc.iota axis(1) : tensor<3x$Dx$T>
  return %0, %1 : tensor<3x$Dx$T>, tensor<3x$Dx$T>)"),
                      {{"$D", depth}});
}

TEST(CudaMap, ResultsOfSeveralShapes) {
  FamilyBatch batch("map");
  batch.addForTypes({"f32", "bf16"},
                    loopKernel("%x: tensor<6x20x$T>, %y: tensor<33x$T>",
                               "tensor<6x20x$T>, tensor<33x$T>, tensor<6x8x$T>",
                               R"(
  %0 = mpc.neg %x : tensor<6x20x$T>
  %1 = mpc.abs %y : tensor<33x$T>
  %2 = mpc.slice %0 [0, 4] [6, 8] : tensor<6x20x$T> to tensor<6x8x$T>
  return %0, %1, %2 : tensor<6x20x$T>, tensor<33x$T>, tensor<6x8x$T>)"));
}

// 128-bit accesses, and an incomplete last vector where lines end oddly.
TEST(CudaMap, AccessesAreWide) {
  CudaText text =
      cudaText(loopKernel("%x: tensor<1031xf32>", "tensor<1031xf32>", R"(
  %0 = mpc.exp %x : tensor<1031xf32>
  return %0 : tensor<1031xf32>)"));
  EXPECT_EQ(text.error, "");
  EXPECT_NE(text.text.find("load<4>"), std::string::npos) << text.text;
  EXPECT_NE(text.text.find("mpc::store("), std::string::npos) << text.text;
  EXPECT_NE(text.text.find("1031"), std::string::npos) << text.text;
}
