//===- RankModels.h - small networks that ranks train -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models in mpc's own text for batches of N, which text() fills in. Weights of
// odd sizes, so that few cut into equal parts.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TRAINING_RANKMODELS_H
#define MPC_TEST_UNIT_TRAINING_RANKMODELS_H

#include <cstdint>
#include <string>
#include <vector>

namespace mpc {

/// A model, the shape of an example, and the number of classes.
struct RankModel {
  const char *name;
  std::string body;
  std::vector<int64_t> example;
  int64_t classes = 3;

  /// The model for so many examples.
  std::string text(int64_t batch) const {
    std::string result = body, number = std::to_string(batch);
    for (size_t at; (at = result.find("<Nx")) != std::string::npos;)
      result.replace(at + 1, 1, number);
    return result;
  }
};

/// Two convolutions, of 5 and 3 channels.
inline RankModel cnn() {
  return {"cnn",
          R"(
func.func @main(%x: tensor<Nx2x8x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<Nx3xf32> {mpc.role = #mpc.role<output>, mpc.name = "logits"}) {
  %f1 = mpc.constant dense<0.05> : tensor<5x2x3x3xf32> loc("conv1/weight")
  %b1 = mpc.constant dense<0.0> : tensor<5x1x1xf32> loc("conv1/bias")
  %f2 = mpc.constant dense<0.02> : tensor<3x5x3x3xf32> loc("conv2/weight")
  %w = mpc.constant dense<0.02> : tensor<12x3xf32> loc("fc/weight")
  %b = mpc.constant dense<0.0> : tensor<3xf32> loc("fc/bias")
  %0 = mpc.conv %x, %f1 strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<Nx2x8x8xf32>, tensor<5x2x3x3xf32>) -> tensor<Nx5x6x6xf32> loc("conv1")
  %1 = mpc.add %0, %b1 : (tensor<Nx5x6x6xf32>, tensor<5x1x1xf32>) -> tensor<Nx5x6x6xf32> loc("conv1")
  %2 = mpc.relu %1 : tensor<Nx5x6x6xf32>
  %3 = mpc.conv %2, %f2 strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<Nx5x6x6xf32>, tensor<3x5x3x3xf32>) -> tensor<Nx3x4x4xf32> loc("conv2")
  %4 = mpc.max_pool %3 window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) : tensor<Nx3x4x4xf32> -> tensor<Nx3x2x2xf32>
  %5 = mpc.reshape %4 : tensor<Nx3x2x2xf32> to tensor<Nx12xf32>
  %6 = mpc.matmul %5, %w : (tensor<Nx12xf32>, tensor<12x3xf32>) -> tensor<Nx3xf32> loc("fc")
  %7 = mpc.add %6, %b : (tensor<Nx3xf32>, tensor<3xf32>) -> tensor<Nx3xf32> loc("fc")
  return %7 : tensor<Nx3xf32>
}
)",
          {2, 8, 8}};
}

