// Concats after matmuls: the layers of a dense block in the order of the caller's dimensions,
// before and after the convolution's own channels, with arithmetic after them; a matmul whose
// result is between an aligned and an odd operand, which is used twice; a concat of rows.
func.func @main(%x: tensor<2x14x13x24xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %f: tensor<16x24x3x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "f"},
                %g: tensor<8x16x3x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "g"},
                %s: tensor<48x1x1xf32> {mpc.role = #mpc.role<input>, mpc.name = "s"},
                %a: tensor<70x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "a"},
                %b: tensor<70x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "b"},
                %w: tensor<64x24xf32> {mpc.role = #mpc.role<input>, mpc.name = "w"},
                %o: tensor<70x5xf32> {mpc.role = #mpc.role<input>, mpc.name = "o"},
                %r: tensor<9x24xf32> {mpc.role = #mpc.role<input>, mpc.name = "r"})
    -> (tensor<2x48x14x13xf32> {mpc.role = #mpc.role<output>, mpc.name = "dense"},
        tensor<70x98xf32> {mpc.role = #mpc.role<output>, mpc.name = "wide"},
        tensor<79x24xf32> {mpc.role = #mpc.role<output>, mpc.name = "below"}) {
  %0 = mpc.conv %x, %f strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) : (tensor<2x14x13x24xf32>, tensor<16x24x3x3xf32>) -> tensor<2x14x13x16xf32> loc("layer1")
  %1 = mpc.relu %0 : tensor<2x14x13x16xf32>
  %2 = mpc.conv %1, %g strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) : (tensor<2x14x13x16xf32>, tensor<8x16x3x3xf32>) -> tensor<2x14x13x8xf32> loc("layer2")
  %3 = mpc.concat %1, %2, %x axis(3) : (tensor<2x14x13x16xf32>, tensor<2x14x13x8xf32>, tensor<2x14x13x24xf32>) -> tensor<2x14x13x48xf32>
  %4 = mpc.transpose %3 [0, 3, 1, 2] : tensor<2x14x13x48xf32> to tensor<2x48x14x13xf32>
  %5 = mpc.mul %4, %s : (tensor<2x48x14x13xf32>, tensor<48x1x1xf32>) -> tensor<2x48x14x13xf32>
  %6 = mpc.matmul %a, %w : (tensor<70x64xf32>, tensor<64x24xf32>) -> tensor<70x24xf32> loc("product")
  %7 = mpc.tanh %6 : tensor<70x24xf32>
  %8 = mpc.concat %o, %a, %7, %o axis(1) : (tensor<70x5xf32>, tensor<70x64xf32>, tensor<70x24xf32>, tensor<70x5xf32>) -> tensor<70x98xf32>
  %9 = mpc.matmul %b, %w : (tensor<70x64xf32>, tensor<64x24xf32>) -> tensor<70x24xf32> loc("rows")
  %10 = mpc.sigmoid %9 : tensor<70x24xf32>
  %11 = mpc.concat %r, %10 axis(0) : (tensor<9x24xf32>, tensor<70x24xf32>) -> tensor<79x24xf32>
  return %5, %8, %11 : tensor<2x48x14x13xf32>, tensor<70x98xf32>, tensor<79x24xf32>
}
