//===- TrainingState.cpp - learning rate, checks and loss scale -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluation.h"
#include "RoundingKernels.h"

#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

//===----------------------------------------------------------------------===//
// Learning rate
//===----------------------------------------------------------------------===//

static double learningRate(LearningRateOp op, int64_t step) {
  double base = op.getBase().convertToDouble();
  double final = op.getFinal().convertToDouble();
  int64_t warmup = op.getWarmup();
  if (step < warmup)
    return base * static_cast<double>(step + 1) / static_cast<double>(warmup);
  int64_t period = op.getPeriod(), length = op.getSteps() - warmup;
  int64_t since = step - warmup;
  auto progress = [&] {
    return static_cast<double>(std::min(since, length)) /
           static_cast<double>(length);
  };
  switch (op.getKind()) {
  case ScheduleKind::constant:
    return base;
  case ScheduleKind::step:
    return base * std::pow(op.getGamma().convertToDouble(),
                           static_cast<double>(since / period));
  case ScheduleKind::cosine:
    return final + (base - final) * (1 + std::cos(M_PI * progress())) / 2;
  case ScheduleKind::linear:
    return base + (final - base) * progress();
  }
  return base;
}

//===----------------------------------------------------------------------===//
// Checks over all gradients
//===----------------------------------------------------------------------===//

/// Returns the number of gradient tensors, the first operands.
static size_t gradientCount(Operation *op, Value unscale) {
  return op->getNumOperands() - (unscale ? 1 : 0);
}

/// Returns a function that unscales a gradient, f32 in storage-rounding mode.
template <typename OpTy>
static auto unscaling(OpTy op, Evaluation &evaluation) {
  const Tensor *unscale = evaluation.find(op.getUnscale());
  bool divides = op.getUnscaleMode() == UnscaleMode::divide;
  bool declared = roundsToTypes(evaluation.rounding);
  auto round = [declared](double value) {
    return declared ? RoundF32()(value) : value;
  };
  double scale = unscale ? round(unscale->floats()[0]) : 1;
  return [=](double gradient) {
    if (!unscale)
      return gradient;
    return round(divides ? gradient / scale : gradient * scale);
  };
}

static void evaluateAllFinite(AllFiniteOp op, Evaluation &evaluation) {
  auto unscaled = unscaling(op, evaluation);
  int64_t first = -1, count = 0;
  for (size_t i = 0; i < gradientCount(op, op.getUnscale()); ++i) {
    if (llvm::all_of(evaluation.operand(i).floats(), [&](double gradient) {
          return std::isfinite(unscaled(gradient));
        }))
      continue;
    if (count++ == 0)
      first = static_cast<int64_t>(i);
  }
  evaluation.addResult().ints()[0] = count == 0;
  MutableArrayRef<int64_t> record = evaluation.addResult().ints();
  record[0] = first;
  record[1] = count;
}

static void evaluateGlobalNorm(GlobalNormOp op, Evaluation &evaluation) {
  auto unscaled = unscaling(op, evaluation);
  Tensor &result = evaluation.addResult();
  withRounding(evaluation.rounding, result.getElementType(), [&](auto round) {
    double total = 0;
    for (size_t i = 0; i < gradientCount(op, op.getUnscale()); ++i) {
      double sum = 0;
      for (double gradient : evaluation.operand(i).floats()) {
        double value = round(unscaled(gradient));
        sum = round(std::fma(value, value, sum));
      }
      double norm = round(std::sqrt(sum));
      total =
          round(op.getOfNorms() ? std::fma(norm, norm, total) : total + sum);
    }
    result.floats()[0] = round(std::sqrt(total));
  });
}

//===----------------------------------------------------------------------===//
// Loss scale
//===----------------------------------------------------------------------===//

static void evaluateLossScaleUpdate(LossScaleUpdateOp op,
                                    Evaluation &evaluation) {
  double scale = evaluation.operand(0).floats()[0];
  int64_t goodSteps = evaluation.operand(1).ints()[0];
  const Tensor *left = evaluation.find(op.getHysteresisLeft());
  bool finite = evaluation.find(op.getFinite())->ints()[0] != 0;
  int64_t hysteresis = left ? left->ints()[0] : 1;
  auto round = [&](double value) {
    return roundsToTypes(evaluation.rounding) ? RoundF32()(value) : value;
  };

  if (!finite) {
    goodSteps = 0;
    if (hysteresis > 1) {
      --hysteresis;
    } else {
      scale *= op.getBackoff().convertToDouble();
      if (op.getMin())
        scale = maximum(scale, op.getMin()->convertToDouble());
      scale = round(scale);
    }
  } else {
    ++goodSteps;
    bool grows = goodSteps >= static_cast<int64_t>(op.getInterval());
    if (grows) {
      goodSteps = 0;
      double grown = scale * op.getGrowth().convertToDouble();
      if (op.getMax())
        grown = minimum(grown, op.getMax()->convertToDouble());
      grown = round(grown);
      if (!op.getKeepFinite() || std::isfinite(grown))
        scale = grown;
    }
    if (grows || op.getRefillHysteresis())
      hysteresis = op.getHysteresis();
  }

  evaluation.addResult().floats()[0] = scale;
  evaluation.addResult().ints()[0] = goodSteps;
  if (left)
    evaluation.addResult().ints()[0] = hysteresis;
}

FailureOr<bool> mpc::reference::evaluateTrainingState(Evaluation &evaluation) {
  Operation *op = evaluation.op;
  if (auto rate = dyn_cast<LearningRateOp>(op)) {
    int64_t step = evaluation.operand(0).ints()[0];
    evaluation.addResult().floats()[0] = learningRate(rate, step);
    evaluation.roundResults();
  } else if (auto finite = dyn_cast<AllFiniteOp>(op)) {
    evaluateAllFinite(finite, evaluation);
  } else if (auto norm = dyn_cast<GlobalNormOp>(op)) {
    evaluateGlobalNorm(norm, evaluation);
  } else if (auto update = dyn_cast<LossScaleUpdateOp>(op)) {
    evaluateLossScaleUpdate(update, evaluation);
  } else {
    return false;
  }
  return true;
}
