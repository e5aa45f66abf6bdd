// What was measured to be faster in kernels of ours on one GPU stays with them there.
// RUN: mpc-opt %s --split-input-file --mpc-set-target=target=cuda:sm_90a --mpc-plan --mpc-select-gemms | FileCheck %s
// RUN: mpc-opt %s --split-input-file --mpc-set-target=target=cuda:sm_90a --mpc-plan --mpc-select-gemms 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: mpc-opt %s --split-input-file --mpc-set-target=target=cuda:sm_80 --mpc-plan --mpc-select-gemms | FileCheck %s --check-prefix=OTHER

// CHECK: exe.launch @k_fc
// REMARK: kernel 'k_fc' is no library call: a product of 16 positions for each of 4194304 results moves memory, which our kernel does faster
// OTHER: exe.gemm "fc"
func.func @short(%x: tensor<2048x16xbf16> {mpc.name = "x"}, %w: tensor<16x2048xbf16> {mpc.name = "w"}) -> tensor<2048x2048xbf16> {
  %y = mpc.fusion kind(contraction) name("fc") (%p = %x : tensor<2048x16xbf16>, %q = %w : tensor<16x2048xbf16>) -> tensor<2048x2048xbf16> {
    %1 = mpc.matmul %p, %q : (tensor<2048x16xbf16>, tensor<16x2048xbf16>) -> tensor<2048x2048xf32>
    %2 = mpc.cast %1 : tensor<2048x2048xf32> to tensor<2048x2048xbf16>
    mpc.yield %2 : tensor<2048x2048xbf16>
  }
  return %y : tensor<2048x2048xbf16>
}

// -----

// A deeper one is the library's.
// REMARK-NOT: is no library call
// CHECK: exe.gemm "deep"
// OTHER: exe.gemm "deep"
func.func @deep(%x: tensor<2048x64xbf16> {mpc.name = "x"}, %w: tensor<64x2048xbf16> {mpc.name = "w"}) -> tensor<2048x2048xbf16> {
  %y = mpc.fusion kind(contraction) name("deep") (%p = %x : tensor<2048x64xbf16>, %q = %w : tensor<64x2048xbf16>) -> tensor<2048x2048xbf16> {
    %1 = mpc.matmul %p, %q : (tensor<2048x64xbf16>, tensor<64x2048xbf16>) -> tensor<2048x2048xf32>
    %2 = mpc.cast %1 : tensor<2048x2048xf32> to tensor<2048x2048xbf16>
    mpc.yield %2 : tensor<2048x2048xbf16>
  }
  return %y : tensor<2048x2048xbf16>
}

// -----

// CHECK: exe.launch @k_dw
// REMARK: kernel 'k_dw' is no library call: our kernel sums an operand of a large product faster
// OTHER: exe.gemm "dw"
func.func @large(%x: tensor<64x4096xbf16> {mpc.name = "x"}, %g: tensor<64x4096xbf16> {mpc.name = "g"}) -> (tensor<4096xbf16>, tensor<4096x4096xbf16>) {
  %d:2 = mpc.fusion kind(contraction) name("dw") (%p = %x : tensor<64x4096xbf16>, %q = %g : tensor<64x4096xbf16>) -> (tensor<4096xbf16>, tensor<4096x4096xbf16>) {
    %1 = mpc.cast %q : tensor<64x4096xbf16> to tensor<64x4096xf32>
    %2 = mpc.reduce_sum %1 axes([0]) : tensor<64x4096xf32> -> tensor<4096xf32>
    %3 = mpc.cast %2 : tensor<4096xf32> to tensor<4096xbf16>
    %4 = mpc.matmul %p, %q transpose_lhs : (tensor<64x4096xbf16>, tensor<64x4096xbf16>) -> tensor<4096x4096xf32>
    %5 = mpc.cast %4 : tensor<4096x4096xf32> to tensor<4096x4096xbf16>
    mpc.yield %3, %5 : tensor<4096xbf16>, tensor<4096x4096xbf16>
  }
  return %d#0, %d#1 : tensor<4096xbf16>, tensor<4096x4096xbf16>
}
