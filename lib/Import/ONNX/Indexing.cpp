//===- Indexing.cpp - gather and scatter operators ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"

#include "CheckedIndices.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Checks that known indices are inside `extent`; others are checked at run
/// time.
static void checkIndices(NodeImport &n, Value indices, int64_t extent,
                         bool areLengths = false) {
  std::shared_ptr<const reference::Tensor> known = n.known(indices);
  if (!known)
    return;
  for (int64_t index : known->ints()) {
    if (index < (areLengths ? 0 : -extent) || index >= extent) {
      n.error() << "index " << index << " is outside an extent of " << extent;
      return;
    }
  }
}

/// Returns indices as i32 or i64; other integers are cast.
static Value indexInput(NodeImport &n, size_t i) {
  Value indices = n.in(i);
  if (n.failed())
    return nullptr;
  if (n.isFloat(indices)) {
    n.error() << "indices are " << indices.getType() << ", expected integers";
    return nullptr;
  }
  Type type = n.element(indices);
  return type.isSignlessInteger(32) || type.isSignlessInteger(64)
             ? indices
             : n.cast(indices, n.builder.getI64Type());
}

template <typename OpTy> static LogicalResult convertGatherLike(NodeImport &n) {
  Value x = n.in(0), indices = indexInput(n, 1);
  if (n.failed())
    return failure();
  int64_t axis = n.axisAttr("axis", 0, n.rank(x));
  if (!n.isFloat(x) || !n.importer.options.checksKnownIndicesLater)
    checkIndices(n, indices, n.dim(x, axis));
  return n.result(
      checkIndicesOf(n, n.op<OpTy>({x, indices}, n.attr("axis", axis))));
}

static LogicalResult convertGatherNd(NodeImport &n) {
  Value x = n.in(0), indices = indexInput(n, 1);
  return n.result(checkIndicesOf(
      n, n.op<GatherNdOp>({x, indices},
                          n.attr("batch_dims", n.intAttr("batch_dims", 0)))));
}

/// Converts the attribute `reduction` to the dialect's.
static NamedAttribute reductionAttr(NodeImport &n) {
  std::string name = n.stringAttr("reduction", "none");
  std::optional<ScatterReduction> reduction = symbolizeScatterReduction(name);
  if (!reduction && !n.failed())
    n.error() << "attribute 'reduction' is '" << name
              << "', expected none, add, mul, max or min";
  return n.attr("reduction", ScatterReductionAttr::get(
                                 n.builder.getContext(),
                                 reduction.value_or(ScatterReduction::none)));
}

static LogicalResult convertScatterElements(NodeImport &n) {
  Value x = n.in(0), indices = indexInput(n, 1), updates = n.in(2);
  if (n.failed())
    return failure();
  int64_t axis = n.axisAttr("axis", 0, n.rank(x));
  checkIndices(n, indices, n.dim(x, axis));
  NamedAttribute reduction = reductionAttr(n);
  if (n.failed())
    return failure();
  Operation *op =
      n.typed(ScatterElementsOp::getOperationName(), x.getType(),
              {x, indices, updates}, {n.attr("axis", axis), reduction});
  return n.result(checkIndicesOf(n, op ? op->getResult(0) : Value()));
}

/// Writes consecutive positions into each sample of a cache.
static LogicalResult convertTensorScatter(NodeImport &n) {
  Value x = n.in(0), update = n.in(1);
  std::string mode = n.stringAttr("mode", "linear");
  if (n.failed())
    return failure();
  if (mode != "linear" && mode != "circular")
    return n.error() << "attribute 'mode' is '" << mode
                     << "', expected linear or circular";
  int64_t axis = n.axisAttr("axis", -2, n.rank(x));
  Type i64 = n.builder.getI64Type();
  Value places = n.iota(n.dim(update, axis), axis, n.rank(x), i64);
  if (n.has(2)) {
    SmallVector<int64_t> perSample(n.rank(x), 1);
    perSample[0] = n.dim(x, 0);
    places = n.op<AddOp>(
        {places, n.reshape(n.cast(indexInput(n, 2), i64), perSample)});
  }
  if (mode == "circular")
    places = n.op<RemOp>({places, n.ints({n.dim(x, axis)}, {})});
  places = n.broadcast(places, n.shape(update));
  if (n.failed())
    return failure();
  // Write indices of circular mode are positions modulo the extent.
  bool areLengths = mode == "linear";
  checkIndices(n, places, n.dim(x, axis), areLengths);
  if (n.failed())
    return failure();
  Operation *op = n.typed(ScatterElementsOp::getOperationName(), x.getType(),
                          {x, places, update}, n.attr("axis", axis));
  return n.result(
      checkIndicesOf(n, op ? op->getResult(0) : Value(), areLengths));
}

