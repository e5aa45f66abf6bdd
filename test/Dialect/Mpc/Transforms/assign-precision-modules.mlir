// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=name:first=float32" -o %t.first.mlir
// RUN: FileCheck %s < %t.first.mlir
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=layer:b/.*=float32" | FileCheck %s --check-prefix=LAYER
// RUN: not mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=name:third=float32" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: mpc-opt %t.first.mlir --mpc-assign-precision="policy=mixed_float16 set=name:first=float32" | diff - %t.first.mlir
// RUN: not mpc-opt %t.first.mlir --mpc-assign-precision="policy=mixed_float16" 2>&1 | FileCheck %s --check-prefix=SET
// RUN: not mpc-opt %t.first.mlir --mpc-assign-precision="policy=mixed_bfloat16 set=name:first=float32" 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not mpc-opt %t.first.mlir --mpc-set-target=target=cuda:sm_80 --mpc-assign-precision="policy=mixed_float16 set=name:first=float32" 2>&1 | FileCheck %s --check-prefix=TARGET

// The same name with other contents.
// RUN: mkdir -p %t.a %t.b
// RUN: echo '{"name": "own", "extends": "mixed_float16"}' > %t.a/own.json
// RUN: echo '{"name": "own", "extends": "mixed_float16", "classes": {"low": ["tanh"]}}' > %t.b/own.json
// RUN: mpc-opt %s --mpc-assign-precision="policy=%t.a/own.json" -o %t.own.mlir
// RUN: not mpc-opt %t.own.mlir --mpc-assign-precision="policy=%t.b/own.json" 2>&1 | FileCheck %s --check-prefix=CONTENTS

// An override has to match an op of the module, not of every function; one that
// matches none is reported once.
// CHECK-LABEL: func.func @f(
// CHECK: mpc.matmul {{.*}}override = "name:first=float32"{{.*}} : (tensor<8x8xf32>
// CHECK-LABEL: func.func @g(
// CHECK: mpc.matmul {{.*}} : (tensor<8x8xf16>
// LAYER-LABEL: func.func @f(
// LAYER: mpc.matmul {{.*}} : (tensor<8x8xf16>
// LAYER-LABEL: func.func @g(
// LAYER: mpc.matmul {{.*}}override = "layer:b/.*=float32"{{.*}} : (tensor<8x8xf32>
// NONE: error: override 'name:third=float32' matches no op; mpc explain lists the names and layers of a model
// NONE-NOT: error:

// Types that were assigned once are not reassigned with other settings.
// SET: first.mlir:2:3: error: the types of the graph are already assigned, by a different set (["name:first=float32"], not []); apply it to the graph before Precision
// POLICY: error: the types of the graph are already assigned, by a different policy ("mixed_float16", not "mixed_bfloat16"); apply it to the graph before Precision
// TARGET: error: the types of the graph are already assigned, by a different target ("cpu:avx512", not "cuda:sm_80"); apply it to the graph before Precision
// CONTENTS: error: the types of the graph are already assigned, by a different version of policy 'own'; apply it to the graph before Precision
func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = mpc.matmul %x, %x {mpc.layer = "a/1"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("first")
  return %0 : tensor<8x8xf32>
}
func.func @g(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = mpc.matmul %x, %x {mpc.layer = "b/1"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("second")
  return %0 : tensor<8x8xf32>
}
