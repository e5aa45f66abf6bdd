// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx512 --mpc-schedule-cpu-kernels --mpc-emit-cpu-kernels --cse | FileCheck %s

// The schedule defines a work item: all seven blocks of four rows times both panels. The right
// side is packed chunk by chunk, prefetched some steps ahead; the accumulators of a chunk are added
// to those in scratch memory, which are prefetched during the multiplication.

// CHECK-LABEL: func.func private @product_impl(
// CHECK-SAME: memref<28x64xf32>, %{{.*}}: memref<64x32xf32>, %{{.*}}: memref<28x32xf32>, %{{.*}}: index, %{{.*}}: index, %[[SCRATCH:.*]]: memref<7680xi8>)
// CHECK-SAME: attributes {mpc.no_alias = array<i1: true, true, true>, mpc.scratch_bytes = 7680 : i64}
// CHECK: tile.for_each %{{.*}} in (1) cycles(1.792000e+03) {
// CHECK:   scf.for %{{.*}} = %{{.*}} to %c64 step %c32
// CHECK:     scf.for
// CHECK:       memref.prefetch %{{.*}}[%{{.*}}, %{{.*}}], read, locality<3>, data : memref<64x32xf32>
// CHECK:       vector.store
// CHECK:     scf.for %{{.*}} = %{{.*}} to %c7 step
// CHECK:       memref.prefetch %{{.*}}[%{{.*}}], read, locality<3>, data : memref<896xf32>
// CHECK:       %[[SUMS:.*]]:8 = scf.for
// CHECK:         math.fma {{.*}} : vector<16xf32>
// CHECK:       %[[BOTH:.*]] = arith.addf %[[SUMS]]#0, %[[SUMS]]#4 : vector<16xf32>
// CHECK:       %[[OLD:.*]] = vector.load
// CHECK:       arith.addf %[[OLD]], %[[BOTH]] : vector<16xf32>
func.func private @product(%x: tensor<28x64xf32>, %w: tensor<64x32xf32>) -> tensor<28x32xf32>
    attributes {mpc.kernel_kind = "contraction",
                mpc.schedule = #tile.blocks<rows = 4, columns = 16, chunk = 32, blocks_per_item = 7, panels_per_item = 2, pack = right>} {
  %0 = mpc.matmul %x, %w : (tensor<28x64xf32>, tensor<64x32xf32>) -> tensor<28x32xf32>
  return %0 : tensor<28x32xf32>
}

// Rows are work items, whatever iterates over them.

// CHECK-LABEL: func.func private @softmax_impl(
// CHECK: tile.for_each %{{.*}} in (64)
// CHECK:   tile.loop
// CHECK:   tile.reduce largest
// CHECK:   tile.buffer
// CHECK:   tile.store
func.func private @softmax(%x: tensor<64x512xf32>) -> tensor<64x512xf32> attributes {mpc.kernel_kind = "row_reduction"} {
  %0 = mpc.softmax %x axis(1) : tensor<64x512xf32>
  return %0 : tensor<64x512xf32>
}

// A matrix larger than every cache is summed row by row. Its column sums are in scratch memory, in
// three levels: of 64, 512 and 4096 rows, and of all.

// CHECK-LABEL: func.func private @channels_impl(
// CHECK-SAME: mpc.scratch_bytes = 4096 : i64
// CHECK: tile.for_each %{{.*}} in (1)
// CHECK:   scf.for %{{.*}} = %c0 to %c8192 step %c4096
// CHECK:   scf.for %{{.*}} step %c512
// CHECK:   scf.for %{{.*}} step %c64
// CHECK:     scf.for %[[ROW:.*]] = %{{.*}} to %{{.*}} step %c1
// CHECK:       scf.for %[[COLUMN:.*]] = %c0 to %c256 step %c32
// CHECK:         %[[SUM:.*]] = vector.load %{{.*}}[%[[COLUMN]]] : memref<256xf32>, vector<32xf32>
// CHECK:         %[[X:.*]] = vector.load %{{.*}}[%[[ROW]], %{{.*}}] : memref<8192x256xf32>, vector<32xf32>
// CHECK:         %[[MORE:.*]] = arith.addf %[[SUM]], %[[X]]
// CHECK:         vector.store %[[MORE]]
// CHECK-NOT: tile.loop
// CHECK: return
func.func private @channels(%x: tensor<8192x256xf32>) -> tensor<256xf32> attributes {mpc.kernel_kind = "reduce"} {
  %0 = mpc.reduce_sum %x axes([0]) : tensor<8192x256xf32> -> tensor<256xf32>
  return %0 : tensor<256xf32>
}

