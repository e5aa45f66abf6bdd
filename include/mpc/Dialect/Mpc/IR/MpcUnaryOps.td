//===- MpcUnaryOps.td - unary elementwise functions --------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCUNARYOPS
#define MPC_DIALECT_MPC_IR_MPCUNARYOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

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

#endif // MPC_DIALECT_MPC_IR_MPCUNARYOPS
