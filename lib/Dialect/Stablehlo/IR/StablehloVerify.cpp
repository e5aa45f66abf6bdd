//===- StablehloVerify.cpp - verifiers of ops without regions -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StablehloVerify.h"

using namespace mlir;
namespace stablehlo = mpc::stablehlo;
using namespace mpc::stablehlo;

//===----------------------------------------------------------------------===//
// Shared checks
//===----------------------------------------------------------------------===//

LogicalResult stablehlo::verifyType(Operation *op, Value value,
                                    ArrayRef<int64_t> shape, Type element) {
  auto due = RankedTensorType::get(shape, element);
  if (value.getType() == due)
    return success();
  return op->emitOpError() << "has " << value.getType() << ", expected " << due;
}

LogicalResult stablehlo::verifyDims(Operation *op, StringRef name,
                                    ArrayRef<int64_t> dims, size_t rank) {
  SmallVector<bool> seen(rank, false);
  for (int64_t dim : dims) {
    if (dim < 0 || dim >= int64_t(rank))
      return op->emitOpError() << name << " [" << dims << "] has " << dim
                               << ", which is outside of rank " << rank;
    if (seen[dim])
      return op->emitOpError()
             << name << " [" << dims << "] has " << dim << " twice";
    seen[dim] = true;
  }
  return success();
}

/// 128 bits, because sums and products of attributes may overflow 64.
using Wide = __int128;
static constexpr Wide kMostExtent = Wide(1) << 62;

int64_t WindowDim::places(int64_t extent) const {
  Wide base = extent == 0 ? 0 : Wide(extent - 1) * baseDilation + 1;
  Wide padded = base + low + high;
  Wide window = Wide(size - 1) * windowDilation + 1;
  if (padded < window)
    return 0;
  Wide places = (padded - window) / stride + 1;
  return places > kMostExtent ? -1 : int64_t(places);
}

SmallVector<WindowDim>
stablehlo::windowDims(ArrayRef<int64_t> sizes,
                      std::optional<ArrayRef<int64_t>> strides,
                      std::optional<DenseIntElementsAttr> padding,
                      std::optional<ArrayRef<int64_t>> baseDilations,
                      std::optional<ArrayRef<int64_t>> windowDilations) {
  SmallVector<int64_t> edges;
  if (padding)
    edges = llvm::to_vector(padding->getValues<int64_t>());
  SmallVector<WindowDim> dims(sizes.size());
  for (auto [i, dim] : llvm::enumerate(dims)) {
    dim.size = sizes[i];
    if (strides)
      dim.stride = (*strides)[i];
    if (baseDilations)
      dim.baseDilation = (*baseDilations)[i];
    if (windowDilations)
      dim.windowDilation = (*windowDilations)[i];
    if (padding) {
      dim.low = edges[2 * i];
      dim.high = edges[2 * i + 1];
    }
  }
  return dims;
}

SmallVector<WindowDim> stablehlo::windowDims(ReduceWindowOp op) {
  return windowDims(op.getWindowDimensions(), op.getWindowStrides(),
                    op.getPadding(), op.getBaseDilations(),
                    op.getWindowDilations());
}

SmallVector<WindowDim> stablehlo::windowDims(SelectAndScatterOp op) {
  SmallVector<int64_t> ones(shapeOf(op.getOperand()).size(), 1);
  return windowDims(op.getWindowDimensions().value_or(ones),
                    op.getWindowStrides(), op.getPadding(), std::nullopt,
                    std::nullopt);
}

SmallVector<WindowDim> stablehlo::windowDims(ConvolutionOp op) {
  SmallVector<int64_t> sizes;
  for (int64_t dim : op.getDimensionNumbers().getKernelSpatial())
    sizes.push_back(shapeOf(op.getRhs())[dim]);
  return windowDims(sizes, op.getWindowStrides(), op.getPadding(),
                    op.getLhsDilation(), op.getRhsDilation());
}

