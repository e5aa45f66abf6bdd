// RUN: mpc-opt %s --split-input-file --mpc-select-fusion-groups=target=cuda:sm_80 | FileCheck %s
// RUN: mpc-opt %s --split-input-file --mpc-select-fusion-groups=target=cuda:sm_80 > %t.once
// RUN: mpc-opt %s --split-input-file --mpc-select-fusion-groups=target=cuda:sm_80 --mpc-select-fusion-groups=target=cuda:sm_80 | diff %t.once -

// A matmul fuses its epilogue; the softmax is a separate kernel.
// CHECK-LABEL: func.func @epilogue
func.func @epilogue(%x: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<4x4xf32> {
  // CHECK: mpc.matmul {{.*}} {mpc.anchor = #mpc<fusion_kind contraction>, mpc.group = [[G:[0-9]+]] : i64}
  // CHECK-NEXT: mpc.add {{.*}} {mpc.group = [[G]] : i64}
  // CHECK-NEXT: mpc.relu {{.*}} {mpc.group = [[G]] : i64}
  // CHECK-NEXT: mpc.softmax {{.*}} {mpc.anchor = #mpc<fusion_kind row>, mpc.group = {{[0-9]+}} : i64}
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.add %0, %b : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %2 = mpc.relu %1 : tensor<4x4xf32>
  %3 = mpc.softmax %2 axis(1) : tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

// -----

// Constants and views are in no group, loops have no anchor.
// CHECK-LABEL: func.func @loose
func.func @loose(%x: tensor<4x4xf32>) -> tensor<16xf32> {
  // CHECK: mpc.constant dense<2.000000e+00> : tensor<f32>
  // CHECK-NEXT: mpc.mul %{{.*}}, %{{.*}} {mpc.group = 0 : i64}
  // CHECK-NEXT: mpc.reshape %{{.*}} : tensor<4x4xf32> to tensor<16xf32>
  %two = mpc.constant dense<2.0> : tensor<f32>
  %0 = mpc.mul %x, %two : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %1 = mpc.reshape %0 : tensor<4x4xf32> to tensor<16xf32>
  return %1 : tensor<16xf32>
}

// -----

// A kernel with fused stores through data movement has another shape than its anchor.
// CHECK-LABEL: func.func @stores
func.func @stores(%x: tensor<2x64x64xf32>) -> tensor<64x2x64xf32> {
  // CHECK: mpc.matmul {{.*}}mpc.group = [[G:[0-9]+]] : i64, mpc.group_shape = array<i64: 64, 2, 64>
  // CHECK-NEXT: mpc.transpose {{.*}}{mpc.group = [[G]] : i64}
  %0 = mpc.matmul %x, %x : (tensor<2x64x64xf32>, tensor<2x64x64xf32>) -> tensor<2x64x64xf32>
  %1 = mpc.transpose %0 [1, 0, 2] : tensor<2x64x64xf32> to tensor<64x2x64xf32>
  return %1 : tensor<64x2x64xf32>
}

// -----

// New values of the state are one kernel, whatever their shapes.
// CHECK-LABEL: func.func @updates
func.func @updates(%a: tensor<4xf32>, %b: tensor<8xf32>, %ga: tensor<4xf32>, %gb: tensor<8xf32>)
    -> (tensor<4xf32> {mpc.alias = 0 : i64}, tensor<8xf32> {mpc.alias = 1 : i64}) {
  // CHECK: mpc.sub {{.*}} {mpc.group = [[G:[0-9]+]] : i64, mpc.joint = #mpc<fusion_kind update>}
  // CHECK-NEXT: mpc.sub {{.*}} {mpc.group = [[G]] : i64}
  %0 = mpc.sub %a, %ga : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = mpc.sub %b, %gb : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<4xf32>, tensor<8xf32>
}

// -----

// A block of the matmul computes the rows of a norm with no other reader, with
// the cast after it.
// CHECK-LABEL: func.func @norm_before_product
func.func @norm_before_product(%x: tensor<1x16x256xf32>, %s: tensor<256xf32>, %w: tensor<256x512xbf16>) -> tensor<16x512xf32> {
  // CHECK: mpc.rms_norm {{.*}} {mpc.group = [[G:[0-9]+]] : i64}
  // CHECK-NEXT: mpc.cast {{.*}} {mpc.group = [[G]] : i64}
  // CHECK-NEXT: mpc.reshape {{.*}} {mpc.group = [[G]] : i64}
  // CHECK-NEXT: mpc.matmul {{.*}} {mpc.anchor = #mpc<fusion_kind contraction>, mpc.group = [[G]] : i64}
  %0 = mpc.rms_norm %x, %s axis(2) epsilon(1.0e-6) : (tensor<1x16x256xf32>, tensor<256xf32>) -> tensor<1x16x256xf32>
  %1 = mpc.cast %0 : tensor<1x16x256xf32> to tensor<1x16x256xbf16>
  %2 = mpc.reshape %1 : tensor<1x16x256xbf16> to tensor<16x256xbf16>
  %3 = mpc.matmul %2, %w : (tensor<16x256xbf16>, tensor<256x512xbf16>) -> tensor<16x512xf32>
  return %3 : tensor<16x512xf32>
}

// -----

// The matmul with fewer columns computes the norm's rows, and stores them for the other.
// CHECK-LABEL: func.func @norm_read_twice
func.func @norm_read_twice(%x: tensor<16x256xf32>, %s: tensor<256xf32>, %w: tensor<256x512xf32>, %v: tensor<256x8xf32>) -> (tensor<16x512xf32>, tensor<16x8xf32>) {
  // CHECK: mpc.rms_norm {{.*}} {mpc.group = [[G:[0-9]+]] : i64
  // CHECK: mpc.matmul {{.*}} mpc.group = [[H:[0-9]+]] : i64} {{.*}} -> tensor<16x512xf32>
  // CHECK: mpc.matmul {{.*}} mpc.group = [[G]] : i64} {{.*}} -> tensor<16x8xf32>
  %0 = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-6) : (tensor<16x256xf32>, tensor<256xf32>) -> tensor<16x256xf32>
  %1 = mpc.matmul %0, %w : (tensor<16x256xf32>, tensor<256x512xf32>) -> tensor<16x512xf32>
  %2 = mpc.matmul %0, %v : (tensor<16x256xf32>, tensor<256x8xf32>) -> tensor<16x8xf32>
  return %1, %2 : tensor<16x512xf32>, tensor<16x8xf32>
}

// -----

// Many rows would be read by each of many blocks: that takes longer than a launch.
// CHECK-LABEL: func.func @norm_of_many_rows
func.func @norm_of_many_rows(%x: tensor<4096x768xf32>, %s: tensor<768xf32>, %w: tensor<768x3072xbf16>) -> tensor<4096x3072xf32> {
  // CHECK: mpc.rms_norm {{.*}} {mpc.anchor = #mpc<fusion_kind row>, mpc.group = {{[0-9]+}} : i64}
  %0 = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-6) : (tensor<4096x768xf32>, tensor<768xf32>) -> tensor<4096x768xf32>
  %1 = mpc.cast %0 : tensor<4096x768xf32> to tensor<4096x768xbf16>
  %2 = mpc.matmul %1, %w : (tensor<4096x768xbf16>, tensor<768x3072xbf16>) -> tensor<4096x3072xf32>
  return %2 : tensor<4096x3072xf32>
}

