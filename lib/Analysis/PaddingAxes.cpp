//===- PaddingAxes.cpp - dimensions of an op that can be padded -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models by op family of the dimensions that may grow, independent of the gain,
// and the values of their padding elements. If the operands of an elementwise
// op have known values, the interpreter evaluates the op on them. Otherwise a
// few rules determine whether results stay zero or finite; ops without a rule
// may yield anything. Contracted axes need zeros; rows and columns may contain
// anything.
//
//===----------------------------------------------------------------------===//

#include "ScalarEvaluation.h"

#include "mpc/Analysis/PaddingAxes.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"
#include "mpc/Reference/Interpreter.h"

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

using reference::Tensor;

double mpc::paddingValue(Operation *op, unsigned operand) {
  return isa<DivOp>(op) && operand == 1 ? 1 : 0;
}

//===----------------------------------------------------------------------===//
// Elementwise, by evaluation
//===----------------------------------------------------------------------===//

bool mpc::isFiniteWhenPadded(Operation *op, ArrayRef<unsigned> padded) {
  // Other operands repeat values of the model; a positive and a negative one
  // reveal an exponent's sign.
  bool usesOwn = false;
  auto isFiniteWith = [&](double own) {
    SmallVector<double> values;
    for (OpOperand &operand : op->getOpOperands()) {
      unsigned index = operand.getOperandNumber();
      if (llvm::is_contained(padded, index)) {
        values.push_back(paddingValue(op, index));
        continue;
      }
      std::optional<double> splat = splatValue(operand.get());
      bool isOwn = !splat || !std::isfinite(*splat);
      usesOwn |= isOwn;
      values.push_back(isOwn ? own : *splat);
    }
    std::optional<double> value = evaluateAt(op, values);
    return value && std::isfinite(*value);
  };
  return isFiniteWith(1) && (!usesOwn || isFiniteWith(-1));
}

//===----------------------------------------------------------------------===//
// Elementwise, by rules
//===----------------------------------------------------------------------===//

/// Returns the state of an operand that does not have the axis and so repeats
/// values of the model.
static PaddingState ownLanes(Value value) {
  if (std::optional<double> splat = splatValue(value))
    return PaddingState::known(*splat);
  return PaddingState::finite();
}

/// A branch without the axis may contain values that the model's own positions
/// never select.
static PaddingState branchLanes(Operation *op, const OpAxis &axis,
                                unsigned branch, PaddingState state) {
  Value value = op->getOperand(branch);
  bool selectsAlike = !axis.find(/*isResult=*/false, /*index=*/0);
  if (axis.find(/*isResult=*/false, branch) ||
      !isa<FloatType>(getElementTypeOrSelf(value.getType())))
    return state;
  if (selectsAlike)
    return state.isFinite() ? state : PaddingState::finite();
  auto constant = value.getDefiningOp<mpc::ConstantOp>();
  if (state.getValue() || !constant)
    return constant ? state : PaddingState::any();
  FailureOr<Tensor> tensor = Tensor::fromAttr(constant.getValue());
  bool isFinite =
      succeeded(tensor) && llvm::all_of(tensor->floats(), [](double element) {
        return std::isfinite(element);
      });
  return isFinite ? PaddingState::finite() : PaddingState::any();
}

static PaddingState selectLanes(Operation *op, const OpAxis &axis,
                                ArrayRef<PaddingState> operands) {
  PaddingState onTrue = branchLanes(op, axis, 1, operands[1]),
               onFalse = branchLanes(op, axis, 2, operands[2]);
  if (std::optional<double> condition = operands[0].getValue())
    return *condition != 0 ? onTrue : onFalse;
  if (std::optional<double> value = onTrue.getValue();
      value && onFalse.holds(*value))
    return onTrue;
  return onTrue.isFinite() && onFalse.isFinite() ? PaddingState::finite()
                                                 : PaddingState::any();
}

