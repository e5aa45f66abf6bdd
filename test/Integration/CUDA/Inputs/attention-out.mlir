// Attention, and the output projection of all heads after it.
func.func @main(%q: tensor<2x4x40x32xf32> {mpc.role = #mpc.role<input>, mpc.name = "q"},
                %k: tensor<2x4x72x32xf32> {mpc.role = #mpc.role<input>, mpc.name = "k"},
                %v: tensor<2x4x72x32xf32> {mpc.role = #mpc.role<input>, mpc.name = "v"},
                %w: tensor<128x96xf32> {mpc.role = #mpc.role<input>, mpc.name = "w"},
                %b: tensor<96xf32> {mpc.role = #mpc.role<input>, mpc.name = "b"})
    -> (tensor<2x40x96xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.attention %q, %k, %v scale(0.1767) : (tensor<2x4x40x32xf32>, tensor<2x4x72x32xf32>, tensor<2x4x72x32xf32>) -> tensor<2x4x40x32xf32> loc("attend")
  %1 = mpc.transpose %0 [0, 2, 1, 3] : tensor<2x4x40x32xf32> to tensor<2x40x4x32xf32>
  %2 = mpc.reshape %1 : tensor<2x40x4x32xf32> to tensor<2x40x128xf32>
  %3 = mpc.matmul %2, %w : (tensor<2x40x128xf32>, tensor<128x96xf32>) -> tensor<2x40x96xf32> loc("out")
  %4 = mpc.add %3, %b : (tensor<2x40x96xf32>, tensor<96xf32>) -> tensor<2x40x96xf32> loc("bias")
  return %4 : tensor<2x40x96xf32>
}
