//===- Sort.cpp - sort and top_k ops --------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include "Importer.h"
#include "RegionAnalysis.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::hlo;

/// Returns the k largest or smallest elements along an axis and their
/// positions.
static Operation *topK(OpImport &op, Value value, int64_t k, int64_t axis,
                       bool largest) {
  return op.inferred(TopKOp::getOperationName(), value,
                     {op.attr("k", k), op.attr("axis", axis),
                      op.attr("largest", op.builder.getBoolAttr(largest))});
}

static LogicalResult convertSort(OpImport &op) {
  auto sort = cast<stablehlo::SortOp>(op.op);
  std::optional<SortOrder> order =
      sortOrder(sort.getComparator(), op.importer.source);
  if (!order) {
    op.error() << "has a comparator that does not compare the elements of one "
                  "operand, which is not supported";
    return failure();
  }
  Value key = op.in(order->key);
  int64_t axis = int64_t(sort.getDimension());
  if (axis < 0)
    axis += OpImport::rank(key);
  if (!key)
    return failure();
  Operation *sorted =
      topK(op, key, OpImport::shape(key)[axis], axis, order->descending);
  if (!sorted)
    return failure();
  for (unsigned i = 0; i < sort.getInputs().size(); ++i) {
    if (i == order->key) {
      op.set(i, sorted->getResult(0));
      continue;
    }
    op.set(i, op.make<GatherElementsOp>({op.in(i), sorted->getResult(1)},
                                        op.attr("axis", axis)));
  }
  return op.status();
}

static LogicalResult convertTopK(OpImport &op) {
  auto top = cast<chlo::TopKOp>(op.op);
  Value value = op.in(0);
  Operation *made =
      topK(op, value, int64_t(top.getK()), OpImport::rank(value) - 1, true);
  if (!made)
    return failure();
  op.set(0, made->getResult(0));
  op.set(1, op.cast(made->getResult(1), OpImport::element(top.getIndices())));
  return op.status();
}

OpFamily hlo::sortOps() {
  static const OpEntry entries[] = {{"chlo.top_k", convertTopK},
                                    {"stablehlo.sort", convertSort}};
  return entries;
}
