//===- NeighborTree.h - combination of neighbors ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_NEIGHBORTREE_H
#define MPC_SUPPORT_NEIGHBORTREE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <utility>

namespace mpc {

/// Combines `values`, at least one, by a tree: neighbors first, as in
/// ((0 + 1) + (2 + 3)) + 4. A value without a neighbor goes to the next level.
template <typename Value, typename Combine>
Value combineNeighbors(llvm::ArrayRef<Value> values, const Combine &combine) {
  llvm::SmallVector<Value> left(values);
  while (left.size() > 1) {
    llvm::SmallVector<Value> next;
    for (size_t i = 0; i < left.size(); i += 2)
      next.push_back(i + 1 < left.size() ? combine(left[i], left[i + 1])
                                         : left[i]);
    left = std::move(next);
  }
  return left.front();
}

} // namespace mpc

#endif // MPC_SUPPORT_NEIGHBORTREE_H
