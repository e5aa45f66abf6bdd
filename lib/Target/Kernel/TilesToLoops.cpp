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
  auto by = static_cast<int64_t>(walk.getBy());
  int64_t line = walk.getTo().back() - walk.getFrom().back();
  LoopNest nest{emitter, llvm::to_vector(walk.getFrom()),
                llvm::to_vector(walk.getTo()), by};
  SmallVector<Value> initial(walk.getInitial());
  if (addsUp(walk))
    nest.zeros = initial;
  walk.replaceAllUsesWith(
      nest.run(initial, [&](ArrayRef<Value> positions, ValueRange carried,
                            int64_t covered) {
        SmallVector<Value> arguments(positions);
        if (walk.getMasked())
          arguments.push_back(keepMask(emitter, by, covered));
        llvm::append_range(arguments, carried);
        // Emitted once or, with a remainder, twice.
        if (covered || line % by == 0)
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
      }));
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
