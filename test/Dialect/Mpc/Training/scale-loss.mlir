// Each preset's rules as ops: how the scale enters the seed, which tensors are
// checked, how gradients are unscaled, what a skipped step changes, and how the
// scale is updated.
// RUN: mpc-opt %s --mpc-scale-loss=loss-scale=torch | FileCheck %s --check-prefixes=CHECK,TORCH
// RUN: mpc-opt %s --mpc-scale-loss=loss-scale=dynamic | FileCheck %s --check-prefixes=CHECK,TORCH
// RUN: mpc-opt %s --mpc-scale-loss=loss-scale=keras3 | FileCheck %s --check-prefixes=CHECK,KERAS3
// RUN: mpc-opt %s --mpc-scale-loss=loss-scale=tf_keras | FileCheck %s --check-prefixes=CHECK,TFKERAS
// RUN: mpc-opt %s --mpc-scale-loss=loss-scale=tf2.1 | FileCheck %s --check-prefixes=CHECK,TFKERAS
// RUN: mpc-opt %s --mpc-scale-loss=loss-scale=apex | FileCheck %s --check-prefixes=CHECK,APEX
// RUN: mpc-opt %s --mpc-scale-loss=loss-scale=deepspeed,hysteresis=2 | FileCheck %s --check-prefixes=CHECK,DEEPSPEED
// RUN: mpc-opt %s --mpc-scale-loss=loss-scale=static=1024 | FileCheck %s --check-prefixes=CHECK,STATIC --implicit-check-not=loss_scale
// RUN: mpc-opt %s --mpc-scale-loss=loss-scale=static=1024,check=scaled | FileCheck %s --check-prefixes=CHECK,CHECKED --implicit-check-not=loss_scale.update
// RUN: mpc-opt %s --mpc-scale-loss=loss-scale=none | FileCheck %s --check-prefixes=CHECK,NONE --implicit-check-not=loss_scale
// Without a preset the types in the function choose.
// RUN: mpc-opt %s --mpc-scale-loss | FileCheck %s --check-prefixes=CHECK,NONE --implicit-check-not=loss_scale
// A step that is already scaled stays unchanged.
// RUN: mpc-opt %s --mpc-scale-loss=loss-scale=torch --mpc-scale-loss=loss-scale=torch | FileCheck %s --check-prefixes=CHECK,TORCH

// CHECK: func.func @step(
// CHECK-SAME: [[W:%[^:]+]]: tensor<4xf32> {mpc.name = "fc.weight"
// CHECK-SAME: [[M:%[^:]+]]: tensor<4xf32> {mpc.name = "fc.weight.momentum"
// CHECK-SAME: [[T:%[^:]+]]: tensor<i64> {mpc.name = "step"
// TORCH-SAME: [[SCALE:%[^:]+]]: tensor<f32> {mpc.initial = dense<6.553600e+04> : tensor<f32>, mpc.name = "loss_scale.scale", mpc.role = #mpc.role<loss_scale_state, "scale">}
// TORCH-SAME: [[GOOD:%[^:]+]]: tensor<i32> {mpc.initial = dense<0> : tensor<i32>, mpc.name = "loss_scale.good_steps"
// TORCH-SAME: [[SKIPPED:%[^:]+]]: tensor<i64> {mpc.initial = dense<0> : tensor<i64>, mpc.name = "loss_scale.skipped_steps"
// TORCH-SAME: [[OVERFLOW:%[^:]+]]: tensor<2xi64> {mpc.initial = dense<[-1, 0]> : tensor<2xi64>, mpc.labels = ["fc.weight (op mpc.mul, layer fc)"], mpc.name = "loss_scale.overflow"
// TORCH-SAME: [[WHEN:%[^:]+]]: tensor<i64> {mpc.initial = dense<-1> : tensor<i64>, mpc.name = "loss_scale.overflow_step"
// KERAS3-SAME: [[SCALE:%[^:]+]]: tensor<f32> {mpc.initial = dense<3.276800e+04>
// TFKERAS-SAME: [[SCALE:%[^:]+]]: tensor<f32> {mpc.initial = dense<3.276800e+04>
// APEX-SAME: [[SCALE:%[^:]+]]: tensor<f32> {mpc.initial = dense<6.553600e+04>
// DEEPSPEED-SAME: [[SCALE:%[^:]+]]: tensor<f32> {mpc.initial = dense<4.2949673E+9>
// DEEPSPEED-SAME: [[LEFT:%[^:]+]]: tensor<i32> {mpc.initial = dense<2> : tensor<i32>, mpc.name = "loss_scale.hysteresis_left"
// Every new argument is replaced in place by a result of the same name.
// TORCH-SAME: mpc.alias = 5 : i64, mpc.name = "loss_scale.scale"
// TORCH-SAME: mpc.alias = 6 : i64, mpc.name = "loss_scale.good_steps"
// TORCH-SAME: mpc.alias = 8 : i64, mpc.name = "loss_scale.overflow"
// TORCH-SAME: mpc.alias = 9 : i64, mpc.name = "loss_scale.overflow_step"
// TORCH-SAME: mpc.alias = 7 : i64, mpc.name = "loss_scale.skipped_steps"

