//===- TilesToLoops.cpp - tile dialect to sequential loops ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers tile ops for a single thread: tile.loop becomes a loop nest with a
// vectorized innermost loop, tile.reduce a horizontal reduction, halves first,
// and buffers are in the worker's memory.
//
//===----------------------------------------------------------------------===//

#include "TileRegions.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::tile;

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

Carried mpc::applyReduction(OpBuilder &builder, ItemReduceOp join, ValueRange x,
                            ValueRange y) {
  auto vector = dyn_cast<VectorType>(x.front().getType());
  IRMapping mapping;
  Block &block = join.getBody().front();
  for (auto [argument, value] :
       llvm::zip(block.getArguments(),
                 llvm::concat<const Value>(SmallVector<Value>(x),
                                           SmallVector<Value>(y))))
    mapping.map(argument, value);
  // All ops are elementwise: cloned on vectors they get vector types.
  for (Operation &op : block.without_terminator()) {
    if (!vector) {
      builder.clone(op, mapping);
      continue;
    }
    SmallVector<Value> operands;
    for (Value operand : op.getOperands()) {
      Value value = mapping.lookupOrDefault(operand);
      if (!isa<VectorType>(value.getType()))
        value = mlir::vector::BroadcastOp::create(
            builder, op.getLoc(), vector.clone(value.getType()), value);
      operands.push_back(value);
    }
    SmallVector<Type> types;
    for (Type type : op.getResultTypes())
      types.push_back(vector.clone(type));
    OperationState state(op.getLoc(), op.getName());
    state.addOperands(operands);
    state.addTypes(types);
    state.addAttributes(op.getAttrs());
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      state.attributes.set(
          "value",
          DenseElementsAttr::get(cast<ShapedType>(types[0]),
                                 ArrayRef<Attribute>(constant.getValue())));
    }
    Operation *wide = builder.create(state);
    for (auto [from, to] : llvm::zip(op.getResults(), wide->getResults()))
      mapping.map(from, to);
  }
  Carried results;
  for (Value value : block.getTerminator()->getOperands())
    results.push_back(mapping.lookupOrDefault(value));
  return results;
}

Carried mpc::moveBody(OpBuilder &builder, Region &region,
                      ValueRange arguments) {
  Block &block = region.front();
  for (auto [argument, value] : llvm::zip(block.getArguments(), arguments))
    argument.replaceAllUsesWith(value);
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
    op.moveBefore(builder.getInsertionBlock(), builder.getInsertionPoint());
  return Carried(block.getTerminator()->getOperands());
}

//===----------------------------------------------------------------------===//
// Loops of one worker
//===----------------------------------------------------------------------===//

namespace {
class LoopTiles {
public:
  LoopTiles(
      Operation *root, const ElementTarget &target,
      llvm::function_ref<Value(OpBuilder &, ArrayRef<int64_t>, Type)> allocate)
      : builder(root->getContext()), emitter(builder, root->getLoc(), target),
        allocate(allocate) {}

  void lower(Operation *op);

private:
  void lowerWalk(ItemLoopOp walk);
  SmallVector<Value> indices(Value place, ValueRange positions);

  OpBuilder builder;
  ElementEmitter emitter;
  llvm::function_ref<Value(OpBuilder &, ArrayRef<int64_t>, Type)> allocate;
  llvm::DenseMap<Value, Value> memory;
};
} // namespace

bool mpc::addsUp(ItemLoopOp walk) {
  return walk.getNumResults() > 0 &&
         llvm::all_of(walk.getResults(), [](Value sum) {
           return getElementTypeOrSelf(sum.getType()).isF32() &&
                  !sum.use_empty() &&
                  llvm::all_of(sum.getUsers(), [](Operation *user) {
                    auto join = dyn_cast<ItemReduceOp>(user);
                    return join && join.getJoining() == NamedReduction::sum;
                  });
         });
}

