// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-schedule-kernels --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_90a --mpc-schedule-kernels --mpc-schedule-kernels --split-input-file | FileCheck %s

// Elementwise kernels move 128 bits per thread and access: four f32, eight bf16.

// CHECK-LABEL: @f32_map
// CHECK-SAME: mpc.schedule = {blocks = array<i64: 1024, 1, 1>, family = "map", threads = 256 : i64, vector = 4 : i64}
func.func private @f32_map(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    attributes {mpc.kernel_kind = "elementwise"} {
  %0 = mpc.exp %x : tensor<1024x1024xf32>
  return %0 : tensor<1024x1024xf32>
}

// -----

// CHECK-LABEL: @narrow_map
// CHECK-SAME: family = "map"
// CHECK-SAME: vector = 8 : i64
func.func private @narrow_map(%x: tensor<64x32xbf16>) -> tensor<64x32xf32>
    attributes {mpc.kernel_kind = "elementwise"} {
  %0 = mpc.cast %x : tensor<64x32xbf16> to tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}

// -----

// An unaligned offset makes accesses scalar on the side of the input; unaligned rows make
// them scalar on both.

// CHECK-LABEL: @odd_lines
// CHECK-SAME: family = "map"
// CHECK-SAME: vector = 1 : i64
func.func private @odd_lines(%x: tensor<64x33xf32>, %b: tensor<33xf32>)
    -> tensor<64x33xf32> attributes {mpc.kernel_kind = "elementwise"} {
  %0 = mpc.add %x, %b : (tensor<64x33xf32>, tensor<33xf32>) -> tensor<64x33xf32>
  return %0 : tensor<64x33xf32>
}

// -----

// Results of several shapes have separate vector widths.

// CHECK-LABEL: @two_shapes
// CHECK-SAME: family = "map"
// CHECK-SAME: vector = array<i64: 4, 1>
func.func private @two_shapes(%x: tensor<64x32xf32>, %y: tensor<4x3x5xf32>, %z: tensor<5xf32>)
    -> (tensor<64x32xf32>, tensor<4x3x5xf32>) attributes {mpc.kernel_kind = "elementwise"} {
  %0 = mpc.neg %x : tensor<64x32xf32>
  %1 = mpc.slice %0 [0, 0] [1, 5] : tensor<64x32xf32> to tensor<1x5xf32>
  %2 = mpc.add %y, %1 : (tensor<4x3x5xf32>, tensor<1x5xf32>) -> tensor<4x3x5xf32>
  return %0, %2 : tensor<64x32xf32>, tensor<4x3x5xf32>
}

// -----

// A transpose of the last dimension uses shared memory.

// CHECK-LABEL: @turned
// CHECK-SAME: family = "transpose"
// CHECK-SAME: tile = 32 : i64
func.func private @turned(%x: tensor<100x70xf32>) -> tensor<70x100xf32>
    attributes {mpc.kernel_kind = "elementwise"} {
  %0 = mpc.transpose %x [1, 0] : tensor<100x70xf32> to tensor<70x100xf32>
  return %0 : tensor<70x100xf32>
}

// -----

// Ordered phases run in one block and pass values through scratch memory.

// CHECK-LABEL: @phases
// CHECK-SAME: blocks = array<i64: 1, 1, 1>, family = "loop", scratch_bytes = 240 : i64
func.func private @phases(%x: tensor<6x10xf32>) -> tensor<6x10xf32>
    attributes {mpc.kernel_kind = "opaque"} {
  %0 = mpc.cumsum %x axis(1) : tensor<6x10xf32>
  %1 = mpc.cumsum %0 axis(0) : tensor<6x10xf32>
  return %1 : tensor<6x10xf32>
}

// -----

// A filter gradient is a split-K GEMM with a long k; the gradient of a grouped filter is
// summed in threads, row by row of positions.

// CHECK-LABEL: @filter
// CHECK-SAME: family = "filter", scratch_bytes = {{[0-9]+}} : i64
// CHECK-SAME: splits = {{[1-9][0-9]+}} : i64
// CHECK-SAME: tile_k = {{32|64}} : i64
func.func private @filter(%x: tensor<64x26x26x32xbf16>, %g: tensor<64x24x24x64xbf16>) -> tensor<64x32x3x3xf32>
    attributes {mpc.kernel_kind = "library"} {
  %0 = mpc.conv_filter_gradient %x, %g strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<64x26x26x32xbf16>, tensor<64x24x24x64xbf16>) -> tensor<64x32x3x3xf32>
  return %0 : tensor<64x32x3x3xf32>
}

// -----

// CHECK-LABEL: @filter_of_groups
// CHECK-SAME: family = "filter", lines = {{[0-9]+}} : i64
func.func private @filter_of_groups(%x: tensor<64x26x26x32xbf16>, %g: tensor<64x24x24x64xbf16>) -> tensor<64x8x3x3xf32>
    attributes {mpc.kernel_kind = "library"} {
  %0 = mpc.conv_filter_gradient %x, %g strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) groups(4) layout(channels_last) : (tensor<64x26x26x32xbf16>, tensor<64x24x24x64xbf16>) -> tensor<64x8x3x3xf32>
  return %0 : tensor<64x8x3x3xf32>
}

// -----

// A depthwise convolution with the mean of its images: two counters, and sums of 144 channels for
// each of the blocks of two images.

// CHECK-LABEL: @squeeze
// CHECK-SAME: depthwise = 1 : i64, family = "convolution", lanes = 8 : i64
// CHECK-SAME: scratch_bytes = 129040 : i64, steps = 1 : i64
func.func private @squeeze(%x: tensor<2x28x28x144xbf16>, %w: tensor<144x1x5x5xbf16>) -> (tensor<2x28x28x144xbf16>, tensor<2x144xf32>)
    attributes {mpc.kernel_kind = "convolution"} {
  %0 = mpc.conv %x, %w strides([1, 1]) pad([2, 2], [2, 2]) dilations([1, 1]) groups(144) layout(channels_last) : (tensor<2x28x28x144xbf16>, tensor<144x1x5x5xbf16>) -> tensor<2x28x28x144xf32>
  %1 = mpc.cast %0 : tensor<2x28x28x144xf32> to tensor<2x28x28x144xbf16>
  %2 = mpc.reduce_mean %0 axes([1, 2]) : tensor<2x28x28x144xf32> -> tensor<2x144xf32>
  return %1, %2 : tensor<2x28x28x144xbf16>, tensor<2x144xf32>
}

// -----

// An existing schedule is kept.

// CHECK-LABEL: @scheduled
// CHECK-SAME: mpc.schedule = {blocks = array<i64: 7, 1, 1>, family = "loop", threads = 32 : i64}
func.func private @scheduled(%x: tensor<8xf32>) -> tensor<8xf32>
    attributes {mpc.kernel_kind = "elementwise",
                mpc.schedule = {blocks = array<i64: 7, 1, 1>, family = "loop", threads = 32 : i64}} {
  %0 = mpc.neg %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
