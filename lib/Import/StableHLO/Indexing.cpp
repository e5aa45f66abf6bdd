//===- Indexing.cpp - gather and scatter ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Negative indices count from the end in mpc's ops, as in Python; StableHLO
// clamps (gather) or drops (scatter) them. JAX's code that counts from the end
// is removed; other indices are clamped or moved out of range.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::hlo;

/// Returns i of `select(i < 0, i + extent, i)`; null for another form.
static Value matchNegativeIndex(OpImport &op, Value index, int64_t extent) {
  std::optional<NegativeIndexPattern> counted = matchNegativeIndex(op, index);
  return counted && counted->extent == extent ? counted->index : Value();
}

/// Returns true if no element is negative.
static bool isNotNegative(Value index) {
  if (std::optional<SmallVector<int64_t>> known = OpImport::known(index))
    return llvm::all_of(*known, [](int64_t number) { return number >= 0; });
  Operation *made = index.getDefiningOp();
  if (isa_and_nonnull<BroadcastOp, ReshapeOp, TransposeOp, SliceOp>(made))
    return isNotNegative(made->getOperand(0));
  if (auto cast = dyn_cast_or_null<CastOp>(made))
    return isa<IntegerType>(OpImport::element(cast.getInput())) &&
           isNotNegative(cast.getInput());
  return isa_and_nonnull<IotaOp, ArgmaxOp, ArgminOp>(made);
}

namespace {
/// Dimension numbers common to gather and scatter: the operand dimension of
/// each index component, and the positions of batches.
struct Indices {
  /// Index components without the vector dimension, in the batches' shape.
  SmallVector<Value> components;
  /// Extents of the batches.
  SmallVector<int64_t> shape;
  /// Position of each index batch dimension among the batches.
  SmallVector<int64_t> batchPlaces;
};
} // namespace

static Indices indicesOf(OpImport &op, Value indices, int64_t vectorDim,
                         size_t count, ArrayRef<int64_t> batchDims) {
  Indices result;
  if (!indices)
    return result;
  Type type = OpImport::element(indices);
  if (!type.isSignlessInteger(32) && !type.isSignlessInteger(64))
    indices = op.cast(indices, op.builder.getI64Type());
  for (auto [i, extent] : llvm::enumerate(OpImport::shape(indices)))
    if (int64_t(i) != vectorDim)
      result.shape.push_back(extent);
  for (int64_t dim : batchDims)
    result.batchPlaces.push_back(dim > vectorDim ? dim - 1 : dim);
  bool isVector = vectorDim < OpImport::rank(indices);
  for (size_t i = 0; i < count; ++i) {
    Value component =
        isVector ? op.sliceAxis(indices, vectorDim, int64_t(i), 1) : indices;
    result.components.push_back(op.reshape(component, result.shape));
  }
  return result;
}

static SmallVector<int64_t> without(ArrayRef<int64_t> a, ArrayRef<int64_t> b,
                                    int64_t rank) {
  SmallVector<int64_t> left;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(a, dim) && !llvm::is_contained(b, dim))
      left.push_back(dim);
  return left;
}

/// Concatenates index components: `[batches..., windows..., k]`.
static Value tuples(OpImport &op, ArrayRef<Value> components,
                    ArrayRef<int64_t> shape) {
  SmallVector<Value> columns;
  SmallVector<int64_t> column(shape);
  column.push_back(1);
  for (Value component : components)
    columns.push_back(op.reshape(op.broadcast(component, shape), column));
  return op.concat(columns, int64_t(shape.size()));
}

/// Appends `windows` dimensions of extent 1 to `component`, of the batches'
/// shape.
static Value withWindows(OpImport &op, Value component, size_t windows) {
  SmallVector<int64_t> shape(OpImport::shape(component));
  shape.append(windows, 1);
  return op.reshape(component, shape);
}

/// Returns the permutation from order `have` to order `want`.
static SmallVector<int64_t> reordering(ArrayRef<int64_t> have,
                                       ArrayRef<int64_t> want) {
  return llvm::map_to_vector(want, [&](int64_t label) {
    return int64_t(llvm::find(have, label) - have.begin());
  });
}

