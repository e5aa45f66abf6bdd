// GEMMs of a training step: activations that store their auxiliary output, the
// gradients, and GEMMs with a fused operand sum (bias gradient).
// RUN: mpc-opt %s --split-input-file --mpc-set-target=target=cuda:sm_80 --mpc-plan --mpc-select-gemms | FileCheck %s
// RUN: mpc-opt %s --split-input-file --mpc-set-target=target=cuda:sm_80 --mpc-plan --mpc-select-gemms 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REMARK

!rows = tensor<8x16xf32>

// Eight rows of 128 mask bits need the space of 128 bytes.
// CHECK-LABEL: exe.program @relu
// CHECK: exe.gemm "fc" {{.*}}epilogue = relu, auxiliary = true>
// CHECK-SAME: bytes(2176) (read @x, read @w, write @out0, write arena[0 : 128])
// CHECK: exe.gemm "back" {{.*}}transpose_b = true, epilogue = relu_gradient>
// CHECK-SAME: (read @dy, read @w, read arena[0 : 128], write @out1)
// CHECK-NOT: exe.launch
func.func @relu(%x: !rows {mpc.name = "x"}, %w: tensor<16x16xf32> {mpc.name = "w"}, %dy: !rows {mpc.name = "dy"}) -> (!rows, !rows) {
  %y:2 = mpc.fusion kind(contraction) name("fc") (%p = %x : !rows, %q = %w : tensor<16x16xf32>) -> (!rows, tensor<8x16xi1>) {
    %1 = mpc.matmul %p, %q : (!rows, tensor<16x16xf32>) -> !rows
    %2 = mpc.relu %1 : !rows
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %3 = mpc.compare le %2, %zero : (!rows, tensor<f32>) -> tensor<8x16xi1>
    mpc.yield %2, %3 : !rows, tensor<8x16xi1>
  }
  %dx = mpc.fusion kind(contraction) name("back") (%p = %dy : !rows, %q = %w : tensor<16x16xf32>,
      %m = %y#1 : tensor<8x16xi1>) -> !rows {
    %1 = mpc.matmul %p, %q transpose_rhs : (!rows, tensor<16x16xf32>) -> !rows
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %2 = mpc.select %m, %zero, %1 : (tensor<8x16xi1>, tensor<f32>, !rows) -> !rows
    mpc.yield %2 : !rows
  }
  return %y#0, %dx : !rows, !rows
}

// -----

!rows = tensor<8x16xf32>
!narrow = tensor<8x16xbf16>

// A mask of the rounded ReLU: the library computes it from the accumulators, where
// a positive number that rounds to 0 is positive.
// CHECK-LABEL: exe.program @relu_rounded
// CHECK: exe.gemm "fc" {{.*}}result_type = bf16, epilogue = relu, bias = true, auxiliary = true>
// CHECK-SAME: (read @x, read @w, read @b, write @out0, write arena[0 : 128])
// CHECK: exe.gemm "back" {{.*}}result_type = bf16, transpose_b = true, epilogue = relu_gradient>
// CHECK-NOT: exe.launch
func.func @relu_rounded(%x: !narrow {mpc.name = "x"}, %w: tensor<16x16xbf16> {mpc.name = "w"}, %b: tensor<16xbf16> {mpc.name = "b"}, %dy: !narrow {mpc.name = "dy"}) -> (!narrow, !narrow) {
  %y:2 = mpc.fusion kind(contraction) name("fc") (%p = %x : !narrow, %q = %w : tensor<16x16xbf16>,
      %r = %b : tensor<16xbf16>) -> (!narrow, tensor<8x16xi1>) {
    %1 = mpc.matmul %p, %q : (!narrow, tensor<16x16xbf16>) -> !rows
    %2 = mpc.cast %r : tensor<16xbf16> to tensor<16xf32>
    %3 = mpc.add %1, %2 : (!rows, tensor<16xf32>) -> !rows
    %4 = mpc.relu %3 : !rows
    %5 = mpc.cast %4 : !rows to !narrow
    %6 = mpc.cast %5 : !narrow to !rows
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %7 = mpc.compare le %6, %zero : (!rows, tensor<f32>) -> tensor<8x16xi1>
    mpc.yield %5, %7 : !narrow, tensor<8x16xi1>
  }
  %dx = mpc.fusion kind(contraction) name("back") (%p = %dy : !narrow, %q = %w : tensor<16x16xbf16>,
      %m = %y#1 : tensor<8x16xi1>) -> !narrow {
    %1 = mpc.matmul %p, %q transpose_rhs : (!narrow, tensor<16x16xbf16>) -> !rows
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %2 = mpc.select %m, %zero, %1 : (tensor<8x16xi1>, tensor<f32>, !rows) -> !rows
    %3 = mpc.cast %2 : !rows to !narrow
    mpc.yield %3 : !narrow
  }
  return %y#0, %dx : !narrow, !narrow
}

