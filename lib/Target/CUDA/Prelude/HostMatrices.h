//===- HostMatrices.h - warp GEMM (mma) on CPUs -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emulates ldmatrix and mma.sync, with the lane layouts of the PTX manual.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_HOSTMATRICES_H
#define MPC_TARGET_CUDA_PRELUDE_HOSTMATRICES_H

#include "mpc/Support/TensorCoreModel.h"

namespace mpc {

namespace host {
template <typename T> constexpr auto tensorCoreType = TensorCoreType::Float16;
template <> constexpr auto tensorCoreType<bfloat16> = TensorCoreType::BFloat16;
template <> constexpr auto tensorCoreType<e4m3> = TensorCoreType::E4M3;
template <> constexpr auto tensorCoreType<e5m2> = TensorCoreType::E5M2;

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

/// d += a * b on 16 x 8 P x 8 elements, P to a register: element(word, i). With
/// group g = lane / 4 and member t = lane % 4, word w of a holds row g (g + 8
/// if w is odd), columns P t to P t + P - 1 (plus 4 P for w >= 2); word w of b
/// column g, rows P t + 4 P w and next; d[0], d[1] are row g, columns 2 t and
/// 2 t + 1, d[2], d[3] row g + 8. Gives the bits of the emulated GPU.
template <TensorCoreType A, TensorCoreType B, int P, typename ElementA,
          typename ElementB>
MPC_UNCHECKED inline void multiplyTiles(void **lanes, ElementA elementA,
                                        ElementB elementB) {
  TensorCoreFactor a[16][8 * P], b[8][8 * P];
  for (int i = 0; i < kWarpSize; ++i) {
    auto &own = *static_cast<Product *>(lanes[i]);
    int group = i / 4, first = P * (i % 4);
    for (int e = 0; e < P; ++e)
      for (int w = 0; w < 4; ++w) {
        a[group + w % 2 * 8][first + e + w / 2 * 4 * P] =
            TensorCoreFactor::of(elementA(own.a[w], e), A);
        if (w < 2)
          b[group][first + e + w * 4 * P] =
              TensorCoreFactor::of(elementB(own.b[w], e), B);
      }
  }
  auto arithmetic = TensorCoreArithmetic::of(TensorCoreInstruction::Mma, A,
                                             runner->capability);
  for (int i = 0; i < kWarpSize; ++i)
    for (int j = 0; j < 4; ++j) {
      int row = i / 4 + 8 * (j / 2), column = 2 * (i % 4) + j % 2;
      auto *mine = static_cast<Product *>(lanes[i]);
      mine->d[j] = arithmetic.multiplyAdd(a[row], b[column], 8 * P, mine->d[j]);
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
        auto element = [](unsigned word, int i) {
          return toFloat(T{static_cast<unsigned short>(word >> (16 * i))});
        };
        constexpr TensorCoreType type = host::tensorCoreType<T>;
        host::multiplyTiles<type, type, 2>(lanes, element, element);
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
        auto element = [](unsigned word, int) { return floatOf(word); };
        constexpr TensorCoreType type = TensorCoreType::TensorFloat32;
        host::multiplyTiles<type, type, 1>(lanes, element, element);
      },
      line);
}

/// Packs four 8-bit floats into one word.
inline unsigned packBytes(unsigned char x, unsigned char y, unsigned char z,
                          unsigned char w) {
  return x | y << 8 | z << 16 | static_cast<unsigned>(w) << 24;
}

/// d += a * b on 16 x 8 x 32 elements of A and B, e4m3 or e5m2.
template <typename A, typename B, typename Word>
inline void mmaFloat8(float (&d)[4], const Word (&a)[4], const Word (&b)[2],
                      int line = __builtin_LINE()) {
  host::multiply(
      "mmaFloat8", d, a, b,
      [](void **lanes) MPC_UNCHECKED {
        host::multiplyTiles<host::tensorCoreType<A>, host::tensorCoreType<B>,
                            4>(
            lanes,
            [](unsigned word, int i) {
              return toFloat(A{static_cast<unsigned char>(word >> 8 * i)});
            },
            [](unsigned word, int i) {
              return toFloat(B{static_cast<unsigned char>(word >> 8 * i)});
            });
      },
      line);
}

} // namespace mpc

#endif // MPC_TARGET_CUDA_PRELUDE_HOSTMATRICES_H
