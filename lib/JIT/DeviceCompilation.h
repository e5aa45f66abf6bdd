//===- DeviceCompilation.h - compile for this process -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_DEVICECOMPILATION_H
#define MPC_LIB_JIT_DEVICECOMPILATION_H

#include "CompileCache.h"
#include "FileCompiler.h"
#include "SpecializationTable.h"

#include "mpc/Runtime/Executable.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mpc {

/// One compile of a model for a device of this process, through the on-disk
/// compile cache for CPUs: call find() first, and on a miss import(),
/// findFixed() and finish().
class DeviceCompilation {
public:
  /// Fails if the options' target, which is the device's, does not exist.
  static Result<std::unique_ptr<DeviceCompilation>>
  create(const ModelSource &model, const CompileOptions &options,
         Device device);

  /// An executable and the file it was loaded from.
  struct Found {
    Executable executable;
    ExecutableFile file;
  };
  /// Looks up an equal compile and replays its diagnostics. Creates no context
  /// and runs no stage.
  std::optional<Found> find();

  Status import();
  /// After import(): find() for a model some of whose inputs became constants;
  /// nothing if none did.
  std::optional<Found> findFixed();
  /// After import(): the inputs that became constants.
  std::set<std::string> fixedInputs() const {
    return {compiler->fixedInputs().begin(), compiler->fixedInputs().end()};
  }
  /// After import(): the model's function.
  mlir::func::FuncOp entry() { return compiler->entry(); }
  /// Compiles the rest and caches the result.
  Result<Executable> finish();

  /// After finish(): the executable's arguments.
  const std::vector<ProgramValue> &arguments() const {
    return compiler->arguments();
  }

  const TargetInfo &target() const { return info; }

private:
  DeviceCompilation(const ModelSource &model, const CompileOptions &options,
                    Device device, const TargetInfo &target);
  void keep();
  std::optional<Found> load(std::optional<CachedCompile> kept);

  const ModelSource model;
  CompileOptions options;
  Device device;
  const TargetInfo info;
  /// Null if caching is disabled.
  std::optional<CompileCache> cache;
  std::vector<Diagnostic> messages;
  std::optional<FileCompiler> compiler;
};

/// All steps: returns an executable for `device` (whose architecture, if it has
/// one, is the target), cached or compiled, and the inputs that became
/// constants.
Result<detail::SpecializationTable::Made>
compileForDevice(const ModelSource &model, CompileOptions options,
                 const Device &device);

} // namespace mpc

#endif // MPC_LIB_JIT_DEVICECOMPILATION_H
