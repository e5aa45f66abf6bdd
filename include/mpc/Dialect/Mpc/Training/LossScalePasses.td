//===- LossScalePasses.td - loss scaling -*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRAINING_LOSSSCALEPASSES
#define MPC_DIALECT_MPC_TRAINING_LOSSSCALEPASSES

include "mlir/Pass/PassBase.td"

def ScaleLossPass : Pass<"mpc-scale-loss", "::mlir::ModuleOp"> {
  let summary = "Scale the loss, check gradients and skip steps that overflow";
  let description = [{
    Rewrites a training step: every function of the module that holds a part of one,
    all under one preset. The
    cotangent of the loss begins at the scale, so that no multiply is added and the
    loss that the step returns stays unscaled; optimizers receive the flag that all
    gradients are finite, and what takes the scale out again.

    ```mlir
    %seed = mpc.gradient_seed : tensor<f32>
    ...
    %new, %m = mpc.optimizer.sgd %w, %g states(%b) step(%t) learning_rate(%lr) ...
    ```
    becomes, with `loss-scale=torch`,
    ```mlir
    %finite, %record = mpc.all_finite %g names(["w"]) ...
    %s64 = mpc.cast %scale : tensor<f32> to tensor<f64>
    %r64 = mpc.div %one, %s64 : ...
    %inverse = mpc.cast %r64 : tensor<f64> to tensor<f32>
    %new, %m = mpc.optimizer.sgd %w, %g states(%b) step(%t) learning_rate(%lr) when(%finite) unscale(%inverse) ...
    %scale2, %good2 = mpc.loss_scale.update %scale, %good when(%finite) ...
    ```
    where `%scale` and `%good` are new arguments of role `loss_scale_state`, and
    `%scale2` and `%good2` results that replace them in place. Presets, fields and
    their meaning: include/mpc/Training/LossScale.h; an empty text takes `torch`
    where one of these functions has an f16 value, `none` elsewhere.

    State, all of role `loss_scale_state`: `scale` f32, `good_steps` i32,
    `hysteresis_left` i32 (hysteresis above 1), `micro_steps` i32 (accumulation by
    micro step), `skipped_steps` i64, and of the last skipped step `overflow` 2xi64,
    the record of mpc.all_finite, and `overflow_step` i64, how many steps were
    attempted before it. Where the step counter does not say how many that were
    (several counters, or windows of micro steps), `attempted_steps` i64 does. `mpc.labels` on `overflow` lists the tensors that the
    record counts, each with the op and the layer that made it, in the order in
    which the step makes them: the first is where the overflow began.

    - Optimizers with one step counter share a flag; the scale backs off for any.
    - Clipping to a norm comes after unscaling: one multiplier, the inverse scale
      times the factor; a norm that is not finite skips the step. Clipping to a value
      comes last. Each flag's gradients have a norm of their own.
    - A skipped step leaves parameters, optimizer state and running statistics as
      they were, bit for bit, and, by preset, the step counter.
    - Accumulation over a window: the seed is divided by `accumulate`; gradients
      that a function without optimizers returns are added to accumulators, which
      the function with the optimizers sets to zero. By micro step: one function
      does both, and its optimizers run when the window is full of finite steps. A
      window whose norm is not finite is dropped, as an overflow: the scale backs
      off, the step counts as skipped, and the next window begins.

    - In a step that mpc-find-gradients marked, without optimizers, what is divided
      by the seed are the gradients; every result that replaces an argument keeps it
      where one is not finite.

    Contract in: one block; roles on arguments and results; precision assigned.
    Contract out: no `mpc.gradient_seed` is left. Functions without seeds and
    optimizers are left alone.

    Numerics: exact where the scale is a power of two and nothing underflows; else
    as the preset unscales. Example: test/Dialect/Mpc/Training/scale-loss.mlir
  }];
  let options = [
    Option<"lossScale", "loss-scale", "std::string", /*default=*/"\"\"",
           "PRESET[,field=value...]; empty chooses by the types in the module">,
    Option<"clipNorm", "clip-norm", "double", /*default=*/"0",
           "largest norm of all unscaled gradients together; 0 for any">,
    Option<"clipValue", "clip-value", "double", /*default=*/"0",
           "largest magnitude of an unscaled gradient's element; 0 for any">,
    Option<"accumulate", "accumulate", "int64_t", /*default=*/"1",
           "micro steps whose gradients are averaged into one update">,
  ];
  let statistics = [
    Statistic<"numSeeds", "seeds", "cotangents of losses that received the scale">,
    Statistic<"numUpdates", "updates", "optimizer ops that were predicated or given an unscale">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def FindGradientsPass : Pass<"mpc-find-gradients", "::mlir::func::FuncOp"> {
  let summary = "Mark the backward pass of a model that is a whole training step";
  let description = [{
    A step that came as one function (loss, backward pass and update, as JAX
    traces it) has neither seed nor optimizer ops. Its backward pass is linear in
    the constants at which the cotangents of the loss begin; this pass multiplies
    these by `mpc.gradient_seed` and divides by it where a value that is linear in
    them is read by anything else:

    ```mlir
    %c = mpc.constant dense<-0.03125> : tensor<f32>
    %0 = mpc.mul %onehot, %c
    %dw = mpc.matmul %x, %0 transpose_lhs
    %1 = mpc.mul %dw, %rate
    ```
    becomes
    ```mlir
    %seed = mpc.gradient_seed : tensor<f32>
    %c2 = mpc.mul %c, %seed
    %0 = mpc.mul %onehot, %c2
    %dw = mpc.matmul %x, %0 transpose_lhs
    %g = mpc.div %dw, %seed
    %1 = mpc.mul %g, %rate
    ```

    The loss is the scalar float result that replaces no argument and needs the
    fewest contractions. What no such result needs and adds up products or
    elements, linear in a constant, is the backward pass. Of a product of two
    values that are linear the one that more sums lie behind counts; a square is
    linear in neither.

    Contract in: Import's; results of state have `mpc.alias`.
    Left alone, with a remark: a step whose gradients begin at no constant, and one
    that returns something that depends on gradients, is no scalar and replaces no
    argument: a step that overflows could not be skipped. Without a remark:
    functions that are no step, or have a seed or optimizers already.

    Numerics: none; a factor goes in and comes out where the function is linear in
    it, whichever constants were taken for the beginnings.

    Example: test/Dialect/Mpc/Training/find-gradients.mlir
  }];
  let statistics = [
    Statistic<"numSeeds", "seeds", "constants that are multiplied by the seed">,
    Statistic<"numGradients", "gradients", "values whose scale is taken out">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

#endif // MPC_DIALECT_MPC_TRAINING_LOSSSCALEPASSES
