//===- ProgramArguments.cpp - arguments of a run --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramArguments.h"

#include <algorithm>
#include <utility>

using namespace mpc;
using namespace mpc::python;

/// Returns true for state that the caller did not pass.
static bool isState(const ProgramValue &value, const NamedBuffers &arguments) {
  return value.isCompilerState() && !arguments.contains(value.name);
}

bool python::hasState(const Program &program, const NamedBuffers &arguments) {
  return std::any_of(
      program.arguments.begin(), program.arguments.end(),
      [&](const ProgramValue &value) { return isState(value, arguments); });
}

/// Returns the initial loss-scale state, on a GPU ordered by its own stream.
static Result<Buffer> firstState(const ProgramValue &value, const Gpu *gpu) {
  Result<Buffer> host = Buffer::fromHost(
      value.type, {static_cast<const std::byte *>(value.initial.get()),
                   size_t(*value.type.byteCount())});
  if (!gpu || !host.ok())
    return host;
  Result<Buffer> made = Buffer::allocateOn(gpu->own(), value.type);
  if (!made.ok())
    return made;
  if (Status status = made->copyFrom(*host, gpu->own()); !status.ok())
    return status;
  // Synchronizes, once, since `host` is freed here.
  if (Status status = gpu->own().synchronize(); !status.ok())
    return status;
  return made;
}

Result<std::vector<Buffer>> python::order(const Executable &executable,
                                          const NamedBuffers &arguments,
                                          NamedBuffers &state, const Gpu *gpu) {
  std::vector<Buffer> ordered;
  for (const ProgramValue &value : executable.program().arguments) {
    if (!isState(value, arguments)) {
      ordered.push_back(arguments.at(value.name));
      continue;
    }
    Buffer &kept = state[value.name];
    if (!kept) {
      Result<Buffer> begun = firstState(value, gpu);
      if (!begun.ok())
        return begun.status();
      kept = std::move(*begun);
    }
    ordered.push_back(kept);
  }
  return ordered;
}

bool python::needsCopy(const Program &program, size_t i,
                       const NamedBuffers &arguments,
                       const std::set<std::string> &donated) {
  const ProgramValue &value = program.results[i];
  if (value.alias < 0)
    return false;
  const ProgramValue &replaced = program.arguments[size_t(value.alias)];
  return !donated.contains(replaced.name) && !isState(replaced, arguments);
}

bool python::isKept(const Program &program, size_t i,
                    const NamedBuffers &arguments) {
  int64_t alias = program.results[i].alias;
  return alias >= 0 && isState(program.arguments[size_t(alias)], arguments);
}

Result<std::vector<Buffer>>
python::orderWithCopies(const Executable &executable,
                        const NamedBuffers &arguments, NamedBuffers &state,
                        const std::set<std::string> &donated, const Gpu *gpu) {
  Result<std::vector<Buffer>> ordered =
      order(executable, arguments, state, gpu);
  if (!ordered.ok())
    return ordered;
  const Program &program = executable.program();
  for (size_t i = 0; i < program.results.size(); ++i) {
    if (!needsCopy(program, i, arguments, donated))
      continue;
    Buffer &argument = (*ordered)[size_t(program.results[i].alias)];
    Result<Buffer> copy = Buffer::fromHost(
        argument.type(), std::as_const(argument).as<std::byte>());
    if (!copy.ok())
      return copy.status();
    argument = std::move(*copy);
  }
  return ordered;
}
