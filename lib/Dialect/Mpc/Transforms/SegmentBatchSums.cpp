//===- SegmentBatchSums.cpp - sums over a batch in fixed segments ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Data parallelism without effect on bits: a rank sums whole segments of the
// global batch, and ranks are combined by the upper levels of the same tree.
//
//===----------------------------------------------------------------------===//

#include "OpEmitter.h"

#include "mpc/Analysis/RowPropagation.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Support/NeighborTree.h"

namespace mpc {
#define GEN_PASS_DEF_SEGMENTBATCHSUMSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

/// Finds the ops of a function that sum over the batch, and splits them.
class BatchSums {
public:
  BatchSums(func::FuncOp function, int64_t segments)
      : function(function), segments(segments) {}

  /// Returns the number of ops that were split.
  int64_t run();

private:
  bool findRows();
  /// Returns true if dimension `dim` of `value` is the batch, example after
  /// example.
  bool isBatch(Value value, int64_t dim) const;
  /// Returns the batch dimension of `value`, or nullopt.
  std::optional<int64_t> batchOf(Value value) const;
  /// Returns [segments, ...]: dimension `dim` of `value` by segment.
  Value segmented(OpEmitter &emit, Value value, int64_t dim) const;
  /// Returns the sum of the results of `op` for each segment, or null if `op`
  /// does not sum over the batch.
  Value split(Operation *op);
  Value splitMatmul(OpEmitter &emit, MatmulOp op);
  Value splitReduction(OpEmitter &emit, Operation *op);
  Value splitPart(OpEmitter &emit, Operation *op, ArrayRef<unsigned> operands);
  /// Clones `op` with other operands, and results in the accumulate type with
  /// `leading` extents before their own.
  Value cloneFor(OpEmitter &emit, Operation *op, ValueRange operands,
                 ArrayRef<int64_t> leading) const;
  /// Sums `terms`, neighbors first.
  static Value sumOf(OpEmitter &emit, ArrayRef<Value> terms);
  static Value sumOfSegments(OpEmitter &emit, Value all);

  func::FuncOp function;
  int64_t segments, rows = 0;
  llvm::DenseMap<Value, RowLocation> places;
};

} // namespace

bool BatchSums::findRows() {
  StepFunction step(function);
  for (BlockArgument argument : function.getArguments()) {
    RoleAttr role = step.argumentRole(argument.getArgNumber());
    ArrayRef<int64_t> shape = shapeOf(argument);
    if (!role || shape.empty() ||
        (role.getKind() != RoleKind::input &&
         role.getKind() != RoleKind::label))
      continue;
    if (rows == 0)
      rows = shape.front();
    if (shape.front() == rows)
      places[argument] = {};
  }
  if (rows == 0 || rows % segments == 0)
    return rows > 0;
  function.emitWarning() << "sums over the batch of " << rows
                         << " depend on the number of ranks: it is no multiple "
                            "of the "
                         << segments << " segments of reproducible training";
  return false;
}

bool BatchSums::isBatch(Value value, int64_t dim) const {
  auto found = places.find(value);
  return found != places.end() && int64_t(found->second.dim) == dim &&
         shapeOf(value)[dim] == rows * found->second.width;
}

std::optional<int64_t> BatchSums::batchOf(Value value) const {
  auto found = places.find(value);
  if (found == places.end() || !isBatch(value, found->second.dim))
    return std::nullopt;
  return found->second.dim;
}

Value BatchSums::segmented(OpEmitter &emit, Value value, int64_t dim) const {
  SmallVector<int64_t> shape(shapeOf(value)), order;
  shape[dim] /= segments;
  shape.insert(shape.begin() + dim, segments);
  for (int64_t i = 0; i < int64_t(shape.size()); ++i)
    if (i != dim)
      order.push_back(i);
  order.insert(order.begin(), dim);
  return emit.transpose(emit.reshape(value, shape), order);
}

Value BatchSums::cloneFor(OpEmitter &emit, Operation *op, ValueRange operands,
                          ArrayRef<int64_t> leading) const {
  Operation *clone = emit.builder.clone(*op);
  clone->setOperands(operands);
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  SmallVector<int64_t> shape(leading);
  llvm::append_range(shape, type.getShape());
  Type element = type.getElementType();
  if (auto contraction = dyn_cast<ContractionOpInterface>(op))
    element = contraction.getAccumulateType();
  else if (auto reduction = dyn_cast<ReductionOpInterface>(op))
    element = reduction.getAccumulateType();
  clone->getResult(0).setType(RankedTensorType::get(shape, element));
  return clone->getResult(0);
}

Value BatchSums::sumOf(OpEmitter &emit, ArrayRef<Value> terms) {
  return combineNeighbors(terms, [&](Value x, Value y) -> Value {
    return emit.create<AddOp>(x.getType(), x, y);
  });
}

