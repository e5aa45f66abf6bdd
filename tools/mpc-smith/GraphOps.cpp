//===- GraphOps.cpp - Op builders and properties of their results ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TextGraphBuilder.h"

#include <algorithm>
#include <cmath>

using namespace mpc;
using namespace mpc::smith;

Value Graph::unary(const std::string &op, const Value &x,
                   const std::string &attributes) {
  std::string operands = x.name + (attributes.empty() ? "" : " " + attributes);
  Value result = emit(op, operands, typeText(x), x.shape, x.element);
  result.scale = x.scale;
  return result;
}

/// "(A, B) -> C".
static std::string functional(const std::vector<Value> &operands,
                              const Shape &shape, const std::string &element) {
  std::string text = "(";
  for (size_t i = 0; i < operands.size(); ++i)
    text += (i ? ", " : "") + typeText(operands[i]);
  return text + ") -> " + typeText(shape, element);
}

Value Graph::binary(const std::string &op, const Value &x, const Value &y) {
  Shape shape = broadcastShapes(x.shape, y.shape);
  Value result = emit(op, x.name + ", " + y.name,
                      functional({x, y}, shape, x.element), shape, x.element);
  bool product = op == "mul";
  result.scale = product                      ? x.scale * y.scale
                 : op == "div"                ? x.scale / std::max(y.scale, 0.1)
                 : op == "max" || op == "min" ? std::max(x.scale, y.scale)
                                              : std::hypot(x.scale, y.scale);
  bool exact = x.content == Content::Exact && y.content == Content::Exact;
  if (exact &&
      (op == "add" || op == "sub" || product || op == "max" || op == "min")) {
    if (op == "add" || op == "sub")
      result.scale = x.scale + y.scale;
    // bfloat16 holds integers exactly up to 256.
    if (result.scale <= 128)
      result.content = Content::Exact;
  } else if ((op == "add" || op == "sub") && x.name != y.name) {
    bool distinct = (x.content == Content::Distinct &&
                     y.content != Content::Distinct && x.shape == shape) ||
                    (y.content == Content::Distinct &&
                     x.content != Content::Distinct && y.shape == shape);
    if (distinct)
      result.content = Content::Distinct;
  }
  result.positive =
      x.positive && y.positive && (op == "add" || op == "max" || op == "min");
  return result;
}

Value Graph::compare(const std::string &predicate, const Value &x,
                     const Value &y) {
  Shape shape = broadcastShapes(x.shape, y.shape);
  Value result = emit("compare", predicate + " " + x.name + ", " + y.name,
                      functional({x, y}, shape, "i1"), shape, "i1");
  result.content = Content::Exact;
  return result;
}

Value Graph::select(const Value &condition, const Value &x, const Value &y) {
  Shape shape =
      broadcastShapes(broadcastShapes(condition.shape, x.shape), y.shape);
  Value result =
      emit("select", condition.name + ", " + x.name + ", " + y.name,
           functional({condition, x, y}, shape, x.element), shape, x.element);
  result.scale = std::max(x.scale, y.scale);
  result.positive = x.positive && y.positive;
  if (x.content == Content::Exact && y.content == Content::Exact)
    result.content = Content::Exact;
  return result;
}

Value Graph::cast(const Value &x, const std::string &element, bool pinned) {
  Value result =
      emit("cast", x.name + (pinned ? " pinned" : ""),
           typeText(x) + " to " + typeText(x.shape, element), x.shape, element);
  result.content = x.content;
  result.scale = x.scale;
  result.positive = x.positive && result.isFloat();
  // Narrowing may make close values equal; other properties are kept.
  bool narrows = element == "f16" || element == "bf16";
  if (x.content == Content::Distinct && (narrows || !result.isFloat()))
    result.content = Content::Blurred;
  if (!result.isFloat())
    result.content = Content::Exact;
  return result;
}

Value Graph::clamp(const Value &x, const Value &low, const Value &high) {
  Value result =
      emit("clamp", x.name + ", " + low.name + ", " + high.name,
           functional({x, low, high}, x.shape, x.element), x.shape, x.element);
  result.scale = x.scale;
  return result;
}

/// A rearranged value with the properties of `from`.
static Value moved(Value value, const Value &from) {
  value.content = from.content;
  value.scale = from.scale;
  value.positive = from.positive;
  return value;
}

Value Graph::reshape(const Value &x, const Shape &shape) {
  return moved(emit("reshape", x.name,
                    typeText(x) + " to " + typeText(shape, x.element), shape,
                    x.element),
               x);
}

Value Graph::transpose(const Value &x, const Shape &permutation) {
  Shape shape;
  for (int64_t dimension : permutation)
    shape.push_back(x.shape[size_t(dimension)]);
  return moved(emit("transpose", x.name + " " + listText(permutation, "[", "]"),
                    typeText(x) + " to " + typeText(shape, x.element), shape,
                    x.element),
               x);
}

Value Graph::broadcast(const Value &x, const Shape &shape) {
  Value result = moved(emit("broadcast", x.name,
                            typeText(x) + " to " + typeText(shape, x.element),
                            shape, x.element),
                       x);
  if (result.content == Content::Distinct)
    result.content = Content::Blurred;
  return result;
}

