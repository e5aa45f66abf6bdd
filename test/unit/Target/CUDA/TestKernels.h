//===- TestKernels.h - kernels in the style of the emitter ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Correct kernels, which run on the host and compile for GPUs.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_CUDA_TESTKERNELS_H
#define MPC_TEST_UNIT_TARGET_CUDA_TESTKERNELS_H

#include <string>

namespace mpc {

inline const char *const kVectorAdd = R"(
// add
MPC_KERNEL(128) void vector_add(const float *__restrict__ x,
                                const float *__restrict__ y,
                                float *__restrict__ sum, int n) {
  int i = 4 * (mpc::blockX() * mpc::blockSizeX() + mpc::threadX());
  if (i + 4 <= n) {
    auto a = mpc::load<4>(x + i), b = mpc::load<4>(y + i);
    for (int j = 0; j < 4; ++j)
      a[j] += b[j];
    mpc::store(sum + i, a);
  } else {
    for (; i < n; ++i)
      sum[i] = x[i] + y[i];
  }
}
)";

inline const char *const kReduction = R"(
// reduce_sum over everything; the last block adds the blocks' sums
MPC_KERNEL(256) void sum_all(const float *__restrict__ x, float *partial,
                             unsigned *ticket, float *result, int n) {
  MPC_SHARED(float, sums, [8]);
  MPC_SHARED(unsigned, turn, [1]);
  float sum = 0;
  for (int i = mpc::blockX() * 256 + mpc::threadX(); i < n;
       i += 256 * mpc::gridSizeX())
    sum += x[i];
  sum = mpc::warpSum(sum);
  if (mpc::lane() == 0)
    sums[mpc::warp()] = sum;
  mpc::barrier();
  if (mpc::threadX() == 0) {
    for (int i = 1; i < 8; ++i)
      sum += sums[i];
    partial[mpc::blockX()] = sum;
    mpc::fence();
    turn[0] = mpc::atomicAdd(ticket, 1u);
  }
  mpc::barrier();
  if (turn[0] + 1 == static_cast<unsigned>(mpc::gridSizeX()) &&
      mpc::threadX() == 0) {
    mpc::fence();
    float total = 0;
    for (int i = 0; i < mpc::gridSizeX(); ++i)
      total += partial[i];
    result[0] = total;
  }
}
)";

inline const char *const kTranspose = R"(
// transpose
MPC_KERNEL(256) void transpose(const mpc::bfloat16 *__restrict__ x,
                               mpc::bfloat16 *__restrict__ y, int rows,
                               int columns) {
  MPC_SHARED(mpc::bfloat16, tile, [32][33]);
  int column = mpc::blockX() * 32 + mpc::threadX();
  for (int i = mpc::threadY(); i < 32; i += 8) {
    int row = mpc::blockY() * 32 + i;
    if (row < rows && column < columns)
      tile[i][mpc::threadX()] = x[row * columns + column];
  }
  mpc::barrier();
  int row = mpc::blockY() * 32 + mpc::threadX();
  for (int i = mpc::threadY(); i < 32; i += 8) {
    column = mpc::blockX() * 32 + i;
    if (row < rows && column < columns)
      y[column * rows + row] = tile[mpc::threadX()][i];
  }
}
)";

inline const char *const kSoftmax = R"(
// softmax of rows in dynamic shared memory, one block per row
MPC_KERNEL(128) void softmax(const mpc::bfloat16 *__restrict__ x,
                             mpc::bfloat16 *__restrict__ y, int n) {
  MPC_DYNAMIC_SHARED(float, row);
  MPC_SHARED(float, parts, [4]);
  x += mpc::blockX() * n;
  y += mpc::blockX() * n;
  float largest = mpc::floatOf(0xff800000u);
  for (int i = mpc::threadX(); i < n; i += 128) {
    row[i] = mpc::toFloat(x[i]);
    largest = mpc::maximum(largest, row[i]);
  }
  largest = mpc::warpMax(largest);
  if (mpc::lane() == 0)
    parts[mpc::warp()] = largest;
  mpc::barrier();
  for (int i = 0; i < 4; ++i)
    largest = mpc::maximum(largest, parts[i]);
  float sum = 0;
  for (int i = mpc::threadX(); i < n; i += 128) {
    row[i] = mpc::exp(row[i] - largest);
    sum += row[i];
  }
  sum = mpc::warpSum(sum);
  mpc::barrier();
  if (mpc::lane() == 0)
    parts[mpc::warp()] = sum;
  mpc::barrier();
  sum = parts[0] + parts[1] + parts[2] + parts[3];
  for (int i = mpc::threadX(); i < n; i += 128)
    y[i] = mpc::toBfloat16(row[i] / sum);
}
)";

