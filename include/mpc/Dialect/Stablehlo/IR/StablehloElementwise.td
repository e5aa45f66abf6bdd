//===- StablehloElementwise.td - elementwise ops ------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_STABLEHLO_IR_STABLEHLOELEMENTWISE
#define MPC_DIALECT_STABLEHLO_IR_STABLEHLOELEMENTWISE

include "mpc/Dialect/Stablehlo/IR/StablehloBase.td"

class Stablehlo_UnaryOp<string mnemonic, string text, Type tensor = Stablehlo_Tensor>
    : Stablehlo_Op<mnemonic, text, [SameOperandsAndResultType]> {
  let arguments = (ins tensor:$operand);
  let results = (outs tensor:$result);
  let assemblyFormat = "$operand attr-dict `:` custom<SameTypes>(type($operand), type($result))";
}
/// With an optional accuracy bound.
class Stablehlo_MathOp<string mnemonic, string text>
    : Stablehlo_UnaryOp<mnemonic, text, Stablehlo_FloatTensor> {
  let arguments = (ins Stablehlo_FloatTensor:$operand,
                       OptionalAttr<Stablehlo_ResultAccuracyAttr>:$result_accuracy);
}

def Stablehlo_AbsOp : Stablehlo_UnaryOp<"abs", "|x|">;
def Stablehlo_NegOp : Stablehlo_UnaryOp<"negate", "-x">;
def Stablehlo_SignOp : Stablehlo_UnaryOp<"sign", "-1, 0 or 1">;
def Stablehlo_FloorOp : Stablehlo_UnaryOp<"floor", "largest integer not above", Stablehlo_FloatTensor>;
def Stablehlo_CeilOp : Stablehlo_UnaryOp<"ceil", "smallest integer not below", Stablehlo_FloatTensor>;
def Stablehlo_RoundNearestEvenOp
    : Stablehlo_UnaryOp<"round_nearest_even", "nearest integer, halves to even", Stablehlo_FloatTensor>;
def Stablehlo_RoundNearestAfzOp
    : Stablehlo_UnaryOp<"round_nearest_afz", "nearest integer, halves away from zero", Stablehlo_FloatTensor>;
def Stablehlo_NotOp : Stablehlo_UnaryOp<"not", "complement", Stablehlo_LogicalTensor>;
def Stablehlo_PopcntOp : Stablehlo_UnaryOp<"popcnt", "number of bits that are 1", Stablehlo_IntTensor>;
def Stablehlo_CountLeadingZerosOp
    : Stablehlo_UnaryOp<"count_leading_zeros", "number of leading bits that are 0", Stablehlo_IntTensor>;

def Stablehlo_CbrtOp : Stablehlo_MathOp<"cbrt", "cube root">;
def Stablehlo_CosineOp : Stablehlo_MathOp<"cosine", "cosine">;
def Stablehlo_ExpOp : Stablehlo_MathOp<"exponential", "e^x">;
def Stablehlo_Expm1Op : Stablehlo_MathOp<"exponential_minus_one", "e^x - 1">;
def Stablehlo_LogOp : Stablehlo_MathOp<"log", "natural logarithm">;
def Stablehlo_Log1pOp : Stablehlo_MathOp<"log_plus_one", "log(1 + x)">;
def Stablehlo_LogisticOp : Stablehlo_MathOp<"logistic", "1 / (1 + e^-x)">;
def Stablehlo_RsqrtOp : Stablehlo_MathOp<"rsqrt", "1 / sqrt(x)">;
def Stablehlo_SineOp : Stablehlo_MathOp<"sine", "sine">;
def Stablehlo_SqrtOp : Stablehlo_MathOp<"sqrt", "square root">;
def Stablehlo_TanOp : Stablehlo_MathOp<"tan", "tangent">;
def Stablehlo_TanhOp : Stablehlo_MathOp<"tanh", "hyperbolic tangent">;

class Stablehlo_BinaryOp<string mnemonic, string text, Type tensor = Stablehlo_Tensor>
    : Stablehlo_Op<mnemonic, text, [SameOperandsAndResultType]> {
  let arguments = (ins tensor:$lhs, tensor:$rhs);
  let results = (outs tensor:$result);
  let assemblyFormat =
      "$lhs `,` $rhs attr-dict `:` custom<SameTypes>(type($lhs), type($rhs), type($result))";
}
def Stablehlo_AddOp : Stablehlo_BinaryOp<"add", "sum; or of booleans">;
def Stablehlo_AndOp : Stablehlo_BinaryOp<"and", "bitwise and", Stablehlo_LogicalTensor>;
def Stablehlo_Atan2Op : Stablehlo_BinaryOp<"atan2", "angle of the point (rhs, lhs)", Stablehlo_FloatTensor>;
def Stablehlo_DivOp : Stablehlo_BinaryOp<"divide", "quotient; of integers truncated">;
def Stablehlo_MaxOp : Stablehlo_BinaryOp<"maximum", "larger operand; propagates NaN">;
def Stablehlo_MinOp : Stablehlo_BinaryOp<"minimum", "smaller operand; propagates NaN">;
def Stablehlo_MulOp : Stablehlo_BinaryOp<"multiply", "product; and of booleans">;
def Stablehlo_OrOp : Stablehlo_BinaryOp<"or", "bitwise or", Stablehlo_LogicalTensor>;
def Stablehlo_PowOp : Stablehlo_BinaryOp<"power", "lhs to the power rhs">;
def Stablehlo_RemOp : Stablehlo_BinaryOp<"remainder", "remainder with the sign of lhs">;
def Stablehlo_ShiftLeftOp : Stablehlo_BinaryOp<"shift_left", "lhs * 2^rhs", Stablehlo_IntTensor>;
def Stablehlo_ShiftRightArithmeticOp
    : Stablehlo_BinaryOp<"shift_right_arithmetic", "shift that repeats the sign", Stablehlo_IntTensor>;
