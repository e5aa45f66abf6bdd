//===- CompileSubject.cpp - compiling a model to run ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Inputs.h"
#include "MatrixUnitReport.h"
#include "PreparedModel.h"

#include "JIT/DeviceCompilation.h"

using namespace mpc;
using namespace mpc::tool;

std::vector<Status> tool::compileSubject(const CommonOptions &common,
                                         const std::vector<NamedArray> &arrays,
                                         bool draw, const Device &device,
                                         Reporter &reporter,
                                         PreparedModel &subject,
                                         const std::string &training) {
  Result<CompileOptions> options = makeCompileOptions(common, device, reporter);
  if (!options.ok())
    return {options.status()};
  if (Status status = setTraining(training, *options); !status.ok())
    return {status};
  reportFastPath(*options, reporter, !common.choosesPolicy);
  passInputShapes(arrays, *options);
  auto start = Clock::now();
  Result<std::unique_ptr<DeviceCompilation>> made =
      DeviceCompilation::create(common.model, *options, device);
  if (!made.ok())
    return {made.status()};
  DeviceCompilation &compile = **made;
  subject.policy = options->policy;
  subject.isa = levelOf(compile.target().name());
  auto take = [&](DeviceCompilation::Found found) {
    subject.isCached = true;
    subject.compileMs = millisecondsSince(start);
    subject.executable = std::move(found.executable);
    return bindCompiledInputs(found.file.arguments(), arrays, draw, common.seed,
                              subject);
  };
  if (std::optional<DeviceCompilation::Found> found = compile.find())
    return take(std::move(*found));
  if (Status status = compile.import(); !status.ok())
    return {status};
  if (std::optional<DeviceCompilation::Found> found = compile.findFixed())
    return take(std::move(*found));
  subject.compileMs = millisecondsSince(start);
  // Check arrays before spending time on a compile; but labels are not inputs
  // of the model: the arguments of a step are known only afterwards.
  bool bindsNow = !options->training && !(draw && arrays.empty());
  if (bindsNow)
    if (std::vector<Status> problems = bindArrays(
            arrays, argumentsOf(compile.entry()), "arg", subject.inputs);
        !problems.empty())
      return problems;
  start = Clock::now();
  Result<Executable> executable = compile.finish();
  if (!executable.ok())
    return {executable.status()};
  subject.compileMs += millisecondsSince(start);
  subject.executable = std::move(*executable);
  // The loss-scale state of a training step has an initial value.
  if (bindsNow &&
      subject.inputs.size() == subject.executable->program().arguments.size())
    return {};
  return bindCompiledInputs(compile.arguments(), arrays, draw, common.seed,
                            subject);
}