// 64 x 64 tiles of the result, 16 of k per stage, two stages; four warps of
// 32 x 32 each.
inline std::string gemmText(bool keepLastBarrier) {
  std::string text = R"(
// matmul, row-major f16, f32 sums
MPC_KERNEL(128) void gemm(const mpc::half *__restrict__ a,
                          const mpc::half *__restrict__ b,
                          float *__restrict__ c, int m, int n, int k) {
  MPC_SHARED(mpc::half, aTile, [2][64][24]);
  MPC_SHARED(mpc::half, bTile, [2][16][72]);
  int rowBase = mpc::blockY() * 64, columnBase = mpc::blockX() * 64;
  int t = mpc::threadX();
  auto fetch = [&](int stage, int k0) {
    int row = t / 2, column = t % 2 * 8;
    bool inside = rowBase + row < m;
    mpc::copyAsync<16>(&aTile[stage][row][column],
                       a + (inside ? (rowBase + row) * k + k0 + column : 0),
                       inside ? 16 : 0);
    row = t / 8;
    column = t % 8 * 8;
    inside = columnBase + column < n;
    mpc::copyAsync<16>(&bTile[stage][row][column],
                       b + (inside ? (k0 + row) * n + columnBase + column : 0),
                       inside ? 16 : 0);
    mpc::commitCopies();
  };
  float sums[2][4][4] = {};
  int warpRow = mpc::warp() / 2 * 32, warpColumn = mpc::warp() % 2 * 32;
  fetch(0, 0);
  for (int k0 = 0, stage = 0; k0 < k; k0 += 16, stage ^= 1) {
    if (k0 + 16 < k) {
      fetch(stage ^ 1, k0 + 16);
      mpc::waitCopies<1>();
    } else {
      mpc::waitCopies<0>();
    }
    mpc::barrier();
    unsigned aFragments[2][4], bFragments[4][2];
    for (int i = 0; i < 2; ++i)
      mpc::loadMatrix(aFragments[i],
                      &aTile[stage][warpRow + 16 * i + mpc::lane() % 16]
                            [mpc::lane() / 16 * 8]);
    for (int j = 0; j < 4; ++j)
      mpc::loadMatrixTransposed(
          bFragments[j],
          &bTile[stage][mpc::lane() % 16][warpColumn + 8 * j]);
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 4; ++j)
        mpc::mma<mpc::half>(sums[i][j], aFragments[i], bFragments[j]);
    %BARRIER%
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int e = 0; e < 4; ++e) {
        int row = rowBase + warpRow + 16 * i + mpc::lane() / 4 + e / 2 * 8;
        int column =
            columnBase + warpColumn + 8 * j + mpc::lane() % 4 * 2 + e % 2;
        if (row < m && column < n)
          c[row * n + column] = sums[i][j][e];
      }
}
)";
  std::string mark = "%BARRIER%";
  return text.replace(text.find(mark), mark.size(),
                      keepLastBarrier ? "mpc::barrier();" : "");
}

inline const char *const kConversions = R"(
MPC_KERNEL(256) void widen(const mpc::half *h, const mpc::bfloat16 *b,
                           float *fromHalf, float *fromBfloat16) {
  int i = mpc::blockX() * 256 + mpc::threadX();
  fromHalf[i] = mpc::toFloat(h[i]);
  fromBfloat16[i] = mpc::toFloat(b[i]);
}
MPC_KERNEL(256) void narrow(const float *x, mpc::half *h, mpc::bfloat16 *b,
                            unsigned *t, int n) {
  int i = mpc::blockX() * 256 + mpc::threadX();
  if (i < n) {
    h[i] = mpc::toHalf(x[i]);
    b[i] = mpc::toBfloat16(x[i]);
    t[i] = mpc::toTf32(x[i]);
  }
}
)";

