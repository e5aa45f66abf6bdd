// Horizontal fusion: independent kernels become one launch on a GPU.
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-fuse | FileCheck %s
// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx512 --mpc-fuse | FileCheck %s --check-prefix=CPU

// The loss and its gradient read the rows of the logits once; labels are compared in
// the kernel. The mean over the rows is too small for a separate launch.
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

// The sum that a bias is updated by has its own blocks in the update's launch; one over
// many rows stays a kernel that splits the rows over more blocks.
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

// The gradient of a norm: sums over rows, ops on rows and sums, and sums of these
// read each row once and buffer it.
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

// The gradients of a filter and of the next bias are sums of one tensor: the kernel of
// the first computes both, casts the image that it reads, and stores values for the update.
// CHECK-LABEL: func.func @filter_and_bias
// CHECK: mpc.fusion kind(library)
// CHECK-SAME: tensor<8x28x28x1xf32>
// CHECK-SAME: -> (tensor<32x1x3x3xbf16>, tensor<32xf32>)
// CHECK-NOT: mpc.fusion
// CHECK: return
// CPU-LABEL: func.func @filter_and_bias
// CPU-COUNT-4: mpc.fusion
// CPU-NOT: mpc.fusion
// CPU: return
func.func @filter_and_bias(%x: tensor<8x28x28x1xf32>, %g: tensor<8x26x26x32xbf16>)
    -> (tensor<32x1x3x3xbf16>, tensor<32xf32>) {
  %image = mpc.cast %x : tensor<8x28x28x1xf32> to tensor<8x28x28x1xbf16>
  %f = mpc.conv_filter_gradient %image, %g strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<8x28x28x1xbf16>, tensor<8x26x26x32xbf16>) -> tensor<32x1x3x3xf32>
  %narrow = mpc.cast %f : tensor<32x1x3x3xf32> to tensor<32x1x3x3xbf16>
  %wide = mpc.cast %g : tensor<8x26x26x32xbf16> to tensor<8x26x26x32xf32>
  %b = mpc.reduce_sum %wide axes([0, 1, 2]) : tensor<8x26x26x32xf32> -> tensor<32xf32>
  return %narrow, %b : tensor<32x1x3x3xbf16>, tensor<32xf32>
}

// The kernel that computes a gradient could also store it in f32 for the bias' sum; it stores
// it once, in 16 bits.
// CHECK-LABEL: func.func @filter_and_bias_of_made_gradient
// CHECK: mpc.fusion kind(elementwise) {{.*}} -> tensor<8x26x26x32xbf16>
// CHECK: mpc.fusion kind(library)
// CHECK-SAME: -> (tensor<32xf32>, tensor<32x1x3x3xf32>)
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @filter_and_bias_of_made_gradient(%x: tensor<8x28x28x1xbf16>, %y: tensor<8x26x26x32xf32>)
    -> (tensor<32x1x3x3xf32>, tensor<32xf32>) {
  %made = mpc.relu %y : tensor<8x26x26x32xf32>
  %g = mpc.cast %made : tensor<8x26x26x32xf32> to tensor<8x26x26x32xbf16>
  %wide = mpc.cast %g : tensor<8x26x26x32xbf16> to tensor<8x26x26x32xf32>
  %b = mpc.reduce_sum %wide axes([0, 1, 2]) : tensor<8x26x26x32xf32> -> tensor<32xf32>
  %f = mpc.conv_filter_gradient %x, %g strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<8x28x28x1xbf16>, tensor<8x26x26x32xbf16>) -> tensor<32x1x3x3xf32>
  return %f, %b : tensor<32x1x3x3xf32>, tensor<32xf32>
}

// Sums over other dimensions are no bias.
// CHECK-LABEL: func.func @filter_and_other_sum
// CHECK-COUNT-2: mpc.fusion
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @filter_and_other_sum(%x: tensor<8x28x28x1xf32>, %g: tensor<8x26x26x32xf32>)
    -> (tensor<32x1x3x3xf32>, tensor<8xf32>) {
  %f = mpc.conv_filter_gradient %x, %g strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<8x28x28x1xf32>, tensor<8x26x26x32xf32>) -> tensor<32x1x3x3xf32>
  %b = mpc.reduce_sum %g axes([1, 2, 3]) : tensor<8x26x26x32xf32> -> tensor<8xf32>
  return %f, %b : tensor<32x1x3x3xf32>, tensor<8xf32>
}
