//===- VerifyStage.cpp - verify stage contracts ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the stage contracts of docs/Explanation/Overview.md. Runs after
// every stage of every compile; changes nothing.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/CastFusion.h"
#include "mpc/Analysis/Float32Subgraphs.h"
#include "mpc/Analysis/Fusion/GreedyFusion.h"
#include "mpc/Analysis/Fusion/Views.h"
#include "mpc/Analysis/OpTypes.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Policy/Policy.h"
#include "mpc/Support/EscapedText.h"
#include "mpc/Support/StepNames.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_VERIFYSTAGEPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

namespace {

/// Stages with a contract on functions, in pipeline order.
enum class StageKind {
  Import,
  Lift,
  Simplify,
  Differentiate,
  Precision,
  Distribute,
  LossScale,
  Pad,
  Layout,
  Fuse
};

std::optional<StageKind> parseStage(StringRef name) {
  return llvm::StringSwitch<std::optional<StageKind>>(name)
      .Case("import", StageKind::Import)
      .Case("lift", StageKind::Lift)
      .Case("simplify", StageKind::Simplify)
      .Case("differentiate", StageKind::Differentiate)
      .Case("precision", StageKind::Precision)
      .Case("distribute", StageKind::Distribute)
      .Case("loss-scale", StageKind::LossScale)
      .Case("pad", StageKind::Pad)
      .Case("layout", StageKind::Layout)
      .Case("fuse", StageKind::Fuse)
      .Default(std::nullopt);
}

//===----------------------------------------------------------------------===//
// Import, Simplify
//===----------------------------------------------------------------------===//

LogicalResult checkShape(Operation *op) {
  for (Value result : op->getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type || !type.hasStaticShape())
      return op->emitOpError() << "has the result type " << result.getType()
                               << ", which is not a tensor of static shape";
  }
  return success();
}

LogicalResult checkDialect(Operation *op) {
  if (isa<MpcDialect>(op->getDialect()) || isa<func::ReturnOp>(op))
    return success();
  return op->emitOpError() << "is neither an mpc op nor func.return";
}

