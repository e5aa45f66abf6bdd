//===- CheckStored.cpp - mpc check of .mpcx files -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A file has no graph to interpret, so the caller provides expected results.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "CompiledModel.h"
#include "FaultReport.h"
#include "Inputs.h"

#include "ErrorVerdict.h"
#include "JIT/Compiler.h"

#include "mpc/Reference/Compare.h"

#include "mlir/IR/MLIRContext.h"

#include <cmath>

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::OutputError;
using mpc::reference::Tensor;

/// Returns the unit roundoff of `type`.
static double unitRoundoff(ElementType type) {
  switch (type) {
  case ElementType::BF16:
    return 0x1p-8;
  case ElementType::F16:
    return 0x1p-11;
  case ElementType::F64:
    return 0x1p-53;
  default:
    return 0x1p-24;
  }
}

/// Estimate that replaces the oracle's storage-rounding mode: every op of the
/// longest chain rounds once to the narrowest type, and errors accumulate like
/// a random walk.
static double predictedError(const ExecutableFile &file) {
  return unitRoundoff(file.narrowestType()) *
         std::sqrt(double(std::max<int64_t>(file.longestChain(), 1)));
}

namespace {

/// Comparison with the caller's arrays.
class StoredCheck {
public:
  StoredCheck(const CheckArguments &arguments, Reporter &reporter)
      : arguments(arguments), reporter(reporter) {}
  std::vector<Status> run(Json &document, bool &ok);

private:
  Status compare(const ExecutableFile &file, const Executable &executable,
                 const std::vector<Buffer> &results, Json &document, bool &ok);

  const CheckArguments &arguments;
  Reporter &reporter;
  std::vector<NamedArray> expected;
};

} // namespace

Status StoredCheck::compare(const ExecutableFile &file,
                            const Executable &executable,
                            const std::vector<Buffer> &results, Json &document,
                            bool &ok) {
  const std::vector<ProgramValue> &outputs = executable.program().results;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  double predicted = predictedError(file);
  FaultReport faults;
  bool exactIntegers = elementBytes(file.narrowestType()) >= 4;
  Json outputList = Json::array(), expectedList = Json::array();
  std::vector<std::vector<std::string>> table = {
      headingOf({"against " + arguments.expected})};
  for (size_t i = 0; i < outputs.size(); ++i) {
    Result<const NamedArray *> array =
        wantedArray(expected, outputs[i], i, arguments.expected);
    if (!array.ok())
      return array.status();
    Tensor wanted = Tensor::fromBytes(
        compilerType((*array)->data.type(), context), (*array)->data.data());
    Tensor actual = Tensor::fromBytes(compilerType(outputs[i].type, context),
                                      results[i].data());
    std::optional<Tensor> magnitudes;
    if (wanted.isFloat())
      magnitudes = reference::clusterMagnitudes(wanted);
    OutputError error = reference::compareOutput(
        actual, wanted, wanted, file.longestReduction(), exactIntegers,
        magnitudes ? &*magnitudes : nullptr);
    if (actual.isFloat())
      error.widen({2 * predicted, 2 * predicted});
    ok &= error.ok;
    std::string type(elementTypeName(outputs[i].type.element));
    Json entry = {{"name", outputs[i].name},
                  {"shape", outputs[i].type.shape},
                  {"type", type},
                  {"max_abs_error", jsonNumber(error.maxAbsError)},
                  {"rms_relative_error", jsonNumber(error.rmsRelativeError)},
                  {"tolerance", jsonNumber(error.tolerance)},
                  {"mismatches", error.mismatches},
                  {"ok", error.ok}};
    faults.add(entry, outputs[i].name, error, outputs[i].type.shape);
    addErrorFields(entry, error, actual);
    outputList.push_back(entry);
    expectedList.push_back(entry);
    table.push_back(rowOf({outputs[i].name}, error, actual, error.ok));
  }
  document["outputs"] = outputList;
  document["expected"] = expectedList;
  reporter.lines(formatTable(table, {false, true, true, true, false}));
  // A file has no graph in which to find the op.
  faults.report(reporter, document, std::nullopt);
  return {};
}

std::vector<Status> StoredCheck::run(Json &document, bool &ok) {
  const std::string &model = arguments.common.model;
  if (arguments.expected.empty())
    return {Status(StatusCode::InvalidArgument, model,
                   "has no graph to compute the answer from; give --expected")};
  if (arguments.perOp)
    return {Status(StatusCode::InvalidArgument, model,
                   "is already compiled, but --per-op needs the model itself")};
  Result<std::vector<NamedArray>> given =
      loadArrays(arguments.common.inputs, arguments.common.maxMemory);
  if (!given.ok())
    return {given.status()};
  Result<ExecutableFile> file = openStoredModel(arguments.common, *given);
  if (!file.ok())
    return {file.status()};
  Result<Device> device = makeDevice(arguments.common);
  if (!device.ok())
    return {device.status()};
  Result<Executable> executable =
      loadStoredModel(*file, arguments.common, *device);
  if (!executable.ok())
    return {executable.status()};
  Result<std::vector<NamedArray>> read =
      loadArrays({arguments.expected}, arguments.common.maxMemory);
  if (!read.ok())
    return {read.status()};
  expected = std::move(*read);
  std::vector<Buffer> inputs;
  if (arguments.common.inputs.empty()) {
    Result<std::vector<Buffer>> drawn =
        drawValues(file->arguments(), arguments.common.seed);
    if (!drawn.ok())
      return {drawn.status()};
    inputs = std::move(*drawn);
  } else if (std::vector<Status> problems = bindArrays(
                 *given, executable->program().arguments, "arg", inputs);
             !problems.empty()) {
    return problems;
  }
  Result<std::vector<Buffer>> results = executable->run(inputs);
  if (!results.ok())
    return {results.status()};
  document = {{"model", model},
              {"policy", file->policy()},
              {"device", device->name()},
              {"isa", levelOf(*executable)},
              {"ok", false}};
  if (Status status = compare(*file, *executable, *results, document, ok);
      !status.ok())
    return {status};
  return {};
}

int tool::checkStoredModel(const CheckArguments &arguments) {
  Reporter reporter(arguments.common.json, arguments.common.quiet);
  Json document;
  bool ok = true;
  if (std::vector<Status> problems =
          StoredCheck(arguments, reporter).run(document, ok);
      !problems.empty())
    return reporter.fail(problems);
  document["ok"] = ok;
  reporter.line(ok ? "all checks held" : "the check did not hold");
  reporter.document(document);
  return reporter.finish(ok ? kDone : kCheckFailed);
}
