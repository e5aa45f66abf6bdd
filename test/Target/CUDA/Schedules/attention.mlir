// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-schedule-kernels | FileCheck %s --check-prefixes=CHECK,SM80
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_75 --mpc-schedule-kernels | FileCheck %s --check-prefixes=CHECK,SM75
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-schedule-kernels --mpc-lower-kernels-to-gpu | FileCheck %s --check-prefix=LOWERED

// bf16 uses Tensor Cores where available; the next tile is copied during the current
// one; one 16-bit weight is as exact as the result.
// CHECK-LABEL: func.func private @narrow
// SM80-SAME: blocks = array<i64: 96, 1, 1>
// SM80-SAME: family = "attention"
// SM80-SAME: matrix_units = 1
// SM80-SAME: stages = 2
// SM80-SAME: weight_pieces = 1
// SM75-NOT: matrix_units
// SM75: return
// LOWERED-LABEL: gpu.func @narrow
// LOWERED: cuda.copy_async
// LOWERED: cuda.load_matrix
// LOWERED: cuda.mma {{.*}} type(bf16)
// LOWERED: cuda.call "exp2Fast"
// LOWERED: cuda.load_matrix {{.*}} transposed
// LOWERED: cuda.mma {{.*}} type(bf16)
func.func private @narrow(%q: tensor<4x12x128x64xbf16>, %k: tensor<4x12x128x64xbf16>, %v: tensor<4x12x128x64xbf16>)
    -> tensor<4x12x128x64xbf16> attributes {mpc.kernel_kind = "attention"} {
  %0 = mpc.attention %q, %k, %v scale(1.250000e-01)
    : (tensor<4x12x128x64xbf16>, tensor<4x12x128x64xbf16>, tensor<4x12x128x64xbf16>) -> tensor<4x12x128x64xf32>
  %1 = mpc.cast %0 : tensor<4x12x128x64xf32> to tensor<4x12x128x64xbf16>
  return %1 : tensor<4x12x128x64xbf16>
}

// A result in f32 needs more of each weight than one f16; sm_75 has no
// asynchronous copies.
// CHECK-LABEL: func.func private @wide_result
// SM80-SAME: stages = 2
// SM75-SAME: stages = 1
// CHECK-SAME: weight_pieces = 2
func.func private @wide_result(%q: tensor<2x40x16xf16>, %k: tensor<2x40x16xf16>, %v: tensor<2x40x16xf16>)
    -> tensor<2x40x16xf32> attributes {mpc.kernel_kind = "attention"} {
  %0 = mpc.attention %q, %k, %v scale(2.500000e-01)
    : (tensor<2x40x16xf16>, tensor<2x40x16xf16>, tensor<2x40x16xf16>) -> tensor<2x40x16xf32>
  return %0 : tensor<2x40x16xf32>
}

// f32 stays f32.
// CHECK-LABEL: func.func private @single
// CHECK-NOT: matrix_units
// CHECK: return
// LOWERED-LABEL: gpu.func @single
// LOWERED-NOT: cuda.mma
// LOWERED: math.fma
func.func private @single(%q: tensor<2x40x16xf32>, %k: tensor<2x40x16xf32>, %v: tensor<2x40x16xf32>)
    -> tensor<2x40x16xf32> attributes {mpc.kernel_kind = "attention"} {
  %0 = mpc.attention %q, %k, %v scale(2.500000e-01)
    : (tensor<2x40x16xf32>, tensor<2x40x16xf32>, tensor<2x40x16xf32>) -> tensor<2x40x16xf32>
  return %0 : tensor<2x40x16xf32>
}

// Grouped-query attention, one query, eight heads on two KV heads: a block has the rows of four
// heads, and split-KV uses two blocks. With many queries blocks have one head each.
// CHECK-LABEL: func.func private @grouped
// SM80-SAME: blocks = array<i64: 4, 1, 1>
// SM80-SAME: grouped = 4
// SM80-SAME: parts = 2
// SM80-SAME: rows = 16
// CHECK-LABEL: func.func private @many_queries
// CHECK-NOT: grouped
// CHECK: return
func.func private @grouped(%q: tensor<8x1x64xbf16>, %k: tensor<2x256x64xbf16>, %v: tensor<2x256x64xbf16>)
    -> tensor<8x1x64xf32> attributes {mpc.kernel_kind = "attention"} {
  %0 = mpc.attention %q, %k, %v scale(1.250000e-01)
    : (tensor<8x1x64xbf16>, tensor<2x256x64xbf16>, tensor<2x256x64xbf16>) -> tensor<8x1x64xf32>
  return %0 : tensor<8x1x64xf32>
}
func.func private @many_queries(%q: tensor<8x128x64xbf16>, %k: tensor<2x256x64xbf16>, %v: tensor<2x256x64xbf16>)
    -> tensor<8x128x64xf32> attributes {mpc.kernel_kind = "attention"} {
  %0 = mpc.attention %q, %k, %v scale(1.250000e-01)
    : (tensor<8x128x64xbf16>, tensor<2x256x64xbf16>, tensor<2x256x64xbf16>) -> tensor<8x128x64xf32>
  return %0 : tensor<8x128x64xf32>
}
