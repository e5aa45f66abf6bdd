//===- Executable.cpp - execution of compiled models ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Executable.h"

#include "DeviceImpl.h"
#include "ResultMemory.h"

#include <algorithm>
#include <utility>

using namespace mpc;

Result<Executable> Executable::create(Device device,
                                      std::shared_ptr<const Program> program) {
  if (!program)
    return Status(StatusCode::InvalidArgument, "executable",
                  "no program was given");
  const std::shared_ptr<detail::DeviceImpl> &impl =
      detail::DeviceAccess::impl(device);
  if (Status status = validate(*program, impl->needsFunctions()); !status.ok())
    return status;
  Result<std::shared_ptr<detail::LoadedProgram>> loaded =
      impl->load(impl, program);
  if (!loaded.ok())
    return loaded.status();
  (*loaded)->results = std::make_shared<detail::ResultMemory>(*program);
  return Executable(std::make_shared<const State>(
      State{std::move(device), std::move(program), std::move(*loaded)}));
}

/// Checks the caller's buffers against the program's declaration.
static Status checkBuffers(const char *what,
                           const std::vector<ProgramValue> &declared,
                           std::span<const Buffer> given) {
  if (declared.size() != given.size())
    return Status(StatusCode::InvalidArgument, what,
                  "the program has " + std::to_string(declared.size()) +
                      ", but " + std::to_string(given.size()) + " were given");
  for (size_t i = 0; i < declared.size(); ++i) {
    if (given[i] && given[i].type() == declared[i].type)
      continue;
    std::string where = std::string(what) + " '" + declared[i].name + "'";
    if (!given[i])
      return Status(StatusCode::InvalidArgument, where, "no buffer was given");
    return Status(StatusCode::InvalidArgument, where,
                  "must be " + declared[i].type.toString() + ", but " +
                      given[i].type().toString() + " was given");
  }
  return {};
}

/// Sets results that alias arguments to those arguments' buffers. Fails if such
/// a buffer is another argument as well.
static Status bindReplaced(const Program &program,
                           std::span<const Buffer> arguments,
                           std::span<Buffer> results) {
  // A wrong number of buffers is reported by the type check.
  if (arguments.size() != program.arguments.size() ||
      results.size() != program.results.size())
    return {};
  bool replacesAny = false;
  for (size_t i = 0; i < results.size(); ++i) {
    int64_t alias = program.results[i].alias;
    if (alias < 0)
      continue;
    replacesAny = true;
    const Buffer &argument = arguments[size_t(alias)];
    if (results[i] && results[i].address() != argument.address())
      return Status(StatusCode::InvalidArgument,
                    "output '" + program.results[i].name + "'",
                    "replaces input '" + program.arguments[size_t(alias)].name +
                        "', but has another buffer; give the buffer of the "
                        "input or a null buffer");
    results[i] = argument;
  }
  if (!replacesAny)
    return {};
  std::vector<std::pair<uintptr_t, size_t>> places;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i] && arguments[i].size())
      places.emplace_back(arguments[i].address(), i);
  std::sort(places.begin(), places.end());
  auto isReplaced = [&](size_t argument) {
    return std::any_of(program.results.begin(), program.results.end(),
                       [&](const ProgramValue &value) {
                         return value.alias == int64_t(argument);
                       });
  };
  for (size_t i = 1; i < places.size(); ++i) {
    auto [before, first] = places[i - 1];
    auto [address, second] = places[i];
    if (address - before < arguments[first].size() &&
        (isReplaced(first) || isReplaced(second)))
      return Status(StatusCode::InvalidArgument,
                    "input '" + program.arguments[second].name + "'",
                    "shares memory with input '" +
                        program.arguments[first].name +
                        "', but the program writes one of them; give them "
                        "separate buffers");
  }
  return {};
}

/// Fails if buffers are in the memory of another device than `device`.
static Status checkBuffers(const char *what,
                           const std::vector<ProgramValue> &declared,
                           std::span<const Buffer> given,
                           const Device &device) {
  for (size_t i = 0; i < given.size(); ++i) {
    const auto &owner = detail::DeviceAccess::owner(given[i]);
    if (owner && owner != detail::DeviceAccess::impl(device))
      return Status(StatusCode::InvalidArgument,
                    std::string(what) + " '" + declared[i].name + "'",
                    "is on another device than '" + device.name() +
                        "', which runs the program");
  }
  return {};
}

Status Executable::check(std::span<const Buffer> arguments,
                         std::span<const Buffer> results) const {
  const Program &program = this->program();
  if (Status status = checkBuffers("input", program.arguments, arguments);
      !status.ok())
    return status;
  if (Status status = checkBuffers("output", program.results, results);
      !status.ok())
    return status;
  if (Status status =
          checkBuffers("input", program.arguments, arguments, state->device);
      !status.ok())
    return status;
  return checkBuffers("output", program.results, results, state->device);
}

