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
    Loss scaling: rewrites all functions of a training step under one preset. The
    cotangent of the loss starts at the scale, so that no multiply is added and the
    returned loss is unscaled; optimizers receive the flag that all gradients are
    finite, and the factor that unscales them.

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
    where `%scale` and `%good` are new arguments of role `loss_scale_state`, updated
    by the results `%scale2` and `%good2`. Presets and fields:
    include/mpc/Training/LossScale.h; an empty text selects `torch` if one of these
    functions has an f16 value, else `none`.

    State, all of role `loss_scale_state`: `scale` f32, `good_steps` i32,
    `hysteresis_left` i32 (hysteresis above 1), `micro_steps` i32 (accumulation by
    micro step), `skipped_steps` i64, and for the last skipped step `overflow`
    2xi64, the record of mpc.all_finite, and `overflow_step` i64, the number of
    steps attempted before it. If the step counter does not determine that number
    (several counters, or accumulation windows), `attempted_steps` i64 counts it.
    `mpc.labels` on `overflow` lists the tensors in the record, each with the op and
    layer that computed it, in program order: the first one is the origin of the
    overflow.

    - Optimizers with one step counter share a flag; any overflow reduces the scale.
    - Clipping to a norm follows unscaling: one multiplier, the inverse scale times
      the clipping factor; a norm that is not finite skips the step. Clipping to a
      value comes last. Gradients of each flag have their own norm.
    - A skipped step leaves parameters, optimizer state and running statistics
      bit-identical, and, by preset, the step counter.
    - Gradient accumulation over a window: the seed is divided by `accumulate`;
      gradients returned by a function without optimizers are added to accumulators,
      which the function with the optimizers resets. By micro step: one function
      does both, and its optimizers run when the window is full of finite steps. A
      window whose norm is not finite is dropped as an overflow: the scale backs
      off, the step counts as skipped, and a new window starts.

    - In a step marked by mpc-detect-backward, without optimizers, values divided by
      the seed are the gradients; if one is not finite, every result that updates an
      argument keeps the old value.

    Contract in: one block; roles on arguments and results; precision assigned.
    Contract out: no `mpc.gradient_seed` is left. Functions without seeds and
    optimizers are unchanged.

    Numerics: exact if the scale is a power of two and nothing underflows; else as
    the preset unscales.
    Example: test/Dialect/Mpc/Training/scale-loss.mlir
  }];
  let options = [
    Option<"lossScale", "loss-scale", "std::string", /*default=*/"\"\"",
           "PRESET[,field=value...]; empty chooses by the types in the module">,
    Option<"clipNorm", "clip-norm", "double", /*default=*/"0",
           "largest global norm of the unscaled gradients; 0 for no limit">,
    Option<"clipValue", "clip-value", "double", /*default=*/"0",
           "largest magnitude of an element of an unscaled gradient; 0 for no limit">,
    Option<"accumulate", "accumulate", "int64_t", /*default=*/"1",
           "micro steps whose gradients are averaged into one update">,
  ];
  let statistics = [
    Statistic<"numSeeds", "seeds", "cotangents of losses that received the scale">,
    Statistic<"numUpdates", "updates", "optimizer ops that were predicated or given an unscale">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def DetectBackwardPass : Pass<"mpc-detect-backward", "::mlir::func::FuncOp"> {
  let summary = "Detect the backward pass in an imported training step";
  let description = [{
    A step imported as one function (loss, backward pass and update, as traced by
    JAX) has neither seed nor optimizer ops. Its backward pass is linear in the
    constants from which the cotangents of the loss start; this pass multiplies
    these by `mpc.gradient_seed` and divides by it before any use that is not linear
    in them:

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

    The loss is the scalar float result that updates no argument and needs the
    fewest contractions. The backward pass consists of contractions and reductions,
    linear in a constant, that no such result needs. In a product of two linear
    values the one with more accumulations counts; a square is linear in neither.

    Contract in: Import's; state results have `mpc.alias`.
    Left alone, with a remark: a step whose gradients start at no constant, and one
    that returns a non-scalar that depends on gradients and updates no argument,
    because a step that overflows could not be skipped. Without a remark: functions
    that are no training step, or have a seed or optimizers already.

    Numerics: unchanged; the factor is applied and removed where the function is
    linear in it, whichever constants were chosen.

    Example: test/Dialect/Mpc/Training/detect-backward.mlir
  }];
  let statistics = [
    Statistic<"numSeeds", "seeds", "constants multiplied by the loss scale">,
    Statistic<"numGradients", "gradients", "values that are unscaled">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

#endif // MPC_DIALECT_MPC_TRAINING_LOSSSCALEPASSES
