//===- GraphText.cpp - writer of mpc-dialect text -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::checkpoint;
using llvm::ArrayRef;
using llvm::StringRef;
using llvm::Twine;

static std::string textOf(const TensorType &type) {
  std::string text = "tensor<";
  for (int64_t extent : type.shape)
    text += std::to_string(extent) + "x";
  return text + std::string(elementTypeName(type.element)) + ">";
}

/// A number with a decimal point, as the lexer needs; exact for f64.
static std::string textOf(double value) {
  return llvm::formatv("{0:e17}", value).str();
}

/// "array<i64: 0, 2>"
static std::string listText(ArrayRef<int64_t> values) {
  if (values.empty())
    return "array<i64>";
  return "array<i64: " +
         llvm::join(llvm::map_range(
                        values, [](int64_t v) { return std::to_string(v); }),
                    ", ") +
         ">";
}

/// A name from a file or a table as a string attribute.
static std::string stringAttr(StringRef name) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << '"';
  llvm::printEscapedString(name, out);
  out << '"';
  return text;
}

/// Broadcasts shapes as NumPy does.
static std::vector<int64_t> broadcastShape(ArrayRef<int64_t> lhs,
                                           ArrayRef<int64_t> rhs) {
  if (lhs.size() < rhs.size())
    std::swap(lhs, rhs);
  std::vector<int64_t> shape = lhs.vec();
  for (size_t i = 0; i < rhs.size(); ++i) {
    int64_t &extent = shape[lhs.size() - rhs.size() + i];
    extent = extent == 1 ? rhs[i] : extent;
  }
  return shape;
}

Node GraphText::emit(StringRef op, ArrayRef<Node> operands, TensorType type,
                     const Twine &properties, const Twine &attributes) {
  Node made{count++, std::move(type)};
  llvm::raw_string_ostream out(body);
  out << "  %" << made.id << " = \"mpc." << op << "\"(";
  llvm::interleaveComma(operands, out,
                        [&](const Node &node) { out << "%" << node.id; });
  out << ")";
  if (std::string text = properties.str(); !text.empty())
    out << " <{" << text << "}>";
  std::string more = attributes.str();
  if (!layer.empty())
    more +=
        (more.empty() ? "mpc.layer = " : ", mpc.layer = ") + stringAttr(layer);
  if (!more.empty())
    out << " {" << more << "}";
  out << " : (";
  llvm::interleaveComma(operands, out,
                        [&](const Node &node) { out << textOf(node.type); });
  out << ") -> " << textOf(made.type);
  if (!layer.empty())
    out << " loc(" << stringAttr(layer + "/" + op.str()) << ")";
  out << "\n";
  return made;
}

Node GraphText::argument(StringRef name, TensorType type) {
  Node made{count++, std::move(type)};
  if (!arguments.empty())
    arguments += ",\n    ";
  arguments += "%" + std::to_string(made.id) + ": " + textOf(made.type) +
               " {mpc.name = " + stringAttr(name) +
               ", mpc.role = #mpc.role<input>}";
  return made;
}

void GraphText::result(StringRef name, const Node &value) {
  results.push_back({name.str(), value});
}

