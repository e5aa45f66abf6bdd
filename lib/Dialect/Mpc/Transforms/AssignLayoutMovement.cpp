//===- AssignLayoutMovement.cpp - transposes behind other movement --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The way of transposes and reshapes through concats, slices, pads, reductions
// and each other.
//
//===----------------------------------------------------------------------===//

#include "AssignLayout.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::layout;

namespace {

//===----------------------------------------------------------------------===//
// Data movement and reductions
//===----------------------------------------------------------------------===//

struct SinkThroughConcat : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op,
                                PatternRewriter &rewriter) const override {
    auto leader = op.getInputs().front().getDefiningOp<TransposeOp>();
    if (!leader)
      return rewriter.notifyMatchFailure(op, "first operand is no transpose");
    ArrayRef<int64_t> permutation = leader.getPermutation();
    for (Value input : op.getInputs()) {
      auto transpose = input.getDefiningOp<TransposeOp>();
      if (!constantOf(input) &&
          (!transpose || transpose.getPermutation() != permutation))
        return rewriter.notifyMatchFailure(op,
                                           "operands have different orders");
    }
    OpEmitter emit(rewriter, op);
    SmallVector<Value> inputs;
    for (Value input : op.getInputs())
      inputs.push_back(undo(emit, input, permutation));
    Value value = emit.concat(inputs, permutation[op.getAxis()]);
    rewriter.replaceOp(op, emit.transpose(value, permutation));
    return success();
  }
};

/// Arrays with one entry per dimension follow the dimensions.
DenseI64ArrayAttr permutedAttr(PatternRewriter &rewriter,
                               DenseI64ArrayAttr values,
                               ArrayRef<int64_t> permutation) {
  if (!values)
    return values;
  return rewriter.getDenseI64ArrayAttr(
      permuted(values.asArrayRef(), inversePermutation(permutation)));
}

struct SinkThroughSlice : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    auto leader = op.getInput().getDefiningOp<TransposeOp>();
    if (!leader)
      return rewriter.notifyMatchFailure(op, "input is no transpose");
    ArrayRef<int64_t> permutation = leader.getPermutation();
    OpEmitter emit(rewriter, op);
    DenseI64ArrayAttr sizes =
        permutedAttr(rewriter, op.getSizesAttr(), permutation);
    Value value = emit.create<SliceOp>(
        withShape(op, sizes.asArrayRef()), leader.getInput(),
        permutedAttr(rewriter, op.getOffsetsAttr(), permutation), sizes,
        permutedAttr(rewriter, op.getStridesAttr(), permutation));
    rewriter.replaceOp(op, emit.transpose(value, permutation));
    return success();
  }
};

struct SinkThroughPad : OpRewritePattern<PadOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(PadOp op,
                                PatternRewriter &rewriter) const override {
    auto leader = op.getInput().getDefiningOp<TransposeOp>();
    if (!leader)
      return rewriter.notifyMatchFailure(op, "input is no transpose");
    ArrayRef<int64_t> permutation = leader.getPermutation();
    OpEmitter emit(rewriter, op);
    SmallVector<int64_t> shape =
        permuted(shapeOf(op), inversePermutation(permutation));
    Value value = emit.create<PadOp>(
        withShape(op, shape), leader.getInput(), op.getValue(),
        permutedAttr(rewriter, op.getLowAttr(), permutation),
        permutedAttr(rewriter, op.getHighAttr(), permutation),
        permutedAttr(rewriter, op.getInteriorAttr(), permutation),
        op.getModeAttr());
    rewriter.replaceOp(op, emit.transpose(value, permutation));
    return success();
  }
};

