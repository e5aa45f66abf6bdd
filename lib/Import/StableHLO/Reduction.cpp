//===- Reduction.cpp - reduce op ------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A single-op body becomes an mpc reduction, a body that selects the position
// of the extremum an argmax. Any other body is applied to tensor halves in a
// binary tree.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"
#include "RegionAnalysis.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::hlo;

namespace {
/// An mpc reduction, the op that combines two elements, and its neutral
/// element.
struct Joining {
  StringRef reduction, op;
  double neutral;
};
} // namespace

/// Returns the reduction for `body`; nullopt if it is not a single supported
/// op.
static std::optional<Joining> joiningOf(Operation *body) {
  if (!body)
    return std::nullopt;
  bool isBool = OpImport::isBool(body->getResult(0));
  auto of = [](auto reduction, auto op, double neutral) {
    return Joining{decltype(reduction)::getOperationName(),
                   decltype(op)::getOperationName(), neutral};
  };
  bool adds = isa<stablehlo::AddOp>(body),
       multiplies = isa<stablehlo::MulOp>(body);
  if (isBool) {
    if (isa<stablehlo::AndOp, stablehlo::MinOp>(body) || multiplies)
      return of(ReduceMinOp(), mpc::AndOp(), 1);
    if (isa<stablehlo::OrOp, stablehlo::MaxOp>(body) || adds)
      return of(ReduceMaxOp(), mpc::OrOp(), 0);
    return std::nullopt;
  }
  if (adds)
    return of(ReduceSumOp(), mpc::AddOp(), 0);
  if (multiplies)
    return of(ReduceProdOp(), mpc::MulOp(), 1);
  if (isa<stablehlo::MaxOp>(body))
    return of(ReduceMaxOp(), mpc::MaxOp(), -kInfinity);
  if (isa<stablehlo::MinOp>(body))
    return of(ReduceMinOp(), mpc::MinOp(), kInfinity);
  return std::nullopt;
}

/// Returns true if `init` is the neutral element.
static bool isNeutral(Value init, const Joining &joining) {
  std::optional<double> splat = init ? constantSplat(init) : std::nullopt;
  if (!splat)
    return false;
  if (*splat == joining.neutral)
    return true;
  // The bounds of an integer type act as infinities.
  auto type = dyn_cast<IntegerType>(OpImport::element(init));
  if (!type || !std::isinf(joining.neutral))
    return false;
  unsigned width = type.getWidth();
  bool isLow = joining.neutral < 0;
  APInt end = type.isUnsigned()
                  ? (isLow ? APInt::getZero(width) : APInt::getMaxValue(width))
                  : (isLow ? APInt::getSignedMinValue(width)
                           : APInt::getSignedMaxValue(width));
  return *splat == (type.isUnsigned() ? end.roundToDouble(false)
                                      : end.roundToDouble(true));
}

/// Drops `axes`, which have extent 1.
static Value dropped(OpImport &op, Value value, ArrayRef<int64_t> axes) {
  SmallVector<int64_t> shape;
  for (auto [i, extent] : llvm::enumerate(OpImport::shape(value)))
    if (!llvm::is_contained(axes, int64_t(i)))
      shape.push_back(extent);
  return op.reshape(value, shape);
}

static Value reduceBy(OpImport &op, const Joining &joining, Value value,
                      ArrayRef<int64_t> axes) {
  int64_t count = 1;
  for (int64_t axis : axes)
    count *= OpImport::shape(value)[axis];
  if (count == 1)
    return dropped(op, value, axes);
  if (!OpImport::isBool(value))
    return op.reduce(joining.reduction, value, axes);
  // Booleans are reduced as numbers.
  Value numbers = op.cast(value, op.builder.getI32Type());
  Value reduced = op.reduce(joining.reduction, numbers, axes);
  return op.cast(reduced, op.builder.getI1Type());
}

/// Tree reduction: combines halves along `axis` until one position is left.
static void foldHalves(OpImport &op, Region &body, int64_t axis,
                       SmallVectorImpl<Value> &values) {
  while (values.front() && OpImport::shape(values.front())[axis] > 1) {
    int64_t extent = OpImport::shape(values.front())[axis], half = extent / 2;
    SmallVector<Value> arguments;
    for (Value value : values)
      arguments.push_back(op.sliceAxis(value, axis, 0, half));
    for (Value value : values)
      arguments.push_back(op.sliceAxis(value, axis, half, half));
    SmallVector<Value> joined = convertScalars(op, body, arguments);
    if (joined.empty())
      joined.resize(values.size());
    for (auto [value, join] : llvm::zip(values, joined)) {
      if (!join) {
        value = {};
        continue;
      }
      Value whole = op.broadcast(join, OpImport::shape(arguments.front()));
      if (extent % 2)
        whole =
            op.concat({whole, op.sliceAxis(value, axis, extent - 1, 1)}, axis);
      value = whole;
    }
  }
}

