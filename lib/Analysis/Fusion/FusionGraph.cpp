//===- FusionGraph.cpp - acyclic graph of fusion groups -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maintains groups and their order, independent of what kernels can do.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Fusion/FusionGraph.h"

#include "mpc/Analysis/Fusion/Views.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include <algorithm>
#include <queue>

using namespace mlir;
using namespace mpc;

FusionGraph::FusionGraph(Block &block) {
  for (Operation &op : block.without_terminator()) {
    SmallVector<ContractedDag::Node> inputs;
    for (Value operand : op.getOperands())
      if (auto source = position.find(operand.getDefiningOp());
          source != position.end())
        inputs.push_back(source->second);
    storage.push_back(std::make_unique<FusionGroup>());
    FusionGroup *group = storage.back().get();
    group->ops.push_back(&op);
    if (op.getNumResults() != 0)
      group->shape = shapeOf(op.getResult(0));
    group->last = group->number = position[&op] = dag.addNode(inputs);
    groups.push_back(group);
  }
}

FusionGroup *FusionGraph::groupOf(Operation *op) const {
  auto entry = position.find(op);
  return entry == position.end() ? nullptr : groups[entry->second];
}

FusionGroup *FusionGraph::groupOf(Value value) const {
  Operation *op = value.getDefiningOp();
  return op ? groupOf(op) : nullptr;
}

bool FusionGraph::merge(FusionGroup *into, FusionGroup *from) {
  if (into == from)
    return true;
  if (isApart(into, from))
    return false;
  if (!dag.merge(into->last, from->last)) {
    between[{into, from}] = dag.getBetween();
    return false;
  }
  if (into->isLoose || from->isLoose)
    ++viewVersion;
  ++into->version;
  ++from->version;
  for (Operation *op : from->ops)
    groups[positionOf(op)] = into;
  auto byPosition = [&](Operation *a, Operation *b) {
    return positionOf(a) < positionOf(b);
  };
  // Append if one comes entirely after the other; otherwise merge.
  if (byPosition(into->ops.back(), from->ops.front())) {
    llvm::append_range(into->ops, from->ops);
  } else {
    SmallVector<Operation *> joined;
    std::merge(into->ops.begin(), into->ops.end(), from->ops.begin(),
               from->ops.end(), std::back_inserter(joined), byPosition);
    into->ops = std::move(joined);
  }
  from->ops.clear();
  into->last = std::max(into->last, from->last);
  return true;
}

bool FusionGraph::isApart(FusionGroup *into, FusionGroup *from) const {
  auto entry = between.find({into, from});
  if (entry == between.end())
    return false;
  FusionGroup *third = groups[entry->second];
  return third != into && third != from;
}

void FusionGraph::closeView(FusionGroup *group) {
  viewVersion += group->isLoose;
  group->isLoose = false;
}

