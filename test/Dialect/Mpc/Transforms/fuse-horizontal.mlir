// RUN: mpc-opt %s --split-input-file --mpc-fuse-horizontal=target=cuda:sm_80 | FileCheck %s --check-prefixes=CHECK,CUDA
// RUN: mpc-opt %s --split-input-file --mpc-fuse-horizontal=target=cpu:avx512 | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: mpc-opt %s --split-input-file --mpc-fuse-horizontal=target=cuda:sm_80 > %t.once
// RUN: mpc-opt %s --split-input-file --mpc-fuse-horizontal=target=cuda:sm_80 --mpc-fuse-horizontal=target=cuda:sm_80 | diff %t.once -
// The result does not depend on addresses: here, each allocation is below the one before.
// RUN: env MALLOC_MMAP_THRESHOLD_=1 mpc-opt %s --split-input-file --mpc-fuse-horizontal=target=cuda:sm_80 | diff %t.once -

// Softmaxes of the same rows read them once, where siblings are fused.
// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  // CUDA: mpc.softmax {{.*}} {mpc.anchor = #mpc<fusion_kind row>, mpc.group = [[G:[0-9]+]] : i64}
  // CUDA-NEXT: mpc.log_softmax {{.*}} {mpc.group = [[G]] : i64}
  // CPU: mpc.softmax {{.*}} {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 0 : i64}
  // CPU-NEXT: mpc.log_softmax {{.*}} {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 1 : i64}
  %0 = mpc.softmax %x axis(1) {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 0 : i64} : tensor<8x16xf32>
  %1 = mpc.log_softmax %x axis(1) {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 1 : i64} : tensor<8x16xf32>
  return %0, %1 : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// A chain of ops on rows and on per-row scalars, without other inputs.
