// RUN: mpc-translate --mpc-to-cuda %s | FileCheck %s

module attributes {gpu.container_module} {
gpu.module @kernels {

// Names come from the model: the last part of a path, as an identifier, no
// keyword and unique. The comment lists the fused ops.
// CHECK: // mul (layer.0/scale), add
// CHECK-NEXT: // x: 8xf32 -> 8xf32
// CHECK-NEXT: MPC_KERNEL(8) void named(
// CHECK-NEXT:     const float *__restrict__ x,
// CHECK-NEXT:     const float *__restrict__ default_,
// CHECK-NEXT:     const float *__restrict__ x2,
// CHECK-NEXT:     float *__restrict__ y_0) {
// CHECK-NEXT:   mpc::kernelBegin();
// CHECK-NEXT:   int column = mpc::threadX();
// CHECK-NEXT:   float scaled = x[column] * default_[column];
// CHECK-NEXT:   y_0[column] = scaled + scaled + x2[column];
// CHECK-NEXT: }
gpu.func @named(%x: memref<8xf32> loc("encoder/layer.0/x"), %w: memref<8xf32> loc("default"), %u: memref<8xf32> loc("other/x"), %y: memref<8xf32> loc("y:0")) kernel
    attributes {known_block_size = array<i32: 8, 1, 1>, mpc.inputs = 3 : i64, mpc.description = "mul (layer.0/scale), add\nx: 8xf32 -> 8xf32"} {
  %t = gpu.thread_id x loc("column")
  %a = memref.load %x[%t] : memref<8xf32>
  %b = memref.load %w[%t] : memref<8xf32>
  %c = memref.load %u[%t] : memref<8xf32>
  %scaled = arith.mulf %a, %b : f32 loc("scaled")
  %twice = arith.addf %scaled, %scaled : f32
  %sum = arith.addf %twice, %c : f32
  memref.store %sum, %y[%t] : memref<8xf32>
  gpu.return
}


// A comment is one line of printable ASCII for every name: it has no line end
// of any kind, no backslash or trigraph that continues the line.
// CHECK: {{^}}// relu (a\x0d#error\x0b\x0c\u0085\u2028\x1b[2J\u202e\xff){{$}}
// CHECK-NEXT: {{^}}// ends in \x5c{{$}}
// CHECK-NEXT: {{^}}// ends in ?\x3f/{{$}}
// CHECK-NEXT: {{^}}// */ is no end{{$}}
// CHECK-NEXT: MPC_KERNEL(1) void commented(float *__restrict__ a_error_b) {
gpu.func @commented(%y: memref<1xf32> loc("a\0D#error\0Ab(){}")) kernel
    attributes {known_block_size = array<i32: 1, 1, 1>, mpc.inputs = 0 : i64, mpc.description = "relu (a\0D#error\0B\0C\C2\85\E2\80\A8\1B[2J\E2\80\AE\FF)\0Aends in \5C  \0Aends in ??/\0A*/ is no end"} {
  gpu.return
}
}
}