// -----

// Sixteen rows of this depth exceed a block's capacity.
// CHECK-LABEL: func.func @norm_of_long_rows
func.func @norm_of_long_rows(%x: tensor<1x8192xf32>, %s: tensor<8192xf32>, %w: tensor<8192x64xbf16>) -> tensor<1x64xf32> {
  // CHECK: mpc.rms_norm {{.*}} {mpc.anchor = #mpc<fusion_kind row>, mpc.group = {{[0-9]+}} : i64}
  %0 = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-6) : (tensor<1x8192xf32>, tensor<8192xf32>) -> tensor<1x8192xf32>
  %1 = mpc.cast %0 : tensor<1x8192xf32> to tensor<1x8192xbf16>
  %2 = mpc.matmul %1, %w : (tensor<1x8192xbf16>, tensor<8192x64xbf16>) -> tensor<1x64xf32>
  return %2 : tensor<1x64xf32>
}

// -----

// The residual of the matmul is read from memory, so the norm's kernel stores it.
// CHECK-LABEL: func.func @norm_behind_product
func.func @norm_behind_product(%x: tensor<16x256xf32>, %s: tensor<256xf32>, %w: tensor<256x256xf32>) -> tensor<16x256xf32> {
  // CHECK: mpc.rms_norm {{.*}} {mpc.anchor = #mpc<fusion_kind row>, mpc.group = {{[0-9]+}} : i64}
  %0 = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-6) : (tensor<16x256xf32>, tensor<256xf32>) -> tensor<16x256xf32>
  %1 = mpc.matmul %0, %w : (tensor<16x256xf32>, tensor<256x256xf32>) -> tensor<16x256xf32>
  %2 = mpc.add %1, %0 : (tensor<16x256xf32>, tensor<16x256xf32>) -> tensor<16x256xf32>
  return %2 : tensor<16x256xf32>
}

