// RUN: mpc-translate --import-stablehlo %s | FileCheck %s

// JAX's forms of a logistic, a GELU by erfc, a softplus and attention become ops
// that the ONNX importer creates, or that later passes recognize.

func.func public @main(%x: tensor<4x6xf32>, %q: tensor<2x24x4x16xf32>, %p: tensor<2x4x24x24xf32>)
    -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<2x24x4x16xf32>, tensor<4x6xf32>) {
  // CHECK: %[[SILU:.*]] = mpc.silu %[[X:arg0]]
  %one = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %0 = stablehlo.negate %x : tensor<4x6xf32>
  %1 = stablehlo.exponential %0 : tensor<4x6xf32>
  %2 = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
  %3 = stablehlo.add %2, %1 : tensor<4x6xf32>
  %4 = stablehlo.divide %2, %3 : tensor<4x6xf32>
  %5 = stablehlo.multiply %x, %4 : tensor<4x6xf32>

  // CHECK: %[[ROOT:.*]] = mpc.constant dense<0.707106769>
  // CHECK: %[[SCALED:.*]] = mpc.mul %[[X]], %[[ROOT]]
  // CHECK: %[[ERF:.*]] = mpc.erf %[[SCALED]]
  // CHECK: %[[GELU:.*]] = mpc.add %[[ERF]]
  %cst = stablehlo.constant dense<0.707106769> : tensor<f32>
  %6 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
  %7 = stablehlo.multiply %0, %6 : tensor<4x6xf32>
  %8 = chlo.erfc %7 : tensor<4x6xf32> -> tensor<4x6xf32>

  // CHECK: %[[SOFTPLUS:.*]] = mpc.softplus %[[X]]
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %9 = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
  %10 = stablehlo.maximum %x, %9 : tensor<4x6xf32>
  %11 = stablehlo.subtract %x, %9 : tensor<4x6xf32>
  %12 = stablehlo.compare NE, %11, %11, FLOAT : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
  %13 = stablehlo.add %x, %9 : tensor<4x6xf32>
  %14 = stablehlo.abs %11 : tensor<4x6xf32>
  %15 = stablehlo.negate %14 : tensor<4x6xf32>
  %16 = stablehlo.exponential %15 : tensor<4x6xf32>
  %17 = stablehlo.log_plus_one %16 : tensor<4x6xf32>
  %18 = stablehlo.add %10, %17 : tensor<4x6xf32>
  %19 = stablehlo.select %12, %13, %18 : tensor<4x6xi1>, tensor<4x6xf32>

  // The weights are the left operand again.
  // CHECK: %[[V:.*]] = mpc.transpose %arg1 [0, 2, 1, 3]
  // CHECK: %[[SUM:.*]] = mpc.matmul %arg2, %[[V]] :
  // CHECK: mpc.transpose %[[SUM]] [0, 2, 1, 3]
  %20 = stablehlo.dot_general %q, %p, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x24x4x16xf32>, tensor<2x4x24x24xf32>) -> tensor<2x4x16x24xf32>
  %21 = stablehlo.transpose %20, dims = [0, 3, 1, 2] : (tensor<2x4x16x24xf32>) -> tensor<2x24x4x16xf32>

  // Differences of constants are folded.
  // CHECK-NOT: mpc.select
  // CHECK: return %[[SILU]], %[[GELU]], %[[SOFTPLUS]], %{{.*}}, %[[X]]
  %c = stablehlo.constant dense<0> : tensor<i32>
  %22 = stablehlo.convert %c : (tensor<i32>) -> tensor<f32>
  %n = stablehlo.constant dense<6.000000e+00> : tensor<f32>
  %23 = stablehlo.subtract %n, %22 : tensor<f32>
  %24 = stablehlo.compare GT, %23, %zero, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %25 = stablehlo.select %24, %x, %9 : tensor<i1>, tensor<4x6xf32>
  return %5, %8, %19, %21, %25 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<2x24x4x16xf32>, tensor<4x6xf32>
}
