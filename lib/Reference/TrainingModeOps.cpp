//===- TrainingModeOps.cpp - training ops and random numbers --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluation.h"
#include "RoundingKernels.h"
#include "StridedLoop.h"

#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"

#include <array>

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

/// Compute type: f32 for 16-bit values.
static Type computeType(Type element) {
  return element.getIntOrFloatBitWidth() < 32
             ? Float32Type::get(element.getContext())
             : element;
}

//===----------------------------------------------------------------------===//
// Random numbers
//===----------------------------------------------------------------------===//

/// Philox4x32-10 (Salmon et al., SC 2011): the block for `counter` and `key`.
static std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                      std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t first = uint64_t(0xD2511F53) * counter[0];
    uint64_t second = uint64_t(0xCD9E8D57) * counter[2];
    counter = {static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(second),
               static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// Random bits of element `index` of a tensor for `state` and `stream`.
static uint32_t randomBits(ArrayRef<int64_t> state, int64_t stream,
                           int64_t index) {
  auto low = [](int64_t value) { return static_cast<uint32_t>(value); };
  auto high = [](int64_t value) {
    return static_cast<uint32_t>(static_cast<uint64_t>(value) >> 32);
  };
  int64_t block = index / 4;
  return philox(
      {low(block), high(block), low(stream), low(state[1])},
      {low(state[0]), high(state[0])})[static_cast<size_t>(index % 4)];
}

static void evaluateRandomBits(RandomBitsOp op, Evaluation &evaluation) {
  ArrayRef<int64_t> state = evaluation.operand(0).ints();
  MutableArrayRef<int64_t> result = evaluation.addResult().ints();
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<int32_t>(
        randomBits(state, op.getStream(), static_cast<int64_t>(i)));
}

static void evaluateDropout(DropoutOp op, Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0);
  ArrayRef<int64_t> state = evaluation.operand(1).ints();
  double probability = op.getProbability().convertToDouble();
  double limit = std::min(std::nearbyint(std::ldexp(probability, 32)),
                          std::ldexp(1.0, 32) - 1);
  MutableArrayRef<double> result = evaluation.addResult().floats();
  withRounding(evaluation.rounding, computeType(input.getElementType()),
               [&](auto round) {
                 double factor = round(1 / (1 - probability));
                 for (int64_t i = 0; i < input.size(); ++i)
                   result[i] = randomBits(state, op.getStream(), i) >= limit
                                   ? round(input.floats()[i] * factor)
                                   : 0;
               });
}

//===----------------------------------------------------------------------===//
// Batch norm
//===----------------------------------------------------------------------===//

static void evaluateBatchNormTraining(BatchNormTrainingOp op,
                                      Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0);
  ArrayRef<double> x = input.floats(), scale = evaluation.operand(1).floats(),
                   bias = evaluation.operand(2).floats();
  for (int i = 0; i < 3; ++i)
    evaluation.addResult();
  MutableArrayRef<double> result = evaluation.results[0].floats();
  int64_t channels = input.getShape()[1];
  int64_t pixels = productOf(input.getShape().drop_front(2));
  auto channelOf = [&](int64_t i) { return i / pixels % channels; };
  auto count = static_cast<double>(input.getShape()[0] * pixels);
  std::vector<double> mean(channels), variance(channels);

  withRounding(evaluation.rounding, computeType(input.getElementType()),
               [&](auto round) {
                 for (int64_t i = 0; i < input.size(); ++i)
                   mean[channelOf(i)] = round(mean[channelOf(i)] + x[i]);
                 for (double &sum : mean)
                   sum = round(sum / count);
                 for (int64_t i = 0; i < input.size(); ++i) {
                   double &sum = variance[channelOf(i)];
                   result[i] = round(x[i] - mean[channelOf(i)]);
                   sum = round(sum + round(result[i] * result[i]));
                 }
                 double epsilon = round(op.getEpsilon().convertToDouble());
                 std::vector<double> factor(channels);
                 for (int64_t c = 0; c < channels; ++c) {
                   variance[c] = round(variance[c] / count);
                   double root = round(std::sqrt(round(variance[c] + epsilon)));
                   factor[c] = round(scale[c] / root);
                 }
                 for (int64_t i = 0; i < input.size(); ++i)
                   result[i] = round(round(result[i] * factor[channelOf(i)]) +
                                     bias[channelOf(i)]);
               });

  // Updates the running statistics.
  withRounding(evaluation.rounding, evaluation.operand(3).getElementType(),
               [&](auto round) {
                 double momentum = op.getMomentum().convertToDouble();
                 double keep = round(1 - momentum), share = round(momentum);
                 double unbiased = round(count / std::max(count - 1, 1.0));
                 for (int64_t c = 0; c < channels; ++c) {
                   auto blend = [&](unsigned operand, double batch) {
                     double old = evaluation.operand(operand).floats()[c];
                     return round(round(keep * old) +
                                  round(share * round(batch)));
                   };
                   evaluation.results[1].floats()[c] = blend(3, mean[c]);
                   evaluation.results[2].floats()[c] =
                       blend(4, round(round(variance[c]) * unbiased));
                 }
               });
}

//===----------------------------------------------------------------------===//
// Gradients of norms
//===----------------------------------------------------------------------===//

