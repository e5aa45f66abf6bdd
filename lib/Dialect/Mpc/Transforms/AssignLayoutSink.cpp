//===- AssignLayoutSink.cpp - sink transposes towards the end -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges adjacent transposes and sinks them through elementwise ops and
// matmuls. Data movement and reductions: AssignLayoutMovement.cpp. Reshapes:
// AssignLayoutReshape.cpp.
//
//===----------------------------------------------------------------------===//

#include "AssignLayout.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"

using namespace mlir;
using namespace mpc;

using namespace mpc::layout;

Value layout::cloneWith(OpEmitter &emit, Operation *op, ValueRange operands,
                        Type type) {
  Operation *copy = emit.builder.clone(*op);
  copy->setOperands(operands);
  copy->getResult(0).setType(type);
  return copy->getResult(0);
}

Value layout::undo(OpEmitter &emit, Value operand,
                   ArrayRef<int64_t> permutation) {
  if (auto transpose = operand.getDefiningOp<TransposeOp>())
    if (transpose.getPermutation() == permutation)
      return transpose.getInput();
  if (elementCount(operand) == 1 &&
      shapeOf(operand).size() <= permutation.size())
    return operand;
  auto broadcast = operand.getDefiningOp<BroadcastOp>();
  Value source = broadcast ? broadcast.getInput() : operand;
  SmallVector<int64_t> shape(permutation.size() - shapeOf(source).size(), 1);
  llvm::append_range(shape, shapeOf(source));
  SmallVector<int64_t> inverse = inversePermutation(permutation);
  Value undone = emit.transpose(emit.reshape(source, shape), inverse);
  if (!broadcast)
    return undone;
  return emit.create<BroadcastOp>(
      withShape(operand, permuted(shapeOf(operand), inverse)), undone);
}

/// Minimum ratio of result elements to the elements of a small operand.
static constexpr int64_t kSmallFraction = 8;

bool layout::canUndo(Value operand, ArrayRef<int64_t> permutation,
                     int64_t resultElements) {
  if (auto transpose = operand.getDefiningOp<TransposeOp>())
    if (transpose.getPermutation() == permutation)
      return true;
  if (auto broadcast = operand.getDefiningOp<BroadcastOp>();
      broadcast && shapeOf(operand).size() == permutation.size())
    operand = broadcast.getInput();
  // Nothing is small compared to an empty result; otherwise two orders would
  // undo each other forever.
  bool small = resultElements > 0 &&
               elementCount(operand) * kSmallFraction <= resultElements;
  return constantOf(operand) || small || elementCount(operand) == 1;
}

namespace {

//===----------------------------------------------------------------------===//
// Merging
//===----------------------------------------------------------------------===//

struct SimplifyTranspose : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    OpEmitter emit(rewriter, op);
    if (auto inner = op.getInput().getDefiningOp<TransposeOp>()) {
      SmallVector<int64_t> composed =
          permuted(inner.getPermutation(), op.getPermutation());
      rewriter.replaceOp(op, emit.transpose(inner.getInput(), composed));
      return success();
    }
    if (!constantOf(op.getInput()) &&
        !isTrivialTranspose(shapeOf(op.getInput()), op.getPermutation()))
      return rewriter.notifyMatchFailure(op, "moves data that is no constant");
    rewriter.replaceOp(op, emit.transpose(op.getInput(), op.getPermutation()));
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

struct SinkTransposeThroughElementwise
    : OpInterfaceRewritePattern<ElementwiseOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOpInterface op,
                                PatternRewriter &rewriter) const override {
    if (op->hasAttr(kUpdateAttr))
      return rewriter.notifyMatchFailure(op, "belongs to an update");
    Value result = op->getResult(0);
    TransposeOp leader;
    for (Value operand : op->getOperands())
      if (auto transpose = operand.getDefiningOp<TransposeOp>())
        if (!leader && shapeOf(operand) == shapeOf(result))
          leader = transpose;
    if (!leader)
      return rewriter.notifyMatchFailure(
          op, "no operand is a transpose of the result's shape");
    ArrayRef<int64_t> permutation = leader.getPermutation();
    for (Value operand : op->getOperands())
      if (!canUndo(operand, permutation, elementCount(result)))
        return rewriter.notifyMatchFailure(op,
                                           "a large operand has another order");
    OpEmitter emit(rewriter, op);
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(undo(emit, operand, permutation));
    Value value = cloneWith(emit, op, operands,
                            withShape(result, shapeOf(leader.getInput())));
    rewriter.replaceOp(op, emit.transpose(value, permutation));
    return success();
  }
};