FailureOr<SmallVector<int64_t>>
stablehlo::windowedShape(Operation *op, ArrayRef<int64_t> shape,
                         ArrayRef<int64_t> sizes,
                         std::optional<ArrayRef<int64_t>> strides,
                         std::optional<DenseIntElementsAttr> padding,
                         std::optional<ArrayRef<int64_t>> baseDilations,
                         std::optional<ArrayRef<int64_t>> windowDilations) {
  std::pair<StringRef, std::optional<ArrayRef<int64_t>>> arrays[] = {
      {"window sizes", sizes},
      {"strides", strides},
      {"base dilations", baseDilations},
      {"window dilations", windowDilations}};
  for (auto [name, array] : arrays) {
    if (!array)
      continue;
    if (array->size() != shape.size())
      return op->emitOpError() << "has " << array->size() << " " << name
                               << " for " << shape.size() << " dimensions";
    for (int64_t number : *array)
      if (number < 1)
        return op->emitOpError()
               << name << " must be positive, found " << number;
  }
  if (padding && padding->getType().getShape() !=
                     ArrayRef<int64_t>{int64_t(shape.size()), 2})
    return op->emitOpError() << "has padding of type " << padding->getType()
                             << " for " << shape.size() << " dimensions";
  SmallVector<int64_t> places;
  for (auto [extent, dim] :
       llvm::zip(shape, windowDims(sizes, strides, padding, baseDilations,
                                   windowDilations)))
    places.push_back(dim.places(extent));
  if (llvm::is_contained(places, -1))
    return op->emitOpError("has a window with too many positions");
  return places;
}

FailureOr<IndexDims> stablehlo::verifyIndexDims(Operation *op,
                                                ArrayRef<int64_t> indices,
                                                size_t rank,
                                                const IndexNumbers &numbers,
                                                size_t resultRank) {
  SmallVector<int64_t> left(numbers.left);
  llvm::append_range(left, numbers.batch);
  if (failed(verifyDims(op, "window dimensions", numbers.window, resultRank)) ||
      failed(verifyDims(op, "collapsed and batch dimensions", left, rank)) ||
      failed(verifyDims(op, "index map", numbers.map, rank)) ||
      failed(verifyDims(op, "batch dimensions of indices", numbers.indexBatch,
                        indices.size())))
    return failure();
  if (numbers.vector < 0 || numbers.vector > int64_t(indices.size()))
    return op->emitOpError() << "index vector dimension " << numbers.vector
                             << " is outside of rank " << indices.size();
  if (numbers.batch.size() != numbers.indexBatch.size() ||
      llvm::is_contained(numbers.indexBatch, numbers.vector))
    return op->emitOpError("has batch dimensions that do not pair");
  for (int64_t dim : numbers.map)
    if (llvm::is_contained(numbers.batch, dim))
      return op->emitOpError()
             << "indexes dimension " << dim << ", which is a batch";
  bool isVector = numbers.vector < int64_t(indices.size());
  int64_t entries = isVector ? indices[numbers.vector] : 1;
  if (entries != int64_t(numbers.map.size()))
    return op->emitOpError() << "has vectors of " << entries << " indices for "
                             << numbers.map.size() << " dimensions";
  IndexDims dims;
  for (size_t i = 0; i < rank; ++i)
    if (!llvm::is_contained(left, int64_t(i)))
      dims.windowDims.push_back(int64_t(i));
  for (auto [i, extent] : llvm::enumerate(indices))
    if (int64_t(i) != numbers.vector)
      dims.batchShape.push_back(extent);
  if (dims.windowDims.size() != numbers.window.size() ||
      dims.batchShape.size() + dims.windowDims.size() != resultRank)
    return op->emitOpError()
           << "has a window of " << dims.windowDims.size()
           << " dimensions and indices of " << dims.batchShape.size()
           << ", which do not make up rank " << resultRank;
  return dims;
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

LogicalResult BitcastConvertOp::verify() {
  // C1
  SmallVector<int64_t> from(shapeOf(getOperand())), to(shapeOf(getResult()));
  unsigned fromBits = elementOf(getOperand()).getIntOrFloatBitWidth();
  unsigned toBits = elementOf(getResult()).getIntOrFloatBitWidth();
  if (fromBits > toBits)
    from.push_back(fromBits / toBits);
  else if (fromBits < toBits)
    to.push_back(toBits / fromBits);
  if (from != to)
    return emitOpError() << "cannot take " << getOperand().getType() << " as "
                         << getType();
  return success();
}

LogicalResult ReducePrecisionOp::verify() {
  // C1
  if (getExponentBits() < 1 || int32_t(getMantissaBits()) < 0 ||
      int32_t(getExponentBits()) < 1)
    return emitOpError() << "has no format e" << int32_t(getExponentBits())
                         << "m" << int32_t(getMantissaBits());
  return success();
}

LogicalResult SelectOp::verify() {
  // C1
  if (!shapeOf(getPred()).empty() && shapeOf(getPred()) != shapeOf(getResult()))
    return emitOpError() << "has a predicate of type " << getPred().getType()
                         << " for " << getType();
  return success();
}

LogicalResult ClampOp::verify() {
  // C1
  for (Value bound : {getMin(), getMax()})
    if (elementOf(bound) != elementOf(getOperand()) ||
        (!shapeOf(bound).empty() && shapeOf(bound) != shapeOf(getOperand())))
      return emitOpError() << "has a bound of type " << bound.getType()
                           << " for " << getType();
  return success();
}

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }

void ConstantOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), isa<IntegerType>(elementOf(getOutput())) ? "c" : "cst");
}

LogicalResult IotaOp::verify() {
  // C1
  auto dim = int64_t(getIotaDimension());
  return verifyDims(*this, "dimension", dim, shapeOf(getOutput()).size());
}

LogicalResult ReshapeOp::verify() {
  // C1
  if (getOperand().getType().getNumElements() != getType().getNumElements())
    return emitOpError() << "gives " << getType() << " from "
                         << getOperand().getType();
  return success();
}

LogicalResult TransposeOp::verify() {
  // C1
  ArrayRef<int64_t> from = shapeOf(getOperand());
  if (getPermutation().size() != from.size())
    return emitOpError() << "permutes " << getPermutation().size()
                         << " dimensions of rank " << from.size();
  if (failed(verifyDims(*this, "permutation", getPermutation(), from.size())))
    return failure();
  // C2
  return verifyType(
      *this, getResult(),
      llvm::map_to_vector(getPermutation(), [&](int64_t i) { return from[i]; }),
      elementOf(getOperand()));
}

LogicalResult BroadcastInDimOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getOperand()), to = shapeOf(getResult());
  // C1
  if (getBroadcastDimensions().size() != from.size())
    return emitOpError() << "has " << getBroadcastDimensions().size()
                         << " dimensions for rank " << from.size();
  if (failed(
          verifyDims(*this, "dimensions", getBroadcastDimensions(), to.size())))
    return failure();
  // C2
  for (auto [extent, dim] : llvm::zip(from, getBroadcastDimensions()))
    if (extent != 1 && extent != to[dim])
      return emitOpError() << "repeats " << extent << " elements to "
                           << to[dim];
  return success();
}

LogicalResult BroadcastOp::verify() {
  // C1
  SmallVector<int64_t> shape(getBroadcastSizes());
  llvm::append_range(shape, shapeOf(getOperand()));
  return verifyType(*this, getResult(), shape, elementOf(getOperand()));
}

LogicalResult ConcatenateOp::verify() {
  // C1
  if (getInputs().empty())
    return emitOpError("has no operands");
  SmallVector<int64_t> shape(shapeOf(getInputs()[0]));
  auto dim = int64_t(getDimension());
  if (failed(verifyDims(*this, "dimension", dim, shape.size())))
    return failure();
  // C2
  for (Value input : getInputs().drop_front()) {
    SmallVector<int64_t> other(shapeOf(input));
    if (other.size() != shape.size())
      return emitOpError("has operands of different ranks");
    int64_t extent = other[dim];
    other[dim] = shape[dim];
    if (other != shape)
      return emitOpError() << "joins " << getInputs()[0].getType() << " and "
                           << input.getType() << " along dimension " << dim;
    shape[dim] += extent;
  }
  return verifyType(*this, getResult(), shape, elementOf(getInputs()[0]));
}

