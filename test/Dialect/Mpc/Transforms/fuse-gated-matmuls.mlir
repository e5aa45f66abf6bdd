// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-fuse-gated-matmuls{block=2}))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-fuse-gated-matmuls{block=2},mpc-fuse-gated-matmuls{block=2}))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-fuse-gated-matmuls{block=2}))' --mlir-print-debuginfo | FileCheck %s --check-prefix=LOC

!result = tensor<3x2xf32>
!left = tensor<3x1xf32>
!right = tensor<1x2xf32>
!joined = tensor<3x4xf32>

// Two columns of the gate, two of the other half, and so on; layer and location
// are merged from both.
// CHECK-LABEL: func.func @swiglu
// CHECK-DAG: %[[W:.+]] = mpc.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00, 1.100000e+01, 1.200000e+01, 3.000000e+00, 4.000000e+00, 1.300000e+01, 1.400000e+01]]> : tensor<1x8xf32>
// CHECK: %[[P:.+]] = mpc.matmul %{{.+}}, %[[W]] {mpc.layer = "mlp"} : (tensor<3x1xf32>, tensor<1x8xf32>) -> tensor<3x8xf32>
// CHECK: %[[B:.+]] = mpc.reshape %[[P]] {{.*}}: tensor<3x8xf32> to tensor<3x2x2x2xf32>
// CHECK: %[[S0:.+]] = mpc.slice %[[B]] [0, 0, 0, 0] [3, 2, 1, 2]
// CHECK: %[[G:.+]] = mpc.reshape %[[S0]] {{.*}}to tensor<3x4xf32>
// CHECK: %[[S1:.+]] = mpc.slice %[[B]] [0, 0, 1, 0] [3, 2, 1, 2]
// CHECK: %[[U:.+]] = mpc.reshape %[[S1]] {{.*}}to tensor<3x4xf32>
// CHECK: %[[SIGMOID:.+]] = mpc.sigmoid %[[G]]
// CHECK: %[[SILU:.+]] = mpc.mul %[[G]], %[[SIGMOID]]
// CHECK: mpc.mul %[[SILU]], %[[U]]
// LOC: mpc.matmul {{.*}} loc(#[[JOINT:.+]])
// LOC-DAG: #[[FIRST:.+]] = loc("gate/MatMul")
// LOC-DAG: #[[SECOND:.+]] = loc("up/MatMul")
// LOC: #[[JOINT]] = loc(fused[#[[FIRST]], #[[SECOND]]])
func.func @swiglu(%x: !left) -> !joined {
  %gate = mpc.constant dense<[[1.0, 2.0, 3.0, 4.0]]> : tensor<1x4xf32>
  %up = mpc.constant dense<[[11.0, 12.0, 13.0, 14.0]]> : tensor<1x4xf32>
  %0 = mpc.matmul %x, %gate {mpc.layer = "mlp/gate"} : (!left, tensor<1x4xf32>) -> !joined loc("gate/MatMul")
  %1 = mpc.matmul %x, %up {mpc.layer = "mlp/up"} : (!left, tensor<1x4xf32>) -> !joined loc("up/MatMul")
  %2 = mpc.sigmoid %0 : !joined
  %3 = mpc.mul %0, %2 : (!joined, !joined) -> !joined
  %4 = mpc.mul %3, %1 : (!joined, !joined) -> !joined
  return %4 : !joined
}

