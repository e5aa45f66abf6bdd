//===- ThreadGroupLowering.cpp - tile programs on thread groups
//--------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ThreadGroupLowering.h"

#include "../Emit/KernelAttributes.h"

#include "Target/Kernel/TileRegions.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::tile;
using arith::CmpIPredicate;

/// Maximum unrolled steps, and warp size.
static constexpr int64_t kUnrolledSteps = 8, kWarp = 32;

ThreadGroupLowering::ThreadGroupLowering(gpu::GPUFuncOp function, ForEachOp own)
    : own(own), team(own.getTeamAttr()),
      kernel{function, OpBuilder(own), own.getLoc(), scratchOf(function),
             team ? team.getFirstBlock() : 0},
      emitter(kernel.builder, kernel.loc, cudaElementTarget()),
      math(kernel.builder, kernel.loc), index{kernel.builder, kernel.loc} {}

LogicalResult ThreadGroupLowering::lower() {
  if (!team)
    return own.emitOpError("has no team; kernels of a GPU need one");
  if (failed(checkLaunch()))
    return failure();
  Block &block = own.getBody().front();
  SmallVector<AccumulatorsOp> summed;
  SmallVector<TotalOp> totals;
  own->getBlock()->walk([&](Operation *op) {
    if (auto sum = dyn_cast<AccumulatorsOp>(op))
      summed.push_back(sum);
    else if (auto total = dyn_cast<TotalOp>(op))
      totals.push_back(total);
  });
  placeThread();
  LogicalResult result = success();
  if (summed.empty() && team.getRounds() == 1) {
    placeItem();
    placeMember();
    result = moveItem(block);
  } else {
    placeMember();
    if (!summed.empty()) {
      sums.emplace(kernel, team, emitter, summed, totals);
      sums->begin(start, column);
    }
    result = moveRounds(block);
    if (sums && succeeded(result))
      result = sums->finish();
  }
  if (failed(result))
    return failure();
  own.erase();
  for (auto [keep, buffer] : buffers)
    keep.getDefiningOp()->erase();
  for (TotalOp total : totals)
    total.erase();
  for (AccumulatorsOp sum : summed)
    sum.erase();
  return success();
}

/// Verifies that the launched grid covers all work items.
LogicalResult ThreadGroupLowering::checkLaunch() {
  auto grid = kernel.function.getKnownGridSize();
  auto block = kernel.function.getKnownBlockSize();
  int64_t threads = team.getMembers() * team.getItems();
  if (!grid || !block || block->front() != threads)
    return own.emitOpError("is of teams that make blocks of ")
           << threads << " threads; the kernel has "
           << (block ? block->front() : 0);
  int64_t blocks = team.getEveryBlock() ? 1 : (*grid)[0] - team.getFirstBlock();
  int64_t taken = blocks * team.getItems() * team.getRounds();
  if (taken < static_cast<int64_t>(own.getCount()))
    return own.emitOpError("has ") << own.getCount() << " items; " << blocks
                                   << " blocks take " << taken;
  if ((*grid)[1] != team.getSplits())
    return own.emitOpError("is shared by ")
           << team.getSplits() << " blocks; the grid has " << (*grid)[1];
  return success();
}

LogicalResult ThreadGroupLowering::moveRounds(Block &block) {
  FailureOr<Carried> done =
      carryLoop(emitter, emitter.index(0), emitter.index(team.getRounds()), 1,
                {}, [&](Value round, ValueRange) -> FailureOr<Carried> {
                  placeItem(round);
                  if (failed(moveItem(block)))
                    return failure();
                  // The warps reuse shared memory for the next items.
                  if (team.getRounds() > 1 && team.getMembers() > kWarp)
                    kernel.barrier();
                  return Carried{};
                });
  return success(succeeded(done));
}

