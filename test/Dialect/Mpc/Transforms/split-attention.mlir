// RUN: mpc-opt %s --mpc-split-attention --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-split-attention --split-input-file | mpc-opt --mpc-split-attention --split-input-file | FileCheck %s

// Each sequence reads its own keys and values; grouped heads and the mask are split too.
// CHECK-LABEL: func @apart
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x4x1x8xf32>, %[[K0:[a-z0-9]+]]: tensor<1x2x6x8xf32>, %[[K1:[a-z0-9]+]]: tensor<1x2x6x8xf32>, %[[V0:[a-z0-9]+]]: tensor<1x2x6x8xf32>, %[[V1:[a-z0-9]+]]: tensor<1x2x6x8xf32>, %[[M:[a-z0-9]+]]: tensor<2x1x1x6xf32>
// CHECK: %[[Q0:.*]] = mpc.slice %[[Q]] [0, 0, 0, 0] [1, 4, 1, 8]
// CHECK: %[[M0:.*]] = mpc.slice %[[M]] [0, 0, 0, 0] [1, 1, 1, 6]
// CHECK: %[[A0:.*]] = mpc.attention %[[Q0]], %[[K0]], %[[V0]] mask(%[[M0]]) scale(5.000000e-01) {mpc.layer = "block"} : {{.*}} -> tensor<1x4x1x8xf32>
// CHECK: %[[Q1:.*]] = mpc.slice %[[Q]] [1, 0, 0, 0] [1, 4, 1, 8]
// CHECK: %[[M1:.*]] = mpc.slice %[[M]] [1, 0, 0, 0] [1, 1, 1, 6]
// CHECK: %[[A1:.*]] = mpc.attention %[[Q1]], %[[K1]], %[[V1]] mask(%[[M1]])
// CHECK: %[[R:.*]] = mpc.concat %[[A0]], %[[A1]] axis(0)
// CHECK: return %[[R]]
func.func @apart(%q: tensor<2x4x1x8xf32>, %k0: tensor<1x2x6x8xf32>, %k1: tensor<1x2x6x8xf32>, %v0: tensor<1x2x6x8xf32>, %v1: tensor<1x2x6x8xf32>, %mask: tensor<2x1x1x6xf32>) -> tensor<2x4x1x8xf32> {
  %k = mpc.concat %k0, %k1 axis(0) : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>) -> tensor<2x2x6x8xf32>
  %v = mpc.concat %v0, %v1 axis(0) : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>) -> tensor<2x2x6x8xf32>
  %0 = mpc.attention %q, %k, %v mask(%mask) scale(0.5) {mpc.layer = "block"} : (tensor<2x4x1x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x1x1x6xf32>) -> tensor<2x4x1x8xf32>
  return %0 : tensor<2x4x1x8xf32>
}

// -----

// A mask that all share stays whole.
// CHECK-LABEL: func @one_mask
// CHECK-COUNT-2: mpc.attention {{.*}} mask(%{{.*}}) scale(1.000000e+00) causal : (tensor<1x2x3x8xf32>, {{.*}}, tensor<3x6xi1>)
// CHECK-NOT: mpc.attention
// CHECK: return
func.func @one_mask(%q: tensor<2x2x3x8xf32>, %k0: tensor<1x2x6x8xf32>, %k1: tensor<1x2x6x8xf32>, %v0: tensor<1x2x6x8xf32>, %v1: tensor<1x2x6x8xf32>, %mask: tensor<3x6xi1>) -> tensor<2x2x3x8xf32> {
  %k = mpc.concat %k0, %k1 axis(0) : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>) -> tensor<2x2x6x8xf32>
  %v = mpc.concat %v0, %v1 axis(0) : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>) -> tensor<2x2x6x8xf32>
  %0 = mpc.attention %q, %k, %v mask(%mask) scale(1.0) causal : (tensor<2x2x3x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<3x6xi1>) -> tensor<2x2x3x8xf32>
  return %0 : tensor<2x2x3x8xf32>
}

// -----

// Slices of several sequences, of rows and of heads are not batch entries.
// CHECK-LABEL: func @not_entries
// CHECK-COUNT-3: mpc.attention
// CHECK-NOT: mpc.attention
// CHECK: return
func.func @not_entries(%q: tensor<4x2x1x8xf32>, %q3: tensor<2x1x8xf32>, %p: tensor<2x2x6x8xf32>, %r: tensor<4x2x3x8xf32>, %h: tensor<1x6x8xf32>) -> (tensor<4x2x1x8xf32>, tensor<4x2x1x8xf32>, tensor<2x1x8xf32>) {
  %pairs = mpc.concat %p, %p axis(0) : (tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>) -> tensor<4x2x6x8xf32>
  %rows = mpc.concat %r, %r axis(2) : (tensor<4x2x3x8xf32>, tensor<4x2x3x8xf32>) -> tensor<4x2x6x8xf32>
  %heads = mpc.concat %h, %h axis(0) : (tensor<1x6x8xf32>, tensor<1x6x8xf32>) -> tensor<2x6x8xf32>
  %0 = mpc.attention %q, %pairs, %pairs scale(1.0) : (tensor<4x2x1x8xf32>, tensor<4x2x6x8xf32>, tensor<4x2x6x8xf32>) -> tensor<4x2x1x8xf32>
  %1 = mpc.attention %q, %rows, %rows scale(1.0) : (tensor<4x2x1x8xf32>, tensor<4x2x6x8xf32>, tensor<4x2x6x8xf32>) -> tensor<4x2x1x8xf32>
  %2 = mpc.attention %q3, %heads, %heads scale(1.0) : (tensor<2x1x8xf32>, tensor<2x6x8xf32>, tensor<2x6x8xf32>) -> tensor<2x1x8xf32>
  return %0, %1, %2 : tensor<4x2x1x8xf32>, tensor<4x2x1x8xf32>, tensor<2x1x8xf32>
}