// The seed is the scale itself: no multiply is added.
// CHECK-NOT: mpc.gradient_seed
// TORCH: [[G:%.+]] = mpc.mul %{{.+}}, [[SCALE]] {mpc.layer = "fc"}
// KERAS3: [[G:%.+]] = mpc.mul %{{.+}}, [[SCALE]]
// TFKERAS: [[G:%.+]] = mpc.mul %{{.+}}, [[SCALE]]
// STATIC: [[SEED:%.+]] = mpc.constant dense<1.024000e+03> : tensor<f32>
// STATIC: [[G:%.+]] = mpc.mul %{{.+}}, [[SEED]]
// CHECKED: [[G:%.+]] = mpc.mul %{{.+}}
// NONE: [[SEED:%.+]] = mpc.constant dense<1.000000e+00> : tensor<f32>
// NONE: [[G:%.+]] = mpc.mul %{{.+}}, [[SEED]]
// NONE-NOT: mpc.all_finite
// NONE: mpc.optimizer.sgd [[W]], [[G]] states([[M]]) step([[T]]) learning_rate(%{{.+}}) {momentum

// CHECK: [[NEXT:%.+]] = mpc.add [[T]], %{{.+}} : (tensor<i64>

// torch: scaled gradients are checked; times the f32 of the f64 reciprocal.
// TORCH: [[FINITE:%.+]], [[RECORD:%.+]] = mpc.all_finite [[G]] names(["fc.weight"]) :
// TORCH: [[WIDE:%.+]] = mpc.cast [[SCALE]] : tensor<f32> to tensor<f64>
// TORCH: [[DIV:%.+]] = mpc.div %{{.+}}, [[WIDE]] : (tensor<f64>
// TORCH: [[INVERSE:%.+]] = mpc.cast [[DIV]] : tensor<f64> to tensor<f32>
// TORCH: [[STEP:%.+]] = mpc.select [[FINITE]], [[NEXT]], [[T]]
// TORCH: mpc.loss_scale.update [[SCALE]], [[GOOD]] when([[FINITE]]) {backoff = 5.000000e-01 : f64, growth = 2.000000e+00 : f64, interval = 2000 : i64, keep_finite} :
// The record and its step are those of the last step that was skipped.
// TORCH: mpc.select [[FINITE]], [[OVERFLOW]], [[RECORD]]
// TORCH: [[ATTEMPTED:%.+]] = mpc.add [[T]], [[SKIPPED]]
// TORCH: mpc.select [[FINITE]], [[WHEN]], [[ATTEMPTED]]
// TORCH: [[MORE:%.+]] = mpc.add [[SKIPPED]],
// TORCH: mpc.select [[FINITE]], [[SKIPPED]], [[MORE]]
// TORCH: mpc.optimizer.sgd [[W]], [[G]] states([[M]]) step([[T]]) learning_rate(%{{.+}}) when([[FINITE]]) unscale([[INVERSE]]) {momentum

