//===- Check.cpp - mpc check ----------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares the compiled model with the float64 oracle. The reference is the
// imported graph before any rewrite; the tolerance is the error of the
// storage-rounding mode on the same graph with the types of the precision stage
// transferred back, so that no rewrite can widen its own tolerance.
// Additionally the simplified graph in float64 is compared with the imported
// one, more precisely than 16-bit types permit. If the policy quantizes
// weights, the reference is the graph with quantized weights, and their error
// is reported separately. So is that of a decoder's KV caches, which the
// program under check does not store.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "CompiledModel.h"
#include "Digests.h"
#include "ErrorVerdict.h"
#include "FaultReport.h"
#include "Inputs.h"
#include "InstrumentOps.h"
#include "MatrixUnitReport.h"
#include "NamedArrays.h"
#include "RoundingErrorSampling.h"

#include "JIT/Compiler.h"
#include "JIT/PrecisionTransfer.h"
#include "mpc/Dialect/Mpc/Transforms/KvCacheFormat.h"
#include "mpc/Policy/Policy.h"
#include "mpc/Reference/Compare.h"
#include "mpc/Reference/Interpreter.h"
#include "mpc/Reference/TermMagnitudes.h"
#include "mpc/Runtime/Executable.h"

#include <algorithm>
#include <cmath>

using namespace mpc;
using namespace mpc::tool;

namespace {
/// State of one `mpc check`.
class ModelCheck {
public:
  explicit ModelCheck(const CheckArguments &arguments)
      : arguments(arguments),
        reporter(arguments.common.json, arguments.common.quiet) {}
  int run();

private:
  Status prepare();
  std::vector<Status> bind();
  Status interpretModel();
  /// Runs the storage-rounding mode on the predictor, a copy of `imported` with
  /// the types of the module.
  Status predict(const ObservedGraph &imported);
  /// Compares the simplified graph in float64, observed by `observer`, with the
  /// imported one, within the precision of the model's own types; records
  /// deviations.
  Status checkRewrites(OpObserver observer = {});
  /// Makes the graph with quantized weights and operands, if any, the
  /// reference.
  Status narrowReference();
  /// Computes what a decoder's KV caches change in each output if they are
  /// stored as the policy specifies.
  Status roundCaches();
  Status compileAndRun();
  reference::OutputError judge(size_t output) const;
  /// Errors of quantized weights and operands in an output.
  reference::ErrorMeasures weightsError(size_t output) const {
    return ownWeights.empty() || !reference[output].isFloat()
               ? reference::ErrorMeasures()
               : reference::measureError(reference[output], ownWeights[output],
                                         magnitudes[output]);
  }
  /// Diagnoses errors over tolerance: a rewrite; or chance, for outputs that
  /// have few elements or exceed only the componentwise tolerance, whose errors
  /// are estimated again from more samples.
  Status explainErrors();
  Status compareExpected(Json &document, bool &ok);
  /// Runs both modes of the oracle on numbered ops.
  Status traceOps();
  /// Appends the initial loss-scale state of a training step to the inputs.
  Status makeInitialState();
  /// Compiles and runs with the result of every op as an output.
  Status runInstrumented();
  Status checkOps(Json &document, bool &ok);
  /// Reports unexpected non-finite values, and the first op that computed one.
  Status reportFiniteness(Json &document);
  void reportOutputs(Json &document, bool &ok);
  /// With f32 only, integers must be exact.
  bool exactIntegers() const {
    return options.policy == "float32" && options.sets.empty();
  }
  /// True if the policy's types or weights may explain an error.
  bool isNarrowed() const {
    return quantizes || llvm::is_contained(rounded, true);
  }
  bool exactIntegers(size_t output) const {
    return exactIntegers() || !rounded[output];
  }
  /// Runs a mode of the oracle on `graph`.
  Status oracle(mlir::ModuleOp graph, reference::Rounding rounding,
                std::vector<reference::Tensor> &results,
                OpObserver observer = {});

