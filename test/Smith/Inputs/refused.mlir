// mpc-smith: {"seed":1,"kind":"cpu","policy":"float32"}
func.func @main(%x: tensor<2x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"}, %y: tensor<2xf32> {mpc.role = #mpc.role<input>, mpc.name = "y"}) -> (tensor<2x3xf32> {mpc.role = #mpc.role<output>, mpc.name = "r"}) {
  %0 = mpc.add %x, %y : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
