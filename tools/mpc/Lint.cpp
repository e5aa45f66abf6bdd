//===- Lint.cpp - mpc lint ------------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lint.h"

#include "Commands.h"
#include "Inputs.h"
#include "InstrumentOps.h"

#include "mpc/Analysis/Lint.h"
#include "mpc/Policy/NamedPolicy.h"

using namespace mpc;
using namespace mpc::tool;

Result<Policy> tool::loadPolicy(const CompileOptions &options) {
  std::vector<std::string> overrides;
  for (const auto &[key, type] : options.sets)
    overrides.push_back(key + "=" + type);
  llvm::Expected<Policy> policy = NamedPolicy(options.policy).with(overrides);
  if (!policy)
    return Status(StatusCode::InvalidArgument, "--policy",
                  llvm::toString(policy.takeError()));
  return std::move(*policy);
}

Result<Json> tool::assignAndLint(Compiler &compiler, mlir::ModuleOp module,
                                 const CompileOptions &options) {
  NumericLint lint(Compiler::entry(module));
  // The stage validates the policy first, with its own message.
  if (Status status = compiler.runStages(module, "simplify", "precision");
      !status.ok())
    return status;
  Result<Policy> policy = loadPolicy(options);
  if (!policy.ok())
    return policy.status();
  Json warnings = Json::array();
  for (const LintWarning &warning : lint.run(Compiler::entry(module), *policy))
    warnings.push_back(
        {{"code", warning.code},
         {"op", opName(warning.op)},
         {"location", describeLocation(warning.op->getLoc()).where},
         {"value", warning.value},
         {"text", warning.text},
         {"fix", warning.fix}});
  return warnings;
}

int tool::lintCommand(const LintArguments &arguments) {
  // The lint reports compile warnings in more detail.
  Reporter reporter(arguments.common.json, /*quiet=*/true);
  Result<CompileOptions> options =
      makeCompileOptions(arguments.common, reporter);
  if (!options.ok())
    return reporter.fail(options.status());
  if (Status status = passInputShapes(arguments.common, *options); !status.ok())
    return reporter.fail(status);
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(*options);
  if (!compiler.ok())
    return reporter.fail(compiler.status());
  Result<Compiler::Module> module = (*compiler)->import(arguments.common.model);
  if (!module.ok())
    return reporter.fail(module.status());
  if (Status status = (*compiler)->runStages(**module, "import", "simplify");
      !status.ok())
    return reporter.fail(status);
  Result<Json> warnings = assignAndLint(**compiler, **module, *options);
  if (!warnings.ok())
    return reporter.fail(warnings.status());

  for (const Json &warning : *warnings) {
    auto field = [&](const char *name) {
      return warning[name].get<std::string>();
    };
    reporter.line(field("location") + ": " + field("code") + ": " +
                  field("text"));
    reporter.line("    fix: " + field("fix"));
  }
  size_t count = warnings->size();
  reporter.line((count ? std::to_string(count) : "no") +
                (count == 1 ? " warning" : " warnings") + " under policy '" +
                options->policy + "'");
  reporter.document(
      {{"model", arguments.common.model}, {"warnings", *warnings}});
  return reporter.finish(kDone);
}
