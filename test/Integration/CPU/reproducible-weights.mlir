// A reproducible matmul has the same bits with a constant weight and with one that
// is computed, as in a training step, also where tiles do not fill.
// RUN: mpc run %s --policy mixed_bfloat16 --isa amx --emulate-units --reproducible --digest --json --quiet | FileCheck %s
// RUN: mpc run %s --policy mixed_bfloat16 --isa avx512bf16 --emulate-units --reproducible --digest --json --quiet | FileCheck %s
// CHECK: "constant":"[[DIGEST:[0-9a-f]+]]","computed":"[[DIGEST]]"

func.func @main(%x: tensor<32x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %y: tensor<1xf32> {mpc.role = #mpc.role<input>, mpc.name = "y"})
    -> (tensor<32x4xf32> {mpc.role = #mpc.role<output>, mpc.name = "constant"},
        tensor<32x4xf32> {mpc.role = #mpc.role<output>, mpc.name = "computed"}) {
  %w = mpc.constant dense<[[0.3, -0.7, 1.9, 0.01], [1.1, 0.23, -0.4, 2.7], [-3.1, 0.77, 0.6, -0.9], [0.13, 5.3, -1.7, 0.37],
                           [0.91, -0.17, 0.47, 1.3], [-2.3, 0.059, 0.83, -0.71], [0.67, 1.7, -0.29, 0.43], [0.019, -1.3, 3.7, 0.53]]> : tensor<8x4xf32>
  %zero = mpc.constant dense<0.0> : tensor<1xf32>
  %nothing = mpc.mul %y, %zero : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %v = mpc.add %w, %nothing : (tensor<8x4xf32>, tensor<1xf32>) -> tensor<8x4xf32>
  %0 = mpc.matmul %x, %w : (tensor<32x8xf32>, tensor<8x4xf32>) -> tensor<32x4xf32>
  %1 = mpc.matmul %x, %v : (tensor<32x8xf32>, tensor<8x4xf32>) -> tensor<32x4xf32>
  return %0, %1 : tensor<32x4xf32>, tensor<32x4xf32>
}