/// Layers of attention in two heads of 6 over 4 positions, with GELU.
inline RankModel transformer(int layers) {
  std::string body = R"(
func.func @main(%x0: tensor<Nx4x12xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<Nx3xf32> {mpc.role = #mpc.role<output>, mpc.name = "logits"}) {
  %w = mpc.constant dense<0.02> : tensor<12x3xf32> loc("fc/weight")
)";
  const std::string layer = R"(
  %g1@ = mpc.constant dense<1.0> : tensor<12xf32> loc("@/norm1/scale")
  %o1@ = mpc.constant dense<0.0> : tensor<12xf32> loc("@/norm1/bias")
  %wq@ = mpc.constant dense<0.01> : tensor<12x12xf32> loc("@/q/weight")
  %wk@ = mpc.constant dense<0.02> : tensor<12x12xf32> loc("@/k/weight")
  %wv@ = mpc.constant dense<0.03> : tensor<12x12xf32> loc("@/v/weight")
  %wo@ = mpc.constant dense<0.04> : tensor<12x12xf32> loc("@/out/weight")
  %g2@ = mpc.constant dense<1.0> : tensor<12xf32> loc("@/norm2/scale")
  %o2@ = mpc.constant dense<0.0> : tensor<12xf32> loc("@/norm2/bias")
  %w1@ = mpc.constant dense<0.05> : tensor<12x21xf32> loc("@/inner/weight")
  %b1@ = mpc.constant dense<0.1> : tensor<21xf32> loc("@/inner/bias")
  %w2@ = mpc.constant dense<0.06> : tensor<21x12xf32> loc("@/outer/weight")
  %n1@ = mpc.layer_norm %x@, %g1@, %o1@ axis(2) epsilon(1.0e-5) : (tensor<Nx4x12xf32>, tensor<12xf32>, tensor<12xf32>) -> tensor<Nx4x12xf32> loc("@/norm1")
  %qm@ = mpc.matmul %n1@, %wq@ : (tensor<Nx4x12xf32>, tensor<12x12xf32>) -> tensor<Nx4x12xf32> loc("@/q")
  %qs@ = mpc.reshape %qm@ : tensor<Nx4x12xf32> to tensor<Nx4x2x6xf32>
  %qh@ = mpc.transpose %qs@ [0, 2, 1, 3] : tensor<Nx4x2x6xf32> to tensor<Nx2x4x6xf32>
  %km@ = mpc.matmul %n1@, %wk@ : (tensor<Nx4x12xf32>, tensor<12x12xf32>) -> tensor<Nx4x12xf32> loc("@/k")
  %ks@ = mpc.reshape %km@ : tensor<Nx4x12xf32> to tensor<Nx4x2x6xf32>
  %kh@ = mpc.transpose %ks@ [0, 2, 1, 3] : tensor<Nx4x2x6xf32> to tensor<Nx2x4x6xf32>
  %vm@ = mpc.matmul %n1@, %wv@ : (tensor<Nx4x12xf32>, tensor<12x12xf32>) -> tensor<Nx4x12xf32> loc("@/v")
  %vs@ = mpc.reshape %vm@ : tensor<Nx4x12xf32> to tensor<Nx4x2x6xf32>
  %vh@ = mpc.transpose %vs@ [0, 2, 1, 3] : tensor<Nx4x2x6xf32> to tensor<Nx2x4x6xf32>
  %c@ = mpc.attention %qh@, %kh@, %vh@ scale(0.4) : (tensor<Nx2x4x6xf32>, tensor<Nx2x4x6xf32>, tensor<Nx2x4x6xf32>) -> tensor<Nx2x4x6xf32> loc("@/context")
  %ct@ = mpc.transpose %c@ [0, 2, 1, 3] : tensor<Nx2x4x6xf32> to tensor<Nx4x2x6xf32>
  %cj@ = mpc.reshape %ct@ : tensor<Nx4x2x6xf32> to tensor<Nx4x12xf32>
  %om@ = mpc.matmul %cj@, %wo@ : (tensor<Nx4x12xf32>, tensor<12x12xf32>) -> tensor<Nx4x12xf32> loc("@/out")
  %r1@ = mpc.add %x@, %om@ : (tensor<Nx4x12xf32>, tensor<Nx4x12xf32>) -> tensor<Nx4x12xf32> loc("@/residual1")
  %n2@ = mpc.layer_norm %r1@, %g2@, %o2@ axis(2) epsilon(1.0e-5) : (tensor<Nx4x12xf32>, tensor<12xf32>, tensor<12xf32>) -> tensor<Nx4x12xf32> loc("@/norm2")
  %fm@ = mpc.matmul %n2@, %w1@ : (tensor<Nx4x12xf32>, tensor<12x21xf32>) -> tensor<Nx4x21xf32> loc("@/inner")
  %f@ = mpc.add %fm@, %b1@ : (tensor<Nx4x21xf32>, tensor<21xf32>) -> tensor<Nx4x21xf32> loc("@/inner")
  %h@ = mpc.gelu %f@ : tensor<Nx4x21xf32> loc("@/gelu")
  %um@ = mpc.matmul %h@, %w2@ : (tensor<Nx4x21xf32>, tensor<21x12xf32>) -> tensor<Nx4x12xf32> loc("@/outer")
  %x# = mpc.add %r1@, %um@ : (tensor<Nx4x12xf32>, tensor<Nx4x12xf32>) -> tensor<Nx4x12xf32> loc("@/residual2")
)";
  for (int i = 0; i < layers; ++i) {
    std::string text = layer;
    for (size_t at; (at = text.find('@')) != std::string::npos;)
      text.replace(at, 1, std::to_string(i));
    for (size_t at; (at = text.find('#')) != std::string::npos;)
      text.replace(at, 1, std::to_string(i + 1));
    body += text;
  }
  body += "  %p = mpc.reduce_mean %x" + std::to_string(layers) +
          R"( axes([1]) : tensor<Nx4x12xf32> -> tensor<Nx12xf32>
  %y = mpc.matmul %p, %w : (tensor<Nx12xf32>, tensor<12x3xf32>) -> tensor<Nx3xf32> loc("fc")
  return %y : tensor<Nx3xf32>
}
)";
  return {"transformer", body, {4, 12}};
}

