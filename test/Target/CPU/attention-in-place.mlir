// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx512 --mpc-schedule-cpu-kernels --mpc-emit-cpu-kernels --cse | FileCheck %s

// Decode attention of one token over an 8-bit KV cache with rows of all heads: rows and scales are
// prefetched into L2, first those of the first keys, then, head by head, a share of later ones; the
// first values while exponentials are computed. Nothing is packed, and a key's scale multiplies its
// score. Split-KV: two work items have half of the positions each; one per head combines them.

// CHECK-LABEL: func.func private @cached_impl(
// CHECK-SAME: memref<1x8x1x64xf32>, %[[K:.*]]: memref<1024x1x8x64xi8>, %[[KS:.*]]: memref<1024x1x8x1xf32>, %[[V:.*]]: memref<1024x1x8x64xi8>, %[[VS:.*]]: memref<1024x1x8x1xf32>,
// CHECK: tile.for_each %{{.*}} in (2)
// CHECK:   scf.for
// CHECK:     memref.prefetch %[[K]][{{.*}}], read, locality<2>, data
// CHECK:     memref.prefetch %[[KS]][{{.*}}], read, locality<2>, data
// CHECK:   scf.for %{{.*}} to %{{.*}} step %c16{{(_.*)?}} {
// CHECK:     scf.for
// CHECK:       memref.prefetch %[[K]][{{.*}}], read, locality<2>, data
// CHECK:       memref.prefetch %[[KS]][{{.*}}], read, locality<2>, data
// CHECK:       math.fma
// CHECK:   memref.prefetch %[[V]][{{.*}}], read, locality<2>, data
// CHECK:   memref.prefetch %[[VS]][{{.*}}], read, locality<2>, data
// CHECK:   math.fma
// CHECK:   scf.for %{{.*}} to %{{.*}} step %c16{{(_.*)?}} {
// CHECK:       memref.prefetch %[[V]][{{.*}}], read, locality<2>, data
// CHECK:       math.fma
// CHECK: tile.for_each %{{.*}} in (8)
// CHECK-NOT: prefetch
func.func private @cached(%q: tensor<1x8x1x64xf32>, %k: tensor<1024x1x8x64xi8>, %ks: tensor<1024x1x8x1xf32>, %v: tensor<1024x1x8x64xi8>, %vs: tensor<1024x1x8x1xf32>) -> tensor<1x8x1x64xf32>
    attributes {mpc.kernel_kind = "attention"} {
  %0 = mpc.cast %k : tensor<1024x1x8x64xi8> to tensor<1024x1x8x64xf32>
  %1 = mpc.mul %0, %ks : (tensor<1024x1x8x64xf32>, tensor<1024x1x8x1xf32>) -> tensor<1024x1x8x64xf32>
  %2 = mpc.transpose %1 [1, 2, 0, 3] : tensor<1024x1x8x64xf32> to tensor<1x8x1024x64xf32>
  %3 = mpc.cast %v : tensor<1024x1x8x64xi8> to tensor<1024x1x8x64xf32>
  %4 = mpc.mul %3, %vs : (tensor<1024x1x8x64xf32>, tensor<1024x1x8x1xf32>) -> tensor<1024x1x8x64xf32>
  %5 = mpc.transpose %4 [1, 2, 0, 3] : tensor<1024x1x8x64xf32> to tensor<1x8x1024x64xf32>
  %6 = mpc.attention %q, %2, %5 scale(1.250000e-01) : (tensor<1x8x1x64xf32>, tensor<1x8x1024x64xf32>, tensor<1x8x1024x64xf32>) -> tensor<1x8x1x64xf32>
  return %6 : tensor<1x8x1x64xf32>
}
