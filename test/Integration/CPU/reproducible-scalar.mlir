// The sum of all elements has the bits of the flattened tensor's, whether a
// scalar or a vector is multiplied in its kernel or in one of its own, and gelu
// those of f32, whether its kernel rounds to f16 or not.
//
// RUN: mpc run %s --seed 3 --reproducible --isa avx2 --digest --quiet | grep sha256 > %t.fused
// RUN: sed 's/attributes {}/attributes {mpc.unfused}/' %s > %t.mlir
// RUN: mpc run %t.mlir --seed 3 --reproducible --isa avx2 --digest --quiet | grep sha256 | diff %t.fused -
func.func @main(%x: tensor<3x11x15xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %v: tensor<15xf32> {mpc.role = #mpc.role<input>, mpc.name = "v"})
    -> (tensor<f32> {mpc.role = #mpc.role<output>, mpc.name = "y"},
        tensor<3x1x1xf32> {mpc.role = #mpc.role<output>, mpc.name = "z"},
        tensor<3x11x15xf16> {mpc.role = #mpc.role<output>, mpc.name = "g"}) attributes {} {
  %three = mpc.constant dense<3.0> : tensor<f32>
  %0 = mpc.mul %x, %three : (tensor<3x11x15xf32>, tensor<f32>) -> tensor<3x11x15xf32>
  %1 = mpc.reduce_mean %0 axes([0, 1, 2]) : tensor<3x11x15xf32> -> tensor<f32>
  %2 = mpc.mul %x, %v : (tensor<3x11x15xf32>, tensor<15xf32>) -> tensor<3x11x15xf32>
  %3 = mpc.reduce_mean %2 axes([1, 2]) keep_dims : tensor<3x11x15xf32> -> tensor<3x1x1xf32>
  %4 = mpc.gelu %x : tensor<3x11x15xf32>
  %5 = mpc.cast %4 : tensor<3x11x15xf32> to tensor<3x11x15xf16>
  return %1, %3, %5 : tensor<f32>, tensor<3x1x1xf32>, tensor<3x11x15xf16>
}
