//===- RowKernelStores.cpp - stores of row kernels -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Locations of results, through movement ops after the rows.
//
//===----------------------------------------------------------------------===//

#include "RowKernelEmitter.h"

using namespace mlir;
using namespace mpc;
using arith::CmpIPredicate;

void RowKernelEmitter::storeAt(const Stored &stored, Value value,
                               ValueRange indices, int64_t lanes) {
  OpBuilder::InsertionGuard guard(builder);
  if (stored.condition) {
    auto branch = scf::IfOp::create(builder, loc, stored.condition);
    builder.setInsertionPoint(branch.thenBlock()->getTerminator());
  }
  emitter.store(value, stored.memref, stored.place(indices), lanes);
}

LogicalResult RowKernelEmitter::store(ArrayRef<Stored> stores,
                                      const Place &place) {
  SmallVector<Value> values;
  for (const Stored &stored : stores) {
    FailureOr<Value> value = inputAt(stored.row(), place);
    if (failed(value))
      return failure();
    values.push_back(*value);
  }
  for (auto [stored, value] : llvm::zip(stores, values)) {
    if (stored.result.movement.empty())
      storeAt(stored, value, place.indices, place.lanes);
    else if (failed(storeMoved(stored, value, place.indices, place.lanes)))
      return failure();
  }
  return success();
}

SmallVector<Value> RowKernelEmitter::placeBehind(ArrayRef<Operation *> movement,
                                                 SmallVector<Value> place,
                                                 Value &exists) {
  for (Operation *op : movement) {
    ArrayRef<int64_t> from = shapeOf(op->getOperand(0)),
                      to = shapeOf(op->getResult(0));
    SmallVector<Value> next;
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      for (int64_t dim : transpose.getPermutation())
        next.push_back(place[dim]);
    } else if (auto slice = dyn_cast<SliceOp>(op)) {
      for (auto [dim, offset] : llvm::enumerate(slice.getOffsets())) {
        next.push_back(place[dim]);
        if (from[dim] == to[dim])
          continue;
        auto also = [&](CmpIPredicate predicate, int64_t bound) {
          Value holds = arith::CmpIOp::create(builder, loc, predicate,
                                              place[dim], emitter.index(bound));
          exists = exists ? math.bitAnd(exists, holds) : holds;
        };
        if (offset + to[dim] < from[dim])
          also(CmpIPredicate::ult, offset + to[dim]);
        if (offset == 0)
          continue;
        also(CmpIPredicate::uge, offset);
        next.back() = index.sub(place[dim], emitter.index(offset));
      }
    } else {
      Value linear = emitter.index(0);
      for (auto [dim, extent] : llvm::enumerate(from))
        linear = index.add(index.mul(linear, extent), place[dim]);
      next = index.delinearize(linear, to);
    }
    place = std::move(next);
  }
  return place;
}

LogicalResult RowKernelEmitter::storeMoved(const Stored &stored, Value value,
                                           ValueRange indices, int64_t lanes) {
  Value exists;
  SmallVector<Value> place =
      placeBehind(stored.result.movement, SmallVector<Value>(indices), exists);
  SmallVector<Value> last = placeBehind(stored.result.storing, place, exists);
  OpBuilder::InsertionGuard guard(builder);
  if (exists) {
    auto branch = scf::IfOp::create(builder, loc, exists);
    builder.setInsertionPoint(branch.thenBlock()->getTerminator());
  }
  Value moved = stored.result.moved(), computed = stored.result.computed();
  if (computed != moved) {
    emitter.bindValue(moved, value);
    FailureOr<Value> made = emitter.emit(computed, place, lanes);
    emitter.unbind(moved);
    if (failed(made))
      return failure();
    value = *made;
  }
  storeAt(stored, value, last, lanes);
  return success();
}

/// Computes everything before the first store: results may overwrite inputs of
/// others (in place).
LogicalResult RowKernelEmitter::storePerRow(ArrayRef<Stored> stores) {
  SmallVector<SmallVector<Value>> places;
  SmallVector<Value> values;
  for (const Stored &stored : stores) {
    places.push_back(form.rowIndices(emitter, at, shapeOf(stored.row())));
    FailureOr<Value> value =
        emitter.emit(stored.row(), places.back(), choice.columns);
    if (failed(value))
      return failure();
    values.push_back(*value);
  }
  for (auto [stored, value, place] : llvm::zip(stores, values, places)) {
    if (stored.result.movement.empty())
      storeAt(stored, value, place, choice.columns);
    else if (failed(storeMoved(stored, value, place, choice.columns)))
      return failure();
  }
  return success();
}

LogicalResult RowKernelEmitter::storeResults() {
  SmallVector<Stored> perRow, full;
  SmallVector<Value> tensors;
  for (const Stored &stored : results) {
    if (form.isPerRow(stored.row())) {
      perRow.push_back(stored);
    } else if (!isEarly(stored.row())) {
      full.push_back(stored);
      tensors.push_back(stored.row());
    }
  }
  if (!perRow.empty() &&
      failed(commit(/*once=*/true, [&] { return storePerRow(perRow); })))
    return failure();
  bool adds = !sums.empty() && !sumsOnFirstWalk;
  if (full.empty() && !adds)
    return success();
  FailureOr<Carried> done = walk(
      tensors, {}, "", tile::NamedReduction::any,
      [&](const Place &place, ValueRange) -> FailureOr<Carried> {
        LogicalResult stored = commit(/*once=*/false, [&] {
          return success((!adds || succeeded(addToSums(place))) &&
                         succeeded(store(full, place)));
        });
        if (failed(stored))
          return failure();
        return Carried{};
      },
      nullptr);
  return success(succeeded(done));
}

LogicalResult RowKernelEmitter::addToSums(const Place &place) {
  for (const RowSum &sum : sums) {
    FailureOr<Value> value = inputAt(sum.operand, place);
    if (failed(value))
      return failure();
    Type element =
        cast<tile::AccumulatorsType>(sum.sums.getType()).getElement();
    tile::AccumulateOp::create(builder, loc,
                               toAccumulator(math, *value, element), sum.sums,
                               positions(place.indices));
  }
  return success();
}
