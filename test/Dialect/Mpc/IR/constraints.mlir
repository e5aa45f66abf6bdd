// The numbered constraints that invalid.mlir does not cover; each function violates the
// one in its name.
// RUN: mpc-opt %s --split-input-file --verify-diagnostics

func.func @clamp_c1(%x: tensor<3xf32>, %y: tensor<3xf16>) {
  // expected-error @below {{'mpc.clamp' needs one element type, found 'f32' and 'f16'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.clamp %x, %y, %y : (tensor<3xf32>, tensor<3xf16>, tensor<3xf16>) -> tensor<3xf32>
  return
}

// -----

func.func @compare_c1(%x: tensor<3xf32>, %y: tensor<3xi32>) {
  // expected-error @below {{'mpc.compare' needs one element type, found 'f32' and 'i32'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.compare lt %x, %y : (tensor<3xf32>, tensor<3xi32>) -> tensor<3xi1>
  return
}

// -----

func.func @compare_c2(%x: tensor<3xf32>, %y: tensor<2xf32>) {
  // expected-error @below {{'mpc.compare' shapes [3] and [2] do not broadcast together}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.compare lt %x, %y : (tensor<3xf32>, tensor<2xf32>) -> tensor<3xi1>
  return
}

// -----

func.func @compare_c3(%x: tensor<2x3xf32>, %y: tensor<3xf32>) {
  // expected-error @below {{'mpc.compare' op inferred type(s) 'tensor<2x3xi1>' are incompatible with return type(s) of operation 'tensor<3xi1>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.compare lt %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<3xi1>
  return
}

// -----

func.func @select_c1(%p: tensor<3xi1>, %x: tensor<3xf32>, %y: tensor<3xf16>) {
  // expected-error @below {{'mpc.select' needs one element type, found 'f32' and 'f16'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.select %p, %x, %y : (tensor<3xi1>, tensor<3xf32>, tensor<3xf16>) -> tensor<3xf32>
  return
}

// -----

func.func @select_c2(%p: tensor<2xi1>, %x: tensor<3xf32>, %y: tensor<3xf32>) {
  // expected-error @below {{'mpc.select' shapes [2] and [3] do not broadcast together}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.select %p, %x, %y : (tensor<2xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @matmul_c1_types(%x: tensor<2x3xf32>, %y: tensor<3x5xbf16>) {
  // expected-error @below {{'mpc.matmul' needs one element type, found 'f32' and 'bf16'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.matmul %x, %y : (tensor<2x3xf32>, tensor<3x5xbf16>) -> tensor<2x5xf32>
  return
}

// -----

func.func @matmul_c1_rank(%x: tensor<3xf32>, %y: tensor<3x5xf32>) {
  // expected-error @below {{'mpc.matmul' needs operands of rank 2 or more, found 'tensor<3xf32>' and 'tensor<3x5xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.matmul %x, %y : (tensor<3xf32>, tensor<3x5xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @conv_c1(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3xf32>) {
  // expected-error @below {{'mpc.conv' needs operands of one rank, found 'tensor<1x3x8x8xf32>' and 'tensor<4x3x3xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.conv %x, %w strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<1x3x8x8xf32>, tensor<4x3x3xf32>) -> tensor<1x4x6x6xf32>
  return
}

// -----

func.func @conv_transpose_c2(%x: tensor<1x3x8x8xf32>, %w: tensor<3x4x3x3xf32>) {
  // expected-error @below {{'mpc.conv_transpose' strides and dilations must be positive and small, found 0 and 1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.conv_transpose %x, %w strides([0, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) output_padding([0, 0]) : (tensor<1x3x8x8xf32>, tensor<3x4x3x3xf32>) -> tensor<1x4x10x10xf32>
  return
}

// -----

func.func @conv_transpose_c3(%x: tensor<1x3x8x8xf32>, %w: tensor<2x4x3x3xf32>) {
  // expected-error @below {{'mpc.conv_transpose' filter takes 2 channels, input has 3 in 1 groups}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.conv_transpose %x, %w strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) output_padding([0, 0]) : (tensor<1x3x8x8xf32>, tensor<2x4x3x3xf32>) -> tensor<1x4x10x10xf32>
  return
}

// -----

func.func @attention_c1(%q: tensor<2x4x8xf32>, %k: tensor<2x4x8xf16>) {
  // expected-error @below {{'mpc.attention' needs one element type, found 'f32' and 'f16'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.attention %q, %k, %k scale(1.0) : (tensor<2x4x8xf32>, tensor<2x4x8xf16>, tensor<2x4x8xf16>) -> tensor<2x4x8xf32>
  return
}

// -----

