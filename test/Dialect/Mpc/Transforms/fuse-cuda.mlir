// Prologues and epilogues of Tensor Core kernels on a GPU, which are separate kernels
// on a CPU, whose micro-kernels read packed panels.
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-fuse | FileCheck %s
// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx512 --mpc-fuse | FileCheck %s --check-prefix=CPU

// The matmul casts the program's input as it loads it, also after a view.
// CHECK-LABEL: func.func @input_cast
// CHECK: mpc.reshape %arg0 : tensor<4x2x4xf32> to tensor<4x8xf32>
// CHECK-NEXT: mpc.fusion kind(contraction) {{.*}}tensor<4x8xf32>{{.*}} -> tensor<4x16xf32>
// CHECK-NEXT: mpc.cast
// CHECK-NEXT: mpc.matmul
// CHECK-NOT: mpc.fusion
// CPU-LABEL: func.func @input_cast
// CPU: mpc.fusion kind(elementwise) name("input_cast")
// CPU: mpc.fusion kind(contraction)
func.func @input_cast(%x: tensor<4x2x4xf32>, %w: tensor<8x16xbf16>) -> tensor<4x16xf32> {
  %0 = mpc.cast %x : tensor<4x2x4xf32> to tensor<4x2x4xbf16>
  %1 = mpc.reshape %0 : tensor<4x2x4xbf16> to tensor<4x8xbf16>
  %2 = mpc.matmul %1, %w : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xf32>
  return %2 : tensor<4x16xf32>
}

// Two matmuls of one input each cast it: that moves less memory than a separate
// cast kernel.
// CHECK-LABEL: func.func @shared_input_cast
// CHECK: mpc.fusion kind(contraction) {{.*}}tensor<4x8xf32>
// CHECK-NEXT: mpc.cast
// CHECK: mpc.fusion kind(contraction) {{.*}}tensor<4x8xf32>
// CHECK-NEXT: mpc.cast
// CHECK-NOT: mpc.fusion
func.func @shared_input_cast(%x: tensor<4x8xf32>, %v: tensor<8x16xbf16>, %w: tensor<8x32xbf16>) -> (tensor<4x16xf32>, tensor<4x32xf32>) {
  %0 = mpc.cast %x : tensor<4x8xf32> to tensor<4x8xbf16>
  %1 = mpc.matmul %0, %v : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xf32>
  %2 = mpc.matmul %0, %w : (tensor<4x8xbf16>, tensor<8x32xbf16>) -> tensor<4x32xf32>
  return %1, %2 : tensor<4x16xf32>, tensor<4x32xf32>
}

// A cast of another kernel's result is stored by that kernel.
// CHECK-LABEL: func.func @computed_cast
// CHECK: mpc.fusion kind(row)
// CHECK: mpc.softmax
// CHECK: mpc.cast
// CHECK: mpc.fusion kind(contraction)
// CHECK-NEXT: mpc.matmul
func.func @computed_cast(%x: tensor<4x8xf32>, %w: tensor<8x16xbf16>) -> tensor<4x16xf32> {
  %0 = mpc.softmax %x axis(1) : tensor<4x8xf32>
  %1 = mpc.cast %0 : tensor<4x8xf32> to tensor<4x8xbf16>
  %2 = mpc.matmul %1, %w : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xf32>
  return %2 : tensor<4x16xf32>
}

// Columns that padding added are not stored.
// CHECK-LABEL: func.func @padded_columns
// CHECK: mpc.fusion kind(contraction) {{.*}} -> tensor<4x10xf32>
// CHECK-NEXT: mpc.matmul
// CHECK-NEXT: mpc.add
// CHECK-NEXT: mpc.slice
// CHECK-NOT: mpc.fusion
// CPU-LABEL: func.func @padded_columns
// CPU: mpc.fusion kind(contraction) {{.*}} -> tensor<4x16xf32>
// CPU: mpc.fusion kind(elementwise) {{.*}} -> tensor<4x10xf32>
func.func @padded_columns(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<16xf32>) -> tensor<4x10xf32> {
  %0 = mpc.matmul %x, %w : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xf32>
  %1 = mpc.add %0, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %2 = mpc.slice %1 [0, 0] [4, 10] : tensor<4x16xf32> to tensor<4x10xf32>
  return %2 : tensor<4x10xf32>
}

