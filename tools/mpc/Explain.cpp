//===- Explain.cpp - mpc explain ------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Instrument.h"

#include "JIT/Compiler.h"

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include "llvm/ADT/StringMap.h"

using namespace mpc;
using namespace mpc::tool;

namespace {

/// Collects the report of one model.
class Explainer {
public:
  explicit Explainer(const ExplainArguments &arguments)
      : arguments(arguments),
        reporter(arguments.common.json, arguments.common.quiet) {}
  int run();

private:
  void collectOps(mlir::ModuleOp module);
  void collectKernels(const Program &program);
  void printText();

  const ExplainArguments &arguments;
  Reporter reporter;
  Json ops = Json::array(), kernels = Json::array();
  int64_t casts = 0, castBytes = 0;
};

} // namespace

/// The element type's name: "f32"; MLIR prints unsigned integers as the runtime
/// does.
static std::string typeName(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << mlir::getElementTypeOrSelf(type);
  return text;
}

static bool isNarrow(mlir::Type type) {
  mlir::Type element = mlir::getElementTypeOrSelf(type);
  return element.isF16() || element.isBF16();
}

/// What the op multiplies or evaluates in.
static std::string computeType(mlir::Operation *op) {
  if (auto contraction = mlir::dyn_cast<ContractionOpInterface>(op))
    if (contraction.getComputeMode() != ComputeMode::native)
      return stringifyComputeMode(contraction.getComputeMode()).str();
  for (mlir::Value operand : op->getOperands())
    if (mlir::isa<mlir::FloatType>(
            mlir::getElementTypeOrSelf(operand.getType())))
      return typeName(operand.getType());
  return typeName(op->getResult(0).getType());
}

static Json accumulateType(mlir::Operation *op) {
  if (auto contraction = mlir::dyn_cast<ContractionOpInterface>(op))
    return typeName(contraction.getAccumulateType());
  if (auto reduction = mlir::dyn_cast<ReductionOpInterface>(op))
    return typeName(reduction.getAccumulateType());
  return nullptr;
}

static Json textOrNull(mlir::StringAttr text) {
  return text ? Json(text.getValue().str()) : Json(nullptr);
}

/// One sentence about a decision: what the rule says of `kind`, then what the
/// compiler adds.
static std::string sentence(DecisionAttr decision, const std::string &kind) {
  std::string rule = decision.getRule().str();
  std::string policy = "policy '" + decision.getList().str() + "'";
  std::string text;
  if (rule == "low")
    text = policy + " computes " + kind + " in its narrow type";
  else if (rule == "high")
    text = policy + " computes " + kind + " in float32";
  else if (rule == "follow")
    text = kind + " follows its operands under " + policy;
  else if (rule == "clear")
    text = kind + " takes any type under " + policy;
  else if (rule == "widest")
    text = kind + " meets in the widest of its operands' types under " + policy;
  else if (rule == "high_result")
    text = policy + " sets the result of " + kind + " to float32";
  else if (rule == "override" && decision.getOverride())
    text = "override " + decision.getOverride().str();
  else if (rule == "pin")
    text = "the model fixes it";
  else
    text = policy + " does not touch it";
  if (mlir::StringAttr reason = decision.getReason())
    text += "; " + reason.str();
  return text;
}

void Explainer::collectOps(mlir::ModuleOp module) {
  for (mlir::Operation &op :
       Compiler::entry(module).getBody().front().without_terminator()) {
    if (mlir::isa<ConstantOp>(op) || op.getNumResults() == 0)
      continue;
    auto decision = mlir::dyn_cast_if_present<DecisionAttr>(
        op.getDiscardableAttr(MpcDialect::kDecisionAttr));
    if (mlir::isa<CastOp>(op)) {
      ++casts;
      castBytes += operandAndResultBytes(&op);
      // The model's own casts carry a decision; inserted ones are counted only.
      if (!decision)
        continue;
    }
    Json operands = Json::array(), results = Json::array();
    for (mlir::Value operand : op.getOperands())
      operands.push_back(typeName(operand.getType()));
    for (mlir::Value result : op.getResults())
      results.push_back(typeName(result.getType()));
    ops.push_back(
        {{"name", opName(&op)},
         {"kind", opKind(&op)},
         {"layer", opLayer(&op)},
         {"location", describeLocation(op.getLoc()).where},
         {"compute", computeType(&op)},
         {"accumulate", accumulateType(&op)},
         {"operands", operands},
         {"results", results},
         {"rule", decision ? textOrNull(decision.getRule()) : Json(nullptr)},
         {"override",
          decision ? textOrNull(decision.getOverride()) : Json(nullptr)},
         {"reason",
          decision ? Json(sentence(decision, opKind(&op))) : Json(nullptr)},
         {"kernel", nullptr}});
  }
}

void Explainer::collectKernels(const Program &program) {
  llvm::StringMap<std::string> kernelOf;
  for (const Launch &launch : program.launches) {
    kernels.push_back({{"name", launch.kernel},
                       {"kind", launch.kind},
                       {"ops", launch.ops},
                       {"bytes", launch.bytes},
                       {"flops", launch.flops}});
    for (const std::string &op : launch.ops)
      kernelOf.try_emplace(op, launch.kernel);
  }
  for (Json &op : ops)
    if (auto found = kernelOf.find(op["name"].get<std::string>());
        found != kernelOf.end())
      op["kernel"] = found->second;
}

