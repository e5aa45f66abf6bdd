//===- CudaOps.td - the cuda dialect ------------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_CUDA_IR_CUDAOPS
#define MPC_DIALECT_CUDA_IR_CUDAOPS

include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Cuda_Dialect : Dialect {
  let name = "cuda";
  let cppNamespace = "::mpc::cuda";
  let summary = "What kernels for NVIDIA GPUs have beside upstream dialects";
  let description = [{
    A kernel is a `gpu.func` in a `gpu.module`, made of gpu, scf, memref, vector,
    arith and math; this dialect adds the functions of the prelude
    (lib/Target/CUDA/Prelude) that those lack. Each op is one function there.
    Fragments of the matrix units are memrefs of one dimension in private memory
    (`memref.alloca`, or a subview of one), 32-bit words as the PTX manual lays
    them out over the lanes of a warp.
  }];
  let useDefaultAttributePrinterParser = 1;
}

class Cuda_Op<string mnemonic, list<Trait> traits = []> : Op<Cuda_Dialect, mnemonic, traits>;

def Cuda_Value : AnyTypeOf<[AnySignlessInteger, AnyFloat, VectorOfAnyRankOf<[AnySignlessInteger, AnyFloat]>],
                           "scalar or vector">;

def Cuda_CallOp : Cuda_Op<"call", [Pure]> {
  let summary = "Call a function of the prelude, lane by lane";
  let description = [{
    `callee` is the name without its namespace: `exp`, `gelu`, `warpSum`, `toTf32`.
    ```mlir
    %y = cuda.call "gelu"(%x) : (vector<4xf32>) -> vector<4xf32>
    ```
  }];
  let arguments = (ins StrAttr:$callee, Variadic<Cuda_Value>:$operands);
  let results = (outs Cuda_Value:$result);
  let assemblyFormat = "$callee `(` $operands `)` attr-dict `:` functional-type($operands, $result)";
}

def Cuda_FragmentType : I32EnumAttr<"FragmentType", "operand type of a matrix product", [
  I32EnumAttrCase<"f16", 0>, I32EnumAttrCase<"bf16", 1>, I32EnumAttrCase<"tf32", 2>]> {
  let cppNamespace = "::mpc::cuda";
  let genSpecializedAttr = 0;
}
def Cuda_FragmentTypeAttr : EnumAttr<Cuda_Dialect, Cuda_FragmentType, "fragment_type">;

def Cuda_MmaOp : Cuda_Op<"mma", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "sums += a * b on a warp's fragments (mma.sync)";
  let description = [{
    `sums` is `memref<4xf32>`. f16 and bf16: m16n8k16 with `a` of 4 and `b` of 2
    words, or m16n8k8 (f16 alone, all architectures) with 2 and 1. tf32: m16n8k8
    with 4 and 2, or m16n8k4 with 2 and 1.
    - (C1) the fragments have the words above.
  }];
  let arguments = (ins AnyMemRef:$sums, AnyMemRef:$a, AnyMemRef:$b, Cuda_FragmentTypeAttr:$type);
  let assemblyFormat = "$sums `,` $a `,` $b `type` `(` custom<FragmentKind>($type) `)` attr-dict `:` type($sums) `,` type($a) `,` type($b)";
  let hasVerifier = 1;
}

def Cuda_WarpgroupMmaOp : Cuda_Op<"warpgroup_mma", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "sums += a * b by four warps, both from shared memory (wgmma)";
  let description = [{
    m64nNk16, started by all threads of four neighbouring warps, the first of
    which is a multiple of four. `sums` is `memref<N/8 x 4 x f32>`, row `16 (warp
    % 4)` on of the 64 as `cuda.mma` lays them out, for every 8 columns. They and
    both tiles must not be touched before a `cuda.warpgroup_wait` for the group;
    without `keep` sums count as zeros. Tiles lie in lines of 64 elements of 16
    bits whose eight pieces of 16 bytes are permuted by the exclusive or with the
    line's number modulo 8: lines are rows along k, or with `a_transposed`
    (`b_transposed`) positions along k, 64 of them for each 64 rows. The indices
    name the first element in the order that the permutation leaves.
    - (C1) `sums` has 8, 16, 24 or 32 blocks of columns; `a` and `b` lie in
      workgroup memory; `type` is f16 or bf16.
  }];
  let arguments = (ins AnyMemRef:$sums, AnyMemRef:$a, Variadic<Index>:$a_indices, AnyMemRef:$b,
                       Variadic<Index>:$b_indices, I1:$keep, UnitAttr:$a_transposed, UnitAttr:$b_transposed,
                       Cuda_FragmentTypeAttr:$type);
  let assemblyFormat = [{
    $sums `,` $a `[` $a_indices `]` (`transposed` $a_transposed^)? `,` $b `[` $b_indices `]` (`transposed` $b_transposed^)?
    `keep` `(` $keep `)` `type` `(` custom<FragmentKind>($type) `)` attr-dict `:` type($sums) `,` type($a) `,` type($b)
  }];
  let hasVerifier = 1;
}

