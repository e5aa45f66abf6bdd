//===- TensorFlowPlanner.cpp - TensorFlow auto_mixed_precision planner ---===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans a function as TensorFlow's graph rewriter would type it: each
// TensorFlow op, imported as one or several ops, is a node of a paint graph; a
// painted node reads and yields 16 bits, every other one f32.
// docs/Reference/Imitation.md names the rules and the differences.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "mpc/Analysis/FrameworkOps.h"
#include "mpc/Analysis/OpNames.h"
#include "mpc/Analysis/Painting.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mpc;

/// Returns true if `op` comes from a framework other than TensorFlow, whose ops
/// have CamelCase names.
static bool hasForeignSource(Operation *op) {
  auto source = op->getAttrOfType<SourceAttr>(MpcDialect::kSourceAttr);
  if (!source)
    return false;
  StringRef name = source.getOp().getValue().ltrim('_');
  return name.empty() || !llvm::isUpper(name.front());
}

static PaintList paintListOf(PrecisionClass cls) {
  switch (cls) {
  case PrecisionClass::Low:
    return PaintList::Allow;
  case PrecisionClass::High:
    return PaintList::Deny;
  case PrecisionClass::Follow:
    return PaintList::Infer;
  case PrecisionClass::Clear:
    return PaintList::Clear;
  case PrecisionClass::Widest:
  case PrecisionClass::HighResult:
  case PrecisionClass::Ban:
    break; // not in TensorFlow's lists
  }
  return PaintList::None;
}

static std::optional<PrecisionClass> classOf(PaintList list) {
  switch (list) {
  case PaintList::Allow:
    return PrecisionClass::Low;
  case PaintList::Deny:
    return PrecisionClass::High;
  case PaintList::Infer:
    return PrecisionClass::Follow;
  case PaintList::Clear:
    return PrecisionClass::Clear;
  case PaintList::None:
    break;
  }
  return std::nullopt;
}

/// Returns true if operand `index` of `op` has the type that TensorFlow's
/// rewriter changes. Scale and statistics of a batch norm have one of their
/// own.
static bool takesPart(Operation *op, unsigned index) {
  return isPrecisionOperand(op, index) && !(isa<BatchNormOp>(op) && index > 0);
}

namespace {

class TensorFlowPlanner {
public:
  explicit TensorFlowPlanner(PlanBuilder &builder)
      : builder(builder),
        sources(builder.func, builder.policy, hasForeignSource) {}

  LogicalResult run();

private:
  /// Returns the type that overrides or the model force on a group: that of the
  /// member that has one.
  FailureOr<FloatType> forcedType(const FrameworkOpGroup &group) const;
  PaintList listOf(const FrameworkOpGroup &group) const;
  /// Returns true for a retargetable cast of the model from another type to
  /// f32.
  bool isRetargetable(Operation *op) const;
  PaintNode makeNode(const FrameworkOpGroup &group, FloatType forced) const;
  void addEdges();

  void narrow(const FrameworkOpGroup &group, FloatType type);
  void keepWide(const FrameworkOpGroup &group);
  std::string describe(unsigned node, const Painting &painting) const;

  PlanBuilder &builder;
  FrameworkOps sources;
  PaintGraph graph;
  /// The group of each node; the last node has none: it represents readers that
  /// take no part.
  SmallVector<const FrameworkOpGroup *> groups;
  llvm::DenseMap<const FrameworkOpGroup *, unsigned> nodes;
};

} // namespace

//===----------------------------------------------------------------------===//
// Graph
//===----------------------------------------------------------------------===//

/// Returns the reason for a forced type, for messages.
static std::string forceOf(const OpPlan &plan) {
  return plan.override ? "'" + plan.override->text + "'"
                       : "the model's own compute mode";
}