void FusionGraph::move(Operation *op, FusionGroup *into) {
  FusionGroup *from = groupOf(op);
  if (from->ops.size() == 1) {
    // Without another reader there is no path through a third group.
    merge(into, from);
    return;
  }
  // The reader comes after the op's group, and so after the op's operands.
  for (Value operand : op->getOperands())
    if (FusionGroup *source = groupOf(operand))
      dag.addEdge(source->last, into->last);
  if (into->isLoose || from->isLoose)
    ++viewVersion;
  ++from->version;
  ++into->version;
  // Paths through the op have changed.
  between.clear();
  llvm::erase(from->ops, op);
  groups[positionOf(op)] = into;
  auto byPosition = [&](Operation *a, Operation *b) {
    return positionOf(a) < positionOf(b);
  };
  into->ops.insert(llvm::upper_bound(into->ops, op, byPosition), op);
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

/// Attributes: on every op of a group, its number; on the anchor, the kind, and
/// the shape if it differs from the anchor's; on the first op of a joint group,
/// its kind.
static constexpr StringLiteral kGroupAttr = "mpc.group",
                               kAnchorAttr = "mpc.anchor",
                               kShapeAttr = "mpc.group_shape",
                               kJointAttr = "mpc.joint";

/// Sets the attribute of `op` if it differs; null removes it.
static void mark(Operation *op, StringLiteral name, Attribute attr) {
  if (op->getDiscardableAttr(name) == attr)
    return;
  if (attr)
    op->setDiscardableAttr(name, attr);
  else
    op->removeDiscardableAttr(name);
}

void FusionGraph::writeMarks() const {
  int64_t number = 0;
  for (const std::unique_ptr<FusionGroup> &group : storage) {
    if (group->isLoose || group->ops.empty())
      continue;
    Operation *first = group->ops.front();
    Builder builder(first->getContext());
    auto kind = FusionKindAttr::get(first->getContext(), group->kind);
    for (Operation *op : group->ops) {
      bool isAnchor = op == group->anchor;
      bool isShaped =
          isAnchor && group->shape != shapeOf(group->anchor->getResult(0));
      mark(op, kGroupAttr, builder.getI64IntegerAttr(number));
      mark(op, kAnchorAttr, isAnchor ? kind : Attribute());
      mark(op, kShapeAttr,
           isShaped ? builder.getDenseI64ArrayAttr(group->shape) : Attribute());
      mark(op, kJointAttr, group->isJoint && op == first ? kind : Attribute());
    }
    ++number;
  }
}

LogicalResult FusionGraph::readMarks(Block &block) {
  llvm::DenseMap<int64_t, FusionGroup *> marked;
  for (Operation &op : block.without_terminator()) {
    FusionGroup *own = groupOf(&op);
    auto number = op.getAttrOfType<IntegerAttr>(kGroupAttr);
    if (!number) {
      if (!isa<mpc::ConstantOp>(op) && !isView(&op))
        return op.emitOpError()
               << "is in no group; run mpc-select-fusion-groups before";
      own->isLoose = true;
      continue;
    }
    FusionGroup *group = marked.try_emplace(number.getInt(), own).first->second;
    if (!merge(group, own))
      return op.emitOpError()
             << "is in group " << number.getInt()
             << ", which depends on a group that depends on it";
    // Shape of a plain loop; anchors override it.
    group->shape = own->shape;
  }
  for (Operation &op : block.without_terminator()) {
    FusionGroup *group = groupOf(&op);
    if (auto kind = op.getAttrOfType<FusionKindAttr>(kAnchorAttr)) {
      group->anchor = &op;
      group->kind = kind.getValue();
      auto shape = op.getAttrOfType<DenseI64ArrayAttr>(kShapeAttr);
      group->shape = shape ? shape.asArrayRef() : shapeOf(op.getResult(0));
    }
    if (auto kind = op.getAttrOfType<FusionKindAttr>(kJointAttr)) {
      group->isJoint = true;
      group->kind = kind.getValue();
    }
  }
  return success();
}

void FusionGraph::eraseMarks(Operation *op) {
  for (StringLiteral name : {kGroupAttr, kAnchorAttr, kShapeAttr, kJointAttr})
    op->removeDiscardableAttr(name);
}

//===----------------------------------------------------------------------===//
// Readers
//===----------------------------------------------------------------------===//

bool FusionGraph::isInternal(Value value) const {
  Operation *op = value.getDefiningOp();
  return op && !op->use_empty() && isReadOnlyBy(op, groupOf(op));
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
  // Addresses differ between runs.
  llvm::sort(readers, [](FusionGroup *a, FusionGroup *b) {
    return (a ? a->number : -1) < (b ? b->number : -1);
  });
  readers.erase(llvm::unique(readers), readers.end());
  return readers;
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
  llvm::DenseMap<FusionGroup *, int64_t> waitsFor;
  auto later = [](FusionGroup *a, FusionGroup *b) { return a->last > b->last; };
  std::priority_queue<FusionGroup *, std::vector<FusionGroup *>,
                      decltype(later)>
      ready(later);
  for (const std::unique_ptr<FusionGroup> &group : storage) {
    if (group->ops.empty())
      continue;
    int64_t count = 0;
    for (Operation *op : group->ops)
      for (Value operand : op->getOperands()) {
        FusionGroup *source = groupOf(operand);
        count += source && source != group.get();
      }
    waitsFor[group.get()] = count;
    if (count == 0)
      ready.push(group.get());
  }
  SmallVector<FusionGroup *> order;
  while (!ready.empty()) {
    FusionGroup *group = ready.top();
    ready.pop();
    order.push_back(group);
    for (Operation *op : group->ops)
      for (Operation *user : op->getUsers())
        if (FusionGroup *reader = groupOf(user);
            reader && reader != group && --waitsFor[reader] == 0)
          ready.push(reader);
  }
  return order;
}
