// RUN: mpc-translate --import-stablehlo %s | FileCheck %s
// RUN: mpc-translate --import-stablehlo %s | mpc-opt --verify-roundtrip -o /dev/null

// JAX's decompositions become the op that an ONNX model has: a relu from a call,
// an implicitly broadcast bias, a mean, a kept axis, a cumulative sum.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[W:arg0]]: tensor<8x4xf32> {mpc.name = "arg0", mpc.role = #mpc.role<input>}
// CHECK-SAME: %[[B:arg1]]: tensor<4xf32>
// CHECK-SAME: %[[X:arg2]]: tensor<3x8xf32>
// CHECK-SAME: %[[I:arg3]]: tensor<5xi32>
// CHECK-SAME: tensor<4xf32> {mpc.alias = 1 : i64, mpc.name = "out0", mpc.role = #mpc.role<output>}
module @jit_model attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%w: tensor<8x4xf32>, %b: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %x: tensor<3x8xf32>, %i: tensor<5xi32>)
      -> (tensor<4xf32> {jax.result_info = "result[0]"}, tensor<3x4xf32>, tensor<3x1xf32>, tensor<5x8xf32>, tensor<3x8xf32>, tensor<3xi32>) {
    // CHECK: %[[DOT:.*]] = mpc.matmul %[[X]], %[[W]] : (tensor<3x8xf32>, tensor<8x4xf32>) -> tensor<3x4xf32>
    // CHECK: %[[BIAS:.*]] = mpc.reshape %[[B]] : tensor<4xf32> to tensor<1x4xf32>
    // CHECK: %[[SUM:.*]] = mpc.add %[[DOT]], %[[BIAS]] : (tensor<3x4xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
    // CHECK: %[[RELU:.*]] = mpc.relu %[[SUM]]
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x8xf32>, tensor<8x4xf32>) -> tensor<3x4xf32>
    %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<3x4xf32>
    %3 = stablehlo.add %0, %2 : tensor<3x4xf32>
    %4 = call @relu(%3) : (tensor<3x4xf32>) -> tensor<3x4xf32>

    // CHECK: %[[SUMS:.*]] = mpc.reduce_mean %[[X]] axes([1]) : tensor<3x8xf32> -> tensor<3xf32>
    // CHECK: %[[MEAN:.*]] = mpc.reshape %[[SUMS]] : tensor<3xf32> to tensor<3x1xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.reduce(%x init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<3x8xf32>, tensor<f32>) -> tensor<3xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<3xf32>) -> tensor<3x1xf32>
    %cst_0 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x1xf32>
    %8 = stablehlo.divide %6, %7 : tensor<3x1xf32>

    // mpc.gather supports negative indices itself.
    // CHECK: %[[TAKEN:.*]] = mpc.gather %[[X]], %[[I]] axis(0) : (tensor<3x8xf32>, tensor<5xi32>) -> tensor<5x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %9 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %10 = stablehlo.compare LT, %i, %9, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
    %c_1 = stablehlo.constant dense<3> : tensor<i32>
    %11 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %12 = stablehlo.add %i, %11 : tensor<5xi32>
    %13 = stablehlo.select %10, %12, %i : tensor<5xi1>, tensor<5xi32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0] : (tensor<5xi32>) -> tensor<5x1xi32>
    %15 = "stablehlo.gather"(%x, %14) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 8>}> : (tensor<3x8xf32>, tensor<5x1xi32>) -> tensor<5x8xf32>

    // CHECK: %[[RUNNING:.*]] = mpc.cumsum %[[X]] axis(1) : tensor<3x8xf32>
    %16 = "stablehlo.reduce_window"(%x, %cst) <{padding = dense<[[0, 0], [7, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 8>}> ({
    ^bb0(%a: tensor<f32>, %d: tensor<f32>):
      %m = stablehlo.add %a, %d : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>

    // CHECK: %[[PLACE:.*]] = mpc.argmax %[[X]] axis(1)
    // CHECK: %[[SHORT:.*]] = mpc.cast %[[PLACE]] : tensor<3xi64> to tensor<3xi32>
    %17 = call @argmax(%x) : (tensor<3x8xf32>) -> tensor<3xi32>
    // CHECK: return %[[B]], %[[RELU]], %[[MEAN]], %[[TAKEN]], %[[RUNNING]], %[[SHORT]]
    return %b, %4, %8, %15, %16, %17 : tensor<4xf32>, tensor<3x4xf32>, tensor<3x1xf32>, tensor<5x8xf32>, tensor<3x8xf32>, tensor<3xi32>
  }
  func.func private @relu(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x4xf32>
    %1 = stablehlo.maximum %x, %0 : tensor<3x4xf32>
    return %1 : tensor<3x4xf32>
  }
  func.func private @argmax(%x: tensor<3x8xf32>) -> tensor<3xi32> {
    %0 = stablehlo.iota dim = 1 : tensor<3x8xi32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.reduce(%x init: %cst), (%0 init: %c) across dimensions = [1] : (tensor<3x8xf32>, tensor<3x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
     reducer(%a: tensor<f32>, %d: tensor<f32>) (%b: tensor<i32>, %e: tensor<i32>) {
      %2 = stablehlo.compare GT, %a, %d, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %a, %d, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.compare LT, %b, %e, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %a, %d : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %b, %e : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
    }
    return %1#1 : tensor<3xi32>
  }
}
