//===- TrainingUpdate.cpp - optimizers ------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Updates one element at a time by the formulas of the op descriptions.
// Bookkeeping scalars are computed in double and rounded once; in
// storage-rounding mode every step of an element's arithmetic is rounded to the
// parameter's type.
//
//===----------------------------------------------------------------------===//

#include "Evaluation.h"
#include "RoundingKernels.h"

#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"

#include "llvm/ADT/TypeSwitch.h"

#include <array>

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

namespace {

/// Scalars of a step: 1-based step number `t` and learning rate.
struct StepNumbers {
  double t;
  double rate;
};

/// States of one element, in the order of getStateNames().
using States = std::array<double *, 3>;

/// Gradient of one element, rounded and before rounding.
struct Gradient {
  double rounded, exact;

  operator double() const { return rounded; }
};

/// Linear interpolation from `from` to `to` by the constant `share`.
template <typename Round> struct Move {
  Move(double share, bool fused, Round round)
      : nearStart(share < 0.5), fused(fused),
        factor(round(nearStart ? share : 1 - share)), round(round) {}

  double operator()(double from, double to) const {
    return along(round(to - from), from, to);
  }
  /// `distance` is the difference of the two.
  double along(double distance, double from, double to) const {
    double way = distance * factor;
    if (!fused)
      way = round(way);
    return nearStart ? round(from + way) : round(to - way);
  }

  /// Whether to start from `from` instead of `to`, and whether the product is
  /// fused.
  bool nearStart, fused;
  double factor;
  Round round;
};

} // namespace

//===----------------------------------------------------------------------===//
// Formulas: (parameter, gradient, states) -> new parameter
//===----------------------------------------------------------------------===//

template <typename Round>
static auto formula(OptimizerSgdOp op, StepNumbers step, Round round) {
  bool keras = op.getForm() == OptimizerForm::keras;
  bool hasMomentum = !op.getMomentum().isZero(), nesterov = op.getNesterov();
  bool first = step.t == 1;
  StringRef fuse = op.getFuse().value_or("none");
  // A fused product is not rounded before the sum.
  bool fuseFirst = fuse == "first", fuseLast = fuse == "last";
  auto sum = [=](double a, double b) {
    return round((fuseFirst ? a : round(a)) + (fuseLast ? b : round(b)));
  };
  double rate = round(step.rate);
  double momentum = round(op.getMomentum().convertToDouble());
  double share = round(1 - op.getDampening().convertToDouble());
  return [=](double w, double g, States states) {
    if (!hasMomentum)
      return round(w - round(rate * g));
    double &buffer = *states[0];
    if (keras) {
      double pull = round(rate * g);
      buffer = sum(momentum * buffer, -rate * g);
      return nesterov ? round(w + round(round(momentum * buffer) - pull))
                      : round(w + buffer);
    }
    buffer = first ? g : sum(momentum * buffer, share * g);
    double direction = nesterov ? round(g + round(momentum * buffer)) : buffer;
    return round(w - round(rate * direction));
  };
}

template <typename Round>
static auto formula(OptimizerAdamOp op, StepNumbers step, Round round) {
  bool keras = op.getForm() == OptimizerForm::keras, amsgrad = op.getAmsgrad();
  double beta1 = op.getBeta1().convertToDouble();
  double beta2 = op.getBeta2().convertToDouble();
  double correction1 = 1 - std::pow(beta1, step.t);
  double root2 = std::sqrt(1 - std::pow(beta2, step.t));
  double rate =
      round(keras ? step.rate * root2 / correction1 : step.rate / correction1);
  double divisor = round(root2);
  StringRef fuse = op.getFuse().value_or(keras ? "none" : "first");
  bool blends = fuse == "last";
  double keep1 = round(beta1), share1 = round(1 - beta1);
  double keep2 = round(beta2), share2 = round(1 - beta2);
  double epsilon = round(op.getEpsilon().convertToDouble());
  Move<Round> move1(1 - beta1, fuse == "first", round);
  Move<Round> move2(1 - beta2, /*fused=*/false, round);
  bool fusesUnscale = keras && fuse == "first";
  return [=](double w, Gradient gradient, States states) {
    double &m = *states[0], &v = *states[1];
    double g = gradient;
    double distance = round((fusesUnscale ? gradient.exact : g) - m);
    m = blends ? round(round(keep1 * m) + share1 * g)
               : move1.along(distance, m, g);
    v = keras ? move2(v, round(g * g))
              : round(round(keep2 * v) + round(round(share2 * g) * g));
    double square = v;
    if (amsgrad)
      square = *states[2] = maximum(*states[2], v);
    double root = round(std::sqrt(square));
    if (!keras)
      root = round(root / divisor);
    return round(w - round(round(rate * m) / round(root + epsilon)));
  };
}

