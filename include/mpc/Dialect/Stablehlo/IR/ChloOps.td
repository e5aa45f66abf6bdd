//===- ChloOps.td - CHLO ops -------------------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_STABLEHLO_IR_CHLOOPS
#define MPC_DIALECT_STABLEHLO_IR_CHLOOPS

include "mpc/Dialect/Stablehlo/IR/StablehloBase.td"

def Chlo_Dialect : Dialect {
  let name = "chlo";
  let cppNamespace = "::mpc::chlo";
  let summary = "CHLO: client functions of JAX on top of StableHLO";
  let extraClassDeclaration = [{
    /// Emits the error that an op of this name is unsupported.
    std::optional<ParseOpHook> getParseOperationHook(::llvm::StringRef name) const override;
  }];
}

class Chlo_Op<string mnemonic, string text, list<Trait> traits = []>
    : Op<Chlo_Dialect, mnemonic, !listconcat([Pure], traits)> {
  let summary = text;
}

class Chlo_UnaryOp<string mnemonic, string text, Type tensor = Stablehlo_FloatTensor>
    : Chlo_Op<mnemonic, text, [SameOperandsAndResultType]> {
  let arguments = (ins tensor:$operand);
  let results = (outs tensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}
def Chlo_AcosOp : Chlo_UnaryOp<"acos", "inverse cosine">;
def Chlo_AcoshOp : Chlo_UnaryOp<"acosh", "inverse hyperbolic cosine">;
def Chlo_AsinOp : Chlo_UnaryOp<"asin", "inverse sine">;
def Chlo_AsinhOp : Chlo_UnaryOp<"asinh", "inverse hyperbolic sine">;
def Chlo_AtanOp : Chlo_UnaryOp<"atan", "inverse tangent">;
def Chlo_AtanhOp : Chlo_UnaryOp<"atanh", "inverse hyperbolic tangent">;
def Chlo_CoshOp : Chlo_UnaryOp<"cosh", "hyperbolic cosine">;
def Chlo_ErfOp : Chlo_UnaryOp<"erf", "error function">;
def Chlo_ErfInvOp : Chlo_UnaryOp<"erf_inv", "inverse of the error function">;
def Chlo_ErfcOp : Chlo_UnaryOp<"erfc", "1 - erf(x)">;
def Chlo_SinhOp : Chlo_UnaryOp<"sinh", "hyperbolic sine">;
def Chlo_SquareOp : Chlo_UnaryOp<"square", "x * x", Stablehlo_Tensor>;
def Chlo_TanOp : Chlo_UnaryOp<"tan", "tangent">;

class Chlo_ClassifyOp<string mnemonic, string text> : Chlo_Op<mnemonic, text, [SameOperandsAndResultShape]> {
  let arguments = (ins Stablehlo_FloatTensor:$operand);
  let results = (outs Stablehlo_BoolTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}
def Chlo_IsInfOp : Chlo_ClassifyOp<"is_inf", "infinite">;
def Chlo_IsPosInfOp : Chlo_ClassifyOp<"is_pos_inf", "infinite and positive">;
def Chlo_IsNegInfOp : Chlo_ClassifyOp<"is_neg_inf", "infinite and negative">;

def Chlo_TopKOp : Chlo_Op<"top_k", "the k largest along the last dimension, in order"> {
  let description = [{
    - (C1) `0 <= k <=` the last extent, which the results replace by k.
  }];
  let arguments = (ins Stablehlo_Tensor:$operand, I64Attr:$k);
  let results = (outs Stablehlo_Tensor:$values, Stablehlo_IntTensor:$indices);
  let assemblyFormat = [{
    `(` $operand `,` `k` `=` $k `)` attr-dict `:` type($operand) `->` `(` type($values) `,` type($indices) `)`
  }];
  let hasVerifier = 1;
}

#endif // MPC_DIALECT_STABLEHLO_IR_CHLOOPS
