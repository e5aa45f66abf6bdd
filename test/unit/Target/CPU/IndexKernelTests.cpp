//===- IndexKernelTests.cpp - compiled data movement ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoopKernelText.h"

#include "gtest/gtest.h"

using namespace mpc;

static const std::vector<std::string> kAll = {"f32", "f64", "bf16", "f16", "i1",
                                              "i8",  "i32", "i64",  "ui8"};
static const std::vector<std::string> kSome = {"f32", "bf16", "i1", "i64"};

TEST(IndexKernel, TransposeInTiles) {
  struct Case {
    const char *from, *to, *permutation;
  };
  for (Case c :
       {Case{"32x48", "48x32", "[1, 0]"}, Case{"5x7", "7x5", "[1, 0]"},
        Case{"17x33", "33x17", "[1, 0]"},
        Case{"2x19x21", "2x21x19", "[0, 2, 1]"},
        Case{"2x3x8x16", "2x8x3x16", "[0, 2, 1, 3]"},
        Case{"2x3x9x10", "2x9x10x3", "[0, 2, 3, 1]"},
        Case{"2x9x10x20", "2x20x9x10", "[0, 3, 1, 2]"},
        Case{"6x20x18", "18x20x6", "[2, 1, 0]"}, Case{"3x2", "2x3", "[1, 0]"},
        Case{"1x40", "40x1", "[1, 0]"}}) {
    std::string from = std::string("tensor<") + c.from + "x$T>",
                to = std::string("tensor<") + c.to + "x$T>";
    expectForTypes(kAll,
                   loopKernel("%x: " + from, to,
                              "%0 = mpc.transpose %x " +
                                  std::string(c.permutation) + " : " + from +
                                  " to " + to + "\nreturn %0 : " + to));
  }
}

