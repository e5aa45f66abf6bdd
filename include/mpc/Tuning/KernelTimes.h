//===- KernelTimes.h - how long choices take --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What kernels took under choices that were timed foretells what they take
// under others; a search keeps a limit of that beside one of errors.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TUNING_KERNELTIMES_H
#define MPC_TUNING_KERNELTIMES_H

#include "mpc/Tuning/BudgetSearch.h"

#include "llvm/ADT/EquivalenceClasses.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace mpc {

/// What a kernel took, and the names of the ops that it computes.
struct TimedKernel {
  std::vector<std::string> ops;
  double seconds = 0;
};

/// Variables that share a kernel are one part of the time; of a part counts the
/// timed choice that is nearest to the one asked about.
class KernelTimes {
public:
  struct Variable {
    std::vector<std::string> names;
    bool isProduct = false;
    /// Of a product, variables that are values which it reads.
    std::vector<size_t> reads = {};
  };
  explicit KernelTimes(std::vector<Variable> variables);

  /// Notes the kernels of a choice.
  void add(const Choice &choice, const std::vector<TimedKernel> &kernels);

  /// Seconds of all kernels that have a variable; zero before the first add().
  double secondsOf(const Choice &choice) const;

private:
  /// Variables of which an op is among `names`.
  std::set<size_t> variablesOf(const std::vector<std::string> &names) const;
  double distance(const std::set<size_t> &part, const Choice &a,
                  const Choice &b) const;

  std::vector<Variable> variables;
  std::multimap<std::string, size_t> byName;
  /// Variables that share a kernel in some choice.
  llvm::EquivalenceClasses<size_t> shared;
  struct Timed {
    Choice choice;
    /// By the first variable of each kernel.
    std::vector<std::pair<size_t, double>> kernels;
  };
  std::vector<Timed> timed;
  /// The parts as add() leaves them: what decides their times, and the times by
  /// timed choice.
  struct Part {
    std::set<size_t> variables;
    std::vector<double> seconds;
  };
  std::vector<Part> parts;
};

using SecondsOf = std::function<double(const Choice &)>;

/// `space` where every second above `most` costs so much that what takes longer
/// is dearer than what does not, as a rule.
SearchSpace withinTime(SearchSpace space, SecondsOf secondsOf, double most);

/// What costs least of the choices found within `limit` of error that take at
/// most `most` seconds, under prices of a second from cheap to dear; nothing
/// where there is none.
std::optional<PricedChoice>
cheapestInTime(const SearchSpace &space, const SecondsOf &secondsOf,
               double limit, double most,
               const std::function<bool()> &stop = {});

/// A choice beside others that keep the budget, too: what it costs, and the
/// figure of which none may need more than the best built-in policy.
struct Rival {
  double cost = 0, beside = 0;
  bool isBuiltIn = false;
};

/// How much more, as a share, counts as the same.
struct RivalNoise {
  double cost = 0, beside = 0;
};

/// The bar is the built-in rival that costs least, of several that cost the
/// same the one with the least figure beside. Returns the number of the rival
/// that costs least of those that are at most the bar in both; of several that
/// cost the same, again that with the least figure beside. One is built in.
size_t chooseRival(const std::vector<Rival> &rivals, RivalNoise noise);

} // namespace mpc

#endif // MPC_TUNING_KERNELTIMES_H
