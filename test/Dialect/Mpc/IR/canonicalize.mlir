// Folders are bit-exact: each function is one fold, or one that must not happen.
// RUN: mpc-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @cast_to_same_type
// CHECK-NEXT: return %arg0
func.func @cast_to_same_type(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpc.cast %x : tensor<4xf32> to tensor<4xf32>
  return %0 : tensor<4xf32>
}

// An upcast and its inverse are exact.
// CHECK-LABEL: func.func @cast_wide_and_back
// CHECK-NEXT: return %arg0
func.func @cast_wide_and_back(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = mpc.cast %x : tensor<4xbf16> to tensor<4xf32>
  %1 = mpc.cast %0 : tensor<4xf32> to tensor<4xbf16>
  return %1 : tensor<4xbf16>
}

// A downcast rounds: the pair stays.
// CHECK-LABEL: func.func @cast_narrow_and_back
// CHECK-NEXT: mpc.cast
// CHECK-NEXT: mpc.cast
func.func @cast_narrow_and_back(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpc.cast %x : tensor<4xf32> to tensor<4xbf16>
  %1 = mpc.cast %0 : tensor<4xbf16> to tensor<4xf32>
  return %1 : tensor<4xf32>
}

// f16 has more mantissa bits than bf16, so this is a rounding too.
// CHECK-LABEL: func.func @cast_f16_by_bf16
// CHECK-COUNT-2: mpc.cast
func.func @cast_f16_by_bf16(%x: tensor<4xf16>) -> tensor<4xf16> {
  %0 = mpc.cast %x : tensor<4xf16> to tensor<4xbf16>
  %1 = mpc.cast %0 : tensor<4xbf16> to tensor<4xf16>
  return %1 : tensor<4xf16>
}

// Every wider type represents f16 values exactly.
// CHECK-LABEL: func.func @cast_f16_by_wider
// CHECK-SAME: (%[[X:.*]]: tensor<4xf16>
// CHECK-NEXT: return %[[X]], %[[X]]
func.func @cast_f16_by_wider(%x: tensor<4xf16>) -> (tensor<4xf16>, tensor<4xf16>) {
  %0 = mpc.cast %x : tensor<4xf16> to tensor<4xf32>
  %1 = mpc.cast %0 : tensor<4xf32> to tensor<4xf16>
  %2 = mpc.cast %x : tensor<4xf16> to tensor<4xf64>
  %3 = mpc.cast %2 : tensor<4xf64> to tensor<4xf16>
  return %1, %3 : tensor<4xf16>, tensor<4xf16>
}

// bf16 has exponents that f16 lacks: rounding to f16 and back is not exact, nor is
// f64 through f32. A chain of casts with different end types keeps its roundings.
// CHECK-LABEL: func.func @casts_that_round
// CHECK-COUNT-6: mpc.cast
func.func @casts_that_round(%x: tensor<4xbf16>, %d: tensor<4xf64>, %h: tensor<4xf16>) -> (tensor<4xbf16>, tensor<4xf64>, tensor<4xf32>) {
  %0 = mpc.cast %x : tensor<4xbf16> to tensor<4xf16>
  %1 = mpc.cast %0 : tensor<4xf16> to tensor<4xbf16>
  %2 = mpc.cast %d : tensor<4xf64> to tensor<4xf32>
  %3 = mpc.cast %2 : tensor<4xf32> to tensor<4xf64>
  %4 = mpc.cast %h : tensor<4xf16> to tensor<4xbf16>
  %5 = mpc.cast %4 : tensor<4xbf16> to tensor<4xf32>
  return %1, %3, %5 : tensor<4xbf16>, tensor<4xf64>, tensor<4xf32>
}

// An explicit cast of the model is pinned.
// CHECK-LABEL: func.func @cast_pinned
// CHECK-COUNT-2: mpc.cast
func.func @cast_pinned(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = mpc.cast %x pinned : tensor<4xbf16> to tensor<4xf32>
  %1 = mpc.cast %0 : tensor<4xf32> to tensor<4xbf16>
  return %1 : tensor<4xbf16>
}

// x + 0.0 turns -0.0 into 0.0, x + -0.0 does not.
// CHECK-LABEL: func.func @add_zero
// CHECK: %[[SUM:.*]] = mpc.add %arg0
// CHECK: return %[[SUM]], %arg0, %arg1
func.func @add_zero(%x: tensor<4xf32>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xi32>) {
  %p = mpc.constant dense<0.0> : tensor<4xf32>
  %n = mpc.constant dense<-0.0> : tensor<f32>
  %z = mpc.constant dense<0> : tensor<i32>
  %0 = mpc.add %x, %p : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = mpc.add %x, %n : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = mpc.add %i, %z : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xi32>
}

