//===- CastPlacementModel.cpp - cost model of cast placement --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cost of a label is the memory traffic of the value between kernels: one
// store by its producer and one load per consumer kernel, in the label's type.
// Values inside a kernel are free. A cast costs its additional traffic: a
// second copy if a kernel stores both types, a read and a write if it is a
// kernel of its own, nothing if it is fused into the consumer.
//
//===----------------------------------------------------------------------===//

#include "CastPlacementModel.h"

#include "PlanBuilder.h"

#include "mpc/Analysis/TrainingTypes.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mpc;

/// Number of elements of `value`, bounded so that sums of bytes fit an int64.
static int64_t elementsOf(Value value) {
  return std::min(elementCount(value), int64_t(1) << 40);
}

static const OpPlan *planFor(const PrecisionPlan &plan, Operation *op) {
  return plan.hasPlan(op) ? &plan.getPlan(op) : nullptr;
}

bool mpc::isMove(const PrecisionPlan &plan, Operation *op) {
  const OpPlan *opPlan = planFor(plan, op);
  return opPlan && opPlan->role == OpPlan::Role::Move;
}

/// Returns true if `opPlan` has its op read operand `index` unrounded.
static bool takesUnrounded(const OpPlan &opPlan, Operation *op,
                           unsigned index) {
  switch (opPlan.unrounded) {
  case OpPlan::Unrounded::None:
    return false;
  case OpPlan::Unrounded::Ordered:
    return cast<OrderDependentOpInterface>(op).dependsOnOrder(index);
  case OpPlan::Unrounded::All:
    return true;
  }
  return false;
}

OperandReading mpc::readingOf(const PrecisionPlan &plan, OpOperand &use) {
  using Kind = OperandReading::Kind;
  Operation *op = use.getOwner();
  FloatType wide = Float32Type::get(op->getContext());
  if (FloatType rounding = plan.getRounding(op, use.getOperandNumber()))
    return {Kind::Narrow, rounding};
  const OpPlan *opPlan = planFor(plan, op);
  if (!opPlan || opPlan->role == OpPlan::Role::Untouched ||
      !isPrecisionOperand(op, use.getOperandNumber()))
    return {Kind::Exact, wide};
  if (takesUnrounded(*opPlan, op, use.getOperandNumber()))
    return {Kind::Exact, opPlan->compute};
  if (opPlan->role == OpPlan::Role::Move) {
    bool moves = llvm::any_of(op->getResults(), [&](Value result) {
      return plan.isEligible(result);
    });
    return {moves ? Kind::Moved : Kind::Any, {}};
  }
  return {isNarrow(opPlan->compute) ? Kind::Narrow : Kind::Wide,
          opPlan->compute};
}

FloatType mpc::bornType(const PrecisionPlan &plan, Value value) {
  Operation *op = value.getDefiningOp();
  const OpPlan *opPlan = op ? planFor(plan, op) : nullptr;
  if (!opPlan || opPlan->role == OpPlan::Role::Untouched ||
      !isPrecisionResult(value))
    return Float32Type::get(value.getContext());
  return opPlan->role == OpPlan::Role::Move ? FloatType() : opPlan->result;
}

/// Returns the first result that the policy may narrow, which determines the
/// type of a move.
static Value movedResult(const PrecisionPlan &plan, Operation *op) {
  for (Value result : op->getResults())
    if (plan.isEligible(result))
      return result;
  return {};
}

/// Number of elements of `value` that `op` loads.
static int64_t elementsRead(Operation *op, Value value) {
  switch (fusionClassOf(op)) {
  case FusionClass::View:
    return 0;
  case FusionClass::IndexMap:
  case FusionClass::Gather:
    return std::min(elementsOf(value), elementsOf(op->getResult(0)));
  default:
    return elementsOf(value);
  }
}

//===----------------------------------------------------------------------===//
// Demands of readers
//===----------------------------------------------------------------------===//

