// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-decompose))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-decompose{max-steps=1}))' | FileCheck %s --check-prefix=SHORT
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-decompose,mpc-decompose))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-decompose))' --mlir-print-debuginfo | FileCheck %s --check-prefix=LOC

// The mean is subtracted first, so that nothing cancels where it is large compared
// to the deviation; layer and location are preserved.
// CHECK-LABEL: func.func @batch_norm
// CHECK-SAME: %[[X:[^:]+]]: tensor<2x3x4x4xf32>
// CHECK: %[[ROOT:.+]] = mpc.sqrt
// CHECK: %[[FACTOR:.+]] = mpc.div %{{.+}}, %[[ROOT]] {mpc.layer = "stem"}
// CHECK: %[[MEAN:.+]] = mpc.reshape %{{.+}} {{.*}} : tensor<3xf32> to tensor<3x1x1xf32>
// CHECK: %[[CENTRED:.+]] = mpc.sub %[[X]], %[[MEAN]]
// CHECK: %[[WIDE:.+]] = mpc.reshape %[[FACTOR]] {{.*}} : tensor<3xf32> to tensor<3x1x1xf32>
// CHECK: %[[SCALED:.+]] = mpc.mul %[[CENTRED]], %[[WIDE]]
// CHECK: mpc.add %[[SCALED]], %{{.+}} : (tensor<2x3x4x4xf32>, tensor<3x1x1xf32>) -> tensor<2x3x4x4xf32>
// CHECK-NOT: mpc.batch_norm
// LOC: mpc.sqrt {{.*}} loc(#[[NORM:.+]])
// LOC: #[[NORM]] = loc("stem/bn")
func.func @batch_norm(%x: tensor<2x3x4x4xf32>, %s: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>) -> tensor<2x3x4x4xf32> {
  %0 = mpc.batch_norm %x, %s, %b, %m, %v epsilon(1.0e-5) {mpc.layer = "stem"} : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4x4xf32> loc("stem/bn")
  return %0 : tensor<2x3x4x4xf32>
}

// A 16-bit norm computes in f32 and rounds once.
// CHECK-LABEL: func.func @group_norm_of_f16
// CHECK: %[[WIDE:.+]] = mpc.cast %{{.+}} : tensor<2x4x3x3xf16> to tensor<2x4x3x3xf32>
// CHECK: %[[ROWS:.+]] = mpc.reshape %[[WIDE]] : tensor<2x4x3x3xf32> to tensor<2x2x18xf32>
// CHECK: mpc.layer_norm %[[ROWS]], %{{.+}} axis(2)
// CHECK: %[[SUM:.+]] = mpc.add
// CHECK: %[[NARROW:.+]] = mpc.cast %[[SUM]] : tensor<2x4x3x3xf32> to tensor<2x4x3x3xf16>
// CHECK: return %[[NARROW]]
func.func @group_norm_of_f16(%x: tensor<2x4x3x3xf16>, %s: tensor<4xf16>, %b: tensor<4xf16>) -> tensor<2x4x3x3xf16> {
  %0 = mpc.group_norm %x, %s, %b groups(2) epsilon(1.0e-5) : (tensor<2x4x3x3xf16>, tensor<4xf16>, tensor<4xf16>) -> tensor<2x4x3x3xf16>
  return %0 : tensor<2x4x3x3xf16>
}

// One matmul for the input of both steps, one per step for the state, which is
// rounded to the operands' type where a matmul reads it.
// CHECK-LABEL: func.func @lstm_of_two_steps
// CHECK: mpc.matmul %{{.+}}, %{{.+}} transpose_rhs : (tensor<2x4x8xbf16>, tensor<64x8xbf16>) -> tensor<2x4x64xf32>
// CHECK: mpc.cast %{{.+}} : tensor<4x16xf32> to tensor<4x16xbf16>
// CHECK: mpc.matmul %{{.+}}, %{{.+}} transpose_rhs : (tensor<4x16xbf16>, tensor<64x16xbf16>) -> tensor<4x64xf32>
// CHECK: mpc.cast %{{.+}} : tensor<4x16xf32> to tensor<4x16xbf16>
// CHECK: mpc.matmul
// CHECK-NOT: mpc.matmul
// CHECK: mpc.concat {{.*}} axis(0) : (tensor<1x4x16xf32>, tensor<1x4x16xf32>) -> tensor<2x4x16xf32>
// SHORT-LABEL: func.func @lstm_of_two_steps
// SHORT: mpc.lstm
func.func @lstm_of_two_steps(%x: tensor<2x4x8xbf16>, %w: tensor<1x64x8xbf16>, %r: tensor<1x64x16xbf16>) -> tensor<2x1x4x16xf32> {
  %0:3 = mpc.lstm %x, %w, %r : (tensor<2x4x8xbf16>, tensor<1x64x8xbf16>, tensor<1x64x16xbf16>) -> (tensor<2x1x4x16xf32>, tensor<1x4x16xf32>, tensor<1x4x16xf32>)
  return %0#0 : tensor<2x1x4x16xf32>
}

// A single step needs no concat.
// CHECK-LABEL: func.func @rnn_of_one_step
// CHECK-NOT: mpc.concat
// CHECK: mpc.tanh
// SHORT-LABEL: func.func @rnn_of_one_step
// SHORT-NOT: mpc.rnn
// SHORT: mpc.tanh
func.func @rnn_of_one_step(%x: tensor<1x2x8xf32>, %w: tensor<1x5x8xf32>, %r: tensor<1x5x5xf32>) -> tensor<1x1x2x5xf32> {
  %0:2 = mpc.rnn %x, %w, %r : (tensor<1x2x8xf32>, tensor<1x5x8xf32>, tensor<1x5x5xf32>) -> (tensor<1x1x2x5xf32>, tensor<1x2x5xf32>)
  return %0#0 : tensor<1x1x2x5xf32>
}