// -----

!rows = tensor<8x16xf32>

// A mask that another kernel reads, or that is returned, is not replaced.
// CHECK-LABEL: exe.program @relu_mask_read
// CHECK: exe.launch @k_fc
// CHECK: exe.launch @k_back
// REMARK: kernel 'k_fc' is no library call: another kernel reads the auxiliary output for its gradient
// REMARK: kernel 'k_back' is no library call: no library call produces the mask of its select
func.func @relu_mask_read(%x: !rows {mpc.name = "x"}, %w: tensor<16x16xf32> {mpc.name = "w"}, %dy: !rows {mpc.name = "dy"}) -> (!rows, !rows, !rows) {
  %y:2 = mpc.fusion kind(contraction) name("fc") (%p = %x : !rows, %q = %w : tensor<16x16xf32>) -> (!rows, tensor<8x16xi1>) {
    %1 = mpc.matmul %p, %q : (!rows, tensor<16x16xf32>) -> !rows
    %2 = mpc.relu %1 : !rows
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %3 = mpc.compare le %2, %zero : (!rows, tensor<f32>) -> tensor<8x16xi1>
    mpc.yield %2, %3 : !rows, tensor<8x16xi1>
  }
  %dx = mpc.fusion kind(contraction) name("back") (%p = %dy : !rows, %q = %w : tensor<16x16xf32>,
      %m = %y#1 : tensor<8x16xi1>) -> !rows {
    %1 = mpc.matmul %p, %q transpose_rhs : (!rows, tensor<16x16xf32>) -> !rows
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %2 = mpc.select %m, %zero, %1 : (tensor<8x16xi1>, tensor<f32>, !rows) -> !rows
    mpc.yield %2 : !rows
  }
  %other = mpc.fusion kind(elementwise) name("other") (%m = %y#1 : tensor<8x16xi1>) -> !rows {
    %1 = mpc.cast %m : tensor<8x16xi1> to !rows
    mpc.yield %1 : !rows
  }
  return %y#0, %dx, %other : !rows, !rows, !rows
}

// -----

!rows = tensor<8x16xf32>

