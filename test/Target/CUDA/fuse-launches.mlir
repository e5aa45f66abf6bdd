// RUN: mpc-opt --pass-pipeline='builtin.module(func.func(mpc-fuse-launches))' --split-input-file %s | FileCheck %s
// RUN: mpc-opt --pass-pipeline='builtin.module(func.func(mpc-fuse-launches,mpc-fuse-launches))' --split-input-file %s | FileCheck %s

// Independent kernels: both run concurrently, and a shared input is one operand.
// CHECK-LABEL: func.func @beside(
// CHECK-SAME: %[[X:.*]]: tensor<4x64xf32>, %[[W:.*]]: tensor<64x8xf32>
// CHECK-NEXT: %[[BOTH:.*]]:2 = mpc.fusion kind(row) name("norm_fc") (%[[A:.*]] = %[[X]] : tensor<4x64xf32>, %[[B:.*]] = %[[W]] : tensor<64x8xf32>)
// CHECK-NEXT: %[[NORM:.*]] = mpc.fusion kind(row) name("norm") (%{{.*}} = %[[A]] : tensor<4x64xf32>)
// CHECK: %[[FC:.*]] = mpc.fusion kind(contraction) name("fc") (%{{.*}} = %[[A]] : tensor<4x64xf32>, %{{.*}} = %[[B]] : tensor<64x8xf32>)
// CHECK: mpc.yield %[[NORM]], %[[FC]]
// The view of the first result is placed after both, and so is its reader.
// CHECK: %[[VIEW:.*]] = mpc.reshape %[[BOTH]]#0
// CHECK-NEXT: %[[LAST:.*]] = mpc.fusion kind(elementwise) name("relu") (%{{.*}} = %[[VIEW]] : tensor<2x128xf32>)
// CHECK: return %[[LAST]], %[[BOTH]]#1
module attributes {exe.target = #exe.target<"cuda:sm_80">} {
  func.func @beside(%x: tensor<4x64xf32>, %w: tensor<64x8xf32>) -> (tensor<2x128xf32>, tensor<4x8xf32>) {
    %0 = mpc.fusion kind(row) name("norm") (%a = %x : tensor<4x64xf32>) -> tensor<4x64xf32> {
      %s = mpc.softmax %a axis(1) : tensor<4x64xf32>
      mpc.yield %s : tensor<4x64xf32>
    }
    %1 = mpc.reshape %0 : tensor<4x64xf32> to tensor<2x128xf32>
    %2 = mpc.fusion kind(elementwise) name("relu") (%a = %1 : tensor<2x128xf32>) -> tensor<2x128xf32> {
      %r = mpc.relu %a : tensor<2x128xf32>
      mpc.yield %r : tensor<2x128xf32>
    }
    %3 = mpc.fusion kind(contraction) name("fc") (%a = %x : tensor<4x64xf32>, %b = %w : tensor<64x8xf32>) -> tensor<4x8xf32> {
      %p = mpc.matmul %a, %b : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
      mpc.yield %p : tensor<4x8xf32>
    }
    return %2, %3 : tensor<2x128xf32>, tensor<4x8xf32>
  }
}

// -----

// A kernel that replaces an argument is not moved: the other reads the old
// contents.
// CHECK-LABEL: func.func @replaces(
// CHECK: mpc.fusion kind(elementwise) name("read")
// CHECK: mpc.fusion kind(elementwise) name("write")
// CHECK-NOT: mpc.fusion
module attributes {exe.target = #exe.target<"cuda:sm_80">} {
  func.func @replaces(%x: tensor<4x64xf32>, %s: tensor<4x64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32> {mpc.alias = 1 : i64}) {
    %0 = mpc.fusion kind(elementwise) name("read") (%a = %s : tensor<4x64xf32>) -> tensor<4x64xf32> {
      %r = mpc.relu %a : tensor<4x64xf32>
      mpc.yield %r : tensor<4x64xf32>
    }
    %1 = mpc.fusion kind(elementwise) name("write") (%a = %x : tensor<4x64xf32>, %b = %s : tensor<4x64xf32>) -> tensor<4x64xf32> {
      %r = mpc.add %a, %b : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
      mpc.yield %r : tensor<4x64xf32>
    }
    return %0, %1 : tensor<4x64xf32>, tensor<4x64xf32>
  }
}

// -----

