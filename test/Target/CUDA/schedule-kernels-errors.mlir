// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-schedule-kernels --verify-diagnostics --split-input-file

// Operands in a CPU's packed layout are unsupported on other targets.

// expected-error @below {{kernel 'packed' has no form on cuda:sm_80}}
func.func private @packed(%a: tensor<5x8xbf16>, %w: tensor<1x8x32xbf16>) -> tensor<5x32xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  // expected-error @below {{has a packed operand, which only contraction kernels support}}
  %0 = mpc.matmul %a, %w packed<columns = 32, interleave = 2>
      : (tensor<5x8xbf16>, tensor<1x8x32xbf16>) -> tensor<5x32xf32>
  return %0 : tensor<5x32xf32>
}

// -----

// A hand-written schedule has the fields of its family, for a kernel that the family supports.

// expected-error @below {{kernel 'no_family' has a mpc.schedule of family 'attention' which does not support this kernel}}
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

// expected-error @below {{with 'width', which is not a parameter of this kernel}}
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

// -----

// Tiles may differ from the chosen ones; derived fields have to match them.

func.func private @fewer_stages(%x: tensor<128x256xbf16>, %w: tensor<256x64xbf16>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = {family = "gemm", blocks = array<i64: 2, 1, 1>, threads = 128, shared_bytes = 36864, tile_m = 64, tile_n = 64, tile_k = 64, warps_m = 2, warps_n = 2, stages = 2, splits = 1}} {
  %0 = mpc.matmul %x, %w : (tensor<128x256xbf16>, tensor<256x64xbf16>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

// expected-error @below {{of family 'gemm' with a 'tile_m' of 60; the kernel needs 64}}
func.func private @no_such_tile(%x: tensor<128x256xbf16>, %w: tensor<256x64xbf16>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = {family = "gemm", blocks = array<i64: 2, 1, 1>, threads = 128, shared_bytes = 36864, tile_m = 60, tile_n = 64, tile_k = 64, warps_m = 2, warps_n = 2, stages = 2, splits = 1}} {
  %0 = mpc.matmul %x, %w : (tensor<128x256xbf16>, tensor<256x64xbf16>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

// expected-error @below {{with a 'stages' of 1; the kernel needs 2}}
func.func private @one_stage(%x: tensor<128x256xbf16>, %w: tensor<256x64xbf16>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = {family = "gemm", blocks = array<i64: 2, 1, 1>, threads = 128, shared_bytes = 18432, tile_m = 64, tile_n = 64, tile_k = 64, warps_m = 2, warps_n = 2, stages = 1, splits = 1}} {
  %0 = mpc.matmul %x, %w : (tensor<128x256xbf16>, tensor<256x64xbf16>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

// expected-error @below {{with a 'splits' of 3; the kernel needs 1}}
func.func private @uneven_splits(%x: tensor<128x256xbf16>, %w: tensor<256x64xbf16>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = {family = "gemm", blocks = array<i64: 6, 1, 1>, threads = 128, shared_bytes = 36864, tile_m = 64, tile_n = 64, tile_k = 64, warps_m = 2, warps_n = 2, stages = 2, splits = 3}} {
  %0 = mpc.matmul %x, %w : (tensor<128x256xbf16>, tensor<256x64xbf16>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

// expected-error @below {{with a 'splits' of 4; the kernel needs 1}}
func.func private @short_splits(%x: tensor<128x256xbf16>, %w: tensor<256x64xbf16>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = {family = "gemm", blocks = array<i64: 8, 1, 1>, threads = 128, shared_bytes = 36864, tile_m = 64, tile_n = 64, tile_k = 64, warps_m = 2, warps_n = 2, stages = 2, splits = 4}} {
  %0 = mpc.matmul %x, %w : (tensor<128x256xbf16>, tensor<256x64xbf16>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

// expected-error @below {{with a grid of 1 x 1 x 1 blocks; the kernel needs 2 x 1 x 1}}
func.func private @few_blocks(%x: tensor<128x256xbf16>, %w: tensor<256x64xbf16>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = {family = "gemm", blocks = array<i64: 1, 1, 1>, threads = 128, shared_bytes = 36864, tile_m = 64, tile_n = 64, tile_k = 64, warps_m = 2, warps_n = 2, stages = 2, splits = 1}} {
  %0 = mpc.matmul %x, %w : (tensor<128x256xbf16>, tensor<256x64xbf16>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

// expected-error @below {{with 64 threads; the kernel needs 128}}
func.func private @other_threads(%x: tensor<128x256xbf16>, %w: tensor<256x64xbf16>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = {family = "gemm", blocks = array<i64: 2, 1, 1>, threads = 64, shared_bytes = 36864, tile_m = 64, tile_n = 64, tile_k = 64, warps_m = 2, warps_n = 2, stages = 2, splits = 1}} {
  %0 = mpc.matmul %x, %w : (tensor<128x256xbf16>, tensor<256x64xbf16>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

// expected-error @below {{with 32768 bytes of shared memory; the kernel needs 36864}}
func.func private @little_shared(%x: tensor<128x256xbf16>, %w: tensor<256x64xbf16>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = {family = "gemm", blocks = array<i64: 2, 1, 1>, threads = 128, shared_bytes = 32768, tile_m = 64, tile_n = 64, tile_k = 64, warps_m = 2, warps_n = 2, stages = 2, splits = 1}} {
  %0 = mpc.matmul %x, %w : (tensor<128x256xbf16>, tensor<256x64xbf16>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

// expected-error @below {{with 1048576 bytes of shared memory; a block has 0 to 166912}}
func.func private @more_shared(%x: tensor<128x256xbf16>, %w: tensor<256x64xbf16>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = {family = "gemm", blocks = array<i64: 2, 1, 1>, threads = 128, shared_bytes = 1048576, tile_m = 64, tile_n = 64, tile_k = 64, warps_m = 2, warps_n = 2, stages = 2, splits = 1}} {
  %0 = mpc.matmul %x, %w : (tensor<128x256xbf16>, tensor<256x64xbf16>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

// expected-error @below {{with 64 bytes of scratch memory; the kernel needs 0}}
func.func private @scratch(%x: tensor<128x256xbf16>, %w: tensor<256x64xbf16>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = {family = "gemm", blocks = array<i64: 2, 1, 1>, threads = 128, shared_bytes = 36864, scratch_bytes = 64, tile_m = 64, tile_n = 64, tile_k = 64, warps_m = 2, warps_n = 2, stages = 2, splits = 1}} {
  %0 = mpc.matmul %x, %w : (tensor<128x256xbf16>, tensor<256x64xbf16>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

// expected-error @below {{with a thread mapping}}
func.func private @team(%x: tensor<128x256xbf16>, %w: tensor<256x64xbf16>) -> tensor<128x64xf32>
    attributes {mpc.kernel_kind = "contraction", mpc.schedule = {family = "gemm", blocks = array<i64: 2, 1, 1>, threads = 128, shared_bytes = 36864, team = #tile.threads<members = 32>, tile_m = 64, tile_n = 64, tile_k = 64, warps_m = 2, warps_n = 2, stages = 2, splits = 1}} {
  %0 = mpc.matmul %x, %w : (tensor<128x256xbf16>, tensor<256x64xbf16>) -> tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// -----

// expected-error @below {{of family 'attention' with a 'weight_pieces' of 4096; the kernel needs 3}}
func.func private @weight_pieces(%q: tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xf32>
    attributes {mpc.kernel_kind = "attention", mpc.schedule = {family = "attention", blocks = array<i64: 64, 1, 1>, threads = 32, shared_bytes = 36864,
      async_query = 1, columns = 64, depth = 64, keys = 64, matrix_units = 1, part_keys = 128, parts = 1, piece_columns = 64, query_in_registers = 1, rows = 16, stages = 2, weight_pieces = 4096}} {
  %0 = mpc.attention %q, %q, %q scale(1.250000e-01)
    : (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xf32>
  return %0 : tensor<2x4x128x64xf32>
}

// -----

// expected-error @below {{with a 'vector' of 3; the kernel needs 4}}
func.func private @odd_vector(%x: tensor<4096xf32>) -> tensor<4096xf32>
    attributes {mpc.kernel_kind = "elementwise", mpc.schedule = {family = "map", blocks = array<i64: 16, 1, 1>, threads = 64, vector = 3}} {
  %0 = mpc.neg %x : tensor<4096xf32>
  return %0 : tensor<4096xf32>
}

// -----

// expected-error @below {{with a grid of 7 x 1 x 1 blocks; the kernel needs 16 x 1 x 1}}
func.func private @leaves_elements_out(%x: tensor<4096xf32>) -> tensor<4096xf32>
    attributes {mpc.kernel_kind = "elementwise", mpc.schedule = {family = "map", blocks = array<i64: 7, 1, 1>, threads = 64, vector = 4}} {
  %0 = mpc.neg %x : tensor<4096xf32>
  return %0 : tensor<4096xf32>
}

// -----

// Additional threads would be idle.

func.func private @large_grid(%x: tensor<4096xf32>) -> tensor<4096xf32>
    attributes {mpc.kernel_kind = "elementwise", mpc.schedule = {family = "map", blocks = array<i64: 9, 1, 1>, threads = 128, vector = 4}} {
  %0 = mpc.neg %x : tensor<4096xf32>
  return %0 : tensor<4096xf32>
}

// -----

// Only matrix units multiply 8-bit floats.

// expected-error @below {{kernel 'e4m3' has no form on cuda:sm_80}}
func.func private @e4m3(%x: tensor<5x33xf8E4M3FN>, %w: tensor<33x17xf8E4M3FN>) -> tensor<5x17xf32>
    attributes {mpc.kernel_kind = "contraction"} {
  // expected-error @below {{multiplies 8-bit floats, which needs a target with matrix units of these types and an f32 result}}
  %0 = mpc.matmul %x, %w : (tensor<5x33xf8E4M3FN>, tensor<33x17xf8E4M3FN>) -> tensor<5x17xf32>
  return %0 : tensor<5x17xf32>
}
