//===- GenerateMovement.cpp - Random data movement ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphGenerator.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::smith;

/// A random shape with the same number of elements.
static Shape otherShape(Random &random, const Shape &shape) {
  Shape result = shape;
  switch (random.below(4)) {
  case 0:
    return {productOf(shape)};
  case 1:
    result.insert(result.begin() + random.below(int64_t(shape.size()) + 1), 1);
    return result;
  case 2:
    for (size_t i = 0; i + 1 < shape.size(); ++i)
      if (random.chance(60)) {
        result[i] *= result[i + 1];
        result.erase(result.begin() + int64_t(i) + 1);
        return result;
      }
    return result;
  default:
    for (size_t i = 0; i < shape.size(); ++i)
      for (int64_t divisor : {3, 2, 5, 4})
        if (shape[i] > divisor && shape[i] % divisor == 0 &&
            random.chance(50)) {
          result[i] = divisor;
          result.insert(result.begin() + int64_t(i) + 1, shape[i] / divisor);
          return result;
        }
    return result;
  }
}

void GraphGenerator::movement() {
  std::optional<Value> found =
      find([](const Value &value) { return value.rank() > 0; });
  Value x = found && random.chance(80) && !options.differentiable ? *found
                                                                  : floats(1);
  for (int64_t length = random.range(1, 2); length > 0; --length) {
    switch (random.below(7)) {
    case 0:
      x = graph.reshape(x, otherShape(random, x.shape));
      break;
    case 1: {
      Shape order;
      for (int64_t i = 0; i < x.rank(); ++i)
        order.push_back(i);
      random.shuffle(order);
      x = graph.transpose(x, order);
      break;
    }
    case 2: {
      Shape shape = x.shape;
      for (int64_t &extent : shape)
        if (extent == 1)
          extent = random.range(1, 4);
      if (random.chance(40))
        shape.insert(shape.begin(), random.range(1, 3));
      if (productOf(shape) <= options.mostElements)
        x = graph.broadcast(x, shape);
      break;
    }
    case 3:
    case 4: {
      Shape offsets, sizes, strides;
      for (int64_t extent : x.shape) {
        int64_t stride = random.chance(25) ? random.range(2, 3) : 1;
        int64_t offset = extent > 0 ? random.below(extent) : 0;
        int64_t most = extent > 0 ? (extent - offset + stride - 1) / stride : 0;
        // Empty parts are allowed.
        int64_t size = most == 0           ? 0
                       : random.chance(2)  ? 0
                       : random.chance(50) ? most
                                           : random.range(1, most);
        offsets.push_back(offset);
        sizes.push_back(size);
        strides.push_back(stride);
      }
      bool plain = std::all_of(strides.begin(), strides.end(),
                               [](int64_t stride) { return stride == 1; });
      x = graph.slice(x, offsets, sizes, plain ? Shape() : strides);
      break;
    }
    case 5: {
      int64_t axis = random.below(x.rank());
      std::vector<Value> parts = {x};
      for (int64_t i = random.range(1, 2); i > 0; --i) {
        std::optional<Value> other = find([&](const Value &value) {
          if (value.element != x.element || value.rank() != x.rank())
            return false;
          for (int64_t d = 0; d < x.rank(); ++d)
            if (d != axis && value.shape[size_t(d)] != x.shape[size_t(d)])
              return false;
          return true;
        });
        parts.push_back(other ? *other : x);
      }
      int64_t joined = 0;
      for (const Value &part : parts)
        joined += part.count();
      if (joined <= options.mostElements) {
        random.shuffle(parts);
        x = graph.concat(parts, axis);
      }
      break;
    }
    default: {
      Shape axes;
      for (int64_t i = 0; i < x.rank(); ++i)
        if (random.chance(50))
          axes.push_back(i);
      if (axes.empty())
        axes.push_back(0);
      Value y =
          graph.unary("reverse", x, "axes(" + listText(axes, "[", "]") + ")");
      y.content = x.content;
      y.positive = x.positive;
      x = y;
      break;
    }
    }
  }
  keep(x);
}

