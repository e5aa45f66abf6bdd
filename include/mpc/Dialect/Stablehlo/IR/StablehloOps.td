//===- StablehloOps.td - contractions, regions, the rest ----*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_STABLEHLO_IR_STABLEHLOOPS
#define MPC_DIALECT_STABLEHLO_IR_STABLEHLOOPS

include "mpc/Dialect/Stablehlo/IR/StablehloElementwise.td"
include "mpc/Dialect/Stablehlo/IR/StablehloMovement.td"

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

defvar Stablehlo_Precisions = OptionalAttr<Stablehlo_PrecisionArrayAttr>;
defvar Stablehlo_OptionalDims = OptionalAttr<DenseI64ArrayAttr>;
defvar Stablehlo_OptionalPadding = OptionalAttr<I64ElementsAttr>;

def Stablehlo_DotGeneralOp : Stablehlo_Op<"dot_general", "general dot product (GEMM)"> {
  let description = [{
    The result has the batch dimensions, then the other dimensions of the left, then
    those of the right operand.
    - (C1) batch and contracted dimensions are inside their ranks, each once, and as
      many on both sides with the same extents.
    - (C2) the result has that shape.
    - (C3) no or two precisions; `algorithm` only where these are DEFAULT.
  }];
  let arguments = (ins Stablehlo_Tensor:$lhs, Stablehlo_Tensor:$rhs,
                       Stablehlo_DotDimensionNumbersAttr:$dot_dimension_numbers,
                       Stablehlo_Precisions:$precision_config,
                       OptionalAttr<Stablehlo_DotAlgorithmAttr>:$algorithm);
  let results = (outs Stablehlo_Tensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs `` custom<DotDimensions>($dot_dimension_numbers) ``
    custom<DotPrecision>($precision_config, $algorithm) attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Stablehlo_DotOp : Stablehlo_Op<"dot", "dot product of vectors and matrices (old form)"> {
  let description = [{
    - (C1) ranks are 1 or 2; the last dimension of the left and the first of the
      right operand agree; the result has the others.
  }];
  let arguments = (ins Stablehlo_Tensor:$lhs, Stablehlo_Tensor:$rhs, Stablehlo_Precisions:$precision_config);
  let results = (outs Stablehlo_Tensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs `` custom<Precision>($precision_config) attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Stablehlo_ConvolutionOp : Stablehlo_Op<"convolution", "convolution of any dimension numbers"> {
  let description = [{
    - (C1) both operands and the result have one rank, which the dimension numbers
      cover; window attributes have an entry (`padding` a pair) per spatial dimension.
    - (C2) strides and dilations are positive.
    - (C3) groups divide the features; of features and batch only one is grouped.
    - (C4) the result's extents follow.
  }];
  let arguments = (ins Stablehlo_Tensor:$lhs, Stablehlo_Tensor:$rhs,
                       Stablehlo_OptionalDims:$window_strides, Stablehlo_OptionalPadding:$padding,
                       Stablehlo_OptionalDims:$lhs_dilation, Stablehlo_OptionalDims:$rhs_dilation,
                       OptionalAttr<DenseBoolArrayAttr>:$window_reversal,
                       Stablehlo_ConvDimensionNumbersAttr:$dimension_numbers,
                       I64Attr:$feature_group_count, I64Attr:$batch_group_count,
                       Stablehlo_Precisions:$precision_config);
  let results = (outs Stablehlo_Tensor:$result);
  let assemblyFormat = [{
    `(` operands `)` `dim_numbers` `=` custom<ConvDimensions>($dimension_numbers) `,` `window` `=` `{`
    custom<Window>($window_strides, $padding, $lhs_dilation, $rhs_dilation, $window_reversal) `}`
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Reductions. Regions combine two scalars of each operand.
//===----------------------------------------------------------------------===//

def Stablehlo_ReduceOp : Stablehlo_Op<"reduce", "reduce along dimensions",
                                      [SameVariadicOperandSize, SingleBlock]> {
  let description = [{
    - (C1) operands have one shape, and each an initial scalar of its element type.
    - (C2) dimensions are inside the rank, each once; results have the others.
    - (C3) the region combines two scalars of each operand.
  }];
  let arguments = (ins Variadic<Stablehlo_Tensor>:$inputs, Variadic<Stablehlo_Tensor>:$init_values,
                       DenseI64ArrayAttr:$dimensions);
  let results = (outs Variadic<Stablehlo_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Stablehlo_ReduceWindowOp : Stablehlo_Op<"reduce_window", "reduce over a sliding window",
                                            [SameVariadicOperandSize, SingleBlock]> {
  let description = [{
    - (C1) operands have one shape, and each an initial scalar of its element type.
    - (C2) window attributes have one positive entry (`padding` a pair) per dimension;
      the results' extents follow.
    - (C3) the region combines two scalars of each operand.
  }];
  let arguments = (ins Variadic<Stablehlo_Tensor>:$inputs, Variadic<Stablehlo_Tensor>:$init_values,
                       DenseI64ArrayAttr:$window_dimensions, Stablehlo_OptionalDims:$window_strides,
                       Stablehlo_OptionalDims:$base_dilations, Stablehlo_OptionalDims:$window_dilations,
                       Stablehlo_OptionalPadding:$padding);
  let results = (outs Variadic<Stablehlo_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
}

def Stablehlo_SelectAndScatterOp : Stablehlo_Op<"select_and_scatter",
    "scatter a value per window to the element that the window selects", [AllTypesMatch<["operand", "result"]>]> {
  let description = [{
    - (C1) the source has the shape of the windows' results; the initial value is a scalar.
    - (C2) both regions take two scalars: one returns whether the first stays
      selected, the other combines.
  }];
  let arguments = (ins Stablehlo_Tensor:$operand, Stablehlo_Tensor:$source, Stablehlo_Tensor:$init_value,
                       Stablehlo_OptionalDims:$window_dimensions, Stablehlo_OptionalDims:$window_strides,
                       Stablehlo_OptionalPadding:$padding);
  let results = (outs Stablehlo_Tensor:$result);
  let regions = (region SizedRegion<1>:$select, SizedRegion<1>:$scatter);
  let hasVerifier = 1;
}

def Stablehlo_SortOp : Stablehlo_Op<"sort", "sort along a dimension", [SingleBlock]> {
  let description = [{
    - (C1) at least one operand, of one shape, and results of the same types; the
      dimension is inside the rank or counts from its end.
    - (C2) the region returns for two scalars of each operand whether the first
      precedes the second.
  }];
  let arguments = (ins Variadic<Stablehlo_Tensor>:$inputs, DefaultValuedAttr<I64Attr, "-1">:$dimension,
                       DefaultValuedAttr<BoolAttr, "false">:$is_stable);
  let results = (outs Variadic<Stablehlo_Tensor>:$results);
  let regions = (region SizedRegion<1>:$comparator);
  let hasVerifier = 1;
}

def Stablehlo_MapOp : Stablehlo_Op<"map", "apply a region to scalars, elementwise",
                                   [SingleBlock, SameOperandsAndResultShape]> {
  let description = [{
    - (C1) `dimensions` are all dimensions in order.
    - (C2) the region takes a scalar of each operand.
  }];
  let arguments = (ins Variadic<Stablehlo_Tensor>:$inputs, DenseI64ArrayAttr:$dimensions);
  let results = (outs Stablehlo_Tensor:$result);
  let regions = (region SizedRegion<1>:$computation);
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

def Stablehlo_WhileOp : Stablehlo_Op<"while", "repeat while a condition holds",
                                     [DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let description = [{
    - (C1) both regions take the operands; `cond` gives a boolean scalar, `body` what is
      next; results have the operands' types.
  }];
  let arguments = (ins Variadic<Stablehlo_Tensor>:$operand);
  let results = (outs Variadic<Stablehlo_Tensor>:$results);
  let regions = (region SizedRegion<1>:$cond, SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Stablehlo_IfOp : Stablehlo_Op<"if", "one of two branches"> {
  let description = "- (C1) branches take nothing and give the results.";
  let arguments = (ins Stablehlo_BoolTensor:$pred);
  let results = (outs Variadic<Stablehlo_Tensor>:$results);
  let regions = (region SizedRegion<1>:$true_branch, SizedRegion<1>:$false_branch);
  let hasVerifier = 1;
}

def Stablehlo_CaseOp : Stablehlo_Op<"case", "one of many branches, the last where the index is outside"> {
  let description = [{
    - (C1) at least one branch; branches take nothing and give the results.
  }];
  let arguments = (ins Stablehlo_ScalarInt:$index);
  let results = (outs Variadic<Stablehlo_Tensor>:$results);
  let regions = (region VariadicRegion<SizedRegion<1>>:$branches);
  let hasVerifier = 1;
}

def Stablehlo_ReturnOp : Stablehlo_Op<"return", "results of a region", [Terminator]> {
  let arguments = (ins Variadic<Stablehlo_Tensor>:$results);
  let assemblyFormat = "$results attr-dict (`:` type($results)^)?";
}

def Stablehlo_OptimizationBarrierOp : Stablehlo_Op<"optimization_barrier", "identity that optimizations do not cross"> {
  let description = "- (C1) results have the operands' types.";
  let arguments = (ins Variadic<Stablehlo_Tensor>:$operand);
  let results = (outs Variadic<Stablehlo_Tensor>:$result);
  let assemblyFormat = "attr-dict ($operand^ `:` custom<PairwiseTypes>(type($operand), type($result))):(`(` `)`)?";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// The rest
//===----------------------------------------------------------------------===//

def Stablehlo_RngBitGeneratorOp : Stablehlo_Op<"rng_bit_generator", "random bits and the next state",
                                               [AllTypesMatch<["initial_state", "output_state"]>]> {
  let description = [{
    - (C1) the state is a vector of unsigned 64-bit integers: 2 for THREE_FRY, 2 or 3
      for PHILOX and DEFAULT.
  }];
  let arguments = (ins Stablehlo_RngAlgorithmAttr:$rng_algorithm, Stablehlo_IntTensor:$initial_state);
  let results = (outs Stablehlo_IntTensor:$output_state, Stablehlo_Tensor:$output);
  let assemblyFormat = [{
    $initial_state `,` `algorithm` `=` `` $rng_algorithm attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Stablehlo_CustomCallOp : Stablehlo_Op<"custom_call", "call of a function of the backend that JAX traced for"> {
  let description = "Read so that a message can name its target.";
  let arguments = (ins Variadic<AnyType>:$inputs, StrAttr:$call_target_name);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = [{
    custom<Target>($call_target_name) `(` $inputs `)` attr-dict `:` functional-type(operands, results)
  }];
}

#endif // MPC_DIALECT_STABLEHLO_IR_STABLEHLOOPS