// Short 16-bit rows are processed four at a time, in vectors that leave registers for four.

// CHECK-LABEL: func.func private @fours_impl(
// CHECK: tile.for_each %{{.*}} in (16)
// CHECK:   %{{.*}}:4 = tile.loop (%{{.*}}) from (0) to (512) by 32
// CHECK-COUNT-4: tile.reduce largest
func.func private @fours(%x: tensor<64x512xbf16>) -> tensor<64x512xbf16> attributes {mpc.kernel_kind = "row_reduction"} {
  %0 = mpc.cast %x : tensor<64x512xbf16> to tensor<64x512xf32>
  %1 = mpc.softmax %0 axis(1) : tensor<64x512xf32>
  %2 = mpc.cast %1 : tensor<64x512xf32> to tensor<64x512xbf16>
  return %2 : tensor<64x512xbf16>
}

// Fewer rows use the same vectors, so that a row's sums have one order.

// CHECK-LABEL: func.func private @three_rows_impl(
// CHECK: tile.for_each %{{.*}} in (3)
// CHECK:   %{{.*}} = tile.loop (%{{.*}}) from (0) to (512) by 32
func.func private @three_rows(%x: tensor<3x512xbf16>) -> tensor<3x512xbf16> attributes {mpc.kernel_kind = "row_reduction"} {
  %0 = mpc.cast %x : tensor<3x512xbf16> to tensor<3x512xf32>
  %1 = mpc.softmax %0 axis(1) : tensor<3x512xf32>
  %2 = mpc.cast %1 : tensor<3x512xf32> to tensor<3x512xbf16>
  return %2 : tensor<3x512xbf16>
}

// Inputs of the next block and of this epilogue are prefetched during the multiplication: the
// residual by cache lines of the last row's columns, the rows into L2, some in each step.

// CHECK-LABEL: func.func private @ahead_impl(
// CHECK-SAME: %[[ROWS:[^:]*]]: memref<28x64xf32>, %{{[^:]*}}: memref<64x32xf32>, %[[RESIDUAL:[^:]*]]: memref<28x32xf32>
// CHECK:   memref.prefetch %[[RESIDUAL]][%{{.*}}], read, locality<3>, data
// CHECK:   scf.for
// CHECK:     memref.prefetch %{{.*}}[%{{.*}}], read, locality<2>, data : memref<1792xf32>
// CHECK:     math.fma
func.func private @ahead(%x: tensor<28x64xf32>, %w: tensor<64x32xf32>, %r: tensor<28x32xf32>) -> tensor<28x32xf32>
    attributes {mpc.kernel_kind = "contraction",
                mpc.schedule = #tile.blocks<rows = 14, columns = 32, blocks_per_item = 2, pack = right, ahead = both>} {
  %0 = mpc.matmul %x, %w : (tensor<28x64xf32>, tensor<64x32xf32>) -> tensor<28x32xf32>
  %1 = mpc.add %0, %r : (tensor<28x32xf32>, tensor<28x32xf32>) -> tensor<28x32xf32>
  return %1 : tensor<28x32xf32>
}

// A row of the output skips the window rows above the image and below it.

// CHECK-LABEL: func.func private @edges_impl(
// CHECK: %[[ABOVE:.*]] = arith.maxsi
// CHECK: %[[BEGIN:.*]] = arith.minui %[[ABOVE]], %{{.*}}
// CHECK: %[[BELOW:.*]] = arith.maxsi
// CHECK: %[[END:.*]] = arith.minui %[[BELOW]], %{{.*}}
// CHECK: scf.for %{{.*}} = %[[BEGIN]] to %[[END]] step %{{.*}} iter_args
// CHECK: math.fma
func.func private @edges(%x: tensor<1x14x14x16xf32>, %w: tensor<32x16x3x3xf32>) -> tensor<1x14x14x32xf32>
    attributes {mpc.kernel_kind = "library",
                mpc.schedule = #tile.blocks<rows = 14, columns = 32, blocks_per_item = 2, pack = both>} {
  %0 = mpc.conv %x, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) : (tensor<1x14x14x16xf32>, tensor<32x16x3x3xf32>) -> tensor<1x14x14x32xf32>
  return %0 : tensor<1x14x14x32xf32>
}

