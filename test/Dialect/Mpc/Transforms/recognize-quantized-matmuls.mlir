// RUN: mpc-opt %s --mpc-recognize-quantized-matmuls | FileCheck %s
// RUN: mpc-opt %s --mpc-recognize-quantized-matmuls | mpc-opt --mpc-recognize-quantized-matmuls | FileCheck %s

// A scale per column and no zero point for the weights, as quantizers write
// them; import has made the weights i64.
// CHECK-LABEL: func @weights_by_column
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x3xui8>
// CHECK: %[[F:.*]] = mpc.constant dense<[1.250000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK: %[[W:.*]] = mpc.constant dense<{{\[\[}}-128, 127], [5, -6], [7, 8]]> : tensor<3x2xi8>
// CHECK: %[[P:.*]] = mpc.matmul %[[X]], %[[W]] : (tensor<4x3xui8>, tensor<3x2xi8>) -> tensor<4x2xi32>
// CHECK: %[[Z:.*]] = mpc.reduce_sum
// CHECK: %[[M:.*]] = mpc.mul %[[Z]]
// CHECK: %[[D:.*]] = mpc.sub %[[P]], %[[M]]
// CHECK: %[[C:.*]] = mpc.cast %[[D]] : tensor<4x2xi32> to tensor<4x2xf32>
// CHECK: mpc.mul %[[C]], %[[F]]
func.func @weights_by_column(%x: tensor<4x3xui8>) -> tensor<4x2xf32> {
  %zero = mpc.constant dense<131> : tensor<i64>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %w = mpc.constant dense<[[-128, 127], [5, -6], [7, 8]]> : tensor<3x2xi64>
  %scales = mpc.constant dense<[[0.25, 0.5]]> : tensor<1x2xf32>
  %0 = mpc.cast %x : tensor<4x3xui8> to tensor<4x3xi64>
  %1 = mpc.sub %0, %zero : (tensor<4x3xi64>, tensor<i64>) -> tensor<4x3xi64>
  %2 = mpc.cast %1 : tensor<4x3xi64> to tensor<4x3xf32>
  %3 = mpc.mul %2, %half : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %4 = mpc.cast %w : tensor<3x2xi64> to tensor<3x2xf32>
  %5 = mpc.mul %4, %scales : (tensor<3x2xf32>, tensor<1x2xf32>) -> tensor<3x2xf32>
  %6 = mpc.matmul %3, %5 : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  return %6 : tensor<4x2xf32>
}

// Both sides are no constants and have zero points; signs are shifted to ui8 by i8.
// CHECK-LABEL: func @activations
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<2x5x7xi8>, %[[B:[a-z0-9]+]]: tensor<2x6x7xui8>
// CHECK: %[[WIDE:.*]] = mpc.cast %[[A]] : tensor<2x5x7xi8> to tensor<2x5x7xi32>
// CHECK: %[[MOVED:.*]] = mpc.add %[[WIDE]]
// CHECK: %[[L:.*]] = mpc.cast %[[MOVED]] : tensor<2x5x7xi32> to tensor<2x5x7xui8>
// CHECK: %[[R:.*]] = mpc.cast %{{.*}} : tensor<2x6x7xi32> to tensor<2x6x7xi8>
// CHECK: mpc.matmul %[[L]], %[[R]] transpose_rhs : (tensor<2x5x7xui8>, tensor<2x6x7xi8>) -> tensor<2x5x6xi32>
func.func @activations(%a: tensor<2x5x7xi8>, %b: tensor<2x6x7xui8>) -> tensor<2x5x6xf32> {
  %za = mpc.constant dense<-3> : tensor<i8>
  %zb = mpc.constant dense<40> : tensor<ui8>
  %s = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.cast %a : tensor<2x5x7xi8> to tensor<2x5x7xi64>
  %1 = mpc.cast %za : tensor<i8> to tensor<i64>
  %2 = mpc.sub %0, %1 : (tensor<2x5x7xi64>, tensor<i64>) -> tensor<2x5x7xi64>
  %3 = mpc.cast %2 : tensor<2x5x7xi64> to tensor<2x5x7xf32>
  %4 = mpc.mul %3, %s : (tensor<2x5x7xf32>, tensor<f32>) -> tensor<2x5x7xf32>
  %5 = mpc.cast %b : tensor<2x6x7xui8> to tensor<2x6x7xi64>
  %6 = mpc.cast %zb : tensor<ui8> to tensor<i64>
  %7 = mpc.sub %5, %6 : (tensor<2x6x7xi64>, tensor<i64>) -> tensor<2x6x7xi64>
  %8 = mpc.cast %7 : tensor<2x6x7xi64> to tensor<2x6x7xf32>
  %9 = mpc.mul %8, %s : (tensor<2x6x7xf32>, tensor<f32>) -> tensor<2x6x7xf32>
  %10 = mpc.matmul %4, %9 transpose_rhs : (tensor<2x5x7xf32>, tensor<2x6x7xf32>) -> tensor<2x5x6xf32>
  return %10 : tensor<2x5x6xf32>
}

