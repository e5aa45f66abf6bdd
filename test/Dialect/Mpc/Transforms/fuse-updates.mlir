// The end of a training step: one kernel that updates all state, whatever the shapes,
// and one that checks all gradients.
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-fuse | FileCheck %s
// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx512 --mpc-fuse | FileCheck %s

// Two parameters of different shapes and the step counter are updated by one kernel.
// The matmul does not take its parameter's update as epilogue, nor does the sum.
// CHECK-LABEL: func.func @two_parameters
// CHECK: %[[GW:.*]] = mpc.fusion kind(contraction)
// CHECK-NEXT: mpc.matmul
// CHECK-NEXT: mpc.yield
// CHECK: %[[GB:.*]] = mpc.fusion kind(reduce)
// CHECK-NEXT: mpc.reduce_sum
// CHECK-NEXT: mpc.yield
// CHECK: %[[NEW:.*]]:4 = mpc.fusion kind(update) name("update")
// CHECK-SAME: = %[[GW]]
// CHECK-SAME: = %[[GB]]
// CHECK-SAME: -> (tensor<i64>, tensor<784x10xf32>, tensor<784x10xbf16>, tensor<10xf32>)
// CHECK-NOT: mpc.fusion
// CHECK: return %[[NEW]]#1, %[[NEW]]#2, %[[NEW]]#3, %[[NEW]]#0
func.func @two_parameters(
    %x: tensor<1024x784xf32>, %dy: tensor<1024x10xf32>,
    %w: tensor<784x10xf32>, %w16: tensor<784x10xbf16>, %b: tensor<10xf32>, %step: tensor<i64>,
    %dz: tensor<1024x10xf32>)
    -> (tensor<784x10xf32> {mpc.alias = 2 : i64}, tensor<784x10xbf16> {mpc.alias = 3 : i64},
        tensor<10xf32> {mpc.alias = 4 : i64}, tensor<i64> {mpc.alias = 5 : i64}) {
  %one = mpc.constant dense<1> : tensor<i64>
  %base = mpc.constant dense<0.5> : tensor<f32>
  %t = mpc.add %step, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %tf = mpc.cast %t : tensor<i64> to tensor<f32>
  %lr = mpc.div %base, %tf : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %gw = mpc.matmul %x, %dy transpose_lhs : (tensor<1024x784xf32>, tensor<1024x10xf32>) -> tensor<784x10xf32>
  %dw = mpc.mul %gw, %lr : (tensor<784x10xf32>, tensor<f32>) -> tensor<784x10xf32>
  %nw = mpc.sub %w, %dw : (tensor<784x10xf32>, tensor<784x10xf32>) -> tensor<784x10xf32>
  %nw16 = mpc.cast %nw : tensor<784x10xf32> to tensor<784x10xbf16>
  %gb = mpc.reduce_sum %dz axes([0]) : tensor<1024x10xf32> -> tensor<10xf32>
  %db = mpc.mul %gb, %lr : (tensor<10xf32>, tensor<f32>) -> tensor<10xf32>
  %nb = mpc.sub %b, %db : (tensor<10xf32>, tensor<10xf32>) -> tensor<10xf32>
  return %nw, %nw16, %nb, %t : tensor<784x10xf32>, tensor<784x10xbf16>, tensor<10xf32>, tensor<i64>
}

// A gradient is stored in 16 bits: its producer downcasts, and its consumer
// upcasts.
// CHECK-LABEL: func.func @narrow_gradient
// CHECK: mpc.fusion kind(contraction) {{.*}} -> tensor<16x8xbf16>
// CHECK: mpc.fusion kind(update) {{.*}} -> tensor<16x8xf32>
// CHECK-NEXT: mpc.cast %{{.*}} : tensor<16x8xbf16> to tensor<16x8xf32>
// CHECK-NEXT: mpc.sub
func.func @narrow_gradient(%x: tensor<32x16xbf16>, %dy: tensor<32x8xbf16>, %w: tensor<16x8xf32>)
    -> (tensor<16x8xf32> {mpc.alias = 2 : i64}) {
  %g = mpc.matmul %x, %dy transpose_lhs : (tensor<32x16xbf16>, tensor<32x8xbf16>) -> tensor<16x8xf32>
  %n = mpc.cast %g : tensor<16x8xf32> to tensor<16x8xbf16>
  %f = mpc.cast %n : tensor<16x8xbf16> to tensor<16x8xf32>
  %nw = mpc.sub %w, %f : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  return %nw : tensor<16x8xf32>
}

