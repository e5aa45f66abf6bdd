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

// -----

// What is written by hand has the numbers that its family reads, for a kernel that it has.

// expected-error @below {{kernel 'no_family' has a mpc.schedule of family 'attention' which has no such kernels}}
func.func private @no_family(%x: tensor<64xf32>) -> tensor<64xf32>
    attributes {mpc.kernel_kind = "elementwise", mpc.schedule = {family = "attention"}} {
  %0 = mpc.neg %x : tensor<64xf32>
  return %0 : tensor<64xf32>
}

// -----

// expected-error @below {{kernel 'no_vector' has a mpc.schedule of family 'map' without its 'vector'}}
func.func private @no_vector(%x: tensor<64xf32>) -> tensor<64xf32>
    attributes {mpc.kernel_kind = "elementwise", mpc.schedule = {family = "map", threads = 64}} {
  %0 = mpc.neg %x : tensor<64xf32>
  return %0 : tensor<64xf32>
}

// -----

// expected-error @below {{with a 'vector' of 0}}
func.func private @empty_vector(%x: tensor<64xf32>) -> tensor<64xf32>
    attributes {mpc.kernel_kind = "elementwise", mpc.schedule = {family = "map", threads = 64, vector = 0}} {
  %0 = mpc.neg %x : tensor<64xf32>
  return %0 : tensor<64xf32>
}

// -----

// expected-error @below {{with 'width', which says nothing about this kernel}}
func.func private @unknown(%x: tensor<64xf32>) -> tensor<64xf32>
    attributes {mpc.kernel_kind = "elementwise", mpc.schedule = {family = "map", threads = 64, vector = 1, width = 4}} {
  %0 = mpc.neg %x : tensor<64xf32>
  return %0 : tensor<64xf32>
}

// -----

// expected-error @below {{with 2048 threads; a block has 1 to 1024}}
func.func private @threads(%x: tensor<64xf32>) -> tensor<64xf32>
    attributes {mpc.kernel_kind = "elementwise", mpc.schedule = {family = "map", threads = 2048, vector = 1}} {
  %0 = mpc.neg %x : tensor<64xf32>
  return %0 : tensor<64xf32>
}

// -----

// expected-error @below {{with a grid of 0 blocks}}
func.func private @grid(%x: tensor<64xf32>) -> tensor<64xf32>
    attributes {mpc.kernel_kind = "elementwise", mpc.schedule = {family = "map", blocks = array<i64: 1, 0, 1>, vector = 1}} {
  %0 = mpc.neg %x : tensor<64xf32>
  return %0 : tensor<64xf32>
}
