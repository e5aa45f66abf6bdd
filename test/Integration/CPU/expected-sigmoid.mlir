// Another system's sigmoid, (1 + tanh(x/2)) / 2, has an absolute error, large near 0 relative to the
// value. Its file holds; one that is off by more does not.

// RUN: rm -rf %t && %python %S/../Inputs/make_arrays.py %t
// RUN: sed -e '/mpc.sigmoid/d' -e 's,// TANH ,,' %s > %t/other.mlir
// RUN: mpc run %t/other.mlir --input x=%t/ramp.npy --output %t/other.npz
// RUN: sed -e '/mpc.sigmoid/d' -e 's,// TANH ,,' -e 's/dense<0.5>/dense<0.50001>/' %s > %t/wrong.mlir
// RUN: mpc run %t/wrong.mlir --input x=%t/ramp.npy --output %t/wrong.npz
// RUN: mpc run %s --input x=%t/ramp.npy --output %t/own.npz
// RUN: mpc check %s --input x=%t/ramp.npy --expected %t/other.npz | FileCheck %s --check-prefix=HELD
// RUN: mpc check %s --input x=%t/ramp.npy --expected %t/own.npz | FileCheck %s --check-prefix=HELD
// HELD: all checks held
// RUN: %python %S/../Inputs/exits.py 4 mpc check %s --input x=%t/ramp.npy --expected %t/wrong.npz | FileCheck %s --check-prefix=WRONG
// WRONG: the check did not hold

func.func @main(%x: tensor<64x64xf32> {mpc.name = "x", mpc.role = #mpc.role<input>})
    -> (tensor<64x64xf32> {mpc.name = "y", mpc.role = #mpc.role<output>}) {
  %scale = mpc.constant dense<-10.0> : tensor<f32>
  %z = mpc.mul %x, %scale : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %y = mpc.sigmoid %z : tensor<64x64xf32>
  // TANH %a = mpc.mul %z, %half : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  // TANH %b = mpc.tanh %a : tensor<64x64xf32>
  // TANH %c = mpc.mul %b, %half : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  // TANH %y = mpc.add %c, %half : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
