//===- Check.cpp - mpc check ----------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The compiled model against the float64 oracle: the reference is the imported
// graph before any rewrite, the tolerance comes from the oracle's second mode
// on the graph after Precision. A wrong rewrite before Precision would widen
// its own tolerance, so the simplified graph is held against the imported one
// first. Where the policy stores weights narrow, the reference is the graph
// with the weights that they are then, and what they cost is told apart.
//
//===----------------------------------------------------------------------===//

#include "Checker.h"
#include "FastPath.h"
#include "Inputs.h"
#include "Resample.h"
#include "StoredModel.h"
#include "Verdict.h"

#include "mpc/Policy/Policy.h"
#include "mpc/Runtime/Executable.h"

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::OutputError;
using mpc::reference::Tensor;

static mlir::RankedTensorType tensorType(mlir::Type type) {
  return mlir::cast<mlir::RankedTensorType>(type);
}

Status Checker::prepare() {
  Result<Device> made = makeDevice(arguments.common);
  if (!made.ok())
    return made.status();
  device = *made;
  Result<CompileOptions> compile =
      makeCompileOptions(arguments.common, *device, reporter);
  if (!compile.ok())
    return compile.status();
  options = std::move(*compile);
  reportFastPath(options, reporter);
  Result<std::vector<NamedArray>> given =
      loadArrays(arguments.inputs, arguments.common.maxMemory);
  if (!given.ok())
    return given.status();
  arrays = std::move(*given);
  offerInputs(arrays, options);
  if (!arguments.expected.empty()) {
    Result<std::vector<NamedArray>> read =
        loadArrays({arguments.expected}, arguments.common.maxMemory);
    if (!read.ok())
      return read.status();
    expected = std::move(*read);
  }
  Result<std::unique_ptr<Compiler>> created = Compiler::create(options);
  if (!created.ok())
    return created.status();
  compiler = std::move(*created);
  Result<Compiler::Module> imported = compiler->import(arguments.common.model);
  if (!imported.ok())
    return imported.status();
  module = std::move(*imported);
  outputs = resultsOf(Compiler::entry(*module));
  return {};
}

std::vector<Status> Checker::bind() {
  mlir::func::FuncOp entry = Compiler::entry(*module);
  if (arguments.inputs.empty()) {
    Result<std::vector<Buffer>> drawn =
        drawInputs(entry, arguments.common.seed);
    if (!drawn.ok())
      return {drawn.status()};
    inputs = std::move(*drawn);
  } else if (std::vector<Status> problems =
                 bindArrays(arrays, argumentsOf(entry), "arg", inputs);
             !problems.empty()) {
    return problems;
  }
  for (unsigned i = 0; i < entry.getNumArguments(); ++i)
    inputTensors.push_back(Tensor::fromBytes(
        tensorType(entry.getArgument(i).getType()), inputs[i].data()));
  return {};
}

Status Checker::oracle(reference::Rounding rounding,
                       std::vector<Tensor> &results, OpObserver observer) {
  return oracle(*module, rounding, results, std::move(observer));
}

Status Checker::oracle(mlir::ModuleOp graph, reference::Rounding rounding,
                       std::vector<Tensor> &results, OpObserver observer) {
  reference::InterpretOptions interpret;
  interpret.rounding = rounding;
  interpret.observer = std::move(observer);
  mlir::FailureOr<llvm::SmallVector<Tensor>> values = reference::interpret(
      Compiler::entry(graph),
      llvm::ArrayRef(inputTensors)
          .take_front(Compiler::entry(graph).getNumArguments()),
      interpret);
  if (mlir::failed(values)) {
    for (const Diagnostic &message : compiler->diagnostics())
      if (message.severity == Diagnostic::Severity::Error)
        return Status(StatusCode::InvalidArgument, message.where, message.text);
    return Status(StatusCode::Internal, arguments.common.model,
                  "the oracle failed in silence");
  }
  results.assign(std::make_move_iterator(values->begin()),
                 std::make_move_iterator(values->end()));
  return {};
}

