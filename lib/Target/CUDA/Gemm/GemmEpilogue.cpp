//===- GemmEpilogue.cpp - GEMM epilogue fusion ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "Gemm.h"

#include "Target/Kernel/LoopKernels.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Maximum columns per thread and vector: two 128-bit accesses in f32, one in
/// 16-bit types.
static constexpr int64_t kMostEpilogueLanes = 8;

namespace {
/// Data movement from the anchor's result to a value, each step a permutation
/// or, after a marker, a shape (-1), offsets and extents (-2) or a concat
/// offset (-3).
using Moves = SmallVector<SmallVector<int64_t>>;
} // namespace

GemmEpilogue::GemmEpilogue(func::FuncOp kernel, const FusedGemm &problem)
    : anchor(problem.anchor), roots(problem.roots()) {
  for (size_t number = 0; number < kernel.getNumResults(); ++number)
    if (llvm::none_of(
            problem.sums,
            [&](const GemmOperandSum &sum) { return sum.output == number; }) &&
        !llvm::is_contained(problem.pool.outputs, number) &&
        !(problem.rows &&
          llvm::is_contained(problem.rows->outputs(), unsigned(number))))
      outputs.push_back(number);
}

std::optional<GemmEpilogue> GemmEpilogue::of(func::FuncOp kernel,
                                             const FusedGemm &problem,
                                             int64_t columns) {
  GemmEpilogue epilogue(kernel, problem);
  llvm::DenseMap<Value, Moves> moves;
  llvm::DenseMap<Value, int64_t> runs;
  /// Values whose last dimension holds the columns.
  llvm::DenseMap<Value, bool> columnsLast;
  int64_t run = 1;
  if (problem.pair)
    run = powerOfTwoIn(problem.pair->block, kMostEpilogueLanes);
  else if (problem.columnsLast)
    run = powerOfTwoIn(columns ? columns : problem.n, kMostEpilogueLanes);
  for (Value root : epilogue.roots) {
    moves[root] = {};
    epilogue.parents[root] = {};
    columnsLast[root] = problem.columnsLast;
    runs[root] = run;
  }

  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (&op == problem.pool.op)
      continue;
    Value parent;
    for (Value operand : op.getOperands()) {
      if (!moves.contains(operand))
        continue;
      // An element that depends on two positions of the roots cannot be
      // computed from one accumulator.
      if (parent && (moves[parent] != moves[operand] || isa<ConcatOp>(op)))
        return std::nullopt;
      parent = operand;
    }
    if (!parent)
      continue;
    Value value = op.getResult(0);
    Moves path = moves[parent];
    bool last = columnsLast[parent];
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      path.push_back(llvm::to_vector(transpose.getPermutation()));
      last &= transpose.getPermutation().back() + 1 ==
              static_cast<int64_t>(shapeOf(value).size());
    } else if (auto slice = dyn_cast<SliceOp>(op)) {
      if (llvm::any_of(slice.getStrideValues(),
                       [](int64_t stride) { return stride != 1; }))
        return std::nullopt;
      SmallVector<int64_t> entry = {-2};
      llvm::append_range(entry, slice.getOffsets());
      llvm::append_range(entry, shapeOf(value));
      path.push_back(entry);
      int64_t part = last && !shapeOf(value).empty()
                         ? powerOfTwoIn(slice.getOffsets().back(),
                                        powerOfTwoIn(shapeOf(value).back(),
                                                     kMostEpilogueLanes))
                         : 1;
      runs[value] = alignedRunOf(parent, part, runs);
      epilogue.steps.push_back(value);
    } else if (isa<ReshapeOp>(op)) {
      SmallVector<int64_t> entry = {-1};
      llvm::append_range(entry, shapeOf(value));
      path.push_back(entry);
      runs[value] =
          last && !shapeOf(value).empty()
              ? powerOfTwoIn(shapeOf(value).back(),
                             alignedRunOf(parent, kMostEpilogueLanes, runs))
              : 1;
      epilogue.steps.push_back(value);
    } else if (auto concat = dyn_cast<ConcatOp>(op)) {
      auto axis = static_cast<int64_t>(concat.getAxis());
      int64_t offset = offsetIn(concat, parent);
      path.push_back({-3, axis, offset});
      bool isCut = axis + 1 == static_cast<int64_t>(shapeOf(value).size());
      runs[value] = alignedRunOf(
          parent,
          isCut ? powerOfTwoIn(offset, kMostEpilogueLanes) : kMostEpilogueLanes,
          runs);
      epilogue.steps.push_back(value);
    } else if (!isa<ElementwiseOpInterface>(op) ||
               shapeOf(value) != shapeOf(parent)) {
      return std::nullopt;
    }
    moves[value] = path;
    columnsLast[value] = last;
    epilogue.parents[value] = parent;
  }

  epilogue.lanes = run;
  auto results = kernel.getBody().front().getTerminator()->getOperands();
  if (epilogue.outputs.empty() && !problem.pool.op)
    return std::nullopt;
  auto limit = [&](Value value) {
    if (!columnsLast[value])
      epilogue.lanes = 1;
    else
      epilogue.lanes =
          std::min(epilogue.lanes, alignedRunOf(value, epilogue.lanes, runs));
  };
  for (Value step : epilogue.steps) {
    limit(epilogue.parents.lookup(step));
    limit(step);
  }
  for (size_t number : epilogue.outputs) {
    if (!moves.contains(results[number]))
      return std::nullopt;
    limit(results[number]);
  }
  if (problem.pool.op)
    limit(problem.pool.op->getOperand(0));
  if (!epilogue.outputs.empty())
    epilogue.rowsFastest = !columnsLast[results[epilogue.outputs.front()]] &&
                           !problem.columnsNearer;
  return epilogue;
}