// MatMulInteger with a run-time zero point: exact in f64, and in integers. The
// weights are shifted into i8 by one common offset.
// CHECK-LABEL: func @zero_point_at_run_time
// CHECK: mpc.constant dense<{{.*}}> : tensor<3x2xi8>
// CHECK: mpc.matmul %{{.*}}, %{{.*}} transpose_lhs : (tensor<3x4xui8>, tensor<3x2xi8>) -> tensor<4x2xi32>
// CHECK-NOT: f64>, tensor
func.func @zero_point_at_run_time(%x: tensor<3x4xui8>, %z: tensor<ui8>) -> tensor<4x2xf64> {
  %w = mpc.constant dense<[[0, 200], [150, -55], [7, 8]]> : tensor<3x2xi64>
  %0 = mpc.cast %x : tensor<3x4xui8> to tensor<3x4xi64>
  %1 = mpc.cast %z : tensor<ui8> to tensor<i64>
  %2 = mpc.sub %0, %1 : (tensor<3x4xi64>, tensor<i64>) -> tensor<3x4xi64>
  %3 = mpc.cast %2 : tensor<3x4xi64> to tensor<3x4xf64>
  %4 = mpc.cast %w : tensor<3x2xi64> to tensor<3x2xf64>
  %5 = mpc.matmul %3, %4 transpose_lhs : (tensor<3x4xf64>, tensor<3x2xf64>) -> tensor<4x2xf64>
  return %5 : tensor<4x2xf64>
}

// The weights are transposed once they are floats.
// CHECK-LABEL: func @transposed_weights
// CHECK: mpc.transpose %{{.*}} [1, 0] : tensor<2x3xi8> to tensor<3x2xi8>
// CHECK: mpc.matmul {{.*}} -> tensor<4x2xi32>
func.func @transposed_weights(%x: tensor<4x3xui8>, %w: tensor<2x3xi8>) -> tensor<4x2xf32> {
  %scales = mpc.constant dense<[[0.25], [0.5]]> : tensor<2x1xf32>
  %0 = mpc.cast %x : tensor<4x3xui8> to tensor<4x3xf32>
  %1 = mpc.cast %w : tensor<2x3xi8> to tensor<2x3xf32>
  %2 = mpc.mul %1, %scales : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  %3 = mpc.transpose %2 [1, 0] : tensor<2x3xf32> to tensor<3x2xf32>
  %4 = mpc.matmul %0, %3 : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  return %4 : tensor<4x2xf32>
}

