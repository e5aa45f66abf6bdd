//===- PersistentRecurrence.cpp - persistent recurrent kernels ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Indices, memory, and the exchange of states between blocks.
//
//===----------------------------------------------------------------------===//

#include "PersistentRecurrence.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

PersistentRecurrence::PersistentRecurrence(GpuKernel &kernel, Operation *op,
                                           Value recurrence,
                                           RecurrentDirection order,
                                           const PersistentRnnPlan &plan)
    : kernel(kernel), recurrence(recurrence), order(order), plan(plan),
      products(plan.shape.products()),
      results(*ContractionEpilogue::ofEach(kernel.kernel, op)),
      b(kernel.builder), math{b, kernel.loc},
      values(b, kernel.loc, cudaElementTarget()), f32(b.getF32Type()),
      thread(kernel.named(kernel.thread(), "thread")) {}

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

ElementEmitter PersistentRecurrence::makeEmitter() {
  ElementEmitter emitter(b, kernel.loc, cudaElementTarget());
  kernel.bindInputs(emitter);
  return emitter;
}

void PersistentRecurrence::spread(int64_t count, StringRef name,
                                  llvm::function_ref<void(Value)> body) {
  int64_t threads = kernel.schedule.threads;
  if (count <= threads) {
    kernel.within(count < threads ? math.less(thread, count) : Value(),
                  [&] { body(thread); });
    return;
  }
  math.loop(thread, math.constant(count), threads,
            [&](Value i) { body(kernel.named(i, name)); });
}

Value PersistentRecurrence::both(Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  return values.bitAnd(x, y);
}

Value PersistentRecurrence::element(Value operand, ValueRange at) {
  if (!operand)
    return values.constant(f32, 0);
  ElementEmitter emitter = makeEmitter();
  FailureOr<Value> value = emitter.emit(operand, at, 1);
  if (succeeded(value))
    return *value;
  isRead = false;
  return values.constant(f32, 0);
}

Value PersistentRecurrence::ofGate(Value operand, int64_t gate,
                                   const Item &item) {
  Value place = math.add(item.unit, gate * plan.shape.hidden);
  return element(operand, {direction, place});
}

Value PersistentRecurrence::ofStep(Value operand, Value time, int64_t each,
                                   int64_t gate, const Item &item) {
  int64_t hidden = plan.shape.hidden;
  Value first = math.add(math.mul(direction, each * hidden), item.unit);
  return element(operand, {time, item.row, math.add(first, gate * hidden)});
}

bool PersistentRecurrence::isStored(Value result) const {
  return result &&
         !results[cast<OpResult>(result).getResultNumber()].all().empty();
}

void PersistentRecurrence::storeResult(Value result, Value value,
                                       ValueRange at) {
  if (!isStored(result))
    return;
  ElementEmitter emitter = makeEmitter();
  SmallVector<Value> indices(at);
  if (failed(results[cast<OpResult>(result).getResultNumber()].store(
          emitter, kernel.outputs, value, indices, 1)))
    areStored = false;
}

void PersistentRecurrence::storeStep(Value result, Value value, Value time,
                                     int64_t each, int64_t gate,
                                     const Item &item) {
  int64_t hidden = plan.shape.hidden;
  Value first = math.add(math.mul(direction, each * hidden), item.unit);
  storeResult(result, value, {time, item.row, math.add(first, gate * hidden)});
}

void PersistentRecurrence::eachItem(
    llvm::function_ref<void(const Item &)> body) {
  int64_t items = plan.rows * plan.units, threads = kernel.schedule.threads;
  unrolled(kernel, llvm::divideCeil(items, threads), "i", [&](Value i) {
    Value number = math.add(math.mul(i, threads), thread);
    Value inside = items % threads ? math.less(number, items) : Value();
    kernel.within(inside, [&] {
      Item item;
      item.slot = i;
      item.blockRow = shown(math.div(number, plan.units), "block_row");
      item.blockUnit = shown(math.rem(number, plan.units), "block_unit");
      item.row = shown(math.add(firstRow, item.blockRow), "row");
      item.unit = shown(math.add(firstUnit, item.blockUnit), "unit");
      Value isThere;
      if (plan.shape.batch % plan.rows)
        isThere = math.less(item.row, plan.shape.batch);
      if (plan.shape.hidden % plan.units)
        isThere = both(isThere, math.less(item.unit, plan.shape.hidden));
      kernel.within(isThere, [&] { body(item); });
    });
  });
}

