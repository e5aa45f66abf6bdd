// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-merge-contractions))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-merge-contractions,mpc-merge-contractions))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-merge-contractions))' --mlir-print-debuginfo | FileCheck %s --check-prefix=LOC

!result = tensor<4x2xf32>
!weight = tensor<2x2xf32>
!column = tensor<4x1xf32>

// Weights and biases are concatenated; the common cast follows the merged bias add, and
// the layer is the common prefix of both.
// CHECK-LABEL: func.func @projections
// CHECK-DAG: %[[W:.+]] = mpc.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00, 5.000000e+00], [3.000000e+00, 4.000000e+00, 6.000000e+00]]> : tensor<2x3xf32>
// CHECK-DAG: %[[B:.+]] = mpc.constant dense<[7.000000e+00, 8.000000e+00, 9.000000e+00]> : tensor<3xf32>
// CHECK-DAG: %[[PRODUCT:.+]] = mpc.matmul %{{.+}}, %[[W]] {mpc.layer = "block/attention"} : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
// CHECK: %[[SUM:.+]] = mpc.add %[[PRODUCT]], %[[B]]
// CHECK: %[[NARROW:.+]] = mpc.cast %[[SUM]]
// CHECK-DAG: %[[Q:.+]] = mpc.slice %[[NARROW]] [0, 0] [4, 2]
// CHECK-DAG: %[[K:.+]] = mpc.slice %[[NARROW]] [0, 2] [4, 1]
// CHECK: mpc.reshape %[[Q]]
// CHECK: mpc.transpose %[[K]]
// CHECK-NOT: mpc.matmul
// LOC: mpc.matmul {{.*}} loc(#[[JOINT:.+]])
// LOC-DAG: #[[FIRST:.+]] = loc("q/MatMul")
// LOC-DAG: #[[SECOND:.+]] = loc("k/MatMul")
// LOC: #[[JOINT]] = loc(fused[#[[FIRST]], #[[SECOND]]])
func.func @projections(%x: !result) -> (tensor<2x4xbf16>, tensor<1x4xbf16>) {
  %wq = mpc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : !weight
  %wk = mpc.constant dense<[[5.0], [6.0]]> : tensor<2x1xf32>
  %bq = mpc.constant dense<[7.0, 8.0]> : tensor<2xf32>
  %bk = mpc.constant dense<[9.0]> : tensor<1xf32>
  %0 = mpc.matmul %x, %wq {mpc.layer = "block/attention/q"} : (!result, !weight) -> !result loc("q/MatMul")
  %1 = mpc.matmul %x, %wk {mpc.layer = "block/attention/k"} : (!result, tensor<2x1xf32>) -> !column loc("k/MatMul")
  %2 = mpc.add %0, %bq : (!result, tensor<2xf32>) -> !result
  %3 = mpc.add %1, %bk : (!column, tensor<1xf32>) -> !column
  %4 = mpc.cast %2 : !result to tensor<4x2xbf16>
  %5 = mpc.cast %3 : !column to tensor<4x1xbf16>
  %6 = mpc.reshape %4 : tensor<4x2xbf16> to tensor<2x4xbf16>
  %7 = mpc.transpose %5 [1, 0] : tensor<4x1xbf16> to tensor<1x4xbf16>
  return %6, %7 : tensor<2x4xbf16>, tensor<1x4xbf16>
}

// Layers without a common first component give a merged matmul without a layer:
// siblings at the top of a model, and paths that only share a string prefix.
// CHECK-LABEL: func.func @layers_of_the_top_level
// CHECK: mpc.matmul %{{.+}}, %{{[^{]+}} : {{.*}} -> tensor<4x3xf32>
// CHECK-NOT: mpc.matmul
func.func @layers_of_the_top_level(%x: !result) -> (tensor<8xf32>, tensor<1x4xf32>) {
  %wq = mpc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : !weight
  %wk = mpc.constant dense<[[5.0], [6.0]]> : tensor<2x1xf32>
  %0 = mpc.matmul %x, %wq {mpc.layer = "q"} : (!result, !weight) -> !result
  %1 = mpc.matmul %x, %wk {mpc.layer = "k"} : (!result, tensor<2x1xf32>) -> !column
  %2 = mpc.reshape %0 : !result to tensor<8xf32>
  %3 = mpc.transpose %1 [1, 0] : !column to tensor<1x4xf32>
  return %2, %3 : tensor<8xf32>, tensor<1x4xf32>
}

