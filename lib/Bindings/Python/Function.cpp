//===- Function.cpp - a model as a function of arrays ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Function.h"

#include "Errors.h"
#include "InterpreterLock.h"
#include "ProgramArguments.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

void Function::bindArrays(
    Call &call, const std::vector<std::pair<std::string, nb::object>> &arrays) {
  for (const auto &[name, object] : arrays)
    if (gpu && placeOf(object).onGpu) {
      bindOnGpu(call, frameworkOf(object), arrays);
      return;
    }
  for (const auto &[name, object] : arrays) {
    if (call.framework == Framework::NumPy)
      call.framework = frameworkOf(object);
    call.arguments.emplace(name, toBuffer(object, name));
  }
}

void Function::bindOnGpu(
    Call &call, Framework framework,
    const std::vector<std::pair<std::string, nb::object>> &arrays) {
  call.framework = framework;
  call.stream = gpu->streamOf(framework);
  for (const auto &[name, object] : arrays)
    call.arguments.emplace(
        name, gpu->take(object, name, framework, *call.stream, call.held));
}

Function::Call Function::bind(const nb::args &positional,
                              const nb::kwargs &named) {
  auto wrong = [&](const std::string &text) {
    return StatusError(Status(StatusCode::InvalidArgument, name(), text));
  };
  std::vector<std::pair<std::string, nb::object>> arrays;
  arrays.reserve(positional.size() + named.size());
  auto add = [&](const ModelInput &input, nb::handle value) {
    arrays.emplace_back(input.name,
                        input.element
                            ? convertElements(value, *input.element, input.name)
                            : nb::borrow(value));
  };
  if (positional.size() > declared.size())
    throw wrong("takes " + std::to_string(declared.size()) + " inputs, not " +
                std::to_string(positional.size()));
  for (size_t i = 0; i < positional.size(); ++i)
    add(declared[i], positional[i]);
  for (auto [key, value] : named) {
    auto input = nb::cast<std::string>(key);
    auto found = std::ranges::find(declared, input, &ModelInput::name);
    if (found == declared.end())
      throw wrong("has no input '" + input + "'");
    if (size_t(found - declared.begin()) < positional.size())
      throw wrong("input '" + input + "' was given twice");
    add(*found, value);
  }
  Call call;
  bindArrays(call, arrays);
  for (const ModelInput &input : declared) {
    auto found = call.arguments.find(input.name);
    if (input.isOptional && found != call.arguments.end() &&
        found->second.size() == 0) {
      call.arguments.erase(found);
      found = call.arguments.end();
    }
    if (input.isOptional && found == call.arguments.end())
      continue;
    if (found == call.arguments.end())
      throw wrong("input '" + input.name + "' was not given");
    const TensorType &type = found->second.type();
    if (input.element && type.element != *input.element)
      throw wrong("input '" + input.name + "' has elements of type " +
                  std::string(elementTypeName(*input.element)) + ", not " +
                  std::string(elementTypeName(type.element)) + "; convert it");
  }
  return call;
}

