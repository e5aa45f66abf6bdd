// RUN: mpc-opt %s --mpc-recognize-softmax | FileCheck %s
// RUN: mpc-opt %s --mpc-recognize-softmax | mpc-opt --mpc-recognize-softmax | FileCheck %s
// RUN: mpc-opt %s --mpc-recognize-softmax --mlir-print-debuginfo | FileCheck %s --check-prefix=LOC

!rows = tensor<4x8xf32>
!sums = tensor<4x1xf32>

// The textbook form, with the maximum subtracted. Location and layer of the
// division stay.
// CHECK-LABEL: func @quotient
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-NEXT: %[[R:.*]] = mpc.softmax %[[X]] axis(1) {mpc.layer = "head"}
// CHECK-NEXT: return %[[R]]
// LOC-LABEL: func @quotient
// LOC: mpc.softmax {{.*}} loc(#[[DIV:loc[0-9]+]])
func.func @quotient(%x: !rows) -> !rows {
  %0 = mpc.reduce_max %x axes([1]) keep_dims : !rows -> !sums
  %1 = mpc.sub %x, %0 : (!rows, !sums) -> !rows
  %2 = mpc.exp %1 : !rows
  %3 = mpc.reduce_sum %2 axes([1]) keep_dims : !rows -> !sums
  %4 = mpc.div %2, %3 {mpc.layer = "head"} : (!rows, !sums) -> !rows loc("Div")
  return %4 : !rows
}

// Reductions that drop the axis, reshapes that restore it, explicit broadcasts.
// CHECK-LABEL: func @reshaped
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-NEXT: %[[R:.*]] = mpc.softmax %[[X]] axis(0)
// CHECK-NEXT: return %[[R]]
func.func @reshaped(%x: !rows) -> !rows {
  %0 = mpc.reduce_max %x axes([0]) : !rows -> tensor<8xf32>
  %1 = mpc.reshape %0 : tensor<8xf32> to tensor<1x8xf32>
  %2 = mpc.broadcast %1 : tensor<1x8xf32> to !rows
  %3 = mpc.sub %x, %2 : (!rows, !rows) -> !rows
  %4 = mpc.exp %3 : !rows
  %5 = mpc.reduce_sum %4 axes([0]) : !rows -> tensor<8xf32>
  %6 = mpc.reshape %5 : tensor<8xf32> to tensor<1x8xf32>
  %7 = mpc.div %4, %6 : (!rows, tensor<1x8xf32>) -> !rows
  return %7 : !rows
}

// Without the maximum, and as product with the reciprocal.
// CHECK-LABEL: func @no_maximum
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-NEXT: mpc.softmax %[[X]] axis(1)
func.func @no_maximum(%x: !rows) -> !rows {
  %0 = mpc.exp %x : !rows
  %1 = mpc.reduce_sum %0 axes([1]) keep_dims : !rows -> !sums
  %2 = mpc.reciprocal %1 : !sums
  %3 = mpc.mul %2, %0 : (!sums, !rows) -> !rows
  return %3 : !rows
}

// CHECK-LABEL: func @log_softmax
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-NEXT: %[[R:.*]] = mpc.log_softmax %[[X]] axis(1)
// CHECK-NEXT: return %[[R]]
func.func @log_softmax(%x: !rows) -> !rows {
  %0 = mpc.reduce_max %x axes([1]) keep_dims : !rows -> !sums
  %1 = mpc.sub %x, %0 : (!rows, !sums) -> !rows
  %2 = mpc.exp %1 : !rows
  %3 = mpc.reduce_sum %2 axes([1]) keep_dims : !rows -> !sums
  %4 = mpc.log %3 : !sums
  %5 = mpc.sub %1, %4 : (!rows, !sums) -> !rows
  return %5 : !rows
}

// CHECK-LABEL: func @log_of_softmax
// CHECK-NEXT: mpc.log_softmax
// CHECK-NEXT: return
func.func @log_of_softmax(%x: !rows) -> !rows {
  %0 = mpc.softmax %x axis(1) : !rows
  %1 = mpc.log %0 : !rows
  return %1 : !rows
}

