// RUN: mpc-opt %s --mpc-recognize-layer-norm | FileCheck %s
// RUN: mpc-opt %s --mpc-recognize-layer-norm | mpc-opt --mpc-recognize-layer-norm | FileCheck %s
// RUN: mpc-opt %s --mpc-recognize-layer-norm --mlir-print-debuginfo | FileCheck %s --check-prefix=LOC

!rows = tensor<4x8xf32>
!means = tensor<4x1xf32>
!batches = tensor<2x4x8xf32>

// torch's form: a power, a root and a division, then scale and bias.
// CHECK-LABEL: func @quotient
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>, %[[S:[a-z0-9]+]]: tensor<8xf32>, %[[B:[a-z0-9]+]]: tensor<8xf32>
// CHECK-NOT: mpc.reduce_mean
// CHECK: %[[R:.*]] = mpc.layer_norm %[[X]], %[[S]], %[[B]] axis(1) epsilon(9.99999974{{.*}}E-6) {mpc.layer = "ln"}
// CHECK-NEXT: return %[[R]]
// LOC-LABEL: func @quotient
// LOC: mpc.layer_norm {{.*}} loc(#[[FUSED:loc[0-9]+]])
func.func @quotient(%x: !rows, %scale: tensor<8xf32>, %bias: tensor<8xf32>) -> !rows {
  %two = mpc.constant dense<2.0> : tensor<f32>
  %epsilon = mpc.constant dense<1.0e-5> : tensor<f32>
  %0 = mpc.reduce_mean %x axes([1]) keep_dims : !rows -> !means
  %1 = mpc.sub %x, %0 : (!rows, !means) -> !rows
  %2 = mpc.pow %1, %two : (!rows, tensor<f32>) -> !rows
  %3 = mpc.reduce_mean %2 axes([1]) keep_dims : !rows -> !means
  %4 = mpc.add %3, %epsilon : (!means, tensor<f32>) -> !means
  %5 = mpc.sqrt %4 : !means
  %6 = mpc.div %1, %5 {mpc.layer = "ln"} : (!rows, !means) -> !rows loc("Div")
  %7 = mpc.mul %6, %scale : (!rows, tensor<8xf32>) -> !rows loc("Mul")
  %8 = mpc.add %7, %bias : (!rows, tensor<8xf32>) -> !rows loc("Add")
  return %8 : !rows
}

