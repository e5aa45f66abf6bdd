//===- ExplainSubject.cpp - explanation of a model that runs --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompiledModel.h"
#include "Explanation.h"
#include "Inputs.h"
#include "PreparedModel.h"

using namespace mpc;
using namespace mpc::tool;

Result<Json> tool::explainSubject(const CommonOptions &common,
                                  const std::vector<NamedArray> &arrays,
                                  const Device &device,
                                  const std::string &training) {
  if (isStoredModel(common.model))
    return Json();
  // The compile for execution has reported all diagnostics.
  Reporter silent(/*json=*/false, /*quiet=*/true);
  Result<CompileOptions> options = makeCompileOptions(common, device, silent);
  if (!options.ok())
    return options.status();
  if (Status status = setTraining(training, *options); !status.ok())
    return status;
  passInputShapes(arrays, *options);
  options->dumpDir.clear();
  Result<Explanation> explanation =
      explainModel({common.model, *options}, silent);
  if (!explanation.ok())
    return explanation.status();
  return explanationToJson(*explanation);
}
