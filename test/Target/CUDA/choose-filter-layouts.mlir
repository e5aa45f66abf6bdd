// RUN: mpc-opt --pass-pipeline='builtin.module(func.func(mpc-choose-filter-layouts))' %s | FileCheck %s
// RUN: mpc-opt --pass-pipeline='builtin.module(func.func(mpc-choose-filter-layouts,mpc-choose-filter-layouts))' %s | FileCheck %s

// Channels are stored last, and the kernel sees the original filter.
// CHECK-LABEL: func.func @channels_last(
// CHECK-SAME: %[[X:.*]]: tensor<1x4x4x2xf32>
// CHECK: %[[W:.*]] = mpc.constant dense<{{\[\[\[\[}}1.000000e+00, 3.000000e+00], [2.000000e+00, 4.000000e+00]]]]> : tensor<1x1x2x2xf32>
// CHECK: mpc.fusion {{.*}}(%[[A:.*]] = %[[X]] : tensor<1x4x4x2xf32>, %[[V:.*]] = %[[W]] : tensor<1x1x2x2xf32>)
// CHECK: %[[F:.*]] = mpc.transpose %[[V]] [0, 3, 1, 2] : tensor<1x1x2x2xf32> to tensor<1x2x1x2xf32>
// CHECK: mpc.conv %[[A]], %[[F]]
func.func @channels_last(%x: tensor<1x4x4x2xf32>) -> tensor<1x4x3x1xf32> {
  %w = mpc.constant dense<[[[[1.0, 2.0]], [[3.0, 4.0]]]]> : tensor<1x2x1x2xf32>
  %y = mpc.fusion kind(convolution) name("c") (%a = %x : tensor<1x4x4x2xf32>, %f = %w : tensor<1x2x1x2xf32>) -> tensor<1x4x3x1xf32> {
    %0 = mpc.conv %a, %f strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<1x4x4x2xf32>, tensor<1x2x1x2xf32>) -> tensor<1x4x3x1xf32>
    mpc.yield %0 : tensor<1x4x3x1xf32>
  }
  return %y : tensor<1x4x3x1xf32>
}

// Filters of one channel are read along their outputs.
// CHECK-LABEL: func.func @depthwise(
// CHECK: mpc.constant {{.*}} : tensor<1x2x1x2xf32>
// CHECK: mpc.transpose %{{.*}} [3, 2, 0, 1] : tensor<1x2x1x2xf32> to tensor<2x1x1x2xf32>
func.func @depthwise(%x: tensor<1x4x4x2xf32>) -> tensor<1x4x3x2xf32> {
  %w = mpc.constant dense<[[[[1.0, 2.0]]], [[[3.0, 4.0]]]]> : tensor<2x1x1x2xf32>
  %y = mpc.fusion kind(convolution) name("c") (%a = %x : tensor<1x4x4x2xf32>, %f = %w : tensor<2x1x1x2xf32>) -> tensor<1x4x3x2xf32> {
    %0 = mpc.conv %a, %f strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) groups(2) layout(channels_last) : (tensor<1x4x4x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x4x3x2xf32>
    mpc.yield %0 : tensor<1x4x3x2xf32>
  }
  return %y : tensor<1x4x3x2xf32>
}

// A 1x1 window has its channels last already; other filters are not
// constants here.
// CHECK-LABEL: func.func @left_alone(
// CHECK-NOT: mpc.transpose
// CHECK: return
func.func @left_alone(%x: tensor<1x4x4x2xf32>, %v: tensor<1x2x1x2xf32>) -> (tensor<1x4x4x1xf32>, tensor<1x4x3x1xf32>) {
  %w = mpc.constant dense<[[[[1.0]], [[3.0]]]]> : tensor<1x2x1x1xf32>
  %y = mpc.fusion kind(convolution) name("c") (%a = %x : tensor<1x4x4x2xf32>, %f = %w : tensor<1x2x1x1xf32>) -> tensor<1x4x4x1xf32> {
    %0 = mpc.conv %a, %f strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<1x4x4x2xf32>, tensor<1x2x1x1xf32>) -> tensor<1x4x4x1xf32>
    mpc.yield %0 : tensor<1x4x4x1xf32>
  }
  %z = mpc.fusion kind(convolution) name("d") (%a = %x : tensor<1x4x4x2xf32>, %f = %v : tensor<1x2x1x2xf32>) -> tensor<1x4x3x1xf32> {
    %0 = mpc.conv %a, %f strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<1x4x4x2xf32>, tensor<1x2x1x2xf32>) -> tensor<1x4x3x1xf32>
    mpc.yield %0 : tensor<1x4x3x1xf32>
  }
  return %y, %z : tensor<1x4x4x1xf32>, tensor<1x4x3x1xf32>
}

