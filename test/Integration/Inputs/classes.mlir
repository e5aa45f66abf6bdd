// Classes by argmax. Inputs are multiples of 1/4 that bf16 represents, so that the
// products and sums are exact and only rounding of the logits can change a class; `far`
// is computed from values that no policy rounds.
func.func @main(%x: tensor<500x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %w: tensor<64x400xf32> {mpc.role = #mpc.role<input>, mpc.name = "w"})
    -> (tensor<500xi64> {mpc.role = #mpc.role<output>, mpc.name = "class"},
        tensor<500xi64> {mpc.role = #mpc.role<output>, mpc.name = "farthest"}) {
  %f = mpc.constant dense<4.0> : tensor<f32>
  %xs = mpc.mul %x, %f : (tensor<500x64xf32>, tensor<f32>) -> tensor<500x64xf32>
  %ws = mpc.mul %w, %f : (tensor<64x400xf32>, tensor<f32>) -> tensor<64x400xf32>
  %xr = mpc.round %xs : tensor<500x64xf32>
  %wr = mpc.round %ws : tensor<64x400xf32>
  %0 = mpc.matmul %xr, %wr : (tensor<500x64xf32>, tensor<64x400xf32>) -> tensor<500x400xf32> loc("head")
  %1 = mpc.argmax %0 axis(1) : tensor<500x400xf32> -> tensor<500xi64> loc("pick")
  %2 = mpc.argmax %x axis(1) : tensor<500x64xf32> -> tensor<500xi64> loc("far")
  return %1, %2 : tensor<500xi64>, tensor<500xi64>
}
