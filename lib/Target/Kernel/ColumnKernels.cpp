//===- ColumnKernels.cpp - reductions over the rows of a long matrix ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Column reductions (batch-norm statistics, per-channel gradients) of a matrix
// larger than any cache. Items with a few columns each, and accumulators in
// registers, would read short pieces of rows with a stride that hardware
// prefetchers do not follow: an item here reads rows in memory order, with its
// accumulators in L1.
//
//===----------------------------------------------------------------------===//

#include "RowPattern.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Smaller matrices fit in a shared cache, which serves columns fast enough to
/// distribute them over all threads.
static constexpr int64_t kLeastElements = 1 << 21;

/// Columns per item, if the number of columns has such a divisor: accumulators
/// and other per-column values stay in L1, and the part of a row is long enough
/// for prefetching. Otherwise an item has up to four times as many.
static constexpr int64_t kLeastColumns = 512, kMostColumns = 1024;

namespace {
class ColumnPhase : public Phase {
public:
  ColumnPhase(LoopContext &context, ArrayRef<Root> roots, RowPattern rows,
              int64_t columns, int64_t lanes)
      : Phase(context, roots), form(std::move(rows)), columns(columns),
        lanes(lanes) {}

  PhaseCost cost() override;
  void emit(Value item) override;

private:
  /// Accumulators of an op: over all rows, over one part, over a part of that,
  /// ...
  struct Sums {
    Operation *op;
    Reducer reducer;
    SmallVector<Value, 4> levels;
  };
  using Body = llvm::function_ref<void(Value)>;

  /// A loop without carried values.
  void loop(Value from, Value to, int64_t by, Body body) {
    index.carry(from, to, by, {}, [&](Value at, ValueRange) {
      body(at);
      return Carried{};
    });
  }
  void forColumns(Body body) {
    loop(emitter.index(0), emitter.index(columns), lanes, body);
  }
  Value load(Value sums, Value column) {
    return emitter.load(sums, builder.getF32Type(), column, lanes);
  }
  void clear(ArrayRef<Sums> sums, size_t level);
  void addRows(ArrayRef<Sums> sums, size_t level, Value from, Value to);
  void addParts(ArrayRef<Sums> sums, size_t level, Value from, Value to,
                ArrayRef<int64_t> lengths);
  void emitStage(ArrayRef<Operation *> ops);
  void storeResults();

  RowPattern form;
  /// Columns per item, and per vector.
  int64_t columns, lanes;
  /// First column of the item.
  Value first;
};
} // namespace

PhaseCost ColumnPhase::cost() {
  double perVector = 2.0 + 3.0 * static_cast<double>(form.ops.size());
  int64_t vectors = columns / lanes;
  return {form.shape.back() / columns,
          perVector * static_cast<double>(form.length() * vectors)};
}

void ColumnPhase::clear(ArrayRef<Sums> sums, size_t level) {
  forColumns([&](Value column) {
    for (const Sums &sum : sums)
      emitter.store(sum.reducer.initial.front(), sum.levels[level], column,
                    lanes);
  });
}

void ColumnPhase::addRows(ArrayRef<Sums> sums, size_t level, Value from,
                          Value to) {
  loop(from, to, 1, [&](Value row) {
    forColumns([&](Value column) {
      SmallVector<Value> at = {row, index.add(first, column)};
      Reducer::Place place{at, lanes, {0, form.shape.back()}, {}};
      for (const Sums &sum : sums) {
        Carried next = sum.reducer.body(place, load(sum.levels[level], column));
        emitter.store(next.front(), sum.levels[level], column, lanes);
      }
    });
  });
}

/// Adds the rows [from, to) to the accumulators of `level`, in parts of
/// `lengths`.
void ColumnPhase::addParts(ArrayRef<Sums> sums, size_t level, Value from,
                           Value to, ArrayRef<int64_t> lengths) {
  if (lengths.empty())
    return addRows(sums, level, from, to);
  loop(from, to, lengths.front(), [&](Value begin) {
    Value end = index.add(begin, lengths.front());
    if (form.length() % lengths.front())
      end = index.min(end, to);
    clear(sums, level + 1);
    addParts(sums, level + 1, begin, end, lengths.drop_front());
    forColumns([&](Value column) {
      for (const Sums &sum : sums)
        emitter.store(sum.reducer
                          .join(load(sum.levels[level], column),
                                load(sum.levels[level + 1], column))
                          .front(),
                      sum.levels[level], column, lanes);
    });
  });
}

