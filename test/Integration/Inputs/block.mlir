// A feed-forward block with a residual connection, a norm and a head: types from
// rules, types from the min cut, and a value with two labels.
func.func @main(%x: tensor<64x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %ids: tensor<64xi64> {mpc.role = #mpc.role<input>, mpc.name = "ids"})
    -> (tensor<64x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "probabilities"}) {
  %table = mpc.constant dense<0.25> : tensor<16x64xf32> loc("table")
  %w1 = mpc.constant dense<0.03125> : tensor<64x128xf32> loc("w1")
  %b1 = mpc.constant dense<0.1> : tensor<128xf32> loc("b1")
  %w2 = mpc.constant dense<0.015625> : tensor<128x64xf32> loc("w2")
  %b2 = mpc.constant dense<0.2> : tensor<64xf32> loc("b2")
  %scale = mpc.constant dense<1.5> : tensor<64xf32> loc("scale")
  %shift = mpc.constant dense<0.5> : tensor<64xf32> loc("shift")
  %w3 = mpc.constant dense<0.01> : tensor<64x10xf32> loc("w3")
  %e = mpc.gather %table, %ids axis(0) : (tensor<16x64xf32>, tensor<64xi64>) -> tensor<64x64xf32> loc("embed")
  %0 = mpc.add %x, %e : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("sum")
  %1 = mpc.matmul %0, %w1 : (tensor<64x64xf32>, tensor<64x128xf32>) -> tensor<64x128xf32> loc("fc1/MatMul")
  %2 = mpc.add %1, %b1 : (tensor<64x128xf32>, tensor<128xf32>) -> tensor<64x128xf32> loc("fc1/Add")
  %3 = mpc.gelu %2 : tensor<64x128xf32> loc("act")
  %4 = mpc.matmul %3, %w2 : (tensor<64x128xf32>, tensor<128x64xf32>) -> tensor<64x64xf32> loc("fc2/MatMul")
  %5 = mpc.add %4, %b2 : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32> loc("fc2/Add")
  %6 = mpc.add %5, %0 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("residual")
  %7 = mpc.layer_norm %6, %scale, %shift axis(1) epsilon(1.0e-5)
      : (tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64x64xf32> loc("norm")
  %8 = mpc.matmul %7, %w3 : (tensor<64x64xf32>, tensor<64x10xf32>) -> tensor<64x10xf32> loc("head")
  %9 = mpc.softmax %8 axis(1) : tensor<64x10xf32> loc("softmax")
  return %9 : tensor<64x10xf32>
}
