//===- Tune.cpp - mpc tune ------------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Half of the samples (the calibration set) measure the effect of roundings on
// the outputs; the search spends the error budget accordingly, and each
// proposed point is compiled and measured against float64. The other half is
// the validation set.
//
//===----------------------------------------------------------------------===//

#include "Tune.h"

#include "HtmlReport.h"
#include "Inputs.h"

#include "mpc/Analysis/GraphDigest.h"
#include "mpc/Analysis/QuantizedWeightStorage.h"
#include "mpc/Analysis/WeightColumns.h"
#include "mpc/Support/Files.h"

#include "llvm/Support/MD5.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::Tensor;

//===----------------------------------------------------------------------===//
// Search space
//===----------------------------------------------------------------------===//

/// Number of backward passes over all samples.
static constexpr int kDraws = 6;

Status TuneCommand::chooseScale() {
  if (!model.options().training)
    return {};
  // Only f16 needs a loss scale.
  lossScale = LossScaleChoice();
  bool isHalf = types.empty() || llvm::is_contained(types, PolicyType::Float16);
  if (isHalf) {
    RangeRecorder forward, gradients;
    if (Status status = recordRanges(model, forward, gradients); !status.ok())
      return status;
    runs += int64_t(model.samples().size());
    lossScale = chooseLossScale(gradients);
  }
  model.setLossScale(lossScale->scale());
  return {};
}

Status TuneCommand::checkLogits(const Tensor &logits, size_t window) const {
  auto isBad = [](double logit) {
    return std::isnan(logit) || logit == INFINITY;
  };
  const auto *bad = llvm::find_if(logits.floats(), isBad);
  if (bad == logits.floats().end())
    return {};
  return Status(StatusCode::InvalidArgument, arguments.common.model,
                (std::isnan(*bad) ? "has a NaN" : "has an infinity") +
                    std::string(" among the logits of window ") +
                    std::to_string(window + 1) +
                    " of the text, in float64, so there is nothing to compare "
                    "with; check its weights");
}

Status TuneCommand::evaluateSamples() {
  // Limit of cached forward values of samples.
  constexpr int64_t kMostKept = int64_t(1) << 29;
  int64_t keptBytes = 0;
  meter.emplace(arguments.common, model, budget.measure,
                text ? &*text : nullptr);
  if (Status status = meter->prepare(); !status.ok())
    return status;
  if (text)
    stepMeter.emplace(arguments.common, step, budget.measure);
  for (auto [number, sample] : llvm::enumerate(model.samples())) {
    if (StopOnSignal::isAsked())
      return {};
    progress->show(double(number) / double(model.samples().size()),
                   {{"sample " + std::to_string(number + 1) + "/" +
                     std::to_string(model.samples().size())},
                    {"float64 reference", 1}});
    size_t before = model.compiler().diagnostics().size();
    mlir::FailureOr<ForwardValues> forward = ForwardValues::run(
        model.entry(), sample.tensors, observeRanges(model, number, ranges));
    if (failed(forward))
      return model.compiler().failure(before);
    ++runs;
    mlir::FailureOr<llvm::SmallVector<Tensor>> outputs =
        forward->results(model.entry());
    if (failed(outputs))
      return model.compiler().failure(before);
    if (text)
      if (Status status = checkLogits((*outputs)[text->logits()], number);
          !status.ok())
        return status;
    meter->expect(number, std::move(*outputs));
    if (!llvm::is_contained(searched, number))
      continue;
    keptBytes += forward->bytes();
    if (keptBytes <= kMostKept)
      forwards.emplace(number, std::move(*forward));
  }
  return {};
}