// A filter that a training step transposes for the image's gradient is stored with its window
// first and its outputs last. The convolution reads runs of outputs, its gradient reads the
// window in reverse.
// CHECK-LABEL: func.func @turned(
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8x4x3x2xbf16>
// CHECK: %[[S:.*]] = mpc.fusion kind(transpose) name("turn") (%[[A:.*]] = %[[W]] : {{.*}}) -> tensor<3x2x4x8xbf16>
// CHECK-NEXT: mpc.transpose %[[A]] [2, 3, 1, 0] : tensor<8x4x3x2xbf16> to tensor<3x2x4x8xbf16>
// CHECK-NEXT: mpc.yield
// CHECK: %{{.*}} = mpc.fusion kind(convolution) name("forward") ({{.*}}, %[[F:.*]] = %[[S]] : tensor<3x2x4x8xbf16>)
// CHECK-NEXT: %[[P:.*]] = mpc.transpose %[[F]] [3, 2, 0, 1] : tensor<3x2x4x8xbf16> to tensor<8x4x3x2xbf16>
// CHECK-NEXT: mpc.conv %{{.*}}, %[[P]]
// CHECK: mpc.fusion kind(convolution) name("backward") ({{.*}}, %[[G:.*]] = %[[S]] : tensor<3x2x4x8xbf16>)
// CHECK-NEXT: %[[Q:.*]] = mpc.transpose %[[G]] [2, 3, 0, 1] : tensor<3x2x4x8xbf16> to tensor<4x8x3x2xbf16>
// CHECK-NEXT: %[[R:.*]] = mpc.reverse %[[Q]] axes([2, 3])
// CHECK-NEXT: mpc.conv %{{.*}}, %[[R]]
func.func @turned(%x: tensor<1x5x5x4xbf16>, %w: tensor<8x4x3x2xbf16>) -> (tensor<1x3x4x8xbf16>, tensor<1x5x5x4xbf16>) {
  %t = mpc.fusion kind(transpose) name("turn") (%a = %w : tensor<8x4x3x2xbf16>) -> tensor<4x8x3x2xbf16> {
    %0 = mpc.transpose %a [1, 0, 2, 3] : tensor<8x4x3x2xbf16> to tensor<4x8x3x2xbf16>
    %1 = mpc.reverse %0 axes([2, 3]) : tensor<4x8x3x2xbf16>
    mpc.yield %1 : tensor<4x8x3x2xbf16>
  }
  %y = mpc.fusion kind(convolution) name("forward") (%a = %x : tensor<1x5x5x4xbf16>, %f = %w : tensor<8x4x3x2xbf16>) -> tensor<1x3x4x8xbf16> {
    %0 = mpc.conv %a, %f strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<1x5x5x4xbf16>, tensor<8x4x3x2xbf16>) -> tensor<1x3x4x8xbf16>
    mpc.yield %0 : tensor<1x3x4x8xbf16>
  }
  %d = mpc.fusion kind(convolution) name("backward") (%a = %y : tensor<1x3x4x8xbf16>, %f = %t : tensor<4x8x3x2xbf16>) -> tensor<1x5x5x4xbf16> {
    %0 = mpc.conv %a, %f strides([1, 1]) pad([2, 1], [2, 1]) dilations([1, 1]) layout(channels_last) : (tensor<1x3x4x8xbf16>, tensor<4x8x3x2xbf16>) -> tensor<1x5x5x4xbf16>
    mpc.yield %0 : tensor<1x5x5x4xbf16>
  }
  return %y, %d : tensor<1x3x4x8xbf16>, tensor<1x5x5x4xbf16>
}

