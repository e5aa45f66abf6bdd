//===- ExactGraph.cpp - Random graphs with bit-exact results --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExactGraph.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

using namespace mpc;
using namespace mpc::smith;

static bool isFloatName(const std::string &element) {
  return element.find('f') != std::string::npos;
}

ExactGraph::ExactGraph(Random &random, int ops) : random(random) {
  static const int64_t extents[] = {1, 2, 3, 5, 8, 16, 17, 33};
  std::vector<int64_t> base;
  for (int64_t rank = 1 + below(3); rank > 0; --rank)
    base.push_back(extents[below(std::size(extents))]);
  for (size_t i = 0; i < base.size(); ++i)
    permutation.push_back(i);
  random.shuffle(permutation);
  inverse.resize(base.size());
  std::vector<int64_t> moved, merged(base.begin(), base.end());
  for (size_t i = 0; i < base.size(); ++i) {
    moved.push_back(base[permutation[i]]);
    inverse[permutation[i]] = i;
  }
  if (merged.size() > 1) {
    merged[1] *= merged[0];
    merged.erase(merged.begin());
  }
  families = {base, moved, merged};
  argumentCount = 4 + below(4);
  for (size_t i = 0; i < argumentCount; ++i)
    addArgument(i);
  for (int i = 0; i < ops; ++i)
    addOp();
  finish();
}

std::string ExactGraph::drawFloat() {
  static const char *elements[] = {"f32", "f32", "f32",  "f32",
                                   "f16", "f16", "bf16", "bf16"};
  return chance(6) ? "f64" : elements[below(std::size(elements))];
}

std::string ExactGraph::typeOf(const Node &node) const {
  std::string text = "tensor<";
  for (int64_t extent : node.shape)
    text += std::to_string(extent) + "x";
  return text + node.element + ">";
}

template <typename Accept>
const ExactGraph::Node *ExactGraph::pick(Accept accept) {
  std::vector<const Node *> fitting;
  for (const Node &node : values)
    if (accept(node))
      fitting.push_back(&node);
  if (fitting.empty())
    return nullptr;
  // The larger of two choices: this makes chains long enough to be fused.
  return fitting[std::max(below(fitting.size()), below(fitting.size()))];
}

ExactGraph::Node &ExactGraph::define(std::string element,
                                     std::vector<int64_t> shape, int family) {
  values.push_back({"%" + std::to_string(counter++), std::move(element),
                    std::move(shape), family});
  return values.back();
}

void ExactGraph::addArgument(int index) {
  std::vector<int64_t> shape = families[0];
  // The first has the full shape; the next two are a column and a row.
  if (index == 1)
    shape.back() = 1;
  else if (index == 2 && shape.size() > 1)
    shape[shape.size() - 2] = 1;
  else if (index > 2)
    for (int64_t &extent : shape)
      extent = chance(25) ? 1 : extent;
  std::string element = index < 3    ? (chance(70) ? "f32" : drawFloat())
                        : index == 3 ? (chance(50) ? "i32" : "i1")
                                     : drawFloat();
  std::string name = "a" + std::to_string(index);
  values.push_back({"%" + name, element, shape, 0});
  arguments += (index ? ", " : "") + std::string("%") + name + ": " +
               typeOf(values.back()) +
               " {mpc.role = #mpc.role<input>, mpc.name = \"" + name + "\"}";
}

void ExactGraph::addOp() {
  Node x = *pick([](const Node &) { return true; });
  int64_t kind = below(100);
  if (kind < 12)
    addUnary(x);
  else if (kind < 60)
    addBinary(x);
  else if (kind < 68)
    addSelect(x);
  else if (kind < 84)
    addCast(x);
  else if (kind < 94)
    addMovement(x);
  else
    addProduct(x);
}

void ExactGraph::addUnary(const Node &x) {
  static const char *floats[] = {"sqrt", "neg", "abs", "sqrt", "relu"};
  static const char *integers[] = {"neg", "abs", "not"};
  const char *op = isFloatName(x.element) ? floats[below(std::size(floats))]
                   : x.element == "i1" ? "not"
                                       : integers[below(std::size(integers))];
  std::string type = typeOf(x), operand = x.name;
  Node &result = define(x.element, x.shape, x.family);
  body +=
      "  " + result.name + " = mpc." + op + " " + operand + " : " + type + "\n";
}

static std::vector<int64_t> broadcast(std::vector<int64_t> shape,
                                      const std::vector<int64_t> &other) {
  for (size_t i = 0; i < shape.size(); ++i)
    shape[i] = std::max(shape[i], other[i]);
  return shape;
}