  const CheckArguments &arguments;
  Reporter reporter;
  CompileOptions options;
  std::vector<NamedArray> arrays, expected;
  std::optional<Device> device;
  std::unique_ptr<Compiler> compiler;
  Compiler::Module module;
  /// Graph of the storage-rounding mode: the imported graph with the types of
  /// the module's ops. For a training step with an added loss scale the module
  /// itself, since gradients are rounded at that scale.
  Compiler::Module predictor;
  /// After stage simplify.
  Compiler::Module simplified;
  std::vector<ProgramValue> outputs;
  std::vector<Buffer> inputs;
  std::vector<reference::Tensor> inputTensors;
  std::vector<reference::Tensor> reference, declared, actual;
  /// Magnitudes of the terms of each output's elements, and of another
  /// system's.
  llvm::SmallVector<reference::Tensor> magnitudes, expectedMagnitudes;
  /// The largest unit roundoff of the model's types.
  double roundoff = 0;
  /// Results without quantization in float64; empty unless the policy quantizes
  /// weights or operands.
  std::vector<reference::Tensor> ownWeights;
  /// RMS relative error of each output by KV caches; empty unless the policy
  /// sets their type.
  std::vector<double> cacheErrors;
  /// True for each output that depends on a value in a narrow type.
  llvm::SmallVector<bool> rounded;
  /// True if the policy quantizes weights or operands; true if operands.
  bool quantizes = false, quantizesOperands = false;
  /// Error of each output, from reportOutputs().
  std::vector<reference::OutputError> errors;
  int64_t longestReduction = 1;
  /// Typical error of the storage-rounding mode for each output; empty if
  /// `declared` is a sufficient estimate for all.
  std::vector<reference::ErrorMeasures> sampled;
  /// Error of a rewrite for each output, if rounding does not explain it.
  llvm::SmallVector<std::optional<double>> rewriteErrors;
  /// Op-by-op comparison, computed on demand.
  struct Trace {
    OpValues wanted, predicted, magnitudes;
    std::vector<InstrumentedOp> ops;
    /// First overflow under the declared types.
    std::optional<Overflow> overflow;
    /// True if `actual` contains the values of `ops`.
    bool instrumented = false;
  };
  std::optional<Trace> trace;
  FaultReport faults;
};
} // namespace

//===----------------------------------------------------------------------===//
// Single ops
//
// Finds the op with the largest error, and the first with a non-finite result:
// both modes of the oracle and an instrumented program, matched by op number.
// Each op is compared with the same op in float64, so both modes run on the
// compiled graph, which `mpc check` compares with the imported one.
//===----------------------------------------------------------------------===//

using mpc::reference::OutputError;
using mpc::reference::Tensor;

