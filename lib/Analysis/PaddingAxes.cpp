//===- PaddingAxes.cpp - which dimensions of an op can grow ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/PaddingAxes.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

const AxisLink *OpAxis::find(bool isResult, unsigned index) const {
  for (const AxisLink &link : links)
    if (link.isResult == isResult && link.index == index)
      return &link;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Building axes
//===----------------------------------------------------------------------===//

namespace {

/// Collects axes; those of one place are left out.
class AxisList {
public:
  void add(AxisRole role, int64_t extent, ArrayRef<AxisLink> links) {
    if (extent > 1)
      axes.push_back({role, extent, SmallVector<AxisLink, 4>(links)});
  }
  SmallVector<OpAxis> axes;
};

} // namespace

static AxisLink operandLink(unsigned index, unsigned dim, int64_t scale = 1) {
  return {/*isResult=*/false, index, dim, scale};
}
static AxisLink resultLink(unsigned dim, int64_t scale = 1) {
  return {/*isResult=*/true, 0, dim, scale};
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

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

static void addMatmul(MatmulOp op, AxisList &list) {
  if (op.getPacked())
    return;
  ArrayRef<int64_t> lhs = shapeOf(op.getLhs()), rhs = shapeOf(op.getRhs()),
                    result = shapeOf(op.getResult());
  unsigned left = lhs.size(), right = rhs.size(), out = result.size();
  unsigned m = op.getTransposeLhs() ? left - 1 : left - 2;
  unsigned k = op.getTransposeLhs() ? left - 2 : left - 1;
  unsigned depth = op.getTransposeRhs() ? right - 1 : right - 2;
  unsigned n = op.getTransposeRhs() ? right - 2 : right - 1;
  for (unsigned dim = 0; dim + 2 < out; ++dim) {
    SmallVector<AxisLink> links = {resultLink(dim)};
    unsigned behind = out - dim;
    if (behind <= left && lhs[left - behind] == result[dim])
      links.push_back(operandLink(0, left - behind));
    if (behind <= right && rhs[right - behind] == result[dim])
      links.push_back(operandLink(1, right - behind));
    list.add(AxisRole::Batch, result[dim], links);
  }
  list.add(AxisRole::Rows, lhs[m], {resultLink(out - 2), operandLink(0, m)});
  list.add(AxisRole::Columns, rhs[n], {resultLink(out - 1), operandLink(1, n)});
  list.add(AxisRole::Depth, lhs[k], {operandLink(0, k), operandLink(1, depth)});
}

static void addConv(ConvOp op, AxisList &list) {
  ArrayRef<int64_t> input = shapeOf(op.getInput());
  list.add(AxisRole::Batch, input[0], {resultLink(0), operandLink(0, 0)});
  if (op.getGroups() != 1 || op.getPacked())
    return;
  ArrayRef<int64_t> filter = shapeOf(op.getFilter());
  unsigned channel =
      op.getLayout() == ImageLayout::channels_last ? input.size() - 1 : 1;
  list.add(AxisRole::Columns, filter[0],
           {resultLink(channel), operandLink(1, 0)});
  list.add(AxisRole::Depth, filter[1],
           {operandLink(0, channel), operandLink(1, 1)});
}

static void addAttention(AttentionOp op, AxisList &list) {
  ArrayRef<int64_t> query = shapeOf(op.getQuery()), key = shapeOf(op.getKey()),
                    value = shapeOf(op.getValue());
  unsigned rank = query.size();
  if (key.size() != rank || value.size() != rank)
    return;
  ArrayRef<int64_t> mask =
      op.getMask() ? shapeOf(op.getMask()) : ArrayRef<int64_t>();
  for (unsigned dim = 0; dim + 2 < rank; ++dim) {
    unsigned behind = rank - dim;
    bool masked = behind <= mask.size() && mask[mask.size() - behind] != 1;
    if (!masked && key[dim] == query[dim] && value[dim] == query[dim])
      list.add(AxisRole::Batch, query[dim],
               {resultLink(dim), operandLink(0, dim), operandLink(1, dim),
                operandLink(2, dim)});
  }
  list.add(AxisRole::Depth, query[rank - 1],
           {operandLink(0, rank - 1), operandLink(1, rank - 1)});
  list.add(AxisRole::Columns, value[rank - 1],
           {resultLink(rank - 1), operandLink(2, rank - 1)});
  // The causal diagonal depends on both lengths.
  if (op.getCausal() && query[rank - 2] != key[rank - 2])
    return;
  list.add(AxisRole::Rows, query[rank - 2],
           {resultLink(rank - 2), operandLink(0, rank - 2)});
  list.add(AxisRole::Keys, key[rank - 2],
           {operandLink(1, rank - 2), operandLink(2, rank - 2)});
}

//===----------------------------------------------------------------------===//
// Rows: softmax, norms, reductions, pools
//===----------------------------------------------------------------------===//

/// Every dimension but `closed` goes through unchanged.
static void addThrough(Operation *op, ArrayRef<int64_t> closed,
                       AxisList &list) {
  for (auto [dim, extent] : llvm::enumerate(shapeOf(op->getResult(0))))
    if (!llvm::is_contained(closed, int64_t(dim)))
      list.add(AxisRole::Map, extent, {resultLink(dim), operandLink(0, dim)});
}

template <typename OpTy> static void addReduction(OpTy op, AxisList &list) {
  unsigned place = 0;
  for (auto [dim, extent] : llvm::enumerate(shapeOf(op.getInput()))) {
    bool reduced = llvm::is_contained(op.getAxes(), int64_t(dim));
    if (!reduced)
      list.add(AxisRole::Map, extent, {resultLink(place), operandLink(0, dim)});
    if (!reduced || op.getKeepDims())
      ++place;
  }
}

/// The dimensions from `axis` on.
static SmallVector<int64_t> trailing(Operation *op, int64_t axis) {
  SmallVector<int64_t> dims;
  for (int64_t dim = axis, rank = shapeOf(op->getResult(0)).size(); dim < rank;
       ++dim)
    dims.push_back(dim);
  return dims;
}

template <typename OpTy> static void addPool(OpTy op, AxisList &list) {
  unsigned rank = shapeOf(op.getInput()).size();
  unsigned channel =
      op.getLayout() == ImageLayout::channels_last ? rank - 1 : 1;
  for (unsigned dim : {0u, channel})
    list.add(AxisRole::Map, shapeOf(op.getInput()) [dim],
             { resultLink(dim), operandLink(0, dim) });
}

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

static void addSlice(SliceOp op, AxisList &list) {
  SmallVector<int64_t> strides = op.getStrideValues();
  for (auto [dim, extent] : llvm::enumerate(shapeOf(op.getInput()))) {
    int64_t offset = op.getOffsets()[dim], size = op.getSizes()[dim];
    // A part at a multiple of its own size: one of equal neighbours.
    if (size > 0 && (strides[dim] == 1 || size == 1) && offset % size == 0 &&
        extent % size == 0)
      list.add(AxisRole::Map, size,
               {resultLink(dim), operandLink(0, dim, extent / size)});
  }
}

/// Dimensions of more than one place.
static SmallVector<unsigned> realDims(ArrayRef<int64_t> shape) {
  SmallVector<unsigned> dims;
  for (auto [dim, extent] : llvm::enumerate(shape))
    if (extent != 1)
      dims.push_back(dim);
  return dims;
}

/// Where a run of dimensions becomes one, its last dimension is an axis that
/// the one holds several times.
static void addReshape(ReshapeOp op, AxisList &list) {
  ArrayRef<int64_t> in = shapeOf(op.getInput()), out = shapeOf(op.getResult());
  if (elementCount(op.getResult()) == 0)
    return;
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
}

static void addGather(GatherOp op, AxisList &list) {
  unsigned axis = op.getAxis(), indices = shapeOf(op.getIndices()).size();
  for (auto [dim, extent] : llvm::enumerate(shapeOf(op.getInput())))
    if (dim != axis)
      list.add(AxisRole::Map, extent,
               {resultLink(dim < axis ? dim : dim + indices - 1),
                operandLink(0, dim)});
}

static void addBroadcast(BroadcastOp op, AxisList &list) {
  ArrayRef<int64_t> in = shapeOf(op.getInput()), out = shapeOf(op.getResult());
  for (auto [dim, extent] : llvm::enumerate(out)) {
    SmallVector<AxisLink> links = {resultLink(dim)};
    unsigned behind = out.size() - dim;
    if (behind <= in.size() && in[in.size() - behind] == extent)
      links.push_back(operandLink(0, in.size() - behind));
    list.add(AxisRole::Map, extent, links);
  }
}

static void addConcat(ConcatOp op, AxisList &list) {
  for (auto [dim, extent] : llvm::enumerate(shapeOf(op.getResult()))) {
    if (dim == op.getAxis())
      continue;
    SmallVector<AxisLink> links = {resultLink(dim)};
    for (unsigned index = 0; index < op.getInputs().size(); ++index)
      links.push_back(operandLink(index, dim));
    list.add(AxisRole::Map, extent, links);
  }
}

SmallVector<OpAxis> mpc::paddableAxes(Operation *op) {
  AxisList list;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](MatmulOp op) { addMatmul(op, list); })
      .Case([&](ConvOp op) { addConv(op, list); })
      .Case([&](AttentionOp op) { addAttention(op, list); })
      .Case<ReduceSumOp, ReduceMeanOp, ReduceProdOp, ReduceMaxOp, ReduceMinOp>(
          [&](auto op) { addReduction(op, list); })
      .Case<SoftmaxOp, LogSoftmaxOp>(
          [&](auto op) { addThrough(op, {int64_t(op.getAxis())}, list); })
      .Case<LayerNormOp, RmsNormOp>([&](auto op) {
        // A row of zeros has variance 0.
        if (op.getEpsilon().convertToDouble() > 0)
          addThrough(op, trailing(op, op.getAxis()), list);
      })
      .Case<MaxPoolOp, AvgPoolOp>([&](auto op) { addPool(op, list); })
      .Case([&](SliceOp op) { addSlice(op, list); })
      .Case([&](ReshapeOp op) { addReshape(op, list); })
      .Case([&](TransposeOp op) {
        for (auto [dim, from] : llvm::enumerate(op.getPermutation()))
          list.add(AxisRole::Map, shapeOf(op.getInput()) [from],
                   { resultLink(dim), operandLink(0, from) });
      })
      .Case([&](GatherOp op) { addGather(op, list); })
      .Case([&](BroadcastOp op) { addBroadcast(op, list); })
      .Case([&](ConcatOp op) { addConcat(op, list); })
      .Default([&](Operation *op) {
        if (isa<ElementwiseOpInterface>(op))
          addElementwise(op, list);
      });
  return list.axes;
}
