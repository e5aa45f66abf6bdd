//===- HostMatrices.h - warp GEMM (mma) on CPUs -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emulates ldmatrix and mma.sync, with the lane layouts of the PTX manual.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_HOSTMATRICES_H
#define MPC_TARGET_CUDA_PRELUDE_HOSTMATRICES_H

namespace mpc {

namespace host {
struct MatrixLoad {
  const void *row;
  unsigned tiles[4];
};

/// Lanes 8 i .. 8 i + 7 supply the row addresses of tile i. Lane l receives
/// elements 2 (l % 4) and the next of row l / 4, or of column l / 4 if
/// transposed.
template <bool Transposed, typename Word, int Count>
MPC_UNCHECKED inline void loadTiles(Word (&tiles)[Count], const void *row,
                                    int line) {
  static_assert(Count == 1 || Count == 2 || Count == 4);
  if (lane() < 8 * Count) {
    checkAligned(row, 16, line);
    runner->access(runner, row, 16, Access::Read, __builtin_return_address(0));
  }
  MatrixLoad operands{row, {}};
  meet(
      Transposed ? "loadMatrixTransposed" : "loadMatrix", line,
      [](void **lanes) MPC_UNCHECKED {
        for (int tile = 0; tile < Count; ++tile)
          for (int i = 0; i < kWarpSize; ++i) {
            unsigned pair = 0;
            for (int j = 0; j < 2; ++j) {
              int group = i / 4, member = 2 * (i % 4) + j;
              int row = Transposed ? member : group;
              int column = Transposed ? group : member;
              auto *from = static_cast<MatrixLoad *>(lanes[8 * tile + row]);
              pair |= unsigned(static_cast<const unsigned short *>(
                          from->row)[column])
                      << (16 * j);
            }
            static_cast<MatrixLoad *>(lanes[i])->tiles[tile] = pair;
          }
      },
      &operands);
  for (int i = 0; i < Count; ++i)
    tiles[i] = static_cast<Word>(operands.tiles[i]);
}
} // namespace host

/// Loads tiles of 8 x 8 16-bit elements from shared memory; lanes 8 i .. 8 i +
/// 7 supply the row addresses of tile i.
template <typename Word, int Count>
inline void loadMatrix(Word (&tiles)[Count], const void *row,
                       int line = __builtin_LINE()) {
  host::loadTiles<false>(tiles, row, line);
}
template <typename Word, int Count>
inline void loadMatrixTransposed(Word (&tiles)[Count], const void *row,
                                 int line = __builtin_LINE()) {
  host::loadTiles<true>(tiles, row, line);
}

namespace host {
struct Product {
  unsigned a[4], b[2];
  float d[4];
};

/// Returns element `index` (0 or 1) of a register with two elements of T.
template <typename T> inline float elementOf(unsigned pair, int index) {
  return toFloat(T{static_cast<unsigned short>(pair >> (16 * index))});
}

/// a is 16 x K, b K x 8, d 16 x 8, in the lane layouts of the PTX manual: group
/// g = lane / 4, member t = lane % 4. Accumulates in double, rounds once.
template <int K, typename ReadA, typename ReadB>
MPC_UNCHECKED inline void multiplyTiles(void **lanes, ReadA readA,
                                        ReadB readB) {
  float a[16][K], b[K][8];
  for (int i = 0; i < kWarpSize; ++i) {
    readA(*static_cast<Product *>(lanes[i]), i / 4, i % 4, a);
    readB(*static_cast<Product *>(lanes[i]), i / 4, i % 4, b);
  }
  for (int i = 0; i < kWarpSize; ++i)
    for (int j = 0; j < 4; ++j) {
      int row = i / 4 + 8 * (j / 2), column = 2 * (i % 4) + j % 2;
      auto *mine = static_cast<Product *>(lanes[i]);
      double sum = mine->d[j];
      for (int k = 0; k < K; ++k)
        sum += double(a[row][k]) * double(b[k][column]);
      mine->d[j] = static_cast<float>(sum);
    }
}

template <typename Word, int CountA, int CountB>
MPC_UNCHECKED inline void
multiply(const char *name, float (&d)[4], const Word (&a)[CountA],
         const Word (&b)[CountB], WarpFunction compute, int line) {
  static_assert(sizeof(Word) == 4);
  Product operands = {};
  __builtin_memcpy(operands.a, a, sizeof(a));
  __builtin_memcpy(operands.b, b, sizeof(b));
  __builtin_memcpy(operands.d, d, sizeof(d));
  meet(name, line, compute, &operands);
  __builtin_memcpy(d, operands.d, sizeof(d));
}
} // namespace host

/// d += a * b on 16 x 8 x 16 elements of T, half or bfloat16. With
/// g = lane / 4 and t = lane % 4, two elements to a register: a[0], a[1] hold
/// rows g and g + 8 at columns 2 t, 2 t + 1, a[2], a[3] the same at 2 t + 8;
/// b[0], b[1] hold column g at rows 2 t, 2 t + 1 and 2 t + 8, 2 t + 9; d[0],
/// d[1] are row g at columns 2 t, 2 t + 1, d[2], d[3] row g + 8. With two words
/// of a and one of b: 16 x 8 x 8 elements of half, the first of those columns.
template <typename T, typename Word, int CountA, int CountB>
inline void mma(float (&d)[4], const Word (&a)[CountA], const Word (&b)[CountB],
                int line = __builtin_LINE()) {
  static_assert(CountA == 2 * CountB && CountA <= 4);
  host::multiply(
      "mma", d, a, b,
      [](void **lanes) MPC_UNCHECKED {
        host::multiplyTiles<16>(
            lanes,
            [](const host::Product &p, int g, int t, float (&a)[16][16])
                MPC_UNCHECKED {
                  for (int i = 0; i < 8; ++i)
                    a[g + 8 * ((i / 2) % 2)][2 * t + i % 2 + 8 * (i / 4)] =
                        host::elementOf<T>(p.a[i / 2], i % 2);
                },
            [](const host::Product &p, int g, int t, float (&b)[16][8])
                MPC_UNCHECKED {
                  for (int i = 0; i < 4; ++i)
                    b[2 * t + i % 2 + 8 * (i / 2)][g] =
                        host::elementOf<T>(p.b[i / 2], i % 2);
                });
      },
      line);
}

/// d += a * b on 16 x 8 x 8 elements in tf32 (the low 13 bits of a register are
/// ignored). a[0], a[1] hold rows g and g + 8 at column t, a[2], a[3] the same
/// at t + 4; b[0], b[1] hold column g at rows t and t + 4; d as for mma. With
/// two words of a and one of b: 16 x 8 x 4 elements.
template <typename Word, int CountA, int CountB>
inline void mmaTf32(float (&d)[4], const Word (&a)[CountA],
                    const Word (&b)[CountB], int line = __builtin_LINE()) {
  static_assert(CountA == 2 * CountB && CountA <= 4);
  host::multiply(
      "mmaTf32", d, a, b,
      [](void **lanes) MPC_UNCHECKED {
        host::multiplyTiles<8>(
            lanes,
            [](const host::Product &p, int g, int t, float (&a)[16][8])
                MPC_UNCHECKED {
                  for (int i = 0; i < 4; ++i)
                    a[g + 8 * (i % 2)][t + 4 * (i / 2)] =
                        floatOf(p.a[i] & 0xffffe000u);
                },
            [](const host::Product &p, int g, int t, float (&b)[8][8])
                MPC_UNCHECKED {
                  for (int i = 0; i < 2; ++i)
                    b[t + 4 * i][g] = floatOf(p.b[i] & 0xffffe000u);
                });
      },
      line);
}

} // namespace mpc

#endif // MPC_TARGET_CUDA_PRELUDE_HOSTMATRICES_H
