// The matmul reads in f16 a value that only f32 can represent.
func.func @main(%x: tensor<8x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %w: tensor<8x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "w"})
    -> (tensor<8x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %s = mpc.constant dense<1.0e6> : tensor<f32>
  %0 = mpc.mul %x, %s : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32> loc("large")
  %1 = mpc.matmul %0, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("product")
  return %1 : tensor<8x8xf32>
}