// Keras 3: divided by the scale; neither floor nor ceiling.
// KERAS3: [[FINITE:%.+]], %{{.+}} = mpc.all_finite [[G]] names
// KERAS3: mpc.select [[FINITE]], [[NEXT]], [[T]]
// KERAS3: mpc.loss_scale.update {{.*}} {backoff = 5.000000e-01 : f64, growth = 2.000000e+00 : f64, interval = 2000 : i64} :
// KERAS3: mpc.optimizer.sgd {{.*}} when([[FINITE]]) unscale([[SCALE]]) {{.*}}unscale_mode = #mpc<unscale_mode divide>

// tf_keras: unscaled gradients are checked; a floor of 1; a skipped step counts.
// TFKERAS: [[INVERSE:%.+]] = mpc.div %{{.+}}, [[SCALE]] : (tensor<f32>
// TFKERAS: [[FINITE:%.+]], %{{.+}} = mpc.all_finite [[G]] unscale([[INVERSE]]) names
// TFKERAS-NOT: mpc.select [[FINITE]], [[NEXT]]
// TFKERAS: mpc.loss_scale.update {{.*}} {{.*}}keep_finite, min = 1.000000e+00 : f64}
// TFKERAS: mpc.optimizer.sgd {{.*}} when([[FINITE]]) unscale([[INVERSE]]) {momentum
// TFKERAS: return {{.*}}, [[NEXT]],

// APEX: mpc.loss_scale.update {{.*}} interval = 2000 : i64, max = 0x4170000000000000 : f64} :
// DEEPSPEED: mpc.loss_scale.update {{.*}} hysteresis_left([[LEFT]]) when(%{{.+}}) {{.*}}hysteresis = 2 : i64, interval = 1000 : i64, min = 1.000000e+00 : f64}

// A fixed scale checks nothing, so that no step is skipped.
// STATIC-NOT: mpc.all_finite
// STATIC: mpc.optimizer.sgd {{.*}} learning_rate(%{{.+}}) unscale(%{{.+}}) {momentum
// CHECKED: [[FINITE:%.+]], %{{.+}} = mpc.all_finite [[G]]
// CHECKED: mpc.optimizer.sgd {{.*}} when([[FINITE]]) unscale(
func.func @step(%loss: tensor<f32> {mpc.name = "loss", mpc.role = #mpc.role<input>},
    %x: tensor<4xf32> {mpc.name = "x", mpc.role = #mpc.role<input>},
    %w: tensor<4xf32> {mpc.name = "fc.weight", mpc.role = #mpc.role<parameter>},
    %m: tensor<4xf32> {mpc.name = "fc.weight.momentum", mpc.role = #mpc.role<optimizer_state>},
    %t: tensor<i64> {mpc.name = "step", mpc.role = #mpc.role<optimizer_step>})
    -> (tensor<f32> {mpc.name = "loss", mpc.role = #mpc.role<loss>},
        tensor<4xf32> {mpc.name = "fc.weight", mpc.role = #mpc.role<parameter>, mpc.alias = 2 : i64},
        tensor<4xf32> {mpc.name = "fc.weight.momentum", mpc.role = #mpc.role<optimizer_state>, mpc.alias = 3 : i64},
        tensor<i64> {mpc.name = "step", mpc.role = #mpc.role<optimizer_step>, mpc.alias = 4 : i64}) {
  %seed = mpc.gradient_seed : tensor<f32>
  %g = mpc.mul %x, %seed {mpc.layer = "fc"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %lr = mpc.learning_rate %t base(0.1) : tensor<i64> -> tensor<f32>
  %nw, %nm = mpc.optimizer.sgd %w, %g states(%m) step(%t) learning_rate(%lr) {momentum = 0.9 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i64>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  %one = mpc.constant dense<1> : tensor<i64>
  %nt = mpc.add %t, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
  return %loss, %nw, %nm, %nt : tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<i64>
}

// A function without seeds and optimizers is left alone.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: (%{{[^:]*}}: tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: mpc.relu
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpc.relu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
