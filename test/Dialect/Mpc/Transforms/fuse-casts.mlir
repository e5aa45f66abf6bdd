// RUN: mpc-opt %s --mpc-fuse | FileCheck %s

// A residual stored narrow: the kernel that makes it stores 16 bits once, and each
// reader widens for itself.
// CHECK-LABEL: func @residual
// CHECK: %[[R:.*]] = mpc.fusion kind(contraction) {{.*}} -> tensor<64x64xbf16>
// CHECK: mpc.yield %{{.*}} : tensor<64x64xbf16>
// CHECK: mpc.fusion kind(contraction) {{.*}} = %[[R]] : tensor<64x64xbf16>
// CHECK: mpc.cast %{{.*}} : tensor<64x64xbf16> to tensor<64x64xf32>
// CHECK: mpc.add
func.func @residual(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<64x64xf32> {
  %0 = mpc.matmul %x, %w : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
  %1 = mpc.cast %0 : tensor<64x64xf32> to tensor<64x64xbf16>
  %2 = mpc.matmul %1, %w : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
  %3 = mpc.cast %1 : tensor<64x64xbf16> to tensor<64x64xf32>
  %4 = mpc.add %2, %3 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %4 : tensor<64x64xf32>
}

// Two products meet in an add. Each keeps its own bias and cast; the add rides on
// one of them and reads what the other one stored.
// CHECK-LABEL: func @two_branches
// CHECK: %[[S:.*]] = mpc.fusion kind(contraction)
// CHECK: mpc.matmul
// CHECK-NEXT: mpc.add
// CHECK-NEXT: mpc.cast
// CHECK-NEXT: mpc.yield %{{.*}} : tensor<64x64xbf16>
// CHECK: mpc.fusion kind(contraction) {{.*}} = %[[S]] : tensor<64x64xbf16>
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @two_branches(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>, %v: tensor<64x64xbf16>, %b: tensor<64xf32>) -> tensor<64x64xf32> {
  %0 = mpc.matmul %x, %w : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
  %1 = mpc.add %0, %b : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  %2 = mpc.matmul %x, %v : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
  %3 = mpc.add %2, %b : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  %4 = mpc.cast %3 : tensor<64x64xf32> to tensor<64x64xbf16>
  %5 = mpc.cast %4 : tensor<64x64xbf16> to tensor<64x64xf32>
  %6 = mpc.add %1, %5 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %6 : tensor<64x64xf32>
}
