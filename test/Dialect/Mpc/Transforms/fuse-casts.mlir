// RUN: mpc-opt %s --mpc-fuse | FileCheck %s

// A low-precision residual: its producer stores 16 bits once, and each
// reader upcasts it.
// CHECK-LABEL: func @residual
// CHECK: %[[R:.*]] = mpc.fusion kind(contraction) {{.*}} -> tensor<64x64xbf16>
// CHECK: mpc.yield %{{.*}} : tensor<64x64xbf16>
// CHECK: mpc.fusion kind(contraction) {{.*}} = %[[R]] : tensor<64x64xbf16>
// CHECK: mpc.cast %{{.*}} : tensor<64x64xbf16> to tensor<64x64xf32>
// CHECK: mpc.add
func.func @residual(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<64x64xf32> {
  %0 = mpc.matmul %x, %w : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
  %1 = mpc.cast %0 : tensor<64x64xf32> to tensor<64x64xbf16>
  %2 = mpc.matmul %1, %w : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
  %3 = mpc.cast %1 : tensor<64x64xbf16> to tensor<64x64xf32>
  %4 = mpc.add %2, %3 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %4 : tensor<64x64xf32>
}

// The sum of two matmuls. Each has its own bias and cast; the add is an epilogue of
// one of them and reads the stored result of the other.
// CHECK-LABEL: func @two_branches
// CHECK: %[[S:.*]] = mpc.fusion kind(contraction)
// CHECK: mpc.matmul
// CHECK-NEXT: mpc.add
// CHECK-NEXT: mpc.cast
// CHECK-NEXT: mpc.yield %{{.*}} : tensor<64x64xbf16>
// CHECK: mpc.fusion kind(contraction) {{.*}} = %[[S]] : tensor<64x64xbf16>
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @two_branches(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>, %v: tensor<64x64xbf16>, %b: tensor<64xf32>) -> tensor<64x64xf32> {
  %0 = mpc.matmul %x, %w : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
  %1 = mpc.add %0, %b : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  %2 = mpc.matmul %x, %v : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
  %3 = mpc.add %2, %b : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  %4 = mpc.cast %3 : tensor<64x64xf32> to tensor<64x64xbf16>
  %5 = mpc.cast %4 : tensor<64x64xbf16> to tensor<64x64xf32>
  %6 = mpc.add %1, %5 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %6 : tensor<64x64xf32>
}

// A downcast after data movement is hoisted into the kernel of the producer, so
// that 16 bits are moved.
// CHECK-LABEL: func @narrow_behind_movement
// CHECK: mpc.fusion kind(attention) {{.*}} -> tensor<1x4x2x8xbf16>
// CHECK: mpc.attention
// CHECK-NEXT: mpc.cast
// CHECK-NEXT: mpc.transpose
// CHECK-NEXT: mpc.yield
// CHECK-NOT: mpc.fusion
// CHECK: mpc.reshape {{.*}} : tensor<1x4x2x8xbf16> to tensor<4x16xbf16>
// CHECK-NEXT: return
func.func @narrow_behind_movement(%q: tensor<1x2x4x8xbf16>) -> tensor<4x16xbf16> {
  %0 = mpc.attention %q, %q, %q scale(0.5) : (tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>) -> tensor<1x2x4x8xf32>
  %1 = mpc.transpose %0 [0, 2, 1, 3] : tensor<1x2x4x8xf32> to tensor<1x4x2x8xf32>
  %2 = mpc.reshape %1 : tensor<1x4x2x8xf32> to tensor<4x16xf32>
  %3 = mpc.cast %2 : tensor<4x16xf32> to tensor<4x16xbf16>
  return %3 : tensor<4x16xbf16>
}

// The f32 value has another reader, so it stays, and the cast after it.
// CHECK-LABEL: func @wide_value_is_read_too
// CHECK: mpc.fusion kind(contraction) {{.*}} -> tensor<4x4xf32>
// CHECK: mpc.reshape {{.*}} : tensor<4x4xf32> to tensor<16xf32>
// CHECK: mpc.cast {{.*}} : tensor<16xf32> to tensor<16xf16>
func.func @wide_value_is_read_too(%x: tensor<4x4xf16>) -> (tensor<16xf32>, tensor<16xf16>) {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf32>
  %1 = mpc.reshape %0 : tensor<4x4xf32> to tensor<16xf32>
  %2 = mpc.cast %1 : tensor<16xf32> to tensor<16xf16>
  return %1, %2 : tensor<16xf32>, tensor<16xf16>
}

// The first rows of an f32 value are cast while a contraction packs them; a
// kernel that only copies them would cost more.
// CHECK-LABEL: func @converted_part
// CHECK: mpc.fusion kind(row) {{.*}} -> tensor<4x8x16xf32>
// CHECK: mpc.fusion kind(contraction)
// CHECK-NEXT: mpc.slice
// CHECK-NEXT: mpc.cast
// CHECK-NEXT: mpc.reshape
// CHECK-NEXT: mpc.matmul
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @converted_part(%x: tensor<4x8x16xf32>, %w: tensor<16x16xbf16>) -> (tensor<4x8x16xf32>, tensor<4x16xf32>) {
  %0 = mpc.softmax %x axis(2) : tensor<4x8x16xf32>
  %1 = mpc.slice %0 [0, 0, 0] [4, 1, 16] : tensor<4x8x16xf32> to tensor<4x1x16xf32>
  %2 = mpc.cast %1 : tensor<4x1x16xf32> to tensor<4x1x16xbf16>
  %3 = mpc.reshape %2 : tensor<4x1x16xbf16> to tensor<4x16xbf16>
  %4 = mpc.matmul %3, %w : (tensor<4x16xbf16>, tensor<16x16xbf16>) -> tensor<4x16xf32>
  return %0, %4 : tensor<4x8x16xf32>, tensor<4x16xf32>
}

// Two kernels need the f32 value in memory. The transpose's kernel stores it: each of the two
// casts would depend on the other.
// CHECK-LABEL: func @widened_by_transpose
// CHECK: mpc.fusion kind(transpose) {{.*}} -> tensor<1x6x11x3xf32>
// CHECK-NEXT: mpc.cast
// CHECK-NEXT: mpc.transpose
// CHECK-NEXT: mpc.cast
// CHECK-NOT: mpc.cast
// CHECK: return
func.func @widened_by_transpose(%x: tensor<1x3x6x11xf32>) -> (tensor<1x6x11x3xf32>, tensor<1x6x11x3xf32>) {
  %0 = mpc.cast %x : tensor<1x3x6x11xf32> to tensor<1x3x6x11xf16>
  %1 = mpc.transpose %0 [0, 2, 3, 1] : tensor<1x3x6x11xf16> to tensor<1x6x11x3xf16>
  %2 = mpc.cast %1 : tensor<1x6x11x3xf16> to tensor<1x6x11x3xf32>
  %3 = mpc.cumsum %2 axis(0) : tensor<1x6x11x3xf32>
  %4 = mpc.cumsum %2 axis(1) : tensor<1x6x11x3xf32>
  return %3, %4 : tensor<1x6x11x3xf32>, tensor<1x6x11x3xf32>
}

// The same where one of the two reads it in another shape.
// CHECK-LABEL: func @widened_by_transpose_and_reshaped
// CHECK: mpc.fusion kind(transpose) {{.*}} -> tensor<2x24x9xf32>
// CHECK-NEXT: mpc.transpose
// CHECK-NEXT: mpc.cast
// CHECK-NOT: mpc.cast
// CHECK: return
func.func @widened_by_transpose_and_reshaped(%x: tensor<2x9x24xbf16>) -> (tensor<2x24x9xf32>, tensor<48x9xf32>) {
  %0 = mpc.transpose %x [0, 2, 1] : tensor<2x9x24xbf16> to tensor<2x24x9xbf16>
  %1 = mpc.cast %0 : tensor<2x24x9xbf16> to tensor<2x24x9xf32>
  %2 = mpc.cumsum %1 axis(1) : tensor<2x24x9xf32>
  %3 = mpc.reshape %1 : tensor<2x24x9xf32> to tensor<48x9xf32>
  %4 = mpc.cumsum %3 axis(0) : tensor<48x9xf32>
  return %2, %4 : tensor<2x24x9xf32>, tensor<48x9xf32>
}

// A value of a row kernel's own prologue: the kernel stores it in every type
// that others read.
// CHECK-LABEL: func @converted_prologue
// CHECK: %{{.*}}:3 = mpc.fusion kind(row)
// CHECK: mpc.cast
// CHECK: mpc.softmax
// CHECK: mpc.fusion kind(reduce)
// CHECK-NOT: mpc.cast
// CHECK: return
func.func @converted_prologue(%x: tensor<8x6xf32>, %s: tensor<f32>) -> (tensor<8x6xf32>, tensor<8xi64>, tensor<8x6xi64>) {
  %0 = mpc.round %x : tensor<8x6xf32>
  %1 = mpc.cast %0 : tensor<8x6xf32> to tensor<8x6xi64>
  %2 = mpc.argmax %0 axis(1) : tensor<8x6xf32> -> tensor<8xi64>
  %3 = mpc.mul %0, %s : (tensor<8x6xf32>, tensor<f32>) -> tensor<8x6xf32>
  %4 = mpc.softmax %3 axis(1) : tensor<8x6xf32>
  return %4, %2, %1 : tensor<8x6xf32>, tensor<8xi64>, tensor<8x6xi64>
}
