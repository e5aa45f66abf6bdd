// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=op:sub=float16" 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=WARN < %t.err
// RUN: not mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=layer:pos=float16" 2>&1 | FileCheck %s --check-prefix=LAYER
// RUN: not mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=op:learning_rate=float16" 2>&1 | FileCheck %s --check-prefix=BOOKKEEPING
// RUN: not mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=layer:own=float32" 2>&1 | FileCheck %s --check-prefix=OWN
// RUN: not mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=layer:index=float16" 2>&1 | FileCheck %s --check-prefix=IDLE
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=op:cast=float16" 2>&1 | FileCheck %s --check-prefix=CASTS
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=layer:.*=float16" 2>&1 | FileCheck %s --check-prefix=ALL

// An override of a kind or layer in which some ops do not support the type: the others
// take it, a warning reports it, and the decisions of those ops name the override.
// WARN: :[[#@LINE+20]]:8: warning: override 'op:sub=float16' forces float16 on 'sub', whose values are integers that 16 bits would round; drop it (obeyed by 1 of 2 ops that it applies to)
// CHECK: mpc.sub {{.*}}rule = "high", list = "mixed_float16", override = "op:sub=float16", reason = "forces float16 on 'sub', whose values are integers{{.*}} -> tensor<1024xf32>
// CHECK: mpc.sub {{.*}}rule = "override", list = "mixed_float16", override = "op:sub=float16">{{.*}} -> tensor<1024xf16>
// ALL: warning: override 'layer:.*=float16' forces float16 on 'sub', {{.*}} (obeyed by 1 of 3 ops that it applies to)

// Where none can, it is an error at the first.
// LAYER: :[[#@LINE+14]]:8: error: override 'layer:pos=float16' forces float16 on 'sub', whose values are integers that 16 bits would round; drop it
// BOOKKEEPING: error: override 'op:learning_rate=float16' forces float16 on 'learning_rate', which does the bookkeeping of a training step in float32; drop it
// OWN: error: override 'layer:own=float32' contradicts the model, where 'relu' computes in 'f64'; drop the override or change the model

// A layer that holds no op with a type to set is a mistake, a kind may be absent.
// IDLE: error: override 'layer:index=float16' matches no op with a type to set; mpc explain lists the names and layers of a model
// CASTS: warning: override 'op:cast=float16' matches no op with a type to set
func.func @main(%x: tensor<1024xf32>, %t: tensor<i64>, %wide: tensor<8xf64>)
    -> (tensor<1024xf32>, tensor<f32>, tensor<8xf64>, tensor<i64>) {
  %two = mpc.constant dense<2.0> : tensor<f32>
  %p = mpc.iota axis(0) : tensor<1024xi64>
  %f = mpc.cast %p : tensor<1024xi64> to tensor<1024xf32>
  %i = mpc.add %t, %t {mpc.layer = "index"} : (tensor<i64>, tensor<i64>) -> tensor<i64>
  // Positions here, an activation below.
  %0 = mpc.sub %two, %f {mpc.layer = "pos"} : (tensor<f32>, tensor<1024xf32>) -> tensor<1024xf32>
  %1 = mpc.mul %0, %x : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %2 = mpc.sub %1, %x {mpc.layer = "sum"} : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %lr = mpc.learning_rate %t base(0.1) : tensor<i64> -> tensor<f32>
  %own = mpc.relu %wide {mpc.layer = "own"} : tensor<8xf64>
  return %2, %lr, %own, %i : tensor<1024xf32>, tensor<f32>, tensor<8xf64>, tensor<i64>
}
