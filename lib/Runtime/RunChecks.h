//===- RunChecks.h - what kernels found while they ran ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_RUNCHECKS_H
#define MPC_LIB_RUNTIME_RUNCHECKS_H

#include "mpc/Runtime/Executable.h"

namespace mpc::detail {

/// Reads the words of `program.checks` after a run and clears them. Fails at
/// the first gather or scatter that read an index out of range; appends to
/// `options.nonFinite` the results that may not be finite.
Status readChecks(const Program &program, int64_t *words,
                  const RunOptions &options = {});

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_RUNCHECKS_H