static PaddingState elementwiseLanes(Operation *op, const OpAxis &axis,
                                     ArrayRef<PaddingState> operands) {
  if (isa<SelectOp>(op))
    return selectLanes(op, axis, operands);
  SmallVector<double> values;
  for (const PaddingState &operand : operands)
    if (std::optional<double> value = operand.getValue())
      values.push_back(*value);
  if (values.size() == operands.size()) {
    std::optional<double> value = evaluateAt(op, values);
    return value && !std::isnan(*value) ? PaddingState::known(*value)
                                        : PaddingState::any();
  }
  // Integers and booleans are never infinite.
  if (!isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())))
    return PaddingState::finite();
  if (!llvm::all_of(operands,
                    [](const PaddingState &state) { return state.isFinite(); }))
    return PaddingState::any();
  if (isa<MulOp>(op))
    return operands[0].isZero() || operands[1].isZero()
               ? PaddingState::zero()
               : PaddingState::finite();
  // The divisor is 1 or repeats the model's own values.
  if (isa<DivOp>(op))
    return operands[0].isZero() ? PaddingState::zero() : PaddingState::finite();
  return op->hasTrait<KeepsFinite>() ? PaddingState::finite()
                                     : PaddingState::any();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

PaddingState mpc::movedLanes(Operation *op, const OpAxis &axis,
                             ArrayRef<PaddingState> operands) {
  SmallVector<PaddingState> linked;
  for (const AxisLink &link : axis.links)
    if (!link.isResult)
      linked.push_back(operands[link.index]);
  if (!linked.empty() && linked.front().getValue() && llvm::all_equal(linked)) {
    bool isMoved = llvm::is_contained(
        {FusionClass::View, FusionClass::IndexMap, FusionClass::Gather},
        fusionClassOf(op));
    if (isMoved || linked.front().isZero())
      return linked.front();
  }
  bool isFinite = llvm::all_of(
      linked, [](const PaddingState &state) { return state.isFinite(); });
  return isFinite ? PaddingState::finite() : PaddingState::any();
}

PaddingState mpc::resultLanes(Operation *op, const OpAxis &axis,
                              ArrayRef<PaddingState> states, unsigned result) {
  if (auto padded = dyn_cast<PaddingOpInterface>(op))
    return padded.getPaddedPlaces(axis, result, states);
  // Rows of finite values give finite rows, rarely zeros.
  if (op->hasTrait<MapsRows>())
    return states[0].isFinite() ? PaddingState::finite() : PaddingState::any();
  // Only the states of operands on the axis count; others are the model's own.
  SmallVector<PaddingState> operands(states);
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    if (!axis.find(/*isResult=*/false, index))
      operands[index] = ownLanes(operand);
  return elementwiseLanes(op, axis, operands);
}

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

/// Adds a contracted axis.
void addSum(AxisList &list, AxisRole role, int64_t extent,
            ArrayRef<AxisLink> links) {
  if (OpAxis *axis = list.add(role, extent, links))
    axis->need = AxisNeed::Product;
}

/// A GEMM with a row or column of zeros is zero there.
template <typename OpTy, typename Model>
struct ContractionModel : PaddingOpInterface::ExternalModel<Model, OpTy> {
  SmallVector<OpAxis> getPaddableAxes(Operation *op) const {
    AxisList list;
    Model::addAxes(cast<OpTy>(op), list);
    return list.axes;
  }
  PaddingState getPaddedPlaces(Operation *op, const OpAxis &axis, unsigned,
                               ArrayRef<PaddingState> operands) const {
    bool hasZero = false;
    for (const AxisLink &link : axis.links) {
      if (link.isResult)
        continue;
      if (!operands[link.index].isFinite())
        return PaddingState::any();
      hasZero |= operands[link.index].isZero();
    }
    return hasZero ? PaddingState::zero() : PaddingState::finite();
  }
  std::array<int64_t, 4> getPaddedExtents(Operation *op) const {
    return Model::extents(cast<OpTy>(op));
  }
};

//===----------------------------------------------------------------------===//
// GEMMs
//===----------------------------------------------------------------------===//

