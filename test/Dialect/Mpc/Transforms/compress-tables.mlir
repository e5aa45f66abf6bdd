// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-fold-constants,mpc-compress-tables))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-fold-constants,mpc-compress-tables,mpc-compress-tables))' | FileCheck %s

// Two readers share a table of integers with a scale per row.
// CHECK-LABEL: func.func @rows
// CHECK-DAG: %[[Q:.+]] = mpc.constant {{.*}} : tensor<512x64xi8>
// CHECK-NOT: mpc.constant {{.*}}xf32>
// CHECK: %[[V:.+]] = mpc.dequantize %[[Q]] scale(%{{.+}} : tensor<512x1xbf16>) : tensor<512x64xi8> to tensor<512x64xf32>
// CHECK: mpc.gather %[[V]], %{{.+}} axis(0)
// CHECK: %[[W:.+]] = mpc.dequantize %[[Q]] scale
// CHECK: mpc.gather %[[W]], %{{.+}} axis(0)
func.func @rows(%a: tensor<3xi64>, %b: tensor<1x2xi64>) -> (tensor<3x64xf32>, tensor<1x2x64xf32>) {
  %i = mpc.iota axis(0) : tensor<512x64xi64>
  %j = mpc.iota axis(1) : tensor<512x64xi64>
  %s = mpc.add %i, %j : (tensor<512x64xi64>, tensor<512x64xi64>) -> tensor<512x64xi64>
  %n = mpc.constant dense<101> : tensor<i64>
  %r = mpc.rem %s, %n : (tensor<512x64xi64>, tensor<i64>) -> tensor<512x64xi64>
  %w = mpc.cast %r : tensor<512x64xi64> to tensor<512x64xf32>
  %0 = mpc.gather %w, %a axis(0) : (tensor<512x64xf32>, tensor<3xi64>) -> tensor<3x64xf32>
  %1 = mpc.gather %w, %b axis(0) : (tensor<512x64xf32>, tensor<1x2xi64>) -> tensor<1x2x64xf32>
  return %0, %1 : tensor<3x64xf32>, tensor<1x2x64xf32>
}

// Columns are not rows, small tables stay in caches, and another reader needs the floats.
// CHECK-LABEL: func.func @unchanged
// CHECK-NOT: mpc.dequantize
func.func @unchanged(%a: tensor<3xi64>) -> (tensor<64x3xf32>, tensor<3x64xf32>, tensor<3x64xf32>, tensor<512x64xf32>) {
  %w = mpc.iota axis(0) : tensor<64x512xf32>
  %v = mpc.iota axis(0) : tensor<16x64xf32>
  %u = mpc.iota axis(1) : tensor<512x64xf32>
  %0 = mpc.gather %w, %a axis(1) : (tensor<64x512xf32>, tensor<3xi64>) -> tensor<64x3xf32>
  %1 = mpc.gather %v, %a axis(0) : (tensor<16x64xf32>, tensor<3xi64>) -> tensor<3x64xf32>
  %2 = mpc.gather %u, %a axis(0) : (tensor<512x64xf32>, tensor<3xi64>) -> tensor<3x64xf32>
  return %0, %1, %2, %u : tensor<64x3xf32>, tensor<3x64xf32>, tensor<3x64xf32>, tensor<512x64xf32>
}
