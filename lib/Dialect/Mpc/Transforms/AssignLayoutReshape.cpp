//===- AssignLayoutReshape.cpp - sink reshapes towards the end ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges adjacent reshapes and sinks them through elementwise ops, transposes
// and slices. A reshape is free itself, but it ends a fused kernel.
//
//===----------------------------------------------------------------------===//

#include "AssignLayout.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::layout;

namespace {

struct SimplifyReshape : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    OpEmitter emit(rewriter, op);
    if (auto inner = op.getInput().getDefiningOp<ReshapeOp>()) {
      rewriter.replaceOp(op, emit.reshape(inner.getInput(), shapeOf(op)));
      return success();
    }
    if (op.getInput().getType() == op.getType()) {
      rewriter.replaceOp(op, op.getInput());
      return success();
    }
    if (!constantOf(op.getInput()))
      return rewriter.notifyMatchFailure(
          op, "input is neither reshape nor constant");
    rewriter.replaceOp(op, emit.reshape(op.getInput(), shapeOf(op)));
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Dimension groups
//===----------------------------------------------------------------------===//

/// A minimal group of dimensions with equal element count on both sides: source
/// dimensions [sourceBegin, sourceEnd) and target dimensions [targetBegin,
/// targetEnd).
struct DimensionGroup {
  int64_t sourceBegin, sourceEnd, targetBegin, targetEnd;
};

/// Splits a reshape into minimal dimension groups; nullopt if an extent is 0.
std::optional<SmallVector<DimensionGroup>>
dimensionGroups(ArrayRef<int64_t> source, ArrayRef<int64_t> target) {
  if (productOf(source) == 0 || productOf(source) != productOf(target))
    return std::nullopt;
  SmallVector<DimensionGroup> groups;
  int64_t i = 0, j = 0, n = source.size(), m = target.size();
  while (i < n || j < m) {
    DimensionGroup group = {i, i, j, j};
    int64_t left = i < n ? source[i++] : 1, right = j < m ? target[j++] : 1;
    while (left != right) {
      if (left < right)
        left *= source[i++];
      else
        right *= target[j++];
    }
    group.sourceEnd = i;
    group.targetEnd = j;
    groups.push_back(group);
  }
  return groups;
}

/// Returns the shape in which a value of shape `operand`, which broadcasts to
/// `to`, broadcasts to `from` with the same elements; nullopt if the reshape
/// merges
// broadcast dimensions with others.
std::optional<SmallVector<int64_t>>
shapeBeforeReshape(ArrayRef<int64_t> operand, ArrayRef<int64_t> from,
                   ArrayRef<int64_t> to) {
  auto groups = dimensionGroups(from, to);
  if (!groups)
    return std::nullopt;
  SmallVector<int64_t> padded(to.size() - operand.size(), 1);
  llvm::append_range(padded, operand);
  SmallVector<int64_t> shape;
  for (const DimensionGroup &group : *groups) {
    auto target = llvm::seq(group.targetBegin, group.targetEnd);
    bool isWhole =
        llvm::all_of(target, [&](int64_t d) { return padded[d] == to[d]; });
    if (!isWhole &&
        llvm::any_of(target, [&](int64_t d) { return padded[d] != 1; }))
      return std::nullopt;
    for (int64_t d = group.sourceBegin; d < group.sourceEnd; ++d)
      shape.push_back(isWhole ? from[d] : 1);
  }
  // Leading extents of 1 are implicit in a broadcast.
  while (shape.size() > operand.size() && shape.front() == 1)
    shape.erase(shape.begin());
  return shape;
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

/// elementwise(reshape(x), ...) -> reshape(elementwise(x, ...)) if the other
/// operands are available in the shape of x: reshapes from that shape, function
/// arguments and reshapes of them, masks that are stored in memory, scalars,
/// and operands that broadcast along whole dimension groups.
struct SinkReshapeThroughElementwise
    : OpInterfaceRewritePattern<ElementwiseOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOpInterface op,
                                PatternRewriter &rewriter) const override {
    Value result = op->getResult(0);
    ReshapeOp leader = findLeader(op);
    if (!leader)
      return rewriter.notifyMatchFailure(op, "no reshape of a computed value");
    ArrayRef<int64_t> from = shapeOf(leader.getInput());
    SmallVector<SmallVector<int64_t>> shapes;
    for (Value operand : op->getOperands()) {
      std::optional<SmallVector<int64_t>> shape =
          shapeBefore(op, operand, leader.getInput());
      if (!shape)
        return rewriter.notifyMatchFailure(
            op, "an operand has no shape before the reshape");
      shapes.push_back(*shape);
    }
    OpEmitter emit(rewriter, op);
    SmallVector<Value> operands;
    for (auto [operand, shape] : llvm::zip_equal(op->getOperands(), shapes)) {
      auto reshape = operand.getDefiningOp<ReshapeOp>();
      operands.push_back(
          emit.reshape(reshape ? reshape.getInput() : operand, shape));
    }
    Value value = cloneWith(emit, op, operands, withShape(result, from));
    rewriter.replaceOp(op, emit.reshape(value, shapeOf(result)));
    return success();
  }

private:
  /// Returns the first operand that reshapes a computed value to the result's
  /// shape, or null.
  static ReshapeOp findLeader(Operation *op) {
    for (Value operand : op->getOperands())
      if (auto reshape = operand.getDefiningOp<ReshapeOp>();
          reshape && shapeOf(operand) == shapeOf(op->getResult(0)) &&
          !isa<BlockArgument>(reshape.getInput()) &&
          (elementCount(operand) != 1 || elementCount(op->getResult(0)) == 1))
        return reshape;
    return {};
  }