inline const char *const kMath = R"(
MPC_KERNEL(64) void math(const float *x, float *y, int n) {
  int i = mpc::blockX() * 64 + mpc::threadX();
  if (i >= n)
    return;
  float v = x[i];
  float results[] = {mpc::exp(v),  mpc::expm1(v),   mpc::log(v),
                     mpc::log1p(v), mpc::tanh(v),    mpc::sigmoid(v),
                     mpc::erf(v),  mpc::exp2Fast(v), mpc::rcpFast(v),
                     mpc::sqrt(v), mpc::roundEven(v), mpc::floor(v),
                     mpc::ceil(v), mpc::trunc(v)};
  for (int j = 0; j < 14; ++j)
    y[j * n + i] = results[j];
}
MPC_KERNEL(64) void special(const float *x, float *y, int n) {
  int i = mpc::blockX() * 64 + mpc::threadX();
  if (i >= n)
    return;
  float v = x[i];
  float results[] = {mpc::rsqrt(v), mpc::softplus(v), mpc::gelu(v),
                     mpc::geluTanh(v), mpc::sinh(v),  mpc::cosh(v),
                     mpc::asinh(v), mpc::acosh(v),    mpc::atanh(v),
                     mpc::sin(v),   mpc::cos(v),      mpc::tan(v),
                     mpc::asin(v),  mpc::acos(v),     mpc::atan(v),
                     mpc::rem(v, 0.7f)};
  for (int j = 0; j < 16; ++j)
    y[j * n + i] = results[j];
}
MPC_KERNEL(64) void shortGelu(const float *x, float *forBfloat16,
                              float *forHalf, int n) {
  int i = mpc::blockX() * 64 + mpc::threadX();
  if (i >= n)
    return;
  forBfloat16[i] = mpc::geluBfloat16(x[i]);
  forHalf[i] = mpc::geluHalf(x[i]);
}
MPC_KERNEL(64) void extremes(const float *x, float *larger, float *smaller,
                             int n) {
  for (int i = mpc::threadX(); i < n * n; i += 64) {
    larger[i] = mpc::maximum(x[i / n], x[i % n]);
    smaller[i] = mpc::minimum(x[i / n], x[i % n]);
  }
}
)";

inline const char *const kWarps = R"(
MPC_KERNEL(64) void shuffles(int *out, int by, int width) {
  int t = mpc::threadX();
  out[t] = mpc::shuffleXor(t, by, width);
}
MPC_KERNEL(32) void wide(const double *x, double *y, const mpc::half *h,
                         mpc::half *g) {
  int t = mpc::threadX();
  y[t] = mpc::shuffleXor(x[t], 5);
  g[t] = mpc::shuffleXor(h[t], 1);
}
MPC_KERNEL(96) void numbers(unsigned *out) {
  out[mpc::threadX()] = static_cast<unsigned>(
      mpc::warp() * 100 + mpc::lane() + (mpc::warpSum(1.0f) == 32.0f));
}
MPC_KERNEL(64) void atomics(int *sum, long long *largest) {
  int t = mpc::blockX() * 64 + mpc::threadX();
  mpc::atomicAdd(&sum[0], t);
  mpc::atomicOr(&sum[1], 1 << t % 3);
  mpc::atomicMaxUnsigned(&largest[0], static_cast<long long>(t));
  mpc::atomicMaxUnsigned(&largest[1], t == 5 ? -1ll : 7ll);
}
)";

inline const char *const kMatrices = R"(
MPC_KERNEL(32) void tiles(const unsigned short *x, unsigned *out) {
  MPC_SHARED(unsigned short, tile, [32][8]);
  int t = mpc::threadX();
  mpc::store(tile[t], mpc::load<8>(x + 8 * t));
  mpc::barrier();
  unsigned one[1], two[2], four[4];
  mpc::loadMatrix(one, tile[t % 8]);
  mpc::loadMatrix(two, tile[t % 16]);
  mpc::loadMatrix(four, tile[t]);
  out[t] = one[0];
  for (int i = 0; i < 2; ++i)
    out[32 * (1 + i) + t] = two[i];
  for (int i = 0; i < 4; ++i)
    out[32 * (3 + i) + t] = four[i];
  mpc::loadMatrixTransposed(one, tile[t % 8]);
  mpc::loadMatrixTransposed(two, tile[t % 16]);
  mpc::loadMatrixTransposed(four, tile[t]);
  out[32 * 7 + t] = one[0];
  for (int i = 0; i < 2; ++i)
    out[32 * (8 + i) + t] = two[i];
  for (int i = 0; i < 4; ++i)
    out[32 * (10 + i) + t] = four[i];
}
/// Multiplies one tile per block.
template <typename Multiply>
MPC_FUNCTION void multiply(const unsigned *a, const unsigned *b, float *d,
                           Multiply multiply) {
  int t = 32 * mpc::blockX() + mpc::threadX();
  unsigned aRegisters[4], bRegisters[2];
  float sums[4];
  for (int i = 0; i < 4; ++i)
    aRegisters[i] = a[4 * t + i];
  for (int i = 0; i < 2; ++i)
    bRegisters[i] = b[2 * t + i];
  for (int i = 0; i < 4; ++i)
    sums[i] = d[4 * t + i];
  multiply(sums, aRegisters, bRegisters);
  for (int i = 0; i < 4; ++i)
    d[4 * t + i] = sums[i];
}
#define MULTIPLY(name, ...)                                                    \
  MPC_KERNEL(32) void name(const unsigned *a, const unsigned *b, float *d) {   \
    multiply(a, b, d, [](float(&sums)[4], const unsigned(&a)[4],               \
                         const unsigned(&b)[2]) { __VA_ARGS__(sums, a, b); }); \
  }
