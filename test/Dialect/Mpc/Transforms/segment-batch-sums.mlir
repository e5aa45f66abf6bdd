// RUN: mpc-opt %s --mpc-segment-batch-sums=segments=2 | FileCheck %s
// RUN: mpc-opt %s --mpc-segment-batch-sums=segments=8 | FileCheck %s --check-prefix=REST

// Matmuls and sums over the batch are split into segments of three examples.
// CHECK-LABEL: func.func @dense
// REST-LABEL: func.func @dense
// REST-NOT: mpc.slice
func.func @dense(%x: tensor<6x5xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                 %w: tensor<5x4xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"})
    -> (tensor<5x4xf32>, tensor<4xf32>, tensor<6xf32>) {
  %y = mpc.matmul %x, %w : (tensor<6x5xf32>, tensor<5x4xf32>) -> tensor<6x4xf32>
  // CHECK: [[X:%.*]] = mpc.reshape %arg0 : tensor<6x5xf32> to tensor<2x3x5xf32>
  // CHECK: [[Y:%.*]] = mpc.reshape {{.*}} : tensor<6x4xf32> to tensor<2x3x4xf32>
  // CHECK: [[P:%.*]] = mpc.matmul [[X]], [[Y]] transpose_lhs : (tensor<2x3x5xf32>, tensor<2x3x4xf32>) -> tensor<2x5x4xf32>
  // CHECK: mpc.slice [[P]] [0, 0, 0] [1, 5, 4]
  // CHECK: mpc.slice [[P]] [1, 0, 0] [1, 5, 4]
  // CHECK: mpc.add {{.*}} -> tensor<5x4xf32>
  %g = mpc.matmul %x, %y transpose_lhs : (tensor<6x5xf32>, tensor<6x4xf32>) -> tensor<5x4xf32>
  // CHECK: mpc.reduce_sum {{.*}} axes([1]) : tensor<2x3x4xf32> -> tensor<2x4xf32>
  // CHECK: mpc.add {{.*}} -> tensor<4xf32>
  %b = mpc.reduce_sum %y axes([0]) : tensor<6x4xf32> -> tensor<4xf32>
  // A sum over one example's elements is left.
  // CHECK: mpc.reduce_sum {{.*}} axes([1]) : tensor<6x4xf32> -> tensor<6xf32>
  %e = mpc.reduce_sum %y axes([1]) : tensor<6x4xf32> -> tensor<6xf32>
  return %g, %b, %e : tensor<5x4xf32>, tensor<4xf32>, tensor<6xf32>
}

// Filter gradients and scatters have one op per segment; rows are flattened
// with another dimension.
// CHECK-LABEL: func.func @parts
func.func @parts(%x: tensor<2x1x4x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                 %d: tensor<2x3x4x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "d"},
                 %i: tensor<2x5xi64> {mpc.role = #mpc.role<input>, mpc.name = "i"},
                 %u: tensor<2x5x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "u"})
    -> (tensor<3x1x1x1xf32>, tensor<7x3xf32>) {
  // CHECK-COUNT-2: mpc.conv_filter_gradient {{.*}} : (tensor<1x1x4x4xf32>, tensor<1x3x4x4xf32>)
  // CHECK: mpc.add
  %g = mpc.conv_filter_gradient %x, %d strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<2x1x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<3x1x1x1xf32>
  %table = mpc.constant dense<0.0> : tensor<7x3xf32>
  %tuples = mpc.reshape %i : tensor<2x5xi64> to tensor<10x1xi64>
  %rows = mpc.reshape %u : tensor<2x5x3xf32> to tensor<10x3xf32>
  // CHECK-COUNT-2: mpc.scatter_nd {{.*}}tensor<5x1xi64>, tensor<5x3xf32>
  // CHECK: mpc.add
  %s = mpc.scatter_nd %table, %tuples, %rows reduction(add) : (tensor<7x3xf32>, tensor<10x1xi64>, tensor<10x3xf32>) -> tensor<7x3xf32>
  return %g, %s : tensor<3x1x1x1xf32>, tensor<7x3xf32>
}
