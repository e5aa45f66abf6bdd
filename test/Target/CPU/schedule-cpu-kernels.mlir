// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx512 --mpc-schedule-cpu-kernels --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx512 --mpc-schedule-cpu-kernels --mpc-schedule-cpu-kernels --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx512bf16 --mpc-schedule-cpu-kernels --split-input-file | FileCheck %s --check-prefix=FAST
// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx2 --mpc-schedule-cpu-kernels --split-input-file | FileCheck %s --check-prefix=AVX2

// Blocks fill the registers; rows are read in place where no element is upconverted.

// CHECK-LABEL: @product
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 14, columns = 32, blocks_per_item = 5, panels_per_item = 1, pack = right>
// AVX2-LABEL: @product
// AVX2-SAME: mpc.schedule = #tile.blocks<rows = 6, columns = 16, blocks_per_item = 11, panels_per_item = 1, pack = right>
func.func private @product(%x: tensor<128x256xf32>, %w: tensor<256x64xf32>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %w : (tensor<128x256xf32>, tensor<256x64xf32>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

// A constant keeps its packed columns, for which fewer rows leave registers.

// CHECK-LABEL: @packed
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 14, columns = 32, panels_per_item = 2, pack = left>
// AVX2-LABEL: @packed
// AVX2-SAME: mpc.schedule = #tile.blocks<rows = 2, columns = 32, panels_per_item = 2, pack = left>
func.func private @packed(%x: tensor<16x64xbf16>, %w: tensor<2x64x32xbf16>) -> tensor<16x64xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %w packed<columns = 32, interleave = 2>
      : (tensor<16x64xbf16>, tensor<2x64x32xbf16>) -> tensor<16x64xf32>
  return %0 : tensor<16x64xf32>
}

// -----

// Rows at a stride of 4 KB share an L1 set: they are copied for the panels that read them, and
// each work item has more panels for that.

// CHECK-LABEL: @rows_of_pages
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 14, columns = 32, {{.*}}panels_per_item = 6, pack = left>
func.func private @rows_of_pages(%x: tensor<512x1024xf32>, %w: tensor<24x1024x32xf32>) -> tensor<512x768xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %w packed<columns = 32>
      : (tensor<512x1024xf32>, tensor<24x1024x32xf32>) -> tensor<512x768xf32>
  return %0 : tensor<512x768xf32>
}

// CHECK-LABEL: @rows_of_other_sizes
// CHECK-SAME: panels_per_item = 3
// CHECK-NOT: pack = left
func.func private @rows_of_other_sizes(%x: tensor<512x1040xf32>, %w: tensor<24x1040x32xf32>) -> tensor<512x768xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %w packed<columns = 32>
      : (tensor<512x1040xf32>, tensor<24x1040x32xf32>) -> tensor<512x768xf32>
  return %0 : tensor<512x768xf32>
}

// -----

// Rows that are copied, or that are read from memory, are reused for more panels than L2
// holds where the last-level cache is as fast.

// CHECK-LABEL: @streamed_for_copied_rows
// CHECK-SAME: panels_per_item = 3, pack = left>
// FAST-LABEL: @streamed_for_copied_rows
// FAST-SAME: panels_per_item = 22, pack = left>
func.func private @streamed_for_copied_rows(%x: tensor<2048x2048xf32>, %w: tensor<64x2048x32xf32>) -> tensor<2048x2048xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %w packed<columns = 32>
      : (tensor<2048x2048xf32>, tensor<64x2048x32xf32>) -> tensor<2048x2048xf32>
  return %0 : tensor<2048x2048xf32>
}

// CHECK-LABEL: @streamed_for_far_rows
// CHECK-SAME: panels_per_item = 5, ahead = rows>
// FAST-LABEL: @streamed_for_far_rows
// FAST-SAME: panels_per_item = 43, ahead = rows>
func.func private @streamed_for_far_rows(%x: tensor<8192x784xf32>, %w: tensor<128x784x32xf32>) -> tensor<8192x4096xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %w packed<columns = 32>
      : (tensor<8192x784xf32>, tensor<128x784x32xf32>) -> tensor<8192x4096xf32>
  return %0 : tensor<8192x4096xf32>
}

// Few rows are read in place.

// FAST-LABEL: @not_streamed
// FAST-SAME: panels_per_item = 5, ahead = rows>
func.func private @not_streamed(%x: tensor<512x784xf32>, %w: tensor<128x784x32xf32>) -> tensor<512x4096xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %w packed<columns = 32>
      : (tensor<512x784xf32>, tensor<128x784x32xf32>) -> tensor<512x4096xf32>
  return %0 : tensor<512x4096xf32>
}

// -----

