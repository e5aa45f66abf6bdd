//===- MathPolynomialTests.cpp - errors of approximations by themselves ---===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The text of each approximation in long double, with the coefficients of its
// type: what differs from the function is not rounding. With MathAccuracyTests,
// which measures both together, this is the proof of the errors that
// Target/Math states.
//
//===----------------------------------------------------------------------===//

#include "Target/Math/Number.h"

#include "gtest/gtest.h"

#include <cmath>
#include <functional>

namespace mpc {
/// Computes in long double with constants of type T.
template <typename T> struct Unrounded {
  Unrounded() = default;
  explicit Unrounded(double constant) : value(static_cast<T>(constant)) {}
  static Unrounded of(long double value) {
    Unrounded result;
    result.value = value;
    return result;
  }
  long double value;
};
namespace detail {
template <typename T> struct FloatFormat<Unrounded<T>> : FloatFormat<T> {};
} // namespace detail
#define MPC_OPERATOR(sign)                                                     \
  template <typename T>                                                        \
  Unrounded<T> operator sign(Unrounded<T> x, Unrounded<T> y) {                 \
    return Unrounded<T>::of(x.value sign y.value);                             \
  }
MPC_OPERATOR(+)
MPC_OPERATOR(-)
MPC_OPERATOR(*)
MPC_OPERATOR(/)
#undef MPC_OPERATOR
template <typename T> Unrounded<T> operator-(Unrounded<T> x) {
  return Unrounded<T>::of(-x.value);
}
template <typename T>
Unrounded<T> fma(Unrounded<T> x, Unrounded<T> y, Unrounded<T> z) {
  return x * y + z;
}
} // namespace mpc

// What the functions use of numbers comes before them.
#include "Target/Math/Activation.h"
#include "Target/Math/Circular.h"
#include "Target/Math/Hyperbolic.h"

using namespace mpc;

namespace {
using Function = long double (*)(long double);

/// An approximation of `function` on [low, high].
struct Case {
  const char *name;
  Function function;
  /// Divisor of an error.
  Function scale;
  long double low, high;
  /// The bound's logarithm to base 2.
  double bound;
  std::function<long double(long double)> approximation;
};

template <typename F> F logNear1(F m) {
  F zero;
  zero.value = 0;
  return detail::logOf(detail::LogParts<F>{zero, m});
}

long double normal(long double x) { return erfcl(-x * sqrtl(0.5L)) / 2; }
/// N(-x) e^(x^2 / 2): by its continued fraction where that converges fast.
long double scaledTail(long double x) {
  if (x < 3)
    return normal(-x) * expl(x * x / 2);
  long double rest = x;
  for (int k = 300; k > 0; --k)
    rest = x + k / rest;
  return 1 / (rest * sqrtl(2 * M_PIl));
}
long double logErfc(long double x) { return logl(erfcl(x)); }
} // namespace

#define MPC_CASE(core, T, function, scale, low, high, bound)                   \
  {#core " of " #T, function, scale, low, high, bound, [](long double x) {     \
     return core(Unrounded<T>::of(x)).value;                                   \
   }}

TEST(MathPolynomials, StayInsideTheirBounds) {
  constexpr long double ln2Half = M_LN2l / 2, quarterPi = M_PIl / 4;
  constexpr long double tanEighth = detail::kTanEighth;
  // An error of log erfc is one of erf, times their ratio.
  Function erfRatio = [](long double x) { return erfl(x) / erfcl(x); };
  const Case cases[] = {
      MPC_CASE(detail::expm1Core<false>, float, expm1l, expl, -ln2Half, ln2Half,
               -27.9),
      MPC_CASE(detail::expm1Core<false>, double, expm1l, expl, -ln2Half,
               ln2Half, -61.9),
      MPC_CASE(detail::expm1Core<true>, float, expm1l, expm1l, -ln2Half,
               ln2Half, -28.4),
      MPC_CASE(logNear1, float, logl, logl, 2 / 3.L, 4 / 3.L, -26.6),
      MPC_CASE(logNear1, double, logl, logl, M_SQRT1_2l, M_SQRT2l, -61.3),
      MPC_CASE(detail::tanhCore, float, tanhl, tanhl, 0, 0.55L, -27.9),
      MPC_CASE(detail::tanhCore, double, tanhl, tanhl, 0, 0.55L, -60.9),
      MPC_CASE(detail::scaledNormalTail, float, scaledTail, scaledTail, 0.5L,
               14.4L, -25.5),
      MPC_CASE(detail::scaledNormalTail, double, scaledTail, scaledTail, 0.5L,
               39.5L, -55.2),
      MPC_CASE(detail::normalCore, float, normal, normal, -0.5L, 0.5L, -25.5),
      MPC_CASE(detail::normalCore, double, normal, normal, -0.5L, 0.5L, -54.2),
      MPC_CASE(detail::erfCore, float, erfl, erfl, 0, 0.92L, -26.0),
      MPC_CASE(detail::erfCore, double, erfl, erfl, 0, 1, -56.0),
      MPC_CASE(detail::logErfc, float, logErfc, erfRatio, 0.92L, 4, -25.6),
      MPC_CASE(detail::sinCore, float, sinl, sinl, 0, quarterPi, -26.8),
      MPC_CASE(detail::sinCore, double, sinl, sinl, 0, quarterPi, -57.1),
      MPC_CASE(detail::cosCore, float, cosl, cosl, 0, quarterPi, -32.3),
      MPC_CASE(detail::cosCore, double, cosl, cosl, 0, quarterPi, -59.4),
      MPC_CASE(detail::asinCore, float, asinl, asinl, 0, 0.5L, -29.6),
      MPC_CASE(detail::asinCore, double, asinl, asinl, 0, 0.5L, -58.7),
      MPC_CASE(detail::atanCore, float, atanl, atanl, -tanEighth, tanEighth,
               -28.2),
      MPC_CASE(detail::atanCore, double, atanl, atanl, -tanEighth, tanEighth,
               -58.1),
      MPC_CASE(detail::sinhCore, float, sinhl, sinhl, 0, 1, -27.4),
      MPC_CASE(detail::sinhCore, double, sinhl, sinhl, 0, 1, -56.7),
  };
  for (const Case &c : cases) {
    constexpr int steps = 20000;
    long double worst = 0;
    for (int i = 0; i <= steps; ++i) {
      long double x = c.low + (c.high - c.low) * i / steps;
      long double scale = std::abs(c.scale(x));
      if (scale > 0)
        worst = std::max(worst,
                         std::abs(c.approximation(x) - c.function(x)) / scale);
    }
    RecordProperty(c.name, std::to_string(log2l(worst)));
    EXPECT_LE(log2l(worst), c.bound) << c.name;
    // A bound that is far from the actual error is not informative.
    EXPECT_GE(log2l(worst), c.bound - 0.2) << c.name;
  }
}
