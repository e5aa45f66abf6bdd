//===- PadContractions.cpp - pad GEMMs to matrix-unit tiles ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Applies an Analysis/PaddingPlan op by op: pads operands, masks padding
// elements that would reach a reduction, and leaves results padded. Legal
// because zeros do not change a dot product. Runs after mpc-assign-precision,
// whose types determine the multiples, and before layout.
//
//===----------------------------------------------------------------------===//

#include "Decompose.h"
#include "OpEmitter.h"
#include "PaddedValues.h"
#include "StaticShapes.h"

#include "mpc/Analysis/Padding.h"
#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include <limits>

namespace mpc {
#define GEN_PASS_DEF_PADCONTRACTIONSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

/// Op under rewrite and the padding of its axes and operands.
struct PaddedOp {
  Operation *old;
  SmallVector<OpAxis> axes;
  SmallVector<DimPadding> paddings;
  SmallVector<PaddedForm> operands;

  /// Returns true if the axis with a role is padded; sets `padding`.
  bool pads(AxisRole role, DimPadding &padding) const {
    for (auto [axis, pad] : llvm::zip_equal(axes, paddings))
      if (axis.role == role && pad.isPadded()) {
        padding = pad;
        return true;
      }
    return false;
  }
};

/// Applies a plan to one function.
class PaddingApplier {
public:
  PaddingApplier(const PaddingPlan &plan, MLIRContext *context)
      : plan(plan), values(context) {}

  LogicalResult apply(func::FuncOp func);

  int64_t padded = 0;
  const PaddedValues &getValues() const { return values; }

private:
  LogicalResult applyTo(Operation *op);
  bool padsBehind(Operation *op, const OpAxis &axis) const;
  LogicalResult fetchOperands(OpBuilder &builder, PaddedOp &op);
  void maskSums(OpBuilder &builder, PaddedOp &op);
  FailureOr<PaddedForm> keyMask(OpBuilder &builder, const PaddedOp &op,
                                Value mask);
  Operation *build(OpBuilder &builder, const PaddedOp &op);
  void defineResult(const PaddedOp &op, OpResult result, Value made);

  const PaddingPlan &plan;
  PaddedValues values;
  SmallVector<Operation *> replaced;
};

} // namespace

