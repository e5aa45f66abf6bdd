//===- StoredModel.h - models that are compiled already ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the sub-commands do with an .mpcx file. Sees neither LLVM nor MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_STOREDMODEL_H
#define MPC_TOOLS_MPC_STOREDMODEL_H

#include "Arrays.h"
#include "Options.h"

#include "mpc/Runtime/ExecutableFile.h"

#include <string>
#include <vector>

namespace mpc::tool {

/// Whether MODEL names an .mpcx file.
bool isStoredModel(const std::string &path);

/// The refusal of a flag that contradicts what was fixed when the file was
/// compiled.
Status comesTooLate(const CommonOptions &options, const std::string &flag);

/// Opens the file that MODEL names, and of several sets of shapes in it takes
/// the one that --dim and `arrays` ask for, which are bound by name or as arg0,
/// arg1, .... Fails where a flag contradicts what was fixed when it was
/// compiled.
Result<ExecutableFile> openStoredModel(const CommonOptions &options,
                                       const std::vector<NamedArray> &arrays);

/// The executable of an opened file. Its code counts as trusted: who names a
/// file on the command line wants it run.
Result<Executable> loadStoredModel(const ExecutableFile &file,
                                   const CommonOptions &options, Device device);

/// Arrays for `values` by seed: floats standard normal, integers below their
/// bound (0 or 1 where they have none), booleans fair. What a training
/// step keeps is as at the start.
Result<std::vector<Buffer>> drawValues(std::span<const StoredValue> values,
                                       uint64_t seed);

/// The level of an executable's code: "avx512".
std::string levelOf(const Executable &executable);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_STOREDMODEL_H
