//===- AttentionCodegen.cpp - split-KV attention
//----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Split-KV (flash-decoding: T. Dao, D. Haziza, F. Massa, G. Sizov,
// "Flash-Decoding for long-context inference", 2023): with few rows of few
// heads, an item processes a split of the keys, so that all threads have work.
// It stores its partial sums with their maximum and total weight; after all
// items, the splits of a head are reduced in order. Splits depend on shapes
// only: results do not depend on the number of threads.
//
//===----------------------------------------------------------------------===//

#include "AttentionEmitter.h"

#include "../Kernel/AttentionMath.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;

void AttentionEmitter::preparePartials() {
  // Maximum and total follow the sums; rows are padded to cache lines to avoid
  // false sharing.
  partialPitch =
      llvm::alignTo(width + 2, kLineBytes / bytesPerElement(sumType));
  laterItems = productOf(batchShape);
  partials = sharedArea(laterItems * length * parts * partialPitch);
  weights = area(parts, sumType);
}

Value AttentionEmitter::partialAt(Value row, Value part) const {
  return math.mul(math.add(math.mul(row, parts), part), partialPitch);
}

Value AttentionEmitter::ownPartialAt(Value local) const {
  return partialAt(math.add(math.mul(leadingHead, length), local), part);
}

void AttentionEmitter::storePartialSums(Value local) {
  Value base = ownPartialAt(local);
  auto type = VectorType::get({lanes}, sumType);
  math.loop(math.constant(0), math.constant(width), lanes, [&](Value column) {
    Value sum = vector::LoadOp::create(
        b, loc, type, tile, math.add(math.mul(local, width), column));
    vector::StoreOp::create(b, loc, sum, partials, math.add(base, column));
  });
}

void AttentionEmitter::storePartialRow(Value local, Value largest,
                                       Value total) {
  Value at = math.add(ownPartialAt(local), width);
  memref::StoreOp::create(b, loc, largest, partials, at);
  memref::StoreOp::create(b, loc, total, partials, math.add(at, 1));
}

SmallVector<Value> AttentionEmitter::overParts(
    ValueRange from,
    llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, loc, math.constant(0), math.constant(parts),
                                 math.constant(1), from);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  scf::YieldOp::create(b, loc,
                       body(loop.getInductionVar(), loop.getRegionIterArgs()));
  return SmallVector<Value>(loop.getResults());
}

void AttentionEmitter::reduceSplitRow(Value row, Value local) {
  MathExpansion values(b, loc, elementTarget(contraction.target));
  AttentionMath formula(values, op.getScale().convertToDouble());
  auto numberOf = [&](Value part, int64_t which) -> Value {
    return memref::LoadOp::create(
        b, loc, partials, math.add(partialAt(row, part), width + which));
  };
  Value none =
      values.constant(sumType, -std::numeric_limits<double>::infinity());
  Value largest = overParts(none, [&](Value part, ValueRange sofar) {
    return SmallVector<Value>{formula.larger(sofar[0], numberOf(part, 0))};
  })[0];
  Value shift = formula.shift(largest);
  Value zero = values.constant(sumType, 0.0);
  Value total = overParts(zero, [&](Value part, ValueRange sofar) {
    Value weight = formula.power(numberOf(part, 0), shift);
    memref::StoreOp::create(b, loc, weight, weights, part);
    return SmallVector<Value>{
        values.add(sofar[0], values.mul(numberOf(part, 1), weight))};
  })[0];
  Value inverse = splatted(formula.inverse(total, largest), lanes);
  auto type = VectorType::get({lanes}, sumType);
  for (int64_t column = 0; column < width; column += kSumVectors * lanes) {
    SmallVector<Value> zeros(std::min(kSumVectors, (width - column) / lanes),
                             values.constant(type, 0.0));
    SmallVector<Value> sums =
        overParts(zeros, [&](Value part, ValueRange sofar) {
          Value base = math.add(partialAt(row, part), column);
          Value weight =
              splatted(memref::LoadOp::create(b, loc, weights, part), lanes);
          SmallVector<Value> next;
          for (auto [v, sum] : llvm::enumerate(sofar)) {
            Value own = vector::LoadOp::create(
                b, loc, type, partials, math.add(base, int64_t(v) * lanes));
            next.push_back(math::FmaOp::create(b, loc, own, weight, sum));
          }
          return next;
        });
    for (auto [v, sum] : llvm::enumerate(sums))
      vector::StoreOp::create(
          b, loc, values.mul(sum, inverse), tile,
          math.add(math.mul(local, width), column + int64_t(v) * lanes));
  }
}

void AttentionEmitter::emitLaterItem(Value number) {
  math.loop(length, [&](Value local) {
    reduceSplitRow(math.add(math.mul(number, length), local), local);
  });
  SmallVector<Value> place = math.delinearize(number, batchShape);
  auto indices = [&](Value local) {
    SmallVector<Value> at(place);
    at.push_back(local);
    return at;
  };
  storeTile(tile, width, math.constant(length), indices, place.size() + 1,
            math.constant(0), width);
}
