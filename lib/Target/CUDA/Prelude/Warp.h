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

#define MPC_REDUCE_WARP(ofLanes, name, value)                                  \
  template <typename T> MPC_FUNCTION T name(T x, int width = kWarpSize) {      \
    return detail::reduceWarp(x, width, [](T a, T b) { return value; });       \
  }
MPC_REDUCTIONS(MPC_REDUCE_WARP)
#undef MPC_REDUCE_WARP

//===----------------------------------------------------------------------===//
// Atomics
//===----------------------------------------------------------------------===//

/// Maximum of integers as unsigned.
template <typename T> MPC_FUNCTION T atomicMaxUnsigned(T *to, T value) {
  using U = typename detail::Unsigned<T>::Type;
  return static_cast<T>(
      atomicMaxInteger(reinterpret_cast<U *>(to), static_cast<U>(value)));
}

} // namespace mpc

#endif // MPC_TARGET_CUDA_PRELUDE_WARP_H
