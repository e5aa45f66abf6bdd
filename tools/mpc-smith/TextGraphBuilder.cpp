//===- TextGraphBuilder.cpp - Builder of graph text -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TextGraphBuilder.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstring>

using namespace mpc;
using namespace mpc::smith;

//===----------------------------------------------------------------------===//
// Texts
//===----------------------------------------------------------------------===//

int64_t smith::productOf(const Shape &shape) {
  int64_t product = 1;
  for (int64_t extent : shape)
    product *= extent;
  return product;
}

int64_t Value::count() const { return productOf(shape); }

bool Value::isFloat() const { return element.find('f') != std::string::npos; }

std::string smith::typeText(const Shape &shape, const std::string &element) {
  std::string text = "tensor<";
  for (int64_t extent : shape)
    text += std::to_string(extent) + "x";
  return text + element + ">";
}

std::string smith::typeText(const Value &value) {
  return typeText(value.shape, value.element);
}

std::string smith::listText(const Shape &numbers, const char *open,
                            const char *close) {
  std::string text = open;
  for (size_t i = 0; i < numbers.size(); ++i)
    text += (i ? ", " : "") + std::to_string(numbers[i]);
  return text + close;
}

std::string smith::numberText(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.9g", value);
  std::string number = text;
  if (number.find_first_of("einf") == std::string::npos &&
      number.find('.') == std::string::npos)
    return number + ".0";
  // MLIR's syntax requires a fraction before the exponent.
  size_t exponent = number.find('e');
  if (exponent != std::string::npos && number.find('.') == std::string::npos)
    number.insert(exponent, ".0");
  return number;
}

Shape smith::broadcastShapes(const Shape &lhs, const Shape &rhs) {
  Shape result(std::max(lhs.size(), rhs.size()), 1);
  for (const Shape *shape : {&lhs, &rhs})
    for (size_t i = 0; i < shape->size(); ++i) {
      int64_t extent = (*shape)[shape->size() - 1 - i];
      if (extent != 1)
        result[result.size() - 1 - i] = extent;
    }
  return result;
}

bool smith::broadcastsTo(const Shape &from, const Shape &to) {
  if (from.size() > to.size())
    return false;
  for (size_t i = 1; i <= from.size(); ++i) {
    int64_t extent = from[from.size() - i];
    if (extent != 1 && extent != to[to.size() - i])
      return false;
  }
  return true;
}

/// A string literal with MLIR's escapes.
static std::string stringText(const std::string &text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    result += c;
  }
  return result + "\"";
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

Value Graph::argument(const Shape &shape, const std::string &element) {
  size_t index = inputs.size();
  Value value = {
      .name = "%a" + std::to_string(index), .element = element, .shape = shape};
  bool isFloat = value.isFloat();
  value.content = isFloat ? Content::Distinct : Content::Exact;
  std::string name = "a" + std::to_string(index);
  signature += (index ? ", " : "") + value.name + ": " + typeText(value) +
               " {mpc.role = #mpc.role<input>, mpc.name = \"" + name + "\"}";
  inputs.push_back(value);
  return value;
}

Value Graph::constant(const std::string &literal, const Shape &shape,
                      const std::string &element) {
  Value value = {.name = "%" + std::to_string(counter++),
                 .element = element,
                 .shape = shape};
  body += "  " + value.name + " = mpc.constant dense<" + literal +
          "> : " + typeText(value) + "\n";
  return value;
}

static std::string elementText(double value, const std::string &element) {
  if (element == "i1")
    return value != 0 ? "true" : "false";
  if (element[0] == 'i' || element[0] == 'u')
    return std::to_string(int64_t(value));
  if (!std::isfinite(value)) {
    bool negative = value < 0;
    if (element == "f32")
      return negative ? "0xFF800000" : "0x7F800000";
    if (element == "f64")
      return negative ? "0xFFF0000000000000" : "0x7FF0000000000000";
    if (element == "f16")
      return negative ? "0xFC00" : "0x7C00";
    return negative ? "0xFF80" : "0x7F80";
  }
  return numberText(value);
}

Value Graph::splat(double value, const std::string &element,
                   const Shape &shape) {
  bool empty = productOf(shape) == 0;
  Value result =
      constant(empty ? "" : elementText(value, element), shape, element);
  result.scale = std::fabs(value);
  bool whole = value == std::floor(value) && result.scale <= 128;
  result.content = whole ? Content::Exact : Content::Blurred;
  result.positive = value >= 0.1;
  return result;
}

std::string Graph::constantText(const std::vector<double> &values,
                                const std::string &element) const {
  if (element == "f32" && values.size() > 16) {
    std::string text = "\"0x";
    for (double value : values) {
      auto bits = std::bit_cast<uint32_t>(float(value));
      char digits[9];
      std::snprintf(digits, sizeof(digits), "%08X", __builtin_bswap32(bits));
      text += digits;
    }
    return text + "\"";
  }
  return {};
}

