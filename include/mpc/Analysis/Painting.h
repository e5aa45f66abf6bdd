//===- Painting.h - TensorFlow's auto_mixed_precision -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The algorithm of TensorFlow's auto_mixed_precision on an abstract graph: op
// lists seed colors, colors propagate along edges, painted nodes become 16-bit.
// Independent of MLIR. The rules have the numbers of
// docs/Reference/Imitation.md.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_PAINTING_H
#define MPC_ANALYSIS_PAINTING_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <vector>

namespace mpc {

/// The op list that contains a node's op.
enum class PaintList {
  None,  ///< in no list: never painted, blocks propagation
  Allow, ///< benefits from 16 bits and is safe
  Deny,  ///< unsafe in 16 bits, and so are its consumers
  Infer, ///< safe if its producers are
  Clear, ///< no numeric effect
};

/// A node of a paint graph: one op with one type.
struct PaintNode {
  PaintList list = PaintList::None;
  /// Computes in float32 so far; no other node changes.
  bool isWide = true;
  /// Has a 16-bit form.
  bool supportsNarrow = true;
  /// Is fetched or otherwise preserved (rule 0).
  bool isPreserved = false;
  /// Converts another type to float32 (rule 8).
  bool isCastToWide = false;
  /// Is never forced by PaintOptions::forceAll: has state or no 16-bit meaning.
  bool isUnforceable = false;
  /// Nodes of one cluster share a color (rule 7); negative: no cluster.
  int cluster = -1;
};

/// Directed dataflow graph.
class PaintGraph {
public:
  /// Returns the node's index; indices count from 0.
  unsigned addNode(const PaintNode &node);
  /// `to` reads a result of `from`.
  void addEdge(unsigned from, unsigned to);
  /// `to` reads `from` in the next iteration of a loop. Colors do not propagate
  /// along it, but both ends get the same color (rule 7).
  void addBackEdge(unsigned from, unsigned to);

  unsigned size() const { return nodes.size(); }
  const PaintNode &operator[](unsigned index) const { return nodes[index]; }
  llvm::ArrayRef<unsigned> inputs(unsigned node) const { return in[node]; }
  llvm::ArrayRef<unsigned> outputs(unsigned node) const { return out[node]; }
  llvm::ArrayRef<std::pair<unsigned, unsigned>> backEdges() const {
    return back;
  }

private:
  std::vector<PaintNode> nodes;
  std::vector<llvm::SmallVector<unsigned, 4>> in, out;
  std::vector<std::pair<unsigned, unsigned>> back;
};

/// Options that TensorFlow reads from the environment.
struct PaintOptions {
  /// Rule 4: infer nodes after painted ones are painted too.
  bool inferFollowsPaint = true;
  /// Seeds every float32 node except preserved and unforceable ones, and denies
  /// none (UNSAFE_FORCE_ALL).
  bool forceAll = false;
  /// The infer list counts as part of the deny list (TREAT_INFER_AS_DENY).
  bool inferAsDeny = false;
};

/// The rule that determined a node's color.
enum class PaintRule {
  Unpainted, ///< no rule
  Seed,      ///< 1: in the allow list
  Deny,      ///< 2: in the deny list, or after such a node
  Between,   ///< 3: between two allow nodes
  Follow,    ///< 4: after a painted node
  Spread,    ///< 5: a clear node adjacent to a painted one
  Dropped,   ///< 6: was painted, but has no 16-bit form
  Cluster,   ///< 7: like the rest of its cluster, or the other end of a loop
  Cast,      ///< 8: a cast that only painted nodes read
};

/// The colors of a graph. Immutable.
class Painting {
public:
  explicit Painting(const PaintGraph &graph, const PaintOptions &options = {});

  /// Returns true if the node becomes 16-bit.
  bool isPainted(unsigned node) const { return allow.test(node); }
  /// Returns true if the deny list, or its propagation, gives float32.
  bool isDenied(unsigned node) const { return deny.test(node); }
  /// Returns the rule that determined the node's color.
  PaintRule getRule(unsigned node) const { return rules[node]; }
  /// Returns the neighbor that propagated the color, if any.
  std::optional<unsigned> getCause(unsigned node) const;

private:
  PaintList listOf(unsigned node) const;
  /// Returns true if the 16-bit color may enter the node.
  bool mayPaint(unsigned node) const;
  void set(llvm::BitVector &colour, unsigned node, PaintRule rule,
           unsigned cause);
  /// Depth-first traversal from `root` through nodes that `enter` accepts;
  /// always visits the root.
  template <typename Enter, typename Visit>
  void walk(unsigned root, bool toInputs, bool toOutputs, Enter enter,
            Visit visit) const;

  void seed();
  void propagateDeny();
  void paintBetween();
  void paintFollowers();
  void spreadThroughClear();
  void dropUnsupported();
  void matchClusters();
  void matchBackEdges();
  void paintCasts();

  const PaintGraph &graph;
  PaintOptions options;
  llvm::BitVector allow, deny;
  std::vector<PaintRule> rules;
  std::vector<unsigned> causes;
};

} // namespace mpc

#endif // MPC_ANALYSIS_PAINTING_H
