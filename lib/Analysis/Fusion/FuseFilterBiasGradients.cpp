//===- FuseFilterBiasGradients.cpp - bias gradients in filter-gradient kernels
//--------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fuses the gradient of a convolution's bias into the kernel of its filter's
// gradient, which reads the same values.
//
//===----------------------------------------------------------------------===//

#include "HorizontalFuser.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/OperandSums.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

using namespace mlir;
using namespace mpc;

/// Returns true if `op` sums f32 over all image dimensions but channels.
static bool sumsChannels(ReduceSumOp op, ImageLayout layout) {
  int64_t rank = op.getInput().getType().getRank();
  SmallVector<int64_t> axes;
  for (int64_t d = 0; d < rank; ++d)
    if (d != (layout == ImageLayout::channels_last ? rank - 1 : 1))
      axes.push_back(d);
  return op.getAxes() == ArrayRef<int64_t>(axes) && sumsInFloat32(op);
}

/// The filter-gradient kernel reads every gradient, so it can also sum them for
/// the bias. It narrows the image that it loads and the result that it stores.
void HorizontalFuser::joinFilters() {
  for (Operation *op : ops) {
    auto filter = dyn_cast<ConvFilterGradientOp>(op);
    if (!filter)
      continue;
    FusionGroup *group = graph.groupOf(op);
    if (auto cast = filter.getInput().getDefiningOp<CastOp>())
      if (FusionGroup *source = graph.groupOf(cast.getOperation());
          rules.convertsInput(cast) && source->ops.size() == 1 &&
          graph.isReadOnlyBy(source, group))
        graph.merge(group, source);
    if (!filter.getResult().getType().getElementType().isF32() ||
        elementCount(filter.getInput()) == 0)
      continue;
    takeNarrowing(group, filter.getResult());

    SmallVector<Operation *> readers(filter.getGradient().getUsers());
    for (size_t i = 0; i < readers.size(); ++i) {
      if (auto cast = dyn_cast<CastOp>(readers[i]);
          cast && isWidening(cast) && cast->hasOneUse())
        readers.push_back(*cast->user_begin());
      auto sum = dyn_cast<ReduceSumOp>(readers[i]);
      if (!sum || !sumsChannels(sum, filter.getLayout()))
        continue;
      auto cast = sum.getInput() == filter.getGradient()
                      ? CastOp()
                      : sum.getInput().getDefiningOp<CastOp>();
      FusionGroup *sums = graph.groupOf(sum.getOperation());
      if (!sums || sums->anchor != sum || sums->isJoint ||
          !llvm::all_of(sums->ops,
                        [&](Operation *member) {
                          return member == sum || member == cast;
                        }) ||
          !graph.merge(group, sums))
        continue;
      takeWidening(group, cast);
      takeNarrowing(group, sum.getResult());
      break;
    }
  }
}
