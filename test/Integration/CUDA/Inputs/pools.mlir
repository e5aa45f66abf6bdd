// Depthwise convolutions with a fused mean or sum over the image: many pixels and odd
// extents, several outputs of a channel, a row with more channels than a block has threads, one
// pixel, and one whose only used result is the mean.
func.func @main(%x: tensor<3x33x19x24xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %t: tensor<2x9x1200xf32> {mpc.role = #mpc.role<input>, mpc.name = "t"},
                %f: tensor<24x1x5x5xf32> {mpc.role = #mpc.role<input>, mpc.name = "f"},
                %g: tensor<48x1x3x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "g"},
                %h: tensor<1200x1x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "h"},
                %b: tensor<48xf32> {mpc.role = #mpc.role<input>, mpc.name = "b"})
    -> (tensor<3x33x19x24xf32> {mpc.role = #mpc.role<output>, mpc.name = "excited"},
        tensor<3x48xf32> {mpc.role = #mpc.role<output>, mpc.name = "means"},
        tensor<2x1200xf32> {mpc.role = #mpc.role<output>, mpc.name = "line_sums"},
        tensor<2x9x1200xf32> {mpc.role = #mpc.role<output>, mpc.name = "line"},
        tensor<3x48xf32> {mpc.role = #mpc.role<output>, mpc.name = "pixel"}) {
  %0 = mpc.conv %x, %f strides([1, 1]) pad([2, 2], [2, 2]) dilations([1, 1]) groups(24) layout(channels_last) : (tensor<3x33x19x24xf32>, tensor<24x1x5x5xf32>) -> tensor<3x33x19x24xf32> loc("depth")
  %1 = mpc.silu %0 : tensor<3x33x19x24xf32>
  %2 = mpc.reduce_mean %1 axes([1, 2]) keep_dims : tensor<3x33x19x24xf32> -> tensor<3x1x1x24xf32> loc("squeeze")
  %3 = mpc.sigmoid %2 : tensor<3x1x1x24xf32>
  %4 = mpc.mul %1, %3 : (tensor<3x33x19x24xf32>, tensor<3x1x1x24xf32>) -> tensor<3x33x19x24xf32>
  %5 = mpc.conv %x, %g strides([2, 2]) pad([1, 1], [1, 1]) dilations([1, 1]) groups(24) layout(channels_last) : (tensor<3x33x19x24xf32>, tensor<48x1x3x3xf32>) -> tensor<3x17x10x48xf32> loc("wide")
  %6 = mpc.add %5, %b : (tensor<3x17x10x48xf32>, tensor<48xf32>) -> tensor<3x17x10x48xf32>
  %7 = mpc.reduce_mean %6 axes([1, 2]) : tensor<3x17x10x48xf32> -> tensor<3x48xf32> loc("means")
  %8 = mpc.conv %t, %h strides([1]) pad([1], [1]) dilations([1]) groups(1200) layout(channels_last) : (tensor<2x9x1200xf32>, tensor<1200x1x3xf32>) -> tensor<2x9x1200xf32> loc("line")
  %9 = mpc.relu %8 : tensor<2x9x1200xf32>
  %10 = mpc.reduce_sum %9 axes([1]) : tensor<2x9x1200xf32> -> tensor<2x1200xf32> loc("line_sums")
  %11 = mpc.conv %6, %g strides([17, 10]) pad([1, 1], [0, 0]) dilations([1, 1]) groups(48) layout(channels_last) : (tensor<3x17x10x48xf32>, tensor<48x1x3x3xf32>) -> tensor<3x1x1x48xf32> loc("pixel")
  %12 = mpc.tanh %11 : tensor<3x1x1x48xf32>
  %13 = mpc.reduce_mean %12 axes([1, 2]) : tensor<3x1x1x48xf32> -> tensor<3x48xf32> loc("pixel_mean")
  return %4, %7, %10, %9, %13 : tensor<3x33x19x24xf32>, tensor<3x48xf32>, tensor<2x1200xf32>, tensor<2x9x1200xf32>, tensor<3x48xf32>
}
