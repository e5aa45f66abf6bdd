//===- CastPlacement.h - the fewest bytes for casts -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The placement problem as plain data: values that may be stored wide (high) or
// narrow (low), what either costs, and the casts between those that differ.
// Solved exactly as a minimum cut. Knows nothing of ops.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_CASTPLACEMENT_H
#define MPC_ANALYSIS_CASTPLACEMENT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace mpc {

enum class StorageLabel : uint8_t { High, Low };

/// Values, what they cost under each label, and the casts between them. All
/// costs are non-negative and their sum fits an int64.
struct PlacementProblem {
  struct Node {
    int64_t highCost = 0, lowCost = 0;
    /// The label that a rule fixes.
    std::optional<StorageLabel> hard;
  };
  /// One cast per direction serves all readers of `value`: `narrow` is paid
  /// once where the value is high and some reader low, `widen` once where the
  /// value is low and some reader high. A reader is a node too: what a move
  /// makes of the value, or a node with a hard label for an op that wants one
  /// type.
  struct Cast {
    unsigned value = 0;
    llvm::SmallVector<unsigned, 2> readers;
    int64_t narrow = 0, widen = 0;
  };

  std::vector<Node> nodes;
  std::vector<Cast> casts;

  unsigned addNode(int64_t highCost = 0, int64_t lowCost = 0,
                   std::optional<StorageLabel> hard = std::nullopt) {
    nodes.push_back({highCost, lowCost, hard});
    return nodes.size() - 1;
  }
};

/// What `labels`, one per node, cost in one cast.
int64_t cost(const PlacementProblem::Cast &cast,
             llvm::ArrayRef<StorageLabel> labels);

/// What `labels`, one per node, cost. Hard labels are not looked at.
int64_t cost(const PlacementProblem &problem,
             llvm::ArrayRef<StorageLabel> labels);

/// The labels of least cost that respect every hard label. Of several, the ones
/// that make the fewest values low: every other solution is low wherever this
/// one is.
std::vector<StorageLabel> solvePlacement(const PlacementProblem &problem);

} // namespace mpc

#endif // MPC_ANALYSIS_CASTPLACEMENT_H
