//===- MpcSliceOps.td - concat, slice, pad, reverse --------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCSLICEOPS
#define MPC_DIALECT_MPC_IR_MPCSLICEOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

def Mpc_ConcatOp : Mpc_InferredOp<"concat", "IndexMap", "0", [Mpc_MovementOpInterface]> {
  let summary = "Concatenate tensors along an axis";
  let description = [{
    - (C1) at least one operand; all have the same element type and rank.
    - (C2) all other extents agree; `axis` is inside the rank.
  }];
  let arguments = (ins Variadic<Mpc_Factor>:$inputs, I64Attr:$axis);
  let results = (outs Mpc_Factor:$result);
  let assemblyFormat = "$inputs `axis` `(` $axis `)` attr-dict `:` functional-type(operands, results)";
  let hasFolder = 1;
  let extraClassDeclaration = members # [{
    bool givesElements(unsigned) { return true; }
    bool isPermutation() { return true; }
  }];
}

def Mpc_SliceOp : Mpc_InferredOp<"slice", "IndexMap", "0", [Mpc_StridedMovement]> {
  let summary = "Strided slice: offsets, sizes, strides";
  let description = [{
    `result[i] = input[offsets + i * strides]`.
    - (C1) the arrays have one entry per dimension; strides are positive.
    - (C2) every element read is inside the input.
  }];
  let arguments = (ins Mpc_Factor:$input, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$sizes,
                       OptionalAttr<DenseI64ArrayAttr>:$strides);
  let results = (outs Mpc_Factor:$result);
  let assemblyFormat = [{
    $input $offsets $sizes (`strides` $strides^)? attr-dict `:` type($input) `to` type($result)
  }];
  let hasFolder = 1;
  let extraClassDeclaration = members # [{
    /// Stride of each dimension, 1 if the attribute is absent.
    ::llvm::SmallVector<int64_t> getStrideValues();
  }];
}

def Mpc_PadOp : Mpc_InferredOp<"pad", "IndexMap", "0", [Mpc_MovementOpInterface]> {
  let summary = "Surround with a value or with reflected, repeated or wrapped elements";
  let description = [{
    `interior` inserts that many padding elements between neighbors (mode `constant`
    only). Negative `low` / `high` crop.
    - (C1) the arrays have one entry per dimension; `interior` is not negative.
    - (C2) `value` is a scalar tensor of the input's element type.
    - (C3) the result's extents are not negative; `reflect` pads by less than the extent.
  }];
  let arguments = (ins Mpc_Tensor:$input, Mpc_Tensor:$value, DenseI64ArrayAttr:$low,
                       DenseI64ArrayAttr:$high, OptionalAttr<DenseI64ArrayAttr>:$interior,
                       DefaultValuedAttr<Mpc_PadModeAttr, "::mpc::PadMode::constant">:$mode);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $value `low` `(` $low `)` `high` `(` $high `)` (`interior` `(` $interior^ `)`)?
    (`mode` `(` custom<EnumKeyword>($mode)^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
  let hasFolder = 1;
  let extraClassDeclaration = members # [{
    /// Only mode `constant` reads the value.
    bool givesElements(unsigned index) {
      return index == 0 || getMode() == ::mpc::PadMode::constant;
    }
  }];
}

def Mpc_ReverseOp : Mpc_Op<"reverse", "IndexMap", "0",
                            [SameOperandsAndResultType, Mpc_StridedMovement]> {
  let summary = "Reverse the order along axes";
  let description = [{
    - (C1) axes are ascending, unique and inside the rank.
  }];
  let arguments = (ins Mpc_Factor:$input, DenseI64ArrayAttr:$axes);
  let results = (outs Mpc_Factor:$result);
  let assemblyFormat = "$input `axes` `(` $axes `)` attr-dict `:` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = members # "bool isPermutation() { return true; }";
}

#endif // MPC_DIALECT_MPC_IR_MPCSLICEOPS