Status ModelCheck::traceOps() {
  if (trace)
    return {};
  // The precision stage rewrites in place, so ops of the graph before it are
  // found by the numbers that they carry.
  Result<Compiler::Module> imported = compiler->import(arguments.common.model);
  if (!imported.ok())
    return imported.status();
  module = std::move(*imported);
  if (Status status = compiler->runStages(*module, "import", "simplify");
      !status.ok())
    return status;
  // Ops are compared with the weights they actually use.
  if (Status status = compiler->runStages(*module, "simplify", "weights");
      !status.ok())
    return status;
  numberOps(Compiler::entry(*module));
  trace.emplace();
  std::vector<Tensor> ignored;
  OpObserver want = trace->wanted.observer();
  reference::TermMagnitudes terms(Compiler::entry(*module), inputTensors,
                                  trace->magnitudes.observer());
  if (Status status =
          oracle(*module, reference::Rounding::Float64, ignored,
                 [&](mlir::Operation *op, llvm::ArrayRef<Tensor> results) {
                   want(op, results);
                   terms.observe(op, results);
                 });
      !status.ok())
    return status;
  if (Status status = compiler->runStages(*module, "weights", "precision");
      !status.ok())
    return status;
  OverflowFinder finder(trace->wanted, inputTensors);
  OpObserver collect = trace->predicted.observer(), look = finder.observer();
  if (Status status =
          oracle(*module, reference::Rounding::Declared, ignored,
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

Status ModelCheck::runInstrumented() {
  if (Status status = traceOps(); !status.ok())
    return status;
  if (trace->instrumented)
    return {};
  actual.clear();
  trace->instrumented = true;
  return compileAndRun();
}

Status ModelCheck::reportFiniteness(Json &document) {
  std::optional<Overflow> first;
  if (faults.overflowed()) {
    if (Status status = traceOps(); !status.ok())
      return status;
    first = trace->overflow;
  }
  // If the declared types do not explain the overflow, the compiled code caused
  // it.
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

Status ModelCheck::checkOps(Json &document, bool &ok) {
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
                 *second = trace->predicted.find(op.number),
                 *magnitudes = trace->magnitudes.find(op.number);
    if (!reference || !second)
      continue;
    OutputError error =
        reference::compareOutput(actual[op.output], *reference, *second,
                                 longestReduction, exactIntegers(), magnitudes);
    ok &= error.ok;
    double magnitude = rms(*reference);
    rows.push_back({{{"name", op.name},
                     {"kind", op.kind},
                     {"layer", op.layer},
                     {"max_abs_error", jsonNumber(error.maxAbsError)},
                     {"rms_relative_error", jsonNumber(error.rmsRelativeError)},
                     {"magnitude", jsonNumber(magnitude)},
                     {"tolerance", jsonNumber(error.tolerance)},
                     {"ok", error.ok}},
                    rowOf({op.name, op.kind, shortNumber(magnitude)}, error,
                          *reference, error.ok),
                    jsonNumber(error.rmsRelativeError),
                    rows.size()});
    faults.add(rows.back().json, op.name, error, reference->getShape());
    addErrorFields(rows.back().json, error, *reference);
  }
  std::sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) {
    return a.excess != b.excess ? a.excess > b.excess : a.order < b.order;
  });
  Json list = Json::array();
  std::vector<std::vector<std::string>> table = {
      headingOf({"op", "kind", "magnitude"})};
  for (Row &row : rows) {
    list.push_back(std::move(row.json));
    table.push_back(std::move(row.cells));
  }
  document["instrumented"] = true;
  document["ops"] = list;
  reporter.lines(
      formatTable(table, {false, false, true, true, true, true, false}));
  return {};
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

using mpc::reference::OutputError;
using mpc::reference::Tensor;

static mlir::RankedTensorType tensorType(mlir::Type type) {
  return mlir::cast<mlir::RankedTensorType>(type);
}

Status ModelCheck::prepare() {
  Result<Device> made = makeDevice(arguments.common);
  if (!made.ok())
    return made.status();
  device = *made;
  Result<CompileOptions> compile =
      makeCompileOptions(arguments.common, *device, reporter);
  if (!compile.ok())
    return compile.status();
  options = std::move(*compile);
  reportFastPath(options, reporter, !arguments.common.choosesPolicy);
  Result<std::vector<NamedArray>> given =
      loadArrays(arguments.common.inputs, arguments.common.maxMemory);
  if (!given.ok())
    return given.status();
  arrays = std::move(*given);
  passInputShapes(arrays, options);
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
  compiler->setCacheFormats();
  Result<Compiler::Module> imported = compiler->import(arguments.common.model);
  if (!imported.ok())
    return imported.status();
  module = std::move(*imported);
  if (findKvCaches(Compiler::entry(*module)).empty())
    compiler->warnUnusedCache();
  outputs = resultsOf(Compiler::entry(*module));
  return {};
}

std::vector<Status> ModelCheck::bind() {
  mlir::func::FuncOp entry = Compiler::entry(*module);
  if (arguments.common.inputs.empty()) {
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

Status ModelCheck::oracle(mlir::ModuleOp graph, reference::Rounding rounding,
                          std::vector<Tensor> &results, OpObserver observer) {
  reference::InterpretOptions interpret;
  interpret.rounding = rounding;
  if (!device->architecture().empty())
    interpret.tensorCores =
        reference::TensorCores::of("cuda:" + device->architecture());
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
                  "the oracle failed without a message");
  }
  results.assign(std::make_move_iterator(values->begin()),
                 std::make_move_iterator(values->end()));
  return {};
}

Status ModelCheck::roundCaches() {
  std::optional<ElementType> element =
      kvCacheElement(compiler->pipelineOptions().policy->getCache());
  if (!element)
    return {};
  Compiler::Module stored = predictor->clone();
  llvm::SmallVector<ConcatOp> caches = findKvCaches(Compiler::entry(*stored));
  if (caches.empty())
    return {};
  for (ConcatOp concat : caches)
    roundKvCache(concat, *element);
  std::vector<Tensor> results;
  if (Status status = oracle(*stored, reference::Rounding::Float64, results);
      !status.ok())
    return status;
  for (auto [result, exact] : llvm::zip_equal(results, reference))
    cacheErrors.push_back(reference::rmsRelativeError(result, exact));
  return {};
}

Status ModelCheck::interpretModel() {
  longestReduction = reference::longestReduction(Compiler::entry(*module));
  predictor = module->clone();
  ObservedGraph imported{Compiler::entry(*predictor), {}};
  imported.values.addArguments(imported.function, inputTensors);
  reference::TermMagnitudes terms(imported.function, inputTensors);
  std::optional<reference::TermMagnitudes> otherTerms;
  if (!arguments.expected.empty())
    otherTerms.emplace(imported.function, inputTensors,
                       reference::TermMagnitudes::Sink(),
                       /*absoluteSigmoids=*/true);
  OpObserver digest = imported.values.observer();
  if (Status status =
          oracle(*predictor, reference::Rounding::Float64, reference,
                 [&](mlir::Operation *op, llvm::ArrayRef<Tensor> results) {
                   digest(op, results);
                   terms.observe(op, results);
                   if (otherTerms)
                     otherTerms->observe(op, results);
                 });
      !status.ok())
    return status;
  if (Status status = roundCaches(); !status.ok())
    return status;
  if (Status status = compiler->runStages(*module, "import", "simplify");
      !status.ok())
    return status;
  if (arguments.afterSimplify)
    arguments.afterSimplify(*module);
  simplified = module->clone();
  if (Status status = compiler->runStages(*module, "simplify", "precision");
      !status.ok())
    return status;
  if (Status status = makeInitialState(); !status.ok())
    return status;
  const Policy &policy = *compiler->pipelineOptions().policy;
  quantizesOperands = policy.quantizesOperands();
  quantizes = policy.narrowsWeights() || quantizesOperands;
  mlir::func::FuncOp typed = Compiler::entry(*module);
  rounded = reference::resultsWithRounding(typed);
  roundoff = reference::unitRoundoff(typed);
  double least = reference::smallestNormal(typed);
  mlir::FailureOr<llvm::SmallVector<Tensor>> found = terms.results(least),
                                             others = found;
  if (otherTerms)
    others = otherTerms->results(least);
  if (mlir::failed(found) || mlir::failed(others))
    return Status(StatusCode::Internal, arguments.common.model,
                  "has an op whose error the oracle cannot analyse");
  magnitudes = std::move(*found);
  expectedMagnitudes = std::move(*others);
  if (Status status = predict(imported); !status.ok())
    return status;
  return narrowReference();
}

Status ModelCheck::predict(const ObservedGraph &imported) {
  rewriteErrors.resize(outputs.size());
  mlir::func::FuncOp typed = Compiler::entry(*module),
                     graph = imported.function;
  // Otherwise the model's own types are the only ones.
  if (isNarrowed()) {
    ObservedGraph rewritten{Compiler::entry(*simplified), {}};
    rewritten.values.addArguments(rewritten.function, inputTensors);
    if (Status status = checkRewrites(rewritten.values.observer());
        !status.ok())
      return status;
    // The imported graph does not round operands; the compiled one does.
    if (typed.getNumArguments() == graph.getNumArguments() &&
        !quantizesOperands)
      transferPrecision(imported, rewritten, typed);
    else
      predictor = module->clone();
  }
  if (Status status =
          oracle(*predictor, reference::Rounding::Declared, declared);
      !status.ok())
    return status;
  for (auto [predicted, exact] : llvm::zip_equal(declared, reference))
    predicted.shareIfEqual(exact);
  return {};
}

Status ModelCheck::checkRewrites(OpObserver observer) {
  std::vector<Tensor> exact, own;
  if (Status status = oracle(*simplified, reference::Rounding::Float64, exact,
                             std::move(observer));
      !status.ok())
    return status;
  auto differs = [&](size_t i, const std::vector<Tensor> &second) {
    return !reference::compareOutput(exact[i], reference[i], second[i],
                                     longestReduction, /*fatalIntegers=*/false,
                                     &magnitudes[i])
                .ok;
  };
  if (llvm::none_of(llvm::seq(outputs.size()),
                    [&](size_t i) { return differs(i, reference); }))
    return {};
  // Folded constants are rounded to the model's types, as run-time values would
  // be.
  if (Status status = oracle(*predictor, reference::Rounding::Declared, own);
      !status.ok())
    return status;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (differs(i, own))
      rewriteErrors[i] = reference::rmsRelativeError(exact[i], reference[i]);
  return {};
}

Status ModelCheck::narrowReference() {
  if (!quantizes)
    return {};
  Compiler::Module stored = simplified->clone();
  if (Status status = compiler->runStages(*stored, "simplify", "weights");
      !status.ok())
    return status;
  ownWeights = std::move(reference);
  if (Status status = oracle(*stored, reference::Rounding::Float64, reference);
      !status.ok())
    return status;
  if (quantizesOperands) {
    // Numbers times the scale of a block with an infinity exceed f32.
    for (size_t i = 0; i < outputs.size(); ++i)
      if (reference[i].isFloat())
        for (auto [narrow, own, predicted] :
             llvm::zip_equal(reference[i].floats(), ownWeights[i].floats(),
                             declared[i].floats()))
          if (!std::isfinite(own) && !std::isfinite(predicted))
            narrow = predicted;
    return {};
  }
  // Rounding errors are those of the model with its original weights.
  for (size_t i = 0; i < outputs.size(); ++i)
    for (auto [predicted, narrow, own] :
         llvm::zip_equal(declared[i].floats(), reference[i].floats(),
                         ownWeights[i].floats()))
      predicted += narrow - own;
  return {};
}

Status ModelCheck::makeInitialState() {
  mlir::func::FuncOp entry = Compiler::entry(*module);
  for (unsigned i = inputs.size(); i < entry.getNumArguments(); ++i) {
    auto initial =
        entry.getArgAttrOfType<mlir::ElementsAttr>(i, MpcDialect::kInitialAttr);
    mlir::FailureOr<Tensor> value = Tensor::fromAttr(initial);
    if (mlir::failed(value))
      return Status(StatusCode::Internal, arguments.common.model,
                    "has a state without an initial value");
    Result<Buffer> buffer = Buffer::allocate(runtimeType(value->getType()));
    if (!buffer.ok())
      return buffer.status();
    value->toBytes(buffer->data());
    inputs.push_back(std::move(*buffer));
    inputTensors.push_back(std::move(*value));
  }
  return {};
}

Status ModelCheck::compileAndRun() {
  // The instrumented compile restarts from here.
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
  for (auto [result, predicted] : llvm::zip(actual, declared))
    result.shareIfEqual(predicted);
  return {};
}

OutputError ModelCheck::judge(size_t output) const {
  OutputError error = reference::compareOutput(
      actual[output], reference[output], declared[output], longestReduction,
      exactIntegers(output), &magnitudes[output]);
  // The number that differ in any sample is a count of its own.
  if (!actual[output].isFloat() && !exactIntegers(output))
    reference::boundMismatches(
        error, std::max(error.storageMismatches,
                        sampled.empty()
                            ? int64_t(0)
                            : static_cast<int64_t>(sampled[output].largest)));
  if (!sampled.empty() && actual[output].isFloat())
    reference::widenTolerance(
        error,
        {error.effective <= kFewElements ? sampled[output].normwise : 0,
         sampled[output].componentwise, sampled[output].largest},
        longestReduction);
  return error;
}

Status ModelCheck::explainErrors() {
  bool isOver = false, isByChance = false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    OutputError error = judge(i);
    isOver |= !error.ok;
    isByChance |= !error.ok && error.mismatchTolerance >= 0;
    isByChance |= !error.ok && error.mismatches == 0 && actual[i].isFloat() &&
                  (error.effective <= kFewElements ||
                   error.rmsRelativeError <= error.tolerance);
  }
  // Otherwise they have been checked already.
  if (isOver && !isNarrowed())
    if (Status status = checkRewrites(); !status.ok())
      return status;
  if (!isByChance)
    return {};
  Result<std::vector<reference::ErrorMeasures>> deviations = sampleErrors(
      inputTensors, arguments.common.seed, roundoff, reference, magnitudes,
      [&](reference::Rounding rounding, std::vector<Tensor> &results) {
        return oracle(*predictor, rounding, results);
      });
  if (!deviations.ok())
    return deviations.status();
  sampled = std::move(*deviations);
  return {};
}

void ModelCheck::reportOutputs(Json &document, bool &ok) {
  std::vector<std::vector<std::string>> table = {headingOf({"output", "type"})};
  Json list = Json::array();
  for (size_t i = 0; i < outputs.size(); ++i) {
    OutputError error = judge(i);
    error.ok &= !rewriteErrors[i];
    ok &= error.ok;
    errors.push_back(error);
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
      list.back()["weights_error"] = jsonNumber(weightsError(i).normwise);
      // Combined error of weights and all other types.
      list.back()["own_error"] =
          jsonNumber(reference::rmsRelativeError(actual[i], ownWeights[i]));
    }
    if (!cacheErrors.empty() && reference[i].isFloat())
      list.back()["cache_error"] = jsonNumber(cacheErrors[i]);
    faults.add(list.back(), outputs[i].name, error, outputs[i].type.shape);
    addErrorFields(list.back(), error, actual[i]);
    table.push_back(rowOf({outputs[i].name, outputs[i].type.toString()}, error,
                          actual[i], error.ok));
  }
  document["outputs"] = list;
  reporter.lines(formatTable(table, {false, false, true, true, true, false}));
  for (size_t i = 0; i < ownWeights.size(); ++i)
    if (reference[i].isFloat())
      reporter.line("output \"" + outputs[i].name + "\": quantized " +
                    (quantizesOperands ? "operands" : "weights") +
                    " change it by " + shortNumber(weightsError(i).normwise) +
                    " (rms relative to the model's " +
                    (quantizesOperands ? "operands" : "weights") +
                    ", both in float64)");
  for (size_t i = 0; i < cacheErrors.size(); ++i)
    if (reference[i].isFloat())
      reporter.line("output \"" + outputs[i].name +
                    "\": KV caches of the policy's type change it by " +
                    shortNumber(cacheErrors[i]) +
                    " (rms relative, in float64)");
  for (size_t i = 0; i < outputs.size(); ++i)
    if (std::string text = describeWeakTolerance(errors[i], actual[i]);
        !text.empty())
      reporter.line("output \"" + outputs[i].name + "\": " + text);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (rewriteErrors[i])
      reporter.line("output \"" + outputs[i].name +
                    "\": the simplified graph differs by " +
                    shortNumber(*rewriteErrors[i]) +
                    " (rms relative) from the imported graph, both in float64, "
                    "which rounding does not explain; this is a miscompile, "
                    "please report the model");
}

