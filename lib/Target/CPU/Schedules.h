//===- Schedules.h - how contractions are cut -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_SCHEDULES_H
#define MPC_LIB_TARGET_CPU_SCHEDULES_H

#include "ContractionShape.h"

#include "mpc/Dialect/Tile/IR/TileOps.h"

#include <optional>

namespace mpc {

/// How the contraction is cut, from its shapes and types and from the target's
/// registers and caches.
tile::BlocksAttr chooseBlocks(const Contraction &contraction);

/// Whether emitters can do as `blocks` says; a diagnostic otherwise.
mlir::LogicalResult checkBlocks(const Contraction &contraction,
                                tile::BlocksAttr blocks);

/// What it saves, in seconds, when a kernel packs the right side of a product
/// for all workers: each of them packs it again for each group of rows, goes
/// through a long depth in chunks and gathers the rows of a transposed left
/// side again for each group of panels. Nothing where the product had better
/// pack it itself. Rates are the target's facts.
std::optional<double> secondsOfPacking(const Contraction &contraction);
/// What that kernel takes, for a tensor of `type`.
double secondsToPack(mlir::Type type, const TargetInfo &target);

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_SCHEDULES_H