TEST(IndexKernel, TransposeInsideAChain) {
  expectForTypes({"f32", "bf16"},
                 loopKernel("%x: tensor<3x20x24x$T>, %b: tensor<20x$T>",
                            "tensor<3x24x20xf32>, tensor<3x24x20x$T>", R"(
  %0 = mpc.transpose %x [0, 2, 1] : tensor<3x20x24x$T> to tensor<3x24x20x$T>
  %1 = mpc.add %0, %b : (tensor<3x24x20x$T>, tensor<20x$T>) -> tensor<3x24x20x$T>
  %2 = mpc.cast %1 : tensor<3x24x20x$T> to tensor<3x24x20xf32>
  %3 = mpc.exp %2 : tensor<3x24x20xf32>
  return %3, %1 : tensor<3x24x20xf32>, tensor<3x24x20x$T>)"));
}

TEST(IndexKernel, TransposeOfWhatANarrowerTypeHeld) {
  for (const char *made :
       {"%a = mpc.exp %x : tensor<160x96x$T>",
        "%a = mpc.reshape %x : tensor<160x96x$T> to tensor<160x96x$T>"})
    expectForTypes({"bf16", "f16"},
                   loopKernel("%x: tensor<160x96x$T>",
                              "tensor<96x8xf32>, tensor<96x8x$T>",
                              std::string(made) + R"(
  %0 = mpc.cast %a : tensor<160x96x$T> to tensor<160x96xf32>
  %i = mpc.constant dense<[3, 1, 4, 1, 5, 9, 2, 6]> : tensor<8xi64>
  %1 = mpc.gather %0, %i axis(0) : (tensor<160x96xf32>, tensor<8xi64>) -> tensor<8x96xf32>
  %2 = mpc.transpose %1 [1, 0] : tensor<8x96xf32> to tensor<96x8xf32>
  %3 = mpc.cast %2 : tensor<96x8xf32> to tensor<96x8x$T>
  return %2, %3 : tensor<96x8xf32>, tensor<96x8x$T>)"));
}

TEST(IndexKernel, CostlyWorkOnGatheredLanes) {
  expectForTypes({"f32", "bf16"},
                 loopKernel("%x: tensor<3x50x$T>", "tensor<25x3x$T>", R"(
  %0 = mpc.slice %x [0, 1] [3, 25] strides [1, 2] : tensor<3x50x$T> to tensor<3x25x$T>
  %1 = mpc.transpose %0 [1, 0] : tensor<3x25x$T> to tensor<25x3x$T>
  %2 = mpc.exp %1 : tensor<25x3x$T>
  %3 = mpc.tanh %2 : tensor<25x3x$T>
  return %3 : tensor<25x3x$T>)"));
  expectForTypes({"f32", "bf16"},
                 loopKernel("%x: tensor<3x50x$T>", "tensor<3x25x$T>", R"(
  %0 = mpc.slice %x [0, 1] [3, 25] strides [1, 2] : tensor<3x50x$T> to tensor<3x25x$T>
  %2 = mpc.exp %0 : tensor<3x25x$T>
  %3 = mpc.tanh %2 : tensor<3x25x$T>
  return %3 : tensor<3x25x$T>)"));
}

TEST(IndexKernel, Slices) {
  expectForTypes(
      kAll,
      loopKernel("%x: tensor<5x6x40x$T>",
                 "tensor<2x6x33x$T>, tensor<3x2x40x$T>, tensor<5x6x7x$T>", R"(
  %0 = mpc.slice %x [1, 0, 3] [2, 6, 33] : tensor<5x6x40x$T> to tensor<2x6x33x$T>
  %1 = mpc.slice %x [0, 1, 0] [3, 2, 40] strides [2, 3, 1] : tensor<5x6x40x$T> to tensor<3x2x40x$T>
  %2 = mpc.slice %x [0, 0, 2] [5, 6, 7] strides [1, 1, 5] : tensor<5x6x40x$T> to tensor<5x6x7x$T>
  return %0, %1, %2 : tensor<2x6x33x$T>, tensor<3x2x40x$T>, tensor<5x6x7x$T>)"));
}

TEST(IndexKernel, ConcatAlongEveryAxis) {
  expectForTypes(
      kAll,
      loopKernel("%x: tensor<2x3x20x$T>, %y: tensor<1x3x20x$T>, %z: "
                 "tensor<2x3x7x$T>, %w: tensor<2x4x20x$T>",
                 "tensor<3x3x20x$T>, tensor<2x3x47x$T>, tensor<2x7x20x$T>", R"(
  %0 = mpc.concat %x, %y axis(0) : (tensor<2x3x20x$T>, tensor<1x3x20x$T>) -> tensor<3x3x20x$T>
  %1 = mpc.concat %x, %z, %x axis(2) : (tensor<2x3x20x$T>, tensor<2x3x7x$T>, tensor<2x3x20x$T>) -> tensor<2x3x47x$T>
  %2 = mpc.concat %x, %w axis(1) : (tensor<2x3x20x$T>, tensor<2x4x20x$T>) -> tensor<2x7x20x$T>
  return %0, %1, %2 : tensor<3x3x20x$T>, tensor<2x3x47x$T>, tensor<2x7x20x$T>)"));
}

TEST(IndexKernel, ConcatOfManyParts) {
  std::string arguments, operands, types;
  for (int i = 0; i < 40; ++i) {
    std::string name = "%a" + std::to_string(i);
    arguments += (i ? ", " : "") + name + ": tensor<3x2x$T>";
    operands += (i ? ", " : "") + name;
    types += std::string(i ? ", " : "") + "tensor<3x2x$T>";
  }
  expectForTypes(
      {"f32", "i8"},
      loopKernel(arguments, "tensor<3x80x$T>",
                 "%0 = mpc.concat " + operands + " axis(1) : (" + types +
                     ") -> tensor<3x80x$T>\nreturn %0 : tensor<3x80x$T>"));
}

TEST(IndexKernel, RotaryEmbedding) {
  expectForTypes(
      {"f32", "bf16"},
      loopKernel(
          "%x: tensor<2x4x9x32x$T>, %c: tensor<9x32x$T>, %s: tensor<9x32x$T>",
          "tensor<2x4x9x32x$T>", R"(
  %0 = mpc.slice %x [0, 0, 0, 0] [2, 4, 9, 16] : tensor<2x4x9x32x$T> to tensor<2x4x9x16x$T>
  %1 = mpc.slice %x [0, 0, 0, 16] [2, 4, 9, 16] : tensor<2x4x9x32x$T> to tensor<2x4x9x16x$T>
  %2 = mpc.neg %1 : tensor<2x4x9x16x$T>
  %3 = mpc.concat %2, %0 axis(3) : (tensor<2x4x9x16x$T>, tensor<2x4x9x16x$T>) -> tensor<2x4x9x32x$T>
  %4 = mpc.mul %x, %c : (tensor<2x4x9x32x$T>, tensor<9x32x$T>) -> tensor<2x4x9x32x$T>
  %5 = mpc.mul %3, %s : (tensor<2x4x9x32x$T>, tensor<9x32x$T>) -> tensor<2x4x9x32x$T>
  %6 = mpc.add %4, %5 : (tensor<2x4x9x32x$T>, tensor<2x4x9x32x$T>) -> tensor<2x4x9x32x$T>
  return %6 : tensor<2x4x9x32x$T>)"));
}

TEST(IndexKernel, PadWithAValue) {
  expectForTypes(
      kAll, loopKernel("%x: tensor<3x20x$T>, %v: tensor<$T>",
                       "tensor<6x33x$T>, tensor<2x15x$T>, tensor<5x60x$T>", R"(
  %0 = mpc.pad %x, %v low([1, 5]) high([2, 8]) : (tensor<3x20x$T>, tensor<$T>) -> tensor<6x33x$T>
  %1 = mpc.pad %x, %v low([-1, 2]) high([0, -7]) : (tensor<3x20x$T>, tensor<$T>) -> tensor<2x15x$T>
  %2 = mpc.pad %x, %v low([0, 1]) high([0, 1]) interior([1, 2]) : (tensor<3x20x$T>, tensor<$T>) -> tensor<5x60x$T>
  return %0, %1, %2 : tensor<6x33x$T>, tensor<2x15x$T>, tensor<5x60x$T>)"));
}

TEST(IndexKernel, PadByRepeating) {
  for (const char *mode : {"reflect", "edge", "wrap"})
    expectForTypes(kSome,
                   substitute(loopKernel("%x: tensor<4x20x$T>, %v: tensor<$T>",
                                         "tensor<9x27x$T>, tensor<4x18x$T>", R"(
  %0 = mpc.pad %x, %v low([2, 3]) high([3, 4]) mode($M) : (tensor<4x20x$T>, tensor<$T>) -> tensor<9x27x$T>
  %1 = mpc.pad %x, %v low([-1, -3]) high([1, 1]) mode($M) : (tensor<4x20x$T>, tensor<$T>) -> tensor<4x18x$T>
  return %0, %1 : tensor<9x27x$T>, tensor<4x18x$T>)"),
                              {{"$M", mode}}));
}

TEST(IndexKernel, ReverseAndBroadcast) {
  expectForTypes(kAll, loopKernel("%x: tensor<3x37x$T>, %y: tensor<3x1x$T>",
                                  "tensor<3x37x$T>, tensor<3x37x$T>, "
                                  "tensor<2x3x37x$T>, tensor<3x40x$T>",
                                  R"(
  %0 = mpc.reverse %x axes([1]) : tensor<3x37x$T>
  %1 = mpc.reverse %x axes([0, 1]) : tensor<3x37x$T>
  %2 = mpc.broadcast %x : tensor<3x37x$T> to tensor<2x3x37x$T>
  %3 = mpc.broadcast %y : tensor<3x1x$T> to tensor<3x40x$T>
  return %0, %1, %2, %3 : tensor<3x37x$T>, tensor<3x37x$T>, tensor<2x3x37x$T>, tensor<3x40x$T>)"));
}

TEST(IndexKernel, ReshapesInsideAChain) {
  expectForTypes(
      kSome,
      loopKernel("%x: tensor<4x6x10x$T>, %y: tensor<24x10x$T>",
                 "tensor<24x10x$T>, tensor<8x30x$T>, tensor<10x24x$T>", R"(
  %0 = mpc.reshape %x : tensor<4x6x10x$T> to tensor<24x10x$T>
  %1 = mpc.max %0, %y : (tensor<24x10x$T>, tensor<24x10x$T>) -> tensor<24x10x$T>
  %2 = mpc.reshape %1 : tensor<24x10x$T> to tensor<8x30x$T>
  %3 = mpc.transpose %1 [1, 0] : tensor<24x10x$T> to tensor<10x24x$T>
  return %1, %2, %3 : tensor<24x10x$T>, tensor<8x30x$T>, tensor<10x24x$T>)"));
}

TEST(IndexKernel, Gathers) {
  for (const char *index : {"i32", "i64"})
    expectForTypes(
        kAll,
        substitute(
            loopKernel(
                "%x: tensor<7x9x21x$T>, %i: tensor<3x2x$I>, %j: "
                "tensor<7x4x21x$I>, %n: tensor<5x2x$I>, %b: tensor<7x2x1x$I>",
                "tensor<3x2x9x21x$T>, tensor<7x3x2x21x$T>, tensor<7x9x3x2x$T>, "
                "tensor<7x4x21x$T>, tensor<5x21x$T>, tensor<7x2x21x$T>",
                R"(
  %0 = mpc.gather %x, %i axis(0) : (tensor<7x9x21x$T>, tensor<3x2x$I>) -> tensor<3x2x9x21x$T>
  %1 = mpc.gather %x, %i axis(1) : (tensor<7x9x21x$T>, tensor<3x2x$I>) -> tensor<7x3x2x21x$T>
  %2 = mpc.gather %x, %i axis(2) : (tensor<7x9x21x$T>, tensor<3x2x$I>) -> tensor<7x9x3x2x$T>
  %3 = mpc.gather_elements %x, %j axis(1) : (tensor<7x9x21x$T>, tensor<7x4x21x$I>) -> tensor<7x4x21x$T>
  %4 = mpc.gather_nd %x, %n : (tensor<7x9x21x$T>, tensor<5x2x$I>) -> tensor<5x21x$T>
  %5 = mpc.gather_nd %x, %b batch_dims(1) : (tensor<7x9x21x$T>, tensor<7x2x1x$I>) -> tensor<7x2x21x$T>
  return %0, %1, %2, %3, %4, %5 : tensor<3x2x9x21x$T>, tensor<7x3x2x21x$T>, tensor<7x9x3x2x$T>, tensor<7x4x21x$T>, tensor<5x21x$T>, tensor<7x2x21x$T>)"),
            {{"$I", index}}));
}

TEST(IndexKernel, EmbeddingSum) {
  expectForTypes(
      {"f32", "bf16"},
      loopKernel(
          "%w: tensor<30x48x$T>, %p: tensor<16x48x$T>, %i: tensor<2x5xi64>",
          "tensor<2x5x48xf32>", R"(
  %0 = mpc.gather %w, %i axis(0) : (tensor<30x48x$T>, tensor<2x5xi64>) -> tensor<2x5x48x$T>
  %1 = mpc.slice %p [2, 0] [5, 48] : tensor<16x48x$T> to tensor<5x48x$T>
  %2 = mpc.add %0, %1 : (tensor<2x5x48x$T>, tensor<5x48x$T>) -> tensor<2x5x48x$T>
  %3 = mpc.cast %2 : tensor<2x5x48x$T> to tensor<2x5x48xf32>
  return %3 : tensor<2x5x48xf32>)"));
}

TEST(IndexKernel, OneHotAndIota) {
  expectForTypes(
      kAll,
      loopKernel("%i: tensor<3x11xi64>, %j: tensor<4xi32>, %on: tensor<$T>, "
                 "%off: tensor<$T>",
                 "tensor<3x11x10x$T>, tensor<3x9x11x$T>, tensor<20x4x$T>", R"(
  %0 = mpc.one_hot %i, %on, %off depth(10) axis(2) : (tensor<3x11xi64>, tensor<$T>, tensor<$T>) -> tensor<3x11x10x$T>
  %1 = mpc.one_hot %i, %on, %off depth(9) axis(1) : (tensor<3x11xi64>, tensor<$T>, tensor<$T>) -> tensor<3x9x11x$T>
  %2 = mpc.one_hot %j, %on, %off depth(20) axis(0) : (tensor<4xi32>, tensor<$T>, tensor<$T>) -> tensor<20x4x$T>
  return %0, %1, %2 : tensor<3x11x10x$T>, tensor<3x9x11x$T>, tensor<20x4x$T>)"));
  expectForTypes(
      {"f32", "f64", "bf16", "f16", "i8", "i16", "i32", "i64", "ui8"},
      loopKernel("", "tensor<3x35x$T>, tensor<9x5x$T>", R"(
  %0 = mpc.iota axis(1) : tensor<3x35x$T>
  %1 = mpc.iota axis(0) : tensor<9x5x$T>
  return %0, %1 : tensor<3x35x$T>, tensor<9x5x$T>)"));
}

TEST(IndexKernel, CausalMask) {
  expectKernel(loopKernel("%x: tensor<2x17x17xf32>", "tensor<2x17x17xf32>", R"(
  %c = mpc.constant dense<-1.0e+30> : tensor<f32>
  %0 = mpc.iota axis(0) : tensor<17x17xi32>
  %1 = mpc.iota axis(1) : tensor<17x17xi32>
  %2 = mpc.compare ge %0, %1 : (tensor<17x17xi32>, tensor<17x17xi32>) -> tensor<17x17xi1>
  %3 = mpc.select %2, %x, %c : (tensor<17x17xi1>, tensor<2x17x17xf32>, tensor<f32>) -> tensor<2x17x17xf32>
  return %3 : tensor<2x17x17xf32>)"));
}