void GraphGenerator::padding() {
  Value x = floats(1);
  std::string mode = random.pick<const char *>(
      {"constant", "constant", "constant", "reflect", "edge", "wrap"});
  if (x.count() == 0)
    mode = "constant";
  Shape low, high, interior, shape;
  bool spread = mode == "constant" && random.chance(20);
  for (int64_t extent : x.shape) {
    int64_t most = mode == "reflect" ? std::min<int64_t>(extent - 1, 3)
                   : mode == "wrap"  ? std::min<int64_t>(extent, 3)
                                     : 3;
    int64_t before = random.chance(60) ? random.below(most + 1) : 0;
    int64_t after = random.chance(60) ? random.below(most + 1) : 0;
    // Negative padding crops.
    if (mode == "constant" && random.chance(10) && extent > 2)
      before = -1;
    int64_t between = spread ? random.below(3) : 0;
    low.push_back(before);
    high.push_back(after);
    interior.push_back(between);
    shape.push_back(before + after + extent +
                    between * std::max<int64_t>(extent - 1, 0));
  }
  if (productOf(shape) > options.mostElements)
    return;
  Value fill = graph.splat(random.pick({0.0, 0.0, 0.0, 1.0, -2.5}), x.element);
  std::string text = x.name + ", " + fill.name + " low(" +
                     listText(low, "[", "]") + ") high(" +
                     listText(high, "[", "]") + ")";
  if (spread)
    text += " interior(" + listText(interior, "[", "]") + ")";
  if (mode != "constant")
    text += " mode(" + mode + ")";
  Value y = graph.emit("pad", text,
                       "(" + typeText(x) + ", " + typeText(fill) + ") -> " +
                           typeText(shape, x.element),
                       shape, x.element);
  y.scale = std::max(x.scale, fill.scale);
  keep(y);
}

//===----------------------------------------------------------------------===//
// Indexing
//===----------------------------------------------------------------------===//

Value GraphGenerator::indices(const Shape &shape, int64_t bound,
                              bool negative) {
  std::string element = random.pick<const char *>({"i32", "i64"});
  std::optional<Value> found = find([&](const Value &value) {
    return (value.element == "i32" || value.element == "i64") &&
           value.content == Content::Exact && value.shape == shape;
  });
  if (found && random.chance(40))
    return *found;
  if (random.chance(50))
    return graph.argument(shape, element);
  // A constant may also hold negative or out-of-range indices.
  return graph.integers(shape, negative ? -bound : 0,
                        bound - 1 + (random.chance(10) ? 2 : 0), element);
}