Status Checker::interpretModel() {
  longestReduction = reference::longestReduction(Compiler::entry(*module));
  if (Status status = oracle(reference::Rounding::Float64, reference);
      !status.ok())
    return status;
  if (Status status = compiler->runStages(*module, "import", "simplify");
      !status.ok())
    return status;
  if (arguments.afterSimplify)
    arguments.afterSimplify(*module);
  Compiler::Module simplified = module->clone();
  if (Status status = compiler->runStages(*module, "simplify", "precision");
      !status.ok())
    return status;
  if (Status status = beginState(); !status.ok())
    return status;
  rounded = reference::roundedResults(Compiler::entry(*module));
  if (Status status = oracle(reference::Rounding::Declared, declared);
      !status.ok())
    return status;
  Compiler::Module unrounded = simplified->clone();
  if (Status status = checkRewrites(std::move(simplified)); !status.ok())
    return status;
  return narrowReference(std::move(unrounded));
}

Status Checker::narrowReference(Compiler::Module simplified) {
  llvm::Expected<Policy> policy = Policy::load(options.policy);
  if (!policy) // the stages have read it
    return Status(StatusCode::InvalidArgument, options.policy,
                  llvm::toString(policy.takeError()));
  if (!policy->narrowsWeights())
    return {};
  if (Status status = compiler->runStages(*simplified, "simplify", "weights");
      !status.ok())
    return status;
  ownWeights = std::move(reference);
  return oracle(*simplified, reference::Rounding::Float64, reference);
}

Status Checker::beginState() {
  mlir::func::FuncOp entry = Compiler::entry(*module);
  for (unsigned i = inputs.size(); i < entry.getNumArguments(); ++i) {
    auto initial =
        entry.getArgAttrOfType<mlir::ElementsAttr>(i, MpcDialect::kInitialAttr);
    mlir::FailureOr<Tensor> value = Tensor::fromAttr(initial);
    if (mlir::failed(value))
      return Status(StatusCode::Internal, arguments.common.model,
                    "has state without a value to begin with");
    Result<Buffer> buffer = Buffer::allocate(runtimeType(value->getType()));
    if (!buffer.ok())
      return buffer.status();
    value->toBytes(buffer->data());
    inputs.push_back(std::move(*buffer));
    inputTensors.push_back(std::move(*value));
  }
  return {};
}

Status Checker::checkRewrites(Compiler::Module simplified) {
  rewriteErrors.resize(outputs.size());
  auto differs = [&](size_t i, const std::vector<Tensor> &results,
                     const std::vector<Tensor> &second) {
    return !reference::compareOutput(results[i], reference[i], second[i],
                                     longestReduction, /*fatalIntegers=*/false)
                .ok;
  };
  auto anyDiffers = [&](const std::vector<Tensor> &results,
                        const std::vector<Tensor> &second) {
    return llvm::any_of(llvm::seq(outputs.size()),
                        [&](size_t i) { return differs(i, results, second); });
  };
  // Where float32 explains the second mode there is nothing to hide behind.
  if (!anyDiffers(declared, reference))
    return {};
  std::vector<Tensor> exact, own;
  if (Status status = oracle(*simplified, reference::Rounding::Float64, exact);
      !status.ok())
    return status;
  if (!anyDiffers(exact, reference))
    return {};
  // Folded constants are rounded to the types of the model, as its own values
  // would be.
  Result<Compiler::Module> imported = compiler->import(arguments.common.model);
  if (!imported.ok())
    return imported.status();
  if (Status status = oracle(**imported, reference::Rounding::Declared, own);
      !status.ok())
    return status;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (differs(i, exact, own))
      rewriteErrors[i] = reference::rmsRelativeError(exact[i], reference[i]);
  return {};
}

