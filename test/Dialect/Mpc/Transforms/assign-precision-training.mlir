// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_float16 --mpc-verify-stage=stage=precision --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=float32 --split-input-file | FileCheck %s --check-prefix=F32
// RUN: mpc-opt %s --mpc-assign-precision=policy=tf32 --split-input-file 2>/dev/null | FileCheck %s --check-prefix=TF32
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=op:optimizer.sgd=float32" --split-input-file 2>/dev/null | FileCheck %s --check-prefix=WIDE
// RUN: mpc-opt %s --mpc-assign-precision=policy=keras_mixed_float16 --split-input-file | FileCheck %s --check-prefix=KERAS
// RUN: mpc-opt %s --mpc-assign-precision=policy=torch_autocast_cuda_float16 --split-input-file | FileCheck %s --check-prefix=TORCH

// Forward and backward matmuls multiply f16. The gradient of a weight that is
// read in f16 is rounded to f16 once and passed on to the update; the gradient of a
// bias, which is added in f32, stays f32. Masters, states, rate and loss are f32.
// CHECK-LABEL: @step(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<64x128xf32>
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<128x96xf32>
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<96xf32>
// CHECK-DAG: %[[WH:.*]] = mpc.cast %[[W]] : tensor<128x96xf32> to tensor<128x96xf16>
// CHECK-DAG: %[[XH:.*]] = mpc.cast %[[X]] : tensor<64x128xf32> to tensor<64x128xf16>
// CHECK: mpc.matmul %[[XH]], %[[WH]] {{.*}} -> tensor<64x96xf32>
// CHECK: mpc.mean_squared_error %{{.*}} : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<f32>
// CHECK: %[[DW:.*]] = mpc.matmul %[[XH]], %{{.*}} transpose_lhs {{.*}} : (tensor<64x128xf16>, tensor<64x96xf16>) -> tensor<128x96xf32>
// CHECK: %[[DWH:.*]] = mpc.cast %[[DW]] : tensor<128x96xf32> to tensor<128x96xf16>
// CHECK: %[[DB:.*]] = mpc.reduce_sum {{.*}} -> tensor<96xf32>
// CHECK: mpc.optimizer.sgd %[[W]], %[[DWH]] {{.*}}reason = "the gradient has the type in which the parameter is read"{{.*}} : (tensor<128x96xf32>, tensor<128x96xf16>, tensor<i64>, tensor<f32>) -> tensor<128x96xf32>
// CHECK: mpc.optimizer.sgd %[[B]], %[[DB]] {{.*}} : (tensor<96xf32>, tensor<96xf32>, tensor<i64>, tensor<f32>) -> tensor<96xf32>

// An f32 override of the update keeps its gradients in f32.
// WIDE-LABEL: @step(
// WIDE: %[[DW:.*]] = mpc.matmul %{{.*}} transpose_lhs {{.*}} -> tensor<128x96xf32>
// WIDE: mpc.optimizer.sgd %{{[a-z0-9]+}}, %[[DW]] {{.*}}override = "op:optimizer.sgd=float32"

// Whatever system a policy imitates, losses, masters and their updates are f32.
// KERAS-LABEL: @step(
// KERAS: mpc.mean_squared_error {{.*}} -> tensor<f32>
// KERAS: mpc.optimizer.sgd {{.*}} : (tensor<128x96xf32>, tensor<128x96xf16>, tensor<i64>, tensor<f32>) -> tensor<128x96xf32>
// TORCH-LABEL: @step(
// TORCH: mpc.mean_squared_error {{.*}} -> tensor<f32>
// TORCH: mpc.optimizer.sgd {{.*}} : (tensor<128x96xf32>, tensor<128x96xf16>, tensor<i64>, tensor<f32>) -> tensor<128x96xf32>

// F32-LABEL: @step(
// F32-NOT: mpc.cast
// F32: return

