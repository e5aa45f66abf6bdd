//===- CheckTraining.cpp - mpc check --training ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One compiled training step, from the start, against the float64 oracle: loss,
// outputs, new parameters and all other state.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "FastPath.h"
#include "Finiteness.h"
#include "Inputs.h"
#include "KeptState.h"
#include "StoredModel.h"
#include "Verdict.h"

#include "JIT/TrainingOracle.h"

#include "mpc/JIT/Engine.h"
#include "mpc/Support/Files.h"

#include "mlir/IR/Builders.h"

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::OutputError;
using mpc::reference::Tensor;

namespace {

/// One `mpc check --training`.
class StepCheck {
public:
  StepCheck(const CheckArguments &arguments, Reporter &reporter)
      : arguments(arguments), reporter(reporter) {}
  std::vector<Status> run(Json &document, bool &ok);

private:
  Status prepare();
  std::vector<Status> bind();
  /// Runs the step and the oracle on the same state.
  Status compute();
  Status report(Json &document, bool &ok);
  Status save() const;

  const CheckArguments &arguments;
  Reporter &reporter;
  CompileOptions options;
  std::vector<NamedArray> arrays;
  std::optional<Device> device;
  std::optional<Executable> executable;
  std::optional<TrainingOracle> oracle;
  std::vector<Buffer> inputs, results;
  /// Copies of `inputs`, which a step replaces, by name.
  std::map<std::string, Buffer> given;
  std::vector<TrainingOracle::Answer> answers;
  /// `answers` as the oracle gave them, before they followed the results.
  std::vector<TrainingOracle::Answer> ownAnswers;
};

} // namespace

Status StepCheck::prepare() {
  const std::string &model = arguments.common.model;
  Result<Device> made = makeDevice(arguments.common);
  if (!made.ok())
    return made.status();
  device = *made;
  Result<CompileOptions> compile =
      makeCompileOptions(arguments.common, *device, reporter);
  if (!compile.ok())
    return compile.status();
  options = std::move(*compile);
  if (Status status = setTraining(arguments.training, options); !status.ok())
    return status;
  Result<std::vector<NamedArray>> loaded =
      loadArrays(arguments.inputs, arguments.common.maxMemory);
  if (!loaded.ok())
    return loaded.status();
  arrays = std::move(*loaded);
  for (const NamedArray &array : arrays)
    options.inputValues[array.name] = array.data;
  reportFastPath(options, reporter);
  Result<Engine> engine = Engine::create(*device);
  if (!engine.ok())
    return engine.status();
  Result<Executable> compiled = engine->compile(model, options);
  if (!compiled.ok())
    return compiled.status();
  executable = *compiled;
  // What the compile had to say has been heard.
  CompileOptions quiet = options;
  quiet.onDiagnostic = nullptr;
  Result<TrainingOracle> judged = TrainingOracle::create(model, quiet);
  if (!judged.ok())
    return judged.status();
  oracle = std::move(*judged);
  return {};
}

std::vector<Status> StepCheck::bind() {
  const std::vector<ProgramValue> &values = executable->program().arguments;
  if (!arrays.empty())
    return bindArrays(arrays, values, "arg", inputs);
  std::vector<StoredValue> wanted;
  wanted.reserve(values.size());
  for (const ProgramValue &value : values)
    wanted.push_back({.name = value.name,
                      .type = value.type,
                      .role = value.role,
                      .integerBound = oracle->integerBound(value.name),
                      .initial = value.initial});
  Result<std::vector<Buffer>> drawn = drawValues(wanted, arguments.common.seed);
  if (!drawn.ok())
    return {drawn.status()};
  inputs = std::move(*drawn);
  return {};
}

Status StepCheck::compute() {
  for (size_t i = 0; i < inputs.size(); ++i) {
    Result<Buffer> copy = Buffer::fromHost(
        inputs[i].type(),
        {static_cast<const std::byte *>(inputs[i].data()), inputs[i].size()});
    if (!copy.ok())
      return copy.status();
    given[executable->program().arguments[i].name] = std::move(*copy);
  }
  Result<std::vector<TrainingOracle::Answer>> computed = oracle->run(given);
  if (!computed.ok())
    return computed.status();
  answers = std::move(*computed);
  ownAnswers = answers;
  Result<std::vector<Buffer>> ran = executable->run(inputs);
  if (!ran.ok())
    return ran.status();
  results = std::move(*ran);
  std::map<std::string, Buffer> left;
  for (size_t i = 0; i < results.size(); ++i)
    left[executable->program().results[i].name] = results[i];
  oracle->follow(given, left, answers);
  return {};
}

