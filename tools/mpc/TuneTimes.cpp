//===- TuneTimes.cpp - bytes and time against built-in policies -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The configuration with the least traffic may be slower: quantized weights are
// unpacked, 16-bit rows converted. If bytes are the objective and programs run
// here, the result is not slower than the best built-in policy that satisfies
// the budget; if time is, it moves no more bytes.
//
//===----------------------------------------------------------------------===//

#include "Tune.h"

#include "mpc/Analysis/QuantizedWeightStorage.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::tool;

/// Maximum number of searches with a time price.
static constexpr int kMostAttempts = 3;
/// Maximum number of timed points per search, besides the built-in ones.
static constexpr size_t kMostPoints = 4;
/// Relative differences in time below clock noise, and insignificant ones in
/// bytes.
static constexpr double kTimeNoise = 0.005, kByteNoise = 0.001;

bool TuneCommand::isGuarded() const {
  if (costBudget || !meter->isCompiled())
    return false;
  // Kernels of a step combine ops of both directions under one name.
  bool isPlain = arguments.objective.empty() && !model.options().training;
  return objective == TuningObjective::Time ||
         (objective == TuningObjective::Bytes && isPlain);
}

Status TuneCommand::timeInTurn(llvm::ArrayRef<Choice> choices) {
  std::vector<Executable> executables;
  for (const Choice &choice : choices) {
    if (stops())
      return {};
    if (auto known = loaded.find(choice); known != loaded.end()) {
      executables.push_back(known->second);
      continue;
    }
    TunedPoint point;
    point.priced.choice = choice;
    Result<TemporaryPolicy> policy = TemporaryPolicy::write(policyFile(point));
    if (!policy.ok())
      return policy.status();
    Result<Executable> executable = meter->load(policy->path());
    if (!executable.ok())
      return executable.status();
    executables.push_back(std::move(*executable));
  }
  Result<std::vector<PolicyTimes>> times =
      meter->timeInTurn(executables, searched.front());
  if (!times.ok())
    return times.status();
  // Configurations that are compared are usually timed again.
  if (choices.size() > 1) {
    loaded.clear();
    for (auto [choice, executable] : llvm::zip_equal(choices, executables))
      loaded.emplace(choice, executable);
  }
  if (!kernelTimes)
    kernelTimes.emplace(space->timedVariables());
  for (auto [choice, time] : llvm::zip_equal(choices, *times)) {
    auto [known, isNew] = secondsOf.emplace(choice, time.seconds);
    known->second = std::min(known->second, time.seconds);
    kernelTimes->add(choice, time.kernels);
  }
  return {};
}

Result<bool> TuneCommand::isAsFast(const Choice &choice,
                                   std::vector<Choice> others) {
  others.push_back(choice);
  if (Status status = timeInTurn(others); !status.ok())
    return status;
  if (stops())
    return false;
  return llvm::all_of(others, [&](const Choice &other) {
    return secondsOf.at(choice) <= secondsOf.at(other) * (1 + kTimeNoise);
  });
}

Status TuneCommand::timeOptions() {
  llvm::ArrayRef<PolicySearchSpace::Variable> variables = space->getVariables();
  // Without a matrix unit bf16 is as slow as f16 and less precise.
  bool isShort = isFloat32AsFast(space->getTarget()) &&
                 llvm::is_contained(types, PolicyType::Float16);
  std::vector<std::string> texts;
  for (const PolicySearchSpace::Variable &variable : variables)
    for (const PolicySearchSpace::Option &option : variable.options)
      if (variable.isProduct && !llvm::is_contained(texts, option.text()) &&
          !(isShort && option.type == PolicyType::BFloat16))
        texts.push_back(option.text());
  for (const std::string &text : texts)
    for (int values : {0, 1}) {
      if (stops())
        return {};
      Choice choice;
      for (const PolicySearchSpace::Variable &variable : variables) {
        auto option = llvm::find_if(variable.options, [&](const auto &option) {
          return variable.isProduct && option.text() == text;
        });
        choice.push_back(!variable.isProduct ? values
                         : option == variable.options.end()
                             ? 0
                             : int(option - variable.options.begin()));
      }
      if (Status status = timeInTurn({choice}); !status.ok())
        return status;
    }
  return {};
}

