// Clipping, accumulation and several optimizers under a loss scale.
// RUN: mpc-opt %s --split-input-file --mpc-scale-loss="loss-scale=torch clip-norm=1.0" | FileCheck %s --check-prefix=NORM
// RUN: mpc-opt %s --split-input-file --mpc-scale-loss="loss-scale=keras3 clip-norm=4.0" | FileCheck %s --check-prefix=KERAS
// RUN: mpc-opt %s --split-input-file --mpc-scale-loss="loss-scale=none clip-norm=1.0 clip-value=0.5" | FileCheck %s --check-prefix=VALUE
// RUN: mpc-opt %s --split-input-file --mpc-scale-loss="loss-scale=keras3 accumulate=4" --canonicalize --verify-diagnostics | FileCheck %s --check-prefix=MICRO
// RUN: mpc-opt %s --split-input-file --mpc-scale-loss="loss-scale=keras3 accumulate=4 clip-norm=1.0" --canonicalize --verify-diagnostics | FileCheck %s --check-prefix=MEANS
// RUN: mpc-opt %s --split-input-file --mpc-scale-loss="loss-scale=torch,unscale=divide" | FileCheck %s --check-prefix=GROUPS

// Order of clipping: unscale, norm of norms, factor; one multiplier unscales and
// clips. A norm that is not finite skips the step as an infinity does.
// NORM-LABEL: func.func @one_optimizer
// NORM: [[FINITE:%.+]], %{{.+}} = mpc.all_finite [[G:%[^ ]+]] names(["w"])
// NORM: [[INVERSE:%.+]] = mpc.cast %{{.+}} : tensor<f64> to tensor<f32>
// NORM: [[N:%.+]] = mpc.global_norm [[G]] unscale([[INVERSE]]) {of_norms} :
// NORM: [[SMALL:%.+]] = mpc.constant dense<9.99999997E-7> : tensor<f32>
// NORM: [[SUM:%.+]] = mpc.add [[N]], [[SMALL]]
// NORM: [[RATIO:%.+]] = mpc.div %{{.+}}, [[SUM]]
// NORM: [[FACTOR:%.+]] = mpc.min [[RATIO]],
// NORM: [[MULTIPLIER:%.+]] = mpc.mul [[INVERSE]], [[FACTOR]]
// NORM: [[LARGEST:%.+]] = mpc.constant dense<3.40282347E+38>
// NORM: [[IS:%.+]] = mpc.compare  le [[N]], [[LARGEST]]
// NORM: [[WHEN:%.+]] = mpc.and [[FINITE]], [[IS]]
// NORM: mpc.select [[WHEN]]
// NORM: mpc.loss_scale.update {{.*}} when([[WHEN]])
// NORM: mpc.optimizer.sgd %{{[^ ]+}}, [[G]] {{.*}} when([[WHEN]]) unscale([[MULTIPLIER]]) :

// Keras' norm is the root of all tensors' sums, and its factor two reciprocals
// without epsilon; a scale that is divided out becomes a multiplier.
// KERAS-LABEL: func.func @one_optimizer
// KERAS: [[N:%.+]] = mpc.global_norm %{{.+}} unscale([[SCALE:%[^)]+]]) {unscale_mode = #mpc<unscale_mode divide>}
// KERAS: [[RECIPROCAL:%.+]] = mpc.div %{{.+}}, [[N]]
// KERAS: [[OF_LIMIT:%.+]] = mpc.constant dense<2.500000e-01>
// KERAS: [[SMALLER:%.+]] = mpc.min [[RECIPROCAL]], [[OF_LIMIT]]
// KERAS: [[LIMIT:%.+]] = mpc.constant dense<4.000000e+00>
// KERAS: [[FACTOR:%.+]] = mpc.mul [[LIMIT]], [[SMALLER]]
// KERAS: [[INVERSE:%.+]] = mpc.div %{{.+}}, [[SCALE]]
// KERAS: [[MULTIPLIER:%.+]] = mpc.mul [[INVERSE]], [[FACTOR]]
// KERAS: mpc.optimizer.sgd {{.*}} unscale([[MULTIPLIER]]) :

// Values are clipped last, in the parameter's type.
// VALUE-LABEL: func.func @one_optimizer
// VALUE-NOT: mpc.all_finite
// VALUE: [[N:%.+]] = mpc.global_norm [[G:%[^ ]+]] {of_norms} :
// VALUE: [[FACTOR:%.+]] = mpc.min
// VALUE: [[SCALED:%.+]] = mpc.mul [[G]], [[FACTOR]]
// VALUE: [[LOW:%.+]] = mpc.constant dense<-5.000000e-01>
// VALUE: [[HIGH:%.+]] = mpc.constant dense<5.000000e-01>
// VALUE: [[CLIPPED:%.+]] = mpc.clamp [[SCALED]], [[LOW]], [[HIGH]]
// VALUE: mpc.optimizer.sgd %{{[^ ]+}}, [[CLIPPED]] step(%{{.+}}) learning_rate(%{{[^ ]+}}) :