// CHECK-LABEL: func.func @neutral_elements
// CHECK-NEXT: return %arg0, %arg0, %arg0
func.func @neutral_elements(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %one = mpc.constant dense<1.0> : tensor<f32>
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.mul %one, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = mpc.div %x, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = mpc.sub %x, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// A neutral element that broadcasts the other operand is not neutral.
// CHECK-LABEL: func.func @broadcasting_one
// CHECK: mpc.mul
func.func @broadcasting_one(%x: tensor<4xf32>) -> tensor<2x4xf32> {
  %one = mpc.constant dense<1.0> : tensor<2x4xf32>
  %0 = mpc.mul %x, %one : (tensor<4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @reshape_of_reshape
// CHECK-NEXT: %[[R:.*]] = mpc.reshape %arg0 : tensor<2x6xf32> to tensor<12xf32>
// CHECK-NEXT: return %[[R]]
func.func @reshape_of_reshape(%x: tensor<2x6xf32>) -> tensor<12xf32> {
  %0 = mpc.reshape %x : tensor<2x6xf32> to tensor<3x4xf32>
  %1 = mpc.reshape %0 : tensor<3x4xf32> to tensor<12xf32>
  return %1 : tensor<12xf32>
}

// CHECK-LABEL: func.func @transpose_of_transpose
// CHECK-NEXT: return %arg0
func.func @transpose_of_transpose(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = mpc.transpose %x [2, 0, 1] : tensor<2x3x4xf32> to tensor<4x2x3xf32>
  %1 = mpc.transpose %0 [1, 2, 0] : tensor<4x2x3xf32> to tensor<2x3x4xf32>
  return %1 : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @movement_of_constants
// CHECK-DAG: mpc.constant dense<{{\[\[}}1, 2], [3, 4]]> : tensor<2x2xi32>
// CHECK-DAG: mpc.constant dense<2.000000e+00> : tensor<3x5xf32>
func.func @movement_of_constants() -> (tensor<2x2xi32>, tensor<3x5xf32>) {
  %c = mpc.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %s = mpc.constant dense<2.0> : tensor<5x1xf32>
  %0 = mpc.reshape %c : tensor<4xi32> to tensor<2x2xi32>
  %1 = mpc.transpose %s [1, 0] : tensor<5x1xf32> to tensor<1x5xf32>
  %2 = mpc.broadcast %1 : tensor<1x5xf32> to tensor<3x5xf32>
  return %0, %2 : tensor<2x2xi32>, tensor<3x5xf32>
}

// CHECK-LABEL: func.func @movement_that_moves_nothing
// CHECK-NEXT: return %arg0, %arg0, %arg0
func.func @movement_that_moves_nothing(%x: tensor<2x3xf32>, %v: tensor<f32>)
    -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = mpc.slice %x [0, 0] [2, 3] : tensor<2x3xf32> to tensor<2x3xf32>
  %1 = mpc.pad %x, %v low([0, 0]) high([0, 0]) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %2 = mpc.concat %x axis(0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1, %2 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// Conversions saturate, and 0 and -0 convert to the same integer.
// CHECK-LABEL: func.func @cast_of_clamp
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32>
// CHECK-NEXT: %[[R:.*]] = mpc.cast %[[X]] : tensor<4xf32> to tensor<4xui8>
// CHECK-NEXT: return %[[R]]
func.func @cast_of_clamp(%x: tensor<4xf32>) -> tensor<4xui8> {
  %low = mpc.constant dense<0.0> : tensor<f32>
  %high = mpc.constant dense<255.0> : tensor<f32>
  %0 = mpc.add %x, %low : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = mpc.clamp %0, %low, %high : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
  %2 = mpc.cast %1 : tensor<4xf32> to tensor<4xui8>
  return %2 : tensor<4xui8>
}

// The bounds of the range count as inside.
// CHECK-LABEL: func.func @cast_of_narrow_clamp
// CHECK: mpc.clamp
func.func @cast_of_narrow_clamp(%x: tensor<4xf32>) -> tensor<4xi8> {
  %low = mpc.constant dense<-127.0> : tensor<f32>
  %high = mpc.constant dense<127.0> : tensor<f32>
  %0 = mpc.clamp %x, %low, %high : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
  %1 = mpc.cast %0 : tensor<4xf32> to tensor<4xi8>
  return %1 : tensor<4xi8>
}
