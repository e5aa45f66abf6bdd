// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_bfloat16 | FileCheck %s
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-pad-contractions | FileCheck %s

// A tensor of no elements is an ordinary input: no division by its size, and
// no padding.
// CHECK: mpc.matmul {{.*}} : (tensor<0x100xbf16>, tensor<100x30xbf16>) -> tensor<0x30xf32>
// CHECK: mpc.matmul {{.*}} -> tensor<8x8xf32>
// CHECK: mpc.exp {{.*}} : tensor<0x8xf32>
func.func @main(%x: tensor<0x100xbf16>, %y: tensor<0x8xf32>, %z: tensor<8x0xf32>)
    -> (tensor<0x30xf32>, tensor<8x8xf32>, tensor<0x8xf32>) {
  %w = mpc.constant dense<0.5> : tensor<100x30xbf16>
  %0 = mpc.matmul %x, %w : (tensor<0x100xbf16>, tensor<100x30xbf16>) -> tensor<0x30xf32>
  %1 = mpc.matmul %z, %y : (tensor<8x0xf32>, tensor<0x8xf32>) -> tensor<8x8xf32>
  %2 = mpc.relu %y : tensor<0x8xf32>
  %3 = mpc.exp %2 : tensor<0x8xf32>
  return %0, %1, %3 : tensor<0x30xf32>, tensor<8x8xf32>, tensor<0x8xf32>
}
