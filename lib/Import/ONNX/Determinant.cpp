//===- Determinant.cpp - determinants -------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "NodeImport.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Limit of the matrix size: every row unrolls to some ten ops.
static constexpr int64_t kMaxRows = 64;

/// Product of the pivots of Gaussian elimination with partial pivoting (Golub
/// and Van Loan, Matrix Computations, 3.4). Each step eliminates the first
/// column and the pivot's row.
static LogicalResult convertDet(NodeImport &n) {
  Value x = n.in(0);
  if (n.failed())
    return failure();
  int64_t rank = n.rank(x), rows = n.dim(x, rank - 1);
  if (rank < 2 || n.dim(x, rank - 2) != rows || !n.isFloat(x))
    return n.error() << "input " << x.getType()
                     << " holds no square matrices of floats";
  if (rows > kMaxRows)
    return n.error() << "matrices of " << rows << " rows are not supported, at "
                     << "most " << kMaxRows;
  Type type = n.element(x), wide = n.wideType(type);
  SmallVector<int64_t> outer(n.shape(x).drop_back(2));
  int64_t batch = 1;
  for (int64_t extent : outer)
    batch *= extent;
  Value matrix = n.reshape(n.cast(x, wide), {batch, rows, rows});
  Value zero = n.scalar(0, wide);
  Value product;
  auto multiply = [&](Value factor) {
    product = product ? n.op<MulOp>({product, factor}) : factor;
  };
  for (int64_t left = rows; left > 1 && !n.failed(); --left) {
    Value column = n.sliceAxis(matrix, 2, 0, 1);
    Value place = n.op<ArgmaxOp>(
        n.op<AbsOp>(column), {n.attr("axis", int64_t(1)), n.unit("keep_dims")});
    Value row =
        n.op<GatherElementsOp>({matrix, n.broadcast(place, {batch, 1, left})},
                               n.attr("axis", int64_t(1)));
    Value pivot = n.sliceAxis(row, 2, 0, 1);
    Value isFirst = n.compare(ComparePredicate::eq, place, n.ints({0}, {}));
    multiply(n.select(isFirst, pivot, n.op<NegOp>(pivot)));
    // Move the first row to the pivot's position.
    Value isPivot =
        n.compare(ComparePredicate::eq,
                  n.iota(left, 1, 3, n.builder.getI64Type()), place);
    matrix = n.select(isPivot, n.sliceAxis(matrix, 1, 0, 1), matrix);
    matrix = n.sliceAxis(matrix, 1, 1, left - 1);
    // A column of zeros has a zero pivot, which makes the product 0.
    Value factors =
        n.op<DivOp>({n.sliceAxis(matrix, 2, 0, 1),
                     n.select(n.compare(ComparePredicate::eq, pivot, zero),
                              n.scalar(1, wide), pivot)});
    matrix =
        n.op<SubOp>({n.sliceAxis(matrix, 2, 1, left - 1),
                     n.op<MulOp>({factors, n.sliceAxis(row, 2, 1, left - 1)})});
  }
  if (rows > 0)
    multiply(matrix);
  else
    product = n.splat({batch}, 1, wide);
  return n.result(n.cast(n.reshape(product, outer), type));
}

OpFamily mpc::onnx::detOps() {
  static const OpEntry entries[] = {
      {"Det 11,22 1", convertDet},
  };
  return entries;
}
