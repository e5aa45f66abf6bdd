// RUN: mpc-opt %s --mpc-recognize-expert-routing | FileCheck %s
// RUN: mpc-opt %s --mpc-recognize-expert-routing | mpc-opt --mpc-recognize-expert-routing | FileCheck %s

!all = tensor<4x8xf32>
!two = tensor<4x2xf32>
!row = tensor<4x1xf32>

// Top-2 of eight, normalized to sum to one: sums are over selected numbers, and
// the others are unchanged.
// CHECK-LABEL: func @two
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>, %[[REST:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-DAG: %[[ZERO:.*]] = mpc.constant dense<0.000000e+00>
// CHECK-DAG: %[[BELOW:.*]] = mpc.constant dense<-1.000000e+00>
// CHECK-DAG: %[[PLACES:.*]] = mpc.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]>
// CHECK: %[[P:.*]] = mpc.softmax %[[X]]
// CHECK: %[[FIRST:.*]] = mpc.argmax %[[P]] axis(1) keep_dims
// CHECK: %[[IS_FIRST:.*]] = mpc.compare eq %[[PLACES]], %[[FIRST]]
// CHECK: %[[LEFT:.*]] = mpc.select %[[IS_FIRST]], %[[BELOW]], %[[P]]
// CHECK: %[[SECOND:.*]] = mpc.argmax %[[LEFT]] axis(1) keep_dims
// CHECK: %[[IS_SECOND:.*]] = mpc.compare eq %[[PLACES]], %[[SECOND]]
// CHECK: %[[MASK:.*]] = mpc.or %[[IS_FIRST]], %[[IS_SECOND]]
// CHECK: %[[KEPT:.*]] = mpc.select %[[MASK]], %[[P]], %[[ZERO]]
// CHECK: %[[SUM:.*]] = mpc.reduce_sum %[[KEPT]] axes([1]) keep_dims
// CHECK: %[[SAFE:.*]] = mpc.add %[[SUM]]
// CHECK: %[[SCALED:.*]] = mpc.div %[[P]], %[[SAFE]] {mpc.layer = "router"} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
// CHECK: %[[Y:.*]] = mpc.select %[[MASK]], %[[SCALED]], %[[REST]] {mpc.layer = "router"}
// CHECK: return %[[Y]]
func.func @two(%x: !all, %rest: !all) -> !all {
  %p = mpc.softmax %x axis(1) : !all
  %values, %indices = mpc.top_k %p k(2) axis(1) : !all -> !two, tensor<4x2xi64>
  %sum = mpc.reduce_sum %values axes([1]) keep_dims : !two -> !row
  %epsilon = mpc.constant dense<1.0e-20> : tensor<f32>
  %safe = mpc.add %sum, %epsilon : (!row, tensor<f32>) -> !row
  %scaled = mpc.div %values, %safe {mpc.layer = "router"} : (!two, !row) -> !two
  %y = mpc.scatter_elements %rest, %indices, %scaled axis(1) {mpc.layer = "router"}
    : (!all, tensor<4x2xi64>, !two) -> !all
  return %y : !all
}

// Top-1 of eight, unnormalized.
// CHECK-LABEL: func @one
// CHECK: %[[P:.*]] = mpc.sigmoid
// CHECK: %[[BEST:.*]] = mpc.argmax %[[P]]
// CHECK: %[[MASK:.*]] = mpc.compare eq %{{.*}}, %[[BEST]]
// CHECK: %[[Y:.*]] = mpc.select %[[MASK]], %[[P]]
// CHECK: return %[[Y]]
func.func @one(%x: !all, %rest: !all) -> !all {
  %p = mpc.sigmoid %x : !all
  %values, %indices = mpc.top_k %p k(1) axis(1) : !all -> !row, tensor<4x1xi64>
  %y = mpc.scatter_elements %rest, %indices, %values axis(1) : (!all, tensor<4x1xi64>, !row) -> !all
  return %y : !all
}

// Values may be less than the fill value of the unselected ones.
// CHECK-LABEL: func @any_sign
// CHECK: mpc.top_k
// CHECK: mpc.scatter_elements
func.func @any_sign(%x: !all, %rest: !all) -> !all {
  %values, %indices = mpc.top_k %x k(2) axis(1) : !all -> !two, tensor<4x2xi64>
  %y = mpc.scatter_elements %rest, %indices, %values axis(1) : (!all, tensor<4x2xi64>, !two) -> !all
  return %y : !all
}

// A factor per rank, not per expert, cannot be applied to the row.
// CHECK-LABEL: func @by_rank
// CHECK: mpc.top_k
// CHECK: mpc.scatter_elements
func.func @by_rank(%x: !all, %rest: !all, %share: tensor<2xf32>) -> !all {
  %p = mpc.softmax %x axis(1) : !all
  %values, %indices = mpc.top_k %p k(2) axis(1) : !all -> !two, tensor<4x2xi64>
  %scaled = mpc.mul %values, %share : (!two, tensor<2xf32>) -> !two
  %y = mpc.scatter_elements %rest, %indices, %scaled axis(1) : (!all, tensor<4x2xi64>, !two) -> !all
  return %y : !all
}

// Not matched: other readers of the indices; a scatter that adds; the smallest
// values; too large a k.
// CHECK-LABEL: func @left_alone
// CHECK-COUNT-4: mpc.top_k
// CHECK-COUNT-4: mpc.scatter_elements
func.func @left_alone(%x: !all, %rest: !all) -> (!all, tensor<4x2xi64>, !all, !all, !all) {
  %p = mpc.softmax %x axis(1) : !all
  %v0, %i0 = mpc.top_k %p k(2) axis(1) : !all -> !two, tensor<4x2xi64>
  %v1, %i1 = mpc.top_k %p k(2) axis(1) : !all -> !two, tensor<4x2xi64>
  %v2, %i2 = mpc.top_k %p k(2) axis(1) {largest = false} : !all -> !two, tensor<4x2xi64>
  %v3, %i3 = mpc.top_k %p k(5) axis(1) : !all -> tensor<4x5xf32>, tensor<4x5xi64>
  %y0 = mpc.scatter_elements %rest, %i0, %v0 axis(1) : (!all, tensor<4x2xi64>, !two) -> !all
  %y1 = mpc.scatter_elements %rest, %i1, %v1 axis(1) reduction(add) : (!all, tensor<4x2xi64>, !two) -> !all
  %y2 = mpc.scatter_elements %rest, %i2, %v2 axis(1) : (!all, tensor<4x2xi64>, !two) -> !all
  %y3 = mpc.scatter_elements %rest, %i3, %v3 axis(1) : (!all, tensor<4x5xi64>, tensor<4x5xf32>) -> !all
  return %y0, %i0, %y1, %y2, %y3 : !all, tensor<4x2xi64>, !all, !all, !all
}

// The mask is applied before later ops: the root of an unselected number, which
// may be 0, has no derivative.
// CHECK-LABEL: func @root
// CHECK: mpc.top_k
// CHECK: mpc.scatter_elements
func.func @root(%x: !all, %rest: !all) -> !all {
  %p = mpc.softmax %x axis(1) : !all
  %values, %indices = mpc.top_k %p k(2) axis(1) : !all -> !two, tensor<4x2xi64>
  %root = mpc.sqrt %values : !two
  %y = mpc.scatter_elements %rest, %indices, %root axis(1) : (!all, tensor<4x2xi64>, !two) -> !all
  return %y : !all
}

// Rows that no kernel can buffer: a one-dimensional tensor, and long rows.
// CHECK-LABEL: func @no_rows
// CHECK-COUNT-2: mpc.top_k
func.func @no_rows(%x: tensor<8xf32>, %z: tensor<4x10000xf32>) -> (tensor<8xf32>, tensor<4x10000xf32>) {
  %p = mpc.softmax %x axis(0) : tensor<8xf32>
  %v0, %i0 = mpc.top_k %p k(2) axis(0) : tensor<8xf32> -> tensor<2xf32>, tensor<2xi64>
  %y0 = mpc.scatter_elements %x, %i0, %v0 axis(0) : (tensor<8xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<8xf32>
  %q = mpc.softmax %z axis(1) : tensor<4x10000xf32>
  %v1, %i1 = mpc.top_k %q k(2) axis(1) : tensor<4x10000xf32> -> !two, tensor<4x2xi64>
  %y1 = mpc.scatter_elements %z, %i1, %v1 axis(1) : (tensor<4x10000xf32>, tensor<4x2xi64>, !two) -> tensor<4x10000xf32>
  return %y0, %y1 : tensor<8xf32>, tensor<4x10000xf32>
}
