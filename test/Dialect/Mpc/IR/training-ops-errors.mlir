// Each function violates the constraint in its name.
// RUN: mpc-opt %s --split-input-file --verify-diagnostics

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

func.func @softmax_cross_entropy_c1(%x: tensor<4x3xf32>, %t: tensor<3xi32>) {
  // expected-error @below {{'mpc.softmax_cross_entropy' integer targets must have shape [4], found 'tensor<3xi32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.softmax_cross_entropy %x, %t : (tensor<4x3xf32>, tensor<3xi32>) -> tensor<f32>
  return
}

// -----

func.func @softmax_cross_entropy_c2(%x: tensor<4x3xf32>, %t: tensor<4x3xf16>) {
  // expected-error @below {{float targets must have the predictions' type 'tensor<4x3xf32>', found 'tensor<4x3xf16>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.softmax_cross_entropy %x, %t : (tensor<4x3xf32>, tensor<4x3xf16>) -> tensor<f32>
  return
}

// -----

func.func @softmax_cross_entropy_c3(%x: tensor<4x3xf32>, %t: tensor<4x3xf32>) {
  // expected-error @below {{'ignore_index' needs integer targets, found 'tensor<4x3xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.softmax_cross_entropy %x, %t ignore_index(0) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32>
  return
}

// -----

func.func @softmax_cross_entropy_c4(%x: tensor<4x3xf32>, %t: tensor<4xi32>) {
  // expected-error @below {{label_smoothing must lie in [0, 1], found 1.5}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.softmax_cross_entropy %x, %t label_smoothing(1.5) : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
  return
}

// -----

func.func @softmax_cross_entropy_of_a_scalar(%x: tensor<f32>, %t: tensor<i32>) {
  // expected-error @below {{needs a last axis of classes, found 'tensor<f32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.softmax_cross_entropy %x, %t : (tensor<f32>, tensor<i32>) -> tensor<f32>
  return
}

// -----

func.func @mean_squared_error_c1(%x: tensor<4xf32>, %t: tensor<1xf32>) {
  // expected-error @below {{'mpc.mean_squared_error' targets must have the predictions' type 'tensor<4xf32>', found 'tensor<1xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.mean_squared_error %x, %t : (tensor<4xf32>, tensor<1xf32>) -> tensor<f32>
  return
}

// -----

func.func @mean_absolute_error_c1(%x: tensor<4xf32>, %t: tensor<1xf32>) {
  // expected-error @below {{'mpc.mean_absolute_error' targets must have the predictions' type}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.mean_absolute_error %x, %t : (tensor<4xf32>, tensor<1xf32>) -> tensor<f32>
  return
}

// -----

func.func @sigmoid_cross_entropy_c1(%x: tensor<4xf32>, %t: tensor<1xf32>) {
  // expected-error @below {{'mpc.sigmoid_cross_entropy' targets must have the predictions' type}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.sigmoid_cross_entropy %x, %t : (tensor<4xf32>, tensor<1xf32>) -> tensor<f32>
  return
}

// -----

func.func @huber_c1(%x: tensor<4xf32>, %t: tensor<1xf32>) {
  // expected-error @below {{'mpc.huber' targets must have the predictions' type}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.huber %x, %t : (tensor<4xf32>, tensor<1xf32>) -> tensor<f32>
  return
}

// -----

