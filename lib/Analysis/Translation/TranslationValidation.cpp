//===- TranslationValidation.cpp - program against graph ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Symbolic evaluation of the graph and of the program with shared expressions.
// A kernel is proved if its results are values of the graph, or if all kernels
// that read its results are proved: their expressions contain its own.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/TranslationValidation.h"

#include "ConcreteComparison.h"
#include "PlannedMemory.h"
#include "SymbolicTensors.h"

#include "mpc/Dialect/Exe/IR/ExeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <set>

using namespace mlir;
using namespace mpc;
using namespace mpc::translation;

size_t TranslationReport::count(Verdict verdict) const {
  return size_t(llvm::count_if(kernels, [&](const Kernel &kernel) {
    return kernel.verdict == verdict;
  }));
}

namespace {

using Verdict = TranslationReport::Verdict;

class Validator {
public:
  Validator(func::FuncOp graph, ModuleOp planned, exe::ProgramOp program,
            const TranslationOptions &options)
      : graph(graph), planned(planned), program(program), tensors(expressions) {
    expressions.isRelaxed = options.relaxedRounding;
  }

  FailureOr<TranslationReport> run();

private:
  /// Tensors of the results of `block`'s ops, in `values`.
  void evaluateOps(Block &block, DenseMap<Value, TensorId> &values);
  void evaluateGraph();
  /// Evaluates the launches from `first` on.
  LogicalResult evaluateProgram(size_t first);
  /// Marks the launches whose results are values of the graph or that only
  /// proved launches and results read.
  void prove();
  /// Compares the rest by evaluation.
  LogicalResult test(TranslationReport &report);
  /// Name of the kernel that wrote `content`; empty for an argument.
  std::string writer(const Content &content) {
    return content.launch < 0
               ? ""
               : launches[size_t(content.launch)].kernel.getName().str();
  }
  /// Tensor of the graph's `value` in the layout `type`.
  TensorId inLayout(Value value, RankedTensorType type);
  std::string describe(LaunchTerms &launch, unsigned result, Value expected);

  func::FuncOp graph;
  ModuleOp planned;
  exe::ProgramOp program;
  Expressions expressions;
  SymbolicTensors tensors;
  DenseMap<Value, TensorId> values;
  DenseMap<Value, ClosedForm> forms;
  /// Functions of the graph's values.
  llvm::DenseSet<Expr> known;
  std::vector<LaunchTerms> launches;
  std::vector<ResultTerms> results;
  /// Memory before each launch.
  std::vector<PlannedMemory> memory;
  /// Results of launches that were compared by evaluation.
  std::map<size_t, SmallVector<TensorId, 1>> assumed;
  std::set<size_t> tested, testedResults;
};

} // namespace

void Validator::evaluateOps(Block &block, DenseMap<Value, TensorId> &values) {
  for (Operation &op : block.without_terminator()) {
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      values[constant] = tensors.constant(constant.getValue());
      continue;
    }
    SmallVector<TensorId> operands;
    for (Value operand : op.getOperands())
      operands.push_back(values.at(operand));
    if (auto fusion = dyn_cast<FusionOp>(op)) {
      Block &body = fusion.getBody().front();
      for (auto [argument, operand] :
           llvm::zip_equal(body.getArguments(), operands))
        values[argument] = operand;
      evaluateOps(body, values);
      for (auto [result, yielded] : llvm::zip_equal(
               op.getResults(), body.getTerminator()->getOperands()))
        values[result] = values.at(yielded);
      continue;
    }
    for (OpResult result : op.getResults())
      values[result] = tensors.result(&op, result.getResultNumber(), operands);
  }
}

void Validator::evaluateGraph() {
  for (BlockArgument argument : graph.getArguments()) {
    auto name = graph.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                   MpcDialect::kNameAttr);
    std::string text = name ? name.str() : "";
    // Of equal names both sides would read the same.
    values[argument] =
        tensors.input(text + "#" + std::to_string(argument.getArgNumber()),
                      cast<RankedTensorType>(argument.getType()));
  }
  evaluateOps(graph.getBody().front(), values);
  auto add = [&](Value value) {
    ClosedForm form = tensors.form(values[value]);
    known.insert(form.function);
    forms[value] = form;
  };
  for (BlockArgument argument : graph.getArguments())
    add(argument);
  for (Operation &op : graph.getBody().front().without_terminator())
    for (Value result : op.getResults())
      add(result);
}

