//===- ExactGraph.h - Random graphs with bit-exact results ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random functions of ops with bit-exact results, and inputs at the limits of
// the formats.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_SMITH_EXACTGRAPH_H
#define MPC_TOOLS_SMITH_EXACTGRAPH_H

#include "Random.h"

#include "mpc/Reference/Tensor.h"

#include <string>
#include <vector>

namespace mpc::smith {

/// A function `@main` in text: + - * / sqrt min max select compare cast,
/// integer and boolean ops, one-term products, reductions to extremes, and data
/// movement. Deterministic in the seed.
class ExactGraph {
public:
  ExactGraph(Random &random, int ops);

  const std::string &text() const { return function; }

private:
  /// Each dimension is that of the value's family, or 1.
  struct Node {
    std::string name, element;
    std::vector<int64_t> shape;
    int family;
  };

  int64_t below(int64_t limit) { return random.below(limit); }
  bool chance(int percent) { return random.chance(percent); }
  std::string drawFloat();
  std::string typeOf(const Node &node) const;
  /// A random one of `values` that `accept` accepts, with a bias towards late
  /// ones; null if there is none.
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

/// Values of `type` of every magnitude: ordinary numbers, random bit patterns,
/// signed zeros, infinities, NaN and the limits of the format.
reference::Tensor drawExtremes(mlir::RankedTensorType type, Random &random);

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_EXACTGRAPH_H
