// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-assign-layout))' | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-assign-layout,mpc-assign-layout))' | FileCheck %s

// One transpose at the input, one at the output; residual and bias follow.
// CHECK-LABEL: func.func @residual_block
// CHECK-SAME: %[[X:[^:]+]]: tensor<1x4x8x8xf32>
// CHECK: %[[LAST:.+]] = mpc.transpose %[[X]] [0, 2, 3, 1]
// CHECK: %[[CONV:.+]] = mpc.conv %[[LAST]], %{{.+}} layout({{ *}}channels_last){{.*}} -> tensor<1x8x8x4xf32>
// CHECK: %[[BIAS:.+]] = mpc.constant dense<{{.*}}1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00{{.*}}> : tensor<1x1x1x4xf32>
// CHECK: %[[SUM:.+]] = mpc.add %[[CONV]], %[[BIAS]] {{.*}} -> tensor<1x8x8x4xf32>
// CHECK: %[[RELU:.+]] = mpc.relu %[[SUM]] : tensor<1x8x8x4xf32>
// CHECK: %[[SECOND:.+]] = mpc.conv %[[RELU]]
// CHECK: %[[JOINED:.+]] = mpc.add %[[SECOND]], %[[RELU]]
// CHECK: %[[OUT:.+]] = mpc.transpose %[[JOINED]] [0, 3, 1, 2]
// CHECK-NOT: mpc.transpose
// CHECK: return %[[OUT]]
func.func @residual_block(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) -> tensor<1x4x8x8xf32> {
  %b = mpc.constant dense<[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]> : tensor<4x1x1xf32>
  %0 = mpc.conv %x, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) : (tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<1x4x8x8xf32>
  %1 = mpc.add %0, %b : (tensor<1x4x8x8xf32>, tensor<4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %2 = mpc.relu %1 : tensor<1x4x8x8xf32>
  %3 = mpc.conv %2, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) : (tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<1x4x8x8xf32>
  %4 = mpc.add %3, %2 : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  return %4 : tensor<1x4x8x8xf32>
}

// One channel, and a final mean over the image: no data moves at all.
// CHECK-LABEL: func.func @one_channel_to_features
// CHECK-NOT: mpc.transpose
// CHECK: mpc.reshape %{{.+}} : tensor<2x1x6x6xf32> to tensor<2x6x6x1xf32>
// CHECK: mpc.conv
// CHECK: mpc.max_pool {{.*}} layout({{ *}}channels_last)
// CHECK: mpc.reduce_mean %{{.+}} axes([1, 2]) : tensor<2x3x3x5xf32> -> tensor<2x5xf32>
// CHECK-NOT: mpc.transpose
// CHECK: return
func.func @one_channel_to_features(%x: tensor<2x1x6x6xf32>, %w: tensor<5x1x1x1xf32>) -> tensor<2x5xf32> {
  %0 = mpc.conv %x, %w strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<2x1x6x6xf32>, tensor<5x1x1x1xf32>) -> tensor<2x5x6x6xf32>
  %1 = mpc.max_pool %0 window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) : tensor<2x5x6x6xf32> -> tensor<2x5x3x3xf32>
  %2 = mpc.reduce_mean %1 axes([2, 3]) : tensor<2x5x3x3xf32> -> tensor<2x5xf32>
  return %2 : tensor<2x5xf32>
}

// The classifier's rows are permuted at compile time instead of transposing the image.
// CHECK-LABEL: func.func @flatten_permutes_weights
// CHECK: %[[W:.+]] = mpc.constant dense<{{\[\[}}0.000000e+00], [2.000000e+00], [1.000000e+00], [3.000000e+00]]> : tensor<4x1xf32>
// CHECK-NOT: mpc.transpose
// CHECK: mpc.matmul %{{.+}}, %[[W]]
func.func @flatten_permutes_weights(%x: tensor<1x1x1x2xf32>, %f: tensor<2x1x1x1xf32>) -> tensor<1x1xf32> {
  %w = mpc.constant dense<[[0.0], [1.0], [2.0], [3.0]]> : tensor<4x1xf32>
  %0 = mpc.conv %x, %f strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<1x1x1x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x1x2xf32>
  %1 = mpc.reshape %0 : tensor<1x2x1x2xf32> to tensor<1x4xf32>
  %2 = mpc.matmul %1, %w : (tensor<1x4xf32>, tensor<4x1xf32>) -> tensor<1x1xf32>
  return %2 : tensor<1x1xf32>
}

// The transpose passes a reshape that merges adjacent dimensions, and cancels its
// CHECK-LABEL: func.func @patches
// CHECK: %[[CONV:.+]] = mpc.conv {{.*}} -> tensor<1x2x3x6xf32>
// CHECK: %[[TOKENS:.+]] = mpc.reshape %[[CONV]] : tensor<1x2x3x6xf32> to tensor<1x6x6xf32>
// CHECK: return %[[TOKENS]]
func.func @patches(%x: tensor<1x1x4x6xf32>, %w: tensor<6x1x2x2xf32>) -> tensor<1x6x6xf32> {
  %0 = mpc.conv %x, %w strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<1x1x4x6xf32>, tensor<6x1x2x2xf32>) -> tensor<1x6x2x3xf32>
  %1 = mpc.reshape %0 : tensor<1x6x2x3xf32> to tensor<1x6x6xf32>
  %2 = mpc.transpose %1 [0, 2, 1] : tensor<1x6x6xf32> to tensor<1x6x6xf32>
  return %2 : tensor<1x6x6xf32>
}

