//===- PaddingContractions.cpp - padding of contractions ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The axes of contractions and their requirements on padding elements.
// Contracted axes need zeros; rows and columns may contain anything.
//
//===----------------------------------------------------------------------===//

#include "PaddingModels.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

using namespace mlir;
using namespace mpc;

/// Adds a contracted axis.
static void addSum(AxisList &list, AxisRole role, int64_t extent,
                   ArrayRef<AxisLink> links) {
  if (OpAxis *axis = list.add(role, extent, links))
    axis->need = AxisNeed::Product;
}

namespace {

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

void mpc::attachContractionPadding(MLIRContext &context) {
  MatmulOp::attachInterface<MatmulModel>(context);
  ConvOp::attachInterface<ConvModel>(context);
  ConvTransposeOp::attachInterface<ConvTransposeModel>(context);
  ConvFilterGradientOp::attachInterface<FilterGradientModel>(context);
  AttentionOp::attachInterface<AttentionModel>(context);
  AttentionGradientOp::attachInterface<AttentionGradientModel>(context);
}
