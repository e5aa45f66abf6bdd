// RUN: mpc-opt %s --mpc-attach-optimizer --mpc-verify-stage=stage=differentiate | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-optimizer="optimizer=sgd learning-rate=0.1" | FileCheck %s --check-prefix=SGD
// RUN: mpc-opt %s --mpc-attach-optimizer="optimizer=sgd numbers=momentum=0.9,nesterov=1 weight-decay=0.01" | FileCheck %s --check-prefix=MOMENTUM
// RUN: mpc-opt %s --mpc-attach-optimizer="optimizer=adamw schedule=cosine warmup=10 steps=100 final-rate=1e-5" | FileCheck %s --check-prefix=ADAMW
// RUN: mpc-opt %s --mpc-attach-optimizer="optimizer=adagrad form=keras" | FileCheck %s --check-prefix=KERAS
// RUN: mpc-opt %s --mpc-attach-optimizer=part=forward-backward | FileCheck %s --check-prefix=BACKWARD
// RUN: mpc-opt %s --mpc-attach-optimizer="part=apply optimizer=sgd" | FileCheck %s --check-prefix=APPLY

// Each gradient becomes an update. States are appended to the arguments and
// initialized to zero; one counter and one learning rate serve all parameters.
// New values replace their arguments in place.
// CHECK-LABEL: @main(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2xf32> {mpc.name = "x"
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<2xf32> {mpc.name = "w"
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<f32> {mpc.name = "b"
// CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<i64> {mpc.name = "step", mpc.role = #mpc.role<optimizer_step>}
// CHECK-SAME: %[[M:[a-z0-9]+]]: tensor<2xf32> {mpc.name = "w.exp_avg", mpc.role = #mpc.role<optimizer_state>}
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<2xf32> {mpc.name = "w.exp_avg_sq", mpc.role = #mpc.role<optimizer_state>}
// CHECK-SAME: %[[BM:[a-z0-9]+]]: tensor<f32> {mpc.name = "b.exp_avg"
// CHECK-SAME: %[[BV:[a-z0-9]+]]: tensor<f32> {mpc.name = "b.exp_avg_sq"
// CHECK-SAME: -> (tensor<f32> {mpc.name = "loss", mpc.role = #mpc.role<loss>},
// CHECK-SAME: tensor<2xf32> {mpc.alias = 1 : i64, mpc.name = "w", mpc.role = #mpc.role<parameter>},
// CHECK-SAME: tensor<2xf32> {mpc.alias = 4 : i64, mpc.name = "w.exp_avg", mpc.role = #mpc.role<optimizer_state>},
// CHECK-SAME: tensor<2xf32> {mpc.alias = 5 : i64, mpc.name = "w.exp_avg_sq"
// CHECK-SAME: tensor<f32> {mpc.alias = 2 : i64, mpc.name = "b", mpc.role = #mpc.role<parameter>},
// CHECK-SAME: tensor<i64> {mpc.alias = 3 : i64, mpc.name = "step", mpc.role = #mpc.role<optimizer_step>})
// CHECK: %[[G:.*]] = mpc.neg %[[X]]
// CHECK: %[[RATE:.*]] = mpc.learning_rate %[[T]] base(1.000000e-03)
// CHECK: %[[NW:.*]], %[[NS:.*]]:2 = mpc.optimizer.adam %[[W]], %[[G]] states(%[[M]], %[[V]]) step(%[[T]]) learning_rate(%[[RATE]])
// CHECK-NOT: mpc.learning_rate
// CHECK: mpc.optimizer.adam %[[B]], %{{.*}} states(%[[BM]], %[[BV]]) step(%[[T]]) learning_rate(%[[RATE]])
// CHECK: %[[ONE:.*]] = mpc.constant dense<1> : tensor<i64>
// CHECK: %[[NEXT:.*]] = mpc.add %[[T]], %[[ONE]]
// CHECK: return %{{.*}}, %[[NW]], %[[NS]]#0, %[[NS]]#1, %{{.*}}, %[[NEXT]]

// Plain SGD has no state.
// SGD-LABEL: @main(
// SGD-NOT: optimizer_state
// SGD: mpc.learning_rate %{{.*}} base(1.000000e-01)
// SGD: mpc.optimizer.sgd %{{[a-z0-9]+}}, %{{[a-z0-9]+}} step(

// MOMENTUM-LABEL: @main(
// MOMENTUM-SAME: mpc.name = "w.momentum", mpc.role = #mpc.role<optimizer_state>
// MOMENTUM: mpc.optimizer.sgd {{.*}}momentum = 9.000000e-01 : f64, nesterov{{.*}}weight_decay = 1.000000e-02 : f64

// AdamW has decoupled weight decay, 0.01 by default. The schedule is an op on
// the step counter.
// ADAMW: mpc.learning_rate %{{.*}} base(1.000000e-03) kind(cosine) {final = 1.000000e-05 : f64, {{.*}}steps = 100 : i64, warmup = 10 : i64}
// ADAMW: mpc.optimizer.adam {{.*}}decoupled{{.*}}weight_decay = 1.000000e-02 : f64

// Keras's form has its own defaults, and Adagrad's accumulators start at 0.1.
// KERAS-LABEL: @main(
// KERAS-SAME: mpc.initial = dense<1.000000e-01> : tensor<2xf32>, mpc.name = "w.sum"
// KERAS: mpc.optimizer.adagrad {{.*}}epsilon = 9.9999999999999995E-8 : f64, form = #mpc<optimizer_form keras>

// A forward and backward pass alone returns its gradients.
// BACKWARD-LABEL: @main(
// BACKWARD-SAME: tensor<2xf32> {mpc.name = "w.gradient", mpc.role = #mpc.role<output>}
// BACKWARD-NOT: mpc.optimizer

// An update alone has parameters, gradients and states as its arguments.
// APPLY-LABEL: @main(
// APPLY-SAME: %[[W:[a-z0-9]+]]: tensor<2xf32> {mpc.name = "w", mpc.role = #mpc.role<parameter>}
// APPLY-SAME: %[[B:[a-z0-9]+]]: tensor<f32> {mpc.name = "b", mpc.role = #mpc.role<parameter>}
// APPLY-SAME: %[[GW:[a-z0-9]+]]: tensor<2xf32> {mpc.name = "w.gradient", mpc.role = #mpc.role<optimizer_state>}
// APPLY-SAME: %[[GB:[a-z0-9]+]]: tensor<f32> {mpc.name = "b.gradient"
// APPLY-SAME: %[[T:[a-z0-9]+]]: tensor<i64> {mpc.name = "step"
// APPLY-SAME: -> (tensor<2xf32> {mpc.alias = 0 : i64, mpc.name = "w", mpc.role = #mpc.role<parameter>}, tensor<f32> {mpc.alias = 1 : i64,
// APPLY-NOT: mpc.neg
// APPLY: mpc.optimizer.sgd %[[W]], %[[GW]] step(%[[T]])
// APPLY: mpc.optimizer.sgd %[[B]], %[[GB]] step(%[[T]])
func.func @main(%x: tensor<2xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %w: tensor<2xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"},
                %b: tensor<f32> {mpc.role = #mpc.role<parameter>, mpc.name = "b"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"},
        tensor<2xf32> {mpc.role = #mpc.role<output>, mpc.name = "w.gradient"},
        tensor<f32> {mpc.role = #mpc.role<output>, mpc.name = "b.gradient"}) {
  %0 = mpc.mul %x, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = mpc.reduce_sum %0 axes([0]) : tensor<2xf32> -> tensor<f32>
  %2 = mpc.add %1, %b : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %3 = mpc.neg %x : tensor<2xf32>
  %4 = mpc.constant dense<1.0> : tensor<f32>
  return %2, %3, %4 : tensor<f32>, tensor<2xf32>, tensor<f32>
}