static DimPadding scaled(DimPadding padding, int64_t scale) {
  padding.groups *= scale;
  return padding;
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Returns the operand through which an op masks padded keys, present or not.
static std::optional<unsigned> keyMaskOperand(Operation *op) {
  auto padded = dyn_cast<PaddingOpInterface>(op);
  return padded ? padded.getKeyMaskOperand() : std::nullopt;
}

LogicalResult PaddingApplier::fetchOperands(OpBuilder &builder, PaddedOp &op) {
  std::optional<unsigned> maskOperand = keyMaskOperand(op.old);
  for (OpOperand &operand : op.old->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    if (index == maskOperand)
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
  if (!maskOperand)
    return success();
  bool hasMask = *maskOperand < op.old->getNumOperands();
  FailureOr<PaddedForm> mask = keyMask(
      builder, op, hasMask ? op.old->getOperand(*maskOperand) : Value());
  if (failed(mask))
    return op.old->emitOpError("has a constant mask without data, which cannot "
                               "be padded");
  if (mask->value)
    op.operands.push_back(std::move(*mask));
  return success();
}

/// Masks the operands of a contraction: the product of two padding elements
/// must be zero, so one is zeroed and the other must be finite.
void PaddingApplier::maskSums(OpBuilder &builder, PaddedOp &op) {
  auto zero = [&](const AxisLink &link) {
    PaddedForm &form = op.operands[link.index];
    form = values.hold(builder, op.old->getLoc(), form, link.dim);
  };
  for (auto [axis, padding] : llvm::zip_equal(op.axes, op.paddings)) {
    if (!padding.isPadded() || axis.need == AxisNeed::Nothing)
      continue;
    bool hasZero = axis.need == AxisNeed::Finite;
    const AxisLink *first = nullptr;
    for (const AxisLink &link : axis.links) {
      if (link.isResult)
        continue;
      first = first ? first : &link;
      if (link.needsZero || !op.operands[link.index].lanes[link.dim].isFinite())
        zero(link);
      hasZero |= op.operands[link.index].lanes[link.dim].isZero();
    }
    if (!hasZero)
      zero(*first);
  }
}

/// Builds the attention mask that hides padded keys: false or minus infinity at
/// their indices, whatever the model's mask computes there.
FailureOr<PaddedForm> PaddingApplier::keyMask(OpBuilder &builder,
                                              const PaddedOp &op, Value mask) {
  DimPadding keys, rows;
  bool padsKeys = op.pads(AxisRole::Keys, keys),
       padsRows = op.pads(AxisRole::Rows, rows);
  Location loc = op.old->getLoc();
  if (!mask) {
    if (!padsKeys)
      return PaddedForm();
    Value isOld = ConstantOp::create(
        builder, loc,
        originalIndicesMask(builder.getContext(), keys, /*trailing=*/0));
    return PaddedForm{isOld, {keys}, {PaddingState::zero()}};
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
  // False hides a key; so does minus infinity, except in cropped rows, which
  // must stay finite.
  double hidden = isFloat ? -std::numeric_limits<double>::infinity() : 0;
  PaddedForm form = values.get(mask, dims, hasRows ? 0 : hidden);
  if (!form.value)
    return failure();
  if (hasRows && !form.lanes[rank - 2].isBelowInfinity())
    form = values.hold(builder, loc, form, rank - 2);
  if (!padsKeys)
    return form;
  if (!hasKeys) {
    // A mask broadcast along keys is expanded over the original ones.
    if (rank == 0)
      form = {form.value, {keys}, {PaddingState::finite()}};
    form.dims.back() = keys;
    form.lanes.back() = PaddingState::any();
  }
  return values.hold(builder, loc, form, form.dims.size() - 1, hidden);
}

//===----------------------------------------------------------------------===//
// The op
//===----------------------------------------------------------------------===//

Operation *PaddingApplier::build(OpBuilder &builder, const PaddedOp &op) {
  Operation *made = builder.clone(*op.old);
  // Attention may have gained a mask operand.
  SmallVector<Value> operands;
  for (const PaddedForm &form : op.operands)
    operands.push_back(form.value);
  made->setOperands(operands);
  for (OpResult result : made->getResults()) {
    auto type = cast<RankedTensorType>(result.getType());
    SmallVector<int64_t> shape(type.getShape());
    for (auto [axis, padding] : llvm::zip_equal(op.axes, op.paddings))
      if (const AxisLink *link =
              axis.find(/*isResult=*/true, result.getResultNumber());
          link && padding.isPadded())
        shape[link->dim] = padding.newExtent() * link->scale;
    result.setType(RankedTensorType::get(shape, type.getElementType()));
  }
  auto padded = dyn_cast<PaddingOpInterface>(made);
  if (!padded)
    return made;
  for (auto [axis, padding] : llvm::zip_equal(op.axes, op.paddings))
    if (padding.isPadded())
      padded.growAxis(axis, padding.newExtent());
  if (!isa<ContractionOpInterface>(made))
    return made;
  int64_t extra = cast<CostOpInterface>(made).getFlops() -
                  cast<CostOpInterface>(op.old).getFlops();
  if (extra != 0) {
    ++this->padded;
    made->setDiscardableAttr(
        MpcDialect::kPaddingAttr,
        PaddingAttr::get(made->getContext(),
                         cast<PaddingOpInterface>(op.old).getPaddedExtents(),
                         padded.getPaddedExtents(), extra));
  }
  return made;
}

void PaddingApplier::defineResult(const PaddedOp &op, OpResult old,
                                  Value made) {
  PaddedForm form{
      made, plainDims(old),
      SmallVector<PaddingState>(shapeOf(old).size(), PaddingState::zero())};
  for (auto [axis, padding] : llvm::zip_equal(op.axes, op.paddings)) {
    const AxisLink *link = axis.find(/*isResult=*/true, old.getResultNumber());
    if (!link || !padding.isPadded())
      continue;
    SmallVector<PaddingState> lanes(op.operands.size(), PaddingState::finite());
    for (const AxisLink &operand : axis.links)
      if (!operand.isResult)
        lanes[operand.index] = op.operands[operand.index].lanes[operand.dim];
    form.dims[link->dim] = scaled(padding, link->scale);
    form.lanes[link->dim] =
        resultLanes(op.old, axis, lanes, old.getResultNumber());
  }
  values.define(old, std::move(form));
}

/// Returns true if the axis should be padded after `op`: `op` is the only
/// reader of an unpadded value and narrows it, so the pad moves fewer bytes.
bool PaddingApplier::padsBehind(Operation *op, const OpAxis &axis) const {
  auto cast = dyn_cast<CastOp>(op);
  const AxisLink *link = axis.find(/*isResult=*/false, 0);
  return cast && link && cast.getInput().hasOneUse() &&
         byteCount(cast.getType()) < byteCount(cast.getInput().getType()) &&
         !values.defined(cast.getInput()).dims[link->dim].isPadded();
}

LogicalResult PaddingApplier::applyTo(Operation *op) {
  PaddedOp state{op, paddableAxes(op), {}, {}};
  for (const OpAxis &axis : state.axes) {
    state.paddings.push_back(plan.paddingOf(op, axis));
    if (padsBehind(op, axis))
      state.paddings.back() = {1, axis.extent, axis.extent};
  }
  // Tied axes get equal padding or none.
  const DimPadding *tied = nullptr;
  bool growsAlike = true;
  int64_t numTied = 0;
  for (auto [axis, padding] : llvm::zip_equal(state.axes, state.paddings))
    if (axis.isTied) {
      growsAlike &= !tied || *tied == padding;
      tied = &padding;
      ++numTied;
    }
  if (!growsAlike || numTied == 1)
    for (auto [axis, padding] : llvm::zip_equal(state.axes, state.paddings))
      if (axis.isTied)
        padding = {1, axis.extent, axis.extent};
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
  for (OpResult result : op->getResults())
    defineResult(state, result, made->getResult(result.getResultNumber()));
  replaced.push_back(op);
  return success();
}

LogicalResult PaddingApplier::apply(func::FuncOp func) {
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

  void getDependentDialects(DialectRegistry &registry) const override {
    Base::getDependentDialects(registry);
    registerPaddingModels(registry);
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
    FailureOr<TargetInfo> named = exe::targetOf(func, target);
    if (failed(named))
      return signalPassFailure();
    info = *named;
    bool isUnrolled = unrollProducts(func);
    PaddingPlan plan(func, info);
    numRefused += plan.getRefused();
    if (plan.isEmpty()) {
      if (!isUnrolled)
        markAllAnalysesPreserved();
      return;
    }
    PaddingApplier applier(plan, &getContext());
    if (failed(applier.apply(func)))
      return signalPassFailure();
    numPadded += applier.padded;
    numPads += applier.getValues().pads;
    numSlices += applier.getValues().slices;
    numMasks += applier.getValues().masks;
  }

  /// Unrolls recurrent ops, so that their GEMMs are padded one by one.
  bool unrollProducts(func::FuncOp func) {
    bool changed = false;
    SmallVector<Operation *> recurrent;
    func.walk([&](Operation *op) {
      auto fusion = dyn_cast<FusionOpInterface>(op);
      if (fusion && fusion.getFusionClass() == FusionClass::Recurrent &&
          op->hasTrait<Composite>() &&
          wantsMultiples(getElementTypeOrSelf(op->getOperand(0))))
        recurrent.push_back(op);
    });
    for (Operation *op : recurrent) {
      if (shapeOf(op->getOperand(0))[0] > kUnrolledSteps)
        continue;
      OpBuilder builder(op);
      SmallVector<Value> results = unrollRecurrent(builder, op);
      if (results.empty())
        continue;
      op->replaceAllUsesWith(results);
      op->erase();
      changed = true;
    }
    return changed;
  }

  /// Returns true if the target has matrix units that need extent multiples.
  bool wantsMultiples(Type type) const {
    if (info.kernels().masksRemainders)
      return false;
    std::optional<MathType> math = mathTypeOf(type);
    return math && info.multiple(*math) > 1;
  }

  TargetInfo info;
};

} // namespace
