// RUN: mpc-translate --import-stablehlo --split-input-file %s | FileCheck %s

// JAX's index arithmetic for `x[i]`, so that a negative index counts from the
// end, is redundant for the gather and for the mask of out-of-range indices.

// CHECK: func.func @main(%[[X:.*]]: tensor<7x4xf32> {{.*}}, %[[I:.*]]: tensor<3xi32>
// CHECK-DAG: %[[GE:.*]] = mpc.compare ge %[[I]], %{{.*}}
// CHECK-DAG: %[[LE:.*]] = mpc.compare le %[[I]], %{{.*}}
// CHECK: mpc.and %[[GE]], %[[LE]]
// CHECK: mpc.gather %[[X]], %[[I]] axis(0)
func.func public @main(%x: tensor<7x4xf32>, %i: tensor<3xi32>) -> (tensor<3x4xf32>, tensor<3xi1>) {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %zero = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3xi32>
  %c_0 = stablehlo.constant dense<7> : tensor<i32>
  %extent = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<3xi32>
  %c_1 = stablehlo.constant dense<6> : tensor<i32>
  %last = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<3xi32>
  %negative = stablehlo.compare LT, %i, %zero, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
  %added = stablehlo.add %i, %extent : tensor<3xi32>
  %index = stablehlo.select %negative, %added, %i : tensor<3xi1>, tensor<3xi32>
  %ge = stablehlo.compare GE, %index, %zero, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
  %le = stablehlo.compare LE, %index, %last, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
  %inside = stablehlo.and %ge, %le : tensor<3xi1>
  %starts = stablehlo.reshape %index : (tensor<3xi32>) -> tensor<3x1xi32>
  %rows = "stablehlo.gather"(%x, %starts) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<7x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
  return %rows, %inside : tensor<3x4xf32>, tensor<3xi1>
}

// -----

// One index for all rows: the select broadcasts it.

// CHECK: func.func @main(%[[X:.*]]: tensor<7x4xf32> {{.*}}, %[[I:.*]]: tensor<i32>
// CHECK: %[[ALL:.*]] = mpc.broadcast %[[I]] {{.*}}tensor<3xi32>
// CHECK: mpc.compare ge %{{.*}} : (tensor<3x1xi32>
// CHECK: mpc.gather %[[X]]
func.func public @main(%x: tensor<7x4xf32>, %i: tensor<i32>) -> (tensor<3x4xf32>, tensor<3x1xi1>) {
  %all = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<i32>) -> tensor<3xi32>
  %zero = stablehlo.constant dense<0> : tensor<3xi32>
  %extent = stablehlo.constant dense<7> : tensor<3xi32>
  %negative = stablehlo.compare LT, %all, %zero, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
  %added = stablehlo.add %all, %extent : tensor<3xi32>
  %index = stablehlo.select %negative, %added, %all : tensor<3xi1>, tensor<3xi32>
  %starts = stablehlo.reshape %index : (tensor<3xi32>) -> tensor<3x1xi32>
  %zeros = stablehlo.constant dense<0> : tensor<3x1xi32>
  %ge = stablehlo.compare GE, %starts, %zeros, SIGNED : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi1>
  %rows = "stablehlo.gather"(%x, %starts) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<7x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
  return %rows, %ge : tensor<3x4xf32>, tensor<3x1xi1>
}