/// Reduces with an arbitrary body.
static LogicalResult reduceByBody(OpImport &op, stablehlo::ReduceOp reduce) {
  SmallVector<Value> values = op.of(reduce.getInputs()),
                     inits = op.of(reduce.getInitValues());
  SmallVector<int64_t> axes(reduce.getDimensions());
  for (int64_t axis : axes) {
    if (values.front() && OpImport::shape(values.front())[axis] == 0) {
      op.error()
          << "reduces an empty dimension, which is not supported for this body";
      return failure();
    }
    foldHalves(op, reduce.getBody(), axis, values);
  }
  SmallVector<Value> arguments;
  for (auto [value, result] : llvm::zip(inits, reduce.getResults()))
    arguments.push_back(op.broadcast(value, OpImport::shape(result)));
  for (Value value : values)
    arguments.push_back(value ? dropped(op, value, axes) : value);
  if (llvm::is_contained(arguments, Value()))
    return failure();
  SmallVector<Value> joined = convertScalars(op, reduce.getBody(), arguments);
  if (joined.empty())
    return failure();
  for (auto [i, value] : llvm::enumerate(joined))
    op.set(i, op.broadcast(value, OpImport::shape(reduce.getResult(i))));
  return op.status();
}

/// Returns position and value of the largest or smallest element along an axis.
static LogicalResult reduceToPosition(OpImport &op, stablehlo::ReduceOp reduce,
                                      bool largest) {
  Value value = op.in(0);
  int64_t axis = reduce.getDimensions().front();
  Value position = largest ? op.make<ArgmaxOp>(value, op.attr("axis", axis))
                           : op.make<ArgminOp>(value, op.attr("axis", axis));
  op.set(0, op.reduce(largest ? ReduceMaxOp::getOperationName()
                              : ReduceMinOp::getOperationName(),
                      value, axis));
  op.set(1, op.cast(position, OpImport::element(reduce.getResult(1))));
  return op.status();
}

/// Returns true if `value` is an iota along `axis`.
static bool countsAlong(Value value, int64_t axis) {
  if (!value)
    return false;
  if (std::optional<SmallVector<int64_t>> known = OpImport::known(value)) {
    ArrayRef<int64_t> shape = OpImport::shape(value);
    int64_t inner = productOf(shape.drop_front(axis + 1));
    for (auto [i, number] : llvm::enumerate(*known))
      if (number != int64_t(i) / inner % shape[axis])
        return false;
    return true;
  }
  if (auto broadcast = value.getDefiningOp<BroadcastOp>())
    value = broadcast.getInput();
  auto iota = value.getDefiningOp<IotaOp>();
  return iota && int64_t(iota.getAxis()) == axis;
}

static LogicalResult convertReduce(OpImport &op) {
  auto reduce = cast<stablehlo::ReduceOp>(op.op);
  SmallVector<int64_t> axes(reduce.getDimensions());
  llvm::sort(axes);
  if (reduce.getInputs().size() == 2 && axes.size() == 1 &&
      countsAlong(op.in(1), axes.front()) &&
      OpImport::shape(op.in(0))[axes.front()] > 0)
    if (std::optional<bool> largest =
            findsExtremum(reduce.getBody(), op.importer.source))
      return reduceToPosition(op, reduce, *largest);
  std::optional<Joining> joining =
      reduce.getInputs().size() == 1
          ? joiningOf(onlyOp(reduce.getBody(), op.importer.source))
          : std::nullopt;
  if (!joining)
    return reduceByBody(op, reduce);
  Value value = op.in(0), init = op.in(1);
  if (!value || !init)
    return failure();
  if (axes.empty())
    return op.result(value);
  Value reduced = reduceBy(op, *joining, value, axes);
  if (!isNeutral(init, *joining))
    reduced = op.elementwise(joining->op, {reduced, init});
  return op.result(reduced);
}

OpFamily hlo::reductionOps() {
  static const OpEntry entries[] = {{"stablehlo.reduce", convertReduce}};
  return entries;
}
