// Row kernels also compute column sums of the rows in their registers.
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-fuse | FileCheck %s
// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx512 --mpc-fuse | FileCheck %s --check-prefix=CPU

// The gradient of a norm's bias is the sum of an operand of the norm's gradient.
// CHECK-LABEL: func.func @norm_and_bias
// CHECK: mpc.fusion kind(row)
// CHECK-SAME: -> (tensor<2048x64xf32>, tensor<64xf32>, tensor<64xf32>)
// CHECK-NOT: mpc.fusion
// CHECK: return
// CPU-LABEL: func.func @norm_and_bias
// CPU-COUNT-2: mpc.fusion
// CPU: return
func.func @norm_and_bias(%x: tensor<2048x64xf32>, %s: tensor<64xf32>, %dy: tensor<2048x64xf32>)
    -> (tensor<2048x64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %dx, %ds = mpc.norm_gradient %x, %s, %dy axis(1) epsilon(1.0e-5) : (tensor<2048x64xf32>, tensor<64xf32>, tensor<2048x64xf32>) -> (tensor<2048x64xf32>, tensor<64xf32>)
  %db = mpc.reduce_sum %dy axes([0]) : tensor<2048x64xf32> -> tensor<64xf32>
  return %dx, %ds, %db : tensor<2048x64xf32>, tensor<64xf32>, tensor<64xf32>
}

// The kernel upcasts its 16-bit input for both, and downcasts the sum; both leading
// dimensions are rows.
// CHECK-LABEL: func.func @narrow_gradient
// CHECK: mpc.fusion kind(row)
// CHECK-SAME: tensor<4x512x64xbf16>
// CHECK-SAME: -> (tensor<4x512x64xf32>, tensor<64xf32>, tensor<64xbf16>)
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @narrow_gradient(%x: tensor<4x512x64xf32>, %s: tensor<64xf32>, %dy: tensor<4x512x64xbf16>)
    -> (tensor<4x512x64xf32>, tensor<64xf32>, tensor<64xbf16>) {
  %wide = mpc.cast %dy : tensor<4x512x64xbf16> to tensor<4x512x64xf32>
  %dx, %ds = mpc.norm_gradient %x, %s, %wide axis(2) epsilon(1.0e-5) : (tensor<4x512x64xf32>, tensor<64xf32>, tensor<4x512x64xf32>) -> (tensor<4x512x64xf32>, tensor<64xf32>)
  %db = mpc.reduce_sum %wide axes([0, 1]) : tensor<4x512x64xf32> -> tensor<64xf32>
  %narrow = mpc.cast %db : tensor<64xf32> to tensor<64xbf16>
  return %dx, %ds, %narrow : tensor<4x512x64xf32>, tensor<64xf32>, tensor<64xbf16>
}

// A sum that the update reads is computed in the row kernel, even if it is short enough for
// separate blocks of the update, and so is a sum that the gradient check reads.
// CHECK-LABEL: func.func @update_and_check
// CHECK: mpc.fusion kind(row)
// CHECK-SAME: -> (tensor<256x64xf32>, tensor<64xf32>)
// CHECK: mpc.fusion kind(reduce)
// CHECK: mpc.all_finite
// CHECK: mpc.fusion kind(update)
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @update_and_check(%x: tensor<256x64xf32>, %b: tensor<64xf32>)
    -> (tensor<256x64xf32>, tensor<64xf32> {mpc.alias = 1 : i64}) {
  %p = mpc.softmax %x axis(1) : tensor<256x64xf32>
  %db = mpc.reduce_sum %p axes([0]) : tensor<256x64xf32> -> tensor<64xf32>
  %finite, %record = mpc.all_finite %db names(["b"]) : (tensor<64xf32>) -> (tensor<i1>, tensor<2xi64>)
  %new = mpc.sub %b, %db : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %kept = mpc.select %finite, %new, %b : (tensor<i1>, tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %p, %kept : tensor<256x64xf32>, tensor<64xf32>
}

// The mean of a loss after a norm needs no separate kernel.
// CHECK-LABEL: func.func @norm_and_loss
// CHECK: mpc.fusion kind(row)
// CHECK-SAME: -> (tensor<256x64xf32>, tensor<f32>, tensor<256x64xf32>)
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @norm_and_loss(%x: tensor<256x64xf32>, %s: tensor<64xf32>, %t: tensor<256x64xf32>)
    -> (tensor<256x64xf32>, tensor<f32>, tensor<256x64xf32>) {
  %two = mpc.constant dense<2.0> : tensor<f32>
  %y = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-5) : (tensor<256x64xf32>, tensor<64xf32>) -> tensor<256x64xf32>
  %d = mpc.sub %y, %t : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<256x64xf32>
  %dd = mpc.mul %d, %d : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<256x64xf32>
  %loss = mpc.reduce_mean %dd axes([0, 1]) : tensor<256x64xf32> -> tensor<f32>
  %g = mpc.mul %d, %two : (tensor<256x64xf32>, tensor<f32>) -> tensor<256x64xf32>
  return %y, %loss, %g : tensor<256x64xf32>, tensor<f32>, tensor<256x64xf32>
}

