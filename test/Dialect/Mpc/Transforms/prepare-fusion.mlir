// RUN: mpc-opt %s --split-input-file --mpc-prepare-fusion=target=cpu:avx512 | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: mpc-opt %s --split-input-file --mpc-prepare-fusion=target=cuda:sm_80 | FileCheck %s --check-prefixes=CHECK,CUDA
// RUN: mpc-opt %s --split-input-file --mpc-prepare-fusion=target=cpu:avx512bf16 | FileCheck %s --check-prefixes=CHECK,CPU,PAIRS
// RUN: mpc-opt %s --split-input-file --mpc-prepare-fusion=target=cuda:sm_80 > %t.once
// RUN: mpc-opt %s --split-input-file --mpc-prepare-fusion=target=cuda:sm_80 --mpc-prepare-fusion=target=cuda:sm_80 | diff %t.once -

// Data moves in 16 bits.
// CHECK-LABEL: func.func @widening
func.func @widening(%x: tensor<8x4xbf16>) -> tensor<4x8xf32> {
  // CHECK: mpc.transpose %{{.*}} [1, 0] : tensor<8x4xbf16> to tensor<4x8xbf16>
  // CHECK-NEXT: mpc.cast %{{.*}} : tensor<4x8xbf16> to tensor<4x8xf32>
  %0 = mpc.cast %x : tensor<8x4xbf16> to tensor<8x4xf32>
  %1 = mpc.transpose %0 [1, 0] : tensor<8x4xf32> to tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func.func @narrowing
func.func @narrowing(%x: tensor<8x4xf32>) -> tensor<4x8xbf16> {
  // CHECK: mpc.exp
  // CHECK-NEXT: mpc.cast %{{.*}} : tensor<8x4xf32> to tensor<8x4xbf16>
  // CHECK-NEXT: mpc.transpose %{{.*}} [1, 0] : tensor<8x4xbf16> to tensor<4x8xbf16>
  %0 = mpc.exp %x : tensor<8x4xf32>
  %1 = mpc.transpose %0 [1, 0] : tensor<8x4xf32> to tensor<4x8xf32>
  %2 = mpc.cast %1 : tensor<4x8xf32> to tensor<4x8xbf16>
  return %2 : tensor<4x8xbf16>
}

// -----

// An explicit cast of the model is not moved.
// CHECK-LABEL: func.func @pinned
func.func @pinned(%x: tensor<8x4xbf16>) -> tensor<4x8xf32> {
  // CHECK: mpc.cast
  // CHECK-NEXT: mpc.transpose %{{.*}} [1, 0] : tensor<8x4xf32> to tensor<4x8xf32>
  %0 = mpc.cast %x pinned : tensor<8x4xbf16> to tensor<8x4xf32>
  %1 = mpc.transpose %0 [1, 0] : tensor<8x4xf32> to tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// The upcast is duplicated into each reader.
// CHECK-LABEL: func.func @readers
func.func @readers(%x: tensor<8x4xbf16>) -> (tensor<8x4xf32>, tensor<8x1xf32>) {
  // CHECK-COUNT-2: mpc.cast %{{.*}} : tensor<8x4xbf16> to tensor<8x4xf32>
  %0 = mpc.cast %x : tensor<8x4xbf16> to tensor<8x4xf32>
  %1 = mpc.exp %0 : tensor<8x4xf32>
  %2 = mpc.reduce_sum %0 axes([1]) keep_dims : tensor<8x4xf32> -> tensor<8x1xf32>
  return %1, %2 : tensor<8x4xf32>, tensor<8x1xf32>
}

// -----

// Each matmul unpacks the panels that it reads.
// CHECK-LABEL: func.func @panels
func.func @panels(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %q = mpc.constant dense<[[[-100, 1], [7, 90]]]> : tensor<1x2x2xi8>
  %s = mpc.constant dense<0.1> : tensor<1x1x2xf32>
  %w = mpc.dequantize %q scale(%s : tensor<1x1x2xf32>) : tensor<1x2x2xi8> to tensor<1x2x2xf32>
  // CHECK-DAG: %[[V:.+]] = mpc.dequantize
  // CHECK-DAG: %[[W:.+]] = mpc.dequantize
  // CHECK-DAG: mpc.matmul %{{.+}}, %[[V]] packed
  // CHECK-DAG: mpc.matmul %{{.+}}, %[[W]] packed
  %0 = mpc.matmul %x, %w packed<columns = 2> : (tensor<4x2xf32>, tensor<1x2x2xf32>) -> tensor<4x2xf32>
  %1 = mpc.matmul %0, %w packed<columns = 2> : (tensor<4x2xf32>, tensor<1x2x2xf32>) -> tensor<4x2xf32>
  return %1 : tensor<4x2xf32>
}

// -----

// Where kernels fuse data movement into their loads, it is duplicated into each matmul.
// CHECK-LABEL: func.func @movement
func.func @movement(%x: tensor<2x64x64xf32>, %w: tensor<2x64x64xf32>)
    -> (tensor<64x2x64xf32>, tensor<64x2x64xf32>) {
  // CPU-COUNT-1: mpc.transpose
  // CPU-NOT: mpc.transpose
  // CUDA-COUNT-2: mpc.transpose
  %0 = mpc.transpose %x [1, 0, 2] : tensor<2x64x64xf32> to tensor<64x2x64xf32>
  %1 = mpc.exp %0 : tensor<64x2x64xf32>
  %2 = mpc.softmax %0 axis(2) : tensor<64x2x64xf32>
  return %1, %2 : tensor<64x2x64xf32>, tensor<64x2x64xf32>
}

// -----

// With dot-product units for pairs, the gradient of a 1x1 filter is a matmul over all
// pixels: a convolution's row of odd length would be padded.
// CHECK-LABEL: func.func @no_window
func.func @no_window(%x: tensor<2x7x7x32xbf16>, %g: tensor<2x7x7x64xbf16>, %f: tensor<2x7x7x64xf32>) -> (tensor<64x32x1x1xf32>, tensor<64x64x1x1xf32>) {
  // PAIRS: %[[G:.*]] = mpc.reshape %arg1 : tensor<2x7x7x64xbf16> to tensor<98x64xbf16>
  // PAIRS: %[[X:.*]] = mpc.reshape %arg0 : tensor<2x7x7x32xbf16> to tensor<98x32xbf16>
  // PAIRS: %[[P:.*]] = mpc.matmul %[[G]], %[[X]] transpose_lhs : (tensor<98x64xbf16>, tensor<98x32xbf16>) -> tensor<64x32xf32>
  // PAIRS: mpc.reshape %[[P]] : tensor<64x32xf32> to tensor<64x32x1x1xf32>
  // CUDA: mpc.conv_filter_gradient
  // CHECK: mpc.conv_filter_gradient %arg2
  %0 = mpc.conv_filter_gradient %x, %g strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<2x7x7x32xbf16>, tensor<2x7x7x64xbf16>) -> tensor<64x32x1x1xf32>
  %1 = mpc.conv_filter_gradient %f, %f strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<2x7x7x64xf32>, tensor<2x7x7x64xf32>) -> tensor<64x64x1x1xf32>
  return %0, %1 : tensor<64x32x1x1xf32>, tensor<64x64x1x1xf32>
}

