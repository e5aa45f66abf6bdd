// RUN: mpc-translate --mpc-to-cuda %s | FileCheck %s

module attributes {gpu.container_module} {
gpu.module @kernels {

// Loop-carried values are variables, and their update is one statement.
// CHECK-LABEL: MPC_KERNEL(1) void carried_sum(
// CHECK-NEXT:     const float *__restrict__ x,
// CHECK-NEXT:     float *__restrict__ y) {
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   float sum = 0.0f;
// CHECK-NEXT:   for (int i = 0; i < 64; ++i) {
// CHECK-NEXT:     float loaded = x[i];
// CHECK-NEXT:     sum += loaded * loaded;
// CHECK-NEXT:   }
// CHECK-NEXT:   y[0] = sum;
// CHECK-NEXT: }
gpu.func @carried_sum(%x: memref<64xf32>, %y: memref<1xf32>) kernel
    attributes {known_block_size = array<i32: 1, 1, 1>, mpc.inputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %sum = scf.for %i = %c0 to %c64 step %c1 iter_args(%s = %zero) -> (f32) {
    %v = memref.load %x[%i] : memref<64xf32>
    %square = arith.mulf %v, %v : f32
    %next = arith.addf %s, %square : f32
    scf.yield %next : f32
  }
  memref.store %sum, %y[%c0] : memref<1xf32>
  gpu.return
}

// A nested loop continues with the variable of the outer loop; both may be
// unrolled, partially where the attribute has a number.
// CHECK-LABEL: MPC_KERNEL(1) void nested(
// CHECK-NEXT:     const float *__restrict__ x,
// CHECK-NEXT:     float *__restrict__ y) {
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   float largest = -mpc::infinity();
// CHECK-NEXT:   #pragma unroll 4
// CHECK-NEXT:   for (int i = 0; i < 8; ++i) {
// CHECK-NEXT:     #pragma unroll
// CHECK-NEXT:     for (int j = 0; j < 8; ++j) {
// CHECK-NEXT:       largest = mpc::maximum(largest, x[i * 8 + j]);
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   y[0] = largest;
// CHECK-NEXT: }
gpu.func @nested(%x: memref<8x8xf32>, %y: memref<1xf32>) kernel
    attributes {known_block_size = array<i32: 1, 1, 1>, mpc.inputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %low = arith.constant 0xFF800000 : f32
  %top = scf.for %i = %c0 to %c8 step %c1 iter_args(%a = %low) -> (f32) {
    %row = scf.for %j = %c0 to %c8 step %c1 iter_args(%b = %a) -> (f32) {
      %v = memref.load %x[%i, %j] : memref<8x8xf32>
      %m = arith.maximumf %b, %v : f32
      scf.yield %m : f32
    } {mpc.unroll}
    scf.yield %row : f32
  } {mpc.unroll = 4 : i64}
  memref.store %top, %y[%c0] : memref<1xf32>
  gpu.return
}

// Swapped values are read before they are written.
// CHECK-LABEL: MPC_KERNEL(1) void exchange(float *__restrict__ y) {
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   float value = 1.0f;
// CHECK-NEXT:   float value2 = 2.0f;
// CHECK-NEXT:   for (int i = 0; i < 3; ++i) {
// CHECK-NEXT:     float next = value;
// CHECK-NEXT:     value = value2;
// CHECK-NEXT:     value2 = next;
// CHECK-NEXT:   }
// CHECK-NEXT:   y[0] = value;
// CHECK-NEXT:   y[1] = value2;
// CHECK-NEXT: }
gpu.func @exchange(%y: memref<2xf32>) kernel
    attributes {known_block_size = array<i32: 1, 1, 1>, mpc.inputs = 0 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %r:2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %one, %b = %two) -> (f32, f32) {
    scf.yield %b, %a : f32, f32
  }
  memref.store %r#0, %y[%c0] : memref<2xf32>
  memref.store %r#1, %y[%c1] : memref<2xf32>
  gpu.return
}

// Only two operands make an update: the order of three is that of the IR.
// CHECK-LABEL: void association(
// CHECK:         float loaded = x[i];
// CHECK-NEXT:    sum = sum + (loaded < 0.0f ? 0.0f : loaded) + loaded;
gpu.func @association(%x: memref<64xf32>, %y: memref<1xf32>) kernel
    attributes {known_block_size = array<i32: 1, 1, 1>, mpc.inputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %sum = scf.for %i = %c0 to %c64 step %c1 iter_args(%s = %zero) -> (f32) {
    %v = memref.load %x[%i] : memref<64xf32>
    %negative = arith.cmpf olt, %v, %zero : f32
    %positive = arith.select %negative, %zero, %v : f32
    %p = arith.addf %s, %positive : f32
    %q = arith.addf %p, %v : f32
    scf.yield %q : f32
  }
  memref.store %sum, %y[%c0] : memref<1xf32>
  gpu.return
}

// A branch with a result; a value that one branch leaves unchanged needs no else.
// CHECK-LABEL: MPC_KERNEL(64) void branches(
// CHECK-NEXT:     const float *__restrict__ x,
// CHECK-NEXT:     float *__restrict__ y) {
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   float sum = 0.0f;
// CHECK-NEXT:   for (int i = 0; i < 64; ++i) {
// CHECK-NEXT:     float loaded = x[i];
// CHECK-NEXT:     if (loaded > 0.0f) {
// CHECK-NEXT:       sum += loaded;
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   bool condition = mpc::threadX() == 0;
// CHECK-NEXT:   float value;
// CHECK-NEXT:   if (condition) {
// CHECK-NEXT:     value = mpc::exp(sum);
// CHECK-NEXT:   } else {
// CHECK-NEXT:     value = -sum;
// CHECK-NEXT:   }
// CHECK-NEXT:   if (condition) {
// CHECK-NEXT:     y[0] = value;
// CHECK-NEXT:   }
// CHECK-NEXT: }
gpu.func @branches(%x: memref<64xf32>, %y: memref<2xf32>) kernel
    attributes {known_block_size = array<i32: 64, 1, 1>, mpc.inputs = 1 : i64} {
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %count = scf.for %i = %c0 to %c64 step %c1 iter_args(%s = %zero) -> (f32) {
    %v = memref.load %x[%i] : memref<64xf32>
    %positive = arith.cmpf ogt, %v, %zero : f32
    %next = scf.if %positive -> (f32) {
      %more = arith.addf %s, %v : f32
      scf.yield %more : f32
    } else {
      scf.yield %s : f32
    }
    scf.yield %next : f32
  }
  %first = arith.cmpi eq, %t, %c0 : index
  %which = scf.if %first -> (f32) {
    %e = cuda.call "exp"(%count) : (f32) -> f32
    scf.yield %e : f32
  } else {
    %n = arith.negf %count : f32
    scf.yield %n : f32
  }
  scf.if %first {
    memref.store %which, %y[%c0] : memref<2xf32>
  }
  gpu.return
}

// CHECK-LABEL: MPC_KERNEL(1) void while_loop(int *__restrict__ y) {
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   int product = 1;
// CHECK-NEXT:   while (product < 100) {
// CHECK-NEXT:     product = mpc::multiply(product, 3);
// CHECK-NEXT:   }
// CHECK-NEXT:   y[0] = product;
// CHECK-NEXT: }
gpu.func @while_loop(%y: memref<1xi32>) kernel
    attributes {known_block_size = array<i32: 1, 1, 1>, mpc.inputs = 0 : i64} {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : i32
  %three = arith.constant 3 : i32
  %limit = arith.constant 100 : i32
  %r = scf.while (%n = %one) : (i32) -> i32 {
    %small = arith.cmpi slt, %n, %limit : i32
    scf.condition(%small) %n : i32
  } do {
  ^bb0(%n: i32):
    %next = arith.muli %n, %three : i32
    scf.yield %next : i32
  }
  memref.store %r, %y[%c0] : memref<1xi32>
  gpu.return
}

}
}
