//===- LargestMagnitudesTests.cpp - amax of stored tensors ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of several families that also compute largest magnitudes, against
// the interpreter. Later runs on the same scratch buffer show that it is reset.
//
//===----------------------------------------------------------------------===//

#include "Plan/KernelBatches.h"

#include "gtest/gtest.h"

#include <limits>

using namespace mpc;
using reference::Tensor;

/// A kernel of `kind` whose `body` computes %y of shape `shape` and type
/// `type`, and that returns it with its largest magnitude and a scale.
static std::string withScale(const std::string &kind,
                             const std::string &arguments,
                             const std::string &body, const std::string &shape,
                             const std::string &type = "f32") {
  std::string widened = type == "f32" ? "" : R"(
  %f = mpc.cast %y : tensor<$S$T> to tensor<$Sf32>)";
  return substitute(
      loopKernel(arguments,
                 "tensor<$S$T>, tensor<f32>, tensor<f32>", body + widened + R"(
  %448 = mpc.constant dense<448.0> : tensor<f32>
  %abs = mpc.abs )" + (type == "f32" ? "%y" : "%f") + R"( : tensor<$Sf32>
  %amax = mpc.reduce_max %abs axes([0, 1]) : tensor<$Sf32> -> tensor<f32>
  %scale = mpc.div %448, %amax : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %y, %amax, %scale : tensor<$S$T>, tensor<f32>, tensor<f32>)",
                 kind),
      {{"$S", shape}, {"$T", type}});
}

TEST(CudaLargestMagnitude, OfAnyFamily) {
  CudaKernelBatch batch;
  // One block, and many with partial tiles.
  for (const char *rows : {"16x", "130x"})
    batch.add(
        substitute(withScale("contraction",
                             "%a: tensor<$R64xf16>, %b: tensor<64x96xf16>",
                             R"(
  %p = mpc.matmul %a, %b : (tensor<$R64xf16>, tensor<64x96xf16>) -> tensor<$R96xf32>
  %y = mpc.relu %p : tensor<$R96xf32>)",
                             std::string(rows) + "96x"),
                   {{"$R", rows}}),
        ofFamily("gemm"));
  batch.add(withScale("row", "%x: tensor<37x100xf32>", R"(
  %n = mpc.softmax %x axis(1) : tensor<37x100xf32>
  %y = mpc.cast %n : tensor<37x100xf32> to tensor<37x100xbf16>)",
                      "37x100x", "bf16"),
            ofFamily("row"));
  batch.add(withScale("elementwise", "%x: tensor<300x77xf32>",
                      "%y = mpc.neg %x : tensor<300x77xf32>", "300x77x"),
            ofFamily("map"));
  batch.add(withScale("transpose", "%x: tensor<70x50xf32>",
                      "%y = mpc.transpose %x [1, 0] : tensor<70x50xf32> to "
                      "tensor<50x70xf32>",
                      "50x70x"),
            ofFamily("transpose"));
  batch.expect();
}

TEST(CudaLargestMagnitude, OfInfinityAndNaN) {
  CudaKernelBatch batch;
  for (double special : {std::numeric_limits<double>::infinity(),
                         -std::numeric_limits<double>::infinity(),
                         std::numeric_limits<double>::quiet_NaN(), 0.0}) {
    CudaKernelCheck check = ofFamily("map");
    check.adjust = [=](unsigned, Tensor &input) {
      if (special == 0)
        for (double &value : input.floats())
          value = -0.0;
      else
        input.floats()[1234] = special;
    };
    batch.add(withScale("elementwise", "%x: tensor<64x96xf32>",
                        "%y = mpc.relu %x : tensor<64x96xf32>", "64x96x"),
              check);
  }
  batch.expect();
}

// Only the codes and the largest magnitude of %0 are stored.
TEST(CudaLargestMagnitude, OfUnstoredTensor) {
  std::string text = loopKernel("%x: tensor<64x96xf32>, %s: tensor<f32>",
                                "tensor<64x96xui8>, tensor<f32>", R"(
  %0 = mpc.tanh %x : tensor<64x96xf32>
  %1 = mpc.mul %0, %s : (tensor<64x96xf32>, tensor<f32>) -> tensor<64x96xf32>
  %2 = mpc.encode_float %1 format(f8E4M3FN) saturate : tensor<64x96xf32> to tensor<64x96xui8>
  %3 = mpc.abs %0 : tensor<64x96xf32>
  %4 = mpc.reduce_max %3 axes([0, 1]) : tensor<64x96xf32> -> tensor<f32>
  return %2, %4 : tensor<64x96xui8>, tensor<f32>)");
  expectCudaKernel(text, ofFamily("map"));
  expectCudaText(text, {}, {"atomicMaxUnsigned"}, {"y3"});
}

// The quotient needs the maximum of all blocks before any element.
TEST(CudaLargestMagnitude, ThatElementsNeed) {
  expectCudaKernel(loopKernel("%x: tensor<8x24xf32>",
                              "tensor<8x24xf32>, tensor<8x24xf32>", R"(
  %0 = mpc.neg %x : tensor<8x24xf32>
  %1 = mpc.abs %0 : tensor<8x24xf32>
  %2 = mpc.reduce_max %1 axes([0, 1]) : tensor<8x24xf32> -> tensor<f32>
  %3 = mpc.div %0, %2 : (tensor<8x24xf32>, tensor<f32>) -> tensor<8x24xf32>
  return %0, %3 : tensor<8x24xf32>, tensor<8x24xf32>)"));
}
