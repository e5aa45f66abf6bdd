// RUN: mpc-opt --mpc-merge-fused-kernels --split-input-file --verify-diagnostics %s | FileCheck %s

// Two grids in sequence: 3 x 2 blocks of 64 threads, then 4 of 128. The first has a
// static array after 256 bytes of dynamic memory, both have scratch.

// CHECK-LABEL: gpu.func @k(
// CHECK-SAME: %[[X:.*]]: memref<8xf32>, %[[Y:.*]]: memref<8xf32>, %[[U:.*]]: memref<8xf32>, %[[V:.*]]: memref<8xf32>, %[[SCRATCH:.*]]: memref<256xi8>)
// CHECK-SAME: known_block_size = array<i32: 128, 1, 1>, known_grid_size = array<i32: 10, 1, 1>
// CHECK-SAME: mpc.description = "first\0A\0Asecond"
// CHECK-SAME: mpc.dynamic_shared = 320 : i64
// CHECK-SAME: mpc.inputs = 2 : i64
// CHECK-SAME: mpc.scratch = 256 : i64
// CHECK: %[[BLOCK:.*]] = gpu.block_id x
// CHECK: %[[THREAD:.*]] = gpu.thread_id x
// CHECK: %[[SHARED:.*]] = gpu.dynamic_shared_memory
// CHECK: %[[OWN:.*]] = arith.cmpi ult, %[[BLOCK]], %c6
// CHECK: %[[FEW:.*]] = arith.cmpi ult, %[[THREAD]], %c64
// CHECK: %[[BOTH:.*]] = arith.andi %[[OWN]], %[[FEW]]
// CHECK: scf.if %[[BOTH]] {
// CHECK:   arith.remui %[[BLOCK]], %c3
// CHECK:   %[[ROW:.*]] = arith.divui %[[BLOCK]], %c3
// CHECK:   memref.view %[[SHARED]][%c256][] {{.*}} to memref<16xf32
// CHECK:   memref.load %[[Y]]
// CHECK:   memref.store %{{.*}}, %[[V]]
// CHECK: }
// CHECK: %[[LOCAL:.*]] = arith.subi %[[BLOCK]], %c6
// CHECK: %[[REST:.*]] = arith.cmpi ult, %[[LOCAL]], %c4
// CHECK: scf.if %[[REST]] {
// CHECK:   memref.view %[[SCRATCH]][%c128{{.*}}][] : memref<256xi8> to memref<16xf32>
// CHECK:   memref.load %[[X]]
// CHECK:   memref.store %{{.*}}, %[[U]]
// CHECK-NOT: mpc.fused_part
gpu.module @kernels {
  gpu.func @k_part0(%y: memref<8xf32>, %v: memref<8xf32>, %scratch: memref<100xi8>) workgroup(%tile : memref<16xf32, #gpu.address_space<workgroup>>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 3, 2, 1>, mpc.inputs = 1, mpc.scratch = 100, mpc.dynamic_shared = 256,
                  mpc.description = "first", mpc.fused_part = {inputs = array<i64: 1>, kernel = "k", outputs = array<i64: 1>}} {
    %c0 = arith.constant 0 : index
    %x = gpu.block_id x
    %row = gpu.block_id y
    %at = arith.addi %x, %row : index
    %own = memref.view %scratch[%c0][] : memref<100xi8> to memref<25xf32>
    %a = memref.load %y[%at] : memref<8xf32>
    memref.store %a, %own[%at] : memref<25xf32>
    memref.store %a, %tile[%at] : memref<16xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    memref.store %a, %v[%at] : memref<8xf32>
    gpu.return
  }
  gpu.func @k_part1(%x: memref<8xf32>, %u: memref<8xf32>, %scratch: memref<64xi8>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>, known_grid_size = array<i32: 4, 1, 1>, mpc.inputs = 1, mpc.scratch = 64,
                  mpc.description = "second", mpc.fused_part = {inputs = array<i64: 0>, kernel = "k", outputs = array<i64: 0>}} {
    %c0 = arith.constant 0 : index
    %at = gpu.block_id x
    %own = memref.view %scratch[%c0][] : memref<64xi8> to memref<16xf32>
    %a = memref.load %x[%at] : memref<8xf32>
    memref.store %a, %own[%at] : memref<16xf32>
    memref.store %a, %u[%at] : memref<8xf32>
    gpu.return
  }
}

