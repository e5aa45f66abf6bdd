// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-split-recurrent{target=cuda:sm_90a}))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-split-recurrent{target=cuda:sm_90a},mpc-split-recurrent{target=cuda:sm_90a}))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-split-recurrent{target=cpu:avx512}))' | FileCheck %s --check-prefix=CPU
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-split-recurrent{target=cuda:sm_90a}))' --mlir-print-debuginfo | FileCheck %s --check-prefix=LOC

// The input matmul of all steps has the concatenated weights of both directions and
// the input's half of the bias after it; the steps get the other half.
// CPU-LABEL: func.func @both_directions
// CPU: mpc.lstm
// CHECK-LABEL: func.func @both_directions
// CHECK-SAME: %[[X:[^:]+]]: tensor<5x4x8xbf16>, %[[W:[^:]+]]: tensor<2x64x8xbf16>, %[[R:[^:]+]]: tensor<2x64x16xbf16>, %[[B:[^:]+]]: tensor<2x128xf32>, %[[H:[^:]+]]:
// CHECK: %[[ALL:.+]] = mpc.reshape %[[W]] : tensor<2x64x8xbf16> to tensor<128x8xbf16>
// CHECK: %[[PRODUCT:.+]] = mpc.matmul %[[X]], %[[ALL]] transpose_rhs : (tensor<5x4x8xbf16>, tensor<128x8xbf16>) -> tensor<5x4x128xf32>
// CHECK: %[[HALF:.+]] = mpc.slice %[[B]] [0, 0] [2, 64]
// CHECK: %[[BIAS:.+]] = mpc.reshape %[[HALF]] : tensor<2x64xf32> to tensor<128xf32>
// CHECK: %[[GATES:.+]] = mpc.add %[[PRODUCT]], %[[BIAS]]
// CHECK: %[[OTHER:.+]] = mpc.slice %[[B]] [0, 64] [2, 64]
// CHECK: %[[Y:.+]], %{{.+}}, %[[C:.+]] = mpc.recurrence lstm %[[GATES]], %[[R]] bias(%[[OTHER]]) initial_h(%[[H]]) initial_c(%[[H]]) direction(bidirectional)
// CHECK: return %[[Y]], %[[C]]
// LOC: mpc.recurrence {{.*}} loc(#[[LAYER:.+]])
// LOC: #[[LAYER]] = loc("encoder/lstm")
func.func @both_directions(%x: tensor<5x4x8xbf16>, %w: tensor<2x64x8xbf16>, %r: tensor<2x64x16xbf16>, %b: tensor<2x128xf32>, %h: tensor<2x4x16xf32>) -> (tensor<5x2x4x16xf32>, tensor<2x4x16xf32>) {
  %0:3 = mpc.lstm %x, %w, %r bias(%b) initial_h(%h) initial_c(%h) direction(bidirectional) : (tensor<5x4x8xbf16>, tensor<2x64x8xbf16>, tensor<2x64x16xbf16>, tensor<2x128xf32>, tensor<2x4x16xf32>, tensor<2x4x16xf32>) -> (tensor<5x2x4x16xf32>, tensor<2x4x16xf32>, tensor<2x4x16xf32>) loc("encoder/lstm")
  return %0#0, %0#2 : tensor<5x2x4x16xf32>, tensor<2x4x16xf32>
}

