//===- ElementwiseKernelTests.cpp - compiled elementwise kernels ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../NarrowFloatKernel.h"
#include "LoopKernelText.h"

#include "gtest/gtest.h"

#include <bit>
#include <cmath>
#include <random>

using namespace mpc;

//===----------------------------------------------------------------------===//
// One operand
//===----------------------------------------------------------------------===//

TEST(ElementwiseKernel, SimpleUnaryOps) {
  expectForTypes(
      kFloats, unaryKernel({"abs", "neg", "sign", "floor", "ceil", "round",
                            "relu", "leaky_relu alpha(0.01)", "elu alpha(1.5)"},
                           "tensor<3x37x$T>"));
}

TEST(ElementwiseKernel, Exponentials) {
  expectForTypes(kFloats, unaryKernel({"exp", "expm1", "tanh", "sigmoid",
                                       "silu", "softplus", "sinh", "cosh"},
                                      "tensor<5x21x$T>"));
}

TEST(ElementwiseKernel, TrigonometryAndErrorFunction) {
  expectForTypes(kFloats, unaryKernel({"sin", "cos", "tan", "atan", "asinh",
                                       "erf", "gelu", "gelu form(tanh)"},
                                      "tensor<100x$T>"));
}

TEST(ElementwiseKernel, LogarithmsAndRootsOfPositiveNumbers) {
  KernelCheck check;
  auto positive = [](unsigned, reference::Tensor &tensor) {
    for (double &value : tensor.floats())
      value =
          reference::roundTo(std::abs(value) + 1.0, tensor.getElementType());
  };
  check.adjust = positive;
  expectForTypes(
      kFloats,
      unaryKernel({"log", "log1p", "sqrt", "rsqrt", "reciprocal", "acosh"},
                  "tensor<77x$T>"),
      check);
}

TEST(ElementwiseKernel, InverseFunctionsInsideTheUnitInterval) {
  KernelCheck check;
  auto inside = [](unsigned, reference::Tensor &tensor) {
    for (double &value : tensor.floats())
      value = reference::roundTo(std::tanh(value), tensor.getElementType());
  };
  check.adjust = inside;
  expectForTypes(
      kFloats,
      unaryKernel({"asin", "acos", "atanh", "log1p"}, "tensor<2x50x$T>"),
      check);
}

TEST(ElementwiseKernel, SpecialValues) {
  KernelCheck check;
  auto special = [](unsigned, reference::Tensor &tensor) {
    const double values[] = {0.0,   -0.0, INFINITY, -INFINITY, NAN,
                             1.0,   -1.0, 0.5,      -0.5,      1e30,
                             -1e30, 88.0, -88.0,    1e-30};
    for (auto [i, value] : llvm::enumerate(tensor.floats()))
      value = reference::roundTo(values[i % std::size(values)],
                                 tensor.getElementType());
  };
  check.adjust = special;
  std::vector<std::string> ops = {
      "abs",   "neg",   "sign",  "floor", "relu",     "exp",
      "expm1", "log",   "log1p", "sqrt",  "tanh",     "sigmoid",
      "erf",   "atan",  "asin",  "acos",  "atanh",    "sinh",
      "cosh",  "asinh", "acosh", "silu",  "softplus", "reciprocal"};
  expectForTypes({"f32", "f64"}, unaryKernel(ops, "tensor<30x$T>"), check);
  // One element at a time.
  expectForTypes({"f32", "f64"}, unaryKernel(ops, "tensor<1x1x$T>"), check);
}

TEST(ElementwiseKernel, NarrowFloats) {
  for (const NamedFormat &named : kNarrowFormats) {
    KernelCheck check;
    auto fill = [&](unsigned, reference::Tensor &tensor) {
      fillForFormat(*named.format, tensor);
    };
    check.adjust = fill;
    expectForTypes(kFloats, narrowFloatKernel(named), check);
  }
}