template <typename Round>
static auto formula(OptimizerRmspropOp op, StepNumbers step, Round round) {
  bool keras = op.getForm() == OptimizerForm::keras;
  bool centered = op.getCentered(), hasMomentum = !op.getMomentum().isZero();
  double alpha = op.getAlpha().convertToDouble();
  double rate = round(step.rate), keep = round(alpha), share = round(1 - alpha);
  double epsilon = round(op.getEpsilon().convertToDouble());
  double momentum = round(op.getMomentum().convertToDouble());
  Move<Round> move(1 - alpha, /*fused=*/!keras, round);
  return [=](double w, double g, States states) {
    double &v = *states[0];
    v = round(round(keep * v) + round(round(share * g) * g));
    double square = v;
    if (centered) {
      double &mean = *states[1];
      mean = move(mean, g);
      square = round(v - round(mean * mean));
    }
    double root = keras ? round(std::sqrt(round(square + epsilon)))
                        : round(round(std::sqrt(square)) + epsilon);
    if (!hasMomentum)
      return round(w - round(round(rate * g) / root));
    double &buffer = *states[centered ? 2 : 1];
    double push = keras ? round(rate * g) : g;
    buffer = round(round(momentum * buffer) + round(push / root));
    return round(w - (keras ? buffer : round(rate * buffer)));
  };
}

template <typename Round>
static auto formula(OptimizerAdagradOp op, StepNumbers step, Round round) {
  bool keras = op.getForm() == OptimizerForm::keras;
  double decay = op.getLearningRateDecay().convertToDouble();
  double rate = round(step.rate / (1 + (step.t - 1) * decay));
  double epsilon = round(op.getEpsilon().convertToDouble());
  return [=](double w, double g, States states) {
    double &sum = *states[0];
    sum = round(sum + round(g * g));
    double root = keras ? round(std::sqrt(round(sum + epsilon)))
                        : round(round(std::sqrt(sum)) + epsilon);
    return round(w - round(round(rate * g) / root));
  };
}

//===----------------------------------------------------------------------===//
// Evaluation of all elements
//===----------------------------------------------------------------------===//

/// Applies the formula to all elements of the results, which hold the operands.
template <typename OpTy, typename Round>
static void updateElements(OpTy op, Evaluation &evaluation, Round round) {
  const Tensor &gradient = evaluation.operand(1);
  double rate = evaluation.find(op.getLearningRate())->floats()[0];
  StepNumbers step{
      static_cast<double>(evaluation.find(op.getStep())->ints()[0]) + 1, rate};
  const Tensor *unscale = evaluation.find(op.getUnscale());
  double scale = unscale ? round(unscale->floats()[0]) : 1;
  bool divides = op.getUnscaleMode() == UnscaleMode::divide;
  double decay = op.getWeightDecay().convertToDouble();
  double coupled = op.getDecoupled() ? 0 : round(decay);
  double shrink = op.getDecoupled() ? round(1 - rate * decay) : 1;
  bool isProduct = unscale && !divides && !op.getMaximize() && coupled == 0;
  auto update = formula(op, step, round);
  size_t states = op.getStates().size();
  for (int64_t i = 0; i < gradient.size(); ++i) {
    double g = gradient.floats()[i];
    double product = g * scale;
    if (unscale)
      g = divides ? round(g / scale) : round(product);
    if (op.getMaximize())
      g = -g;
    double &w = evaluation.results[0].floats()[i];
    if (coupled != 0)
      g = round(g + round(coupled * w));
    if (shrink != 1)
      w = round(w * shrink);
    States element{};
    for (size_t s = 0; s < states; ++s)
      element[s] = &evaluation.results[1 + s].floats()[i];
    w = update(w, Gradient{g, isProduct ? product : g}, element);
  }
}

template <typename OpTy>
static void runOptimizer(OpTy op, Evaluation &evaluation) {
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    evaluation.addResult();
  llvm::copy(evaluation.operand(0).floats(),
             evaluation.results[0].floats().begin());
  for (size_t s = 0; s < op.getStates().size(); ++s)
    llvm::copy(evaluation.operand(2 + s).floats(),
               evaluation.results[1 + s].floats().begin());
  const Tensor *when = evaluation.find(op.getWhen());
  if (!when || when->ints()[0])
    withRounding(evaluation.rounding, evaluation.operand(0).getElementType(),
                 [&](auto round) { updateElements(op, evaluation, round); });
  if (op.getCopy())
    llvm::copy(evaluation.results[0].floats(),
               evaluation.results.back().floats().begin());
  evaluation.roundResults();
}

FailureOr<bool> mpc::reference::evaluateOptimizer(Evaluation &evaluation) {
  return TypeSwitch<Operation *, bool>(evaluation.op)
      .Case<OptimizerSgdOp, OptimizerAdamOp, OptimizerRmspropOp,
            OptimizerAdagradOp>([&](auto op) {
        runOptimizer(op, evaluation);
        return true;
      })
      .Default([](Operation *) { return false; });
}
