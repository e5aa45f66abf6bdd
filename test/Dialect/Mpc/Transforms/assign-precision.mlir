// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_bfloat16 --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_bfloat16 --split-input-file | mpc-opt --mpc-assign-precision=policy=mixed_bfloat16 --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_float16 --split-input-file | FileCheck %s --check-prefix=F16
// RUN: mpc-opt %s --mpc-assign-precision=policy=bfloat16 --split-input-file | FileCheck %s --check-prefix=PURE
// RUN: mpc-opt %s --mpc-assign-precision --split-input-file | FileCheck %s --check-prefix=F32
// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_bfloat16 --split-input-file --mlir-print-debuginfo | FileCheck %s --check-prefix=LOC

// Two dense layers: bias and activation run in f32 in the first one's kernel, one
// cast ends the chain; weights are rounded at compile time; the output is f32.
// CHECK-LABEL: func @dense
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<64x64xf32>
// CHECK-DAG: %[[XH:.*]] = mpc.cast %[[X]] : tensor<64x64xf32> to tensor<64x64xbf16>
// CHECK-DAG: %[[W:.*]] = mpc.constant dense<5.000000e-01> : tensor<64x64xbf16>
// CHECK-DAG: %[[B:.*]] = mpc.constant dense<2.500000e-01> : tensor<64xf32>
// CHECK: %[[M:.*]] = mpc.matmul %[[XH]], %[[W]] {mpc.decision = #mpc.decision<rule = "low", list = "mixed_bfloat16">} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
// CHECK: %[[A:.*]] = mpc.add %[[M]], %[[B]] {{.*}}rule = "follow"{{.*}} -> tensor<64x64xf32>
// CHECK: %[[R:.*]] = mpc.relu %[[A]] {{.*}}rule = "clear"{{.*}} : tensor<64x64xf32>
// CHECK: %[[H:.*]] = mpc.cast %[[R]] : tensor<64x64xf32> to tensor<64x64xbf16>
// CHECK: %[[O:.*]] = mpc.matmul %[[H]], %{{.*}} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
// CHECK: %[[S:.*]] = mpc.softmax %{{.*}} axis(1) {{.*}} : tensor<64x64xf32>
// CHECK: return %[[S]] : tensor<64x64xf32>
// F16-LABEL: func @dense
// F16: mpc.matmul {{.*}} : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf32>
// PURE-LABEL: func @dense
// PURE: mpc.add {{.*}} -> tensor<64x64xbf16>
// PURE: mpc.relu {{.*}} : tensor<64x64xbf16>
// PURE: mpc.softmax {{.*}} : tensor<64x64xf32>
// F32-LABEL: func @dense
// F32-NOT: mpc.cast
// F32: mpc.matmul {{.*}}rule = "high", list = "float32"{{.*}} -> tensor<64x64xf32>
// F32-NOT: mpc.cast
// F32: return
// LOC-LABEL: func @dense
// LOC: mpc.relu {{.*}} loc(#[[RELU:loc[0-9]*]])
// LOC: mpc.cast {{.*}} loc(#[[RELU]])
func.func @dense(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %w = mpc.constant dense<0.5> : tensor<64x64xf32>
  %b = mpc.constant dense<0.25> : tensor<64xf32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.add %0, %b : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  %2 = mpc.relu %1 : tensor<64x64xf32> loc("act")
  %3 = mpc.matmul %2, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = mpc.softmax %3 axis(1) : tensor<64x64xf32>
  return %4 : tensor<64x64xf32>
}

// -----