// The reset gate is applied before the matmul, or after it.
// CHECK-LABEL: func.func @grus
// CHECK-NOT: mpc.add
// CHECK: mpc.recurrence gru
// CHECK: mpc.recurrence linear_gru {{.*}} direction(reverse)
func.func @grus(%x: tensor<5x4x8xf32>, %w: tensor<1x48x8xf32>, %r: tensor<1x48x16xf32>) -> (tensor<5x1x4x16xf32>, tensor<5x1x4x16xf32>) {
  %0:2 = mpc.gru %x, %w, %r : (tensor<5x4x8xf32>, tensor<1x48x8xf32>, tensor<1x48x16xf32>) -> (tensor<5x1x4x16xf32>, tensor<1x4x16xf32>)
  %1:2 = mpc.gru %x, %w, %r linear_before_reset direction(reverse) : (tensor<5x4x8xf32>, tensor<1x48x8xf32>, tensor<1x48x16xf32>) -> (tensor<5x1x4x16xf32>, tensor<1x4x16xf32>)
  return %0#0, %1#0 : tensor<5x1x4x16xf32>, tensor<5x1x4x16xf32>
}

// States of 16 bits, and weights that exceed the capacity of all blocks.
// CHECK-LABEL: func.func @no_kernel
// CHECK-NOT: mpc.recurrence
// CHECK: mpc.rnn
// CHECK-NOT: mpc.recurrence
// CHECK: mpc.rnn
func.func @no_kernel(%x: tensor<5x4x8xbf16>, %w: tensor<1x16x8xbf16>, %r: tensor<1x16x16xbf16>, %y: tensor<5x4x8xf32>, %v: tensor<1x8192x8xf32>, %s: tensor<1x8192x8192xf32>) -> (tensor<5x1x4x16xbf16>, tensor<5x1x4x8192xf32>) {
  %0:2 = mpc.rnn %x, %w, %r : (tensor<5x4x8xbf16>, tensor<1x16x8xbf16>, tensor<1x16x16xbf16>) -> (tensor<5x1x4x16xbf16>, tensor<1x4x16xbf16>)
  %1:2 = mpc.rnn %y, %v, %s : (tensor<5x4x8xf32>, tensor<1x8192x8xf32>, tensor<1x8192x8192xf32>) -> (tensor<5x1x4x8192xf32>, tensor<1x4x8192xf32>)
  return %0#0, %1#0 : tensor<5x1x4x16xbf16>, tensor<5x1x4x8192xf32>
}

// A split recurrence of a derivative stays where it has a kernel, and is unrolled elsewhere.
// CHECK-LABEL: func.func @learns
// CHECK: mpc.recurrence_training rnn
// CHECK: mpc.recurrence_gradient rnn
// CPU-LABEL: func.func @learns
// CPU-NOT: mpc.recurrence
// CPU: mpc.matmul {{.*}} transpose_rhs
// CPU: mpc.tanh
// CPU: mpc.matmul {{.*}} transpose_rhs
// CPU: mpc.tanh
// CPU: mpc.matmul %{{[^ ]+}}, %{{[^ ]+}} : (tensor<4x16xbf16>, tensor<16x16xbf16>) -> tensor<4x16xf32>
// CPU: mpc.matmul %{{[^ ]+}}, %{{[^ ]+}} : (tensor<4x16xbf16>, tensor<16x16xbf16>) -> tensor<4x16xf32>
// CPU-NOT: mpc.recurrence
// CPU: return
func.func @learns(%p: tensor<2x4x16xf32>, %r: tensor<1x16x16xbf16>, %d: tensor<2x1x4x16xf32>) -> (tensor<2x1x4x16xf32>, tensor<2x4x16xf32>, tensor<1x4x16xf32>) {
  %0:3 = mpc.recurrence_training rnn %p, %r : (tensor<2x4x16xf32>, tensor<1x16x16xbf16>) -> (tensor<2x1x4x16xf32>, tensor<1x4x16xf32>, tensor<2x4x16xf32>)
  %1:2 = mpc.recurrence_gradient rnn %r, %0#2 result(%d) : (tensor<1x16x16xbf16>, tensor<2x4x16xf32>, tensor<2x1x4x16xf32>) -> (tensor<2x4x16xf32>, tensor<1x4x16xf32>)
  return %0#0, %1#0, %1#1 : tensor<2x1x4x16xf32>, tensor<2x4x16xf32>, tensor<1x4x16xf32>
}
