//===- TrainingReference.cpp - reference results of a training step -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainingReference.h"

#include "mpc/Analysis/IndexBounds.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"
#include "mpc/Reference/TermMagnitudes.h"
#include "mpc/Support/StepNames.h"

#include "llvm/ADT/Sequence.h"

#include <cmath>
#include <deque>

using namespace mlir;
using namespace mpc;
using mpc::reference::Rounding;
using mpc::reference::Tensor;

namespace {

/// Records the results of the gradient checks, in op order, which is the same
/// for every policy.
class Checks {
public:
  auto record() {
    return [this](Operation *op, ArrayRef<Tensor> results) {
      if (isa<AllFiniteOp, GlobalNormOp>(op))
        found.emplace_back(results);
    };
  }
  /// Replaces check results of another run, whose types may belong to another
  /// context, by the recorded ones. A norm stays if the recorded one is finite.
  auto repeat() {
    return [this, next = size_t(0)](Operation *op,
                                    MutableArrayRef<Tensor> results) mutable {
      if (!isa<AllFiniteOp, GlobalNormOp>(op))
        return;
      for (auto [result, recorded] : llvm::zip_equal(results, found[next++]))
        if (!result.isFloat())
          llvm::copy(recorded.ints(), result.ints().begin());
        else if (!std::isfinite(recorded.floats()[0]))
          llvm::copy(recorded.floats(), result.floats().begin());
    };
  }

private:
  std::vector<SmallVector<Tensor>> found;
};

/// Measures the error of all-reduced gradients against the exact sum of each
/// rank's unrounded gradient.
class CommunicationErrorProbe {
public:
  CommunicationErrorProbe(func::FuncOp entry,
                          ArrayRef<SmallVector<Tensor>> arguments) {
    for (auto message : entry.getOps<AllReduceOp>())
      for (auto [input, output] :
           llvm::zip_equal(message.getInputs(), message.getOutputs()))
        if (std::string name = parameterOf(entry, output); !name.empty()) {
          Value own = beforeRounding(input);
          names[output] = name;
          sources[output] = own;
          SmallVector<Tensor> &values = ranks[own];
          auto argument = dyn_cast<BlockArgument>(own);
          if (argument && values.empty())
            for (const SmallVector<Tensor> &given : arguments)
              values.push_back(given[argument.getArgNumber()]);
        }
  }

  /// Processes the results of one rank.
  void look(Operation *op, ArrayRef<Tensor> results) {
    auto message = dyn_cast<AllReduceOp>(op);
    for (auto [value, result] : llvm::zip(op->getResults(), results)) {
      if (auto known = ranks.find(value); known != ranks.end())
        known->second.push_back(result);
      auto source = sources.find(value);
      // All ranks have the same sum.
      if (!message || source == sources.end() || judged.count(value))
        continue;
      judged.insert(value);
      Tensor sum(result.getType());
      for (const Tensor &own : ranks.find(source->second)->second)
        for (auto [total, part] : llvm::zip_equal(sum.floats(), own.floats()))
          total += part;
      errors.push_back({names.find(value)->second, result.getElementType(),
                        reference::rmsRelativeError(result, sum)});
    }
  }

  std::vector<TrainingOracle::CommunicationError> take() {
    return std::move(errors);
  }

private:
  /// Returns the name of the parameter whose update reads `gradient`, or empty.
  static std::string parameterOf(func::FuncOp entry, Value gradient) {
    for (OpOperand &use : gradient.getUses()) {
      auto optimizer = dyn_cast<OptimizerOpInterface>(use.getOwner());
      auto parameter =
          optimizer ? dyn_cast<BlockArgument>(Value(optimizer.getParameter()))
                    : BlockArgument();
      if (parameter && &optimizer.getGradientMutable() == &use)
        return nameIn(entry.getArgAttrDict(parameter.getArgNumber()));
    }
    return "";
  }

  /// Returns the value before its cast to the communication type.
  static Value beforeRounding(Value sent) {
    auto cast = sent.getDefiningOp<CastOp>();
    return cast ? Value(cast.getInput()) : sent;
  }

  DenseMap<Value, std::string> names;
  /// Unrounded value of each all-reduce result, and its tensors by rank.
  DenseMap<Value, Value> sources;
  DenseMap<Value, SmallVector<Tensor>> ranks;
  DenseSet<Value> judged;
  std::vector<TrainingOracle::CommunicationError> errors;
};

} // namespace

std::string mpc::nameIn(DictionaryAttr attributes) {
  auto name = attributes ? attributes.getAs<StringAttr>(MpcDialect::kNameAttr)
                         : StringAttr();
  return name ? name.getValue().str() : "";
}

Result<TrainingOracle::Graph>
TrainingOracle::makeGraph(const std::string &path,
                          const CompileOptions &options, bool numbered) {
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(options);
  if (!compiler.ok())
    return compiler.status();
  Result<Compiler::Module> module = (*compiler)->import(path);
  if (!module.ok())
    return module.status();
  if (Status status =
          (*compiler)->runStages(**module, "import", "differentiate");
      !status.ok())
    return status;
  if (numbered)
    numberOps(Compiler::entry(**module));
  if (Status status =
          (*compiler)->runStages(**module, "differentiate", "loss-scale");
      !status.ok())
    return status;
  Graph graph;
  graph.compiler = std::move(*compiler);
  graph.module = std::move(*module);
  return graph;
}