LogicalResult GemmEpilogue::emit(GpuKernel &kernel, ArrayRef<Value> sums,
                                 ValueRange indices) const {
  return success(succeeded(emitWith(kernel, sums, indices, roots.front())));
}

FailureOr<Value> GemmEpilogue::emitWith(GpuKernel &kernel, ArrayRef<Value> sums,
                                        ValueRange indices,
                                        Value wanted) const {
  OpBuilder &b = kernel.builder;
  Location loc = anchor->getLoc();
  IndexMath math{b, loc};
  ElementEmitter emitter(b, loc, cudaElementTarget());
  kernel.bindInputs(emitter);
  for (auto [root, sum] : llvm::zip_equal(roots, sums))
    emitter.bindValue(root,
                      emitter.round(sum, getElementTypeOrSelf(root.getType())));

  Places places;
  auto begin = [&] {
    places.clear();
    for (Value root : roots)
      places[root] = SmallVector<Value>(indices);
  };
  begin();
  auto emitAt = [&](Value value) {
    return emitter.emit(value, placeOf(math, places, value), lanes);
  };
  auto results = kernel.kernel.getBody().front().getTerminator()->getOperands();
  for (size_t number : outputs) {
    Value output = results[number];
    OpBuilder::InsertionGuard guard(b);
    for (Value step : steps) {
      if (!reaches(step, output))
        continue;
      FailureOr<Value> value = emitAt(parents.lookup(step));
      if (failed(value))
        return failure();
      // Skip elements outside a slice.
      if (Value inside = insideSlice(math, step, placeOf(math, places, step))) {
        auto branch = scf::IfOp::create(b, loc, inside);
        b.setInsertionPoint(branch.thenBlock()->getTerminator());
      }
      emitter.bindValue(step, *value);
    }
    FailureOr<Value> value = emitAt(output);
    if (failed(value))
      return failure();
    emitter.store(*value, kernel.outputs[number], placeOf(math, places, output),
                  lanes);
    for (Value step : steps)
      emitter.unbind(step);
    begin();
  }
  return emitAt(wanted);
}

