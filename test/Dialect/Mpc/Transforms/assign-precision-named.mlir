// A policy assigns types to single matmuls and values by name, and uses calibrated
// ranges.

// RUN: echo '{"name": "named", "extends": "mixed_float16", "compute": "float32", "store": "float16", "products": {"a": "float16", "b": "tf32", "c": "bfloat16"}, "values": {"t": "narrow", "u": "float32"}}' > %t.json
// RUN: mpc-opt %s --mpc-assign-precision="policy=%t.json target=cuda:sm_80" | FileCheck %s
// RUN: echo '{"name": "ranges", "extends": "mixed_float16", "ranges": {"t": {"largest": 7e4, "largest_sample": "s.npz"}}}' > %t.ranges.json
// RUN: mpc-opt %s --mpc-assign-precision="policy=%t.ranges.json remarks" 2> %t.remarks | FileCheck %s --check-prefix=RANGES
// RUN: FileCheck %s --check-prefix=REMARKS < %t.remarks
// RUN: echo '{"name": "other", "extends": "mixed_float16", "model": "0123"}' > %t.other.json
// RUN: mpc-opt %s --mpc-assign-precision="policy=%t.other.json" 2>&1 | FileCheck %s --check-prefix=OTHER

// A model with in-place state extends the calibrated model, and is matched by its names.
// RUN: echo '{"name": "kept", "extends": "mixed_float16", "model": "0123", "ranges": {"a": {"largest": 2}, "t": {"largest": 1}, "gone": {"largest": 3}}}' > %t.kept.json
// RUN: sed 's/-> tensor<64x64xf32> {$/-> (tensor<64x64xf32> {mpc.alias = 0 : i64}) {/' %s > %t.kept.mlir
// RUN: mpc-opt %t.kept.mlir --mpc-assign-precision="policy=%t.kept.json" 2>&1 | FileCheck %s --check-prefix=KEPT
// RUN: mpc-opt %s --mpc-assign-precision="policy=%t.kept.json" 2>&1 | FileCheck %s --check-prefix=UNKEPT
// RUN: sed 's/loc("[a-z]")//' %t.kept.mlir > %t.nameless.mlir
// RUN: mpc-opt %t.nameless.mlir --mpc-assign-precision="policy=%t.kept.json" 2>&1 | FileCheck %s --check-prefix=UNKEPT
// KEPT-NOT: another model
// UNKEPT: warning: policy 'kept' has names and ranges of another model

// Matmuls without a named entry have the policy's type, f32 here.
// CHECK-LABEL: func.func @main
// CHECK: mpc.matmul {{.*}}reason = "the policy sets the type of this op by name"{{.*}}(tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf32>
// CHECK: %[[T:.*]] = mpc.tanh
// CHECK: %[[N:.*]] = mpc.cast %[[T]] : tensor<64x64xf32> to tensor<64x64xf16>
// CHECK: mpc.matmul {{.*}}compute(tf32)
// CHECK: %[[U:.*]] = mpc.tanh
// CHECK-NOT: mpc.cast %[[U]] : tensor<64x64xf32> to tensor<64x64xf16>
// CHECK: mpc.matmul {{.*}}(tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
// CHECK: mpc.matmul {{.*}}(tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>

// RANGES: mpc.matmul {{.*}}(tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf32>
// RANGES: mpc.matmul {{.*}}reason = "'t' reaches 70000 in sample 's.npz', which f16 rounds to inf"{{.*}}(tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
// REMARKS: 't' reaches 70000 in sample 's.npz', which f16 rounds to inf

// OTHER: warning: policy 'other' has names and ranges of another model or of an older version of this one, so they may not apply; tune or calibrate again

func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %w = mpc.constant dense<0.3> : tensor<64x64xf32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("a")
  %1 = mpc.tanh %0 : tensor<64x64xf32> loc("t")
  %2 = mpc.matmul %1, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("b")
  %3 = mpc.add %2, %1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = mpc.tanh %3 : tensor<64x64xf32> loc("u")
  %5 = mpc.matmul %4, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("c")
  %6 = mpc.add %5, %4 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %7 = mpc.matmul %6, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("d")
  return %7 : tensor<64x64xf32>
}
