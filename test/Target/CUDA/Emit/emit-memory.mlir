// RUN: mpc-translate --mpc-to-cuda %s | FileCheck %s

#shared = #gpu.address_space<workgroup>
module attributes {gpu.container_module} {
gpu.module @kernels {

// Global memory is flat; static shared and private arrays have dimensions.
// CHECK-LABEL: MPC_KERNEL(128) void arrays(
// CHECK-NEXT:     const float *__restrict__ x,
// CHECK-NEXT:     float *__restrict__ y) {
// CHECK-NEXT:   MPC_SHARED(float, tile, [32][33]);
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   int thread = mpc::threadX();
// CHECK-NEXT:   int row = thread / 16;
// CHECK-NEXT:   int column = thread % 16;
// CHECK-NEXT:   tile[row][column] = x[row * 16 + column + 256];
// CHECK-NEXT:   mpc::barrier();
// CHECK-NEXT:   float sums[2][4];
// CHECK-NEXT:   sums[0][3] = tile[row][0];
// CHECK-NEXT:   y[row * 16 + column] = sums[0][3];
// CHECK-NEXT: }
gpu.func @arrays(%x: memref<4x8x16xf32>, %y: memref<8x16xf32>)
    workgroup(%tile : memref<32x33xf32, #shared> loc("tile")) kernel
    attributes {known_block_size = array<i32: 128, 1, 1>, mpc.inputs = 1 : i64} {
  %t = gpu.thread_id x
  %b = gpu.block_id x
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c16 = arith.constant 16 : index
  %row = arith.divui %t, %c16 : index loc("row")
  %column = arith.remui %t, %c16 : index loc("column")
  %v = memref.load %x[%c2, %row, %column] : memref<4x8x16xf32>
  memref.store %v, %tile[%row, %column] : memref<32x33xf32, #shared>
  gpu.barrier
  %w = memref.load %tile[%row, %c0] : memref<32x33xf32, #shared>
  %sums = memref.alloca() : memref<2x4xf32> loc("sums")
  memref.store %w, %sums[%c0, %c3] : memref<2x4xf32>
  %part = memref.subview %sums[0, 0] [1, 4] [1, 1] : memref<2x4xf32> to memref<4xf32, strided<[1]>>
  %u = memref.load %part[%c3] : memref<4xf32, strided<[1]>>
  memref.store %u, %y[%row, %column] : memref<8x16xf32>
  gpu.return
}

// Dynamic shared memory is bytes that views give a type.
// CHECK-LABEL: MPC_KERNEL(64) void views(
// CHECK-NEXT:     const mpc::half *__restrict__ x,
// CHECK-NEXT:     mpc::half *__restrict__ y) {
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   int thread = mpc::threadX();
// CHECK-NEXT:   MPC_DYNAMIC_SHARED_BYTES(shared, 2);
// CHECK-NEXT:   mpc::half *tile = reinterpret_cast<mpc::half *>(shared + 512);
// CHECK-NEXT:   tile[thread] = x[thread];
// CHECK-NEXT:   mpc::barrier();
// CHECK-NEXT:   y[thread] = tile[thread];
// CHECK-NEXT: }
gpu.func @views(%x: memref<64xf16>, %y: memref<64xf16>) kernel
    attributes {known_block_size = array<i32: 64, 1, 1>, mpc.inputs = 1 : i64, mpc.dynamic_shared = 640 : i64} {
  %t = gpu.thread_id x
  %c512 = arith.constant 512 : index
  %c64 = arith.constant 64 : index
  %bytes = gpu.dynamic_shared_memory : memref<?xi8, #shared>
  %tile = memref.view %bytes[%c512][] : memref<?xi8, #shared> to memref<64xf16, #shared> loc("tile")
  %v = memref.load %x[%t] : memref<64xf16>
  memref.store %v, %tile[%t] : memref<64xf16, #shared>
  gpu.barrier
  %w = memref.load %tile[%t] : memref<64xf16, #shared>
  memref.store %w, %y[%t] : memref<64xf16>
  gpu.return
}

// Vectors move whole; a value that a store may overwrite is read before it.
// CHECK-LABEL: MPC_KERNEL(64) void vectors(
// CHECK-NEXT:     const float *__restrict__ x,
// CHECK-NEXT:     float *__restrict__ y) {
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   int thread = mpc::threadX();
// CHECK-NEXT:   mpc::Vector<float, 4> loaded = mpc::load<4>(y + thread * 8);
// CHECK-NEXT:   mpc::store(y + thread * 8, mpc::load<4>(x + thread * 8 + 4) * 2.0f);
// CHECK-NEXT:   mpc::store(y + thread * 8 + 4, loaded);
// CHECK-NEXT: }
gpu.func @vectors(%x: memref<64x8xf32>, %y: memref<64x8xf32>) kernel
    attributes {known_block_size = array<i32: 64, 1, 1>, mpc.inputs = 1 : i64} {
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %two = arith.constant dense<2.0> : vector<4xf32>
  %v = vector.load %x[%t, %c4] : memref<64x8xf32>, vector<4xf32>
  %w = arith.mulf %v, %two : vector<4xf32>
  %old = vector.load %y[%t, %c0] : memref<64x8xf32>, vector<4xf32>
  vector.store %w, %y[%t, %c0] : memref<64x8xf32>, vector<4xf32>
  vector.store %old, %y[%t, %c4] : memref<64x8xf32>, vector<4xf32>
  gpu.return
}

// Two counters of a scratch buffer.
// CHECK-LABEL: MPC_KERNEL(1) void scratch(float *__restrict__ y, signed char *scratch) {
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   float *partial = reinterpret_cast<float *>(scratch + 128);
// CHECK-NEXT:   int *counter = reinterpret_cast<int *>(scratch);
// CHECK-NEXT:   mpc::fence();
// CHECK-NEXT:   int before = mpc::atomicAdd(counter, 1);
// CHECK-NEXT:   if (before == 0) {
// CHECK-NEXT:     mpc::fence();
// CHECK-NEXT:     y[0] = partial[0];
// CHECK-NEXT:   }
// CHECK-NEXT: }
gpu.func @scratch(%y: memref<1xf32>, %scratch: memref<256xi8> loc("scratch")) kernel
    attributes {known_block_size = array<i32: 1, 1, 1>, mpc.inputs = 0 : i64, mpc.scratch = 256 : i64} {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %partial = memref.view %scratch[%c128][] : memref<256xi8> to memref<32xf32> loc("partial")
  %counter = memref.view %scratch[%c0][] : memref<256xi8> to memref<1xi32> loc("counter")
  %one = arith.constant 1 : i32
  cuda.fence
  %ticket = memref.atomic_rmw addi %one, %counter[%c0] : (i32, memref<1xi32>) -> i32
  %zero = arith.constant 0 : i32
  %last = arith.cmpi eq, %ticket, %zero : i32
  scf.if %last {
    cuda.fence
    %p = memref.load %partial[%c0] : memref<32xf32>
    memref.store %p, %y[%c0] : memref<1xf32>
  }
  gpu.return
}

// Beyond 2^31 elements indices have 64 bits.
// CHECK-LABEL: MPC_KERNEL(256) void long_indices(
// CHECK-NEXT:     const signed char *__restrict__ x,
// CHECK-NEXT:     signed char *__restrict__ y) {
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   long long item = static_cast<long long>(mpc::blockX()) * 256 +
// CHECK-NEXT:       static_cast<long long>(mpc::threadX());
// CHECK-NEXT:   y[item] = x[item];
// CHECK-NEXT: }
gpu.func @long_indices(%x: memref<3000000000xi8>, %y: memref<3000000000xi8>) kernel
    attributes {known_block_size = array<i32: 256, 1, 1>, mpc.inputs = 1 : i64, mpc.index64} {
  %t = gpu.thread_id x
  %b = gpu.block_id x
  %c256 = arith.constant 256 : index
  %base = arith.muli %b, %c256 : index
  %i = arith.addi %base, %t : index loc("item")
  %v = memref.load %x[%i] : memref<3000000000xi8>
  memref.store %v, %y[%i] : memref<3000000000xi8>
  gpu.return
}

}
}