FailureOr<FloatType>
TensorFlowPlanner::forcedType(const FrameworkOpGroup &group) const {
  Operation *first = nullptr;
  for (Operation *op : group.members) {
    const OpPlan *plan = builder.findPlan(op);
    if (!plan || !plan->isForced())
      continue;
    if (first && builder.findPlan(first)->compute != plan->compute) {
      const OpPlan *other = builder.findPlan(first);
      InFlightDiagnostic diag = op->emitError();
      diag << (plan->override ? "override " : "") << forceOf(*plan)
           << " contradicts " << forceOf(*other)
           << ": both ops are TensorFlow's one '" << group.op
           << "'; keep one of them";
      diag.attachNote(first->getLoc()) << "the other op";
      return diag;
    }
    if (!first)
      first = op;
  }
  return first ? builder.findPlan(first)->compute : FloatType();
}

PaintList TensorFlowPlanner::listOf(const FrameworkOpGroup &group) const {
  bool foreign = hasForeignSource(group.members.front());
  std::string name =
      foreign ? systemOpOf(group.members.front(), builder.policy) : group.op;
  std::optional<PrecisionClass> cls = builder.policy.classOfSystemOp(name);
  return cls ? paintListOf(*cls) : PaintList::None;
}

bool TensorFlowPlanner::isRetargetable(Operation *op) const {
  auto cast = dyn_cast<CastOp>(op);
  return cast && !cast.getPinned() && builder.isEligible(cast.getResult()) &&
         !builder.isEligible(cast.getInput());
}

PaintNode TensorFlowPlanner::makeNode(const FrameworkOpGroup &group,
                                      FloatType forced) const {
  PaintNode node;
  node.isCastToWide =
      group.members.size() == 1 && isRetargetable(group.members.front());
  node.isWide =
      node.isCastToWide || llvm::any_of(group.members, [&](Operation *op) {
        const OpPlan *plan = builder.findPlan(op);
        return plan && plan->role != OpPlan::Role::Untouched;
      });
  for (Operation *op : group.members)
    for (Value result : op->getResults()) {
      node.supportsNarrow &= !builder.carriesIntegers(result);
      node.isPreserved |= llvm::is_contained(
          builder.body().getTerminator()->getOperands(), result);
    }
  if (!forced) {
    node.list = listOf(group);
    return node;
  }
  // A type forced by the user is a seed or a denial, at the outputs too.
  node.isPreserved = false;
  node.supportsNarrow = true;
  node.list = isNarrow(forced) ? PaintList::Allow : PaintList::Deny;
  return node;
}