def Cuda_WarpgroupBeginOp : Cuda_Op<"warpgroup_begin", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Order this thread's registers before the products that follow (wgmma.fence)";
  let assemblyFormat = "attr-dict";
}

def Cuda_WarpgroupCommitOp : Cuda_Op<"warpgroup_commit", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Close a group of `cuda.warpgroup_mma` (wgmma.commit_group)";
  let assemblyFormat = "attr-dict";
}

def Cuda_WarpgroupWaitOp : Cuda_Op<"warpgroup_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Wait until at most `pending` groups of products are under way (wgmma.wait_group)";
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def Cuda_FenceSharedOp : Cuda_Op<"fence_shared", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Show this thread's writes to shared memory to `cuda.warpgroup_mma` (fence.proxy.async)";
  let description = [{
    Between those writes and the barrier behind which others multiply them.
  }];
  let assemblyFormat = "attr-dict";
}

def Cuda_LoadMatrixOp : Cuda_Op<"load_matrix", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Load 8x8 tiles of 16-bit elements from shared memory (ldmatrix)";
  let description = [{
    Lane l gives the address of row l % 8 of tile l / 8, 16-byte aligned; `tiles`
    receives one word per tile.
    - (C1) `tiles` has 1, 2 or 4 words of i32; `shared` lies in workgroup memory.
  }];
  let arguments = (ins AnyMemRef:$tiles, AnyMemRef:$shared, Variadic<Index>:$indices, UnitAttr:$transposed);
  let assemblyFormat = [{
    $tiles `,` $shared `[` $indices `]` (`transposed` $transposed^)? attr-dict `:` type($tiles) `,` type($shared)
  }];
  let hasVerifier = 1;
}

def Cuda_CopyAsyncOp : Cuda_Op<"copy_async", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Copy to shared memory without waiting (cp.async)";
  let description = [{
    `bytes` (4, 8 or 16) from `global` to `shared`, both aligned to `bytes`. Of
    them `valid` (an i32, where given) are read; the rest of the destination
    becomes zero. Lands no later than the `cuda.wait_copies` that waits for its group.
    - (C1) `bytes` is 4, 8 or 16; `shared` lies in workgroup memory.
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
  let summary = "Close a group of asynchronous copies";
  let assemblyFormat = "attr-dict";
}

def Cuda_WaitCopiesOp : Cuda_Op<"wait_copies", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Wait until at most `pending` groups of this thread's copies are under way";
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
    Between the writes of a block and the atomic that tells other blocks of them,
    and between that atomic and the reads of the block it told.
  }];
  let assemblyFormat = "attr-dict";
}

def Cuda_GridBarrierOp : Cuda_Op<"grid_barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Let blocks of a grid meet that runs as a whole";
  let description = [{
    `blocks` blocks come with one counter, one of them with a true `first`. Orders
    the accesses of all of their threads. Only in a kernel whose launch runs all
    blocks at once. The highest bit of the counter turns each time, the others
    are zero before and after.
    - (C1) `blocks` is at least 2.
  }];
  let arguments = (ins MemRefRankOf<[I32], [1]>:$counters, Index:$counter, I1:$first, I64Attr:$blocks);
  let assemblyFormat = [{
    $counters `[` $counter `]` `first` `(` $first `)` `blocks` `(` $blocks `)` attr-dict `:` type($counters)
  }];
  let hasVerifier = 1;
}

#endif // MPC_DIALECT_CUDA_IR_CUDAOPS
