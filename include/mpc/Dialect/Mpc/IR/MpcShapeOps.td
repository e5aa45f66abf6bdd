//===- MpcShapeOps.td - reshape, transpose, broadcast ------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCSHAPEOPS
#define MPC_DIALECT_MPC_IR_MPCSHAPEOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

def Mpc_ReshapeOp : Mpc_Op<"reshape", "View", "0",
                            [SameOperandsAndResultElementType, Mpc_MovementOpInterface]> {
  let summary = "The same elements in row-major order under another shape";
  let description = [{
    - (C1) both shapes have the same number of elements.
  }];
  let arguments = (ins Mpc_Factor:$input);
  let results = (outs Mpc_Factor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDeclaration = members # "bool isPermutation() { return true; }";
}

def Mpc_TransposeOp : Mpc_InferredOp<"transpose", "IndexMap", "0", [Mpc_StridedMovement]> {
  let summary = "Permute dimensions: result dimension i is input dimension permutation[i]";
  let description = [{
    - (C1) `permutation` is a permutation of the input's dimensions.
  }];
  let arguments = (ins Mpc_Factor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Mpc_Factor:$result);
  let assemblyFormat = "$input $permutation attr-dict `:` type($input) `to` type($result)";
  let hasFolder = 1;
  let extraClassDeclaration = members # "bool isPermutation() { return true; }";
}

def Mpc_BroadcastOp : Mpc_Op<"broadcast", "IndexMap", "0",
                              [SameOperandsAndResultElementType, Mpc_StridedMovement]> {
  let summary = "Repeat along new leading dimensions and dimensions of extent 1";
  let description = [{
    - (C1) the input's shape broadcasts to the result's as NumPy's do.
  }];
  let arguments = (ins Mpc_Factor:$input);
  let results = (outs Mpc_Factor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

#endif // MPC_DIALECT_MPC_IR_MPCSHAPEOPS