// TF32-LABEL: @step(
// TF32: mpc.matmul %{{.*}} compute(tf32)
// TF32: mpc.matmul %{{.*}} transpose_lhs compute(tf32)
// TF32-NOT: mpc.cast
// TF32: return
func.func @step(%x: tensor<64x128xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %w: tensor<128x96xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"},
                %b: tensor<96xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "b"},
                %y: tensor<64x96xf32> {mpc.role = #mpc.role<label>, mpc.name = "label"},
                %t: tensor<i64> {mpc.role = #mpc.role<optimizer_step>, mpc.name = "step"},
                %r: tensor<f32> {mpc.role = #mpc.role<input>, mpc.name = "rate"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"},
        tensor<128x96xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w", mpc.alias = 1},
        tensor<96xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "b", mpc.alias = 2}) {
  %0 = mpc.matmul %x, %w : (tensor<64x128xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
  %1 = mpc.add %0, %b : (tensor<64x96xf32>, tensor<96xf32>) -> tensor<64x96xf32>
  %loss = mpc.mean_squared_error %1, %y : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<f32>
  %2 = mpc.sub %1, %y : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<64x96xf32>
  %3 = mpc.matmul %x, %2 transpose_lhs : (tensor<64x128xf32>, tensor<64x96xf32>) -> tensor<128x96xf32>
  %4 = mpc.reduce_sum %2 axes([0]) : tensor<64x96xf32> -> tensor<96xf32>
  %nw = mpc.optimizer.sgd %w, %3 step(%t) learning_rate(%r) : (tensor<128x96xf32>, tensor<128x96xf32>, tensor<i64>, tensor<f32>) -> tensor<128x96xf32>
  %nb = mpc.optimizer.sgd %b, %4 step(%t) learning_rate(%r) : (tensor<96xf32>, tensor<96xf32>, tensor<i64>, tensor<f32>) -> tensor<96xf32>
  return %loss, %nw, %nb : tensor<f32>, tensor<128x96xf32>, tensor<96xf32>
}

// -----

// A gradient that is returned is rounded as well, and upcast again: the signature
// keeps its types. Attention has a compute mode.
// CHECK-LABEL: @backward(
// CHECK: %[[DW:.*]] = mpc.matmul {{.*}}transpose_lhs {{.*}} -> tensor<8x8xf32>
// CHECK: %[[H:.*]] = mpc.cast %[[DW]] : tensor<8x8xf32> to tensor<8x8xf16>
// CHECK: %[[R:.*]] = mpc.cast %[[H]] : tensor<8x8xf16> to tensor<8x8xf32>
// CHECK: return %[[R]]
// TF32-LABEL: @backward(
// TF32: mpc.attention {{.*}} compute(tf32)
func.func @backward(%x: tensor<4x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                    %q: tensor<4x8x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "q"},
                    %w: tensor<8x8xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"})
    -> (tensor<8x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "w.gradient"},
        tensor<4x8x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %a = mpc.attention %q, %q, %q scale(0.125) : (tensor<4x8x8xf32>, tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
  %0 = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = mpc.matmul %x, %0 transpose_lhs : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %1, %a : tensor<8x8xf32>, tensor<4x8x8xf32>
}

// -----

// Running statistics are f32 where the batch norm itself is not.
// CHECK-LABEL: @batch_norm(
// CHECK: mpc.batch_norm_training {{.*}} -> (tensor<64x128xf32>, tensor<128xf32>, tensor<128xf32>)
// KERAS-LABEL: @batch_norm(
// KERAS: mpc.batch_norm_training {{.*}} -> (tensor<64x128xf32>, tensor<128xf32>, tensor<128xf32>)
// TORCH-LABEL: @batch_norm(
// TORCH: %[[Y:.*]], %[[M:.*]], %[[V:.*]] = mpc.batch_norm_training {{.*}}, %[[MEAN:[a-z0-9]+]], %[[VARIANCE:[a-z0-9]+]] epsilon
// TORCH-SAME: tensor<128xf32>, tensor<128xf32>)
// TORCH: return %{{.*}}, %[[M]], %[[V]]
func.func @batch_norm(%x: tensor<64x32xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                      %w: tensor<32x128xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"},
                      %s: tensor<128xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "s"},
                      %b: tensor<128xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "b"},
                      %m: tensor<128xf32> {mpc.role = #mpc.role<statistics>, mpc.name = "m"},
                      %v: tensor<128xf32> {mpc.role = #mpc.role<statistics>, mpc.name = "v"})
    -> (tensor<64x128xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"},
        tensor<128xf32> {mpc.role = #mpc.role<statistics>, mpc.name = "m", mpc.alias = 4},
        tensor<128xf32> {mpc.role = #mpc.role<statistics>, mpc.name = "v", mpc.alias = 5}) {
  %0 = mpc.matmul %x, %w : (tensor<64x32xf32>, tensor<32x128xf32>) -> tensor<64x128xf32>
  %y, %nm, %nv = mpc.batch_norm_training %0, %s, %b, %m, %v epsilon(1.0e-5) momentum(0.1) : (tensor<64x128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<128xf32>) -> (tensor<64x128xf32>, tensor<128xf32>, tensor<128xf32>)
  return %y, %nm, %nv : tensor<64x128xf32>, tensor<128xf32>, tensor<128xf32>
}

// -----

// A weight that is transposed before it is read in f16 is read in f16.
// CHECK-LABEL: @turned_weight(
// CHECK: mpc.optimizer.sgd {{.*}} : (tensor<128x96xf32>, tensor<128x96xf16>, tensor<i64>, tensor<f32>) -> tensor<128x96xf32>
func.func @turned_weight(%x: tensor<64x128xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                         %w: tensor<128x96xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"},
                         %y: tensor<64x96xf32> {mpc.role = #mpc.role<label>, mpc.name = "label"},
                         %t: tensor<i64> {mpc.role = #mpc.role<optimizer_step>, mpc.name = "step"},
                         %r: tensor<f32> {mpc.role = #mpc.role<input>, mpc.name = "rate"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"},
        tensor<128x96xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w", mpc.alias = 1}) {
  %turned = mpc.reverse %w axes([0]) : tensor<128x96xf32>
  %0 = mpc.matmul %x, %turned : (tensor<64x128xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
  %loss = mpc.mean_squared_error %0, %y : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<f32>
  %1 = mpc.sub %0, %y : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<64x96xf32>
  %2 = mpc.matmul %x, %1 transpose_lhs : (tensor<64x128xf32>, tensor<64x96xf32>) -> tensor<128x96xf32>
  %3 = mpc.reverse %2 axes([0]) : tensor<128x96xf32>
  %nw = mpc.optimizer.sgd %w, %3 step(%t) learning_rate(%r) : (tensor<128x96xf32>, tensor<128x96xf32>, tensor<i64>, tensor<f32>) -> tensor<128x96xf32>
  return %loss, %nw : tensor<f32>, tensor<128x96xf32>
}
