// RUN: mpc-opt %s --split-input-file --mpc-outline-fusions | FileCheck %s
// RUN: mpc-opt %s --split-input-file --mpc-outline-fusions > %t.once
// RUN: mpc-opt %s --split-input-file --mpc-outline-fusions --mpc-outline-fusions | diff %t.once -

// CHECK-LABEL: func.func @dense
func.func @dense(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<16xf32> {
  // CHECK: %[[F:.*]] = mpc.fusion kind(contraction) name("matmul") (%{{.*}}: tensor<4x4xf32>, %{{.*}}: tensor<4x4xf32>)
  // CHECK: mpc.matmul
  // CHECK-NOT: mpc.group
  // CHECK: mpc.constant dense<2.000000e+00>
  // CHECK: mpc.mul
  // CHECK: mpc.yield
  // CHECK: mpc.reshape %[[F]]
  %two = mpc.constant dense<2.0> : tensor<f32>
  %0 = mpc.matmul %x, %w {mpc.anchor = #mpc<fusion_kind contraction>, mpc.group = 3 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.mul %0, %two {mpc.group = 3 : i64} : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %2 = mpc.reshape %1 : tensor<4x4xf32> to tensor<16xf32>
  return %2 : tensor<16xf32>
}

// -----

// Two fusions that compute the same are one.
// CHECK-LABEL: func.func @equal
func.func @equal(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  // CHECK-COUNT-1: mpc.fusion kind(transpose)
  // CHECK-NOT: mpc.fusion
  %0 = mpc.transpose %x [1, 0] {mpc.group = 0 : i64} : tensor<4x4xf32> to tensor<4x4xf32>
  %1 = mpc.transpose %x [1, 0] {mpc.group = 1 : i64} : tensor<4x4xf32> to tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// A function that contains fusions already is unchanged.
// CHECK-LABEL: func.func @fused
func.func @fused(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: mpc.fusion kind(elementwise) name("exp")
  %0 = mpc.fusion kind(elementwise) name("exp") (%a = %x: tensor<4xf32>) -> tensor<4xf32> {
    %1 = mpc.exp %a : tensor<4xf32>
    mpc.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// Both concats are views until the two fusions of one value are merged: the
// value can be stored in only one of them, the other one is a kernel.
// CHECK-LABEL: func.func @lost_view
func.func @lost_view(%x: tensor<16xf32>, %y: tensor<16xf32>) -> (tensor<32xf32>, tensor<32xf32>) {
  // CHECK: %[[Y:.*]] = mpc.fusion kind(elementwise) name("exp")
  // CHECK: %[[Z:.*]] = mpc.fusion kind(elementwise) name("tanh")
  // CHECK: %[[X:.*]] = mpc.fusion kind(elementwise) name("neg")
  // CHECK: %[[FIRST:.*]] = mpc.concat %[[Y]], %[[X]] axis(0)
  // CHECK: %[[SECOND:.*]] = mpc.fusion kind(elementwise) name("concat") (%{{.*}} = %[[Z]] : tensor<16xf32>, %{{.*}} = %[[X]] : tensor<16xf32>)
  // CHECK-NEXT: mpc.concat
  // CHECK: return %[[FIRST]], %[[SECOND]]
  %0 = mpc.exp %y {mpc.group = 0 : i64} : tensor<16xf32>
  %1 = mpc.tanh %y {mpc.group = 1 : i64} : tensor<16xf32>
  %2 = mpc.neg %x {mpc.group = 2 : i64} : tensor<16xf32>
  %3 = mpc.neg %x {mpc.group = 3 : i64} : tensor<16xf32>
  %4 = mpc.concat %0, %2 axis(0) : (tensor<16xf32>, tensor<16xf32>) -> tensor<32xf32>
  %5 = mpc.concat %1, %3 axis(0) : (tensor<16xf32>, tensor<16xf32>) -> tensor<32xf32>
  return %4, %5 : tensor<32xf32>, tensor<32xf32>
}
