//===- HostReduction.h - reductions over ranks ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_COMMUNICATION_HOSTREDUCTION_H
#define MPC_LIB_RUNTIME_COMMUNICATION_HOSTREDUCTION_H

#include "mpc/Runtime/Collective.h"

#include <cstddef>

namespace mpc::detail {

/// Reduces rows of `count` elements, one per rank and contiguous, to one row as
/// specified in Collective.h. `result` overlaps no row. `how` is a valid
/// reduction.
void reduceRows(const Collective &how, const void *rows, size_t count,
                void *result);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_COMMUNICATION_HOSTREDUCTION_H
