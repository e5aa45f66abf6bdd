// mpc-smith: {"seed":1,"kind":"training","policy":"mixed_bfloat16","training":"step loss=mean_squared_error optimizer=sgd"}
func.func @main(%x: tensor<3x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"}) -> (tensor<3x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w = mpc.constant dense<[[0.1, -0.2], [0.3, 0.4], [-0.5, 0.6], [0.7, 0.8]]> : tensor<4x2xf32>
  %0 = mpc.matmul %x, %w : (tensor<3x4xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>
  %1 = mpc.gelu %0 : tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}
