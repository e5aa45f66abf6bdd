// RUN: mpc-opt --mpc-set-target=target=cuda:sm_80 --mpc-schedule-kernels --mpc-lower-kernels-to-gpu %s | FileCheck %s

// The right side is copied asynchronously while the block computes the norm's rows, the
// tiles of all eight steps. Accumulators are in registers afterwards, and only the right
// side is copied step by step.
// CHECK-LABEL: gpu.func @normed(
// CHECK-SAME: %[[X:[a-z0-9]+]]: memref<64x512xf32>, %[[S:[a-z0-9]+]]: memref<512xf32>, %[[W:[a-z0-9]+]]: memref<512x128xbf16>
// CHECK: %[[ROWS:.*]] = memref.view {{.*}} to memref<8x16x72xbf16
// CHECK: %[[RIGHT:.*]] = memref.view {{.*}} to memref<{{[2-4]}}x64x40xbf16
// CHECK: cuda.copy_async
// CHECK: cuda.commit_copies
// CHECK: tile.for_each %[[LINE:.*]] in (16) cycles(1.000000e+00) threads(#tile.threads<{{.*}}keep = registers, every_block = true>)
// CHECK:   %[[ROW:.*]] = arith.addi %{{.*}}, %[[LINE]]
// CHECK:   vector.load %[[X]][%[[ROW]], %{{.*}}]
// CHECK:   arith.truncf {{.*}} to vector<4xbf16>
// CHECK:   vector.store %{{.*}}, %[[ROWS]][%{{.*}}, %[[LINE]], %{{.*}}]
// CHECK: memref.alloca
// CHECK: scf.for %[[STEP:.*]] = %{{.*}} to %c8
// CHECK-NOT: load %[[X]]
// CHECK: memref.subview %[[ROWS]][%[[STEP]],
// CHECK: cuda.load_matrix
// CHECK: memref.subview %[[RIGHT]][
// CHECK: cuda.mma {{.*}} type(bf16)
func.func private @normed(%x: tensor<64x512xf32>, %s: tensor<512xf32>, %w: tensor<512x128xbf16>) -> tensor<64x128xf32> attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-6) : (tensor<64x512xf32>, tensor<512xf32>) -> tensor<64x512xf32>
  %1 = mpc.cast %0 : tensor<64x512xf32> to tensor<64x512xbf16>
  %2 = mpc.matmul %1, %w : (tensor<64x512xbf16>, tensor<512x128xbf16>) -> tensor<64x128xf32>
  return %2 : tensor<64x128xf32>
}

// Missing rows of the tile, and k beyond the depth, are zeros.
// CHECK-LABEL: gpu.func @few_rows(
// CHECK: %[[ROWS:.*]] = memref.view {{.*}} to memref<{{[0-9]+}}x16x{{[0-9]+}}xf16
// CHECK: %[[ZEROS:.*]] = arith.constant dense<0.000000e+00> : vector<4xf16>
// CHECK: vector.store %[[ZEROS]], %[[ROWS]]
// CHECK: %[[ENDS:.*]] = arith.constant dense<0.000000e+00> : vector<4xf16>
// CHECK: vector.store %[[ENDS]], %[[ROWS]]
// CHECK: tile.for_each %{{.*}} in (3)
func.func private @few_rows(%x: tensor<3x72xf32>, %s: tensor<72xf32>, %w: tensor<72x64xf16>) -> tensor<3x64xf32> attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.layer_norm %x, %s, %s axis(1) epsilon(1.0e-6) : (tensor<3x72xf32>, tensor<72xf32>, tensor<72xf32>) -> tensor<3x72xf32>
  %1 = mpc.cast %0 : tensor<3x72xf32> to tensor<3x72xf16>
  %2 = mpc.matmul %1, %w : (tensor<3x72xf16>, tensor<72x64xf16>) -> tensor<3x64xf32>
  return %2 : tensor<3x64xf32>
}
