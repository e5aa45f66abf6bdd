//===- CheckTraining.cpp - mpc check --training ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares one compiled training step, from the initial state, with the float64
// oracle: loss, outputs, new parameters and all other state. All ranks of a
// data-parallel step are executed, here and by the oracle, so that
// communication is checked too.
//
//===----------------------------------------------------------------------===//

#include "CheckRanks.h"
#include "Commands.h"
#include "CompiledModel.h"
#include "ErrorVerdict.h"
#include "FaultReport.h"
#include "InitialState.h"
#include "Inputs.h"
#include "MatrixUnitReport.h"

#include "JIT/TrainingReference.h"

#include "mpc/JIT/Engine.h"
#include "mpc/Support/Files.h"

#include "mlir/IR/Builders.h"

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::OutputError;
using mpc::reference::Tensor;

namespace {

/// State of one `mpc check --training`.
class StepCheck {
public:
  StepCheck(const CheckArguments &arguments, Reporter &reporter)
      : arguments(arguments), reporter(reporter) {}
  std::vector<Status> run(Json &document, bool &ok);

private:
  Status prepare();
  /// Fails unless device and arguments support a step of several ranks.
  Status checkRanks() const;
  std::vector<Status> bind();
  /// Runs the step and the oracle on the same state.
  Status compute();
  Status runAlone();
  Status report(Json &document, bool &ok);
  /// Reports communication errors, and results that differ between ranks.
  void reportRanks(Json &document, bool &ok);
  /// Returns a result of all ranks, from `tensorOf` each: concatenated if it
  /// differs by design, else the first rank's.
  Tensor together(const ProgramValue &value,
                  llvm::function_ref<Tensor(size_t rank)> tensorOf) const;
  Status save() const;

  int64_t rankCount() const { return options.training->distribution.ranks; }

