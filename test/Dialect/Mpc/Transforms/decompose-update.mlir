// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-decompose))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-decompose{keep=optimizer.sgd,learning_rate}))' | FileCheck %s --check-prefix=KEEP

!values = tensor<4xf32>

// Without momentum a step is a product and a difference; the rate is rounded
// once.
// CHECK-LABEL: func.func @sgd
// CHECK-SAME: %[[W:[^:]+]]: tensor<4xf32>, %[[G:[^:]+]]: tensor<4xf32>
// CHECK: %[[RATE:.+]] = mpc.cast %{{.+}} : tensor<f64> to tensor<f32>
// CHECK: %[[STEP:.+]] = mpc.mul %[[RATE]], %[[G]]
// CHECK: %[[NEW:.+]] = mpc.sub %[[W]], %[[STEP]]
// CHECK: return %[[NEW]]
// KEEP-LABEL: func.func @sgd
// KEEP: mpc.optimizer.sgd
func.func @sgd(%w: !values, %g: !values, %t: tensor<i64>, %lr: tensor<f64>) -> !values {
  %0 = mpc.optimizer.sgd %w, %g step(%t) learning_rate(%lr) : (!values, !values, tensor<i64>, tensor<f64>) -> !values
  return %0 : !values
}

// At the first step the buffer is the gradient itself.
// CHECK-LABEL: func.func @momentum
// CHECK: %[[FIRST:.+]] = mpc.compare eq %{{.+}}, %{{.+}} : (tensor<i64>, tensor<i64>) -> tensor<i1>
// CHECK: %[[BUFFER:.+]] = mpc.select %[[FIRST]], %[[G:[^,]+]], %{{.+}}
// CHECK: mpc.add %[[G]], %{{.+}} : (tensor<4xf32>, tensor<4xf32>)
// CHECK: return %{{.+}}, %[[BUFFER]]
func.func @momentum(%w: !values, %g: !values, %m: !values, %t: tensor<i64>, %lr: tensor<f32>) -> (!values, !values) {
  %0:2 = mpc.optimizer.sgd %w, %g states(%m) step(%t) learning_rate(%lr) {momentum = 0.9, nesterov, weight_decay = 0.01, maximize} : (!values, !values, !values, tensor<i64>, tensor<f32>) -> (!values, !values)
  return %0#0, %0#1 : !values, !values
}

// CHECK-LABEL: func.func @dampened
// CHECK: mpc.select
func.func @dampened(%w: !values, %g: !values, %m: !values, %t: tensor<i64>, %lr: tensor<f32>) -> (!values, !values) {
  %0:2 = mpc.optimizer.sgd %w, %g states(%m) step(%t) learning_rate(%lr) {momentum = 0.9, dampening = 0.3} : (!values, !values, !values, tensor<i64>, tensor<f32>) -> (!values, !values)
  return %0#0, %0#1 : !values, !values
}