// Concats, slices and pads rename their dimensions.
// CHECK-LABEL: func.func @data_movement
// CHECK: mpc.concat %{{.+}}, %{{.+}} axis(1) : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x6x4xf32>
// CHECK: mpc.slice %{{.+}} [0, 1, 0] [2, 4, 4]
// CHECK: mpc.pad {{.*}} low([0, 1, 0]) high([0, 0, 2])
// CHECK: mpc.transpose %{{.+}} [2, 0, 1] : tensor<2x5x6xf32> to tensor<6x2x5xf32>
// CHECK-NOT: mpc.transpose
func.func @data_movement(%x: tensor<2x3x4xf32>, %y: tensor<2x3x4xf32>) -> tensor<6x2x5xf32> {
  %z = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.transpose %x [2, 0, 1] : tensor<2x3x4xf32> to tensor<4x2x3xf32>
  %1 = mpc.transpose %y [2, 0, 1] : tensor<2x3x4xf32> to tensor<4x2x3xf32>
  %2 = mpc.concat %0, %1 axis(2) : (tensor<4x2x3xf32>, tensor<4x2x3xf32>) -> tensor<4x2x6xf32>
  %3 = mpc.slice %2 [0, 0, 1] [4, 2, 4] : tensor<4x2x6xf32> to tensor<4x2x4xf32>
  %4 = mpc.pad %3, %z low([0, 0, 1]) high([2, 0, 0]) : (tensor<4x2x4xf32>, tensor<f32>) -> tensor<6x2x5xf32>
  return %4 : tensor<6x2x5xf32>
}

