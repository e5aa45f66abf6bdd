// RUN: mpc-translate --import-stablehlo %s | FileCheck %s

// Floats of 4 to 8 bits are codes, which are moved as bytes; conversions round
// without saturation, and a product is of the decoded numbers.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:arg0]]: tensor<3x8xf32>
// CHECK-SAME: %[[W:arg1]]: tensor<4x8xui8>
// CHECK-SAME: -> (tensor<3x4xbf16>
// CHECK-SAME: tensor<8x3xui8>
func.func @main(%x: tensor<3x8xf32>, %w: tensor<4x8xf8E5M2>) -> (tensor<3x4xbf16>, tensor<8x3xf8E4M3FN>) {
  // CHECK: %[[CODES:[0-9]+]] = mpc.encode_float %[[X]] format(f8E4M3FN) : tensor<3x8xf32> to tensor<3x8xui8>
  %0 = stablehlo.convert %x : (tensor<3x8xf32>) -> tensor<3x8xf8E4M3FN>
  // CHECK: %[[T:[0-9]+]] = mpc.transpose %[[CODES]] [1, 0] : tensor<3x8xui8> to tensor<8x3xui8>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<3x8xf8E4M3FN>) -> tensor<8x3xf8E4M3FN>
  // CHECK-DAG: %[[L:[0-9]+]] = mpc.decode_float %[[CODES]] format(f8E4M3FN) : tensor<3x8xui8> to tensor<3x8xf32>
  // CHECK-DAG: %[[R:[0-9]+]] = mpc.decode_float %[[W]] format(f8E5M2) : tensor<4x8xui8> to tensor<4x8xf32>
  // CHECK: %[[P:[0-9]+]] = mpc.matmul %[[L]], %[[R]]{{.*}} transpose_rhs
  // CHECK: mpc.cast %[[P]] : tensor<3x4xf32> to tensor<3x4xbf16>
  %2 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [1] : (tensor<3x8xf8E4M3FN>, tensor<4x8xf8E5M2>) -> tensor<3x4xbf16>
  return %2, %1 : tensor<3x4xbf16>, tensor<8x3xf8E4M3FN>
}
