//===- RowMath.cpp - softmax and norms ------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax, log-softmax, layer norm and RMS norm, for every target.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"

#include "RowKernelEmitter.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;
using tile::NamedReduction;

void RowKernelEmitter::emitOp(Operation *op) {
  startOp();
  TypeSwitch<Operation *>(op)
      .Case([&](SoftmaxOp) { return emitSoftmax(op, /*logarithm=*/false); })
      .Case([&](LogSoftmaxOp) { return emitSoftmax(op, /*logarithm=*/true); })
      .Case([&](LayerNormOp norm) {
        return emitNorm(op, norm.getScale(), norm.getBias(),
                        norm.getEpsilon().convertToDouble(), /*centred=*/true);
      })
      .Case([&](RmsNormOp norm) {
        return emitNorm(op, norm.getScale(), {},
                        norm.getEpsilon().convertToDouble(),
                        /*centred=*/false);
      })
      .Default([&](Operation *) { return emitReduce(op); });
}

/// softmax(x) = exp(x - m) / sum(exp(x - m)), m the row's maximum, so that no
/// power overflows. In the one-pass form the sum is rescaled when the maximum
/// grows (M. Milakov, N. Gimelshein, Online normalizer calculation for softmax,
/// 2018).
void RowKernelEmitter::emitSoftmax(Operation *op, bool logarithm) {
  Value input = op->getOperand(0), result = op->getResult(0);
  Type elementType = getElementTypeOrSelf(input.getType()),
       type = carriedType(elementType);
  auto larger = [&](Value x, Value y) {
    return math.select(math.compare(CmpFPredicate::OGT, x, y), x, y);
  };
  auto powerOf = [&](Value x, Value maximum, int64_t lanes) {
    return math.expNonPositive(math.sub(x, spread(maximum, lanes)));
  };
  Value maximum, sum, powers;
  Value zero = math.constant(type, 0.0);
  if (choice.joinsSoftmax) {
    // Start from a finite number, so that infinite elements give the same NaNs
    // and zeros as with two passes.
    const llvm::fltSemantics &semantics =
        cast<FloatType>(type).getFloatSemantics();
    Value lowest = math.constant(
        type,
        APFloat::getLargest(semantics, /*Negative=*/true).convertToDouble());
    auto rescaled = [&](ValueRange x, Value to) {
      return math.mul(x[1], math.expNonPositive(math.sub(x[0], to)));
    };
    Reducer online{
        {lowest, zero},
        "sum",
        NamedReduction::any,
        [&](const Place &place, ValueRange carried) {
          Value element = counted(place, inputAt(input, place), lowest),
                next = larger(element, carried[0]);
          Value power = counted(
              place, math.expNonPositive(math.sub(element, next)), zero);
          return Carried{next, math.add(rescaled(carried, next), power)};
        },
        [&](ValueRange x, ValueRange y) {
          Value next = larger(x[0], y[0]);
          return Carried{next, math.add(rescaled(x, next), rescaled(y, next))};
        }};
    Carried both = walk(input, online);
    maximum = both[0];
    sum = both[1];
  } else {
    // A NaN is ignored here and comes back through the sum.
    Value lowest = math.constant(type, -kInfinity);
    Reducer largest{{lowest},
                    "largest",
                    NamedReduction::largest,
                    [&](const Place &place, ValueRange best) {
                      Value element =
                          counted(place, inputAt(input, place), lowest);
                      return Carried{larger(element, best[0])};
                    },
                    [&](ValueRange x, ValueRange y) {
                      return Carried{larger(x[0], y[0])};
                    }};
    maximum = walk(input, largest)[0];
    // Overlapping vectors would read exponentials instead of the input.
    if (!logarithm && choice.keepsPowers)
      powers = keep(type, "powers");
    else if (!logarithm && buffers.contains(input) && input.hasOneUse())
      powers = buffers.lookup(input);
    sum = total(input, "sum", [&](const Place &place, Value before) {
      Value power = powerOf(inputAt(input, place), maximum, place.lanes);
      if (powers)
        save(powers, power, place);
      return math.add(before, counted(place, power, zero));
    });
  }

  if (logarithm) {
    Value logOfSum = named(math.log(sum), "logOfSum");
    emitter.bindSource(
        result, [=, this](ValueRange indices, int64_t lanes, Value mask) {
          Value shifted = math.sub(emitter.value(input, indices, lanes, mask),
                                   spread(maximum, lanes));
          return emitter.round(math.sub(shifted, spread(logOfSum, lanes)),
                               elementType);
        });
    return;
  }
  Value inverse =
      named(math.div(math.constant(sum.getType(), 1.0), sum), "inverse");
  emitter.bindSource(result, [=, this](ValueRange indices, int64_t lanes,
                                       Value mask) {
    Value power = powers ? saved(powers, indices, lanes)
                         : powerOf(emitter.value(input, indices, lanes, mask),
                                   maximum, lanes);
    return emitter.round(math.mul(power, spread(inverse, lanes)), elementType);
  });
}

Value RowKernelEmitter::total(
    Value input, StringRef name,
    llvm::function_ref<Value(const Place &, Value)> add) {
  Type type = carriedType(getElementTypeOrSelf(input.getType()));
  Reducer sum{{math.constant(type, 0.0)},
              name,
              NamedReduction::sum,
              [&](const Place &place, ValueRange sums) {
                return Carried{add(place, sums[0])};
              },
              [&](ValueRange x, ValueRange y) {
                return Carried{math.add(x[0], y[0])};
              }};
  return walk(input, sum)[0];
}

/// layer_norm(x) = (x - mean) / sqrt(variance + epsilon) * scale + bias, with
/// the variance about the mean in a second pass (no cancellation); RMS norm has
/// neither mean nor bias.
void RowKernelEmitter::emitNorm(Operation *op, Value scale, Value bias,
                                double epsilon, bool centred) {
  Value input = op->getOperand(0), result = op->getResult(0);
  Type elementType = getElementTypeOrSelf(input.getType()),
       type = carriedType(elementType);
  auto count =
      static_cast<double>(cast<ReductionOpInterface>(op).getReductionSize());
  Value zero = math.constant(type, 0.0);
  auto mean = [&](Value sum, StringRef name) {
    return named(math.div(sum, math.constant(sum.getType(), count)), name);
  };
  Value center;
  if (centred)
    center =
        mean(total(input, "sum",
                   [&](const Place &place, Value before) {
                     return math.add(
                         before, counted(place, inputAt(input, place), zero));
                   }),
             "mean");
  Value squares =
      total(input, "squares", [&](const Place &place, Value before) {
        Value x = inputAt(input, place);
        Value offset = counted(
            place, center ? math.sub(x, spread(center, place.lanes)) : x, zero);
        return math.fma(offset, offset, before);
      });
  Value variance = mean(squares, "variance");
  Value deviation = math.sqrt(math.add(variance, epsilon));
  Value inverse = named(
      math.div(math.constant(variance.getType(), 1.0), deviation), "inverse");

  emitter.bindSource(result, [=, this](ValueRange indices, int64_t lanes,
                                       Value mask) {
    ElementEmitter::Request at{indices, lanes, mask, {0, form.shape.back()}};
    Value x = emitter.value(input, at),
          factor = emitter.operandValue(scale, at);
    Value offset = center ? math.sub(x, spread(center, lanes)) : x;
    Value normal = math.mul(offset, spread(inverse, lanes));
    if (!bias)
      return emitter.round(math.mul(normal, factor), elementType);
    Value shift = emitter.operandValue(bias, at);
    return emitter.round(math.fma(normal, factor, shift), elementType);
  });
}
