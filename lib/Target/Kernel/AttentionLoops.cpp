//===- AttentionLoops.cpp - fallback attention, one query row per item ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Online-softmax attention for types and shapes without a faster kernel: a loop
// over the keys with a running maximum, and the result row in private memory.
//
//===----------------------------------------------------------------------===//

#include "AttentionMath.h"
#include "LoopKernels.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"

using namespace mlir;
using namespace mpc;

namespace {
class AttentionPhase : public Phase {
public:
  AttentionPhase(LoopContext &context, AttentionOp op, Value memref)
      : Phase(context), formula(math, op.getScale().convertToDouble()), op(op),
        memref(memref), shape(shapeOf(op.getResult())),
        queryShape(shapeOf(op.getQuery())), keyShape(shapeOf(op.getKey())),
        accumulator(cast<ContractionOpInterface>(*op).getAccumulateType()),
        type(carriedType(accumulator)) {}

  PhaseCost cost() override {
    return {productOf(shape.drop_back()),
            4.0 * static_cast<double>(keys()) *
                static_cast<double>(queryShape.back() + shape.back())};
  }

  void emit(Value item) override;

private:
  int64_t keys() const { return keyShape[keyShape.size() - 2]; }
  /// Number of keys that are visible to the row.
  Value keyCount(Value row);
  Value score(ArrayRef<Value> row, ArrayRef<Value> head, Value key);
  Value element(Value tensor, ArrayRef<Value> indices) {
    return toAccumulator(math, emitter.value(tensor, indices, 1), accumulator);
  }

  AttentionMath formula;
  AttentionOp op;
  Value memref;
  ArrayRef<int64_t> shape, queryShape, keyShape;
  Type accumulator, type;
};
} // namespace

Value AttentionPhase::keyCount(Value row) {
  if (!op.getCausal())
    return emitter.index(keys());
  int64_t queries = queryShape[queryShape.size() - 2];
  Value count = index.subOrZero(index.add(row, keys() + 1), queries);
  return index.min(count, keys());
}

Value AttentionPhase::score(ArrayRef<Value> row, ArrayRef<Value> head,
                            Value key) {
  Value sum = emitter.indexMath().carry(
      emitter.index(0), emitter.index(queryShape.back()), 1,
      math.constant(type, 0.0), [&](Value d, ValueRange sums) {
        SmallVector<Value> query(row), other(head);
        query.push_back(d);
        other.append({key, d});
        Value x = element(op.getQuery(), query),
              y = element(op.getKey(), other);
        return Carried{math.fma(x, y, sums[0])};
      })[0];
  sum = formula.scaled(sum);
  Value mask = op.getMask();
  if (!mask)
    return sum;
  SmallVector<Value> at(row);
  at.push_back(key);
  return formula.masked(sum,
                        emitter.operandValue(mask, {at, 1, {}, {0, keys()}}));
}

void AttentionPhase::emit(Value item) {
  SmallVector<Value> row = index.delinearize(item, shape.drop_back());
  // The head of keys and values of this query head.
  SmallVector<Value> head(ArrayRef<Value>(row).drop_back());
  int64_t heads = shape[shape.size() - 3],
          groups = keyShape[keyShape.size() - 3];
  head.back() = index.div(head.back(), heads / std::max<int64_t>(groups, 1));
  Value sums = memref::AllocaOp::create(builder, loc,
                                        MemRefType::get({shape.back()}, type));
  index.loop(shape.back(),
             [&](Value e) { index.store(math.constant(type, 0.0), sums, e); });
  Carried state = emitter.indexMath().carry(
      emitter.index(0), keyCount(row.back()), 1,
      {math.constant(type, -kInfinity), math.constant(type, 0.0)},
      [&](Value key, ValueRange carried) {
        Value x = score(row, head, key);
        Value largest = formula.larger(carried[0], x),
              shift = formula.shift(largest),
              scale = formula.power(carried[0], shift),
              weight = formula.power(x, shift);
        index.loop(shape.back(), [&](Value e) {
          SmallVector<Value> at(head);
          at.append({key, e});
          Value value = element(op.getValue(), at), old = index.load(sums, e);
          index.store(math.fma(weight, value, math.mul(old, scale)), sums, e);
        });
        return Carried{largest, math.add(math.mul(carried[1], scale), weight)};
      });
  Value inverse = formula.inverse(state[1], state[0]);
  index.loop(shape.back(), [&](Value e) {
    Value value = math.mul(index.load(sums, e), inverse);
    SmallVector<Value> at(row);
    at.push_back(e);
    emitter.store(emitter.round(value, getElementTypeOrSelf(op.getResult())),
                  memref, at, 1);
  });
}

std::unique_ptr<Phase> mpc::makeAttentionPhase(LoopContext &context,
                                               AttentionOp op, Value memref) {
  return std::make_unique<AttentionPhase>(context, op, memref);
}
