// RUN: mpc-opt %s --mpc-attach-loss --split-input-file 2> %t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: mpc-opt %s --mpc-attach-loss="labels=dense label-smoothing=0.1" --split-input-file | FileCheck %s --check-prefix=DENSE
// RUN: mpc-opt %s --mpc-attach-loss=loss=mean_squared_error --split-input-file | FileCheck %s --check-prefix=SQUARED
// RUN: mpc-opt %s --mpc-attach-loss="loss=huber delta=0.5" --split-input-file | FileCheck %s --check-prefix=HUBER
// RUN: mpc-opt %s --mpc-attach-loss=loss=sigmoid_cross_entropy --split-input-file | FileCheck %s --check-prefix=SIGMOID
// RUN: mpc-opt %s --mpc-attach-loss=ignore-index=-100 --split-input-file | FileCheck %s --check-prefix=IGNORE

// Classes are i32, one per row; the loss is the first result.
// CHECK-LABEL: @logits(
// CHECK-SAME: %[[X:.*]]: tensor<4x10xf32>
// CHECK-SAME: %[[L:.*]]: tensor<4xi32> {mpc.name = "label", mpc.role = #mpc.role<label>})
// CHECK-SAME: -> (tensor<f32> {mpc.name = "loss", mpc.role = #mpc.role<loss>}, tensor<4x10xf32> {mpc.name = "y", mpc.role = #mpc.role<output>})
// CHECK: %[[Y:.*]] = mpc.neg %[[X]]
// CHECK: %[[LOSS:.*]] = mpc.softmax_cross_entropy %[[Y]], %[[L]] : (tensor<4x10xf32>, tensor<4xi32>) -> tensor<f32>
// CHECK: return %[[LOSS]], %[[Y]]

// Dense labels have the output's shape.
// DENSE-LABEL: @logits(
// DENSE-SAME: tensor<4x10xf32> {mpc.name = "label", mpc.role = #mpc.role<label>})
// DENSE: mpc.softmax_cross_entropy %{{.*}} label_smoothing(1.000000e-01) : (tensor<4x10xf32>, tensor<4x10xf32>) -> tensor<f32>

// SQUARED-LABEL: @logits(
// SQUARED-SAME: tensor<4x10xf32> {mpc.name = "label", mpc.role = #mpc.role<label>})
// SQUARED: mpc.mean_squared_error %{{.*}} : (tensor<4x10xf32>, tensor<4x10xf32>) -> tensor<f32>

// HUBER-LABEL: @logits(
// HUBER: mpc.huber %{{.*}} delta(5.000000e-01)

// IGNORE-LABEL: @logits(
// IGNORE: mpc.softmax_cross_entropy %{{.*}} ignore_index(-100)
func.func @logits(%x: tensor<4x10xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.neg %x : tensor<4x10xf32>
  return %0 : tensor<4x10xf32>
}

// -----

// A final softmax is part of the loss; the model output still has it.
// REMARK: remark: {{.*}}loss 'softmax_cross_entropy' replaces 'Softmax' and reads its input: the loss computes the softmax itself
// CHECK-LABEL: @softmax(
// CHECK: %[[P:.*]] = mpc.softmax %[[X:.*]] axis(1)
// CHECK: %[[LOSS:.*]] = mpc.softmax_cross_entropy %[[X]], %
// CHECK: return %[[LOSS]], %[[P]]

// Other losses read the model's output as returned.
// SQUARED-LABEL: @softmax(
// SQUARED: %[[P:.*]] = mpc.softmax
// SQUARED: mpc.mean_squared_error %[[P]],
func.func @softmax(%x: tensor<4x10xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.softmax %x axis(1) : tensor<4x10xf32> loc("Softmax")
  return %0 : tensor<4x10xf32>
}

// -----

// A softmax over another axis than the class axis stays.
// CHECK-LABEL: @softmax_of_rows(
// CHECK: %[[P:.*]] = mpc.softmax %{{.*}} axis(0)
// CHECK: mpc.softmax_cross_entropy %[[P]], %
// SIGMOID-LABEL: @softmax_of_rows(
func.func @softmax_of_rows(%x: tensor<4x10xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.softmax %x axis(0) : tensor<4x10xf32>
  return %0 : tensor<4x10xf32>
}

// -----

// CHECK-LABEL: @sigmoid(
// CHECK: %[[P:.*]] = mpc.sigmoid
// CHECK: mpc.softmax_cross_entropy %[[P]], %
// SIGMOID-LABEL: @sigmoid(
// SIGMOID: %[[P:.*]] = mpc.sigmoid %[[X:.*]] :
// SIGMOID: mpc.sigmoid_cross_entropy %[[X]], %
func.func @sigmoid(%x: tensor<4x10xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.sigmoid %x : tensor<4x10xf32>
  return %0 : tensor<4x10xf32>
}

// -----

// In images the classes are the channels, and each pixel has a label.
// CHECK-LABEL: @image(
// CHECK-SAME: tensor<2x8x8xi32> {mpc.name = "label", mpc.role = #mpc.role<label>})
// CHECK: %[[T:.*]] = mpc.transpose %{{.*}} [0, 2, 3, 1] : tensor<2x5x8x8xf32> to tensor<2x8x8x5xf32>
// CHECK: mpc.softmax_cross_entropy %[[T]], %
func.func @image(%x: tensor<2x5x8x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<2x5x8x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.neg %x : tensor<2x5x8x8xf32>
  return %0 : tensor<2x5x8x8xf32>
}

// -----

// The loss of a 16-bit output is computed in f32.
// CHECK-LABEL: @narrow(
// CHECK: %[[C:.*]] = mpc.cast %{{.*}} : tensor<4x10xf16> to tensor<4x10xf32>
// CHECK: mpc.softmax_cross_entropy %[[C]], %{{.*}} -> tensor<f32>
func.func @narrow(%x: tensor<4x10xf16> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x10xf16> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.neg %x : tensor<4x10xf16>
  return %0 : tensor<4x10xf16>
}

// -----

// Names stay unique.
// CHECK-LABEL: @taken(
// CHECK-SAME: {mpc.name = "label", mpc.role = #mpc.role<input>}, %{{.*}}: tensor<4xi32> {mpc.name = "label_", mpc.role = #mpc.role<label>})
// CHECK-SAME: -> (tensor<f32> {mpc.name = "loss_", mpc.role = #mpc.role<loss>}, tensor<4x10xf32> {mpc.name = "loss", mpc.role = #mpc.role<output>})
func.func @taken(%x: tensor<4x10xf32> {mpc.role = #mpc.role<input>, mpc.name = "label"})
    -> (tensor<4x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "loss"}) {
  return %x : tensor<4x10xf32>
}
