// Sums over the contracted rows of a matmul's operand: the gradient of a bias is fused into
// the kernel of the weight's gradient.
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-fuse | FileCheck %s
// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx512 --mpc-fuse | FileCheck %s --check-prefix=CPU

// The gradient is upcast for the sum only, which reads it as the matmul does, and each
// result is downcast.
// CHECK-LABEL: func.func @right_operand
// CHECK: %[[G:.*]] = mpc.reshape %{{.*}} to tensor<4096x768xbf16>
// CHECK-NEXT: mpc.fusion kind(contraction)
// CHECK-SAME: (%{{.*}} = %{{.*}} : tensor<4096x256xbf16>, %[[IN:.*]] = %[[G]] : tensor<4096x768xbf16>)
// CHECK-SAME: -> (tensor<256x768xbf16>, tensor<768xbf16>)
// CHECK: %[[WIDE:.*]] = mpc.cast %[[IN]]
// CHECK: mpc.reduce_sum %[[WIDE]] axes([0]) : tensor<4096x768xf32> -> tensor<768xf32>
// CHECK-NOT: mpc.fusion
// CHECK: return
// CPU-LABEL: func.func @right_operand
// CPU: mpc.fusion kind(contraction)
// CPU: mpc.fusion kind(reduce)
// CPU: mpc.reduce_sum %{{.*}} axes([0, 1])
// CPU: return
func.func @right_operand(%x: tensor<4096x256xbf16>, %dy: tensor<32x128x768xbf16>)
    -> (tensor<256x768xbf16>, tensor<768xbf16>) {
  %g = mpc.reshape %dy : tensor<32x128x768xbf16> to tensor<4096x768xbf16>
  %w = mpc.matmul %x, %g transpose_lhs : (tensor<4096x256xbf16>, tensor<4096x768xbf16>) -> tensor<256x768xf32>
  %nw = mpc.cast %w : tensor<256x768xf32> to tensor<256x768xbf16>
  %wide = mpc.cast %dy : tensor<32x128x768xbf16> to tensor<32x128x768xf32>
  %b = mpc.reduce_sum %wide axes([0, 1]) : tensor<32x128x768xf32> -> tensor<768xf32>
  %nb = mpc.cast %b : tensor<768xf32> to tensor<768xbf16>
  return %nw, %nb : tensor<256x768xbf16>, tensor<768xbf16>
}

// Where the weight is transposed, the gradient is the left operand. The sum is moved
// before the reshape that it reads now.
// CHECK-LABEL: func.func @left_operand
// CHECK: mpc.fusion kind(contraction)
// CHECK-SAME: -> (tensor<768xf32>, tensor<768x256xf32>)
// CHECK: mpc.reduce_sum %{{.*}} axes([0]) : tensor<4096x768xf32>
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @left_operand(%x: tensor<4096x256xf32>, %dy: tensor<32x128x768xf32>)
    -> (tensor<768x256xf32>, tensor<768xf32>) {
  %b = mpc.reduce_sum %dy axes([0, 1]) : tensor<32x128x768xf32> -> tensor<768xf32>
  %g = mpc.reshape %dy : tensor<32x128x768xf32> to tensor<4096x768xf32>
  %w = mpc.matmul %g, %x transpose_lhs compute(tf32) : (tensor<4096x768xf32>, tensor<4096x256xf32>) -> tensor<768x256xf32>
  return %w, %b : tensor<768x256xf32>, tensor<768xf32>
}

