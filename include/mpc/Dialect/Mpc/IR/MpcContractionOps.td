//===- MpcContractionOps.td - matmul and attention ---------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCCONTRACTIONOPS
#define MPC_DIALECT_MPC_IR_MPCCONTRACTIONOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

def Mpc_MatmulOp : Mpc_WideningOp<"matmul", "Contraction",
    "2 * getContractionSize() * ::mpc::elementCount(getResult())",
    [DeclareOpInterfaceMethods<Mpc_ContractionOpInterface>]> {
  let summary = "Batched matrix multiplication (GEMM)";
  let description = [{
    `result[..., m, n] = sum over k of lhs[..., m, k] * rhs[..., k, n]`, with
    `transpose_lhs` / `transpose_rhs` for operands stored transposed. With `packed`
    the right-hand side is a constant in that panel layout and the number of columns
    is the result's. Products of 8-bit integers with an i32 result are exact modulo
    2^32; zero points are separate ops. Kernels multiply f8E4M3FN and f8E5M2
    operands on CUDA targets with matrix units of these types (sm_89 and later), into
    f32; mpc-multiply-float8 creates them. The tensor cores of sm_89 and wgmma
    (sm_90a) keep 13 fraction bits of their sums; with `accumulate(f32)` kernels add
    the sums of 128 products in f32.
    - (C1) operands have the same element type, 8-bit integers signed or not, or
      f8E4M3FN and f8E5M2, and rank at least 2.
    - (C2) the contracted extents agree.
    - (C3) the batch dimensions broadcast together as NumPy's do.
    - (C4) the result's element type is the operands' or a wider float; for 8-bit
      integers i32, or theirs if they agree; for 8-bit floats a wider float.
    - (C5) `accumulate`, if given, is at least as wide as the operands' type.
    - (C6) with `packed`: rhs is `[ceil(N/columns), K, columns]`, with depth D
      `[ceil(N/columns), ceil(K/D), D * columns]`, and not transposed.
  }];
  let arguments = (ins Mpc_Factor:$lhs, Mpc_Factor:$rhs, UnitAttr:$transpose_lhs,
                       UnitAttr:$transpose_rhs, OptionalAttr<TypeAttr>:$accumulate,
                       Mpc_ComputeDefault:$compute, OptionalAttr<Mpc_PackedAttr>:$packed);
  let results = (outs Mpc_Tensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs (`transpose_lhs` $transpose_lhs^)? (`transpose_rhs` $transpose_rhs^)?
    (`accumulate` `(` $accumulate^ `)`)? (`compute` `(` custom<EnumKeyword>($compute)^ `)`)? (`packed` `` $packed^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Mpc_AttentionOp : Mpc_WideningOp<"attention", "Attention",
    "4 * getContractionSize() * ::mpc::elementCount(getQuery())",
    [DeclareOpInterfaceMethods<Mpc_ContractionOpInterface, ["getAccumulateType"]>]> {
  let summary = "softmax(scale * query * key^T + mask) * value, softmax in f32";
  let description = [{
    Query `[..., H, S, D]`, key `[..., G, T, D]`, value `[..., G, T, E]`, result
    `[..., H, S, E]`; G divides H and group h reads head `h * G / H`. `mask`
    broadcasts to `[..., H, S, T]`: additive if float, keep-mask if i1. `causal`
    keeps `t <= s + T - S`. Both matmuls accumulate and the softmax runs in f32 (f64
    for f64 operands). A fully masked row gives zeros.
    - (C1) query, key and value have the same float element type and rank at least 3.
    - (C2) their extents agree as above.
    - (C3) the mask broadcasts to the scores and is i1 or float.
  }];
  let arguments = (ins Mpc_FloatTensor:$query, Mpc_FloatTensor:$key, Mpc_FloatTensor:$value,
                       Optional<Mpc_Tensor>:$mask, F64Attr:$scale, UnitAttr:$causal,
                       Mpc_ComputeDefault:$compute);
  let results = (outs Mpc_FloatTensor:$result);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`mask` `(` $mask^ `)`)? `scale` `(` $scale `)` (`causal` $causal^)?
    (`compute` `(` custom<EnumKeyword>($compute)^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = members # [{
    bool isPrecisionOperand(unsigned index) { return index < 3; }
  }];
}

#endif // MPC_DIALECT_MPC_IR_MPCCONTRACTIONOPS
