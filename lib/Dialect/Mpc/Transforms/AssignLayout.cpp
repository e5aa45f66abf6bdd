//===- AssignLayout.cpp - channels last -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns convs and pools channels last between transposes, then lets those sink
// until they cancel (AssignLayoutSink.cpp). Legal because only the order in
// memory changes. Runs before mpc-pack-constants, which reads the layout.
//
//===----------------------------------------------------------------------===//

#include "AssignLayout.h"
#include "OpEmitter.h"

#include "mpc/Analysis/Fusion/FusionMovement.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mpc {
#define GEN_PASS_DEF_ASSIGNLAYOUTPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using mpc::layout::kUpdateAttr;

namespace {

/// Puts the op between transposes of `images`, some of its operands, to
/// channels last and one of its result back (where that is an image).
/// `transposed` holds what was transposed for ops before it.
template <typename OpTy>
void makeChannelsLast(OpTy op, ArrayRef<OpOperand *> images, bool resultIsImage,
                      DenseMap<Value, Value> &transposed) {
  OpBuilder builder(op);
  // What was padded is the contraction, not the transposes beside it.
  Attribute padding = op->removeDiscardableAttr(MpcDialect::kPaddingAttr);
  OpEmitter emit(builder, op);
  if (padding)
    op->setDiscardableAttr(MpcDialect::kPaddingAttr, padding);
  int64_t rank = shapeOf(images.front()->get()).size();
  SmallVector<int64_t> toLast = {0};
  for (int64_t d = 2; d < rank; ++d)
    toLast.push_back(d);
  toLast.push_back(1);

  for (OpOperand *image : images) {
    Value &last = transposed[image->get()];
    if (!last)
      last = emit.transpose(image->get(), toLast);
    image->set(last);
  }
  op.setLayout(ImageLayout::channels_last);
  if (!resultIsImage)
    return;
  auto type = cast<RankedTensorType>(op.getType());
  SmallVector<int64_t> shape;
  for (int64_t dimension : toLast)
    shape.push_back(type.getShape()[dimension]);
  op.getResult().setType(RankedTensorType::get(shape, type.getElementType()));

  builder.setInsertionPointAfter(op);
  Value restored = emit.transpose(op.getResult(), inversePermutation(toLast));
  if (restored != op.getResult())
    op.getResult().replaceAllUsesExcept(restored, restored.getDefiningOp());
}

struct AssignLayoutPass : mpc::impl::AssignLayoutPassBase<AssignLayoutPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    populateSinkPatterns(set);
    populateMovementPatterns(set);
    populateReshapePatterns(set);
    patterns = std::move(set);
    return success();
  }

  void runOnOperation() override {
    DenseMap<Value, Value> transposed;
    getOperation().walk([&](Operation *op) {
      auto convert = [&](auto image, ArrayRef<OpOperand *> images,
                         bool resultIsImage = true) {
        if (image.getLayout() == ImageLayout::channels_last)
          return;
        makeChannelsLast(image, images, resultIsImage, transposed);
        ++numConverted;
      };
      TypeSwitch<Operation *>(op)
          .Case([&](ConvOp conv) {
            if (!conv.getPacked())
              convert(conv, &conv.getInputMutable());
          })
          .Case([&](ConvFilterGradientOp conv) {
            convert(conv, {&conv.getInputMutable(), &conv.getGradientMutable()},
                    /*resultIsImage=*/false);
          })
          .Case<MaxPoolOp, AvgPoolOp>(
              [&](auto pool) { convert(pool, &pool.getInputMutable()); })
          .Case([&](MaxPoolGradientOp pool) {
            convert(pool,
                    {&pool.getInputMutable(), &pool.getGradientMutable()});
          })
          .Case([&](AvgPoolGradientOp pool) {
            convert(pool, &pool.getGradientMutable());
          });
    });
    markUpdates();
    // Folding stays off: this pass moves data and changes no value.
    GreedyRewriteConfig config;
    config.enableFolding(false).enableConstantCSE(false).setMaxIterations(
        GreedyRewriteConfig::kNoLimit);
    if (failed(applyPatternsGreedily(getOperation(), patterns, config))) {
      getOperation().emitError()
          << "mpc-assign-layout did not reach a fixed point";
      return signalPassFailure();
    }
    getOperation().walk([&](Operation *op) {
      op->removeDiscardableAttr(kUpdateAttr);
      numTransposes += isa<TransposeOp>(op);
    });
  }

private:
  /// Marks the elementwise ops whose results go into new parameters and states
  /// alone. Rounding a gradient is not theirs: a transpose had better move what
  /// has been rounded.
  void markUpdates() {
    StepFunction step(getOperation());
    auto isUpdated = [&](OpOperand &use) {
      if (!use.getOwner()->hasTrait<OpTrait::IsTerminator>())
        return use.getOwner()->hasAttr(kUpdateAttr);
      RoleAttr role = step.resultRole(use.getOperandNumber());
      return role && (role.getKind() == RoleKind::parameter ||
                      role.getKind() == RoleKind::parameter_copy ||
                      role.getKind() == RoleKind::optimizer_state);
    };
    for (Operation &op : llvm::reverse(getOperation().getBody().front())) {
      auto cast = dyn_cast<CastOp>(op);
      bool rounds = cast && isNarrowing(cast) &&
                    llvm::any_of(op.getUsers(), [](Operation *user) {
                      return !user->hasTrait<OpTrait::IsTerminator>();
                    });
      if (isa<ElementwiseOpInterface>(op) && !rounds &&
          llvm::all_of(op.getResult(0).getUses(), isUpdated))
        op.setDiscardableAttr(kUpdateAttr, UnitAttr::get(&getContext()));
    }
  }

  FrozenRewritePatternSet patterns;
};

} // namespace
