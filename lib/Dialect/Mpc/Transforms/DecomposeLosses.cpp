//===- DecomposeLosses.cpp - decompose losses and dropout ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decomposes losses, dropout and the gradient of attention into elementwise
// ops, reductions and matmuls.
//
//===----------------------------------------------------------------------===//

#include "Decompose.h"
#include "ScalarEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLossOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

namespace {

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

/// One-hot mask `[..., classes]`: true at each row's target class.
Value isClass(ScalarEmitter &emit, Value targets, int64_t classes) {
  SmallVector<int64_t> shape(shapeOf(targets));
  shape.push_back(1);
  Value columns = emit.create<IotaOp>(
      RankedTensorType::get({classes}, getElementTypeOrSelf(targets)), 0);
  return emit.compare(ComparePredicate::eq, emit.reshape(targets, shape),
                      columns);
}

Value lossOf(ScalarEmitter &emit, SoftmaxCrossEntropyOp op) {
  Value predictions = op.getPredictions(), targets = op.getTargets();
  int64_t axis = shapeOf(predictions).size() - 1;
  int64_t classes = shapeOf(predictions).back();
  double smoothing = op.getLabelSmoothing().convertToDouble();
  double share = smoothing / static_cast<double>(classes);
  Value logs = emit.create<LogSoftmaxOp>(predictions.getType(), predictions,
                                         emit.builder.getI64IntegerAttr(axis));
  if (isa<FloatType>(getElementTypeOrSelf(targets))) {
    if (smoothing != 0)
      targets = emit.add(emit.scale(targets, 1 - smoothing),
                         emit.number(share, targets));
    Value rows = emit.reduce<ReduceSumOp>(emit.mul(targets, logs), axis);
    return emit.neg(emit.reduce<ReduceMeanOp>(rows, allAxes(rows)));
  }

  Value picked =
      emit.select(isClass(emit, targets, classes), logs, emit.number(0, logs));
  Value counted, count = emit.number(elementCount(targets), logs);
  if (op.getIgnoreIndex()) {
    counted = emit.compare(ComparePredicate::ne, targets,
                           emit.integer(*op.getIgnoreIndex(), targets));
    count = emit.reduce<ReduceSumOp>(
        emit.cast(counted, getElementTypeOrSelf(logs)), allAxes(targets));
  }
  auto meanOf = [&](Value terms) {
    return emit.neg(
        emit.div(emit.reduce<ReduceSumOp>(terms, allAxes(terms)), count));
  };
  // Only one term of a row is nonzero, so the sum over all elements equals the
  // sum over rows and fuses into the row kernel.
  if (smoothing == 0) {
    if (counted) {
      SmallVector<int64_t> shape(shapeOf(counted));
      shape.push_back(1);
      picked = emit.select(emit.reshape(counted, shape), picked,
                           emit.number(0, picked));
    }
    return meanOf(picked);
  }
  Value rows = emit.add(
      emit.scale(emit.reduce<ReduceSumOp>(picked, axis), 1 - smoothing),
      emit.scale(emit.reduce<ReduceSumOp>(logs, axis), share));
  if (counted)
    rows = emit.select(counted, rows, emit.number(0, rows));
  return meanOf(rows);
}

/// Per-element terms of a regression loss, before the mean.
Value termsOf(ScalarEmitter &emit, Operation *op) {
  Value x = op->getOperand(0), z = op->getOperand(1);
  if (isa<SigmoidCrossEntropyOp>(op)) {
    Value linear = emit.sub(emit.unary<ReluOp>(x), emit.mul(x, z));
    Value decay = emit.unary<ExpOp>(emit.neg(emit.abs(x)));
    return emit.add(linear, emit.unary<Log1pOp>(decay));
  }
  Value difference = emit.sub(x, z);
  if (isa<MeanSquaredErrorOp>(op))
    return emit.mul(difference, difference);
  Value distance = emit.abs(difference);
  auto huber = dyn_cast<HuberOp>(op);
  if (!huber)
    return distance;
  double delta = huber.getDelta().convertToDouble();
  Value limit = emit.number(delta, distance);
  Value linear =
      emit.mul(limit, emit.sub(distance, emit.number(delta / 2, distance)));
  Value square = emit.scale(emit.mul(difference, difference), 0.5);
  return emit.select(emit.compare(ComparePredicate::le, distance, limit),
                     square, linear);
}

//===----------------------------------------------------------------------===//
// Training-mode ops
//===----------------------------------------------------------------------===//

Value decompose(ScalarEmitter &emit, DropoutOp op) {
  Type element = getElementTypeOrSelf(op.getInput()), wide = sumType(element);
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  double probability = op.getProbability().convertToDouble();
  auto limit = static_cast<int64_t>(std::min(
      std::nearbyint(std::ldexp(probability, 32)), std::ldexp(1.0, 32) - 1));
  Type word = emit.builder.getI32Type();
  Value bits = emit.create<RandomBitsOp>(RankedTensorType::get(shape, word),
                                         op.getState(), op.getStreamAttr());
  // Unsigned comparison as signed comparison with the sign bit flipped.
  constexpr int64_t lowest = std::numeric_limits<int32_t>::min();
  Value ordered = emit.binary<XorOp>(bits, emit.integer(lowest, bits));
  Value kept = emit.compare(ComparePredicate::ge, ordered,
                            emit.integer(limit + lowest, bits));
  Value scaled =
      emit.scale(emit.cast(op.getInput(), wide), 1 / (1 - probability));
  return emit.cast(emit.select(kept, scaled, emit.number(0, scaled)), element);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Gradient of attention on `[..., groups, heads per group, rows, columns]`
/// tensors: for grouped-query attention, the heads of a group broadcast along
/// one dimension.
class AttentionGradient {
public:
  AttentionGradient(ScalarEmitter &emit, AttentionGradientOp op)
      : emit(emit), op(op), narrow(getElementTypeOrSelf(op.getQuery())),
        wide(sumType(narrow)) {
    ArrayRef<int64_t> query = shapeOf(op.getQuery());
    heads = query[query.size() - 3];
    groups = shapeOf(op.getKey())[query.size() - 3];
    length = query[query.size() - 2];
    positions = shapeOf(op.getKey())[query.size() - 2];
    scale = op.getScale().convertToDouble();
  }

  SmallVector<Value> build() {
    Value query = perGroup(op.getQuery()), key = perGroup(op.getKey()),
          value = perGroup(op.getValue()),
          gradient = perGroup(emit.cast(op.getGradient(), narrow));
    Value p = probabilities(query, key);
    Value factor = emit.cast(p, narrow);
    Value valueGradient = product(factor, gradient, /*transposeLhs=*/true);

    Value d = product(gradient, value, false, /*transposeRhs=*/true);
    int64_t last = shapeOf(p).size() - 1;
    Value mean = emit.reduce<ReduceSumOp>(emit.mul(p, d), last,
                                          /*keepDims=*/true);
    factor = emit.cast(emit.mul(p, emit.sub(d, mean)), narrow);
    Value queryGradient = emit.scale(product(factor, key), scale);
    Value keyGradient =
        emit.scale(product(factor, query, /*transposeLhs=*/true), scale);
    return {result(queryGradient, op.getQueryGradient(), false),
            result(keyGradient, op.getKeyGradient(), true),
            result(valueGradient, op.getValueGradient(), true)};
  }

private:
  /// [..., H, rows, columns] -> [..., G, H / G, rows, columns].
  Value perGroup(Value value) {
    SmallVector<int64_t> shape(shapeOf(value));
    if (groups == heads)
      return value;
    int64_t at = shape.size() - 3, members = shape[at] / groups;
    shape[at] = groups;
    shape.insert(shape.begin() + at + 1, members);
    return emit.reshape(value, shape);
  }

  /// Batched matmul with broadcast batch dimensions.
  Value product(Value lhs, Value rhs, bool transposeLhs = false,
                bool transposeRhs = false) {
    ArrayRef<int64_t> left = shapeOf(lhs), right = shapeOf(rhs);
    size_t rank = left.size();
    SmallVector<int64_t> shape;
    for (size_t i = 0; i + 2 < rank; ++i)
      shape.push_back(std::max(left[i], right[i]));
    shape.push_back(left[rank - (transposeLhs ? 1 : 2)]);
    shape.push_back(right[rank - (transposeRhs ? 2 : 1)]);
    return emit.create<MatmulOp>(RankedTensorType::get(shape, wide), lhs, rhs,
                                 transposeLhs, transposeRhs, TypeAttr(),
                                 op.getCompute(), PackedAttr());
  }

  /// The mask, reshaped to the rank of the scores.
  Value alignedMask() {
    Value mask = op.getMask();
    SmallVector<int64_t> shape(shapeOf(op.getQuery()).size(), 1);
    llvm::copy(llvm::reverse(shapeOf(mask)), shape.rbegin());
    int64_t at = shape.size() - 3;
    if (groups != heads) {
      bool shared = shape[at] == 1;
      shape.insert(shape.begin() + at + 1, shared ? 1 : heads / groups);
      shape[at] = shared ? 1 : groups;
    }
    return emit.reshape(mask, shape);
  }

  Value probabilities(Value query, Value key) {
    Value scores =
        emit.scale(product(query, key, false, /*transposeRhs=*/true), scale);
    Value kept;
    if (op.getMask()) {
      Value mask = alignedMask();
      if (isa<FloatType>(getElementTypeOrSelf(mask)))
        scores = emit.add(scores, emit.cast(mask, wide));
      else
        kept = mask;
    }
    if (op.getCausal()) {
      Value causal = lowerTriangle();
      kept = kept ? emit.binary<AndOp>(causal, kept) : causal;
    }
    Value floor = emit.number(-std::numeric_limits<double>::infinity(), scores);
    if (kept)
      scores = emit.select(kept, scores, floor);
    int64_t last = shapeOf(scores).size() - 1;
    Value p = emit.create<SoftmaxOp>(scores.getType(), scores,
                                     emit.builder.getI64IntegerAttr(last));
    if (!op.getMask() && length <= positions)
      return p;
    // A fully masked row has zero probabilities.
    Value largest = emit.reduce<ReduceMaxOp>(scores, last, /*keepDims=*/true);
    Value empty = emit.compare(ComparePredicate::eq, largest, floor);
    return emit.select(empty, emit.number(0, p), p);
  }

  /// Causal mask `[S, T]`: t <= s + T - S.
  Value lowerTriangle() {
    Type index = emit.builder.getI32Type();
    Value rows =
        emit.create<IotaOp>(RankedTensorType::get({length, 1}, index), 0);
    Value columns =
        emit.create<IotaOp>(RankedTensorType::get({positions}, index), 0);
    Value limit = emit.add(rows, emit.integer(positions - length, rows));
    return emit.compare(ComparePredicate::le, columns, limit);
  }

  /// Sums over the heads of a group if they share the operand; in the operand's
  /// shape and type.
  Value result(Value value, Value like, bool shared) {
    if (groups != heads && shared)
      value = emit.reduce<ReduceSumOp>(
          value, static_cast<int64_t>(shapeOf(value).size()) - 3);
    return emit.cast(emit.reshape(value, shapeOf(like)),
                     getElementTypeOrSelf(like));
  }

  ScalarEmitter &emit;
  AttentionGradientOp op;
  Type narrow, wide;
  int64_t heads, groups, length, positions;
  double scale;
};

} // namespace

SmallVector<Value> mpc::decomposeTraining(OpBuilder &builder, Operation *op) {
  using Values = SmallVector<Value>;
  ScalarEmitter emit(builder, op);
  return TypeSwitch<Operation *, Values>(op)
      .Case([&](SoftmaxCrossEntropyOp loss) {
        return Values{lossOf(emit, loss)};
      })
      .Case<SigmoidCrossEntropyOp, MeanSquaredErrorOp, MeanAbsoluteErrorOp,
            HuberOp>([&](auto loss) {
        Value terms = termsOf(emit, loss);
        return Values{emit.reduce<ReduceMeanOp>(terms, allAxes(terms))};
      })
      .Case([&](DropoutOp dropout) { return Values{decompose(emit, dropout)}; })
      .Case([&](AttentionGradientOp attention) {
        return AttentionGradient(emit, attention).build();
      })
      .Case([&](StopGradientOp stop) { return Values{stop.getInput()}; })
      .Case([&](GradientSeedOp seed) {
        auto type = cast<RankedTensorType>(seed.getType());
        return Values{emit.splat(type.getShape(), type.getElementType(), 1.0)};
      })
      .Default([](Operation *) { return Values(); });
}
