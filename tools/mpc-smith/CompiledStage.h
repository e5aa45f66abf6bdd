//===- CompiledStage.h - Compiling a model up to a stage --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_SMITH_COMPILEDSTAGE_H
#define MPC_TOOLS_SMITH_COMPILEDSTAGE_H

#include "JIT/Compiler.h"

#include "mpc/Reference/Tensor.h"

#include <memory>
#include <string>
#include <vector>

namespace mpc::smith {

/// A module and its compiler, which owns the context.
struct CompiledStage {
  std::unique_ptr<Compiler> compiler;
  Compiler::Module module;

  mlir::func::FuncOp entry() const { return Compiler::entry(*module); }
};

/// The model in `file` after `stage`. Fails as the compiler does.
Result<CompiledStage> lowerTo(const std::string &file,
                              const CompileOptions &options,
                              const std::string &stage);

/// Random arguments of `entry`, from `seed`.
Result<std::vector<reference::Tensor>> drawArguments(mlir::func::FuncOp entry,
                                                     uint64_t seed);

/// Copies the model in `from` to `to` with its weights (float constants except
/// scalars and splats) perturbed by up to 1/64, from `seed`: resamples
/// roundings that no input affects.
Status perturbWeights(const std::string &from, const std::string &to,
                      uint64_t seed);

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_COMPILEDSTAGE_H
