//===- Host.h - prelude for CPUs (emulation) --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each thread of a block is a fiber that runs to its next barrier or warp
// operation; the last lane to arrive computes a warp operation for all. With
// checks, kernels are compiled with -fsanitize=thread, whose callbacks
// (HostChecks.h) report every access to the runner's shadow memory: bounds,
// races and initialization.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_HOST_H
#define MPC_TARGET_CUDA_PRELUDE_HOST_H

#include "HostInterface.h"

/// Exempts functions that access other lanes' operands or the runner.
#define MPC_UNCHECKED __attribute__((no_sanitize("thread")))

#define MPC_KERNEL(threads) extern "C" __attribute__((visibility("hidden")))

#define MPC_SHARED(type, name, extents)                                        \
  static char name##Key;                                                       \
  using name##Array = type extents;                                            \
  name##Array &name = *static_cast<name##Array *>(::mpc::host::sharedArray(    \
      &name##Key, #name, sizeof(name##Array), sizeof(type)))

#define MPC_DYNAMIC_SHARED(type, name)                                         \
  type *const name =                                                           \
      static_cast<type *>(::mpc::host::dynamicShared(sizeof(type)))

#define MPC_DYNAMIC_SHARED_BYTES(name, elementBytes)                           \
  signed char *const name =                                                    \
      static_cast<signed char *>(::mpc::host::dynamicShared(elementBytes))

namespace mpc {

namespace host {
/// Set when the kernel is loaded.
static Interface *runner;

MPC_UNCHECKED inline void *sharedArray(const void *key, const char *name,
                                       unsigned long bytes,
                                       unsigned elementBytes,
                                       int line = __builtin_LINE()) {
  return runner->sharedArray(runner, key, name, bytes, elementBytes, line);
}
MPC_UNCHECKED inline void *dynamicShared(unsigned elementBytes,
                                         int line = __builtin_LINE()) {
  return runner->dynamicShared(runner, elementBytes, line);
}
} // namespace host

//===----------------------------------------------------------------------===//
// Thread and block indices
//===----------------------------------------------------------------------===//

MPC_UNCHECKED inline int threadX() { return host::runner->place->thread[0]; }
MPC_UNCHECKED inline int threadY() { return host::runner->place->thread[1]; }
MPC_UNCHECKED inline int threadZ() { return host::runner->place->thread[2]; }
MPC_UNCHECKED inline int blockX() { return host::runner->block[0]; }
MPC_UNCHECKED inline int blockY() { return host::runner->block[1]; }
MPC_UNCHECKED inline int blockZ() { return host::runner->block[2]; }
MPC_UNCHECKED inline int blockSizeX() { return host::runner->blockSize[0]; }
MPC_UNCHECKED inline int blockSizeY() { return host::runner->blockSize[1]; }
MPC_UNCHECKED inline int blockSizeZ() { return host::runner->blockSize[2]; }
MPC_UNCHECKED inline int gridSizeX() { return host::runner->gridSize[0]; }
MPC_UNCHECKED inline int gridSizeY() { return host::runner->gridSize[1]; }
MPC_UNCHECKED inline int gridSizeZ() { return host::runner->gridSize[2]; }

/// Linear thread index in the block, x fastest.
MPC_UNCHECKED inline int threadNumber() { return host::runner->place->number; }
inline int lane() { return threadNumber() % kWarpSize; }
inline int warp() { return threadNumber() / kWarpSize; }

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

/// All threads of the block must reach the same call. Orders all accesses
/// before and after it.
MPC_UNCHECKED inline void barrier(int line = __builtin_LINE()) {
  host::runner->barrier(host::runner, line);
}

namespace host {
/// Rendezvous of the lanes of a warp operation. `operands` receives the result.
MPC_UNCHECKED inline void meet(const char *name, int line, WarpFunction compute,
                               void *operands) {
  runner->warpOperation(runner, name, line, compute, operands);
}
} // namespace host

/// Warp barrier: the only warp operation that orders memory accesses.
MPC_UNCHECKED inline void syncWarp(int line = __builtin_LINE()) {
  char none = 0;
  host::meet("syncWarp", line, [](void **) {}, &none);
  host::runner->orderWarp(host::runner);
}

/// Makes the thread's writes visible to blocks that observe a later atomic.
MPC_UNCHECKED inline void fence() { host::runner->fence(host::runner); }
// A polling fiber is scheduled after those that it waits for.
MPC_UNCHECKED inline void pause() {}
/// First statement of a kernel. With programmatic dependent launch the launch
/// may overlap the end of the previous kernel; waits for its results.
MPC_UNCHECKED inline void kernelBegin() {}

/// Grid barrier of `blocks` co-resident blocks at one counter, exactly one of
/// them `first`. Orders all accesses before and after it.
MPC_UNCHECKED inline void gridBarrier(int *counter, int blocks, bool first,
                                      int line = __builtin_LINE()) {
  host::runner->gridBarrier(host::runner, counter, blocks, line);
}

//===----------------------------------------------------------------------===//
// Shuffle
//===----------------------------------------------------------------------===//

namespace host {
template <typename T> struct Shuffled {
  T value;
  /// Source lane.
  int from;
  T result;
};
} // namespace host

/// Returns the value of lane `lane ^ flip`; lanes whose source is in a later
/// group of `width` keep theirs.
template <typename T>
MPC_UNCHECKED inline T shuffleXor(T value, int flip, int width = kWarpSize,
                                  int line = __builtin_LINE()) {
  int own = lane(), from = own ^ flip;
  bool inside = from < kWarpSize && from <= (own | (width - 1));
  host::Shuffled<T> operands{value, inside ? from : own, value};
  host::meet(
      "shuffleXor", line,
      [](void **lanes) MPC_UNCHECKED {
        for (int i = 0; i < kWarpSize; ++i) {
          auto *mine = static_cast<host::Shuffled<T> *>(lanes[i]);
          mine->result =
              static_cast<host::Shuffled<T> *>(lanes[mine->from])->value;
        }
      },
      &operands);
  return operands.result;
}

//===----------------------------------------------------------------------===//
// Bits, conversions, arithmetic
//===----------------------------------------------------------------------===//

inline unsigned bitsOf(float x) { return __builtin_bit_cast(unsigned, x); }
inline float floatOf(unsigned bits) { return __builtin_bit_cast(float, bits); }
inline int permuteBytes(int x, int y, int selector) {
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    int byte = selector >> 4 * i & 7;
    unsigned word = static_cast<unsigned>(byte < 4 ? x : y);
    result |= (word >> 8 * (byte % 4) & 0xffu) << 8 * i;
  }
  return static_cast<int>(result);
}
inline unsigned long long bitsOf(double x) {
  return __builtin_bit_cast(unsigned long long, x);
}
inline double floatOf(unsigned long long bits) {
  return __builtin_bit_cast(double, bits);
}

