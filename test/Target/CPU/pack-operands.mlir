// RUN: mpc-opt %s --mpc-pack-operands=target=cpu:avx512bf16 --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-pack-operands=target=cpu:avx512bf16 --mpc-pack-operands=target=cpu:avx512bf16 --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-pack-operands=target=cpu:avx512 --split-input-file | FileCheck %s --check-prefix=SLOW
// RUN: mpc-opt %s --mpc-pack-operands=target=cuda:sm_80 --split-input-file | FileCheck %s --check-prefix=SLOW

// Many groups of rows would pack the matrix repeatedly. Where the last-level cache is slow as memory
// nothing is packed before, and GPUs have no panels.

// CHECK-LABEL: func @many_rows
// CHECK: %[[PANELS:.*]] = mpc.fusion kind(transpose) name("fc_panels") (%[[W:.*]] = %{{.*}} : tensor<4096x784xbf16>) -> tensor<128x392x64xbf16>
// CHECK-NEXT: mpc.pack %[[W]] transpose packed<columns = 32, depth = 2>
// CHECK: mpc.fusion kind(contraction) name("fc") ({{.*}}, %[[P:.*]] = %[[PANELS]] :
// CHECK-NEXT: mpc.matmul %{{.*}}, %[[P]] packed<columns = 32, depth = 2>
// SLOW-LABEL: func @many_rows
// SLOW-NOT: mpc.pack
// SLOW: return
func.func @many_rows(%x: tensor<8192x784xbf16>, %w: tensor<4096x784xbf16>) -> tensor<8192x4096xbf16> {
  %0 = mpc.fusion kind(contraction) name("fc") (%a = %x : tensor<8192x784xbf16>, %b = %w : tensor<4096x784xbf16>) -> tensor<8192x4096xbf16> {
    %1 = mpc.matmul %a, %b transpose_rhs : (tensor<8192x784xbf16>, tensor<4096x784xbf16>) -> tensor<8192x4096xbf16>
    mpc.yield %1 : tensor<8192x4096xbf16>
  }
  return %0 : tensor<8192x4096xbf16>
}

// -----

// Few rows do not amortize a packing kernel for one matmul, but several matmuls share one.

// CHECK-LABEL: func @few_rows
// CHECK-NOT: mpc.pack
// CHECK: return
func.func @few_rows(%x: tensor<20x768xbf16>, %w: tensor<768x3072xbf16>) -> tensor<20x3072xf32> {
  %0 = mpc.fusion kind(contraction) name("step") (%a = %x : tensor<20x768xbf16>, %b = %w : tensor<768x3072xbf16>) -> tensor<20x3072xf32> {
    %1 = mpc.matmul %a, %b : (tensor<20x768xbf16>, tensor<768x3072xbf16>) -> tensor<20x3072xf32>
    mpc.yield %1 : tensor<20x3072xf32>
  }
  return %0 : tensor<20x3072xf32>
}

// -----

!rows = tensor<20x3072xf32>
!narrow = tensor<20x768xbf16>
!weight = tensor<768x3072xbf16>

// CHECK-LABEL: func @shared
// CHECK-COUNT-1: mpc.pack
// CHECK-NOT: mpc.pack
// CHECK-COUNT-4: mpc.matmul {{.*}} packed<
// CHECK-NOT: mpc.pack
// CHECK: return
func.func @shared(%x: !narrow, %w: !weight) -> (!rows, !rows, !rows, !rows) {
  %0 = mpc.fusion kind(contraction) name("step") (%a = %x : !narrow, %b = %w : !weight) -> !rows {
    %1 = mpc.matmul %a, %b : (!narrow, !weight) -> !rows
    mpc.yield %1 : !rows
  }
  %2 = mpc.fusion kind(contraction) name("step_1") (%a = %x : !narrow, %b = %w : !weight) -> !rows {
    %1 = mpc.matmul %a, %b : (!narrow, !weight) -> !rows
    %3 = mpc.relu %1 : !rows
    mpc.yield %3 : !rows
  }
  %4 = mpc.fusion kind(contraction) name("step_2") (%a = %x : !narrow, %b = %w : !weight) -> !rows {
    %1 = mpc.matmul %a, %b : (!narrow, !weight) -> !rows
    %3 = mpc.exp %1 : !rows
    mpc.yield %3 : !rows
  }
  %5 = mpc.fusion kind(contraction) name("step_3") (%a = %x : !narrow, %b = %w : !weight) -> !rows {
    %1 = mpc.matmul %a, %b : (!narrow, !weight) -> !rows
    %3 = mpc.tanh %1 : !rows
    mpc.yield %3 : !rows
  }
  return %0, %2, %4, %5 : !rows, !rows, !rows, !rows
}