void ColumnPhase::emitStage(ArrayRef<Operation *> ops) {
  SmallVector<int64_t, 4> lengths = partsOfSum(form.length());
  SmallVector<Sums> sums;
  for (Operation *op : ops) {
    sums.push_back({op, reducerOf(emitter, op), {}});
    for (size_t level = 0; level <= lengths.size(); ++level)
      sums.back().levels.push_back(
          context.allocate({columns}, builder.getF32Type()));
  }
  clear(sums, 0);
  addParts(sums, 0, emitter.index(0), emitter.index(form.length()), lengths);
  // From here on one number per column, in the op's carried type.
  forColumns([&](Value column) {
    for (const Sums &sum : sums)
      emitter.store(sum.reducer.finish(load(sum.levels[0], column)),
                    sum.levels[0], column, lanes);
  });
  for (const Sums &sum : sums)
    emitter.bindSource(
        sum.op->getResult(0),
        [this, total = sum.levels[0]](ValueRange indices, int64_t, Value) {
          return load(total, index.sub(indices.back(), first));
        });
}

/// Computes all values of a vector before its first store: results may
/// overwrite inputs of others (in place).
void ColumnPhase::storeResults() {
  forColumns([&](Value column) {
    SmallVector<Value> at = {emitter.index(0), index.add(first, column)};
    SmallVector<Value> values;
    auto place = [&](const Root &root) {
      return form.rowIndices(emitter, at, shapeOf(root.tensor));
    };
    for (const Root &root : roots)
      values.push_back(emitter.value(root.tensor, place(root), lanes));
    for (auto [root, value] : llvm::zip(roots, values))
      emitter.store(value, root.memref, place(root), lanes);
  });
}

void ColumnPhase::emit(Value item) {
  first = index.mul(item, columns);
  // One loop reduces for all ops that do not read each other's results.
  ArrayRef<Operation *> left = form.ops;
  while (!left.empty()) {
    auto isLeft = [&](Operation *op) { return llvm::is_contained(left, op); };
    size_t count = 0;
    while (count < left.size() &&
           !dependsOn(left[count]->getOperand(0), isLeft))
      ++count;
    emitStage(left.take_front(count));
    left = left.drop_front(count);
  }
  storeResults();
  for (Operation *op : form.ops)
    emitter.unbind(op->getResult(0));
}

/// Returns the widest vectors that divide `extent`; 0: none.
static int64_t lanesFor(const ElementTarget &target, int64_t extent) {
  for (int64_t lanes = 2 * target.lanes; lanes >= target.lanes; lanes /= 2)
    if (extent % lanes == 0)
      return lanes;
  return 0;
}

/// Returns true if every vector of columns is contiguous in the inputs.
static bool isWhole(ElementEmitter &emitter, ArrayRef<Root> roots,
                    const RowPattern &form) {
  // Results of the reducing ops count as available.
  for (Operation *op : form.ops)
    emitter.bindSource(op->getResult(0), {});
  LaneRange all{0, form.shape.back()};
  bool whole =
      llvm::all_of(form.ops,
                   [&](Operation *op) {
                     return isContiguous(emitter, op->getOperand(0), all);
                   }) &&
      llvm::all_of(roots, [&](const Root &root) {
        return form.isPerRow(root.tensor) &&
               isContiguous(emitter, root.tensor, all);
      });
  for (Operation *op : form.ops)
    emitter.unbind(op->getResult(0));
  return whole;
}

/// Returns the columns per item, a multiple of the vector length that divides
/// `extent`; 0 if there is none.
static int64_t columnsFor(int64_t extent, int64_t lanes) {
  for (int64_t most : {kMostColumns, 4 * kMostColumns})
    for (int64_t items = llvm::divideCeil(extent, most);
         extent / items >= kLeastColumns; ++items)
      if (extent / lanes % items == 0)
        return extent / items;
  return extent <= kMostColumns ? extent : 0;
}

std::unique_ptr<Phase> mpc::makeColumnPhase(LoopContext &context,
                                            ArrayRef<Root> roots) {
  const ElementTarget &target = context.emitter.getTarget();
  RowPattern form;
  if (!target.privateScratch || target.lanes == 1 ||
      failed(form.analyze(context.emitter, roots)) || !form.isVertical() ||
      form.shape.size() != 2 || !form.reshapes.empty() ||
      form.rows() * form.length() < kLeastElements)
    return nullptr;
  int64_t extent = form.shape.back(), lanes = lanesFor(target, extent);
  // A matrix one vector wide is read in memory order anyway.
  if (!lanes || extent == lanes)
    return nullptr;
  bool addsUp = llvm::all_of(form.ops, [](Operation *op) {
    Type element = getElementTypeOrSelf(op->getResult(0).getType());
    // A product of a part may overflow when the total does not.
    return op->hasTrait<ReducesRows>() &&
           (op->hasTrait<SumsElements>() || op->hasTrait<Exact>()) &&
           carriedType(element).isF32() && accumulatorType(op).isF32();
  });
  if (!addsUp || !isWhole(context.emitter, roots, form))
    return nullptr;
  int64_t columns = columnsFor(extent, lanes);
  if (!columns)
    return nullptr;
  return std::make_unique<ColumnPhase>(context, roots, std::move(form), columns,
                                       lanes);
}