Status TuneCommand::differentiate() {
  if (isCheapest)
    return {};
  sensitivity.emplace(model.entry(), budget.measure, arguments.common.seed);
  if (text) {
    sensitivity->setOutput(text->logits());
    stepOps.emplace(step.entry(), model.entry());
    stepErrors.emplace(*stepOps, *sensitivity);
  }
  if (operandChanges)
    sensitivity->considerOperands(*operandChanges);
  space->considerWeights(*sensitivity, [&](mlir::Operation *op) {
    return stepOps ? stepOps->lookup(op) : op;
  });
  // A few random passes suffice to detect correlated roundings.
  int draws = std::max<int>(1, kDraws / int(searched.size()));
  bool isKnown = sensitivity->restore(state.shares);
  for (size_t number : searched) {
    if (isKnown)
      break;
    // Keep the result found without derivatives.
    if (stops() && (result.best || StopOnSignal::isAsked())) {
      isCheapest = result.best.has_value();
      result.isStopped = true;
      return {};
    }
    progress->show(double(number) / double(model.samples().size()),
                   {{"sample " + std::to_string(number + 1) + "/" +
                     std::to_string(model.samples().size())},
                    {"sensitivities", 1}});
    size_t before = model.compiler().diagnostics().size();
    auto forward = forwards.find(number);
    runs += draws + (forward == forwards.end());
    if (failed(
            forward == forwards.end()
                ? sensitivity->addSample(model.samples()[number].tensors, draws)
                : sensitivity->addSample(forward->second, draws)))
      return model.compiler().failure(before);
  }
  forwards.clear();
  BudgetSearchProblem problem = space->searchSpace(errors());
  if (text)
    if (Status status = priceDecoder(problem); !status.ok())
      return status;
  finder.emplace(std::move(problem));
  state.shares = sensitivity->save();
  return state.save();
}

/// Approximate number of significant bits of weights.
static int bitsOf(WeightType type) {
  switch (type) {
  case WeightType::Float32:
    return kFloat32Bits;
  case WeightType::Float16:
    return kFloat16Bits;
  case WeightType::BFloat16:
    return kBFloat16Bits;
  case WeightType::Int16:
    return 15;
  case WeightType::Int8:
    return 7;
  case WeightType::Float8:
    return 4;
  case WeightType::Int4:
    return 3;
  }
  llvm_unreachable("every type has bits");
}

/// Approximate number of significant bits of a contraction's operands, or of a
/// value.
static int bitsOf(const PolicySearchSpace &space,
                  const PolicySearchSpace::Option &option) {
  if (!option.recipe.empty())
    return space.getRecipe()->significantBits;
  int bits = option.type == PolicyType::TensorFloat32
                 ? kFloat16Bits
                 : significantBits(option.type);
  return std::min(bits, bitsOf(option.weights.type));
}

Status TuneCommand::priceDecoder(BudgetSearchProblem &problem) {
  // Only the formats of weights differ, and large models take long to plan.
  if (types.empty())
    problem = makeSeparable(problem);
  const Choice widest(problem.options.size(), 0);
  Result<double> cost = plannedCost(widest);
  if (!cost.ok())
    return cost.status();
  double rest = *cost - problem.plan(widest, 0).cost;
  problem.plan = [this, rest, plan = std::move(problem.plan)](
                     const Choice &choice, double price) {
    PricedConfiguration priced = plan(choice, price);
    priced.cost =
        isOfWeights() ? space->weightBytes(priced.choice) : priced.cost + rest;
    return priced;
  };
  llvm::append_range(problem.starts, space->uniformWeights());
  return {};
}

Status TuneCommand::readRecipe(const std::string &text) {
  llvm::StringRef name(text);
  auto [scaling, type] = name.split(':');
  if (llvm::is_contained(Policy::builtinNames(), name))
    recipeFields = {{"extends", text}};
  else
    recipeFields = {
        {"extends", "mixed_bfloat16"},
        {"operands", {{"scaling", scaling.str()}, {"forward", type.str()}}}};
  llvm::Expected<Policy> policy = Policy::parse(recipeFields.dump(), text);
  if (!policy)
    llvm::consumeError(policy.takeError());
  else if (policy->quantizesOperands()) {
    if (!recipe.empty() && recipe != text)
      return Status(StatusCode::InvalidArgument, "--types",
                    "has two recipes of quantized operands, '" + recipe +
                        "' and '" + text + "'; search them one by one");
    recipe = text;
    return {};
  }
  return Status(
      StatusCode::InvalidArgument, "--types",
      "'" + text +
          "' is neither a compute type (f16, bf16, tf32, f32), nor a type of "
          "quantized weights (int16, int8, int4, float8_e4m3fn), nor a recipe "
          "of quantized operands (float8_current, mxfp8, nvfp4, row:int8)");
}

