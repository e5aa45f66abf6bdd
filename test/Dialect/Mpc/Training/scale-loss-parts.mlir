// A window of micro steps: backward pass and update are separate functions, which
// share the scale and the gradient accumulators.
// RUN: mpc-opt %s --mpc-scale-loss="loss-scale=torch accumulate=4" | FileCheck %s
// RUN: mpc-opt %s --mpc-scale-loss="loss-scale=none accumulate=4" | FileCheck %s --check-prefix=NONE
// RUN: mpc-opt %s --mpc-scale-loss=loss-scale=torch | FileCheck %s --check-prefix=SINGLE
// RUN: mpc-opt %S/Inputs/half-parts.mlir --mpc-scale-loss | FileCheck %s --check-prefix=AGREE

// Without a preset the module has a single one: f16 values in only one function must
// not leave a scale in the gradients that the other function reads.
// AGREE-LABEL: func.func @forward_backward
// AGREE-SAME: mpc.initial = dense<6.553600e+04> : tensor<f32>, mpc.name = "loss_scale.scale"
// AGREE-LABEL: func.func @apply
// AGREE-SAME: mpc.initial = dense<6.553600e+04> : tensor<f32>, mpc.name = "loss_scale.scale"
// AGREE: mpc.all_finite
// AGREE: mpc.optimizer.sgd {{.*}} when({{.*}} unscale(

// The seed is the scale over the window's length; gradients are accumulated.
// CHECK-LABEL: func.func @forward_backward
// CHECK-SAME: [[SCALE:%[^:]+]]: tensor<f32> {mpc.initial = dense<6.553600e+04> : tensor<f32>, mpc.name = "loss_scale.scale"
// CHECK-SAME: [[SUM:%[^:]+]]: tensor<2xf32> {mpc.name = "w.gradient", mpc.role = #mpc.role<optimizer_state>}
// CHECK-SAME: -> (tensor<f32> {mpc.name = "loss", mpc.role = #mpc.role<loss>}, tensor<2xf32> {mpc.alias = 2 : i64, mpc.name = "w.gradient", mpc.role = #mpc.role<optimizer_state>})
// CHECK: [[FOUR:%.+]] = mpc.constant dense<4.000000e+00> : tensor<f32>
// CHECK: [[SEED:%.+]] = mpc.div [[SCALE]], [[FOUR]]
// CHECK: [[G:%.+]] = mpc.mul %{{.+}}, [[SEED]]
// CHECK: [[NEW:%.+]] = mpc.add [[SUM]], [[G]]
// CHECK: return %{{.+}}, [[NEW]]
// NONE-LABEL: func.func @forward_backward
// NONE: [[ONE:%.+]] = mpc.constant dense<1.000000e+00>
// NONE: mpc.div [[ONE]],
// A window of one step leaves its gradients as results.
// SINGLE-LABEL: func.func @forward_backward
// SINGLE-SAME: -> (tensor<f32> {{{[^}]*}}}, tensor<2xf32> {mpc.name = "w.gradient", mpc.role = #mpc.role<output>})
func.func @forward_backward(%x: tensor<2xf32> {mpc.name = "x", mpc.role = #mpc.role<input>})
    -> (tensor<f32> {mpc.name = "loss", mpc.role = #mpc.role<loss>},
        tensor<2xf32> {mpc.name = "w.gradient", mpc.role = #mpc.role<output>}) {
  %loss = mpc.reduce_sum %x axes([0]) : tensor<2xf32> -> tensor<f32>
  %seed = mpc.gradient_seed : tensor<f32>
  %g = mpc.mul %x, %seed : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %loss, %g : tensor<f32>, tensor<2xf32>
}

// The window's accumulators are checked once, and reset to zero.
// CHECK-LABEL: func.func @apply
// CHECK-SAME: [[SUM:%[^:]+]]: tensor<2xf32> {mpc.name = "w.gradient"
// CHECK: [[FINITE:%.+]], %{{.+}} = mpc.all_finite [[SUM]] names(["w"])
// CHECK: [[ZERO:%.+]] = mpc.constant dense<0.000000e+00> : tensor<f32>
// CHECK: [[ZEROS:%.+]] = mpc.broadcast [[ZERO]]
// CHECK: mpc.optimizer.sgd %{{.+}}, [[SUM]] {{.*}} when([[FINITE]])
// CHECK: return %{{[^,]+}}, %{{[^,]+}}, [[ZEROS]]
// SINGLE-LABEL: func.func @apply
// SINGLE-NOT: mpc.broadcast
func.func @apply(%w: tensor<2xf32> {mpc.name = "w", mpc.role = #mpc.role<parameter>},
    %g: tensor<2xf32> {mpc.name = "w.gradient", mpc.role = #mpc.role<optimizer_state>},
    %t: tensor<i64> {mpc.name = "step", mpc.role = #mpc.role<optimizer_step>})
    -> (tensor<2xf32> {mpc.name = "w", mpc.role = #mpc.role<parameter>, mpc.alias = 0 : i64}) {
  %lr = mpc.constant dense<0.1> : tensor<f32>
  %nw = mpc.optimizer.sgd %w, %g step(%t) learning_rate(%lr) : (tensor<2xf32>, tensor<2xf32>, tensor<i64>, tensor<f32>) -> tensor<2xf32>
  return %nw : tensor<2xf32>
}

// Several losses have a seed each, in the type of their loss; one scale serves
// them all.
// SINGLE-LABEL: func.func @two_losses
// SINGLE-SAME: [[SCALE:%[^:]+]]: tensor<f32> {mpc.initial = dense<6.553600e+04>

// SINGLE: [[A:%.+]] = mpc.mul %{{.+}}, [[SCALE]] : (tensor<2xf32>, tensor<f32>)
// SINGLE: [[WIDE:%.+]] = mpc.cast [[SCALE]] : tensor<f32> to tensor<f64>
// SINGLE: [[B:%.+]] = mpc.mul %{{.+}}, [[WIDE]] : (tensor<2xf64>, tensor<f64>)
// SINGLE: return [[A]], [[B]]
func.func @two_losses(%x: tensor<2xf32> {mpc.name = "x", mpc.role = #mpc.role<input>},
                      %y: tensor<2xf64> {mpc.name = "y", mpc.role = #mpc.role<input>})
    -> (tensor<2xf32> {mpc.name = "v.gradient", mpc.role = #mpc.role<output>},
        tensor<2xf64> {mpc.name = "w.gradient", mpc.role = #mpc.role<output>}) {
  %a = mpc.gradient_seed : tensor<f32>
  %ga = mpc.mul %x, %a : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %b = mpc.gradient_seed : tensor<f64>
  %gb = mpc.mul %y, %b : (tensor<2xf64>, tensor<f64>) -> tensor<2xf64>
  return %ga, %gb : tensor<2xf32>, tensor<2xf64>
}