MULTIPLY(mmaHalf, mpc::mma<mpc::half>)
MULTIPLY(mmaBfloat16, mpc::mma<mpc::bfloat16>)
MULTIPLY(mmaSingle, mpc::mmaTf32)
MULTIPLY(mmaE4m3, mpc::mmaFloat8<mpc::e4m3, mpc::e4m3>)
MULTIPLY(mmaE5m2, mpc::mmaFloat8<mpc::e5m2, mpc::e5m2>)
MULTIPLY(mmaMixed, mpc::mmaFloat8<mpc::e4m3, mpc::e5m2>)
MULTIPLY(mmaMixedLeft, mpc::mmaFloat8<mpc::e5m2, mpc::e4m3>)
)";

/// Returns random operand elements in a word, from random `bits`: of magnitudes
/// near 1, of all magnitudes below 2 with subnormals, or any pattern with
/// infinities and NaNs, by tile. `exponentBits` of elements of `elementBits`.
inline unsigned tileWord(unsigned bits, int tile, int elementBits,
                         int exponentBits) {
  if (tile % 8 == 7)
    return bits;
  unsigned each = elementBits == 8    ? 0x01010101u
                  : elementBits == 16 ? 0x10001u
                                      : 1u;
  // The highest bit of the exponent, and all but the lowest two below it.
  unsigned top = 1u << (elementBits - 2),
           upper = top - (1u << (elementBits + 1 - exponentBits));
  bits &= ~(top * each);
  return tile % 2 ? bits | upper * each : bits;
}

/// GEMMs of 64 rows, 128 bytes deep, by four warps. The first dimension of a
/// transposed operand is k. EARLY: reads accumulators before the MMA completes.
inline const char *const kWarpgroups = R"(
template <typename T>
MPC_FUNCTION void bring(T *tile, const T *from, int rows, bool transposed) {
  constexpr int line = 128 / sizeof(T), piece = 16 / sizeof(T);
  int width = transposed ? rows : line;
  for (int i = mpc::threadX(); i < line * rows; i += 128) {
    int row = i / width, position = i % width;
    tile[position / line * 64 * line + row * line +
         (position % line ^ row % 8 * piece)] = from[i];
  }
}
template <typename A, bool TransposedA, bool TransposedB, int Columns,
          typename B = A>
MPC_FUNCTION void multiply(const A *a, const B *b, float *d) {
  constexpr int line = 128 / sizeof(A);
  MPC_DYNAMIC_SHARED(A, tiles);
  B *right = reinterpret_cast<B *>(tiles + 64 * line);
  bring(tiles, a, 64, TransposedA);
  bring(right, b, Columns, TransposedB);
  mpc::fenceShared();
  mpc::barrier();
  float sums[Columns / 8][4];
  mpc::warpgroupFence();
  for (int part = 0; part < 4; ++part)
    mpc::warpgroupMma<A, TransposedA, TransposedB, B>(
        sums, tiles + line / 4 * part * (TransposedA ? 64 : 1),
        right + line / 4 * part * (TransposedB ? 64 : 1), part > 0);
  mpc::warpgroupCommit();
#ifndef EARLY
  mpc::warpgroupWait<0>();
#endif
  int row = mpc::warp() * 16 + mpc::lane() / 4, pair = mpc::lane() % 4 * 2;
  for (int j = 0; j < Columns / 8; ++j)
    for (int e = 0; e < 4; ++e)
      d[(row + e / 2 * 8) * Columns + 8 * j + pair + e % 2] = sums[j][e];
}
MPC_KERNEL(128) void rows(const mpc::half *a, const mpc::half *b, float *d) {
  multiply<mpc::half, false, false, 64>(a, b, d);
}
MPC_KERNEL(128) void right(const mpc::bfloat16 *a, const mpc::bfloat16 *b,
                           float *d) {
  multiply<mpc::bfloat16, false, true, 128>(a, b, d);
}
MPC_KERNEL(128) void left(const mpc::half *a, const mpc::half *b, float *d) {
  multiply<mpc::half, true, false, 192>(a, b, d);
}
MPC_KERNEL(128) void both(const mpc::bfloat16 *a, const mpc::bfloat16 *b,
                          float *d) {
  multiply<mpc::bfloat16, true, true, 256>(a, b, d);
}
MPC_KERNEL(128) void bytes(const mpc::e4m3 *a, const mpc::e4m3 *b, float *d) {
  multiply<mpc::e4m3, false, false, 64>(a, b, d);
}
MPC_KERNEL(128) void mixedBytes(const mpc::e4m3 *a, const mpc::e5m2 *b,
                                float *d) {
  multiply<mpc::e4m3, false, false, 128, mpc::e5m2>(a, b, d);
}
MPC_KERNEL(128) void mixedLeft(const mpc::e5m2 *a, const mpc::e4m3 *b,
                               float *d) {
  multiply<mpc::e5m2, false, false, 192, mpc::e4m3>(a, b, d);
}
MPC_KERNEL(128) void wideBytes(const mpc::e5m2 *a, const mpc::e5m2 *b,
                               float *d) {
  multiply<mpc::e5m2, false, false, 256>(a, b, d);
}
)";

