//===- AttentionMath.h - scores, weights and their sums ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The mathematics of attention, for every target and unit:
//   o = sum_t w_t v_t / sum_t w_t,  w_t = exp(s_t - m),  s_t = scale q k_t +
//   mask
// with m the largest score, or the largest so far: under a new maximum, sums
// are multiplied by exp(m_before - m). A row that keeps no position is zero.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_ATTENTIONMATH_H
#define MPC_LIB_TARGET_KERNEL_ATTENTIONMATH_H

#include "IndexMath.h"
#include "MathExpansion.h"

namespace mpc {

/// Works on scalars and vectors of scores alike.
class AttentionMath {
public:
  AttentionMath(MathExpansion &values, double scale)
      : v(values), scale(scale) {}

  /// Powers as those of two that the target has as "exp2Fast". Where scores are
  /// not `scaled` before, the scale rides on the exponent's factor.
  void useFastPowers(bool scaled);

  /// `score` times the scale, unless powers are scaled.
  mlir::Value scaled(mlir::Value score);
  /// `score` under the mask's value: dropped where that is false, or added to
  /// it, of any float type.
  mlir::Value masked(mlir::Value score, mlir::Value mask);
  /// `score`, or minus infinity where it is not kept.
  mlir::Value kept(mlir::Value keeps, mlir::Value score);
  /// Whether causal attention of `length` rows and `positions` keeps a position
  /// for a row (t <= s + T - S, without numbers below zero).
  static mlir::Value isCausal(const IndexMath &math, mlir::Value row,
                              mlir::Value position, int64_t length,
                              int64_t positions);

  mlir::Value larger(mlir::Value x, mlir::Value y);
  /// Whether a row keeps nothing, by its maximum.
  mlir::Value isEmpty(mlir::Value maximum);
  /// What is subtracted from scores under a maximum.
  mlir::Value shift(mlir::Value maximum);
  /// exp(score - maximum), by `shift` of the maximum.
  mlir::Value power(mlir::Value score, mlir::Value shift);
  /// 1 / sum of weights, 0 for a row that keeps nothing.
  mlir::Value inverse(mlir::Value sum, mlir::Value maximum);

  bool foldsScale() const { return fast && !scalesBefore; }

private:
  MathExpansion &v;
  double scale;
  bool fast = false, scalesBefore = true;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_ATTENTIONMATH_H
