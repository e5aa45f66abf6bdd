//===- SplitConcats.cpp - split wide concats into trees -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PrepareFusion.h"

#include "OpEmitter.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/Fusion/Views.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;

/// Maximum operands per concat of a tree: with one op fused into each, they fit
/// into one kernel (kMostKernelOps).
static constexpr size_t kOperands = kMostKernelOps / 2;

void mpc::splitConcats(Block &block) {
  for (ConcatOp concat : llvm::make_early_inc_range(block.getOps<ConcatOp>())) {
    if (concat.getInputs().size() <= kMostKernelOps ||
        (isView(concat) && !concatenatesSmallLoops(concat)))
      continue;
    OpBuilder builder(concat);
    OpEmitter emit(builder, concat);
    SmallVector<Value> parts(concat.getInputs());
    while (parts.size() > kMostKernelOps) {
      SmallVector<Value> joined;
      for (ArrayRef<Value> rest = parts; !rest.empty();) {
        size_t count = std::min(rest.size(), kOperands);
        joined.push_back(
            emit.concat(rest.take_front(count), int64_t(concat.getAxis())));
        rest = rest.drop_front(count);
      }
      parts = std::move(joined);
    }
    concat.getInputsMutable().assign(parts);
  }
}
