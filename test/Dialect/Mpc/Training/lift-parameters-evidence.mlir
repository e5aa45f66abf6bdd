// RUN: mpc-opt %s --split-input-file --mpc-lift-parameters 2>&1 >/dev/null | FileCheck %s
// RUN: mpc-opt %s --split-input-file --mpc-lift-parameters | FileCheck %s --check-prefix=LIFTED

// The uses of a constant distinguish parameters from buffers: a bias of one element
// or the slope of a rectifier; input normalization, angles, mask fill values. A
// scalar of a formula is neither and is not reported.
// CHECK: loc("taps"): tensor<2x1x3xf32> is not trained: it is a fixed filter
// CHECK-NEXT: loc("shift"): tensor<2x1xf32> is not trained: it normalizes an input in 'shifted'
// CHECK-NEXT: loc("w"): tensor<10x1xf32> is trained: it is multiplied by activations in 'head'
// CHECK-NEXT: loc("b"): tensor<1xf32> is trained: it is added to the result of 'head'
// CHECK-NEXT: loc("slope"): tensor<1xf32> is trained: it is the slope of the rectifier 'scaled'
// CHECK-NOT: two
// LIFTED-LABEL: @layers(
// LIFTED-SAME: %{{[a-z0-9]+}}: tensor<4x2x5xf32>
// LIFTED-SAME: tensor<10x1xf32> {{{.*}}mpc.name = "w"
// LIFTED-SAME: tensor<1xf32> {{{.*}}mpc.name = "b"
// LIFTED-SAME: tensor<1xf32> {{{.*}}mpc.name = "slope", mpc.role = #mpc.role<parameter>}) ->
func.func @layers(%x: tensor<4x2x5xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x1xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %taps = mpc.constant dense<[[[0.25, 0.5, 0.25]], [[0.25, 0.5, 0.25]]]> : tensor<2x1x3xf32> loc("taps")
  %shift = mpc.constant dense<[[0.5], [0.25]]> : tensor<2x1xf32> loc("shift")
  %w = mpc.constant dense<0.5> : tensor<10x1xf32> loc("w")
  %b = mpc.constant dense<0.25> : tensor<1xf32> loc("b")
  %slope = mpc.constant dense<0.25> : tensor<1xf32> loc("slope")
  %two = mpc.constant dense<2.0> : tensor<f32> loc("two")
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.sub %x, %shift : (tensor<4x2x5xf32>, tensor<2x1xf32>) -> tensor<4x2x5xf32> loc("shifted")
  %1 = mpc.conv %0, %taps strides([1]) pad([1], [1]) dilations([1]) groups(2) : (tensor<4x2x5xf32>, tensor<2x1x3xf32>) -> tensor<4x2x5xf32> loc("blur")
  %2 = mpc.reshape %1 : tensor<4x2x5xf32> to tensor<4x10xf32>
  %3 = mpc.matmul %2, %w : (tensor<4x10xf32>, tensor<10x1xf32>) -> tensor<4x1xf32> loc("head")
  %4 = mpc.add %3, %b : (tensor<4x1xf32>, tensor<1xf32>) -> tensor<4x1xf32> loc("biased")
  %5 = mpc.compare ge %4, %zero : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xi1>
  %6 = mpc.mul %4, %slope : (tensor<4x1xf32>, tensor<1xf32>) -> tensor<4x1xf32> loc("scaled")
  %7 = mpc.select %5, %4, %6 : (tensor<4x1xi1>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %8 = mpc.mul %7, %two : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32> loc("doubled")
  return %8 : tensor<4x1xf32>
}

// -----

// Values decide the other cases: a mask of finite numbers, a table of sines and a
// learned one, a grid. Names of parameters and buffers take precedence over values.
// CHECK: loc("table"): tensor<6x2xf32> is not trained: it contains samples of sines, or a ramp
// CHECK-NEXT: loc("learned"): tensor<6x2xf32> is trained: it is combined with activations in
// CHECK-NEXT: loc("causal"): tensor<6x2xf32> is not trained: it contains the values of a mask
// CHECK-NEXT: loc("points"): tensor<6x2xf32> is not trained: it contains the points of a grid
// CHECK-NEXT: loc("net.std"): tensor<2xf32> is not trained: its name is that of a buffer
// CHECK-NEXT: loc("sines.weight"): tensor<6x2xf32> is trained: its name is that of a parameter
// CHECK-NEXT: loc("threshold"): tensor<2xf32> is not trained: no gradient reaches it
// CHECK-NEXT: loc("counts"): tensor<2xi32> is not trained: parameters are floats of 16 bits or more
// CHECK-NEXT: loc("rows"): tensor<6x2xf32> is trained: it is the embedding table of 'embedding'
// LIFTED-LABEL: @values(
func.func @values(%ids: tensor<6xi32> {mpc.role = #mpc.role<input>, mpc.name = "ids"})
    -> (tensor<6x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}, tensor<6x2xi1> {mpc.role = #mpc.role<output>, mpc.name = "c"}, tensor<2xi32> {mpc.role = #mpc.role<output>, mpc.name = "n"}) {
  %table = mpc.constant dense<[[0.0, 1.0], [0.84147, 0.5403], [0.9093, -0.41615], [0.14112, -0.98999], [-0.7568, -0.65364], [-0.95892, 0.28366]]> : tensor<6x2xf32> loc("table")
  %learned = mpc.constant dense<[[0.1, 0.7], [0.3, -0.2], [0.5, 0.9], [-0.4, 0.8], [0.35, 0.6], [-0.1, 0.45]]> : tensor<6x2xf32> loc("learned")
  %causal = mpc.constant dense<[[0.0, -1.0e4], [0.0, 0.0], [0.0, -1.0e4], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]> : tensor<6x2xf32> loc("causal")
  %points = mpc.constant dense<[[0.5, 0.5], [1.5, 0.5], [2.5, 0.5], [0.5, 1.5], [1.5, 1.5], [2.5, 1.5]]> : tensor<6x2xf32> loc("points")
  %std = mpc.constant dense<[0.5, 0.25]> : tensor<2xf32> loc("net.std")
  %sines = mpc.constant dense<[[0.0, 1.0], [0.84147, 0.5403], [0.9093, -0.41615], [0.14112, -0.98999], [-0.7568, -0.65364], [-0.95892, 0.28366]]> : tensor<6x2xf32> loc("sines.weight")
  %threshold = mpc.constant dense<[0.3, 0.6]> : tensor<2xf32> loc("threshold")
  %counts = mpc.constant dense<[1, 2]> : tensor<2xi32> loc("counts")
  %rows = mpc.constant dense<[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0], [8.0, 9.0], [10.0, 11.0]]> : tensor<6x2xf32> loc("rows")
  %0 = mpc.gather %rows, %ids axis(0) : (tensor<6x2xf32>, tensor<6xi32>) -> tensor<6x2xf32> loc("embedding")
  %1 = mpc.add %0, %table : (tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<6x2xf32> loc("a")
  %2 = mpc.add %1, %learned : (tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<6x2xf32> loc("b")
  %3 = mpc.add %2, %causal : (tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<6x2xf32> loc("c")
  %4 = mpc.add %3, %points : (tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<6x2xf32> loc("d")
  %5 = mpc.div %4, %std : (tensor<6x2xf32>, tensor<2xf32>) -> tensor<6x2xf32> loc("e")
  %6 = mpc.add %5, %sines : (tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<6x2xf32> loc("f")
  %7 = mpc.compare gt %6, %threshold : (tensor<6x2xf32>, tensor<2xf32>) -> tensor<6x2xi1> loc("g")
  return %6, %7, %counts : tensor<6x2xf32>, tensor<6x2xi1>, tensor<2xi32>
}

// -----

// A scale and a shift of inputs are parameters where the model has no others.
// CHECK: loc("gain"): tensor<2xf32> is trained: it normalizes an input in 'y', and the model has no other parameter
// LIFTED-LABEL: @calibration(
func.func @calibration(%x: tensor<4x2xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %gain = mpc.constant dense<[0.5, 0.25]> : tensor<2xf32> loc("gain")
  %0 = mpc.mul %x, %gain : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("y")
  return %0 : tensor<4x2xf32>
}

// -----

// The steps of a recurrent layer have a weight; their initial state of zeros is none.
// CHECK: loc("r"): tensor<1x4x4xf32> is trained: it is a weight of 'steps'
// CHECK: loc("h"): tensor<1x1x4xf32> is not trained: it is an initial state of 'steps'
// LIFTED-LABEL: @steps(
// LIFTED-SAME: tensor<1x4x4xf32> {{{.*}}mpc.name = "r", mpc.role = #mpc.role<parameter>}) ->
func.func @steps(%x: tensor<3x1x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<3x1x1x4xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %r = mpc.constant dense<0.5> : tensor<1x4x4xf32> loc("r")
  %h = mpc.constant dense<0.0> : tensor<1x1x4xf32> loc("h")
  %0:2 = mpc.recurrence rnn %x, %r initial_h(%h) : (tensor<3x1x4xf32>, tensor<1x4x4xf32>, tensor<1x1x4xf32>) -> (tensor<3x1x1x4xf32>, tensor<1x1x4xf32>) loc("steps")
  return %0#0 : tensor<3x1x1x4xf32>
}

// -----

// Constants of nodes in a file that has weights in initializers: those that layers
// use as weights are trained, literals are not. Numbers are not reported.
// CHECK: loc("w"{{.*}}): tensor<2x2xf32> is trained: it is multiplied by activations in 'fc'
// CHECK-NEXT: loc("b"): tensor<2xf32> is trained: it is added to the result of 'fc'
// CHECK-NEXT: loc("ones"{{.*}}): tensor<2xf32> is not trained: it has no effect: it scales or shifts the normalization 'norm'
// CHECK-NEXT: loc("levels"{{.*}}): tensor<2xf32> is not trained: it is a literal of the model's graph
// CHECK-NOT: half
// LIFTED-LABEL: @nodes(
func.func @nodes(%x: tensor<4x2x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x2x3xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w = mpc.constant dense<[[0.5, 0.25], [0.75, 1.0]]> : tensor<2x2xf32> loc("w"(fused<{mpc.origin = "node"}>["m.onnx":0:0]))
  %b = mpc.constant dense<[0.5, 0.25]> : tensor<2xf32> loc("b"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %ones = mpc.constant dense<1.0> : tensor<2xf32> loc("ones"(fused<{mpc.origin = "node"}>["m.onnx":1:0]))
  %levels = mpc.constant dense<[0.5, 0.25]> : tensor<2xf32> loc("levels"(fused<{mpc.origin = "node"}>["m.onnx":2:0]))
  %half = mpc.constant dense<0.5> : tensor<f32> loc("half"(fused<{mpc.origin = "node"}>["m.onnx":3:0]))
  %zeros = mpc.constant dense<0.0> : tensor<2xf32>
  %0 = mpc.transpose %x [0, 2, 1] : tensor<4x2x3xf32> to tensor<4x3x2xf32>
  %1 = mpc.matmul %0, %w : (tensor<4x3x2xf32>, tensor<2x2xf32>) -> tensor<4x3x2xf32> loc("fc")
  %2 = mpc.add %1, %b : (tensor<4x3x2xf32>, tensor<2xf32>) -> tensor<4x3x2xf32> loc("biased")
  %3 = mpc.mul %2, %levels : (tensor<4x3x2xf32>, tensor<2xf32>) -> tensor<4x3x2xf32> loc("leveled")
  %4 = mpc.mul %3, %half : (tensor<4x3x2xf32>, tensor<f32>) -> tensor<4x3x2xf32> loc("halved")
  %5 = mpc.transpose %4 [0, 2, 1] : tensor<4x3x2xf32> to tensor<4x2x3xf32>
  %6 = mpc.instance_norm %5, %ones, %zeros epsilon(1.0e-5) : (tensor<4x2x3xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<4x2x3xf32> loc("norm")
  return %6 : tensor<4x2x3xf32>
}

// -----

// A file whose weights are all such constants is treated like one with initializers.
// CHECK: loc("gain"{{.*}}): tensor<2xf32> is trained: it is combined with activations in 'scaled'
// LIFTED-LABEL: @no_initializers(
func.func @no_initializers(%x: tensor<4x2xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %gain = mpc.constant dense<[0.5, 0.25]> : tensor<2xf32> loc("gain"(fused<{mpc.origin = "node"}>["m.onnx":0:0]))
  %0 = mpc.tanh %x : tensor<4x2xf32>
  %1 = mpc.mul %0, %gain : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("scaled")
  return %1 : tensor<4x2xf32>
}
