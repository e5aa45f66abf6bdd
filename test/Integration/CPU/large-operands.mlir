// Scales of operands multiply a sum in an order that overflows and underflows only if the result does.
// RUN: split-file %s %t
// RUN: mpc check %t/large.mlir --policy float8_current | FileCheck %s
// RUN: mpc check %t/large.mlir --policy %t/rows.json | FileCheck %s
// RUN: mpc check %t/large.mlir --policy float8_current --device cuda-host --target cuda:sm_89 | FileCheck %s
// RUN: sed 's/1.0e36/1.0e-33/; s/1.0e-36/1.0e35/' %t/large.mlir > %t/small.mlir
// RUN: mpc check %t/small.mlir --policy float8_current | FileCheck %s
// RUN: mpc check %t/small.mlir --policy %t/rows.json | FileCheck %s
// CHECK: {{^}}y {{.*}} ok
// CHECK: all checks held
//--- rows.json
{"name": "rows", "extends": "mixed_bfloat16", "operands": {"scaling": "row", "forward": "int8"}}
//--- large.mlir
func.func @main(%x: tensor<16x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<16x32xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %f = mpc.constant dense<1.0e36> : tensor<f32>
  %a = mpc.mul %x, %f : (tensor<16x64xf32>, tensor<f32>) -> tensor<16x64xf32>
  %w = mpc.constant dense<1.0e-36> : tensor<64x32xf32>
  %y = mpc.matmul %a, %w : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32> loc("product")
  return %y : tensor<16x32xf32>
}
