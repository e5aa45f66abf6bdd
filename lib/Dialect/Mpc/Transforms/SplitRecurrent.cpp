//===- SplitRecurrent.cpp - split recurrent layers ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits a recurrent layer into one GEMM that projects the input of all steps
// (weights of both directions concatenated) and a recurrence that the target
// runs as one kernel. Runs after mpc-assign-precision, whose types decide what
// fits, and before mpc-pad-contractions, which pads the GEMM.
//
//===----------------------------------------------------------------------===//

#include "Decompose.h"
#include "OpEmitter.h"

#include "mpc/Analysis/PersistentRnnPlan.h"
#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "llvm/ADT/TypeSwitch.h"

namespace mpc {
#define GEN_PASS_DEF_SPLITRECURRENTPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

/// Only `lstm` has a cell state.
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

namespace {
/// Result types, operands and attributes of `recurrence`.
struct Steps {
  TypeRange types;
  Value projected, recurrence, bias, initialH, initialC, peephole;
  RecurrentCell cell;
  RecurrentDirection direction;
};
} // namespace

/// Creates `recurrence_training`; returns the results of `recurrence`.
static SmallVector<Value> keepStates(OpEmitter &emit, const Steps &steps) {
  SmallVector<Type> types(steps.types);
  ArrayRef<int64_t> result = cast<RankedTensorType>(types[0]).getShape();
  int64_t width =
      productOf({result[1], savedActivationsOf(steps.cell), result[3]});
  types.push_back(RankedTensorType::get({result[0], result[2], width},
                                        getElementTypeOrSelf(steps.projected)));
  auto op = emit.create<RecurrenceTrainingOp>(
      types, steps.projected, steps.recurrence, steps.bias, steps.initialH,
      steps.initialC, steps.peephole, steps.cell, steps.direction);
  return llvm::to_vector_of<Value>(op->getResults().drop_back());
}

template <typename OpTy>
static SmallVector<Value> splitRecurrence(OpBuilder &builder, OpTy op,
                                          RecurrentCell cell, bool keeps) {
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
  if (keeps)
    return keepStates(emit,
                      {op->getResultTypes(), projected, op.getRecurrence(),
                       stateBias, op.getInitialH(), initialCell(op),
                       peephole(op), cell, op.getDirection()});
  auto steps = emit.create<RecurrenceOp>(
      op->getResultTypes(), projected, op.getRecurrence(), stateBias,
      op.getInitialH(), initialCell(op), peephole(op), cell, op.getDirection());
  return llvm::to_vector_of<Value>(steps->getResults());
}

SmallVector<Value> mpc::splitRecurrent(OpBuilder &builder, Operation *op,
                                       bool keeps) {
  return llvm::TypeSwitch<Operation *, SmallVector<Value>>(op)
      .Case([&](LstmOp lstm) {
        return splitRecurrence(builder, lstm, RecurrentCell::lstm, keeps);
      })
      .Case([&](GruOp gru) {
        return splitRecurrence(builder, gru,
                               gru.getLinearBeforeReset()
                                   ? RecurrentCell::linear_gru
                                   : RecurrentCell::gru,
                               keeps);
      })
      .Case([&](RnnOp rnn) {
        return splitRecurrence(builder, rnn, RecurrentCell::rnn, keeps);
      })
      .Case([&](RecurrenceOp steps) {
        if (!keeps)
          return SmallVector<Value>();
        OpEmitter emit(builder, op);
        return keepStates(emit, {op->getResultTypes(), steps.getProjected(),
                                 steps.getRecurrence(), steps.getBias(),
                                 steps.getInitialH(), steps.getInitialC(),
                                 steps.getPeephole(), steps.getCell(),
                                 steps.getDirection()});
      })
      .Default([](Operation *) { return SmallVector<Value>(); });
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
    getOperation().walk([&](Operation *op) {
      // Layers split by differentiation are no longer composite and skip
      // mpc-decompose.
      if (std::optional<RecurrenceShape> shape = RecurrenceShape::of(op);
          shape && (info->kernels().hasPersistentRecurrence ||
                    !op->hasTrait<Composite>()))
        layers.push_back({op, *shape});
    });
    bool isChanged = false;
    for (auto &[op, shape] : layers) {
      std::optional<PersistentRnnPlan> plan =
          PersistentRnnPlan::of(shape, *info);
      bool fits = plan && plan->pays(*info);
      numRefused += !fits;
      OpBuilder builder(op);
      SmallVector<Value> values;
      if (op->hasTrait<Composite>() && fits)
        values = splitRecurrent(builder, op, /*keeps=*/false);
      else if (!op->hasTrait<Composite>() && !fits)
        values = isa<RecurrenceGradientOp>(op)
                     ? unrollRecurrenceGradient(builder, op)
                     : unrollRecurrence(builder, op);
      if (values.empty())
        continue;
      op->replaceAllUsesWith(values);
      op->erase();
      numSplit += fits;
      isChanged = true;
    }
    if (!isChanged)
      markAllAnalysesPreserved();
  }
};
} // namespace
