// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_float16 | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_bfloat16 | FileCheck %s --check-prefix=BF16

// A bias of 2000 and a factor of 64 put values near 128000, beyond f16's range:
// the value is not stored in f16 between two kernels. bf16 has the range.

// CHECK: %[[H:.*]] = mpc.mul {{.*}} reason = "values overflow 16 bits">} {{.*}} -> tensor<2x16x256xf32>
// CHECK-NOT: mpc.cast %[[H]]
// CHECK: mpc.reduce_mean %[[H]]

// BF16-NOT: values overflow

func.func @main(%x: tensor<2x16x24xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<2x256xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w = mpc.constant dense<0.5> : tensor<24x256xf32>
  %c = mpc.constant dense<2000.0> : tensor<256xf32>
  %k = mpc.constant dense<64.0> : tensor<f32>
  %bias = mpc.constant dense<128000.0> : tensor<256xf32>
  %0 = mpc.matmul %x, %w : (tensor<2x16x24xf32>, tensor<24x256xf32>) -> tensor<2x16x256xf32>
  %1 = mpc.add %0, %c : (tensor<2x16x256xf32>, tensor<256xf32>) -> tensor<2x16x256xf32>
  %2 = mpc.mul %1, %k : (tensor<2x16x256xf32>, tensor<f32>) -> tensor<2x16x256xf32>
  %3 = mpc.reduce_mean %2 axes([1]) : tensor<2x16x256xf32> -> tensor<2x256xf32>
  %4 = mpc.sub %3, %bias : (tensor<2x256xf32>, tensor<256xf32>) -> tensor<2x256xf32>
  return %4 : tensor<2x256xf32>
}
