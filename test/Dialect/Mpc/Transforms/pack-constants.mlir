// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-pack-constants{columns=4}))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-pack-constants{columns=4},mpc-pack-constants{columns=4}))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-pack-constants{columns=4 bf16-depth=2}))' | FileCheck %s --check-prefix=DEPTH
// RUN: not mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-pack-constants{columns=4 bf16-depth=3}))' 2>&1 | FileCheck %s --check-prefix=ODD

// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-pack-constants{columns=4 int8-depth=4}))' | FileCheck %s --check-prefix=FOUR
// RUN: not mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-pack-constants{columns=4 int8-depth=1}))' 2>&1 | FileCheck %s --check-prefix=SINGLE

// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-pack-constants{columns=4 f16-depth=2 other-int8-depth=4}))' | FileCheck %s --check-prefix=OTHER
// RUN: not mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-pack-constants{columns=4 f16-depth=4}))' 2>&1 | FileCheck %s --check-prefix=HALF
// RUN: not mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-pack-constants{columns=4 other-int8-depth=3}))' 2>&1 | FileCheck %s --check-prefix=THREE

// HALF: mpc-pack-constants: f16-depth must be 1 or 2, found 4
// THREE: mpc-pack-constants: other-int8-depth must be 2 or 4, found 3
// SINGLE: mpc-pack-constants: int8-depth must be 2 or 4, found 1
// ODD: mpc-pack-constants: bf16-depth must be 1, 2 or 4, found 3

