//===- TranslationValidationTests.cpp - program against graph -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs as stage plan makes them, and wrong rewrites planted into their
// kernels, each of which must be found.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/TranslationValidation.h"

#include "mpc/Dialect/Exe/IR/ExeOps.h"

#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {

/// A graph after stage precision and its program after stage plan.
struct Program {
  const char *graph;
  const char *planned;
};

/// bf16 matmul with bias, ReLU and residual, and a row kernel behind it. The
/// weights are [[1, 2, 3], [4, 5, 6]], packed in panels of four columns.
const Program kLayer = {R"(
func.func @main(%x: tensor<4x2xf32> {mpc.name = "x"}, %r: tensor<4x3xf32> {mpc.name = "r"},
                %m: tensor<4x3xi1> {mpc.name = "m"}) -> tensor<4x3xf32> {
  %w = mpc.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xbf16>
  %b = mpc.constant dense<[0.1, 0.2, 0.3]> : tensor<3xf32>
  %s = mpc.constant dense<[1.1, 1.2, 1.3]> : tensor<3xf32>
  %z = mpc.constant dense<-1.0> : tensor<f32>
  %c = mpc.constant dense<0.125> : tensor<f32>
  %n = mpc.cast %x : tensor<4x2xf32> to tensor<4x2xbf16> loc("input")
  %0 = mpc.matmul %n, %w : (tensor<4x2xbf16>, tensor<2x3xbf16>) -> tensor<4x3xf32> loc("matmul")
  %1 = mpc.add %0, %b : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32> loc("bias")
  %2 = mpc.relu %1 : tensor<4x3xf32> loc("relu")
  %3 = mpc.add %2, %r : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32> loc("residual")
  %a = mpc.add %3, %b : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32> loc("again")
  %4 = mpc.layer_norm %a, %s, %b axis(1) epsilon(1.0e-5)
    : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x3xf32> loc("norm")
  %5 = mpc.mul %4, %c : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32> loc("scale")
  %h = mpc.cast %5 : tensor<4x3xf32> to tensor<4x3xbf16> loc("narrow")
  %f = mpc.cast %h : tensor<4x3xbf16> to tensor<4x3xf32> loc("widen")
  %6 = mpc.select %m, %f, %z : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32> loc("mask")
  %7 = mpc.sub %6, %r : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32> loc("sub")
  return %7 : tensor<4x3xf32>
})",
                        R"(
exe.program @main target("cpu:avx2") arena(192) {
  exe.argument @x : tensor<4x2xf32> input(0) name("x")
  exe.argument @r : tensor<4x3xf32> input(1) name("r")
  exe.argument @m : tensor<4x3xi1> input(2) name("m")
  exe.result @y : tensor<4x3xf32> output(0) name("y")
  exe.constant @w dense<[[[1.0, 2.0, 3.0, 0.0], [4.0, 5.0, 6.0, 0.0]]]> : tensor<1x2x4xbf16>
  exe.constant @b dense<[0.1, 0.2, 0.3]> : tensor<3xf32>
  exe.constant @s dense<[1.1, 1.2, 1.3]> : tensor<3xf32>
  exe.launch @k_input kind(elementwise) ops(["input"]) flops(8) bytes(48) (read @x, write arena[64 : 16])
  exe.launch @k_matmul kind(contraction) ops(["matmul", "bias", "relu", "residual", "again"]) flops(8) bytes(48)
    (read arena[64 : 16], read @w, read @b, read @r, write arena[0 : 48])
  exe.launch @k_norm kind(row) ops(["norm", "scale", "mask", "sub"]) flops(8) bytes(48)
    (read arena[0 : 48], read @s, read @b, read @m, read @r, write @y)
}
func.func private @k_input(%x: tensor<4x2xf32>) -> tensor<4x2xbf16> {
  %0 = mpc.cast %x : tensor<4x2xf32> to tensor<4x2xbf16>
  return %0 : tensor<4x2xbf16>
}
func.func private @k_matmul(%x: tensor<4x2xbf16>, %w: tensor<1x2x4xbf16>, %b: tensor<3xf32>,
                            %r: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = mpc.matmul %x, %w packed<columns = 4> : (tensor<4x2xbf16>, tensor<1x2x4xbf16>) -> tensor<4x3xf32>
  %1 = mpc.add %0, %b : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %2 = mpc.relu %1 : tensor<4x3xf32>
  %3 = mpc.add %2, %r : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = mpc.add %3, %b : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  return %4 : tensor<4x3xf32>
}
func.func private @k_norm(%x: tensor<4x3xf32>, %s: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<4x3xi1>,
                          %r: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = mpc.layer_norm %x, %s, %b axis(1) epsilon(1.0e-5)
    : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %c = mpc.constant dense<0.125> : tensor<f32>
  %1 = mpc.mul %0, %c : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %z = mpc.constant dense<-1.0> : tensor<f32>
  %h = mpc.cast %1 : tensor<4x3xf32> to tensor<4x3xbf16>
  %f = mpc.cast %h : tensor<4x3xbf16> to tensor<4x3xf32>
  %2 = mpc.select %m, %f, %z : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %3 = mpc.sub %2, %r : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %3 : tensor<4x3xf32>
})"};

