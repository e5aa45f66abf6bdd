// RUN: mpc-opt %s --mpc-sink-dequantization --canonicalize | FileCheck %s
// RUN: mpc-opt %s --mpc-sink-dequantization --canonicalize | mpc-opt --mpc-sink-dequantization | FileCheck %s

// A pool and a reshape between conversions with the same scale.
// CHECK-LABEL: func @pool_of_bytes
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<1x2x4x4xui8>
// CHECK-NEXT: %[[P:.*]] = mpc.max_pool %[[X]] {{.*}} : tensor<1x2x4x4xui8> -> tensor<1x2x2x2xui8>
// CHECK-NEXT: %[[R:.*]] = mpc.reshape %[[P]] : tensor<1x2x2x2xui8> to tensor<1x8xui8>
// CHECK-NEXT: return %[[R]]
func.func @pool_of_bytes(%x: tensor<1x2x4x4xui8>) -> tensor<1x8xui8> {
  %z = mpc.constant dense<3> : tensor<ui8>
  %zf = mpc.constant dense<3.0> : tensor<f32>
  %s = mpc.constant dense<0.3> : tensor<f32>
  %0 = mpc.cast %x : tensor<1x2x4x4xui8> to tensor<1x2x4x4xi64>
  %1 = mpc.cast %z : tensor<ui8> to tensor<i64>
  %2 = mpc.sub %0, %1 : (tensor<1x2x4x4xi64>, tensor<i64>) -> tensor<1x2x4x4xi64>
  %3 = mpc.cast %2 : tensor<1x2x4x4xi64> to tensor<1x2x4x4xf32>
  %4 = mpc.mul %3, %s : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %5 = mpc.max_pool %4 window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) : tensor<1x2x4x4xf32> -> tensor<1x2x2x2xf32>
  %6 = mpc.reshape %5 : tensor<1x2x2x2xf32> to tensor<1x8xf32>
  %7 = mpc.div %6, %s : (tensor<1x8xf32>, tensor<f32>) -> tensor<1x8xf32>
  %8 = mpc.round %7 : tensor<1x8xf32>
  %9 = mpc.add %8, %zf : (tensor<1x8xf32>, tensor<f32>) -> tensor<1x8xf32>
  %10 = mpc.cast %9 : tensor<1x8xf32> to tensor<1x8xui8>
  return %10 : tensor<1x8xui8>
}

// A different scale after the pool: bytes are pooled, and converted.
// CHECK-LABEL: func @other_scale
// CHECK: mpc.max_pool {{.*}} : tensor<1x1x4x4xi8> -> tensor<1x1x2x2xi8>
// CHECK: mpc.cast {{.*}} : tensor<1x1x2x2xi8> to tensor<1x1x2x2xf32>
// CHECK: mpc.mul
// CHECK: mpc.div
// CHECK: mpc.cast {{.*}} to tensor<1x1x2x2xi8>
func.func @other_scale(%x: tensor<1x1x4x4xi8>) -> tensor<1x1x2x2xi8> {
  %s = mpc.constant dense<0.3> : tensor<f32>
  %t = mpc.constant dense<0.4> : tensor<f32>
  %0 = mpc.cast %x : tensor<1x1x4x4xi8> to tensor<1x1x4x4xf32>
  %1 = mpc.mul %0, %s : (tensor<1x1x4x4xf32>, tensor<f32>) -> tensor<1x1x4x4xf32>
  %2 = mpc.max_pool %1 window([3, 3]) strides([2, 2]) pad([1, 1], [0, 0]) dilations([1, 1]) : tensor<1x1x4x4xf32> -> tensor<1x1x2x2xf32>
  %3 = mpc.div %2, %t : (tensor<1x1x2x2xf32>, tensor<f32>) -> tensor<1x1x2x2xf32>
  %4 = mpc.round %3 : tensor<1x1x2x2xf32>
  %5 = mpc.cast %4 : tensor<1x1x2x2xf32> to tensor<1x1x2x2xi8>
  return %5 : tensor<1x1x2x2xi8>
}

// With padding, a dilated window may read padding elements only.
// CHECK-LABEL: func @dilated_padding
// CHECK: mpc.max_pool {{.*}} : tensor<1x1x4x4xf32>
func.func @dilated_padding(%x: tensor<1x1x4x4xui8>) -> tensor<1x1x4x4xf32> {
  %0 = mpc.cast %x : tensor<1x1x4x4xui8> to tensor<1x1x4x4xf32>
  %1 = mpc.max_pool %0 window([2, 2]) strides([1, 1]) pad([1, 1], [1, 1]) dilations([2, 2]) : tensor<1x1x4x4xf32> -> tensor<1x1x4x4xf32>
  return %1 : tensor<1x1x4x4xf32>
}

// A negative factor reverses the order, channels have separate scales.
// CHECK-LABEL: func @falling
// CHECK: mpc.max_pool {{.*}} : tensor<1x2x4x4xf32>
// CHECK: mpc.max_pool {{.*}} : tensor<1x2x4x4xf32>
func.func @falling(%x: tensor<1x2x4x4xui8>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) {
  %s = mpc.constant dense<-0.5> : tensor<f32>
  %t = mpc.constant dense<[[[0.5]], [[0.25]]]> : tensor<2x1x1xf32>
  %0 = mpc.cast %x : tensor<1x2x4x4xui8> to tensor<1x2x4x4xf32>
  %1 = mpc.mul %0, %s : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %2 = mpc.max_pool %1 window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) : tensor<1x2x4x4xf32> -> tensor<1x2x2x2xf32>
  %3 = mpc.mul %0, %t : (tensor<1x2x4x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %4 = mpc.max_pool %3 window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) : tensor<1x2x4x4xf32> -> tensor<1x2x2x2xf32>
  return %2, %4 : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>
}

// Unsigned differences wrap, so they do not preserve the order of the bytes.
// CHECK-LABEL: func @wrapped
// CHECK: mpc.max_pool {{.*}} : tensor<1x1x4x4xf32>
func.func @wrapped(%x: tensor<1x1x4x4xui8>) -> tensor<1x1x2x2xf32> {
  %z = mpc.constant dense<100> : tensor<ui32>
  %0 = mpc.cast %x : tensor<1x1x4x4xui8> to tensor<1x1x4x4xui32>
  %1 = mpc.sub %0, %z : (tensor<1x1x4x4xui32>, tensor<ui32>) -> tensor<1x1x4x4xui32>
  %2 = mpc.cast %1 : tensor<1x1x4x4xui32> to tensor<1x1x4x4xf32>
  %3 = mpc.max_pool %2 window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) : tensor<1x1x4x4xf32> -> tensor<1x1x2x2xf32>
  return %3 : tensor<1x1x2x2xf32>
}
