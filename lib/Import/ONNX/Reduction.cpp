//===- Reduction.cpp - reduction, scan and top-k operators ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "NodeImport.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Returns the axes of a Reduce node: an attribute in old versions, an input in
/// new ones; all if none are given, unless `noop_with_empty_axes`.
static SmallVector<int64_t> reduceAxes(NodeImport &n, Value x) {
  std::optional<SmallVector<int64_t>> given = n.attrOrInput("axes", 1);
  bool noop = n.flag("noop_with_empty_axes");
  if (n.failed())
    return {};
  if (given && !given->empty())
    return n.axes(*given, n.rank(x));
  SmallVector<int64_t> all;
  for (int64_t d = 0; !noop && d < n.rank(x); ++d)
    all.push_back(d);
  return all;
}

/// Reduces, or returns `x` if there are no axes.
template <typename OpTy>
static Value reduceOver(NodeImport &n, Value x, ArrayRef<int64_t> axes,
                        bool keep) {
  return axes.empty() ? x : n.reduce<OpTy>(x, axes, keep);
}

template <typename OpTy> static LogicalResult convertReduce(NodeImport &n) {
  Value x = n.in(0);
  SmallVector<int64_t> axes = reduceAxes(n, x);
  return n.result(reduceOver<OpTy>(n, x, axes, n.flag("keepdims", true)));
}

/// Integer means accumulate in 64 bits, which cannot overflow for narrower
/// types.
static LogicalResult convertReduceMean(NodeImport &n) {
  Value x = n.in(0);
  Type type = n.element(x);
  SmallVector<int64_t> axes = reduceAxes(n, x);
  if (!n.failed() && !n.isFloat(x))
    x = n.cast(x, n.builder.getI64Type());
  return n.result(n.cast(
      reduceOver<ReduceMeanOp>(n, x, axes, n.flag("keepdims", true)), type));
}

static LogicalResult convertReduceL1(NodeImport &n) {
  Value x = n.in(0);
  SmallVector<int64_t> axes = reduceAxes(n, x);
  return n.result(reduceOver<ReduceSumOp>(n, n.op<AbsOp>(x), axes,
                                          n.flag("keepdims", true)));
}

static LogicalResult convertReduceL2(NodeImport &n) {
  Value x = n.in(0);
  SmallVector<int64_t> axes = reduceAxes(n, x);
  Value squares = n.op<MulOp>({x, x});
  return n.result(n.op<SqrtOp>(
      reduceOver<ReduceSumOp>(n, squares, axes, n.flag("keepdims", true))));
}

static LogicalResult convertReduceSumSquare(NodeImport &n) {
  Value x = n.in(0);
  SmallVector<int64_t> axes = reduceAxes(n, x);
  Value squares = n.op<MulOp>({x, x});
  return n.result(
      reduceOver<ReduceSumOp>(n, squares, axes, n.flag("keepdims", true)));
}

static LogicalResult convertReduceLogSum(NodeImport &n) {
  Value x = n.in(0);
  SmallVector<int64_t> axes = reduceAxes(n, x);
  return n.result(n.op<LogOp>(
      reduceOver<ReduceSumOp>(n, x, axes, n.flag("keepdims", true))));
}

/// Subtracts the maximum for stability, unless it is infinite, so that the
/// result is that infinity and not NaN.
static LogicalResult convertReduceLogSumExp(NodeImport &n) {
  Value x = n.in(0);
  SmallVector<int64_t> axes = reduceAxes(n, x);
  bool keep = n.flag("keepdims", true);
  if (axes.empty())
    return n.result(x);
  Value maximum = n.reduce<ReduceMaxOp>(x, axes);
  Value shift =
      n.select(n.op<IsInfOp>(maximum), n.scalar(0, n.element(x)), maximum);
  Value sum = n.reduce<ReduceSumOp>(n.op<ExpOp>(n.op<SubOp>({x, shift})), axes);
  Value result = n.op<AddOp>({n.op<LogOp>(sum), shift});
  if (!keep && !n.failed()) {
    SmallVector<int64_t> shape;
    for (int64_t d = 0; d < n.rank(x); ++d)
      if (!llvm::is_contained(axes, d))
        shape.push_back(n.dim(x, d));
    result = n.reshape(result, shape);
  }
  return n.result(result);
}

template <typename OpTy> static LogicalResult convertArg(NodeImport &n) {
  Value x = n.in(0);
  if (n.failed())
    return failure();
  SmallVector<NamedAttribute> attributes = {
      n.attr("axis", n.axisAttr("axis", 0, n.rank(x)))};
  if (n.flag("keepdims", true))
    attributes.push_back(n.unit("keep_dims"));
  if (n.flag("select_last_index"))
    attributes.push_back(n.unit("select_last"));
  return n.result(n.op<OpTy>(x, attributes));
}