// Transposed weights are interleaved by rows; biases and casts stay with their half.
// CHECK-LABEL: func.func @transposed_with_biases
// CHECK-DAG: %[[W:.+]] = mpc.constant dense<{{\[\[}}1.000000e+00], [2.000000e+00], [3.000000e+00], [4.000000e+00]]> : tensor<4x1xf32>
// CHECK: mpc.matmul %{{.+}}, %[[W]] transpose_rhs
// CHECK: mpc.add %{{.+}} : (tensor<3x2xf32>, tensor<2xf32>)
// CHECK: mpc.cast
// CHECK-NOT: mpc.matmul
func.func @transposed_with_biases(%x: !left) -> !result {
  %gate = mpc.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %up = mpc.constant dense<[[3.0], [4.0]]> : tensor<2x1xf32>
  %bias = mpc.constant dense<[5.0, 6.0]> : tensor<2xf32>
  %0 = mpc.matmul %x, %gate transpose_rhs : (!left, tensor<2x1xf32>) -> !result
  %1 = mpc.matmul %x, %up transpose_rhs : (!left, tensor<2x1xf32>) -> !result
  %2 = mpc.add %0, %bias : (!result, tensor<2xf32>) -> !result
  %3 = mpc.gelu %2 : !result
  %4 = mpc.cast %3 : !result to tensor<3x2xbf16>
  %5 = mpc.cast %4 : tensor<3x2xbf16> to !result
  %6 = mpc.mul %5, %1 : (!result, !result) -> !result
  return %6 : !result
}

// Each expert of a batch has its own column pairs.
// CHECK-LABEL: func.func @experts
// CHECK-DAG: %[[W:.+]] = mpc.constant dense<{{\[\[\[}}1.000000e+00, 2.000000e+00, 5.000000e+00, 6.000000e+00]], {{\[\[}}3.000000e+00, 4.000000e+00, 7.000000e+00, 8.000000e+00]]]> : tensor<2x1x4xf32>
// CHECK: %[[P:.+]] = mpc.matmul %{{.+}}, %[[W]]
// CHECK: mpc.reshape %[[P]] {{.*}}: tensor<2x3x4xf32> to tensor<2x3x1x2x2xf32>
// CHECK-NOT: mpc.matmul
func.func @experts(%x: tensor<2x3x1xf32>) -> tensor<2x3x2xf32> {
  %gate = mpc.constant dense<[[[1.0, 2.0]], [[3.0, 4.0]]]> : tensor<2x1x2xf32>
  %up = mpc.constant dense<[[[5.0, 6.0]], [[7.0, 8.0]]]> : tensor<2x1x2xf32>
  %0 = mpc.matmul %x, %gate : (tensor<2x3x1xf32>, tensor<2x1x2xf32>) -> tensor<2x3x2xf32>
  %1 = mpc.matmul %x, %up : (tensor<2x3x1xf32>, tensor<2x1x2xf32>) -> tensor<2x3x2xf32>
  %2 = mpc.relu %0 : tensor<2x3x2xf32>
  %3 = mpc.mul %1, %2 : (tensor<2x3x2xf32>, tensor<2x3x2xf32>) -> tensor<2x3x2xf32>
  return %3 : tensor<2x3x2xf32>
}

// One matmul for both halves, as many exporters write it: ops between the matmul and
// the slices are applied to each half.
// CHECK-LABEL: func.func @sliced
// CHECK-DAG: %[[W:.+]] = mpc.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00, 5.000000e+00, 6.000000e+00, 3.000000e+00, 4.000000e+00, 7.000000e+00, 8.000000e+00]]> : tensor<1x8xf32>
// CHECK: mpc.matmul %{{.+}}, %[[W]]
// CHECK: %[[B0:.+]] = mpc.constant dense<[1.100000e+01, 1.200000e+01, 1.300000e+01, 1.400000e+01]> : tensor<4xf32>
// CHECK: %[[LEFT:.+]] = mpc.add %{{.+}}, %[[B0]] : (tensor<3x4xf32>, tensor<4xf32>)
// CHECK: %[[B1:.+]] = mpc.constant dense<[1.500000e+01, 1.600000e+01, 1.700000e+01, 1.800000e+01]> : tensor<4xf32>
// CHECK: %[[RIGHT:.+]] = mpc.add %{{.+}}, %[[B1]] : (tensor<3x4xf32>, tensor<4xf32>)
// CHECK: %[[GELU:.+]] = mpc.gelu %[[LEFT]]
// CHECK: mpc.mul %[[GELU]], %[[RIGHT]]
// CHECK-NOT: mpc.matmul
func.func @sliced(%x: !left) -> !joined {
  %w = mpc.constant dense<[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]]> : tensor<1x8xf32>
  %b = mpc.constant dense<[11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0]> : tensor<8xf32>
  %0 = mpc.matmul %x, %w : (!left, tensor<1x8xf32>) -> tensor<3x8xf32>
  %1 = mpc.add %0, %b : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  %2 = mpc.slice %1 [0, 0] [3, 4] : tensor<3x8xf32> to !joined
  %3 = mpc.slice %1 [0, 4] [3, 4] : tensor<3x8xf32> to !joined
  %4 = mpc.gelu %2 : !joined
  %5 = mpc.mul %4, %3 : (!joined, !joined) -> !joined
  return %5 : !joined
}

