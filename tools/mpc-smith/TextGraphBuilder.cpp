//===- TextGraphBuilder.cpp - Builder of graph text -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TextGraphBuilder.h"

#include <algorithm>
#include <bit>
#include <cctype>
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
