//===- GenerateAttention.cpp - Random attention graphs --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphGenerator.h"

#include <limits>

using namespace mpc;
using namespace mpc::smith;

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

Value GraphGenerator::boolMask(int64_t batch, int64_t heads, int64_t rows,
                               int64_t columns) {
  Shape whole = {batch, heads, rows, columns};
  switch (random.below(6)) {
  case 0:
    // Of keys alone, and of less rank than the scores.
    return flags({columns});
  case 1: {
    // A key padding mask, from a validity flag per position.
    Value ignored =
        options.differentiable
            ? graph.integers({batch, columns}, 0, 1, "i1")
            : graph.argument({batch, columns},
                             random.pick<const char *>({"i1", "i32", "i64"}));
    Value kept =
        ignored.element == "i1"
            ? graph.unary("not", ignored)
            : graph.compare("eq", ignored, graph.splat(0, ignored.element));
    return graph.reshape(kept, {batch, 1, 1, columns});
  }
  case 2: {
    // A causal mask, by comparing positions.
    std::string element = random.pick<const char *>({"i32", "i64", "f32"});
    Value row = graph.iota({rows, 1}, 0, element),
          column = graph.iota({1, columns}, 1, element);
    if (random.chance(30) && columns > rows)
      row = graph.binary("add", row,
                         graph.splat(double(columns - rows), element));
    return random.chance(50) ? graph.compare("ge", row, column)
                             : graph.compare("le", column, row);
  }
  case 3: {
    // A sliding-window (banded) mask.
    Value row = graph.iota({rows, columns}, 0, "i32"),
          column = graph.iota({rows, columns}, 1, "i32");
    Value distance = graph.unary("abs", graph.binary("sub", row, column));
    return graph.compare("le", distance,
                         graph.splat(double(random.range(0, 4)), "i32"));
  }
  case 4: {
    std::vector<double> kept;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        kept.push_back(j <= i);
    return graph.elements({rows, columns}, "i1", kept);
  }
  default:
    for (int64_t &extent : whole)
      extent = random.chance(40) ? 1 : extent;
    return flags(whole);
  }
}

Value GraphGenerator::addedMask(const Value &flags) {
  double fill = random.pick(
      {-1e4, -1e9, -3e4, -60000.0, -std::numeric_limits<double>::infinity()});
  switch (random.below(3)) {
  case 0:
    return graph.select(flags, graph.splat(0), graph.splat(fill));
  case 1: {
    Value share = graph.binary("sub", graph.splat(1), graph.cast(flags, "f32"));
    // 0 * infinity is NaN.
    return graph.binary("mul", share,
                        graph.splat(std::isinf(fill) ? -1e4 : fill));
  }
  default: {
    Value inverse = graph.unary("not", flags);
    return graph.select(inverse, graph.splat(fill), graph.splat(0));
  }
  }
}

//===----------------------------------------------------------------------===//
// Heads
//===----------------------------------------------------------------------===//

Value GraphGenerator::splitHeads(const Value &x, int64_t batch, int64_t heads) {
  int64_t rows = x.shape[x.shape.size() - 2], width = x.shape.back();
  Value y = graph.reshape(x, {batch, rows, heads, width / heads});
  return graph.transpose(y, {0, 2, 1, 3});
}

Value GraphGenerator::mergeHeads(const Value &x) {
  Value y = graph.transpose(x, {0, 2, 1, 3});
  return graph.reshape(y, {x.shape[0], x.shape[2], x.shape[1] * x.shape[3]});
}

namespace {
/// Dimension sizes of one attention.
struct Extents {
  int64_t batch, heads, groups, rows, columns, depth, width;
};
} // namespace

static Extents drawExtents(Random &random) {
  Extents e;
  e.batch = random.range(1, 2);
  e.groups = random.range(1, 3);
  e.heads = e.groups * (random.chance(25) ? 2 : 1);
  e.rows = random.pick<int64_t>({1, 2, 3, 5, 7, 8, 9, 16, 17, 33});
  e.columns = random.chance(60)
                  ? e.rows
                  : random.pick<int64_t>({1, 2, 3, 5, 8, 13, 17, 31});
  e.depth = random.pick<int64_t>({1, 2, 4, 5, 8, 9, 16, 20});
  e.width = random.chance(80) ? e.depth : random.pick<int64_t>({1, 3, 8, 12});
  // Few queries and many keys: the split-K (flash-decoding) path.
  if (e.rows <= 3 && random.chance(15)) {
    e.columns = random.pick<int64_t>({600, 1031, 2080, 4129});
    e.depth = 16 * random.range(1, 3);
    e.width = 16 * random.range(1, 3);
  }
  return e;
}