// Where few panels read rows with a stride of 4 KB, they are not copied, and at most as many are
// processed together as a cache set has lines; such panels stay in the cache for the whole depth.

// CHECK-LABEL: @skinny
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 8, columns = 32, {{.*}}panels_per_item = 1, ahead = rows>
func.func private @skinny(%x: tensor<512x4096xf32>, %w: tensor<1x4096x32xf32>) -> tensor<512x10xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %w packed<columns = 32>
      : (tensor<512x4096xf32>, tensor<1x4096x32xf32>) -> tensor<512x10xf32>
  return %0 : tensor<512x10xf32>
}

// CHECK-LABEL: @skinny_of_variables
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 8, columns = 16, blocks_per_item = {{[0-9]+}}, panels_per_item = 1, pack = right>
func.func private @skinny_of_variables(%x: tensor<512x4096xf32>, %w: tensor<10x4096xf32>) -> tensor<512x10xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %w transpose_rhs : (tensor<512x4096xf32>, tensor<10x4096xf32>) -> tensor<512x10xf32>
  return %0 : tensor<512x10xf32>
}

// -----

// Large matmuls of values that are no constants are split along their depth, in equal chunks.

// CHECK-LABEL: @gradient
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 14, columns = 32, chunk = 256, blocks_per_item = 55, panels_per_item = 24, pack = both>
func.func private @gradient(%x: tensor<1536x768xf32>, %g: tensor<1536x3072xf32>) -> tensor<768x3072xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %g transpose_lhs
      : (tensor<1536x768xf32>, tensor<1536x3072xf32>) -> tensor<768x3072xf32>
  return %0 : tensor<768x3072xf32>
}

// -----

// Accumulators of an unsplit depth stay in registers. Rows that are gathered for packed panels
// have a separate chunk length, and work items consist of rows only.

// CHECK-LABEL: @shallow_gradient
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 14, columns = 32, blocks_per_item = 28, panels_per_item = 12, pack = both>
func.func private @shallow_gradient(%x: tensor<384x768xf32>, %g: tensor<384x768xf32>) -> tensor<768x768xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %g transpose_lhs : (tensor<384x768xf32>, tensor<384x768xf32>) -> tensor<768x768xf32>
  return %0 : tensor<768x768xf32>
}

// FAST-LABEL: @packed_gradient
// FAST-SAME: mpc.schedule = #tile.blocks<rows = 14, columns = 32, chunk = 1024, blocks_per_item = 19, panels_per_item = 24, pack = left>
func.func private @packed_gradient(%x: tensor<4096x1024xf32>, %g: tensor<24x4096x32xf32>) -> tensor<1024x768xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %g transpose_lhs packed<columns = 32>
      : (tensor<4096x1024xf32>, tensor<24x4096x32xf32>) -> tensor<1024x768xf32>
  return %0 : tensor<1024x768xf32>
}

// Rows that are read in place have few panels, which are packed at their whole depth.

// CHECK-LABEL: @plain_rows
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 14, columns = 32, blocks_per_item = 37, panels_per_item = 5, pack = right, ahead = rows>
func.func private @plain_rows(%x: tensor<512x768xf32>, %w: tensor<3072x768xf32>) -> tensor<512x3072xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %w transpose_rhs : (tensor<512x768xf32>, tensor<3072x768xf32>) -> tensor<512x3072xf32>
  return %0 : tensor<512x3072xf32>
}

// -----

// A work item is rows of an image; with padding the rows that they read are copied.

// CHECK-LABEL: @convolution
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 14, columns = 32, blocks_per_item = 7, panels_per_item = 2, pack = both>
func.func private @convolution(%x: tensor<1x56x56x64xf32>, %w: tensor<64x64x3x3xf32>) -> tensor<1x56x56x64xf32>
    attributes {mpc.kernel_kind = "library"} {
  %0 = mpc.conv %x, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) : (tensor<1x56x56x64xf32>, tensor<64x64x3x3xf32>) -> tensor<1x56x56x64xf32>
  return %0 : tensor<1x56x56x64xf32>
}

// -----

// CHECK-LABEL: @depthwise
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 6, columns = 32, blocks_per_item = 8, pack = right>
func.func private @depthwise(%x: tensor<1x28x28x64xf32>, %w: tensor<64x1x3x3xf32>) -> tensor<1x26x26x64xf32>
    attributes {mpc.kernel_kind = "library"} {
  %0 = mpc.conv %x, %w strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) groups(64) layout(channels_last) : (tensor<1x28x28x64xf32>, tensor<64x1x3x3xf32>) -> tensor<1x26x26x64xf32>
  return %0 : tensor<1x26x26x64xf32>
}

// -----

// A chunk is whole rows of the output; the gradient's channels are panels in place.

