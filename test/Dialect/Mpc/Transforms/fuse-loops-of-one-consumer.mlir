// Loops with a common reader kernel are fused on a GPU, whatever shapes they have.
// RUN: mpc-opt %s --split-input-file --mpc-set-target=target=cuda:sm_80 --mpc-fuse | FileCheck %s
// RUN: mpc-opt %s --split-input-file --mpc-set-target=target=cpu:avx512 --mpc-fuse | FileCheck %s --check-prefix=CPU

// Two inputs that are cast for one attention.
// CHECK-LABEL: func.func @inputs
// CHECK: mpc.fusion kind(elementwise) {{.*}} -> (tensor<2x5x16xbf16>, tensor<2x7x16xbf16>)
// CHECK: mpc.fusion kind(attention)
// CHECK-NOT: mpc.fusion
// CPU-LABEL: func.func @inputs
// CPU-COUNT-2: mpc.fusion kind(elementwise)
func.func @inputs(%q: tensor<2x5x16xf32>, %k: tensor<2x7x16xf32>, %v: tensor<2x7x16xbf16>) -> tensor<2x5x16xbf16> {
  %a = mpc.exp %q : tensor<2x5x16xf32>
  %0 = mpc.cast %a : tensor<2x5x16xf32> to tensor<2x5x16xbf16>
  %b = mpc.exp %k : tensor<2x7x16xf32>
  %1 = mpc.cast %b : tensor<2x7x16xf32> to tensor<2x7x16xbf16>
  %2 = mpc.attention %0, %1, %v scale(0.25) : (tensor<2x5x16xbf16>, tensor<2x7x16xbf16>, tensor<2x7x16xbf16>) -> tensor<2x5x16xbf16>
  return %2 : tensor<2x5x16xbf16>
}

// -----

// A small table that both are multiplied with is computed inside their kernel; the
// reshape in between is one of its ops.
// CHECK-LABEL: func.func @table
// CHECK: mpc.fusion kind(elementwise) {{.*}}(%{{.*}} = %{{.*}} : tensor<16xf32>, {{.*}}) -> (tensor<2x5x16xf32>, tensor<2x7x16xf32>)
// CHECK: mpc.cos
// CHECK: mpc.fusion kind(attention)
// CHECK-NOT: mpc.fusion
func.func @table(%angle: tensor<16xf32>, %q: tensor<2x5x16xf32>, %k: tensor<2x7x16xf32>, %v: tensor<2x7x16xf32>) -> tensor<2x5x16xf32> {
  %table = mpc.cos %angle : tensor<16xf32>
  %row = mpc.reshape %table : tensor<16xf32> to tensor<1x1x16xf32>
  %0 = mpc.mul %q, %row : (tensor<2x5x16xf32>, tensor<1x1x16xf32>) -> tensor<2x5x16xf32>
  %1 = mpc.mul %k, %row : (tensor<2x7x16xf32>, tensor<1x1x16xf32>) -> tensor<2x7x16xf32>
  %2 = mpc.attention %0, %1, %v scale(0.25) : (tensor<2x5x16xf32>, tensor<2x7x16xf32>, tensor<2x7x16xf32>) -> tensor<2x5x16xf32>
  return %2 : tensor<2x5x16xf32>
}

// -----

// To recompute the cosines for each row would take longer than a launch.
// CHECK-LABEL: func.func @large_table
// CHECK: mpc.fusion kind(elementwise) {{.*}} -> tensor<1x4096x64xf32>
// CHECK: mpc.cos
// CHECK: mpc.fusion kind(elementwise) {{.*}} -> (tensor<32x4096x64xf32>, tensor<32x4095x64xf32>)
// CHECK-NOT: mpc.cos
// CHECK: mpc.fusion kind(attention)
func.func @large_table(%angle: tensor<1x4096x64xf32>, %q: tensor<32x4096x64xf32>, %k: tensor<32x4095x64xf32>, %v: tensor<32x4095x64xf32>) -> tensor<32x4096x64xf32> {
  %table = mpc.cos %angle : tensor<1x4096x64xf32>
  %0 = mpc.mul %q, %table : (tensor<32x4096x64xf32>, tensor<1x4096x64xf32>) -> tensor<32x4096x64xf32>
  %row = mpc.slice %table [0, 0, 0] [1, 4095, 64] : tensor<1x4096x64xf32> to tensor<1x4095x64xf32>
  %1 = mpc.mul %k, %row : (tensor<32x4095x64xf32>, tensor<1x4095x64xf32>) -> tensor<32x4095x64xf32>
  %2 = mpc.attention %0, %1, %v scale(0.25) : (tensor<32x4096x64xf32>, tensor<32x4095x64xf32>, tensor<32x4095x64xf32>) -> tensor<32x4096x64xf32>
  return %2 : tensor<32x4096x64xf32>
}

// -----

// New keys are appended to a cache, which is returned, and read padded and cast. One
// kernel writes both; a sum over rows is not an elementwise loop.
// CHECK-LABEL: func.func @cache
// CHECK: mpc.fusion kind(reduce)
// CHECK: mpc.fusion kind(elementwise) {{.*}} -> (tensor<2x9x16xf32>, tensor<2x16x16xbf16>)
// CHECK: mpc.fusion kind(attention)
// CHECK-NOT: mpc.fusion
func.func @cache(%q: tensor<2x5x16xbf16>, %old: tensor<2x8x16xf32>, %new: tensor<2x3x16xf32>, %v: tensor<2x16x16xbf16>, %mask: tensor<16xi1>) -> (tensor<2x5x16xbf16>, tensor<2x9x16xf32>) {
  %zero = mpc.constant dense<0.0> : tensor<bf16>
  %sum = mpc.reduce_sum %new axes([1]) keep_dims : tensor<2x3x16xf32> -> tensor<2x1x16xf32>
  %0 = mpc.concat %old, %sum axis(1) : (tensor<2x8x16xf32>, tensor<2x1x16xf32>) -> tensor<2x9x16xf32>
  %1 = mpc.cast %0 : tensor<2x9x16xf32> to tensor<2x9x16xbf16>
  %2 = mpc.pad %1, %zero low([0, 0, 0]) high([0, 7, 0]) : (tensor<2x9x16xbf16>, tensor<bf16>) -> tensor<2x16x16xbf16>
  %3 = mpc.attention %q, %2, %v mask(%mask) scale(0.25) : (tensor<2x5x16xbf16>, tensor<2x16x16xbf16>, tensor<2x16x16xbf16>, tensor<16xi1>) -> tensor<2x5x16xbf16>
  return %3, %0 : tensor<2x5x16xbf16>, tensor<2x9x16xf32>
}