Result<std::vector<Buffer>> Executable::run(std::span<const Buffer> arguments,
                                            const RunOptions &options) const {
  std::vector<Buffer> results;
  results.reserve(program().results.size());
  for (const ProgramValue &value : program().results) {
    if (value.alias >= 0) { // set by runInto() to the argument's
      results.emplace_back();
      continue;
    }
    // Kernels write all result elements: no need to clear.
    Result<Buffer> buffer = state->loaded->results->allocate(value.type);
    if (!buffer.ok())
      return buffer.status();
    results.push_back(std::move(*buffer));
  }
  if (Status status = runInto(arguments, results, options); !status.ok())
    return status;
  return results;
}

Status Executable::runInto(std::span<const Buffer> arguments,
                           std::span<Buffer> results,
                           const RunOptions &options) const {
  const Program &program = this->program();
  if (Status status = bindReplaced(program, arguments, results); !status.ok())
    return status;
  if (Status status = check(arguments, results); !status.ok())
    return status;

  if (options.launchMilliseconds)
    options.launchMilliseconds->assign(program.launches.size(), 0);
  if (options.trace)
    *options.trace = {};
  if (options.nonFinite) {
    options.nonFinite->clear();
    // GPU kernels do not check what they store.
    if (!program.target.starts_with("cpu:"))
      for (const RunCheck &check : program.checks)
        if (check.kind == RunCheck::Kind::FiniteResult)
          options.nonFinite->push_back(check.number);
  }
  return state->loaded->run(arguments, results, options);
}

Status Executable::checkOn(std::span<const Buffer> arguments,
                           std::span<const Buffer> results,
                           const Stream &stream) const {
  const Program &program = this->program();
  if (Status status = check(arguments, results); !status.ok())
    return status;
  if (detail::DeviceAccess::impl(stream.device()) !=
      detail::DeviceAccess::impl(state->device))
    return Status(StatusCode::InvalidArgument, program.name,
                  "the stream is on device '" + stream.device().name() +
                      "', but the program is on another: '" +
                      state->device.name() + "'");
  if (!state->device.hasOwnMemory())
    return {};
  auto onDevice = [](const char *what,
                     const std::vector<ProgramValue> &declared,
                     std::span<const Buffer> given) -> Status {
    for (size_t i = 0; i < given.size(); ++i)
      if (!given[i].onDevice())
        return Status(StatusCode::InvalidArgument,
                      std::string(what) + " '" + declared[i].name + "'",
                      "is in host memory, but an asynchronous run needs "
                      "buffers on the device; copy it to the device first");
    return {};
  };
  if (Status status = onDevice("input", program.arguments, arguments);
      !status.ok())
    return status;
  return onDevice("output", program.results, results);
}

Status Executable::runAsync(std::span<const Buffer> arguments,
                            std::span<Buffer> results, const Stream &stream,
                            std::function<void(const Status &)> onDone) const {
  if (Status status = bindReplaced(program(), arguments, results); !status.ok())
    return status;
  if (Status status = checkOn(arguments, results, stream); !status.ok())
    return status;
  detail::StreamImpl &queue = *detail::DeviceAccess::impl(stream);
  if (Status status = state->loaded->enqueue(arguments, results, queue);
      !status.ok())
    return status;
  return onDone ? queue.then(std::move(onDone)) : Status();
}

Status Executable::timeRuns(std::span<const Buffer> arguments,
                            std::span<Buffer> results, const Stream &stream,
                            std::span<double> milliseconds) const {
  RunBuffers only{{arguments.begin(), arguments.end()},
                  {results.begin(), results.end()}};
  Status status = timeRuns(std::span(&only, 1), stream, milliseconds);
  std::copy(only.results.begin(), only.results.end(), results.begin());
  return status;
}

Status Executable::timeRuns(std::span<RunBuffers> sets, const Stream &stream,
                            std::span<double> milliseconds) const {
  if (sets.empty())
    return Status(StatusCode::InvalidArgument, program().name,
                  "no buffers were given for timing");
  for (RunBuffers &set : sets) {
    if (Status status = bindReplaced(program(), set.arguments, set.results);
        !status.ok())
      return status;
    if (Status status = checkOn(set.arguments, set.results, stream);
        !status.ok())
      return status;
  }
  return state->loaded->timeRuns(sets, *detail::DeviceAccess::impl(stream),
                                 milliseconds);
}

static int indexOf(const std::vector<ProgramValue> &values,
                   const std::string &name) {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].name == name)
      return static_cast<int>(i);
  return -1;
}

int Executable::argumentIndex(const std::string &name) const {
  return indexOf(program().arguments, name);
}

int Executable::resultIndex(const std::string &name) const {
  return indexOf(program().results, name);
}
