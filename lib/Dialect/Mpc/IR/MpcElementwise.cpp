//===- MpcElementwise.cpp - shape rules of elementwise ops ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Broadcasting, and elementwise ops whose result has another element type.
//
//===----------------------------------------------------------------------===//

#include "MpcShapes.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::shapes;

/// Broadcasts all operands; the result has element type `element`.
static LogicalResult inferBroadcast(std::optional<Location> loc, StringRef op,
                                    ValueRange operands, Type element,
                                    SmallVectorImpl<Type> &types) {
  Shape shape(tensor(operands.front()).getShape());
  for (Value operand : operands.drop_front()) {
    std::optional<Shape> joined = broadcast(shape, tensor(operand).getShape());
    if (!joined)
      return fail(loc, op, "shapes ", toString(shape), " and ",
                  toString(tensor(operand).getShape()),
                  " do not broadcast together");
    shape = *joined;
  }
  types.push_back(RankedTensorType::get(shape, element));
  return success();
}

// C1, C2 and C3 of every binary op.
#define MPC_INFER_BINARY(Op)                                                   \
  LogicalResult Op::inferReturnTypes(                                          \
      MLIRContext *, std::optional<Location> loc, Op::Adaptor adaptor,         \
      SmallVectorImpl<Type> &types) {                                          \
    StringRef name = Op::getOperationName();                                   \
    if (failed(requireSameElementType(loc, name, adaptor.getOperands())))      \
      return failure();                                                        \
    return inferBroadcast(loc, name, adaptor.getOperands(),                    \
                          tensor(adaptor.getLhs()).getElementType(), types);   \
  }
MPC_INFER_BINARY(AddOp)
MPC_INFER_BINARY(SubOp)
MPC_INFER_BINARY(MulOp)
MPC_INFER_BINARY(DivOp)
MPC_INFER_BINARY(MaxOp)
MPC_INFER_BINARY(MinOp)
MPC_INFER_BINARY(PowOp)
MPC_INFER_BINARY(Atan2Op)
MPC_INFER_BINARY(RemOp)
MPC_INFER_BINARY(AndOp)
MPC_INFER_BINARY(OrOp)
MPC_INFER_BINARY(XorOp)
MPC_INFER_BINARY(ShiftLeftOp)
MPC_INFER_BINARY(ShiftRightOp)
#undef MPC_INFER_BINARY

LogicalResult CompareOp::inferReturnTypes(MLIRContext *context,
                                          std::optional<Location> loc,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  if (failed(requireSameElementType(loc, getOperationName(),
                                    adaptor.getOperands())))
    return failure();
  return inferBroadcast(loc, getOperationName(), adaptor.getOperands(),
                        IntegerType::get(context, 1), types);
}

bool CompareOp::dependsOnOrder(unsigned index) {
  auto other = getOperand(1 - index).getDefiningOp<ConstantOp>();
  bool isSign = other && splatValue(other.getValue()) == 0.0;
  return isa<FloatType>(getElementTypeOrSelf(getOperand(index).getType())) &&
         !isSign;
}

LogicalResult SelectOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  if (failed(requireSameElementType(loc, getOperationName(),
                                    adaptor.getOperands().drop_front())))
    return failure();
  return inferBroadcast(loc, getOperationName(), adaptor.getOperands(),
                        tensor(adaptor.getOnTrue()).getElementType(), types);
}

LogicalResult ClampOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> loc,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  StringRef name = getOperationName();
  RankedTensorType input = tensor(adaptor.getInput());
  if (failed(requireSameElementType(loc, name, adaptor.getOperands())))
    return failure();
  if (failed(inferBroadcast(loc, name, adaptor.getOperands(),
                            input.getElementType(), types)))
    return failure();
  if (types.back() != input) // C2
    return fail(loc, name, "bounds must broadcast to ", input, ", but give ",
                types.back());
  return success();
}

static LogicalResult inferClassify(Value input, SmallVectorImpl<Type> &types) {
  types.push_back(tensor(input).clone(IntegerType::get(input.getContext(), 1)));
  return success();
}
LogicalResult IsNanOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  return inferClassify(adaptor.getInput(), types);
}
LogicalResult IsInfOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  return inferClassify(adaptor.getInput(), types);
}
