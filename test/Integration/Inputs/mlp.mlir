// A classifier of 8x8 images to train: its weights are initialized by --init.
func.func @main(%image: tensor<16x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "image"})
    -> (tensor<16x5xf32> {mpc.role = #mpc.role<output>, mpc.name = "logits"}) {
  %w1 = mpc.constant dense<0.0> : tensor<64x32xf32> loc("w1")
  %b1 = mpc.constant dense<0.0> : tensor<32xf32> loc("b1")
  %w2 = mpc.constant dense<0.0> : tensor<32x5xf32> loc("w2")
  %b2 = mpc.constant dense<0.0> : tensor<5xf32> loc("b2")
  %0 = mpc.matmul %image, %w1 : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32> loc("fc1/MatMul")
  %1 = mpc.add %0, %b1 : (tensor<16x32xf32>, tensor<32xf32>) -> tensor<16x32xf32> loc("fc1/Add")
  %2 = mpc.relu %1 : tensor<16x32xf32> loc("act")
  %3 = mpc.matmul %2, %w2 : (tensor<16x32xf32>, tensor<32x5xf32>) -> tensor<16x5xf32> loc("fc2/MatMul")
  %4 = mpc.add %3, %b2 : (tensor<16x5xf32>, tensor<5xf32>) -> tensor<16x5xf32> loc("fc2/Add")
  return %4 : tensor<16x5xf32>
}