def Stablehlo_ShiftRightLogicalOp
    : Stablehlo_BinaryOp<"shift_right_logical", "shift that brings in zeros", Stablehlo_IntTensor>;
def Stablehlo_SubtractOp : Stablehlo_BinaryOp<"subtract", "difference">;
def Stablehlo_XorOp : Stablehlo_BinaryOp<"xor", "bitwise exclusive or", Stablehlo_LogicalTensor>;

def Stablehlo_IsFiniteOp : Stablehlo_Op<"is_finite", "neither infinite nor NaN", [SameOperandsAndResultShape]> {
  let arguments = (ins Stablehlo_FloatTensor:$x);
  let results = (outs Stablehlo_BoolTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
}

def Stablehlo_ConvertOp : Stablehlo_Op<"convert", "the same numbers in another type",
                                       [SameOperandsAndResultShape]> {
  let arguments = (ins Stablehlo_Tensor:$operand);
  let results = (outs Stablehlo_Tensor:$result);
  let assemblyFormat = "$operand attr-dict `:` custom<SameTypes>(type($operand), type($result))";
}

def Stablehlo_BitcastConvertOp : Stablehlo_Op<"bitcast_convert", "the same bits in another type"> {
  let description = [{
    - (C1) for types of equal width the shapes agree; else the tensor of the
      narrower type has one more dimension, the last, with the ratio of the widths.
  }];
  let arguments = (ins Stablehlo_Tensor:$operand);
  let results = (outs Stablehlo_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Stablehlo_ReducePrecisionOp : Stablehlo_Op<"reduce_precision", "round to fewer bits and back",
                                               [SameOperandsAndResultType]> {
  let description = [{
    - (C1) at least one bit of exponent; no negative count of mantissa bits.
  }];
  let arguments = (ins Stablehlo_FloatTensor:$operand, I32Attr:$exponent_bits, I32Attr:$mantissa_bits);
  let results = (outs Stablehlo_FloatTensor:$output);
  let assemblyFormat = [{
    $operand `,` `format` `=` custom<ExponentMantissa>($exponent_bits, $mantissa_bits) attr-dict `:`
    custom<SameTypes>(type($operand), type($output))
  }];
  let hasVerifier = 1;
}

def Stablehlo_CompareOp : Stablehlo_Op<"compare", "elementwise comparison",
                                       [SameOperandsAndResultShape, SameTypeOperands]> {
  let description = [{
    Every direction but NE is false where an operand is NaN, unless TOTALORDER.
  }];
  let arguments = (ins Stablehlo_Tensor:$lhs, Stablehlo_Tensor:$rhs,
                       Stablehlo_ComparisonDirectionAttr:$comparison_direction,
                       OptionalAttr<Stablehlo_ComparisonTypeAttr>:$compare_type);
  let results = (outs Stablehlo_BoolTensor:$result);
  let assemblyFormat = [{
    `` $comparison_direction `,` $lhs `,` $rhs (`,` `` $compare_type^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Stablehlo_SelectOp : Stablehlo_Op<"select", "on_true where the predicate holds, else on_false",
                                      [AllTypesMatch<["on_true", "on_false", "result"]>]> {
  let description = [{
    - (C1) the predicate is a scalar or has the shape of the others.
  }];
  let arguments = (ins Stablehlo_BoolTensor:$pred, Stablehlo_Tensor:$on_true, Stablehlo_Tensor:$on_false);
  let results = (outs Stablehlo_Tensor:$result);
  let assemblyFormat = [{
    $pred `,` $on_true `,` $on_false attr-dict `:`
    custom<SelectTypes>(type($pred), type($on_true), type($on_false), type($result))
  }];
  let hasVerifier = 1;
}

def Stablehlo_ClampOp : Stablehlo_Op<"clamp", "min(max(operand, min), max)",
                                     [AllTypesMatch<["operand", "result"]>]> {
  let description = [{
    - (C1) the bounds are scalars or have the operand's shape, and its element type.
  }];
  let arguments = (ins Stablehlo_Tensor:$min, Stablehlo_Tensor:$operand, Stablehlo_Tensor:$max);
  let results = (outs Stablehlo_Tensor:$result);
  let assemblyFormat = [{
    $min `,` $operand `,` $max attr-dict `:`
    custom<SameTypes>(type($min), type($operand), type($max), type($result))
  }];
  let hasVerifier = 1;
}

#endif // MPC_DIALECT_STABLEHLO_IR_STABLEHLOELEMENTWISE
