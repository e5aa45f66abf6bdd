// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-decompose))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-decompose{keep=attention_gradient}))' | FileCheck %s --check-prefix=KEEP

// The log probability of each row's class, all of them summed, by the number of rows.
// CHECK-LABEL: func.func @classes
// CHECK: %[[LOGS:.+]] = mpc.log_softmax %{{.+}} axis(1)
// CHECK: %[[COLUMNS:.+]] = mpc.iota axis(0) : tensor<3xi32>
// CHECK: %[[ROWS:.+]] = mpc.reshape %{{.+}} : tensor<4xi32> to tensor<4x1xi32>
// CHECK: %[[HIT:.+]] = mpc.compare eq %[[ROWS]], %[[COLUMNS]]
// CHECK: %[[PICKED:.+]] = mpc.select %[[HIT]], %[[LOGS]], %{{.+}}
// CHECK: %[[SUM:.+]] = mpc.reduce_sum %[[PICKED]] axes([0, 1]) : tensor<4x3xf32> -> tensor<f32>
// CHECK: %[[MEAN:.+]] = mpc.div %[[SUM]], %{{.+}}
// CHECK: mpc.neg %[[MEAN]]
func.func @classes(%x: tensor<4x3xf32>, %t: tensor<4xi32>) -> tensor<f32> {
  %0 = mpc.softmax_cross_entropy %x, %t : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// Rows of the ignored class count neither in the sum nor in the mean.
// CHECK-LABEL: func.func @ignored_classes
// CHECK: %[[COUNTED:.+]] = mpc.compare ne
// CHECK: mpc.select %[[COUNTED]]
// CHECK: mpc.div %{{.+}} : (tensor<f32>, tensor<f32>)
func.func @ignored_classes(%x: tensor<2x2x3xf32>, %t: tensor<2x2xi64>) -> tensor<f32> {
  %0 = mpc.softmax_cross_entropy %x, %t label_smoothing(0.1) ignore_index(1) : (tensor<2x2x3xf32>, tensor<2x2xi64>) -> tensor<f32>
  return %0 : tensor<f32>
}

// CHECK-LABEL: func.func @probabilities
// CHECK-NOT: mpc.compare
func.func @probabilities(%x: tensor<4x3xf32>, %p: tensor<4x3xf32>) -> (tensor<f32>, tensor<f32>) {
  %0 = mpc.softmax_cross_entropy %x, %p : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32>
  %1 = mpc.softmax_cross_entropy %x, %p label_smoothing(0.2) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @regression
// CHECK: mpc.log1p
// CHECK: mpc.reduce_mean %{{.+}} axes([0, 1]) : tensor<4x3xf32> -> tensor<f32>
// CHECK: mpc.compare le
// CHECK-NOT: mpc.huber
func.func @regression(%x: tensor<4x3xf32>, %z: tensor<4x3xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = mpc.sigmoid_cross_entropy %x, %z : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32>
  %1 = mpc.mean_squared_error %x, %z : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32>
  %2 = mpc.mean_absolute_error %x, %z : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32>
  %3 = mpc.huber %x, %z delta(0.7) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32>
  return %0, %1, %2, %3 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}

// Unsigned order by a signed comparison; 16-bit values are scaled in f32.
// CHECK-LABEL: func.func @dropout
// CHECK: %[[BITS:.+]] = mpc.random_bits %{{.+}} stream(5) : tensor<2xi64> -> tensor<8x8xi32>
// CHECK: %[[ORDERED:.+]] = mpc.xor %[[BITS]]
// CHECK: %[[KEPT:.+]] = mpc.compare ge %[[ORDERED]]
// CHECK: %[[SCALED:.+]] = mpc.mul %{{.+}} : (tensor<f32>, tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK: %[[RESULT:.+]] = mpc.select %[[KEPT]], %[[SCALED]]
// CHECK: mpc.cast %[[RESULT]] : tensor<8x8xf32> to tensor<8x8xf16>
func.func @dropout(%x: tensor<8x8xf16>, %state: tensor<2xi64>) -> tensor<8x8xf16> {
  %0 = mpc.dropout %x, %state probability(0.3) stream(5) : (tensor<8x8xf16>, tensor<2xi64>) -> tensor<8x8xf16>
  return %0 : tensor<8x8xf16>
}

// CHECK-LABEL: func.func @batch_norm_training
// CHECK: %[[MEAN:.+]] = mpc.reduce_mean %{{.+}} axes([0, 2, 3]) keep_dims
// CHECK: mpc.sub %{{.+}}, %[[MEAN]]
// CHECK-NOT: mpc.batch_norm_training
func.func @batch_norm_training(%x: tensor<2x3x4x2xf32>, %s: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>) -> (tensor<2x3x4x2xf32>, tensor<3xf32>, tensor<3xf32>) {
  %0:3 = mpc.batch_norm_training %x, %s, %b, %m, %v epsilon(1.0e-5) momentum(0.1) : (tensor<2x3x4x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x4x2xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1, %0#2 : tensor<2x3x4x2xf32>, tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @batch_norm_training_of_f16
// CHECK: mpc.cast %{{.+}} : tensor<4x3xf16> to tensor<4x3xf32>
func.func @batch_norm_training_of_f16(%x: tensor<4x3xf16>, %s: tensor<3xf16>, %m: tensor<3xf32>) -> (tensor<4x3xf16>, tensor<3xf32>, tensor<3xf32>) {
  %0:3 = mpc.batch_norm_training %x, %s, %s, %m, %m epsilon(1.0e-5) momentum(0.1) : (tensor<4x3xf16>, tensor<3xf16>, tensor<3xf16>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3xf16>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1, %0#2 : tensor<4x3xf16>, tensor<3xf32>, tensor<3xf32>
}

// The input is normalized again; sums over the rows, for the scale, come last.
// CHECK-LABEL: func.func @norm_gradient
// CHECK-DAG: %[[X:.+]] = mpc.cast %{{.+}} : tensor<8x16xf16> to tensor<8x16xf32>
// CHECK: %[[MEAN:.+]] = mpc.reduce_mean %[[X]] axes([1]) keep_dims
// CHECK: %[[CENTRED:.+]] = mpc.sub %[[X]], %[[MEAN]]
// CHECK: %[[FACTOR:.+]] = mpc.rsqrt
// CHECK: %[[NORMAL:.+]] = mpc.mul %[[CENTRED]], %[[FACTOR]]
// CHECK: mpc.mul %{{.+}}, %[[FACTOR]]
// CHECK: mpc.reduce_sum %{{.+}} axes([0]) : tensor<8x16xf32> -> tensor<16xf32>
// CHECK-NOT: mpc.norm_gradient
func.func @norm_gradient(%x: tensor<8x16xf16>, %s: tensor<16xf16>, %g: tensor<8x16xf16>) -> (tensor<8x16xf16>, tensor<16xf16>) {
  %0:2 = mpc.norm_gradient %x, %s, %g axis(1) epsilon(1.0e-5) : (tensor<8x16xf16>, tensor<16xf16>, tensor<8x16xf16>) -> (tensor<8x16xf16>, tensor<16xf16>)
  return %0#0, %0#1 : tensor<8x16xf16>, tensor<16xf16>
}

// Rows of several dimensions become one; nothing is subtracted.
// CHECK-LABEL: func.func @root_mean_square_gradient
// CHECK: mpc.reshape %{{.+}} : tensor<2x3x4xf32> to tensor<2x12xf32>
// CHECK-NOT: mpc.sub %arg0
// CHECK: mpc.reduce_sum %{{.+}} axes([0, 2]) : tensor<2x3x4xf32> -> tensor<3xf32>
func.func @root_mean_square_gradient(%x: tensor<2x3x4xf32>, %s: tensor<3x1xf32>) -> (tensor<2x3x4xf32>, tensor<3x1xf32>) {
  %0:2 = mpc.norm_gradient %x, %s, %x axis(1) epsilon(1.0e-5) root_mean_square : (tensor<2x3x4xf32>, tensor<3x1xf32>, tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<3x1xf32>)
  return %0#0, %0#1 : tensor<2x3x4xf32>, tensor<3x1xf32>
}

// The gradient reads the statistics of the forward norm of the same tensor; two sums per
// channel follow.
// CHECK-LABEL: func.func @batch_norm_step
// CHECK: %[[MEAN:.+]] = mpc.reduce_mean %arg0 axes([0, 2]) keep_dims
// CHECK: %[[ROOT:.+]] = mpc.sqrt
// CHECK-NOT: mpc.reduce_mean
// CHECK: mpc.div %{{.+}}, %[[ROOT]]
// CHECK-DAG: mpc.sub %arg0, %[[MEAN]]
// CHECK-DAG: mpc.reduce_sum %arg2 axes([0, 2]) keep_dims
// CHECK: mpc.reduce_sum %{{.+}} axes([0, 2]) keep_dims
// CHECK: return
func.func @batch_norm_step(%x: tensor<4x3x5xf32>, %s: tensor<3xf32>, %g: tensor<4x3x5xf32>, %m: tensor<3xf32>) -> (tensor<4x3x5xf32>, tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>) {
  %0:3 = mpc.batch_norm_training %x, %s, %s, %m, %m epsilon(1.0e-5) momentum(0.1) : (tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>)
  %1:3 = mpc.batch_norm_gradient %x, %s, %g epsilon(1.0e-5) : (tensor<4x3x5xf32>, tensor<3xf32>, tensor<4x3x5xf32>) -> (tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %1#0, %1#1, %1#2 : tensor<4x3x5xf32>, tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>
}

// Five products; probabilities and slopes are rounded to the operands' type
// where products read them.
// CHECK-LABEL: func.func @attention_gradient
// CHECK: mpc.matmul %{{.+}}, %{{.+}} transpose_rhs : (tensor<2x3x4xf16>, tensor<2x5x4xf16>) -> tensor<2x3x5xf32>
// CHECK: %[[P:.+]] = mpc.softmax
// CHECK: %[[FACTOR:.+]] = mpc.cast %[[P]] : tensor<2x3x5xf32> to tensor<2x3x5xf16>
// CHECK: mpc.matmul %[[FACTOR]], %{{.+}} transpose_lhs
// CHECK-COUNT-3: mpc.matmul
// CHECK-NOT: mpc.matmul
// CHECK: return
// KEEP-LABEL: func.func @attention_gradient
// KEEP: mpc.attention_gradient
func.func @attention_gradient(%q: tensor<2x3x4xf16>, %k: tensor<2x5x4xf16>, %v: tensor<2x5x6xf16>, %g: tensor<2x3x6xf16>) -> (tensor<2x3x4xf16>, tensor<2x5x4xf16>, tensor<2x5x6xf16>) {
  %0:3 = mpc.attention_gradient %q, %k, %v, %g scale(0.5) : (tensor<2x3x4xf16>, tensor<2x5x4xf16>, tensor<2x5x6xf16>, tensor<2x3x6xf16>) -> (tensor<2x3x4xf16>, tensor<2x5x4xf16>, tensor<2x5x6xf16>)
  return %0#0, %0#1, %0#2 : tensor<2x3x4xf16>, tensor<2x5x4xf16>, tensor<2x5x6xf16>
}

// Query heads that share a key are in a separate dimension, which is summed.
// CHECK-LABEL: func.func @grouped_causal_attention_gradient
// CHECK: mpc.reshape %{{.+}} : tensor<1x4x3x2xf32> to tensor<1x2x2x3x2xf32>
// CHECK: mpc.reshape %{{.+}} : tensor<1x2x5x2xf32> to tensor<1x2x1x5x2xf32>
// CHECK: mpc.reduce_sum %{{.+}} axes([2]) : tensor<1x2x2x5x2xf32> -> tensor<1x2x5x2xf32>
func.func @grouped_causal_attention_gradient(%q: tensor<1x4x3x2xf32>, %k: tensor<1x2x5x2xf32>, %v: tensor<1x2x5x2xf32>, %g: tensor<1x4x3x2xf32>, %mask: tensor<1x4x1x5xf32>) -> (tensor<1x4x3x2xf32>, tensor<1x2x5x2xf32>, tensor<1x2x5x2xf32>) {
  %0:3 = mpc.attention_gradient %q, %k, %v, %g mask(%mask) scale(0.5) causal : (tensor<1x4x3x2xf32>, tensor<1x2x5x2xf32>, tensor<1x2x5x2xf32>, tensor<1x4x3x2xf32>, tensor<1x4x1x5xf32>) -> (tensor<1x4x3x2xf32>, tensor<1x2x5x2xf32>, tensor<1x2x5x2xf32>)
  return %0#0, %0#1, %0#2 : tensor<1x4x3x2xf32>, tensor<1x2x5x2xf32>, tensor<1x2x5x2xf32>
}

// A fully masked row has no probabilities.
// CHECK-LABEL: func.func @masked_attention_gradient
// CHECK: mpc.reduce_max
// CHECK: mpc.select
func.func @masked_attention_gradient(%q: tensor<2x3x4xf32>, %mask: tensor<3x3xi1>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  %0:3 = mpc.attention_gradient %q, %q, %q, %q mask(%mask) scale(0.5) : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<3x3xi1>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>)
  return %0#0, %0#1, %0#2 : tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @markers
// CHECK-SAME: %[[X:[^:]+]]: tensor<4xf32>
// CHECK: %[[ONE:.+]] = mpc.constant dense<1.000000e+00> : tensor<f32>
// CHECK: return %[[X]], %[[ONE]]
func.func @markers(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
  %0 = mpc.stop_gradient %x : tensor<4xf32>
  %1 = mpc.gradient_seed : tensor<f32>
  return %0, %1 : tensor<4xf32>, tensor<f32>
}