Result<TrainingOracle> TrainingOracle::create(const std::string &path,
                                              const CompileOptions &options) {
  if (!options.training)
    return Status(StatusCode::InvalidArgument, path,
                  "is to be checked as a part of a training step, but the "
                  "options set none");
  TrainingOracle oracle;
  CompileOptions choices = options;
  choices.dumpDir.clear();
  choices.training->distribution.shard = "none";
  Result<Graph> graph = makeGraph(path, choices);
  if (!graph.ok())
    return graph.status();
  oracle.declared = std::move(*graph);
  oracle.path = path;
  oracle.declaredOptions = choices;
  oracle.declaredOptions.onDiagnostic = nullptr;
  // The first graph has reported all diagnostics of the model.
  choices.onDiagnostic = nullptr;
  choices.policy = "float32";
  choices.sets.clear();
  if (choices.training->lossScale.empty()) {
    // Use the loss scale that the policy's default resolved to.
    bool scales = oracle.declared.compiler && [&] {
      func::FuncOp entry = Compiler::entry(*oracle.declared.module);
      return llvm::any_of(llvm::seq(entry.getNumArguments()), [&](unsigned i) {
        return StringRef(nameIn(entry.getArgAttrDict(i)))
            .starts_with("loss_scale.");
      });
    }();
    choices.training->lossScale = scales ? "dynamic" : "none";
  }
  graph = makeGraph(path, choices);
  if (!graph.ok())
    return graph.status();
  oracle.exact = std::move(*graph);
  oracle.exactOptions = choices;
  return oracle;
}

/// Returns the 16-bit copy `name` of a master weight in `values`: graphs of two
/// policies have copies of different types. Nullopt if there is no master.
static std::optional<Tensor> copyOf(StringRef name, RankedTensorType type,
                                    const TrainingOracle::Arguments &values) {
  if (!name.consume_back(kCopySuffix))
    return std::nullopt;
  auto master = values.find(name.str());
  if (master == values.end() || !master->second)
    return std::nullopt;
  Tensor copy = Tensor::fromBytes(
      type.clone(Float32Type::get(type.getContext())), master->second.data());
  Tensor rounded(type);
  for (auto [to, from] : llvm::zip_equal(rounded.floats(), copy.floats()))
    to = reference::roundTo(from, type.getElementType());
  return rounded;
}

Result<std::vector<Tensor>>
TrainingOracle::argumentsOf(Graph &graph, const Arguments &values) {
  func::FuncOp entry = Compiler::entry(*graph.module);
  std::vector<Tensor> arguments;
  for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
    std::string name = nameIn(entry.getArgAttrDict(i));
    auto type = cast<RankedTensorType>(entry.getArgument(i).getType());
    auto found = values.find(name);
    bool fits = found != values.end() && found->second &&
                found->second.type() == runtimeType(type);
    auto role = entry.getArgAttrOfType<RoleAttr>(i, MpcDialect::kRoleAttr);
    if (!fits && role && role.getKind() == RoleKind::parameter_copy)
      if (std::optional<Tensor> copy = copyOf(name, type, values)) {
        arguments.push_back(std::move(*copy));
        continue;
      }
    if (!fits)
      return Status(StatusCode::InvalidArgument, "argument '" + name + "'",
                    "was not given to the oracle as " +
                        runtimeType(type).toString());
    arguments.push_back(Tensor::fromBytes(type, found->second.data()));
  }
  return arguments;
}

Result<TrainingOracle::RankTensors>
TrainingOracle::argumentsOf(Graph &graph, ArrayRef<Arguments> ranks) {
  RankTensors all;
  for (const Arguments &values : ranks) {
    Result<std::vector<Tensor>> own = argumentsOf(graph, values);
    if (!own.ok())
      return own.status();
    all.emplace_back(own->begin(), own->end());
  }
  return all;
}

Result<std::vector<TrainingOracle::Named>>
TrainingOracle::interpret(Graph &graph, Rounding rounding,
                          const RankTensors &arguments,
                          const Observer &observer) {
  func::FuncOp entry = Compiler::entry(*graph.module);
  reference::InterpretOptions options;
  options.rounding = rounding;
  graph.numbers.clear();
  options.observer = [&](Operation *op, MutableArrayRef<Tensor> results) {
    if (observer)
      observer(op, results);
    for (auto [value, tensor] : llvm::zip(op->getResults(), results))
      if (tensor.size() == 1)
        graph.numbers.emplace(value.getAsOpaquePointer(), tensor);
  };
  size_t first = graph.compiler->diagnostics().size();
  FailureOr<RankTensors> results =
      reference::interpretRanks(entry, arguments, options);
  if (failed(results)) {
    const std::vector<Diagnostic> &said = graph.compiler->diagnostics();
    for (size_t i = first; i < said.size(); ++i)
      if (said[i].severity == Diagnostic::Severity::Error)
        return Status(StatusCode::InvalidArgument, said[i].where, said[i].text);
    return Status(StatusCode::Internal, "oracle", "failed in silence");
  }
  std::vector<Named> named(results->size());
  for (auto [own, tensors] : llvm::zip_equal(named, *results))
    for (auto [i, result] : llvm::enumerate(tensors))
      own.emplace(nameIn(entry.getResultAttrDict(i)), std::move(result));
  return named;
}

