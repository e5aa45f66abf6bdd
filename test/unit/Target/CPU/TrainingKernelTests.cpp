//===- TrainingKernelTests.cpp - kernels of training steps ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompiledKernel.h"
#include "KernelRunner.h"
#include "LoopKernelText.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <array>
#include <cstring>
#include <limits>

using namespace mpc;
using namespace mpc::cpu;

//===----------------------------------------------------------------------===//
// random_bits
//===----------------------------------------------------------------------===//

/// Philox4x32-10 as Salmon et al. give it (SC 2011, section 3.2).
static std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                      std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t first = uint64_t(0xD2511F53) * counter[0],
             second = uint64_t(0xCD9E8D57) * counter[2];
    counter = {static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(second),
               static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// Known answers that come with the authors' library.
TEST(RandomBits, TheFormulaGivesTheAuthorsAnswers) {
  using Block = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomBits, AreThoseOfTheCounter) {
  int64_t state[] = {0x1234567890abcdef, int64_t(1) << 33 | 77};
  for (CpuIsa isa : floatLevels())
    for (std::array<int64_t, 2> shape : {std::array<int64_t, 2>{1, 1},
                                         {3, 5},
                                         {7, 33},
                                         {2, 5003},
                                         {5, 64},
                                         {3, 52}}) {
      std::string type =
          llvm::formatv("tensor<{0}x{1}xi32>", shape[0], shape[1]);
      Compiled kernel(loopKernel("%s: tensor<2xi64>", type,
                                 "%r = mpc.random_bits %s stream(9) : "
                                 "tensor<2xi64> -> " +
                                     type + "\nreturn %r : " + type),
                      CpuTarget{isa});
      ASSERT_TRUE(kernel.ok());
      std::vector<uint32_t> bits(shape[0] * shape[1]);
      kernel.run({state, bits.data()});
      for (size_t i = 0; i < bits.size(); ++i)
        ASSERT_EQ(bits[i], philox({static_cast<uint32_t>(i / 4), 0, 9, 77},
                                  {0x90abcdef, 0x12345678})[i % 4])
            << i;
    }
}

// Dropout: vectors of values and of random bits in one kernel.
TEST(RandomBits, SelectElements) {
  expectKernel(loopKernel("%x: tensor<6x50xf32>, %s: tensor<2xi64>",
                          "tensor<6x50xf32>", R"(
  %limit = mpc.constant dense<0> : tensor<i32>
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %bits = mpc.random_bits %s stream(3) : tensor<2xi64> -> tensor<6x50xi32>
  %keep = mpc.compare ge %bits, %limit : (tensor<6x50xi32>, tensor<i32>) -> tensor<6x50xi1>
  %r = mpc.select %keep, %x, %zero : (tensor<6x50xi1>, tensor<6x50xf32>, tensor<f32>) -> tensor<6x50xf32>
  return %r : tensor<6x50xf32>)"));
}

//===----------------------------------------------------------------------===//
// Gradients of pools and filters
//===----------------------------------------------------------------------===//

/// Both pools' gradients of images `in` with outputs `out`.
static void expectPools(const std::string &in, const std::string &out,
                        const std::string &attributes,
                        const std::string &count = "",
                        const std::vector<std::string> &types = {"f32"}) {
  for (const std::string &type : types) {
    std::string input = "tensor<" + in + "x" + type + ">",
                gradient = "tensor<" + out + "x" + type + ">";
    expectKernel(loopKernel("%x: " + input + ", %g: " + gradient, input,
                            "%r = mpc.max_pool_gradient %x, %g " + attributes +
                                " : (" + input + ", " + gradient + ") -> " +
                                input + "\nreturn %r : " + input));
    std::string layout = attributes;
    size_t at = layout.find("layout");
    layout.insert(at == std::string::npos ? layout.size() : at, count + " ");
    expectKernel(loopKernel("%g: " + gradient, input,
                            "%r = mpc.avg_pool_gradient %g " + layout + " : " +
                                gradient + " -> " + input +
                                "\nreturn %r : " + input));
  }
}

TEST(PoolGradient, DisjointWindows) {
  expectPools("2x6x8x20", "2x3x4x20",
              "window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) "
              "dilations([1, 1]) layout(channels_last)",
              "", {"f32", "bf16", "f64"});
  // The last row and column belong to no window.
  expectPools("2x3x7x9", "2x3x3x4",
              "window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) "
              "dilations([1, 1])");
}

TEST(PoolGradient, WindowsThatOverlap) {
  expectPools("1x7x9x5", "1x4x5x5",
              "window([3, 3]) strides([2, 2]) pad([1, 1], [1, 1]) "
              "dilations([1, 1]) layout(channels_last)");
  expectPools("1x7x9x5", "1x4x5x5",
              "window([3, 3]) strides([2, 2]) pad([1, 1], [1, 1]) "
              "dilations([1, 1]) layout(channels_last)",
              "count_include_pad");
}

// Channels in whole vectors: the maximum of each window is computed once for
// several rows.
TEST(PoolGradient, VectorsOfChannels) {
  const char *all[] = {"19x11x32", "10x6x32",
                       "window([3, 3]) strides([2, 2]) pad([1, 1], [1, 1])"};
  const char *others[][3] = {
      {"17x5x16", "16x4x16",
       "window([2, 2]) strides([1, 1]) pad([0, 0], [0, 0])"},
      // Some rows and columns belong to no window.
      {"18x7x8", "6x2x8", "window([2, 2]) strides([3, 3]) pad([0, 0], [0, 0])"},
      {"9x6x48", "4x2x48",
       "window([5, 3]) strides([2, 4]) pad([1, 2], [2, 1])"}};
  auto expect = [](const char *const *pool,
                   const std::vector<std::string> &types) {
    expectPools(std::string("2x") + pool[0], std::string("2x") + pool[1],
                std::string(pool[2]) +
                    " dilations([1, 1]) layout(channels_last)",
                "", types);
  };
  expect(all, {"f32", "bf16", "f16", "f64"});
  for (const auto &pool : others)
    expect(pool, {"f32"});
}

TEST(PoolGradient, WindowsWithHoles) {
  expectPools("2x2x11", "2x2x7",
              "window([3]) strides([1]) pad([0], [0]) dilations([2])");
  expectPools("2x2x11", "2x2x3",
              "window([2]) strides([4]) pad([0], [1]) dilations([3])");
  expectPools("1x2x12", "1x2x5",
              "window([2]) strides([3]) pad([1], [0]) dilations([1]) "
              "ceil_mode");
}

// Of equal elements the first is the maximum, and a NaN precedes all numbers.
TEST(PoolGradient, TiesAndNaN) {
  KernelCheck check;
  auto spoil = [](unsigned index, reference::Tensor &tensor) {
    if (index != 0)
      return;
    auto values = tensor.floats();
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>(i / 3 % 3);
    values[10] = values[12] = std::numeric_limits<double>::quiet_NaN();
    values[20] = -std::numeric_limits<double>::infinity();
  };
  check.adjust = spoil;
  for (std::string channels : {"3", "16"}) {
    std::string input = "tensor<1x6x6x" + channels + "xf32>",
                gradient = "tensor<1x5x5x" + channels + "xf32>";
    expectKernel(
        loopKernel("%x: " + input + ", %g: " + gradient, input,
                   "%r = mpc.max_pool_gradient %x, %g window([2, 2]) "
                   "strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) "
                   "layout(channels_last) : (" +
                       input + ", " + gradient + ") -> " + input +
                       "\nreturn %r : " + input),
        check);
  }
}

// A window of nothing but the least number has a largest element too, the
// first.
TEST(PoolGradient, LeastNumbers) {
  KernelCheck check;
  auto leave = [](unsigned index, reference::Tensor &tensor) {
    if (index == 0)
      llvm::fill(tensor.floats(), -std::numeric_limits<double>::infinity());
  };
  check.adjust = leave;
  std::string input = "tensor<1x5x5x16xf32>", gradient = "tensor<1x3x3x16xf32>";
  expectKernel(
      loopKernel("%x: " + input + ", %g: " + gradient, input,
                 "%r = mpc.max_pool_gradient %x, %g window([3, 3]) "
                 "strides([2, 2]) pad([1, 1], [1, 1]) dilations([1, 1]) "
                 "layout(channels_last) : (" +
                     input + ", " + gradient + ") -> " + input +
                     "\nreturn %r : " + input),
      check);
}

/// A filter gradient, checked against the equivalent convolution: channels of
/// the input as images, the gradient as filter, strides and dilations swapped.
/// `filter` is [O, C, h, w].
static void expectFilterGradient(std::array<int64_t, 4> x,
                                 std::array<int64_t, 4> filter, int64_t stride,
                                 int64_t pad, int64_t dilation,
                                 const std::string &type, bool last) {
  auto [n, c, h, w] = x;
  auto [o, unused, kh, kw] = filter;
  int64_t p = (h + 2 * pad - (kh - 1) * dilation - 1) / stride + 1,
          q = (w + 2 * pad - (kw - 1) * dilation - 1) / stride + 1;
  // Rows of the input that no window reaches make the convolution longer.
  int64_t allH = (h + 2 * pad - (p - 1) * stride - 1) / dilation + 1,
          allW = (w + 2 * pad - (q - 1) * stride - 1) / dilation + 1;
  auto tensor = [&](std::array<int64_t, 4> shape, const std::string &element) {
    return llvm::formatv("tensor<{0}x{1}x{2}x{3}x{4}>", shape[0], shape[1],
                         shape[2], shape[3], element)
        .str();
  };
  std::string image = last ? tensor({n, h, w, c}, type)
                           : tensor({n, c, h, w}, type),
              gradient = last ? tensor({n, p, q, o}, type)
                              : tensor({n, o, p, q}, type),
              result = tensor({o, c, kh, kw}, "f32");
  auto attributes = [&](int64_t strides, int64_t dilations) {
    return llvm::formatv("strides([{0}, {0}]) pad([{1}, {1}], [{1}, {1}]) "
                         "dilations([{2}, {2}])",
                         strides, pad, dilations)
        .str();
  };
  std::string arguments = "%x: " + image + ", %g: " + gradient;
  auto kernel = [&](const std::string &body) {
    return "func.func private @k(" + arguments + ") -> " + result +
           " attributes {mpc.kernel_kind = \"convolution\"} {\n" + body +
           "\nreturn %r : " + result + "\n}\n";
  };
  std::string compiled = kernel(
      "%r = mpc.conv_filter_gradient %x, %g " + attributes(stride, dilation) +
      (last ? " layout(channels_last)" : "") + " : (" + image + ", " +
      gradient + ") -> " + result);
  std::string order = last ? "[3, 0, 1, 2]" : "[1, 0, 2, 3]";
  std::string images = tensor({c, n, h, w}, type),
              filters = tensor({o, n, p, q}, type),
              all = tensor({c, o, allH, allW}, "f32"),
              cut = tensor({c, o, kh, kw}, "f32");
  std::string text = kernel(
      "%a = mpc.transpose %x " + order + " : " + image + " to " + images +
      "\n%b = mpc.transpose %g " + order + " : " + gradient + " to " + filters +
      "\n%c = mpc.conv %a, %b " + attributes(dilation, stride) + " : (" +
      images + ", " + filters + ") -> " + all +
      llvm::formatv("\n%d = mpc.slice %c [0, 0, 0, 0] [{0}, {1}, {2}, {3}] : ",
                    c, o, kh, kw)
          .str() +
      all + " to " + cut + "\n%r = mpc.transpose %d [1, 0, 2, 3] : " + cut +
      " to " + result);
  for (CpuIsa isa : floatLevels()) {
    KernelCheck check;
    check.compiled = compiled;
    EXPECT_EQ(checkKernel(text, CpuTarget{isa}, check), "") << compiled;
  }
}

TEST(FilterGradient, IsAConvolutionWithTheGradient) {
  for (bool last : {true, false}) {
    expectFilterGradient({2, 32, 9, 9}, {40, 32, 3, 3}, 1, 0, 1, "f32", last);
    expectFilterGradient({3, 1, 12, 12}, {32, 1, 3, 3}, 1, 0, 1, "f32", last);
    expectFilterGradient({2, 3, 11, 10}, {16, 3, 5, 5}, 2, 2, 1, "f32", last);
    expectFilterGradient({2, 20, 7, 8}, {33, 20, 1, 1}, 1, 0, 1, "bf16", last);
    expectFilterGradient({1, 5, 13, 13}, {10, 5, 3, 3}, 1, 2, 2, "f16", last);
    expectFilterGradient({2, 64, 14, 14}, {64, 64, 3, 3}, 2, 1, 1, "bf16",
                         last);
  }
}

/// Tiles of some channels, copies with their own pitch, pairs at the end of odd
/// rows, in the padding and with a stride; the filter stored by rows.
TEST(FilterGradient, OfManyChannelsAndSmallImages) {
  for (const char *type : {"f32", "bf16"}) {
    expectFilterGradient({4, 40, 7, 7}, {32, 40, 3, 3}, 1, 1, 1, type, true);
    expectFilterGradient({6, 256, 5, 3}, {64, 256, 1, 1}, 1, 0, 1, type, true);
    expectFilterGradient({2, 70, 9, 8}, {96, 70, 1, 1}, 2, 0, 1, type, true);
    expectFilterGradient({3, 33, 6, 9}, {16, 33, 3, 3}, 2, 1, 1, type, true);
    expectFilterGradient({2, 20, 8, 8}, {16, 20, 2, 2}, 1, 0, 2, type, true);
    expectFilterGradient({2, 2, 8, 9}, {32, 2, 3, 3}, 1, 1, 1, type, true);
  }
}

TEST(FilterGradient, OfGroups) {
  auto text = [](const std::string &x, const std::string &g,
                 const std::string &w, int groups) {
    return "func.func private @k(%x: " + x + ", %g: " + g + ") -> " + w +
           " attributes {mpc.kernel_kind = \"convolution\"} {\n"
           "%r = mpc.conv_filter_gradient %x, %g strides([1, 1]) "
           "pad([1, 1], [1, 1]) dilations([1, 1]) groups(" +
           std::to_string(groups) + ") layout(channels_last) : (" + x + ", " +
           g + ") -> " + w + "\nreturn %r : " + w + "\n}\n";
  };
  expectKernel(text("tensor<2x6x6x8xf32>", "tensor<2x6x6x12xf32>",
                    "tensor<12x4x3x3xf32>", 2));
  expectKernel(text("tensor<2x6x6x8xf32>", "tensor<2x6x6x8xf32>",
                    "tensor<8x1x3x3xf32>", 8));
}

TEST(FilterGradient, EndsInAnEpilogue) {
  expectKernel(R"(
func.func private @k(%x: tensor<2x6x6x8xbf16>, %g: tensor<2x4x4x20xbf16>) -> (tensor<20x8x3x3xbf16>, tensor<20x8x3x3xf32>)
    attributes {mpc.kernel_kind = "convolution"} {
  %0 = mpc.conv_filter_gradient %x, %g strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<2x6x6x8xbf16>, tensor<2x4x4x20xbf16>) -> tensor<20x8x3x3xf32>
  %1 = mpc.cast %0 : tensor<20x8x3x3xf32> to tensor<20x8x3x3xbf16>
  %2 = mpc.neg %0 : tensor<20x8x3x3xf32>
  return %1, %2 : tensor<20x8x3x3xbf16>, tensor<20x8x3x3xf32>
})");
}

//===----------------------------------------------------------------------===//
// Checks of gradients
//===----------------------------------------------------------------------===//

/// Finite check and norm of gradients of several shapes and types.
static std::string checksKernel(const std::string &unscale, bool ofNorms) {
  std::string operands =
      std::string("%a, %b, %c") + (unscale.empty() ? "" : " unscale(%u)");
  std::string types =
      "(tensor<40x1000xf16>, tensor<7xf32>, tensor<3x2x5xbf16>" +
      std::string(unscale.empty() ? "" : ", tensor<f32>") + ")";
  std::string mode =
      unscale == "divide" ? " {unscale_mode = #mpc<unscale_mode divide>}" : "";
  std::string form = !ofNorms ? mode
                     : mode.empty()
                         ? " {of_norms}"
                         : mode.substr(0, mode.size() - 1) + ", of_norms}";
  return loopKernel(
      "%a: tensor<40x1000xf16>, %b: tensor<7xf32>, %c: tensor<3x2x5xbf16>, "
      "%u: tensor<f32>",
      "tensor<i1>, tensor<2xi64>, tensor<f32>, tensor<f32>",
      "%finite, %record = mpc.all_finite " + operands +
          " names([\"a\", \"b\", \"c\"])" + mode + " : " + types +
          " -> (tensor<i1>, tensor<2xi64>)\n%norm = mpc.global_norm " +
          operands + form + " : " + types +
          " -> tensor<f32>\n"
          "%twice = mpc.add %norm, %norm : (tensor<f32>, tensor<f32>) -> "
          "tensor<f32>\n"
          "%r = mpc.select %finite, %twice, %u : (tensor<i1>, tensor<f32>, "
          "tensor<f32>) -> tensor<f32>\n"
          "return %finite, %record, %norm, %r : tensor<i1>, tensor<2xi64>, "
          "tensor<f32>, tensor<f32>");
}

TEST(GradientChecks, OfFiniteGradients) {
  for (const char *unscale : {"", "multiply", "divide"})
    for (bool ofNorms : {false, true})
      expectKernel(checksKernel(unscale, ofNorms));
}

TEST(GradientChecks, RecordTheFirstTensor) {
  double infinity = std::numeric_limits<double>::infinity(),
         nan = std::numeric_limits<double>::quiet_NaN();
  for (unsigned bad : {1, 2})
    for (double value : {infinity, -infinity, nan}) {
      KernelCheck check;
      auto spoil = [&](unsigned index, reference::Tensor &tensor) {
        if (index == bad || index == 2)
          tensor.floats().back() = value;
      };
      check.adjust = spoil;
      std::string text = loopKernel(
          "%a: tensor<40x1000xf16>, %b: tensor<7xf32>, %c: tensor<20001xbf16>",
          "tensor<i1>, tensor<2xi64>",
          "%finite, %record = mpc.all_finite %a, %b, %c names([\"a\", \"b\", "
          "\"c\"]) : (tensor<40x1000xf16>, tensor<7xf32>, tensor<20001xbf16>) "
          "-> (tensor<i1>, tensor<2xi64>)\nreturn %finite, %record : "
          "tensor<i1>, tensor<2xi64>");
      expectKernel(text, check);
    }
}

// Every element counts: one that is not finite, at each end of each piece.
TEST(GradientChecks, FindEveryElement) {
  constexpr int64_t kCount = 40000;
  std::string text =
      loopKernel("%a: tensor<40000xf32>", "tensor<i1>, tensor<2xi64>",
                 "%f, %r = mpc.all_finite %a names([\"a\"]) : "
                 "(tensor<40000xf32>) -> (tensor<i1>, tensor<2xi64>)\n"
                 "return %f, %r : tensor<i1>, tensor<2xi64>");
  for (CpuIsa isa : floatLevels()) {
    Compiled kernel(text, CpuTarget{isa});
    ASSERT_TRUE(kernel.ok());
    std::vector<float> values(kCount, 3e38f);
    uint8_t finite = 0;
    int64_t record[2];
    kernel.run({values.data(), &finite, record});
    EXPECT_EQ(finite, 1);
    for (int64_t place : {0, 1, 63, 64, 16383, 16384, 32767, 32768, 39935,
                          39936, 39998, 39999}) {
      values[place] = std::numeric_limits<float>::infinity();
      kernel.run({values.data(), &finite, record});
      EXPECT_EQ(finite, 0) << place;
      EXPECT_EQ(record[0], 0);
      EXPECT_EQ(record[1], 1);
      values[place] = 1;
    }
  }
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

/// Momentum on two parameters and a counter; `attributes` go to the function.
static std::string updateKernel(const std::string &attributes) {
  auto parameter = [](const std::string &n, const std::string &type,
                      const std::string &narrow) {
    std::string both = "(" + type + ", tensor<f32>) -> " + type,
                same = "(" + type + ", " + type + ") -> " + type;
    return "%m" + n + "0 = mpc.mul %m" + n + ", %mu : " + both + "\n%m" + n +
           "1 = mpc.add %m" + n + "0, %g" + n + " : " + same + "\n%d" + n +
           " = mpc.mul %m" + n + "1, %lr : " + both + "\n%w" + n +
           "1 = mpc.sub %w" + n + ", %d" + n + " : " + same + "\n%c" + n +
           " = mpc.cast %w" + n + "1 : " + type + " to " + narrow + "\n";
  };
  std::string first = "tensor<50x101xf32>", second = "tensor<7x3x3xf32>",
              firstNarrow = "tensor<50x101xbf16>",
              secondNarrow = "tensor<7x3x3xbf16>";
  std::string results = first + ", " + first + ", " + firstNarrow + ", " +
                        second + ", " + second + ", " + secondNarrow +
                        ", tensor<i64>";
  return "func.func private @k(%wa: " + first + ", %ma: " + first +
         ", %ga: " + first + ", %wb: " + second + ", %mb: " + second +
         ", %gb: " + second + ", %step: tensor<i64>) -> (" + results +
         ") attributes {mpc.kernel_kind = \"update\"" + attributes + "} {\n" +
         R"(
  %one = mpc.constant dense<1> : tensor<i64>
  %base = mpc.constant dense<0.5> : tensor<f32>
  %mu = mpc.constant dense<0.9> : tensor<f32>
  %t = mpc.add %step, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %tf = mpc.cast %t : tensor<i64> to tensor<f32>
  %square = mpc.mul %tf, %tf : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %lr = mpc.div %base, %square : (tensor<f32>, tensor<f32>) -> tensor<f32>
)" + parameter("a", first, firstNarrow) +
         parameter("b", second, secondNarrow) +
         "return %wa1, %ma1, %ca, %wb1, %mb1, %cb, %t : " + results + "\n}\n";
}

TEST(UpdateKernel, OfSeveralShapes) {
  KernelCheck check;
  auto count = [](unsigned index, reference::Tensor &tensor) {
    if (index == 6)
      tensor.ints()[0] = 4;
  };
  check.adjust = count;
  expectKernel(updateKernel(""), check);
}

// Results over the arguments that they replace, element for element.
TEST(UpdateKernel, InPlace) {
  for (CpuIsa isa : floatLevels()) {
    Compiled apart(updateKernel(""), CpuTarget{isa});
    Compiled inPlace(updateKernel(", exe.in_place = array<i64: 0, 1, 3, 4>"),
                     CpuTarget{isa});
    ASSERT_TRUE(apart.ok() && inPlace.ok());
    constexpr size_t kFirst = 50 * 101, kSecond = 7 * 3 * 3;
    auto filled = [](size_t count, float start) {
      std::vector<float> values(count);
      for (size_t i = 0; i < count; ++i)
        values[i] = start + 0.01f * static_cast<float>(i % 97);
      return values;
    };
    std::vector<float> wa = filled(kFirst, 1), ma = filled(kFirst, 2),
                       ga = filled(kFirst, 3), wb = filled(kSecond, 4),
                       mb = filled(kSecond, 5), gb = filled(kSecond, 6);
    std::vector<float> newWa(kFirst), newMa(kFirst), newWb(kSecond),
        newMb(kSecond);
    std::vector<uint16_t> ca(kFirst), cb(kSecond), ca2(kFirst), cb2(kSecond);
    int64_t step = 2, next = 0, next2 = 0;
    apart.run({wa.data(), ma.data(), ga.data(), wb.data(), mb.data(), gb.data(),
               &step, newWa.data(), newMa.data(), ca.data(), newWb.data(),
               newMb.data(), cb.data(), &next});
    inPlace.run({wa.data(), ma.data(), ga.data(), wb.data(), mb.data(),
                 gb.data(), &step, wa.data(), ma.data(), ca2.data(), wb.data(),
                 mb.data(), cb2.data(), &next2});
    EXPECT_EQ(wa, newWa);
    EXPECT_EQ(ma, newMa);
    EXPECT_EQ(wb, newWb);
    EXPECT_EQ(mb, newMb);
    EXPECT_EQ(ca, ca2);
    EXPECT_EQ(cb, cb2);
    EXPECT_EQ(next, 3);
    EXPECT_EQ(next2, 3);
  }
}