/// Arguments and results are passed by name, and a name must fit into one table
/// row.
LogicalResult checkSignature(func::FuncOp func) {
  if (!func.isPublic())
    return success();
  auto check = [&](DictionaryAttr attrs, StringRef what, unsigned index,
                   llvm::StringMap<unsigned> &names) -> LogicalResult {
    for (StringRef name : {MpcDialect::kRoleAttr, MpcDialect::kNameAttr})
      if (!attrs || !attrs.get(name))
        return func.emitOpError()
               << what << " " << index << " lacks '" << name << "'";
    auto name = attrs.getAs<StringAttr>(MpcDialect::kNameAttr);
    if (printable(name.getValue()) != name.getValue())
      return func.emitOpError()
             << what << " " << index << " has the name " << name
             << ", which contains control or invisible characters, or bytes "
                "that are not UTF-8; rename it";
    auto [first, inserted] = names.try_emplace(name, index);
    if (!inserted)
      return func.emitOpError()
             << what << "s " << first->second << " and " << index
             << " have the same name " << name << "; rename one of them";
    return success();
  };
  llvm::StringMap<unsigned> arguments, results;
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    if (failed(check(func.getArgAttrDict(i), "argument", i, arguments)))
      return failure();
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    if (failed(check(func.getResultAttrDict(i), "result", i, results)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Training
//===----------------------------------------------------------------------===//

/// Checks that every parameter has an initial value.
LogicalResult checkParameters(const StepFunction &step) {
  func::FuncOp func = step.getFunction();
  for (BlockArgument parameter : step.arguments(RoleKind::parameter)) {
    unsigned i = parameter.getArgNumber();
    StringRef name = step.argumentName(i);
    auto initial =
        func.getArgAttrOfType<ElementsAttr>(i, MpcDialect::kInitialAttr);
    // For a shard, the initial value of the whole tensor.
    Type type = parameter.getType();
    if (auto shard = func.getArgAttrOfType<DenseI64ArrayAttr>(i, kShardAttr))
      type =
          RankedTensorType::get(shard.asArrayRef(), getElementTypeOrSelf(type));
    if (!initial || initial.getType() != type)
      return func.emitOpError()
             << "parameter '" << name << "' (argument " << i << ") has no '"
             << MpcDialect::kInitialAttr << "' of its type " << type;
  }
  return success();
}

/// Checks that losses are f32 or f64 scalars.
LogicalResult checkLosses(const StepFunction &step) {
  func::FuncOp func = step.getFunction();
  for (unsigned i : step.results(RoleKind::loss)) {
    auto type = dyn_cast<RankedTensorType>(func.getResultTypes()[i]);
    if (!type || type.getRank() != 0 ||
        !isa<Float32Type, Float64Type>(type.getElementType()))
      return func.emitOpError() << "loss '" << step.resultName(i) << "' is "
                                << func.getResultTypes()[i]
                                << "; a loss is a scalar in f32 or f64";
  }
  return success();
}

/// Checks that either all parameters are trained or none: each has a gradient
/// or an updated value.
LogicalResult checkTrained(const StepFunction &step) {
  SmallVector<BlockArgument> left;
  SmallVector<BlockArgument> parameters = step.arguments(RoleKind::parameter);
  for (BlockArgument parameter : parameters) {
    StringRef name = step.argumentName(parameter.getArgNumber());
    if (!step.updateOf(parameter) &&
        !step.findResult(RoleKind::output, (name + kGradientSuffix).str()))
      left.push_back(parameter);
  }
  if (left.empty() || left.size() == parameters.size())
    return success();
  unsigned i = left.front().getArgNumber();
  return step.getFunction().emitOpError()
         << "parameter '" << step.argumentName(i) << "' (argument " << i
         << ") is neither updated nor has a gradient";
}

/// Checks that an updated value has the name of the argument it replaces,
/// except for inputs that the model itself returns.
LogicalResult checkReplacements(const StepFunction &step) {
  func::FuncOp func = step.getFunction();
  for (BlockArgument argument : func.getArguments()) {
    unsigned i = argument.getArgNumber();
    std::optional<unsigned> result = step.updateOf(argument);
    RoleAttr role = step.argumentRole(i);
    if (!result || (role && role.getKind() == RoleKind::input) ||
        (step.argumentRole(i) == step.resultRole(*result) &&
         step.argumentName(i) == step.resultName(*result)))
      continue;
    return func.emitOpError()
           << "result '" << step.resultName(*result) << "' of role "
           << step.resultRole(*result) << " replaces argument '"
           << step.argumentName(i) << "' of role " << step.argumentRole(i);
  }
  return success();
}

LogicalResult checkTraining(func::FuncOp func, StageKind kind) {
  StepFunction step(func);
  StepFunction::Ports ports(step);
  if (kind == StageKind::Lift && failed(checkParameters(step)))
    return failure();
  if (kind >= StageKind::Differentiate &&
      (failed(checkLosses(step)) || failed(checkReplacements(step))))
    return failure();
  return kind == StageKind::Differentiate ? checkTrained(step) : success();
}

//===----------------------------------------------------------------------===//
// Precision
//===----------------------------------------------------------------------===//

/// Returns true if `name` is a built-in policy that does not imitate another
/// system.
bool isOwnPolicy(StringRef name) {
  if (!llvm::is_contained(Policy::builtinNames(), name))
    return false;
  llvm::Expected<Policy> policy = Policy::load(name);
  if (policy)
    return policy->getAlgorithm() == PolicyAlgorithm::MinimumCut;
  llvm::consumeError(policy.takeError());
  return false;
}

/// Returns true for decisions that let an f32 op compute in 16 bits: an
/// override, the model's own type, and rules of imitated systems under which an
/// op follows its inputs or its layer.
bool excusesNarrow(DecisionAttr decision) {
  if (!decision)
    return false;
  StringRef rule = decision.getRule().getValue();
  if (rule == "override" || rule == "untouched")
    return true;
  return llvm::is_contained({"follow", "clear", "widest", "layer"}, rule) &&
         !isOwnPolicy(decision.getList().getValue());
}

bool isNarrow(Value value) {
  auto type = dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
  return type && type.getWidth() < 32;
}

/// Returns the first float operand or result below 32 bits, or null.
Value narrowValueOf(Operation *op) {
  for (Value operand : op->getOperands())
    if (isNarrow(operand))
      return operand;
  for (Value result : op->getResults())
    if (isNarrow(result))
      return result;
  return {};
}

LogicalResult checkDecision(Operation *op) {
  if (!isa<PrecisionOpInterface>(op))
    return success();
  DecisionAttr decision = decisionOf(op);
  if (!decision && !isa<CastOp>(op))
    return op->emitOpError()
           << "carries no '" << MpcDialect::kDecisionAttr << "'";
  bool isSoftmax = isa<SoftmaxOp, LogSoftmaxOp>(op);
  if (!isSoftmax && !op->hasTrait<Loss>())
    return success();
  if (Value narrow = narrowValueOf(op); narrow && !excusesNarrow(decision))
    return op->emitOpError()
           << "computes in " << getElementTypeOrSelf(narrow.getType()) << "; "
           << (isSoftmax ? "softmax" : "a loss")
           << " is f32 unless an override says otherwise";
  return success();
}

/// Checks that the ops of a decomposed loss compute in f32 and that no value
/// between them is rounded.
LogicalResult checkLossParts(func::FuncOp func) {
  OpSet parts = findLossOps(func);
  for (Operation *op : parts) {
    if (auto cast = dyn_cast<CastOp>(op)) {
      bool fromPart = parts.contains(cast.getInput().getDefiningOp()) &&
                      !isNarrow(cast.getInput());
      // An op narrowed by an override reads a rounded value; a widening of it
      // afterwards means that storage lost bits.
      bool isWidened = llvm::any_of(cast->getUsers(), [&](Operation *user) {
        return isa<CastOp>(user) && parts.contains(user);
      });
      if (fromPart && isWidened && isNarrow(cast.getResult()) &&
          !cast.getPinned() && !decisionOf(cast))
        return cast.emitOpError()
               << "rounds a part of the loss to "
               << getElementTypeOrSelf(cast.getResult().getType());
      continue;
    }
    if (Value narrow = narrowValueOf(op);
        narrow && !excusesNarrow(decisionOf(op)))
      return op->emitOpError()
             << "computes in " << getElementTypeOrSelf(narrow.getType())
             << "; the ops of a loss are f32 unless an override says otherwise";
  }
  return success();
}

/// Checks that no policy cast rounds a float output computed in f32. Ops that
/// compute in 16 bits by policy are exempt.
LogicalResult checkOutputs(func::FuncOp func) {
  StepFunction step(func);
  for (unsigned index : step.results(RoleKind::output)) {
    Value value = step.result(index);
    auto widening = value.getDefiningOp<CastOp>();
    auto narrowing = widening && !isNarrow(value)
                         ? widening.getInput().getDefiningOp<CastOp>()
                         : CastOp();
    if (!narrowing || narrowing.getPinned() || decisionOf(narrowing) ||
        !isNarrow(narrowing.getResult()) || isNarrow(narrowing.getInput()) ||
        step.resultName(index).ends_with(kGradientSuffix))
      continue;
    Operation *maker = narrowing.getInput().getDefiningOp();
    DecisionAttr decision = maker ? decisionOf(maker) : DecisionAttr();
    if (decision && isOwnPolicy(decision.getList().getValue()))
      return narrowing.emitOpError()
             << "rounds output '" << step.resultName(index) << "' to "
             << getElementTypeOrSelf(narrowing.getType())
             << "; a float output is f32 unless an override says otherwise";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Distribute
//===----------------------------------------------------------------------===//

/// Checks that optimizers of data-parallel ranks read reduced gradients.
LogicalResult checkDistributed(Operation *op) {
  auto optimizer = dyn_cast<OptimizerOpInterface>(op);
  Operation *message =
      optimizer ? optimizer.getGradientMutable().get().getDefiningOp()
                : nullptr;
  if (!optimizer || isa_and_nonnull<AllReduceOp, ReduceScatterOp>(message))
    return success();
  return op->emitOpError()
         << "reads a gradient that is not reduced over the ranks";
}

//===----------------------------------------------------------------------===//
// Pad
//===----------------------------------------------------------------------===//

/// Checks that padding attributes are on contractions, hold four extents twice,
/// and never shrink an extent.
LogicalResult checkPadding(Operation *op) {
  auto padding = op->getAttrOfType<PaddingAttr>(MpcDialect::kPaddingAttr);
  if (!padding)
    return success();
  if (!isa<ContractionOpInterface>(op))
    return op->emitOpError() << "carries '" << MpcDialect::kPaddingAttr
                             << "' but is not a contraction";
  if (padding.getFrom().size() != 4 || padding.getTo().size() != 4)
    return op->emitOpError() << "carries '" << MpcDialect::kPaddingAttr
                             << "' without four extents before and after";
  for (auto [from, to] : llvm::zip_equal(padding.getFrom(), padding.getTo()))
    if (to < from)
      return op->emitOpError()
             << "carries '" << MpcDialect::kPaddingAttr
             << "' with an extent that shrinks from " << from << " to " << to;
  return success();
}

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

LogicalResult checkLayout(Operation *op) {
  ImageLayout layout = ImageLayout::channels_last;
  PackedAttr packed;
  unsigned weights = 1;
  if (auto conv = dyn_cast<ConvOp>(op)) {
    layout = conv.getLayout();
    packed = conv.getPackedAttr();
  } else if (auto pool = dyn_cast<MaxPoolOp>(op)) {
    layout = pool.getLayout();
  } else if (auto pool = dyn_cast<AvgPoolOp>(op)) {
    layout = pool.getLayout();
  } else if (auto matmul = dyn_cast<MatmulOp>(op)) {
    packed = matmul.getPackedAttr();
  }
  if (layout != ImageLayout::channels_last)
    return op->emitOpError("is channels_first after the layout stage");
  if (!packed)
    return success();
  Value value = op->getOperand(weights);
  if (auto narrow = value.getDefiningOp<DequantizeOp>())
    value = narrow.getValues();
  // Inside a fusion, look up the operand of the block argument.
  if (auto argument = dyn_cast<BlockArgument>(value))
    if (auto fusion = dyn_cast<FusionOp>(argument.getOwner()->getParentOp()))
      value = fusion.getInputs()[argument.getArgNumber()];
  // Values packed at run time come from an earlier fusion.
  if (auto source = value.getDefiningOp<FusionOp>())
    value = source.getBody().front().getTerminator()->getOperand(
        cast<OpResult>(value).getResultNumber());
  if (!value.getDefiningOp<ConstantOp>() && !value.getDefiningOp<PackOp>())
    return op->emitOpError("has packed weights that are neither a constant nor "
                           "the result of mpc.pack");
  return success();
}

//===----------------------------------------------------------------------===//
// Fuse
//===----------------------------------------------------------------------===//

/// Returns the op inside the producer's kernel that computes `value`, or null.
Operation *producerInKernel(Value value) {
  auto fusion = value.getDefiningOp<FusionOp>();
  if (!fusion)
    return nullptr;
  Operation *yield = fusion.getBody().front().getTerminator();
  return yield->getOperand(cast<OpResult>(value).getResultNumber())
      .getDefiningOp();
}

LogicalResult checkFusion(FusionOp fusion) {
  Block &body = fusion.getBody().front();
  if (!llvm::hasSingleElement(body.without_terminator()) ||
      fusion->getParentOp()->hasAttr(kUnfusedAttr))
    return success();
  auto cast = dyn_cast<CastOp>(&body.front());
  if (!cast || cast.getPinned())
    return success();
  Value source =
      fusion.getInputs().empty() ? Value() : fusion.getInputs().front();
  Operation *producer = source ? producerInKernel(source) : nullptr;
  if (!producer || !fusesResultCast(producer, CastFusionTarget()))
    return success();
  InFlightDiagnostic diag =
      fusion.emitOpError()
      << "is a cast kernel, but the cost model assumed that the cast is fused";
  diag.attachNote(producer->getLoc())
      << "the kernel of this op should contain the cast";
  return diag;
}

LogicalResult checkFused(Operation *op) {
  if (auto fusion = dyn_cast<FusionOp>(op))
    return checkFusion(fusion);
  if (op->getParentOfType<FusionOp>() || isa<ConstantOp, func::ReturnOp>(op) ||
      isView(op))
    return success();
  return op->emitOpError("is not inside a fusion");
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

struct VerifyStagePass : mpc::impl::VerifyStagePassBase<VerifyStagePass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    kind = parseStage(stage);
    if (!kind)
      return emitError(UnknownLoc::get(context))
             << "unknown stage '" << stage
             << "'; use import, lift, simplify, differentiate, precision, "
                "distribute, loss-scale, pad, layout or fuse";
    return success();
  }

  LogicalResult check(Operation *op) {
    ++numChecked;
    if (failed(checkDialect(op)) || failed(checkShape(op)))
      return failure();
    if (*kind < StageKind::Fuse && isa<FusionOp>(op))
      return op->emitOpError("must not occur before the fuse stage");
    if (*kind < StageKind::Precision && op->hasAttr(MpcDialect::kDecisionAttr))
      return op->emitOpError(
          "must not have a decision before the precision stage");
    // Later stages add ops without policy decisions.
    if (*kind == StageKind::Precision && failed(checkDecision(op)))
      return failure();
    if (*kind == StageKind::Distribute && failed(checkDistributed(op)))
      return failure();
    if (*kind >= StageKind::LossScale && isa<GradientSeedOp>(op))
      return op->emitOpError("must not remain after the loss-scale stage");
    if (*kind >= StageKind::Pad && failed(checkPadding(op)))
      return failure();
    if (*kind >= StageKind::Layout && failed(checkLayout(op)))
      return failure();
    if (*kind >= StageKind::Fuse && failed(checkFused(op)))
      return failure();
    return success();
  }

  void runOnOperation() override {
    markAllAnalysesPreserved();
    func::FuncOp func = getOperation();
    if (func.isDeclaration())
      return;
    if (!func.getBody().hasOneBlock()) {
      func.emitOpError("has more than one block");
      return signalPassFailure();
    }
    bool failedAny = failed(checkSignature(func)) ||
                     (func.isPublic() && failed(checkTraining(func, *kind)));
    if (*kind == StageKind::Precision && !failedAny)
      failedAny = failed(checkLossParts(func)) || failed(checkOutputs(func));
    func.getBody().walk([&](Operation *op) {
      if (!isa<YieldOp>(op))
        failedAny |= failed(check(op));
    });
    if (failedAny)
      signalPassFailure();
  }

  std::optional<StageKind> kind;
};

} // namespace
