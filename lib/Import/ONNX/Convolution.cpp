//===- Convolution.cpp - convolution operators ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"

#include "WindowAttributes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Limit of window attributes, to prevent overflows.
static constexpr int64_t kMaxExtent = int64_t(1) << 31;

SmallVector<NamedAttribute> Window::attributes(NodeImport &n) const {
  return {n.attr("strides", strides), n.attr("pad_low", low),
          n.attr("pad_high", high), n.attr("dilations", dilations)};
}

/// Checks that attribute `name` has `count` entries of at least `lowest` and at
/// most kMaxExtent.
static bool checkEntries(NodeImport &n, StringRef name,
                         ArrayRef<int64_t> values, size_t count,
                         int64_t lowest) {
  if (n.failed())
    return false;
  if (values.size() != count) {
    n.error() << "attribute '" << name << "' has " << values.size()
              << " entries, expected " << count;
    return false;
  }
  for (int64_t value : values) {
    if (value < lowest || value > kMaxExtent) {
      n.error() << "attribute '" << name << "' has the entry " << value
                << ", expected " << lowest << " to " << kMaxExtent;
      return false;
    }
  }
  return true;
}

Window mpc::onnx::readWindow(NodeImport &n, ArrayRef<int64_t> kernel,
                             ArrayRef<int64_t> spatial) {
  Window w;
  size_t rank = spatial.size();
  w.kernel.assign(kernel.begin(), kernel.end());
  w.low.assign(rank, 0);
  w.high.assign(rank, 0);
  SmallVector<int64_t> ones(rank, 1), zeros(2 * rank, 0);
  w.strides = n.intsAttr("strides", ones);
  w.dilations = n.intsAttr("dilations", ones);
  SmallVector<int64_t> pads = n.intsAttr("pads", zeros);
  if (!checkEntries(n, "kernel_shape", w.kernel, rank, 1) ||
      !checkEntries(n, "strides", w.strides, rank, 1) ||
      !checkEntries(n, "dilations", w.dilations, rank, 1) ||
      !checkEntries(n, "pads", pads, 2 * rank, 0))
    return w;
  std::string automatic = n.stringAttr("auto_pad", "NOTSET");
  w.automatic = automatic != "NOTSET";
  w.sameUpper = automatic == "SAME_UPPER";
  w.same = w.sameUpper || automatic == "SAME_LOWER";
  if (!w.automatic) {
    w.low.assign(pads.begin(), pads.begin() + rank);
    w.high.assign(pads.begin() + rank, pads.end());
  } else if (w.same) {
    for (size_t i = 0; i < rank; ++i) {
      int64_t out = (spatial[i] + w.strides[i] - 1) / w.strides[i];
      int64_t total = std::max<int64_t>(
          0, (out - 1) * w.strides[i] + w.reach(int64_t(i)) - spatial[i]);
      int64_t less = total / 2;
      w.low[i] = w.sameUpper ? less : total - less;
      w.high[i] = total - w.low[i];
    }
  } else if (automatic != "VALID") {
    n.error() << "attribute 'auto_pad' is '" << automatic
              << "', expected NOTSET, SAME_UPPER, SAME_LOWER or VALID";
  }
  return w;
}

/// Checks ranks and `kernel_shape`; returns the filter's window.
static SmallVector<int64_t> filterWindow(NodeImport &n, Value input,
                                         Value filter) {
  if (n.failed())
    return {};
  if (n.rank(input) < 3 || n.rank(filter) != n.rank(input)) {
    n.error() << "input " << input.getType() << " and filter "
              << filter.getType() << " do not have one rank of at least 3";
    return {};
  }
  SmallVector<int64_t> window(n.shape(filter).drop_front(2));
  SmallVector<int64_t> declared = n.intsAttr("kernel_shape", window);
  if (declared != window)
    n.error() << "attribute 'kernel_shape' differs from the filter's window in "
              << filter.getType();
  return window;
}

/// Adds the bias per channel and casts to the model's type.
static LogicalResult finishConvolution(NodeImport &n, Value result, Type type) {
  if (result && n.has(2)) {
    Value bias = n.in(2);
    if (!n.failed() &&
        (n.rank(bias) != 1 || n.dim(bias, 0) != n.dim(result, 1)))
      return n.error() << "bias " << bias.getType() << " does not have "
                       << n.dim(result, 1) << " elements";
    SmallVector<int64_t> shape(n.rank(result), 1);
    shape[1] = n.dim(bias, 0);
    result = n.op<AddOp>(
        {result, n.reshape(n.cast(bias, n.element(result)), shape)});
  }
  return n.result(n.narrow(result, type));
}

Value mpc::onnx::buildConv(NodeImport &n, Value input, Value filter) {
  SmallVector<int64_t> kernel = filterWindow(n, input, filter);
  if (n.failed())
    return nullptr;
  Window window = readWindow(n, kernel, n.shape(input).drop_front(2));
  SmallVector<NamedAttribute> attributes = window.attributes(n);
  attributes.push_back(n.attr("groups", n.intAttr("group", 1)));
  return n.widened(ConvOp::getOperationName(), {input, filter}, attributes);
}