Status StepCheck::report(Json &document, bool &ok) {
  const std::vector<ProgramValue> &values = executable->program().results;
  std::vector<std::vector<std::string>> table = {
      {"result", "type", "max abs error", "rms rel error", "tolerance", ""}};
  Json list = Json::array();
  FinitenessFaults faults;
  int64_t longest = oracle->longestReduction();
  for (auto [answer, own] : llvm::zip_equal(answers, ownAnswers)) {
    size_t i = 0;
    while (values[i].name != answer.name)
      ++i;
    Tensor actual =
        Tensor::fromBytes(answer.declared.getType(), results[i].data());
    OutputError error = reference::compareOutput(
        actual, answer.exact, answer.declared, longest, /*fatalIntegers=*/true);
    ok &= error.ok;
    std::string type(elementTypeName(values[i].type.element));
    list.push_back({{"name", answer.name},
                    {"role", values[i].role},
                    {"shape", values[i].type.shape},
                    {"type", type},
                    {"max_abs_error", jsonNumber(error.maxAbsError)},
                    {"rms_relative_error", jsonNumber(error.rmsRelativeError)},
                    {"tolerance", jsonNumber(error.tolerance)},
                    {"mismatches", error.mismatches},
                    {"ok", error.ok}});
    faults.add(list.back(), answer.name, error, values[i].type.shape);
    if (!arguments.save.empty())
      list.back()["saved_tolerance"] =
          jsonNumber(reference::compareOutput(actual, own.exact, own.declared,
                                              longest, /*fatalIntegers=*/true)
                         .tolerance);
    addIntegerFields(list.back(), error, actual);
    table.push_back({answer.name, values[i].type.toString(),
                     errorCell(error.maxAbsError, actual),
                     errorCell(error.rmsRelativeError, actual),
                     errorCell(error.tolerance, actual),
                     verdict(error, actual, error.ok)});
  }
  document["outputs"] = list;
  reporter.line(formatTable(table, {false, false, true, true, true, false}));
  std::optional<Overflow> first;
  if (faults.overflowed()) {
    Result<std::optional<Overflow>> found = oracle->firstOverflow(given);
    if (!found.ok())
      return found.status();
    first = *found;
  }
  faults.report(reporter, document, first);
  return {};
}

Status StepCheck::save() const {
  if (arguments.save.empty())
    return {};
  if (Status status = makeFolder(arguments.save); !status.ok())
    return status;
  std::vector<NamedArray> before, after;
  for (const auto &[name, data] : given)
    before.push_back({name, data, ""});
  for (const TrainingOracle::Answer &answer : ownAnswers) {
    mlir::RankedTensorType type = answer.exact.getType();
    if (answer.exact.isFloat())
      type = mlir::RankedTensorType::get(
          type.getShape(), mlir::Builder(type.getContext()).getF64Type());
    Tensor wide = answer.exact.withType(type);
    Result<Buffer> data = Buffer::allocate(runtimeType(type));
    if (!data.ok())
      return data.status();
    wide.toBytes(data->data());
    after.push_back({answer.name, std::move(*data), ""});
  }
  if (Status status = writeNpz(arguments.save + "/inputs.npz", before);
      !status.ok())
    return status;
  return writeNpz(arguments.save + "/expected.npz", after);
}

std::vector<Status> StepCheck::run(Json &document, bool &ok) {
  if (Status status = prepare(); !status.ok())
    return {status};
  if (std::vector<Status> problems = bind(); !problems.empty())
    return problems;
  if (Status status = compute(); !status.ok())
    return {status};
  document = {{"model", arguments.common.model},
              {"training", arguments.training},
              {"policy", options.policy},
              {"device", device->name()},
              {"ok", false}};
  if (Status status = report(document, ok); !status.ok())
    return {status};
  if (Status status = save(); !status.ok())
    return {status};
  return {};
}

int tool::checkTraining(const CheckArguments &arguments) {
  Reporter reporter(arguments.common.json, arguments.common.quiet);
  CompileOptions probe;
  if (Status status = setTraining(arguments.training, probe); !status.ok()) {
    reporter.fail(status);
    return kBadUsage;
  }
  Json document;
  bool ok = true;
  if (std::vector<Status> problems =
          StepCheck(arguments, reporter).run(document, ok);
      !problems.empty())
    return reporter.fail(problems);
  document["ok"] = ok;
  reporter.line(ok ? "all checks held" : "the check did not hold");
  reporter.document(document);
  return reporter.finish(ok ? kDone : kCheckFailed);
}
