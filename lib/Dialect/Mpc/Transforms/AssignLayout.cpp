//===- AssignLayout.cpp - NHWC layout assignment --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts convolutions and pools to channels-last (NHWC) between a pair of
// transposes, then sinks the transposes until they cancel
// (AssignLayoutSink.cpp). Legal because only the order in memory changes. Runs
// before mpc-pack-constants, which depends on the layout.
//
//===----------------------------------------------------------------------===//

#include "AssignLayout.h"
#include "OpEmitter.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
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

/// Wraps the op in transposes to channels-last of its operands `images` and, if
/// the result is an image, a transpose back. `transposed` caches the transposes
/// created for earlier ops.
template <typename OpTy>
void makeChannelsLast(OpTy op, ArrayRef<OpOperand *> images, bool resultIsImage,
                      DenseMap<Value, Value> &transposed) {
  OpBuilder builder(op);
  // The padding attribute describes the contraction, not the transposes.
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
    // No folding: this pass only moves data.
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
  /// Marks elementwise ops whose results reach only new parameters and
  /// optimizer states. Excludes the rounding of a gradient: a transpose is
  /// cheaper after it.
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
