// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 remarks set=name:kept=float32" -o /dev/null 2>&1 | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 set=name:kept=float32" -o /dev/null 2>&1 | count 0

// Remarks at every op: its rule, its compute type, and why its result is stored as it
// is.

// CHECK: [[@LINE+7]]:{{[0-9]+}}: remark: rule 'low' of policy 'mixed_bfloat16': computes in 'bf16'; result 0 is stored in 'f32': it never leaves the kernel of matmul
// CHECK: [[@LINE+7]]:{{[0-9]+}}: remark: rule 'follow' of policy 'mixed_bfloat16': computes in 'f32'; result 0 is stored in 'bf16': storing it in bf16 saves 24576 bytes
// CHECK: [[@LINE+7]]:{{[0-9]+}}: remark: rule 'high' of policy 'mixed_bfloat16': computes in 'f32'; result 0 is stored in 'bf16': {{.*}}; matmul 'last' reads it in bf16
// CHECK: remark: loc("kept"): rule 'override' of policy 'mixed_bfloat16', override 'name:kept=float32': computes in 'f32'; result 0 is stored in 'f32': override name:kept=float32 keeps tanh 'kept' in f32, and a reader needs f32
// CHECK: remark: {{.*}} the function returns it unrounded
func.func @main(%x: tensor<64x64xf32>, %g: tensor<64xf32>) -> (tensor<64x64xf32>, tensor<64xf32>) {
  %w = mpc.constant dense<0.5> : tensor<64x64xf32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.add %0, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = mpc.layer_norm %1, %g, %g axis(1) epsilon(1.0e-5) : (tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  %3 = mpc.tanh %x : tensor<64x64xf32> loc("kept")
  %s = mpc.add %1, %3 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = mpc.reduce_sum %s axes([1]) : tensor<64x64xf32> -> tensor<64xf32>
  %5 = mpc.matmul %2, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("last")
  return %5, %4 : tensor<64x64xf32>, tensor<64xf32>
}
