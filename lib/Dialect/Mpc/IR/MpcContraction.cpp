//===- MpcContraction.cpp - matmul, convolution, attention, pooling -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shape inference and verifiers; Cn refer to the op descriptions' constraints.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"

#include "MpcShapes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::shapes;

/// `accumulate` may be any float at least as wide as the operands' type.
static LogicalResult verifyAccumulate(Operation *op, TypeAttr accumulate,
                                      Type operand) {
  if (!accumulate)
    return success();
  Type type = accumulate.getValue();
  if (type == operand)
    return success();
  if (!isa<FloatType>(type) || !isa<FloatType>(operand) ||
      type.getIntOrFloatBitWidth() < operand.getIntOrFloatBitWidth())
    return op->emitOpError()
           << "accumulates in " << type
           << ", which is narrower than its operands' type " << operand;
  return success();
}

static bool isByte(Type type) {
  return type.isInteger(8) || type.isUnsignedInteger(8);
}

static bool isFloat8(Type type) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(type);
}

/// Returns the default element type of the result; emits an error if the
/// operand types cannot be multiplied (C1).
static FailureOr<Type> productType(std::optional<Location> loc, StringRef op,
                                   ValueRange operands) {
  Type lhs = tensor(operands[0]).getElementType(),
       rhs = tensor(operands[1]).getElementType();
  if (lhs != rhs && isByte(lhs) && isByte(rhs))
    return Type(IntegerType::get(lhs.getContext(), 32));
  if (isFloat8(lhs) && isFloat8(rhs))
    return lhs;
  if (failed(requireSameElementType(loc, op, operands)))
    return failure();
  return lhs;
}

/// Returns true if `actual` is a valid type for the result inferred as
/// `inferred`; products of 8-bit integers may be i32.
static bool isProductType(TypeRange inferred, TypeRange actual) {
  auto x = dyn_cast<RankedTensorType>(inferred[0]);
  auto y = dyn_cast<RankedTensorType>(actual[0]);
  if (x && y && isByte(x.getElementType()) && y.getElementType().isInteger(32))
    return succeeded(verifyCompatibleShape(x, y));
  return isSameOrWider(inferred, actual);
}

//===----------------------------------------------------------------------===//
// matmul
//===----------------------------------------------------------------------===//

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  StringRef name = getOperationName();
  RankedTensorType lhs = tensor(adaptor.getLhs()),
                   rhs = tensor(adaptor.getRhs());
  FailureOr<Type> element = productType(loc, name, adaptor.getOperands()); // C1
  if (failed(element))
    return failure();
  if (lhs.getRank() < 2 || rhs.getRank() < 2)
    return fail(loc, name, "needs operands of rank 2 or more, found ", lhs,
                " and ", rhs);
  ArrayRef<int64_t> a = lhs.getShape(), b = rhs.getShape();
  int64_t m = a[a.size() - 2], k = a.back();
  if (adaptor.getTransposeLhs())
    std::swap(m, k);
  if (PackedAttr packed =
          adaptor.getPackedAttr()) { // C6: the columns are the result's.
    int64_t steps = packed.getSteps(k, k);
    if (adaptor.getTransposeRhs() || rhs.getRank() != 3 || b[1] != steps ||
        b[2] != packed.getStepElements())
      return fail(loc, name, "packed rhs must be [panels, ", steps, ", ",
                  packed.getStepElements(), "], found ", rhs);
    Shape shape(a.drop_back(2));
    shape.append({m, b[0] * packed.getColumns()});
    types.push_back(RankedTensorType::get(shape, *element));
    return success();
  }
  int64_t kRhs = b[b.size() - 2], n = b.back();
  if (adaptor.getTransposeRhs())
    std::swap(kRhs, n);
  if (k != kRhs && !ShapedType::isDynamic(k) &&
      !ShapedType::isDynamic(kRhs)) // C2
    return fail(loc, name, "contracts extents ", k, " and ", kRhs, " of ", lhs,
                " and ", rhs);
  std::optional<Shape> shape = broadcast(a.drop_back(2), b.drop_back(2));
  if (!shape) // C3
    return fail(loc, name, "batch dimensions of ", lhs, " and ", rhs,
                " do not broadcast together");
  shape->append({m, n});
  types.push_back(RankedTensorType::get(*shape, *element));
  return success();
}

