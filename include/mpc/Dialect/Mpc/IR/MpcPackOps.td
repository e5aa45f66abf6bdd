//===- MpcPackOps.td - ops that targets put in --------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// No model has them, but what stores weights and caches; their classes are
// generated apart from the other ops (MpcPackOps.h).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCPACKOPS
#define MPC_DIALECT_MPC_IR_MPCPACKOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

def Mpc_PackOp : Mpc_InferredOp<"pack", "Opaque", "0"> {
  let summary = "Write a matrix in the panels that a matmul reads";
  let description = [{
    The matrix `[K, N]`, with `transpose` `[N, K]`, in the layout `packed`, as the
    right-hand side of a matmul has it: values only move, and panels are filled up
    with zeros.
    - (C1) the input has rank 2.
  }];
  let arguments = (ins Mpc_Tensor:$input, UnitAttr:$transpose, Mpc_PackedAttr:$packed);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = [{
    $input (`transpose` $transpose^)? `packed` `` $packed attr-dict `:` type($input) `to` type($result)
  }];
  let extraClassDeclaration = members # [{
    /// Extents of the matrix: what a product contracts, and its columns.
    int64_t getDepth() { return getInput().getType().getDimSize(getTranspose()); }
    int64_t getWidth() { return getInput().getType().getDimSize(!getTranspose()); }
  }];
}

class Mpc_CodeOp<string mnemonic, string text, Type from, Type to, list<Trait> traits = []>
    : Mpc_Op<mnemonic, "Elementwise", "4 * ::mpc::elementCount(getResult())",
             !listconcat([SameOperandsAndResultShape, Mpc_ElementwiseOpInterface, Mpc_Range], traits)> {
  let summary = text;
  let arguments = (ins from:$input);
  let results = (outs to:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
}
def Mpc_EncodeFloat8Op : Mpc_CodeOp<"encode_float8", "Code of the nearest 8-bit float", Mpc_FloatTensor,
                                    RankedTensorOf<[UI8]>, [Mpc_OrderOpInterface]> {
  let description = [{
    The 8-bit float is f8E4M3FN: a sign, four bits of the exponent with a bias of 7
    and three of the fraction, no infinity (Micikevicius et al., arXiv 2209.05433).
    Rounds once, to nearest, ties to even; what is larger than 448 becomes 448, NaN
    the code 127 or 255.
  }];
}
def Mpc_DecodeFloat8Op : Mpc_CodeOp<"decode_float8", "Number that the code of an 8-bit float stands for",
                                    RankedTensorOf<[UI8]>, Mpc_FloatTensor, [Mpc_Exact]> {
  let description = [{
    The inverse of `mpc.encode_float8`, exact in every float type; the codes 127 and
    255 give NaN.
  }];
}

def Mpc_DequantizeOp : Mpc_Op<"dequantize", "Opaque", "0", [AttrSizedOperandSegments]> {
  let summary = "Widen panels of a narrow constant";
  let description = [{
    `result[p, k, c] = scale[p, k / G, c] * (values[p, k, c] - zero[p, k / G, c])` of
    panels `[P, K, C]`, computed in f32 and rounded to the result's type. Of rank 2,
    `[P, K]`, panels have one column, and scales and zero points rank 2, too. Without
    `scale` it is 1. `zero` is an
    operand or one number for all. With `float8` bytes are codes of
    `mpc.decode_float8`. With `nibbles` byte `[p, i, c]` holds positions
    `2 * i`, in its low four bits, and `2 * i + 1`, both without a sign. With a
    `depth` D for units that multiply D positions at once, element
    `[p, i, D * c + h]` is position `D * i + h` of column c; of nibbles its low bits
    are `2 * D * i + h` and its high ones `2 * D * i + D + h`. The product that reads
    the result unpacks it in registers.
    - (C1) values are bf16 or f16, without scale and zero points, or 8-bit integers
      or i16 with a scale; nibbles and codes of floats are ui8, and only 8-bit
      integers have zero points.
    - (C2) scale and `zero` are `[P, K / G, C]`, floats and ui8; G divides K and is a
      multiple of the depth, of nibbles of twice that.
    - (C3) there is one kind of zero point.
    - (C4) the depth is 1 or 4, and 1 of all but 8-bit integers.
    - (C5) the result is f32, or, of bytes or with rank 2, bf16 or f16.
  }];
  let arguments = (ins Mpc_Tensor:$values, Optional<Mpc_FloatTensor>:$scale,
                       Optional<Mpc_Tensor>:$zero, UnitAttr:$nibbles, UnitAttr:$float8,
                       DefaultValuedAttr<I64Attr, "0">:$common_zero,
                       DefaultValuedAttr<I64Attr, "1">:$depth);
  let results = (outs Mpc_FloatTensor:$result);
  let assemblyFormat = [{
    $values (`nibbles` $nibbles^)? (`float8` $float8^)? (`scale` `(` $scale^ `:` type($scale) `)`)?
    (`zero` `(` $zero^ `:` type($zero) `)`)? (`common_zero` `(` $common_zero^ `)`)?
    (`depth` `(` $depth^ `)`)? attr-dict `:` type($values) `to` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$values, "::mlir::Value":$scale,
                                 "::mlir::Value":$zero, "bool":$nibbles, "bool":$float8,
                                 "int64_t":$common_zero, "int64_t":$depth,
                                 "::mlir::Type":$element)>];
  let hasVerifier = 1;
  let extraClassDeclaration = members # [{
    bool isPrecisionOperand(unsigned) { return false; }
    /// Positions that share a scale; those of all K where there is none.
    int64_t getGroup();
    /// Whether panels have one column, each a line in memory.
    bool isMatrix() { return getResult().getType().getRank() == 2; }
  }];
}

#endif // MPC_DIALECT_MPC_IR_MPCPACKOPS