// CHECK-LABEL: @filter
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 14, columns = 32, chunk = 576, blocks_per_item = 3, panels_per_item = 1>
func.func private @filter(%x: tensor<64x26x26x32xf32>, %g: tensor<64x24x24x64xf32>) -> tensor<64x32x3x3xf32>
    attributes {mpc.kernel_kind = "library"} {
  %0 = mpc.conv_filter_gradient %x, %g strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<64x26x26x32xf32>, tensor<64x24x24x64xf32>) -> tensor<64x32x3x3xf32>
  return %0 : tensor<64x32x3x3xf32>
}

// Small images share a chunk. Work items have some channels of the input, and copy them:
// pixels at a power-of-two stride share cache sets.

// CHECK-LABEL: @small_images
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 14, columns = 32, chunk = 392, blocks_per_item = {{[0-9]+}}, panels_per_item = {{[0-9]+}}, pack = left>
func.func private @small_images(%x: tensor<8x7x7x512xf32>, %g: tensor<8x7x7x512xf32>) -> tensor<512x512x3x3xf32>
    attributes {mpc.kernel_kind = "library"} {
  %0 = mpc.conv_filter_gradient %x, %g strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) : (tensor<8x7x7x512xf32>, tensor<8x7x7x512xf32>) -> tensor<512x512x3x3xf32>
  return %0 : tensor<512x512x3x3xf32>
}

// -----

// CHECK-LABEL: @attention
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 14, columns = 32, blocks_per_item = 10, pack = right>
func.func private @attention(%q: tensor<2x4x128x64xf32>, %k: tensor<2x4x128x64xf32>, %v: tensor<2x4x128x64xf32>) -> tensor<2x4x128x64xf32>
    attributes {mpc.kernel_kind = "attention"} {
  %0 = mpc.attention %q, %k, %v scale(1.250000e-01) : (tensor<2x4x128x64xf32>, tensor<2x4x128x64xf32>, tensor<2x4x128x64xf32>) -> tensor<2x4x128x64xf32>
  return %0 : tensor<2x4x128x64xf32>
}

// -----

// Attention of few queries reads keys and values in place. Few heads and many positions: split-KV,
// where a work item has an equal part of the positions, with all heads of a row if contiguous.

// CHECK-LABEL: @one_head
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 1, columns = 16, chunk = 1024>
// CHECK-LABEL: @few_positions
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 1, columns = 16>
// CHECK-LABEL: @many_heads
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 2, columns = 16>
// CHECK-LABEL: @cache
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 1, columns = 16, chunk = 64, blocks_per_item = 12, ahead = rows>
// CHECK-LABEL: @long_cache
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 1, columns = 16, chunk = 256, blocks_per_item = 12, ahead = rows>
func.func private @one_head(%q: tensor<1x1x1x64xf32>, %k: tensor<1x1x32768x64xf32>) -> tensor<1x1x1x64xf32>
    attributes {mpc.kernel_kind = "attention"} {
  %0 = mpc.attention %q, %k, %k scale(1.250000e-01) : (tensor<1x1x1x64xf32>, tensor<1x1x32768x64xf32>, tensor<1x1x32768x64xf32>) -> tensor<1x1x1x64xf32>
  return %0 : tensor<1x1x1x64xf32>
}
func.func private @few_positions(%q: tensor<1x1x1x64xf32>, %k: tensor<1x1x2047x64xf32>) -> tensor<1x1x1x64xf32>
    attributes {mpc.kernel_kind = "attention"} {
  %0 = mpc.attention %q, %k, %k scale(1.250000e-01) : (tensor<1x1x1x64xf32>, tensor<1x1x2047x64xf32>, tensor<1x1x2047x64xf32>) -> tensor<1x1x1x64xf32>
  return %0 : tensor<1x1x1x64xf32>
}
func.func private @many_heads(%q: tensor<16x8x2x64xf32>, %k: tensor<16x8x32768x64xf32>) -> tensor<16x8x2x64xf32>
    attributes {mpc.kernel_kind = "attention"} {
  %0 = mpc.attention %q, %k, %k scale(1.250000e-01) : (tensor<16x8x2x64xf32>, tensor<16x8x32768x64xf32>, tensor<16x8x32768x64xf32>) -> tensor<16x8x2x64xf32>
  return %0 : tensor<16x8x2x64xf32>
}
func.func private @cache(%q: tensor<1x12x1x64xf32>, %rows: tensor<4096x1x12x64xf32>) -> tensor<1x12x1x64xf32>
    attributes {mpc.kernel_kind = "attention"} {
  %k = mpc.transpose %rows [1, 2, 0, 3] : tensor<4096x1x12x64xf32> to tensor<1x12x4096x64xf32>
  %0 = mpc.attention %q, %k, %k scale(1.250000e-01) : (tensor<1x12x1x64xf32>, tensor<1x12x4096x64xf32>, tensor<1x12x4096x64xf32>) -> tensor<1x12x1x64xf32>
  return %0 : tensor<1x12x1x64xf32>
}
func.func private @long_cache(%q: tensor<1x12x1x64xf32>, %rows: tensor<32768x1x12x64xf32>) -> tensor<1x12x1x64xf32>
    attributes {mpc.kernel_kind = "attention"} {
  %k = mpc.transpose %rows [1, 2, 0, 3] : tensor<32768x1x12x64xf32> to tensor<1x12x32768x64xf32>
  %0 = mpc.attention %q, %k, %k scale(1.250000e-01) : (tensor<1x12x1x64xf32>, tensor<1x12x32768x64xf32>, tensor<1x12x32768x64xf32>) -> tensor<1x12x1x64xf32>
  return %0 : tensor<1x12x1x64xf32>
}