void ExactGraph::addBinary(const Node &x) {
  const Node *found = pick([&](const Node &node) {
    return node.family == x.family && node.element == x.element;
  });
  Node y = *found;
  bool isFloat = isFloatName(x.element), isBool = x.element == "i1";
  std::string operands = x.name + ", " + y.name;
  std::string signature = " : (" + typeOf(x) + ", " + typeOf(y) + ") -> ";
  std::vector<int64_t> shape = broadcast(x.shape, y.shape);
  if (!isBool && chance(15)) {
    static const char *predicates[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    std::string predicate = predicates[below(std::size(predicates))];
    Node &result = define("i1", shape, x.family);
    body += "  " + result.name + " = mpc.compare " + predicate + " " +
            operands + signature + typeOf(result) + "\n";
    return;
  }
  static const char *floats[] = {"add", "sub", "mul", "div",
                                 "max", "min", "mul", "add"};
  static const char *integers[] = {"add", "sub", "mul", "div", "max",
                                   "min", "and", "or",  "xor"};
  static const char *bools[] = {"and", "or", "xor"};
  std::string op = isFloat  ? floats[below(std::size(floats))]
                   : isBool ? bools[below(std::size(bools))]
                            : integers[below(std::size(integers))];
  Node &result = define(x.element, shape, x.family);
  body += "  " + result.name + " = mpc." + op + " " + operands + signature +
          typeOf(result) + "\n";
}

void ExactGraph::addSelect(const Node &x) {
  const Node *condition = pick([&](const Node &node) {
    return node.family == x.family && node.element == "i1";
  });
  const Node *other = pick([&](const Node &node) {
    return node.family == x.family && node.element == x.element;
  });
  if (!condition)
    return;
  Node c = *condition, y = *other;
  std::vector<int64_t> shape = broadcast(broadcast(x.shape, y.shape), c.shape);
  std::string signature =
      " : (" + typeOf(c) + ", " + typeOf(x) + ", " + typeOf(y) + ") -> ";
  std::string operands = c.name + ", " + x.name + ", " + y.name;
  Node &result = define(x.element, shape, x.family);
  body += "  " + result.name + " = mpc.select " + operands + signature +
          typeOf(result) + "\n";
}

void ExactGraph::addCast(const Node &x) {
  std::string element = chance(80) ? drawFloat() : chance(70) ? "i32" : "i1";
  if (element == x.element)
    return;
  std::string from = typeOf(x), operand = x.name;
  std::string pinned = chance(30) ? " pinned" : "";
  Node &result = define(element, x.shape, x.family);
  body += "  " + result.name + " = mpc.cast " + operand + pinned + " : " +
          from + " to " + typeOf(result) + "\n";
}

static std::string listOf(const std::vector<int64_t> &numbers) {
  std::string text = "[";
  for (size_t i = 0; i < numbers.size(); ++i)
    text += (i ? ", " : "") + std::to_string(numbers[i]);
  return text + "]";
}

void ExactGraph::addMovement(const Node &x) {
  std::string from = typeOf(x), operand = x.name, element = x.element;
  std::vector<int64_t> shape = x.shape;
  if (x.family == 0 && shape == families[0] && chance(30)) {
    Node &result = define(element, families[2], 2);
    body += "  " + result.name + " = mpc.reshape " + operand + " : " + from +
            " to " + typeOf(result) + "\n";
  } else if (x.family == 2 && shape == families[2] && chance(60)) {
    Node &result = define(element, families[0], 0);
    body += "  " + result.name + " = mpc.reshape " + operand + " : " + from +
            " to " + typeOf(result) + "\n";
  } else if (x.family != 2 && shape.size() > 1 && chance(60)) {
    const std::vector<int64_t> &order = x.family == 0 ? permutation : inverse;
    std::vector<int64_t> moved;
    for (int64_t dimension : order)
      moved.push_back(shape[dimension]);
    Node &result = define(element, moved, 1 - x.family);
    body += "  " + result.name + " = mpc.transpose " + operand + " " +
            listOf(order) + " : " + from + " to " + typeOf(result) + "\n";
  } else if (element != "i1" && chance(50)) {
    // The maximum and minimum of several values are exact.
    size_t dimension = below(shape.size());
    shape[dimension] = 1;
    std::string op = chance(50) ? "reduce_max" : "reduce_min";
    Node &result = define(element, shape, x.family);
    body += "  " + result.name + " = mpc." + op + " " + operand + " axes([" +
            std::to_string(dimension) + "]) keep_dims : " + from + " -> " +
            typeOf(result) + "\n";
  } else {
    size_t dimension = below(shape.size());
    std::vector<int64_t> offsets(shape.size(), 0);
    offsets[dimension] = below(shape[dimension]);
    shape[dimension] = 1;
    Node &result = define(element, shape, x.family);
    body += "  " + result.name + " = mpc.slice " + operand + " " +
            listOf(offsets) + " " + listOf(shape) + " : " + from + " to " +
            typeOf(result) + "\n";
  }
}

void ExactGraph::addProduct(const Node &) {
  // A sum of one term does not depend on the order.
  auto isColumn = [](const Node &node) {
    return node.shape.size() > 1 && isFloatName(node.element) &&
           node.element != "f64" && node.shape.back() == 1;
  };
  const Node *column = pick(isColumn);
  if (!column)
    return;
  Node x = *column;
  const Node *row = pick([&](const Node &node) {
    return node.family == x.family && node.element == x.element &&
           node.shape[node.shape.size() - 2] == 1 &&
           std::equal(node.shape.begin(), node.shape.end() - 2,
                      x.shape.begin());
  });
  if (!row)
    return;
  Node y = *row;
  std::vector<int64_t> shape = x.shape;
  shape.back() = y.shape.back();
  // An underflowing product keeps its sign if the addition is fused (FMA) and
  // loses it if the product is added to zero separately.
  std::string zero = "%" + std::to_string(counter++),
              product = "%" + std::to_string(counter++);
  Node &result = define("f32", shape, x.family);
  std::string type = typeOf(result);
  body += "  " + product + " = mpc.matmul " + x.name + ", " + y.name + " : (" +
          typeOf(x) + ", " + typeOf(y) + ") -> " + type + "\n";
  body += "  " + zero + " = mpc.constant dense<0.0> : tensor<f32>\n";
  body += "  " + result.name + " = mpc.add " + product + ", " + zero + " : (" +
          type + ", tensor<f32>) -> " + type + "\n";
}

void ExactGraph::finish() {
  // The last values of each type, so that little of the graph is dead code.
  std::string names, types, results;
  size_t count = 0;
  for (const Node &node : llvm::reverse(values)) {
    if (count == 5 || (count > 0 && node.name[1] == 'a'))
      break;
    std::string comma = count ? ", " : "";
    names += comma + node.name;
    types += comma + typeOf(node);
    results += comma + typeOf(node) +
               " {mpc.role = #mpc.role<output>, mpc.name = \"r" +
               std::to_string(count) + "\"}";
    ++count;
  }
  function = "func.func @main(" + arguments + ") -> (" + results + ") {\n" +
             body + "  return " + names + " : " + types + "\n}\n";
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static double drawExtreme(mlir::FloatType type, Random &random) {
  const llvm::fltSemantics &semantics = type.getFloatSemantics();
  int precision = llvm::APFloat::semanticsPrecision(semantics);
  int most = llvm::APFloat::semanticsMaxExponent(semantics);
  int least = llvm::APFloat::semanticsMinExponent(semantics);
  double sign = random.below(2) ? -1 : 1;
  auto significand = [&] { return random.real(1, 2); };
  auto power = [&](int exponent) { return sign * std::ldexp(1.0, exponent); };
  switch (random.below(12)) {
  case 0:
    return sign * 0.0;
  case 1:
    return random.below(3) ? sign * std::numeric_limits<double>::infinity()
                           : std::numeric_limits<double>::quiet_NaN();
  case 2: // subnormal numbers
    return power(least - 1 - int(random.below(precision - 1))) * significand();
  case 3: // about the smallest normal number
    return power(least + int(random.below(3)) - 1) * significand();
  case 4: // about the largest
    return power(most - int(random.below(2))) *
           (2 - std::ldexp(double(random.below(4)), -precision));
  case 5: // any exponent
    return power(least + int(random.below(most - least))) * significand();
  case 6: // small integers: ties, equal values, exact quotients
    return sign * double(random.below(9));
  case 7: // the exponent range of f16, in any type
    return power(-25 + int(random.below(42))) * significand();
  default:
    return random.normal();
  }
}

reference::Tensor smith::drawExtremes(mlir::RankedTensorType type,
                                      Random &random) {
  reference::Tensor tensor(type);
  if (auto element = llvm::dyn_cast<mlir::FloatType>(type.getElementType()))
    for (double &value : tensor.floats())
      value = reference::roundTo(drawExtreme(element, random), element);
  for (int64_t &value : tensor.ints()) {
    auto whole = static_cast<int64_t>(random.bits());
    value = reference::wrapTo(random.below(2) ? whole : whole % 10,
                              type.getElementType());
  }
  return tensor;
}
