// A loss scale fits only into f32: it is not cast to 16 bits before it has multiplied a value,
// and the gradient of a loss has the loss's type, whatever the policy computes in.
// RUN: mpc-opt %s --split-input-file --mpc-assign-precision=policy=keras_mixed_float16 | FileCheck %s
// RUN: mpc-opt %s --split-input-file --mpc-assign-precision=policy=float16 | FileCheck %s
// RUN: mpc-opt %s --split-input-file --mpc-assign-precision=policy=bfloat16 | FileCheck %s --check-prefix=BRAIN
// RUN: mpc-opt %s --split-input-file --mpc-assign-precision="policy=keras_mixed_float16 set=op:mul=float16" | FileCheck %s --check-prefix=ASKED

// The first factor is upcast; the result of the product follows the policy.
// CHECK-LABEL: func.func @seed
// CHECK: [[SEED:%.+]] = mpc.gradient_seed {{.*}} : tensor<f32>
// CHECK: [[HALF:%.+]] = mpc.mul [[SEED]], %{{.+}} : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK: [[WIDE:%.+]] = mpc.broadcast [[HALF]] {{.*}} : tensor<f32> to tensor<4xf32>
// CHECK: mpc.mul %{{.+}}, [[WIDE]] {{.*}}the gradient of a loss has the loss's type{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// BRAIN-LABEL: func.func @seed
// BRAIN: mpc.gradient_seed {{.*}} : tensor<f32>
// BRAIN: mpc.mul {{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// An override of the op that computes the factor is applied.
// ASKED-LABEL: func.func @seed
// ASKED: mpc.gradient_seed {{.*}} : tensor<f32>
// ASKED: mpc.mul {{.*}} : (tensor<f16>, tensor<f16>) -> tensor<f16>
func.func @seed(%x: tensor<4xf32> {mpc.name = "x", mpc.role = #mpc.role<input>})
    -> (tensor<4xf32> {mpc.name = "x.gradient", mpc.role = #mpc.role<output>}) {
  %seed = mpc.gradient_seed : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.mul %seed, %half : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = mpc.broadcast %0 : tensor<f32> to tensor<4xf32>
  %2 = mpc.exp %x : tensor<4xf32>
  %3 = mpc.mul %2, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = mpc.neg %3 : tensor<4xf32>
  return %4 : tensor<4xf32>
}

// -----

// The softmax and the difference that only the loss's gradient reads belong to it; the
// matmul that produces the logits and the reader of the gradient do not.
// CHECK-LABEL: func.func @loss
// CHECK: [[SUMS:%.+]] = mpc.matmul {{.*}} : (tensor<2x4xf16>, tensor<4x4xf16>) -> tensor<2x4xf32>
// CHECK: [[P:%.+]] = mpc.softmax %{{.+}} {{.*}} : tensor<2x4xf32>
// CHECK: [[D:%.+]] = mpc.sub [[P]], %{{.+}} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK: [[G:%.+]] = mpc.mul [[D]], %{{.+}} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
// CHECK: [[NARROW:%.+]] = mpc.cast [[G]] : tensor<2x4xf32> to tensor<2x4xf16>
// CHECK: mpc.neg [[NARROW]] {{.*}} : tensor<2x4xf16>
func.func @loss(%x: tensor<2x4xf32> {mpc.name = "x", mpc.role = #mpc.role<input>},
                %t: tensor<2x4xf32> {mpc.name = "t", mpc.role = #mpc.role<label>})
    -> (tensor<f32> {mpc.name = "loss", mpc.role = #mpc.role<loss>},
        tensor<2x4xf32> {mpc.name = "x.gradient", mpc.role = #mpc.role<output>}) {
  %w = mpc.constant dense<0.5> : tensor<4x4xf32>
  %logits = mpc.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %loss = mpc.softmax_cross_entropy %logits, %t : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<f32>
  %seed = mpc.gradient_seed : tensor<f32>
  %0 = mpc.softmax %logits axis(1) : tensor<2x4xf32>
  %1 = mpc.sub %0, %t : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = mpc.mul %1, %seed : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %3 = mpc.neg %2 : tensor<2x4xf32>
  return %loss, %3 : tensor<f32>, tensor<2x4xf32>
}