//===----------------------------------------------------------------------===//
// Indices and memory
//===----------------------------------------------------------------------===//

Value PersistentRecurrence::timeOf(Value step) {
  if (order == RecurrentDirection::forward)
    return step;
  Value back = math.sub(math.constant(plan.shape.steps - 1), step);
  return order == RecurrentDirection::reverse
             ? back
             : values.select(math.less(direction, 1), step, back);
}

void PersistentRecurrence::placeBlock() {
  SmallVector<Value> place =
      math.delinearize(kernel.block(), {plan.shape.directions, plan.rowSlices(),
                                        plan.unitSlices()});
  direction = plan.shape.directions == 1 ? math.constant(0)
                                         : shown(place[0], "direction");
  auto first = [&](Value slice, int64_t count, int64_t extent,
                   StringRef name) -> Value {
    return count == 1 ? math.constant(0) : shown(math.mul(slice, extent), name);
  };
  firstRow = first(place[1], plan.rowSlices(), plan.rows, "first_row");
  firstUnit = first(place[2], plan.unitSlices(), plan.units, "first_unit");
  if (!plan.meets())
    return;
  group = math.div(kernel.block(), plan.unitSlices());
  isFirst = math.less(place[2], 1);
}

void PersistentRecurrence::makeMemory() {
  Value bytes = dynamicShared(kernel);
  Type tile = plan.tileType();
  SmallVector<int64_t> shape =
      plan.usesMatrixUnits
          ? SmallVector<int64_t>{plan.columns(), plan.depthPitch()}
          : SmallVector<int64_t>{plan.depth(), plan.columns()};
  weights = sharedView(kernel, bytes, 0, shape, tile, "weights");
  states = sharedView(kernel, bytes, plan.stateOffset(),
                      {plan.tileRows(), plan.depthPitch()}, tile, "states");
  sums =
      sharedView(kernel, bytes, plan.sumOffset(),
                 {plan.splits, plan.tileRows(), plan.sumPitch()}, f32, "sums");
  if (!plan.meets())
    return;
  counters = kernel.named(
      math.view(kernel.scratch, 0, plan.handOverOffset() / 4, b.getI32Type()),
      "counters");
  handed =
      kernel.named(math.view(kernel.scratch, plan.handOverOffset(),
                             2 * plan.handOverElements(), plan.shape.narrow),
                   "handed");
}

Value PersistentRecurrence::perItem(StringRef name, int64_t width) {
  int64_t items =
      llvm::divideCeil(plan.rows * plan.units, kernel.schedule.threads);
  return width == 0 ? kernel.local({items}, f32, name)
                    : kernel.local({items, width}, f32, name);
}

/// Returns the maximum vector length of moves in a row of hidden units.
static int64_t movedLanes(const PersistentRnnPlan &plan) {
  int64_t most = 16 / bytesPerElement(plan.tileType()), lanes = 1;
  while (2 * lanes <= most && plan.shape.hidden % (2 * lanes) == 0)
    lanes *= 2;
  return lanes;
}

void PersistentRecurrence::storeWeight(Value value, Value column, Value k,
                                       int64_t lanes) {
  if (plan.usesMatrixUnits) {
    makeEmitter().store(value, weights, {column, k}, lanes);
    return;
  }
  for (int64_t e = 0; e < lanes; ++e)
    store(lanes == 1
              ? value
              : Value(vector::ExtractOp::create(b, kernel.loc, value, e)),
          weights, {math.add(k, e), column});
}

