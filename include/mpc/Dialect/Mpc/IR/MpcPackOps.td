//===- MpcPackOps.td - ops that targets put in --------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// No model has them; their classes are generated apart from the other ops
// (MpcPackOps.h).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCPACKOPS
#define MPC_DIALECT_MPC_IR_MPCPACKOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

def Mpc_PackOp : Mpc_InferredOp<"pack", "Opaque", "0"> {
  let summary = "Write a matrix in the panels that a matmul reads";
  let description = [{
    The matrix `[K, N]`, with `transpose` `[N, K]`, in the layout `packed`, as the
    right-hand side of a matmul has it: values only move, and panels are filled up
    with zeros.
    - (C1) the input has rank 2.
  }];
  let arguments = (ins Mpc_Tensor:$input, UnitAttr:$transpose, Mpc_PackedAttr:$packed);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = [{
    $input (`transpose` $transpose^)? `packed` `` $packed attr-dict `:` type($input) `to` type($result)
  }];
  let extraClassDeclaration = members # [{
    /// Extents of the matrix: what a product contracts, and its columns.
    int64_t getDepth() { return getInput().getType().getDimSize(getTranspose()); }
    int64_t getWidth() { return getInput().getType().getDimSize(!getTranspose()); }
  }];
}

#endif // MPC_DIALECT_MPC_IR_MPCPACKOPS