/// A convolution and a residual block, each with a batch norm.
inline RankModel resnet() {
  return {"resnet",
          R"(
func.func @main(%x: tensor<Nx2x6x6xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<Nx3xf32> {mpc.role = #mpc.role<output>, mpc.name = "logits"}) {
  %f1 = mpc.constant dense<0.05> : tensor<5x2x3x3xf32> loc("stem/weight")
  %s1 = mpc.constant dense<1.0> : tensor<5xf32> loc("bn1/weight")
  %o1 = mpc.constant dense<0.0> : tensor<5xf32> loc("bn1/bias")
  %m1 = mpc.constant dense<0.0> : tensor<5xf32> loc("bn1/mean")
  %v1 = mpc.constant dense<1.0> : tensor<5xf32> loc("bn1/var")
  %f2 = mpc.constant dense<0.02> : tensor<5x5x3x3xf32> loc("block/weight")
  %s2 = mpc.constant dense<1.0> : tensor<5xf32> loc("bn2/weight")
  %o2 = mpc.constant dense<0.0> : tensor<5xf32> loc("bn2/bias")
  %m2 = mpc.constant dense<0.0> : tensor<5xf32> loc("bn2/mean")
  %v2 = mpc.constant dense<1.0> : tensor<5xf32> loc("bn2/var")
  %w = mpc.constant dense<0.02> : tensor<5x3xf32> loc("fc/weight")
  %b = mpc.constant dense<0.0> : tensor<3xf32> loc("fc/bias")
  %0 = mpc.conv %x, %f1 strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) : (tensor<Nx2x6x6xf32>, tensor<5x2x3x3xf32>) -> tensor<Nx5x6x6xf32> loc("stem")
  %1 = mpc.batch_norm %0, %s1, %o1, %m1, %v1 epsilon(1.0e-5) : (tensor<Nx5x6x6xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) -> tensor<Nx5x6x6xf32> loc("bn1")
  %2 = mpc.relu %1 : tensor<Nx5x6x6xf32>
  %3 = mpc.conv %2, %f2 strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) : (tensor<Nx5x6x6xf32>, tensor<5x5x3x3xf32>) -> tensor<Nx5x6x6xf32> loc("block")
  %4 = mpc.batch_norm %3, %s2, %o2, %m2, %v2 epsilon(1.0e-5) : (tensor<Nx5x6x6xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) -> tensor<Nx5x6x6xf32> loc("bn2")
  %5 = mpc.add %2, %4 : (tensor<Nx5x6x6xf32>, tensor<Nx5x6x6xf32>) -> tensor<Nx5x6x6xf32> loc("residual")
  %6 = mpc.relu %5 : tensor<Nx5x6x6xf32>
  %7 = mpc.reduce_mean %6 axes([2, 3]) : tensor<Nx5x6x6xf32> -> tensor<Nx5xf32>
  %8 = mpc.matmul %7, %w : (tensor<Nx5xf32>, tensor<5x3xf32>) -> tensor<Nx3xf32> loc("fc")
  %9 = mpc.add %8, %b : (tensor<Nx3xf32>, tensor<3xf32>) -> tensor<Nx3xf32> loc("fc")
  return %9 : tensor<Nx3xf32>
}
)",
          {2, 6, 6}};
}

