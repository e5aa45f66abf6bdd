//===- PaintingPlacement.cpp - storage types by color propagation ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PaintingPlacement.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Analysis/Painting.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

using namespace mlir;
using namespace mpc;

namespace {

class StoragePainter {
public:
  StoragePainter(PlanBuilder &builder,
                 llvm::function_ref<std::optional<StorageLabel>(Value)> hard)
      : builder(builder), hard(hard) {}

  llvm::DenseMap<Value, PaintedLabel> run();

private:
  PaintNode makeNode(Operation *op) const;
  void addEdges();
  std::string describe(unsigned node, const Painting &painting) const;

  PlanBuilder &builder;
  llvm::function_ref<std::optional<StorageLabel>(Value)> hard;
  PaintGraph graph;
  SmallVector<Operation *> ops;
  llvm::DenseMap<Operation *, unsigned> nodes;
};

} // namespace

static PaintList listOf(const OpPlan &plan) {
  if (plan.role == OpPlan::Role::Untouched)
    return PaintList::None;
  switch (plan.cls) {
  case PrecisionClass::Low:
    return PaintList::Allow;
  case PrecisionClass::High:
  case PrecisionClass::HighResult:
  case PrecisionClass::Ban:
    return PaintList::Deny;
  case PrecisionClass::Follow:
    return PaintList::Infer;
  case PrecisionClass::Clear:
  case PrecisionClass::Widest:
    return PaintList::Clear;
  }
  return PaintList::None;
}

PaintNode StoragePainter::makeNode(Operation *op) const {
  PaintNode node;
  const OpPlan *plan = builder.findPlan(op);
  if (!plan)
    return node;
  node.list = listOf(*plan);
  node.isWide = node.list != PaintList::None;
  bool staysHigh = llvm::any_of(op->getResults(), [&](Value result) {
    return builder.isEligible(result) && hard(result) == StorageLabel::High;
  });
  // A contraction multiplies 16 bits and so propagates color, whatever the type
  // of its own result.
  if (node.list == PaintList::Allow)
    node.supportsNarrow = !staysHigh;
  else
    node.isPreserved = staysHigh;
  return node;
}

void StoragePainter::addEdges() {
  for (Operation *op : ops)
    for (OpOperand &operand : op->getOpOperands()) {
      auto source = nodes.find(operand.get().getDefiningOp());
      if (source != nodes.end() && builder.isEligible(operand.get()) &&
          isPrecisionOperand(op, operand.getOperandNumber()))
        graph.addEdge(source->second, nodes.at(op));
    }
}

std::string StoragePainter::describe(unsigned node,
                                     const Painting &painting) const {
  std::string cause;
  if (std::optional<unsigned> from = painting.getCause(node))
    cause = " '" + opName(ops[*from]).str() + "'";
  switch (painting.getRule(node)) {
  case PaintRule::Seed:
    return "its op computes in 16 bits";
  case PaintRule::Deny:
    return cause.empty() ? "its op is of class high"
                         : "it follows" + cause + ", which is on the deny list";
  case PaintRule::Between:
    return "it is between ops that compute in 16 bits";
  case PaintRule::Follow:
    return "it follows the 16-bit" + cause;
  case PaintRule::Spread:
    return "it is adjacent to the 16-bit" + cause;
  case PaintRule::Unpainted:
  case PaintRule::Dropped:
  case PaintRule::Cluster:
  case PaintRule::Cast:
    break;
  }
  return "no rule converts it to 16 bits";
}

llvm::DenseMap<Value, PaintedLabel> StoragePainter::run() {
  for (Operation &op : builder.body().without_terminator()) {
    if (isa<ConstantOp>(op))
      continue;
    nodes[&op] = graph.addNode(makeNode(&op));
    ops.push_back(&op);
  }
  addEdges();
  Painting painting(graph);
  llvm::DenseMap<Value, PaintedLabel> labels;
  for (auto [node, op] : llvm::enumerate(ops))
    for (Value result : op->getResults()) {
      if (!builder.isEligible(result))
        continue;
      PaintedLabel &label = labels[result];
      label.text = describe(node, painting);
      label.label = hard(result).value_or(
          painting.isPainted(node) ? StorageLabel::Low : StorageLabel::High);
    }
  return labels;
}

llvm::DenseMap<Value, PaintedLabel>
mpc::paintStorage(PlanBuilder &builder,
                  llvm::function_ref<std::optional<StorageLabel>(Value)> hard) {
  return StoragePainter(builder, hard).run();
}
