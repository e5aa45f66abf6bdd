//===- FusePrepare.cpp - bring ops to where they fuse ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs before ops are grouped: afterwards none appears or moves.
//
//===----------------------------------------------------------------------===//

#include "FusePrepare.h"
#include "FuseMovement.h"
#include "OpEmitter.h"

#include "mpc/Analysis/Fusibility.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"
#include "mpc/Dialect/Mpc/Transforms/Views.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

/// Whether the cast is of a transpose whose kernel stores one tensor.
static bool widensTranspose(CastOp cast) {
  auto transpose = cast.getInput().getDefiningOp<TransposeOp>();
  return transpose && !keepsLastDimension(transpose);
}

/// Whether a reader of the cast needs the wide value in memory.
static bool isStoredWide(CastOp cast) {
  return llvm::any_of(cast.getResult().getUses(), [](OpOperand &use) {
    return !absorbsCast(use.getOwner(), use.getOperandNumber(), FusionTarget());
  });
}

/// Whether the cast is a transpose's last step that memory keeps: it neither
/// has copies nor is computed again.
static bool isStoredTranspose(CastOp cast) {
  return widensTranspose(cast) && isStoredWide(cast);
}

/// Lets data move in 16 bits: a movement of a widened value becomes the
/// widening of the moved value. In block order, so that casts travel as far as
/// they can.
static void widenAfterMovement(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    // A reverse joins the loop around its cast; alone it has a kernel of its
    // own.
    if (!movesOneOperand(&op) || isa<ReverseOp>(op))
      continue;
    auto cast = op.getOperand(0).getDefiningOp<CastOp>();
    if (!cast || !isWidening(cast) || cast.getPinned())
      continue;
    // Of two casts neither would be the transpose's.
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

/// Brings a narrowing cast back over movement that only it reads, to the op
/// whose kernel can store 16 bits: the movement else keeps them apart.
static void narrowBeforeMovement(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto cast = dyn_cast<CastOp>(op);
    if (!cast || !isNarrowing(cast))
      continue;
    Type to = getElementTypeOrSelf(cast.getResult());
    SmallVector<Operation *> movements;
    Value source = cast.getInput();
    while (Operation *producer = source.getDefiningOp()) {
      if (!source.hasOneUse() || !isa<ReshapeOp, TransposeOp>(producer))
        break;
      movements.push_back(producer);
      source = producer->getOperand(0);
    }
    Operation *producer = source.getDefiningOp();
    if (movements.empty() || !producer || !source.hasOneUse() ||
        isa<ReshapeOp, TransposeOp, CastOp>(producer) ||
        !absorbsResultCast(producer, FusionTarget()))
      continue;
    OpBuilder builder(movements.back());
    movements.back()->setOperand(0, OpEmitter::castLike(builder, cast, source));
    for (Operation *movement : movements) {
      Value result = movement->getResult(0);
      result.setType(mlir::cast<RankedTensorType>(result.getType()).clone(to));
    }
    cast.getResult().replaceAllUsesWith(movements.front()->getResult(0));
    cast.erase();
  }
}

/// Narrows a value before it is handed out in slices where each of them is
/// narrowed: the kernel that makes it stores 16 bits.
static void narrowBeforeSlices(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (op.getNumResults() == 0 || isa<SliceOp, CastOp>(op) ||
        !absorbsResultCast(&op, FusionTarget()))
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

/// Gives each reader of a widening cast its own, so that the wide value needs
/// no memory.
static void repeatWideningCasts(Block &block) {
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

/// Reshapes a program input before the cast that narrows it, so that the kernel
/// that reads the reshape can load the input itself.
static void narrowInputsLast(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto reshape = dyn_cast<ReshapeOp>(op);
    auto cast = reshape ? reshape.getInput().getDefiningOp<CastOp>() : CastOp();
    if (!cast || !isNarrowing(cast) || cast.getPinned() ||
        !isa<BlockArgument>(behindReshapes(cast.getInput())))
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

//===----------------------------------------------------------------------===//
// Arithmetic with several readers
//===----------------------------------------------------------------------===//

/// Ops of one or two instructions, and casts that widen.
static bool isArithmetic(Operation *op) {
  auto cast = dyn_cast<CastOp>(op);
  return isa<AddOp, SubOp, MulOp, NegOp, MaxOp, MinOp>(op) ||
         (cast && isWidening(cast));
}

/// Whether a sum, softmax or product reads `value`, widened or not, so that it
/// has to be in memory.
static bool isStoredAnyway(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    auto cast = dyn_cast<CastOp>(user);
    if (cast && isWidening(cast))
      return isStoredAnyway(cast.getResult());
    return !isElementwise(user) && !isView(user);
  });
}

/// The operand with an element for each of the op's result, where only one has;
/// null else.
static Value onlyFullOperand(Operation *op) {
  Value full;
  int64_t count = elementCount(op->getResult(0));
  for (Value operand : op->getOperands())
    if (elementCount(operand) == count && operand != full) {
      if (full)
        return {};
      full = operand;
    }
  return full;
}

/// Whether `value` takes a few cheap ops to compute from one tensor of its size
/// that is in memory anyway.
static bool isFewSteps(Value value) {
  constexpr int kMostSteps = 4;
  for (int step = 0; step < kMostSteps && !isStoredAnyway(value); ++step) {
    Operation *op = value.getDefiningOp();
    if (!op || !isArithmetic(op))
      return false;
    value = onlyFullOperand(op);
    if (!value)
      return false;
  }
  return isStoredAnyway(value);
}

/// Gives each reader its own copy of arithmetic on a tensor that is in memory
/// anyway, such as the difference from a mean: no more bytes are read than
/// before, and none written. In reverse block order, so that whole chains are
/// repeated.
static void repeatArithmetic(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (!isArithmetic(&op) || elementCount(op.getResult(0)) == 1 ||
        op.getResult(0).hasOneUse())
      continue;
    if (auto cast = dyn_cast<CastOp>(op); cast && isStoredTranspose(cast))
      continue;
    Value full = onlyFullOperand(&op);
    if (!full || !isFewSteps(full))
      continue;
    SmallVector<Operation *> readers;
    for (Operation *user : op.getResult(0).getUsers())
      if (!user->hasTrait<OpTrait::IsTerminator>() &&
          !llvm::is_contained(readers, user))
        readers.push_back(user);
    for (Operation *reader :
         ArrayRef<Operation *>(readers).drop_front(readers.empty() ? 0 : 1))
      reader->replaceUsesOfWith(op.getResult(0),
                                OpBuilder(reader).clone(op)->getResult(0));
  }
}

