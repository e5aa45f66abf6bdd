//===- Device.h - prelude for GPUs ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CUDA C++ for NVRTC and nvcc, sm_75 and later, without includes. Names are
// documented in Prelude.h and Host.h.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_DEVICE_H
#define MPC_TARGET_CUDA_PRELUDE_DEVICE_H

// Replaced by `, N` if the compiler is to assume N blocks per multiprocessor
// (KernelCompiler.cpp).
#define MPC_RESIDENT
#define MPC_KERNEL(threads)                                                    \
  extern "C" __global__ __launch_bounds__(threads MPC_RESIDENT)

#define MPC_SHARED(type, name, extents)                                        \
  __shared__ __align__(16) type name extents

#define MPC_DYNAMIC_SHARED(type, name)                                         \
  extern __shared__ __align__(1024) unsigned char mpcDynamicShared[];          \
  type *const name = reinterpret_cast<type *>(mpcDynamicShared)

#define MPC_DYNAMIC_SHARED_BYTES(name, elementBytes)                           \
  MPC_DYNAMIC_SHARED(signed char, name)

namespace mpc {

//===----------------------------------------------------------------------===//
// Thread and block indices
//===----------------------------------------------------------------------===//

MPC_FUNCTION int threadX() { return static_cast<int>(threadIdx.x); }
MPC_FUNCTION int threadY() { return static_cast<int>(threadIdx.y); }
MPC_FUNCTION int threadZ() { return static_cast<int>(threadIdx.z); }
MPC_FUNCTION int blockX() { return static_cast<int>(blockIdx.x); }
MPC_FUNCTION int blockY() { return static_cast<int>(blockIdx.y); }
MPC_FUNCTION int blockZ() { return static_cast<int>(blockIdx.z); }
MPC_FUNCTION int blockSizeX() { return static_cast<int>(blockDim.x); }
MPC_FUNCTION int blockSizeY() { return static_cast<int>(blockDim.y); }
MPC_FUNCTION int blockSizeZ() { return static_cast<int>(blockDim.z); }
MPC_FUNCTION int gridSizeX() { return static_cast<int>(gridDim.x); }
MPC_FUNCTION int gridSizeY() { return static_cast<int>(gridDim.y); }
MPC_FUNCTION int gridSizeZ() { return static_cast<int>(gridDim.z); }

/// Linear thread index in the block, x fastest.
MPC_FUNCTION int threadNumber() {
  return (threadZ() * blockSizeY() + threadY()) * blockSizeX() + threadX();
}
MPC_FUNCTION int lane() { return threadNumber() % kWarpSize; }
MPC_FUNCTION int warp() { return threadNumber() / kWarpSize; }

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

MPC_FUNCTION void barrier() { __syncthreads(); }
MPC_FUNCTION void syncWarp() { __syncwarp(); }
MPC_FUNCTION void fence() { __threadfence(); }
MPC_FUNCTION void pause() { __nanosleep(100); }
MPC_FUNCTION void kernelBegin() {
#if __CUDA_ARCH__ >= 900
  // Programmatic dependent launch: allows the next kernel to launch once all
  // blocks of this one have started. It waits here for this kernel, as this
  // kernel waits for its predecessor.
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  // ptxas moves read-only (non-coherent) loads before the wait despite the
  // memory clobber, but does not speculate them across a conditional exit.
  asm volatile("griddepcontrol.wait;\n\t"
               "{\n\t"
               ".reg .u32 blocks;\n\t"
               ".reg .pred none;\n\t"
               "mov.u32 blocks, %%nctaid.x;\n\t"
               "setp.eq.u32 none, blocks, %0;\n\t"
               "@none exit;\n\t"
               "}" ::"r"(0)
               : "memory");
#endif
}

/// The counter's highest bit flips when all blocks have arrived and the others
/// are zero again: the first block adds the difference, so no reset is needed
/// and the bit's initial value does not matter.
MPC_FUNCTION void gridBarrier(int *counter, int blocks, bool first) {
  __syncthreads();
  if (threadNumber() == 0) {
    unsigned own = first ? 0x80000000u - unsigned(blocks - 1) : 1u;
    unsigned before, now;
    __threadfence();
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(__cvta_generic_to_global(counter)), "r"(own)
                 : "memory");
    do
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                   : "=r"(now)
                   : "l"(__cvta_generic_to_global(counter))
                   : "memory");
    while (((before ^ now) & 0x80000000u) == 0);
    __threadfence();
  }
  __syncthreads();
}

