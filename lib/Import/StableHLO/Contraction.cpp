//===- Contraction.cpp - dot_general and convolution ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpImport.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::hlo;

namespace {
/// An operand as batched matrices: batch dimensions, then `rows` and `columns`,
/// each group flattened.
struct Matrix {
  Value value;
  bool isTransposed = false;
};
} // namespace

static int64_t extentOf(ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  int64_t extent = 1;
  for (int64_t dim : dims)
    extent *= shape[dim];
  return extent;
}

static SmallVector<int64_t> joined(ArrayRef<int64_t> a, ArrayRef<int64_t> b,
                                   ArrayRef<int64_t> c) {
  SmallVector<int64_t> all(a);
  llvm::append_range(all, b);
  llvm::append_range(all, c);
  return all;
}

static bool isInOrder(ArrayRef<int64_t> dims) {
  return llvm::equal(dims, llvm::seq<int64_t>(dims.size()));
}

static Matrix toMatrix(OpImport &op, Value value, ArrayRef<int64_t> batch,
                       ArrayRef<int64_t> rows, ArrayRef<int64_t> columns) {
  SmallVector<int64_t> shape(OpImport::shape(value));
  // Use the transposed flag if the storage order allows it; a required
  // transpose keeps adjacent dimensions together.
  SmallVector<int64_t> straight = joined(batch, rows, columns),
                       flipped = joined(batch, columns, rows);
  auto last = int64_t(shape.size()) - 1;
  bool flip = !isInOrder(straight) && !straight.empty() &&
              (isInOrder(flipped) ||
               (straight.back() != last && flipped.back() == last));
  value = op.transpose(value, flip ? flipped : straight);
  SmallVector<int64_t> extents;
  for (int64_t dim : batch)
    extents.push_back(shape[dim]);
  extents.push_back(extentOf(shape, flip ? columns : rows));
  extents.push_back(extentOf(shape, flip ? rows : columns));
  return {op.reshape(value, extents), flip};
}

/// Returns the compute mode for a dot algorithm; nullopt, with an error, if it
/// is unsupported.
static std::optional<ComputeMode>
modeOf(OpImport &op, stablehlo::DotAlgorithmAttr algorithm) {
  if (!algorithm)
    return ComputeMode::native;
  Type lhs = algorithm.getLhsPrecisionType();
  int64_t products = algorithm.getNumPrimitiveOperations();
  bool isPlain = lhs == algorithm.getRhsPrecisionType() &&
                 !algorithm.getAllowImpreciseAccumulation() &&
                 algorithm.getAccumulationType() ==
                     op.wideType(algorithm.getAccumulationType());
  if (isPlain && algorithm.getAccumulationType().isF32()) {
    if (isa<FloatTF32Type>(lhs) && products == 1)
      return ComputeMode::tf32;
    if (lhs.isBF16() && products == 3)
      return ComputeMode::bf16x2;
    if (lhs.isBF16() && products == 6)
      return ComputeMode::bf16x3;
    if (lhs.isF32() && products == 1)
      return ComputeMode::native;
    auto dot = cast<stablehlo::DotGeneralOp>(op.op);
    if (products == 1 && lhs == OpImport::element(dot.getLhs()))
      return ComputeMode::native;
  }
  if (isPlain && lhs.isF64() && algorithm.getAccumulationType().isF64())
    return ComputeMode::native;
  op.error() << "has algorithm " << algorithm
             << ", which is not supported; use f32, f64, tf32, or bf16 with 3 "
                "or 6 products";
  return std::nullopt;
}

/// Integer matmul as sums of products, since matmul ops are float only.
static Value productOfIntegers(OpImport &op, Matrix lhs, Matrix rhs) {
  auto untransposed = [&](Matrix matrix) {
    if (!matrix.isTransposed)
      return matrix.value;
    SmallVector<int64_t> order =
        llvm::to_vector(llvm::seq<int64_t>(OpImport::rank(matrix.value)));
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    return op.transpose(matrix.value, order);
  };
  Value left = untransposed(lhs), right = untransposed(rhs);
  SmallVector<int64_t> leftShape(OpImport::shape(left)),
      rightShape(OpImport::shape(right));
  leftShape.push_back(1);
  rightShape.insert(rightShape.end() - 2, 1);
  Value product = op.map<MulOp>(
      {op.reshape(left, leftShape), op.reshape(right, rightShape)});
  return op.reduce(ReduceSumOp::getOperationName(), product,
                   OpImport::rank(product) - 2);
}

