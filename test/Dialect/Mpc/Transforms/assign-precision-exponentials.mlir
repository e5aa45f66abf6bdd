// RUN: mpc-opt %s --mpc-assign-precision=policy=float16 | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision="policy=float16 set=op:exp=float16" | FileCheck %s --check-prefix=SET

// A decomposed softmax that no pattern recognizes: an epsilon in the sum, a
// mask that differs along the axis. exp(12) is infinite in f16.
// CHECK-LABEL: func.func @masked(
// CHECK: mpc.sub {{.*}}"part of a decomposed softmax"{{.*}} -> tensor<64x64xf32>
// CHECK: mpc.exp {{.*}} : tensor<64x64xf32>
// CHECK: mpc.mul {{.*}} -> tensor<64x64xf32>
// CHECK: mpc.reduce_sum {{.*}} -> tensor<64x1xf32>
// CHECK: mpc.add {{.*}} -> tensor<64x1xf32>
// CHECK: mpc.div {{.*}} -> tensor<64x64xf32>
// CHECK: mpc.relu {{.*}} : tensor<64x64xf16>
// SET-LABEL: func.func @masked(
// SET: mpc.exp {{.*}} : tensor<64x64xf16>
func.func @masked(%x: tensor<64x64xf32>, %mask: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %eps = mpc.constant dense<1.0e-6> : tensor<f32>
  %m = mpc.reduce_max %x axes([1]) keep_dims : tensor<64x64xf32> -> tensor<64x1xf32>
  %c = mpc.sub %x, %m : (tensor<64x64xf32>, tensor<64x1xf32>) -> tensor<64x64xf32>
  %e = mpc.exp %c : tensor<64x64xf32>
  %k = mpc.mul %e, %mask : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = mpc.reduce_sum %k axes([1]) keep_dims : tensor<64x64xf32> -> tensor<64x1xf32>
  %t = mpc.add %s, %eps : (tensor<64x1xf32>, tensor<f32>) -> tensor<64x1xf32>
  %y = mpc.div %k, %t : (tensor<64x64xf32>, tensor<64x1xf32>) -> tensor<64x64xf32>
  %r = mpc.relu %y : tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}

// logsumexp, over two axes.
// CHECK-LABEL: func.func @logarithm(
// CHECK: mpc.exp {{.*}} : tensor<64x64xf32>
// CHECK: mpc.log {{.*}} : tensor<1x1xf32>
// CHECK: mpc.sub {{.*}} -> tensor<64x64xf32>
func.func @logarithm(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %e = mpc.exp %x : tensor<64x64xf32>
  %s = mpc.reduce_sum %e axes([0, 1]) keep_dims : tensor<64x64xf32> -> tensor<1x1xf32>
  %l = mpc.log %s : tensor<1x1xf32>
  %y = mpc.sub %x, %l : (tensor<64x64xf32>, tensor<1x1xf32>) -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}

// An exponential whose sum is not a divisor follows the policy.
// CHECK-LABEL: func.func @sum(
// CHECK: mpc.exp {{.*}} : tensor<64x64xf16>
func.func @sum(%x: tensor<64x64xf32>) -> tensor<64xf32> {
  %e = mpc.exp %x : tensor<64x64xf32>
  %s = mpc.reduce_sum %e axes([1]) : tensor<64x64xf32> -> tensor<64xf32>
  return %s : tensor<64xf32>
}