// -----

// A scratch buffer that is used without a view cannot be moved.
gpu.module @kernels {
  gpu.func @k_part0(%x: memref<8xf32>, %scratch: memref<8xi8>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 1, 1, 1>, mpc.inputs = 0, mpc.scratch = 8,
                  mpc.fused_part = {inputs = array<i64>, kernel = "k", outputs = array<i64: 0>}} {
    %c0 = arith.constant 0 : index
    // expected-error @below {{'memref.load' op uses the scratch buffer of a fused part other than through a view}}
    %a = memref.load %scratch[%c0] : memref<8xi8>
    gpu.return
  }
}

// -----

// Every block recomputes the producer, in memory of its own.
// CHECK-LABEL: gpu.func @led(
// CHECK-SAME: %[[X:.*]]: memref<8xf32>, %[[Z:.*]]: memref<8xf32>, %[[SCRATCH:.*]]: memref<512xi8>)
// CHECK-SAME: known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 4, 1, 1>
// CHECK-SAME: mpc.scratch = 512
// CHECK: %[[BLOCK:.*]] = gpu.block_id x
// CHECK: %[[SHIFT:.*]] = arith.muli %[[BLOCK]], %c128
// CHECK: %[[OWN:.*]] = memref.view %[[SCRATCH]]
// CHECK: memref.load %[[X]]
// CHECK: memref.store %{{.*}}, %[[OWN]]
// CHECK-NEXT: gpu.barrier
// CHECK: arith.cmpi ult, %[[BLOCK]], %c4
// CHECK: %[[SAME:.*]] = memref.view %[[SCRATCH]]
// CHECK: memref.load %[[SAME]]
// CHECK: memref.store %{{.*}}, %[[Z]]
gpu.module @kernels {
  gpu.func @led_part0(%x: memref<8xf32>, %y: memref<8xf32>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 1, 1, 1>, mpc.inputs = 1,
                  mpc.fused_part = {inputs = array<i64: 0>, kernel = "led", outputs = array<i64: -1>}} {
    %c0 = arith.constant 0 : index
    %a = memref.load %x[%c0] : memref<8xf32>
    memref.store %a, %y[%c0] : memref<8xf32>
    gpu.return
  }
  gpu.func @led_part1(%y: memref<8xf32>, %z: memref<8xf32>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 4, 1, 1>, mpc.inputs = 1,
                  mpc.fused_part = {inputs = array<i64: -1>, kernel = "led", outputs = array<i64: 0>}} {
    %at = gpu.block_id x
    %a = memref.load %y[%at] : memref<8xf32>
    memref.store %a, %z[%at] : memref<8xf32>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  // expected-error @below {{is a producer of a fused kernel and has an unsupported launch of 2 blocks of 64 threads}}
  gpu.func @wide_part0(%x: memref<8xf32>, %y: memref<8xf32>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 2, 1, 1>, mpc.inputs = 1,
                  mpc.fused_part = {inputs = array<i64: 0>, kernel = "wide", outputs = array<i64: -1>}} {
    gpu.return
  }
  gpu.func @wide_part1(%y: memref<8xf32>, %z: memref<8xf32>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 4, 1, 1>, mpc.inputs = 1,
                  mpc.fused_part = {inputs = array<i64: -1>, kernel = "wide", outputs = array<i64: 0>}} {
    gpu.return
  }
}

// -----

// Not where the consumer has more threads, which would miss the producer's barriers.
gpu.module @kernels {
  // expected-error @below {{is a producer of a fused kernel and has an unsupported launch of 1 blocks of 32 threads}}
  gpu.func @few_part0(%x: memref<8xf32>, %y: memref<8xf32>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>, known_grid_size = array<i32: 1, 1, 1>, mpc.inputs = 1,
                  mpc.fused_part = {inputs = array<i64: 0>, kernel = "few", outputs = array<i64: -1>}} {
    gpu.return
  }
  gpu.func @few_part1(%y: memref<8xf32>, %z: memref<8xf32>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 4, 1, 1>, mpc.inputs = 1,
                  mpc.fused_part = {inputs = array<i64: -1>, kernel = "few", outputs = array<i64: 0>}} {
    gpu.return
  }
}

// -----

// Waiting consumer blocks have higher block indices than the producer's blocks; they may have more threads, and the
// last consumer block to proceed resets the counters.
// CHECK-LABEL: gpu.func @waits(
// CHECK-SAME: %[[X:.*]]: memref<8xf32>, %[[Z:.*]]: memref<8xf32>, %[[SCRATCH:.*]]: memref<256xi8>)
// CHECK-SAME: known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 6, 1, 1>
// CHECK: %[[COUNTERS:.*]] = memref.view %[[SCRATCH]][%c128{{.*}}][] : memref<256xi8> to memref<3xi32>
// CHECK: memref.atomic_rmw addi %c1_i32{{.*}}, %[[COUNTERS]][%c0
// CHECK: gpu.barrier
// CHECK: %[[TICKET:.*]] = arith.index_cast
// CHECK: %[[MAKES:.*]] = arith.cmpi ult, %[[TICKET]], %c2
// CHECK: %[[FEW:.*]] = arith.cmpi ult, %{{.*}}, %c32
// CHECK: %[[BOTH:.*]] = arith.andi %[[MAKES]], %[[FEW]]
// CHECK: scf.if %[[BOTH]] {
// CHECK:   memref.load %[[X]][%[[TICKET]]]
// CHECK:   memref.store
// CHECK-NEXT: cuda.fence
// CHECK-NEXT: gpu.barrier
// CHECK:   memref.atomic_rmw addi %c1_i32{{.*}}, %[[COUNTERS]][%c1
// CHECK: }
// CHECK: %[[LOCAL:.*]] = arith.subi %[[TICKET]], %c2
// CHECK: %[[READS:.*]] = arith.cmpi ult, %[[LOCAL]], %c4
// CHECK: scf.if %[[READS]] {
// CHECK:   scf.while
// CHECK:     %[[DONE:.*]] = memref.atomic_rmw addi %c0_i32{{.*}}, %[[COUNTERS]][%c1
// CHECK:     arith.cmpi slt, %[[DONE]], %c2_i32
// CHECK:   cuda.fence
// CHECK:   memref.atomic_rmw addi %c1_i32{{.*}}, %[[COUNTERS]][%c2
// CHECK:   gpu.barrier
// CHECK-NEXT: cuda.fence
// CHECK:   arith.cmpi eq, %{{.*}}, %c3_i32
// CHECK-COUNT-3: memref.store %c0_i32{{.*}}, %[[COUNTERS]]
// CHECK:   memref.store %{{.*}}, %[[Z]][%[[LOCAL]]]
gpu.module @kernels {
  gpu.func @waits_part0(%x: memref<8xf32>, %y: memref<8xf32>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>, known_grid_size = array<i32: 2, 1, 1>, mpc.inputs = 1,
                  mpc.fused_part = {awaited, inputs = array<i64: 0>, kernel = "waits", outputs = array<i64: -1>}} {
    %at = gpu.block_id x
    %a = memref.load %x[%at] : memref<8xf32>
    memref.store %a, %y[%at] : memref<8xf32>
    gpu.return
  }
  gpu.func @waits_part1(%y: memref<8xf32>, %z: memref<8xf32>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 4, 1, 1>, mpc.inputs = 1,
                  mpc.fused_part = {inputs = array<i64: -1>, kernel = "waits", outputs = array<i64: 0>}} {
    %c0 = arith.constant 0 : index
    %at = gpu.block_id x
    %a = memref.load %y[%c0] : memref<8xf32>
    memref.store %a, %z[%at] : memref<8xf32>
    gpu.return
  }
}