/// Convolution and pooling in channels-last layout.
const Program kImage = {R"(
func.func @main(%x: tensor<1x2x8x8xf32> {mpc.name = "x"}) -> tensor<1x2xf32> {
  %w = mpc.constant dense<[[[[0.1, 0.2], [0.3, 0.4]], [[0.5, 0.6], [0.7, 0.8]]],
                           [[[1.1, 1.2], [1.3, 1.4]], [[1.5, 1.6], [1.7, 1.8]]]]> : tensor<2x2x2x2xf32>
  %0 = mpc.conv %x, %w strides([2, 2]) pad([1, 1], [1, 1]) dilations([1, 1])
    : (tensor<1x2x8x8xf32>, tensor<2x2x2x2xf32>) -> tensor<1x2x5x5xf32> loc("conv")
  %1 = mpc.max_pool %0 window([2, 2]) strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1])
    : tensor<1x2x5x5xf32> -> tensor<1x2x4x4xf32> loc("pool")
  %2 = mpc.reduce_sum %1 axes([2, 3]) accumulate(f64) : tensor<1x2x4x4xf32> -> tensor<1x2xf32> loc("sum")
  return %2 : tensor<1x2xf32>
})",
                        R"(
exe.program @main target("cpu:avx2") arena(1024) {
  exe.argument @x : tensor<1x2x8x8xf32> input(0) name("x")
  exe.result @y : tensor<1x2xf32> output(0) name("y")
  exe.constant @w dense<[[[0.1, 1.1], [0.5, 1.5], [0.2, 1.2], [0.6, 1.6],
                          [0.3, 1.3], [0.7, 1.7], [0.4, 1.4], [0.8, 1.8]]]> : tensor<1x8x2xf32>
  exe.launch @k_layout kind(transpose) ops(["conv"]) flops(8) bytes(48) (read @x, write arena[0 : 512])
  exe.launch @k_conv kind(convolution) ops(["conv"]) flops(8) bytes(48)
    (read arena[0 : 512], read @w, write arena[512 : 200])
  exe.launch @k_pool kind(reduce) ops(["pool"]) flops(8) bytes(48) (read arena[512 : 200], write arena[0 : 128])
  exe.launch @k_sum kind(reduce) ops(["sum"]) flops(8) bytes(48) (read arena[0 : 128], write @y)
}
func.func private @k_layout(%x: tensor<1x2x8x8xf32>) -> tensor<1x8x8x2xf32> {
  %0 = mpc.transpose %x [0, 2, 3, 1] : tensor<1x2x8x8xf32> to tensor<1x8x8x2xf32>
  return %0 : tensor<1x8x8x2xf32>
}
func.func private @k_conv(%x: tensor<1x8x8x2xf32>, %w: tensor<1x8x2xf32>) -> tensor<1x5x5x2xf32> {
  %0 = mpc.conv %x, %w strides([2, 2]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) window([2, 2])
    packed<columns = 2> : (tensor<1x8x8x2xf32>, tensor<1x8x2xf32>) -> tensor<1x5x5x2xf32>
  return %0 : tensor<1x5x5x2xf32>
}
func.func private @k_pool(%x: tensor<1x5x5x2xf32>) -> tensor<1x4x4x2xf32> {
  %0 = mpc.max_pool %x window([2, 2]) strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last)
    : tensor<1x5x5x2xf32> -> tensor<1x4x4x2xf32>
  return %0 : tensor<1x4x4x2xf32>
}
func.func private @k_sum(%x: tensor<1x4x4x2xf32>) -> tensor<1x2xf32> {
  %0 = mpc.reduce_sum %x axes([1, 2]) accumulate(f64) : tensor<1x4x4x2xf32> -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
})"};

