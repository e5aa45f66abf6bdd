//===- ExplainCollect.cpp - collecting a report from the IR ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Only reads attributes and types; decisions are made by the passes.
//
//===----------------------------------------------------------------------===//

#include "Explanation.h"
#include "InstrumentOps.h"

#include "JIT/Compiler.h"

#include "mpc/Analysis/FakeQuantization.h"
#include "mpc/Analysis/OpTypes.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

using namespace mpc;
using namespace mpc::tool;

static bool isHalfTensor(mlir::Type type) {
  mlir::Type element = mlir::getElementTypeOrSelf(type);
  return element.isF16() || element.isBF16();
}

//===----------------------------------------------------------------------===//
// Decisions
//===----------------------------------------------------------------------===//

/// Returns the shape of the first result.
static std::vector<int64_t> shapeOf(mlir::Operation *op) {
  return mlir::cast<mlir::ShapedType>(op->getResult(0).getType())
      .getShape()
      .vec();
}

/// Formats a decision: the rule applied to `kind`, then the compiler's remarks.
static std::string sentence(DecisionAttr decision, const std::string &kind) {
  std::string rule = decision.getRule().str();
  std::string policy = "policy '" + decision.getList().str() + "'";
  std::string text;
  if (rule == "low")
    text = policy + " computes " + kind + " in its low-precision type";
  else if (rule == "high")
    text = policy + " computes " + kind + " in float32";
  else if (rule == "follow")
    text = kind + " follows its operands under " + policy;
  else if (rule == "clear")
    text = kind + " takes any type under " + policy;
  else if (rule == "widest")
    text =
        kind + " computes in the widest type of its operands under " + policy;
  else if (rule == "high_result")
    text = policy + " sets the result of " + kind + " to float32";
  else if (rule == "override" && decision.getOverride())
    text = "override " + decision.getOverride().str();
  else if (rule == "pin")
    text = "the model fixes it";
  else if (rule == "untouched")
    text = policy + " does not touch it";
  else
    text = "rule '" + rule + "' of " + policy;
  if (mlir::StringAttr reason = decision.getReason())
    text += "; " + reason.str();
  return text;
}

int64_t tool::countNarrowConstants(mlir::func::FuncOp function) {
  int64_t count = 0;
  function.walk(
      [&](ConstantOp op) { count += isHalfTensor(op.getResult().getType()); });
  return count;
}

static void explainConstant(ConstantOp op, Explanation &explanation) {
  auto narrowing = mlir::dyn_cast_if_present<NarrowingAttr>(
      op->getDiscardableAttr(MpcDialect::kNarrowingAttr));
  if (!narrowing)
    return;
  auto weights = op->getAttrOfType<mlir::StringAttr>(kWeightsAttr);
  explanation.constants.push_back(
      {opName(op), typeName(op.getResult().getType()),
       weights ? weights.str() : std::string(), narrowing.getCount(),
       narrowing.getOverflowed(), narrowing.getFlushed(),
       narrowing.getMaxError().getValueAsDouble(),
       narrowing.getRmsError().getValueAsDouble()});
}

/// Appends the edges among the ops in `numbers`, inputs and results.
static void
explainEdges(mlir::func::FuncOp function,
             const llvm::DenseMap<mlir::Operation *, size_t> &numbers,
             std::vector<ExplainedEdge> &edges) {
  StepFunction step(function);
  auto connect = [&](mlir::Value value, std::variant<size_t, std::string> to) {
    auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
    while (mlir::Operation *op = value.getDefiningOp()) {
      if (!isInsertedCast(op))
        break;
      value = mlir::cast<CastOp>(op).getInput();
    }
    std::variant<size_t, std::string> from;
    if (mlir::Operation *op = value.getDefiningOp()) {
      auto found = numbers.find(op);
      if (found == numbers.end())
        return;
      from = found->second;
    } else {
      unsigned number = mlir::cast<mlir::BlockArgument>(value).getArgNumber();
      RoleAttr role = step.argumentRole(number);
      if (role && role.getKind() != RoleKind::input &&
          role.getKind() != RoleKind::label)
        return;
      mlir::StringRef name = step.argumentName(number);
      from = name.empty() ? "argument " + std::to_string(number) : name.str();
    }
    edges.push_back({std::move(from), std::move(to), typeName(type),
                     type.getShape().vec()});
  };
  for (mlir::Operation &op : step.body().without_terminator())
    if (auto found = numbers.find(&op); found != numbers.end())
      for (mlir::Value operand : op.getOperands())
        connect(operand, found->second);
  for (mlir::OpOperand &result : step.terminator()->getOpOperands()) {
    // Skip new weights and states.
    RoleAttr role = step.resultRole(result.getOperandNumber());
    if (role && role.getKind() != RoleKind::output &&
        role.getKind() != RoleKind::loss)
      continue;
    mlir::StringRef name = step.resultName(result.getOperandNumber());
    connect(result.get(),
            name.empty() ? "result " + std::to_string(result.getOperandNumber())
                         : name.str());
  }
}

