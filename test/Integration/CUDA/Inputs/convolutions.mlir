// Two convolutions to be trained, of a three-channel image and of vectorizable channels.
func.func @main(%x: tensor<8x33x33x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<8x8x8x64xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %f1 = mpc.constant dense<0.01> : tensor<32x3x3x3xf32> loc("conv1/weight")
  %b1 = mpc.constant dense<0.5> : tensor<32xf32> loc("conv1/bias")
  %f2 = mpc.constant dense<0.02> : tensor<64x32x3x3xf32> loc("conv2/weight")
  %b2 = mpc.constant dense<0.25> : tensor<64xf32> loc("conv2/bias")
  %0 = mpc.conv %x, %f1 strides([2, 2]) pad([1, 1], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<8x33x33x3xf32>, tensor<32x3x3x3xf32>) -> tensor<8x16x16x32xf32> loc("conv1")
  %1 = mpc.add %0, %b1 : (tensor<8x16x16x32xf32>, tensor<32xf32>) -> tensor<8x16x16x32xf32> loc("conv1")
  %2 = mpc.relu %1 : tensor<8x16x16x32xf32> loc("relu1")
  %3 = mpc.conv %2, %f2 strides([2, 2]) pad([1, 1], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<8x16x16x32xf32>, tensor<64x32x3x3xf32>) -> tensor<8x8x8x64xf32> loc("conv2")
  %4 = mpc.add %3, %b2 : (tensor<8x8x8x64xf32>, tensor<64xf32>) -> tensor<8x8x8x64xf32> loc("conv2")
  %5 = mpc.relu %4 : tensor<8x8x8x64xf32> loc("relu2")
  return %5 : tensor<8x8x8x64xf32>
}