func.func @huber_c2(%x: tensor<4xf32>) {
  // expected-error @below {{delta must be positive, found 0}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.huber %x, %x delta(0.0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Backward ops
//===----------------------------------------------------------------------===//

func.func @conv_filter_gradient_c1(%x: tensor<2x4x5xf16>, %g: tensor<2x6x5xf32>) {
  // expected-error @below {{operands 'tensor<2x4x5xf16>' and 'tensor<2x6x5xf32>' do not give 'tensor<6x4x1xf32>'}}
  %0 = mpc.conv_filter_gradient %x, %g strides([1]) pad([0], [0]) dilations([1]) : (tensor<2x4x5xf16>, tensor<2x6x5xf32>) -> tensor<6x4x1xf32>
  return
}

// -----

func.func @conv_filter_gradient_c2(%x: tensor<2x4x5xf32>, %g: tensor<2x6x5xf32>) {
  // expected-error @below {{'mpc.conv_filter_gradient'}}
  %0 = mpc.conv_filter_gradient %x, %g strides([1, 1]) pad([0], [0]) dilations([1]) : (tensor<2x4x5xf32>, tensor<2x6x5xf32>) -> tensor<6x4x1xf32>
  return
}

// -----

func.func @conv_filter_gradient_c3_channels(%x: tensor<2x4x5xf32>, %g: tensor<2x6x5xf32>) {
  // expected-error @below {{channels of input 'tensor<2x4x5xf32>', gradient 'tensor<2x6x5xf32>' and result 'tensor<6x4x1xf32>' do not fit in 2 groups}}
  %0 = mpc.conv_filter_gradient %x, %g strides([1]) pad([0], [0]) dilations([1]) groups(2) : (tensor<2x4x5xf32>, tensor<2x6x5xf32>) -> tensor<6x4x1xf32>
  return
}

// -----

func.func @conv_filter_gradient_c3_positions(%x: tensor<2x4x5xf32>, %g: tensor<2x6x5xf32>) {
  // expected-error @below {{gradient 'tensor<2x6x5xf32>' does not have the positions of the convolution, [3]}}
  %0 = mpc.conv_filter_gradient %x, %g strides([1]) pad([0], [0]) dilations([1]) : (tensor<2x4x5xf32>, tensor<2x6x5xf32>) -> tensor<6x4x3xf32>
  return
}

// -----

func.func @max_pool_gradient_c1(%x: tensor<2x4x6xf32>, %g: tensor<2x4x2xf32>) {
  // expected-error @below {{needs a gradient of shape [2, 4, 3], found 'tensor<2x4x2xf32>'}}
  %0 = mpc.max_pool_gradient %x, %g window([2]) strides([2]) pad([0], [0]) dilations([1]) : (tensor<2x4x6xf32>, tensor<2x4x2xf32>) -> tensor<2x4x6xf32>
  return
}

// -----

func.func @avg_pool_gradient_c1(%g: tensor<2x3xf32>) {
  // expected-error @below {{gradient 'tensor<2x3xf32>' is not that of a pool of 'tensor<2x4x6xf32>'}}
  %0 = mpc.avg_pool_gradient %g window([2]) strides([2]) pad([0], [0]) dilations([1]) : tensor<2x3xf32> -> tensor<2x4x6xf32>
  return
}

// -----

func.func @norm_gradient_c1(%x: tensor<4x6xf32>, %s: tensor<6xf32>) {
  // expected-error @below {{axis 2 is outside the rank 2}}
  %0:2 = mpc.norm_gradient %x, %s, %x axis(2) epsilon(1.0e-5) : (tensor<4x6xf32>, tensor<6xf32>, tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>)
  return
}

// -----

func.func @norm_gradient_c2(%x: tensor<4x6xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{operand 'tensor<4xf32>' does not broadcast to the normalised extents [6]}}
  %0:2 = mpc.norm_gradient %x, %s, %x axis(1) epsilon(1.0e-5) : (tensor<4x6xf32>, tensor<4xf32>, tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4xf32>)
  return
}

// -----

func.func @norm_gradient_c3(%x: tensor<4x6xf32>, %s: tensor<6xf32>) {
  // expected-error @below {{needs a finite epsilon that is not negative, found -1}}
  %0:2 = mpc.norm_gradient %x, %s, %x axis(1) epsilon(-1.0) : (tensor<4x6xf32>, tensor<6xf32>, tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>)
  return
}

// -----

