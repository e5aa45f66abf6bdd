// RUN: mpc-opt --mpc-set-target=target=cuda:sm_80 --mpc-schedule-kernels --mpc-lower-kernels-to-gpu %s | FileCheck %s
// RUN: mpc-opt --mpc-set-target=target=cuda:sm_75 --mpc-schedule-kernels --mpc-lower-kernels-to-gpu %s | FileCheck %s --check-prefix=OLD

// Tiles are copied asynchronously some stages ahead; the warps multiply them,
// pass accumulators through shared memory and store whole vectors.
// CHECK-LABEL: gpu.func @product(
// CHECK-SAME: %[[X:[a-z0-9]+]]: memref<64x512xbf16>, %[[W:[a-z0-9]+]]: memref<512x128xbf16>, %[[B:[a-z0-9]+]]: memref<128xf32>, %[[Y:[a-z0-9]+]]: memref<64x128xbf16>
// CHECK-DAG: %[[A:.*]] = memref.reinterpret_cast %[[X]]
// CHECK-DAG: %[[R:.*]] = memref.reinterpret_cast %[[W]]
// CHECK: %[[FROM_A:.*]] = memref.subview %[[A]]
// CHECK: cuda.copy_async %{{.*}}, %[[FROM_A]][%{{.*}}] bytes(16)
// CHECK: %[[FROM_R:.*]] = memref.subview %[[R]]
// CHECK: cuda.copy_async %{{.*}}, %[[FROM_R]][%{{.*}}] bytes(16)
// CHECK: cuda.commit_copies
// CHECK: scf.for
// CHECK: cuda.wait_copies 2
// CHECK-NEXT: gpu.barrier
// CHECK: cuda.commit_copies
// CHECK: cuda.load_matrix
// CHECK: cuda.load_matrix {{.*}} transposed
// CHECK: cuda.mma {{.*}} type(bf16)
// CHECK: {mpc.unroll}
// CHECK: gpu.barrier
// CHECK: cuda.sync_warp
// CHECK: vector.load %[[B]]{{.*}} vector<8xf32>
// CHECK: vector.store %{{.*}}, %[[Y]]{{.*}} vector<8xbf16>

// bf16 is upconverted there, and multiplied by fused multiply-adds.
// OLD-LABEL: gpu.func @product(
// OLD-NOT: cuda.copy_async
// OLD-NOT: cuda.mma
// OLD: arith.extf %{{.*}} : vector<4xbf16> to vector<4xf32>
// OLD: math.fma
func.func private @product(%x: tensor<64x512xbf16>, %w: tensor<512x128xbf16>, %b: tensor<128xf32>) -> tensor<64x128xbf16> attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %w : (tensor<64x512xbf16>, tensor<512x128xbf16>) -> tensor<64x128xf32>
  %1 = mpc.add %0, %b : (tensor<64x128xf32>, tensor<128xf32>) -> tensor<64x128xf32>
  %2 = mpc.cast %1 : tensor<64x128xf32> to tensor<64x128xbf16>
  return %2 : tensor<64x128xbf16>
}

// Pixels outside the image are zeros without a memory access.
// CHECK-LABEL: gpu.func @padded_convolution(
// CHECK: arith.cmpi ult
// CHECK: arith.andi
// CHECK: %[[BYTES:.*]] = arith.select {{.*}} : i32
// CHECK: cuda.copy_async {{.*}} bytes(16) valid(%[[BYTES]])
// CHECK: cuda.mma {{.*}} type(f16)

// f16 has Tensor Cores on older architectures too; tiles pass through registers.
// OLD-LABEL: gpu.func @padded_convolution(
// OLD-NOT: cuda.copy_async
// OLD: vector.store {{.*}} vector<8xf16>
// OLD: cuda.mma {{.*}} type(f16)
func.func private @padded_convolution(%x: tensor<1x8x8x16xf16>, %v: tensor<16x3x3x16xf16>) -> tensor<1x8x8x16xf32> attributes {mpc.kernel_kind = "convolution"} {
  %w = mpc.transpose %v [0, 3, 1, 2] : tensor<16x3x3x16xf16> to tensor<16x16x3x3xf16>
  %0 = mpc.conv %x, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) : (tensor<1x8x8x16xf16>, tensor<16x16x3x3xf16>) -> tensor<1x8x8x16xf32>
  return %0 : tensor<1x8x8x16xf32>
}

// Tiles of a one-channel image and its filter are gathered element by element and rounded (im2col).
// CHECK-LABEL: gpu.func @one_channel(
// CHECK-SAME: %[[X:[a-z0-9]+]]: memref<4x28x28x1xf32>, %[[W:[a-z0-9]+]]: memref<32x1x3x3xbf16>
// CHECK: memref.load %[[X]]
// CHECK: arith.truncf
// CHECK: cuda.mma {{.*}} type(bf16)
func.func private @one_channel(%x: tensor<4x28x28x1xf32>, %w: tensor<32x1x3x3xbf16>) -> tensor<4x26x26x32xf32> attributes {mpc.kernel_kind = "convolution"} {
  %0 = mpc.cast %x : tensor<4x28x28x1xf32> to tensor<4x28x28x1xbf16>
  %1 = mpc.conv %0, %w strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<4x28x28x1xbf16>, tensor<32x1x3x3xbf16>) -> tensor<4x26x26x32xf32>
  return %1 : tensor<4x26x26x32xf32>
}

// Split-K: a long k over few tiles is split over blocks; the last-arriving block reduces.
// CHECK-LABEL: gpu.func @split(
// CHECK-SAME: memref<{{[0-9]+}}xi8>
// CHECK: cuda.mma
// CHECK: cuda.fence
// CHECK: gpu.barrier
// CHECK: memref.atomic_rmw addi
// CHECK: gpu.barrier
// CHECK: scf.if
// CHECK: cuda.fence
// CHECK: scf.for {{.*}} iter_args
// CHECK: arith.addf
func.func private @split(%x: tensor<16x4096xbf16>, %w: tensor<4096x32xbf16>) -> tensor<16x32xf32> attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %w : (tensor<16x4096xbf16>, tensor<4096x32xbf16>) -> tensor<16x32xf32>
  return %0 : tensor<16x32xf32>
}