LogicalResult Validator::evaluateProgram(size_t first) {
  if (memory.empty())
    memory.emplace_back(tensors, program);
  memory.resize(first + 1, memory.front());
  launches.resize(first);
  SymbolTable symbols(planned);
  SmallVector<exe::StepOpInterface, 0> steps = program.getSteps();
  for (exe::StepOpInterface step : ArrayRef(steps).drop_front(first)) {
    auto launch = dyn_cast<exe::LaunchOp>(step.getOperation());
    if (!launch)
      return step.emitOpError("is a library call or a message between ranks, "
                              "which translation validation does not cover");
    auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
    if (!kernel || kernel.isExternal())
      return launch.emitOpError("has a kernel without a body");
    auto index = launches.size();
    LaunchTerms &terms = launches.emplace_back();
    terms.launch = launch;
    terms.kernel = kernel;
    PlannedMemory after = memory.back();
    DenseMap<Value, TensorId> inner;
    for (auto [argument, buffer] :
         llvm::zip_equal(kernel.getArguments(), launch.getInputs())) {
      terms.inputs.push_back(
          after.read(buffer, cast<RankedTensorType>(argument.getType())));
      inner[argument] = terms.inputs.back().tensor;
    }
    Block &body = kernel.getBody().front();
    evaluateOps(body, inner);
    for (Value result : body.getTerminator()->getOperands())
      terms.results.push_back(inner.at(result));
    if (auto found = assumed.find(index); found != assumed.end())
      terms.results = found->second;
    for (auto [i, buffer] : llvm::enumerate(launch.getOutputs())) {
      after.write(buffer, {.tensor = terms.results[i],
                           .launch = int(index),
                           .result = unsigned(i)});
      terms.forms.push_back(tensors.form(terms.results[i]));
      terms.isKnown.push_back(known.contains(terms.forms.back().function));
    }
    memory.push_back(std::move(after));
  }
  results.clear();
  Operation *exit = graph.getBody().front().getTerminator();
  for (exe::ResultOp result : program.getProgramResults()) {
    ResultTerms &terms = results.emplace_back();
    terms.read =
        memory.back().read(FlatSymbolRefAttr::get(result.getSymNameAttr()),
                           result.getTensorType());
    terms.expected = exit->getOperand(unsigned(result.getIndex()));
    terms.isEqual =
        testedResults.count(results.size() - 1) ||
        result.getTensorType().getNumElements() == 0 ||
        tensors.form(terms.read.tensor) == tensors.form(values[terms.expected]);
  }
  return success();
}

void Validator::prove() {
  // Whether a launch or result that reads a launch is not proved.
  std::vector<bool> fails(launches.size(), false), isRead(fails);
  auto addReader = [&](const PlannedMemory::Read &read, bool isProved) {
    for (const Content &content : read.contents)
      if (content.launch >= 0) {
        auto from = size_t(content.launch);
        fails[from] = fails[from] || !isProved;
        isRead[from] = true;
      }
  };
  for (const ResultTerms &result : results)
    addReader(result.read, result.isEqual);
  for (size_t i = launches.size(); i-- > 0;) {
    LaunchTerms &launch = launches[i];
    launch.isProved =
        tested.contains(i) || (isRead[i] && !fails[i]) ||
        llvm::all_of(launch.isKnown, [](bool known) { return known; });
    for (const PlannedMemory::Read &input : launch.inputs)
      addReader(input, launch.isProved);
  }
}

TensorId Validator::inLayout(Value value, RankedTensorType type) {
  TensorId id = values.at(value);
  ArrayRef<int64_t> shape = shapeOf(value);
  if (shape != type.getShape() && shape.size() >= 3) {
    auto order = llvm::to_vector(llvm::seq<int64_t>(int64_t(shape.size())));
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
    TensorId last = tensors.transpose(id, order);
    if (tensors.typeOf(last) == type)
      return last;
  }
  return tensors.view({Piece{.size = type.getNumElements(), .tensor = id}},
                      type);
}

