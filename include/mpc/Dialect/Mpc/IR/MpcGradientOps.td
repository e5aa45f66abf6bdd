//===- MpcGradientOps.td - ops of backward passes -----------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Derivatives without an efficient expression in forward ops, training-mode
// forward ops, and random numbers.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCGRADIENTOPS
#define MPC_DIALECT_MPC_IR_MPCGRADIENTOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"
include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.td"

def Mpc_StopGradientOp : Mpc_Op<"stop_gradient", "Elementwise", "0",
                                [SameOperandsAndResultType, Mpc_ElementwiseOpInterface,
                                 Mpc_Composite, Mpc_Exact, Mpc_KeepsFinite, Mpc_KeepsIntegers]> {
  let summary = "The input; its derivative is zero";
  let arguments = (ins Mpc_Tensor:$input);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

def Mpc_GradientSeedOp : Mpc_Op<"gradient_seed", "Source", "0", [Mpc_KeepsBooks, Mpc_Composite]> {
  let summary = "Cotangent of the loss: 1, or the loss scale after mpc-scale-loss";
  let results = (outs Mpc_FloatTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

//===----------------------------------------------------------------------===//
// Convolution and pooling
//===----------------------------------------------------------------------===//

def Mpc_ConvFilterGradientOp : Mpc_Op<"conv_filter_gradient", "Convolution",
    "2 * getContractionSize() * ::mpc::elementCount(getResult())",
    [DeclareOpInterfaceMethods<Mpc_ContractionOpInterface>]> {
  let summary = "Gradient of conv with respect to its filter";
  let description = [{
    `result[o, c, window...] = sum over n, positions of gradient[n, o, position] *
    input[n, c, position * stride + window * dilation - pad_low]`, channels of a
    group among themselves. Input `[N, C, spatial...]` and gradient
    `[N, O, positions...]` as in `conv` (with `layout(channels_last)`:
    `[N, spatial..., C]`), result `[O, C / groups, window...]`. The gradient with
    respect to the input is `conv_transpose` of the gradient.
    - (C1) input and gradient have the same float element type and rank; the
      result's is that or wider.
    - (C2) every window attribute has one entry per spatial dimension.
    - (C3) `conv` of the input with a filter of the result's shape has the
      gradient's shape.
  }];
  let arguments = (ins Mpc_FloatTensor:$input, Mpc_FloatTensor:$gradient,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pad_low,
                       DenseI64ArrayAttr:$pad_high, DenseI64ArrayAttr:$dilations,
                       DefaultValuedAttr<I64Attr, "1">:$groups, Mpc_ImageLayoutDefault:$layout,
                       OptionalAttr<TypeAttr>:$accumulate, Mpc_ComputeDefault:$compute);
  let results = (outs Mpc_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $gradient `strides` `(` $strides `)` `pad` `(` $pad_low `,` $pad_high `)`
    `dilations` `(` $dilations `)` (`groups` `(` $groups^ `)`)? (`layout` `(` custom<EnumKeyword>($layout)^ `)`)?
    (`accumulate` `(` $accumulate^ `)`)? (`compute` `(` custom<EnumKeyword>($compute)^ `)`)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

defvar Mpc_PoolGradientConstraints = [{
    - (C1) the pool of a tensor of the result's type has the gradient's type.
}];

def Mpc_MaxPoolGradientOp : Mpc_Op<"max_pool_gradient", "Pool",
    "2 * ::mpc::productOf(getWindow()) * ::mpc::elementCount(getGradient())",
    [AllTypesMatch<["input", "result"]>]> {
  let summary = "Gradient of max_pool with respect to its input";
  let description = [{
    Each window adds its gradient to the first of its largest elements in row-major
    order (the first NaN, if any).
  }] # Mpc_PoolGradientConstraints;
  let arguments = (ins Mpc_FloatTensor:$input, Mpc_FloatTensor:$gradient,
                       DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pad_low, DenseI64ArrayAttr:$pad_high,
                       DenseI64ArrayAttr:$dilations, UnitAttr:$ceil_mode, Mpc_ImageLayoutDefault:$layout);
  let results = (outs Mpc_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $gradient `window` `(` $window `)` `strides` `(` $strides `)` `pad` `(` $pad_low `,` $pad_high `)`
    `dilations` `(` $dilations `)` (`ceil_mode` $ceil_mode^)? (`layout` `(` custom<EnumKeyword>($layout)^ `)`)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Mpc_AvgPoolGradientOp : Mpc_Op<"avg_pool_gradient", "Pool",
    "::mpc::productOf(getWindow()) * ::mpc::elementCount(getGradient())"> {
  let summary = "Gradient of avg_pool with respect to its input";
  let description = [{
    Each window distributes its gradient evenly over the elements counted in its
    mean.
  }] # Mpc_PoolGradientConstraints;
  let arguments = (ins Mpc_FloatTensor:$gradient, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pad_low, DenseI64ArrayAttr:$pad_high,
                       DenseI64ArrayAttr:$dilations, UnitAttr:$ceil_mode,
                       UnitAttr:$count_include_pad, Mpc_ImageLayoutDefault:$layout);
  let results = (outs Mpc_FloatTensor:$result);
  let assemblyFormat = [{
    $gradient `window` `(` $window `)` `strides` `(` $strides `)` `pad` `(` $pad_low `,` $pad_high `)`
    `dilations` `(` $dilations `)` (`ceil_mode` $ceil_mode^)? (`count_include_pad` $count_include_pad^)?
    (`layout` `(` custom<EnumKeyword>($layout)^ `)`)? attr-dict `:` type($gradient) `->` type($result)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

def Mpc_NormGradientOp : Mpc_Op<"norm_gradient", "RowWise", "16 * ::mpc::elementCount(getInput())",
    [AllTypesMatch<["input", "gradient", "input_gradient"]>,
     AllTypesMatch<["scale", "scale_gradient"]>, Mpc_Composite]> {
  let summary = "Gradients of layer_norm and rms_norm with respect to input and scale";
  let description = [{
    Recomputes the normalized input over the axes from `axis` on, n = (x - mean) * f
    with f = 1 / sqrt(variance + epsilon) (`root_mean_square`: without the mean).
    With g = gradient * scale:
    `input_gradient = (g - mean(g) - n * mean(g * n)) * f`, without `mean(g)` for
    `root_mean_square`; `scale_gradient` is gradient * n, summed over the scale's
    broadcast dimensions (Ba et al., arXiv 1607.06450; Zhang and Sennrich, arXiv
    1910.07467). Computed in f32 (f64 for f64 operands). The gradient of
    layer_norm's bias is a plain sum.
    - (C1) `axis` is inside the rank.
    - (C2) the scale broadcasts to the normalized extents.
    - (C3) all operands have the same element type; epsilon is finite and not
      negative.
  }];
  let arguments = (ins Mpc_FloatTensor:$input, Mpc_FloatTensor:$scale, Mpc_FloatTensor:$gradient,
                       I64Attr:$axis, F64Attr:$epsilon, UnitAttr:$root_mean_square);
  let results = (outs Mpc_FloatTensor:$input_gradient, Mpc_FloatTensor:$scale_gradient);
  let assemblyFormat = [{
    $input `,` $scale `,` $gradient `axis` `(` $axis `)` `epsilon` `(` $epsilon `)`
    (`root_mean_square` $root_mean_square^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Mpc_BatchNormGradientOp : Mpc_Op<"batch_norm_gradient", "Reduction", "14 * ::mpc::elementCount(getInput())",
    [AllTypesMatch<["input", "gradient", "input_gradient"]>,
     AllTypesMatch<["scale", "scale_gradient", "bias_gradient"]>, Mpc_Composite]> {
  let summary = "Gradients of batch_norm_training with respect to input, scale and bias";
  let description = [{
    With n = (x - m) * f, f = 1 / sqrt(v + epsilon), m and v the recomputed mean and
    biased variance of a channel (axis 1) over its N elements:
    `bias_gradient = sum(gradient)`, `scale_gradient = sum(gradient * n)`,
    `input_gradient = scale * f * (gradient - bias_gradient / N - n *
    scale_gradient / N)` (Ioffe and Szegedy, arXiv 1502.03167). Computed in f32
    (f64 for f64 operands).
    - (C1) the scale is `[channels]`.
    - (C2) all operands have the same element type; epsilon is finite and not
      negative.
  }];
  let arguments = (ins Mpc_FloatTensor:$input, Mpc_FloatTensor:$scale, Mpc_FloatTensor:$gradient,
                       F64Attr:$epsilon);
  let results = (outs Mpc_FloatTensor:$input_gradient, Mpc_FloatTensor:$scale_gradient,
                      Mpc_FloatTensor:$bias_gradient);
  let assemblyFormat = [{
    $input `,` $scale `,` $gradient `epsilon` `(` $epsilon `)` attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

def Mpc_AttentionGradientOp : Mpc_Op<"attention_gradient", "Attention",
    "10 * getContractionSize() * ::mpc::elementCount(getQuery())",
    [AllTypesMatch<["query", "query_gradient"]>, AllTypesMatch<["key", "key_gradient"]>,
     AllTypesMatch<["value", "value_gradient"]>,
     DeclareOpInterfaceMethods<Mpc_ContractionOpInterface, ["getAccumulateType"]>,
     Mpc_Composite]> {
  let summary = "Gradients of attention with respect to query, key and value";
  let description = [{
    Recomputes P = softmax(scale * Q K^T + mask). With `D = gradient * V^T` and
    `S = P * (D - rowsum(P * D))`: `dV = P^T gradient`, `dQ = scale * S K`,
    `dK = scale * S^T Q`, summed over the heads that share a key (Dao et al., arXiv
    2205.14135, appendix B). P, D and S are f32 (f64 for f64 operands); as matmul
    operands P and S are rounded to the operands' type. Operands, mask and `causal`
    as in `attention`; `gradient` has the attention's result type.
    - (C1) the operands form a valid attention, and `gradient` has its result type.
  }];
  let arguments = (ins Mpc_FloatTensor:$query, Mpc_FloatTensor:$key, Mpc_FloatTensor:$value,
                       Mpc_FloatTensor:$gradient, Optional<Mpc_Tensor>:$mask, F64Attr:$scale,
                       UnitAttr:$causal, Mpc_ComputeDefault:$compute);
  let results = (outs Mpc_FloatTensor:$query_gradient, Mpc_FloatTensor:$key_gradient,
                      Mpc_FloatTensor:$value_gradient);
  let assemblyFormat = [{
    $query `,` $key `,` $value `,` $gradient (`mask` `(` $mask^ `)`)? `scale` `(` $scale `)`
    (`causal` $causal^)? (`compute` `(` custom<EnumKeyword>($compute)^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = members # [{
    bool isPrecisionOperand(unsigned index) { return index < 4; }
  }];
}

//===----------------------------------------------------------------------===//
// Training-mode ops and random numbers
//===----------------------------------------------------------------------===//

def Mpc_BatchNormTrainingOp : Mpc_Op<"batch_norm_training", "Reduction",
    "8 * ::mpc::elementCount(getResult())",
    [AllTypesMatch<["input", "result"]>,
     AllTypesMatch<["mean", "variance", "new_mean", "new_variance"]>, Mpc_Normalizes, Mpc_Composite]> {
  let summary = "Normalize each channel with the batch's own statistics";
  let description = [{
    `(x - m) / sqrt(v + epsilon) * scale + bias` per channel (axis 1), m and v the
    mean and biased variance over all other axes (Ioffe and Szegedy, arXiv
    1502.03167). Running statistics: `new = (1 - momentum) * old + momentum *
    batch`, with the unbiased variance (divided by count - 1; biased if count is 1),
    as in PyTorch. No gradient flows through the running statistics.
    - (C1) scale, bias, mean and variance are `[channels]`.
    - (C2) scale and bias have the input's element type; statistics are f32 or f64.
    - (C3) `momentum` is in [0, 1]; `epsilon` is not negative.
  }];
  let arguments = (ins Mpc_FloatTensor:$input, Mpc_FloatTensor:$scale, Mpc_FloatTensor:$bias,
                       Mpc_FloatTensor:$mean, Mpc_FloatTensor:$variance, F64Attr:$epsilon,
                       F64Attr:$momentum);
  let results = (outs Mpc_FloatTensor:$result, Mpc_FloatTensor:$new_mean, Mpc_FloatTensor:$new_variance);
  let assemblyFormat = [{
    $input `,` $scale `,` $bias `,` $mean `,` $variance `epsilon` `(` $epsilon `)`
    `momentum` `(` $momentum `)` attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = members # [{
    bool isPrecisionOperand(unsigned index) { return index < 3; }
  }];
}

def Mpc_RngState : RankedTensorOf<[I64]>;

def Mpc_RandomBitsOp : Mpc_Op<"random_bits", "IndexMap", "40 * ::mpc::elementCount(getResult())"> {
  let summary = "32 random bits per element from a counter";
  let description = [{
    Counter-based generator: element i in row-major order is word `i mod 4` of the
    Philox4x32-10 block (Salmon et al., SC 2011) with key `state[0]` (low word
    first) and counter (`i div 4` low, high, `stream`, `state[1]` low). Independent
    of device, order and fusion.
    - (C1) `state` is `[2]`: a seed and a step.
  }];
  let arguments = (ins Mpc_RngState:$state, I64Attr:$stream);
  let results = (outs RankedTensorOf<[I32]>:$result);
  let assemblyFormat = "$state `stream` `(` $stream `)` attr-dict `:` type($state) `->` type($result)";
  let hasVerifier = 1;
}

def Mpc_DropoutOp : Mpc_Op<"dropout", "Opaque", "42 * ::mpc::elementCount(getResult())",
                           [AllTypesMatch<["input", "result"]>, Mpc_Composite]> {
  let summary = "Zero elements at random and scale the others up";
  let description = [{
    `input * (1 / (1 - probability))` if `random_bits` (unsigned) is at least
    `probability * 2^32`, rounded to an integer and at most 2^32 - 1, else 0
    (Srivastava et al., JMLR 15, 2014). 16-bit inputs are multiplied in f32. The
    gradient is the same op on the gradient: no mask is saved.
    - (C1) `state` is `[2]`.
    - (C2) `probability` is in [0, 1).
  }];
  let arguments = (ins Mpc_FloatTensor:$input, Mpc_RngState:$state, F64Attr:$probability,
                       I64Attr:$stream);
  let results = (outs Mpc_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $state `probability` `(` $probability `)` `stream` `(` $stream `)`
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // MPC_DIALECT_MPC_IR_MPCGRADIENTOPS
