//===- GenerateRowOps.cpp - Random norms, softmax, reductions, losses -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphGenerator.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::smith;

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

void GraphGenerator::norms() {
  std::string epsilon =
      random.pick<const char *>({"1.0e-05", "1.0e-03", "1.0e-01"});
  int kind = int(random.below(6));
  if (kind >= 3) {
    // Image norms: batch, group, instance.
    Value x = image(kind == 5 ? random.range(1, 2) : random.range(0, 2));
    int64_t channels = x.shape[1];
    Value scale = parameter({channels}, 0.2, 1),
          bias = parameter({channels}, 0.3);
    std::string text = x.name + ", " + scale.name + ", " + bias.name;
    std::string signature =
        "(" + typeText(x) + ", " + typeText(scale) + ", " + typeText(bias);
    std::string op = "instance_norm";
    if (kind == 3) {
      op = "batch_norm";
      Value mean = graph.weight({channels}, 0.5);
      std::vector<double> squares;
      for (int64_t i = 0; i < channels; ++i)
        squares.push_back(random.real(0.3, 2));
      Value variance = graph.elements({channels}, "f32", squares);
      text += ", " + mean.name + ", " + variance.name;
      signature += ", " + typeText(mean) + ", " + typeText(variance);
    } else if (kind == 4) {
      op = "group_norm";
      int64_t groups = 1;
      for (int64_t divisor : {2, 3, 4})
        if (channels % divisor == 0 && channels > 0 && random.chance(60))
          groups = divisor;
      text += " groups(" + std::to_string(groups) + ")";
    }
    text += " epsilon(" + epsilon + ")";
    Value y =
        graph.emit(op, text, signature + ") -> " + typeText(x), x.shape, "f32");
    y.scale = 1.2;
    keep(activation(y));
    return;
  }
  Value x = floats(1);
  int64_t axis = random.chance(80) ? x.rank() - 1 : random.below(x.rank());
  Shape trailing(x.shape.begin() + axis, x.shape.end());
  bool rms = kind == 2;
  Value scale = parameter(trailing, 0.2, 1);
  std::string text = x.name + ", " + scale.name;
  std::string signature = "(" + typeText(x) + ", " + typeText(scale);
  if (!rms && random.chance(70)) {
    Value bias = parameter(trailing, 0.3);
    text += ", " + bias.name;
    signature += ", " + typeText(bias);
  }
  Value y = graph.emit(rms ? "rms_norm" : "layer_norm",
                       text + " axis(" + std::to_string(axis) + ") epsilon(" +
                           epsilon + ")",
                       signature + ") -> " + typeText(x), x.shape, "f32");
  y.scale = 1.2;
  if (random.chance(30))
    y = graph.binary("add", y, x);
  keep(y);
}

