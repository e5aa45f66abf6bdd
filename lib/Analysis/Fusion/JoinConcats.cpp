//===- JoinConcats.cpp - concats behind products --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product or convolution whose result alone is missing in a concat stores it
// there, and the other parts as well: the layers of a dense block come out side
// by side, in the order of dimensions that the caller has, without a launch of
// their own.
//
//===----------------------------------------------------------------------===//

#include "KernelJoiner.h"

#include "mpc/Analysis/Fusion/FusionMovement.h"
#include "mpc/Analysis/PairedColumns.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// A tile of a product that leaves room for others on a small machine; what a
/// block moves beside it in a fraction of a launch.
static constexpr int64_t kTileRows = 32, kTileColumns = 64,
                         kBytesOfBlock = 96 * 1024;

/// Whether the group is a loop around `concat` that moves elements and computes
/// each from one.
static bool isLoopAround(FusionGroup *group, ConcatOp concat) {
  return group && !group->anchor && !group->isLoose && !group->isJoint &&
         llvm::all_of(group->ops, [&](Operation *op) {
           return op == concat || isElementwise(op) || isa<TransposeOp>(op);
         });
}

/// Whether every reader of `value` is reached through one operand of `concat`
/// by elementwise ops of the group.
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

/// Whether the kernel around `anchor` is one of tiles.
static bool hasTiles(Operation *anchor) {
  if (auto conv = dyn_cast<ConvOp>(anchor))
    return conv.getLayout() == ImageLayout::channels_last &&
           shapeOf(conv.getFilter())[1] > 1;
  auto product = dyn_cast<MatmulOp>(anchor);
  return product && !PairedColumns::of(product);
}

void KernelJoiner::joinConcats() {
  for (Operation *op : ops) {
    auto concat = dyn_cast<ConcatOp>(op);
    FusionGroup *loop = graph.groupOf(op);
    if (!concat || !isLoopAround(loop, concat) ||
        graph.resultsOf(loop).size() != 1)
      continue;
    Value result = graph.resultsOf(loop).front();
    // The product that ends last: the other parts are there when it begins.
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
