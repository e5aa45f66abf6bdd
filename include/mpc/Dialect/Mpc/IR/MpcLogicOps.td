//===- MpcLogicOps.td - comparison, selection, bits --------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCLOGICOPS
#define MPC_DIALECT_MPC_IR_MPCLOGICOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

def Mpc_NotOp : Mpc_UnaryOp<"not", "bitwise (on i1: logical) complement", "0", Mpc_IntTensor>;

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

#endif // MPC_DIALECT_MPC_IR_MPCLOGICOPS