/// Batched matmul with elements of `type`.
static Value product(OpImport &op, Matrix lhs, Matrix rhs, Type type,
                     ComputeMode mode) {
  if (!lhs.value || !rhs.value)
    return {};
  Type left = OpImport::element(lhs.value),
       right = OpImport::element(rhs.value);
  if (isa<IntegerType>(left)) {
    lhs.value = op.cast(lhs.value, type);
    rhs.value = op.cast(rhs.value, type);
    return productOfIntegers(op, lhs, rhs);
  }
  if (left != right) {
    bool leftIsWider =
        left.getIntOrFloatBitWidth() > right.getIntOrFloatBitWidth();
    Type wider = leftIsWider ? left : right;
    if (left.getIntOrFloatBitWidth() == right.getIntOrFloatBitWidth())
      wider = op.builder.getF32Type();
    lhs.value = op.cast(lhs.value, wider);
    rhs.value = op.cast(rhs.value, wider);
  }
  SmallVector<NamedAttribute> attributes;
  if (lhs.isTransposed)
    attributes.push_back(op.unit("transpose_lhs"));
  if (rhs.isTransposed)
    attributes.push_back(op.unit("transpose_rhs"));
  if (mode != ComputeMode::native)
    attributes.push_back(op.attr(
        "compute", ComputeModeAttr::get(op.builder.getContext(), mode)));
  return op.cast(op.widened(MatmulOp::getOperationName(),
                            {lhs.value, rhs.value}, attributes),
                 type);
}

/// Returns the dimensions of `rank` that are in neither list.
static SmallVector<int64_t> freeDims(int64_t rank, ArrayRef<int64_t> a,
                                     ArrayRef<int64_t> b) {
  SmallVector<int64_t> left;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(a, dim) && !llvm::is_contained(b, dim))
      left.push_back(dim);
  return left;
}

static LogicalResult convertDotGeneral(OpImport &op) {
  auto dot = cast<stablehlo::DotGeneralOp>(op.op);
  stablehlo::DotDimensionNumbersAttr dims = dot.getDotDimensionNumbers();
  Value lhs = op.numbers(0), rhs = op.numbers(1);
  if (!lhs || !rhs)
    return failure();
  ArrayRef<int64_t> shape = OpImport::shape(dot.getResult());
  Type type = OpImport::element(dot.getResult());
  std::optional<ComputeMode> mode =
      modeOf(op, dot.getAlgorithm().value_or(stablehlo::DotAlgorithmAttr()));
  if (!mode)
    return failure();
  ArrayRef<int64_t> lhsBatch = dims.getLhsBatchingDimensions(),
                    rhsBatch = dims.getRhsBatchingDimensions(),
                    lhsSum = dims.getLhsContractingDimensions(),
                    rhsSum = dims.getRhsContractingDimensions();
  SmallVector<int64_t> lhsFree =
                           freeDims(OpImport::rank(lhs), lhsBatch, lhsSum),
                       rhsFree =
                           freeDims(OpImport::rank(rhs), rhsBatch, rhsSum);
  // Rows times one matrix: keep the row dimensions unflattened.
  bool isStack = lhsBatch.empty() && lhsSum.size() == 1 && lhsFree.size() > 1 &&
                 lhsSum[0] == OpImport::rank(lhs) - 1 && rhsFree.size() == 1;
  if (isStack) {
    Matrix right = toMatrix(op, rhs, {}, rhsSum, rhsFree);
    return op.result(product(op, {lhs, false}, right, type, *mode));
  }
  Matrix left = toMatrix(op, lhs, lhsBatch, lhsFree, lhsSum);
  Matrix right = toMatrix(op, rhs, rhsBatch, rhsSum, rhsFree);
  return op.result(op.reshape(product(op, left, right, type, *mode), shape));
}

static LogicalResult convertDot(OpImport &op) {
  Value lhs = op.in(0), rhs = op.in(1);
  if (!lhs || !rhs)
    return failure();
  auto last = OpImport::rank(lhs) - 1;
  SmallVector<int64_t> rows = freeDims(last + 1, last, {}),
                       columns = freeDims(OpImport::rank(rhs), int64_t(0), {});
  Matrix left = toMatrix(op, lhs, {}, rows, last);
  Matrix right = toMatrix(op, rhs, {}, int64_t(0), columns);
  Value result =
      op.op->getResult(0)
          ? product(op, left, right, OpImport::element(op.op->getResult(0)),
                    ComputeMode::native)
          : Value();
  return op.result(op.reshape(result, OpImport::shape(op.op->getResult(0))));
}

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

