//===- QueryProjectionFusion.cpp - fuses query projection into attention --===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QueryProjectionFusion.h"

#include "../MultiprocessorModel.h"
#include "AttentionKernel.h"
#include "GemmCost.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Returns true if `op` reads `argument` only as its query.
static bool readsAsQuery(AttentionOp op, Value argument) {
  Value value = argument;
  while (value.hasOneUse() && value != op.getQuery()) {
    Operation *user = *value.user_begin();
    if (!isa<ReshapeOp, TransposeOp>(user))
      return false;
    value = user->getResult(0);
  }
  return value.hasOneUse() && value == op.getQuery();
}

/// Returns true if the query's heads are adjacent within rows of memory, and
/// batches are contiguous.
static bool hasHeadsInRows(AttentionOp op, const AttentionSizes &sizes) {
  std::optional<StridedView> view = StridedView::of(op.getQuery());
  if (!view || view->offset != 0 || sizes.queryHeads.empty())
    return false;
  int64_t row = sizes.queryHeads.back() * sizes.depth;
  SmallVector<int64_t> extents(sizes.queryHeads),
      strides = {sizes.depth, row, 1};
  extents.append({sizes.length, sizes.depth});
  int64_t batch = row * sizes.length;
  for (int64_t extent : llvm::drop_begin(llvm::reverse(sizes.queryHeads))) {
    strides.insert(strides.begin(), batch);
    batch *= extent;
  }
  return llvm::all_of(llvm::zip_equal(extents, strides, view->strides),
                      [](auto entry) {
                        auto [extent, wanted, stride] = entry;
                        return extent == 1 || stride == wanted;
                      });
}

/// Returns true if the result is stored in the layout of the accumulators.
static bool storesInOrder(func::FuncOp kernel, const FusedGemm &problem) {
  Value value = kernel.getBody().front().getTerminator()->getOperand(0);
  llvm::SmallPtrSet<Operation *, 8> seen;
  SmallVector<Operation *> behind = {problem.anchor};
  while (!behind.empty())
    for (Operation *user : behind.pop_back_val()->getUsers()) {
      if (user->hasTrait<OpTrait::IsTerminator>() || !seen.insert(user).second)
        continue;
      if (!isa<ElementwiseOpInterface, ReshapeOp>(user))
        return false;
      behind.push_back(user);
    }
  return elementCount(value) == problem.m * problem.n;
}

std::optional<QueryProjectionFusion>
QueryProjectionFusion::of(func::FuncOp product, func::FuncOp attention,
                          unsigned argument, const Schedule &given,
                          const CudaTarget &target) {
  AttentionOp op = attentionOf(attention);
  auto parameters = given.get<AttentionSchedule>();
  if (!op || product.getNumResults() != 1 || parameters.parts != 1 ||
      !readsAsQuery(op, attention.getArgument(argument)))
    return std::nullopt;
  AttentionSizes sizes{AttentionProblem(op)};
  if (parameters.grouped > 1)
    return std::nullopt;
  int64_t rows = parameters.rows,
          rowTiles = llvm::divideCeil(sizes.length, rows);
  // A block must have whole heads, and rows of a single batch.
  if (parameters.columns < sizes.width || !hasHeadsInRows(op, sizes) ||
      (sizes.heads != sizes.queryHeads.back() && sizes.length % rows != 0))
    return std::nullopt;
  // Causal attention launches tiles with more keys first.
  if (op.getCausal() && rowTiles > 1)
    return std::nullopt;

  std::unique_ptr<GemmPlan> plan =
      GemmPlan::of(product, target, FusedGemm::matmul(product, target));
  if (!plan)
    return std::nullopt;
  const FusedGemm *problem = &plan->problem;
  if (problem->batches != 1 || problem->pair || !problem->sums.empty() ||
      !problem->columnsLast ||
      problem->n != sizes.queryHeads.back() * sizes.depth ||
      !storesInOrder(product, *problem))
    return std::nullopt;
  GemmCost cost(*problem, target);
  GemmTiles alone = GemmTiles::choose(*problem, target), best;
  double least = HUGE_VAL;
  for (GemmTiles tiles : GemmTiles::candidates(*problem, target)) {
    if (tiles.m != rows || tiles.n != sizes.depth ||
        tiles.threads() < given.threads)
      continue;
    tiles.group = rowTiles;
    if (double cycles = cost.cycles(tiles); cycles < least) {
      least = cycles;
      best = tiles;
    }
  }
  std::optional<Schedule> schedule = plan->scheduleWith(best);
  if (!schedule || schedule->blocks != given.blocks)
    return std::nullopt;
  schedule->family = "gemm";
  return QueryProjectionFusion{
      *schedule, (least - cost.cycles(alone)) /
                     MultiprocessorModel::of(target.target()).clock};
}
