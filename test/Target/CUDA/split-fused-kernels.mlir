// RUN: mpc-opt --mpc-split-fused-kernels %s | FileCheck %s
// RUN: mpc-opt --mpc-split-fused-kernels --mpc-split-fused-kernels %s | FileCheck %s

// Parts are kernels with the indices of their arguments and results in the fused kernel.
// CHECK-NOT: @k(
// CHECK: func.func private @k_part0(%[[X:.*]]: tensor<4xf32>) -> tensor<4xf32>
// CHECK-SAME: mpc.fused_part = {inputs = array<i64: 1>, kernel = "k", outputs = array<i64: 0>}
// CHECK-SAME: mpc.kernel_kind = #mpc<fusion_kind elementwise>
// CHECK-NEXT: %[[R:.*]] = mpc.relu %[[X]]
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @k_part1(%[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>) -> tensor<4xf32>
// CHECK-SAME: mpc.fused_part = {inputs = array<i64: 1, 0>, kernel = "k", outputs = array<i64: 1>}
// CHECK-SAME: mpc.kernel_kind = #mpc<fusion_kind row>
// CHECK-NEXT: mpc.add %[[A]], %[[B]]
func.func private @k(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {mpc.kernel_kind = "elementwise"} {
  %0 = mpc.fusion kind(elementwise) name("a") (%a = %y : tensor<4xf32>) -> tensor<4xf32> {
    %r = mpc.relu %a : tensor<4xf32>
    mpc.yield %r : tensor<4xf32>
  }
  %1 = mpc.fusion kind(row) name("b") (%a = %y : tensor<4xf32>, %b = %x : tensor<4xf32>) -> tensor<4xf32> {
    %r = mpc.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %r : tensor<4xf32>
  }
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// CHECK: func.func private @other(%{{.*}}: tensor<4xf32>) -> tensor<4xf32> attributes {mpc.kernel_kind = "elementwise"}
func.func private @other(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mpc.kernel_kind = "elementwise"} {
  %0 = mpc.relu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A value between two parts only is an argument of neither.
// CHECK: func.func private @led_part0(%{{.*}}: tensor<4xf32>) -> tensor<4xf32>
// CHECK-SAME: mpc.fused_part = {inputs = array<i64: 0>, kernel = "led", outputs = array<i64: -1>}
// CHECK: func.func private @led_part1(%{{.*}}: tensor<4xf32>) -> tensor<4xf32>
// CHECK-SAME: mpc.fused_part = {inputs = array<i64: -1>, kernel = "led", outputs = array<i64: 0>}
func.func private @led(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mpc.kernel_kind = "elementwise"} {
  %0 = mpc.fusion kind(elementwise) name("a") (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %r = mpc.relu %a : tensor<4xf32>
    mpc.yield %r : tensor<4xf32>
  }
  %1 = mpc.fusion kind(elementwise) name("b") (%a = %0 : tensor<4xf32>) -> tensor<4xf32> {
    %r = mpc.exp %a : tensor<4xf32>
    mpc.yield %r : tensor<4xf32>
  }
  return %1 : tensor<4xf32>
}

// Reshapes between parts are no parts, and a part whose consumer waits keeps its attribute.
// CHECK: func.func private @shaped_part0(%{{.*}}: tensor<4xf32>) -> tensor<4xf32>
// CHECK-SAME: mpc.fused_part = {awaited, inputs = array<i64: 0>, kernel = "shaped", outputs = array<i64: -1>}
// CHECK: func.func private @shaped_part1(%{{.*}}: tensor<2x2xf32>) -> tensor<2x2xf32>
// CHECK-SAME: mpc.fused_part = {inputs = array<i64: -1>, kernel = "shaped", outputs = array<i64: 0>}
func.func private @shaped(%x: tensor<4xf32>) -> tensor<2x2xf32> attributes {mpc.kernel_kind = "elementwise"} {
  %0 = mpc.fusion kind(elementwise) name("a") (%a = %x : tensor<4xf32>) -> tensor<4xf32> attributes {mpc.awaited} {
    %r = mpc.relu %a : tensor<4xf32>
    mpc.yield %r : tensor<4xf32>
  }
  %1 = mpc.reshape %0 : tensor<4xf32> to tensor<2x2xf32>
  %2 = mpc.fusion kind(elementwise) name("b") (%a = %1 : tensor<2x2xf32>) -> tensor<2x2xf32> {
    %r = mpc.exp %a : tensor<2x2xf32>
    mpc.yield %r : tensor<2x2xf32>
  }
  return %2 : tensor<2x2xf32>
}