/// Transposes `value` to the order batch, feature, space.
static Value inOrder(OpImport &op, Value value, int64_t first, int64_t second,
                     ArrayRef<int64_t> spatial) {
  SmallVector<int64_t> order = {first, second};
  llvm::append_range(order, spatial);
  return op.transpose(value, order);
}

/// Applies base dilation and negative padding with a pad op; the remaining
/// padding stays in `dims`.
static Value spacedOut(OpImport &op, Value input,
                       MutableArrayRef<stablehlo::WindowDim> dims) {
  SmallVector<int64_t> low(2, 0), high(2, 0), interior(2, 0);
  for (stablehlo::WindowDim &dim : dims) {
    interior.push_back(dim.baseDilation - 1);
    low.push_back(std::min<int64_t>(dim.low, 0));
    high.push_back(std::min<int64_t>(dim.high, 0));
    dim.baseDilation = 1;
    dim.low = std::max<int64_t>(dim.low, 0);
    dim.high = std::max<int64_t>(dim.high, 0);
  }
  return op.pad(input, op.scalar(0, OpImport::element(input)), low, high,
                interior);
}

/// Converts batch groups to feature groups: [G * N, C, ...] to [N, G * C, ...].
static Value groupsToChannels(OpImport &op, Value input, int64_t groups) {
  SmallVector<int64_t> shape(OpImport::shape(input)), split(shape);
  split[0] /= groups;
  split.insert(split.begin(), groups);
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(split.size()));
  std::swap(order[0], order[1]);
  shape[0] /= groups;
  shape[1] *= groups;
  return op.reshape(op.transpose(op.reshape(input, split), order), shape);
}

/// Reverses `value` along `axes`, or undoes an existing reversal along them,
/// possibly below a transpose.
static Value reversedAlong(OpImport &op, Value value, ArrayRef<int64_t> axes) {
  auto transpose = value.getDefiningOp<TransposeOp>();
  Value inner = transpose ? transpose.getInput() : value;
  if (auto reverse = inner.getDefiningOp<mpc::ReverseOp>()) {
    SmallVector<int64_t> order =
        llvm::to_vector(llvm::seq<int64_t>(OpImport::rank(value)));
    if (transpose)
      order.assign(transpose.getPermutation().begin(),
                   transpose.getPermutation().end());
    SmallVector<int64_t> due =
        llvm::map_to_vector(axes, [&](int64_t axis) { return order[axis]; });
    llvm::sort(due);
    if (reverse.getAxes() == ArrayRef<int64_t>(due))
      return op.transpose(reverse.getInput(), order);
  }
  return op.makeTyped<mpc::ReverseOp>(OpImport::shape(value),
                                      OpImport::element(value), value,
                                      op.attr("axes", axes));
}

/// Recognizes the input gradient of a convolution in JAX's form: a base-dilated
/// gradient and a reversed filter.
static Value transposedConvolution(OpImport &op, Value input, Value filter,
                                   ArrayRef<stablehlo::WindowDim> dims,
                                   int64_t groups) {
  SmallVector<int64_t> strides, low, high, dilations, extra, axes;
  bool isSpaced = false;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    isSpaced |= dim.baseDilation > 1;
    // Padding of the equivalent transposed convolution.
    int64_t reach = dim.windowDilation * (dim.size - 1);
    axes.push_back(int64_t(i) + 2);
    if (dim.stride != 1 || reach - dim.low < 0)
      return {};
    strides.push_back(dim.baseDilation);
    dilations.push_back(dim.windowDilation);
    low.push_back(reach - dim.low);
    int64_t over = reach - dim.high;
    high.push_back(std::max<int64_t>(over, 0));
    extra.push_back(std::max<int64_t>(-over, 0));
    if (extra.back() >= std::max(strides.back(), dilations.back()))
      return {};
  }
  if (!isSpaced)
    return {};
  // Filter of the forward convolution, [C, O / groups, window...], from this
  // one's [O, C / groups, window...].
  Value plain = reversedAlong(op, filter, axes);
  SmallVector<int64_t> shape(OpImport::shape(plain)), split(shape);
  split[0] /= groups;
  split.insert(split.begin(), groups);
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(split.size()));
  std::swap(order[1], order[2]);
  int64_t outputs = shape[0] / groups;
  shape[0] = shape[1] * groups;
  shape[1] = outputs;
  plain = op.reshape(op.transpose(op.reshape(plain, split), order), shape);
  SmallVector<NamedAttribute> attributes = {
      op.attr("strides", strides),      op.attr("pad_low", low),
      op.attr("pad_high", high),        op.attr("dilations", dilations),
      op.attr("output_padding", extra), op.attr("groups", groups)};
  return op.widened(mpc::ConvTransposeOp::getOperationName(), {input, plain},
                    attributes);
}

