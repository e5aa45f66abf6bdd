//===- RowKernelEmitter.cpp - loops over rows and their buffers -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowKernelEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

RowKernelEmitter::RowKernelEmitter(ElementEmitter &emitter,
                                   const RowPattern &form,
                                   RowKernelSchedule choice,
                                   ArrayRef<Stored> results)
    : emitter(emitter), builder(emitter.getBuilder()), loc(emitter.getLoc()),
      math(emitter.math()), index(emitter.indexMath()), form(form),
      choice(std::move(choice)), results(results) {}

//===----------------------------------------------------------------------===//
// Items
//===----------------------------------------------------------------------===//

void RowKernelEmitter::placeItem(Value item) {
  SmallVector<int64_t> counts;
  for (auto [dim, extent] : llvm::enumerate(form.shape))
    if (!form.isAxis(dim))
      counts.push_back(extent);
  if (form.isVertical())
    counts.back() = llvm::divideCeil(counts.back(), choice.columns);
  SmallVector<Value> places = index.delinearize(item, counts);
  if (form.isVertical()) {
    // The last item may overlap the previous one.
    int64_t extent = form.shape.back();
    Value first = index.mul(places.back(), choice.columns);
    places.back() = extent % choice.columns
                        ? index.min(first, extent - choice.columns)
                        : first;
  }
  at.assign(form.shape.size(), emitter.index(0));
  size_t next = 0;
  for (size_t dim = 0; dim < at.size(); ++dim)
    if (!form.isAxis(dim))
      at[dim] = places[next++];
}

LogicalResult RowKernelEmitter::emitItem(Value item) {
  placeItem(item);
  for (ReshapeOp reshape : form.reshapes)
    emitter.bindSource(reshape.getResult(), [this, reshape](ValueRange, int64_t,
                                                            Value) mutable {
      Value input = reshape.getInput();
      return emitter.value(input, form.rowIndices(emitter, at, shapeOf(input)),
                           choice.columns);
    });
  buffers.clear();
  number = 0;
  if (choice.takesOneWalk)
    emitOneWalk();
  else
    for (; number < form.ops.size(); ++number)
      emitOp(form.ops[number]);
  storeResults();
  for (Operation *op : form.ops)
    emitter.unbind(op->getResult(0));
  for (ReshapeOp reshape : form.reshapes)
    emitter.unbind(reshape.getResult());
  for (auto [tensor, buffer] : buffers)
    emitter.unbind(tensor);
  return emitter.status();
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value RowKernelEmitter::spread(Value value, int64_t lanes) {
  if (lanes == 1 || isa<VectorType>(value.getType()))
    return value;
  TypedAttr constant;
  if (matchPattern(value, m_Constant(&constant)))
    return arith::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(VectorType::get({lanes}, value.getType()),
                               constant));
  return math.splat(value, lanes);
}

Value RowKernelEmitter::named(Value value, StringRef name) {
  value.setLoc(NameLoc::get(builder.getStringAttr(name)));
  return value;
}