Status ModelCheck::compareExpected(Json &document, bool &ok) {
  if (arguments.expected.empty())
    return {};
  Json list = Json::array();
  std::vector<std::vector<std::string>> table = {
      headingOf({"against " + arguments.expected})};
  for (size_t i = 0; i < outputs.size(); ++i) {
    Result<const NamedArray *> found =
        wantedArray(expected, outputs[i], i, arguments.expected);
    if (!found.ok())
      return found.status();
    const Buffer &data = (*found)->data;
    Tensor wanted = Tensor::fromBytes(
        compilerType(data.type(), compiler->context()), data.data());
    // Its elements differ from the reference as the oracle's in declared types.
    Tensor predicted = wanted;
    if (wanted.isFloat() && wanted.size() == reference[i].size())
      for (auto [element, rounded, exact] : llvm::zip_equal(
               predicted.floats(), declared[i].floats(), reference[i].floats()))
        element += rounded - exact;
    // Another system's error of sigmoids, in float32, in addition.
    constexpr double kFunctionError = 0x1p-22;
    Tensor scales = magnitudes[i];
    if (actual[i].isFloat() && errors[i].componentwiseTolerance > 0)
      for (auto [scale, other] :
           llvm::zip_equal(scales.floats(), expectedMagnitudes[i].floats()))
        scale += kFunctionError / errors[i].componentwiseTolerance *
                 std::max(other - scale, 0.0);
    OutputError error =
        reference::compareOutput(actual[i], wanted, predicted, longestReduction,
                                 exactIntegers(i), &scales);
    // The file has the same truth as the oracle, so the oracle's tolerance
    // applies; one derived from the file would widen with its errors. The file
    // does not include the policy's weight rounding.
    if (actual[i].isFloat()) {
      error.tolerance = error.componentwiseTolerance = error.largestTolerance =
          0;
      error.widen({errors[i].tolerance, errors[i].componentwiseTolerance,
                   errors[i].largestTolerance});
      error.widen(weightsError(i));
    } else if (errors[i].mismatchTolerance >= 0) {
      error.mismatchTolerance = errors[i].mismatchTolerance;
      error.ok = error.mismatches <= error.mismatchTolerance;
    }
    ok &= error.ok;
    list.push_back({{"name", outputs[i].name},
                    {"max_abs_error", jsonNumber(error.maxAbsError)},
                    {"rms_relative_error", jsonNumber(error.rmsRelativeError)},
                    {"tolerance", jsonNumber(error.tolerance)},
                    {"ok", error.ok}});
    faults.add(list.back(), outputs[i].name, error, outputs[i].type.shape);
    addErrorFields(list.back(), error, actual[i]);
    table.push_back(rowOf({outputs[i].name}, error, actual[i], error.ok));
  }
  document["expected"] = list;
  reporter.lines(formatTable(table, {false, true, true, true, false}));
  return {};
}

int ModelCheck::run() {
  if (Status status = prepare(); !status.ok())
    return reporter.fail(status);
  if (std::vector<Status> problems = bind(); !problems.empty())
    return reporter.fail(problems);
  if (Status status = interpretModel(); !status.ok())
    return reporter.fail(status);
  if (Status status = compileAndRun(); !status.ok())
    return reporter.fail(status);
  if (Status status = explainErrors(); !status.ok())
    return reporter.fail(status);

  bool ok = true;
  Json document = {{"model", arguments.common.model},
                   {"policy", options.policy},
                   {"device", device->name()},
                   {"isa", std::string(levelOf(compiler->target().name()))},
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
  if (!arguments.against.empty())
    return checkDigests(arguments.common, arguments.against);
  if (isStoredModel(arguments.common.model))
    return checkStoredModel(arguments);
  if (!arguments.training.empty())
    return checkTraining(arguments);
  return ModelCheck(arguments).run();
}
