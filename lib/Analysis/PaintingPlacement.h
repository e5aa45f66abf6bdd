//===- PaintingPlacement.h - storage by painting ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The other way to choose the storage of free values under mpc's own policies,
// for comparison with the minimum cut.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_PAINTINGPLACEMENT_H
#define MPC_LIB_ANALYSIS_PAINTINGPLACEMENT_H

#include "PlanBuilder.h"

#include "mpc/Analysis/CastPlacement.h"

namespace mpc {

/// A label and why, one sentence without a full stop.
struct PaintedLabel {
  StorageLabel label = StorageLabel::High;
  std::string text;
};

/// Labels every result of an op: colours seed at the ops of class low and flow
/// through the policy's classes. `hard` gives the label that a rule fixes;
/// such a value keeps it, and one that is high stops the colour.
llvm::DenseMap<mlir::Value, PaintedLabel>
paintStorage(PlanBuilder &builder,
             llvm::function_ref<std::optional<StorageLabel>(mlir::Value)> hard);

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_PAINTINGPLACEMENT_H