Value Graph::concat(const std::vector<Value> &values, int64_t axis) {
  Shape shape = values[0].shape;
  shape[size_t(axis)] = 0;
  std::string names;
  Value facts = values[0];
  for (const Value &value : values) {
    shape[size_t(axis)] += value.shape[size_t(axis)];
    names += (names.empty() ? "" : ", ") + value.name;
    facts.scale = std::max(facts.scale, value.scale);
    facts.positive &= value.positive;
    if (facts.content != Content::Exact || value.content != Content::Exact)
      facts.content = Content::Blurred;
  }
  return moved(emit("concat", names + " axis(" + std::to_string(axis) + ")",
                    functional(values, shape, values[0].element), shape,
                    values[0].element),
               facts);
}

Value Graph::slice(const Value &x, const Shape &offsets, const Shape &sizes,
                   const Shape &strides) {
  std::string operands = x.name + " " + listText(offsets, "[", "]") + " " +
                         listText(sizes, "[", "]");
  if (!strides.empty())
    operands += " strides " + listText(strides, "[", "]");
  return moved(emit("slice", operands,
                    typeText(x) + " to " + typeText(sizes, x.element), sizes,
                    x.element),
               x);
}

Value Graph::reduce(const std::string &op, const Value &x, const Shape &axes,
                    bool keep) {
  Shape shape;
  int64_t length = 1;
  for (int64_t i = 0; i < x.rank(); ++i) {
    bool reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (reduced)
      length *= x.shape[size_t(i)];
    if (!reduced || keep)
      shape.push_back(reduced ? 1 : x.shape[size_t(i)]);
  }
  Value result =
      emit(op,
           x.name + " axes(" + listText(axes, "[", "]") + ")" +
               (keep ? " keep_dims" : ""),
           typeText(x) + " -> " + typeText(shape, x.element), shape, x.element);
  result.scale = x.scale;
  bool extreme = op == "reduce_max" || op == "reduce_min";
  if (op == "reduce_sum") {
    // Terms of one sign do not cancel.
    result.scale *= x.positive || x.content == Content::Exact
                        ? double(std::max<int64_t>(length, 1))
                        : std::sqrt(double(std::max<int64_t>(length, 1)));
    result.positive = x.positive && length > 0;
  } else {
    result.positive = x.positive && length > 0;
  }
  if (x.content == Content::Exact && (extreme || op == "reduce_sum") &&
      result.scale <= 128 && length > 0)
    result.content = Content::Exact;
  else if (x.content == Content::Distinct && op != "reduce_prod")
    result.content = Content::Distinct;
  return result;
}

Value Graph::softmax(const std::string &op, const Value &x, int64_t axis) {
  Value result = unary(op, x, "axis(" + std::to_string(axis) + ")");
  auto length = double(std::max<int64_t>(x.shape[size_t(axis)], 1));
  // log_softmax is a value's distance to its row's maximum, and more.
  result.scale =
      op == "softmax" ? 1 / std::sqrt(length) : 2 * x.scale + std::log(length);
  return result;
}

Value Graph::matmul(const Value &x, const Value &y, bool transposeX,
                    bool transposeY, const std::string &element) {
  size_t xr = x.shape.size(), yr = y.shape.size();
  Shape shape = broadcastShapes(Shape(x.shape.begin(), x.shape.end() - 2),
                                Shape(y.shape.begin(), y.shape.end() - 2));
  shape.push_back(x.shape[xr - (transposeX ? 1 : 2)]);
  shape.push_back(y.shape[yr - (transposeY ? 2 : 1)]);
  int64_t length = x.shape[xr - (transposeX ? 2 : 1)];
  std::string to = element.empty() ? x.element : element;
  std::string operands = x.name + ", " + y.name;
  if (transposeX)
    operands += " transpose_lhs";
  if (transposeY)
    operands += " transpose_rhs";
  Value result =
      emit("matmul", operands, functional({x, y}, shape, to), shape, to);
  // The terms of a square all have one sign.
  double terms = double(std::max<int64_t>(length, 1));
  result.scale =
      x.scale * y.scale * (x.name == y.name ? terms : std::sqrt(terms));
  if (x.content == Content::Distinct && y.content == Content::Distinct)
    result.content = Content::Distinct;
  return result;
}

Value Graph::gather(const Value &x, const Value &indices, int64_t axis) {
  Shape shape(x.shape.begin(), x.shape.begin() + axis);
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
  Value result = moved(
      emit("gather",
           x.name + ", " + indices.name + " axis(" + std::to_string(axis) + ")",
           functional({x, indices}, shape, x.element), shape, x.element),
      x);
  if (result.content == Content::Distinct)
    result.content = Content::Blurred;
  return result;
}

Value Graph::scaled(const Value &x, double factor) {
  if (factor == 1)
    return x;
  Value result = binary("mul", x, splat(factor, x.element));
  result.content =
      x.content == Content::Distinct ? Content::Distinct : Content::Blurred;
  result.scale = x.scale * std::fabs(factor);
  return result;
}
