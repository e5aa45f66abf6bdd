//===- ReductionKernelTests.cpp - reductions as emitted -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plan/KernelBatches.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>

using namespace mpc;
using reference::Tensor;

static std::string sumKernel(const std::string &input,
                             const std::string &result,
                             const std::string &axes) {
  return substitute(rowKernel("%x: tensor<$Ix$T>", "tensor<$R>", R"(
  %0 = mpc.reduce_sum %x axes($A) : tensor<$Ix$T> -> tensor<$R>
  return %0 : tensor<$R>)"),
                    {{"$I", input}, {"$R", result}, {"$A", axes}});
}

TEST(CudaReductionKernel, OverAnyAxes) {
  CudaKernelBatch batch;
  addTypes(batch, kFloats, reduceKernel("5x67", "5x$T", "[1]", "row"),
           ofFamily("row"));
  addTypes(batch, kFloats, reduceKernel("6x37", "37x$T", "[0]", "row"),
           ofFamily("reduction"));
  addTypes(batch, {"f32", "bf16"},
           reduceKernel("3x4x5x21", "3x5x$T", "[1, 3]", "row"),
           ofFamily("row"));
  addTypes(batch, {"f32", "bf16"},
           reduceKernel("3x4x5x20", "4x20x$T", "[0, 2]", "row"),
           ofFamily("reduction"));
  addTypes(batch, {"f32", "bf16"},
           reduceKernel("2x3x7x7", "2x3x$T", "[2, 3]", "row"), ofFamily("row"));
  addTypes(batch, {"f32", "bf16"}, reduceKernel("4x33", "$T", "[0, 1]", "row"),
           ofFamily("row"));
  addTypes(batch, {"f32"},
           rowKernel("%x: tensor<3x4x28x$T>",
                     "tensor<3x1x28x$T>, tensor<3x1x28x$T>", R"(
  %0 = mpc.reduce_sum %x axes([1]) keep_dims : tensor<3x4x28x$T> -> tensor<3x1x28x$T>
  %1 = mpc.reduce_max %x axes([1]) keep_dims : tensor<3x4x28x$T> -> tensor<3x1x28x$T>
  return %0, %1 : tensor<3x1x28x$T>, tensor<3x1x28x$T>)"),
           ofFamily("reduction"));
  batch.expect();
}

TEST(CudaReductionKernel, ColumnsOfAnyExtent) {
  CudaKernelBatch batch;
  for (const char *rows : {"1", "2", "7", "33", "300"})
    for (const char *columns : {"1", "3", "8", "33", "132"})
      batch.add(substitute(sumKernel(std::string(rows) + "x" + columns,
                                     std::string(columns) + "xf32", "[0]"),
                           {{"$T", "f32"}}),
                ofFamily(columns[0] == '1' && !columns[1] ? "" : "reduction"));
  for (const char *shape : {"6x50", "1x9", "40x7", "130x64"})
    batch.add(substitute(rowKernel("%x: tensor<$Sxbf16>", "tensor<$Sxbf16>", R"(
  %0 = mpc.softmax %x axis(0) : tensor<$Sxbf16>
  return %0 : tensor<$Sxbf16>)"),
                         {{"$S", shape}}),
              ofFamily("reduction", 3.0));
  batch.add(rowKernel("%x: tensor<3x50x33xf32>", "tensor<3x50x33xf32>", R"(
  %0 = mpc.log_softmax %x axis(1) : tensor<3x50x33xf32>
  return %0 : tensor<3x50x33xf32>)"),
            ofFamily("reduction", 3.0));
  // A global pooling, as before the classifier of a network.
  batch.add(rowKernel("%x: tensor<4x4x4x128xbf16>", "tensor<4x1x1x128xbf16>",
                      R"(
  %0 = mpc.cast %x : tensor<4x4x4x128xbf16> to tensor<4x4x4x128xf32>
  %1 = mpc.reduce_mean %0 axes([1, 2]) keep_dims : tensor<4x4x4x128xf32> -> tensor<4x1x1x128xf32>
  %2 = mpc.cast %1 : tensor<4x1x1x128xf32> to tensor<4x1x1x128xbf16>
  return %2 : tensor<4x1x1x128xbf16>)"),
            ofFamily("reduction"));
  batch.expect();
}