bool MatmulOp::isCompatibleReturnTypes(TypeRange inferred, TypeRange actual) {
  if (isProductType(inferred, actual))
    return true;
  // A packed rhs is padded to whole panels: the result may have fewer columns.
  RankedTensorType x = dyn_cast<RankedTensorType>(inferred[0]);
  RankedTensorType y = dyn_cast<RankedTensorType>(actual[0]);
  if (!x || !y || x.getRank() != y.getRank() || x.getRank() < 2 ||
      y.getShape().back() > x.getShape().back())
    return false;
  RankedTensorType narrowed =
      RankedTensorType::get(y.getShape(), x.getElementType());
  return x.getShape().drop_back() == y.getShape().drop_back() &&
         isProductType(TypeRange(Type(narrowed)), TypeRange(Type(y)));
}

int64_t MatmulOp::getContractionSize() {
  ArrayRef<int64_t> shape = tensor(getLhs()).getShape();
  return getTransposeLhs() ? shape[shape.size() - 2] : shape.back();
}

LogicalResult MatmulOp::verify() {
  // Verifiers run before the inferred types are checked; the rest relies on
  // them.
  if (failed(mlir::detail::verifyInferredResultTypes(*this)))
    return failure();
  ArrayRef<int64_t> result = tensor(getResult()).getShape();
  if (PackedAttr packed = getPackedAttr()) { // C6
    int64_t panels = tensor(getRhs()).getShape()[0];
    int64_t columns = packed.getColumns();
    if (panels != (result.back() + columns - 1) / columns)
      return emitOpError() << "has " << panels << " packed panels of "
                           << columns << " columns for " << result.back()
                           << " result columns";
  } else {
    int64_t n = tensor(getRhs()).getShape()[tensor(getRhs()).getRank() -
                                            (getTransposeRhs() ? 2 : 1)];
    if (n != result.back())
      return emitOpError() << "has " << n << " rhs columns but "
                           << result.back() << " result columns";
  }
  return verifyAccumulate(*this, getAccumulateAttr(),
                          tensor(getLhs()).getElementType()); // C5
}

//===----------------------------------------------------------------------===//
// conv
//===----------------------------------------------------------------------===//

/// ConvOp::getContractionRun() for `channels` per group.
static int64_t contractionRun(ArrayRef<int64_t> window,
                              ArrayRef<int64_t> dilations, int64_t groups,
                              int64_t channels) {
  bool touches = groups == 1 && !window.empty() && dilations.back() == 1;
  return touches ? window.back() * channels : channels;
}

LogicalResult ConvOp::inferReturnTypes(MLIRContext *,
                                       std::optional<Location> loc,
                                       Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  StringRef name = getOperationName();
  RankedTensorType input = tensor(adaptor.getInput()),
                   filter = tensor(adaptor.getFilter());
  if (failed(requireStatic(loc, name, adaptor.getOperands())))
    return failure();
  FailureOr<Type> element = productType(loc, name, adaptor.getOperands()); // C1
  if (failed(element))
    return failure();
  if (!isa<FloatType>(*element) && !isByte(input.getElementType()))
    return fail(loc, name, "convolves floats or 8-bit integers, not ", input);
  if (input.getRank() < 3)
    return fail(loc, name,
                "needs a batch, channels and spatial dimensions, found ",
                input);
  Image image(input.getShape(), adaptor.getLayout());
  int64_t groups = adaptor.getGroups();
  if (groups <= 0 || image.channels % groups != 0) // C3
    return fail(loc, name, "cannot split ", image.channels, " channels into ",
                groups, " groups");
  Shape window;
  int64_t outputs;
  if (PackedAttr packed = adaptor.getPackedAttr()) {
    if (!adaptor.getWindow() || filter.getRank() != 3)
      return fail(loc, name,
                  "packed filter must have rank 3 and a 'window', found ",
                  filter);
    window.assign(adaptor.getWindow()->begin(), adaptor.getWindow()->end());
    int64_t channels = image.channels / groups;
    int64_t steps = packed.getSteps(
        productOf(window) * channels,
        contractionRun(window, adaptor.getDilations(), groups, channels));
    if (filter.getShape()[1] != steps ||
        filter.getShape()[2] != packed.getStepElements())
      return fail(loc, name, "packed filter ", filter, " does not hold window ",
                  toString(window), " of ", image.channels / groups,
                  " channels in panels of ", packed.getColumns());
    outputs = filter.getShape()[0] * packed.getColumns();
  } else {
    if (filter.getRank() != input.getRank())
      return fail(loc, name, "needs operands of one rank, found ", input,
                  " and ", filter);
    if (filter.getShape()[1] * groups != image.channels) // C3
      return fail(loc, name, "filter takes ", filter.getShape()[1],
                  " channels per group, input has ", image.channels, " in ",
                  groups, " groups");
    window.assign(filter.getShape().begin() + 2, filter.getShape().end());
    outputs = filter.getShape()[0];
    if (outputs % groups != 0)
      return fail(loc, name, "cannot split ", outputs, " output channels into ",
                  groups, " groups");
  }
  FailureOr<Shape> spatial = // C2, C4
      slide(loc, name, image.spatial,
            {window, adaptor.getStrides(), adaptor.getPadLow(),
             adaptor.getPadHigh(), adaptor.getDilations()});
  if (failed(spatial))
    return failure();
  types.push_back(RankedTensorType::get(
      Image::join(image.batch, outputs, *spatial, adaptor.getLayout()),
      *element));
  return success();
}