SmallVector<Value> GemmEpilogue::placeOf(const IndexMath &math, Places &places,
                                         Value value) const {
  if (auto known = places.find(value); known != places.end())
    return known->second;
  Value parent = parents.lookup(value);
  SmallVector<Value> from = placeOf(math, places, parent), at = from;
  if (auto transpose = value.getDefiningOp<TransposeOp>()) {
    for (auto [to, dim] : llvm::enumerate(transpose.getPermutation()))
      at[to] = from[dim];
  } else if (auto slice = value.getDefiningOp<SliceOp>()) {
    for (auto [index, offset] : llvm::zip(at, slice.getOffsets()))
      index = math.sub(index, math.constant(offset));
  } else if (auto concat = value.getDefiningOp<ConcatOp>()) {
    Value &index = at[concat.getAxis()];
    index = math.add(index, offsetIn(concat, parent));
  } else if (value.getDefiningOp<ReshapeOp>()) {
    at = reshapeIndices(math, from, shapeOf(parent), shapeOf(value));
  }
  places[value] = at;
  return at;
}

int64_t GemmEpilogue::offsetIn(ConcatOp concat, Value part) {
  int64_t offset = 0;
  for (Value input : concat.getInputs()) {
    if (input == part)
      break;
    offset += shapeOf(input)[concat.getAxis()];
  }
  return offset;
}

bool GemmEpilogue::reaches(Value step, Value output) const {
  SmallVector<Value> work = {output};
  llvm::DenseSet<Value> visited;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (value == step)
      return true;
    if (value.getDefiningOp() && parents.contains(value) &&
        visited.insert(value).second)
      llvm::append_range(work, value.getDefiningOp()->getOperands());
  }
  return false;
}

Value GemmEpilogue::insideSlice(const IndexMath &math, Value step,
                                ArrayRef<Value> place) {
  auto slice = step.getDefiningOp<SliceOp>();
  if (!slice)
    return {};
  Value inside;
  ArrayRef<int64_t> from = shapeOf(slice.getInput());
  for (auto [dim, extent] : llvm::enumerate(shapeOf(step))) {
    if (extent == from[dim])
      continue;
    // As unsigned, indices before the slice exceed the extent too.
    Value fits = math.less(place[dim], extent);
    inside = inside ? math.b.createOrFold<arith::AndIOp>(math.loc, inside, fits)
                    : fits;
  }
  return inside;
}

SmallVector<Value> GemmEpilogue::reshapeIndices(const IndexMath &math,
                                                ArrayRef<Value> indices,
                                                ArrayRef<int64_t> from,
                                                ArrayRef<int64_t> to) {
  // Equal leading and trailing dimensions keep their indices.
  size_t front = 0, back = 0;
  while (front < from.size() && front < to.size() && from[front] == to[front])
    ++front;
  while (back + front < from.size() && back + front < to.size() &&
         from[from.size() - 1 - back] == to[to.size() - 1 - back])
    ++back;
  Value position = math.constant(0);
  for (size_t i = front; i < from.size() - back; ++i)
    position = math.add(math.mul(position, from[i]), indices[i]);
  SmallVector<Value> result(indices.take_front(front));
  llvm::append_range(
      result,
      math.delinearize(position, to.slice(front, to.size() - back - front)));
  llvm::append_range(result, indices.take_back(back));
  return result;
}

//===----------------------------------------------------------------------===//
// Other inputs of a concat
//
// A GEMM that stores its result as one input of a concat also copies the other
// inputs, distributed over its blocks, before their tiles.
//===----------------------------------------------------------------------===//

/// Loads in flight per thread.
static constexpr int64_t kInFlight = 4;

LogicalResult GemmEpilogue::emitRest(GpuKernel &kernel) const {
  auto results = kernel.kernel.getBody().front().getTerminator()->getOperands();
  for (Value step : steps) {
    auto concat = step.getDefiningOp<ConcatOp>();
    if (!concat)
      continue;
    for (size_t output : outputs) {
      if (!reaches(step, results[output]))
        continue;
      // One value may be concatenated several times.
      int64_t offset = 0;
      for (Value part : concat.getInputs()) {
        if (part != parents.lookup(step) &&
            failed(emitPart(kernel, concat, part, offset, output)))
          return failure();
        offset += shapeOf(part)[concat.getAxis()];
      }
    }
  }
  return success();
}

