// RUN: mpc-opt %s --mpc-assign-precision=policy=tf_amp_onednn_bfloat16 --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=tf_amp_gpu_float16 --split-input-file | FileCheck %s --check-prefix=GPU

// Ops that are one TensorFlow op: inputs are rounded, the inside is f32, the
// result is rounded once. In f16 the op is in no list.
// CHECK-LABEL: @squared_difference
// CHECK-SAME: %[[X:.*]]: tensor<8x8xf32>)
// CHECK: %[[XH:.*]] = mpc.cast %[[X]] : tensor<8x8xf32> to tensor<8x8xbf16>
// CHECK: %[[M:.*]] = mpc.matmul
// CHECK: %[[MH:.*]] = mpc.cast %[[M]] : tensor<8x8xf32> to tensor<8x8xbf16>
// CHECK-DAG: %[[MW:.*]] = mpc.cast %[[MH]] : tensor<8x8xbf16> to tensor<8x8xf32>
// CHECK-DAG: %[[XW:.*]] = mpc.cast %[[XH]] : tensor<8x8xbf16> to tensor<8x8xf32>
// CHECK: %[[D:.*]] = mpc.sub %[[MW]], %[[XW]] {{.*}} -> tensor<8x8xf32>
// CHECK-NEXT: %[[S:.*]] = mpc.mul %[[D]], %[[D]] {{.*}}rule = "follow"{{.*}} -> tensor<8x8xf32>
// CHECK-NEXT: mpc.cast %[[S]] : tensor<8x8xf32> to tensor<8x8xbf16>
// GPU-LABEL: @squared_difference
// GPU-SAME: %[[X:.*]]: tensor<8x8xf32>)
// GPU: mpc.sub %{{.*}}, %[[X]] {{.*}}reason = "in no list"
// GPU: mpc.mul {{.*}}reason = "in no list"
func.func private @squared_difference(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = mpc.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = mpc.sub %0, %x {mpc.source = #mpc.source<op = "SquaredDifference", id = 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = mpc.mul %1, %1 {mpc.source = #mpc.source<op = "SquaredDifference", id = 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = mpc.sin %2 : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}

// -----

// Ops that only move elements have no rounding inside.
// CHECK-LABEL: @pack
// CHECK: mpc.reshape {{.*}} : tensor<8x8xbf16> to tensor<1x8x8xbf16>
// CHECK: mpc.concat {{.*}} -> tensor<2x8x8xbf16>
func.func private @pack(%x: tensor<8x8xf32>) -> tensor<2x8x8xf32> {
  %0 = mpc.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = mpc.reshape %0 {mpc.source = #mpc.source<op = "Pack", id = 1>} : tensor<8x8xf32> to tensor<1x8x8xf32>
  %2 = mpc.concat %1, %1 axis(0) {mpc.source = #mpc.source<op = "Pack", id = 1>} : (tensor<1x8x8xf32>, tensor<1x8x8xf32>) -> tensor<2x8x8xf32>
  %3 = mpc.sin %2 : tensor<2x8x8xf32>
  return %3 : tensor<2x8x8xf32>
}

// -----

// The source's name decides, not mpc's op kind: TensorFlow's Square is no Mul.
// GPU-LABEL: @square
// GPU: mpc.mul {{.*}}reason = "in no list"
// GPU: mpc.mul {{.*}}reason = "follows 16-bit 'matmul'"
// CHECK-LABEL: @square
// CHECK: mpc.mul {{.*}}rule = "follow"
func.func private @square(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = mpc.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = mpc.mul %0, %0 {mpc.source = #mpc.source<op = "Square", id = 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = mpc.mul %0, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = mpc.sin %1 : tensor<8x8xf32>
  %4 = mpc.sin %2 : tensor<8x8xf32>
  return %3, %4 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// torch's names mean nothing to TensorFlow: matmul and bias are two ops.
// CHECK-LABEL: @foreign
// CHECK: mpc.matmul {{.*}}rule = "low"
// CHECK: mpc.add {{.*}}rule = "follow"{{.*}} : (tensor<8x8xbf16>, tensor<8xbf16>) -> tensor<8x8xbf16>
func.func private @foreign(%x: tensor<8x8xf32>, %b: tensor<8xf32>) -> tensor<8x8xf32> {
  %0 = mpc.matmul %x, %x {mpc.source = #mpc.source<op = "linear", id = 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = mpc.add %0, %b {mpc.source = #mpc.source<op = "linear", id = 1>} : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %2 = mpc.sin %1 : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// -----

// A batch norm reads 16-bit images and has scale and statistics in f32.
// CHECK-LABEL: @batch_norm
// CHECK-SAME: %{{[^:]*}}: tensor<1x4x8x8xf32>, %{{[^:]*}}: tensor<4x4x1x1xf32>, %[[S:[^:]*]]: tensor<4xf32>)
// CHECK: %[[C:.*]] = mpc.conv
// CHECK: %[[H:.*]] = mpc.cast %[[C]] : tensor<1x4x8x8xf32> to tensor<1x4x8x8xbf16>
// CHECK: %[[W:.*]] = mpc.cast %[[H]] : tensor<1x4x8x8xbf16> to tensor<1x4x8x8xf32>
// CHECK: %[[N:.*]] = mpc.batch_norm %[[W]], %[[S]], %[[S]], %[[S]], %[[S]] epsilon(
// CHECK: %[[NH:.*]] = mpc.cast %[[N]] : tensor<1x4x8x8xf32> to tensor<1x4x8x8xbf16>
// CHECK: mpc.relu %[[NH]] {{.*}} : tensor<1x4x8x8xbf16>
func.func private @batch_norm(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x1x1xf32>, %s: tensor<4xf32>) -> tensor<1x4x8x8xf32> {
  %0 = mpc.conv %x, %w strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %1 = mpc.batch_norm %0, %s, %s, %s, %s epsilon(1.0e-5) : (tensor<1x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
  %2 = mpc.relu %1 : tensor<1x4x8x8xf32>
  %3 = mpc.sin %2 : tensor<1x4x8x8xf32>
  return %3 : tensor<1x4x8x8xf32>
}
