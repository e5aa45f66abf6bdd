//===- Lowered.h - a model behind one of its stages -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_SMITH_LOWERED_H
#define MPC_TOOLS_SMITH_LOWERED_H

#include "JIT/Compiler.h"

#include "mpc/Reference/Tensor.h"

#include <memory>
#include <string>
#include <vector>

namespace mpc::smith {

/// A module with its compiler, in whose context it lives.
struct Lowered {
  std::unique_ptr<Compiler> compiler;
  Compiler::Module module;

  mlir::func::FuncOp entry() const { return Compiler::entry(*module); }
};

/// The model in `file` behind `stage`. Fails as the compiler does.
Result<Lowered> lowerTo(const std::string &file, const CompileOptions &options,
                        const std::string &stage);

/// Arguments of `entry`, drawn from `seed`.
Result<std::vector<reference::Tensor>> drawArguments(mlir::func::FuncOp entry,
                                                     uint64_t seed);

/// Writes the model in `from` to `to` with its weights (float constants, no
/// scalars and no fills) changed by up to a part in 64, as `seed` draws it:
/// another draw of the roundings that no input changes.
Status redrawWeights(const std::string &from, const std::string &to,
                     uint64_t seed);

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_LOWERED_H
