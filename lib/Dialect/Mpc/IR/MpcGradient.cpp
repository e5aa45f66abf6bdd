//===- MpcGradient.cpp - verifiers of backward ops ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cn refer to the constraints in the op descriptions.
//
//===----------------------------------------------------------------------===//

#include "MpcShapes.h"

#include "mpc/Dialect/Mpc/IR/CreateChecked.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::shapes;

//===----------------------------------------------------------------------===//
// Convolution and pooling
//===----------------------------------------------------------------------===//

LogicalResult ConvFilterGradientOp::verify() {
  RankedTensorType input = tensor(getInput()), gradient = tensor(getGradient()),
                   result = tensor(getResult());
  if (input.getElementType() != gradient.getElementType() ||
      input.getRank() != gradient.getRank() ||
      input.getRank() != result.getRank() || input.getRank() < 3 ||
      result.getElementType().getIntOrFloatBitWidth() <
          input.getElementType().getIntOrFloatBitWidth()) // C1
    return emitOpError() << "operands " << input << " and " << gradient
                         << " do not give " << result;
  Image image(input.getShape(), getLayout()),
      positions(gradient.getShape(), getLayout());
  ArrayRef<int64_t> filter = result.getShape();
  int64_t groups = getGroups();
  if (groups <= 0 || filter[1] * groups != image.channels ||
      filter[0] != positions.channels || filter[0] % groups != 0 ||
      image.batch != positions.batch) // C3
    return emitOpError() << "channels of input " << input << ", gradient "
                         << gradient << " and result " << result
                         << " do not fit in " << groups << " groups";
  FailureOr<Shape> spatial =
      slide(getLoc(), getOperationName(), image.spatial, // C2
            {filter.drop_front(2), getStrides(), getPadLow(), getPadHigh(),
             getDilations()});
  if (failed(spatial))
    return failure();
  if (*spatial != positions.spatial) // C3
    return emitOpError() << "gradient " << gradient << " does not have the "
                         << "positions of the convolution, "
                         << toString(*spatial);
  return success();
}

int64_t ConvFilterGradientOp::getContractionSize() {
  Image positions(tensor(getGradient()).getShape(), getLayout());
  return positions.batch * productOf(positions.spatial);
}

/// Verifies C1 of pool gradients.
template <typename OpTy> static LogicalResult verifyPoolGradient(OpTy op) {
  RankedTensorType gradient = tensor(op.getGradient()),
                   result = tensor(op.getResult());
  if (result.getRank() < 3 || gradient.getRank() != result.getRank())
    return op.emitOpError()
           << "gradient " << gradient << " is not that of a pool of " << result;
  Image image(result.getShape(), op.getLayout());
  FailureOr<Shape> spatial =
      slide(op.getLoc(), op.getOperationName(), image.spatial,
            {op.getWindow(), op.getStrides(), op.getPadLow(), op.getPadHigh(),
             op.getDilations(), op.getCeilMode()});
  if (failed(spatial))
    return failure();
  Shape expected =
      Image::join(image.batch, image.channels, *spatial, op.getLayout());
  if (gradient != RankedTensorType::get(expected, result.getElementType()))
    return op.emitOpError() << "needs a gradient of shape "
                            << toString(expected) << ", found " << gradient;
  return success();
}
LogicalResult MaxPoolGradientOp::verify() { return verifyPoolGradient(*this); }
LogicalResult AvgPoolGradientOp::verify() { return verifyPoolGradient(*this); }

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

LogicalResult NormGradientOp::verify() {
  return requireTrailingNorm(*this, tensor(getInput()), getAxis(),
                             ValueRange(getScale()), getEpsilon());
}

LogicalResult BatchNormGradientOp::verify() {
  return requireChannelNorm(*this, tensor(getInput()), ValueRange(getScale()),
                            getEpsilon());
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

LogicalResult AttentionGradientOp::verify() {
  OpBuilder builder(getContext());
  SmallVector<Value> operands = {getQuery(), getKey(), getValue()};
  if (getMask())
    operands.push_back(getMask());
  SmallVector<NamedAttribute> attributes = {
      builder.getNamedAttr("scale", getScaleAttr())};
  if (getCausal())
    attributes.push_back(builder.getNamedAttr("causal", builder.getUnitAttr()));
  SmallVector<Type> types;
  if (failed(inferResultTypes(getLoc(), AttentionOp::getOperationName(),
                              operands, attributes, types)))
    return failure();
  if (tensor(getGradient()).getShape() !=
      cast<RankedTensorType>(types.front()).getShape())
    return emitOpError() << "needs a gradient of the attention's type "
                         << types.front() << ", found "
                         << getGradient().getType();
  return success();
}

int64_t AttentionGradientOp::getContractionSize() {
  RankedTensorType key = tensor(getKey());
  return key.getShape()[key.getRank() - 2];
}

Type AttentionGradientOp::getAccumulateType() {
  Type element = tensor(getQuery()).getElementType();
  return element.isF64() ? element : Float32Type::get(getContext());
}

//===----------------------------------------------------------------------===//
// Training-mode ops and random numbers
//===----------------------------------------------------------------------===//

LogicalResult BatchNormTrainingOp::verify() {
  RankedTensorType input = tensor(getInput());
  if (input.getRank() < 2)
    return emitOpError() << "needs a batch and channels, found " << input;
  Shape channels = {input.getShape()[1]};
  for (Value value : {getScale(), getBias(), getMean(), getVariance()})
    if (tensor(value).getShape() != ArrayRef<int64_t>(channels)) // C1
      return emitOpError() << "needs operands of shape " << toString(channels)
                           << ", found " << value.getType();
  Type element = input.getElementType(),
       statistics = tensor(getMean()).getElementType();
  if (tensor(getScale()).getElementType() != element ||
      tensor(getBias()).getElementType() != element ||
      !(statistics.isF32() || statistics.isF64())) // C2
    return emitOpError() << "needs scale and bias of " << element
                         << " and statistics of f32 or f64, found "
                         << getScale().getType() << ", " << getBias().getType()
                         << " and " << getMean().getType();
  double momentum = getMomentum().convertToDouble(),
         epsilon = getEpsilon().convertToDouble();
  if (!(momentum >= 0 && momentum <= 1) || !(epsilon >= 0)) // C3
    return emitOpError() << "needs momentum in [0, 1] and epsilon >= 0, found "
                         << momentum << " and " << epsilon;
  return success();
}

/// Verifies C1 of ops that generate random numbers.
static LogicalResult verifyState(Operation *op, Value state) {
  if (tensor(state).getShape() != ArrayRef<int64_t>({2}))
    return op->emitOpError()
           << "needs a state of seed and step, tensor<2xi64>, found "
           << state.getType();
  return success();
}
LogicalResult RandomBitsOp::verify() { return verifyState(*this, getState()); }
LogicalResult DropoutOp::verify() {
  double probability = getProbability().convertToDouble();
  if (!(probability >= 0 && probability < 1)) // C2
    return emitOpError() << "probability must lie in [0, 1), found "
                         << probability;
  return verifyState(*this, getState());
}
