// One step of one row and one unit, whose matmuls are one block each.
func.func @main(%x: tensor<1x1x1xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<1x2x1x1xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w = mpc.constant dense<0.25> : tensor<2x4x1xf32> loc("w")
  %r = mpc.constant dense<0.25> : tensor<2x4x1xf32> loc("r")
  %b = mpc.constant dense<0.1> : tensor<2x8xf32> loc("b")
  %0:3 = mpc.lstm %x, %w, %r bias(%b) direction(bidirectional)
    : (tensor<1x1x1xf32>, tensor<2x4x1xf32>, tensor<2x4x1xf32>, tensor<2x8xf32>)
    -> (tensor<1x2x1x1xf32>, tensor<2x1x1xf32>, tensor<2x1x1xf32>) loc("layer")
  return %0#0 : tensor<1x2x1x1xf32>
}