// Long kernels do not benefit.
// CHECK-LABEL: func.func @long(
// CHECK: name("a")
// CHECK: name("b")
// CHECK-NOT: mpc.fusion
module attributes {exe.target = #exe.target<"cuda:sm_80">} {
  func.func @long(%x: tensor<8192x4096xf32>) -> (tensor<8192x4096xf32>, tensor<8192x4096xf32>) {
    %0 = mpc.fusion kind(elementwise) name("a") (%a = %x : tensor<8192x4096xf32>) -> tensor<8192x4096xf32> {
      %r = mpc.relu %a : tensor<8192x4096xf32>
      mpc.yield %r : tensor<8192x4096xf32>
    }
    %1 = mpc.fusion kind(elementwise) name("b") (%a = %x : tensor<8192x4096xf32>) -> tensor<8192x4096xf32> {
      %r = mpc.exp %a : tensor<8192x4096xf32>
      mpc.yield %r : tensor<8192x4096xf32>
    }
    return %0, %1 : tensor<8192x4096xf32>, tensor<8192x4096xf32>
  }
}

// -----

// No launches are fused for a CPU.
// CHECK-LABEL: func.func @cpu(
// CHECK-COUNT-2: mpc.fusion
module attributes {exe.target = #exe.target<"cpu:avx2">} {
  func.func @cpu(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = mpc.fusion kind(elementwise) name("a") (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
      %r = mpc.relu %a : tensor<4xf32>
      mpc.yield %r : tensor<4xf32>
    }
    %1 = mpc.fusion kind(elementwise) name("b") (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
      %r = mpc.exp %a : tensor<4xf32>
      mpc.yield %r : tensor<4xf32>
    }
    return %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// A kernel of one block is recomputed in every block of its only reader, if these are few.
// CHECK-LABEL: func.func @leads(
// CHECK-SAME: %[[X:.*]]: tensor<4x64xf32>, %[[W:.*]]: tensor<64x8xf32>, %[[V:.*]]: tensor<8x256xf32>
// CHECK-NEXT: %[[LAST:.*]] = mpc.fusion kind(contraction) name("squeeze_excite") (%[[A:.*]] = %[[X]] : {{.*}}, %[[B:.*]] = %[[W]] : {{.*}}, %[[C:.*]] = %[[V]] : tensor<8x256xf32>)
// CHECK-NEXT: %[[FIRST:.*]] = mpc.fusion kind(contraction) name("squeeze") (%{{.*}} = %[[A]] : tensor<4x64xf32>, %{{.*}} = %[[B]] : tensor<64x8xf32>)
// CHECK: %[[SECOND:.*]] = mpc.fusion kind(contraction) name("excite") (%{{.*}} = %[[FIRST]] : tensor<4x8xf32>, %{{.*}} = %[[C]] : tensor<8x256xf32>)
// CHECK: mpc.yield %[[SECOND]] :
// CHECK: return %[[LAST]]
module attributes {exe.target = #exe.target<"cuda:sm_80">} {
  func.func @leads(%x: tensor<4x64xf32>, %w: tensor<64x8xf32>, %v: tensor<8x256xf32>) -> tensor<4x256xf32> {
    %0 = mpc.fusion kind(contraction) name("squeeze") (%a = %x : tensor<4x64xf32>, %b = %w : tensor<64x8xf32>) -> tensor<4x8xf32> {
      %p = mpc.matmul %a, %b : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
      mpc.yield %p : tensor<4x8xf32>
    }
    %1 = mpc.fusion kind(contraction) name("excite") (%a = %0 : tensor<4x8xf32>, %b = %v : tensor<8x256xf32>) -> tensor<4x256xf32> {
      %p = mpc.matmul %a, %b : (tensor<4x8xf32>, tensor<8x256xf32>) -> tensor<4x256xf32>
      mpc.yield %p : tensor<4x256xf32>
    }
    return %1 : tensor<4x256xf32>
  }
}

// -----

// Not where the producer has another reader, too.
// CHECK-LABEL: func.func @has_two_readers(
// CHECK: name("squeeze")
// CHECK: name("excite")
// CHECK: return
module attributes {exe.target = #exe.target<"cuda:sm_80">} {
  func.func @has_two_readers(%x: tensor<4x64xf32>, %w: tensor<64x8xf32>, %v: tensor<8x256xf32>) -> (tensor<4x256xf32>, tensor<4x8xf32>) {
    %0 = mpc.fusion kind(contraction) name("squeeze") (%a = %x : tensor<4x64xf32>, %b = %w : tensor<64x8xf32>) -> tensor<4x8xf32> {
      %p = mpc.matmul %a, %b : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
      mpc.yield %p : tensor<4x8xf32>
    }
    %1 = mpc.fusion kind(contraction) name("excite") (%a = %0 : tensor<4x8xf32>, %b = %v : tensor<8x256xf32>) -> tensor<4x256xf32> {
      %p = mpc.matmul %a, %b : (tensor<4x8xf32>, tensor<8x256xf32>) -> tensor<4x256xf32>
      mpc.yield %p : tensor<4x256xf32>
    }
    return %1, %0 : tensor<4x256xf32>, tensor<4x8xf32>
  }
}

// -----

// Blocks of the output projection wait for attention in one launch, if all blocks are co-resident.
// CHECK-LABEL: func.func @waits(
// CHECK-NEXT: %[[BOTH:.*]] = mpc.fusion kind(attention) name("attend_out")
// CHECK-NEXT: %[[Y:.*]] = mpc.fusion kind(attention) name("attend") {{.*}} attributes {mpc.awaited}
// CHECK: %[[ROWS:.*]] = mpc.reshape %[[Y]] : tensor<2x32x2x64xbf16> to tensor<2x32x128xbf16>
// CHECK: mpc.fusion kind(contraction) name("out") (%{{.*}} = %[[ROWS]] :
// CHECK: return %[[BOTH]]

// Not where a sequence has more rows than that.
// CHECK-LABEL: func.func @has_many_rows(
// CHECK: name("attend") {{.*}} {
// CHECK: name("out") {{.*}} {
// CHECK: return
module attributes {exe.target = #exe.target<"cuda:sm_90a">} {
  func.func @waits(%q: tensor<2x2x32x64xbf16>, %k: tensor<2x2x72x64xbf16>, %v: tensor<2x2x72x64xbf16>, %w: tensor<128x128xbf16>) -> tensor<2x32x128xf32> {
    %0 = mpc.fusion kind(attention) name("attend") (%a = %q : tensor<2x2x32x64xbf16>, %b = %k : tensor<2x2x72x64xbf16>, %c = %v : tensor<2x2x72x64xbf16>) -> tensor<2x32x2x64xbf16> {
      %y = mpc.attention %a, %b, %c scale(0.125) : (tensor<2x2x32x64xbf16>, tensor<2x2x72x64xbf16>, tensor<2x2x72x64xbf16>) -> tensor<2x2x32x64xf32>
      %n = mpc.cast %y : tensor<2x2x32x64xf32> to tensor<2x2x32x64xbf16>
      %t = mpc.transpose %n [0, 2, 1, 3] : tensor<2x2x32x64xbf16> to tensor<2x32x2x64xbf16>
      mpc.yield %t : tensor<2x32x2x64xbf16>
    }
    %1 = mpc.reshape %0 : tensor<2x32x2x64xbf16> to tensor<2x32x128xbf16>
    %2 = mpc.fusion kind(contraction) name("out") (%a = %1 : tensor<2x32x128xbf16>, %b = %w : tensor<128x128xbf16>) -> tensor<2x32x128xf32> {
      %p = mpc.matmul %a, %b : (tensor<2x32x128xbf16>, tensor<128x128xbf16>) -> tensor<2x32x128xf32>
      mpc.yield %p : tensor<2x32x128xf32>
    }
    return %2 : tensor<2x32x128xf32>
  }

  func.func @has_many_rows(%q: tensor<2x2x8192x64xbf16>, %k: tensor<2x2x72x64xbf16>, %v: tensor<2x2x72x64xbf16>, %w: tensor<128x128xbf16>) -> tensor<2x8192x128xf32> {
    %0 = mpc.fusion kind(attention) name("attend") (%a = %q : tensor<2x2x8192x64xbf16>, %b = %k : tensor<2x2x72x64xbf16>, %c = %v : tensor<2x2x72x64xbf16>) -> tensor<2x8192x2x64xbf16> {
      %y = mpc.attention %a, %b, %c scale(0.125) : (tensor<2x2x8192x64xbf16>, tensor<2x2x72x64xbf16>, tensor<2x2x72x64xbf16>) -> tensor<2x2x8192x64xf32>
      %n = mpc.cast %y : tensor<2x2x8192x64xf32> to tensor<2x2x8192x64xbf16>
      %t = mpc.transpose %n [0, 2, 1, 3] : tensor<2x2x8192x64xbf16> to tensor<2x8192x2x64xbf16>
      mpc.yield %t : tensor<2x8192x2x64xbf16>
    }
    %1 = mpc.reshape %0 : tensor<2x8192x2x64xbf16> to tensor<2x8192x128xbf16>
    %2 = mpc.fusion kind(contraction) name("out") (%a = %1 : tensor<2x8192x128xbf16>, %b = %w : tensor<128x128xbf16>) -> tensor<2x8192x128xf32> {
      %p = mpc.matmul %a, %b : (tensor<2x8192x128xbf16>, tensor<128x128xbf16>) -> tensor<2x8192x128xf32>
      mpc.yield %p : tensor<2x8192x128xf32>
    }
    return %2 : tensor<2x8192x128xf32>
  }
}
