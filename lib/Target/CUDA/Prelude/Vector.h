//===- Vector.h - elementwise vectors, integers -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared by GPU and host. Operators and functions on vectors apply the scalar
// ones per lane; scalar operands are broadcast.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_VECTOR_H
#define MPC_TARGET_CUDA_PRELUDE_VECTOR_H

namespace mpc {

namespace detail {
template <typename T> struct LanesOf {
  static constexpr int count = 0;
  using Lane = T;
};
template <typename T, int N> struct LanesOf<Vector<T, N>> {
  static constexpr int count = N;
  using Lane = T;
};
MPC_FUNCTION constexpr int larger(int x, int y) { return x > y ? x : y; }

/// Number of lanes of the vectors among the types; 0 if all are scalars.
template <typename... Ts> struct CommonLanes {
  static constexpr int count = 0;
};
template <typename T, typename... Rest> struct CommonLanes<T, Rest...> {
  static constexpr int count =
      larger(LanesOf<T>::count, CommonLanes<Rest...>::count);
};

/// Template parameter that exists for vectors only (SFINAE).
template <bool Holds> struct When {};
template <> struct When<true> {
  using Type = int;
};
template <typename... Ts>
using ForVectors = typename When<(CommonLanes<Ts...>::count > 0)>::Type;

template <typename T> MPC_FUNCTION T laneOf(const T &x, int) { return x; }
template <typename T, int N>
MPC_FUNCTION T laneOf(const Vector<T, N> &x, int i) {
  return x.values[i];
}

/// Lane type of the first vector.
template <typename A, typename B, bool FirstIsVector> struct FirstLane {
  using Type = typename LanesOf<A>::Lane;
};
template <typename A, typename B> struct FirstLane<A, B, false> {
  using Type = typename LanesOf<B>::Lane;
};
template <typename A, typename B>
using CommonLane = typename FirstLane<A, B, (LanesOf<A>::count > 0)>::Type;

template <typename T> constexpr bool isInteger = false;
template <> inline constexpr bool isInteger<signed char> = true;
template <> inline constexpr bool isInteger<unsigned char> = true;
template <> inline constexpr bool isInteger<short> = true;
template <> inline constexpr bool isInteger<unsigned short> = true;
template <> inline constexpr bool isInteger<int> = true;
template <> inline constexpr bool isInteger<unsigned> = true;
template <> inline constexpr bool isInteger<long long> = true;
template <> inline constexpr bool isInteger<unsigned long long> = true;

/// The type of wrapping arithmetic on T: an unsigned type of at least its
/// width; the type itself for floats.
template <typename T> struct Unsigned {
  using Type = decltype(1u * T());
};
template <> struct Unsigned<long long> {
  using Type = unsigned long long;
};
/// Non-deduced context for T.
template <typename T> struct Exactly {
  using Type = T;
};
template <typename T> using Same = typename Exactly<T>::Type;
} // namespace detail

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

/// Wrapping add, subtract and multiply.
template <typename T> MPC_FUNCTION T add(T x, detail::Same<T> y) {
  using U = typename detail::Unsigned<T>::Type;
  return static_cast<T>(static_cast<U>(x) + static_cast<U>(y));
}
template <typename T> MPC_FUNCTION T subtract(T x, detail::Same<T> y) {
  using U = typename detail::Unsigned<T>::Type;
  return static_cast<T>(static_cast<U>(x) - static_cast<U>(y));
}
template <typename T> MPC_FUNCTION T multiply(T x, detail::Same<T> y) {
  using U = typename detail::Unsigned<T>::Type;
  return static_cast<T>(static_cast<U>(x) * static_cast<U>(y));
}

namespace detail {
template <typename T> using ForIntegers = typename When<isInteger<T>>::Type;
} // namespace detail

template <typename T, detail::ForIntegers<T> = 0>
MPC_FUNCTION T maximum(T x, detail::Same<T> y) {
  return x > y ? x : y;
}
template <typename T, detail::ForIntegers<T> = 0>
MPC_FUNCTION T minimum(T x, detail::Same<T> y) {
  return x < y ? x : y;
}
template <typename T, detail::ForIntegers<T> = 0> MPC_FUNCTION T abs(T x) {
  return x < 0 ? subtract<T>(0, x) : x;
}
//===----------------------------------------------------------------------===//
// Bits and special values
//===----------------------------------------------------------------------===//

/// Reinterprets the bits as another type of the same size.
template <typename To, typename From> MPC_FUNCTION To bitcast(const From &x) {
  static_assert(sizeof(To) == sizeof(From));
  union Bits {
    MPC_FUNCTION Bits() {}
    From from;
    To to;
  } bits;
  bits.from = x;
  return bits.to;
}

template <typename T = float> MPC_FUNCTION T infinity() {
  return static_cast<T>(floatOf(0x7f800000u));
}
template <typename T = float> MPC_FUNCTION T nan() {
  return static_cast<T>(floatOf(0x7fc00000u));
}

//===----------------------------------------------------------------------===//
// Comparisons without an operator
//===----------------------------------------------------------------------===//

#define MPC_COMPARISON(name, holds)                                            \
  MPC_FUNCTION bool name(float x, float y) { return holds; }                   \
  MPC_FUNCTION bool name(double x, double y) { return holds; }
MPC_COMPARISON(ordered, (x == x && y == y))
MPC_COMPARISON(anyNan, x != x || y != y)
// Unequal, and neither is NaN.
MPC_COMPARISON(differs, (x < y || x > y))
MPC_COMPARISON(equalOrNan, !(x < y || x > y))
#undef MPC_COMPARISON

//===----------------------------------------------------------------------===//
// Floats to integers
//===----------------------------------------------------------------------===//

namespace detail {
/// Smallest power of two beyond the range of Integer.
template <typename Integer, typename Float> MPC_FUNCTION Float beyondRange() {
  constexpr bool isSigned = static_cast<Integer>(-1) < static_cast<Integer>(0);
  constexpr int bits = 8 * sizeof(Integer) - (isSigned ? 1 : 0);
  return static_cast<Float>(1ull << (bits - 1)) * static_cast<Float>(2);
}
} // namespace detail

/// Rounds towards zero and saturates; NaN becomes 0.
template <typename Integer, typename Float,
          typename detail::When<detail::isInteger<Integer> &&
                                detail::LanesOf<Float>::count == 0>::Type = 0>
MPC_FUNCTION Integer toInteger(Float x) {
  constexpr bool isSigned = static_cast<Integer>(-1) < static_cast<Integer>(0);
  constexpr Integer largest = static_cast<Integer>(
      isSigned ? (1ull << (8 * sizeof(Integer) - 1)) - 1 : ~0ull);
  constexpr Integer smallest =
      isSigned ? static_cast<Integer>(-largest - 1) : static_cast<Integer>(0);
  const Float beyond = detail::beyondRange<Integer, Float>();
  if (x != x)
    return 0;
  if (x >= beyond)
    return largest;
  if (x <= (isSigned ? -beyond : static_cast<Float>(0)))
    return smallest;
  return static_cast<Integer>(x);
}

//===----------------------------------------------------------------------===//
// Vectors: operators
//===----------------------------------------------------------------------===//

/// Returns a vector with `value` in lane i.
#define MPC_LANES(type, count, value)                                          \
  Vector<type, count> result;                                                  \
  _Pragma("unroll") for (int i = 0; i < count; ++i) result.values[i] = value;  \
  return result
#define MPC_X detail::laneOf(x, i)
#define MPC_Y detail::laneOf(y, i)

/// T is the lane type of the vectors.
#define MPC_VECTOR_OPERATOR(sign, type, value)                                 \
  template <typename A, typename B, detail::ForVectors<A, B> = 0>              \
  MPC_FUNCTION auto operator sign(const A &x, const B &y) {                    \
    using T [[maybe_unused]] = detail::CommonLane<A, B>;                       \
    constexpr int count = detail::CommonLanes<A, B>::count;                    \
    MPC_LANES(type, count, static_cast<type>(value));                          \
  }
MPC_VECTOR_OPERATOR(+, T, add<T>(MPC_X, MPC_Y))
MPC_VECTOR_OPERATOR(-, T, subtract<T>(MPC_X, MPC_Y))
MPC_VECTOR_OPERATOR(*, T, multiply<T>(MPC_X, MPC_Y))
MPC_VECTOR_OPERATOR(/, T, static_cast<T>(MPC_X) / static_cast<T>(MPC_Y))
MPC_VECTOR_OPERATOR(%, T, MPC_X % MPC_Y)
MPC_VECTOR_OPERATOR(&, T, (MPC_X & MPC_Y))
MPC_VECTOR_OPERATOR(|, T, MPC_X | MPC_Y)
MPC_VECTOR_OPERATOR(^, T, MPC_X ^ MPC_Y)
MPC_VECTOR_OPERATOR(<<, T, MPC_X << MPC_Y)
MPC_VECTOR_OPERATOR(>>, T, MPC_X >> MPC_Y)
MPC_VECTOR_OPERATOR(==, bool, MPC_X == MPC_Y)
MPC_VECTOR_OPERATOR(!=, bool, MPC_X != MPC_Y)
MPC_VECTOR_OPERATOR(<, bool, MPC_X < MPC_Y)
MPC_VECTOR_OPERATOR(<=, bool, MPC_X <= MPC_Y)
MPC_VECTOR_OPERATOR(>, bool, MPC_X > MPC_Y)
MPC_VECTOR_OPERATOR(>=, bool, MPC_X >= MPC_Y)
#undef MPC_VECTOR_OPERATOR

template <typename T, int N>
MPC_FUNCTION Vector<T, N> operator-(const Vector<T, N> &x) {
  MPC_LANES(T, N, -x.values[i]);
}
template <int N>
MPC_FUNCTION Vector<bool, N> operator!(const Vector<bool, N> &x) {
  MPC_LANES(bool, N, !x.values[i]);
}
template <typename T, int N, typename B>
MPC_FUNCTION void operator+=(Vector<T, N> &x, const B &y) {
  x = x + y;
}
template <typename T, int N, typename B>
MPC_FUNCTION void operator-=(Vector<T, N> &x, const B &y) {
  x = x - y;
}
template <typename T, int N, typename B>
MPC_FUNCTION void operator*=(Vector<T, N> &x, const B &y) {
  x = x * y;
}

//===----------------------------------------------------------------------===//
// Vectors: functions
//===----------------------------------------------------------------------===//

#define MPC_LANEWISE_1(name)                                                   \
  template <typename T, int N> MPC_FUNCTION auto name(const Vector<T, N> &x) { \
    MPC_LANES(decltype(name(x.values[0])), N, name(x.values[i]));              \
  }
#define MPC_LANEWISE_2(name)                                                   \
  template <typename A, typename B, detail::ForVectors<A, B> = 0>              \
  MPC_FUNCTION auto name(const A &x, const B &y) {                             \
    constexpr int count = detail::CommonLanes<A, B>::count;                    \
    MPC_LANES(decltype(name(detail::laneOf(x, 0), detail::laneOf(y, 0))),      \
              count, name(MPC_X, MPC_Y));                                      \
  }
/// Overload for two equal vector types, which the scalar template would match.
#define MPC_LANEWISE_ALIKE(name)                                               \
  template <typename T, int N>                                                 \
  MPC_FUNCTION auto name(const Vector<T, N> &x, const Vector<T, N> &y) {       \
    MPC_LANES(decltype(name(x.values[0], y.values[0])), N,                     \
              name(x.values[i], y.values[i]));                                 \
  }
MPC_MATH_1(MPC_LANEWISE_1)
MPC_LANEWISE_1(abs)
MPC_LANEWISE_1(ceil)
MPC_LANEWISE_1(exp2Fast)
MPC_LANEWISE_1(floor)
MPC_LANEWISE_1(geluBfloat16)
MPC_LANEWISE_1(geluHalf)
MPC_LANEWISE_1(isFinite)
MPC_LANEWISE_1(isNan)
MPC_LANEWISE_1(rcpFast)
MPC_LANEWISE_1(roundEven)
MPC_LANEWISE_1(rsqrt)
MPC_LANEWISE_1(sqrt)
MPC_LANEWISE_1(toBfloat16)
MPC_LANEWISE_1(toFloat)
MPC_LANEWISE_1(toHalf)
MPC_LANEWISE_1(toTf32)
MPC_LANEWISE_1(trunc)
MPC_MATH_2(MPC_LANEWISE_2)
MPC_MATH_2(MPC_LANEWISE_ALIKE)
MPC_LANEWISE_2(anyNan)
MPC_LANEWISE_2(copySign)
MPC_LANEWISE_2(differs)
MPC_LANEWISE_2(equalOrNan)
MPC_LANEWISE_2(maximum)
MPC_LANEWISE_2(minimum)
MPC_LANEWISE_2(ordered)
MPC_LANEWISE_2(rem)
#undef MPC_LANEWISE_1
#undef MPC_LANEWISE_2
#undef MPC_LANEWISE_ALIKE

template <typename A, typename B, typename C, detail::ForVectors<A, B, C> = 0>
MPC_FUNCTION auto fma(const A &x, const B &y, const C &z) {
  constexpr int count = detail::CommonLanes<A, B, C>::count;
  MPC_LANES(decltype(fma(detail::laneOf(x, 0), detail::laneOf(y, 0),
                         detail::laneOf(z, 0))),
            count, fma(MPC_X, MPC_Y, detail::laneOf(z, i)));
}

/// Elementwise condition ? x : y; x or y is a vector.
template <typename C, typename A, typename B, detail::ForVectors<A, B> = 0>
MPC_FUNCTION auto select(const C &condition, const A &x, const B &y) {
  using T = detail::CommonLane<A, B>;
  constexpr int count = detail::CommonLanes<A, B>::count;
  MPC_LANES(T, count,
            detail::laneOf(condition, i) ? static_cast<T>(MPC_X)
                                         : static_cast<T>(MPC_Y));
}

/// Converts each lane to another arithmetic type.
template <typename To, typename T, int N>
MPC_FUNCTION Vector<To, N> convert(const Vector<T, N> &x) {
  MPC_LANES(To, N, static_cast<To>(x.values[i]));
}
template <typename Integer, typename T, int N>
MPC_FUNCTION Vector<Integer, N> toInteger(const Vector<T, N> &x) {
  MPC_LANES(Integer, N, toInteger<Integer>(x.values[i]));
}

//===----------------------------------------------------------------------===//
// Vectors: lanes
//===----------------------------------------------------------------------===//

namespace detail {
/// Defined only if the types differ.
template <typename T, typename From> struct Other {
  using type = From;
};
template <typename T> struct Other<T, T> {};
} // namespace detail

template <int N, typename T> MPC_FUNCTION Vector<T, N> splat(T x) {
  MPC_LANES(T, N, x);
}
/// Converts from a literal of another type.
template <int N, typename T, typename From,
          typename = typename detail::Other<T, From>::type>
MPC_FUNCTION Vector<T, N> splat(From x) {
  return splat<N>(static_cast<T>(x));
}
template <int... Lanes, typename T, int N>
MPC_FUNCTION Vector<T, sizeof...(Lanes)> shuffleLanes(const Vector<T, N> &x) {
  return {x.values[Lanes]...};
}
/// Lane indices from N on refer to y.
template <int... Lanes, typename T, int N, int M>
MPC_FUNCTION Vector<T, sizeof...(Lanes)> shuffleLanes(const Vector<T, N> &x,
                                                      const Vector<T, M> &y) {
  return {(Lanes < N ? x.values[Lanes < N ? Lanes : 0]
                     : y.values[Lanes < N ? 0 : Lanes - N])...};
}

#undef MPC_LANES
#undef MPC_X
#undef MPC_Y

/// Reductions over lanes and over a warp, and their results for two values.
#define MPC_REDUCTIONS(apply)                                                  \
  apply(sumOfLanes, warpSum, add<T>(a, b))                                     \
      apply(maximumOfLanes, warpMax, maximum(a, b))                            \
          apply(minimumOfLanes, warpMin, minimum(a, b))                        \
              apply(anyLane, warpOr, static_cast<T>(a | b))

/// Reduces from the first lane to the last.
#define MPC_REDUCE_LANES(name, ofWarp, value)                                  \
  template <typename T, int N> MPC_FUNCTION T name(const Vector<T, N> &x) {    \
    T a = x.values[0];                                                         \
    _Pragma("unroll") for (int i = 1; i < N; ++i) {                            \
      T b = x.values[i];                                                       \
      a = value;                                                               \
    }                                                                          \
    return a;                                                                  \
  }
MPC_REDUCTIONS(MPC_REDUCE_LANES)
#undef MPC_REDUCE_LANES

} // namespace mpc

#endif // MPC_TARGET_CUDA_PRELUDE_VECTOR_H
