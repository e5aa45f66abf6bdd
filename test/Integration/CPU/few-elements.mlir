// A sum that cancels to one number: the bound on its rounding error is the typical error, not the
// single sample of the storage-rounding mode.

// RUN: mpc check %s --seed 2 | FileCheck %s
// CHECK: {{^}}y {{.*}} ok{{$}}
// CHECK: all checks held

func.func @main(%x: tensor<1x45xf32> {mpc.name = "x", mpc.role = #mpc.role<input>}, %w: tensor<45x1xf32> {mpc.name = "w", mpc.role = #mpc.role<input>}) -> (tensor<1x1xf32> {mpc.name = "y", mpc.role = #mpc.role<output>}) {
  %0 = mpc.matmul %x, %w : (tensor<1x45xf32>, tensor<45x1xf32>) -> tensor<1x1xf32>
  return %0 : tensor<1x1xf32>
}
