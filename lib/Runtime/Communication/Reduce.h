//===- Reduce.h - sums over ranks -------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_COMMUNICATION_REDUCE_H
#define MPC_LIB_RUNTIME_COMMUNICATION_REDUCE_H

#include "mpc/Runtime/Collective.h"

#include <cstddef>

namespace mpc::detail {

/// Reduces rows of `count` elements, one of each rank and one behind the other,
/// to one row as Collective.h says. `result` overlaps no row. `how` is sound
/// and reduces.
void reduceRows(const Collective &how, const void *rows, size_t count,
                void *result);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_COMMUNICATION_REDUCE_H
