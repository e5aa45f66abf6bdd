// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-decompose))' | FileCheck %s
// Numbers: test/unit/Dialect/Mpc/Transforms/DecomposeTests.cpp.

// Windows that do not overlap: one matmul, then depth-to-space.
// CHECK-LABEL: func.func @blockwise
// CHECK-SAME: %[[X:[^:]+]]: tensor<1x4x5x6xf32>
// CHECK: %[[PIXELS:.+]] = mpc.transpose %[[X]] [0, 2, 3, 1]
// CHECK: %[[ROWS:.+]] = mpc.reshape %[[PIXELS]] : tensor<1x5x6x4xf32> to tensor<30x4xf32>
// CHECK: mpc.matmul %[[ROWS]], %{{.+}} : (tensor<30x4xf32>, tensor<4x12xf32>) -> tensor<30x12xf32>
// CHECK-NOT: mpc.pad
// CHECK: return
func.func @blockwise(%x: tensor<1x4x5x6xf32>, %w: tensor<4x3x2x2xf32>) -> tensor<1x3x10x12xf32> {
  %0 = mpc.conv_transpose %x, %w strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) output_padding([0, 0]) : (tensor<1x4x5x6xf32>, tensor<4x3x2x2xf32>) -> tensor<1x3x10x12xf32>
  return %0 : tensor<1x3x10x12xf32>
}

// Overlapping windows: even positions are a matmul with the middle of the filter, odd ones with
// its reversed ends; both are interleaved.
// CHECK-LABEL: func.func @overlapping
// CHECK-SAME: (%[[X:.+]]: tensor<1x4x5xf32>, %[[FILTER:.+]]: tensor<4x3x3xf32>)
// CHECK: %[[MIDDLE:.+]] = mpc.slice %[[FILTER]] [0, 0, 1] [4, 3, 1]
// CHECK: %[[MATRIX:.+]] = mpc.reshape %[[MIDDLE]] : tensor<4x3x1xf32> to tensor<4x3xf32>
// CHECK: mpc.matmul %{{.+}}, %[[MATRIX]] : (tensor<5x4xf32>, tensor<4x3xf32>)
// CHECK: %[[EVEN:.+]] = mpc.transpose %{{.+}} [0, 2, 1] : tensor<1x5x3xf32> to tensor<1x3x5xf32>
// CHECK: %[[ENDS:.+]] = mpc.slice %[[FILTER]] [0, 0, 0] [4, 3, 2] strides [1, 1, 2]
// CHECK: mpc.transpose %{{.+}} [0, 2, 1, 3] : tensor<1x4x3x2xf32> to tensor<1x3x4x2xf32>
// CHECK: mpc.reverse %{{.+}} axes([3])
// CHECK: %[[ODD:.+]] = mpc.conv %[[X]], %{{.+}} strides([1]) pad([0], [1])
// CHECK: %[[FIRST:.+]] = mpc.reshape %[[EVEN]]
// CHECK: %[[SECOND:.+]] = mpc.reshape %[[ODD]]
// CHECK: %[[BOTH:.+]] = mpc.concat %[[FIRST]], %[[SECOND]] axis(3)
// CHECK: mpc.reshape %[[BOTH]] : tensor<1x3x5x2xf32> to tensor<1x3x10xf32>
func.func @overlapping(%x: tensor<1x4x5xf32>, %w: tensor<4x3x3xf32>) -> tensor<1x3x10xf32> {
  %0 = mpc.conv_transpose %x, %w strides([2]) pad([1], [1]) dilations([1]) output_padding([1]) : (tensor<1x4x5xf32>, tensor<4x3x3xf32>) -> tensor<1x3x10xf32>
  return %0 : tensor<1x3x10xf32>
}

// The gaps between the windows are padding of the result.
// CHECK-LABEL: func.func @apart
// CHECK-NOT: mpc.pad
// CHECK: mpc.matmul %{{.+}}, %{{.+}} : (tensor<30x4xf32>, tensor<4x3xf32>)
// CHECK: %[[LINES:.+]] = mpc.pad %{{.+}}, {{.+}} high([0, 0, 0, 0]) interior([0, 0, 0, 1])
// CHECK: mpc.pad %[[LINES]], {{.+}} high([0, 0, 1, 0]) interior([0, 0, 1, 0])
func.func @apart(%x: tensor<1x4x5x6xf32>, %w: tensor<4x3x1x1xf32>) -> tensor<1x3x10x11xf32> {
  %0 = mpc.conv_transpose %x, %w strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) output_padding([1, 0]) : (tensor<1x4x5x6xf32>, tensor<4x3x1x1xf32>) -> tensor<1x3x10x11xf32>
  return %0 : tensor<1x3x10x11xf32>
}