LogicalResult SliceOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getOperand());
  // C1
  for (ArrayRef<int64_t> array :
       {getStartIndices(), getLimitIndices(), getStrides()})
    if (array.size() != from.size())
      return emitOpError() << "has " << array.size() << " ranges for rank "
                           << from.size();
  SmallVector<int64_t> shape;
  for (auto [extent, start, limit, stride] :
       llvm::zip(from, getStartIndices(), getLimitIndices(), getStrides())) {
    if (start < 0 || start > limit || limit > extent || stride < 1)
      return emitOpError() << "has the range " << start << ":" << limit << ":"
                           << stride << " of " << extent << " elements";
    shape.push_back((limit - start) / stride + ((limit - start) % stride != 0));
  }
  // C2
  return verifyType(*this, getResult(), shape, elementOf(getOperand()));
}

LogicalResult PadOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getOperand());
  // C1
  if (!shapeOf(getPaddingValue()).empty())
    return emitOpError("needs a scalar to pad with");
  for (ArrayRef<int64_t> array :
       {getEdgePaddingLow(), getEdgePaddingHigh(), getInteriorPadding()})
    if (array.size() != from.size())
      return emitOpError() << "has " << array.size() << " paddings for rank "
                           << from.size();
  // C2
  SmallVector<int64_t> shape;
  for (auto [extent, low, high, interior] :
       llvm::zip(from, getEdgePaddingLow(), getEdgePaddingHigh(),
                 getInteriorPadding())) {
    Wide padded = Wide(extent) + low + high +
                  (extent ? Wide(extent - 1) * interior : Wide(0));
    if (interior < 0 || padded < 0 || padded > kMostExtent)
      return emitOpError() << "pads " << extent << " elements by " << low
                           << ", " << high << " and, inside, " << interior;
    shape.push_back(int64_t(padded));
  }
  return verifyType(*this, getResult(), shape, elementOf(getOperand()));
}

LogicalResult ReverseOp::verify() {
  // C1
  if (failed(verifyDims(*this, "dimensions", getDimensions(),
                        shapeOf(getOperand()).size())))
    return failure();
  return verifyType(*this, getResult(), shapeOf(getOperand()),
                    elementOf(getOperand()));
}

LogicalResult DynamicSliceOp::verify() {
  // C1
  ArrayRef<int64_t> from = shapeOf(getOperand());
  if (getStartIndices().size() != from.size() ||
      getSliceSizes().size() != from.size())
    return emitOpError() << "has " << getStartIndices().size() << " starts and "
                         << getSliceSizes().size() << " sizes for rank "
                         << from.size();
  for (auto [size, extent] : llvm::zip(getSliceSizes(), from))
    if (size < 0 || size > extent)
      return emitOpError() << "takes " << size << " of " << extent
                           << " elements";
  return verifyType(*this, getResult(), getSliceSizes(),
                    elementOf(getOperand()));
}

LogicalResult DynamicUpdateSliceOp::verify() {
  // C1
  ArrayRef<int64_t> from = shapeOf(getOperand()), part = shapeOf(getUpdate());
  if (getStartIndices().size() != from.size() || part.size() != from.size() ||
      elementOf(getOperand()) != elementOf(getUpdate()))
    return emitOpError() << "writes " << getUpdate().getType() << " at "
                         << getStartIndices().size() << " starts into "
                         << getOperand().getType();
  for (auto [size, extent] : llvm::zip(part, from))
    if (size > extent)
      return emitOpError() << "writes " << size << " elements where " << extent
                           << " are";
  return success();
}