// An f16 gather along a row is upconverted a vector at a time: scalar conversions would
// depend on each other.

// CHECK-LABEL: func.func private @picked_impl(
// CHECK: %[[HALVES:.*]] = vector.from_elements {{.*}} : vector<16xf16>
// CHECK: arith.extf %[[HALVES]] : vector<16xf16> to vector<16xf32>
// CHECK: arith.addf {{.*}} : vector<16xf32>
func.func private @picked(%x: tensor<8x80xf16>, %at: tensor<160xi64>, %y: tensor<8x160xf32>) -> tensor<8x160xf32>
    attributes {mpc.kernel_kind = "elementwise"} {
  %0 = mpc.gather %x, %at axis(1) : (tensor<8x80xf16>, tensor<160xi64>) -> tensor<8x160xf16>
  %1 = mpc.cast %0 : tensor<8x160xf16> to tensor<8x160xf32>
  %2 = mpc.add %y, %1 : (tensor<8x160xf32>, tensor<8x160xf32>) -> tensor<8x160xf32>
  return %2 : tensor<8x160xf32>
}

// Column sums with several readers are computed once, and both sums by one loop.
// CHECK-LABEL: func.func private @sums_impl(
// CHECK: tile.loop
// CHECK: tile.reduce
// CHECK: tile.reduce
// CHECK-NOT: tile.loop
// CHECK: return
func.func private @sums(%x: tensor<50x64xf32>, %y: tensor<50x64xf32>) -> (tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x64xf32>) attributes {mpc.kernel_kind = #mpc<fusion_kind reduce>} {
  %half = mpc.constant dense<0.5> : tensor<1xf32>
  %0 = mpc.reduce_sum %x axes([0]) keep_dims : tensor<50x64xf32> -> tensor<1x64xf32>
  %1 = mpc.mul %0, %half : (tensor<1x64xf32>, tensor<1xf32>) -> tensor<1x64xf32>
  %2 = mpc.mul %x, %y : (tensor<50x64xf32>, tensor<50x64xf32>) -> tensor<50x64xf32>
  %3 = mpc.reduce_sum %2 axes([0]) keep_dims : tensor<50x64xf32> -> tensor<1x64xf32>
  return %0, %1, %3 : tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x64xf32>
}

// An f32 accumulator adds 512 products at most, in equal chunks of the depth where possible:
// 1200 are three times 400, added to the tile, which starts at zero.

// CHECK-LABEL: func.func private @deep_impl(
// CHECK: scf.for %{{.*}} = %{{.*}} to %c1200{{.*}} step %c400
// CHECK:   scf.for
// CHECK:     math.fma
// CHECK:   %[[OLD:.*]] = vector.load
// CHECK:   arith.addf %[[OLD]], %{{.*}} : vector<16xf32>
func.func private @deep(%x: tensor<14x1200xf32>, %w: tensor<1200x32xf32>) -> tensor<14x32xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = #tile.blocks<rows = 14, columns = 32, pack = right>} {
  %0 = mpc.matmul %x, %w : (tensor<14x1200xf32>, tensor<1200x32xf32>) -> tensor<14x32xf32>
  return %0 : tensor<14x32xf32>
}

// A row of the window is 192 products: three equal chunks share code for one, which two rows and
// a remainder would not.

// CHECK-LABEL: func.func private @lines_impl(
// CHECK-COUNT-8: math.fma
// CHECK-NOT: math.fma
// CHECK: return
func.func private @lines(%x: tensor<1x4x4x64xf32>, %w: tensor<1x576x16xf32>) -> tensor<1x4x4x16xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = #tile.blocks<rows = 4, columns = 16, pack = left>} {
  %0 = mpc.conv %x, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) window([3, 3]) packed<columns = 16>
      : (tensor<1x4x4x64xf32>, tensor<1x576x16xf32>) -> tensor<1x4x4x16xf32>
  return %0 : tensor<1x4x4x16xf32>
}