func.func @batch_norm_gradient_c1(%x: tensor<4x3xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{operand 'tensor<4xf32>' must hold the 3 channels of 'tensor<4x3xf32>'}}
  %0:3 = mpc.batch_norm_gradient %x, %s, %x epsilon(1.0e-5) : (tensor<4x3xf32>, tensor<4xf32>, tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @batch_norm_gradient_c2(%x: tensor<4x3xf32>, %s: tensor<3xf32>) {
  // expected-error @below {{needs a finite epsilon that is not negative, found -1}}
  %0:3 = mpc.batch_norm_gradient %x, %s, %x epsilon(-1.0) : (tensor<4x3xf32>, tensor<3xf32>, tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

func.func @attention_gradient_c1_gradient(%q: tensor<2x3x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x6xf32>) {
  // expected-error @below {{needs a gradient of the attention's type 'tensor<2x3x6xf32>', found 'tensor<2x3x8xf32>'}}
  %0:3 = mpc.attention_gradient %q, %k, %v, %q scale(0.5) : (tensor<2x3x8xf32>, tensor<2x5x8xf32>, tensor<2x5x6xf32>, tensor<2x3x8xf32>) -> (tensor<2x3x8xf32>, tensor<2x5x8xf32>, tensor<2x5x6xf32>)
  return
}

// -----

func.func @attention_gradient_c1_operands(%q: tensor<2x3x8xf32>, %k: tensor<2x5x7xf32>, %v: tensor<2x5x6xf32>) {
  // expected-error @below {{'mpc.attention'}}
  %0:3 = mpc.attention_gradient %q, %k, %v, %q scale(0.5) : (tensor<2x3x8xf32>, tensor<2x5x7xf32>, tensor<2x5x6xf32>, tensor<2x3x8xf32>) -> (tensor<2x3x8xf32>, tensor<2x5x7xf32>, tensor<2x5x6xf32>)
  return
}

// -----

//===----------------------------------------------------------------------===//
// Training forms
//===----------------------------------------------------------------------===//

func.func @batch_norm_training_c1(%x: tensor<4x3xf32>, %c: tensor<3xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{needs operands of shape [3], found 'tensor<4xf32>'}}
  %0:3 = mpc.batch_norm_training %x, %s, %c, %c, %c epsilon(1.0e-5) momentum(0.1) : (tensor<4x3xf32>, tensor<4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

func.func @batch_norm_training_c2(%x: tensor<4x3xf16>, %c: tensor<3xf32>) {
  // expected-error @below {{needs scale and bias of 'f16' and statistics of f32 or f64, found 'tensor<3xf32>', 'tensor<3xf32>' and 'tensor<3xf32>'}}
  %0:3 = mpc.batch_norm_training %x, %c, %c, %c, %c epsilon(1.0e-5) momentum(0.1) : (tensor<4x3xf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3xf16>, tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

func.func @batch_norm_training_c3(%x: tensor<4x3xf32>, %c: tensor<3xf32>) {
  // expected-error @below {{needs momentum in [0, 1] and epsilon >= 0, found 1.5}}
  %0:3 = mpc.batch_norm_training %x, %c, %c, %c, %c epsilon(0.0) momentum(1.5) : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

func.func @random_bits_c1(%state: tensor<3xi64>) {
  // expected-error @below {{needs a state of seed and step, tensor<2xi64>, found 'tensor<3xi64>'}}
  %0 = mpc.random_bits %state stream(0) : tensor<3xi64> -> tensor<4xi32>
  return
}

// -----

func.func @dropout_c1(%x: tensor<4xf32>, %state: tensor<1xi64>) {
  // expected-error @below {{needs a state of seed and step, tensor<2xi64>, found 'tensor<1xi64>'}}
  %0 = mpc.dropout %x, %state probability(0.5) stream(0) : (tensor<4xf32>, tensor<1xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @dropout_c2(%x: tensor<4xf32>, %state: tensor<2xi64>) {
  // expected-error @below {{probability must lie in [0, 1), found 1.0}}
  %0 = mpc.dropout %x, %state probability(1.0) stream(0) : (tensor<4xf32>, tensor<2xi64>) -> tensor<4xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

func.func @optimizer_c1_gradient(%w: tensor<4xf32>, %g: tensor<4xf64>, %step: tensor<i64>, %lr: tensor<f32>) {
  // expected-error @below {{needs a gradient of the parameter's shape and no wider type than 'tensor<4xf32>', found 'tensor<4xf64>'}}
  %0 = mpc.optimizer.sgd %w, %g step(%step) learning_rate(%lr) : (tensor<4xf32>, tensor<4xf64>, tensor<i64>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @optimizer_c1_states(%w: tensor<4xf32>, %m: tensor<3xf32>, %step: tensor<i64>, %lr: tensor<f32>) {
  // expected-error @below {{needs states of the parameter's type 'tensor<4xf32>', found 'tensor<3xf32>'}}
  %0:2 = mpc.optimizer.adagrad %w, %w states(%m) step(%step) learning_rate(%lr) : (tensor<4xf32>, tensor<4xf32>, tensor<3xf32>, tensor<i64>, tensor<f32>) -> (tensor<4xf32>, tensor<3xf32>)
  return
}

// -----

func.func @optimizer_c2(%w: tensor<4xf32>, %step: tensor<i64>, %lr: tensor<f32>) {
  // expected-error @below {{needs 2 states (exp_avg, exp_avg_sq), found 1}}
  %0:2 = mpc.optimizer.adam %w, %w states(%w) step(%step) learning_rate(%lr) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i64>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @optimizer_c2_centered(%w: tensor<4xf32>, %step: tensor<i64>, %lr: tensor<f32>) {
  // expected-error @below {{needs 3 states (square_avg, grad_avg, momentum_buffer), found 1}}
  %0:2 = mpc.optimizer.rmsprop %w, %w states(%w) step(%step) learning_rate(%lr) {centered, momentum = 0.9} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i64>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @optimizer_c3_states(%w: tensor<4xf32>, %step: tensor<i64>, %lr: tensor<f32>) {
  // expected-error @below {{needs new states of the states' types}}
  %0:2 = mpc.optimizer.adagrad %w, %w states(%w) step(%step) learning_rate(%lr) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i64>, tensor<f32>) -> (tensor<4xf32>, tensor<3xf32>)
  return
}

// -----

func.func @optimizer_c3_copy(%w: tensor<4xf32>, %step: tensor<i64>, %lr: tensor<f32>) {
  // expected-error @below {{needs a copy of the parameter's shape 'tensor<4xf32>', found 'tensor<3xf16>'}}
  %0:2 = mpc.optimizer.sgd %w, %w step(%step) learning_rate(%lr) : (tensor<4xf32>, tensor<4xf32>, tensor<i64>, tensor<f32>) -> (tensor<4xf32>, tensor<3xf16>)
  return
}

// -----

func.func @optimizer_without_results_for_its_states(%w: tensor<4xf32>, %step: tensor<i64>, %lr: tensor<f32>) {
  // expected-error @below {{needs 2 result types for 1 states, and one more for a copy; found 1}}
  %0 = mpc.optimizer.adagrad %w, %w states(%w) step(%step) learning_rate(%lr) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i64>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @sgd_c4(%w: tensor<4xf32>, %step: tensor<i64>, %lr: tensor<f32>) {
  // expected-error @below {{nesterov needs dampening 0, found 1.000000e-01}}
  %0:2 = mpc.optimizer.sgd %w, %w states(%w) step(%step) learning_rate(%lr) {nesterov, momentum = 0.9, dampening = 0.1} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i64>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @sgd_c5(%w: tensor<4xf32>, %step: tensor<i64>, %lr: tensor<f32>) {
  // expected-error @below {{fuse must be none, first or last, found 'all'}}
  %0 = mpc.optimizer.sgd %w, %w step(%step) learning_rate(%lr) {fuse = "all"} : (tensor<4xf32>, tensor<4xf32>, tensor<i64>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @adam_c4(%w: tensor<4xf32>, %step: tensor<i64>, %lr: tensor<f32>) {
  // expected-error @below {{fuse must be none, first or last, found 'both'}}
  %0:3 = mpc.optimizer.adam %w, %w states(%w, %w) step(%step) learning_rate(%lr) {fuse = "both"} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i64>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @learning_rate_c1_cosine(%step: tensor<i64>) {
  // expected-error @below {{cosine needs more steps than the warm-up's 10, found 5}}
  %0 = mpc.learning_rate %step base(0.1) kind(cosine) {warmup = 10 : i64, steps = 5 : i64} : tensor<i64> -> tensor<f32>
  return
}

// -----

func.func @learning_rate_c1_step(%step: tensor<i64>) {
  // expected-error @below {{step needs a positive period, found -1}}
  %0 = mpc.learning_rate %step base(0.1) kind(step) {period = -1 : i64} : tensor<i64> -> tensor<f32>
  return
}

// -----

func.func @learning_rate_c2(%step: tensor<i64>) {
  // expected-error @below {{warmup must not be negative, found -3}}
  %0 = mpc.learning_rate %step base(0.1) {warmup = -3 : i64} : tensor<i64> -> tensor<f32>
  return
}

// -----

func.func @all_finite_c1(%g: tensor<4xf32>) {
  // expected-error @below {{needs a name for each of its tensors, found 2 for 1}}
  %0:2 = mpc.all_finite %g names(["a", "b"]) : (tensor<4xf32>) -> (tensor<i1>, tensor<2xi64>)
  return
}

// -----

func.func @all_finite_c2(%g: tensor<4xf32>) {
  // expected-error @below {{needs a record tensor<2xi64>, found 'tensor<3xi64>'}}
  %0:2 = mpc.all_finite %g names(["a"]) : (tensor<4xf32>) -> (tensor<i1>, tensor<3xi64>)
  return
}

// -----

func.func @global_norm_c1() {
  // expected-error @below {{needs at least one tensor}}
  %0 = "mpc.global_norm"() {operandSegmentSizes = array<i32: 0, 0>} : () -> tensor<f32>
  return
}

// -----

func.func @loss_scale_update_c1(%scale: tensor<f32>, %good: tensor<i32>, %finite: tensor<i1>) {
  // expected-error @below {{needs growth >= 1, backoff in (0, 1], interval and hysteresis from 1 to 2^31 - 1, found 2.000000e+00, 0.000000e+00, 2000 and 1}}
  %0:2 = mpc.loss_scale.update %scale, %good when(%finite) {growth = 2.0, backoff = 0.0, interval = 2000 : i64} : (tensor<f32>, tensor<i32>, tensor<i1>) -> (tensor<f32>, tensor<i32>)
  return
}

// -----

func.func @loss_scale_update_c1_interval(%scale: tensor<f32>, %good: tensor<i32>, %finite: tensor<i1>) {
  // expected-error @below {{found 2.000000e+00, 5.000000e-01, -1 and 1}}
  %0:2 = mpc.loss_scale.update %scale, %good when(%finite) {growth = 2.0, backoff = 0.5, interval = -1 : i64} : (tensor<f32>, tensor<i32>, tensor<i1>) -> (tensor<f32>, tensor<i32>)
  return
}

// -----

func.func @loss_scale_update_c2(%scale: tensor<f32>, %good: tensor<i32>, %finite: tensor<i1>) {
  // expected-error @below {{needs 'hysteresis_left' for a hysteresis of 2}}
  %0:2 = mpc.loss_scale.update %scale, %good when(%finite) {growth = 2.0, backoff = 0.5, interval = 10 : i64, hysteresis = 2 : i64} : (tensor<f32>, tensor<i32>, tensor<i1>) -> (tensor<f32>, tensor<i32>)
  return
}

// -----

func.func @loss_scale_update_c3(%scale: tensor<f32>, %good: tensor<i32>, %left: tensor<i32>, %finite: tensor<i1>) {
  // expected-error @below {{gives 'new_hysteresis_left' exactly where 'hysteresis_left' is an operand}}
  %0:2 = mpc.loss_scale.update %scale, %good hysteresis_left(%left) when(%finite) {growth = 2.0, backoff = 0.5, interval = 10 : i64} : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i1>) -> (tensor<f32>, tensor<i32>)
  return
}