bool ConvOp::isCompatibleReturnTypes(TypeRange inferred, TypeRange actual) {
  if (isProductType(inferred, actual))
    return true;
  // A packed filter is padded to whole panels; verify() checks the channels.
  RankedTensorType x = dyn_cast<RankedTensorType>(inferred[0]);
  RankedTensorType y = dyn_cast<RankedTensorType>(actual[0]);
  if (!x || !y || x.getRank() != y.getRank())
    return false;
  int differing = 0;
  for (auto [a, b] : llvm::zip_equal(x.getShape(), y.getShape())) {
    if (b > a)
      return false;
    differing += a != b;
  }
  RankedTensorType narrowed =
      RankedTensorType::get(y.getShape(), x.getElementType());
  return differing <= 1 &&
         isProductType(TypeRange(Type(narrowed)), TypeRange(Type(y)));
}

SmallVector<int64_t> ConvOp::getWindowShape() {
  if (getPackedAttr())
    return SmallVector<int64_t>(*getWindow());
  return SmallVector<int64_t>(tensor(getFilter()).getShape().drop_front(2));
}

int64_t ConvOp::getOutputChannels() {
  return Image(tensor(getResult()).getShape(), getLayout()).channels;
}

int64_t ConvOp::getContractionRun() {
  int64_t channels =
      Image(tensor(getInput()).getShape(), getLayout()).channels / getGroups();
  return contractionRun(getWindowShape(), getDilations(), getGroups(),
                        channels);
}

int64_t ConvOp::getContractionSize() {
  return productOf(getWindowShape()) *
         (Image(tensor(getInput()).getShape(), getLayout()).channels /
          int64_t(getGroups()));
}

LogicalResult ConvOp::verify() {
  // Verifiers run before the inferred types are checked; the rest relies on
  // them.
  if (failed(mlir::detail::verifyInferredResultTypes(*this)))
    return failure();
  int64_t outputs = getOutputChannels();
  int64_t groups = getGroups();
  if (PackedAttr packed = getPackedAttr()) {
    if (outputs % groups != 0)
      return emitOpError() << "has an impossible layout " << packed;
    int64_t panels =
        (outputs / groups + packed.getColumns() - 1) / packed.getColumns();
    if (tensor(getFilter()).getShape()[0] != groups * panels)
      return emitOpError() << "has " << tensor(getFilter()).getShape()[0]
                           << " packed panels, " << groups << " groups of "
                           << outputs / groups << " output channels need "
                           << groups * panels;
  } else if (tensor(getFilter()).getShape()[0] != outputs) {
    return emitOpError() << "has " << tensor(getFilter()).getShape()[0]
                         << " filters but " << outputs << " output channels";
  }
  Type input = tensor(getInput()).getElementType();
  Type result = tensor(getResult()).getElementType();
  if (!isa<FloatType>(input) && !result.isInteger(32))
    return emitOpError() << "sums products of " << input << " in i32, not in "
                         << result;
  int64_t low = input.isUnsignedInteger() ? 0 : -128, padValue = getPadValue();
  if (padValue &&
      (isa<FloatType>(input) || padValue < low || padValue > low + 255)) // C5
    return emitOpError() << "pads an input of " << input << " with "
                         << padValue;
  return verifyAccumulate(*this, getAccumulateAttr(), input);
}

