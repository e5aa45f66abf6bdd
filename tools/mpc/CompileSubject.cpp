//===- CompileSubject.cpp - compiling a model to run ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FastPath.h"
#include "Inputs.h"
#include "Subject.h"

#include "JIT/LocalCompile.h"

using namespace mpc;
using namespace mpc::tool;

std::vector<Status> tool::compileSubject(const CommonOptions &common,
                                         const std::vector<NamedArray> &arrays,
                                         bool draw, const Device &device,
                                         Reporter &reporter, Subject &subject,
                                         const std::string &training) {
  Result<CompileOptions> options = makeCompileOptions(common, device, reporter);
  if (!options.ok())
    return {options.status()};
  if (Status status = setTraining(training, *options); !status.ok())
    return {status};
  reportFastPath(*options, reporter);
  offerInputs(arrays, *options);
  auto start = Clock::now();
  Result<std::unique_ptr<LocalCompile>> made =
      LocalCompile::create(common.model, *options, device);
  if (!made.ok())
    return {made.status()};
  LocalCompile &compile = **made;
  subject.policy = options->policy;
  subject.isa = compile.target().member().str();
  auto take = [&](LocalCompile::Found found) {
    subject.isCached = true;
    subject.compileMs = millisecondsSince(start);
    subject.executable = std::move(found.executable);
    return bindStored(found.file.arguments(), arrays, draw, common.seed,
                      subject);
  };
  if (std::optional<LocalCompile::Found> found = compile.find())
    return take(std::move(*found));
  if (Status status = compile.import(); !status.ok())
    return {status};
  if (std::optional<LocalCompile::Found> found = compile.findFixed())
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
  return bindStored(compile.arguments(), arrays, draw, common.seed, subject);
}