/// Attention behind a padded, sliced and concatenated query, and minima.
const Program kAttention = {R"(
func.func @main(%q: tensor<1x2x3x4xf32> {mpc.name = "q"}, %k: tensor<1x2x4x4xf32> {mpc.name = "k"},
                %p: tensor<1x2x4x4xf32> {mpc.name = "p"}) -> (tensor<1x2x8xf32>, tensor<1x2x4x4xbf16>) {
  %z = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.pad %q, %z low([0, 0, 1, 0]) high([0, 0, 0, 0])
    : (tensor<1x2x3x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32> loc("pad")
  %1 = mpc.attention %0, %k, %p scale(0.25) causal
    : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> loc("attention")
  %2 = mpc.reduce_min %1 axes([2]) : tensor<1x2x4x4xf32> -> tensor<1x2x4xf32> loc("least")
  %3 = mpc.slice %1 [0, 0, 1, 0] [1, 2, 1, 4] : tensor<1x2x4x4xf32> to tensor<1x2x1x4xf32> loc("slice")
  %4 = mpc.reshape %3 : tensor<1x2x1x4xf32> to tensor<1x2x4xf32> loc("view")
  %5 = mpc.concat %2, %4 axis(2) : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x8xf32> loc("concat")
  %6 = mpc.cast %1 : tensor<1x2x4x4xf32> to tensor<1x2x4x4xbf16> loc("narrow")
  return %5, %6 : tensor<1x2x8xf32>, tensor<1x2x4x4xbf16>
})",
                            R"(
exe.program @main target("cpu:avx2") arena(512) {
  exe.argument @q : tensor<1x2x3x4xf32> input(0) name("q")
  exe.argument @k : tensor<1x2x4x4xf32> input(1) name("k")
  exe.argument @p : tensor<1x2x4x4xf32> input(2) name("p")
  exe.result @y : tensor<1x2x8xf32> output(0) name("y")
  exe.result @n : tensor<1x2x4x4xbf16> output(1) name("n")
  exe.launch @k_pad kind(elementwise) ops(["pad"]) flops(8) bytes(48) (read @q, write arena[0 : 128])
  exe.launch @k_attention kind(attention) ops(["attention"]) flops(8) bytes(48)
    (read arena[0 : 128], read @k, read @p, write arena[128 : 128])
  exe.launch @k_least kind(reduce) ops(["least"]) flops(8) bytes(48) (read arena[128 : 128], write arena[0 : 32])
  exe.launch @k_concat kind(elementwise) ops(["slice", "view", "concat"]) flops(8) bytes(48)
    (read arena[0 : 32], read arena[128 : 128], write @y)
  exe.launch @k_narrow kind(elementwise) ops(["narrow"]) flops(8) bytes(48) (read arena[128 : 128], write @n)
}
func.func private @k_pad(%q: tensor<1x2x3x4xf32>) -> tensor<1x2x4x4xf32> {
  %z = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.pad %q, %z low([0, 0, 1, 0]) high([0, 0, 0, 0])
    : (tensor<1x2x3x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  return %0 : tensor<1x2x4x4xf32>
}
func.func private @k_attention(%q: tensor<1x2x4x4xf32>, %k: tensor<1x2x4x4xf32>, %p: tensor<1x2x4x4xf32>)
    -> tensor<1x2x4x4xf32> {
  %0 = mpc.attention %q, %k, %p scale(0.25) causal
    : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  return %0 : tensor<1x2x4x4xf32>
}
func.func private @k_least(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4xf32> {
  %0 = mpc.reduce_min %x axes([2]) : tensor<1x2x4x4xf32> -> tensor<1x2x4xf32>
  return %0 : tensor<1x2x4xf32>
}
func.func private @k_concat(%l: tensor<1x2x4xf32>, %x: tensor<1x2x4x4xf32>) -> tensor<1x2x8xf32> {
  %0 = mpc.slice %x [0, 0, 1, 0] [1, 2, 1, 4] : tensor<1x2x4x4xf32> to tensor<1x2x1x4xf32>
  %1 = mpc.reshape %0 : tensor<1x2x1x4xf32> to tensor<1x2x4xf32>
  %2 = mpc.concat %l, %1 axis(2) : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x8xf32>
  return %2 : tensor<1x2x8xf32>
}
func.func private @k_narrow(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xbf16> {
  %0 = mpc.cast %x : tensor<1x2x4x4xf32> to tensor<1x2x4x4xbf16>
  return %0 : tensor<1x2x4x4xbf16>
})"};

/// A scale before a pooling instead of after it, in fusions: not proved, but
/// the same bits.
const Program kMoved = {R"(
func.func @main(%x: tensor<1x2x4x4xf32> {mpc.name = "x"}) -> tensor<1x2x3x3xf32> {
  %0 = mpc.max_pool %x window([2, 2]) strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1])
    : tensor<1x2x4x4xf32> -> tensor<1x2x3x3xf32> loc("pool")
  %c = mpc.constant dense<3.0> : tensor<f32>
  %1 = mpc.mul %0, %c : (tensor<1x2x3x3xf32>, tensor<f32>) -> tensor<1x2x3x3xf32> loc("scale")
  %2 = mpc.abs %1 : tensor<1x2x3x3xf32> loc("abs")
  return %2 : tensor<1x2x3x3xf32>
})",
                        R"(
exe.program @main target("cuda:sm_90a") arena(128) {
  exe.argument @x : tensor<1x2x4x4xf32> input(0) name("x")
  exe.result @y : tensor<1x2x3x3xf32> output(0) name("y")
  exe.launch @k_scale kind(elementwise) ops(["scale"]) flops(8) bytes(48) (read @x, write arena[0 : 128])
  exe.launch @k_pool kind(reduce) ops(["pool", "abs"]) flops(8) bytes(48) (read arena[0 : 128], write @y)
}
func.func private @k_scale(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %0 = mpc.fusion kind(elementwise) name("scale") (%a = %x : tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
    %c = mpc.constant dense<3.0> : tensor<f32>
    %1 = mpc.mul %a, %c : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
    mpc.yield %1 : tensor<1x2x4x4xf32>
  }
  return %0 : tensor<1x2x4x4xf32>
}
func.func private @k_pool(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32> {
  %0 = mpc.fusion kind(reduce) name("pool") (%a = %x : tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32> {
    %1 = mpc.max_pool %a window([2, 2]) strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1])
      : tensor<1x2x4x4xf32> -> tensor<1x2x3x3xf32>
    %2 = mpc.abs %1 : tensor<1x2x3x3xf32>
    mpc.yield %2 : tensor<1x2x3x3xf32>
  }
  return %0 : tensor<1x2x3x3xf32>
})"};