Result<std::optional<OperandRecipe>> TuneCommand::findQuantized() {
  if (recipe.empty())
    return std::optional<OperandRecipe>();
  if (model.options().training || text)
    return Status(StatusCode::InvalidArgument, "--types " + recipe,
                  "quantizes operands, which is searched for a model's "
                  "inference on --inputs; drop it, or " +
                      std::string(text ? "--text" : "--training"));
  Json file = recipeFields;
  file["name"] = "recipe";
  file["ranges"] = rangesForPolicy(ranges, model.samples());
  Result<TemporaryPolicy> policy = TemporaryPolicy::write(file);
  if (!policy.ok())
    return policy.status();
  size_t before = model.compiler().diagnostics().size();
  NamedPolicy named(policy->path());
  mlir::FailureOr<OperandChanges> made =
      OperandChanges::create(model.entry(), named, arguments.common.sets);
  if (failed(made))
    return model.compiler().failure(before);
  operandChanges = std::move(*made);
  OperandRecipe found;
  found.name = recipe;
  switch (named->getOperands().forward) {
  case OperandType::Int8:
    found.significantBits = 7;
    found.unit = MathType::Int8;
    break;
  case OperandType::E4M3:
    found.unit = MathType::Float8;
    break;
  case OperandType::E2M1:
    found.bits = 4;
    found.significantBits = 2;
    break;
  case OperandType::E5M2:
    found.significantBits = 3;
    found.unit = MathType::Float8;
    break;
  default:
    break;
  }
  for (const OperandChanges::Operand &operand : operandChanges->getOperands())
    found.ops.insert(operand.first);
  return std::optional(std::move(found));
}

void TuneCommand::chooseTypes(const CastFusionTarget &target) {
  if (!recipe.empty() && types.empty())
    types = {PolicyType::BFloat16};
  bool isTime = objective == TuningObjective::Time;
  if (text) {
    // A decode step is bound by the bytes of its weights.
    if (types.empty() && weights.empty())
      weights = {
          {WeightType::BFloat16}, {WeightType::Int8}, {WeightType::Int4}};
    if (llvm::any_of(weights, [](const WeightFormat &format) {
          return format.type == WeightType::Int4;
        }))
      for (int64_t group : {64, 128})
        weights.push_back({WeightType::Int4, group});
    return;
  }
  if (types.empty() && weights.empty()) {
    types = {PolicyType::Float16, PolicyType::BFloat16};
    // Compute modes such as tf32 save no bytes.
    if (isTime && target.roundsToTensorFloat32)
      types.push_back(PolicyType::TensorFloat32);
    // With a 16-bit unit, an f32 contraction with unpacked int8 weights saves
    // bytes but loses time.
    if (isTime || isFloat32AsFast(target))
      weights = {{WeightType::Int16}, {WeightType::Int8}};
  }
  // The same holds for 16-bit weights of an f32 contraction: floats unpack
  // faster, integers have less error.
  PolicyType store = PolicySearchSpace::basePolicy(types).getStore();
  if (store != PolicyType::Float32 && (isTime || isFloat32AsFast(target)))
    weights.push_back({store == PolicyType::Float16 ? WeightType::Float16
                                                    : WeightType::BFloat16});
  // The weights of a training step are arguments.
  if (model.options().training)
    weights.clear();
}

Status TuneCommand::makeSpace() {
  CastFusionTarget target(costModel().compiler().target());
  target.hasProductLibrary =
      costModel().compiler().pipelineOptions().libraryGemms;
  if (objective == TuningObjective::Time && !target.machine.hasCeilings())
    return Status(StatusCode::InvalidArgument,
                  costBudget ? "--budget " + arguments.budget
                             : "--objective time",
                  "needs a target with known roofline ceilings; " +
                      target.machine.name() + " has none");
  if (!weights.empty() && model.options().training)
    return Status(StatusCode::InvalidArgument, "--types",
                  "has a type of quantized weights, but the weights of a "
                  "training step are arguments; drop the type");
  if (!weights.empty() && target.hasProductLibrary)
    reporter.note(
        "the library of " + target.machine.name() +
        " has no GEMM with quantized weights, so weight types are ignored");
  chooseTypes(target);
  llvm::sort(weights, [&](const WeightFormat &a, const WeightFormat &b) {
    return std::pair(-bitsOf(a.type), a.group) <
           std::pair(-bitsOf(b.type), b.group);
  });
  Result<std::optional<OperandRecipe>> quantized = findQuantized();
  if (!quantized.ok())
    return quantized.status();
  Policy base = PolicySearchSpace::basePolicy(types);
  for (const std::string &text : arguments.common.sets)
    if (llvm::Error error = base.addOverride(text))
      return Status(StatusCode::InvalidArgument, "--set " + text,
                    llvm::toString(std::move(error)));
  for (const auto &[name, range] : ranges.get())
    base.addRange(
        name, {range.largest, range.largestSample < 0
                                  ? ""
                                  : model.samples()[range.largestSample].name});
  size_t before = costModel().compiler().diagnostics().size();
  mlir::FailureOr<PolicySearchSpace> made =
      PolicySearchSpace::create(costModel().entry(), target, base, types,
                                weights, objective, std::move(*quantized));
  if (failed(made))
    return costModel().compiler().failure(before);
  space.emplace(std::move(*made));
  if (space->countUnnamed() && !recipe.empty())
    return Status(
        StatusCode::InvalidArgument, "--types " + recipe,
        "needs a name for each contraction, by which a policy exempts "
        "it, and the model has some without; name its nodes");
  if (int64_t unnamed = space->countUnnamed())
    reporter.note(std::to_string(unnamed) +
                  " contractions have no name that a policy could match, and "
                  "stay in float32");
  return {};
}