func.func @attention_c3(%q: tensor<2x4x8xf32>, %m: tensor<3xf32>) {
  // expected-error @below {{'mpc.attention' mask 'tensor<3xf32>' does not broadcast to scores [2, 4, 4]}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.attention %q, %q, %q mask(%m) scale(1.0) : (tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<3xf32>) -> tensor<2x4x8xf32>
  return
}

// -----

func.func @max_pool_c2(%x: tensor<1x3x4x4xf32>) {
  // expected-error @below {{'mpc.max_pool' window of extent 5 does not fit into padded extent 4 of spatial dimension 0}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.max_pool %x window([5, 5]) strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : tensor<1x3x4x4xf32> -> tensor<1x3x1x1xf32>
  return
}

// -----

func.func @avg_pool_c1(%x: tensor<1x3x4x4xf32>) {
  // expected-error @below {{'mpc.avg_pool' needs 2 entries per window attribute, found [2]}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.avg_pool %x window([2]) strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : tensor<1x3x4x4xf32> -> tensor<1x3x3x3xf32>
  return
}

// -----

func.func @reduce_sum_c2(%x: tensor<2x3xf32>) {
  // expected-error @below {{'mpc.reduce_sum' op inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2xf16>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.reduce_sum %x axes([1]) : tensor<2x3xf32> -> tensor<2xf16>
  return
}

// -----

func.func @argmax_c1(%x: tensor<2x3xf32>) {
  // expected-error @below {{'mpc.argmax' axis 2 is outside the rank 2}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.argmax %x axis(2) : tensor<2x3xf32> -> tensor<2xi64>
  return
}

// -----

func.func @cumsum_c1(%x: tensor<2x3xf32>) {
  // expected-error @below {{'mpc.cumsum' axis -1 is outside the rank 2}}
  %0 = mpc.cumsum %x axis(-1) : tensor<2x3xf32>
  return
}

// -----

func.func @top_k_c1(%x: tensor<2x3xf32>) {
  // expected-error @below {{'mpc.top_k' takes 4 of 3 elements along axis 1}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpc.top_k %x k(4) axis(1) : tensor<2x3xf32> -> tensor<2x4xf32>, tensor<2x4xi64>
  return
}

// -----

func.func @layer_norm_c1(%x: tensor<2x3xf32>, %s: tensor<3xf32>) {
  // expected-error @below {{'mpc.layer_norm' axis 2 is outside the rank 2}}
  %0 = mpc.layer_norm %x, %s axis(2) epsilon(1.0e-5) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @layer_norm_c3(%x: tensor<2x3xbf16>, %s: tensor<3xf32>) {
  // expected-error @below {{'mpc.layer_norm' needs one element type, found 'bf16' and 'f32'}}
  %0 = mpc.layer_norm %x, %s axis(1) epsilon(1.0e-5) : (tensor<2x3xbf16>, tensor<3xf32>) -> tensor<2x3xbf16>
  return
}

// -----

func.func @rms_norm_c1(%x: tensor<2x3xf32>, %s: tensor<3xf32>) {
  // expected-error @below {{'mpc.rms_norm' axis -1 is outside the rank 2}}
  %0 = mpc.rms_norm %x, %s axis(-1) epsilon(1.0e-5) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @rms_norm_c2(%x: tensor<2x3xf32>, %s: tensor<2xf32>) {
  // expected-error @below {{'mpc.rms_norm' op operand 'tensor<2xf32>' does not broadcast to the normalised extents [3]}}
  %0 = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-5) : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @rms_norm_c3(%x: tensor<2x3xf32>, %s: tensor<3xf16>) {
  // expected-error @below {{'mpc.rms_norm' needs one element type, found 'f32' and 'f16'}}
  %0 = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-5) : (tensor<2x3xf32>, tensor<3xf16>) -> tensor<2x3xf32>
  return
}

// -----

func.func @batch_norm_c1(%x: tensor<2x3x4xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{'mpc.batch_norm' op operand 'tensor<4xf32>' must hold the 3 channels of 'tensor<2x3x4xf32>'}}
  %0 = mpc.batch_norm %x, %s, %s, %s, %s epsilon(1.0e-5) : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  return
}

// -----

func.func @batch_norm_c2(%x: tensor<2x3x4xf32>, %s: tensor<3xf32>, %m: tensor<3xf16>) {
  // expected-error @below {{'mpc.batch_norm' needs one element type, found 'f32' and 'f16'}}
  %0 = mpc.batch_norm %x, %s, %s, %m, %m epsilon(1.0e-5) : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf16>, tensor<3xf16>) -> tensor<2x3x4xf32>
  return
}

// -----