Result<bool> TuneCommand::holds(const TunedPoint &point) {
  if (!(point.measured <= budget.limit))
    return false;
  if (heldBack.empty())
    return true;
  Result<PolicyMeasurements> figures =
      measure(point.priced.choice, TuneState::Part::HeldBack);
  if (!figures.ok())
    return figures.status();
  return figures->error <= budget.limit;
}

/// Built-in points first, then by cost.
Result<std::vector<TunedPoint>>
TuneCommand::contenders(std::vector<TunedPoint> pool) {
  auto isBuiltIn = [&](const TunedPoint &point) {
    return llvm::is_contained(builtIn, point.priced.choice);
  };
  std::sort(pool.begin(), pool.end(),
            [&](const TunedPoint &a, const TunedPoint &b) {
              return std::pair(!isBuiltIn(a), a.cost) <
                     std::pair(!isBuiltIn(b), b.cost);
            });
  std::vector<TunedPoint> found;
  double least = INFINITY;
  size_t others = 0;
  for (TunedPoint &point : pool) {
    bool isNew = llvm::none_of(found, [&](const TunedPoint &known) {
      return known.priced.choice == point.priced.choice;
    });
    bool isOther = !isBuiltIn(point);
    // A single time is noisier than bytes, which have no noise.
    bool isCheap =
        objective == TuningObjective::Time || !isOther || point.cost <= least;
    if (!isNew || !isCheap || others == kMostPoints)
      continue;
    Result<bool> keeps = holds(point);
    if (!keeps.ok())
      return keeps.status();
    if (!*keeps)
      continue;
    others += isOther;
    if (!isOther)
      least = std::min(least, point.cost);
    found.push_back(std::move(point));
  }
  return found;
}

/// Returns the point's cost (time or bytes) and the other of the two.
TuningCandidate TuneCommand::rivalOf(const TunedPoint &point) const {
  double seconds = secondsOf.at(point.priced.choice);
  double bytes =
      state.find(point.priced.choice, TuneState::Part::Searched)->bytes;
  TuningCandidate rival{bytes, seconds,
                        llvm::is_contained(builtIn, point.priced.choice)};
  if (objective == TuningObjective::Time)
    std::swap(rival.cost, rival.beside);
  return rival;
}

Status TuneCommand::chooseTimed(llvm::ArrayRef<TunedPoint> points) {
  std::vector<Choice> choices;
  for (const TunedPoint &point : points)
    choices.push_back(point.priced.choice);
  if (Status status = timeInTurn(choices); !status.ok() || stops())
    return status;
  std::vector<TuningCandidate> rivals;
  for (const TunedPoint &point : points) {
    rivals.push_back(rivalOf(point));
    reporter.note(
        shortNumber(point.cost) + " " + unit() + " in " +
        shortNumber(1e3 * secondsOf.at(point.priced.choice)) +
        " ms, predicted " +
        shortNumber(1e3 * kernelTimes->secondsOf(point.priced.choice)) +
        (rivals.back().isBuiltIn ? ": a built-in policy" : ""));
  }
  // If time is the objective, the fastest wins without a margin.
  bool isTime = objective == TuningObjective::Time;
  CandidateNoise noise{isTime ? 0 : kByteNoise,
                       isTime ? kByteNoise : kTimeNoise};
  result.best = points[chooseTuningCandidate(rivals, noise)];
  // The best built-in point is the bar.
  std::vector<TunedPoint> known;
  std::vector<TuningCandidate> bars;
  for (auto [point, rival] : llvm::zip_equal(points, rivals))
    if (rival.isBuiltIn) {
      known.push_back(point);
      bars.push_back(rival);
    }
  bar = known[chooseTuningCandidate(bars, noise)];
  // Alternating measurements are more reliable than single ones.
  for (TunedPoint *point : {&*result.best, &*bar, &*result.widest})
    if (auto found = secondsOf.find(point->priced.choice);
        isTime && found != secondsOf.end())
      point->cost = found->second;
  return {};
}

