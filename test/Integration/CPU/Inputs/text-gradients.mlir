// One layer of a language model: embedding, norm, attention, gelu, residuals.
func.func @main(%tokens: tensor<2x6xi64> {mpc.role = #mpc.role<input>, mpc.name = "tokens"},
                %next: tensor<2x6xi32> {mpc.role = #mpc.role<label>, mpc.name = "next"},
                %table: tensor<20x16xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "table"},
                %scale: tensor<16xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "scale"},
                %shift: tensor<16xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "shift"},
                %wqkv: tensor<16x48xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "wqkv"},
                %w1: tensor<16x32xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w1"},
                %w2: tensor<32x16xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w2"},
                %gain: tensor<16xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "gain"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  %small = mpc.constant dense<0.25> : tensor<f32>
  %x = mpc.gather %table, %tokens axis(0) : (tensor<20x16xf32>, tensor<2x6xi64>) -> tensor<2x6x16xf32>
  %n = mpc.layer_norm %x, %scale, %shift axis(2) epsilon(1.0e-5) : (tensor<2x6x16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<2x6x16xf32>
  %p = mpc.matmul %n, %wqkv : (tensor<2x6x16xf32>, tensor<16x48xf32>) -> tensor<2x6x48xf32>
  %s = mpc.mul %p, %small : (tensor<2x6x48xf32>, tensor<f32>) -> tensor<2x6x48xf32>
  %r = mpc.reshape %s : tensor<2x6x48xf32> to tensor<2x6x3x2x8xf32>
  %t = mpc.transpose %r [2, 0, 3, 1, 4] : tensor<2x6x3x2x8xf32> to tensor<3x2x2x6x8xf32>
  %i0 = mpc.constant dense<0> : tensor<i64>
  %i1 = mpc.constant dense<1> : tensor<i64>
  %i2 = mpc.constant dense<2> : tensor<i64>
  %q = mpc.gather %t, %i0 axis(0) : (tensor<3x2x2x6x8xf32>, tensor<i64>) -> tensor<2x2x6x8xf32>
  %k = mpc.gather %t, %i1 axis(0) : (tensor<3x2x2x6x8xf32>, tensor<i64>) -> tensor<2x2x6x8xf32>
  %v = mpc.gather %t, %i2 axis(0) : (tensor<3x2x2x6x8xf32>, tensor<i64>) -> tensor<2x2x6x8xf32>
  %a = mpc.attention %q, %k, %v scale(0.35) causal : (tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>) -> tensor<2x2x6x8xf32>
  %b = mpc.transpose %a [0, 2, 1, 3] : tensor<2x2x6x8xf32> to tensor<2x6x2x8xf32>
  %c = mpc.reshape %b : tensor<2x6x2x8xf32> to tensor<2x6x16xf32>
  %h = mpc.add %x, %c : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %m = mpc.rms_norm %h, %gain axis(2) epsilon(1.0e-5) : (tensor<2x6x16xf32>, tensor<16xf32>) -> tensor<2x6x16xf32>
  %u = mpc.matmul %m, %w1 : (tensor<2x6x16xf32>, tensor<16x32xf32>) -> tensor<2x6x32xf32>
  %us = mpc.mul %u, %small : (tensor<2x6x32xf32>, tensor<f32>) -> tensor<2x6x32xf32>
  %g = mpc.gelu %us : tensor<2x6x32xf32>
  %d = mpc.matmul %g, %w2 : (tensor<2x6x32xf32>, tensor<32x16xf32>) -> tensor<2x6x16xf32>
  %ds = mpc.mul %d, %small : (tensor<2x6x16xf32>, tensor<f32>) -> tensor<2x6x16xf32>
  %o = mpc.add %h, %ds : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  // The head shares the embedding.
  %l = mpc.matmul %o, %table transpose_rhs : (tensor<2x6x16xf32>, tensor<20x16xf32>) -> tensor<2x6x20xf32>
  %ls = mpc.mul %l, %small : (tensor<2x6x20xf32>, tensor<f32>) -> tensor<2x6x20xf32>
  %loss = mpc.softmax_cross_entropy %ls, %next : (tensor<2x6x20xf32>, tensor<2x6xi32>) -> tensor<f32>
  return %loss : tensor<f32>
}
