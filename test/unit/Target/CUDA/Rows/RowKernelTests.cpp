//===- RowKernelTests.cpp - softmax and norms as emitted ------------------===//
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

static std::string softmaxKernel(const std::string &shape,
                                 const std::string &axis,
                                 const std::string &attributes = "") {
  return substitute(rowKernel("%x: tensor<$Sx$T>",
                              "tensor<$Sx$T>, tensor<$Sx$T>", R"(
  %0 = mpc.softmax %x axis($A) : tensor<$Sx$T>
  %1 = mpc.log_softmax %x axis($A) : tensor<$Sx$T>
  return %0, %1 : tensor<$Sx$T>, tensor<$Sx$T>)",
                              attributes),
                    {{"$S", shape}, {"$A", axis}});
}

static std::string oneSoftmax(const std::string &shape, const std::string &axis,
                              const std::string &attributes = "") {
  return substitute(rowKernel("%x: tensor<$Sx$T>", "tensor<$Sx$T>", R"(
  %0 = mpc.softmax %x axis($A) : tensor<$Sx$T>
  return %0 : tensor<$Sx$T>)",
                              attributes),
                    {{"$S", shape}, {"$A", axis}});
}

static std::string normKernel(const std::string &rows,
                              const std::string &length,
                              const std::string &attributes = "") {
  return substitute(
      rowKernel("%x: tensor<$Rx$Nx$T>, %s: tensor<$Nx$T>, %b: tensor<$Nx$T>",
                "tensor<$Rx$Nx$T>, tensor<$Rx$Nx$T>, tensor<$Rx$Nx$T>", R"(
  %0 = mpc.layer_norm %x, %s, %b axis(1) epsilon(1.0e-5) : (tensor<$Rx$Nx$T>, tensor<$Nx$T>, tensor<$Nx$T>) -> tensor<$Rx$Nx$T>
  %1 = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-5) : (tensor<$Rx$Nx$T>, tensor<$Nx$T>) -> tensor<$Rx$Nx$T>
  %2 = mpc.layer_norm %x, %s axis(1) epsilon(1.0e-5) : (tensor<$Rx$Nx$T>, tensor<$Nx$T>) -> tensor<$Rx$Nx$T>
  return %0, %1, %2 : tensor<$Rx$Nx$T>, tensor<$Rx$Nx$T>, tensor<$Rx$Nx$T>)",
                attributes),
      {{"$R", rows}, {"$N", length}});
}