void GraphGenerator::gathers() {
  Value x = floats(1);
  if (x.count() == 0)
    return;
  int64_t axis = random.below(x.rank()), bound = x.shape[size_t(axis)];
  switch (random.below(4)) {
  case 0: {
    Shape shape = drawShape(random.range(0, 2));
    if (productOf(shape) * (x.count() / bound) > options.mostElements)
      return;
    keep(graph.gather(x, indices(shape, bound, true), axis));
    return;
  }
  case 1: {
    Shape shape;
    for (int64_t i = 0; i < x.rank(); ++i)
      shape.push_back(i == axis ? random.range(1, 7)
                                : random.range(1, x.shape[size_t(i)]));
    if (productOf(shape) > options.mostElements)
      return;
    Value at = indices(shape, bound, true);
    Value y = graph.emit("gather_elements",
                         x.name + ", " + at.name + " axis(" +
                             std::to_string(axis) + ")",
                         "(" + typeText(x) + ", " + typeText(at) + ") -> " +
                             typeText(shape, x.element),
                         shape, x.element);
    y.scale = x.scale;
    keep(y);
    return;
  }
  case 2: {
    int64_t batch = x.rank() > 1 && random.chance(30) ? 1 : 0;
    int64_t tuple = random.range(1, x.rank() - batch);
    Shape shape(x.shape.begin(), x.shape.begin() + batch);
    shape.push_back(random.range(1, 6));
    Shape result = shape;
    shape.push_back(tuple);
    int64_t least = bound;
    for (int64_t i = batch; i < batch + tuple; ++i)
      least = std::min(least, x.shape[size_t(i)]);
    result.insert(result.end(), x.shape.begin() + batch + tuple, x.shape.end());
    if (productOf(result) > options.mostElements)
      return;
    Value at = indices(shape, least, true);
    Value y = graph.emit(
        "gather_nd",
        x.name + ", " + at.name +
            (batch ? " batch_dims(" + std::to_string(batch) + ")" : ""),
        "(" + typeText(x) + ", " + typeText(at) + ") -> " +
            typeText(result, x.element),
        result, x.element);
    y.scale = x.scale;
    keep(y);
    return;
  }
  default: {
    Shape shape = drawShape(random.range(0, 2));
    int64_t depth = random.range(1, 9);
    if (productOf(shape) * depth > options.mostElements)
      return;
    Value at = indices(shape, depth, true);
    Value on = graph.splat(random.pick({1.0, 0.9, 5.0})),
          off = graph.splat(random.pick({0.0, 0.0, -1.0}));
    int64_t place = random.below(at.rank() + 1);
    Shape result = shape;
    result.insert(result.begin() + place, depth);
    Value y = graph.emit("one_hot",
                         at.name + ", " + on.name + ", " + off.name +
                             " depth(" + std::to_string(depth) + ") axis(" +
                             std::to_string(place) + ")",
                         "(" + typeText(at) + ", " + typeText(on) + ", " +
                             typeText(off) + ") -> " + typeText(result, "f32"),
                         result, "f32");
    y.scale = 1;
    keep(y);
    return;
  }
  }
}

void GraphGenerator::scatters() {
  Value x = floats(1);
  if (x.count() == 0)
    return;
  std::string reduction =
      random.pick<const char *>({"", "add", "mul", "max", "min"});
  bool tuples = random.chance(40);
  Shape at, updates;
  int64_t axis = random.below(x.rank()), bound = x.shape[size_t(axis)];
  if (tuples) {
    int64_t tuple = random.range(1, x.rank());
    bound = *std::min_element(x.shape.begin(), x.shape.begin() + tuple);
    at = updates = {random.range(1, 6)};
    at.push_back(tuple);
    updates.insert(updates.end(), x.shape.begin() + tuple, x.shape.end());
  } else {
    for (int64_t i = 0; i < x.rank(); ++i)
      updates.push_back(random.range(1, x.shape[size_t(i)]));
    at = updates;
  }
  if (productOf(updates) > options.mostElements)
    return;
  Value where = indices(at, bound, true);
  Value what = graph.argument(updates, "f32");
  std::string text = x.name + ", " + where.name + ", " + what.name;
  if (!tuples)
    text += " axis(" + std::to_string(axis) + ")";
  if (!reduction.empty())
    text += " reduction(" + reduction + ")";
  Value y = graph.emit(tuples ? "scatter_nd" : "scatter_elements", text,
                       "(" + typeText(x) + ", " + typeText(where) + ", " +
                           typeText(what) + ") -> " + typeText(x),
                       x.shape, "f32");
  y.scale = reduction == "mul" ? 4 : x.scale + 1;
  keep(y);
}

void GraphGenerator::embedding() {
  int64_t words = random.pick<int64_t>({3, 7, 17, 50}),
          width = random.pick<int64_t>({1, 4, 5, 8, 12, 16, 24}),
          batch = random.range(1, 3), length = random.range(1, 9);
  Value ids = graph.argument({batch, length},
                             random.pick<const char *>({"i32", "i64"}));
  Value y = graph.gather(graph.weight({words, width}, 1), ids, 0);
  if (random.chance(60)) {
    Value places = random.chance(50)
                       ? graph.weight({length, width}, 0.5)
                       : graph.gather(graph.weight({length + 2, width}, 0.5),
                                      graph.iota({1, length}, 1, "i64"), 0);
    y = graph.binary("add", y, places);
  }
  y.scale = 1.2;
  keep(y);
}
