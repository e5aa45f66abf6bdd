//===- Arrays.h - data from files -------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_ARRAYS_H
#define MPC_TOOLS_MPC_ARRAYS_H

#include "mpc/Runtime/Program.h"
#include "mpc/Support/Npy.h"

#include <string>
#include <vector>

namespace mpc::tool {

/// Reads what `--input` names: files `x.npz`, and single arrays `name=x.npy`.
/// `maxMemory` is the most bytes of them all (`--max-memory`); 0 is no limit.
Result<std::vector<NamedArray>>
loadArrays(const std::vector<std::string> &arguments, int64_t maxMemory);

/// The arrays that `values` want, in their order: by name, else by position
/// (`arg0`, `arg1`, ... or, with prefix "out", `out0`). Checks types and
/// shapes; one problem per value. A 16-bit brain float may come as its bits
/// (uint16) or as float32 that it holds exactly.
/// What a training step keeps may be left out: it then is as at the start.
std::vector<Status> bindArrays(const std::vector<NamedArray> &arrays,
                               const std::vector<ProgramValue> &values,
                               const std::string &prefix,
                               std::vector<Buffer> &bound);

/// The array of the value numbered `index`, or null.
const NamedArray *findArray(const std::vector<NamedArray> &arrays,
                            const std::string &name, const std::string &prefix,
                            size_t index);

/// The array of `arrays` (of `file`) that says what the output numbered `index`
/// should be; fails where there is none or its shape or kind differ.
Result<const NamedArray *> wantedArray(const std::vector<NamedArray> &arrays,
                                       const ProgramValue &output, size_t index,
                                       const std::string &file);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_ARRAYS_H
