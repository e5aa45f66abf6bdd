//===- Softmax.cpp - softmax operators ------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Until opset 12 the input is flattened to a matrix at `axis`; from 13 on the
// function applies to `axis` only.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include "NodeImport.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Applies `along(value, axis)` with the semantics of the node's version.
template <typename Function>
static LogicalResult softmaxAlongAxis(NodeImport &n, Function along) {
  Value x = n.in(0);
  if (n.failed())
    return failure();
  if (n.version >= 13)
    return n.result(along(x, n.axisAttr("axis", -1, n.rank(x))));
  int64_t axis = n.axisAttr("axis", 1, n.rank(x));
  if (axis == n.rank(x) - 1)
    return n.result(along(x, axis));
  int64_t rows = 1, columns = 1;
  for (auto [d, extent] : llvm::enumerate(n.shape(x)))
    (int64_t(d) < axis ? rows : columns) *= extent;
  return n.result(
      n.reshape(along(n.reshape(x, {rows, columns}), 1), n.shape(x)));
}

/// 16-bit floats are computed in f32, as in every runtime: only the result is
/// rounded.
template <typename OpTy> static LogicalResult convertSoftmax(NodeImport &n) {
  return softmaxAlongAxis(n, [&](Value x, int64_t axis) {
    Type type = n.element(x);
    Value wide = n.cast(x, n.wideType(type));
    return n.narrow(n.op<OpTy>(wide, n.attr("axis", axis)), type);
  });
}

static LogicalResult convertHardmax(NodeImport &n) {
  return softmaxAlongAxis(n, [&](Value x, int64_t axis) {
    Value position = n.op<ArgmaxOp>(x, n.attr("axis", axis));
    Type type = n.element(x);
    return n.op<OneHotOp>(
        {position, n.scalar(1, type), n.scalar(0, type)},
        {n.attr("depth", n.dim(x, axis)), n.attr("axis", axis)});
  });
}

OpFamily mpc::onnx::softmaxOps() {
  static const OpEntry entries[] = {
      {"Hardmax 1,11,13 1 axis", convertHardmax},
      {"LogSoftmax 1,11,13 1 axis", convertSoftmax<LogSoftmaxOp>},
      {"Softmax 1,11,13 1 axis", convertSoftmax<SoftmaxOp>},
  };
  return entries;
}
