// GEMMs that were measured to be faster as generated kernels on one GPU are no library calls
// there: ReLU's gradient, and so the GEMM that stores the mask.
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_90a --mpc-plan --mpc-select-gemms | FileCheck %s
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_90a --mpc-plan --mpc-select-gemms 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-plan --mpc-select-gemms | FileCheck %s --check-prefix=OTHER

// CHECK: exe.launch @k_fc
// CHECK: exe.gemm "plain"
// CHECK: exe.launch @k_back
// REMARK: kernel 'k_fc' is no library call: another kernel reads the auxiliary output for its gradient
// REMARK: kernel 'k_back' is no library call: the generated kernel is faster with a mask select
// OTHER: exe.gemm "fc"
// OTHER: exe.gemm "plain"
// OTHER: exe.gemm "back"
func.func @relu(%x: tensor<8x16xbf16> {mpc.name = "x"}, %w: tensor<16x16xbf16> {mpc.name = "w"}, %dy: tensor<8x16xbf16> {mpc.name = "dy"}) -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
  %y:2 = mpc.fusion kind(contraction) name("fc") (%p = %x : tensor<8x16xbf16>, %q = %w : tensor<16x16xbf16>) -> (tensor<8x16xf32>, tensor<8x16xi1>) {
    %1 = mpc.matmul %p, %q : (tensor<8x16xbf16>, tensor<16x16xbf16>) -> tensor<8x16xf32>
    %2 = mpc.relu %1 : tensor<8x16xf32>
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %3 = mpc.compare le %2, %zero : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x16xi1>
    mpc.yield %2, %3 : tensor<8x16xf32>, tensor<8x16xi1>
  }
  %z = mpc.fusion kind(contraction) name("plain") (%p = %x : tensor<8x16xbf16>, %q = %w : tensor<16x16xbf16>) -> tensor<8x16xf32> {
    %1 = mpc.matmul %p, %q : (tensor<8x16xbf16>, tensor<16x16xbf16>) -> tensor<8x16xf32>
    mpc.yield %1 : tensor<8x16xf32>
  }
  %dx = mpc.fusion kind(contraction) name("back") (%p = %dy : tensor<8x16xbf16>, %q = %w : tensor<16x16xbf16>,
      %m = %y#1 : tensor<8x16xi1>) -> tensor<8x16xf32> {
    %1 = mpc.matmul %p, %q transpose_rhs : (tensor<8x16xbf16>, tensor<16x16xbf16>) -> tensor<8x16xf32>
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %2 = mpc.select %m, %zero, %1 : (tensor<8x16xi1>, tensor<f32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    mpc.yield %2 : tensor<8x16xf32>
  }
  return %y#0, %z, %dx : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
}