/// Output columns are rows of the weight matrix, contiguous in depth. In a
/// gradient they are columns: adjacent threads load adjacent columns.
LogicalResult
PersistentRecurrence::loadWeightsOf(const RecurrenceShape::Product &product,
                                    int64_t firstColumn) {
  bool transposed = plan.shape.isGradient;
  int64_t lanes = transposed ? 1 : movedLanes(plan), hidden = plan.shape.hidden,
          columns = plan.columnsOf(product), depth = plan.depthOf(product),
          perColumn = depth / lanes,
          ownColumns = (transposed ? 1 : product.columns) * plan.units,
          firstGate = product.firstGate;
  LogicalResult status = success();
  spread(columns * perColumn, transposed ? "place" : "part", [&](Value part) {
    Value column, k, unit, row;
    if (transposed) {
      k = shown(math.div(part, columns), "k");
      column = shown(math.rem(part, columns), "column");
      unit = math.add(firstUnit, column);
    } else {
      column = shown(math.div(part, perColumn), "column");
      k = shown(math.mul(math.rem(part, perColumn), lanes), "k");
      unit = math.add(firstUnit, math.rem(column, plan.units));
      row = math.add(
          unit,
          math.mul(math.add(math.div(column, plan.units), firstGate), hidden));
    }
    Value inside;
    if (columns != ownColumns)
      inside = math.less(column, ownColumns);
    if (hidden % plan.units)
      inside = both(inside, math.less(unit, hidden));
    if (depth != product.depth * hidden)
      inside = both(inside, math.less(k, product.depth * hidden));
    Type type = mpc::lanesOf(f32, lanes);
    Value value = kernel.orElse(inside, type, [&]() -> Value {
      SmallVector<Value> at = {direction};
      if (transposed)
        at.append({math.add(k, firstGate * hidden), unit});
      else
        at.append({row, k});
      FailureOr<Value> found = makeEmitter().emit(recurrence, at, lanes);
      if (succeeded(found))
        return *found;
      status = failure();
      return values.constant(type, 0);
    });
    storeWeight(value, math.add(column, firstColumn), k, lanes);
  });
  return status;
}

LogicalResult PersistentRecurrence::loadWeights() {
  for (auto [index, product] : llvm::enumerate(products))
    if (failed(loadWeightsOf(product, firstColumn(index))))
      return failure();
  return success();
}

void PersistentRecurrence::clearTile() {
  int64_t pitch = plan.depthPitch();
  Value zero = arith::ConstantOp::create(b, kernel.loc, plan.tileType(),
                                         b.getZeroAttr(plan.tileType()));
  spread(plan.tileRows() * pitch, "place", [&](Value place) {
    store(zero, states, {math.div(place, pitch), math.rem(place, pitch)});
  });
}

void PersistentRecurrence::takeStates(Value initial) {
  spread(plan.rows * plan.shape.hidden, "place", [&](Value place) {
    Value blockRow = math.div(place, plan.shape.hidden),
          k = math.rem(place, plan.shape.hidden);
    Value row = shown(math.add(firstRow, blockRow), "row");
    kernel.within(plan.shape.batch % plan.rows
                      ? math.less(row, plan.shape.batch)
                      : Value(),
                  [&] {
                    ElementEmitter emitter = makeEmitter();
                    Value state = element(initial, {direction, row, k});
                    emitter.store(emitter.round(state, plan.shape.narrow),
                                  states, {blockRow, k}, 1);
                  });
  });
  kernel.barrier();
}

//===----------------------------------------------------------------------===//
// Exchange between steps
//===----------------------------------------------------------------------===//

Value PersistentRecurrence::copyOf(size_t product, Value step) {
  return products.size() > 1 ? math.constant(int64_t(product))
                             : math.rem(step, 2);
}

void PersistentRecurrence::handOver(Value value, const Item &item, int64_t part,
                                    Value copy) {
  ElementEmitter emitter = makeEmitter();
  Value rounded = emitter.round(value, plan.shape.narrow);
  int64_t first = part * plan.shape.hidden;
  if (!plan.meets()) {
    emitter.store(rounded, states,
                  {item.blockRow, math.add(item.blockUnit, first)}, 1);
    return;
  }
  Value place = math.add(math.mul(copy, plan.shape.directions), direction);
  place = math.add(math.mul(place, plan.shape.batch), item.row);
  place = math.add(math.mul(place, plan.rowElements()), item.unit);
  emitter.store(rounded, handed, math.add(place, first), 1);
}

