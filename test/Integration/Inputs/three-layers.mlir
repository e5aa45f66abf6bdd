// Three layers, the second of which overflows in f16: its operand is larger
// than 65504.
func.func @main(%x: tensor<32x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<32x64xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w = mpc.constant dense<0.11> : tensor<64x64xf32> loc("weight")
  %large = mpc.constant dense<3.0e4> : tensor<f32> loc("large")
  %small = mpc.constant dense<1.0e-5> : tensor<f32> loc("small")
  %0 = mpc.matmul %x, %w : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32> loc("first")
  %1 = mpc.mul %0, %large : (tensor<32x64xf32>, tensor<f32>) -> tensor<32x64xf32> loc("scaled")
  %2 = mpc.matmul %1, %w : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32> loc("second")
  %3 = mpc.mul %2, %small : (tensor<32x64xf32>, tensor<f32>) -> tensor<32x64xf32> loc("unscaled")
  %4 = mpc.tanh %3 : tensor<32x64xf32> loc("bounded")
  %5 = mpc.matmul %4, %w : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32> loc("third")
  return %5 : tensor<32x64xf32>
}
