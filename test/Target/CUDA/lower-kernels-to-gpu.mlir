// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-schedule-kernels --mpc-lower-kernels-to-gpu --mpc-lower-tiles-to-threads --mlir-print-debuginfo --mlir-print-local-scope --split-input-file | FileCheck %s

// Inputs, then outputs; a thread's vector; the model's names on arguments and
// on the values of its ops.

// CHECK: gpu.module @kernels
// CHECK: gpu.func @bias_gelu(%[[X:.*]]: memref<64x32xf32> loc("hidden"), %[[B:.*]]: memref<32xbf16> loc("bias"), %[[Y:.*]]: memref<64x32xf32> loc("act"))
// CHECK-SAME: known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 4, 1, 1>, {{.*}}mpc.inputs = 2
// CHECK-NOT: scf.if
// CHECK: %[[ROW:.*]] = arith.divui {{.*}} loc("row")
// CHECK: %[[XS:.*]] = vector.load %[[X]][%{{.*}}, %[[COLUMN:.*]]] : memref<64x32xf32>, vector<8xf32>
// CHECK: %[[BS:.*]] = vector.load %[[B]][%[[COLUMN]]] : memref<32xbf16>, vector<8xbf16>
// CHECK: %[[WIDE:.*]] = arith.extf %[[BS]] : vector<8xbf16> to vector<8xf32>
// CHECK: %[[SUM:.*]] = arith.addf %[[XS]], %[[WIDE]] : vector<8xf32> loc("sum")
// CHECK: %[[ACT:.*]] = cuda.call "gelu"(%[[SUM]]) : (vector<8xf32>) -> vector<8xf32> loc("act")
// CHECK: vector.store %[[ACT]], %[[Y]]
// CHECK-NOT: func.func
func.func private @bias_gelu(%x: tensor<64x32xf32> loc("hidden"), %b: tensor<32xbf16> loc("bias"))
    -> tensor<64x32xf32> attributes {mpc.kernel_kind = "elementwise"} {
  %0 = mpc.cast %b : tensor<32xbf16> to tensor<32xf32>
  %1 = mpc.add %x, %0 : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64x32xf32> loc("sum")
  %2 = mpc.gelu %1 : tensor<64x32xf32> loc("act")
  return %2 : tensor<64x32xf32>
}

// -----

// A tile with padded rows, read along the input and written along the result.

// CHECK-LABEL: gpu.func @turned
// CHECK-SAME: workgroup(%[[TILE:.*]] : memref<32x33xf32, #gpu.address_space<workgroup>>
// CHECK: scf.for
// CHECK: memref.store %{{.*}}, %[[TILE]][%[[ROW:.*]], %[[COLUMN:.*]]]
// CHECK: mpc.unroll
// CHECK: gpu.barrier
// CHECK: memref.load %[[TILE]][%[[COLUMN]], %{{.*}}]
func.func private @turned(%x: tensor<96x64xf32>) -> tensor<64x96xf32>
    attributes {mpc.kernel_kind = "elementwise"} {
  %0 = mpc.transpose %x [1, 0] : tensor<96x64xf32> to tensor<64x96xf32>
  return %0 : tensor<64x96xf32>
}

// -----

// Scratch memory is the last argument; phases are separated by a barrier.

// CHECK-LABEL: gpu.func @phases
// CHECK-SAME: memref<240xi8> loc("scratch")
// CHECK-SAME: mpc.scratch = 240
// CHECK: gpu.barrier
// CHECK-NOT: gpu.barrier
func.func private @phases(%x: tensor<6x10xf32>) -> tensor<6x10xf32>
    attributes {mpc.kernel_kind = "opaque"} {
  %0 = mpc.cumsum %x axis(1) : tensor<6x10xf32>
  %1 = mpc.cumsum %0 axis(0) : tensor<6x10xf32>
  return %1 : tensor<6x10xf32>
}

// -----

// More elements than 32-bit indices count.

// CHECK-LABEL: gpu.func @huge
// CHECK-SAME: mpc.index64
func.func private @huge(%x: tensor<65536x65536xi8>) -> tensor<65536x65536xi8>
    attributes {mpc.kernel_kind = "elementwise"} {
  %0 = mpc.neg %x : tensor<65536x65536xi8>
  return %0 : tensor<65536x65536xi8>
}