static void evaluateNormGradient(NormGradientOp op, Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0), &scale = evaluation.operand(1);
  ArrayRef<double> dy = evaluation.operand(2).floats();
  for (int i = 0; i < 2; ++i)
    evaluation.addResult();
  MutableArrayRef<double> dx = evaluation.results[0].floats(),
                          dscale = evaluation.results[1].floats();
  ArrayRef<int64_t> rowShape = input.getShape().drop_front(op.getAxis());
  int64_t count = productOf(rowShape);
  auto size = static_cast<double>(count);
  // Offset of the scale for each element of a row.
  std::vector<int64_t> scaleAt(count);
  StridedLoop<1> loop(rowShape, {broadcastStrides(scale.getShape(), rowShape)});
  loop.run([&](int64_t position, const std::array<int64_t, 1> &at) {
    scaleAt[position] = at[0];
  });
  bool isCentred = !op.getRootMeanSquare();

  withRounding(
      evaluation.rounding, computeType(input.getElementType()),
      [&](auto round) {
        double epsilon = round(op.getEpsilon().convertToDouble());
        std::vector<double> normal(count), scaled(count);
        auto meanOf = [&](auto value) {
          double sum = 0;
          for (int64_t i = 0; i < count; ++i)
            sum = round(sum + value(i));
          return round(sum / size);
        };
        for (int64_t base = 0; base < input.size(); base += count) {
          auto x = [&](int64_t i) { return input.floats()[base + i]; };
          double mean = isCentred ? meanOf(x) : 0;
          for (int64_t i = 0; i < count; ++i)
            normal[i] = round(x(i) - mean);
          double square =
              meanOf([&](int64_t i) { return round(normal[i] * normal[i]); });
          double factor = round(1 / std::sqrt(round(square + epsilon)));
          for (int64_t i = 0; i < count; ++i) {
            normal[i] = round(normal[i] * factor);
            double &sum = dscale[scaleAt[i]];
            sum = round(sum + round(dy[base + i] * normal[i]));
            scaled[i] = round(dy[base + i] * scale.floats()[scaleAt[i]]);
          }
          double along =
              meanOf([&](int64_t i) { return round(scaled[i] * normal[i]); });
          double shift =
              isCentred ? meanOf([&](int64_t i) { return scaled[i]; }) : 0;
          for (int64_t i = 0; i < count; ++i)
            dx[base + i] = round(
                round(round(scaled[i] - shift) - round(normal[i] * along)) *
                factor);
        }
      });
}

static void evaluateBatchNormGradient(BatchNormGradientOp op,
                                      Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0);
  ArrayRef<double> x = input.floats(), scale = evaluation.operand(1).floats(),
                   dy = evaluation.operand(2).floats();
  for (int i = 0; i < 3; ++i)
    evaluation.addResult();
  MutableArrayRef<double> dx = evaluation.results[0].floats(),
                          dscale = evaluation.results[1].floats(),
                          dbias = evaluation.results[2].floats();
  int64_t channels = input.getShape()[1];
  int64_t pixels = productOf(input.getShape().drop_front(2));
  auto channelOf = [&](int64_t i) { return i / pixels % channels; };
  auto count = static_cast<double>(input.getShape()[0] * pixels);
  std::vector<double> mean(channels), factor(channels);

  withRounding(
      evaluation.rounding, computeType(input.getElementType()),
      [&](auto round) {
        for (int64_t i = 0; i < input.size(); ++i)
          mean[channelOf(i)] = round(mean[channelOf(i)] + x[i]);
        for (double &sum : mean)
          sum = round(sum / count);
        for (int64_t i = 0; i < input.size(); ++i) {
          double &sum = factor[channelOf(i)];
          double centred = round(x[i] - mean[channelOf(i)]);
          sum = round(sum + round(centred * centred));
        }
        double epsilon = round(op.getEpsilon().convertToDouble());
        for (double &sum : factor)
          sum =
              round(1 / round(std::sqrt(round(round(sum / count) + epsilon))));
        auto normal = [&](int64_t i) {
          int64_t c = channelOf(i);
          return round(round(x[i] - mean[c]) * factor[c]);
        };
        for (int64_t i = 0; i < input.size(); ++i) {
          int64_t c = channelOf(i);
          dbias[c] = round(dbias[c] + dy[i]);
          dscale[c] = round(dscale[c] + round(dy[i] * normal(i)));
        }
        double share = round(1 / count);
        for (int64_t i = 0; i < input.size(); ++i) {
          int64_t c = channelOf(i);
          double rest = round(round(dy[i] - round(dbias[c] * share)) -
                              round(normal(i) * round(dscale[c] * share)));
          dx[i] = round(rest * round(scale[c] * factor[c]));
        }
      });
}

FailureOr<bool> mpc::reference::evaluateTrainingForm(Evaluation &evaluation) {
  Operation *op = evaluation.op;
  if (isa<StopGradientOp>(op))
    evaluation.results.push_back(evaluation.operand(0));
  else if (isa<GradientSeedOp>(op))
    llvm::fill(evaluation.addResult().floats(), 1.0);
  else if (auto bits = dyn_cast<RandomBitsOp>(op))
    evaluateRandomBits(bits, evaluation);
  else if (auto dropout = dyn_cast<DropoutOp>(op))
    evaluateDropout(dropout, evaluation);
  else if (auto norm = dyn_cast<BatchNormTrainingOp>(op))
    evaluateBatchNormTraining(norm, evaluation);
  else if (auto gradient = dyn_cast<NormGradientOp>(op))
    evaluateNormGradient(gradient, evaluation);
  else if (auto batch = dyn_cast<BatchNormGradientOp>(op))
    evaluateBatchNormGradient(batch, evaluation);
  else
    return false;
  evaluation.roundResults();
  return true;
}
