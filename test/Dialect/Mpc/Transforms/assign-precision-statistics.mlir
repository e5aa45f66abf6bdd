// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_bfloat16 | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_float16 | FileCheck %s

// An explicitly computed running mean: a bf16 mean over steps would
// stop changing. The model's own product of the same values follows the policy.
// CHECK-LABEL: func.func @running_mean(
// CHECK: mpc.reduce_mean {{.*}} -> tensor<64xf32>
// CHECK: mpc.mul {{.*}}"part of a running statistic"{{.*}} -> tensor<64xf32>
// CHECK: mpc.mul {{.*}} -> tensor<64xf32>
// CHECK: mpc.add {{.*}} -> tensor<64xf32>
// CHECK: mpc.matmul {{.*}}tensor<64x64x{{b?f16}}>
func.func @running_mean(%x: tensor<32x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                        %m: tensor<64xf32> {mpc.role = #mpc.role<statistics>, mpc.name = "m"},
                        %w: tensor<64x64xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"})
    -> (tensor<32x64xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"},
        tensor<64xf32> {mpc.role = #mpc.role<statistics>, mpc.name = "m", mpc.alias = 1 : i64}) {
  %old = mpc.constant dense<0.9> : tensor<f32>
  %new = mpc.constant dense<0.1> : tensor<f32>
  %h = mpc.tanh %x : tensor<32x64xf32>
  %mean = mpc.reduce_mean %h axes([0]) : tensor<32x64xf32> -> tensor<64xf32>
  %a = mpc.mul %m, %old : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  %b = mpc.mul %mean, %new : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  %m1 = mpc.add %a, %b : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %c = mpc.sub %h, %m1 : (tensor<32x64xf32>, tensor<64xf32>) -> tensor<32x64xf32>
  %y = mpc.matmul %c, %w : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
  return %y, %m1 : tensor<32x64xf32>, tensor<64xf32>
}
