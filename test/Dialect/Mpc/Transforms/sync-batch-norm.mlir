// RUN: mpc-opt %s --mpc-sync-batch-norm=ranks=4 | FileCheck %s
// RUN: mpc-opt %s --mpc-sync-batch-norm=ranks=1 | FileCheck %s --check-prefix=ONE
// RUN: not mpc-opt %s --mpc-sync-batch-norm=ranks=-1 2>&1 | FileCheck %s --check-prefix=RANKS

// RANKS: error: trains on 1 rank or more, found -1
// ONE: mpc.batch_norm_training
// ONE: mpc.batch_norm_gradient

// The forward norm and its gradient share the statistics of one all-reduce.
// CHECK-LABEL: func.func @norm(
// CHECK: [[M:%.+]] = mpc.reduce_mean %{{.+}} axes([0, 2, 3]) keep_dims
// CHECK: [[V:%.+]] = mpc.reduce_mean %{{.+}} axes([0, 2, 3]) keep_dims
// CHECK: [[ALL:%.+]]:2 = mpc.all_gather [[M]], [[V]] ranks(4) : (tensor<1x3x1x1xf32>, tensor<1x3x1x1xf32>) -> (tensor<4x1x3x1x1xf32>, tensor<4x1x3x1x1xf32>)
// CHECK: [[JOINT:%.+]] = mpc.reduce_mean [[ALL]]#0 axes([0])
// CHECK: mpc.sub [[ALL]]#0, %{{.+}}
// CHECK: mpc.reduce_mean %{{.+}} axes([0]) : tensor<4x1x3x1x1xf32> -> tensor<1x3x1x1xf32>
// CHECK-NOT: mpc.all_gather
// With 4 ranks of 2 x 4 x 4 elements each the variance is over 128 elements.
// CHECK: mpc.constant dense<1.007874{{.*}}> : tensor<f32>
// CHECK: [[B:%.+]] = mpc.reduce_sum
// CHECK: [[S:%.+]] = mpc.reduce_sum
// CHECK: mpc.all_reduce [[B]], [[S]] reduction(sum) ranks(4)
// CHECK-NOT: mpc.batch_norm
func.func @norm(%x: tensor<2x3x4x4xf32>, %s: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>, %g: tensor<2x3x4x4xf32>)
    -> (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>) {
  %0:3 = mpc.batch_norm_training %x, %s, %b, %m, %v epsilon(1.0e-5) momentum(1.0e-1) : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>)
  %1:3 = mpc.batch_norm_gradient %x, %s, %g epsilon(1.0e-5) : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<2x3x4x4xf32>) -> (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1, %0#2, %1#0, %1#1, %1#2 : tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>
}
