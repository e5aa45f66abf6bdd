//===- Passes.td - passes of the CUDA backend ---------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PASSES
#define MPC_TARGET_CUDA_PASSES

include "mlir/Pass/PassBase.td"

def JoinLaunchesPass : Pass<"mpc-join-launches", "::mlir::func::FuncOp"> {
  let summary = "Launch kernels together that do not wait for each other";
  let description = [{
    Fusions of which none reads what another makes become fusions inside one: their
    blocks run side by side in one launch. Each comes to stand where the first of
    them stood.

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

    Joined where all their blocks run at once, or as many blocks of each run at once as
    by themselves, by what the schedules of mpc-schedule-kernels take of a multiprocessor.

    A fusion of one block that one other alone reads stands inside one with that, which
    reads it there: each block of the reader computes it first. So does a product whose
    result is the query of one attention and nothing else: it gets a schedule
    (`mpc.schedule`) by which each of its blocks makes what the block of that number of
    attention reads. An attention whose blocks all run at once with those of the only
    kernel that reads it stands beside that, whose blocks wait. `mpc.lead` of the fusion
    that makes says which (`tile`, `before`).

    Contract in: after mpc-form-fusions, before mpc-plan. Contract out: the same fusions,
    some inside others, one level deep, reshapes between those that lead and their readers.
    Numerics: none.
    Left alone: kernels of updates and checks, those whose blocks wait for each other,
    what replaces an argument of the function, and long kernels beside long ones.
    Executed example: test/Target/CUDA/join-launches.mlir.
  }];
  let statistics = [
    Statistic<"numJoined", "num-joined", "Number of launches that others took in">,
  ];
  // Families write code to measure it.
  let dependentDialects = [
    "::mpc::cuda::CudaDialect", "::mpc::tile::TileDialect", "::mlir::gpu::GPUDialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect", "::mlir::func::FuncDialect"
  ];
}

def PartKernelsPass : Pass<"mpc-part-kernels", "::mlir::ModuleOp"> {
  let summary = "Take kernels of several kernels apart";
  let description = [{
    Each fusion of a kernel (a function with `mpc.kernel_kind`) becomes a kernel of its
    own. `mpc.part` names the kernel, and which of its arguments and results are the
    part's; what one fusion makes for another alone is -1, -2 and so on in both, whatever
    its shape. A schedule that a fusion has becomes its kernel's, its `mpc.lead` an entry of
    `mpc.part`.

    ```mlir
    func.func private @k(%x: ..., %y: ...) -> (..., ...) attributes {mpc.kernel_kind = ...} {
      %0 = mpc.fusion kind(row) (%a = %x : ...) { ... }
      %1 = mpc.fusion kind(contraction) (%a = %y : ...) { ... }
      return %0, %1
    }
    // becomes
    func.func private @k_part0(%x: ...) -> ... attributes {mpc.kernel_kind = ...,
      mpc.part = {inputs = array<i64: 0>, kernel = "k", outputs = array<i64: 0>}} { ... }
    func.func private @k_part1(%y: ...) ...
    ```

    Contract in: after mpc-plan. Contract out: no kernel has a fusion.
    Numerics: none.
    Left alone: all other kernels.
    Executed example: test/Target/CUDA/part-kernels.mlir.
  }];
}

