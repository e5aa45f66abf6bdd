// Grouped-query attention: 3 new tokens of 2 sequences, 8 query and 2 KV heads.
func.func @main(%q: tensor<2x3x8x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "q"},
                %k: tensor<2x2x520x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "k"},
                %v: tensor<2x2x520x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "v"},
                %m: tensor<2x8x3x520xf32> {mpc.role = #mpc.role<input>, mpc.name = "m"})
    -> (tensor<2x3x512xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.transpose %q [0, 2, 1, 3] : tensor<2x3x8x64xf32> to tensor<2x8x3x64xf32>
  %1 = mpc.attention %0, %k, %v mask(%m) scale(0.125) causal : (tensor<2x8x3x64xf32>, tensor<2x2x520x64xf32>, tensor<2x2x520x64xf32>, tensor<2x8x3x520xf32>) -> tensor<2x8x3x64xf32> loc("attend")
  %2 = mpc.transpose %1 [0, 2, 1, 3] : tensor<2x8x3x64xf32> to tensor<2x3x8x64xf32>
  %3 = mpc.reshape %2 : tensor<2x3x8x64xf32> to tensor<2x3x512xf32>
  return %3 : tensor<2x3x512xf32>
}
