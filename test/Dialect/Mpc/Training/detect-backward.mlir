// RUN: mpc-opt %s --mpc-detect-backward --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-detect-backward --mpc-detect-backward --split-input-file | FileCheck %s --check-prefix=AGAIN
// RUN: mpc-opt %s --mpc-detect-backward --mpc-scale-loss=loss-scale=torch --split-input-file | FileCheck %s --check-prefix=HELD

// Squares of x * w - t, their gradient and a step with momentum. The gradient
// ends where the momentum reads it.
// CHECK-LABEL: func.func @momentum
// CHECK: %[[SEED:.+]] = mpc.gradient_seed : tensor<f32>
// CHECK: %[[N:.+]] = mpc.constant dense<1.250000e-01>
// CHECK: %[[SCALED:.+]] = mpc.mul %[[N]], %[[SEED]]
// CHECK: mpc.reduce_mean
// CHECK: %[[DY:.+]] = mpc.mul %{{.+}}, %[[SCALED]]
// CHECK: %[[DW:.+]] = mpc.matmul %{{.+}}, %[[DY]] transpose_lhs
// CHECK: %[[G:.+]] = mpc.div %[[DW]], %[[SEED]]
// CHECK: mpc.add %{{.+}}, %[[G]]
// CHECK-NOT: mpc.div
// CHECK: return
// AGAIN-LABEL: func.func @momentum
// AGAIN-COUNT-1: mpc.gradient_seed
// AGAIN-NOT: mpc.gradient_seed
// AGAIN: return

// HELD-LABEL: func.func @momentum
// HELD-SAME: %[[OLDW:[^:]+]]: tensor<4x2xf32>
// HELD-SAME: %[[SCALE:[^:]+]]: tensor<f32> {mpc.initial = dense<6.553600e+04> : tensor<f32>, mpc.name = "loss_scale.scale"
// HELD: mpc.mul %{{.+}}, %[[SCALE]]
// HELD: %[[DW:.+]] = mpc.matmul %{{.+}}, %{{.+}} transpose_lhs
// HELD: %[[G:.+]] = mpc.div %[[DW]], %[[SCALE]]
// HELD: mpc.add %{{.+}}, %[[G]]
// HELD: %[[FINITE:.+]], %{{.+}} = mpc.all_finite %[[DW]] names(["w"])
// HELD: mpc.select %[[FINITE]], %{{.+}}, %[[OLDW]]
// HELD: mpc.loss_scale.update %[[SCALE]], %{{.+}} when(%[[FINITE]])
func.func @momentum(%w: tensor<4x2xf32> {mpc.role = #mpc.role<input>, mpc.name = "w"},
    %m: tensor<4x2xf32> {mpc.role = #mpc.role<input>, mpc.name = "m"},
    %x: tensor<8x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
    %t: tensor<8x2xf32> {mpc.role = #mpc.role<input>, mpc.name = "t"})
    -> (tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "out0", mpc.alias = 0 : i64},
        tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "out1", mpc.alias = 1 : i64},
        tensor<f32> {mpc.role = #mpc.role<output>, mpc.name = "out2"}) {
  %n = mpc.constant dense<0.125> : tensor<f32>
  %rate = mpc.constant dense<0.5> : tensor<f32>
  %decay = mpc.constant dense<0.75> : tensor<f32>
  %y = mpc.matmul %x, %w : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  %d = mpc.sub %y, %t : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
  %s = mpc.mul %d, %d : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
  %loss = mpc.reduce_mean %s axes([0, 1]) : tensor<8x2xf32> -> tensor<f32>
  %dy = mpc.mul %d, %n : (tensor<8x2xf32>, tensor<f32>) -> tensor<8x2xf32>
  %dw = mpc.matmul %x, %dy transpose_lhs : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %old = mpc.mul %m, %decay : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %m1 = mpc.add %old, %dw : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %u = mpc.mul %m1, %rate : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %w1 = mpc.sub %w, %u : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return %w1, %m1, %loss : tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>
}

// -----

// A broadcast seed is scaled as a scalar; a norm of the gradient, which is returned
// as well, reads the unscaled gradient, and so do both factors of its square.
// factors of its square.
// CHECK-LABEL: func.func @norm
// CHECK: %[[SEED:.+]] = mpc.gradient_seed : tensor<f32>
// CHECK: %[[C:.+]] = mpc.constant dense<-1.000000e+00>
// CHECK: %[[SCALED:.+]] = mpc.mul %[[C]], %[[SEED]] : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK: %[[WIDE:.+]] = mpc.broadcast %[[SCALED]]
// CHECK: %[[DY:.+]] = mpc.mul %{{.+}}, %[[WIDE]]
// CHECK: %[[DW:.+]] = mpc.matmul %{{.+}}, %[[DY]]
// CHECK: %[[G:.+]] = mpc.div %[[DW]], %[[SEED]]
// CHECK: mpc.mul %[[G]], %[[G]]
// CHECK: mpc.mul %[[G]], %{{.+}}
// CHECK-NOT: mpc.div
// CHECK: return
func.func @norm(%w: tensor<4x2xf32> {mpc.role = #mpc.role<input>, mpc.name = "w"},
    %x: tensor<8x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<f32> {mpc.role = #mpc.role<output>, mpc.name = "norm"},
        tensor<f32> {mpc.role = #mpc.role<output>, mpc.name = "loss"},
        tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "new", mpc.alias = 0 : i64}) {
  %c = mpc.constant dense<-1.0> : tensor<f32>
  %rate = mpc.constant dense<0.5> : tensor<f32>
  %y = mpc.matmul %x, %w : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  %yy = mpc.mul %y, %y : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
  %l = mpc.reduce_sum %yy axes([0, 1]) : tensor<8x2xf32> -> tensor<f32>
  %loss = mpc.neg %l : tensor<f32>
  %wide = mpc.broadcast %c : tensor<f32> to tensor<8x2xf32>
  %dy = mpc.mul %y, %wide : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
  %dw = mpc.matmul %x, %dy transpose_lhs : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %s = mpc.mul %dw, %dw : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %norm = mpc.reduce_sum %s axes([0, 1]) : tensor<4x2xf32> -> tensor<f32>
  %u = mpc.mul %dw, %rate : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %w1 = mpc.sub %w, %u : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return %norm, %loss, %w1 : tensor<f32>, tensor<f32>, tensor<4x2xf32>
}

// -----

// A model that updates a cache is no training step: its outputs need every matmul.
// CHECK-LABEL: func.func @cache
// CHECK-NOT: mpc.gradient_seed
func.func @cache(%kept: tensor<8x2xf32> {mpc.role = #mpc.role<input>, mpc.name = "kept"},
    %x: tensor<8x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
    %w: tensor<4x2xf32> {mpc.role = #mpc.role<input>, mpc.name = "w"})
    -> (tensor<8x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "new", mpc.alias = 0 : i64},
        tensor<f32> {mpc.role = #mpc.role<output>, mpc.name = "score"}) {
  %c = mpc.constant dense<0.5> : tensor<f32>
  %k = mpc.mul %x, %c : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %y = mpc.matmul %k, %w : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  %new = mpc.add %kept, %y : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
  %score = mpc.reduce_sum %new axes([0, 1]) : tensor<8x2xf32> -> tensor<f32>
  return %new, %score : tensor<8x2xf32>, tensor<f32>
}
