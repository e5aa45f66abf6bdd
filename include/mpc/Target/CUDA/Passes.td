//===- Passes.td - passes of the CUDA backend ---------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PASSES
#define MPC_TARGET_CUDA_PASSES

include "mlir/Pass/PassBase.td"

def FuseLaunchesPass : Pass<"mpc-fuse-launches", "::mlir::func::FuncOp"> {
  let summary = "Fuse independent launches horizontally";
  let description = [{
    Horizontal fusion: fusions that do not depend on each other become one fusion that
    holds them, and their blocks run concurrently in one launch. The outer fusion takes
    the position of the first.

    ```mlir
    %0 = mpc.fusion kind(row) name("a") (...) { ... }
    %1 = mpc.fusion kind(contraction) name("b") (...) { ... }
    // becomes
    %0:2 = mpc.fusion kind(row) name("a_b") (...) {
      %2 = mpc.fusion kind(row) name("a") (...) { ... }
      %3 = mpc.fusion kind(contraction) name("b") (...) { ... }
      mpc.yield %2, %3
    }
    ```

    Fused if all their blocks can be co-resident, or as many blocks of each as without
    fusion, by the resources of the schedules of mpc-schedule-kernels.

    Producer-consumer fusion: a fusion of one block with a single consumer is fused into
    it and recomputed by each block of the consumer. An attention whose blocks are
    co-resident with those of its only consumer runs concurrently with the consumer,
    whose blocks wait; it has the attribute `mpc.awaited`.

    Contract in: after mpc-outline-fusions, before mpc-plan. Contract out: the same
    fusions, some nested one level deep, with reshapes between producers and consumers.
    Numerics: none.
    Left alone: updates and checks, kernels with a grid barrier, replacements of
    function arguments, and pairs of long kernels.
    Executed example: test/Target/CUDA/fuse-launches.mlir.
  }];
  let statistics = [
    Statistic<"numJoined", "num-joined", "Number of launches merged into others">,
  ];
  // Families write code to measure it.
  let dependentDialects = [
    "::mpc::cuda::CudaDialect", "::mpc::tile::TileDialect", "::mlir::gpu::GPUDialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect", "::mlir::func::FuncDialect"
  ];
}

def SplitFusedKernelsPass : Pass<"mpc-split-fused-kernels", "::mlir::ModuleOp"> {
  let summary = "Split horizontally fused kernels into parts";
  let description = [{
    Each fusion of a kernel (a function with `mpc.kernel_kind`) becomes a kernel.
    `mpc.fused_part` names the original kernel and the part's arguments and results in it; a
    value passed from one part to another alone has index -1, -2 and so on in both,
    whatever its shape. A fusion's `mpc.awaited` moves into `mpc.fused_part`.

    ```mlir
    func.func private @k(%x: ..., %y: ...) -> (..., ...) attributes {mpc.kernel_kind = ...} {
      %0 = mpc.fusion kind(row) (%a = %x : ...) { ... }
      %1 = mpc.fusion kind(contraction) (%a = %y : ...) { ... }
      return %0, %1
    }
    // becomes
    func.func private @k_part0(%x: ...) -> ... attributes {mpc.kernel_kind = ...,
      mpc.fused_part = {inputs = array<i64: 0>, kernel = "k", outputs = array<i64: 0>}} { ... }
    func.func private @k_part1(%y: ...) ...
    ```

    Contract in: after mpc-plan. Contract out: no kernel contains a fusion.
    Numerics: none.
    Left alone: all other kernels.
    Executed example: test/Target/CUDA/split-fused-kernels.mlir.
  }];
}