/// A layer in parts, then a scale and a pad in the other order.
const Program kUnrelated = {R"(
func.func @main(%x: tensor<1x2x4xbf16> {mpc.name = "x"}, %s: tensor<2xbf16> {mpc.name = "s"},
                %z: tensor<2x3xf32> {mpc.name = "z"}) -> (tensor<1x2x4xbf16>, tensor<2x4xf32>) {
  %e = mpc.constant dense<1.0> : tensor<2xbf16>
  %0 = mpc.batch_norm %x, %s, %s, %s, %e epsilon(0.0)
    : (tensor<1x2x4xbf16>, tensor<2xbf16>, tensor<2xbf16>, tensor<2xbf16>, tensor<2xbf16>) -> tensor<1x2x4xbf16>
    loc("norm")
  %c = mpc.constant dense<0.0> : tensor<f32>
  %1 = mpc.pad %z, %c low([0, 0]) high([0, 1]) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x4xf32>
  %d = mpc.constant dense<3.0> : tensor<f32>
  %2 = mpc.mul %1, %d : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc("scale")
  %f = mpc.constant dense<1.01> : tensor<f32>
  %3 = mpc.mul %2, %f : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc("scale")
  return %0, %3 : tensor<1x2x4xbf16>, tensor<2x4xf32>
})",
                            R"(
