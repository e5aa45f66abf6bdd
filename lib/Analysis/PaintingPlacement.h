//===- PaintingPlacement.h - storage types by color propagation -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Alternative to the minimum cut for the storage types of free values under
// mpc's own policies, for comparison.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_PAINTINGPLACEMENT_H
#define MPC_LIB_ANALYSIS_PAINTINGPLACEMENT_H

#include "PlanBuilder.h"

#include "mpc/Analysis/CastPlacement.h"

namespace mpc {

/// A label and its reason, one sentence without a final period.
struct PaintedLabel {
  StorageLabel label = StorageLabel::High;
  std::string text;
};

/// Labels every result of an op: colors start at the ops of class low and
/// propagate through the policy's classes. `hard` gives the label fixed by a
/// rule; such a value keeps it, and a high one blocks the color.
llvm::DenseMap<mlir::Value, PaintedLabel>
paintStorage(PlanBuilder &builder,
             llvm::function_ref<std::optional<StorageLabel>(mlir::Value)> hard);

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_PAINTINGPLACEMENT_H