// A large operand in another order blocks the transpose.
// CHECK-LABEL: func.func @another_order_stays
// CHECK: %[[T:.+]] = mpc.transpose %{{.+}} [1, 0]
// CHECK: mpc.add %[[T]], %{{.+}}
// CHECK-NOT: mpc.transpose
func.func @another_order_stays(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = mpc.transpose %x [1, 0] : tensor<8x8xf32> to tensor<8x8xf32>
  %1 = mpc.add %0, %y : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// The key's transpose is a flag of the matmul.
// CHECK-LABEL: func.func @transposed_right_side
// CHECK-NOT: mpc.transpose
// CHECK: mpc.matmul %{{.+}}, %{{.+}} transpose_rhs
func.func @transposed_right_side(%x: tensor<2x3x4xf32>, %y: tensor<2x5x4xf32>) -> tensor<2x3x5xf32> {
  %0 = mpc.transpose %y [0, 2, 1] : tensor<2x5x4xf32> to tensor<2x4x5xf32>
  %1 = mpc.matmul %x, %0 : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  return %1 : tensor<2x3x5xf32>
}

// Operands of 8-bit floats stay along k.
// CHECK-LABEL: func.func @float8_along_k
// CHECK: %[[T:.+]] = mpc.transpose %arg1
// CHECK: mpc.matmul %arg0, %[[T]] transpose_rhs
func.func @float8_along_k(%x: tensor<8x32xf8E4M3FN>, %w: tensor<32x16xf8E4M3FN>) -> tensor<8x16xf32> {
  %0 = mpc.transpose %w [1, 0] : tensor<32x16xf8E4M3FN> to tensor<16x32xf8E4M3FN>
  %1 = mpc.matmul %x, %0 transpose_rhs : (tensor<8x32xf8E4M3FN>, tensor<16x32xf8E4M3FN>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// A rounding cast is never moved past another rounding: it only swaps with the
// transpose.
// CHECK-LABEL: func.func @casts_stay
// CHECK: %[[A:.+]] = mpc.cast %{{.+}} : tensor<3x4xf32> to tensor<3x4xbf16>
// CHECK: %[[B:.+]] = mpc.cast %[[A]] : tensor<3x4xbf16> to tensor<3x4xf32>
// CHECK: mpc.transpose %[[B]]
func.func @casts_stay(%x: tensor<3x4xf32>) -> tensor<4x3xf32> {
  %0 = mpc.transpose %x [1, 0] : tensor<3x4xf32> to tensor<4x3xf32>
  %1 = mpc.cast %0 : tensor<4x3xf32> to tensor<4x3xbf16>
  %2 = mpc.cast %1 : tensor<4x3xbf16> to tensor<4x3xf32>
  return %2 : tensor<4x3xf32>
}

// A gather at constant indices becomes a slice, which the transpose passes; the result
// is one projection, sliced after the reshape.
// CHECK-LABEL: func.func @packed_heads
// CHECK: %[[T:.+]] = mpc.tanh
// CHECK-DAG: %[[HEADS:.+]] = mpc.reshape %[[T]] : tensor<5x2x24xf32> to tensor<5x2x6x4xf32>
// CHECK: mpc.slice %{{.+}} [0, 0, 2, 0] [5, 2, 2, 4] : tensor<5x2x6x4xf32> to tensor<5x2x2x4xf32>
// CHECK-NOT: mpc.transpose
// CHECK-NOT: mpc.gather
// CHECK: return
func.func @packed_heads(%x: tensor<5x2x24xf32>) -> tensor<5x2x2x4xf32> {
  %i = mpc.constant dense<1> : tensor<i64>
  %0 = mpc.tanh %x : tensor<5x2x24xf32>
  %1 = mpc.reshape %0 : tensor<5x2x24xf32> to tensor<1x5x2x3x8xf32>
  %2 = mpc.transpose %1 [3, 1, 2, 0, 4] : tensor<1x5x2x3x8xf32> to tensor<3x5x2x1x8xf32>
  %3 = mpc.reshape %2 : tensor<3x5x2x1x8xf32> to tensor<3x5x2x8xf32>
  %4 = mpc.gather %3, %i axis(0) : (tensor<3x5x2x8xf32>, tensor<i64>) -> tensor<5x2x8xf32>
  %5 = mpc.reshape %4 : tensor<5x2x8xf32> to tensor<5x2x2x4xf32>
  return %5 : tensor<5x2x2x4xf32>
}

// A note about padding stays with the contraction.
// CHECK-LABEL: func.func @padded
// CHECK: mpc.transpose %{{.+}} [0, 2, 3, 1] : tensor<1x4x8x8xf32>
// CHECK: mpc.conv {{.*}}mpc.padding
// CHECK: mpc.transpose %{{.+}} [0, 3, 1, 2] : tensor<1x8x8x4xf32>
func.func @padded(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) -> tensor<1x4x8x8xf32> {
  %0 = mpc.conv %x, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) {mpc.padding = #mpc.padding<from = [1, 64, 4, 27], to = [1, 64, 4, 36], extra_flops = 4608>} : (tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<1x4x8x8xf32>
  return %0 : tensor<1x4x8x8xf32>
}

// Two readers of one image share its transpose, even if they belong to different
// layers.
// CHECK-LABEL: func.func @shared_image
// CHECK: %[[LAST:.+]] = mpc.transpose %{{.+}} [0, 2, 3, 1]
// CHECK-NOT: [0, 2, 3, 1]
// CHECK: mpc.conv %[[LAST]]
// CHECK-NOT: [0, 2, 3, 1]
// CHECK: mpc.conv %[[LAST]]
// CHECK: return
func.func @shared_image(%x: tensor<1x4x8x8xf32>, %v: tensor<4x4x1x1xf32>, %w: tensor<4x4x3x3xf32>) -> (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) {
  %0 = mpc.conv %x, %v strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) {mpc.layer = "a"} : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %1 = mpc.conv %x, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) {mpc.layer = "b"} : (tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<1x4x8x8xf32>
  return %0, %1 : tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>
}

// Backward ops follow their forward ops: the image is transposed once, with none in between.
// CHECK-LABEL: func.func @gradients
// CHECK-SAME: %[[X:[^:]+]]: tensor<2x4x8x8xf32>, %[[G:[^:]+]]: tensor<2x6x3x3xf32>
// CHECK-COUNT-2: mpc.transpose
// CHECK-NOT: mpc.transpose
// CHECK: %[[DY:.+]] = mpc.max_pool_gradient {{.*}} layout({{ *}}channels_last){{.*}} -> tensor<2x6x6x6xf32>
// CHECK-NOT: mpc.transpose
// CHECK: mpc.conv_filter_gradient %{{.+}}, %[[DY]] {{.*}} layout({{ *}}channels_last){{.*}} -> tensor<6x4x3x3xf32>
// CHECK: return
func.func @gradients(%x: tensor<2x4x8x8xf32>, %g: tensor<2x6x3x3xf32>, %w: tensor<6x4x3x3xf32>) -> tensor<6x4x3x3xf32> {
  %y = mpc.conv %x, %w strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x6x6xf32>
  %dy = mpc.max_pool_gradient %y, %g window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<2x6x6x6xf32>, tensor<2x6x3x3xf32>) -> tensor<2x6x6x6xf32>
  %dw = mpc.conv_filter_gradient %x, %dy strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<2x4x8x8xf32>, tensor<2x6x6x6xf32>) -> tensor<6x4x3x3xf32>
  return %dw : tensor<6x4x3x3xf32>
}

// Two empty operands could follow each other's order at no cost, without termination.
// CHECK-LABEL: func.func @empty_operands
// CHECK: mpc.max
// CHECK: return
func.func @empty_operands(%x: tensor<2x7x4x0xf32>, %y: tensor<2x0x7x4xf32>) -> tensor<2x0x7x4xf32> {
  %0 = mpc.transpose %x [0, 3, 1, 2] : tensor<2x7x4x0xf32> to tensor<2x0x7x4xf32>
  %1 = mpc.max %y, %0 : (tensor<2x0x7x4xf32>, tensor<2x0x7x4xf32>) -> tensor<2x0x7x4xf32>
  return %1 : tensor<2x0x7x4xf32>
}

