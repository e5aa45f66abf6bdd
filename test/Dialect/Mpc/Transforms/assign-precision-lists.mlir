// RUN: mpc-opt %s --mpc-assign-precision="policy=%S/Inputs/lists-policy.json" --split-input-file --verify-diagnostics | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision="policy=%S/Inputs/lists-tensorflow-policy.json" --split-input-file --verify-diagnostics | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision="policy=%S/Inputs/lists-torch-policy.json" --split-input-file --verify-diagnostics | FileCheck %s
// RUN: mpc-opt %S/Inputs/edited-lists.mlir --mpc-assign-precision="policy=%S/Inputs/edited-lists-policy.json" | FileCheck %s --check-prefix=EDIT

// One function for each class; the three policies hold the same lists under
// mpc's, TensorFlow's and torch's names.

// low: computes in the policy's compute type.
// CHECK-LABEL: func @low
// CHECK: %[[H:.*]] = mpc.cast %{{.*}} to tensor<64x64xf16>
// CHECK: mpc.tanh %[[H]] {mpc.decision = #mpc.decision<rule = "low", list = "lists"{{.*}} : tensor<64x64xf16>
func.func @low(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = mpc.tanh %x : tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}

// -----

// high: computes in f32, after an op that computed in 16 bits as well.
// CHECK-LABEL: func @high
// CHECK: %[[T:.*]] = mpc.tanh {{.*}} : tensor<64x64xf16>
// CHECK: %[[W:.*]] = mpc.cast %[[T]] : tensor<64x64xf16> to tensor<64x64xf32>
// CHECK: mpc.exp %[[W]] {{.*}}rule = "high"{{.*}} : tensor<64x64xf32>
func.func @high(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = mpc.tanh %x : tensor<64x64xf32>
  %1 = mpc.exp %0 : tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}

// -----

// follow: f32 registers, whatever it loads and stores. sigmoid is in no list and
// takes the default, which is follow.
// CHECK-LABEL: func @follow
// CHECK: mpc.mul {{.*}}rule = "follow"{{.*}} -> tensor<64x64xf32>
// CHECK: mpc.sigmoid {{.*}}rule = "follow"{{.*}} : tensor<64x64xf32>
func.func @follow(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = mpc.mul %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.sigmoid %0 : tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}

// -----

// clear: takes the type in which its input is stored.
// CHECK-LABEL: func @clear
// CHECK: %[[T:.*]] = mpc.tanh {{.*}} : tensor<64x32xf16>
// CHECK-NEXT: mpc.transpose %[[T]] {{.*}}rule = "clear"{{.*}} : tensor<64x32xf16> to tensor<32x64xf16>
func.func @clear(%x: tensor<64x32xf32>) -> tensor<32x64xf32> {
  %0 = mpc.tanh %x : tensor<64x32xf32>
  %1 = mpc.transpose %0 [1, 0] : tensor<64x32xf32> to tensor<32x64xf32>
  %2 = mpc.tanh %1 : tensor<32x64xf32>
  return %2 : tensor<32x64xf32>
}

// -----

// widest: an f32 operand promotes the other one.
// CHECK-LABEL: func @widest
// CHECK: mpc.tanh {{.*}} : tensor<64x64xf16>
// CHECK: mpc.concat {{.*}}rule = "widest"{{.*}} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<128x64xf32>
func.func @widest(%x: tensor<64x64xf32>) -> tensor<128x64xf32> {
  %0 = mpc.tanh %x : tensor<64x64xf32>
  %1 = mpc.concat %0, %x axis(0) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<128x64xf32>
  return %1 : tensor<128x64xf32>
}

// -----

// high_result: the result is f32.
// CHECK-LABEL: func @high_result
// CHECK: mpc.tanh {{.*}} : tensor<64x64xf16>
// CHECK: mpc.reduce_sum {{.*}}rule = "high_result"{{.*}} -> tensor<64xf32>
func.func @high_result(%x: tensor<64x64xf32>) -> tensor<64xf32> {
  %0 = mpc.tanh %x : tensor<64x64xf32>
  %1 = mpc.reduce_sum %0 axes([1]) : tensor<64x64xf32> -> tensor<64xf32>
  return %1 : tensor<64xf32>
}

// -----

// ban: an error.
func.func @ban(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{op kind 'tan' is banned by policy 'lists'; replace it or override it with --set op:tan=float32}}
  %0 = mpc.tan %x : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// Integers stored in floats are in no list: tanh is low, this one stays f32.
// CHECK-LABEL: func @integers
// CHECK: mpc.tanh {{.*}}reason = "holds integers that 16 bits would round"{{.*}} : tensor<1xf32>
func.func @integers(%n: tensor<1xi64>) -> tensor<1xi64> {
  %0 = mpc.cast %n : tensor<1xi64> to tensor<1xf32>
  %1 = mpc.tanh %0 : tensor<1xf32>
  %2 = mpc.cast %0 : tensor<1xf32> to tensor<1xi64>
  return %2 : tensor<1xi64>
}

// "add" and "remove" edit the lists of mixed_float16: a removed kind takes the
// default, which is high.
// EDIT: mpc.matmul {{.*}}rule = "high", list = "edited"{{.*}} : (tensor<64x64xf32>,
// EDIT: mpc.exp {{.*}}rule = "low", list = "edited"{{.*}} : tensor<64x64xf16>
// EDIT: mpc.log {{.*}}rule = "high"{{.*}} : tensor<64x64xf32>
