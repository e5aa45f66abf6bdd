//===- RecognizeExpertRouting.cpp - mixture-of-experts routing as masks ---===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A mixture-of-experts router selects the top k experts of each token, rescales
// their weights and scatters them into a row of zeros. Replaces top-k and
// scatter by a mask over the row, so that softmax, selection and rescaling of a
// row fuse into one kernel.
//
//===----------------------------------------------------------------------===//

#include "MatchUtils.h"

#include "mpc/Analysis/Fusion/HorizontalFusion.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZEEXPERTROUTINGPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

namespace {

/// Maximum k: each selection is one more pass over the row, and a kernel holds
/// about 64 ops.
constexpr int64_t kMostChoices = 4;

/// Returns true if all elements are NaN or nonnegative.
bool isNonNegative(Value value) {
  return isa_and_nonnull<SoftmaxOp, SigmoidOp>(value.getDefiningOp());
}

RankedTensorType withExtent(Value like, int64_t extent, Type element = {}) {
  auto type = cast<RankedTensorType>(like.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = extent;
  return RankedTensorType::get(shape,
                               element ? element : type.getElementType());
}

/// The ops from a top_k to the scatter that writes its values back.
class Routing {
public:
  /// Matches the routing ending in `scatter`; nullopt otherwise.
  static std::optional<Routing> match(ScatterElementsOp scatter);

  /// Rewrites the scatter's result to masked ops.
  Value rewrite(PatternRewriter &rewriter);

private:
  Routing(ScatterElementsOp scatter, TopKOp top) : scatter(scatter), top(top) {}
  bool collect();
  bool isPerChoice(Value value);
  Value choose(PatternRewriter &rewriter);

  ScatterElementsOp scatter;
  TopKOp top;
  /// Elementwise ops and reductions over the k choices, in block order.
  SmallVector<Operation *> chain;
  /// Ops of the chain with one value per choice, not one per row.
  llvm::SmallPtrSet<Operation *, 8> perChoice;
};
} // namespace

/// Returns true if the op is linear in its per-choice operands. Masking the
/// values of unselected experts also masks their gradients only if the
/// derivative is a per-row value: sqrt, for example, has an infinite derivative
/// at probability 0.
static bool isLinear(Operation *op,
                     llvm::function_ref<bool(Value)> isPerChoice) {
  if (isa<MulOp>(op))
    return llvm::count_if(op->getOperands(), isPerChoice) == 1;
  if (isa<DivOp>(op))
    return !isPerChoice(op->getOperand(1));
  return isa<AddOp, SubOp, NegOp, CastOp>(op);
}

/// Returns true if a value has one element per choice; valid for visited ops.
bool Routing::isPerChoice(Value value) {
  Operation *maker = value.getDefiningOp();
  return maker == top || perChoice.contains(maker);
}

/// Collects all users of the selected values; returns false if one is not
/// elementwise or a row sum into the scatter, or has an operand that is neither
/// per choice nor per row.
bool Routing::collect() {
  llvm::SmallPtrSet<Operation *, 8> seen;
  SmallVector<Value> work = {top.getValues()};
  while (!work.empty())
    for (OpOperand &use : work.pop_back_val().getUses()) {
      Operation *op = use.getOwner();
      if (op == scatter) {
        if (use.getOperandNumber() !=
            scatter.getUpdatesMutable().getOperandNumber())
          return false;
        continue;
      }
      auto sum = dyn_cast<ReduceSumOp>(op);
      bool isRowSum =
          sum && sum.getKeepDims() &&
          sum.getAxes() == ArrayRef<int64_t>(rankOf(sum.getInput()) - 1);
      if (!isRowSum &&
          !(isa<ElementwiseOpInterface>(op) && op->getNumResults() == 1))
        return false;
      if (op->getBlock() != scatter->getBlock())
        return false;
      if (!seen.insert(op).second)
        continue;
      chain.push_back(op);
      work.push_back(op->getResult(0));
    }
  llvm::sort(chain,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : chain) {
    for (Value operand : op->getOperands()) {
      if (isPerChoice(operand)) {
        if (!isa<ReduceSumOp>(op))
          perChoice.insert(op);
      } else if (!shapeOf(operand).empty() && shapeOf(operand).back() != 1) {
        return false;
      }
    }
    if (perChoice.contains(op) && (!isLinear(op, [&](Value value) {
          return isPerChoice(value);
        }) || shapeOf(op->getResult(0)) != shapeOf(top.getValues())))
      return false;
  }
  return isPerChoice(scatter.getUpdates());
}

std::optional<Routing> Routing::match(ScatterElementsOp scatter) {
  auto top = scatter.getIndices().getDefiningOp<TopKOp>();
  if (!top || scatter.getIndices() != top.getIndices() ||
      !top.getIndices().hasOneUse() || !top.getLargest() ||
      scatter.getReduction() != ScatterReduction::none)
    return std::nullopt;
  int64_t last = rankOf(top.getInput()) - 1, choices = top.getK();
  if (int64_t(top.getAxis()) != last || int64_t(scatter.getAxis()) != last ||
      choices < 1 || choices > kMostChoices ||
      shapeOf(scatter.getInput()) != shapeOf(top.getInput()) ||
      !canBufferRowChains(shapeOf(top.getInput())) ||
      !isNonNegative(top.getInput()))
    return std::nullopt;
  Routing routing(scatter, top);
  return routing.collect() ? std::optional(routing) : std::nullopt;
}

/// Mask of the k largest elements of each row, by k repeated maxima. Selected
/// elements are replaced by -1, which is below all others. As in top_k, ties
/// select the first element and NaN precedes numbers.
Value Routing::choose(PatternRewriter &rewriter) {
  Location loc = top.getLoc();
  Value input = top.getInput();
  auto type = cast<RankedTensorType>(input.getType());
  int64_t extent = type.getShape().back();
  auto make = [&]<typename OpTy>(OpTy op) {
    copyLayer(top, op);
    return op.getResult();
  };
  auto counted = llvm::to_vector(llvm::seq<int64_t>(0, extent));
  Value places = make(ConstantOp::create(
      rewriter, loc,
      makeConstant(RankedTensorType::get({extent}, rewriter.getI64Type()),
                   ArrayRef(reinterpret_cast<const char *>(counted.data()),
                            counted.size() * sizeof(int64_t)))));
  Value below = make(ConstantOp::create(
      rewriter, loc,
      makeSplat(RankedTensorType::get({}, type.getElementType()), -1)));
  Type positions = withExtent(input, 1, rewriter.getI64Type()),
       masks = type.clone(rewriter.getI1Type());
  Value mask, left = input;
  int64_t choices = top.getK();
  for (int64_t number = 0; number < choices; ++number) {
    Value best = make(ArgmaxOp::create(rewriter, loc, positions, left,
                                       type.getRank() - 1,
                                       /*keep_dims=*/true,
                                       /*select_last=*/false));
    Value picked = make(CompareOp::create(rewriter, loc, masks,
                                          ComparePredicate::eq, places, best));
    mask =
        mask ? make(OrOp::create(rewriter, loc, masks, mask, picked)) : picked;
    if (number + 1 < choices)
      left = make(SelectOp::create(rewriter, loc, type, picked, below, left));
  }
  return mask;
}

Value Routing::rewrite(PatternRewriter &rewriter) {
  rewriter.setInsertionPoint(scatter);
  Value mask = choose(rewriter);
  int64_t extent = shapeOf(top.getInput()).back();
  IRMapping placed;
  placed.map(top.getValues(), top.getInput());
  for (Operation *op : chain) {
    Operation *copy = rewriter.clone(*op, placed);
    if (perChoice.contains(op))
      copy->getResult(0).setType(withExtent(op->getResult(0), extent));
    if (isa<ReduceSumOp>(op) && isPerChoice(op->getOperand(0))) {
      // Unselected elements contribute zero.
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPoint(copy);
      Value input = copy->getOperand(0);
      auto zero = ConstantOp::create(
          rewriter, op->getLoc(),
          makeSplat(
              RankedTensorType::get({}, getElementTypeOrSelf(input.getType())),
              0));
      auto kept = SelectOp::create(rewriter, op->getLoc(), input.getType(),
                                   mask, input, zero);
      copyLayer(op, zero);
      copyLayer(op, kept);
      copy->setOperand(0, kept);
    }
  }
  auto routed =
      SelectOp::create(rewriter, scatter.getLoc(), scatter.getType(), mask,
                       placed.lookup(scatter.getUpdates()), scatter.getInput());
  copyLayer(scatter, routed);
  return routed;
}

namespace {
struct RoutingPattern : OpRewritePattern<ScatterElementsOp> {
  RoutingPattern(MLIRContext *context) : OpRewritePattern(context) {
    setDebugName("RoutingPattern");
  }

  LogicalResult matchAndRewrite(ScatterElementsOp op,
                                PatternRewriter &rewriter) const override {
    std::optional<Routing> routing = Routing::match(op);
    if (!routing)
      return rewriter.notifyMatchFailure(op, "no chosen values put back");
    rewriter.replaceOp(op, routing->rewrite(rewriter));
    return success();
  }
};

struct RecognizeExpertRoutingPass
    : PatternPass<
          mpc::impl::RecognizeExpertRoutingPassBase<RecognizeExpertRoutingPass>,
          RoutingPattern> {
  void runOnOperation() override {
    Operation *root = getOperation();
    int64_t scatters = countOps<ScatterElementsOp>(root);
    if (succeeded(rewrite("recognition of routing")))
      numRecognized += scatters - countOps<ScatterElementsOp>(root);
  }
};
} // namespace