void PersistentRecurrence::receiveStates(size_t product, Value copy) {
  if (!plan.meets()) {
    kernel.barrier();
    return;
  }
  cuda::GridBarrierOp::create(
      b, kernel.loc, counters,
      math.mul(group, PersistentRnnPlan::kCounterBytes / 4), isFirst,
      b.getI64IntegerAttr(plan.unitSlices()));
  int64_t lanes = movedLanes(plan),
          perRow = products[product].depth * plan.shape.hidden / lanes;
  Value first = math.add(math.mul(copy, plan.shape.directions), direction);
  first = math.add(math.mul(first, plan.shape.batch), firstRow);
  spread(plan.rows * perRow, "part", [&](Value part) {
    Value blockRow = shown(math.div(part, perRow), "block_row");
    Value k = shown(math.mul(math.rem(part, perRow), lanes), "k");
    Value inside;
    if (plan.shape.batch % plan.rows)
      inside = math.less(math.add(firstRow, blockRow), plan.shape.batch);
    kernel.within(inside, [&] {
      Value place =
          math.add(math.mul(math.add(first, blockRow), plan.rowElements()), k);
      ElementEmitter emitter = makeEmitter();
      emitter.store(emitter.load(handed, plan.shape.narrow, place, lanes),
                    states, {blockRow, k}, lanes);
    });
  });
  kernel.barrier();
}

//===----------------------------------------------------------------------===//
// Recurrent GEMM
//
// Two variants. On tensor cores weights are the left operand with 16-column
// tiles, and states the right operand with 8 rows, because batches are small.
// Warps split the columns, then the depth; weight fragments stay in registers
// across steps if they fit. Otherwise a thread multiplies one column with all
// rows by f32 fma, upconverting 16-bit states and weights.
//===----------------------------------------------------------------------===//

int64_t PersistentRecurrence::firstColumn(size_t product) const {
  int64_t column = 0;
  for (const RecurrenceShape::Product &before :
       ArrayRef(products).take_front(product))
    column += plan.columnsOf(before);
  return column;
}

Value PersistentRecurrence::sumOf(int64_t number, const Item &item) {
  Value column = math.add(item.blockUnit, number * plan.units);
  Value sum;
  for (int64_t split = 0; split < plan.splits; ++split) {
    Value part = load(sums, {math.constant(split), item.blockRow, column});
    sum = sum ? values.add(sum, part) : part;
  }
  return sum;
}

void PersistentRecurrence::multiply(size_t product) {
  if (plan.usesMatrixUnits)
    multiplyByUnits(product);
  else
    multiplyByThreads(product);
}

//===----------------------------------------------------------------------===//
// Without tensor cores
//===----------------------------------------------------------------------===//

void PersistentRecurrence::multiplyByThreads(size_t product) {
  constexpr int64_t kRows = 8, kLanes = 4;
  int64_t columns = plan.columnsOf(products[product]),
          part = plan.depthOf(products[product]) / plan.splits,
          first = firstColumn(product);
  spread(columns * plan.splits, "item", [&](Value item) {
    Value column = shown(math.rem(item, columns), "column");
    Value split = shown(math.div(item, columns), "split");
    Value begin = math.mul(split, part);
    for (int64_t row = 0; row < plan.rows; row += kRows) {
      int64_t rows = std::min(kRows, plan.rows - row);
      SmallVector<Value> initial(rows, values.constant(f32, 0));
      auto addUp = [&](Value from, ValueRange carried) {
        Value k = shown(math.add(begin, from), "k");
        SmallVector<Value> weight;
        for (int64_t e = 0; e < kLanes; ++e)
          weight.push_back(
              shown(load(weights, {math.add(k, e), math.add(column, first)}),
                    "weight"));
        Carried next(carried);
        for (auto [i, sum] : llvm::enumerate(next)) {
          Value state =
              shown(math.load(states,
                              {math.constant(row + static_cast<int64_t>(i)), k},
                              kLanes),
                    "state");
          for (int64_t e = 0; e < kLanes; ++e)
            sum = values.fma(vector::ExtractOp::create(b, kernel.loc, state, e),
                             weight[e], sum);
        }
        return next;
      };
      Carried total = math.loop(math.constant(0), math.constant(part), kLanes,
                                initial, addUp);
      for (int64_t i = 0; i < rows; ++i)
        store(total[i], sums, {split, math.constant(row + i), column});
    }
  });
}

