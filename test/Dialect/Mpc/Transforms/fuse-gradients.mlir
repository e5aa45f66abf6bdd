// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-fuse --cse | FileCheck %s

// The gradient of a batch norm: both sums are one kernel, which recomputes the
// normalized value, and so does the kernel that reads the sums.
// CHECK-LABEL: func.func @batch_norm
// CHECK: mpc.fusion kind(reduce)
// CHECK-DAG: mpc.reduce_sum
// CHECK-DAG: mpc.sub
// CHECK-DAG: mpc.reduce_sum
// CHECK: mpc.fusion kind(elementwise)
// CHECK-COUNT-3: mpc.sub
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @batch_norm(%x: tensor<8x4x4x16xf32>, %g: tensor<8x4x4x16xf32>, %mean: tensor<1x1x1x16xf32>, %factor: tensor<1x1x1x16xf32>) -> (tensor<8x4x4x16xf32>, tensor<1x1x1x16xf32>, tensor<1x1x1x16xf32>, tensor<16xf32>) {
  %known = mpc.reduce_max %x axes([0, 1, 2]) : tensor<8x4x4x16xf32> -> tensor<16xf32>
  %0 = mpc.sub %x, %mean : (tensor<8x4x4x16xf32>, tensor<1x1x1x16xf32>) -> tensor<8x4x4x16xf32>
  %1 = mpc.mul %0, %factor : (tensor<8x4x4x16xf32>, tensor<1x1x1x16xf32>) -> tensor<8x4x4x16xf32>
  %2 = mpc.reduce_sum %g axes([0, 1, 2]) keep_dims : tensor<8x4x4x16xf32> -> tensor<1x1x1x16xf32>
  %3 = mpc.mul %g, %1 : (tensor<8x4x4x16xf32>, tensor<8x4x4x16xf32>) -> tensor<8x4x4x16xf32>
  %4 = mpc.reduce_sum %3 axes([0, 1, 2]) keep_dims : tensor<8x4x4x16xf32> -> tensor<1x1x1x16xf32>
  %5 = mpc.sub %g, %2 : (tensor<8x4x4x16xf32>, tensor<1x1x1x16xf32>) -> tensor<8x4x4x16xf32>
  %6 = mpc.mul %1, %4 : (tensor<8x4x4x16xf32>, tensor<1x1x1x16xf32>) -> tensor<8x4x4x16xf32>
  %7 = mpc.sub %5, %6 : (tensor<8x4x4x16xf32>, tensor<8x4x4x16xf32>) -> tensor<8x4x4x16xf32>
  return %7, %2, %4, %known : tensor<8x4x4x16xf32>, tensor<1x1x1x16xf32>, tensor<1x1x1x16xf32>, tensor<16xf32>
}

// The gradient of a layer norm is one kernel with its residual add and the casts
// around it.
// CHECK-LABEL: func.func @layer_norm
// CHECK: mpc.fusion kind(row)
// CHECK: mpc.norm_gradient
// CHECK: mpc.add
// CHECK: mpc.cast
// CHECK-NOT: mpc.fusion
// CHECK: return
func.func @layer_norm(%x: tensor<64x256xbf16>, %s: tensor<256xf32>, %g: tensor<64x256xbf16>, %r: tensor<64x256xbf16>) -> (tensor<64x256xbf16>, tensor<256xf32>) {
  %0 = mpc.cast %x : tensor<64x256xbf16> to tensor<64x256xf32>
  %1 = mpc.cast %g : tensor<64x256xbf16> to tensor<64x256xf32>
  %2:2 = mpc.norm_gradient %0, %s, %1 axis(1) epsilon(1.0e-5) : (tensor<64x256xf32>, tensor<256xf32>, tensor<64x256xf32>) -> (tensor<64x256xf32>, tensor<256xf32>)
  %3 = mpc.cast %r : tensor<64x256xbf16> to tensor<64x256xf32>
  %4 = mpc.add %2#0, %3 : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %5 = mpc.cast %4 : tensor<64x256xf32> to tensor<64x256xbf16>
  return %5, %2#1 : tensor<64x256xbf16>, tensor<256xf32>
}
