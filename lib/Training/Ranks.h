//===- Ranks.h - what ranks tell each other beside a step -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The host's messages: that all train the same, sums of metrics at each line of
// news, and who writes files. A step's own messages are part of its program.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_RANKS_H
#define MPC_LIB_TRAINING_RANKS_H

#include "mpc/Runtime/Communicator.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mpc::training {

struct Totals;

/// One rank's view of its group; of itself alone without a communicator. All
/// ranks make the same calls in the same order, between steps.
class Ranks {
public:
  explicit Ranks(std::shared_ptr<Communicator> group = nullptr)
      : group(std::move(group)) {}

  int64_t rank() const { return group ? group->rank() : 0; }
  int64_t size() const { return group ? group->size() : 1; }
  bool alone() const { return size() == 1; }
  Communicator *communicator() const { return alone() ? nullptr : group.get(); }

  /// Fails on every rank where one has another text, and names both texts and
  /// their ranks. `what` says what the text is.
  Status agree(const std::string &what, const std::string &text) const;
  /// shareFailure() of the group.
  Status allOk(const Status &own) const;
  /// A failure that every rank has found by itself, to be told by rank 0.
  Status known(const Status &failure) const;
  /// Replaces totals by the sum of all ranks', added in their order.
  Status sum(Totals &totals) const;
  /// Replaces the totals of steps that all ranks have run by those of their
  /// whole batches.
  Status join(Totals &totals) const;
  /// Whether any rank says so.
  Result<bool> any(bool own) const;

private:
  std::shared_ptr<Communicator> group;
};

} // namespace mpc::training

#endif // MPC_LIB_TRAINING_RANKS_H
