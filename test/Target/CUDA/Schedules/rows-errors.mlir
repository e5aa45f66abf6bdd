// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-schedule-kernels --mpc-lower-kernels-to-gpu --verify-diagnostics --split-input-file

// Hand-written row schedules that are invalid.

// expected-error @below {{kernel 'no_team' has a row schedule without a thread mapping}}
// expected-error @below {{no code could be generated for kernel 'no_team'}}
func.func private @no_team(%x: tensor<64x512xf32>) -> tensor<64x512xf32> attributes {mpc.kernel_kind = "row",
    mpc.schedule = {family = "row", blocks = array<i64: 64, 1, 1>, threads = 128}} {
  %0 = mpc.softmax %x axis(1) : tensor<64x512xf32>
  return %0 : tensor<64x512xf32>
}

// -----

// expected-error @below {{needs members times items threads, 32, found 128}}
// expected-error @below {{no code could be generated}}
func.func private @other_threads(%x: tensor<64x512xf32>) -> tensor<64x512xf32> attributes {mpc.kernel_kind = "row",
    mpc.schedule = {family = "row", blocks = array<i64: 64, 1, 1>, threads = 128, team = #tile.threads<members = 32, steps = 16>}} {
  %0 = mpc.softmax %x axis(1) : tensor<64x512xf32>
  return %0 : tensor<64x512xf32>
}

// -----

// expected-error @below {{needs a thread mapping that covers all positions, 512, found 256}}
// expected-error @below {{no code could be generated}}
func.func private @short(%x: tensor<64x512xf32>) -> tensor<64x512xf32> attributes {mpc.kernel_kind = "row",
    mpc.schedule = {family = "row", blocks = array<i64: 64, 1, 1>, threads = 32, team = #tile.threads<members = 32, vector = 4, steps = 2>}} {
  %0 = mpc.softmax %x axis(1) : tensor<64x512xf32>
  return %0 : tensor<64x512xf32>
}

// -----

// expected-error @below {{needs a vector width that divides 1, found 4}}
// expected-error @below {{no code could be generated}}
func.func private @unaligned(%x: tensor<64x513xf32>) -> tensor<64x513xf32> attributes {mpc.kernel_kind = "row",
    mpc.schedule = {family = "row", blocks = array<i64: 64, 1, 1>, threads = 32, team = #tile.threads<members = 32, vector = 4, steps = 5>}} {
  %0 = mpc.softmax %x axis(1) : tensor<64x513xf32>
  return %0 : tensor<64x513xf32>
}

// -----

// expected-error @below {{needs bytes of shared memory for buffers, at least 2048, found 0}}
// expected-error @below {{no code could be generated}}
func.func private @no_memory(%x: tensor<64x512xf32>) -> tensor<64x512xf32> attributes {mpc.kernel_kind = "row",
    mpc.schedule = {family = "row", blocks = array<i64: 64, 1, 1>, threads = 128, team = #tile.threads<members = 128, vector = 4, keep = shared>}} {
  %0 = mpc.softmax %x axis(1) : tensor<64x512xf32>
  return %0 : tensor<64x512xf32>
}

// -----

// expected-error @below {{needs splits = 1, found 2}}
// expected-error @below {{no code could be generated}}
func.func private @split_softmax(%x: tensor<64x512xf32>) -> tensor<64x512xf32> attributes {mpc.kernel_kind = "row",
    mpc.schedule = {family = "row", blocks = array<i64: 64, 2, 1>, threads = 64, team = #tile.threads<members = 64, vector = 4, splits = 2>}} {
  %0 = mpc.softmax %x axis(1) : tensor<64x512xf32>
  return %0 : tensor<64x512xf32>
}

// -----

// expected-error @below {{needs bytes of scratch memory, at least 4112, found 16}}
// expected-error @below {{no code could be generated}}
func.func private @no_scratch(%x: tensor<64x512xf32>) -> tensor<512xf32> attributes {mpc.kernel_kind = "reduce",
    mpc.schedule = {family = "reduction", blocks = array<i64: 4, 2, 1>, threads = 256, scratch_bytes = 16,
                    team = #tile.threads<members = 8, items = 32, vector = 4, steps = 4, splits = 2, columns = true>}} {
  %0 = mpc.reduce_sum %x axes([0]) : tensor<64x512xf32> -> tensor<512xf32>
  return %0 : tensor<512xf32>
}