// By micro step: a finite gradient is unscaled and added, a non-finite one is dropped;
// the update of the mean runs when the window is full; the scale is updated each time.
// MICRO-LABEL: func.func @one_optimizer
// MICRO-SAME: [[DONE:%[^:]+]]: tensor<i32> {{[^%]*}}"loss_scale.micro_steps"
// MICRO-SAME: [[ACC:%[^:]+]]: tensor<4xf32> {mpc.name = "w.gradient", mpc.role = #mpc.role<optimizer_state>}
// MICRO-DAG: [[WINDOW:%.+]] = mpc.constant dense<4.000000e+00> : tensor<f32>
// MICRO-DAG: [[ZERO:%.+]] = mpc.constant dense<0.000000e+00> : tensor<f32>
// MICRO: [[G:%.+]] = mpc.mul %{{.+}}, [[SCALE:%[^ ]+]] :
// MICRO: [[FINITE:%.+]], %{{.+}} = mpc.all_finite [[G]]
// MICRO: [[NEXT:%.+]] = mpc.add [[DONE]],
// MICRO: [[FULL:%.+]] = mpc.compare  ge [[NEXT]],
// MICRO: mpc.select [[FULL]], %{{.+}}, [[NEXT]]
// MICRO: mpc.select [[FINITE]], %{{.+}}, [[DONE]]
// MICRO: [[WHEN:%.+]] = mpc.and [[FINITE]], [[FULL]]
// MICRO: [[UNSCALED:%.+]] = mpc.div [[G]], [[SCALE]]
// MICRO: [[SUM:%.+]] = mpc.add [[UNSCALED]], [[ACC]]
// MICRO: [[KEPT:%.+]] = mpc.select [[FULL]], [[ZERO]], [[SUM]]
// MICRO: [[NEWACC:%.+]] = mpc.select [[FINITE]], [[KEPT]], [[ACC]]
// MICRO: [[MEAN:%.+]] = mpc.div [[SUM]], [[WINDOW]]
// MICRO: mpc.select [[WHEN]]
// MICRO: mpc.loss_scale.update {{.*}} when([[FINITE]])
// MICRO: mpc.optimizer.sgd %{{.+}}, [[MEAN]] {{.*}} when([[WHEN]]) :
// MICRO: return {{.*}}[[NEWACC]]

