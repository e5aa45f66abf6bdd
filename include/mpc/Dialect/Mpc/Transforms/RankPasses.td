//===- RankPasses.td - multi-rank batch norm ---------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_RANKPASSES
#define MPC_DIALECT_MPC_TRANSFORMS_RANKPASSES

include "mlir/Pass/PassBase.td"

def SyncBatchNormPass : Pass<"mpc-sync-batch-norm", "::mlir::func::FuncOp"> {
  let summary = "Normalize with the statistics of all ranks (SyncBN)";
  let description = [{
    Decomposes `batch_norm_training` and `batch_norm_gradient` as mpc-decompose
    does, with means and variances over the batches of all ranks, which have one
    size. A norm costs one message of two values per channel, and so does its
    gradient.

    ```mlir
    %all:2 = mpc.all_gather %mean, %variance ranks(4) ...
    %joint = mpc.reduce_mean %all#0 axes([0]) ...
    ```

    The global variance is the mean of the ranks' variances plus the variance of
    their means. Gradients of scale and bias stay sums over the rank's own elements,
    since mpc-distribute averages them; input gradients have the same weight.

    Contract in: precision assigned. Contract out: none of these ops is left.
    Numerics: those of mpc-decompose, and mpc.all_gather's.
    Example: test/Dialect/Mpc/Transforms/sync-batch-norm.mlir
  }];
  let options = [
    Option<"ranks", "ranks", "int64_t", /*default=*/"1", "how many ranks train together">,
  ];
  let statistics = [Statistic<"numNorms", "norms", "norms and norm gradients decomposed">];
  let dependentDialects = ["::mpc::MpcDialect"];
}

#endif // MPC_DIALECT_MPC_TRANSFORMS_RANKPASSES
