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
// CHECK-LABEL: exe.program @empty target("null") arena(0)
exe.program @empty target("null") arena(0) {
}
