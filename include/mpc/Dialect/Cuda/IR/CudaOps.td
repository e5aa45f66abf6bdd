//===- CudaOps.td - the cuda dialect ------------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_CUDA_IR_CUDAOPS
#define MPC_DIALECT_CUDA_IR_CUDAOPS

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Cuda_Dialect : Dialect {
  let name = "cuda";
  let cppNamespace = "::mpc::cuda";
  let summary = "NVIDIA-specific ops of GPU kernels";
  let description = [{
    A kernel is a `gpu.func` in a `gpu.module` that uses gpu, scf, memref, vector, arith
    and math; this dialect adds the functions of the prelude (lib/Target/CUDA/Prelude)
    that those lack, one op per function. Tensor-core fragments are one-dimensional
    memrefs in private memory (`memref.alloca`, or a subview of one), 32-bit words in
    the lane layout of the PTX manual.
  }];
}

class Cuda_Op<string mnemonic, list<Trait> traits = []> : Op<Cuda_Dialect, mnemonic, traits>;

def Cuda_Value : AnyTypeOf<[AnySignlessInteger, AnyFloat, VectorOfAnyRankOf<[AnySignlessInteger, AnyFloat]>],
                           "scalar or vector">;

def Cuda_CallOp : Cuda_Op<"call", [Pure]> {
  let summary = "Call a prelude function elementwise";
  let description = [{
    `callee` is the name without its namespace: `exp`, `gelu`, `toTf32`.
    ```mlir
    %y = cuda.call "gelu"(%x) : (vector<4xf32>) -> vector<4xf32>
    ```
  }];
  let arguments = (ins StrAttr:$callee, Variadic<Cuda_Value>:$operands);
  let results = (outs Cuda_Value:$result);
  let assemblyFormat = "$callee `(` $operands `)` attr-dict `:` functional-type($operands, $result)";
}

def Cuda_MmaOp : Cuda_Op<"mma", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Accumulate a * b on a warp's fragments (mma.sync)";
  let description = [{
    `sums` is `memref<4xf32>`, `a` has 4 words and `b` 2: m16n8k16 for f16 and bf16,
    m16n8k8 for tf32, m16n8k32 for 8-bit floats. `rhs_type` is the type of `b` if it
    differs from that of `a`.
    - (C1) the fragments have the words above.
  }];
  let arguments = (ins AnyMemRef:$sums, AnyMemRef:$a, AnyMemRef:$b, TypeAttr:$type, OptionalAttr<TypeAttr>:$rhs_type);
  let assemblyFormat = "$sums `,` $a `,` $b `type` `(` $type (`,` $rhs_type^)? `)` attr-dict `:` type($sums) `,` type($a) `,` type($b)";
  let hasVerifier = 1;
}

def Cuda_WarpgroupMmaOp : Cuda_Op<"warpgroup_mma", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Accumulate a * b from shared memory by a warpgroup (wgmma)";
  let description = [{
    m64nNk16, k32 for 8-bit floats, executed by all threads of four consecutive warps, the first of which is a
    multiple of four. `sums`, the accumulators, are `memref<N/8 x 4 x f32>`: for every 8
    columns a warp's 16 rows from row `16 (warp % 4)`, in the layout of `cuda.mma`.
    Accumulators and tiles must not be accessed before a `cuda.warpgroup_wait` for the
    group. Without `keep` accumulators start at zero. Tiles have the 128-byte swizzle:
    rows of 128 bytes whose eight 16-byte chunks are permuted by xor with the row
    number modulo 8. Rows extend along k; with `a_transposed` (`b_transposed`) each
    is one position along k, one group of rows per 64 rows of the matrix. The indices
    address the first element in swizzled order.
    - (C1) `sums` has 8, 16, 24 or 32 column groups; `a` and `b` are in
      workgroup memory; `type` is f16 or bf16, or f8E4M3FN or f8E5M2 without
      transposed operands, as `rhs_type`.
  }];
  let arguments = (ins AnyMemRef:$sums, AnyMemRef:$a, Variadic<Index>:$a_indices, AnyMemRef:$b,
                       Variadic<Index>:$b_indices, I1:$keep, UnitAttr:$a_transposed, UnitAttr:$b_transposed,
                       TypeAttr:$type, OptionalAttr<TypeAttr>:$rhs_type);
  let assemblyFormat = [{
    $sums `,` $a `[` $a_indices `]` (`transposed` $a_transposed^)? `,` $b `[` $b_indices `]` (`transposed` $b_transposed^)?
    `keep` `(` $keep `)` `type` `(` $type (`,` $rhs_type^)? `)` attr-dict `:` type($sums) `,` type($a) `,` type($b)
  }];
  let hasVerifier = 1;
}

