// Every value fits into f32; in f16 `square` and, far more often, `last` do not.
func.func @main(%x: tensor<64x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<64x64xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %s = mpc.constant dense<6000.0> : tensor<f32>
  %0 = mpc.mul %x, %s : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32> loc("big")
  %1 = mpc.mul %0, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("square")
  %e = mpc.constant dense<8.0> : tensor<f32>
  %2 = mpc.mul %1, %e : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32> loc("last")
  return %2 : tensor<64x64xf32>
}
