//===- Calibrate.cpp - mpc calibrate --------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How large values become, and what weights are multiplied with: the oracle
// runs the simplified graph, whose names policies know, in float64 over
// samples.
//
//===----------------------------------------------------------------------===//

#include "Calibrate.h"

#include "Commands.h"
#include "Inputs.h"
#include "Instrument.h"

#include "mpc/Analysis/GraphDigest.h"
#include "mpc/Analysis/RangeRecorder.h"
#include "mpc/Policy/Policy.h"
#include "mpc/Support/Files.h"

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::Tensor;

Status tool::recordRanges(const SampledModel &model, RangeRecorder &recorder,
                          MomentRecorder *moments) {
  for (auto [number, sample] : llvm::enumerate(model.samples())) {
    for (auto [argument, value, tensor] :
         llvm::zip_equal(model.entry().getArguments(),
                         argumentsOf(model.entry()), sample.tensors))
      if (tensor.isFloat()) {
        recorder.add(value.name, tensor.floats(), number);
        if (moments)
          moments->add(argument, tensor.floats());
      }
    auto observer = [&](mlir::Operation *op, llvm::ArrayRef<Tensor> results) {
      for (auto [value, result] : llvm::zip_equal(op->getResults(), results))
        if (result.isFloat()) {
          recorder.add(opName(op), result.floats(), number);
          if (moments)
            moments->add(value, result.floats());
        }
    };
    if (Result<std::vector<Tensor>> outputs = model.interpret(sample, observer);
        !outputs.ok())
      return outputs.status();
  }
  return {};
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

/// The policy of --policy with what the samples showed: one that extends a
/// built-in policy, or a file's own fields.
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
    // The compiler that `model` stands in has read it.
    policy = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
    policy.erase("moments");
  }
  policy["ranges"] = rangesForPolicy(recorder, model.samples());
  policy["model"] = graphDigest(model.entry());
  llvm::Expected<Policy> read = Policy::load(name);
  if (!read)
    return Status(StatusCode::InvalidArgument, name,
                  llvm::toString(read.takeError()));
  // What a graph is known by are its weights, too, which are others once they
  // are rounded.
  if (read->narrowsWeights())
    policy.erase("model");
  return policy;
}

/// The text of `policy` with `moments`, an op a line.
static std::string policyText(const Json &policy,
                              const MomentRecorder &moments) {
  std::string text = policy.dump(1), separator;
  auto means = moments.means();
  if (means.empty())
    return text + "\n";
  text.resize(text.rfind("\n}"));
  text += ",\n \"moments\": {";
  for (const auto &[name, squares] : means) {
    Json numbers = Json::array();
    // More digits would say nothing about which error counts how much.
    for (double square : squares)
      numbers.push_back(std::stod(shortNumber(square)));
    text += separator + "\n  " + Json(name).dump() + ": " + numbers.dump();
    separator = ",";
  }
  return text + "\n }\n}\n";
}

/// "0.1%"; empty for none.
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
  if (!arguments.output.empty()) {
    if (Status status = checkWritable(arguments.output); !status.ok())
      return reporter.fail(status);
  }
  SampledModel model;
  if (std::vector<Status> problems =
          model.load(arguments.common, arguments.inputs, *options);
      !problems.empty())
    return reporter.fail(problems);
  RangeRecorder recorder;
  MomentRecorder moments;
  if (Status status = recordRanges(model, recorder, &moments); !status.ok())
    return reporter.fail(status);

  std::vector<std::vector<std::string>> table = {
      {"value", "least", "largest", "f16 overflow", "f16 subnormal",
       "f16 flushed", "bf16 flushed", "sample of the largest"}};
  Json values = Json::object();
  for (const auto &[name, range] : recorder.get()) {
    const std::vector<Sample> &samples = model.samples();
    values[name] = describeRange(range, samples);
    int64_t counted = std::max<int64_t>(range.elements - range.zeros, 1);
    table.push_back(
        {name, shortNumber(range.least),
         range.notFinite ? "not finite" : shortNumber(range.largest),
         share(range.float16.overflowed, counted),
         share(range.float16.subnormal, counted),
         share(range.float16.flushed, counted),
         share(range.bfloat16.flushed, counted),
         range.largestSample < 0 ? "" : samples[range.largestSample].name});
  }
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
  reporter.line(
      formatTable(table, {false, true, true, true, true, true, true, false}));
  reporter.document(document);
  return reporter.finish(kDone);
}
