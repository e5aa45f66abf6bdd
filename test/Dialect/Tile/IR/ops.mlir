// RUN: mpc-opt %s | mpc-opt | FileCheck %s
// RUN: mpc-opt %s --mlir-print-op-generic | mpc-opt | FileCheck %s

// A tile program defines its tiles, loops, loop-carried values, reductions,
// buffers and stores, and leaves the mapping to threads open.

// CHECK-LABEL: func.func @softmax
// CHECK: tile.for_each %[[ROW:.*]] in (64) cycles(1.200000e+03) threads(#tile.threads<members = 32, items = 4, vector = 8, steps = 2, keep = registers>) {
// CHECK:   %[[KEPT:.*]] = tile.buffer "values" : <[512] x f32>
// CHECK:   %[[BEST:.*]] = tile.loop (%[[C:.*]]) from (0) to (512) by 8 carry(%[[MORE:.*]] = %{{.*}}) : vector<8xf32> {
// CHECK:     tile.write %{{.*}}, %[[KEPT]][%[[C]]] : vector<8xf32>, <[512] x f32>
// CHECK:     tile.yield %{{.*}} : vector<8xf32>
// CHECK:   }
// CHECK:   tile.reduce largest %[[BEST]] from(%{{.*}} : f32) "largest" : (vector<8xf32>) -> f32 {
// CHECK:   tile.loop (%[[D:.*]]) from (0) to (512) by 8 {
// CHECK:     tile.read %[[KEPT]][%[[D]]] : <[512] x f32>, vector<8xf32>
// CHECK:     tile.store {
// CHECK:       vector.store
// CHECK-NOT: tile.yield
// CHECK:   tile.store once {
func.func @softmax(%x: memref<64x512xf32>, %y: memref<64x512xf32>, %z: memref<64xf32>) {
  %lowest = arith.constant 0xFF800000 : f32
  %start = arith.constant dense<0xFF800000> : vector<8xf32>
  tile.for_each %row in (64) cycles(1.2e+03)
      threads(#tile.threads<members = 32, items = 4, vector = 8, steps = 2, keep = registers>) {
    %kept = tile.buffer "values" : <[512] x f32>
    %own = tile.loop (%c) from (0) to (512) by 8 carry(%best = %start) : vector<8xf32> {
      %v = vector.load %x[%row, %c] : memref<64x512xf32>, vector<8xf32>
      %more = arith.maximumf %v, %best : vector<8xf32>
      tile.write %v, %kept[%c] : vector<8xf32>, <[512] x f32>
      tile.yield %more : vector<8xf32>
    }
    %largest = tile.reduce largest %own from(%lowest : f32) "largest" : (vector<8xf32>) -> f32 {
    ^bb0(%a: f32, %b: f32):
      %m = arith.maximumf %a, %b : f32
      tile.yield %m : f32
    }
    tile.loop (%c) from (0) to (512) by 8 {
      %v = tile.read %kept[%c] : <[512] x f32>, vector<8xf32>
      %l = vector.broadcast %largest : f32 to vector<8xf32>
      %d = arith.subf %v, %l : vector<8xf32>
      tile.store {
        vector.store %d, %y[%row, %c] : memref<64x512xf32>, vector<8xf32>
      }
    }
    tile.store once {
      memref.store %largest, %z[%row] : memref<64xf32>
    }
  }
  return
}

// Positions of two axes, a mask of the last vector, tiles in order.

// CHECK-LABEL: func.func @masked
// CHECK: tile.for_each %{{.*}} in (1) cycles(1.000000e+00) in_order {
// CHECK: tile.loop (%{{.*}}, %[[C:.*]]) from (0, 4) to (3, 29) by 8 masked(%[[M:.*]]) carry(
func.func @masked(%x: memref<3x29xf32>, %y: memref<f32>) {
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : vector<8xf32>
  tile.for_each %i in (1) cycles(1.0) in_order {
    %own = tile.loop (%a, %c) from (0, 4) to (3, 29) by 8 masked(%m) carry(%sum = %zeros) : vector<8xf32> {
      %v = vector.load %x[%a, %c] : memref<3x29xf32>, vector<8xf32>
      %w = arith.select %m, %v, %zeros : vector<8xi1>, vector<8xf32>
      %next = arith.addf %sum, %w : vector<8xf32>
      tile.yield %next : vector<8xf32>
    }
    %sum = tile.reduce sum %own from(%zero : f32) "sum" : (vector<8xf32>) -> f32 {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      tile.yield %s : f32
    }
    memref.store %sum, %y[] : memref<f32>
  }
  return
}

// Sums over all tiles.

// CHECK-LABEL: func.func @sums
// CHECK: %[[S:.*]] = tile.accumulators : <8 x f32>
// CHECK: tile.accumulate %{{.*}}, %[[S]][%{{.*}}] : vector<4xf32>, <8 x f32>
// CHECK: tile.total %[[S]] by 4 : !tile.accumulators<8 x f32> {
// CHECK: ^bb0(%[[COLUMN:.*]]: index, %[[TOTAL:.*]]: vector<4xf32>):
func.func @sums(%x: memref<16x8xf32>, %y: memref<8xf32>) {
  %s = tile.accumulators : <8 x f32>
  tile.for_each %row in (16) cycles(1.0) {
    tile.loop (%c) from (0) to (8) by 4 {
      %v = vector.load %x[%row, %c] : memref<16x8xf32>, vector<4xf32>
      tile.store {
        tile.accumulate %v, %s[%c] : vector<4xf32>, <8 x f32>
      }
    }
  }
  tile.total %s by 4 : !tile.accumulators<8 x f32> {
  ^bb0(%column: index, %total: vector<4xf32>):
    vector.store %total, %y[%column] : memref<8xf32>, vector<4xf32>
  }
  return
}
