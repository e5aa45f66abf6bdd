//===- ContractedDag.h - nodes that become one without a cycle --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges nodes of an acyclic graph as long as it stays acyclic. A topological
// order is kept up to date, so that a merge looks only at what lies between its
// two nodes, and from the side where less does.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_FUSION_CONTRACTEDDAG_H
#define MPC_ANALYSIS_FUSION_CONTRACTEDDAG_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <vector>

namespace mpc {

class ContractedDag {
public:
  using Node = unsigned;

  /// Adds a node behind all others. Edges lead to it from nodes before it.
  Node addNode(llvm::ArrayRef<Node> inputs);

  /// Adds an edge between two nodes of which one depends on the other already.
  void addEdge(Node from, Node to);

  /// The node that `node` is part of: itself until it is merged.
  Node find(Node node) const;

  /// How many nodes were merged into the one that `node` is part of.
  unsigned sizeOf(Node node) const { return nodes[find(node)].size; }

  /// Makes one node of two; false, and nothing changes, where a third one lies
  /// on a way between them.
  bool merge(Node a, Node b);

  /// The third node, where the last merge was refused.
  Node getBetween() const { return find(between); }

  /// Nodes that all merges together have looked at: the work done.
  int64_t getVisited() const { return visited; }

private:
  struct Data {
    mutable Node parent;
    unsigned size = 1;
    /// Edges may lead to merged nodes, to the node itself, and several times to
    /// one.
    std::vector<Node> inputs, outputs;
    /// Neighbours in the order, and a number that grows along it.
    Node before, behind;
    uint64_t label;
    /// The search that reached the node last, from which side.
    unsigned seenForward = 0, seenBackward = 0;
  };
  static constexpr Node kNone = ~Node(0);

  /// One side of the search between two nodes.
  class Search;

  void unlink(Node node);
  /// Puts `node` behind `place`; at the front where that is none.
  void insertBehind(Node node, Node place);
  /// Spreads the labels around `place` until there is room behind it.
  void makeRoom(Node place);

  std::vector<Data> nodes;
  Node first = kNone, last = kNone;
  unsigned search = 0;
  Node between = kNone;
  int64_t visited = 0;
};

} // namespace mpc

#endif // MPC_ANALYSIS_FUSION_CONTRACTEDDAG_H
