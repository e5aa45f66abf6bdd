//===- MpcElementwiseOps.td - elementwise ops of mpc --------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCELEMENTWISEOPS
#define MPC_DIALECT_MPC_IR_MPCELEMENTWISEOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

//===----------------------------------------------------------------------===//
// Unary
//===----------------------------------------------------------------------===//

/// result[i] = f(input[i]), same type.
class Mpc_UnaryOp<string mnemonic, string text, string flops = "1", Type tensor = Mpc_FloatTensor,
                  list<Trait> traits = [], string facts = "">
    : Mpc_Op<mnemonic, "Elementwise", "getFlopsPerElement() * ::mpc::elementCount(getResult())",
             !listconcat([SameOperandsAndResultType, Mpc_ElementwiseOpInterface], traits)> {
  let summary = text;
  let arguments = (ins tensor:$input);
  let results = (outs tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let extraClassDeclaration = members # [{
    int64_t getFlopsPerElement() { return }] # flops # [{; }
  }] # facts;
}

/// Monotonically increasing or decreasing on the op's domain.
class Mpc_RisingOp<string mnemonic, string text, string flops = "1", list<Trait> traits = [],
                   Type tensor = Mpc_FloatTensor>
    : Mpc_UnaryOp<mnemonic, text, flops, tensor, !listconcat([Mpc_MonotoneOpInterface], traits)>;
class Mpc_FallingOp<string mnemonic, string text, string flops = "1", list<Trait> traits = [],
                    Type tensor = Mpc_FloatTensor>
    : Mpc_UnaryOp<mnemonic, text, flops, tensor, !listconcat([Mpc_MonotoneOpInterface], traits),
                  "bool isIncreasingIn(unsigned) { return false; }">;
/// Bounded by two constants.
class Mpc_BoundedOp<string mnemonic, string text, string flops, string low, string high,
                    list<Trait> traits = []>
    : Mpc_UnaryOp<mnemonic, text, flops, Mpc_FloatTensor,
                  !listconcat([Mpc_RangeOpInterface], traits), Mpc_Between<low, high>.members>;

def Mpc_AbsOp : Mpc_UnaryOp<"abs", "|x|", "1", Mpc_Tensor,
                          [Mpc_Range, Mpc_Exact, Mpc_KeepsFinite, Mpc_KeepsIntegers]>;
def Mpc_NegOp : Mpc_FallingOp<"neg", "-x", "1", [Mpc_Exact, Mpc_KeepsFinite, Mpc_KeepsIntegers],
                              Mpc_Tensor>;
def Mpc_SignOp : Mpc_RisingOp<"sign", "-1, 0 or 1; NaN stays NaN", "1", [Mpc_Exact, Mpc_KeepsFinite],
                              Mpc_Tensor>;
defvar Mpc_Rounding = [Mpc_OrderOpInterface, Mpc_Exact, Mpc_KeepsFinite, Mpc_RoundsToInteger];
def Mpc_FloorOp : Mpc_RisingOp<"floor", "largest integer not above x", "1", Mpc_Rounding>;
def Mpc_CeilOp : Mpc_RisingOp<"ceil", "smallest integer not below x", "1", Mpc_Rounding>;
def Mpc_RoundOp : Mpc_RisingOp<"round", "nearest integer, halves to even", "1", Mpc_Rounding>;
def Mpc_ExpOp : Mpc_RisingOp<"exp", "e^x", "8">;
def Mpc_Expm1Op : Mpc_RisingOp<"expm1", "e^x - 1 without cancellation", "10">;
def Mpc_LogOp : Mpc_RisingOp<"log", "natural logarithm", "10", [Mpc_PoleOpInterface]>;
def Mpc_Log1pOp : Mpc_RisingOp<"log1p", "log(1 + x) without cancellation", "12">;
def Mpc_SqrtOp : Mpc_UnaryOp<"sqrt", "square root", "1", Mpc_FloatTensor,
                             [Mpc_MonotoneOpInterface, Mpc_RangeOpInterface],
                             Mpc_Between<"0", "::mpc::KnownRange().high">.members>;
def Mpc_RsqrtOp : Mpc_FallingOp<"rsqrt", "1 / sqrt(x)", "2", [Mpc_PoleOpInterface]>;
def Mpc_ReciprocalOp : Mpc_UnaryOp<"reciprocal", "1 / x", "1", Mpc_FloatTensor,
                                   [Mpc_PoleOpInterface]>;
