//===- Pooling.cpp - pooling and unpooling operators ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "WindowAttributes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Maximum window size, in elements, for which indices are computed by
/// unrolling.
static constexpr int64_t kMaxIndexedWindow = 256;

/// Checks the input's rank and reads the window of a pool.
static Window poolWindow(NodeImport &n, Value input) {
  if (!n.failed() && n.rank(input) < 3)
    n.error() << "input " << input.getType() << " has fewer than 3 dimensions";
  if (!n.failed() && !n.hasAttr("kernel_shape"))
    n.error() << "attribute 'kernel_shape' is missing";
  if (n.failed())
    return {};
  return readWindow(n, n.intsAttr("kernel_shape"),
                    n.shape(input).drop_front(2));
}

static SmallVector<NamedAttribute>
poolAttributes(NodeImport &n, const Window &window, bool ceilMode) {
  SmallVector<NamedAttribute> attributes = window.attributes(n);
  attributes.push_back(n.attr("window", window.kernel));
  if (ceilMode)
    attributes.push_back(n.unit("ceil_mode"));
  return attributes;
}

/// Returns the flat position of each window's maximum: the window elements are
/// strided slices of the padded input, compared one after the other.
static Value maxIndices(NodeImport &n, Value input, Value maximum,
                        const Window &window) {
  int64_t places = 1;
  for (int64_t extent : window.kernel)
    places *= extent;
  if (places > kMaxIndexedWindow) {
    n.error() << "output 'Indices' is supported for windows of at most "
              << kMaxIndexedWindow << " elements, not " << places;
    return nullptr;
  }
  bool columnMajor = n.flag("storage_order");
  if (n.failed())
    return nullptr;
  int64_t rank = n.rank(input);
  Type i64 = n.builder.getI64Type();
  SmallVector<int64_t> order;
  for (int64_t d = 0; d < rank; ++d)
    order.push_back(d);
  if (columnMajor)
    std::reverse(order.begin() + 2, order.end());
  Value index = n.scalar(0, i64);
  int64_t stride = 1;
  for (int64_t d : llvm::reverse(order)) {
    Value step = n.op<MulOp>(
        {n.iota(n.dim(input, d), d, rank, i64), n.scalar(double(stride), i64)});
    index = n.op<AddOp>({index, step});
    stride *= n.dim(input, d);
  }
  // Pad so that all windows, including those of ceil_mode, are inside.
  SmallVector<int64_t> low(rank, 0), high(rank, 0);
  for (int64_t i = 0; i < window.rank(); ++i) {
    low[i + 2] = window.low[i];
    int64_t needed =
        (n.dim(maximum, i + 2) - 1) * window.strides[i] + window.reach(i);
    high[i + 2] =
        std::max<int64_t>(0, needed - low[i + 2] - n.dim(input, i + 2));
  }
  Value inside =
      n.pad(n.splat(n.shape(input), 1, n.builder.getI1Type()), low, high, 0);
  Value values = n.pad(input, low, high, 0);
  Value indices = n.pad(index, low, high, -1);
  SmallVector<int64_t> strides(rank, 1), sizes(n.shape(maximum));
  llvm::copy(window.strides, strides.begin() + 2);
  Value result;
  // From last to first, so that the first of equal maxima wins.
  for (int64_t place = places - 1; place >= 0 && !n.failed(); --place) {
    SmallVector<int64_t> offsets(rank, 0);
    int64_t rest = place;
    for (int64_t i = window.rank() - 1; i >= 0; --i) {
      offsets[i + 2] = rest % window.kernel[i] * window.dilations[i];
      rest /= window.kernel[i];
    }
    Value here = n.compare(ComparePredicate::eq,
                           n.slice(values, offsets, sizes, strides), maximum);
    here = n.op<AndOp>({here, n.slice(inside, offsets, sizes, strides)});
    Value position = n.slice(indices, offsets, sizes, strides);
    result = result ? n.select(here, position, result) : position;
  }
  return result;
}

static LogicalResult convertMaxPool(NodeImport &n) {
  Value input = n.in(0);
  Window window = poolWindow(n, input);
  Value maximum =
      n.op<MaxPoolOp>(input, poolAttributes(n, window, n.flag("ceil_mode")));
  n.set(0, maximum);
  if (n.wants(1) && !n.failed())
    n.set(1, maxIndices(n, input, maximum, window));
  return n.status();
}

static LogicalResult convertAveragePool(NodeImport &n) {
  Value input = n.in(0);
  Window window = poolWindow(n, input);
  SmallVector<NamedAttribute> attributes =
      poolAttributes(n, window, n.flag("ceil_mode"));
  if (n.flag("count_include_pad"))
    attributes.push_back(n.unit("count_include_pad"));
  return n.result(n.op<AvgPoolOp>(input, attributes));
}

