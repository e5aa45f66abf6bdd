//===- PadContractions.cpp - extents that matrix units want ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Carries out an Analysis/PaddingPlan op by op: operands in the forms that the
// op's axes ask for, masks where padded places would meet a sum, results in
// padded form. Legal because zeros add nothing to a sum of products. Runs after
// mpc-assign-precision, whose types decide the multiples, and before layout.
//
//===----------------------------------------------------------------------===//

#include "OpEmitter.h"
#include "PaddedValues.h"
#include "StaticShapes.h"

#include "mpc/Analysis/Padding.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include <limits>

namespace mpc {
#define GEN_PASS_DEF_PADCONTRACTIONSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

/// One op on its way into padded form.
struct PaddedOp {
  Operation *old;
  SmallVector<OpAxis> axes;
  SmallVector<DimPadding> paddings;
  SmallVector<PaddedForm> operands;

  /// Whether the axis of a role is padded, and how.
  bool pads(AxisRole role, DimPadding &padding) const {
    for (auto [axis, pad] : llvm::zip_equal(axes, paddings))
      if (axis.role == role && pad.isPadded()) {
        padding = pad;
        return true;
      }
    return false;
  }
};

/// Rewrites one function by a plan.
class PlanApplier {
public:
  PlanApplier(const PaddingPlan &plan, MLIRContext *context)
      : plan(plan), values(context) {}

  LogicalResult apply(func::FuncOp func);

  int64_t padded = 0;
  const PaddedValues &getValues() const { return values; }

private:
  LogicalResult applyTo(Operation *op);
  bool padsBehind(Operation *op, const OpAxis &axis) const;
  LogicalResult fetchOperands(OpBuilder &builder, PaddedOp &op);
  void maskSums(OpBuilder &builder, PaddedOp &op);
  FailureOr<PaddedForm> attentionMask(OpBuilder &builder, const PaddedOp &op);
  Operation *build(OpBuilder &builder, const PaddedOp &op);
  void defineResult(const PaddedOp &op, Value result);

  const PaddingPlan &plan;
  PaddedValues values;
  SmallVector<Operation *> replaced;
};

} // namespace

/// The operand of attention that attentionMask makes.
static constexpr unsigned kAttentionMask = 3;