// -----

// A kernel that only casts for the panels is removed; packing reads the kernel's input.

// CHECK-LABEL: func @cast
// CHECK-NOT: name("narrow")
// CHECK: mpc.fusion kind(transpose) name("fc_panels") (%[[W:.*]] = %{{.*}} : tensor<1x784x4096xf32>)
// CHECK-NEXT: %[[C:.*]] = mpc.cast %[[W]] : tensor<1x784x4096xf32> to tensor<1x784x4096xbf16>
// CHECK-NEXT: %[[R:.*]] = mpc.reshape %[[C]]
// CHECK-NEXT: mpc.pack %[[R]] packed<columns = 32, depth = 2> : tensor<784x4096xbf16>
// CHECK: mpc.matmul {{.*}} packed<columns = 32, depth = 2> : (tensor<4x2048x784xbf16>,
func.func @cast(%x: tensor<4x2048x784xbf16>, %w: tensor<1x784x4096xf32>) -> tensor<4x2048x4096xbf16> {
  %v = mpc.fusion kind(elementwise) name("narrow") (%a = %w : tensor<1x784x4096xf32>) -> tensor<1x784x4096xbf16> {
    %1 = mpc.cast %a : tensor<1x784x4096xf32> to tensor<1x784x4096xbf16>
    mpc.yield %1 : tensor<1x784x4096xbf16>
  }
  %0 = mpc.fusion kind(contraction) name("fc") (%a = %x : tensor<4x2048x784xbf16>, %b = %v : tensor<1x784x4096xbf16>) -> tensor<4x2048x4096xbf16> {
    %1 = mpc.matmul %a, %b : (tensor<4x2048x784xbf16>, tensor<1x784x4096xbf16>) -> tensor<4x2048x4096xbf16>
    mpc.yield %1 : tensor<4x2048x4096xbf16>
  }
  return %0 : tensor<4x2048x4096xbf16>
}

// -----

// Rows of a transposed left side are gathered once if the panels are read in place; a few rows
// read panels as often as packing traverses the matrix.

// CHECK-LABEL: func @turned
// CHECK: mpc.pack %{{.*}} packed<columns = 32, depth = 2>
// CHECK: mpc.matmul %{{.*}}, %{{.*}} transpose_lhs packed<columns = 32, depth = 2>
func.func @turned(%x: tensor<8192x784xbf16>, %w: tensor<8192x4096xbf16>) -> tensor<784x4096xbf16> {
  %0 = mpc.fusion kind(contraction) name("gradient") (%a = %x : tensor<8192x784xbf16>, %b = %w : tensor<8192x4096xbf16>) -> tensor<784x4096xbf16> {
    %1 = mpc.matmul %a, %b transpose_lhs : (tensor<8192x784xbf16>, tensor<8192x4096xbf16>) -> tensor<784x4096xbf16>
    mpc.yield %1 : tensor<784x4096xbf16>
  }
  return %0 : tensor<784x4096xbf16>
}

// CHECK-LABEL: func @turned_few_rows
// CHECK-NOT: mpc.pack
// CHECK: return
func.func @turned_few_rows(%x: tensor<25088x64xbf16>, %w: tensor<25088x256xbf16>) -> tensor<64x256xbf16> {
  %0 = mpc.fusion kind(contraction) name("gradient") (%a = %x : tensor<25088x64xbf16>, %b = %w : tensor<25088x256xbf16>) -> tensor<64x256xbf16> {
    %1 = mpc.matmul %a, %b transpose_lhs : (tensor<25088x64xbf16>, tensor<25088x256xbf16>) -> tensor<64x256xbf16>
    mpc.yield %1 : tensor<64x256xbf16>
  }
  return %0 : tensor<64x256xbf16>
}

// -----

// Unchanged: a matrix that the epilogue reads as well.

// CHECK-LABEL: func @read_beside
// CHECK-NOT: mpc.pack
// CHECK: return
func.func @read_beside(%x: tensor<2048x2048xf32>, %w: tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
  %0 = mpc.fusion kind(contraction) name("square") (%a = %x : tensor<2048x2048xf32>, %b = %w : tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
    %1 = mpc.matmul %a, %b : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
    %2 = mpc.add %1, %b : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
    mpc.yield %2 : tensor<2048x2048xf32>
  }
  return %0 : tensor<2048x2048xf32>
}
