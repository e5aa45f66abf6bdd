//===- RowKernelTests.cpp - compiled reductions, norms, pools, scans ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoopKernelText.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>

using namespace mpc;

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

TEST(ReduceKernel, OverAnyAxes) {
  expectForTypes(kFloats, reduceKernel("5x67", "5x$T", "[1]"));
  expectForTypes(kFloats, reduceKernel("6x37", "37x$T", "[0]"));
  expectForTypes(kFloats, reduceKernel("3x4x5x21", "3x5x$T", "[1, 3]"));
  expectForTypes(kFloats, reduceKernel("3x4x5x21", "4x21x$T", "[0, 2]"));
  expectForTypes({"f32", "bf16"}, reduceKernel("2x3x7x7", "2x3x$T", "[2, 3]"));
  expectForTypes({"f32", "bf16"}, reduceKernel("4x33", "$T", "[0, 1]"));
  expectForTypes({"f32", "f64"}, reduceKernel("300", "$T", "[0]"));
  // Added up in parts.
  expectForTypes({"f32", "bf16"}, reduceKernel("128x9", "9x$T", "[0]"));
  expectForTypes({"f32"}, reduceKernel("4099x37", "37x$T", "[0]"));
  expectForTypes({"f32"}, reduceKernel("2x9001", "2x$T", "[1]"));
  expectForTypes({"f32"}, reduceKernel("3x100x2x7", "2x7x$T", "[0, 1]"));
}

