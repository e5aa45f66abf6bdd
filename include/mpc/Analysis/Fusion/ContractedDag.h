//===- ContractedDag.h - DAG with cycle-free node merging -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Edge contraction on a DAG that refuses to create a cycle. Maintains a
// topological order incrementally, so that a merge searches only the nodes
// between its two ends, from both sides.
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

  /// Appends a node to the order. Edges lead to it from earlier nodes.
  Node addNode(llvm::ArrayRef<Node> inputs);

  /// Adds an edge between two nodes, one of which already depends on the other.
  void addEdge(Node from, Node to);

  /// Returns the representative of `node`: the node itself until it is merged.
  Node find(Node node) const;

  /// Returns the number of nodes merged into the representative of `node`.
  unsigned sizeOf(Node node) const { return nodes[find(node)].size; }

  /// Merges two nodes. Returns false and changes nothing if a path between them
  /// passes through a third node.
  bool merge(Node a, Node b);

  /// Returns the third node on the path that made the last merge fail.
  Node getBetween() const { return find(between); }

  /// Number of nodes visited by all merges, as a measure of work.
  int64_t getVisited() const { return visited; }

private:
  struct Data {
    mutable Node parent;
    unsigned size = 1;
    /// Edges may lead to merged nodes, to the node itself, and be repeated.
    std::vector<Node> inputs, outputs;
    /// Neighbors in the order, and a label that grows along it.
    Node before, behind;
    uint64_t label;
    /// Number of the search that last reached the node, per side.
    unsigned seenForward = 0, seenBackward = 0;
  };
  static constexpr Node kNone = ~Node(0);

  /// One side of the bidirectional search between two nodes.
  class Search;

  void unlink(Node node);
  /// Inserts `node` after `place`, or at the front if `place` is none.
  void insertBehind(Node node, Node place);
  /// Relabels the nodes around `place` until a label after it is free.
  void makeRoom(Node place);

  std::vector<Data> nodes;
  Node first = kNone, last = kNone;
  unsigned search = 0;
  Node between = kNone;
  int64_t visited = 0;
};

} // namespace mpc

#endif // MPC_ANALYSIS_FUSION_CONTRACTEDDAG_H
