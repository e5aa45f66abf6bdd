// An image classifier in training form: convolutions, batch norm, pools.
func.func @main(%x: tensor<8x3x12x12xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %label: tensor<8xi32> {mpc.role = #mpc.role<label>, mpc.name = "label"},
                %rng: tensor<2xi64> {mpc.role = #mpc.role<input>, mpc.name = "rng"},
                %mean: tensor<8xf32> {mpc.role = #mpc.role<input>, mpc.name = "mean"},
                %f1: tensor<8x3x3x3xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "f1"},
                %scale: tensor<8xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "scale"},
                %shift: tensor<8xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "shift"},
                %f2: tensor<16x4x3x3xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "f2"},
                %f3: tensor<16x6x2x2xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "f3"},
                %w: tensor<10x6xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"},
                %b: tensor<10xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "b"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  %small = mpc.constant dense<0.25> : tensor<f32>
  %0 = mpc.conv %x, %f1 strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) : (tensor<8x3x12x12xf32>, tensor<8x3x3x3xf32>) -> tensor<8x8x12x12xf32>
  %1:3 = mpc.batch_norm_training %0, %scale, %shift, %mean, %mean epsilon(1.0e-3) momentum(0.1) : (tensor<8x8x12x12xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x8x12x12xf32>, tensor<8xf32>, tensor<8xf32>)
  %2 = mpc.relu %1#0 : tensor<8x8x12x12xf32>
  %3 = mpc.max_pool %2 window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) : tensor<8x8x12x12xf32> -> tensor<8x8x6x6xf32>
  %4 = mpc.conv %3, %f2 strides([2, 2]) pad([1, 1], [0, 0]) dilations([1, 1]) groups(2) : (tensor<8x8x6x6xf32>, tensor<16x4x3x3xf32>) -> tensor<8x16x3x3xf32>
  %5 = mpc.mul %4, %small : (tensor<8x16x3x3xf32>, tensor<f32>) -> tensor<8x16x3x3xf32>
  %6 = mpc.silu %5 : tensor<8x16x3x3xf32>
  %7 = mpc.dropout %6, %rng probability(0.25) stream(1) : (tensor<8x16x3x3xf32>, tensor<2xi64>) -> tensor<8x16x3x3xf32>
  %8 = mpc.conv_transpose %7, %f3 strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) output_padding([0, 0]) : (tensor<8x16x3x3xf32>, tensor<16x6x2x2xf32>) -> tensor<8x6x6x6xf32>
  %9 = mpc.avg_pool %8 window([3, 3]) strides([3, 3]) pad([0, 0], [0, 0]) dilations([1, 1]) : tensor<8x6x6x6xf32> -> tensor<8x6x2x2xf32>
  %10 = mpc.reduce_mean %9 axes([2, 3]) : tensor<8x6x2x2xf32> -> tensor<8x6xf32>
  %11 = mpc.matmul %10, %w transpose_rhs : (tensor<8x6xf32>, tensor<10x6xf32>) -> tensor<8x10xf32>
  %12 = mpc.add %11, %b : (tensor<8x10xf32>, tensor<10xf32>) -> tensor<8x10xf32>
  %13 = mpc.softmax_cross_entropy %12, %label label_smoothing(0.1) : (tensor<8x10xf32>, tensor<8xi32>) -> tensor<f32>
  return %13 : tensor<f32>
}