// Depth-to-space of a transposed convolution is fused into its stores; later ops have the
// image's shape and are fused too.
// CHECK-LABEL: func.func @blocks_in_place
// CHECK: mpc.fusion kind(contraction) {{.*}} -> tensor<1x4x4x8xbf16>
// CHECK-NEXT: mpc.matmul
// CHECK-NEXT: mpc.reshape
// CHECK-NEXT: mpc.transpose
// CHECK-NEXT: mpc.reshape
// CHECK-NEXT: mpc.add
// CHECK-NEXT: mpc.cast
// CHECK-NEXT: mpc.yield
// CHECK-NOT: mpc.fusion
// CPU-LABEL: func.func @blocks_in_place
// CPU: mpc.fusion kind(contraction) {{.*}} -> tensor<4x32xf32>
// CPU: mpc.fusion kind(transpose) {{.*}} -> tensor<1x4x4x8xbf16>
func.func @blocks_in_place(%x: tensor<4x8xbf16>, %w: tensor<8x32xbf16>, %b: tensor<8xf32>) -> tensor<1x4x4x8xbf16> {
  %0 = mpc.matmul %x, %w : (tensor<4x8xbf16>, tensor<8x32xbf16>) -> tensor<4x32xf32>
  %1 = mpc.reshape %0 : tensor<4x32xf32> to tensor<1x2x2x2x2x8xf32>
  %2 = mpc.transpose %1 [0, 1, 3, 2, 4, 5] : tensor<1x2x2x2x2x8xf32> to tensor<1x2x2x2x2x8xf32>
  %3 = mpc.reshape %2 : tensor<1x2x2x2x2x8xf32> to tensor<1x4x4x8xf32>
  %4 = mpc.add %3, %b : (tensor<1x4x4x8xf32>, tensor<8xf32>) -> tensor<1x4x4x8xf32>
  %5 = mpc.cast %4 : tensor<1x4x4x8xf32> to tensor<1x4x4x8xbf16>
  return %5 : tensor<1x4x4x8xbf16>
}

// A convolution loads an image of three channels in its original layout, and
// stores channels first where the caller wants them.
// CHECK-LABEL: func.func @image_in_and_out
// CHECK: mpc.fusion kind(convolution) {{.*}}tensor<1x3x8x8xf32>{{.*}} -> tensor<1x8x8x8xf32>
// CHECK-NEXT: mpc.cast
// CHECK-NEXT: mpc.transpose
// CHECK-NEXT: mpc.conv
// CHECK-NEXT: mpc.transpose
// CHECK-NOT: mpc.fusion
// CPU-LABEL: func.func @image_in_and_out
// CPU-COUNT-3: mpc.fusion
func.func @image_in_and_out(%x: tensor<1x3x8x8xf32>, %w: tensor<8x3x3x3xbf16>) -> tensor<1x8x8x8xf32> {
  %0 = mpc.cast %x : tensor<1x3x8x8xf32> to tensor<1x3x8x8xbf16>
  %1 = mpc.transpose %0 [0, 2, 3, 1] : tensor<1x3x8x8xbf16> to tensor<1x8x8x3xbf16>
  %2 = mpc.conv %1, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) : (tensor<1x8x8x3xbf16>, tensor<8x3x3x3xbf16>) -> tensor<1x8x8x8xf32>
  %3 = mpc.transpose %2 [0, 3, 1, 2] : tensor<1x8x8x8xf32> to tensor<1x8x8x8xf32>
  return %3 : tensor<1x8x8x8xf32>
}