// Split-KV attention for few queries: a work item stores its accumulators, maximum and sum of
// weights in shared scratch memory; later work items combine the splits of a head.

// CHECK-LABEL: func.func private @parts_impl(
// CHECK-SAME: memref<1x1x1x16xf32>, %[[PARTIALS:[a-z0-9]+]]: memref<96xf32>, %{{.*}}: index, %{{.*}}: index, %{{.*}}: memref<
// CHECK-SAME: mpc.no_alias = array<i1: true, true, true, true>
// CHECK-SAME: mpc.shared_bytes = 384 : i64
// CHECK: tile.for_each %[[ITEM:.*]] in (3) cycles(8.960000e+02) {
// CHECK:   %[[PART:.*]] = arith.remui %[[ITEM]], %c3
// CHECK:   %[[BEGIN:.*]] = arith.muli %[[PART]], %c64
// CHECK:   %[[BEHIND:.*]] = arith.addi %[[BEGIN]], %c64
// CHECK:   %[[END:.*]] = arith.minui %[[BEHIND]], %c150
// CHECK:   scf.if
// CHECK:   memref.store %{{.*}}, %[[PARTIALS]]
// CHECK:   memref.store %{{.*}}, %[[PARTIALS]]
// CHECK:   vector.store %{{.*}}, %[[PARTIALS]]
// CHECK: tile.for_each %{{.*}} in (1) cycles(1.000000e+00) in_order {
// CHECK:   scf.for %{{.*}} = %c0 to %c3 step %c1 iter_args
// CHECK:     memref.load %[[PARTIALS]]
// CHECK:   scf.for %{{.*}} = %c0 to %c3 step %c1 iter_args
// CHECK:   scf.for %{{.*}} = %c0 to %c3 step %c1 iter_args
// CHECK:     vector.load %[[PARTIALS]]
func.func private @parts(%q: tensor<1x1x1x16xf32>, %k: tensor<1x1x150x16xf32>) -> tensor<1x1x1x16xf32>
    attributes {mpc.kernel_kind = "attention",
                mpc.schedule = #tile.blocks<rows = 1, columns = 16, chunk = 64>} {
  %0 = mpc.attention %q, %k, %k scale(1.250000e-01) : (tensor<1x1x1x16xf32>, tensor<1x1x150x16xf32>, tensor<1x1x150x16xf32>) -> tensor<1x1x1x16xf32>
  return %0 : tensor<1x1x1x16xf32>
}

// Scratch memory for a cache of 32,768 rows, 201 MB of f32: scores of a split per thread, and for
// each head and split a row of accumulators in separate cache lines. Rows are prefetched while the
// previous ones are multiplied.

// CHECK-LABEL: func.func private @long_cache_impl(
// CHECK-SAME: mpc.scratch_bytes = 13568 : i64, mpc.shared_bytes = 491520 : i64
// CHECK: tile.for_each %{{.*}} in (128)
// CHECK:   memref.prefetch %{{.*}}, read, locality<2>, data : memref<32768x1x12x64xf32>
// CHECK: tile.for_each %{{.*}} in (12) cycles(1.000000e+00) in_order
func.func private @long_cache(%q: tensor<1x12x1x64xf32>, %ks: tensor<32768x1x12x64xf32>, %vs: tensor<32768x1x12x64xf32>) -> tensor<1x12x1x64xf32>
    attributes {mpc.kernel_kind = "attention"} {
  %k = mpc.transpose %ks [1, 2, 0, 3] : tensor<32768x1x12x64xf32> to tensor<1x12x32768x64xf32>
  %v = mpc.transpose %vs [1, 2, 0, 3] : tensor<32768x1x12x64xf32> to tensor<1x12x32768x64xf32>
  %0 = mpc.attention %q, %k, %v scale(1.250000e-01) : (tensor<1x12x1x64xf32>, tensor<1x12x32768x64xf32>, tensor<1x12x32768x64xf32>) -> tensor<1x12x1x64xf32>
  return %0 : tensor<1x12x1x64xf32>
}