// CHECK-LABEL: func.func @layers_that_only_begin_alike
// CHECK: mpc.matmul %{{.+}}, %{{[^{]+}} : {{.*}} -> tensor<4x3xf32>
// CHECK-NOT: mpc.matmul
func.func @layers_that_only_begin_alike(%x: !result) -> (tensor<8xf32>, tensor<1x4xf32>) {
  %wq = mpc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : !weight
  %wk = mpc.constant dense<[[5.0], [6.0]]> : tensor<2x1xf32>
  %0 = mpc.matmul %x, %wq {mpc.layer = "layer1//q"} : (!result, !weight) -> !result
  %1 = mpc.matmul %x, %wk {mpc.layer = "/layer10/"} : (!result, tensor<2x1xf32>) -> !column
  %2 = mpc.reshape %0 : !result to tensor<8xf32>
  %3 = mpc.transpose %1 [1, 0] : !column to tensor<1x4xf32>
  return %2, %3 : tensor<8xf32>, tensor<1x4xf32>
}

// Weights that are stored transposed are concatenated along their rows.
// CHECK-LABEL: func.func @transposed_weights
// CHECK: %[[W:.+]] = mpc.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
// CHECK: mpc.matmul %{{.+}}, %[[W]] transpose_rhs
// CHECK-NOT: mpc.matmul
func.func @transposed_weights(%x: !result) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = mpc.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %b = mpc.constant dense<[[3.0, 4.0]]> : tensor<1x2xf32>
  %0 = mpc.matmul %x, %a transpose_rhs : (!result, tensor<1x2xf32>) -> !column
  %1 = mpc.matmul %x, %b transpose_rhs : (!result, tensor<1x2xf32>) -> !column
  %2 = mpc.reshape %0 : !column to tensor<4xf32>
  %3 = mpc.reshape %1 : !column to tensor<4xf32>
  return %2, %3 : tensor<4xf32>, tensor<4xf32>
}

// A gate multiplies the other slice: fusing it into the second matmul's epilogue is better.
// CHECK-LABEL: func.func @gated
// CHECK-COUNT-2: mpc.matmul
// CHECK-NOT: mpc.slice
// CHECK: return
func.func @gated(%x: !result) -> !result {
  %a = mpc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : !weight
  %b = mpc.constant dense<[[5.0, 6.0], [7.0, 8.0]]> : !weight
  %0 = mpc.matmul %x, %a : (!result, !weight) -> !result
  %1 = mpc.matmul %x, %b : (!result, !weight) -> !result
  %2 = mpc.silu %0 : !result
  %3 = mpc.mul %2, %1 : (!result, !result) -> !result
  return %3 : !result
}

// Different inputs, and weights that are arguments, stay apart.
// CHECK-LABEL: func.func @nothing_in_common
// CHECK-COUNT-3: mpc.matmul
// CHECK-NOT: mpc.slice
// CHECK: return
func.func @nothing_in_common(%x: !result, %y: !result, %w: !weight) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %a = mpc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : !weight
  %0 = mpc.matmul %x, %a : (!result, !weight) -> !result
  %1 = mpc.matmul %y, %a : (!result, !weight) -> !result
  %2 = mpc.matmul %x, %w : (!result, !weight) -> !result
  %3 = mpc.reshape %0 : !result to tensor<8xf32>
  %4 = mpc.reshape %1 : !result to tensor<8xf32>
  %5 = mpc.reshape %2 : !result to tensor<8xf32>
  return %3, %4, %5 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// The joint product's record of padding covers all of its parts.