/// Readers of a value outside its kernel.
struct CastPlacementModel::Readers {
  struct Kernel {
    int64_t elements = 0;
    bool wide = false, narrow = false, any = false;
    /// Whether it fuses the casts that such readers need.
    bool widens = true, narrows = true;
  };
  /// Kernels that need one type, or any.
  llvm::MapVector<const void *, Kernel> kernels;
  /// Moves, each once, and whether each fuses a cast of the value.
  llvm::MapVector<Operation *, bool> moves;
  /// Read by the function's return.
  bool returned = false;

  bool empty() const { return kernels.empty() && moves.empty() && !returned; }
  bool anyOf(bool Kernel::*flag) const {
    return llvm::any_of(kernels,
                        [&](const auto &entry) { return entry.second.*flag; });
  }
};

CastPlacementModel::Readers CastPlacementModel::readersOf(Value value) const {
  Readers readers;
  Operation *producer = value.getDefiningOp();
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    OperandReading reading = readingOf(plan, use);
    const FusionGroup *kernel = kernels.groupOf(user);
    // Movement inside a kernel is no place for a cast: the moved value has one
    // type from its load on.
    bool moves = reading.kind == OperandReading::Kind::Moved ||
                 (producer && isMove(plan, producer));
    if (producer && !moves && kernel == kernels.groupOf(producer))
      continue;
    bool absorbs = fusesOperandCast(user, use.getOperandNumber(), target);
    if (!kernel) {
      readers.returned = true;
    } else if (reading.kind == OperandReading::Kind::Moved) {
      auto [move, isNew] = readers.moves.try_emplace(user, absorbs);
      move->second &= absorbs;
    } else {
      Readers::Kernel &entry = readers.kernels[kernel];
      entry.elements = std::max(entry.elements, elementsRead(user, value));
      if (reading.kind == OperandReading::Kind::Narrow) {
        entry.narrow = true;
        entry.narrows &= absorbs;
      } else if (reading.kind == OperandReading::Kind::Any) {
        entry.any = true;
      } else {
        entry.wide = true;
        entry.widens &= absorbs;
      }
    }
  }
  return readers;
}

void CastPlacementModel::collectDemands() {
  auto collect = [&](Value value) {
    Demand demand;
    for (OpOperand &use : value.getUses()) {
      OperandReading reading = readingOf(plan, use);
      switch (reading.kind) {
      case OperandReading::Kind::Exact:
      case OperandReading::Kind::Wide:
        demand.wide = true;
        break;
      case OperandReading::Kind::Narrow:
        demand.narrow.insert(reading.type);
        break;
      case OperandReading::Kind::Moved:
        for (Value result : use.getOwner()->getResults())
          if (plan.isEligible(result)) {
            const Demand &behind = demands[result];
            demand.wide |= behind.wide;
            demand.narrow.insert(behind.narrow.begin(), behind.narrow.end());
          }
        break;
      case OperandReading::Kind::Any:
        break;
      }
    }
    demands[value] = std::move(demand);
  };
  Block &body = func.getBody().front();
  for (Operation &op : llvm::reverse(body))
    for (Value result : op.getResults())
      if (plan.isEligible(result))
        collect(result);
  for (Value argument : body.getArguments())
    if (plan.isEligible(argument))
      collect(argument);
}

