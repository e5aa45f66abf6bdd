// RUN: mpc-opt %s --split-input-file --mpc-form-fusions | FileCheck %s
// RUN: mpc-opt %s --split-input-file --mpc-form-fusions > %t.once
// RUN: mpc-opt %s --split-input-file --mpc-form-fusions --mpc-form-fusions | diff %t.once -

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

// A function that holds fusions already stays as it is.
// CHECK-LABEL: func.func @fused
func.func @fused(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: mpc.fusion kind(elementwise) name("exp")
  %0 = mpc.fusion kind(elementwise) name("exp") (%a = %x: tensor<4xf32>) -> tensor<4xf32> {
    %1 = mpc.exp %a : tensor<4xf32>
    mpc.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