//===----------------------------------------------------------------------===//
// conv_transpose
//===----------------------------------------------------------------------===//

LogicalResult ConvTransposeOp::inferReturnTypes(MLIRContext *,
                                                std::optional<Location> loc,
                                                Adaptor adaptor,
                                                SmallVectorImpl<Type> &types) {
  StringRef name = getOperationName();
  RankedTensorType input = tensor(adaptor.getInput()),
                   filter = tensor(adaptor.getFilter());
  if (failed(requireStatic(loc, name, adaptor.getOperands())) ||
      failed(requireSameElementType(loc, name, adaptor.getOperands()))) // C1
    return failure();
  int64_t spatialRank = input.getRank() - 2;
  if (spatialRank < 1 || filter.getRank() != input.getRank())
    return fail(loc, name, "needs operands of one rank of at least 3, found ",
                input, " and ", filter);
  int64_t groups = adaptor.getGroups();
  if (groups <= 0 || input.getShape()[1] % groups != 0 ||
      filter.getShape()[0] != input.getShape()[1]) // C3
    return fail(loc, name, "filter takes ", filter.getShape()[0],
                " channels, input has ", input.getShape()[1], " in ", groups,
                " groups");
  for (ArrayRef<int64_t> entries :
       {adaptor.getStrides(), adaptor.getPadLow(), adaptor.getPadHigh(),
        adaptor.getDilations(), adaptor.getOutputPadding()})
    if (int64_t(entries.size()) != spatialRank) // C2
      return fail(loc, name, "needs ", spatialRank,
                  " entries per window attribute, found ", toString(entries));
  Shape shape = {input.getShape()[0], filter.getShape()[1] * groups};
  for (int64_t i = 0; i < spatialRank; ++i) {
    int64_t stride = adaptor.getStrides()[i],
            dilation = adaptor.getDilations()[i];
    int64_t window = filter.getShape()[i + 2], extent = input.getShape()[i + 2];
    constexpr int64_t kLargest = int64_t(1) << 31;
    if (stride <= 0 || dilation <= 0 || stride > kLargest ||
        dilation > kLargest || window > kLargest || extent > kLargest)
      return fail(loc, name,
                  "strides and dilations must be positive and small, found ",
                  stride, " and ", dilation);
    int64_t size = (extent - 1) * stride + dilation * (window - 1) + 1 +
                   adaptor.getOutputPadding()[i] - adaptor.getPadLow()[i] -
                   adaptor.getPadHigh()[i];
    if (size <= 0) // C4
      return fail(loc, name, "result extent ", size, " of spatial dimension ",
                  i, " is not positive");
    shape.push_back(size);
  }
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

bool ConvTransposeOp::isCompatibleReturnTypes(TypeRange inferred,
                                              TypeRange actual) {
  return isSameOrWider(inferred, actual);
}

int64_t ConvTransposeOp::getContractionSize() {
  return productOf(tensor(getFilter()).getShape().drop_front(1));
}

LogicalResult ConvTransposeOp::verify() {
  // Verifiers run before the inferred types are checked; the rest relies on
  // them.
  if (failed(mlir::detail::verifyInferredResultTypes(*this)))
    return failure();
  return verifyAccumulate(*this, getAccumulateAttr(),
                          tensor(getInput()).getElementType());
}

//===----------------------------------------------------------------------===//
// attention
//===----------------------------------------------------------------------===//

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> loc,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  StringRef name = getOperationName();
  RankedTensorType query = tensor(adaptor.getQuery()),
                   key = tensor(adaptor.getKey()),
                   value = tensor(adaptor.getValue());
  if (failed(requireSameElementType(loc, name,
                                    adaptor.getOperands().take_front(3)))) // C1
    return failure();
  int64_t rank = query.getRank();
  if (rank < 3 || key.getRank() != rank || value.getRank() != rank)
    return fail(loc, name, "needs operands of one rank of at least 3, found ",
                query, ", ", key, " and ", value);
  ArrayRef<int64_t> q = query.getShape(), k = key.getShape(),
                    v = value.getShape();
  bool headsFit = k[rank - 3] != 0 && q[rank - 3] % k[rank - 3] == 0 &&
                  k[rank - 3] == v[rank - 3];
  if (!headsFit || q.drop_back(3) != k.drop_back(3) ||
      q.drop_back(3) != v.drop_back(3) || q[rank - 1] != k[rank - 1] ||
      k[rank - 2] != v[rank - 2]) // C2
    return fail(loc, name, "extents of query ", query, ", key ", key,
                " and value ", value, " do not fit");
  if (Value mask = adaptor.getMask()) { // C3
    Shape scores(q.drop_back(1));
    scores.push_back(k[rank - 2]);
    std::optional<Shape> joined = broadcast(scores, tensor(mask).getShape());
    if (!joined || *joined != scores)
      return fail(loc, name, "mask ", mask.getType(),
                  " does not broadcast to scores ", toString(scores));
    Type element = tensor(mask).getElementType();
    if (!element.isInteger(1) && !isa<FloatType>(element))
      return fail(loc, name, "mask must be i1 or float, found ",
                  mask.getType());
  }
  Shape shape(q.drop_back(1));
  shape.push_back(v.back());
  types.push_back(RankedTensorType::get(shape, query.getElementType()));
  return success();
}

