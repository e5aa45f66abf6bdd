// NaN for every input.
func.func @main(%x: tensor<8xf32> {mpc.name = "x", mpc.role = #mpc.role<input>})
    -> (tensor<8xf32> {mpc.name = "y", mpc.role = #mpc.role<output>}) {
  %one = mpc.constant dense<1.0> : tensor<f32>
  %0 = mpc.abs %x : tensor<8xf32>
  %1 = mpc.add %0, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = mpc.neg %1 : tensor<8xf32>
  %3 = mpc.log %2 : tensor<8xf32>
  return %3 : tensor<8xf32>
}
