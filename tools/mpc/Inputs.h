//===- Inputs.h - input data of a model -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_INPUTS_H
#define MPC_TOOLS_MPC_INPUTS_H

#include "NamedArrays.h"
#include "Options.h"

#include "mpc/JIT/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mpc::tool {

/// Passes the shapes of `arrays` to the importer, so that symbolic dimensions
/// need no --dim, and their values, for inputs that determine shapes. A shape
/// that --shape gives stays: binding the array reports the difference.
void passInputShapes(const std::vector<NamedArray> &arrays,
                     CompileOptions &options);
/// The same for the files of --input, for commands that run nothing.
Status passInputShapes(const CommonOptions &common, CompileOptions &options);

/// Return names and types of a function's arguments or results.
std::vector<ProgramValue> argumentsOf(mlir::func::FuncOp function);
std::vector<ProgramValue> resultsOf(mlir::func::FuncOp function);

/// Returns random inputs of `function` by seed: floats standard normal,
/// integers in the range that consumers allow (the extent that a gather
/// indexes, the classes of a one-hot; else 0 or 1), fair booleans. Arguments
/// with an mpc.initial have that value.
Result<std::vector<Buffer>> drawInputs(mlir::func::FuncOp function,
                                       uint64_t seed);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_INPUTS_H
