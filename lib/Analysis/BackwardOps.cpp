//===- BackwardOps.cpp - ops of the backward pass -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/BackwardOps.h"

#include "PlanBuilder.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"

using namespace mlir;
using namespace mpc;

llvm::DenseSet<Operation *> mpc::findBackward(func::FuncOp func) {
  llvm::DenseSet<Operation *> found;
  // Seeds times constants, and values that depend on them.
  llvm::DenseSet<Value> scales, gradients;
  for (Operation &op : func.getBody().front()) {
    auto isScale = [&](Value value) { return scales.contains(value); };
    auto division = dyn_cast<DivOp>(op);
    if (isa<GradientSeedOp>(op) || op.hasAttr(kSeedAttr)) {
      scales.insert(op.getResult(0));
      continue;
    }
    if (isBookkeepingOp(&op) || (division && isScale(division.getRhs())) ||
        llvm::none_of(op.getOperands(), [&](Value value) {
          return isScale(value) || gradients.contains(value);
        }))
      continue;
    found.insert(&op);
    bool isScaled = llvm::all_of(op.getOperands(), [&](Value value) {
      return isScale(value) || value.getDefiningOp<ConstantOp>();
    });
    (isScaled ? scales : gradients).insert_range(op.getResults());
  }
  return found;
}