// Padding elements are the zero point, so that all windows have the same correction.
// CHECK-LABEL: func @conv
// CHECK: mpc.conv %{{.*}}, %{{.*}} strides([2, 1]) pad([1, 0], [1, 2]) pad_value(138) dilations([1, 1]) : (tensor<2x3x5x6xui8>, tensor<4x3x2x3xi8>) -> tensor<2x4x3x6xi32>
// CHECK: mpc.reduce_sum %{{.*}} axes([1, 2, 3])
// CHECK: mpc.mul {{.*}}, tensor<4x1x1xf32>) -> tensor<2x4x3x6xf32>
func.func @conv(%x: tensor<2x3x5x6xi8>, %w: tensor<4x3x2x3xi8>) -> tensor<2x4x3x6xf32> {
  %zero = mpc.constant dense<10> : tensor<i64>
  %s = mpc.constant dense<0.5> : tensor<f32>
  %scales = mpc.constant dense<[[[[0.25]]], [[[0.5]]], [[[1.0]]], [[[2.0]]]]> : tensor<4x1x1x1xf32>
  %0 = mpc.cast %x : tensor<2x3x5x6xi8> to tensor<2x3x5x6xi64>
  %1 = mpc.sub %0, %zero : (tensor<2x3x5x6xi64>, tensor<i64>) -> tensor<2x3x5x6xi64>
  %2 = mpc.cast %1 : tensor<2x3x5x6xi64> to tensor<2x3x5x6xf32>
  %3 = mpc.mul %2, %s : (tensor<2x3x5x6xf32>, tensor<f32>) -> tensor<2x3x5x6xf32>
  %4 = mpc.cast %w : tensor<4x3x2x3xi8> to tensor<4x3x2x3xf32>
  %5 = mpc.mul %4, %scales : (tensor<4x3x2x3xf32>, tensor<4x1x1x1xf32>) -> tensor<4x3x2x3xf32>
  %6 = mpc.conv %3, %5 strides([2, 1]) pad([1, 0], [1, 2]) dilations([1, 1]) : (tensor<2x3x5x6xf32>, tensor<4x3x2x3xf32>) -> tensor<2x4x3x6xf32>
  return %6 : tensor<2x4x3x6xf32>
}

// ConvInteger of activations with a computed zero point: padding reads zero, and the zero point's
// correction is one number per position, from the part of the filter inside the image. Of
// weights 1, 2, 3, ... 9 the lower right ones are inside at the upper left: 5 + 6 + 8 + 9.
// CHECK-LABEL: func @conv_with_zero_point_at_run_time
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<1x1x3x4xui8>, %[[Z:[a-z0-9]+]]: tensor<ui8>
// CHECK: %[[S:.*]] = mpc.constant dense<{{\[\[\[}}28, 39, 39, 24], [33, 45, 45, 27], [16, 21, 21, 12]]]> : tensor<1x3x4xi32>
// CHECK: %[[P:.*]] = mpc.conv %[[X]], %{{.*}} strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) : (tensor<1x1x3x4xui8>, tensor<1x1x3x3xi8>) -> tensor<1x1x3x4xi32>
// CHECK: %[[M:.*]] = mpc.mul %[[S]]
// CHECK: mpc.sub %[[P]], %[[M]]
// CHECK-NOT: f64>, tensor
func.func @conv_with_zero_point_at_run_time(%x: tensor<1x1x3x4xui8>, %z: tensor<ui8>) -> tensor<1x1x3x4xf64> {
  %w = mpc.constant dense<[[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]]> : tensor<1x1x3x3xi64>
  %0 = mpc.cast %x : tensor<1x1x3x4xui8> to tensor<1x1x3x4xi64>
  %1 = mpc.cast %z : tensor<ui8> to tensor<i64>
  %2 = mpc.sub %0, %1 : (tensor<1x1x3x4xi64>, tensor<i64>) -> tensor<1x1x3x4xi64>
  %3 = mpc.cast %2 : tensor<1x1x3x4xi64> to tensor<1x1x3x4xf64>
  %4 = mpc.cast %w : tensor<1x1x3x3xi64> to tensor<1x1x3x3xf64>
  %5 = mpc.conv %3, %4 strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) : (tensor<1x1x3x4xf64>, tensor<1x1x3x3xf64>) -> tensor<1x1x3x4xf64>
  return %5 : tensor<1x1x3x4xf64>
}

