//===- StablehloMovement.td - shapes, slices, indices -------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_STABLEHLO_IR_STABLEHLOMOVEMENT
#define MPC_DIALECT_STABLEHLO_IR_STABLEHLOMOVEMENT

include "mlir/IR/OpAsmInterface.td"
include "mpc/Dialect/Stablehlo/IR/StablehloBase.td"

def Stablehlo_ConstantOp : Stablehlo_Op<"constant", "a constant tensor",
    [ConstantLike, AllTypesMatch<["value", "output"]>,
     DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Stablehlo_Tensor:$output);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
}

def Stablehlo_IotaOp : Stablehlo_Op<"iota", "the position along a dimension"> {
  let description = "- (C1) the dimension is inside the rank.";
  let arguments = (ins I64Attr:$iota_dimension);
  let results = (outs Stablehlo_Tensor:$output);
  let assemblyFormat = "`dim` `=` $iota_dimension attr-dict `:` type($output)";
  let hasVerifier = 1;
}

/// Moves elements of one operand regardless of their values.
class Stablehlo_MovementOp<string mnemonic, string text>
    : Stablehlo_Op<mnemonic, text, [SameOperandsAndResultElementType]> {
  let results = (outs Stablehlo_Tensor:$result);
  let hasVerifier = 1;
}