void tool::explainPrecision(mlir::func::FuncOp function,
                            Explanation &explanation) {
  llvm::DenseMap<mlir::Operation *, size_t> numbers;
  auto text = [](mlir::StringAttr attribute) {
    return attribute ? std::optional<std::string>(attribute.str())
                     : std::nullopt;
  };
  for (mlir::Operation &op : function.getBody().front().without_terminator()) {
    if (auto constant = mlir::dyn_cast<ConstantOp>(op)) {
      explainConstant(constant, explanation);
      continue;
    }
    if (op.getNumResults() == 0)
      continue;
    DecisionAttr decision = decisionOf(&op);
    if (mlir::isa<CastOp>(op)) {
      ++explanation.casts;
      explanation.castBytes += operandAndResultBytes(&op);
      // The model's own casts have a decision; inserted ones are only counted.
      if (!decision)
        continue;
    }
    ExplainedOp explained;
    explained.name = opName(&op);
    explained.kind = opKind(&op);
    explained.layer = opLayer(&op);
    explained.location = describeLocation(op.getLoc()).where;
    explained.compute = computeTypeName(&op);
    explained.accumulate = accumulateTypeName(&op);
    for (mlir::Value operand : op.getOperands())
      explained.operands.push_back(typeName(operand.getType()));
    for (mlir::Value result : op.getResults()) {
      explained.results.push_back(typeName(result.getType()));
      explained.storage.push_back(typeName(storageType(result)));
    }
    explained.shape = shapeOf(&op);
    if (decision) {
      explained.rule = text(decision.getRule());
      explained.override = text(decision.getOverride());
      explained.reason = sentence(decision, explained.kind);
      if (mlir::IntegerAttr cost = decision.getCost())
        explained.cost = cost.getInt();
    }
    numbers.try_emplace(&op, explanation.ops.size());
    explanation.ops.push_back(std::move(explained));
  }
  explainEdges(function, numbers, explanation.edges);
}

void tool::explainPadding(mlir::func::FuncOp function,
                          Explanation &explanation) {
  function.walk([&](mlir::Operation *op) {
    auto padding = mlir::dyn_cast_if_present<PaddingAttr>(
        op->getDiscardableAttr(MpcDialect::kPaddingAttr));
    if (padding)
      explanation.padding.push_back({opName(op), padding.getFrom().vec(),
                                     padding.getTo().vec(),
                                     padding.getExtraFlops()});
  });
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Returns the user-visible name of `value`: of its input or op, across fusion
/// boundaries and casts.
static std::string valueName(mlir::func::FuncOp function, mlir::Value value) {
  while (true) {
    if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(value)) {
      mlir::Operation *parent = argument.getOwner()->getParentOp();
      if (auto fusion = mlir::dyn_cast<FusionOp>(parent)) {
        value = fusion.getInputs()[argument.getArgNumber()];
        continue;
      }
      auto name = function.getArgAttrOfType<mlir::StringAttr>(
          argument.getArgNumber(), MpcDialect::kNameAttr);
      return name ? name.str()
                  : "argument " + std::to_string(argument.getArgNumber());
    }
    auto result = mlir::cast<mlir::OpResult>(value);
    if (auto fusion = mlir::dyn_cast<FusionOp>(result.getOwner())) {
      value = fusion.getBody().front().getTerminator()->getOperand(
          result.getResultNumber());
      continue;
    }
    if (isInsertedCast(result.getOwner())) {
      value = mlir::cast<CastOp>(result.getOwner()).getInput();
      continue;
    }
    return opName(result.getOwner());
  }
}

/// Returns true if a kernel only converts and rearranges.
static bool onlyConverts(FusionOp fusion) {
  bool only = true;
  fusion.getBody().walk([&](mlir::Operation *op) {
    only &=
        mlir::isa<CastOp, TransposeOp, ReshapeOp, PadOp, ConstantOp, YieldOp>(
            op);
  });
  return only;
}