  const CheckArguments &arguments;
  Reporter &reporter;
  CompileOptions options;
  std::vector<NamedArray> arrays;
  std::optional<Device> device;
  std::optional<Executable> executable;
  std::optional<TrainingOracle> oracle;
  std::vector<Buffer> inputs;
  /// Initial state and results of each rank's step.
  std::vector<RankValues> ranks;
  std::vector<RankDifference> differences;
  /// Answers by rank.
  std::vector<std::vector<TrainingOracle::Answer>> answers;
  /// `answers` of the oracle before TrainingOracle::follow().
  std::vector<std::vector<TrainingOracle::Answer>> ownAnswers;
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
  if (Status status = checkRanks(); !status.ok())
    return status;
  Result<std::vector<NamedArray>> loaded =
      loadArrays(arguments.common.inputs, arguments.common.maxMemory);
  if (!loaded.ok())
    return loaded.status();
  arrays = std::move(*loaded);
  passInputShapes(arrays, options);
  reportFastPath(options, reporter, !arguments.common.choosesPolicy);
  Result<Engine> engine = Engine::create(*device);
  if (!engine.ok())
    return engine.status();
  Result<Executable> compiled = engine->compile(model, options);
  if (!compiled.ok())
    return compiled.status();
  executable = *compiled;
  // The first compile has reported all diagnostics.
  CompileOptions quiet = options;
  quiet.onDiagnostic = nullptr;
  Result<TrainingOracle> judged = TrainingOracle::create(model, quiet);
  if (!judged.ok())
    return judged.status();
  oracle = std::move(*judged);
  return {};
}

Status StepCheck::checkRanks() const {
  // Limit: each rank needs all values in float64.
  constexpr int64_t kMostRanks = 64;
  const std::string where = "--training " + arguments.training;
  if (rankCount() == 1)
    return {};
  if (rankCount() < 1 || rankCount() > kMostRanks)
    return Status(StatusCode::InvalidArgument, where,
                  "is of " + std::to_string(rankCount()) +
                      " ranks, but the oracle interprets all ranks, at most " +
                      std::to_string(kMostRanks));
  if (!device->name().starts_with("cpu"))
    return Status(StatusCode::InvalidArgument, "--device " + device->name(),
                  "cannot run " + std::to_string(rankCount()) +
                      " ranks; check a multi-rank step with --device cpu, "
                      "where ranks are threads");
  if (!arguments.common.inputs.empty() || !arguments.save.empty())
    return Status(StatusCode::InvalidArgument,
                  arguments.save.empty() ? "--inputs" : "--save",
                  "takes the arrays of one rank, but " + where +
                      " is a step of " + std::to_string(rankCount()) +
                      " ranks; use random batches (--seed)");
  return {};
}

std::vector<Status> StepCheck::bind() {
  const std::vector<ProgramValue> &values = executable->program().arguments;
  if (!arrays.empty())
    return bindArrays(arrays, values, "arg", inputs);
  std::vector<ProgramValue> wanted = values;
  for (ProgramValue &value : wanted)
    value.integerBound = oracle->integerBound(value.name);
  if (rankCount() > 1) {
    Result<std::vector<RankValues>> drawn =
        drawRanks(*executable, wanted, rankCount(), arguments.common.seed);
    if (!drawn.ok())
      return {drawn.status()};
    ranks = std::move(*drawn);
    return {};
  }
  Result<std::vector<Buffer>> drawn = drawValues(wanted, arguments.common.seed);
  if (!drawn.ok())
    return {drawn.status()};
  inputs = std::move(*drawn);
  return {};
}

Status StepCheck::runAlone() {
  Result<std::vector<Buffer>> ran = executable->run(inputs);
  if (!ran.ok())
    return ran.status();
  for (size_t i = 0; i < ran->size(); ++i)
    ranks.front().left[executable->program().results[i].name] = (*ran)[i];
  return {};
}

Status StepCheck::compute() {
  if (ranks.empty()) {
    ranks.emplace_back();
    for (size_t i = 0; i < inputs.size(); ++i) {
      Result<Buffer> copy = copyBuffer(inputs[i]);
      if (!copy.ok())
        return copy.status();
      ranks[0].given[executable->program().arguments[i].name] =
          std::move(*copy);
    }
  }
  std::vector<TrainingOracle::Arguments> given;
  for (const RankValues &own : ranks)
    given.push_back(own.given);
  auto computed = oracle->run(given);
  if (!computed.ok())
    return computed.status();
  answers = std::move(*computed);
  ownAnswers = answers;
  if (Status status = rankCount() > 1
                          ? runRanks(*executable, ranks, differences)
                          : runAlone();
      !status.ok())
    return status;
  for (auto [own, values] : llvm::zip_equal(answers, ranks))
    oracle->follow(values.given, values.left, own);
  return {};
}

Tensor
StepCheck::together(const ProgramValue &value,
                    llvm::function_ref<Tensor(size_t rank)> tensorOf) const {
  Tensor first = tensorOf(0);
  if (ranks.size() == 1 || !isOfOneRank(value.role))
    return first;
  llvm::SmallVector<int64_t> shape = {int64_t(ranks.size())};
  llvm::append_range(shape, first.getShape());
  Tensor all(first.getType().clone(shape));
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    Tensor own = tensorOf(rank);
    size_t begin = rank * size_t(own.size());
    if (own.isFloat())
      llvm::copy(own.floats(), all.floats().begin() + begin);
    else
      llvm::copy(own.ints(), all.ints().begin() + begin);
  }
  return all;
}