TEST(CudaReductionKernel, FewLongRowsAreSharedByBlocks) {
  CudaKernelBatch batch;
  for (const char *shape : {"100000", "3x40007", "2x3x20480"}) {
    std::string text = shape;
    size_t last = text.rfind('x');
    bool one = last == std::string::npos;
    std::string rows = one ? "" : text.substr(0, last) + "x";
    std::string axis = one ? "[0]" : text.find('x') == last ? "[1]" : "[2]";
    batch.add(
        substitute(rowKernel("%x: tensor<$Sxf32>",
                             "tensor<$Rf32>, tensor<$Rf32>, tensor<$Rf32>", R"(
  %0 = mpc.mul %x, %x : (tensor<$Sxf32>, tensor<$Sxf32>) -> tensor<$Sxf32>
  %1 = mpc.reduce_mean %0 axes($A) : tensor<$Sxf32> -> tensor<$Rf32>
  %2 = mpc.sqrt %1 : tensor<$Rf32>
  %3 = mpc.reduce_max %x axes($A) : tensor<$Sxf32> -> tensor<$Rf32>
  %4 = mpc.reduce_sum %x axes($A) : tensor<$Sxf32> -> tensor<$Rf32>
  return %2, %3, %4 : tensor<$Rf32>, tensor<$Rf32>, tensor<$Rf32>)"),
                   {{"$S", shape}, {"$R", rows}, {"$A", axis}}),
        ofFamily("row"));
  }
  batch.add(substitute(sumKernel("20000x4", "4xf64", "[0]"), {{"$T", "f64"}}),
            ofFamily("reduction"));
  batch.add(substitute(sumKernel("3001x70", "70xf32", "[0]"), {{"$T", "bf16"}}),
            ofFamily("reduction"));
  batch.add(rowKernel("%x: tensor<2x60000xf32>", "tensor<2xi64>", R"(
  %0 = mpc.argmax %x axis(1) : tensor<2x60000xf32> -> tensor<2xi64>
  return %0 : tensor<2xi64>)"),
            ofFamily("row"));
  batch.expect();
}

TEST(CudaReductionKernel, SplitRowsLeaveTheirCountersAtZero) {
  // The second order runs on the scratch buffer of the first.
  CudaKernelCheck check = ofFamily("row");
  check.orders = {ThreadOrder::Ascending, ThreadOrder::Descending,
                  ThreadOrder::Shuffled};
  std::string text =
      substitute(sumKernel("65536", "f32", "[0]"), {{"$T", "f32"}});
  EXPECT_NE(cudaText(text).text.find("mpc::atomicAdd"), std::string::npos);
  expectCudaKernel(text, check);
}

TEST(CudaReductionKernel, Integers) {
  CudaKernelBatch batch;
  for (const char *type :
       {"i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"}) {
    addTypes(batch, {type}, reduceKernel("5x39", "5x$T", "[1]", "row"),
             ofFamily("row"));
    addTypes(batch, {type}, reduceKernel("5x40", "40x$T", "[0]", "row"),
             ofFamily("reduction"));
  }
  batch.add(rowKernel("%x: tensor<5x39xi1>", "tensor<5xi1>, tensor<5xi1>", R"(
  %0 = mpc.reduce_max %x axes([1]) : tensor<5x39xi1> -> tensor<5xi1>
  %1 = mpc.reduce_min %x axes([1]) : tensor<5x39xi1> -> tensor<5xi1>
  return %0, %1 : tensor<5xi1>, tensor<5xi1>)"),
            ofFamily("row"));
  batch.expect();
}

TEST(CudaReductionKernel, AccumulatorsPrologueAndEpilogue) {
  CudaKernelBatch batch;
  addTypes(batch, {"f16", "bf16"},
           rowKernel("%x: tensor<4x200x$T>",
                     "tensor<4xf32>, tensor<4x$T>, tensor<4xf32>", R"(
  %0 = mpc.reduce_sum %x axes([1]) : tensor<4x200x$T> -> tensor<4xf32>
  %1 = mpc.reduce_mean %x axes([1]) accumulate(f32) : tensor<4x200x$T> -> tensor<4x$T>
  %2 = mpc.reduce_sum %x axes([1]) accumulate(f64) : tensor<4x200x$T> -> tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4x$T>, tensor<4xf32>)"),
           ofFamily("row"));
  CudaKernelCheck positive = ofFamily("row");
  positive.adjust = [](unsigned, Tensor &tensor) {
    for (double &value : tensor.floats())
      value = std::abs(value);
  };
  addTypes(batch, {"f32", "bf16"},
           rowKernel("%x: tensor<6x70x$T>, %b: tensor<6x$T>", "tensor<6x$T>",
                     R"(
  %0 = mpc.mul %x, %x : (tensor<6x70x$T>, tensor<6x70x$T>) -> tensor<6x70x$T>
  %1 = mpc.reduce_mean %0 axes([1]) : tensor<6x70x$T> -> tensor<6x$T>
  %2 = mpc.add %1, %b : (tensor<6x$T>, tensor<6x$T>) -> tensor<6x$T>
  %3 = mpc.sqrt %2 : tensor<6x$T>
  return %3 : tensor<6x$T>)"),
           positive);
  batch.expect();
}