TEST(ElementwiseKernel, Classification) {
  KernelCheck check;
  auto special = [](unsigned, reference::Tensor &tensor) {
    const double values[] = {0.0, INFINITY, -INFINITY, NAN, 1.0};
    for (auto [i, value] : llvm::enumerate(tensor.floats()))
      value = values[i % 5];
  };
  check.adjust = special;
  expectForTypes(
      kFloats,
      loopKernel("%x: tensor<23x$T>",
                 "tensor<23xi1>, tensor<23xi1>, tensor<23xi1>, tensor<23xi1>",
                 R"(
  %0 = mpc.is_nan %x : tensor<23x$T> -> tensor<23xi1>
  %1 = mpc.is_inf %x : tensor<23x$T> -> tensor<23xi1>
  %2 = mpc.is_inf %x {positive = false} : tensor<23x$T> -> tensor<23xi1>
  %3 = mpc.is_inf %x {negative = false} : tensor<23x$T> -> tensor<23xi1>
  return %0, %1, %2, %3 : tensor<23xi1>, tensor<23xi1>, tensor<23xi1>, tensor<23xi1>)"),
      check);
}

TEST(ElementwiseKernel, IntegerUnaryOps) {
  expectForTypes(
      {"i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"},
      unaryKernel({"abs", "neg", "sign", "relu", "not"}, "tensor<7x13x$T>"));
  expectKernel(unaryKernel({"not"}, "tensor<70xi1>"));
}

//===----------------------------------------------------------------------===//
// Several operands
//===----------------------------------------------------------------------===//

/// One result per binary op, operands broadcast to `result`.
static std::string binaryKernel(const std::vector<std::string> &ops,
                                const std::string &lhs, const std::string &rhs,
                                const std::string &result) {
  std::string body, results, values;
  for (size_t i = 0; i < ops.size(); ++i) {
    std::string value = "%r" + std::to_string(i);
    body += value + " = mpc." + ops[i] + " %x, %y : (" + lhs + ", " + rhs +
            ") -> " + result + "\n";
    results += (i ? ", " : "") + result;
    values += (i ? ", " : "") + value;
  }
  return loopKernel("%x: " + lhs + ", %y: " + rhs, results,
                    body + "return " + values + " : " + results);
}

TEST(ElementwiseKernel, BinaryOpsAndBroadcasting) {
  std::vector<std::string> ops = {"add", "sub", "mul", "div",
                                  "max", "min", "rem"};
  struct Shapes {
    const char *lhs, *rhs, *result;
  };
  for (Shapes s :
       {Shapes{"4x5x19", "4x5x19", "4x5x19"}, Shapes{"4x5x19", "19", "4x5x19"},
        Shapes{"4x1x19", "5x1", "4x5x19"}, Shapes{"4x5x1", "1x5x33", "4x5x33"},
        Shapes{"1", "3x7", "3x7"}})
    expectForTypes({"f32", "f64", "bf16", "f16"},
                   binaryKernel(ops, std::string("tensor<") + s.lhs + "x$T>",
                                std::string("tensor<") + s.rhs + "x$T>",
                                std::string("tensor<") + s.result + "x$T>"));
}

TEST(ElementwiseKernel, IntegerBinaryOps) {
  std::vector<std::string> ops = {
      "add", "sub", "mul", "div", "max",        "min",        "rem",
      "pow", "and", "or",  "xor", "shift_left", "shift_right"};
  for (const char *shape : {"tensor<3x29x$T>", "tensor<1x$T>"})
    expectForTypes({"i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"},
                   binaryKernel(ops, shape, shape, shape));
  expectForTypes({"i1"}, binaryKernel({"and", "or", "xor", "max", "min"},
                                      "tensor<40x$T>", "tensor<40x$T>",
                                      "tensor<40x$T>"));
}

