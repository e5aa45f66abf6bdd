//===- Calibrate.cpp - mpc calibrate --------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Records ranges of values, and second moments of contraction operands: the
// oracle runs the simplified graph, with the names of policies, in float64 over
// the calibration set.
//
//===----------------------------------------------------------------------===//

#include "Calibrate.h"

#include "Commands.h"
#include "Inputs.h"
#include "InstrumentOps.h"

#include "mpc/Analysis/BackwardOps.h"
#include "mpc/Analysis/GraphDigest.h"
#include "mpc/Analysis/RangeRecorder.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Policy/Policy.h"
#include "mpc/Support/EscapedText.h"
#include "mpc/Support/Files.h"

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::Tensor;

Status tool::setGradients(const std::string &text, CompileOptions &options) {
  if (Status status = setTraining(text, options);
      !status.ok() || !options.training)
    return status;
  if (options.training->part != TrainingPart::ForwardBackward)
    return Status(
        StatusCode::InvalidArgument, "--training " + text,
        "does not return gradients; use \"forward-backward\" and its flags");
  if (!options.training->lossScale.empty())
    return Status(StatusCode::InvalidArgument, "--training " + text,
                  "sets a loss scale, but mpc calibrate searches for one; drop "
                  "loss-scale");
  options.training->lossScale = "none";
  return {};
}

OpObserver tool::observeRanges(const SampledModel &model, size_t number,
                               RangeRecorder &recorder) {
  const Sample &sample = model.samples()[number];
  for (auto [value, tensor] :
       llvm::zip_equal(argumentsOf(model.entry()), sample.tensors))
    if (tensor.isFloat())
      recorder.add(value.name, tensor.floats(), number);
  return
      [&recorder, number](mlir::Operation *op, llvm::ArrayRef<Tensor> results) {
        for (const Tensor &result : results)
          if (result.isFloat())
            recorder.add(opName(op), result.floats(), number);
      };
}

Status tool::recordRanges(const SampledModel &model, RangeRecorder &recorder,
                          RangeRecorder &gradients,
                          ActivationMoments *moments) {
  llvm::DenseSet<mlir::Operation *> backward = findBackward(model.entry());
  for (size_t number = 0; number < model.samples().size(); ++number) {
    OpObserver forward = observeRanges(model, number, recorder);
    if (moments)
      for (auto [argument, tensor] : llvm::zip_equal(
               model.entry().getArguments(), model.samples()[number].tensors))
        if (tensor.isFloat())
          moments->add(argument, tensor.floats());
    auto observer = [&](mlir::Operation *op, llvm::ArrayRef<Tensor> results) {
      if (mlir::isa<GradientSeedOp>(op))
        return;
      if (!backward.contains(op)) {
        forward(op, results);
        if (moments)
          for (auto [value, result] :
               llvm::zip_equal(op->getResults(), results))
            if (result.isFloat())
              moments->add(value, result.floats());
        return;
      }
      for (const Tensor &result : results)
        if (result.isFloat())
          gradients.add(opName(op) + " backward", result.floats(), number);
    };
    if (Result<std::vector<Tensor>> outputs =
            model.interpret(model.samples()[number], observer);
        !outputs.ok())
      return outputs.status();
  }
  return {};
}

Json tool::describe(const LossScaleChoice &choice) {
  Json flushing = Json::array();
  for (const auto &[name, share] : choice.flushing)
    flushing.push_back({{"name", name}, {"flushed", share}});
  return {{"scale", choice.scale()},
          {"flushed", choice.flushed},
          {"subnormal", choice.subnormal},
          {"flushed_unscaled", choice.flushedUnscaled},
          {"subnormal_unscaled", choice.subnormalUnscaled},
          {"largest", choice.largest},
          {"largest_magnitude", choice.largestMagnitude},
          {"flushing", flushing}};
}

std::string tool::sentence(const LossScaleChoice &choice) {
  std::string text = "loss scale " + shortNumber(choice.scale()) +
                     ": f16 flushes " + shortNumber(100 * choice.flushed) +
                     "% of the gradient elements, without a scale " +
                     shortNumber(100 * choice.flushedUnscaled) + "%";
  if (!choice.largest.empty())
    text += "; '" + choice.largest + "' reaches " +
            shortNumber(choice.largestMagnitude * choice.scale()) + " with it";
  if (choice.power > 0)
    text +=
        "; set --loss-scale static=" + std::to_string(int64_t(choice.scale())) +
        ", or start a dynamic loss scale there";
  return text;
}

static Json describeLosses(const RecordedRange::Losses &losses) {
  return {{"overflowed", losses.overflowed},
          {"subnormal", losses.subnormal},
          {"flushed", losses.flushed}};
}

static Json describeRange(const RecordedRange &range,
                          const std::vector<Sample> &samples) {
  Json json = {{"elements", range.elements},
               {"zeros", range.zeros},
               {"not_finite", range.notFinite},
               {"least", range.least},
               {"largest", range.largest}};
  if (range.leastSample >= 0)
    json["least_sample"] = samples[range.leastSample].name;
  if (range.largestSample >= 0)
    json["largest_sample"] = samples[range.largestSample].name;
  if (range.notFiniteSample >= 0)
    json["not_finite_sample"] = samples[range.notFiniteSample].name;
  json["f16"] = describeLosses(range.float16);
  json["bf16"] = describeLosses(range.bfloat16);
  Json exponents = Json::object();
  for (auto [exponent, count] : range.exponents)
    exponents[std::to_string(exponent)] = count;
  json["exponents"] = exponents;
  return json;
}

Json tool::rangesToJson(const RangeRecorder &recorder,
                        const std::vector<Sample> &samples) {
  Json values = Json::object();
  for (const auto &[name, range] : recorder.get())
    values[name] = describeRange(range, samples);
  return values;
}

