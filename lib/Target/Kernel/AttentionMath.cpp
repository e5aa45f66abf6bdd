//===- AttentionMath.cpp - softmax arithmetic of attention ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionMath.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

void AttentionMath::useFastPowers(bool scaled) {
  fast = true;
  scalesBefore = scaled;
}

Value AttentionMath::scaled(Value score) {
  return scalesBefore && scale != 1.0 ? v.mul(score, scale) : score;
}

Value AttentionMath::kept(Value keeps, Value score) {
  return v.select(keeps, score, v.constant(score.getType(), -kInfinity));
}

Value AttentionMath::masked(Value score, Value mask) {
  Type element = getElementTypeOrSelf(mask.getType());
  if (!isa<FloatType>(element))
    return kept(mask, score);
  Type type = getElementTypeOrSelf(score.getType());
  unsigned has = element.getIntOrFloatBitWidth(),
           wants = type.getIntOrFloatBitWidth();
  if (has < wants)
    mask = v.extendFloat(mask, type);
  else if (has > wants)
    mask = v.truncateFloat(mask, type);
  return v.add(score, mask);
}

Value AttentionMath::isCausal(const IndexMath &math, Value row, Value position,
                              int64_t length, int64_t positions) {
  return math.less(math.add(position, length), math.add(row, positions + 1));
}

Value AttentionMath::larger(Value x, Value y) { return v.maximum(x, y); }

Value AttentionMath::isEmpty(Value maximum) {
  return v.compare(arith::CmpFPredicate::OEQ, maximum, -kInfinity);
}

Value AttentionMath::shift(Value maximum) {
  // Subtracting -inf from -inf would give NaN instead of 0 weight.
  Value finite = v.select(isEmpty(maximum), 0.0, maximum);
  return foldsScale() ? v.mul(finite, scale * M_LOG2E) : finite;
}

Value AttentionMath::power(Value score, Value shift) {
  if (!fast)
    return v.expNonPositive(v.sub(score, shift));
  // With an added mask, scores may be so large that only differences are exact.
  Value exponent = foldsScale() ? v.fma(score, scale * M_LOG2E, v.neg(shift))
                                : v.mul(v.sub(score, shift), M_LOG2E);
  return v.call("exp2Fast", exponent);
}

Value AttentionMath::inverse(Value sum, Value maximum) {
  Value one = v.constant(sum.getType(), 1.0);
  return v.select(isEmpty(maximum), 0.0, v.div(one, sum));
}
