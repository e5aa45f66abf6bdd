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

#include "Commands.h"
#include "FastPath.h"
#include "Finiteness.h"
#include "Inputs.h"
#include "Instrument.h"
#include "Resample.h"
#include "StoredModel.h"
#include "Verdict.h"

#include "JIT/Compiler.h"

#include "mpc/Policy/Policy.h"
#include "mpc/Reference/Compare.h"
#include "mpc/Reference/Interpreter.h"
#include "mpc/Runtime/Executable.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::OutputError;
using mpc::reference::Tensor;

namespace {

/// One `mpc check`.
class Checker {
public:
  explicit Checker(const CheckArguments &arguments)
      : arguments(arguments),
        reporter(arguments.common.json, arguments.common.quiet) {}
  int run();

private:
  Status prepare();
  std::vector<Status> bind();
  Status interpretModel();
  /// Whether `simplified` computes what the imported graph does, both in
  /// float64, as far as the model's own types can tell; says where it does not.
  Status checkRewrites(Compiler::Module simplified);
  /// Makes the graph with narrow weights the reference, where there are some.
  Status narrowReference(Compiler::Module simplified);
  Status compileAndRun();
  OutputError judge(size_t output) const;
  /// What narrow weights cost an output, relative as rms errors are.
  double weightsError(size_t output) const {
    return ownWeights.empty() || !reference[output].isFloat()
               ? 0
               : reference::rmsRelativeError(reference[output],
                                             ownWeights[output]);
  }
  /// Predicts the errors of outputs with few elements again, where one is over
  /// its tolerance.
  Status resample();
  Status compareExpected(Json &document, bool &ok);
  /// Runs both modes of the oracle on numbered ops.
  Status traceOps();
  /// Appends what a loss scale that joined the model begins with to the inputs.
  Status beginState();
  /// Compiles and runs with the result of every op as an output.
  Status runInstrumented();
  Status checkOps(Json &document, bool &ok);
  /// Says which values are not finite where they should be, and which op was
  /// the first to make one.
  Status reportFiniteness(Json &document);
  void reportOutputs(Json &document, bool &ok);
  /// Without narrow types there is no reason for an integer to differ.
  bool exactIntegers() const {
    return options.policy == "float32" && options.sets.empty();
  }
  bool exactIntegers(size_t output) const {
    return exactIntegers() || !rounded[output];
  }
  Status oracle(reference::Rounding rounding, std::vector<Tensor> &results,
                OpObserver observer = {});
  Status oracle(mlir::ModuleOp graph, reference::Rounding rounding,
                std::vector<Tensor> &results, OpObserver observer = {});

  const CheckArguments &arguments;
  Reporter reporter;
  CompileOptions options;
  std::vector<NamedArray> arrays, expected;
  std::optional<Device> device;
  std::unique_ptr<Compiler> compiler;
  Compiler::Module module;
  std::vector<ProgramValue> outputs;
  std::vector<Buffer> inputs;
  std::vector<Tensor> inputTensors;
  std::vector<Tensor> reference, declared, actual;
  /// The model with its own weights in float64; empty where the policy does not
  /// narrow them.
  std::vector<Tensor> ownWeights;
  /// Whether Precision left something narrow on the way to each output.
  llvm::SmallVector<bool> rounded;
  /// Of each output, as reportOutputs() judged it.
  std::vector<double> tolerances;
  int64_t longestReduction = 1;
  /// Of each output, the error that the second mode makes as a rule; none where
  /// `declared` is a good enough estimate of all.
  std::vector<double> sampled;
  /// Of each output, the error of a rewrite that no rounding explains.
  llvm::SmallVector<std::optional<double>> rewriteErrors;
  /// The graph op by op, made where a report asks for it.
  struct Trace {
    OpValues wanted, predicted;
    std::vector<InstrumentedOp> ops;
    /// The first overflow under the declared types.
    std::optional<Overflow> overflow;
    /// Whether `actual` holds the values of `ops`.
    bool instrumented = false;
  };
  std::optional<Trace> trace;
  FinitenessFaults faults;
};

} // namespace

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
      [&](std::vector<Tensor> &float64, std::vector<Tensor> &second) {
        Status status =
            oracle(**imported, reference::Rounding::Float64, float64);
        return status.ok() ? oracle(reference::Rounding::Declared, second)
                           : status;
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
    if (!ownWeights.empty() && reference[i].isFloat())
      list.back()["weights_error"] = jsonNumber(weightsError(i));
    faults.add(list.back(), outputs[i].name, error, outputs[i].type.shape);
    addIntegerFields(list.back(), error, actual[i]);
    table.push_back({outputs[i].name, outputs[i].type.toString(),
                     errorCell(error.maxAbsError, actual[i]),
                     errorCell(error.rmsRelativeError, actual[i]),
                     errorCell(error.tolerance, actual[i]),
                     verdict(error, actual[i], error.ok)});
  }
  document["outputs"] = list;
  reporter.line(formatTable(table, {false, false, true, true, true, false}));
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
  reporter.line(formatTable(table, {false, true, true, false}));
  return {};
}

