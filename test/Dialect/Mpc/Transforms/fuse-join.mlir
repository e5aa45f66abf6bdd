// Kernels that stand side by side and become one launch on a GPU.
// RUN: mpc-opt %s --mpc-fuse=target=cuda:sm_80 | FileCheck %s
// RUN: mpc-opt %s --mpc-fuse=target=cpu:avx512 | FileCheck %s --check-prefix=CPU

// The loss and its gradient read the rows of the logits once; labels are compared where
// they are needed. The mean over the rows is too small for a launch of its own.
// CHECK-LABEL: func.func @loss_and_gradient
// CHECK: mpc.fusion kind(row) {{.*}} -> (tensor<32xf32>, tensor<32x10xf32>)
// CHECK-NOT: mpc.fusion
// CHECK: mpc.fusion kind(update) {{.*}} -> (tensor<f32>, tensor<10xf32>)
// CHECK: mpc.reduce_mean
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @loss_and_gradient(%logits: tensor<32x10xf32>, %label: tensor<32xi32>, %b: tensor<10xf32>)
    -> (tensor<f32>, tensor<10xf32> {mpc.alias = 2 : i64}, tensor<32x10xf32>) {
  %one = mpc.constant dense<1.0> : tensor<f32>
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %hot = mpc.one_hot %label, %one, %zero depth(10) axis(1) : (tensor<32xi32>, tensor<f32>, tensor<f32>) -> tensor<32x10xf32>
  %logs = mpc.log_softmax %logits axis(1) : tensor<32x10xf32>
  %picked = mpc.mul %logs, %hot : (tensor<32x10xf32>, tensor<32x10xf32>) -> tensor<32x10xf32>
  %rows = mpc.reduce_sum %picked axes([1]) : tensor<32x10xf32> -> tensor<32xf32>
  %mean = mpc.reduce_mean %rows axes([0]) : tensor<32xf32> -> tensor<f32>
  %hot2 = mpc.one_hot %label, %one, %zero depth(10) axis(1) : (tensor<32xi32>, tensor<f32>, tensor<f32>) -> tensor<32x10xf32>
  %p = mpc.softmax %logits axis(1) : tensor<32x10xf32>
  %g = mpc.sub %p, %hot2 : (tensor<32x10xf32>, tensor<32x10xf32>) -> tensor<32x10xf32>
  %nb = mpc.sub %b, %zero : (tensor<10xf32>, tensor<f32>) -> tensor<10xf32>
  return %mean, %nb, %g : tensor<f32>, tensor<10xf32>, tensor<32x10xf32>
}

// The sum that a bias is updated by has blocks of its own beside the updates; one over
// many rows stays a kernel that shares them among more blocks.
// CHECK-LABEL: func.func @bias_gradients
// CHECK: %[[LONG:.*]] = mpc.fusion kind(reduce) {{.*}}tensor<4096x64xf32>
// CHECK: mpc.fusion kind(update)
// CHECK-SAME: = %[[LONG]] :
// CHECK: mpc.reduce_sum %{{.*}} axes([0]) : tensor<32x128xf32>
// CHECK-NOT: mpc.fusion
// CPU-LABEL: func.func @bias_gradients
// CPU: mpc.fusion kind(reduce)
// CPU: mpc.fusion kind(reduce)
// CPU: mpc.fusion kind(update)
func.func @bias_gradients(%dy: tensor<32x128xf32>, %dz: tensor<4096x64xf32>, %b: tensor<128xf32>, %c: tensor<64xf32>)
    -> (tensor<128xf32> {mpc.alias = 2 : i64}, tensor<64xf32> {mpc.alias = 3 : i64}) {
  %gb = mpc.reduce_sum %dy axes([0]) : tensor<32x128xf32> -> tensor<128xf32>
  %gc = mpc.reduce_sum %dz axes([0]) : tensor<4096x64xf32> -> tensor<64xf32>
  %nb = mpc.sub %b, %gb : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
  %nc = mpc.sub %c, %gc : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %nb, %nc : tensor<128xf32>, tensor<64xf32>
}

// The gradient of a norm: sums over rows, the rows with these, and sums of that read and
// keep each row once.
// CHECK-LABEL: func.func @row_sums
// CHECK: mpc.fusion kind(row)
// CHECK: mpc.reduce_mean
// CHECK: mpc.reduce_mean
// CHECK: mpc.mul
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @row_sums(%x: tensor<64x128xf32>) -> (tensor<64x1xf32>, tensor<64x128xf32>) {
  %0 = mpc.reduce_mean %x axes([1]) keep_dims : tensor<64x128xf32> -> tensor<64x1xf32>
  %1 = mpc.sub %x, %0 : (tensor<64x128xf32>, tensor<64x1xf32>) -> tensor<64x128xf32>
  %2 = mpc.mul %1, %1 : (tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<64x128xf32>
  %3 = mpc.reduce_mean %2 axes([1]) keep_dims : tensor<64x128xf32> -> tensor<64x1xf32>
  %4 = mpc.rsqrt %3 : tensor<64x1xf32>
  %5 = mpc.mul %1, %4 : (tensor<64x128xf32>, tensor<64x1xf32>) -> tensor<64x128xf32>
  return %4, %5 : tensor<64x1xf32>, tensor<64x128xf32>
}
