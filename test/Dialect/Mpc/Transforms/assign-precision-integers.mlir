// Integers stored in floats are neither parameters nor outputs to be rounded: positions and
// tables of integers are unchanged, weights are not.
// RUN: mpc-opt %s --mpc-assign-precision="policy=%S/Inputs/narrow-variables.json" | FileCheck %s

// CHECK-LABEL: func.func @positions
// CHECK: mpc.constant dense<[0.000000e+00, 2.570000e+02, 5.140000e+02, 7.710000e+02]> : tensor<4xf32>
// CHECK-NOT: bf16
// CHECK: mpc.sub
func.func @positions(%p: tensor<4xf32>) -> tensor<4xf32> {
  %t = mpc.constant dense<[0.0, 257.0, 514.0, 771.0]> : tensor<4xf32>
  %0 = mpc.sub %p, %t : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @table
// CHECK: %[[T:.*]] = mpc.constant dense<[3.000000e+00, 1.001000e+03, 2.570000e+02]> : tensor<3xf32>
// CHECK: mpc.gather %[[T]]
func.func @table(%i: tensor<5xi64>, %x: tensor<5xf32>) -> tensor<5xf32> {
  %t = mpc.constant dense<[3.0, 1001.0, 257.0]> : tensor<3xf32>
  %0 = mpc.gather %t, %i axis(0) : (tensor<3xf32>, tensor<5xi64>) -> tensor<5xf32>
  %1 = mpc.sub %x, %0 : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  return %1 : tensor<5xf32>
}
// CHECK-LABEL: func.func @counts
// CHECK: %[[N:.*]] = mpc.cast %{{.*}} : tensor<4xi64> to tensor<4xf32>
// CHECK: return %[[N]] : tensor<4xf32>
func.func @counts(%n: tensor<4xi64>) -> tensor<4xf32> {
  %0 = mpc.cast %n : tensor<4xi64> to tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @weights
// CHECK: mpc.constant dense<[2.560000e+02, 3.007810e-01]> : tensor<2xbf16>
func.func @weights(%p: tensor<2xf32>) -> tensor<2xf32> {
  %w = mpc.constant dense<[257.0, 0.3]> : tensor<2xf32>
  %0 = mpc.mul %p, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