def ScheduleKernelsPass : Pass<"mpc-schedule-kernels", "::mlir::ModuleOp"> {
  let summary = "Choose how each kernel runs on a GPU";
  let description = [{
    Every kernel (a function with `mpc.kernel_kind`) gets the attribute
    `mpc.schedule`: the family that generates it, the extents of grid and block,
    tile sizes and vector widths.

    ```mlir
    func.func private @k_relu(...) attributes {mpc.kernel_kind = ...}
    // becomes
    func.func private @k_relu(...) attributes {mpc.kernel_kind = ...,
      mpc.schedule = {family = "map", blocks = [25, 1, 1], threads = 256, vector = 4}}
    ```

    Contract in: after mpc-plan. Contract out: every kernel has a schedule, or a
    diagnostic names the op that no family generates.
    Numerics: a schedule fixes the order of sums, nothing else.
    Left alone: kernels that have a schedule, which a diagnostic refuses where
    no kernel can be written by it.
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
  let summary = "Turn scheduled kernels into the bodies of GPU kernels";
  let description = [{
    Each kernel becomes a `gpu.func` of the same name in `gpu.module @kernels`,
    from memrefs of its inputs, then of its outputs, then a scratch buffer where
    the schedule asks for one. The schedule decides everything; this pass writes
    it out. `known_block_size` and `known_grid_size` hold the launch.

    Contract in: after mpc-schedule-kernels. Contract out: a module with
    `gpu.module @kernels` and the untouched `exe.program`, without kernels on tensors.
    Numerics: as the kernel's ops say; sums in the order of the schedule.
    Left alone: everything but kernels.
    Executed example: test/Target/CUDA/lower-kernels-to-gpu.mlir.
  }];
  let dependentDialects = [
    "::mpc::cuda::CudaDialect", "::mpc::tile::TileDialect", "::mlir::gpu::GPUDialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def LowerTeamsPass : Pass<"mpc-lower-teams", "::mlir::ModuleOp"> {
  let summary = "Turn tiles of teams into code of threads";
  let description = [{
    Items, walks, joins and what is kept become what each thread does, as `#tile.team`
    says: loops over its own positions, shuffles and shared memory where members join,
    registers or shared memory for what they keep, a scratch buffer and the last block
    to come where blocks share items.

    Contract in: after mpc-lower-kernels-to-gpu; every `tile.own` has a team. Contract
    out: no op of the tile dialect.
    Numerics: sums in the order of the team.
    Left alone: code that is of threads already.
    Executed example: test/Target/CUDA/lower-teams.mlir.
  }];
  let dependentDialects = [
    "::mpc::cuda::CudaDialect", "::mlir::gpu::GPUDialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def MergePartsPass : Pass<"mpc-merge-parts", "::mlir::ModuleOp"> {
  let summary = "Make one GPU kernel of the parts of each";
  let description = [{
    `gpu.func`s whose `mpc.part` names one kernel become the branches of that kernel. The
    grids of the parts stand one behind the other, a block has the threads and the shared
    memory of the part that needs most of them. A part that another one reads comes first
    in every block, as a whole where it has one block, with `lead = "tile"` the block of the
    same number; with `lead = "before"` its blocks come before those of the other, which wait
    for all of them.

    Contract in: after mpc-lower-teams. Contract out: no part is left.
    Numerics: none.
    Left alone: all other kernels.
    Executed example: test/Target/CUDA/merge-parts.mlir.
  }];
  let dependentDialects = [
    "::mpc::cuda::CudaDialect", "::mlir::gpu::GPUDialect", "::mlir::arith::ArithDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"
  ];
}

def StoreFiltersPass : Pass<"mpc-store-filters", "::mlir::func::FuncOp"> {
  let summary = "Store filters as GPU kernels read them";
  let description = [{
    Constant filters of channels-last convolutions are stored with their channels
    last; filters of one channel (depthwise) with their outputs last. The kernel
    reads them through a transpose, which costs nothing there.

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

    A kernel that turns a filter (swaps its channels, reverses its window) for the
    gradient of an image leaves it as `[window..., channels, outputs]` instead, and
    the convolution of the same filter reads that copy as well.

    Contract in: after mpc-form-fusions, before mpc-plan. Contract out: the same fusions.
    Numerics: none.
    Left alone: windows of one place, other filters that are no constants, and
    filters that a fusion reads twice.
    Executed example: test/Target/CUDA/store-filters.mlir.
  }];
  let statistics = [
    Statistic<"numStored", "num-stored", "Number of filters stored in another order">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

#endif // MPC_TARGET_CUDA_PASSES