LogicalResult GatherOp::verify() {
  GatherDimensionNumbersAttr dims = getDimensionNumbers();
  ArrayRef<int64_t> from = shapeOf(getOperand());
  ArrayRef<int64_t> indices = shapeOf(getStartIndices());
  // C1
  FailureOr<IndexDims> index = verifyIndexDims(
      *this, indices, from.size(),
      {dims.getOffsetDims(), dims.getCollapsedSliceDims(),
       dims.getOperandBatchingDims(), dims.getStartIndicesBatchingDims(),
       dims.getStartIndexMap(), dims.getIndexVectorDim()},
      shapeOf(getResult()).size());
  if (failed(index))
    return failure();
  for (auto [of, at] : llvm::zip(dims.getOperandBatchingDims(),
                                 dims.getStartIndicesBatchingDims()))
    if (from[of] != indices[at])
      return emitOpError("has batches of different extents");
  // C2
  if (getSliceSizes().size() != from.size())
    return emitOpError() << "has " << getSliceSizes().size()
                         << " slice sizes for rank " << from.size();
  for (auto [i, size] : llvm::enumerate(getSliceSizes())) {
    bool isLeft = !llvm::is_contained(index->windowDims, int64_t(i));
    if (size < 0 || size > (isLeft ? 1 : from[i]) || size > from[i])
      return emitOpError() << "takes " << size << " of " << from[i]
                           << " elements along dimension " << i;
  }
  SmallVector<int64_t> shape;
  size_t batch = 0, window = 0;
  for (size_t i = 0; i < shapeOf(getResult()).size(); ++i)
    shape.push_back(llvm::is_contained(dims.getOffsetDims(), int64_t(i))
                        ? getSliceSizes()[index->windowDims[window++]]
                        : index->batchShape[batch++]);
  return verifyType(*this, getResult(), shape, elementOf(getOperand()));
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

static LogicalResult verifyPrecision(Operation *op,
                                     std::optional<ArrayAttr> precision) {
  if (precision && !precision->empty() && precision->size() != 2)
    return op->emitOpError()
           << "has " << precision->size() << " precisions for two operands";
  return success();
}

LogicalResult DotGeneralOp::verify() {
  DotDimensionNumbersAttr dims = getDotDimensionNumbers();
  ArrayRef<int64_t> lhs = shapeOf(getLhs()), rhs = shapeOf(getRhs());
  // C1
  SmallVector<int64_t> shape, left, right;
  auto pair = [&](ArrayRef<int64_t> ofLhs,
                  ArrayRef<int64_t> ofRhs) -> LogicalResult {
    if (ofLhs.size() != ofRhs.size())
      return emitOpError() << "pairs dimensions [" << ofLhs << "] with ["
                           << ofRhs << "]";
    llvm::append_range(left, ofLhs);
    llvm::append_range(right, ofRhs);
    return success();
  };
  if (failed(pair(dims.getLhsBatchingDimensions(),
                  dims.getRhsBatchingDimensions())) ||
      failed(pair(dims.getLhsContractingDimensions(),
                  dims.getRhsContractingDimensions())) ||
      failed(verifyDims(*this, "left dimensions", left, lhs.size())) ||
      failed(verifyDims(*this, "right dimensions", right, rhs.size())))
    return failure();
  for (auto [i, j] : llvm::zip(left, right))
    if (lhs[i] != rhs[j])
      return emitOpError() << "pairs extents " << lhs[i] << " and " << rhs[j];
  // C2
  for (int64_t i : dims.getLhsBatchingDimensions())
    shape.push_back(lhs[i]);
  for (auto [i, extent] : llvm::enumerate(lhs))
    if (!llvm::is_contained(left, int64_t(i)))
      shape.push_back(extent);
  for (auto [i, extent] : llvm::enumerate(rhs))
    if (!llvm::is_contained(right, int64_t(i)))
      shape.push_back(extent);
  if (failed(verifyType(*this, getResult(), shape, elementOf(getResult()))))
    return failure();
  // C3
  if (failed(verifyPrecision(*this, getPrecisionConfig())))
    return failure();
  if (getAlgorithm() && getPrecisionConfig())
    for (auto each : getPrecisionConfig()->getAsRange<PrecisionAttr>())
      if (each.getValue() != Precision::DEFAULT)
        return emitOpError("has an algorithm and another precision than "
                           "DEFAULT");
  return success();
}

LogicalResult DotOp::verify() {
  // C1
  ArrayRef<int64_t> lhs = shapeOf(getLhs()), rhs = shapeOf(getRhs());
  if (lhs.empty() || rhs.empty() || lhs.size() > 2 || rhs.size() > 2 ||
      lhs.back() != rhs.front())
    return emitOpError() << "multiplies " << getLhs().getType() << " and "
                         << getRhs().getType();
  SmallVector<int64_t> shape(lhs.drop_back());
  llvm::append_range(shape, rhs.drop_front());
  if (failed(verifyType(*this, getResult(), shape, elementOf(getResult()))))
    return failure();
  return verifyPrecision(*this, getPrecisionConfig());
}

LogicalResult ConvolutionOp::verify() {
  ConvDimensionNumbersAttr dims = getDimensionNumbers();
  ArrayRef<int64_t> lhs = shapeOf(getLhs()), rhs = shapeOf(getRhs());
  // C1
  size_t rank = lhs.size();
  auto covers = [&](StringRef name, int64_t first, int64_t second,
                    ArrayRef<int64_t> spatial) {
    SmallVector<int64_t> all = {first, second};
    llvm::append_range(all, spatial);
    return all.size() == rank && succeeded(verifyDims(*this, name, all, rank));
  };
  if (rhs.size() != rank || shapeOf(getResult()).size() != rank || rank < 2 ||
      !covers("input dimensions", dims.getInputBatch(), dims.getInputFeature(),
              dims.getInputSpatial()) ||
      !covers("kernel dimensions", dims.getKernelInputFeature(),
              dims.getKernelOutputFeature(), dims.getKernelSpatial()) ||
      !covers("output dimensions", dims.getOutputBatch(),
              dims.getOutputFeature(), dims.getOutputSpatial()))
    return emitOpError() << "has dimension numbers that do not go with rank "
                         << rank;
  SmallVector<int64_t> input, window;
  for (int64_t dim : dims.getInputSpatial())
    input.push_back(lhs[dim]);
  for (int64_t dim : dims.getKernelSpatial())
    window.push_back(rhs[dim]);
  if (getWindowReversal() && getWindowReversal()->size() != rank - 2)
    return emitOpError() << "has " << getWindowReversal()->size()
                         << " reversals for " << rank - 2 << " dimensions";
  // C2
  FailureOr<SmallVector<int64_t>> places =
      windowedShape(*this, input, window, getWindowStrides(), getPadding(),
                    getLhsDilation(), getRhsDilation());
  if (failed(places))
    return failure();
  // C3
  auto groups = int64_t(getFeatureGroupCount());
  auto batches = int64_t(getBatchGroupCount());
  int64_t features = lhs[dims.getInputFeature()];
  int64_t outputs = rhs[dims.getKernelOutputFeature()];
  if (groups < 1 || batches < 1 || (groups > 1 && batches > 1) ||
      features % groups ||
      features / groups != rhs[dims.getKernelInputFeature()] ||
      outputs % groups || outputs % batches ||
      lhs[dims.getInputBatch()] % batches)
    return emitOpError() << "has " << groups << " feature and " << batches
                         << " batch groups for " << getLhs().getType()
                         << " and " << getRhs().getType();
  // C4
  SmallVector<int64_t> shape(rank);
  shape[dims.getOutputBatch()] = lhs[dims.getInputBatch()] / batches;
  shape[dims.getOutputFeature()] = outputs;
  for (auto [dim, extent] : llvm::zip(dims.getOutputSpatial(), *places))
    shape[dim] = extent;
  if (failed(verifyType(*this, getResult(), shape, elementOf(getResult()))))
    return failure();
  return verifyPrecision(*this, getPrecisionConfig());
}

//===----------------------------------------------------------------------===//
// Other ops
//===----------------------------------------------------------------------===//

LogicalResult RngBitGeneratorOp::verify() {
  // C1
  ArrayRef<int64_t> state = shapeOf(getInitialState());
  bool isVector =
      state.size() == 1 && elementOf(getInitialState()).isUnsignedInteger(64);
  if (!isVector || state[0] < 2 || state[0] > 3 ||
      (state[0] == 3 && getRngAlgorithm() == RngAlgorithm::THREE_FRY))
    return emitOpError() << "has a state of type "
                         << getInitialState().getType();
  return success();
}

LogicalResult mpc::chlo::TopKOp::verify() {
  // C1
  SmallVector<int64_t> shape(shapeOf(getOperand()));
  auto k = int64_t(getK());
  if (shape.empty() || k < 0 || k > shape.back())
    return emitOpError() << "takes " << k << " of " << getOperand().getType();
  shape.back() = k;
  return failure(
      failed(verifyType(*this, getValues(), shape, elementOf(getOperand()))) ||
      failed(verifyType(*this, getIndices(), shape, elementOf(getIndices()))));
}
