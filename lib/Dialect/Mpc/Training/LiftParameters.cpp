//===- LiftParameters.cpp - weights to function arguments -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract in: Import's. Contract out: weights are arguments with names and
// initial values. Runs before Simplify, which would fold weights into constants
// out of reach of training.
//
//===----------------------------------------------------------------------===//

#include "EraseArgument.h"
#include "NameFilter.h"
#include "ParameterInitialization.h"
#include "TiedWeights.h"
#include "WeightClassifier.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Training/Passes.h"
#include "mpc/Dialect/Mpc/Transforms/UniqueNames.h"
#include "mpc/Reference/Tensor.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_LIFTPARAMETERSPASS
#include "mpc/Dialect/Mpc/Training/Passes.h.inc"
} // namespace mpc

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

static FloatType floatElement(ConstantOp op) {
  return dyn_cast<FloatType>(getElementTypeOrSelf(op.getType()));
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {

struct LiftParametersPass
    : mpc::impl::LiftParametersPassBase<LiftParametersPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    for (const std::string &text : llvm::concat<const std::string>(
             ArrayRef<std::string>(freeze), ArrayRef<std::string>(trainable),
             ArrayRef<std::string>(parameters)))
      if (llvm::Expected<NameFilter> filter = NameFilter::create(text); !filter)
        return emitError(UnknownLoc::get(context),
                         llvm::toString(filter.takeError()));
    if (!(momentum >= 0 && momentum <= 1))
      return emitError(UnknownLoc::get(context))
             << "momentum of running statistics must lie in [0, 1], found "
             << momentum;
    return success();
  }

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (func.isDeclaration() || !func.isPublic())
      return;
    inputsFrozen.clear();
    StepFunction step(func);
    if (failed(liftAll(step)))
      return signalPassFailure();
    // A model without stored weights defines its batch norms itself.
    if (constants)
      chooseBatchNormForms(step);
  }

  LogicalResult liftAll(const StepFunction &step) {
    func::FuncOp func = step.getFunction();
    NameFilter frozen = llvm::cantFail(NameFilter::create(freeze)),
               chosen = llvm::cantFail(NameFilter::create(trainable));
    SmallVector<std::string> weights;
    if (failed(liftInputs(step, frozen, chosen, weights)))
      return failure();
    Verdicts verdicts = judge(step);
    SmallVector<ConstantOp> trained;
    for (auto &[op, verdict] : verdicts)
      if (verdict.use == Use::Trained)
        trained.push_back(op);
    llvm::MapVector<ConstantOp, ConstantOp> originals =
        findTransposedCopies(trained);
    for (auto &[op, verdict] : verdicts)
      // A regular expression for weights must not match literals.
      if ((verdict.isNamed || verdict.use != Use::Frozen ||
           chosen.isListed(mpc::opName(op))) &&
          failed(choose(op, frozen, chosen, verdict)))
        return failure();
    if (failed(tie(originals, verdicts)))
      return failure();
    StepFunction::Ports ports(step);
    UniqueNames names('.', /*first=*/2);
    for (const std::string &name : weights)
      names.reserve(name);
    for (auto &[op, verdict] : verdicts) {
      StringRef known = mpc::opName(op);
      if (verdict.isNamed || verdict.use != Use::Frozen) {
        weights.push_back(known.str());
        report(known, op.getType(), verdict.use, verdict.reason);
      }
      if (verdict.use == Use::Frozen)
        numFrozen += verdict.isNamed;
      else if (originals.contains(op))
        op.erase();
      else
        lift(step, op, names.make(known), verdict.use == Use::Statistics);
    }
    for (const NameFilter *filter : {&frozen, &chosen})
      if (StringRef text = filter->unmatched(); !text.empty())
        return func.emitError()
               << "'" << text
               << "' matches no weight; the weights of the model are "
               << llvm::join(weights, ", ");
    return success();
  }

  using Use = WeightChoice::Use;
  using Verdict = WeightClassifier::Verdict;
  using Verdicts = llvm::MapVector<ConstantOp, Verdict>;

  /// Classifies each constant by the model's own evidence. A model with
  /// parameters as inputs has no others.
  Verdicts judge(const StepFunction &step) {
    Verdicts verdicts;
    if (!constants)
      return verdicts;
    WeightClassifier evidence(step);
    bool trains = !parameters.empty();
    for (auto op : step.body().getOps<ConstantOp>()) {
      if (inputsFrozen.contains(op))
        continue;
      Verdict verdict = evidence.judge(op);
      if (!parameters.empty() && verdict.use == Use::Trained) {
        verdict.use = Use::Frozen;
        verdict.reason = "the model takes its parameters as inputs";
      }
      trains |= verdict.use == Use::Trained;
      verdicts.insert({op, std::move(verdict)});
    }
    // A model that only scales and shifts its inputs trains these constants.
    for (auto &[op, verdict] : verdicts)
      if (!trains && verdict.onlyNormalizes) {
        verdict.use = Use::Trained;
        verdict.reason += ", and the model has no other parameter";
      }
    return verdicts;
  }

  /// Applies the options that name the constant.
  LogicalResult choose(ConstantOp op, NameFilter &frozen, NameFilter &chosen,
                       Verdict &verdict) {
    StringRef known = mpc::opName(op);
    if (verdict.isFixed) {
      if (chosen.isListed(known))
        return op.emitError() << "'" << known << "' of type " << op.getType()
                              << " cannot be trained: " << verdict.reason;
      if (frozen.isListed(known))
        frozen.matches(known);
      return success();
    }
    std::optional<StringRef> freezes = frozen.match(known),
                             trains = chosen.match(known);
    if (freezes && trains)
      return op.emitError() << "'" << known << "' is matched by '" << *trains
                            << "' of trainable and by '" << *freezes
                            << "' of freeze; remove it from one of them";
    if (freezes) {
      verdict.use = Use::Frozen;
      verdict.reason = ("'" + *freezes + "' of freeze matches it").str();
    } else if (trains && verdict.use != Use::Statistics) {
      verdict.use = Use::Trained;
      verdict.reason = ("'" + *trains + "' of trainable matches it").str();
    } else if (!chosen.empty() && verdict.use == Use::Trained) {
      verdict.use = Use::Frozen;
      verdict.reason = "trainable does not match it";
    }
    return success();
  }

  /// Replaces trained copies by the transpose of their originals, the keys by
  /// the values of `originals`.
  static LogicalResult
  tie(const llvm::MapVector<ConstantOp, ConstantOp> &originals,
      Verdicts &verdicts) {
    for (auto [copy, original] : originals) {
      Verdict &verdict = verdicts[copy];
      auto isTrained = [&](ConstantOp op) {
        return verdicts[op].use == Use::Trained;
      };
      if (isTrained(copy) != isTrained(original)) {
        ConstantOp held = isTrained(copy) ? original : copy;
        return copy.emitError()
               << "'" << mpc::opName(copy) << "' is the transpose of '"
               << mpc::opName(original) << "', so they are one weight, but '"
               << mpc::opName(held)
               << "' is not trained: " << verdicts[held].reason
               << "; name both or neither";
      }
      if (!isTrained(copy))
        continue;
      verdict.reason = WeightChoice::transposeOf(mpc::opName(original).str());
      OpBuilder builder(copy);
      copy.getResult().replaceAllUsesWith(
          TransposeOp::create(builder, copy.getLoc(), copy.getType(), original,
                              builder.getDenseI64ArrayAttr({1, 0})));
    }
    return success();
  }

  /// Reports the choice for weight `name`.
  void report(StringRef name, Type type, Use use, StringRef reason) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    Location loc = NameLoc::get(StringAttr::get(&getContext(), name));
    emitRemark(loc)
        << WeightChoice{name.str(), text, use, reason.str()}.toText();
  }

  /// Constants of frozen inputs, which are not candidates for weights.
  llvm::SmallPtrSet<Operation *, 8> inputsFrozen;

  /// Converts the inputs that are parameters in place.
  LogicalResult liftInputs(const StepFunction &step, NameFilter &frozen,
                           NameFilter &chosen,
                           SmallVectorImpl<std::string> &weights) {
    NameFilter filter = llvm::cantFail(NameFilter::create(parameters));
    func::FuncOp func = step.getFunction();
    SmallVector<std::string> inputs;
    for (BlockArgument argument : step.arguments(RoleKind::input)) {
      unsigned number = argument.getArgNumber();
      std::string name = step.argumentName(number).str();
      auto initial =
          func.getArgAttrOfType<ElementsAttr>(number, MpcDialect::kInitialAttr);
      inputs.push_back(name);
      if (!filter.matches(name)) {
        // An input that changes with every batch.
        func.removeArgAttr(number, MpcDialect::kInitialAttr);
        continue;
      }
      weights.push_back(name);
      auto type = cast<RankedTensorType>(argument.getType());
      auto element = dyn_cast<FloatType>(type.getElementType());
      std::optional<StringRef> freezes = frozen.match(name),
                               trains = chosen.match(name);
      if (freezes && trains)
        return func.emitError() << "'" << name << "' is matched by '" << *trains
                                << "' of trainable and by '" << *freezes
                                << "' of freeze; remove it from one of them";
      bool isTrained = !freezes && (chosen.empty() || trains);
      report(name, type, isTrained ? Use::Trained : Use::Frozen,
             isTrained ? "it is an input that is a parameter"
             : freezes ? "freeze matches it"
                       : "trainable does not match it");
      if (!isTrained) {
        if (!initial && element && seed >= 0)
          initial = drawInitial(type, initialDistribution(argument),
                                uint64_t(int64_t(seed)), name);
        if (!initial)
          return hasNoValue(func, argument, name);
        freezeInput(func, argument, name, initial);
        continue;
      }
      if (!element || element.getWidth() < 16)
        return func.emitError() << "input '" << name << "' of type " << type
                                << " cannot be trained; parameters are floats "
                                   "of 16 bits or more";
      if (step.updateOf(argument))
        return func.emitError()
               << "parameter '" << name
               << "' is donated to a result of the model, but training updates "
                  "it; export the model without donation";
      auto master = element.getWidth() < 32
                        ? type.clone(Float32Type::get(&getContext()))
                        : type;
      InitialDistribution distribution = initialDistribution(argument);
      bool keeps = distribution.kind == InitialDistribution::Kind::Kept;
      if (seed >= 0 && !(keeps && initial)) {
        initial =
            drawInitial(master, distribution, uint64_t(int64_t(seed)), name);
      } else if (!initial) {
        return hasNoValue(func, argument, name);
      } else if (master != type) {
        reference::Tensor tensor = *reference::Tensor::fromAttr(initial);
        initial = std::move(tensor).withType(master).toAttr(name);
      }
      makeParameter(func, argument, initial);
    }
    if (StringRef text = filter.unmatched(); !text.empty())
      return func.emitError()
             << "'" << text
             << "' matches no input; the inputs of the model are "
             << llvm::join(inputs, ", ");
    return success();
  }

  static LogicalResult hasNoValue(func::FuncOp func, BlockArgument argument,
                                  StringRef name) {
    return func.emitError()
           << "parameter '" << name << "' (" << argument.getType()
           << ") has no initial value; give an array with its name and type, "
              "or a seed for random values";
  }

  /// Gives an input role parameter and the type of `initial`.
  void makeParameter(func::FuncOp func, BlockArgument argument,
                     ElementsAttr initial) {
    unsigned number = argument.getArgNumber();
    func.setArgAttr(
        number, MpcDialect::kRoleAttr,
        RoleAttr::get(&getContext(), RoleKind::parameter, StringAttr()));
    func.setArgAttr(number, MpcDialect::kInitialAttr, initial);
    ++numParameters;
    Type narrow = argument.getType();
    if (initial.getType() == narrow)
      return;
    argument.setType(initial.getType());
    func.setType(FunctionType::get(&getContext(),
                                   func.getBody().getArgumentTypes(),
                                   func.getResultTypes()));
    auto builder = OpBuilder::atBlockBegin(argument.getOwner());
    auto cast = CastOp::create(builder, argument.getLoc(), narrow, argument);
    argument.replaceAllUsesExcept(cast, cast);
  }

  /// Replaces an input by a constant.
  void freezeInput(func::FuncOp func, BlockArgument argument, StringRef name,
                   ElementsAttr initial) {
    unsigned number = argument.getArgNumber();
    auto builder = OpBuilder::atBlockBegin(argument.getOwner());
    Location loc = NameLoc::get(builder.getStringAttr(name), argument.getLoc());
    auto constant = ConstantOp::create(builder, loc, initial);
    inputsFrozen.insert(constant);
    argument.replaceAllUsesWith(constant);
    eraseArgument(func, number);
    ++numFrozen;
  }

  void lift(const StepFunction &step, ConstantOp op, StringRef name,
            bool isStatistics) {
    auto type = cast<RankedTensorType>(op.getType());
    FloatType element = floatElement(op);
    ElementsAttr initial = op.getValue();
    auto master = element.getWidth() < 32
                      ? type.clone(Float32Type::get(&getContext()))
                      : type;
    InitialDistribution distribution = initialDistribution(op.getResult());
    if (seed >= 0 && (isStatistics ||
                      distribution.kind != InitialDistribution::Kind::Kept)) {
      // Running variances start at 1, means at 0.
      if (isStatistics)
        distribution = {
            InitialDistribution::Kind::Constant,
            statisticsUse(op.getResult())->getOperandNumber() == 4 ? 1.0 : 0.0};
      initial =
          drawInitial(master, distribution, uint64_t(int64_t(seed)), name);
    } else if (master != type) {
      reference::Tensor tensor = *reference::Tensor::fromAttr(initial);
      initial = std::move(tensor).withType(master).toAttr(name);
    }
    BlockArgument argument = step.appendArgument(
        master, isStatistics ? RoleKind::statistics : RoleKind::parameter, name,
        initial);
    argument.setLoc(op.getLoc());
    Value value = argument;
    if (master != type) {
      OpBuilder builder(op);
      value = CastOp::create(builder, op.getLoc(), type, argument);
    }
    op.getResult().replaceAllUsesWith(value);
    op.erase();
    ++numParameters;
  }

  static Value underCasts(Value value) {
    while (auto cast = value.getDefiningOp<CastOp>())
      value = cast.getInput();
    return value;
  }

  /// Returns the running-statistics argument that `value` is a cast of, or
  /// null.
  static BlockArgument statisticsArgument(const StepFunction &step,
                                          Value value) {
    auto argument = dyn_cast<BlockArgument>(underCasts(value));
    RoleAttr role =
        argument ? step.argumentRole(argument.getArgNumber()) : RoleAttr();
    return role && role.getKind() == RoleKind::statistics ? argument
                                                          : BlockArgument();
  }

  static Value castTo(OpBuilder &builder, Value value, Type element) {
    auto type = cast<RankedTensorType>(value.getType());
    return type.getElementType() == element
               ? value
               : CastOp::create(builder, value.getLoc(), type.clone(element),
                                value);
  }

  /// In training, batch norms with lifted statistics use batch statistics and
  /// update the running ones; a batch norm that runs twice updates them twice.
  /// All others, and all in evaluation, use the running statistics.
  void chooseBatchNormForms(const StepFunction &step) {
    llvm::DenseMap<Value, Value> newest;
    for (Operation &op : llvm::make_early_inc_range(step.body())) {
      if (!isa<BatchNormOp, BatchNormTrainingOp>(op))
        continue;
      BlockArgument mean = statisticsArgument(step, op.getOperand(3)),
                    variance = statisticsArgument(step, op.getOperand(4));
      // A model that is a complete training step updates its own statistics.
      if (mean && !newest.contains(mean) && step.updateOf(mean))
        continue;
      OpBuilder builder(&op);
      auto isKept = [&](Value value) {
        return statisticsArgument(step, value) ||
               underCasts(value).getDefiningOp<ConstantOp>();
      };
      if (statistics && mean && variance)
        trainBatchNorm(step, builder, &op, mean, variance, newest);
      else if (auto norm = dyn_cast<BatchNormTrainingOp>(op);
               norm && isKept(norm.getMean()) && isKept(norm.getVariance()))
        holdBatchNorm(builder, norm);
    }
  }

  void trainBatchNorm(const StepFunction &step, OpBuilder &builder,
                      Operation *op, BlockArgument runningMean,
                      BlockArgument runningVariance,
                      llvm::DenseMap<Value, Value> &newest) {
    // Statistics are f32 or f64.
    Type element = getElementTypeOrSelf(op->getOperand(3));
    if (!element.isF64())
      element = getElementTypeOrSelf(runningMean);
    auto latest = [&](BlockArgument argument) {
      Value value = newest.lookup(argument);
      return castTo(builder, value ? value : Value(argument), element);
    };
    Value mean = latest(runningMean), variance = latest(runningVariance);
    // The momentum in the file takes precedence over the option.
    Attribute weight = op->getAttr("momentum");
    auto training = BatchNormTrainingOp::create(
        builder, op->getLoc(), op->getResult(0).getType(), mean.getType(),
        variance.getType(), op->getOperand(0), op->getOperand(1),
        op->getOperand(2), mean, variance,
        cast<FloatAttr>(op->getAttr("epsilon")),
        weight ? cast<FloatAttr>(weight) : builder.getF64FloatAttr(momentum));
    training->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    op->getResult(0).replaceAllUsesWith(training.getResult());
    for (auto [argument, fresh] :
         {std::pair(runningMean, training.getNewMean()),
          std::pair(runningVariance, training.getNewVariance())}) {
      newest[argument] = castTo(builder, fresh, getElementTypeOrSelf(argument));
      step.setUpdate(argument, newest[argument]);
    }
    op->erase();
  }

  static void holdBatchNorm(OpBuilder &builder, BatchNormTrainingOp op) {
    Type element = getElementTypeOrSelf(op.getInput());
    auto held = BatchNormOp::create(
        builder, op.getLoc(), op.getResult().getType(), op.getInput(),
        op.getScale(), op.getBias(), castTo(builder, op.getMean(), element),
        castTo(builder, op.getVariance(), element), op.getEpsilonAttr());
    held->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    op.getResult().replaceAllUsesWith(held.getResult());
    op.erase();
  }
};

} // namespace
