//===- MoveCasts.cpp - place casts to minimize traffic -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves casts across data movement to the side on which the f32 value need not
// be stored, and gives each reader its own upcast.
//
//===----------------------------------------------------------------------===//

#include "PrepareFusion.h"

#include "OpEmitter.h"

#include "mpc/Analysis/CastFusion.h"
#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/GatedMatmulColumns.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;

/// Returns true if the cast reads a transpose whose kernel stores one tensor.
static bool widensTranspose(CastOp cast) {
  auto transpose = cast.getInput().getDefiningOp<TransposeOp>();
  return transpose && !keepsLastDimension(transpose);
}

bool mpc::isStoredTranspose(CastOp cast) {
  return widensTranspose(cast) && !isWidenedByReaders(cast);
}

void mpc::sinkUpcasts(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    // A reverse fuses into the loop of its cast; alone it needs its own kernel.
    if (!isUnaryMovement(&op) || isa<ReverseOp>(op))
      continue;
    auto cast = op.getOperand(0).getDefiningOp<CastOp>();
    if (!cast || !isWidening(cast) || cast.getPinned())
      continue;
    // With two casts, the transpose could fuse neither.
    if (widensTranspose(cast) && !cast.getResult().hasOneUse())
      continue;
    OpBuilder builder(&op);
    Operation *narrow = builder.clone(op);
    narrow->setOperand(0, cast.getInput());
    auto type = mlir::cast<RankedTensorType>(op.getResult(0).getType());
    narrow->getResult(0).setType(
        type.clone(getElementTypeOrSelf(cast.getInput())));
    op.getResult(0).replaceAllUsesWith(
        OpEmitter::castLike(builder, cast, narrow->getResult(0)));
    op.erase();
  }
}

/// Returns true if `value` is a slice that holds one half of a paired GEMM's
/// columns: its kernel narrows the combined result.
static bool isHalf(Value value) {
  auto slice = value.getDefiningOp<SliceOp>();
  auto blocks =
      slice ? slice.getInput().getDefiningOp<ReshapeOp>() : ReshapeOp();
  return blocks && GatedMatmulColumns::of(blocks.getInput().getDefiningOp());
}

/// Returns true if `op` iterates over time steps, forward or backward.
static bool isRecurrence(Operation *op) {
  return op && fusionClassOf(op) == FusionClass::Recurrent &&
         !op->hasTrait<Composite>();
}

/// Returns true if the producer's kernel can store `value` in low precision for
/// free. For a recurrent layer: the states of all steps (not the final ones)
/// and the gradients of all gates.
static bool isStoredNarrow(Value value) {
  Operation *producer = value.getDefiningOp();
  return isRecurrence(producer) ? value == producer->getResult(0)
                                : fusesResultCast(producer, CastFusionTarget());
}

/// Returns true if `op` zero-pads the states of a recurrent layer for the next
/// GEMM.
static bool padsStates(Operation *op) {
  auto pad = dyn_cast<PadOp>(op);
  auto fill =
      pad ? pad.getValue().getDefiningOp<mpc::ConstantOp>() : mpc::ConstantOp();
  return fill && splatValue(fill.getValue()) == 0.0 &&
         isRecurrence(pad.getInput().getDefiningOp());
}

void mpc::hoistDowncasts(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto cast = dyn_cast<CastOp>(op);
    if (!cast || !isNarrowing(cast))
      continue;
    Type to = getElementTypeOrSelf(cast.getResult());
    SmallVector<Operation *> movements;
    Value source = cast.getInput();
    while (Operation *producer = source.getDefiningOp()) {
      if (!source.hasOneUse() ||
          !(isa<ReshapeOp, TransposeOp>(producer) || padsStates(producer)))
        break;
      movements.push_back(producer);
      source = producer->getOperand(0);
    }
    Operation *producer = source.getDefiningOp();
    if (movements.empty() || !producer || !source.hasOneUse() ||
        isa<ReshapeOp, TransposeOp, CastOp>(producer) || isHalf(source) ||
        !isStoredNarrow(source))
      continue;
    OpBuilder builder(movements.back());
    movements.back()->setOperand(0, OpEmitter::castLike(builder, cast, source));
    for (Operation *movement : movements) {
      Value result = movement->getResult(0);
      result.setType(mlir::cast<RankedTensorType>(result.getType()).clone(to));
      if (isa<PadOp>(movement))
        movement->setOperand(1, OpEmitter(builder, movement).splat({}, to, 0));
    }
    cast.getResult().replaceAllUsesWith(movements.front()->getResult(0));
    cast.erase();
  }
}

void mpc::hoistDowncastsAboveSlices(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (op.getNumResults() == 0 || isa<SliceOp, CastOp>(op) ||
        !fusesResultCast(&op, CastFusionTarget()))
      continue;
    Value value = op.getResult(0);
    Type to;
    bool fits = !value.use_empty() && !value.hasOneUse();
    for (Operation *user : value.getUsers()) {
      auto cast = isa<SliceOp>(user) && user->hasOneUse()
                      ? dyn_cast<CastOp>(*user->user_begin())
                      : CastOp();
      fits &= cast && isNarrowing(cast) &&
              (!to || to == getElementTypeOrSelf(cast.getType()));
      if (!fits)
        break;
      to = getElementTypeOrSelf(cast.getType());
    }
    if (!fits)
      continue;
    SmallVector<Operation *> slices(value.getUsers());
    auto first = cast<CastOp>(*slices.front()->user_begin());
    OpBuilder builder(op.getContext());
    builder.setInsertionPointAfter(&op);
    Value narrow = OpEmitter::castLike(builder, first, value);
    for (Operation *slice : slices) {
      auto old = cast<CastOp>(*slice->user_begin());
      slice->setOperand(0, narrow);
      slice->getResult(0).setType(old.getType());
      old.getResult().replaceAllUsesWith(slice->getResult(0));
      old.erase();
    }
  }
}

void mpc::rematerializeUpcasts(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto cast = dyn_cast<CastOp>(op);
    if (!cast || !isWidening(cast) || isStoredTranspose(cast))
      continue;
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : cast.getResult().getUses())
      uses.push_back(&use);
    DenseMap<Operation *, Value> copies;
    for (OpOperand *use :
         ArrayRef<OpOperand *>(uses).drop_front(uses.empty() ? 0 : 1)) {
      if (use->getOwner() == uses.front()->getOwner())
        continue;
      Value &copy = copies[use->getOwner()];
      if (!copy)
        copy = OpBuilder(use->getOwner()).clone(*cast)->getResult(0);
      use->set(copy);
    }
  }
}

void mpc::sinkInputCasts(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto reshape = dyn_cast<ReshapeOp>(op);
    auto cast = reshape ? reshape.getInput().getDefiningOp<CastOp>() : CastOp();
    if (!cast || !isNarrowing(cast) || cast.getPinned() ||
        !isa<BlockArgument>(sourceOfReshapes(cast.getInput())))
      continue;
    OpBuilder builder(&op);
    Operation *wide = builder.clone(op);
    wide->setOperand(0, cast.getInput());
    wide->getResult(0).setType(
        reshape.getType().clone(getElementTypeOrSelf(cast.getInput())));
    reshape.getResult().replaceAllUsesWith(
        OpEmitter::castLike(builder, cast, wide->getResult(0)));
    reshape.erase();
  }
}