struct MatmulModel : ContractionModel<MatmulOp, MatmulModel> {
  static void addAxes(MatmulOp op, AxisList &list) {
    if (op.getPacked())
      return;
    ArrayRef<int64_t> lhs = shapeOf(op.getLhs()), rhs = shapeOf(op.getRhs()),
                      result = shapeOf(op.getResult());
    unsigned left = lhs.size(), right = rhs.size(), out = result.size();
    unsigned m = op.getTransposeLhs() ? left - 1 : left - 2;
    unsigned k = op.getTransposeLhs() ? left - 2 : left - 1;
    unsigned depth = op.getTransposeRhs() ? right - 1 : right - 2;
    unsigned n = op.getTransposeRhs() ? right - 2 : right - 1;
    // With one matrix on the right the rows of all batches form one GEMM.
    AxisRole batch =
        productOf(rhs.drop_back(2)) == 1 ? AxisRole::Rows : AxisRole::Batch;
    for (unsigned dim = 0; dim + 2 < out; ++dim) {
      SmallVector<AxisLink> links = {resultLink(dim)};
      unsigned behind = out - dim;
      if (behind <= left && lhs[left - behind] == result[dim])
        links.push_back(operandLink(0, left - behind));
      if (behind <= right && rhs[right - behind] == result[dim])
        links.push_back(operandLink(1, right - behind));
      list.add(batch, result[dim], links);
    }
    list.add(AxisRole::Rows, lhs[m], {resultLink(out - 2), operandLink(0, m)});
    list.add(AxisRole::Columns, rhs[n],
             {resultLink(out - 1), operandLink(1, n)});
    addSum(list, AxisRole::Depth, lhs[k],
           {operandLink(0, k), operandLink(1, depth)});
  }

  static std::array<int64_t, 4> extents(MatmulOp op) {
    ArrayRef<int64_t> result = shapeOf(op.getResult());
    return {productOf(result.drop_back(2)), result[result.size() - 2],
            result.back(), op.getContractionSize()};
  }
};

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

/// A conv of one channel has no axis to grow and stays unaligned.
void addLoneChannel(AxisList &list, int64_t channels) {
  if (channels == 1)
    list.axes.push_back({AxisRole::Depth, 1, {}});
}

struct ConvModel : ContractionModel<ConvOp, ConvModel> {
  static void addAxes(ConvOp op, AxisList &list) {
    ArrayRef<int64_t> input = shapeOf(op.getInput());
    list.add(AxisRole::Batch, input[0], {resultLink(0), operandLink(0, 0)});
    if (op.getGroups() != 1 || op.getPacked())
      return;
    ArrayRef<int64_t> filter = shapeOf(op.getFilter());
    unsigned channel =
        op.getLayout() == ImageLayout::channels_last ? input.size() - 1 : 1;
    list.add(AxisRole::Columns, filter[0],
             {resultLink(channel), operandLink(1, 0)});
    addSum(list, AxisRole::Depth, filter[1],
           {operandLink(0, channel), operandLink(1, 1)});
    addLoneChannel(list, filter[1]);
  }

  static std::array<int64_t, 4> extents(ConvOp op) {
    ArrayRef<int64_t> result = shapeOf(op.getResult());
    int64_t channels = op.getOutputChannels();
    return {result[0], productOf(result.drop_front()) / channels, channels,
            op.getContractionSize()};
  }
};

struct ConvTransposeModel
    : ContractionModel<ConvTransposeOp, ConvTransposeModel> {
  static void addAxes(ConvTransposeOp op, AxisList &list) {
    ArrayRef<int64_t> input = shapeOf(op.getInput()),
                      filter = shapeOf(op.getFilter());
    list.add(AxisRole::Batch, input[0], {resultLink(0), operandLink(0, 0)});
    if (op.getGroups() != 1)
      return;
    list.add(AxisRole::Columns, filter[1], {resultLink(1), operandLink(1, 1)});
    addSum(list, AxisRole::Depth, filter[0],
           {operandLink(0, 1), operandLink(1, 0)});
    addLoneChannel(list, filter[0]);
  }

  static std::array<int64_t, 4> extents(ConvTransposeOp op) {
    ArrayRef<int64_t> result = shapeOf(op.getResult());
    return {result[0], productOf(result.drop_front(2)), result[1],
            op.getContractionSize()};
  }
};

