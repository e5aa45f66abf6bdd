//===- TrainingModels.h - small networks that are trained -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Forward models whose weights become random trainable parameters.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_JIT_TRAININGMODELS_H
#define MPC_TEST_UNIT_JIT_TRAININGMODELS_H

namespace mpc {

inline constexpr char kMlp[] = R"(
func.func @main(%x: tensor<16x40xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<16x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "logits"}) {
  %w1 = mpc.constant dense<0.01> : tensor<40x24xf32> loc("fc1/weight")
  %b1 = mpc.constant dense<0.5> : tensor<24xf32> loc("fc1/bias")
  %w2 = mpc.constant dense<0.02> : tensor<24x10xf32> loc("fc2/weight")
  %b2 = mpc.constant dense<0.25> : tensor<10xf32> loc("fc2/bias")
  %0 = mpc.matmul %x, %w1 : (tensor<16x40xf32>, tensor<40x24xf32>) -> tensor<16x24xf32> loc("fc1")
  %1 = mpc.add %0, %b1 : (tensor<16x24xf32>, tensor<24xf32>) -> tensor<16x24xf32> loc("fc1")
  %2 = mpc.relu %1 : tensor<16x24xf32> loc("relu")
  %3 = mpc.matmul %2, %w2 : (tensor<16x24xf32>, tensor<24x10xf32>) -> tensor<16x10xf32> loc("fc2")
  %4 = mpc.add %3, %b2 : (tensor<16x10xf32>, tensor<10xf32>) -> tensor<16x10xf32> loc("fc2")
  return %4 : tensor<16x10xf32>
}
)";

inline constexpr char kCnn[] = R"(
func.func @main(%x: tensor<4x2x10x10xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "logits"}) {
  %f1 = mpc.constant dense<0.05> : tensor<8x2x3x3xf32> loc("conv1/weight")
  %f2 = mpc.constant dense<0.02> : tensor<4x8x3x3xf32> loc("conv2/weight")
  %w = mpc.constant dense<0.02> : tensor<36x10xf32> loc("fc/weight")
  %b = mpc.constant dense<0.25> : tensor<10xf32> loc("fc/bias")
  %0 = mpc.conv %x, %f1 strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<4x2x10x10xf32>, tensor<8x2x3x3xf32>) -> tensor<4x8x8x8xf32> loc("conv1")
  %1 = mpc.relu %0 : tensor<4x8x8x8xf32>
  %2 = mpc.conv %1, %f2 strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<4x8x8x8xf32>, tensor<4x8x3x3xf32>) -> tensor<4x4x6x6xf32> loc("conv2")
  %3 = mpc.max_pool %2 window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) : tensor<4x4x6x6xf32> -> tensor<4x4x3x3xf32>
  %4 = mpc.reshape %3 : tensor<4x4x3x3xf32> to tensor<4x36xf32>
  %5 = mpc.matmul %4, %w : (tensor<4x36xf32>, tensor<36x10xf32>) -> tensor<4x10xf32> loc("fc")
  %6 = mpc.add %5, %b : (tensor<4x10xf32>, tensor<10xf32>) -> tensor<4x10xf32> loc("fc")
  return %6 : tensor<4x10xf32>
}
)";

/// Channels last with biases: the filters' kernels sum them as well.
inline constexpr char kBiasedCnn[] = R"(
func.func @main(%x: tensor<4x10x10x1xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "logits"}) {
  %f1 = mpc.constant dense<0.05> : tensor<8x1x3x3xf32> loc("conv1/weight")
  %b1 = mpc.constant dense<0.5> : tensor<8xf32> loc("conv1/bias")
  %f2 = mpc.constant dense<0.02> : tensor<4x8x3x3xf32> loc("conv2/weight")
  %b2 = mpc.constant dense<0.25> : tensor<4xf32> loc("conv2/bias")
  %w = mpc.constant dense<0.02> : tensor<36x10xf32> loc("fc/weight")
  %0 = mpc.conv %x, %f1 strides([1, 1]) pad([1, 1], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<4x10x10x1xf32>, tensor<8x1x3x3xf32>) -> tensor<4x9x9x8xf32> loc("conv1")
  %1 = mpc.add %0, %b1 : (tensor<4x9x9x8xf32>, tensor<8xf32>) -> tensor<4x9x9x8xf32> loc("conv1")
  %2 = mpc.relu %1 : tensor<4x9x9x8xf32>
  %3 = mpc.conv %2, %f2 strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<4x9x9x8xf32>, tensor<4x8x3x3xf32>) -> tensor<4x7x7x4xf32> loc("conv2")
  %4 = mpc.add %3, %b2 : (tensor<4x7x7x4xf32>, tensor<4xf32>) -> tensor<4x7x7x4xf32> loc("conv2")
  %5 = mpc.max_pool %4 window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : tensor<4x7x7x4xf32> -> tensor<4x3x3x4xf32>
  %6 = mpc.reshape %5 : tensor<4x3x3x4xf32> to tensor<4x36xf32>
  %7 = mpc.matmul %6, %w : (tensor<4x36xf32>, tensor<36x10xf32>) -> tensor<4x10xf32> loc("fc")
  return %7 : tensor<4x10xf32>
}
)";

