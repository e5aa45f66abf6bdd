//===- NamedArrays.h - input arrays from files ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_NAMEDARRAYS_H
#define MPC_TOOLS_MPC_NAMEDARRAYS_H

#include "mpc/Runtime/Program.h"
#include "mpc/Support/Npy.h"

#include <string>
#include <vector>

namespace mpc::tool {

/// Reads the files of `--input`: `x.npz`, and single arrays `name=x.npy`.
/// `maxMemory` limits their total size in bytes (`--max-memory`); 0: no limit.
Result<std::vector<NamedArray>>
loadArrays(const std::vector<std::string> &arguments, int64_t maxMemory);

/// Returns the arrays for `values`, in order: by name, else by position
/// (`arg0`, `arg1`, ... or, with prefix "out", `out0`). Checks types and
/// shapes, with one error per value. bf16 arrays may be given as bits (uint16)
/// or as exactly representable float32. State of a training step may be omitted
/// and then has its initial value.
std::vector<Status> bindArrays(const std::vector<NamedArray> &arrays,
                               const std::vector<ProgramValue> &values,
                               const std::string &prefix,
                               std::vector<Buffer> &bound);

/// Returns the array of the value with index `index`, or null.
const NamedArray *findArray(const std::vector<NamedArray> &arrays,
                            const std::string &name, const std::string &prefix,
                            size_t index);

/// Returns the array in `arrays` (of `file`) with the expected output of index
/// `index`; fails if it is missing or its shape or kind differs.
Result<const NamedArray *> wantedArray(const std::vector<NamedArray> &arrays,
                                       const ProgramValue &output, size_t index,
                                       const std::string &file);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_NAMEDARRAYS_H
