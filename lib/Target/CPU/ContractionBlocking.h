//===- ContractionBlocking.h - blocking of contractions ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_CONTRACTIONBLOCKING_H
#define MPC_LIB_TARGET_CPU_CONTRACTIONBLOCKING_H

#include "ContractionShape.h"

#include "mpc/Dialect/Tile/IR/TileOps.h"

#include <optional>

namespace mpc::cpu {

/// Chooses the blocking from the contraction's shapes and types and the
/// target's registers and caches.
tile::BlocksAttr chooseBlocks(const Contraction &contraction);

/// Checks that emitters support `blocks`; reports what they do not.
mlir::LogicalResult checkBlocks(const Contraction &contraction,
                                tile::BlocksAttr blocks);

/// Returns the time, in seconds, saved if a kernel packs the right side of a
/// GEMM for all workers. Otherwise each worker packs it for each group of rows,
/// blocks a long depth in chunks and packs the rows of a transposed left side
/// for each group of panels. nullopt if the GEMM should pack it itself. Uses
/// the target's rates.
std::optional<double> secondsOfPacking(const Contraction &contraction);
/// Returns the time of that kernel, in seconds, for a tensor of `type`.
double secondsToPack(mlir::Type type, const TargetInfo &target);

} // namespace mpc::cpu

#endif // MPC_LIB_TARGET_CPU_CONTRACTIONBLOCKING_H