// CHECK-LABEL: func.func @chain
func.func @chain(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  // CUDA: mpc.softmax {{.*}} {mpc.anchor = #mpc<fusion_kind row>, mpc.group = [[G:[0-9]+]] : i64}
  // CUDA-NEXT: mpc.argmax {{.*}} {mpc.group = [[G]] : i64}
  // CUDA-NEXT: mpc.compare {{.*}} {mpc.group = [[G]] : i64}
  // CUDA-NEXT: mpc.select {{.*}} {mpc.group = [[G]] : i64}
  // CUDA-NEXT: mpc.reduce_sum {{.*}} {mpc.group = [[G]] : i64}
  // CUDA-NEXT: mpc.div {{.*}} {mpc.group = [[G]] : i64}
  // CPU: mpc.softmax {{.*}} mpc.group = [[S:[0-9]+]] : i64}
  // CPU-NEXT: mpc.argmax {{.*}} {mpc.anchor = #mpc<fusion_kind reduce>
  %places = mpc.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : tensor<16xi64>
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.softmax %x axis(1) {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 0 : i64} : tensor<8x16xf32>
  %1 = mpc.argmax %0 axis(1) keep_dims {mpc.anchor = #mpc<fusion_kind reduce>, mpc.group = 1 : i64} : tensor<8x16xf32> -> tensor<8x1xi64>
  %2 = mpc.compare eq %places, %1 {mpc.group = 2 : i64} : (tensor<16xi64>, tensor<8x1xi64>) -> tensor<8x16xi1>
  %3 = mpc.select %2, %zero, %0 {mpc.group = 2 : i64} : (tensor<8x16xi1>, tensor<f32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %4 = mpc.reduce_sum %3 axes([1]) keep_dims {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 3 : i64} : tensor<8x16xf32> -> tensor<8x1xf32>
  %5 = mpc.div %3, %4 {mpc.group = 3 : i64} : (tensor<8x16xf32>, tensor<8x1xf32>) -> tensor<8x16xf32>
  return %5 : tensor<8x16xf32>
}

// -----

// Few rows of many elements are split among workers, one reduction per kernel, and
// for rows that exceed a block's registers only sums and maxima are fused.
// CHECK-LABEL: func.func @long_rows
func.func @long_rows(%x: tensor<2x1048576xf32>, %y: tensor<512x10000xf32>) -> (tensor<2x1xf32>, tensor<512x10000xf32>, tensor<512x1xi64>) {
  // CHECK: mpc.reduce_max {{.*}} mpc.group = [[M:[0-9]+]] : i64}
  // CHECK-NEXT: mpc.sub {{.*}} {mpc.group = [[S:[0-9]+]] : i64}
  // CHECK-NEXT: mpc.reduce_max {{.*}} {mpc.anchor = #mpc<fusion_kind reduce>, mpc.group = [[S]] : i64}
  // CHECK-NEXT: mpc.softmax {{.*}} {mpc.anchor
  // CHECK-NEXT: mpc.argmax {{.*}} {mpc.anchor
  %0 = mpc.reduce_max %x axes([1]) keep_dims {mpc.anchor = #mpc<fusion_kind reduce>, mpc.group = 0 : i64} : tensor<2x1048576xf32> -> tensor<2x1xf32>
  %1 = mpc.sub %x, %0 {mpc.group = 1 : i64} : (tensor<2x1048576xf32>, tensor<2x1xf32>) -> tensor<2x1048576xf32>
  %2 = mpc.reduce_max %1 axes([1]) keep_dims {mpc.anchor = #mpc<fusion_kind reduce>, mpc.group = 1 : i64} : tensor<2x1048576xf32> -> tensor<2x1xf32>
  %3 = mpc.softmax %y axis(1) {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 2 : i64} : tensor<512x10000xf32>
  %4 = mpc.argmax %3 axis(1) keep_dims {mpc.anchor = #mpc<fusion_kind reduce>, mpc.group = 3 : i64} : tensor<512x10000xf32> -> tensor<512x1xi64>
  return %2, %3, %4 : tensor<2x1xf32>, tensor<512x10000xf32>, tensor<512x1xi64>
}

// -----

// An upcast is fused into its reader on every target: the buffer has 16 bits.
// CHECK-LABEL: func.func @widening
func.func @widening(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  // CHECK: mpc.exp %{{.*}} {mpc.group = [[A:[0-9]+]] : i64}
  // CHECK-NEXT: mpc.cast %{{.*}} {mpc.group = [[A]] : i64} : tensor<8x16xf32> to tensor<8x16xbf16>
  // CHECK-NEXT: mpc.cast %{{.*}} {mpc.group = [[B:[0-9]+]] : i64} : tensor<8x16xbf16> to tensor<8x16xf32>
  // CHECK-NEXT: mpc.softmax %{{.*}} {mpc.anchor = #mpc<fusion_kind row>, mpc.group = [[B]] : i64}
  %0 = mpc.exp %x {mpc.group = 0 : i64} : tensor<8x16xf32>
  %1 = mpc.cast %0 {mpc.group = 0 : i64} : tensor<8x16xf32> to tensor<8x16xbf16>
  %2 = mpc.cast %1 {mpc.group = 0 : i64} : tensor<8x16xbf16> to tensor<8x16xf32>
  %3 = mpc.softmax %2 axis(1) {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 1 : i64} : tensor<8x16xf32>
  return %3 : tensor<8x16xf32>
}

// -----

// Sums over the same dimensions of values computed from one tensor, on every target.
// CHECK-LABEL: func.func @sums
func.func @sums(%x: tensor<8x16xf32>, %y: tensor<8x16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  // CHECK: mpc.exp %{{.*}} {mpc.group = [[X:[0-9]+]] : i64}
  // CHECK: mpc.reduce_sum %{{.*}} mpc.group = [[S:[0-9]+]] : i64}
  // CHECK: mpc.mul %{{.*}} {mpc.group = [[S]] : i64}
  // CHECK: mpc.reduce_sum %{{.*}} {mpc.group = [[S]] : i64}
  %0 = mpc.exp %x {mpc.group = 0 : i64} : tensor<8x16xf32>
  %1 = mpc.reduce_sum %0 axes([0]) {mpc.anchor = #mpc<fusion_kind reduce>, mpc.group = 1 : i64} : tensor<8x16xf32> -> tensor<16xf32>
  %2 = mpc.mul %0, %y {mpc.group = 2 : i64} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %3 = mpc.reduce_sum %2 axes([0]) {mpc.anchor = #mpc<fusion_kind reduce>, mpc.group = 2 : i64} : tensor<8x16xf32> -> tensor<16xf32>
  return %1, %3 : tensor<16xf32>, tensor<16xf32>
}

// -----

// A global average pool is fused into the depthwise convolution before it, also if the
// convolution's result is low-precision, on a GPU.
// CHECK-LABEL: func.func @squeeze
func.func @squeeze(%x: tensor<2x9x7x16xbf16>, %w: tensor<16x1x3x3xbf16>) -> (tensor<2x9x7x16xbf16>, tensor<2x1x1x16xbf16>) {
  // CHECK: mpc.conv {{.*}} {mpc.anchor = #mpc<fusion_kind convolution>, mpc.group = [[C:[0-9]+]] : i64}
  // CUDA: mpc.reduce_mean {{.*}} {mpc.group = [[C]] : i64}
  // CUDA-NEXT: mpc.cast {{.*}} {mpc.group = [[C]] : i64}
  // CPU: mpc.reduce_mean {{.*}} {mpc.anchor = #mpc<fusion_kind reduce>
  %0 = mpc.conv %x, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) groups(16) layout(channels_last) {mpc.anchor = #mpc<fusion_kind convolution>, mpc.group = 0 : i64} : (tensor<2x9x7x16xbf16>, tensor<16x1x3x3xbf16>) -> tensor<2x9x7x16xf32>
  %1 = mpc.silu %0 {mpc.group = 0 : i64} : tensor<2x9x7x16xf32>
  %2 = mpc.cast %1 {mpc.group = 0 : i64} : tensor<2x9x7x16xf32> to tensor<2x9x7x16xbf16>
  %3 = mpc.cast %2 {mpc.group = 1 : i64} : tensor<2x9x7x16xbf16> to tensor<2x9x7x16xf32>
  %4 = mpc.reduce_mean %3 axes([1, 2]) keep_dims {mpc.anchor = #mpc<fusion_kind reduce>, mpc.group = 1 : i64} : tensor<2x9x7x16xf32> -> tensor<2x1x1x16xf32>
  %5 = mpc.cast %4 {mpc.group = 1 : i64} : tensor<2x1x1x16xf32> to tensor<2x1x1x16xbf16>
  return %2, %5 : tensor<2x9x7x16xbf16>, tensor<2x1x1x16xbf16>
}

// -----

// Sums over images and pixels, and means of a matmul's result, are separate kernels.
// CHECK-LABEL: func.func @other_means
func.func @other_means(%x: tensor<2x9x7x16xf32>, %w: tensor<16x1x3x3xf32>, %v: tensor<8x16x1x1xf32>) -> (tensor<16xf32>, tensor<2x8xf32>) {
  // CHECK: mpc.reduce_mean {{.*}} axes([0, 1, 2]) {mpc.anchor = #mpc<fusion_kind reduce>
  // CHECK: mpc.reduce_mean {{.*}} axes([1, 2]) {mpc.anchor = #mpc<fusion_kind reduce>
  %0 = mpc.conv %x, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) groups(16) layout(channels_last) {mpc.anchor = #mpc<fusion_kind convolution>, mpc.group = 0 : i64} : (tensor<2x9x7x16xf32>, tensor<16x1x3x3xf32>) -> tensor<2x9x7x16xf32>
  %1 = mpc.reduce_mean %0 axes([0, 1, 2]) {mpc.anchor = #mpc<fusion_kind reduce>, mpc.group = 1 : i64} : tensor<2x9x7x16xf32> -> tensor<16xf32>
  %2 = mpc.conv %0, %v strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) {mpc.anchor = #mpc<fusion_kind convolution>, mpc.group = 2 : i64} : (tensor<2x9x7x16xf32>, tensor<8x16x1x1xf32>) -> tensor<2x9x7x8xf32>
  %3 = mpc.reduce_mean %2 axes([1, 2]) {mpc.anchor = #mpc<fusion_kind reduce>, mpc.group = 3 : i64} : tensor<2x9x7x8xf32> -> tensor<2x8xf32>
  return %1, %3 : tensor<16xf32>, tensor<2x8xf32>
}

// -----

// The last layer of a dense block stores the concat of all, in the caller's order of
// dimensions.
// CHECK-LABEL: func.func @dense
func.func @dense(%x: tensor<2x14x14x64xf32>, %w: tensor<32x64x3x3xf32>) -> tensor<2x96x14x14xf32> {
  // CHECK: mpc.conv {{.*}} {mpc.anchor = #mpc<fusion_kind convolution>, mpc.group = [[C:[0-9]+]] : i64{{[,}]}}
  // CUDA: mpc.concat {{.*}} {mpc.group = [[C]] : i64}
  // CUDA-NEXT: mpc.transpose {{.*}} {mpc.group = [[C]] : i64}
  // CPU: mpc.concat {{.*}} {mpc.group = 1 : i64}
  %0 = mpc.conv %x, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) {mpc.anchor = #mpc<fusion_kind convolution>, mpc.group = 0 : i64} : (tensor<2x14x14x64xf32>, tensor<32x64x3x3xf32>) -> tensor<2x14x14x32xf32>
  %1 = mpc.concat %x, %0 axis(3) {mpc.group = 1 : i64} : (tensor<2x14x14x64xf32>, tensor<2x14x14x32xf32>) -> tensor<2x14x14x96xf32>
  %2 = mpc.transpose %1 [0, 3, 1, 2] {mpc.group = 1 : i64} : tensor<2x14x14x96xf32> to tensor<2x96x14x14xf32>
  return %2 : tensor<2x96x14x14xf32>
}

// -----

// Where few blocks would have to copy much, the concat is a separate kernel, and also where
// the matmul has other readers.
// CHECK-LABEL: func.func @much_beside
func.func @much_beside(%x: tensor<16x64xf32>, %w: tensor<64x32xf32>, %y: tensor<16x65536xf32>, %z: tensor<16x32xf32>) -> (tensor<16x65568xf32>, tensor<16x64xf32>, tensor<16x32xf32>) {
  // CHECK: mpc.concat {{.*}} {mpc.group = [[A:[0-9]+]] : i64} : (tensor<16x65536xf32>
  // CHECK: mpc.matmul {{.*}} mpc.group = [[P:[0-9]+]] : i64}
  // CHECK-NOT: mpc.concat {{.*}} {mpc.group = [[P]] : i64}
  %0 = mpc.matmul %x, %w {mpc.anchor = #mpc<fusion_kind contraction>, mpc.group = 0 : i64} : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  %1 = mpc.concat %y, %0 axis(1) {mpc.group = 1 : i64} : (tensor<16x65536xf32>, tensor<16x32xf32>) -> tensor<16x65568xf32>
  %2 = mpc.matmul %x, %w {mpc.anchor = #mpc<fusion_kind contraction>, mpc.group = 2 : i64} : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  %3 = mpc.concat %z, %2 axis(1) {mpc.group = 3 : i64} : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x64xf32>
  return %1, %3, %2 : tensor<16x65568xf32>, tensor<16x64xf32>, tensor<16x32xf32>
}

// -----

// Of two loops that depend on each other, the one whose reader comes first is fused with their
// sibling.
// CHECK-LABEL: func.func @sibling_loops
func.func @sibling_loops(%x: tensor<16x16xf32>, %y: tensor<16x16xf32>, %z: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
  // CUDA: mpc.exp %{{.*}} {mpc.group = [[A:[0-9]+]] : i64}
  // CUDA-NEXT: mpc.exp %{{.*}} {mpc.group = [[A]] : i64}
  // CUDA-NOT: mpc.add {{.*}} {mpc.group = [[A]] : i64}
  // CPU: mpc.exp %{{.*}} {mpc.group = 0 : i64}
  // CPU-NEXT: mpc.exp %{{.*}} {mpc.group = 1 : i64}
  %0 = mpc.exp %x {mpc.group = 0 : i64} : tensor<16x16xf32>
  %1 = mpc.exp %y {mpc.group = 1 : i64} : tensor<16x16xf32>
  %2 = mpc.matmul %0, %1 {mpc.anchor = #mpc<fusion_kind contraction>, mpc.group = 2 : i64} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %3 = mpc.reduce_max %1 axes([0]) {mpc.anchor = #mpc<fusion_kind reduce>, mpc.group = 3 : i64} : tensor<16x16xf32> -> tensor<16xf32>
  %4 = mpc.add %z, %3 {mpc.group = 4 : i64} : (tensor<16x16xf32>, tensor<16xf32>) -> tensor<16x16xf32>
  %5 = mpc.matmul %0, %4 {mpc.anchor = #mpc<fusion_kind contraction>, mpc.group = 5 : i64} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  return %2, %5 : tensor<16x16xf32>, tensor<16x16xf32>
}

// -----

// The kernel that computes a tensor also computes its largest magnitude, if that stores the tensor or another of its
// shape; the largest magnitude of an argument has a kernel of its own.
// CHECK-LABEL: func.func @largest_magnitudes
func.func @largest_magnitudes(%x: tensor<8x16xf32>, %s: tensor<f32>)
    -> (tensor<8x16xf32>, tensor<f32>, tensor<f32>, tensor<8x16xui8>, tensor<f32>, tensor<8xf32>, tensor<f32>) {
  // CUDA: mpc.softmax {{.*}} mpc.group = [[S:[0-9]+]] : i64}
  // CUDA-NEXT: mpc.abs {{.*}} {mpc.group = [[S]] : i64}
  // CUDA-NEXT: mpc.reduce_max {{.*}} {mpc.group = [[S]] : i64}
  // CUDA-NEXT: mpc.exp {{.*}} {mpc.group = [[S]] : i64}
  // CUDA: mpc.neg {{.*}} {mpc.group = [[N:[0-9]+]] : i64}
  // CUDA-NEXT: mpc.mul {{.*}} {mpc.group = [[N]] : i64}
  // CUDA-NEXT: mpc.encode_float {{.*}} {mpc.group = [[N]] : i64}
  // CUDA-NEXT: mpc.abs {{.*}} {mpc.group = [[N]] : i64}
  // CUDA-NEXT: mpc.reduce_max {{.*}} {mpc.group = [[N]] : i64}
  // CUDA: mpc.tanh {{.*}} {mpc.group = [[T:[0-9]+]] : i64}
  // CUDA-NEXT: mpc.reduce_sum {{.*}} mpc.group = [[T]] : i64}
  // CUDA-NOT: mpc.group = [[T]]
  // CPU: mpc.softmax {{.*}} mpc.group = [[S:[0-9]+]] : i64}
  // CPU-NOT: mpc.group = [[S]]
  %0 = mpc.softmax %x axis(1) {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 0 : i64} : tensor<8x16xf32>
  %1 = mpc.abs %0 {mpc.group = 1 : i64} : tensor<8x16xf32>
  %2 = mpc.reduce_max %1 axes([0, 1]) {mpc.anchor = #mpc<fusion_kind reduce>, mpc.group = 1 : i64} : tensor<8x16xf32> -> tensor<f32>
  %3 = mpc.exp %2 {mpc.group = 1 : i64} : tensor<f32>
  %4 = mpc.abs %x {mpc.group = 2 : i64} : tensor<8x16xf32>
  %5 = mpc.reduce_max %4 axes([0, 1]) {mpc.anchor = #mpc<fusion_kind reduce>, mpc.group = 2 : i64} : tensor<8x16xf32> -> tensor<f32>
  %6 = mpc.neg %x {mpc.group = 3 : i64} : tensor<8x16xf32>
  %7 = mpc.mul %6, %s {mpc.group = 3 : i64} : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x16xf32>
  %8 = mpc.encode_float %7 format(f8E4M3FN) saturate {mpc.group = 3 : i64} : tensor<8x16xf32> to tensor<8x16xui8>
  %9 = mpc.abs %6 {mpc.group = 4 : i64} : tensor<8x16xf32>
  %10 = mpc.reduce_max %9 axes([0, 1]) {mpc.anchor = #mpc<fusion_kind reduce>, mpc.group = 4 : i64} : tensor<8x16xf32> -> tensor<f32>
  %11 = mpc.tanh %x {mpc.group = 5 : i64} : tensor<8x16xf32>
  %12 = mpc.reduce_sum %11 axes([1]) {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 5 : i64} : tensor<8x16xf32> -> tensor<8xf32>
  %13 = mpc.abs %11 {mpc.group = 6 : i64} : tensor<8x16xf32>
  %14 = mpc.reduce_max %13 axes([0, 1]) {mpc.anchor = #mpc<fusion_kind reduce>, mpc.group = 6 : i64} : tensor<8x16xf32> -> tensor<f32>
  return %0, %3, %5, %8, %10, %12, %14 : tensor<8x16xf32>, tensor<f32>, tensor<f32>, tensor<8x16xui8>, tensor<f32>, tensor<8xf32>, tensor<f32>
}

// -----

// A converted tensor that is also read transposed is stored in both orders by one kernel.
// CHECK-LABEL: func.func @both_orders
func.func @both_orders(%x: tensor<8x16xf32>) -> (tensor<8x16xbf16>, tensor<16x8xbf16>) {
  // CUDA: mpc.cast {{.*}} {mpc.group = [[G:[0-9]+]] : i64}
  // CUDA: mpc.transpose {{.*}} {mpc.group = [[G]] : i64}
  // CPU: mpc.cast {{.*}} {mpc.group = [[G:[0-9]+]] : i64}
  // CPU-NOT: mpc.group = [[G]]
  %0 = mpc.cast %x {mpc.group = 0 : i64} : tensor<8x16xf32> to tensor<8x16xbf16>
  %1 = mpc.transpose %0 [1, 0] {mpc.group = 1 : i64} : tensor<8x16xbf16> to tensor<16x8xbf16>
  return %0, %1 : tensor<8x16xbf16>, tensor<16x8xbf16>
}
