// RUN: mpc-opt %s --split-input-file --mpc-prepare-fusion=target=cpu:avx512 | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: mpc-opt %s --split-input-file --mpc-prepare-fusion=target=cuda:sm_80 | FileCheck %s --check-prefixes=CHECK,CUDA
// RUN: mpc-opt %s --split-input-file --mpc-prepare-fusion=target=cuda:sm_80 > %t.once
// RUN: mpc-opt %s --split-input-file --mpc-prepare-fusion=target=cuda:sm_80 --mpc-prepare-fusion=target=cuda:sm_80 | diff %t.once -

// Data moves in 16 bits.
// CHECK-LABEL: func.func @widening
func.func @widening(%x: tensor<8x4xbf16>) -> tensor<4x8xf32> {
  // CHECK: mpc.transpose %{{.*}} [1, 0] : tensor<8x4xbf16> to tensor<4x8xbf16>
  // CHECK-NEXT: mpc.cast %{{.*}} : tensor<4x8xbf16> to tensor<4x8xf32>
  %0 = mpc.cast %x : tensor<8x4xbf16> to tensor<8x4xf32>
  %1 = mpc.transpose %0 [1, 0] : tensor<8x4xf32> to tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func.func @narrowing
func.func @narrowing(%x: tensor<8x4xf32>) -> tensor<4x8xbf16> {
  // CHECK: mpc.exp
  // CHECK-NEXT: mpc.cast %{{.*}} : tensor<8x4xf32> to tensor<8x4xbf16>
  // CHECK-NEXT: mpc.transpose %{{.*}} [1, 0] : tensor<8x4xbf16> to tensor<4x8xbf16>
  %0 = mpc.exp %x : tensor<8x4xf32>
  %1 = mpc.transpose %0 [1, 0] : tensor<8x4xf32> to tensor<4x8xf32>
  %2 = mpc.cast %1 : tensor<4x8xf32> to tensor<4x8xbf16>
  return %2 : tensor<4x8xbf16>
}

// -----

// A cast of the model itself stays where it is.
// CHECK-LABEL: func.func @pinned
func.func @pinned(%x: tensor<8x4xbf16>) -> tensor<4x8xf32> {
  // CHECK: mpc.cast
  // CHECK-NEXT: mpc.transpose %{{.*}} [1, 0] : tensor<8x4xf32> to tensor<4x8xf32>
  %0 = mpc.cast %x pinned : tensor<8x4xbf16> to tensor<8x4xf32>
  %1 = mpc.transpose %0 [1, 0] : tensor<8x4xf32> to tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// Each reader widens for itself.
// CHECK-LABEL: func.func @readers
func.func @readers(%x: tensor<8x4xbf16>) -> (tensor<8x4xf32>, tensor<8x1xf32>) {
  // CHECK-COUNT-2: mpc.cast %{{.*}} : tensor<8x4xbf16> to tensor<8x4xf32>
  %0 = mpc.cast %x : tensor<8x4xbf16> to tensor<8x4xf32>
  %1 = mpc.exp %0 : tensor<8x4xf32>
  %2 = mpc.reduce_sum %0 axes([1]) keep_dims : tensor<8x4xf32> -> tensor<8x1xf32>
  return %1, %2 : tensor<8x4xf32>, tensor<8x1xf32>
}

// -----

// Where kernels load through movement, each product has its own.
// CHECK-LABEL: func.func @movement
func.func @movement(%x: tensor<2x64x64xf32>, %w: tensor<2x64x64xf32>)
    -> (tensor<64x2x64xf32>, tensor<64x2x64xf32>) {
  // CPU-COUNT-1: mpc.transpose
  // CPU-NOT: mpc.transpose
  // CUDA-COUNT-2: mpc.transpose
  %0 = mpc.transpose %x [1, 0, 2] : tensor<2x64x64xf32> to tensor<64x2x64xf32>
  %1 = mpc.exp %0 : tensor<64x2x64xf32>
  %2 = mpc.softmax %0 axis(2) : tensor<64x2x64xf32>
  return %1, %2 : tensor<64x2x64xf32>, tensor<64x2x64xf32>
}
