// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 cast-placement=propagate" --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 cast-placement=mincut" --split-input-file | FileCheck %s --check-prefix=CUT
// RUN: mpc-opt %s --mpc-assign-precision="policy=float32 cast-placement=propagate" --split-input-file | FileCheck %s --check-prefix=F32

// Colours start at the matmuls and propagate through the policy's classes: every
// value between two matmuls is low-precision, also inside a kernel, where the min
// cut sees no gain. Compute types follow the policy.
// CHECK-LABEL: func @between
// CHECK: %[[M:.*]] = mpc.matmul
// CHECK-NEXT: %[[H:.*]] = mpc.cast %[[M]] : tensor<64x64xf32> to tensor<64x64xf16>
// CHECK: %[[W:.*]] = mpc.cast %[[H]] : tensor<64x64xf16> to tensor<64x64xf32>
// CHECK: %[[T:.*]] = mpc.tanh %[[W]] {{.*}} : tensor<64x64xf32>
// CHECK: mpc.cast %[[T]] : tensor<64x64xf32> to tensor<64x64xf16>
// CHECK: mpc.matmul
// CUT-LABEL: func @between
// CUT: %[[M:.*]] = mpc.matmul
// CUT-NEXT: %[[T:.*]] = mpc.tanh %[[M]]
// CUT-NEXT: %[[H:.*]] = mpc.cast %[[T]]
// F32-LABEL: func @between
// F32-NOT: mpc.cast
// F32: return
func.func @between(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = mpc.matmul %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.tanh %0 : tensor<64x64xf32>
  %2 = mpc.matmul %1, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}

// -----

// Hard labels follow the min cut: an output and data movement to it stay f32, and stop
// the colour.
// CHECK-LABEL: func @output
// CHECK: %[[M:.*]] = mpc.matmul
// CHECK-NOT: mpc.cast %[[M]]
// CHECK: mpc.reshape %[[M]] {{.*}} : tensor<64x64xf32> to tensor<4096xf32>
// CHECK-NEXT: return
func.func @output(%x: tensor<64x64xf32>) -> tensor<4096xf32> {
  %0 = mpc.matmul %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.reshape %0 : tensor<64x64xf32> to tensor<4096xf32>
  return %1 : tensor<4096xf32>
}

// -----

// Consumers of a denied op are not painted, though the min cut may store them in 16 bits.
// CHECK-LABEL: func @denied
// CHECK: mpc.exp
// CHECK: %[[A:.*]] = mpc.add
// CHECK-NOT: mpc.cast %[[A]]
// CHECK: mpc.sub %[[A]],
func.func @denied(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = mpc.matmul %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.exp %0 : tensor<64x64xf32>
  %2 = mpc.add %0, %1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = mpc.sub %2, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %3 : tensor<64x64xf32>
}
