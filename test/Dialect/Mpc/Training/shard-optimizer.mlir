// Masters and states are sharded over the ranks; the model's copies are replicated.
// RUN: mpc-opt %s --mpc-distribute=ranks=4 --mpc-shard-optimizer=ranks=4 --split-input-file | FileCheck %s
// One rank has all of it.
// RUN: mpc-opt %s --mpc-distribute=ranks=1 --mpc-shard-optimizer=ranks=1 --split-input-file | FileCheck %s --check-prefix=ONE --implicit-check-not=mpc.shard --implicit-check-not=reduce_scatter
// RUN: mpc-opt %s --mpc-distribute=ranks=4 --mpc-shard-optimizer="ranks=4 shard=none" --split-input-file | FileCheck %s --check-prefix=ONE --implicit-check-not=mpc.shard --implicit-check-not=reduce_scatter
// Ranks exchange the overflow flags of their shards, and reduce the partial norms.
// RUN: mpc-opt %s --mpc-distribute=ranks=4 --mpc-shard-optimizer=ranks=4 --mpc-scale-loss="loss-scale=torch clip-norm=1" --split-input-file | FileCheck %s --check-prefix=SCALED
// RUN: not mpc-opt %s --mpc-shard-optimizer="ranks=4 shard=gradients" --split-input-file 2>&1 | FileCheck %s --check-prefix=WHAT
// RUN: not mpc-opt %s --mpc-shard-optimizer=ranks=4 --split-input-file 2>&1 | FileCheck %s --check-prefix=APART

// WHAT: error: shards 'none' or 'optimizer', found 'gradients'
// APART: error: reads a gradient that is not an all-reduce result used only by optimizers

// CHECK-LABEL: func.func @step(
// CHECK-SAME: [[W:%[^ ]+]]: tensor<6xf32> {mpc.initial = dense<{{.*}}> : tensor<3x7xf32>, mpc.name = "w", mpc.role = #mpc.role<parameter>, mpc.shard = array<i64: 3, 7>}
// CHECK-SAME: [[COPY:%[^ ]+]]: tensor<3x7xbf16> {mpc.name = "w.copy"
// CHECK-SAME: [[M:%[^ ]+]]: tensor<6xf32> {mpc.name = "w.momentum", mpc.role = #mpc.role<optimizer_state>, mpc.shard = array<i64: 3, 7>}
// CHECK-SAME: [[B:%[^ ]+]]: tensor<1xf32> {mpc.initial = dense<1.0{{.*}}> : tensor<4xf32>, mpc.name = "b"
// CHECK-SAME: [[WHOLE:%[^ ]+]]: tensor<4xf32> {mpc.name = "b.whole", mpc.role = #mpc.role<parameter_copy>}
// CHECK-SAME: -> (tensor<6xf32> {mpc.alias = 1
// CHECK: [[P:%.+]] = mpc.reduce_scatter %{{.+}} reduction(sum) ranks(4) accumulate(f32) : (tensor<3x7xbf16>) -> tensor<6xbf16>
// CHECK: mpc.add %{{.+}}, [[WHOLE]]
// CHECK: [[Q:%.+]] = mpc.reduce_scatter %{{.+}} reduction(sum) ranks(4) : (tensor<4xf32>) -> tensor<1xf32>
// CHECK: {{%.+}}, {{%.+}}, [[NARROW:%.+]] = mpc.optimizer.sgd [[W]], [[P]] states([[M]])
// CHECK: [[NEW:%.+]] = mpc.optimizer.sgd [[B]], [[Q]]
// 21 elements are padded to 24.
// CHECK: [[ROWS:%.+]] = mpc.all_gather [[NARROW]] ranks(4) : (tensor<6xbf16>) -> tensor<4x6xbf16>
// CHECK: [[ROW:%.+]] = mpc.reshape [[ROWS]] : tensor<4x6xbf16> to tensor<24xbf16>
// CHECK: [[CUT:%.+]] = mpc.slice [[ROW]] [0] [21]
// CHECK: [[NEWCOPY:%.+]] = mpc.reshape [[CUT]] : tensor<21xbf16> to tensor<3x7xbf16>
// CHECK: [[ALL:%.+]] = mpc.all_gather [[NEW]] ranks(4) : (tensor<1xf32>) -> tensor<4x1xf32>
// CHECK: [[NEWB:%.+]] = mpc.reshape [[ALL]] : tensor<4x1xf32> to tensor<4xf32>
// CHECK: return {{.+}}, [[NEWCOPY]], {{.+}}, [[NEW]], [[NEWB]] :

// ONE-LABEL: func.func @step(
// ONE-LABEL: func.func @evaluate(