Result<std::vector<TrainingOracle::Answer>>
TrainingOracle::run(const Arguments &arguments) {
  Result<std::vector<std::vector<Answer>>> answers =
      run(ArrayRef<Arguments>(arguments));
  if (!answers.ok())
    return answers.status();
  return std::move(answers->front());
}

Result<std::vector<std::vector<TrainingOracle::Answer>>>
TrainingOracle::run(ArrayRef<Arguments> ranks) {
  Result<RankTensors> given = argumentsOf(declared, ranks);
  if (!given.ok())
    return given.status();
  func::FuncOp entry = Compiler::entry(*declared.module);
  Checks checks;
  CommunicationErrorProbe wire(entry, *given);
  auto recorded = checks.record();
  Result<std::vector<Named>> rounded =
      interpret(declared, Rounding::Declared, *given,
                [&](Operation *op, MutableArrayRef<Tensor> results) {
                  recorded(op, results);
                  wire.look(op, results);
                });
  if (!rounded.ok())
    return rounded.status();
  onWire = wire.take();
  given = argumentsOf(exact, ranks);
  if (!given.ok())
    return given.status();
  func::FuncOp exactEntry = Compiler::entry(*exact.module);
  std::deque<reference::TermMagnitudes> terms;
  for (const SmallVector<Tensor> &own : *given)
    terms.emplace_back(exactEntry, own);
  Result<std::vector<Named>> wanted =
      interpret(exact, Rounding::Float64, *given,
                [repeat = checks.repeat(), &terms, rank = size_t(0)](
                    Operation *op, MutableArrayRef<Tensor> results) mutable {
                  repeat(op, results);
                  // The interpreter executes each op on one rank after the
                  // other.
                  terms[rank].observe(op, results);
                  rank = (rank + 1) % terms.size();
                });
  if (!wanted.ok())
    return wanted.status();
  std::vector<std::vector<Answer>> answers(ranks.size());
  double least = reference::smallestNormal(entry);
  for (auto [own, truths, predicted, analysis] :
       llvm::zip_equal(answers, *wanted, *rounded, terms)) {
    FailureOr<SmallVector<Tensor>> found = analysis.results(least);
    if (failed(found))
      return Status(StatusCode::Internal, path,
                    "has an op whose error the oracle cannot analyse");
    std::map<std::string, const Tensor *> magnitudes;
    for (auto [i, tensor] : llvm::enumerate(*found))
      magnitudes[nameIn(exactEntry.getResultAttrDict(i))] = &tensor;
    for (unsigned i = 0; i < entry.getNumResults(); ++i) {
      std::string name = nameIn(entry.getResultAttrDict(i));
      auto truth = truths.find(name);
      // Compare a parameter's 16-bit copy with the parameter.
      if (truth == truths.end() && StringRef(name).ends_with(kCopySuffix))
        truth = truths.find(name.substr(0, name.rfind(kCopySuffix)));
      if (truth != truths.end())
        own.push_back({name, truth->second,
                       std::move(predicted.find(name)->second),
                       *magnitudes.find(truth->first)->second});
    }
  }
  return answers;
}

Result<std::optional<Overflow>>
TrainingOracle::firstOverflow(const Arguments &arguments) {
  OpValues wanted;
  std::optional<Overflow> overflow;
  auto runNumbered = [&](const CompileOptions &options, Rounding rounding,
                         bool looks) -> Status {
    Result<Graph> graph = makeGraph(path, options, /*numbered=*/true);
    if (!graph.ok())
      return graph.status();
    Result<std::vector<Tensor>> given = argumentsOf(*graph, arguments);
    if (!given.ok())
      return given.status();
    OverflowFinder finder(wanted, *given);
    Result<std::vector<Named>> results = interpret(
        *graph, rounding,
        RankTensors{SmallVector<Tensor>(given->begin(), given->end())},
        looks ? finder.observer() : wanted.observer());
    overflow = finder.first();
    return results.status();
  };
  if (Status status =
          runNumbered(exactOptions, Rounding::Float64, /*looks=*/false);
      !status.ok())
    return status;
  if (Status status =
          runNumbered(declaredOptions, Rounding::Declared, /*looks=*/true);
      !status.ok())
    return status;
  return overflow;
}

int64_t TrainingOracle::integerBound(const std::string &name) {
  func::FuncOp entry = Compiler::entry(*declared.module);
  for (BlockArgument argument : entry.getArguments())
    if (nameIn(entry.getArgAttrDict(argument.getArgNumber())) == name)
      return indexBound(argument).value_or(0);
  return 0;
}
