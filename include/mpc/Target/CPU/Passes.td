//===- Passes.td - passes of the CPU backend ----------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CPU_PASSES
#define MPC_TARGET_CPU_PASSES

include "mlir/Pass/PassBase.td"

def ScheduleCpuKernelsPass : Pass<"mpc-schedule-cpu-kernels", "::mlir::ModuleOp"> {
  let summary = "Choose how each contraction is cut for a CPU";
  let description = [{
    Every kernel (a function with `mpc.kernel_kind`) around a product, convolution,
    filter gradient or attention gets the attribute `mpc.schedule`: the block of sums
    that stands in registers, what of the operands an item goes through and which of
    them it copies first. Chosen from shapes, types and the target's registers and
    caches; no code is written for it.

    ```mlir
    func.func private @k(%x: tensor<64x512xf32>, %w: tensor<512x64xf32>) -> ...
      attributes {mpc.kernel_kind = "contraction"}
    // becomes
    func.func private @k(...) attributes {mpc.kernel_kind = "contraction",
      mpc.schedule = #tile.blocks<rows = 14, columns = 32, blocks_per_item = 2, panels_per_item = 1, pack = right>}
    ```

    Contract in: after mpc-plan. Contract out: every kernel around a contraction has a
    schedule, or a diagnostic says why none can.
    Numerics: a schedule fixes the order of sums, nothing else.
    Left alone: kernels that have a schedule; kernels without a contraction.
    Executed example: test/Target/CPU/schedule-cpu-kernels.mlir.
  }];
  let dependentDialects = ["::mpc::tile::TileDialect"];
}

def EmitCpuKernelsPass : Pass<"mpc-emit-cpu-kernels", "::mlir::ModuleOp"> {
  let summary = "Turn kernels into programs over tiles on memory";
  let description = [{
    Each kernel becomes a private function `NAME_impl` on memrefs of its inputs, then of
    its outputs, the items [begin, end) of a call, and scratch memory. Its items are
    `tile.own`; products, convolutions and attention are cut as their schedule says.

    Contract in: after mpc-schedule-cpu-kernels. Contract out: no function with
    `mpc.kernel_kind`; functions in scf, memref, vector, arith, math and tile.
    Numerics: as the kernel's ops say; sums in the order of the schedule.
    Left alone: everything but kernels.
    Executed example: test/Target/CPU/emit-cpu-kernels.mlir.
  }];
  let dependentDialects = [
    "::mpc::tile::TileDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
    // Instructions that no other dialect has.
    "::mlir::LLVM::LLVMDialect"
  ];
}

def PackOperandsPass : Pass<"mpc-pack-operands", "::mlir::func::FuncOp"> {
  let summary = "Pack operands of products once, for all that read them";
  let description = [{
    A matrix that is no constant and the right-hand side of a product goes into
    panels by a kernel of its own, where that takes less time than what it saves:
    packing in each group of rows, sums that wait in memory between pieces of the
    depth, rows of a transposed left side gathered for each group of panels.
    Products that read the same matrix in the same order share the panels; a kernel
    that only casts the matrix for them becomes part of the packing.

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

    Contract in: after mpc-fuse. Contract out: the same fusions, and these before
    their first readers.
    Numerics: a product that reads panels takes its sums in the order that packed
    constants have. That order depends on shapes and the target alone.
    Left alone: batches of matrices; types that panels hold in another width than
    kernels multiply; targets whose last-level cache is as slow as memory, which
    panels of the whole depth would come from.
    Executed example: test/Target/CPU/pack-operands.mlir.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"",
           "what to take instead of the module's exe.target, as in cpu:avx512bf16">,
  ];
  let dependentDialects = ["::mpc::MpcDialect", "::mpc::tile::TileDialect"];
  let statistics = [
    Statistic<"numPacked", "packed", "matrices packed by kernels of their own">,
    Statistic<"numReaders", "readers", "products that read these">,
  ];
}

def LowerTilesPass : Pass<"mpc-lower-tiles", "::mlir::ModuleOp"> {
  let summary = "Turn tiles into loops of one worker";
  let description = [{
    Items become a loop from begin to end of a call, walks nests of loops, joins what
    joins the lanes of a vector; what items keep lies in scratch memory. Functions get
    `mpc.items` and `mpc.grain`, the fewest items that are worth a task, and where they
    have `mpc.shared_bytes` `mpc.later_items`, those that begin when the others have ended.

    Contract in: after mpc-emit-cpu-kernels. Contract out: no op of the tile dialect.
    Numerics: lanes are joined halves first.
    Left alone: code without tiles.
    Executed example: test/Target/CPU/lower-tiles.mlir.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

#endif // MPC_TARGET_CPU_PASSES
