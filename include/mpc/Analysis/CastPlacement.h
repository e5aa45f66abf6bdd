//===- CastPlacement.h - cast placement as a minimum cut --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cast placement as plain data, independent of the IR: values stored in f32
// (high) or 16 bits (low), the cost of each label, and the casts between values
// of different labels. Solved exactly as an s-t minimum cut.
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

/// Values, their cost under each label, and the casts between them. All costs
/// are non-negative and their sum fits an int64.
struct PlacementProblem {
  struct Node {
    int64_t highCost = 0, lowCost = 0;
    /// Label fixed by a rule.
    std::optional<StorageLabel> hard;
  };
  /// One cast per direction, shared by all readers of `value`: `narrow` is paid
  /// once if the value is high and some reader is low, `widen` once if the
  /// value is low and some reader is high. A reader is a node too: the result
  /// of an op that moves the value, or a node with a hard label for an op that
  /// needs one type.
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

/// Returns the cost of one cast under `labels`, one per node.
int64_t cost(const PlacementProblem::Cast &cast,
             llvm::ArrayRef<StorageLabel> labels);

/// Returns the total cost under `labels`, one per node. Ignores hard labels.
int64_t cost(const PlacementProblem &problem,
             llvm::ArrayRef<StorageLabel> labels);

/// Returns the labels of least cost that respect every hard label. Among
/// several, the one with the fewest low values: the low values of every other
/// solution include them.
std::vector<StorageLabel> solvePlacement(const PlacementProblem &problem);

} // namespace mpc

#endif // MPC_ANALYSIS_CASTPLACEMENT_H