exe.program @main target("cpu:avx2") arena(192) {
  exe.argument @x : tensor<1x2x4xbf16> input(0) name("x")
  exe.argument @s : tensor<2xbf16> input(1) name("s")
  exe.argument @z : tensor<2x3xf32> input(2) name("z")
  exe.result @y : tensor<1x2x4xbf16> output(0) name("y")
  exe.result @w : tensor<2x4xf32> output(1) name("w")
  exe.launch @k_sub kind(elementwise) ops(["norm"]) flops(8) bytes(36) (read @x, read @s, write arena[0 : 16])
  exe.launch @k_mul kind(elementwise) ops(["norm"]) flops(8) bytes(36) (read arena[0 : 16], read @s, write arena[64 : 16])
  exe.launch @k_neg kind(elementwise) ops(["norm"]) flops(8) bytes(32) (read arena[64 : 16], write arena[0 : 16])
  exe.launch @k_rsub kind(elementwise) ops(["norm"]) flops(8) bytes(36) (read @s, read arena[0 : 16], write @y)
  exe.launch @k_pad kind(elementwise) ops(["scale"]) flops(6) bytes(56) (read @z, write arena[128 : 32])
  exe.launch @k_scale kind(elementwise) ops(["scale"]) flops(8) bytes(64) (read arena[128 : 32], write @w)
}
func.func private @k_sub(%x: tensor<1x2x4xbf16>, %s: tensor<2xbf16>) -> tensor<1x2x4xbf16> {
  %r = mpc.reshape %s : tensor<2xbf16> to tensor<2x1xbf16>
  %0 = mpc.sub %x, %r : (tensor<1x2x4xbf16>, tensor<2x1xbf16>) -> tensor<1x2x4xbf16>
  return %0 : tensor<1x2x4xbf16>
}
func.func private @k_mul(%x: tensor<1x2x4xbf16>, %s: tensor<2xbf16>) -> tensor<1x2x4xbf16> {
  %r = mpc.reshape %s : tensor<2xbf16> to tensor<2x1xbf16>
  %0 = mpc.mul %x, %r : (tensor<1x2x4xbf16>, tensor<2x1xbf16>) -> tensor<1x2x4xbf16>
  return %0 : tensor<1x2x4xbf16>
}
func.func private @k_neg(%x: tensor<1x2x4xbf16>) -> tensor<1x2x4xbf16> {
  %0 = mpc.neg %x : tensor<1x2x4xbf16>
  return %0 : tensor<1x2x4xbf16>
}
func.func private @k_rsub(%s: tensor<2xbf16>, %x: tensor<1x2x4xbf16>) -> tensor<1x2x4xbf16> {
  %r = mpc.reshape %s : tensor<2xbf16> to tensor<2x1xbf16>
  %0 = mpc.sub %r, %x : (tensor<2x1xbf16>, tensor<1x2x4xbf16>) -> tensor<1x2x4xbf16>
  return %0 : tensor<1x2x4xbf16>
}
func.func private @k_pad(%z: tensor<2x3xf32>) -> tensor<2x4xf32> {
  %c = mpc.constant dense<0.0> : tensor<f32>
  %d = mpc.constant dense<3.0> : tensor<f32>
  %0 = mpc.mul %z, %d : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %1 = mpc.pad %0, %c low([0, 0]) high([0, 1]) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
func.func private @k_scale(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %f = mpc.constant dense<1.01> : tensor<f32>
  %0 = mpc.mul %x, %f : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
})"};

