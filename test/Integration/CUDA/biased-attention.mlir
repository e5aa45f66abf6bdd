// T5-style attention with a bias per head and distance and a mask that a few ops compute from
// flags: one kernel, which computes the mask as it reads it.

// RUN: mpc explain %s --target cuda:sm_90a --policy mixed_bfloat16 --quiet | FileCheck %s --check-prefix=KERNELS
// RUN: mpc explain %s --target cpu:avx512 --quiet | FileCheck %s --check-prefix=KERNELS
// KERNELS: {{^}}kernel
// KERNELS-NEXT: k_attention
// KERNELS-NOT: {{^}}k_

// RUN: mpc check %s --device cpu | FileCheck %s
// RUN: mpc check %s --device cpu --policy mixed_float16 --quiet | FileCheck %s
// RUN: mpc check %s --device cuda-host | FileCheck %s
// RUN: mpc check %s --device cuda-host --policy mixed_bfloat16 --quiet | FileCheck %s
// CHECK: all checks held

func.func @main(%q: tensor<2x3x8x16xf32> {mpc.role = #mpc.role<input>, mpc.name = "q"}, %k: tensor<2x3x16x16xf32> {mpc.role = #mpc.role<input>, mpc.name = "k"}, %v: tensor<2x3x16x16xf32> {mpc.role = #mpc.role<input>, mpc.name = "v"}, %bias: tensor<1x3x8x16xf32> {mpc.role = #mpc.role<input>, mpc.name = "bias"}, %kept: tensor<2x16xi64> {mpc.role = #mpc.role<input>, mpc.name = "kept"}) -> (tensor<2x3x8x16xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %one = mpc.constant dense<1.0> : tensor<f32>
  %zero = mpc.constant dense<0> : tensor<i64>
  %fill = mpc.constant dense<-1.0e9> : tensor<f32>
  %flag = mpc.compare ne %kept, %zero : (tensor<2x16xi64>, tensor<i64>) -> tensor<2x16xi1>
  %share = mpc.cast %flag : tensor<2x16xi1> to tensor<2x16xf32>
  %row = mpc.reshape %share : tensor<2x16xf32> to tensor<2x1x1x16xf32>
  %drop = mpc.sub %one, %row : (tensor<f32>, tensor<2x1x1x16xf32>) -> tensor<2x1x1x16xf32>
  %mask = mpc.mul %drop, %fill : (tensor<2x1x1x16xf32>, tensor<f32>) -> tensor<2x1x1x16xf32>
  %0 = mpc.matmul %q, %k transpose_rhs : (tensor<2x3x8x16xf32>, tensor<2x3x16x16xf32>) -> tensor<2x3x8x16xf32>
  %1 = mpc.add %0, %bias : (tensor<2x3x8x16xf32>, tensor<1x3x8x16xf32>) -> tensor<2x3x8x16xf32>
  %2 = mpc.add %1, %mask : (tensor<2x3x8x16xf32>, tensor<2x1x1x16xf32>) -> tensor<2x3x8x16xf32>
  %3 = mpc.softmax %2 axis(3) : tensor<2x3x8x16xf32>
  %4 = mpc.matmul %3, %v : (tensor<2x3x8x16xf32>, tensor<2x3x16x16xf32>) -> tensor<2x3x8x16xf32>
  return %4 : tensor<2x3x8x16xf32>
}