bool AttentionOp::isCompatibleReturnTypes(TypeRange inferred,
                                          TypeRange actual) {
  return isSameOrWider(inferred, actual);
}

int64_t AttentionOp::getContractionSize() {
  RankedTensorType key = tensor(getKey());
  return key.getShape()[key.getRank() - 2];
}

Type AttentionOp::getAccumulateType() {
  Type element = tensor(getQuery()).getElementType();
  return element.isF64() ? element : Float32Type::get(getContext());
}

LogicalResult AttentionOp::verify() {
  // Verifiers run before the inferred types are checked; the rest relies on
  // them.
  if (failed(mlir::detail::verifyInferredResultTypes(*this)))
    return failure();
  if (!getScale().isFinite())
    return emitOpError() << "needs a finite scale";
  return success();
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

template <typename Adaptor>
static LogicalResult inferPool(std::optional<Location> loc, StringRef name,
                               Adaptor adaptor, SmallVectorImpl<Type> &types) {
  RankedTensorType input = tensor(adaptor.getInput());
  if (failed(requireStatic(loc, name, adaptor.getOperands())))
    return failure();
  if (input.getRank() < 3)
    return fail(loc, name,
                "needs a batch, channels and spatial dimensions, found ",
                input);
  Image image(input.getShape(), adaptor.getLayout());
  FailureOr<Shape> spatial = // C1, C2
      slide(loc, name, image.spatial,
            {adaptor.getWindow(), adaptor.getStrides(), adaptor.getPadLow(),
             adaptor.getPadHigh(), adaptor.getDilations(),
             bool(adaptor.getCeilMode())});
  if (failed(spatial))
    return failure();
  types.push_back(RankedTensorType::get(
      Image::join(image.batch, image.channels, *spatial, adaptor.getLayout()),
      input.getElementType()));
  return success();
}
LogicalResult MaxPoolOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location> loc,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  return inferPool(loc, getOperationName(), adaptor, types);
}
LogicalResult AvgPoolOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location> loc,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  return inferPool(loc, getOperationName(), adaptor, types);
}

/// Rejects windows that cover only padding.
template <typename PoolOp> static LogicalResult verifyPadding(PoolOp op) {
  if (failed(mlir::detail::verifyInferredResultTypes(op)))
    return failure();
  for (auto [low, high, window, dilation] :
       llvm::zip_equal(op.getPadLow(), op.getPadHigh(), op.getWindow(),
                       op.getDilations())) {
    int64_t reach = (window - 1) * dilation + 1;
    if (low < 0 || high < 0 || low >= reach || high >= reach)
      return op.emitOpError()
             << "pads by " << low << " and " << high
             << ", which must be non-negative and below the window's extent "
             << reach;
  }
  return success();
}
LogicalResult MaxPoolOp::verify() { return verifyPadding(*this); }
LogicalResult AvgPoolOp::verify() { return verifyPadding(*this); }