// Filters of nine bits, from a quantizer that uses all of ui8: the correction for the filter's zero
// point is computed from window sums, which f32 holds. Strides, dilations, uneven padding.
// CHECK-LABEL: func @filter_with_zero_point
// CHECK: mpc.conv {{.*}} : (tensor<2x3x7x6xui8>, tensor<2x3x2x2xi8>) -> tensor<2x2x4x6xi32>
// CHECK: %[[W:.*]] = mpc.conv {{.*}} strides([2, 1]) pad([1, 0], [2, 2]) dilations([3, 2]) : (tensor<2x1x7x6xf32>, tensor<1x1x2x2xf32>) -> tensor<2x1x4x6xf32>
// CHECK: %[[I:.*]] = mpc.cast %[[W]] : tensor<2x1x4x6xf32> to tensor<2x1x4x6xi32>
// CHECK: mpc.mul %[[I]]
// CHECK-NOT: f64>, tensor
func.func @filter_with_zero_point(%x: tensor<2x3x7x6xui8>, %z: tensor<ui8>) -> tensor<2x2x4x6xf64> {
  %w = mpc.constant dense<[[[[-55, 200], [0, 1]], [[17, 30], [99, 150]], [[-7, 8], [12, 180]]],
                           [[[-50, 190], [3, 4]], [[11, -20], [90, -11]], [[77, 66], [55, 44]]]]> : tensor<2x3x2x2xi64>
  %0 = mpc.cast %x : tensor<2x3x7x6xui8> to tensor<2x3x7x6xi64>
  %1 = mpc.cast %z : tensor<ui8> to tensor<i64>
  %2 = mpc.sub %0, %1 : (tensor<2x3x7x6xi64>, tensor<i64>) -> tensor<2x3x7x6xi64>
  %3 = mpc.cast %2 : tensor<2x3x7x6xi64> to tensor<2x3x7x6xf64>
  %4 = mpc.cast %w : tensor<2x3x2x2xi64> to tensor<2x3x2x2xf64>
  %5 = mpc.conv %3, %4 strides([2, 1]) pad([1, 0], [2, 2]) dilations([3, 2]) : (tensor<2x3x7x6xf64>, tensor<2x3x2x2xf64>) -> tensor<2x2x4x6xf64>
  return %5 : tensor<2x2x4x6xf64>
}

// A zero point for each output channel, a constant one of the input, and a 1x1 window: sums over
// channels suffice.
// CHECK-LABEL: func @pointwise_filters_with_zero_points
// CHECK: mpc.conv {{.*}} -> tensor<1x2x3x3xi32>
// CHECK: mpc.reduce_sum {{.*}} axes([1]) keep_dims : tensor<1x3x3x3xf32>
// CHECK-NOT: mpc.conv
func.func @pointwise_filters_with_zero_points(%x: tensor<1x3x3x3xui8>, %w: tensor<2x3x1x1xi8>) -> tensor<1x2x3x3xf32> {
  %zx = mpc.constant dense<7> : tensor<ui8>
  %zw = mpc.constant dense<[[[[3]]], [[[-90]]]]> : tensor<2x1x1x1xi64>
  %0 = mpc.cast %x : tensor<1x3x3x3xui8> to tensor<1x3x3x3xi64>
  %1 = mpc.cast %zx : tensor<ui8> to tensor<i64>
  %2 = mpc.sub %0, %1 : (tensor<1x3x3x3xi64>, tensor<i64>) -> tensor<1x3x3x3xi64>
  %3 = mpc.cast %2 : tensor<1x3x3x3xi64> to tensor<1x3x3x3xf32>
  %4 = mpc.cast %w : tensor<2x3x1x1xi8> to tensor<2x3x1x1xi64>
  %5 = mpc.sub %4, %zw : (tensor<2x3x1x1xi64>, tensor<2x1x1x1xi64>) -> tensor<2x3x1x1xi64>
  %6 = mpc.cast %5 : tensor<2x3x1x1xi64> to tensor<2x3x1x1xf32>
  %7 = mpc.conv %3, %6 strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<1x3x3x3xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x3x3xf32>
  return %7 : tensor<1x2x3x3xf32>
}

// A scale for each contracted position stays inside the sum.
// CHECK-LABEL: func @scale_along_the_depth
// CHECK-NOT: xi32>
func.func @scale_along_the_depth(%x: tensor<4x2xui8>, %w: tensor<2x3xi8>) -> tensor<4x3xf32> {
  %scales = mpc.constant dense<[[0.25], [0.5]]> : tensor<2x1xf32>
  %0 = mpc.cast %x : tensor<4x2xui8> to tensor<4x2xf32>
  %1 = mpc.cast %w : tensor<2x3xi8> to tensor<2x3xf32>
  %2 = mpc.mul %1, %scales : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  %3 = mpc.matmul %0, %2 : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %3 : tensor<4x3xf32>
}

