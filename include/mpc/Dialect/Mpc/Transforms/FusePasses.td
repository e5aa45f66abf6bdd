//===- FusePasses.td - passes of the Fuse stage --------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_FUSEPASSES
#define MPC_DIALECT_MPC_TRANSFORMS_FUSEPASSES

include "mlir/Pass/PassBase.td"

def FusePass : Pass<"mpc-fuse", "::mlir::func::FuncOp"> {
  let summary = "Group ops into the regions that become kernels";
  let description = [{
    Every op but constants and views ends inside an `mpc.fusion`. In this order:
    contractions, convolutions, attention and pools take the elementwise ops of
    their result's shape that follow; softmax, norms and reductions take
    elementwise ops before and after them; what is left joins in loops of one
    shape. Index maps and gathers ride with their only reader where they keep the
    last dimension. A group may have several results, all of one shape.

    ```mlir
    %0 = mpc.matmul %x, %w ...
    %1 = mpc.add %0, %b ...
    %2 = mpc.relu %1 ...
    // becomes
    %2 = mpc.fusion kind(contraction) name("fc_MatMul") (...) { ... }
    ```

    Contract in: after mpc-pack-constants. Contract out: a function's body holds
    fusions, constants, views and the return. Views are reshapes, and slices and
    concats whose parts lie in one buffer one after the other.
    Constants of one value are copied into the region, others are operands.
    Numerics: unchanged: every cast that rounds stays, nothing is contracted or
    reordered. A cast to a wider type is repeated for each reader.
    Left alone: functions that hold fusions already.
    Executed example: test/Dialect/Mpc/Transforms/fuse.mlir.
  }];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numFusions", "fusions", "regions made">,
    Statistic<"numFused", "ops-fused", "ops that share a region with another">,
  ];
}

#endif // MPC_DIALECT_MPC_TRANSFORMS_FUSEPASSES