// -----

// So is the other side of a product of the rows with each other.
// CHECK-LABEL: func.func @norm_on_both_sides
func.func @norm_on_both_sides(%x: tensor<16x256xf32>, %s: tensor<256xf32>) -> tensor<16x16xf32> {
  // CHECK: mpc.rms_norm {{.*}} {mpc.anchor = #mpc<fusion_kind row>, mpc.group = {{[0-9]+}} : i64}
  %0 = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-6) : (tensor<16x256xf32>, tensor<256xf32>) -> tensor<16x256xf32>
  %1 = mpc.matmul %0, %0 transpose_rhs : (tensor<16x256xf32>, tensor<16x256xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

// A layer has its final state at another time than the steps that it is added to.
// CHECK-LABEL: func.func @mixes_states
func.func @mixes_states(%x: tensor<1x1x136xf32>, %w: tensor<2x68x17xf32>, %b: tensor<2x68xf32>) -> (tensor<1x2x1x17xf32>, tensor<1x2x1x17xf32>) {
  // CHECK: mpc.recurrence {{.*}}mpc.group = [[R:[0-9]+]] : i64
  // CHECK: mpc.relu {{.*}}mpc.group = [[R]] : i64
  // CHECK-NOT: mpc.add {{.*}}mpc.group = [[R]] : i64
  // CHECK: return
  %result, %h, %c = mpc.recurrence lstm %x, %w bias(%b) direction(bidirectional) : (tensor<1x1x136xf32>, tensor<2x68x17xf32>, tensor<2x68xf32>) -> (tensor<1x2x1x17xf32>, tensor<2x1x17xf32>, tensor<2x1x17xf32>)
  %0 = mpc.relu %result : tensor<1x2x1x17xf32>
  %1 = mpc.add %0, %h : (tensor<1x2x1x17xf32>, tensor<2x1x17xf32>) -> tensor<1x2x1x17xf32>
  return %0, %1 : tensor<1x2x1x17xf32>, tensor<1x2x1x17xf32>
}

// -----

// No kernel stores every second of its results.
// CHECK-LABEL: func.func @strided_store
func.func @strided_store(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<2x8xf32> {
  // CHECK: mpc.matmul {{.*}}mpc.group = [[G:[0-9]+]] : i64
  // CHECK-NOT: mpc.slice {{.*}}mpc.group = [[G]] : i64
  // CHECK: return
  %0 = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = mpc.slice %0 [0, 0] [2, 8] strides [2, 1] : tensor<4x8xf32> to tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// -----

// On request every op is a kernel.
// CHECK-LABEL: func.func @unfused
func.func @unfused(%x: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<4x4xf32> attributes {mpc.unfused} {
  // CHECK: mpc.matmul {{.*}}mpc.group = [[M:[0-9]+]] : i64
  // CHECK-NOT: mpc.group = [[M]] : i64
  // CHECK: mpc.add {{.*}}mpc.group = [[A:[0-9]+]] : i64
  // CHECK-NOT: mpc.group = [[A]] : i64
  // CHECK: mpc.relu
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.add %0, %b : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %2 = mpc.relu %1 : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
