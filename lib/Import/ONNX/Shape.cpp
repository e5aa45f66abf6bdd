//===- Shape.cpp - shape operators ----------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include "Importer.h"
#include "NodeImport.h"

#include "TensorReader.h"
#include <utility>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

static LogicalResult convertShape(NodeImport &n) {
  Value x = n.in(0);
  int64_t rank = n.rank(x);
  auto clamp = [&](int64_t position) {
    if (position < 0)
      position += rank;
    return std::clamp<int64_t>(position, 0, rank);
  };
  int64_t start = clamp(n.intAttr("start", 0)),
          end = clamp(n.intAttr("end", rank));
  if (n.failed())
    return failure();
  return n.result(
      n.ints(n.shape(x).slice(start, std::max<int64_t>(end - start, 0))));
}

static LogicalResult convertSize(NodeImport &n) {
  Value x = n.in(0);
  return n.failed() ? failure() : n.result(n.ints({elementCount(x)}, {}));
}

/// After a change of the batch size, replaces the old batch in `shape` (alone,
/// or merged with other dimensions) so that it has `count` elements: the first
/// dimension if possible, else one that equals the old batch, else the first
/// multiple that fits.
static void rebindBatch(NodeImport &n, SmallVectorImpl<int64_t> &shape,
                        int64_t count) {
  int64_t from = n.importer.oldBatch, to = n.importer.newBatch;
  std::optional<int64_t> wanted = checkedCount(shape);
  if (from == to || from < 1 || shape.empty() || !wanted || *wanted == count)
    return;
  auto rebind = [&](int64_t &extent) {
    if (extent < 1 || extent % from != 0)
      return false;
    int64_t old = std::exchange(extent, extent / from * to);
    if (checkedCount(shape) == count)
      return true;
    extent = old;
    return false;
  };
  if (rebind(shape.front()) || from == 1)
    return;
  for (bool alone : {true, false})
    for (int64_t &extent : shape)
      if ((extent == from || !alone) && rebind(extent))
        return;
}

static LogicalResult convertReshape(NodeImport &n) {
  Value x = n.in(0);
  SmallVector<int64_t> shape = n.constantIntValues(1, "shape");
  bool allowZero = n.flag("allowzero");
  if (n.failed())
    return failure();
  int64_t inferred = -1, known = 1;
  for (auto [d, extent] : llvm::enumerate(shape)) {
    if (extent == 0 && !allowZero) {
      if (int64_t(d) >= n.rank(x))
        return n.error() << "shape copies dimension " << d
                         << ", but the input is " << x.getType();
      extent = n.dim(x, int64_t(d));
    }
    if (extent == -1) {
      if (inferred >= 0)
        return n.error() << "shape has two entries of -1";
      inferred = int64_t(d);
      continue;
    }
    if (extent < 0)
      return n.error() << "shape has the entry " << extent;
    if (__builtin_mul_overflow(known, extent, &known))
      return n.error() << "shape has too many elements to count";
  }
  int64_t count = elementCount(x);
  if (inferred >= 0) {
    // With an inferred dimension, a leading old batch becomes the new one; but
    // constants of the model have no batch, unless their elements do not divide
    // otherwise.
    int64_t from = n.importer.oldBatch, to = n.importer.newBatch;
    int64_t front = shape.front();
    if (from != to && inferred != 0 && front > 0 && front % from == 0) {
      int64_t changed = known / front * (front / from * to);
      bool isBatch = front == from || from > 1;
      bool isData = x.getDefiningOp<ConstantOp>() != nullptr;
      if (known % front == 0 && changed > 0 &&
          ((isBatch && !isData && count % changed == 0) ||
           count % known != 0)) {
        shape.front() = front / from * to;
        known = changed;
      }
    }
    if (known == 0 || count % known != 0)
      return n.error() << "input " << x.getType()
                       << " does not fit a shape whose other extents "
                       << "make " << known << " elements";
    shape[inferred] = count / known;
  } else {
    rebindBatch(n, shape, count);
  }
  return n.result(n.reshape(x, shape));
}

static LogicalResult convertFlatten(NodeImport &n) {
  Value x = n.in(0);
  int64_t rank = n.rank(x), axis = n.intAttr("axis", 1);
  if (n.failed())
    return failure();
  // `axis` may equal the rank: one column.
  if (axis != rank)
    axis = n.axis(axis, rank);
  int64_t rows = 1, columns = 1;
  for (auto [d, extent] : llvm::enumerate(n.shape(x)))
    (int64_t(d) < axis ? rows : columns) *= extent;
  return n.result(n.reshape(x, {rows, columns}));
}

static LogicalResult convertSqueeze(NodeImport &n) {
  Value x = n.in(0);
  std::optional<SmallVector<int64_t>> given = n.attrOrInput("axes", 1);
  if (n.failed())
    return failure();
  SmallVector<int64_t> axes, shape;
  if (given)
    axes = n.axes(*given, n.rank(x));
  for (auto [d, extent] : llvm::enumerate(n.shape(x))) {
    bool chosen = given ? llvm::is_contained(axes, int64_t(d)) : extent == 1;
    if (!chosen)
      shape.push_back(extent);
    else if (extent != 1)
      return n.error() << "dimension " << d << " of " << x.getType()
                       << " is not 1";
  }
  return n.result(n.reshape(x, shape));
}

static LogicalResult convertUnsqueeze(NodeImport &n) {
  Value x = n.in(0);
  std::optional<SmallVector<int64_t>> given = n.attrOrInput("axes", 1);
  if (n.failed())
    return failure();
  if (!given)
    return n.error() << "axes are missing";
  int64_t rank = n.rank(x) + int64_t(given->size());
  SmallVector<int64_t> axes = n.axes(*given, rank), shape;
  if (n.failed())
    return failure();
  ArrayRef<int64_t> rest = n.shape(x);
  for (int64_t d = 0; d < rank; ++d) {
    bool added = llvm::is_contained(axes, d);
    shape.push_back(added ? 1 : rest.front());
    if (!added)
      rest = rest.drop_front();
  }
  return n.result(n.reshape(x, shape));
}

static LogicalResult convertExpand(NodeImport &n) {
  Value x = n.in(0);
  SmallVector<int64_t> shape = n.constantIntValues(1, "shape");
  if (n.failed())
    return failure();
  for (int64_t extent : shape)
    if (extent < 0)
      return n.error() << "shape has the entry " << extent;
  int64_t from = n.importer.oldBatch, to = n.importer.newBatch;
  if (from != to && !shape.empty() && shape.front() == from && from > 1 &&
      n.dim(x, int64_t(n.rank(x)) - int64_t(shape.size())) != from)
    shape.front() = to;
  return n.result(n.broadcast(x, n.broadcastShape({n.shape(x), shape})));
}

OpFamily mpc::onnx::shapeOps() {
  static const OpEntry entries[] = {
      {"Expand 8,13 2", convertExpand},
      {"Flatten 1,9,11,13,21,23,24,25 1 axis", convertFlatten},
      {"Reshape 5,13,14,19,21,23,24,25 2 allowzero", convertReshape},
      {"Shape 1,13,15,19,21,23,24,25 1 start end", convertShape},
      {"Size 1,13,19,21,23,24,25 1", convertSize},
      {"Squeeze 1,11,13,21,23,24,25 1-2 axes", convertSqueeze},
      {"Unsqueeze 1,11,13,21,23,24,25 1-2 axes", convertUnsqueeze},
  };
  return entries;
}
