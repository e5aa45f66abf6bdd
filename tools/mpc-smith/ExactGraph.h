//===- ExactGraph.h - graphs whose results are exact ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Draws functions of the ops that promise the interpreter's bits, and inputs
// that reach the ends of the formats.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_SMITH_EXACTGRAPH_H
#define MPC_TOOLS_SMITH_EXACTGRAPH_H

#include "Random.h"

#include "mpc/Reference/Tensor.h"

#include <string>
#include <vector>

namespace mpc::smith {

/// A function `@main` in text: + - * / sqrt min max select compare cast, the
/// integer and boolean ops around them, products of one term, extremes along a
/// dimension, and movement between. Same seed, same text.
class ExactGraph {
public:
  ExactGraph(Random &random, int ops);

  const std::string &text() const { return function; }

private:
  /// A value's extents are those of its family or 1.
  struct Node {
    std::string name, element;
    std::vector<int64_t> shape;
    int family;
  };

  int64_t below(int64_t limit) { return random.below(limit); }
  bool chance(int percent) { return random.chance(percent); }
  std::string drawFloat();
  std::string typeOf(const Node &node) const;
  /// The last of `values`, or of those that `accept` takes, with a bias towards
  /// new ones; null where there is none.
  template <typename Accept> const Node *pick(Accept accept);
  Node &define(std::string element, std::vector<int64_t> shape, int family);
  void addArgument(int index);
  void addOp();
  void addUnary(const Node &x);
  void addBinary(const Node &x);
  void addSelect(const Node &x);
  void addCast(const Node &x);
  void addMovement(const Node &x);
  void addProduct(const Node &x);
  void finish();

  Random &random;
  std::vector<std::vector<int64_t>> families;
  std::vector<int64_t> permutation, inverse;
  std::vector<Node> values;
  std::string arguments, body, function;
  size_t argumentCount = 0;
  int counter = 0;
};

/// Values of `type` of every magnitude: ordinary numbers, any bit pattern,
/// zeros of both signs, infinities, NaN and the ends of the format.
reference::Tensor drawExtremes(mlir::RankedTensorType type, Random &random);

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_EXACTGRAPH_H
