// A residual stream is a running sum: it stays in f32 where the accumulated rounding
// errors would outweigh the error of its addends.
// RUN: mpc-opt %s --split-input-file --mpc-assign-precision="policy=mixed_bfloat16 remarks" 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t.remarks
// RUN: mpc-opt %s --split-input-file --mpc-assign-precision=policy=mixed_float16 | sed s/f16/bf16/g | FileCheck %s

// Residual blocks whose outputs are small relative to the stream.
// CHECK-LABEL: func.func @small_blocks
// CHECK: %[[A:.*]] = mpc.add %arg0, {{.*}}reason = "an accumulation, whose rounding errors would add up"{{.*}} -> tensor<256x64xf32>
// CHECK-NOT: mpc.cast %[[A]]
// CHECK: %[[B:.*]] = mpc.add %[[A]], {{.*}} -> tensor<256x64xf32>
// CHECK-NOT: mpc.cast %[[B]]
// CHECK: %[[C:.*]] = mpc.add %[[B]],
// CHECK-NOT: mpc.cast %[[C]]
// CHECK: mpc.add %[[C]],
// REMARK: stored in 'f32': storing it in bf16 would save 98304 bytes, but round once per 3 accumulation steps, an error that costs more
func.func @small_blocks(%x: tensor<256x64xf32>) -> tensor<256x64xf32> {
  %s = mpc.constant dense<1.0> : tensor<64xf32>
  %w = mpc.constant dense<0.01> : tensor<64x64xf32>
  %n0 = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-6) : (tensor<256x64xf32>, tensor<64xf32>) -> tensor<256x64xf32>
  %f0 = mpc.matmul %n0, %w : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
  %x1 = mpc.add %x, %f0 : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<256x64xf32>
  %n1 = mpc.rms_norm %x1, %s axis(1) epsilon(1.0e-6) : (tensor<256x64xf32>, tensor<64xf32>) -> tensor<256x64xf32>
  %f1 = mpc.matmul %n1, %w : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
  %x2 = mpc.add %x1, %f1 : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<256x64xf32>
  %n2 = mpc.rms_norm %x2, %s axis(1) epsilon(1.0e-6) : (tensor<256x64xf32>, tensor<64xf32>) -> tensor<256x64xf32>
  %f2 = mpc.matmul %n2, %w : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
  %x3 = mpc.add %x2, %f2 : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<256x64xf32>
  %n3 = mpc.rms_norm %x3, %s axis(1) epsilon(1.0e-6) : (tensor<256x64xf32>, tensor<64xf32>) -> tensor<256x64xf32>
  %f3 = mpc.matmul %n3, %w : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
  %x4 = mpc.add %x3, %f3 : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<256x64xf32>
  return %x4 : tensor<256x64xf32>
}

// -----

// Blocks whose own error dominates the rounding errors.
// CHECK-LABEL: func.func @large_blocks
// CHECK: %[[A:.*]] = mpc.add %arg0, {{.*}}reason = "stored in 16 bits between kernels"
// CHECK-NEXT: mpc.cast %[[A]] : tensor<256x64xf32> to tensor<256x64xbf16>
// CHECK: return
func.func @large_blocks(%x: tensor<256x64xf32>) -> tensor<256x64xf32> {
  %s = mpc.constant dense<1.0> : tensor<64xf32>
  %w = mpc.constant dense<0.3> : tensor<64x64xf32>
  %n0 = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-6) : (tensor<256x64xf32>, tensor<64xf32>) -> tensor<256x64xf32>
  %f0 = mpc.matmul %n0, %w : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
  %x1 = mpc.add %x, %f0 : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<256x64xf32>
  %n1 = mpc.rms_norm %x1, %s axis(1) epsilon(1.0e-6) : (tensor<256x64xf32>, tensor<64xf32>) -> tensor<256x64xf32>
  %f1 = mpc.matmul %n1, %w : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
  %x2 = mpc.add %x1, %f1 : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<256x64xf32>
  %n2 = mpc.rms_norm %x2, %s axis(1) epsilon(1.0e-6) : (tensor<256x64xf32>, tensor<64xf32>) -> tensor<256x64xf32>
  %f2 = mpc.matmul %n2, %w : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
  %x3 = mpc.add %x2, %f2 : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<256x64xf32>
  return %x3 : tensor<256x64xf32>
}

// -----

// A sum that is normalized before the next addition is rounded once.
// CHECK-LABEL: func.func @normalised
// CHECK-NOT: a running sum
// CHECK: return
func.func @normalised(%x: tensor<256x64xf32>) -> tensor<256x64xf32> {
  %s = mpc.constant dense<1.0> : tensor<64xf32>
  %w = mpc.constant dense<0.01> : tensor<64x64xf32>
  %f0 = mpc.matmul %x, %w : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
  %x1 = mpc.add %x, %f0 : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<256x64xf32>
  %n1 = mpc.rms_norm %x1, %s axis(1) epsilon(1.0e-6) : (tensor<256x64xf32>, tensor<64xf32>) -> tensor<256x64xf32>
  %f1 = mpc.matmul %n1, %w : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
  %x2 = mpc.add %n1, %f1 : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<256x64xf32>
  %n2 = mpc.rms_norm %x2, %s axis(1) epsilon(1.0e-6) : (tensor<256x64xf32>, tensor<64xf32>) -> tensor<256x64xf32>
  %f2 = mpc.matmul %n2, %w : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
  %x3 = mpc.add %n2, %f2 : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<256x64xf32>
  return %x3 : tensor<256x64xf32>
}