Status StepCheck::report(Json &document, bool &ok) {
  const std::vector<ProgramValue> &values = executable->program().results;
  std::vector<std::vector<std::string>> table = {headingOf({"result", "type"})};
  Json list = Json::array();
  FaultReport faults;
  // A sum over ranks has the terms of each.
  int64_t longest = oracle->longestReduction() * rankCount();
  for (size_t k = 0; k < answers[0].size(); ++k) {
    const std::string &name = answers[0][k].name;
    const ProgramValue &value = *llvm::find_if(
        values, [&](const ProgramValue &one) { return one.name == name; });
    Tensor actual = together(value, [&](size_t rank) {
      return Tensor::fromBytes(answers[rank][k].declared.getType(),
                               ranks[rank].left.at(name).data());
    });
    Tensor magnitudes = together(
        value, [&](size_t rank) { return answers[rank][k].magnitudes; });
    auto judge =
        [&](const std::vector<std::vector<TrainingOracle::Answer>> &wanted) {
          return reference::compareOutput(
              actual,
              together(value,
                       [&](size_t rank) { return wanted[rank][k].exact; }),
              together(value,
                       [&](size_t rank) { return wanted[rank][k].declared; }),
              longest, /*fatalIntegers=*/true, &magnitudes);
        };
    OutputError error = judge(answers);
    ok &= error.ok;
    TensorType type = runtimeType(actual.getType());
    list.push_back({{"name", name},
                    {"role", value.role},
                    {"shape", type.shape},
                    {"type", std::string(elementTypeName(type.element))},
                    {"max_abs_error", jsonNumber(error.maxAbsError)},
                    {"rms_relative_error", jsonNumber(error.rmsRelativeError)},
                    {"tolerance", jsonNumber(error.tolerance)},
                    {"mismatches", error.mismatches},
                    {"ok", error.ok}});
    faults.add(list.back(), name, error, type.shape);
    if (!arguments.save.empty())
      list.back()["saved_tolerance"] = jsonNumber(judge(ownAnswers).tolerance);
    addErrorFields(list.back(), error, actual);
    table.push_back(rowOf({name, type.toString()}, error, actual, error.ok));
  }
  document["outputs"] = list;
  reporter.lines(formatTable(table, {false, false, true, true, true, false}));
  if (rankCount() > 1)
    reportRanks(document, ok);
  std::optional<Overflow> first;
  // With several ranks only results, not ops, are checked for overflow.
  if (faults.overflowed() && rankCount() == 1) {
    Result<std::optional<Overflow>> found =
        oracle->firstOverflow(ranks[0].given);
    if (!found.ok())
      return found.status();
    first = *found;
  }
  faults.report(reporter, document, first);
  return {};
}

void StepCheck::reportRanks(Json &document, bool &ok) {
  document["ranks"] = rankCount();
  Json wire = Json::array(), unlike = Json::array();
  // Largest error of each communication type.
  std::map<std::string, const TrainingOracle::CommunicationError *> worst;
  for (const TrainingOracle::CommunicationError &error :
       oracle->communicationErrors()) {
    std::string type(elementTypeName(
        runtimeType(mlir::RankedTensorType::get({}, error.type)).element));
    wire.push_back(
        {{"gradient", error.parameter},
         {"type", type},
         {"rms_relative_error", jsonNumber(error.rmsRelativeError)}});
    const TrainingOracle::CommunicationError *&most = worst[type];
    if (!most || error.rmsRelativeError > most->rmsRelativeError)
      most = &error;
  }
  document["wire"] = wire;
  for (const auto &[type, error] : worst)
    reporter.line("gradients all-reduced in " + type +
                  ": rms relative error of a sum up to " +
                  shortNumber(error->rmsRelativeError) + ", of '" +
                  error->parameter + "'");
  for (const RankDifference &difference : differences) {
    unlike.push_back({{"name", difference.name}, {"rank", difference.rank}});
    reporter.line("'" + difference.name + "' of rank " +
                  std::to_string(difference.rank) +
                  " differs from the value that all ranks should have");
  }
  document["unlike"] = unlike;
  ok &= differences.empty();
}

Status StepCheck::save() const {
  if (arguments.save.empty())
    return {};
  if (Status status = makeFolder(arguments.save); !status.ok())
    return status;
  std::vector<NamedArray> before, after;
  for (const auto &[name, data] : ranks[0].given)
    before.push_back({name, data, ""});
  for (const TrainingOracle::Answer &answer : ownAnswers[0]) {
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