inline float toFloat(float x) { return x; }
inline float toFloat(half x) {
  unsigned sign = static_cast<unsigned>(x.bits & 0x8000u) << 16;
  unsigned exponent = (x.bits >> 10) & 0x1fu, mantissa = x.bits & 0x3ffu;
  if (exponent == 0x1f)
    return mantissa ? floatOf(0x7fffffffu) : floatOf(sign | 0x7f800000u);
  if (exponent == 0)
    return floatOf(sign | bitsOf(static_cast<float>(mantissa) * 0x1p-24f));
  return floatOf(sign | ((exponent + 112) << 23) | (mantissa << 13));
}
inline float toFloat(bfloat16 x) {
  return floatOf(static_cast<unsigned>(x.bits) << 16);
}

inline float toFloat(e4m3 x) {
  unsigned magnitude = x.bits & 0x7fu;
  // The bits of a subnormal or normal float 2^120 times smaller.
  float value = magnitude == 0x7f ? floatOf(0x7fffffffu)
                                  : floatOf(magnitude << 20) * 0x1p120f;
  return x.bits & 0x80u ? -value : value;
}
/// The upper half of an IEEE half.
inline float toFloat(e5m2 x) {
  return toFloat(half{static_cast<unsigned short>(x.bits << 8)});
}

