//===- MpcArithmeticOps.td - binary arithmetic -------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCARITHMETICOPS
#define MPC_DIALECT_MPC_IR_MPCARITHMETICOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

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

#endif // MPC_DIALECT_MPC_IR_MPCARITHMETICOPS