// Rows that depend on a sum over all rows cannot be in one kernel with it.
// CHECK-LABEL: func.func @rows_wait
// CHECK: mpc.fusion kind(reduce)
// CHECK: mpc.fusion kind(row)
// CHECK: return
func.func @rows_wait(%x: tensor<256x64xf32>) -> tensor<256x64xf32> {
  %mean = mpc.reduce_mean %x axes([0]) : tensor<256x64xf32> -> tensor<64xf32>
  %c = mpc.sub %x, %mean : (tensor<256x64xf32>, tensor<64xf32>) -> tensor<256x64xf32>
  %p = mpc.softmax %c axis(1) : tensor<256x64xf32>
  return %p : tensor<256x64xf32>
}

// A sum over some of the row dimensions, or of other values, is a separate kernel.
// CHECK-LABEL: func.func @other_sums
// CHECK-COUNT-3: mpc.fusion
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @other_sums(%x: tensor<4x32x64xf32>, %z: tensor<4x32x64xf32>)
    -> (tensor<4x32x64xf32>, tensor<4x64xf32>, tensor<64xf32>) {
  %p = mpc.softmax %x axis(2) : tensor<4x32x64xf32>
  %0 = mpc.reduce_sum %p axes([1]) : tensor<4x32x64xf32> -> tensor<4x64xf32>
  %1 = mpc.reduce_sum %z axes([0, 1]) : tensor<4x32x64xf32> -> tensor<64xf32>
  return %p, %0, %1 : tensor<4x32x64xf32>, tensor<4x64xf32>, tensor<64xf32>
}

// Where a norm's kernel produces the input of its gradient's kernel, the latter computes the
// column sum: it has column sums already.
// CHECK-LABEL: func.func @made_and_read
// CHECK: mpc.fusion kind(row) {{.*}} -> (tensor<256x64xf32>, tensor<256x64xf32>)
// CHECK: mpc.rms_norm
// CHECK: mpc.fusion kind(row)
// CHECK-SAME: -> (tensor<256x64xf32>, tensor<64xf32>, tensor<64xf32>)
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @made_and_read(%x: tensor<256x64xf32>, %s: tensor<64xf32>, %t: tensor<256x64xf32>)
    -> (tensor<256x64xf32>, tensor<256x64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %y = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-5) : (tensor<256x64xf32>, tensor<64xf32>) -> tensor<256x64xf32>
  %d = mpc.sub %y, %t : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<256x64xf32>
  %dx, %ds = mpc.norm_gradient %x, %s, %d axis(1) epsilon(1.0e-5) root_mean_square : (tensor<256x64xf32>, tensor<64xf32>, tensor<256x64xf32>) -> (tensor<256x64xf32>, tensor<64xf32>)
  %db = mpc.reduce_sum %d axes([0]) : tensor<256x64xf32> -> tensor<64xf32>
  return %y, %dx, %ds, %db : tensor<256x64xf32>, tensor<256x64xf32>, tensor<64xf32>, tensor<64xf32>
}

// A sum of values that depend on another column sum has to wait for it.
// CHECK-LABEL: func.func @sum_of_sum
// CHECK: mpc.fusion kind(row) {{.*}} -> (tensor<256x64xf32>, tensor<64xf32>)
// CHECK: mpc.norm_gradient
// CHECK: mpc.fusion kind(reduce)
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @sum_of_sum(%x: tensor<256x64xf32>, %s: tensor<64xf32>, %dy: tensor<256x64xf32>)
    -> (tensor<256x64xf32>, tensor<64xf32>) {
  %dx, %ds = mpc.norm_gradient %x, %s, %dy axis(1) epsilon(1.0e-5) : (tensor<256x64xf32>, tensor<64xf32>, tensor<256x64xf32>) -> (tensor<256x64xf32>, tensor<64xf32>)
  %p = mpc.mul %dy, %ds : (tensor<256x64xf32>, tensor<64xf32>) -> tensor<256x64xf32>
  %q = mpc.reduce_sum %p axes([0]) : tensor<256x64xf32> -> tensor<64xf32>
  return %dx, %q : tensor<256x64xf32>, tensor<64xf32>
}

// Rows of several dimensions are left to a separate kernel.
// CHECK-LABEL: func.func @rows_of_images
// CHECK-COUNT-2: mpc.fusion
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @rows_of_images(%x: tensor<256x4x16xf32>, %s: tensor<4x16xf32>, %dy: tensor<256x4x16xf32>)
    -> (tensor<256x4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>) {
  %dx, %ds = mpc.norm_gradient %x, %s, %dy axis(1) epsilon(1.0e-5) : (tensor<256x4x16xf32>, tensor<4x16xf32>, tensor<256x4x16xf32>) -> (tensor<256x4x16xf32>, tensor<4x16xf32>)
  %db = mpc.reduce_sum %dy axes([0]) : tensor<256x4x16xf32> -> tensor<4x16xf32>
  return %dx, %ds, %db : tensor<256x4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>
}
