//===- Explain.cpp - mpc explain ------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the stages and asks after each what the report needs of it.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Explanation.h"
#include "FastPath.h"
#include "Lint.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::tool;

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

/// The account of the value that --why names; `module` is after Simplify.
static Result<ExplainedWhy> explainWhy(Compiler &compiler,
                                       const CompileOptions &options,
                                       mlir::func::FuncOp function,
                                       const std::string &name) {
  llvm::Expected<Policy> policy = Policy::load(options.policy);
  if (!policy)
    return Status(StatusCode::InvalidArgument, "--policy " + options.policy,
                  llvm::toString(policy.takeError()));
  CastPlacement placement = options.castPlacement == "propagate"
                                ? CastPlacement::Propagate
                                : CastPlacement::MinimumCut;
  FusionTarget target(compiler.target());
  target.hasProductLibrary = compiler.pipelineOptions().libraryGemms;
  WhyAnalysis analysis(function, *policy, compiler.pipelineOptions().sets,
                       target, placement);
  mlir::Value value = analysis.find(name);
  if (!value) {
    std::string nearest = analysis.nearestName(name);
    return Status(
        StatusCode::InvalidArgument, "--why " + name,
        "the model has no op, input or output of that name" +
            (nearest.empty() ? "" : "; did you mean '" + nearest + "'"));
  }
  mlir::FailureOr<WhyAccount> account = analysis.explain(value);
  if (failed(account))
    return Status(StatusCode::InvalidArgument, "--why " + name,
                  "the model cannot be planned");
  return explainAccount(name, *account);
}

/// The lint's findings, then what the compile said beyond them: the lint tells
/// of a lost value with its place and a fix.
static void addWarnings(const Json &lint, const Reporter &reporter,
                        Explanation &explanation) {
  auto field = [](const Json &warning, const char *name) {
    return warning[name].get<std::string>();
  };
  for (const Json &warning : lint)
    explanation.warnings.push_back(
        {field(warning, "code"), field(warning, "op"),
         field(warning, "location"), field(warning, "text"),
         field(warning, "value"), field(warning, "fix")});
  for (const Diagnostic &warning : reporter.warnings()) {
    std::string code = warningCode(warning);
    bool told = std::any_of(lint.begin(), lint.end(), [&](const Json &entry) {
      return field(entry, "code") == code;
    });
    if (!told)
      explanation.warnings.push_back(
          {code, warning.op, warning.where, warning.text, "", ""});
  }
}

/// Drops everything that is not about the op or value that was asked for.
static void keepOnly(const std::string &name, Explanation &explanation) {
  std::erase_if(explanation.ops,
                [&](const ExplainedOp &op) { return op.name != name; });
  explanation.edges.clear();
}

int tool::explainCommand(const ExplainArguments &arguments) {
  Reporter reporter(arguments.common.json, arguments.common.quiet);
  Result<CompileOptions> options =
      makeCompileOptions(arguments.common, reporter);
  if (!options.ok())
    return reporter.fail(options.status());
  if (Status status = setTraining(arguments.training, *options); !status.ok()) {
    reporter.fail(status);
    return kBadUsage;
  }
  reportFastPath(*options, reporter);
  Result<Device> device = makeDevice(arguments.common);
  if (!device.ok())
    return reporter.fail(device.status());
  Result<std::unique_ptr<Compiler>> made = Compiler::create(*options);
  if (!made.ok())
    return reporter.fail(made.status());
  Compiler &compiler = **made;
  Explanation explanation;
  explanation.model = arguments.common.model;
  explanation.policy = options->policy;
  explanation.target = compiler.targetName();

  Result<Compiler::Module> module = compiler.import(arguments.common.model);
  if (!module.ok())
    return reporter.fail(module.status());
  if (Status status = compiler.runStages(**module, "import", "simplify");
      !status.ok())
    return reporter.fail(status);
  mlir::func::FuncOp entry = Compiler::entry(**module);
  if (!arguments.why.empty()) {
    Result<ExplainedWhy> why =
        explainWhy(compiler, *options, entry, arguments.why);
    if (!why.ok())
      return reporter.fail(why.status());
    explanation.why = std::move(*why);
  }
  int64_t narrowBefore = countNarrowConstants(entry);
  Result<Json> lint = assignAndLint(compiler, **module, *options);
  if (!lint.ok())
    return reporter.fail(lint.status());
  entry = Compiler::entry(**module);
  explanation.constantsPrecast =
      std::max<int64_t>(countNarrowConstants(entry) - narrowBefore, 0);
  explainPrecision(entry, explanation);
  if (Status status = compiler.runStages(**module, "precision", "fuse");
      !status.ok())
    return reporter.fail(status);
  entry = Compiler::entry(**module);
  explainPadding(entry, explanation);
  // Planning turns the entry into launches; the fusions are read after it.
  Compiler::Module fused = (*module)->clone();
  if (Status status = compiler.runStages(**module, "fuse", "plan");
      !status.ok())
    return reporter.fail(status);
  Result<std::shared_ptr<Program>> program =
      compiler.generate(**module, /*withCode=*/arguments.sass);
  if (!program.ok())
    return reporter.fail(program.status());
  explainKernels(Compiler::entry(*fused), **program, explanation);
  if (arguments.sass)
    if (Status status = explainSass(**module, **program, compiler.target(),
                                    options->threads, explanation);
        !status.ok())
      return reporter.fail(status);
  addWarnings(*lint, reporter, explanation);

  if (explanation.why) {
    keepOnly(arguments.why, explanation);
    reporter.line(whyToText(explanation));
  } else if (arguments.sass) {
    reporter.line(sassToText(explanation));
  } else {
    reporter.line(explanationToText(explanation));
  }
  reporter.document(explanationToJson(explanation));
  return reporter.finish(kDone);
}