inline constexpr char kNorm[] = R"(
func.func @main(%x: tensor<16x40xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<16x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "logits"}) {
  %w1 = mpc.constant dense<0.01> : tensor<40x24xf32> loc("fc1/weight")
  %s = mpc.constant dense<1.0> : tensor<24xf32> loc("norm/weight")
  %b = mpc.constant dense<0.5> : tensor<24xf32> loc("norm/bias")
  %w2 = mpc.constant dense<0.02> : tensor<24x10xf32> loc("fc2/weight")
  %0 = mpc.matmul %x, %w1 : (tensor<16x40xf32>, tensor<40x24xf32>) -> tensor<16x24xf32> loc("fc1")
  %1 = mpc.layer_norm %0, %s, %b axis(1) epsilon(1.0e-5) : (tensor<16x24xf32>, tensor<24xf32>, tensor<24xf32>) -> tensor<16x24xf32> loc("norm")
  %2 = mpc.matmul %1, %w2 : (tensor<16x24xf32>, tensor<24x10xf32>) -> tensor<16x10xf32> loc("fc2")
  return %2 : tensor<16x10xf32>
}
)";

/// Pre-norm: attention of two heads over eight positions, then GELU by erf.
inline constexpr char kTransformerLayer[] = R"(
func.func @main(%x: tensor<2x8x32xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<2x8x32xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %g1 = mpc.constant dense<1.0> : tensor<32xf32> loc("norm1/scale")
  %o1 = mpc.constant dense<0.0> : tensor<32xf32> loc("norm1/bias")
  %wq = mpc.constant dense<0.01> : tensor<32x32xf32> loc("q/weight")
  %wk = mpc.constant dense<0.02> : tensor<32x32xf32> loc("k/weight")
  %wv = mpc.constant dense<0.03> : tensor<32x32xf32> loc("v/weight")
  %wo = mpc.constant dense<0.04> : tensor<32x32xf32> loc("attention/weight")
  %g2 = mpc.constant dense<2.0> : tensor<32xf32> loc("norm2/scale")
  %o2 = mpc.constant dense<0.5> : tensor<32xf32> loc("norm2/bias")
  %w1 = mpc.constant dense<0.05> : tensor<32x64xf32> loc("inner/weight")
  %b1 = mpc.constant dense<0.1> : tensor<64xf32> loc("inner/bias")
  %w2 = mpc.constant dense<0.06> : tensor<64x32xf32> loc("outer/weight")
  %b2 = mpc.constant dense<0.2> : tensor<32xf32> loc("outer/bias")
  %n1 = mpc.layer_norm %x, %g1, %o1 axis(2) epsilon(1.0e-5) : (tensor<2x8x32xf32>, tensor<32xf32>, tensor<32xf32>) -> tensor<2x8x32xf32> loc("norm1")
  %qm = mpc.matmul %n1, %wq : (tensor<2x8x32xf32>, tensor<32x32xf32>) -> tensor<2x8x32xf32> loc("q/MatMul")
  %qs = mpc.reshape %qm : tensor<2x8x32xf32> to tensor<2x8x2x16xf32>
  %qh = mpc.transpose %qs [0, 2, 1, 3] : tensor<2x8x2x16xf32> to tensor<2x2x8x16xf32>
  %km = mpc.matmul %n1, %wk : (tensor<2x8x32xf32>, tensor<32x32xf32>) -> tensor<2x8x32xf32> loc("k/MatMul")
  %ks = mpc.reshape %km : tensor<2x8x32xf32> to tensor<2x8x2x16xf32>
  %kh = mpc.transpose %ks [0, 2, 1, 3] : tensor<2x8x2x16xf32> to tensor<2x2x8x16xf32>
  %vm = mpc.matmul %n1, %wv : (tensor<2x8x32xf32>, tensor<32x32xf32>) -> tensor<2x8x32xf32> loc("v/MatMul")
  %vs = mpc.reshape %vm : tensor<2x8x32xf32> to tensor<2x8x2x16xf32>
  %vh = mpc.transpose %vs [0, 2, 1, 3] : tensor<2x8x2x16xf32> to tensor<2x2x8x16xf32>
  %c = mpc.attention %qh, %kh, %vh scale(0.25) : (tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>) -> tensor<2x2x8x16xf32> loc("attention/context")
  %ct = mpc.transpose %c [0, 2, 1, 3] : tensor<2x2x8x16xf32> to tensor<2x8x2x16xf32>
  %cj = mpc.reshape %ct : tensor<2x8x2x16xf32> to tensor<2x8x32xf32>
  %om = mpc.matmul %cj, %wo : (tensor<2x8x32xf32>, tensor<32x32xf32>) -> tensor<2x8x32xf32> loc("attention/MatMul")
  %r1 = mpc.add %x, %om : (tensor<2x8x32xf32>, tensor<2x8x32xf32>) -> tensor<2x8x32xf32> loc("attention/residual")
  %n2 = mpc.layer_norm %r1, %g2, %o2 axis(2) epsilon(1.0e-5) : (tensor<2x8x32xf32>, tensor<32xf32>, tensor<32xf32>) -> tensor<2x8x32xf32> loc("norm2")
  %fm = mpc.matmul %n2, %w1 : (tensor<2x8x32xf32>, tensor<32x64xf32>) -> tensor<2x8x64xf32> loc("inner/MatMul")
  %f = mpc.add %fm, %b1 : (tensor<2x8x64xf32>, tensor<64xf32>) -> tensor<2x8x64xf32> loc("inner/Add")
  %h = mpc.gelu %f : tensor<2x8x64xf32> loc("inner/Gelu")
  %um = mpc.matmul %h, %w2 : (tensor<2x8x64xf32>, tensor<64x32xf32>) -> tensor<2x8x32xf32> loc("outer/MatMul")
  %r2 = mpc.add %r1, %um : (tensor<2x8x32xf32>, tensor<2x8x32xf32>) -> tensor<2x8x32xf32> loc("outer/residual")
  %y = mpc.add %r2, %b2 : (tensor<2x8x32xf32>, tensor<32xf32>) -> tensor<2x8x32xf32> loc("outer/Add")
  return %y : tensor<2x8x32xf32>
}
)";

} // namespace mpc

#endif // MPC_TEST_UNIT_JIT_TRAININGMODELS_H