// A fourth channel of zeros, which tf32 wants, is loaded as one.
// CHECK-LABEL: func.func @padded_image
// CHECK: mpc.fusion kind(convolution) {{.*}}tensor<1x3x8x8xf32>{{.*}} -> tensor<1x8x8x8xf32>
// CHECK: mpc.pad
// CHECK-NEXT: mpc.transpose
// CHECK-NEXT: mpc.conv
// CHECK-NOT: mpc.fusion
func.func @padded_image(%x: tensor<1x3x8x8xf32>, %w: tensor<8x4x3x3xf32>) -> tensor<1x8x8x8xf32> {
  %z = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.pad %x, %z low([0, 0, 0, 0]) high([0, 1, 0, 0]) : (tensor<1x3x8x8xf32>, tensor<f32>) -> tensor<1x4x8x8xf32>
  %1 = mpc.transpose %0 [0, 2, 3, 1] : tensor<1x4x8x8xf32> to tensor<1x8x8x4xf32>
  %2 = mpc.conv %1, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) compute(tf32) : (tensor<1x8x8x4xf32>, tensor<8x4x3x3xf32>) -> tensor<1x8x8x8xf32>
  return %2 : tensor<1x8x8x8xf32>
}

// A 1x1 window reads each pixel once, so it can load any channel order; many channels
// are many steps, each of which would wait for memory.
// CHECK-LABEL: func.func @pixels_in
// CHECK: mpc.fusion kind(convolution) {{.*}}tensor<1x32x8x8xf32>
// CHECK-NEXT: mpc.cast
// CHECK-NEXT: mpc.transpose
// CHECK-NEXT: mpc.conv
// CHECK-NOT: mpc.fusion
// CHECK-LABEL: func.func @many_steps
// CHECK: mpc.fusion kind(transpose)
// CHECK: mpc.fusion kind(convolution)
func.func @pixels_in(%x: tensor<1x32x8x8xf32>, %w: tensor<8x32x1x1xbf16>) -> tensor<1x8x8x8xf32> {
  %0 = mpc.cast %x : tensor<1x32x8x8xf32> to tensor<1x32x8x8xbf16>
  %1 = mpc.transpose %0 [0, 2, 3, 1] : tensor<1x32x8x8xbf16> to tensor<1x8x8x32xbf16>
  %2 = mpc.conv %1, %w strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<1x8x8x32xbf16>, tensor<8x32x1x1xbf16>) -> tensor<1x8x8x8xf32>
  return %2 : tensor<1x8x8x8xf32>
}
func.func @many_steps(%x: tensor<1x512x8x8xf32>, %w: tensor<8x512x1x1xbf16>) -> tensor<1x8x8x8xf32> {
  %0 = mpc.cast %x : tensor<1x512x8x8xf32> to tensor<1x512x8x8xbf16>
  %1 = mpc.transpose %0 [0, 2, 3, 1] : tensor<1x512x8x8xbf16> to tensor<1x8x8x512xbf16>
  %2 = mpc.conv %1, %w strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<1x8x8x512xbf16>, tensor<8x512x1x1xbf16>) -> tensor<1x8x8x8xf32>
  return %2 : tensor<1x8x8x8xf32>
}

// Eight channels are a vector: their transpose stays a kernel.
// CHECK-LABEL: func.func @many_channels
// CHECK: mpc.fusion kind(transpose)
// CHECK: mpc.fusion kind(convolution)
func.func @many_channels(%x: tensor<1x8x8x8xbf16>, %w: tensor<8x8x3x3xbf16>) -> tensor<1x8x8x8xf32> {
  %1 = mpc.transpose %x [0, 2, 3, 1] : tensor<1x8x8x8xbf16> to tensor<1x8x8x8xbf16>
  %2 = mpc.conv %1, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) : (tensor<1x8x8x8xbf16>, tensor<8x8x3x3xbf16>) -> tensor<1x8x8x8xf32>
  return %2 : tensor<1x8x8x8xf32>
}

