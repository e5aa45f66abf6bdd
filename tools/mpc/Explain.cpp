//===- Explain.cpp - mpc explain ------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the stages and collects the report's data after each.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Explanation.h"
#include "HtmlReport.h"
#include "Lint.h"
#include "MatrixUnitReport.h"

#include "JIT/DecoderSignature.h"
#include "mpc/Dialect/Mpc/Transforms/KvCacheFormat.h"
#include "mpc/Runtime/Suggestions.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::tool;

/// Returns a warning code for scripts.
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

CastPlacement tool::castPlacementOf(const CompileOptions &options) {
  return options.castPlacement == "propagate" ? CastPlacement::Propagate
                                              : CastPlacement::MinimumCut;
}

/// Explains the type of the value in --why; `module` is after stage simplify.
static Result<ExplainedWhy> explainWhy(Compiler &compiler,
                                       const CompileOptions &options,
                                       mlir::func::FuncOp function,
                                       const std::string &name) {
  const NamedPolicy &policy = compiler.pipelineOptions().policy;
  if (!policy.error().empty())
    return Status(StatusCode::InvalidArgument, "--policy " + options.policy,
                  policy.error());
  CastFusionTarget target(compiler.target());
  target.hasProductLibrary = compiler.pipelineOptions().libraryGemms;
  WhyAnalysis analysis(function, *policy, compiler.pipelineOptions().sets,
                       target, castPlacementOf(options));
  mlir::Value value = analysis.find(name);
  if (!value) {
    return Status(StatusCode::InvalidArgument, "--why " + name,
                  "the model has no op, input or output of that name" +
                      didYouMean(analysis.nearestNames(name)));
  }
  mlir::FailureOr<WhyAccount> account = analysis.explain(value);
  if (failed(account))
    return Status(StatusCode::InvalidArgument, "--why " + name,
                  "the types of the model could not be assigned");
  return explainAccount(name, *account);
}

/// Adds lint findings, then other compile warnings: for lost values the lint
/// has the location and a fix.
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

/// Returns the KV caches of a decoder; empty for other models.
static std::vector<ExplainedCache> cachesOf(const std::string &model,
                                            Compiler &compiler) {
  Result<std::vector<ModelInput>> inputs = readInputs(model);
  Result<bool> counts = countsPositions(model);
  if (!inputs.ok() || !counts.ok())
    return {};
  Result<DecoderSignature> signature =
      DecoderSignature::find(*inputs, model, *counts);
  if (!signature.ok())
    return {};
  std::optional<ElementType> chosen = compiler.cacheType();
  std::vector<ExplainedCache> caches;
  for (const DecoderSignature::Cache &cache : signature->caches) {
    ElementType own = cache.input.element.value_or(ElementType::F32),
                kept = chosen && elementBytes(*chosen) < elementBytes(own)
                           ? *chosen
                           : own;
    int64_t elements = 1;
    for (size_t i = 1; i < cache.input.shape.size(); ++i)
      if (int64_t(i) != cache.axis)
        elements *= std::max<int64_t>(cache.input.shape[i], 1);
    int64_t bytes = elements * elementBytes(kept);
    std::string type(elementTypeName(kept));
    // One scale per row of a head.
    if (elementBytes(kept) == 1) {
      bytes += elements / std::max<int64_t>(cache.input.shape.back(), 1) *
               elementBytes(ElementType::F32);
      type += ", a scale per row";
    }
    caches.push_back({cache.input.name, type, bytes});
  }
  return caches;
}

/// Drops everything except the requested op or value.
static void combineMasks(const std::string &name, Explanation &explanation) {
  std::erase_if(explanation.ops,
                [&](const ExplainedOp &op) { return op.name != name; });
  explanation.edges.clear();
}

