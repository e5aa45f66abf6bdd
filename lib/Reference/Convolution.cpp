//===- Convolution.cpp - conv, conv_transpose, pooling --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// im2col: gathers the windows of a block of pixels into a matrix and multiplies
// it with the filter.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"

#include "Evaluation.h"
#include "Image.h"
#include "Packing.h"
#include "ReferenceGemm.h"
#include "RoundingKernels.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

/// Converts between NHWC [batch][pixels][channels] and NCHW
/// [batch][channels][pixels] images.
static void transposeImage(const double *source, int64_t batch, int64_t rows,
                           int64_t columns, double *target) {
  constexpr int64_t block = 16;
  for (int64_t n = 0; n < batch;
       ++n, source += rows * columns, target += rows * columns)
    for (int64_t r = 0; r < rows; r += block)
      for (int64_t c = 0; c < columns; c += block)
        for (int64_t i = r; i < std::min(r + block, rows); ++i)
          for (int64_t j = c; j < std::min(c + block, columns); ++j)
            target[j * rows + i] = source[i * columns + j];
}

//===----------------------------------------------------------------------===//
// conv
//===----------------------------------------------------------------------===//

/// Filter as [groups][window][channels per group][outputs per group].
static std::vector<double> filterMatrix(ConvOp op, const Tensor &filter,
                                        int64_t window, int64_t channels,
                                        int64_t outputs) {
  int64_t groups = op.getGroups(), depth = window * channels;
  std::vector<double> matrix(groups * depth * outputs);
  std::vector<double> storage;
  ArrayRef<double> elements = constantFloats(filter, storage);
  if (PackedAttr packed = op.getPackedAttr()) {
    int64_t panels = llvm::divideCeil(outputs, packed.getColumns());
    int64_t run = op.getContractionRun();
    int64_t groupSize =
        panels * packed.getSteps(depth, run) * packed.getStepElements();
    for (int64_t group = 0; group < groups; ++group)
      unpackPanels<double>(elements.slice(group * groupSize, groupSize), depth,
                           run, outputs, packed,
                           MutableArrayRef<double>(matrix).slice(
                               group * depth * outputs, depth * outputs));
    return matrix;
  }
  size_t next = 0;
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t output = 0; output < outputs; ++output)
      for (int64_t channel = 0; channel < channels; ++channel)
        for (int64_t position = 0; position < window; ++position)
          matrix[((group * window + position) * channels + channel) * outputs +
                 output] = elements[next++];
  return matrix;
}

static void evaluateConv(ConvOp op, Evaluation &evaluation) {
  const Tensor &inputTensor = evaluation.operand(0);
  Tensor &result = evaluation.addResult();
  ImageLayout layout = op.getLayout();
  bool channelsLast = layout == ImageLayout::channels_last;
  ImageShape in(inputTensor.getShape(), layout), out(result.getShape(), layout);
  int64_t groups = op.getGroups();
  int64_t channels = in.channels / groups, outputs = out.channels / groups;
  SmallVector<int64_t> windowShape = op.getWindowShape();
  SlidingWindow window(in.spatial, out.spatial, windowShape, op.getStrides(),
                       op.getPadLow(), op.getPadHigh(), op.getDilations());
  int64_t depth = window.size * channels;
  std::vector<double> filter =
      filterMatrix(op, evaluation.operand(1), window.size, channels, outputs);

  std::vector<double> transposed, storage;
  const double *input = constantFloats(inputTensor, storage).data();
  if (!channelsLast) {
    transposed.resize(inputTensor.size());
    transposeImage(input, in.batch, in.channels, in.pixels, transposed.data());
    input = transposed.data();
  }
  double padding = static_cast<int64_t>(op.getPadValue());
  // Sums of 8-bit integers are exact in float64.
  bool isFloat = inputTensor.isFloat();
  std::vector<double> sums(isFloat ? 0 : result.size());
  double *results = isFloat ? result.floats().data() : sums.data();
  std::vector<double> pixelMajor(channelsLast ? 0 : result.size());
  double *target = channelsLast ? results : pixelMajor.data();

  // Blocks of pixels whose gathered windows take about 8 MiB.
  int64_t perPixel = std::max<int64_t>(groups * depth, 1);
  int64_t block = std::clamp<int64_t>((int64_t(1) << 20) / perPixel, 16, 1024);
  std::vector<double> gathered(groups * block * depth);
  std::vector<double> product(block * outputs);
  GemmRounding rules{evaluation.rounding, op.getAccumulateType(),
                     op.getComputeMode()};
  if (!isFloat)
    rules = {Rounding::Float64, Float64Type::get(op.getContext()),
             ComputeMode::native};
  for (int64_t first = 0; first < out.batch * out.pixels; first += block) {
    int64_t count = std::min(block, out.batch * out.pixels - first);
    for (int64_t row = 0; row < count; ++row) {
      int64_t image = (first + row) / out.pixels;
      window.visit((first + row) % out.pixels, [&](int64_t position,
                                                   int64_t pixel, bool) {
        int64_t source = (image * in.pixels + pixel) * in.channels;
        for (int64_t group = 0; group < groups; ++group) {
          double *line = gathered.data() + (group * block + row) * depth +
                         position * channels;
          if (pixel < 0)
            std::fill_n(line, channels, padding);
          else
            std::copy_n(input + source + group * channels, channels, line);
        }
      });
    }
    for (int64_t group = 0; group < groups; ++group) {
      referenceGemm(count, depth, outputs,
                    {gathered.data() + group * block * depth, depth, 1},
                    {filter.data() + group * depth * outputs, outputs, 1},
                    product.data(), rules);
      for (int64_t row = 0; row < count; ++row)
        std::copy_n(product.data() + row * outputs, outputs,
                    target + (first + row) * out.channels + group * outputs);
    }
  }
  if (!channelsLast)
    transposeImage(target, out.batch, out.pixels, out.channels, results);
  if (isFloat)
    return;
  IntegerKind kind(result.getElementType());
  for (auto [to, sum] : llvm::zip_equal(result.ints(), sums))
    to = kind.wrap(static_cast<int64_t>(sum));
}

