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

/// d += a * b on 16 x 8 P x 8 elements, P to a register: element(word, i). With
/// group g = lane / 4 and member t = lane % 4, word w of a holds row g (g + 8
/// if w is odd), columns P t to P t + P - 1 (plus 4 P for w >= 2); word w of b
/// column g, rows P t + 4 P w and next; d[0], d[1] are row g, columns 2 t and
/// 2 t + 1, d[2], d[3] row g + 8. Accumulates in double, rounds once.
template <int P, typename Element>
MPC_UNCHECKED inline void multiplyTiles(void **lanes, Element element) {
  float a[16][8 * P], b[8 * P][8];
  for (int i = 0; i < kWarpSize; ++i) {
    auto &own = *static_cast<Product *>(lanes[i]);
    int group = i / 4, first = P * (i % 4);
    for (int e = 0; e < P; ++e)
      for (int w = 0; w < 4; ++w) {
        a[group + w % 2 * 8][first + e + w / 2 * 4 * P] = element(own.a[w], e);
        if (w < 2)
          b[first + e + w * 4 * P][group] = element(own.b[w], e);
      }
  }
  for (int i = 0; i < kWarpSize; ++i)
    for (int j = 0; j < 4; ++j) {
      int row = i / 4 + 8 * (j / 2), column = 2 * (i % 4) + j % 2;
      auto *mine = static_cast<Product *>(lanes[i]);
      double sum = mine->d[j];
      for (int k = 0; k < 8 * P; ++k)
        sum += double(a[row][k]) * double(b[k][column]);
      mine->d[j] = static_cast<float>(sum);
    }
}

template <typename Word>
MPC_UNCHECKED inline void multiply(const char *name, float (&d)[4],
                                   const Word (&a)[4], const Word (&b)[2],
                                   WarpFunction compute, int line) {
  static_assert(sizeof(Word) == 4);
  Product operands = {};
  __builtin_memcpy(operands.a, a, sizeof(a));
  __builtin_memcpy(operands.b, b, sizeof(b));
  __builtin_memcpy(operands.d, d, sizeof(d));
  meet(name, line, compute, &operands);
  __builtin_memcpy(d, operands.d, sizeof(d));
}
} // namespace host

/// d += a * b on 16 x 8 x 16 elements of T, half or bfloat16.
template <typename T, typename Word>
inline void mma(float (&d)[4], const Word (&a)[4], const Word (&b)[2],
                int line = __builtin_LINE()) {
  host::multiply(
      "mma", d, a, b,
      [](void **lanes) MPC_UNCHECKED {
        host::multiplyTiles<2>(lanes, [](unsigned word, int i) {
          return host::elementOf<T>(word, i);
        });
      },
      line);
}

/// d += a * b on 16 x 8 x 8 elements in tf32 (the low 13 bits of a register are
/// ignored).
template <typename Word>
inline void mmaTf32(float (&d)[4], const Word (&a)[4], const Word (&b)[2],
                    int line = __builtin_LINE()) {
  host::multiply(
      "mmaTf32", d, a, b,
      [](void **lanes) MPC_UNCHECKED {
        host::multiplyTiles<1>(lanes, [](unsigned word, int) {
          return floatOf(word & 0xffffe000u);
        });
      },
      line);
}

/// Packs four 8-bit floats into one word.
inline unsigned packBytes(unsigned char x, unsigned char y, unsigned char z,
                          unsigned char w) {
  return x | y << 8 | z << 16 | static_cast<unsigned>(w) << 24;
}

/// d += a * b on 16 x 8 x 32 elements of f8E4M3FN.
template <typename Word>
inline void mmaFloat8(float (&d)[4], const Word (&a)[4], const Word (&b)[2],
                      int line = __builtin_LINE()) {
  host::multiply(
      "mmaFloat8", d, a, b,
      [](void **lanes) MPC_UNCHECKED {
        host::multiplyTiles<4>(lanes, [](unsigned word, int i) {
          unsigned bits = word >> 8 * i & 0xffu, magnitude = bits & 0x7fu;
          // The bits of a subnormal or normal float 2^120 times smaller.
          float x = magnitude == 0x7f ? floatOf(0x7fffffffu)
                                      : floatOf(magnitude << 20) * 0x1p120f;
          return bits & 0x80u ? -x : x;
        });
      },
      line);
}

} // namespace mpc

#endif // MPC_TARGET_CUDA_PRELUDE_HOSTMATRICES_H
