//===- Decompose.cpp - decompose composite ops ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rewrites composite ops into ops with kernels on every target. First pass of
// the Layout stage: later passes simplify its slices and reshapes. Recurrent
// ops: DecomposeRecurrent.cpp; updates: DecomposeUpdate.cpp; losses and
// training ops: DecomposeLosses.cpp and DecomposeNorms.cpp; transposed
// convolutions: DecomposeConvTranspose.cpp.
//
//===----------------------------------------------------------------------===//

#include "Decompose.h"
#include "OpEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "llvm/ADT/TypeSwitch.h"

namespace mpc {
#define GEN_PASS_DEF_DECOMPOSEPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// Returns the compute type of a norm: at least f32.
Type normType(Type element) {
  return element.getIntOrFloatBitWidth() < 32
             ? Float32Type::get(element.getContext())
             : element;
}

/// Reshapes `[channels]` to broadcast along axis 1 of a tensor of `rank`.
Value perChannel(OpEmitter &emit, Value value, int64_t rank, Type element) {
  SmallVector<int64_t> shape(rank - 1, 1);
  shape[0] = shapeOf(value)[0];
  return emit.reshape(emit.cast(value, element), shape);
}

Value decompose(OpEmitter &emit, BatchNormOp op) {
  Type element = getElementTypeOrSelf(op.getInput()), wide = normType(element);
  int64_t rank = shapeOf(op.getInput()).size();
  Value variance = emit.cast(op.getVariance(), wide);
  Value sum = emit.create<AddOp>(
      variance.getType(), variance,
      emit.splat({1}, wide, op.getEpsilon().convertToDouble()));
  Value factor =
      emit.create<DivOp>(sum.getType(), emit.cast(op.getScale(), wide),
                         emit.create<SqrtOp>(sum.getType(), sum));
  // Subtracts the mean first: x * factor + (bias - mean * factor) cancels if
  // the mean is large compared to the deviation.
  auto channels = [&](Value value) {
    return perChannel(emit, value, rank, wide);
  };
  Value input = emit.cast(op.getInput(), wide);
  Value centred =
      emit.create<SubOp>(input.getType(), input, channels(op.getMean()));
  Value scaled = emit.create<MulOp>(input.getType(), centred, channels(factor));
  return emit.cast(
      emit.create<AddOp>(input.getType(), scaled, channels(op.getBias())),
      element);
}

/// Group norm: normalizes each of `groups` channel groups, then scales per
/// channel.
template <typename OpTy>
Value decomposeGroups(OpEmitter &emit, OpTy op, int64_t groups) {
  Type element = getElementTypeOrSelf(op.getInput()), wide = normType(element);
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  SmallVector<int64_t> grouped = {shape[0], groups,
                                  shape[1] / std::max<int64_t>(groups, 1) *
                                      productOf(shape.drop_front(2))};
  Value rows = emit.reshape(emit.cast(op.getInput(), wide), grouped);
  Value normal = emit.create<LayerNormOp>(
      rows.getType(), rows, emit.splat({1}, wide, 1.0), Value(),
      emit.builder.getI64IntegerAttr(2), op.getEpsilonAttr());
  Value image = emit.reshape(normal, shape);
  Value product =
      emit.create<MulOp>(image.getType(), image,
                         perChannel(emit, op.getScale(), shape.size(), wide));
  return emit.cast(
      emit.create<AddOp>(image.getType(), product,
                         perChannel(emit, op.getBias(), shape.size(), wide)),
      element);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

struct DecomposePass : mpc::impl::DecomposePassBase<DecomposePass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    if (maxSteps < 1)
      return emitError(UnknownLoc::get(context))
             << "mpc-decompose: max-steps must be at least 1, found "
             << maxSteps.getValue();
    return success();
  }

  void runOnOperation() override {
    SmallVector<Operation *> composites;
    getOperation().walk([&](Operation *op) {
      if (op->hasTrait<Composite>() &&
          !llvm::is_contained(keep, op->getName().stripDialect()))
        composites.push_back(op);
    });
    SharedStatistics shared;
    for (Operation *op : composites) {
      OpBuilder builder(op);
      OpEmitter emit(builder, op);
      SmallVector<Value> values =
          TypeSwitch<Operation *, SmallVector<Value>>(op)
              .Case([&](BatchNormOp norm) {
                return SmallVector<Value>{decompose(emit, norm)};
              })
              .Case([&](ConvTransposeOp conv) {
                return SmallVector<Value>{decomposeConvTranspose(conv)};
              })
              .Case<GroupNormOp>([&](auto norm) {
                return SmallVector<Value>{
                    decomposeGroups(emit, norm, norm.getGroups())};
              })
              .Case<InstanceNormOp>([&](auto norm) {
                return SmallVector<Value>{
                    decomposeGroups(emit, norm, shapeOf(norm.getInput())[1])};
              })
              .Default([&](Operation *other) {
                if (fusionClassOf(other) == FusionClass::Recurrent)
                  return shapeOf(other->getOperand(0))[0] > maxSteps
                             ? SmallVector<Value>()
                             : unrollRecurrent(builder, other);
                SmallVector<Value> values = decomposeUpdate(builder, other);
                if (values.empty())
                  values = decomposeNorm(builder, other, shared);
                return values.empty() ? decomposeTraining(builder, other)
                                      : values;
              });
      if (values.empty())
        continue;
      op->replaceAllUsesWith(values);
      op->erase();
      ++numDecomposed;
    }
  }
};

} // namespace