/// Labels of a result's dimensions: the operand dimension of a window, or
/// `rank` plus the batch number.
static SmallVector<int64_t> labels(ArrayRef<int64_t> windowDims,
                                   ArrayRef<int64_t> windowPlaces,
                                   size_t resultRank, int64_t rank) {
  SmallVector<int64_t> result;
  int64_t window = 0, batch = 0;
  for (size_t i = 0; i < resultRank; ++i)
    result.push_back(llvm::is_contained(windowPlaces, int64_t(i))
                         ? windowDims[window++]
                         : rank + batch++);
  return result;
}

/// Labels of batches in order.
static SmallVector<int64_t> batchLabels(size_t count, int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(rank, rank + int64_t(count)));
}

//===----------------------------------------------------------------------===//
// gather
//===----------------------------------------------------------------------===//

/// Returns an index with mpc's semantics: clamped at 0, or the original index
/// that counts from the end.
static Value clampedBelow(OpImport &op, Value index, int64_t extent) {
  if (!index)
    return {};
  if (Value plain = matchNegativeIndex(op, index, extent))
    return plain;
  return isNotNegative(index) ? index : op.with<mpc::MaxOp>(index, 0);
}

static LogicalResult convertGather(OpImport &op) {
  auto gather = cast<stablehlo::GatherOp>(op.op);
  stablehlo::GatherDimensionNumbersAttr dims = gather.getDimensionNumbers();
  Value operand = op.in(0);
  if (!operand)
    return failure();
  int64_t rank = OpImport::rank(operand);
  ArrayRef<int64_t> map = dims.getStartIndexMap(),
                    batch = dims.getOperandBatchingDims(),
                    collapsed = dims.getCollapsedSliceDims(),
                    sizes = gather.getSliceSizes();
  SmallVector<int64_t> extents(OpImport::shape(operand));
  Indices indices = indicesOf(op, op.in(1), dims.getIndexVectorDim(),
                              map.size(), dims.getStartIndicesBatchingDims());
  if (failed(op.status()))
    return failure();
  // Unindexed dimensions start at 0.
  for (int64_t dim : without(map, batch, rank))
    operand = op.sliceAxis(operand, dim, 0, sizes[dim]);
  SmallVector<int64_t> windowDims = without(collapsed, batch, rank);
  size_t resultRank = OpImport::shape(gather.getResult()).size();
  SmallVector<int64_t> want =
      labels(windowDims, dims.getOffsetDims(), resultRank, rank);
  SmallVector<int64_t> rest = without(map, batch, rank), have;

  // Single index along one dimension.
  if (map.size() == 1 && batch.empty() && sizes[map[0]] == 1) {
    Value index = clampedBelow(op, indices.components[0], extents[map[0]]);
    Value taken =
        op.make<mpc::GatherOp>({operand, index}, op.attr("axis", map[0]));
    for (int64_t dim = 0; dim < rank; ++dim) {
      if (dim == map[0])
        llvm::append_range(have, batchLabels(indices.shape.size(), rank));
      else
        have.push_back(dim);
    }
    // The reshape inserts a window of extent 1.
    SmallVector<int64_t> wanted(want);
    llvm::erase(wanted, map[0]);
    taken = op.transpose(taken, reordering(have, wanted));
    return op.result(op.reshape(taken, OpImport::shape(gather.getResult())));
  }

  // Index tuples: batches first, then indexed dimensions, then the rest.
  SmallVector<int64_t> order(batch);
  llvm::append_range(order, map);
  llvm::append_range(order, rest);
  operand = op.transpose(operand, order);
  SmallVector<int64_t> windows;
  for (int64_t dim : map)
    if (!llvm::is_contained(collapsed, dim))
      windows.push_back(dim);
  // Index batches in the operand's order, then the others.
  SmallVector<int64_t> batchOrder(indices.batchPlaces);
  llvm::append_range(batchOrder,
                     without(indices.batchPlaces, {}, indices.shape.size()));
  SmallVector<int64_t> shape;
  for (int64_t place : batchOrder)
    shape.push_back(indices.shape[place]);
  for (int64_t dim : windows)
    shape.push_back(sizes[dim]);
  SmallVector<Value> components;
  for (auto [i, dim] : llvm::enumerate(map)) {
    Value index = indices.components[i];
    Type type = OpImport::element(index);
    index = sizes[dim] == 1
                ? clampedBelow(op, index, extents[dim])
                : op.map<mpc::ClampOp>(
                      {index, op.scalar(0, type),
                       op.scalar(double(extents[dim] - sizes[dim]), type)});
    // A constant component may be a scalar.
    index = op.transpose(op.broadcast(index, indices.shape), batchOrder);
    index = withWindows(op, index, windows.size());
    const auto *window = llvm::find(windows, dim);
    if (window != windows.end() && sizes[dim] > 1)
      index = op.map<mpc::AddOp>({index, op.iota(sizes[dim],
                                                 int64_t(batchOrder.size()) +
                                                     (window - windows.begin()),
                                                 int64_t(shape.size()), type)});
    components.push_back(index);
  }
  if (llvm::is_contained(components, Value()))
    return failure();
  Value taken =
      op.make<GatherNdOp>({operand, tuples(op, components, shape)},
                          op.attr("batch_dims", int64_t(batch.size())));
  for (int64_t place : batchOrder)
    have.push_back(rank + place);
  llvm::append_range(have, windows);
  llvm::append_range(have, rest);
  return op.result(op.transpose(taken, reordering(have, want)));
}