static Value plainConvolution(OpImport &op, Value input, Value filter,
                              ArrayRef<stablehlo::WindowDim> window,
                              int64_t groups) {
  SmallVector<stablehlo::WindowDim> dims(window);
  input = spacedOut(op, input, dims);
  SmallVector<int64_t> strides, low, high, dilations;
  for (const stablehlo::WindowDim &dim : dims) {
    strides.push_back(dim.stride);
    low.push_back(dim.low);
    high.push_back(dim.high);
    dilations.push_back(dim.windowDilation);
  }
  SmallVector<NamedAttribute> attributes = {
      op.attr("strides", strides), op.attr("pad_low", low),
      op.attr("pad_high", high), op.attr("dilations", dilations),
      op.attr("groups", groups)};
  return op.widened(mpc::ConvOp::getOperationName(), {input, filter},
                    attributes);
}

static LogicalResult convertConvolution(OpImport &op) {
  auto conv = cast<stablehlo::ConvolutionOp>(op.op);
  stablehlo::ConvDimensionNumbersAttr dims = conv.getDimensionNumbers();
  Value input = op.in(0), filter = op.in(1);
  if (!input || !filter)
    return failure();
  Type type = OpImport::element(conv.getResult());
  if (!isa<FloatType>(type) ||
      OpImport::element(input) != OpImport::element(filter)) {
    op.error() << "of " << conv.getLhs().getType() << " and "
               << conv.getRhs().getType() << " is not supported";
    return failure();
  }
  if (dims.getInputSpatial().empty()) {
    op.error() << "has no spatial dimensions, which is not supported";
    return failure();
  }
  if (elementCount(conv.getType()) == 0)
    return op.result(
        op.broadcast(op.scalar(0, type), OpImport::shape(conv.getResult())));
  input = inOrder(op, input, dims.getInputBatch(), dims.getInputFeature(),
                  dims.getInputSpatial());
  filter = inOrder(op, filter, dims.getKernelOutputFeature(),
                   dims.getKernelInputFeature(), dims.getKernelSpatial());
  SmallVector<int64_t> reversed;
  if (std::optional<ArrayRef<bool>> reversal = conv.getWindowReversal())
    for (auto [i, flag] : llvm::enumerate(*reversal))
      if (flag)
        reversed.push_back(int64_t(i) + 2);
  if (!reversed.empty())
    filter = op.makeTyped<mpc::ReverseOp>(OpImport::shape(filter),
                                          OpImport::element(filter), filter,
                                          op.attr("axes", reversed));
  auto groups = int64_t(conv.getFeatureGroupCount());
  if (auto batches = int64_t(conv.getBatchGroupCount()); batches > 1) {
    input = groupsToChannels(op, input, batches);
    groups = batches;
  }
  if (!input || !filter)
    return failure();
  SmallVector<stablehlo::WindowDim> window = stablehlo::windowDims(conv);
  Value result = transposedConvolution(op, input, filter, window, groups);
  if (!result && succeeded(op.status()))
    result = plainConvolution(op, input, filter, window, groups);
  SmallVector<int64_t> order = {dims.getOutputBatch(), dims.getOutputFeature()};
  llvm::append_range(order, dims.getOutputSpatial());
  return op.result(op.transpose(op.cast(result, type), inverted(order)));
}

OpFamily hlo::contractionOps() {
  static const OpEntry entries[] = {
      {"stablehlo.convolution", convertConvolution},
      {"stablehlo.dot", convertDot},
      {"stablehlo.dot_general", convertDotGeneral},
  };
  return entries;
}