// Sums over the count, reshapes, a second difference for the square, an rsqrt with
// the scale on it, over two axes.
// CHECK-LABEL: func @sums_and_rsqrt
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x4x8xf32>, %[[S:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-NOT: mpc.rsqrt
// CHECK: %[[R:.*]] = mpc.layer_norm %[[X]], %[[S]] axis(1) epsilon(9.99999974{{.*}}E-6)
// CHECK-NEXT: return %[[R]]
func.func @sums_and_rsqrt(%x: !batches, %scale: !rows) -> !batches {
  %count = mpc.constant dense<32.0> : tensor<f32>
  %epsilon = mpc.constant dense<1.0e-5> : tensor<f32>
  %0 = mpc.reduce_sum %x axes([1, 2]) : !batches -> tensor<2xf32>
  %1 = mpc.reshape %0 : tensor<2xf32> to tensor<2x1x1xf32>
  %2 = mpc.div %1, %count : (tensor<2x1x1xf32>, tensor<f32>) -> tensor<2x1x1xf32>
  %3 = mpc.sub %x, %2 : (!batches, tensor<2x1x1xf32>) -> !batches
  %4 = mpc.sub %x, %2 : (!batches, tensor<2x1x1xf32>) -> !batches
  %5 = mpc.mul %3, %3 : (!batches, !batches) -> !batches
  %6 = mpc.reduce_sum %5 axes([1, 2]) : !batches -> tensor<2xf32>
  %7 = mpc.div %6, %count : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %8 = mpc.reshape %7 : tensor<2xf32> to tensor<2x1x1xf32>
  %9 = mpc.add %8, %epsilon : (tensor<2x1x1xf32>, tensor<f32>) -> tensor<2x1x1xf32>
  %10 = mpc.rsqrt %9 : tensor<2x1x1xf32>
  %11 = mpc.mul %10, %scale : (tensor<2x1x1xf32>, !rows) -> !batches
  %12 = mpc.mul %4, %11 : (!batches, !batches) -> !batches
  return %12 : !batches
}

// Neither scale nor bias: the scale is 1.
// CHECK-LABEL: func @plain
// CHECK: %[[ONE:.*]] = mpc.constant dense<1.000000e+00> : tensor<8xf32>
// CHECK: mpc.layer_norm %{{.*}}, %[[ONE]] axis(1)
func.func @plain(%x: !rows) -> !rows {
  %epsilon = mpc.constant dense<1.0e-5> : !means
  %0 = mpc.reduce_mean %x axes([1]) keep_dims : !rows -> !means
  %1 = mpc.sub %x, %0 : (!rows, !means) -> !rows
  %2 = mpc.mul %1, %1 : (!rows, !rows) -> !rows
  %3 = mpc.reduce_mean %2 axes([1]) keep_dims : !rows -> !means
  %4 = mpc.add %3, %epsilon : (!means, !means) -> !means
  %5 = mpc.sqrt %4 : !means
  %6 = mpc.reciprocal %5 : !means
  %7 = mpc.mul %6, %1 : (!means, !rows) -> !rows
  return %7 : !rows
}

// Without the mean it is an rms norm; its bias stays an add.
// CHECK-LABEL: func @rms
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>, %[[S:[a-z0-9]+]]: tensor<8xf32>, %[[B:[a-z0-9]+]]: tensor<8xf32>
// CHECK: %[[N:.*]] = mpc.rms_norm %[[X]], %[[S]] axis(1)
// CHECK-NEXT: mpc.add %[[N]], %[[B]]
func.func @rms(%x: !rows, %scale: tensor<8xf32>, %bias: tensor<8xf32>) -> !rows {
  %two = mpc.constant dense<2.0> : tensor<f32>
  %epsilon = mpc.constant dense<1.0e-5> : tensor<f32>
  %0 = mpc.pow %x, %two : (!rows, tensor<f32>) -> !rows
  %1 = mpc.reduce_mean %0 axes([1]) keep_dims : !rows -> !means
  %2 = mpc.add %1, %epsilon : (!means, tensor<f32>) -> !means
  %3 = mpc.rsqrt %2 : !means
  %4 = mpc.mul %x, %3 : (!rows, !means) -> !rows
  %5 = mpc.mul %scale, %4 : (tensor<8xf32>, !rows) -> !rows
  %6 = mpc.add %5, %bias : (!rows, tensor<8xf32>) -> !rows
  return %6 : !rows
}

// A norm over the first axis is not supported.
// CHECK-LABEL: func @keeps_first_axis
// CHECK: mpc.sqrt
// CHECK-NOT: mpc.layer_norm
// CHECK: return
func.func @keeps_first_axis(%x: !rows) -> !rows {
  %epsilon = mpc.constant dense<1.0e-5> : tensor<f32>
  %0 = mpc.reduce_mean %x axes([0]) keep_dims : !rows -> tensor<1x8xf32>
  %1 = mpc.sub %x, %0 : (!rows, tensor<1x8xf32>) -> !rows
  %2 = mpc.mul %1, %1 : (!rows, !rows) -> !rows
  %3 = mpc.reduce_mean %2 axes([0]) keep_dims : !rows -> tensor<1x8xf32>
  %4 = mpc.add %3, %epsilon : (tensor<1x8xf32>, tensor<f32>) -> tensor<1x8xf32>
  %5 = mpc.sqrt %4 : tensor<1x8xf32>
  %6 = mpc.div %1, %5 : (!rows, tensor<1x8xf32>) -> !rows
  return %6 : !rows
}

// An unbiased deviation (sum over count - 1) is another function.
// CHECK-LABEL: func @keeps_unbiased
// CHECK-NOT: mpc.layer_norm
// CHECK: return
func.func @keeps_unbiased(%x: !rows) -> !rows {
  %less = mpc.constant dense<7.0> : tensor<f32>
  %epsilon = mpc.constant dense<1.0e-5> : tensor<f32>
  %0 = mpc.reduce_mean %x axes([1]) keep_dims : !rows -> !means
  %1 = mpc.sub %x, %0 : (!rows, !means) -> !rows
  %2 = mpc.mul %1, %1 : (!rows, !rows) -> !rows
  %3 = mpc.reduce_sum %2 axes([1]) keep_dims : !rows -> !means
  %4 = mpc.div %3, %less : (!means, tensor<f32>) -> !means
  %5 = mpc.add %4, %epsilon : (!means, tensor<f32>) -> !means
  %6 = mpc.sqrt %5 : !means
  %7 = mpc.div %1, %6 : (!rows, !means) -> !rows
  return %7 : !rows
}

// A per-row factor is not a scale of the norm.
// CHECK-LABEL: func @keeps_row_factor
// CHECK: mpc.layer_norm
// CHECK-NEXT: mpc.mul
func.func @keeps_row_factor(%x: !rows, %rows: !means) -> !rows {
  %epsilon = mpc.constant dense<1.0e-5> : tensor<f32>
  %0 = mpc.reduce_mean %x axes([1]) keep_dims : !rows -> !means
  %1 = mpc.sub %x, %0 : (!rows, !means) -> !rows
  %2 = mpc.mul %1, %1 : (!rows, !rows) -> !rows
  %3 = mpc.reduce_mean %2 axes([1]) keep_dims : !rows -> !means
  %4 = mpc.add %3, %epsilon : (!means, tensor<f32>) -> !means
  %5 = mpc.sqrt %4 : !means
  %6 = mpc.div %1, %5 : (!rows, !means) -> !rows
  %7 = mpc.mul %6, %rows : (!rows, !means) -> !rows
  return %7 : !rows
}

// LOC: #[[FUSED]] = loc(fused[#{{.*}}, #{{.*}}, #{{.*}}])

// Flax's form: one-pass variance, clamped at 0, its axes dropped and restored.
// CHECK-LABEL: func @one_pass
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x4x8xf32>, %[[S:[a-z0-9]+]]: tensor<8xf32>, %[[B:[a-z0-9]+]]: tensor<8xf32>
// CHECK-NOT: mpc.rsqrt
// CHECK-DAG: %[[S1:.*]] = mpc.reshape %[[S]]
// CHECK-DAG: %[[B1:.*]] = mpc.reshape %[[B]]
// CHECK-DAG: %[[S2:.*]] = mpc.reshape %[[S1]]
// CHECK-DAG: %[[B2:.*]] = mpc.reshape %[[B1]]
// CHECK: %[[R:.*]] = mpc.layer_norm %[[X]], %[[S2]], %[[B2]] axis(2) epsilon(9.99999997{{.*}}E-7)
// CHECK-NEXT: return %[[R]]
func.func @one_pass(%x: !batches, %scale: tensor<8xf32>, %bias: tensor<8xf32>) -> !batches {
  %epsilon = mpc.constant dense<1.0e-6> : tensor<f32>
  %0 = mpc.mul %x, %x : (!batches, !batches) -> !batches
  %1 = mpc.reduce_mean %x axes([2]) : !batches -> tensor<2x4xf32>
  %2 = mpc.reduce_mean %0 axes([2]) : !batches -> tensor<2x4xf32>
  %3 = mpc.mul %1, %1 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = mpc.sub %2, %3 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = mpc.relu %4 : tensor<2x4xf32>
  %6 = mpc.reshape %1 : tensor<2x4xf32> to tensor<2x4x1xf32>
  %7 = mpc.reshape %5 : tensor<2x4xf32> to tensor<2x4x1xf32>
  %8 = mpc.sub %x, %6 : (!batches, tensor<2x4x1xf32>) -> !batches
  %9 = mpc.add %7, %epsilon : (tensor<2x4x1xf32>, tensor<f32>) -> tensor<2x4x1xf32>
  %10 = mpc.rsqrt %9 : tensor<2x4x1xf32>
  %11 = mpc.reshape %scale : tensor<8xf32> to tensor<1x1x8xf32>
  %12 = mpc.mul %10, %11 : (tensor<2x4x1xf32>, tensor<1x1x8xf32>) -> !batches
  %13 = mpc.mul %8, %12 : (!batches, !batches) -> !batches
  %14 = mpc.reshape %bias : tensor<8xf32> to tensor<1x1x8xf32>
  %15 = mpc.add %13, %14 : (!batches, tensor<1x1x8xf32>) -> !batches
  return %15 : !batches
}

// The mean square of something else, or a numerator that is not centred: no norm.
// CHECK-LABEL: func @other_square
// CHECK-NOT: mpc.layer_norm
// CHECK: return
func.func @other_square(%x: !rows, %z: !rows) -> (!rows, !rows) {
  %epsilon = mpc.constant dense<1.0e-6> : tensor<f32>
  %0 = mpc.mul %z, %z : (!rows, !rows) -> !rows
  %1 = mpc.reduce_mean %x axes([1]) keep_dims : !rows -> !means
  %2 = mpc.reduce_mean %0 axes([1]) keep_dims : !rows -> !means
  %3 = mpc.mul %1, %1 : (!means, !means) -> !means
  %4 = mpc.sub %2, %3 : (!means, !means) -> !means
  %5 = mpc.sub %x, %1 : (!rows, !means) -> !rows
  %6 = mpc.add %4, %epsilon : (!means, tensor<f32>) -> !means
  %7 = mpc.rsqrt %6 : !means
  %8 = mpc.mul %5, %7 : (!rows, !means) -> !rows
  %9 = mpc.mul %x, %x : (!rows, !rows) -> !rows
  %10 = mpc.reduce_mean %9 axes([1]) keep_dims : !rows -> !means
  %11 = mpc.sub %10, %3 : (!means, !means) -> !means
  %12 = mpc.add %11, %epsilon : (!means, tensor<f32>) -> !means
  %13 = mpc.rsqrt %12 : !means
  %14 = mpc.mul %x, %13 : (!rows, !means) -> !rows
  return %8, %14 : !rows, !rows
}
