// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-lower-kernels-to-gpu --verify-diagnostics --split-input-file

// expected-error @below {{kernel 'unscheduled' has no mpc.schedule; run mpc-schedule-kernels first}}
// expected-error @below {{no code could be generated for kernel 'unscheduled'}}
func.func private @unscheduled(%x: tensor<8xf32>) -> tensor<8xf32>
    attributes {mpc.kernel_kind = "elementwise"} {
  %0 = mpc.neg %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// expected-error @below {{unknown kernel family 'warp'}}
// expected-error @below {{no code could be generated for kernel 'unknown_family'}}
func.func private @unknown_family(%x: tensor<8xf32>) -> tensor<8xf32>
    attributes {mpc.kernel_kind = "elementwise", mpc.schedule = {family = "warp"}} {
  %0 = mpc.neg %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// expected-error @below {{kernel 'malformed' has a mpc.schedule whose entry 'threads' is "many"}}
// expected-error @below {{no code could be generated for kernel 'malformed'}}
func.func private @malformed(%x: tensor<8xf32>) -> tensor<8xf32>
    attributes {mpc.kernel_kind = "elementwise", mpc.schedule = {family = "map", threads = "many"}} {
  %0 = mpc.neg %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Hand-written schedules are verified too.

// expected-error @below {{kernel 'no_tiles' has a mpc.schedule of family 'gemm' without its 'splits'}}
// expected-error @below {{no code could be generated for kernel 'no_tiles'}}
func.func private @no_tiles(%x: tensor<128x256xbf16>, %w: tensor<256x64xbf16>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = {family = "gemm"}} {
  %0 = mpc.matmul %x, %w : (tensor<128x256xbf16>, tensor<256x64xbf16>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}
