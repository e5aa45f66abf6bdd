//===- RunChecks.h - run-time checks of kernels -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_RUNCHECKS_H
#define MPC_LIB_RUNTIME_RUNCHECKS_H

#include "mpc/Runtime/Executable.h"

namespace mpc::detail {

/// Reads and clears the status words of `program.checks` after a run. Fails at
/// the first gather or scatter that read an index out of range; appends results
/// that may be non-finite to `options.nonFinite`.
Status readChecks(const Program &program, int64_t *words,
                  const RunOptions &options = {});

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_RUNCHECKS_H
