//===- MpcOptimizerOps.td - updates and loss scales ---------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCOPTIMIZEROPS
#define MPC_DIALECT_MPC_IR_MPCOPTIMIZEROPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"
include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.td"

def Mpc_Flag : 0DTensorOf<[I1]>;
def Mpc_Counter : 0DTensorOf<[I64]>;
def Mpc_FloatScalar : 0DTensorOf<[F32, F64]>;
def Mpc_MasterTensor : RankedTensorOf<[F32, F64]>;

defvar Mpc_Unscale = DefaultValuedAttr<Mpc_UnscaleModeAttr, "::mpc::UnscaleMode::multiply">;
defvar Mpc_Form = DefaultValuedAttr<Mpc_OptimizerFormAttr, "::mpc::OptimizerForm::torch">;
defvar Mpc_Decay = DefaultValuedAttr<F64Attr, "0.0">;

//===----------------------------------------------------------------------===//
// Optimizers
//===----------------------------------------------------------------------===//

class Mpc_OptimizerOp<string mnemonic, string flops, dag options>
    : Mpc_Op<"optimizer." # mnemonic, "Opaque", flops # " * ::mpc::elementCount(getParameter())",
             [Mpc_KeepsBooks, Mpc_Composite, AttrSizedOperandSegments, AttrSizedResultSegments,
              AllTypesMatch<["parameter", "new_parameter"]>,
              DeclareOpInterfaceMethods<Mpc_OptimizerOpInterface, ["getStateNames"]>]> {
  defvar common = [{
    `g` is the gradient in the parameter's type, times `unscale` (divided by it
    under `unscale_mode = divide`), negated under `maximize`; `t` is `step` + 1.
    Constants are float64; what does not change over a tensor is computed in
    float64 and rounded once, then products, sums, quotients and roots are
    rounded one by one, from left to right. `a moves to b by c` is
    `a + c * (b - a)` for c < 1/2, else `b - (b - a) * (1 - c)`. A fused product
    is summed in float64 and the sum rounded once. Decoupled decay
    comes before the update: `w *= 1 - lr * weight_decay`; coupled decay before
    all else: `g += weight_decay * w`. Without `when`, or where it holds, the results are
    the formula's; where it does not hold they are the operands, bit for bit, and
    `copy` the parameter rounded. `copy`, where there, is the new parameter
    rounded to its element type.
    - (C1) gradient and states have the parameter's shape; states its type; the
      gradient's type is no wider.
    - (C2) there is one state for each of getStateNames().
    - (C3) new states have the states' types, `copy` the parameter's shape.
  }];
  let arguments = !con((ins Mpc_MasterTensor:$parameter, Mpc_FloatTensor:$gradient,
                            Variadic<Mpc_MasterTensor>:$states, Mpc_Counter:$step,
                            Mpc_FloatScalar:$learning_rate, Optional<Mpc_Flag>:$when,
                            Optional<Mpc_FloatScalar>:$unscale, Mpc_Unscale:$unscale_mode,
                            Mpc_Form:$form), options);
  let results = (outs Mpc_MasterTensor:$new_parameter, Variadic<Mpc_MasterTensor>:$new_states,
                      Optional<Mpc_FloatTensor>:$copy);
  let assemblyFormat = [{
    $parameter `,` $gradient (`states` `(` $states^ `)`)? `step` `(` $step `)`
    `learning_rate` `(` $learning_rate `)` (`when` `(` $when^ `)`)? (`unscale` `(` $unscale^ `)`)?
    attr-dict `:` `(` type(operands) `)` `->`
    custom<UpdateTypes>(ref($states), type($new_parameter), type($new_states), type($copy))
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = members # [{
    /// Master weights and states keep their types; a policy types only the
    /// gradient.
    bool isPrecisionOperand(unsigned index) { return index == 1; }
  }];
}