// Columns are packed into panels of four; the last panel is padded with zeros.
// CHECK-LABEL: func.func @matmul
// CHECK: %[[W:.+]] = mpc.constant dense<{{\[\[\[}}1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00], [6.000000e+00, 7.000000e+00, 8.000000e+00, 9.000000e+00]], {{\[\[}}5.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [1.000000e+01, 0.000000e+00, 0.000000e+00, 0.000000e+00]]]> : tensor<2x2x4xf32>
// CHECK: mpc.matmul %{{.+}}, %[[W]] packed{{ *}}<columns = 4> : (tensor<3x2xf32>, tensor<2x2x4xf32>) -> tensor<3x5xf32>
func.func @matmul(%x: tensor<3x2xf32>) -> tensor<3x5xf32> {
  %w = mpc.constant dense<[[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]]> : tensor<2x5xf32>
  %0 = mpc.matmul %x, %w : (tensor<3x2xf32>, tensor<2x5xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}

// The transpose flag disappears: panels hold the columns either way.
// CHECK-LABEL: func.func @transposed
// CHECK: %[[W:.+]] = mpc.constant dense<{{\[\[\[}}1.000000e+00, 3.000000e+00, 5.000000e+00, 7.000000e+00], [2.000000e+00, 4.000000e+00, 6.000000e+00, 8.000000e+00]]]> : tensor<1x2x4xf32>
// CHECK: mpc.matmul %{{.+}}, %[[W]] packed
// CHECK-NOT: transpose_rhs
func.func @transposed(%x: tensor<3x2xf32>) -> tensor<3x4xf32> {
  %w = mpc.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf32>
  %0 = mpc.matmul %x, %w transpose_rhs : (tensor<3x2xf32>, tensor<4x2xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// Two 16-bit columns half a panel apart share 32 bits.
// CHECK-LABEL: func.func @interleaved
// CHECK: mpc.constant dense<{{\[\[\[}}1.000000e+00, 3.000000e+00, 2.000000e+00, 4.000000e+00]]]> : tensor<1x1x4xbf16>
// CHECK: packed{{ *}}<columns = 4, interleave = 2>
func.func @interleaved(%x: tensor<3x1xbf16>) -> tensor<3x4xf32> {
  %w = mpc.constant dense<[[1.0, 2.0, 3.0, 4.0]]> : tensor<1x4xbf16>
  %0 = mpc.matmul %x, %w : (tensor<3x1xbf16>, tensor<1x4xbf16>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// The units of f16 and of bf16 need not be alike.
// CHECK-LABEL: func.func @halves
// CHECK: mpc.constant dense<{{\[\[\[}}1.000000e+00, 3.000000e+00, 2.000000e+00, 4.000000e+00], [5.000000e+00, 7.000000e+00, 6.000000e+00, 8.000000e+00], [9.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00]]]> : tensor<1x3x4xf16>
// CHECK: packed{{ *}}<columns = 4, interleave = 2>
// OTHER-LABEL: func.func @interleaved
// OTHER: packed<columns = 4, interleave = 2>
// OTHER-LABEL: func.func @halves
// OTHER: mpc.constant dense<{{\[\[\[}}1.000000e+00, 5.000000e+00, 2.000000e+00, 6.000000e+00, 3.000000e+00, 7.000000e+00, 4.000000e+00, 8.000000e+00], [9.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00]]]> : tensor<1x2x8xf16>
// OTHER: packed<columns = 4, depth = 2> : (tensor<3x3xf16>, tensor<1x2x8xf16>)
func.func @halves(%x: tensor<3x3xf16>) -> tensor<3x4xf32> {
  %w = mpc.constant dense<[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 0.0, 0.0, 0.0]]> : tensor<3x4xf16>
  %0 = mpc.matmul %x, %w : (tensor<3x3xf16>, tensor<3x4xf16>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// A dot-product unit for pairs of k reads interleaved pairs; k is padded with a
// zero. Other types keep their layout.
// DEPTH-LABEL: func.func @matmul
// DEPTH: packed<columns = 4> : (tensor<3x2xf32>, tensor<2x2x4xf32>)
// DEPTH-LABEL: func.func @interleaved
// DEPTH: mpc.constant dense<{{\[\[\[}}1.000000e+00, 0.000000e+00, 2.000000e+00, 0.000000e+00, 3.000000e+00, 0.000000e+00, 4.000000e+00, 0.000000e+00]]]> : tensor<1x1x8xbf16>
// DEPTH: packed<columns = 4, depth = 2>
// DEPTH-LABEL: func.func @runs
// DEPTH-DAG: %[[D:.+]] = mpc.constant dense<{{\[\[\[}}1.000000e+00, 0.000000e+00, 4.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [2.000000e+00, {{.*}}> : tensor<1x3x8xbf16>
// DEPTH-DAG: %[[N:.+]] = mpc.constant dense<{{\[\[\[}}1.000000e+00, 2.000000e+00, 4.000000e+00, 5.000000e+00, {{.*}}], [3.000000e+00, 0.000000e+00, {{.*}}> : tensor<1x2x8xbf16>
// DEPTH: mpc.conv %{{.*}}, %[[N]] strides
// DEPTH: mpc.conv %{{.*}}, %[[D]] strides
func.func @runs(%x: tensor<1x9x1xbf16>) -> (tensor<1x7x2xf32>, tensor<1x5x2xf32>) {
  %w = mpc.constant dense<[[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]]> : tensor<2x1x3xbf16>
  %0 = mpc.conv %x, %w strides([1]) pad([0], [0]) dilations([1]) layout(channels_last) : (tensor<1x9x1xbf16>, tensor<2x1x3xbf16>) -> tensor<1x7x2xf32>
  %1 = mpc.conv %x, %w strides([1]) pad([0], [0]) dilations([2]) layout(channels_last) : (tensor<1x9x1xbf16>, tensor<2x1x3xbf16>) -> tensor<1x5x2xf32>
  return %0, %1 : tensor<1x7x2xf32>, tensor<1x5x2xf32>
}

// A filter's rows are its window, then its channels.
// CHECK-LABEL: func.func @filter
// CHECK: mpc.constant dense<{{\[\[\[}}1.000000e+00, 5.000000e+00, 0.000000e+00, 0.000000e+00], [3.000000e+00, 7.000000e+00, 0.000000e+00, 0.000000e+00], [2.000000e+00, 6.000000e+00, 0.000000e+00, 0.000000e+00], [4.000000e+00, 8.000000e+00, 0.000000e+00, 0.000000e+00]]]> : tensor<1x4x4xf32>
// CHECK: mpc.conv {{.*}} window([2]) packed
func.func @filter(%x: tensor<1x5x2xf32>) -> tensor<1x4x2xf32> {
  %w = mpc.constant dense<[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]> : tensor<2x2x2xf32>
  %0 = mpc.conv %x, %w strides([1]) pad([0], [0]) dilations([1]) layout(channels_last) : (tensor<1x5x2xf32>, tensor<2x2x2xf32>) -> tensor<1x4x2xf32>
  return %0 : tensor<1x4x2xf32>
}

// A constant that two ops read in one layout is packed once.
// CHECK-LABEL: func.func @shared
// CHECK: %[[W:.+]] = mpc.constant {{.*}} : tensor<1x2x4xf32>
// CHECK: mpc.matmul %{{.+}}, %[[W]] packed
// CHECK: mpc.matmul %{{.+}}, %[[W]] packed
func.func @shared(%x: tensor<3x2xf32>, %y: tensor<5x2xf32>) -> (tensor<3x3xf32>, tensor<5x3xf32>) {
  %w = mpc.constant dense<[[1.0, 2.0, 3.0], [6.0, 7.0, 8.0]]> : tensor<2x3xf32>
  %0 = mpc.matmul %x, %w : (tensor<3x2xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>
  %1 = mpc.matmul %y, %w : (tensor<5x2xf32>, tensor<2x3xf32>) -> tensor<5x3xf32>
  return %0, %1 : tensor<3x3xf32>, tensor<5x3xf32>
}

// Depthwise filters would be mostly padding; batches, arguments and channels_first
// images keep their layout.
// CHECK-LABEL: func.func @left_alone
// CHECK-NOT: packed
// CHECK: return
func.func @left_alone(%x: tensor<1x5x2xf32>, %y: tensor<2x3x2xf32>, %z: tensor<2x2xf32>) -> (tensor<1x4x2xf32>, tensor<2x3x2xf32>, tensor<2x3x2xf32>, tensor<2x1x2xf32>) {
  %w = mpc.constant dense<[[[1.0, 2.0]], [[5.0, 6.0]]]> : tensor<2x1x2xf32>
  %0 = mpc.conv %x, %w strides([1]) pad([0], [0]) dilations([1]) groups(2) layout(channels_last) : (tensor<1x5x2xf32>, tensor<2x1x2xf32>) -> tensor<1x4x2xf32>
  %b = mpc.constant dense<[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]> : tensor<2x2x2xf32>
  %1 = mpc.matmul %y, %b : (tensor<2x3x2xf32>, tensor<2x2x2xf32>) -> tensor<2x3x2xf32>
  %2 = mpc.matmul %y, %z : (tensor<2x3x2xf32>, tensor<2x2xf32>) -> tensor<2x3x2xf32>
  %f = mpc.constant dense<[[[1.0], [2.0], [3.0]]]> : tensor<1x3x1xf32>
  %3 = mpc.conv %y, %f strides([1]) pad([0], [0]) dilations([1]) : (tensor<2x3x2xf32>, tensor<1x3x1xf32>) -> tensor<2x1x2xf32>
  return %0, %1, %2, %3 : tensor<1x4x2xf32>, tensor<2x3x2xf32>, tensor<2x3x2xf32>, tensor<2x1x2xf32>
}

// 8-bit integers are interleaved along k by two, ui8 by i8 by the width of the
// dot-product unit, and other signs by the width of the unit for those.
// CHECK-LABEL: func.func @integers
// CHECK: %[[W:.+]] = mpc.constant dense<{{\[\[\[}}1, 3, 2, 4, 0, 0, 0, 0], [5, 0, 6, 0, 0, 0, 0, 0]]]> : tensor<1x2x8xi8>
// CHECK: mpc.matmul %{{.+}}, %[[W]] packed{{ *}}<columns = 4, depth = 2>
// CHECK: mpc.matmul %{{.+}}, %[[W]] packed{{ *}}<columns = 4, depth = 2>
// FOUR-LABEL: func.func @integers
// FOUR: %[[W2:.+]] = mpc.constant {{.*}} : tensor<1x2x8xi8>
// FOUR: %[[W4:.+]] = mpc.constant dense<{{\[\[\[}}1, 3, 5, 0, 2, 4, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0]]]> : tensor<1x1x16xi8>
// FOUR: mpc.matmul %{{.+}}, %[[W4]] packed{{ *}}<columns = 4, depth = 4>
// FOUR: mpc.matmul %{{.+}}, %[[W2]] packed{{ *}}<columns = 4, depth = 2>
// OTHER-LABEL: func.func @integers
// OTHER-DAG: %[[W2:.+]] = mpc.constant {{.*}} : tensor<1x2x8xi8>
// OTHER-DAG: %[[W4:.+]] = mpc.constant dense<{{\[\[\[}}1, 3, 5, 0, 2, 4, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0]]]> : tensor<1x1x16xi8>
// OTHER: mpc.matmul %{{.+}}, %[[W2]] packed{{ *}}<columns = 4, depth = 2>
// OTHER: mpc.matmul %{{.+}}, %[[W4]] packed{{ *}}<columns = 4, depth = 4>
func.func @integers(%x: tensor<3x3xui8>, %y: tensor<3x3xi8>) -> (tensor<3x2xi32>, tensor<3x2xi32>) {
  %w = mpc.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi8>
  %0 = mpc.matmul %x, %w : (tensor<3x3xui8>, tensor<3x2xi8>) -> tensor<3x2xi32>
  %1 = mpc.matmul %y, %w : (tensor<3x3xi8>, tensor<3x2xi8>) -> tensor<3x2xi32>
  return %0, %1 : tensor<3x2xi32>, tensor<3x2xi32>
}

// Accumulations that wrap in 8 bits have no unit.
// CHECK-LABEL: func.func @narrow_sums
// CHECK-NOT: packed
func.func @narrow_sums(%x: tensor<3x3xi8>) -> tensor<3x2xi8> {
  %w = mpc.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi8>
  %0 = mpc.matmul %x, %w : (tensor<3x3xi8>, tensor<3x2xi8>) -> tensor<3x2xi8>
  return %0 : tensor<3x2xi8>
}
