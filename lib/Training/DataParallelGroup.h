//===- DataParallelGroup.h - host communication among ranks -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The host's collectives: agreement on options, sums of metrics at each report,
// and who writes files. Collectives of a step are part of its program.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_DATAPARALLELGROUP_H
#define MPC_LIB_TRAINING_DATAPARALLELGROUP_H

#include "mpc/Runtime/Communicator.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mpc::training {

struct Totals;

/// One rank's view of its group; without a communicator a group of one. All
/// ranks make the same calls in the same order, between steps.
class DataParallelGroup {
public:
  explicit DataParallelGroup(std::shared_ptr<Communicator> group = nullptr)
      : group(std::move(group)) {}

  int64_t rank() const { return group ? group->rank() : 0; }
  int64_t size() const { return group ? group->size() : 1; }
  bool alone() const { return size() == 1; }
  Communicator *communicator() const { return alone() ? nullptr : group.get(); }

  /// Fails on every rank if ranks have different texts, naming both texts and
  /// their ranks. `what` describes the text.
  Status agree(const std::string &what, const std::string &text) const;
  /// Collective shareFailure() of the group.
  Status allOk(const Status &own) const;
  /// Returns a failure that every rank has detected itself, to be reported by
  /// rank 0.
  Status known(const Status &failure) const;
  /// All-reduces totals, added in rank order.
  Status sum(Totals &totals) const;
  /// Converts the totals of steps that all ranks have run to those of global
  /// batches.
  Status join(Totals &totals) const;
  /// Returns true if `own` is true on any rank.
  Result<bool> any(bool own) const;

private:
  std::shared_ptr<Communicator> group;
};

} // namespace mpc::training

#endif // MPC_LIB_TRAINING_DATAPARALLELGROUP_H
