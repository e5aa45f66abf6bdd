//===- AssignLayoutMovement.cpp - sink transposes below data movement -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sinks transposes through concats, slices, pads and reductions.
//
//===----------------------------------------------------------------------===//

#include "AssignLayout.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::layout;

namespace {

//===----------------------------------------------------------------------===//
// Data movement and reductions
//===----------------------------------------------------------------------===//

/// concat(transpose...) -> transpose(concat). Function arguments among the
/// operands get a transpose if one exists already or the readers of the concat
/// undo the order.
struct SinkThroughConcat : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op,
                                PatternRewriter &rewriter) const override {
    TransposeOp leader;
    for (Value input : op.getInputs())
      if (auto transpose = input.getDefiningOp<TransposeOp>();
          transpose && !leader)
        leader = transpose;
    if (!leader)
      return rewriter.notifyMatchFailure(op, "no operand is a transpose");
    SmallVector<int64_t> permutation(leader.getPermutation());
    SmallVector<int64_t> inverse = inversePermutation(permutation);
    llvm::SetVector<Value> given;
    bool isOfArguments = true;
    for (Value input : op.getInputs()) {
      auto transpose = input.getDefiningOp<TransposeOp>();
      bool isTransposed =
          transpose && transpose.getPermutation() == ArrayRef(permutation);
      if (isTransposed)
        isOfArguments &= isa<BlockArgument>(transpose.getInput());
      if (isa<BlockArgument>(input))
        given.insert(input);
      else if (!constantOf(input) && !isTransposed)
        return rewriter.notifyMatchFailure(op,
                                           "operands have different orders");
    }
    if (!given.empty() &&
        !(isOfArguments ? savesTransposes(op, given.getArrayRef(), inverse)
                        : isWanted(op, given.getArrayRef(), inverse)))
      return rewriter.notifyMatchFailure(op, "an argument would be transposed");
    OpEmitter emit(rewriter, op);
    SmallVector<Value> inputs;
    for (Value input : op.getInputs()) {
      TransposeOp known =
          given.contains(input) ? readerIn(inverse, input) : TransposeOp();
      if (known && !known->isBeforeInBlock(op))
        rewriter.moveOpBefore(known, op);
      inputs.push_back(known ? known.getResult()
                             : undo(emit, input, permutation));
    }
    Value value = emit.concat(inputs, permutation[op.getAxis()]);
    rewriter.replaceOp(op, emit.transpose(value, permutation));
    return success();
  }

private:
  /// Returns a user of `value` that transposes it to `order`, or null.
  static TransposeOp readerIn(ArrayRef<int64_t> order, Value value) {
    for (Operation *user : value.getUsers())
      if (auto transpose = dyn_cast<TransposeOp>(user);
          transpose && transpose.getPermutation() == order)
        return transpose;
    return {};
  }

  /// Returns true if every argument in `given` is transposed to `inverse`
  /// anyway, or the readers of the concat undo the order.
  static bool isWanted(ConcatOp op, ArrayRef<Value> given,
                       ArrayRef<int64_t> inverse) {
    bool isAlone = true;
    return llvm::all_of(given,
                        [&](Value argument) {
                          return bool(readerIn(inverse, argument));
                        }) ||
           isUndoneBehind(op, inverse, isAlone);
  }

  /// Returns true if the rewrite removes more transposes than it adds. Without
  /// a strict decrease, concats of transposed arguments alone would be
  /// rewritten back and forth forever.
  static bool savesTransposes(ConcatOp op, ArrayRef<Value> given,
                              ArrayRef<int64_t> inverse) {
    llvm::SetVector<Operation *> going, known;
    int64_t made = 0;
    for (Value argument : given) {
      if (TransposeOp transpose = readerIn(inverse, argument))
        known.insert(transpose);
      else
        ++made;
    }
    for (Value input : op.getInputs())
      if (auto transpose = input.getDefiningOp<TransposeOp>();
          transpose &&
          llvm::all_of(transpose->getUsers(),
                       [&](Operation *user) { return user == op; }))
        going.insert(transpose);
    going.set_subtract(known);
    bool isAlone = true, isUndone = isUndoneBehind(op, inverse, isAlone);
    return int64_t(going.size()) + isUndone > made + !(isUndone && isAlone);
  }

  /// Returns true if a transpose of `operand` by `permutation` can sink below
  /// `user`.
  static bool passes(Operation *user, Value operand,
                     ArrayRef<int64_t> permutation) {
    return isa<ElementwiseOpInterface>(user) && !user->hasAttr(kUpdateAttr) &&
           shapeOf(user->getResult(0)) == shapeOf(operand) &&
           llvm::all_of(user->getOperands(), [&](Value other) {
             return other == operand ||
                    canUndo(other, permutation, elementCount(operand));
           });
  }

  /// Returns true if a transpose to `order` reads the concat, directly or below
  /// ops it can sink through; clears `isAlone` if the concat has any other
  /// reader.
  static bool isUndoneBehind(ConcatOp concat, ArrayRef<int64_t> order,
                             bool &isAlone) {
    llvm::SetVector<Value> values;
    values.insert(concat.getResult());
    bool isUndone = false;
    for (size_t i = 0; i < values.size(); ++i) {
      isUndone |= bool(readerIn(order, values[i]));
      isAlone &= values[i].hasOneUse();
      for (Operation *user : values[i].getUsers())
        if (passes(user, values[i], inversePermutation(order)))
          values.insert(user->getResult(0));
    }
    return isUndone;
  }
};

/// Permutes an attribute that has one entry per dimension.
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

    // Dimensions of the new result, indexed by the input dimension.
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

/// A gather with constant, equally spaced indices is a slice.
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

} // namespace

void mpc::populateMovementPatterns(RewritePatternSet &patterns) {
  patterns.add<
      SinkThroughConcat, SinkThroughSlice, SinkThroughPad,
      SinkThroughReduction<ReduceSumOp>, SinkThroughReduction<ReduceMeanOp>,
      SinkThroughReduction<ReduceProdOp>, SinkThroughReduction<ReduceMaxOp>,
      SinkThroughReduction<ReduceMinOp>, SinkThroughReduction<ArgmaxOp>,
      SinkThroughReduction<ArgminOp>, GatherToSlice>(patterns.getContext());
}