TEST(ReduceKernel, LongMatricesInTheOrderOfMemory) {
  auto sums = [](const std::string &rows, const std::string &columns) {
    std::string x = "tensor<" + rows + "x" + columns + "x$T>",
                r = "tensor<" + columns + "x$T>";
    return loopKernel(
        "%x: " + x, r + ", " + r + ", " + r,
        "%0 = mpc.reduce_sum %x axes([0]) : " + x + " -> " + r +
            "\n%1 = mpc.reduce_mean %x axes([0]) : " + x + " -> " + r +
            "\n%2 = mpc.reduce_max %x axes([0]) : " + x + " -> " + r +
            "\nreturn %0, %1, %2 : " + r + ", " + r + ", " + r);
  };
  expectForTypes({"f32", "bf16"}, sums("16500", "128"));
  // Three items, the last rows in a shorter part.
  expectForTypes({"f32"}, sums("1001", "2112"));
  // No good divisor: one item.
  expectForTypes({"f16"}, sums("1500", "1424"));
  // Results of one loop that the next loop reads and that are stored.
  expectForTypes({"f32", "bf16"},
                 loopKernel("%x: tensor<3x4400x160x$T>, %g: "
                            "tensor<1x1x160xf32>",
                            "tensor<1x1x160xf32>, tensor<1x1x160xf32>, "
                            "tensor<1x1x160xf32>",
                            R"(
  %0 = mpc.cast %x : tensor<3x4400x160x$T> to tensor<3x4400x160xf32>
  %1 = mpc.reduce_mean %0 axes([0, 1]) keep_dims : tensor<3x4400x160xf32> -> tensor<1x1x160xf32>
  %2 = mpc.sub %0, %1 : (tensor<3x4400x160xf32>, tensor<1x1x160xf32>) -> tensor<3x4400x160xf32>
  %3 = mpc.mul %2, %2 : (tensor<3x4400x160xf32>, tensor<3x4400x160xf32>) -> tensor<3x4400x160xf32>
  %4 = mpc.reduce_mean %3 axes([0, 1]) keep_dims : tensor<3x4400x160xf32> -> tensor<1x1x160xf32>
  %5 = mpc.mul %2, %g : (tensor<3x4400x160xf32>, tensor<1x1x160xf32>) -> tensor<3x4400x160xf32>
  %6 = mpc.reduce_max %5 axes([0, 1]) keep_dims : tensor<3x4400x160xf32> -> tensor<1x1x160xf32>
  %7 = mpc.add %4, %g : (tensor<1x1x160xf32>, tensor<1x1x160xf32>) -> tensor<1x1x160xf32>
  return %1, %7, %6 : tensor<1x1x160xf32>, tensor<1x1x160xf32>, tensor<1x1x160xf32>)"));
}

// Equal summands, whose roundings all have one sign in a single accumulator:
// the error of 8,192 of them is 8e-5. In loops over several axes, which a
// broadcast operand prevents from collapsing, no accumulator has more than 64
// summands. The check cannot detect this: the interpreter adds one by one.
TEST(ReduceKernel, LongSumsOverAnyAxesAreSplit) {
  auto fill = [](unsigned, reference::Tensor &tensor) {
    llvm::fill(tensor.floats(), double(0.15f));
  };
  for (const char *shapes : {"8x32x32x16", "16x8x64x16", "2x4096x1x16"}) {
    std::vector<std::vector<char>> results;
    KernelCheck check;
    check.adjust = fill;
    check.results = &results;
    std::string x = "tensor<" + std::string(shapes) + "xf32>";
    expectKernel(
        loopKernel("%x: " + x + ", %m: tensor<1x1x1x16xf32>", "tensor<16xf32>",
                   "%0 = mpc.add %x, %m : (" + x +
                       ", tensor<1x1x1x16xf32>) -> " + x +
                       "\n%1 = mpc.reduce_sum %0 axes([0, 1, 2]) : " + x +
                       " -> tensor<16xf32>\nreturn %1 : tensor<16xf32>"),
        check);
    ASSERT_EQ(results.size(), floatLevels().size());
    double exact = 8192 * 2 * double(0.15f);
    for (const std::vector<char> &bytes : results) {
      std::vector<float> sums(16);
      ASSERT_EQ(bytes.size(), sums.size() * sizeof(float));
      std::memcpy(sums.data(), bytes.data(), bytes.size());
      for (float sum : sums)
        EXPECT_NEAR(sum, exact, exact * (3 * 64) * 0x1p-24) << shapes;
    }
  }
}

TEST(ReduceKernel, PartsOfAProductDoNotOverflow) {
  expectForTypes({"f32"},
                 loopKernel("%x: tensor<16500x128x$T>", "tensor<128x$T>", R"(
  %0 = mpc.reduce_prod %x axes([0]) : tensor<16500x128x$T> -> tensor<128x$T>
  return %0 : tensor<128x$T>)"),
                 {1.0, 3, [](unsigned, reference::Tensor &tensor) {
                    llvm::fill(tensor.floats(), 5.0);
                    llvm::fill(tensor.floats().take_front(128), 0.0);
                  }});
}

TEST(ReduceKernel, KeepsDimensions) {
  expectForTypes({"f32", "f16"},
                 loopKernel("%x: tensor<3x4x25x$T>",
                            "tensor<3x1x25x$T>, tensor<3x4x1x$T>", R"(
  %0 = mpc.reduce_sum %x axes([1]) keep_dims : tensor<3x4x25x$T> -> tensor<3x1x25x$T>
  %1 = mpc.reduce_max %x axes([2]) keep_dims : tensor<3x4x25x$T> -> tensor<3x4x1x$T>
  return %0, %1 : tensor<3x1x25x$T>, tensor<3x4x1x$T>)"));
}

TEST(ReduceKernel, Integers) {
  for (const char *type :
       {"i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"}) {
    expectKernel(
        substitute(reduceKernel("5x39", "5x$T", "[1]"), {{"$T", type}}));
    expectKernel(
        substitute(reduceKernel("5x39", "39x$T", "[0]"), {{"$T", type}}));
  }
  expectKernel(
      loopKernel("%x: tensor<5x39xi1>", "tensor<5xi1>, tensor<5xi1>", R"(
  %0 = mpc.reduce_max %x axes([1]) : tensor<5x39xi1> -> tensor<5xi1>
  %1 = mpc.reduce_min %x axes([1]) : tensor<5x39xi1> -> tensor<5xi1>
  return %0, %1 : tensor<5xi1>, tensor<5xi1>)"));
}

TEST(ReduceKernel, WiderResultsAndAccumulators) {
  expectForTypes({"f16", "bf16"},
                 loopKernel("%x: tensor<4x200x$T>",
                            "tensor<4xf32>, tensor<4x$T>, tensor<4xf32>", R"(
  %0 = mpc.reduce_sum %x axes([1]) : tensor<4x200x$T> -> tensor<4xf32>
  %1 = mpc.reduce_mean %x axes([1]) accumulate(f32) : tensor<4x200x$T> -> tensor<4x$T>
  %2 = mpc.reduce_sum %x axes([1]) accumulate(f64) : tensor<4x200x$T> -> tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4x$T>, tensor<4xf32>)"));
}

TEST(ReduceKernel, PrologueAndEpilogue) {
  expectForTypes(
      {"f32", "bf16"},
      loopKernel("%x: tensor<6x70x$T>, %b: tensor<6x$T>", "tensor<6x$T>", R"(
  %0 = mpc.mul %x, %x : (tensor<6x70x$T>, tensor<6x70x$T>) -> tensor<6x70x$T>
  %1 = mpc.reduce_mean %0 axes([1]) : tensor<6x70x$T> -> tensor<6x$T>
  %2 = mpc.add %1, %b : (tensor<6x$T>, tensor<6x$T>) -> tensor<6x$T>
  %3 = mpc.sqrt %2 : tensor<6x$T>
  return %3 : tensor<6x$T>)"),
      {1.0, 3, [](unsigned, reference::Tensor &tensor) {
         for (double &value : tensor.floats())
           value = std::abs(value);
       }});
}

TEST(ReduceKernel, NanWinsAndEmptyGivesTheIdentity) {
  KernelCheck check;
  auto nan = [](unsigned, reference::Tensor &tensor) {
    for (int64_t i = 0; i < tensor.size(); i += 45)
      tensor.floats()[i] = NAN;
  };
  check.adjust = nan;
  expectForTypes({"f32", "f64"},
                 loopKernel("%x: tensor<4x40x$T>",
                            "tensor<4x$T>, tensor<4x$T>, tensor<40x$T>", R"(
  %0 = mpc.reduce_max %x axes([1]) : tensor<4x40x$T> -> tensor<4x$T>
  %1 = mpc.reduce_min %x axes([1]) : tensor<4x40x$T> -> tensor<4x$T>
  %2 = mpc.reduce_min %x axes([0]) : tensor<4x40x$T> -> tensor<40x$T>
  return %0, %1, %2 : tensor<4x$T>, tensor<4x$T>, tensor<40x$T>)"),
                 check);
  expectForTypes({"f32", "i32"}, reduceKernel("3x0", "3x$T", "[1]"));
}

TEST(ReduceKernel, ArgmaxAndArgmin) {
  std::string text = loopKernel(
      "%x: tensor<5x43x$T>",
      "tensor<5xi64>, tensor<5x1xi64>, tensor<43xi64>, tensor<43xi64>", R"(
  %0 = mpc.argmax %x axis(1) : tensor<5x43x$T> -> tensor<5xi64>
  %1 = mpc.argmin %x axis(1) keep_dims select_last : tensor<5x43x$T> -> tensor<5x1xi64>
  %2 = mpc.argmax %x axis(0) select_last : tensor<5x43x$T> -> tensor<43xi64>
  %3 = mpc.argmin %x axis(0) : tensor<5x43x$T> -> tensor<43xi64>
  return %0, %1, %2, %3 : tensor<5xi64>, tensor<5x1xi64>, tensor<43xi64>, tensor<43xi64>)");
  expectForTypes({"f32", "f64", "bf16", "f16", "i8", "i32", "i64", "ui8"},
                 text);
  KernelCheck check;
  auto ties = [](unsigned, reference::Tensor &tensor) {
    for (auto [i, value] : llvm::enumerate(tensor.floats()))
      value = i % 29 == 7 ? NAN : static_cast<double>(i % 5);
  };
  check.adjust = ties;
  expectForTypes({"f32", "f64"}, text, check);
  // What accumulators start from, and nothing else.
  for (double end : {-INFINITY, INFINITY}) {
    auto fill = [=](unsigned, reference::Tensor &tensor) {
      llvm::fill(tensor.floats(), end);
    };
    check.adjust = fill;
    expectForTypes({"f32", "f64"}, text, check);
  }
}

//===----------------------------------------------------------------------===//
// Softmax and norms
//===----------------------------------------------------------------------===//

TEST(RowKernel, SoftmaxAlongAnyAxis) {
  struct Case {
    const char *shape, *axis;
  };
  for (Case c : {Case{"6x50", "1"}, Case{"6x50", "0"}, Case{"3x5x33", "1"},
                 Case{"2x3x4x197", "3"}, Case{"4x1", "1"}, Case{"7", "0"},
                 Case{"3x1000", "1"}})
    expectForTypes(kFloats,
                   substitute(loopKernel("%x: tensor<$Sx$T>",
                                         "tensor<$Sx$T>, tensor<$Sx$T>", R"(
  %0 = mpc.softmax %x axis($A) : tensor<$Sx$T>
  %1 = mpc.log_softmax %x axis($A) : tensor<$Sx$T>
  return %0, %1 : tensor<$Sx$T>, tensor<$Sx$T>)"),
                              {{"$S", c.shape}, {"$A", c.axis}}),
                   {3.0, 5, nullptr});
}

TEST(RowKernel, SoftmaxOfExtremes) {
  KernelCheck check;
  auto extreme = [](unsigned, reference::Tensor &tensor) {
    for (auto [i, value] : llvm::enumerate(tensor.floats())) {
      size_t row = i / 20;
      value = row == 0   ? -INFINITY
              : row == 1 ? (i % 3 ? -INFINITY : 1.0)
              : row == 2 ? 1e4 * (i % 2)
              : row == 3 ? (i % 20 == 4 ? NAN : 1.0)
                         : -1e4;
    }
  };
  check.adjust = extreme;
  expectForTypes({"f32", "f64", "bf16"},
                 loopKernel("%x: tensor<5x20x$T>", "tensor<5x20x$T>", R"(
  %0 = mpc.softmax %x axis(1) : tensor<5x20x$T>
  return %0 : tensor<5x20x$T>)"),
                 check);
}

TEST(RowKernel, MaskedSoftmaxWithNarrowResult) {
  expectKernel(loopKernel("%x: tensor<2x3x9x40xbf16>, %m: tensor<2x1x1x40xf32>",
                          "tensor<2x3x9x40xbf16>", R"(
  %c = mpc.constant dense<0.125> : tensor<f32>
  %0 = mpc.cast %x : tensor<2x3x9x40xbf16> to tensor<2x3x9x40xf32>
  %1 = mpc.mul %0, %c : (tensor<2x3x9x40xf32>, tensor<f32>) -> tensor<2x3x9x40xf32>
  %2 = mpc.add %1, %m : (tensor<2x3x9x40xf32>, tensor<2x1x1x40xf32>) -> tensor<2x3x9x40xf32>
  %3 = mpc.softmax %2 axis(3) : tensor<2x3x9x40xf32>
  %4 = mpc.cast %3 : tensor<2x3x9x40xf32> to tensor<2x3x9x40xbf16>
  return %4 : tensor<2x3x9x40xbf16>)"));
}

TEST(RowKernel, Norms) {
  expectForTypes(
      kFloats,
      loopKernel("%x: tensor<6x70x$T>, %s: tensor<70x$T>, %b: tensor<70x$T>",
                 "tensor<6x70x$T>, tensor<6x70x$T>, tensor<6x70x$T>", R"(
  %0 = mpc.layer_norm %x, %s, %b axis(1) epsilon(1.0e-5) : (tensor<6x70x$T>, tensor<70x$T>, tensor<70x$T>) -> tensor<6x70x$T>
  %1 = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-5) : (tensor<6x70x$T>, tensor<70x$T>) -> tensor<6x70x$T>
  %2 = mpc.layer_norm %x, %s axis(1) epsilon(1.0e-5) : (tensor<6x70x$T>, tensor<70x$T>) -> tensor<6x70x$T>
  return %0, %1, %2 : tensor<6x70x$T>, tensor<6x70x$T>, tensor<6x70x$T>)"));
  expectForTypes(
      {"f32", "bf16"},
      loopKernel("%x: tensor<2x3x4x17x$T>, %s: tensor<4x17x$T>, %b: tensor<$T>",
                 "tensor<2x3x4x17x$T>", R"(
  %0 = mpc.layer_norm %x, %s, %b axis(2) epsilon(1.0e-5) : (tensor<2x3x4x17x$T>, tensor<4x17x$T>, tensor<$T>) -> tensor<2x3x4x17x$T>
  return %0 : tensor<2x3x4x17x$T>)"));
}

TEST(RowKernel, NormOfAResidualWithTwoResults) {
  expectKernel(
      loopKernel("%x: tensor<7x96xbf16>, %y: tensor<7x96xf32>, %s: "
                 "tensor<96xf32>, %b: tensor<96xf32>",
                 "tensor<7x96xbf16>, tensor<7x96xf32>, tensor<7x96xbf16>", R"(
  %0 = mpc.cast %x : tensor<7x96xbf16> to tensor<7x96xf32>
  %1 = mpc.gelu %y : tensor<7x96xf32>
  %2 = mpc.add %0, %1 : (tensor<7x96xf32>, tensor<7x96xf32>) -> tensor<7x96xf32>
  %3 = mpc.layer_norm %2, %s, %b axis(1) epsilon(1.0e-6) : (tensor<7x96xf32>, tensor<96xf32>, tensor<96xf32>) -> tensor<7x96xf32>
  %4 = mpc.cast %3 : tensor<7x96xf32> to tensor<7x96xbf16>
  %5 = mpc.cast %2 : tensor<7x96xf32> to tensor<7x96xbf16>
  return %4, %3, %5 : tensor<7x96xbf16>, tensor<7x96xf32>, tensor<7x96xbf16>)"));
}

TEST(RowKernel, NormWrittenOut) {
  expectForTypes({"f32", "f64"},
                 loopKernel("%x: tensor<3x5x44x$T>",
                            "tensor<3x5x44x$T>, tensor<3x5x1x$T>",
                            kWrittenNorm));
}

TEST(RowKernel, RowValuesThroughReshape) {
  expectForTypes(
      {"f32", "bf16"},
      loopKernel("%x: tensor<9x30x$T>", "tensor<9x30x$T>, tensor<9x$T>", R"(
  %0 = mpc.reduce_max %x axes([1]) : tensor<9x30x$T> -> tensor<9x$T>
  %1 = mpc.reshape %0 : tensor<9x$T> to tensor<9x1x$T>
  %2 = mpc.sub %x, %1 : (tensor<9x30x$T>, tensor<9x1x$T>) -> tensor<9x30x$T>
  %3 = mpc.exp %2 : tensor<9x30x$T>
  return %3, %0 : tensor<9x30x$T>, tensor<9x$T>)"));
}

TEST(RowKernel, SquareShapesDoNotConfuseRowsWithColumns) {
  // The sum over columns is a column reduction: not a row kernel.
  expectForTypes({"f32", "f64"},
                 loopKernel("%x: tensor<24x24x$T>", "tensor<24x24x$T>", R"(
  %0 = mpc.reduce_sum %x axes([1]) : tensor<24x24x$T> -> tensor<24x$T>
  %1 = mpc.add %x, %0 : (tensor<24x24x$T>, tensor<24x$T>) -> tensor<24x24x$T>
  return %1 : tensor<24x24x$T>)"));
}

TEST(RowKernel, GroupedAndBatchNorms) {
  expectForTypes(
      kFloats,
      loopKernel("%x: tensor<2x6x5x7x$T>, %s: tensor<6x$T>, %b: tensor<6x$T>, "
                 "%m: tensor<6x$T>, %v: tensor<6x$T>",
                 "tensor<2x6x5x7x$T>, tensor<2x6x5x7x$T>, tensor<2x6x5x7x$T>",
                 R"(
  %0 = mpc.group_norm %x, %s, %b groups(3) epsilon(1.0e-5) : (tensor<2x6x5x7x$T>, tensor<6x$T>, tensor<6x$T>) -> tensor<2x6x5x7x$T>
  %1 = mpc.instance_norm %x, %s, %b epsilon(1.0e-5) : (tensor<2x6x5x7x$T>, tensor<6x$T>, tensor<6x$T>) -> tensor<2x6x5x7x$T>
  %2 = mpc.batch_norm %x, %s, %b, %m, %v epsilon(1.0e-5) : (tensor<2x6x5x7x$T>, tensor<6x$T>, tensor<6x$T>, tensor<6x$T>, tensor<6x$T>) -> tensor<2x6x5x7x$T>
  return %0, %1, %2 : tensor<2x6x5x7x$T>, tensor<2x6x5x7x$T>, tensor<2x6x5x7x$T>)"),
      {1.0, 2, [](unsigned argument, reference::Tensor &tensor) {
         for (double &value : tensor.floats())
           value = argument == 4 ? std::abs(value) + 1 : value;
         tensor.roundToType();
       }});
}

TEST(RowKernel, SeveralPhases) {
  // A softmax over one axis of a softmax over another, and a norm of a scan.
  expectForTypes({"f32", "bf16"},
                 loopKernel("%x: tensor<5x30x$T>, %s: tensor<30x$T>",
                            "tensor<5x30x$T>, tensor<30x5x$T>", R"(
  %0 = mpc.softmax %x axis(1) : tensor<5x30x$T>
  %1 = mpc.softmax %0 axis(0) : tensor<5x30x$T>
  %2 = mpc.cumsum %1 axis(1) : tensor<5x30x$T>
  %3 = mpc.rms_norm %2, %s axis(1) epsilon(1.0e-3) : (tensor<5x30x$T>, tensor<30x$T>) -> tensor<5x30x$T>
  %4 = mpc.transpose %3 [1, 0] : tensor<5x30x$T> to tensor<30x5x$T>
  return %1, %4 : tensor<5x30x$T>, tensor<30x5x$T>)"));
}

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

TEST(PoolKernel, BothLayoutsWithPaddingStridesAndDilations) {
  struct Case {
    const char *spatial, *out, *attributes;
  };
  for (Case c : {Case{"9x11", "4x5",
                      "window([3, 3]) strides([2, 2]) pad([0, 0], [0, 0]) "
                      "dilations([1, 1])"},
                 Case{"9x11", "5x6",
                      "window([3, 3]) strides([2, 2]) pad([1, 1], [1, 1]) "
                      "dilations([1, 1])"},
                 Case{"9x11", "9x11",
                      "window([3, 3]) strides([1, 1]) pad([2, 2], [2, 2]) "
                      "dilations([2, 2])"},
                 Case{"9x10", "3x4",
                      "window([2, 3]) strides([3, 3]) pad([0, 1], [1, 0]) "
                      "dilations([1, 1]) ceil_mode"},
                 Case{"7x7", "1x1",
                      "window([7, 7]) strides([1, 1]) pad([0, 0], [0, 0]) "
                      "dilations([1, 1])"}}) {
    for (bool last : {true, false}) {
      auto shape = [&](const char *spatial) {
        return last ? std::string("tensor<2x") + spatial + "x20x$T>"
                    : std::string("tensor<2x20x") + spatial + "x$T>";
      };
      std::string layout = last ? " layout(channels_last)" : "";
      std::string in = shape(c.spatial), out = shape(c.out);
      expectForTypes(
          {"f32", "bf16", "f64"},
          loopKernel("%x: " + in, out + ", " + out + ", " + out,
                     "%0 = mpc.max_pool %x " + std::string(c.attributes) +
                         layout + " : " + in + " -> " + out +
                         "\n%1 = mpc.avg_pool %x " + c.attributes + layout +
                         " : " + in + " -> " + out + "\n%2 = mpc.avg_pool %x " +
                         c.attributes + " count_include_pad" + layout + " : " +
                         in + " -> " + out + "\nreturn %0, %1, %2 : " + out +
                         ", " + out + ", " + out));
    }
  }
}

TEST(PoolKernel, IntegersAndOtherRanks) {
  expectForTypes({"i8", "ui8", "i32"},
                 loopKernel("%x: tensor<2x3x17x$T>", "tensor<2x3x9x$T>", R"(
  %0 = mpc.max_pool %x window([3]) strides([2]) pad([1], [1]) dilations([1]) : tensor<2x3x17x$T> -> tensor<2x3x9x$T>
  return %0 : tensor<2x3x9x$T>)"));
  expectForTypes({"f32"}, loopKernel("%x: tensor<1x4x5x6x33x$T>",
                                     "tensor<1x2x2x3x33x$T>", R"(
  %0 = mpc.max_pool %x window([2, 2, 2]) strides([2, 2, 2]) pad([0, 0, 0], [0, 0, 0]) dilations([1, 1, 1]) layout(channels_last) : tensor<1x4x5x6x33x$T> -> tensor<1x2x2x3x33x$T>
  return %0 : tensor<1x2x2x3x33x$T>)"));
}

TEST(PoolKernel, ActivationBeforeAndAfter) {
  expectForTypes({"f32", "bf16"},
                 loopKernel("%x: tensor<2x8x8x24x$T>, %b: tensor<24x$T>",
                            "tensor<2x4x4x24x$T>", R"(
  %0 = mpc.relu %x : tensor<2x8x8x24x$T>
  %1 = mpc.avg_pool %0 window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : tensor<2x8x8x24x$T> -> tensor<2x4x4x24x$T>
  %2 = mpc.add %1, %b : (tensor<2x4x4x24x$T>, tensor<24x$T>) -> tensor<2x4x4x24x$T>
  return %2 : tensor<2x4x4x24x$T>)"));
}

//===----------------------------------------------------------------------===//
// Scans, selections, scatters
//===----------------------------------------------------------------------===//

TEST(OpaqueKernel, Cumsum) {
  for (const char *flags : {"", " exclusive", " reverse", " exclusive reverse"})
    for (const char *axis : {"0", "1", "2"})
      expectForTypes(
          {"f32", "f64", "i32", "ui8", "bf16"},
          loopKernel(
              "%x: tensor<4x5x19x$T>", "tensor<4x5x19x$T>",
              std::string("%0 = mpc.cumsum %x axis(") + axis + ")" + flags +
                  " : tensor<4x5x19x$T>\nreturn %0 : tensor<4x5x19x$T>"));
}

TEST(OpaqueKernel, TopK) {
  for (const char *axis : {"0", "1"})
    for (const char *largest : {"", " largest(false)"}) {
      std::string shape = axis[0] == '0' ? "tensor<4x9x$T>" : "tensor<12x4x$T>";
      std::string places =
          axis[0] == '0' ? "tensor<4x9xi64>" : "tensor<12x4xi64>";
      expectForTypes(
          {"f32", "bf16", "i8", "ui8", "i64", "f64"},
          loopKernel("%x: tensor<12x9x$T>", shape + ", " + places,
                     std::string("%0, %1 = mpc.top_k %x k(4) axis(") + axis +
                         ")" + (largest[0] ? "{largest = false}" : "") +
                         " : tensor<12x9x$T> -> " + shape + ", " + places +
                         "\nreturn %0, %1 : " + shape + ", " + places));
    }
  KernelCheck check;
  auto nan = [](unsigned, reference::Tensor &tensor) {
    for (auto [i, value] : llvm::enumerate(tensor.floats()))
      value = i % 7 == 3 ? NAN : static_cast<double>(i % 4);
  };
  check.adjust = nan;
  expectForTypes(
      {"f32", "f64"},
      loopKernel("%x: tensor<3x20x$T>", "tensor<3x20xi64>, tensor<3x5xi64>", R"(
  %0, %1 = mpc.top_k %x k(20) axis(1) : tensor<3x20x$T> -> tensor<3x20x$T>, tensor<3x20xi64>
  %2, %3 = mpc.top_k %x k(5) axis(1) {largest = false} : tensor<3x20x$T> -> tensor<3x5x$T>, tensor<3x5xi64>
  return %1, %3 : tensor<3x20xi64>, tensor<3x5xi64>)"),
      check);
}

TEST(OpaqueKernel, Scatters) {
  for (const char *reduction : {"none", "add", "mul", "max", "min"})
    expectForTypes(
        {"f32", "i32", "ui8", "bf16", "f64"},
        substitute(
            loopKernel("%x: tensor<6x8x$T>, %i: tensor<3x8xi64>, %u: "
                       "tensor<3x8x$T>, %n: tensor<5x1xi32>, %w: "
                       "tensor<5x8x$T>, %p: tensor<4x2xi64>, %q: tensor<4x$T>",
                       "tensor<6x8x$T>, tensor<6x8x$T>, tensor<6x8x$T>", R"(
  %0 = mpc.scatter_elements %x, %i, %u axis(0) reduction($R) : (tensor<6x8x$T>, tensor<3x8xi64>, tensor<3x8x$T>) -> tensor<6x8x$T>
  %1 = mpc.scatter_nd %x, %n, %w reduction($R) : (tensor<6x8x$T>, tensor<5x1xi32>, tensor<5x8x$T>) -> tensor<6x8x$T>
  %2 = mpc.scatter_nd %x, %p, %q reduction($R) : (tensor<6x8x$T>, tensor<4x2xi64>, tensor<4x$T>) -> tensor<6x8x$T>
  return %0, %1, %2 : tensor<6x8x$T>, tensor<6x8x$T>, tensor<6x8x$T>)"),
            {{"$R", reduction}}));
}

TEST(OpaqueKernel, ScatterWithWorkAround) {
  expectForTypes(
      {"f32", "bf16"},
      loopKernel("%x: tensor<6x8x$T>, %i: tensor<6x3xi64>, %u: tensor<6x3x$T>",
                 "tensor<6x8x$T>", R"(
  %0 = mpc.exp %x : tensor<6x8x$T>
  %1 = mpc.neg %u : tensor<6x3x$T>
  %2 = mpc.scatter_elements %0, %i, %1 axis(1) reduction(add) : (tensor<6x8x$T>, tensor<6x3xi64>, tensor<6x3x$T>) -> tensor<6x8x$T>
  %3 = mpc.tanh %2 : tensor<6x8x$T>
  return %3 : tensor<6x8x$T>)"));
}
