// Library GEMMs become exe.gemm; remarks state why the others do not.
// RUN: mpc-opt %s --split-input-file --mpc-set-target=target=cuda:sm_80 --mpc-plan --mpc-select-gemms | FileCheck %s
// RUN: mpc-opt %s --split-input-file --mpc-set-target=target=cuda:sm_80 --mpc-plan --mpc-select-gemms 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REMARK

// A bias of the result's type, and ReLU.
// CHECK-LABEL: exe.program @bias_relu
// CHECK: exe.gemm "fc" <m = 32, n = 16, k = 784, operand_type = bf16, result_type = f32,
// CHECK-SAME: epilogue = relu, bias = true>
// CHECK-SAME: (read @x, read @w, read @b, write @out0)
// CHECK-NOT: exe.launch
func.func @bias_relu(%x: tensor<32x784xbf16> {mpc.name = "x"}, %w: tensor<784x16xbf16> {mpc.name = "w"},
                     %b: tensor<16xf32> {mpc.name = "b"}) -> tensor<32x16xf32> {
  %0 = mpc.fusion kind(contraction) name("fc") (%p = %x : tensor<32x784xbf16>, %q = %w : tensor<784x16xbf16>,
      %r = %b : tensor<16xf32>) -> tensor<32x16xf32> {
    %1 = mpc.matmul %p, %q : (tensor<32x784xbf16>, tensor<784x16xbf16>) -> tensor<32x16xf32>
    %2 = mpc.add %1, %r : (tensor<32x16xf32>, tensor<16xf32>) -> tensor<32x16xf32>
    %3 = mpc.relu %2 : tensor<32x16xf32>
    mpc.yield %3 : tensor<32x16xf32>
  }
  return %0 : tensor<32x16xf32>
}

// -----

// Sequences are rows of one matrix; a 16-bit residual is upconverted and added.
// CHECK-LABEL: exe.program @residual
// CHECK: exe.gemm "o" <m = 96, n = 64, k = 64, operand_type = bf16, result_type = bf16, residual = true>
// CHECK-SAME: (read @x, read @w, read @c, write @out0)
func.func @residual(%x: tensor<2x48x64xbf16> {mpc.name = "x"}, %w: tensor<64x64xbf16> {mpc.name = "w"},
                    %c: tensor<2x48x64xbf16> {mpc.name = "c"}) -> tensor<2x48x64xbf16> {
  %0 = mpc.fusion kind(contraction) name("o") (%p = %x : tensor<2x48x64xbf16>, %q = %w : tensor<64x64xbf16>,
      %r = %c : tensor<2x48x64xbf16>) -> tensor<2x48x64xbf16> {
    %1 = mpc.matmul %p, %q : (tensor<2x48x64xbf16>, tensor<64x64xbf16>) -> tensor<2x48x64xf32>
    %2 = mpc.cast %r : tensor<2x48x64xbf16> to tensor<2x48x64xf32>
    %3 = mpc.add %1, %2 : (tensor<2x48x64xf32>, tensor<2x48x64xf32>) -> tensor<2x48x64xf32>
    %4 = mpc.cast %3 : tensor<2x48x64xf32> to tensor<2x48x64xbf16>
    mpc.yield %4 : tensor<2x48x64xbf16>
  }
  return %0 : tensor<2x48x64xbf16>
}

// -----

// The library would round an f32 bias to bf16.
// CHECK-LABEL: exe.program @bias_type
// CHECK: exe.launch @k_fc
// REMARK: kernel 'k_fc' is no library call: its bias does not have the result's type
func.func @bias_type(%x: tensor<8x16xbf16>, %w: tensor<16x8xbf16>, %b: tensor<8xf32>) -> tensor<8x8xbf16> {
  %0 = mpc.fusion kind(contraction) name("fc") (%p = %x : tensor<8x16xbf16>, %q = %w : tensor<16x8xbf16>,
      %r = %b : tensor<8xf32>) -> tensor<8x8xbf16> {
    %1 = mpc.matmul %p, %q : (tensor<8x16xbf16>, tensor<16x8xbf16>) -> tensor<8x8xf32>
    %2 = mpc.add %1, %r : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
    %3 = mpc.cast %2 : tensor<8x8xf32> to tensor<8x8xbf16>
    mpc.yield %3 : tensor<8x8xbf16>
  }
  return %0 : tensor<8x8xbf16>
}

