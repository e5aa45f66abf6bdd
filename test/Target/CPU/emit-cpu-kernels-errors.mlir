// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx512 --mpc-emit-cpu-kernels --verify-diagnostics

// expected-error @below {{kernel 'unscheduled' has no mpc.schedule; run mpc-schedule-cpu-kernels first}}
// expected-error @below {{no code could be generated for kernel 'unscheduled'}}
func.func private @unscheduled(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
