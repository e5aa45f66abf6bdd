//===- RowEmitter.cpp - walks over rows and groups of threads -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using arith::CmpIPredicate;

/// Longer walks are left to the compiler to unroll.
static constexpr int64_t kUnrolledSteps = 8, kWarp = 32;

RowEmitter::RowEmitter(GpuKernel &kernel, std::unique_ptr<RowPlan> given)
    : kernel(kernel), plan(std::move(given)), form(plan->form()),
      geometry(kernel.schedule),
      emitter(kernel.builder, kernel.loc, cudaElementTarget()),
      math(kernel.builder, kernel.loc, cudaElementTarget()),
      index{kernel.builder, kernel.loc} {}

LogicalResult RowEmitter::run() {
  if (plan->rowCount() == 0)
    return success();
  bindArguments();
  if (!plan->columnSums().empty())
    return runRounds();
  placeThread();
  placeItem();
  placeMember();
  return emitItem();
}

LogicalResult RowEmitter::runRounds() {
  columnSums.emplace(kernel, *plan, geometry, emitter);
  placeThread();
  placeMember();
  columnSums->begin(start, column);
  FailureOr<Carried> done =
      carryLoop(emitter, emitter.index(0), emitter.index(geometry.rounds), 1,
                {}, [&](Value round, ValueRange) -> FailureOr<Carried> {
                  placeItem(round);
                  if (failed(emitItem()))
                    return failure();
                  // The next items' warps use the same shared memory.
                  if (geometry.rounds > 1 && geometry.group > kWarp)
                    kernel.barrier();
                  return Carried{};
                });
  return failed(done) ? failure() : columnSums->finish();
}

LogicalResult RowEmitter::emitItem() {
  for (ReshapeOp reshape : form.reshapes)
    emitter.bindSource(reshape.getResult(), [this, reshape](ValueRange, int64_t,
                                                            Value) mutable {
      Value input = reshape.getInput();
      int64_t lanes = form.isVertical() ? geometry.vector : 1;
      return emitter.emit(input, form.rowIndices(emitter, at, shapeOf(input)),
                          lanes);
    });
  if (plan->isOneWalk())
    return runOneWalk();
  for (; number < form.ops.size(); ++number)
    if (failed(emitOp(form.ops[number])))
      return failure();
  return storeResults();
}

