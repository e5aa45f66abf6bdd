// Gradients that no communication can correct are errors at the op.
// RUN: mpc-opt %s --mpc-distribute=ranks=2 --verify-diagnostics --split-input-file

func.func @no_divisor(
    %x: tensor<8x4xf32> {mpc.name = "x", mpc.role = #mpc.role<input>},
    %y: tensor<8xi32> {mpc.name = "label", mpc.role = #mpc.role<label>})
    -> (tensor<f32> {mpc.name = "loss", mpc.role = #mpc.role<loss>},
        tensor<8x4xf32> {mpc.name = "w.gradient", mpc.role = #mpc.role<output>}) {
  // expected-error @below {{'mpc.softmax_cross_entropy' op ignores targets, whose number differs between ranks, and the divisor of its gradient is not found; train on one rank}}
  %loss = mpc.softmax_cross_entropy %x, %y ignore_index(1) : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32>
  %seed = mpc.gradient_seed : tensor<f32>
  %0 = mpc.mul %x, %seed : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  return %loss, %0 : tensor<f32>, tensor<8x4xf32>
}
