// Gated layers of real models: two matmuls with a bias and SiLU, one matmul that is split
// in halves with GELU, and two experts. The weights are folded to constants.
!rows = tensor<24x64xf32>
!wide = tensor<24x96xf32>
!experts = tensor<2x12x64xf32>
!gate = tensor<6144xf32>
!flat = tensor<12288xf32>
func.func @main(%x: !rows {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (!rows {mpc.role = #mpc.role<output>, mpc.name = "dense"},
        !experts {mpc.role = #mpc.role<output>, mpc.name = "experts"}) {
  %step = mpc.constant dense<0.37> : tensor<f32>
  %other = mpc.constant dense<0.61> : tensor<f32>
  %eighth = mpc.constant dense<0.125> : tensor<f32>

  %i0 = mpc.iota axis(0) : !gate
  %a0 = mpc.mul %i0, %step : (!gate, tensor<f32>) -> !gate
  %s0 = mpc.sin %a0 : !gate
  %w0 = mpc.mul %s0, %eighth : (!gate, tensor<f32>) -> !gate
  %gate = mpc.reshape %w0 : !gate to tensor<64x96xf32>
  %a1 = mpc.mul %i0, %other : (!gate, tensor<f32>) -> !gate
  %s1 = mpc.sin %a1 : !gate
  %w1 = mpc.mul %s1, %eighth : (!gate, tensor<f32>) -> !gate
  %up = mpc.reshape %w1 : !gate to tensor<64x96xf32>
  %i1 = mpc.iota axis(0) : tensor<96xf32>
  %a2 = mpc.mul %i1, %step : (tensor<96xf32>, tensor<f32>) -> tensor<96xf32>
  %bias = mpc.sin %a2 : tensor<96xf32>
  %0 = mpc.matmul %x, %gate : (!rows, tensor<64x96xf32>) -> !wide loc("silu/gate")
  %1 = mpc.add %0, %bias : (!wide, tensor<96xf32>) -> !wide loc("silu/bias")
  %2 = mpc.sigmoid %1 : !wide loc("silu/sigmoid")
  %3 = mpc.mul %1, %2 : (!wide, !wide) -> !wide loc("silu/silu")
  %4 = mpc.matmul %x, %up : (!rows, tensor<64x96xf32>) -> !wide loc("silu/up")
  %5 = mpc.mul %3, %4 : (!wide, !wide) -> !wide loc("silu/gated")

  %i2 = mpc.iota axis(0) : !flat
  %a3 = mpc.mul %i2, %other : (!flat, tensor<f32>) -> !flat
  %s3 = mpc.sin %a3 : !flat
  %w3 = mpc.mul %s3, %eighth : (!flat, tensor<f32>) -> !flat
  %both = mpc.reshape %w3 : !flat to tensor<96x128xf32>
  %i3 = mpc.iota axis(0) : tensor<128xf32>
  %a4 = mpc.mul %i3, %step : (tensor<128xf32>, tensor<f32>) -> tensor<128xf32>
  %biases = mpc.sin %a4 : tensor<128xf32>
  %6 = mpc.matmul %5, %both : (!wide, tensor<96x128xf32>) -> tensor<24x128xf32> loc("gelu/both")
  %7 = mpc.add %6, %biases : (tensor<24x128xf32>, tensor<128xf32>) -> tensor<24x128xf32> loc("gelu/biases")
  %8 = mpc.slice %7 [0, 0] [24, 64] : tensor<24x128xf32> to !rows loc("gelu/left")
  %9 = mpc.slice %7 [0, 64] [24, 64] : tensor<24x128xf32> to !rows loc("gelu/right")
  %10 = mpc.gelu %8 : !rows loc("gelu/gelu")
  %11 = mpc.mul %10, %9 : (!rows, !rows) -> !rows loc("gelu/gated")

  %12 = mpc.reshape %11 : !rows to !experts
  %a5 = mpc.mul %i2, %step : (!flat, tensor<f32>) -> !flat
  %s5 = mpc.sin %a5 : !flat
  %w5 = mpc.mul %s5, %eighth : (!flat, tensor<f32>) -> !flat
  %gates = mpc.slice %w5 [0] [8192] : !flat to tensor<8192xf32>
  %ups = mpc.slice %w5 [4096] [8192] : !flat to tensor<8192xf32>
  %eg = mpc.reshape %gates : tensor<8192xf32> to tensor<2x64x64xf32>
  %eu = mpc.reshape %ups : tensor<8192xf32> to tensor<2x64x64xf32>
  %13 = mpc.matmul %12, %eg : (!experts, tensor<2x64x64xf32>) -> !experts loc("experts/gate")
  %14 = mpc.matmul %12, %eu : (!experts, tensor<2x64x64xf32>) -> !experts loc("experts/up")
  %15 = mpc.sigmoid %13 : !experts loc("experts/sigmoid")
  %16 = mpc.mul %13, %15 : (!experts, !experts) -> !experts loc("experts/silu")
  %17 = mpc.mul %16, %14 : (!experts, !experts) -> !experts loc("experts/gated")
  return %11, %17 : !rows, !experts
}