void RowEmitter::bindArguments() {
  func::FuncOp function = plan->function();
  for (auto [argument, memref] :
       llvm::zip(function.getArguments(), kernel.inputs))
    emitter.bindMemory(argument, emitter.viewAs(memref, shapeOf(argument)));
  for (const RowResult &result : plan->results())
    results.push_back({&result, emitter.viewAs(kernel.outputs[result.number],
                                               shapeOf(result.result))});
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

void RowEmitter::placeThread() {
  Value thread = kernel.named(kernel.thread(), "thread");
  Value mine;
  if (form.isVertical()) {
    mine = index.rem(thread, geometry.items);
    member = index.div(thread, geometry.items);
  } else {
    mine = index.div(thread, geometry.group);
    member = index.rem(thread, geometry.group);
  }
  if (geometry.items == 1) {
    mine = {};
    member = thread;
  } else if (geometry.group == 1) {
    mine = thread;
    member = emitter.index(0);
  }
  column = mine;
  if (mine && mine != thread)
    kernel.named(mine, "item");
  if (member != thread && geometry.group > 1)
    kernel.named(member, form.isVertical() ? "line" : "member");
}

void RowEmitter::placeItem(Value round) {
  int64_t count = plan->items(geometry.vector),
          atOnce = kernel.schedule.blocks[0] * geometry.items;
  Value item = kernel.block();
  if (column)
    item = index.add(index.mul(item, geometry.items), column);
  if (round)
    item = index.add(index.mul(round, atOnce), item);
  if (round ? geometry.rounds * atOnce != count : count % geometry.items != 0) {
    active = index.less(item, count);
    item = index.min(item, count - 1);
  }
  kernel.named(item, form.isVertical() ? "column" : "row");

  SmallVector<int64_t> counts;
  for (auto [dim, extent] : llvm::enumerate(form.shape))
    if (!form.isAxis(dim))
      counts.push_back(extent);
  if (form.isVertical())
    counts.back() /= geometry.vector;
  SmallVector<Value> places = index.delinearize(item, counts);
  if (form.isVertical())
    places.back() = index.mul(places.back(), geometry.vector);
  at.assign(form.shape.size(), emitter.index(0));
  size_t next = 0;
  for (size_t dim = 0; dim < at.size(); ++dim)
    if (!form.isAxis(dim))
      at[dim] = places[next++];
}

void RowEmitter::placeMember() {
  if (geometry.group > 1)
    first = arith::CmpIOp::create(kernel.builder, kernel.loc, CmpIPredicate::eq,
                                  member, emitter.index(0));
  int64_t width = form.isVertical() ? 1 : geometry.vector;
  start = index.mul(member, width);
  if (geometry.splits > 1)
    start = index.add(index.mul(kernel.block(gpu::Dimension::y),
                                geometry.steps * geometry.group * width),
                      start);
  if (start != member)
    kernel.named(start, "start");
}

void RowEmitter::setPosition(Value iteration) {
  step = iteration;
  int64_t stride = geometry.group * (form.isVertical() ? 1 : geometry.vector);
  position = index.add(index.mul(iteration, stride), start);
  if (geometry.steps > 1)
    kernel.named(position, "position");
  inside = geometry.splits * geometry.steps * stride == plan->length()
               ? Value()
               : index.less(position, plan->length());
  SmallVector<int64_t> extents;
  for (int64_t axis : form.axes)
    extents.push_back(form.shape[axis]);
  for (auto [axis, place] :
       llvm::zip(form.axes, index.delinearize(position, extents)))
    at[axis] = place;
}

//===----------------------------------------------------------------------===//
// Walks
//===----------------------------------------------------------------------===//

FailureOr<Carried>
RowEmitter::guarded(Value condition, ValueRange otherwise,
                    llvm::function_ref<FailureOr<Carried>()> body) {
  if (!condition)
    return body();
  OpBuilder &builder = kernel.builder;
  auto branch =
      scf::IfOp::create(builder, kernel.loc, otherwise.getTypes(), condition,
                        /*withElseRegion=*/!otherwise.empty());
  OpBuilder::InsertionGuard guard(builder);
  Block &block = *branch.thenBlock();
  if (otherwise.empty())
    builder.setInsertionPoint(block.getTerminator());
  else
    builder.setInsertionPointToEnd(&block);
  FailureOr<Carried> values = body();
  if (failed(values) || otherwise.empty())
    return values;
  scf::YieldOp::create(builder, kernel.loc, *values);
  builder.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(builder, kernel.loc, otherwise);
  return Carried(branch.getResults());
}

FailureOr<Carried> RowEmitter::walkOwn(ValueRange initial, Body body) {
  bool unrolled =
      geometry.keep == RowKeep::Registers || geometry.steps <= kUnrolledSteps;
  Block *outside = kernel.builder.getInsertionBlock();
  return carryLoop(
      emitter, emitter.index(0), emitter.index(geometry.steps), 1, initial,
      [&](Value iteration, ValueRange carried) -> FailureOr<Carried> {
        Block *block = kernel.builder.getInsertionBlock();
        if (unrolled && block != outside)
          block->getParentOp()->setAttr(kUnrollAttr,
                                        kernel.builder.getUnitAttr());
        setPosition(iteration);
        return guarded(inside, carried, [&]() -> FailureOr<Carried> {
          ReductionLoop::Place place{
              at, geometry.vector, {0, form.shape.back()}, {}};
          FailureOr<Carried> values = body(place, carried);
          if (failed(values) || (fresh && failed(onFirstWalk(place))))
            return failure();
          return values;
        });
      });
}

FailureOr<Carried> RowEmitter::walk(ValueRange initial, StringRef name,
                                    Kind kind, Body body, Join join) {
  Carried wide;
  for (Value value : initial)
    wide.push_back(spread(value));
  FailureOr<Carried> own = walkOwn(wide, body);
  if (failed(own))
    return failure();
  if (fresh)
    afterFirstWalk();
  std::string partial =
      "partial" + name.take_front().upper() + name.drop_front().str();
  for (Value value : *own)
    kernel.named(value, partial);
  return joinAll(*own, name, kind, join);
}

//===----------------------------------------------------------------------===//
// Kept tensors
//===----------------------------------------------------------------------===//

RowEmitter::Buffer RowEmitter::makeBuffer(Type element, StringRef name) {
  int64_t steps = std::max<int64_t>(geometry.steps, 1);
  if (geometry.keep == RowKeep::Registers)
    return {kernel.local(steps, lanesOf(element, geometry.vector), name),
            element};
  int64_t threads = geometry.group * geometry.items;
  int64_t count = steps * threads * geometry.vector;
  if (!dynamicShared) {
    auto space = gpu::AddressSpaceAttr::get(kernel.builder.getContext(),
                                            gpu::AddressSpace::Workgroup);
    auto bytes =
        MemRefType::get({ShapedType::kDynamic}, kernel.builder.getI8Type(),
                        MemRefLayoutAttrInterface(), space);
    dynamicShared =
        gpu::DynamicSharedMemoryOp::create(kernel.builder, kernel.loc, bytes);
  }
  auto space = cast<MemRefType>(dynamicShared.getType()).getMemorySpace();
  Value view = memref::ViewOp::create(
      kernel.builder, kernel.loc,
      MemRefType::get({count}, element, MemRefLayoutAttrInterface(), space),
      dynamicShared, index.constant(sharedOffset), ValueRange{});
  sharedOffset += count * bytesPerElement(element);
  return {kernel.named(view, name), element};
}

Value RowEmitter::bufferIndex() {
  if (geometry.keep == RowKeep::Registers)
    return step;
  // Each thread reads what it wrote itself.
  int64_t threads = geometry.group * geometry.items;
  return index.mul(index.add(index.mul(step, threads), kernel.thread()),
                   geometry.vector);
}

void RowEmitter::save(const Buffer &buffer, Value value) {
  value = spread(value);
  if (geometry.keep == RowKeep::Registers)
    memref::StoreOp::create(kernel.builder, kernel.loc, value, buffer.memref,
                            bufferIndex());
  else
    emitter.store(value, buffer.memref, bufferIndex(), geometry.vector);
}

Value RowEmitter::saved(const Buffer &buffer) {
  if (geometry.keep == RowKeep::Registers)
    return memref::LoadOp::create(kernel.builder, kernel.loc, buffer.memref,
                                  bufferIndex());
  return emitter.load(buffer.memref, buffer.element, bufferIndex(),
                      geometry.vector);
}

LogicalResult RowEmitter::onFirstWalk(const ReductionLoop::Place &place) {
  if (number == 0) {
    SmallVector<Stored> early;
    for (const Stored &stored : results)
      if (plan->isEarly(stored.row()))
        early.push_back(stored);
    bool sums = columnSums && plan->sumsOnFirstWalk();
    auto use = [&]() -> FailureOr<Carried> {
      if (sums && failed(addToSums(place)))
        return failure();
      return store(early, place.indices, place.lanes);
    };
    FailureOr<Carried> done =
        early.empty() && !sums ? Carried{} : guarded(active, {}, use);
    if (failed(done))
      return failure();
  }
  for (auto [tensor, walk] : plan->kept()) {
    auto buffer = buffers.find(tensor);
    if (walk != number || buffer == buffers.end())
      continue;
    FailureOr<Value> value = inputAt(tensor, place);
    if (failed(value))
      return failure();
    save(buffer->second, *value);
  }
  return success();
}

void RowEmitter::startOp() {
  fresh = true;
  if (geometry.keep == RowKeep::Nowhere)
    return;
  for (auto [tensor, walk] : plan->kept())
    if (walk == number)
      buffers[tensor] = makeBuffer(
          carriedType(getElementTypeOrSelf(tensor.getType())), "values");
}

void RowEmitter::afterFirstWalk() {
  fresh = false;
  for (auto [tensor, walk] : plan->kept()) {
    auto found = buffers.find(tensor);
    if (walk != number || found == buffers.end())
      continue;
    Buffer buffer = found->second;
    emitter.bindSource(tensor, [this, buffer](ValueRange, int64_t, Value) {
      return FailureOr<Value>(saved(buffer));
    });
  }
}

LogicalResult mpc::emitRows(GpuKernel &kernel) {
  std::unique_ptr<RowPlan> plan = RowPlan::of(kernel.kernel);
  if (!plan)
    return kernel.kernel.emitError()
           << "kernel '" << kernel.kernel.getName()
           << "' is scheduled by rows but has no row form";
  return RowEmitter(kernel, std::move(plan)).run();
}
