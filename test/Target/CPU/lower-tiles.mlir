// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx512 --mpc-lower-tiles | FileCheck %s

// A call runs the work items [begin, end). Buffers of a work item are allocated after the
// existing scratch memory.

// CHECK-LABEL: func.func private @keeps_impl(
// CHECK-SAME: %[[X:.*]]: memref<16x64xf32>, %[[Y:.*]]: memref<16x64xf32>, %[[BEGIN:.*]]: index, %[[END:.*]]: index, %[[SCRATCH:.*]]: memref<320xi8>)
// CHECK-SAME: mpc.grain = 2000 : i64, mpc.items = 16 : i64, mpc.scratch_bytes = 320 : i64
// CHECK: %[[BYTES:.*]] = arith.constant 64 : index
// CHECK: scf.for %[[ROW:.*]] = %[[BEGIN]] to %[[END]] step
// CHECK:   %[[PLACE:.*]] = memref.view %[[SCRATCH]]
// CHECK:   %[[BEST:.*]] = scf.for %[[AT:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%{{.*}} = %{{.*}}) -> (vector<16xf32>)
// CHECK:     vector.store %{{.*}}, %[[PLACE]][%[[AT]]]
// CHECK:   scf.for
// CHECK:     vector.load %[[PLACE]]
// CHECK:     vector.store %{{.*}}, %[[Y]]
// CHECK-NOT: tile.
func.func private @keeps_impl(%x: memref<16x64xf32>, %y: memref<16x64xf32>, %begin: index, %end: index, %scratch: memref<64xi8>)
    attributes {mpc.scratch_bytes = 64 : i64} {
  %lowest = arith.constant 0xFF800000 : f32
  %start = arith.constant dense<0xFF800000> : vector<16xf32>
  tile.for_each %row in (16) cycles(20.0) {
    %kept = tile.buffer "doubled" : <[64] x f32>
    %own = tile.loop (%c) from (0) to (64) by 16 carry(%best = %start) : vector<16xf32> {
      %v = vector.load %x[%row, %c] : memref<16x64xf32>, vector<16xf32>
      %d = arith.addf %v, %v : vector<16xf32>
      tile.write %d, %kept[%c] : vector<16xf32>, <[64] x f32>
      %more = arith.maximumf %d, %best : vector<16xf32>
      tile.yield %more : vector<16xf32>
    }
    %largest = tile.reduce largest %own from(%lowest : f32) "largest" : (vector<16xf32>) -> f32 {
    ^bb0(%a: f32, %b: f32):
      %m = arith.maximumf %a, %b : f32
      tile.yield %m : f32
    }
    %all = vector.broadcast %largest : f32 to vector<16xf32>
    tile.loop (%c) from (0) to (64) by 16 {
      tile.store {
        %v = tile.read %kept[%c] : <[64] x f32>, vector<16xf32>
        %s = arith.subf %v, %all : vector<16xf32>
        vector.store %s, %y[%row, %c] : memref<16x64xf32>, vector<16xf32>
      }
    }
  }
  return
}

// A loop of work items that depends on an earlier loop is one work item.

// CHECK-LABEL: func.func private @in_order_impl(
// CHECK-SAME: mpc.grain = 1 : i64, mpc.items = 1 : i64
// CHECK: scf.for
// CHECK: scf.for
func.func private @in_order_impl(%x: memref<4xf32>, %begin: index, %end: index, %scratch: memref<1xi8>)
    attributes {mpc.scratch_bytes = 0 : i64} {
  %one = arith.constant 1.0 : f32
  tile.for_each %i in (4) cycles(1.0) {
    memref.store %one, %x[%i] : memref<4xf32>
  }
  tile.for_each %i in (2) cycles(1.0) in_order {
    memref.store %one, %x[%i] : memref<4xf32>
  }
  return
}

// Where the loops communicate through shared scratch memory, the runtime enforces the order.

// CHECK-LABEL: func.func private @shared_impl(
// CHECK-SAME: %[[SHARED:.*]]: memref<4xf32>, %[[BEGIN:.*]]: index, %[[END:.*]]: index, %{{.*}}: memref<1xi8>)
// CHECK-SAME: mpc.grain = 4000 : i64, mpc.items = 6 : i64, mpc.later_items = 2 : i64
// CHECK: %[[FIRST:.*]] = arith.minui %[[BEGIN]], %c4
// CHECK: %[[LAST:.*]] = arith.minui %[[END]], %c4
// CHECK: scf.for %{{.*}} = %[[FIRST]] to %[[LAST]] step
// CHECK: scf.for
func.func private @shared_impl(%x: memref<2xf32>, %shared: memref<4xf32>, %begin: index, %end: index, %scratch: memref<1xi8>)
    attributes {mpc.scratch_bytes = 0 : i64, mpc.shared_bytes = 16 : i64} {
  %one = arith.constant 1.0 : f32
  tile.for_each %i in (4) cycles(10.0) {
    memref.store %one, %shared[%i] : memref<4xf32>
  }
  tile.for_each %i in (2) cycles(1.0) in_order {
    %y = memref.load %shared[%i] : memref<4xf32>
    memref.store %y, %x[%i] : memref<2xf32>
  }
  return
}

// A long sum is split into about as many partial sums as terms per partial sum: the last one ends
// with the row. A maximum is computed in one loop.

// CHECK-LABEL: func.func private @long_sum_impl(
// CHECK: %[[END:.*]] = arith.constant 1000 : index
// CHECK: %[[SUM:.*]] = scf.for %[[FROM:.*]] = %{{.*}} to %[[END]] step %[[PART:.*]] iter_args(%[[BEFORE:.*]] = %[[ZERO:.*]]) -> (f32)
// CHECK:   %[[NEXT:.*]] = arith.addi %[[FROM]], %[[PART]]
// CHECK:   %[[TO:.*]] = arith.minui %[[NEXT]], %{{.*}}
// CHECK:   %[[MORE:.*]] = scf.for %{{.*}} = %[[FROM]] to %[[TO]] step %{{.*}} iter_args(%{{.*}} = %[[ZERO]]) -> (f32)
// CHECK:   %[[TOTAL:.*]] = arith.addf %[[BEFORE]], %[[MORE]]
// CHECK:   scf.yield %[[TOTAL]]
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args
// CHECK-NOT: scf.for
// CHECK: return
func.func private @long_sum_impl(%x: memref<1000xf32>, %y: memref<2xf32>, %begin: index, %end: index, %scratch: memref<1xi8>)
    attributes {mpc.scratch_bytes = 0 : i64} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  tile.for_each %i in (1) cycles(1000.0) {
    %own = tile.loop (%c) from (0) to (1000) by 1 carry(%sum = %zero) : f32 {
      %v = memref.load %x[%c] : memref<1000xf32>
      %more = arith.addf %sum, %v : f32
      tile.yield %more : f32
    }
    %all = tile.reduce sum %own from(%zero : f32) "sum" : (f32) -> f32 {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      tile.yield %s : f32
    }
    %most = tile.loop (%c) from (0) to (1000) by 1 carry(%best = %zero) : f32 {
      %v = memref.load %x[%c] : memref<1000xf32>
      %more = arith.maximumf %best, %v : f32
      tile.yield %more : f32
    }
    %largest = tile.reduce largest %most from(%zero : f32) "largest" : (f32) -> f32 {
    ^bb0(%a: f32, %b: f32):
      %m = arith.maximumf %a, %b : f32
      tile.yield %m : f32
    }
    memref.store %all, %y[%c0] : memref<2xf32>
    memref.store %largest, %y[%c1] : memref<2xf32>
  }
  return
}