/// A schedule that the compiler would not choose for so few rows.
static std::string scheduled(int rows, int length, int group, int items,
                             int vector, int keep) {
  int steps = (length + group * vector - 1) / (group * vector);
  int threads = group * items;
  const char *places[] = {"nowhere", "registers", "shared"};
  return ", mpc.schedule = {family = \"row\", blocks = array<i64: " +
         std::to_string((rows + items - 1) / items) +
         ", 1, 1>, threads = " + std::to_string(threads) +
         ", team = #tile.threads<members = " + std::to_string(group) +
         ", items = " + std::to_string(items) +
         ", vector = " + std::to_string(vector) +
         ", steps = " + std::to_string(steps) + ", keep = " + places[keep] +
         ">, shared_bytes = " +
         std::to_string(keep == 2 ? 8 * steps * threads * vector : 0) + "}";
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

TEST(CudaRowKernel, SoftmaxOfAnyLength) {
  CudaKernelBatch batch;
  int rows = 3;
  for (const char *length :
       {"1",   "2",   "3",   "5",   "8",    "10",   "17",
        "31",  "32",  "33",  "64",  "100",  "127",  "128",
        "129", "256", "257", "768", "1000", "1025", "2048"}) {
    std::string shape = std::to_string(rows) + "x" + length;
    addTypes(batch, {"f32", "bf16"}, softmaxKernel(shape, "1"),
             ofFamily("row", 3.0));
    rows = rows % 7 + 1;
  }
  addTypes(batch, {"f64", "f16"}, softmaxKernel("3x50", "1"),
           ofFamily("row", 3.0));
  addTypes(batch, kFloats, softmaxKernel("2x3x4x197", "3"),
           ofFamily("row", 3.0));
  batch.expect();
}

TEST(CudaRowKernel, LongRows) {
  CudaKernelBatch batch;
  // Rows in registers, in shared memory, read again.
  for (const char *length : {"10007", "16384", "36000", "50002"})
    addTypes(batch, {"f32", "bf16"},
             oneSoftmax(std::string("2x") + length, "1"), ofFamily("row"));
  batch.add(substitute(normKernel("2", "36000"), {{"$T", "f32"}}),
            ofFamily("row"));
  batch.add(substitute(normKernel("2", "50001"), {{"$T", "bf16"}}),
            ofFamily("row"));
  batch.expect();
}

TEST(CudaRowKernel, AnyGeometry) {
  CudaKernelBatch batch;
  for (int keep = 0; keep < 3; ++keep)
    for (auto [group, items] : {std::pair{1, 32},
                                {2, 16},
                                {4, 8},
                                {16, 4},
                                {32, 2},
                                {64, 1},
                                {256, 1}})
      for (auto [length, vector] : {std::pair{37, 1}, {36, 4}, {130, 2}}) {
        int rows = 2 * items + 1;
        batch.add(
            substitute(
                oneSoftmax(std::to_string(rows) + "x" + std::to_string(length),
                           "1",
                           scheduled(rows, length, group, items, vector, keep)),
                {{"$T", "f32"}}),
            ofFamily("row", 2.0));
      }
  for (int keep = 0; keep < 3; ++keep)
    batch.add(substitute(normKernel("5", "48", scheduled(5, 48, 4, 8, 4, keep)),
                         {{"$T", "f32"}}),
              ofFamily("row"));
  batch.expect();
}

TEST(CudaRowKernel, ExtremesAndNan) {
  CudaKernelCheck check = ofFamily("row");
  check.adjust = [](unsigned, Tensor &tensor) {
    for (size_t i = 0; i < tensor.floats().size(); ++i) {
      size_t row = i / 20;
      constexpr double infinity = std::numeric_limits<double>::infinity();
      double &value = tensor.floats()[i];
      value = row == 0   ? -infinity
              : row == 1 ? (i % 3 ? -infinity : 1.0)
              : row == 2 ? 1e4 * (i % 2)
              : row == 3 ? (i % 20 == 4 ? std::nan("") : 1.0)
              : row == 4 ? (i % 20 == 7 ? infinity : 1.0)
                         : -1e4;
    }
  };
  CudaKernelBatch batch;
  addTypes(batch, {"f32", "f64", "bf16"}, oneSoftmax("6x20", "1"), check);
  // One loop for maximum and sum.
  addTypes(batch, {"f32", "f64"},
           oneSoftmax("6x20", "1", scheduled(6, 20, 2, 16, 2, 0)), check);
  batch.expect();
}

TEST(CudaRowKernel, MaskAndNarrowResult) {
  CudaKernelBatch batch;
  batch.add(
      rowKernel("%x: tensor<2x3x9x40xbf16>, %m: tensor<2x1x1x40xf32>, %k: "
                "tensor<9x40xi1>",
                "tensor<2x3x9x40xbf16>", R"(
  %c = mpc.constant dense<0.125> : tensor<f32>
  %n = mpc.constant dense<-1.0e+04> : tensor<f32>
  %0 = mpc.cast %x : tensor<2x3x9x40xbf16> to tensor<2x3x9x40xf32>
  %1 = mpc.mul %0, %c : (tensor<2x3x9x40xf32>, tensor<f32>) -> tensor<2x3x9x40xf32>
  %2 = mpc.add %1, %m : (tensor<2x3x9x40xf32>, tensor<2x1x1x40xf32>) -> tensor<2x3x9x40xf32>
  %3 = mpc.select %k, %2, %n : (tensor<9x40xi1>, tensor<2x3x9x40xf32>, tensor<f32>) -> tensor<2x3x9x40xf32>
  %4 = mpc.softmax %3 axis(3) : tensor<2x3x9x40xf32>
  %5 = mpc.cast %4 : tensor<2x3x9x40xf32> to tensor<2x3x9x40xbf16>
  return %5 : tensor<2x3x9x40xbf16>)"),
      ofFamily("row"));
  batch.expect();
}

TEST(CudaRowKernel, CrossEntropy) {
  CudaKernelBatch batch;
  CudaKernelCheck check = ofFamily("row", 2.0);
  check.adjust = [](unsigned argument, Tensor &tensor) {
    if (argument == 1)
      for (size_t i = 0; i < tensor.ints().size(); ++i)
        tensor.ints()[i] = static_cast<int64_t>(i * 7 % 40);
  };
  batch.add(rowKernel("%x: tensor<9x40xbf16>, %l: tensor<9xi64>",
                      "tensor<9xf32>, tensor<9x40xbf16>", R"(
  %on = mpc.constant dense<1.0> : tensor<f32>
  %off = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.cast %x : tensor<9x40xbf16> to tensor<9x40xf32>
  %1 = mpc.log_softmax %0 axis(1) : tensor<9x40xf32>
  %2 = mpc.one_hot %l, %on, %off depth(40) axis(1) : (tensor<9xi64>, tensor<f32>, tensor<f32>) -> tensor<9x40xf32>
  %3 = mpc.mul %1, %2 : (tensor<9x40xf32>, tensor<9x40xf32>) -> tensor<9x40xf32>
  %4 = mpc.reduce_sum %3 axes([1]) : tensor<9x40xf32> -> tensor<9xf32>
  %5 = mpc.neg %4 : tensor<9xf32>
  %6 = mpc.exp %1 : tensor<9x40xf32>
  %7 = mpc.sub %6, %2 : (tensor<9x40xf32>, tensor<9x40xf32>) -> tensor<9x40xf32>
  %8 = mpc.cast %7 : tensor<9x40xf32> to tensor<9x40xbf16>
  return %5, %8 : tensor<9xf32>, tensor<9x40xbf16>)"),
            check);
  batch.expect();
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

TEST(CudaRowKernel, NormsOfAnyLength) {
  CudaKernelBatch batch;
  for (const char *length : {"1", "7", "64", "192", "197", "768", "1030"})
    addTypes(batch, {"f32", "bf16"}, normKernel("5", length), ofFamily("row"));
  addTypes(batch, {"f64", "f16"}, normKernel("6", "70"), ofFamily("row"));
  addTypes(
      batch, {"f32"},
      rowKernel("%x: tensor<2x3x4x17x$T>, %s: tensor<4x17x$T>, %b: tensor<$T>",
                "tensor<2x3x4x17x$T>", R"(
  %0 = mpc.layer_norm %x, %s, %b axis(2) epsilon(1.0e-5) : (tensor<2x3x4x17x$T>, tensor<4x17x$T>, tensor<$T>) -> tensor<2x3x4x17x$T>
  return %0 : tensor<2x3x4x17x$T>)"),
      ofFamily("row"));
  batch.expect();
}

TEST(CudaRowKernel, ResidualThenNormInOnePass) {
  std::string text =
      rowKernel("%x: tensor<7x96xbf16>, %y: tensor<7x96xf32>, %s: "
                "tensor<96xf32>, %b: tensor<96xf32>",
                "tensor<7x96xbf16>, tensor<7x96xf32>, tensor<7x96xbf16>", R"(
  %0 = mpc.cast %x : tensor<7x96xbf16> to tensor<7x96xf32>
  %1 = mpc.gelu %y : tensor<7x96xf32>
  %2 = mpc.add %0, %1 : (tensor<7x96xf32>, tensor<7x96xf32>) -> tensor<7x96xf32>
  %3 = mpc.layer_norm %2, %s, %b axis(1) epsilon(1.0e-6) : (tensor<7x96xf32>, tensor<96xf32>, tensor<96xf32>) -> tensor<7x96xf32>
  %4 = mpc.cast %3 : tensor<7x96xf32> to tensor<7x96xbf16>
  %5 = mpc.cast %2 : tensor<7x96xf32> to tensor<7x96xbf16>
  return %4, %3, %5 : tensor<7x96xbf16>, tensor<7x96xf32>, tensor<7x96xbf16>)");
  CudaKernelBatch batch;
  batch.add(text, ofFamily("row"));
  batch.add(rowKernel("%x: tensor<2x9x64xbf16>, %y: tensor<9x2x64xbf16>, %s: "
                      "tensor<64xf32>",
                      "tensor<2x9x64xbf16>, tensor<2x9x64xbf16>", R"(
  %0 = mpc.cast %x : tensor<2x9x64xbf16> to tensor<2x9x64xf32>
  %1 = mpc.transpose %y [1, 0, 2] : tensor<9x2x64xbf16> to tensor<2x9x64xbf16>
  %2 = mpc.cast %1 : tensor<2x9x64xbf16> to tensor<2x9x64xf32>
  %3 = mpc.add %0, %2 : (tensor<2x9x64xf32>, tensor<2x9x64xf32>) -> tensor<2x9x64xf32>
  %4 = mpc.cast %3 : tensor<2x9x64xf32> to tensor<2x9x64xbf16>
  %5 = mpc.cast %4 : tensor<2x9x64xbf16> to tensor<2x9x64xf32>
  %6 = mpc.rms_norm %5, %s axis(2) epsilon(1.0e-5) : (tensor<2x9x64xf32>, tensor<64xf32>) -> tensor<2x9x64xf32>
  %7 = mpc.cast %6 : tensor<2x9x64xf32> to tensor<2x9x64xbf16>
  return %4, %7 : tensor<2x9x64xbf16>, tensor<2x9x64xbf16>)"),
            ofFamily("row"));
  batch.expect();
}

TEST(CudaRowKernel, PaddedRowsAreReadAsVectors) {
  std::string text =
      rowKernel("%x: tensor<2x9x64xbf16>, %y: tensor<7x2x64xbf16>, %s: "
                "tensor<64xf32>",
                "tensor<2x9x64xbf16>", R"(
  %z = mpc.constant dense<0.0> : tensor<bf16>
  %0 = mpc.cast %x : tensor<2x9x64xbf16> to tensor<2x9x64xf32>
  %1 = mpc.pad %y, %z low([0, 0, 0]) high([2, 0, 0]) : (tensor<7x2x64xbf16>, tensor<bf16>) -> tensor<9x2x64xbf16>
  %2 = mpc.transpose %1 [1, 0, 2] : tensor<9x2x64xbf16> to tensor<2x9x64xbf16>
  %3 = mpc.cast %2 : tensor<2x9x64xbf16> to tensor<2x9x64xf32>
  %4 = mpc.add %0, %3 : (tensor<2x9x64xf32>, tensor<2x9x64xf32>) -> tensor<2x9x64xf32>
  %5 = mpc.rms_norm %4, %s axis(2) epsilon(1.0e-5) : (tensor<2x9x64xf32>, tensor<64xf32>) -> tensor<2x9x64xf32>
  %6 = mpc.cast %5 : tensor<2x9x64xf32> to tensor<2x9x64xbf16>
  return %6 : tensor<2x9x64xbf16>)");
  EXPECT_NE(cudaText(text).text.find("mpc::load<8>("), std::string::npos)
      << cudaText(text).text;
  expectCudaKernel(text, ofFamily("row"));
}

TEST(CudaRowKernel, NormsWrittenOut) {
  CudaKernelBatch batch;
  addTypes(batch, {"f32", "f64"},
           rowKernel("%x: tensor<3x5x44x$T>",
                     "tensor<3x5x44x$T>, tensor<3x5x1x$T>", kWrittenNorm),
           ofFamily("row"));
  // The input of the squares has to be buffered.
  addTypes(batch, {"f32", "bf16"},
           rowKernel("%x: tensor<6x72x$T>", "tensor<6x72x$T>", R"(
  %0 = mpc.mul %x, %x : (tensor<6x72x$T>, tensor<6x72x$T>) -> tensor<6x72x$T>
  %1 = mpc.reduce_mean %0 axes([1]) keep_dims : tensor<6x72x$T> -> tensor<6x1x$T>
  %2 = mpc.sqrt %1 : tensor<6x1x$T>
  %3 = mpc.div %x, %2 : (tensor<6x72x$T>, tensor<6x1x$T>) -> tensor<6x72x$T>
  return %3 : tensor<6x72x$T>)"),
           ofFamily("row"));
  addTypes(batch, {"f32", "bf16"},
           rowKernel("%x: tensor<9x30x$T>", "tensor<9x30x$T>, tensor<9x$T>", R"(
  %0 = mpc.reduce_max %x axes([1]) : tensor<9x30x$T> -> tensor<9x$T>
  %1 = mpc.reshape %0 : tensor<9x$T> to tensor<9x1x$T>
  %2 = mpc.sub %x, %1 : (tensor<9x30x$T>, tensor<9x1x$T>) -> tensor<9x30x$T>
  %3 = mpc.exp %2 : tensor<9x30x$T>
  return %3, %0 : tensor<9x30x$T>, tensor<9x$T>)"),
           ofFamily("row"));
  batch.expect();
}

TEST(CudaRowKernel, WhatIsReadAtAnotherPlaceIsNotKept) {
  // The normalized tensor is also added transposed.
  CudaKernelBatch batch;
  addTypes(batch, {"f32"},
           rowKernel("%x: tensor<24x24x$T>", "tensor<24x24x$T>", R"(
  %0 = mpc.softmax %x axis(1) : tensor<24x24x$T>
  %1 = mpc.transpose %x [1, 0] : tensor<24x24x$T> to tensor<24x24x$T>
  %2 = mpc.add %0, %1 : (tensor<24x24x$T>, tensor<24x24x$T>) -> tensor<24x24x$T>
  return %2 : tensor<24x24x$T>)"),
           ofFamily("row"));
  batch.expect();
}

TEST(CudaRowKernel, GroupAndInstanceNorms) {
  CudaKernelBatch batch;
  addTypes(batch, {"f32", "bf16"},
           rowKernel("%x: tensor<2x6x5x7x$T>, %s: tensor<6x$T>, %b: "
                     "tensor<6x$T>",
                     "tensor<2x6x5x7x$T>", R"(
  %0 = mpc.group_norm %x, %s, %b groups(3) epsilon(1.0e-5) : (tensor<2x6x5x7x$T>, tensor<6x$T>, tensor<6x$T>) -> tensor<2x6x5x7x$T>
  return %0 : tensor<2x6x5x7x$T>)"),
           ofFamily("row"));
  addTypes(batch, {"f32", "bf16"},
           rowKernel("%x: tensor<2x6x4x8x$T>, %s: tensor<6x$T>, %b: "
                     "tensor<6x$T>",
                     "tensor<2x6x4x8x$T>", R"(
  %0 = mpc.instance_norm %x, %s, %b epsilon(1.0e-5) : (tensor<2x6x4x8x$T>, tensor<6x$T>, tensor<6x$T>) -> tensor<2x6x4x8x$T>
  %1 = mpc.relu %0 : tensor<2x6x4x8x$T>
  return %1 : tensor<2x6x4x8x$T>)"),
           ofFamily("row"));
  batch.expect();
}

TEST(CudaRowKernel, ResultsStoredElsewhere) {
  CudaKernelBatch batch;
  // Rows in another order.
  addTypes(batch, {"f32", "bf16"},
           rowKernel("%x: tensor<3x5x48x$T>, %s: tensor<48x$T>",
                     "tensor<5x3x48x$T>", R"(
  %0 = mpc.rms_norm %x, %s axis(2) epsilon(1.0e-5) : (tensor<3x5x48x$T>, tensor<48x$T>) -> tensor<3x5x48x$T>
  %1 = mpc.transpose %0 [1, 0, 2] : tensor<3x5x48x$T> to tensor<5x3x48x$T>
  return %1 : tensor<5x3x48x$T>)"),
           ofFamily("row"));
  // A part of the rows, under another shape, and something after that.
  batch.add(rowKernel("%x: tensor<3x5x48xbf16>, %s: tensor<48xf32>",
                      "tensor<6x48xbf16>", R"(
  %0 = mpc.cast %x : tensor<3x5x48xbf16> to tensor<3x5x48xf32>
  %1 = mpc.layer_norm %0, %s axis(2) epsilon(1.0e-5) : (tensor<3x5x48xf32>, tensor<48xf32>) -> tensor<3x5x48xf32>
  %2 = mpc.slice %1 [0, 1, 0] [3, 2, 48] : tensor<3x5x48xf32> to tensor<3x2x48xf32>
  %3 = mpc.reshape %2 : tensor<3x2x48xf32> to tensor<6x48xf32>
  %4 = mpc.gelu %3 : tensor<6x48xf32>
  %5 = mpc.cast %4 : tensor<6x48xf32> to tensor<6x48xbf16>
  return %5 : tensor<6x48xbf16>)"),
            ofFamily("row"));
  // Columns: no vectors.
  addTypes(batch, {"f32"},
           rowKernel("%x: tensor<9x20x$T>", "tensor<20x9x$T>, tensor<9x20x$T>",
                     R"(
  %0 = mpc.softmax %x axis(1) : tensor<9x20x$T>
  %1 = mpc.transpose %0 [1, 0] : tensor<9x20x$T> to tensor<20x9x$T>
  return %1, %0 : tensor<20x9x$T>, tensor<9x20x$T>)"),
           ofFamily("row"));
  addTypes(batch, {"f32"},
           rowKernel("%x: tensor<9x20x$T>", "tensor<9x7x$T>", R"(
  %0 = mpc.softmax %x axis(1) : tensor<9x20x$T>
  %1 = mpc.slice %0 [0, 11] [9, 7] : tensor<9x20x$T> to tensor<9x7x$T>
  return %1 : tensor<9x7x$T>)"),
           ofFamily("row"));
  // The rows' own input is read again at the other place.
  addTypes(batch, {"f32"},
           rowKernel("%x: tensor<6x6x32x$T>", "tensor<6x6x32x$T>", R"(
  %0 = mpc.softmax %x axis(2) : tensor<6x6x32x$T>
  %1 = mpc.transpose %0 [1, 0, 2] : tensor<6x6x32x$T> to tensor<6x6x32x$T>
  %2 = mpc.add %1, %x : (tensor<6x6x32x$T>, tensor<6x6x32x$T>) -> tensor<6x6x32x$T>
  return %2 : tensor<6x6x32x$T>)"),
           ofFamily("row"));
  // One number per row.
  addTypes(batch, {"f32", "bf16"},
           rowKernel("%x: tensor<4x6x32x$T>", "tensor<6x4x$T>", R"(
  %0 = mpc.reduce_max %x axes([2]) : tensor<4x6x32x$T> -> tensor<4x6x$T>
  %1 = mpc.transpose %0 [1, 0] : tensor<4x6x$T> to tensor<6x4x$T>
  return %1 : tensor<6x4x$T>)"),
           ofFamily("row"));
  batch.expect();
}

//===----------------------------------------------------------------------===//
// What the text says
//===----------------------------------------------------------------------===//

static size_t countOf(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + part.size()))
    ++count;
  return count;
}

TEST(CudaRowKernel, ReadsMemoryOnceByWideLoads) {
  CudaText kernel =
      cudaText(rowKernel("%x: tensor<8192x4096xbf16>, %s: tensor<4096xf32>, "
                         "%b: tensor<4096xf32>",
                         "tensor<8192x4096xbf16>", R"(
  %0 = mpc.cast %x : tensor<8192x4096xbf16> to tensor<8192x4096xf32>
  %1 = mpc.layer_norm %0, %s, %b axis(1) epsilon(1.0e-5) : (tensor<8192x4096xf32>, tensor<4096xf32>, tensor<4096xf32>) -> tensor<8192x4096xf32>
  %2 = mpc.cast %1 : tensor<8192x4096xf32> to tensor<8192x4096xbf16>
  return %2 : tensor<8192x4096xbf16>)"));
  EXPECT_EQ(kernel.error, "");
  // The row, the scale and the bias, 16 bytes and twice that.
  EXPECT_EQ(countOf(kernel.text, "mpc::load<8>"), 3u) << kernel.text;
  EXPECT_EQ(countOf(kernel.text, "mpc::load<"), 3u) << kernel.text;
}