Json tool::rangesForPolicy(const RangeRecorder &recorder,
                           const std::vector<Sample> &samples) {
  Json ranges = Json::object();
  for (const auto &[name, range] : recorder.get()) {
    ranges[name] = {{"least", range.least}, {"largest", range.largest}};
    if (range.largestSample >= 0)
      ranges[name]["largest_sample"] = samples[range.largestSample].name;
  }
  return ranges;
}

/// Returns the policy of --policy with the recorded data: a policy that extends
/// a built-in one, or the file's own fields.
static Result<Json> calibratedPolicy(const CalibrateArguments &arguments,
                                     const SampledModel &model,
                                     const RangeRecorder &recorder) {
  const std::string &name = arguments.common.policy;
  Json policy = {{"name", "calibrated"},
                 {"description", "ranges by mpc calibrate over " +
                                     std::to_string(model.samples().size()) +
                                     " samples"},
                 {"extends", name}};
  if (llvm::StringRef(name).ends_with(".json")) {
    Result<std::string> text = readWholeFile(name);
    if (!text.ok())
      return text.status();
    // The compiler of `model` has parsed it.
    policy = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
    policy.erase("moments");
  }
  policy["ranges"] = rangesForPolicy(recorder, model.samples());
  // A complete training step is a different graph than this part.
  if (arguments.training.empty())
    policy["model"] = graphDigest(model.entry());
  else
    policy.erase("model");
  llvm::Expected<Policy> read = Policy::load(name);
  if (!read)
    return Status(StatusCode::InvalidArgument, name,
                  llvm::toString(read.takeError()));
  // The graph's digest includes the weights, which quantization changes.
  if (read->narrowsWeights())
    policy.erase("model");
  return policy;
}

/// Formats `policy` with `moments`, one op per line.
static std::string policyText(const Json &policy,
                              const ActivationMoments &moments) {
  std::string text = jsonText(policy, 1), separator;
  auto means = moments.means();
  if (means.empty())
    return text + "\n";
  text.resize(text.rfind("\n}"));
  text += ",\n \"moments\": {";
  for (const auto &[name, squares] : means) {
    Json numbers = Json::array();
    // More digits are insignificant for weighting errors.
    for (double square : squares)
      numbers.push_back(std::strtod(shortNumber(square).c_str(), nullptr));
    text +=
        separator + "\n  " + jsonText(Json(name)) + ": " + jsonText(numbers);
    separator = ",";
  }
  return text + "\n }\n}\n";
}

/// Formats a percentage: "0.1%"; empty for none.
static std::string share(int64_t part, int64_t whole) {
  if (part == 0)
    return "";
  return shortNumber(100 * double(part) / double(whole)) + "%";
}

int tool::calibrateCommand(const CalibrateArguments &arguments) {
  Reporter reporter(arguments.common.json, arguments.common.quiet);
  Result<CompileOptions> options =
      makeCompileOptions(arguments.common, reporter);
  if (!options.ok())
    return reporter.fail(options.status());
  if (Status status = setGradients(arguments.training, *options); !status.ok())
    return reporter.fail(status);
  if (!arguments.output.empty()) {
    if (Status status = checkOutput(arguments.output, arguments.common.model,
                                    arguments.samples);
        !status.ok())
      return reporter.fail(status);
  }
  SampledModel model;
  if (std::vector<Status> problems =
          model.load(arguments.common, arguments.samples, *options);
      !problems.empty())
    return reporter.fail(problems);
  RangeRecorder recorder, gradients;
  ActivationMoments moments;
  if (Status status = recordRanges(model, recorder, gradients, &moments);
      !status.ok())
    return reporter.fail(status);

  std::vector<std::vector<std::string>> table = {
      {"value", "least", "largest", "f16 overflow", "f16 subnormal",
       "f16 flushed", "bf16 flushed", "sample of the largest"}};
  auto addRange = [&](const std::string &name, const RecordedRange &range) {
    const std::vector<Sample> &samples = model.samples();
    int64_t counted = std::max<int64_t>(range.elements - range.zeros, 1);
    table.push_back(
        {name, shortNumber(range.least),
         range.notFinite ? "not finite" : shortNumber(range.largest),
         share(range.float16.overflowed, counted),
         share(range.float16.subnormal, counted),
         share(range.float16.flushed, counted),
         share(range.bfloat16.flushed, counted),
         range.largestSample < 0 ? "" : samples[range.largestSample].name});
  };
  for (const RangeRecorder *part : {&recorder, &gradients})
    for (const auto &[name, range] : part->get())
      addRange(name, range);
  Json values = rangesToJson(recorder, model.samples());
  values.update(rangesToJson(gradients, model.samples()));
  Json document = {{"model", arguments.common.model},
                   {"digest", graphDigest(model.entry())},
                   {"samples", model.samples().size()},
                   {"values", values}};
  if (!arguments.output.empty()) {
    Result<Json> policy = calibratedPolicy(arguments, model, recorder);
    if (!policy.ok())
      return reporter.fail(policy.status());
    if (Status status =
            writeWholeFile(arguments.output, {policyText(*policy, moments)});
        !status.ok())
      return reporter.fail(status);
  }
  reporter.lines(
      formatTable(table, {false, true, true, true, true, true, true, false}));
  if (options->training) {
    LossScaleChoice scale = chooseLossScale(gradients);
    document["loss_scale"] = describe(scale);
    reporter.line(sentence(scale));
    for (const auto &[name, share] : scale.flushing)
      reporter.line("'" + name + "' loses " + shortNumber(100 * share) +
                    "% even with this scale; keep it in float32 or bfloat16");
  }
  reporter.document(document);
  return reporter.finish(kDone);
}
