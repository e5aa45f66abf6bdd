// Gradients are all-reduced, in one message per bucket of a type that becomes ready
// at the same time; statistics become means.
// RUN: mpc-opt %s --mpc-distribute=ranks=4 --split-input-file | FileCheck %s
// One rank's step is unchanged.
// RUN: mpc-opt %s --mpc-distribute=ranks=1 --split-input-file | FileCheck %s --check-prefix=ONE --implicit-check-not=all_reduce
// On a network without latency each gradient is a message of its own.
// RUN: mpc-opt %s --mpc-distribute="ranks=4 network-latency=0 network-bandwidth=1" --split-input-file | FileCheck %s --check-prefix=APART
// A policy may send all gradients in one type.
// RUN: mpc-opt %s --mpc-distribute="ranks=4 wire=float16" --split-input-file | FileCheck %s --check-prefix=HALF
// RUN: mpc-opt %s --mpc-distribute="ranks=4 wire=float32" --split-input-file | FileCheck %s --check-prefix=WIDE
// RUN: not mpc-opt %s --mpc-distribute="ranks=2 wire=int8" --split-input-file 2>&1 | FileCheck %s --check-prefix=WIRE
// mpc-scale-loss reports the ranks whose gradients overflowed.
// RUN: mpc-opt %s --mpc-distribute=ranks=2 --mpc-scale-loss=loss-scale=torch --split-input-file | FileCheck %s --check-prefix=SCALED
// RUN: not mpc-opt %s --mpc-distribute=ranks=0 --split-input-file 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not mpc-opt %s --mpc-distribute="ranks=2 network-bandwidth=0" --split-input-file 2>&1 | FileCheck %s --check-prefix=NETWORK

// RANKS: error: trains on 1 to 65,536 ranks, found 0
// WIRE: error: sends gradients in float32, float16 or bfloat16, found 'int8'
// NETWORK: error: needs a latency of 0 seconds or more and a positive bandwidth, found 5.0{{.*}} and 0.0

