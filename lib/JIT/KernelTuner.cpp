//===- KernelTuner.cpp - schedule search by measurement -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelTuner.h"

#include <algorithm>
#include <limits>
#include <set>

using namespace mpc;

static constexpr double kNever = std::numeric_limits<double>::infinity();

namespace {
/// Hill-climbing state of one kernel.
struct HillClimber {
  explicit HillClimber(std::string chosen)
      : best(std::move(chosen)), known{best} {}

  std::string best;
  double bestMs = kNever;
  /// Schedules measured or queued in this round.
  std::set<std::string> known;
  std::vector<std::string> frontier;
  /// Fastest schedule of this round.
  std::string found;
  double foundMs = kNever;
};

class Search {
public:
  Search(std::vector<TunedKernel> &kernels, const TunerCallbacks &questions)
      : kernels(kernels), questions(questions) {
    for (const TunedKernel &kernel : kernels)
      climbers.emplace_back(kernel.chosen);
  }

  Status climb(double seconds);
  Status confirm(double leastGain);

private:
  /// Measures one schedule per kernel and calls `take(number, ms)` for each.
  template <typename Take>
  Status measure(const std::vector<std::string> &schedules, Take take) {
    Result<std::vector<double>> times = questions.measure(schedules);
    if (!times.ok())
      return times.status();
    for (size_t i = 0; i < kernels.size(); ++i)
      take(i, (*times)[i]);
    return {};
  }
  std::vector<std::string> bests() const {
    std::vector<std::string> all;
    all.reserve(climbers.size());
    for (const HillClimber &climber : climbers)
      all.push_back(climber.best);
    return all;
  }
  /// Starts a round and returns its longest frontier.
  size_t beginRound();
  Status measureRound(size_t trials, double end);

  std::vector<TunedKernel> &kernels;
  const TunerCallbacks &questions;
  std::vector<HillClimber> climbers;
};
} // namespace

size_t Search::beginRound() {
  size_t longest = 0;
  for (size_t i = 0; i < climbers.size(); ++i) {
    HillClimber &climber = climbers[i];
    climber.found.clear();
    climber.foundMs = kNever;
    climber.frontier.clear();
    for (std::string &schedule : questions.neighbours(i, climber.best))
      if (climber.known.insert(schedule).second)
        climber.frontier.push_back(std::move(schedule));
    longest = std::max(longest, climber.frontier.size());
  }
  return longest;
}

Status Search::measureRound(size_t trials, double end) {
  for (size_t trial = 0; trial < trials && questions.clock() < end; ++trial) {
    std::vector<std::string> schedules = bests();
    for (size_t i = 0; i < climbers.size(); ++i)
      if (trial < climbers[i].frontier.size())
        schedules[i] = climbers[i].frontier[trial];
    Status status = measure(schedules, [&](size_t i, double ms) {
      HillClimber &climber = climbers[i];
      if (trial >= climber.frontier.size()) {
        climber.bestMs = std::min(climber.bestMs, ms);
        return;
      }
      ++kernels[i].tried;
      if (ms < climber.foundMs) {
        climber.found = schedules[i];
        climber.foundMs = ms;
      }
    });
    if (!status.ok())
      return status;
  }
  return {};
}

Status Search::climb(double seconds) {
  auto atBest = [&](size_t i, double ms) {
    climbers[i].bestMs = std::min(climbers[i].bestMs, ms);
  };
  if (Status status = measure(bests(), atBest); !status.ok())
    return status;
  // The time limit excludes the first measurement.
  double end = questions.clock() + seconds;
  while (questions.clock() < end) {
    size_t trials = beginRound();
    if (trials == 0)
      break;
    if (Status status = measureRound(trials, end); !status.ok())
      return status;
    // Measure the incumbents again in each round: clocks drift within minutes.
    if (Status status = measure(bests(), atBest); !status.ok())
      return status;
    bool moved = false;
    for (HillClimber &climber : climbers)
      if (climber.foundMs < climber.bestMs) {
        climber.best = climber.found;
        climber.bestMs = climber.foundMs;
        moved = true;
      }
    if (!moved)
      break;
  }
  return {};
}

Status Search::confirm(double leastGain) {
  std::vector<std::string> chosen, found = bests();
  for (TunedKernel &kernel : kernels) {
    chosen.push_back(kernel.chosen);
    kernel.chosenMs = kernel.bestMs = kNever;
  }
  constexpr int kTurns = 3;
  for (int turn = 0; turn < kTurns; ++turn) {
    Status status = measure(chosen, [&](size_t i, double ms) {
      kernels[i].chosenMs = std::min(kernels[i].chosenMs, ms);
    });
    if (status.ok())
      status = measure(found, [&](size_t i, double ms) {
        kernels[i].bestMs = std::min(kernels[i].bestMs, ms);
      });
    if (!status.ok())
      return status;
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    TunedKernel &kernel = kernels[i];
    kernel.best = found[i];
    if (kernel.best == kernel.chosen)
      kernel.bestMs = kernel.chosenMs =
          std::min(kernel.bestMs, kernel.chosenMs);
    if (kernel.bestMs > kernel.chosenMs * (1 - leastGain)) {
      kernel.best = kernel.chosen;
      kernel.bestMs = kernel.chosenMs;
    }
  }
  return {};
}

Status mpc::tuneKernels(std::vector<TunedKernel> &kernels,
                        const TunerCallbacks &questions, double seconds,
                        double leastGain) {
  if (kernels.empty())
    return {};
  Search search(kernels, questions);
  if (Status status = search.climb(seconds); !status.ok())
    return status;
  return search.confirm(leastGain);
}
