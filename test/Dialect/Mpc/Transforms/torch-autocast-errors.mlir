// RUN: mpc-opt %s --mpc-assign-precision=policy=torch_autocast_cuda_float16 --verify-diagnostics --split-input-file
// RUN: mpc-opt %s --mpc-assign-precision=policy=torch_autocast_cpu_bfloat16 --split-input-file | FileCheck %s

// R5: CUDA refuses binary cross entropy on probabilities; CPU runs it in f32.
// CHECK-LABEL: @banned
// CHECK: mpc.log {{.*}} : tensor<4xf32>
func.func @banned(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpc.log %x {mpc.source = #mpc.source<op = "binary_cross_entropy", id = 1>} : tensor<4xf32>
  // expected-error @below {{'binary_cross_entropy' is banned by policy 'torch_autocast_cuda_float16': its results are outside the range of 'f16'; use binary_cross_entropy_with_logits, which takes the input of the sigmoid, or keep it in float32 with --set op:mul=float32}}
  %1 = mpc.mul %y, %0 {mpc.source = #mpc.source<op = "binary_cross_entropy", id = 1>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