TEST(ElementwiseKernel, IntegerDivisionAtTheEdges) {
  KernelCheck check;
  auto edges = [](unsigned argument, reference::Tensor &tensor) {
    unsigned width = tensor.getElementType().getIntOrFloatBitWidth();
    int64_t lowest =
        -static_cast<int64_t>((uint64_t(1) << (width - 1)) - 1) - 1;
    const int64_t values[2][4] = {{lowest, 7, -7, 0}, {-1, 0, 2, -1}};
    for (auto [i, value] : llvm::enumerate(tensor.ints()))
      value = values[argument][i % 4];
  };
  check.adjust = edges;
  expectForTypes({"i8", "i16", "i32", "i64"},
                 binaryKernel({"div", "rem"}, "tensor<20x$T>", "tensor<20x$T>",
                              "tensor<20x$T>"),
                 check);
}

TEST(ElementwiseKernel, Powers) {
  KernelCheck check;
  auto positive = [](unsigned argument, reference::Tensor &tensor) {
    for (double &value : tensor.floats())
      value = reference::roundTo(argument ? value : std::abs(value),
                                 tensor.getElementType());
  };
  check.adjust = positive;
  expectForTypes(kFloats,
                 binaryKernel({"pow"}, "tensor<4x30x$T>", "tensor<30x$T>",
                              "tensor<4x30x$T>"),
                 check);
  // Integral exponents of negative numbers.
  auto whole = [](unsigned argument, reference::Tensor &tensor) {
    for (auto [i, value] : llvm::enumerate(tensor.floats()))
      if (argument)
        value = static_cast<double>(static_cast<int64_t>(i) % 9 - 4);
  };
  check.adjust = whole;
  expectForTypes(
      {"f32", "f64"},
      binaryKernel({"pow"}, "tensor<60x$T>", "tensor<60x$T>", "tensor<60x$T>"),
      check);
  auto special = [](unsigned argument, reference::Tensor &tensor) {
    const double values[] = {0.0,  -0.0, INFINITY, -INFINITY, NAN,  1.0,
                             -1.0, 2.0,  -2.0,     0.5,       -0.5, 3.0};
    for (auto [i, value] : llvm::enumerate(tensor.floats()))
      value = argument ? values[i % 12] : values[i / 12];
  };
  check.adjust = special;
  expectForTypes({"f32", "f64"},
                 binaryKernel({"pow"}, "tensor<144x$T>", "tensor<144x$T>",
                              "tensor<144x$T>"),
                 check);
}

TEST(ElementwiseKernel, RemaindersOfFarApartNumbers) {
  KernelCheck check;
  auto far = [](unsigned argument, reference::Tensor &tensor) {
    const double values[2][6] = {{1e30, -7.5, 1e-40, INFINITY, 5.0, 1e38},
                                 {3.7, 2.5, 3e-44, 1.0, INFINITY, 1e-40}};
    for (auto [i, value] : llvm::enumerate(tensor.floats()))
      value =
          reference::roundTo(values[argument][i % 6], tensor.getElementType());
  };
  check.adjust = far;
  expectForTypes(
      {"f32", "f64"},
      binaryKernel({"rem"}, "tensor<18x$T>", "tensor<18x$T>", "tensor<18x$T>"),
      check);
}

TEST(ElementwiseKernel, CompareAndSelect) {
  std::string text =
      loopKernel("%x: tensor<6x11x$T>, %y: tensor<11x$T>",
                 "tensor<6x11xi1>, tensor<6x11xi1>, tensor<6x11xi1>, "
                 "tensor<6x11x$T>, tensor<6x11x$T>",
                 R"(
  %0 = mpc.compare lt %x, %y : (tensor<6x11x$T>, tensor<11x$T>) -> tensor<6x11xi1>
  %1 = mpc.compare eq %x, %y : (tensor<6x11x$T>, tensor<11x$T>) -> tensor<6x11xi1>
  %2 = mpc.compare ge %x, %y : (tensor<6x11x$T>, tensor<11x$T>) -> tensor<6x11xi1>
  %3 = mpc.select %0, %x, %y : (tensor<6x11xi1>, tensor<6x11x$T>, tensor<11x$T>) -> tensor<6x11x$T>
  %4 = mpc.clamp %x, %y, %y : (tensor<6x11x$T>, tensor<11x$T>, tensor<11x$T>) -> tensor<6x11x$T>
  return %0, %1, %2, %3, %4 : tensor<6x11xi1>, tensor<6x11xi1>, tensor<6x11xi1>, tensor<6x11x$T>, tensor<6x11x$T>)");
  expectForTypes(
      {"f32", "f64", "bf16", "f16", "i8", "i32", "i64", "ui8", "ui32"}, text);
}

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

