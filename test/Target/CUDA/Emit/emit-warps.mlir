// RUN: mpc-translate --mpc-to-cuda %s | FileCheck %s

#shared = #gpu.address_space<workgroup>
module attributes {gpu.container_module} {
gpu.module @kernels {

// Every lane executes warp-level operations: they are not moved.
// CHECK-LABEL: MPC_KERNEL(32) void reductions(
// CHECK-NEXT:     const float *__restrict__ x,
// CHECK-NEXT:     float *__restrict__ y) {
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   int lane = mpc::lane();
// CHECK-NEXT:   float sum = mpc::warpSum(x[lane]);
// CHECK-NEXT:   float largest = mpc::warpMax(sum, 8);
// CHECK-NEXT:   float other = mpc::shuffleXor(largest, 1);
// CHECK-NEXT:   y[lane] = other;
// CHECK-NEXT: }
gpu.func @reductions(%x: memref<32xf32>, %y: memref<32xf32>) kernel
    attributes {known_block_size = array<i32: 32, 1, 1>, mpc.inputs = 1 : i64} {
  %lane = gpu.lane_id
  %v = memref.load %x[%lane] : memref<32xf32>
  %sum = gpu.subgroup_reduce add %v : (f32) -> f32
  %most = gpu.subgroup_reduce maximumf %sum cluster(size = 8) : (f32) -> f32
  %one = arith.constant 1 : i32
  %width = arith.constant 32 : i32
  %other, %valid = gpu.shuffle xor %most, %one, %width : f32
  memref.store %other, %y[%lane] : memref<32xf32>
  gpu.return
}

// CHECK-LABEL: MPC_KERNEL(32) void tiles(
// CHECK-NEXT:     const mpc::bfloat16 *__restrict__ x,
// CHECK-NEXT:     float *__restrict__ y) {
// CHECK-NEXT:   MPC_SHARED(mpc::bfloat16, tile, [16][24]);
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   int left[2][4];
// CHECK-NEXT:   int right[2];
// CHECK-NEXT:   float sums[4];
// CHECK-NEXT:   mpc::copyAsync<16>(&tile[0][8], x + 8, 8);
// CHECK-NEXT:   mpc::commitCopies();
// CHECK-NEXT:   mpc::waitCopies<1>();
// CHECK-NEXT:   mpc::syncWarp();
// CHECK-NEXT:   int row = mpc::lane() % 16;
// CHECK-NEXT:   mpc::loadMatrix(left[1], &tile[row][8]);
// CHECK-NEXT:   mpc::loadMatrixTransposed(right, &tile[row][0]);
// CHECK-NEXT:   mpc::mma<mpc::bfloat16>(sums, left[1], right);
// CHECK-NEXT:   mpc::mmaTf32(sums, left[1], right);
// CHECK-NEXT: }
gpu.func @tiles(%a: memref<16x16xbf16>, %d: memref<32x4xf32>)
    workgroup(%tile : memref<16x24xbf16, #shared> loc("tile")) kernel
    attributes {known_block_size = array<i32: 32, 1, 1>, mpc.inputs = 1 : i64} {
  %lane = gpu.lane_id
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %left = memref.alloca() : memref<2x4xi32> loc("left")
  %right = memref.alloca() : memref<2xi32> loc("right")
  %sums = memref.alloca() : memref<4xf32> loc("sums")
  %valid = arith.constant 8 : i32
  cuda.copy_async %tile[%c0, %c8], %a[%c0, %c8] bytes(16) valid(%valid) : memref<16x24xbf16, #shared>, memref<16x16xbf16>
  cuda.commit_copies
  cuda.wait_copies 1
  cuda.sync_warp
  %row = arith.remui %lane, %c16 : index loc("row")
  %first = memref.subview %left[1, 0] [1, 4] [1, 1] : memref<2x4xi32> to memref<4xi32, strided<[1], offset: 4>>
  cuda.load_matrix %first, %tile[%row, %c8] : memref<4xi32, strided<[1], offset: 4>>, memref<16x24xbf16, #shared>
  cuda.load_matrix %right, %tile[%row, %c0] transposed : memref<2xi32>, memref<16x24xbf16, #shared>
  cuda.mma %sums, %first, %right type(bf16) : memref<4xf32>, memref<4xi32, strided<[1], offset: 4>>, memref<2xi32>
  cuda.mma %sums, %first, %right type(tf32) : memref<4xf32>, memref<4xi32, strided<[1], offset: 4>>, memref<2xi32>
  gpu.return
}

// CHECK-LABEL: MPC_KERNEL(128) void warpgroup(float *__restrict__ y) {
// CHECK-NEXT:   MPC_SHARED(mpc::half, a, [64][64]);
// CHECK-NEXT:   MPC_SHARED(mpc::half, b, [2][64][64]);
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   float sums[16][4];
// CHECK-NEXT:   mpc::fenceShared();
// CHECK-NEXT:   mpc::warpgroupFence();
// CHECK-NEXT:   mpc::warpgroupMma<mpc::half, false,
// CHECK-NEXT:       true>(sums, &a[0][16], &b[0][16][0], mpc::threadX() != 0);
// CHECK-NEXT:   mpc::warpgroupCommit();
// CHECK-NEXT:   mpc::warpgroupWait<1>();
gpu.func @warpgroup(%d: memref<64x128xf32>)
    workgroup(%a : memref<64x64xf16, #shared> loc("a"), %b : memref<2x64x64xf16, #shared> loc("b")) kernel
    attributes {known_block_size = array<i32: 128, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %thread = gpu.thread_id x
  %kept = arith.cmpi ne, %thread, %c0 : index
  %sums = memref.alloca() : memref<16x4xf32> loc("sums")
  cuda.fence_shared
  cuda.warpgroup_fence
  cuda.warpgroup_mma %sums, %a[%c0, %c16], %b[%c0, %c16, %c0] transposed keep(%kept) type(f16) : memref<16x4xf32>, memref<64x64xf16, #shared>, memref<2x64x64xf16, #shared>
  cuda.warpgroup_commit
  cuda.warpgroup_wait 1
  gpu.return
}

}
}
