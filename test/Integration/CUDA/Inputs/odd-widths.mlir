// Widths unsupported by Tensor Cores, between padded matmuls: 13, 30 and 21 columns
// under a layer norm, a batch norm and dropout.
func.func @main(%x: tensor<12x13xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<12x5xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w1 = mpc.constant dense<0.1> : tensor<13x30xf32> loc("w1")
  %b1 = mpc.constant dense<0.2> : tensor<30xf32> loc("b1")
  %g = mpc.constant dense<1.1> : tensor<30xf32> loc("norm/scale")
  %o = mpc.constant dense<0.1> : tensor<30xf32> loc("norm/bias")
  %w2 = mpc.constant dense<0.1> : tensor<30x21xf32> loc("w2")
  %s = mpc.constant dense<1.2> : tensor<21xf32> loc("batch/scale")
  %b = mpc.constant dense<0.3> : tensor<21xf32> loc("batch/bias")
  %m = mpc.constant dense<0.1> : tensor<21xf32> loc("batch/mean")
  %v = mpc.constant dense<0.9> : tensor<21xf32> loc("batch/variance")
  %w3 = mpc.constant dense<0.1> : tensor<21x5xf32> loc("w3")
  %0 = mpc.matmul %x, %w1 : (tensor<12x13xf32>, tensor<13x30xf32>) -> tensor<12x30xf32> loc("first")
  %1 = mpc.add %0, %b1 : (tensor<12x30xf32>, tensor<30xf32>) -> tensor<12x30xf32> loc("first_bias")
  %2 = mpc.layer_norm %1, %g, %o axis(1) epsilon(1.0e-05) : (tensor<12x30xf32>, tensor<30xf32>, tensor<30xf32>) -> tensor<12x30xf32> loc("norm")
  %3 = mpc.gelu %2 : tensor<12x30xf32> loc("act")
  %4 = mpc.matmul %3, %w2 : (tensor<12x30xf32>, tensor<30x21xf32>) -> tensor<12x21xf32> loc("second")
  %5 = mpc.batch_norm %4, %s, %b, %m, %v epsilon(1.0e-05) : (tensor<12x21xf32>, tensor<21xf32>, tensor<21xf32>, tensor<21xf32>, tensor<21xf32>) -> tensor<12x21xf32> loc("batch")
  %6 = mpc.relu %5 : tensor<12x21xf32> loc("relu")
  %7 = mpc.matmul %6, %w3 : (tensor<12x21xf32>, tensor<21x5xf32>) -> tensor<12x5xf32> loc("third")
  return %7 : tensor<12x5xf32>
}
