//===- HostWarpgroup.h - warpgroup GEMM (wgmma) on CPUs ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each thread computes its accumulators from shared memory, with the layouts of
// `wgmma` in the PTX manual.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_HOSTWARPGROUP_H
#define MPC_TARGET_CUDA_PRELUDE_HOSTWARPGROUP_H

namespace mpc {

namespace host {
constexpr int kWarpgroup = 128, kWarpgroupRows = 64, kWarpgroupBytes = 32;

/// Returns the address of element (`row`, `k`) of a tile of T with the 128-byte
/// swizzle: 128-byte lines along k or, transposed, 64 rows per line and 64
/// consecutive lines along k. Address bits 4 to 6 are xored with bits 7 to 9.
template <typename T, bool Transposed>
MPC_UNCHECKED inline const T *tileElement(const void *tile, int row, int k) {
  static_assert(sizeof(T) == 2 || !Transposed);
  int bytes = sizeof(T),
      offset = Transposed ? row / 64 * 8192 + k * 128 + row % 64 * bytes
                          : row * 128 + k * bytes;
  auto address = reinterpret_cast<unsigned long>(tile) + offset;
  return reinterpret_cast<const T *>(address ^ ((address >> 3) & 0x70));
}

/// Checks the tile's 16-byte chunks, distributed over the threads.
template <typename T, bool Transposed>
MPC_UNCHECKED inline void checkTile(const void *tile, int rows) {
  for (int piece = threadNumber() % kWarpgroup; piece < 2 * rows;
       piece += kWarpgroup) {
    int row = Transposed ? piece % (rows / 8) * 8 : piece / 2;
    int k = Transposed ? piece / (rows / 8)
                       : piece % 2 * static_cast<int>(16 / sizeof(T));
    runner->access(runner, tileElement<T, Transposed>(tile, row, k), 16,
                   Access::Read, __builtin_return_address(0));
  }
}

template <typename A, typename B, bool TransposedA, bool TransposedB,
          int Blocks>
MPC_UNCHECKED inline void multiplyGroup(float *sums, const void *a,
                                        const void *b, bool kept, int line) {
  checkAligned(a, 16, line);
  checkAligned(b, 16, line);
  checkTile<A, TransposedA>(a, kWarpgroupRows);
  checkTile<B, TransposedB>(b, 8 * Blocks);
  constexpr int depth = kWarpgroupBytes / sizeof(A);
  constexpr auto typeA = tensorCoreType<A>, typeB = tensorCoreType<B>;
  auto arithmetic = TensorCoreArithmetic::of(TensorCoreInstruction::Wgmma,
                                             typeA, runner->capability);
  int thread = threadNumber() % kWarpgroup, pair = 2 * (thread % 4);
  int row = thread / kWarpSize * 16 + thread % kWarpSize / 4;
  TensorCoreFactor left[2][depth], right[2][depth];
  for (int half = 0; half < 2; ++half)
    for (int k = 0; k < depth; ++k)
      left[half][k] = TensorCoreFactor::of(
          toFloat(*tileElement<A, TransposedA>(a, row + 8 * half, k)), typeA);
  for (int block = 0; block < Blocks; ++block) {
    for (int next = 0; next < 2; ++next)
      for (int k = 0; k < depth; ++k)
        right[next][k] =
            TensorCoreFactor::of(toFloat(*tileElement<B, TransposedB>(
                                     b, 8 * block + pair + next, k)),
                                 typeB);
    for (int e = 0; e < 4; ++e) {
      float &sum = sums[4 * block + e];
      sum = arithmetic.multiplyAdd(left[e / 2], right[e % 2], depth,
                                   kept ? sum : 0);
    }
  }
}
} // namespace host

/// Multiplies 64 rows of A by 8 Blocks columns of B, 32 bytes deep, in shared
/// memory and accumulates into `sums`, or overwrites them if not `kept`. Both
/// types have 16 bits and are equal, or are e4m3 or e5m2 and not transposed.
/// Warp w of four has rows 16 w to 16 w + 15, with 8 columns as for mma.
/// Complete after the warpgroupWait for its group.
template <typename A, bool TransposedA, bool TransposedB, typename B = A,
          int Blocks>
MPC_UNCHECKED inline void warpgroupMma(float (&sums)[Blocks][4], const void *a,
                                       const void *b, bool kept,
                                       int line = __builtin_LINE()) {
  static_assert(sizeof(A) == sizeof(B));
  host::runner->product(
      host::runner, host::multiplyGroup<A, B, TransposedA, TransposedB, Blocks>,
      &sums[0][0], a, b, kept, line);
}
/// Orders the thread's register accesses before subsequent warpgroupMma.
inline void warpgroupFence() {}
/// Closes a group of the thread's warpgroupMma since the last call.
MPC_UNCHECKED inline void warpgroupCommit() {
  host::runner->commitProducts(host::runner);
}
/// Waits until at most `Pending` groups of the thread are in flight.
template <int Pending> MPC_UNCHECKED inline void warpgroupWait() {
  host::runner->waitProducts(host::runner, Pending);
}
/// Makes the thread's shared-memory writes visible to warpgroupMma after a
/// barrier.
inline void fenceShared() {}

} // namespace mpc

#endif // MPC_TARGET_CUDA_PRELUDE_HOSTWARPGROUP_H