  /// Returns true if operands that are not reshapes can be viewed in the shape
  /// of `source`. Updates keep the shape of their parameter. If `source` is
  /// data movement, its kernel does the arithmetic in the target shape.
  static bool mayChangeShape(Operation *op, Value source) {
    if (op->hasAttr(kUpdateAttr))
      return false;
    Operation *maker = makerOf(source);
    return !maker || fusionClassOf(maker) != FusionClass::IndexMap;
  }

  /// Returns the producer of `source`, looking through elementwise ops; null
  /// for an argument.
  static Operation *makerOf(Value source) {
    Operation *maker = source.getDefiningOp();
    while (maker && isa<ElementwiseOpInterface>(maker)) {
      auto operands = maker->getOperands();
      auto whole = llvm::find_if(operands, [&](Value operand) {
        return shapeOf(operand) == shapeOf(source);
      });
      maker = whole == operands.end() ? nullptr : (*whole).getDefiningOp();
    }
    return maker;
  }

  /// Returns true if `operand` is a mask in memory (it has other readers) and
  /// `source` is computed from a matmul, so the mask is applied to accumulators
  /// in registers.
  static bool isStoredMask(Operation *op, Value operand, Value source) {
    return getElementTypeOrSelf(operand.getType()).isInteger(1) &&
           !operand.hasOneUse() && !op->hasAttr(kUpdateAttr) &&
           isa_and_nonnull<MatmulOp>(makerOf(source));
  }

  static std::optional<SmallVector<int64_t>>
  shapeBefore(Operation *op, Value operand, Value source) {
    ArrayRef<int64_t> own = shapeOf(operand), to = shapeOf(op->getResult(0)),
                      from = shapeOf(source);
    auto reshape = operand.getDefiningOp<ReshapeOp>();
    if (own == to) {
      // Function arguments can be viewed in any shape.
      bool isView =
          reshape ? isa<BlockArgument>(reshape.getInput()) ||
                        shapeOf(reshape.getInput()) == from
                  : ((isa<BlockArgument>(operand) || constantOf(operand)) &&
                     mayChangeShape(op, source)) ||
                        isStoredMask(op, operand, source);
      return isView ? std::optional(SmallVector<int64_t>(from)) : std::nullopt;
    }
    // Rank 0 or 1, so that the result's rank does not grow.
    if (elementCount(operand) == 1)
      return SmallVector<int64_t>(from.empty() ? 0 : 1, 1);
    return mayChangeShape(op, source) ? shapeBeforeReshape(own, from, to)
                                      : std::nullopt;
  }
};

//===----------------------------------------------------------------------===//
// Reshapes of transposes
//===----------------------------------------------------------------------===//

