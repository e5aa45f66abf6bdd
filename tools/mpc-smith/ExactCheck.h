//===- ExactCheck.h - the rounding contract, one graph ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_SMITH_EXACTCHECK_H
#define MPC_TOOLS_SMITH_EXACTCHECK_H

#include "JIT/Compiler.h"

#include <cstdint>
#include <string>

namespace mpc::smith {

/// Compiles the graph `text`, of ops that promise bits, and runs it on inputs
/// drawn from `seed` that reach the ends of the formats. Its results, and every
/// value that lies in memory between two kernels, must be the bits of the
/// interpreter's storage-rounding mode; with strict rounding fusion must change
/// none. An empty string, or what is wrong.
std::string exactCheck(const std::string &text, const CompileOptions &options,
                       uint64_t seed);

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_EXACTCHECK_H
