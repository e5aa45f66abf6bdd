// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-pad-contractions --verify-diagnostics

// expected-error @below {{argument 0 of 'dynamic' has the type 'tensor<?x8xf32>'; bind its dimensions first}}
func.func @dynamic(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %w = mpc.constant dense<0.5> : tensor<8x8xf32>
  %0 = mpc.matmul %x, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
