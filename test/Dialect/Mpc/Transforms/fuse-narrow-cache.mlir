// A quantized KV cache (8 bits): rows are scaled and rounded in one kernel, and on a CPU
// attention dequantizes them as it loads them. On a GPU a separate kernel dequantizes.
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-fuse{target=cpu:avx512}))' | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-fuse{target=cuda:sm_80}))' | FileCheck %s --check-prefixes=CHECK,CUDA

// CHECK-LABEL: func.func @scale_rows
// CHECK: mpc.fusion kind(row) {{.*}} -> (tensor<4x2x1xf32>, tensor<4x2x16xi8>)
// CHECK: mpc.reduce_max
// CHECK: mpc.round
// CHECK: mpc.yield
// CHECK-NOT: mpc.fusion
func.func @scale_rows(%x: tensor<4x2x16xf32>) -> (tensor<4x2x16xi8>, tensor<4x2x1xf32>) {
  %steps = mpc.constant dense<127.0> : tensor<f32>
  %a = mpc.abs %x : tensor<4x2x16xf32>
  %m = mpc.reduce_max %a axes([2]) keep_dims : tensor<4x2x16xf32> -> tensor<4x2x1xf32>
  %s = mpc.div %m, %steps : (tensor<4x2x1xf32>, tensor<f32>) -> tensor<4x2x1xf32>
  %d = mpc.div %x, %s : (tensor<4x2x16xf32>, tensor<4x2x1xf32>) -> tensor<4x2x16xf32>
  %r = mpc.round %d : tensor<4x2x16xf32>
  %q = mpc.cast %r : tensor<4x2x16xf32> to tensor<4x2x16xi8>
  return %q, %s : tensor<4x2x16xi8>, tensor<4x2x1xf32>
}

// CHECK-LABEL: func.func @widen_rows
// CPU: mpc.fusion kind(attention) {{.*}}tensor<8x1x2x16xi8>{{.*}}tensor<8x1x2x16xui8>
// CPU-DAG: mpc.cast
// CPU-DAG: mpc.decode_float
// CPU: mpc.attention
// CPU-NOT: mpc.fusion
// CUDA: mpc.fusion kind(elementwise)
// CUDA: mpc.fusion kind(attention)
func.func @widen_rows(%q: tensor<1x2x1x16xf32>, %k: tensor<8x1x2x16xi8>, %ks: tensor<8x1x2x1xf32>,
                      %v: tensor<8x1x2x16xui8>, %vs: tensor<8x1x2x1xf32>) -> tensor<1x2x1x16xf32> {
  %0 = mpc.cast %k : tensor<8x1x2x16xi8> to tensor<8x1x2x16xf32>
  %1 = mpc.mul %0, %ks : (tensor<8x1x2x16xf32>, tensor<8x1x2x1xf32>) -> tensor<8x1x2x16xf32>
  %2 = mpc.transpose %1 [1, 2, 0, 3] : tensor<8x1x2x16xf32> to tensor<1x2x8x16xf32>
  %3 = mpc.decode_float %v format(f8E4M3FN) : tensor<8x1x2x16xui8> to tensor<8x1x2x16xf32>
  %4 = mpc.mul %3, %vs : (tensor<8x1x2x16xf32>, tensor<8x1x2x1xf32>) -> tensor<8x1x2x16xf32>
  %5 = mpc.transpose %4 [1, 2, 0, 3] : tensor<8x1x2x16xf32> to tensor<1x2x8x16xf32>
  %6 = mpc.attention %q, %2, %5 scale(0.25) : (tensor<1x2x1x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>) -> tensor<1x2x1x16xf32>
  return %6 : tensor<1x2x1x16xf32>
}
