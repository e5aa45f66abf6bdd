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

def LowerTilesPass : Pass<"mpc-lower-tiles", "::mlir::ModuleOp"> {
  let summary = "Turn tiles into loops of one worker";
  let description = [{
    Items become a loop from begin to end of a call, walks nests of loops, joins what
    joins the lanes of a vector; what items keep lies in scratch memory. Functions get
    `mpc.items` and `mpc.grain`, the fewest items that are worth a task.

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