class TranslationValidationTest : public ::testing::Test {
protected:
  TranslationValidationTest() {
    context.loadDialect<MpcDialect, exe::ExeDialect, func::FuncDialect>();
  }

  TranslationReport validate(const std::string &graph,
                             const std::string &planned) {
    auto typed = parseSourceString<ModuleOp>(graph, &context);
    // Planted hazards do not verify.
    auto program = parseSourceString<ModuleOp>(
        planned, ParserConfig(&context, /*verifyAfterParse=*/false));
    if (!typed || !program) {
      ADD_FAILURE() << planned;
      return {};
    }
    FailureOr<TranslationReport> report = validateTranslation(
        typed->lookupSymbol<func::FuncOp>("main"), *program);
    EXPECT_TRUE(succeeded(report));
    return succeeded(report) ? *report : TranslationReport();
  }

  /// The program with the first `from` replaced.
  static std::string plant(const Program &program, const std::string &from,
                           const std::string &to) {
    std::string text = program.planned;
    size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos)
      text.replace(at, from.size(), to);
    return text;
  }

  MLIRContext context;
};

TEST_F(TranslationValidationTest, ProvesPlannedPrograms) {
  for (const Program &program : {kLayer, kImage, kAttention}) {
    TranslationReport report = validate(program.graph, program.planned);
    EXPECT_EQ(report.count(TranslationReport::Verdict::Proved),
              report.kernels.size());
    EXPECT_FALSE(report.difference) << report.difference->text;
  }
}

TEST_F(TranslationValidationTest, TestsWhatItDoesNotProve) {
  TranslationReport report = validate(kMoved.graph, kMoved.planned);
  EXPECT_EQ(report.count(TranslationReport::Verdict::Tested), 2u);
  EXPECT_FALSE(report.difference) << report.difference->text;
}

/// A cell state that each of 400 steps adds to and multiplies: its expression
/// is not expanded to the first step at each index that a sum reads.
TEST_F(TranslationValidationTest, ProvesLongRecurrences) {
  std::string graph = R"(
func.func @main(%c0: tensor<2x2xf32> {mpc.name = "c"}, %h0: tensor<2x2xf32> {mpc.name = "h"},
                %w: tensor<2x2xf32> {mpc.name = "w"}) -> tensor<2x2xf32> {
)",
              planned = R"(
exe.program @main target("cpu:avx2") arena(256) {
  exe.argument @c : tensor<2x2xf32> input(0) name("c")
  exe.argument @h : tensor<2x2xf32> input(1) name("h")
  exe.argument @w : tensor<2x2xf32> input(2) name("w")
  exe.result @y : tensor<2x2xf32> output(0) name("y")
)";
  constexpr int kSteps = 400;
  std::string cell = "@c", hidden = "@h";
  for (int i = 0; i < kSteps; ++i) {
    std::string from = std::to_string(i), to = std::to_string(i + 1);
    graph += "%p" + to + " = mpc.matmul %h" + from +
             ", %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>\n"
             "%c" +
             to + " = mpc.add %c" + from + ", %p" + to +
             " : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>\n"
             "%h" +
             to + " = mpc.tanh %c" + to + " : tensor<2x2xf32>\n";
    std::string half = i % 2 ? "128" : "0", other = i % 2 ? "192" : "64";
    bool isLast = i + 1 == kSteps;
    planned += "exe.launch @k_step kind(contraction) ops([]) flops(24) "
               "bytes(80) (read " +
               cell + ", read " + hidden + ", read @w, write ";
    cell = "arena[" + half + " : 16]";
    hidden = isLast ? "@y" : "arena[" + other + " : 16]";
    planned += cell + ", write " + hidden + ")\n";
  }
  graph += "return %h" + std::to_string(kSteps) + " : tensor<2x2xf32>\n}";
  planned += R"(}
func.func private @k_step(%c: tensor<2x2xf32>, %h: tensor<2x2xf32>, %w: tensor<2x2xf32>)
    -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %0 = mpc.matmul %h, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = mpc.add %c, %0 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = mpc.tanh %1 : tensor<2x2xf32>
  return %1, %2 : tensor<2x2xf32>, tensor<2x2xf32>
})";
  TranslationReport report = validate(graph, planned);
  EXPECT_EQ(report.count(TranslationReport::Verdict::Proved), size_t(kSteps));
}

