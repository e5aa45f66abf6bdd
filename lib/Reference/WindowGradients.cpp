//===- WindowGradients.cpp - gradients of conv and pooling ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluation.h"
#include "Image.h"
#include "ReferenceGemm.h"
#include "RoundingKernels.h"

#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

//===----------------------------------------------------------------------===//
// conv_filter_gradient
//===----------------------------------------------------------------------===//

/// GEMM of gradient channels and input windows per image and group; accumulates
/// over images in order.
static void evaluateFilterGradient(ConvFilterGradientOp op,
                                   Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0),
               &gradient = evaluation.operand(1);
  Tensor &result = evaluation.addResult();
  ImageLayout layout = op.getLayout();
  ImageShape in(input.getShape(), layout), out(gradient.getShape(), layout);
  ArrayRef<int64_t> windowShape = result.getShape().drop_front(2);
  SlidingWindow window(in.spatial, out.spatial, windowShape, op.getStrides(),
                       op.getPadLow(), op.getPadHigh(), op.getDilations());
  int64_t groups = op.getGroups();
  int64_t channels = in.channels / groups, outputs = out.channels / groups;
  int64_t columns = channels * window.size;
  GemmRounding rules{evaluation.rounding, op.getAccumulateType(),
                     op.getComputeMode()};

  // [positions][channels of a group][window]
  std::vector<double> windows(out.pixels * columns);
  std::vector<double> product(outputs * columns);
  for (int64_t image = 0; image < in.batch; ++image)
    for (int64_t group = 0; group < groups; ++group) {
      for (int64_t pixel = 0; pixel < out.pixels; ++pixel)
        window.visit(pixel, [&](int64_t position, int64_t at, bool) {
          for (int64_t channel = 0; channel < channels; ++channel)
            windows[pixel * columns + channel * window.size + position] =
                at < 0 ? 0
                       : input.floats()[in.offset(
                             image, group * channels + channel, at)];
        });
      Matrix slopes{gradient.floats().data() +
                        out.offset(image, group * outputs, 0),
                    out.last ? 1 : out.pixels, out.last ? out.channels : 1};
      referenceGemm(outputs, out.pixels, columns, slopes,
                    {windows.data(), columns, 1}, product.data(), rules);
      double *target = result.floats().data() + group * outputs * columns;
      withRounding(evaluation.rounding, rules.accumulate, [&](auto round) {
        for (size_t i = 0; i < product.size(); ++i)
          target[i] = round(target[i] + product[i]);
      });
    }
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

/// Accumulator type: f32 for 16-bit gradients.
static Type sumType(Type element) {
  return element.getIntOrFloatBitWidth() < 32
             ? Float32Type::get(element.getContext())
             : element;
}

/// Returns the offset that max_pool selects: the first of the largest elements,
/// or the first NaN.
static int64_t largestOffset(ArrayRef<double> input,
                             ArrayRef<int64_t> offsets) {
  int64_t best = offsets.front();
  for (int64_t offset : offsets.drop_front())
    if (!std::isnan(input[best]) &&
        (std::isnan(input[offset]) || input[offset] > input[best]))
      best = offset;
  return best;
}

static void evaluateMaxPoolGradient(MaxPoolGradientOp op,
                                    Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0),
               &gradient = evaluation.operand(1);
  MutableArrayRef<double> result = evaluation.addResult().floats();
  withRounding(
      evaluation.rounding, sumType(input.getElementType()), [&](auto round) {
        forEachWindow(op, input, gradient,
                      [&](int64_t at, ArrayRef<int64_t> offsets, int64_t) {
                        if (offsets.empty())
                          return;
                        double &sum =
                            result[largestOffset(input.floats(), offsets)];
                        sum = round(sum + gradient.floats()[at]);
                      });
      });
}

static void evaluateAvgPoolGradient(AvgPoolGradientOp op,
                                    Evaluation &evaluation) {
  const Tensor &gradient = evaluation.operand(0);
  Tensor &result = evaluation.addResult();
  bool includePad = op.getCountIncludePad();
  withRounding(
      evaluation.rounding, sumType(result.getElementType()), [&](auto round) {
        forEachWindow(
            op, result, gradient,
            [&](int64_t at, ArrayRef<int64_t> offsets, int64_t padded) {
              int64_t count =
                  includePad ? padded : static_cast<int64_t>(offsets.size());
              for (int64_t offset : offsets) {
                double &sum = result.floats()[offset];
                sum = round(sum + round(gradient.floats()[at] /
                                        static_cast<double>(count)));
              }
            });
      });
}

FailureOr<bool> mpc::reference::evaluateWindowGradient(Evaluation &evaluation) {
  if (auto conv = dyn_cast<ConvFilterGradientOp>(evaluation.op))
    evaluateFilterGradient(conv, evaluation);
  else if (auto maxPool = dyn_cast<MaxPoolGradientOp>(evaluation.op))
    evaluateMaxPoolGradient(maxPool, evaluation);
  else if (auto avgPool = dyn_cast<AvgPoolGradientOp>(evaluation.op))
    evaluateAvgPoolGradient(avgPool, evaluation);
  else
    return false;
  evaluation.roundResults();
  return true;
}
