//===- ExactCheck.h - Bit-exactness check of one graph ----------*- C++ -*-===//
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

/// Compiles the graph `text`, of bit-exact ops, and runs it on random inputs
/// from `seed` at the limits of the formats. The results, and every value
/// stored between two kernels, must equal those of the interpreter's
/// storage-rounding mode bit for bit; under strict rounding, fusion must not
/// change them. Returns an empty string or a description of the mismatch.
std::string exactCheck(const std::string &text, const CompileOptions &options,
                       uint64_t seed);

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_EXACTCHECK_H
