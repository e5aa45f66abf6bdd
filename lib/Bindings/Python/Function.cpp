//===- Function.cpp - a model as a function of arrays ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Function.h"

#include "Errors.h"

#include "mpc/JIT/CompileFile.h"

#include <nanobind/stl/string.h>

#include <chrono>
#include <utility>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

//===----------------------------------------------------------------------===//
// Making
//===----------------------------------------------------------------------===//

Function::Function(const Engine &engine, const ModelSource &source,
                   CompileOptions options)
    : options(std::move(options)) {
  {
    nb::gil_scoped_release release;
    declared = valueOf(readInputs(source));
  }
  model = engine.open(source, this->options);
}

/// Whether an argument is none of the caller's: the state of a loss scale that
/// joined the model's step.
static bool beginsByItself(const auto &value) {
  return value.initial && value.role == "loss_scale_state";
}

Function::Function(const Device &device, const std::string &path)
    : device(device) {
  nb::gil_scoped_release release;
  file = valueOf(ExecutableFile::open(path));
  for (const StoredValue &value : file->arguments())
    declared.push_back({value.name, value.type.element, value.type.shape,
                        std::vector<std::string>(value.type.shape.size())});
  // Shapes in which its specialisations differ are the caller's to choose.
  for (const ExecutableFile &other : file->specialisations())
    for (size_t i = 0; i < declared.size(); ++i)
      for (size_t axis = 0; axis < declared[i].shape.size(); ++axis)
        if (other.arguments()[i].type.shape[axis] != declared[i].shape[axis])
          declared[i].shape[axis] = -1;
  for (size_t i = declared.size(); i-- > 0;)
    if (beginsByItself(file->arguments()[i]))
      declared.erase(declared.begin() + ptrdiff_t(i));
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

Function::Call Function::bind(const nb::args &positional,
                              const nb::kwargs &named) {
  const std::string place = model ? model->source().name() : file->model();
  auto wrong = [&](const std::string &text) {
    return StatusError(Status(StatusCode::InvalidArgument, place, text));
  };
  Call call;
  auto take = [&](const std::string &name, nb::handle object) {
    if (call.framework == Framework::NumPy)
      call.framework = frameworkOf(object);
    if (!call.arguments.emplace(name, toBuffer(object, name)).second)
      throw wrong("input '" + name + "' was given twice");
  };
  if (positional.size() > declared.size())
    throw wrong("takes " + std::to_string(declared.size()) + " inputs, not " +
                std::to_string(positional.size()));
  for (size_t i = 0; i < positional.size(); ++i)
    take(declared[i].name, positional[i]);
  for (auto [key, value] : named)
    take(nb::cast<std::string>(key), value);
  for (const ModelInput &input : declared) {
    auto given = call.arguments.find(input.name);
    if (given == call.arguments.end())
      throw wrong("input '" + input.name + "' was not given");
    const TensorType &type = given->second.type();
    if (input.element && type.element != *input.element)
      throw wrong("input '" + input.name + "' has elements of type " +
                  std::string(elementTypeName(*input.element)) + ", not " +
                  std::string(elementTypeName(type.element)) + "; convert it");
  }
  return call;
}

Result<Executable> Function::executableFor(const NamedBuffers &arguments) {
  if (model) {
    Result<Executable> executable = model->specialise(arguments);
    if (executable.ok())
      remember(*executable);
    return executable;
  }
  ExecutableFile::Shapes shapes;
  std::string key;
  for (const auto &[name, buffer] : arguments) {
    shapes[name] = buffer.type().shape;
    key += name + shapeToString(buffer.type().shape);
  }
  {
    std::lock_guard guard(lock);
    if (auto found = loaded.find(key); found != loaded.end())
      return found->second;
  }
  Result<ExecutableFile> chosen = file->forShapes(shapes);
  if (!chosen.ok())
    return chosen.status();
  // Whoever calls load() has said that he trusts the file.
  Result<Executable> executable = chosen->load(*device, {.trusted = true});
  if (!executable.ok())
    return executable;
  remember(*executable);
  std::lock_guard guard(lock);
  return loaded.emplace(key, *executable).first->second;
}

void Function::remember(const Executable &executable) {
  std::lock_guard guard(lock);
  last = executable;
}

/// Whether it is no argument of the caller's.
static bool isState(const ProgramValue &value, const NamedBuffers &arguments) {
  return beginsByItself(value) && !arguments.contains(value.name);
}

/// The arguments of `executable` in its order. One that a result replaces is
/// copied where it is not `donated`: no call writes into an array of the
/// caller's. Those of `state` are written; what it lacks it gets.
static Result<std::vector<Buffer>>
order(const Executable &executable, const NamedBuffers &arguments,
      NamedBuffers &state, const std::set<std::string> &donated = {}) {
  const Program &program = executable.program();
  std::vector<Buffer> ordered;
  for (const ProgramValue &value : program.arguments) {
    if (!isState(value, arguments)) {
      ordered.push_back(arguments.at(value.name));
      continue;
    }
    Buffer &kept = state[value.name];
    if (!kept) {
      Result<Buffer> begun = Buffer::fromHost(
          value.type, {static_cast<const std::byte *>(value.initial.get()),
                       size_t(*value.type.byteCount())});
      if (!begun.ok())
        return begun.status();
      kept = std::move(*begun);
    }
    ordered.push_back(kept);
  }
  for (const ProgramValue &value : program.results) {
    if (value.alias < 0)
      continue;
    const ProgramValue &replaced = program.arguments[size_t(value.alias)];
    if (donated.contains(replaced.name) || isState(replaced, arguments))
      continue;
    Buffer &argument = ordered[size_t(value.alias)];
    Result<Buffer> copy = Buffer::fromHost(
        argument.type(), std::as_const(argument).as<std::byte>());
    if (!copy.ok())
      return copy.status();
    argument = std::move(*copy);
  }
  return ordered;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

std::vector<Buffer> Function::run(const NamedBuffers &arguments,
                                  const std::set<std::string> &donated) {
  if (options.buckets.empty()) {
    Executable executable = watch->valueOf(executableFor(arguments));
    const Program &program = executable.program();
    std::unique_lock guard(stateLock, std::defer_lock);
    for (const ProgramValue &value : program.arguments)
      if (isState(value, arguments) && !guard.owns_lock())
        guard.lock();
    std::vector<Buffer> ordered =
        valueOf(order(executable, arguments, state, donated));
    std::vector<Buffer> results = valueOf(executable.run(ordered));
    for (size_t i = results.size(); i-- > 0;)
      if (int64_t alias = program.results[i].alias;
          alias >= 0 && isState(program.arguments[size_t(alias)], arguments))
        results.erase(results.begin() + ptrdiff_t(i));
    return results;
  }
  NamedBuffers found = watch->valueOf(model->run(arguments));
  std::vector<Buffer> results;
  // Several have an order, which any program tells: one compile of a size
  // that has no bucket, and none where there is one result.
  if (found.size() > 1 && outputs().empty())
    watch->valueOf(executableFor(arguments));
  if (found.size() == 1)
    results.push_back(std::move(found.begin()->second));
  else
    for (const std::string &name : outputs())
      results.push_back(found.at(name));
  return results;
}

nb::object Function::call(const nb::args &positional, const nb::kwargs &named) {
  Call call = bind(positional, named);
  std::vector<Buffer> results;
  {
    nb::gil_scoped_release release;
    results = run(call.arguments, {});
  }
  watch->issue();
  if (results.size() == 1)
    return toArray(std::move(results.front()), call.framework);
  nb::list arrays;
  for (Buffer &result : results)
    arrays.append(toArray(std::move(result), call.framework));
  return nb::tuple(arrays);
}

std::vector<SharedResult>
Function::callInPlace(const std::set<std::string> &donated,
                      const nb::args &positional) {
  Call call = bind(positional, {});
  std::vector<SharedResult> results;
  {
    nb::gil_scoped_release release;
    for (Buffer &result : run(call.arguments, donated))
      results.push_back({std::make_shared<Buffer>(std::move(result))});
  }
  watch->issue();
  return results;
}

void Function::prepare(const nb::args &positional, const nb::kwargs &named) {
  Call call = bind(positional, named);
  {
    nb::gil_scoped_release release;
    watch->valueOf(executableFor(call.arguments));
  }
  watch->issue();
}

std::vector<double> Function::time(double seconds, const nb::args &positional,
                                   const nb::kwargs &named) {
  using Clock = std::chrono::steady_clock;
  Call call = bind(positional, named);
  nb::gil_scoped_release release;
  Executable executable = watch->valueOf(executableFor(call.arguments));
  // What is timed moves no loss scale.
  NamedBuffers begun;
  std::vector<Buffer> ordered =
      valueOf(order(executable, call.arguments, begun));
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

void Function::save(const std::string &path,
                    const std::vector<std::string> &targets,
                    const std::vector<std::map<std::string, int64_t>> &sets) {
  if (!model)
    throw StatusError(Status(StatusCode::InvalidArgument, file->model(),
                             "was loaded from a file; copy that file"));
  {
    nb::gil_scoped_release release;
    CompileOptions choices = options;
    choices.specialisations = sets;
    watch->valueOf(compileToFile(model->source(), path, targets, choices));
  }
  watch->issue();
}

//===----------------------------------------------------------------------===//
// Questions
//===----------------------------------------------------------------------===//

std::vector<std::string> Function::outputs() {
  std::vector<std::string> names;
  auto add = [&](const auto &results, const auto &arguments) {
    for (const auto &value : results) {
      bool given = value.alias < 0;
      for (const ModelInput &input : declared)
        given |= !given && input.name == arguments[size_t(value.alias)].name;
      if (given)
        names.push_back(value.name);
    }
  };
  std::lock_guard guard(lock);
  if (last)
    add(last->program().results, last->program().arguments);
  else if (file)
    add(file->results(), file->arguments());
  return names;
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

SpecialisationCounts Function::counts() const {
  return model ? model->counts() : SpecialisationCounts{};
}