module attributes {exe.target = #exe.target<"cpu:avx512">} {
// CHECK-LABEL: func.func @step(
// A rank's examples are a quarter of the batch.
// CHECK: [[SEED:%.+]] = mpc.gradient_seed
// CHECK: [[FOUR:%.+]] = mpc.constant dense<4.0{{.*}}> : tensor<f32>
// CHECK: [[SHARE:%.+]] = mpc.div [[SEED]], [[FOUR]]
// CHECK: mpc.mul %{{.+}}, [[SHARE]]
// CHECK: [[A:%.+]] = mpc.matmul
// CHECK: [[B:%.+]] = mpc.matmul
// CHECK: [[NA:%.+]] = mpc.cast [[A]]
// CHECK: [[NB:%.+]] = mpc.cast [[B]]
// CHECK: [[SUM:%.+]]:2 = mpc.all_reduce [[NA]], [[NB]] reduction(sum) ranks(4) accumulate(f32) : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> (tensor<8x8xbf16>, tensor<8x8xbf16>)
// CHECK: [[S:%.+]] = mpc.reduce_sum
// CHECK: [[ALONE:%.+]] = mpc.all_reduce [[S]] reduction(sum) ranks(4) : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: mpc.optimizer.sgd %{{.+}}, [[SUM]]#0
// CHECK: mpc.optimizer.sgd %{{.+}}, [[SUM]]#1
// CHECK: mpc.optimizer.sgd %{{.+}}, [[ALONE]]

// One message of 8 x 8, 8 x 8 and 8 numbers.
// HALF-LABEL: func.func @step(
// HALF: [[C:%.+]] = mpc.cast %{{.+}} : tensor<8xf32> to tensor<8xf16>
// HALF: [[SUM:%.+]]:3 = mpc.all_reduce %{{.+}}, %{{.+}}, [[C]] reduction(sum) ranks(4) accumulate(f32) : (tensor<8x8xf16>, tensor<8x8xf16>, tensor<8xf16>)
// HALF: mpc.optimizer.sgd %{{.+}}, [[SUM]]#2
// WIDE-LABEL: func.func @step(
// WIDE: mpc.cast %{{.+}} : tensor<8x8xbf16> to tensor<8x8xf32>
// WIDE: [[SUM:%.+]]:3 = mpc.all_reduce %{{.+}} reduction(sum) ranks(4) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>)

// ONE-LABEL: func.func @step(

// APART-LABEL: func.func @step(
// APART: mpc.cast
// APART-NEXT: [[FIRST:%.+]] = mpc.all_reduce
// APART: mpc.cast
// APART-NEXT: [[SECOND:%.+]] = mpc.all_reduce
// APART: mpc.optimizer.sgd %{{.+}}, [[FIRST]]
// APART: mpc.optimizer.sgd %{{.+}}, [[SECOND]]

// SCALED-LABEL: func.func @step(
// SCALED-SAME: mpc.labels = ["rank 0: a (op mpc.matmul)", "rank 1: a (op mpc.matmul)", "sum of all ranks: a (op mpc.matmul)", "rank 0: b (op mpc.matmul)", "rank 1: b (op mpc.matmul)", "sum of all ranks: b (op mpc.matmul)", "rank 0: c (op mpc.reduce_sum)", "rank 1: c (op mpc.reduce_sum)", "sum of all ranks: c (op mpc.reduce_sum)"]
// SCALED: [[N:%.+]]:2 = mpc.all_reduce [[OA:%.+]], [[OB:%.+]] reduction(sum) ranks(2)
// SCALED: [[C:%.+]] = mpc.all_reduce [[OC:%.+]] reduction(sum) ranks(2)
// All ranks decide by the reduced gradients, and report their local overflows.
// SCALED: [[FINITE:%.+]], %{{.+}} = mpc.all_finite [[N]]#0, [[N]]#1, [[C]] names(["a", "b", "c"])
// SCALED: %{{.+}}, [[OWN:%.+]] = mpc.all_finite [[OA]], [[OB]], [[OC]] names(["a", "b", "c"])
// SCALED: mpc.all_gather [[OWN]] ranks(2) : (tensor<2xi64>) -> tensor<2x2xi64>
// SCALED: mpc.optimizer.sgd %{{.+}}, [[N]]#0 {{.*}}when([[FINITE]])
func.func @step(
    %x: tensor<8x8xf32> {mpc.name = "x", mpc.role = #mpc.role<input>},
    %a: tensor<8x8xf32> {mpc.name = "a", mpc.role = #mpc.role<parameter>},
    %b: tensor<8x8xf32> {mpc.name = "b", mpc.role = #mpc.role<parameter>},
    %c: tensor<8xf32> {mpc.name = "c", mpc.role = #mpc.role<parameter>},
    %t: tensor<i64> {mpc.name = "step", mpc.role = #mpc.role<optimizer_step>})
    -> (tensor<8x8xf32> {mpc.alias = 1 : i64, mpc.name = "a", mpc.role = #mpc.role<parameter>},
        tensor<8x8xf32> {mpc.alias = 2 : i64, mpc.name = "b", mpc.role = #mpc.role<parameter>},
        tensor<8xf32> {mpc.alias = 3 : i64, mpc.name = "c", mpc.role = #mpc.role<parameter>}) {
  %rate = mpc.constant dense<1.000000e-01> : tensor<f32>
  %seed = mpc.gradient_seed : tensor<f32>
  %y = mpc.mul %x, %seed : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %ga = mpc.matmul %y, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %gb = mpc.matmul %y, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %na = mpc.cast %ga : tensor<8x8xf32> to tensor<8x8xbf16>
  %nb = mpc.cast %gb : tensor<8x8xf32> to tensor<8x8xbf16>
  %gc = mpc.reduce_sum %y axes([0]) : tensor<8x8xf32> -> tensor<8xf32>
  %0 = mpc.optimizer.sgd %a, %na step(%t) learning_rate(%rate) : (tensor<8x8xf32>, tensor<8x8xbf16>, tensor<i64>, tensor<f32>) -> tensor<8x8xf32>
  %1 = mpc.optimizer.sgd %b, %nb step(%t) learning_rate(%rate) : (tensor<8x8xf32>, tensor<8x8xbf16>, tensor<i64>, tensor<f32>) -> tensor<8x8xf32>
  %2 = mpc.optimizer.sgd %c, %gc step(%t) learning_rate(%rate) : (tensor<8xf32>, tensor<8xf32>, tensor<i64>, tensor<f32>) -> tensor<8xf32>
  return %0, %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>
}
}

// -----

// A function without optimizers returns its gradients; statistics are means.
// CHECK-LABEL: func.func @forward(
// CHECK: [[NEW:%.+]] = mpc.add
// CHECK-NEXT: [[ALL:%.+]] = mpc.all_reduce [[NEW]] reduction(mean) ranks(4) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: return [[ALL]], %{{.+}} :
func.func @forward(
    %x: tensor<4xf32> {mpc.name = "x", mpc.role = #mpc.role<input>},
    %m: tensor<4xf32> {mpc.name = "mean", mpc.role = #mpc.role<statistics>})
    -> (tensor<4xf32> {mpc.alias = 1 : i64, mpc.name = "mean", mpc.role = #mpc.role<statistics>},
        tensor<4xf32> {mpc.name = "w.gradient", mpc.role = #mpc.role<output>}) {
  %0 = mpc.add %x, %m : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = mpc.mul %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// With ignored targets, all ranks divide by the global count of valid targets, and
// a rank's loss is its share of the global loss, times four.
// CHECK-LABEL: func.func @counted(
// CHECK-SAME: [[Y:%[a-z0-9]+]]: tensor<8xi32>
// CHECK: [[COUNTS:%.+]] = mpc.compare{{ +}}ne [[Y]],
// CHECK: [[ONES:%.+]] = mpc.cast [[COUNTS]]
// CHECK: [[OWN:%.+]] = mpc.reduce_sum [[ONES]]
// CHECK: [[ALL:%.+]] = mpc.all_reduce [[OWN]] reduction(sum) ranks(4) : (tensor<f32>) -> tensor<f32>
// CHECK: [[LOSS:%.+]] = mpc.softmax_cross_entropy
// CHECK: [[TIMES:%.+]] = mpc.mul [[OWN]],
// CHECK: [[WEIGHT:%.+]] = mpc.div [[TIMES]], [[ALL]]
// CHECK: [[ANY:%.+]] = mpc.compare{{ +}}gt [[OWN]],
// CHECK: [[PART:%.+]] = mpc.mul [[LOSS]], [[WEIGHT]]
// CHECK: [[RETURNED:%.+]] = mpc.select [[ANY]], [[PART]], [[WEIGHT]]
// CHECK: [[SEED:%.+]] = mpc.gradient_seed
// CHECK: [[MEAN:%.+]] = mpc.div [[SEED]], [[ALL]]
// CHECK: mpc.mul [[ONES]], [[MEAN]]
// CHECK: return [[RETURNED]],
func.func @counted(
    %x: tensor<8x4xf32> {mpc.name = "x", mpc.role = #mpc.role<input>},
    %y: tensor<8xi32> {mpc.name = "label", mpc.role = #mpc.role<label>})
    -> (tensor<f32> {mpc.name = "loss", mpc.role = #mpc.role<loss>},
        tensor<8xf32> {mpc.name = "w.gradient", mpc.role = #mpc.role<output>}) {
  %loss = mpc.softmax_cross_entropy %x, %y ignore_index(1) : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32>
  %one = mpc.constant dense<1> : tensor<i32>
  %seed = mpc.gradient_seed : tensor<f32>
  %0 = mpc.compare ne %y, %one : (tensor<8xi32>, tensor<i32>) -> tensor<8xi1>
  %1 = mpc.cast %0 : tensor<8xi1> to tensor<8xf32>
  %2 = mpc.reduce_sum %1 axes([0]) : tensor<8xf32> -> tensor<f32>
  %3 = mpc.div %seed, %2 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %4 = mpc.mul %1, %3 : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %loss, %4 : tensor<f32>, tensor<8xf32>
}
