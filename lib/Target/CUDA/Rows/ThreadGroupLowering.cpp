//===- ThreadGroupLowering.cpp - tile programs on thread groups -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ThreadGroupLowering.h"

#include "../Emit/KernelAttributes.h"
#include "../Plan/LastArrivingBlock.h"
#include "Target/Kernel/TileRegions.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;
using namespace mpc::tile;

using arith::CmpIPredicate;

/// Maximum unrolled steps.
static constexpr int64_t kUnrolledSteps = 8;

ThreadGroupLowering::ThreadGroupLowering(gpu::GPUFuncOp function, ForEachOp own)
    : own(own), team(own.getTeamAttr()),
      kernel{function, OpBuilder(own), own.getLoc(), scratchOf(function),
             team ? team.getFirstBlock() : 0},
      emitter(kernel.builder, kernel.loc, cudaElementTarget()),
      math(kernel.builder, kernel.loc), index{kernel.builder, kernel.loc} {}

LogicalResult ThreadGroupLowering::lower() {
  if (!team)
    return own.emitOpError("has no thread mapping, which GPU kernels need");
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
    return own.emitOpError("needs blocks of ")
           << threads << " threads, but the kernel has "
           << (block ? block->front() : 0);
  int64_t blocks = team.getEveryBlock() ? 1 : (*grid)[0] - team.getFirstBlock();
  int64_t taken = blocks * team.getItems() * team.getRounds();
  if (taken < static_cast<int64_t>(own.getCount()))
    return own.emitOpError("has ") << own.getCount() << " items; " << blocks
                                   << " blocks process " << taken;
  if ((*grid)[1] != team.getSplits())
    return own.emitOpError("is split over ")
           << team.getSplits() << " blocks, but the grid has " << (*grid)[1];
  return success();
}

LogicalResult ThreadGroupLowering::moveRounds(Block &block) {
  LogicalResult result = success();
  index.carry(index.constant(0), index.constant(team.getRounds()), 1, {},
              [&](Value round, ValueRange) {
                placeItem(round);
                result = moveItem(block);
                // The warps reuse shared memory for the next items.
                if (team.getRounds() > 1 && team.getMembers() > kWarp)
                  kernel.barrier();
                return Carried{};
              });
  return result;
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
        return reduceBlocks(joins, block);
      }
      op->replaceAllUsesWith(reduceAll(join));
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

LogicalResult ThreadGroupLowering::lowerWalk(ItemLoopOp walk) {
  int64_t by = team.getColumns() ? 1 : team.getVector();
  bool fits = int64_t(walk.getBy()) == by && walk.getTo().back() % by == 0 &&
              llvm::all_of(walk.getFrom(), [](int64_t at) { return at == 0; });
  if (!fits)
    return walk.emitOpError()
           << "loops by " << walk.getBy() << " from " << walk.getFrom().back()
           << " to " << walk.getTo().back()
           << "; a thread mapping with vectors of " << by
           << " needs rows that start at 0 and consist of whole vectors";
  bool unrolled =
      team.getKeep() == Place::registers || team.getSteps() <= kUnrolledSteps;
  OpBuilder &builder = kernel.builder;
  Block *outside = builder.getInsertionBlock();
  LogicalResult result = success();
  auto step = [&](Value iteration, ValueRange carried) {
    Block *block = builder.getInsertionBlock();
    if (unrolled && block != outside)
      block->getParentOp()->setAttr(kUnrollAttr, builder.getUnitAttr());
    SmallVector<Value> arguments = setPosition(walk, iteration);
    llvm::append_range(arguments, carried);
    Block &body = walk.getBody().front();
    for (auto [argument, value] :
         llvm::zip_equal(body.getArguments(), arguments))
      argument.replaceAllUsesWith(value);
    Carried before(carried);
    return index.choose(
        inside, carried.getTypes(),
        [&] {
          result = moveItem(body);
          return failed(result) ? before
                                : Carried(body.getTerminator()->getOperands());
        },
        [&] { return before; });
  };
  Value begin = emitter.index(0), end = emitter.index(team.getSteps());
  Carried values = addsUp(walk)
                       ? index.carrySum(begin, end, 1, walk.getInitial(),
                                        walk.getInitial(), /*terms=*/1, step)
                       : index.carry(begin, end, 1, walk.getInitial(), step);
  if (succeeded(result))
    walk->replaceAllUsesWith(values);
  return result;
}

