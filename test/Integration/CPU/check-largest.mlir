// One of 262,144 elements is wrong by its terms. The rms under 16-bit types does not show it, the
// largest error does.

// RUN: rm -rf %t && %python %S/../Inputs/make_arrays.py %t
// RUN: sed 's/dense<0.0>/dense<5.0>/' %s > %t/wrong.mlir
// RUN: mpc run %t/wrong.mlir --input x=%t/ramp.npy --output %t/wrong.npz
// RUN: mpc check %s --input x=%t/ramp.npy --policy mixed_bfloat16 --quiet | FileCheck %s --check-prefix=RIGHT
// RIGHT: all checks held
// RUN: %python %S/../Inputs/exits.py 4 mpc check %s --input x=%t/ramp.npy --expected %t/wrong.npz --policy mixed_bfloat16 --json \
// RUN:   | %python %S/../Inputs/query.py "d['outputs'][0]['ok']" "d['expected'][0]['componentwise_error'] < d['expected'][0]['componentwise_tolerance']" "d['expected'][0]['reason']" | FileCheck %s
// CHECK-COUNT-2: True
// CHECK: element [7, 77] is off by 5{{.*}}; relative to its terms, the error is {{.*}} and the tolerance of one element

func.func @main(%x: tensor<64x64xf32> {mpc.name = "x", mpc.role = #mpc.role<input>})
    -> (tensor<64x4096xf32> {mpc.name = "y", mpc.role = #mpc.role<output>}) {
  %step = mpc.constant dense<1.7> : tensor<f32>
  %half = mpc.constant dense<0.125> : tensor<f32>
  %at = mpc.iota axis(0) : tensor<262144xf32>
  %angle = mpc.mul %at, %step : (tensor<262144xf32>, tensor<f32>) -> tensor<262144xf32>
  %wave = mpc.sin %angle : tensor<262144xf32>
  %small = mpc.mul %wave, %half : (tensor<262144xf32>, tensor<f32>) -> tensor<262144xf32>
  %w = mpc.reshape %small : tensor<262144xf32> to tensor<64x4096xf32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x4096xf32>) -> tensor<64x4096xf32>
  %row = mpc.constant dense<7> : tensor<i64>
  %column = mpc.constant dense<77> : tensor<i64>
  %rows = mpc.iota axis(0) : tensor<64x1xi64>
  %columns = mpc.iota axis(1) : tensor<1x4096xi64>
  %1 = mpc.compare eq %rows, %row : (tensor<64x1xi64>, tensor<i64>) -> tensor<64x1xi1>
  %2 = mpc.compare eq %columns, %column : (tensor<1x4096xi64>, tensor<i64>) -> tensor<1x4096xi1>
  %3 = mpc.and %1, %2 : (tensor<64x1xi1>, tensor<1x4096xi1>) -> tensor<64x4096xi1>
  %error = mpc.constant dense<0.0> : tensor<f32>
  %4 = mpc.add %0, %error : (tensor<64x4096xf32>, tensor<f32>) -> tensor<64x4096xf32>
  %5 = mpc.select %3, %4, %0 : (tensor<64x4096xi1>, tensor<64x4096xf32>, tensor<64x4096xf32>) -> tensor<64x4096xf32>
  return %5 : tensor<64x4096xf32>
}
