// RUN: mpc-opt %s --mpc-copy-parameters --split-input-file > %t.once
// RUN: FileCheck %s < %t.once
// RUN: mpc-opt %t.once --mpc-copy-parameters --split-input-file | diff %t.once -

// The update writes the f16 weights that the next step reads: no cast of the
// weights remains. A parameter with f32 readers only has no copy.
// CHECK-LABEL: @main(
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<3x2xf32> {mpc.name = "w", mpc.role = #mpc.role<parameter>}
// CHECK-SAME: %[[C:[a-z0-9]+]]: tensor<3x2xf16> {mpc.name = "w.copy", mpc.role = #mpc.role<parameter_copy>}) -> (
// CHECK-SAME: tensor<3x2xf16> {mpc.alias = 5 : i64, mpc.name = "w.copy", mpc.role = #mpc.role<parameter_copy>})
// CHECK-NOT: mpc.cast %[[W]]
// CHECK: mpc.matmul %{{.*}}, %[[C]]
// CHECK: %[[NW:.*]], %[[NC:.*]] = mpc.optimizer.sgd %[[W]], %{{.*}} : ({{.*}}) -> (tensor<3x2xf32>, tensor<3x2xf16>)
// CHECK: %[[NB:.*]] = mpc.optimizer.sgd {{.*}} -> tensor<2xf32>
// CHECK: return %{{.*}}, %[[NW]], %[[NB]], %[[NC]]
func.func @main(%x: tensor<4x3xf16> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %w: tensor<3x2xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"},
                %b: tensor<2xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "b"},
                %t: tensor<i64> {mpc.role = #mpc.role<optimizer_step>, mpc.name = "step"},
                %r: tensor<f32> {mpc.role = #mpc.role<input>, mpc.name = "rate"})
    -> (tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"},
        tensor<3x2xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w", mpc.alias = 1},
        tensor<2xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "b", mpc.alias = 2}) {
  %h = mpc.cast %w : tensor<3x2xf32> to tensor<3x2xf16>
  %0 = mpc.matmul %x, %h : (tensor<4x3xf16>, tensor<3x2xf16>) -> tensor<4x2xf32>
  %1 = mpc.add %0, %b : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %nw = mpc.optimizer.sgd %w, %w step(%t) learning_rate(%r) : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<i64>, tensor<f32>) -> tensor<3x2xf32>
  %nb = mpc.optimizer.sgd %b, %b step(%t) learning_rate(%r) : (tensor<2xf32>, tensor<2xf32>, tensor<i64>, tensor<f32>) -> tensor<2xf32>
  return %1, %nw, %nb : tensor<4x2xf32>, tensor<3x2xf32>, tensor<2xf32>
}

// -----

// A function that updates nothing casts its parameters itself.
// CHECK-LABEL: @main(
// CHECK-NOT: parameter_copy
// CHECK: mpc.cast %{{.*}} : tensor<3x2xf32> to tensor<3x2xf16>
func.func @main(%x: tensor<4x3xf16> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %w: tensor<3x2xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"})
    -> (tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %h = mpc.cast %w : tensor<3x2xf32> to tensor<3x2xf16>
  %0 = mpc.matmul %x, %h : (tensor<4x3xf16>, tensor<3x2xf16>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