TEST(CudaReductionKernel, NanWinsAndEmptyGivesTheIdentity) {
  CudaKernelBatch batch;
  CudaKernelCheck nan;
  nan.adjust = [](unsigned, Tensor &tensor) {
    for (int64_t i = 0; i < tensor.size(); i += 45)
      tensor.floats()[i] = std::nan("");
  };
  for (auto [axes, result] : {std::pair{"[1]", "4x$T"}, {"[0]", "40x$T"}})
    addTypes(batch, {"f32", "f64"},
             substitute(
                 rowKernel("%x: tensor<4x40x$T>", "tensor<$R>, tensor<$R>", R"(
  %0 = mpc.reduce_max %x axes($A) : tensor<4x40x$T> -> tensor<$R>
  %1 = mpc.reduce_min %x axes($A) : tensor<4x40x$T> -> tensor<$R>
  return %0, %1 : tensor<$R>, tensor<$R>)"),
                 {{"$R", result}, {"$A", axes}}),
             nan);
  addTypes(batch, {"f32", "i32"}, reduceKernel("3x0", "3x$T", "[1]", "row"),
           {});
  addTypes(batch, {"f32"}, reduceKernel("0x3", "3x$T", "[0]", "row"), {});
  addTypes(batch, {"f32"}, reduceKernel("0x3", "0x$T", "[1]", "row"), {});
  addTypes(batch, {"f32"}, rowKernel("%x: tensor<0x5x$T>", "tensor<0x5x$T>", R"(
  %0 = mpc.softmax %x axis(1) : tensor<0x5x$T>
  return %0 : tensor<0x5x$T>)"),
           {});
  batch.expect();
}

TEST(CudaReductionKernel, ArgmaxAndArgmin) {
  std::string rows =
      rowKernel("%x: tensor<5x43x$T>", "tensor<5xi64>, tensor<5xi64>", R"(
  %0 = mpc.argmax %x axis(1) : tensor<5x43x$T> -> tensor<5xi64>
  %1 = mpc.argmin %x axis(1) select_last : tensor<5x43x$T> -> tensor<5xi64>
  return %0, %1 : tensor<5xi64>, tensor<5xi64>)");
  std::string columns =
      rowKernel("%x: tensor<5x44x$T>", "tensor<1x44xi64>, tensor<1x44xi64>", R"(
  %0 = mpc.argmax %x axis(0) keep_dims select_last : tensor<5x44x$T> -> tensor<1x44xi64>
  %1 = mpc.argmin %x axis(0) keep_dims : tensor<5x44x$T> -> tensor<1x44xi64>
  return %0, %1 : tensor<1x44xi64>, tensor<1x44xi64>)");
  CudaKernelBatch batch;
  addTypes(batch, {"f32", "f64", "bf16", "i8", "i32", "i64", "ui8"}, rows,
           ofFamily("row"));
  addTypes(batch, {"f32", "bf16", "i64"}, columns, ofFamily("reduction"));
  CudaKernelCheck ties;
  ties.adjust = [](unsigned, Tensor &tensor) {
    for (size_t i = 0; i < tensor.floats().size(); ++i)
      tensor.floats()[i] =
          i % 29 == 7 ? std::nan("") : static_cast<double>(i % 5);
  };
  addTypes(batch, {"f32", "f64"}, rows, ties);
  addTypes(batch, {"f32", "f64"}, columns, ties);
  CudaKernelCheck infinite;
  infinite.adjust = [](unsigned, Tensor &tensor) {
    for (double &value : tensor.floats())
      value = -std::numeric_limits<double>::infinity();
  };
  addTypes(batch, {"f32"}, rows, infinite);
  batch.expect();
}
