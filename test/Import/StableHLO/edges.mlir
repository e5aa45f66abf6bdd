// RUN: mpc-translate --import-stablehlo --split-input-file %s | FileCheck %s

// An empty slice, at any start index.

// CHECK-LABEL: func.func @main
// CHECK: mpc.slice %{{.*}} : tensor<3x4xf32> to tensor<0x4xf32>
func.func @main(%x: tensor<3x4xf32>, %i: tensor<i32>) -> tensor<0x4xf32> {
  %0 = stablehlo.dynamic_slice %x, %i, %i, sizes = [0, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<0x4xf32>
  return %0 : tensor<0x4xf32>
}

// -----

// A subtraction is an addition of the negated value.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<5xf32> {{.*}}, %[[I:.*]]: tensor<2x1xi32> {{.*}}, %[[U:.*]]: tensor<2xf32>
// CHECK: %[[NEG:.*]] = mpc.sub %{{.*}}, %[[U]]
// CHECK: mpc.scatter_nd %[[X]], %{{.*}}, %[[NEG]] {{.*}}add
func.func @main(%x: tensor<5xf32>, %i: tensor<2x1xi32>, %u: tensor<2xf32>) -> tensor<5xf32> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.subtract %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<5xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

// Eight random bits in the mantissa of a bf16, as JAX generates them.

// CHECK-LABEL: func.func @main
// CHECK: %[[BITS:.*]] = mpc.shift_right
// CHECK: %[[NUMBER:.*]] = mpc.cast %[[BITS]] : tensor<5xui16> to tensor<5xbf16>
// CHECK: mpc.mul %[[NUMBER]]
// CHECK: mpc.add
func.func @main(%x: tensor<5xui8>) -> tensor<5xbf16> {
  %0 = stablehlo.convert %x : (tensor<5xui8>) -> tensor<5xui16>
  %c = stablehlo.constant dense<1> : tensor<5xui16>
  %1 = stablehlo.shift_right_logical %0, %c : tensor<5xui16>
  %one = stablehlo.constant dense<16256> : tensor<5xui16>
  %2 = stablehlo.or %1, %one : tensor<5xui16>
  %3 = stablehlo.bitcast_convert %2 : (tensor<5xui16>) -> tensor<5xbf16>
  return %3 : tensor<5xbf16>
}

// -----

// An empty bitcast.

// CHECK-LABEL: func.func @main
// CHECK: tensor<0xf32>
func.func @main(%x: tensor<0xui32>) -> tensor<0xf32> {
  %0 = stablehlo.bitcast_convert %x : (tensor<0xui32>) -> tensor<0xf32>
  return %0 : tensor<0xf32>
}

// -----

// A clamp has the shape of its operand, which stays broadcast where a bound is
// as large.

// CHECK-LABEL: func.func @main
// CHECK: %[[WIDE:.*]] = mpc.broadcast %{{.*}} : tensor<i32> to tensor<1xi32>
// CHECK: mpc.clamp %[[WIDE]], %{{.*}}, %{{.*}} -> tensor<1xi32>
func.func @main(%x: tensor<i32>, %low: tensor<1xi32>, %high: tensor<1xi32>) -> tensor<1xi32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<i32>) -> tensor<1xi32>
  %1 = stablehlo.clamp %low, %0, %high : tensor<1xi32>
  return %1 : tensor<1xi32>
}
