// The gradient of attention on a GPU: its kernel loads operands through slices and
// transposes, and stores each of its results in the layout of the reader.
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-fuse | FileCheck %s

// The gradients of slices of one matmul result are stored into one buffer, which the next
// matmuls read.
// CHECK-LABEL: func.func @stores_packed
// CHECK: %[[G:.+]] = mpc.fusion kind(attention) {{.*}}(%{{.+}} = %{{.+}} : tensor<2x8x6x16xf32>, %{{.+}} = %{{.+}} : tensor<2x8x2x16xf32>) -> tensor<16x96xf32>
// CHECK: mpc.attention_gradient
// CHECK: mpc.concat
// CHECK: mpc.yield
// CHECK: mpc.fusion kind(contraction) {{.*}}(%{{.+}} = %[[G]] : tensor<16x96xf32>, %{{.+}} = %arg{{.}} : tensor<96x32xf32>)
// CHECK: mpc.fusion kind(contraction) {{.*}} = %[[G]] : tensor<16x96xf32>)
// CHECK-NOT: mpc.fusion
func.func @stores_packed(%x: tensor<2x8x6x16xf32>, %g: tensor<2x8x2x16xf32>, %w: tensor<96x32xf32>, %i: tensor<16x32xf32>)
    -> (tensor<16x32xf32>, tensor<32x96xf32>) {
  %q0 = mpc.slice %x [0, 0, 0, 0] [2, 8, 2, 16] : tensor<2x8x6x16xf32> to tensor<2x8x2x16xf32>
  %q = mpc.transpose %q0 [0, 2, 1, 3] : tensor<2x8x2x16xf32> to tensor<2x2x8x16xf32>
  %k0 = mpc.slice %x [0, 0, 2, 0] [2, 8, 2, 16] : tensor<2x8x6x16xf32> to tensor<2x8x2x16xf32>
  %k = mpc.transpose %k0 [0, 2, 1, 3] : tensor<2x8x2x16xf32> to tensor<2x2x8x16xf32>
  %v0 = mpc.slice %x [0, 0, 4, 0] [2, 8, 2, 16] : tensor<2x8x6x16xf32> to tensor<2x8x2x16xf32>
  %v = mpc.transpose %v0 [0, 2, 1, 3] : tensor<2x8x2x16xf32> to tensor<2x2x8x16xf32>
  %o = mpc.transpose %g [0, 2, 1, 3] : tensor<2x8x2x16xf32> to tensor<2x2x8x16xf32>
  %0:3 = mpc.attention_gradient %q, %k, %v, %o scale(0.25) : (tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>) -> (tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>)
  %1 = mpc.transpose %0#0 [0, 2, 1, 3] : tensor<2x2x8x16xf32> to tensor<2x8x2x16xf32>
  %2 = mpc.reshape %1 : tensor<2x8x2x16xf32> to tensor<16x32xf32>
  %3 = mpc.transpose %0#1 [0, 2, 1, 3] : tensor<2x2x8x16xf32> to tensor<2x8x2x16xf32>
  %4 = mpc.reshape %3 : tensor<2x8x2x16xf32> to tensor<16x32xf32>
  %5 = mpc.transpose %0#2 [0, 2, 1, 3] : tensor<2x2x8x16xf32> to tensor<2x8x2x16xf32>
  %6 = mpc.reshape %5 : tensor<2x8x2x16xf32> to tensor<16x32xf32>
  %7 = mpc.concat %2, %4, %6 axis(1) : (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x96xf32>
  %8 = mpc.matmul %7, %w : (tensor<16x96xf32>, tensor<96x32xf32>) -> tensor<16x32xf32>
  %9 = mpc.matmul %i, %7 transpose_lhs : (tensor<16x32xf32>, tensor<16x96xf32>) -> tensor<32x96xf32>
  return %8, %9 : tensor<16x32xf32>, tensor<32x96xf32>
}

// Every result in its reader's layout: unchanged, with heads after positions, cast, and
// both; several matmuls read one of them, and none transposes it again.
// CHECK-LABEL: func.func @stores_apart
// CHECK: mpc.fusion kind(attention) {{.*}} -> (tensor<2x8x16xf32>, tensor<8x2x16xf32>, tensor<8x2x16xbf16>)
// CHECK: mpc.attention_gradient
// CHECK-DAG: mpc.cast
// CHECK-DAG: mpc.transpose
// CHECK: mpc.yield
// CHECK: mpc.fusion kind(contraction)
// CHECK-NOT: mpc.transpose
// CHECK: mpc.fusion kind(contraction)
// CHECK-NOT: {{mpc.transpose|mpc.fusion}}
func.func @stores_apart(%q: tensor<2x8x16xf32>, %w: tensor<8x16x2xf32>)
    -> (tensor<8x2x2xf32>, tensor<8x2x2xf32>, tensor<8x2x16xbf16>, tensor<2x8x16xf32>) {
  %0:3 = mpc.attention_gradient %q, %q, %q, %q scale(0.25) : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>)
  %1 = mpc.transpose %0#0 [1, 0, 2] : tensor<2x8x16xf32> to tensor<8x2x16xf32>
  %2 = mpc.matmul %1, %w : (tensor<8x2x16xf32>, tensor<8x16x2xf32>) -> tensor<8x2x2xf32>
  %3 = mpc.matmul %1, %1 transpose_rhs : (tensor<8x2x16xf32>, tensor<8x2x16xf32>) -> tensor<8x2x2xf32>
  %4 = mpc.transpose %0#1 [1, 0, 2] : tensor<2x8x16xf32> to tensor<8x2x16xf32>
  %5 = mpc.cast %4 : tensor<8x2x16xf32> to tensor<8x2x16xbf16>
  return %2, %3, %5, %0#2 : tensor<8x2x2xf32>, tensor<8x2x2xf32>, tensor<8x2x16xbf16>, tensor<2x8x16xf32>
}

