// One BERT-base layer to be trained: width 768, 12 heads, an inner width of 3072, batch 32,
// 128 positions, the norms behind the residual sums, GELU by erf, no dropout. Every weight
// is a splat and has the name under which it is trained.
func.func @main(%x: tensor<32x128x768xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<32x128x768xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %wq = mpc.constant dense<0.01> : tensor<768x768xf32> loc("attention/q/weight")
  %wk = mpc.constant dense<0.02> : tensor<768x768xf32> loc("attention/k/weight")
  %wv = mpc.constant dense<0.03> : tensor<768x768xf32> loc("attention/v/weight")
  %wo = mpc.constant dense<0.04> : tensor<768x768xf32> loc("attention/output/weight")
  %w1 = mpc.constant dense<0.05> : tensor<768x3072xf32> loc("inner/weight")
  %w2 = mpc.constant dense<0.06> : tensor<3072x768xf32> loc("outer/weight")
  %bq = mpc.constant dense<0.1> : tensor<768xf32> loc("attention/q/bias")
  %bk = mpc.constant dense<0.2> : tensor<768xf32> loc("attention/k/bias")
  %bv = mpc.constant dense<0.30000000000000004> : tensor<768xf32> loc("attention/v/bias")
  %bo = mpc.constant dense<0.4> : tensor<768xf32> loc("attention/output/bias")
  %b2 = mpc.constant dense<0.5> : tensor<768xf32> loc("outer/bias")
  %b1 = mpc.constant dense<0.7> : tensor<3072xf32> loc("inner/bias")
  %g1n = mpc.constant dense<1.0> : tensor<768xf32> loc("attention/norm/scale")
  %g2n = mpc.constant dense<1.0> : tensor<768xf32> loc("outer/norm/scale")
  %b1n = mpc.constant dense<0.0> : tensor<768xf32> loc("attention/norm/bias")
  %b2n = mpc.constant dense<0.0> : tensor<768xf32> loc("outer/norm/bias")
  %eight = mpc.constant dense<8.0> : tensor<f32>
  %qm = mpc.matmul %x, %wq : (tensor<32x128x768xf32>, tensor<768x768xf32>) -> tensor<32x128x768xf32> loc("attention/q/MatMul")
  %q = mpc.add %qm, %bq : (tensor<32x128x768xf32>, tensor<768xf32>) -> tensor<32x128x768xf32> loc("attention/q/Add")
  %qs = mpc.reshape %q : tensor<32x128x768xf32> to tensor<32x128x12x64xf32>
  %qh = mpc.transpose %qs [0, 2, 1, 3] : tensor<32x128x12x64xf32> to tensor<32x12x128x64xf32>
  %km = mpc.matmul %x, %wk : (tensor<32x128x768xf32>, tensor<768x768xf32>) -> tensor<32x128x768xf32> loc("attention/k/MatMul")
  %k = mpc.add %km, %bk : (tensor<32x128x768xf32>, tensor<768xf32>) -> tensor<32x128x768xf32> loc("attention/k/Add")
  %ks = mpc.reshape %k : tensor<32x128x768xf32> to tensor<32x128x12x64xf32>
  %kh = mpc.transpose %ks [0, 2, 1, 3] : tensor<32x128x12x64xf32> to tensor<32x12x128x64xf32>
  %vm = mpc.matmul %x, %wv : (tensor<32x128x768xf32>, tensor<768x768xf32>) -> tensor<32x128x768xf32> loc("attention/v/MatMul")
  %v = mpc.add %vm, %bv : (tensor<32x128x768xf32>, tensor<768xf32>) -> tensor<32x128x768xf32> loc("attention/v/Add")
  %vs = mpc.reshape %v : tensor<32x128x768xf32> to tensor<32x128x12x64xf32>
  %vh = mpc.transpose %vs [0, 2, 1, 3] : tensor<32x128x12x64xf32> to tensor<32x12x128x64xf32>
  %kt = mpc.transpose %kh [0, 1, 3, 2] : tensor<32x12x128x64xf32> to tensor<32x12x64x128xf32>
  %s = mpc.matmul %qh, %kt : (tensor<32x12x128x64xf32>, tensor<32x12x64x128xf32>) -> tensor<32x12x128x128xf32> loc("attention/scores")
  %sd = mpc.div %s, %eight : (tensor<32x12x128x128xf32>, tensor<f32>) -> tensor<32x12x128x128xf32>
  %p = mpc.softmax %sd axis(3) : tensor<32x12x128x128xf32> loc("attention/softmax")
  %c = mpc.matmul %p, %vh : (tensor<32x12x128x128xf32>, tensor<32x12x128x64xf32>) -> tensor<32x12x128x64xf32> loc("attention/context")
  %ct = mpc.transpose %c [0, 2, 1, 3] : tensor<32x12x128x64xf32> to tensor<32x128x12x64xf32>
  %cj = mpc.reshape %ct : tensor<32x128x12x64xf32> to tensor<32x128x768xf32>
  %om = mpc.matmul %cj, %wo : (tensor<32x128x768xf32>, tensor<768x768xf32>) -> tensor<32x128x768xf32> loc("attention/output/MatMul")
  %o = mpc.add %om, %bo : (tensor<32x128x768xf32>, tensor<768xf32>) -> tensor<32x128x768xf32> loc("attention/output/Add")
  %r1 = mpc.add %o, %x : (tensor<32x128x768xf32>, tensor<32x128x768xf32>) -> tensor<32x128x768xf32> loc("attention/residual")
  %n1 = mpc.layer_norm %r1, %g1n, %b1n axis(2) epsilon(1.0e-12) : (tensor<32x128x768xf32>, tensor<768xf32>, tensor<768xf32>) -> tensor<32x128x768xf32> loc("attention/norm")
  %fm = mpc.matmul %n1, %w1 : (tensor<32x128x768xf32>, tensor<768x3072xf32>) -> tensor<32x128x3072xf32> loc("inner/MatMul")
  %f = mpc.add %fm, %b1 : (tensor<32x128x3072xf32>, tensor<3072xf32>) -> tensor<32x128x3072xf32> loc("inner/Add")
  %root = mpc.constant dense<1.41421354> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %unit = mpc.constant dense<1.0> : tensor<f32>
  %g0 = mpc.div %f, %root : (tensor<32x128x3072xf32>, tensor<f32>) -> tensor<32x128x3072xf32>
  %g1 = mpc.erf %g0 : tensor<32x128x3072xf32>
  %g2 = mpc.add %g1, %unit : (tensor<32x128x3072xf32>, tensor<f32>) -> tensor<32x128x3072xf32>
  %g3 = mpc.mul %f, %g2 : (tensor<32x128x3072xf32>, tensor<32x128x3072xf32>) -> tensor<32x128x3072xf32>
  %g = mpc.mul %g3, %half : (tensor<32x128x3072xf32>, tensor<f32>) -> tensor<32x128x3072xf32> loc("inner/Gelu")
  %um = mpc.matmul %g, %w2 : (tensor<32x128x3072xf32>, tensor<3072x768xf32>) -> tensor<32x128x768xf32> loc("outer/MatMul")
  %u = mpc.add %um, %b2 : (tensor<32x128x768xf32>, tensor<768xf32>) -> tensor<32x128x768xf32> loc("outer/Add")
  %r2 = mpc.add %u, %n1 : (tensor<32x128x768xf32>, tensor<32x128x768xf32>) -> tensor<32x128x768xf32> loc("outer/residual")
  %y = mpc.layer_norm %r2, %g2n, %b2n axis(2) epsilon(1.0e-12) : (tensor<32x128x768xf32>, tensor<768xf32>, tensor<768xf32>) -> tensor<32x128x768xf32> loc("outer/norm")
  return %y : tensor<32x128x768xf32>
}