def Mpc_SinOp : Mpc_BoundedOp<"sin", "sine, x in radians", "12", "-1", "1", [Mpc_KeepsFinite]>;
def Mpc_CosOp : Mpc_BoundedOp<"cos", "cosine, x in radians", "12", "-1", "1", [Mpc_KeepsFinite]>;
def Mpc_TanOp : Mpc_UnaryOp<"tan", "tangent, x in radians", "20", Mpc_FloatTensor,
                          [Mpc_KeepsFinite]>;
def Mpc_AsinOp : Mpc_RisingOp<"asin", "inverse sine", "15">;
def Mpc_AcosOp : Mpc_FallingOp<"acos", "inverse cosine", "15">;
def Mpc_AtanOp : Mpc_RisingOp<"atan", "inverse tangent", "15", [Mpc_KeepsFinite]>;
def Mpc_SinhOp : Mpc_RisingOp<"sinh", "hyperbolic sine", "18">;
def Mpc_CoshOp : Mpc_BoundedOp<"cosh", "hyperbolic cosine", "18", "1", "::mpc::KnownRange().high">;
def Mpc_AsinhOp : Mpc_RisingOp<"asinh", "inverse hyperbolic sine", "18", [Mpc_KeepsFinite]>;
def Mpc_AcoshOp : Mpc_RisingOp<"acosh", "inverse hyperbolic cosine", "18">;
def Mpc_AtanhOp : Mpc_RisingOp<"atanh", "inverse hyperbolic tangent", "18">;
def Mpc_TanhOp : Mpc_RisingOp<"tanh", "hyperbolic tangent", "12", [Mpc_KeepsFinite]>;
def Mpc_SigmoidOp : Mpc_RisingOp<"sigmoid", "1 / (1 + e^-x)", "10", [Mpc_KeepsFinite]>;
def Mpc_ErfOp : Mpc_RisingOp<"erf", "error function", "15", [Mpc_KeepsFinite]>;
def Mpc_ReluOp : Mpc_RisingOp<"relu", "max(x, 0); NaN stays NaN", "1",
                              [Mpc_Exact, Mpc_KeepsFinite, Mpc_KeepsIntegers], Mpc_Tensor>;
def Mpc_SiluOp : Mpc_UnaryOp<"silu", "x * sigmoid(x)", "11", Mpc_FloatTensor, [Mpc_KeepsFinite]>;
def Mpc_SoftplusOp : Mpc_RisingOp<"softplus", "log(1 + e^x)", "18", [Mpc_KeepsFinite]>;
def Mpc_NotOp : Mpc_UnaryOp<"not", "bitwise (on i1: logical) complement", "0", Mpc_IntTensor>;

class Mpc_AlphaOp<string mnemonic, string text, string flops>
    : Mpc_UnaryOp<mnemonic, text, flops, Mpc_FloatTensor, [Mpc_KeepsFinite]> {
  let arguments = (ins Mpc_FloatTensor:$input, F64Attr:$alpha);
  let assemblyFormat = "$input `alpha` `(` $alpha `)` attr-dict `:` type($result)";
}
def Mpc_LeakyReluOp : Mpc_AlphaOp<"leaky_relu", "x where x >= 0, alpha * x elsewhere", "2">;
def Mpc_EluOp : Mpc_AlphaOp<"elu", "x where x >= 0, alpha * (e^x - 1) elsewhere", "12">;

def Mpc_GeluOp : Mpc_UnaryOp<"gelu", "x times the normal distribution function of x", "18",
                             Mpc_FloatTensor, [Mpc_KeepsFinite]> {
  let description = [{
    Form `erf`: `x * (1 + erf(x / sqrt(2))) / 2`. Form `tanh`:
    `x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2`
    (Hendrycks and Gimpel, arXiv 1606.08415).
  }];
  let arguments = (ins Mpc_FloatTensor:$input,
                       DefaultValuedAttr<Mpc_GeluFormAttr, "::mpc::GeluForm::erf">:$form);
  let assemblyFormat = "$input (`form` `(` custom<EnumKeyword>($form)^ `)`)? attr-dict `:` type($result)";
}

