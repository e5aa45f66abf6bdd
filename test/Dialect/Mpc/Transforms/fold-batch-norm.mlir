// RUN: mpc-opt %s --mpc-fold-batch-norm | FileCheck %s
// RUN: mpc-opt %s --mpc-fold-batch-norm | mpc-opt --mpc-fold-batch-norm | FileCheck %s
// RUN: mpc-opt %s --mpc-fold-batch-norm --mlir-print-debuginfo | FileCheck %s --check-prefix=LOC

// scale / sqrt(variance) is [2, 3]; the new bias is shift + (bias - mean) * factor
// = [10 + (1 - 2) * 2, 20 + (2 - 4) * 3].
// CHECK-LABEL: func @conv_with_bias
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<1x1x2x2xf32>
// CHECK-DAG: %[[W:.*]] = mpc.constant dense<{{\[\[\[\[}}2.000000e+00]]], {{\[\[\[}}6.000000e+00]]]]> : tensor<2x1x1x1xf32>
// CHECK-DAG: %[[B:.*]] = mpc.constant dense<{{\[\[\[\[}}8.000000e+00]], {{\[\[}}1.400000e+01]]]]> : tensor<1x2x1x1xf32>
// CHECK: %[[C:.*]] = mpc.conv %[[X]], %[[W]]
// CHECK: %[[R:.*]] = mpc.add %[[C]], %[[B]]
// CHECK-NEXT: return %[[R]]
// LOC-LABEL: func @conv_with_bias
// LOC: mpc.add {{.*}} loc(#[[FUSED:loc[0-9]+]])
func.func @conv_with_bias(%x: tensor<1x1x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %w = mpc.constant dense<[[[[1.0]]], [[[2.0]]]]> : tensor<2x1x1x1xf32>
  %b = mpc.constant dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf32>
  %scale = mpc.constant dense<[4.0, 3.0]> : tensor<2xf32>
  %shift = mpc.constant dense<[10.0, 20.0]> : tensor<2xf32>
  %mean = mpc.constant dense<[2.0, 4.0]> : tensor<2xf32>
  %variance = mpc.constant dense<[4.0, 1.0]> : tensor<2xf32>
  %0 = mpc.conv %x, %w strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<1x1x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
  %1 = mpc.add %0, %b : (tensor<1x2x2x2xf32>, tensor<2x1x1xf32>) -> tensor<1x2x2x2xf32> loc("conv")
  %2 = mpc.batch_norm %1, %scale, %shift, %mean, %variance epsilon(0.0) : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32> loc("norm")
  return %2 : tensor<1x2x2x2xf32>
}