// Without strides there is one phase. The window is reversed as one dimension.
// CHECK-LABEL: func.func @dense
// CHECK: %[[TURNED:.+]] = mpc.reverse %{{.+}} axes([3]) : tensor<1x3x4x9xf32>
// CHECK: %[[FILTER:.+]] = mpc.reshape %[[TURNED]] : tensor<1x3x4x9xf32> to tensor<3x4x3x3xf32>
// CHECK: %[[RESULT:.+]] = mpc.conv %{{.+}}, %[[FILTER]] strides([1, 1]) pad([1, 2], [1, 2])
// CHECK-NEXT: return %[[RESULT]]
func.func @dense(%x: tensor<2x4x5x6xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<2x3x5x8xf32> {
  %0 = mpc.conv_transpose %x, %w strides([1, 1]) pad([1, 0], [1, 0]) dilations([1, 1]) output_padding([0, 0]) : (tensor<2x4x5x6xf32>, tensor<4x3x3x3xf32>) -> tensor<2x3x5x8xf32>
  return %0 : tensor<2x3x5x8xf32>
}

// Sums are rounded before they are interleaved. The last row is cut off.
// CHECK-LABEL: func.func @rounded
// CHECK-COUNT-2: mpc.concat {{.+}}xbf16>
// CHECK: mpc.concat {{.+}} -> tensor<1x3x5x2x12xbf16>
// CHECK: %[[WHOLE:.+]] = mpc.reshape %{{.+}} to tensor<1x3x10x12xbf16>
// CHECK: %[[CUT:.+]] = mpc.slice %[[WHOLE]] [0, 0, 0, 0] [1, 3, 9, 12]
// CHECK: return %[[CUT]]
func.func @rounded(%x: tensor<1x4x5x6xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<1x3x9x12xbf16> {
  %0 = mpc.conv_transpose %x, %w strides([2, 2]) pad([1, 1], [1, 1]) dilations([1, 1]) output_padding([0, 1]) : (tensor<1x4x5x6xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x9x12xf32>
  %1 = mpc.cast %0 : tensor<1x3x9x12xf32> to tensor<1x3x9x12xbf16>
  return %1 : tensor<1x3x9x12xbf16>
}

// Strides and dilations with a common factor: half of the positions are zeros.
// CHECK-LABEL: func.func @common_factor
// CHECK: mpc.conv {{.+}} dilations([1])
// CHECK: mpc.pad {{.+}} interior([0, 0, 1])
func.func @common_factor(%x: tensor<2x4x5xf32>, %w: tensor<4x3x3xf32>) -> tensor<2x3x11xf32> {
  %0 = mpc.conv_transpose %x, %w strides([2]) pad([1], [1]) dilations([2]) output_padding([0]) : (tensor<2x4x5xf32>, tensor<4x3x3xf32>) -> tensor<2x3x11xf32>
  return %0 : tensor<2x3x11xf32>
}

// Filter positions that reach beyond the start or end of the input.
// CHECK-LABEL: func.func @far
// CHECK: mpc.pad %{{.+}} low([0, 0, 0]) high([0, 0, 2])
// CHECK: mpc.matmul
// CHECK: mpc.pad %{{.+}} low([0, 0, 1])
// CHECK: mpc.matmul
func.func @far(%x: tensor<2x4x5xf32>, %w: tensor<4x3x2xf32>) -> tensor<2x3x13xf32> {
  %0 = mpc.conv_transpose %x, %w strides([2]) pad([0], [0]) dilations([3]) output_padding([1]) : (tensor<2x4x5xf32>, tensor<4x3x2xf32>) -> tensor<2x3x13xf32>
  return %0 : tensor<2x3x13xf32>
}

// CHECK-LABEL: func.func @groups
// CHECK-COUNT-9: groups(2)
func.func @groups(%x: tensor<2x4x4x3xf32>, %w: tensor<4x3x5x4xf32>) -> tensor<2x6x12x10xf32> {
  %0 = mpc.conv_transpose %x, %w strides([3, 3]) pad([1, 0], [3, 1]) dilations([1, 1]) output_padding([2, 1]) groups(2) : (tensor<2x4x4x3xf32>, tensor<4x3x5x4xf32>) -> tensor<2x6x12x10xf32>
  return %0 : tensor<2x6x12x10xf32>
}

// CHECK-LABEL: func.func @three_dimensions
// CHECK-COUNT-2: mpc.conv
func.func @three_dimensions(%x: tensor<1x2x2x3x2xf32>, %w: tensor<2x2x3x1x3xf32>) -> tensor<1x2x5x5x2xf32> {
  %0 = mpc.conv_transpose %x, %w strides([2, 2, 1]) pad([0, 0, 1], [0, 0, 1]) dilations([1, 1, 1]) output_padding([0, 0, 0]) : (tensor<1x2x2x3x2xf32>, tensor<2x2x3x1x3xf32>) -> tensor<1x2x5x5x2xf32>
  return %0 : tensor<1x2x5x5x2xf32>
}
