//===- MpcCommunicationEnums.td - rank reductions ----------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCCOMMUNICATIONENUMS
#define MPC_DIALECT_MPC_IR_MPCCOMMUNICATIONENUMS

include "mlir/IR/EnumAttr.td"

def Mpc_RankReduction : I32EnumAttr<"RankReduction", "reduction of a collective", [
    I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"mean", 1>, I32EnumAttrCase<"min", 2>,
    I32EnumAttrCase<"max", 3>]> {
  let cppNamespace = "::mpc";
}

#endif // MPC_DIALECT_MPC_IR_MPCCOMMUNICATIONENUMS
