//===- TuneState.h - what an unfinished search has found --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A search is a function of what it measures: one that is begun again with the
// same measurements comes to the same place at once.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_TUNESTATE_H
#define MPC_TOOLS_MPC_TUNESTATE_H

#include "PolicyFigures.h"
#include "Reporter.h"

#include "mpc/Runtime/Status.h"
#include "mpc/Tuning/BudgetSearch.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mpc::tool {

/// The file beside a policy that is being looked for. Not thread-safe.
class TuneState {
public:
  /// No file: nothing is kept.
  TuneState() = default;
  /// The state of the search that `key` stands for (the model, the samples, the
  /// budget). Nothing is read or written yet.
  TuneState(std::string path, std::string key)
      : path(std::move(path)), key(std::move(key)) {}

  /// Reads the file. Fails where there is none, or one of another search.
  Status load();
  /// Writes the file; nothing without a path.
  Status save() const;
  /// Removes the file.
  void remove() const;

  /// Samples of the search, or those that were held back.
  enum class Part { Searched, HeldBack };
  const PolicyFigures *find(const Choice &choice, Part part) const;
  void add(const Choice &choice, Part part, const PolicyFigures &figures) {
    measured[{choice, part}] = figures;
  }
  size_t countMeasured() const { return measured.size(); }

  /// Sensitivity::save(); empty before it is known.
  std::vector<double> shares;

private:
  std::string path, key;
  std::map<std::pair<Choice, Part>, PolicyFigures> measured;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_TUNESTATE_H
