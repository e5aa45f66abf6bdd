//===- Warp.h - warp reductions, atomics ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared by GPU and host.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_WARP_H
#define MPC_TARGET_CUDA_PRELUDE_WARP_H

namespace mpc {

//===----------------------------------------------------------------------===//
// Warp reductions: all lanes participate and receive their group's result
//===----------------------------------------------------------------------===//

namespace detail {
/// Butterfly reduction in groups of `width` lanes, a power of two.
template <typename T, typename Join>
MPC_FUNCTION T reduceWarp(T x, int width, Join join) {
#pragma unroll
  for (int step = kWarpSize / 2; step > 0; step /= 2)
    if (step < width)
      x = join(x, shuffleXor(x, step));
  return x;
}
} // namespace detail

template <typename T> MPC_FUNCTION T warpSum(T x, int width = kWarpSize) {
  return detail::reduceWarp(x, width, [](T a, T b) {
    if constexpr (detail::isInteger<T>)
      return add<T>(a, b);
    else
      return a + b;
  });
}
template <typename T> MPC_FUNCTION T warpProduct(T x, int width = kWarpSize) {
  return detail::reduceWarp(x, width, [](T a, T b) {
    if constexpr (detail::isInteger<T>)
      return multiply<T>(a, b);
    else
      return a * b;
  });
}
template <typename T> MPC_FUNCTION T warpMax(T x, int width = kWarpSize) {
  return detail::reduceWarp(x, width, [](T a, T b) { return maximum(a, b); });
}
template <typename T> MPC_FUNCTION T warpMin(T x, int width = kWarpSize) {
  return detail::reduceWarp(x, width, [](T a, T b) { return minimum(a, b); });
}
template <typename T> MPC_FUNCTION T warpAnd(T x, int width = kWarpSize) {
  return detail::reduceWarp(x, width,
                            [](T a, T b) { return static_cast<T>(a & b); });
}
template <typename T> MPC_FUNCTION T warpOr(T x, int width = kWarpSize) {
  return detail::reduceWarp(x, width,
                            [](T a, T b) { return static_cast<T>(a | b); });
}

//===----------------------------------------------------------------------===//
// Atomic minimum and maximum
//===----------------------------------------------------------------------===//

MPC_FUNCTION int atomicMax(int *to, int value) {
  return atomicMaxInteger(to, value);
}
MPC_FUNCTION unsigned atomicMax(unsigned *to, unsigned value) {
  return atomicMaxInteger(to, value);
}
MPC_FUNCTION long long atomicMax(long long *to, long long value) {
  return atomicMaxInteger(to, value);
}
MPC_FUNCTION int atomicMin(int *to, int value) {
  return atomicMinInteger(to, value);
}
MPC_FUNCTION unsigned atomicMin(unsigned *to, unsigned value) {
  return atomicMinInteger(to, value);
}

MPC_FUNCTION long long atomicMin(long long *to, long long value) {
  return atomicMinInteger(to, value);
}
/// On integers as unsigned.
template <typename T> MPC_FUNCTION T atomicMaxUnsigned(T *to, T value) {
  using U = typename detail::Unsigned<T>::Type;
  return static_cast<T>(
      atomicMaxInteger(reinterpret_cast<U *>(to), static_cast<U>(value)));
}
template <typename T> MPC_FUNCTION T atomicMinUnsigned(T *to, T value) {
  using U = typename detail::Unsigned<T>::Type;
  return static_cast<T>(
      atomicMinInteger(reinterpret_cast<U *>(to), static_cast<U>(value)));
}

namespace detail {
/// Replaces *to by choose(*to, value) and returns the old value.
template <typename Choose>
MPC_FUNCTION float atomicChoose(float *to, float value, Choose choose) {
  unsigned *word = reinterpret_cast<unsigned *>(to);
  // A compare-exchange without change reads atomically.
  unsigned seen = atomicCompareExchange(word, 0u, 0u);
  while (true) {
    unsigned wanted = bitsOf(choose(floatOf(seen), value));
    if (wanted == seen)
      return floatOf(seen);
    unsigned found = atomicCompareExchange(word, seen, wanted);
    if (found == seen)
      return floatOf(seen);
    seen = found;
  }
}
} // namespace detail

MPC_FUNCTION float atomicMax(float *to, float value) {
  return detail::atomicChoose(to, value,
                              [](float x, float y) { return maximum(x, y); });
}
MPC_FUNCTION float atomicMin(float *to, float value) {
  return detail::atomicChoose(to, value,
                              [](float x, float y) { return minimum(x, y); });
}

} // namespace mpc

#endif // MPC_TARGET_CUDA_PRELUDE_WARP_H
