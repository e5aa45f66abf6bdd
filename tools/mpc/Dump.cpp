//===- Dump.cpp - mpc dump, passes and policies ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Inputs.h"
#include "Lint.h"

#include "JIT/Compiler.h"

#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/JIT/BestPolicy.h"
#include "mpc/Policy/Policy.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"

using namespace mpc;
using namespace mpc::tool;

/// Elements of a constant that are printed without --with-weights.
static constexpr int64_t kMostElements = 16;

static bool isStage(const std::string &name) {
  return name == "import" || name == "codegen" || findStage(name);
}

static std::string stageNames() {
  std::string names = "import";
  for (const Stage &stage : stages())
    names += ", " + stage.name.str();
  return names + ", codegen";
}

/// Runs fusion on a module after stage layout and prints its decisions, in
/// order.
static int dumpFusion(mlir::ModuleOp module, const std::string &model,
                      Reporter &reporter) {
  SelectFusionGroupsPassOptions group;
  group.report = true;
  mlir::PassManager passes(module.getContext());
  addFusionPasses(passes.nest<mlir::func::FuncOp>(), group);
  Json decisions = Json::array();
  mlir::ScopedDiagnosticHandler handler(
      module.getContext(), [&](mlir::Diagnostic &message) {
        if (message.getSeverity() != mlir::DiagnosticSeverity::Remark)
          return mlir::failure();
        reporter.line(message.str());
        decisions.push_back(message.str());
        return mlir::success();
      });
  if (failed(passes.run(module)))
    return reporter.fail(Status(StatusCode::Internal, "fuse",
                                "stage 'fuse' failed without a message"));
  reporter.document({{"model", model}, {"fusion", decisions}});
  return reporter.finish(kDone);
}

int tool::dumpCommand(const DumpArguments &options) {
  Reporter reporter(options.common.json, options.common.quiet);
  Result<CompileOptions> compile = makeCompileOptions(options.common, reporter);
  if (!compile.ok())
    return reporter.fail(compile.status());
  if (Status status = setTraining(options.training, *compile); !status.ok()) {
    reporter.fail(status);
    return kBadUsage;
  }
  if (!isStage(options.after)) {
    reporter.fail(Status(StatusCode::InvalidArgument,
                         "--after " + options.after,
                         "is not a stage; the stages are " + stageNames()));
    return kBadUsage;
  }
  if (const Stage *stage = findStage(options.after);
      stage && stage->training && !compile->training) {
    reporter.fail(Status(StatusCode::InvalidArgument,
                         "--after " + options.after,
                         "is a training stage; add --training step"));
    return kBadUsage;
  }
  // Stages before the precision stage do not read it.
  if (Result<Policy> policy = loadPolicy(*compile); !policy.ok())
    return reporter.fail(policy.status());
  if (Status status = passInputShapes(options.common, *compile); !status.ok())
    return reporter.fail(status);
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(*compile);
  if (!compiler.ok())
    return reporter.fail(compiler.status());
  Result<Compiler::Module> module = (*compiler)->import(options.common.model);
  if (!module.ok())
    return reporter.fail(module.status());
  if (options.fusion) {
    if (Status status = (*compiler)->runStages(**module, "import", "layout");
        !status.ok())
      return reporter.fail(status);
    return dumpFusion(**module, options.common.model, reporter);
  }
  bool toCode = options.after == "codegen";
  if (Status status = (*compiler)->runStages(**module, "import",
                                             toCode ? "plan" : options.after);
      !status.ok())
    return reporter.fail(status);
  if (toCode) {
    Result<Compiler::Module> lowered = (*compiler)->lower(**module);
    if (!lowered.ok())
      return reporter.fail(lowered.status());
    *module = std::move(*lowered);
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  mlir::OpPrintingFlags flags;
  flags.enableDebugInfo(/*enable=*/true, /*prettyForm=*/false);
  if (options.withWeights && failed(computeConstants(**module)))
    return reporter.fail(Status(StatusCode::ResourceExhausted,
                                options.common.model,
                                "no memory for the weights in a dump"));
  if (!options.withWeights)
    flags.elideLargeElementsAttrs(kMostElements)
        .elideLargeResourceString(kMostElements);
  (*module)->print(stream, flags);
  reporter.lines(text);
  reporter.document({{"model", options.common.model},
                     {"stage", options.after},
                     {"text", text}});
  return reporter.finish(kDone);
}

int tool::policiesCommand(const CommonOptions &options) {
  Reporter reporter(options.json, options.quiet);
  Json list = Json::array();
  std::vector<std::vector<std::string>> table = {{"policy", "types"}};
  auto add = [&](const std::string &name, const std::string &description) {
    list.push_back({{"name", name}, {"description", description}});
    table.push_back({name, description});
  };
  for (llvm::StringRef name : Policy::builtinNames())
    add(name.str(), llvm::cantFail(Policy::load(name)).getDescription().str());
  add("auto",
      "the fastest policy on the device that needs no loss scale; here " +
          *mpc::bestPolicy(""));
  reporter.lines(formatTable(table, {false, false}));
  reporter.document({{"policies", list}});
  return reporter.finish(kDone);
}

int tool::passesCommand(const CommonOptions &options) {
  Reporter reporter(options.json, options.quiet);
  Json list = Json::array();
  auto add = [&](const std::string &name, const std::string &description,
                 const std::string &passes) {
    list.push_back(
        {{"name", name}, {"description", description}, {"passes", passes}});
    reporter.line(name + ": " + description);
    if (!passes.empty())
      reporter.line("    " + passes);
  };
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  add("import", "Read a model file into one function of mpc ops", "");
  for (const Stage &stage : stages()) {
    mlir::PassManager passes(&context, mlir::ModuleOp::getOperationName());
    stage.build(passes, PipelineOptions());
    std::string text;
    llvm::raw_string_ostream stream(text);
    passes.printAsTextualPipeline(stream);
    add(stage.name.str(), stage.description.str(), text);
  }
  add("codegen", "Compile each kernel for the target", "");
  reporter.document({{"stages", list}});
  return reporter.finish(kDone);
}
