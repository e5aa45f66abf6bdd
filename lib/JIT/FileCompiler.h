//===- FileCompiler.h - a compile whose result can be kept ------*- C++ -*-===//
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

/// The steps of one compile into a file, target by target. What was said is the
/// options' `onDiagnostic`'s alone.
class FileCompiler {
public:
  /// With `manyTargets` each of them dumps into a folder of its own.
  FileCompiler(const ModelSource &model, const CompileOptions &options,
               bool manyTargets);

  /// What follows is for another set of shapes, with the options' extents of
  /// symbolic dimensions and these. Before the first target none need be named.
  void specialise(const std::map<std::string, int64_t> &dims);

  /// Reads the model for `target`; finish() does the rest.
  Status import(const TargetInfo &target);
  Status finish();
  /// In place of finish(): the program for this process, which is in no file.
  Result<std::shared_ptr<Program>> finishInMemory(bool withCode);
  /// import() and finish().
  Status add(const TargetInfo &target);

  /// Between import() and finish(): the model's function.
  mlir::func::FuncOp entry() { return Compiler::entry(*module); }
  /// Behind import(): see Compiler::fixedInputs().
  const std::vector<std::string> &fixedInputs() const {
    return compiler->fixedInputs();
  }
  /// Behind finish() or finishInMemory(): what the program takes.
  const std::vector<StoredValue> &arguments() const {
    return current().arguments;
  }
  /// Behind finish() or finishInMemory(): the planned model, and what made it.
  mlir::ModuleOp planned() { return *module; }
  Compiler &lastCompiler() { return *compiler; }
  /// The last target's program and what is stored beside it.
  Program &program() { return current().programs.back().program; }
  const std::vector<std::byte> &object() const { return code.back(); }

  /// The file of all targets that were finished.
  Result<std::vector<std::byte>> encode();

private:
  container::StoredSpecialisation &current() {
    return contents.specialisations.back();
  }
  const container::StoredSpecialisation &current() const {
    return contents.specialisations.back();
  }
  void describeSums();
  /// All stages up to plan.
  Status plan();
  Result<std::shared_ptr<Program>> generate(bool withCode);

  const ModelSource model;
  CompileOptions options;
  const std::map<std::string, int64_t> dims;
  const std::string dumpDir;
  const bool manyTargets;
  container::Contents contents;
  /// What the contents' spans refer to.
  std::vector<std::vector<std::byte>> code;

  // The target that is being compiled.
  std::unique_ptr<Compiler> compiler;
  Compiler::Module module;
  llvm::SmallVector<int64_t> bounds;
};

} // namespace mpc

#endif // MPC_LIB_JIT_FILECOMPILER_H