// One cast serves every contraction that reads a value.
// CHECK-LABEL: func @shared_cast
// CHECK: %[[H:.*]] = mpc.cast
// CHECK-NOT: mpc.cast
// CHECK: mpc.matmul %[[H]],
// CHECK: mpc.matmul %[[H]],
func.func @shared_cast(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %w = mpc.constant dense<0.5> : tensor<64x64xf32>
  %v = mpc.constant dense<0.25> : tensor<64x64xf32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.matmul %x, %v : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0, %1 : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// A residual is read by a norm, which computes in f32, and by an add: it is stored
// once in low precision, and each reader upcasts it.
// CHECK-LABEL: func @residual
// CHECK: %[[S:.*]] = mpc.add {{.*}}reason = "stored in 16 bits between kernels"
// CHECK: %[[H:.*]] = mpc.cast %[[S]] : tensor<64x64xf32> to tensor<64x64xbf16>
// CHECK: %[[W1:.*]] = mpc.cast %[[H]] : tensor<64x64xbf16> to tensor<64x64xf32>
// CHECK: mpc.layer_norm %[[W1]], {{.*}}rule = "high"
// CHECK: %[[W2:.*]] = mpc.cast %[[H]] : tensor<64x64xbf16> to tensor<64x64xf32>
// CHECK: mpc.add %{{.*}}, %[[W2]]
// F32-LABEL: func @residual
// F32-NOT: mpc.cast
// F32: return
func.func @residual(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %w = mpc.constant dense<0.5> : tensor<64x64xf32>
  %g = mpc.constant dense<1.0> : tensor<64xf32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.add %0, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = mpc.layer_norm %1, %g, %g axis(1) epsilon(1.0e-5) : (tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  %3 = mpc.matmul %2, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = mpc.add %3, %1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %4 : tensor<64x64xf32>
}

// -----

// Data movement takes the type in which its input is stored: no cast on the way
// from one contraction to the next.
// CHECK-LABEL: func @moves
// CHECK: mpc.matmul
// CHECK-NEXT: %[[H:.*]] = mpc.cast
// CHECK-NEXT: %[[R:.*]] = mpc.reshape %[[H]] {{.*}}rule = "clear"{{.*}} : tensor<64x64xbf16> to tensor<2x32x64xbf16>
// CHECK-NEXT: %[[T:.*]] = mpc.transpose %[[R]] {{.*}} to tensor<2x64x32xbf16>
// CHECK-NEXT: mpc.matmul %[[T]], %[[R]]
func.func @moves(%x: tensor<64x64xf32>) -> tensor<2x64x64xf32> {
  %w = mpc.constant dense<0.5> : tensor<64x64xf32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.reshape %0 : tensor<64x64xf32> to tensor<2x32x64xf32>
  %2 = mpc.transpose %1 [0, 2, 1] : tensor<2x32x64xf32> to tensor<2x64x32xf32>
  %3 = mpc.matmul %2, %1 : (tensor<2x64x32xf32>, tensor<2x32x64xf32>) -> tensor<2x64x64xf32>
  return %3 : tensor<2x64x64xf32>
}

// -----

// The source of an output's data movement stays f32; a contraction gets a separate cast.
// CHECK-LABEL: func @output_is_not_rounded
// CHECK: %[[M:.*]] = mpc.matmul {{.*}}reason = "a reader needs the unrounded value"
// CHECK-NEXT: %[[H:.*]] = mpc.cast %[[M]]
// CHECK-NEXT: %[[R:.*]] = mpc.reshape %[[M]] {{.*}} : tensor<64x64xf32> to tensor<4096xf32>
// CHECK-NEXT: mpc.matmul %[[H]],
// CHECK-NEXT: return %[[R]],
func.func @output_is_not_rounded(%x: tensor<64x64xf32>) -> (tensor<4096xf32>, tensor<64x64xf32>) {
  %w = mpc.constant dense<0.5> : tensor<64x64xf32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.reshape %0 : tensor<64x64xf32> to tensor<4096xf32>
  %2 = mpc.matmul %0, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %1, %2 : tensor<4096xf32>, tensor<64x64xf32>
}

// -----

// The mask of attention is no precision operand: -FLT_MAX would overflow f16.
// CHECK-LABEL: func @attention_mask
// CHECK: %[[M:.*]] = mpc.mul
// CHECK-NOT: mpc.cast %[[M]]
// CHECK: mpc.attention {{.*}} mask(%[[M]]) {{.*}} : (tensor<4x64x64xbf16>, tensor<4x64x64xbf16>, tensor<4x64x64xbf16>, tensor<64x64xf32>) -> tensor<4x64x64xf32>
func.func @attention_mask(%q: tensor<4x64x64xf32>, %m: tensor<64x64xf32>) -> tensor<4x64x64xf32> {
  %fill = mpc.constant dense<-3.40282347E+38> : tensor<f32>
  %0 = mpc.mul %m, %fill : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  %1 = mpc.attention %q, %q, %q mask(%0) scale(0.125) : (tensor<4x64x64xf32>, tensor<4x64x64xf32>, tensor<4x64x64xf32>, tensor<64x64xf32>) -> tensor<4x64x64xf32>
  return %1 : tensor<4x64x64xf32>
}

// -----

// A table that is only gathered from is rounded at compile time.
// CHECK-LABEL: func @embedding
// CHECK: mpc.constant dense<5.000000e-01> : tensor<100x64xbf16>
// CHECK: mpc.gather {{.*}} -> tensor<64x64xbf16>
// CHECK: mpc.cast {{.*}} : tensor<64x64xbf16> to tensor<64x64xf32>
// CHECK: mpc.layer_norm
func.func @embedding(%i: tensor<64xi64>) -> tensor<64x64xf32> {
  %w = mpc.constant dense<0.5> : tensor<100x64xf32>
  %g = mpc.constant dense<1.0> : tensor<64xf32>
  %0 = mpc.gather %w, %i axis(0) : (tensor<100x64xf32>, tensor<64xi64>) -> tensor<64x64xf32>
  %1 = mpc.layer_norm %0, %g, %g axis(1) epsilon(1.0e-5) : (tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}

// -----

// f64, integers, the model's own f16 and its pinned casts are unchanged.
// CHECK-LABEL: func @untouched
// CHECK: mpc.matmul %{{.*}}rule = "untouched"{{.*}}reason = "the model's own type"{{.*}} : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
// CHECK: mpc.matmul %{{.*}}rule = "untouched"{{.*}} -> tensor<8x8xf16>
// CHECK: mpc.cast %{{.*}} pinned {{.*}}rule = "pin"{{.*}} : tensor<8x8xf32> to tensor<8x8xf16>
// CHECK: mpc.add %{{.*}}rule = "untouched"{{.*}}reason = "no f32 value"{{.*}} -> tensor<8xi64>
// CHECK-NOT: mpc.cast
// CHECK: return
func.func @untouched(%d: tensor<8x8xf64>, %h: tensor<8x8xf16>, %f: tensor<8x8xf32>, %i: tensor<8xi64>) -> (tensor<8x8xf64>, tensor<8x8xf16>, tensor<8x8xf16>, tensor<8xi64>) {
  %0 = mpc.matmul %d, %d : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
  %1 = mpc.matmul %h, %h : (tensor<8x8xf16>, tensor<8x8xf16>) -> tensor<8x8xf16>
  %2 = mpc.cast %f pinned : tensor<8x8xf32> to tensor<8x8xf16>
  %3 = mpc.add %i, %i : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  return %0, %1, %2, %3 : tensor<8x8xf64>, tensor<8x8xf16>, tensor<8x8xf16>, tensor<8xi64>
}

// -----

// A value with two casts stays f32 before a pinned cast: the model's rounding
// starts from the unrounded value.
// CHECK-LABEL: func @pinned_after_matmul
// CHECK: %[[M:.*]] = mpc.matmul
// CHECK-NEXT: mpc.cast %[[M]] pinned
func.func @pinned_after_matmul(%x: tensor<64x64xf32>) -> tensor<64x64xf16> {
  %w = mpc.constant dense<0.5> : tensor<64x64xf32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.cast %0 pinned : tensor<64x64xf32> to tensor<64x64xf16>
  return %1 : tensor<64x64xf16>
}

// -----

// Recurrent cells multiply in low precision and keep bias and states in f32.
// CHECK-LABEL: func @recurrent
// CHECK: mpc.rnn {{.*}} : (tensor<4x2x8xbf16>, tensor<1x16x8xbf16>, tensor<1x16x16xbf16>, tensor<1x32xf32>) -> (tensor<4x1x2x16xf32>, tensor<1x2x16xf32>)
func.func @recurrent(%x: tensor<4x2x8xf32>) -> (tensor<4x1x2x16xf32>, tensor<1x2x16xf32>) {
  %w = mpc.constant dense<0.5> : tensor<1x16x8xf32>
  %r = mpc.constant dense<0.5> : tensor<1x16x16xf32>
  %b = mpc.constant dense<0.5> : tensor<1x32xf32>
  %0, %1 = mpc.rnn %x, %w, %r bias(%b) : (tensor<4x2x8xf32>, tensor<1x16x8xf32>, tensor<1x16x16xf32>, tensor<1x32xf32>) -> (tensor<4x1x2x16xf32>, tensor<1x2x16xf32>)
  return %0, %1 : tensor<4x1x2x16xf32>, tensor<1x2x16xf32>
}

// -----

// A sum with only a norm as reader stays f32; the norm's result is low-precision.
// CHECK-LABEL: func @sum_before_norm
// CHECK: %[[S:.*]] = mpc.add {{.*}}reason = "only norms and softmax read it"
// CHECK-NEXT: %[[N:.*]] = mpc.layer_norm %[[S]],
// CHECK-NEXT: mpc.cast %[[N]]
func.func @sum_before_norm(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %w = mpc.constant dense<0.5> : tensor<64x64xf32>
  %g = mpc.constant dense<1.0> : tensor<64xf32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.add %0, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = mpc.layer_norm %1, %g, %g axis(1) epsilon(1.0e-5) : (tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  %3 = mpc.matmul %2, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %3 : tensor<64x64xf32>
}