/// reshape(transpose(x)) -> transpose(reshape(x)) if the reshape merges only
/// dimensions that are adjacent in x. Dimensions of extent 1 are adjacent to
/// all.
struct SinkThroughReshape : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    auto leader = op.getInput().getDefiningOp<TransposeOp>();
    if (!leader)
      return rewriter.notifyMatchFailure(op, "input is no transpose");
    ArrayRef<int64_t> permutation = leader.getPermutation(),
                      joined = shapeOf(leader);
    auto groups = dimensionGroups(joined, shapeOf(op));
    if (!groups)
      return rewriter.notifyMatchFailure(op, "nothing to move");
    // Rank of each dimension among the dimensions of x with more than one
    // element.
    SmallVector<int64_t> rank(permutation.size(), 0);
    for (size_t d = 1; d < rank.size(); ++d)
      rank[d] = rank[d - 1] + (shapeOf(leader.getInput())[d - 1] != 1);
    SmallVector<std::pair<int64_t, DimensionGroup>> inOrder;
    int64_t place = -1;
    for (const DimensionGroup &group : *groups) {
      int64_t last = -1;
      for (int64_t d = group.sourceBegin; d < group.sourceEnd; ++d) {
        if (joined[d] == 1)
          continue;
        int64_t here = rank[permutation[d]];
        if (last >= 0 && here != last + 1)
          return rewriter.notifyMatchFailure(op, "joined dimensions lie apart");
        place = last < 0 ? here : place;
        last = here;
      }
      // A group of extent 1 follows the group before it.
      inOrder.push_back({place, group});
    }
    llvm::sort(inOrder, [](const auto &a, const auto &b) {
      return std::tie(a.first, a.second.sourceBegin, a.second.targetBegin) <
             std::tie(b.first, b.second.sourceBegin, b.second.targetBegin);
    });
    SmallVector<int64_t> shape, order(shapeOf(op).size());
    for (const auto &[position, group] : inOrder)
      for (int64_t d = group.targetBegin; d < group.targetEnd; ++d) {
        order[d] = shape.size();
        shape.push_back(shapeOf(op)[d]);
      }
    OpEmitter emit(rewriter, op);
    rewriter.replaceOp(
        op, emit.transpose(emit.reshape(leader.getInput(), shape), order));
    return success();
  }
};

/// reshape(slice(x)) -> slice(reshape(x)) if every slice boundary is a multiple
/// of the result's inner extent, as when heads are sliced from a packed
/// projection.
struct HoistReshapeAboveSlice : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    auto slice = op.getInput().getDefiningOp<SliceOp>();
    if (!slice || isa<BlockArgument>(slice.getInput()) ||
        constantOf(slice.getInput()) ||
        llvm::any_of(slice.getStrideValues(),
                     [](int64_t stride) { return stride != 1; }))
      return rewriter.notifyMatchFailure(op, "input is no slice of neighbours");
    ArrayRef<int64_t> source = shapeOf(slice.getInput()), part = shapeOf(slice);
    size_t lead = 0;
    while (lead < part.size() && source[lead] == 1)
      ++lead;
    if (lead < part.size() && source[lead] != part[lead] &&
        source.drop_front(lead + 1) == part.drop_front(lead + 1))
      return rewriter.notifyMatchFailure(op,
                                         "a contiguous piece moves nothing");
    auto groups = dimensionGroups(part, shapeOf(op));
    if (!groups)
      return rewriter.notifyMatchFailure(op, "nothing to move");
    SmallVector<int64_t> shape(shapeOf(op)), offsets(shape.size(), 0);
    for (const DimensionGroup &group : *groups) {
      // The sliced dimension, after dimensions of extent 1 and before whole
      // ones.
      int64_t cut = group.sourceBegin;
      while (cut < group.sourceEnd && source[cut] == part[cut] &&
             part[cut] == 1)
        ++cut;
      if (cut == group.sourceEnd || source[cut] == part[cut]) {
        if (source.slice(group.sourceBegin,
                         group.sourceEnd - group.sourceBegin) !=
            part.slice(group.sourceBegin, group.sourceEnd - group.sourceBegin))
          return rewriter.notifyMatchFailure(
              op, "a cut lies inside a joined dimension");
        continue;
      }
      if (source.slice(cut + 1, group.sourceEnd - cut - 1) !=
          part.slice(cut + 1, group.sourceEnd - cut - 1))
        return rewriter.notifyMatchFailure(op, "two joined dimensions are cut");
      int64_t target = group.targetBegin;
      while (target + 1 < group.targetEnd && shape[target] == 1)
        ++target;
      if (target >= group.targetEnd)
        return rewriter.notifyMatchFailure(op, "the cut dimension disappears");
      int64_t rest =
          productOf(source.slice(cut + 1, group.sourceEnd - cut - 1));
      int64_t inner = productOf(ArrayRef<int64_t>(shape).slice(
          target + 1, group.targetEnd - target - 1));
      int64_t offset = slice.getOffsets()[cut] * rest,
              whole = source[cut] * rest;
      if (inner == 0 || offset % inner != 0 || whole % inner != 0)
        return rewriter.notifyMatchFailure(op, "the cut lies inside a piece");
      offsets[target] = offset / inner;
      shape[target] = whole / inner;
    }
    OpEmitter emit(rewriter, op);
    SmallVector<int64_t> sizes(shapeOf(op));
    rewriter.replaceOp(
        op, emit.slice(emit.reshape(slice.getInput(), shape), offsets, sizes));
    return success();
  }
};

} // namespace

void mpc::populateReshapePatterns(RewritePatternSet &patterns) {
  patterns.add<SimplifyReshape, SinkReshapeThroughElementwise,
               SinkThroughReshape, HoistReshapeAboveSlice>(
      patterns.getContext());
}