Status Checker::traceOps() {
  if (trace)
    return {};
  // Precision rewrites in place, so the ops of the graph before it are found
  // again by the numbers that they carry.
  Result<Compiler::Module> imported = compiler->import(arguments.common.model);
  if (!imported.ok())
    return imported.status();
  module = std::move(*imported);
  if (Status status = compiler->runStages(*module, "import", "simplify");
      !status.ok())
    return status;
  // Ops are judged with the weights that they multiply.
  if (Status status = compiler->runStages(*module, "simplify", "weights");
      !status.ok())
    return status;
  numberOps(Compiler::entry(*module));
  trace.emplace();
  std::vector<Tensor> ignored;
  if (Status status = oracle(reference::Rounding::Float64, ignored,
                             trace->wanted.observer());
      !status.ok())
    return status;
  if (Status status = compiler->runStages(*module, "weights", "precision");
      !status.ok())
    return status;
  OverflowFinder finder(trace->wanted, inputTensors);
  OpObserver collect = trace->predicted.observer(), look = finder.observer();
  if (Status status =
          oracle(reference::Rounding::Declared, ignored,
                 [&](mlir::Operation *op, llvm::ArrayRef<Tensor> results) {
                   collect(op, results);
                   look(op, results);
                 });
      !status.ok())
    return status;
  trace->overflow = finder.first();
  trace->ops = exposeOps(Compiler::entry(*module));
  return {};
}

Status Checker::runInstrumented() {
  if (Status status = traceOps(); !status.ok())
    return status;
  if (trace->instrumented)
    return {};
  actual.clear();
  trace->instrumented = true;
  return compileAndRun();
}

Status Checker::reportFiniteness(Json &document) {
  std::optional<Overflow> first;
  if (faults.overflowed()) {
    if (Status status = traceOps(); !status.ok())
      return status;
    first = trace->overflow;
  }
  // What the declared types do not explain, the compiled code has done.
  if (faults.overflowed() && !first) {
    if (Status status = runInstrumented(); !status.ok())
      return status;
    for (const InstrumentedOp &op : trace->ops) {
      const Tensor *wanted = trace->wanted.find(op.number);
      const Tensor &value = actual[op.output];
      if (wanted && reference::compareOutput(value, *wanted, *wanted, 1,
                                             /*fatalIntegers=*/false)
                            .overflows > 0) {
        first = Overflow{
            op.name, op.kind, op.layer,
            std::string(elementTypeName(runtimeType(value.getType()).element))};
        break;
      }
    }
  }
  faults.report(reporter, document, first);
  return {};
}

Status Checker::checkOps(Json &document, bool &ok) {
  if (Status status = runInstrumented(); !status.ok())
    return status;

  struct Row {
    Json json;
    std::vector<std::string> cells;
    double excess;
    size_t order;
  };
  std::vector<Row> rows;
  for (const InstrumentedOp &op : trace->ops) {
    const Tensor *reference = trace->wanted.find(op.number),
                 *second = trace->predicted.find(op.number);
    if (!reference || !second)
      continue;
    OutputError error =
        reference::compareOutput(actual[op.output], *reference, *second,
                                 longestReduction, exactIntegers());
    ok &= error.ok;
    double magnitude = rms(*reference);
    rows.push_back(
        {{{"name", op.name},
          {"kind", op.kind},
          {"layer", op.layer},
          {"max_abs_error", jsonNumber(error.maxAbsError)},
          {"rms_relative_error", jsonNumber(error.rmsRelativeError)},
          {"magnitude", jsonNumber(magnitude)},
          {"tolerance", jsonNumber(error.tolerance)},
          {"ok", error.ok}},
         {op.name, op.kind, errorCell(error.maxAbsError, *reference),
          errorCell(error.rmsRelativeError, *reference), shortNumber(magnitude),
          verdict(error, *reference, error.ok)},
         jsonNumber(error.rmsRelativeError),
         rows.size()});
    faults.add(rows.back().json, op.name, error, reference->getShape());
    addIntegerFields(rows.back().json, error, *reference);
  }
  std::sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) {
    return a.excess != b.excess ? a.excess > b.excess : a.order < b.order;
  });
  Json list = Json::array();
  std::vector<std::vector<std::string>> table = {
      {"op", "kind", "max abs error", "rms rel error", "magnitude", ""}};
  for (Row &row : rows) {
    list.push_back(std::move(row.json));
    table.push_back(std::move(row.cells));
  }
  document["instrumented"] = true;
  document["ops"] = list;
  reporter.line(formatTable(table, {false, false, true, true, true, false}));
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