Result<Executable> Function::executableFor(const NamedBuffers &arguments) {
  Result<Executable> executable = find(arguments);
  if (executable.ok()) {
    std::lock_guard guard(lock);
    last = *executable;
  }
  return executable;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

std::vector<Buffer> Function::run(const NamedBuffers &arguments,
                                  const std::set<std::string> &donated) {
  if (!pads()) {
    Executable executable = watch->valueOf(executableFor(arguments));
    const Program &program = executable.program();
    std::unique_lock guard(stateLock, std::defer_lock);
    if (hasState(program, arguments)) {
      guard.lock();
      // Wait for enqueued runs that update the state.
      if (gpu)
        watch->check(gpu->own().synchronize());
    }
    std::vector<Buffer> ordered = valueOf(
        orderWithCopies(executable, arguments, state, donated, gpu.get()));
    std::vector<int64_t> suspects;
    RunOptions options;
    options.nonFinite = &suspects;
    std::vector<Buffer> results = valueOf(executable.run(ordered, options));
    warnOf(findNonFinite(program, ordered, results, suspects));
    for (size_t i = results.size(); i-- > 0;)
      if (isKept(program, i, arguments))
        results.erase(results.begin() + ptrdiff_t(i));
    return results;
  }
  NamedBuffers found = watch->valueOf(runPadded(arguments));
  std::vector<Buffer> results;
  // Several results need an order, which any specialization gives: compile one
  // without padding. A single result needs none.
  if (found.size() > 1 && outputs().empty())
    watch->valueOf(executableFor(arguments));
  if (found.size() == 1)
    results.push_back(std::move(found.begin()->second));
  else
    for (const std::string &name : outputs())
      results.push_back(found.at(name));
  return results;
}

void Function::warnOf(const std::vector<NonFiniteResult> &results) {
  for (const NonFiniteResult &result : results) {
    std::lock_guard guard(lock);
    if (notFinite.insert(result.name).second)
      watch->warn(name() + ": " + result.text());
  }
}

std::vector<GpuResult> Function::enqueue(Call &call,
                                         const std::set<std::string> &donated) {
  std::optional<Executable> executable;
  {
    GilRelease release;
    executable = watch->valueOf(executableFor(call.arguments));
  }
  const Program &program = executable->program();
  const Stream &stream = *call.stream;
  std::vector<GpuResult> made(program.results.size());
  for (size_t i = 0; i < made.size(); ++i)
    if (program.results[i].alias < 0 ||
        needsCopy(program, i, call.arguments, donated))
      made[i] = gpu->allocate(program.results[i].type, call.framework, stream);
  {
    GilRelease release;
    std::unique_lock guard(stateLock, std::defer_lock);
    bool keepsState = hasState(program, call.arguments);
    if (keepsState) {
      guard.lock();
      watch->check(stream.waitFor(gpu->own()));
    }
    std::vector<Buffer> ordered =
        valueOf(order(*executable, call.arguments, state, gpu.get()));
    std::vector<Buffer> results(made.size());
    for (size_t i = 0; i < made.size(); ++i) {
      results[i] = made[i].buffer;
      if (!needsCopy(program, i, call.arguments, donated))
        continue;
      Buffer &argument = ordered[size_t(program.results[i].alias)];
      watch->check(results[i].copyFrom(argument, stream));
      argument = results[i];
    }
    watch->check(executable->runAsync(ordered, results, stream));
    if (keepsState)
      watch->check(gpu->own().waitFor(stream));
    for (size_t i = 0; i < made.size(); ++i)
      made[i].buffer = std::move(results[i]);
    gpu->keep(stream, std::move(call.held));
  }
  for (size_t i = made.size(); i-- > 0;)
    if (isKept(program, i, call.arguments))
      made.erase(made.begin() + ptrdiff_t(i));
  return made;
}

SharedResult Function::share(Buffer buffer, bool onGpu) const {
  return {std::make_shared<Buffer>(std::move(buffer)), onGpu ? gpu : nullptr};
}

nb::object Function::call(const nb::args &positional, const nb::kwargs &named) {
  Call call = bind(positional, named);
  std::vector<nb::object> arrays;
  if (call.stream) {
    for (GpuResult &result : enqueue(call, {}))
      arrays.push_back(
          result.array
              ? std::move(result.array)
              : toArray(share(std::move(result.buffer), true), call.framework));
  } else {
    std::vector<Buffer> results;
    {
      GilRelease release;
      results = run(call.arguments, {});
    }
    for (Buffer &result : results)
      arrays.push_back(toArray(std::move(result), call.framework));
  }
  watch->issue();
  if (arrays.size() == 1)
    return std::move(arrays.front());
  nb::list all;
  for (nb::object &array : arrays)
    all.append(std::move(array));
  return nb::tuple(all);
}

std::vector<SharedResult>
Function::callInPlace(const std::set<std::string> &donated,
                      const nb::args &positional) {
  Call call = bind(positional, {});
  std::vector<SharedResult> results;
  if (call.stream) {
    for (GpuResult &result : enqueue(call, donated))
      results.push_back(share(std::move(result.buffer), true));
  } else {
    GilRelease release;
    for (Buffer &result : run(call.arguments, donated))
      results.push_back(share(std::move(result), false));
  }
  watch->issue();
  return results;
}

void Function::prepare(const nb::args &positional, const nb::kwargs &named) {
  Call call = bind(positional, named);
  {
    GilRelease release;
    watch->valueOf(executableFor(call.arguments));
    if (call.stream)
      gpu->keep(*call.stream, std::move(call.held));
  }
  watch->issue();
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

/// Returns the times of runs in ms, by the GPU's clock.
static std::vector<double> timeOnGpu(const Executable &executable,
                                     std::vector<Buffer> ordered,
                                     const Stream &stream, double seconds) {
  const Program &program = executable.program();
  std::vector<Buffer> results;
  for (const ProgramValue &value : program.results) {
    results.push_back(valueOf(Buffer::allocateOn(stream, value.type)));
    if (value.alias < 0)
      continue;
    Buffer &argument = ordered[size_t(value.alias)];
    if (Status status = results.back().copyFrom(argument, stream); !status.ok())
      throw StatusError(status);
    argument = results.back();
  }
  std::vector<double> found;
  double spent = 0;
  while (found.size() < 3 || spent < seconds * 1e3) {
    std::vector<double> some(10);
    if (Status status = executable.timeRuns(ordered, results, stream, some);
        !status.ok())
      throw StatusError(status);
    for (double one : some)
      spent += one;
    found.insert(found.end(), some.begin(), some.end());
  }
  return found;
}

std::vector<double> Function::time(double seconds, const nb::args &positional,
                                   const nb::kwargs &named) {
  using Clock = std::chrono::steady_clock;
  Call call = bind(positional, named);
  GilRelease release;
  Executable executable = watch->valueOf(executableFor(call.arguments));
  // Timing must not change the loss scale.
  NamedBuffers begun;
  if (call.stream)
    return timeOnGpu(
        executable,
        valueOf(order(executable, call.arguments, begun, gpu.get())),
        *call.stream, seconds);
  std::vector<Buffer> ordered =
      valueOf(orderWithCopies(executable, call.arguments, begun));
  std::vector<Buffer> results = valueOf(executable.run(ordered));
  std::vector<double> found;
  Clock::time_point begin = Clock::now(), before = begin;
  while (found.size() < 3 ||
         std::chrono::duration<double>(before - begin).count() < seconds) {
    if (Status status = executable.runInto(ordered, results); !status.ok())
      throw StatusError(status);
    Clock::time_point now = Clock::now();
    found.push_back(
        std::chrono::duration<double, std::milli>(now - before).count());
    before = now;
  }
  return found;
}

//===----------------------------------------------------------------------===//
// Properties
//===----------------------------------------------------------------------===//

std::vector<std::string> Function::outputs() {
  std::lock_guard guard(lock);
  if (!last)
    return {};
  return given(last->program().results, last->program().arguments);
}

std::vector<std::pair<std::string, std::string>> Function::layers() {
  std::vector<std::pair<std::string, std::string>> found;
  std::lock_guard guard(lock);
  if (last)
    for (const LayerTypes &layer : last->program().layers)
      if (!layer.isFolded())
        found.emplace_back(layer.path, layer.computeType());
  return found;
}

std::vector<std::pair<std::string, std::vector<int64_t>>> Function::shapes() {
  std::vector<std::pair<std::string, std::vector<int64_t>>> found;
  std::lock_guard guard(lock);
  if (last)
    for (const ProgramValue &value : last->program().arguments)
      found.emplace_back(value.name, value.type.shape);
  return found;
}