/// Copies `part` into `output`, at `offset` along the concat's axis.
LogicalResult GemmEpilogue::emitPart(GpuKernel &kernel, ConcatOp concat,
                                     Value part, int64_t offset,
                                     size_t output) const {
  OpBuilder &b = kernel.builder;
  Location loc = kernel.loc;
  IndexMath math{b, loc};
  Value result =
      kernel.kernel.getBody().front().getTerminator()->getOperand(output);
  // Dimension `from[d]` of the part is dimension d of the output.
  SmallVector<int64_t> from =
      llvm::to_vector(llvm::seq<int64_t>(0, shapeOf(part).size()));
  SmallVector<TransposeOp> turns;
  for (Value value = result; value != concat.getResult();
       value = parents.lookup(value))
    if (auto transpose = value.getDefiningOp<TransposeOp>())
      turns.push_back(transpose);
  for (TransposeOp transpose : llvm::reverse(turns)) {
    SmallVector<int64_t> before = from;
    for (auto [to, dim] : llvm::enumerate(transpose.getPermutation()))
      from[to] = before[dim];
  }

  // Each thread reads a vector of the part; adjacent threads write adjacent
  // output elements.
  auto last = static_cast<int64_t>(from.size()) - 1;
  bool staysLast = from.back() == last;
  int64_t lanes = alignedRunOf(part, kMostEpilogueLanes);
  if (staysLast)
    lanes = std::min(
        lanes,
        static_cast<int64_t>(concat.getAxis()) == last
            ? powerOfTwoIn(offset, alignedRunOf(result, kMostEpilogueLanes))
            : alignedRunOf(result, kMostEpilogueLanes));
  SmallVector<int64_t> extents;
  for (int64_t dim : from)
    extents.push_back(shapeOf(part)[dim] / (dim == last ? lanes : 1));
  int64_t items = 1;
  for (int64_t extent : extents)
    items *= extent;

  int64_t threads = kernel.schedule.threads, all = kernel.blocks() * threads;
  Value first = math.add(math.mul(kernel.block(), threads), kernel.thread());
  ElementEmitter emitter(b, anchor->getLoc(), cudaElementTarget());
  kernel.bindInputs(emitter);
  Block *outside = b.getInsertionBlock();
  auto copy = [&](Value item) -> LogicalResult {
    Block *block = b.getInsertionBlock();
    if (block != outside)
      block->getParentOp()->setAttr(kUnrollAttr,
                                    b.getI64IntegerAttr(kInFlight));
    kernel.named(item, "itemOfRest");
    SmallVector<Value> places = math.delinearize(item, extents);
    SmallVector<Value> at(from.size());
    for (auto [place, dim] : llvm::zip_equal(places, from))
      at[dim] = dim == last ? math.mul(place, lanes) : place;
    FailureOr<Value> values = emitter.emit(part, at, lanes);
    if (failed(values))
      return failure();
    int64_t width = staysLast ? lanes : 1;
    for (int64_t lane = 0; lane < lanes; lane += width) {
      Value value = *values;
      if (width < lanes)
        value = vector::ExtractOp::create(b, loc, value, lane);
      SmallVector<Value> in = at;
      in[last] = math.add(in[last], lane);
      Value &along = in[concat.getAxis()];
      along = math.add(along, offset);
      Places known = {{concat.getResult(), in}};
      emitter.bindValue(concat.getResult(), value);
      SmallVector<Value> to = placeOf(math, known, result);
      FailureOr<Value> element = emitter.emit(result, to, width);
      if (failed(element))
        return failure();
      emitter.store(*element, kernel.outputs[output], to, width);
      emitter.unbind(concat.getResult());
    }
    return success();
  };
  LogicalResult done = success();
  math.carry(first, math.constant(items), all, {}, [&](Value item, ValueRange) {
    done = copy(item);
    return Carried{};
  });
  return done;
}