// A concat of two images is never materialized, whoever reads it; a concat of parts of half
// a vector is.
// CHECK-LABEL: func.func @joined_images
// CHECK: mpc.fusion kind(convolution) {{.*}}tensor<1x4x4x8xbf16>{{.*}}tensor<1x4x4x8xbf16>
// CHECK-NEXT: mpc.concat
// CHECK-NEXT: mpc.conv
// CHECK: mpc.fusion kind(convolution) {{.*}}tensor<1x4x4x8xbf16>{{.*}}tensor<1x4x4x8xbf16>
// CHECK-NEXT: mpc.concat
// CHECK-NEXT: mpc.conv
// CHECK-NOT: mpc.fusion
// CHECK-LABEL: func.func @joined_halves
// CHECK: mpc.fusion kind(elementwise)
// CHECK: mpc.fusion kind(convolution)
func.func @joined_images(%x: tensor<1x4x4x8xbf16>, %y: tensor<1x4x4x8xbf16>, %v: tensor<8x16x1x1xbf16>, %w: tensor<8x16x3x3xbf16>) -> (tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32>) {
  %0 = mpc.concat %x, %y axis(3) : (tensor<1x4x4x8xbf16>, tensor<1x4x4x8xbf16>) -> tensor<1x4x4x16xbf16>
  %1 = mpc.conv %0, %v strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<1x4x4x16xbf16>, tensor<8x16x1x1xbf16>) -> tensor<1x4x4x8xf32>
  %2 = mpc.conv %0, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) : (tensor<1x4x4x16xbf16>, tensor<8x16x3x3xbf16>) -> tensor<1x4x4x8xf32>
  return %1, %2 : tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32>
}
func.func @joined_halves(%x: tensor<1x4x4x4xbf16>, %y: tensor<1x4x4x4xbf16>, %w: tensor<8x8x3x3xbf16>) -> tensor<1x4x4x8xf32> {
  %0 = mpc.concat %x, %y axis(3) : (tensor<1x4x4x4xbf16>, tensor<1x4x4x4xbf16>) -> tensor<1x4x4x8xbf16>
  %2 = mpc.conv %0, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) : (tensor<1x4x4x8xbf16>, tensor<8x8x3x3xbf16>) -> tensor<1x4x4x8xf32>
  return %2 : tensor<1x4x4x8xf32>
}

