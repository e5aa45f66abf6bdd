// RUN: mpc-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: exe.program @main target("cpu:avx512") arena(128)
// CHECK: exe.argument @x : tensor<4xf32> input(0) name("input.1") role(<input>)
// CHECK: exe.result @y : tensor<4xf32> output(0) name("y")
// CHECK: exe.constant @w dense<1.000000e+00> : tensor<4xf32>
// CHECK: exe.launch @k_add kind(elementwise) ops(["layer/Add"]) flops(4) bytes(48) (read @x, read @w, write arena[64 : 16])
// CHECK: exe.launch @k_relu kind(elementwise) ops([]) flops(4) bytes(32) (read arena[64 : 16], write @y) {mpc.layer = "layer"}
exe.program @main target("cpu:avx512") arena(128) {
  exe.argument @x : tensor<4xf32> input(0) name("input.1") role(#mpc.role<input>)
  exe.result @y : tensor<4xf32> output(0) name("y")
  exe.constant @w dense<1.0> : tensor<4xf32>
  exe.launch @k_add kind(elementwise) ops(["layer/Add"]) flops(4) bytes(48) (read @x, read @w, write arena[64 : 16])
  exe.launch @k_relu kind(elementwise) ops([]) flops(4) bytes(32) (read arena[64 : 16], write @y) {mpc.layer = "layer"}
}

// A program may compute nothing.
// CHECK-LABEL: exe.program @empty target("cpu:avx512") arena(0)
exe.program @empty target("cpu:avx512") arena(0) {
}

// A result may alias an argument's buffer, and an argument may have an initial value.
// CHECK-LABEL: exe.program @step
// CHECK: exe.argument @w : tensor<4xf32> input(0) name("w") role(<parameter>) initial(dense<1.000000e+00> : tensor<4xf32>)
// CHECK: exe.result @w1 : tensor<4xf32> output(0) name("w") role(<parameter>) alias(@w)
exe.program @step target("cpu:avx512") arena(0) {
  exe.argument @w : tensor<4xf32> input(0) name("w") role(#mpc.role<parameter>) initial(dense<1.0> : tensor<4xf32>)
  exe.result @w1 : tensor<4xf32> output(0) name("w") role(#mpc.role<parameter>) alias(@w)
  exe.launch @update kind(update) ops([]) flops(4) bytes(32) (read @w, write @w1)
}

// An argument that no launch writes keeps its contents.
exe.program @kept target("cpu:avx512") arena(0) {
  exe.argument @w : tensor<4xf32> input(0) name("w")
  exe.result @w1 : tensor<4xf32> output(0) name("w") alias(@w)
}

// Rows appended to an argument are a slice of the aliasing result; the rows before
// them are the argument's.
// CHECK-LABEL: exe.program @append
// CHECK: exe.launch @rows kind(elementwise) ops([]) flops(0) bytes(0) (read @x, write @after[64 : 16])
// CHECK: exe.launch @sum kind(reduce) ops([]) flops(0) bytes(0) (read @after, write @y)
exe.program @append target("cpu:avx512") arena(0) {
  exe.argument @x : tensor<4xf32> input(0) name("x")
  exe.argument @cache : tensor<20xf32> input(1) name("cache")
  exe.result @after : tensor<20xf32> output(0) name("after") alias(@cache)
  exe.result @y : tensor<f32> output(1) name("y")
  exe.launch @rows kind(elementwise) ops([]) flops(0) bytes(0) (read @x, write @after[64 : 16])
  exe.launch @sum kind(reduce) ops([]) flops(0) bytes(0) (read @after, write @y)
}