// SCALED-LABEL: func.func @step(
// SCALED-SAME: mpc.labels = ["rank 0: w (op mpc.mul)"{{.*}}"sum of all ranks: w (op
// SCALED: [[P:%.+]] = mpc.reduce_scatter [[OW:%.+]] reduction(sum)
// SCALED: [[Q:%.+]] = mpc.reduce_scatter [[OB:%.+]] reduction(sum)
// SCALED: mpc.all_finite [[P]], [[Q]]
// SCALED: mpc.all_finite [[OW]], [[OB]]
// SCALED: [[TOLD:%.+]]:2 = mpc.all_gather %{{.+}}, %{{.+}} ranks(4) : (tensor<2xi64>, tensor<2xi64>) -> (tensor<4x2xi64>, tensor<4x2xi64>)
// SCALED: mpc.compare eq
// SCALED: mpc.reduce_sum %{{.+}} axes([0]) keep_dims
// SCALED: mpc.all_gather %{{.+}} ranks(4) : (tensor<2xf32>) -> tensor<4x2xf32>
// SCALED: mpc.global_norm
func.func @step(
    %x: tensor<3x7xf32> {mpc.name = "x", mpc.role = #mpc.role<input>},
    %w: tensor<3x7xf32> {mpc.initial = dense<1.0> : tensor<3x7xf32>, mpc.name = "w", mpc.role = #mpc.role<parameter>},
    %wc: tensor<3x7xbf16> {mpc.name = "w.copy", mpc.role = #mpc.role<parameter_copy>},
    %m: tensor<3x7xf32> {mpc.name = "w.momentum", mpc.role = #mpc.role<optimizer_state>},
    %b: tensor<4xf32> {mpc.initial = dense<1.0> : tensor<4xf32>, mpc.name = "b", mpc.role = #mpc.role<parameter>},
    %t: tensor<i64> {mpc.name = "step", mpc.role = #mpc.role<optimizer_step>})
    -> (tensor<3x7xf32> {mpc.alias = 1 : i64, mpc.name = "w", mpc.role = #mpc.role<parameter>},
        tensor<3x7xbf16> {mpc.alias = 2 : i64, mpc.name = "w.copy", mpc.role = #mpc.role<parameter_copy>},
        tensor<3x7xf32> {mpc.alias = 3 : i64, mpc.name = "w.momentum", mpc.role = #mpc.role<optimizer_state>},
        tensor<4xf32> {mpc.alias = 4 : i64, mpc.name = "b", mpc.role = #mpc.role<parameter>}) {
  %rate = mpc.constant dense<1.000000e-01> : tensor<f32>
  %seed = mpc.gradient_seed : tensor<f32>
  %wide = mpc.cast %wc : tensor<3x7xbf16> to tensor<3x7xf32>
  %y = mpc.mul %wide, %seed : (tensor<3x7xf32>, tensor<f32>) -> tensor<3x7xf32>
  %gw = mpc.mul %y, %x : (tensor<3x7xf32>, tensor<3x7xf32>) -> tensor<3x7xf32>
  %nw = mpc.cast %gw : tensor<3x7xf32> to tensor<3x7xbf16>
  %row = mpc.slice %y [0, 0] [1, 4] : tensor<3x7xf32> to tensor<1x4xf32>
  %four = mpc.reshape %row : tensor<1x4xf32> to tensor<4xf32>
  %gb = mpc.add %four, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %0:3 = mpc.optimizer.sgd %w, %nw states(%m) step(%t) learning_rate(%rate) {momentum = 0.9 : f64} : (tensor<3x7xf32>, tensor<3x7xbf16>, tensor<3x7xf32>, tensor<i64>, tensor<f32>) -> (tensor<3x7xf32>, tensor<3x7xf32>, tensor<3x7xbf16>)
  %1 = mpc.optimizer.sgd %b, %gb step(%t) learning_rate(%rate) : (tensor<4xf32>, tensor<4xf32>, tensor<i64>, tensor<f32>) -> tensor<4xf32>
  return %0#0, %0#2, %0#1, %1 : tensor<3x7xf32>, tensor<3x7xbf16>, tensor<3x7xf32>, tensor<4xf32>
}

// -----

// Evaluation reads the parameter copies, which all ranks have.
// CHECK-LABEL: func.func @evaluate(
// CHECK-SAME: %{{.+}}: tensor<4xf32> {mpc.name = "x"
// CHECK-SAME: %{{.+}}: tensor<4xf32> {mpc.name = "w.whole", mpc.role = #mpc.role<parameter_copy>})
func.func @evaluate(
    %x: tensor<4xf32> {mpc.name = "x", mpc.role = #mpc.role<input>},
    %w: tensor<4xf32> {mpc.initial = dense<1.0> : tensor<4xf32>, mpc.name = "w", mpc.role = #mpc.role<parameter>})
    -> (tensor<4xf32> {mpc.name = "y", mpc.role = #mpc.role<output>}) {
  %0 = mpc.add %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