// -----

// An existing schedule is kept; loops have none.

// CHECK-LABEL: @scheduled
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 5, columns = 16, chunk = 100, blocks_per_item = 3, panels_per_item = 2, pack = both>
// CHECK-LABEL: @loops
// CHECK-NOT: mpc.schedule
func.func private @scheduled(%x: tensor<128x256xf32>, %w: tensor<256x64xf32>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction",
                mpc.schedule = #tile.blocks<rows = 5, columns = 16, chunk = 100, blocks_per_item = 3, panels_per_item = 2, pack = both>} {
  %0 = mpc.matmul %x, %w : (tensor<128x256xf32>, tensor<256x64xf32>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}
func.func private @loops(%x: tensor<8xf32>) -> tensor<8xf32> attributes {mpc.kernel_kind = "elementwise"} {
  %0 = mpc.neg %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Few panels read each row before the next rows are needed, and the residual is read once: both
// are read from memory here, and are prefetched while a block is multiplied.

// CHECK-LABEL: @residual
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 14, columns = 32, blocks_per_item = 32, panels_per_item = 8, ahead = both>
func.func private @residual(%x: tensor<25088x64xf32>, %w: tensor<8x64x32xf32>, %r: tensor<25088x256xf32>) -> tensor<25088x256xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %w packed<columns = 32> : (tensor<25088x64xf32>, tensor<8x64x32xf32>) -> tensor<25088x256xf32>
  %1 = mpc.add %0, %r : (tensor<25088x256xf32>, tensor<25088x256xf32>) -> tensor<25088x256xf32>
  return %1 : tensor<25088x256xf32>
}

// -----

// No prefetch where they fit into L2.

// CHECK-LABEL: @near
// CHECK-NOT: ahead
func.func private @near(%x: tensor<128x64xf32>, %w: tensor<8x64x32xf32>, %r: tensor<128x256xf32>) -> tensor<128x256xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %w packed<columns = 32> : (tensor<128x64xf32>, tensor<8x64x32xf32>) -> tensor<128x256xf32>
  %1 = mpc.add %0, %r : (tensor<128x256xf32>, tensor<128x256xf32>) -> tensor<128x256xf32>
  return %1 : tensor<128x256xf32>
}

// -----

// Blocks of one size need half of the code. That outweighs ten rows of fourteen, not eight.

// CHECK-LABEL: @even
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 20,
// AVX2-LABEL: @even
// AVX2-SAME: mpc.schedule = #tile.blocks<rows = 5,
func.func private @even(%x: tensor<1600x64xf32>, %w: tensor<4x64x16xf32>) -> tensor<1600x64xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %w packed<columns = 16> : (tensor<1600x64xf32>, tensor<4x64x16xf32>) -> tensor<1600x64xf32>
  return %0 : tensor<1600x64xf32>
}

// CHECK-LABEL: @even_lines
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 10,
func.func private @even_lines(%x: tensor<1x40x40x64xf32>, %w: tensor<2x576x32xf32>) -> tensor<1x40x40x64xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.conv %x, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) window([3, 3]) packed<columns = 32> : (tensor<1x40x40x64xf32>, tensor<2x576x32xf32>) -> tensor<1x40x40x64xf32>
  return %0 : tensor<1x40x40x64xf32>
}

// CHECK-LABEL: @uneven
// CHECK-SAME: mpc.schedule = #tile.blocks<rows = 14,
func.func private @uneven(%x: tensor<512x64xf32>, %w: tensor<2x64x32xf32>) -> tensor<512x64xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %w packed<columns = 32> : (tensor<512x64xf32>, tensor<2x64x32xf32>) -> tensor<512x64xf32>
  return %0 : tensor<512x64xf32>
}
