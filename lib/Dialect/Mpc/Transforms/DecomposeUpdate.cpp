//===- DecomposeUpdate.cpp - decompose optimizers and loss scales ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits elementwise ops per tensor, and float64 scalars for bookkeeping; CSE
// merges equal scalars of several updates. The arithmetic matches the op
// descriptions bit for bit.
//
//===----------------------------------------------------------------------===//

#include "Decompose.h"
#include "ScalarEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

namespace {

/// Inputs and outputs of an optimizer formula.
struct UpdateValues {
  /// Parameter, and gradient after unscaling and weight decay.
  Value parameter, gradient;
  /// Factors of the gradient if it is a plain product.
  Value scaledGradient, unscale;
  SmallVector<Value> states;
  /// Step index, and float64 scalars derived from it: the 1-based step number
  /// and the learning rate.
  Value step, t, rate;
};

//===----------------------------------------------------------------------===//
// Formulas: return the new parameter and update the states
//===----------------------------------------------------------------------===//

/// Emits fma(factor, value, sum): the product in float64, one rounding.
Value fusedSum(ScalarEmitter &emit, Value value, double factor, Value sum) {
  Type element = getElementTypeOrSelf(value), wide = emit.builder.getF64Type();
  Value product = emit.mul(emit.cast(emit.number(factor, value), wide),
                           emit.cast(value, wide));
  return emit.cast(emit.add(product, emit.cast(sum, wide)), element);
}

/// Emits fma(-rate, value, from): the product in float64, one rounding.
Value fusedDifference(ScalarEmitter &emit, Value from, Value rate,
                      Value value) {
  Type element = getElementTypeOrSelf(value), wide = emit.builder.getF64Type();
  Value product = emit.mul(emit.cast(rate, wide), emit.cast(value, wide));
  return emit.cast(emit.sub(emit.cast(from, wide), product), element);
}

/// Emits fma(value, factor, -from): the product in float64, one rounding.
Value fusedDistance(ScalarEmitter &emit, Value value, Value factor,
                    Value from) {
  Type element = getElementTypeOrSelf(from), wide = emit.builder.getF64Type();
  Value product = emit.mul(emit.cast(value, wide), emit.cast(factor, wide));
  return emit.cast(emit.sub(product, emit.cast(from, wide)), element);
}

/// Linear interpolation from `from` to `to` by the constant `share`. `distance`
/// is `to` - `from` if already computed.
Value move(ScalarEmitter &emit, Value from, Value to, double share, bool fused,
           Value distance = {}) {
  if (!distance)
    distance = emit.sub(to, from);
  bool nearStart = share < 0.5;
  if (fused)
    return nearStart ? fusedSum(emit, distance, share, from)
                     : fusedSum(emit, distance, share - 1, to);
  if (nearStart)
    return emit.add(from, emit.scale(distance, share));
  return emit.sub(to, emit.scale(distance, 1 - share));
}

/// `first * a + last * b`; `fuse` selects the product computed as an fma.
Value blend(ScalarEmitter &emit, StringRef fuse, Value a, double first, Value b,
            double last) {
  if (fuse == "first")
    return fusedSum(emit, a, first, emit.scale(b, last));
  if (fuse == "last")
    return fusedSum(emit, b, last, emit.scale(a, first));
  return emit.add(emit.scale(a, first), emit.scale(b, last));
}

/// Moving average of squares: `keep * average + (1 - keep) * g * g`.
Value averageSquare(ScalarEmitter &emit, Value average, Value g, double keep) {
  return emit.add(emit.scale(average, keep),
                  emit.mul(emit.scale(g, 1 - keep), g));
}

/// Adds `epsilon` outside the root (torch) or inside (keras).
Value rootWithEpsilon(ScalarEmitter &emit, Value square, APFloat epsilon,
                      bool keras) {
  Value small = emit.number(epsilon.convertToDouble(), square);
  return keras ? emit.sqrt(emit.add(square, small))
               : emit.add(emit.sqrt(square), small);
}

Value formula(ScalarEmitter &emit, OptimizerSgdOp op, UpdateValues &values) {
  Value w = values.parameter, g = values.gradient;
  Value rate = emit.cast(values.rate, getElementTypeOrSelf(w));
  if (op.getMomentum().isZero())
    return emit.sub(w, emit.mul(rate, g));
  double momentum = op.getMomentum().convertToDouble();
  StringRef fuse = op.getFuse().value_or("none");
  Value &buffer = values.states[0];
  if (op.getForm() == OptimizerForm::keras) {
    Value pull = emit.mul(rate, g);
    if (fuse == "first")
      buffer = fusedSum(emit, buffer, momentum, emit.neg(pull));
    else if (fuse == "last")
      buffer = fusedDifference(emit, emit.scale(buffer, momentum), rate, g);
    else
      buffer = emit.sub(emit.scale(buffer, momentum), pull);
    if (!op.getNesterov())
      return emit.add(w, buffer);
    return emit.add(w, emit.sub(emit.scale(buffer, momentum), pull));
  }
  double share = 1 - op.getDampening().convertToDouble();
  Value first = emit.compare(ComparePredicate::eq, values.step,
                             emit.integer(0, values.step));
  buffer = emit.select(first, g, blend(emit, fuse, buffer, momentum, g, share));
  Value direction =
      op.getNesterov() ? emit.add(g, emit.scale(buffer, momentum)) : buffer;
  return emit.sub(w, emit.mul(rate, direction));
}

Value formula(ScalarEmitter &emit, OptimizerAdamOp op, UpdateValues &values) {
  Value w = values.parameter, g = values.gradient;
  Type element = getElementTypeOrSelf(w);
  bool keras = op.getForm() == OptimizerForm::keras;
  double beta1 = op.getBeta1().convertToDouble();
  double beta2 = op.getBeta2().convertToDouble();
  auto correction = [&](double beta) {
    return emit.sub(emit.exact(1), emit.pow(emit.exact(beta), values.t));
  };
  Value correction1 = correction(beta1);
  Value root2 = emit.sqrt(correction(beta2));
  Value rate = emit.cast(
      emit.div(keras ? emit.mul(values.rate, root2) : values.rate, correction1),
      element);

  Value &m = values.states[0], &v = values.states[1];
  StringRef fuse = op.getFuse().value_or(keras ? "none" : "first");
  Value distance;
  if (keras && fuse == "first" && values.unscale)
    distance = fusedDistance(emit, values.scaledGradient, values.unscale, m);
  m = fuse == "last" ? blend(emit, fuse, m, beta1, g, 1 - beta1)
                     : move(emit, m, g, 1 - beta1, fuse == "first", distance);
  v = keras ? move(emit, v, emit.mul(g, g), 1 - beta2, /*fused=*/false)
            : averageSquare(emit, v, g, beta2);
  Value square = v;
  if (op.getAmsgrad())
    square = values.states[2] = emit.max(values.states[2], v);
  Value root = emit.sqrt(square);
  if (!keras)
    root = emit.div(root, emit.cast(root2, element));
  root = emit.add(root, emit.number(op.getEpsilon().convertToDouble(), root));
  return emit.sub(w, emit.div(emit.mul(rate, m), root));
}

Value formula(ScalarEmitter &emit, OptimizerRmspropOp op,
              UpdateValues &values) {
  Value w = values.parameter, g = values.gradient;
  bool keras = op.getForm() == OptimizerForm::keras;
  double alpha = op.getAlpha().convertToDouble();
  Value rate = emit.cast(values.rate, getElementTypeOrSelf(w));
  Value &v = values.states[0];
  v = averageSquare(emit, v, g, alpha);
  Value square = v;
  if (op.getCentered()) {
    Value &mean = values.states[1];
    mean = move(emit, mean, g, 1 - alpha, /*fused=*/!keras);
    square = emit.sub(v, emit.mul(mean, mean));
  }
  Value root = rootWithEpsilon(emit, square, op.getEpsilon(), keras);
  if (op.getMomentum().isZero())
    return emit.sub(w, emit.div(emit.mul(rate, g), root));
  Value &buffer = values.states.back();
  Value push = emit.div(keras ? emit.mul(rate, g) : g, root);
  buffer =
      emit.add(emit.scale(buffer, op.getMomentum().convertToDouble()), push);
  return emit.sub(w, keras ? buffer : emit.mul(rate, buffer));
}

Value formula(ScalarEmitter &emit, OptimizerAdagradOp op,
              UpdateValues &values) {
  Value w = values.parameter, g = values.gradient;
  double decay = op.getLearningRateDecay().convertToDouble();
  Value rate = values.rate;
  if (decay != 0)
    rate = emit.div(rate, emit.add(emit.exact(1),
                                   emit.mul(emit.sub(values.t, emit.exact(1)),
                                            emit.exact(decay))));
  rate = emit.cast(rate, getElementTypeOrSelf(w));
  Value &sum = values.states[0];
  sum = emit.add(sum, emit.mul(g, g));
  Value root = rootWithEpsilon(emit, sum, op.getEpsilon(),
                               op.getForm() == OptimizerForm::keras);
  return emit.sub(w, emit.div(emit.mul(rate, g), root));
}

//===----------------------------------------------------------------------===//
// Op decompositions
//===----------------------------------------------------------------------===//

template <typename OpTy>
SmallVector<Value> decomposeOptimizer(ScalarEmitter &emit, OpTy op) {
  Type element = getElementTypeOrSelf(op.getParameter()),
       wide = emit.builder.getF64Type();
  UpdateValues values;
  values.parameter = op.getParameter();
  values.gradient = emit.cast(op.getGradient(), element);
  values.states = llvm::to_vector(op.getStates());
  values.step = op.getStep();
  values.t =
      emit.cast(emit.add(values.step, emit.integer(1, values.step)), wide);
  values.rate = emit.cast(op.getLearningRate(), wide);

  double decay = op.getWeightDecay().convertToDouble();
  if (Value unscale = op.getUnscale()) {
    unscale = emit.cast(unscale, element);
    bool divides = op.getUnscaleMode() == UnscaleMode::divide;
    if (!divides && !op.getMaximize() && (decay == 0 || op.getDecoupled())) {
      values.scaledGradient = values.gradient;
      values.unscale = unscale;
    }
    values.gradient = divides ? emit.div(values.gradient, unscale)
                              : emit.mul(values.gradient, unscale);
  }
  if (op.getMaximize())
    values.gradient = emit.neg(values.gradient);
  if (decay != 0 && !op.getDecoupled())
    values.gradient =
        emit.add(values.gradient, emit.scale(values.parameter, decay));
  if (decay != 0 && op.getDecoupled()) {
    Value shrink =
        emit.sub(emit.exact(1), emit.mul(values.rate, emit.exact(decay)));
    values.parameter = emit.mul(values.parameter, emit.cast(shrink, element));
  }

  SmallVector<Value> results = {formula(emit, op, values)};
  llvm::append_range(results, values.states);
  if (Value when = op.getWhen()) {
    results[0] = emit.select(when, results[0], op.getParameter());
    for (auto [result, state] :
         llvm::zip_equal(MutableArrayRef(results).drop_front(), op.getStates()))
      result = emit.select(when, result, state);
  }
  if (Value copy = op.getCopy())
    results.push_back(emit.cast(results[0], getElementTypeOrSelf(copy)));
  return results;
}

//===----------------------------------------------------------------------===//
// Learning rate and loss scale
//===----------------------------------------------------------------------===//

SmallVector<Value> decomposeRate(ScalarEmitter &emit, LearningRateOp op) {
  Value step = op.getStep();
  Type wide = emit.builder.getF64Type();
  double base = op.getBase().convertToDouble();
  double final = op.getFinal().convertToDouble();
  int64_t warmup = op.getWarmup(), length = op.getSteps() - warmup;
  Value since = warmup ? emit.sub(step, emit.integer(warmup, step)) : step;
  auto progress = [&] {
    Value done = emit.min(since, emit.integer(length, step));
    return emit.div(emit.cast(done, wide),
                    emit.exact(static_cast<double>(length)));
  };
  Value rate = emit.exact(base);
  switch (op.getKind()) {
  case ScheduleKind::constant:
    break;
  case ScheduleKind::step: {
    Value periods = emit.div(since, emit.integer(op.getPeriod(), step));
    rate = emit.mul(rate, emit.pow(emit.exact(op.getGamma().convertToDouble()),
                                   emit.cast(periods, wide)));
    break;
  }
  case ScheduleKind::cosine: {
    Value wave = emit.unary<CosOp>(emit.mul(emit.exact(M_PI), progress()));
    Value part =
        emit.mul(emit.exact(base - final), emit.add(emit.exact(1), wave));
    rate = emit.add(emit.exact(final), emit.div(part, emit.exact(2)));
    break;
  }
  case ScheduleKind::linear:
    rate = emit.add(rate, emit.mul(emit.exact(final - base), progress()));
    break;
  }
  if (warmup) {
    Value next = emit.cast(emit.add(step, emit.integer(1, step)), wide);
    Value rising = emit.div(emit.mul(emit.exact(base), next),
                            emit.exact(static_cast<double>(warmup)));
    rate = emit.select(
        emit.compare(ComparePredicate::lt, step, emit.integer(warmup, step)),
        rising, rate);
  }
  return {emit.cast(rate, getElementTypeOrSelf(op.getResult()))};
}

SmallVector<Value> decomposeLossScale(ScalarEmitter &emit,
                                      LossScaleUpdateOp op) {
  Value scale = op.getScale(), good = op.getGoodSteps();
  Value left = op.getHysteresisLeft();
  Type narrow = getElementTypeOrSelf(scale), wide = emit.builder.getF64Type();
  Value exactScale = emit.cast(scale, wide);

  // After a step with non-finite gradients.
  Value lowered =
      emit.mul(exactScale, emit.exact(op.getBackoff().convertToDouble()));
  if (op.getMin())
    lowered = emit.max(lowered, emit.exact(op.getMin()->convertToDouble()));
  lowered = emit.cast(lowered, narrow);
  Value leftAfterBad = left;
  if (left) {
    Value one = emit.integer(1, left);
    Value spare = emit.compare(ComparePredicate::gt, left, one);
    lowered = emit.select(spare, scale, lowered);
    leftAfterBad = emit.select(spare, emit.sub(left, one), left);
  }

  // After a finite step.
  Value zero = emit.integer(0, good);
  Value counted = emit.add(good, emit.integer(1, good));
  Value grows = emit.compare(ComparePredicate::ge, counted,
                             emit.integer(op.getInterval(), good));
  Value grown =
      emit.mul(exactScale, emit.exact(op.getGrowth().convertToDouble()));
  if (op.getMax())
    grown = emit.min(grown, emit.exact(op.getMax()->convertToDouble()));
  grown = emit.cast(grown, narrow);
  if (op.getKeepFinite()) {
    Value infinity =
        emit.number(std::numeric_limits<double>::infinity(), grown);
    grown = emit.select(
        emit.compare(ComparePredicate::lt, emit.abs(grown), infinity), grown,
        scale);
  }

  Value finite = op.getFinite();
  SmallVector<Value> results = {
      emit.select(finite, emit.select(grows, grown, scale), lowered),
      emit.select(finite, emit.select(grows, zero, counted), zero)};
  if (left) {
    Value full = emit.integer(op.getHysteresis(), left);
    Value leftAfterGood =
        op.getRefillHysteresis() ? full : emit.select(grows, full, left);
    results.push_back(emit.select(finite, leftAfterGood, leftAfterBad));
  }
  return results;
}

} // namespace

SmallVector<Value> mpc::decomposeUpdate(OpBuilder &builder, Operation *op) {
  ScalarEmitter emit(builder, op);
  return TypeSwitch<Operation *, SmallVector<Value>>(op)
      .Case<OptimizerSgdOp, OptimizerAdamOp, OptimizerRmspropOp,
            OptimizerAdagradOp>(
          [&](auto optimizer) { return decomposeOptimizer(emit, optimizer); })
      .Case([&](LearningRateOp rate) { return decomposeRate(emit, rate); })
      .Case([&](LossScaleUpdateOp update) {
        return decomposeLossScale(emit, update);
      })
      .Default([](Operation *) { return SmallVector<Value>(); });
}
