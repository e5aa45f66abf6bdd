// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_bfloat16 | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=float16 | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision="policy=float16 set=op:cos=float16" | FileCheck %s --check-prefix=SET

// Rotary positions: the angles, and the table of both halves, which would save
// memory in 16 bits. Position 1,000 in bf16 is off by up to two.
// CHECK-LABEL: func.func @rotary(
// CHECK: mpc.mul {{.*}} -> tensor<1x4096x32xf32>
// CHECK: mpc.concat {{.*}}"an angle that grows with the position"{{.*}} -> tensor<1x4096x64xf32>
// CHECK: mpc.cos {{.*}} : tensor<1x4096x64xf32>
// SET-LABEL: func.func @rotary(
// SET: mpc.cos {{.*}} : tensor<1x4096x64xf16>
func.func @rotary(%positions: tensor<1x4096x1xi64>) -> tensor<1x4096x64xf32> {
  %rates = mpc.constant dense<0.7> : tensor<1x1x32xf32>
  %p = mpc.cast %positions : tensor<1x4096x1xi64> to tensor<1x4096x1xf32>
  %a = mpc.mul %p, %rates : (tensor<1x4096x1xf32>, tensor<1x1x32xf32>) -> tensor<1x4096x32xf32>
  %b = mpc.concat %a, %a axis(2) : (tensor<1x4096x32xf32>, tensor<1x4096x32xf32>) -> tensor<1x4096x64xf32>
  %c = mpc.cos %b : tensor<1x4096x64xf32>
  return %c : tensor<1x4096x64xf32>
}

// As an outer product, which is a contraction of one step.
// CHECK-LABEL: func.func @outer(
// CHECK: mpc.matmul {{.*}} -> tensor<1x32x4096xf32>
// CHECK: mpc.sin {{.*}} : tensor<1x32x4096xf32>
func.func @outer(%positions: tensor<1x1x4096xf32>) -> tensor<1x32x4096xf32> {
  %rates = mpc.constant dense<0.7> : tensor<1x32x1xf32>
  %a = mpc.matmul %rates, %positions : (tensor<1x32x1xf32>, tensor<1x1x4096xf32>) -> tensor<1x32x4096xf32>
  %s = mpc.sin %a : tensor<1x32x4096xf32>
  return %s : tensor<1x32x4096xf32>
}

// Values that a layer computes follow the policy.
// CHECK-LABEL: func.func @layer(
// CHECK-NOT: an angle that grows
func.func @layer(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %a = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = mpc.add %a, %a : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = mpc.sin %b : tensor<64x64xf32>
  return %s : tensor<64x64xf32>
}
