//===- FusionPredicates.cpp - properties of ops for fusion ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Predicates of the fusion rules on one op, independent of groups.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/CastFusion.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

using namespace mlir;
using namespace mpc;

static constexpr int64_t kVectorBytes = 16;

/// Loading this many elements with scalar loads costs nothing extra if a
/// separate kernel would do so anyway.
static constexpr int64_t kFewElements = 4;

bool mpc::isFreeToRepeat(Operation *op) {
  return isa<CastOp, IotaOp, BroadcastOp, SliceOp>(op);
}

bool mpc::isCopiedForReaders(Operation *op) {
  return isa<SliceOp, ConcatOp, PadOp, TransposeOp>(op);
}

/// Returns the bits by which a cast between floats widens; else 0.
static int64_t widenedBits(CastOp cast) {
  auto from = dyn_cast<FloatType>(getElementTypeOrSelf(cast.getInput()));
  auto to = dyn_cast<FloatType>(getElementTypeOrSelf(cast.getResult()));
  return from && to ? int64_t(to.getWidth()) - int64_t(from.getWidth()) : 0;
}

bool mpc::isWidening(CastOp cast) { return widenedBits(cast) > 0; }
bool mpc::isNarrowing(CastOp cast) { return widenedBits(cast) < 0; }

bool mpc::isWidenedByReaders(CastOp cast) {
  return llvm::all_of(cast.getResult().getUses(), [](OpOperand &use) {
    return fusesOperandCast(use.getOwner(), use.getOperandNumber(),
                            CastFusionTarget());
  });
}

bool mpc::keepsLastDimension(Operation *op) {
  if (std::optional<Access> access = accessOf(op)) {
    if (llvm::any_of(*access, [](AccessDim at) { return at.stride < 0; }))
      return false;
    AccessDim last = access->empty() ? AccessDim() : access->back();
    int64_t rank = shapeOf(op->getResult(0)).size();
    return last.dim < 0 || (last.dim + 1 == rank && last.stride == 1);
  }
  if (auto gather = dyn_cast<GatherOp>(op))
    return gather.getAxis() + 1 < shapeOf(gather.getInput()).size();
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    ArrayRef<int64_t> from = shapeOf(reshape.getInput()), to = shapeOf(reshape);
    return !from.empty() && !to.empty() && from.back() == to.back();
  }
  return isa<IotaOp>(op);
}

bool mpc::hasOddRows(Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  return shape.empty() || shape.back() *
                                  bytesPerElement(getElementTypeOrSelf(value)) %
                                  kVectorBytes !=
                              0;
}

bool mpc::hasShortRows(Value value) {
  return hasOddRows(value) || shapeOf(value).back() <= kFewElements;
}

bool mpc::keepsVectors(Operation *op) {
  if (auto concat = dyn_cast<ConcatOp>(op))
    return concat.getAxis() + 1 < shapeOf(concat.getResult()).size() ||
           llvm::none_of(concat.getInputs(), hasOddRows);
  auto pad = dyn_cast<PadOp>(op);
  if (!pad || pad.getMode() != PadMode::constant || pad.getLow().empty())
    return false;
  auto interior = pad.getInterior();
  return pad.getLow().back() == 0 && pad.getHigh().back() == 0 &&
         (!interior || interior->empty() || interior->back() == 0);
}

bool mpc::isPlainLoop(ArrayRef<Operation *> ops) {
  return llvm::all_of(ops, [](Operation *op) {
    return isElementwise(op) || keepsLastDimension(op);
  });
}

bool mpc::isLastDimensionMoved(ArrayRef<Operation *> ops) {
  return llvm::any_of(ops, [](Operation *op) {
    return isa<TransposeOp>(op) && !keepsLastDimension(op);
  });
}

Value mpc::sourceOfReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  return value;
}

bool mpc::returnsState(OpOperand &use, FunctionOpInterface function) {
  return function && use.getOwner()->hasTrait<OpTrait::IsTerminator>() &&
         function.getResultAttr(use.getOperandNumber(), MpcDialect::kAliasAttr);
}
