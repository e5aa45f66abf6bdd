// RUN: mpc-translate --mpc-to-cuda %s | FileCheck %s

module attributes {gpu.container_module} {
gpu.module @kernels {

// Operators in the order of the IR: rounding depends on the parentheses.
// CHECK-LABEL: MPC_KERNEL(1) void order(const float *__restrict__ x, float *__restrict__ y) {
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   y[0] = x[0] + (x[1] + x[2]);
// CHECK-NEXT:   y[1] = -((x[0] - x[1]) * 0.5f);
// CHECK-NEXT:   y[2] = mpc::fma(x[3], 0.33333334f, x[2]);
// CHECK-NEXT: }
gpu.func @order(%x: memref<4xf32>, %y: memref<4xf32>) kernel
    attributes {known_block_size = array<i32: 1, 1, 1>, mpc.inputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %a = memref.load %x[%c0] : memref<4xf32>
  %b = memref.load %x[%c1] : memref<4xf32>
  %c = memref.load %x[%c2] : memref<4xf32>
  %bc = arith.addf %b, %c : f32
  %abc = arith.addf %a, %bc : f32
  memref.store %abc, %y[%c0] : memref<4xf32>
  %d = memref.load %x[%c0] : memref<4xf32>
  %e = memref.load %x[%c1] : memref<4xf32>
  %half = arith.constant 0.5 : f32
  %de = arith.subf %d, %e : f32
  %scaled = arith.mulf %de, %half : f32
  %n = arith.negf %scaled : f32
  memref.store %n, %y[%c1] : memref<4xf32>
  %f = memref.load %x[%c3] : memref<4xf32>
  %g = memref.load %x[%c2] : memref<4xf32>
  %third = arith.constant 0.333333343 : f32
  %m = math.fma %f, %third, %g : f32
  memref.store %m, %y[%c2] : memref<4xf32>
  gpu.return
}

// 16-bit floats are for storage.
// CHECK-LABEL: MPC_KERNEL(1) void casts(
// CHECK-NEXT:     const mpc::bfloat16 *__restrict__ x,
// CHECK-NEXT:     const long long *__restrict__ x2,
// CHECK-NEXT:     mpc::half *__restrict__ y,
// CHECK-NEXT:     int *__restrict__ y2) {
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   y[0] = mpc::toHalf(mpc::toFloat(x[0]));
// CHECK-NEXT:   y2[0] = mpc::toInteger<int>(mpc::toFloat(x[1]));
// CHECK-NEXT:   y2[1] = static_cast<int>(x2[0]);
// CHECK-NEXT:   int value =
// CHECK-NEXT:       mpc::bitcast<int>(static_cast<float>(x2[static_cast<int>(x2[1])]));
// CHECK-NEXT:   y2[2] = value;
// CHECK-NEXT: }
gpu.func @casts(%x: memref<4xbf16>, %n: memref<4xi64>, %y: memref<4xf16>, %z: memref<4xi32>) kernel
    attributes {known_block_size = array<i32: 1, 1, 1>, mpc.inputs = 2 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %v = memref.load %x[%c0] : memref<4xbf16>
  %w = arith.extf %v : bf16 to f32
  %h = arith.truncf %w : f32 to f16
  memref.store %h, %y[%c0] : memref<4xf16>
  %v2 = memref.load %x[%c1] : memref<4xbf16>
  %w2 = arith.extf %v2 : bf16 to f32
  %i = arith.fptosi %w2 : f32 to i32
  memref.store %i, %z[%c0] : memref<4xi32>
  %l = memref.load %n[%c0] : memref<4xi64>
  %s = arith.trunci %l : i64 to i32
  memref.store %s, %z[%c1] : memref<4xi32>
  %l2 = memref.load %n[%c1] : memref<4xi64>
  %at = arith.index_cast %l2 : i64 to index
  %there = memref.load %n[%at] : memref<4xi64>
  %f = arith.sitofp %there : i64 to f32
  %bits = arith.bitcast %f : f32 to i32
  memref.store %bits, %z[%c2] : memref<4xi32>
  gpu.return
}

// Data wraps around, indices do not; only data may be negative.
// CHECK-LABEL: MPC_KERNEL(32) void integers(
// CHECK-NEXT:     const int *__restrict__ x,
// CHECK-NEXT:     int *__restrict__ y,
// CHECK-NEXT:     signed char *__restrict__ y2) {
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   int thread = mpc::threadX();
// CHECK-NEXT:   int index = thread / 4;
// CHECK-NEXT:   int index2 = thread % 4;
// CHECK-NEXT:   if (index < 4) {
// CHECK-NEXT:     y[index2] = mpc::add(x[index2], x[index]);
// CHECK-NEXT:   }
// CHECK-NEXT:   int quotient =
// CHECK-NEXT:       static_cast<int>(static_cast<unsigned>(x[0]) /
// CHECK-NEXT:       static_cast<unsigned>(x[1]));
// CHECK-NEXT:   y[0] = quotient;
// CHECK-NEXT:   y[1] = mpc::maximum(x[0], x[1]);
// CHECK-NEXT:   bool value = !(static_cast<unsigned>(x[3]) < static_cast<unsigned>(7));
// CHECK-NEXT:   y2[0] = static_cast<signed char>(value);
// CHECK-NEXT: }
gpu.func @integers(%x: memref<4xi32>, %y: memref<4xi32>, %b: memref<4xi8>) kernel
    attributes {known_block_size = array<i32: 32, 1, 1>, mpc.inputs = 1 : i64} {
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %row = arith.divui %t, %c4 : index
  %column = arith.remui %t, %c4 : index
  %inside = arith.cmpi ult, %row, %c4 : index
  scf.if %inside {
    %v = memref.load %x[%column] : memref<4xi32>
    %w = memref.load %x[%row] : memref<4xi32>
    %sum = arith.addi %v, %w : i32
    memref.store %sum, %y[%column] : memref<4xi32>
  }
  %p = memref.load %x[%c0] : memref<4xi32>
  %q = memref.load %x[%c1] : memref<4xi32>
  %quotient = arith.divui %p, %q : i32
  memref.store %quotient, %y[%c0] : memref<4xi32>
  %r = memref.load %x[%c0] : memref<4xi32>
  %s = memref.load %x[%c1] : memref<4xi32>
  %larger = arith.maxsi %r, %s : i32
  memref.store %larger, %y[%c1] : memref<4xi32>
  %u = memref.load %x[%c3] : memref<4xi32>
  %limit = arith.constant 7 : i32
  %below = arith.cmpi ult, %u, %limit : i32
  %no = arith.constant true
  %not = arith.xori %below, %no : i1
  %byte = arith.extui %not : i1 to i8
  memref.store %byte, %b[%c0] : memref<4xi8>
  gpu.return
}

// Nonnegative indices compare directly; others after a conversion to unsigned.
// CHECK-LABEL: void ranges(
// CHECK:         y[0] = static_cast<signed char>(31 - mpc::threadX() < 7);
// CHECK-NEXT:    bool condition = static_cast<unsigned>(static_cast<int>(n[0])) <
// CHECK-NEXT:        static_cast<unsigned>(7);
// CHECK-NEXT:    y[1] = static_cast<signed char>(condition);
gpu.func @ranges(%n: memref<1xi64> loc("n"), %y: memref<2xi8>) kernel
    attributes {known_block_size = array<i32: 32, 1, 1>, mpc.inputs = 1 : i64} {
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  %c31 = arith.constant 31 : index
  %back = arith.subi %c31, %t : index
  %small = arith.cmpi ult, %back, %c7 : index
  %a = arith.extui %small : i1 to i8
  memref.store %a, %y[%c0] : memref<2xi8>
  %data = memref.load %n[%c0] : memref<1xi64>
  %i = arith.index_cast %data : i64 to index
  %inside = arith.cmpi ult, %i, %c7 : index
  %b = arith.extui %inside : i1 to i8
  memref.store %b, %y[%c1] : memref<2xi8>
  gpu.return
}

// NaN is ordered or unordered as the predicate specifies.
// CHECK-LABEL: MPC_KERNEL(1) void comparisons(
// CHECK-NEXT:     const float *__restrict__ x,
// CHECK-NEXT:     signed char *__restrict__ y) {
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   float loaded = x[0];
// CHECK-NEXT:   float loaded2 = x[1];
// CHECK-NEXT:   y[0] = static_cast<signed char>(loaded < loaded2);
// CHECK-NEXT:   y[1] = static_cast<signed char>(!(loaded < loaded2));
// CHECK-NEXT:   y[2] = static_cast<signed char>(loaded != loaded2);
// CHECK-NEXT:   y[3] = static_cast<signed char>(mpc::differs(loaded, loaded2));
// CHECK-NEXT:   y[4] = static_cast<signed char>(mpc::isNan(loaded));
// CHECK-NEXT: }
gpu.func @comparisons(%x: memref<2xf32>, %y: memref<8xi8>) kernel
    attributes {known_block_size = array<i32: 1, 1, 1>, mpc.inputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %a = memref.load %x[%c0] : memref<2xf32>
  %b = memref.load %x[%c1] : memref<2xf32>
  %0 = arith.cmpf olt, %a, %b : f32
  %i0 = arith.extui %0 : i1 to i8
  memref.store %i0, %y[%c0] : memref<8xi8>
  %1 = arith.cmpf uge, %a, %b : f32
  %i1 = arith.extui %1 : i1 to i8
  memref.store %i1, %y[%c1] : memref<8xi8>
  %2 = arith.cmpf une, %a, %b : f32
  %i2 = arith.extui %2 : i1 to i8
  memref.store %i2, %y[%c2] : memref<8xi8>
  %3 = arith.cmpf one, %a, %b : f32
  %i3 = arith.extui %3 : i1 to i8
  memref.store %i3, %y[%c3] : memref<8xi8>
  %4 = arith.cmpf uno, %a, %a : f32
  %i4 = arith.extui %4 : i1 to i8
  memref.store %i4, %y[%c4] : memref<8xi8>
  gpu.return
}

// CHECK-LABEL: MPC_KERNEL(1) void constants(
// CHECK-NEXT:     float *__restrict__ y,
// CHECK-NEXT:     double *__restrict__ y2,
// CHECK-NEXT:     mpc::bfloat16 *__restrict__ y3,
// CHECK-NEXT:     long long *__restrict__ y4) {
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   y[0] = 0.1f;
// CHECK-NEXT:   y[1] = 1.0e-30f;
// CHECK-NEXT:   y[2] = -mpc::infinity();
// CHECK-NEXT:   y[3] = mpc::nan();
// CHECK-NEXT:   y2[0] = 0.1;
// CHECK-NEXT:   y3[0] = mpc::toBfloat16(1.5f);
// CHECK-NEXT:   y4[0] = (-9223372036854775807ll - 1);
// CHECK-NEXT:   y4[1] = -1ll;
// CHECK-NEXT: }
gpu.func @constants(%y: memref<8xf32>, %d: memref<2xf64>, %h: memref<1xbf16>, %n: memref<2xi64>) kernel
    attributes {known_block_size = array<i32: 1, 1, 1>, mpc.inputs = 0 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %tenth = arith.constant 0.1 : f32
  memref.store %tenth, %y[%c0] : memref<8xf32>
  %tiny = arith.constant 1.0e-30 : f32
  memref.store %tiny, %y[%c1] : memref<8xf32>
  %low = arith.constant 0xFF800000 : f32
  memref.store %low, %y[%c2] : memref<8xf32>
  %nan = arith.constant 0x7FC00000 : f32
  memref.store %nan, %y[%c3] : memref<8xf32>
  %wide = arith.constant 0.1 : f64
  memref.store %wide, %d[%c0] : memref<2xf64>
  %half = arith.constant 1.5 : bf16
  memref.store %half, %h[%c0] : memref<1xbf16>
  %least = arith.constant -9223372036854775808 : i64
  memref.store %least, %n[%c0] : memref<2xi64>
  %minus = arith.constant -1 : i64
  memref.store %minus, %n[%c1] : memref<2xi64>
  gpu.return
}

}
}
