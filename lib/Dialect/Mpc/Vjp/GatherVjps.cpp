//===- GatherVjps.cpp - derivatives of gathers ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scatter-adds. A gather clamps out-of-range indices while a scatter drops
// them, so indices are clamped first unless they are constants in range.
//
//===----------------------------------------------------------------------===//

#include "VjpBuilder.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"

using namespace mlir;
using namespace mpc;

/// Returns true if `indices` are constants in range, negative ones counted from
/// the end; the last dimension indexes `extents`.
static bool areInside(Value indices, ArrayRef<int64_t> extents) {
  ElementsAttr constant = constantOf(indices);
  std::optional<SmallVector<int64_t>> values =
      constant ? integerElements(constant)
               : std::optional<SmallVector<int64_t>>();
  if (!values)
    return false;
  for (auto [i, value] : llvm::enumerate(*values)) {
    int64_t extent = extents[i % extents.size()];
    if (value < -extent || value >= extent)
      return false;
  }
  return true;
}

/// Clamps `indices` like a gather.
static Value clamped(VjpBuilder &v, Value indices, ArrayRef<int64_t> extents) {
  if (areInside(indices, extents))
    return indices;
  Type element = v.elementOf(indices);
  SmallVector<int64_t> shape;
  if (extents.size() != 1)
    shape.push_back(extents.size());
  auto type = RankedTensorType::get(shape, element);
  SmallVector<Attribute> low, high;
  for (int64_t extent : extents) {
    low.push_back(IntegerAttr::get(element, -extent));
    high.push_back(IntegerAttr::get(element, extent - 1));
  }
  return v.create<ClampOp>(indices,
                           v.constant(DenseElementsAttr::get(type, low)),
                           v.constant(DenseElementsAttr::get(type, high)));
}

/// Zero tensor to accumulate cotangents, at least f32.
static Value accumulator(VjpBuilder &v, ArrayRef<int64_t> shape, Value dy) {
  return v.splat(shape, v.elementOf(dy), 0.0);
}

static void vjpOfGather(GatherOp op, VjpBuilder &v) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput()),
                    indexShape = shapeOf(op.getIndices());
  int64_t axis = op.getAxis(), extent = shape[axis], rank = shape.size(),
          count = productOf(indexShape);
  int64_t indexRank = indexShape.size();
  Value dy = v.wideDy();
  // [pre..., index..., post...] to [index..., pre..., post...].
  SmallVector<int64_t> order = axesFrom(axis, axis + indexRank);
  llvm::append_range(order, axesFrom(0, axis));
  llvm::append_range(order, axesFrom(axis + indexRank, rank + indexRank - 1));
  SmallVector<int64_t> updates = {count}, table = {extent};
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis) {
      updates.push_back(shape[i]);
      table.push_back(shape[i]);
    }
  Value indices = v.reshape(clamped(v, op.getIndices(), {extent}), {count, 1});
  Value zeros = accumulator(v, table, dy);
  Value sum = v.create<ScatterNdOp>(zeros.getType(), zeros, indices,
                                    v.reshape(v.transpose(dy, order), updates),
                                    ScatterReduction::add);
  SmallVector<int64_t> back = axesFrom(1, axis + 1);
  back.push_back(0);
  llvm::append_range(back, axesFrom(axis + 1, rank));
  v.give(0, v.transpose(sum, back));
}

static void vjpOfGatherNd(GatherNdOp op, VjpBuilder &v) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput()),
                    indexShape = shapeOf(op.getIndices());
  int64_t batch = op.getBatchDims(), tuple = indexShape.back();
  Value indices = clamped(v, op.getIndices(), shape.slice(batch, tuple));
  if (batch > 0) {
    // Prepends the batch index to each tuple.
    SmallVector<int64_t> column(indexShape);
    column.back() = 1;
    auto type = RankedTensorType::get(column, v.elementOf(indices));
    SmallVector<Value> columns;
    for (int64_t d = 0; d < batch; ++d)
      columns.push_back(v.create<IotaOp>(type, uint64_t(d)));
    columns.push_back(indices);
    indices = v.concat(columns, indexShape.size() - 1);
  }
  Value dy = v.wideDy(), zeros = accumulator(v, shape, dy);
  v.give(0, v.create<ScatterNdOp>(zeros.getType(), zeros, indices, dy,
                                  ScatterReduction::add));
}

void mpc::attachGatherVjps(MLIRContext *context) {
  attachVjp<GatherOp>(context,
                      [](GatherOp op, VjpBuilder &v) { vjpOfGather(op, v); });
  attachVjp<GatherNdOp>(
      context, [](GatherNdOp op, VjpBuilder &v) { vjpOfGatherNd(op, v); });
  attachVjp<GatherElementsOp>(context, [](GatherElementsOp op, VjpBuilder &v) {
    ArrayRef<int64_t> shape = shapeOf(op.getInput());
    Value dy = v.wideDy(), zeros = accumulator(v, shape, dy);
    Value indices = clamped(v, op.getIndices(), {shape[op.getAxis()]});
    v.give(0, v.create<ScatterElementsOp>(zeros.getType(), zeros, indices, dy,
                                          op.getAxis(), ScatterReduction::add));
  });
  attachVjp<OneHotOp>(context, [](OneHotOp op, VjpBuilder &v) {
    Value dy = v.dy();
    Value hot =
        v.create<OneHotOp>(op.getIndices(), v.scalar(1.0, dy),
                           v.scalar(0.0, dy), op.getDepth(), op.getAxis());
    if (v.needs(1))
      v.give(1, v.mul(dy, hot));
    if (v.needs(2))
      v.give(2, v.mul(dy, v.sub(1.0, hot)));
  });
}
