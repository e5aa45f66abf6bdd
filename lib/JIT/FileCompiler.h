//===- FileCompiler.h - compilation to an executable file -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_FILECOMPILER_H
#define MPC_LIB_JIT_FILECOMPILER_H

#include "Compiler.h"

#include "Runtime/Container/Container.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mpc {

/// Compiles a model into an executable file, one target at a time. Diagnostics
/// go to the options' `onDiagnostic` only.
class FileCompiler {
public:
  /// With `manyTargets` each target dumps into its own folder. `store` holds
  /// the large constants, by default in memory.
  FileCompiler(const ModelSource &model, const CompileOptions &options,
               bool manyTargets, std::shared_ptr<ConstantStore> store = {});

  /// Starts the next specialization, whose symbolic dimensions are the options'
  /// and `dims`. Optional before the first target.
  void specialise(const std::map<std::string, int64_t> &dims);

  /// Imports the model for `target`; finish() completes it.
  Status import(const TargetInfo &target);
  Status finish();
  /// Alternative to finish(): returns the program for this process, which is
  /// not added to the file.
  Result<std::shared_ptr<Program>> finalizeInMemory(bool withCode);
  /// import() and finish().
  Status add(const TargetInfo &target);

  /// Between import() and finish(): the model's function.
  mlir::func::FuncOp entry() { return Compiler::entry(*module); }
  /// After import(): see Compiler::fixedInputs().
  const std::vector<std::string> &fixedInputs() const {
    return compiler->fixedInputs();
  }
  /// After finish() or finalizeInMemory(): the program's arguments.
  const std::vector<ProgramValue> &arguments() const {
    return current().arguments;
  }
  /// After finish() or finalizeInMemory(): the planned module and its compiler.
  mlir::ModuleOp planned() { return *module; }
  Compiler &lastCompiler() { return *compiler; }
  /// Program and object code of the last target.
  Program &program() { return current().programs.back().program; }
  const std::vector<std::byte> &object() const { return code.back(); }

  /// Encodes the file of all finished targets; with `refersToWeights` without
  /// the constants that the store persists.
  Result<std::vector<std::byte>> encode(bool refersToWeights = false);

private:
  container::StoredSpecialisation &current() {
    return contents.specialisations.back();
  }
  const container::StoredSpecialisation &current() const {
    return contents.specialisations.back();
  }
  void describeAccumulation();
  /// Runs all stages up to plan.
  Status plan();
  Result<std::shared_ptr<Program>> generate(bool withCode);

  const ModelSource model;
  CompileOptions options;
  const std::map<std::string, int64_t> dims;
  const std::string dumpDir;
  const bool manyTargets;
  const std::shared_ptr<ConstantStore> store;
  container::Contents contents;
  /// Storage of the contents' spans.
  std::vector<std::vector<std::byte>> code;

  // State of the target that is being compiled.
  std::unique_ptr<Compiler> compiler;
  Compiler::Module module;
  llvm::SmallVector<int64_t> bounds;
};

} // namespace mpc

#endif // MPC_LIB_JIT_FILECOMPILER_H