/// Parameters that cut badly: of no dimension ("scale") and of one number
/// ("shift"), which are inputs, of primes, one that is read twice, one that the
/// loss does not depend on, and one far larger than the others.
inline RankModel odds() {
  return {"odds",
          R"(
func.func @main(%x: tensor<Nx6xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
    %s: tensor<f32> {mpc.role = #mpc.role<input>, mpc.name = "scale"},
    %o: tensor<1xf32> {mpc.role = #mpc.role<input>, mpc.name = "shift"})
    -> (tensor<Nx3xf32> {mpc.role = #mpc.role<output>, mpc.name = "logits"}) {
  %u = mpc.constant dense<0.25> : tensor<5xf32> loc("held")
  %w = mpc.constant dense<0.02> : tensor<6x37xf32> loc("in/weight")
  %t = mpc.constant dense<0.02> : tensor<37x37xf32> loc("twice/weight")
  %v = mpc.constant dense<0.02> : tensor<37x3xf32> loc("out/weight")
  %0 = mpc.matmul %x, %w : (tensor<Nx6xf32>, tensor<6x37xf32>) -> tensor<Nx37xf32> loc("in")
  %1 = mpc.relu %0 : tensor<Nx37xf32>
  %2 = mpc.matmul %1, %t : (tensor<Nx37xf32>, tensor<37x37xf32>) -> tensor<Nx37xf32> loc("first")
  %3 = mpc.relu %2 : tensor<Nx37xf32>
  %4 = mpc.matmul %3, %t : (tensor<Nx37xf32>, tensor<37x37xf32>) -> tensor<Nx37xf32> loc("second")
  %5 = mpc.mul %4, %s : (tensor<Nx37xf32>, tensor<f32>) -> tensor<Nx37xf32> loc("scaled")
  %6 = mpc.add %5, %o : (tensor<Nx37xf32>, tensor<1xf32>) -> tensor<Nx37xf32> loc("shifted")
  %7 = mpc.stop_gradient %u : tensor<5xf32>
  %8 = mpc.reduce_sum %7 axes([0]) : tensor<5xf32> -> tensor<f32>
  %9 = mpc.add %6, %8 : (tensor<Nx37xf32>, tensor<f32>) -> tensor<Nx37xf32> loc("moved")
  %10 = mpc.matmul %9, %v : (tensor<Nx37xf32>, tensor<37x3xf32>) -> tensor<Nx3xf32> loc("out")
  return %10 : tensor<Nx3xf32>
}
)",
          {6}};
}

/// A single matmul, whose steps are exact if all numbers are small integers
/// divided by powers of two.
inline RankModel product() {
  return {"product",
          R"(
func.func @main(%x: tensor<Nx6xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<Nx4xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w = mpc.constant dense<[[1.0, 0.0, -1.0, 2.0], [0.0, 1.0, 1.0, -1.0], [2.0, -2.0, 0.0, 1.0], [1.0, 1.0, -1.0, 0.0], [0.0, 2.0, 1.0, 1.0], [-1.0, 0.0, 1.0, -2.0]]> : tensor<6x4xf32> loc("w")
  %b = mpc.constant dense<[1.0, -1.0, 0.0, 2.0]> : tensor<4xf32> loc("b")
  %0 = mpc.matmul %x, %w : (tensor<Nx6xf32>, tensor<6x4xf32>) -> tensor<Nx4xf32> loc("fc")
  %1 = mpc.add %0, %b : (tensor<Nx4xf32>, tensor<4xf32>) -> tensor<Nx4xf32> loc("fc")
  return %1 : tensor<Nx4xf32>
}
)",
          {6},
          0};
}

/// A matmul whose rows have one logit far above the others for an input of
/// one large number.
inline RankModel decider() {
  return {"decider",
          R"(
func.func @main(%x: tensor<Nx6xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<Nx4xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w = mpc.constant dense<[[1.0, 0.0, -1.0, 2.0], [0.0, 1.0, 2.0, -1.0], [2.0, -2.0, 0.0, 1.0], [1.0, 0.0, -1.0, 0.0], [0.0, 2.0, 1.0, 1.0], [-1.0, 0.0, 1.0, -2.0]]> : tensor<6x4xf32> loc("w")
  %0 = mpc.matmul %x, %w : (tensor<Nx6xf32>, tensor<6x4xf32>) -> tensor<Nx4xf32> loc("fc")
  return %0 : tensor<Nx4xf32>
}
)",
          {6},
          4};
}

/// Two layers.
inline RankModel mlp() {
  return {"mlp",
          R"(
func.func @main(%x: tensor<Nx12xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<Nx3xf32> {mpc.role = #mpc.role<output>, mpc.name = "logits"}) {
  %w1 = mpc.constant dense<0.0> : tensor<12x24xf32> loc("w1")
  %b1 = mpc.constant dense<0.0> : tensor<24xf32> loc("b1")
  %w2 = mpc.constant dense<0.0> : tensor<24x3xf32> loc("w2")
  %0 = mpc.matmul %x, %w1 : (tensor<Nx12xf32>, tensor<12x24xf32>) -> tensor<Nx24xf32> loc("fc1")
  %1 = mpc.add %0, %b1 : (tensor<Nx24xf32>, tensor<24xf32>) -> tensor<Nx24xf32> loc("fc1_bias")
  %2 = mpc.relu %1 : tensor<Nx24xf32> loc("act")
  %3 = mpc.matmul %2, %w2 : (tensor<Nx24xf32>, tensor<24x3xf32>) -> tensor<Nx3xf32> loc("fc2")
  return %3 : tensor<Nx3xf32>
}
)",
          {12}};
}

} // namespace mpc

#endif // MPC_TEST_UNIT_TRAINING_RANKMODELS_H
