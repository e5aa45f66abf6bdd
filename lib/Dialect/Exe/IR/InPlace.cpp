//===- InPlace.cpp - in-place results of kernels --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Exe/IR/InPlace.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;

/// Returns true for ops computed element by element at each use: nothing is
/// buffered or tiled.
static bool isComputedInPassing(Operation *op) {
  return isa<ElementwiseOpInterface, ReshapeOp, BroadcastOp, SliceOp, PadOp,
             ConcatOp, IotaOp, mpc::ConstantOp, func::ReturnOp>(op);
}

bool exe::writesScalarsLast(FusionKind kind, const TargetInfo &target) {
  return kind == FusionKind::update && target.kernels().writesScalarsLast;
}

/// Returns true if `op` is a sum without users of more elements (no broadcast),
/// so that it is computed inline.
static bool isSummedInPassing(Operation *op) {
  if (!isa<ReduceSumOp, ReduceMeanOp>(op))
    return false;
  SmallVector<Value> work = {op->getResult(0)};
  int64_t count = elementCount(work.front());
  llvm::SmallDenseSet<Value> seen;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (elementCount(value) > count)
      return false;
    if (!seen.insert(value).second)
      continue;
    for (Operation *user : value.getUsers()) {
      if (isa<ReduceSumOp, ReduceMeanOp>(user))
        return false;
      llvm::append_range(work, user->getResults());
    }
  }
  return true;
}

/// Returns true if an op computes `value`.
static bool isMade(Value value) {
  return value.getDefiningOp() && !value.getDefiningOp<mpc::ConstantOp>();
}

/// Returns true if `value` is computed from scalars only.
static bool isMadeOfScalars(Value value) {
  SmallVector<Value> work = {value};
  llvm::SmallDenseSet<Value> seen;
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (cast<RankedTensorType>(next.getType()).getRank() != 0)
      return false;
    if (Operation *op = next.getDefiningOp(); op && seen.insert(next).second)
      llvm::append_range(work, op->getOperands());
  }
  return true;
}

/// Returns true for update kernels, which reduce gradients besides updating
/// state.
static bool isUpdate(func::FuncOp kernel) {
  auto kind =
      kernel->getAttrOfType<FusionKindAttr>(MpcDialect::kKernelKindAttr);
  return kind && kind.getValue() == FusionKind::update;
}

bool exe::mayWriteInPlace(func::FuncOp kernel, unsigned argument,
                          unsigned result, bool scalarsLast) {
  auto type = dyn_cast<RankedTensorType>(kernel.getArgumentTypes()[argument]);
  auto written = dyn_cast<RankedTensorType>(kernel.getResultTypes()[result]);
  if (!type || !written || elementCount(type) != elementCount(written) ||
      bytesPerElement(type.getElementType()) !=
          bytesPerElement(written.getElementType()))
    return false;
  if (!kernel.getBody().hasOneBlock() ||
      !llvm::all_of(kernel.getBody().front(), [&](Operation &op) {
        return isComputedInPassing(&op) ||
               (isUpdate(kernel) && isSummedInPassing(&op));
      }))
    return false;

  ValueRange results = kernel.getBody().front().getTerminator()->getOperands();
  if (scalarsLast && type.getRank() == 0 && written.getRank() == 0 &&
      isMadeOfScalars(results[result]) && llvm::all_of(results, isMade))
    return true;

  // Follows all elementwise uses of the argument.
  SmallVector<Value> work = {kernel.getArgument(argument)};
  llvm::SmallDenseSet<Value> seen;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (isa<func::ReturnOp>(user)) {
        // Results of another shape are computed by another loop.
        if (cast<RankedTensorType>(value.getType()).getShape() !=
            written.getShape())
          return false;
        continue;
      }
      if (!isa<ElementwiseOpInterface, ReshapeOp>(user))
        return false;
      for (Value reached : user->getResults()) {
        if (!isa<ReshapeOp>(user) &&
            cast<RankedTensorType>(reached.getType()).getShape() !=
                cast<RankedTensorType>(value.getType()).getShape())
          return false;
        work.push_back(reached);
      }
    }
  }
  return true;
}

bool exe::isWrittenInPlace(func::FuncOp kernel, unsigned argument) {
  auto marked = kernel->getAttrOfType<DenseI64ArrayAttr>(kInPlaceAttr);
  return marked && llvm::is_contained(marked.asArrayRef(), argument);
}

void exe::setWrittenInPlace(func::FuncOp kernel, unsigned argument) {
  if (isWrittenInPlace(kernel, argument))
    return;
  SmallVector<int64_t> numbers;
  if (auto marked = kernel->getAttrOfType<DenseI64ArrayAttr>(kInPlaceAttr))
    numbers.assign(marked.asArrayRef().begin(), marked.asArrayRef().end());
  numbers.insert(llvm::upper_bound(numbers, argument), argument);
  kernel->setAttr(kInPlaceAttr,
                  DenseI64ArrayAttr::get(kernel.getContext(), numbers));
}
