//===- RankPasses.td - passes of steps of several ranks ----*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_RANKPASSES
#define MPC_DIALECT_MPC_TRANSFORMS_RANKPASSES

include "mlir/Pass/PassBase.td"

def SyncBatchNormPass : Pass<"mpc-sync-batch-norm", "::mlir::func::FuncOp"> {
  let summary = "Normalise with the statistics of all ranks' batches";
  let description = [{
    Takes `batch_norm_training` and `batch_norm_gradient` apart as mpc-decompose does,
    with means and variances over the batches of all ranks, which have one size. A
    norm costs a message of two numbers per channel, and so does its gradient.

    ```mlir
    %all:2 = mpc.all_gather %mean, %variance ranks(4) ...
    %joint = mpc.reduce_mean %all#0 axes([0]) ...
    ```

    The variance of all is the mean of the ranks' variances plus that of the squares
    by which their means differ from the joint one. Gradients of scale and bias stay
    sums over the rank's own elements, since mpc-distribute averages them; those of the
    input count as much as these.

    Contract in: precision assigned. Contract out: none of these ops is left.
    Numerics: those of mpc-decompose, and mpc.all_gather's.
    Example: test/Dialect/Mpc/Transforms/sync-batch-norm.mlir
  }];
  let options = [
    Option<"ranks", "ranks", "int64_t", /*default=*/"1", "how many ranks train together">,
  ];
  let statistics = [Statistic<"numNorms", "norms", "norms and gradients taken apart">];
  let dependentDialects = ["::mpc::MpcDialect"];
}

#endif // MPC_DIALECT_MPC_TRANSFORMS_RANKPASSES