LogicalResult ThreadGroupLowering::moveItem(Block &block) {
  OpBuilder &builder = kernel.builder;
  while (!block.empty() && !isa<tile::YieldOp>(block.front())) {
    Operation *op = &block.front();
    LogicalResult result = success();
    if (auto walk = dyn_cast<ItemLoopOp>(op)) {
      result = lowerWalk(walk);
    } else if (auto join = dyn_cast<ItemReduceOp>(op)) {
      if (team.getSplits() > 1) {
        SmallVector<ItemReduceOp> joins;
        for (; join; join = dyn_cast<ItemReduceOp>(*join->getNextNode()))
          joins.push_back(join);
        return joinBlocks(joins, block);
      }
      op->replaceAllUsesWith(joinAll(join));
    } else if (auto commit = dyn_cast<ItemStoreOp>(op)) {
      result = lowerCommit(commit);
    } else if (auto keep = dyn_cast<ItemBufferOp>(op)) {
      result = makeBuffer(keep);
      keep->moveBefore(own);
      continue;
    } else if (auto saved = dyn_cast<BufferWriteOp>(op)) {
      save(saved);
    } else if (auto kept = dyn_cast<BufferReadOp>(op)) {
      kept.replaceAllUsesWith(load(kept));
    } else if (auto add = dyn_cast<AccumulateOp>(op)) {
      sums->add(add, step, position);
    } else {
      op->moveBefore(builder.getInsertionBlock(), builder.getInsertionPoint());
      op->walk([&](BufferReadOp kept) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPoint(kept);
        kept.replaceAllUsesWith(load(kept));
        kept.erase();
      });
      continue;
    }
    if (failed(result))
      return failure();
    op->erase();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Thread and item indices
//===----------------------------------------------------------------------===//

void ThreadGroupLowering::placeThread() {
  int64_t items = team.getItems(), members = team.getMembers();
  Value thread = kernel.named(kernel.thread(), "thread");
  Value mine;
  if (team.getColumns()) {
    mine = index.rem(thread, items);
    member = index.div(thread, items);
  } else {
    mine = index.div(thread, members);
    member = index.rem(thread, members);
  }
  if (items == 1) {
    mine = {};
    member = thread;
  } else if (members == 1) {
    mine = thread;
    member = emitter.index(0);
  }
  column = mine;
  if (mine && mine != thread)
    kernel.named(mine, "item");
  if (member != thread && members > 1)
    kernel.named(member, team.getColumns() ? "line" : "member");
}

void ThreadGroupLowering::placeItem(Value round) {
  int64_t count = own.getCount(), items = team.getItems(),
          blocks = team.getEveryBlock() ? 1 : kernel.blocks(),
          atOnce = blocks * items;
  Value item = team.getEveryBlock() ? index.constant(0) : kernel.block();
  if (column)
    item = index.add(index.mul(item, items), column);
  if (round)
    item = index.add(index.mul(round, atOnce), item);
  if (round ? team.getRounds() * atOnce != count : count % items != 0) {
    active = index.less(item, count);
    item = index.min(item, count - 1);
  }
  kernel.named(item, team.getColumns() ? "column" : "row");
  own.getItem().replaceAllUsesWith(item);
}

void ThreadGroupLowering::placeMember() {
  if (team.getMembers() > 1)
    first = arith::CmpIOp::create(kernel.builder, kernel.loc, CmpIPredicate::eq,
                                  member, emitter.index(0));
  int64_t width = team.getColumns() ? 1 : team.getVector();
  start = index.mul(member, width);
  if (team.getSplits() > 1)
    start = index.add(index.mul(kernel.block(gpu::Dimension::y),
                                team.getSteps() * team.getMembers() * width),
                      start);
  if (start != member)
    kernel.named(start, "start");
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

SmallVector<Value> ThreadGroupLowering::setPosition(ItemLoopOp walk,
                                                    Value iteration) {
  step = iteration;
  int64_t length = 1, stride = team.getMembers() *
                               (team.getColumns() ? 1 : team.getVector());
  for (int64_t extent : walk.getTo())
    length *= extent;
  position = index.add(index.mul(iteration, stride), start);
  if (team.getSteps() > 1)
    kernel.named(position, "position");
  inside = team.getSplits() * team.getSteps() * stride == length
               ? Value()
               : index.less(position, length);
  return index.delinearize(position, walk.getTo());
}

FailureOr<Carried>
ThreadGroupLowering::guarded(Value condition, ValueRange otherwise,
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

LogicalResult ThreadGroupLowering::lowerWalk(ItemLoopOp walk) {
  int64_t by = team.getColumns() ? 1 : team.getVector();
  bool fits = int64_t(walk.getBy()) == by && walk.getTo().back() % by == 0 &&
              llvm::all_of(walk.getFrom(), [](int64_t at) { return at == 0; });
  if (!fits)
    return walk.emitOpError()
           << "goes by " << walk.getBy() << " from " << walk.getFrom().back()
           << " to " << walk.getTo().back() << "; a team of vectors of " << by
           << " walks whole lines of whole vectors";
  bool unrolled =
      team.getKeep() == Place::registers || team.getSteps() <= kUnrolledSteps;
  OpBuilder &builder = kernel.builder;
  Block *outside = builder.getInsertionBlock();
  auto step = [&](Value iteration, ValueRange carried) -> FailureOr<Carried> {
    Block *block = builder.getInsertionBlock();
    if (unrolled && block != outside)
      block->getParentOp()->setAttr(kUnrollAttr, builder.getUnitAttr());
    SmallVector<Value> arguments = setPosition(walk, iteration);
    llvm::append_range(arguments, carried);
    Block &body = walk.getBody().front();
    for (auto [argument, value] :
         llvm::zip_equal(body.getArguments(), arguments))
      argument.replaceAllUsesWith(value);
    return guarded(inside, carried, [&]() -> FailureOr<Carried> {
      if (failed(moveItem(body)))
        return failure();
      return Carried(body.getTerminator()->getOperands());
    });
  };
  Value begin = emitter.index(0), end = emitter.index(team.getSteps());
  FailureOr<Carried> values =
      addsUp(walk) ? sumLoop(emitter, begin, end, 1, walk.getInitial(),
                             walk.getInitial(), /*terms=*/1, step)
                   : carryLoop(emitter, begin, end, 1, walk.getInitial(), step);
  if (failed(values))
    return failure();
  walk->replaceAllUsesWith(*values);
  return success();
}

LogicalResult ThreadGroupLowering::lowerCommit(ItemStoreOp commit) {
  Value condition = active;
  if (commit.getOnce() && first)
    condition = active ? math.bitAnd(first, active) : first;
  FailureOr<Carried> done = guarded(condition, {}, [&]() -> FailureOr<Carried> {
    if (failed(moveItem(commit.getBody().front())))
      return failure();
    return Carried{};
  });
  return success(succeeded(done));
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

LogicalResult ThreadGroupLowering::makeBuffer(ItemBufferOp keep) {
  Type element = keep.getType().getElement();
  int64_t steps = team.getSteps(), vector = team.getVector();
  if (team.getKeep() == Place::nowhere)
    return keep.emitOpError("is of a team that keeps nothing");
  if (team.getKeep() == Place::registers) {
    buffers[keep] =
        kernel.local(steps, lanesOf(element, vector), keep.getName());
    return success();
  }
  int64_t count = steps * team.getMembers() * team.getItems() * vector;
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
  buffers[keep] = kernel.named(view, keep.getName());
  return success();
}

Value ThreadGroupLowering::bufferIndex(int64_t lanes) {
  if (team.getKeep() == Place::registers)
    return step;
  // Each thread only reads its own values.
  int64_t threads = team.getMembers() * team.getItems();
  return index.mul(index.add(index.mul(step, threads), kernel.thread()), lanes);
}

void ThreadGroupLowering::save(BufferWriteOp op) {
  Value buffer = buffers.at(op.getPlace());
  int64_t lanes = team.getVector();
  if (team.getKeep() == Place::registers)
    memref::StoreOp::create(kernel.builder, kernel.loc, op.getValue(), buffer,
                            bufferIndex(lanes));
  else
    emitter.store(op.getValue(), buffer, bufferIndex(lanes), lanes);
}

Value ThreadGroupLowering::load(BufferReadOp op) {
  Value buffer = buffers.at(op.getPlace());
  int64_t lanes = team.getVector();
  if (team.getKeep() == Place::registers)
    return memref::LoadOp::create(kernel.builder, kernel.loc, buffer,
                                  bufferIndex(lanes));
  return emitter.load(buffer, op.getPlace().getType().getElement(),
                      bufferIndex(lanes), lanes);
}