/// A nested list with the dimensions of the shape.
static std::string nestedText(const std::vector<double> &values,
                              const std::string &element, const Shape &shape,
                              size_t dimension, size_t &at) {
  if (dimension == shape.size())
    return elementText(values[at++], element);
  std::string text = "[";
  for (int64_t i = 0; i < shape[dimension]; ++i)
    text +=
        (i ? ", " : "") + nestedText(values, element, shape, dimension + 1, at);
  return text + "]";
}

Value Graph::elements(const Shape &shape, const std::string &element,
                      const std::vector<double> &values) {
  std::string literal;
  if (!values.empty()) {
    literal = constantText(values, element);
    size_t at = 0;
    if (literal.empty())
      literal = nestedText(values, element, shape, 0, at);
  }
  Value result = constant(literal, shape, element);
  result.scale = 0;
  for (double value : values)
    result.scale = std::max(result.scale, std::fabs(value));
  return result;
}

Value Graph::weight(const Shape &shape, double scale,
                    const std::string &element, double mean) {
  std::vector<double> values;
  for (int64_t i = productOf(shape); i > 0; --i)
    values.push_back(mean + scale * random.normal());
  Value result = elements(shape, element, values);
  result.scale = std::sqrt(mean * mean + scale * scale);
  result.content = Content::Distinct;
  return result;
}

Value Graph::integers(const Shape &shape, int64_t low, int64_t high,
                      const std::string &element) {
  std::vector<double> values;
  for (int64_t i = productOf(shape); i > 0; --i)
    values.push_back(double(random.range(low, high)));
  Value result = elements(shape, element, values);
  result.content = Content::Exact;
  return result;
}

Value Graph::iota(const Shape &shape, int64_t axis,
                  const std::string &element) {
  Value result = emit("iota", "axis(" + std::to_string(axis) + ")",
                      typeText(shape, element), shape, element);
  result.content = Content::Exact;
  result.scale = double(shape[size_t(axis)]);
  return result;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

void Graph::enterLayer(const std::string &path, bool known) {
  layer = path;
  hasLayer = known;
  if (known &&
      std::find(usedLayers.begin(), usedLayers.end(), path) == usedLayers.end())
    usedLayers.push_back(path);
}

std::vector<Value>
Graph::emit(const std::string &op, const std::string &operands,
            const std::string &signature,
            const std::vector<std::pair<Shape, std::string>> &to) {
  std::string name = "%" + std::to_string(counter++);
  std::vector<Value> results;
  results.reserve(to.size());
  for (size_t i = 0; i < to.size(); ++i)
    results.push_back(
        {.name = to.size() == 1 ? name : name + "#" + std::to_string(i),
         .element = to[i].second,
         .shape = to[i].first});
  if (to.size() > 1)
    name += ":" + std::to_string(to.size());
  body += "  " + name + " = mpc." + op + " " + operands;
  if (hasLayer)
    body += " {mpc.layer = " + stringText(layer) + "}";
  body += " : " + signature;
  if (random.chance(namedPercent)) {
    // Some ops share a name, as in exports of fused ops.
    std::string label =
        random.chance(15) && !usedNames.empty()
            ? random.pick(usedNames)
            : (hasLayer && random.chance(60) ? layer + "/" : "") + op +
                  std::to_string(counter);
    // MLIR requires a name.
    if (label.empty())
      label = "n";
    body += " loc(" + stringText(label) + ")";
    usedNames.push_back(label);
  }
  body += "\n";
  ++count;
  if (std::find(usedKinds.begin(), usedKinds.end(), op) == usedKinds.end())
    usedKinds.push_back(op);
  return results;
}

Value Graph::emit(const std::string &op, const std::string &operands,
                  const std::string &signature, const Shape &shape,
                  const std::string &element) {
  return emit(op, operands, signature, {{shape, element}}).front();
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

bool Graph::isRead(const Value &value) const {
  size_t length = value.name.size();
  for (size_t at = body.find(value.name); at != std::string::npos;
       at = body.find(value.name, at + 1)) {
    char next = body[at + length];
    // Skip its definition, and longer names with this prefix.
    bool defined = body.compare(at + length, 2, " =") == 0 || next == ':';
    if (!std::isdigit(static_cast<unsigned char>(next)) && !defined)
      return true;
  }
  return false;
}

void Graph::finish(const std::vector<Value> &values) {
  std::string names, types;
  results.clear();
  for (size_t i = 0; i < values.size(); ++i) {
    std::string comma = i ? ", " : "", type = typeText(values[i]);
    names += comma + values[i].name;
    types += comma + type;
    results += comma + type + " {mpc.role = #mpc.role<output>, mpc.name = \"r" +
               std::to_string(i) + "\"}";
  }
  terminator = "  return " + names + " : " + types + "\n";
}

std::string Graph::text() const {
  return "func.func @main(" + signature + ") -> (" + results + ") {\n" + body +
         terminator + "}\n";
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

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
