// RUN: split-file %s %t && cd %t
// RUN: mpc-opt model.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-operands{policy=float8_current}))' | FileCheck model.mlir
// RUN: mpc-opt model.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-operands{policy=mxfp8}))' | FileCheck model.mlir --check-prefix=MX
// RUN: mpc-opt model.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-operands{policy=float8_block}))' | FileCheck model.mlir --check-prefix=BLOCK
// RUN: mpc-opt model.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-operands{policy=int8.json}))' | FileCheck model.mlir --check-prefix=INT8
// RUN: mpc-opt model.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-operands{policy=float8_current set=name:first=bfloat16}))' | FileCheck model.mlir --check-prefix=SET
// RUN: mpc-opt model.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-operands{policy=last.json}))' | FileCheck model.mlir --check-prefix=LAST
// RUN: mpc-opt model.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-operands{policy=float32}))' | FileCheck model.mlir --check-prefix=NONE
// RUN: mpc-opt model.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-operands{policy=nothing.json}))' 2>&1 | FileCheck model.mlir --check-prefix=NOTHING
// RUN: mpc-opt step.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-operands{policy=mixed_float8 ranks=2}))' | FileCheck step.mlir --check-prefix=STEP
// RUN: mpc-opt direct.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-operands{policy=mixed_float8}))' | FileCheck direct.mlir --check-prefix=DIRECT
// RUN: mpc-opt step.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-operands{policy=float8_current ranks=2}))' | FileCheck step.mlir --check-prefix=RANKS
// RUN: mpc-opt direct.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-operands{policy=layers.json}))' | FileCheck direct.mlir --check-prefix=LAYERS
// RUN: mpc-opt model.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-operands{policy=tiny.json}))' 2>/dev/null | FileCheck model.mlir --check-prefix=TINY
// RUN: mpc-opt half.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-operands{policy=mxfp8}))' 2>&1 | FileCheck half.mlir --check-prefix=HALF
// RUN: mpc-opt step.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-operands{policy=nvfp4}))' | FileCheck step.mlir --check-prefix=NVFP4
// RUN: mpc-opt shapes.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-operands{policy=float8_current}))' | FileCheck shapes.mlir --check-prefix=SHAPES

//--- int8.json
{"name": "w8a8", "extends": "mixed_bfloat16", "operands": {"scaling": "row", "forward": "int8"}}
//--- tiny.json
{"name": "tiny", "extends": "mixed_bfloat16", "operands": {"scaling": "calibrated", "forward": "float8_e4m3fn"}, "ranges": {"x": {"largest": 1e-38}}}
//--- layers.json
{"name": "layers", "extends": "mixed_float8", "operands": {"scaling": "delayed", "margin": 3, "amax": "most_recent"}, "layers": {"top": "mixed_float8"}}
//--- last.json
{"name": "last", "extends": "mixed_bfloat16", "operands": {"scaling": "mx", "keep_last": 0.9}}
//--- nothing.json
{"name": "nothing", "extends": "float32", "operands": "current"}

//--- model.mlir
// NONE-NOT: encode_float
// NOTHING: warning: policy 'nothing' quantizes operands, but no contraction of weights is of a kind in 'operands.kinds' and of class low without an override; extend mixed_bfloat16, or list matmul in 'classes.low'

