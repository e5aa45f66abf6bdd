//===- AttentionMath.h - softmax arithmetic of attention --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Online softmax, shared by all targets and units:
//
//    o = sum_t w_t v_t / sum_t w_t,  w_t = exp(s_t - m),
//    s_t = scale q k_t + mask
//
// with m the largest score so far: when the maximum grows, sums are multiplied
// by exp(m_before - m). A fully masked row is zero.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_ATTENTIONMATH_H
#define MPC_LIB_TARGET_KERNEL_ATTENTIONMATH_H

#include "IndexMath.h"
#include "MathExpansion.h"

namespace mpc {

/// Operates on scalars and vectors of scores.
class AttentionMath {
public:
  AttentionMath(MathExpansion &values, double scale)
      : v(values), scale(scale) {}

  /// Computes exponentials as powers of two by the target's "exp2Fast". Unless
  /// scores are already `scaled`, the scale is folded into the exponent's
  /// factor.
  void useFastPowers(bool scaled);

  /// Returns `score` times the scale, unless that is folded into the exponent.
  mlir::Value scaled(mlir::Value score);
  /// Applies the mask's value to `score`: drops it if the mask is false, or
  /// adds a mask of any float type.
  mlir::Value masked(mlir::Value score, mlir::Value mask);
  /// Returns `score`, or minus infinity if it is masked.
  mlir::Value kept(mlir::Value keeps, mlir::Value score);
  /// Returns whether causal attention of `length` rows and `positions` keys
  /// keeps a position for a row (t <= s + T - S, without negative numbers).
  static mlir::Value isCausal(const IndexMath &math, mlir::Value row,
                              mlir::Value position, int64_t length,
                              int64_t positions);

  mlir::Value larger(mlir::Value x, mlir::Value y);
  /// Returns whether a row is fully masked, by its maximum.
  mlir::Value isEmpty(mlir::Value maximum);
  /// Returns the value to subtract from scores for a given maximum.
  mlir::Value shift(mlir::Value maximum);
  /// Returns exp(score - maximum), given `shift` of the maximum.
  mlir::Value power(mlir::Value score, mlir::Value shift);
  /// Returns 1 / sum of weights, 0 for a fully masked row.
  mlir::Value inverse(mlir::Value sum, mlir::Value maximum);

  bool foldsScale() const { return fast && !scalesBefore; }

private:
  MathExpansion &v;
  double scale;
  bool fast = false, scalesBefore = true;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_ATTENTIONMATH_H
