//===- WindowReduction.cpp - reduce_window, select_and_scatter ops --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::hlo;

/// Maximum window size, in elements, for unrolling an arbitrary body.
static constexpr int64_t kMostPlaces = 1024;

namespace {
/// Dimension order of mpc's pools: two dimensions without a window, then the
/// spatial ones.
struct Image {
  SmallVector<int64_t> order;
  /// Extents of the first two dimensions.
  SmallVector<int64_t> fixed;
  SmallVector<stablehlo::WindowDim> spatial;

  Value in(OpImport &op, Value value) const {
    value = op.transpose(value, order);
    return op.reshape(value, shapeOf(OpImport::shape(value)));
  }
  /// Restores the original order; `like` has extents in that order.
  Value out(OpImport &op, Value value, ArrayRef<int64_t> like) const {
    SmallVector<int64_t> ordered;
    for (int64_t dim : order)
      ordered.push_back(like[dim]);
    return op.transpose(op.reshape(value, ordered), inverted(order));
  }

private:
  SmallVector<int64_t> shapeOf(ArrayRef<int64_t> ordered) const {
    SmallVector<int64_t> shape(fixed);
    llvm::append_range(shape, ordered.take_back(spatial.size()));
    return shape;
  }
};
} // namespace

static bool movesAlong(const stablehlo::WindowDim &dim) {
  return dim.size != 1 || dim.stride != 1 || dim.low != 0 || dim.high != 0 ||
         dim.baseDilation != 1;
}

static Image imageOf(ArrayRef<int64_t> shape,
                     ArrayRef<stablehlo::WindowDim> dims) {
  Image image;
  SmallVector<int64_t> fixed;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (movesAlong(dim))
      continue;
    image.order.push_back(int64_t(i));
    fixed.push_back(shape[i]);
  }
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (!movesAlong(dim))
      continue;
    image.order.push_back(int64_t(i));
    image.spatial.push_back(dim);
  }
  // The last of the fixed dimensions is the channel, the others the batch.
  int64_t channels = fixed.empty() ? 1 : fixed.pop_back_val();
  image.fixed = {productOf(fixed), channels};
  return image;
}

static SmallVector<NamedAttribute>
poolAttributes(OpImport &op, ArrayRef<stablehlo::WindowDim> dims) {
  SmallVector<int64_t> window, strides, low, high, dilations;
  for (const stablehlo::WindowDim &dim : dims) {
    window.push_back(dim.size);
    strides.push_back(dim.stride);
    low.push_back(dim.low);
    high.push_back(dim.high);
    dilations.push_back(dim.windowDilation);
  }
  return {op.attr("window", window), op.attr("strides", strides),
          op.attr("pad_low", low), op.attr("pad_high", high),
          op.attr("dilations", dilations)};
}

/// Returns true if a pool supports the padding.
static bool isPoolable(ArrayRef<stablehlo::WindowDim> dims) {
  return !dims.empty() &&
         llvm::all_of(dims, [](const stablehlo::WindowDim &dim) {
           return dim.low >= 0 && dim.high >= 0 && dim.baseDilation == 1 &&
                  dim.low < dim.size * dim.windowDilation &&
                  dim.high < dim.size * dim.windowDilation;
         });
}

/// A prefix scan: one dimension whose window covers everything up to, or from,
/// each position.
struct Running {
  int64_t axis;
  bool reverse;
};
static std::optional<Running>
runningAlong(ArrayRef<int64_t> shape, ArrayRef<stablehlo::WindowDim> dims) {
  std::optional<Running> found;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (!movesAlong(dim))
      continue;
    bool runs = dim.size == shape[i] && dim.stride == 1 &&
                dim.baseDilation == 1 && dim.windowDilation == 1;
    bool forward = dim.low == dim.size - 1 && dim.high == 0;
    bool backward = dim.high == dim.size - 1 && dim.low == 0;
    if (found || !runs || !(forward || backward))
      return std::nullopt;
    found = Running{int64_t(i), !forward};
  }
  return found;
}

