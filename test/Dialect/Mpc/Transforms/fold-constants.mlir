// RUN: mpc-opt %s --mpc-fold-constants | FileCheck %s
// RUN: mpc-opt %s --mpc-fold-constants | mpc-opt --mpc-fold-constants | FileCheck %s

// A transposed weight becomes a constant; its old form is erased.
// CHECK-LABEL: func @transposed_weight
// CHECK-NEXT: mpc.constant dense<{{\[\[}}1.000000e+00, 4.000000e+00], [2.000000e+00, 5.000000e+00], [3.000000e+00, 6.000000e+00]]> : tensor<3x2xf32>
// CHECK-NEXT: return
func.func @transposed_weight() -> tensor<3x2xf32> {
  %w = mpc.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %0 = mpc.transpose %w [1, 0] : tensor<2x3xf32> to tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// A chain is evaluated in one traversal.
// CHECK-LABEL: func @chain
// CHECK-NEXT: mpc.constant dense<[9.000000e+00, 1.600000e+01]> : tensor<2xf32>
// CHECK-NEXT: return
func.func @chain() -> tensor<2xf32> {
  %a = mpc.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = mpc.constant dense<2.0> : tensor<f32>
  %0 = mpc.add %a, %b : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %1 = mpc.mul %0, %0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// Each op rounds once to its type: 1 + 2^-24 is 1 in f32, so the difference is 0.
// CHECK-LABEL: func @rounds_each_op
// CHECK-NEXT: mpc.constant dense<0.000000e+00> : tensor<f32>
func.func @rounds_each_op() -> tensor<f32> {
  %one = mpc.constant dense<1.0> : tensor<f32>
  %tiny = mpc.constant dense<5.9604644775390625e-08> : tensor<f32>
  %0 = mpc.add %one, %tiny : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = mpc.sub %0, %one : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// A pinned cast is executed, with its rounding.
// CHECK-LABEL: func @pinned_cast
// CHECK-NEXT: mpc.constant dense<0.333251953> : tensor<f32>
func.func @pinned_cast() -> tensor<f32> {
  %third = mpc.constant dense<0.333333343> : tensor<f32>
  %0 = mpc.cast %third pinned : tensor<f32> to tensor<f16>
  %1 = mpc.cast %0 pinned : tensor<f16> to tensor<f32>
  return %1 : tensor<f32>
}

// Every result of an op with two is folded.
// CHECK-LABEL: func @two_results
// CHECK-DAG: mpc.constant dense<[5.000000e+00, 3.000000e+00]> : tensor<2xf32>
// CHECK-DAG: mpc.constant dense<[1, 2]> : tensor<2xi64>
// CHECK-NOT: mpc.top_k
// CHECK: return
func.func @two_results() -> (tensor<2xf32>, tensor<2xi64>) {
  %a = mpc.constant dense<[1.0, 5.0, 3.0]> : tensor<3xf32>
  %v, %i = mpc.top_k %a k(2) axis(0) : tensor<3xf32> -> tensor<2xf32>, tensor<2xi64>
  return %v, %i : tensor<2xf32>, tensor<2xi64>
}

// An op with a live operand stays, and so does its constant.
// CHECK-LABEL: func @live_operand
// CHECK: mpc.constant
// CHECK-NEXT: mpc.add
func.func @live_operand(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = mpc.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = mpc.add %x, %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// A lone iota stays; ops on iota and constants are folded.
// CHECK-LABEL: func @iota
// CHECK-NOT: mpc.add
// CHECK: mpc.iota
// CHECK: mpc.constant dense<[1, 2, 3]> : tensor<3xi64>
func.func @iota() -> (tensor<3xi64>, tensor<3xi64>) {
  %0 = mpc.iota axis(0) : tensor<3xi64>
  %one = mpc.constant dense<1> : tensor<i64>
  %1 = mpc.add %0, %one : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  return %0, %1 : tensor<3xi64>, tensor<3xi64>
}
