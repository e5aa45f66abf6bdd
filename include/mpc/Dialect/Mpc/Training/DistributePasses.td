//===- DistributePasses.td - steps of several ranks ---------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRAINING_DISTRIBUTEPASSES
#define MPC_DIALECT_MPC_TRAINING_DISTRIBUTEPASSES

include "mlir/Pass/PassBase.td"

def DistributePass : Pass<"mpc-distribute", "::mlir::func::FuncOp"> {
  let summary = "Add up gradients of the ranks that train together";
  let description = [{
    Every rank runs the step on its own examples, as many as any other; what the
    optimizers read becomes the sum over all ranks, so that all have the same
    parameters, bit for bit. Losses are means over a rank's examples: their
    gradients begin with one part in `ranks`, so that they add up to the whole
    batch's and are as large on the way, and overflow, as one device's.

    ```mlir
    %new, %m = mpc.optimizer.sgd %w, %g states(%b) step(%t) learning_rate(%lr) ...
    ```
    becomes, on four ranks,
    ```mlir
    %sum:2 = mpc.all_reduce %g, %h reduction(sum) ranks(4) accumulate(f32) ...
    ...
    %new, %m = mpc.optimizer.sgd %w, %sum#0 states(%b) step(%t) learning_rate(%lr) ...
    ```

    - A gradient goes over the wire in the type in which the policy stores it, or in
      `wire`, to which each rank rounds its own, and is summed in f32 or wider; the sum
      has the type of the wire.
    - Gradients of one type are joined to messages (BucketPlan) in the order in which
      the step makes them; a message stands behind the last op that it waits for, so
      that what follows runs beside it. `network-latency` and `network-bandwidth` say
      what a message costs; an op takes the target's time for its flops or bytes.
    - Where a loss leaves out targets (`ignore_index`), ranks divide by how many count on
      all of them; the message that adds these up stands in front of the forward pass,
      and a rank's loss becomes its part of the whole batch's, `ranks` times.
    - Running statistics become the mean over ranks too, in a message of their own.
    - mpc-scale-loss, which runs later, checks, clips and unscales these sums: all
      ranks skip, scale and clip alike without a message for it.

    Contract in: Precision's; a batch of each rank is its part of the whole.
    Contract out: every gradient that an optimizer reads comes from mpc.all_reduce.
    Functions without optimizers stay as they are.

    Numerics: as mpc.all_reduce.
    Example: test/Dialect/Mpc/Training/distribute.mlir
  }];
  let options = [
    Option<"ranks", "ranks", "int64_t", /*default=*/"1", "how many ranks train together">,
    Option<"latency", "network-latency", "double", /*default=*/"5e-5", "seconds that a message takes at least">,
    Option<"bandwidth", "network-bandwidth", "double", /*default=*/"1e9",
           "bytes per second of a rank's gradients in a message">,
    Option<"wire", "wire", "std::string", /*default=*/"\"\"",
           "float32, float16 or bfloat16: the type of gradients in messages; empty takes each one's">,
  ];
  let statistics = [
    Statistic<"numMessages", "messages", "messages of a step">,
    Statistic<"numGradients", "gradients", "gradients that are added up">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def ShardOptimizerPass : Pass<"mpc-shard-optimizer", "::mlir::func::FuncOp"> {
  let summary = "Give each rank a piece of every parameter to update";
  let description = [{
    Each rank keeps one part in `ranks` of every parameter's master values and of the
    optimizer's states. A tensor of n elements is read as one row and cut into pieces
    of ceil(n / ranks): the pieces are equal, whatever sizes the tensors have, and
    gradients that shared a message still do.

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

    - The arguments of masters and states become pieces, with `mpc.shard` to say of
      which shape; their initial values stay whole.
    - What the step reads of a parameter is its 16-bit copy, or a copy in the
      parameter's own type, an argument "NAME.whole" of role `parameter_copy`; both are
      gathered behind the updates, one message for each type.
    - A function without optimizers reads "NAME.whole" in place of the parameter.

    Contract in: mpc-distribute's. Contract out: every gradient that an optimizer reads
    comes from mpc.reduce_scatter, and no other op reads a master.

    Numerics: none; each element's sum and update are what they were.
    Example: test/Dialect/Mpc/Training/shard-optimizer.mlir
  }];
  let options = [
    Option<"ranks", "ranks", "int64_t", /*default=*/"1", "how many ranks train together">,
    Option<"shard", "shard", "std::string", /*default=*/"\"optimizer\"",
           "optimizer, which is all that is cut, or none">,
  ];
  let statistics = [
    Statistic<"numPieces", "pieces", "masters and states that become pieces">,
    Statistic<"numMessages", "messages", "messages that gather what was updated">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

#endif // MPC_DIALECT_MPC_TRAINING_DISTRIBUTEPASSES