class Mpc_ClassifyOp<string mnemonic, string text, list<Trait> traits = []>
    : Mpc_InferredOp<mnemonic, "Elementwise", "::mpc::elementCount(getResult())",
                     !listconcat([Mpc_ElementwiseOpInterface], traits)> {
  let summary = text;
  let arguments = (ins Mpc_FloatTensor:$input);
  let results = (outs Mpc_BoolTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}
def Mpc_IsNanOp : Mpc_ClassifyOp<"is_nan", "true where x is NaN">;
def Mpc_IsInfOp : Mpc_ClassifyOp<"is_inf", "true where x is an infinity", [Mpc_OrderOpInterface]> {
  let arguments = (ins Mpc_FloatTensor:$input, DefaultValuedAttr<BoolAttr, "true">:$positive,
                       DefaultValuedAttr<BoolAttr, "true">:$negative);
}

def Mpc_CastOp : Mpc_Op<"cast", "Elementwise", "::mpc::elementCount(getResult())",
                        [SameOperandsAndResultShape, Mpc_ElementwiseOpInterface, Mpc_Range,
                         Mpc_KeepsFinite, Mpc_KeepsIntegers]> {
  let summary = "Convert each element to another type";
  let description = [{
    Float to float rounds once, to nearest, ties to even; overflow gives infinity.
    Float to integer truncates towards zero and saturates; NaN gives 0. To `i1`:
    true if the value is not zero. Integer to integer wraps. `pinned` marks a cast
    from the imported model, which no pass may drop.
  }];
  let arguments = (ins Mpc_Tensor:$input, UnitAttr:$pinned);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = "$input (`pinned` $pinned^)? attr-dict `:` type($input) `to` type($result)";
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Binary and ternary, with NumPy broadcasting
//===----------------------------------------------------------------------===//

class Mpc_BinaryOp<string mnemonic, string text, Type tensor = Mpc_Tensor, string flops = "1",
                   list<Trait> traits = [], string facts = "">
    : Mpc_InferredOp<mnemonic, "Elementwise", "getFlopsPerElement() * ::mpc::elementCount(getResult())",
             !listconcat([Mpc_ElementwiseOpInterface], traits)> {
  let summary = text;
  let description = [{
    - (C1) operands have the same element type.
    - (C2) operand shapes broadcast together as NumPy's do.
    - (C3) the result has the broadcast shape and the operands' element type.
  }];
  let arguments = (ins tensor:$lhs, tensor:$rhs);
  let results = (outs tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = members # [{
    int64_t getFlopsPerElement() { return }] # flops # [{; }
  }] # facts;
}

def Mpc_AddOp : Mpc_BinaryOp<"add", "lhs + rhs; integers wrap", Mpc_Tensor, "1",
                           [Commutative, Mpc_MonotoneOpInterface, Mpc_Additive, Mpc_KeepsFinite,
                            Mpc_KeepsIntegers]> {
  let hasFolder = 1;
}
def Mpc_SubOp : Mpc_BinaryOp<"sub", "lhs - rhs; integers wrap", Mpc_Tensor, "1",
                           [Mpc_MonotoneOpInterface, Mpc_Additive, Mpc_KeepsFinite, Mpc_KeepsIntegers],
                           "bool isIncreasingIn(unsigned index) { return index == 0; }"> {
  let hasFolder = 1;
}
def Mpc_MulOp : Mpc_BinaryOp<"mul", "lhs * rhs; integers wrap", Mpc_Tensor, "1",
                           [Commutative, Mpc_Range, Mpc_KeepsFinite, Mpc_KeepsIntegers]> {
  let hasFolder = 1;
}
def Mpc_DivOp : Mpc_BinaryOp<"div", "lhs / rhs; integers truncate, division by 0 gives 0", Mpc_Tensor,
                             "1", [Mpc_Range, Mpc_PoleOpInterface],
                             "bool isSingularAtZero(unsigned index) { return index == 1; }"> {
  let hasFolder = 1;
}
def Mpc_MaxOp : Mpc_BinaryOp<"max", "larger operand; NaN if either is NaN", Mpc_Tensor, "1",
                           [Commutative, Mpc_MonotoneOpInterface, Mpc_Exact, Mpc_KeepsFinite,
                            Mpc_KeepsIntegers]>;
