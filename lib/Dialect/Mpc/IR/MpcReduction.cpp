//===- MpcReduction.cpp - shape rules of reductions, softmax and norms ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Includes the checks shared by all ops with axes.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include "MpcShapes.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::shapes;

//===----------------------------------------------------------------------===//
// reduce_*
//===----------------------------------------------------------------------===//

static LogicalResult inferReduce(std::optional<Location> loc, StringRef name,
                                 Value operand, ArrayRef<int64_t> axes,
                                 bool keepDims, Type element,
                                 SmallVectorImpl<Type> &types) {
  RankedTensorType input = tensor(operand);
  if (failed(requireAxes(loc, name, axes, input.getRank()))) // C1
    return failure();
  Shape shape;
  for (int64_t axis = 0; axis < input.getRank(); ++axis) {
    if (!llvm::is_contained(axes, axis))
      shape.push_back(input.getShape()[axis]);
    else if (keepDims)
      shape.push_back(1);
  }
  types.push_back(RankedTensorType::get(shape, element));
  return success();
}

// Verifies C3: accumulate against the input type.
static LogicalResult checkAccumulate(std::optional<Location> loc,
                                     StringRef name, Type accumulate,
                                     Type element) {
  if (isa<FloatType>(accumulate) && isa<FloatType>(element) &&
      accumulate.getIntOrFloatBitWidth() >= element.getIntOrFloatBitWidth())
    return success();
  if (accumulate == element)
    return success();
  return fail(loc, name, "accumulates in ", accumulate,
              ", which is narrower than its input's type ", element);
}

#define MPC_REDUCE(Op)                                                         \
  LogicalResult Op::inferReturnTypes(                                          \
      MLIRContext *, std::optional<Location> loc, Op::Adaptor adaptor,         \
      SmallVectorImpl<Type> &types) {                                          \
    Type element = tensor(adaptor.getInput()).getElementType();                \
    if (TypeAttr accumulate = adaptor.getAccumulateAttr())                     \
      if (failed(checkAccumulate(loc, Op::getOperationName(),                  \
                                 accumulate.getValue(), element)))             \
        return failure();                                                      \
    return inferReduce(loc, Op::getOperationName(), adaptor.getInput(),        \
                       adaptor.getAxes(), adaptor.getKeepDims(), element,      \
                       types);                                                 \
  }                                                                            \
  bool Op::isCompatibleReturnTypes(TypeRange inferred,                         \
                                   TypeRange actual) { /* C2 */                \
    return isSameOrWider(inferred, actual);                                    \
  }                                                                            \
  SmallVector<int64_t> Op::getReductionAxes() {                                \
    return SmallVector<int64_t>(getAxes());                                    \
  }                                                                            \
  Type Op::getAccumulateType() {                                               \
    if (TypeAttr accumulate = getAccumulateAttr())                             \
      return accumulate.getValue();                                            \
    return tensor(getResult()).getElementType();                               \
  }
MPC_REDUCE(ReduceSumOp)
MPC_REDUCE(ReduceMeanOp)
MPC_REDUCE(ReduceProdOp)
MPC_REDUCE(ReduceMaxOp)
MPC_REDUCE(ReduceMinOp)
#undef MPC_REDUCE

#define MPC_ARG_REDUCE(Op)                                                     \
  LogicalResult Op::inferReturnTypes(                                          \
      MLIRContext *context, std::optional<Location> loc, Op::Adaptor adaptor,  \
      SmallVectorImpl<Type> &types) {                                          \
    StringRef name = Op::getOperationName();                                   \
    RankedTensorType input = tensor(adaptor.getInput());                       \
    int64_t axis = adaptor.getAxis();                                          \
    if (failed(requireAxis(loc, name, axis, input.getRank()))) /* C1 */        \
      return failure();                                                        \
    if (input.getShape()[axis] == 0)                                           \
      return fail(loc, name, "has no elements along axis ", axis, " of ",      \
                  input);                                                      \
    return inferReduce(loc, name, adaptor.getInput(), {axis},                  \
                       adaptor.getKeepDims(), IntegerType::get(context, 64),   \
                       types);                                                 \
  }                                                                            \
  SmallVector<int64_t> Op::getReductionAxes() { return {int64_t(getAxis())}; }
MPC_ARG_REDUCE(ArgmaxOp)
MPC_ARG_REDUCE(ArgminOp)
#undef MPC_ARG_REDUCE

//===----------------------------------------------------------------------===//
// cumsum, top_k
//===----------------------------------------------------------------------===//

SmallVector<int64_t> CumsumOp::getReductionAxes() {
  return {int64_t(getAxis())};
}
LogicalResult CumsumOp::verify() {
  return requireAxis(getLoc(), getOperationName(), getAxis(),
                     tensor(getInput()).getRank());
}

LogicalResult TopKOp::inferReturnTypes(MLIRContext *context,
                                       std::optional<Location> loc,
                                       Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  StringRef name = getOperationName();
  RankedTensorType input = tensor(adaptor.getInput());
  int64_t axis = adaptor.getAxis(), k = adaptor.getK();
  if (failed(requireStatic(loc, name, adaptor.getOperands())) ||
      failed(requireAxis(loc, name, axis, input.getRank())))
    return failure();
  if (k < 0 || k > input.getShape()[axis]) // C1
    return fail(loc, name, "takes ", k, " of ", input.getShape()[axis],
                " elements along axis ", axis);
  Shape shape(input.getShape());
  shape[axis] = k;
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  types.push_back(RankedTensorType::get(shape, IntegerType::get(context, 64)));
  return success();
}

