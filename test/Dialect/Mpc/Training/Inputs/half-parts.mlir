// The backward pass rounds to f16, the update holds f32 alone.
func.func @forward_backward(%x: tensor<2xf32> {mpc.name = "x", mpc.role = #mpc.role<input>})
    -> (tensor<2xf32> {mpc.name = "w.gradient", mpc.role = #mpc.role<output>}) {
  %seed = mpc.gradient_seed : tensor<f32>
  %xh = mpc.cast %x : tensor<2xf32> to tensor<2xf16>
  %xw = mpc.cast %xh : tensor<2xf16> to tensor<2xf32>
  %g = mpc.mul %xw, %seed : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %g : tensor<2xf32>
}
func.func @apply(%w: tensor<2xf32> {mpc.name = "w", mpc.role = #mpc.role<parameter>},
    %g: tensor<2xf32> {mpc.name = "w.gradient", mpc.role = #mpc.role<optimizer_state>},
    %t: tensor<i64> {mpc.name = "step", mpc.role = #mpc.role<optimizer_step>})
    -> (tensor<2xf32> {mpc.name = "w", mpc.role = #mpc.role<parameter>, mpc.alias = 0 : i64}) {
  %lr = mpc.constant dense<0.1> : tensor<f32>
  %nw = mpc.optimizer.sgd %w, %g step(%t) learning_rate(%lr) : (tensor<2xf32>, tensor<2xf32>, tensor<i64>, tensor<f32>) -> tensor<2xf32>
  return %nw : tensor<2xf32>
}