//===----------------------------------------------------------------------===//
// Shuffle
//===----------------------------------------------------------------------===//

template <typename T>
MPC_FUNCTION T shuffleXor(T value, int flip, int width = kWarpSize) {
  constexpr int count = (sizeof(T) + 3) / 4;
  union Words {
    unsigned words[count];
    T value;
  } data;
  data.words[count - 1] = 0;
  data.value = value;
  for (int i = 0; i < count; ++i)
    data.words[i] = __shfl_xor_sync(kEveryLane, data.words[i], flip, width);
  return data.value;
}

//===----------------------------------------------------------------------===//
// Bits, conversions, arithmetic
//===----------------------------------------------------------------------===//

MPC_FUNCTION unsigned bitsOf(float x) { return __float_as_uint(x); }
MPC_FUNCTION float floatOf(unsigned bits) { return __uint_as_float(bits); }
/// Selects four bytes of `y:x` (x holds bytes 0 to 3), lowest first, by 4-bit
/// indices in `selector`.
MPC_FUNCTION int permuteBytes(int x, int y, int selector) {
  return static_cast<int>(__byte_perm(static_cast<unsigned>(x),
                                      static_cast<unsigned>(y),
                                      static_cast<unsigned>(selector)));
}
MPC_FUNCTION unsigned long long bitsOf(double x) {
  return static_cast<unsigned long long>(__double_as_longlong(x));
}
MPC_FUNCTION double floatOf(unsigned long long bits) {
  return __longlong_as_double(static_cast<long long>(bits));
}

MPC_FUNCTION float toFloat(float x) { return x; }
MPC_FUNCTION float toFloat(half x) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
}
MPC_FUNCTION float toFloat(bfloat16 x) {
  return floatOf(static_cast<unsigned>(x.bits) << 16);
}

MPC_FUNCTION half toHalf(float x) {
  half result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
}

MPC_FUNCTION bfloat16 toBfloat16(float x) {
  bfloat16 result;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
#else
  unsigned bits = bitsOf(x);
  unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  result.bits = static_cast<unsigned short>(x != x ? 0x7fffu : rounded);
#endif
  return result;
}

MPC_FUNCTION unsigned packHalf(float low, float high) {
#if __CUDA_ARCH__ >= 800
  unsigned result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
#else
  return toHalf(low).bits | static_cast<unsigned>(toHalf(high).bits) << 16;
#endif
}

MPC_FUNCTION unsigned packBfloat16(float low, float high) {
#if __CUDA_ARCH__ >= 800
  unsigned result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
#else
  return toBfloat16(low).bits | static_cast<unsigned>(toBfloat16(high).bits)
                                    << 16;
#endif
}

MPC_FUNCTION unsigned toTf32(float x) {
#if __CUDA_ARCH__ >= 800
  unsigned result;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(x));
  return result;
#else
  return bitsOf(x);
#endif
}

