//===- FuseConcats.cpp - concats fused into GEMMs -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// If the last part of a concat to be computed is the result of a GEMM or
// convolution, its kernel stores that part in place and copies the others: the
// layers of a dense block are concatenated, in the caller's layout, without an
// extra launch.
//
//===----------------------------------------------------------------------===//

#include "HorizontalFuser.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/GatedMatmulColumns.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// GEMM tile size that occupies a small machine; bytes that a block copies in a
/// fraction of a launch's time.
static constexpr int64_t kTileRows = 32, kTileColumns = 64,
                         kBytesOfBlock = 96 * 1024;

/// Returns true if the group is a loop around `concat` of data movement and
/// elementwise ops with one result element per element.
static bool isLoopAround(FusionGroup *group, ConcatOp concat) {
  return group && !group->anchor && !group->isLoose && !group->isJoint &&
         llvm::all_of(group->ops, [&](Operation *op) {
           return op == concat || isElementwise(op) || isa<TransposeOp>(op);
         });
}

/// Returns the operand of `concat` through which all readers of `value` use it,
/// with elementwise ops of the group in between.
static Value partOf(const FusionGraph &graph, FusionGroup *group,
                    ConcatOp concat, Value value) {
  while (!llvm::is_contained(concat.getInputs(), value)) {
    if (!value.hasOneUse())
      return {};
    Operation *user = *value.user_begin();
    if (graph.groupOf(user) != group || !isElementwise(user) ||
        shapeOf(user->getResult(0)) != shapeOf(value))
      return {};
    value = user->getResult(0);
  }
  return value.hasOneUse() ? value : Value();
}

/// Returns true if the kernel of `anchor` is tiled.
static bool hasTiles(Operation *anchor) {
  if (auto conv = dyn_cast<ConvOp>(anchor))
    return conv.getLayout() == ImageLayout::channels_last &&
           shapeOf(conv.getFilter())[1] > 1;
  auto product = dyn_cast<MatmulOp>(anchor);
  return product && !GatedMatmulColumns::of(product);
}

void HorizontalFuser::joinConcats() {
  for (Operation *op : ops) {
    auto concat = dyn_cast<ConcatOp>(op);
    FusionGroup *loop = graph.groupOf(op);
    if (!concat || !isLoopAround(loop, concat) ||
        graph.resultsOf(loop).size() != 1)
      continue;
    Value result = graph.resultsOf(loop).front();
    // The last GEMM: the other parts are complete when it starts.
    FusionGroup *last = nullptr;
    for (Operation *member : loop->ops)
      for (Value operand : member->getOperands()) {
        FusionGroup *maker = graph.groupOf(operand);
        if (!maker || maker == loop || maker->isLoose || maker->isJoint ||
            !maker->anchor || !hasTiles(maker->anchor) ||
            graph.resultsOf(maker).size() != 1 ||
            !graph.isReadOnlyBy(operand, maker, loop))
          continue;
        if (Value part = partOf(graph, loop, concat, operand);
            part && shapeOf(part) == shapeOf(maker->anchor->getResult(0)) &&
            (!last || maker->last > last->last))
          last = maker;
      }
    if (!last || isFull(last, loop))
      continue;
    Value made = last->anchor->getResult(0);
    int64_t columns = shapeOf(made).back(),
            rows = elementCount(made) / std::max<int64_t>(columns, 1),
            blocks = llvm::divideCeil(rows, kTileRows) *
                     llvm::divideCeil(columns, kTileColumns),
            rest = 0;
    for (Value part : concat.getInputs())
      rest += byteCount(part.getType());
    rest += byteCount(result.getType()) - byteCount(made.getType());
    if (elementCount(made) == 0 || rest > blocks * kBytesOfBlock)
      continue;
    if (graph.merge(last, loop))
      last->shape = shapeOf(result);
  }
}
