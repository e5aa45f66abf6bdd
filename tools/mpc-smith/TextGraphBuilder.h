//===- TextGraphBuilder.h - Builder of graph text ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function of mpc ops, built as text op by op. The builders infer result
// types themselves, so that generation does not depend on the code under test.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_SMITH_TEXTGRAPHBUILDER_H
#define MPC_TOOLS_SMITH_TEXTGRAPHBUILDER_H

#include "Random.h"

#include <string>
#include <vector>

namespace mpc::smith {

using Shape = std::vector<int64_t>;

/// Known properties of a value's elements, used to keep its users well
/// conditioned.
enum class Content {
  /// Random values; nearly equal pairs are rare, so the order is almost always
  /// the same in every precision.
  Distinct,
  /// Integers of at most `scale`, exact in every float type and every
  /// precision.
  Exact,
  /// Anything else: its order and small differences depend on rounding.
  Blurred,
};

struct Value {
  std::string name;
  std::string element;
  Shape shape;
  Content content = Content::Blurred;
  /// Approximate root mean square of the elements; the maximum for Exact.
  double scale = 1;
  /// At least 0.1 everywhere.
  bool positive = false;

  int64_t rank() const { return int64_t(shape.size()); }
  int64_t count() const;
  bool isFloat() const;
};

/// "tensor<2x3xf32>".
std::string typeText(const Shape &shape, const std::string &element);
std::string typeText(const Value &value);
/// "1, 2, 3", in the given brackets if any.
std::string listText(const Shape &numbers, const char *open = "",
                     const char *close = "");
/// A number as the text of a float attribute.
std::string numberText(double value);
int64_t productOf(const Shape &shape);
/// Broadcasts as NumPy does; the shapes must be compatible.
Shape broadcastShapes(const Shape &lhs, const Shape &rhs);

/// Whether a value of shape `from` broadcasts to `to`.
bool broadcastsTo(const Shape &from, const Shape &to);

class Graph {
public:
  explicit Graph(Random &random) : random(random) {}

  //===--------------------------------------------------------------------===//
  // Sources
  //===--------------------------------------------------------------------===//

  Value argument(const Shape &shape, const std::string &element);
  /// A constant with all elements equal.
  Value splat(double value, const std::string &element = "f32",
              const Shape &shape = {});
  /// Normally distributed, with the given scale around `mean`.
  Value weight(const Shape &shape, double scale,
               const std::string &element = "f32", double mean = 0);
  /// Integers in [low, high].
  Value integers(const Shape &shape, int64_t low, int64_t high,
                 const std::string &element);
  Value elements(const Shape &shape, const std::string &element,
                 const std::vector<double> &values);
  Value iota(const Shape &shape, int64_t axis, const std::string &element);

  //===--------------------------------------------------------------------===//
  // Ops
  //===--------------------------------------------------------------------===//

  /// `mpc.OP OPERANDS : SIGNATURE` with results of the given types. The caller
  /// sets their numerical properties.
  std::vector<Value> emit(const std::string &op, const std::string &operands,
                          const std::string &signature,
                          const std::vector<std::pair<Shape, std::string>> &to);
  Value emit(const std::string &op, const std::string &operands,
             const std::string &signature, const Shape &shape,
             const std::string &element);

  /// Result of the operand's type; attributes follow the operand.
  Value unary(const std::string &op, const Value &x,
              const std::string &attributes = "");
  Value binary(const std::string &op, const Value &x, const Value &y);
  Value compare(const std::string &predicate, const Value &x, const Value &y);
  Value select(const Value &condition, const Value &x, const Value &y);
  Value cast(const Value &x, const std::string &element, bool pinned = false);
  Value clamp(const Value &x, const Value &low, const Value &high);
  Value reshape(const Value &x, const Shape &shape);
  Value transpose(const Value &x, const Shape &permutation);
  Value broadcast(const Value &x, const Shape &shape);
  Value concat(const std::vector<Value> &values, int64_t axis);
  Value slice(const Value &x, const Shape &offsets, const Shape &sizes,
              const Shape &strides = {});
  Value reduce(const std::string &op, const Value &x, const Shape &axes,
               bool keep);
  Value softmax(const std::string &op, const Value &x, int64_t axis);
  Value matmul(const Value &x, const Value &y, bool transposeX = false,
               bool transposeY = false, const std::string &element = "");
  Value gather(const Value &x, const Value &indices, int64_t axis);
  /// x * factor, or x if the factor is 1.
  Value scaled(const Value &x, double factor);

  //===--------------------------------------------------------------------===//
  // Names
  //===--------------------------------------------------------------------===//

  /// Sets the layer of the following ops; none with `known` unset.
  void enterLayer(const std::string &path, bool known = true);
  /// Percentage of ops with a name.
  int namedPercent = 40;

  //===--------------------------------------------------------------------===//
  // Output
  //===--------------------------------------------------------------------===//

  /// Makes `values` the results, in this order.
  void finish(const std::vector<Value> &values);
  std::string text() const;
  int opCount() const { return count; }
  /// Whether an op uses `value`.
  bool isRead(const Value &value) const;
  /// The op kinds used so far, each once, for overrides.
  const std::vector<std::string> &kinds() const { return usedKinds; }
  const std::vector<std::string> &layers() const { return usedLayers; }
  const std::vector<std::string> &names() const { return usedNames; }
  const std::vector<Value> &arguments() const { return inputs; }

private:
  std::string constantText(const std::vector<double> &values,
                           const std::string &element) const;
  Value constant(const std::string &literal, const Shape &shape,
                 const std::string &element);

  Random &random;
  std::vector<Value> inputs;
  std::string signature, body, results, terminator;
  std::string layer;
  bool hasLayer = false;
  std::vector<std::string> usedKinds, usedLayers, usedNames;
  int counter = 0, count = 0;
};

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_TEXTGRAPHBUILDER_H