/// Finds the launch that computes each op of the report; `function` has one
/// fusion per launch, first launches first. Ops of one node share its name, in
/// a training step with those of its derivative.
static void findLaunches(mlir::func::FuncOp function,
                         Explanation &explanation) {
  using Shape = std::optional<std::vector<int64_t>>;
  using Key = std::tuple<std::string, std::string, Shape>;
  // Padding changes shapes: match by shape first, then without.
  for (bool isExact : {true, false}) {
    auto keyOf = [&](std::string name, std::string kind, Shape shape) {
      return Key(std::move(name), std::move(kind),
                 isExact ? std::move(shape) : std::nullopt);
    };
    std::map<Key, std::vector<ExplainedOp *>> waiting;
    for (ExplainedOp &op : llvm::reverse(explanation.ops))
      if (!op.launch)
        waiting[keyOf(op.name, op.kind, op.shape)].push_back(&op);
    size_t index = 0;
    for (auto fusion : function.getBody().front().getOps<FusionOp>()) {
      if (index == explanation.kernels.size())
        break;
      fusion.getBody().walk([&](mlir::Operation *op) {
        if (op->getNumResults() == 0 || mlir::isa<ConstantOp>(op) ||
            isInsertedCast(op))
          return;
        auto found = waiting.find(keyOf(opName(op), opKind(op), shapeOf(op)));
        if (found == waiting.end() || found->second.empty())
          return;
        found->second.back()->launch = index;
        found->second.pop_back();
      });
      ++index;
    }
  }
  // Decomposed ops and launches without a fusion: the first launch with the
  // op's name after its producers.
  llvm::StringMap<llvm::SmallVector<size_t>> launchesOf;
  for (auto [index, kernel] : llvm::enumerate(explanation.kernels))
    for (const std::string &op : kernel.ops)
      launchesOf[op].push_back(index);
  std::vector<size_t> earliest(explanation.ops.size(), 0);
  auto edge = explanation.edges.begin();
  for (auto [number, op] : llvm::enumerate(explanation.ops)) {
    // Edges are sorted by consumer.
    for (; edge != explanation.edges.end(); ++edge) {
      const size_t *to = std::get_if<size_t>(&edge->to),
                   *from = std::get_if<size_t>(&edge->from);
      if (!to || *to != number)
        break;
      if (from)
        earliest[number] =
            std::max(earliest[number],
                     explanation.ops[*from].launch.value_or(earliest[*from]));
    }
    if (!op.launch)
      for (size_t launch : launchesOf.lookup(op.name))
        if (!op.launch || *op.launch < earliest[number])
          op.launch = launch;
    if (op.launch)
      op.kernel = explanation.kernels[*op.launch].name;
  }
}

void tool::explainKernels(mlir::func::FuncOp function, const Program &program,
                          const TargetInfo &target,
                          const llvm::StringMap<MathType> &multiplied,
                          Explanation &explanation) {
  for (const Launch &launch : program.launches) {
    ExplainedKernel kernel;
    kernel.name = launch.kernel;
    kernel.kind = launch.kind;
    kernel.ops = launch.ops;
    kernel.bytes = launch.bytes;
    kernel.flops = launch.flops;
    // Collectives have no modeled time.
    if (target.hasCeilings() && !launch.collective)
      kernel.seconds = modelledSeconds(launch, target, multiplied);
    explanation.kernels.push_back(std::move(kernel));
  }
  explanation.arenaBytes = program.arenaBytes;
  explanation.arenaLiveBytes = program.liveArenaBytes();
  findLaunches(function, explanation);

  size_t index = 0;
  for (auto fusion : function.getBody().front().getOps<FusionOp>()) {
    if (index == explanation.kernels.size())
      break;
    ExplainedKernel &kernel = explanation.kernels[index];
    bool alone = onlyConverts(fusion);
    fusion.getBody().walk([&](CastOp cast) {
      auto type = mlir::cast<mlir::RankedTensorType>(cast.getType());
      ++kernel.casts;
      explanation.castList.push_back(
          {valueName(function, cast.getInput()),
           typeName(cast.getInput().getType()), typeName(type),
           type.getShape().vec(), operandAndResultBytes(cast), index,
           kernel.name, alone, !isInsertedCast(cast)});
    });
    ++index;
  }
}

ExplainedWhy tool::explainAccount(const std::string &name,
                                  const WhyAccount &account) {
  ExplainedWhy why;
  why.name = name;
  why.type = typeName(account.type);
  for (const WhyStep &step : account.steps)
    why.steps.push_back(
        {step.text, step.op ? opName(step.op) : "",
         step.op ? describeLocation(step.op->getLoc()).where : ""});
  if (account.flip) {
    if (account.flip->op)
      why.flippedOp = opName(account.flip->op);
    why.add = account.flip->add;
    why.drop = account.flip->drop;
    why.becomes = typeName(account.flip->becomes);
  }
  why.keeps = account.keeps;
  why.bytesSaved = account.bytesSaved;
  why.castBytes = account.castBytes;
  return why;
}
