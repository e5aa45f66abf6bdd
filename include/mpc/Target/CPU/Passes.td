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

#endif // MPC_TARGET_CPU_PASSES