/// One GEMM over all images and positions: M is the filters, N the input's
/// channels times the window.
struct FilterGradientModel
    : ContractionModel<ConvFilterGradientOp, FilterGradientModel> {
  static void addAxes(ConvFilterGradientOp op, AxisList &list) {
    ArrayRef<int64_t> input = shapeOf(op.getInput());
    addSum(list, AxisRole::Batch, input[0],
           {operandLink(0, 0), operandLink(1, 0)});
    if (op.getGroups() != 1)
      return;
    ArrayRef<int64_t> filter = shapeOf(op.getResult());
    unsigned channel =
        op.getLayout() == ImageLayout::channels_last ? input.size() - 1 : 1;
    list.add(AxisRole::Rows, filter[0],
             {resultLink(0), operandLink(1, channel)});
    list.add(AxisRole::Columns, filter[1],
             {resultLink(1), operandLink(0, channel)});
    addLoneChannel(list, filter[1]);
  }

  static std::array<int64_t, 4> extents(ConvFilterGradientOp op) {
    ArrayRef<int64_t> result = shapeOf(op.getResult());
    return {1, result[0], productOf(result.drop_front()),
            op.getContractionSize()};
  }
};

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Adds the batches of attention or its gradient that share one mask.
void addBatches(AxisList &list, Value mask, ValueRange operands,
                unsigned results) {
  ArrayRef<int64_t> query = shapeOf(operands[0]),
                    of = mask ? shapeOf(mask) : ArrayRef<int64_t>();
  unsigned rank = query.size();
  for (unsigned dim = 0; dim + 2 < rank; ++dim) {
    unsigned behind = rank - dim;
    if (behind <= of.size() && of[of.size() - behind] != 1)
      continue;
    SmallVector<AxisLink> links;
    for (unsigned index = 0; index < results; ++index)
      links.push_back(resultLink(dim, /*scale=*/1, index));
    bool isShared = false;
    for (auto [index, operand] : llvm::enumerate(operands)) {
      isShared |= shapeOf(operand)[dim] != query[dim];
      links.push_back(operandLink(index, dim));
    }
    if (!isShared)
      list.add(AxisRole::Batch, query[dim], links);
  }
}

struct AttentionModel : ContractionModel<AttentionOp, AttentionModel> {
  static constexpr unsigned kValue = 2, kMask = 3;

  static void addAxes(AttentionOp op, AxisList &list) {
    ArrayRef<int64_t> query = shapeOf(op.getQuery()),
                      key = shapeOf(op.getKey()),
                      value = shapeOf(op.getValue());
    unsigned rank = query.size(), width = rank - 1, length = rank - 2;
    if (key.size() != rank || value.size() != rank)
      return;
    addBatches(list, op.getMask(), op->getOperands().take_front(kMask),
               /*results=*/1);
    // Each of the two widths takes part in one of two GEMMs.
    addSum(list, AxisRole::Depth, query[width],
           {operandLink(0, width), operandLink(1, width)});
    list.add(AxisRole::Columns, value[width],
             {resultLink(width), operandLink(kValue, width)});
    for (OpAxis &axis : list.axes)
      if (axis.role != AxisRole::Batch)
        axis.share = 0.5;
    // The causal diagonal depends on both lengths.
    if (op.getCausal() && query[length] != key[length])
      return;
    OpAxis *rows = list.add(AxisRole::Rows, query[length],
                            {resultLink(length), operandLink(0, length)});
    if (rows)
      rows->isTied = op.getCausal();
    OpAxis *keys =
        list.add(AxisRole::Keys, key[length],
                 {operandLink(1, length), operandLink(kValue, length)});
    if (!keys)
      return;
    keys->isTied = op.getCausal();
    // Masked, but multiplied by zero.
    keys->need = AxisNeed::Finite;
  }

  static std::array<int64_t, 4> extents(AttentionOp op) {
    ArrayRef<int64_t> result = shapeOf(op.getResult()),
                      key = shapeOf(op.getKey());
    return {productOf(result.drop_back(2)), result[result.size() - 2],
            key[key.size() - 2], key.back()};
  }

  std::optional<unsigned> getKeyMaskOperand(Operation *) const { return kMask; }