//===----------------------------------------------------------------------===//
// Tensor cores
//===----------------------------------------------------------------------===//

WarpMma PersistentRecurrence::warpMma() const {
  return {kernel,
          *mmaUnit(plan.shape.narrow, ComputeMode::native, kernel.target)};
}

WarpOperand PersistentRecurrence::weightsOfWarp(size_t product,
                                                Value columnWarp,
                                                int64_t tiles) {
  Value row = math.add(math.mul(columnWarp, 16 * tiles), firstColumn(product));
  return {weights, /*alongDepth=*/true, {}, row};
}

namespace {
/// A warp's share of a GEMM.
struct WarpPart {
  WarpPart(IndexMath math, GpuKernel &kernel, const PersistentRnnPlan &plan,
           const RecurrenceShape::Product &product) {
    int64_t columnWarps = plan.threads / 32 / plan.splits;
    tiles = plan.columnsOf(product) / 16 / columnWarps;
    rowTiles = plan.tileRows() / 8;
    steps = plan.depthOf(product) / 16 / plan.splits;
    Value warp =
        gpu::SubgroupIdOp::create(math.b, kernel.loc, /*upper_bound=*/nullptr);
    columnWarp = named(math, math.rem(warp, columnWarps), "column_warp");
    split = named(math, math.div(warp, columnWarps), "split");
  }

  /// Blocks of 16 columns and of 8 rows, and instructions along the depth.
  int64_t tiles, rowTiles, steps;
  Value columnWarp, split;
};
} // namespace

void PersistentRecurrence::holdFragments() {
  WarpMma mma = warpMma();
  for (auto [product, extents] : llvm::enumerate(products)) {
    WarpPart part(math, kernel, plan, extents);
    Value held = kernel.local({part.steps, part.tiles, 4}, b.getI32Type(),
                              "heldWeights");
    WarpOperand from = weightsOfWarp(product, part.columnWarp, part.tiles);
    unrolled(kernel, part.steps, "s", [&](Value s) {
      Value k = math.mul(math.add(math.mul(part.split, part.steps), s), 16);
      mma.loadLeft(slotOf(kernel, held, s), from, k);
    });
    fragments.push_back(held);
  }
}

void PersistentRecurrence::multiplyByUnits(size_t product) {
  WarpMma mma = warpMma();
  WarpPart part(math, kernel, plan, products[product]);
  Value left, right = mma.rightFragments(part.rowTiles, "stateFragments"),
              partial = mma.sums(part.tiles, part.rowTiles, "partial");
  fill(kernel, partial, 0);
  if (fragments.empty())
    left = mma.leftFragments(part.tiles, "weightFragments");
  WarpOperand from = weightsOfWarp(product, part.columnWarp, part.tiles);
  WarpOperand state = {states, /*alongDepth=*/true, {}, math.constant(0)};
  unrolled(kernel, part.steps, "s", [&](Value s) {
    Value k = named(
        math, math.mul(math.add(math.mul(part.split, part.steps), s), 16), "k");
    if (fragments.empty())
      mma.loadLeft(left, from, k);
    mma.loadRight(right, state, k);
    mma.multiply(partial,
                 fragments.empty() ? left
                                   : slotOf(kernel, fragments[product], s),
                 right);
  });
  Value lane = mma.group(), pair = mma.pair();
  unrolled(kernel, part.tiles, "i", [&](Value i) {
    Value column = math.add(
        math.mul(math.add(math.mul(part.columnWarp, part.tiles), i), 16), lane);
    unrolled(kernel, part.rowTiles, "j", [&](Value j) {
      Value row = math.add(math.mul(j, 8), pair);
      for (int64_t e = 0; e < 4; ++e)
        store(
            load(partial, {i, j, math.constant(e)}), sums,
            {part.split, math.add(row, e % 2), math.add(column, 8 * (e / 2))});
    });
  });
}