//===----------------------------------------------------------------------===//
// Refinement of the cheapest configuration
//
// The cheapest configuration is known without derivatives. If it satisfies the
// budget, or an equally cheap built-in policy does, there is nothing to search:
// one or two runs per sample, besides those in float64.
//===----------------------------------------------------------------------===//

/// Marks a value without a prediction.
static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// Returns `found` with more bits where they are free.
static PricedConfiguration withMoreBits(const PolicySearchSpace &space,
                                        BudgetSearch &search,
                                        PricedConfiguration found) {
  for (auto [index, variable] : llvm::enumerate(space.getVariables()))
    for (size_t option = 0; option < variable.options.size(); ++option) {
      Choice other = found.choice;
      other[index] = int(option);
      if (bitsOf(space, variable.options[option]) <=
          bitsOf(space, variable.options[found.choice[index]]))
        continue;
      PricedConfiguration priced = search.price(other);
      if (priced.cost <= found.cost)
        found = std::move(priced);
    }
  return found;
}

/// Returns the bytes of a configuration's planned program.
Result<double> TuneCommand::plannedCost(const Choice &choice) const {
  TunedPoint point;
  point.priced.choice = choice;
  Result<TemporaryPolicy> policy = TemporaryPolicy::write(policyFile(point));
  if (!policy.ok())
    return policy.status();
  Result<PolicyMeasurements> figures = costMeter().plan(policy->path());
  if (!figures.ok())
    return figures.status();
  return costOf(*figures);
}

Status TuneCommand::priceFront() {
  if (objective == TuningObjective::Time || text)
    return {};
  for (PricedConfiguration &point : front) {
    if (stops())
      break;
    Result<double> cost = plannedCost(point.choice);
    if (!cost.ok())
      return cost.status();
    point.cost = *cost;
  }
  std::sort(front.begin(), front.end(), [](const auto &a, const auto &b) {
    return std::pair(a.cost, a.error) < std::pair(b.cost, b.error);
  });
  double least = INFINITY;
  llvm::erase_if(front, [&](const PricedConfiguration &point) {
    bool isDominated = point.error >= least;
    least = std::min(least, point.error);
    return isDominated;
  });
  return {};
}

Status TuneCommand::refineCheapest() {
  // Reports, of which each layer of a decoder has one, and trials need
  // derivatives; times are measured, not predicted.
  bool isTimed = objective == TuningObjective::Time && meter->isCompiled();
  if (text || costBudget || isTimed || !arguments.html.empty() ||
      arguments.trials)
    return {};
  // Without error contributions.
  Sensitivity none(model.entry(), budget.measure);
  BudgetSearch cheap(space->searchSpace(none));
  std::optional<PricedConfiguration> found = cheap.within(0);
  if (!found)
    return {};
  found = withMoreBits(*space, cheap, std::move(*found));
  Status failed;
  TuningCallbacks asked = questions(failed);
  auto point =
      [&](const PricedConfiguration &priced) -> std::optional<TunedPoint> {
    std::optional<Measurement> measured = asked.measure(priced.choice);
    if (!measured)
      return std::nullopt;
    return TunedPoint{priced, kUnknown, measured->error,
                      measured->cost.value_or(priced.cost)};
  };
  std::optional<TunedPoint> best = point(*found);
  // Relative cost difference below the model's resolution.
  constexpr double kSame = 1e-3;
  for (const PricedConfiguration &start : cheap.starts()) {
    if (!best || best->measured <= budget.limit)
      break;
    if (start.cost <= found->cost * (1 + kSame))
      best = point(start);
  }
  if (!best || !(best->measured <= budget.limit))
    return failed;
  result.best = best;
  if (!heldBack.empty()) {
    if (Status status = evaluateValidation(); !status.ok())
      return status;
    ++looks;
    if (*promised > budget.limit) {
      result.best.reset();
      promised.reset();
      return {};
    }
  }
  // Then float32's own error is not needed.
  PricedConfiguration widest = cheap.widest();
  result.widest = TunedPoint{widest, kUnknown, kUnknown, widest.cost};
  if (meter->isCompiled()) {
    Result<double> cost = plannedCost(widest.choice);
    if (!cost.ok())
      return cost.status();
    result.widest->cost = *cost;
  }
  result.tried = {*best};
  Result<bool> isLeast = costsLeast(*best, cheap);
  if (!isLeast.ok())
    return isLeast.status();
  isCheapest = *isLeast;
  return {};
}

