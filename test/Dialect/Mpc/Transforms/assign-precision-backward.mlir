// Overrides for the backward pass only: ops that depend on the seed of a loss, up to the
// division by it.
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=backward:first=bfloat16" | FileCheck %s --check-prefixes=CHECK,BF16
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=backward:op:matmul=bfloat16" | FileCheck %s --check-prefixes=CHECK,BF16
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=backward:layer:enc/.=bfloat16,layer:enc/[1-9]=float16" | FileCheck %s --check-prefixes=CHECK,BF16
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=name:first=float16,backward:op:matmul=bfloat16" | FileCheck %s --check-prefixes=CHECK,NAME
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=name:first=float16,backward:name:first=bfloat16" | FileCheck %s --check-prefixes=CHECK,BF16
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=backward:inputs:first=float32" | FileCheck %s --check-prefixes=CHECK,INPUTS
// RUN: not mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=backward:third=bfloat16" 2>&1 | FileCheck %s --check-prefix=NONE

// CHECK-LABEL: func.func @main
// CHECK: mpc.matmul {{.*}} : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf32>
// BF16: mpc.matmul {{.*}} transpose_lhs {{.*}}override = "backward:{{.*}} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
// A name takes precedence over a kind, for either pass.
// NAME: mpc.matmul {{.*}} transpose_lhs {{.*}}override = "name:first=float16"{{.*}} : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf32>
// INPUTS: mpc.matmul {{.*}} transpose_lhs {{.*}}reason = "backward:inputs:first=float32"{{.*}} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
// CHECK: mpc.matmul {{.*}} transpose_rhs {{.*}} : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf32>

// NONE: error: override 'backward:third=bfloat16' matches no op

func.func @main(%x: tensor<64x64xf32>, %t: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %w = mpc.constant dense<0.5> : tensor<64x64xf32>
  %seed = mpc.gradient_seed : tensor<f32>
  %0 = mpc.matmul %x, %w {mpc.layer = "enc/1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("first")
  %1 = mpc.mul %t, %seed : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  %2 = mpc.matmul %x, %1 transpose_lhs {mpc.layer = "enc/1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("first")
  %3 = mpc.div %2, %seed : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  %4 = mpc.matmul %3, %w transpose_rhs {mpc.layer = "enc/1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("first")
  return %0, %4 : tensor<64x64xf32>, tensor<64x64xf32>
}