void LoopTiles::lowerWalk(ItemLoopOp walk) {
  ArrayRef<int64_t> from = walk.getFrom(), to = walk.getTo();
  auto by = static_cast<int64_t>(walk.getBy());
  int64_t line = to.back() - from.back(), whole = line / by * by;
  SmallVector<Value> at(from.size());
  // Emitted once or, with a remainder, twice.
  auto body = [&](ValueRange carried, Value mask, bool isLast) {
    SmallVector<Value> arguments(at);
    if (mask)
      arguments.push_back(mask);
    llvm::append_range(arguments, carried);
    if (isLast)
      return moveBody(builder, walk.getBody(), arguments);
    IRMapping mapping;
    Block &block = walk.getBody().front();
    mapping.map(block.getArguments(), arguments);
    for (Operation &op : block.without_terminator())
      builder.clone(op, mapping);
    Carried next;
    for (Value value : block.getTerminator()->getOperands())
      next.push_back(mapping.lookupOrDefault(value));
    return next;
  };
  auto lanes = [&](bool all) -> Value {
    if (!walk.getMasked())
      return {};
    return keepMask(emitter, by, all ? 0 : by - (line - whole));
  };
  bool adds = addsUp(walk);
  auto loop = [&](Value begin, Value end, int64_t step, ValueRange sums,
                  int64_t terms, CarriedBody inner) {
    return adds ? carrySum(emitter, begin, end, step, sums, walk.getInitial(),
                           terms, inner)
                : carry(emitter, begin, end, step, sums, inner);
  };
  auto walkLine = [&](ValueRange sums) {
    auto step = [&](Value position, ValueRange carried) {
      at.back() = position;
      return body(carried, lanes(true), whole == line);
    };
    Value begin = emitter.index(from.back()),
          end = emitter.index(from.back() + whole);
    Carried result = loop(begin, end, by, sums, /*terms=*/1, step);
    if (whole == line)
      return result;
    // The remainder as one vector that ends with the row.
    at.back() = emitter.index(to.back() - by);
    return body(result, lanes(false), /*isLast=*/true);
  };
  auto nest = [&](auto &&self, size_t depth, ValueRange sums) -> Carried {
    if (depth + 1 == from.size())
      return walkLine(sums);
    int64_t terms = llvm::divideCeilSigned(line, by);
    for (size_t inner = depth + 1; inner + 1 < from.size(); ++inner)
      terms *= to[inner] - from[inner];
    return loop(emitter.index(from[depth]), emitter.index(to[depth]), 1, sums,
                std::max<int64_t>(terms, 1),
                [&](Value position, ValueRange carried) {
                  at[depth] = position;
                  return self(self, depth + 1, carried);
                });
  };
  walk.replaceAllUsesWith(nest(nest, 0, walk.getInitial()));
}

SmallVector<Value> LoopTiles::indices(Value place, ValueRange positions) {
  SmallVector<Value> result(positions);
  // Interleaved numbers start at 0.
  result.resize(cast<ItemBufferType>(place.getType()).getShape().size(),
                emitter.index(0));
  return result;
}

static int64_t lanesIn(Value value) {
  auto vector = dyn_cast<VectorType>(value.getType());
  return vector ? vector.getNumElements() : 1;
}

void LoopTiles::lower(Operation *op) {
  builder.setInsertionPoint(op);
  if (auto walk = dyn_cast<ItemLoopOp>(op)) {
    lowerWalk(walk);
  } else if (auto join = dyn_cast<ItemReduceOp>(op)) {
    bool joinsLanes = join.getResultTypes() != join.getValues().getTypes();
    op->replaceAllUsesWith(
        joinsLanes ? reduceLanes(emitter, join.getValues(),
                                 [&](ValueRange x, ValueRange y) {
                                   return applyReduction(builder, join, x, y);
                                 })
                   : Carried(join.getValues()));
  } else if (auto commit = dyn_cast<ItemStoreOp>(op)) {
    moveBody(builder, commit.getBody(), {});
  } else if (auto keep = dyn_cast<ItemBufferOp>(op)) {
    memory[keep] = allocate(builder, keep.getType().getShape(),
                            keep.getType().getElement());
  } else if (auto save = dyn_cast<BufferWriteOp>(op)) {
    emitter.store(save.getValue(), memory.at(save.getPlace()),
                  indices(save.getPlace(), save.getPositions()),
                  lanesIn(save.getValue()));
  } else if (auto kept = dyn_cast<BufferReadOp>(op)) {
    kept.replaceAllUsesWith(emitter.load(
        memory.at(kept.getPlace()), kept.getPlace().getType().getElement(),
        indices(kept.getPlace(), kept.getPositions()), lanesIn(kept)));
  } else {
    return;
  }
  if (!isa<ItemBufferOp>(op))
    op->erase();
}

void mpc::lowerTilesToLoops(
    Operation *root, const ElementTarget &target,
    llvm::function_ref<Value(OpBuilder &, ArrayRef<int64_t>, Type)> allocate) {
  // Lower the contents of a loop before the loop itself, and buffers before
  // their uses.
  SmallVector<Operation *> tiles;
  SmallVector<Operation *> places;
  root->walk<WalkOrder::PostOrder>([&](Operation *op) {
    if (isa<ItemBufferOp>(op))
      places.push_back(op);
    else if (isa<TileDialect>(op->getDialect()))
      tiles.push_back(op);
  });
  LoopTiles lowering(root, target, allocate);
  for (Operation *op : places)
    lowering.lower(op);
  for (Operation *op : tiles)
    lowering.lower(op);
  for (Operation *op : places)
    op->erase();
}