/// unary(broadcast(x)) -> broadcast(unary(x)).
struct SinkBroadcastThroughElementwise
    : OpInterfaceRewritePattern<ElementwiseOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOpInterface op,
                                PatternRewriter &rewriter) const override {
    if (op->getNumOperands() != 1)
      return rewriter.notifyMatchFailure(op, "not unary");
    auto broadcast = op->getOperand(0).getDefiningOp<BroadcastOp>();
    if (!broadcast || elementCount(broadcast.getInput()) * kSmallFraction >
                          elementCount(broadcast))
      return rewriter.notifyMatchFailure(op, "operand is nothing repeated");
    OpEmitter emit(rewriter, op);
    Value result = op->getResult(0);
    Value value = cloneWith(emit, op, broadcast.getInput(),
                            withShape(result, shapeOf(broadcast.getInput())));
    rewriter.replaceOp(op, emit.create<BroadcastOp>(result.getType(), value));
    return success();
  }
};

/// cast(select(mask, transpose(x), 0)), where the mask has another layout:
/// rounds before the transpose, which then moves half the bytes.
struct RoundBeforeTranspose : OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SelectOp op,
                                PatternRewriter &rewriter) const override {
    auto cast =
        op->hasOneUse() ? dyn_cast<CastOp>(*op->user_begin()) : CastOp();
    if (!cast || !isNarrowing(cast) || cast->hasAttr(kUpdateAttr))
      return rewriter.notifyMatchFailure(op, "is not rounded, and no more");
    SmallVector<Value> operands(op->getOperands());
    bool isMoved = false;
    for (Value operand : llvm::drop_begin(operands)) {
      auto transpose = operand.getDefiningOp<TransposeOp>();
      if (transpose && transpose->hasOneUse() &&
          shapeOf(transpose) == shapeOf(op))
        isMoved = true;
      else if (elementCount(operand) != 1)
        return rewriter.notifyMatchFailure(op, "selects from whole tensors");
    }
    if (!isMoved)
      return rewriter.notifyMatchFailure(op, "selects nothing that moves");
    OpEmitter emit(rewriter, op);
    Type element = getElementTypeOrSelf(cast.getType());
    auto rounded = [&](Value value) {
      return cloneWith(emit, cast, value,
                       RankedTensorType::get(shapeOf(value), element));
    };
    for (Value &operand : llvm::drop_begin(operands)) {
      auto transpose = operand.getDefiningOp<TransposeOp>();
      operand = transpose ? emit.transpose(rounded(transpose.getInput()),
                                           transpose.getPermutation())
                          : rounded(operand);
    }
    rewriter.replaceOp(cast, cloneWith(emit, op, operands, cast.getType()));
    rewriter.eraseOp(op);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Matmul
//===----------------------------------------------------------------------===//

/// Folds a transpose of the last two right-hand-side dimensions into
/// transpose_rhs. Operands of 8-bit floats stay along k, as wgmma reads them.
struct FoldIntoMatmul : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    auto transpose = op.getRhs().getDefiningOp<TransposeOp>();
    if (!transpose || op.getPacked())
      return rewriter.notifyMatchFailure(op, "right-hand side is no transpose");
    if (isa<Float8E4M3FNType, Float8E5M2Type>(
            getElementTypeOrSelf(op.getRhs())) &&
        op.getTransposeRhs())
      return rewriter.notifyMatchFailure(op, "8-bit floats extend along k");
    if (transpose.getPermutation() !=
        ArrayRef<int64_t>(swapLast(int64_t(shapeOf(transpose).size()))))
      return rewriter.notifyMatchFailure(op,
                                         "transpose moves other dimensions");
    rewriter.modifyOpInPlace(op, [&] {
      op.getRhsMutable().assign(transpose.getInput());
      op.setTransposeRhs(!op.getTransposeRhs());
    });
    return success();
  }
};

/// transpose(matmul(a, b)), with casts in between, as in weight gradients:
/// becomes matmul(b^T, a^T). The access pattern is the same if exactly one
/// operand is transposed.
struct FoldTransposeOfMatmul : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getPermutation() != ArrayRef<int64_t>{1, 0})
      return rewriter.notifyMatchFailure(op, "swaps no two dimensions");
    SmallVector<CastOp> casts;
    Value value = op.getInput();
    for (; value.hasOneUse() && value.getDefiningOp<CastOp>();
         value = casts.back().getInput())
      casts.push_back(value.getDefiningOp<CastOp>());
    auto matmul = value.getDefiningOp<MatmulOp>();
    if (!matmul || !value.hasOneUse() || matmul.getPacked())
      return rewriter.notifyMatchFailure(op, "moves no product of its own");
    if (matmul.getTransposeLhs() == matmul.getTransposeRhs())
      return rewriter.notifyMatchFailure(
          op, "operands would be read in another manner");
    if (shapeOf(matmul.getLhs()).size() != 2 ||
        shapeOf(matmul.getRhs()).size() != 2)
      return rewriter.notifyMatchFailure(op, "operands are no two matrices");
    if (constantOf(matmul.getRhs()))
      return rewriter.notifyMatchFailure(op, "the right side can be packed");
    OpEmitter emit(rewriter, op);
    ArrayRef<int64_t> shape = shapeOf(op);
    Value result = cloneWith(emit, matmul, {matmul.getRhs(), matmul.getLhs()},
                             withShape(matmul, shape));
    for (CastOp cast : llvm::reverse(casts))
      result = cloneWith(emit, cast, result, withShape(cast, shape));
    rewriter.replaceOp(op, result);
    return success();
  }
};