LogicalResult ThreadGroupLowering::lowerCommit(ItemStoreOp commit) {
  Value condition = active;
  if (commit.getOnce() && first)
    condition = active ? math.bitAnd(first, active) : first;
  LogicalResult result = success();
  kernel.within(condition,
                [&] { result = moveItem(commit.getBody().front()); });
  return result;
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

LogicalResult ThreadGroupLowering::makeBuffer(ItemBufferOp keep) {
  Type element = keep.getType().getElement();
  int64_t steps = team.getSteps(), vector = team.getVector();
  if (team.getKeep() == Place::nowhere)
    return keep.emitOpError(
        "needs a thread mapping with a memory for buffers (keep)");
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

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// Returns true if the prelude implements the reduction (f32 only).
static bool isNamed(ItemReduceOp op) {
  return op.getJoining() != NamedReduction::any &&
         getElementTypeOrSelf(op.getResultTypes()[0]).isF32();
}

Carried ThreadGroupLowering::reduceVector(ItemReduceOp op, ValueRange vectors) {
  if (isNamed(op)) {
    auto combining = op.getJoining() == NamedReduction::sum
                         ? vector::CombiningKind::ADD
                     : op.getJoining() == NamedReduction::largest
                         ? vector::CombiningKind::MAXIMUMF
                         : vector::CombiningKind::MINIMUMF;
    return {vector::ReductionOp::create(kernel.builder, kernel.loc, combining,
                                        vectors.front())};
  }
  SmallVector<Carried> lanes(team.getVector());
  for (auto [lane, values] : llvm::enumerate(lanes))
    for (Value vector : vectors)
      values.push_back(
          vector::ExtractOp::create(kernel.builder, kernel.loc, vector, lane));
  for (size_t count = lanes.size(); count > 1; count /= 2)
    for (size_t lane = 0; lane < count / 2; ++lane)
      lanes[lane] = applyReduction(kernel.builder, op, lanes[2 * lane],
                                   lanes[2 * lane + 1]);
  return lanes.front();
}

Carried ThreadGroupLowering::reduceAll(ItemReduceOp op) {
  std::string partial = "partial" + op.getName().take_front().upper() +
                        op.getName().drop_front().str();
  for (Value value : op.getValues())
    kernel.named(value, partial);
  Carried values(op.getValues());
  if (!team.getColumns() && team.getVector() > 1)
    values = reduceVector(op, values);
  values = reduceGroup(op, values);
  for (Value value : values)
    kernel.named(value, op.getName());
  return values;
}

Carried ThreadGroupLowering::reduceGroup(ItemReduceOp op, ValueRange values) {
  int64_t members = team.getMembers();
  if (members == 1)
    return Carried(values);
  if (team.getColumns())
    return reduceColumns(op, values);
  Carried joined = reduceWarp(op, values, std::min(members, kWarp));
  return members > kWarp ? reduceWarps(op, joined) : joined;
}

Carried ThreadGroupLowering::reduceWarp(ItemReduceOp op, ValueRange values,
                                        int64_t width) {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  if (width == 1)
    return Carried(values);
  if (isNamed(op)) {
    auto operation = op.getJoining() == NamedReduction::sum
                         ? gpu::AllReduceOperation::ADD
                     : op.getJoining() == NamedReduction::largest
                         ? gpu::AllReduceOperation::MAXIMUMF
                         : gpu::AllReduceOperation::MINIMUMF;
    return {gpu::SubgroupReduceOp::create(
        builder, loc, values.front(), operation, /*uniform=*/false,
        width == kWarp ? std::nullopt : std::optional<uint32_t>(width))};
  }
  Type i32 = builder.getI32Type();
  return index.loop(
      emitter.index(0), emitter.index(llvm::Log2_64(width)), /*step=*/1, values,
      [&](Value round, ValueRange carried) {
        builder.getInsertionBlock()->getParentOp()->setAttr(
            kUnrollAttr, builder.getUnitAttr());
        Value half = math.integer(i32, width / 2);
        Value distance = arith::ShRUIOp::create(
            builder, loc, half,
            arith::IndexCastOp::create(builder, loc, i32, round));
        Carried others;
        for (Value value : carried)
          others.push_back(gpu::ShuffleOp::create(builder, loc, value, distance,
                                                  math.integer(i32, kWarp),
                                                  gpu::ShuffleMode::XOR)
                               .getShuffleResult());
        return applyReduction(builder, op, carried, others);
      });
}

Carried ThreadGroupLowering::reduceWarps(ItemReduceOp op, ValueRange values) {
  OpBuilder &builder = kernel.builder;
  StringRef name = op.getName();
  int64_t warps = team.getMembers() / kWarp;
  Value lane =
      gpu::LaneIdOp::create(builder, kernel.loc, /*upper_bound=*/nullptr);
  Value warp =
      gpu::SubgroupIdOp::create(builder, kernel.loc, /*upper_bound=*/nullptr);
  for (Value value : values)
    kernel.named(value, (name + "OfWarp").str());
  SmallVector<Value> arrays;
  for (Value value : values)
    arrays.push_back(kernel.shared({warps * team.getItems()},
                                   memoryElementType(value.getType()),
                                   (name + "OfWarps").str()));
  Value isFirst = arith::CmpIOp::create(builder, kernel.loc, CmpIPredicate::eq,
                                        lane, emitter.index(0));
  kernel.within(isFirst, [&] {
    for (auto [value, array] : llvm::zip(values, arrays))
      emitter.store(value, array, warp, 1);
  });
  kernel.barrier();
  Carried partial;
  Value place = index.rem(lane, warps);
  if (column)
    place = index.add(index.mul(column, warps), place);
  for (auto [value, array] : llvm::zip(values, arrays))
    partial.push_back(emitter.load(array, value.getType(), place, 1));
  return reduceWarp(op, partial, warps);
}

Carried ThreadGroupLowering::reduceColumns(ItemReduceOp op, ValueRange values) {
  StringRef name = op.getName();
  int64_t lanes = team.getVector();
  Value place = column ? index.mul(column, lanes) : emitter.index(0);
  SmallVector<Value> arrays;
  for (Value value : values) {
    Type element = getElementTypeOrSelf(value.getType());
    Value array =
        kernel.shared({team.getMembers(), team.getItems() * lanes},
                      memoryElementType(element), (name + "OfLines").str());
    emitter.store(value, array, {member, place}, lanes);
    arrays.push_back(array);
  }
  kernel.barrier();
  auto load = [&](Value line) {
    Carried loaded;
    for (auto [value, array] : llvm::zip(values, arrays))
      loaded.push_back(emitter.load(
          array, getElementTypeOrSelf(value.getType()), {line, place}, lanes));
    return loaded;
  };
  return index.carry(
      emitter.index(1), emitter.index(team.getMembers()), 1,
      load(emitter.index(0)), [&](Value line, ValueRange carried) {
        return applyReduction(kernel.builder, op, carried, load(line));
      });
}

//===----------------------------------------------------------------------===//
// Items split over blocks
//
// Each block stores partial results of its items in the scratch buffer; the
// last-arriving block reduces them and runs the rest.
//===----------------------------------------------------------------------===//

SplitScratch::SplitScratch(int64_t items, ThreadMappingAttr team,
                           ArrayRef<Type> partials) {
  blocks = std::max<int64_t>(1, llvm::divideCeil(items, team.getItems()));
  lanes = blocks * team.getItems() * (team.getColumns() ? team.getVector() : 1);
  bytes = llvm::alignTo(4 * blocks, 16);
  for (Type type : partials) {
    offsets.push_back(bytes);
    bytes = llvm::alignTo(bytes + team.getSplits() * lanes *
                                      bytesPerElement(memoryElementType(type)),
                          16);
  }
}

LogicalResult ThreadGroupLowering::reduceBlocks(ArrayRef<ItemReduceOp> joins,
                                                Block &block) {
  SmallVector<Carried> partials;
  SmallVector<Type> types;
  for (ItemReduceOp join : joins) {
    partials.push_back(reduceAll(join));
    for (Type type : join.getResultTypes())
      types.push_back(getElementTypeOrSelf(type));
  }
  int64_t lanes = team.getColumns() ? team.getVector() : 1;
  SplitScratch layout(own.getCount(), team, types);
  Value line = kernel.block(gpu::Dimension::y), row = kernel.block();
  Value place = index.mul(row, team.getItems());
  if (column)
    place = index.add(place, column);
  place = index.mul(place, lanes);
  SmallVector<Value> arrays;
  for (ItemReduceOp join : joins)
    for (size_t i = 0; i < join.getNumResults(); ++i) {
      Value flat = index.view(kernel.scratch, layout.offsets[arrays.size()],
                              team.getSplits() * layout.lanes,
                              memoryElementType(types[arrays.size()]));
      kernel.named(flat, (join.getName() + "OfBlocks").str());
      arrays.push_back(emitter.viewAs(flat, {team.getSplits(), layout.lanes}));
    }
  kernel.within(first, [&] {
    size_t next = 0;
    for (const Carried &values : partials)
      for (Value value : values)
        emitter.store(value, arrays[next++], {line, place}, lanes);
  });
  Value counters =
      index.view(kernel.scratch, 0, layout.blocks, kernel.builder.getI32Type());
  return inLastBlock(kernel, counters, row, team.getSplits(), [&] {
    return success(succeeded(finishJoins(joins, arrays, place)) &&
                   succeeded(moveItem(block)));
  });
}

LogicalResult ThreadGroupLowering::finishJoins(ArrayRef<ItemReduceOp> joins,
                                               ArrayRef<Value> arrays,
                                               Value place) {
  int64_t lanes = team.getColumns() ? team.getVector() : 1,
          members = team.getMembers(), splits = team.getSplits();
  int64_t steps = llvm::divideCeil(splits, members);
  for (ItemReduceOp join : joins) {
    ArrayRef<Value> partials = arrays.take_front(join.getNumResults());
    arrays = arrays.drop_front(join.getNumResults());
    auto load = [&](Value line) {
      Carried partial;
      for (auto [array, type] : llvm::zip(partials, join.getResultTypes()))
        partial.push_back(emitter.load(array, getElementTypeOrSelf(type),
                                       {line, place}, lanes));
      return partial;
    };
    Carried initial;
    for (Value value : join.getIdentities())
      initial.push_back(lanes == 1
                            ? value
                            : vector::BroadcastOp::create(
                                  kernel.builder, kernel.loc,
                                  lanesOf(value.getType(), lanes), value));
    Carried joined = index.carry(
        index.constant(0), index.constant(steps), 1, initial,
        [&](Value iteration, ValueRange carried) {
          Value line = index.add(index.mul(iteration, members), member);
          Value exists =
              steps * members == splits ? Value() : index.less(line, splits);
          return index.choose(
              exists, carried.getTypes(),
              [&] {
                return applyReduction(kernel.builder, join, carried,
                                      load(line));
              },
              [&] { return Carried(carried); });
        });
    join->replaceAllUsesWith(reduceGroup(join, joined));
    join.erase();
  }
  return success();
}
