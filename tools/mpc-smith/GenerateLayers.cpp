//===- GenerateLayers.cpp - Random products, convolutions, recurrences ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphGenerator.h"

#include <algorithm>
#include <cmath>

using namespace mpc;
using namespace mpc::smith;

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

Value GraphGenerator::dense(const Value &x, int64_t columns, bool bias) {
  int64_t depth = x.shape.back();
  bool transposed = random.chance(30);
  double scale = 1 / std::sqrt(double(std::max<int64_t>(depth, 1)));
  Value w = parameter(
      transposed ? Shape{columns, depth} : Shape{depth, columns}, scale);
  Value y;
  if (transposed && random.chance(50))
    y = graph.matmul(x, graph.transpose(w, {1, 0}));
  else
    y = graph.matmul(x, w, false, transposed);
  if (bias) {
    Value b = parameter({columns}, 0.5);
    y = random.chance(50) ? graph.binary("add", y, b)
                          : graph.binary("add", b, y);
    y.content = Content::Distinct;
  }
  return y;
}

void GraphGenerator::denseLayers() {
  Value x = rows();
  // Several projections of one value, as queries, keys and values are.
  int64_t towers = random.chance(25) ? random.range(2, 3) : 1;
  int64_t width = extent();
  std::vector<Value> made;
  for (int64_t i = 0; i < towers; ++i) {
    int64_t columns = random.chance(60) ? width : extent();
    if (productOf(x.shape) * columns > options.mostProducts)
      columns = 3;
    if (random.chance(40))
      graph.enterLayer(layerPath(), random.chance(70));
    Value y = dense(x, columns, random.chance(70));
    y = activation(y);
    if (y.shape == x.shape && random.chance(60))
      y = random.chance(50) ? graph.binary("add", x, y)
                            : graph.binary("add", y, x);
    made.push_back(y);
    keep(y);
  }
  if (made.size() > 1 && made[0].shape == made[1].shape)
    keep(graph.binary(random.pick<const char *>({"mul", "add"}), tame(made[0]),
                      tame(made[1])));
}

