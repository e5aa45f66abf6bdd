//===- MpcReductionOps.td - reductions and scans ------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCREDUCTIONOPS
#define MPC_DIALECT_MPC_IR_MPCREDUCTIONOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

class Mpc_ReduceOp<string mnemonic, string text, list<Trait> traits = []>
    : Mpc_WideningOp<mnemonic, "Reduction", "::mpc::elementCount(getInput())",
                     !listconcat([DeclareOpInterfaceMethods<Mpc_ReductionOpInterface,
                                                            ["getAccumulateType"]>,
                                  Mpc_JoinsRows, Mpc_Range], traits)> {
  let summary = text;
  let description = [{
    Reduces `axes`; with `keep_dims` they stay as extent 1. Accumulates in the
    `accumulate` type (default: the result's element type).
    - (C1) axes are ascending, unique and inside the rank.
    - (C2) the result's element type is the input's or a wider float.
    - (C3) `accumulate`, if given, is at least as wide as the input's type.
  }];
  let arguments = (ins Mpc_Tensor:$input, DenseI64ArrayAttr:$axes, UnitAttr:$keep_dims,
                       OptionalAttr<TypeAttr>:$accumulate);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = [{
    $input `axes` `(` $axes `)` (`keep_dims` $keep_dims^)? (`accumulate` `(` $accumulate^ `)`)?
    attr-dict `:` type($input) `->` type($result)
  }];
}
def Mpc_ReduceSumOp : Mpc_ReduceOp<"reduce_sum", "Sum over axes", [Mpc_AddsUp, Mpc_KeepsIntegers]>;
def Mpc_ReduceMeanOp : Mpc_ReduceOp<"reduce_mean", "Arithmetic mean over axes; integers truncate",
                                    [Mpc_AddsUp]>;
def Mpc_ReduceProdOp : Mpc_ReduceOp<"reduce_prod", "Product over axes", [Mpc_KeepsIntegers]>;
def Mpc_ReduceMaxOp : Mpc_ReduceOp<"reduce_max", "Maximum over axes; propagates NaN, the lowest value over no elements",
                                   [Mpc_Exact, Mpc_KeepsIntegers]>;
def Mpc_ReduceMinOp : Mpc_ReduceOp<"reduce_min", "Minimum over axes; propagates NaN, the highest value over no elements",
                                   [Mpc_Exact, Mpc_KeepsIntegers]>;

class Mpc_ArgReduceOp<string mnemonic, string text>
    : Mpc_InferredOp<mnemonic, "Reduction", "::mpc::elementCount(getInput())",
                     [DeclareOpInterfaceMethods<Mpc_ReductionOpInterface>, Mpc_Range,
                      Mpc_OrderOpInterface]> {
  let summary = text;
  let description = [{
    Ties give the first index, or the last with `select_last`.
    - (C1) `axis` is inside the rank and its extent is not 0.
  }];
  let arguments = (ins Mpc_Tensor:$input, I64Attr:$axis, UnitAttr:$keep_dims, UnitAttr:$select_last);
  let results = (outs RankedTensorOf<[I64]>:$result);
  let assemblyFormat = [{
    $input `axis` `(` $axis `)` (`keep_dims` $keep_dims^)? (`select_last` $select_last^)?
    attr-dict `:` type($input) `->` type($result)
  }];
}
def Mpc_ArgmaxOp : Mpc_ArgReduceOp<"argmax", "Position of the maximum along an axis">;
def Mpc_ArgminOp : Mpc_ArgReduceOp<"argmin", "Position of the minimum along an axis">;

def Mpc_CumsumOp : Mpc_Op<"cumsum", "Scan", "::mpc::elementCount(getResult())",
    [SameOperandsAndResultType, DeclareOpInterfaceMethods<Mpc_ReductionOpInterface>,
     Mpc_Range, Mpc_AddsUp, Mpc_KeepsIntegers]> {
  let summary = "Running sum along an axis";
  let description = [{
    - (C1) `axis` is inside the rank.
  }];
  let arguments = (ins Mpc_Tensor:$input, I64Attr:$axis, UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = [{
    $input `axis` `(` $axis `)` (`exclusive` $exclusive^)? (`reverse` $reverse^)?
    attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

def Mpc_TopKOp : Mpc_InferredOp<"top_k", "Opaque", "::mpc::elementCount(getInput())",
                                [Mpc_Range, Mpc_OrderOpInterface]> {
  let summary = "The k largest (or smallest) elements along an axis, in order";
  let description = [{
    Ties are in index order.
    - (C1) `axis` is inside the rank, `0 <= k <= extent`.
  }];
  let arguments = (ins Mpc_Tensor:$input, I64Attr:$k, I64Attr:$axis,
                       DefaultValuedAttr<BoolAttr, "true">:$largest);
  let results = (outs Mpc_Tensor:$values, RankedTensorOf<[I64]>:$indices);
  let assemblyFormat = [{
    $input `k` `(` $k `)` `axis` `(` $axis `)` (`largest` `(` $largest^ `)`)?
    attr-dict `:` type($input) `->` type($values) `,` type($indices)
  }];
}

#endif // MPC_DIALECT_MPC_IR_MPCREDUCTIONOPS
