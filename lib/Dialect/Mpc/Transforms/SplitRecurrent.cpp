//===- SplitRecurrent.cpp - a product and the steps behind it -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights of both directions stand side by side, so that one product makes the
// input's share of all gates. What depends on the step before is left to an op
// that the target runs as one kernel. After mpc-assign-precision, whose types
// decide what fits; before mpc-pad-contractions, which pads the product.
//
//===----------------------------------------------------------------------===//

#include "OpEmitter.h"

#include "mpc/Analysis/RecurrencePlan.h"
#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "llvm/ADT/TypeSwitch.h"

namespace mpc {
#define GEN_PASS_DEF_SPLITRECURRENTPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

/// `lstm` alone has a cell state.
template <typename OpTy> static Value initialCell(OpTy op) {
  if constexpr (std::is_same_v<OpTy, LstmOp>)
    return op.getInitialC();
  return {};
}
template <typename OpTy> static Value peephole(OpTy op) {
  if constexpr (std::is_same_v<OpTy, LstmOp>)
    return op.getPeephole();
  return {};
}

template <typename OpTy>
static SmallVector<Value> split(OpTy op, RecurrentCell cell) {
  OpBuilder builder(op);
  OpEmitter emit(builder, op);
  Type wide = getElementTypeOrSelf(op.getResult());
  ArrayRef<int64_t> input = shapeOf(op.getInput()),
                    weight = shapeOf(op.getWeight());
  int64_t directions = weight[0], rows = weight[1];
  Value projected = emit.create<MatmulOp>(
      RankedTensorType::get({input[0], input[1], directions * rows}, wide),
      op.getInput(),
      emit.reshape(op.getWeight(), {directions * rows, input[2]}),
      /*transpose_lhs=*/false, /*transpose_rhs=*/true, TypeAttr(),
      ComputeMode::native, PackedAttr());
  Value stateBias;
  if (Value bias = op.getBias()) {
    Value inputBias =
        emit.reshape(emit.sliceAxis(bias, 1, 0, rows), {directions * rows});
    projected = emit.create<AddOp>(projected.getType(), projected, inputBias);
    stateBias = emit.sliceAxis(bias, 1, rows, rows);
  }
  auto steps = emit.create<RecurrenceOp>(
      op->getResultTypes(), projected, op.getRecurrence(), stateBias,
      op.getInitialH(), initialCell(op), peephole(op), cell, op.getDirection());
  return llvm::to_vector_of<Value>(steps->getResults());
}

namespace {
struct SplitRecurrentPass
    : mpc::impl::SplitRecurrentPassBase<SplitRecurrentPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<TargetInfo> info = exe::targetOf(getOperation(), target);
    if (failed(info))
      return signalPassFailure();
    SmallVector<std::pair<Operation *, RecurrenceShape>> layers;
    if (info->kernels().keepsStates)
      getOperation().walk([&](Operation *op) {
        if (std::optional<RecurrenceShape> shape = RecurrenceShape::of(op))
          layers.push_back({op, *shape});
      });
    bool isChanged = false;
    for (auto &[op, shape] : layers) {
      std::optional<RecurrencePlan> plan = RecurrencePlan::of(shape, *info);
      if (!plan || !plan->pays(*info)) {
        ++numRefused;
        continue;
      }
      SmallVector<Value> values =
          llvm::TypeSwitch<Operation *, SmallVector<Value>>(op)
              .Case<LstmOp, GruOp, RnnOp>(
                  [&](auto layer) { return split(layer, shape.cell); });
      op->replaceAllUsesWith(values);
      op->erase();
      ++numSplit;
      isChanged = true;
    }
    if (!isChanged)
      markAllAnalysesPreserved();
  }
};
} // namespace
