//===- PrepareProducts.cpp - convolutions that are products ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What has no window is a product of matrices, for targets whose kernels of
// products are the faster ones.
//
//===----------------------------------------------------------------------===//

#include "PrepareFusion.h"

#include "OpEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

using namespace mlir;
using namespace mpc;

/// Whether the target's vectors multiply several positions of `element` in a
/// lane. The gradient of a filter has the pixels of a line as positions, and
/// pads each line to whole steps; a product has all pixels in one line.
static bool pairsPositions(const TargetInfo &target, Type element) {
  const MathUnit *unit =
      element.isBF16() ? target.unit(MathType::BFloat16) : nullptr;
  return unit && unit->depth > 1 && unit->tiles.count == 0 &&
         target.kernels().panelColumns > 0;
}

/// Whether each element of the filter meets one pixel of the input for each of
/// the gradient.
static bool hasNoWindow(ConvFilterGradientOp op) {
  auto isOne = [](int64_t extent) { return extent == 1; };
  auto isZero = [](int64_t extent) { return extent == 0; };
  ArrayRef<int64_t> filter = shapeOf(op.getResult());
  return op.getLayout() == ImageLayout::channels_last && op.getGroups() == 1 &&
         llvm::all_of(filter.drop_front(2), isOne) &&
         llvm::all_of(op.getPadLow(), isZero) &&
         llvm::all_of(op.getPadHigh(), isZero);
}

void mpc::multiplyPixels(Block &block, const TargetInfo &target) {
  for (auto op :
       llvm::make_early_inc_range(block.getOps<ConvFilterGradientOp>())) {
    Value image = op.getInput(), gradient = op.getGradient();
    if (!hasNoWindow(op) ||
        !pairsPositions(target, getElementTypeOrSelf(image)) ||
        !pairsPositions(target, getElementTypeOrSelf(gradient)))
      continue;
    OpBuilder builder(op);
    OpEmitter emit(builder, op);
    int64_t channels = shapeOf(image).back(),
            outputs = shapeOf(gradient).back();
    SmallVector<int64_t> offsets(shapeOf(image).size(), 0),
        sizes(shapeOf(gradient)), steps = {1};
    sizes.back() = channels;
    llvm::append_range(steps, op.getStrides());
    steps.push_back(1);
    int64_t pixels = productOf(shapeOf(gradient).drop_back());
    Value rows = emit.reshape(gradient, {pixels, outputs});
    Value columns = emit.reshape(emit.slice(image, offsets, sizes, steps),
                                 {pixels, channels});
    Value product = emit.create<MatmulOp>(
        RankedTensorType::get({outputs, channels},
                              getElementTypeOrSelf(op.getResult())),
        rows, columns, /*transpose_lhs=*/builder.getUnitAttr(),
        /*transpose_rhs=*/UnitAttr(), op.getAccumulateAttr(),
        op.getComputeAttr(), PackedAttr());
    op.replaceAllUsesWith(emit.reshape(product, shapeOf(op.getResult())));
    op.erase();
  }
}