// -----

// erf-GELU has no epilogue in the library; tanh-GELU has one.
// CHECK-LABEL: exe.program @gelu
// CHECK: exe.gemm "tanh" <m = 8, n = 8, k = 16, operand_type = f32, result_type = f32, epilogue = gelu_tanh, compute = tf32>
// CHECK: exe.launch @k_erf
// REMARK: kernel 'k_erf' is no library call: its epilogue contains mpc.gelu
func.func @gelu(%x: tensor<8x16xf32>, %w: tensor<16x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = mpc.fusion kind(contraction) name("tanh") (%p = %x : tensor<8x16xf32>, %q = %w : tensor<16x8xf32>)
      -> tensor<8x8xf32> {
    %1 = mpc.matmul %p, %q compute(tf32) : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %2 = mpc.gelu %1 form(tanh) : tensor<8x8xf32>
    mpc.yield %2 : tensor<8x8xf32>
  }
  %3 = mpc.fusion kind(contraction) name("erf") (%p = %x : tensor<8x16xf32>, %q = %w : tensor<16x8xf32>)
      -> tensor<8x8xf32> {
    %1 = mpc.matmul %p, %q : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %2 = mpc.gelu %1 : tensor<8x8xf32>
    mpc.yield %2 : tensor<8x8xf32>
  }
  return %0, %3 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// One matrix for all batches, operands stored transposed.
// CHECK-LABEL: exe.program @batches
// CHECK: exe.gemm "s" <m = 5, n = 7, k = 3, batch = 4, operand_type = f16, result_type = f32, transpose_a = true,
// CHECK-SAME: transpose_b = true, shared_a = true>
func.func @batches(%x: tensor<3x5xf16>, %w: tensor<2x2x7x3xf16>) -> tensor<2x2x5x7xf32> {
  %0 = mpc.fusion kind(contraction) name("s") (%p = %x : tensor<3x5xf16>, %q = %w : tensor<2x2x7x3xf16>)
      -> tensor<2x2x5x7xf32> {
    %1 = mpc.matmul %p, %q transpose_lhs transpose_rhs
      : (tensor<3x5xf16>, tensor<2x2x7x3xf16>) -> tensor<2x2x5x7xf32>
    mpc.yield %1 : tensor<2x2x5x7xf32>
  }
  return %0 : tensor<2x2x5x7xf32>
}

// -----

// bf16x3 uses the library where it emulates f32, from sm_100 on; else the
// permission is ignored. bf16x2 is not in the library.
// RUN: mpc-opt %s --split-input-file --mpc-set-target=target=cuda:sm_100 --mpc-plan --mpc-select-gemms | FileCheck %s --check-prefix=EMULATED
// EMULATED-LABEL: exe.program @terms
// EMULATED: exe.gemm "three" <m = 8, n = 8, k = 16, operand_type = f32, result_type = f32, compute = bf16x9>
// CHECK-LABEL: exe.program @terms
// CHECK: exe.gemm "three" <m = 8, n = 8, k = 16, operand_type = f32, result_type = f32> ops
// CHECK: exe.launch @k_two
// REMARK: kernel 'k_two' is no library call: it computes in bf16x2
func.func @terms(%x: tensor<8x16xf32>, %w: tensor<16x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = mpc.fusion kind(contraction) name("three") (%p = %x : tensor<8x16xf32>, %q = %w : tensor<16x8xf32>)
      -> tensor<8x8xf32> {
    %1 = mpc.matmul %p, %q compute(bf16x3) : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    mpc.yield %1 : tensor<8x8xf32>
  }
  %2 = mpc.fusion kind(contraction) name("two") (%p = %x : tensor<8x16xf32>, %q = %w : tensor<16x8xf32>)
      -> tensor<8x8xf32> {
    %1 = mpc.matmul %p, %q compute(bf16x2) : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    mpc.yield %1 : tensor<8x8xf32>
  }
  return %0, %2 : tensor<8x8xf32>, tensor<8x8xf32>
}
