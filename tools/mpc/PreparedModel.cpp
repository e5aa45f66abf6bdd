//===- PreparedModel.cpp - a model ready to run ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PreparedModel.h"

#include "CompiledModel.h"

using namespace mpc;
using namespace mpc::tool;

double tool::millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

Json PreparedModel::bitClass() const {
  std::string_view name = bitClassOf(executable->program().target);
  return name.empty() ? Json() : Json(name);
}

std::vector<Status>
tool::bindCompiledInputs(std::span<const ProgramValue> wanted,
                         const std::vector<NamedArray> &arrays, bool draw,
                         uint64_t seed, PreparedModel &subject) {
  if (!draw || !arrays.empty())
    return bindArrays(arrays, subject.executable->program().arguments, "arg",
                      subject.inputs);
  Result<std::vector<Buffer>> drawn = drawValues(wanted, seed);
  if (!drawn.ok())
    return {drawn.status()};
  subject.inputs = std::move(*drawn);
  return {};
}

static std::vector<Status> loadSubject(const CommonOptions &options,
                                       const std::vector<NamedArray> &arrays,
                                       bool draw, Device device,
                                       PreparedModel &subject) {
  auto start = Clock::now();
  Result<ExecutableFile> file = openStoredModel(options, arrays);
  if (!file.ok())
    return {file.status()};
  Result<Executable> executable =
      loadStoredModel(*file, options, std::move(device));
  if (!executable.ok())
    return {executable.status()};
  subject.compileMs = millisecondsSince(start);
  subject.executable = *executable;
  subject.policy = file->policy();
  subject.isa = levelOf(*executable);
  return bindCompiledInputs(file->arguments(), arrays, draw, options.seed,
                            subject);
}

std::vector<Status> tool::prepareSubject(const CommonOptions &options,
                                         const std::vector<NamedArray> &arrays,
                                         bool draw, Device device,
                                         Reporter &reporter,
                                         PreparedModel &subject,
                                         const std::string &training) {
  if (!isStoredModel(options.model))
    return compileSubject(options, arrays, draw, device, reporter, subject,
                          training);
  if (!training.empty())
    return {rejectForCompiledModel(options, "--training")};
  return loadSubject(options, arrays, draw, std::move(device), subject);
}