// A window whose norm is not finite is an overflow, too: the scale backs off, the
// step is skipped and recorded, and the accumulators of the next window start at
// zero. Attempted steps have their own counter: the step counter counts windows.
// MEANS-LABEL: func.func @one_optimizer
// MEANS-SAME: [[ATTEMPTS:%[^:]+]]: tensor<i64> {{{[^%]*}}"loss_scale.attempted_steps"
// MEANS: [[FINITE:%.+]], %{{.+}} = mpc.all_finite
// MEANS: [[FULL:%.+]] = mpc.compare  ge
// MEANS: [[READY:%.+]] = mpc.and [[FINITE]], [[FULL]]
// MEANS: [[SIZE:%.+]] = mpc.global_norm
// MEANS: [[HOLDS:%.+]] = mpc.compare  le [[SIZE]]
// MEANS: [[WHEN:%.+]] = mpc.and [[READY]], [[HOLDS]]
// MEANS: [[WHOLE:%.+]] = mpc.select [[FULL]], [[HOLDS]], [[FINITE]]
// MEANS: [[GOOD:%.+]] = mpc.and [[FINITE]], [[WHOLE]]
// MEANS: mpc.loss_scale.update {{.*}} when([[GOOD]])
// MEANS: mpc.select [[GOOD]], %{{.+}}, [[ATTEMPTS]]
// MEANS: mpc.optimizer.sgd {{.*}} when([[WHEN]])
func.func @one_optimizer(%x: tensor<4xf32> {mpc.name = "x", mpc.role = #mpc.role<input>},
    %w: tensor<4xf32> {mpc.name = "w", mpc.role = #mpc.role<parameter>},
    %t: tensor<i64> {mpc.name = "step", mpc.role = #mpc.role<optimizer_step>})
    -> (tensor<4xf32> {mpc.name = "w", mpc.role = #mpc.role<parameter>, mpc.alias = 1 : i64}) {
  %seed = mpc.gradient_seed : tensor<f32>
  %g = mpc.mul %x, %seed : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %lr = mpc.learning_rate %t base(0.1) : tensor<i64> -> tensor<f32>
  %nw = mpc.optimizer.sgd %w, %g step(%t) learning_rate(%lr) : (tensor<4xf32>, tensor<4xf32>, tensor<i64>, tensor<f32>) -> tensor<4xf32>
  return %nw : tensor<4xf32>
}

// -----

// Optimizers with separate step counters have separate flags: each skips for its
// own gradients, the scale backs off for any. Tensor indices in the record are
// global: the second optimizer's follow the first one's. Running statistics are
// not updated in a skipped step.
// GROUPS-LABEL: func.func @two_optimizers
// GROUPS-SAME: [[MEAN:%[^:]+]]: tensor<2xf32> {mpc.name = "bn.mean"
// GROUPS-SAME: [[T0:%[^:]+]]: tensor<i64> {mpc.name = "a.step"
// GROUPS-SAME: [[T1:%[^:]+]]: tensor<i64> {mpc.name = "b.step"
// GROUPS-SAME: mpc.labels = ["b (op mpc.neg)", "a (op mpc.exp, layer deep)", "c (op mpc.abs)"]
// GROUPS: [[FINITE0:%.+]], [[RECORD0:%.+]] = mpc.all_finite %{{.+}}, %{{.+}} names(["b", "a"])
// GROUPS: mpc.select [[FINITE0]], %{{.+}}, [[T0]]
// GROUPS: [[FINITE1:%.+]], [[RECORD1:%.+]] = mpc.all_finite %{{.+}} names(["c"])
// GROUPS: [[ALL:%.+]] = mpc.and [[FINITE0]], [[FINITE1]]
// GROUPS: mpc.select [[FINITE1]], %{{.+}}, [[T1]]
// GROUPS: mpc.loss_scale.update {{.*}} when([[ALL]])
// GROUPS: [[NUMBER:%.+]] = mpc.constant dense<[2, 0]> : tensor<2xi64>
// GROUPS: [[OFFSET:%.+]] = mpc.select %{{.+}}, [[NUMBER]],
// GROUPS: mpc.add [[RECORD1]], [[OFFSET]]
// Neither counter is the number of attempted steps, so every step is counted.
// GROUPS: [[ONE:%.+]] = mpc.constant dense<1> : tensor<i64>
// GROUPS: [[ATTEMPTED:%.+]] = mpc.add [[ATTEMPTS:%[^ ]+]], [[ONE]]
// GROUPS: [[STEP:%.+]] = mpc.select [[ALL]], %{{[^ ]+}}, [[ATTEMPTS]]
// GROUPS: mpc.select [[ALL]], %{{.+}}, [[MEAN]]
// GROUPS: mpc.optimizer.sgd {{.*}} step([[T0]]) {{.*}} when([[FINITE0]]) unscale([[SCALE:%[^)]+]]) {unscale_mode = #mpc<unscale_mode divide>}
// GROUPS: mpc.optimizer.sgd {{.*}} step([[T0]]) {{.*}} when([[FINITE0]]) unscale([[SCALE]])
// GROUPS: mpc.optimizer.sgd {{.*}} step([[T1]]) {{.*}} when([[FINITE1]]) unscale([[SCALE]])
// GROUPS: return {{.*}}[[ATTEMPTED]], [[STEP]]
// MICRO-NOT: @two_optimizers
// expected-error @below {{accumulation by micro step needs one step counter, found 2}}
func.func @two_optimizers(%x: tensor<2xf32> {mpc.name = "x", mpc.role = #mpc.role<input>},
    %a: tensor<2xf32> {mpc.name = "a", mpc.role = #mpc.role<parameter>},
    %b: tensor<2xf32> {mpc.name = "b", mpc.role = #mpc.role<parameter>},
    %c: tensor<2xf32> {mpc.name = "c", mpc.role = #mpc.role<parameter>},
    %mean: tensor<2xf32> {mpc.name = "bn.mean", mpc.role = #mpc.role<statistics>},
    %ta: tensor<i64> {mpc.name = "a.step", mpc.role = #mpc.role<optimizer_step>},
    %tb: tensor<i64> {mpc.name = "b.step", mpc.role = #mpc.role<optimizer_step>})
    -> (tensor<2xf32> {mpc.name = "a", mpc.role = #mpc.role<parameter>, mpc.alias = 1 : i64},
        tensor<2xf32> {mpc.name = "b", mpc.role = #mpc.role<parameter>, mpc.alias = 2 : i64},
        tensor<2xf32> {mpc.name = "c", mpc.role = #mpc.role<parameter>, mpc.alias = 3 : i64},
        tensor<2xf32> {mpc.name = "bn.mean", mpc.role = #mpc.role<statistics>, mpc.alias = 4 : i64}) {
  %seed = mpc.gradient_seed : tensor<f32>
  %g = mpc.mul %x, %seed : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %gb = mpc.neg %g : tensor<2xf32>
  %ga = mpc.exp %gb {mpc.layer = "deep"} : tensor<2xf32>
  %gc = mpc.abs %ga : tensor<2xf32>
  %newmean = mpc.add %mean, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %lr = mpc.constant dense<0.1> : tensor<f32>
  %na = mpc.optimizer.sgd %a, %ga step(%ta) learning_rate(%lr) : (tensor<2xf32>, tensor<2xf32>, tensor<i64>, tensor<f32>) -> tensor<2xf32>
  %nb = mpc.optimizer.sgd %b, %gb step(%ta) learning_rate(%lr) : (tensor<2xf32>, tensor<2xf32>, tensor<i64>, tensor<f32>) -> tensor<2xf32>
  %nc = mpc.optimizer.sgd %c, %gc step(%tb) learning_rate(%lr) : (tensor<2xf32>, tensor<2xf32>, tensor<i64>, tensor<f32>) -> tensor<2xf32>
  return %na, %nb, %nc, %newmean : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
