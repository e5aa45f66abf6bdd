//===- LocalCompile.h - a compile for a device of this process --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_LOCALCOMPILE_H
#define MPC_LIB_JIT_LOCALCOMPILE_H

#include "CompileCache.h"
#include "FileCompiler.h"
#include "Specialisations.h"

#include "mpc/Runtime/Executable.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mpc {

/// One compile of a model for a device that runs it in this process. For a CPU
/// an equal compile of any process is found again: find() first, and where it
/// finds nothing import(), findFixed() and finish().
class LocalCompile {
public:
  /// Fails where the options' target, which is the device's, does not exist.
  static Result<std::unique_ptr<LocalCompile>>
  create(const ModelSource &model, const CompileOptions &options,
         Device device);

  /// An executable and the file that it was loaded from.
  struct Found {
    Executable executable;
    ExecutableFile file;
  };
  /// What was kept of an equal compile, with all that was said. Makes no
  /// context and runs no stage.
  std::optional<Found> find();

  Status import();
  /// Behind import(): find() for a model some of whose inputs became constants;
  /// nothing where none did.
  std::optional<Found> findFixed();
  /// Behind import(): the inputs that became constants.
  std::set<std::string> fixedInputs() const {
    return {compiler->fixedInputs().begin(), compiler->fixedInputs().end()};
  }
  /// Behind import(): the model's function.
  mlir::func::FuncOp entry() { return compiler->entry(); }
  /// Compiles the rest and keeps the result.
  Result<Executable> finish();

  /// Behind finish(): what the executable takes.
  const std::vector<StoredValue> &arguments() const {
    return compiler->arguments();
  }

  const TargetInfo &target() const { return info; }

private:
  LocalCompile(const ModelSource &model, const CompileOptions &options,
               Device device, const TargetInfo &target);
  void keep();
  std::optional<Found> load(std::optional<KeptCompile> kept);

  const ModelSource model;
  CompileOptions options;
  Device device;
  const TargetInfo info;
  /// Only where this is set may the result be kept.
  std::optional<CompileCache> cache;
  std::vector<Diagnostic> messages;
  std::optional<FileCompiler> compiler;
};

/// The whole of it: an executable for `device` (whose architecture is the
/// target, where it has one), kept or made, and the inputs that became
/// constants.
Result<detail::Specialisations::Made> compileLocally(const ModelSource &model,
                                                     CompileOptions options,
                                                     const Device &device);

} // namespace mpc

#endif // MPC_LIB_JIT_LOCALCOMPILE_H