/// Drops the broadcast of a batch operand; matmul broadcasts implicitly.
struct FoldRepeatIntoMatmul : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getPacked())
      return rewriter.notifyMatchFailure(op, "right-hand side is packed");
    for (auto [operand, other] :
         {std::pair(&op.getLhsMutable(), &op.getRhsMutable()),
          std::pair(&op.getRhsMutable(), &op.getLhsMutable())}) {
      auto repeat = operand->get().getDefiningOp<BroadcastOp>();
      if (!repeat || !isRepeatedMatrix(repeat, op, shapeOf(other->get())))
        continue;
      rewriter.modifyOpInPlace(
          op, [&, operand = operand] { operand->set(repeat.getInput()); });
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no matrix is repeated");
  }

private:
  /// Returns true if `other` has all batch dimensions of the result.
  static bool isRepeatedMatrix(BroadcastOp repeat, MatmulOp op,
                               ArrayRef<int64_t> other) {
    ArrayRef<int64_t> from = shapeOf(repeat.getInput()), to = shapeOf(repeat),
                      result = shapeOf(op);
    return from.size() >= 2 && from.take_back(2) == to.take_back(2) &&
           other.size() == result.size() &&
           other.drop_back(2) == result.drop_back(2);
  }
};

/// matmul(reshape(transpose(x)), constant): permutes the constant's rows
/// instead of x.
struct PermuteRowsOfMatmul : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    auto reshape = op.getLhs().getDefiningOp<ReshapeOp>();
    auto transpose = reshape ? reshape.getInput().getDefiningOp<TransposeOp>()
                             : TransposeOp();
    if (!transpose || op.getPacked() || op.getTransposeLhs() ||
        !constantOf(op.getRhs()))
      return rewriter.notifyMatchFailure(
          op, "no flattened transpose times a constant");
    if (exe::targetOf(op).facts().isReproducible)
      return rewriter.notifyMatchFailure(
          op, "K has the model's order, as in training");
    ArrayRef<int64_t> permutation = transpose.getPermutation(),
                      flat = shapeOf(reshape);
    ArrayRef<int64_t> shape = shapeOf(transpose), rhs = shapeOf(op.getRhs());
    if (flat.size() != 2 || rhs.size() != 2 || permutation[0] != 0 ||
        shape[0] != flat[0])
      return rewriter.notifyMatchFailure(op, "more than the rows would move");

    OpEmitter emit(rewriter, op);
    bool rowsLast = op.getTransposeRhs();
    int64_t columns = rowsLast ? rhs[0] : rhs[1];
    // Dimensions of the constant's rows, with the columns first or last.
    SmallVector<int64_t> split(shape.drop_front()), order;
    SmallVector<int64_t> inverse(inversePermutation(permutation));
    for (int64_t dimension : llvm::drop_begin(inverse))
      order.push_back(dimension - 1 + (rowsLast ? 1 : 0));
    split.insert(rowsLast ? split.begin() : split.end(), columns);
    order.insert(rowsLast ? order.begin() : order.end(),
                 rowsLast ? 0 : static_cast<int64_t>(order.size()));
    Value constant = emit.reshape(
        emit.transpose(emit.reshape(op.getRhs(), split), order), rhs);
    Value lhs = emit.reshape(transpose.getInput(), flat);
    rewriter.modifyOpInPlace(op, [&] {
      op.getLhsMutable().assign(lhs);
      op.getRhsMutable().assign(constant);
    });
    return success();
  }
};

} // namespace

void mpc::populateSinkPatterns(RewritePatternSet &patterns) {
  patterns.add<SimplifyTranspose, SinkTransposeThroughElementwise,
               SinkBroadcastThroughElementwise, RoundBeforeTranspose,
               FoldIntoMatmul, FoldTransposeOfMatmul, FoldRepeatIntoMatmul,
               PermuteRowsOfMatmul>(patterns.getContext());
}
