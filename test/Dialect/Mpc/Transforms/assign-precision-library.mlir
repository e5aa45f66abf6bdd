// Biases of library GEMMs: read in the 16 bits of the GEMM's result, with
// gradients in the type of the weight's gradient.
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 library-products" --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16" --split-input-file | FileCheck %s --check-prefix=OWN
// RUN: mpc-opt %s --mpc-assign-precision="policy=float32 library-products" --split-input-file | FileCheck %s --check-prefix=WIDE

// Accumulators are f32: the bias is upcast for them, one cast ends the chain. The
// second result is returned in f32, and so its bias is f32.
// CHECK-LABEL: @layers(
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<96xf32>
// CHECK-SAME: %[[C:[a-z0-9]+]]: tensor<32xf32>
// CHECK: %[[BH:.*]] = mpc.cast %[[B]] : tensor<96xf32> to tensor<96xbf16>
// CHECK: %[[BW:.*]] = mpc.cast %[[BH]] : tensor<96xbf16> to tensor<96xf32>
// CHECK: mpc.add %{{.*}}, %[[BW]] {{.*}} : (tensor<64x96xf32>, tensor<96xf32>) -> tensor<64x96xf32>
// CHECK: mpc.relu {{.*}} : tensor<64x96xf32>
// CHECK: mpc.cast {{.*}} : tensor<64x96xf32> to tensor<64x96xbf16>
// CHECK: mpc.add %{{.*}}, %[[C]] {{.*}} : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
// OWN-LABEL: @layers(
// OWN-NOT: tensor<96xbf16>
// WIDE-LABEL: @layers(
// WIDE-NOT: bf16
func.func @layers(%x: tensor<64x128xf32>, %w: tensor<128x96xf32>, %v: tensor<96x32xf32>,
                  %b: tensor<96xf32> {mpc.role = #mpc.role<parameter>}, %c: tensor<32xf32> {mpc.role = #mpc.role<parameter>})
    -> tensor<64x32xf32> {
  %0 = mpc.matmul %x, %w : (tensor<64x128xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
  %1 = mpc.add %0, %b : (tensor<64x96xf32>, tensor<96xf32>) -> tensor<64x96xf32>
  %2 = mpc.relu %1 : tensor<64x96xf32>
  %3 = mpc.matmul %2, %v : (tensor<64x96xf32>, tensor<96x32xf32>) -> tensor<64x32xf32>
  %4 = mpc.add %3, %c : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
  return %4 : tensor<64x32xf32>
}

// -----

// The input of an erf-GELU is not among the library's results.
// CHECK-LABEL: @erf(
// CHECK-NOT: tensor<96xbf16>
// CHECK: return
func.func @erf(%x: tensor<64x128xf32>, %w: tensor<128x96xf32>, %v: tensor<96x32xf32>,
               %b: tensor<96xf32> {mpc.role = #mpc.role<parameter>}) -> tensor<64x32xf32> {
  %0 = mpc.matmul %x, %w : (tensor<64x128xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
  %1 = mpc.add %0, %b : (tensor<64x96xf32>, tensor<96xf32>) -> tensor<64x96xf32>
  %2 = mpc.gelu %1 : tensor<64x96xf32>
  %3 = mpc.matmul %2, %v : (tensor<64x96xf32>, tensor<96x32xf32>) -> tensor<64x32xf32>
  return %3 : tensor<64x32xf32>
}

// -----

// A row that is the function's input keeps the caller's type.
// CHECK-LABEL: @row(
// CHECK-NOT: tensor<96xbf16>
// CHECK: return
func.func @row(%x: tensor<64x128xf32>, %w: tensor<128x96xf32>, %v: tensor<96x32xf32>, %b: tensor<96xf32>) -> tensor<64x32xf32> {
  %0 = mpc.matmul %x, %w : (tensor<64x128xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
  %1 = mpc.add %0, %b : (tensor<64x96xf32>, tensor<96xf32>) -> tensor<64x96xf32>
  %2 = mpc.matmul %1, %v : (tensor<64x96xf32>, tensor<96x32xf32>) -> tensor<64x32xf32>
  return %2 : tensor<64x32xf32>
}

// -----

// The bias is read in f32, like the result; its gradient is summed with its
// weight's, in the same type. A preset rounds as its system does.
// RUN: mpc-opt %s --mpc-assign-precision="policy=tf_amp_onednn_bfloat16 library-products" --split-input-file 2>/dev/null | FileCheck %s --check-prefix=PRESET
// CHECK-LABEL: @step(
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<96xf32>
// CHECK: mpc.add %{{.*}}, %[[B]] {{.*}} : (tensor<64x96xf32>, tensor<96xf32>) -> tensor<64x96xf32>
// CHECK: %[[S:.*]] = mpc.reduce_sum {{.*}} -> tensor<96xf32>
// CHECK: %[[D:.*]] = mpc.cast %[[S]] : tensor<96xf32> to tensor<96xbf16>
// CHECK: mpc.optimizer.sgd %[[B]], %[[D]] {{.*}}reason = "the library accumulates it in the type of the weight's gradient"
// OWN-LABEL: @step(
// OWN: mpc.optimizer.sgd {{.*}} : (tensor<96xf32>, tensor<96xf32>, tensor<i64>, tensor<f32>) -> tensor<96xf32>
// WIDE-LABEL: @step(
// WIDE-NOT: bf16
// PRESET-LABEL: @step(
// PRESET-NOT: the library sums it
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
