//===- Loss.cpp - loss operators ------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "NodeImport.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Negative log-likelihood of `scores` [N, C, ...] at `target` [N, ...]: minus
/// the score of the target class, weighted, 0 for ignored targets, then
/// reduced.
static Value negativeLogLikelihood(NodeImport &n, Value scores, Value target) {
  if (n.failed())
    return nullptr;
  SmallVector<int64_t> shape(n.shape(scores));
  bool fits = n.rank(scores) >= 2 && n.rank(target) == n.rank(scores) - 1;
  if (fits) {
    shape.erase(shape.begin() + 1);
    fits = n.shape(target) == ArrayRef<int64_t>(shape);
  }
  if (!fits) {
    n.error() << "target " << target.getType() << " does not fit scores "
              << scores.getType();
    return nullptr;
  }
  std::string reduction = n.stringAttr("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    n.error() << "attribute 'reduction' is '" << reduction
              << "', expected mean, sum or none";
    return nullptr;
  }
  Type type = n.element(scores);
  int64_t classes = n.dim(scores, 1);
  Value kept;
  if (n.hasAttr("ignore_index")) {
    Value ignored =
        n.cast(n.ints({n.intAttr("ignore_index", 0)}, {}), n.element(target));
    kept = n.compare(ComparePredicate::ne, target, ignored);
    target = n.select(kept, target, n.scalar(0, n.element(target)));
  }
  SmallVector<int64_t> expanded(n.shape(scores));
  expanded[1] = 1;
  Value picked = n.op<GatherElementsOp>({scores, n.reshape(target, expanded)},
                                        n.attr("axis", int64_t(1)));
  Value loss = n.op<NegOp>(n.reshape(picked, shape));
  Value weight;
  if (n.has(2)) {
    Value given = n.in(2);
    if (!n.failed() && (n.rank(given) != 1 || n.dim(given, 0) != classes)) {
      n.error() << "weight " << given.getType() << " does not have " << classes
                << " elements";
      return nullptr;
    }
    weight = n.gather(given, target, 0);
  }
  if (kept) {
    Value zero = n.scalar(0, type);
    weight = n.select(kept, weight ? weight : n.scalar(1, type), zero);
    // A select, not a multiplication: an ignored score may be infinite.
    loss = n.select(kept, loss, zero);
  }
  if (weight)
    loss = n.op<MulOp>({loss, weight});
  if (reduction == "none" || n.failed())
    return loss;
  SmallVector<int64_t> all;
  for (int64_t d = 0; d < n.rank(loss); ++d)
    all.push_back(d);
  if (reduction == "mean" && !weight)
    return n.reduce<ReduceMeanOp>(loss, all, /*keepDims=*/false);
  Value sum = n.reduce<ReduceSumOp>(loss, all, /*keepDims=*/false);
  if (reduction == "sum")
    return sum;
  return n.op<DivOp>(
      {sum, n.reduce<ReduceSumOp>(weight, all, /*keepDims=*/false)});
}

static LogicalResult convertNegativeLogLikelihoodLoss(NodeImport &n) {
  return n.result(negativeLogLikelihood(n, n.in(0), n.in(1)));
}

static LogicalResult convertSoftmaxCrossEntropyLoss(NodeImport &n) {
  Value scores = n.in(0), target = n.in(1);
  Value logs = n.op<LogSoftmaxOp>(scores, n.attr("axis", int64_t(1)));
  n.set(0, negativeLogLikelihood(n, logs, target));
  n.set(1, logs);
  return n.status();
}

OpFamily mpc::onnx::lossOps() {
  static const OpEntry entries[] = {
      {"NegativeLogLikelihoodLoss 12,13,22 2-3 ignore_index reduction",
       convertNegativeLogLikelihoodLoss},
      {"SoftmaxCrossEntropyLoss 12,13 2-3 ignore_index reduction",
       convertSoftmaxCrossEntropyLoss},
  };
  return entries;
}
