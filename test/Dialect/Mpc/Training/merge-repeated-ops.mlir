// RUN: mpc-opt %s --mpc-merge-repeated-ops > %t.once.mlir
// RUN: FileCheck %s < %t.once.mlir
// RUN: mpc-opt %t.once.mlir --mpc-merge-repeated-ops | diff %t.once.mlir -

// The second softmax is merged into the first, whose layer it takes; so are its
// readers. Another axis or operand is not merged.
// CHECK-LABEL: @main(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x4xf32>, %[[Y:[a-z0-9]+]]: tensor<4x4xf32>
// CHECK-NEXT: %[[P:.*]] = mpc.softmax %[[X]] axis(1) {mpc.layer = "head"}
// CHECK-NEXT: %[[N:.*]] = mpc.neg %[[P]]
// CHECK-NEXT: %[[Q:.*]] = mpc.softmax %[[X]] axis(0)
// CHECK-NEXT: %[[R:.*]] = mpc.softmax %[[Y]] axis(1)
// CHECK-NEXT: return %[[N]], %[[N]], %[[Q]], %[[R]]
func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = mpc.softmax %x axis(1) {mpc.layer = "head"} : tensor<4x4xf32>
  %1 = mpc.neg %0 {mpc.layer = "head"} : tensor<4x4xf32>
  %2 = mpc.softmax %x axis(1) : tensor<4x4xf32>
  %3 = mpc.neg %2 : tensor<4x4xf32>
  %4 = mpc.softmax %x axis(0) : tensor<4x4xf32>
  %5 = mpc.softmax %y axis(1) : tensor<4x4xf32>
  return %1, %3, %4, %5 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