func.func @group_norm_c2(%x: tensor<2x4x5xf32>, %s: tensor<2xf32>) {
  // expected-error @below {{'mpc.group_norm' op operand 'tensor<2xf32>' must hold the 4 channels of 'tensor<2x4x5xf32>'}}
  %0 = mpc.group_norm %x, %s, %s groups(2) epsilon(1.0e-5) : (tensor<2x4x5xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x4x5xf32>
  return
}

// -----

func.func @group_norm_c3(%x: tensor<2x4x5xf32>, %s: tensor<4xf16>) {
  // expected-error @below {{'mpc.group_norm' needs one element type, found 'f32' and 'f16'}}
  %0 = mpc.group_norm %x, %s, %s groups(2) epsilon(1.0e-5) : (tensor<2x4x5xf32>, tensor<4xf16>, tensor<4xf16>) -> tensor<2x4x5xf32>
  return
}

// -----

func.func @instance_norm_c1(%x: tensor<2x4xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{'mpc.instance_norm' op needs spatial dimensions, found 'tensor<2x4xf32>'}}
  %0 = mpc.instance_norm %x, %s, %s epsilon(1.0e-5) : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @instance_norm_c2(%x: tensor<2x4x5xf32>, %s: tensor<5xf32>) {
  // expected-error @below {{'mpc.instance_norm' op operand 'tensor<5xf32>' must hold the 4 channels of 'tensor<2x4x5xf32>'}}
  %0 = mpc.instance_norm %x, %s, %s epsilon(1.0e-5) : (tensor<2x4x5xf32>, tensor<5xf32>, tensor<5xf32>) -> tensor<2x4x5xf32>
  return
}

// -----

func.func @instance_norm_c3(%x: tensor<2x4x5xf32>, %s: tensor<4xbf16>) {
  // expected-error @below {{'mpc.instance_norm' needs one element type, found 'f32' and 'bf16'}}
  %0 = mpc.instance_norm %x, %s, %s epsilon(1.0e-5) : (tensor<2x4x5xf32>, tensor<4xbf16>, tensor<4xbf16>) -> tensor<2x4x5xf32>
  return
}

// -----

func.func @broadcast_c1(%x: tensor<3xf32>) {
  // expected-error @below {{'mpc.broadcast' op cannot broadcast 'tensor<3xf32>' to 'tensor<3x2xf32>'}}
  %0 = mpc.broadcast %x : tensor<3xf32> to tensor<3x2xf32>
  return
}

// -----

func.func @concat_c1(%x: tensor<2x3xf32>, %y: tensor<3xf32>) {
  // expected-error @below {{'mpc.concat' cannot join 'tensor<2x3xf32>' and 'tensor<3xf32>' along axis 0}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.concat %x, %y axis(0) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<3x3xf32>
  return
}

// -----

func.func @concat_c2(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) {
  // expected-error @below {{'mpc.concat' cannot join 'tensor<2x3xf32>' and 'tensor<2x4xf32>' along axis 0}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.concat %x, %y axis(0) : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @slice_c1(%x: tensor<4x4xf32>) {
  // expected-error @below {{'mpc.slice' needs 2 offsets, sizes and strides, found [0], [2] and [1, 1]}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.slice %x [0] [2] : tensor<4x4xf32> to tensor<2x4xf32>
  return
}

// -----

func.func @pad_c1(%x: tensor<4xf32>, %v: tensor<f32>) {
  // expected-error @below {{'mpc.pad' needs 1 entries of low, high and interior, found [1, 1], [1, 1] and [0]}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.pad %x, %v low([1, 1]) high([1, 1]) : (tensor<4xf32>, tensor<f32>) -> tensor<6xf32>
  return
}

// -----

func.func @pad_c2(%x: tensor<4xf32>, %v: tensor<f16>) {
  // expected-error @below {{'mpc.pad' needs one element type, found 'f32' and 'f16'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.pad %x, %v low([1]) high([1]) : (tensor<4xf32>, tensor<f16>) -> tensor<6xf32>
  return
}

// -----

func.func @reverse_c1(%x: tensor<4x4xf32>) {
  // expected-error @below {{'mpc.reverse' axes [1, 0] must be ascending and unique}}
  %0 = mpc.reverse %x axes([1, 0]) : tensor<4x4xf32>
  return
}

// -----

func.func @gather_c1(%x: tensor<4xf32>, %i: tensor<2xi64>) {
  // expected-error @below {{'mpc.gather' axis 1 is outside the rank 1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.gather %x, %i axis(1) : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @gather_elements_c1(%x: tensor<4x4xf32>, %i: tensor<2xi64>) {
  // expected-error @below {{'mpc.gather_elements' needs indices of rank 2, found 'tensor<2xi64>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.gather_elements %x, %i axis(0) : (tensor<4x4xf32>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @gather_elements_c2(%x: tensor<4x4xf32>, %i: tensor<2x5xi64>) {
  // expected-error @below {{'mpc.gather_elements' indices 'tensor<2x5xi64>' exceed dimension 1 of 'tensor<4x4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.gather_elements %x, %i axis(0) : (tensor<4x4xf32>, tensor<2x5xi64>) -> tensor<2x5xf32>
  return
}

// -----

func.func @gather_nd_c1(%x: tensor<4xf32>, %i: tensor<2x2xi64>) {
  // expected-error @below {{'mpc.gather_nd' index tuples of 'tensor<2x2xi64>' after 0 batch dimensions do not index 'tensor<4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.gather_nd %x, %i : (tensor<4xf32>, tensor<2x2xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @gather_nd_c2(%x: tensor<4x4xf32>, %i: tensor<2x1xi64>) {
  // expected-error @below {{'mpc.gather_nd' batch extents of 'tensor<4x4xf32>' and 'tensor<2x1xi64>' differ}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.gather_nd %x, %i batch_dims(1) : (tensor<4x4xf32>, tensor<2x1xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @scatter_elements_c1(%x: tensor<4xf32>, %i: tensor<2xi64>, %u: tensor<3xf32>) {
  // expected-error @below {{'mpc.scatter_elements' op has indices 'tensor<2xi64>' but updates 'tensor<3xf32>'}}
  %0 = mpc.scatter_elements %x, %i, %u axis(0) : (tensor<4xf32>, tensor<2xi64>, tensor<3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @scatter_elements_c2(%x: tensor<4xf32>, %i: tensor<2xi64>, %u: tensor<2xf16>) {
  // expected-error @below {{'mpc.scatter_elements' op cannot write updates 'tensor<2xf16>' into 'tensor<4xf32>'}}
  %0 = mpc.scatter_elements %x, %i, %u axis(0) : (tensor<4xf32>, tensor<2xi64>, tensor<2xf16>) -> tensor<4xf32>
  return
}

// -----

func.func @scatter_nd_c1(%x: tensor<4xf32>, %i: tensor<2x2xi64>, %u: tensor<2xf32>) {
  // expected-error @below {{'mpc.scatter_nd' op index tuples of 'tensor<2x2xi64>' do not index 'tensor<4xf32>'}}
  %0 = mpc.scatter_nd %x, %i, %u : (tensor<4xf32>, tensor<2x2xi64>, tensor<2xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @one_hot_c1(%i: tensor<2xi64>, %v: tensor<f32>) {
  // expected-error @below {{'mpc.one_hot' axis 2 is outside the rank 2}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.one_hot %i, %v, %v depth(3) axis(2) : (tensor<2xi64>, tensor<f32>, tensor<f32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @one_hot_c2(%i: tensor<2xi64>, %v: tensor<f32>, %w: tensor<f16>) {
  // expected-error @below {{'mpc.one_hot' needs one element type, found 'f32' and 'f16'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.one_hot %i, %v, %w depth(3) axis(1) : (tensor<2xi64>, tensor<f32>, tensor<f16>) -> tensor<2x3xf32>
  return
}

// -----

func.func @iota_c1() {
  // expected-error @below {{'mpc.iota' axis 1 is outside the rank 1}}
  %0 = mpc.iota axis(1) : tensor<4xi64>
  return
}

// -----

func.func @lstm_c1(%x: tensor<5x2x3xf32>, %w: tensor<1x16x3xf16>, %r: tensor<1x16x4xf32>) {
  // expected-error @below {{'mpc.lstm' needs one element type, found 'f32' and 'f16'}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = mpc.lstm %x, %w, %r : (tensor<5x2x3xf32>, tensor<1x16x3xf16>, tensor<1x16x4xf32>) -> (tensor<5x1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @gru_c2(%x: tensor<5x2x3xf32>, %w: tensor<1x12x3xf32>, %r: tensor<1x12x5xf32>) {
  // expected-error @below {{'mpc.gru' weights 'tensor<1x12x3xf32>' and 'tensor<1x12x5xf32>' do not fit input 'tensor<5x2x3xf32>' in 1 direction(s)}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpc.gru %x, %w, %r : (tensor<5x2x3xf32>, tensor<1x12x3xf32>, tensor<1x12x5xf32>) -> (tensor<5x1x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @rnn_c2(%x: tensor<5x2x3xf32>, %w: tensor<1x4x3xf32>, %r: tensor<1x4x4xf32>) {
  // expected-error @below {{'mpc.rnn' weights 'tensor<1x4x3xf32>' and 'tensor<1x4x4xf32>' do not fit input 'tensor<5x2x3xf32>' in 2 direction(s)}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpc.rnn %x, %w, %r direction(bidirectional) : (tensor<5x2x3xf32>, tensor<1x4x3xf32>, tensor<1x4x4xf32>) -> (tensor<5x2x2x4xf32>, tensor<2x2x4xf32>)
  return
}