//===----------------------------------------------------------------------===//
// Movement with several readers
//===----------------------------------------------------------------------===//

/// Whether the cast narrows an argument of the function.
static bool isInputCast(Operation *op) {
  auto cast = dyn_cast<CastOp>(op);
  return cast && isNarrowing(cast) && !cast.getPinned() &&
         isa<BlockArgument>(behindReshapes(cast.getInput()));
}

/// Whether the kernel of the reader loads what `op` makes by loading what `op`
/// reads.
static bool loadsThrough(OpOperand &use, Operation *op) {
  Operation *reader = use.getOwner();
  bool isFirst = use.getOperandNumber() == 0;
  bool keepsRows = keepsLastDimension(op) || isa<CastOp>(op);
  switch (familyOf(reader)) {
  case FusionClass::Elementwise:
    return keepsRows && shapeOf(reader->getResult(0)) == shapeOf(use.get());
  case FusionClass::RowWise:
    return isFirst && (keepsRows || keepsVectors(op));
  case FusionClass::Attention:
    return keepsRows && isa<SliceOp, TransposeOp, CastOp>(op);
  case FusionClass::Contraction:
    return keepsRows || keepsVectors(op);
  case FusionClass::IndexMap:
    // A movement that its reader loads through as well.
    return isa<SliceOp, TransposeOp>(reader) && keepsLastDimension(reader) &&
           reader->hasOneUse() && loadsThrough(*reader->use_begin(), op);
  case FusionClass::Convolution:
    if (isa<ConvFilterGradientOp>(reader))
      return isFirst && isa<CastOp>(op);
    return isa<ConvOp>(reader) && isFirst && (keepsRows || keepsVectors(op));
  default:
    return false;
  }
}

/// Gives each reader of a slice, concat, pad, transpose or cast of an input its
/// own, where all of them load through it and that moves fewer bytes than one
/// kernel would.
static void repeatMovement(Block &block, const TargetInfo &target) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if ((!(isCopiedForReaders(&op) && !isView(&op)) && !isInputCast(&op)) ||
        isPartOfProduct(&op))
      continue;
    if (isStoredByAttention(&op))
      continue;
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : op.getResult(0).getUses())
      uses.push_back(&use);
    if (uses.size() < 2 || !llvm::all_of(uses, [&](OpOperand *use) {
          return loadsThrough(*use, &op);
        }))
      continue;
    Value result = op.getResult(0);
    int64_t made = byteCount(result.getType()), loaded = 0;
    for (Value operand : op.getOperands())
      loaded += std::min(elementCount(operand), elementCount(result)) *
                bytesPerElement(getElementTypeOrSelf(operand));
    // One kernel loads the operands and stores what all readers load; apart,
    // every reader loads the operands.
    auto readers = int64_t(uses.size());
    double bytes = double(loaded + made + readers * made - readers * loaded);
    double bandwidth = target.hasCeilings() ? target.bytesPerSecond() : 1;
    if (bytes / bandwidth + target.launchSeconds() <= 0)
      continue;
    for (OpOperand *use : ArrayRef<OpOperand *>(uses).drop_front())
      use->set(OpBuilder(use->getOwner()).clone(op)->getResult(0));
  }
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

/// Gives the checks of gradients their own copy of the scalar arithmetic that
/// they unscale by: the updates, which wait for the checks, read it too, and it
/// would else be a kernel before both.
static void repeatScalarsForChecks(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (!isa<AllFiniteOp, GlobalNormOp>(op))
      continue;
    OpBuilder builder(&op);
    IRMapping copies;
    auto repeat = [&](auto &&self, Value value) -> Value {
      Operation *producer = value.getDefiningOp();
      if (!producer || !isElementwise(producer) || elementCount(value) != 1)
        return value;
      if (Value copy = copies.lookupOrNull(value))
        return copy;
      for (Value operand : producer->getOperands())
        copies.map(operand, self(self, operand));
      return builder.clone(*producer, copies)->getResult(0);
    };
    for (OpOperand &operand : op.getOpOperands())
      if (shapeOf(operand.get()).empty() && !operand.get().hasOneUse())
        operand.set(repeat(repeat, operand.get()));
  }
}

void mpc::prepareFusion(Block &block, const TargetInfo &target) {
  reshapeBeforeUpdates(block);
  widenAfterMovement(block);
  narrowBeforeMovement(block);
  narrowBeforeSlices(block);
  repeatWideningCasts(block);
  repeatArithmetic(block);
  repeatScalarsForChecks(block);
  // Kernels around the CPU's micro-kernels copy their operands instead.
  if (target.kernels().mapsOperands) {
    narrowInputsLast(block);
    repeatMovement(block, target);
    sumMatrices(block);
  }
}
