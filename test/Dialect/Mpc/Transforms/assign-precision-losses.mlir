// RUN: mpc-opt %s --mpc-assign-precision=policy=float16 --mpc-verify-stage=stage=precision | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=keras_mixed_float16 --mpc-verify-stage=stage=precision | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_bfloat16 --mpc-verify-stage=stage=precision | FileCheck %s --check-prefix=MIXED
// RUN: mpc-opt %s --mpc-assign-precision="policy=float16 set=name:square=float16" --mpc-verify-stage=stage=precision | FileCheck %s --check-prefix=SET

// A decomposed loss is f32 back to the model's output: the matmul and the activation
// before it stay in low precision. The gradient does as well.
// CHECK-LABEL: func.func private @steps(
// CHECK: mpc.matmul {{.*}} : (tensor<64x64xf16>, tensor<64x64xf16>)
// CHECK: mpc.tanh {{.*}} : tensor<64x64xf16>
// CHECK: mpc.matmul {{.*}} : (tensor<64x64xf16>, tensor<64x64xf16>)
// CHECK: mpc.sub {{.*}}rule = "high"{{.*}}"part of the loss"{{.*}} -> tensor<64x64xf32>
// CHECK: mpc.mul {{.*}}"part of the loss"{{.*}} -> tensor<64x64xf32>
// CHECK: mpc.reduce_mean {{.*}} : tensor<64x64xf32> -> tensor<f32>
// CHECK: mpc.gradient_seed
// CHECK-NOT: "part of the loss"
// CHECK: return
// MIXED-LABEL: func.func private @steps(
// MIXED: mpc.sub {{.*}}"part of the loss"{{.*}} -> tensor<64x64xf32>
// MIXED-NOT: mpc.cast {{.*}} : tensor<64x64xf32> to tensor<64x64xbf16>
// MIXED: mpc.reduce_mean
// SET-LABEL: func.func private @steps(
// SET: mpc.mul {{.*}}override = "name:square=float16"{{.*}} -> tensor<64x64xf16>
func.func private @steps(%x: tensor<64x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                         %y: tensor<64x64xf32> {mpc.role = #mpc.role<label>, mpc.name = "y"},
                         %w: tensor<64x64xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"},
        tensor<64x64xf32> {mpc.role = #mpc.role<output>, mpc.name = "w.gradient"}) {
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.tanh %0 : tensor<64x64xf32>
  %2 = mpc.matmul %1, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = mpc.sub %2, %y : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = mpc.mul %3, %3 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("square")
  %5 = mpc.reduce_mean %4 axes([0, 1]) : tensor<64x64xf32> -> tensor<f32>
  %seed = mpc.gradient_seed : tensor<f32>
  %g = mpc.mul %3, %seed : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  %dw = mpc.matmul %1, %g transpose_lhs : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %5, %dw : tensor<f32>, tensor<64x64xf32>
}

// A residual stream that contractions read belongs to the model, though the loss
// reads its end; so does a value that is an output as well.
// CHECK-LABEL: func.func private @stream(
// CHECK: mpc.add {{.*}} -> tensor<64x64xf16>
// CHECK: mpc.matmul
// CHECK: mpc.add {{.*}}"part of the loss"{{.*}} -> tensor<64x64xf32>
// CHECK: mpc.relu {{.*}} : tensor<64x64xf16>
// CHECK: mpc.abs {{.*}}"part of the loss"{{.*}} : tensor<64x64xf32>
func.func private @stream(%x: tensor<64x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                          %y: tensor<64x64xf32> {mpc.role = #mpc.role<label>, mpc.name = "y"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"},
        tensor<64x64xf32> {mpc.role = #mpc.role<output>, mpc.name = "out"}) {
  %w = mpc.constant dense<0.1> : tensor<64x64xf32>
  %0 = mpc.add %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.matmul %0, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = mpc.add %0, %1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = mpc.relu %1 : tensor<64x64xf32>
  %4 = mpc.sub %2, %y : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %5 = mpc.sub %4, %3 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %6 = mpc.abs %5 : tensor<64x64xf32>
  %7 = mpc.reduce_sum %6 axes([0, 1]) : tensor<64x64xf32> -> tensor<f32>
  return %7, %3 : tensor<f32>, tensor<64x64xf32>
}