// The scale is the largest number over the largest magnitude; 1 for a tensor of
// zeros. The result is divided by both scales, first by one above 1.
// CHECK-LABEL: func @main
// CHECK:      %[[ABS:.*]] = mpc.abs %arg0 {{.*}}mpc.scale
// CHECK-NEXT: %[[AMAX:.*]] = mpc.reduce_max %[[ABS]] axes([0, 1])
// CHECK:      mpc.div %{{.*}}, %[[AMAX]]
// CHECK:      %[[SCALE:.*]] = mpc.select
// CHECK:      %[[SCALED:.*]] = mpc.mul %arg0, %[[SCALE]]
// CHECK:      %[[CODES:.*]] = mpc.encode_float %[[SCALED]] format(f8E4M3FN) saturate
// CHECK:      %[[NUMBERS:.*]] = mpc.decode_float %[[CODES]] format(f8E4M3FN)
// CHECK:      %[[A:.*]] = mpc.div %{{.*}}, %[[SCALE]]
// CHECK:      %[[PRODUCT:.*]] = mpc.matmul %[[NUMBERS]], %{{.*}} {mpc.operands = "current, float8_e4m3fn and float8_e5m2"}
// CHECK-NEXT: %[[ONE:.*]] = mpc.constant dense<1.000000e+00>
// CHECK-NEXT: %[[LOW:.*]] = mpc.min %[[B:[0-9]+]], %[[ONE]] {mpc.scale}
// CHECK-NEXT: %[[HIGH:.*]] = mpc.max %[[B]], %[[ONE]] {mpc.scale}
// CHECK-NEXT: %[[ONCE:.*]] = mpc.mul %[[PRODUCT]], %[[LOW]]
// CHECK-NEXT: %[[TWICE:.*]] = mpc.mul %[[ONCE]], %[[A]]
// CHECK-NEXT: mpc.mul %[[TWICE]], %[[HIGH]]

// Blocks of 32 along K, of which the last is padded; powers of two, rounded up.
// MX-LABEL: func @main
// MX:      %[[PADDED:.*]] = mpc.pad %arg0{{.*}} -> tensor<8x64xf32>
// MX:      %[[BLOCKS:.*]] = mpc.reshape %[[PADDED]] {{.*}} to tensor<8x2x32xf32>
// MX:      %[[AMAX:.*]] = mpc.reduce_max {{.*}} axes([2]) keep_dims
// MX:      %[[QUOTIENT:.*]] = mpc.div %[[AMAX]]
// MX:      %[[EXPONENT:.*]] = mpc.encode_float %[[QUOTIENT]] format(f8E8M0FNU) saturate rounding(up)
// MX:      %[[SCALE:.*]] = mpc.decode_float %[[EXPONENT]]
// MX:      mpc.div %[[BLOCKS]], %[[SCALE]]
// MX:      mpc.encode_float {{.*}} format(f8E4M3FN) saturate
// MX:      mpc.slice {{.*}} to tensor<8x40xf32>

// Weights have a scale per 128 x 128.
// BLOCK-LABEL: func @main
// BLOCK: mpc.reshape {{.*}} to tensor<8x1x128xf32>
// BLOCK: mpc.reshape {{.*}} to tensor<1x128x1x128xf32>
// BLOCK: mpc.reduce_max {{.*}} axes([1, 3]) keep_dims

// INT8-LABEL: func @main
// INT8: mpc.reduce_max {{.*}} axes([1]) keep_dims
// INT8: mpc.reduce_max {{.*}} axes([0]) keep_dims
// INT8: mpc.matmul {{.*}} (tensor<8x40xi8>, tensor<40x16xi8>) -> tensor<8x16xi32>

// SET-LABEL: func @main
// SET: mpc.matmul %arg0, %{{.*}} : (tensor<8x40xf32>, tensor<40x16xf32>)
// SET: mpc.matmul {{.*}} {mpc.operands

// The first contraction is never exempt.
// LAST-LABEL: func @main
// LAST: mpc.matmul {{.*}} {mpc.operands
// LAST: mpc.matmul {{.*}} : (tensor<8x16xf32>, tensor<16x4xf32>)

// The scale of a tiny range is finite.
// TINY: mpc.constant dense<3.40282347E+38> : tensor<f32>

func.func @main(%x: tensor<8x40xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"}) -> tensor<8x4xf32> {
  %w = mpc.constant dense<0.3> : tensor<40x16xf32>
  %v = mpc.constant dense<0.7> : tensor<16x4xf32>
  %0 = mpc.matmul %x, %w : (tensor<8x40xf32>, tensor<40x16xf32>) -> tensor<8x16xf32> loc("first")
  %1 = mpc.matmul %0, %v : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32> loc("last")
  return %1 : tensor<8x4xf32>
}

