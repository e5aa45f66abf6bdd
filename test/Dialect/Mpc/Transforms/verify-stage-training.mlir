// RUN: mpc-opt %s --mpc-verify-stage=stage=lift --split-input-file --verify-diagnostics
// RUN: not mpc-opt %s --mpc-verify-stage=stage=differentiate --split-input-file 2>&1 | FileCheck %s --check-prefix=DIFFERENTIATE
// RUN: not mpc-opt %s --mpc-verify-stage=stage=loss-scale --split-input-file 2>&1 | FileCheck %s --check-prefix=SCALE

// Invariants of the stages of a training step.
// expected-error @below {{parameter 'w' (argument 0) has no 'mpc.initial' of its type 'tensor<2xf32>'}}
func.func @no_initial_value(%w: tensor<2xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"}) {
  return
}

// -----

// DIFFERENTIATE: loss 'loss' is 'tensor<2xf32>'; a loss is a scalar in f32 or f64
func.func @loss_of_rows(%x: tensor<2xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<2xf32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  return %x : tensor<2xf32>
}

// -----

// DIFFERENTIATE: parameter 'v' (argument 1) is neither updated nor has a gradient
func.func @one_of_two(%w: tensor<f32> {mpc.role = #mpc.role<parameter>, mpc.name = "w", mpc.initial = dense<0.0> : tensor<f32>},
                      %v: tensor<f32> {mpc.role = #mpc.role<parameter>, mpc.name = "v", mpc.initial = dense<0.0> : tensor<f32>})
    -> (tensor<f32> {mpc.role = #mpc.role<output>, mpc.name = "w.gradient"}) {
  return %w : tensor<f32>
}

// -----

// DIFFERENTIATE: result 'u' of role #mpc.role<output> replaces argument 'w' of role #mpc.role<parameter>
// SCALE: result 'u' of role #mpc.role<output> replaces argument 'w' of role #mpc.role<parameter>
func.func @other_name(%w: tensor<f32> {mpc.role = #mpc.role<parameter>, mpc.name = "w", mpc.initial = dense<0.0> : tensor<f32>})
    -> (tensor<f32> {mpc.role = #mpc.role<output>, mpc.name = "u", mpc.alias = 0}) {
  return %w : tensor<f32>
}

// -----

// SCALE: 'mpc.gradient_seed' op must not remain after the loss-scale stage
func.func @unscaled() -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  %0 = mpc.gradient_seed : tensor<f32>
  return %0 : tensor<f32>
}