// Transposed as one: the case where query, key and value were slices of one tensor.
// CHECK-LABEL: func.func @stores_turned
// CHECK: mpc.fusion kind(attention) {{.*}} -> tensor<2x8x6x16xf32>
// CHECK: mpc.attention_gradient
// CHECK-NEXT: mpc.concat
// CHECK-NEXT: mpc.transpose
// CHECK-NEXT: mpc.yield
// CHECK-NOT: mpc.fusion
func.func @stores_turned(%q: tensor<2x2x8x16xf32>) -> tensor<2x8x6x16xf32> {
  %0:3 = mpc.attention_gradient %q, %q, %q, %q scale(0.25) : (tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>) -> (tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>)
  %1 = mpc.concat %0#0, %0#1, %0#2 axis(1) : (tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>) -> tensor<2x6x8x16xf32>
  %2 = mpc.transpose %1 [0, 2, 1, 3] : tensor<2x6x8x16xf32> to tensor<2x8x6x16xf32>
  return %2 : tensor<2x8x6x16xf32>
}

// A gradient with another reader is stored separately, and so are the others.
// CHECK-LABEL: func.func @part_is_read
// CHECK: mpc.fusion kind(attention) {{.*}} -> (tensor<8x2x16xf32>, tensor<8x2x16xf32>, tensor<8x2x16xf32>)
// CHECK-NOT: mpc.concat
// CHECK: mpc.yield
// CHECK: mpc.fusion kind(elementwise)
// CHECK-NEXT: mpc.concat
func.func @part_is_read(%q: tensor<2x8x16xf32>) -> (tensor<8x96xf32>, tensor<8x2x16xf32>) {
  %0:3 = mpc.attention_gradient %q, %q, %q, %q scale(0.25) : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>)
  %1 = mpc.transpose %0#0 [1, 0, 2] : tensor<2x8x16xf32> to tensor<8x2x16xf32>
  %2 = mpc.reshape %1 : tensor<8x2x16xf32> to tensor<8x32xf32>
  %3 = mpc.transpose %0#1 [1, 0, 2] : tensor<2x8x16xf32> to tensor<8x2x16xf32>
  %4 = mpc.reshape %3 : tensor<8x2x16xf32> to tensor<8x32xf32>
  %5 = mpc.transpose %0#2 [1, 0, 2] : tensor<2x8x16xf32> to tensor<8x2x16xf32>
  %6 = mpc.reshape %5 : tensor<8x2x16xf32> to tensor<8x32xf32>
  %7 = mpc.concat %2, %4, %6 axis(1) : (tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x96xf32>
  return %7, %1 : tensor<8x96xf32>, tensor<8x2x16xf32>
}

// Unused gradients are not results of the kernel.
// CHECK-LABEL: func.func @query_alone
// CHECK: mpc.fusion kind(attention) {{.*}}) -> tensor<2x8x16xf32> {
func.func @query_alone(%q: tensor<2x8x16xf32>) -> tensor<2x8x16xf32> {
  %0:3 = mpc.attention_gradient %q, %q, %q, %q scale(0.25) : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>)
  return %0#0 : tensor<2x8x16xf32>
}

// Sums of two gradients, and f32 values computed from one, are in other kernels.
// CHECK-LABEL: func.func @mixes_results
// CHECK: mpc.fusion kind(attention) {{.*}} -> (tensor<2x8x16xbf16>, tensor<2x8x16xbf16>, tensor<2x8x16xbf16>)
// CHECK-NEXT: mpc.attention_gradient
// CHECK-NEXT: mpc.yield
// CHECK: mpc.fusion kind(elementwise)
func.func @mixes_results(%q: tensor<2x8x16xbf16>) -> (tensor<2x8x16xbf16>, tensor<2x8x16xf32>) {
  %0:3 = mpc.attention_gradient %q, %q, %q, %q scale(0.25) : (tensor<2x8x16xbf16>, tensor<2x8x16xbf16>, tensor<2x8x16xbf16>, tensor<2x8x16xbf16>) -> (tensor<2x8x16xbf16>, tensor<2x8x16xbf16>, tensor<2x8x16xbf16>)
  %1 = mpc.add %0#0, %0#1 : (tensor<2x8x16xbf16>, tensor<2x8x16xbf16>) -> tensor<2x8x16xbf16>
  %2 = mpc.cast %0#2 : tensor<2x8x16xbf16> to tensor<2x8x16xf32>
  return %1, %2 : tensor<2x8x16xbf16>, tensor<2x8x16xf32>
}
