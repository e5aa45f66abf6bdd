//===- DeviceWarpgroup.h - warpgroup GEMM (wgmma) on GPUs -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `wgmma` of sm_90a, see "Asynchronous Warpgroup Level Matrix Instructions" in
// the PTX manual. One macro per number of columns, because an instruction names
// all its registers.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_DEVICEWARPGROUP_H
#define MPC_TARGET_CUDA_PRELUDE_DEVICEWARPGROUP_H

namespace mpc {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

MPC_FUNCTION void fenceShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
MPC_FUNCTION void warpgroupFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
MPC_FUNCTION void warpgroupCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int Pending> MPC_FUNCTION void warpgroupWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

namespace detail {
/// Returns the matrix descriptor of a tile with the 128-byte swizzle (layout 1
/// in bits 62 and 63); eight rows take 1024 bytes. Transposed tiles are read in
/// groups of 64 rows of the matrix, at a distance of 64 lines.
template <bool Transposed>
MPC_FUNCTION unsigned long long tileDescriptor(const void *tile) {
  constexpr unsigned long long kRowsApart = Transposed ? 64 * 128 / 16 : 1;
  return (sharedAddress(tile) & 0x3ffffu) >> 4 | kRowsApart << 16 |
         1024ull / 16 << 32 | 1ull << 62;
}
} // namespace detail

// Accumulator registers of 8, 16, 24 and 32 column groups, in the instruction's
// text and as operands.
#define MPC_REGISTERS_8                                                        \
  "%0, %1, %2, %3, %4, %5, %6, %7"                                             \
  ", %8, %9, %10, %11, %12, %13, %14, %15"                                     \
  ", %16, %17, %18, %19, %20, %21, %22, %23"                                   \
  ", %24, %25, %26, %27, %28, %29, %30, %31"
#define MPC_REGISTERS_16                                                       \
  MPC_REGISTERS_8                                                              \
  ", %32, %33, %34, %35, %36, %37, %38, %39"                                   \
  ", %40, %41, %42, %43, %44, %45, %46, %47"                                   \
  ", %48, %49, %50, %51, %52, %53, %54, %55"                                   \
  ", %56, %57, %58, %59, %60, %61, %62, %63"
#define MPC_REGISTERS_24                                                       \
  MPC_REGISTERS_16                                                             \
  ", %64, %65, %66, %67, %68, %69, %70, %71"                                   \
  ", %72, %73, %74, %75, %76, %77, %78, %79"                                   \
  ", %80, %81, %82, %83, %84, %85, %86, %87"                                   \
  ", %88, %89, %90, %91, %92, %93, %94, %95"
#define MPC_REGISTERS_32                                                       \
  MPC_REGISTERS_24                                                             \
  ", %96, %97, %98, %99, %100, %101, %102, %103"                               \
  ", %104, %105, %106, %107, %108, %109, %110, %111"                           \
  ", %112, %113, %114, %115, %116, %117, %118, %119"                           \
  ", %120, %121, %122, %123, %124, %125, %126, %127"
#define MPC_BLOCK(j)                                                           \
  "+f"(sums[j][0]), "+f"(sums[j][1]), "+f"(sums[j][2]), "+f"(sums[j][3])
#define MPC_BLOCKS_4(j)                                                        \
  MPC_BLOCK(j), MPC_BLOCK(j + 1), MPC_BLOCK(j + 2), MPC_BLOCK(j + 3)
#define MPC_SUMS_8 MPC_BLOCKS_4(0), MPC_BLOCKS_4(4)
#define MPC_SUMS_16 MPC_SUMS_8, MPC_BLOCKS_4(8), MPC_BLOCKS_4(12)
#define MPC_SUMS_24 MPC_SUMS_16, MPC_BLOCKS_4(16), MPC_BLOCKS_4(20)
#define MPC_SUMS_32 MPC_SUMS_24, MPC_BLOCKS_4(24), MPC_BLOCKS_4(28)

/// One instruction; numbers index the operands after the registers.
#define MPC_WGMMA_TEXT(blocks, shape, types, a, b, keep, order)                \
  "{.reg .pred p; setp.ne.b32 p, %" keep ", 0;"                                \
  "wgmma.mma_async.sync.aligned." shape ".f32." types                          \
  " {" MPC_REGISTERS_##blocks "}, %" a ", %" b ", p, 1, 1" order ";}"
#define MPC_WGMMA16(blocks, shape, types, a, b, keep, transA, transB)          \
  asm volatile(MPC_WGMMA_TEXT(blocks, shape "k16", types, a, b, keep,          \
                              ", %" transA ", %" transB)                       \
               : MPC_SUMS_##blocks                                             \
               : "l"(tileA), "l"(tileB), "r"(static_cast<int>(kept)),          \
                 "n"(TransposedA), "n"(TransposedB))
#define MPC_WGMMA8(blocks, shape, types, a, b, keep)                           \
  asm volatile(MPC_WGMMA_TEXT(blocks, shape "k32", types, a, b, keep, "")      \
               : MPC_SUMS_##blocks                                             \
               : "l"(tileA), "l"(tileB), "r"(static_cast<int>(kept)))
/// All operand types of one shape.
#define MPC_WGMMA(blocks, shape, a, b, keep, transA, transB)                   \
  if constexpr (Blocks == blocks) {                                            \
    if constexpr (sizeof(A) == 1 && isE4m3<A> && isE4m3<B>)                    \
      MPC_WGMMA8(blocks, shape, "e4m3.e4m3", a, b, keep);                      \
    else if constexpr (sizeof(A) == 1 && isE4m3<A>)                            \
      MPC_WGMMA8(blocks, shape, "e4m3.e5m2", a, b, keep);                      \
    else if constexpr (sizeof(A) == 1 && isE4m3<B>)                            \
      MPC_WGMMA8(blocks, shape, "e5m2.e4m3", a, b, keep);                      \
    else if constexpr (sizeof(A) == 1)                                         \
      MPC_WGMMA8(blocks, shape, "e5m2.e5m2", a, b, keep);                      \
    else if constexpr (isHalf<A>)                                              \
      MPC_WGMMA16(blocks, shape, "f16.f16", a, b, keep, transA, transB);       \
    else                                                                       \
      MPC_WGMMA16(blocks, shape, "bf16.bf16", a, b, keep, transA, transB);     \
  }

/// sums += a * b on 64 x 8 Blocks x 32 bytes of A and B.
template <typename A, bool TransposedA, bool TransposedB, typename B = A,
          int Blocks>
MPC_FUNCTION void warpgroupMma(float (&sums)[Blocks][4], const void *a,
                               const void *b, bool kept) {
  static_assert(Blocks == 8 || Blocks == 16 || Blocks == 24 || Blocks == 32);
  using detail::isE4m3;
  using detail::isHalf;
  unsigned long long tileA = detail::tileDescriptor<TransposedA>(a),
                     tileB = detail::tileDescriptor<TransposedB>(b);
  MPC_WGMMA(8, "m64n64", "32", "33", "34", "35", "36")
  MPC_WGMMA(16, "m64n128", "64", "65", "66", "67", "68")
  MPC_WGMMA(24, "m64n192", "96", "97", "98", "99", "100")
  MPC_WGMMA(32, "m64n256", "128", "129", "130", "131", "132")
}

#undef MPC_WGMMA
#undef MPC_WGMMA8
#undef MPC_WGMMA16
#undef MPC_WGMMA_TEXT
#undef MPC_SUMS_32
#undef MPC_SUMS_24
#undef MPC_SUMS_16
#undef MPC_SUMS_8
#undef MPC_BLOCKS_4
#undef MPC_BLOCK
#undef MPC_REGISTERS_32
#undef MPC_REGISTERS_24
#undef MPC_REGISTERS_16
#undef MPC_REGISTERS_8

#else

// No kernel for another GPU uses these.
MPC_FUNCTION void fenceShared() { __trap(); }
MPC_FUNCTION void warpgroupFence() { __trap(); }
MPC_FUNCTION void warpgroupCommit() { __trap(); }
template <int Pending> MPC_FUNCTION void warpgroupWait() { __trap(); }
template <typename A, bool TransposedA, bool TransposedB, typename B = A,
          int Blocks>
MPC_FUNCTION void warpgroupMma(float (&)[Blocks][4], const void *, const void *,
                               bool) {
  __trap();
}

#endif

} // namespace mpc

#endif // MPC_TARGET_CUDA_PRELUDE_DEVICEWARPGROUP_H
