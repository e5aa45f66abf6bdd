// RUN: mpc-opt %s --mpc-attach-optimizer --split-input-file --verify-diagnostics
// RUN: not mpc-opt %s --mpc-attach-optimizer=optimizer=lion --split-input-file 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not mpc-opt %s --mpc-attach-optimizer="optimizer=sgd numbers=beta1=0.9" --split-input-file 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not mpc-opt %s --mpc-attach-optimizer="optimizer=sgd numbers=momentum=much" --split-input-file 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not mpc-opt %s --mpc-attach-optimizer="optimizer=adam numbers=beta1=2" --split-input-file 2>&1 | FileCheck %s --check-prefix=SHARE
// RUN: not mpc-opt %s --mpc-attach-optimizer="optimizer=adam numbers=epsilon=-1" --split-input-file 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not mpc-opt %s --mpc-attach-optimizer=form=jax --split-input-file 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not mpc-opt %s --mpc-attach-optimizer=schedule=poly --split-input-file 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// RUN: not mpc-opt %s --mpc-attach-optimizer=part=half --split-input-file 2>&1 | FileCheck %s --check-prefix=PART

// KIND: unknown optimizer 'lion'; use sgd, adam, adamw, rmsprop or adagrad
// NUMBER: optimizer 'sgd' has no hyperparameter 'beta1'; it has dampening, maximize, momentum, nesterov
// VALUE: number 'momentum' of optimizer 'sgd' is 'much', which is not a number
// SHARE: number 'beta1' of optimizer 'adam' is 2, but must be at least 0 and less than 1
// RANGE: number 'epsilon' of optimizer 'adam' is -1, but must be finite and not negative
// FORM: unknown form 'jax'; use torch or keras
// SCHEDULE: unknown schedule 'poly'; use constant, step, cosine or linear
// PART: unknown part 'half'; use step, forward-backward or apply
// expected-error @below {{there is no result 'w.gradient'; mpc-differentiate appends one for each parameter}}
func.func @no_gradient(%w: tensor<2xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"})
    -> (tensor<2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  return %w : tensor<2xf32>
}

// -----

// expected-error @below {{the function has no parameter to train}}
func.func @no_parameter(%x: tensor<2xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  return %x : tensor<2xf32>
}