/// Rounds to nearest, ties to even; NaNs become 0x7fff.
inline half toHalf(float x) {
  unsigned bits = bitsOf(x), magnitude = bits & 0x7fffffffu;
  unsigned sign = (bits >> 16) & 0x8000u, result;
  if (magnitude > 0x7f800000u)
    return {0x7fff};
  if (magnitude >= 0x47800000u) {
    result = 0x7c00;
  } else if (magnitude < 0x38800000u) {
    // Subnormal: adding 1/2 leaves the rounded result in the low bits.
    result = bitsOf(floatOf(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    // A carry into the exponent gives the next power of two or infinity.
    result =
        (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return {static_cast<unsigned short>(sign | result)};
}

/// Rounds to nearest, ties to even; NaNs become 0x7fff.
inline bfloat16 toBfloat16(float x) {
  unsigned bits = bitsOf(x);
  unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return {static_cast<unsigned short>(x != x ? 0x7fffu : rounded)};
}

/// Packs two values, rounded to 16 bits, into one word.
inline unsigned packHalf(float low, float high) {
  return toHalf(low).bits | static_cast<unsigned>(toHalf(high).bits) << 16;
}
inline unsigned packBfloat16(float low, float high) {
  return toBfloat16(low).bits | static_cast<unsigned>(toBfloat16(high).bits)
                                    << 16;
}

/// Rounds to tf32 (10 mantissa bits), ties away from zero, as GPUs do.
inline unsigned toTf32(float x) {
  unsigned bits = bitsOf(x);
  if ((bits & 0x7f800000u) == 0x7f800000u)
    return x != x ? 0x7fffffffu : bits;
  return (bits + 0x1000u) & 0xffffe000u;
}

inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline double fma(double x, double y, double z) {
  return __builtin_fma(x, y, z);
}
inline float sqrt(float x) { return __builtin_sqrtf(x); }
/// Exact remainder of x / y with the sign of x (fmod).
inline float rem(float x, float y) { return __builtin_fmodf(x, y); }
inline float floor(float x) { return __builtin_floorf(x); }
inline float ceil(float x) { return __builtin_ceilf(x); }
inline float trunc(float x) { return __builtin_truncf(x); }
inline float roundEven(float x) { return __builtin_rintf(x); }
inline float abs(float x) { return floatOf(bitsOf(x) & 0x7fffffffu); }
inline float copySign(float magnitude, float sign) {
  return floatOf((bitsOf(magnitude) & 0x7fffffffu) |
                 (bitsOf(sign) & 0x80000000u));
}

namespace host {
/// Flushes subnormals to zero.
inline float flushed(float x) {
  return (bitsOf(x) & 0x7f800000u) == 0 ? floatOf(bitsOf(x) & 0x80000000u) : x;
}
} // namespace host

/// 2^x and 1/x to about 2 ulp with subnormals flushed to zero: the only
/// functions whose bits may differ from a GPU's.
inline float exp2Fast(float x) {
  return host::flushed(
      static_cast<float>(__builtin_exp2(double(host::flushed(x)))));
}
inline float rcpFast(float x) { return host::flushed(1.0f / host::flushed(x)); }

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

namespace host {
MPC_UNCHECKED inline void checkAligned(const void *at, unsigned long bytes,
                                       int line) {
  if (reinterpret_cast<unsigned long>(at) % bytes != 0)
    runner->fail(runner, "accesses several elements at a misaligned address",
                 line);
}
} // namespace host

/// Vector load of N elements; the address is aligned to their total size, or to
/// 16 bytes if that is larger.
template <int N, typename T>
MPC_UNCHECKED inline Vector<T, N> load(const T *from,
                                       int line = __builtin_LINE()) {
  Vector<T, N> result;
  host::checkAligned(from, alignof(Vector<T, N>), line);
  host::runner->access(host::runner, from, sizeof(result), host::Access::Read,
                       __builtin_return_address(0));
  __builtin_memcpy(&result, from, sizeof(result));
  return result;
}
template <typename T, int N>
MPC_UNCHECKED inline void store(T *to, const Vector<T, N> &value,
                                int line = __builtin_LINE()) {
  host::checkAligned(to, alignof(Vector<T, N>), line);
  host::runner->access(host::runner, to, sizeof(value), host::Access::Write,
                       __builtin_return_address(0));
  __builtin_memcpy(to, &value, sizeof(value));
}

namespace host {
/// Atomic, because fibers switch only at barriers and warp operations.
template <typename T, typename Change>
MPC_UNCHECKED inline T change(T *at, Change next) {
  runner->access(runner, at, sizeof(T), Access::Atomic,
                 __builtin_return_address(0));
  T old = *at;
  *at = next(old);
  return old;
}
} // namespace host

template <typename T> inline T atomicAdd(T *to, T value) {
  return host::change(to, [=](T old) { return old + value; });
}
template <typename T> inline T atomicOr(T *to, T value) {
  return host::change(to, [=](T old) { return static_cast<T>(old | value); });
}
template <typename T> inline T atomicMaxInteger(T *to, T value) {
  return host::change(to, [=](T old) { return old > value ? old : value; });
}

//===----------------------------------------------------------------------===//
// Asynchronous copies
//===----------------------------------------------------------------------===//

/// Copies `valid` bytes and zero-fills the rest. The bytes are NaNs until this
/// thread waits for the copy; other threads see them after a subsequent
/// barrier.
template <int Bytes>
MPC_UNCHECKED inline void copyAsync(void *shared, const void *global,
                                    int valid = Bytes,
                                    int line = __builtin_LINE()) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  host::runner->copyAsync(host::runner, shared, global, Bytes, valid, line);
}
/// Closes a group of the thread's copies since the last call.
MPC_UNCHECKED inline void commitCopies() {
  host::runner->commitCopies(host::runner);
}
/// Waits until at most `Pending` groups of the thread are in flight.
template <int Pending> MPC_UNCHECKED inline void waitCopies() {
  host::runner->waitCopies(host::runner, Pending);
}

//===----------------------------------------------------------------------===//
// Entry point
//===----------------------------------------------------------------------===//

namespace host {
template <typename... Parameters> struct Call {
  MPC_UNCHECKED Call(void (*kernel)(Parameters...), Parameters... values) {
    kernel(values...);
  }
};

/// Calls a kernel; arguments[i] points to its i-th parameter.
template <typename... Parameters>
MPC_UNCHECKED inline void call(void (*kernel)(Parameters...),
                               void *const *arguments) {
  int i = 0;
  // Braced initializers are evaluated from left to right.
  Call<Parameters...>{kernel, *static_cast<Parameters *>(arguments[i++])...};
}
} // namespace host

} // namespace mpc

#define MPC_HOST_ENTRY extern "C" __attribute__((visibility("default")))

MPC_HOST_ENTRY MPC_UNCHECKED void mpcHostBind(mpc::host::Interface *runner) {
  mpc::host::runner = runner;
}

#include "HostMatrices.h"
#include "HostWarpgroup.h"

#ifdef MPC_HOST_CHECKS
#include "HostChecks.h"
#endif

#endif // MPC_TARGET_CUDA_PRELUDE_HOST_H
