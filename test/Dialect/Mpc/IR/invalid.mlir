// Each function violates the constraint in its name.
// RUN: mpc-opt %s --split-input-file --verify-diagnostics

func.func @add_c1(%x: tensor<2xf32>, %y: tensor<2xf16>) {
  // expected-error @below {{'mpc.add' needs one element type, found 'f32' and 'f16'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.add %x, %y : (tensor<2xf32>, tensor<2xf16>) -> tensor<2xf32>
  return
}

// -----

func.func @add_c2(%x: tensor<2x3xf32>, %y: tensor<2xf32>) {
  // expected-error @below {{'mpc.add' shapes [2, 3] and [2] do not broadcast together}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.add %x, %y : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @add_c3(%x: tensor<2x3xf32>, %y: tensor<3xf32>) {
  // expected-error @below {{inferred type(s) 'tensor<2x3xf32>' are incompatible with return type(s) of operation 'tensor<3xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.add %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @clamp_c2(%x: tensor<3xf32>, %y: tensor<2x3xf32>) {
  // expected-error @below {{'mpc.clamp' bounds must broadcast to 'tensor<3xf32>', but give 'tensor<2x3xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.clamp %x, %y, %y : (tensor<3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @matmul_c2(%x: tensor<2x3xf32>, %y: tensor<4x5xf32>) {
  // expected-error @below {{'mpc.matmul' contracts extents 3 and 4 of 'tensor<2x3xf32>' and 'tensor<4x5xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.matmul %x, %y : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @matmul_c3(%x: tensor<2x2x3xf32>, %y: tensor<3x3x5xf32>) {
  // expected-error @below {{batch dimensions of 'tensor<2x2x3xf32>' and 'tensor<3x3x5xf32>' do not broadcast together}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.matmul %x, %y : (tensor<2x2x3xf32>, tensor<3x3x5xf32>) -> tensor<2x2x5xf32>
  return
}

// -----

func.func @matmul_c4(%x: tensor<2x3xf32>, %y: tensor<3x5xf32>) {
  // expected-error @below {{are incompatible with return type(s) of operation 'tensor<2x5xf16>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.matmul %x, %y : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf16>
  return
}

// -----

