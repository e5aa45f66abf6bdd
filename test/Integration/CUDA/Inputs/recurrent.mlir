// Recurrent layers of odd extents; weights are inputs, small ones, so that gates do not
// saturate.
func.func @main(%x: tensor<6x5x24xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %w: tensor<2x132x24xf32> {mpc.role = #mpc.role<input>, mpc.name = "w"},
                %r: tensor<2x132x33xf32> {mpc.role = #mpc.role<input>, mpc.name = "r"},
                %b: tensor<2x264xf32> {mpc.role = #mpc.role<input>, mpc.name = "b"},
                %h: tensor<2x5x33xf32> {mpc.role = #mpc.role<input>, mpc.name = "h"},
                %u: tensor<1x39x66xf32> {mpc.role = #mpc.role<input>, mpc.name = "u"},
                %s: tensor<1x39x13xf32> {mpc.role = #mpc.role<input>, mpc.name = "s"},
                %c: tensor<1x78xf32> {mpc.role = #mpc.role<input>, mpc.name = "c"},
                %v: tensor<1x100x13xf32> {mpc.role = #mpc.role<input>, mpc.name = "v"},
                %t: tensor<1x100x100xf32> {mpc.role = #mpc.role<input>, mpc.name = "t"})
    -> (tensor<5x6x66xf32> {mpc.role = #mpc.role<output>, mpc.name = "both"},
        tensor<2x5x33xf32> {mpc.role = #mpc.role<output>, mpc.name = "cell"},
        tensor<6x1x5x13xf32> {mpc.role = #mpc.role<output>, mpc.name = "before"},
        tensor<6x1x5x13xf32> {mpc.role = #mpc.role<output>, mpc.name = "behind"},
        tensor<6x1x5x100xf32> {mpc.role = #mpc.role<output>, mpc.name = "back"},
        tensor<1x5x100xf32> {mpc.role = #mpc.role<output>, mpc.name = "last"}) {
  %small = mpc.constant dense<0.125> : tensor<f32>
  %w1 = mpc.mul %w, %small : (tensor<2x132x24xf32>, tensor<f32>) -> tensor<2x132x24xf32>
  %r1 = mpc.mul %r, %small : (tensor<2x132x33xf32>, tensor<f32>) -> tensor<2x132x33xf32>
  %0:3 = mpc.lstm %x, %w1, %r1 bias(%b) initial_h(%h) initial_c(%h) direction(bidirectional)
    : (tensor<6x5x24xf32>, tensor<2x132x24xf32>, tensor<2x132x33xf32>, tensor<2x264xf32>, tensor<2x5x33xf32>, tensor<2x5x33xf32>)
    -> (tensor<6x2x5x33xf32>, tensor<2x5x33xf32>, tensor<2x5x33xf32>) loc("lstm")
  %1 = mpc.transpose %0#0 [0, 2, 1, 3] : tensor<6x2x5x33xf32> to tensor<6x5x2x33xf32>
  %2 = mpc.reshape %1 : tensor<6x5x2x33xf32> to tensor<6x5x66xf32>
  %both = mpc.transpose %2 [1, 0, 2] : tensor<6x5x66xf32> to tensor<5x6x66xf32>
  %u1 = mpc.mul %u, %small : (tensor<1x39x66xf32>, tensor<f32>) -> tensor<1x39x66xf32>
  %s1 = mpc.mul %s, %small : (tensor<1x39x13xf32>, tensor<f32>) -> tensor<1x39x13xf32>
  %3:2 = mpc.gru %2, %u1, %s1 bias(%c)
    : (tensor<6x5x66xf32>, tensor<1x39x66xf32>, tensor<1x39x13xf32>, tensor<1x78xf32>)
    -> (tensor<6x1x5x13xf32>, tensor<1x5x13xf32>) loc("gru")
  %4:2 = mpc.gru %2, %u1, %s1 bias(%c) linear_before_reset direction(reverse)
    : (tensor<6x5x66xf32>, tensor<1x39x66xf32>, tensor<1x39x13xf32>, tensor<1x78xf32>)
    -> (tensor<6x1x5x13xf32>, tensor<1x5x13xf32>) loc("linear_gru")
  %5 = mpc.reshape %4#0 : tensor<6x1x5x13xf32> to tensor<6x5x13xf32>
  %v1 = mpc.mul %v, %small : (tensor<1x100x13xf32>, tensor<f32>) -> tensor<1x100x13xf32>
  %t1 = mpc.mul %t, %small : (tensor<1x100x100xf32>, tensor<f32>) -> tensor<1x100x100xf32>
  %6:2 = mpc.rnn %5, %v1, %t1 direction(reverse)
    : (tensor<6x5x13xf32>, tensor<1x100x13xf32>, tensor<1x100x100xf32>)
    -> (tensor<6x1x5x100xf32>, tensor<1x5x100xf32>) loc("rnn")
  return %both, %0#2, %3#0, %4#0, %6#0, %6#1
    : tensor<5x6x66xf32>, tensor<2x5x33xf32>, tensor<6x1x5x13xf32>, tensor<6x1x5x13xf32>, tensor<6x1x5x100xf32>, tensor<1x5x100xf32>
}
