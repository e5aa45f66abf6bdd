//===- Normalization.cpp - softmax and norms ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In storage-rounding mode intermediate values are rounded to the accumulate
// type.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"

#include "AxisSlices.h"
#include "Evaluation.h"
#include "RoundingKernels.h"
#include "StridedLoop.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

template <typename OpTy>
static void evaluateSoftmax(OpTy op, Evaluation &evaluation, bool logarithm) {
  ArrayRef<double> input = evaluation.operand(0).floats();
  Tensor &resultTensor = evaluation.addResult();
  MutableArrayRef<double> result = resultTensor.floats();
  AxisSlices lines(resultTensor.getShape(), op.getAxis());
  withRounding(evaluation.rounding, op.getAccumulateType(), [&](auto round) {
    lines.run([&](int64_t, int64_t base) {
      double largest = -std::numeric_limits<double>::infinity();
      int64_t end = base + lines.extent * lines.stride;
      for (int64_t at = base; at < end; at += lines.stride)
        largest = maximum(largest, input[at]);
      double sum = 0;
      for (int64_t at = base; at < end; at += lines.stride) {
        double shifted = round(input[at] - largest);
        double power = round(std::exp(shifted));
        result[at] = logarithm ? shifted : power;
        sum = round(sum + power);
      }
      double logOfSum = round(std::log(sum));
      for (int64_t at = base; at < end; at += lines.stride)
        result[at] =
            logarithm ? round(result[at] - logOfSum) : round(result[at] / sum);
    });
  });
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// Normalizes `count` contiguous elements: subtracts the mean (unless
/// `rootMeanSquare`) and divides by the root of their mean square plus epsilon.
template <typename Round>
static void normalizeRow(const double *input, double *result, int64_t count,
                         double epsilon, bool rootMeanSquare, Round round) {
  auto size = static_cast<double>(count);
  double mean = 0;
  if (!rootMeanSquare) {
    for (int64_t i = 0; i < count; ++i)
      mean = round(mean + input[i]);
    mean = round(mean / size);
  }
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) {
    result[i] = round(input[i] - mean);
    squares = round(squares + round(result[i] * result[i]));
  }
  double variance = round(squares / size);
  double inverse =
      round(1 / round(std::sqrt(round(variance + round(epsilon)))));
  for (int64_t i = 0; i < count; ++i)
    result[i] = round(result[i] * inverse);
}

/// Returns the elements of `tensor` broadcast to `shape`.
static std::vector<double> broadcastElements(const Tensor &tensor,
                                             ArrayRef<int64_t> shape) {
  std::vector<double> elements(productOf(shape));
  StridedLoop<1> loop(shape, {broadcastStrides(tensor.getShape(), shape)});
  loop.run([&](int64_t position, const std::array<int64_t, 1> &at) {
    elements[position] = tensor.floats()[at[0]];
  });
  return elements;
}

/// layer_norm and rms_norm: rows are the trailing axes from `axis` on.
template <typename OpTy>
static void evaluateTrailingNorm(OpTy op, Evaluation &evaluation,
                                 const Tensor *bias, bool rootMeanSquare) {
  const Tensor &input = evaluation.operand(0);
  MutableArrayRef<double> result = evaluation.addResult().floats();
  ArrayRef<int64_t> rowShape = input.getShape().drop_front(op.getAxis());
  int64_t count = productOf(rowShape);
  std::vector<double> scales =
      broadcastElements(evaluation.operand(1), rowShape);
  std::vector<double> biases;
  if (bias)
    biases = broadcastElements(*bias, rowShape);
  double epsilon = op.getEpsilon().convertToDouble();
  withRounding(evaluation.rounding, op.getAccumulateType(), [&](auto round) {
    for (int64_t base = 0; base < input.size(); base += count) {
      double *row = result.data() + base;
      normalizeRow(input.floats().data() + base, row, count, epsilon,
                   rootMeanSquare, round);
      for (int64_t i = 0; i < count; ++i) {
        row[i] = round(row[i] * scales[i]);
        if (bias)
          row[i] = round(row[i] + biases[i]);
      }
    }
  });
}

