//===- DistributePasses.td - data-parallel training --------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRAINING_DISTRIBUTEPASSES
#define MPC_DIALECT_MPC_TRAINING_DISTRIBUTEPASSES

include "mlir/Pass/PassBase.td"

def DistributePass : Pass<"mpc-distribute", "::mlir::func::FuncOp"> {
  let summary = "All-reduce the gradients of data-parallel ranks";
  let description = [{
    Data parallelism: every rank runs the step on the same number of its own
    examples; optimizers read gradients summed over all ranks, so that all ranks
    have bit-identical parameters. Losses are means over a rank's examples: loss
    gradients start with 1 / `ranks`, so that they sum to those of the global batch
    and have the magnitude, and overflow behavior, of one device's.

    ```mlir
    %new, %m = mpc.optimizer.sgd %w, %g states(%b) step(%t) learning_rate(%lr) ...
    ```
    becomes, on four ranks,
    ```mlir
    %sum:2 = mpc.all_reduce %g, %h reduction(sum) ranks(4) accumulate(f32) ...
    ...
    %new, %m = mpc.optimizer.sgd %w, %sum#0 states(%b) step(%t) learning_rate(%lr) ...
    ```

    - A gradient is sent in the policy's storage type, or in `wire`, to which each
      rank rounds its own, and summed in f32 or wider; the sum has the wire type.
    - Gradients of one type are bucketed into messages (BucketPlan) in program
      order; a message follows the last op that it depends on, so that it overlaps
      with later ops. `network-latency` and `network-bandwidth` give the cost of a
      message; the cost of an op is the target's time for its flops or bytes.
    - If a loss ignores targets (`ignore_index`), ranks divide by the number of
      valid targets on all ranks; one message before the forward pass sums them, and
      a rank's loss becomes its part of the global batch's times `ranks`.
    - Running statistics are averaged over ranks in a separate message.
    - mpc-scale-loss, which runs later, checks, clips and unscales the sums: all
      ranks skip, scale and clip alike without further messages.

    Contract in: Precision's; each rank has a batch of its own. Contract out: every
    gradient that an optimizer reads comes from mpc.all_reduce. Functions without
    optimizers are unchanged.

    Numerics: as mpc.all_reduce.
    Example: test/Dialect/Mpc/Training/distribute.mlir
  }];
  let options = [
    Option<"ranks", "ranks", "int64_t", /*default=*/"1", "how many ranks train together">,
    Option<"latency", "network-latency", "double", /*default=*/"5e-5", "latency of a message, in seconds">,
    Option<"bandwidth", "network-bandwidth", "double", /*default=*/"1e9",
           "bandwidth of a rank's gradients in a message, in bytes per second">,
    Option<"wire", "wire", "std::string", /*default=*/"\"\"",
           "float32, float16 or bfloat16: the type of gradients in messages; empty takes each one's">,
  ];
  let statistics = [
    Statistic<"numMessages", "messages", "messages per step">,
    Statistic<"numGradients", "gradients", "gradients that are all-reduced">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def ShardOptimizerPass : Pass<"mpc-shard-optimizer", "::mlir::func::FuncOp"> {
  let summary = "Shard optimizer states and master weights over ranks (ZeRO-1)";
  let description = [{
    Each rank stores 1 / `ranks` of every parameter's master weights and optimizer
    states. A tensor of n elements is flattened and cut into equal shards of ceil(n
    / ranks), whatever the tensors' sizes; gradients that shared a message still do.

    ```mlir
    %sum:2 = mpc.all_reduce %g, %h reduction(sum) ranks(4) ...
    %new, %m = mpc.optimizer.sgd %w, %sum#0 states(%b) ... : (tensor<8x4xf32>, ...
    ```
    becomes
    ```mlir
    %piece:2 = mpc.reduce_scatter %g, %h reduction(sum) ranks(4) ...
    %new, %m = mpc.optimizer.sgd %w, %piece#0 states(%b) ... : (tensor<8xf32>, ...
    %all = mpc.all_gather %new ranks(4) : (tensor<8xf32>) -> tensor<4x8xf32>
    %whole = mpc.reshape %all : tensor<4x8xf32> to tensor<8x4xf32>
    ```

    - Arguments for master weights and states become shards, with the whole shape in
      `mpc.shard`; initial values stay whole.
    - The model reads a parameter's 16-bit copy, or a copy in its own type, an
      argument "NAME.whole" of role `parameter_copy`; both are all-gathered after
      the updates, one message per type.
    - A function without optimizers reads "NAME.whole" instead of the parameter.

    Contract in: mpc-distribute's. Contract out: every gradient that an optimizer
    reads comes from mpc.reduce_scatter, and no other op reads a master weight.

    Numerics: unchanged.
    Example: test/Dialect/Mpc/Training/shard-optimizer.mlir
  }];
  let options = [
    Option<"ranks", "ranks", "int64_t", /*default=*/"1", "how many ranks train together">,
    Option<"shard", "shard", "std::string", /*default=*/"\"optimizer\"",
           "what is sharded: optimizer or none">,
  ];
  let statistics = [
    Statistic<"numPieces", "pieces", "master weights and optimizer states that are sharded">,
    Statistic<"numMessages", "messages", "all-gather messages of updated parameters">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

#endif // MPC_DIALECT_MPC_TRAINING_DISTRIBUTEPASSES
