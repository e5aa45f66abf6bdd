//===- FusionGraph.cpp - groups of ops without cycles ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FusionGraph.h"
#include "OpEmitter.h"

using namespace mlir;
using namespace mpc;

FusionGraph::FusionGraph(Block &block) {
  for (Operation &op : block.without_terminator()) {
    storage.push_back(std::make_unique<FusionGroup>());
    FusionGroup *group = storage.back().get();
    group->ops.push_back(&op);
    if (op.getNumResults() != 0)
      group->shape = shapeOf(op.getResult(0));
    group->place = position[&op] = order.size();
    order.push_back(group);
    groups[&op] = group;
  }
}

FusionGroup *FusionGraph::groupOf(Operation *op) const {
  return groups.lookup(op);
}

FusionGroup *FusionGraph::groupOf(Value value) const {
  Operation *op = value.getDefiningOp();
  return op ? groups.lookup(op) : nullptr;
}

bool FusionGraph::merge(FusionGroup *into, FusionGroup *from) {
  if (into == from)
    return true;
  FusionGroup *first = into->place < from->place ? into : from;
  FusionGroup *last = first == into ? from : into;

  // What depends on the first group and stands before the last one. A way from
  // the first to the last through any of these is a cycle after the merge.
  SmallPtrSet<FusionGroup *, 16> behind;
  SmallVector<FusionGroup *> pending = {first};
  while (!pending.empty()) {
    FusionGroup *group = pending.pop_back_val();
    for (Operation *op : group->ops)
      for (Operation *user : op->getUsers()) {
        FusionGroup *reader = groupOf(user);
        if (!reader || reader == group || reader->place > last->place)
          continue;
        if (reader == last) {
          if (group != first)
            return false;
        } else if (behind.insert(reader).second) {
          pending.push_back(reader);
        }
      }
  }

  ++into->version;
  ++from->version;
  for (Operation *op : from->ops)
    groups[op] = into;
  llvm::append_range(into->ops, from->ops);
  llvm::sort(into->ops, [&](Operation *a, Operation *b) {
    return positionOf(a) < positionOf(b);
  });
  from->ops.clear();

  // The joint group stands behind what the last one reads and before what
  // depends on the first.
  SmallVector<FusionGroup *> moved;
  int64_t place = first->place, end = last->place;
  auto put = [&](FusionGroup *group) {
    order[place] = group;
    group->place = place++;
  };
  for (int64_t i = first->place; i <= end; ++i)
    if (FusionGroup *group = order[i];
        group && group != first && group != last) {
      if (behind.contains(group))
        moved.push_back(group);
      else
        put(group);
    }
  put(into);
  for (FusionGroup *group : moved)
    put(group);
  while (place <= end)
    order[place++] = nullptr;
  return true;
}

void FusionGraph::move(Operation *op, FusionGroup *into) {
  // The reader stands behind the op's group, and so behind what the op reads.
  llvm::erase(groups[op]->ops, op);
  groups[op] = into;
  auto byPosition = [&](Operation *a, Operation *b) {
    return positionOf(a) < positionOf(b);
  };
  into->ops.insert(llvm::upper_bound(into->ops, op, byPosition), op);
}

bool FusionGraph::isReadOnlyBy(Operation *op, FusionGroup *inside) const {
  return llvm::all_of(op->getUsers(),
                      [&](Operation *user) { return groupOf(user) == inside; });
}

bool FusionGraph::isReadOnlyBy(FusionGroup *group, FusionGroup *inside) const {
  return llvm::all_of(group->ops, [&](Operation *op) {
    return llvm::all_of(op->getUsers(), [&](Operation *user) {
      FusionGroup *reader = groupOf(user);
      return reader && (reader == group || reader == inside);
    });
  });
}

SmallVector<FusionGroup *> FusionGraph::readersOf(Value value) const {
  SmallVector<FusionGroup *> readers;
  for (Operation *user : value.getUsers()) {
    FusionGroup *reader = groupOf(user);
    if (reader && reader->isLoose)
      for (Value view : user->getResults())
        llvm::append_range(readers, readersOf(view));
    else
      readers.push_back(reader);
  }
  llvm::sort(readers);
  readers.erase(llvm::unique(readers), readers.end());
  return readers;
}

bool FusionGraph::reads(FusionGroup *reader, Value value) const {
  // From the reader's side: a value may have thousands of readers.
  return llvm::any_of(reader->ops, [&](Operation *op) {
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      SmallVector<Value> pending = {operand};
      while (!pending.empty()) {
        Value next = pending.pop_back_val();
        if (next == value)
          return true;
        FusionGroup *view = groupOf(next);
        if (view && view->isLoose)
          llvm::append_range(pending, next.getDefiningOp()->getOperands());
      }
      return false;
    });
  });
}

bool FusionGraph::isReadOnlyBy(Value value, FusionGroup *a,
                               FusionGroup *b) const {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    FusionGroup *reader = groupOf(user);
    if (!reader || !reader->isLoose)
      return reader && (reader == a || reader == b);
    return llvm::all_of(user->getResults(),
                        [&](Value view) { return isReadOnlyBy(view, a, b); });
  });
}

SmallVector<Value> FusionGraph::resultsOf(FusionGroup *group) const {
  SmallVector<Value> results;
  for (Operation *op : group->ops)
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(),
                       [&](Operation *user) { return groupOf(user) != group; }))
        results.push_back(result);
  return results;
}

SmallVector<FusionGroup *> FusionGraph::inOrder() const {
  return llvm::to_vector(llvm::make_filter_range(
      order, [](FusionGroup *group) { return group && !group->ops.empty(); }));
}
