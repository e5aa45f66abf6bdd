// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-merge-contractions{parameters=true}))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-merge-contractions))' | FileCheck %s --check-prefix=CONSTANTS

// Parameters and their biases are concatenated by an op, which a GPU's kernels load
// through; a step updates each of them separately.
// CHECK-LABEL: func.func @projections
// CHECK: %[[W:.+]] = mpc.concat %arg1, %arg2 axis(1) : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
// CHECK: %[[PRODUCT:.+]] = mpc.matmul %arg0, %[[W]]
// CHECK: %[[B:.+]] = mpc.concat %arg3, %arg4 axis(0) : (tensor<2xf32>, tensor<1xf32>) -> tensor<3xf32>
// CHECK: %[[SUM:.+]] = mpc.add %[[PRODUCT]], %[[B]]
// CHECK-DAG: mpc.slice %[[SUM]] [0, 0] [4, 2]
// CHECK-DAG: mpc.slice %[[SUM]] [0, 2] [4, 1]
// CONSTANTS-LABEL: func.func @projections
// CONSTANTS-NOT: mpc.concat
// CONSTANTS: return
func.func @projections(%x: tensor<4x2xf32> {mpc.role = #mpc.role<input>},
                       %wq: tensor<2x2xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "wq"},
                       %wk: tensor<2x1xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "wk"},
                       %bq: tensor<2xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "bq"},
                       %bk: tensor<1xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "bk"}) -> (tensor<2x4xf32>, tensor<1x4xf32>) {
  %0 = mpc.matmul %x, %wq : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %1 = mpc.matmul %x, %wk : (tensor<4x2xf32>, tensor<2x1xf32>) -> tensor<4x1xf32>
  %2 = mpc.add %0, %bq : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %3 = mpc.add %1, %bk : (tensor<4x1xf32>, tensor<1xf32>) -> tensor<4x1xf32>
  %4 = mpc.reshape %2 : tensor<4x2xf32> to tensor<2x4xf32>
  %5 = mpc.transpose %3 [1, 0] : tensor<4x1xf32> to tensor<1x4xf32>
  return %4, %5 : tensor<2x4xf32>, tensor<1x4xf32>
}

// A frozen weight is not concatenated with a trained one.
// CHECK-LABEL: func.func @frozen
// CHECK-NOT: mpc.concat
func.func @frozen(%x: tensor<4x2xf32> {mpc.role = #mpc.role<input>},
                  %w: tensor<2x2xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"}) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %c = mpc.constant dense<1.0> : tensor<2x2xf32>
  %0 = mpc.matmul %x, %w : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %1 = mpc.matmul %x, %c : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %2 = mpc.reshape %0 : tensor<4x2xf32> to tensor<2x4xf32>
  %3 = mpc.reshape %1 : tensor<4x2xf32> to tensor<2x4xf32>
  return %2, %3 : tensor<2x4xf32>, tensor<2x4xf32>
}
