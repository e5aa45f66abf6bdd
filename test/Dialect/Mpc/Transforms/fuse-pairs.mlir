// A matmul with paired columns (GLU) combines the halves in its epilogue: one kernel has both
// accumulators of an element and stores the combined result.
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-fuse-gated-matmuls=block=8 --mpc-fuse | FileCheck %s
// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx512 --mpc-fuse-gated-matmuls=block=16 --mpc-fuse | FileCheck %s
// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx2 --mpc-fuse-gated-matmuls=block=8 --mpc-fuse | FileCheck %s

// Halves that are rounded individually are not cast before they are sliced.
// CHECK-LABEL: func.func @rounded_halves
// CHECK: mpc.fusion kind(contraction)
// CHECK-SAME: -> tensor<64x32xbf16> {
// CHECK-NEXT: mpc.matmul {{.*}} -> tensor<64x64xf32>
// CHECK-NEXT: mpc.reshape
// CHECK: mpc.sigmoid
// CHECK: mpc.yield
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @rounded_halves(%x: tensor<64x96xbf16>) -> tensor<64x32xbf16> {
  %gate = mpc.constant dense<0.25> : tensor<96x32xbf16>
  %up = mpc.constant dense<0.5> : tensor<96x32xbf16>
  %0 = mpc.matmul %x, %gate : (tensor<64x96xbf16>, tensor<96x32xbf16>) -> tensor<64x32xf32>
  %1 = mpc.matmul %x, %up : (tensor<64x96xbf16>, tensor<96x32xbf16>) -> tensor<64x32xf32>
  %2 = mpc.cast %0 : tensor<64x32xf32> to tensor<64x32xbf16>
  %3 = mpc.cast %1 : tensor<64x32xf32> to tensor<64x32xbf16>
  %4 = mpc.sigmoid %2 : tensor<64x32xbf16>
  %5 = mpc.mul %4, %2 : (tensor<64x32xbf16>, tensor<64x32xbf16>) -> tensor<64x32xbf16>
  %6 = mpc.mul %5, %3 : (tensor<64x32xbf16>, tensor<64x32xbf16>) -> tensor<64x32xbf16>
  return %6 : tensor<64x32xbf16>
}

// Ops after the product of the halves are an ordinary epilogue: a residual, and two
// results.
// CHECK-LABEL: func.func @residual_behind
// CHECK: mpc.fusion kind(contraction)
// CHECK-SAME: -> (tensor<2x8x32xf32>, tensor<2x8x32xbf16>) {
// CHECK: mpc.add
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @residual_behind(%x: tensor<2x8x16xf32>, %r: tensor<2x8x32xf32>) -> (tensor<2x8x32xf32>, tensor<2x8x32xbf16>) {
  %gate = mpc.constant dense<0.25> : tensor<2x16x32xf32>
  %up = mpc.constant dense<0.5> : tensor<2x16x32xf32>
  %0 = mpc.matmul %x, %gate : (tensor<2x8x16xf32>, tensor<2x16x32xf32>) -> tensor<2x8x32xf32>
  %1 = mpc.matmul %x, %up : (tensor<2x8x16xf32>, tensor<2x16x32xf32>) -> tensor<2x8x32xf32>
  %2 = mpc.gelu %0 : tensor<2x8x32xf32>
  %3 = mpc.mul %2, %1 : (tensor<2x8x32xf32>, tensor<2x8x32xf32>) -> tensor<2x8x32xf32>
  %4 = mpc.add %3, %r : (tensor<2x8x32xf32>, tensor<2x8x32xf32>) -> tensor<2x8x32xf32>
  %5 = mpc.cast %4 : tensor<2x8x32xf32> to tensor<2x8x32xbf16>
  return %4, %5 : tensor<2x8x32xf32>, tensor<2x8x32xbf16>
}
