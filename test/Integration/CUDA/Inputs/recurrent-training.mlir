// Trainable recurrent layers of odd extents, one of each cell and both directions.
func.func @main(%x: tensor<6x5x24xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<6x5x20xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w = mpc.constant dense<0.25> : tensor<2x132x24xf32> loc("w")
  %r = mpc.constant dense<0.25> : tensor<2x132x33xf32> loc("r")
  %b = mpc.constant dense<0.25> : tensor<2x264xf32> loc("b")
  %h = mpc.constant dense<0.25> : tensor<2x5x33xf32> loc("h")
  %u = mpc.constant dense<0.25> : tensor<1x39x66xf32> loc("u")
  %s = mpc.constant dense<0.25> : tensor<1x39x13xf32> loc("s")
  %c = mpc.constant dense<0.25> : tensor<1x78xf32> loc("c")
  %v = mpc.constant dense<0.25> : tensor<1x20x13xf32> loc("v")
  %t = mpc.constant dense<0.25> : tensor<1x20x20xf32> loc("t")
  %0:3 = mpc.lstm %x, %w, %r bias(%b) initial_h(%h) initial_c(%h) direction(bidirectional)
    : (tensor<6x5x24xf32>, tensor<2x132x24xf32>, tensor<2x132x33xf32>, tensor<2x264xf32>, tensor<2x5x33xf32>, tensor<2x5x33xf32>)
    -> (tensor<6x2x5x33xf32>, tensor<2x5x33xf32>, tensor<2x5x33xf32>) loc("lstm")
  %1 = mpc.transpose %0#0 [0, 2, 1, 3] : tensor<6x2x5x33xf32> to tensor<6x5x2x33xf32>
  %2 = mpc.reshape %1 : tensor<6x5x2x33xf32> to tensor<6x5x66xf32>
  %3:2 = mpc.gru %2, %u, %s bias(%c)
    : (tensor<6x5x66xf32>, tensor<1x39x66xf32>, tensor<1x39x13xf32>, tensor<1x78xf32>)
    -> (tensor<6x1x5x13xf32>, tensor<1x5x13xf32>) loc("gru")
  %4:2 = mpc.gru %2, %u, %s bias(%c) linear_before_reset direction(reverse)
    : (tensor<6x5x66xf32>, tensor<1x39x66xf32>, tensor<1x39x13xf32>, tensor<1x78xf32>)
    -> (tensor<6x1x5x13xf32>, tensor<1x5x13xf32>) loc("linear_gru")
  %5 = mpc.add %3#0, %4#0 : (tensor<6x1x5x13xf32>, tensor<6x1x5x13xf32>) -> tensor<6x1x5x13xf32>
  %6 = mpc.reshape %5 : tensor<6x1x5x13xf32> to tensor<6x5x13xf32>
  %7:2 = mpc.rnn %6, %v, %t direction(reverse)
    : (tensor<6x5x13xf32>, tensor<1x20x13xf32>, tensor<1x20x20xf32>)
    -> (tensor<6x1x5x20xf32>, tensor<1x5x20xf32>) loc("rnn")
  %8 = mpc.reshape %7#0 : tensor<6x1x5x20xf32> to tensor<6x5x20xf32>
  return %8 : tensor<6x5x20xf32>
}
