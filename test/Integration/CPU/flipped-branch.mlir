// An element that is exactly 0 in float64 and not 0 in 16 bits, since a branch falls otherwise. It
// permits no error elsewhere: the tolerance stays below the terms of the elements.

// RUN: rm -rf %t && %python %S/../Inputs/make_arrays.py %t
// RUN: sed 's/1.0, 1.0, 1.0e6/1.0, 5.0, 1.0e6/' %s > %t/wrong.mlir
// RUN: mpc run %t/wrong.mlir --input x=%t/x.npy --output %t/wrong.npz
// RUN: mpc check %s --input x=%t/x.npy --policy mixed_bfloat16 --json \
// RUN:   | %python %S/../Inputs/query.py "d['ok']" "d['outputs'][0]['max_abs_error'] > 1" "d['outputs'][0]['componentwise_tolerance'] < 1" "d['outputs'][0]['largest_tolerance'] < 1" | FileCheck %s
// CHECK-COUNT-4: True
// RUN: %python %S/../Inputs/exits.py 4 mpc check %s --input x=%t/x.npy --expected %t/wrong.npz --policy mixed_bfloat16 | FileCheck %s --check-prefix=WRONG
// WRONG: y: element [{{[0-3]}}, 2] is off by 5.33 where the magnitude of its terms is

func.func @main(%x: tensor<4x8xf32> {mpc.name = "x", mpc.role = #mpc.role<input>})
    -> (tensor<4x4xf32> {mpc.name = "y", mpc.role = #mpc.role<output>}) {
  %w = mpc.constant dense<0.333333> : tensor<8x4xf32>
  %limit = mpc.constant dense<[1.3345, 0.0, 0.0, 0.0]> : tensor<4xf32>
  %scale = mpc.constant dense<[1.0, 1.0, 1.0, 1.0e6]> : tensor<4xf32>
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.compare gt %0, %limit : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xi1>
  %2 = mpc.select %1, %0, %zero : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %3 = mpc.mul %2, %scale : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}