// The check and the norm of gradients of any shape and type share a kernel, which runs
// before the update that depends on it.
// CHECK-LABEL: func.func @checks
// CHECK: %[[CHECK:.*]]:2 = mpc.fusion kind(reduce) name("check") {{.*}} -> (tensor<i1>, tensor<f32>)
// CHECK: mpc.all_finite
// CHECK: mpc.global_norm
// CHECK: mpc.fusion kind(update)
// CHECK-SAME: %[[CHECK]]#0
// CHECK: mpc.select
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @checks(%ga: tensor<16x8xf16>, %gb: tensor<8xf16>, %a: tensor<16x8xf32>, %b: tensor<8xf32>)
    -> (tensor<16x8xf32> {mpc.alias = 2 : i64}, tensor<8xf32> {mpc.alias = 3 : i64}) {
  %finite, %record = mpc.all_finite %ga, %gb names(["a", "b"]) : (tensor<16x8xf16>, tensor<8xf16>) -> (tensor<i1>, tensor<2xi64>)
  %wa = mpc.cast %ga : tensor<16x8xf16> to tensor<16x8xf32>
  %wb = mpc.cast %gb : tensor<8xf16> to tensor<8xf32>
  %norm = mpc.global_norm %wa, %wb : (tensor<16x8xf32>, tensor<8xf32>) -> tensor<f32>
  %da = mpc.mul %wa, %norm : (tensor<16x8xf32>, tensor<f32>) -> tensor<16x8xf32>
  %db = mpc.mul %wb, %norm : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %na = mpc.sub %a, %da : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %nb = mpc.sub %b, %db : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %sa = mpc.select %finite, %na, %a : (tensor<i1>, tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %sb = mpc.select %finite, %nb, %b : (tensor<i1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %sa, %sb : tensor<16x8xf32>, tensor<8xf32>
}

// The common unscale factor is recomputed in both kernels: no kernel runs before the check.
// CHECK-LABEL: func.func @unscaled
// CHECK: mpc.fusion kind(reduce) name("check")
// CHECK: mpc.div
// CHECK: mpc.global_norm
// CHECK: mpc.fusion kind(update)
// CHECK: mpc.div
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @unscaled(%g: tensor<16x8xf16>, %w: tensor<16x8xf32>, %scale: tensor<f32>)
    -> (tensor<16x8xf32> {mpc.alias = 1 : i64}) {
  %one = mpc.constant dense<1.0> : tensor<f32>
  %inverse = mpc.div %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %norm = mpc.global_norm %g unscale(%inverse) : (tensor<16x8xf16>, tensor<f32>) -> tensor<f32>
  %clip = mpc.mul %inverse, %norm : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %f = mpc.cast %g : tensor<16x8xf16> to tensor<16x8xf32>
  %d = mpc.mul %f, %clip : (tensor<16x8xf32>, tensor<f32>) -> tensor<16x8xf32>
  %nw = mpc.sub %w, %d : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  return %nw : tensor<16x8xf32>
}

// Values with other readers are not part of the update, and a result that aliases no
// argument is no update.
// CHECK-LABEL: func.func @read_beside
// CHECK: mpc.fusion kind(elementwise)
// CHECK: mpc.fusion kind(contraction)
// CHECK: mpc.fusion kind(update)
func.func @read_beside(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>)
    -> (tensor<8x8xf32>, tensor<8x8xf32> {mpc.alias = 1 : i64}) {
  %0 = mpc.exp %x : tensor<8x8xf32>
  %1 = mpc.matmul %0, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = mpc.sub %w, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>
}

// A bias of another shape than its gradient's sum: all arithmetic of the update has the
// parameter's shape and is in the update's kernel.
// CHECK-LABEL: func.func @reshaped_gradient
// CHECK: mpc.fusion kind(reduce)
// CHECK-NOT: mpc.mul
// CHECK: mpc.fusion kind(update)
// CHECK: mpc.mul
// CHECK-NOT: mpc.reshape
// CHECK: mpc.yield
func.func @reshaped_gradient(%g: tensor<512x4x64xf32>,
                             %b: tensor<64x1xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "b"})
    -> (tensor<64x1xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "b", mpc.alias = 1 : i32}) {
  %rate = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.reduce_sum %g axes([0, 1]) : tensor<512x4x64xf32> -> tensor<64xf32>
  %1 = mpc.mul %0, %rate : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  %2 = mpc.reshape %1 : tensor<64xf32> to tensor<64x1xf32>
  %3 = mpc.sub %b, %2 : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
  return %3 : tensor<64x1xf32>
}
