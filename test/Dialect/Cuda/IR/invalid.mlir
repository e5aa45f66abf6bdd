// Constraints of the cuda dialect's ops, by their numbers in CudaOps.td.
// RUN: mpc-opt %s --verify-diagnostics --split-input-file

func.func @mma_c1_sums(%sums: memref<2xf32>, %a: memref<4xi32>, %b: memref<2xi32>) {
  // expected-error @below {{needs accumulators of type memref<4xf32>, found 'memref<2xf32>'}}
  cuda.mma %sums, %a, %b type(f16) : memref<2xf32>, memref<4xi32>, memref<2xi32>
  return
}

// -----

func.func @mma_c1_fragments(%sums: memref<4xf32>, %a: memref<2xi32>, %b: memref<1xi32>) {
  // expected-error @below {{has no instruction for 'bf16' fragments of 'memref<2xi32>' and 'memref<1xi32>'}}
  cuda.mma %sums, %a, %b type(bf16) : memref<4xf32>, memref<2xi32>, memref<1xi32>
  return
}

// -----

func.func @load_matrix_c1_tiles(%tiles: memref<3xi32>, %x: memref<8xf16, #gpu.address_space<workgroup>>, %i: index) {
  // expected-error @below {{loads 1, 2 or 4 tiles into words of i32, found 'memref<3xi32>'}}
  cuda.load_matrix %tiles, %x[%i] : memref<3xi32>, memref<8xf16, #gpu.address_space<workgroup>>
  return
}

// -----

func.func @load_matrix_c1_space(%tiles: memref<4xi32>, %x: memref<8xf16>, %i: index) {
  // expected-error @below {{needs a buffer in workgroup memory, found 'memref<8xf16>'}}
  cuda.load_matrix %tiles, %x[%i] : memref<4xi32>, memref<8xf16>
  return
}

// -----

func.func @copy_async_c1(%to: memref<8xf16, #gpu.address_space<workgroup>>, %from: memref<8xf16>, %i: index) {
  // expected-error @below {{copies 4, 8 or 16 bytes, found 2}}
  cuda.copy_async %to[%i], %from[%i] bytes(2) : memref<8xf16, #gpu.address_space<workgroup>>, memref<8xf16>
  return
}

// -----

func.func @grid_barrier_c1(%counters: memref<4xi32>, %i: index, %first: i1) {
  // expected-error @below {{synchronizes 2 or more blocks, found 1}}
  cuda.grid_barrier %counters[%i] first(%first) blocks(1) : memref<4xi32>
  return
}