/// The layer's tolerance would take the pad for the scaled value, which then
/// seems to be scaled twice.
TEST_F(TranslationValidationTest, ALayersToleranceIsItsOwn) {
  TranslationReport report = validate(kUnrelated.graph, kUnrelated.planned);
  EXPECT_EQ(report.count(TranslationReport::Verdict::Tested), 5u);
  EXPECT_FALSE(report.difference) << report.difference->text;
}

TEST_F(TranslationValidationTest, FindsWrongRewrites) {
  struct Plant {
    const char *name;
    const Program &program;
    const char *kernel, *from, *to;
  };
  const Plant plants[] = {
      {"dropped bias", kLayer, "k_matmul", "mpc.relu %1", "mpc.relu %0"},
      {"missing relu", kLayer, "k_matmul", "mpc.add %2, %r", "mpc.add %1, %r"},
      {"transposed weight", kLayer, "k_matmul",
       "[[[1.0, 2.0, 3.0, 0.0], [4.0, 5.0, 6.0, 0.0]]]",
       "[[[1.0, 3.0, 5.0, 0.0], [2.0, 4.0, 6.0, 0.0]]]"},
      {"reassociation", kLayer, "k_matmul",
       "%3 = mpc.add %2, %r : (tensor<4x3xf32>, tensor<4x3xf32>) -> "
       "tensor<4x3xf32>\n  %4 = mpc.add %3, %b : (tensor<4x3xf32>, "
       "tensor<3xf32>)",
       "%3 = mpc.add %r, %b : (tensor<4x3xf32>, tensor<3xf32>) -> "
       "tensor<4x3xf32>\n  %4 = mpc.add %2, %3 : (tensor<4x3xf32>, "
       "tensor<4x3xf32>)"},
      {"wrong broadcast", kLayer, "k_matmul",
       "%3 = mpc.add %2, %r : (tensor<4x3xf32>, tensor<4x3xf32>)",
       "%q = mpc.slice %r [0, 0] [1, 3] : tensor<4x3xf32> to "
       "tensor<1x3xf32>\n  %3 = mpc.add %2, %q : (tensor<4x3xf32>, "
       "tensor<1x3xf32>)"},
      {"stale operand", kLayer, "k_matmul", "write arena[64 : 16]",
       "write arena[128 : 16]"},
      {"wrong epsilon", kLayer, "k_norm", "epsilon(1.0e-5)", "epsilon(1.0e-6)"},
      {"missing scale", kLayer, "k_norm", "mpc.cast %1", "mpc.cast %0"},
      {"dropped cast", kLayer, "k_norm", "mpc.select %m, %f",
       "mpc.select %m, %1"},
      {"wrong select branch", kLayer, "k_norm",
       "mpc.select %m, %f, %z : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<f32>)",
       "mpc.select %m, %z, %f : (tensor<4x3xi1>, tensor<f32>, "
       "tensor<4x3xf32>)"},
      {"lost mask", kLayer, "k_norm", "mpc.sub %2, %r", "mpc.sub %f, %r"},
      {"swapped operands", kLayer, "k_norm", "mpc.sub %2, %r",
       "mpc.sub %r, %2"},
      {"wrong constant splat", kLayer, "k_norm", "dense<-1.0>", "dense<-2.0>"},
      {"truncation instead of rounding", kLayer, "k_input",
       "%0 = mpc.cast %x : tensor<4x2xf32> to tensor<4x2xbf16>",
       "%i = mpc.cast %x : tensor<4x2xf32> to tensor<4x2xi32>\n  %0 = "
       "mpc.cast %i : tensor<4x2xi32> to tensor<4x2xbf16>"},
      {"double rounding", kLayer, "k_input",
       "%0 = mpc.cast %x : tensor<4x2xf32> to tensor<4x2xbf16>",
       "%i = mpc.cast %x : tensor<4x2xf32> to tensor<4x2xf16>\n  %0 = "
       "mpc.cast %i : tensor<4x2xf16> to tensor<4x2xbf16>"},
      {"off-by-one pad", kImage, "k_conv",
       "pad([1, 1], [1, 1]) dilations([1, "
       "1]) layout(channels_last) window",
       "pad([0, 1], [2, 1]) dilations([1, 1]) layout(channels_last) window"},
      {"wrong stride", kImage, "k_conv",
       "strides([2, 2]) pad([1, 1], [1, 1]) dilations([1, 1])",
       "strides([2, 1]) pad([1, 0], [1, 1]) dilations([1, 4])"},
      {"wrong reduction extent", kImage, "k_sum",
       "%0 = mpc.reduce_sum %x axes([1, 2]) accumulate(f64) : "
       "tensor<1x4x4x2xf32>",
       "%p = mpc.slice %x [0, 0, 0, 0] [1, 3, 4, 2] : tensor<1x4x4x2xf32> to "
       "tensor<1x3x4x2xf32>\n  %0 = mpc.reduce_sum %p axes([1, 2]) "
       "accumulate(f64) : tensor<1x3x4x2xf32>"},
      {"wrong axis", kImage, "k_conv", "mpc.transpose %x [0, 2, 3, 1]",
       "mpc.transpose %x [0, 3, 2, 1]"},
      {"wrong dtype of accumulation", kImage, "k_sum", "accumulate(f64)",
       "accumulate(f32)"},
      {"wrong initial value", kAttention, "k_pad", "dense<0.0>", "dense<1.0>"},
      {"exchange of min and max", kAttention, "k_least", "mpc.reduce_min",
       "mpc.reduce_max"},
      {"wrong slice start", kAttention, "k_concat", "[0, 0, 1, 0] [1, 2, 1, 4]",
       "[0, 0, 2, 0] [1, 2, 1, 4]"},
      {"reversed concat order", kAttention, "k_concat", "mpc.concat %l, %1",
       "mpc.concat %1, %l"},
      {"off-by-one causal mask", kAttention, "k_attention",
       "%0 = mpc.attention %q, %k, %p scale(0.25) causal\n    : "
       "(tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>)",
       "%c = mpc.constant dense<[[true, true, false, false], [true, true, "
       "true, false], [true, true, true, true], [true, true, true, true]]> : "
       "tensor<4x4xi1>\n  %0 = mpc.attention %q, %k, %p mask(%c) scale(0.25) "
       ": (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, "
       "tensor<4x4xi1>)"},
      {"in-place hazard", kAttention, "k_concat", "write arena[0 : 32]",
       "write arena[192 : 32]"},
      {"wrong scale in a fusion", kMoved, "k_scale", "dense<3.0>",
       "dense<2.0>"},
      {"wrong result of a fusion", kMoved, "k_scale", "mpc.yield %2",
       "mpc.yield %1"},
  };
  for (const Plant &planted : plants) {
    SCOPED_TRACE(planted.name);
    TranslationReport report =
        validate(planted.program.graph,
                 plant(planted.program, planted.from, planted.to));
    EXPECT_TRUE(report.difference);
    if (!report.difference)
      continue;
    EXPECT_EQ(report.difference->kernel, planted.kernel);
    RecordProperty(planted.name, report.difference->text);
  }
}

} // namespace
