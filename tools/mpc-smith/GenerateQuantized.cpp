//===- GenerateQuantized.cpp - Random quantized layers --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scales are powers of two and sums stay below 2^24, so that f32 is exact in
// any order and every program rounds to the same bytes, ties included.
//
//===----------------------------------------------------------------------===//

#include "GraphGenerator.h"

#include <algorithm>
#include <cmath>

using namespace mpc;
using namespace mpc::smith;

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
