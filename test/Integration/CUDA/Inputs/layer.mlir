// An activation with a bias, and a norm: kernels without a library GEMM.
func.func @main(%x: tensor<64x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<64x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %bias = mpc.constant dense<[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]> : tensor<8xf32> loc("bias")
  %scale = mpc.constant dense<[1.5, 1.4, 1.3, 1.2, 1.1, 1.0, 0.9, 0.8]> : tensor<8xf32> loc("scale")
  %shift = mpc.constant dense<0.5> : tensor<8xf32> loc("shift")
  %0 = mpc.add %x, %bias : (tensor<64x8xf32>, tensor<8xf32>) -> tensor<64x8xf32> loc("add")
  %1 = mpc.gelu %0 : tensor<64x8xf32> loc("act")
  %2 = mpc.layer_norm %1, %scale, %shift axis(1) epsilon(1.0e-5)
      : (tensor<64x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<64x8xf32> loc("norm")
  return %2 : tensor<64x8xf32>
}
