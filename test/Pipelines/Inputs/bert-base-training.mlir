// One BERT-base layer to be trained: width 768, 12 heads, an inner width of 3072, batch 32,
// 128 positions, post-norm residuals, GELU by erf, no dropout. Every weight is a
// splat and has the name under which it is trained.
!hidden = tensor<32x128x768xf32>
!inner = tensor<32x128x3072xf32>
!split = tensor<32x128x12x64xf32>
!heads = tensor<32x12x128x64xf32>
!weight = tensor<768x768xf32>
!vector = tensor<768xf32>
func.func @main(%x: !hidden {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (!hidden {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %wq = mpc.constant dense<0.01> : !weight loc("attention/q/weight")
  %wk = mpc.constant dense<0.02> : !weight loc("attention/k/weight")
  %wv = mpc.constant dense<0.03> : !weight loc("attention/v/weight")
  %wo = mpc.constant dense<0.04> : !weight loc("attention/output/weight")
  %w1 = mpc.constant dense<0.05> : tensor<768x3072xf32> loc("inner/weight")
  %w2 = mpc.constant dense<0.06> : tensor<3072x768xf32> loc("outer/weight")
  %bq = mpc.constant dense<0.1> : !vector loc("attention/q/bias")
  %bk = mpc.constant dense<0.2> : !vector loc("attention/k/bias")
  %bv = mpc.constant dense<0.30000000000000004> : !vector loc("attention/v/bias")
  %bo = mpc.constant dense<0.4> : !vector loc("attention/output/bias")
  %b2 = mpc.constant dense<0.5> : !vector loc("outer/bias")
  %b1 = mpc.constant dense<0.7> : tensor<3072xf32> loc("inner/bias")
  %g1n = mpc.constant dense<1.0> : !vector loc("attention/norm/scale")
  %g2n = mpc.constant dense<1.0> : !vector loc("outer/norm/scale")
  %b1n = mpc.constant dense<0.0> : !vector loc("attention/norm/bias")
  %b2n = mpc.constant dense<0.0> : !vector loc("outer/norm/bias")
  %eight = mpc.constant dense<8.0> : tensor<f32>
  %qm = mpc.matmul %x, %wq : (!hidden, !weight) -> !hidden loc("attention/q/MatMul")
  %q = mpc.add %qm, %bq : (!hidden, !vector) -> !hidden loc("attention/q/Add")
  %qs = mpc.reshape %q : !hidden to !split
  %qh = mpc.transpose %qs [0, 2, 1, 3] : !split to !heads
  %km = mpc.matmul %x, %wk : (!hidden, !weight) -> !hidden loc("attention/k/MatMul")
  %k = mpc.add %km, %bk : (!hidden, !vector) -> !hidden loc("attention/k/Add")
  %ks = mpc.reshape %k : !hidden to !split
  %kh = mpc.transpose %ks [0, 2, 1, 3] : !split to !heads
  %vm = mpc.matmul %x, %wv : (!hidden, !weight) -> !hidden loc("attention/v/MatMul")
  %v = mpc.add %vm, %bv : (!hidden, !vector) -> !hidden loc("attention/v/Add")
  %vs = mpc.reshape %v : !hidden to !split
  %vh = mpc.transpose %vs [0, 2, 1, 3] : !split to !heads
  %kt = mpc.transpose %kh [0, 1, 3, 2] : !heads to tensor<32x12x64x128xf32>
  %s = mpc.matmul %qh, %kt : (!heads, tensor<32x12x64x128xf32>) -> tensor<32x12x128x128xf32> loc("attention/scores")
  %sd = mpc.div %s, %eight : (tensor<32x12x128x128xf32>, tensor<f32>) -> tensor<32x12x128x128xf32>
  %p = mpc.softmax %sd axis(3) : tensor<32x12x128x128xf32> loc("attention/softmax")
  %c = mpc.matmul %p, %vh : (tensor<32x12x128x128xf32>, !heads) -> !heads loc("attention/context")
  %ct = mpc.transpose %c [0, 2, 1, 3] : !heads to !split
  %cj = mpc.reshape %ct : !split to !hidden
  %om = mpc.matmul %cj, %wo : (!hidden, !weight) -> !hidden loc("attention/output/MatMul")
  %o = mpc.add %om, %bo : (!hidden, !vector) -> !hidden loc("attention/output/Add")
  %r1 = mpc.add %o, %x : (!hidden, !hidden) -> !hidden loc("attention/residual")
  %n1 = mpc.layer_norm %r1, %g1n, %b1n axis(2) epsilon(1.0e-12) : (!hidden, !vector, !vector) -> !hidden loc("attention/norm")
  %fm = mpc.matmul %n1, %w1 : (!hidden, tensor<768x3072xf32>) -> !inner loc("inner/MatMul")
  %f = mpc.add %fm, %b1 : (!inner, tensor<3072xf32>) -> !inner loc("inner/Add")
  %root = mpc.constant dense<1.41421354> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %unit = mpc.constant dense<1.0> : tensor<f32>
  %g0 = mpc.div %f, %root : (!inner, tensor<f32>) -> !inner
  %g1 = mpc.erf %g0 : !inner
  %g2 = mpc.add %g1, %unit : (!inner, tensor<f32>) -> !inner
  %g3 = mpc.mul %f, %g2 : (!inner, !inner) -> !inner
  %g = mpc.mul %g3, %half : (!inner, tensor<f32>) -> !inner loc("inner/Gelu")
  %um = mpc.matmul %g, %w2 : (!inner, tensor<3072x768xf32>) -> !hidden loc("outer/MatMul")
  %u = mpc.add %um, %b2 : (!hidden, !vector) -> !hidden loc("outer/Add")
  %r2 = mpc.add %u, %n1 : (!hidden, !hidden) -> !hidden loc("outer/residual")
  %y = mpc.layer_norm %r2, %g2n, %b2n axis(2) epsilon(1.0e-12) : (!hidden, !vector, !vector) -> !hidden loc("outer/norm")
  return %y : !hidden
}