Value BatchSums::sumOfSegments(OpEmitter &emit, Value all) {
  SmallVector<Value> terms;
  ArrayRef<int64_t> shape = shapeOf(all);
  for (int64_t i = 0; i < shape.front(); ++i)
    terms.push_back(
        emit.reshape(emit.sliceAxis(all, 0, i, 1), shape.drop_front()));
  return sumOf(emit, terms);
}

Value BatchSums::splitMatmul(OpEmitter &emit, MatmulOp op) {
  if (shapeOf(op.getLhs()).size() != 2 || shapeOf(op.getRhs()).size() != 2 ||
      op->getNumOperands() != 2)
    return {};
  int64_t left = op.getTransposeLhs() ? 0 : 1,
          right = op.getTransposeRhs() ? 1 : 0;
  if (!isBatch(op.getLhs(), left) || !isBatch(op.getRhs(), right))
    return {};
  return sumOfSegments(emit, cloneFor(emit, op,
                                      {segmented(emit, op.getLhs(), left),
                                       segmented(emit, op.getRhs(), right)},
                                      {segments}));
}

Value BatchSums::splitReduction(OpEmitter &emit, Operation *op) {
  Value input = op->getOperand(0);
  std::optional<int64_t> dim = batchOf(input);
  SmallVector<int64_t> axes = cast<ReductionOpInterface>(op).getReductionAxes();
  if (!dim || !llvm::is_contained(axes, *dim))
    return {};
  Value parts = cloneFor(emit, op, segmented(emit, input, *dim), {segments});
  for (int64_t &axis : axes)
    ++axis;
  cast<ReduceSumOp>(parts.getDefiningOp()).setAxes(axes);
  return sumOfSegments(emit, parts);
}

/// For ops whose `operands` have the batch in any dimension: one op per
/// segment.
Value BatchSums::splitPart(OpEmitter &emit, Operation *op,
                           ArrayRef<unsigned> operands) {
  SmallVector<Value> terms;
  for (int64_t i = 0; i < segments; ++i) {
    SmallVector<Value> own(op->getOperands());
    for (unsigned operand : operands) {
      std::optional<int64_t> dim = batchOf(own[operand]);
      if (!dim)
        return {};
      int64_t extent = shapeOf(own[operand])[*dim] / segments;
      own[operand] = emit.sliceAxis(own[operand], *dim, i * extent, extent);
    }
    // Only the first segment adds to the initial values.
    if (isa<ScatterNdOp, ScatterElementsOp>(op) && i > 0)
      own[0] = emit.splat(shapeOf(own[0]), getElementTypeOrSelf(own[0]), 0);
    terms.push_back(cloneFor(emit, op, own, {}));
  }
  return sumOf(emit, terms);
}

Value BatchSums::split(Operation *op) {
  OpBuilder builder(op);
  OpEmitter emit(builder, op);
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return splitMatmul(emit, matmul);
  if (isa<ReduceSumOp>(op))
    return splitReduction(emit, op);
  if (isa<ConvFilterGradientOp>(op))
    return splitPart(emit, op, {0, 1});
  auto adds = [&](auto scatter) {
    return scatter.getReduction() == ScatterReduction::add;
  };
  if (auto scatter = dyn_cast<ScatterNdOp>(op); scatter && adds(scatter))
    return splitPart(emit, op, {1, 2});
  return {};
}

int64_t BatchSums::run() {
  if (!findRows())
    return 0;
  int64_t count = 0;
  for (Operation &op : llvm::make_early_inc_range(function.front())) {
    if (llvm::none_of(op.getOperands(),
                      [&](Value value) { return places.contains(value); }))
      continue;
    bool keeps = true;
    for (OpResult result : op.getResults()) {
      RowPropagation rowsOf(&op, places, rows);
      if (std::optional<RowLocation> place =
              rowsOf.placeIn(result.getResultNumber()))
        places[result] = *place;
      else
        keeps = false;
    }
    if (keeps || op.getNumResults() != 1 ||
        !isa<FloatType>(getElementTypeOrSelf(op.getResult(0))))
      continue;
    Value sum = split(&op);
    if (!sum)
      continue;
    OpBuilder builder(&op);
    sum = OpEmitter(builder, &op)
              .cast(sum, getElementTypeOrSelf(op.getResult(0)));
    op.getResult(0).replaceAllUsesWith(sum);
    op.erase();
    ++count;
  }
  return count;
}

namespace {
struct SegmentBatchSumsPass
    : mpc::impl::SegmentBatchSumsPassBase<SegmentBatchSumsPass> {
  using Base::Base;

  void runOnOperation() override {
    numSplit += BatchSums(getOperation(), segments).run();
  }
};
} // namespace