/// The scale of the logits; the softmax is sensitive to its exponent.
static double drawScale(Random &random, int64_t depth) {
  double usual = 1 / std::sqrt(double(depth));
  return random.pick({usual, usual, 1.0 * usual, 0.5, 0.125});
}

void GraphGenerator::attentionOp() {
  Extents e = drawExtents(random);
  auto draw = [&](int64_t heads, int64_t rows, int64_t depth) {
    Shape shape = {e.batch, heads, rows, depth};
    std::optional<Value> found = find([&](const Value &value) {
      return value.element == "f32" && value.shape == shape;
    });
    return found && random.chance(60) ? tame(*found)
                                      : graph.argument(shape, "f32");
  };
  Value q = draw(e.heads, e.rows, e.depth),
        k = draw(e.groups, e.columns, e.depth),
        v = draw(e.groups, e.columns, e.width);
  std::string text = q.name + ", " + k.name + ", " + v.name;
  std::string signature =
      "(" + typeText(q) + ", " + typeText(k) + ", " + typeText(v);
  if (random.chance(60)) {
    Value mask = boolMask(e.batch, e.heads, e.rows, e.columns);
    if (random.chance(45))
      mask = addedMask(mask);
    text += " mask(" + mask.name + ")";
    signature += ", " + typeText(mask);
  }
  text += " scale(" + numberText(drawScale(random, e.depth)) + ")";
  if (random.chance(30))
    text += " causal";
  Shape shape = {e.batch, e.heads, e.rows, e.width};
  Value y =
      graph.emit("attention", text,
                 signature + ") -> " + typeText(shape, "f32"), shape, "f32");
  y.scale = 0.7;
  keep(y);
  if (random.chance(50))
    keep(mergeHeads(y));
}

/// A fully masked row has no softmax with a mask of -infinity; unmasking the
/// first column avoids one.
static Value keepFirstColumn(Random &random, Graph &graph, const Value &mask) {
  int64_t columns = mask.shape.back();
  Value place = graph.iota({columns}, 0, "i32");
  Value first = graph.compare("eq", place, graph.splat(0, "i32"));
  return graph.binary("or", mask, first);
}

/// Repeats each head `times` times, as exporters write grouped-query attention.
static Value repeatHeads(Random &random, Graph &graph, const Value &x,
                         int64_t times) {
  Shape shape = x.shape, one = shape, many;
  one.insert(one.begin() + 2, 1);
  many = one;
  many[2] = times;
  shape[1] *= times;
  Value parts = graph.reshape(x, one);
  Value repeated =
      random.chance(50)
          ? graph.broadcast(parts, many)
          : graph.concat(std::vector<Value>(size_t(times), parts), 2);
  Value y = graph.reshape(repeated, shape);
  y.scale = x.scale;
  return y;
}

void GraphGenerator::attentionOfOps() {
  Extents e = drawExtents(random);
  bool flat = random.chance(30);
  auto draw = [&](int64_t heads, int64_t rows, int64_t depth) {
    Shape shape =
        flat ? Shape{rows, depth} : Shape{e.batch, heads, rows, depth};
    std::optional<Value> found = find([&](const Value &value) {
      return value.element == "f32" && value.shape == shape;
    });
    return found && random.chance(60) ? tame(*found)
                                      : graph.argument(shape, "f32");
  };
  Value q = draw(e.heads, e.rows, e.depth),
        k = draw(e.groups, e.columns, e.depth),
        v = draw(e.groups, e.columns, e.width);
  if (!flat && e.groups != e.heads) {
    k = repeatHeads(random, graph, k, e.heads / e.groups);
    v = repeatHeads(random, graph, v, e.heads / e.groups);
  }
  double scale = drawScale(random, e.depth);
  int scaledAt = int(random.below(4));
  if (scaledAt == 0)
    q = graph.scaled(q, scale);
  if (scaledAt == 1) {
    q = graph.scaled(q, std::sqrt(scale));
    k = graph.scaled(k, std::sqrt(scale));
  }
  Value scores;
  if (random.chance(50)) {
    Shape order = flat ? Shape{1, 0} : Shape{0, 1, 3, 2};
    scores = graph.matmul(q, graph.transpose(k, order));
  } else {
    scores = graph.matmul(q, k, false, true);
  }
  if (scaledAt == 2)
    scores = graph.scaled(scores, scale);
  if (scaledAt == 3)
    scores = graph.binary("div", scores, graph.splat(1 / scale));
  if (scores.scale > 6)
    scores = tame(scores);
  if (random.chance(20)) {
    // A position bias in addition to the mask.
    Shape shape = scores.shape;
    for (int64_t &extent : shape)
      extent = random.chance(30) ? 1 : extent;
    scores = graph.binary("add", scores, graph.argument(shape, "f32"));
    scores.scale = 2;
  }
  if (random.chance(60)) {
    Value mask = flat ? flags({e.rows, e.columns})
                      : boolMask(e.batch, e.heads, e.rows, e.columns);
    mask = keepFirstColumn(random, graph, mask);
    if (random.chance(50))
      scores = graph.select(mask, scores,
                            graph.splat(random.pick({-1e4, -1e9, -3e4})));
    else
      scores = graph.binary("add", scores, addedMask(mask));
    scores.scale = 2;
  }
  int64_t axis = scores.rank() - 1;
  Value weights = random.chance(60)
                      ? graph.softmax("softmax", scores, axis)
                      : softmaxOfOps(scores, axis, int(random.below(2)));
  weights.scale = 1 / std::sqrt(double(std::max<int64_t>(e.columns, 1)));
  if (random.chance(10))
    keep(weights);
  Value y = graph.matmul(weights, v);
  y.scale = 0.7;
  keep(y);
  if (!flat && random.chance(50))
    keep(mergeHeads(y));
}

