// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_bfloat16 --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=bfloat16 --split-input-file | FileCheck %s --check-prefix=PURE
// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_bfloat16 --split-input-file --mpc-fuse | FileCheck %s --check-prefix=FUSED

// Placement of casts: shared where one separate cast serves all readers, duplicated
// where a reader's kernel fuses it for free.

// The upcast of a residual is duplicated into each reader; its downcast is one.
// CHECK-LABEL: func @repeated
// CHECK: %[[S:.*]] = mpc.add
// CHECK: %[[H:.*]] = mpc.cast %[[S]] : tensor<64x64xf32> to tensor<64x64xbf16>
// CHECK-COUNT-2: mpc.cast %[[H]] : tensor<64x64xbf16> to tensor<64x64xf32>
// CHECK-NOT: mpc.cast %[[S]]
// CHECK: return
// FUSED-LABEL: func @repeated
// FUSED: kind(contraction) {{.*}} -> tensor<64x64xbf16>
// FUSED-NOT: {{^ *}}mpc.cast {{.*}}{{$}}
// FUSED: return
func.func @repeated(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %w = mpc.constant dense<0.5> : tensor<64x64xf32>
  %g = mpc.constant dense<1.0> : tensor<64xf32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.add %0, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = mpc.layer_norm %1, %g, %g axis(1) epsilon(1.0e-5) : (tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  %3 = mpc.matmul %2, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = mpc.add %3, %1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %4, %3 : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// A program input with two low-precision readers: reading f32 twice moves less than a
// kernel that stores a low-precision copy. A contraction needs the copy, and then the
// copy serves all.
// PURE-LABEL: func @own_casts
// PURE-SAME: %[[X:[a-z0-9]+]]: tensor<64x64xf32>
// PURE: %[[A:.*]] = mpc.cast %[[X]]
// PURE: mpc.transpose %[[A]]
// PURE: %[[B:.*]] = mpc.cast %[[X]]
// PURE: mpc.relu %[[B]]
func.func @own_casts(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %w = mpc.constant dense<0.5> : tensor<64x64xf32>
  %0 = mpc.transpose %x [1, 0] : tensor<64x64xf32> to tensor<64x64xf32>
  %1 = mpc.matmul %0, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = mpc.relu %x : tensor<64x64xf32>
  %3 = mpc.matmul %2, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %1, %3 : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// PURE-LABEL: func @shared_with_contraction
// PURE-SAME: %[[X:[a-z0-9]+]]: tensor<64x64xf32>
// PURE: %[[A:.*]] = mpc.cast %[[X]]
// PURE-NOT: mpc.cast %[[X]]
// PURE: mpc.relu %[[A]]
// PURE: mpc.matmul %[[A]],
func.func @shared_with_contraction(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %w = mpc.constant dense<0.5> : tensor<64x64xf32>
  %0 = mpc.relu %x : tensor<64x64xf32>
  %1 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0, %1 : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// Cumulative-sum kernels do not fuse casts: two such readers of a low-precision value
// share one separate cast.
// CHECK-LABEL: func @shared_widening
// CHECK: %[[G:.*]] = mpc.gelu
// CHECK-NOT: mpc.cast %{{.*}} : tensor<64x64xbf16> to tensor<64x64xf32>
// CHECK: mpc.cumsum %[[G]]
// CHECK: mpc.cumsum %[[G]]
// PURE-LABEL: func @shared_widening
// PURE: %[[G:.*]] = mpc.gelu {{.*}} : tensor<64x64xbf16>
// PURE-NEXT: %[[W:.*]] = mpc.cast %[[G]] : tensor<64x64xbf16> to tensor<64x64xf32>
// PURE: mpc.cumsum %[[W]]
// PURE: mpc.cumsum %[[W]]
func.func @shared_widening(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %w = mpc.constant dense<0.5> : tensor<64x64xf32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.gelu %0 : tensor<64x64xf32>
  %2 = mpc.cumsum %1 axis(0) : tensor<64x64xf32>
  %3 = mpc.cumsum %1 axis(1) : tensor<64x64xf32>
  return %2, %3 : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// One constant in two precisions is two constants; in one precision it is one,
// for any number of readers.
// CHECK-LABEL: func @constants
// CHECK-DAG: %[[H:.*]] = mpc.constant dense<{{.*}}> : tensor<2x2xbf16>
// CHECK-DAG: %[[F:.*]] = mpc.constant dense<{{.*}}> : tensor<2x2xf32>
// CHECK-NOT: mpc.constant
// CHECK: mpc.matmul %{{.*}}, %[[H]]
// CHECK: mpc.matmul %{{.*}}, %[[H]]
// CHECK: mpc.add %{{.*}}, %[[F]]
// CHECK-NOT: mpc.constant
// CHECK: return
func.func @constants(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = mpc.constant dense<[[0.1, 0.2], [0.3, 0.4]]> : tensor<2x2xf32>
  %0 = mpc.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = mpc.matmul %0, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = mpc.add %1, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %2 : tensor<2x2xf32>
}

// -----

// Where rounding is lossless, the f32 reader upcasts the low-precision value.
// CHECK-LABEL: func @exact_constant
// CHECK: %[[H:.*]] = mpc.constant dense<{{.*}}> : tensor<2x2xbf16>
// CHECK-NOT: mpc.constant
// CHECK: mpc.matmul %{{.*}}, %[[H]]
// CHECK: %[[F:.*]] = mpc.cast %[[H]] : tensor<2x2xbf16> to tensor<2x2xf32>
// CHECK: mpc.add %{{.*}}, %[[F]]
func.func @exact_constant(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = mpc.constant dense<[[0.5, 0.25], [2.0, 3.0]]> : tensor<2x2xf32>
  %0 = mpc.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = mpc.add %0, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

// -----

// A residual of few bytes stays f32: the bytes would not show, the bits would.
// CHECK-LABEL: func @small
// CHECK: %[[S:.*]] = mpc.add
// CHECK-NOT: mpc.cast %[[S]]
// CHECK: mpc.layer_norm %[[S]],
// CHECK: mpc.add %{{.*}}, %[[S]]
func.func @small(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %w = mpc.constant dense<0.5> : tensor<8x8xf32>
  %g = mpc.constant dense<1.0> : tensor<8xf32>
  %0 = mpc.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = mpc.add %0, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = mpc.layer_norm %1, %g, %g axis(1) epsilon(1.0e-5) : (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %3 = mpc.matmul %2, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = mpc.add %3, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}

// -----

// The result of a sensitive op is not rounded for a reader that reads it in f32, and
// data movement in between does not round it either.
// CHECK-LABEL: func @sensitive
// CHECK: %[[E:.*]] = mpc.exp
// CHECK-NEXT: %[[T:.*]] = mpc.transpose %[[E]] {{.*}} to tensor<64x64xf32>
// CHECK-NEXT: mpc.reduce_sum %[[T]]
func.func @sensitive(%x: tensor<64x64xf32>) -> tensor<64xf32> {
  %0 = mpc.exp %x : tensor<64x64xf32>
  %1 = mpc.transpose %0 [1, 0] : tensor<64x64xf32> to tensor<64x64xf32>
  %2 = mpc.reduce_sum %1 axes([1]) : tensor<64x64xf32> -> tensor<64xf32>
  return %2 : tensor<64xf32>
}