// 33,026 products of 255 by 255 exceed 2^31.
// CHECK-LABEL: func @too_deep
// CHECK-NOT: xi32>
func.func @too_deep(%x: tensor<1x33026xui8>, %w: tensor<33026x1xi8>) -> tensor<1x1xf32> {
  %0 = mpc.cast %x : tensor<1x33026xui8> to tensor<1x33026xf32>
  %1 = mpc.cast %w : tensor<33026x1xi8> to tensor<33026x1xf32>
  %2 = mpc.matmul %0, %1 : (tensor<1x33026xf32>, tensor<33026x1xf32>) -> tensor<1x1xf32>
  return %2 : tensor<1x1xf32>
}

// 16-bit integers are not 8-bit ones.
// CHECK-LABEL: func @wide_integers
// CHECK-NOT: xi32>
func.func @wide_integers(%x: tensor<4x2xi16>, %w: tensor<2x3xi8>) -> tensor<4x3xf32> {
  %0 = mpc.cast %x : tensor<4x2xi16> to tensor<4x2xf32>
  %1 = mpc.cast %w : tensor<2x3xi8> to tensor<2x3xf32>
  %2 = mpc.matmul %0, %1 : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %2 : tensor<4x3xf32>
}

// Lossy casts in between block the rewrite, differences that wrap or are no integers as
// well, and so do scales whose product f32 cannot represent.
// CHECK-LABEL: func @not_exact
// CHECK-COUNT-5: mpc.matmul {{.*}} : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
// CHECK-NOT: mpc.matmul
func.func @not_exact(%x: tensor<4x3xui8>)
    -> (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>) {
  %w = mpc.constant dense<[[-128, 127], [5, -6], [7, 8]]> : tensor<3x2xi8>
  %1 = mpc.cast %w : tensor<3x2xi8> to tensor<3x2xf32>
  %truth = mpc.cast %x : tensor<4x3xui8> to tensor<4x3xi1>
  %2 = mpc.cast %truth : tensor<4x3xi1> to tensor<4x3xf32>
  %3 = mpc.matmul %2, %1 : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %sign = mpc.cast %x : tensor<4x3xui8> to tensor<4x3xi8>
  %narrow = mpc.cast %sign : tensor<4x3xi8> to tensor<4x3xui16>
  %4 = mpc.cast %narrow : tensor<4x3xui16> to tensor<4x3xf32>
  %5 = mpc.matmul %4, %1 : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %hundred = mpc.constant dense<100> : tensor<ui32>
  %wide = mpc.cast %x : tensor<4x3xui8> to tensor<4x3xui32>
  %wrapped = mpc.sub %wide, %hundred : (tensor<4x3xui32>, tensor<ui32>) -> tensor<4x3xui32>
  %6 = mpc.cast %wrapped : tensor<4x3xui32> to tensor<4x3xf32>
  %7 = mpc.matmul %6, %1 : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %half = mpc.constant dense<3.5> : tensor<f64>
  %double = mpc.cast %x : tensor<4x3xui8> to tensor<4x3xf64>
  %less = mpc.sub %double, %half : (tensor<4x3xf64>, tensor<f64>) -> tensor<4x3xf64>
  %8 = mpc.cast %less : tensor<4x3xf64> to tensor<4x3xf32>
  %9 = mpc.matmul %8, %1 : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %large = mpc.constant dense<1.0e20> : tensor<f32>
  %10 = mpc.cast %x : tensor<4x3xui8> to tensor<4x3xf32>
  %11 = mpc.mul %10, %large : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %12 = mpc.mul %1, %large : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %13 = mpc.matmul %11, %12 : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  return %3, %5, %7, %9, %13 : tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>
}

