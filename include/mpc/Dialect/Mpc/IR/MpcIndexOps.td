//===- MpcIndexOps.td - gather, scatter, one_hot, iota -----*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCINDEXOPS
#define MPC_DIALECT_MPC_IR_MPCINDEXOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

def Mpc_GatherOp : Mpc_InferredOp<"gather", "Gather", "0", [Mpc_MovementOpInterface]> {
  let summary = "Take slices along an axis by index (ONNX Gather)";
  let description = [{
    The indices' shape replaces dimension `axis`. Negative indices count from the
    end; out-of-range indices are clamped.
    - (C1) `axis` is inside the rank.
  }];
  let arguments = (ins Mpc_Tensor:$input, Mpc_IndexTensor:$indices, I64Attr:$axis);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = "$input `,` $indices `axis` `(` $axis `)` attr-dict `:` functional-type(operands, results)";
}

def Mpc_GatherElementsOp : Mpc_InferredOp<"gather_elements", "Gather", "0", [Mpc_MovementOpInterface]> {
  let summary = "result[i..] = input[i.. with dimension axis replaced by indices[i..]]";
  let description = [{
    Indexing as in gather; the result has the indices' shape.
    - (C1) `axis` is inside the rank, and ranks agree.
    - (C2) off the axis, no extent of the indices exceeds the input's.
  }];
  let arguments = (ins Mpc_Tensor:$input, Mpc_IndexTensor:$indices, I64Attr:$axis);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = "$input `,` $indices `axis` `(` $axis `)` attr-dict `:` functional-type(operands, results)";
}

def Mpc_GatherNdOp : Mpc_InferredOp<"gather_nd", "Gather", "0", [Mpc_MovementOpInterface]> {
  let summary = "Take slices by index tuples (ONNX GatherND)";
  let description = [{
    The last dimension of `indices` holds tuples that index the input's
    dimensions after `batch_dims`; indexing as in gather.
    - (C1) the tuples are no longer than the input's rank minus `batch_dims`.
    - (C2) the first `batch_dims` extents agree.
  }];
  let arguments = (ins Mpc_Tensor:$input, Mpc_IndexTensor:$indices,
                       DefaultValuedAttr<I64Attr, "0">:$batch_dims);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = "$input `,` $indices (`batch_dims` `(` $batch_dims^ `)`)? attr-dict `:` functional-type(operands, results)";
}

def Mpc_ScatterElementsOp : Mpc_Op<"scatter_elements", "Opaque", "::mpc::elementCount(getUpdates())",
                                   [AllTypesMatch<["input", "result"]>]> {
  let summary = "Write updates at indices along an axis (ONNX ScatterElements)";
  let description = [{
    Updates are applied in row-major order; negative indices count from the end,
    out-of-range indices are dropped.
    - (C1) `axis` is inside the rank; indices and updates have the same shape.
    - (C2) updates have the input's element type and rank.
  }];
  let arguments = (ins Mpc_Tensor:$input, Mpc_IndexTensor:$indices, Mpc_Tensor:$updates, I64Attr:$axis,
                       DefaultValuedAttr<Mpc_ScatterReductionAttr, "::mpc::ScatterReduction::none">:$reduction);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $indices `,` $updates `axis` `(` $axis `)` (`reduction` `(` custom<EnumKeyword>($reduction)^ `)`)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Mpc_ScatterNdOp : Mpc_Op<"scatter_nd", "Opaque", "::mpc::elementCount(getUpdates())",
                             [AllTypesMatch<["input", "result"]>]> {
  let summary = "Write slices at index tuples (ONNX ScatterND)";
  let description = [{
    Order and out-of-range indices as in scatter_elements.
    - (C1) the tuples (last dimension of `indices`) are no longer than the rank.
    - (C2) updates are `indices.shape[:-1] ++ input.shape[tuple:]` of the input's type.
  }];
  let arguments = (ins Mpc_Tensor:$input, Mpc_IndexTensor:$indices, Mpc_Tensor:$updates,
                       DefaultValuedAttr<Mpc_ScatterReductionAttr, "::mpc::ScatterReduction::none">:$reduction);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $indices `,` $updates (`reduction` `(` custom<EnumKeyword>($reduction)^ `)`)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Mpc_OneHotOp : Mpc_InferredOp<"one_hot", "IndexMap", "0", [Mpc_Range]> {
  let summary = "One-hot encoding: on at the index along a new axis, off elsewhere";
  let description = [{
    Negative indices count from the end; an out-of-range index gives only `off`.
    - (C1) `axis` is inside the result's rank; `depth` is not negative.
    - (C2) `on` and `off` are scalar tensors of one element type, the result's.
  }];
  let arguments = (ins Mpc_IndexTensor:$indices, Mpc_Tensor:$on, Mpc_Tensor:$off,
                       I64Attr:$depth, I64Attr:$axis);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = [{
    $indices `,` $on `,` $off `depth` `(` $depth `)` `axis` `(` $axis `)`
    attr-dict `:` functional-type(operands, results)
  }];
}

def Mpc_IotaOp : Mpc_Op<"iota", "Source", "0", [Mpc_Range]> {
  let summary = "Index along an axis";
  let description = [{
    - (C1) `axis` is inside the rank.
  }];
  let arguments = (ins I64Attr:$axis);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = "`axis` `(` $axis `)` attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif // MPC_DIALECT_MPC_IR_MPCINDEXOPS