// The gradient of a weight that is read transposed: one transpose of the rounded gradient, none
// of the values that its update computes from it.
// CHECK-LABEL: func.func @update
// CHECK: mpc.cast %{{.+}} : tensor<3x2xf32> to tensor<3x2xbf16>
// CHECK-NEXT: %[[GRADIENT:.+]] = mpc.transpose %{{.+}} : tensor<3x2xbf16> to tensor<2x3xbf16>
// CHECK-NEXT: mpc.cast %[[GRADIENT]]
// CHECK-NOT: mpc.transpose
// CHECK-NOT: mpc.update
// CHECK: return
func.func @update(%g: tensor<3x2xf32>,
    %w: tensor<2x3xf32> {mpc.name = "w", mpc.role = #mpc.role<parameter>},
    %v: tensor<2x3xf32> {mpc.name = "w.v", mpc.role = #mpc.role<optimizer_state>})
    -> (tensor<2x3xf32> {mpc.name = "w", mpc.role = #mpc.role<parameter>, mpc.alias = 1 : i64},
        tensor<2x3xf32> {mpc.name = "w.v", mpc.role = #mpc.role<optimizer_state>, mpc.alias = 2 : i64},
        tensor<2x3xbf16> {mpc.name = "w.copy", mpc.role = #mpc.role<parameter_copy>}) {
  %0 = mpc.transpose %g [1, 0] : tensor<3x2xf32> to tensor<2x3xf32>
  %1 = mpc.cast %0 : tensor<2x3xf32> to tensor<2x3xbf16>
  %2 = mpc.cast %1 : tensor<2x3xbf16> to tensor<2x3xf32>
  %3 = mpc.mul %2, %2 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = mpc.add %v, %3 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = mpc.div %2, %4 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %6 = mpc.sub %w, %5 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %7 = mpc.cast %6 : tensor<2x3xf32> to tensor<2x3xbf16>
  return %6, %4, %7 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xbf16>
}

// The gradient of a mean over the image: a broadcast is free in either order, and is
// cast before.
// CHECK-LABEL: func.func @repeated
// CHECK: %[[WIDE:.+]] = mpc.cast %{{.+}} : tensor<2x8x1x1xbf16> to tensor<2x8x1x1xf32>
// CHECK: mpc.reshape %[[WIDE]] : tensor<2x8x1x1xf32> to tensor<2x1x1x8xf32>
// CHECK: %[[ALL:.+]] = mpc.broadcast %{{.+}} : tensor<2x1x1x8xf32> to tensor<2x4x4x8xf32>
// CHECK: %[[SUM:.+]] = mpc.add %{{.+}}, %[[ALL]] : (tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>)
// CHECK: mpc.transpose %[[SUM]] [0, 3, 1, 2]
func.func @repeated(%x: tensor<2x4x4x8xf32>, %g: tensor<2x8x1x1xbf16>) -> tensor<2x8x4x4xf32> {
  %0 = mpc.transpose %x [0, 3, 1, 2] : tensor<2x4x4x8xf32> to tensor<2x8x4x4xf32>
  %1 = mpc.broadcast %g : tensor<2x8x1x1xbf16> to tensor<2x8x4x4xbf16>
  %2 = mpc.cast %1 : tensor<2x8x4x4xbf16> to tensor<2x8x4x4xf32>
  %3 = mpc.add %0, %2 : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  return %3 : tensor<2x8x4x4xf32>
}

// Between images of one pixel a transpose is a reshape; bias and activation move before it.
// CHECK-LABEL: func.func @one_pixel
// CHECK: %[[CONV:.+]] = mpc.conv {{.*}} -> tensor<2x1x1x3xf32>
// CHECK: %[[BIAS:.+]] = mpc.constant dense<{{.*}}1.000000e+00, 2.000000e+00, 3.000000e+00{{.*}}> : tensor<1x1x3xf32>
// CHECK: %[[SUM:.+]] = mpc.add %[[CONV]], %[[BIAS]] {{.*}} -> tensor<2x1x1x3xf32>
// CHECK: %[[ACTIVE:.+]] = mpc.sigmoid %[[SUM]] : tensor<2x1x1x3xf32>
// CHECK: mpc.conv %[[ACTIVE]]
func.func @one_pixel(%x: tensor<2x4x1x1xf32>, %v: tensor<3x4x1x1xf32>, %w: tensor<4x3x1x1xf32>) -> tensor<2x4x1x1xf32> {
  %b = mpc.constant dense<[[[1.0]], [[2.0]], [[3.0]]]> : tensor<3x1x1xf32>
  %0 = mpc.conv %x, %v strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<2x4x1x1xf32>, tensor<3x4x1x1xf32>) -> tensor<2x3x1x1xf32>
  %1 = mpc.add %0, %b : (tensor<2x3x1x1xf32>, tensor<3x1x1xf32>) -> tensor<2x3x1x1xf32>
  %2 = mpc.sigmoid %1 : tensor<2x3x1x1xf32>
  %3 = mpc.conv %2, %w strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<2x3x1x1xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x1x1xf32>
  return %3 : tensor<2x4x1x1xf32>
}

// Broadcasts along whole dimensions of both shapes, and an argument, follow; a broadcast
// inside a merged dimension blocks the reshape, and so does depth-to-space, whose
// kernel adds in the image's shape.
// CHECK-LABEL: func.func @reshape_of_product
// CHECK: %[[PRODUCT:.+]] = mpc.matmul
// CHECK: %[[SUM:.+]] = mpc.add %[[PRODUCT]], %{{.+}} -> tensor<6x4xf32>
// CHECK: %[[GIVEN:.+]] = mpc.reshape %{{.+}} : tensor<3x2x4xf32> to tensor<6x4xf32>
// CHECK: %[[RESULT:.+]] = mpc.mul %[[GIVEN]], %[[SUM]]
// CHECK: mpc.reshape %[[RESULT]] : tensor<6x4xf32> to tensor<3x2x4xf32>
// CHECK-LABEL: func.func @reshape_stays
// CHECK: %[[BACK:.+]] = mpc.reshape %{{.+}} : tensor<6x4xf32> to tensor<3x2x4xf32>
// CHECK: mpc.add %[[BACK]], %{{.+}} : (tensor<3x2x4xf32>, tensor<3x1x4xf32>)
// CHECK-LABEL: func.func @blocks_stay
// CHECK: mpc.add %{{.+}}, %{{.+}} : (tensor<1x4x4x8xf32>, tensor<8xf32>)
func.func @reshape_of_product(%x: tensor<6x5xf32>, %w: tensor<5x4xf32>, %b: tensor<4xf32>, %y: tensor<3x2x4xf32>) -> tensor<3x2x4xf32> {
  %0 = mpc.matmul %x, %w : (tensor<6x5xf32>, tensor<5x4xf32>) -> tensor<6x4xf32>
  %1 = mpc.reshape %0 : tensor<6x4xf32> to tensor<3x2x4xf32>
  %2 = mpc.add %1, %b : (tensor<3x2x4xf32>, tensor<4xf32>) -> tensor<3x2x4xf32>
  %3 = mpc.mul %y, %2 : (tensor<3x2x4xf32>, tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  return %3 : tensor<3x2x4xf32>
}
func.func @reshape_stays(%x: tensor<6x5xf32>, %w: tensor<5x4xf32>, %b: tensor<3x1x4xf32>) -> tensor<3x2x4xf32> {
  %0 = mpc.matmul %x, %w : (tensor<6x5xf32>, tensor<5x4xf32>) -> tensor<6x4xf32>
  %1 = mpc.reshape %0 : tensor<6x4xf32> to tensor<3x2x4xf32>
  %2 = mpc.add %1, %b : (tensor<3x2x4xf32>, tensor<3x1x4xf32>) -> tensor<3x2x4xf32>
  return %2 : tensor<3x2x4xf32>
}
func.func @blocks_stay(%x: tensor<4x5xf32>, %w: tensor<5x32xf32>, %b: tensor<8xf32>) -> tensor<1x4x4x8xf32> {
  %0 = mpc.matmul %x, %w : (tensor<4x5xf32>, tensor<5x32xf32>) -> tensor<4x32xf32>
  %1 = mpc.reshape %0 : tensor<4x32xf32> to tensor<1x2x2x2x2x8xf32>
  %2 = mpc.transpose %1 [0, 1, 3, 2, 4, 5] : tensor<1x2x2x2x2x8xf32> to tensor<1x2x2x2x2x8xf32>
  %3 = mpc.reshape %2 : tensor<1x2x2x2x2x8xf32> to tensor<1x4x4x8xf32>
  %4 = mpc.add %3, %b : (tensor<1x4x4x8xf32>, tensor<8xf32>) -> tensor<1x4x4x8xf32>
  return %4 : tensor<1x4x4x8xf32>
}

// A matrix that broadcasts over the batch of the other operand is not repeated; one that
// adds batch entries is.
// CHECK-LABEL: func.func @repeated_matrix
// CHECK-NOT: mpc.broadcast
// CHECK: mpc.matmul %{{.+}}, %{{.+}} : (tensor<1x4x5xf32>, tensor<3x5x6xf32>)
// CHECK: mpc.matmul %{{.+}}, %{{.+}} : (tensor<3x5x6xf32>, tensor<6x4xf32>)
// CHECK-LABEL: func.func @more_matrices
// CHECK: mpc.broadcast
// CHECK: mpc.matmul
func.func @repeated_matrix(%x: tensor<1x4x5xf32>, %y: tensor<3x5x6xf32>, %z: tensor<6x4xf32>) -> (tensor<3x4x6xf32>, tensor<3x5x4xf32>) {
  %0 = mpc.broadcast %x : tensor<1x4x5xf32> to tensor<3x4x5xf32>
  %1 = mpc.matmul %0, %y : (tensor<3x4x5xf32>, tensor<3x5x6xf32>) -> tensor<3x4x6xf32>
  %2 = mpc.broadcast %z : tensor<6x4xf32> to tensor<3x6x4xf32>
  %3 = mpc.matmul %y, %2 : (tensor<3x5x6xf32>, tensor<3x6x4xf32>) -> tensor<3x5x4xf32>
  return %1, %3 : tensor<3x4x6xf32>, tensor<3x5x4xf32>
}
func.func @more_matrices(%x: tensor<1x4x5xf32>, %y: tensor<5x6xf32>) -> tensor<3x4x6xf32> {
  %0 = mpc.broadcast %x : tensor<1x4x5xf32> to tensor<3x4x5xf32>
  %1 = mpc.matmul %0, %y : (tensor<3x4x5xf32>, tensor<5x6xf32>) -> tensor<3x4x6xf32>
  return %1 : tensor<3x4x6xf32>
}

// A concat of images is channels last where a convolution reads it so. The argument is
// transposed once, even if the concat is its only other reader.
// CHECK-LABEL: func.func @dense_layers
// CHECK: %[[LAST:.+]] = mpc.transpose %{{.+}} [0, 2, 3, 1] : tensor<1x4x3x3xf32>
// CHECK: mpc.concat %[[LAST]], %{{.+}} axis(3) {{.*}} -> tensor<1x3x3x6xf32>
// CHECK: mpc.relu
// CHECK: mpc.conv
// CHECK: %[[ALL:.+]] = mpc.concat %[[LAST]], %{{.+}}, %{{.+}} axis(3) {{.*}} -> tensor<1x3x3x8xf32>
// CHECK: mpc.transpose %[[ALL]] [0, 3, 1, 2]
// CHECK-NOT: mpc.transpose
// CHECK-LABEL: func.func @argument_first
// CHECK: mpc.concat %{{.+}}, %{{.+}} axis(1) {{.*}} -> tensor<1x6x3x3xf32>
func.func @dense_layers(%x: tensor<1x4x3x3xf32>, %v: tensor<2x4x1x1xf32>, %w: tensor<2x6x1x1xf32>) -> tensor<1x8x3x3xf32> {
  %0 = mpc.conv %x, %v strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<1x4x3x3xf32>, tensor<2x4x1x1xf32>) -> tensor<1x2x3x3xf32>
  %1 = mpc.concat %x, %0 axis(1) : (tensor<1x4x3x3xf32>, tensor<1x2x3x3xf32>) -> tensor<1x6x3x3xf32>
  %2 = mpc.relu %1 : tensor<1x6x3x3xf32>
  %3 = mpc.conv %2, %w strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<1x6x3x3xf32>, tensor<2x6x1x1xf32>) -> tensor<1x2x3x3xf32>
  %4 = mpc.concat %x, %0, %3 axis(1) : (tensor<1x4x3x3xf32>, tensor<1x2x3x3xf32>, tensor<1x2x3x3xf32>) -> tensor<1x8x3x3xf32>
  return %4 : tensor<1x8x3x3xf32>
}
func.func @argument_first(%x: tensor<1x4x3x3xf32>, %y: tensor<1x3x3x2xf32>) -> tensor<1x6x3x3xf32> {
  %0 = mpc.transpose %y [0, 3, 1, 2] : tensor<1x3x3x2xf32> to tensor<1x2x3x3xf32>
  %1 = mpc.concat %x, %0 axis(1) : (tensor<1x4x3x3xf32>, tensor<1x2x3x3xf32>) -> tensor<1x6x3x3xf32>
  return %1 : tensor<1x6x3x3xf32>
}

// -----

// A concat of an argument and its own transpose, by an involution: two transposes instead
// of one are no gain, and the rewrite would not terminate.
// CHECK-LABEL: func.func @beside_itself
// CHECK: %[[TURNED:.+]] = mpc.transpose %arg0 [2, 1, 0]
// CHECK: mpc.concat %[[TURNED]], %arg0, %arg0 axis(0)
// CHECK-NOT: mpc.transpose
// Nor where the reader of the concat undoes the order.
// CHECK-LABEL: func.func @beside_itself_undone
// CHECK: mpc.concat
// CHECK: return
func.func @beside_itself(%x: tensor<3x5x3xf32>) -> tensor<9x5x3xf32> {
  %0 = mpc.transpose %x [2, 1, 0] : tensor<3x5x3xf32> to tensor<3x5x3xf32>
  %1 = mpc.concat %0, %x, %x axis(0) : (tensor<3x5x3xf32>, tensor<3x5x3xf32>, tensor<3x5x3xf32>) -> tensor<9x5x3xf32>
  return %1 : tensor<9x5x3xf32>
}
func.func @beside_itself_undone(%x: tensor<3x5x3xf32>, %y: tensor<3x5x9xf32>) -> (tensor<3x5x9xf32>, tensor<3x5x3xf32>) {
  %0 = mpc.transpose %x [2, 1, 0] : tensor<3x5x3xf32> to tensor<3x5x3xf32>
  %1 = mpc.concat %0, %x, %x axis(0) : (tensor<3x5x3xf32>, tensor<3x5x3xf32>, tensor<3x5x3xf32>) -> tensor<9x5x3xf32>
  %2 = mpc.exp %1 : tensor<9x5x3xf32>
  %3 = mpc.transpose %2 [2, 1, 0] : tensor<9x5x3xf32> to tensor<3x5x9xf32>
  %4 = mpc.add %3, %y : (tensor<3x5x9xf32>, tensor<3x5x9xf32>) -> tensor<3x5x9xf32>
  return %4, %0 : tensor<3x5x9xf32>, tensor<3x5x3xf32>
}

// -----

// A scalar that is reshaped to a matrix of one element: the other operand is
// reshaped to a scalar too.
// CHECK-LABEL: func.func @scalar_as_matrix(
// CHECK: %[[SUM:.*]] = mpc.reduce_sum {{.*}} -> tensor<f32>
// CHECK: mpc.mul %[[SUM]], %{{.*}} -> tensor<f32>
func.func @scalar_as_matrix(%x: tensor<8xf32>, %y: tensor<1xf32>) -> tensor<1x1xf32> {
  %sum = mpc.reduce_sum %x axes([0]) : tensor<8xf32> -> tensor<f32>
  %one = mpc.reshape %sum : tensor<f32> to tensor<1x1xf32>
  %product = mpc.mul %one, %y : (tensor<1x1xf32>, tensor<1xf32>) -> tensor<1x1xf32>
  return %product : tensor<1x1xf32>
}

// The gradient of a weight that the model transposes is the matmul in the other order, with or
// without a downcast; the result is bit-identical.

// CHECK-LABEL: func @gradient_of_transposed_weight
// CHECK-SAME: (%[[X:.*]]: tensor<32x8xbf16>, %[[G:.*]]: tensor<32x24xbf16>)
// CHECK: %[[P:.*]] = mpc.matmul %[[G]], %[[X]] transpose_lhs : (tensor<32x24xbf16>, tensor<32x8xbf16>) -> tensor<24x8xf32>
// CHECK-NEXT: %[[N:.*]] = mpc.cast %[[P]] : tensor<24x8xf32> to tensor<24x8xbf16>
// CHECK-NEXT: %[[W:.*]] = mpc.cast %[[N]] : tensor<24x8xbf16> to tensor<24x8xf32>
// CHECK-NEXT: return %[[W]]
func.func @gradient_of_transposed_weight(%x: tensor<32x8xbf16>, %g: tensor<32x24xbf16>) -> tensor<24x8xf32> {
  %0 = mpc.matmul %x, %g transpose_lhs : (tensor<32x8xbf16>, tensor<32x24xbf16>) -> tensor<8x24xf32>
  %1 = mpc.cast %0 : tensor<8x24xf32> to tensor<8x24xbf16>
  %2 = mpc.cast %1 : tensor<8x24xbf16> to tensor<8x24xf32>
  %3 = mpc.transpose %2 [1, 0] : tensor<8x24xf32> to tensor<24x8xf32>
  return %3 : tensor<24x8xf32>
}

// CHECK-LABEL: func @rows_by_rows
// CHECK-SAME: (%[[X:.*]]: tensor<32x8xf32>, %[[Y:.*]]: tensor<24x8xf32>)
// CHECK: mpc.matmul %[[Y]], %[[X]] transpose_rhs : (tensor<24x8xf32>, tensor<32x8xf32>) -> tensor<24x32xf32>
// CHECK-NOT: mpc.transpose
// CHECK: return
func.func @rows_by_rows(%x: tensor<32x8xf32>, %y: tensor<24x8xf32>) -> tensor<24x32xf32> {
  %0 = mpc.matmul %x, %y transpose_rhs : (tensor<32x8xf32>, tensor<24x8xf32>) -> tensor<32x24xf32>
  %1 = mpc.transpose %0 [1, 0] : tensor<32x24xf32> to tensor<24x32xf32>
  return %1 : tensor<24x32xf32>
}

// Unchanged: rows by columns, where the other order would read across both, and a matmul
// with a second reader.

// CHECK-LABEL: func @rows_by_columns
// CHECK: mpc.matmul %{{.*}}, %{{.*}} : (tensor<32x8xf32>, tensor<8x24xf32>)
// CHECK-NEXT: mpc.transpose
func.func @rows_by_columns(%x: tensor<32x8xf32>, %y: tensor<8x24xf32>) -> tensor<24x32xf32> {
  %0 = mpc.matmul %x, %y : (tensor<32x8xf32>, tensor<8x24xf32>) -> tensor<32x24xf32>
  %1 = mpc.transpose %0 [1, 0] : tensor<32x24xf32> to tensor<24x32xf32>
  return %1 : tensor<24x32xf32>
}

// CHECK-LABEL: func @read_twice
// CHECK: mpc.matmul %{{.*}}, %{{.*}} transpose_lhs : (tensor<32x8xf32>, tensor<32x24xf32>)
// CHECK-NEXT: mpc.transpose
func.func @read_twice(%x: tensor<32x8xf32>, %g: tensor<32x24xf32>) -> (tensor<8x24xf32>, tensor<24x8xf32>) {
  %0 = mpc.matmul %x, %g transpose_lhs : (tensor<32x8xf32>, tensor<32x24xf32>) -> tensor<8x24xf32>
  %1 = mpc.transpose %0 [1, 0] : tensor<8x24xf32> to tensor<24x8xf32>
  return %0, %1 : tensor<8x24xf32>, tensor<24x8xf32>
}

// A dropout mask with its own dimension order: the transpose moves the rounded values.

// CHECK-LABEL: func @rounds_what_moves
// CHECK-SAME: (%[[X:.*]]: tensor<2x6x5x8xf32>, %[[M:.*]]: tensor<2x8x6x5xi1>)
// CHECK: %[[R:.*]] = mpc.cast %[[X]] : tensor<2x6x5x8xf32> to tensor<2x6x5x8xbf16>
// CHECK-NEXT: %[[T:.*]] = mpc.transpose %[[R]] [0, 3, 1, 2]
// CHECK: %[[S:.*]] = mpc.select %[[M]], %[[T]], %{{.*}} : (tensor<2x8x6x5xi1>, tensor<2x8x6x5xbf16>, tensor<bf16>)
// CHECK-NEXT: return %[[S]]
func.func @rounds_what_moves(%x: tensor<2x6x5x8xf32>, %m: tensor<2x8x6x5xi1>) -> tensor<2x8x6x5xbf16> {
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.transpose %x [0, 3, 1, 2] : tensor<2x6x5x8xf32> to tensor<2x8x6x5xf32>
  %1 = mpc.select %m, %0, %zero : (tensor<2x8x6x5xi1>, tensor<2x8x6x5xf32>, tensor<f32>) -> tensor<2x8x6x5xf32>
  %2 = mpc.cast %1 : tensor<2x8x6x5xf32> to tensor<2x8x6x5xbf16>
  return %2 : tensor<2x8x6x5xbf16>
}

// Upcast values are moved before the upcast.

// CHECK-LABEL: func @widens_behind
// CHECK: mpc.transpose %{{.*}} : tensor<2x6x5x8xbf16> to tensor<2x8x6x5xbf16>
// CHECK: mpc.select
// CHECK: mpc.cast
func.func @widens_behind(%x: tensor<2x6x5x8xbf16>, %m: tensor<2x8x6x5xi1>) -> tensor<2x8x6x5xf32> {
  %zero = mpc.constant dense<0.0> : tensor<bf16>
  %0 = mpc.transpose %x [0, 3, 1, 2] : tensor<2x6x5x8xbf16> to tensor<2x8x6x5xbf16>
  %1 = mpc.select %m, %0, %zero : (tensor<2x8x6x5xi1>, tensor<2x8x6x5xbf16>, tensor<bf16>) -> tensor<2x8x6x5xbf16>
  %2 = mpc.cast %1 : tensor<2x8x6x5xbf16> to tensor<2x8x6x5xf32>
  return %2 : tensor<2x8x6x5xf32>
}

// A mask with several readers is reshaped for a matmul, whose kernel applies it; a mask
// that only this op reads is computed in place.

// CHECK-LABEL: func @stored_mask
// CHECK: %[[M:.*]] = mpc.compare
// CHECK-DAG: %[[F:.*]] = mpc.reshape %[[M]] : tensor<4x6x2xi1> to tensor<4x12xi1>
// CHECK-DAG: %[[P:.*]] = mpc.matmul
// CHECK: %[[S:.*]] = mpc.select %[[F]], %[[P]]
// CHECK: mpc.reshape %[[S]] : tensor<4x12xf32> to tensor<4x6x2xf32>
func.func @stored_mask(%x: tensor<4x8xf32>, %w: tensor<8x12xf32>, %b: tensor<4x6x2xi32>) -> (tensor<4x6x2xf32>, tensor<4x6x2xi1>) {
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %least = mpc.constant dense<7> : tensor<i32>
  %m = mpc.compare ge %b, %least : (tensor<4x6x2xi32>, tensor<i32>) -> tensor<4x6x2xi1>
  %0 = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x12xf32>) -> tensor<4x12xf32>
  %1 = mpc.reshape %0 : tensor<4x12xf32> to tensor<4x6x2xf32>
  %2 = mpc.select %m, %1, %zero : (tensor<4x6x2xi1>, tensor<4x6x2xf32>, tensor<f32>) -> tensor<4x6x2xf32>
  return %2, %m : tensor<4x6x2xf32>, tensor<4x6x2xi1>
}

// CHECK-LABEL: func @computed_mask
// CHECK: mpc.reshape %{{.*}} : tensor<4x12xf32> to tensor<4x6x2xf32>
// CHECK: mpc.select {{.*}} -> tensor<4x6x2xf32>
func.func @computed_mask(%x: tensor<4x8xf32>, %w: tensor<8x12xf32>, %s: tensor<2xi64>) -> tensor<4x6x2xf32> {
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %least = mpc.constant dense<7> : tensor<i32>
  %b = mpc.random_bits %s stream(0) : tensor<2xi64> -> tensor<4x6x2xi32>
  %m = mpc.compare ge %b, %least : (tensor<4x6x2xi32>, tensor<i32>) -> tensor<4x6x2xi1>
  %0 = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x12xf32>) -> tensor<4x12xf32>
  %1 = mpc.reshape %0 : tensor<4x12xf32> to tensor<4x6x2xf32>
  %2 = mpc.select %m, %1, %zero : (tensor<4x6x2xi1>, tensor<4x6x2xf32>, tensor<f32>) -> tensor<4x6x2xf32>
  return %2 : tensor<4x6x2xf32>
}