TEST(ElementwiseKernel, CastsBetweenAllTypes) {
  std::vector<std::string> types = {"f32",  "f64",  "f16", "bf16", "i1",
                                    "i8",   "i16",  "i32", "i64",  "ui8",
                                    "ui16", "ui32", "ui64"};
  for (const std::string &from : types)
    for (const char *shape : {"tensor<75x", "tensor<1x"}) {
      std::string body, results, values;
      for (size_t i = 0; i < types.size(); ++i) {
        std::string value = "%r" + std::to_string(i),
                    type = shape + types[i] + ">";
        body +=
            value + " = mpc.cast %x : " + shape + from + "> to " + type + "\n";
        results += (i ? ", " : "") + type;
        values += (i ? ", " : "") + value;
      }
      KernelCheck check;
      check.scale = 100.0;
      expectKernel(loopKernel("%x: " + (shape + from) + ">", results,
                              body + "return " + values + " : " + results),
                   check);
    }
}

TEST(ElementwiseKernel, CastsOfLargeAndSpecialValues) {
  KernelCheck check;
  auto large = [](unsigned, reference::Tensor &tensor) {
    const double values[] = {
        1e20,  -1e20, NAN,  INFINITY, -INFINITY, 2147483648.0, -2147483649.0,
        255.9, 256.0, -0.9, 65520.0,  3.4e38,    1e-45,        127.5};
    for (auto [i, value] : llvm::enumerate(tensor.floats()))
      value = reference::roundTo(values[i % std::size(values)],
                                 tensor.getElementType());
  };
  check.adjust = large;
  std::vector<std::string> types = {"i1",   "i8",   "i16",  "i32", "i64", "ui8",
                                    "ui16", "ui32", "ui64", "f16", "bf16"};
  for (const char *from : {"f32", "f64"}) {
    std::string body, results, values;
    for (size_t i = 0; i < types.size(); ++i) {
      std::string value = "%r" + std::to_string(i),
                  type = "tensor<28x" + types[i] + ">";
      body +=
          value + " = mpc.cast %x : tensor<28x" + from + "> to " + type + "\n";
      results += (i ? ", " : "") + type;
      values += (i ? ", " : "") + value;
    }
    expectKernel(loopKernel(std::string("%x: tensor<28x") + from + ">", results,
                            body + "return " + values + " : " + results),
                 check);
  }
}

//===----------------------------------------------------------------------===//
// Chains and sizes
//===----------------------------------------------------------------------===//

TEST(ElementwiseKernel, SizesAroundVectorWidths) {
  for (int size :
       {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 130, 4097})
    expectForTypes({"f32", "bf16"},
                   substitute(loopKernel("%x: tensor<$Nx$T>, %y: tensor<$Nx$T>",
                                         "tensor<$Nx$T>", R"(
  %0 = mpc.mul %x, %y : (tensor<$Nx$T>, tensor<$Nx$T>) -> tensor<$Nx$T>
  %1 = mpc.add %0, %x : (tensor<$Nx$T>, tensor<$Nx$T>) -> tensor<$Nx$T>
  return %1 : tensor<$Nx$T>)"),
                              {{"$N", std::to_string(size)}}));
}