static LogicalResult convertScatterNd(NodeImport &n) {
  Value x = n.in(0), indices = indexInput(n, 1), updates = n.in(2);
  NamedAttribute reduction = reductionAttr(n);
  if (n.failed())
    return failure();
  Operation *op = n.typed(ScatterNdOp::getOperationName(), x.getType(),
                          {x, indices, updates}, reduction);
  return n.result(checkIndicesOf(n, op ? op->getResult(0) : Value()));
}

static LogicalResult convertOneHot(NodeImport &n) {
  Value indices = n.in(0), values = n.in(2);
  SmallVector<double> depth = n.constantFloatValues(1, "depth");
  if (n.failed())
    return failure();
  if (depth.size() != 1 || depth.front() < 0 ||
      depth.front() > double(int64_t(1) << 40))
    return n.error() << "depth is not one natural number";
  if (n.rank(values) != 1 || n.dim(values, 0) != 2)
    return n.error() << "values are " << values.getType()
                     << ", expected [off, on]";
  Type type = n.element(indices);
  if (!type.isSignlessInteger(32) && !type.isSignlessInteger(64))
    indices = n.cast(indices, n.builder.getI64Type());
  Value off = n.reshape(n.slice(values, {0}, {1}), {});
  Value on = n.reshape(n.slice(values, {1}, {1}), {});
  int64_t axis = n.axisAttr("axis", -1, n.rank(indices) + 1);
  return n.result(n.op<OneHotOp>(
      {indices, on, off},
      {n.attr("depth", int64_t(depth.front())), n.attr("axis", axis)}));
}

/// The result's extent depends on data, so the condition must be known.
static LogicalResult convertCompress(NodeImport &n) {
  Value x = n.in(0);
  SmallVector<int64_t> condition = n.constantIntValues(1, "condition"), picks;
  if (n.failed())
    return failure();
  int64_t axis = 0;
  if (n.hasAttr("axis"))
    axis = n.axisAttr("axis", 0, n.rank(x));
  else
    x = n.reshape(x, {elementCount(x)});
  for (auto [i, keep] : llvm::enumerate(condition))
    if (keep)
      picks.push_back(int64_t(i));
  if (!picks.empty() && picks.back() >= n.dim(x, axis))
    return n.error() << "condition selects position " << picks.back()
                     << " of an extent of " << n.dim(x, axis);
  return n.result(n.gather(x, n.ints(picks), axis));
}

OpFamily mpc::onnx::indexingOps() {
  static const OpEntry entries[] = {
      {"Compress 9,11 2 axis", convertCompress},
      {"Gather 1,11,13 2 axis", convertGatherLike<GatherOp>},
      {"GatherElements 11,13 2 axis", convertGatherLike<GatherElementsOp>},
      {"GatherND 11,12,13 2 batch_dims", convertGatherNd},
      {"OneHot 9,11 3 axis", convertOneHot},
      {"Scatter 9,11 3 axis", convertScatterElements},
      {"ScatterElements 11,13,16,18 3 axis reduction", convertScatterElements},
      {"ScatterND 11,13,16,18 3 reduction", convertScatterNd},
      {"TensorScatter 24 2-3 axis mode", convertTensorScatter},
  };
  return entries;
}
