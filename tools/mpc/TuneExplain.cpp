//===- TuneExplain.cpp - what mpc explain says of a tuned policy ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explanation.h"
#include "Tune.h"

#include "mpc/Support/Files.h"

#include "llvm/Support/FileSystem.h"

using namespace mpc;
using namespace mpc::tool;

Result<TemporaryPolicy> TemporaryPolicy::write(const Json &policy) {
  llvm::SmallString<128> path;
  if (std::error_code error =
          llvm::sys::fs::createTemporaryFile("mpc-tune", "json", path))
    return Status(StatusCode::Unavailable, "temporary folder", error.message());
  TemporaryPolicy made;
  made.file = path.str().str();
  made.remover = std::make_unique<llvm::FileRemover>(path);
  if (Status status = writeWholeFile(made.file, {policy.dump()}); !status.ok())
    return status;
  return made;
}

Result<Json> TuneCommand::explain(const TunedPoint &point) {
  Result<TemporaryPolicy> file = TemporaryPolicy::write(policyFile(point));
  if (!file.ok())
    return file.status();
  // The measurements have compiled the same.
  Reporter silent(/*json=*/false, /*quiet=*/true);
  CompileOptions options = model.options();
  options.policy = file->path();
  options.dumpDir.clear();
  options.onDiagnostic = [&](const Diagnostic &message) {
    silent.hear(message);
  };
  Result<Explanation> explanation =
      explainModel({arguments.common.model, options}, silent);
  if (!explanation.ok())
    return explanation.status();
  explanation->policy = arguments.output.empty() ? "tuned" : arguments.output;
  explanation->ranges = rangesToJson(ranges, model.samples());
  llvm::Expected<Policy> policy = Policy::load(file->path());
  if (!policy)
    return Status(StatusCode::Internal, "the tuned policy",
                  llvm::toString(policy.takeError()));
  size_t before = model.compiler().diagnostics().size();
  mlir::FailureOr<PrecisionPlan> plan = PrecisionPlan::create(
      model.entry(), *policy, space->getTarget(), castPlacementOf(options));
  if (failed(plan))
    return model.compiler().failure(before);
  explainErrors(model.entry(), *plan, *sensitivity, budget.measure,
                int64_t(searched.size()), *explanation);
  return explanationToJson(*explanation);
}
