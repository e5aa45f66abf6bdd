//===- CheckKernelTests.cpp - gradient check kernels ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plan/KernelBatches.h"

#include "gtest/gtest.h"

#include <limits>

using namespace mpc;

/// A check and a norm of three gradients of element type $T.
static const char *const kCheckAndNorm = R"(
func.func private @k(%a: tensor<$Ax$T>, %b: tensor<3x5x$T>, %c: tensor<1x$T>, %s: tensor<f32>)
    -> (tensor<i1>, tensor<2xi64>, tensor<f32>) attributes {mpc.kernel_kind = "reduce"} {
  %f, %r = mpc.all_finite %a, %b, %c unscale(%s) names(["a", "b", "c"]) {unscale_mode = #mpc<unscale_mode $M>} : (tensor<$Ax$T>, tensor<3x5x$T>, tensor<1x$T>, tensor<f32>) -> (tensor<i1>, tensor<2xi64>)
  %n = mpc.global_norm %a, %b, %c unscale(%s) {unscale_mode = #mpc<unscale_mode $M>$N} : (tensor<$Ax$T>, tensor<3x5x$T>, tensor<1x$T>, tensor<f32>) -> tensor<f32>
  return %f, %r, %n : tensor<i1>, tensor<2xi64>, tensor<f32>
})";

// Extents that fill vectors and blocks, and others; kernels are run twice on
// one scratch buffer, so what the last block leaves there has to be clear.
TEST(CudaCheck, FiniteGradients) {
  FamilyBatch batch("check");
  for (const char *extent : {"8", "7", "1", "0", "5000", "16x640"})
    for (const char *mode : {"multiply", "divide"})
      for (const char *form : {"", ", of_norms"})
        batch.addForTypes({"f32", "f16", "bf16", "f64"}, kCheckAndNorm,
                          {{"$A", extent}, {"$M", mode}, {"$N", form}});
}

// One infinity or NaN anywhere, also in two tensors at once.
TEST(CudaCheck, RecordNamesTheFirst) {
  for (int which : {1, 2, 3, 6}) {
    FamilyBatch batch("check");
    batch.check.adjust = [=](unsigned argument, reference::Tensor &tensor) {
      if (argument < 3 && (which >> argument & 1))
        tensor.floats()[tensor.size() / 2] =
            argument == 1 ? std::numeric_limits<double>::quiet_NaN()
                          : -std::numeric_limits<double>::infinity();
    };
    // The norm is no number then, which compares as such.
    std::string alone = R"(
func.func private @k(%a: tensor<9000x$T>, %b: tensor<3x5x$T>, %c: tensor<1x$T>)
    -> (tensor<i1>, tensor<2xi64>) attributes {mpc.kernel_kind = "reduce"} {
  %f, %r = mpc.all_finite %a, %b, %c names(["a", "b", "c"]) : (tensor<9000x$T>, tensor<3x5x$T>, tensor<1x$T>) -> (tensor<i1>, tensor<2xi64>)
  return %f, %r : tensor<i1>, tensor<2xi64>
})";
    batch.addForTypes({"f32", "f16"}, alone);
  }
}

// More tensors than a block has warps, of one block and of several, in an order
// other than that of the arguments: each warp reduces some of them.
TEST(CudaCheck, NormOfManyTensors) {
  std::string arguments, reversed, types;
  for (int i = 0; i < 11; ++i) {
    std::string comma = i ? ", " : "", name = "%a" + std::to_string(i);
    std::string type = i % 4 == 1 ? "tensor<9000x$T>" : "tensor<5x$T>";
    arguments += comma + name + ": " + type;
    reversed = name + comma + reversed;
    types = type + comma + types;
  }
  FamilyBatch batch("check");
  for (const char *form : {"", "{of_norms} "})
    batch.addForTypes({"f32", "bf16"},
                      "func.func private @k(" + arguments +
                          ") -> (tensor<f32>) attributes {mpc.kernel_kind = "
                          "\"reduce\"} {\n  %n = mpc.global_norm " +
                          reversed + " " + form + ": (" + types +
                          ") -> tensor<f32>\n  return %n : tensor<f32>\n}");
}

// Checks of different gradients in one kernel: each optimizer has its own flag.
// The gradients are upcast when they are loaded.
TEST(CudaCheck, SeveralChecks) {
  FamilyBatch batch("check");
  batch.check.adjust = [](unsigned argument, reference::Tensor &tensor) {
    if (argument == 1)
      tensor.floats()[3] = std::numeric_limits<double>::infinity();
  };
  batch.add(R"(
func.func private @k(%a: tensor<40x32xbf16>, %b: tensor<24xf16>)
    -> (tensor<i1>, tensor<2xi64>, tensor<i1>, tensor<f32>) attributes {mpc.kernel_kind = "reduce"} {
  %wa = mpc.cast %a : tensor<40x32xbf16> to tensor<40x32xf32>
  %wb = mpc.cast %b : tensor<24xf16> to tensor<24xf32>
  %fa, %ra = mpc.all_finite %wa names(["a"]) : (tensor<40x32xf32>) -> (tensor<i1>, tensor<2xi64>)
  %fb, %rb = mpc.all_finite %wb names(["b"]) : (tensor<24xf32>) -> (tensor<i1>, tensor<2xi64>)
  %n = mpc.global_norm %wa : (tensor<40x32xf32>) -> tensor<f32>
  return %fa, %ra, %fb, %n : tensor<i1>, tensor<2xi64>, tensor<i1>, tensor<f32>
})");
}