/// Pads the input with the initial value to cover all windows.
static Value padded(OpImport &op, Value value, Value init,
                    ArrayRef<stablehlo::WindowDim> dims) {
  SmallVector<int64_t> low, high, interior;
  for (const stablehlo::WindowDim &dim : dims) {
    low.push_back(dim.low);
    high.push_back(dim.high);
    interior.push_back(dim.baseDilation - 1);
  }
  return op.pad(value, init, low, high, interior);
}

/// Combines window elements one by one with an arbitrary body.
static LogicalResult windowByBody(OpImport &op,
                                  stablehlo::ReduceWindowOp reduce) {
  SmallVector<stablehlo::WindowDim> dims = stablehlo::windowDims(reduce);
  SmallVector<Value> inits = op.of(reduce.getInitValues()), inputs, sums;
  int64_t places = productOf(reduce.getWindowDimensions());
  if (places > kMostPlaces) {
    op.error() << "reduces windows of " << places
               << " elements with a body other than sum, product, maximum or "
                  "minimum; at most "
               << kMostPlaces << " are supported";
    return failure();
  }
  ArrayRef<int64_t> shape = OpImport::shape(reduce.getResult(0));
  for (auto [input, init] : llvm::zip(op.of(reduce.getInputs()), inits)) {
    inputs.push_back(padded(op, input, init, dims));
    sums.push_back(op.broadcast(init, shape));
  }
  SmallVector<int64_t> strides, at(dims.size(), 0);
  for (const stablehlo::WindowDim &dim : dims)
    strides.push_back(dim.stride);
  for (int64_t place = 0; place < places; ++place) {
    SmallVector<int64_t> offsets;
    int64_t rest = place;
    for (size_t i = dims.size(); i-- > 0;) {
      at[i] = rest % dims[i].size;
      rest /= dims[i].size;
    }
    for (auto [i, dim] : llvm::enumerate(dims))
      offsets.push_back(at[i] * dim.windowDilation);
    SmallVector<Value> arguments(sums);
    for (Value input : inputs)
      arguments.push_back(op.slice(input, offsets, shape, strides));
    if (llvm::is_contained(arguments, Value()))
      return failure();
    sums = convertScalars(op, reduce.getBody(), arguments);
    if (sums.empty())
      return failure();
    for (Value &sum : sums)
      sum = op.broadcast(sum, shape);
  }
  for (auto [i, value] : llvm::enumerate(sums))
    op.set(i, value);
  return op.status();
}

/// Prefix scan by doubling the reach of each position along the axis.
static Value running(OpImport &op, stablehlo::ReduceWindowOp reduce,
                     Value value, Value init, Running along) {
  int64_t extent = OpImport::shape(value)[along.axis];
  for (int64_t reach = 1; reach < extent && value; reach *= 2) {
    SmallVector<int64_t> low(OpImport::rank(value), 0), high(low);
    (along.reverse ? high : low)[along.axis] = reach;
    (along.reverse ? low : high)[along.axis] = -reach;
    Value shifted = op.pad(value, init, low, high);
    if (!shifted)
      return {};
    SmallVector<Value> joined =
        convertScalars(op, reduce.getBody(), {shifted, value});
    value = joined.empty() ? Value() : joined.front();
  }
  return value;
}

/// A sum pool as an average pool times the window size, which cancels a
/// division by it.
static Value pooledSum(OpImport &op, Value value, const Image &image,
                       ArrayRef<int64_t> shape) {
  SmallVector<NamedAttribute> attributes = poolAttributes(op, image.spatial);
  attributes.push_back(op.unit("count_include_pad"));
  Value mean = op.make<AvgPoolOp>(image.in(op, value), attributes);
  int64_t count = 1;
  for (const stablehlo::WindowDim &dim : image.spatial)
    count *= dim.size;
  return op.with<MulOp>(image.out(op, mean, shape), double(count));
}

