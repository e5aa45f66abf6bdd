//===- Model.cpp - shape-specialized models -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelState.h"

#include "DeviceCompilation.h"

#include "mpc/Runtime/Suggestions.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"

using namespace mpc;
using mpc::detail::SpecializationTable;

std::string Model::State::shapeKey(const NamedBuffers &arguments) const {
  std::string key = std::to_string(number);
  // Length-prefixed, since names may contain any character.
  for (const auto &[name, buffer] : arguments)
    key += " " + std::to_string(name.size()) + " " + name + " " +
           buffer.type().toString();
  return key;
}

std::string Model::State::valueKey(const std::set<std::string> &names,
                                   const NamedBuffers &arguments) const {
  std::string key;
  for (const std::string &name : names) {
    auto given = arguments.find(name);
    if (given == arguments.end()) {
      given = options.inputValues.find(name);
      if (given == options.inputValues.end())
        continue;
    }
    const Buffer &value = given->second;
    // Values in device memory are not visible to the import.
    if (value.onDevice())
      continue;
    auto digest = llvm::BLAKE3::hash<32>(llvm::ArrayRef(
        static_cast<const uint8_t *>(value.data()), value.size()));
    key += " = " + value.type().toString() + " " + llvm::toHex(digest);
  }
  return key;
}

Status Model::State::checkNames(const SpecializationTable::Made &made,
                                const NamedBuffers &arguments) const {
  const Program &program = made.executable.program();
  // A misspelled name is the cause of a missing input, too.
  std::vector<std::string> inputs;
  inputs.reserve(program.arguments.size());
  for (const ProgramValue &value : program.arguments)
    inputs.push_back(value.name);
  for (const auto &[name, buffer] : arguments)
    if (!made.fixed.contains(name) && made.executable.argumentIndex(name) < 0)
      return Status(StatusCode::InvalidArgument, source.name(),
                    "has no input '" + name + "'" + didYouMean(name, inputs));
  for (const ProgramValue &value : program.arguments)
    if (!arguments.contains(value.name) && !value.isCompilerState())
      return Status(StatusCode::InvalidArgument, source.name(),
                    "input '" + value.name + "' (" + value.type.toString() +
                        ") was not given");
  return {};
}

Result<SpecializationTable::Made>
Model::State::compile(const NamedBuffers &arguments) const {
  CompileOptions choices = options;
  for (const auto &[name, buffer] : arguments) {
    choices.inputShapes[name] = buffer.type().shape;
    if (!buffer.onDevice())
      choices.inputValues[name] = buffer;
  }
  return compileForDevice(source, choices, device);
}

Result<Executable> Model::specialise(const NamedBuffers &arguments) const {
  for (const auto &[name, buffer] : arguments)
    if (!buffer)
      return Status(StatusCode::InvalidArgument, state->source.name(),
                    "the buffer for input '" + name + "' is null");
  std::set<std::string> names;
  for (const auto &[name, buffer] : arguments)
    names.insert(name);
  Result<SpecializationTable::Made> made = state->kept->get(
      state->shapeKey(arguments), names,
      [&](const std::set<std::string> &matter) {
        return state->valueKey(matter, arguments);
      },
      [&] { return state->compile(arguments); });
  if (!made.ok())
    return made.status();
  if (Status status = state->checkNames(*made, arguments); !status.ok())
    return status;
  return std::move(made->executable);
}

Result<NamedBuffers> Model::run(const NamedBuffers &arguments,
                                const RunOptions &options) const {
  if (!state->buckets)
    return runExact(arguments, options);
  for (const auto &[name, buffer] : arguments)
    if (!buffer)
      return runExact(arguments, options);
  Result<mpc::detail::BucketPlan> plan =
      state->buckets->plan(state->shapeKey(arguments), arguments);
  if (!plan.ok())
    return plan.status();
  if (plan->isExact())
    return runExact(arguments, options);
  Result<NamedBuffers> padded = plan->pad(arguments, state->source.name());
  if (!padded.ok())
    return padded;
  Result<NamedBuffers> results = runExact(*padded, options);
  return results.ok() ? plan->cut(std::move(*results)) : results;
}

Result<NamedBuffers> Model::runExact(const NamedBuffers &arguments,
                                     const RunOptions &options) const {
  Result<Executable> executable = specialise(arguments);
  if (!executable.ok())
    return executable.status();
  const Program &program = executable->program();
  std::vector<Buffer> ordered;
  ordered.reserve(program.arguments.size());
  for (const ProgramValue &value : program.arguments) {
    if (auto given = arguments.find(value.name); given != arguments.end()) {
      ordered.push_back(given->second);
      continue;
    }
    Result<Buffer> begun = Buffer::fromHost(
        value.type, {static_cast<const std::byte *>(value.initial.get()),
                     size_t(*value.type.byteCount())});
    if (!begun.ok())
      return begun.status();
    ordered.push_back(std::move(*begun));
  }
  Result<std::vector<Buffer>> results = executable->run(ordered, options);
  if (!results.ok())
    return results.status();
  NamedBuffers named;
  for (size_t i = 0; i < results->size(); ++i)
    named[program.results[i].name] = (*results)[i];
  return named;
}

const ModelSource &Model::source() const { return state->source; }

SpecialisationCounts Model::counts() const { return state->kept->counts(); }