MPC_FUNCTION float fma(float x, float y, float z) { return __fmaf_rn(x, y, z); }
MPC_FUNCTION double fma(double x, double y, double z) {
  return __fma_rn(x, y, z);
}
MPC_FUNCTION float sqrt(float x) { return __fsqrt_rn(x); }
MPC_FUNCTION float rem(float x, float y) { return fmodf(x, y); }
MPC_FUNCTION float floor(float x) { return floorf(x); }
MPC_FUNCTION float ceil(float x) { return ceilf(x); }
MPC_FUNCTION float trunc(float x) { return truncf(x); }
MPC_FUNCTION float roundEven(float x) { return rintf(x); }
MPC_FUNCTION float abs(float x) { return fabsf(x); }
MPC_FUNCTION float copySign(float magnitude, float sign) {
  return floatOf((bitsOf(magnitude) & 0x7fffffffu) |
                 (bitsOf(sign) & 0x80000000u));
}
MPC_FUNCTION float exp2Fast(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
MPC_FUNCTION float rcpFast(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

namespace detail {
/// A vector as the words of its load and store instructions.
template <typename T, int N> union VectorWords {
  static constexpr int bytes = sizeof(Vector<T, N>);
  MPC_FUNCTION VectorWords() {}
  Vector<T, N> value;
  uint4 quads[bytes >= 16 ? bytes / 16 : 1];
  uint2 pair;
  unsigned word;
  unsigned short small;
};
} // namespace detail

template <int N, typename T> MPC_FUNCTION Vector<T, N> load(const T *from) {
  detail::VectorWords<T, N> data;
  constexpr int bytes = sizeof(Vector<T, N>);
  if constexpr (bytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < bytes / 16; ++i)
      data.quads[i] = reinterpret_cast<const uint4 *>(from)[i];
  } else if constexpr (bytes == 8) {
    data.pair = *reinterpret_cast<const uint2 *>(from);
  } else if constexpr (bytes == 4) {
    data.word = *reinterpret_cast<const unsigned *>(from);
  } else if constexpr (bytes == 2) {
    data.small = *reinterpret_cast<const unsigned short *>(from);
  } else {
    data.value = *reinterpret_cast<const Vector<T, N> *>(from);
  }
  return data.value;
}

template <typename T, int N>
MPC_FUNCTION void store(T *to, const Vector<T, N> &value) {
  detail::VectorWords<T, N> data;
  data.value = value;
  constexpr int bytes = sizeof(Vector<T, N>);
  if constexpr (bytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < bytes / 16; ++i)
      reinterpret_cast<uint4 *>(to)[i] = data.quads[i];
  } else if constexpr (bytes == 8) {
    *reinterpret_cast<uint2 *>(to) = data.pair;
  } else if constexpr (bytes == 4) {
    *reinterpret_cast<unsigned *>(to) = data.word;
  } else if constexpr (bytes == 2) {
    *reinterpret_cast<unsigned short *>(to) = data.small;
  } else {
    *reinterpret_cast<Vector<T, N> *>(to) = value;
  }
}

template <typename T> MPC_FUNCTION T atomicAdd(T *to, T value) {
  return ::atomicAdd(to, value);
}
template <typename T> MPC_FUNCTION T atomicOr(T *to, T value) {
  return ::atomicOr(to, value);
}
template <typename T> MPC_FUNCTION T atomicMaxInteger(T *to, T value) {
  return ::atomicMax(to, value);
}

MPC_FUNCTION unsigned sharedAddress(const void *pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

//===----------------------------------------------------------------------===//
// Asynchronous copies
//===----------------------------------------------------------------------===//

template <int Bytes>
MPC_FUNCTION void copyAsync(void *shared, const void *global,
                            int valid = Bytes) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
#if __CUDA_ARCH__ >= 800
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     sharedAddress(shared)),
                 "l"(global), "r"(valid)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(
                     sharedAddress(shared)),
                 "l"(global), "n"(Bytes), "r"(valid)
                 : "memory");
#else
  for (int i = 0; i < Bytes; ++i)
    static_cast<unsigned char *>(shared)[i] =
        i < valid ? static_cast<const unsigned char *>(global)[i] : 0;
#endif
}

MPC_FUNCTION void commitCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int Pending> MPC_FUNCTION void waitCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

//===----------------------------------------------------------------------===//
// Matrix units
//===----------------------------------------------------------------------===//