def Stablehlo_ReshapeOp : Stablehlo_MovementOp<"reshape", "the same elements under another shape"> {
  let description = "- (C1) the shapes have the same number of elements.";
  let arguments = (ins Stablehlo_Tensor:$operand);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Stablehlo_TransposeOp : Stablehlo_MovementOp<"transpose", "permute dimensions"> {
  let description = [{
    - (C1) `permutation` is a permutation of the operand's dimensions.
    - (C2) the result has the permuted shape.
  }];
  let arguments = (ins Stablehlo_Tensor:$operand, DenseI64ArrayAttr:$permutation);
  let assemblyFormat = "$operand `,` `dims` `=` $permutation attr-dict `:` functional-type(operands, results)";
}

def Stablehlo_BroadcastInDimOp : Stablehlo_MovementOp<"broadcast_in_dim", "repeat along dimensions"> {
  let description = [{
    - (C1) one entry per dimension of the operand, each once and inside the result's rank.
    - (C2) an extent of the operand is 1 or that of its dimension of the result.
  }];
  let arguments = (ins Stablehlo_Tensor:$operand, DenseI64ArrayAttr:$broadcast_dimensions);
  let assemblyFormat = [{
    $operand `,` `dims` `=` $broadcast_dimensions attr-dict `:` functional-type(operands, results)
  }];
}

def Stablehlo_BroadcastOp : Stablehlo_MovementOp<"broadcast", "repeat along new leading dimensions"> {
  let description = "- (C1) the result's shape is `broadcast_sizes` and the operand's shape.";
  let arguments = (ins Stablehlo_Tensor:$operand, DenseI64ArrayAttr:$broadcast_sizes);
  let assemblyFormat = [{
    $operand `,` `sizes` `=` $broadcast_sizes attr-dict `:` functional-type(operands, results)
  }];
}

def Stablehlo_ConcatenateOp : Stablehlo_MovementOp<"concatenate", "concatenate along a dimension"> {
  let description = [{
    - (C1) at least one operand; the dimension is inside the rank.
    - (C2) all other extents agree, and the result has their sum.
  }];
  let arguments = (ins Variadic<Stablehlo_Tensor>:$inputs, I64Attr:$dimension);
  let assemblyFormat = [{
    custom<OperandsThenComma>($inputs) `dim` `=` $dimension attr-dict `:` functional-type(operands, results)
  }];
}

def Stablehlo_SliceOp : Stablehlo_MovementOp<"slice", "a strided slice"> {
  let description = [{
    - (C1) three entries per dimension, `0 <= start <= limit <= extent`, a positive stride.
    - (C2) the result has `ceil((limit - start) / stride)` elements along a dimension.
  }];
  let arguments = (ins Stablehlo_Tensor:$operand, DenseI64ArrayAttr:$start_indices,
                       DenseI64ArrayAttr:$limit_indices, DenseI64ArrayAttr:$strides);
  let assemblyFormat = [{
    $operand custom<SliceRanges>($start_indices, $limit_indices, $strides) attr-dict `:`
    functional-type(operands, results)
  }];
}

def Stablehlo_PadOp : Stablehlo_MovementOp<"pad", "pad around and between the elements with a value"> {
  let description = [{
    - (C1) the value is a scalar; one entry per dimension; `interior` is not negative.
    - (C2) the result's extents follow, and are not negative.
  }];
  let arguments = (ins Stablehlo_Tensor:$operand, Stablehlo_Tensor:$padding_value,
                       DenseI64ArrayAttr:$edge_padding_low, DenseI64ArrayAttr:$edge_padding_high,
                       DenseI64ArrayAttr:$interior_padding);
  let assemblyFormat = [{
    $operand `,` $padding_value `,` `low` `=` $edge_padding_low `,` `high` `=` $edge_padding_high `,`
    `interior` `=` $interior_padding attr-dict `:` functional-type(operands, results)
  }];
}

def Stablehlo_ReverseOp : Stablehlo_MovementOp<"reverse", "reverse the order along dimensions"> {
  let description = [{
    - (C1) each dimension once and inside the rank; the result has the operand's type.
  }];
  let arguments = (ins Stablehlo_Tensor:$operand, DenseI64ArrayAttr:$dimensions);
  let assemblyFormat = [{
    $operand `,` `dims` `=` $dimensions attr-dict `:` custom<SameTypes>(type($operand), type($result))
  }];
}

def Stablehlo_DynamicSliceOp : Stablehlo_Op<"dynamic_slice", "a slice at offsets given by operands"> {
  let description = [{
    Starts are clamped so that the slice is inside the operand.
    - (C1) one start and one size per dimension; sizes are those of the result and
      at most the operand's extents.
  }];
  let arguments = (ins Stablehlo_Tensor:$operand, Variadic<Stablehlo_ScalarInt>:$start_indices,
                       DenseI64ArrayAttr:$slice_sizes);
  let results = (outs Stablehlo_Tensor:$result);
  let assemblyFormat = [{
    $operand `,` custom<OperandsThenComma>($start_indices) `sizes` `=` $slice_sizes attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Stablehlo_DynamicUpdateSliceOp
    : Stablehlo_Op<"dynamic_update_slice", "write a slice at offsets given by operands",
                   [AllTypesMatch<["operand", "result"]>]> {
  let description = [{
    Starts are clamped so that the update is inside the operand.
    - (C1) one start per dimension; the update has the operand's element type and
      rank, and fits into it.
  }];
  let arguments = (ins Stablehlo_Tensor:$operand, Stablehlo_Tensor:$update,
                       Variadic<Stablehlo_ScalarInt>:$start_indices);
  let results = (outs Stablehlo_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Stablehlo_GatherOp : Stablehlo_Op<"gather", "slices at offsets given by indices"> {
  let description = [{
    - (C1) dimension numbers are inside their ranks, each once; the remaining
      dimensions of operand, indices and result have equal extents.
    - (C2) one slice size per dimension of the operand, at most its extent; 1 for
      collapsed and batch dimensions.
  }];
  let arguments = (ins Stablehlo_Tensor:$operand, Stablehlo_IntTensor:$start_indices,
                       Stablehlo_GatherDimensionNumbersAttr:$dimension_numbers,
                       DenseI64ArrayAttr:$slice_sizes,
                       DefaultValuedAttr<BoolAttr, "false">:$indices_are_sorted);
  let results = (outs Stablehlo_Tensor:$result);
  let hasVerifier = 1;
}

def Stablehlo_ScatterOp : Stablehlo_Op<"scatter", "combine slices with the input at offsets given by indices",
                                       [SameVariadicOperandSize, SingleBlock]> {
  let description = [{
    Out-of-range updates are dropped.
    - (C1) inputs and results have the same types; there are as many updates.
    - (C2) dimension numbers are inside their ranks, each once; the remaining
      dimensions of indices and updates have equal extents.
    - (C3) the region combines two scalars of each input.
  }];
  let arguments = (ins Variadic<Stablehlo_Tensor>:$inputs, Stablehlo_IntTensor:$scatter_indices,
                       Variadic<Stablehlo_Tensor>:$updates,
                       Stablehlo_ScatterDimensionNumbersAttr:$scatter_dimension_numbers,
                       DefaultValuedAttr<BoolAttr, "false">:$indices_are_sorted,
                       DefaultValuedAttr<BoolAttr, "false">:$unique_indices);
  let results = (outs Variadic<Stablehlo_Tensor>:$results);
  let regions = (region SizedRegion<1>:$update_computation);
  let hasVerifier = 1;
}

#endif // MPC_DIALECT_STABLEHLO_IR_STABLEHLOMOVEMENT