std::string GraphText::finish() const {
  std::string text = "func.func @main(" + arguments + ") -> (";
  llvm::raw_string_ostream out(text);
  auto list = [&](auto print) { llvm::interleaveComma(results, out, print); };
  list([&](const Output &output) {
    out << textOf(output.value.type)
        << " {mpc.name = " << stringAttr(output.name)
        << ", mpc.role = #mpc.role<output>}";
  });
  out << ") {\n" << body << "  func.return ";
  list([&](const Output &output) { out << "%" << output.value.id; });
  out << " : ";
  list([&](const Output &output) { out << textOf(output.value.type); });
  out << "\n}\n";
  return text;
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

Node GraphText::external(StringRef identity, const TensorType &type) {
  return emit("constant", {}, type,
              "value = dense<" + Twine(isFloat(type.element) ? "0.0" : "0") +
                  "> : " + textOf(type),
              "mpc.external = " + stringAttr(identity));
}

Node GraphText::numbers(ArrayRef<float> values, std::vector<int64_t> shape) {
  TensorType type{ElementType::F32, std::move(shape)};
  std::string list = llvm::join(
      llvm::map_range(values, [](float v) { return textOf(double(v)); }), ", ");
  return emit("constant", {}, type,
              "value = dense<[" + list + "]> : " + textOf(type));
}

Node GraphText::scalar(double value) {
  TensorType type{ElementType::F32, {}};
  return emit("constant", {}, type,
              "value = dense<" + textOf(value) + "> : " + textOf(type));
}

Node GraphText::integer(int64_t value) {
  TensorType type{ElementType::I64, {}};
  return emit("constant", {}, type,
              "value = dense<" + Twine(value) + "> : " + textOf(type));
}

Node GraphText::iota(std::vector<int64_t> shape, int64_t axis) {
  return emit("iota", {}, {ElementType::I64, std::move(shape)},
              "axis = " + Twine(axis) + " : i64");
}

//===----------------------------------------------------------------------===//
// Elementwise ops
//===----------------------------------------------------------------------===//

Node GraphText::unary(StringRef op, const Node &x, const Twine &attributes) {
  return emit(op, x, x.type, attributes);
}

Node GraphText::binary(StringRef op, const Node &lhs, const Node &rhs) {
  return emit(op, {lhs, rhs},
              {lhs.type.element, broadcastShape(lhs.shape(), rhs.shape())});
}

Node GraphText::compare(StringRef predicate, const Node &lhs, const Node &rhs) {
  return emit("compare", {lhs, rhs},
              {ElementType::I1, broadcastShape(lhs.shape(), rhs.shape())},
              "predicate = #mpc<compare_predicate " + predicate + ">");
}

Node GraphText::select(const Node &condition, const Node &lhs,
                       const Node &rhs) {
  std::vector<int64_t> shape = broadcastShape(
      condition.shape(), broadcastShape(lhs.shape(), rhs.shape()));
  return emit("select", {condition, lhs, rhs},
              {lhs.type.element, std::move(shape)});
}

Node GraphText::cast(const Node &x, ElementType element) {
  if (x.type.element == element)
    return x;
  return emit("cast", x, {element, x.shape()});
}

Node GraphText::decodeFloat(const Node &codes, ElementType format) {
  return emit("decode_float", codes, {ElementType::F32, codes.shape()},
              "format = " + Twine(elementTypeName(format)));
}

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

Node GraphText::reshape(const Node &x, std::vector<int64_t> shape) {
  if (x.shape() == shape)
    return x;
  return emit("reshape", x, {x.type.element, std::move(shape)});
}

Node GraphText::broadcast(const Node &x, std::vector<int64_t> shape) {
  return emit("broadcast", x, {x.type.element, std::move(shape)});
}

Node GraphText::transpose(const Node &x, ArrayRef<int64_t> order) {
  TensorType type{x.type.element, {}};
  for (int64_t dimension : order)
    type.shape.push_back(x.dim(dimension));
  return emit("transpose", x, std::move(type),
              "permutation = " + listText(order));
}

Node GraphText::slice(const Node &x, int64_t axis, int64_t offset, int64_t size,
                      int64_t stride) {
  axis = axis < 0 ? axis + int64_t(x.shape().size()) : axis;
  if (offset == 0 && size == x.dim(axis))
    return x;
  std::vector<int64_t> offsets(x.shape().size(), 0),
      sizes = x.shape(), strides(x.shape().size(), 1);
  offsets[axis] = offset;
  sizes[axis] = size;
  strides[axis] = stride;
  std::string properties =
      "offsets = " + listText(offsets) + ", sizes = " + listText(sizes);
  if (stride != 1)
    properties += ", strides = " + listText(strides);
  return emit("slice", x, {x.type.element, sizes}, properties);
}

Node GraphText::concat(ArrayRef<Node> parts, int64_t axis) {
  if (parts.size() == 1)
    return parts.front();
  TensorType type = parts.front().type;
  axis = axis < 0 ? axis + int64_t(type.shape.size()) : axis;
  type.shape[axis] = 0;
  for (const Node &part : parts)
    type.shape[axis] += part.dim(axis);
  return emit("concat", parts, std::move(type),
              "axis = " + Twine(axis) + " : i64");
}

Node GraphText::gather(const Node &table, const Node &indices) {
  TensorType type{table.type.element, indices.shape()};
  type.shape.push_back(table.dim(1));
  return emit("gather", {table, indices}, std::move(type), "axis = 0 : i64",
              "mpc.checked");
}

//===----------------------------------------------------------------------===//
// Reductions and contractions
//===----------------------------------------------------------------------===//

Node GraphText::cumsum(const Node &x, int64_t axis) {
  return emit("cumsum", x, x.type, "axis = " + Twine(axis) + " : i64");
}

Node GraphText::reduceSum(const Node &x, int64_t axis, bool keepDim) {
  TensorType type = x.type;
  if (keepDim)
    type.shape[axis] = 1;
  else
    type.shape.erase(type.shape.begin() + axis);
  return emit("reduce_sum", x, std::move(type),
              "axes = " + listText(axis) + (keepDim ? ", keep_dims" : ""));
}

Node GraphText::matmul(const Node &lhs, const Node &rhs, bool transposed) {
  ArrayRef<int64_t> left = lhs.shape(), right = rhs.shape();
  TensorType type{lhs.type.element,
                  broadcastShape(left.drop_back(2), right.drop_back(2))};
  type.shape.push_back(lhs.dim(-2));
  type.shape.push_back(rhs.dim(transposed ? -2 : -1));
  return emit("matmul", {lhs, rhs}, std::move(type),
              transposed ? "transpose_rhs" : "");
}

Node GraphText::softmax(const Node &x, int64_t axis) {
  return emit("softmax", x, x.type, "axis = " + Twine(axis) + " : i64");
}

/// Properties of a norm over the last dimension.
static std::string normText(const Node &x, double epsilon) {
  return "axis = " + std::to_string(x.shape().size() - 1) +
         " : i64, epsilon = " + textOf(epsilon) + " : f64";
}

Node GraphText::layerNorm(const Node &x, const Node &scale, const Node *bias,
                          double epsilon) {
  llvm::SmallVector<Node, 3> operands = {x, scale};
  if (bias)
    operands.push_back(*bias);
  return emit("layer_norm", operands, x.type, normText(x, epsilon));
}

Node GraphText::rmsNorm(const Node &x, const Node &scale, double epsilon) {
  return emit("rms_norm", {x, scale}, x.type, normText(x, epsilon));
}

Node GraphText::attention(const Node &query, const Node &key, const Node &value,
                          const Node *mask, double scale, bool causal) {
  llvm::SmallVector<Node, 4> operands = {query, key, value};
  if (mask)
    operands.push_back(*mask);
  TensorType type = query.type;
  type.shape.back() = value.dim(-1);
  return emit("attention", operands, std::move(type),
              "scale = " + textOf(scale) + " : f64" +
                  (causal ? ", causal" : ""));
}