static DimPadding scaled(DimPadding padding, int64_t scale) {
  padding.groups *= scale;
  return padding;
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

LogicalResult PlanApplier::fetchOperands(OpBuilder &builder, PaddedOp &op) {
  for (OpOperand &operand : op.old->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    if (isa<AttentionOp>(op.old) && index == kAttentionMask)
      break;
    SmallVector<DimPadding> dims = plainDims(operand.get());
    for (auto [axis, padding] : llvm::zip_equal(op.axes, op.paddings))
      if (const AxisLink *link = axis.find(/*isResult=*/false, index);
          link && padding.isPadded())
        dims[link->dim] = scaled(padding, link->scale);
    PaddedForm form =
        values.get(operand.get(), dims, paddingValue(op.old, index));
    if (!form.value)
      return op.old->emitOpError() << "has a constant operand " << index
                                   << " without data, which cannot be padded";
    op.operands.push_back(std::move(form));
  }
  if (!isa<AttentionOp>(op.old))
    return success();
  FailureOr<PaddedForm> mask = attentionMask(builder, op);
  if (failed(mask))
    return op.old->emitOpError("has a constant mask without data, which cannot "
                               "be padded");
  if (mask->value)
    op.operands.push_back(std::move(*mask));
  return success();
}

/// A product of two padded places must be zero: one of them is, and the other
/// is finite. Values that attention does not look at must be finite as well.
void PlanApplier::maskSums(OpBuilder &builder, PaddedOp &op) {
  if (!isa<ContractionOpInterface>(op.old))
    return;
  auto zero = [&](const AxisLink &link) {
    PaddedForm &form = op.operands[link.index];
    form = values.hold(builder, op.old->getLoc(), form, link.dim);
  };
  for (auto [axis, padding] : llvm::zip_equal(op.axes, op.paddings)) {
    if (!padding.isPadded() ||
        (axis.role != AxisRole::Depth && axis.role != AxisRole::Keys))
      continue;
    bool hasZero = axis.role == AxisRole::Keys;
    for (const AxisLink &link : axis.links) {
      const LaneState &lanes = op.operands[link.index].lanes[link.dim];
      if (!lanes.isFinite())
        zero(link);
      hasZero |= op.operands[link.index].lanes[link.dim].isZero();
    }
    if (!hasZero)
      zero(axis.links.front());
  }
}

/// The mask under which attention ignores padded keys: false, or minus
/// infinity, at their places, whatever the model's own mask computes there.
FailureOr<PaddedForm> PlanApplier::attentionMask(OpBuilder &builder,
                                                 const PaddedOp &op) {
  auto attention = cast<AttentionOp>(op.old);
  DimPadding keys, rows;
  bool padsKeys = op.pads(AxisRole::Keys, keys),
       padsRows = op.pads(AxisRole::Rows, rows);
  Location loc = attention.getLoc();
  Value mask = attention.getMask();
  if (!mask) {
    if (!padsKeys)
      return PaddedForm();
    Value isOld = ConstantOp::create(
        builder, loc, oldPlaces(builder.getContext(), keys, /*trailing=*/0));
    return PaddedForm{isOld, {keys}, {LaneState::zero()}};
  }

  auto type = cast<RankedTensorType>(mask.getType());
  bool isFloat = isa<FloatType>(type.getElementType());
  SmallVector<DimPadding> dims = plainDims(mask);
  int64_t rank = dims.size();
  bool hasRows = rank > 1 && padsRows && dims[rank - 2].oldExtent() != 1,
       hasKeys = rank > 0 && padsKeys && dims[rank - 1].oldExtent() != 1;
  if (hasRows)
    dims[rank - 2] = rows;
  if (hasKeys)
    dims[rank - 1] = keys;
  // False hides; so does minus infinity, but not in the rows that are cut off,
  // which must stay finite.
  double hidden = isFloat ? -std::numeric_limits<double>::infinity() : 0;
  PaddedForm form = values.get(mask, dims, hasRows ? 0 : hidden);
  if (!form.value)
    return failure();
  if (!padsKeys)
    return form;
  if (!hasKeys) {
    // One value for all keys is repeated over those that stay.
    if (rank == 0)
      form = {form.value, {keys}, {LaneState::finite()}};
    form.dims.back() = keys;
    form.lanes.back() = LaneState::any();
  }
  return values.hold(builder, loc, form, form.dims.size() - 1, hidden);
}

//===----------------------------------------------------------------------===//
// The op
//===----------------------------------------------------------------------===//

Operation *PlanApplier::build(OpBuilder &builder, const PaddedOp &op) {
  Operation *made = builder.clone(*op.old);
  // Attention may have got a mask.
  SmallVector<Value> operands;
  for (const PaddedForm &form : op.operands)
    operands.push_back(form.value);
  made->setOperands(operands);
  auto type = cast<RankedTensorType>(op.old->getResult(0).getType());
  SmallVector<int64_t> shape(type.getShape());
  for (auto [axis, padding] : llvm::zip_equal(op.axes, op.paddings)) {
    const AxisLink *link = axis.find(/*isResult=*/true, 0);
    if (!link || !padding.isPadded())
      continue;
    shape[link->dim] = padding.newExtent() * link->scale;
    if (auto slice = dyn_cast<SliceOp>(made)) {
      SmallVector<int64_t> offsets(slice.getOffsets()), sizes(slice.getSizes());
      offsets[link->dim] =
          offsets[link->dim] / sizes[link->dim] * padding.newExtent();
      sizes[link->dim] = padding.newExtent();
      slice.setOffsets(offsets);
      slice.setSizes(sizes);
    }
  }
  made->getResult(0).setType(
      RankedTensorType::get(shape, type.getElementType()));
  if (!isa<ContractionOpInterface>(made))
    return made;
  std::array<int64_t, 4> from = contractionExtents(op.old),
                         to = contractionExtents(made);
  int64_t extra = cast<CostOpInterface>(made).getFlops() -
                  cast<CostOpInterface>(op.old).getFlops();
  if (extra != 0) {
    ++padded;
    made->setDiscardableAttr(
        MpcDialect::kPaddingAttr,
        PaddingAttr::get(made->getContext(), from, to, extra));
  }
  return made;
}

void PlanApplier::defineResult(const PaddedOp &op, Value result) {
  Value old = op.old->getResult(0);
  PaddedForm form{
      result, plainDims(old),
      SmallVector<LaneState>(shapeOf(old).size(), LaneState::zero())};
  for (auto [axis, padding] : llvm::zip_equal(op.axes, op.paddings)) {
    const AxisLink *link = axis.find(/*isResult=*/true, 0);
    if (!link || !padding.isPadded())
      continue;
    SmallVector<LaneState> lanes(op.operands.size(), LaneState::finite());
    for (const AxisLink &operand : axis.links)
      if (!operand.isResult)
        lanes[operand.index] = op.operands[operand.index].lanes[operand.dim];
    // The mask is on no axis: it has a form of its own.
    if (isa<AttentionOp>(op.old) && axis.role == AxisRole::Rows &&
        op.operands.size() > kAttentionMask) {
      const PaddedForm &mask = op.operands[kAttentionMask];
      if (size_t rank = mask.dims.size();
          rank > 1 && mask.dims[rank - 2].isPadded())
        lanes[kAttentionMask] = mask.lanes[rank - 2];
    }
    form.dims[link->dim] = scaled(padding, link->scale);
    form.lanes[link->dim] = resultLanes(op.old, axis, lanes);
  }
  values.define(old, std::move(form));
}

/// Whether an axis is better padded behind `op`: the only reader of a value
/// that has no padding yet narrows it, and the pad then moves fewer bytes.
bool PlanApplier::padsBehind(Operation *op, const OpAxis &axis) const {
  auto cast = dyn_cast<CastOp>(op);
  const AxisLink *link = axis.find(/*isResult=*/false, 0);
  return cast && link && cast.getInput().hasOneUse() &&
         byteCount(cast.getType()) < byteCount(cast.getInput().getType()) &&
         !values.defined(cast.getInput()).dims[link->dim].isPadded();
}

LogicalResult PlanApplier::applyTo(Operation *op) {
  PaddedOp state{op, paddableAxes(op), {}, {}};
  for (const OpAxis &axis : state.axes) {
    state.paddings.push_back(plan.paddingOf(op, axis));
    if (padsBehind(op, axis))
      state.paddings.back() = {1, axis.extent, axis.extent};
  }
  // Causal attention compares positions: its lengths grow alike or not at all.
  auto attention = dyn_cast<AttentionOp>(op);
  if (DimPadding rows, keys; attention && attention.getCausal()) {
    bool padsRows = state.pads(AxisRole::Rows, rows),
         padsKeys = state.pads(AxisRole::Keys, keys);
    if (padsRows != padsKeys || (padsRows && !(rows == keys)))
      for (auto [axis, padding] : llvm::zip_equal(state.axes, state.paddings))
        if (axis.role == AxisRole::Rows || axis.role == AxisRole::Keys)
          padding = {1, axis.extent, axis.extent};
  }
  if (llvm::none_of(state.paddings, [](const DimPadding &padding) {
        return padding.isPadded();
      })) {
    for (OpOperand &operand : op->getOpOperands())
      operand.set(values.get(operand.get(), plainDims(operand.get())).value);
    return success();
  }
  OpBuilder builder(op);
  if (failed(fetchOperands(builder, state)))
    return failure();
  maskSums(builder, state);
  Operation *made = build(builder, state);
  defineResult(state, made->getResult(0));
  replaced.push_back(op);
  return success();
}

LogicalResult PlanApplier::apply(func::FuncOp func) {
  Block &body = func.getBody().front();
  SmallVector<Operation *> ops;
  for (Operation &op : body)
    ops.push_back(&op);
  for (Operation *op : ops)
    if (failed(applyTo(op)))
      return failure();
  for (Operation *op : llvm::reverse(replaced))
    op->erase();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isa<mpc::ConstantOp>(op) && op.use_empty())
      op.erase();
  return success();
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {

struct PadContractionsPass
    : mpc::impl::PadContractionsPassBase<PadContractionsPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    info = TargetInfo::parse(target);
    if (!info)
      return emitError(UnknownLoc::get(context))
             << "unknown target '" << target
             << "'; use cpu, cpu:LEVEL or cuda:sm_XX";
    return success();
  }

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (func.isDeclaration())
      return;
    if (!func.getBody().hasOneBlock()) {
      func.emitError() << "function '" << func.getName()
                       << "' has more than one block; contractions are padded "
                          "in straight-line functions only";
      return signalPassFailure();
    }
    if (failed(checkStaticShapes(func)))
      return signalPassFailure();
    PaddingPlan plan(func, *info);
    numRefused += plan.getRefused();
    if (plan.isEmpty())
      return markAllAnalysesPreserved();
    PlanApplier applier(plan, &getContext());
    if (failed(applier.apply(func)))
      return signalPassFailure();
    numPadded += applier.padded;
    numPads += applier.getValues().pads;
    numSlices += applier.getValues().slices;
    numMasks += applier.getValues().masks;
  }

  std::optional<TargetInfo> info;
};

} // namespace
