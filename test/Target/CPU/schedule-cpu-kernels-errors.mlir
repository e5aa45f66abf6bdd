// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx512 --mpc-schedule-cpu-kernels --verify-diagnostics --split-input-file

// A given schedule is applied or refused.

// expected-error @below {{kernel 'another_target' has the mpc.schedule {family = "map"}; CPU kernels need #tile.blocks}}
func.func private @another_target(%x: tensor<128x256xf32>, %w: tensor<256x64xf32>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = {family = "map"}} {
  %0 = mpc.matmul %x, %w : (tensor<128x256xf32>, tensor<256x64xf32>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

func.func private @registers(%x: tensor<128x256xf32>, %w: tensor<256x64xf32>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = #tile.blocks<rows = 15, columns = 32, pack = right>} {
  // expected-error @below {{the schedule has blocks of 15 rows and 32 columns, which exceed the 32 registers of 'avx512'}}
  %0 = mpc.matmul %x, %w : (tensor<128x256xf32>, tensor<256x64xf32>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

func.func private @long_row(%x: tensor<128x256xf32>, %w: tensor<256x64xf32>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = #tile.blocks<rows = 1, columns = 256, pack = right>} {
  // expected-error @below {{the schedule has blocks of 1 rows and 256 columns, which exceed the 32 registers of 'avx512'}}
  %0 = mpc.matmul %x, %w : (tensor<128x256xf32>, tensor<256x64xf32>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

func.func private @longest_row(%x: tensor<128x256xf32>, %w: tensor<256x64xf32>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = #tile.blocks<rows = 1, columns = 9223372036854775792, pack = right>} {
  // expected-error @below {{the schedule has blocks of 1 rows and 9223372036854775792 columns, which exceed the 32 registers of 'avx512'}}
  %0 = mpc.matmul %x, %w : (tensor<128x256xf32>, tensor<256x64xf32>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

func.func private @most_rows(%x: tensor<128x256xf32>, %w: tensor<256x64xf32>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = #tile.blocks<rows = 4611686018427387903, columns = 32, pack = right>} {
  // expected-error @below {{the schedule has blocks of 4611686018427387903 rows and 32 columns, which exceed the 32 registers of 'avx512'}}
  %0 = mpc.matmul %x, %w : (tensor<128x256xf32>, tensor<256x64xf32>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

// expected-error @below {{kernel 'rows_alone' has the mpc.schedule #tile.blocks<rows = 2, columns = 32>, which blocks a contraction, but the kernel has none}}
func.func private @rows_alone(%x: tensor<128x256xf32>) -> tensor<128x256xf32>
    attributes {mpc.kernel_kind = "softmax", mpc.schedule = #tile.blocks<rows = 2, columns = 32>} {
  %0 = mpc.softmax %x axis(1) : tensor<128x256xf32>
  return %0 : tensor<128x256xf32>
}

// -----

func.func private @lanes(%x: tensor<128x256xf32>, %w: tensor<256x64xf32>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = #tile.blocks<rows = 2, columns = 24, pack = right>} {
  // expected-error @below {{the schedule has 24 columns, not a multiple of the 16 lanes of 'f32' accumulators}}
  %0 = mpc.matmul %x, %w : (tensor<128x256xf32>, tensor<256x64xf32>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

func.func private @rows_in_place(%x: tensor<128x256xbf16>, %w: tensor<256x64xbf16>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = #tile.blocks<rows = 2, columns = 32, pack = right>} {
  // expected-error @below {{the schedule reads the left operand in place, which is not stored as 'f32' without padding: 'tensor<128x256xbf16>'}}
  %0 = mpc.matmul %x, %w : (tensor<128x256xbf16>, tensor<256x64xbf16>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

func.func private @panels_in_place(%x: tensor<128x256xf32>, %w: tensor<256x64xf32>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = #tile.blocks<rows = 2, columns = 32>} {
  // expected-error @below {{the schedule reads the right operand in place, which is not stored in panels of 32 columns: 'tensor<256x64xf32>'}}
  %0 = mpc.matmul %x, %w : (tensor<128x256xf32>, tensor<256x64xf32>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

func.func private @long_chunk(%x: tensor<128x256xf32>, %w: tensor<256x64xf32>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = #tile.blocks<rows = 2, columns = 32, chunk = 512, pack = right>} {
  // expected-error @below {{the schedule has chunks of 512 positions, but the depth is 256}}
  %0 = mpc.matmul %x, %w : (tensor<128x256xf32>, tensor<256x64xf32>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

func.func private @packed(%x: tensor<16x64xf32>, %w: tensor<2x64x32xf32>) -> tensor<16x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = #tile.blocks<rows = 2, columns = 16>} {
  // expected-error @below {{the schedule has 16 columns, but the packed operand has panels of 32}}
  %0 = mpc.matmul %x, %w packed<columns = 32> : (tensor<16x64xf32>, tensor<2x64x32xf32>) -> tensor<16x64xf32>
  return %0 : tensor<16x64xf32>
}

// -----

func.func private @packed_again(%x: tensor<16x64xf32>, %w: tensor<2x64x32xf32>) -> tensor<16x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = #tile.blocks<rows = 2, columns = 32, pack = right>} {
  // expected-error @below {{the schedule packs the right operand, which is already packed in panels of 32 columns}}
  %0 = mpc.matmul %x, %w packed<columns = 32> : (tensor<16x64xf32>, tensor<2x64x32xf32>) -> tensor<16x64xf32>
  return %0 : tensor<16x64xf32>
}

// -----

func.func private @padding(%x: tensor<1x8x8x16xf32>, %w: tensor<16x16x3x3xf32>) -> tensor<1x8x8x16xf32>
    attributes {mpc.kernel_kind = "library", mpc.schedule = #tile.blocks<rows = 4, columns = 16, pack = right>} {
  // expected-error @below {{the schedule reads the left operand in place, which is not stored as 'f32' without padding: 'tensor<1x8x8x16xf32>'}}
  %0 = mpc.conv %x, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) : (tensor<1x8x8x16xf32>, tensor<16x16x3x3xf32>) -> tensor<1x8x8x16xf32>
  return %0 : tensor<1x8x8x16xf32>
}

// -----

func.func private @lines(%x: tensor<2x26x26x32xf32>, %g: tensor<2x24x24x64xf32>) -> tensor<64x32x3x3xf32>
    attributes {mpc.kernel_kind = "library", mpc.schedule = #tile.blocks<rows = 4, columns = 32, chunk = 120>} {
  // expected-error @below {{the schedule has chunks of 120 positions, which do not divide images of 24 rows of 24 into whole rows}}
  %0 = mpc.conv_filter_gradient %x, %g strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<2x26x26x32xf32>, tensor<2x24x24x64xf32>) -> tensor<64x32x3x3xf32>
  return %0 : tensor<64x32x3x3xf32>
}

// -----

func.func private @chunk(%q: tensor<2x4x128x64xf32>, %k: tensor<2x4x128x64xf32>, %v: tensor<2x4x128x64xf32>) -> tensor<2x4x128x64xf32>
    attributes {mpc.kernel_kind = "attention", mpc.schedule = #tile.blocks<rows = 4, columns = 32, chunk = 32, pack = right>} {
  // expected-error @below {{the schedule has chunks of 32 positions, but convolutions and attention need the whole depth (chunk = 0)}}
  %0 = mpc.attention %q, %k, %v scale(1.250000e-01) : (tensor<2x4x128x64xf32>, tensor<2x4x128x64xf32>, tensor<2x4x128x64xf32>) -> tensor<2x4x128x64xf32>
  return %0 : tensor<2x4x128x64xf32>
}

// -----

func.func private @panels(%q: tensor<2x4x128x64xf32>, %k: tensor<2x4x128x64xf32>, %v: tensor<2x4x128x64xf32>) -> tensor<2x4x128x64xf32>
    attributes {mpc.kernel_kind = "attention", mpc.schedule = #tile.blocks<rows = 4, columns = 32, panels_per_item = 2, pack = right>} {
  // expected-error @below {{the schedule gives an item 2 panels, but items must have all (panels_per_item = 0)}}
  %0 = mpc.attention %q, %k, %v scale(1.250000e-01) : (tensor<2x4x128x64xf32>, tensor<2x4x128x64xf32>, tensor<2x4x128x64xf32>) -> tensor<2x4x128x64xf32>
  return %0 : tensor<2x4x128x64xf32>
}

// -----

func.func private @rows_ahead(%x: tensor<128x256xf32>, %w: tensor<256x64xf32>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = #tile.blocks<rows = 2, columns = 32, pack = both, ahead = rows>} {
  // expected-error @below {{the schedule prefetches rows, which needs a GEMM that reads its left operand in place by rows, with the whole depth in one chunk}}
  %0 = mpc.matmul %x, %w : (tensor<128x256xf32>, tensor<256x64xf32>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

func.func private @residuals_ahead(%x: tensor<128x256xf32>, %w: tensor<256x64xf32>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = #tile.blocks<rows = 2, columns = 32, pack = right, ahead = residuals>} {
  // expected-error @below {{the schedule prefetches residuals, but the kernel adds none to accumulators in registers}}
  %0 = mpc.matmul %x, %w : (tensor<128x256xf32>, tensor<256x64xf32>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

func.func private @keys_in_pieces(%q: tensor<1x3x1x64xf32>, %k: tensor<1x3x500x64xf32>) -> tensor<1x3x1x64xf32>
    attributes {mpc.kernel_kind = "attention", mpc.schedule = #tile.blocks<rows = 1, columns = 16, chunk = 48>} {
  // expected-error @below {{does not read keys in place: it needs 1 rows, 16 columns, a divisor of 3 heads as blocks_per_item, chunks of less than 500 positions, a multiple of 32, and prefetches rows only if those of all heads are adjacent}}
  %0 = mpc.attention %q, %k, %k scale(1.250000e-01) : (tensor<1x3x1x64xf32>, tensor<1x3x500x64xf32>, tensor<1x3x500x64xf32>) -> tensor<1x3x1x64xf32>
  return %0 : tensor<1x3x1x64xf32>
}

// -----

func.func private @keys_packed(%q: tensor<1x3x1x64xf32>, %k: tensor<1x3x500x64xf32>) -> tensor<1x3x1x64xf32>
    attributes {mpc.kernel_kind = "attention", mpc.schedule = #tile.blocks<rows = 1, columns = 16, chunk = 64, pack = right>} {
  // expected-error @below {{does not read keys in place: it needs 1 rows, 16 columns, a divisor of 3 heads as blocks_per_item, chunks of less than 500 positions, a multiple of 32, and prefetches rows only if those of all heads are adjacent}}
  %0 = mpc.attention %q, %k, %k scale(1.250000e-01) : (tensor<1x3x1x64xf32>, tensor<1x3x500x64xf32>, tensor<1x3x500x64xf32>) -> tensor<1x3x1x64xf32>
  return %0 : tensor<1x3x1x64xf32>
}

// -----

func.func private @uneven_heads(%q: tensor<1x3x1x64xf32>, %k: tensor<1x3x500x64xf32>) -> tensor<1x3x1x64xf32>
    attributes {mpc.kernel_kind = "attention", mpc.schedule = #tile.blocks<rows = 1, columns = 16, blocks_per_item = 2>} {
  // expected-error @below {{does not read keys in place: it needs 1 rows, 16 columns, a divisor of 3 heads as blocks_per_item, chunks of less than 500 positions, a multiple of 32, and prefetches rows only if those of all heads are adjacent}}
  %0 = mpc.attention %q, %k, %k scale(1.250000e-01) : (tensor<1x3x1x64xf32>, tensor<1x3x500x64xf32>, tensor<1x3x500x64xf32>) -> tensor<1x3x1x64xf32>
  return %0 : tensor<1x3x1x64xf32>
}
