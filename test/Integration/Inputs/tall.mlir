func.func @main(%x: tensor<3x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"}, %n: tensor<3xi64> {mpc.role = #mpc.role<input>, mpc.name = "n"}) -> (tensor<3x5xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}, tensor<3x4xf32> {mpc.role = #mpc.role<output>, mpc.name = "z"}) {
  %w = mpc.constant dense<0.5> : tensor<4x5xf32>
  %0 = mpc.exp %x {mpc.layer = "first"} : tensor<3x4xf32> loc("exp")
  %1 = mpc.matmul %0, %w : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %2 = mpc.softmax %1 axis(1) {mpc.layer = "second"} : tensor<3x5xf32> loc("attention/softmax")
  %3 = mpc.tanh %2 : tensor<3x5xf32>
  %4 = mpc.mul %3, %2 : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  %5 = mpc.relu %0 : tensor<3x4xf32>
  return %4, %5 : tensor<3x5xf32>, tensor<3x4xf32>
}