// Scales of floats multiply the sums of the numbers.
// CHECK-LABEL: func @floats
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x3xui8>
// CHECK: %[[F:.*]] = mpc.constant dense<[1.250000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK: %[[A:.*]] = mpc.decode_float %[[X]] format(f4E2M1FN)
// CHECK: %[[B:.*]] = mpc.decode_float %{{.*}} format(f8E4M3FN)
// CHECK: %[[T:.*]] = mpc.transpose %[[B]] [1, 0]
// CHECK: %[[P:.*]] = mpc.matmul %[[A]], %[[T]] {mpc.operands = "model"}
// CHECK: mpc.mul %[[P]], %[[F]]
func.func @floats(%x: tensor<4x3xui8>) -> tensor<4x2xf32> {
  %half = mpc.constant dense<0.5> : tensor<f32>
  %w = mpc.constant dense<[[1, 126, 200], [8, 0, 77]]> : tensor<2x3xui8>
  %scales = mpc.constant dense<[[0.25], [0.5]]> : tensor<2x1xf32>
  %0 = mpc.decode_float %x format(f4E2M1FN) : tensor<4x3xui8> to tensor<4x3xf32>
  %1 = mpc.mul %0, %half : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %2 = mpc.decode_float %w format(f8E4M3FN) : tensor<2x3xui8> to tensor<2x3xf32>
  %3 = mpc.mul %2, %scales : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  %4 = mpc.transpose %3 [1, 0] : tensor<2x3xf32> to tensor<3x2xf32>
  %5 = mpc.matmul %1, %4 : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  return %5 : tensor<4x2xf32>
}

// Of a convolution, one scale per filter.
// CHECK-LABEL: func @float_conv
// CHECK: %[[F:.*]] = mpc.constant dense<{{\[\[\[}}1.250000e-01]], {{\[\[}}2.500000e-01]]]> : tensor<2x1x1xf32>
// CHECK: %[[A:.*]] = mpc.decode_float %{{.*}} format(f8E5M2)
// CHECK: %[[B:.*]] = mpc.decode_float %{{.*}} format(f8E4M3FN)
// CHECK: %[[P:.*]] = mpc.conv %[[A]], %[[B]] strides([1, 1]) pad([1, 1], [1, 1]) {{.*}}mpc.operands = "model"
// CHECK: mpc.mul %[[P]], %[[F]]
func.func @float_conv(%x: tensor<1x3x4x4xui8>, %w: tensor<2x3x3x3xui8>) -> tensor<1x2x4x4xf32> {
  %half = mpc.constant dense<0.5> : tensor<f32>
  %scales = mpc.constant dense<[[[[0.25]]], [[[0.5]]]]> : tensor<2x1x1x1xf32>
  %0 = mpc.decode_float %x format(f8E5M2) : tensor<1x3x4x4xui8> to tensor<1x3x4x4xf32>
  %1 = mpc.mul %0, %half : (tensor<1x3x4x4xf32>, tensor<f32>) -> tensor<1x3x4x4xf32>
  %2 = mpc.decode_float %w format(f8E4M3FN) : tensor<2x3x3x3xui8> to tensor<2x3x3x3xf32>
  %3 = mpc.mul %2, %scales : (tensor<2x3x3x3xf32>, tensor<2x1x1x1xf32>) -> tensor<2x3x3x3xf32>
  %4 = mpc.conv %1, %3 strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x4x4xf32>
  return %4 : tensor<1x2x4x4xf32>
}

// Left alone: a scale per row of the left side, bytes by floats, and scales as numbers.
// CHECK-LABEL: func @other_floats
// CHECK-NOT: mpc.operands
func.func @other_floats(%x: tensor<4x3xui8>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %half = mpc.constant dense<0.5> : tensor<f32>
  %rows = mpc.constant dense<[[0.25], [0.5], [1.0], [2.0]]> : tensor<4x1xf32>
  %0 = mpc.decode_float %x format(f4E2M1FN) : tensor<4x3xui8> to tensor<4x3xf32>
  %1 = mpc.mul %0, %rows : (tensor<4x3xf32>, tensor<4x1xf32>) -> tensor<4x3xf32>
  %2 = mpc.matmul %1, %0 transpose_rhs : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x4xf32>
  %3 = mpc.cast %x : tensor<4x3xui8> to tensor<4x3xf32>
  %4 = mpc.mul %3, %half : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %5 = mpc.matmul %4, %0 transpose_rhs : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x4xf32>
  %c = mpc.constant dense<120> : tensor<4x3xui8>
  %6 = mpc.decode_float %c format(f8E8M0FNU) : tensor<4x3xui8> to tensor<4x3xf32>
  %7 = mpc.mul %6, %half : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %8 = mpc.matmul %7, %0 transpose_rhs : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x4xf32>
  return %2, %5, %8 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