static LogicalResult convertReduceWindow(OpImport &op) {
  auto reduce = cast<stablehlo::ReduceWindowOp>(op.op);
  if (reduce.getInputs().size() != 1)
    return windowByBody(op, reduce);
  Value value = op.in(0), init = op.in(1);
  if (!value || !init)
    return failure();
  SmallVector<stablehlo::WindowDim> dims = stablehlo::windowDims(reduce);
  ArrayRef<int64_t> shape = OpImport::shape(reduce.getResult(0));
  // No window fits: an empty result.
  if (productOf(shape) == 0)
    return op.result(op.broadcast(init, shape));
  Operation *body = onlyOp(reduce.getBody(), op.importer.source);
  std::optional<double> start = constantSplat(init);
  if (llvm::none_of(dims, movesAlong) && start &&
      (isa_and_nonnull<stablehlo::AddOp>(body) ? *start == 0 : false))
    return op.result(value);
  if (std::optional<Running> along =
          runningAlong(OpImport::shape(value), dims)) {
    if (!isa_and_nonnull<stablehlo::AddOp>(body) || start != 0.0 ||
        OpImport::isBool(value))
      return op.result(running(op, reduce, value, init, *along));
    SmallVector<NamedAttribute> attributes = {op.attr("axis", along->axis)};
    if (along->reverse)
      attributes.push_back(op.unit("reverse"));
    return op.result(op.makeTyped<CumsumOp>(shape, OpImport::element(value),
                                            value, attributes));
  }
  Image image = imageOf(OpImport::shape(value), dims);
  if (!body || !OpImport::isFloat(value) || !isPoolable(image.spatial) ||
      !start)
    return windowByBody(op, reduce);
  bool isMax = isa<stablehlo::MaxOp>(body), isMin = isa<stablehlo::MinOp>(body);
  if (isa<stablehlo::AddOp>(body) && *start == 0)
    return op.result(pooledSum(op, value, image, shape));
  if ((isMax && *start == -INFINITY) || (isMin && *start == INFINITY)) {
    if (isMin)
      value = op.map<NegOp>(value);
    Value pooled = op.make<MaxPoolOp>(image.in(op, value),
                                      poolAttributes(op, image.spatial));
    pooled = image.out(op, pooled, shape);
    return op.result(isMin ? op.map<NegOp>(pooled) : pooled);
  }
  return windowByBody(op, reduce);
}

/// Returns the comparison that a region of two scalars consists of.
static std::optional<stablehlo::ComparisonDirection>
selectionOf(Region &region) {
  Block &block = region.front();
  auto compare = dyn_cast<stablehlo::CompareOp>(block.front());
  if (!compare || block.getOperations().size() != 2 ||
      compare.getLhs() != block.getArgument(0) ||
      compare.getRhs() != block.getArgument(1) ||
      block.back().getOperands() != compare->getResults())
    return std::nullopt;
  return compare.getComparisonDirection();
}

static LogicalResult convertSelectAndScatter(OpImport &op) {
  auto scatter = cast<stablehlo::SelectAndScatterOp>(op.op);
  Value operand = op.in(0), source = op.in(1), init = op.in(2);
  if (!operand || !source || !init)
    return failure();
  SmallVector<stablehlo::WindowDim> dims = stablehlo::windowDims(scatter);
  Image image = imageOf(OpImport::shape(operand), dims);
  std::optional<stablehlo::ComparisonDirection> direction =
      selectionOf(scatter.getSelect());
  bool largest = direction == stablehlo::ComparisonDirection::GE;
  bool smallest = direction == stablehlo::ComparisonDirection::LE;
  if (!(largest || smallest) || constantSplat(init) != 0.0 ||
      !isa_and_nonnull<stablehlo::AddOp>(
          onlyOp(scatter.getScatter(), op.importer.source)) ||
      !OpImport::isFloat(operand) ||
      (!image.spatial.empty() && !isPoolable(image.spatial))) {
    op.error() << "is supported only as a sum, from 0, into the largest or "
                  "smallest element of each window";
    return failure();
  }
  // Windows of one element select it.
  if (image.spatial.empty())
    return op.result(source);
  if (smallest)
    operand = op.map<NegOp>(operand);
  Value flat = image.in(op, operand);
  Value gradient = op.makeTyped<MaxPoolGradientOp>(
      OpImport::shape(flat), OpImport::element(flat),
      {flat, image.in(op, source)}, poolAttributes(op, image.spatial));
  return op.result(image.out(op, gradient, OpImport::shape(operand)));
}

OpFamily hlo::windowOps() {
  static const OpEntry entries[] = {
      {"stablehlo.reduce_window", convertReduceWindow},
      {"stablehlo.select_and_scatter", convertSelectAndScatter},
  };
  return entries;
}
