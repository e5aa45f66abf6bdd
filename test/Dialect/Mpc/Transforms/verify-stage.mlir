// RUN: mpc-opt %s --mpc-verify-stage=stage=import | FileCheck %s
// RUN: mpc-opt %s --mpc-verify-stage=stage=simplify | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_bfloat16 --mpc-verify-stage=stage=precision | FileCheck %s --check-prefix=PRECISION
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 set=op:softmax=bfloat16" --mpc-verify-stage=stage=precision | FileCheck %s --check-prefix=OVERRIDE

// A graph that fulfils a contract is not changed.
// CHECK: mpc.matmul
// CHECK: mpc.softmax
// PRECISION: mpc.softmax {{.*}} : tensor<4x4xf32>
// OVERRIDE: mpc.softmax {{.*}} : tensor<4x4xbf16>
func.func @main(%x: tensor<4x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"}) -> (tensor<4x4xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w = mpc.constant dense<0.5> : tensor<4x4xf32>
  %0 = mpc.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.softmax %0 axis(1) : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