// CHECK-LABEL: func.func @keras_momentum
// CHECK-NOT: mpc.select
func.func @keras_momentum(%w: !values, %g: !values, %m: !values, %t: tensor<i64>, %lr: tensor<f32>) -> (!values, !values, !values, !values) {
  %0:2 = mpc.optimizer.sgd %w, %g states(%m) step(%t) learning_rate(%lr) {momentum = 0.9, form = #mpc<optimizer_form keras>} : (!values, !values, !values, tensor<i64>, tensor<f32>) -> (!values, !values)
  %1:2 = mpc.optimizer.sgd %w, %g states(%m) step(%t) learning_rate(%lr) {momentum = 0.9, nesterov, form = #mpc<optimizer_form keras>} : (!values, !values, !values, tensor<i64>, tensor<f32>) -> (!values, !values)
  return %0#0, %0#1, %1#0, %1#1 : !values, !values, !values, !values
}

// The gradient is upcast, then unscaled; bias corrections are float64 scalars;
// a skipped step keeps parameter and states, and the copy is rounded from the
// kept values.
// CHECK-LABEL: func.func @adam
// CHECK-SAME: %[[W:[^:]+]]: tensor<4xf32>, %[[G:[^:]+]]: tensor<4xf16>, %[[M:[^:]+]]: tensor<4xf32>, %[[V:[^:]+]]: tensor<4xf32>
// CHECK-SAME: %[[OK:[^:]+]]: tensor<i1>, %[[INVERSE:[^:]+]]: tensor<f32>
// CHECK: %[[WIDE:.+]] = mpc.cast %[[G]] : tensor<4xf16> to tensor<4xf32>
// CHECK: mpc.mul %[[WIDE]], %[[INVERSE]]
// CHECK: mpc.pow %{{.+}}, %{{.+}} : (tensor<f64>, tensor<f64>) -> tensor<f64>
// CHECK: %[[W1:.+]] = mpc.select %[[OK]], %{{.+}}, %[[W]]
// CHECK: %[[M1:.+]] = mpc.select %[[OK]], %{{.+}}, %[[M]]
// CHECK: %[[V1:.+]] = mpc.select %[[OK]], %{{.+}}, %[[V]]
// CHECK: %[[COPY:.+]] = mpc.cast %[[W1]] : tensor<4xf32> to tensor<4xf16>
// CHECK: return %[[W1]], %[[M1]], %[[V1]], %[[COPY]]
func.func @adam(%w: !values, %g: tensor<4xf16>, %m: !values, %v: !values, %t: tensor<i64>, %lr: tensor<f64>,
                %ok: tensor<i1>, %inverse: tensor<f32>) -> (!values, !values, !values, tensor<4xf16>) {
  %0:4 = mpc.optimizer.adam %w, %g states(%m, %v) step(%t) learning_rate(%lr) when(%ok) unscale(%inverse) : (!values, tensor<4xf16>, !values, !values, tensor<i64>, tensor<f64>, tensor<i1>, tensor<f32>) -> (!values, !values, !values, tensor<4xf16>)
  return %0#0, %0#1, %0#2, %0#3 : !values, !values, !values, tensor<4xf16>
}

// CHECK-LABEL: func.func @adamw_of_keras
// CHECK: mpc.div %{{.+}}, %[[SCALE:.+]] : (tensor<4xf32>, tensor<f32>)
// CHECK: mpc.max
func.func @adamw_of_keras(%w: !values, %g: !values, %m: !values, %v: !values, %max: !values, %t: tensor<i64>, %lr: tensor<f64>,
                          %scale: tensor<f32>) -> (!values, !values, !values, !values) {
  %0:4 = mpc.optimizer.adam %w, %g states(%m, %v, %max) step(%t) learning_rate(%lr) unscale(%scale) {form = #mpc<optimizer_form keras>, unscale_mode = #mpc<unscale_mode divide>, amsgrad, decoupled, weight_decay = 0.01, beta1 = 0.3} : (!values, !values, !values, !values, !values, tensor<i64>, tensor<f64>, tensor<f32>) -> (!values, !values, !values, !values)
  return %0#0, %0#1, %0#2, %0#3 : !values, !values, !values, !values
}

// CHECK-LABEL: func.func @amsgrad_of_torch
// CHECK-NOT: mpc.optimizer
func.func @amsgrad_of_torch(%w: !values, %g: !values, %m: !values, %v: !values, %max: !values, %t: tensor<i64>, %lr: tensor<f64>) -> (!values, !values, !values, !values) {
  %0:4 = mpc.optimizer.adam %w, %g states(%m, %v, %max) step(%t) learning_rate(%lr) {amsgrad, decoupled, weight_decay = 0.01} : (!values, !values, !values, !values, !values, tensor<i64>, tensor<f64>) -> (!values, !values, !values, !values)
  return %0#0, %0#1, %0#2, %0#3 : !values, !values, !values, !values
}

// A fused product is summed in float64 and rounded with the sum.
// CHECK-LABEL: func.func @fused_products
// CHECK: %[[PRODUCT:.+]] = mpc.mul %{{.+}}, %{{.+}} : (tensor<f64>, tensor<4xf64>) -> tensor<4xf64>
// CHECK: %[[SUM:.+]] = mpc.add %[[PRODUCT]], %{{.+}} : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
// CHECK: mpc.cast %[[SUM]] : tensor<4xf64> to tensor<4xf32>
func.func @fused_products(%w: !values, %g: !values, %m: !values, %v: !values, %t: tensor<i64>, %lr: tensor<f32>) -> (!values, !values, !values, !values, !values, !values, !values) {
  %0:2 = mpc.optimizer.sgd %w, %g states(%m) step(%t) learning_rate(%lr) {momentum = 0.9, fuse = "first"} : (!values, !values, !values, tensor<i64>, tensor<f32>) -> (!values, !values)
  %1:2 = mpc.optimizer.sgd %w, %g states(%m) step(%t) learning_rate(%lr) {momentum = 0.9, dampening = 0.3, fuse = "last"} : (!values, !values, !values, tensor<i64>, tensor<f32>) -> (!values, !values)
  %2:2 = mpc.optimizer.sgd %w, %g states(%m) step(%t) learning_rate(%lr) {momentum = 0.9, fuse = "first", form = #mpc<optimizer_form keras>} : (!values, !values, !values, tensor<i64>, tensor<f32>) -> (!values, !values)
  %3:2 = mpc.optimizer.sgd %w, %g states(%m) step(%t) learning_rate(%lr) {momentum = 0.9, fuse = "last", form = #mpc<optimizer_form keras>} : (!values, !values, !values, tensor<i64>, tensor<f32>) -> (!values, !values)
  %4:3 = mpc.optimizer.adam %w, %g states(%m, %v) step(%t) learning_rate(%lr) {fuse = "none"} : (!values, !values, !values, !values, tensor<i64>, tensor<f32>) -> (!values, !values, !values)
  %5:3 = mpc.optimizer.adam %w, %g states(%m, %v) step(%t) learning_rate(%lr) {fuse = "last", form = #mpc<optimizer_form keras>} : (!values, !values, !values, !values, tensor<i64>, tensor<f32>) -> (!values, !values, !values)
  %6:3 = mpc.optimizer.adam %w, %g states(%m, %v) step(%t) learning_rate(%lr) {fuse = "first", beta1 = 0.3, form = #mpc<optimizer_form keras>} : (!values, !values, !values, !values, tensor<i64>, tensor<f32>) -> (!values, !values, !values)
  return %0#1, %1#1, %2#1, %3#1, %4#1, %5#1, %6#1 : !values, !values, !values, !values, !values, !values, !values
}

// XLA's FMA contraction: the product with the multiplier is rounded together with the
// difference to the average, and rounded separately for the square.
// CHECK-LABEL: func.func @fused_unscale
// CHECK-SAME: %{{[^,]+}}, %[[G:[^:]+]]: tensor<4xf32>, %[[M:[^:]+]]: tensor<4xf32>, {{.*}}, %[[U:[^:]+]]: tensor<f32>)
// CHECK: %[[ROUNDED:.+]] = mpc.mul %[[G]], %[[U]] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK: %[[WIDE_G:.+]] = mpc.cast %[[G]] : tensor<4xf32> to tensor<4xf64>
// CHECK: %[[WIDE_U:.+]] = mpc.cast %[[U]] : tensor<f32> to tensor<f64>
// CHECK: %[[PRODUCT:.+]] = mpc.mul %[[WIDE_G]], %[[WIDE_U]]
// CHECK: %[[WIDE_M:.+]] = mpc.cast %[[M]] : tensor<4xf32> to tensor<4xf64>
// CHECK: mpc.sub %[[PRODUCT]], %[[WIDE_M]]
// CHECK: mpc.mul %[[ROUNDED]], %[[ROUNDED]]
func.func @fused_unscale(%w: !values, %g: !values, %m: !values, %v: !values, %t: tensor<i64>, %lr: tensor<f32>, %u: tensor<f32>) -> (!values, !values, !values) {
  %0:3 = mpc.optimizer.adam %w, %g states(%m, %v) step(%t) learning_rate(%lr) unscale(%u) {fuse = "first", form = #mpc<optimizer_form keras>} : (!values, !values, !values, !values, tensor<i64>, tensor<f32>, tensor<f32>) -> (!values, !values, !values)
  return %0#0, %0#1, %0#2 : !values, !values, !values
}

// CHECK-LABEL: func.func @rmsprop
// CHECK: mpc.sqrt
// CHECK-NOT: mpc.optimizer
func.func @rmsprop(%w: !values, %g: !values, %v: !values, %a: !values, %b: !values, %t: tensor<i64>, %lr: tensor<f64>) -> (!values, !values, !values, !values, !values, !values, !values) {
  %0:2 = mpc.optimizer.rmsprop %w, %g states(%v) step(%t) learning_rate(%lr) : (!values, !values, !values, tensor<i64>, tensor<f64>) -> (!values, !values)
  %1:3 = mpc.optimizer.rmsprop %w, %g states(%v, %b) step(%t) learning_rate(%lr) {momentum = 0.5, form = #mpc<optimizer_form keras>} : (!values, !values, !values, !values, tensor<i64>, tensor<f64>) -> (!values, !values, !values)
  %2:4 = mpc.optimizer.rmsprop %w, %g states(%v, %a, %b) step(%t) learning_rate(%lr) {momentum = 0.5, centered} : (!values, !values, !values, !values, !values, tensor<i64>, tensor<f64>) -> (!values, !values, !values, !values)
  return %0#0, %1#0, %1#1, %1#2, %2#0, %2#2, %2#3 : !values, !values, !values, !values, !values, !values, !values
}

// CHECK-LABEL: func.func @adagrad
// CHECK-NOT: mpc.optimizer
func.func @adagrad(%w: !values, %g: !values, %v: !values, %t: tensor<i64>, %lr: tensor<f64>) -> (!values, !values, !values) {
  %0:2 = mpc.optimizer.adagrad %w, %g states(%v) step(%t) learning_rate(%lr) {learning_rate_decay = 0.01, weight_decay = 0.1} : (!values, !values, !values, tensor<i64>, tensor<f64>) -> (!values, !values)
  %1:2 = mpc.optimizer.adagrad %w, %g states(%v) step(%t) learning_rate(%lr) {form = #mpc<optimizer_form keras>} : (!values, !values, !values, tensor<i64>, tensor<f64>) -> (!values, !values)
  return %0#0, %0#1, %1#0 : !values, !values, !values
}

// Schedules are float64 functions of the step; the result is rounded once.
// CHECK-LABEL: func.func @schedules
// CHECK: mpc.cos %{{.+}} : tensor<f64>
// CHECK: mpc.pow %{{.+}} : (tensor<f64>, tensor<f64>) -> tensor<f64>
// CHECK: mpc.cast %{{.+}} : tensor<f64> to tensor<f32>
// CHECK-NOT: mpc.learning_rate
// KEEP-LABEL: func.func @schedules
// KEEP: mpc.learning_rate
func.func @schedules(%t: tensor<i64>) -> (tensor<f32>, tensor<f64>, tensor<f32>, tensor<f32>) {
  %0 = mpc.learning_rate %t base(0.1) kind(cosine) {warmup = 3 : i64, steps = 20 : i64, final = 0.01} : tensor<i64> -> tensor<f32>
  %1 = mpc.learning_rate %t base(0.1) kind(step) {period = 2 : i64, gamma = 0.3} : tensor<i64> -> tensor<f64>
  %2 = mpc.learning_rate %t base(0.1) kind(linear) {steps = 20 : i64} : tensor<i64> -> tensor<f32>
  %3 = mpc.learning_rate %t base(0.1) : tensor<i64> -> tensor<f32>
  return %0, %1, %2, %3 : tensor<f32>, tensor<f64>, tensor<f32>, tensor<f32>
}

// Products with the scale are float64; both outcomes are computed and the flag
// selects one.
// CHECK-LABEL: func.func @loss_scale
// CHECK-SAME: %[[SCALE:[^:]+]]: tensor<f32>, %[[GOOD:[^:]+]]: tensor<i32>, %[[FINITE:[^:]+]]: tensor<i1>
// CHECK: %[[EXACT:.+]] = mpc.cast %[[SCALE]] : tensor<f32> to tensor<f64>
// CHECK: mpc.mul %[[EXACT]]
// CHECK: %[[LOWERED:.+]] = mpc.cast %{{.+}} : tensor<f64> to tensor<f32>
// CHECK: %[[GROWS:.+]] = mpc.compare ge
// CHECK: %[[GROWN:.+]] = mpc.select %[[GROWS]], %{{.+}}, %[[SCALE]]
// CHECK: mpc.select %[[FINITE]], %[[GROWN]], %[[LOWERED]]
func.func @loss_scale(%scale: tensor<f32>, %good: tensor<i32>, %finite: tensor<i1>) -> (tensor<f32>, tensor<i32>) {
  %0:2 = mpc.loss_scale.update %scale, %good when(%finite) {growth = 2.0, backoff = 0.5, interval = 1 : i64, keep_finite} : (tensor<f32>, tensor<i32>, tensor<i1>) -> (tensor<f32>, tensor<i32>)
  return %0#0, %0#1 : tensor<f32>, tensor<i32>
}

// CHECK-LABEL: func.func @loss_scale_with_bounds_and_hysteresis
// CHECK: mpc.max
// CHECK: mpc.min
// CHECK-NOT: mpc.loss_scale.update
func.func @loss_scale_with_bounds_and_hysteresis(%scale: tensor<f32>, %good: tensor<i32>, %left: tensor<i32>, %finite: tensor<i1>) -> (tensor<f32>, tensor<i32>, tensor<i32>) {
  %0:3 = mpc.loss_scale.update %scale, %good hysteresis_left(%left) when(%finite) {growth = 1.7, backoff = 0.3, interval = 2 : i64, min = 0.1, max = 3.3, hysteresis = 2 : i64, refill_hysteresis} : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i1>) -> (tensor<f32>, tensor<i32>, tensor<i32>)
  return %0#0, %0#1, %0#2 : tensor<f32>, tensor<i32>, tensor<i32>
}
