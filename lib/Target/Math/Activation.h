//===- Activation.h - sigmoid, softplus, tanh, erf, gelu --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_MATH_ACTIVATION_H
#define MPC_LIB_TARGET_MATH_ACTIVATION_H

#include "Exponential.h"

namespace mpc {

template <typename F> MPC_FUNCTION F sigmoid(F x) {
  // The form whose power cannot overflow.
  F power = exp(-abs(x));
  return select(x < F(0.0), power, F(1.0)) / (power + F(1.0));
}

template <typename F> MPC_FUNCTION F softplus(F x) {
  return select(x > F(0.0), x, F(0.0)) + log1p(exp(-abs(x)));
}

namespace detail {
/// tanh on [0, 0.56].
template <typename F> MPC_FUNCTION F tanhCore(F x) {
  // (tanh x - x) / x^3 in x^2.
  F square = x * x;
  F tail = polynomial(square,
                      {-0.3333333259, 0.133332866, -0.05395845895,
                       0.02177419964, -8.385884822e-3, 2.362114806e-3},
                      {-0.3333333333333333156, 0.1333333333333294794,
                       -0.05396825396796082339, 0.02186948852495429263,
                       -8.863235278588557892e-3, 3.592124437075125138e-3,
                       -1.455799880906022086e-3, 5.898004817563599593e-4,
                       -2.380972219102663241e-4, 9.370198987884071611e-5,
                       -3.262113256352412156e-5, 7.253193698795153805e-6});
  return fma(x * square, tail, x);
}
} // namespace detail

template <typename F> MPC_FUNCTION F tanh(F x) {
  F a = abs(x);
  F result = choose(
      a < F(0.55), [&] { return detail::tanhCore(a); },
      [&] {
        // 1 - 2 / (e^2a + 1), which is 1 long before 20.
        F clamped = select(a > F(20.0), F(20.0), a);
        F power = exp(clamped + clamped);
        return F(1.0) - F(2.0) / (power + F(1.0));
      });
  return copySign(result, x);
}

//===----------------------------------------------------------------------===//
// The normal distribution
//===----------------------------------------------------------------------===//

namespace detail {
/// The normal distribution function at -x times e^(x^2 / 2), for x >= 0.
template <typename F> MPC_FUNCTION F scaledNormalTail(F x) {
  constexpr double center = isWide<F> ? 5.5 : 4.25;
  F sum = x + F(center), inverse = F(1.0) / sum;
  // One Newton step, which also takes in what the sum lost: q enters a
  // polynomial with a steep slope.
  F lost = x - (sum - F(center));
  F residual = fma(-inverse, lost, fma(-inverse, sum, F(1.0)));
  F correction = inverse * residual;
  F q = fma(correction, F(-2 * center), fma(inverse, F(-2 * center), F(1.0)));
  // (x + c) N(-x) e^(x^2 / 2), N the normal distribution function, c the
  // center, in q = (x - c) / (x + c), x <= 14.4, of doubles x <= 39.6.
  F scaled =
      polynomial(q,
                 {0.7595542087, -0.6251298032, 0.4182274945, -0.2205150462,
                  0.08527283268, -0.01936802787, -7.54533857e-4, 2.185196807e-3,
                  -3.587061353e-4, -2.310187214e-4},
                 {0.7737696342764067674,    -0.6851834205743381129,
                  0.5355964890624946909,    -0.3670490652936197945,
                  0.2178724328579587049,    -0.1097030899587180671,
                  0.04509758081490885509,   -0.01392351056568171048,
                  2.442982674360481058e-3,  2.696040008961087741e-4,
                  -3.245226508763719224e-4, 7.141485090732494665e-5,
                  1.631997952305153577e-5,  -1.211889899175785085e-5,
                  4.463527030062034899e-7,  1.483864946515360148e-6,
                  -2.677758790880816354e-7, -1.77594743274625143e-7,
                  5.025175343422377821e-8,  2.293964483100194936e-8,
                  -5.653151780572622005e-9, -2.580100326645660425e-9});
  return scaled * (inverse + correction);
}

/// The normal distribution function of x on [-1/2, 1/2].
template <typename F> MPC_FUNCTION F normalCore(F x) {
  // (normal distribution function of x - 1/2) / x in x^2.
  F slope = polynomial(
      x * x, {0.3989422758, -0.06648983274, 9.963412911e-3, -1.1267634e-3},
      {0.3989422804014326761, -0.0664903800669045553, 9.973557009966672412e-3,
       -1.18732821343419201e-3, 1.154346578451542876e-4,
       -9.444420711442593061e-6, 6.649344076081632614e-7,
       -3.884557399485947847e-8});
  return fma(x, slope, F(0.5));
}

/// erf on [-0.93, 0.93], of doubles [-1, 1].
template <typename F> MPC_FUNCTION F erfCore(F x) {
  // erf(x) / x - 1 in x^2.
  F slope = polynomial(
      x * x,
      {0.128379167, -0.3761263319, 0.1128368723, -0.02685894277, 5.199908241e-3,
       -8.130018934e-4, 8.316768991e-5},
      {0.128379167095512574, -0.3761263890318374762, 0.1128379167095485791,
       -0.02686617064507295925, 5.223977624781369794e-3,
       -8.548326978765148816e-4, 1.20553310375511081e-4,
       -1.492559351872822669e-5, 1.646097295415376567e-6,
       -1.635002619207726853e-7, 1.465788353091965352e-8,
       -1.136567067182715927e-9, 5.945255584223487435e-11});
  return fma(x, slope, x);
}

/// log erfc on [0.92, 4], for floats.
template <typename F> MPC_FUNCTION F logErfc(F x) {
  return horner(x, {1.747197189e-4, -1.12951511, -0.6333465224, -0.1082805356,
                    0.02511973162, -4.171184642e-3, 4.344889861e-4,
                    -2.10974414e-5});
}

/// erfc beyond erfCore; cut off where it adds nothing to 1.
template <typename F> MPC_FUNCTION F erfcOf(F a) {
  constexpr double bound = isWide<F> ? 6.0 : 4.0;
  F x = select(a > F(bound), F(bound), a);
  if constexpr (isWide<F>) {
    // erfc x = 2 N(-x sqrt 2).
    F tail = scaledNormalTail(x * F(FloatFormat<F>::sqrt2));
    return exp(-(x * x)) * F(2.0) * tail;
  } else {
    return exp(logErfc(x));
  }
}
} // namespace detail

template <typename F> MPC_FUNCTION F erf(F x) {
  F a = abs(x);
  return choose(
      a < F(detail::isWide<F> ? 1.0 : 0.92), [&] { return detail::erfCore(x); },
      [&] { return copySign(F(1.0) - detail::erfcOf(a), x); });
}

/// x times the normal distribution function, which comes from its tail at the
/// magnitude, so that the negative side keeps its relative accuracy; near 0
/// from its odd part.
template <typename F> MPC_FUNCTION F gelu(F x) {
  const F bound = F(detail::isWide<F> ? 39.5 : 14.4);
  F a = abs(x);
  a = select(a > bound, bound, a);
  return choose(
      a < F(0.5), [&] { return x * detail::normalCore(x); },
      [&] {
        // The square's rounding shows in its power.
        F square = a * a, lost = fma(a, a, -square);
        detail::ExpParts<F> parts = detail::splitExpOfAny(square * F(-0.5));
        parts.rest = parts.rest + lost * F(-0.5);
        F power = detail::expOf(parts, 0);
        // Up there the tail is far below an ulp of x, which may be infinite.
        F part =
            select(x > bound, bound, x) * (power * detail::scaledNormalTail(a));
        return select(x < F(0.0), part, x - part);
      });
}

/// x (1 + tanh u) / 2 = x sigmoid(2 u).
template <typename F> MPC_FUNCTION F geluTanh(F x) {
  F factor = fma(x * x, F(0.044715), F(1.0));
  // 2 sqrt(2 / pi).
  return x * sigmoid(x * F(1.59576912160573071176) * factor);
}

} // namespace mpc

#endif // MPC_LIB_TARGET_MATH_ACTIVATION_H