Value RowKernelEmitter::counted(const Place &place, Value value,
                                Value otherwise) {
  return place.keep
             ? math.select(place.keep, value, spread(otherwise, place.lanes))
             : value;
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

SmallVector<LaneSegment> RowKernelEmitter::segments(ArrayRef<Value> tensors,
                                                    bool sums) {
  LaneRange all{0, form.shape.back()};
  if (form.isVertical())
    return {{all, choice.columns}};
  if (choice.vector)
    return {{all, choice.vector}};
  return sums ? planSummedLanes(emitter, tensors, form.shape.back())
              : planLanes(emitter, tensors, form.shape.back());
}

Carried RowKernelEmitter::walkSegment(const LaneSegment &segment,
                                      ValueRange initial, Body body) {
  SmallVector<int64_t> from, to;
  for (int64_t axis : form.axes) {
    from.push_back(0);
    to.push_back(form.shape[axis]);
  }
  int64_t by = 1;
  if (!form.isVertical()) {
    from.back() = segment.range.begin;
    to.back() = segment.range.end;
    by = segment.lanes;
  }
  bool masked = segment.range.size() % by != 0 && !initial.empty();
  auto walk =
      tile::ItemLoopOp::create(builder, loc, from, to, by, masked, initial);
  OpBuilder::InsertionGuard guard(builder);
  Block &block = walk.getBody().front();
  if (initial.empty())
    builder.setInsertionPoint(block.getTerminator());
  else
    builder.setInsertionPointToEnd(&block);
  for (auto [axis, position] : llvm::zip(form.axes, walk.getPositions()))
    at[axis] = position;
  Place place{at, segment.lanes, segment.range, walk.getMask()};
  Carried values = body(place, walk.getCarried());
  if (fresh)
    onFirstWalk(place);
  if (!initial.empty())
    tile::YieldOp::create(builder, loc, values);
  return Carried(walk.getResults());
}

Carried RowKernelEmitter::joinMembers(ValueRange own, const Reducer &reducer) {
  SmallVector<Type> scalars, types(own.getTypes());
  for (Type type : types)
    scalars.push_back(getElementTypeOrSelf(type));
  auto op = tile::ItemReduceOp::create(
      builder, loc, form.isVertical() ? types : scalars, own, reducer.initial,
      reducer.joining, reducer.name);
  OpBuilder::InsertionGuard guard(builder);
  Block &block = op.getBody().emplaceBlock();
  SmallVector<Location> locs(scalars.size(), loc);
  block.addArguments(scalars, locs);
  block.addArguments(scalars, locs);
  builder.setInsertionPointToEnd(&block);
  ValueRange both = block.getArguments();
  Carried joined = reducer.join(both.take_front(scalars.size()),
                                both.take_back(scalars.size()));
  tile::YieldOp::create(builder, loc, joined);
  return Carried(op.getResults());
}

Carried RowKernelEmitter::walk(ArrayRef<Value> tensors,
                               const Reducer &reducer) {
  SmallVector<LaneSegment> all =
      segments(tensors, /*sums=*/!reducer.initial.empty());
  Carried total = reducer.initial;
  for (const LaneSegment &segment : all) {
    Carried wide;
    for (Value value : reducer.initial)
      wide.push_back(spread(value, segment.lanes));
    Carried own = walkSegment(segment, wide, reducer.body);
    if (reducer.initial.empty())
      continue;
    Carried joined = joinMembers(own, reducer);
    total = all.size() == 1 ? joined : reducer.join(total, joined);
  }
  if (fresh)
    afterFirstWalk();
  return total;
}

void RowKernelEmitter::commit(bool once, llvm::function_ref<void()> body) {
  auto op = tile::ItemStoreOp::create(builder, loc, once);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op.getBody().front().getTerminator());
  body();
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

Value RowKernelEmitter::keep(Type type, StringRef name) {
  SmallVector<int64_t> shape;
  for (int64_t axis : form.axes)
    shape.push_back(form.shape[axis]);
  if (form.isVertical())
    shape.push_back(choice.columns);
  return tile::ItemBufferOp::create(
      builder, loc,
      tile::ItemBufferType::get(builder.getContext(), shape, type), name);
}

SmallVector<Value> RowKernelEmitter::positions(ValueRange indices) const {
  SmallVector<Value> result;
  for (int64_t axis : form.axes)
    result.push_back(indices[axis]);
  return result;
}

void RowKernelEmitter::save(Value buffer, Value value, const Place &place) {
  tile::BufferWriteOp::create(builder, loc, spread(value, place.lanes), buffer,
                              positions(place.indices));
}

Value RowKernelEmitter::saved(Value buffer, ValueRange indices, int64_t lanes) {
  Type element = cast<tile::ItemBufferType>(buffer.getType()).getElement();
  return tile::BufferReadOp::create(builder, loc, lanesOf(element, lanes),
                                    buffer, positions(indices));
}

void RowKernelEmitter::startOp() {
  fresh = true;
  keptNow = choice.kept(number);
  for (Value tensor : keptNow)
    buffers[tensor] =
        keep(carriedType(getElementTypeOrSelf(tensor.getType())), "values");
}

void RowKernelEmitter::onFirstWalk(const Place &place) {
  if (number == 0) {
    SmallVector<Stored> early;
    for (const Stored &stored : results)
      if (isEarly(stored.row()))
        early.push_back(stored);
    bool adds = !sums.empty() && sumsOnFirstWalk;
    if (adds || !early.empty())
      commit(/*once=*/false, [&] {
        if (adds)
          addToSums(place);
        store(early, place);
      });
  }
  for (Value tensor : keptNow)
    save(buffers[tensor], inputAt(tensor, place), place);
}

void RowKernelEmitter::afterFirstWalk() {
  fresh = false;
  for (Value tensor : keptNow)
    emitter.bindSource(tensor, [this, buffer = buffers[tensor]](
                                   ValueRange indices, int64_t lanes, Value) {
      return saved(buffer, indices, lanes);
    });
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

void RowKernelEmitter::emitReduce(Operation *op) {
  Reducer reducer = reducerOf(emitter, op);
  emitter.bindValue(op->getResult(0),
                    reducer.finish(walk(op->getOperand(0), reducer)));
}

void RowKernelEmitter::emitOneWalk() {
  startOp();
  SmallVector<Reducer> reducers;
  Carried initial;
  LaneSegment all = segments({}, /*sums=*/true).front();
  for (Operation *op : form.ops) {
    reducers.push_back(reducerOf(emitter, op));
    for (Value value : reducers.back().initial)
      initial.push_back(spread(value, all.lanes));
  }
  auto part = [&](ValueRange values, size_t which) {
    size_t begin = 0;
    for (size_t i = 0; i < which; ++i)
      begin += reducers[i].initial.size();
    return values.slice(begin, reducers[which].initial.size());
  };
  Carried own =
      walkSegment(all, initial, [&](const Place &place, ValueRange carried) {
        Carried next;
        for (auto [i, reducer] : llvm::enumerate(reducers))
          llvm::append_range(next, reducer.body(place, part(carried, i)));
        return next;
      });
  afterFirstWalk();
  SmallVector<Carried> joined;
  for (auto [i, reducer] : llvm::enumerate(reducers))
    joined.push_back(joinMembers(part(own, i), reducer));
  for (auto [op, reducer, values] : llvm::zip(form.ops, reducers, joined))
    emitter.bindValue(op->getResult(0), reducer.finish(values));
}

//===----------------------------------------------------------------------===//
// Stores of row kernels
//
// Locations of results, through movement ops after the rows.
//===----------------------------------------------------------------------===//

using arith::CmpIPredicate;

void RowKernelEmitter::storeAt(const Stored &stored, Value value,
                               ValueRange indices, int64_t lanes) {
  auto store = [&] {
    emitter.store(value, stored.memref, stored.place(indices), lanes);
  };
  if (stored.condition)
    index.branch(stored.condition, store);
  else
    store();
}

void RowKernelEmitter::store(ArrayRef<Stored> stores, const Place &place) {
  SmallVector<Value> values;
  for (const Stored &stored : stores)
    values.push_back(inputAt(stored.row(), place));
  for (auto [stored, value] : llvm::zip(stores, values))
    storeResult(stored, value, place.indices, place.lanes);
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
          Value holds =
              math.compare(predicate, place[dim], emitter.index(bound));
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

void RowKernelEmitter::storeMoved(const Stored &stored, Value value,
                                  ValueRange indices, int64_t lanes) {
  Value exists;
  SmallVector<Value> place =
      placeBehind(stored.result.movement, SmallVector<Value>(indices), exists);
  SmallVector<Value> last = placeBehind(stored.result.storing, place, exists);
  auto store = [&] {
    Value moved = stored.result.moved(), computed = stored.result.computed();
    if (computed != moved) {
      emitter.bindValue(moved, value);
      value = emitter.value(computed, place, lanes);
      emitter.unbind(moved);
    }
    storeAt(stored, value, last, lanes);
  };
  if (exists)
    index.branch(exists, store);
  else
    store();
}

/// Computes everything before the first store: results may overwrite inputs of
/// others (in place).
void RowKernelEmitter::storePerRow(ArrayRef<Stored> stores) {
  SmallVector<SmallVector<Value>> places;
  SmallVector<Value> values;
  for (const Stored &stored : stores) {
    places.push_back(form.rowIndices(emitter, at, shapeOf(stored.row())));
    values.push_back(
        emitter.value(stored.row(), places.back(), choice.columns));
  }
  for (auto [stored, value, place] : llvm::zip(stores, values, places))
    storeResult(stored, value, place, choice.columns);
}

void RowKernelEmitter::storeResults() {
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
  if (!perRow.empty())
    commit(/*once=*/true, [&] { storePerRow(perRow); });
  bool adds = !sums.empty() && !sumsOnFirstWalk;
  if (full.empty() && !adds)
    return;
  Reducer none;
  none.body = [&](const Place &place, ValueRange) {
    commit(/*once=*/false, [&] {
      if (adds)
        addToSums(place);
      store(full, place);
    });
    return Carried{};
  };
  walk(tensors, none);
}

void RowKernelEmitter::addToSums(const Place &place) {
  for (const RowSum &sum : sums) {
    Value value = inputAt(sum.operand, place);
    Type element =
        cast<tile::AccumulatorsType>(sum.sums.getType()).getElement();
    tile::AccumulateOp::create(builder, loc,
                               toAccumulator(math, value, element), sum.sums,
                               positions(place.indices));
  }
}