def Cuda_WarpgroupFenceOp : Cuda_Op<"warpgroup_fence", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Order register accesses before the next warpgroup_mma (wgmma.fence)";
  let assemblyFormat = "attr-dict";
}

def Cuda_WarpgroupCommitOp : Cuda_Op<"warpgroup_commit", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Close a group of `cuda.warpgroup_mma` (wgmma.commit_group)";
  let assemblyFormat = "attr-dict";
}

def Cuda_WarpgroupWaitOp : Cuda_Op<"warpgroup_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Wait until at most `pending` warpgroup_mma groups are in flight (wgmma.wait_group)";
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def Cuda_FenceSharedOp : Cuda_Op<"fence_shared", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Make shared-memory writes visible to `cuda.warpgroup_mma` (fence.proxy.async)";
  let description = [{
    Goes between those writes and the barrier before the multiplication.
  }];
  let assemblyFormat = "attr-dict";
}

def Cuda_LoadMatrixOp : Cuda_Op<"load_matrix", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Load 8x8 tiles of 16-bit elements from shared memory (ldmatrix)";
  let description = [{
    Lane l supplies the 16-byte-aligned address of row l % 8 of tile l / 8; `tiles`
    receives one word per tile.
    - (C1) `tiles` has 1, 2 or 4 words of i32; `shared` is in workgroup memory.
  }];
  let arguments = (ins AnyMemRef:$tiles, AnyMemRef:$shared, Variadic<Index>:$indices, UnitAttr:$transposed);
  let assemblyFormat = [{
    $tiles `,` $shared `[` $indices `]` (`transposed` $transposed^)? attr-dict `:` type($tiles) `,` type($shared)
  }];
  let hasVerifier = 1;
}

def Cuda_CopyAsyncOp : Cuda_Op<"copy_async", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Copy asynchronously to shared memory (cp.async)";
  let description = [{
    Copies `bytes` (4, 8 or 16) from `global` to `shared`, both aligned to `bytes`.
    Reads only the first `valid` (an i32), if given, and zero-fills the rest. Complete
    after the `cuda.wait_copies` for its group.
    - (C1) `bytes` is 4, 8 or 16; `shared` is in workgroup memory.
  }];
  let arguments = (ins AnyMemRef:$shared, Variadic<Index>:$shared_indices, AnyMemRef:$global,
                       Variadic<Index>:$global_indices, Optional<I32>:$valid, I64Attr:$bytes);
  let assemblyFormat = [{
    $shared `[` $shared_indices `]` `,` $global `[` $global_indices `]` `bytes` `(` $bytes `)`
    (`valid` `(` $valid^ `)`)? attr-dict `:` type($shared) `,` type($global)
  }];
  let hasVerifier = 1;
}

def Cuda_CommitCopiesOp : Cuda_Op<"commit_copies", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Close a group of asynchronous copies (cp.async.commit_group)";
  let assemblyFormat = "attr-dict";
}

def Cuda_WaitCopiesOp : Cuda_Op<"wait_copies", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Wait until at most `pending` of this thread's copy groups are in flight (cp.async.wait_group)";
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def Cuda_SyncWarpOp : Cuda_Op<"sync_warp", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Order the memory accesses of a warp's lanes (__syncwarp)";
  let assemblyFormat = "attr-dict";
}

def Cuda_FenceOp : Cuda_Op<"fence", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Make this thread's writes visible to the device (__threadfence)";
  let description = [{
    Release between a block's writes and the atomic that publishes them; acquire between
    that atomic and another block's reads.
  }];
  let assemblyFormat = "attr-dict";
}

def Cuda_GridBarrierOp : Cuda_Op<"grid_barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Grid barrier of a cooperative launch";
  let description = [{
    `blocks` blocks arrive at one counter, exactly one of them with `first`. Orders
    memory accesses of all their threads. All blocks must be co-resident. The counter's
    highest bit flips at each barrier; the other bits are zero before and after.
    - (C1) `blocks` is at least 2.
  }];
  let arguments = (ins MemRefRankOf<[I32], [1]>:$counters, Index:$counter, I1:$first, I64Attr:$blocks);
  let assemblyFormat = [{
    $counters `[` $counter `]` `first` `(` $first `)` `blocks` `(` $blocks `)` attr-dict `:` type($counters)
  }];
  let hasVerifier = 1;
}

#endif // MPC_DIALECT_CUDA_IR_CUDAOPS