Result<bool> TuneCommand::costsLeast(const TunedPoint &point,
                                     BudgetSearch &cheap) {
  if (!meter->isCompiled())
    return true;
  std::vector<Choice> others = {cheap.widest().choice};
  for (const PricedConfiguration &start : cheap.starts()) {
    if (stops())
      return false;
    others.push_back(start.choice);
    Result<double> cost = plannedCost(start.choice);
    if (!cost.ok())
      return cost.status();
    if (*cost < point.cost)
      return false;
  }
  // Then it need not be as fast either.
  if (!isGuarded())
    return true;
  return isAsFast(point.priced.choice, std::move(others));
}

//===----------------------------------------------------------------------===//
// Timing
//
// The configuration with the least traffic may be slower: quantized weights are
// unpacked, 16-bit rows converted. If bytes are the objective and programs run
// here, the result is not slower than the best built-in policy that satisfies
// the budget; if time is, it moves no more bytes.
//===----------------------------------------------------------------------===//

/// Maximum number of searches with a time price.
static constexpr int kMostAttempts = 3;
/// Maximum number of timed points per search, besides the built-in ones.
static constexpr size_t kMostPoints = 4;
/// Relative differences in time below clock noise, and insignificant ones in
/// bytes.
static constexpr double kTimeNoise = 0.005, kByteNoise = 0.001;

