// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-compress-panels))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-compress-panels,mpc-compress-panels))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-compress-panels{most-rows=8}))' | FileCheck %s --check-prefix=LARGE
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-compress-panels{int8-depth=4}))' | FileCheck %s --check-prefix=BYTES

// Small constants stay in caches.
// LARGE-NOT: mpc.dequantize

// Columns of signed 4-bit integers have one zero point.
// CHECK-LABEL: func.func @nibbles
// CHECK-DAG: %[[Q:.+]] = mpc.constant dense<{{\[\[\[}}137, 33], [248, 106]]]> : tensor<1x2x2xui8>
// CHECK-DAG: %[[S:.+]] = mpc.constant dense<{{\[\[\[}}5.000000e-01, 2.500000e-01]]]> : tensor<1x1x2xbf16>
// CHECK: %[[W:.+]] = mpc.dequantize %[[Q]] nibbles scale(%[[S]] : tensor<1x1x2xbf16>) common_zero(8) : tensor<1x2x2xui8> to tensor<1x4x2xf32>
// CHECK: mpc.matmul %{{.+}}, %[[W]] packed<columns = 2>
func.func @nibbles(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
  %w = mpc.constant dense<[[[0.5, -1.75], [0.0, -1.5], [0.0, 0.5], [3.5, -0.5]]]> : tensor<1x4x2xf32>
  %0 = mpc.matmul %x, %w packed<columns = 2> : (tensor<1x4xf32>, tensor<1x4x2xf32>) -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}

// An odd number of positions has no pairs; two readers share the compressed constant.
// CHECK-LABEL: func.func @bytes
// CHECK-DAG: %[[Q:.+]] = mpc.constant dense<{{\[\[\[}}-100, 1], [7, 90], [3, 4]]]> : tensor<1x3x2xi8>
// CHECK-DAG: %[[S:.+]] = mpc.constant dense<{{.+}}> : tensor<1x1x2xf32>
// CHECK: %[[V:.+]] = mpc.dequantize %[[Q]] scale(%[[S]] : tensor<1x1x2xf32>)
// CHECK: mpc.matmul %{{.+}}, %[[V]]
// CHECK: %[[W:.+]] = mpc.dequantize %[[Q]] scale(%[[S]] : tensor<1x1x2xf32>)
// CHECK: mpc.matmul %{{.+}}, %[[W]]
func.func @bytes(%x: tensor<1x3xf32>, %y: tensor<1x3xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
  %w = mpc.constant dense<[[[-10.0, 0.1], [0.7, 9.0], [0.3, 0.4]]]> : tensor<1x3x2xf32>
  %0 = mpc.matmul %x, %w packed<columns = 2> : (tensor<1x3xf32>, tensor<1x3x2xf32>) -> tensor<1x2xf32>
  %1 = mpc.matmul %y, %w packed<columns = 2> : (tensor<1x3xf32>, tensor<1x3x2xf32>) -> tensor<1x2xf32>
  return %0, %1 : tensor<1x2xf32>, tensor<1x2xf32>
}