// Transposed convolutions have their output channels on axis 1, by group.
// CHECK-LABEL: func @conv_transpose_in_groups
// CHECK: mpc.constant dense<{{\[\[\[}}2.000000e+00]], {{\[\[}}3.000000e+00]]]> : tensor<2x1x1xf32>
// CHECK: mpc.conv_transpose
// CHECK: mpc.add
// CHECK-NOT: mpc.batch_norm
// CHECK: return
func.func @conv_transpose_in_groups(%x: tensor<1x2x4xf32>) -> tensor<1x2x4xf32> {
  %w = mpc.constant dense<1.0> : tensor<2x1x1xf32>
  %scale = mpc.constant dense<[4.0, 3.0]> : tensor<2xf32>
  %zero = mpc.constant dense<0.0> : tensor<2xf32>
  %variance = mpc.constant dense<[4.0, 1.0]> : tensor<2xf32>
  %0 = mpc.conv_transpose %x, %w strides([1]) pad([0], [0]) dilations([1]) output_padding([0]) groups(2) : (tensor<1x2x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4xf32>
  %1 = mpc.batch_norm %0, %scale, %zero, %zero, %variance epsilon(0.0) : (tensor<1x2x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4xf32>
  return %1 : tensor<1x2x4xf32>
}

// Rows of a transposed right-hand side are output channels.
// CHECK-LABEL: func @matmul_transposed
// CHECK: mpc.constant dense<{{\[\[}}2.000000e+00, 2.000000e+00, 2.000000e+00], [3.000000e+00, 3.000000e+00, 3.000000e+00]]> : tensor<2x3xf32>
// CHECK: mpc.matmul
// CHECK: mpc.add
// CHECK-NOT: mpc.batch_norm
// CHECK: return
func.func @matmul_transposed(%x: tensor<4x3xf32>) -> tensor<4x2xf32> {
  %w = mpc.constant dense<1.0> : tensor<2x3xf32>
  %scale = mpc.constant dense<[4.0, 3.0]> : tensor<2xf32>
  %zero = mpc.constant dense<0.0> : tensor<2xf32>
  %variance = mpc.constant dense<[4.0, 1.0]> : tensor<2xf32>
  %0 = mpc.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<2x3xf32>) -> tensor<4x2xf32>
  %1 = mpc.batch_norm %0, %scale, %zero, %zero, %variance epsilon(0.0) : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  return %1 : tensor<4x2xf32>
}

// The convolution's result has another reader: its value must not change.
// CHECK-LABEL: func @keeps_shared_conv
// CHECK: mpc.conv
// CHECK-NEXT: mpc.batch_norm
func.func @keeps_shared_conv(%x: tensor<1x1x4xf32>) -> (tensor<1x2x4xf32>, tensor<1x2x4xf32>) {
  %w = mpc.constant dense<1.0> : tensor<2x1x1xf32>
  %one = mpc.constant dense<1.0> : tensor<2xf32>
  %0 = mpc.conv %x, %w strides([1]) pad([0], [0]) dilations([1]) : (tensor<1x1x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4xf32>
  %1 = mpc.batch_norm %0, %one, %one, %one, %one epsilon(0.0) : (tensor<1x2x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4xf32>
  return %0, %1 : tensor<1x2x4xf32>, tensor<1x2x4xf32>
}

// A nonlinear op in between, a filter that is no constant and a low-precision type
// block the folding.
// CHECK-LABEL: func @keeps_after_relu
// CHECK: mpc.relu
// CHECK-NEXT: mpc.batch_norm
func.func @keeps_after_relu(%x: tensor<1x1x4xf32>) -> tensor<1x2x4xf32> {
  %w = mpc.constant dense<1.0> : tensor<2x1x1xf32>
  %one = mpc.constant dense<1.0> : tensor<2xf32>
  %0 = mpc.conv %x, %w strides([1]) pad([0], [0]) dilations([1]) : (tensor<1x1x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4xf32>
  %1 = mpc.relu %0 : tensor<1x2x4xf32>
  %2 = mpc.batch_norm %1, %one, %one, %one, %one epsilon(0.0) : (tensor<1x2x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4xf32>
  return %2 : tensor<1x2x4xf32>
}

// CHECK-LABEL: func @keeps_variable_filter
// CHECK: mpc.conv
// CHECK-NEXT: mpc.batch_norm
func.func @keeps_variable_filter(%x: tensor<1x1x4xf32>, %w: tensor<2x1x1xf32>) -> tensor<1x2x4xf32> {
  %one = mpc.constant dense<1.0> : tensor<2xf32>
  %0 = mpc.conv %x, %w strides([1]) pad([0], [0]) dilations([1]) : (tensor<1x1x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4xf32>
  %1 = mpc.batch_norm %0, %one, %one, %one, %one epsilon(0.0) : (tensor<1x2x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4xf32>
  return %1 : tensor<1x2x4xf32>
}

// CHECK-LABEL: func @keeps_f16
// CHECK: mpc.conv
// CHECK-NEXT: mpc.batch_norm
func.func @keeps_f16(%x: tensor<1x1x4xf16>) -> tensor<1x2x4xf16> {
  %w = mpc.constant dense<1.0> : tensor<2x1x1xf16>
  %one = mpc.constant dense<1.0> : tensor<2xf16>
  %0 = mpc.conv %x, %w strides([1]) pad([0], [0]) dilations([1]) : (tensor<1x1x4xf16>, tensor<2x1x1xf16>) -> tensor<1x2x4xf16>
  %1 = mpc.batch_norm %0, %one, %one, %one, %one epsilon(0.0) : (tensor<1x2x4xf16>, tensor<2xf16>, tensor<2xf16>, tensor<2xf16>, tensor<2xf16>) -> tensor<1x2x4xf16>
  return %1 : tensor<1x2x4xf16>
}

// LOC-DAG: #[[FUSED]] = loc(fused[#{{.*}}, #{{.*}}])