TEST(ElementwiseKernel, ResidualChainWithTwoResultTypes) {
  expectKernel(loopKernel(
      "%x: tensor<9x48xbf16>, %y: tensor<9x48xf32>, %b: tensor<48xf32>",
      "tensor<9x48xf32>, tensor<9x48xbf16>", R"(
  %c = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.cast %x : tensor<9x48xbf16> to tensor<9x48xf32>
  %1 = mpc.add %0, %y : (tensor<9x48xf32>, tensor<9x48xf32>) -> tensor<9x48xf32>
  %2 = mpc.add %1, %b : (tensor<9x48xf32>, tensor<48xf32>) -> tensor<9x48xf32>
  %3 = mpc.sigmoid %2 : tensor<9x48xf32>
  %4 = mpc.mul %2, %3 : (tensor<9x48xf32>, tensor<9x48xf32>) -> tensor<9x48xf32>
  %5 = mpc.mul %4, %c : (tensor<9x48xf32>, tensor<f32>) -> tensor<9x48xf32>
  %6 = mpc.cast %5 : tensor<9x48xf32> to tensor<9x48xbf16>
  return %5, %6 : tensor<9x48xf32>, tensor<9x48xbf16>)"));
}

/// Uniformly random bits of f32, so that some vectors have subnormal numbers,
/// which an instruction for rounding to bf16 flushes, and NaNs of any payload;
/// or neither.
static void expectRounding(bool isAny) {
  std::mt19937 random(3);
  auto fill = [&](unsigned, reference::Tensor &tensor) {
    for (auto &value : tensor.floats()) {
      float drawn;
      do
        drawn = std::bit_cast<float>(static_cast<uint32_t>(random()));
      while (!isAny && !std::isnormal(drawn));
      value = drawn;
    }
  };
  KernelCheck check;
  check.adjust = fill;
  expectKernel(loopKernel("%x: tensor<64x131xf32>",
                          "tensor<64x131xbf16>, tensor<64x131xf32>", R"(
  %0 = mpc.cast %x : tensor<64x131xf32> to tensor<64x131xbf16>
  %1 = mpc.cast %0 : tensor<64x131xbf16> to tensor<64x131xf32>
  %2 = mpc.neg %1 : tensor<64x131xf32>
  return %0, %2 : tensor<64x131xbf16>, tensor<64x131xf32>)"),
               check);
}

TEST(ElementwiseKernel, RoundingOfAnyBits) {
  expectRounding(/*isAny=*/true);
  expectRounding(/*isAny=*/false);
}

TEST(ElementwiseKernel, ConstantTables) {
  expectKernel(loopKernel("%x: tensor<5x4xf32>, %m: tensor<5x4xi1>",
                          "tensor<5x4xf32>, tensor<5x4xbf16>", R"(
  %c = mpc.constant dense<[1.0, -2.0, 3.5, 0.25]> : tensor<4xf32>
  %k = mpc.constant dense<[true, false, true, true]> : tensor<4xi1>
  %n = mpc.constant dense<[1.0, 2.5, -3.0, 8.0]> : tensor<4xbf16>
  %0 = mpc.mul %x, %c : (tensor<5x4xf32>, tensor<4xf32>) -> tensor<5x4xf32>
  %1 = mpc.and %m, %k : (tensor<5x4xi1>, tensor<4xi1>) -> tensor<5x4xi1>
  %2 = mpc.select %1, %0, %x : (tensor<5x4xi1>, tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
  %3 = mpc.cast %2 : tensor<5x4xf32> to tensor<5x4xbf16>
  %4 = mpc.add %3, %n : (tensor<5x4xbf16>, tensor<4xbf16>) -> tensor<5x4xbf16>
  return %2, %4 : tensor<5x4xf32>, tensor<5x4xbf16>)"));
}

TEST(ElementwiseKernel, ResultsOfDifferentShapes) {
  expectKernel(loopKernel("%x: tensor<3x20xf32>, %y: tensor<70xf32>",
                          "tensor<3x20xf32>, tensor<70xf32>, tensor<f32>", R"(
  %c = mpc.constant dense<2.0> : tensor<f32>
  %0 = mpc.exp %x : tensor<3x20xf32>
  %1 = mpc.neg %y : tensor<70xf32>
  %2 = mpc.sqrt %c : tensor<f32>
  return %0, %1, %2 : tensor<3x20xf32>, tensor<70xf32>, tensor<f32>)"));
}

TEST(ElementwiseKernel, EmptyTensor) {
  expectKernel(unaryKernel({"exp"}, "tensor<4x0x3xf32>"));
}