// CHECK-LABEL: func.func @sixteen_bits
// CHECK-DAG: %[[B:.+]] = mpc.constant dense<{{.+}}> : tensor<1x2x2xbf16>
// CHECK-DAG: %[[H:.+]] = mpc.constant dense<{{.+}}> : tensor<1x2x2xf16>
// CHECK: mpc.dequantize %[[B]] : tensor<1x2x2xbf16> to tensor<1x2x2xf32>
// CHECK: mpc.dequantize %[[H]] : tensor<1x2x2xf16> to tensor<1x2x2xf32>
func.func @sixteen_bits(%x: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
  %h = mpc.constant dense<[[[1.0009765625, 3.0], [1000.5, 0.25]]]> : tensor<1x2x2xf32>
  %b = mpc.constant dense<[[[1.0, 1.26765060022822940e+30], [1.6384e+04, 3.0]]]> : tensor<1x2x2xf32>
  %0 = mpc.matmul %x, %b packed<columns = 2> : (tensor<1x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2xf32>
  %1 = mpc.matmul %x, %h packed<columns = 2> : (tensor<1x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2xf32>
  return %0, %1 : tensor<1x2xf32>, tensor<1x2xf32>
}

// 16-bit integers have one scale per column.
// CHECK-LABEL: func.func @sixteen_bit_integers
// CHECK-DAG: %[[Q:.+]] = mpc.constant dense<{{\[\[\[}}-30001, 5], [7, 20001]]]> : tensor<1x2x2xi16>
// CHECK-DAG: %[[S:.+]] = mpc.constant dense<{{\[\[\[}}1.171880e-02, 5.000000e-01]]]> : tensor<1x1x2xbf16>
// CHECK: mpc.dequantize %[[Q]] scale(%[[S]] : tensor<1x1x2xbf16>) : tensor<1x2x2xi16> to tensor<1x2x2xf32>
func.func @sixteen_bit_integers(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = mpc.constant dense<[[[-351.57421875, 2.5], [0.08203125, 10000.5]]]> : tensor<1x2x2xf32>
  %0 = mpc.matmul %x, %w packed<columns = 2> : (tensor<1x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}

// Values that need all of f32, and split (bf16x3) matmuls, are unchanged.
// CHECK-LABEL: func.func @stays
// CHECK-NOT: mpc.dequantize
// CHECK: return
func.func @stays(%x: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
  %w = mpc.constant dense<[[[0.1, 3.14159274], [1.01234567, 0.2]]]> : tensor<1x2x2xf32>
  %v = mpc.constant dense<1.0> : tensor<1x2x2xf32>
  %0 = mpc.matmul %x, %w packed<columns = 2> : (tensor<1x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2xf32>
  %1 = mpc.matmul %x, %v compute(bf16x3) packed<columns = 2> : (tensor<1x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2xf32>
  return %0, %1 : tensor<1x2xf32>, tensor<1x2xf32>
}

// 16-bit constants are compressed to bytes: of pairs of positions, for a dot-product
// unit, where a byte dot-product unit exists, of pairs of columns everywhere.
// CHECK-LABEL: func.func @pairs
// CHECK-NOT: to tensor<1x16x2xbf16>
// CHECK: %[[W:.+]] = mpc.dequantize {{.*}} nibbles scale({{.*}} : tensor<1x1x4xbf16>) common_zero(8) : tensor<1x8x4xui8> to tensor<1x16x4xf16>
// CHECK-NOT: mpc.dequantize
// CHECK: mpc.matmul %{{.+}}, %[[W]] packed<columns = 4> : (tensor<1x16xf16>
// BYTES-LABEL: func.func @pairs
// BYTES-DAG: %[[P:.+]] = mpc.constant dense<{{\[\[\[}}64, 81, 98, 115, 191, 174, 157, 140], [200, 217, 234, 251, 55, 38, 21, 4]]]> : tensor<1x2x8xui8>
// BYTES-DAG: %[[Q:.+]] = mpc.constant dense<{{\[\[\[}}64, 81, 98, 115, 191, 174, 157, 140, 136, {{.*}}], [200, 217, 234, 251, 55, 38, 21, 4, 136, {{.*}}]]]> : tensor<1x2x16xui8>
// BYTES: %[[V:.+]] = mpc.dequantize %[[P]] nibbles scale({{.*}} : tensor<1x1x2xbf16>) common_zero(8) depth(4) : tensor<1x2x8xui8> to tensor<1x16x2xbf16>
// BYTES: mpc.matmul %{{.+}}, %[[V]] packed<columns = 2> : (tensor<1x16xbf16>
// BYTES: %[[W:.+]] = mpc.dequantize %[[Q]] nibbles scale({{.*}} : tensor<1x1x4xbf16>) common_zero(8) depth(4) : tensor<1x2x16xui8> to tensor<1x16x4xf16>
// BYTES: mpc.matmul %{{.+}}, %[[W]] packed<columns = 4> : (tensor<1x16xf16>
// BYTES: mpc.matmul %{{.+}} packed<columns = 2, depth = 2> : (tensor<5x16xbf16>
// Many rows of a bf16 unit share the storage.
// BYTES: %[[U:.+]] = mpc.dequantize %[[P]] nibbles scale({{.*}} : tensor<1x1x2xbf16>) common_zero(8) depth(4) : tensor<1x2x8xui8> to tensor<1x16x2xbf16>
// BYTES: mpc.matmul %{{.+}}, %[[U]] packed<columns = 2> : (tensor<64x16xbf16>
func.func @pairs(%x: tensor<1x16xbf16>, %y: tensor<1x16xf16>, %z: tensor<5x16xbf16>, %many: tensor<64x16xbf16>) -> (tensor<1x2xf32>, tensor<1x4xf32>, tensor<5x2xf32>, tensor<64x2xf32>) {
  %v = mpc.constant dense<[[[-8.0, -7.0, 3.5, 3.0], [-6.0, -5.0, 2.5, 2.0], [-4.0, -3.0, 1.5, 1.0], [-2.0, -1.0, 0.5, 0.0], [0.0, 1.0, -0.5, -1.0], [2.0, 3.0, -1.5, -2.0], [4.0, 5.0, -2.5, -3.0], [6.0, 7.0, -3.5, -4.0]]]> : tensor<1x8x4xbf16>
  %w = mpc.constant dense<[[[-8.0, 0.0, 3.5, 0.0], [-7.0, 0.0, 3.0, 0.0], [-6.0, 0.0, 2.5, 0.0], [-5.0, 0.0, 2.0, 0.0], [-4.0, 0.0, 1.5, 0.0], [-3.0, 0.0, 1.0, 0.0], [-2.0, 0.0, 0.5, 0.0], [-1.0, 0.0, 0.0, 0.0], [0.0, 0.0, -0.5, 0.0], [1.0, 0.0, -1.0, 0.0], [2.0, 0.0, -1.5, 0.0], [3.0, 0.0, -2.0, 0.0], [4.0, 0.0, -2.5, 0.0], [5.0, 0.0, -3.0, 0.0], [6.0, 0.0, -3.5, 0.0], [7.0, 0.0, -4.0, 0.0]]]> : tensor<1x16x4xf16>
  %0 = mpc.matmul %x, %v packed<columns = 2, depth = 2> : (tensor<1x16xbf16>, tensor<1x8x4xbf16>) -> tensor<1x2xf32>
  %1 = mpc.matmul %y, %w packed<columns = 4, interleave = 2> : (tensor<1x16xf16>, tensor<1x16x4xf16>) -> tensor<1x4xf32>
  %2 = mpc.matmul %z, %v packed<columns = 2, depth = 2> : (tensor<5x16xbf16>, tensor<1x8x4xbf16>) -> tensor<5x2xf32>
  %3 = mpc.matmul %many, %v packed<columns = 2, depth = 2> : (tensor<64x16xbf16>, tensor<1x8x4xbf16>) -> tensor<64x2xf32>
  return %0, %1, %2, %3 : tensor<1x2xf32>, tensor<1x4xf32>, tensor<5x2xf32>, tensor<64x2xf32>
}

// Filters of 16 bits, for any number of rows.
// CHECK-LABEL: func.func @filters
// CHECK-DAG: %[[Q:.+]] = mpc.constant dense<{{\[\[\[}}-100, 7, 1, 90], [1, 2, 3, 1]]]> : tensor<1x2x4xi8>
// CHECK: %[[W:.+]] = mpc.dequantize %[[Q]] scale({{.*}}) : tensor<1x2x4xi8> to tensor<1x2x4xf16>
// CHECK: mpc.conv %{{.+}}, %[[W]] {{.*}} packed<columns = 4> : (tensor<1x9x2xf16>, tensor<1x2x4xf16>)
func.func @filters(%x: tensor<1x9x2xf16>) -> tensor<1x9x4xf32> {
  %w = mpc.constant dense<[[[-50.0, 0.5, 3.5, 45.0], [0.5, 1.5, 1.0, 0.5]]]> : tensor<1x2x4xf16>
  %0 = mpc.conv %x, %w strides([1]) pad([0], [0]) dilations([1]) layout(channels_last) window([1]) packed<columns = 4, interleave = 2> : (tensor<1x9x2xf16>, tensor<1x2x4xf16>) -> tensor<1x9x4xf32>
  return %0 : tensor<1x9x4xf32>
}