//===----------------------------------------------------------------------===//
// Softmax and norms
//===----------------------------------------------------------------------===//

SmallVector<int64_t> SoftmaxOp::getReductionAxes() {
  return {int64_t(getAxis())};
}
SmallVector<int64_t> LogSoftmaxOp::getReductionAxes() {
  return {int64_t(getAxis())};
}
LogicalResult SoftmaxOp::verify() {
  return requireAxis(getLoc(), getOperationName(), getAxis(),
                     tensor(getInput()).getRank());
}
LogicalResult LogSoftmaxOp::verify() {
  return requireAxis(getLoc(), getOperationName(), getAxis(),
                     tensor(getInput()).getRank());
}

/// Verifies C3 of every norm, and a finite, nonnegative epsilon.
static LogicalResult verifyNorm(Operation *op, const APFloat &epsilon) {
  if (failed(requireSameElementType(op->getLoc(), op->getName().getStringRef(),
                                    op->getOperands())))
    return failure();
  if (!epsilon.isFinite() || epsilon.isNegative())
    return op->emitOpError()
           << "needs a finite epsilon that is not negative, found "
           << epsilon.convertToDouble();
  return success();
}

LogicalResult shapes::requireTrailingNorm(Operation *op, RankedTensorType input,
                                          int64_t axis, ValueRange scales,
                                          const APFloat &epsilon) {
  if (failed(verifyNorm(op, epsilon)) ||
      failed(requireAxis(op->getLoc(), op->getName().getStringRef(), axis,
                         input.getRank())))
    return failure();
  ArrayRef<int64_t> extents = input.getShape().drop_front(axis);
  for (Value scale : scales) {
    if (!scale)
      continue;
    std::optional<Shape> joined = broadcast(extents, tensor(scale).getShape());
    if (!joined || ArrayRef<int64_t>(*joined) != extents)
      return op->emitOpError()
             << "operand " << scale.getType()
             << " does not broadcast to the normalised extents "
             << toString(extents);
  }
  return success();
}

/// Verifies C2 of per-channel norms.
static LogicalResult verifyChannels(Operation *op, RankedTensorType input,
                                    ValueRange scales) {
  if (input.getRank() < 2)
    return op->emitOpError() << "needs a batch and channels, found " << input;
  for (Value scale : scales)
    if (tensor(scale).getRank() != 1 ||
        tensor(scale).getShape()[0] != input.getShape()[1])
      return op->emitOpError()
             << "operand " << scale.getType() << " must hold the "
             << input.getShape()[1] << " channels of " << input;
  return success();
}

LogicalResult shapes::requireChannelNorm(Operation *op, RankedTensorType input,
                                         ValueRange scales,
                                         const APFloat &epsilon) {
  if (failed(verifyNorm(op, epsilon)))
    return failure();
  return verifyChannels(op, input, scales);
}

static SmallVector<int64_t> axesFrom(int64_t first, int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(std::min(first, rank), rank));
}

SmallVector<int64_t> LayerNormOp::getReductionAxes() {
  return axesFrom(getAxis(), tensor(getInput()).getRank());
}
LogicalResult LayerNormOp::verify() {
  return requireTrailingNorm(*this, tensor(getInput()), getAxis(),
                             getOperands().drop_front(), getEpsilon());
}

SmallVector<int64_t> RmsNormOp::getReductionAxes() {
  return axesFrom(getAxis(), tensor(getInput()).getRank());
}
LogicalResult RmsNormOp::verify() {
  return requireTrailingNorm(*this, tensor(getInput()), getAxis(),
                             getOperands().drop_front(), getEpsilon());
}

LogicalResult BatchNormOp::verify() {
  return requireChannelNorm(*this, tensor(getInput()),
                            getOperands().drop_front(), getEpsilon());
}

SmallVector<int64_t> GroupNormOp::getReductionAxes() {
  return axesFrom(1, tensor(getInput()).getRank());
}
LogicalResult GroupNormOp::verify() {
  if (failed(verifyNorm(*this, getEpsilon())) ||
      failed(verifyChannels(*this, tensor(getInput()),
                            getOperands().drop_front())))
    return failure();
  int64_t channels = tensor(getInput()).getShape()[1], groups = getGroups();
  if (groups <= 0 || channels % groups != 0) // C1
    return emitOpError() << "cannot split " << channels << " channels into "
                         << groups << " groups";
  return success();
}

SmallVector<int64_t> InstanceNormOp::getReductionAxes() {
  return axesFrom(2, tensor(getInput()).getRank());
}
LogicalResult InstanceNormOp::verify() {
  if (failed(verifyNorm(*this, getEpsilon())) ||
      failed(verifyChannels(*this, tensor(getInput()),
                            getOperands().drop_front())))
    return failure();
  if (tensor(getInput()).getRank() < 3) // C1
    return emitOpError() << "needs spatial dimensions, found "
                         << getInput().getType();
  return success();
}
