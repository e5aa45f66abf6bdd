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
  LogicalResult fetchOperands(PaddedOp &op);
  void maskSums(OpBuilder &builder, PaddedOp &op);
  FailureOr<Value> attentionMask(OpBuilder &builder, const PaddedOp &op);
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

LogicalResult PlanApplier::fetchOperands(PaddedOp &op) {
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
  return success();
}

/// A product of two padded places must be zero: one of them is, and the other
/// is finite. Values that attention does not look at must be finite as well.
void PlanApplier::maskSums(OpBuilder &builder, PaddedOp &op) {
  if (!isa<ContractionOpInterface>(op.old))
    return;
  for (auto [axis, padding] : llvm::zip_equal(op.axes, op.paddings)) {
    if (!padding.isPadded() ||
        (axis.role != AxisRole::Depth && axis.role != AxisRole::Keys))
      continue;
    bool hasZero = axis.role == AxisRole::Keys;
    for (const AxisLink &link : axis.links) {
      PaddedForm &form = op.operands[link.index];
      if (form.lanes[link.dim] == LaneState::Any)
        form = values.mask(builder, op.old->getLoc(), form, link.dim);
      hasZero |= form.lanes[link.dim] == LaneState::Zero;
    }
    const AxisLink &first = axis.links.front();
    if (!hasZero)
      op.operands[first.index] = values.mask(
          builder, op.old->getLoc(), op.operands[first.index], first.dim);
  }
}

/// The mask under which attention ignores padded keys: false, or minus
/// infinity, at their places.
FailureOr<Value> PlanApplier::attentionMask(OpBuilder &builder,
                                            const PaddedOp &op) {
  auto attention = cast<AttentionOp>(op.old);
  DimPadding keys, rows;
  bool padsKeys = op.pads(AxisRole::Keys, keys),
       padsRows = op.pads(AxisRole::Rows, rows);
  Location loc = attention.getLoc();
  Value mask = attention.getMask();
  if (!mask) {
    if (!padsKeys)
      return Value();
    return ConstantOp::create(
               builder, loc,
               oldPlaces(builder.getContext(), keys, /*trailing=*/0))
        .getResult();
  }

  Type element = getElementTypeOrSelf(mask.getType());
  bool isFloat = isa<FloatType>(element);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
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
  bool isHidden = hasKeys && (!isFloat || !hasRows);
  PaddedForm form =
      values.get(mask, dims, isHidden && isFloat ? -kInfinity : 0.0);
  if (!form.value)
    return failure();
  if (!padsKeys || isHidden)
    return form.value;
  ElementsAttr places = oldPlaces(builder.getContext(), keys, /*trailing=*/0);
  Value isOld = ConstantOp::create(builder, loc, places);
  SmallVector<int64_t> shape(shapeOf(form.value));
  if (shape.empty())
    shape.push_back(1);
  shape.back() = keys.newExtent();
  auto type = RankedTensorType::get(shape, element);
  if (!isFloat)
    return AndOp::create(builder, loc, type, form.value, isOld).getResult();
  Value hide = ConstantOp::create(
      builder, loc, makeSplat(RankedTensorType::get({}, element), -kInfinity));
  return SelectOp::create(builder, loc, type, isOld, form.value, hide)
      .getResult();
}

//===----------------------------------------------------------------------===//
// The op
//===----------------------------------------------------------------------===//

Operation *PlanApplier::build(OpBuilder &builder, const PaddedOp &op) {
  Operation *made = builder.clone(*op.old);
  for (auto [index, form] : llvm::enumerate(op.operands))
    made->setOperand(index, form.value);
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
  PaddedForm form{result, plainDims(old),
                  SmallVector<LaneState>(shapeOf(old).size(), LaneState::Zero)};
  for (auto [axis, padding] : llvm::zip_equal(op.axes, op.paddings)) {
    const AxisLink *link = axis.find(/*isResult=*/true, 0);
    if (!link || !padding.isPadded())
      continue;
    SmallVector<LaneState> lanes(op.operands.size(), LaneState::Finite);
    for (const AxisLink &operand : axis.links)
      if (!operand.isResult)
        lanes[operand.index] = op.operands[operand.index].lanes[operand.dim];
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
  if (attention) {
    // The mask has a form of its own.
    FailureOr<Value> mask = attentionMask(builder, state);
    if (failed(mask))
      return op->emitOpError("has a constant mask without data, which cannot "
                             "be padded");
    if (failed(fetchOperands(state)))
      return failure();
    maskSums(builder, state);
    auto made = cast<AttentionOp>(build(builder, state));
    made.getMaskMutable().assign(*mask ? ValueRange(*mask) : ValueRange());
    defineResult(state, made.getResult());
  } else {
    if (failed(fetchOperands(state)))
      return failure();
    maskSums(builder, state);
    defineResult(state, build(builder, state)->getResult(0));
  }
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
