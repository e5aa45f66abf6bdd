//===- Schedules.h - how contractions are cut -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_SCHEDULES_H
#define MPC_LIB_TARGET_CPU_SCHEDULES_H

#include "ContractionShape.h"

#include "mpc/Dialect/Tile/IR/TileOps.h"

namespace mpc {

/// How the contraction is cut, from its shapes and types and from the target's
/// registers and caches.
tile::BlocksAttr chooseBlocks(const Contraction &contraction);

/// Whether emitters can do as `blocks` says; a diagnostic otherwise.
mlir::LogicalResult checkBlocks(const Contraction &contraction,
                                tile::BlocksAttr blocks);

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_SCHEDULES_H
