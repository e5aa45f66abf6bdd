//===- MpcPackOps.td - packing and quantization ------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Created by passes that store weights and KV caches, never by import.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCPACKOPS
#define MPC_DIALECT_MPC_IR_MPCPACKOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

def Mpc_PackOp : Mpc_InferredOp<"pack", "Opaque", "0"> {
  let summary = "Pack a matrix into GEMM panels at run time";
  let description = [{
    Packs the matrix `[K, N]` (`[N, K]` with `transpose`) into the layout `packed`
    of a matmul's right-hand side, zero-padded to whole panels.
    - (C1) the input has rank 2.
  }];
  let arguments = (ins Mpc_Tensor:$input, UnitAttr:$transpose, Mpc_PackedAttr:$packed);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = [{
    $input (`transpose` $transpose^)? `packed` `` $packed attr-dict `:` type($input) `to` type($result)
  }];
  let extraClassDeclaration = members # [{
    /// Extents of the matrix: K and N.
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
    The 8-bit float is f8E4M3FN: a sign, four exponent bits with bias 7 and three
    fraction bits, no infinity (Micikevicius et al., arXiv 2209.05433). Rounds once,
    to nearest, ties to even; values above 448 saturate to 448, NaN becomes code 127
    or 255.
  }];
}
def Mpc_DecodeFloat8Op : Mpc_CodeOp<"decode_float8", "Value of the code of an 8-bit float",
                                    RankedTensorOf<[UI8]>, Mpc_FloatTensor, [Mpc_Exact]> {
  let description = [{
    The inverse of `mpc.encode_float8`, exact in every float type; codes 127 and 255
    give NaN.
  }];
}

def Mpc_DequantizeOp : Mpc_Op<"dequantize", "Opaque", "0", [AttrSizedOperandSegments]> {
  let summary = "Dequantize panels of a weight-only quantized constant";
  let description = [{
    `result[p, k, c] = scale[p, k / G, c] * (values[p, k, c] - zero[p, k / G, c])`
    for panels `[P, K, C]`, computed in f32 and rounded to the result's type. With
    rank 2, `[P, K]`, panels have one column, and scales and zero points have rank
    2, too. `scale` defaults to 1. `zero` is an operand or one common value. With
    `offset` instead, `result = scale * values + offset[p, k / G, c]`, rounded once
    to f32 (GGUF's formats with a minimum per block). With
    `float8` bytes are codes of `mpc.decode_float8`. With `nibbles` (unsigned 4-bit
    values) byte `[p, i, c]` holds k index `2 * i` in its low four bits and
    `2 * i + 1` in its high ones. With `depth` D, for dot-product units that
    multiply D k indices at once, element `[p, i, D * c + h]` is k index `D * i + h`
    of column c; of nibbles the low bits are `2 * D * i + h` and the high ones
    `2 * D * i + D + h`. Fuses into the matmul that reads the result, which
    dequantizes in registers.
    - (C1) values are bf16 or f16, without scale and zero points, or 8-bit integers
      or i16 with a scale; nibbles and float codes are ui8, and only 8-bit integers
      have zero points.
    - (C2) scale and `offset` are `[P, K / G, C]` of floats, `zero` of ui8; G divides
      K and is a multiple of the depth, for nibbles of twice the depth.
    - (C3) there is one kind of zero point or an offset.
    - (C4) the depth is 1 or 4, and 1 unless values are 8-bit integers without an
      offset.
    - (C5) the result is f32; for bytes or rank 2 also bf16 or f16.
  }];
  let arguments = (ins Mpc_Tensor:$values, Optional<Mpc_FloatTensor>:$scale,
                       Optional<Mpc_Tensor>:$zero, Optional<Mpc_FloatTensor>:$offset,
                       UnitAttr:$nibbles, UnitAttr:$float8,
                       DefaultValuedAttr<I64Attr, "0">:$common_zero,
                       DefaultValuedAttr<I64Attr, "1">:$depth);
  let results = (outs Mpc_FloatTensor:$result);
  let assemblyFormat = [{
    $values (`nibbles` $nibbles^)? (`float8` $float8^)? (`scale` `(` $scale^ `:` type($scale) `)`)?
    (`zero` `(` $zero^ `:` type($zero) `)`)? (`offset` `(` $offset^ `:` type($offset) `)`)? (`common_zero` `(` $common_zero^ `)`)?
    (`depth` `(` $depth^ `)`)? attr-dict `:` type($values) `to` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$values, "::mlir::Value":$scale,
                                 "::mlir::Value":$zero, "::mlir::Value":$offset, "bool":$nibbles, "bool":$float8,
                                 "int64_t":$common_zero, "int64_t":$depth,
                                 "::mlir::Type":$element)>];
  let hasVerifier = 1;
  let extraClassDeclaration = members # [{
    bool isPrecisionOperand(unsigned) { return false; }
    /// Group size: k indices that share a scale; K without a scale.
    int64_t getGroup();
    /// Returns true if panels have one column, stored as a contiguous row.
    bool isMatrix() { return getResult().getType().getRank() == 2; }
  }];
}

#endif // MPC_DIALECT_MPC_IR_MPCPACKOPS
