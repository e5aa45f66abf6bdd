// RUN: mpc-opt %s --mpc-lower-tiles-to-threads --split-input-file --verify-diagnostics | FileCheck %s

// Eight lanes share a row: each has its two vectors in registers, reduces its
// lanes, then across the threads; one of them stores.

// CHECK-LABEL: gpu.func @rows
// CHECK: %[[THREAD:.*]] = gpu.thread_id x
// CHECK: %[[ITEM:.*]] = arith.divui %[[THREAD]], %c8
// CHECK: %[[MEMBER:.*]] = arith.remui %[[THREAD]], %c8
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[MEMBER]], %c0
// CHECK: arith.muli %[[MEMBER]], %c4
// CHECK: %[[KEPT:.*]] = memref.alloca() : memref<2xvector<4xf32>>
// CHECK: %[[OWN:.*]] = scf.for %[[STEP:.*]] = %c0 to %c2 step %c1 iter_args
// CHECK:   memref.store %{{.*}}, %[[KEPT]][%[[STEP]]]
// CHECK: } {mpc.unroll}
// CHECK: %[[LANES:.*]] = vector.reduction <maximumf>, %[[OWN]]
// CHECK: gpu.subgroup_reduce maximumf %[[LANES]] cluster(size = 8)
// CHECK: scf.if %[[FIRST]]
// CHECK-NOT: tile.
gpu.module @kernels {
  gpu.func @rows(%x: memref<16x64xf32>, %y: memref<16xf32>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>, known_grid_size = array<i32: 4, 1, 1>} {
    %lowest = arith.constant 0xFF800000 : f32
    %start = arith.constant dense<0xFF800000> : vector<4xf32>
    tile.for_each %row in (16) cycles(1.0)
        threads(#tile.threads<members = 8, items = 4, vector = 4, steps = 2, keep = registers>) {
      %kept = tile.buffer "values" : <[64] x f32>
      %own = tile.loop (%c) from (0) to (64) by 4 carry(%best = %start) : vector<4xf32> {
        %v = vector.load %x[%row, %c] : memref<16x64xf32>, vector<4xf32>
        %more = arith.maximumf %v, %best : vector<4xf32>
        tile.write %v, %kept[%c] : vector<4xf32>, <[64] x f32>
        tile.yield %more : vector<4xf32>
      }
      %largest = tile.reduce largest %own from(%lowest : f32) "largest" : (vector<4xf32>) -> f32 {
      ^bb0(%a: f32, %b: f32):
        %m = arith.maximumf %a, %b : f32
        tile.yield %m : f32
      }
      tile.store once {
        memref.store %largest, %y[%row] : memref<16xf32>
      }
    }
    gpu.return
  }
}

// -----

// Unnamed reductions use shuffles, halving the thread group each time.

// CHECK-LABEL: gpu.func @products
// CHECK: scf.for {{.*}} iter_args(%[[MINE:.*]] =
// CHECK:   %[[OTHER:.*]], %{{.*}} = gpu.shuffle xor %[[MINE]]
// CHECK:   arith.mulf %[[MINE]], %[[OTHER]]
gpu.module @kernels {
  gpu.func @products(%x: memref<16x32xf32>, %y: memref<16xf32>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>, known_grid_size = array<i32: 16, 1, 1>} {
    %one = arith.constant 1.0 : f32
    tile.for_each %row in (16) cycles(1.0) threads(#tile.threads<members = 32>) {
      %own = tile.loop (%c) from (0) to (32) by 1 carry(%all = %one) : f32 {
        %v = memref.load %x[%row, %c] : memref<16x32xf32>
        %next = arith.mulf %all, %v : f32
        tile.yield %next : f32
      }
      %product = tile.reduce any %own from(%one : f32) "product" : (f32) -> f32 {
      ^bb0(%a: f32, %b: f32):
        %m = arith.mulf %a, %b : f32
        tile.yield %m : f32
      }
      tile.store once {
        memref.store %product, %y[%row] : memref<16xf32>
      }
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @no_team() kernel
      attributes {known_block_size = array<i32: 32, 1, 1>, known_grid_size = array<i32: 1, 1, 1>} {
    // expected-error @+1 {{'tile.for_each' op has no thread mapping, which GPU kernels need}}
    tile.for_each %row in (16) cycles(1.0) {
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @other_vectors(%x: memref<64xf32>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>, known_grid_size = array<i32: 1, 1, 1>} {
    tile.for_each %row in (1) cycles(1.0) threads(#tile.threads<members = 32, vector = 4>) {
      // expected-error @+1 {{'tile.loop' op loops by 2 from 0 to 64; a thread mapping with vectors of 4 needs rows that start at 0 and consist of whole vectors}}
      tile.loop (%c) from (0) to (64) by 2 {
      }
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @keeps_nothing() kernel
      attributes {known_block_size = array<i32: 32, 1, 1>, known_grid_size = array<i32: 1, 1, 1>} {
    tile.for_each %row in (1) cycles(1.0) threads(#tile.threads<members = 32>) {
      // expected-error @+1 {{'tile.buffer' op needs a thread mapping with a memory for buffers (keep)}}
      %kept = tile.buffer "values" : <[32] x f32>
    }
    gpu.return
  }
}

// -----

// The launched blocks process all tiles.

gpu.module @kernels {
  gpu.func @few_blocks() kernel
      attributes {known_block_size = array<i32: 32, 1, 1>, known_grid_size = array<i32: 3, 1, 1>} {
    // expected-error @+1 {{'tile.for_each' op has 16 items; 3 blocks process 12}}
    tile.for_each %row in (16) cycles(1.0) threads(#tile.threads<members = 8, items = 4>) {
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @other_threads() kernel
      attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 4, 1, 1>} {
    // expected-error @+1 {{'tile.for_each' op needs blocks of 32 threads, but the kernel has 64}}
    tile.for_each %row in (16) cycles(1.0) threads(#tile.threads<members = 8, items = 4>) {
    }
    gpu.return
  }
}

// -----

// Every block processes all tiles, here six by four thread groups in two rounds, of
// which the last has two groups without a tile.

// CHECK-LABEL: gpu.func @every_block
// CHECK: %[[ITEM:.*]] = arith.divui %{{.*}}, %c8
// CHECK-NOT: gpu.block_id
// CHECK: scf.for %[[ROUND:.*]] = %c0 to %c2
// CHECK:   %[[FIRST:.*]] = arith.muli %[[ROUND]], %c4
// CHECK:   %[[NUMBER:.*]] = arith.addi %[[FIRST]], %[[ITEM]]
// CHECK:   %[[ACTIVE:.*]] = arith.cmpi ult, %[[NUMBER]], %c6
// CHECK:   %[[ROW:.*]] = arith.minui %[[NUMBER]], %c5
// CHECK:   vector.load %{{.*}}[%[[ROW]], %{{.*}}]
// CHECK:   scf.if %[[ACTIVE]]
// CHECK-NOT: tile.
gpu.module @kernels {
  gpu.func @every_block(%x: memref<6x32xf32>, %y: memref<6x32xf32, #gpu.address_space<workgroup>>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>, known_grid_size = array<i32: 5, 1, 1>} {
    tile.for_each %row in (6) cycles(1.0)
        threads(#tile.threads<members = 8, items = 4, vector = 4, rounds = 2, every_block = true>) {
      tile.loop (%c) from (0) to (32) by 4 {
        %v = vector.load %x[%row, %c] : memref<6x32xf32>, vector<4xf32>
        tile.store {
          vector.store %v, %y[%row, %c] : memref<6x32xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        }
      }
    }
    gpu.return
  }
}
