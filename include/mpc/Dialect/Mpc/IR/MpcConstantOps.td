//===- MpcConstantOps.td - constant tensors ----------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCCONSTANTOPS
#define MPC_DIALECT_MPC_IR_MPCCONSTANTOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

def Mpc_ConstantOp : Op<Mpc_Dialect, "constant", [Pure, ConstantLike, Mpc_FusionOpInterface, Mpc_Range,
                                                  AllTypesMatch<["value", "result"]>]> {
  let summary = "A constant tensor";
  let description = [{
    Small values are dense attributes, large ones resources.
    - (C1) a resource is present and holds exactly the type's bytes.
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Mpc_Factor:$result);
  let assemblyFormat = "$value attr-dict";
  let hasFolder = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mpc::FusionClass getFusionClass() { return ::mpc::FusionClass::Constant; }
  }];
}

#endif // MPC_DIALECT_MPC_IR_MPCCONSTANTOPS