// CHECK-LABEL: @padding_is_added_up(
// CHECK: mpc.matmul {{.*}} {mpc.padding = #mpc.padding<from = [1, 8, 27, 8], to = [1, 8, 32, 8], extra_flops = 640>}
func.func @padding_is_added_up(%x: tensor<8x8xbf16>) -> (tensor<16x8xbf16>, tensor<16x8xbf16>) {
  %v = mpc.constant dense<1.0> : tensor<8x16xbf16>
  %w = mpc.constant dense<2.0> : tensor<8x16xbf16>
  %0 = mpc.matmul %x, %v {mpc.padding = #mpc.padding<from = [1, 8, 13, 8], to = [1, 8, 16, 8], extra_flops = 384>} : (tensor<8x8xbf16>, tensor<8x16xbf16>) -> tensor<8x16xbf16>
  %1 = mpc.matmul %x, %w {mpc.padding = #mpc.padding<from = [1, 8, 14, 8], to = [1, 8, 16, 8], extra_flops = 256>} : (tensor<8x8xbf16>, tensor<8x16xbf16>) -> tensor<8x16xbf16>
  %2 = mpc.transpose %0 [1, 0] : tensor<8x16xbf16> to tensor<16x8xbf16>
  %3 = mpc.transpose %1 [1, 0] : tensor<8x16xbf16> to tensor<16x8xbf16>
  return %2, %3 : tensor<16x8xbf16>, tensor<16x8xbf16>
}

// Keys have no bias, as in Whisper: theirs is zero.
// CHECK-LABEL: func.func @missing_bias
// CHECK-DAG: %[[B:.+]] = mpc.constant dense<[7.000000e+00, 8.000000e+00, 0.000000e+00]> : tensor<3xf32>
// CHECK-DAG: %[[PRODUCT:.+]] = mpc.matmul {{.+}} -> tensor<4x3xf32>
// CHECK: %[[SUM:.+]] = mpc.add %[[B]], %[[PRODUCT]]
// CHECK: mpc.slice %[[SUM]] [0, 0] [4, 2]
// CHECK: mpc.slice %[[SUM]] [0, 2] [4, 1]
func.func @missing_bias(%x: !result) -> (tensor<2x4xf32>, tensor<1x4xf32>) {
  %wq = mpc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : !weight
  %wk = mpc.constant dense<[[5.0], [6.0]]> : tensor<2x1xf32>
  %bq = mpc.constant dense<[7.0, 8.0]> : tensor<2xf32>
  %0 = mpc.matmul %x, %wq : (!result, !weight) -> !result
  %1 = mpc.matmul %x, %wk : (!result, tensor<2x1xf32>) -> !column
  %2 = mpc.add %bq, %0 : (tensor<2xf32>, !result) -> !result
  %3 = mpc.reshape %2 : !result to tensor<2x4xf32>
  %4 = mpc.transpose %1 [1, 0] : !column to tensor<1x4xf32>
  return %3, %4 : tensor<2x4xf32>, tensor<1x4xf32>
}

// Only the keys are cast before they move: their slice is.
// CHECK-LABEL: func.func @some_narrowed
// CHECK: %[[PRODUCT:.+]] = mpc.matmul %{{.+}} -> tensor<4x3xf32>
// CHECK-DAG: mpc.slice %[[PRODUCT]] [0, 0] [4, 2]
// CHECK-DAG: %[[K:.+]] = mpc.slice %[[PRODUCT]] [0, 2] [4, 1]
// CHECK: mpc.cast %[[K]] : tensor<4x1xf32> to tensor<4x1xbf16>
func.func @some_narrowed(%x: !result) -> (tensor<2x4xf32>, tensor<1x4xbf16>) {
  %wq = mpc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : !weight
  %wk = mpc.constant dense<[[5.0], [6.0]]> : tensor<2x1xf32>
  %0 = mpc.matmul %x, %wq : (!result, !weight) -> !result
  %1 = mpc.matmul %x, %wk : (!result, tensor<2x1xf32>) -> !column
  %2 = mpc.cast %1 : !column to tensor<4x1xbf16>
  %3 = mpc.reshape %0 : !result to tensor<2x4xf32>
  %4 = mpc.transpose %2 [1, 0] : tensor<4x1xbf16> to tensor<1x4xbf16>
  return %3, %4 : tensor<2x4xf32>, tensor<1x4xbf16>
}

// One matmul has an activation after its bias: it stays the epilogue of its matmul, and
// no zeros are added to the other.
// CHECK-LABEL: func.func @keeps_activation
// CHECK-COUNT-2: mpc.matmul
// CHECK: mpc.add
// CHECK-NOT: mpc.add
func.func @keeps_activation(%x: !result) -> (!result, tensor<1x4xf32>) {
  %wq = mpc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : !weight
  %wk = mpc.constant dense<[[5.0], [6.0]]> : tensor<2x1xf32>
  %bq = mpc.constant dense<[7.0, 8.0]> : tensor<2xf32>
  %0 = mpc.matmul %x, %wq : (!result, !weight) -> !result
  %1 = mpc.matmul %x, %wk : (!result, tensor<2x1xf32>) -> !column
  %2 = mpc.add %0, %bq : (!result, tensor<2xf32>) -> !result
  %3 = mpc.relu %2 : !result
  %4 = mpc.transpose %1 [1, 0] : !column to tensor<1x4xf32>
  return %3, %4 : !result, tensor<1x4xf32>
}
