//===- SplitReductions.cpp - split reductions across blocks
//--------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each block stores partial results of its items in the scratch buffer; the
// last-arriving block reduces them and runs the rest.
//
//===----------------------------------------------------------------------===//

#include "LastArrivingBlock.h"
#include "ThreadGroupLowering.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::tile;

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

LogicalResult ThreadGroupLowering::joinBlocks(ArrayRef<ItemReduceOp> joins,
                                              Block &block) {
  SmallVector<Carried> partials;
  SmallVector<Type> types;
  for (ItemReduceOp join : joins) {
    partials.push_back(joinAll(join));
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
  (void)guarded(first, {}, [&]() -> FailureOr<Carried> {
    size_t next = 0;
    for (const Carried &values : partials)
      for (Value value : values)
        emitter.store(value, arrays[next++], {line, place}, lanes);
    return Carried{};
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
    FailureOr<Carried> joined = carryLoop(
        emitter, emitter.index(0), emitter.index(steps), 1, initial,
        [&](Value iteration, ValueRange carried) -> FailureOr<Carried> {
          Value line = index.add(index.mul(iteration, members), member);
          Value exists =
              steps * members == splits ? Value() : index.less(line, splits);
          return guarded(exists, carried, [&]() -> FailureOr<Carried> {
            return applyReduction(kernel.builder, join, carried, load(line));
          });
        });
    if (failed(joined))
      return failure();
    join->replaceAllUsesWith(joinTeam(join, *joined));
    join.erase();
  }
  return success();
}
