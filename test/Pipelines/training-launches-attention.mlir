// A training step of causal self-attention after one projection. On a GPU one launch computes
// the gradients of query, key and value and stores them as the gradient of the packed
// projection, which its weight gradient's matmul reads; on a CPU it is decomposed into
// matmuls and the softmax.
// RUN: mpc dump %s --training "step optimizer=sgd" --target cuda:sm_80 --after plan | FileCheck %s
// RUN: mpc dump %s --training "step optimizer=sgd" --policy mixed_bfloat16 --target cuda:sm_80 --after plan | FileCheck %s
// RUN: mpc dump %s --training "step optimizer=sgd" --target cpu:avx512 --after plan | FileCheck %s --check-prefix=CPU

// CHECK: exe.launch @{{.*}} kind(contraction) ops(["projection"])
// CHECK-NEXT: exe.launch @k_context kind(attention)
// CHECK-NEXT: exe.launch @k_loss kind(row)
// CHECK-NEXT: exe.launch @k_context_1 kind(attention) {{.*}} write arena[{{[0-9]+}} : {{[0-9]+}}])
// CHECK-NEXT: exe.launch @{{.*}} kind(contraction) ops(["projection"])
// CHECK-NEXT: exe.launch @k_update kind(update)
// CHECK-NOT: exe.{{launch|copy}}
// CHECK: func.func private @k_context_1
// CHECK: mpc.attention_gradient

// CPU: exe.launch @k_context kind(attention)
// CPU-NOT: kind(attention)
// CPU-NOT: mpc.attention_gradient
func.func @main(%x: tensor<2x16x32xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<2x16x32xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w = mpc.constant dense<0.01> : tensor<32x96xf32> loc("projection/weight")
  %0 = mpc.matmul %x, %w : (tensor<2x16x32xf32>, tensor<32x96xf32>) -> tensor<2x16x96xf32> loc("projection")
  %1 = mpc.reshape %0 : tensor<2x16x96xf32> to tensor<2x16x6x16xf32>
  %q0 = mpc.slice %1 [0, 0, 0, 0] [2, 16, 2, 16] : tensor<2x16x6x16xf32> to tensor<2x16x2x16xf32>
  %q = mpc.transpose %q0 [0, 2, 1, 3] : tensor<2x16x2x16xf32> to tensor<2x2x16x16xf32>
  %k0 = mpc.slice %1 [0, 0, 2, 0] [2, 16, 2, 16] : tensor<2x16x6x16xf32> to tensor<2x16x2x16xf32>
  %k = mpc.transpose %k0 [0, 2, 1, 3] : tensor<2x16x2x16xf32> to tensor<2x2x16x16xf32>
  %v0 = mpc.slice %1 [0, 0, 4, 0] [2, 16, 2, 16] : tensor<2x16x6x16xf32> to tensor<2x16x2x16xf32>
  %v = mpc.transpose %v0 [0, 2, 1, 3] : tensor<2x16x2x16xf32> to tensor<2x2x16x16xf32>
  %2 = mpc.attention %q, %k, %v scale(0.25) causal : (tensor<2x2x16x16xf32>, tensor<2x2x16x16xf32>, tensor<2x2x16x16xf32>) -> tensor<2x2x16x16xf32> loc("context")
  %3 = mpc.transpose %2 [0, 2, 1, 3] : tensor<2x2x16x16xf32> to tensor<2x16x2x16xf32> loc("context")
  %4 = mpc.reshape %3 : tensor<2x16x2x16xf32> to tensor<2x16x32xf32> loc("context")
  return %4 : tensor<2x16x32xf32>
}
