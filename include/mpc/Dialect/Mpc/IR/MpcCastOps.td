//===- MpcCastOps.td - conversion of element types ---------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCCASTOPS
#define MPC_DIALECT_MPC_IR_MPCCASTOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

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

#endif // MPC_DIALECT_MPC_IR_MPCCASTOPS
