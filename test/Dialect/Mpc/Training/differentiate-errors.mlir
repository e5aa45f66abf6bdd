// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-differentiate))' --split-input-file --verify-diagnostics

func.func @no_second_derivative(
    // expected-note @below {{this value depends on a parameter}}
    %p: tensor<1x1x4xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "p"},
    %g: tensor<1x1x2xf32> {mpc.role = #mpc.role<input>})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  // expected-error @below {{'mpc.max_pool_gradient' op has no derivative but is between a parameter and the loss; insert mpc.stop_gradient before it or freeze the parameter}}
  %0 = mpc.max_pool_gradient %p, %g window([2]) strides([2]) pad([0], [0]) dilations([1]) : (tensor<1x1x4xf32>, tensor<1x1x2xf32>) -> tensor<1x1x4xf32>
  %1 = mpc.reduce_sum %0 axes([0, 1, 2]) : tensor<1x1x4xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// expected-error @below {{'func.func' op has a loss that depends on no parameter}}
func.func @no_parameter(%x: tensor<f32> {mpc.role = #mpc.role<input>})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  %0 = mpc.exp %x : tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error @below {{'func.func' op returns a loss of type 'tensor<3xf32>', expected a float tensor without dimensions}}
func.func @loss_with_dimensions(%p: tensor<3xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "p"})
    -> (tensor<3xf32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  %0 = mpc.exp %p : tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @crops_and_extends(%p: tensor<4xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "p"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  %zero = mpc.constant dense<0.0> : tensor<f32>
  // expected-error @below {{'mpc.pad' op has no derivative: it crops one end of axis 0 and extends the other; slice first, then pad}}
  %0 = mpc.pad %p, %zero low([-1]) high([2]) mode(edge) : (tensor<4xf32>, tensor<f32>) -> tensor<5xf32>
  %1 = mpc.reduce_sum %0 axes([0]) : tensor<5xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// A parameter that no loss depends on is no error.
// expected-remark @below {{the loss does not depend on parameter 'q': its gradient is zero}}
func.func @unused(%p: tensor<f32> {mpc.role = #mpc.role<parameter>, mpc.name = "p"},
                  %q: tensor<3xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "q"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  %0 = mpc.exp %p : tensor<f32>
  return %0 : tensor<f32>
}
