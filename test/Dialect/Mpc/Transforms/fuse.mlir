// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-fuse))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-fuse,mpc-fuse))' | FileCheck %s

// Bias, activation and the cast for the next layer are the matmul's epilogue;
// the large constant is an operand.
// CHECK-LABEL: func.func @dense_layer
// CHECK: %[[W:.+]] = mpc.constant dense<{{\[\[}}1.000000e+00
// CHECK: %[[OUT:.+]] = mpc.fusion kind(contraction) name("fc_MatMul") (%[[X:[^ ]+]] = %{{[^ ]+}} : tensor<3x2xbf16>, %[[K:[^ ]+]] = %[[W]] : tensor<2x2xbf16>, %[[B:[^ ]+]] = %{{[^ ]+}} : tensor<2xf32>) -> tensor<3x2xbf16>
// CHECK: mpc.matmul %[[X]], %[[K]]
// CHECK: mpc.add %{{.+}}, %[[B]]
// CHECK: mpc.relu
// CHECK: mpc.cast
// CHECK: mpc.yield
// CHECK: return %[[OUT]]
func.func @dense_layer(%x: tensor<3x2xbf16>, %b: tensor<2xf32>) -> tensor<3x2xbf16> {
  %w = mpc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xbf16>
  %0 = mpc.matmul %x, %w : (tensor<3x2xbf16>, tensor<2x2xbf16>) -> tensor<3x2xf32> loc("fc/MatMul")
  %1 = mpc.add %0, %b : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %2 = mpc.relu %1 : tensor<3x2xf32>
  %3 = mpc.cast %2 : tensor<3x2xf32> to tensor<3x2xbf16>
  return %3 : tensor<3x2xbf16>
}