static LogicalResult convertCumSum(NodeImport &n) {
  Value x = n.in(0);
  int64_t axis = n.axis(n.knownInt(1, "axis"), n.rank(x));
  SmallVector<NamedAttribute> attributes = {n.attr("axis", axis)};
  if (n.flag("exclusive"))
    attributes.push_back(n.unit("exclusive"));
  if (n.flag("reverse"))
    attributes.push_back(n.unit("reverse"));
  return n.result(n.op<CumsumOp>(x, attributes));
}

/// Shifts `x` by `distance` along `axis`, filling with ones.
static Value shiftedOnes(NodeImport &n, Value x, int64_t axis,
                         int64_t distance) {
  if (n.failed())
    return nullptr;
  SmallVector<int64_t> low(n.rank(x), 0), high(n.rank(x), 0);
  low[axis] = distance;
  Value kept = n.sliceAxis(x, axis, 0, n.dim(x, axis) - distance);
  return n.pad(kept, low, high, 1);
}

/// Prefix scan by doubling (Hillis-Steele): products of 1, 2, 4, ... neighbors,
/// each over the whole tensor.
static LogicalResult convertCumProd(NodeImport &n) {
  Value x = n.in(0);
  int64_t axis = n.axis(n.knownInt(1, "axis"), n.rank(x));
  bool exclusive = n.flag("exclusive"), reverse = n.flag("reverse");
  if (n.failed())
    return failure();
  Type type = n.element(x);
  x = n.cast(x, n.wideType(type));
  SmallVector<int64_t> axes = {axis};
  int64_t extent = n.dim(x, axis);
  auto flip = [&](Value value) {
    return reverse ? n.op<ReverseOp>(value, n.attr("axes", axes)) : value;
  };
  x = flip(x);
  if (exclusive && extent > 0)
    x = shiftedOnes(n, x, axis, 1);
  for (int64_t distance = 1; distance < extent; distance *= 2)
    x = n.op<MulOp>({x, shiftedOnes(n, x, axis, distance)});
  return n.result(n.narrow(flip(x), type));
}

static LogicalResult convertTopK(NodeImport &n) {
  Value x = n.in(0);
  int64_t k = n.version < 10 ? n.intAttr("k", -1) : n.knownInt(1, "K");
  bool largest = n.flag("largest", true);
  // Sorted results are allowed even if not requested.
  (void)n.flag("sorted", true);
  if (n.failed())
    return failure();
  int64_t axis = n.axisAttr("axis", -1, n.rank(x));
  if (k < 0 || k > n.dim(x, axis))
    return n.error() << "K is " << k << ", outside 0 to " << n.dim(x, axis);
  Operation *op =
      n.inferred(TopKOp::getOperationName(), x,
                 {n.attr("k", k), n.attr("axis", axis),
                  n.attr("largest", n.builder.getBoolAttr(largest))});
  if (op) {
    n.set(0, op->getResult(0));
    n.set(1, op->getResult(1));
  }
  return n.status();
}

OpFamily mpc::onnx::reductionOps() {
  static const OpEntry entries[] = {
      {"ArgMax 1,11,12,13 1 axis keepdims select_last_index",
       convertArg<ArgmaxOp>},
      {"ArgMin 1,11,12,13 1 axis keepdims select_last_index",
       convertArg<ArgminOp>},
      {"CumProd 26 2 exclusive reverse", convertCumProd},
      {"CumSum 11,14 2 exclusive reverse", convertCumSum},
      {"ReduceL1 1,11,13,18 1-2 axes keepdims noop_with_empty_axes",
       convertReduceL1},
      {"ReduceL2 1,11,13,18 1-2 axes keepdims noop_with_empty_axes",
       convertReduceL2},
      {"ReduceLogSum 1,11,13,18 1-2 axes keepdims noop_with_empty_axes",
       convertReduceLogSum},
      {"ReduceLogSumExp 1,11,13,18 1-2 axes keepdims noop_with_empty_axes",
       convertReduceLogSumExp},
      {"ReduceMax 1,11,12,13,18,20 1-2 axes keepdims noop_with_empty_axes",
       convertReduce<ReduceMaxOp>},
      {"ReduceMean 1,11,13,18 1-2 axes keepdims noop_with_empty_axes",
       convertReduceMean},
      {"ReduceMin 1,11,12,13,18,20 1-2 axes keepdims noop_with_empty_axes",
       convertReduce<ReduceMinOp>},
      {"ReduceProd 1,11,13,18 1-2 axes keepdims noop_with_empty_axes",
       convertReduce<ReduceProdOp>},
      {"ReduceSum 1,11,13 1-2 axes keepdims noop_with_empty_axes",
       convertReduce<ReduceSumOp>},
      {"ReduceSumSquare 1,11,13,18 1-2 axes keepdims noop_with_empty_axes",
       convertReduceSumSquare},
      {"TopK 1,10,11,24 1-2 axis k largest sorted", convertTopK},
  };
  return entries;
}
