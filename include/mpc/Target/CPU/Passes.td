//===- Passes.td - passes of the CPU backend ----------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CPU_PASSES
#define MPC_TARGET_CPU_PASSES

include "mlir/Pass/PassBase.td"

def ScheduleCpuKernelsPass : Pass<"mpc-schedule-cpu-kernels", "::mlir::ModuleOp"> {
  let summary = "Choose a schedule for each CPU contraction";
  let description = [{
    Sets the attribute `mpc.schedule` on every kernel (a function with
    `mpc.kernel_kind`) with a GEMM, convolution, filter gradient or attention: the
    accumulator tile in registers, the range of a work item, and the operands that it
    packs. Chosen from shapes, types, and the target's registers and caches, without
    generating code.

    ```mlir
    func.func private @k(%x: tensor<64x512xf32>, %w: tensor<512x64xf32>) -> ...
      attributes {mpc.kernel_kind = "contraction"}
    // becomes
    func.func private @k(...) attributes {mpc.kernel_kind = "contraction",
      mpc.schedule = #tile.blocks<rows = 14, columns = 32, blocks_per_item = 2, panels_per_item = 1, pack = right>}
    ```

    Contract in: after mpc-plan. Contract out: every kernel with a contraction has a
    schedule, or a diagnostic says why none is possible.
    Numerics: a schedule fixes the order of reductions, nothing else.
    Left alone: kernels with a schedule; kernels without a contraction.
    Executed example: test/Target/CPU/schedule-cpu-kernels.mlir.
  }];
  let dependentDialects = ["::mpc::tile::TileDialect"];
}

def EmitCpuKernelsPass : Pass<"mpc-emit-cpu-kernels", "::mlir::ModuleOp"> {
  let summary = "Generate tile programs on memory for CPU kernels";
  let description = [{
    Each kernel becomes a private function `NAME_impl` on memrefs of its inputs and
    outputs, the work items [begin, end) of a call, and scratch memory. Work items are
    `tile.for_each`; GEMM, convolution and attention are tiled by their schedule.

    Contract in: after mpc-schedule-cpu-kernels. Contract out: no function with
    `mpc.kernel_kind`; functions in scf, memref, vector, arith, math and tile.
    Numerics: those of the kernel's ops; reductions in the order of the schedule.
    Left alone: everything but kernels.
    Executed example: test/Target/CPU/emit-cpu-kernels.mlir.
  }];
  let dependentDialects = [
    "::mpc::tile::TileDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
    // Instructions without an op in other dialects.
    "::mlir::LLVM::LLVMDialect"
  ];
}

def PackOperandsPass : Pass<"mpc-pack-operands", "::mlir::func::FuncOp"> {
  let summary = "Pack shared GEMM operands once";
  let description = [{
    A separate kernel packs the non-constant right-hand side of a GEMM into panels if
    that takes less time than it saves: packing per group of rows, accumulators spilled
    between blocks of K, rows of a transposed left-hand side gathered per group of
    panels. GEMMs that read the matrix in the same order share the panels; a kernel that
    only casts the matrix for them is fused into the packing.

    ```mlir
    %0 = mpc.fusion kind(contraction) name("fc") (%a = %x, %b = %w) {
      %1 = mpc.matmul %a, %b transpose_rhs
    }
    // becomes
    %p = mpc.fusion kind(transpose) name("fc_panels") (%b = %w) {
      %1 = mpc.pack %b transpose packed<columns = 32, depth = 2>
    }
    %0 = mpc.fusion kind(contraction) name("fc") (%a = %x, %b = %p) {
      %1 = mpc.matmul %a, %b packed<columns = 32, depth = 2>
    }
    ```

    Contract in: after mpc-fuse. Contract out: the same fusions, preceded by packing
    fusions.
    Numerics: a GEMM on panels accumulates in the same order as with packed constants,
    which depends on shapes and the target alone.
    Left alone: batched matrices; types whose panels differ in width from the kernels'
    operands; targets whose last-level cache, which would hold the panels, is as slow as
    memory.
    Executed example: test/Target/CPU/pack-operands.mlir.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"",
           "target in place of the module's exe.target, such as cpu:avx512bf16">,
  ];
  let dependentDialects = ["::mpc::MpcDialect", "::mpc::tile::TileDialect"];
  let statistics = [
    Statistic<"numPacked", "packed", "matrices packed by their own kernels">,
    Statistic<"numReaders", "readers", "matmuls that read them">,
  ];
}

def LowerTilesPass : Pass<"mpc-lower-tiles", "::mlir::ModuleOp"> {
  let summary = "Lower the tile dialect to loops of one thread";
  let description = [{
    Work items become a loop over a call's range, loops become loop nests, and
    reductions reduce the lanes of a vector; buffers are in scratch memory. Sets
    `mpc.items`, `mpc.grain` (minimum items per task) and, on functions with
    `mpc.shared_bytes`, `mpc.later_items` (final items, which run after all others).

    Contract in: after mpc-emit-cpu-kernels. Contract out: no op of the tile dialect.
    Numerics: lanes are reduced by halves.
    Left alone: code without tiles.
    Executed example: test/Target/CPU/lower-tiles.mlir.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

#endif // MPC_TARGET_CPU_PASSES