//===----------------------------------------------------------------------===//
// scatter
//===----------------------------------------------------------------------===//

/// Returns true if the region subtracts the update from the operand.
static bool isSubtraction(Region &region) {
  Block &block = region.front();
  return block.getOperations().size() == 2 &&
         isa<stablehlo::SubtractOp>(block.front()) &&
         block.front().getOperands() == ValueRange(block.getArguments()) &&
         block.back().getOperands() == block.front().getResults();
}

/// Returns the reduction of an update and the operand in the region.
static std::optional<ScatterReduction> reductionOf(OpImport &op,
                                                   Region &region) {
  Block &block = region.front();
  if (block.getOperations().size() == 1 &&
      block.back().getOperand(0) == block.getArgument(1))
    return ScatterReduction::none;
  Operation *body = onlyOp(region, op.importer.source);
  if (isa_and_nonnull<stablehlo::AddOp>(body) || isSubtraction(region))
    return ScatterReduction::add;
  if (isa_and_nonnull<stablehlo::MulOp>(body))
    return ScatterReduction::mul;
  if (isa_and_nonnull<stablehlo::MaxOp>(body))
    return ScatterReduction::max;
  if (isa_and_nonnull<stablehlo::MinOp>(body))
    return ScatterReduction::min;
  return std::nullopt;
}

/// Returns an index that mpc's ops drop whenever StableHLO's do: moved past the
/// end if the window does not fit.
static Value dropIfOutOfRange(OpImport &op, Value index, int64_t extent,
                              int64_t size) {
  if (!index)
    return {};
  Type type = OpImport::element(index);
  if (size == 1) {
    if (Value plain = matchNegativeIndex(op, index, extent))
      return plain;
    if (isNotNegative(index))
      return index;
  }
  Value outside = op.compare(ComparePredicate::lt, index, op.scalar(0, type));
  if (size > 1)
    outside = op.map<mpc::OrOp>(
        {outside, op.compare(ComparePredicate::gt, index,
                             op.scalar(double(extent - size), type))});
  return op.select(outside, op.scalar(double(extent), type), index);
}

/// Applies an update that covers the whole operand.
static Value covered(OpImport &op, ScatterReduction reduction, Value input,
                     Value update) {
  update = op.reshape(update, OpImport::shape(input));
  switch (reduction) {
  case ScatterReduction::none:
    return update;
  case ScatterReduction::add:
    return op.map<mpc::AddOp>({input, update});
  case ScatterReduction::mul:
    return op.map<mpc::MulOp>({input, update});
  case ScatterReduction::max:
    return op.map<mpc::MaxOp>({input, update});
  case ScatterReduction::min:
    return op.map<mpc::MinOp>({input, update});
  }
  llvm_unreachable("all reductions are handled");
}

