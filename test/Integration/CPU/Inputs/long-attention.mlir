// One query of four heads, 32,768 keys of one, split over work items (split-KV).
func.func @main(%q: tensor<1x4x1x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "q"},
                %k: tensor<1x1x32768x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "k"})
    -> (tensor<1x4x1x64xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.attention %q, %k, %k scale(5.000000e-01) causal : (tensor<1x4x1x64xf32>, tensor<1x1x32768x64xf32>, tensor<1x1x32768x64xf32>) -> tensor<1x4x1x64xf32>
  return %0 : tensor<1x4x1x64xf32>
}