// Padding rows of attention are sliced off in the transpose before the next matmul.
// CHECK-LABEL: func.func @cut_rows
// CHECK: mpc.fusion kind(attention) {{.*}} -> tensor<1x5x2x8xf32>
// CHECK: mpc.attention
// CHECK-NEXT: mpc.slice
// CHECK-NEXT: mpc.transpose
// CHECK-NOT: mpc.fusion
func.func @cut_rows(%q: tensor<1x2x8x8xf32>) -> tensor<1x5x2x8xf32> {
  %0 = mpc.attention %q, %q, %q scale(0.5) : (tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  %1 = mpc.slice %0 [0, 0, 0, 0] [1, 2, 5, 8] : tensor<1x2x8x8xf32> to tensor<1x2x5x8xf32>
  %2 = mpc.transpose %1 [0, 2, 1, 3] : tensor<1x2x5x8xf32> to tensor<1x5x2x8xf32>
  return %2 : tensor<1x5x2x8xf32>
}

// A norm reads its rows from the operands of the concat: the class token, the patches, or padding.
// CHECK-LABEL: func.func @tokens
// CHECK: mpc.fusion kind(row) {{.*}}tensor<2x1x8xf32>{{.*}}tensor<2x4x8xf32>{{.*}} -> tensor<2x8x8xf32>
// CHECK: mpc.concat
// CHECK: mpc.pad
// CHECK: mpc.layer_norm
// CHECK-NOT: mpc.fusion
func.func @tokens(%c: tensor<2x1x8xf32>, %p: tensor<2x4x8xf32>, %s: tensor<8xf32>) -> tensor<2x8x8xf32> {
  %z = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.concat %c, %p axis(1) : (tensor<2x1x8xf32>, tensor<2x4x8xf32>) -> tensor<2x5x8xf32>
  %1 = mpc.pad %0, %z low([0, 0, 0]) high([0, 3, 0]) : (tensor<2x5x8xf32>, tensor<f32>) -> tensor<2x8x8xf32>
  %2 = mpc.layer_norm %1, %s axis(2) epsilon(1.0e-5) : (tensor<2x8x8xf32>, tensor<8xf32>) -> tensor<2x8x8xf32>
  return %2 : tensor<2x8x8xf32>
}

// A matmul stores channels first where its residual has that order.
// CHECK-LABEL: func.func @pixels_of_tokens
// CHECK: mpc.fusion kind(contraction)
// CHECK-NEXT: mpc.matmul
// CHECK-NEXT: mpc.transpose
// CHECK-NEXT: mpc.reshape
// CHECK-NEXT: mpc.add
// CHECK-NOT: mpc.fusion
// CPU-LABEL: func.func @pixels_of_tokens
// CPU: mpc.fusion kind(contraction)
// CPU: mpc.fusion kind(transpose)
func.func @pixels_of_tokens(%x: tensor<2x64x32xbf16>, %w: tensor<32x32xbf16>, %y: tensor<2x32x8x8xf32>) -> tensor<2x32x8x8xf32> {
  %0 = mpc.matmul %x, %w : (tensor<2x64x32xbf16>, tensor<32x32xbf16>) -> tensor<2x64x32xf32>
  %1 = mpc.transpose %0 [0, 2, 1] : tensor<2x64x32xf32> to tensor<2x32x64xf32>
  %2 = mpc.reshape %1 : tensor<2x32x64xf32> to tensor<2x32x8x8xf32>
  %3 = mpc.add %y, %2 : (tensor<2x32x8x8xf32>, tensor<2x32x8x8xf32>) -> tensor<2x32x8x8xf32>
  return %3 : tensor<2x32x8x8xf32>
}

// A scalar per row is loaded from its source.
// CHECK-LABEL: func.func @scaled_rows
// CHECK: mpc.fusion kind(contraction)
// CHECK-NEXT: mpc.matmul
// CHECK-NEXT: mpc.transpose
// CHECK-NEXT: mpc.mul
// CHECK-NOT: mpc.fusion
func.func @scaled_rows(%x: tensor<4x8x16xbf16>, %w: tensor<4x16x16xbf16>, %s: tensor<8x1x4xf32>) -> tensor<4x8x16xf32> {
  %0 = mpc.matmul %x, %w : (tensor<4x8x16xbf16>, tensor<4x16x16xbf16>) -> tensor<4x8x16xf32>
  %1 = mpc.transpose %s [2, 0, 1] : tensor<8x1x4xf32> to tensor<4x8x1xf32>
  %2 = mpc.mul %0, %1 : (tensor<4x8x16xf32>, tensor<4x8x1xf32>) -> tensor<4x8x16xf32>
  return %2 : tensor<4x8x16xf32>
}

// Operands that are loaded once are computed in the prologue: concatenated, scaled, rounded.
// CHECK-LABEL: func.func @computed_pixels
// CHECK: mpc.fusion kind(convolution)
// CHECK-NEXT: mpc.concat
// CHECK-NEXT: mpc.mul
// CHECK-NEXT: mpc.relu
// CHECK-NEXT: mpc.cast
// CHECK-NEXT: mpc.conv
// CHECK-NOT: mpc.fusion
// CPU-LABEL: func.func @computed_pixels
// CPU: mpc.fusion kind(elementwise)
// CPU: mpc.fusion kind(convolution)
func.func @computed_pixels(%x: tensor<1x8x8x16xf32>, %y: tensor<1x8x8x8xf32>, %s: tensor<24xf32>, %w: tensor<16x24x1x1xbf16>) -> tensor<1x8x8x16xf32> {
  %0 = mpc.concat %x, %y axis(3) : (tensor<1x8x8x16xf32>, tensor<1x8x8x8xf32>) -> tensor<1x8x8x24xf32>
  %1 = mpc.mul %0, %s : (tensor<1x8x8x24xf32>, tensor<24xf32>) -> tensor<1x8x8x24xf32>
  %2 = mpc.relu %1 : tensor<1x8x8x24xf32>
  %3 = mpc.cast %2 : tensor<1x8x8x24xf32> to tensor<1x8x8x24xbf16>
  %4 = mpc.conv %3, %w strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<1x8x8x24xbf16>, tensor<16x24x1x1xbf16>) -> tensor<1x8x8x16xf32>
  return %4 : tensor<1x8x8x16xf32>
}