template <typename OpTy> struct SinkThroughReduction : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    auto leader = op.getInput().template getDefiningOp<TransposeOp>();
    if (!leader)
      return rewriter.notifyMatchFailure(op, "input is no transpose");
    ArrayRef<int64_t> permutation = leader.getPermutation();
    SmallVector<int64_t> axes;
    for (int64_t axis : op.getReductionAxes())
      axes.push_back(permutation[axis]);
    llvm::sort(axes);

    // Dimensions of the new result, by the input dimension they come from.
    SmallVector<int64_t> kept, shape, order;
    for (int64_t d = 0, rank = permutation.size(); d < rank; ++d) {
      bool reduced = llvm::is_contained(axes, d);
      if (reduced && !op.getKeepDims())
        continue;
      kept.push_back(d);
      shape.push_back(reduced ? 1 : shapeOf(leader.getInput())[d]);
    }
    for (int64_t dimension : permutation)
      if (auto *place = llvm::find(kept, dimension); place != kept.end())
        order.push_back(place - kept.begin());

    OpEmitter emit(rewriter, op);
    Value value = cloneWith(emit, op, leader.getInput(),
                            withShape(op.getResult(), shape));
    setAxes(cast<OpTy>(value.getDefiningOp()), axes);
    rewriter.replaceOp(op, emit.transpose(value, order));
    return success();
  }
  static void setAxes(OpTy op, ArrayRef<int64_t> axes) {
    if constexpr (requires { op.setAxes(axes); })
      op.setAxes(axes);
    else
      op.setAxis(axes.front());
  }
};

/// A gather at known positions, one after the other at equal distances, is a
/// slice.
struct GatherToSlice : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override {
    ElementsAttr attr = constantOf(op.getIndices());
    auto indices = attr ? integerElements(attr) : std::nullopt;
    if (!indices || indices->empty())
      return rewriter.notifyMatchFailure(op, "indices are not known");
    int64_t axis = op.getAxis(), extent = shapeOf(op.getInput())[axis];
    for (int64_t &index : *indices) {
      if (index < -extent || index >= extent)
        return rewriter.notifyMatchFailure(op, "an index is outside");
      index += index < 0 ? extent : 0;
    }
    int64_t count = indices->size(),
            step = count > 1 ? (*indices)[1] - (*indices)[0] : 1;
    for (int64_t i = 1; i < count; ++i)
      if (step <= 0 || (*indices)[i] - (*indices)[i - 1] != step)
        return rewriter.notifyMatchFailure(
            op, "positions are no ascending progression");
    OpEmitter emit(rewriter, op);
    SmallVector<int64_t> offsets(shapeOf(op.getInput()).size(), 0),
        sizes(shapeOf(op.getInput())), strides(sizes.size(), 1);
    offsets[axis] = indices->front();
    sizes[axis] = count;
    strides[axis] = step;
    Value part = emit.slice(op.getInput(), offsets, sizes, strides);
    rewriter.replaceOp(op, emit.reshape(part, shapeOf(op)));
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Reshapes of transposes
//===----------------------------------------------------------------------===//

/// Dimensions [sourceBegin, sourceEnd) hold the elements of [targetBegin,
/// targetEnd).
struct DimensionGroup {
  int64_t sourceBegin, sourceEnd, targetBegin, targetEnd;
};

/// The finest groups of dimensions that a reshape keeps apart, or nullopt where
/// an extent is 0.
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

/// reshape(transpose(x)) -> transpose(reshape(x)) where the reshape joins only
/// dimensions that lie side by side in x. Dimensions of extent 1 lie anywhere.
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
    // Where each dimension stands among x's dimensions of more than one
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
      // A group of one element stays behind the group before it.
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

/// reshape(slice(x)) -> slice(reshape(x)) where every cut falls between whole
/// pieces of the result: heads are cut out of a packed projection.
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
      // The cut dimension, behind dimensions of extent 1 and before whole ones.
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

void mpc::populateMovementPatterns(RewritePatternSet &patterns) {
  patterns.add<
      SinkThroughConcat, SinkThroughSlice, SinkThroughPad,
      SinkThroughReduction<ReduceSumOp>, SinkThroughReduction<ReduceMeanOp>,
      SinkThroughReduction<ReduceProdOp>, SinkThroughReduction<ReduceMaxOp>,
      SinkThroughReduction<ReduceMinOp>, SinkThroughReduction<ArgmaxOp>,
      SinkThroughReduction<ArgminOp>, SinkThroughReshape,
      HoistReshapeAboveSlice, GatherToSlice>(patterns.getContext());
}
