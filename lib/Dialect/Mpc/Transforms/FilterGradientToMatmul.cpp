//===- FilterGradientToMatmul.cpp - convolutions as matmuls ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rewrites window-less (1x1) convolution gradients to matmuls on targets with
// faster GEMM kernels.
//
//===----------------------------------------------------------------------===//

#include "PrepareFusion.h"

#include "OpEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"

using namespace mlir;
using namespace mpc;

/// Returns true if the target's vector units multiply several k indices of
/// `element` per lane. A filter gradient reduces over the pixels of an image
/// row and pads each row to whole steps; a GEMM has all pixels in one K
/// dimension.
static bool pairsPositions(const TargetInfo &target, Type element) {
  const MathUnit *unit =
      element.isBF16() ? target.unit(MathType::BFloat16) : nullptr;
  return unit && unit->depth > 1 && unit->tiles.count == 0 &&
         target.kernels().panelColumns > 0;
}

/// Returns true if the filter is 1x1: each of its elements meets one input
/// pixel per gradient pixel.
static bool hasNoWindow(ConvFilterGradientOp op) {
  auto isOne = [](int64_t extent) { return extent == 1; };
  auto isZero = [](int64_t extent) { return extent == 0; };
  ArrayRef<int64_t> filter = shapeOf(op.getResult());
  return op.getLayout() == ImageLayout::channels_last && op.getGroups() == 1 &&
         llvm::all_of(filter.drop_front(2), isOne) &&
         llvm::all_of(op.getPadLow(), isZero) &&
         llvm::all_of(op.getPadHigh(), isZero);
}

void mpc::filterGradientsToMatmuls(Block &block, const TargetInfo &target) {
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
