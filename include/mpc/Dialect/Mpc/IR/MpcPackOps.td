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

defvar Mpc_CodeTraits = [SameOperandsAndResultShape, Mpc_ElementwiseOpInterface, Mpc_Range];
def Mpc_CodeTensor : RankedTensorOf<[UI8]>;
def Mpc_EncodeFloatOp : Mpc_Op<"encode_float", "Elementwise", "4 * ::mpc::elementCount(getResult())",
                               !listconcat(Mpc_CodeTraits, [Mpc_OrderOpInterface])> {
  let summary = "Convert to a float format of 4 to 8 bits";
  let description = [{
    Rounds each element once to `format` and returns its code, one per byte
    (`mpc::NarrowFloat`): f8E4M3FN and f8E5M2 (Micikevicius et al., arXiv
    2209.05433), f8E4M3FNUZ and f8E5M2FNUZ (Noune et al., arXiv 2206.02915), and
    f8E8M0FNU, f6E2M3FN, f6E3M2FN and f4E2M1FN of the OCP Microscaling Formats
    Specification 1.0.

    Rounds to nearest, ties to even, unless `rounding` or `random` says otherwise.
    Numbers that round to more than the largest finite number become infinity, in
    formats without infinity NaN, in formats without both the largest number; with
    `saturate` always the largest number, also infinities. NaN stays NaN; a format
    without NaN gives its largest number with `saturate` (as PTX's cvt.satfinite),
    else the code of minus zero.

    f8E8M0FNU has powers of two from 2^-127 and no sign: it encodes the magnitude,
    zero as 2^-127. Its significand is 1, so ties round up. `rounding(down)`
    (`round_up` is false) rounds towards zero, where finite numbers do not overflow,
    `rounding(up)` away from it.

    `random`, from `mpc.random_bits`, rounds stochastically: with `step` the
    distance between adjacent numbers of the format around |x|, and `f` the
    fraction of |x| / step, the magnitude is rounded up if
    `floor(f * 2^31) + floor(random / 2) >= 2^31`, else down. The mean over all
    random bits is x, up to 2^-31 steps, for normal and subnormal numbers. For
    normal numbers of the format this is the addition of random bits to the
    truncated bits of the significand, as by PTX's `cvt.rs`.
    - (C1) `format` is one of the above.
    - (C2) with `rounding` the format is f8E8M0FNU, and there is no `random`.
    - (C3) an input with `random` has at most 32 bits.
  }];
  let arguments = (ins Mpc_FloatTensor:$input, Optional<RankedTensorOf<[I32, UI32]>>:$random,
                       TypeAttr:$format, UnitAttr:$saturate,
                       OptionalAttr<BoolAttr>:$round_up);
  let results = (outs Mpc_CodeTensor:$result);
  let assemblyFormat = [{
    $input `format` `(` $format `)` (`saturate` $saturate^)? custom<Rounding>($round_up)
    (`random` `(` $random^ `:` type($random) `)`)? attr-dict `:` type($input) `to` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::Type":$format, "bool":$saturate,
                                 CArg<"::mlir::Value", "{}">:$random)>];
  let hasVerifier = 1;
  let extraClassDeclaration = members # [{
    /// Rounding of NarrowFloat::encode.
    ::mpc::NarrowFloat::Rounding roundingMode() {
      if (getRandom())
        return ::mpc::NarrowFloat::Rounding::Random;
      if (std::optional<bool> up = getRoundUp())
        return *up ? ::mpc::NarrowFloat::Rounding::Up : ::mpc::NarrowFloat::Rounding::Down;
      return ::mpc::NarrowFloat::Rounding::Nearest;
    }
  }];
}
def Mpc_DecodeFloatOp : Mpc_Op<"decode_float", "Elementwise", "4 * ::mpc::elementCount(getResult())",
                               !listconcat(Mpc_CodeTraits, [Mpc_Exact])> {
  let summary = "Values of codes of a float format of 4 to 8 bits";
  let description = [{
    Returns the number that each code of `mpc.encode_float` represents. Exact. Bits
    above those of the format are ignored. A matmul of 8-bit floats takes the codes
    themselves, as a tensor of type `format`.
    - (C1) `format` is a format of `mpc.encode_float`.
    - (C2) the result is not f16 for f8E8M0FNU, whose range is larger.
    - (C3) a result of 8 bits has the type `format`.
  }];
  let arguments = (ins Mpc_CodeTensor:$input, TypeAttr:$format);
  let results = (outs RankedTensorOf<[Mpc_Float, F8E4M3FN, F8E5M2]>:$result);
  let assemblyFormat = "$input `format` `(` $format `)` attr-dict `:` type($input) `to` type($result)";
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::Type":$format, "::mlir::Type":$element)>];
  let hasVerifier = 1;
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
    `float8` bytes are codes of f8E4M3FN (`mpc.decode_float`). With `nibbles` (unsigned 4-bit
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
