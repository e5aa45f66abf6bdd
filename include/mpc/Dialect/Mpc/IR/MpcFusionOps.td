//===- MpcFusionOps.td - fusion and its terminator ---------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCFUSIONOPS
#define MPC_DIALECT_MPC_IR_MPCFUSIONOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

def Mpc_FusionOp : Op<Mpc_Dialect, "fusion", [IsolatedFromAbove, Pure, Mpc_CostOpInterface,
                                              SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "A region that becomes one kernel or one library call";
  let description = [{
    Block arguments are the operands; `mpc.yield` gives the results.
    - (C1) block arguments match the operands in number and type.
    - (C2) the yielded values match the results in number and type.
  }];
  let arguments = (ins Variadic<Mpc_Factor>:$inputs, Mpc_FusionKindAttr:$kind, StrAttr:$name);
  let results = (outs Variadic<Mpc_Factor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Sum of the flops of the ops inside.
    int64_t getFlops();
  }];
}

def Mpc_YieldOp : Op<Mpc_Dialect, "yield", [Pure, Terminator, HasParent<"FusionOp">]> {
  let summary = "Results of a fusion";
  let arguments = (ins Variadic<Mpc_Factor>:$values);
  let builders = [OpBuilder<(ins)>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // MPC_DIALECT_MPC_IR_MPCFUSIONOPS