// A factor of the exponential cancels, and a maximum over more axes is constant
// along this one.
// CHECK-LABEL: func @scaled
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK: %[[R:.*]] = mpc.softmax %[[X]] axis(1)
// CHECK-NEXT: return %[[R]]
func.func @scaled(%x: !rows) -> !rows {
  %t = mpc.constant dense<0.125> : tensor<f32>
  %0 = mpc.reduce_max %x axes([0, 1]) keep_dims : !rows -> tensor<1x1xf32>
  %1 = mpc.sub %x, %0 : (!rows, tensor<1x1xf32>) -> !rows
  %2 = mpc.exp %1 : !rows
  %3 = mpc.mul %2, %t : (!rows, tensor<f32>) -> !rows
  %4 = mpc.reduce_sum %3 axes([1]) keep_dims : !rows -> !sums
  %5 = mpc.div %3, %4 : (!rows, !sums) -> !rows
  return %5 : !rows
}

// A scalar on one side scales the softmax.
// CHECK-LABEL: func @scaled_numerator
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK: %[[F:.*]] = mpc.constant dense<4.000000e+00> : tensor<f32>
// CHECK: %[[R:.*]] = mpc.softmax %[[X]] axis(1)
// CHECK: %[[S:.*]] = mpc.mul %[[R]], %[[F]]
// CHECK-NEXT: return %[[S]]
func.func @scaled_numerator(%x: !rows) -> !rows {
  %two = mpc.constant dense<2.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.exp %x : !rows
  %1 = mpc.mul %0, %two : (!rows, tensor<f32>) -> !rows
  %2 = mpc.reduce_sum %0 axes([1]) keep_dims : !rows -> !sums
  %3 = mpc.mul %2, %half : (!sums, tensor<f32>) -> !sums
  %4 = mpc.div %1, %3 : (!rows, !sums) -> !rows
  return %4 : !rows
}

// A maximum along another axis is an input like any other: it differs along this
// one.
// CHECK-LABEL: func @other_maximum
// CHECK: %[[C:.*]] = mpc.sub
// CHECK: mpc.softmax %[[C]] axis(1)
func.func @other_maximum(%x: !rows) -> !rows {
  %0 = mpc.reduce_max %x axes([0]) keep_dims : !rows -> tensor<1x8xf32>
  %1 = mpc.sub %x, %0 : (!rows, tensor<1x8xf32>) -> !rows
  %2 = mpc.exp %1 : !rows
  %3 = mpc.reduce_sum %2 axes([1]) keep_dims : !rows -> !sums
  %4 = mpc.div %2, %3 : (!rows, !sums) -> !rows
  return %4 : !rows
}

// A factor of 0 leaves 0 / 0.
// CHECK-LABEL: func @keeps_zero_factor
// CHECK-NOT: mpc.softmax
// CHECK: return
func.func @keeps_zero_factor(%x: !rows) -> !rows {
  %t = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.exp %x : !rows
  %1 = mpc.mul %0, %t : (!rows, tensor<f32>) -> !rows
  %2 = mpc.reduce_sum %1 axes([1]) keep_dims : !rows -> !sums
  %3 = mpc.div %1, %2 : (!rows, !sums) -> !rows
  return %3 : !rows
}

// A sum over two axes is no softmax.
// CHECK-LABEL: func @keeps_two_axes
// CHECK: mpc.exp
// CHECK: mpc.div
// CHECK-NOT: mpc.softmax
// CHECK: return
func.func @keeps_two_axes(%x: !rows) -> !rows {
  %0 = mpc.exp %x : !rows
  %1 = mpc.reduce_sum %0 axes([0, 1]) keep_dims : !rows -> tensor<1x1xf32>
  %2 = mpc.div %0, %1 : (!rows, tensor<1x1xf32>) -> !rows
  return %2 : !rows
}

// The sum of another exp is no softmax either.
// CHECK-LABEL: func @keeps_other_sum
// CHECK-NOT: mpc.softmax
// CHECK: return
func.func @keeps_other_sum(%x: !rows, %y: !rows) -> !rows {
  %0 = mpc.exp %x : !rows
  %1 = mpc.exp %y : !rows
  %2 = mpc.reduce_sum %1 axes([1]) keep_dims : !rows -> !sums
  %3 = mpc.div %0, %2 : (!rows, !sums) -> !rows
  return %3 : !rows
}

// LOC: #[[DIV]] = loc("Div"
