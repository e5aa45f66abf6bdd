// RUN: mpc-opt %s --mpc-verify-stage=stage=precision --split-input-file --verify-diagnostics

// Values that are f32 by default: softmax, losses, ops that compute a loss, float
// outputs. The decision names the override.
func.func private @softmax(%x: tensor<4x4xf16>) -> tensor<4x4xf16> {
  // expected-error @below {{'mpc.softmax' op computes in 'f16'; softmax is f32 unless an override says otherwise}}
  %0 = mpc.softmax %x axis(1) {mpc.decision = #mpc.decision<rule = "low", list = "float16">} : tensor<4x4xf16>
  return %0 : tensor<4x4xf16>
}

// -----

func.func private @overridden(%x: tensor<4x4xf16>, %l: tensor<4x4xf16>) -> (tensor<4x4xf16>, tensor<f16>) {
  %0 = mpc.softmax %x axis(1) {mpc.decision = #mpc.decision<rule = "override", list = "float16", override = "op:softmax=float16">} : tensor<4x4xf16>
  %1 = mpc.mean_squared_error %x, %l {mpc.decision = #mpc.decision<rule = "override", list = "float16", override = "op:mean_squared_error=float16">} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<f16>
  return %0, %1 : tensor<4x4xf16>, tensor<f16>
}

// -----

func.func private @loss_op(%x: tensor<4x4xf16>, %y: tensor<4x4xf16>) -> tensor<f16> {
  // expected-error @below {{'mpc.mean_squared_error' op computes in 'f16'; a loss is f32 unless an override says otherwise}}
  %0 = mpc.mean_squared_error %x, %y {mpc.decision = #mpc.decision<rule = "low", list = "float16">} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<f16>
  return %0 : tensor<f16>
}

// -----

func.func private @loss_in_steps(%x: tensor<4x4xf16>) -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  // expected-error @below {{'mpc.mul' op computes in 'f16'; the ops of a loss are f32 unless an override says otherwise}}
  %0 = mpc.mul %x, %x {mpc.decision = #mpc.decision<rule = "low", list = "float16">} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16>
  %1 = mpc.cast %0 : tensor<4x4xf16> to tensor<4x4xf32>
  %2 = mpc.reduce_sum %1 axes([0, 1]) {mpc.decision = #mpc.decision<rule = "high", list = "float16">} : tensor<4x4xf32> -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

func.func private @imitated_loss(%x: tensor<4x4xf16>) -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  %0 = mpc.mul %x, %x {mpc.decision = #mpc.decision<rule = "follow", list = "torch_autocast_cuda_float16">} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16>
  %1 = mpc.cast %0 : tensor<4x4xf16> to tensor<4x4xf32>
  %2 = mpc.reduce_sum %1 axes([0, 1]) {mpc.decision = #mpc.decision<rule = "high_result", list = "torch_autocast_cuda_float16">} : tensor<4x4xf32> -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

func.func private @rounded_loss(%x: tensor<4x4xf32>) -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  %0 = mpc.mul %x, %x {mpc.decision = #mpc.decision<rule = "high", list = "float16">} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // expected-error @below {{'mpc.cast' op rounds a part of the loss to 'f16'}}
  %1 = mpc.cast %0 : tensor<4x4xf32> to tensor<4x4xf16>
  %2 = mpc.cast %1 : tensor<4x4xf16> to tensor<4x4xf32>
  %3 = mpc.reduce_sum %2 axes([0, 1]) {mpc.decision = #mpc.decision<rule = "high", list = "float16">} : tensor<4x4xf32> -> tensor<f32>
  return %3 : tensor<f32>
}

// -----

func.func private @rounded_output(%x: tensor<4x4xf32>) -> (tensor<4x4xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.tanh %x {mpc.decision = #mpc.decision<rule = "follow", list = "mixed_float16">} : tensor<4x4xf32>
  // expected-error @below {{'mpc.cast' op rounds output 'y' to 'f16'; a float output is f32 unless an override says otherwise}}
  %1 = mpc.cast %0 : tensor<4x4xf32> to tensor<4x4xf16>
  %2 = mpc.cast %1 : tensor<4x4xf16> to tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// -----

// An op that computes in 16 bits, by its policy or by an override, has no f32
// value.
func.func private @narrow_op(%x: tensor<4x4xf16>) -> (tensor<4x4xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.tanh %x {mpc.decision = #mpc.decision<rule = "low", list = "float16">} : tensor<4x4xf16>
  %1 = mpc.cast %0 : tensor<4x4xf16> to tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