// The same where the gradient sees the filter in one group and its window as one dimension, and
// where the convolution shares a launch.
// CHECK-LABEL: func.func @grouped(
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8x4x3x2xbf16>
// CHECK-NOT: mpc.reshape
// CHECK: %[[S:.*]] = mpc.fusion kind(transpose) name("turn") (%[[A:.*]] = %[[W]] : {{.*}}) -> tensor<3x2x4x8xbf16>
// CHECK-NEXT: mpc.transpose %[[A]] [2, 3, 1, 0] : tensor<8x4x3x2xbf16> to tensor<3x2x4x8xbf16>
// CHECK: mpc.fusion kind(convolution) name("forward") ({{.*}}, %{{.*}} = %[[S]] : tensor<3x2x4x8xbf16>)
// CHECK: mpc.fusion kind(library) name("both") ({{.*}}, %[[F:.*]] = %[[S]] : tensor<3x2x4x8xbf16>)
// CHECK: mpc.fusion kind(convolution) name("backward") ({{.*}}, %[[G:.*]] = %[[F]] : tensor<3x2x4x8xbf16>)
// CHECK-NEXT: %[[Q:.*]] = mpc.transpose %[[G]] [2, 3, 0, 1] : tensor<3x2x4x8xbf16> to tensor<4x8x3x2xbf16>
// CHECK-NEXT: %[[R:.*]] = mpc.reverse %[[Q]] axes([2, 3])
// CHECK-NEXT: mpc.conv %{{.*}}, %[[R]]
func.func @grouped(%x: tensor<1x5x5x4xbf16>, %w: tensor<8x4x3x2xbf16>) -> (tensor<1x3x4x8xbf16>, tensor<8xf32>, tensor<1x5x5x4xbf16>) {
  %g = mpc.reshape %w : tensor<8x4x3x2xbf16> to tensor<1x8x4x6xbf16>
  %t = mpc.fusion kind(transpose) name("turn") (%a = %g : tensor<1x8x4x6xbf16>) -> tensor<1x4x8x6xbf16> {
    %0 = mpc.transpose %a [0, 2, 1, 3] : tensor<1x8x4x6xbf16> to tensor<1x4x8x6xbf16>
    %1 = mpc.reverse %0 axes([3]) : tensor<1x4x8x6xbf16>
    mpc.yield %1 : tensor<1x4x8x6xbf16>
  }
  %y = mpc.fusion kind(convolution) name("forward") (%a = %x : tensor<1x5x5x4xbf16>, %f = %w : tensor<8x4x3x2xbf16>) -> tensor<1x3x4x8xbf16> {
    %0 = mpc.conv %a, %f strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<1x5x5x4xbf16>, tensor<8x4x3x2xbf16>) -> tensor<1x3x4x8xbf16>
    mpc.yield %0 : tensor<1x3x4x8xbf16>
  }
  %u = mpc.reshape %t : tensor<1x4x8x6xbf16> to tensor<4x8x3x2xbf16>
  %d:2 = mpc.fusion kind(library) name("both") (%a = %y : tensor<1x3x4x8xbf16>, %f = %u : tensor<4x8x3x2xbf16>) -> (tensor<8xf32>, tensor<1x5x5x4xbf16>) {
    %s = mpc.fusion kind(library) name("sum") (%b = %a : tensor<1x3x4x8xbf16>) -> tensor<8xf32> {
      %0 = mpc.cast %b : tensor<1x3x4x8xbf16> to tensor<1x3x4x8xf32>
      %1 = mpc.reduce_sum %0 axes([0, 1, 2]) : tensor<1x3x4x8xf32> -> tensor<8xf32>
      mpc.yield %1 : tensor<8xf32>
    }
    %c = mpc.fusion kind(convolution) name("backward") (%b = %a : tensor<1x3x4x8xbf16>, %h = %f : tensor<4x8x3x2xbf16>) -> tensor<1x5x5x4xbf16> {
      %0 = mpc.conv %b, %h strides([1, 1]) pad([2, 1], [2, 1]) dilations([1, 1]) layout(channels_last) : (tensor<1x3x4x8xbf16>, tensor<4x8x3x2xbf16>) -> tensor<1x5x5x4xbf16>
      mpc.yield %0 : tensor<1x5x5x4xbf16>
    }
    mpc.yield %s, %c : tensor<8xf32>, tensor<1x5x5x4xbf16>
  }
  return %y, %d#0, %d#1 : tensor<1x3x4x8xbf16>, tensor<8xf32>, tensor<1x5x5x4xbf16>
}
