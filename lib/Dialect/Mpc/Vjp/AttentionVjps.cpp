//===- AttentionVjps.cpp - derivatives of attention and dropout -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One op, whose kernel need not store the scores; decomposed only if the mask
// needs a gradient (a learned position bias).
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include "VjpBuilder.h"

#include <limits>

using namespace mlir;
using namespace mpc;

namespace {

/// Gradient of attention as matmuls and a softmax.
class DecomposedAttentionVjp {
public:
  DecomposedAttentionVjp(AttentionOp op, VjpBuilder &v)
      : op(op), v(v), narrow(v.elementOf(op.getQuery())),
        wide(v.wideType(narrow)), heads(entry(op.getQuery(), 3)),
        keyHeads(entry(op.getKey(), 3)) {}

  void write() {
    Value query = op.getQuery(), key = perQueryHead(op.getKey()),
          value = perQueryHead(op.getValue()), dy = v.cast(v.dy(), narrow);
    Value weights = probabilities(query, key);
    int64_t last = v.rankOf(weights) - 1;
    Value through = matmul(dy, false, value, true);
    Value inner = v.sum(v.mul(weights, through), {last});
    Value scores = v.mul(weights, v.sub(through, inner));
    v.give(3, scores);
    double scale = op.getScale().convertToDouble();
    Value scaled = v.cast(v.mul(scores, scale), narrow);
    if (v.needs(0))
      v.give(0, matmul(scaled, false, key, false));
    if (v.needs(1))
      v.give(1, perKeyHead(matmul(scaled, true, query, false), op.getKey()));
    if (v.needs(2))
      v.give(2, perKeyHead(matmul(v.cast(weights, narrow), true, dy, false),
                           op.getValue()));
  }

private:
  /// Extent of a dimension counted from the end.
  static int64_t entry(Value value, int64_t fromEnd) {
    ArrayRef<int64_t> shape = shapeOf(value);
    return shape[shape.size() - fromEnd];
  }

  Value matmul(Value lhs, bool transposeLhs, Value rhs, bool transposeRhs) {
    SmallVector<int64_t> shape(shapeOf(lhs).drop_back(2));
    shape.push_back(entry(lhs, transposeLhs ? 1 : 2));
    shape.push_back(entry(rhs, transposeRhs ? 2 : 1));
    return v.create<MatmulOp>(RankedTensorType::get(shape, wide), lhs, rhs,
                              transposeLhs, transposeRhs, TypeAttr(),
                              op.getCompute(), PackedAttr());
  }

  /// Repeats key or value heads for the query heads of their group.
  Value perQueryHead(Value value) {
    if (heads == keyHeads)
      return value;
    SmallVector<int64_t> shape(shapeOf(value)), split(shape);
    split.insert(split.end() - 2, 1);
    SmallVector<int64_t> repeated(split);
    repeated[repeated.size() - 3] = heads / keyHeads;
    shape[shape.size() - 3] = heads;
    return v.reshape(v.broadcastTo(v.reshape(value, split), repeated), shape);
  }
  /// Sums over the query heads that share one head of `like`.
  Value perKeyHead(Value value, Value like) {
    if (heads == keyHeads)
      return value;
    SmallVector<int64_t> split(shapeOf(value));
    split[split.size() - 3] = keyHeads;
    split.insert(split.end() - 2, heads / keyHeads);
    int64_t axis = split.size() - 3;
    return v.reshape(v.sum(v.reshape(value, split), {axis}), shapeOf(like));
  }

  /// softmax(scale * query * key^T + mask); 0 in fully masked rows.
  Value probabilities(Value query, Value key) {
    Value scores =
        v.mul(matmul(query, false, key, true), op.getScale().convertToDouble());
    scores = v.add(scores, v.cast(op.getMask(), wide));
    int64_t rank = v.rankOf(scores), last = rank - 1;
    constexpr double kNothing = -std::numeric_limits<double>::infinity();
    if (op.getCausal()) {
      int64_t rows = entry(query, 2), columns = entry(key, 2);
      Type number = IntegerType::get(v.builder.getContext(), 64);
      auto type = RankedTensorType::get({rows, columns}, number);
      Value row = v.create<IotaOp>(type, uint64_t(0)),
            column = v.create<IotaOp>(type, uint64_t(1));
      Value kept = v.compare(ComparePredicate::le, column,
                             v.add(row, double(columns - rows)));
      scores = v.select(kept, scores, v.scalar(kNothing, scores));
    }
    SmallVector<int64_t> line(shapeOf(scores));
    line[last] = 1;
    Value top = v.create<ReduceMaxOp>(RankedTensorType::get(line, wide), scores,
                                      v.builder.getDenseI64ArrayAttr({last}),
                                      v.builder.getUnitAttr(), TypeAttr());
    Value empty = v.compare(ComparePredicate::eq, top, kNothing);
    Value softmax = v.create<SoftmaxOp>(scores.getType(), scores, last);
    return v.select(empty, v.scalar(0.0, softmax), softmax);
  }

  AttentionOp op;
  VjpBuilder &v;
  Type narrow, wide;
  int64_t heads, keyHeads;
};

} // namespace

static void vjpOfAttention(AttentionOp op, VjpBuilder &v) {
  if (op.getMask() && v.needs(3))
    return DecomposedAttentionVjp(op, v).write();
  auto gradient = v.create<AttentionGradientOp>(
      TypeRange{op.getQuery().getType(), op.getKey().getType(),
                op.getValue().getType()},
      op.getQuery(), op.getKey(), op.getValue(),
      v.cast(v.dy(), v.elementOf(op.getQuery())), op.getMask(),
      op.getScaleAttr(), op.getCausalAttr(), op.getComputeAttr());
  v.give(0, gradient.getQueryGradient());
  v.give(1, gradient.getKeyGradient());
  v.give(2, gradient.getValueGradient());
}

void mpc::attachAttentionVjps(MLIRContext *context) {
  attachVjp<AttentionOp>(
      context, [](AttentionOp op, VjpBuilder &v) { vjpOfAttention(op, v); });
  // The counter-based generator reproduces the dropout mask.
  attachVjp<DropoutOp>(context, [](DropoutOp op, VjpBuilder &v) {
    v.give(0,
           v.create<DropoutOp>(op.getInput().getType(), v.dy(), op.getState(),
                               op.getProbabilityAttr(), op.getStreamAttr()));
  });
}