Status Checker::compileAndRun() {
  // The instrumented compile starts here again.
  Compiler::Module compiled = module->clone();
  if (arguments.afterPrecision)
    arguments.afterPrecision(*compiled);
  if (Status status = compiler->runStages(*compiled, "precision", "plan");
      !status.ok())
    return status;
  Result<std::shared_ptr<Program>> program =
      compiler->generate(*compiled, device->needsCode());
  if (!program.ok())
    return program.status();
  Result<Executable> executable =
      Executable::create(*device, std::move(*program));
  if (!executable.ok())
    return executable.status();
  Result<std::vector<Buffer>> results = executable->run(inputs);
  if (!results.ok())
    return results.status();
  for (const Buffer &buffer : *results)
    actual.push_back(Tensor::fromBytes(
        compilerType(buffer.type(), compiler->context()), buffer.data()));
  return {};
}

OutputError Checker::judge(size_t output) const {
  OutputError error = reference::compareOutput(
      actual[output], reference[output], declared[output], longestReduction,
      exactIntegers(output));
  if (!sampled.empty() && actual[output].isFloat() &&
      reference[output].size() <= kFewElements)
    reference::allowFor(error, sampled[output], longestReduction);
  return error;
}

Status Checker::resample() {
  bool isNeeded = llvm::any_of(llvm::seq(outputs.size()), [&](size_t i) {
    OutputError error = judge(i);
    return !error.ok && error.mismatches == 0 && actual[i].isFloat() &&
           reference[i].size() <= kFewElements;
  });
  if (!isNeeded)
    return {};
  Result<Compiler::Module> imported = compiler->import(arguments.common.model);
  if (!imported.ok())
    return imported.status();
  Result<std::vector<double>> errors = sampleErrors(
      inputTensors, arguments.common.seed,
      [&](reference::Rounding rounding, std::vector<Tensor> &results) {
        return rounding == reference::Rounding::Float64
                   ? oracle(**imported, rounding, results)
                   : oracle(rounding, results);
      });
  if (!errors.ok())
    return errors.status();
  sampled = std::move(*errors);
  return {};
}

void Checker::reportOutputs(Json &document, bool &ok) {
  std::vector<std::vector<std::string>> table = {
      {"output", "type", "max abs error", "rms rel error", "tolerance", ""}};
  Json list = Json::array();
  for (size_t i = 0; i < outputs.size(); ++i) {
    OutputError error = judge(i);
    error.ok &= !rewriteErrors[i];
    ok &= error.ok;
    tolerances.push_back(error.tolerance);
    std::string type(elementTypeName(outputs[i].type.element));
    list.push_back({{"name", outputs[i].name},
                    {"shape", outputs[i].type.shape},
                    {"type", type},
                    {"max_abs_error", jsonNumber(error.maxAbsError)},
                    {"rms_relative_error", jsonNumber(error.rmsRelativeError)},
                    {"tolerance", jsonNumber(error.tolerance)},
                    {"mismatches", error.mismatches},
                    {"ok", error.ok}});
    if (rewriteErrors[i])
      list.back()["rewrite_error"] = jsonNumber(*rewriteErrors[i]);
    if (!ownWeights.empty() && reference[i].isFloat()) {
      list.back()["weights_error"] = jsonNumber(weightsError(i));
      // What the weights and all other types do together.
      list.back()["own_error"] =
          jsonNumber(reference::rmsRelativeError(actual[i], ownWeights[i]));
    }
    faults.add(list.back(), outputs[i].name, error, outputs[i].type.shape);
    addIntegerFields(list.back(), error, actual[i]);
    table.push_back({outputs[i].name, outputs[i].type.toString(),
                     errorCell(error.maxAbsError, actual[i]),
                     errorCell(error.rmsRelativeError, actual[i]),
                     errorCell(error.tolerance, actual[i]),
                     verdict(error, actual[i], error.ok)});
  }
  document["outputs"] = list;
  reporter.lines(formatTable(table, {false, false, true, true, true, false}));
  for (size_t i = 0; i < ownWeights.size(); ++i)
    if (reference[i].isFloat())
      reporter.line("output \"" + outputs[i].name + "\": narrow weights are " +
                    shortNumber(weightsError(i)) +
                    " (rms relative) from the model's own, both in float64");
  for (size_t i = 0; i < outputs.size(); ++i)
    if (rewriteErrors[i])
      reporter.line("output \"" + outputs[i].name +
                    "\": the simplified graph is " +
                    shortNumber(*rewriteErrors[i]) +
                    " (rms relative) from the imported one in float64, which "
                    "no rounding explains; a rewrite of the compiler is "
                    "wrong, please report the model");
}