// The second half is the gate.
// CHECK-LABEL: func.func @second_half_first
// CHECK: %[[B:.+]] = mpc.reshape %{{.+}} to tensor<3x1x2x2xf32>
// CHECK: %[[S0:.+]] = mpc.slice %[[B]] [0, 0, 0, 0]
// CHECK: %[[LEFT:.+]] = mpc.reshape %[[S0]]
// CHECK: %[[S1:.+]] = mpc.slice %[[B]] [0, 0, 1, 0]
// CHECK: %[[RIGHT:.+]] = mpc.reshape %[[S1]]
// CHECK: %[[GELU:.+]] = mpc.gelu %[[RIGHT]]
// CHECK: mpc.mul %[[GELU]], %[[LEFT]]
func.func @second_half_first(%x: !left) -> !result {
  %w = mpc.constant dense<[[1.0, 2.0, 3.0, 4.0]]> : tensor<1x4xf32>
  %0 = mpc.matmul %x, %w : (!left, tensor<1x4xf32>) -> !joined
  %1 = mpc.slice %0 [0, 2] [3, 2] : !joined to !result
  %2 = mpc.gelu %1 : !result
  %3 = mpc.slice %0 [0, 0] [3, 2] : !joined to !result
  %4 = mpc.mul %2, %3 : (!result, !result) -> !result
  return %4 : !result
}

// Of three matmuls of one left-hand side, the two whose results are multiplied.
// CHECK-LABEL: func.func @beside_another
// CHECK-DAG: mpc.matmul %{{.+}} -> tensor<3x2xf32>
// CHECK-DAG: mpc.matmul %{{.+}} -> tensor<3x4xf32>
// CHECK-NOT: mpc.matmul
// CHECK: return
func.func @beside_another(%x: !left) -> (!result, !result) {
  %a = mpc.constant dense<[[1.0, 2.0]]> : !right
  %b = mpc.constant dense<[[3.0, 4.0]]> : !right
  %c = mpc.constant dense<[[5.0, 6.0]]> : !right
  %0 = mpc.matmul %x, %a : (!left, !right) -> !result
  %1 = mpc.matmul %x, %b : (!left, !right) -> !result
  %2 = mpc.matmul %x, %c : (!left, !right) -> !result
  %3 = mpc.mul %0, %2 : (!result, !result) -> !result
  return %3, %1 : !result, !result
}

// The gate has another reader after the product: it would be written in any case.
// CHECK-LABEL: func.func @no_pair_of_what_is_read_again
// CHECK-COUNT-2: mpc.matmul %{{.+}} -> tensor<3x2xf32>
func.func @no_pair_of_what_is_read_again(%x: !left) -> (!result, !result) {
  %a = mpc.constant dense<[[1.0, 2.0]]> : !right
  %b = mpc.constant dense<[[3.0, 4.0]]> : !right
  %0 = mpc.matmul %x, %a : (!left, !right) -> !result
  %1 = mpc.matmul %x, %b : (!left, !right) -> !result
  %2 = mpc.sigmoid %0 : !result
  %3 = mpc.mul %2, %1 : (!result, !result) -> !result
  return %3, %2 : !result, !result
}

