// A training step of a convolution network on a GPU: the forward and the data gradient of
// every layer, the filters' gradients with their biases' sums, the loss with its gradient,
// and one update: sixteen kernels, some fused horizontally (the data gradient of the second
// layer with its filter gradient); in f32 one is recomputed in its consumer. Images are
// channels last, so that only the filter that the data gradient reads is transposed.
// RUN: mpc dump %s --training "step optimizer=sgd optimizer-numbers=momentum=0.9 learning-rate=0.01" --target cuda:sm_80 --after plan | FileCheck %s --check-prefixes=CHECK,F32
// RUN: mpc dump %s --training "step optimizer=sgd optimizer-numbers=momentum=0.9 learning-rate=0.01" --policy mixed_bfloat16 --target cuda:sm_80 --after plan | FileCheck %s --check-prefixes=CHECK,BF16

// CHECK: exe.program @main
// CHECK: exe.launch @k_conv2_conv1 kind(transpose)
// CHECK-NEXT: exe.launch @k_conv2_1 kind(convolution)
// CHECK-NEXT: exe.launch @k_pool kind(reduce)
// CHECK-NEXT: exe.launch @k_fc1 kind(contraction)
// F32-NEXT: exe.launch @k_fc2_probabilities kind(contraction)
// BF16-NEXT: exe.launch @k_fc2 kind(contraction)
// BF16-NEXT: exe.launch @k_probabilities kind(row)
// CHECK-NEXT: exe.launch @k_fc2_1_fc2_2 kind(contraction)
// CHECK-NEXT: exe.launch @k_fc1_1_fc1_2 kind(contraction)
// CHECK-NEXT: exe.launch @{{.*}} kind(reduce)
// CHECK-NEXT: exe.launch @{{.*}} kind(library)
// CHECK-NEXT: exe.launch @{{.*}} kind(library)
// CHECK-NEXT: exe.launch @k_update kind(update)
// CHECK-NOT: exe.{{launch|copy}}

// With a loss scale two launches follow the last gradient, and the filters' kernels store
// the values that both of these read.
// RUN: mpc dump %s --training "step optimizer=sgd optimizer-numbers=momentum=0.9 learning-rate=0.01" --policy mixed_float16 --target cuda:sm_80 --after plan | FileCheck %s --check-prefix=SCALED
// SCALED-NOT: kind(elementwise)
// SCALED: exe.launch @{{.*}} kind(library)
// SCALED-NEXT: exe.launch @{{.*}} kind(library)
// SCALED-NEXT: exe.launch @k_check kind(reduce)
// SCALED-NEXT: exe.launch @k_update kind(update)
// SCALED-NOT: exe.{{launch|copy}}
func.func @main(%x: tensor<8x28x28x1xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<8x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "probabilities"}) {
  %f1 = mpc.constant dense<0.01> : tensor<32x1x3x3xf32> loc("conv1/weight")
  %b1 = mpc.constant dense<0.5> : tensor<32xf32> loc("conv1/bias")
  %f2 = mpc.constant dense<0.02> : tensor<64x32x3x3xf32> loc("conv2/weight")
  %b2 = mpc.constant dense<0.25> : tensor<64xf32> loc("conv2/bias")
  %w1 = mpc.constant dense<0.03> : tensor<9216x16xf32> loc("fc1/weight")
  %b3 = mpc.constant dense<0.125> : tensor<16xf32> loc("fc1/bias")
  %w2 = mpc.constant dense<0.04> : tensor<16x10xf32> loc("fc2/weight")
  %b4 = mpc.constant dense<0.75> : tensor<10xf32> loc("fc2/bias")
  %0 = mpc.conv %x, %f1 strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<8x28x28x1xf32>, tensor<32x1x3x3xf32>) -> tensor<8x26x26x32xf32> loc("conv1")
  %1 = mpc.add %0, %b1 : (tensor<8x26x26x32xf32>, tensor<32xf32>) -> tensor<8x26x26x32xf32> loc("conv1")
  %2 = mpc.relu %1 : tensor<8x26x26x32xf32> loc("relu1")
  %3 = mpc.conv %2, %f2 strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<8x26x26x32xf32>, tensor<64x32x3x3xf32>) -> tensor<8x24x24x64xf32> loc("conv2")
  %4 = mpc.add %3, %b2 : (tensor<8x24x24x64xf32>, tensor<64xf32>) -> tensor<8x24x24x64xf32> loc("conv2")
  %5 = mpc.relu %4 : tensor<8x24x24x64xf32> loc("relu2")
  %6 = mpc.max_pool %5 window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : tensor<8x24x24x64xf32> -> tensor<8x12x12x64xf32> loc("pool")
  %7 = mpc.reshape %6 : tensor<8x12x12x64xf32> to tensor<8x9216xf32> loc("flatten")
  %8 = mpc.matmul %7, %w1 : (tensor<8x9216xf32>, tensor<9216x16xf32>) -> tensor<8x16xf32> loc("fc1")
  %9 = mpc.add %8, %b3 : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32> loc("fc1")
  %10 = mpc.relu %9 : tensor<8x16xf32> loc("relu3")
  %11 = mpc.matmul %10, %w2 : (tensor<8x16xf32>, tensor<16x10xf32>) -> tensor<8x10xf32> loc("fc2")
  %12 = mpc.add %11, %b4 : (tensor<8x10xf32>, tensor<10xf32>) -> tensor<8x10xf32> loc("fc2")
  %13 = mpc.softmax %12 axis(1) : tensor<8x10xf32> loc("probabilities")
  return %13 : tensor<8x10xf32>
}
