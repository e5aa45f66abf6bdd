//===- TrainingLoss.cpp - losses ------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In storage-rounding mode values are rounded to the predictions' type.
//
//===----------------------------------------------------------------------===//

#include "Evaluation.h"
#include "RoundingKernels.h"

#include "mpc/Dialect/Mpc/IR/MpcLossOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

//===----------------------------------------------------------------------===//
// Softmax cross entropy
//===----------------------------------------------------------------------===//

/// Log probabilities of one row.
template <typename Round>
static void logSoftmax(ArrayRef<double> input, MutableArrayRef<double> result,
                       Round round) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (double x : input)
    largest = maximum(largest, x);
  for (auto [x, shifted] : llvm::zip_equal(input, result)) {
    shifted = round(x - largest);
    sum = round(sum + round(std::exp(shifted)));
  }
  double logOfSum = round(std::log(sum));
  for (double &x : result)
    x = round(x - logOfSum);
}

/// Mean over rows of -sum of p * log_softmax.
template <typename Round>
static double softmaxCrossEntropy(SoftmaxCrossEntropyOp op,
                                  const Tensor &predictions,
                                  const Tensor &targets, Round round) {
  int64_t classes = predictions.getShape().back();
  int64_t rows = productOf(predictions.getShape().drop_back());
  double smoothing = op.getLabelSmoothing().convertToDouble();
  double keep = round(1 - smoothing);
  double share = round(smoothing / static_cast<double>(classes));
  std::vector<double> logs(classes);
  double total = 0;
  int64_t counted = 0;
  for (int64_t row = 0; row < rows; ++row) {
    logSoftmax(predictions.floats().slice(row * classes, classes), logs, round);
    double sum = 0;
    if (targets.isFloat()) {
      for (int64_t c = 0; c < classes; ++c) {
        double p = targets.floats()[row * classes + c];
        if (smoothing != 0)
          p = round(round(keep * p) + share);
        sum = round(sum + round(p * logs[c]));
      }
    } else {
      int64_t target = targets.ints()[row];
      if (op.getIgnoreIndex() &&
          target == static_cast<int64_t>(*op.getIgnoreIndex()))
        continue;
      if (target >= 0 && target < classes)
        sum = logs[target];
      if (smoothing != 0) {
        double all = 0;
        for (double log : logs)
          all = round(all + log);
        sum = round(round(keep * sum) + round(share * all));
      }
    }
    total = round(total + sum);
    ++counted;
  }
  return -round(total / static_cast<double>(counted));
}

//===----------------------------------------------------------------------===//
// Means over elements
//===----------------------------------------------------------------------===//

/// Mean of `term(prediction, target)`.
template <typename Round, typename Term>
static double meanOf(const Tensor &predictions, const Tensor &targets,
                     Round round, Term term) {
  double sum = 0;
  for (auto [x, z] : llvm::zip_equal(predictions.floats(), targets.floats()))
    sum = round(sum + term(x, z));
  return round(sum / static_cast<double>(predictions.size()));
}

/// Returns the loss of `op`, or nullopt if it is no loss.
template <typename Round>
static std::optional<double> lossOf(Operation *op, const Tensor &predictions,
                                    const Tensor &targets, Round round) {
  auto mean = [&](auto term) {
    return meanOf(predictions, targets, round, term);
  };
  if (auto entropy = dyn_cast<SoftmaxCrossEntropyOp>(op))
    return softmaxCrossEntropy(entropy, predictions, targets, round);
  if (isa<SigmoidCrossEntropyOp>(op))
    return mean([&](double x, double z) {
      double linear = round(maximum(x, 0.0) - round(x * z));
      return round(linear + round(std::log1p(round(std::exp(-std::fabs(x))))));
    });
  if (isa<MeanSquaredErrorOp>(op))
    return mean([&](double x, double z) {
      double d = round(x - z);
      return round(d * d);
    });
  if (isa<MeanAbsoluteErrorOp>(op))
    return mean([&](double x, double z) { return std::fabs(round(x - z)); });
  if (auto huber = dyn_cast<HuberOp>(op)) {
    double exact = huber.getDelta().convertToDouble();
    double delta = round(exact), half = round(exact / 2);
    return mean([&, delta, half](double x, double z) {
      double d = std::fabs(round(x - z));
      return d <= delta ? round(round(d * d) * 0.5)
                        : round(delta * round(d - half));
    });
  }
  return std::nullopt;
}

FailureOr<bool> mpc::reference::evaluateLoss(Evaluation &evaluation) {
  Operation *op = evaluation.op;
  if (!op->hasTrait<Loss>())
    return false;
  const Tensor &predictions = evaluation.operand(0),
               &targets = evaluation.operand(1);
  evaluation.addResult().floats()[0] = *withRounding(
      evaluation.rounding, predictions.getElementType(),
      [&](auto round) { return lossOf(op, predictions, targets, round); });
  return true;
}
