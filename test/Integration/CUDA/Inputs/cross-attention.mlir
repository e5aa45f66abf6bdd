// Half a decoder block: a matmul and its residual, a norm and the query projection, and attention to the keys and
// values of an encoder.
func.func @main(%x: tensor<2x32x128xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %k: tensor<2x70x2x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "k"},
                %v: tensor<2x70x2x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "v"},
                %s: tensor<128xf32> {mpc.role = #mpc.role<input>, mpc.name = "s"},
                %b: tensor<128xf32> {mpc.role = #mpc.role<input>, mpc.name = "b"},
                %w: tensor<128x128xf32> {mpc.role = #mpc.role<input>, mpc.name = "w"})
    -> (tensor<2x32x128xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %p = mpc.matmul %x, %w : (tensor<2x32x128xf32>, tensor<128x128xf32>) -> tensor<2x32x128xf32> loc("before")
  %h = mpc.add %p, %x : (tensor<2x32x128xf32>, tensor<2x32x128xf32>) -> tensor<2x32x128xf32> loc("residual")
  %0 = mpc.layer_norm %h, %s, %b axis(2) epsilon(1.0e-5) : (tensor<2x32x128xf32>, tensor<128xf32>, tensor<128xf32>) -> tensor<2x32x128xf32> loc("norm")
  %1 = mpc.matmul %0, %w : (tensor<2x32x128xf32>, tensor<128x128xf32>) -> tensor<2x32x128xf32> loc("query")
  %2 = mpc.add %1, %b : (tensor<2x32x128xf32>, tensor<128xf32>) -> tensor<2x32x128xf32> loc("query_bias")
  %3 = mpc.reshape %2 : tensor<2x32x128xf32> to tensor<2x32x2x64xf32>
  %4 = mpc.transpose %3 [0, 2, 1, 3] : tensor<2x32x2x64xf32> to tensor<2x2x32x64xf32>
  %5 = mpc.transpose %k [0, 2, 1, 3] : tensor<2x70x2x64xf32> to tensor<2x2x70x64xf32>
  %6 = mpc.transpose %v [0, 2, 1, 3] : tensor<2x70x2x64xf32> to tensor<2x2x70x64xf32>
  %7 = mpc.attention %4, %5, %6 scale(0.125) : (tensor<2x2x32x64xf32>, tensor<2x2x70x64xf32>, tensor<2x2x70x64xf32>) -> tensor<2x2x32x64xf32> loc("attend")
  %8 = mpc.transpose %7 [0, 2, 1, 3] : tensor<2x2x32x64xf32> to tensor<2x32x2x64xf32>
  %9 = mpc.reshape %8 : tensor<2x32x2x64xf32> to tensor<2x32x128xf32>
  return %9 : tensor<2x32x128xf32>
}