inline const char *const kCopies = R"(
MPC_KERNEL(32) void copies(const float *x, float *early, float *late,
                           float *last) {
  MPC_SHARED(float, a, [32]);
  MPC_SHARED(float, b, [128]);
  int t = mpc::threadX();
  mpc::copyAsync<4>(&a[t], &x[t]);
  mpc::commitCopies();
  mpc::copyAsync<16>(&b[4 * t], &x[4 * t], t == 31 ? 8 : 16);
  mpc::commitCopies();
#ifdef EARLY
  early[t] = a[t];
#endif
  mpc::waitCopies<1>();
  late[t] = a[t];
#ifdef EARLY
  early[32 + t] = b[4 * t];
#endif
  mpc::waitCopies<0>();
  for (int i = 0; i < 4; ++i)
    last[4 * t + i] = b[4 * t + i];
}
)";

inline const char *const kPowers = R"(
// pow, atan2 and saturating conversions
MPC_KERNEL(64) void powers(const float *x, const float *y, float *power,
                           float *angle, int n) {
  for (int i = mpc::threadX(); i < n; i += 64) {
    power[i] = mpc::pow(x[i], y[i]);
    angle[i] = mpc::atan2(x[i], y[i]);
  }
}
MPC_KERNEL(64) void saturate(const float *x, int *words, signed char *bytes,
                             long long *wide, int n) {
  for (int i = mpc::threadX(); i < n; i += 64) {
    words[i] = mpc::toInteger<int>(x[i]);
    bytes[i] = mpc::toInteger<signed char>(x[i]);
    wide[i] = mpc::toInteger<long long>(x[i]);
  }
}
)";

inline const char *const kLanes = R"(
// operators and functions on vectors
MPC_KERNEL(32) void lanes(const float *x, float *y, const int *n, int *m) {
  auto a = mpc::load<4>(x), b = mpc::load<4>(x + 4);
  mpc::store(y, a * b + 0.5f);
  mpc::store(y + 4, mpc::select(a > b, a, 0.0f));
  mpc::store(y + 8, mpc::maximum(mpc::abs(a), 1.0f) - mpc::fma(a, b, -b));
  mpc::store(y + 12, mpc::shuffleLanes<3, 4, 0, 7>(a, b));
  mpc::store(y + 16, mpc::toFloat(mpc::toBfloat16(a)));
  y[20] = mpc::sumOfLanes(a);
  y[21] = mpc::maximumOfLanes(b);
  auto c = mpc::load<4>(n);
  mpc::store(m, (c + 2147483647) ^ (c << 3));
  m[4] = mpc::anyLane(c > 5) + 2 * mpc::anyLane(c > 400);
}
MPC_KERNEL(32) void doubles(const double *x, double *y, mpc::half *h,
                            mpc::bfloat16 *b, long long *n) {
  int i = mpc::threadX();
  h[i] = mpc::toHalf(x[i]);
  b[i] = mpc::toBfloat16(x[i]);
  y[i] = mpc::warpSum(x[i], 8);
  y[32 + i] = mpc::warpMax(x[i]);
  n[i] = mpc::warpSum(static_cast<long long>(i) << 40);
}
)";

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_CUDA_TESTKERNELS_H
