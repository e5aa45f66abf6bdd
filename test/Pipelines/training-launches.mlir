// A training step of a perceptron on a GPU: five matmuls, the loss with its gradient,
// and one kernel that updates all state. Both gradients of the second matmul are fused
// horizontally. Weight-gradient matmuls also sum the bias gradients. Nothing is copied, and every new value is stored in place.
// RUN: mpc dump %s --training "step optimizer=adam learning-rate=0.001" --target cuda:sm_80 --after plan | FileCheck %s

// With a loss scale two launches follow the last gradient: the check and the update,
// which selects by the check's flag, and updates the scale.
// RUN: mpc dump %s --training "step optimizer=adam learning-rate=0.001" --policy mixed_float16 --target cuda:sm_80 --after plan | FileCheck %s --check-prefix=SCALED
// SCALED: exe.launch @{{.*}} kind(contraction)
// SCALED: exe.launch @k_check kind(reduce)
// SCALED-NEXT: exe.launch @k_update kind(update)
// SCALED-NOT: exe.{{launch|copy}}

// CHECK: exe.program @main
// CHECK: exe.argument @step : tensor<i64>
// CHECK: exe.result @step_1 : tensor<i64> {{.*}} alias(@step)
// CHECK: exe.launch @k_fc1 kind(contraction)
// CHECK-NEXT: exe.launch @k_fc2 kind(contraction)
// CHECK-NEXT: exe.launch @{{.*}} kind(row)
// CHECK-NEXT: exe.launch @{{.*}} kind(contraction)
// CHECK-NEXT: exe.launch @{{.*}} kind(contraction)
// CHECK-NEXT: exe.launch @k_update kind(update)
// CHECK-NOT: exe.{{launch|copy}}
// CHECK: func.func private @k_update({{.*}}exe.in_place
func.func @main(%x: tensor<32x784xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<32x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "probabilities"}) {
  %w1 = mpc.constant dense<0.01> : tensor<784x128xf32> loc("fc1/weight")
  %b1 = mpc.constant dense<0.5> : tensor<128xf32> loc("fc1/bias")
  %w2 = mpc.constant dense<0.02> : tensor<128x10xf32> loc("fc2/weight")
  %b2 = mpc.constant dense<0.25> : tensor<10xf32> loc("fc2/bias")
  %0 = mpc.matmul %x, %w1 : (tensor<32x784xf32>, tensor<784x128xf32>) -> tensor<32x128xf32> loc("fc1")
  %1 = mpc.add %0, %b1 : (tensor<32x128xf32>, tensor<128xf32>) -> tensor<32x128xf32> loc("fc1")
  %2 = mpc.relu %1 : tensor<32x128xf32> loc("relu")
  %3 = mpc.matmul %2, %w2 : (tensor<32x128xf32>, tensor<128x10xf32>) -> tensor<32x10xf32> loc("fc2")
  %4 = mpc.add %3, %b2 : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32> loc("fc2")
  %5 = mpc.softmax %4 axis(1) : tensor<32x10xf32>
  return %5 : tensor<32x10xf32>
}