//--- step.mlir
// The forward product and the gradients of its weight and of its input; the
// product of two activations, with its gradient, is left alone. The input and the
// weight are quantized once, the gradient in a type of its own.
// STEP-LABEL: func @main
// STEP-SAME: %[[SCALES:[^:]*]]: tensor<3xf32> {mpc.initial = dense<1.000000e+00>{{.*}}, mpc.labels = ["first/lhs", "first/rhs", "dw/rhs"], mpc.name = "scale", mpc.role = #mpc.role<scaling_state>}
// STEP-SAME: %[[HISTORY:[^:]*]]: tensor<1024x3xf32> {{.*}} mpc.name = "amax_history"
// STEP: mpc.slice %[[SCALES]] [0] [1]
// STEP: mpc.encode_float {{.*}} format(f8E4M3FN)
// STEP: mpc.encode_float {{.*}} format(f8E4M3FN)
// STEP: mpc.encode_float {{.*}} format(f8E5M2)
// STEP-NOT: mpc.encode_float
// STEP: %[[CURRENT:.*]] = mpc.all_reduce {{.*}} reduction(max) ranks(2)
// STEP: %[[USED:.*]] = mpc.compare ne %[[CURRENT]],
// STEP: mpc.concat
// STEP: %[[COLUMNS:.*]] = mpc.reshape %[[USED]] : tensor<3xi1> to tensor<1x3xi1>
// STEP: mpc.select %[[COLUMNS]], %{{.*}}, %[[HISTORY]]
// STEP: return

// Ranks agree on the largest magnitudes of the input and the gradient; weights
// are equal.
// RANKS-COUNT-2: mpc.all_reduce {{.*}} reduction(max) ranks(2) {mpc.scale} : (tensor<f32>)
// RANKS-NOT: mpc.all_reduce
// RANKS: return

// Only the gradient is rounded stochastically, and only operands of the weight's
// gradient are transformed.
// NVFP4-LABEL: func @main
// NVFP4: mpc.encode_float {{.*}} format(f4E2M1FN) saturate {mpc
// NVFP4: mpc.encode_float {{.*}} format(f4E2M1FN) saturate {mpc
// NVFP4: mpc.matmul {{.*}} tensor<16x16xf32>
// NVFP4: mpc.encode_float {{.*}} format(f4E2M1FN) saturate random
func.func @main(%x: tensor<32x16xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"}, %w: tensor<16x16xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"})
    -> (tensor<32x16xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}, tensor<16x16xf32> {mpc.role = #mpc.role<output>, mpc.name = "dw"}, tensor<32x16xf32> {mpc.role = #mpc.role<output>, mpc.name = "dx"}) {
  %seed = mpc.gradient_seed : tensor<f32>
  %0 = mpc.matmul %x, %w : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32> loc("first")
  %s = mpc.matmul %x, %0 transpose_lhs : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16x16xf32> loc("scores")
  %1 = mpc.mul %0, %seed : (tensor<32x16xf32>, tensor<f32>) -> tensor<32x16xf32>
  %2 = mpc.matmul %x, %1 transpose_lhs : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16x16xf32> loc("dw")
  %3 = mpc.matmul %1, %w transpose_rhs : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32> loc("dx")
  return %0, %2, %3 : tensor<32x16xf32>, tensor<16x16xf32>, tensor<32x16xf32>
}

//--- direct.mlir
// The operand of the second product is the first one's result, which the scales
// divide: it has a column of the state all the same. A transposed weight of the
// backward pass is no gradient, and has the weight's largest magnitude. The
// product of an operand and a gradient that is contracted again, or without the
// size of the weight, belongs to attention.
// DIRECT: mpc.labels = ["first/lhs", "first/rhs", "second/lhs", "second/rhs", "dy/lhs", "dy/rhs", "dw/rhs"]
// DIRECT-COUNT-4: mpc.encode_float {{.*}} format(f8E4M3FN)
// DIRECT: mpc.encode_float {{.*}} format(f8E5M2)
// DIRECT: mpc.encode_float {{.*}} format(f8E4M3FN)
// DIRECT: mpc.abs %arg2
// DIRECT: mpc.encode_float {{.*}} format(f8E5M2)
// DIRECT-NOT: mpc.encode_float
// DIRECT: mpc.matmul %arg0, %{{.*}} transpose_lhs : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>

