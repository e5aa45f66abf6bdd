//===- MpcLoss.cpp - shape rules of losses --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpcShapes.h"

#include "mpc/Dialect/Mpc/IR/MpcLossOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::shapes;

/// Result: a scalar of the predictions' element type.
static LogicalResult inferLoss(Value predictions,
                               SmallVectorImpl<Type> &types) {
  types.push_back(
      RankedTensorType::get({}, tensor(predictions).getElementType()));
  return success();
}

LogicalResult SoftmaxCrossEntropyOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  StringRef name = getOperationName();
  RankedTensorType predictions = tensor(adaptor.getPredictions()),
                   targets = tensor(adaptor.getTargets());
  if (predictions.getRank() < 1)
    return fail(loc, name, "needs a last axis of classes, found ", predictions);
  if (isa<FloatType>(targets.getElementType())) {
    if (targets != predictions) // C2
      return fail(loc, name, "float targets must have the predictions' type ",
                  predictions, ", found ", targets);
    if (adaptor.getIgnoreIndex()) // C3
      return fail(loc, name, "'ignore_index' needs integer targets, found ",
                  targets);
  } else if (targets.getShape() != predictions.getShape().drop_back()) { // C1
    return fail(loc, name, "integer targets must have shape ",
                toString(predictions.getShape().drop_back()), ", found ",
                targets);
  }
  double smoothing = adaptor.getLabelSmoothing().convertToDouble();
  if (!(smoothing >= 0 && smoothing <= 1)) // C4
    return fail(loc, name, "label_smoothing must lie in [0, 1], found ",
                smoothing);
  return inferLoss(adaptor.getPredictions(), types);
}

/// Verifies C1 of the regression losses.
template <typename Adaptor>
static LogicalResult inferRegression(std::optional<Location> loc,
                                     StringRef name, Adaptor adaptor,
                                     SmallVectorImpl<Type> &types) {
  if (adaptor.getTargets().getType() != adaptor.getPredictions().getType())
    return fail(loc, name, "targets must have the predictions' type ",
                adaptor.getPredictions().getType(), ", found ",
                adaptor.getTargets().getType());
  return inferLoss(adaptor.getPredictions(), types);
}

#define MPC_INFER_REGRESSION(OP)                                               \
  LogicalResult OP::inferReturnTypes(                                          \
      MLIRContext *, std::optional<Location> loc, Adaptor adaptor,             \
      SmallVectorImpl<Type> &types) {                                          \
    return inferRegression(loc, getOperationName(), adaptor, types);           \
  }
MPC_INFER_REGRESSION(SigmoidCrossEntropyOp)
MPC_INFER_REGRESSION(MeanSquaredErrorOp)
MPC_INFER_REGRESSION(MeanAbsoluteErrorOp)
#undef MPC_INFER_REGRESSION

LogicalResult HuberOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> loc,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  if (!(adaptor.getDelta().convertToDouble() > 0)) // C2
    return fail(loc, getOperationName(), "delta must be positive, found ",
                adaptor.getDelta().convertToDouble());
  return inferRegression(loc, getOperationName(), adaptor, types);
}
