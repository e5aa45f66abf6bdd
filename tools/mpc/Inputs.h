//===- Inputs.h - data for a model ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_INPUTS_H
#define MPC_TOOLS_MPC_INPUTS_H

#include "Npy.h"

#include "mpc/JIT/Options.h"
#include "mpc/Runtime/Program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mpc::tool {

/// Reads what `--input` names: files `x.npz`, and single arrays `name=x.npy`.
Result<std::vector<NamedArray>>
loadArrays(const std::vector<std::string> &arguments);

/// Tells the importer the shapes of `arrays`, so that symbolic dimensions need
/// no
/// --dim.
void addInputShapes(const std::vector<NamedArray> &arrays,
                    CompileOptions &options);

/// The arrays that `values` want, in their order: by name, else by position
/// (`arg0`, `arg1`, ... or, with prefix "out", `out0`). Checks types and
/// shapes; one problem per value. A 16-bit brain float may come as its bits
/// (uint16) or as float32 that it holds exactly.
std::vector<Status> bindArrays(const std::vector<NamedArray> &arrays,
                               const std::vector<ProgramValue> &values,
                               const std::string &prefix,
                               std::vector<Buffer> &bound);

/// The array of the value numbered `index`, or null.
const NamedArray *findArray(const std::vector<NamedArray> &arrays,
                            const std::string &name, const std::string &prefix,
                            size_t index);

/// Names and types of a function's arguments or results.
std::vector<ProgramValue> argumentsOf(mlir::func::FuncOp function);
std::vector<ProgramValue> resultsOf(mlir::func::FuncOp function);

/// Inputs for `function` by seed: floats standard normal, integers inside the
/// range that their consumers allow (the extent that a gather indexes, the
/// classes of a one-hot; else 0 or 1), booleans fair.
Result<std::vector<Buffer>> drawInputs(mlir::func::FuncOp function,
                                       uint64_t seed);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_INPUTS_H