static LogicalResult convertScatter(OpImport &op) {
  auto scatter = cast<stablehlo::ScatterOp>(op.op);
  stablehlo::ScatterDimensionNumbersAttr dims =
      scatter.getScatterDimensionNumbers();
  std::optional<ScatterReduction> reduction =
      scatter.getInputs().size() == 1
          ? reductionOf(op, scatter.getUpdateComputation())
          : std::nullopt;
  if (!reduction) {
    op.error() << "is supported only for one operand and for replace, add, "
                  "subtract, multiply, maximum or minimum";
    return failure();
  }
  Value input = op.in(0), updates = op.in(2);
  if (!input || !updates)
    return failure();
  if (isSubtraction(scatter.getUpdateComputation()))
    updates =
        op.map<mpc::SubOp>({op.scalar(0, OpImport::element(updates)), updates});
  int64_t rank = OpImport::rank(input);
  ArrayRef<int64_t> map = dims.getScatterDimsToOperandDims(),
                    batch = dims.getInputBatchingDims(),
                    inserted = dims.getInsertedWindowDims();
  SmallVector<int64_t> extents(OpImport::shape(input));
  Indices indices = indicesOf(op, op.in(1), dims.getIndexVectorDim(),
                              map.size(), dims.getScatterIndicesBatchingDims());
  if (failed(op.status()))
    return failure();
  SmallVector<int64_t> windowDims = without(inserted, batch, rank);
  llvm::SmallDenseMap<int64_t, int64_t> sizes;
  for (auto [dim, place] : llvm::zip(windowDims, dims.getUpdateWindowDims()))
    sizes[dim] = OpImport::shape(updates)[place];
  auto sizeOf = [&](int64_t dim) {
    auto found = sizes.find(dim);
    return found == sizes.end() ? 1 : found->second;
  };
  // Dimensions indexed by tuples: batches, those that the model indexes, and
  // those that are written in part.
  SmallVector<int64_t> indexed(batch);
  llvm::append_range(indexed, map);
  for (int64_t dim : windowDims)
    if (!llvm::is_contained(indexed, dim) && sizeOf(dim) != extents[dim])
      indexed.push_back(dim);
  SmallVector<int64_t> rest = without(indexed, {}, rank), order(indexed);
  // An inserted dimension without an index has one position.
  llvm::append_range(order, rest);
  SmallVector<int64_t> windows;
  for (int64_t dim : windowDims)
    if (llvm::is_contained(indexed, dim))
      windows.push_back(dim);
  SmallVector<int64_t> shape(indices.shape);
  for (int64_t dim : windows)
    shape.push_back(sizeOf(dim));
  auto places = int64_t(indices.shape.size());
  // No indexed dimension: every update covers the whole operand.
  if (indexed.empty() && places == 0)
    return op.result(covered(op, *reduction, input, updates));
  Type type = indices.components.empty()
                  ? Type(op.builder.getI64Type())
                  : OpImport::element(indices.components.front());
  SmallVector<Value> components;
  for (auto [i, dim] : llvm::enumerate(indexed)) {
    Value index;
    if (i < batch.size()) {
      index = op.iota(extents[dim], indices.batchPlaces[i],
                      int64_t(shape.size()), type);
    } else if (i < batch.size() + map.size()) {
      index = dropIfOutOfRange(op, indices.components[i - batch.size()],
                               extents[dim], sizeOf(dim));
      index =
          withWindows(op, op.broadcast(index, indices.shape), windows.size());
    }
    const auto *window = llvm::find(windows, dim);
    if (window != windows.end() && (sizeOf(dim) > 1 || !index)) {
      Value offset = op.iota(sizeOf(dim), places + (window - windows.begin()),
                             int64_t(shape.size()), type);
      index = index ? op.map<mpc::AddOp>({index, offset}) : offset;
    }
    components.push_back(index);
  }
  if (llvm::is_contained(components, Value()))
    return failure();
  // Updates: batches, windows, and the rest.
  SmallVector<int64_t> have = labels(windowDims, dims.getUpdateWindowDims(),
                                     OpImport::shape(updates).size(), rank);
  SmallVector<int64_t> want = batchLabels(indices.shape.size(), rank);
  llvm::append_range(want, windows);
  SmallVector<int64_t> restShape(shape);
  for (int64_t dim : rest) {
    restShape.push_back(extents[dim]);
    if (llvm::is_contained(windowDims, dim))
      want.push_back(dim);
  }
  updates =
      op.reshape(op.transpose(updates, reordering(have, want)), restShape);
  SmallVector<NamedAttribute> attributes;
  if (*reduction != ScatterReduction::none)
    attributes.push_back(
        op.attr("reduction", ScatterReductionAttr::get(op.builder.getContext(),
                                                       *reduction)));
  Value moved = op.transpose(input, order);
  Value written = op.makeTyped<ScatterNdOp>(
      OpImport::shape(moved), OpImport::element(moved),
      {moved, tuples(op, components, shape), updates}, attributes);
  return op.result(op.transpose(written, inverted(order)));
}

OpFamily hlo::indexingOps() {
  static const OpEntry entries[] = {
      {"stablehlo.gather", convertGather},
      {"stablehlo.scatter", convertScatter},
  };
  return entries;
}