//===----------------------------------------------------------------------===//
// conv_transpose
//===----------------------------------------------------------------------===//

/// col2im: every input pixel times the filter is a window of the result;
/// overlapping windows add.
static void evaluateConvTranspose(ConvTransposeOp op, Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0), &filter = evaluation.operand(1);
  Tensor &result = evaluation.addResult();
  ImageShape in(input.getShape(), ImageLayout::channels_first);
  ImageShape out(result.getShape(), ImageLayout::channels_first);
  int64_t groups = op.getGroups();
  int64_t channels = in.channels / groups, outputs = out.channels / groups;
  // The window slides over the result as a conv's does over its input.
  SlidingWindow window(out.spatial, in.spatial, filter.getShape().drop_front(2),
                       op.getStrides(), op.getPadLow(), op.getPadHigh(),
                       op.getDilations());
  Type accumulate = op.getAccumulateType();
  GemmRounding rules{evaluation.rounding, accumulate, op.getComputeMode()};
  int64_t columns = outputs * window.size;
  std::vector<double> product(in.pixels * columns);
  for (int64_t image = 0; image < in.batch; ++image)
    for (int64_t group = 0; group < groups; ++group) {
      const double *source =
          input.floats().data() +
          (image * in.channels + group * channels) * in.pixels;
      referenceGemm(
          in.pixels, channels, columns, {source, 1, in.pixels},
          {filter.floats().data() + group * channels * columns, columns, 1},
          product.data(), rules);
      double *target = result.floats().data() +
                       (image * out.channels + group * outputs) * out.pixels;
      withRounding(evaluation.rounding, accumulate, [&](auto round) {
        for (int64_t pixel = 0; pixel < in.pixels; ++pixel)
          window.visit(pixel, [&](int64_t position, int64_t at, bool) {
            if (at < 0)
              return;
            for (int64_t output = 0; output < outputs; ++output) {
              double &sum = target[output * out.pixels + at];
              sum = round(
                  sum +
                  product[pixel * columns + output * window.size + position]);
            }
          });
      });
    }
}

FailureOr<bool> mpc::reference::evaluateConvolution(Evaluation &evaluation) {
  if (auto conv = dyn_cast<ConvOp>(evaluation.op))
    evaluateConv(conv, evaluation);
  else if (auto transposed = dyn_cast<ConvTransposeOp>(evaluation.op))
    evaluateConvTranspose(transposed, evaluation);
  else
    return false;
  evaluation.roundResults();
  return true;
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

static void evaluateMaxPool(MaxPoolOp op, Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0);
  Tensor &result = evaluation.addResult();
  if (input.isFloat()) {
    forEachWindow(op, input, result,
                  [&](int64_t at, ArrayRef<int64_t> offsets, int64_t) {
                    double largest = -std::numeric_limits<double>::infinity();
                    for (int64_t offset : offsets)
                      largest = maximum(largest, input.floats()[offset]);
                    result.floats()[at] = largest;
                  });
    return;
  }
  IntegerKind kind(input.getElementType());
  forEachWindow(op, input, result,
                [&](int64_t at, ArrayRef<int64_t> offsets, int64_t) {
                  int64_t largest = kind.lowest();
                  for (int64_t offset : offsets)
                    if (kind.less(largest, input.ints()[offset]))
                      largest = input.ints()[offset];
                  result.ints()[at] = largest;
                });
}

static void evaluateAvgPool(AvgPoolOp op, Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0);
  Tensor &result = evaluation.addResult();
  bool includePad = op.getCountIncludePad();
  withRounding(evaluation.rounding, result.getElementType(), [&](auto round) {
    forEachWindow(op, input, result,
                  [&](int64_t at, ArrayRef<int64_t> offsets, int64_t padded) {
                    double sum = 0;
                    for (int64_t offset : offsets)
                      sum = round(sum + input.floats()[offset]);
                    int64_t count = includePad
                                        ? padded
                                        : static_cast<int64_t>(offsets.size());
                    // A window that covers only padding has nothing to average.
                    result.floats()[at] =
                        round(sum / std::max<int64_t>(count, 1));
                  });
  });
}

FailureOr<bool> mpc::reference::evaluatePool(Evaluation &evaluation) {
  if (auto maxPool = dyn_cast<MaxPoolOp>(evaluation.op))
    evaluateMaxPool(maxPool, evaluation);
  else if (auto avgPool = dyn_cast<AvgPoolOp>(evaluation.op))
    evaluateAvgPool(avgPool, evaluation);
  else
    return false;
  return true;
}
