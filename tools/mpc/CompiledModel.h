//===- CompiledModel.h - .mpcx files as models ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Handling of .mpcx files in sub-commands. Uses neither LLVM nor MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_COMPILEDMODEL_H
#define MPC_TOOLS_MPC_COMPILEDMODEL_H

#include "NamedArrays.h"
#include "Options.h"

#include "mpc/Runtime/ExecutableFile.h"

#include <string>
#include <vector>

namespace mpc::tool {

/// Returns true if MODEL is an .mpcx file.
bool isStoredModel(const std::string &path);

/// Returns the error for a flag that only applies at compile time.
Status rejectForCompiledModel(const CommonOptions &options,
                              const std::string &flag);

/// Opens the file of MODEL and selects the specialization for --dim and
/// `arrays`, which are bound by name or as arg0, arg1, .... Fails if a flag
/// contradicts the compiled file.
Result<ExecutableFile> openStoredModel(const CommonOptions &options,
                                       const std::vector<NamedArray> &arrays);

/// Loads the executable of an opened file. Its code is trusted: a file on the
/// command line is meant to be run.
Result<Executable> loadStoredModel(const ExecutableFile &file,
                                   const CommonOptions &options, Device device);

/// Returns random arrays for `values` by seed: floats standard normal, integers
/// below their bound (0 or 1 if they have none), fair booleans. State of a
/// training step has its initial value.
Result<std::vector<Buffer>> drawValues(std::span<const ProgramValue> values,
                                       uint64_t seed);

/// Returns the instruction-set level of an executable's code: "avx512".
std::string levelOf(const Executable &executable);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_COMPILEDMODEL_H
