// Ops around the GEMMs in blocks of image networks: a group norm, squeeze and
// excitation, a dense layer, tokens of an image, experts.
func.func @main(%x: tensor<2x16x6x6xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
    %filter: tensor<8x16x3x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "filter"},
    %squeeze: tensor<4x8x1x1xf32> {mpc.role = #mpc.role<input>, mpc.name = "squeeze"},
    %excite: tensor<8x4x1x1xf32> {mpc.role = #mpc.role<input>, mpc.name = "excite"},
    %dense: tensor<8x24x1x1xf32> {mpc.role = #mpc.role<input>, mpc.name = "dense"},
    %tokens: tensor<8x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "tokens"},
    %router: tensor<8x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "router"},
    %experts: tensor<3x8x16xf32> {mpc.role = #mpc.role<input>, mpc.name = "experts"})
    -> (tensor<2x8x6x6xf32> {mpc.role = #mpc.role<output>, mpc.name = "image"},
        tensor<2x36x16xf32> {mpc.role = #mpc.role<output>, mpc.name = "mixture"}) {
  %one = mpc.constant dense<1.0> : tensor<1xf32>
  %scale = mpc.constant dense<[[[1.0]], [[-1.5]], [[0.5]], [[2.0]], [[0.25]], [[1.25]], [[-0.75]], [[1.0]], [[3.0]], [[0.5]], [[-1.0]], [[0.125]], [[1.0]], [[2.5]], [[-0.5]], [[1.5]]]> : tensor<16x1x1xf32>
  %shift = mpc.constant dense<[[[0.5]], [[0.0]], [[-0.5]], [[1.0]], [[0.25]], [[-0.25]], [[0.75]], [[-1.0]], [[0.0]], [[0.5]], [[1.0]], [[-0.125]], [[0.5]], [[0.0]], [[-0.5]], [[1.5]]]> : tensor<16x1x1xf32>
  %bias4 = mpc.constant dense<[[[0.5]], [[-0.25]], [[0.0]], [[1.0]]]> : tensor<4x1x1xf32>
  %bias8 = mpc.constant dense<[[[0.5]], [[-0.25]], [[0.0]], [[1.0]], [[-1.0]], [[0.75]], [[0.25]], [[-0.5]]]> : tensor<8x1x1xf32>
  %gain = mpc.constant dense<[[[1.0]], [[2.0]], [[-1.0]], [[0.5]], [[1.5]], [[-0.5]], [[0.25]], [[1.0]], [[1.0]], [[-2.0]], [[1.0]], [[0.5]], [[1.5]], [[0.5]], [[0.25]], [[1.0]], [[-1.0]], [[2.0]], [[1.0]], [[0.5]], [[-1.5]], [[0.5]], [[0.25]], [[1.0]]]> : tensor<24x1x1xf32>
  %row = mpc.constant dense<[0.5, -0.25, 0.0, 1.0, -1.0, 0.75, 0.25, -0.5]> : tensor<8xf32>

  // Group norm, scale per channel, SiLU, convolution.
  %0 = mpc.reshape %x : tensor<2x16x6x6xf32> to tensor<2x4x144xf32>
  %1 = mpc.layer_norm %0, %one axis(2) epsilon(1.0e-5) : (tensor<2x4x144xf32>, tensor<1xf32>) -> tensor<2x4x144xf32> loc("norm")
  %2 = mpc.reshape %1 : tensor<2x4x144xf32> to tensor<2x16x6x6xf32>
  %3 = mpc.mul %2, %scale : (tensor<2x16x6x6xf32>, tensor<16x1x1xf32>) -> tensor<2x16x6x6xf32>
  %4 = mpc.add %3, %shift : (tensor<2x16x6x6xf32>, tensor<16x1x1xf32>) -> tensor<2x16x6x6xf32>
  %5 = mpc.sigmoid %4 : tensor<2x16x6x6xf32>
  %6 = mpc.mul %4, %5 : (tensor<2x16x6x6xf32>, tensor<2x16x6x6xf32>) -> tensor<2x16x6x6xf32>
  %7 = mpc.conv %6, %filter strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) : (tensor<2x16x6x6xf32>, tensor<8x16x3x3xf32>) -> tensor<2x8x6x6xf32> loc("conv")

  // Squeeze and excitation.
  %8 = mpc.reduce_mean %7 axes([2, 3]) keep_dims : tensor<2x8x6x6xf32> -> tensor<2x8x1x1xf32> loc("mean")
  %9 = mpc.conv %8, %squeeze strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<2x8x1x1xf32>, tensor<4x8x1x1xf32>) -> tensor<2x4x1x1xf32> loc("squeeze")
  %10 = mpc.add %9, %bias4 : (tensor<2x4x1x1xf32>, tensor<4x1x1xf32>) -> tensor<2x4x1x1xf32>
  %11 = mpc.relu %10 : tensor<2x4x1x1xf32>
  %12 = mpc.conv %11, %excite strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<2x4x1x1xf32>, tensor<8x4x1x1xf32>) -> tensor<2x8x1x1xf32> loc("excite")
  %13 = mpc.add %12, %bias8 : (tensor<2x8x1x1xf32>, tensor<8x1x1xf32>) -> tensor<2x8x1x1xf32>
  %14 = mpc.sigmoid %13 : tensor<2x8x1x1xf32>
  %15 = mpc.mul %7, %14 : (tensor<2x8x6x6xf32>, tensor<2x8x1x1xf32>) -> tensor<2x8x6x6xf32>

  // A dense layer: image and argument concatenated, scaled before the matmul.
  %16 = mpc.concat %x, %15 axis(1) : (tensor<2x16x6x6xf32>, tensor<2x8x6x6xf32>) -> tensor<2x24x6x6xf32>
  %17 = mpc.mul %16, %gain : (tensor<2x24x6x6xf32>, tensor<24x1x1xf32>) -> tensor<2x24x6x6xf32>
  %18 = mpc.relu %17 : tensor<2x24x6x6xf32>
  %19 = mpc.conv %18, %dense strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<2x24x6x6xf32>, tensor<8x24x1x1xf32>) -> tensor<2x8x6x6xf32> loc("dense")

  // Pixels as tokens, and back to the image.
  %20 = mpc.reshape %19 : tensor<2x8x6x6xf32> to tensor<2x8x36xf32>
  %21 = mpc.transpose %20 [0, 2, 1] : tensor<2x8x36xf32> to tensor<2x36x8xf32>
  %22 = mpc.matmul %21, %tokens : (tensor<2x36x8xf32>, tensor<8x8xf32>) -> tensor<2x36x8xf32> loc("tokens")
  %23 = mpc.add %22, %row : (tensor<2x36x8xf32>, tensor<8xf32>) -> tensor<2x36x8xf32>
  %24 = mpc.transpose %23 [0, 2, 1] : tensor<2x36x8xf32> to tensor<2x8x36xf32>
  %25 = mpc.reshape %24 : tensor<2x8x36xf32> to tensor<2x8x6x6xf32>
  %26 = mpc.add %15, %25 : (tensor<2x8x6x6xf32>, tensor<2x8x6x6xf32>) -> tensor<2x8x6x6xf32>

  // Every expert on every token, weighted.
  %27 = mpc.reshape %21 : tensor<2x36x8xf32> to tensor<72x8xf32>
  %28 = mpc.matmul %27, %router : (tensor<72x8xf32>, tensor<8x3xf32>) -> tensor<72x3xf32> loc("router")
  %29 = mpc.softmax %28 axis(1) : tensor<72x3xf32> loc("softmax")
  %30 = mpc.reshape %29 : tensor<72x3xf32> to tensor<72x1x3xf32>
  %31 = mpc.transpose %30 [2, 0, 1] : tensor<72x1x3xf32> to tensor<3x72x1xf32>
  %32 = mpc.reshape %21 : tensor<2x36x8xf32> to tensor<1x72x8xf32>
  %33 = mpc.broadcast %32 : tensor<1x72x8xf32> to tensor<3x72x8xf32>
  %34 = mpc.matmul %33, %experts : (tensor<3x72x8xf32>, tensor<3x8x16xf32>) -> tensor<3x72x16xf32> loc("experts")
  %35 = mpc.mul %34, %31 : (tensor<3x72x16xf32>, tensor<3x72x1xf32>) -> tensor<3x72x16xf32>
  %36 = mpc.reduce_sum %35 axes([0]) : tensor<3x72x16xf32> -> tensor<72x16xf32> loc("mixture")
  %37 = mpc.reshape %36 : tensor<72x16xf32> to tensor<2x36x16xf32>
  return %26, %37 : tensor<2x8x6x6xf32>, tensor<2x36x16xf32>
}
