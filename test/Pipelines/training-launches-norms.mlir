// A training step of a perceptron with a norm before its second matmul and one after the
// residual sum, on 2048 rows. Each norm is one launch at most and its gradients are one: of its
// input, its scale and its bias. The first norm is computed and stored by the matmul that reads
// it, the mean of the loss is part of the last norm's kernel.
// RUN: mpc dump %s --training "step optimizer=adam loss=mean_squared_error" --target cuda:sm_80 --after plan | FileCheck %s
// RUN: mpc dump %s --training "step optimizer=adam loss=mean_squared_error" --policy mixed_bfloat16 --target cuda:sm_80 --after plan | FileCheck %s

// With a loss scale the check reads the sums as well.
// RUN: mpc dump %s --training "step optimizer=adam loss=mean_squared_error" --policy mixed_float16 --target cuda:sm_80 --after plan | FileCheck %s --check-prefixes=CHECK,SCALED

// CHECK: exe.program @main
// CHECK: exe.launch @k_fc0 kind(contraction)
// CHECK-NEXT: exe.launch @k_fc1 kind(contraction) ops(["inner_norm", "fc1", "residual"])
// CHECK-NEXT: exe.launch @k_outer_norm kind(row) ops(["outer_norm", "loss"])
// CHECK-NEXT: exe.launch @k_outer_norm_1 kind(row)
// CHECK-NEXT: exe.launch @k_fc1_1_fc1_2 kind(contraction)
// CHECK-NEXT: exe.launch @k_inner_norm kind(row)
// CHECK-NEXT: exe.launch @{{.*}} kind(contraction)
// SCALED-NEXT: exe.launch @k_check kind(reduce)
// CHECK-NEXT: exe.launch @k_update kind(update)
// CHECK-NOT: exe.{{launch|copy}}
func.func @main(%x: tensor<2048x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<2048x64xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w0 = mpc.constant dense<0.5> : tensor<64x64xf32> loc("fc0/weight")
  %s0 = mpc.constant dense<1.0> : tensor<64xf32> loc("inner_norm/scale")
  %b0 = mpc.constant dense<0.125> : tensor<64xf32> loc("inner_norm/bias")
  %w1 = mpc.constant dense<0.25> : tensor<64x64xf32> loc("fc1/weight")
  %s1 = mpc.constant dense<2.0> : tensor<64xf32> loc("outer_norm/scale")
  %b1 = mpc.constant dense<0.75> : tensor<64xf32> loc("outer_norm/bias")
  %0 = mpc.matmul %x, %w0 : (tensor<2048x64xf32>, tensor<64x64xf32>) -> tensor<2048x64xf32> loc("fc0")
  %1 = mpc.layer_norm %0, %s0, %b0 axis(1) epsilon(1.0e-05) : (tensor<2048x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<2048x64xf32> loc("inner_norm")
  %2 = mpc.matmul %1, %w1 : (tensor<2048x64xf32>, tensor<64x64xf32>) -> tensor<2048x64xf32> loc("fc1")
  %3 = mpc.add %2, %0 : (tensor<2048x64xf32>, tensor<2048x64xf32>) -> tensor<2048x64xf32> loc("residual")
  %4 = mpc.layer_norm %3, %s1, %b1 axis(1) epsilon(1.0e-05) : (tensor<2048x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<2048x64xf32> loc("outer_norm")
  return %4 : tensor<2048x64xf32>
}
