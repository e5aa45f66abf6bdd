//===- KernelTimeModel.h - time model from measured kernels -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Predicts kernel times of a configuration from those of measured ones; a
// search limits the time together with the error.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TUNING_KERNELTIMEMODEL_H
#define MPC_TUNING_KERNELTIMEMODEL_H

#include "mpc/Tuning/BudgetSearch.h"

#include "llvm/ADT/EquivalenceClasses.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace mpc {

/// Measured time of a kernel, and the names of its ops.
struct TimedKernel {
  std::vector<std::string> ops;
  double seconds = 0;
};

/// Variables that share a kernel form a part, whose times add up; each part
/// uses the measurement of the nearest configuration.
class KernelTimeModel {
public:
  struct Variable {
    std::vector<std::string> names;
    bool isProduct = false;
    /// For a product, the variables that are values it reads.
    std::vector<size_t> reads = {};
  };
  explicit KernelTimeModel(std::vector<Variable> variables);

  /// Adds the measured kernels of a configuration.
  void add(const Choice &choice, const std::vector<TimedKernel> &kernels);

  /// Total seconds of all kernels with a variable; zero before the first add().
  double secondsOf(const Choice &choice) const;

private:
  /// Returns the variables with an op among `names`.
  std::set<size_t> variablesOf(const std::vector<std::string> &names) const;
  double distance(const std::set<size_t> &part, const Choice &a,
                  const Choice &b) const;

  std::vector<Variable> variables;
  std::multimap<std::string, size_t> byName;
  /// Variables that share a kernel in some configuration.
  llvm::EquivalenceClasses<size_t> shared;
  struct Timed {
    Choice choice;
    /// By the first variable of each kernel.
    std::vector<std::pair<size_t, double>> kernels;
  };
  std::vector<Timed> timed;
  /// The parts after add(): the variables that determine their times, and the
  /// times by measured configuration.
  struct Part {
    std::set<size_t> variables;
    std::vector<double> seconds;
  };
  std::vector<Part> parts;
};

using SecondsOf = std::function<double(const Choice &)>;

/// Returns `space` with a penalty for every second above `most`, large enough
/// that slower configurations usually cost more than faster ones.
BudgetSearchProblem withinTime(BudgetSearchProblem space, SecondsOf secondsOf,
                               double most);

/// Returns the cheapest configuration found with error within `limit` and at
/// most `most` seconds, under increasing prices per second; else nullopt.
std::optional<PricedConfiguration>
cheapestInTime(const BudgetSearchProblem &space, const SecondsOf &secondsOf,
               double limit, double most,
               const std::function<bool()> &stop = {});

/// A competing configuration within the budget: its cost, and the secondary
/// figure, which must not exceed that of the best built-in policy.
struct TuningCandidate {
  double cost = 0, beside = 0;
  bool isBuiltIn = false;
};

/// Relative differences that count as equal.
struct CandidateNoise {
  double cost = 0, beside = 0;
};

/// Returns the index of the cheapest rival that does not exceed the reference
/// in either figure; among equal costs the one with the smallest secondary
/// figure. The reference is the cheapest built-in rival, with ties broken
/// alike. At least one rival is built in.
size_t chooseTuningCandidate(const std::vector<TuningCandidate> &rivals,
                             CandidateNoise noise);

} // namespace mpc

#endif // MPC_TUNING_KERNELTIMEMODEL_H
