// Norms with one matmul as reader: tokens of a batch with a residual that both the norm
// and the end of the block read, a head of few columns, and rows that fill no tile,
// padded and with arithmetic before the norm.
func.func @main(%x: tensor<2x8x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
    %rows: tensor<19x40xf32> {mpc.role = #mpc.role<input>, mpc.name = "rows"},
    %wide: tensor<64x96xf32> {mpc.role = #mpc.role<input>, mpc.name = "wide"},
    %down: tensor<96x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "down"},
    %head: tensor<64x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "head"},
    %narrow: tensor<40x24xf32> {mpc.role = #mpc.role<input>, mpc.name = "narrow"},
    %scale: tensor<64xf32> {mpc.role = #mpc.role<input>, mpc.name = "scale"},
    %shift: tensor<40xf32> {mpc.role = #mpc.role<input>, mpc.name = "shift"})
    -> (tensor<2x8x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "block"},
        tensor<19x24xf32> {mpc.role = #mpc.role<output>, mpc.name = "plain"}) {
  %gain = mpc.constant dense<0.75> : tensor<40xf32>

  %0 = mpc.rms_norm %x, %scale axis(2) epsilon(1.0e-6) : (tensor<2x8x64xf32>, tensor<64xf32>) -> tensor<2x8x64xf32> loc("norm1")
  %1 = mpc.matmul %0, %wide : (tensor<2x8x64xf32>, tensor<64x96xf32>) -> tensor<2x8x96xf32> loc("up")
  %2 = mpc.gelu %1 : tensor<2x8x96xf32> loc("gelu")
  %3 = mpc.matmul %2, %down : (tensor<2x8x96xf32>, tensor<96x64xf32>) -> tensor<2x8x64xf32> loc("down")
  %4 = mpc.add %3, %x : (tensor<2x8x64xf32>, tensor<2x8x64xf32>) -> tensor<2x8x64xf32> loc("residual")
  %5 = mpc.layer_norm %4, %scale, %scale axis(2) epsilon(1.0e-5) : (tensor<2x8x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<2x8x64xf32> loc("norm2")
  %6 = mpc.matmul %5, %head : (tensor<2x8x64xf32>, tensor<64x8xf32>) -> tensor<2x8x8xf32> loc("head")

  %7 = mpc.tanh %rows : tensor<19x40xf32> loc("tanh")
  %8 = mpc.layer_norm %7, %gain, %shift axis(1) epsilon(1.0e-5) : (tensor<19x40xf32>, tensor<40xf32>, tensor<40xf32>) -> tensor<19x40xf32> loc("norm3")
  %9 = mpc.matmul %8, %narrow : (tensor<19x40xf32>, tensor<40x24xf32>) -> tensor<19x24xf32> loc("plain")
  return %6, %9 : tensor<2x8x8xf32>, tensor<19x24xf32>
}
