// One pre-norm transformer layer to be trained: 2 sequences of 16 positions,
// width 64, 4 heads, an inner width of 256, GELU by erf. Projections of the
// attention have no bias. Every weight is a splat and has the name under which it is
// trained.
!hidden = tensor<2x16x64xf32>
!split = tensor<2x16x4x16xf32>
!heads = tensor<2x4x16x16xf32>
func.func @main(%x: !hidden {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (!hidden {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %g1 = mpc.constant dense<1.0> : tensor<64xf32> loc("norm1/scale")
  %o1 = mpc.constant dense<0.0> : tensor<64xf32> loc("norm1/bias")
  %wq = mpc.constant dense<0.01> : tensor<64x64xf32> loc("attention/q/weight")
  %wk = mpc.constant dense<0.02> : tensor<64x64xf32> loc("attention/k/weight")
  %wv = mpc.constant dense<0.03> : tensor<64x64xf32> loc("attention/v/weight")
  %wo = mpc.constant dense<0.04> : tensor<64x64xf32> loc("attention/output/weight")
  %g2 = mpc.constant dense<2.0> : tensor<64xf32> loc("norm2/scale")
  %o2 = mpc.constant dense<0.5> : tensor<64xf32> loc("norm2/bias")
  %w1 = mpc.constant dense<0.05> : tensor<64x256xf32> loc("inner/weight")
  %b1 = mpc.constant dense<0.1> : tensor<256xf32> loc("inner/bias")
  %w2 = mpc.constant dense<0.06> : tensor<256x64xf32> loc("outer/weight")
  %b2 = mpc.constant dense<0.2> : tensor<64xf32> loc("outer/bias")
  %n1 = mpc.layer_norm %x, %g1, %o1 axis(2) epsilon(1.0e-5) : (!hidden, tensor<64xf32>, tensor<64xf32>) -> !hidden loc("norm1")
  %qm = mpc.matmul %n1, %wq : (!hidden, tensor<64x64xf32>) -> !hidden loc("attention/q/MatMul")
  %qs = mpc.reshape %qm : !hidden to !split
  %qh = mpc.transpose %qs [0, 2, 1, 3] : !split to !heads
  %km = mpc.matmul %n1, %wk : (!hidden, tensor<64x64xf32>) -> !hidden loc("attention/k/MatMul")
  %ks = mpc.reshape %km : !hidden to !split
  %kh = mpc.transpose %ks [0, 2, 1, 3] : !split to !heads
  %vm = mpc.matmul %n1, %wv : (!hidden, tensor<64x64xf32>) -> !hidden loc("attention/v/MatMul")
  %vs = mpc.reshape %vm : !hidden to !split
  %vh = mpc.transpose %vs [0, 2, 1, 3] : !split to !heads
  %c = mpc.attention %qh, %kh, %vh scale(0.25) : (!heads, !heads, !heads) -> !heads loc("attention/context")
  %ct = mpc.transpose %c [0, 2, 1, 3] : !heads to !split
  %cj = mpc.reshape %ct : !split to !hidden
  %om = mpc.matmul %cj, %wo : (!hidden, tensor<64x64xf32>) -> !hidden loc("attention/output/MatMul")
  %r1 = mpc.add %x, %om : (!hidden, !hidden) -> !hidden loc("attention/residual")
  %n2 = mpc.layer_norm %r1, %g2, %o2 axis(2) epsilon(1.0e-5) : (!hidden, tensor<64xf32>, tensor<64xf32>) -> !hidden loc("norm2")
  %fm = mpc.matmul %n2, %w1 : (!hidden, tensor<64x256xf32>) -> tensor<2x16x256xf32> loc("inner/MatMul")
  %f = mpc.add %fm, %b1 : (tensor<2x16x256xf32>, tensor<256xf32>) -> tensor<2x16x256xf32> loc("inner/Add")
  %h = mpc.gelu %f : tensor<2x16x256xf32> loc("inner/Gelu")
  %um = mpc.matmul %h, %w2 : (tensor<2x16x256xf32>, tensor<256x64xf32>) -> !hidden loc("outer/MatMul")
  %r2 = mpc.add %r1, %um : (!hidden, !hidden) -> !hidden loc("outer/residual")
  %y = mpc.add %r2, %b2 : (!hidden, tensor<64xf32>) -> !hidden loc("outer/Add")
  return %y : !hidden
}