void CastPlacementModel::chooseLowTypes(FloatType store) {
  auto choose = [&](Value value) -> FloatType {
    FloatType born = bornType(plan, value);
    if (born && isNarrow(born))
      return born;
    const Demand &demand = demandOf(value);
    if (!born) {
      // A move keeps the type of its input.
      llvm::SmallSetVector<FloatType, 2> sources;
      for (Value operand : value.getDefiningOp()->getOperands())
        if (FloatType source = lowTypes.lookup(operand))
          sources.insert(source);
      if (!sources.empty())
        return sources.size() == 1 ? sources.front() : FloatType();
    }
    if (demand.narrow.size() > 1)
      return {};
    FloatType type = demand.narrow.empty() ? store : demand.narrow.front();
    return isNarrow(type) ? type : FloatType();
  };
  for (Value value : values) {
    Operation *op = value.getDefiningOp();
    bool follows = op && isMove(plan, op) && movedResult(plan, op) != value;
    lowTypes[value] = follows ? lowTypes[movedResult(plan, op)] : choose(value);
  }
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

int64_t CastPlacementModel::lowBytes(Value value) const {
  FloatType low = lowTypes.lookup(value);
  return elementsOf(value) * (low ? low.getWidth() / 8 : 2);
}

static int64_t highBytes(Value value, FloatType born) {
  bool isWider = born && born.getWidth() > 32;
  return elementsOf(value) * (isWider ? 8 : 4);
}

void CastPlacementModel::addValue(Value value) {
  PlacementProblem::Node &node = problem.nodes[nodes[value]];
  Operation *op = value.getDefiningOp();
  FloatType born = bornType(plan, value);
  bool bornNarrow = born && isNarrow(born);
  int64_t high = highBytes(value, born), low = lowBytes(value);
  Readers readers = readersOf(value);
  if (op && !readers.empty() && fusionClassOf(op) != FusionClass::View) {
    // A move runs in the type of its result.
    bool narrows = !born || bornNarrow || fusesResultCast(op, target);
    node.highCost += bornNarrow ? low : high;
    node.lowCost += narrows ? low : high + high + low;
  }
  int64_t count = std::max<int64_t>(elementsOf(value), 1);
  for (auto &[kernel, reader] : readers.kernels) {
    int64_t highRead = high / count * reader.elements,
            lowRead = low / count * reader.elements;
    if (reader.wide || reader.any) {
      node.highCost += highRead;
      node.lowCost += reader.wide && !reader.widens ? highRead : lowRead;
    }
    if (reader.narrow) {
      node.highCost += lowRead;
      node.lowCost += lowRead;
    }
  }
  addCasts(value, readers);
}

void CastPlacementModel::addCasts(Value value, const Readers &readers) {
  Operation *op = value.getDefiningOp();
  bool rides = op && fusesResultCast(op, target);
  int64_t high = highBytes(value, bornType(plan, value)), low = lowBytes(value);
  int64_t alone = high + low;
  int64_t count = std::max<int64_t>(elementsOf(value), 1);

  PlacementProblem::Cast narrow{nodes[value], {}, rides ? low : alone, 0};
  PlacementProblem::Cast widen{nodes[value], {}, 0, rides ? high : alone};
  // Traffic of separate casts in the readers' kernels.
  bool allNarrow = true;
  int64_t own = 0;
  for (auto &[kernel, reader] : readers.kernels) {
    if (reader.narrow) {
      allNarrow &= reader.narrows;
      own += (high - low) / count * reader.elements;
    }
  }
  if (readers.anyOf(&Readers::Kernel::narrow))
    narrow.readers.push_back(lowReader);
  bool widensAlone =
      readers.returned || llvm::any_of(readers.kernels, [](const auto &entry) {
        return entry.second.wide && !entry.second.widens;
      });
  if (widensAlone)
    widen.readers.push_back(highReader);
  for (auto &[move, absorbs] : readers.moves) {
    unsigned result = nodes[movedResult(plan, move)];
    narrow.readers.push_back(result);
    allNarrow &= absorbs;
    own += (high - low) / count * elementsRead(move, value);
    if (!absorbs)
      widen.readers.push_back(result);
  }
  if (!rides && allNarrow)
    narrow.narrow = std::min(narrow.narrow, own);
  for (PlacementProblem::Cast *cast : {&narrow, &widen})
    if (!cast->readers.empty()) {
      castsOf[value].push_back(problem.casts.size());
      problem.casts.push_back(*cast);
    }
}

void CastPlacementModel::addMove(Operation *op) {
  Value result = movedResult(plan, op);
  if (!result)
    return;
  PlacementProblem::Node &node = problem.nodes[nodes[result]];
  int64_t low = lowTypes[result] ? lowTypes[result].getWidth() / 8 : 2;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!plan.isEligible(operand.get()) ||
        readingOf(plan, operand).kind != OperandReading::Kind::Moved)
      continue;
    int64_t elements = elementsRead(op, operand.get());
    node.highCost += elements * 4;
    node.lowCost += elements * low;
  }
}