func.func @matmul_c5(%x: tensor<2x3xf32>, %y: tensor<3x5xf32>) {
  // expected-error @below {{accumulates in 'f16', which is narrower than its operands' type 'f32'}}
  %0 = mpc.matmul %x, %y accumulate(f16) : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @dequantize_shape(%x: tensor<2x8x4xbf16>) {
  // expected-error @below {{'mpc.dequantize' op makes 'tensor<2x4x4xf32>' of 'tensor<2x8x4xbf16>', which holds 2 panels of 8 positions of 4 columns}}
  %0 = mpc.dequantize %x : tensor<2x8x4xbf16> to tensor<2x4x4xf32>
  return
}

// -----

func.func @dequantize_c5(%x: tensor<2x8x4xbf16>) {
  // expected-error @below {{'mpc.dequantize' op converts panels of rank 3 to f32, or panels of bytes or of rank 2 to 16 bits, found 'tensor<2x8x4xbf16>' and 'tensor<2x8x4xf16>'}}
  %0 = mpc.dequantize %x : tensor<2x8x4xbf16> to tensor<2x8x4xf16>
  return
}

// -----

func.func @dequantize_c1(%x: tensor<2x8x4xi8>) {
  // expected-error @below {{'mpc.dequantize' op needs a scale for 'i8'}}
  %0 = mpc.dequantize %x : tensor<2x8x4xi8> to tensor<2x8x4xf32>
  return
}

// -----

func.func @dequantize_c1_element(%x: tensor<2x8x4xi32>, %s: tensor<2x1x4xf32>) {
  // expected-error @below {{'mpc.dequantize' op takes bf16, f16, i16 or 8-bit integers, found 'i32'}}
  %0 = mpc.dequantize %x scale(%s : tensor<2x1x4xf32>) : tensor<2x8x4xi32> to tensor<2x8x4xf32>
  return
}

// -----

func.func @dequantize_c1_nibbles(%x: tensor<2x8x4xi8>, %s: tensor<2x1x4xf32>) {
  // expected-error @below {{'mpc.dequantize' op takes int4 packed in ui8, found 'i8'}}
  %0 = mpc.dequantize %x nibbles scale(%s : tensor<2x1x4xf32>) : tensor<2x8x4xi8> to tensor<2x16x4xf32>
  return
}

// -----

func.func @dequantize_c1_float8(%x: tensor<2x8x4xi8>, %s: tensor<2x1x4xf32>) {
  // expected-error @below {{'mpc.dequantize' op takes 8-bit float codes in ui8, found 'i8'}}
  %0 = mpc.dequantize %x float8 scale(%s : tensor<2x1x4xf32>) : tensor<2x8x4xi8> to tensor<2x8x4xf32>
  return
}

// -----

func.func @dequantize_c1_float8_zero(%x: tensor<2x8x4xui8>, %s: tensor<2x1x4xf32>) {
  // expected-error @below {{'mpc.dequantize' op takes no zero point or offset for 8-bit float codes in 'ui8'}}
  %0 = mpc.dequantize %x float8 scale(%s : tensor<2x1x4xf32>) common_zero(8) : tensor<2x8x4xui8> to tensor<2x8x4xf32>
  return
}

// -----

func.func @dequantize_c1_zero(%x: tensor<2x8x4xf16>) {
  // expected-error @below {{'mpc.dequantize' op takes no zero point or offset for 'f16'}}
  %0 = mpc.dequantize %x common_zero(8) : tensor<2x8x4xf16> to tensor<2x8x4xf32>
  return
}

// -----

func.func @dequantize_c2(%x: tensor<2x8x4xi8>, %s: tensor<2x3x4xf32>) {
  // expected-error @below {{'mpc.dequantize' op has scales 'tensor<2x3x4xf32>' for 'tensor<2x8x4xf32>', but they must divide the positions into groups of whole bytes and steps}}
  %0 = mpc.dequantize %x scale(%s : tensor<2x3x4xf32>) : tensor<2x8x4xi8> to tensor<2x8x4xf32>
  return
}

// -----

func.func @dequantize_c2_nibbles(%x: tensor<2x3x4xui8>, %s: tensor<2x2x4xf32>) {
  // expected-error @below {{'mpc.dequantize' op has scales 'tensor<2x2x4xf32>' for 'tensor<2x6x4xf32>', but they must divide the positions into groups of whole bytes and steps}}
  %0 = mpc.dequantize %x nibbles scale(%s : tensor<2x2x4xf32>) : tensor<2x3x4xui8> to tensor<2x6x4xf32>
  return
}

// -----

func.func @dequantize_c2_zero(%x: tensor<2x8x4xui8>, %s: tensor<2x2x4xf32>, %z: tensor<2x1x4xui8>) {
  // expected-error @below {{'mpc.dequantize' op has zero points 'tensor<2x1x4xui8>' for scales 'tensor<2x2x4xf32>'}}
  %0 = mpc.dequantize %x scale(%s : tensor<2x2x4xf32>) zero(%z : tensor<2x1x4xui8>) : tensor<2x8x4xui8> to tensor<2x8x4xf32>
  return
}

// -----

func.func @dequantize_c2_offset(%x: tensor<2x8x4xui8>, %s: tensor<2x2x4xf32>, %o: tensor<2x1x4xf32>) {
  // expected-error @below {{'mpc.dequantize' op has offsets 'tensor<2x1x4xf32>' for scales 'tensor<2x2x4xf32>'}}
  %0 = mpc.dequantize %x scale(%s : tensor<2x2x4xf32>) offset(%o : tensor<2x1x4xf32>) : tensor<2x8x4xui8> to tensor<2x8x4xf32>
  return
}

// -----

func.func @dequantize_c3_offset(%x: tensor<2x8x4xui8>, %s: tensor<2x2x4xf32>) {
  // expected-error @below {{'mpc.dequantize' op has zero points and an offset}}
  %0 = mpc.dequantize %x scale(%s : tensor<2x2x4xf32>) offset(%s : tensor<2x2x4xf32>) common_zero(8) : tensor<2x8x4xui8> to tensor<2x8x4xf32>
  return
}

// -----

func.func @dequantize_c4(%x: tensor<2x8x4xbf16>) {
  // expected-error @below {{'mpc.dequantize' op has a depth of 4; it must be 1, or 4 for 8-bit integers}}
  %0 = mpc.dequantize %x depth(4) : tensor<2x8x4xbf16> to tensor<2x32x1xf32>
  return
}

// -----

func.func @dequantize_c4_matrix(%x: tensor<2x8xui8>, %s: tensor<2x1xf32>) {
  // expected-error @below {{'mpc.dequantize' op has a depth of 4; it must be 1, or 4 for 8-bit integers}}
  %0 = mpc.dequantize %x scale(%s : tensor<2x1xf32>) depth(4) : tensor<2x8xui8> to tensor<2x32xf32>
  return
}

// -----

func.func @dequantize_c5(%x: tensor<2x8x4xbf16>) {
  // expected-error @below {{'mpc.dequantize' op converts panels of rank 3 to f32, or panels of bytes or of rank 2 to 16 bits, found 'tensor<2x8x4xbf16>' and 'tensor<2x8x4xbf16>'}}
  %0 = mpc.dequantize %x : tensor<2x8x4xbf16> to tensor<2x8x4xbf16>
  return
}

// -----

func.func @dequantize_c2_matrix(%x: tensor<2x8xui8>, %s: tensor<2x1x1xf32>) {
  // expected-error @below {{'mpc.dequantize' op has scales 'tensor<2x1x1xf32>' for 'tensor<2x8xf32>', but they must divide the positions into groups of whole bytes and steps}}
  %0 = mpc.dequantize %x scale(%s : tensor<2x1x1xf32>) : tensor<2x8xui8> to tensor<2x8xf32>
  return
}

// -----

func.func @dequantize_c3(%x: tensor<2x8x4xui8>, %s: tensor<2x1x4xf32>, %z: tensor<2x1x4xui8>) {
  // expected-error @below {{'mpc.dequantize' op has a zero point for each scale and 8 for all}}
  %0 = mpc.dequantize %x scale(%s : tensor<2x1x4xf32>) zero(%z : tensor<2x1x4xui8>) common_zero(8) : tensor<2x8x4xui8> to tensor<2x8x4xf32>
  return
}

// -----

func.func @pack_c1(%x: tensor<2x3x4xf32>) {
  // expected-error @below {{'mpc.pack' needs a matrix, found 'tensor<2x3x4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.pack %x packed<columns = 32> : tensor<2x3x4xf32> to tensor<1x3x32xf32>
  return
}

// -----

func.func @matmul_c6(%x: tensor<2x3xf32>, %y: tensor<1x3x32xf32>) {
  // expected-error @below {{are incompatible with return type(s) of operation 'tensor<2x33xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.matmul %x, %y packed<columns = 32> : (tensor<2x3xf32>, tensor<1x3x32xf32>) -> tensor<2x33xf32>
  return
}

// -----

func.func @conv_c2(%x: tensor<1x4x8x8xf32>, %f: tensor<6x4x3x3xf32>) {
  // expected-error @below {{'mpc.conv' needs 2 entries per window attribute, found [1]}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.conv %x, %f strides([1]) pad([0, 0], [0, 0]) dilations([1, 1])
     : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @conv_c3(%x: tensor<1x4x8x8xf32>, %f: tensor<6x4x3x3xf32>) {
  // expected-error @below {{filter takes 4 channels per group, input has 4 in 2 groups}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.conv %x, %f strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) groups(2)
     : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @conv_c4(%x: tensor<1x4x2x8xf32>, %f: tensor<6x4x3x3xf32>) {
  // expected-error @below {{window of extent 3 does not fit into padded extent 2 of spatial dimension 0}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.conv %x, %f strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1])
     : (tensor<1x4x2x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x1x6xf32>
  return
}

// -----

func.func @attention_c2(%q: tensor<1x4x6x8xf32>, %k: tensor<1x3x5x8xf32>) {
  // expected-error @below {{extents of query 'tensor<1x4x6x8xf32>', key 'tensor<1x3x5x8xf32>' and value 'tensor<1x3x5x8xf32>' do not fit}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.attention %q, %k, %k scale(1.0)
     : (tensor<1x4x6x8xf32>, tensor<1x3x5x8xf32>, tensor<1x3x5x8xf32>) -> tensor<1x4x6x8xf32>
  return
}

// -----

func.func @max_pool_c1(%x: tensor<1x4x8x8xf32>) {
  // expected-error @below {{pads by 3 and 0, which must be non-negative and below the window's extent 2}}
  %0 = mpc.max_pool %x window([2, 2]) strides([1, 1]) pad([3, 0], [0, 0]) dilations([1, 1])
     : tensor<1x4x8x8xf32> -> tensor<1x4x10x7xf32>
  return
}

// -----

func.func @reduce_sum_c1(%x: tensor<2x3xf32>) {
  // expected-error @below {{axes [1, 0] must be ascending and unique}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.reduce_sum %x axes([1, 0]) : tensor<2x3xf32> -> tensor<f32>
  return
}

// -----

func.func @reduce_sum_c3(%x: tensor<2x3xf32>) {
  // expected-error @below {{accumulates in 'bf16', which is narrower than its input's type 'f32'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.reduce_sum %x axes([1]) accumulate(bf16) : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @softmax_c1(%x: tensor<2x3xf32>) {
  // expected-error @below {{axis 2 is outside the rank 2}}
  %0 = mpc.softmax %x axis(2) : tensor<2x3xf32>
  return
}

// -----

func.func @layer_norm_c2(%x: tensor<2x3xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{operand 'tensor<4xf32>' does not broadcast to the normalised extents [3]}}
  %0 = mpc.layer_norm %x, %s axis(1) epsilon(1.0e-5) : (tensor<2x3xf32>, tensor<4xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @group_norm_c1(%x: tensor<2x3x4xf32>, %s: tensor<3xf32>) {
  // expected-error @below {{cannot split 3 channels into 2 groups}}
  %0 = mpc.group_norm %x, %s, %s groups(2) epsilon(1.0e-5)
     : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4xf32>
  return
}

// -----

func.func @reshape_c1(%x: tensor<2x3xf32>) {
  // expected-error @below {{changes 6 elements of 'tensor<2x3xf32>' to 8 of 'tensor<8xf32>'}}
  %0 = mpc.reshape %x : tensor<2x3xf32> to tensor<8xf32>
  return
}

// -----

func.func @transpose_c1(%x: tensor<2x3xf32>) {
  // expected-error @below {{[0, 0] does not permute the dimensions of 'tensor<2x3xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.transpose %x [0, 0] : tensor<2x3xf32> to tensor<2x2xf32>
  return
}

// -----

func.func @slice_c2(%x: tensor<2x3xf32>) {
  // expected-error @below {{reads beyond extent 3 of dimension 1: offset 1, size 2, stride 2}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.slice %x [0, 1] [2, 2] strides [1, 2] : tensor<2x3xf32> to tensor<2x2xf32>
  return
}

// -----

func.func @pad_c3(%x: tensor<2x3xf32>, %v: tensor<f32>) {
  // expected-error @below {{cannot pad dimension 1 of extent 3 by 3 and 0}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.pad %x, %v low([0, 3]) high([0, 0]) mode(reflect) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x6xf32>
  return
}

// -----

func.func @scatter_nd_c2(%x: tensor<2x3xf32>, %i: tensor<4x1xi64>, %u: tensor<4x2xf32>) {
  // expected-error @below {{needs updates of shape [4, 3], found 'tensor<4x2xf32>'}}
  %0 = mpc.scatter_nd %x, %i, %u : (tensor<2x3xf32>, tensor<4x1xi64>, tensor<4x2xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @lstm_c2(%x: tensor<7x2x3xf32>, %w: tensor<1x12x3xf32>, %r: tensor<1x16x4xf32>) {
  // expected-error @below {{weights 'tensor<1x12x3xf32>' and 'tensor<1x16x4xf32>' do not fit input 'tensor<7x2x3xf32>' in 1 direction(s)}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = mpc.lstm %x, %w, %r : (tensor<7x2x3xf32>, tensor<1x12x3xf32>, tensor<1x16x4xf32>)
       -> (tensor<7x1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @constant_c1() {
  // expected-error @below {{resource 'w' holds 4 bytes, 'tensor<1000xf32>' needs 4000}}
  %0 = mpc.constant dense_resource<w> : tensor<1000xf32>
  return
}

{-#
  dialect_resources: { builtin: { w: "0x400000000000803F" } }
#-}

// -----

func.func @constant_elements_overflow() {
  // expected-error @below {{elements, more than the limit of 1099511627776}}
  %0 = mpc.constant dense<1.0> : tensor<99999999999999x99999999999xf32>
  return
}

// -----

func.func @fusion_c2(%x: tensor<3xf32>) {
  // expected-error @below {{yields types that differ from its results}}
  %0 = mpc.fusion kind(elementwise) name("f") (%a = %x : tensor<3xf32>) -> tensor<4xf32> {
    mpc.yield %a : tensor<3xf32>
  }
  return
}

// -----

func.func @fusion_kind(%x: tensor<3xf32>) {
  // expected-error @below {{unknown fusion kind 'wild'}}
  %0 = mpc.fusion kind(wild) name("f") (%a = %x : tensor<3xf32>) -> tensor<3xf32> {
    mpc.yield %a : tensor<3xf32>
  }
  return
}

// -----

// expected-error @below {{argument 0: 'mpc.role' must be a #mpc.role, found "input"}}
func.func @role_is_an_attribute(%x: tensor<3xf32> {mpc.role = "input"}) {
  return
}

// -----

// expected-error @below {{role 'input' takes no field, found "scale"}}
func.func @role_without_field(%x: tensor<3xf32> {mpc.role = #mpc.role<input, "scale">}) {
  return
}

// -----

// expected-error @below {{result 0 of type 'tensor<4xf32>' cannot replace argument 0 of type 'tensor<3xf32>'}}
func.func @alias_of_another_type(%x: tensor<3xf32>, %y: tensor<4xf32>) -> (tensor<4xf32> {mpc.alias = 0 : i64}) {
  return %y : tensor<4xf32>
}

// -----

func.func @integer_matmul_c1(%x: tensor<2x3xui8>, %y: tensor<3x5xi16>) {
  // expected-error @below {{'mpc.matmul' needs one element type, found 'ui8' and 'i16'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.matmul %x, %y : (tensor<2x3xui8>, tensor<3x5xi16>) -> tensor<2x5xi32>
  return
}

// -----

func.func @integer_matmul_c4(%x: tensor<2x3xui8>, %y: tensor<3x5xi8>) {
  // expected-error @below {{are incompatible with return type(s) of operation 'tensor<2x5xi64>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.matmul %x, %y : (tensor<2x3xui8>, tensor<3x5xi8>) -> tensor<2x5xi64>
  return
}

// -----

func.func @integer_conv_c1(%x: tensor<1x4x8x8xi16>, %f: tensor<6x4x3x3xi16>) {
  // expected-error @below {{'mpc.conv' convolves floats or 8-bit integers, not 'tensor<1x4x8x8xi16>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.conv %x, %f strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1])
      : (tensor<1x4x8x8xi16>, tensor<6x4x3x3xi16>) -> tensor<1x6x6x6xi32>
  return
}

// -----

func.func @integer_conv_c1_result(%x: tensor<1x4x8x8xi8>, %f: tensor<6x4x3x3xi8>) {
  // expected-error @below {{sums products of 'i8' in i32, not in 'i8'}}
  %0 = mpc.conv %x, %f strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1])
      : (tensor<1x4x8x8xi8>, tensor<6x4x3x3xi8>) -> tensor<1x6x6x6xi8>
  return
}

// -----

func.func @conv_c5(%x: tensor<1x4x8x8xf32>, %f: tensor<6x4x3x3xf32>) {
  // expected-error @below {{pads an input of 'f32' with 1}}
  %0 = mpc.conv %x, %f strides([1, 1]) pad([1, 1], [1, 1]) pad_value(1) dilations([1, 1])
      : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x8x8xf32>
  return
}

// -----

func.func @integer_conv_c5(%x: tensor<1x4x8x8xi8>, %f: tensor<6x4x3x3xi8>) {
  // expected-error @below {{pads an input of 'i8' with 128}}
  %0 = mpc.conv %x, %f strides([1, 1]) pad([1, 1], [1, 1]) pad_value(128) dilations([1, 1])
      : (tensor<1x4x8x8xi8>, tensor<6x4x3x3xi8>) -> tensor<1x6x8x8xi32>
  return
}

// -----

func.func @recurrence_c1(%p: tensor<7x2x12xbf16>, %r: tensor<1x12x4xf32>) {
  // expected-error @below {{keeps states in 'bf16', narrower than its weights' 'f32'}}
  %0:2 = mpc.recurrence gru %p, %r : (tensor<7x2x12xbf16>, tensor<1x12x4xf32>) -> (tensor<7x1x2x4xbf16>, tensor<1x2x4xbf16>)
  return
}

// -----

func.func @recurrence_c1_bias(%p: tensor<7x2x12xf32>, %r: tensor<1x12x4xf32>, %b: tensor<1x24xf32>) {
  // expected-error @below {{bias must be 'tensor<1x12xf32>', found 'tensor<1x24xf32>'}}
  %0:2 = mpc.recurrence gru %p, %r bias(%b) : (tensor<7x2x12xf32>, tensor<1x12x4xf32>, tensor<1x24xf32>) -> (tensor<7x1x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @recurrence_c2(%p: tensor<7x2x12xf32>, %r: tensor<1x12x4xf32>) {
  // expected-error @below {{weights 'tensor<1x12x4xf32>' do not fit gates 'tensor<7x2x12xf32>' in 1 direction(s)}}
  %0:3 = mpc.recurrence lstm %p, %r : (tensor<7x2x12xf32>, tensor<1x12x4xf32>) -> (tensor<7x1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @recurrence_c3(%p: tensor<7x2x16xf32>, %r: tensor<1x16x4xf32>) {
  // expected-error @below {{has a cell state where its cell is not lstm, or none where it is}}
  %0:2 = mpc.recurrence lstm %p, %r : (tensor<7x2x16xf32>, tensor<1x16x4xf32>) -> (tensor<7x1x2x4xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @recurrence_training_c1(%p: tensor<7x2x12xbf16>, %r: tensor<1x12x4xf32>) {
  // expected-error @below {{keeps states in 'bf16', narrower than its weights' 'f32'}}
  %0:3 = mpc.recurrence_training gru %p, %r : (tensor<7x2x12xbf16>, tensor<1x12x4xf32>) -> (tensor<7x1x2x4xbf16>, tensor<1x2x4xbf16>, tensor<7x2x16xbf16>)
  return
}

// -----

func.func @recurrence_training_c2(%p: tensor<7x2x12xf32>, %r: tensor<1x12x4xf32>) {
  // expected-error @below {{kept must be 'tensor<7x2x16xf32>', found 'tensor<7x2x20xf32>'}}
  %0:3 = mpc.recurrence_training gru %p, %r : (tensor<7x2x12xf32>, tensor<1x12x4xf32>) -> (tensor<7x1x2x4xf32>, tensor<1x2x4xf32>, tensor<7x2x20xf32>)
  return
}

// -----

func.func @recurrence_training_c3(%p: tensor<7x2x16xf32>, %r: tensor<1x16x4xf32>) {
  // expected-error @below {{has a cell state where its cell is not lstm, or none where it is}}
  %0:3 = mpc.recurrence_training lstm %p, %r : (tensor<7x2x16xf32>, tensor<1x16x4xf32>) -> (tensor<7x1x2x4xf32>, tensor<1x2x4xf32>, tensor<7x2x20xf32>)
  return
}

// -----

func.func @recurrence_gradient_c1(%r: tensor<1x12x4xf32>, %k: tensor<7x2x16xf32>, %d: tensor<7x1x2x4xbf16>) {
  // expected-error @below {{result must be 'tensor<7x1x2x4xf32>', found 'tensor<7x1x2x4xbf16>'}}
  %0:2 = mpc.recurrence_gradient gru %r, %k result(%d) : (tensor<1x12x4xf32>, tensor<7x2x16xf32>, tensor<7x1x2x4xbf16>) -> (tensor<7x2x12xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @recurrence_gradient_c2(%r: tensor<1x12x4xf32>, %k: tensor<7x2x12xf32>) {
  // expected-error @below {{weights 'tensor<1x12x4xf32>' do not fit kept 'tensor<7x2x12xf32>' in 1 direction(s)}}
  %0:2 = mpc.recurrence_gradient gru %r, %k : (tensor<1x12x4xf32>, tensor<7x2x12xf32>) -> (tensor<7x2x12xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @recurrence_gradient_c3(%r: tensor<1x12x4xf32>, %k: tensor<7x2x20xf32>) {
  // expected-error @below {{lacks a third result or has one without need}}
  %0:2 = mpc.recurrence_gradient linear_gru %r, %k : (tensor<1x12x4xf32>, tensor<7x2x20xf32>) -> (tensor<7x2x12xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @encode_float_c1(%x: tensor<4xf32>) {
  // expected-error @below {{'mpc.encode_float' op has the format 'f8E3M4'; use f8E4M3FN, f8E5M2, f8E4M3FNUZ, f8E5M2FNUZ, f8E8M0FNU, f6E2M3FN, f6E3M2FN or f4E2M1FN}}
  %0 = mpc.encode_float %x format(f8E3M4) : tensor<4xf32> to tensor<4xui8>
  return
}

// -----

func.func @encode_float_c2_format(%x: tensor<4xf32>) {
  // expected-error @below {{'mpc.encode_float' op rounds up or down to 'f8E5M2'; only f8E8M0FNU has a direction}}
  %0 = mpc.encode_float %x format(f8E5M2) rounding(up) : tensor<4xf32> to tensor<4xui8>
  return
}

// -----

func.func @encode_float_c2_random(%x: tensor<4xf32>, %r: tensor<4xi32>) {
  // expected-error @below {{'mpc.encode_float' op rounds at random and in one direction}}
  %0 = mpc.encode_float %x format(f8E8M0FNU) rounding(down) random(%r : tensor<4xi32>) : tensor<4xf32> to tensor<4xui8>
  return
}

// -----

func.func @encode_float_direction(%x: tensor<4xf32>) {
  // expected-error @below {{expected 'up' or 'down'}}
  %0 = mpc.encode_float %x format(f8E8M0FNU) rounding(nearest) : tensor<4xf32> to tensor<4xui8>
  return
}

// -----

func.func @encode_float_c3(%x: tensor<4xf64>, %r: tensor<4xi32>) {
  // expected-error @below {{'mpc.encode_float' op rounds f64 at random; cast the input to f32}}
  %0 = mpc.encode_float %x format(f8E5M2) random(%r : tensor<4xi32>) : tensor<4xf64> to tensor<4xui8>
  return
}

// -----

func.func @decode_float_c1(%c: tensor<4xui8>) {
  // expected-error @below {{'mpc.decode_float' op has the format 'f32'; use f8E4M3FN}}
  %0 = mpc.decode_float %c format(f32) : tensor<4xui8> to tensor<4xf32>
  return
}

// -----

func.func @decode_float_c2(%c: tensor<4xui8>) {
  // expected-error @below {{'mpc.decode_float' op decodes f8E8M0FNU to f16, whose range is smaller}}
  %0 = mpc.decode_float %c format(f8E8M0FNU) : tensor<4xui8> to tensor<4xf16>
  return
}

// -----

func.func @decode_float_c3(%c: tensor<4xui8>) {
  // expected-error @below {{'mpc.decode_float' op decodes 'f8E4M3FN' to 'f8E5M2'; a result of 8 bits has the same format}}
  %0 = mpc.decode_float %c format(f8E4M3FN) : tensor<4xui8> to tensor<4xf8E5M2>
  return
}