// A 3x3 window reads each pixel nine times, and 512 columns are two blocks: computed before.
// CHECK-LABEL: func.func @computed_before_window
// CHECK: mpc.fusion kind(elementwise)
// CHECK: mpc.fusion kind(convolution)
// CHECK-LABEL: func.func @computed_before_columns
// CHECK: mpc.fusion kind(elementwise)
// CHECK: mpc.fusion kind(contraction)
func.func @computed_before_window(%x: tensor<1x8x8x16xf32>, %w: tensor<16x16x3x3xbf16>) -> tensor<1x8x8x16xf32> {
  %0 = mpc.relu %x : tensor<1x8x8x16xf32>
  %1 = mpc.cast %0 : tensor<1x8x8x16xf32> to tensor<1x8x8x16xbf16>
  %2 = mpc.conv %1, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last) : (tensor<1x8x8x16xbf16>, tensor<16x16x3x3xbf16>) -> tensor<1x8x8x16xf32>
  return %2 : tensor<1x8x8x16xf32>
}
func.func @computed_before_columns(%x: tensor<64x16xf32>, %w: tensor<16x512xbf16>) -> tensor<64x512xf32> {
  %0 = mpc.relu %x : tensor<64x16xf32>
  %1 = mpc.cast %0 : tensor<64x16xf32> to tensor<64x16xbf16>
  %2 = mpc.matmul %1, %w : (tensor<64x16xbf16>, tensor<16x512xbf16>) -> tensor<64x512xf32>
  return %2 : tensor<64x512xf32>
}

// A group norm fuses per-channel ops and stores channels last. Where the image is
// large, strided stores take longer than a separate launch that transposes tiles.
// CHECK-LABEL: func.func @group_norm
// CHECK: mpc.fusion kind(row) {{.*}} -> tensor<2x8x8x16xbf16>
// CHECK-NEXT: mpc.layer_norm
// CHECK-NEXT: mpc.reshape
// CHECK-NEXT: mpc.mul
// CHECK-NEXT: mpc.cast
// CHECK-NEXT: mpc.transpose
// CHECK-NOT: mpc.fusion
// CPU-LABEL: func.func @group_norm
// CPU: mpc.fusion kind(row)
// CPU: mpc.fusion kind(transpose)
// CHECK-LABEL: func.func @large_group_norm
// CHECK: mpc.fusion kind(row)
// CHECK: mpc.fusion kind(transpose)
func.func @group_norm(%x: tensor<2x4x256xf32>, %g: tensor<1xf32>, %s: tensor<16x1x1xf32>) -> tensor<2x8x8x16xbf16> {
  %0 = mpc.layer_norm %x, %g axis(2) epsilon(1.0e-5) : (tensor<2x4x256xf32>, tensor<1xf32>) -> tensor<2x4x256xf32>
  %1 = mpc.reshape %0 : tensor<2x4x256xf32> to tensor<2x16x8x8xf32>
  %2 = mpc.mul %1, %s : (tensor<2x16x8x8xf32>, tensor<16x1x1xf32>) -> tensor<2x16x8x8xf32>
  %3 = mpc.cast %2 : tensor<2x16x8x8xf32> to tensor<2x16x8x8xbf16>
  %4 = mpc.transpose %3 [0, 2, 3, 1] : tensor<2x16x8x8xbf16> to tensor<2x8x8x16xbf16>
  return %4 : tensor<2x8x8x16xbf16>
}
func.func @large_group_norm(%x: tensor<16x32x65536xf32>, %g: tensor<1xf32>, %s: tensor<128x1x1xf32>) -> tensor<16x128x128x128xbf16> {
  %0 = mpc.layer_norm %x, %g axis(2) epsilon(1.0e-5) : (tensor<16x32x65536xf32>, tensor<1xf32>) -> tensor<16x32x65536xf32>
  %1 = mpc.reshape %0 : tensor<16x32x65536xf32> to tensor<16x128x128x128xf32>
  %2 = mpc.mul %1, %s : (tensor<16x128x128x128xf32>, tensor<128x1x1xf32>) -> tensor<16x128x128x128xf32>
  %3 = mpc.cast %2 : tensor<16x128x128x128xf32> to tensor<16x128x128x128xbf16>
  %4 = mpc.transpose %3 [0, 2, 3, 1] : tensor<16x128x128x128xbf16> to tensor<16x128x128x128xbf16>
  return %4 : tensor<16x128x128x128xbf16>
}
