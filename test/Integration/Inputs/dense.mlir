func.func @main(%x: tensor<4x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %ids: tensor<4xi64> {mpc.role = #mpc.role<input>, mpc.name = "ids"})
    -> (tensor<4x3xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %table = mpc.constant dense<[[1.0, 2.0, 3.0], [6.0, 4.0, 5.0]]> : tensor<2x3xf32>
  %w = mpc.constant dense<[[0.1, -0.2, 0.3], [0.4, 0.5, -0.6], [0.7, -0.8, 0.9], [1.0, -1.1, 1.2], [0.3, 0.2, 0.1], [-0.4, 0.6, 0.8], [0.2, 0.9, -0.5], [0.6, 0.7, 0.4]]> : tensor<8x3xf32>
  %0 = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32> loc("fc/MatMul")
  %1 = mpc.gather %table, %ids axis(0) : (tensor<2x3xf32>, tensor<4xi64>) -> tensor<4x3xf32> loc("embedding")
  %2 = mpc.add %0, %1 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32> loc("sum")
  %3 = mpc.softmax %2 axis(1) : tensor<4x3xf32> loc("probabilities")
  return %3 : tensor<4x3xf32>
}