def Mpc_MinOp : Mpc_BinaryOp<"min", "smaller operand; NaN if either is NaN", Mpc_Tensor, "1",
                           [Commutative, Mpc_MonotoneOpInterface, Mpc_Exact, Mpc_KeepsFinite,
                            Mpc_KeepsIntegers]>;
def Mpc_PowOp : Mpc_BinaryOp<"pow", "lhs to the power rhs", Mpc_Tensor, "20", [Mpc_Range]>;
def Mpc_Atan2Op : Mpc_BinaryOp<"atan2", "angle of the point (rhs, lhs), in radians, from -pi to pi", Mpc_FloatTensor,
                               "20", [Mpc_KeepsFinite]>;
def Mpc_RemOp : Mpc_BinaryOp<"rem", "remainder with the sign of lhs (C's fmod); by 0 gives 0 on integers",
                             Mpc_Tensor, "1", [Mpc_OrderOpInterface, Mpc_KeepsIntegers]>;
def Mpc_AndOp : Mpc_BinaryOp<"and", "bitwise (on i1: logical) and", Mpc_IntTensor, "0", [Commutative]>;
def Mpc_OrOp : Mpc_BinaryOp<"or", "bitwise (on i1: logical) or", Mpc_IntTensor, "0", [Commutative]>;
def Mpc_XorOp : Mpc_BinaryOp<"xor", "bitwise (on i1: logical) exclusive or", Mpc_IntTensor, "0", [Commutative]>;
def Mpc_ShiftLeftOp : Mpc_BinaryOp<"shift_left", "lhs * 2^rhs; 0 from the type's width on", Mpc_IntTensor, "0">;
def Mpc_ShiftRightOp : Mpc_BinaryOp<"shift_right", "lhs shifted right by rhs, zeros shifted in", Mpc_IntTensor, "0">;

def Mpc_CompareOp : Mpc_InferredOp<"compare", "Elementwise", "::mpc::elementCount(getResult())",
                                   [Mpc_ElementwiseOpInterface,
                                    DeclareOpInterfaceMethods<Mpc_OrderOpInterface, ["dependsOnOrder"]>]> {
  let summary = "Elementwise comparison";
  let description = [{
    Every predicate but `ne` is false if an operand is NaN.
    - (C1) operands have the same element type.
    - (C2) operand shapes broadcast together.
    - (C3) the result has the broadcast shape and element type `i1`.
  }];
  let arguments = (ins Mpc_ComparePredicateAttr:$predicate, Mpc_Tensor:$lhs, Mpc_Tensor:$rhs);
  let results = (outs Mpc_BoolTensor:$result);
  let assemblyFormat = "$predicate $lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
}

def Mpc_SelectOp : Mpc_InferredOp<"select", "Elementwise", "0",
                                  [Mpc_ElementwiseOpInterface, Mpc_Range, Mpc_Exact,
                                   Mpc_KeepsIntegers]> {
  let summary = "Take on_true where the condition holds, on_false elsewhere";
  let description = [{
    - (C1) `on_true` and `on_false` have the same element type.
    - (C2) the three shapes broadcast together.
  }];
  let arguments = (ins Mpc_BoolTensor:$condition, Mpc_Tensor:$on_true, Mpc_Tensor:$on_false);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = "$condition `,` $on_true `,` $on_false attr-dict `:` functional-type(operands, results)";
}

def Mpc_ClampOp : Mpc_InferredOp<"clamp", "Elementwise", "2 * ::mpc::elementCount(getResult())",
                                 [Mpc_ElementwiseOpInterface, Mpc_MonotoneOpInterface, Mpc_Exact,
                                  Mpc_KeepsFinite, Mpc_KeepsIntegers]> {
  let summary = "min(max(input, low), high); NaN stays NaN";
  let description = [{
    - (C1) the three operands have the same element type.
    - (C2) `low` and `high` broadcast to the shape of `input`, which is the result's.
  }];
  let arguments = (ins Mpc_Tensor:$input, Mpc_Tensor:$low, Mpc_Tensor:$high);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = "$input `,` $low `,` $high attr-dict `:` functional-type(operands, results)";
}

#endif // MPC_DIALECT_MPC_IR_MPCELEMENTWISEOPS
