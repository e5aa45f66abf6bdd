//===- MpcTraining.cpp - ops of training steps ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registration of the training ops, and the losses. Backward ops:
// MpcGradient.cpp; updates: MpcOptimizer.cpp.
//
//===----------------------------------------------------------------------===//

#include "MpcShapes.h"

#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::shapes;

/// Result types of an optimizer: the parameter's, one per state, and optionally
/// that of a low-precision copy.
static ParseResult parseUpdateTypes(
    OpAsmParser &parser, ArrayRef<OpAsmParser::UnresolvedOperand> states,
    Type &parameter, SmallVectorImpl<Type> &newStates, Type &copy) {
  SmallVector<Type> types;
  SMLoc loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalLParen())) {
    if (parser.parseTypeList(types) || parser.parseRParen())
      return failure();
  } else if (parser.parseType(types.emplace_back())) {
    return failure();
  }
  size_t least = 1 + states.size();
  if (types.size() != least && types.size() != least + 1)
    return parser.emitError(loc)
           << "needs " << least << " result types for " << states.size()
           << " states, and one more for a copy; found " << types.size();
  parameter = types.front();
  newStates.assign(types.begin() + 1, types.begin() + least);
  if (types.size() > least)
    copy = types.back();
  return success();
}

static void printUpdateTypes(OpAsmPrinter &printer, Operation *op, OperandRange,
                             Type, TypeRange, Type) {
  if (op->getNumResults() == 1)
    printer << op->getResult(0).getType();
  else
    printer << '(' << op->getResultTypes() << ')';
}

#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.cpp.inc"

template <typename... Ops> static void insertAll(MpcDialect *dialect) {
  (RegisteredOperationName::insert<Ops>(*dialect), ...);
}

namespace mpc {
void registerTrainingOps(MpcDialect *dialect) {
  insertAll<
#define GET_OP_LIST
#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.cpp.inc"
      >(dialect);
}
} // namespace mpc

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