int64_t CastPlacementModel::constantBytes() const {
  int64_t bytes = 0;
  func::FuncOp function = func;
  for (auto constant : function.getBody().front().getOps<mpc::ConstantOp>()) {
    Value value = constant.getResult();
    if (!plan.isEligible(value) || splatValue(constant.getValue()))
      continue;
    for (auto &[kernel, reader] : readersOf(value).kernels)
      bytes += reader.elements * (reader.wide || reader.any ? 4 : 2);
  }
  return bytes;
}

CastPlacementModel::CastPlacementModel(func::FuncOp func,
                                       const PrecisionPlan &plan,
                                       const CastFusionTarget &target,
                                       FloatType store,
                                       const PlanningAnalyses *facts)
    : func(func), plan(plan), target(target),
      own(facts ? nullptr
                : std::make_unique<const PlanningAnalyses>(func, target)),
      kernels(facts ? facts->getKernels() : own->getKernels()) {
  highReader = problem.addNode(0, 0, StorageLabel::High);
  lowReader = problem.addNode(0, 0, StorageLabel::Low);
  Block &body = func.getBody().front();
  collectDemands();
  auto addNode = [&](Value value) {
    if (!plan.isEligible(value) || value.getDefiningOp<mpc::ConstantOp>())
      return;
    values.push_back(value);
    Operation *op = value.getDefiningOp();
    Value first = op && isMove(plan, op) ? movedResult(plan, op) : value;
    nodes[value] = first == value ? problem.addNode() : nodes[first];
  };
  llvm::for_each(body.getArguments(), addNode);
  for (Operation &op : body)
    llvm::for_each(op.getResults(), addNode);
  chooseLowTypes(store);
  for (Value value : values)
    addValue(value);
  for (Operation &op : body)
    if (isMove(plan, &op))
      addMove(&op);
}

//===----------------------------------------------------------------------===//
// Types of labels
//===----------------------------------------------------------------------===//

std::vector<StorageLabel>
CastPlacementModel::labels(llvm::function_ref<bool(Value)> isLow) const {
  std::vector<StorageLabel> result(problem.nodes.size(), StorageLabel::High);
  result[lowReader] = StorageLabel::Low;
  for (Value value : values)
    if (isLow(value))
      result[nodeOf(value)] = StorageLabel::Low;
  return result;
}

int64_t CastPlacementModel::bytesSaved(Value value) const {
  const PlacementProblem::Node &node = problem.nodes[nodeOf(value)];
  return std::max<int64_t>(node.highCost - node.lowCost, 0);
}

int64_t CastPlacementModel::castBytes(Value value,
                                      ArrayRef<StorageLabel> labels) const {
  auto found = castsOf.find(value);
  if (found == castsOf.end())
    return 0;
  int64_t bytes = 0;
  for (unsigned index : found->second)
    bytes += cost(problem.casts[index], labels);
  return bytes;
}

bool CastPlacementModel::prefersOwnCasts(Value value,
                                         ArrayRef<StorageLabel> labels) const {
  Operation *op = value.getDefiningOp();
  if (labels[nodeOf(value)] == StorageLabel::Low ||
      (op && fusesResultCast(op, target)))
    return false;
  int64_t high = highBytes(value, bornType(plan, value)), low = lowBytes(value);
  int64_t count = std::max<int64_t>(elementsOf(value), 1);
  Readers readers = readersOf(value);
  int64_t own = 0, casts = 0;
  auto add = [&](bool absorbs, int64_t elements) {
    own += (high - low) / count * elements;
    ++casts;
    return absorbs;
  };
  for (auto &[kernel, reader] : readers.kernels)
    if (reader.narrow && !add(reader.narrows, reader.elements))
      return false;
  for (auto &[move, absorbs] : readers.moves)
    if (labels[nodeOf(movedResult(plan, move))] == StorageLabel::Low &&
        !add(absorbs, elementsRead(move, value)))
      return false;
  return casts > 1 && own < high + low;
}

int64_t PrecisionPlan::placementBytes(func::FuncOp func,
                                      const CastFusionTarget &target,
                                      const PlanningAnalyses *facts) const {
  CastPlacementModel model(func, *this, target, wide, facts);
  std::vector<StorageLabel> labels =
      model.labels([&](Value value) { return isNarrow(getStorage(value)); });
  return cost(model.problem, labels) + model.constantBytes();
}