def ScheduleKernelsPass : Pass<"mpc-schedule-kernels", "::mlir::ModuleOp"> {
  let summary = "Choose a schedule for each GPU kernel";
  let description = [{
    Sets the attribute `mpc.schedule` on every kernel (a function with
    `mpc.kernel_kind`): the kernel family that generates its code, grid and block size,
    tile sizes and vector widths.

    ```mlir
    func.func private @k_relu(...) attributes {mpc.kernel_kind = ...}
    // becomes
    func.func private @k_relu(...) attributes {mpc.kernel_kind = ...,
      mpc.schedule = {family = "map", blocks = [25, 1, 1], threads = 256, vector = 4}}
    ```

    Contract in: after mpc-plan. Contract out: every kernel has a schedule, or a
    diagnostic names the op that no family supports.
    Numerics: a schedule fixes the order of reductions, nothing else.
    Left alone: kernels with a schedule; one that no family can implement is an error.
    Executed example: test/Target/CUDA/schedule-kernels.mlir.
  }];
  // Families write code to measure it.
  let dependentDialects = [
    "::mpc::cuda::CudaDialect", "::mpc::tile::TileDialect", "::mlir::gpu::GPUDialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def LowerKernelsToGpuPass : Pass<"mpc-lower-kernels-to-gpu", "::mlir::ModuleOp"> {
  let summary = "Generate the bodies of scheduled GPU kernels";
  let description = [{
    Each kernel becomes a `gpu.func` of the same name in `gpu.module @kernels`, on
    memrefs of its inputs, its outputs and, if the schedule needs one, a scratch buffer.
    The schedule makes all decisions. `known_block_size` and `known_grid_size` hold the
    launch configuration.

    Contract in: after mpc-schedule-kernels. Contract out: a module with
    `gpu.module @kernels` and the untouched `exe.program`, without kernels on tensors.
    Numerics: those of the kernel's ops; reductions in the order of the schedule.
    Left alone: everything but kernels.
    Executed example: test/Target/CUDA/lower-kernels-to-gpu.mlir.
  }];
  let dependentDialects = [
    "::mpc::cuda::CudaDialect", "::mpc::tile::TileDialect", "::mlir::gpu::GPUDialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def LowerTilesToThreadsPass : Pass<"mpc-lower-tiles-to-threads", "::mlir::ModuleOp"> {
  let summary = "Lower the tile dialect to code of GPU threads";
  let description = [{
    Distributes work items, loops, reductions and buffers over threads as `#tile.threads`
    specifies: strided loops per thread, reductions by shuffles and shared memory,
    buffers in registers or shared memory, and a scratch buffer with a last-arriving
    block where blocks share work items.

    Contract in: after mpc-lower-kernels-to-gpu; every `tile.for_each` has a `#tile.threads`.
    Contract out: no op of the tile dialect.
    Numerics: reductions in the order of the thread group.
    Left alone: code without tile ops.
    Executed example: test/Target/CUDA/lower-tiles-to-threads.mlir.
  }];
  let dependentDialects = [
    "::mpc::cuda::CudaDialect", "::mlir::gpu::GPUDialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def MergeFusedKernelsPass : Pass<"mpc-merge-fused-kernels", "::mlir::ModuleOp"> {
  let summary = "Merge the parts of horizontally fused GPU kernels";
  let description = [{
    `gpu.func`s whose `mpc.fused_part` names one kernel become branches of one kernel. Its
    grid concatenates the grids of the parts; a block has the threads and shared memory
    of the most demanding part. A producer runs first in every block: whole if it has
    one block, the block of the same index with `lead = "tile"`. With `lead = "before"`
    its blocks precede those of the consumer, which wait for all of them.

    Contract in: after mpc-lower-tiles-to-threads. Contract out: no `mpc.fused_part` remains.
    Numerics: none.
    Left alone: all other kernels.
    Executed example: test/Target/CUDA/merge-fused-kernels.mlir.
  }];
  let dependentDialects = [
    "::mpc::cuda::CudaDialect", "::mlir::gpu::GPUDialect", "::mlir::arith::ArithDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"
  ];
}

def ChooseFilterLayoutsPass : Pass<"mpc-choose-filter-layouts", "::mlir::func::FuncOp"> {
  let summary = "Store constant filters in the layout of GPU kernels";
  let description = [{
    Constant filters of channels-last convolutions are stored with their channels last,
    depthwise filters with their outputs last. The kernel reads them through a
    transpose, at no cost.

    ```mlir
    %w = mpc.constant dense_resource<w> : tensor<64x32x3x3xbf16>
    mpc.fusion kind(convolution) (%a = %x, %f = %w) { mpc.conv %a, %f ... }
    // becomes
    %w = mpc.constant dense_resource<w.transposed> : tensor<64x3x3x32xbf16>
    mpc.fusion kind(convolution) (%a = %x, %v = %w) {
      %f = mpc.transpose %v [0, 3, 1, 2] ...
      mpc.conv %a, %f ...
    }
    ```

    A kernel that transforms a filter for the gradient of an image (swaps channels,
    reverses the window) stores it as `[window..., channels, outputs]` instead, and the
    forward convolution of the same filter reads that copy as well.

    Contract in: after mpc-outline-fusions, before mpc-plan. Contract out: the same fusions.
    Numerics: none.
    Left alone: 1x1 windows, other non-constant filters, and filters that a fusion reads
    twice.
    Executed example: test/Target/CUDA/choose-filter-layouts.mlir.
  }];
  let statistics = [
    Statistic<"numStored", "num-stored", "Number of filters stored in another order">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

#endif // MPC_TARGET_CUDA_PASSES
