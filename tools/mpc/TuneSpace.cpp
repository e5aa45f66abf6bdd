//===- TuneSpace.cpp - search space of mpc tune ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tune.h"

#include "mpc/Analysis/QuantizedWeightStorage.h"

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::Tensor;

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

Status TuneCommand::evaluateSamples() {
  // Limit of cached forward values of samples.
  constexpr int64_t kMostKept = int64_t(1) << 29;
  int64_t keptBytes = 0;
  meter.emplace(arguments.common, model, budget.measure);
  if (Status status = meter->prepare(); !status.ok())
    return status;
  for (auto [number, sample] : llvm::enumerate(model.samples())) {
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
  space->considerWeights(*sensitivity);
  // A few random passes suffice to detect correlated roundings.
  int draws = std::max<int>(1, kDraws / int(searched.size()));
  bool isKnown = sensitivity->restore(state.shares);
  for (size_t number : searched) {
    if (isKnown)
      break;
    // Keep the result found without derivatives.
    if (result.best && stops()) {
      isCheapest = result.isStopped = true;
      return {};
    }
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
  finder.emplace(space->searchSpace(*sensitivity));
  state.shares = sensitivity->save();
  return state.save();
}

void TuneCommand::chooseTypes(const CastFusionTarget &target) {
  bool isTime = objective == TuningObjective::Time;
  if (types.empty() && weights.empty()) {
    types = {PolicyType::Float16, PolicyType::BFloat16};
    // Compute modes such as tf32 save no bytes.
    if (isTime && target.roundsToTensorFloat32)
      types.push_back(PolicyType::TensorFloat32);
    // With a 16-bit unit, an f32 contraction with unpacked int8 weights saves
    // bytes but loses time.
    if (isTime || isFloat32AsFast(target))
      weights = {WeightType::Int16, WeightType::Int8};
  }
  // The same holds for 16-bit weights of an f32 contraction: floats unpack
  // faster, integers have less error.
  PolicyType store = PolicySearchSpace::basePolicy(types).getStore();
  if (store != PolicyType::Float32 && (isTime || isFloat32AsFast(target)))
    weights.push_back(store == PolicyType::Float16 ? WeightType::Float16
                                                   : WeightType::BFloat16);
  // The weights of a training step are arguments.
  if (model.options().training)
    weights.clear();
}

Status TuneCommand::makeSpace() {
  CastFusionTarget target(model.compiler().target());
  target.hasProductLibrary = model.compiler().pipelineOptions().libraryGemms;
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
  size_t before = model.compiler().diagnostics().size();
  mlir::FailureOr<PolicySearchSpace> made = PolicySearchSpace::create(
      model.entry(), target, base, types, weights, objective);
  if (failed(made))
    return model.compiler().failure(before);
  space.emplace(std::move(*made));
  if (int64_t unnamed = space->countUnnamed())
    reporter.note(std::to_string(unnamed) +
                  " contractions have no name that a policy could match, and "
                  "stay in float32");
  return {};
}
