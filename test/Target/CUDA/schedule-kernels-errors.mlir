// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-schedule-kernels --verify-diagnostics --split-input-file

// Operands in the tile layout of a CPU are no other target's.

// expected-error @below {{kernel 'packed' has no form on cuda:sm_80}}
func.func private @packed(%a: tensor<5x8xbf16>, %w: tensor<1x8x32xbf16>) -> tensor<5x32xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  // expected-error @below {{has a packed operand, which only contraction kernels read}}
  %0 = mpc.matmul %a, %w packed<columns = 32, interleave = 2>
      : (tensor<5x8xbf16>, tensor<1x8x32xbf16>) -> tensor<5x32xf32>
  return %0 : tensor<5x32xf32>
}
