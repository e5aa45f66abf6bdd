// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx2 --mpc-plan --split-input-file | FileCheck %s

// Results are written in place, the value between the kernels is in the arena,
// the reshape is free, and the two equal bodies share a kernel.
// CHECK-LABEL: exe.program @main target("cpu:avx2") arena(128)
// CHECK-DAG: exe.argument @x : tensor<4x8xf32> input(0) name("x") role(<input>)
// CHECK-DAG: exe.result @y : tensor<8x4xf32> output(0) name("y") role(<output>)
// CHECK-DAG: exe.constant @bias dense<{{.*}}> : tensor<8xf32>
// CHECK: exe.launch @k_add kind(elementwise) ops(["a/Add", "a/Exp"]) flops(288) bytes(288) (read @x, read @bias, write arena[0 : 128])
// CHECK: exe.launch @k_relu kind(elementwise) ops(["Relu"]) flops(32) bytes(256) (read arena[0 : 128], write @y)
// CHECK-NOT: exe.launch
// CHECK: func.func private @k_add(%{{.+}}: tensor<4x8xf32>, %{{.+}}: tensor<8xf32>) -> tensor<4x8xf32> attributes {mpc.kernel_kind = {{.*}}elementwise
// CHECK: func.func private @k_relu
func.func @main(%x: tensor<4x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"}) -> (tensor<8x4xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %b = mpc.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32> loc("bias")
  %0 = mpc.fusion kind(elementwise) name("add") (%p = %x : tensor<4x8xf32>, %q = %b : tensor<8xf32>) -> tensor<4x8xf32> {
    %s = mpc.add %p, %q : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> loc("a/Add")
    %e = mpc.exp %s : tensor<4x8xf32> loc("a/Exp")
    mpc.yield %e : tensor<4x8xf32>
  }
  %1 = mpc.reshape %0 : tensor<4x8xf32> to tensor<8x4xf32>
  %2 = mpc.fusion kind(elementwise) name("relu") (%p = %1 : tensor<8x4xf32>) -> tensor<8x4xf32> {
    %r = mpc.relu %p : tensor<8x4xf32> loc("Relu")
    mpc.yield %r : tensor<8x4xf32>
  }
  return %2 : tensor<8x4xf32>
}

// -----

// Buffers of dead values are reused: a chain needs two.
// CHECK-LABEL: exe.program @chain target("cpu:avx2") arena(2048)
// CHECK: exe.launch @k_f kind(elementwise) {{.*}}(read @arg0, write arena[0 : 1024])
// CHECK: exe.launch @k_f kind(elementwise) {{.*}}(read arena[0 : 1024], write arena[1024 : 1024])
// CHECK: exe.launch @k_f kind(elementwise) {{.*}}(read arena[1024 : 1024], write arena[0 : 1024])
// CHECK: exe.launch @k_f kind(elementwise) {{.*}}(read arena[0 : 1024], write @out0)
// CHECK: func.func private @k_f
// CHECK-NOT: func.func
func.func @chain(%x: tensor<256xf32>) -> tensor<256xf32> {
  %0 = mpc.fusion kind(elementwise) name("f") (%p = %x : tensor<256xf32>) -> tensor<256xf32> {
    %r = mpc.exp %p : tensor<256xf32>
    mpc.yield %r : tensor<256xf32>
  }
  %1 = mpc.fusion kind(elementwise) name("g") (%p = %0 : tensor<256xf32>) -> tensor<256xf32> {
    %r = mpc.exp %p : tensor<256xf32>
    mpc.yield %r : tensor<256xf32>
  }
  %2 = mpc.fusion kind(elementwise) name("h") (%p = %1 : tensor<256xf32>) -> tensor<256xf32> {
    %r = mpc.exp %p {mpc.layer = "other"} : tensor<256xf32>
    mpc.yield %r : tensor<256xf32>
  }
  %3 = mpc.fusion kind(elementwise) name("i") (%p = %2 : tensor<256xf32>) -> tensor<256xf32> {
    %r = mpc.exp %p : tensor<256xf32>
    mpc.yield %r : tensor<256xf32>
  }
  return %3 : tensor<256xf32>
}

// -----

// An argument that is returned, and a value that is returned twice, are copied.
// CHECK-LABEL: exe.program @copies
// CHECK: exe.launch @k_f {{.*}}(read @arg0, write @out0)
// CHECK: exe.launch @k_copy kind(elementwise) ops([]) flops(0) bytes(32) (read @out0, write @out1)
// CHECK: exe.launch @k_copy kind(elementwise) ops([]) flops(0) bytes(32) (read @arg0, write @out2)
// CHECK: func.func private @k_copy(%[[ARG:.+]]: tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: return %[[ARG]]
func.func @copies(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = mpc.fusion kind(elementwise) name("f") (%p = %x : tensor<4xf32>) -> tensor<4xf32> {
    %r = mpc.exp %p : tensor<4xf32>
    mpc.yield %r : tensor<4xf32>
  }
  return %0, %0, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Operands of a concat are computed in place in its buffer; a slice is an offset.
// Only the gathered rows of a table count as bytes.
// CHECK-LABEL: exe.program @parts target("cpu:avx2") arena(192)
// CHECK: exe.launch @k_rows {{.*}} bytes(272) (read @arg0, read @arg1, write arena[0 : 128])
// CHECK: exe.launch @k_exp {{.*}}(read @arg2, write arena[128 : 64])
// CHECK: exe.launch @k_all {{.*}}(read arena[0 : 192], write @out0)
// CHECK: exe.launch @k_copy {{.*}}(read arena[64 : 64], write @out1)
func.func @parts(%t: tensor<100x16xf32>, %i: tensor<2xi64>, %x: tensor<1x16xf32>) -> (tensor<3x16xf32>, tensor<1x16xf32>) {
  %0 = mpc.fusion kind(elementwise) name("rows") (%p = %t : tensor<100x16xf32>, %q = %i : tensor<2xi64>) -> tensor<2x16xf32> {
    %r = mpc.gather %p, %q axis(0) : (tensor<100x16xf32>, tensor<2xi64>) -> tensor<2x16xf32>
    mpc.yield %r : tensor<2x16xf32>
  }
  %1 = mpc.fusion kind(elementwise) name("exp") (%p = %x : tensor<1x16xf32>) -> tensor<1x16xf32> {
    %r = mpc.exp %p : tensor<1x16xf32>
    mpc.yield %r : tensor<1x16xf32>
  }
  %2 = mpc.concat %0, %1 axis(0) : (tensor<2x16xf32>, tensor<1x16xf32>) -> tensor<3x16xf32>
  %3 = mpc.fusion kind(elementwise) name("all") (%p = %2 : tensor<3x16xf32>) -> tensor<3x16xf32> {
    %r = mpc.neg %p : tensor<3x16xf32>
    mpc.yield %r : tensor<3x16xf32>
  }
  %4 = mpc.slice %2 [1, 0] [1, 16] : tensor<3x16xf32> to tensor<1x16xf32>
  return %3, %4 : tensor<3x16xf32>, tensor<1x16xf32>
}
