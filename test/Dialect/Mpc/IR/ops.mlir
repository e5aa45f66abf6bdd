// Every op in its pretty form parses, prints and survives the generic form.
// RUN: mpc-opt %s | mpc-opt | FileCheck %s
// RUN: mpc-opt %s --mlir-print-op-generic | mpc-opt | FileCheck %s

// CHECK-LABEL: func.func @roles(
// CHECK-SAME: {mpc.name = "x", mpc.role = #mpc.role<input>}
// CHECK-SAME: #mpc.role<loss_scale_state, "scale">
func.func @roles(%x: tensor<2x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                 %s: tensor<f32> {mpc.role = #mpc.role<loss_scale_state, "scale">})
    -> (tensor<f32> {mpc.role = #mpc.role<loss_scale_state, "scale">, mpc.alias = 1 : i64}) {
  return %s : tensor<f32>
}

// CHECK-LABEL: func.func @unary
func.func @unary(%x: tensor<4xf32>, %i: tensor<4xi32>, %p: tensor<4xi1>) {
  // CHECK: mpc.abs %{{.*}} : tensor<4xf32>
  %0 = mpc.abs %x : tensor<4xf32>
  %1 = mpc.neg %i : tensor<4xi32>
  %2 = mpc.sign %x : tensor<4xf32>
  %3 = mpc.floor %x : tensor<4xf32>
  %4 = mpc.ceil %x : tensor<4xf32>
  %5 = mpc.round %x : tensor<4xf32>
  %6 = mpc.exp %x : tensor<4xf32>
  %7 = mpc.expm1 %x : tensor<4xf32>
  %8 = mpc.log %x : tensor<4xf32>
  %9 = mpc.log1p %x : tensor<4xf32>
  %10 = mpc.sqrt %x : tensor<4xf32>
  %11 = mpc.rsqrt %x : tensor<4xf32>
  %12 = mpc.reciprocal %x : tensor<4xf32>
  %13 = mpc.sin %x : tensor<4xf32>
  %14 = mpc.cos %x : tensor<4xf32>
  %15 = mpc.tan %x : tensor<4xf32>
  %16 = mpc.asin %x : tensor<4xf32>
  %17 = mpc.acos %x : tensor<4xf32>
  %18 = mpc.atan %x : tensor<4xf32>
  %19 = mpc.sinh %x : tensor<4xf32>
  %20 = mpc.cosh %x : tensor<4xf32>
  %21 = mpc.asinh %x : tensor<4xf32>
  %22 = mpc.acosh %x : tensor<4xf32>
  %23 = mpc.atanh %x : tensor<4xf32>
  %24 = mpc.tanh %x : tensor<4xf32>
  %25 = mpc.sigmoid %x : tensor<4xf32>
  %26 = mpc.erf %x : tensor<4xf32>
  %27 = mpc.relu %x : tensor<4xf32>
  %28 = mpc.silu %x : tensor<4xf32>
  %29 = mpc.softplus %x : tensor<4xf32>
  // CHECK: mpc.not %{{.*}} : tensor<4xi1>
  %30 = mpc.not %p : tensor<4xi1>
  // CHECK: mpc.leaky_relu %{{.*}} alpha(1.000000e-02) : tensor<4xf32>
  %31 = mpc.leaky_relu %x alpha(1.0e-2) : tensor<4xf32>
  %32 = mpc.elu %x alpha(1.0) : tensor<4xf32>
  // CHECK: mpc.gelu %{{.*}} form(tanh) : tensor<4xf32>
  // CHECK-NEXT: mpc.gelu %{{[a-z0-9]+}} : tensor<4xf32>
  %33 = mpc.gelu %x form(tanh) : tensor<4xf32>
  %34 = mpc.gelu %x : tensor<4xf32>
  // CHECK: mpc.is_nan %{{.*}} : tensor<4xf32> -> tensor<4xi1>
  %35 = mpc.is_nan %x : tensor<4xf32> -> tensor<4xi1>
  // CHECK: mpc.encode_float %{{.*}} format(f8E4M3FN) saturate : tensor<4xf32> to tensor<4xui8>
  %codes = mpc.encode_float %x format(f8E4M3FN) saturate : tensor<4xf32> to tensor<4xui8>
  // CHECK: mpc.encode_float %{{.*}} format(f8E8M0FNU) rounding(up) : tensor<4xf32> to tensor<4xui8>
  %scales = mpc.encode_float %x format(f8E8M0FNU) rounding(up) : tensor<4xf32> to tensor<4xui8>
  // CHECK: mpc.encode_float %{{.*}} format(f4E2M1FN) random(%{{.*}} : tensor<4xi32>) : tensor<4xf32> to tensor<4xui8>
  %drawn = mpc.encode_float %x format(f4E2M1FN) random(%i : tensor<4xi32>) : tensor<4xf32> to tensor<4xui8>
  // CHECK: mpc.decode_float %{{.*}} format(f8E4M3FN) : tensor<4xui8> to tensor<4xbf16>
  %numbers = mpc.decode_float %codes format(f8E4M3FN) : tensor<4xui8> to tensor<4xbf16>
  %36 = mpc.is_inf %x {negative = false} : tensor<4xf32> -> tensor<4xi1>
  // CHECK: mpc.cast %{{.*}} : tensor<4xf32> to tensor<4xbf16>
  // CHECK-NEXT: mpc.cast %{{.*}} pinned : tensor<4xf32> to tensor<4xi64>
  %37 = mpc.cast %x : tensor<4xf32> to tensor<4xbf16>
  %38 = mpc.cast %x pinned : tensor<4xf32> to tensor<4xi64>
  return
}

// CHECK-LABEL: func.func @binary
func.func @binary(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %i: tensor<2xi32>, %p: tensor<3xi1>) {
  // CHECK: mpc.add %{{.*}}, %{{.*}} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %0 = mpc.add %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = mpc.sub %y, %x : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = mpc.mul %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = mpc.div %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = mpc.max %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = mpc.min %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %6 = mpc.pow %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: mpc.atan2
  %angle = mpc.atan2 %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %7 = mpc.rem %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %8 = mpc.and %p, %p : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
  %9 = mpc.or %i, %i : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  %10 = mpc.xor %i, %i : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  %11 = mpc.shift_left %i, %i : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  %12 = mpc.shift_right %i, %i : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  // CHECK: mpc.compare lt %{{.*}}, %{{.*}} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %13 = mpc.compare lt %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %14 = mpc.select %p, %x, %y : (tensor<3xi1>, tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %15 = mpc.clamp %x, %y, %y : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @narrow_panels
func.func @narrow_panels(%h: tensor<2x8x4xbf16>, %i: tensor<2x8x4xi8>, %n: tensor<2x4x4xui8>,
                         %s: tensor<2x1x4xf32>, %g: tensor<2x4x4xbf16>, %z: tensor<2x4x4xui8>,
                         %d: tensor<2x4x16xui8>, %l: tensor<6x4xui8>, %t: tensor<6x1xf32>) {
  // CHECK: mpc.dequantize %{{.*}} : tensor<2x8x4xbf16> to tensor<2x8x4xf32>
  %0 = mpc.dequantize %h : tensor<2x8x4xbf16> to tensor<2x8x4xf32>
  // CHECK: mpc.dequantize %{{.*}} scale(%{{.*}} : tensor<2x1x4xf32>) : tensor<2x8x4xi8> to tensor<2x8x4xf32>
  %1 = mpc.dequantize %i scale(%s : tensor<2x1x4xf32>) : tensor<2x8x4xi8> to tensor<2x8x4xf32>
  // CHECK: mpc.dequantize %{{.*}} nibbles scale(%{{.*}} : tensor<2x4x4xbf16>) zero(%{{.*}} : tensor<2x4x4xui8>) : tensor<2x4x4xui8> to tensor<2x8x4xf32>
  %2 = mpc.dequantize %n nibbles scale(%g : tensor<2x4x4xbf16>) zero(%z : tensor<2x4x4xui8>) : tensor<2x4x4xui8> to tensor<2x8x4xf32>
  // CHECK: mpc.dequantize %{{.*}} nibbles scale(%{{.*}} : tensor<2x4x4xbf16>) common_zero(8) : tensor<2x4x4xui8> to tensor<2x8x4xf32>
  %3 = mpc.dequantize %n nibbles scale(%g : tensor<2x4x4xbf16>) common_zero(8) : tensor<2x4x4xui8> to tensor<2x8x4xf32>
  // CHECK: mpc.dequantize %{{.*}} scale(%{{.*}} : tensor<2x4x4xbf16>) common_zero(128) depth(4) : tensor<2x4x16xui8> to tensor<2x16x4xf32>
  %4 = mpc.dequantize %d scale(%g : tensor<2x4x4xbf16>) common_zero(128) depth(4) : tensor<2x4x16xui8> to tensor<2x16x4xf32>
  // CHECK: mpc.dequantize %{{.*}} float8 scale(%{{.*}} : tensor<2x4x4xbf16>) : tensor<2x4x4xui8> to tensor<2x4x4xf32>
  %5 = mpc.dequantize %n float8 scale(%g : tensor<2x4x4xbf16>) : tensor<2x4x4xui8> to tensor<2x4x4xf32>
  // CHECK: mpc.dequantize %{{.*}} nibbles scale(%{{.*}} : tensor<6x1xf32>) common_zero(8) : tensor<6x4xui8> to tensor<6x8xbf16>
  %6 = mpc.dequantize %l nibbles scale(%t : tensor<6x1xf32>) common_zero(8) : tensor<6x4xui8> to tensor<6x8xbf16>
  // CHECK: mpc.dequantize %{{.*}} nibbles scale(%{{.*}} : tensor<6x1xf32>) offset(%{{.*}} : tensor<6x1xf32>) : tensor<6x4xui8> to tensor<6x8xf32>
  %7 = mpc.dequantize %l nibbles scale(%t : tensor<6x1xf32>) offset(%t : tensor<6x1xf32>) : tensor<6x4xui8> to tensor<6x8xf32>
  return
}

// CHECK-LABEL: func.func @contractions
func.func @contractions(%a: tensor<5x2x3xbf16>, %b: tensor<4x3xbf16>, %w: tensor<1x3x32xbf16>,
                        %x: tensor<1x4x8x8xf32>, %f: tensor<6x2x3x3xf32>, %g: tensor<4x3x2x2xf32>,
                        %q: tensor<1x4x6x8xf32>, %k: tensor<1x2x5x8xf32>, %m: tensor<6x5xi1>) {
  // CHECK: mpc.matmul %{{.*}}, %{{.*}} transpose_rhs accumulate(f32) : (tensor<5x2x3xbf16>, tensor<4x3xbf16>) -> tensor<5x2x4xf32>
  %0 = mpc.matmul %a, %b transpose_rhs accumulate(f32)
     : (tensor<5x2x3xbf16>, tensor<4x3xbf16>) -> tensor<5x2x4xf32>
  // CHECK: packed<columns = 32, interleave = 2>
  %1 = mpc.matmul %a, %w packed<columns = 32, interleave = 2>
     : (tensor<5x2x3xbf16>, tensor<1x3x32xbf16>) -> tensor<5x2x20xf32>
  // CHECK: mpc.pack %{{.*}} transpose packed<columns = 32, depth = 2> : tensor<4x3xbf16> to tensor<1x2x64xbf16>
  %19 = mpc.pack %b transpose packed<columns = 32, depth = 2> : tensor<4x3xbf16> to tensor<1x2x64xbf16>
  // CHECK: mpc.conv %{{.*}}, %{{.*}} strides([2, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) groups(2)
  // CHECK-SAME: -> tensor<1x6x4x8xf32>
  %2 = mpc.conv %x, %f strides([2, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) groups(2) compute(tf32)
     : (tensor<1x4x8x8xf32>, tensor<6x2x3x3xf32>) -> tensor<1x6x4x8xf32>
  %3 = mpc.conv_transpose %x, %g strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1])
     output_padding([0, 0]) : (tensor<1x4x8x8xf32>, tensor<4x3x2x2xf32>) -> tensor<1x3x16x16xf32>
  // CHECK: mpc.attention %{{.*}}, %{{.*}}, %{{.*}} mask(%{{.*}}) scale(1.250000e-01) causal
  %4 = mpc.attention %q, %k, %k mask(%m) scale(0.125) causal
     : (tensor<1x4x6x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>, tensor<6x5xi1>) -> tensor<1x4x6x8xf32>
  %5 = mpc.max_pool %x window([2, 2]) strides([2, 2]) pad([0, 0], [1, 1]) dilations([1, 1]) ceil_mode
     : tensor<1x4x8x8xf32> -> tensor<1x4x4x4xf32>
  // CHECK: mpc.avg_pool {{.*}} count_include_pad layout(channels_last)
  %6 = mpc.avg_pool %x window([2, 2]) strides([1, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) count_include_pad
     layout(channels_last) : tensor<1x4x8x8xf32> -> tensor<1x3x4x8xf32>
  return
}

// CHECK-LABEL: func.func @reductions
func.func @reductions(%x: tensor<2x3x4xf32>, %h: tensor<2x3xf16>) {
  // CHECK: mpc.reduce_sum %{{.*}} axes([0, 2]) keep_dims : tensor<2x3x4xf32> -> tensor<1x3x1xf32>
  %0 = mpc.reduce_sum %x axes([0, 2]) keep_dims : tensor<2x3x4xf32> -> tensor<1x3x1xf32>
  // CHECK: mpc.reduce_mean %{{.*}} axes([1]) accumulate(f32) : tensor<2x3xf16> -> tensor<2xf16>
  %1 = mpc.reduce_mean %h axes([1]) accumulate(f32) : tensor<2x3xf16> -> tensor<2xf16>
  %2 = mpc.reduce_prod %h axes([1]) : tensor<2x3xf16> -> tensor<2xf32>
  %3 = mpc.reduce_max %x axes([1]) : tensor<2x3x4xf32> -> tensor<2x4xf32>
  %4 = mpc.reduce_min %x axes([]) : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  // CHECK: mpc.argmax %{{.*}} axis(2) keep_dims select_last : tensor<2x3x4xf32> -> tensor<2x3x1xi64>
  %5 = mpc.argmax %x axis(2) keep_dims select_last : tensor<2x3x4xf32> -> tensor<2x3x1xi64>
  %6 = mpc.argmin %x axis(0) : tensor<2x3x4xf32> -> tensor<3x4xi64>
  // CHECK: mpc.cumsum %{{.*}} axis(1) exclusive reverse : tensor<2x3x4xf32>
  %7 = mpc.cumsum %x axis(1) exclusive reverse : tensor<2x3x4xf32>
  // CHECK: mpc.top_k %{{.*}} k(2) axis(1) largest(false) : tensor<2x3x4xf32> -> tensor<2x2x4xf32>, tensor<2x2x4xi64>
  %8, %9 = mpc.top_k %x k(2) axis(1) largest(false) : tensor<2x3x4xf32> -> tensor<2x2x4xf32>, tensor<2x2x4xi64>
  return
}

// CHECK-LABEL: func.func @norms
func.func @norms(%x: tensor<2x4x5xf32>, %s: tensor<5xf32>, %c: tensor<4xf32>) {
  // CHECK: mpc.softmax %{{.*}} axis(2) : tensor<2x4x5xf32>
  %0 = mpc.softmax %x axis(2) : tensor<2x4x5xf32>
  %1 = mpc.log_softmax %x axis(1) : tensor<2x4x5xf32>
  // CHECK: mpc.layer_norm %{{.*}}, %{{.*}}, %{{.*}} axis(2) epsilon(1.000000e-05)
  %2 = mpc.layer_norm %x, %s, %s axis(2) epsilon(1.0e-5)
     : (tensor<2x4x5xf32>, tensor<5xf32>, tensor<5xf32>) -> tensor<2x4x5xf32>
  %3 = mpc.rms_norm %x, %s axis(2) epsilon(1.0e-5) : (tensor<2x4x5xf32>, tensor<5xf32>) -> tensor<2x4x5xf32>
  %4 = mpc.batch_norm %x, %c, %c, %c, %c epsilon(1.0e-5)
     : (tensor<2x4x5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x5xf32>
  %5 = mpc.group_norm %x, %c, %c groups(2) epsilon(1.0e-5)
     : (tensor<2x4x5xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x5xf32>
  %6 = mpc.instance_norm %x, %c, %c epsilon(1.0e-5)
     : (tensor<2x4x5xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x5xf32>
  return
}

// CHECK-LABEL: func.func @movement
func.func @movement(%x: tensor<2x3x4xf32>, %v: tensor<f32>, %i: tensor<2x5xi64>, %j: tensor<2x3x4xi64>,
                    %n: tensor<6x2xi32>, %u: tensor<6x4xf32>) {
  // CHECK: mpc.reshape %{{.*}} : tensor<2x3x4xf32> to tensor<6x4xf32>
  %0 = mpc.reshape %x : tensor<2x3x4xf32> to tensor<6x4xf32>
  // CHECK: mpc.transpose %{{.*}} [2, 0, 1] : tensor<2x3x4xf32> to tensor<4x2x3xf32>
  %1 = mpc.transpose %x [2, 0, 1] : tensor<2x3x4xf32> to tensor<4x2x3xf32>
  %2 = mpc.broadcast %x : tensor<2x3x4xf32> to tensor<5x2x3x4xf32>
  %3 = mpc.concat %x, %x axis(1) : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x6x4xf32>
  // CHECK: mpc.slice %{{.*}} [0, 1, 0] [2, 1, 2] strides [1, 1, 2] : tensor<2x3x4xf32> to tensor<2x1x2xf32>
  %4 = mpc.slice %x [0, 1, 0] [2, 1, 2] strides [1, 1, 2] : tensor<2x3x4xf32> to tensor<2x1x2xf32>
  %5 = mpc.pad %x, %v low([0, 0, 1]) high([0, -1, 1]) interior([0, 0, 1])
     : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x2x9xf32>
  %6 = mpc.pad %x, %v low([0, 0, 1]) high([0, 0, 1]) mode(reflect)
     : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x3x6xf32>
  %7 = mpc.reverse %x axes([0, 2]) : tensor<2x3x4xf32>
  %8 = mpc.gather %x, %i axis(1) : (tensor<2x3x4xf32>, tensor<2x5xi64>) -> tensor<2x2x5x4xf32>
  %9 = mpc.gather_elements %x, %j axis(0) : (tensor<2x3x4xf32>, tensor<2x3x4xi64>) -> tensor<2x3x4xf32>
  %10 = mpc.gather_nd %x, %n : (tensor<2x3x4xf32>, tensor<6x2xi32>) -> tensor<6x4xf32>
  %11 = mpc.scatter_elements %x, %j, %x axis(1) reduction(add)
     : (tensor<2x3x4xf32>, tensor<2x3x4xi64>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %12 = mpc.scatter_nd %x, %n, %u : (tensor<2x3x4xf32>, tensor<6x2xi32>, tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %13 = mpc.one_hot %i, %v, %v depth(7) axis(1) : (tensor<2x5xi64>, tensor<f32>, tensor<f32>) -> tensor<2x7x5xf32>
  %14 = mpc.iota axis(0) : tensor<5xi64>
  return
}

// CHECK-LABEL: func.func @recurrent
func.func @recurrent(%x: tensor<7x2x3xf32>, %w: tensor<1x16x3xf32>, %r: tensor<1x16x4xf32>, %b: tensor<1x32xf32>,
                     %h: tensor<1x2x4xf32>, %w3: tensor<2x12x3xf32>, %r3: tensor<2x12x4xf32>,
                     %w1: tensor<1x4x3xf32>, %r1: tensor<1x4x4xf32>) {
  // CHECK: mpc.lstm %{{.*}}, %{{.*}}, %{{.*}} bias(%{{.*}}) initial_h(%{{.*}}) initial_c(%{{.*}}) :
  %0:3 = mpc.lstm %x, %w, %r bias(%b) initial_h(%h) initial_c(%h)
     : (tensor<7x2x3xf32>, tensor<1x16x3xf32>, tensor<1x16x4xf32>, tensor<1x32xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)
     -> (tensor<7x1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)
  // CHECK: mpc.gru {{.*}} linear_before_reset direction(bidirectional)
  %1:2 = mpc.gru %x, %w3, %r3 linear_before_reset direction(bidirectional)
     : (tensor<7x2x3xf32>, tensor<2x12x3xf32>, tensor<2x12x4xf32>) -> (tensor<7x2x2x4xf32>, tensor<2x2x4xf32>)
  %2:2 = mpc.rnn %x, %w1, %r1 direction(reverse)
     : (tensor<7x2x3xf32>, tensor<1x4x3xf32>, tensor<1x4x4xf32>) -> (tensor<7x1x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// CHECK-LABEL: func.func @structure
func.func @structure(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: %[[C:.*]] = mpc.constant dense<1.000000e+00> : tensor<3xf32>
  %c = mpc.constant dense<1.0> : tensor<3xf32>
  // CHECK: mpc.constant dense_resource<weights> : tensor<4xf32>
  %w = mpc.constant dense_resource<weights> : tensor<4xf32>
  // CHECK: mpc.fusion kind(elementwise) name("f") (%[[A:.*]] = %{{.*}} : tensor<2x3xf32>, %[[B:.*]] = %[[C]] : tensor<3xf32>) -> tensor<2x3xf32> {
  %y = mpc.fusion kind(elementwise) name("f") (%a = %x : tensor<2x3xf32>, %b = %c : tensor<3xf32>) -> tensor<2x3xf32> {
    // CHECK-NEXT: %[[S:.*]] = mpc.add %[[A]], %[[B]]
    // CHECK-SAME: mpc.decision = #mpc.decision<rule = "follow", list = "float32">
    %s = mpc.add %a, %b {mpc.decision = #mpc.decision<rule = "follow", list = "float32">, mpc.layer = "block/0"}
       : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    // CHECK-NEXT: mpc.yield %[[S]] : tensor<2x3xf32>
    mpc.yield %s : tensor<2x3xf32>
  }
  return %y : tensor<2x3xf32>
}

{-#
  dialect_resources: {
    builtin: {
      weights: "0x400000000000803F000000400000404000008040"
    }
  }
#-}

// CHECK-LABEL: func.func @recurrence
func.func @recurrence(%p: tensor<7x2x16xf32>, %r: tensor<1x16x4xbf16>, %b: tensor<1x16xf32>, %h: tensor<1x2x4xf32>,
                      %w: tensor<1x12xf32>, %q: tensor<7x2x24xf32>, %s: tensor<2x12x4xf32>) {
  // CHECK: mpc.recurrence lstm %{{.*}}, %{{.*}} bias(%{{.*}}) initial_h(%{{.*}}) initial_c(%{{.*}}) peephole(%{{.*}}) :
  %0:3 = mpc.recurrence lstm %p, %r bias(%b) initial_h(%h) initial_c(%h) peephole(%w)
     : (tensor<7x2x16xf32>, tensor<1x16x4xbf16>, tensor<1x16xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x12xf32>)
     -> (tensor<7x1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)
  // CHECK: mpc.recurrence linear_gru %{{.*}}, %{{.*}} direction(bidirectional) :
  %1:2 = mpc.recurrence linear_gru %q, %s direction(bidirectional)
     : (tensor<7x2x24xf32>, tensor<2x12x4xf32>) -> (tensor<7x2x2x4xf32>, tensor<2x2x4xf32>)
  // CHECK: mpc.recurrence_training lstm %{{.*}}, %{{.*}} bias(%{{.*}}) initial_c(%{{.*}}) direction(reverse) :
  %2:4 = mpc.recurrence_training lstm %p, %r bias(%b) initial_c(%h) direction(reverse)
     : (tensor<7x2x16xf32>, tensor<1x16x4xbf16>, tensor<1x16xf32>, tensor<1x2x4xf32>)
     -> (tensor<7x1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<7x2x20xf32>)
  // CHECK: mpc.recurrence_gradient lstm %{{.*}}, %{{.*}} result(%{{.*}}) final_h(%{{.*}}) final_c(%{{.*}}) initial(%{{.*}}) peephole(%{{.*}}) direction(reverse) :
  %3:3 = mpc.recurrence_gradient lstm %r, %2#3 result(%2#0) final_h(%h) final_c(%h) initial(%h) peephole(%w) direction(reverse)
     : (tensor<1x16x4xbf16>, tensor<7x2x20xf32>, tensor<7x1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x12xf32>)
     -> (tensor<7x2x16xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)
  // CHECK: mpc.recurrence_training linear_gru
  %4:3 = mpc.recurrence_training linear_gru %q, %s direction(bidirectional)
     : (tensor<7x2x24xf32>, tensor<2x12x4xf32>) -> (tensor<7x2x2x4xf32>, tensor<2x2x4xf32>, tensor<7x2x40xf32>)
  // CHECK: mpc.recurrence_gradient linear_gru %{{.*}}, %{{.*}} direction(bidirectional) :
  %5:3 = mpc.recurrence_gradient linear_gru %s, %4#2 direction(bidirectional)
     : (tensor<2x12x4xf32>, tensor<7x2x40xf32>) -> (tensor<7x2x24xf32>, tensor<2x2x4xf32>, tensor<7x2x24xf32>)
  return
}

// CHECK-LABEL: func.func @eight_bit_factors
func.func @eight_bit_factors(%a: tensor<2x32xf8E4M3FN>, %b: tensor<3x32xf8E5M2>) -> tensor<2x3xf32> {
  // CHECK: mpc.fusion kind(contraction) name("f") (%[[A:.*]] = %{{.*}} : tensor<2x32xf8E4M3FN>, %[[B:.*]] = %{{.*}} : tensor<3x32xf8E5M2>) -> tensor<2x3xf32> {
  %0 = mpc.fusion kind(contraction) name("f") (%x = %a : tensor<2x32xf8E4M3FN>, %y = %b : tensor<3x32xf8E5M2>) -> tensor<2x3xf32> {
    // CHECK: mpc.matmul %[[A]], %[[B]] transpose_rhs accumulate(f32) : (tensor<2x32xf8E4M3FN>, tensor<3x32xf8E5M2>) -> tensor<2x3xf32>
    %1 = mpc.matmul %x, %y transpose_rhs accumulate(f32)
       : (tensor<2x32xf8E4M3FN>, tensor<3x32xf8E5M2>) -> tensor<2x3xf32>
    mpc.yield %1 : tensor<2x3xf32>
  }
  return %0 : tensor<2x3xf32>
}