// The residual sum is read twice: the norm computes and stores it. Constants of one
// value are immediates.
// CHECK-LABEL: func.func @residual_and_norm
// CHECK: mpc.fusion kind(row) name("norm") (%{{[^ ]+}} = %{{[^ ]+}} : tensor<4x8xf32>, %{{[^ ]+}} = %{{[^ ]+}} : tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK: %[[SUM:.+]] = mpc.add
// CHECK: mpc.constant dense<1.000000e+00> : tensor<8xf32>
// CHECK: %[[NORM:.+]] = mpc.layer_norm %[[SUM]]
// CHECK: mpc.yield %[[SUM]], %[[NORM]]
// CHECK-NOT: mpc.fusion
func.func @residual_and_norm(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %one = mpc.constant dense<1.0> : tensor<8xf32>
  %0 = mpc.add %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = mpc.layer_norm %0, %one axis(1) epsilon(1.0e-5) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> loc("norm")
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// An upcast is duplicated into each reader, so the f32 value is never stored.
// CHECK-LABEL: func.func @wide_values_stay_in_registers
// CHECK: mpc.fusion kind(row) {{.*}}(%{{[^ ]+}} = %{{[^ ]+}} : tensor<4x8xbf16>) -> tensor<4x8xf32>
// CHECK: mpc.fusion kind(contraction) {{.*}}tensor<4x8xbf16>{{.*}} -> tensor<4x8xf32>
// CHECK-DAG: mpc.matmul
// CHECK-DAG: mpc.cast
// CHECK: mpc.add
// CHECK-NOT: mpc.fusion
func.func @wide_values_stay_in_registers(%x: tensor<4x8xbf16>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = mpc.cast %x : tensor<4x8xbf16> to tensor<4x8xf32>
  %1 = mpc.softmax %0 axis(1) : tensor<4x8xf32>
  %2 = mpc.matmul %1, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = mpc.add %2, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// A separate cast of an input has a name that reports recognize.
// CHECK-LABEL: func.func @input_cast
// CHECK: mpc.fusion kind(elementwise) name("input_cast")
// CHECK: mpc.fusion kind(contraction)
func.func @input_cast(%x: tensor<4x8xf32>, %w: tensor<8x8xbf16>) -> tensor<4x8xf32> {
  %0 = mpc.cast %x : tensor<4x8xf32> to tensor<4x8xbf16>
  %1 = mpc.matmul %0, %w : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// Loops of one shape are fused and have the results of both.
// CHECK-LABEL: func.func @two_results
// CHECK: mpc.fusion kind(elementwise) {{.*}} -> (tensor<4xf32>, tensor<4xbf16>)
// CHECK-NOT: mpc.fusion
func.func @two_results(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xbf16>) {
  %0 = mpc.exp %x : tensor<4xf32>
  %1 = mpc.cast %0 : tensor<4xf32> to tensor<4xbf16>
  return %0, %1 : tensor<4xf32>, tensor<4xbf16>
}

// The sum cannot be fused with the loop before it: the reduction is in between.
// CHECK-LABEL: func.func @no_cycle
// CHECK: %[[E:.+]] = mpc.fusion kind(elementwise)
// CHECK: mpc.exp
// CHECK: %[[R:.+]] = mpc.fusion kind(reduce) {{.*}}%[[E]]
// CHECK: mpc.reduce_sum
// CHECK: mpc.fusion kind(elementwise) {{.*}}%[[E]]{{.*}}%[[R]]
// CHECK: mpc.div
func.func @no_cycle(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = mpc.exp %x : tensor<4x8xf32>
  %1 = mpc.reduce_sum %0 axes([0]) keep_dims : tensor<4x8xf32> -> tensor<1x8xf32>
  %2 = mpc.div %0, %1 : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// Attention reads its operands through the transposes that split the heads, and
// stores its rows through the transpose that merges them.
// CHECK-LABEL: func.func @heads
// CHECK: mpc.fusion kind(attention) {{.*}} -> tensor<1x4x2x8xf32>
// CHECK-COUNT-3: mpc.transpose
// CHECK: mpc.attention
// CHECK-NEXT: mpc.transpose
// CHECK-NEXT: mpc.yield
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @heads(%q: tensor<1x4x2x8xf32>, %k: tensor<1x4x2x8xf32>, %v: tensor<1x4x2x8xf32>) -> tensor<1x4x2x8xf32> {
  %0 = mpc.transpose %q [0, 2, 1, 3] : tensor<1x4x2x8xf32> to tensor<1x2x4x8xf32>
  %1 = mpc.transpose %k [0, 2, 1, 3] : tensor<1x4x2x8xf32> to tensor<1x2x4x8xf32>
  %2 = mpc.transpose %v [0, 2, 1, 3] : tensor<1x4x2x8xf32> to tensor<1x2x4x8xf32>
  %3 = mpc.attention %0, %1, %2 scale(0.5) : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  %4 = mpc.transpose %3 [0, 2, 1, 3] : tensor<1x2x4x8xf32> to tensor<1x4x2x8xf32>
  return %4 : tensor<1x4x2x8xf32>
}

// Ops after the transpose have its shape and are fused as well, a residual included.
// CHECK-LABEL: func.func @heads_epilogue
// CHECK: mpc.fusion kind(attention) {{.*}} -> tensor<1x4x2x8xbf16>
// CHECK: mpc.attention
// CHECK-NEXT: mpc.transpose
// CHECK-NEXT: mpc.add
// CHECK-NEXT: mpc.cast
// CHECK-NEXT: mpc.yield
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @heads_epilogue(%q: tensor<1x2x4x8xf32>, %r: tensor<1x4x2x8xf32>) -> tensor<1x4x2x8xbf16> {
  %0 = mpc.attention %q, %q, %q scale(0.5) : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  %1 = mpc.transpose %0 [0, 2, 1, 3] : tensor<1x2x4x8xf32> to tensor<1x4x2x8xf32>
  %2 = mpc.add %1, %r : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> tensor<1x4x2x8xf32>
  %3 = mpc.cast %2 : tensor<1x4x2x8xf32> to tensor<1x4x2x8xbf16>
  return %3 : tensor<1x4x2x8xbf16>
}

// Both orders are read: the kernel has one shape, so the second is a copy, as is a
// transpose that splits rows.
// CHECK-LABEL: func.func @heads_in_two_orders
// CHECK: mpc.fusion kind(attention) {{.*}} -> tensor<1x2x4x8xf32>
// CHECK: mpc.fusion kind(transpose) {{.*}} -> tensor<1x4x2x8xf32>
// CHECK: return
func.func @heads_in_two_orders(%q: tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x4x2x8xf32>) {
  %0 = mpc.attention %q, %q, %q scale(0.5) : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  %1 = mpc.transpose %0 [0, 2, 1, 3] : tensor<1x2x4x8xf32> to tensor<1x4x2x8xf32>
  return %0, %1 : tensor<1x2x4x8xf32>, tensor<1x4x2x8xf32>
}

// CHECK-LABEL: func.func @rows_taken_apart
// CHECK: mpc.fusion kind(attention) {{.*}} -> tensor<1x2x4x8xf32>
// CHECK: mpc.fusion kind(transpose) {{.*}} -> tensor<1x2x8x4xf32>
func.func @rows_taken_apart(%q: tensor<1x2x4x8xf32>) -> tensor<1x2x8x4xf32> {
  %0 = mpc.attention %q, %q, %q scale(0.5) : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  %1 = mpc.transpose %0 [0, 1, 3, 2] : tensor<1x2x4x8xf32> to tensor<1x2x8x4xf32>
  return %1 : tensor<1x2x8x4xf32>
}

// Slices of a computed buffer are views; a slice of an argument is a kernel.
// CHECK-LABEL: func.func @views
// CHECK: mpc.fusion
// CHECK: mpc.slice %{{.+}} [1, 0] [1, 16] : tensor<4x16xf32> to tensor<1x16xf32>
// CHECK: mpc.fusion
func.func @views(%x: tensor<4x16xf32>, %w: tensor<16x3xf32>) -> tensor<1x3xf32> {
  %0 = mpc.exp %x : tensor<4x16xf32>
  %1 = mpc.slice %0 [1, 0] [1, 16] : tensor<4x16xf32> to tensor<1x16xf32>
  %2 = mpc.matmul %1, %w : (tensor<1x16xf32>, tensor<16x3xf32>) -> tensor<1x3xf32>
  return %2 : tensor<1x3xf32>
}

// Whole arrays move as separate kernels; an op without a loop form is a library
// kernel.
// CHECK-LABEL: func.func @others
// CHECK-DAG: mpc.fusion kind(transpose)
// CHECK-DAG: mpc.fusion kind(library)
// CHECK-DAG: mpc.fusion kind(reduce)
func.func @others(%x: tensor<4x8xf32>, %p: tensor<1x4x4x2xf32>) -> (tensor<8x4xf32>, tensor<4x8xf32>, tensor<1x2x2x2xf32>) {
  %0 = mpc.transpose %x [1, 0] : tensor<4x8xf32> to tensor<8x4xf32>
  %1 = mpc.cumsum %x axis(1) : tensor<4x8xf32>
  %2 = mpc.avg_pool %p window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : tensor<1x4x4x2xf32> -> tensor<1x2x2x2xf32>
  %3 = mpc.relu %2 : tensor<1x2x2x2xf32>
  return %0, %1, %3 : tensor<8x4xf32>, tensor<4x8xf32>, tensor<1x2x2x2xf32>
}

// Data moves in 16 bits: the upcast follows the movement, into the kernel that
// reads it, and no cast is left alone.
// CHECK-LABEL: func.func @movement_in_16_bits
// CHECK: mpc.fusion kind(contraction) {{.*}} -> tensor<4x8xbf16>
// CHECK: mpc.reshape %{{.+}} : tensor<4x8xbf16> to tensor<2x2x8xbf16>
// CHECK: mpc.fusion kind(row)
// CHECK: mpc.transpose %{{.+}} [1, 0, 2] : tensor<2x2x8xbf16> to tensor<2x2x8xbf16>
// CHECK: mpc.cast
// CHECK: mpc.softmax
// CHECK-NOT: mpc.fusion
func.func @movement_in_16_bits(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<2x2x8xf32> {
  %0 = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = mpc.cast %0 : tensor<4x8xf32> to tensor<4x8xbf16>
  %2 = mpc.cast %1 : tensor<4x8xbf16> to tensor<4x8xf32>
  %3 = mpc.reshape %2 : tensor<4x8xf32> to tensor<2x2x8xf32>
  %4 = mpc.transpose %3 [1, 0, 2] : tensor<2x2x8xf32> to tensor<2x2x8xf32>
  %5 = mpc.softmax %4 axis(2) : tensor<2x2x8xf32>
  return %5 : tensor<2x2x8xf32>
}

// A reverse stays in the loop of its casts: without them each reverse would be
// a kernel.
// CHECK-LABEL: func.func @reversed_with_its_casts
// CHECK: mpc.fusion kind(contraction)
// CHECK: mpc.fusion kind(elementwise)
// CHECK: mpc.reverse %{{.+}} axes([0]) : tensor<4x8xf32>
// CHECK: mpc.reverse %{{.+}} axes([0]) : tensor<4x8xf32>
// CHECK: mpc.fusion kind(row)
// CHECK-NOT: mpc.fusion
func.func @reversed_with_its_casts(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = mpc.reverse %0 axes([0]) : tensor<4x8xf32>
  %2 = mpc.cast %1 : tensor<4x8xf32> to tensor<4x8xbf16>
  %3 = mpc.cast %2 : tensor<4x8xbf16> to tensor<4x8xf32>
  %4 = mpc.reverse %3 axes([0]) : tensor<4x8xf32>
  %5 = mpc.softmax %4 axis(1) : tensor<4x8xf32>
  return %5 : tensor<4x8xf32>
}

// A reshape between kernels that keeps the last dimension is fused with adjacent loops.
// CHECK-LABEL: func.func @blocks_into_place
// CHECK: mpc.fusion kind(transpose) {{.*}} -> tensor<1x4x4x10xf32>
// CHECK: mpc.transpose
// CHECK: mpc.reshape
// CHECK: mpc.add
// CHECK: mpc.concat
// CHECK-NOT: mpc.fusion
func.func @blocks_into_place(%x: tensor<1x2x2x2x2x8xf32>, %b: tensor<8xf32>, %s: tensor<1x4x4x2xf32>) -> tensor<1x4x4x10xf32> {
  %0 = mpc.transpose %x [0, 1, 3, 2, 4, 5] : tensor<1x2x2x2x2x8xf32> to tensor<1x2x2x2x2x8xf32>
  %1 = mpc.reshape %0 : tensor<1x2x2x2x2x8xf32> to tensor<1x4x4x8xf32>
  %2 = mpc.add %1, %b : (tensor<1x4x4x8xf32>, tensor<8xf32>) -> tensor<1x4x4x8xf32>
  %3 = mpc.concat %s, %2 axis(3) : (tensor<1x4x4x2xf32>, tensor<1x4x4x8xf32>) -> tensor<1x4x4x10xf32>
  return %3 : tensor<1x4x4x10xf32>
}

// A transpose of the last dimension has a separate loop; the upcast stays with
// its reader.
// CHECK-LABEL: func.func @transpose_then_math
// CHECK: mpc.fusion kind(transpose) {{.*}} -> tensor<8x4xbf16>
// CHECK: mpc.transpose
// CHECK: mpc.fusion kind(elementwise) {{.*}} -> tensor<8x4xf32>
// CHECK: mpc.cast
// CHECK: mpc.tanh
// CHECK-NOT: mpc.fusion
func.func @transpose_then_math(%x: tensor<4x8xbf16>) -> tensor<8x4xf32> {
  %0 = mpc.transpose %x [1, 0] : tensor<4x8xbf16> to tensor<8x4xbf16>
  %1 = mpc.cast %0 : tensor<8x4xbf16> to tensor<8x4xf32>
  %2 = mpc.tanh %1 : tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}

// A cast that would be a separate kernel is fused into the transpose.
// CHECK-LABEL: func.func @transpose_then_cast
// CHECK: mpc.fusion kind(transpose) {{.*}} -> tensor<8x4xf32>
// CHECK: mpc.transpose
// CHECK: mpc.cast
// CHECK-NOT: mpc.fusion
func.func @transpose_then_cast(%x: tensor<4x8xbf16>) -> tensor<8x4xf32> {
  %0 = mpc.cast %x : tensor<4x8xbf16> to tensor<4x8xf32>
  %1 = mpc.transpose %0 [1, 0] : tensor<4x8xf32> to tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