def Mpc_OptimizerSgdOp : Mpc_OptimizerOp<"sgd", "4",
    (ins Mpc_Decay:$momentum, Mpc_Decay:$dampening, UnitAttr:$nesterov,
         Mpc_Decay:$weight_decay, UnitAttr:$decoupled, UnitAttr:$maximize,
         OptionalAttr<StrAttr>:$fuse)> {
  let summary = "Stochastic gradient descent with momentum";
  let description = [{
    Form `torch`: `b = momentum * b + (1 - dampening) * g` (`b = g` at t = 1),
    `w -= lr * b`; nesterov: `w -= lr * (g + momentum * b)`. Form `keras`:
    `m = momentum * m - lr * g`, `w += m`; nesterov: `w += momentum * m - lr * g`.
    State `momentum` if momentum is not 0. `fuse` selects the product that is fused
    (fma) in the buffer's sum: `first` the buffer's (PyTorch's fused optimizer,
    Keras on JAX), `last` the gradient's (Keras on PyTorch), `none` (default).
    - (C4) nesterov requires dampening 0.
    - (C5) `fuse` is none, first or last.
  }] # common;
}
def Mpc_OptimizerAdamOp : Mpc_OptimizerOp<"adam", "14",
    (ins DefaultValuedAttr<F64Attr, "0.9">:$beta1, DefaultValuedAttr<F64Attr, "0.999">:$beta2,
         DefaultValuedAttr<F64Attr, "1e-8">:$epsilon, Mpc_Decay:$weight_decay,
         UnitAttr:$decoupled, UnitAttr:$amsgrad, UnitAttr:$maximize,
         OptionalAttr<StrAttr>:$fuse)> {
  let summary = "Adam and AdamW";
  let description = [{
    m moves to g by `1 - beta1` (Kingma and Ba, arXiv 1412.6980). Form `torch`:
    `v = beta2 * v + (1 - beta2) * g * g`,
    `w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)`. Form
    `keras`: v moves to `g * g` by `1 - beta2`,
    `w -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)`. With
    `amsgrad` (Reddi et al., arXiv 1904.09237) the running maximum of v replaces v.
    Decoupled decay makes it AdamW (Loshchilov and Hutter, arXiv 1711.05101). States
    `exp_avg`, `exp_avg_sq`, and `max_exp_avg_sq` with `amsgrad`. `fuse` selects the
    rounding of m. `first`, the default of form `torch`, fuses the product of the
    move (all of PyTorch's Adams, Keras on JAX); in form `keras` also that of g and
    a multiplied `unscale` with the difference `g - m` (which XLA contracts, too),
    unless `maximize` or coupled decay comes between. `none`, the default of form
    `keras`, fuses nothing (Keras on TensorFlow). `last` is
    `beta1 * m + (1 - beta1) * g` with the last product fused (Keras on PyTorch).
    - (C4) `fuse` is none, first or last.
  }] # common;
}
def Mpc_OptimizerRmspropOp : Mpc_OptimizerOp<"rmsprop", "12",
    (ins DefaultValuedAttr<F64Attr, "0.99">:$alpha, DefaultValuedAttr<F64Attr, "1e-8">:$epsilon,
         Mpc_Decay:$momentum, UnitAttr:$centered, Mpc_Decay:$weight_decay, UnitAttr:$decoupled,
         UnitAttr:$maximize)> {
  let summary = "RMSprop (Hinton, lecture 6e of Neural Networks for Machine Learning)";
  let description = [{
    `v = alpha * v + (1 - alpha) * g * g`; with `centered` a also moves to g by
    `1 - alpha` (the product fused in form `torch`), and `v - a * a` replaces v
    below. Form `torch`: `d = g / (sqrt(v) + epsilon)`, `w -= lr * d`; with momentum
    `b = momentum * b + d`, `w -= lr * b`. Form `keras`:
    `d = lr * g / sqrt(v + epsilon)`, `w -= d`; with momentum
    `b = momentum * b + d`, `w -= b`. States `square_avg`, then `grad_avg` with
    `centered`, then `momentum_buffer` with momentum.
  }] # common;
}
def Mpc_OptimizerAdagradOp : Mpc_OptimizerOp<"adagrad", "6",
    (ins DefaultValuedAttr<F64Attr, "1e-10">:$epsilon, Mpc_Decay:$learning_rate_decay,
         Mpc_Decay:$weight_decay, UnitAttr:$decoupled, UnitAttr:$maximize)> {
  let summary = "Adagrad (Duchi et al., JMLR 12, 2011)";
  let description = [{
    `s += g * g`, `w -= r * g / (sqrt(s) + epsilon)`; form `keras`:
    `w -= r * g / sqrt(s + epsilon)`, with `r = lr / (1 + (t - 1) *
    learning_rate_decay)`. State `sum`.
  }] # common;
}

//===----------------------------------------------------------------------===//
// Around the updates
//===----------------------------------------------------------------------===//

def Mpc_LearningRateOp : Mpc_Op<"learning_rate", "Opaque", "20",
                                 [Mpc_KeepsBooks, Mpc_Composite]> {
  let summary = "Learning rate of a step";
  let description = [{
    A function of the number `s` of steps applied so far, computed in float64 and
    rounded once. During the first `warmup` steps `base * (s + 1) / warmup`; then,
    with u = s - warmup and n = `steps` - warmup: `constant`: base; `step`:
    `base * gamma^floor(u / period)`; `cosine`:
    `final + (base - final) * (1 + cos(pi * min(u, n) / n)) / 2` (Loshchilov and
    Hutter, arXiv 1608.03983); `linear`: `base + (final - base) * min(u, n) / n`.
    - (C1) `cosine` and `linear` need `steps` > `warmup`; `step` needs `period` > 0.
    - (C2) `warmup` is not negative.
  }];
  let arguments = (ins Mpc_Counter:$step, F64Attr:$base,
                       DefaultValuedAttr<Mpc_ScheduleKindAttr, "::mpc::ScheduleKind::constant">:$kind,
                       DefaultValuedAttr<I64Attr, "0">:$warmup, DefaultValuedAttr<I64Attr, "0">:$steps,
                       DefaultValuedAttr<F64Attr, "0.0">:$final, DefaultValuedAttr<I64Attr, "0">:$period,
                       DefaultValuedAttr<F64Attr, "0.1">:$gamma);
  let results = (outs Mpc_FloatScalar:$result);
  let assemblyFormat = [{
    $step `base` `(` $base `)` (`kind` `(` custom<EnumKeyword>($kind)^ `)`)? attr-dict
    `:` type($step) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Mpc_AllFiniteOp : Mpc_Op<"all_finite", "Opaque", "0",
                                   [Mpc_KeepsBooks, AttrSizedOperandSegments]> {
  let summary = "Check that all gradients are finite and locate the first that is not";
  let description = [{
    `record` is (index of the first tensor with an infinity or NaN, number of such
    tensors), or (-1, 0). With `unscale` the elements are first multiplied by it
    (divided under `unscale_mode = divide`) in f32.
    - (C1) `names` has one entry per tensor, at least one.
    - (C2) `record` is `[2]`.
  }];
  let arguments = (ins Variadic<Mpc_FloatTensor>:$gradients, Optional<Mpc_FloatScalar>:$unscale,
                       StrArrayAttr:$names, Mpc_Unscale:$unscale_mode);
  let results = (outs Mpc_Flag:$finite, RankedTensorOf<[I64]>:$record);
  let assemblyFormat = [{
    $gradients (`unscale` `(` $unscale^ `)`)? `names` `(` $names `)` attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Mpc_GlobalNormOp : Mpc_Op<"global_norm", "Opaque", "0",
                                   [Mpc_KeepsBooks, AttrSizedOperandSegments]> {
  let summary = "Euclidean norm of all gradients together";
  let description = [{
    `sqrt(sum over all tensors and elements of (unscaled gradient)^2)` in the
    result's type; `unscale` as in all_finite. Each tensor is summed by fused
    multiply-adds, and the sums are added in tensor order (Keras,
    tf.clip_by_global_norm). With `of_norms` the squares of the tensors' norms are
    added by fused multiply-adds in the same order (torch.nn.utils.clip_grad_norm_).
    The reference interpreter, and CPU code for short tensors, add elements in
    order.
    - (C1) there is at least one tensor.
  }];
  let arguments = (ins Variadic<Mpc_FloatTensor>:$gradients, Optional<Mpc_FloatScalar>:$unscale,
                       Mpc_Unscale:$unscale_mode, UnitAttr:$of_norms);
  let results = (outs Mpc_FloatScalar:$result);
  let assemblyFormat = [{
    $gradients (`unscale` `(` $unscale^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Mpc_LossScaleUpdateOp : Mpc_Op<"loss_scale.update", "Opaque", "0",
    [Mpc_KeepsBooks, Mpc_Composite, AllTypesMatch<["scale", "new_scale"]>,
     AllTypesMatch<["good_steps", "new_good_steps"]>]> {
  let summary = "Update the loss scale after a step";
  let description = [{
    Non-finite step: `good_steps` becomes 0; if `hysteresis_left` (default 1) is
    above 1 it is decremented, else the scale is multiplied by `backoff`, at least
    `min`. Finite step: `good_steps` is incremented; at `interval` it becomes 0 and
    the scale is multiplied by `growth`, at most `max`; with `keep_finite` the scale
    is unchanged if the new one is not finite. Products and bounds are float64,
    rounded once to f32. `hysteresis_left` becomes `hysteresis` on growth, and on
    every finite step with `refill_hysteresis`.
    - (C1) `growth` >= 1, 0 < `backoff` <= 1; `interval` and `hysteresis` are in [1,
      2^31 - 1].
    - (C2) `hysteresis_left` is present if `hysteresis` is above 1.
    - (C3) `new_hysteresis_left` is present exactly if `hysteresis_left` is.
  }];
  let arguments = (ins 0DTensorOf<[F32]>:$scale, 0DTensorOf<[I32]>:$good_steps,
                       Optional<0DTensorOf<[I32]>>:$hysteresis_left, Mpc_Flag:$finite,
                       F64Attr:$growth, F64Attr:$backoff, I64Attr:$interval,
                       OptionalAttr<F64Attr>:$min, OptionalAttr<F64Attr>:$max,
                       UnitAttr:$keep_finite, DefaultValuedAttr<I64Attr, "1">:$hysteresis,
                       UnitAttr:$refill_hysteresis);
  let results = (outs 0DTensorOf<[F32]>:$new_scale, 0DTensorOf<[I32]>:$new_good_steps,
                      Optional<0DTensorOf<[I32]>>:$new_hysteresis_left);
  let assemblyFormat = [{
    $scale `,` $good_steps (`hysteresis_left` `(` $hysteresis_left^ `)`)? `when` `(` $finite `)`
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // MPC_DIALECT_MPC_IR_MPCOPTIMIZEROPS
