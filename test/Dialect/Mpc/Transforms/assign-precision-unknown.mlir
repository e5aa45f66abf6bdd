// RUN: split-file %s %t && cd %t
// RUN: mpc-opt model.mlir --mpc-assign-precision=policy=unknown.json 2>&1 | FileCheck model.mlir
// RUN: mpc-opt model.mlir --mpc-assign-precision=policy=known.json 2>&1 | FileCheck model.mlir --check-prefix=KNOWN

//--- unknown.json
{"name": "mine", "extends": "mixed_float16",
 "products": {"a": "float16", "b": "float16", "c": "float32"},
 "values": {"d": "narrow", "a": "float32"},
 "weights": {"names": {"e": "int8"}}}
//--- known.json
{"name": "mine", "extends": "mixed_float16", "products": {"a": "float16"},
 "values": {"a": "float32", "z": "float32"}, "weights": {"names": {"a": "int8"}}}

//--- model.mlir
// One warning for each list, at the function, with the first unknown name; names
// in any function are known.
// CHECK: model.mlir:[[@LINE+7]]:1: warning: policy 'mine' names 'b' and 1 more under products, which match no op; mpc explain lists the names of a model
// CHECK-NEXT: func.func @main
// CHECK: warning: policy 'mine' names 'd' under values, which match no op; mpc explain lists the names of a model
// CHECK: warning: policy 'mine' names 'e' under weights.names, which match no op; mpc explain lists the names of a model
// CHECK-NOT: warning
// KNOWN-NOT: warning
// KNOWN: mpc.matmul
func.func @main(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = mpc.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32> loc("a")
  return %0 : tensor<2x2xf32>
}
func.func @other(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = mpc.tanh %x : tensor<2x2xf32> loc("z")
  return %0 : tensor<2x2xf32>
}