void TensorFlowPlanner::addEdges() {
  unsigned outside = graph.addNode(PaintNode());
  groups.push_back(nullptr);
  for (Operation &op : builder.body()) {
    const FrameworkOpGroup *reader = sources.getGroup(&op);
    for (OpOperand &operand : op.getOpOperands()) {
      Operation *producer = operand.get().getDefiningOp();
      const FrameworkOpGroup *source =
          producer ? sources.getGroup(producer) : nullptr;
      if (!source || source == reader || !builder.isEligible(operand.get()))
        continue;
      bool flows = reader && takesPart(&op, operand.getOperandNumber());
      graph.addEdge(nodes.at(source), flows ? nodes.at(reader) : outside);
    }
  }
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

// A single op is typed directly: it loads and stores 16 bits and rounds once.
// Several ops that form one TensorFlow op round their inputs, compute in f32
// and round their outputs, except for movement and comparisons, which do not
// round.
void TensorFlowPlanner::narrow(const FrameworkOpGroup &group, FloatType type) {
  const Policy &policy = builder.policy;
  bool sumsNarrow =
      policy.getAccumulate() == policy.getCompute() && type == builder.low;
  bool inside = group.members.size() > 1 && listOf(group) != PaintList::Clear;
  for (Operation *op : group.members) {
    const OpPlan *found = builder.findPlan(op);
    if (!found ||
        (found->role == OpPlan::Role::Untouched && !isRetargetable(op)))
      continue;
    OpPlan &plan = builder.planOf(op);
    bool contraction = isContraction(op);
    bool computesWide =
        !contraction && (inside || isa<BatchNormOp, BatchNormTrainingOp>(op));
    plan.role = contraction ? OpPlan::Role::Multiply : OpPlan::Role::Compute;
    plan.compute = computesWide ? builder.wide : type;
    plan.result = contraction && !sumsNarrow ? builder.wide : plan.compute;
    for (OpOperand &operand : op->getOpOperands())
      if (computesWide && group.isExternal(operand) &&
          builder.isEligible(operand.get()) &&
          takesPart(op, operand.getOperandNumber()))
        builder.setRounding(op, operand.getOperandNumber(), type);
    for (Value result : op->getResults()) {
      if (!builder.isEligible(result) ||
          (plan.result == builder.wide && !group.isResult(result)))
        continue;
      builder.setStorage(result, type);
    }
  }
}

// Unpainted ops stay as planned: f32, or an override's type.
void TensorFlowPlanner::keepWide(const FrameworkOpGroup &group) {
  for (Operation *op : group.members) {
    const OpPlan *plan = builder.findPlan(op);
    if (plan && plan->override && plan->result != builder.wide)
      for (Value result : op->getResults())
        if (builder.isEligible(result))
          builder.setStorage(result, plan->result);
  }
}

std::string TensorFlowPlanner::describe(unsigned node,
                                        const Painting &painting) const {
  std::optional<unsigned> from = painting.getCause(node);
  std::string cause;
  if (from)
    cause = ("'" + opName(groups[*from]->members.back()) + "'").str();
  switch (painting.getRule(node)) {
  case PaintRule::Seed:
    return "";
  case PaintRule::Deny:
    return from ? "follows " + cause + ", which is on the deny list" : "";
  case PaintRule::Between:
    return "between ops of the allow list";
  case PaintRule::Follow:
    return "follows 16-bit " + cause;
  case PaintRule::Spread:
    return "adjacent to 16-bit " + cause;
  case PaintRule::Cast:
    return "only 16-bit ops read it";
  case PaintRule::Dropped:
  case PaintRule::Cluster:
  case PaintRule::Unpainted:
    break;
  }
  const PaintNode &data = graph[node];
  if (data.list == PaintList::None)
    return "in no list";
  if (data.isPreserved)
    return "an output keeps its type";
  if (!data.supportsNarrow)
    return "carries integers that 16 bits cannot hold";
  return "no rule converts it to 16 bits";
}

LogicalResult TensorFlowPlanner::run() {
  SmallVector<FloatType> types;
  for (const FrameworkOpGroup *group : sources.getGroups()) {
    FailureOr<FloatType> forced = forcedType(*group);
    if (failed(forced))
      return failure();
    nodes[group] = graph.addNode(makeNode(*group, *forced));
    groups.push_back(group);
    types.push_back(isNarrow(*forced) ? *forced : builder.low);
  }
  addEdges();
  Painting painting(graph);
  for (unsigned node = 0; node < types.size(); ++node) {
    const FrameworkOpGroup &group = *groups[node];
    if (painting.isPainted(node))
      narrow(group, types[node]);
    else
      keepWide(group);
    std::optional<PrecisionClass> cls = classOf(graph[node].list);
    for (Operation *op : group.members) {
      const OpPlan *found = builder.findPlan(op);
      if (!found || found->isForced() || found->role == OpPlan::Role::Untouched)
        continue;
      OpPlan &plan = builder.planOf(op);
      plan.cls = cls.value_or(PrecisionClass::High);
      plan.rule = cls ? stringify(*cls).str() : "unlisted";
      plan.reason = describe(node, painting);
    }
  }
  return success();
}

LogicalResult mpc::planTensorFlowPainting(PlanBuilder &builder) {
  for (Operation &op : builder.body()) {
    if (!isa<PrecisionOpInterface>(op))
      continue;
    FailureOr<bool> fixed = planFixed(builder, &op);
    if (failed(fixed))
      return failure();
    OpPlan &plan = builder.planOf(&op);
    if (*fixed)
      continue;
    plan.role = OpPlan::Role::Compute;
    plan.compute = plan.result = builder.wide;
  }
  return TensorFlowPlanner(builder).run();
}