Result<Explanation> tool::explainModel(const ExplainRequest &request,
                                       Reporter &reporter) {
  const CompileOptions &options = request.options;
  Result<std::unique_ptr<Compiler>> made = Compiler::create(options);
  if (!made.ok())
    return made.status();
  Compiler &compiler = **made;
  Explanation explanation;
  explanation.model = request.model;
  explanation.policy = options.policy;
  explanation.target = compiler.targetName();
  explanation.caches = cachesOf(request.model, compiler);
  compiler.setCacheFormats();

  Result<Compiler::Module> module = compiler.import(request.model);
  if (!module.ok())
    return module.status();
  if (findKvCaches(Compiler::entry(**module)).empty())
    compiler.warnUnusedCache();
  if (Status status = compiler.runStages(**module, "import", "simplify");
      !status.ok())
    return status;
  mlir::func::FuncOp entry = Compiler::entry(**module);
  if (!request.why.empty()) {
    Result<ExplainedWhy> why =
        explainWhy(compiler, options, entry, request.why);
    if (!why.ok())
      return why.status();
    explanation.why = std::move(*why);
  }
  int64_t narrowBefore = countNarrowConstants(entry);
  Result<Json> lint = assignAndLint(compiler, **module, options);
  if (!lint.ok())
    return lint.status();
  entry = Compiler::entry(**module);
  explanation.constantsPrecast =
      std::max<int64_t>(countNarrowConstants(entry) - narrowBefore, 0);
  explainPrecision(entry, explanation);
  llvm::StringMap<MathType> multiplied = multipliedTypes(entry);
  if (Status status = compiler.runStages(**module, "precision", "fuse");
      !status.ok())
    return status;
  entry = Compiler::entry(**module);
  explainPadding(entry, explanation);
  // Planning converts fusions to launches, so keep a copy to read them.
  Compiler::Module fused = (*module)->clone();
  if (Status status = compiler.runStages(**module, "fuse", "plan");
      !status.ok())
    return status;
  Result<std::shared_ptr<Program>> program =
      compiler.generate(**module, /*withCode=*/request.sass);
  if (!program.ok())
    return program.status();
  explainKernels(Compiler::entry(*fused), **program, compiler.target(),
                 multiplied, explanation);
  if (request.sass)
    if (Status status = explainSass(**module, **program, compiler.target(),
                                    options.threads, explanation);
        !status.ok())
      return status;
  addWarnings(*lint, reporter, explanation);
  return explanation;
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
  if (Status status = checkHtml(arguments.html); !status.ok())
    return reporter.fail(status);
  reportFastPath(*options, reporter, !arguments.common.choosesPolicy);
  Result<Device> device = makeDevice(arguments.common);
  if (!device.ok())
    return reporter.fail(device.status());
  ExplainRequest request{arguments.common.model, *options, arguments.why,
                         arguments.sass};
  SampledModel samples;
  if (!arguments.samples.inputs.empty()) {
    // The other compile reports the diagnostics.
    CompileOptions quiet = *options;
    quiet.onDiagnostic = nullptr;
    quiet.dumpDir.clear();
    if (std::vector<Status> problems =
            samples.load(arguments.common, arguments.samples, quiet);
        !problems.empty())
      return reporter.fail(problems);
    request.options.inputShapes = samples.options().inputShapes;
    request.options.inputValues = samples.options().inputValues;
  }
  Result<Explanation> explained = explainModel(request, reporter);
  if (!explained.ok())
    return reporter.fail(explained.status());
  Explanation &explanation = *explained;
  Result<Policy> policy = loadPolicy(*options);
  if (!policy.ok())
    return reporter.fail(policy.status());
  if (arguments.samples.inputs.empty())
    explanation.ranges = rangesOf(*policy);
  else if (Status status = explainSamples(samples, *policy,
                                          arguments.common.seed, explanation);
           !status.ok())
    return reporter.fail(status);

  if (explanation.why) {
    combineMasks(arguments.why, explanation);
    reporter.lines(whyToText(explanation));
  } else if (arguments.sass) {
    reporter.lines(sassToText(explanation));
  } else {
    reporter.lines(explanationToText(explanation));
  }
  Json document = explanationToJson(explanation);
  if (Status status = writeHtml(arguments.html, "explain", document);
      !status.ok())
    return reporter.fail(status);
  reporter.document(document);
  return reporter.finish(kDone);
}
