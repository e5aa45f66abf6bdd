//===- LoadedFunction.cpp - functions loaded from compiled files ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Errors.h"
#include "Function.h"
#include "InterpreterLock.h"

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

LoadedFunction::LoadedFunction(const Device &device, std::shared_ptr<Gpu> gpu,
                               const std::string &path)
    : Function(std::move(gpu), std::make_shared<CompileMonitor>()),
      device(device) {
  GilRelease release;
  file = valueOf(ExecutableFile::open(path));
  for (const ProgramValue &value : file->arguments())
    declared.push_back({value.name, value.type.element, value.type.shape,
                        std::vector<std::string>(value.type.shape.size())});
  // Extents in which its specializations differ are dynamic.
  for (const ExecutableFile &other : file->specialisations())
    for (size_t i = 0; i < declared.size(); ++i)
      for (size_t axis = 0; axis < declared[i].shape.size(); ++axis)
        if (other.arguments()[i].type.shape[axis] != declared[i].shape[axis])
          declared[i].shape[axis] = -1;
  for (size_t i = declared.size(); i-- > 0;)
    if (file->arguments()[i].isCompilerState())
      declared.erase(declared.begin() + ptrdiff_t(i));
}

Result<Executable> LoadedFunction::find(const NamedBuffers &arguments) {
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
  // The caller of load() has declared the file as trusted.
  Result<Executable> executable = chosen->load(device, {.trusted = true});
  if (!executable.ok())
    return executable;
  std::lock_guard guard(lock);
  return loaded.emplace(key, *executable).first->second;
}

std::vector<std::string> LoadedFunction::outputs() {
  std::vector<std::string> names = Function::outputs();
  return names.empty() ? given(file->results(), file->arguments()) : names;
}
