// RUN: mpc-opt %s --split-input-file --mpc-group-ops=target=cuda:sm_80 | FileCheck %s
// RUN: mpc-opt %s --split-input-file --mpc-group-ops=target=cuda:sm_80 > %t.once
// RUN: mpc-opt %s --split-input-file --mpc-group-ops=target=cuda:sm_80 --mpc-group-ops=target=cuda:sm_80 | diff %t.once -

// A product takes what follows it; the softmax is a kernel of its own.
// CHECK-LABEL: func.func @epilogue
func.func @epilogue(%x: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<4x4xf32> {
  // CHECK: mpc.matmul {{.*}} {mpc.anchor = #mpc<fusion_kind contraction>, mpc.group = [[G:[0-9]+]] : i64}
  // CHECK-NEXT: mpc.add {{.*}} {mpc.group = [[G]] : i64}
  // CHECK-NEXT: mpc.relu {{.*}} {mpc.group = [[G]] : i64}
  // CHECK-NEXT: mpc.softmax {{.*}} {mpc.anchor = #mpc<fusion_kind row>, mpc.group = {{[0-9]+}} : i64}
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.add %0, %b : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %2 = mpc.relu %1 : tensor<4x4xf32>
  %3 = mpc.softmax %2 axis(1) : tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

// -----

// Constants and views are in no group, loops have no anchor.
// CHECK-LABEL: func.func @loose
func.func @loose(%x: tensor<4x4xf32>) -> tensor<16xf32> {
  // CHECK: mpc.constant dense<2.000000e+00> : tensor<f32>
  // CHECK-NEXT: mpc.mul %{{.*}}, %{{.*}} {mpc.group = 0 : i64}
  // CHECK-NEXT: mpc.reshape %{{.*}} : tensor<4x4xf32> to tensor<16xf32>
  %two = mpc.constant dense<2.0> : tensor<f32>
  %0 = mpc.mul %x, %two : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %1 = mpc.reshape %0 : tensor<4x4xf32> to tensor<16xf32>
  return %1 : tensor<16xf32>
}

// -----

// A kernel that stores through movement has another shape than its anchor.
// CHECK-LABEL: func.func @stores
func.func @stores(%x: tensor<2x64x64xf32>) -> tensor<64x2x64xf32> {
  // CHECK: mpc.matmul {{.*}}mpc.group = [[G:[0-9]+]] : i64, mpc.group_shape = array<i64: 64, 2, 64>
  // CHECK-NEXT: mpc.transpose {{.*}}{mpc.group = [[G]] : i64}
  %0 = mpc.matmul %x, %x : (tensor<2x64x64xf32>, tensor<2x64x64xf32>) -> tensor<2x64x64xf32>
  %1 = mpc.transpose %0 [1, 0, 2] : tensor<2x64x64xf32> to tensor<64x2x64xf32>
  return %1 : tensor<64x2x64xf32>
}

// -----

// New values of the state are one kernel, whatever their shapes.
// CHECK-LABEL: func.func @updates
func.func @updates(%a: tensor<4xf32>, %b: tensor<8xf32>, %ga: tensor<4xf32>, %gb: tensor<8xf32>)
    -> (tensor<4xf32> {mpc.alias = 0 : i64}, tensor<8xf32> {mpc.alias = 1 : i64}) {
  // CHECK: mpc.sub {{.*}} {mpc.group = [[G:[0-9]+]] : i64, mpc.joint = #mpc<fusion_kind update>}
  // CHECK-NEXT: mpc.sub {{.*}} {mpc.group = [[G]] : i64}
  %0 = mpc.sub %a, %ga : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = mpc.sub %b, %gb : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<4xf32>, tensor<8xf32>
}
