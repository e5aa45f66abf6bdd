// Gated layers as models have them: two products with a bias and SiLU, one product that is
// cut in halves with GELU, and two experts. The weights are folded to constants.
func.func @main(%x: tensor<24x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<24x64xf32> {mpc.role = #mpc.role<output>, mpc.name = "dense"},
        tensor<2x12x64xf32> {mpc.role = #mpc.role<output>, mpc.name = "experts"}) {
  %step = mpc.constant dense<0.37> : tensor<f32>
  %other = mpc.constant dense<0.61> : tensor<f32>
  %eighth = mpc.constant dense<0.125> : tensor<f32>

  %i0 = mpc.iota axis(0) : tensor<6144xf32>
  %a0 = mpc.mul %i0, %step : (tensor<6144xf32>, tensor<f32>) -> tensor<6144xf32>
  %s0 = mpc.sin %a0 : tensor<6144xf32>
  %w0 = mpc.mul %s0, %eighth : (tensor<6144xf32>, tensor<f32>) -> tensor<6144xf32>
  %gate = mpc.reshape %w0 : tensor<6144xf32> to tensor<64x96xf32>
  %a1 = mpc.mul %i0, %other : (tensor<6144xf32>, tensor<f32>) -> tensor<6144xf32>
  %s1 = mpc.sin %a1 : tensor<6144xf32>
  %w1 = mpc.mul %s1, %eighth : (tensor<6144xf32>, tensor<f32>) -> tensor<6144xf32>
  %up = mpc.reshape %w1 : tensor<6144xf32> to tensor<64x96xf32>
  %i1 = mpc.iota axis(0) : tensor<96xf32>
  %a2 = mpc.mul %i1, %step : (tensor<96xf32>, tensor<f32>) -> tensor<96xf32>
  %bias = mpc.sin %a2 : tensor<96xf32>
  %0 = mpc.matmul %x, %gate : (tensor<24x64xf32>, tensor<64x96xf32>) -> tensor<24x96xf32> loc("silu/gate")
  %1 = mpc.add %0, %bias : (tensor<24x96xf32>, tensor<96xf32>) -> tensor<24x96xf32> loc("silu/bias")
  %2 = mpc.sigmoid %1 : tensor<24x96xf32> loc("silu/sigmoid")
  %3 = mpc.mul %1, %2 : (tensor<24x96xf32>, tensor<24x96xf32>) -> tensor<24x96xf32> loc("silu/silu")
  %4 = mpc.matmul %x, %up : (tensor<24x64xf32>, tensor<64x96xf32>) -> tensor<24x96xf32> loc("silu/up")
  %5 = mpc.mul %3, %4 : (tensor<24x96xf32>, tensor<24x96xf32>) -> tensor<24x96xf32> loc("silu/gated")

  %i2 = mpc.iota axis(0) : tensor<12288xf32>
  %a3 = mpc.mul %i2, %other : (tensor<12288xf32>, tensor<f32>) -> tensor<12288xf32>
  %s3 = mpc.sin %a3 : tensor<12288xf32>
  %w3 = mpc.mul %s3, %eighth : (tensor<12288xf32>, tensor<f32>) -> tensor<12288xf32>
  %both = mpc.reshape %w3 : tensor<12288xf32> to tensor<96x128xf32>
  %i3 = mpc.iota axis(0) : tensor<128xf32>
  %a4 = mpc.mul %i3, %step : (tensor<128xf32>, tensor<f32>) -> tensor<128xf32>
  %biases = mpc.sin %a4 : tensor<128xf32>
  %6 = mpc.matmul %5, %both : (tensor<24x96xf32>, tensor<96x128xf32>) -> tensor<24x128xf32> loc("gelu/both")
  %7 = mpc.add %6, %biases : (tensor<24x128xf32>, tensor<128xf32>) -> tensor<24x128xf32> loc("gelu/biases")
  %8 = mpc.slice %7 [0, 0] [24, 64] : tensor<24x128xf32> to tensor<24x64xf32> loc("gelu/left")
  %9 = mpc.slice %7 [0, 64] [24, 64] : tensor<24x128xf32> to tensor<24x64xf32> loc("gelu/right")
  %10 = mpc.gelu %8 : tensor<24x64xf32> loc("gelu/gelu")
  %11 = mpc.mul %10, %9 : (tensor<24x64xf32>, tensor<24x64xf32>) -> tensor<24x64xf32> loc("gelu/gated")

  %12 = mpc.reshape %11 : tensor<24x64xf32> to tensor<2x12x64xf32>
  %a5 = mpc.mul %i2, %step : (tensor<12288xf32>, tensor<f32>) -> tensor<12288xf32>
  %s5 = mpc.sin %a5 : tensor<12288xf32>
  %w5 = mpc.mul %s5, %eighth : (tensor<12288xf32>, tensor<f32>) -> tensor<12288xf32>
  %gates = mpc.slice %w5 [0] [8192] : tensor<12288xf32> to tensor<8192xf32>
  %ups = mpc.slice %w5 [4096] [8192] : tensor<12288xf32> to tensor<8192xf32>
  %eg = mpc.reshape %gates : tensor<8192xf32> to tensor<2x64x64xf32>
  %eu = mpc.reshape %ups : tensor<8192xf32> to tensor<2x64x64xf32>
  %13 = mpc.matmul %12, %eg : (tensor<2x12x64xf32>, tensor<2x64x64xf32>) -> tensor<2x12x64xf32> loc("experts/gate")
  %14 = mpc.matmul %12, %eu : (tensor<2x12x64xf32>, tensor<2x64x64xf32>) -> tensor<2x12x64xf32> loc("experts/up")
  %15 = mpc.sigmoid %13 : tensor<2x12x64xf32> loc("experts/sigmoid")
  %16 = mpc.mul %13, %15 : (tensor<2x12x64xf32>, tensor<2x12x64xf32>) -> tensor<2x12x64xf32> loc("experts/silu")
  %17 = mpc.mul %16, %14 : (tensor<2x12x64xf32>, tensor<2x12x64xf32>) -> tensor<2x12x64xf32> loc("experts/gated")
  return %11, %17 : tensor<24x64xf32>, tensor<2x12x64xf32>
}
