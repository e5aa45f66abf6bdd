// Ops that the library lacks are split off into kernels, where that pays.
// RUN: mpc-opt %s --split-input-file --mpc-set-target=target=cuda:sm_90a --mpc-split-library-gemms --cse | FileCheck %s

// Two GEMMs cast one input, which each of them reads in its own shape.
// CHECK-LABEL: @input(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8x512x1024xf32>
// CHECK: %[[N:.*]] = mpc.fusion kind(elementwise) name("fc_operand") (%[[A:.*]] = %[[X]] : tensor<8x512x1024xf32>) -> tensor<8x512x1024xbf16> {
// CHECK-NEXT: mpc.cast %[[A]]
// CHECK-NEXT: mpc.yield
// CHECK: mpc.fusion kind(contraction) name("fc") (%[[P:.*]] = %[[N]] : tensor<8x512x1024xbf16>, %[[Q:.*]] = %{{.*}} : tensor<1024x1024xbf16>)
// CHECK-NEXT: mpc.matmul %[[P]], %[[Q]]
// CHECK: %[[R:.*]] = mpc.reshape %[[N]] : tensor<8x512x1024xbf16> to tensor<4096x1024xbf16>
// CHECK: mpc.fusion kind(contraction) name("dw") (%{{.*}} = %[[R]] : tensor<4096x1024xbf16>
// CHECK-NOT: mpc.cast %{{.*}} : tensor<4096x1024xf32>
func.func @input(%x: tensor<8x512x1024xf32>, %w: tensor<1024x1024xbf16>, %dy: tensor<4096x1024xbf16>)
    -> (tensor<8x512x1024xf32>, tensor<1024x1024xf32>) {
  %0 = mpc.fusion kind(contraction) name("fc") (%p = %x : tensor<8x512x1024xf32>, %q = %w : tensor<1024x1024xbf16>)
      -> tensor<8x512x1024xf32> {
    %2 = mpc.cast %p : tensor<8x512x1024xf32> to tensor<8x512x1024xbf16>
    %3 = mpc.matmul %2, %q : (tensor<8x512x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<8x512x1024xf32>
    mpc.yield %3 : tensor<8x512x1024xf32>
  }
  %r = mpc.reshape %x : tensor<8x512x1024xf32> to tensor<4096x1024xf32>
  %1 = mpc.fusion kind(contraction) name("dw") (%p = %r : tensor<4096x1024xf32>, %q = %dy : tensor<4096x1024xbf16>)
      -> tensor<1024x1024xf32> {
    %2 = mpc.cast %p : tensor<4096x1024xf32> to tensor<4096x1024xbf16>
    %3 = mpc.matmul %2, %q transpose_lhs : (tensor<4096x1024xbf16>, tensor<4096x1024xbf16>) -> tensor<1024x1024xf32>
    mpc.yield %3 : tensor<1024x1024xf32>
  }
  return %0, %1 : tensor<8x512x1024xf32>, tensor<1024x1024xf32>
}

// -----

!narrow = tensor<4096x1024xbf16>

// Weights and biases of a merged GEMM are concatenated before it, and its results
// are sliced after it. A bias stays in 16 bits: the library upconverts it.
// CHECK-LABEL: @joint(
// CHECK: %[[W:.*]] = mpc.fusion kind(elementwise) name("qk_operand") {{.*}} -> tensor<1024x2048xbf16>
// CHECK-NEXT: mpc.concat
// CHECK-NEXT: mpc.yield
// CHECK: %[[B:.*]] = mpc.fusion kind(elementwise) name("qk_operand_1") {{.*}} -> tensor<2048xbf16>
// CHECK-NEXT: mpc.concat
// CHECK-NEXT: mpc.yield
// CHECK: %[[D:.*]] = mpc.fusion kind(contraction) name("qk") ({{.*}} = %[[W]] : {{.*}} = %[[B]] : {{.*}}) -> tensor<4096x2048xbf16>
// CHECK: mpc.fusion kind(elementwise) name("qk_result") (%[[S:.*]] = %[[D]] : tensor<4096x2048xbf16>) -> (tensor<4096x1024xbf16>, tensor<4096x1024xbf16>) {
// CHECK-NEXT: mpc.slice %[[S]] [0, 0]
// CHECK-NEXT: mpc.slice %[[S]] [0, 1024]
func.func @joint(%x: !narrow, %v: tensor<1024x1024xbf16>, %w: tensor<1024x1024xbf16>, %a: tensor<1024xbf16>, %b: tensor<1024xbf16>)
    -> (!narrow, !narrow) {
  %0:2 = mpc.fusion kind(contraction) name("qk") (%p = %x : !narrow, %q = %v : tensor<1024x1024xbf16>,
      %r = %w : tensor<1024x1024xbf16>, %s = %a : tensor<1024xbf16>, %t = %b : tensor<1024xbf16>) -> (!narrow, !narrow) {
    %1 = mpc.concat %q, %r axis(1) : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x2048xbf16>
    %2 = mpc.matmul %p, %1 : (!narrow, tensor<1024x2048xbf16>) -> tensor<4096x2048xf32>
    %3 = mpc.concat %s, %t axis(0) : (tensor<1024xbf16>, tensor<1024xbf16>) -> tensor<2048xbf16>
    %4 = mpc.cast %3 : tensor<2048xbf16> to tensor<2048xf32>
    %5 = mpc.add %2, %4 : (tensor<4096x2048xf32>, tensor<2048xf32>) -> tensor<4096x2048xf32>
    %6 = mpc.cast %5 : tensor<4096x2048xf32> to tensor<4096x2048xbf16>
    %7 = mpc.slice %6 [0, 0] [4096, 1024] : tensor<4096x2048xbf16> to !narrow
    %8 = mpc.slice %6 [0, 1024] [4096, 1024] : tensor<4096x2048xbf16> to !narrow
    mpc.yield %7, %8 : !narrow, !narrow
  }
  return %0#0, %0#1 : !narrow, !narrow
}

// -----

!rows = tensor<4096x1024xf32>
!narrow = tensor<4096x1024xbf16>

// The library adds a residual in the result's type: the residual's producer
// stores it in that type as well.
// CHECK-LABEL: @residual(
// CHECK: %[[R:.*]]:2 = mpc.fusion kind(row) name("norm") {{.*}} -> (tensor<4096x1024xbf16>, tensor<4096x1024xf32>) {
// CHECK: %[[N:.*]] = mpc.cast %{{.*}} : tensor<4096x1024xf32> to tensor<4096x1024xbf16>
// CHECK: %[[M:.*]] = mpc.cast %[[N]] : tensor<4096x1024xbf16> to tensor<4096x1024xf32>
// CHECK: mpc.yield %[[N]], %[[M]]
// CHECK: mpc.fusion kind(contraction) name("fc") ({{.*}} = %[[R]]#1 : tensor<4096x1024xf32>)
// CHECK-NOT: mpc.cast
// CHECK: return %{{.*}}, %[[R]]#0
func.func @residual(%x: !rows, %h: tensor<4096x4096xbf16>, %w: !narrow)
    -> (!rows, !narrow) {
  %n = mpc.fusion kind(row) name("norm") (%p = %x : !rows) -> !narrow {
    %1 = mpc.softmax %p axis(1) : !rows
    %2 = mpc.cast %1 : !rows to !narrow
    mpc.yield %2 : !narrow
  }
  %0 = mpc.fusion kind(contraction) name("fc") (%p = %h : tensor<4096x4096xbf16>, %q = %w : !narrow,
      %r = %n : !narrow) -> !rows {
    %1 = mpc.matmul %p, %q : (tensor<4096x4096xbf16>, !narrow) -> !rows
    %2 = mpc.cast %r : !narrow to !rows
    %3 = mpc.add %1, %2 : (!rows, !rows) -> !rows
    mpc.yield %3 : !rows
  }
  return %0, %n : !rows, !narrow
}

// -----

!rows = tensor<4096x1024xf32>
!narrow = tensor<4096x1024xbf16>

// The residual's producer cannot store a second result: nothing is split.
// CHECK-LABEL: @residual_of_product(
// CHECK: mpc.fusion kind(contraction) name("first") {{.*}} -> tensor<4096x1024xbf16>
// CHECK: mpc.fusion kind(contraction) name("second")
// CHECK: mpc.cast
// CHECK-NOT: mpc.fusion
func.func @residual_of_product(%h: tensor<4096x4096xbf16>, %w: !narrow) -> !rows {
  %n = mpc.fusion kind(contraction) name("first") (%p = %h : tensor<4096x4096xbf16>, %q = %w : !narrow)
      -> !narrow {
    %1 = mpc.matmul %p, %q : (tensor<4096x4096xbf16>, !narrow) -> !rows
    %2 = mpc.cast %1 : !rows to !narrow
    mpc.yield %2 : !narrow
  }
  %0 = mpc.fusion kind(contraction) name("second") (%p = %h : tensor<4096x4096xbf16>, %q = %w : !narrow,
      %r = %n : !narrow) -> !rows {
    %1 = mpc.matmul %p, %q : (tensor<4096x4096xbf16>, !narrow) -> !rows
    %2 = mpc.cast %r : !narrow to !rows
    %3 = mpc.add %1, %2 : (!rows, !rows) -> !rows
    mpc.yield %3 : !rows
  }
  return %0 : !rows
}

// -----

// An additional launch takes longer than this GEMM.
// CHECK-LABEL: @small(
// CHECK: mpc.fusion kind(contraction)
// CHECK-NEXT: mpc.cast
// CHECK-NOT: mpc.fusion
func.func @small(%x: tensor<16x64xf32>, %w: tensor<64x64xbf16>) -> tensor<16x64xf32> {
  %0 = mpc.fusion kind(contraction) name("fc") (%p = %x : tensor<16x64xf32>, %q = %w : tensor<64x64xbf16>) -> tensor<16x64xf32> {
    %2 = mpc.cast %p : tensor<16x64xf32> to tensor<16x64xbf16>
    %3 = mpc.matmul %2, %q : (tensor<16x64xbf16>, tensor<64x64xbf16>) -> tensor<16x64xf32>
    mpc.yield %3 : tensor<16x64xf32>
  }
  return %0 : tensor<16x64xf32>
}

// -----

!rows = tensor<4096x1024xf32>

// The library has no erf-GELU, even where the GEMM's input is cast first.
// CHECK-LABEL: @erf(
// CHECK: mpc.fusion kind(contraction)
// CHECK-NEXT: mpc.cast
// CHECK-NOT: mpc.fusion
func.func @erf(%x: !rows, %w: tensor<1024x1024xbf16>) -> !rows {
  %0 = mpc.fusion kind(contraction) name("fc") (%p = %x : !rows, %q = %w : tensor<1024x1024xbf16>)
      -> !rows {
    %2 = mpc.cast %p : !rows to tensor<4096x1024xbf16>
    %3 = mpc.matmul %2, %q : (tensor<4096x1024xbf16>, tensor<1024x1024xbf16>) -> !rows
    %4 = mpc.gelu %3 : !rows
    mpc.yield %4 : !rows
  }
  return %0 : !rows
}

// -----

!rows = tensor<4096x1024xf32>

// The addend is computed from the accumulators, so it cannot be hoisted.
// CHECK-LABEL: @of_the_sums(
// CHECK: mpc.fusion kind(contraction)
// CHECK: mpc.tanh
// CHECK-NOT: mpc.fusion
func.func @of_the_sums(%x: tensor<4096x1024xbf16>, %w: tensor<1024x1024xbf16>) -> !rows {
  %0 = mpc.fusion kind(contraction) name("fc") (%p = %x : tensor<4096x1024xbf16>, %q = %w : tensor<1024x1024xbf16>)
      -> !rows {
    %1 = mpc.matmul %p, %q : (tensor<4096x1024xbf16>, tensor<1024x1024xbf16>) -> !rows
    %2 = mpc.tanh %1 : !rows
    %3 = mpc.add %1, %2 : (!rows, !rows) -> !rows
    mpc.yield %3 : !rows
  }
  return %0 : !rows
}

// -----

!rows = tensor<4096x1024xf32>

// The rows of a norm in the GEMM's prologue get a separate row kernel.
// CHECK-LABEL: @norm(
// CHECK: %[[ROWS:.*]] = mpc.fusion kind(row) name("fc_operand")
// CHECK-NEXT: mpc.rms_norm
// CHECK-NEXT: mpc.cast
// CHECK: mpc.fusion kind(contraction) name("fc") (%{{.*}} = %[[ROWS]] :
// CHECK-NEXT: mpc.matmul
func.func @norm(%x: !rows, %s: tensor<1024xf32>, %w: tensor<1024x1024xbf16>) -> !rows {
  %0 = mpc.fusion kind(contraction) name("fc") (%p = %x : !rows, %r = %s : tensor<1024xf32>, %q = %w : tensor<1024x1024xbf16>)
      -> !rows {
    %1 = mpc.rms_norm %p, %r axis(1) epsilon(1.0e-6) : (!rows, tensor<1024xf32>) -> !rows
    %2 = mpc.cast %1 : !rows to tensor<4096x1024xbf16>
    %3 = mpc.matmul %2, %q : (tensor<4096x1024xbf16>, tensor<1024x1024xbf16>) -> !rows
    mpc.yield %3 : !rows
  }
  return %0 : !rows
}
