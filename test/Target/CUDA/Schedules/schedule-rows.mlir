// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-schedule-kernels | FileCheck %s

// Mapping of row kernels and reductions to threads.

// A few lanes share a short row.
// CHECK-LABEL: func.func private @short_rows
// CHECK-SAME: mpc.schedule = {blocks = array<i64: 3125, 1, 1>, family = "row", team = #tile.threads<members = 4, items = 32, vector = 4, steps = 4, keep = registers>, threads = 128 : i64}
func.func private @short_rows(%x: tensor<100000x64xf32>) -> tensor<100000x64xf32> attributes {mpc.kernel_kind = "row"} {
  %0 = mpc.softmax %x axis(1) : tensor<100000x64xf32>
  return %0 : tensor<100000x64xf32>
}

// A warp processes a row, with 16-byte loads per lane.
// CHECK-LABEL: func.func private @warp_per_row
// CHECK-SAME: mpc.schedule = {blocks = array<i64: 4096, 1, 1>, family = "row", team = #tile.threads<members = 32, items = 4, vector = 8, steps = 3, keep = registers>, threads = 128 : i64}
func.func private @warp_per_row(%x: tensor<16384x768xbf16>, %s: tensor<768xf32>) -> tensor<16384x768xbf16> attributes {mpc.kernel_kind = "row"} {
  %0 = mpc.cast %x : tensor<16384x768xbf16> to tensor<16384x768xf32>
  %1 = mpc.rms_norm %0, %s axis(1) epsilon(1.0e-5) : (tensor<16384x768xf32>, tensor<768xf32>) -> tensor<16384x768xf32>
  %2 = mpc.cast %1 : tensor<16384x768xf32> to tensor<16384x768xbf16>
  return %2 : tensor<16384x768xbf16>
}

// Rows of odd length are not aligned.
// CHECK-LABEL: func.func private @odd_rows
// CHECK-SAME: family = "row"
// CHECK-SAME: team = #tile.threads<members = 256, keep = registers>
func.func private @odd_rows(%x: tensor<512x197xbf16>) -> tensor<512x197xbf16> attributes {mpc.kernel_kind = "row"} {
  %0 = mpc.softmax %x axis(1) : tensor<512x197xbf16>
  return %0 : tensor<512x197xbf16>
}

// A block processes a row that stays in registers.
// CHECK-LABEL: func.func private @block_per_row
// CHECK-SAME: mpc.schedule = {blocks = array<i64: 8192, 1, 1>, family = "row", team = #tile.threads<members = 128, vector = 8, steps = 4, keep = registers>, threads = 128 : i64}
func.func private @block_per_row(%x: tensor<8192x4096xbf16>) -> tensor<8192x4096xbf16> attributes {mpc.kernel_kind = "row"} {
  %0 = mpc.cast %x : tensor<8192x4096xbf16> to tensor<8192x4096xf32>
  %1 = mpc.softmax %0 axis(1) : tensor<8192x4096xf32>
  %2 = mpc.cast %1 : tensor<8192x4096xf32> to tensor<8192x4096xbf16>
  return %2 : tensor<8192x4096xbf16>
}

// Longer rows are in shared memory, still longer ones are read again.
// CHECK-LABEL: func.func private @row_in_shared_memory
// CHECK-SAME: shared_bytes = 163840 : i64, team = #tile.threads<members = 1024, vector = 4, steps = 10, keep = shared>, threads = 1024 : i64}
func.func private @row_in_shared_memory(%x: tensor<512x40000xf32>) -> tensor<512x40000xf32> attributes {mpc.kernel_kind = "row"} {
  %0 = mpc.softmax %x axis(1) : tensor<512x40000xf32>
  return %0 : tensor<512x40000xf32>
}
// CHECK-LABEL: func.func private @row_read_again
// CHECK-SAME: team = #tile.threads<members = 1024, vector = 4, steps = 13>, threads = 1024 : i64}
func.func private @row_read_again(%x: tensor<512x50000xf32>) -> tensor<512x50000xf32> attributes {mpc.kernel_kind = "row"} {
  %0 = mpc.softmax %x axis(1) : tensor<512x50000xf32>
  return %0 : tensor<512x50000xf32>
}

// Adjacent threads process adjacent columns.
// CHECK-LABEL: func.func private @columns
// CHECK-SAME: family = "reduction", team = #tile.threads<members = {{[0-9]+}}, items = 32, {{.*}}columns = true>
func.func private @columns(%x: tensor<64x128x512xf32>) -> tensor<64x512xf32> attributes {mpc.kernel_kind = "reduce"} {
  %0 = mpc.reduce_sum %x axes([1]) : tensor<64x128x512xf32> -> tensor<64x512xf32>
  return %0 : tensor<64x512xf32>
}