/// group_norm and instance_norm: rows are groups of channels of one sample.
template <typename OpTy>
static void evaluateGroupedNorm(OpTy op, Evaluation &evaluation,
                                int64_t groups) {
  const Tensor &input = evaluation.operand(0);
  ArrayRef<double> scale = evaluation.operand(1).floats(),
                   bias = evaluation.operand(2).floats();
  MutableArrayRef<double> result = evaluation.addResult().floats();
  int64_t channels = input.getShape()[1];
  int64_t pixels = productOf(input.getShape().drop_front(2));
  int64_t count = channels / std::max<int64_t>(groups, 1) * pixels;
  double epsilon = op.getEpsilon().convertToDouble();
  withRounding(evaluation.rounding, op.getAccumulateType(), [&](auto round) {
    for (int64_t base = 0; base < input.size(); base += count)
      normalizeRow(input.floats().data() + base, result.data() + base, count,
                   epsilon,
                   /*rootMeanSquare=*/false, round);
    for (int64_t i = 0; i < input.size(); ++i) {
      int64_t channel = i / pixels % channels;
      result[i] = round(round(result[i] * scale[channel]) + bias[channel]);
    }
  });
}

static void evaluateBatchNorm(BatchNormOp op, Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0);
  ArrayRef<double> scale = evaluation.operand(1).floats(),
                   bias = evaluation.operand(2).floats();
  ArrayRef<double> mean = evaluation.operand(3).floats(),
                   variance = evaluation.operand(4).floats();
  MutableArrayRef<double> result = evaluation.addResult().floats();
  int64_t channels = input.getShape()[1];
  int64_t pixels = productOf(input.getShape().drop_front(2));
  double epsilon = op.getEpsilon().convertToDouble();
  withRounding(evaluation.rounding, input.getElementType(), [&](auto round) {
    for (int64_t i = 0; i < input.size(); ++i) {
      int64_t channel = i / pixels % channels;
      double inverse = round(
          1 / round(std::sqrt(round(variance[channel] + round(epsilon)))));
      double centred = round(input.floats()[i] - mean[channel]);
      result[i] = round(round(round(centred * inverse) * scale[channel]) +
                        bias[channel]);
    }
  });
}

FailureOr<bool> mpc::reference::evaluateNormalization(Evaluation &evaluation) {
  Operation *op = evaluation.op;
  if (auto softmax = dyn_cast<SoftmaxOp>(op))
    evaluateSoftmax(softmax, evaluation, /*logarithm=*/false);
  else if (auto logSoftmax = dyn_cast<LogSoftmaxOp>(op))
    evaluateSoftmax(logSoftmax, evaluation, /*logarithm=*/true);
  else if (auto layerNorm = dyn_cast<LayerNormOp>(op))
    evaluateTrailingNorm(layerNorm, evaluation,
                         evaluation.find(layerNorm.getBias()),
                         /*rootMeanSquare=*/false);
  else if (auto rmsNorm = dyn_cast<RmsNormOp>(op))
    evaluateTrailingNorm(rmsNorm, evaluation, /*bias=*/nullptr,
                         /*rootMeanSquare=*/true);
  else if (auto groupNorm = dyn_cast<GroupNormOp>(op))
    evaluateGroupedNorm(groupNorm, evaluation, groupNorm.getGroups());
  else if (auto instanceNorm = dyn_cast<InstanceNormOp>(op))
    evaluateGroupedNorm(instanceNorm, evaluation,
                        evaluation.operand(0).getShape()[1]);
  else if (auto batchNorm = dyn_cast<BatchNormOp>(op))
    evaluateBatchNorm(batchNorm, evaluation);
  else
    return false;
  evaluation.roundResults();
  return true;
}
