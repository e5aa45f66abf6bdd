//===- Prelude.h - device library of generated kernels ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The only names that generated kernels use. Device.h implements them on a GPU
// (NVRTC, nvcc), Host.h on a CPU, where the threads of a block are fibers.
// Neither has includes, so this header followed by a kernel's text is a
// complete program. Compiled without contraction of a * b + c (nvcc
// --fmad=false, -ffp-contract=off): only explicit fma.
//
// Defined by both headers, besides the types below:
//   MPC_KERNEL(threads) void name(...)        a kernel for blocks of this size
//   MPC_SHARED(type, name, [32][33])          an array of the block
//   MPC_DYNAMIC_SHARED(type, name)            the launch's bytes, 1024-aligned
//   MPC_DYNAMIC_SHARED_BYTES(name, 2)         bytes, for elements of 2 or more
//   threadX..Z, blockX..Z, blockSizeX..Z, gridSizeX..Z, lane, warp
//   barrier, syncWarp, fence, pause, gridBarrier, kernelBegin
//   shuffleXor, atomicAdd, atomicOr
//   load<N>, store
//   loadMatrix<Count>, loadMatrixTransposed<Count>, mma, mmaTf32, mmaFloat8
//   copyAsync<Bytes>, commitCopies, waitCopies<Pending>
//   warpgroupMma, warpgroupFence, warpgroupCommit, warpgroupWait<Pending>,
//   fenceShared
//   toFloat, toHalf, toBfloat16, toTf32, packHalf, packBfloat16, bitsOf,
//   floatOf, permuteBytes
//   fma, sqrt, rem, floor, ceil, trunc, roundEven, abs, copySign, exp2Fast,
//   rcpFast
// and, the same text on both sides:
//   Math.h         maximum, minimum, rsqrt
//   Exponential.h  exp, expNonPositive, expm1, log, log1p, pow
//   Activation.h   tanh, sigmoid, softplus, erf, gelu, geluTanh
//   Circular.h     sin, cos, tan, asin, acos, atan, atan2
//   Hyperbolic.h   sinh, cosh, asinh, acosh, atanh
//   Short.h        geluBfloat16, geluHalf
//   Vector.h       operators and functions on Vectors, add, subtract, multiply
//                  (wrapping), toInteger (saturating), bitcast, splat, select,
//                  convert, shuffleLanes, ...
//   Warp.h         warpSum, warpMax, warpMin, atomicMaxUnsigned
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_PRELUDE_H
#define MPC_TARGET_CUDA_PRELUDE_PRELUDE_H

#if defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(__CUDA__)
#define MPC_FUNCTION __device__ __forceinline__
#define MPC_ON_DEVICE
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

/// Upper half of a float: storage only.
struct bfloat16 {
  unsigned short bits;
};

/// 8-bit floats f8E4M3FN and f8E5M2: operands of matrix instructions only.
struct e4m3 {
  unsigned char bits;
};
struct e5m2 {
  unsigned char bits;
};

namespace detail {
/// Returns the largest power of two that divides `bytes`, at most 16: accesses
/// are at most 128 bits wide.
MPC_FUNCTION constexpr unsigned alignmentOf(unsigned bytes) {
  return bytes % 16 == 0 ? 16 : bytes & (0u - bytes);
}
} // namespace detail

/// N contiguous values.
template <typename T, int N>
struct alignas(detail::alignmentOf(sizeof(T) * N)) Vector {
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

// Each uses the previous ones.
// clang-format off
#include "Math.h"
#include "../../Math/Functions.h"
#include "../../Math/Activation.h"
#include "../../Math/Circular.h"
#include "../../Math/Hyperbolic.h"
#include "../../Math/Short.h"
#include "Vector.h"
#include "Warp.h"
// clang-format on

#endif // MPC_TARGET_CUDA_PRELUDE_PRELUDE_H
