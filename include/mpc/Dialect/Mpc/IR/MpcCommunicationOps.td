//===- MpcCommunicationOps.td - collectives ----------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collective communication in a training step (SPMD): every rank runs the same
// function on its own values. The reference interpreter executes all ranks at
// once.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCCOMMUNICATIONOPS
#define MPC_DIALECT_MPC_IR_MPCCOMMUNICATIONOPS

include "mpc/Dialect/Mpc/IR/MpcCommunicationEnums.td"
include "mpc/Dialect/Mpc/IR/MpcCommunicationInterfaces.td"
include "mpc/Dialect/Mpc/IR/MpcOpBase.td"
include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.td"

class Mpc_CollectiveOp<string mnemonic>
    : Mpc_Op<mnemonic, "Opaque", "0",
             [Mpc_KeepsBooks, Mpc_CollectiveOpInterface]> {
  let results = (outs Variadic<Mpc_Tensor>:$outputs);
  let hasVerifier = 1;
}

class Mpc_ReducingOp<string mnemonic> : Mpc_CollectiveOp<mnemonic> {
  string reducing = [{
    A sum is made in the order of ranks and in `accumulate`, the elements' type
    where it is absent; `mean` divides it by the number of ranks; the outcome is
    rounded once. `min` and `max` of a NaN and anything are NaN. A reduction's order
    is the same whatever transports the message, so that every rank has the same
    bits, in every run.
  }];
  let arguments = (ins Variadic<Mpc_Tensor>:$inputs, Mpc_RankReduction:$reduction,
                       ConfinedAttr<I64Attr, [IntPositive]>:$ranks, OptionalAttr<TypeAttr>:$accumulate);
  let assemblyFormat = [{
    $inputs `reduction` `(` $reduction `)` `ranks` `(` $ranks `)` (`accumulate` `(` $accumulate^ `)`)?
    attr-dict `:` functional-type($inputs, $outputs)
  }];
}

def Mpc_AllReduceOp : Mpc_ReducingOp<"all_reduce"> {
  let summary = "Reduce values over all ranks; every rank gets the result";
  let description = [{
    ```mlir
    %0:2 = mpc.all_reduce %a, %b reduction(mean) ranks(4) accumulate(f32)
      : (tensor<8x4xbf16>, tensor<3xbf16>) -> (tensor<8x4xbf16>, tensor<3xbf16>)
    ```
    }] # reducing # [{
    - (C1) there is an input, and all have one element type.
    - (C2) outputs have their inputs' types.
    - (C3) `accumulate` is of floats and no narrower than they; a mean is of floats.
  }];
}

def Mpc_ReduceScatterOp : Mpc_ReducingOp<"reduce_scatter"> {
  let summary = "Reduce values over all ranks; each rank gets one shard";
  let description = [{
    An input of n elements is flattened and zero-padded to a multiple of `ranks`;
    rank r gets shard r of the reduction.
    }] # reducing # [{
    - (C1) there is an input, and all have one element type.
    - (C2) an output is one row of ceil(n / ranks) of its input's elements.
    - (C3) `accumulate` is of floats and no narrower than they; a mean is of floats.
  }];
}

def Mpc_AllGatherOp : Mpc_CollectiveOp<"all_gather"> {
  let summary = "Gather the values of all ranks on every rank";
  let description = [{
    `output[r] = input of rank r`.
    - (C1) there is an input, and all have one element type.
    - (C2) an output has its input's shape with a leading dimension of `ranks`.
  }];
  let arguments = (ins Variadic<Mpc_Tensor>:$inputs, ConfinedAttr<I64Attr, [IntPositive]>:$ranks);
  let assemblyFormat = [{
    $inputs `ranks` `(` $ranks `)` attr-dict `:` functional-type($inputs, $outputs)
  }];
}

def Mpc_CollectiveBroadcastOp : Mpc_CollectiveOp<"collective_broadcast"> {
  let summary = "Send the values of one rank to all ranks";
  let description = [{
    - (C1) there is an input, and all have one element type.
    - (C2) outputs have their inputs' types.
    - (C3) `root` is one of the ranks.
  }];
  let arguments = (ins Variadic<Mpc_Tensor>:$inputs, I64Attr:$root,
                       ConfinedAttr<I64Attr, [IntPositive]>:$ranks);
  let assemblyFormat = [{
    $inputs `root` `(` $root `)` `ranks` `(` $ranks `)` attr-dict
    `:` functional-type($inputs, $outputs)
  }];
}

#endif // MPC_DIALECT_MPC_IR_MPCCOMMUNICATIONOPS
