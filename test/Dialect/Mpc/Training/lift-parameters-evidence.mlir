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
// learned one, a grid. Sines take precedence over the name of a parameter.
// CHECK: loc("table"): tensor<6x2xf32> is not trained: it contains samples of sines
// CHECK-NEXT: loc("learned"): tensor<6x2xf32> is trained: it is combined with activations in
// CHECK-NEXT: loc("causal"): tensor<6x2xf32> is not trained: it contains the values of a mask
// CHECK-NEXT: loc("points"): tensor<6x2xf32> is not trained: it contains the coordinates of a grid, or sines
// CHECK-NEXT: loc("shifted"): tensor<6x2xf32> is not trained: it contains the points of a grid
// CHECK-NEXT: loc("net.std"): tensor<2xf32> is not trained: its name is that of a buffer
// CHECK-NEXT: loc("sines.weight"): tensor<6x2xf32> is not trained: it contains samples of sines
// CHECK-NEXT: loc("pos_embedding"): tensor<6x2xf32> is trained: its name is that of a parameter
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
  %shifted = mpc.constant dense<[[0.5, 0.5], [1.5, 1.0], [2.5, 0.5], [0.5, 1.5], [1.5, 1.5], [2.5, 1.5]]> : tensor<6x2xf32> loc("shifted")
  %std = mpc.constant dense<[0.5, 0.25]> : tensor<2xf32> loc("net.std")
  %sines = mpc.constant dense<[[0.0, 1.0], [0.84147, 0.5403], [0.9093, -0.41615], [0.14112, -0.98999], [-0.7568, -0.65364], [-0.95892, 0.28366]]> : tensor<6x2xf32> loc("sines.weight")
  %positions = mpc.constant dense<[[0.1, 0.6], [0.3, -0.1], [0.5, 0.9], [-0.4, 0.7], [0.35, 0.6], [-0.1, 0.45]]> : tensor<6x2xf32> loc("pos_embedding")
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
  %7 = mpc.add %6, %positions : (tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<6x2xf32>
  %8 = mpc.add %7, %shifted : (tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<6x2xf32>
  %9 = mpc.compare gt %8, %threshold : (tensor<6x2xf32>, tensor<2xf32>) -> tensor<6x2xi1> loc("g")
  return %8, %9, %counts : tensor<6x2xf32>, tensor<6x2xi1>, tensor<2xi32>
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

// An initial state that the file stores under a name is learned, also from zeros on.
// CHECK: loc("h0"{{.*}}): tensor<1x1x4xf32> is trained: it is an initial state of 'named'
// CHECK: loc("onnx::RNN_7"{{.*}}): tensor<1x1x4xf32> is not trained: it is an initial state of 'unnamed'
func.func @states(%x: tensor<3x1x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<3x1x1x4xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %r = mpc.constant dense<0.5> : tensor<1x4x4xf32> loc("r"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %h0 = mpc.constant dense<0.0> : tensor<1x1x4xf32> loc("h0"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %none = mpc.constant dense<0.0> : tensor<1x1x4xf32> loc("onnx::RNN_7"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %0:2 = mpc.recurrence rnn %x, %r initial_h(%h0) : (tensor<3x1x4xf32>, tensor<1x4x4xf32>, tensor<1x1x4xf32>) -> (tensor<3x1x1x4xf32>, tensor<1x1x4xf32>) loc("named")
  %1 = mpc.reshape %0#0 : tensor<3x1x1x4xf32> to tensor<3x1x4xf32>
  %2:2 = mpc.recurrence rnn %1, %r initial_h(%none) : (tensor<3x1x4xf32>, tensor<1x4x4xf32>, tensor<1x1x4xf32>) -> (tensor<3x1x1x4xf32>, tensor<1x1x4xf32>) loc("unnamed")
  return %2#0 : tensor<3x1x1x4xf32>
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
  %0 = mpc.softplus %x : tensor<4x2xf32>
  %1 = mpc.mul %0, %gain : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("scaled")
  return %1 : tensor<4x2xf32>
}

// -----

// Scales, zero points and codebooks of quantized values are not trained: of weights
// in integers, of rounded activations, and in products of scales.
// CHECK: loc("codebook"): tensor<4xf32> is not trained: it is a scale or zero point of quantized values in 'decoded'
// CHECK-NEXT: loc("table_scale"): tensor<6x1xf32> is not trained: it is a scale or zero point of quantized values in 'rows'
// CHECK-NEXT: loc("zero"): tensor<1x2xf32> is not trained: it is a scale or zero point of quantized values in 'centered'
// CHECK-NEXT: loc("scale"): tensor<1x2xf32> is not trained: it is a scale or zero point of quantized values in 'weight'
// CHECK-NEXT: loc("input_scale"): tensor<1x2xf32> is not trained: it is a scale or zero point of quantized values in 'scaled'
// CHECK-NEXT: loc("factor"): tensor<2xf32> is not trained: it is a scale or zero point of quantized values in 'factors'
// CHECK-NEXT: loc("lora"): tensor<2x1xf32> is trained: it is multiplied by activations in 'fc'
// CHECK-NEXT: loc("up"): tensor<1x2xf32> is trained
// CHECK-NEXT: loc("gain"): tensor<2xf32> is trained: it is combined with activations in 'gained'
// LIFTED-LABEL: @quantized(
func.func @quantized(%ids: tensor<4xi32> {mpc.role = #mpc.role<input>, mpc.name = "ids"})
    -> (tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %table = mpc.constant dense<[[0, 1], [3, 2], [1, 1], [2, 0], [3, 3], [0, 2]]> : tensor<6x2xui8>
  %codes = mpc.constant dense<[[0, 3], [1, 2]]> : tensor<2x2xi32>
  %int8 = mpc.constant dense<[[5, -9], [7, 3]]> : tensor<2x2xi8>
  %codebook = mpc.constant dense<[-1.0, -0.25, 0.25, 1.0]> : tensor<4xf32> loc("codebook")
  %table_scale = mpc.constant dense<[[0.5], [0.25], [0.75], [0.375], [0.3], [0.2]]> : tensor<6x1xf32> loc("table_scale")
  %zero = mpc.constant dense<[[1.0, -1.0]]> : tensor<1x2xf32> loc("zero")
  %scale = mpc.constant dense<[[0.01, 0.02]]> : tensor<1x2xf32> loc("scale")
  %input_scale = mpc.constant dense<[[0.1, 0.2]]> : tensor<1x2xf32> loc("input_scale")
  %factor = mpc.constant dense<[0.5, 0.75]> : tensor<2xf32> loc("factor")
  %lora = mpc.constant dense<[[0.5], [0.25]]> : tensor<2x1xf32> loc("lora")
  %up = mpc.constant dense<1.0> : tensor<1x2xf32> loc("up")
  %gain = mpc.constant dense<[0.5, 0.75]> : tensor<2xf32> loc("gain")
  %0 = mpc.gather %table, %ids axis(0) : (tensor<6x2xui8>, tensor<4xi32>) -> tensor<4x2xui8>
  %1 = mpc.cast %0 : tensor<4x2xui8> to tensor<4x2xf32>
  %2 = mpc.gather %table_scale, %ids axis(0) : (tensor<6x1xf32>, tensor<4xi32>) -> tensor<4x1xf32> loc("rows")
  %3 = mpc.mul %1, %2 : (tensor<4x2xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
  %4 = mpc.cast %int8 : tensor<2x2xi8> to tensor<2x2xf32>
  %5 = mpc.sub %4, %zero : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32> loc("centered")
  %6 = mpc.mul %5, %scale : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32> loc("weight")
  %7 = mpc.matmul %lora, %up : (tensor<2x1xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %8 = mpc.add %6, %7 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %9 = mpc.matmul %3, %8 : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32> loc("fc")
  %10 = mpc.div %9, %input_scale : (tensor<4x2xf32>, tensor<1x2xf32>) -> tensor<4x2xf32> loc("scaled")
  %11 = mpc.round %10 : tensor<4x2xf32>
  %12 = mpc.cast %11 : tensor<4x2xf32> to tensor<4x2xi8>
  %13 = mpc.cast %12 : tensor<4x2xi8> to tensor<4x2xf32>
  %14 = mpc.reduce_max %9 axes([0]) : tensor<4x2xf32> -> tensor<2xf32>
  %15 = mpc.mul %14, %factor : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc("factors")
  %16 = mpc.mul %13, %15 : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %17 = mpc.mul %16, %gain : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("gained")
  %18 = mpc.gather %codebook, %codes axis(0) : (tensor<4xf32>, tensor<2x2xi32>) -> tensor<2x2xf32> loc("decoded")
  %19 = mpc.matmul %17, %18 : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  return %19 : tensor<4x2xf32>
}

// -----

// A weight that the file stores twice, once transposed, is one parameter; equal
// weights of two layers are two.
// CHECK: loc("emb.weight"): tensor<3x2xf32> is trained: its name is that of a parameter
// CHECK-NEXT: loc("same"): tensor<3x2xf32> is trained
// CHECK-NEXT: loc("head"): tensor<2x3xf32> is trained: it is the transpose of 'emb.weight'
// LIFTED-LABEL: @tied(
// LIFTED-SAME: %[[EMB:[a-z0-9]+]]: tensor<3x2xf32> {{{[^{]*}}mpc.name = "emb.weight", mpc.role = #mpc.role<parameter>}
// LIFTED-SAME: tensor<3x2xf32> {{{[^{]*}}mpc.name = "same", mpc.role = #mpc.role<parameter>})
// LIFTED: %[[HEAD:.*]] = mpc.transpose %[[EMB]] [1, 0]
// LIFTED: mpc.gather %[[EMB]]
// LIFTED: mpc.matmul %{{.*}}, %[[HEAD]]
func.func @tied(%ids: tensor<4xi32> {mpc.role = #mpc.role<input>, mpc.name = "ids"})
    -> (tensor<4x3xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %emb = mpc.constant dense<[[0.5, 0.25], [0.75, 1.0], [0.125, 2.0]]> : tensor<3x2xf32> loc("emb.weight")
  %same = mpc.constant dense<[[0.5, 0.25], [0.75, 1.0], [0.125, 2.0]]> : tensor<3x2xf32> loc("same")
  %head = mpc.constant dense<[[0.5, 0.75, 0.125], [0.25, 1.0, 2.0]]> : tensor<2x3xf32> loc("head")
  %0 = mpc.gather %emb, %ids axis(0) : (tensor<3x2xf32>, tensor<4xi32>) -> tensor<4x2xf32>
  %1 = mpc.gather %same, %ids axis(0) : (tensor<3x2xf32>, tensor<4xi32>) -> tensor<4x2xf32>
  %2 = mpc.add %0, %1 : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %3 = mpc.matmul %2, %head : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %3 : tensor<4x3xf32>
}

// -----

// Constants in the place of a layer's weight: a cosine transform and a selection by
// their values, a transform and a window by their names. Whole words count.
// CHECK: loc("cosines"): tensor<5x2xf32> is not trained: it contains samples of sines
// CHECK-NEXT: loc("selection"): tensor<2x3xf32> is not trained: it contains zeros and ones alone
// CHECK-NEXT: loc("stft.forwardBasis"): tensor<3x2xf32> is not trained: its name is that of a buffer
// CHECK-NEXT: loc("hann_window"): tensor<2xf32> is not trained: its name is that of a buffer
// CHECK-NEXT: loc("windowing.proj"): tensor<2x2xf32> is trained: it is multiplied by activations in
// CHECK-NEXT: loc("eye.weight"): tensor<2x2xf32> is trained: its name is that of a parameter
// LIFTED-LABEL: @transforms(
func.func @transforms(%x: tensor<4x5xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %cosines = mpc.constant dense<[[1.0, 0.95106], [1.0, 0.58779], [1.0, 0.0], [1.0, -0.58779], [1.0, -0.95106]]> : tensor<5x2xf32> loc("cosines")
  %selection = mpc.constant dense<[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]> : tensor<2x3xf32> loc("selection")
  %basis = mpc.constant dense<[[1.0, 0.3], [0.5, -0.5], [0.2, 0.1]]> : tensor<3x2xf32> loc("stft.forwardBasis")
  %window = mpc.constant dense<[0.3, 0.7]> : tensor<2xf32> loc("hann_window")
  %w = mpc.constant dense<[[1.0, 0.3], [0.5, -0.5]]> : tensor<2x2xf32> loc("windowing.proj")
  %eye = mpc.constant dense<[[1.0, 0.0], [0.0, 1.0]]> : tensor<2x2xf32> loc("eye.weight")
  %0 = mpc.matmul %x, %cosines : (tensor<4x5xf32>, tensor<5x2xf32>) -> tensor<4x2xf32>
  %1 = mpc.tanh %0 : tensor<4x2xf32>
  %2 = mpc.matmul %1, %selection : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %3 = mpc.matmul %2, %basis : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %4 = mpc.mul %3, %window : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %5 = mpc.matmul %4, %w : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %6 = mpc.matmul %5, %eye : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  return %6 : tensor<4x2xf32>
}

// -----

// Normalization of an input after selection, a fixed transform, clipping and a
// logarithm, also by statistics of a station; not of activations.
// CHECK: loc("filters"): tensor<2x2xf32> is not trained: it contains zeros and ones alone
// CHECK-NEXT: loc("center"): tensor<2xf32> is not trained: it normalizes an input in 'centered'
// CHECK-NEXT: loc("stations"): tensor<3x2xf32> is not trained: it normalizes an input after 'station'
// CHECK-NEXT: loc("gain"): tensor<2xf32> is trained: it is combined with activations in 'gained'
// LIFTED-LABEL: @preprocessing(
func.func @preprocessing(%x: tensor<4x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"}, %ids: tensor<4xi32> {mpc.role = #mpc.role<input>, mpc.name = "ids"})
    -> (tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %order = mpc.constant dense<[2, 0]> : tensor<2xi32>
  %low = mpc.constant dense<1.0e-5> : tensor<f32>
  %high = mpc.constant dense<1.0e5> : tensor<f32>
  %filters = mpc.constant dense<[[1.0, 0.0], [1.0, 1.0]]> : tensor<2x2xf32> loc("filters")
  %center = mpc.constant dense<[0.3, 0.7]> : tensor<2xf32> loc("center")
  %stations = mpc.constant dense<[[1.0, 0.3], [0.5, 0.6], [0.2, 0.1]]> : tensor<3x2xf32> loc("stations")
  %gain = mpc.constant dense<[0.5, 0.75]> : tensor<2xf32> loc("gain")
  %0 = mpc.gather %x, %order axis(1) : (tensor<4x3xf32>, tensor<2xi32>) -> tensor<4x2xf32>
  %1 = mpc.matmul %0, %filters : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %2 = mpc.clamp %1, %low, %high : (tensor<4x2xf32>, tensor<f32>, tensor<f32>) -> tensor<4x2xf32>
  %3 = mpc.log %2 : tensor<4x2xf32>
  %4 = mpc.sub %3, %center : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("centered")
  %5 = mpc.gather %stations, %ids axis(0) : (tensor<3x2xf32>, tensor<4xi32>) -> tensor<4x2xf32> loc("station")
  %6 = mpc.div %4, %5 : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %7 = mpc.softplus %6 : tensor<4x2xf32>
  %8 = mpc.mul %7, %gain : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("gained")
  return %8 : tensor<4x2xf32>
}

// -----

// Numbers of formulas in initializers: those that a module names are parameters. The
// name of an exporter's own tensor is that of an op.
// CHECK: loc("sigma.bias"{{.*}}): tensor<1xf32> is trained: its name is that of a parameter
// CHECK-NEXT: loc("pool.p"{{.*}}): tensor<f32> is trained: it is combined with activations in 'power'
// CHECK-NEXT: loc("clip_alpha"{{.*}}): tensor<1xf32> is trained: it is combined with activations in
// CHECK-NEXT: loc("reconstruction.scale"{{.*}}): tensor<f32> is trained: it is combined with activations in
// CHECK-NEXT: loc("logitScale"{{.*}}): tensor<f32> is trained: its name is that of a parameter
// CHECK-NEXT: loc("Const_7"{{.*}}): tensor<f32> is not trained: it is a constant of a formula
// CHECK-NEXT: loc("norm.eps"{{.*}}): tensor<f32> is not trained: it keeps 'guarded' from zero
// CHECK-NEXT: loc("onnx::ReduceMean_3"{{.*}}): tensor<2xf32> is trained: it is combined with activations in
// CHECK-NEXT: loc("ones"{{.*}}): tensor<1xf32> is not trained: the exporter recorded all parameters, and it is none
// LIFTED-LABEL: @numbers(
func.func @numbers(%x: tensor<4x1xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x1xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %bias = mpc.constant dense<0.3> : tensor<1xf32> loc("sigma.bias"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %p = mpc.constant dense<3.0> : tensor<f32> loc("pool.p"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %alpha = mpc.constant dense<6.0> : tensor<1xf32> loc("clip_alpha"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %scale = mpc.constant dense<0.75> : tensor<f32> loc("reconstruction.scale"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %logit = mpc.constant dense<2.5> : tensor<f32> loc("logitScale"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %const = mpc.constant dense<0.75> : tensor<f32> loc("Const_7"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %eps = mpc.constant dense<1.0e-5> : tensor<f32> loc("norm.eps"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %mean = mpc.constant dense<[0.75, 0.5]> : tensor<2xf32> loc("onnx::ReduceMean_3"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %ones = mpc.constant dense<1.0> : tensor<1xf32> loc("ones"(fused<{mpc.origin = "initializer", mpc.unrecorded}>["m.onnx":0:0]))
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.tanh %x : tensor<4x1xf32>
  %1 = mpc.add %0, %bias : (tensor<4x1xf32>, tensor<1xf32>) -> tensor<4x1xf32>
  %2 = mpc.log %1 : tensor<4x1xf32>
  %3 = mpc.pow %2, %p : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32> loc("power")
  %4 = mpc.clamp %3, %zero, %alpha : (tensor<4x1xf32>, tensor<f32>, tensor<1xf32>) -> tensor<4x1xf32>
  %5 = mpc.mul %4, %scale : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %6 = mpc.mul %5, %logit : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %7 = mpc.mul %6, %const : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %8 = mpc.add %7, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32> loc("guarded")
  %9 = mpc.sqrt %8 : tensor<4x1xf32>
  %10 = mpc.mul %9, %ones : (tensor<4x1xf32>, tensor<1xf32>) -> tensor<4x1xf32>
  %11 = mpc.reduce_mean %mean axes([0]) : tensor<2xf32> -> tensor<f32>
  %12 = mpc.mul %10, %11 : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  return %12 : tensor<4x1xf32>
}

// -----

// Fixed filters have their values under any name: a binomial one that is stored
// without channels, one that averages, a derivative, an integral over bins. A layer
// may start from the identity or from equal values, a transposed one from a blur.
// CHECK: loc("blur.kernel"): tensor<4x4xf32> is not trained: it is a fixed filter
// CHECK-NEXT: loc("mean.weight"): tensor<1x1x3x3xf32> is not trained: it is a fixed filter
// CHECK-NEXT: loc("slope.weight"): tensor<1x1x1x3xf32> is not trained: it is a fixed filter
// CHECK-NEXT: loc("same.weight"): tensor<1x1x1x3xf32> is trained: its name is that of a parameter
// CHECK-NEXT: loc("equal.weight"): tensor<1x1x1x3xf32> is trained: its name is that of a parameter
// CHECK-NEXT: loc("bins.weight"): tensor<1x5x1x1xf32> is not trained: it contains a ramp
// CHECK-NEXT: loc("up.weight"): tensor<1x1x1x4xf32> is trained: its name is that of a parameter
// CHECK-NEXT: loc("resampler"): tensor<1x1x1x4xf32> is not trained: it is a fixed filter
func.func @filters(%x: tensor<4x1x8x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"}, %p: tensor<4x5x8x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "p"})
    -> (tensor<4x1x8x14xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %binomial = mpc.constant dense<[[1.0, 3.0, 3.0, 1.0], [3.0, 9.0, 9.0, 3.0], [3.0, 9.0, 9.0, 3.0], [1.0, 3.0, 3.0, 1.0]]> : tensor<4x4xf32> loc("blur.kernel")
  %mean = mpc.constant dense<0.11111111> : tensor<1x1x3x3xf32> loc("mean.weight")
  %slope = mpc.constant dense<[[[[-0.5, 0.0, 0.5]]]]> : tensor<1x1x1x3xf32> loc("slope.weight")
  %same = mpc.constant dense<[[[[0.0, 1.0, 0.0]]]]> : tensor<1x1x1x3xf32> loc("same.weight")
  %equal = mpc.constant dense<0.5> : tensor<1x1x1x3xf32> loc("equal.weight")
  %bins = mpc.constant dense<[[[[0.0]], [[1.0]], [[2.0]], [[3.0]], [[4.0]]]]> : tensor<1x5x1x1xf32> loc("bins.weight")
  %up = mpc.constant dense<[[[[0.25, 0.75, 0.75, 0.25]]]]> : tensor<1x1x1x4xf32> loc("up.weight")
  %fixed = mpc.constant dense<[[[[0.25, 0.75, 0.75, 0.25]]]]> : tensor<1x1x1x4xf32> loc("resampler")
  %taps = mpc.reshape %binomial : tensor<4x4xf32> to tensor<1x1x4x4xf32>
  %0 = mpc.conv %x, %taps strides([1, 1]) pad([2, 2], [1, 1]) dilations([1, 1]) groups(1) : (tensor<4x1x8x8xf32>, tensor<1x1x4x4xf32>) -> tensor<4x1x8x8xf32>
  %1 = mpc.conv %0, %mean strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) groups(1) : (tensor<4x1x8x8xf32>, tensor<1x1x3x3xf32>) -> tensor<4x1x8x8xf32>
  %2 = mpc.conv %1, %slope strides([1, 1]) pad([0, 1], [0, 1]) dilations([1, 1]) groups(1) : (tensor<4x1x8x8xf32>, tensor<1x1x1x3xf32>) -> tensor<4x1x8x8xf32>
  %3 = mpc.conv %2, %same strides([1, 1]) pad([0, 1], [0, 1]) dilations([1, 1]) groups(1) : (tensor<4x1x8x8xf32>, tensor<1x1x1x3xf32>) -> tensor<4x1x8x8xf32>
  %4 = mpc.conv %3, %equal strides([1, 1]) pad([0, 1], [0, 1]) dilations([1, 1]) groups(1) : (tensor<4x1x8x8xf32>, tensor<1x1x1x3xf32>) -> tensor<4x1x8x8xf32>
  %5 = mpc.conv %p, %bins strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) groups(1) : (tensor<4x5x8x8xf32>, tensor<1x5x1x1xf32>) -> tensor<4x1x8x8xf32>
  %6 = mpc.add %4, %5 : (tensor<4x1x8x8xf32>, tensor<4x1x8x8xf32>) -> tensor<4x1x8x8xf32>
  %7 = mpc.conv_transpose %6, %up strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) output_padding([0, 0]) : (tensor<4x1x8x8xf32>, tensor<1x1x1x4xf32>) -> tensor<4x1x8x11xf32>
  %8 = mpc.conv_transpose %7, %fixed strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) output_padding([0, 0]) : (tensor<4x1x8x11xf32>, tensor<1x1x1x4xf32>) -> tensor<4x1x8x14xf32>
  return %8 : tensor<4x1x8x14xf32>
}

// -----

// Scale and shift of a bounded output are learned unless their names say more, as is a
// gain within the network.
// CHECK: loc("gain"): tensor<2xf32> is trained: it is combined with activations in
// CHECK-NEXT: loc("query_bias"): tensor<2xf32> is trained: it is named a bias
// CHECK-NEXT: loc("action_scale"): tensor<2xf32> is not trained: its name is that of a buffer
// CHECK-NEXT: loc("action_bias"): tensor<2xf32> is not trained: its name is that of a buffer
func.func @rescaled(%x: tensor<4x2xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %gain = mpc.constant dense<[0.5, 0.75]> : tensor<2xf32> loc("gain")
  %bias = mpc.constant dense<[0.5, 0.75]> : tensor<2xf32> loc("query_bias")
  %scale = mpc.constant dense<[2.0, 1.5]> : tensor<2xf32> loc("action_scale")
  %shift = mpc.constant dense<[0.5, 0.0]> : tensor<2xf32> loc("action_bias")
  %0 = mpc.tanh %x : tensor<4x2xf32>
  %1 = mpc.mul %0, %gain : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %2 = mpc.add %1, %bias : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %3 = mpc.tanh %2 : tensor<4x2xf32>
  %4 = mpc.mul %3, %scale : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("scaled")
  %5 = mpc.add %4, %shift : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("action")
  return %5 : tensor<4x2xf32>
}

// -----

// The singular vectors of a normalized weight are unit vectors that multiply it;
// a direction of a weight is none. Scale and shift of a norm that are combined with
// its statistics without data are frozen like these.
// CHECK: loc("weight_orig"): tensor<2x2xf32> is trained
// CHECK-NEXT: loc("weight_v"): tensor<2x1xf32> is not trained: it is a unit vector
// CHECK-NEXT: loc("other.weight_v"): tensor<2x2xf32> is trained
// CHECK-NEXT: loc("bn.weight"): tensor<2xf32> is not trained: it is folded with the statistics of a frozen norm
// CHECK-NEXT: loc("bn.running_var"): tensor<2xf32> is not trained: its name is that of a buffer
// CHECK-NEXT: loc("bn.bias"): tensor<2xf32> is not trained: it is folded with the statistics of a frozen norm
// CHECK-NEXT: loc("bn.running_mean"): tensor<2xf32> is not trained
func.func @folded(%x: tensor<4x2xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w = mpc.constant dense<[[1.0, 0.3], [0.5, -0.5]]> : tensor<2x2xf32> loc("weight_orig")
  %v = mpc.constant dense<[[0.6], [0.8]]> : tensor<2x1xf32> loc("weight_v")
  %direction = mpc.constant dense<[[0.7, 0.3], [0.5, -0.4]]> : tensor<2x2xf32> loc("other.weight_v")
  %scale = mpc.constant dense<[0.5, 0.75]> : tensor<2xf32> loc("bn.weight")
  %variance = mpc.constant dense<[1.5, 0.75]> : tensor<2xf32> loc("bn.running_var")
  %shift = mpc.constant dense<[0.3, 0.75]> : tensor<2xf32> loc("bn.bias")
  %center = mpc.constant dense<[0.1, -0.75]> : tensor<2xf32> loc("bn.running_mean")
  %0 = mpc.matmul %w, %v : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %1 = mpc.reduce_sum %0 axes([0, 1]) : tensor<2x1xf32> -> tensor<f32>
  %2 = mpc.div %w, %1 : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  %3 = mpc.matmul %x, %2 : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %4 = mpc.matmul %3, %direction : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %5 = mpc.tanh %4 : tensor<4x2xf32>
  %6 = mpc.rsqrt %variance : tensor<2xf32>
  %7 = mpc.mul %scale, %6 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %8 = mpc.mul %center, %7 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %9 = mpc.sub %shift, %8 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %10 = mpc.mul %5, %7 : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %11 = mpc.add %10, %9 : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  return %11 : tensor<4x2xf32>
}

// -----

// Positions that are added to an input, a token for masked ones and an embedding of
// numbers do not normalize it.
// CHECK: loc("places"): tensor<3x2xf32> is trained: it is combined with activations in
// CHECK-NEXT: loc("mask_embedding"): tensor<2xf32> is trained: its name is that of a parameter
// CHECK-NEXT: loc("missing"): tensor<2xf32> is trained: it is combined with activations in
// CHECK-NEXT: loc("center"): tensor<2xf32> is not trained: it normalizes an input in 'centered'
func.func @embedded(%x: tensor<4x3x2xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"}, %m: tensor<4x3x1xf32> {mpc.role = #mpc.role<input>, mpc.name = "m"})
    -> (tensor<4x3x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %places = mpc.constant dense<[[0.1, 0.6], [0.3, -0.1], [0.5, 0.9]]> : tensor<3x2xf32> loc("places")
  %token = mpc.constant dense<[0.5, 0.75]> : tensor<2xf32> loc("mask_embedding")
  %missing = mpc.constant dense<[0.5, 0.75]> : tensor<2xf32> loc("missing")
  %center = mpc.constant dense<[0.3, 0.7]> : tensor<2xf32> loc("center")
  %0 = mpc.sub %x, %center : (tensor<4x3x2xf32>, tensor<2xf32>) -> tensor<4x3x2xf32> loc("centered")
  %1 = mpc.add %0, %places : (tensor<4x3x2xf32>, tensor<3x2xf32>) -> tensor<4x3x2xf32>
  %2 = mpc.mul %m, %token : (tensor<4x3x1xf32>, tensor<2xf32>) -> tensor<4x3x2xf32>
  %3 = mpc.mul %m, %missing : (tensor<4x3x1xf32>, tensor<2xf32>) -> tensor<4x3x2xf32>
  %4 = mpc.add %1, %2 : (tensor<4x3x2xf32>, tensor<4x3x2xf32>) -> tensor<4x3x2xf32>
  %5 = mpc.add %4, %3 : (tensor<4x3x2xf32>, tensor<4x3x2xf32>) -> tensor<4x3x2xf32>
  return %5 : tensor<4x3x2xf32>
}

// -----

// Constants of graphs and formulas: a symmetric and a sparse matrix (a learned one
// with some zeros has negative numbers), a table of a schedule, values of bins,
// learned and given frequencies.
// CHECK: loc("edges"{{.*}}): tensor<3x3xf32> is not trained: it is a symmetric or sparse matrix
// CHECK-NEXT: loc("walk"{{.*}}): tensor<3x3xf32> is not trained: it is a symmetric or sparse matrix
// CHECK-NEXT: loc("mixed"{{.*}}): tensor<3x3xf32> is trained: it is multiplied by activations in
// CHECK-NEXT: loc("alphas"{{.*}}): tensor<8xf32> is not trained: it is a table of rising or falling numbers
// CHECK-NEXT: loc("atoms"{{.*}}): tensor<5xf32> is not trained: it contains a ramp
// CHECK-NEXT: loc("low"{{.*}}): tensor<5x1xf32> is trained: it is multiplied by activations in
// CHECK-NEXT: loc("rates"{{.*}}): tensor<5xf32> is not trained: {{.*}} uses it as an angle
func.func @formulas(%x: tensor<4x3x5xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"}, %t: tensor<4xi32> {mpc.role = #mpc.role<input>, mpc.name = "t"})
    -> (tensor<4x3x1xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %edges = mpc.constant dense<[[0.5, 0.3, 0.1], [0.3, 0.4, 0.2], [0.1, 0.2, 0.6]]> : tensor<3x3xf32> loc("edges"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %walk = mpc.constant dense<[[0.5, 0.3, 0.2], [0.3, 0.7, 0.0], [0.0, 0.0, 1.0]]> : tensor<3x3xf32> loc("walk"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %mixed = mpc.constant dense<[[0.5, 0.3, -0.2], [0.3, -0.7, 0.0], [0.0, 0.0, 1.0]]> : tensor<3x3xf32> loc("mixed"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %alphas = mpc.constant dense<[0.9, 0.8, 0.72, 0.63, 0.5, 0.4, 0.3, 0.1]> : tensor<8xf32> loc("alphas"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %atoms = mpc.constant dense<[-1.0, -0.5, 0.0, 0.5, 1.0]> : tensor<5xf32> loc("atoms"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %low = mpc.constant dense<[[1.0], [1.3], [1.7], [2.5], [4.0]]> : tensor<5x1xf32> loc("low"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %rates = mpc.constant dense<[1.0, 0.5, 0.25, 0.125, 0.0625]> : tensor<5xf32> loc("rates"(fused<{mpc.origin = "initializer"}>["m.onnx":0:0]))
  %0 = mpc.matmul %edges, %x : (tensor<3x3xf32>, tensor<4x3x5xf32>) -> tensor<4x3x5xf32>
  %1 = mpc.tanh %0 : tensor<4x3x5xf32>
  %mix = mpc.matmul %mixed, %1 : (tensor<3x3xf32>, tensor<4x3x5xf32>) -> tensor<4x3x5xf32>
  %2 = mpc.matmul %walk, %mix : (tensor<3x3xf32>, tensor<4x3x5xf32>) -> tensor<4x3x5xf32>
  %3 = mpc.gather %alphas, %t axis(0) : (tensor<8xf32>, tensor<4xi32>) -> tensor<4xf32>
  %4 = mpc.reshape %3 : tensor<4xf32> to tensor<4x1x1xf32>
  %5 = mpc.mul %2, %4 : (tensor<4x3x5xf32>, tensor<4x1x1xf32>) -> tensor<4x3x5xf32>
  %6 = mpc.mul %5, %atoms : (tensor<4x3x5xf32>, tensor<5xf32>) -> tensor<4x3x5xf32>
  %7 = mpc.sin %low : tensor<5x1xf32>
  %8 = mpc.matmul %6, %7 : (tensor<4x3x5xf32>, tensor<5x1xf32>) -> tensor<4x3x1xf32>
  %9 = mpc.cos %rates : tensor<5xf32>
  %10 = mpc.mul %6, %9 : (tensor<4x3x5xf32>, tensor<5xf32>) -> tensor<4x3x5xf32>
  %11 = mpc.matmul %10, %7 : (tensor<4x3x5xf32>, tensor<5x1xf32>) -> tensor<4x3x1xf32>
  %12 = mpc.add %8, %11 : (tensor<4x3x1xf32>, tensor<4x3x1xf32>) -> tensor<4x3x1xf32>
  return %12 : tensor<4x3x1xf32>
}

// -----

// The codebook of a nearest-neighbor search, and a table that such a search indexes.
// CHECK: loc("embed"): tensor<3x2xf32> is not trained: it is the codebook of 'nearest'
// CHECK-NEXT: loc("classes"): tensor<3x2xf32> is trained: it is the embedding table of 'class'
func.func @codebook(%x: tensor<4x2xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %codes = mpc.constant dense<[[0.1, 0.6], [0.3, -0.1], [0.5, 0.9]]> : tensor<3x2xf32> loc("embed")
  %classes = mpc.constant dense<[[0.2, 0.6], [0.3, -0.2], [0.4, 0.9]]> : tensor<3x2xf32> loc("classes")
  %0 = mpc.matmul %x, %codes transpose_rhs : (tensor<4x2xf32>, tensor<3x2xf32>) -> tensor<4x3xf32>
  %1 = mpc.argmax %0 axis(1) : tensor<4x3xf32> -> tensor<4xi64>
  %2 = mpc.gather %codes, %1 axis(0) : (tensor<3x2xf32>, tensor<4xi64>) -> tensor<4x2xf32> loc("nearest")
  %3 = mpc.gather %classes, %1 axis(0) : (tensor<3x2xf32>, tensor<4xi64>) -> tensor<4x2xf32> loc("class")
  %4 = mpc.add %2, %3 : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return %4 : tensor<4x2xf32>
}

// -----

// The exporter's record is stronger than values that training would not leave.
// CHECK: loc("bins.weight"{{.*}}): tensor<5x1xf32> is trained: the exporter recorded a parameter
// CHECK-NEXT: loc("line.weight"{{.*}}): tensor<5x1xf32> is trained: the exporter recorded a parameter
func.func @recorded(%x: tensor<4x5xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x1xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %bins = mpc.constant dense<[[0.0], [0.5], [1.0], [1.5], [2.0]]> : tensor<5x1xf32> loc("bins.weight"(fused<{mpc.origin = "parameter"}>["m.onnx":0:0]))
  %line = mpc.constant dense<[[0.0], [0.4], [1.0], [1.5], [2.0]]> : tensor<5x1xf32> loc("line.weight"(fused<{mpc.origin = "parameter"}>["m.onnx":0:0]))
  %0 = mpc.matmul %x, %bins : (tensor<4x5xf32>, tensor<5x1xf32>) -> tensor<4x1xf32>
  %1 = mpc.matmul %x, %line : (tensor<4x5xf32>, tensor<5x1xf32>) -> tensor<4x1xf32>
  %2 = mpc.mul %0, %1 : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  return %2 : tensor<4x1xf32>
}
