//===- AttentionLoops.cpp - fallback attention, one query row per item ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Online-softmax attention for types and shapes without a faster kernel: a loop
// over the keys with a running maximum, and the result row in private memory.
//
//===----------------------------------------------------------------------===//

#include "AttentionLoops.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"

#include "AttentionMath.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;

namespace {
class AttentionPhase : public Phase {
public:
  AttentionPhase(LoopContext &context, AttentionOp op, Value memref)
      : context(context), emitter(context.emitter),
        math(context.builder, context.loc, context.target),
        formula(math, op.getScale().convertToDouble()),
        index{context.builder, context.loc}, op(op), memref(memref),
        shape(shapeOf(op.getResult())), queryShape(shapeOf(op.getQuery())),
        keyShape(shapeOf(op.getKey())),
        accumulator(cast<ContractionOpInterface>(*op).getAccumulateType()),
        type(carriedType(accumulator)) {}

  PhaseCost cost() override {
    return {productOf(shape.drop_back()),
            4.0 * static_cast<double>(keys()) *
                static_cast<double>(queryShape.back() + shape.back())};
  }

  LogicalResult emit(Value item) override;

private:
  int64_t keys() const { return keyShape[keyShape.size() - 2]; }
  /// Number of keys that are visible to the row.
  Value keyCount(Value row);
  FailureOr<Value> score(ArrayRef<Value> row, ArrayRef<Value> head, Value key);
  FailureOr<Value> masked(Value score, ArrayRef<Value> row, Value key);
  FailureOr<Value> element(Value tensor, ArrayRef<Value> indices) {
    FailureOr<Value> value = emitter.emit(tensor, indices, 1);
    if (failed(value))
      return failure();
    return toAccumulator(math, *value, accumulator);
  }
  Value lowest() {
    return math.constant(type, -std::numeric_limits<double>::infinity());
  }

  LoopContext &context;
  ElementEmitter &emitter;
  MathExpansion math;
  AttentionMath formula;
  IndexMath index;
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

FailureOr<Value> AttentionPhase::score(ArrayRef<Value> row,
                                       ArrayRef<Value> head, Value key) {
  FailureOr<Carried> sum =
      carryLoop(emitter, emitter.index(0), emitter.index(queryShape.back()), 1,
                math.constant(type, 0.0),
                [&](Value d, ValueRange sums) -> FailureOr<Carried> {
                  SmallVector<Value> query(row), other(head);
                  query.push_back(d);
                  other.append({key, d});
                  FailureOr<Value> x = element(op.getQuery(), query),
                                   y = element(op.getKey(), other);
                  if (failed(x) || failed(y))
                    return failure();
                  return Carried{math.fma(*x, *y, sums[0])};
                });
  if (failed(sum))
    return failure();
  return masked(formula.scaled(sum->front()), row, key);
}

FailureOr<Value> AttentionPhase::masked(Value score, ArrayRef<Value> row,
                                        Value key) {
  Value mask = op.getMask();
  if (!mask)
    return score;
  SmallVector<Value> at(row);
  at.push_back(key);
  FailureOr<Value> value =
      emitter.emitBroadcast(mask, at, 1, LaneRange{0, keys()});
  if (failed(value))
    return failure();
  return formula.masked(score, *value);
}

LogicalResult AttentionPhase::emit(Value item) {
  OpBuilder &b = context.builder;
  SmallVector<Value> row = index.delinearize(item, shape.drop_back());
  // The head of keys and values of this query head.
  SmallVector<Value> head(ArrayRef<Value>(row).drop_back());
  int64_t heads = shape[shape.size() - 3],
          groups = keyShape[keyShape.size() - 3];
  head.back() = index.div(head.back(), heads / std::max<int64_t>(groups, 1));
  Value sums = memref::AllocaOp::create(b, context.loc,
                                        MemRefType::get({shape.back()}, type));
  index.loop(shape.back(), [&](Value e) {
    memref::StoreOp::create(b, context.loc, math.constant(type, 0.0), sums, e);
  });
  FailureOr<Carried> state = carryLoop(
      emitter, emitter.index(0), keyCount(row.back()), 1,
      ValueRange{lowest(), math.constant(type, 0.0)},
      [&](Value key, ValueRange carried) -> FailureOr<Carried> {
        FailureOr<Value> x = score(row, head, key);
        if (failed(x))
          return failure();
        Value largest = formula.larger(carried[0], *x),
              shift = formula.shift(largest),
              scale = formula.power(carried[0], shift),
              weight = formula.power(*x, shift);
        LogicalResult result = success();
        index.loop(shape.back(), [&](Value e) {
          SmallVector<Value> at(head);
          at.append({key, e});
          FailureOr<Value> value = element(op.getValue(), at);
          if (failed(value)) {
            result = failure();
            return;
          }
          Value old = memref::LoadOp::create(b, context.loc, sums, e);
          memref::StoreOp::create(
              b, context.loc, math.fma(weight, *value, math.mul(old, scale)),
              sums, e);
        });
        if (failed(result))
          return failure();
        return Carried{largest, math.add(math.mul(carried[1], scale), weight)};
      });
  if (failed(state))
    return failure();
  Value inverse = formula.inverse((*state)[1], (*state)[0]);
  index.loop(shape.back(), [&](Value e) {
    Value sum = memref::LoadOp::create(b, context.loc, sums, e);
    Value value = math.mul(sum, inverse);
    SmallVector<Value> at(row);
    at.push_back(e);
    emitter.store(emitter.round(value, getElementTypeOrSelf(op.getResult())),
                  memref, at, 1);
  });
  return success();
}

std::unique_ptr<Phase> mpc::makeAttentionPhase(LoopContext &context,
                                               AttentionOp op, Value memref) {
  return std::make_unique<AttentionPhase>(context, op, memref);
}