/// Points that satisfy the budget within the bar's time.
Result<std::vector<TunedPoint>>
TuneCommand::searchTimed(const TuningCallbacks &questions, double target) {
  // The planner's min-cut ignores time: treat values as variables like
  // contractions, and plan configurations without free values only once.
  BudgetSearchProblem timed = space->searchSpace(*sensitivity);
  timed.planned.assign(timed.planned.size(), false);
  timed.plan = [this](const Choice &choice, double) {
    return finder->price(choice);
  };
  timed.starts.push_back(result.best->priced.choice);
  SecondsOf foretold = [this](const Choice &choice) {
    return kernelTimes->secondsOf(choice);
  };
  std::vector<TunedPoint> points;
  // Half of the clock noise.
  double most = (1 + kTimeNoise / 2) * foretold(bar->priced.choice);
  std::optional<PricedConfiguration> start =
      cheapestInTime(timed, foretold, target, most, questions.stop);
  if (!start)
    return points;
  timed.starts.push_back(start->choice);
  BudgetSearch search(withinTime(std::move(timed), foretold, most));
  TuningResult found = tuneToBudget(search, aim, questions);
  result.isStopped |= found.isStopped;
  for (TunedPoint &point : found.tried) {
    bool isKnown = llvm::any_of(result.tried, [&](const TunedPoint &known) {
      return known.priced.choice == point.priced.choice;
    });
    if (isKnown)
      continue;
    point.priced = finder->price(point.priced.choice);
    result.tried.push_back(point);
    points.push_back(point);
  }
  return points;
}

Status TuneCommand::chooseAmongTypes(const TuningCallbacks &questions,
                                     const Status &failed) {
  if (!isGuarded() || !result.best || stops())
    return {};
  // The best point's measured error, and the remaining budget.
  const TunedPoint first = *result.best;
  double spent = squareOf(budget.measure, first.measured);
  double limit = squareOf(budget.measure, aim.limit);
  double target =
      first.priced.error * std::clamp(spent > 0 ? limit / spent : 4, 0.25, 4.);
  std::vector<TunedPoint> pool = result.tried;
  for (int attempt = 0; attempt <= kMostAttempts && !stops(); ++attempt) {
    Result<std::vector<TunedPoint>> points = contenders(std::move(pool));
    if (!points.ok())
      return points.status();
    bool isFresh = attempt == 0 || llvm::any_of(*points, [&](const auto &one) {
                     return !secondsOf.count(one.priced.choice);
                   });
    if (!isFresh)
      break;
    if (Status status = chooseTimed(*points); !status.ok())
      return status;
    if (stops())
      break;
    auto cheapest = std::min_element(
        points->begin(), points->end(),
        [](const auto &a, const auto &b) { return a.cost < b.cost; });
    bool isDone = result.best->cost <= cheapest->cost * (1 + kByteNoise);
    if (objective == TuningObjective::Time || attempt == kMostAttempts ||
        (attempt == 0 && isDone))
      break;
    if (attempt == 0) {
      reporter.note("the cheapest assignment is slower than a built-in policy: "
                    "adding time to the cost");
      if (Status status = timeOptions(); !status.ok())
        return status;
    }
    // Wrong predictions have been corrected by now.
    Result<std::vector<TunedPoint>> more = searchTimed(questions, target);
    if (!failed.ok())
      return failed;
    if (!more.ok())
      return more.status();
    pool = std::move(*more);
    // The points to beat.
    for (const TunedPoint &point : result.tried)
      if (llvm::is_contained(builtIn, point.priced.choice) ||
          point.priced.choice == result.best->priced.choice)
        pool.push_back(point);
  }
  loaded.clear();
  result.isStopped |= stops();
  return heldBack.empty() ? Status() : evaluateValidation();
}