void GraphGenerator::productOfValues() {
  Value x = rows(), y;
  bool transposeX = random.chance(20), transposeY = random.chance(30);
  int64_t depth = x.shape[x.shape.size() - (transposeX ? 2 : 1)];
  auto fits = [&](const Value &value) {
    if (value.element != x.element || value.rank() != 2 || x.rank() < 2)
      return false;
    return value.shape[transposeY ? 1 : 0] == depth;
  };
  std::optional<Value> found = find(fits);
  if (found && random.chance(60)) {
    y = tame(*found);
  } else {
    int64_t columns = extent();
    Shape shape = transposeY ? Shape{columns, depth} : Shape{depth, columns};
    if (x.rank() > 2 && random.chance(50))
      for (int64_t i = x.rank() - 3; i >= 0; --i)
        shape.insert(shape.begin(), random.chance(30) ? 1 : x.shape[size_t(i)]);
    y = random.chance(50) ? graph.argument(shape, x.element)
                          : graph.weight(shape, 1);
  }
  Shape batch = broadcastShapes(Shape(x.shape.begin(), x.shape.end() - 2),
                                Shape(y.shape.begin(), y.shape.end() - 2));
  if (productOf(batch) * depth * x.shape[x.shape.size() - 2] * y.shape.back() >
      options.mostProducts)
    return;
  std::string element = random.chance(10)   ? "f16"
                        : random.chance(10) ? "bf16"
                                            : "";
  if (!element.empty()) {
    // A 16-bit product in the model itself, accumulated in f32 or not.
    x = graph.cast(x, element, random.chance(50));
    y = graph.cast(y, element, random.chance(50));
  }
  Value z = graph.matmul(x, y, transposeX, transposeY,
                         random.chance(50) ? "f32" : element);
  z = tame(z);
  if (random.chance(40))
    z = graph.binary("add", z, partner(z));
  keep(z);
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

Value GraphGenerator::image(int64_t spatial) {
  auto fits = [&](const Value &value) {
    return value.element == "f32" && value.rank() == spatial + 2 &&
           value.shape[0] <= 4 && value.shape[1] <= 16;
  };
  std::optional<Value> found = find(fits);
  if (found && random.chance(70))
    return tame(*found);
  Shape shape = {random.range(1, 3),
                 random.pick<int64_t>({1, 2, 3, 3, 4, 6, 8, 12, 16})};
  for (int64_t i = 0; i < spatial; ++i)
    shape.push_back(spatial == 1 ? random.range(1, 33) : random.range(1, 11));
  if (random.chance(1))
    shape[size_t(random.below(int64_t(shape.size())))] = 0;
  Value made = graph.argument(shape, "f32");
  keep(made);
  return made;
}

namespace {
/// A window with strides, padding and dilations, per spatial dimension.
struct Window {
  Shape window, strides, low, high, dilations;
};
} // namespace

/// A window that fits into `extents`.
static Window drawWindow(Random &random, const Shape &extents, bool halfPads) {
  Window result;
  for (int64_t extent : extents) {
    int64_t window = random.pick<int64_t>({1, 2, 3, 3, 3, 5});
    int64_t dilation = random.chance(20) ? random.range(2, 3) : 1;
    int64_t most =
        halfPads ? (window - 1) * dilation / 2 + (window == 1 ? 0 : 0) : 3;
    int64_t low = random.chance(60) ? random.below(most + 1) : 0;
    int64_t high = random.chance(70) ? low : random.below(most + 1);
    if (extent + low + high < dilation * (window - 1) + 1) {
      window = 1;
      if (halfPads)
        low = high = 0;
      // An extent of 0 without padding admits no window.
      if (extent + low + high == 0)
        high = 1;
    }
    result.window.push_back(window);
    result.strides.push_back(random.chance(35) ? random.range(2, 3) : 1);
    result.low.push_back(low);
    result.high.push_back(high);
    result.dilations.push_back(dilation);
  }
  return result;
}

static std::string windowText(const Window &window) {
  return " strides(" + listText(window.strides, "[", "]") + ") pad(" +
         listText(window.low, "[", "]") + ", " +
         listText(window.high, "[", "]") + ") dilations(" +
         listText(window.dilations, "[", "]") + ")";
}

static int64_t windowExtent(const Window &window, size_t i, int64_t extent) {
  int64_t room = extent + window.low[i] + window.high[i] -
                 window.dilations[i] * (window.window[i] - 1) - 1;
  return room < 0 ? 0 : room / window.strides[i] + 1;
}

void GraphGenerator::convolution() {
  Value x = image(random.pick<int64_t>({1, 2, 2, 2, 3}));
  int64_t channels = x.shape[1];
  // Depthwise, grouped, or ordinary.
  int64_t groups = 1;
  if (random.chance(25))
    groups = std::max<int64_t>(channels, 1);
  else if (random.chance(25))
    for (int64_t divisor : {2, 3, 4})
      if (channels % divisor == 0 && channels > 0)
        groups = divisor;
  Shape extents(x.shape.begin() + 2, x.shape.end());
  Window window = drawWindow(random, extents, false);
  int64_t outputs = groups * random.pick<int64_t>({1, 1, 2, 3, 5, 8});
  Shape filter = {outputs, channels / groups};
  filter.insert(filter.end(), window.window.begin(), window.window.end());
  Shape shape = {x.shape[0], outputs};
  for (size_t i = 0; i < extents.size(); ++i)
    shape.push_back(windowExtent(window, i, extents[i]));
  int64_t terms = channels / groups * productOf(window.window);
  if (productOf(shape) * terms > options.mostProducts ||
      productOf(shape) > options.mostElements)
    return;
  bool last = random.chance(15);
  Value input = x;
  if (last) {
    Shape order = {0};
    for (int64_t i = 2; i < x.rank(); ++i)
      order.push_back(i);
    order.push_back(1);
    input = graph.transpose(x, order);
    std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  }
  Value w =
      parameter(filter, 1 / std::sqrt(double(std::max<int64_t>(terms, 1))));
  Value y = graph.emit(
      "conv",
      input.name + ", " + w.name + windowText(window) +
          (groups > 1 ? " groups(" + std::to_string(groups) + ")" : "") +
          (last ? " layout(channels_last)" : ""),
      "(" + typeText(input) + ", " + typeText(w) + ") -> " +
          typeText(shape, "f32"),
      shape, "f32");
  y.content = Content::Distinct;
  y.scale = x.scale;
  if (random.chance(70)) {
    Shape bias = {outputs};
    if (!last)
      bias.resize(extents.size() + 1, 1);
    if (!last && random.chance(50))
      bias.insert(bias.begin(), 1);
    y = graph.binary("add", y, parameter(bias, 0.5));
  }
  y = activation(y);
  if (y.shape == x.shape && random.chance(60))
    y = graph.binary("add", y, x);
  keep(y);
}

void GraphGenerator::transposedConvolution() {
  Value x = image(random.pick<int64_t>({1, 2, 2}));
  int64_t channels = x.shape[1], groups = 1;
  if (random.chance(30))
    for (int64_t divisor : {2, 3, 4})
      if (channels % divisor == 0 && channels > 0)
        groups = divisor;
  Shape extents(x.shape.begin() + 2, x.shape.end());
  int64_t perGroup = random.pick<int64_t>({1, 2, 3, 5});
  Window window;
  Shape outputPadding, shape = {x.shape[0], perGroup * groups};
  for (int64_t extent : extents) {
    int64_t size = random.pick<int64_t>({1, 2, 3, 3}),
            stride = random.range(1, 3), dilation = random.chance(20) ? 2 : 1;
    int64_t reach = dilation * (size - 1);
    int64_t low = random.below(reach + 1),
            high = random.chance(60) ? low : random.below(reach + 1);
    int64_t extra = random.below(std::max(stride, dilation));
    int64_t result = (extent - 1) * stride + reach + 1 + extra - low - high;
    if (extent == 0 || result < 1)
      return;
    window.window.push_back(size);
    window.strides.push_back(stride);
    window.dilations.push_back(dilation);
    window.low.push_back(low);
    window.high.push_back(high);
    outputPadding.push_back(extra);
    shape.push_back(result);
  }
  int64_t terms = channels / groups * productOf(window.window);
  if (productOf(shape) * terms > options.mostProducts ||
      productOf(shape) > options.mostElements)
    return;
  Shape filter = {channels, perGroup};
  filter.insert(filter.end(), window.window.begin(), window.window.end());
  Value w =
      parameter(filter, 1 / std::sqrt(double(std::max<int64_t>(terms, 1))));
  Value y = graph.emit(
      "conv_transpose",
      x.name + ", " + w.name + windowText(window) + " output_padding(" +
          listText(outputPadding, "[", "]") + ")" +
          (groups > 1 ? " groups(" + std::to_string(groups) + ")" : ""),
      "(" + typeText(x) + ", " + typeText(w) + ") -> " + typeText(shape, "f32"),
      shape, "f32");
  y.scale = x.scale;
  // Positions outside every window are 0.
  y.content = Content::Blurred;
  keep(activation(y));
}

void GraphGenerator::pooling() {
  Value x = image(random.pick<int64_t>({1, 2, 2, 3}));
  bool maximum = random.chance(50), last = random.chance(15);
  Shape extents(x.shape.begin() + 2, x.shape.end());
  Window window = drawWindow(random, extents, true);
  // A window of padding only has no maximum and no mean.
  for (size_t i = 0; i < extents.size(); ++i)
    if (window.low[i] >= window.window[i] || window.high[i] >= window.window[i])
      window.low[i] = window.high[i] = 0;
  Shape shape = {x.shape[0], x.shape[1]};
  for (size_t i = 0; i < extents.size(); ++i) {
    int64_t extent = windowExtent(window, i, extents[i]);
    if (extent < 1)
      return;
    shape.push_back(extent);
  }
  Value input = x;
  if (last) {
    Shape order = {0};
    for (int64_t i = 2; i < x.rank(); ++i)
      order.push_back(i);
    order.push_back(1);
    input = graph.transpose(x, order);
    std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  }
  std::string operands = input.name + " window(" +
                         listText(window.window, "[", "]") + ")" +
                         windowText(window);
  if (!maximum && random.chance(40))
    operands += " count_include_pad";
  if (last)
    operands += " layout(channels_last)";
  Value y = graph.emit(maximum ? "max_pool" : "avg_pool", operands,
                       typeText(input) + " -> " + typeText(shape, "f32"), shape,
                       "f32");
  y.scale = x.scale;
  keep(y);
}

//===----------------------------------------------------------------------===//
// Recurrences
//===----------------------------------------------------------------------===//

void GraphGenerator::recurrent() {
  int64_t steps = random.range(1, 6), batch = random.range(1, 4),
          width = random.pick<int64_t>({1, 3, 5, 8, 9}),
          hidden = random.pick<int64_t>({1, 2, 3, 5, 8, 16, 17});
  std::optional<Value> found = find([](const Value &value) {
    return value.element == "f32" && value.rank() == 3 && value.shape[0] < 8 &&
           value.shape[0] > 0 && value.shape[2] < 20 && value.shape[2] > 0 &&
           value.shape[1] < 8 && value.shape[1] > 0;
  });
  Value x;
  if (found && random.chance(70)) {
    x = tame(*found);
    steps = x.shape[0];
    batch = x.shape[1];
    width = x.shape[2];
  } else {
    x = graph.argument({steps, batch, width}, "f32");
  }
  int kind = int(random.below(3));
  int64_t gates = kind == 0 ? 4 : kind == 1 ? 3 : 1;
  std::string direction =
      random.pick<const char *>({"", "", "reverse", "bidirectional"});
  int64_t directions = direction == "bidirectional" ? 2 : 1;
  double scale = 1 / std::sqrt(double(hidden));
  std::vector<Value> operands = {
      x, parameter({directions, gates * hidden, width}, scale),
      parameter({directions, gates * hidden, hidden}, scale)};
  std::string text = x.name + ", " + operands[1].name + ", " + operands[2].name;
  auto add = [&](const char *word, const Value &value) {
    text += std::string(" ") + word + "(" + value.name + ")";
    operands.push_back(value);
  };
  if (random.chance(70))
    add("bias", parameter({directions, 2 * gates * hidden}, 0.5));
  if (random.chance(40))
    add("initial_h", parameter({directions, batch, hidden}, 0.5));
  if (kind == 0 && random.chance(40))
    add("initial_c", parameter({directions, batch, hidden}, 0.5));
  if (kind == 0 && random.chance(25))
    add("peephole", parameter({directions, 3 * hidden}, 0.5));
  if (kind == 1 && random.chance(50))
    text += " linear_before_reset";
  if (!direction.empty())
    text += " direction(" + direction + ")";
  Shape all = {steps, directions, batch, hidden},
        last = {directions, batch, hidden};
  std::vector<std::pair<Shape, std::string>> to = {{all, "f32"}, {last, "f32"}};
  if (kind == 0)
    to.push_back({last, "f32"});
  std::string signature = "(";
  for (size_t i = 0; i < operands.size(); ++i)
    signature += (i ? ", " : "") + typeText(operands[i]);
  signature += ") -> (";
  for (size_t i = 0; i < to.size(); ++i)
    signature += (i ? ", " : "") + typeText(to[i].first, "f32");
  static const char *kinds[] = {"lstm", "gru", "rnn"};
  for (Value &value : graph.emit(kinds[kind], text, signature + ")", to)) {
    value.scale = 0.5;
    if (random.chance(70))
      keep(value);
  }
}

//===----------------------------------------------------------------------===//
// Quantized layers
//
// Scales are powers of two and sums stay below 2^24, so that f32 is exact in
// any order and every program rounds to the same bytes, ties included.
//===----------------------------------------------------------------------===//

namespace {

/// Quantized values: scale * (integers - zero).
struct Bytes {
  Value integers;
  /// f32: a scalar, or one per column.
  Value scale;
  int64_t zero = 0;
  /// Approximate root mean square of the real values.
  double size = 1;
};

/// The power-of-two scale with which values of this size fill a byte.
double stepFor(double size) {
  return std::exp2(std::ceil(std::log2(std::max(size, 1e-3) / 40)));
}

Bytes quantize(Random &random, Graph &graph, const Value &x, double size) {
  bool isUnsigned = random.chance(50);
  double step = stepFor(size), low = isUnsigned ? 0 : -128;
  Bytes made;
  made.zero = random.chance(30) ? 0
              : isUnsigned      ? random.range(100, 140)
                                : random.range(-20, 20);
  made.scale = graph.splat(step);
  made.size = size;
  Value steps = graph.unary("round", graph.binary("div", x, made.scale));
  if (made.zero)
    steps = graph.binary("add", steps, graph.splat(double(made.zero)));
  steps = graph.clamp(steps, graph.splat(low), graph.splat(low + 255));
  made.integers = graph.cast(steps, isUnsigned ? "ui8" : "i8");
  return made;
}

Value dequantize(Random &random, Graph &graph, const Bytes &x) {
  std::string element = random.pick<const char *>({"i32", "i64"});
  Value wide = x.integers;
  if (x.zero || random.chance(30)) {
    wide = graph.cast(wide, element);
    if (x.zero)
      wide = graph.binary("sub", wide, graph.splat(double(x.zero), element));
  }
  Value y = graph.binary("mul", graph.cast(wide, "f32"), x.scale);
  y.content = Content::Blurred;
  y.scale = x.size;
  return y;
}

/// Constant weights for sums of `depth` terms; `columns` is the shape of a
/// per-column scale.
Bytes weights(Random &random, Graph &graph, const Shape &shape,
              const Shape &columns, int64_t depth) {
  Bytes made;
  bool isUnsigned = random.chance(25);
  int64_t reach = random.pick<int64_t>({7, 60, 127});
  int64_t middle = isUnsigned ? 128 : 0;
  made.zero = middle + (random.chance(30) ? random.range(-9, 9) : 0);
  made.integers = graph.integers(shape, middle - reach, middle + reach,
                                 isUnsigned ? "ui8" : "i8");
  double step = stepFor(1 / std::sqrt(double(depth))) * 64 / double(reach);
  step = std::exp2(std::round(std::log2(step)));
  if (random.chance(50)) {
    std::vector<double> steps;
    for (int64_t i = productOf(columns); i > 0; --i)
      steps.push_back(random.chance(50) ? step : step / 2);
    made.scale = graph.elements(columns, "f32", steps);
  } else {
    made.scale = graph.splat(step);
  }
  made.size = step * double(reach) / 2;
  return made;
}

} // namespace

void GraphGenerator::quantizedLayers() {
  bool isImage = random.chance(50);
  Shape shape = isImage ? Shape{random.range(1, 2),
                                random.pick<int64_t>({1, 3, 4, 8, 16}),
                                random.range(3, 9), random.range(3, 9)}
                        : Shape{random.range(1, 9),
                                random.pick<int64_t>({1, 5, 16, 32, 33, 64})};
  Value x = graph.argument(shape, "f32");
  Bytes bytes = quantize(random, graph, x, 1);
  for (int64_t layers = random.range(1, 3); layers > 0; --layers) {
    if (random.chance(15))
      keep(bytes.integers);
    Value input = dequantize(random, graph, bytes), y;
    int64_t columns = random.pick<int64_t>({1, 3, 8, 16, 24});
    double size = bytes.size;
    Shape bias = {columns};
    if (isImage) {
      int64_t channels = shape[1], groups = 1;
      if (random.chance(20))
        groups = columns = channels;
      int64_t window = random.pick<int64_t>({1, 3, 3}),
              stride = random.range(1, 2), pad = random.below(window);
      Shape filter = {columns, channels / groups, window, window};
      int64_t depth = productOf(filter) / columns;
      shape[1] = columns;
      for (size_t i : {2, 3}) {
        if (shape[i] + 2 * pad < window)
          return;
        shape[i] = (shape[i] + 2 * pad - window) / stride + 1;
      }
      if (productOf(shape) > options.mostElements ||
          productOf(shape) * depth > options.mostProducts)
        return;
      Bytes w = weights(random, graph, filter, {columns, 1, 1, 1}, depth);
      size *= w.size * std::sqrt(double(depth));
      Value factors = dequantize(random, graph, w);
      std::string pads = listText({pad, pad}, "[", "]");
      y = graph.emit(
          "conv",
          input.name + ", " + factors.name + " strides(" +
              listText({stride, stride}, "[", "]") + ") pad(" + pads + ", " +
              pads + ") dilations([1, 1])" +
              (groups > 1 ? " groups(" + std::to_string(groups) + ")" : ""),
          "(" + typeText(input) + ", " + typeText(factors) + ") -> " +
              typeText(shape, "f32"),
          shape, "f32");
      bias = {columns, 1, 1};
    } else {
      int64_t depth = shape.back();
      Bytes w = weights(random, graph, {depth, columns}, {columns}, depth);
      size *= w.size * std::sqrt(double(depth));
      y = graph.matmul(input, dequantize(random, graph, w));
      shape.back() = columns;
    }
    if (random.chance(50)) {
      std::vector<double> numbers;
      for (int64_t i = 0; i < columns; ++i)
        numbers.push_back(double(random.range(-8, 8)) / 8);
      y = graph.binary("add", y, graph.elements(bias, "f32", numbers));
    }
    if (random.chance(50))
      y = graph.unary("relu", y);
    bytes = quantize(random, graph, y, size);
    if (random.chance(20) && !isImage) {
      bytes.integers = graph.transpose(bytes.integers, {1, 0});
      std::swap(shape[0], shape[1]);
    }
  }
  if (random.chance(30))
    keep(bytes.integers);
  keep(dequantize(random, graph, bytes));
}
