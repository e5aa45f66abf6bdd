//===- RecognizeRouting.cpp - chosen experts as masks of rows -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A router picks the k likeliest experts of each token, scales their weights
// and writes these to their places in a row that is else zero. Here the places
// stay where they are and a mask says which were picked, so that one kernel
// makes the softmax, the choice and the scaling of each row.
//
//===----------------------------------------------------------------------===//

#include "MatchUtils.h"

#include "mpc/Analysis/Fusion/JoinKernels.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZEROUTINGPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

namespace {

/// Each choice walks the row once more; a kernel holds some 64 ops.
constexpr int64_t kMostChoices = 4;

/// Whether all numbers of the value are NaN, or 0 and above.
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

/// The ops between a top_k and the scatter that puts its values back.
class Routing {
public:
  /// What `scatter` puts back; nullopt where it is something else.
  static std::optional<Routing> match(ScatterElementsOp scatter);

  /// The scatter's result by a mask.
  Value rewrite(PatternRewriter &rewriter);

private:
  Routing(ScatterElementsOp scatter, TopKOp top) : scatter(scatter), top(top) {}
  bool collect();
  bool isPerChoice(Value value);
  Value choose(PatternRewriter &rewriter);

  ScatterElementsOp scatter;
  TopKOp top;
  /// Elementwise ops and sums over the choices, in the order of the block.
  SmallVector<Operation *> chain;
  /// Those of the chain that have a number per choice, not one per row.
  llvm::SmallPtrSet<Operation *, 8> perChoice;
};
} // namespace

/// Whether an op of numbers per choice, `isPerChoice` of its operands, is
/// linear in them. What is made of numbers that were not picked is masked, but
/// so is its gradient only where the derivative is one of the row: the root of
/// a probability of 0 has none.
static bool isLinear(Operation *op,
                     llvm::function_ref<bool(Value)> isPerChoice) {
  if (isa<MulOp>(op))
    return llvm::count_if(op->getOperands(), isPerChoice) == 1;
  if (isa<DivOp>(op))
    return !isPerChoice(op->getOperand(1));
  return isa<AddOp, SubOp, NegOp, CastOp>(op);
}

/// Whether a value is a number per choice, of those that are known by now.
bool Routing::isPerChoice(Value value) {
  Operation *maker = value.getDefiningOp();
  return maker == top || perChoice.contains(maker);
}

/// Finds all that is made of the chosen values; false where it goes elsewhere
/// than into the scatter, or meets what is neither a number for all choices nor
/// one per row.
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
      !joinsChainsOfRows(shapeOf(top.getInput())) ||
      !isNonNegative(top.getInput()))
    return std::nullopt;
  Routing routing(scatter, top);
  return routing.collect() ? std::optional(routing) : std::nullopt;
}

/// Where a row has its k largest numbers. Each maximum is looked for among
/// those that were not picked yet, which are above the -1 that the others get;
/// of equal ones the first is picked, and NaN before numbers, as top_k does.
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
      // What was not picked adds nothing.
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

struct RecognizeRoutingPass
    : PatternPass<mpc::impl::RecognizeRoutingPassBase<RecognizeRoutingPass>,
                  RoutingPattern> {
  void runOnOperation() override {
    Operation *root = getOperation();
    int64_t scatters = countOps<ScatterElementsOp>(root);
    if (succeeded(rewrite("recognition of routing")))
      numRecognized += scatters - countOps<ScatterElementsOp>(root);
  }
};
} // namespace