// Each tensor has the settings of its layer.
// LAYERS: mpc.constant dense<[true, true, false, false, true, true, true]>
// LAYERS: mpc.constant dense<[1.250000e-01, 1.250000e-01, 1.000000e+00, 1.000000e+00, 1.250000e-01, 1.250000e-01, 1.250000e-01]>
func.func @main(%x: tensor<32x16xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"}, %w: tensor<16x16xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"}, %v: tensor<16x16xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "v"}) -> (tensor<32x16xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}, tensor<16x16xf32> {mpc.role = #mpc.role<output>, mpc.name = "dw"}, tensor<32x16xf32> {mpc.role = #mpc.role<output>, mpc.name = "dk"}) {
  %seed = mpc.gradient_seed : tensor<f32>
  %0 = mpc.matmul %x, %w : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32> loc("first")
  %1 = mpc.matmul %0, %v {mpc.layer = "top"} : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32> loc("second")
  %2 = mpc.mul %1, %seed : (tensor<32x16xf32>, tensor<f32>) -> tensor<32x16xf32>
  %t = mpc.transpose %v [1, 0] : tensor<16x16xf32> to tensor<16x16xf32>
  %3 = mpc.matmul %2, %t : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32> loc("dy")
  %4 = mpc.matmul %x, %3 transpose_lhs : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16x16xf32> loc("dw")
  %5 = mpc.matmul %x, %3 transpose_lhs : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16x16xf32> loc("scores")
  %6 = mpc.matmul %x, %5 : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32> loc("dk")
  return %1, %4, %6 : tensor<32x16xf32>, tensor<16x16xf32>, tensor<32x16xf32>
}

//--- half.mlir
// HALF: warning: policy 'mxfp8' quantizes operands of float32, but the model itself sets another type of every contraction that it selects
// HALF: mpc.matmul %arg0, %{{.*}} {mpc.unquantized}
func.func @main(%x: tensor<8x32xf16>) -> tensor<8x4xf16> {
  %w = mpc.constant dense<0.3> : tensor<32x4xf16>
  %0 = mpc.matmul %x, %w : (tensor<8x32xf16>, tensor<32x4xf16>) -> tensor<8x4xf16>
  return %0 : tensor<8x4xf16>
}

//--- shapes.mlir
// With a scale per tensor, matmuls that read a tensor in different shapes share its numbers.
// SHAPES:     %[[CODES:.*]] = mpc.encode_float {{.*}} tensor<4x8x16xf32>
// SHAPES:     %[[NUMBERS:.*]] = mpc.decode_float %[[CODES]]
// SHAPES:     mpc.matmul %[[NUMBERS]],
// SHAPES-NOT: tensor<32x16xui8>
// SHAPES:     %[[ROWS:.*]] = mpc.reshape %[[NUMBERS]] : tensor<4x8x16xf32> to tensor<32x16xf32>
// SHAPES:     mpc.matmul %[[ROWS]],
func.func @main(%x: tensor<4x8x16xf32>) -> (tensor<4x8x16xf32>, tensor<32x16xf32>) {
  %w = mpc.constant dense<0.3> : tensor<16x16xf32>
  %0 = mpc.matmul %x, %w : (tensor<4x8x16xf32>, tensor<16x16xf32>) -> tensor<4x8x16xf32>
  %1 = mpc.reshape %x : tensor<4x8x16xf32> to tensor<32x16xf32>
  %2 = mpc.matmul %1, %w : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  return %0, %2 : tensor<4x8x16xf32>, tensor<32x16xf32>
}
