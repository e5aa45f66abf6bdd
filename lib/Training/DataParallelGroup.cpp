//===- DataParallelGroup.cpp - host communication among ranks -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DataParallelGroup.h"

#include "TrainerImpl.h"

#include <algorithm>
#include <cstring>

using namespace mpc;
using namespace mpc::training;

Status DataParallelGroup::agree(const std::string &what,
                                const std::string &text) const {
  if (alone())
    return {};
  Result<std::vector<std::string>> texts = gatherTexts(*group, text);
  if (!texts.ok())
    return texts.status();
  for (size_t rank = 1; rank < texts->size(); ++rank)
    if ((*texts)[rank] != texts->front())
      return known(Status(
          StatusCode::InvalidArgument, "rank " + std::to_string(rank),
          "has " + what + " " + (*texts)[rank] + ", but rank 0 has " +
              texts->front() + "; start all ranks with the same arguments"));
  return {};
}

Status DataParallelGroup::allOk(const Status &own) const {
  return alone() ? own : shareFailure(*group, own);
}

Status DataParallelGroup::known(const Status &failure) const {
  return failure.withNote(rank() == 0 ? kFailureToTell : kFailureTold);
}

Status DataParallelGroup::sum(Totals &totals) const {
  if (alone())
    return {};
  std::vector<Totals> all(static_cast<size_t>(size()));
  static_assert(std::is_trivially_copyable_v<Totals>);
  if (Status status = group->allGather(&totals, all.data(), sizeof(Totals));
      !status.ok())
    return status;
  totals = {};
  for (const Totals &own : all)
    totals.add(own);
  return {};
}

Status DataParallelGroup::join(Totals &totals) const {
  if (Status status = sum(totals); !status.ok())
    return status;
  // A loss is the mean of its rank's part of a batch.
  totals.batches /= size();
  totals.loss /= double(size());
  totals.finite = (totals.finite + size() - 1) / size();
  return {};
}

Result<bool> DataParallelGroup::any(bool own) const {
  if (alone())
    return own;
  char value = own;
  std::vector<char> all(static_cast<size_t>(size()));
  if (Status status = group->allGather(&value, all.data(), 1); !status.ok())
    return status;
  return std::any_of(all.begin(), all.end(), [](char v) { return v != 0; });
}
