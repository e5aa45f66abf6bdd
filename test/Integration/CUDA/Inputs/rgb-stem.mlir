// The first layers of networks over images: three channels, whose elements are gathered one
// by one, 7x7 by two as ResNet has it and 3x3 as small networks do.
func.func @main(%x: tensor<8x3x224x224xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<8x64x112x112xf32> {mpc.role = #mpc.role<output>, mpc.name = "wide"},
        tensor<8x32x224x224xf32> {mpc.role = #mpc.role<output>, mpc.name = "narrow"}) {
  %f1 = mpc.constant dense<0.01> : tensor<64x3x7x7xf32> loc("wide/weight")
  %f2 = mpc.constant dense<0.01> : tensor<32x3x3x3xf32> loc("narrow/weight")
  %wide = mpc.conv %x, %f1 strides([2, 2]) pad([3, 3], [3, 3]) dilations([1, 1])
      : (tensor<8x3x224x224xf32>, tensor<64x3x7x7xf32>) -> tensor<8x64x112x112xf32> loc("wide")
  %first = mpc.relu %wide : tensor<8x64x112x112xf32>
  %narrow = mpc.conv %x, %f2 strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1])
      : (tensor<8x3x224x224xf32>, tensor<32x3x3x3xf32>) -> tensor<8x32x224x224xf32> loc("narrow")
  %second = mpc.relu %narrow : tensor<8x32x224x224xf32>
  return %first, %second : tensor<8x64x112x112xf32>, tensor<8x32x224x224xf32>
}
