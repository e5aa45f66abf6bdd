//===- TuneExplain.cpp - explanation of a tuned policy --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explanation.h"
#include "Tune.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include "mpc/Support/EscapedText.h"

using namespace mpc;
using namespace mpc::tool;

Result<TemporaryPolicy> TemporaryPolicy::write(const Json &policy) {
  llvm::SmallString<128> path;
  int descriptor = -1;
  if (std::error_code error = llvm::sys::fs::createTemporaryFile(
          "mpc-tune", "json", descriptor, path))
    return Status(StatusCode::Unavailable, "temporary folder", error.message());
  TemporaryPolicy made;
  made.file = std::make_unique<TemporaryFile>(path.str().str());
  // In place, so that no other file remains.
  llvm::raw_fd_ostream out(descriptor, /*shouldClose=*/true);
  out << jsonText(policy);
  out.close();
  if (std::error_code error = out.error()) {
    out.clear_error();
    return Status(StatusCode::Unavailable, made.path(), error.message());
  }
  return made;
}

Result<Json> TuneCommand::explain(const TunedPoint &point) {
  Result<TemporaryPolicy> file = TemporaryPolicy::write(policyFile(point));
  if (!file.ok())
    return file.status();
  // The measurements have compiled the same and reported its diagnostics.
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
                int64_t(searched.size()), *explanation,
                space->weightErrors(point.priced.choice, *sensitivity));
  return explanationToJson(*explanation);
}