void GraphGenerator::attentionLayer() {
  int64_t batch = random.range(1, 2), heads = random.range(1, 3),
          depth = random.pick<int64_t>({2, 4, 5, 8}), rows = random.range(1, 9);
  int64_t width = heads * depth;
  std::optional<Value> found = find([&](const Value &value) {
    return value.element == "f32" && value.rank() == 3 && value.shape[0] > 0 &&
           value.shape[1] > 0 && value.shape[1] < 40 &&
           value.shape[2] % heads == 0 && value.shape[2] > 0 &&
           value.shape[2] <= 64 && value.shape[0] <= 4;
  });
  Value x = found && random.chance(70)
                ? tame(*found)
                : graph.argument({batch, rows, width}, "f32");
  batch = x.shape[0];
  rows = x.shape[1];
  width = x.shape[2];
  Value memory = x;
  if (random.chance(20))
    memory = graph.argument({batch, random.range(1, 11), width}, "f32");
  int64_t columns = memory.shape[1];
  std::string path = layerPath();
  bool layered = random.chance(60);
  auto enter = [&](const char *part) {
    graph.enterLayer(path.empty() ? part : path + "/" + part, layered);
  };
  Value input = x;
  if (random.chance(50)) {
    graph.enterLayer(path, layered);
    Value scale = parameter({width}, 0.2, 1), bias = parameter({width}, 0.2);
    input = graph.emit("layer_norm",
                       x.name + ", " + scale.name + ", " + bias.name +
                           " axis(2) epsilon(1.0e-03)",
                       "(" + typeText(x) + ", " + typeText(scale) + ", " +
                           typeText(bias) + ") -> " + typeText(x),
                       x.shape, "f32");
    if (memory.name == x.name)
      memory = input;
  }
  Value q, k, v;
  if (memory.name == input.name && random.chance(30)) {
    enter("qkv");
    Value joined = dense(input, 3 * width, random.chance(50));
    Shape sizes = {batch, rows, width};
    q = graph.slice(joined, {0, 0, 0}, sizes);
    k = graph.slice(joined, {0, 0, width}, sizes);
    v = graph.slice(joined, {0, 0, 2 * width}, sizes);
  } else {
    bool bias = random.chance(60);
    enter("query");
    q = dense(input, width, bias);
    enter("key");
    k = dense(memory, width, bias);
    enter("value");
    v = dense(memory, width, bias);
  }
  graph.enterLayer(path, layered);
  q = splitHeads(q, batch, heads);
  k = splitHeads(k, batch, heads);
  v = splitHeads(v, batch, heads);
  double scale = 1 / std::sqrt(double(width / heads));
  Value y;
  if (random.chance(50)) {
    std::string text = q.name + ", " + k.name + ", " + v.name;
    std::string signature =
        "(" + typeText(q) + ", " + typeText(k) + ", " + typeText(v);
    if (random.chance(60)) {
      Value mask = boolMask(batch, heads, rows, columns);
      text += " mask(" + mask.name + ")";
      signature += ", " + typeText(mask);
    }
    y = graph.emit("attention", text + " scale(" + numberText(scale) + ")",
                   signature + ") -> " + typeText(q), q.shape, "f32");
  } else {
    Value scores =
        graph.scaled(graph.matmul(q, graph.transpose(k, {0, 1, 3, 2})), scale);
    if (random.chance(60)) {
      Value mask =
          keepFirstColumn(random, graph, boolMask(batch, heads, rows, columns));
      scores = graph.binary("add", scores, addedMask(mask));
    }
    y = graph.matmul(graph.softmax("softmax", scores, 3), v);
  }
  y.scale = 0.7;
  enter("output");
  y = dense(mergeHeads(y), width, random.chance(60));
  if (random.chance(70))
    y = graph.binary("add", x, y);
  keep(y);
}