bool TuneCommand::isGuarded() const {
  if (text || costBudget || !meter->isCompiled())
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
    const Choice &choice = point.priced.choice;
    std::string name = builtInName(choice);
    double bytes = state.find(choice, TuneState::Part::Searched)->bytes;
    reporter.note((name.empty() ? "assignment" : name) + ": " +
                  shortBytes(bytes) + " in " +
                  shortNumber(1e3 * secondsOf.at(choice)) + " ms (predicted " +
                  shortNumber(1e3 * kernelTimes->secondsOf(choice)) + " ms)");
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
  BudgetSearchProblem timed = space->searchSpace(errors());
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

/// Number of prices at which the Pareto front is sampled.
static constexpr int kFrontPrices = 12;
/// Maximum number of validation failures that tighten the search.
static constexpr int kMostLooks = 5;
/// Safety factor on the limit after a validation failure.
static constexpr double kCaution = 0.9;

double TuneCommand::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

Status TuneCommand::readFlags() {
  llvm::Expected<std::optional<CostBudget>> cost =
      CostBudget::parse(arguments.budget);
  if (!cost)
    return Status(StatusCode::InvalidArgument, "--budget",
                  llvm::toString(cost.takeError()));
  costBudget = *cost;
  if (costBudget && !arguments.text.empty())
    budget.measure = Budget::Measure::Kl;
  if (!costBudget) {
    llvm::Expected<Budget> parsed = Budget::parse(arguments.budget);
    if (!parsed)
      return Status(StatusCode::InvalidArgument, "--budget",
                    llvm::toString(parsed.takeError()));
    budget = *parsed;
  }
  objective = parseTuningObjective(arguments.objective)
                  .value_or(costBudget ? costBudget->objective
                                       : TuningObjective::Bytes);
  if (costBudget && objective != costBudget->objective)
    return Status(
        StatusCode::InvalidArgument, "--objective " + arguments.objective,
        "contradicts --budget \"" + arguments.budget +
            "\", which minimizes the error at a given cost; drop --objective");
  if (arguments.resume && arguments.output.empty())
    return Status(StatusCode::InvalidArgument, "--resume",
                  "needs -o: the state is stored next to the output policy");
  if (arguments.common.policy != CommonOptions().policy)
    return Status(StatusCode::InvalidArgument,
                  "--policy " + arguments.common.policy,
                  "is the result of mpc tune; drop --policy");
  for (const std::string &text : arguments.types) {
    std::optional<PolicyType> type = parsePolicyType(text);
    std::optional<WeightType> form = parseWeightType(text);
    constexpr PolicyType kKnown[] = {PolicyType::Float32, PolicyType::Float16,
                                     PolicyType::BFloat16,
                                     PolicyType::TensorFloat32};
    if (type && llvm::is_contained(kKnown, *type))
      types.push_back(*type);
    else if (form)
      weights.push_back({*form});
    else if (Status status = readRecipe(text); !status.ok())
      return status;
  }
  return checkTextBudget();
}

Status TuneCommand::checkTextBudget() const {
  bool isOfText =
      budget.measure == Budget::Measure::Perplexity || isOfWeights();
  if (arguments.text.empty())
    return isOfText ? Status(StatusCode::InvalidArgument,
                             "--budget " + arguments.budget,
                             "is about a decoder's text; give --text")
                    : Status();
  if (objective == TuningObjective::Time)
    return Status(StatusCode::InvalidArgument,
                  costBudget ? "--budget " + arguments.budget
                             : "--objective time",
                  "is not measured for a decode step, which is bound by the "
                  "bytes of its weights; use bytes or memory");
  if (costBudget || isOfText || budget.measure == Budget::Measure::Kl ||
      budget.measure == Budget::Measure::Top1)
    return {};
  return Status(StatusCode::InvalidArgument, "--budget " + arguments.budget,
                "does not measure next-token distributions; use \"kl 0.01\", "
                "\"perplexity 1%\" or \"top1 1%\" with --text");
}

std::vector<Status> TuneCommand::loadDecoder(const CompileOptions &options) {
  Result<DecoderText> read = DecoderText::read(
      arguments.text, arguments.window, ModelSource(arguments.common.model));
  if (!read.ok())
    return {read.status()};
  text = std::move(*read);
  if (std::vector<Status> problems =
          text->load(model, arguments.common, options);
      !problems.empty())
    return problems;
  if (Status status = step.import(arguments.common, text->stepOptions(options));
      !status.ok())
    return {status};
  return {};
}

std::vector<Status> TuneCommand::loadModel() {
  Result<CompileOptions> options =
      makeCompileOptions(arguments.common, reporter);
  if (!options.ok())
    return {options.status()};
  if (Status status = setGradients(arguments.training, *options); !status.ok())
    return {status};
  if (std::vector<Status> problems =
          arguments.text.empty()
              ? model.load(arguments.common, arguments.samples, *options)
              : loadDecoder(*options);
      !problems.empty())
    return problems;
  for (size_t i = 0; i < model.samples().size(); ++i)
    (i % 2 == 0 ? searched : heldBack).push_back(i);
  if (heldBack.empty())
    reporter.note(text ? "the text has only one window, so the result is not "
                         "validated on other text; give a longer one, or a "
                         "smaller --window"
                       : "there is only one sample, so the result is not "
                         "validated on other data; give at least two");
  if (text)
    return {};
  bool needsRows = budget.measure == Budget::Measure::Kl ||
                   budget.measure == Budget::Measure::Top1;
  bool measurable =
      llvm::any_of(resultsOf(model.entry()), [&](const ProgramValue &value) {
        const std::vector<int64_t> &shape = value.type.shape;
        return isFloat(value.type.element) &&
               (!needsRows || (!shape.empty() && shape.back() > 1));
      });
  if (!measurable)
    return {
        Status(StatusCode::InvalidArgument, arguments.common.model,
               "has no float output " +
                   std::string(needsRows ? "with rows of two or more " : "") +
                   "whose error a budget can limit")};
  return {};
}

/// Returns a hash of everything that determines the search.
static std::string keyOf(const SampledModel &model, const std::string &digest,
                         const std::string &command) {
  llvm::MD5 hash;
  hash.update(digest);
  hash.update(command);
  hash.update(model.compiler().targetName());
  for (const Sample &sample : model.samples())
    for (const Buffer &buffer : sample.buffers)
      hash.update(llvm::StringRef(static_cast<const char *>(buffer.data()),
                                  buffer.size()));
  llvm::MD5::MD5Result result;
  hash.final(result);
  return result.digest().str().str();
}

Status TuneCommand::resume() {
  digest = graphDigest(model.entry());
  if (arguments.output.empty())
    return {};
  state = TuneState(arguments.output + ".state",
                    keyOf(model, digest, commandOf(arguments)));
  if (!arguments.resume)
    return {};
  if (Status status = state.load(); !status.ok())
    return status;
  reporter.note("goes on from " + std::to_string(state.countMeasured()) +
                " measurements");
  return {};
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

double TuneCommand::costOf(const PolicyMeasurements &figures) const {
  switch (objective) {
  case TuningObjective::Bytes:
    return figures.bytes;
  case TuningObjective::Memory:
    return figures.memory;
  case TuningObjective::Time:
    return *figures.seconds;
  }
  llvm_unreachable("an objective without a figure");
}

Result<PolicyMeasurements>
TuneCommand::compileAndMeasure(const Choice &choice, TuneState::Part part,
                               std::vector<OutputAgreement> *agreements) {
  TunedPoint point;
  point.priced.choice = choice;
  Result<TemporaryPolicy> policy = TemporaryPolicy::write(policyFile(point));
  if (!policy.ok())
    return policy.status();
  bool isSearched = part == TuneState::Part::Searched;
  const std::vector<size_t> &samples = isSearched ? searched : heldBack;
  ++measurements;
  std::vector<ProgressPart> parts = {
      {"assignment " + std::to_string(measurements)}};
  if (result.best)
    parts.push_back({"best " + costText(result.best->cost), 1});
  progress->show(arguments.seconds > 0 ? seconds() / arguments.seconds : -1,
                 parts);
  runs += int64_t(samples.size());
  Result<PolicyMeasurements> figures = meter->measure(
      policy->path(), samples, isSearched && objective == TuningObjective::Time,
      agreements);
  if (!text || !figures.ok())
    return figures;
  Result<PolicyMeasurements> planned = stepMeter->plan(policy->path());
  if (planned.ok())
    planned->error = figures->error;
  return planned;
}

Result<PolicyMeasurements> TuneCommand::measure(const Choice &choice,
                                                TuneState::Part part) {
  if (const PolicyMeasurements *known = state.find(choice, part))
    return *known;
  Result<PolicyMeasurements> figures = compileAndMeasure(choice, part);
  if (!figures.ok())
    return figures;
  state.add(choice, part, *figures);
  if (Status status = state.save(); !status.ok())
    return status;
  return figures;
}

bool TuneCommand::stops() const {
  return StopOnSignal::isAsked() ||
         (arguments.seconds > 0 && seconds() > arguments.seconds);
}

/// `failed` is set if a measurement fails; it must outlive the questions.
TuningCallbacks TuneCommand::questions(Status &failed) {
  TuningCallbacks questions;
  questions.stop = [this] { return stops(); };
  questions.measure =
      [this, &failed](const Choice &choice) -> std::optional<Measurement> {
    Result<PolicyMeasurements> figures =
        measure(choice, TuneState::Part::Searched);
    if (!figures.ok()) {
      failed = figures.status();
      return std::nullopt;
    }
    Measurement measured{figures->error, std::nullopt};
    // Without a measured time use the modeled cost.
    if (objective != TuningObjective::Time || figures->seconds)
      measured.cost = costOf(*figures);
    if (isOfWeights())
      measured.cost = space->weightBytes(choice);
    return measured;
  };
  questions.onPoint = [this,
                       said = int64_t(0)](const TunedPoint &point) mutable {
    // Report new measurements only.
    if (measurements == said)
      return;
    said = measurements;
    bool keeps = costBudget || point.measured <= budget.limit;
    std::string name = builtInName(point.priced.choice);
    reporter.note("measured " + stringify(budget.measure).str() + " " +
                  shortNumber(point.measured) + " (predicted " +
                  shortNumber(point.predicted) + "), " + costText(point.cost) +
                  (name.empty() ? "" : ", " + name) +
                  (keeps ? "" : ": over the budget"));
  };
  return questions;
}

Status TuneCommand::evaluateValidation() {
  Result<PolicyMeasurements> figures =
      measure(result.best->priced.choice, TuneState::Part::HeldBack);
  if (figures.ok())
    promised = figures->error;
  return figures.status();
}

Status TuneCommand::searchError(const TuningCallbacks &questions,
                                const Status &failed) {
  aim = budget;
  while (true) {
    result = tuneToBudget(*finder, aim, questions);
    if (!failed.ok())
      return failed;
    // The fallback if the target is below float32's own error.
    bool isWidest = !result.best;
    if (isWidest && result.widest && result.widest->measured <= budget.limit)
      result.best = result.widest;
    if (!result.best || heldBack.empty())
      return {};
    if (Status status = evaluateValidation(); !status.ok())
      return status;
    ++looks;
    if (*promised <= budget.limit)
      return {};
    reporter.note("the error on the validation samples is " +
                  shortNumber(*promised) + ": the budget is tightened");
    if (isWidest) {
      result.best.reset();
      return {};
    }
    // Fall back to float32.
    if (looks >= kMostLooks) {
      aim.limit = 0;
      continue;
    }
    double loss = std::isfinite(*promised) ? budget.limit / *promised : 0.25;
    aim.limit *= std::max(loss * kCaution, 0.05);
  }
}

Status TuneCommand::searchCost(const TuningCallbacks &questions,
                               const Status &failed) {
  result = tuneToCost(*finder, budget.measure, costBudget->share, questions);
  if (!failed.ok())
    return failed;
  if (!result.best || heldBack.empty())
    return {};
  return evaluateValidation();
}

Status TuneCommand::evaluateAgreement() {
  if (!result.best || !model.options().training)
    return {};
  bool isSearched = heldBack.empty();
  return compileAndMeasure(result.best->priced.choice,
                           isSearched ? TuneState::Part::Searched
                                      : TuneState::Part::HeldBack,
                           &agreements)
      .status();
}

Status TuneCommand::evaluateText() {
  if (!result.best || !text)
    return {};
  Result<TemporaryPolicy> policy =
      TemporaryPolicy::write(policyFile(*result.best));
  if (!policy.ok())
    return policy.status();
  std::vector<size_t> all(text->windows().size());
  std::iota(all.begin(), all.end(), 0);
  ++measurements;
  runs += int64_t(all.size());
  agreement.emplace();
  return meter
      ->measure(policy->path(), all, /*isTimed=*/false, /*agreements=*/nullptr,
                &*agreement)
      .status();
}

Status TuneCommand::search() {
  if (isCheapest)
    return evaluateAgreement();
  Status failed;
  TuningCallbacks asked = questions(failed);
  front = finder->front(kFrontPrices, asked.stop);
  if (Status status = priceFront(); !status.ok())
    return status;
  for (const PricedConfiguration &start : finder->starts())
    builtIn.push_back(start.choice);
  builtIn.push_back(finder->widest().choice);
  if (Status status =
          costBudget ? searchCost(asked, failed) : searchError(asked, failed);
      !status.ok())
    return status;
  if (Status status = chooseAmongTypes(asked, failed); !status.ok())
    return status;
  if (Status status = evaluateAgreement(); !status.ok())
    return status;
  if (Status status = evaluateText(); !status.ok())
    return status;
  return measureTrials();
}

int TuneCommand::run() {
  if (Status status = readFlags(); !status.ok())
    return reporter.fail(status);
  std::vector<std::string> written;
  if (!arguments.output.empty())
    written = {arguments.output, arguments.output + ".state"};
  if (!arguments.html.empty())
    written.push_back(arguments.html);
  for (const std::string &path : written)
    if (Status status = checkOutput(path, arguments.common.model,
                                    arguments.samples, arguments.text);
        !status.ok())
      return reporter.fail(status);
  if (Status status = checkHtml(arguments.html); !status.ok())
    return reporter.fail(status);
  if (std::vector<Status> problems = loadModel(); !problems.empty())
    return reporter.fail(problems);
  stopper.emplace();
  progress.emplace(!arguments.common.quiet && !arguments.common.json);
  reporter.onOutput([this] { progress->clear(); });
  for (Status (TuneCommand::*step)() :
       {&TuneCommand::chooseScale, &TuneCommand::resume,
        &TuneCommand::evaluateSamples, &TuneCommand::makeSpace,
        &TuneCommand::refineCheapest, &TuneCommand::differentiate,
        &TuneCommand::search}) {
    if (Status status = (this->*step)(); !status.ok())
      return reporter.fail(status);
    if (StopOnSignal::isAsked() && !result.best)
      return reportInterrupt();
  }
  return report();
}

int tool::tuneCommand(const TuneArguments &arguments) {
  return TuneCommand(arguments).run();
}
