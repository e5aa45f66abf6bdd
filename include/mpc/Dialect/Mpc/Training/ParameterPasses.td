//===- ParameterPasses.td - parameters, losses, optimizers -*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRAINING_PARAMETERPASSES
#define MPC_DIALECT_MPC_TRAINING_PARAMETERPASSES

include "mlir/Pass/PassBase.td"

def LiftParametersPass : Pass<"mpc-lift-parameters", "::mlir::func::FuncOp"> {
  let summary = "Turn the model's weights into trainable arguments";
  let description = [{
    Turns float constants that hold weights into arguments of role `parameter`, and
    running statistics of batch norms into arguments of role `statistics`. The
    constant becomes the argument's `mpc.initial`.

    ```mlir
    %w = mpc.constant dense_resource<fc.weight> : tensor<10x784xf32>
    %y = mpc.matmul %x, %w transpose_rhs : ...
    ```
    becomes
    ```mlir
    func.func @main(%x: ..., %w: tensor<10x784xf32> {mpc.initial = dense_resource<fc.weight> : ...,
                                                     mpc.name = "fc.weight", mpc.role = #mpc.role<parameter>})
    %y = mpc.matmul %x, %w transpose_rhs : ...
    ```
    Classifies constants by, in this order: type (finite floats of at least 16 bits,
    except scales of quantized values), what the exporter recorded (parameter or
    buffer), values that training would not leave (fixed filters, sampled sines,
    ramps), names, uses (a layer's weight, bias or table; input normalization,
    angles, mask fill values), and other values (grids, sparse matrices). A remark
    at each weight, buffer or statistic reports the choice and its reason
    (include/mpc/Training/WeightChoice.h). A matrix that equals the transpose of an
    earlier one is read as its transpose. A 16-bit weight gets an f32 argument,
    which the model's own ops read through a cast. `freeze` and `trainable` are
    names or full-match regular expressions that take precedence; with `trainable`
    nothing else is lifted. A pattern without a match, and a weight that both match,
    are errors. A literal of a formula is lifted only by its exact name.

    `parameters` are names or expressions of float arguments that are weights, for
    models traced from a function of their weights. Such an argument becomes one of
    role `parameter` in place, with the value of its `mpc.initial` or a random one;
    a frozen one, of any type, becomes a constant. Without `constants` these are the
    only weights.

    With `statistics`, batch norms whose statistics are not frozen become
    `batch_norm_training`, whose new statistics are results. If the model has such
    ops, they keep their momentum, and the statistics of all other batch norms are
    frozen. Without `statistics`, batch norms use running statistics.

    With `seed` (0 or more) parameters have random initial values, as in PyTorch's
    layers: weights of contractions and their biases uniform in +-1 / sqrt(fan-in),
    scales of norms 1, their biases 0, embedding tables standard normal; other
    one-element parameters keep their values. Values depend only on the seed and the
    parameter's name.

    Contract in: Import's; runs before Simplify, which folds constants. Contract
    out: every parameter has a unique name and an initial value.

    Numerics: none; a 16-bit weight widens exactly.

    Example: test/Dialect/Mpc/Training/lift-parameters.mlir
  }];
  let options = [
    ListOption<"freeze", "freeze", "std::string",
               "parameters that stay constants: names or full-match regexes">,
    ListOption<"trainable", "trainable", "std::string",
               "if not empty, only these parameters are lifted: names or full-match regexes">,
    ListOption<"parameters", "parameters", "std::string",
               "inputs that are parameters: names or full-match regexes">,
    Option<"constants", "constants", "bool", /*default=*/"true",
           "whether constants may be weights">,
    Option<"statistics", "statistics", "bool", /*default=*/"false",
           "train batch norms: use the batch's statistics and update the running ones">,
    Option<"momentum", "momentum", "double", /*default=*/"0.1",
           "weight of the batch in the new running statistics">,
    Option<"seed", "seed", "int64_t", /*default=*/"-1",
           "seed of random initial values; -1 keeps the model's values">,
  ];
  let statistics = [
    Statistic<"numParameters", "parameters", "constants and inputs that became parameters">,
    Statistic<"numFrozen", "frozen", "weights that stayed constants">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def InsertDropoutPass : Pass<"mpc-insert-dropout", "::mlir::func::FuncOp"> {
  let summary = "Insert dropout that an exported model has lost";
  let description = [{
    `at=NAME=p` inserts `mpc.dropout` of probability p after the last op with node
    name or layer path NAME: all later readers use the dropout. The function gets an
    argument of role `rng_state`, a seed and a step, and a result that increments
    the step.

    Contract in: Import's, or any function before Differentiate.

    Numerics: none beyond the op's.

    Example: test/Dialect/Mpc/Training/insert-dropout.mlir
  }];
  let options = [
    ListOption<"at", "at", "std::string", "NAME=PROBABILITY, the probability in [0, 1)">,
  ];
  let statistics = [Statistic<"numInserted", "inserted", "dropouts inserted">];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def AttachLossPass : Pass<"mpc-attach-loss", "::mlir::func::FuncOp"> {
  let summary = "Append a label and the loss of a model's output";
  let description = [{
    Adds the argument of role `label`, the loss op on the output called `output`,
    and the loss as the first result.

    ```mlir
    func.func @main(%x: ...) -> (tensor<32x10xf32> {mpc.role = #mpc.role<output>, ...}) {
      %logits = ...
      %p = mpc.softmax %logits axis(1) : tensor<32x10xf32>
      return %p
    ```
    becomes
    ```mlir
    func.func @main(%x: ..., %label: tensor<32xi32> {mpc.role = #mpc.role<label>, ...})
        -> (tensor<f32> {mpc.role = #mpc.role<loss>, ...}, tensor<32x10xf32> ...) {
      %p = mpc.softmax %logits axis(1) : tensor<32x10xf32>
      %loss = mpc.softmax_cross_entropy %logits, %label : ...
      return %loss, %p
    ```
    Cross entropy takes logits: if the output ends in the softmax (log_softmax,
    sigmoid) that the loss includes, the loss reads its input instead, with a
    remark; without `bypass` both are applied. Classes are on the last axis, for
    images `[N, C, H, W]` on axis 1. The loss is computed in f32 (f64 for f64
    outputs).

    Loss `output` selects the model's own: the scalar output becomes the first
    result, of role `loss`, and the input called `labels` (by default the last one)
    the argument of role `label`.

    Contract in: Simplify's, so that a softmax is one op.
    Contract out: exactly one result of role `loss`, a scalar.

    Numerics: the bypass is exact in the reals and loses less in floats.

    Example: test/Dialect/Mpc/Training/attach-loss.mlir
  }];
  let options = [
    Option<"loss", "loss", "std::string", /*default=*/"\"softmax_cross_entropy\"",
           "softmax_cross_entropy, sigmoid_cross_entropy, mean_squared_error, mean_absolute_error, huber or output">,
    Option<"output", "output", "std::string", /*default=*/"\"\"",
           "name of the output that the loss reads; empty for the only output">,
    Option<"labels", "labels", "std::string", /*default=*/"\"\"",
           "classes (i32) or dense; for loss output, the name of an input; empty for the loss's default">,
    Option<"labelSmoothing", "label-smoothing", "double", /*default=*/"0.0",
           "share of each label that is spread over all classes">,
    Option<"ignoreIndex", "ignore-index", "std::string", /*default=*/"\"\"",
           "class that the loss ignores; empty for none">,
    Option<"delta", "delta", "double", /*default=*/"1.0",
           "where huber turns from quadratic to linear">,
    Option<"bypass", "bypass", "bool", /*default=*/"true",
           "compute the loss from the input of a terminal softmax or sigmoid (logits)">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def AttachOptimizerPass : Pass<"mpc-attach-optimizer", "::mlir::func::FuncOp"> {
  let summary = "Turn gradients into parameter updates";
  let description = [{
    Consumes the results "NAME.gradient" of role `output` that mpc-differentiate
    appended, one per parameter.

    `part=step`: each becomes an `mpc.optimizer.*` op; its states are arguments
    "NAME.STATE" of role `optimizer_state`, initially zero; the argument "step"
    counts the applied steps and determines the scheduled learning rate. New
    parameter, states and step are results that alias their arguments.

    `part=forward-backward`: they stay results; mpc-scale-loss accumulates them over
    a window of micro steps.

    `part=apply`: everything but parameters is removed; the gradients are
    arguments "NAME.gradient" of role `optimizer_state`, of the parameters' types,
    and the updates are those of `part=step`.

    Contract in: mpc-differentiate's results; for `part=apply` parameters suffice.
    Contract out: every state is an argument and the result that updates it.

    Numerics: the optimizer ops' own.

    Example: test/Dialect/Mpc/Training/attach-optimizer.mlir
  }];
  let options = [
    Option<"part", "part", "std::string", /*default=*/"\"step\"",
           "step, forward-backward or apply">,
    Option<"optimizer", "optimizer", "std::string", /*default=*/"\"adam\"",
           "sgd, adam, adamw, rmsprop or adagrad">,
    Option<"form", "form", "std::string", /*default=*/"\"torch\"",
           "torch or keras: whose formula and defaults">,
    ListOption<"numbers", "numbers", "std::string",
               "NAME=VALUE of the optimizer: beta1=0.9, momentum=0.9, nesterov=1, ...">,
    Option<"weightDecay", "weight-decay", "double", /*default=*/"-1.0",
           "weight decay; negative takes the form's default">,
    Option<"learningRate", "learning-rate", "double", /*default=*/"1e-3",
           "learning rate, the schedule's largest">,
    Option<"schedule", "schedule", "std::string", /*default=*/"\"constant\"",
           "constant, step, cosine or linear">,
    Option<"warmup", "warmup", "int64_t", /*default=*/"0", "steps of linear warm-up">,
    Option<"steps", "steps", "int64_t", /*default=*/"0",
           "steps after which cosine and linear reach their final value">,
    Option<"finalRate", "final-rate", "double", /*default=*/"0.0",
           "final learning rate of cosine and linear">,
    Option<"period", "period", "int64_t", /*default=*/"0",
           "steps between the drops of schedule step">,
    Option<"gamma", "gamma", "double", /*default=*/"0.1", "factor of each drop">,
  ];
  let statistics = [Statistic<"numUpdates", "updates", "parameters that are updated">];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def CopyParametersPass : Pass<"mpc-copy-parameters", "::mlir::func::FuncOp"> {
  let summary = "Store 16-bit copies of parameters between steps";
  let description = [{
    A cast of an updated parameter to 16 bits becomes an argument "NAME.copy" of
    role `parameter_copy`: the optimizer op writes the copy that the next step
    reads.

    ```mlir
    %wh = mpc.cast %w : tensor<784x10xf32> to tensor<784x10xf16>
    ...
    %w1 = mpc.optimizer.sgd %w, %g step(%t) learning_rate(%lr) : ...
    ```
    becomes
    ```mlir
    func.func @main(..., %wh: tensor<784x10xf16> {mpc.role = #mpc.role<parameter_copy>, mpc.name = "fc.weight.copy"})
    %w1, %wh1 = mpc.optimizer.sgd %w, %g step(%t) learning_rate(%lr) : ...
    ```
    The copy is the parameter rounded to nearest even; the caller initializes it
    likewise before the first step. A parameter that is cast to two types keeps the
    second cast.

    Contract in: Precision's types.

    Numerics: none; the op rounds as the cast does.

    Example: test/Dialect/Mpc/Training/copy-parameters.mlir
  }];
  let statistics = [Statistic<"numCopies", "copies", "parameters with a copy">];
  let dependentDialects = ["::mpc::MpcDialect"];
}

#endif // MPC_DIALECT_MPC_TRAINING_PARAMETERPASSES
