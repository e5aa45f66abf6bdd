//===- TuneState.h - saved state of an unfinished search --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A search is a deterministic function of its measurements: restarted with the
// same ones, it reaches the same point at once.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_TUNESTATE_H
#define MPC_TOOLS_MPC_TUNESTATE_H

#include "PolicyMeasurements.h"
#include "Reporter.h"

#include "mpc/Runtime/Status.h"
#include "mpc/Tuning/BudgetSearch.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mpc::tool {

/// The state file next to the policy being tuned. Not thread-safe.
class TuneState {
public:
  /// Without a file.
  TuneState() = default;
  /// State of the search identified by `key` (the model, the samples, the
  /// budget). Reads and writes nothing yet.
  TuneState(std::string path, std::string key)
      : path(std::move(path)), key(std::move(key)) {}

  /// Reads the file. Fails if it is missing or belongs to another search.
  Status load();
  /// Writes the file; nothing without a path.
  Status save() const;
  /// Removes the file.
  void remove() const;

  /// Calibration set or validation set.
  enum class Part { Searched, HeldBack };
  const PolicyMeasurements *find(const Choice &choice, Part part) const;
  void add(const Choice &choice, Part part, const PolicyMeasurements &figures) {
    measured[{choice, part}] = figures;
  }
  size_t countMeasured() const { return measured.size(); }

  /// Sensitivity::save(); empty until known.
  std::vector<double> shares;

private:
  std::string path, key;
  std::map<std::pair<Choice, Part>, PolicyMeasurements> measured;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_TUNESTATE_H