  PaddingState getPaddedPlaces(Operation *op, const OpAxis &axis, unsigned,
                               ArrayRef<PaddingState> operands) const {
    for (const AxisLink &link : axis.links)
      if (!link.isResult && !operands[link.index].isFinite())
        return PaddingState::any();
    return axis.role != AxisRole::Rows && operands[kValue].isZero()
               ? PaddingState::zero()
               : PaddingState::finite();
  }
};

/// Zeros in the gradient's rows and masked keys have no effect.
struct AttentionGradientModel
    : ContractionModel<AttentionGradientOp, AttentionGradientModel> {
  static constexpr unsigned kQuery = 0, kKey = 1, kValue = 2, kGradient = 3,
                            kMask = 4;

  static void addAxes(AttentionGradientOp op, AxisList &list) {
    ArrayRef<int64_t> query = shapeOf(op.getQuery()),
                      key = shapeOf(op.getKey()),
                      value = shapeOf(op.getValue());
    unsigned rank = query.size(), width = rank - 1, length = rank - 2;
    if (key.size() != rank || value.size() != rank)
      return;
    addBatches(list, op.getMask(), op->getOperands().take_front(kMask),
               /*results=*/3);
    // Three of the five GEMMs have query and key widths as columns or depth,
    // two have the value width.
    addSum(list, AxisRole::Depth, query[width],
           {resultLink(width, 1, kQuery), resultLink(width, 1, kKey),
            operandLink(kQuery, width), operandLink(kKey, width)});
    addSum(list, AxisRole::Columns, value[width],
           {resultLink(width, 1, kValue), operandLink(kValue, width),
            operandLink(kGradient, width)});
    for (OpAxis &axis : list.axes)
      if (axis.role != AxisRole::Batch)
        axis.share = axis.role == AxisRole::Depth ? 0.6 : 0.4;
    if (op.getCausal() && query[length] != key[length])
      return;
    AxisLink gradient = operandLink(kGradient, length);
    gradient.needsZero = true;
    OpAxis *rows = list.add(
        AxisRole::Rows, query[length],
        {resultLink(length, 1, kQuery), operandLink(kQuery, length), gradient});
    if (rows) {
      rows->isTied = op.getCausal();
      rows->need = AxisNeed::Finite;
    }
    OpAxis *keys =
        list.add(AxisRole::Keys, key[length],
                 {resultLink(length, 1, kKey), resultLink(length, 1, kValue),
                  operandLink(kKey, length), operandLink(kValue, length)});
    if (keys) {
      keys->isTied = op.getCausal();
      keys->need = AxisNeed::Finite;
    }
  }

  static std::array<int64_t, 4> extents(AttentionGradientOp op) {
    ArrayRef<int64_t> query = shapeOf(op.getQuery()),
                      key = shapeOf(op.getKey());
    return {productOf(query.drop_back(2)), query[query.size() - 2],
            key[key.size() - 2], key.back()};
  }

  std::optional<unsigned> getKeyMaskOperand(Operation *) const { return kMask; }

  PaddingState getPaddedPlaces(Operation *op, const OpAxis &axis,
                               unsigned result,
                               ArrayRef<PaddingState> operands) const {
    for (const AxisLink &link : axis.links)
      if (!link.isResult && !operands[link.index].isFinite())
        return PaddingState::any();
    // A gradient's padded widths are zero because the other factor is.
    unsigned factor = result == kQuery ? kKey
                      : result == kKey ? kQuery
                                       : kGradient;
    bool isWidth =
        axis.role == AxisRole::Depth || axis.role == AxisRole::Columns;
    bool isZero =
        isWidth ? operands[factor].isZero() : axis.role != AxisRole::Batch;
    return isZero ? PaddingState::zero() : PaddingState::finite();
  }
};

} // namespace

void mpc::registerPaddingModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, MpcDialect *) {
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
    MatmulOp::attachInterface<MatmulModel>(*context);
    ConvOp::attachInterface<ConvModel>(*context);
    ConvTransposeOp::attachInterface<ConvTransposeModel>(*context);
    ConvFilterGradientOp::attachInterface<FilterGradientModel>(*context);
    AttentionOp::attachInterface<AttentionModel>(*context);
    AttentionGradientOp::attachInterface<AttentionGradientModel>(*context);
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