/// |x|^p.
static Value power(NodeImport &n, Value x, int64_t p) {
  if (p == 2)
    return n.op<MulOp>({x, x});
  Value magnitude = n.op<AbsOp>(x);
  return p == 1 ? magnitude
                : n.op<PowOp>({magnitude, n.scalar(double(p), n.element(x))});
}

/// x^(1/p).
static Value root(NodeImport &n, Value x, int64_t p) {
  if (p == 1)
    return x;
  if (p == 2)
    return n.op<SqrtOp>(x);
  return n.op<PowOp>({x, n.scalar(1.0 / double(p), n.element(x))});
}

static LogicalResult convertLpPool(NodeImport &n) {
  Value input = n.in(0);
  int64_t p = n.intAttr("p", 2);
  Window window = poolWindow(n, input);
  if (n.flag("ceil_mode") && !n.failed())
    return n.error() << "attribute 'ceil_mode' is not supported";
  SmallVector<NamedAttribute> attributes = poolAttributes(n, window, false);
  attributes.push_back(n.unit("count_include_pad"));
  Value mean = n.op<AvgPoolOp>(power(n, input, p), attributes);
  double places = 1;
  for (int64_t extent : window.kernel)
    places *= double(extent);
  return n.result(
      root(n, n.op<MulOp>({mean, n.scalar(places, n.element(input))}), p));
}

/// Returns all axes after batch and channels.
static SmallVector<int64_t> spatialAxes(NodeImport &n, Value input) {
  SmallVector<int64_t> axes;
  if (!n.failed() && n.rank(input) < 3)
    n.error() << "input " << input.getType() << " has fewer than 3 dimensions";
  for (int64_t d = 2; d < n.rank(input); ++d)
    axes.push_back(d);
  return axes;
}

template <typename OpTy> static LogicalResult convertGlobalPool(NodeImport &n) {
  Value input = n.in(0);
  return n.result(n.reduce<OpTy>(input, spatialAxes(n, input)));
}

static LogicalResult convertGlobalLpPool(NodeImport &n) {
  Value input = n.in(0);
  int64_t p = n.intAttr("p", 2);
  Value sum = n.reduce<ReduceSumOp>(power(n, input, p), spatialAxes(n, input));
  return n.result(root(n, sum, p));
}

/// Scatters the values to the indices of MaxPool; zeros elsewhere.
static LogicalResult convertMaxUnpool(NodeImport &n) {
  Value input = n.in(0), indices = n.in(1);
  Window window = poolWindow(n, input);
  if (n.failed())
    return failure();
  SmallVector<int64_t> natural(n.shape(input));
  int64_t count = elementCount(input);
  for (int64_t i = 0; i < window.rank(); ++i)
    natural[i + 2] = (natural[i + 2] - 1) * window.strides[i] +
                     window.kernel[i] - window.low[i] - window.high[i];
  SmallVector<int64_t> target = natural;
  if (n.has(2))
    target = n.constantIntValues(2, "output_shape");
  RankedTensorType type = n.tensorType(target, n.element(input));
  RankedTensorType naturalType = n.tensorType(natural, n.element(input));
  if (!type || !naturalType)
    return failure();
  if (target.size() != natural.size())
    return n.error() << "output_shape has " << target.size()
                     << " entries, expected " << natural.size();
  int64_t naturalCount = elementCount(naturalType);
  Value zeros = n.splat({naturalCount}, 0, n.element(input));
  Operation *op =
      n.typed(ScatterElementsOp::getOperationName(),
              zeros ? TypeRange(zeros.getType()) : TypeRange(),
              {zeros, n.reshape(indices, {count}), n.reshape(input, {count})},
              n.attr("axis", int64_t(0)));
  Value result = n.reshape(op ? op->getResult(0) : Value(), natural);
  SmallVector<int64_t> low(target.size(), 0), high;
  for (auto [wanted, has] : llvm::zip_equal(target, natural))
    high.push_back(wanted - has);
  return n.result(n.pad(result, low, high, 0));
}

OpFamily mpc::onnx::poolingOps() {
  static const OpEntry entries[] = {
      {"AveragePool 7,10,11,19,22 1 auto_pad ceil_mode count_include_pad "
       "dilations kernel_shape pads strides",
       convertAveragePool},
      {"GlobalAveragePool 1,22 1", convertGlobalPool<ReduceMeanOp>},
      {"GlobalLpPool 2,22 1 p", convertGlobalLpPool},
      {"GlobalMaxPool 1,22 1", convertGlobalPool<ReduceMaxOp>},
      {"LpPool 2,11,18,22 1 auto_pad ceil_mode dilations kernel_shape p pads "
       "strides",
       convertLpPool},
      {"MaxPool 1,8,10,11,12,22 1 auto_pad ceil_mode dilations kernel_shape "
       "pads storage_order strides",
       convertMaxPool},
      {"MaxUnpool 9,11,22 2-3 kernel_shape pads strides", convertMaxUnpool},
  };
  return entries;
}