void GraphGenerator::normOfOps() {
  Value x = floats(1);
  Shape axis = {x.rank() - 1};
  if (x.shape.back() == 0)
    return;
  Value epsilon = graph.splat(random.pick({1e-5, 1e-3, 1e-2}));
  Value centred = x;
  bool rms = random.chance(40);
  if (!rms) {
    Value mean = graph.reduce("reduce_mean", x, axis, true);
    centred = graph.binary("sub", x, mean);
  }
  Value square = random.chance(50)
                     ? graph.binary("mul", centred, centred)
                     : graph.binary("pow", centred, graph.splat(2));
  Value variance = graph.reduce("reduce_mean", square, axis, true);
  Value shifted = graph.binary("add", variance, epsilon);
  Value y;
  if (random.chance(50))
    y = graph.binary("div", centred, graph.unary("sqrt", shifted));
  else
    y = graph.binary("mul", centred, graph.unary("rsqrt", shifted));
  y.scale = 1;
  y.content = Content::Blurred;
  if (random.chance(70))
    y = graph.binary("mul", y, parameter({x.shape.back()}, 0.2, 1));
  if (!rms && random.chance(70))
    y = graph.binary("add", y, parameter({x.shape.back()}, 0.3));
  keep(y);
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

Value GraphGenerator::softmaxOfOps(const Value &x, int64_t axis, int form) {
  Shape axes = {axis};
  Value shifted = x;
  // Without subtracting the maximum, exp overflows unless the input is small.
  if (form == 0)
    shifted = graph.binary("sub", x, graph.reduce("reduce_max", x, axes, true));
  Value e = graph.unary("exp", shifted);
  if (form == 2)
    e = graph.scaled(e, 0.125);
  Value sum = graph.reduce("reduce_sum", e, axes, true);
  Value y = graph.binary("div", e, sum);
  if (form == 3)
    y = graph.binary("mul", e, graph.unary("reciprocal", sum));
  y.scale = 1 / std::sqrt(double(std::max<int64_t>(x.shape[size_t(axis)], 1)));
  y.content = Content::Blurred;
  return y;
}

void GraphGenerator::softmaxes() {
  Value x = floats(1);
  int64_t axis = random.chance(75) ? x.rank() - 1 : random.below(x.rank());
  if (random.chance(25))
    x = graph.scaled(x, 3);
  if (x.shape[size_t(axis)] == 0) {
    keep(x);
    return;
  }
  bool hides = random.chance(25);
  if (hides) {
    Value kept = flags(x.shape);
    Value place = graph.iota({x.shape.back()}, 0, "i32");
    kept = graph.binary("or", kept,
                        graph.compare("eq", place, graph.splat(0, "i32")));
    if (axis == x.rank() - 1)
      x = graph.select(kept, x, graph.splat(random.pick({-1e4, -1e9})));
  }
  // The log_softmax of a masked element is the fill value, which overflows
  // 16-bit types.
  const char *kind = random.chance(70) || hides ? "softmax" : "log_softmax";
  if (random.chance(50))
    keep(graph.softmax(kind, x, axis));
  else
    keep(softmaxOfOps(x, axis, int(random.below(4))));
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

void GraphGenerator::reductions() {
  Value x = floats(1);
  Shape axes;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (random.chance(50))
      axes.push_back(i);
  if (axes.empty())
    axes.push_back(random.below(x.rank()));
  int64_t length = 1;
  for (int64_t axis : axes)
    length *= x.shape[size_t(axis)];
  std::string op = random.pick<const char *>(
      {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"});
  // The mean of no elements is undefined, and their maximum is the type's
  // lowest.
  if (length == 0 && op != "reduce_sum")
    op = "reduce_sum";
  if (op == "reduce_prod") {
    if (length > 12)
      return;
    x = positive(x);
  }
  if (random.chance(15)) {
    Value sum = graph.unary("cumsum", x,
                            "axis(" + std::to_string(axes[0]) + ")" +
                                (random.chance(30) ? " exclusive" : "") +
                                (random.chance(30) ? " reverse" : ""));
    sum.scale = x.scale * double(x.shape[size_t(axes[0])] + 1);
    keep(tame(sum));
    return;
  }
  Value y = graph.reduce(op, x, axes, random.chance(60));
  if (op == "reduce_prod")
    y.scale = 50;
  keep(y);
  if (random.chance(40) && broadcastsTo(y.shape, x.shape))
    keep(graph.binary(random.pick<const char *>({"sub", "mul"}), x, tame(y)));
}

void GraphGenerator::positions() {
  Value x = ordered(1);
  int64_t axis = random.below(x.rank());
  int64_t length = x.shape[size_t(axis)];
  if (length == 0 || x.count() == 0)
    return;
  if (random.chance(60)) {
    bool keepDims = random.chance(40);
    Shape shape = x.shape;
    if (keepDims)
      shape[size_t(axis)] = 1;
    else
      shape.erase(shape.begin() + axis);
    Value y =
        graph.emit(random.chance(60) ? "argmax" : "argmin",
                   x.name + " axis(" + std::to_string(axis) + ")" +
                       (keepDims ? " keep_dims" : "") +
                       (random.chance(20) ? " select_last" : ""),
                   typeText(x) + " -> " + typeText(shape, "i64"), shape, "i64");
    y.content = Content::Exact;
    y.scale = double(length);
    keep(y);
    return;
  }
  int64_t k = random.range(1, std::min<int64_t>(length, 5));
  Shape shape = x.shape;
  shape[size_t(axis)] = k;
  std::vector<Value> results = graph.emit(
      "top_k",
      x.name + " k(" + std::to_string(k) + ") axis(" + std::to_string(axis) +
          ")" + (random.chance(30) ? " largest(false)" : ""),
      typeText(x) + " -> " + typeText(shape, x.element) + ", " +
          typeText(shape, "i64"),
      {{shape, x.element}, {shape, "i64"}});
  results[0].content = x.content;
  results[0].scale = x.scale + 1;
  results[1].content = Content::Exact;
  results[1].scale = double(length);
  keep(results[0]);
  keep(results[1]);
}

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

void GraphGenerator::losses() {
  Value x = floats(1);
  if (x.count() == 0)
    return;
  std::string op = random.pick<const char *>(
      {"softmax_cross_entropy", "sigmoid_cross_entropy", "mean_squared_error",
       "mean_absolute_error", "huber"});
  Value target;
  std::string attributes;
  if (op == "softmax_cross_entropy" && random.chance(70)) {
    target = graph.integers(Shape(x.shape.begin(), x.shape.end() - 1), 0,
                            x.shape.back() - 1,
                            random.pick<const char *>({"i32", "i64"}));
    if (random.chance(30))
      attributes = " label_smoothing(1.000000e-01)";
    if (random.chance(20))
      attributes += " ignore_index(-1)";
  } else if (op == "softmax_cross_entropy") {
    target = graph.softmax("softmax", graph.weight(x.shape, 1), x.rank() - 1);
  } else {
    target = graph.argument(x.shape, "f32");
    if (op == "huber" && random.chance(50))
      attributes = " delta(5.000000e-01)";
  }
  Value y = graph.emit(op, x.name + ", " + target.name + attributes,
                       "(" + typeText(x) + ", " + typeText(target) + ") -> " +
                           typeText(Shape{}, "f32"),
                       {}, "f32");
  keep(y);
}
