// RUN: mpc-opt %s --mpc-fold-constants | FileCheck %s
// RUN: mpc-opt %s --mpc-fold-constants=max-bytes=32 | FileCheck %s --check-prefix=BOUND
// RUN: mpc-opt %s --mpc-fold-constants=max-flops=4 | FileCheck %s --check-prefix=FLOPS

// A result beyond the bound is not folded if it is larger than its operands.
// CHECK-LABEL: func @grows
// CHECK-NOT: mpc.broadcast
// CHECK: return
// BOUND-LABEL: func @grows
// BOUND: mpc.broadcast
func.func @grows() -> tensor<8x2xf32> {
  %a = mpc.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = mpc.broadcast %a : tensor<2xf32> to tensor<8x2xf32>
  return %0 : tensor<8x2xf32>
}

// A transpose beyond the bound is folded: its input is freed.
// BOUND-LABEL: func @keeps_size
// BOUND-NOT: mpc.transpose
// BOUND: return
func.func @keeps_size() -> tensor<3x4xf32> {
  %a = mpc.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [1.0, 2.0, 3.0]]> : tensor<4x3xf32>
  %0 = mpc.transpose %a [1, 0] : tensor<4x3xf32> to tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// So is an upcast beyond the bound, which would run each time.
// BOUND-LABEL: func @upcasts
// BOUND-NOT: mpc.cast
// BOUND: return
func.func @upcasts() -> tensor<9xf32> {
  %a = mpc.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]> : tensor<9xbf16>
  %0 = mpc.cast %a : tensor<9xbf16> to tensor<9xf32>
  return %0 : tensor<9xf32>
}

// A splat with 2^40 elements is not materialized.
// CHECK-LABEL: func @huge_splat
// CHECK: mpc.relu
// CHECK: return
func.func @huge_splat() -> tensor<1048576x1048576xf32> {
  %a = mpc.constant dense<1.0> : tensor<1048576x1048576xf32>
  %0 = mpc.relu %a : tensor<1048576x1048576xf32>
  return %0 : tensor<1048576x1048576xf32>
}

// Ops with more arithmetic than max-flops are not folded, whatever their size.
// FLOPS-LABEL: func @too_many_flops
// FLOPS: mpc.reduce_sum
func.func @too_many_flops() -> tensor<f32> {
  %a = mpc.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32>
  %0 = mpc.reduce_sum %a axes([0]) : tensor<8xf32> -> tensor<f32>
  return %0 : tensor<f32>
}
