// RUN: mpc-opt %s --mpc-fold-constants | FileCheck %s

// Collectives depend on all ranks and are not folded.
// CHECK-LABEL: func @message
// CHECK: mpc.all_reduce
func.func @message() -> tensor<2xf32> {
  %a = mpc.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = mpc.all_reduce %a reduction(sum) ranks(4) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