Status Checker::compareExpected(Json &document, bool &ok) {
  if (arguments.expected.empty())
    return {};
  Json list = Json::array();
  std::vector<std::vector<std::string>> table = {
      {"against " + arguments.expected, "max abs error", "rms rel error", ""}};
  for (size_t i = 0; i < outputs.size(); ++i) {
    Result<const NamedArray *> found =
        wantedArray(expected, outputs[i], i, arguments.expected);
    if (!found.ok())
      return found.status();
    const Buffer &data = (*found)->data;
    Tensor wanted = Tensor::fromBytes(
        compilerType(data.type(), compiler->context()), data.data());
    OutputError error =
        reference::compareOutput(actual[i], wanted, wanted, longestReduction,
                                 /*fatalIntegers=*/false);
    // The file stands for the same truth as the oracle, so the oracle's
    // tolerance holds; one from the file itself would widen with what is wrong
    // in it.
    // It does not know of weights that the policy rounds.
    double allowed = tolerances[i] + weightsError(i);
    bool holds =
        actual[i].isFloat()
            ? error.mismatches == 0 && error.rmsRelativeError <= allowed
            : error.mismatches == 0 || !exactIntegers(i);
    ok &= holds;
    list.push_back({{"name", outputs[i].name},
                    {"max_abs_error", jsonNumber(error.maxAbsError)},
                    {"rms_relative_error", jsonNumber(error.rmsRelativeError)},
                    {"tolerance", jsonNumber(allowed)},
                    {"ok", holds}});
    faults.add(list.back(), outputs[i].name, error, outputs[i].type.shape);
    addIntegerFields(list.back(), error, actual[i]);
    table.push_back({outputs[i].name, errorCell(error.maxAbsError, actual[i]),
                     errorCell(error.rmsRelativeError, actual[i]),
                     verdict(error, actual[i], holds)});
  }
  document["expected"] = list;
  reporter.lines(formatTable(table, {false, true, true, false}));
  return {};
}

int Checker::run() {
  if (Status status = prepare(); !status.ok())
    return reporter.fail(status);
  if (std::vector<Status> problems = bind(); !problems.empty())
    return reporter.fail(problems);
  if (Status status = interpretModel(); !status.ok())
    return reporter.fail(status);
  if (Status status = compileAndRun(); !status.ok())
    return reporter.fail(status);
  if (Status status = resample(); !status.ok())
    return reporter.fail(status);

  bool ok = true;
  Json document = {{"model", arguments.common.model},
                   {"policy", options.policy},
                   {"device", device->name()},
                   {"isa", compiler->target().member().str()},
                   {"ok", false}};
  reportOutputs(document, ok);
  if (Status status = compareExpected(document, ok); !status.ok())
    return reporter.fail(status);
  if (arguments.perOp)
    if (Status status = checkOps(document, ok); !status.ok())
      return reporter.fail(status);
  if (Status status = reportFiniteness(document); !status.ok())
    return reporter.fail(status);
  document["ok"] = ok;
  reporter.line(ok ? "all checks held" : "the check did not hold");
  reporter.document(document);
  return reporter.finish(ok ? kDone : kCheckFailed);
}

int tool::checkCommand(const CheckArguments &arguments) {
  if (isStoredModel(arguments.common.model))
    return checkStoredModel(arguments);
  if (!arguments.training.empty())
    return checkTraining(arguments);
  return Checker(arguments).run();
}
