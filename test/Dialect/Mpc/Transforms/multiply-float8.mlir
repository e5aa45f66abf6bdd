// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-multiply-float8{target=cuda:sm_89}))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-multiply-float8{target=cuda:sm_80}))' | FileCheck %s --check-prefix=NONE
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-multiply-float8{target=cpu:avx512bf16}))' | FileCheck %s --check-prefix=CPU
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-multiply-float8{target=cpu:avx2}))' | FileCheck %s --check-prefix=PLAIN
// NONE-NOT: mpc.decode_float {{.*}} to tensor<{{.*}}xf8

// The weight becomes a constant of its numbers, along k.
// CHECK-LABEL: func @weight
// CHECK-SAME: %[[CODES:[a-z0-9]+]]: tensor<8x32xui8>
// CHECK: %[[X:.*]] = mpc.decode_float %[[CODES]] format(f8E4M3FN) : tensor<8x32xui8> to tensor<8x32xf8E4M3FN>
// CHECK: %[[W:.*]] = mpc.constant dense<4.480000e+02> : tensor<16x32xf8E4M3FN>
// CHECK: mpc.matmul %[[X]], %[[W]] transpose_rhs : (tensor<8x32xf8E4M3FN>, tensor<16x32xf8E4M3FN>) -> tensor<8x16xf32>
func.func @weight(%codes: tensor<8x32xui8>) -> tensor<8x16xf32> {
  %w = mpc.constant dense<448.0> : tensor<32x16xbf16>
  %0 = mpc.decode_float %codes format(f8E4M3FN) : tensor<8x32xui8> to tensor<8x32xf32>
  %1 = mpc.cast %0 : tensor<8x32xf32> to tensor<8x32xbf16>
  %2 = mpc.matmul %1, %w : (tensor<8x32xbf16>, tensor<32x16xbf16>) -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// The gradient of a weight contracts rows: both codes are transposed, moves
// included. The types differ, and the sums are those of f32.
// CHECK-LABEL: func @gradient
// CHECK: %[[MOVED:.*]] = mpc.reshape %arg0 : tensor<2x16x8xui8> to tensor<32x8xui8>
// CHECK: %[[A:.*]] = mpc.transpose %[[MOVED]] [1, 0]
// CHECK: %[[X:.*]] = mpc.decode_float %[[A]] {{.*}} to tensor<8x32xf8E4M3FN>
// CHECK: %[[B:.*]] = mpc.transpose %arg1 [1, 0]
// CHECK: %[[DY:.*]] = mpc.decode_float %[[B]] {{.*}} to tensor<16x32xf8E5M2>
// CHECK: mpc.matmul %[[X]], %[[DY]] transpose_rhs accumulate(f32) {mpc.backward}
func.func @gradient(%a: tensor<2x16x8xui8>, %b: tensor<32x16xui8>) -> tensor<8x16xf32> {
  %0 = mpc.decode_float %a format(f8E4M3FN) : tensor<2x16x8xui8> to tensor<2x16x8xbf16>
  %1 = mpc.reshape %0 : tensor<2x16x8xbf16> to tensor<32x8xbf16>
  %2 = mpc.decode_float %b format(f8E5M2) : tensor<32x16xui8> to tensor<32x16xbf16>
  %3 = mpc.matmul %1, %2 transpose_lhs {mpc.backward} : (tensor<32x8xbf16>, tensor<32x16xbf16>) -> tensor<8x16xf32>
  return %3 : tensor<8x16xf32>
}

// Left alone: a constant of other numbers, operands of f32, an extent of 24, a
// scale within the sum.
// CHECK-LABEL: func @others
// CHECK-NOT: f8E4M3FN>
// CHECK: return
func.func @others(%codes: tensor<8x32xui8>, %short: tensor<8x24xui8>, %s: tensor<8x1xbf16>) -> (tensor<8x16xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %w = mpc.constant dense<450.0> : tensor<32x16xbf16>
  %0 = mpc.decode_float %codes format(f8E4M3FN) : tensor<8x32xui8> to tensor<8x32xbf16>
  %1 = mpc.matmul %0, %w : (tensor<8x32xbf16>, tensor<32x16xbf16>) -> tensor<8x16xf32>
  %2 = mpc.decode_float %codes format(f8E4M3FN) : tensor<8x32xui8> to tensor<8x32xf32>
  %3 = mpc.matmul %2, %2 transpose_rhs : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x8xf32>
  %4 = mpc.decode_float %short format(f8E4M3FN) : tensor<8x24xui8> to tensor<8x24xbf16>
  %5 = mpc.matmul %4, %4 transpose_rhs : (tensor<8x24xbf16>, tensor<8x24xbf16>) -> tensor<8x8xf32>
  %6 = mpc.mul %0, %s : (tensor<8x32xbf16>, tensor<8x1xbf16>) -> tensor<8x32xbf16>
  %7 = mpc.matmul %6, %0 transpose_rhs : (tensor<8x32xbf16>, tensor<8x32xbf16>) -> tensor<8x8xf32>
  return %1, %3, %5, %7 : tensor<8x16xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// A CPU's unit of bf16 multiplies numbers of any format of at most 8 bits.
// CHECK-LABEL: func @float32
// CHECK: mpc.matmul {{.*}} : (tensor<9x32xf32>, tensor<32x16xf32>) -> tensor<9x16xf32>
// CPU-LABEL: func @float32
// CPU: %[[W:.*]] = mpc.constant dense<4.480000e+02> : tensor<32x16xbf16>
// CPU: %[[X:.*]] = mpc.cast %{{.*}} : tensor<9x32xf32> to tensor<9x32xbf16>
// CPU: mpc.matmul %[[X]], %[[W]] : (tensor<9x32xbf16>, tensor<32x16xbf16>) -> tensor<9x16xf32>
// PLAIN-LABEL: func @float32
// PLAIN: mpc.matmul {{.*}} : (tensor<9x32xf32>, tensor<32x16xf32>) -> tensor<9x16xf32>
func.func @float32(%codes: tensor<9x32xui8>) -> tensor<9x16xf32> {
  %w = mpc.constant dense<448.0> : tensor<32x16xf32>
  %0 = mpc.decode_float %codes format(f4E2M1FN) : tensor<9x32xui8> to tensor<9x32xf32>
  %1 = mpc.matmul %0, %w : (tensor<9x32xf32>, tensor<32x16xf32>) -> tensor<9x16xf32>
  return %1 : tensor<9x16xf32>
}

// Few rows read the weights in 8 bits.
// CPU-LABEL: func @few_rows
// CPU: mpc.matmul {{.*}} : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
func.func @few_rows(%codes: tensor<8x32xui8>) -> tensor<8x16xf32> {
  %w = mpc.constant dense<448.0> : tensor<32x16xf32>
  %0 = mpc.decode_float %codes format(f8E4M3FN) : tensor<8x32xui8> to tensor<8x32xf32>
  %1 = mpc.matmul %0, %w : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}
