//===- RematerializeOps.cpp - rematerialize cheap ops per reader ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rematerialization: duplicates ops that are cheaper to recompute or reload
// than to store, so that their readers' kernels are independent.
//
//===----------------------------------------------------------------------===//

#include "PrepareFusion.h"

#include "OpEmitter.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/Fusion/Views.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;

/// Ops of one or two instructions, and upcasts.
static bool isArithmetic(Operation *op) {
  auto cast = dyn_cast<CastOp>(op);
  return isa<AddOp, SubOp, MulOp, NegOp, MaxOp, MinOp>(op) ||
         (cast && isWidening(cast));
}

/// Returns true if a reduction, softmax or matmul reads `value`, upcast or not,
/// so that it must be stored.
static bool isStoredAnyway(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    auto cast = dyn_cast<CastOp>(user);
    if (cast && isWidening(cast))
      return isStoredAnyway(cast.getResult());
    return !isElementwise(user) && !isView(user);
  });
}

/// Returns the only operand with as many elements as the result; null if there
/// are several or none.
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

/// Returns true if `value` is computed by a few cheap ops from one tensor of
/// its size that is stored in memory anyway.
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

void mpc::rematerializeArithmetic(Block &block) {
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

/// Returns true if the cast narrows a function argument.
static bool isInputCast(Operation *op) {
  auto cast = dyn_cast<CastOp>(op);
  return cast && isNarrowing(cast) && !cast.getPinned() &&
         isa<BlockArgument>(sourceOfReshapes(cast.getInput()));
}

/// Returns true if the reader's kernel can fuse `op` into its loads.
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
    // Data movement that its reader also fuses into its loads.
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

void mpc::rematerializeMovement(Block &block, const TargetInfo &target) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (!(isCopiedForReaders(&op) && !isView(&op)) && !isInputCast(&op))
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
    // Traffic of one kernel that loads the operands and stores the result for
    // all readers, against each reader loading the operands.
    auto readers = int64_t(uses.size());
    double bytes = double(loaded + made + readers * made - readers * loaded);
    double bandwidth = target.hasCeilings() ? target.bytesPerSecond() : 1;
    if (bytes / bandwidth + target.launchSeconds() <= 0)
      continue;
    for (OpOperand *use : ArrayRef<OpOperand *>(uses).drop_front())
      use->set(OpBuilder(use->getOwner()).clone(op)->getResult(0));
  }
}

void mpc::rematerializeReshapes(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    auto reshape = dyn_cast<ReshapeOp>(op);
    if (!reshape || reshape->use_empty() || reshape->hasOneUse())
      continue;
    // Reductions and matmuls must see that they read the same value.
    llvm::SmallSetVector<Operation *, 4> readers(reshape->user_begin(),
                                                 reshape->user_end());
    Operation *maker = reshape.getInput().getDefiningOp();
    if (!maker || !isElementwise(maker) ||
        !llvm::all_of(readers, [](Operation *reader) {
          return isElementwise(reader) && !isa<CastOp>(reader);
        }))
      continue;
    for (Operation *reader : ArrayRef(readers.getArrayRef()).drop_front())
      reader->replaceUsesOfWith(reshape.getResult(),
                                OpBuilder(reader).clone(op)->getResult(0));
  }
}

/// Returns true if `value` is arithmetic on an argument: no kernel before can
/// share its launch with a copy.
static bool isOfArgument(Value value) {
  while (value && value.getDefiningOp() && isArithmetic(value.getDefiningOp()))
    value = onlyFullOperand(value.getDefiningOp());
  return value && !value.getDefiningOp();
}

/// Returns true if only a transpose of the last dimension reads the result of
/// `reader`, after reshapes and decodings, or `reader` is one.
static bool isTransposed(Operation *reader) {
  while (isa<ReshapeOp, DecodeFloatOp>(reader) && reader->hasOneUse())
    reader = *reader->user_begin();
  return isa<TransposeOp>(reader) && !keepsLastDimension(reader);
}

void mpc::rematerializeQuantization(Block &block, const TargetInfo &target) {
  // Backwards: clones of decodings add uses of their codes.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    auto encode = dyn_cast<EncodeFloatOp>(op);
    if (auto decode = dyn_cast<DecodeFloatOp>(op))
      encode = decode.getInput().getDefiningOp<EncodeFloatOp>();
    if (!encode || encode.getRandom() || op.use_empty() ||
        isOfArgument(encode.getInput()) ||
        double(byteCount(encode.getInput().getType())) >=
            target.launchSeconds() * target.bytesPerSecond())
      continue;
    for (OpOperand &use : llvm::make_early_inc_range(op.getResult(0).getUses()))
      if (!op.getResult(0).hasOneUse() && isTransposed(use.getOwner()))
        use.set(OpBuilder(use.getOwner()).clone(op)->getResult(0));
  }
}

void mpc::rematerializeDequantization(Block &block) {
  // Backwards: clones of weights add uses of their scales.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (!isa<DequantizeOp>(op) || op.use_empty())
      continue;
    SmallVector<OpOperand *> uses(
        llvm::make_pointer_range(op.getResult(0).getUses()));
    for (OpOperand *use : ArrayRef<OpOperand *>(uses).drop_front())
      use->set(OpBuilder(use->getOwner()).clone(op)->getResult(0));
  }
}

void mpc::rematerializeUnscaling(Block &block) {
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