// A mask that is read with another row length.
// CHECK-LABEL: exe.program @relu_mask_reshaped
// CHECK: exe.launch @k_fc
// CHECK: exe.launch @k_back
// REMARK: kernel 'k_fc' is no library call: another kernel reads the auxiliary output for its gradient
// REMARK: kernel 'k_back' is no library call: no library call produces the mask of its select
func.func @relu_mask_reshaped(%x: !rows {mpc.name = "x"}, %w: tensor<16x16xf32> {mpc.name = "w"}, %dy: !rows {mpc.name = "dy"}, %dz: tensor<4x16xf32> {mpc.name = "dz"}, %v: tensor<16x32xf32> {mpc.name = "v"}) -> (!rows, tensor<4x32xf32>) {
  %y:2 = mpc.fusion kind(contraction) name("fc") (%p = %x : !rows, %q = %w : tensor<16x16xf32>) -> (!rows, tensor<8x16xi1>) {
    %1 = mpc.matmul %p, %q : (!rows, tensor<16x16xf32>) -> !rows
    %2 = mpc.relu %1 : !rows
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %3 = mpc.compare le %2, %zero : (!rows, tensor<f32>) -> tensor<8x16xi1>
    mpc.yield %2, %3 : !rows, tensor<8x16xi1>
  }
  %dx = mpc.fusion kind(contraction) name("back") (%p = %dz : tensor<4x16xf32>, %q = %v : tensor<16x32xf32>,
      %m = %y#1 : tensor<8x16xi1>) -> tensor<4x32xf32> {
    %1 = mpc.matmul %p, %q : (tensor<4x16xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
    %r = mpc.reshape %m : tensor<8x16xi1> to tensor<4x32xi1>
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %2 = mpc.select %r, %zero, %1 : (tensor<4x32xi1>, tensor<f32>, tensor<4x32xf32>) -> tensor<4x32xf32>
    mpc.yield %2 : tensor<4x32xf32>
  }
  return %y#0, %dx : !rows, tensor<4x32xf32>
}

// -----

!rows = tensor<8x16xf32>

// CHECK-LABEL: exe.program @relu_mask_result
// CHECK: exe.launch @k_fc
// REMARK: kernel 'k_fc' is no library call: the auxiliary output for its gradient is a result
func.func @relu_mask_result(%x: !rows {mpc.name = "x"}, %w: tensor<16x16xf32> {mpc.name = "w"}, %dy: !rows {mpc.name = "dy"}) -> (!rows, tensor<8x16xi1>) {
  %y:2 = mpc.fusion kind(contraction) name("fc") (%p = %x : !rows, %q = %w : tensor<16x16xf32>) -> (!rows, tensor<8x16xi1>) {
    %1 = mpc.matmul %p, %q : (!rows, tensor<16x16xf32>) -> !rows
    %2 = mpc.relu %1 : !rows
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %3 = mpc.compare le %2, %zero : (!rows, tensor<f32>) -> tensor<8x16xi1>
    mpc.yield %2, %3 : !rows, tensor<8x16xi1>
  }
  return %y#0, %y#1 : !rows, tensor<8x16xi1>
}

// -----

!rows = tensor<8x16xf32>

// The kernel stores GELU's slope, the library its input, of the same size.
// CHECK-LABEL: exe.program @gelu_slope
// CHECK: exe.gemm "fc" {{.*}}epilogue = gelu_tanh, bias = true, auxiliary = true>
// CHECK-SAME: (read @x, read @w, read @b, write @out0, write arena[0 : 512])
// CHECK: exe.gemm "back" {{.*}}epilogue = gelu_tanh_gradient>
// CHECK-SAME: (read @dy, read @w, read arena[0 : 512], write @out1)
// CHECK-NOT: exe.launch
func.func @gelu_slope(%x: !rows {mpc.name = "x"}, %w: tensor<16x16xf32> {mpc.name = "w"}, %dy: !rows {mpc.name = "dy"}, %b: tensor<16xf32> {mpc.name = "b"}) -> (!rows, !rows) {
  %y:2 = mpc.fusion kind(contraction) name("fc") (%p = %x : !rows, %q = %w : tensor<16x16xf32>,
      %r = %b : tensor<16xf32>) -> (!rows, !rows) {
    %1 = mpc.matmul %p, %q : (!rows, tensor<16x16xf32>) -> !rows
    %2 = mpc.add %1, %r : (!rows, tensor<16xf32>) -> !rows
    %3 = mpc.gelu %2 form(tanh) : !rows
    %sc = mpc.constant dense<4.471500e-02> : tensor<f32>
    %sone = mpc.constant dense<1.000000e+00> : tensor<f32>
    %sk = mpc.constant dense<0.797884583> : tensor<f32>
    %sh = mpc.constant dense<5.000000e-01> : tensor<f32>
    %sc3 = mpc.constant dense<1.341450e-01> : tensor<f32>
    %shk = mpc.constant dense<0.398942292> : tensor<f32>
    %ssq = mpc.mul %2, %2 : (!rows, !rows) -> !rows
    %s0 = mpc.mul %ssq, %sc : (!rows, tensor<f32>) -> !rows
    %s1 = mpc.add %s0, %sone : (!rows, tensor<f32>) -> !rows
    %s2 = mpc.mul %2, %s1 : (!rows, !rows) -> !rows
    %s3 = mpc.mul %s2, %sk : (!rows, tensor<f32>) -> !rows
    %st = mpc.tanh %s3 : !rows
    %s4 = mpc.add %st, %sone : (!rows, tensor<f32>) -> !rows
    %s5 = mpc.mul %s4, %sh : (!rows, tensor<f32>) -> !rows
    %s6 = mpc.mul %ssq, %sc3 : (!rows, tensor<f32>) -> !rows
    %s7 = mpc.add %s6, %sone : (!rows, tensor<f32>) -> !rows
    %s8 = mpc.mul %s7, %shk : (!rows, tensor<f32>) -> !rows
    %s9 = mpc.sub %sone, %st : (tensor<f32>, !rows) -> !rows
    %s10 = mpc.mul %s9, %s4 : (!rows, !rows) -> !rows
    %s11 = mpc.mul %2, %s10 : (!rows, !rows) -> !rows
    %s12 = mpc.mul %s11, %s8 : (!rows, !rows) -> !rows
    %sslope = mpc.add %s5, %s12 : (!rows, !rows) -> !rows
    mpc.yield %3, %sslope : !rows, !rows
  }
  %dx = mpc.fusion kind(contraction) name("back") (%p = %dy : !rows, %q = %w : tensor<16x16xf32>,
      %s = %y#1 : !rows) -> !rows {
    %1 = mpc.matmul %p, %q : (!rows, tensor<16x16xf32>) -> !rows
    %2 = mpc.mul %1, %s : (!rows, !rows) -> !rows
    mpc.yield %2 : !rows
  }
  return %y#0, %dx : !rows, !rows
}

// -----

!rows = tensor<8x16xf32>

// An expression that is nearly the slope is not matched.
// CHECK-LABEL: exe.program @gelu_other_slope
// CHECK: exe.launch @k_fc
// REMARK: kernel 'k_fc' is no library call: its accumulators have two uses
func.func @gelu_other_slope(%x: !rows {mpc.name = "x"}, %w: tensor<16x16xf32> {mpc.name = "w"}, %dy: !rows {mpc.name = "dy"}) -> (!rows, !rows) {
  %y:2 = mpc.fusion kind(contraction) name("fc") (%p = %x : !rows, %q = %w : tensor<16x16xf32>) -> (!rows, !rows) {
    %1 = mpc.matmul %p, %q : (!rows, tensor<16x16xf32>) -> !rows
    %2 = mpc.gelu %1 form(tanh) : !rows
    %sc = mpc.constant dense<4.471500e-02> : tensor<f32>
    %sone = mpc.constant dense<1.000000e+00> : tensor<f32>
    %sk = mpc.constant dense<0.797884583> : tensor<f32>
    %sh = mpc.constant dense<5.000000e-01> : tensor<f32>
    %sc3 = mpc.constant dense<1.341500e-01> : tensor<f32>
    %shk = mpc.constant dense<0.398942292> : tensor<f32>
    %ssq = mpc.mul %1, %1 : (!rows, !rows) -> !rows
    %s0 = mpc.mul %ssq, %sc : (!rows, tensor<f32>) -> !rows
    %s1 = mpc.add %s0, %sone : (!rows, tensor<f32>) -> !rows
    %s2 = mpc.mul %1, %s1 : (!rows, !rows) -> !rows
    %s3 = mpc.mul %s2, %sk : (!rows, tensor<f32>) -> !rows
    %st = mpc.tanh %s3 : !rows
    %s4 = mpc.add %st, %sone : (!rows, tensor<f32>) -> !rows
    %s5 = mpc.mul %s4, %sh : (!rows, tensor<f32>) -> !rows
    %s6 = mpc.mul %ssq, %sc3 : (!rows, tensor<f32>) -> !rows
    %s7 = mpc.add %s6, %sone : (!rows, tensor<f32>) -> !rows
    %s8 = mpc.mul %s7, %shk : (!rows, tensor<f32>) -> !rows
    %s9 = mpc.sub %sone, %st : (tensor<f32>, !rows) -> !rows
    %s10 = mpc.mul %s9, %s4 : (!rows, !rows) -> !rows
    %s11 = mpc.mul %1, %s10 : (!rows, !rows) -> !rows
    %s12 = mpc.mul %s11, %s8 : (!rows, !rows) -> !rows
    %sslope = mpc.add %s5, %s12 : (!rows, !rows) -> !rows
    mpc.yield %2, %sslope : !rows, !rows
  }
  return %y#0, %y#1 : !rows, !rows
}

// -----

!rows = tensor<8x16xf32>
!narrow = tensor<8x16xbf16>

// A slope in 16 bits is rounded where the library rounds its input.
// CHECK-LABEL: exe.program @gelu_slope_rounded
// CHECK: exe.launch @k_fc
// CHECK: exe.launch @k_back
// REMARK: kernel 'k_fc' is no library call: it rounds the slope of its activation
func.func @gelu_slope_rounded(%x: !rows {mpc.name = "x"}, %w: tensor<16x16xf32> {mpc.name = "w"}, %dy: !rows {mpc.name = "dy"}) -> (!narrow, !narrow) {
  %y:2 = mpc.fusion kind(contraction) name("fc") (%p = %x : !rows, %q = %w : tensor<16x16xf32>) -> (!narrow, !narrow) {
    %1 = mpc.matmul %p, %q : (!rows, tensor<16x16xf32>) -> !rows
    %2 = mpc.gelu %1 form(tanh) : !rows
    %3 = mpc.cast %2 : !rows to !narrow
    %sc = mpc.constant dense<4.471500e-02> : tensor<f32>
    %sone = mpc.constant dense<1.000000e+00> : tensor<f32>
    %sk = mpc.constant dense<0.797884583> : tensor<f32>
    %sh = mpc.constant dense<5.000000e-01> : tensor<f32>
    %sc3 = mpc.constant dense<1.341450e-01> : tensor<f32>
    %shk = mpc.constant dense<0.398942292> : tensor<f32>
    %ssq = mpc.mul %1, %1 : (!rows, !rows) -> !rows
    %s0 = mpc.mul %ssq, %sc : (!rows, tensor<f32>) -> !rows
    %s1 = mpc.add %s0, %sone : (!rows, tensor<f32>) -> !rows
    %s2 = mpc.mul %1, %s1 : (!rows, !rows) -> !rows
    %s3 = mpc.mul %s2, %sk : (!rows, tensor<f32>) -> !rows
    %st = mpc.tanh %s3 : !rows
    %s4 = mpc.add %st, %sone : (!rows, tensor<f32>) -> !rows
    %s5 = mpc.mul %s4, %sh : (!rows, tensor<f32>) -> !rows
    %s6 = mpc.mul %ssq, %sc3 : (!rows, tensor<f32>) -> !rows
    %s7 = mpc.add %s6, %sone : (!rows, tensor<f32>) -> !rows
    %s8 = mpc.mul %s7, %shk : (!rows, tensor<f32>) -> !rows
    %s9 = mpc.sub %sone, %st : (tensor<f32>, !rows) -> !rows
    %s10 = mpc.mul %s9, %s4 : (!rows, !rows) -> !rows
    %s11 = mpc.mul %1, %s10 : (!rows, !rows) -> !rows
    %s12 = mpc.mul %s11, %s8 : (!rows, !rows) -> !rows
    %sslope = mpc.add %s5, %s12 : (!rows, !rows) -> !rows
    %4 = mpc.cast %sslope : !rows to !narrow
    mpc.yield %3, %4 : !narrow, !narrow
  }
  %dx = mpc.fusion kind(contraction) name("back") (%p = %dy : !rows, %q = %w : tensor<16x16xf32>,
      %s = %y#1 : !narrow) -> !narrow {
    %1 = mpc.matmul %p, %q : (!rows, tensor<16x16xf32>) -> !rows
    %2 = mpc.cast %s : !narrow to !rows
    %3 = mpc.mul %1, %2 : (!rows, !rows) -> !rows
    %4 = mpc.cast %3 : !rows to !narrow
    mpc.yield %4 : !narrow
  }
  return %y#0, %dx : !narrow, !narrow
}

// -----

!rows = tensor<8x16xf32>
!narrow = tensor<8x16xbf16>

// A stored GELU input equals the library's auxiliary output: rounded once, and
// readable by any kernel.
// CHECK-LABEL: exe.program @gelu_input
// CHECK: exe.gemm "fc" {{.*}}result_type = bf16, epilogue = gelu_tanh, auxiliary = true>
// CHECK-SAME: (read @x, read @w, write @out0, write @out2)
// CHECK: exe.gemm "back" {{.*}}result_type = bf16, epilogue = gelu_tanh_gradient>
// CHECK-SAME: (read @dy, read @w, read @out2, write @out1)
// CHECK-NOT: exe.launch
func.func @gelu_input(%x: !rows {mpc.name = "x"}, %w: tensor<16x16xf32> {mpc.name = "w"}, %dy: !rows {mpc.name = "dy"}) -> (!narrow, !narrow, !narrow) {
  %y:2 = mpc.fusion kind(contraction) name("fc") (%p = %x : !rows, %q = %w : tensor<16x16xf32>) -> (!narrow, !narrow) {
    %1 = mpc.matmul %p, %q : (!rows, tensor<16x16xf32>) -> !rows
    %2 = mpc.gelu %1 form(tanh) : !rows
    %3 = mpc.cast %2 : !rows to !narrow
    %4 = mpc.cast %1 : !rows to !narrow
    mpc.yield %3, %4 : !narrow, !narrow
  }
  %dx = mpc.fusion kind(contraction) name("back") (%p = %dy : !rows, %q = %w : tensor<16x16xf32>,
      %s = %y#1 : !narrow) -> !narrow {
    %1 = mpc.matmul %p, %q : (!rows, tensor<16x16xf32>) -> !rows
    %2 = mpc.cast %s : !narrow to !rows
    %sc = mpc.constant dense<4.471500e-02> : tensor<f32>
    %sone = mpc.constant dense<1.000000e+00> : tensor<f32>
    %sk = mpc.constant dense<0.797884583> : tensor<f32>
    %sh = mpc.constant dense<5.000000e-01> : tensor<f32>
    %sc3 = mpc.constant dense<1.341450e-01> : tensor<f32>
    %shk = mpc.constant dense<0.398942292> : tensor<f32>
    %ssq = mpc.mul %2, %2 : (!rows, !rows) -> !rows
    %s0 = mpc.mul %ssq, %sc : (!rows, tensor<f32>) -> !rows
    %s1 = mpc.add %s0, %sone : (!rows, tensor<f32>) -> !rows
    %s2 = mpc.mul %2, %s1 : (!rows, !rows) -> !rows
    %s3 = mpc.mul %s2, %sk : (!rows, tensor<f32>) -> !rows
    %st = mpc.tanh %s3 : !rows
    %s4 = mpc.add %st, %sone : (!rows, tensor<f32>) -> !rows
    %s5 = mpc.mul %s4, %sh : (!rows, tensor<f32>) -> !rows
    %s6 = mpc.mul %ssq, %sc3 : (!rows, tensor<f32>) -> !rows
    %s7 = mpc.add %s6, %sone : (!rows, tensor<f32>) -> !rows
    %s8 = mpc.mul %s7, %shk : (!rows, tensor<f32>) -> !rows
    %s9 = mpc.sub %sone, %st : (tensor<f32>, !rows) -> !rows
    %s10 = mpc.mul %s9, %s4 : (!rows, !rows) -> !rows
    %s11 = mpc.mul %2, %s10 : (!rows, !rows) -> !rows
    %s12 = mpc.mul %s11, %s8 : (!rows, !rows) -> !rows
    %sslope = mpc.add %s5, %s12 : (!rows, !rows) -> !rows
    %3 = mpc.mul %1, %sslope : (!rows, !rows) -> !rows
    %4 = mpc.cast %3 : !rows to !narrow
    mpc.yield %4 : !narrow
  }
  return %y#0, %dx, %y#1 : !narrow, !narrow, !narrow
}

// -----

!rows = tensor<8x16xf32>

// The gradients of a weight and of its bias: the library's second result follows
// the GEMM's, in whichever order the kernel returns them.
// CHECK-LABEL: exe.program @sums
// CHECK: exe.gemm "right" <m = 16, n = 16, k = 8, operand_type = f32, result_type = f32, transpose_a = true, bias_gradient = b>
// CHECK-SAME: (read @x, read @dy, write @out1, write @out0)
// CHECK: exe.gemm "left" <m = 16, n = 16, k = 8, operand_type = bf16, result_type = f32, transpose_a = true, bias_gradient = a>
// CHECK-SAME: (read @g, read @h, write @out3, write @out2)
// CHECK-NOT: exe.launch
func.func @sums(%x: !rows {mpc.name = "x"}, %dy: !rows {mpc.name = "dy"}, %g: tensor<8x16xbf16> {mpc.name = "g"}, %h: tensor<8x16xbf16> {mpc.name = "h"})
    -> (tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x16xf32>) {
  %r:2 = mpc.fusion kind(contraction) name("right") (%p = %x : !rows, %q = %dy : !rows) -> (tensor<16xf32>, tensor<16x16xf32>) {
    %0 = mpc.reduce_sum %q axes([0]) : !rows -> tensor<16xf32>
    %1 = mpc.matmul %p, %q transpose_lhs : (!rows, !rows) -> tensor<16x16xf32>
    mpc.yield %0, %1 : tensor<16xf32>, tensor<16x16xf32>
  }
  %l:2 = mpc.fusion kind(contraction) name("left") (%p = %g : tensor<8x16xbf16>, %q = %h : tensor<8x16xbf16>) -> (tensor<16xf32>, tensor<16x16xf32>) {
    %w = mpc.cast %p : tensor<8x16xbf16> to !rows
    %0 = mpc.reduce_sum %w axes([0]) : !rows -> tensor<16xf32>
    %1 = mpc.matmul %p, %q transpose_lhs : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<16x16xf32>
    mpc.yield %0, %1 : tensor<16xf32>, tensor<16x16xf32>
  }
  return %r#0, %r#1, %l#0, %l#1 : tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x16xf32>
}

// -----

// The library would round the column sums to the GEMM's result type.
// CHECK-LABEL: exe.program @sums_of_another_type
// CHECK: exe.launch @k_left
// REMARK: kernel 'k_left' is no library call: its operand sums do not have the result's type
func.func @sums_of_another_type(%g: tensor<8x16xbf16>, %h: tensor<8x16xbf16>) -> (tensor<16xf32>, tensor<16x16xbf16>) {
  %l:2 = mpc.fusion kind(contraction) name("left") (%p = %g : tensor<8x16xbf16>, %q = %h : tensor<8x16xbf16>) -> (tensor<16xf32>, tensor<16x16xbf16>) {
    %w = mpc.cast %p : tensor<8x16xbf16> to tensor<8x16xf32>
    %0 = mpc.reduce_sum %w axes([0]) : tensor<8x16xf32> -> tensor<16xf32>
    %1 = mpc.matmul %p, %q transpose_lhs : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<16x16xf32>
    %2 = mpc.cast %1 : tensor<16x16xf32> to tensor<16x16xbf16>
    mpc.yield %0, %2 : tensor<16xf32>, tensor<16x16xbf16>
  }
  return %l#0, %l#1 : tensor<16xf32>, tensor<16x16xbf16>
}

// -----

// A sum over columns is not along a contracted dimension of the GEMM.
// CHECK-LABEL: exe.program @sums_of_rows
// CHECK: exe.launch @k_fc
// REMARK: kernel 'k_fc' is no library call: its epilogue contains mpc.reduce_sum
func.func @sums_of_rows(%x: tensor<8x16xf32>, %dy: tensor<8x16xf32>) -> (tensor<8xf32>, tensor<16x16xf32>) {
  %r:2 = mpc.fusion kind(contraction) name("fc") (%p = %x : tensor<8x16xf32>, %q = %dy : tensor<8x16xf32>) -> (tensor<8xf32>, tensor<16x16xf32>) {
    %0 = mpc.reduce_sum %q axes([1]) : tensor<8x16xf32> -> tensor<8xf32>
    %1 = mpc.matmul %p, %q transpose_lhs : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
    mpc.yield %0, %1 : tensor<8xf32>, tensor<16x16xf32>
  }
  return %r#0, %r#1 : tensor<8xf32>, tensor<16x16xf32>
}

// -----

!rows = tensor<8x16xf32>

// The library's GELU input would have the gradient's 16 bits, the slope has 32.
// CHECK-LABEL: exe.program @gelu_slope_of_another_type
// CHECK: exe.launch @k_fc
// CHECK: exe.launch @k_back
// REMARK: kernel 'k_fc' is no library call: another kernel reads the auxiliary output for its gradient
// REMARK: kernel 'k_back' is no library call: it multiplies by a factor of another type than its result's
func.func @gelu_slope_of_another_type(%x: !rows {mpc.name = "x"}, %w: tensor<16x16xf32> {mpc.name = "w"}, %dy: !rows {mpc.name = "dy"}) -> (!rows, tensor<8x16xbf16>) {
  %y:2 = mpc.fusion kind(contraction) name("fc") (%p = %x : !rows, %q = %w : tensor<16x16xf32>) -> (!rows, !rows) {
    %1 = mpc.matmul %p, %q : (!rows, tensor<16x16xf32>) -> !rows
    %2 = mpc.gelu %1 form(tanh) : !rows
    %sc = mpc.constant dense<4.471500e-02> : tensor<f32>
    %sone = mpc.constant dense<1.000000e+00> : tensor<f32>
    %sk = mpc.constant dense<0.797884583> : tensor<f32>
    %sh = mpc.constant dense<5.000000e-01> : tensor<f32>
    %sc3 = mpc.constant dense<1.341450e-01> : tensor<f32>
    %shk = mpc.constant dense<0.398942292> : tensor<f32>
    %ssq = mpc.mul %1, %1 : (!rows, !rows) -> !rows
    %s0 = mpc.mul %ssq, %sc : (!rows, tensor<f32>) -> !rows
    %s1 = mpc.add %s0, %sone : (!rows, tensor<f32>) -> !rows
    %s2 = mpc.mul %1, %s1 : (!rows, !rows) -> !rows
    %s3 = mpc.mul %s2, %sk : (!rows, tensor<f32>) -> !rows
    %st = mpc.tanh %s3 : !rows
    %s4 = mpc.add %st, %sone : (!rows, tensor<f32>) -> !rows
    %s5 = mpc.mul %s4, %sh : (!rows, tensor<f32>) -> !rows
    %s6 = mpc.mul %ssq, %sc3 : (!rows, tensor<f32>) -> !rows
    %s7 = mpc.add %s6, %sone : (!rows, tensor<f32>) -> !rows
    %s8 = mpc.mul %s7, %shk : (!rows, tensor<f32>) -> !rows
    %s9 = mpc.sub %sone, %st : (tensor<f32>, !rows) -> !rows
    %s10 = mpc.mul %s9, %s4 : (!rows, !rows) -> !rows
    %s11 = mpc.mul %1, %s10 : (!rows, !rows) -> !rows
    %s12 = mpc.mul %s11, %s8 : (!rows, !rows) -> !rows
    %sslope = mpc.add %s5, %s12 : (!rows, !rows) -> !rows
    mpc.yield %2, %sslope : !rows, !rows
  }
  %dx = mpc.fusion kind(contraction) name("back") (%p = %dy : !rows, %q = %w : tensor<16x16xf32>,
      %s = %y#1 : !rows) -> tensor<8x16xbf16> {
    %1 = mpc.matmul %p, %q : (!rows, tensor<16x16xf32>) -> !rows
    %2 = mpc.mul %1, %s : (!rows, !rows) -> !rows
    %3 = mpc.cast %2 : !rows to tensor<8x16xbf16>
    mpc.yield %3 : tensor<8x16xbf16>
  }
  return %y#0, %dx : !rows, tensor<8x16xbf16>
}

// -----

// The library requires rows of a multiple of 8 elements for GELU's input.
// CHECK-LABEL: exe.program @gelu_lines
// CHECK: exe.launch @k_fc
// REMARK: kernel 'k_fc' is no library call: rows of 12 elements of its auxiliary output are not multiples of 8
func.func @gelu_lines(%x: tensor<8x16xf32>, %w: tensor<16x12xf32>) -> (tensor<8x12xf32>, tensor<8x12xf32>) {
  %y:2 = mpc.fusion kind(contraction) name("fc") (%p = %x : tensor<8x16xf32>, %q = %w : tensor<16x12xf32>)
      -> (tensor<8x12xf32>, tensor<8x12xf32>) {
    %1 = mpc.matmul %p, %q : (tensor<8x16xf32>, tensor<16x12xf32>) -> tensor<8x12xf32>
    %2 = mpc.gelu %1 form(tanh) : tensor<8x12xf32>
    mpc.yield %2, %1 : tensor<8x12xf32>, tensor<8x12xf32>
  }
  return %y#0, %y#1 : tensor<8x12xf32>, tensor<8x12xf32>
}

// -----

// A mask with fewer bytes than the library's bit mask.
// CHECK-LABEL: exe.program @relu_narrow
// CHECK: exe.launch @k_fc
// REMARK: kernel 'k_fc' is no library call: its mask of 8 columns is narrower than the library's
func.func @relu_narrow(%x: tensor<8x16xf32>, %w: tensor<16x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xi1>) {
  %y:2 = mpc.fusion kind(contraction) name("fc") (%p = %x : tensor<8x16xf32>, %q = %w : tensor<16x8xf32>)
      -> (tensor<8x8xf32>, tensor<8x8xi1>) {
    %1 = mpc.matmul %p, %q : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %2 = mpc.relu %1 : tensor<8x8xf32>
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %3 = mpc.compare le %2, %zero : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xi1>
    mpc.yield %2, %3 : tensor<8x8xf32>, tensor<8x8xi1>
  }
  return %y#0, %y#1 : tensor<8x8xf32>, tensor<8x8xi1>
}

// -----

!rows = tensor<8x16xf32>

// A factor that no forward GEMM of the library has stored.
// CHECK-LABEL: exe.program @factor
// CHECK: exe.launch @k_back
// REMARK: kernel 'k_back' is no library call: no library call stores the factor that it multiplies by
func.func @factor(%x: !rows {mpc.name = "x"}, %w: tensor<16x16xf32> {mpc.name = "w"}, %dy: !rows {mpc.name = "dy"}, %s: !rows {mpc.name = "s"}) -> !rows {
  %dx = mpc.fusion kind(contraction) name("back") (%p = %dy : !rows, %q = %w : tensor<16x16xf32>,
      %f = %s : !rows) -> !rows {
    %1 = mpc.matmul %p, %q : (!rows, tensor<16x16xf32>) -> !rows
    %2 = mpc.mul %1, %f : (!rows, !rows) -> !rows
    mpc.yield %2 : !rows
  }
  return %dx : !rows
}
