// Every op of training in its pretty form parses, prints and survives the
// generic form.
// RUN: mpc-opt %s | mpc-opt | FileCheck %s
// RUN: mpc-opt %s --mlir-print-op-generic | mpc-opt | FileCheck %s

// CHECK-LABEL: func.func @losses
func.func @losses(%x: tensor<4x3xf32>, %classes: tensor<4xi32>, %p: tensor<4x3xf32>) {
  // CHECK: mpc.softmax_cross_entropy %{{.+}}, %{{.+}} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
  %0 = mpc.softmax_cross_entropy %x, %classes : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
  // CHECK: mpc.softmax_cross_entropy %{{.+}}, %{{.+}} label_smoothing(1.000000e-01) ignore_index(1) :
  %1 = mpc.softmax_cross_entropy %x, %classes label_smoothing(0.1) ignore_index(1) : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
  %2 = mpc.softmax_cross_entropy %x, %p : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32>
  // CHECK: mpc.sigmoid_cross_entropy
  %3 = mpc.sigmoid_cross_entropy %x, %p : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32>
  // CHECK: mpc.mean_squared_error
  %4 = mpc.mean_squared_error %x, %p : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32>
  // CHECK: mpc.mean_absolute_error
  %5 = mpc.mean_absolute_error %x, %p : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32>
  // CHECK: mpc.huber %{{.+}}, %{{.+}} : (
  %6 = mpc.huber %x, %p : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32>
  // CHECK: mpc.huber %{{.+}}, %{{.+}} delta(5.000000e-01) :
  %7 = mpc.huber %x, %p delta(0.5) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: func.func @backward
func.func @backward(%x: tensor<2x4x5x5xf16>, %g: tensor<2x6x3x3xf16>, %pooled: tensor<2x4x2x2xf16>) {
  // CHECK: mpc.stop_gradient %{{.+}} : tensor<2x4x5x5xf16>
  %0 = mpc.stop_gradient %x : tensor<2x4x5x5xf16>
  // CHECK: mpc.gradient_seed : tensor<f32>
  %1 = mpc.gradient_seed : tensor<f32>
  // CHECK: mpc.conv_filter_gradient %{{.+}}, %{{.+}} strides([2, 2]) pad([1, 1], [1, 1]) dilations([1, 1]) groups(2) : (tensor<2x4x5x5xf16>, tensor<2x6x3x3xf16>) -> tensor<6x2x3x3xf32>
  %2 = mpc.conv_filter_gradient %x, %g strides([2, 2]) pad([1, 1], [1, 1]) dilations([1, 1]) groups(2) : (tensor<2x4x5x5xf16>, tensor<2x6x3x3xf16>) -> tensor<6x2x3x3xf32>
  // CHECK: mpc.max_pool_gradient %{{.+}}, %{{.+}} window([3, 3]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) :
  %3 = mpc.max_pool_gradient %x, %pooled window([3, 3]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<2x4x5x5xf16>, tensor<2x4x2x2xf16>) -> tensor<2x4x5x5xf16>
  // CHECK: mpc.avg_pool_gradient %{{.+}} window([3, 3]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) count_include_pad :
  %4 = mpc.avg_pool_gradient %pooled window([3, 3]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) count_include_pad : tensor<2x4x2x2xf16> -> tensor<2x4x5x5xf16>
  return
}

// CHECK-LABEL: func.func @channels_last
func.func @channels_last(%x: tensor<1x5x4xf32>, %g: tensor<1x3x6xf32>) {
  // CHECK: layout(channels_last) accumulate(f64) compute(tf32) :
  %0 = mpc.conv_filter_gradient %x, %g strides([2]) pad([1], [1]) dilations([1]) layout(channels_last) accumulate(f64) compute(tf32) : (tensor<1x5x4xf32>, tensor<1x3x6xf32>) -> tensor<6x4x3xf32>
  return
}

// CHECK-LABEL: func.func @norm_gradient
func.func @norm_gradient(%x: tensor<4x6xbf16>, %s: tensor<6xbf16>) {
  // CHECK: mpc.norm_gradient %{{.+}}, %{{.+}}, %{{.+}} axis(1) epsilon(1.000000e-05) :
  %0:2 = mpc.norm_gradient %x, %s, %x axis(1) epsilon(1.0e-5) : (tensor<4x6xbf16>, tensor<6xbf16>, tensor<4x6xbf16>) -> (tensor<4x6xbf16>, tensor<6xbf16>)
  // CHECK: axis(1) epsilon(1.000000e-05) root_mean_square :
  %1:2 = mpc.norm_gradient %x, %s, %x axis(1) epsilon(1.0e-5) root_mean_square : (tensor<4x6xbf16>, tensor<6xbf16>, tensor<4x6xbf16>) -> (tensor<4x6xbf16>, tensor<6xbf16>)
  return
}

// CHECK-LABEL: func.func @batch_norm_gradient
func.func @batch_norm_gradient(%x: tensor<4x3x2xf16>, %s: tensor<3xf16>) {
  // CHECK: mpc.batch_norm_gradient %{{.+}}, %{{.+}}, %{{.+}} epsilon(1.000000e-05) :
  %0:3 = mpc.batch_norm_gradient %x, %s, %x epsilon(1.0e-5) : (tensor<4x3x2xf16>, tensor<3xf16>, tensor<4x3x2xf16>) -> (tensor<4x3x2xf16>, tensor<3xf16>, tensor<3xf16>)
  return
}

// CHECK-LABEL: func.func @attention_gradient
func.func @attention_gradient(%q: tensor<1x4x3x8xf16>, %k: tensor<1x2x5x8xf16>, %v: tensor<1x2x5x6xf16>,
                              %g: tensor<1x4x3x6xf16>, %mask: tensor<3x5xi1>) {
  // CHECK: mpc.attention_gradient %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}} mask(%{{.+}}) scale(2.500000e-01) causal :
  %0:3 = mpc.attention_gradient %q, %k, %v, %g mask(%mask) scale(0.25) causal : (tensor<1x4x3x8xf16>, tensor<1x2x5x8xf16>, tensor<1x2x5x6xf16>, tensor<1x4x3x6xf16>, tensor<3x5xi1>) -> (tensor<1x4x3x8xf16>, tensor<1x2x5x8xf16>, tensor<1x2x5x6xf16>)
  return
}

// CHECK-LABEL: func.func @forms
func.func @forms(%x: tensor<4x3x2xf32>, %c: tensor<3xf32>, %state: tensor<2xi64>) {
  // CHECK: mpc.batch_norm_training {{.*}} epsilon(1.000000e-05) momentum(1.000000e-01) :
  %0:3 = mpc.batch_norm_training %x, %c, %c, %c, %c epsilon(1.0e-5) momentum(0.1) : (tensor<4x3x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3x2xf32>, tensor<3xf32>, tensor<3xf32>)
  // CHECK: mpc.random_bits %{{.+}} stream(7) : tensor<2xi64> -> tensor<4x3xi32>
  %1 = mpc.random_bits %state stream(7) : tensor<2xi64> -> tensor<4x3xi32>
  // CHECK: mpc.dropout %{{.+}}, %{{.+}} probability(2.500000e-01) stream(3) :
  %2 = mpc.dropout %x, %state probability(0.25) stream(3) : (tensor<4x3x2xf32>, tensor<2xi64>) -> tensor<4x3x2xf32>
  return
}

// CHECK-LABEL: func.func @optimizers
func.func @optimizers(%w: tensor<4xf32>, %g: tensor<4xf16>, %m: tensor<4xf32>, %v: tensor<4xf32>, %vmax: tensor<4xf32>,
                      %step: tensor<i64>, %lr: tensor<f64>, %ok: tensor<i1>, %inverse: tensor<f32>) {
  // CHECK: mpc.optimizer.sgd %{{.+}}, %{{.+}} step(%{{.+}}) learning_rate(%{{.+}}) :
  %0 = mpc.optimizer.sgd %w, %g step(%step) learning_rate(%lr) : (tensor<4xf32>, tensor<4xf16>, tensor<i64>, tensor<f64>) -> tensor<4xf32>
  // CHECK: mpc.optimizer.sgd {{.*}} states(%{{.+}}) step(%{{.+}}) learning_rate(%{{.+}}) when(%{{.+}}) unscale(%{{.+}}) {form = #mpc<optimizer_form keras>, momentum = 9.000000e-01 : f64, unscale_mode = #mpc<unscale_mode divide>} :
  %1:2 = mpc.optimizer.sgd %w, %g states(%m) step(%step) learning_rate(%lr) when(%ok) unscale(%inverse) {form = #mpc<optimizer_form keras>, momentum = 0.9, unscale_mode = #mpc<unscale_mode divide>} : (tensor<4xf32>, tensor<4xf16>, tensor<4xf32>, tensor<i64>, tensor<f64>, tensor<i1>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: mpc.optimizer.adam
  %2:4 = mpc.optimizer.adam %w, %g states(%m, %v) step(%step) learning_rate(%lr) when(%ok) : (tensor<4xf32>, tensor<4xf16>, tensor<4xf32>, tensor<4xf32>, tensor<i64>, tensor<f64>, tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf16>)
  // CHECK: mpc.optimizer.adam {{.*}}{amsgrad, decoupled, weight_decay = 1.000000e-02 : f64} :
  %3:4 = mpc.optimizer.adam %w, %g states(%m, %v, %vmax) step(%step) learning_rate(%lr) {amsgrad, decoupled, weight_decay = 0.01} : (tensor<4xf32>, tensor<4xf16>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i64>, tensor<f64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK: mpc.optimizer.rmsprop {{.*}}{centered, momentum = 9.000000e-01 : f64} :
  %4:4 = mpc.optimizer.rmsprop %w, %g states(%v, %m, %vmax) step(%step) learning_rate(%lr) {centered, momentum = 0.9} : (tensor<4xf32>, tensor<4xf16>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i64>, tensor<f64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK: mpc.optimizer.adagrad
  %5:2 = mpc.optimizer.adagrad %w, %g states(%v) step(%step) learning_rate(%lr) : (tensor<4xf32>, tensor<4xf16>, tensor<4xf32>, tensor<i64>, tensor<f64>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// CHECK-LABEL: func.func @around_the_updates
func.func @around_the_updates(%g: tensor<4xf16>, %h: tensor<2x2xf32>, %step: tensor<i64>, %scale: tensor<f32>,
                              %good: tensor<i32>, %left: tensor<i32>) {
  // CHECK: mpc.learning_rate %{{.+}} base(1.000000e-03) : tensor<i64> -> tensor<f64>
  %0 = mpc.learning_rate %step base(0.001) : tensor<i64> -> tensor<f64>
  // CHECK: mpc.learning_rate %{{.+}} base(1.000000e-03) kind(cosine) {steps = 100 : i64, warmup = 10 : i64} :
  %1 = mpc.learning_rate %step base(0.001) kind(cosine) {steps = 100 : i64, warmup = 10 : i64} : tensor<i64> -> tensor<f32>
  // CHECK: mpc.all_finite %{{.+}}, %{{.+}} names(["a", "b"]) :
  %2:2 = mpc.all_finite %g, %h names(["a", "b"]) : (tensor<4xf16>, tensor<2x2xf32>) -> (tensor<i1>, tensor<2xi64>)
  // CHECK: mpc.all_finite %{{.+}} unscale(%{{.+}}) names(["a"]) {unscale_mode = #mpc<unscale_mode divide>} :
  %3:2 = mpc.all_finite %g unscale(%scale) names(["a"]) {unscale_mode = #mpc<unscale_mode divide>} : (tensor<4xf16>, tensor<f32>) -> (tensor<i1>, tensor<2xi64>)
  // CHECK: mpc.global_norm %{{.+}}, %{{.+}} unscale(%{{.+}}) :
  %4 = mpc.global_norm %g, %h unscale(%scale) : (tensor<4xf16>, tensor<2x2xf32>, tensor<f32>) -> tensor<f32>
  // CHECK: mpc.loss_scale.update %{{.+}}, %{{.+}} when(%{{.+}}) {backoff = 5.000000e-01 : f64, growth = 2.000000e+00 : f64, interval = 2000 : i64} :
  %5:2 = mpc.loss_scale.update %scale, %good when(%2#0) {growth = 2.0, backoff = 0.5, interval = 2000 : i64} : (tensor<f32>, tensor<i32>, tensor<i1>) -> (tensor<f32>, tensor<i32>)
  // CHECK: mpc.loss_scale.update %{{.+}}, %{{.+}} hysteresis_left(%{{.+}}) when(%{{.+}})
  %6:3 = mpc.loss_scale.update %scale, %good hysteresis_left(%left) when(%2#0) {growth = 2.0, backoff = 0.5, interval = 2000 : i64, hysteresis = 2 : i64} : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i1>) -> (tensor<f32>, tensor<i32>, tensor<i32>)
  return
}
