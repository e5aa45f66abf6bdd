// The error of rounding a constant at compile time is recorded with the constant.
// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_float16 --split-input-file 2>/dev/null | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_float16 --split-input-file 2>&1 >/dev/null | FileCheck %s --check-prefix=WARN
// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_float16 --split-input-file 2>/dev/null | mpc-opt --split-input-file | FileCheck %s

// Only values that become infinite are warned about while compiling.
// WARN: constant 'large' in 'f16': 1 of 2 values become infinite; override the op that reads them with float32
// WARN-NOT: warning

// The errors are relative to the root mean square of the values; exact values
// have none.
// CHECK-LABEL: @exact
// CHECK: mpc.constant {{.*}}{mpc.narrowing = #mpc.narrowing<count = 2, overflowed = 0, flushed = 0, max_error = 0.000000e+00 : f64, rms_error = 0.000000e+00 : f64>}
func.func @exact(%x: tensor<4x2xf32>) -> tensor<4x1xf32> {
  %w = mpc.constant dense<[[1.0], [-0.5]]> : tensor<2x1xf32>
  %0 = mpc.matmul %x, %w : (tensor<4x2xf32>, tensor<2x1xf32>) -> tensor<4x1xf32>
  return %0 : tensor<4x1xf32>
}

// -----

// CHECK-LABEL: @overflow
// CHECK: #mpc.narrowing<count = 2, overflowed = 1, flushed = 0
func.func @overflow(%x: tensor<4x2xf32>) -> tensor<4x1xf32> {
  %w = mpc.constant dense<[[7.0e4], [1.0]]> : tensor<2x1xf32> loc("large")
  %0 = mpc.matmul %x, %w : (tensor<4x2xf32>, tensor<2x1xf32>) -> tensor<4x1xf32>
  return %0 : tensor<4x1xf32>
}

// -----

// Every element of a splat counts.
// CHECK-LABEL: @flush
// CHECK: #mpc.narrowing<count = 6, overflowed = 0, flushed = 6, max_error = 1.000000e+00 : f64, rms_error = 1.000000e+00 : f64>
func.func @flush(%x: tensor<4x6xf32>) -> tensor<4x1xf32> {
  %w = mpc.constant dense<1.0e-9> : tensor<6x1xf32>
  %0 = mpc.matmul %x, %w : (tensor<4x6xf32>, tensor<6x1xf32>) -> tensor<4x1xf32>
  return %0 : tensor<4x1xf32>
}

// -----

// A constant with f32 readers only is unchanged.
// CHECK-LABEL: @wide
// CHECK-NOT: mpc.narrowing
// CHECK: return
func.func @wide(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %w = mpc.constant dense<7.0e4> : tensor<f32>
  %0 = mpc.exp %x : tensor<4x2xf32>
  %1 = mpc.mul %0, %w : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  return %1 : tensor<4x2xf32>
}