// -----

// With a stride the contributing pixels are gathered first.
// CHECK-LABEL: func.func @stride
func.func @stride(%x: tensor<2x14x13x32xbf16>, %g: tensor<2x7x7x64xbf16>) -> tensor<64x32x1x1xf32> {
  // PAIRS: mpc.slice %arg0 [0, 0, 0, 0] [2, 7, 7, 32] strides [1, 2, 2, 1]
  // PAIRS: mpc.matmul
  %0 = mpc.conv_filter_gradient %x, %g strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<2x14x13x32xbf16>, tensor<2x7x7x64xbf16>) -> tensor<64x32x1x1xf32>
  return %0 : tensor<64x32x1x1xf32>
}

// -----

// A window, padding or groups stay a convolution.
// CHECK-LABEL: func.func @window
func.func @window(%x: tensor<2x7x7x32xbf16>, %g: tensor<2x7x7x64xbf16>) -> (tensor<64x32x3x3xf32>, tensor<64x16x1x1xf32>) {
  // CHECK-NOT: mpc.matmul
  // CHECK: return
  %0 = mpc.conv_filter_gradient %x, %g strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) : (tensor<2x7x7x32xbf16>, tensor<2x7x7x64xbf16>) -> tensor<64x32x3x3xf32>
  %1 = mpc.conv_filter_gradient %x, %g strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) groups(2) layout(channels_last) : (tensor<2x7x7x32xbf16>, tensor<2x7x7x64xbf16>) -> tensor<64x16x1x1xf32>
  return %0, %1 : tensor<64x32x3x3xf32>, tensor<64x16x1x1xf32>
}