/// Number of narrow constants that the entry function uses.
static int64_t narrowConstants(mlir::ModuleOp module) {
  int64_t count = 0;
  module.walk(
      [&](ConstantOp op) { count += isNarrow(op.getResult().getType()); });
  return count;
}

/// A word that scripts can match for what a warning is about.
static std::string warningCode(const Diagnostic &warning) {
  auto says = [&](const char *word) {
    return warning.text.find(word) != std::string::npos;
  };
  if (says("become infinite") || says("overflow"))
    return "constant_overflow";
  if (says("become zero") || says("flush"))
    return "constant_flush";
  return warning.stage;
}

static std::string cell(const Json &value) {
  return value.is_string() ? value.get<std::string>() : "";
}

void Explainer::printText() {
  std::vector<std::vector<std::string>> table = {
      {"op", "kind", "compute", "result", "rule", "override", "kernel"}};
  for (const Json &op : ops) {
    if (!arguments.why.empty() && op["name"] != arguments.why)
      continue;
    table.push_back({cell(op["name"]), cell(op["kind"]), cell(op["compute"]),
                     op["results"].empty() ? "" : cell(op["results"][0]),
                     cell(op["rule"]), cell(op["override"]),
                     cell(op["kernel"])});
  }
  reporter.line(formatTable(table, std::vector<bool>(7, false)));
  if (!arguments.why.empty()) {
    for (const Json &op : ops)
      if (op["name"] == arguments.why)
        reporter.line(cell(op["location"]) + ": " + cell(op["reason"]));
    return;
  }
  std::vector<std::vector<std::string>> launches = {
      {"kernel", "kind", "bytes", "flops", "ops"}};
  for (const Json &kernel : kernels) {
    std::string names;
    for (const Json &op : kernel["ops"])
      names += (names.empty() ? "" : ", ") + op.get<std::string>();
    launches.push_back({cell(kernel["name"]), cell(kernel["kind"]),
                        shortBytes(kernel["bytes"].get<double>()),
                        shortNumber(kernel["flops"].get<double>()), names});
  }
  reporter.line("");
  reporter.line(formatTable(launches, {false, false, true, true, false}));
  reporter.line("");
  reporter.line(std::to_string(kernels.size()) + " kernels, " +
                std::to_string(casts) + " casts (" +
                shortBytes(double(castBytes)) + ")");
}

int Explainer::run() {
  Result<CompileOptions> options =
      makeCompileOptions(arguments.common, reporter);
  if (!options.ok())
    return reporter.fail(options.status());
  Result<Device> device = makeDevice(arguments.common);
  if (!device.ok())
    return reporter.fail(device.status());
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(*options);
  if (!compiler.ok())
    return reporter.fail(compiler.status());
  Result<Compiler::Module> module = (*compiler)->import(arguments.common.model);
  if (!module.ok())
    return reporter.fail(module.status());
  if (Status status = (*compiler)->runStages(**module, "import", "simplify");
      !status.ok())
    return reporter.fail(status);
  int64_t narrowBefore = narrowConstants(**module);
  if (Status status = (*compiler)->runStages(**module, "simplify", "precision");
      !status.ok())
    return reporter.fail(status);
  int64_t precast =
      std::max<int64_t>(narrowConstants(**module) - narrowBefore, 0);
  collectOps(**module);
  if (Status status = (*compiler)->runStages(**module, "precision", "plan");
      !status.ok())
    return reporter.fail(status);
  Result<std::shared_ptr<Program>> program =
      (*compiler)->generate(**module, /*withCode=*/false);
  if (!program.ok())
    return reporter.fail(program.status());
  collectKernels(**program);

  if (!arguments.why.empty()) {
    Json chosen = Json::array();
    for (const Json &op : ops)
      if (op["name"] == arguments.why)
        chosen.push_back(op);
    if (chosen.empty())
      return reporter.fail(Status(StatusCode::InvalidArgument,
                                  "--why " + arguments.why,
                                  "the model has no op of that name"));
    if (reporter.isJson())
      ops = chosen;
  }
  printText();
  Json warnings = Json::array();
  for (const Diagnostic &warning : reporter.warnings())
    warnings.push_back({{"code", warningCode(warning)},
                        {"op", warning.op},
                        {"location", warning.where},
                        {"text", warning.text}});
  reporter.document({{"model", arguments.common.model},
                     {"policy", arguments.common.policy},
                     {"target", (*compiler)->targetName()},
                     {"ops", ops},
                     {"casts", casts},
                     {"cast_bytes", castBytes},
                     {"constants_precast", precast},
                     {"padding", Json::array()},
                     {"kernels", kernels},
                     {"warnings", warnings}});
  return reporter.finish(kDone);
}

int tool::explainCommand(const ExplainArguments &arguments) {
  return Explainer(arguments).run();
}
