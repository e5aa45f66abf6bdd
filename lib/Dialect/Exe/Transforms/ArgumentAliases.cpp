//===- ArgumentAliases.cpp - results that alias arguments ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ArgumentAliases.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/Fusion/Views.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mpc;

SmallVector<int64_t> mpc::aliasesOf(func::FuncOp function) {
  SmallVector<int64_t> aliases(function.getNumResults(), -1);
  for (auto [index, alias] : llvm::enumerate(aliases))
    if (auto number = function.getResultAttrOfType<IntegerAttr>(
            index, MpcDialect::kAliasAttr))
      alias = number.getInt();
  return aliases;
}

/// Collects the fusions that read `value` or a view of it.
static void collectReaders(Value value, SmallVectorImpl<FusionOp> &readers) {
  SmallVector<Value> names = {value};
  for (size_t i = 0; i < names.size(); ++i)
    for (Operation *user : names[i].getUsers()) {
      if (auto fusion = dyn_cast<FusionOp>(user))
        readers.push_back(fusion);
      else if (isView(user))
        llvm::append_range(names, user->getResults());
    }
}

/// Returns the views from the root of `value` up to it, and sets it to the
/// root.
static SmallVector<Operation *> viewsBelow(Value &value) {
  SmallVector<Operation *> chain;
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ReshapeOp, SliceOp>(op))
      break;
    chain.insert(chain.begin(), op);
    value = op->getOperand(0);
  }
  return chain;
}

/// Creates a fusion that copies `argument` at the start of the function.
static Value copyAhead(BlockArgument argument) {
  OpBuilder builder = OpBuilder::atBlockBegin(argument.getOwner());
  Location loc = builder.getUnknownLoc();
  auto fusion = FusionOp::create(
      builder, loc, argument.getType(), argument,
      FusionKindAttr::get(builder.getContext(), FusionKind::elementwise),
      builder.getStringAttr("copy"));
  Block &body = fusion.getBody().emplaceBlock();
  body.addArgument(argument.getType(), loc);
  builder.setInsertionPointToEnd(&body);
  YieldOp::create(builder, loc, body.getArguments());
  return fusion->getResult(0);
}

static void saveReturned(func::FuncOp function, ArrayRef<int64_t> aliases) {
  Operation *terminator = function.getBody().front().getTerminator();
  llvm::SmallDenseMap<Value, Value> copies;
  for (OpOperand &returned : terminator->getOpOperands()) {
    Value root = returned.get();
    SmallVector<Operation *> views = viewsBelow(root);
    auto argument = dyn_cast<BlockArgument>(root);
    if (!argument || !llvm::is_contained(aliases, argument.getArgNumber()))
      continue;
    if (returned.get() == argument &&
        aliases[returned.getOperandNumber()] == argument.getArgNumber())
      continue;
    Value &copy = copies[argument];
    if (!copy)
      copy = copyAhead(argument);
    IRMapping mapping;
    mapping.map(argument, copy);
    OpBuilder builder(terminator);
    for (Operation *view : views)
      builder.clone(*view, mapping);
    returned.set(mapping.lookup(returned.get()));
  }
}

/// Moves `fusion` and the views of its results after `last`.
static void moveBehind(FusionOp fusion, Operation *last) {
  fusion->moveAfter(last);
  SmallVector<Operation *> moved = {fusion};
  for (size_t i = 0; i < moved.size(); ++i)
    for (Operation *user : moved[i]->getUsers())
      if (isView(user) && user->isBeforeInBlock(fusion)) {
        user->moveAfter(moved.back());
        moved.push_back(user);
      }
}

void mpc::orderInPlaceUpdates(func::FuncOp function,
                              ArrayRef<int64_t> aliases) {
  saveReturned(function, aliases);
  Operation *terminator = function.getBody().front().getTerminator();
  for (auto [alias, value] : llvm::zip(aliases, terminator->getOperands())) {
    auto fusion = sourceOfReshapes(value).getDefiningOp<FusionOp>();
    if (alias < 0 || !fusion)
      continue;
    SmallVector<FusionOp> readers, consumers;
    collectReaders(function.getArgument(alias), readers);
    Operation *last = fusion;
    for (FusionOp reader : readers)
      if (last->isBeforeInBlock(reader))
        last = reader;
    for (Value result : fusion->getResults())
      collectReaders(result, consumers);
    bool isNeeded = llvm::any_of(consumers, [&](FusionOp consumer) {
      return consumer == last || consumer->isBeforeInBlock(last);
    });
    if (last != fusion && !isNeeded)
      moveBehind(fusion, last);
  }
}