// The states of all steps are downcast in the layer's kernel, before the concat with
// zeros; the last state is unchanged, since that kernel stores it in one type only.
// CHECK-LABEL: func.func @states_are_narrowed_first
// CHECK-SAME: %[[P:[^:]+]]: tensor<9x5x8xf32>
// CHECK: %[[Y:.+]], %[[H:.+]] = mpc.recurrence rnn %[[P]]
// CHECK: %[[NARROW:.+]] = mpc.cast %[[Y]] : tensor<9x1x5x8xf32> to tensor<9x1x5x8xbf16>
// CHECK: %[[ZERO:.+]] = mpc.constant dense<0.000000e+00> : tensor<bf16>
// CHECK: %[[PADDED:.+]] = mpc.pad %[[NARROW]], %[[ZERO]] {{.*}}-> tensor<9x1x8x8xbf16>
// CHECK: mpc.reshape %[[PADDED]] : tensor<9x1x8x8xbf16> to tensor<9x8x8xbf16>
// CHECK: %[[LAST:.+]] = mpc.reshape %[[H]] : tensor<1x5x8xf32> to tensor<5x8xf32>
// CHECK: mpc.cast %[[LAST]] : tensor<5x8xf32> to tensor<5x8xbf16>
func.func @states_are_narrowed_first(%p: tensor<9x5x8xf32>, %r: tensor<1x8x8xbf16>) -> (tensor<9x8x8xbf16>, tensor<5x8xbf16>) {
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %0:2 = mpc.recurrence rnn %p, %r : (tensor<9x5x8xf32>, tensor<1x8x8xbf16>) -> (tensor<9x1x5x8xf32>, tensor<1x5x8xf32>)
  %1 = mpc.pad %0#0, %zero low([0, 0, 0, 0]) high([0, 0, 3, 0]) : (tensor<9x1x5x8xf32>, tensor<f32>) -> tensor<9x1x8x8xf32>
  %2 = mpc.reshape %1 : tensor<9x1x8x8xf32> to tensor<9x8x8xf32>
  %3 = mpc.cast %2 : tensor<9x8x8xf32> to tensor<9x8x8xbf16>
  %4 = mpc.reshape %0#1 : tensor<1x5x8xf32> to tensor<5x8xf32>
  %5 = mpc.cast %4 : tensor<5x8xf32> to tensor<5x8xbf16>
  return %3, %5 : tensor<9x8x8xbf16>, tensor<5x8xbf16>
}

// -----

// On a GPU a small tensor is quantized again for the reader of its transpose, a large one only once.
// CHECK-LABEL: func.func @quantized_in_both_orders
// CUDA-COUNT-3: mpc.encode_float
// CPU-COUNT-2: mpc.encode_float
// CHECK-NOT: mpc.encode_float
func.func @quantized_in_both_orders(%x: tensor<64x64xf32>, %y: tensor<4096x4096xf32>)
    -> (tensor<64x64xui8>, tensor<64x64xui8>, tensor<4096x4096xui8>, tensor<4096x4096xui8>) {
  %0 = mpc.exp %x : tensor<64x64xf32>
  %1 = mpc.encode_float %0 format(f8E4M3FN) saturate : tensor<64x64xf32> to tensor<64x64xui8>
  %2 = mpc.transpose %1 [1, 0] : tensor<64x64xui8> to tensor<64x64xui8>
  %3 = mpc.exp %y : tensor<4096x4096xf32>
  %4 = mpc.encode_float %3 format(f8E4M3FN) saturate : tensor<4096x4096xf32> to tensor<4096x4096xui8>
  %5 = mpc.transpose %4 [1, 0] : tensor<4096x4096xui8> to tensor<4096x4096xui8>
  return %1, %2, %4, %5 : tensor<64x64xui8>, tensor<64x64xui8>, tensor<4096x4096xui8>, tensor<4096x4096xui8>
}
