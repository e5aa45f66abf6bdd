//===- LiftParameters.cpp - weights become arguments ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract in: Import's. Contract out: weights are arguments with names and
// initial values. Runs before Simplify, which would fold the weights into
// constants that training cannot reach.
//
//===----------------------------------------------------------------------===//

#include "EraseArgument.h"
#include "InitialValues.h"
#include "NameFilter.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Training/Passes.h"
#include "mpc/Dialect/Mpc/Transforms/UniqueNames.h"
#include "mpc/Reference/Tensor.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_LIFTPARAMETERSPASS
#include "mpc/Dialect/Mpc/Training/Passes.h.inc"
} // namespace mpc

//===----------------------------------------------------------------------===//
// What is a weight
//===----------------------------------------------------------------------===//

static FloatType floatElement(ConstantOp op) {
  return dyn_cast<FloatType>(getElementTypeOrSelf(op.getType()));
}

/// Masks hold infinities.
static bool isFinite(ConstantOp op) {
  if (std::optional<double> splat = splatValue(op.getValue()))
    return std::isfinite(*splat);
  FailureOr<reference::Tensor> tensor =
      reference::Tensor::fromAttr(op.getValue());
  return succeeded(tensor) && llvm::all_of(tensor->floats(), [](double value) {
           return std::isfinite(value);
         });
}

/// Whether a constant holds weights; a scalar does where its name was asked
/// for.
static bool holdsWeights(ConstantOp op, bool alsoScalars) {
  FloatType element = floatElement(op);
  if (!element || element.getWidth() < 16)
    return false;
  auto type = cast<RankedTensorType>(op.getType());
  bool scalar = type.getRank() == 0 || elementCount(type) <= 1;
  return (!scalar || alsoScalars) && elementCount(type) > 0 && isFinite(op);
}

/// The use of running statistics, or null: mean or variance of a batch norm.
static OpOperand *statisticsUse(ConstantOp op) {
  for (OpOperand &use : op->getUses())
    if (isa<BatchNormOp>(use.getOwner()) && use.getOperandNumber() >= 3)
      return &use;
  return nullptr;
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
    NameFilter frozen = llvm::cantFail(NameFilter::create(freeze)),
               chosen = llvm::cantFail(NameFilter::create(trainable));
    SmallVector<std::string> weights;
    if (failed(liftInputs(step, frozen, chosen, weights)))
      return signalPassFailure();
    StepFunction::Ports ports(step);
    SmallVector<ConstantOp> candidates;
    if (constants)
      llvm::append_range(candidates, step.body().getOps<ConstantOp>());
    UniqueNames names('.', /*first=*/2);
    for (const std::string &name : weights)
      names.reserve(name);
    for (ConstantOp op : candidates) {
      StringRef known = mpc::opName(op);
      if (inputsFrozen.contains(op))
        continue;
      bool isStatistics = statisticsUse(op);
      bool asked = !chosen.empty() && chosen.matches(known);
      if (!holdsWeights(op, chosen.isListed(known)))
        continue;
      weights.push_back(known.str());
      bool isFrozen =
          frozen.matches(known) || (!chosen.empty() && !asked && !isStatistics);
      if (isFrozen) {
        ++numFrozen;
        continue;
      }
      lift(step, op, names.make(known), isStatistics);
    }
    for (const NameFilter *filter : {&frozen, &chosen})
      if (StringRef text = filter->unmatched(); !text.empty()) {
        func.emitError() << "'" << text
                         << "' is the name of no weight; the model's are "
                         << llvm::join(weights, ", ");
        return signalPassFailure();
      }
    // A model that holds no weights has its batch norms in the form it wants.
    if (statistics && constants)
      trainBatchNorms(step);
  }

  /// What inputs that stay as they are became; weights are sought elsewhere.
  llvm::SmallPtrSet<Operation *, 8> inputsFrozen;

  /// Turns the inputs that are parameters into such, each where it stands.
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
        // It comes with every batch.
        func.removeArgAttr(number, MpcDialect::kInitialAttr);
        continue;
      }
      weights.push_back(name);
      auto type = cast<RankedTensorType>(argument.getType());
      auto element = dyn_cast<FloatType>(type.getElementType());
      bool isFrozen = frozen.matches(name);
      if ((!chosen.empty() && !chosen.matches(name)) || isFrozen) {
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
               << "' is donated to a result of the model; training renews it "
                  "itself: export the model without donation";
      auto master = element.getWidth() < 32
                        ? type.clone(Float32Type::get(&getContext()))
                        : type;
      if (seed >= 0) {
        initial = drawInitial(master, initialDistribution(argument),
                              uint64_t(int64_t(seed)), name);
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
             << "'" << text << "' is the name of no input; the model's are "
             << llvm::join(inputs, ", ");
    return success();
  }

  static LogicalResult hasNoValue(func::FuncOp func, BlockArgument argument,
                                  StringRef name) {
    return func.emitError()
           << "parameter '" << name << "' (" << argument.getType()
           << ") has no value to begin with; give an array of its name and "
              "type, or a seed to draw it from";
  }

  /// Gives an input the role of a parameter and the type of `initial`.
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

  /// Puts a constant in the place of an input.
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
    if (seed >= 0) {
      InitialDistribution distribution = initialDistribution(op.getResult());
      // Running variances begin with 1, means with 0.
      if (isStatistics)
        distribution = {InitialDistribution::Kind::Constant,
                        statisticsUse(op)->getOperandNumber() == 4 ? 1.0 : 0.0};
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

  /// Batch norms whose statistics became arguments use the batch's own and
  /// renew the running ones. One that runs twice renews them twice.
  void trainBatchNorms(const StepFunction &step) {
    llvm::DenseMap<Value, Value> newest;
    for (BatchNormOp op :
         llvm::make_early_inc_range(step.body().getOps<BatchNormOp>())) {
      auto mean = dyn_cast<BlockArgument>(op.getMean()),
           variance = dyn_cast<BlockArgument>(op.getVariance());
      if (!mean || !variance)
        continue;
      auto latest = [&](BlockArgument argument) {
        Value value = newest.lookup(argument);
        return value ? value : Value(argument);
      };
      OpBuilder builder(op);
      auto training = BatchNormTrainingOp::create(
          builder, op.getLoc(), op.getType(), mean.getType(),
          variance.getType(), op.getInput(), op.getScale(), op.getBias(),
          latest(mean), latest(variance), op.getEpsilonAttr(),
          builder.getF64FloatAttr(momentum));
      training->setDiscardableAttrs(op->getDiscardableAttrDictionary());
      op.getResult().replaceAllUsesWith(training.getResult());
      newest[mean] = training.getNewMean();
      newest[variance] = training.getNewVariance();
      step.setUpdate(mean, training.getNewMean());
      step.setUpdate(variance, training.getNewVariance());
      op.erase();
    }
  }
};

} // namespace
