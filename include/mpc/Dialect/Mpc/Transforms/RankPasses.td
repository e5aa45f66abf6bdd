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

def SegmentBatchSumsPass : Pass<"mpc-segment-batch-sums", "::mlir::func::FuncOp"> {
  let summary = "Sum over the batch in segments that no rank splits";
  let description = [{
    For reproducible training: matmuls, sums, filter gradients and scatters that add
    over the examples of the step's inputs are split into `segments` of consecutive
    examples, whose results are added by a tree, neighbors first. A step of eight
    segments on one rank, and steps of four on two ranks whose gradients are
    all-reduced, compute the same bits.

    ```mlir
    %0 = mpc.matmul %x, %g transpose_lhs : (tensor<32x5xf32>, tensor<32x6xf32>) -> tensor<5x6xf32>
    ```
    becomes
    ```mlir
    %1 = mpc.matmul %x_1, %g_1 transpose_lhs : (tensor<8x4x5xf32>, tensor<8x4x6xf32>) -> tensor<8x5x6xf32>
    ```
    and seven additions of slices.

    - A number of examples that `segments` does not divide is left as it is.

    Contract in and out: precision assigned, composites decomposed.
    Numerics: the order of sums changes.
    Example: test/Dialect/Mpc/Transforms/segment-batch-sums.mlir
  }];
  let options = [
    Option<"segments", "segments", "int64_t", /*default=*/"8", "segments of this rank's batch">,
  ];
  let statistics = [Statistic<"numSplit", "split", "ops split">];
  let dependentDialects = ["::mpc::MpcDialect"];
}

#endif // MPC_DIALECT_MPC_TRANSFORMS_RANKPASSES