// Blocks share one long row.
// CHECK-LABEL: func.func private @total
// CHECK-SAME: mpc.schedule = {blocks = array<i64: 1, 244, 1>, family = "row", scratch_bytes = 992 : i64, team = #tile.threads<members = 256, vector = 4, steps = 5, splits = 244>, threads = 256 : i64}
func.func private @total(%x: tensor<1000000xf32>) -> tensor<f32> attributes {mpc.kernel_kind = "reduce"} {
  %0 = mpc.reduce_sum %x axes([0]) : tensor<1000000xf32> -> tensor<f32>
  return %0 : tensor<f32>
}

// Blocks that also sum over rows process several rows each, and reduce them in thread groups.
// CHECK-LABEL: func.func private @sums_over_rows
// CHECK-SAME: mpc.schedule = {blocks = array<i64: 256, 1, 1>, family = "row", scratch_bytes = 835664 : i64, team = #tile.threads<members = 32, items = 8, vector = 8, steps = 3, rounds = 2, groups = 16, keep = registers>, threads = 256 : i64}
func.func private @sums_over_rows(%x: tensor<4096x768xbf16>) -> (tensor<4096x768xbf16>, tensor<768xf32>) attributes {mpc.kernel_kind = "row"} {
  %0 = mpc.cast %x : tensor<4096x768xbf16> to tensor<4096x768xf32>
  %1 = mpc.softmax %0 axis(1) : tensor<4096x768xf32>
  %2 = mpc.cast %1 : tensor<4096x768xf32> to tensor<4096x768xbf16>
  %3 = mpc.reduce_sum %1 axes([0]) : tensor<4096x768xf32> -> tensor<768xf32>
  return %2, %3 : tensor<4096x768xbf16>, tensor<768xf32>
}

// Where a row is too long for that, its sums are in the scratch buffer.
// CHECK-LABEL: func.func private @sums_over_long_rows
// CHECK-SAME: mpc.schedule = {blocks = array<i64: 110, 1, 1>, family = "row", scratch_bytes = 24000048 : i64, team = #tile.threads<members = 1024, vector = 4, steps = 13, rounds = 5, groups = 11, sums = nowhere>, threads = 1024 : i64}
func.func private @sums_over_long_rows(%x: tensor<512x50000xf32>) -> (tensor<512x50000xf32>, tensor<50000xf32>) attributes {mpc.kernel_kind = "row"} {
  %1 = mpc.softmax %x axis(1) : tensor<512x50000xf32>
  %3 = mpc.reduce_sum %1 axes([0]) : tensor<512x50000xf32> -> tensor<50000xf32>
  return %1, %3 : tensor<512x50000xf32>, tensor<50000xf32>
}

// Few rows use as many blocks as are combined in one step.
// CHECK-LABEL: func.func private @sums_over_few_rows
// CHECK-SAME: mpc.schedule = {blocks = array<i64: 16, 1, 1>, family = "row", scratch_bytes = 80 : i64, team = #tile.threads<members = 32, items = 4, vector = 4, groups = 16, keep = registers>, threads = 128 : i64}
func.func private @sums_over_few_rows(%x: tensor<64x128xf32>) -> (tensor<64x128xf32>, tensor<f32>) attributes {mpc.kernel_kind = "row"} {
  %1 = mpc.softmax %x axis(1) : tensor<64x128xf32>
  %3 = mpc.reduce_mean %1 axes([0, 1]) : tensor<64x128xf32> -> tensor<f32>
  return %1, %3 : tensor<64x128xf32>, tensor<f32>
}

// A group norm with scaled channels stored last: its elements are strided.
// CHECK-LABEL: func.func private @scaled_and_moved
// CHECK-SAME: family = "row"
// CHECK-SAME: team = #tile.threads<members = 1024, steps = 2, keep = registers>
func.func private @scaled_and_moved(%x: tensor<2x32x2048xbf16>, %g: tensor<1xf32>, %s: tensor<64x1x1xf32>) -> tensor<2x32x32x64xbf16> attributes {mpc.kernel_kind = "row"} {
  %0 = mpc.cast %x : tensor<2x32x2048xbf16> to tensor<2x32x2048xf32>
  %1 = mpc.layer_norm %0, %g axis(2) epsilon(1.0e-5) : (tensor<2x32x2048xf32>, tensor<1xf32>) -> tensor<2x32x2048xf32>
  %2 = mpc.reshape %1 : tensor<2x32x2048xf32> to tensor<2x64x32x32xf32>
  %3 = mpc.mul %2, %s : (tensor<2x64x32x32xf32>, tensor<64x1x1xf32>) -> tensor<2x64x32x32xf32>
  %4 = mpc.cast %3 : tensor<2x64x32x32xf32> to tensor<2x64x32x32xbf16>
  %5 = mpc.transpose %4 [0, 2, 3, 1] : tensor<2x64x32x32xbf16> to tensor<2x32x32x64xbf16>
  return %5 : tensor<2x32x32x64xbf16>
}
