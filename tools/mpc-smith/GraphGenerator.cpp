//===- GraphGenerator.cpp - Random graph generation -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphGenerator.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::smith;

//===----------------------------------------------------------------------===//
// Shapes and names
//===----------------------------------------------------------------------===//

int64_t GraphGenerator::extent() {
  if (random.chance(1))
    return 0;
  if (random.chance(6))
    return random.pick<int64_t>({20, 31, 32, 33, 48, 63, 64, 65});
  return random.pick<int64_t>(
      {1, 1, 2, 2, 3, 3, 4, 5, 5, 6, 7, 8, 8, 9, 11, 13, 15, 16, 17});
}

Shape GraphGenerator::drawShape(int64_t rank) {
  Shape shape;
  for (int64_t i = 0; i < rank; ++i)
    shape.push_back(extent());
  while (productOf(shape) > options.mostElements)
    *std::max_element(shape.begin(), shape.end()) = random.range(1, 5);
  return shape;
}

std::string GraphGenerator::floatElement() {
  return random.pick<const char *>(
      {"f16", "f16", "bf16", "bf16", "f64", "f32", "f32", "f32"});
}

std::string GraphGenerator::layerPath() {
  static const std::vector<std::string> names = {"",
                                                 "/",
                                                 "//",
                                                 "encoder",
                                                 "encoder/layer/0",
                                                 "encoder/layer/0/attention",
                                                 "encoder/layer/1",
                                                 "encoder/layer/10",
                                                 "decoder/layer/0",
                                                 "a",
                                                 "ab",
                                                 "a/b",
                                                 "a/bc",
                                                 "/lead",
                                                 "trail/",
                                                 "a//b",
                                                 "x.y.z",
                                                 "..",
                                                 "with space",
                                                 "q\xc3\xa9\xce\xb1",
                                                 "[0]",
                                                 "model/(block)*",
                                                 "0"};
  return random.pick(names);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

std::optional<Value>
GraphGenerator::find(const std::function<bool(const Value &)> &accept) {
  std::vector<const Value *> fitting;
  for (const Value &value : pool)
    if (accept(value))
      fitting.push_back(&value);
  if (fitting.empty())
    return std::nullopt;
  // The later of two choices: this makes chains long enough to be fused.
  auto size = int64_t(fitting.size());
  return *fitting[size_t(std::max(random.below(size), random.below(size)))];
}

Value GraphGenerator::floats(int64_t rank, bool exactly) {
  auto fits = [&](const Value &value) {
    return value.element == "f32" &&
           (exactly ? value.rank() == rank : value.rank() >= rank);
  };
  std::optional<Value> found = find(fits);
  if (found && !random.chance(8))
    return tame(*found);
  Shape shape = drawShape(std::max<int64_t>(rank, random.range(1, 3)));
  if (exactly)
    shape.resize(size_t(rank), 1);
  Value made = random.chance(80) || options.differentiable
                   ? graph.argument(shape, "f32")
                   : graph.weight(shape, 1);
  keep(made);
  return made;
}

Value GraphGenerator::tame(const Value &x) {
  if (x.scale <= 3 || !x.isFloat())
    return x;
  return graph.scaled(x, std::exp2(-std::ceil(std::log2(x.scale))));
}

Value GraphGenerator::positive(const Value &x) {
  if (x.positive && x.scale < 8)
    return x;
  Value y = tame(x);
  switch (random.below(4)) {
  case 0:
    y = graph.unary("abs", y);
    break;
  case 1:
    y = graph.unary("sigmoid", y);
    break;
  case 2:
    y = graph.binary("mul", y, y);
    break;
  default:
    y = graph.unary("softplus", y);
    break;
  }
  Value sum = graph.binary(
      "add", y, graph.splat(random.pick({0.5, 1.0, 0.75}), y.element));
  sum.positive = true;
  sum.scale = y.scale + 1;
  return sum;
}

Value GraphGenerator::partner(const Value &x) {
  auto fits = [&](const Value &value) {
    if (value.element != x.element || value.rank() > x.rank() ||
        value.name == x.name)
      return false;
    for (int64_t i = 1; i <= value.rank(); ++i) {
      int64_t extent = value.shape[size_t(value.rank() - i)];
      if (extent != 1 && extent != x.shape[size_t(x.rank() - i)])
        return false;
    }
    return true;
  };
  if (std::optional<Value> found = find(fits); found && !random.chance(25))
    return x.isFloat() ? tame(*found) : *found;
  if (random.chance(25))
    return graph.splat(x.isFloat()
                           ? random.pick({0.5, -1.0, 2.0, 0.1, 1.0, -0.25})
                           : double(random.range(0, 3)),
                       x.element);
  // A row, a column, or the full shape.
  Shape shape = x.shape;
  int form = int(random.below(4));
  if (form == 0 && !shape.empty())
    shape = {shape.back()};
  else if (form == 1)
    for (int64_t &extent : shape)
      extent = random.chance(50) ? 1 : extent;
  if (!x.isFloat())
    return graph.integers(shape, 0, x.element == "i1" ? 1 : 5, x.element);
  if (random.chance(30) && x.element == "f32") {
    Value made = graph.argument(shape, x.element);
    keep(made);
    return made;
  }
  return graph.weight(shape, random.pick({1.0, 0.5}), x.element);
}

Value GraphGenerator::ordered(int64_t leastRank) {
  auto fits = [&](const Value &value) {
    return value.rank() >= leastRank && value.isFloat() &&
           value.content != Content::Blurred;
  };
  if (std::optional<Value> found = find(fits); found && !random.chance(20))
    return *found;
  Value made = graph.argument(
      drawShape(std::max<int64_t>(leastRank, random.range(1, 3))), "f32");
  keep(made);
  return made;
}

Value GraphGenerator::parameter(const Shape &shape, double scale, double mean,
                                const std::string &element) {
  if (random.chance(options.differentiable ? 0 : 12) && mean == 0 &&
      element == "f32") {
    Value made = graph.argument(shape, element);
    return graph.scaled(made, scale);
  }
  return graph.weight(shape, scale, element, mean);
}

Value GraphGenerator::flags(const Shape &shape) {
  Shape narrow = shape;
  if (random.chance(50))
    for (int64_t &extent : narrow)
      extent = random.chance(40) ? 1 : extent;
  switch (random.below(options.differentiable ? 3 : 6)) {
  case 0:
    return graph.integers(narrow, 0, 1, "i1");
  case 1: {
    // A padding mask: positions below a bound.
    if (narrow.empty())
      return graph.integers(narrow, 0, 1, "i1");
    int64_t axis = random.below(int64_t(narrow.size()));
    std::string element = random.pick<const char *>({"i32", "i64", "f32"});
    Value place = graph.iota(narrow, axis, element);
    return graph.compare(
        random.pick<const char *>({"lt", "le", "gt", "ne"}), place,
        graph.splat(double(random.below(narrow[size_t(axis)] + 1)), element));
  }
  case 2: {
    Value x = graph.weight(narrow, 1);
    return graph.compare(random.pick<const char *>({"gt", "lt", "ge"}), x,
                         graph.splat(0.3));
  }
  case 3:
    return graph.unary("not", graph.argument(narrow, "i1"));
  case 4:
    return graph.cast(graph.argument(narrow, "i32"), "i1");
  default: {
    Value made = graph.argument(narrow, "i1");
    keep(made);
    return made;
  }
  }
}

Value GraphGenerator::activation(const Value &x) {
  switch (random.below(12)) {
  case 0:
  case 1:
    return graph.unary("relu", x);
  case 2:
    return graph.unary("gelu", x,
                       random.chance(50) ? "form(tanh)" : "form(erf)");
  case 3:
    return graph.unary("silu", x);
  case 4:
    return graph.unary("tanh", x);
  case 5:
    return graph.unary("sigmoid", x);
  case 6:
    return graph.unary("leaky_relu", x, "alpha(1.000000e-01)");
  case 7:
    return graph.unary("elu", x, "alpha(1.0)");
  default:
    return x;
  }
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

void GraphGenerator::draw() {
  struct Weighted {
    Piece piece;
    int weight;
    bool differentiable;
  };
  static const std::vector<Weighted> pieces = {
      {&GraphGenerator::unaryChain, 10, true},
      {&GraphGenerator::arithmetic, 12, true},
      {&GraphGenerator::choices, 7, true},
      {&GraphGenerator::conversions, 5, true},
      {&GraphGenerator::integerArithmetic, 4, false},
      {&GraphGenerator::wholeFloats, 4, false},
      {&GraphGenerator::activationForms, 4, true},
      {&GraphGenerator::denseLayers, 12, true},
      {&GraphGenerator::productOfValues, 6, true},
      {&GraphGenerator::convolution, 7, true},
      {&GraphGenerator::transposedConvolution, 3, true},
      {&GraphGenerator::pooling, 4, true},
      {&GraphGenerator::recurrent, 3, true},
      {&GraphGenerator::quantizedLayers, 4, false},
      {&GraphGenerator::attentionOp, 4, true},
      {&GraphGenerator::attentionOfOps, 5, true},
      {&GraphGenerator::attentionLayer, 5, true},
      {&GraphGenerator::norms, 7, true},
      {&GraphGenerator::normOfOps, 4, true},
      {&GraphGenerator::softmaxes, 7, true},
      {&GraphGenerator::reductions, 7, true},
      {&GraphGenerator::positions, 6, false},
      {&GraphGenerator::losses, 2, false},
      {&GraphGenerator::movement, 10, true},
      {&GraphGenerator::padding, 4, true},
      {&GraphGenerator::gathers, 5, false},
      {&GraphGenerator::scatters, 4, false},
      {&GraphGenerator::embedding, 4, false}};
  graph.namedPercent = random.pick({0, 40, 90});
  int layered = random.pick({0, 50, 100});
  // Boosts a few of the pieces, so that each graph has a focus.
  std::vector<int> weights;
  weights.reserve(pieces.size());
  for (const Weighted &piece : pieces)
    weights.push_back(options.differentiable && !piece.differentiable
                          ? 0
                          : piece.weight * random.pick({0, 1, 1, 1, 4}));
  if (std::all_of(weights.begin(), weights.end(), [](int w) { return !w; }))
    weights[0] = 1;
  int total = 0;
  for (int weight : weights)
    total += weight;
  // A piece adds nothing if no value is suitable.
  for (int tries = 0; graph.opCount() < options.ops && tries < 200; ++tries) {
    if (random.chance(70))
      graph.enterLayer(layerPath(), random.chance(layered));
    int64_t at = random.below(total);
    size_t choice = 0;
    while (at >= weights[choice])
      at -= weights[choice++];
    (this->*pieces[choice].piece)();
  }
  if (pool.empty())
    keep(graph.argument({2, 3}, "f32"));

  if (options.differentiable)
    graph.finish({lossOutput()});
  else
    graph.finish(chooseResults());
}

std::vector<Value> GraphGenerator::chooseResults() {
  // The last unused values, so that little of the graph is dead code.
  std::vector<Value> results;
  size_t wanted = size_t(random.range(1, 6));
  for (size_t i = pool.size(); i-- > 0 && results.size() < wanted;)
    if (results.empty() || (!graph.isRead(pool[i]) && random.chance(90)))
      results.push_back(pool[i]);
  if (random.chance(10))
    results.push_back(random.pick(pool));
  if (random.chance(6))
    results.push_back(results.front());
  if (random.chance(5) && !graph.arguments().empty())
    results.push_back(random.pick(graph.arguments()));
  if (random.chance(4))
    results.push_back(graph.weight({3, 2}, 1));
  return results;
}

Value GraphGenerator::lossOutput() {
  std::vector<Value> open;
  for (const Value &value : pool)
    if (value.element == "f32" && value.count() > 0 && !graph.isRead(value))
      open.push_back(value);
  Value last = open.empty()
                   ? graph.argument({random.range(1, 5), extent() + 1}, "f32")
                   : open.back();
  last = tame(last);
  // Other branches contribute their means.
  for (size_t i = 0; i + 1 < open.size() && i < 4; ++i) {
    Shape axes;
    for (int64_t axis = 0; axis < open[i].rank(); ++axis)
      axes.push_back(axis);
    Value mean = axes.empty()
                     ? open[i]
                     : graph.reduce("reduce_mean", tame(open[i]), axes, false);
    last = graph.binary("add", last, mean);
  }
  if (last.rank() < 2)
    last = graph.reshape(last, {1, last.count()});
  return dense(last, random.range(2, 7), random.chance(75));
}

std::string smith::drawGraph(Random &random, const GeneratorOptions &options,
                             Graph &graph) {
  GraphGenerator(random, graph, options).draw();
  return graph.text();
}