// A residual in between could be produced by another kernel.
// CHECK-LABEL: func.func @no_pair_with_a_residual_before
// CHECK-COUNT-2: mpc.matmul %{{.+}} -> tensor<3x2xf32>
func.func @no_pair_with_a_residual_before(%x: !left, %r: !result) -> !result {
  %a = mpc.constant dense<[[1.0, 2.0]]> : !right
  %b = mpc.constant dense<[[3.0, 4.0]]> : !right
  %0 = mpc.matmul %x, %a : (!left, !right) -> !result
  %1 = mpc.matmul %x, %b : (!left, !right) -> !result
  %2 = mpc.add %0, %r : (!result, !result) -> !result
  %3 = mpc.mul %2, %1 : (!result, !result) -> !result
  return %3 : !result
}

// Different types because of a policy, halves that are no multiple of the block, weights
// with two readers and weights that are no constants.
// CHECK-LABEL: func.func @no_pair_of_two_types
// CHECK-COUNT-2: mpc.matmul
func.func @no_pair_of_two_types(%x: !left) -> !result {
  %a = mpc.constant dense<[[1.0, 2.0]]> : !right
  %b = mpc.constant dense<[[3.0, 4.0]]> : tensor<1x2xbf16>
  %n = mpc.cast %x : !left to tensor<3x1xbf16>
  %0 = mpc.matmul %x, %a : (!left, !right) -> !result
  %1 = mpc.matmul %n, %b : (tensor<3x1xbf16>, tensor<1x2xbf16>) -> !result
  %2 = mpc.mul %0, %1 : (!result, !result) -> !result
  return %2 : !result
}

// CHECK-LABEL: func.func @no_pair_of_odd_columns
// CHECK-COUNT-2: mpc.matmul %{{.+}} -> tensor<3x3xf32>
func.func @no_pair_of_odd_columns(%x: !left) -> tensor<3x3xf32> {
  %a = mpc.constant dense<[[1.0, 2.0, 3.0]]> : tensor<1x3xf32>
  %b = mpc.constant dense<[[3.0, 4.0, 5.0]]> : tensor<1x3xf32>
  %0 = mpc.matmul %x, %a : (!left, tensor<1x3xf32>) -> tensor<3x3xf32>
  %1 = mpc.matmul %x, %b : (!left, tensor<1x3xf32>) -> tensor<3x3xf32>
  %2 = mpc.mul %0, %1 : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return %2 : tensor<3x3xf32>
}

// CHECK-LABEL: func.func @no_pair_of_shared_weights
// CHECK-COUNT-3: mpc.matmul %{{.+}} -> tensor<3x2xf32>
func.func @no_pair_of_shared_weights(%x: !left, %y: !left) -> (!result, !result) {
  %a = mpc.constant dense<[[1.0, 2.0]]> : !right
  %b = mpc.constant dense<[[3.0, 4.0]]> : !right
  %0 = mpc.matmul %x, %a : (!left, !right) -> !result
  %1 = mpc.matmul %x, %b : (!left, !right) -> !result
  %2 = mpc.mul %0, %1 : (!result, !result) -> !result
  %3 = mpc.matmul %y, %b : (!left, !right) -> !result
  return %2, %3 : !result, !result
}

// CHECK-LABEL: func.func @no_pair_of_parameters
// CHECK-COUNT-2: mpc.matmul %{{.+}} -> tensor<3x2xf32>
func.func @no_pair_of_parameters(%x: !left, %a: !right, %b: !right) -> !result {
  %0 = mpc.matmul %x, %a : (!left, !right) -> !result
  %1 = mpc.matmul %x, %b : (!left, !right) -> !result
  %2 = mpc.mul %0, %1 : (!result, !result) -> !result
  return %2 : !result
}

// A softmax before the product needs whole rows.
// CHECK-LABEL: func.func @no_pair_across_rows
// CHECK-COUNT-2: mpc.matmul %{{.+}} -> tensor<3x2xf32>
func.func @no_pair_across_rows(%x: !left) -> !result {
  %a = mpc.constant dense<[[1.0, 2.0]]> : !right
  %b = mpc.constant dense<[[3.0, 4.0]]> : !right
  %0 = mpc.matmul %x, %a : (!left, !right) -> !result
  %1 = mpc.matmul %x, %b : (!left, !right) -> !result
  %2 = mpc.softmax %0 axis(1) : !result
  %3 = mpc.mul %2, %1 : (!result, !result) -> !result
  return %3 : !result
}
