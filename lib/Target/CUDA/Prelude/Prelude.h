//===- Prelude.h - what emitted kernels are written in ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The only names that the text of an emitted kernel uses. Two headers give them
// their meaning: Device.h on a GPU (NVRTC, nvcc), Host.h on a CPU, where the
// threads of a block are fibers. Neither includes anything, so a kernel's text
// with this one in front is a whole program. Built without contraction of
// a * b + c (nvcc --fmad=false, -ffp-contract=off): fma is where it is written.
//
// What both headers define, beside the types below:
//   MPC_KERNEL(threads) void name(...)        a kernel for blocks of this size
//   MPC_SHARED(type, name, [32][33])          an array of the block
//   MPC_DYNAMIC_SHARED(type, name)            the launch's bytes, 16-byte
//   aligned threadX..Z, blockX..Z, blockSizeX..Z, gridSizeX..Z, lane, warp
//   barrier, barrierCount, barrierAny, barrierAll, syncWarp, fence
//   shuffle, shuffleUp, shuffleDown, shuffleXor, ballot, any, all
//   atomicAdd, atomicMax, atomicMin, atomicExchange, atomicCompareExchange
//   load<N>, loadConstant<N>, store
//   loadMatrix<Count>, loadMatrixTransposed<Count>, mma, mmaTf32
//   copyAsync<Bytes>, commitCopies, waitCopies<Pending>
//   toFloat, toHalf, toBfloat16, toTf32, bitsOf, floatOf
//   fma, sqrt, rem, floor, ceil, trunc, roundEven, abs, copySign, exp2Fast,
//   rcpFast
// and, in Math.h, the same on both sides bit for bit: maximum, minimum, exp,
// expm1, log, log1p, tanh, sigmoid, erf, warpSum, warpMax, warpMin; in
// MathSpecial.h rsqrt, softplus, gelu, geluTanh, sinh, cosh, asinh, acosh,
// atanh, sin, cos, tan, asin, acos, atan.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_PRELUDE_H
#define MPC_TARGET_CUDA_PRELUDE_PRELUDE_H

#if defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(__CUDA__)
#define MPC_FUNCTION __device__ __forceinline__
#else
#define MPC_FUNCTION inline
#endif

namespace mpc {

constexpr int kWarpSize = 32;
constexpr unsigned kEveryLane = 0xffffffffu;

/// IEEE half precision: storage only, kernels compute in float.
struct half {
  unsigned short bits;
};

/// The upper half of a float: storage only.
struct bfloat16 {
  unsigned short bits;
};

/// N neighbours in memory that one instruction moves: at most 16 bytes.
template <typename T, int N> struct alignas(sizeof(T) * N) Vector {
  static_assert(sizeof(T) * N <= 16, "no access is wider than 128 bits");
  T values[N];
  MPC_FUNCTION T &operator[](int i) { return values[i]; }
  MPC_FUNCTION const T &operator[](int i) const { return values[i]; }
};

} // namespace mpc

#if defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(__CUDA__)
#include "Device.h"
#else
#include "Host.h"
#endif

#include "Math.h"
#include "MathSpecial.h"

#endif // MPC_TARGET_CUDA_PRELUDE_PRELUDE_H
