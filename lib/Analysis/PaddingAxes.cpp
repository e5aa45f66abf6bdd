//===- PaddingAxes.cpp - dimensions of an op that can be padded -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models by op family of the dimensions that may grow, independent of the gain.
// Contractions, whose axes have roles, are in PaddingContractions.cpp.
//
//===----------------------------------------------------------------------===//

#include "PaddingModels.h"

#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include <numeric>

#include "mpc/Analysis/PaddingInterface.cpp.inc"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;

const AxisLink *OpAxis::find(bool isResult, unsigned index) const {
  for (const AxisLink &link : links)
    if (link.isResult == isResult && link.index == index)
      return &link;
  return nullptr;
}

OpAxis *AxisList::add(AxisRole role, int64_t extent, ArrayRef<AxisLink> links) {
  if (extent <= 1)
    return nullptr;
  axes.push_back({role, extent, SmallVector<AxisLink, 4>(links)});
  return &axes.back();
}

AxisLink mpc::operandLink(unsigned index, unsigned dim, int64_t scale) {
  return {/*isResult=*/false, index, dim, scale};
}

AxisLink mpc::resultLink(unsigned dim, int64_t scale, unsigned index) {
  return {/*isResult=*/true, index, dim, scale};
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

static void addElementwise(Operation *op, AxisList &list) {
  if (op->getNumResults() != 1)
    return;
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  // Most dimensions are on the same operands.
  SmallVector<std::pair<SmallVector<unsigned>, bool>> known;
  auto isFinite = [&](ArrayRef<unsigned> padded) {
    for (const auto &[operands, finite] : known)
      if (ArrayRef<unsigned>(operands) == padded)
        return finite;
    known.emplace_back(padded, isFiniteWhenPadded(op, padded));
    return known.back().second;
  };
  for (auto [dim, extent] : llvm::enumerate(shape)) {
    if (extent == 1)
      continue;
    SmallVector<AxisLink> links = {resultLink(dim)};
    SmallVector<unsigned> padded;
    bool paddedDivisor = false;
    for (OpOperand &operand : op->getOpOperands()) {
      ArrayRef<int64_t> from = shapeOf(operand.get());
      if (shape.size() - dim > from.size())
        continue;
      unsigned place = from.size() - (shape.size() - dim);
      if (from[place] != extent)
        continue;
      links.push_back(operandLink(operand.getOperandNumber(), place));
      padded.push_back(operand.getOperandNumber());
      paddedDivisor |= isa<DivOp>(op) && operand.getOperandNumber() == 1 &&
                       !operand.get().getDefiningOp<mpc::ConstantOp>();
    }
    if (!paddedDivisor && isFinite(padded))
      list.add(AxisRole::Map, extent, links);
  }
}

/// Every dimension outside of a row is passed through unchanged.
static void addRows(Operation *op, AxisList &list) {
  // A row of zeros has variance 0.
  auto epsilon = op->getAttrOfType<FloatAttr>("epsilon");
  if (epsilon && epsilon.getValueAsDouble() <= 0)
    return;
  SmallVector<int64_t> closed =
      cast<ReductionOpInterface>(op).getReductionAxes();
  for (auto [dim, extent] : llvm::enumerate(shapeOf(op->getResult(0))))
    if (!llvm::is_contained(closed, int64_t(dim)))
      list.add(AxisRole::Map, extent, {resultLink(dim), operandLink(0, dim)});
}

//===----------------------------------------------------------------------===//
// Reductions, pools
//===----------------------------------------------------------------------===//

namespace {

template <typename OpTy>
struct ReductionModel
    : PaddingOpInterface::ExternalModel<ReductionModel<OpTy>, OpTy> {
  SmallVector<OpAxis> getPaddableAxes(Operation *operation) const {
    auto op = cast<OpTy>(operation);
    AxisList list;
    unsigned place = 0;
    for (auto [dim, extent] : llvm::enumerate(shapeOf(op.getInput()))) {
      bool reduced = llvm::is_contained(op.getAxes(), int64_t(dim));
      if (!reduced)
        list.add(AxisRole::Map, extent,
                 {resultLink(place), operandLink(0, dim)});
      if (!reduced || op.getKeepDims())
        ++place;
    }
    return list.axes;
  }
  /// Products of finite values may overflow.
  PaddingState getPaddedPlaces(Operation *op, const OpAxis &axis, unsigned,
                               ArrayRef<PaddingState> operands) const {
    if (std::is_same_v<OpTy, ReduceProdOp> && !operands[0].isZero())
      return PaddingState::any();
    return movedLanes(op, axis, operands);
  }
};

template <typename OpTy>
struct PoolModel : PaddingOpInterface::ExternalModel<PoolModel<OpTy>, OpTy> {
  SmallVector<OpAxis> getPaddableAxes(Operation *operation) const {
    auto op = cast<OpTy>(operation);
    AxisList list;
    ArrayRef<int64_t> shape = shapeOf(op.getInput());
    bool isLast = op.getLayout() == ImageLayout::channels_last;
    for (unsigned dim : {0u, isLast ? unsigned(shape.size() - 1) : 1u})
      list.add(AxisRole::Map, shape[dim],
               {resultLink(dim), operandLink(0, dim)});
    return list.axes;
  }
};

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

struct SliceModel : PaddingOpInterface::ExternalModel<SliceModel, SliceOp> {
  SmallVector<OpAxis> getPaddableAxes(Operation *operation) const {
    auto op = cast<SliceOp>(operation);
    AxisList list;
    SmallVector<int64_t> strides = op.getStrideValues();
    for (auto [dim, extent] : llvm::enumerate(shapeOf(op.getInput()))) {
      int64_t offset = op.getOffsets()[dim], size = op.getSizes()[dim];
      if (size <= 0 || (strides[dim] != 1 && size != 1))
        continue;
      // Splits the extent by the greatest common divisor.
      int64_t part = std::gcd(std::gcd(offset, size), int64_t(extent));
      list.add(
          AxisRole::Map, part,
          {resultLink(dim, size / part), operandLink(0, dim, extent / part)});
    }
    return list.axes;
  }
  void growAxis(Operation *operation, const OpAxis &axis,
                int64_t extent) const {
    auto op = cast<SliceOp>(operation);
    SmallVector<int64_t> offsets(op.getOffsets()), sizes(op.getSizes());
    unsigned dim = axis.links[0].dim;
    offsets[dim] = offsets[dim] / axis.extent * extent;
    sizes[dim] = sizes[dim] / axis.extent * extent;
    op.setOffsets(offsets);
    op.setSizes(sizes);
  }
};

/// Returns the dimensions of extent greater than 1.
SmallVector<unsigned> realDims(ArrayRef<int64_t> shape) {
  SmallVector<unsigned> dims;
  for (auto [dim, extent] : llvm::enumerate(shape))
    if (extent != 1)
      dims.push_back(dim);
  return dims;
}

/// If consecutive dimensions are collapsed, the last one is an axis that the
/// collapsed dimension contains several times.
struct ReshapeModel
    : PaddingOpInterface::ExternalModel<ReshapeModel, ReshapeOp> {
  SmallVector<OpAxis> getPaddableAxes(Operation *operation) const {
    auto op = cast<ReshapeOp>(operation);
    AxisList list;
    ArrayRef<int64_t> in = shapeOf(op.getInput()),
                      out = shapeOf(op.getResult());
    if (elementCount(op.getResult()) == 0)
      return {};
    SmallVector<unsigned> inDims = realDims(in), outDims = realDims(out);
    size_t i = 0, o = 0;
    while (i < inDims.size() && o < outDims.size()) {
      size_t inBegin = i, outBegin = o;
      int64_t left = in[inDims[i++]], right = out[outDims[o++]];
      while (left != right)
        if (left < right)
          left *= in[inDims[i++]];
        else
          right *= out[outDims[o++]];
      unsigned lastIn = inDims[i - 1], lastOut = outDims[o - 1];
      if (i - inBegin == 1)
        list.add(
            AxisRole::Map, out[lastOut],
            {resultLink(lastOut), operandLink(0, lastIn, left / out[lastOut])});
      else if (o - outBegin == 1)
        list.add(
            AxisRole::Map, in[lastIn],
            {resultLink(lastOut, right / in[lastIn]), operandLink(0, lastIn)});
    }
    return list.axes;
  }
};

struct TransposeModel
    : PaddingOpInterface::ExternalModel<TransposeModel, TransposeOp> {
  SmallVector<OpAxis> getPaddableAxes(Operation *operation) const {
    auto op = cast<TransposeOp>(operation);
    AxisList list;
    for (auto [dim, from] : llvm::enumerate(op.getPermutation()))
      list.add(AxisRole::Map, shapeOf(op.getInput()) [from],
               { resultLink(dim), operandLink(0, from) });
    return list.axes;
  }
};

struct GatherModel : PaddingOpInterface::ExternalModel<GatherModel, GatherOp> {
  SmallVector<OpAxis> getPaddableAxes(Operation *operation) const {
    auto op = cast<GatherOp>(operation);
    AxisList list;
    unsigned axis = op.getAxis(), indices = shapeOf(op.getIndices()).size();
    for (auto [dim, extent] : llvm::enumerate(shapeOf(op.getInput())))
      if (dim != axis)
        list.add(AxisRole::Map, extent,
                 {resultLink(dim < axis ? dim : dim + indices - 1),
                  operandLink(0, dim)});
    return list.axes;
  }
};

struct BroadcastModel
    : PaddingOpInterface::ExternalModel<BroadcastModel, BroadcastOp> {
  SmallVector<OpAxis> getPaddableAxes(Operation *operation) const {
    auto op = cast<BroadcastOp>(operation);
    AxisList list;
    ArrayRef<int64_t> in = shapeOf(op.getInput()),
                      out = shapeOf(op.getResult());
    for (auto [dim, extent] : llvm::enumerate(out)) {
      SmallVector<AxisLink> links = {resultLink(dim)};
      unsigned behind = out.size() - dim;
      if (behind <= in.size() && in[in.size() - behind] == extent)
        links.push_back(operandLink(0, in.size() - behind));
      list.add(AxisRole::Map, extent, links);
    }
    return list.axes;
  }
};

struct ConcatModel : PaddingOpInterface::ExternalModel<ConcatModel, ConcatOp> {
  SmallVector<OpAxis> getPaddableAxes(Operation *operation) const {
    auto op = cast<ConcatOp>(operation);
    AxisList list;
    for (auto [dim, extent] : llvm::enumerate(shapeOf(op.getResult()))) {
      if (dim == op.getAxis())
        continue;
      SmallVector<AxisLink> links = {resultLink(dim)};
      for (unsigned index = 0; index < op.getInputs().size(); ++index)
        links.push_back(operandLink(index, dim));
      list.add(AxisRole::Map, extent, links);
    }
    return list.axes;
  }
};

template <typename... OpTys> void attachReductions(MLIRContext &context) {
  (OpTys::template attachInterface<ReductionModel<OpTys>>(context), ...);
}

} // namespace

void mpc::registerPaddingModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, MpcDialect *) {
    attachContractionPadding(*context);
    attachReductions<ReduceSumOp, ReduceMeanOp, ReduceProdOp, ReduceMaxOp,
                     ReduceMinOp>(*context);
    MaxPoolOp::attachInterface<PoolModel<MaxPoolOp>>(*context);
    AvgPoolOp::attachInterface<PoolModel<AvgPoolOp>>(*context);
    SliceOp::attachInterface<SliceModel>(*context);
    ReshapeOp::attachInterface<ReshapeModel>(*context);
    TransposeOp::attachInterface<TransposeModel>(*context);
    GatherOp::attachInterface<GatherModel>(*context);
    BroadcastOp::attachInterface<BroadcastModel>(*context);
    ConcatOp::attachInterface<ConcatModel>(*context);
  });
}

SmallVector<OpAxis> mpc::paddableAxes(Operation *op) {
  if (auto padded = dyn_cast<PaddingOpInterface>(op))
    return padded.getPaddableAxes();
  AxisList list;
  if (isa<ElementwiseOpInterface>(op))
    addElementwise(op, list);
  else if (op->hasTrait<MapsRows>())
    addRows(op, list);
  return list.axes;
}
