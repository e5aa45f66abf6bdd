// The forms of the cuda dialect's ops.
// RUN: mpc-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: func.func @functions
func.func @functions(%x: vector<4xf32>, %y: f32) -> (vector<4xf32>, f32) {
  // CHECK: cuda.call "gelu"(%{{.*}}) : (vector<4xf32>) -> vector<4xf32>
  %0 = cuda.call "gelu"(%x) : (vector<4xf32>) -> vector<4xf32>
  // CHECK: cuda.call "warpSum"(%{{.*}}) : (f32) -> f32
  %1 = cuda.call "warpSum"(%y) : (f32) -> f32
  return %0, %1 : vector<4xf32>, f32
}

// CHECK-LABEL: func.func @matrices
func.func @matrices(%tile: memref<64x32xf16, #gpu.address_space<workgroup>>, %x: memref<64x32xf16>,
                    %i: index, %n: i32) {
  %a = memref.alloca() : memref<4xi32>
  %b = memref.alloca() : memref<2xi32>
  %sums = memref.alloca() : memref<4xf32>
  // CHECK: cuda.copy_async %{{.*}}[%{{.*}}, %{{.*}}], %{{.*}}[%{{.*}}, %{{.*}}] bytes(16) valid(%{{.*}})
  cuda.copy_async %tile[%i, %i], %x[%i, %i] bytes(16) valid(%n)
    : memref<64x32xf16, #gpu.address_space<workgroup>>, memref<64x32xf16>
  // CHECK: cuda.commit_copies
  cuda.commit_copies
  // CHECK: cuda.wait_copies 1
  cuda.wait_copies 1
  // CHECK: cuda.sync_warp
  cuda.sync_warp
  // CHECK: cuda.fence
  cuda.fence
  // CHECK: cuda.load_matrix %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] :
  cuda.load_matrix %a, %tile[%i, %i] : memref<4xi32>, memref<64x32xf16, #gpu.address_space<workgroup>>
  // CHECK: cuda.load_matrix {{.*}} transposed :
  cuda.load_matrix %b, %tile[%i, %i] transposed : memref<2xi32>, memref<64x32xf16, #gpu.address_space<workgroup>>
  // CHECK: cuda.mma %{{.*}}, %{{.*}}, %{{.*}} type(f16) : memref<4xf32>, memref<4xi32>, memref<2xi32>
  cuda.mma %sums, %a, %b type(f16) : memref<4xf32>, memref<4xi32>, memref<2xi32>
  // CHECK: cuda.mma %{{.*}}, %{{.*}}, %{{.*}} type(f8E4M3FN, f8E5M2) : memref<4xf32>, memref<4xi32>, memref<2xi32>
  cuda.mma %sums, %a, %b type(f8E4M3FN, f8E5M2) : memref<4xf32>, memref<4xi32>, memref<2xi32>
  return
}

// CHECK-LABEL: @blocks_that_meet
func.func @blocks_that_meet(%counters: memref<4xi32>, %i: index, %first: i1) {
  // CHECK: cuda.grid_barrier %{{.*}}[%{{.*}}] first(%{{.*}}) blocks(64) : memref<4xi32>
  cuda.grid_barrier %counters[%i] first(%first) blocks(64) : memref<4xi32>
  return
}