static LogicalResult convertConv(NodeImport &n) {
  Value input = n.in(0), filter = n.in(1);
  return finishConvolution(n, buildConv(n, input, filter), n.element(input));
}

/// Resolves `output_shape` or SAME padding: both determine the result's
/// extents, and from these the padding.
static void fitOutput(NodeImport &n, Window &window,
                      SmallVectorImpl<int64_t> &outputPadding,
                      ArrayRef<int64_t> spatial) {
  SmallVector<int64_t> target = n.intsAttr("output_shape");
  if (target.empty() && !window.same)
    return;
  if (target.empty())
    for (auto [extent, stride] : llvm::zip_equal(spatial, window.strides))
      target.push_back(extent * stride);
  // Some exporters include batch and channels.
  if (target.size() == spatial.size() + 2)
    target.erase(target.begin(), target.begin() + 2);
  if (!checkEntries(n, "output_shape", target, spatial.size(), 1))
    return;
  for (int64_t i = 0; i < window.rank(); ++i) {
    int64_t natural = (spatial[i] - 1) * window.strides[i] + outputPadding[i] +
                      window.reach(i);
    int64_t total = natural - target[i];
    if (total < 0) {
      outputPadding[i] -= total;
      total = 0;
    }
    int64_t less = total / 2;
    window.low[i] = window.sameUpper ? less : total - less;
    window.high[i] = total - window.low[i];
  }
}

static LogicalResult convertConvTranspose(NodeImport &n) {
  Value input = n.in(0), filter = n.in(1);
  SmallVector<int64_t> kernel = filterWindow(n, input, filter);
  if (n.failed())
    return failure();
  ArrayRef<int64_t> spatial = n.shape(input).drop_front(2);
  Window window = readWindow(n, kernel, spatial);
  SmallVector<int64_t> zeros(spatial.size(), 0);
  SmallVector<int64_t> outputPadding = n.intsAttr("output_padding", zeros);
  if (!checkEntries(n, "output_padding", outputPadding, spatial.size(), 0))
    return failure();
  fitOutput(n, window, outputPadding, spatial);
  SmallVector<NamedAttribute> attributes = window.attributes(n);
  attributes.push_back(n.attr("output_padding", outputPadding));
  attributes.push_back(n.attr("groups", n.intAttr("group", 1)));
  return finishConvolution(n,
                           n.widened(ConvTransposeOp::getOperationName(),
                                     {input, filter}, attributes),
                           n.element(input));
}

/// Sum of overlapping blocks, as a transposed convolution with one-hot filters.
static LogicalResult convertCol2Im(NodeImport &n) {
  Value x = n.in(0);
  SmallVector<int64_t> image = n.constantIntValues(1, "image_shape"),
                       block = n.constantIntValues(2, "block_shape");
  if (n.failed())
    return failure();
  Window window = readWindow(n, block, image);
  int64_t places = 1, steps = 1;
  SmallVector<int64_t> counts, zeros(image.size(), 0);
  for (int64_t i = 0; i < window.rank() && !n.failed(); ++i) {
    int64_t room = image[i] + window.low[i] + window.high[i] - window.reach(i);
    if (room < 0)
      return n.error() << "a block of " << window.reach(i)
                       << " does not fit an image of " << image[i];
    counts.push_back(room / window.strides[i] + 1);
    // Positions at the end that no block covers stay zero.
    zeros[i] = room % window.strides[i];
    places *= block[i];
    steps *= counts.back();
  }
  if (n.failed())
    return failure();
  if (n.rank(x) != 3 || places < 1 || n.dim(x, 1) % places != 0 ||
      n.dim(x, 2) != steps)
    return n.error() << "input " << x.getType() << " does not hold " << steps
                     << " blocks of " << places << " elements";
  int64_t channels = n.dim(x, 1) / places;
  SmallVector<int64_t> shape = {n.dim(x, 0), n.dim(x, 1)};
  shape.append(counts);
  SmallVector<double> ones(size_t(channels * places * places), 0);
  for (int64_t row = 0; row < channels * places; ++row)
    ones[row * places + row % places] = 1;
  SmallVector<int64_t> filterShape = {channels * places, 1};
  filterShape.append(block);
  SmallVector<NamedAttribute> attributes = window.attributes(n);
  attributes.push_back(n.attr("output_padding", zeros));
  attributes.push_back(n.attr("groups", channels));
  Value filter = n.dense(filterShape, ones, n.element(x));
  return n.result(n.narrow(n.widened(ConvTransposeOp::getOperationName(),
                                     {n.reshape(x, shape), filter}, attributes),
                           n.element(x)));
}

OpFamily mpc::onnx::convolutionOps() {
  static const OpEntry entries[] = {
      {"Col2Im 18 3 dilations pads strides", convertCol2Im},
      {"Conv 1,11,22 2-3 auto_pad dilations group kernel_shape pads strides",
       convertConv},
      {"ConvTranspose 1,11,22 2-3 auto_pad dilations group kernel_shape "
       "output_padding output_shape pads strides",
       convertConvTranspose},
  };
  return entries;
}