/// The innermost difference between two expressions.
static std::pair<Expr, Expr> difference(Expr a, Expr b) {
  for (;;) {
    if (a->kind != b->kind || a->label != b->label || a->type != b->type ||
        a->numbers != b->numbers || a->operands.size() != b->operands.size())
      return {a, b};
    size_t different = 0, at = 0;
    for (size_t i = 0; i < a->operands.size(); ++i)
      if (a->operands[i] != b->operands[i]) {
        ++different;
        at = i;
      }
    // An index says little without what it indexes.
    if (different != 1 || !a->operands[at]->type || !b->operands[at]->type)
      return {a, b};
    a = a->operands[at];
    b = b->operands[at];
  }
}

std::string Validator::describe(LaunchTerms &launch, unsigned result,
                                Value expected) {
  auto [wanted, found] =
      difference(forms.at(expected).function, launch.forms[result].function);
  std::string index;
  for (int64_t dim = 0; dim < tensors.typeOf(launch.results[result]).getRank();
       ++dim)
    index += (dim ? ", i" : "i") + std::to_string(dim);
  return "kernel '" + launch.kernel.getName().str() + "' computes result " +
         std::to_string(result) + "[" + index + "] with " +
         Expressions::print(found) + ", but the graph has " +
         Expressions::print(wanted);
}

LogicalResult Validator::test(TranslationReport &report) {
  for (size_t i = 0; i < launches.size(); ++i) {
    if (launches[i].isProved)
      continue;
    ConcreteComparison comparison(graph, tensors, forms, launches, results);
    ConcreteComparison::Outcome outcome = comparison.compareFrom(i);
    // What a kernel computes may be a guess from names; results are not.
    if (!outcome.isEqual && (!outcome.isCertain || tensors.isExhausted()))
      if (auto whole = comparison.compareResults(i); whole.isEqual)
        outcome = whole;
    tested.insert(outcome.region.begin(), outcome.region.end());
    if (!outcome.isEqual) {
      report.kernels[i].verdict = Verdict::Differs;
      LaunchTerms &launch = launches[i];
      std::string text = "kernel '" + launch.kernel.getName().str() +
                         "' computes no value of the graph" +
                         (outcome.text.empty() ? "" : "; " + outcome.text);
      for (auto [result, value] : llvm::enumerate(outcome.expected))
        if (value) {
          text =
              describe(launch, unsigned(result), value) + "; " + outcome.text;
          break;
        }
      report.difference = {launch.kernel.getName().str(), text,
                           launch.launch.getLoc()};
      return success();
    }
    size_t last = outcome.region.back();
    for (size_t region : outcome.region)
      report.kernels[region].verdict = Verdict::Tested;
    testedResults.insert(outcome.results.begin(), outcome.results.end());
    for (auto [value, result] :
         llvm::zip(outcome.expected, launches[last].results))
      assumed[last].push_back(value ? inLayout(value, tensors.typeOf(result))
                                    : result);
    if (failed(evaluateProgram(last)))
      return failure();
    prove();
  }
  return success();
}

FailureOr<TranslationReport> Validator::run() {
  evaluateGraph();
  if (failed(evaluateProgram(0)))
    return failure();
  prove();
  TranslationReport report;
  for (LaunchTerms &launch : launches)
    report.kernels.push_back({launch.kernel.getName().str(), Verdict::Proved});
  if (failed(test(report)))
    return failure();
  // Results that no launch computes.
  auto isEqual = [](const ResultTerms &result) { return result.isEqual; };
  if (!report.difference && !llvm::all_of(results, isEqual) &&
      ConcreteComparison(graph, tensors, forms, launches, results)
          .compareResults(std::nullopt)
          .isEqual)
    return report;
  for (const ResultTerms &result : results)
    if (!result.isEqual && !report.difference)
      report.difference = {
          result.read.contents.empty() ? ""
                                       : writer(result.read.contents.front()),
          "a result of the program is " +
              Expressions::print(tensors.form(result.read.tensor).function) +
              ", but the graph has " +
              Expressions::print(forms.at(result.expected).function),
          result.expected.getLoc()};
  return report;
}

FailureOr<TranslationReport>
mpc::validateTranslation(func::FuncOp graph, ModuleOp planned,
                         const TranslationOptions &options) {
  auto programs = planned.getOps<exe::ProgramOp>();
  if (programs.empty()) {
    planned.emitError("has no program, which stage plan makes");
    return failure();
  }
  return Validator(graph, planned, *programs.begin(), options).run();
}
