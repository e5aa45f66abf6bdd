//===- Matmul.cpp - matrix multiplication operators -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 16-bit matmuls accumulate in f32 and are cast afterwards; integer matmuls
// wrap around.
//
//===----------------------------------------------------------------------===//

#include "Matmul.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

Value mpc::onnx::matmulAnyRank(NodeImport &n, Value lhs, Value rhs) {
  bool lhsVector = n.rank(lhs) == 1, rhsVector = n.rank(rhs) == 1;
  if (!n.failed() && (n.rank(lhs) == 0 || n.rank(rhs) == 0)) {
    n.error() << "an operand is a scalar";
    return nullptr;
  }
  if (lhsVector)
    lhs = n.reshape(lhs, {1, n.dim(lhs, 0)});
  if (rhsVector)
    rhs = n.reshape(rhs, {n.dim(rhs, 0), 1});
  Value product = n.matmulWide(lhs, rhs);
  SmallVector<int64_t> shape(n.shape(product));
  if (rhsVector && !shape.empty())
    shape.pop_back();
  if (lhsVector && !shape.empty())
    shape.erase(shape.end() - (rhsVector ? 1 : 2));
  return n.reshape(product, shape);
}

static LogicalResult convertMatMul(NodeImport &n) {
  Value lhs = n.in(0), rhs = n.in(1);
  Type type = n.element(lhs);
  if (n.failed())
    return failure();
  return n.result(n.narrow(matmulAnyRank(n, lhs, rhs), type));
}

static LogicalResult convertGemm(NodeImport &n) {
  Value a = n.in(0), b = n.in(1);
  double alpha = n.floatAttr("alpha", 1.0), beta = n.floatAttr("beta", 1.0);
  bool transA = n.intAttr("transA", 0) != 0,
       transB = n.intAttr("transB", 0) != 0;
  if (n.failed())
    return failure();
  if (n.rank(a) != 2 || n.rank(b) != 2)
    return n.error() << "operands are " << a.getType() << " and " << b.getType()
                     << ", expected matrices";
  if (!n.isFloat(a) && (alpha != std::trunc(alpha) || beta != std::trunc(beta)))
    return n.error() << "alpha is " << alpha << " and beta " << beta
                     << " for operands of " << n.element(a)
                     << "; factors of integers must be whole numbers";
  Type type = n.element(a);
  Value y = n.matmulWide(a, b, transA, transB);
  Type wide = n.element(y);
  if (alpha != 1.0)
    y = n.op<MulOp>({y, n.scalar(alpha, wide)});
  if (n.has(2) && beta != 0.0) {
    Value c = n.cast(n.in(2), wide);
    if (beta != 1.0)
      c = n.op<MulOp>({c, n.scalar(beta, wide)});
    Value sum = n.op<AddOp>({y, c});
    if (!n.failed() && n.shape(sum) != n.shape(y))
      return n.error() << "input C " << c.getType() << " does not broadcast to "
                       << y.getType();
    y = sum;
  }
  return n.result(n.narrow(y, type));
}

OpFamily mpc::onnx::matmulOps() {
  static const OpEntry entries[] = {
      {"Gemm 7,9,11,13 2-3 alpha beta transA transB", convertGemm},
      {"MatMul 1,9,13 2", convertMatMul},
  };
  return entries;
}