#define MPC_LOAD_MATRIX(name, order)                                           \
  template <typename Word, int Count>                                          \
  MPC_FUNCTION void name(Word(&tiles)[Count], const void *row) {               \
    static_assert(Count == 1 || Count == 2 || Count == 4);                     \
    unsigned from = sharedAddress(row);                                        \
    if constexpr (Count == 1)                                                  \
      asm volatile("ldmatrix.sync.aligned.m8n8.x1" order                       \
                   ".shared.b16 {%0}, [%1];"                                   \
                   : "=r"(tiles[0])                                            \
                   : "r"(from)                                                 \
                   : "memory");                                                \
    else if constexpr (Count == 2)                                             \
      asm volatile("ldmatrix.sync.aligned.m8n8.x2" order                       \
                   ".shared.b16 {%0, %1}, [%2];"                               \
                   : "=r"(tiles[0]), "=r"(tiles[1])                            \
                   : "r"(from)                                                 \
                   : "memory");                                                \
    else                                                                       \
      asm volatile("ldmatrix.sync.aligned.m8n8.x4" order                       \
                   ".shared.b16 {%0, %1, %2, %3}, [%4];"                       \
                   : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]),           \
                     "=r"(tiles[3])                                            \
                   : "r"(from)                                                 \
                   : "memory");                                                \
  }
MPC_LOAD_MATRIX(loadMatrix, "")
MPC_LOAD_MATRIX(loadMatrixTransposed, ".trans")
#undef MPC_LOAD_MATRIX

namespace detail {
template <typename T> constexpr bool isHalf = false;
template <> constexpr bool isHalf<half> = true;
template <typename T> constexpr bool isE4m3 = false;
template <> constexpr bool isE4m3<e4m3> = true;
} // namespace detail

/// d += a * b with four words of a and two of b.
#define MPC_MMA(instruction)                                                   \
  asm("mma.sync.aligned." instruction                                          \
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"   \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                         \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

/// d += a * b on 16 x 8 x 16 elements of T.
template <typename T, typename Word>
MPC_FUNCTION void mma(float (&d)[4], const Word (&a)[4], const Word (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  if constexpr (detail::isHalf<T>)
    MPC_MMA("m16n8k16.row.col.f32.f16.f16");
  else
    MPC_MMA("m16n8k16.row.col.f32.bf16.bf16");
#else
  // Two halves of k; no bf16 before sm_80, and no kernel uses it there.
  if constexpr (detail::isHalf<T>) {
    for (int i = 0; i < 2; ++i)
      asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
          "{%4, %5}, {%6}, {%0, %1, %2, %3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(b[i]));
  } else {
    __trap();
  }
#endif
}

/// d += a * b on 16 x 8 x 8 elements in tf32.
template <typename Word>
MPC_FUNCTION void mmaTf32(float (&d)[4], const Word (&a)[4],
                          const Word (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  MPC_MMA("m16n8k8.row.col.f32.tf32.tf32");
#else
  __trap();
#endif
}

/// Packs four 8-bit floats into one word.
MPC_FUNCTION unsigned packBytes(unsigned char x, unsigned char y,
                                unsigned char z, unsigned char w) {
  return x | y << 8 | z << 16 | static_cast<unsigned>(w) << 24;
}

/// d += a * b on 16 x 8 x 32 elements of A and B, e4m3 or e5m2.
template <typename A, typename B, typename Word>
MPC_FUNCTION void mmaFloat8(float (&d)[4], const Word (&a)[4],
                            const Word (&b)[2]) {
#if __CUDA_ARCH__ >= 890
  if constexpr (detail::isE4m3<A> && detail::isE4m3<B>)
    MPC_MMA("m16n8k32.row.col.f32.e4m3.e4m3");
  else if constexpr (detail::isE4m3<A>)
    MPC_MMA("m16n8k32.row.col.f32.e4m3.e5m2");
  else if constexpr (detail::isE4m3<B>)
    MPC_MMA("m16n8k32.row.col.f32.e5m2.e4m3");
  else
    MPC_MMA("m16n8k32.row.col.f32.e5m2.e5m2");
#else
  __trap();
#endif
}
#undef MPC_MMA

} // namespace mpc

#include "DeviceWarpgroup.h"

#endif // MPC_TARGET_CUDA_PRELUDE_DEVICE_H