// The update fuses short sums only where no matmul reads their input.
// CHECK-LABEL: func.func @short_sum
// CHECK: %[[GRADIENTS:.*]]:2 = mpc.fusion kind(contraction)
// CHECK-SAME: -> (tensor<16x64xf32>, tensor<64xf32>)
// CHECK: mpc.fusion kind(update)
// CHECK-SAME: = %[[GRADIENTS]]#1
// CHECK-NOT: mpc.reduce_sum
// CHECK: return
func.func @short_sum(%x: tensor<32x16xf32>, %g: tensor<32x64xf32>, %w: tensor<16x64xf32>, %b: tensor<64xf32>)
    -> (tensor<16x64xf32> {mpc.alias = 2 : i64}, tensor<64xf32> {mpc.alias = 3 : i64}) {
  %gw = mpc.matmul %x, %g transpose_lhs : (tensor<32x16xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
  %gb = mpc.reduce_sum %g axes([0]) : tensor<32x64xf32> -> tensor<64xf32>
  %nw = mpc.sub %w, %gw : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
  %nb = mpc.sub %b, %gb : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %nw, %nb : tensor<16x64xf32>, tensor<64xf32>
}

// The slices of a packed gradient, which the matmul loads through a concat.
// CHECK-LABEL: func.func @packed
// CHECK: mpc.fusion kind(contraction)
// CHECK-SAME: -> (tensor<64x768xf32>, tensor<512xf32>, tensor<256xf32>)
// CHECK: mpc.concat
// CHECK-COUNT-2: mpc.reduce_sum
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @packed(%x: tensor<4096x64xbf16>, %q: tensor<4096x512xbf16>, %v: tensor<4096x256xbf16>)
    -> (tensor<64x768xf32>, tensor<512xf32>, tensor<256xf32>) {
  %g = mpc.concat %q, %v axis(1) : (tensor<4096x512xbf16>, tensor<4096x256xbf16>) -> tensor<4096x768xbf16>
  %w = mpc.matmul %x, %g transpose_lhs : (tensor<4096x64xbf16>, tensor<4096x768xbf16>) -> tensor<64x768xf32>
  %wq = mpc.cast %q : tensor<4096x512xbf16> to tensor<4096x512xf32>
  %bq = mpc.reduce_sum %wq axes([0]) : tensor<4096x512xf32> -> tensor<512xf32>
  %wv = mpc.cast %v : tensor<4096x256xbf16> to tensor<4096x256xf32>
  %bv = mpc.reduce_sum %wv axes([0]) : tensor<4096x256xf32> -> tensor<256xf32>
  return %w, %bq, %bv : tensor<64x768xf32>, tensor<512xf32>, tensor<256xf32>
}

// A slice with only these two readers is loaded from its source.
// CHECK-LABEL: func.func @slice
// CHECK-NOT: mpc.fusion kind(elementwise)
// CHECK: mpc.fusion kind(contraction) {{.*}} -> (tensor<256x768xf32>, tensor<768xf32>)
// CHECK: %[[PART:.*]] = mpc.slice
// CHECK: mpc.matmul %{{.*}}, %[[PART]]
// CHECK: %[[WIDE:.*]] = mpc.cast %[[PART]]
// CHECK: mpc.reduce_sum %[[WIDE]]
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @slice(%x: tensor<4096x256xbf16>, %packed: tensor<4096x1536xbf16>)
    -> (tensor<256x768xf32>, tensor<768xf32>) {
  %g = mpc.slice %packed [0, 768] [4096, 768] : tensor<4096x1536xbf16> to tensor<4096x768xbf16>
  %w = mpc.matmul %x, %g transpose_lhs : (tensor<4096x256xbf16>, tensor<4096x768xbf16>) -> tensor<256x768xf32>
  %wide = mpc.cast %g : tensor<4096x768xbf16> to tensor<4096x768xf32>
  %b = mpc.reduce_sum %wide axes([0]) : tensor<4096x768xf32> -> tensor<768xf32>
  return %w, %b : tensor<256x768xf32>, tensor<768xf32>
}

// Sums of other tensors than the matmul's operand, and f64 sums, stay separate kernels.
// CHECK-LABEL: func.func @other_sums
// CHECK-DAG: mpc.fusion kind(contraction) {{.*}} -> tensor<256x768xf32>
// CHECK-DAG: mpc.fusion kind(reduce) {{.*}} -> tensor<768xf32>
// CHECK-DAG: mpc.fusion kind(reduce) {{.*}} -> tensor<768xf64>
// CHECK: return
func.func @other_sums(%x: tensor<4096x256xf32>, %g: tensor<4096x768xf32>, %z: tensor<4096x768xf32>)
    -> (tensor<256x768xf32>, tensor<768xf32>, tensor<768xf64>) {
  %w = mpc.matmul %x, %g transpose_lhs : (tensor<4096x256xf32>, tensor<4096x768xf32>) -> tensor<256x768xf32>
  %other = mpc.reduce_sum %z axes([0]) : tensor<4096x768xf32> -> tensor<768xf32>
  %wide = mpc.cast %g : tensor<4096x768xf32> to tensor<4096x768xf64>
  %exact = mpc.reduce_sum %wide axes([0]) : tensor<4096x768xf64> -> tensor<768xf64>
  return %w, %other, %exact : tensor<256x768xf32>, tensor<768xf32>, tensor<768xf64>
}

// A matmul that contracts the columns does not read all rows of a column in one block.
// CHECK-LABEL: func.func @other_dimension
// CHECK-DAG: mpc.fusion kind(contraction) {{.*}} -> tensor<4096x768xf32>
// CHECK-DAG: mpc.fusion kind(reduce) {{.*}} -> tensor<256xf32>
// CHECK: return
func.func @other_dimension(%x: tensor<4096x256xf32>, %v: tensor<256x768xf32>) -> (tensor<4096x768xf32>, tensor<256xf32>) {
  %y = mpc.matmul %x, %v : (tensor<4096x256xf32>, tensor<256x768xf32>) -> tensor<4096x768xf32>
  %sum = mpc.reduce_sum %x axes([0]) : tensor<4096x256xf32> -> tensor<256xf32>
  return %y, %sum : tensor<4096x768xf32>, tensor<256xf32>
}

// A kernel sums one of its operands.
// CHECK-LABEL: func.func @both_operands
// CHECK: mpc.fusion kind(contraction) {{.*}} -> (tensor<256x768xf32>, tensor<768xf32>)
// CHECK: mpc.fusion kind(reduce)
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @both_operands(%x: tensor<4096x256xf32>, %g: tensor<4096x768xf32>)
    -> (tensor<256x768xf32>, tensor<768xf32>, tensor<256xf32>) {
  %w = mpc.matmul %x, %g transpose_lhs : (tensor<4096x256xf32>, tensor<4096x768xf32>) -> tensor<256x768xf32>
  %b = mpc.reduce_sum %g axes([0]) : tensor<4096x768xf32> -> tensor<768xf32>
  %c = mpc.reduce_sum %x axes([0]) : tensor<4096x256xf32> -> tensor<256xf32>
  return %w, %b, %c : tensor<256x768xf32>, tensor<768xf32>, tensor<256xf32>
}

// The matmul depends on the sum, through a kernel: fusing both would create a cycle.
// CHECK-LABEL: func.func @product_after_sum
// CHECK: mpc.fusion kind(reduce)
// CHECK: mpc.fusion kind(elementwise) {{.*}} -> tensor<4096x768xf32>
// CHECK: mpc.fusion kind(contraction) {{.*}} -> tensor<768x768xf32>
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @product_after_sum(%x: tensor<4096x768xf32>, %g: tensor<4096x768xf32>) -> tensor<768x768xf32> {
  %b = mpc.reduce_sum %g axes([0]) : tensor<4096x768xf32> -> tensor<768xf32>
  %s = mpc.softmax %b axis(0) : tensor<768xf32>
  %y = mpc.mul %x, %s : (tensor<4096x768xf32>, tensor<768xf32>) -> tensor<4096x768xf32>
  %w = mpc.matmul %y, %g transpose_lhs : (tensor<4096x768xf32>, tensor<4096x768xf32>) -> tensor<768x768xf32>
  return %w : tensor<768x768xf32>
}

// A matmul with a norm as prologue computes no sums.
// CHECK-LABEL: func.func @normed_rows
// CHECK: mpc.fusion kind(contraction)
// CHECK: mpc.rms_norm
// CHECK: mpc.matmul
// CHECK: mpc.fusion kind(reduce)
// CHECK: return
func.func @normed_rows(%x: tensor<16x64xf32>, %s: tensor<64xf32>, %w: tensor<64x32xf32>) -> (tensor<16x32xf32>, tensor<32xf32>) {
  %0 = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-6) : (tensor<16x64xf32>, tensor<64xf32>) -> tensor<16x64xf32>
  %1 = mpc.matmul %0, %w : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  %2 = mpc.reduce_sum %w axes([0]) : tensor<64x32xf32> -> tensor<32xf32>
  return %1, %2 : tensor<16x32xf32>, tensor<32xf32>
}
