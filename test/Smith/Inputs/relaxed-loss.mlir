// mpc-smith: {"seed":1098,"kind":"training","policy":"torch_autocast_cpu_bfloat16","training":"step loss=softmax_cross_entropy optimizer=sgd optimizer-form=keras","rounding":"relaxed","input_seed":401}
func.func @main(%x: tensor<2x9x16xf32> {mpc.name = "x", mpc.role = #mpc.role<input>}) -> (tensor<2x9x2xf32> {mpc.name = "y", mpc.role = #mpc.role<output>}) {
  %w = mpc.constant dense<[[0.12, 0.01, 0.17, 0.04, -0.08, -0.11, -0.17, 0.38, 0.06, -0.06, 0.07, 0.18, 0.29, -0.44, 0.02, -0.04], [-0.01, 0.22, -0.30, 0.31, 0.15, -0.67, -0.11, -0.26, -0.13, 0.09, 0.05, 0.06, 0.09, 0.09, -0.29, 0.11]]> : tensor<2x16xf32>
  %0 = mpc.matmul %x, %w transpose_rhs : (tensor<2x9x16xf32>, tensor<2x16xf32>) -> tensor<2x9x2xf32>
  return %0 : tensor<2x9x2xf32>
}
