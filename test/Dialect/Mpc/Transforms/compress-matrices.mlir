// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-fold-constants,mpc-compress-matrices{target=cuda:sm_90a}))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-fold-constants,mpc-compress-matrices{target=cuda:sm_90a},mpc-compress-matrices{target=cuda:sm_90a}))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-fold-constants,mpc-compress-matrices{target=cpu:avx512}))' | FileCheck %s --check-prefix=CPU

// CPUs have panels.
// CPU-NOT: mpc.dequantize

// Each column is stored as a row; 4-bit integers have one zero point.
// CHECK-LABEL: func.func @nibbles
// CHECK: %[[W:.+]] = mpc.dequantize %{{.+}} nibbles scale(%{{.+}} : tensor<128x1xbf16>) common_zero(8) : tensor<128x128xui8> to tensor<128x256xbf16>
// CHECK: mpc.matmul %{{.+}}, %[[W]] transpose_rhs
func.func @nibbles(%x: tensor<1x256xbf16>) -> tensor<1x128xf32> {
  %i = mpc.iota axis(0) : tensor<256x128xi64>
  %j = mpc.iota axis(1) : tensor<256x128xi64>
  %s = mpc.add %i, %j : (tensor<256x128xi64>, tensor<256x128xi64>) -> tensor<256x128xi64>
  %n = mpc.constant dense<13> : tensor<i64>
  %r = mpc.rem %s, %n : (tensor<256x128xi64>, tensor<i64>) -> tensor<256x128xi64>
  %m = mpc.constant dense<6> : tensor<i64>
  %d = mpc.sub %r, %m : (tensor<256x128xi64>, tensor<i64>) -> tensor<256x128xi64>
  %w = mpc.cast %d : tensor<256x128xi64> to tensor<256x128xbf16>
  %0 = mpc.matmul %x, %w : (tensor<1x256xbf16>, tensor<256x128xbf16>) -> tensor<1x128xf32>
  return %0 : tensor<1x128xf32>
}

// The compute-bound one of two readers keeps the matrix. Others share the compressed constant.
// CHECK-LABEL: func.func @rows
// CHECK-DAG: %[[WIDE:.+]] = mpc.constant {{.*}} : tensor<128x256xbf16>
// CHECK-DAG: %[[Q:.+]] = mpc.constant {{.*}} : tensor<128x256xui8>
// CHECK: %[[V:.+]] = mpc.dequantize %[[Q]] scale
// CHECK: mpc.matmul %{{.+}}, %[[V]] transpose_rhs
// CHECK: mpc.matmul %{{.+}}, %[[WIDE]] transpose_rhs
// CHECK: %[[U:.+]] = mpc.dequantize %[[Q]] scale
// CHECK: mpc.matmul %{{.+}}, %[[U]] transpose_rhs
func.func @rows(%x: tensor<1x256xbf16>, %y: tensor<512x256xbf16>, %z: tensor<8x256xbf16>)
    -> (tensor<1x128xf32>, tensor<512x128xf32>, tensor<8x128xf32>) {
  %i = mpc.iota axis(0) : tensor<128x256xi64>
  %j = mpc.iota axis(1) : tensor<128x256xi64>
  %s = mpc.add %i, %j : (tensor<128x256xi64>, tensor<128x256xi64>) -> tensor<128x256xi64>
  %n = mpc.constant dense<200> : tensor<i64>
  %r = mpc.rem %s, %n : (tensor<128x256xi64>, tensor<i64>) -> tensor<128x256xi64>
  %w = mpc.cast %r : tensor<128x256xi64> to tensor<128x256xbf16>
  %0 = mpc.matmul %x, %w transpose_rhs : (tensor<1x256xbf16>, tensor<128x256xbf16>) -> tensor<1x128xf32>
  %1 = mpc.matmul %y, %w transpose_rhs : (tensor<512x256xbf16>, tensor<128x256xbf16>) -> tensor<512x128xf32>
  %2 = mpc.matmul %z, %w transpose_rhs : (tensor<8x256xbf16>, tensor<128x256xbf16>) -> tensor<8x128xf32>
  return %0, %1, %2 : tensor<1x128xf32>, tensor<512x128xf32>, tensor<8x128xf32>
}

// 16-bit constants of an f32 matmul.
// CHECK-LABEL: func.func @halves
// CHECK: mpc.dequantize %{{.+}} : tensor<128x256xf16> to tensor<128x256xf32>
func.func @halves(%x: tensor<3x256xf32>) -> tensor<3x128xf32> {
  %i = mpc.iota axis(0) : tensor<256x128xi64>
  %j = mpc.iota axis(1) : tensor<256x128xi64>
  %s = mpc.mul %i, %j : (tensor<256x128xi64>, tensor<256x128xi64>) -> tensor<256x128xi64>
  %n = mpc.constant dense<2047> : tensor<i64>
  %r = mpc.rem %s, %n : (tensor<256x128xi64>, tensor<i64>) -> tensor<256x128xi64>
  %w = mpc.cast %r : tensor<256x128xi64> to tensor<256x128xf32>
  %0 = mpc.matmul %x, %w : (tensor<3x256xf32>, tensor<256x128xf32>) -> tensor<3x128xf32>
  return %0 : tensor<3x128xf32>
}

// Not compressed: small constants, batches of matrices, and values that need their full type.
// CHECK-LABEL: func.func @stay
// CHECK-NOT: mpc.dequantize
func.func @stay(%x: tensor<1x4xf32>, %y: tensor<2x1x256xf32>, %z: tensor<1x256xf32>)
    -> (tensor<1x2xf32>, tensor<2x1x128xf32>, tensor<1x128xf32>) {
  %v = mpc.constant dense<[[0.5, -1.75], [0.0, -1.5], [0.0, 0.5], [3.5, -0.5]]> : tensor<4x2xf32>
  %0 = mpc.matmul %x, %v : (tensor<1x4xf32>, tensor<4x2xf32>) -> tensor<1x2xf32>
  %i = mpc.iota axis(1) : tensor<2x256x128xi64>
  %b = mpc.cast %i : tensor<2x256x128xi64> to tensor<2x256x128xf32>
  %1 = mpc.matmul %y, %b : (tensor<2x1x256xf32>, tensor<2x256x128xf32>) -> tensor<2x1x128xf32>
  %j = mpc.iota axis(0) : tensor<256x128xi64>
  %k = mpc.iota axis(1) : tensor<256x128xi64>
  %p = mpc.add %j, %k : (tensor<256x128xi64>, tensor<256x128xi64>) -> tensor<256x128xi64>
  %c = mpc.cast %p : tensor<256x128xi64> to tensor<256x128xf32>
  %s = mpc.sqrt %c : tensor<256x128xf32>
  %2 = mpc.matmul %z, %s : (tensor<1x256xf32>, tensor<256x128xf32>) -> tensor<1x128xf32>
  return %0, %1, %2 : tensor<1x2xf32>, tensor<2x1x128xf32>, tensor<1x128xf32>
}
