// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx2 --mpc-plan --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_90a --mpc-plan --split-input-file | FileCheck %s --check-prefix=GPU

// A parameter and its state are updated in place: the update reads each element before
// writing it. The state's initial value is stored with the argument.
// CHECK-LABEL: exe.program @update target("cpu:avx2") arena(0)
// CHECK: exe.argument @w : tensor<4xf32> input(0) name("w") role(<parameter>) initial(dense<1.000000e+00> : tensor<4xf32>)
// CHECK: exe.argument @w.momentum : tensor<4xf32> input(1) name("w.momentum") role(<optimizer_state>)
// CHECK: exe.argument @g : tensor<4xf32> input(2)
// CHECK: exe.result @w_1 : tensor<4xf32> output(0) name("w") role(<parameter>) alias(@w)
// CHECK: exe.result @w.momentum_1 : tensor<4xf32> output(1) name("w.momentum") role(<optimizer_state>) alias(@w.momentum)
// CHECK: exe.launch @k_sgd {{.*}}(read @w, read @w.momentum, read @g, write @w_1, write @w.momentum_1)
// CHECK-NOT: exe.launch
// CHECK: func.func private @k_sgd{{.*}}exe.in_place = array<i64: 0, 1>
func.func @update(%w: tensor<4xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w", mpc.initial = dense<1.0> : tensor<4xf32>},
                  %m: tensor<4xf32> {mpc.role = #mpc.role<optimizer_state>, mpc.name = "w.momentum"},
                  %g: tensor<4xf32> {mpc.name = "g"})
    -> (tensor<4xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w", mpc.alias = 0 : i64},
        tensor<4xf32> {mpc.role = #mpc.role<optimizer_state>, mpc.name = "w.momentum", mpc.alias = 1 : i64}) {
  %0:2 = mpc.fusion kind(update) name("sgd") (%a = %w : tensor<4xf32>, %b = %m : tensor<4xf32>, %c = %g : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %n = mpc.add %b, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %v = mpc.sub %a, %n : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %v, %n : tensor<4xf32>, tensor<4xf32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// A state that a kernel reads at other indices than it writes is copied at the end.
// CHECK-LABEL: exe.program @reversed target("cpu:avx2") arena(64)
// CHECK: exe.launch @k_f {{.*}}(read @s, write arena[0 : 16])
// CHECK: exe.launch @k_copy {{.*}}(read arena[0 : 16], write @s_1)
// CHECK-NOT: exe.in_place
func.func @reversed(%s: tensor<4xf32> {mpc.name = "s"}) -> (tensor<4xf32> {mpc.name = "s", mpc.alias = 0 : i64}) {
  %0 = mpc.fusion kind(elementwise) name("f") (%a = %s : tensor<4xf32>) -> tensor<4xf32> {
    %r = mpc.reverse %a axes([0]) : tensor<4xf32>
    mpc.yield %r : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// A state that the same kernel reads for a result of another shape is copied too.
// CHECK-LABEL: exe.program @broadcast target("cpu:avx2")
// CHECK: exe.launch @k_f {{.*}}(read @s, write arena[0 : 16], write @y)
// CHECK: exe.launch @k_copy {{.*}}(read arena[0 : 16], write @s_1)
func.func @broadcast(%s: tensor<4xf32> {mpc.name = "s"})
    -> (tensor<4xf32> {mpc.name = "s", mpc.alias = 0 : i64}, tensor<2x4xf32> {mpc.name = "y"}) {
  %0:2 = mpc.fusion kind(elementwise) name("f") (%a = %s : tensor<4xf32>) -> (tensor<4xf32>, tensor<2x4xf32>) {
    %r = mpc.exp %a : tensor<4xf32>
    %b = mpc.broadcast %a : tensor<4xf32> to tensor<2x4xf32>
    mpc.yield %r, %b : tensor<4xf32>, tensor<2x4xf32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<2x4xf32>
}

// -----

// The update is moved after the last kernel that reads the old weights.
// CHECK-LABEL: exe.program @late target("cpu:avx2") arena(0)
// CHECK: exe.launch @k_use {{.*}}(read @w, read @x, write @y)
// CHECK-NEXT: exe.launch @k_step {{.*}}(read @w, write @w_1)
// CHECK-NOT: exe.launch
func.func @late(%w: tensor<4xf32> {mpc.name = "w"}, %x: tensor<4xf32> {mpc.name = "x"})
    -> (tensor<4xf32> {mpc.name = "w", mpc.alias = 0 : i64}, tensor<4xf32> {mpc.name = "y"}) {
  %0 = mpc.fusion kind(update) name("step") (%a = %w : tensor<4xf32>) -> tensor<4xf32> {
    %r = mpc.neg %a : tensor<4xf32>
    mpc.yield %r : tensor<4xf32>
  }
  %1 = mpc.fusion kind(elementwise) name("use") (%a = %w : tensor<4xf32>, %b = %x : tensor<4xf32>) -> tensor<4xf32> {
    %r = mpc.mul %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %r : tensor<4xf32>
  }
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Where the reader needs the new weights too, it cannot run first: the new weights are buffered.
// CHECK-LABEL: exe.program @both target("cpu:avx2") arena(64)
// CHECK: exe.launch @k_step {{.*}}(read @w, write arena[0 : 16])
// CHECK: exe.launch @k_use {{.*}}(read @w, read arena[0 : 16], write @y)
// CHECK: exe.launch @k_copy {{.*}}(read arena[0 : 16], write @w_1)
func.func @both(%w: tensor<4xf32> {mpc.name = "w"})
    -> (tensor<4xf32> {mpc.name = "w", mpc.alias = 0 : i64}, tensor<4xf32> {mpc.name = "y"}) {
  %0 = mpc.fusion kind(update) name("step") (%a = %w : tensor<4xf32>) -> tensor<4xf32> {
    %r = mpc.neg %a : tensor<4xf32>
    mpc.yield %r : tensor<4xf32>
  }
  %1 = mpc.fusion kind(elementwise) name("use") (%a = %w : tensor<4xf32>, %b = %0 : tensor<4xf32>) -> tensor<4xf32> {
    %r = mpc.mul %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %r : tensor<4xf32>
  }
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// An unchanged state costs nothing. Old contents that are returned are copied
// before they are overwritten; of two states that are swapped, one is
// buffered in the arena.
// CHECK-LABEL: exe.program @old target("cpu:avx2")
// CHECK: exe.launch @k_copy {{.*}}(read @a, write @before)
// CHECK: exe.launch @k_f {{.*}}(read @a, write @a_1)
// CHECK-NOT: exe.launch
func.func @old(%a: tensor<4xf32> {mpc.name = "a"}, %b: tensor<4xf32> {mpc.name = "b"})
    -> (tensor<4xf32> {mpc.name = "a", mpc.alias = 0 : i64}, tensor<4xf32> {mpc.name = "b", mpc.alias = 1 : i64},
        tensor<4xf32> {mpc.name = "before"}) {
  %0 = mpc.fusion kind(elementwise) name("f") (%p = %a : tensor<4xf32>) -> tensor<4xf32> {
    %r = mpc.exp %p : tensor<4xf32>
    mpc.yield %r : tensor<4xf32>
  }
  return %0, %b, %a : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: exe.program @swap target("cpu:avx2") arena(64)
// CHECK: exe.launch @k_copy {{.*}}(read @b, write arena[0 : 16])
// CHECK: exe.launch @k_copy {{.*}}(read @a, write @b_1)
// CHECK: exe.launch @k_copy {{.*}}(read arena[0 : 16], write @a_1)
// CHECK-NOT: exe.launch
func.func @swap(%a: tensor<4xf32> {mpc.name = "a"}, %b: tensor<4xf32> {mpc.name = "b"})
    -> (tensor<4xf32> {mpc.name = "a", mpc.alias = 0 : i64}, tensor<4xf32> {mpc.name = "b", mpc.alias = 1 : i64}) {
  return %b, %a : tensor<4xf32>, tensor<4xf32>
}

// -----

// In a program that replaces arguments, kernels also overwrite dead operands where peak
// memory is reached: the chain needs one buffer.
// CHECK-LABEL: exe.program @dying target("cpu:avx2") arena(1024)
// CHECK: exe.launch @k_f {{.*}}(read @x, write arena[0 : 1024])
// CHECK: exe.launch @k_g {{.*}}(read arena[0 : 1024], write arena[0 : 1024])
// CHECK: exe.launch @k_h {{.*}}(read arena[0 : 1024], read @s, write @s_1)
// CHECK: func.func private @k_f
// CHECK-NOT: exe.in_place
// CHECK: func.func private @k_g{{.*}}exe.in_place = array<i64: 0>
// CHECK: func.func private @k_h{{.*}}exe.in_place = array<i64: 1>
func.func @dying(%x: tensor<256xf32> {mpc.name = "x"}, %s: tensor<256xf32> {mpc.name = "s"})
    -> (tensor<256xf32> {mpc.name = "s", mpc.alias = 1 : i64}) {
  %0 = mpc.fusion kind(elementwise) name("f") (%p = %x : tensor<256xf32>) -> tensor<256xf32> {
    %r = mpc.exp %p : tensor<256xf32>
    mpc.yield %r : tensor<256xf32>
  }
  %1 = mpc.fusion kind(elementwise) name("g") (%p = %0 : tensor<256xf32>) -> tensor<256xf32> {
    %r = mpc.log %p : tensor<256xf32>
    mpc.yield %r : tensor<256xf32>
  }
  %2 = mpc.fusion kind(elementwise) name("h") (%p = %1 : tensor<256xf32>, %q = %s : tensor<256xf32>) -> tensor<256xf32> {
    %r = mpc.add %p, %q : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
    mpc.yield %r : tensor<256xf32>
  }
  return %2 : tensor<256xf32>
}

// -----

// A scalar that all elements read is updated by the same kernel on a GPU, where the last-arriving
// block stores it, and by a copy on a CPU, where work items do not synchronize.
// CHECK-LABEL: exe.program @counter
// CHECK: exe.launch @k_adam {{.*}}(read @w, read @step, write @w_1, write arena[0 : 8])
// CHECK: exe.launch @k_copy {{.*}}(read arena[0 : 8], write @step_1)
// GPU-LABEL: exe.program @counter
// GPU: exe.launch @k_adam {{.*}}(read @w, read @step, write @w_1, write @step_1)
// GPU-NOT: exe.launch
// GPU: exe.in_place = array<i64: 0, 1>
func.func @counter(%w: tensor<4xf32> {mpc.name = "w"}, %step: tensor<i64> {mpc.name = "step"})
    -> (tensor<4xf32> {mpc.name = "w", mpc.alias = 0 : i64}, tensor<i64> {mpc.name = "step", mpc.alias = 1 : i64}) {
  %one = mpc.constant dense<1> : tensor<i64>
  %0:2 = mpc.fusion kind(update) name("adam") (%a = %w : tensor<4xf32>, %b = %step : tensor<i64>) -> (tensor<4xf32>, tensor<i64>) {
    %c = mpc.constant dense<1> : tensor<i64>
    %n = mpc.add %b, %c : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %f = mpc.cast %n : tensor<i64> to tensor<f32>
    %v = mpc.div %a, %f : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    mpc.yield %v, %n : tensor<4xf32>, tensor<i64>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<i64>
}

// -----

// The origin of a gradient does not matter, only how the state itself is read.
// CHECK-LABEL: exe.program @part
// CHECK: exe.launch @k_f {{.*}}(read @w, read @g, write @w_1)
// CHECK-NOT: exe.launch
func.func @part(%w: tensor<4xf32> {mpc.name = "w"}, %g: tensor<2x4xf32> {mpc.name = "g"})
    -> (tensor<4xf32> {mpc.name = "w", mpc.alias = 0 : i64}) {
  %0 = mpc.fusion kind(update) name("f") (%a = %w : tensor<4xf32>, %b = %g : tensor<2x4xf32>) -> tensor<4xf32> {
    %s = mpc.slice %b [1, 0] [1, 4] : tensor<2x4xf32> to tensor<1x4xf32>
    %r = mpc.reshape %s : tensor<1x4xf32> to tensor<4xf32>
    %v = mpc.sub %a, %r : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %v : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// A slice of the state itself is read at other indices.
// CHECK-LABEL: exe.program @own_part
// CHECK: exe.launch @k_f {{.*}}(read @w, write arena[0 : 16])
// CHECK: exe.launch @k_copy {{.*}}write @w_1)
func.func @own_part(%w: tensor<2x2xf32> {mpc.name = "w"}) -> (tensor<2x2xf32> {mpc.name = "w", mpc.alias = 0 : i64}) {
  %0 = mpc.fusion kind(update) name("f") (%a = %w : tensor<2x2xf32>) -> tensor<2x2xf32> {
    %s = mpc.slice %a [1, 0] [1, 2] : tensor<2x2xf32> to tensor<1x2xf32>
    %v = mpc.sub %a, %s : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
    mpc.yield %v : tensor<2x2xf32>
  }
  return %0 : tensor<2x2xf32>
}

// -----

// An update may sum its gradient first: every element's sum is computed by its reader. A sum
// that several elements read is computed before, so other indices are read than written.
// CHECK-LABEL: exe.program @sums
// CHECK: exe.launch @k_bias {{.*}}(read @b, read @g, write @b_1)
// CHECK: exe.launch @k_mean {{.*}}(read @c, read @g, write arena[0 : 16])
// CHECK: exe.launch @k_copy {{.*}}(read arena[0 : 16], write @c_1)
func.func @sums(%b: tensor<4xf32> {mpc.name = "b"}, %c: tensor<4xf32> {mpc.name = "c"}, %g: tensor<8x4xf32> {mpc.name = "g"})
    -> (tensor<4xf32> {mpc.name = "b", mpc.alias = 0 : i64}, tensor<4xf32> {mpc.name = "c", mpc.alias = 1 : i64}) {
  %0 = mpc.fusion kind(update) name("bias") (%p = %b : tensor<4xf32>, %q = %g : tensor<8x4xf32>) -> tensor<4xf32> {
    %s = mpc.reduce_sum %q axes([0]) : tensor<8x4xf32> -> tensor<4xf32>
    %v = mpc.sub %p, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %v : tensor<4xf32>
  }
  %1 = mpc.fusion kind(update) name("mean") (%p = %c : tensor<4xf32>, %q = %g : tensor<8x4xf32>) -> tensor<4xf32> {
    %s = mpc.reduce_sum %q axes([0, 1]) : tensor<8x4xf32> -> tensor<f32>
    %v = mpc.sub %p, %s : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    mpc.yield %v : tensor<4xf32>
  }
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Rows appended to an argument are written into its aliasing result; nothing of the argument is
// copied, and consumers of all rows read the result.
// CHECK-LABEL: exe.program @append target("cpu:avx2") arena(0)
// CHECK: exe.result @after : tensor<6x16xf32> output(0) name("after") alias(@cache)
// CHECK: exe.launch @k_rows {{.*}}(read @x, write @after[256 : 128])
// CHECK: exe.launch @k_sum {{.*}}(read @after, write @y)
// CHECK-NOT: exe.launch
func.func @append(%x: tensor<2x16xf32> {mpc.name = "x"}, %cache: tensor<6x16xf32> {mpc.name = "cache"})
    -> (tensor<6x16xf32> {mpc.name = "after", mpc.alias = 1 : i64}, tensor<16xf32> {mpc.name = "y"}) {
  %rows = mpc.fusion kind(elementwise) name("rows") (%a = %x : tensor<2x16xf32>) -> tensor<2x16xf32> {
    %r = mpc.relu %a : tensor<2x16xf32>
    mpc.yield %r : tensor<2x16xf32>
  }
  %old = mpc.slice %cache [0, 0] [4, 16] : tensor<6x16xf32> to tensor<4x16xf32>
  %all = mpc.concat %old, %rows axis(0) : (tensor<4x16xf32>, tensor<2x16xf32>) -> tensor<6x16xf32>
  %sum = mpc.fusion kind(reduce) name("sum") (%a = %all : tensor<6x16xf32>) -> tensor<16xf32> {
    %r = mpc.reduce_sum %a axes([0]) : tensor<6x16xf32> -> tensor<16xf32>
    mpc.yield %r : tensor<16xf32>
  }
  return %all, %sum : tensor<6x16xf32>, tensor<16xf32>
}
